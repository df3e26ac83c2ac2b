//! Knowledge graphs of documents, and their use in a search.

use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::filter::{Condition, Filter, FilterOperator};
use weft_core::id::{DocumentId, DocumentKey};
use weft_core::seam::DatasetStore as _;
use weft_core::seam::dataset_store::{Document, Extra};
use weft_knowledge::ask::Step;
use weft_knowledge::graph::extract::{ExtractionMethod, extract};
use weft_knowledge::graph::gather::{BYTES_MAX, DOCUMENTS_AT_ONCE, GatheredGraphs};
use weft_knowledge::graph::question::TITLE;
use weft_knowledge::raptor::dataset::document_id;
use weft_knowledge::retrieve::{FilterChoice, Retrieval};
use weft_testkit::MemoryDatasets;
use weft_testkit::contracts::datasets::{dataset, document};

use crate::kit::{Library, ids, question};

fn people() -> Library {
    let library = Library::default().with(
        "people",
        "",
        &[("ada", json!({}), &["Ada wrote the notes."]), ("charles", json!({}), &["Charles built."])],
    );
    let graph = |name: &str, relation: Json| json!({"entities": [{"name": name, "kind": "person", "description": format!("{name} was a person.")}], "relations": [relation]});
    let works = json!({"source": "Ada", "target": "Charles", "description": "worked with", "weight": 3.0});
    library.extra("ada", Extra::Graph, graph("Ada", works));
    let builds = json!({"source": "CHARLES", "target": "Engine", "description": "built", "weight": 1.0});
    library.extra("charles", Extra::Graph, graph("Charles", builds));
    library
}

fn asked() -> Retrieval {
    Retrieval { graph: true, ..question("What did Ada do?", &["people"]) }
}

/// Row 61 and part 14.10.
#[tokio::test]
async fn the_graph_adds_exactly_one_first_passage() {
    let library = people();
    library.answers(Step::GraphQuestion, "{\"kinds\": [\"person\"], \"entities\": [\"Ada\"]}");
    let found = library.ask(&asked()).await;
    let titles: Vec<&str> = found.passages.iter().map(|p| p.chunk.document_name.as_str()).collect();
    assert_eq!(titles, [TITLE, "ada.pdf"]);
    let chunk = &found.passages[0].chunk;
    assert_eq!((chunk.similarity, chunk.document_id.as_str()), (Some(1.0), ""));
    let expected = "---- Entities\nentity,kind,description\nAda,person,Ada was a person.\n\
                    ---- Relations\nfrom,to,description\nAda,Charles,worked with";
    assert_eq!(chunk.content, expected);
    assert_eq!(library.0.asked.lock().unwrap().len(), 1, "the model is called once");
    // Further pages have further passages, without the graph again.
    let next = library.ask(&Retrieval { offset: 1, ..asked() }).await;
    assert!(next.passages.is_empty(), "{next:?}");
}

#[tokio::test]
async fn without_a_model_the_question_itself_queries_the_graph() {
    let library = people();
    library.fails(Step::GraphQuestion, ErrorKind::Unavailable);
    let found = library.ask(&asked()).await;
    assert!(found.passages[0].chunk.content.contains("Ada,person"));
    assert!(found.notes.last().unwrap().contains("with the unchanged question"), "{:?}", found.notes);
}

#[tokio::test]
async fn graphs_are_merged_once_and_again_after_a_change() {
    let library = people();
    let knowledge = library.knowledge();
    let ask = async || {
        library.answers(Step::GraphQuestion, "{\"entities\": [\"Ada\"]}");
        let found =
            weft_knowledge::retrieve::retrieve(&knowledge, &library, &"t".into(), &asked()).await.unwrap();
        ids(&found)[0].clone()
    };
    let first = ask().await;
    assert_eq!(ask().await, first);
    assert_eq!(*library.0.graphs_read.lock().unwrap(), 1);
    library.extra(
        "ada",
        Extra::Graph,
        json!({"entities": [{"name": "Ada", "kind": "poet"}], "relations": []}),
    );
    library.change_document("ada", |document| document.updated_ms += 1);
    let second = ask().await;
    assert_ne!(second, first);
    assert_eq!(*library.0.graphs_read.lock().unwrap(), 2);
    // A removed graph answers no more, though nothing else has changed.
    library.extra("ada", Extra::Graph, Json::Null);
    assert_ne!(ask().await, second);
    library.extra("charles", Extra::Graph, Json::Null);
    let found = weft_knowledge::retrieve::retrieve(&knowledge, &library, &"t".into(), &asked()).await;
    assert_eq!(found.unwrap().notes.last().unwrap(), "the datasets have no knowledge graph");
}

