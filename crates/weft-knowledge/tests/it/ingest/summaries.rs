//! Summaries of related chunks.

use std::sync::atomic::Ordering;

use serde_json::json;
use weft_core::Json;
use weft_core::seam::dataset_store::{DocumentState, StoredChunk};
use weft_knowledge::raptor::{LEVEL, OF, is_summary};

use super::fakes::{Fault, Faults};
use super::kit::{World, dataset};

/// Lines about three subjects.
fn text() -> String {
    let lines = (0..36).map(|n| format!("about {}: number {n}", n % 3));
    lines.collect::<Vec<_>>().join("\n")
}

async fn world(settings: &Json) -> World {
    let memory = weft_testkit::MemoryDatasets::new();
    let set = dataset("hash@Test", settings);
    World::over(std::sync::Arc::new(memory.clone()), std::sync::Arc::new(memory), set).await
}

fn level(chunk: &StoredChunk) -> u64 {
    chunk.fields[LEVEL].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn related_chunks_are_summarised_level_by_level() {
    let world = world(&json!({"raptor": {"use_raptor": true}})).await;
    let key = world.add("d", &text()).await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    assert!(world.work(&process).await);
    assert_eq!(world.state(&key).await, (DocumentState::Done, "Task done".to_owned()));
    let found = world.found(&key).await;
    let (summaries, chunks): (Vec<_>, Vec<_>) = found.into_iter().partition(is_summary);
    assert_eq!(chunks.len(), 36);
    let asked = process.models.chat.1.load(Ordering::SeqCst);
    assert_eq!(summaries.len(), asked, "one request for each");
    assert!(summaries.len() > 1 && summaries.iter().map(level).max() > Some(1), "{}", summaries.len());
    let highest = summaries.iter().map(level).max().unwrap();
    assert_eq!(
        summaries.iter().filter(|one| level(one) == highest).count(),
        1,
        "finally there is one of all"
    );
    assert!(summaries.iter().all(|one| one.vector.is_some() && one.content.starts_with("sum of")));
    let held = world.index.held(&key.dataset);
    assert!(
        summaries.iter().all(|one| held.chunks.contains_key(&one.id)),
        "they are found like other chunks"
    );
    let mut of: Vec<&str> = summaries.iter().map(|one| one.fields[OF].as_str().unwrap()).collect();
    of.sort_unstable();
    of.dedup();
    assert_eq!(of.len(), summaries.len());
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_stored_summaries_are_not_requested_again() {
    let settings = json!({"raptor": {"use_raptor": true}});
    let undisturbed = world(&settings).await;
    let key = undisturbed.add("d", &text()).await;
    undisturbed.queue(std::slice::from_ref(&key)).await;
    let process = undisturbed.process(Faults::default());
    assert!(undisturbed.work(&process).await);
    let (expected, steps) = (undisturbed.dump().await, process.faults.steps());
    let asked = process.models.chat.1.load(Ordering::SeqCst);
    for step in 0..steps {
        let world = world(&settings).await;
        let key = world.add("d", &text()).await;
        world.queue(std::slice::from_ref(&key)).await;
        let crashing = world.process(Faults::at(step, Fault::Crash));
        if world.work(&crashing).await {
            continue;
        }
        let first = crashing.models.chat.1.load(Ordering::SeqCst);
        let kept = world.kept_summaries(&key).await;
        drop(crashing);
        let second = world.process(Faults::default());
        assert!(world.work(&second).await);
        assert!(world.dump().await == expected, "after a crash at step {step}");
        let again = second.models.chat.1.load(Ordering::SeqCst);
        assert!(again <= asked - kept, "step {step}: {again} requested again, {kept} were stored of {first}");
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_that_cannot_be_summarised_are_reported() {
    let summed = json!({"raptor": {"use_raptor": true}});
    let memory = weft_testkit::MemoryDatasets::new();
    let words =
        World::over(std::sync::Arc::new(memory.clone()), std::sync::Arc::new(memory), dataset("", &summed))
            .await;
    let key = words.add("d", "one\ntwo").await;
    words.queue(std::slice::from_ref(&key)).await;
    assert!(words.work(&words.process(Faults::default())).await);
    let (state, message) = words.state(&key).await;
    assert!(state == DocumentState::Done && message.contains("Summaries (raptor) need vectors"), "{message}");
    // One chunk needs no summary.
    let world = world(&summed).await;
    let key = world.add("d", "one").await;
    world.queue(std::slice::from_ref(&key)).await;
    let process = world.process(Faults::default());
    assert!(world.work(&process).await);
    assert_eq!(process.models.chat.1.load(Ordering::SeqCst), 0);
}
