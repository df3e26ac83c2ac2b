//! Two libraries searched as one.

use std::sync::Arc;

use serde_json::json;
use weft_core::seam::Knowledge;
use weft_core::seam::dataset_store::Extra;
use weft_knowledge::ask::Step;
use weft_knowledge::combined::CombinedKnowledge;
use weft_knowledge::retrieve::{FilterChoice, Retrieval, Retrieved, retrieve};

use crate::kit::{Library, ids, question};

fn both() -> (Library, CombinedKnowledge) {
    let beside =
        Library::default().with("beside", "", &[("b", json!({"year": 1}), &["one tiger", "tiger and more"])]);
    let kept = Library::default().with("kept", "", &[("k", json!({"year": 2}), &["tiger", "one"])]).with(
        "beside",
        "",
        &[("hidden", json!({}), &["one tiger"])],
    );
    let together = CombinedKnowledge::new(Arc::new(beside.knowledge()), Arc::new(kept.knowledge()));
    (beside, together)
}

async fn ask(together: &CombinedKnowledge, model: &Library, asked: &Retrieval) -> Retrieved {
    retrieve(together as &dyn Knowledge, model, &"t".into(), asked).await.unwrap()
}

#[tokio::test]
async fn two_libraries_are_merged_into_one_list() {
    let (model, together) = both();
    let all = ask(&together, &model, &question("one tiger", &[])).await;
    assert_eq!(ids(&all), ["b-0", "b-1", "k-0", "k-1"]);
    assert_eq!((all.total, all.documents.len(), all.datasets.len()), (4, 2, 2));
    let kept = ask(&together, &model, &question("one tiger", &["kept"])).await;
    assert_eq!(ids(&kept), ["k-0", "k-1"]);
    let mut pages = Vec::new();
    for offset in 0..4 {
        pages.extend(ids(&ask(
            &together,
            &model,
            &Retrieval { offset, limit: 1, ..question("one tiger", &[]) },
        )
        .await));
    }
    assert_eq!(pages, ids(&all));
}

#[tokio::test]
async fn filters_apply_to_both_libraries() {
    let (model, together) = both();
    model.answers(Step::Filter, "[{\"key\": \"year\", \"op\": \">\", \"value\": 1}]");
    let filter = FilterChoice::ByModel { keys: Vec::new() };
    let found = ask(&together, &model, &Retrieval { filter, ..question("tiger", &[]) }).await;
    assert_eq!(ids(&found), ["k-0"]);
    assert!(model.0.asked.lock().unwrap()[0].1.contains("- year: 1 | 2"));
}

#[tokio::test]
async fn a_report_is_returned_from_whichever_library_has_it() {
    let beside = Library::default().with("beside", "", &[("b", json!({}), &["one"])]);
    let kept = Library::default().with("people", "", &[("ada", json!({}), &["Ada wrote."])]);
    let graph = json!({
        "entities": [{"name": "Ada", "kind": "person", "description": "She wrote."}],
        "relations": [],
        "reports": [{"title": "Notes", "text": "They wrote notes.", "entities": ["Ada"]}],
    });
    kept.extra("ada", Extra::Graph, graph);
    for (first, second) in [(&beside, &kept), (&kept, &beside)] {
        let together = CombinedKnowledge::new(Arc::new(first.knowledge()), Arc::new(second.knowledge()));
        beside.answers(Step::GraphQuestion, "{\"entities\": [\"Ada\"]}");
        let asked = Retrieval { graph: true, ..question("Who is Ada?", &[]) };
        let found = ask(&together, &beside, &asked).await;
        let told = &found.passages[0].chunk.content;
        assert!(told.contains("---- Report: Notes\nThey wrote notes."), "{told}");
    }
}