#[tokio::test]
async fn graphs_are_read_in_batches_within_limits() {
    let store = MemoryDatasets::new();
    let set = dataset(&"t".into(), "many");
    store.create(&set).await.unwrap();
    let documents = 2 * usize::try_from(DOCUMENTS_AT_ONCE).unwrap() + 3;
    let mut ids = Vec::new();
    for nth in 0..documents {
        let made = document(&set.key, &format!("{nth}.txt"));
        store.add_document(&made).await.unwrap();
        let graph = json!({"entities": [{"name": format!("n{nth}"), "kind": "person"}], "relations": []});
        store.put_extra(&made.key, Extra::Graph, &graph).await.unwrap();
        ids.push(made.key.id);
    }
    ids.sort();
    let gathered = async |bytes_max: usize, passes: &[DocumentId]| {
        let mut gathered = GatheredGraphs::within(bytes_max);
        gathered.add(&store, &set.key, |id| passes.contains(id)).await.unwrap();
        let of = gathered.parts.iter().map(|part| part.document.clone().unwrap()).collect::<Vec<_>>();
        (of, gathered.note())
    };
    assert_eq!(gathered(BYTES_MAX, &ids).await, (ids.clone(), None));
    assert_eq!(gathered(BYTES_MAX, &ids[7..9]).await, (ids[7..9].to_vec(), None));
    // The data on names across documents comes first, wherever its id sorts.
    let together =
        Document { key: DocumentKey::new(&set.key, document_id(&set.key)), ..document(&set.key, "names") };
    store.add_document(&together).await.unwrap();
    let aliases = json!({"entities": [], "relations": [], "aliases": [["n1", "n2"]]});
    store.put_extra(&together.key, Extra::Graph, &aliases).await.unwrap();
    let all: Vec<DocumentId> = std::iter::once(together.key.id).chain(ids).collect();
    assert_eq!(gathered(BYTES_MAX, &all).await, (all.clone(), None));
    let (some, note) = gathered(2_000, &all).await;
    assert!(!some.is_empty() && some.len() < 20, "{}", some.len());
    assert_eq!(some, all[..some.len()]);
    assert!(note.unwrap().contains(&format!("it covers {} documents", some.len())));
    assert!(gathered(0, &all).await.0.is_empty());
}

/// The graph covers the searched documents only.
#[tokio::test]
async fn a_graph_contains_only_the_searched_documents() {
    let library = people();
    library.change_document("ada", |document| {
        document.metadata = serde_json::Map::from_iter([("year".to_owned(), json!(1843))]);
    });
    let said = async |retrieval: Retrieval| {
        library.answers(Step::GraphQuestion, "{\"entities\": [\"Ada\", \"Charles\"]}");
        let found = library.ask(&Retrieval { graph: true, ..retrieval }).await;
        let text = &found.passages[0].chunk.content;
        (text.contains("Ada was a person"), text.contains("CHARLES was") || text.contains("Charles was"))
    };
    assert_eq!(said(asked()).await, (true, true));
    assert_eq!(said(Retrieval { documents: Some(vec!["charles".into()]), ..asked() }).await, (false, true));
    let condition = Condition { key: "year".to_owned(), operator: FilterOperator::Equal, value: json!(1843) };
    let filter = Filter { conditions: vec![condition], ..Filter::default() };
    assert_eq!(said(Retrieval { filter: FilterChoice::Given(filter), ..asked() }).await, (true, false));
    library.change_document("ada", |document| document.enabled = false);
    assert_eq!(said(asked()).await, (false, true));
    // A filter without matches leaves no graph.
    let condition = Condition { key: "year".to_owned(), operator: FilterOperator::Equal, value: json!(1) };
    let filter = FilterChoice::Given(Filter { conditions: vec![condition], ..Filter::default() });
    let found = library.ask(&Retrieval { filter, ..asked() }).await;
    assert!(found.passages.is_empty() && found.filter.word() == Some("empty"), "{found:?}");
}

