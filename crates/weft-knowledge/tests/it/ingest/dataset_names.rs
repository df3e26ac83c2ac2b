//! Synonymous names in the graphs of several documents.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_core::Json;
use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::{DocumentState, Extra};
use weft_knowledge::raptor::dataset::document_id;

use super::fakes::Faults;
use super::kit::{Process, World, dataset};

async fn work(process: &Process) {
    let stop = CancellationToken::new();
    tokio::select! {
        () = process.worker.run(&stop, Duration::ZERO) => unreachable!("nobody has stopped it"),
        () = tokio::time::sleep(Duration::from_secs(100)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn name_comparisons_across_documents_are_cached_and_removed_with_them() {
    let memory = weft_testkit::MemoryDatasets::new();
    let settings = json!({"graphrag": {"use_graphrag": true, "resolution": true}});
    let world = World::over(Arc::new(memory.clone()), Arc::new(memory), dataset("", &settings)).await;
    let process = world.process(Faults::default());
    let mut keys = Vec::new();
    for (id, name) in [("a", "Ada Lovelace"), ("b", "A. Lovelace"), ("c", "London")] {
        let key = world.add(id, id).await;
        world.queue(std::slice::from_ref(&key)).await;
        keys.push((key, json!({"entities": [{"name": name, "kind": "person"}], "relations": []})));
    }
    work(&process).await;
    for (key, graph) in &keys {
        world.store.put_extra(key, Extra::Graph, graph).await.unwrap();
    }
    let together = DocumentKey::new(&world.dataset, document_id(&world.dataset));
    let said = async || world.store.extra(&together, Extra::Graph).await.unwrap().unwrap_or(Json::Null);
    let asked = || process.models.chat.1.load(Ordering::SeqCst);
    for _ in 0..2 {
        process.library.ask_for_summaries(&world.dataset).await.unwrap();
        work(&process).await;
        assert_eq!(world.state(&together).await.0, DocumentState::Done);
        assert_eq!(said().await["aliases"], json!([["A. Lovelace", "Ada Lovelace"]]));
        assert_eq!(asked(), 1, "known results are not requested again");
    }
    process.library.remove_documents(&world.dataset, &["b".into()]).await.unwrap();
    work(&process).await;
    assert_eq!(said().await["aliases"], Json::Null);
    assert_eq!(asked(), 1);
}