#[tokio::test]
async fn datasets_without_a_graph_are_reported() {
    let library = Library::default().with("people", "", &[("ada", json!({}), &["Ada wrote."])]);
    let found = library.ask(&asked()).await;
    assert_eq!(ids(&found), ["ada-0"]);
    assert_eq!(found.notes.last().unwrap(), "the datasets have no knowledge graph");
}

#[tokio::test]
async fn a_graph_is_extracted_from_imperfect_answers() {
    let library = Library::default();
    let kinds = ["person".to_owned()];
    let texts = ["Ada worked with Charles.".to_owned()];
    let answer = "Sure:\n```json\n{'entities': [{'name': 'Ada', 'type': 'person', 'description': 'x'},], 'relations': [{'source': 'Ada', 'target': 'Charles', 'weight': 2}]}\n```";
    library.answers(Step::Graph, answer);
    let (graph, notes) = extract(&library, ExtractionMethod::Light, &kinds, &texts).await.unwrap().unwrap();
    let names: Vec<&str> = graph.entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!((names, graph.relations.len(), notes.len()), (vec!["Ada", "Charles"], 1, 0));
    library.answers(Step::Graph, "nothing to see");
    assert_eq!(
        extract(&library, ExtractionMethod::Light, &kinds, &texts).await.unwrap().unwrap_err().kind,
        ErrorKind::Garbled
    );
    // A part that could not be requested now is not one without content.
    let long = ["Ada worked. ".repeat(700), "Charles worked. ".repeat(700)];
    let entities = "{\"entities\": [{\"name\": \"Ada\"}], \"relations\": []}";
    library.answers(Step::Graph, entities).fails(Step::Graph, ErrorKind::RateLimited);
    assert_eq!(
        extract(&library, ExtractionMethod::Light, &kinds, &long).await.unwrap().unwrap_err().kind,
        ErrorKind::RateLimited
    );
    library.answers(Step::Graph, entities).fails(Step::Graph, ErrorKind::Timeout);
    assert_eq!(
        extract(&library, ExtractionMethod::General, &kinds, &texts).await.unwrap().unwrap_err().kind,
        ErrorKind::Timeout
    );
    library.answers(Step::Graph, entities).answers(Step::Graph, "nothing to see");
    let (graph, notes) = extract(&library, ExtractionMethod::Light, &kinds, &long).await.unwrap().unwrap();
    assert_eq!((graph.entities.len(), notes.len()), (1, 1));
}

#[tokio::test]
async fn the_careful_method_asks_for_missed_entities() {
    let library = Library::default();
    let entity =
        |name: &str| json!({"entities": [{"name": name, "kind": "person"}], "relations": []}).to_string();
    library
        .answers(Step::Graph, &entity("Ada"))
        .answers(Step::Graph, &entity("Charles"))
        .answers(Step::Graph, "{\"entities\": [], \"relations\": []}");
    let texts = ["Ada and Charles.".to_owned()];
    let kinds = ["person".to_owned()];
    let (graph, _) = extract(&library, ExtractionMethod::General, &kinds, &texts).await.unwrap().unwrap();
    assert_eq!(graph.entities.len(), 2);
    assert!(library.0.asked.lock().unwrap()[1].1.contains("Found so far: Ada"));
    // An unreadable part affects no other part.
    let long = vec!["x".repeat(8_000), "y".repeat(8_000)];
    library.answers(Step::Graph, "?").answers(Step::Graph, &entity("Ada"));
    let (graph, notes) = extract(&library, ExtractionMethod::Light, &kinds, &long).await.unwrap().unwrap();
    assert_eq!((graph.entities.len(), notes.len()), (1, 1));
}
