//! A question in one process waits for a run of another process.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use weft_core::journal::Ending;
use weft_core::seam::RunStore as _;
use weft_core::{ErrorKind, RunKey, TurnInput};
use weft_engine::engine::PickedUp;
use weft_engine::{Engine, RunHandle};
use weft_testkit::memory_store::MemoryStore;

use crate::faults::{engine_on, stored};
use crate::kit::{Does, asking, node, plan, turn};

/// A store, and a run on it that takes ten seconds.
async fn begun() -> (Arc<MemoryStore>, Engine, RunHandle) {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(10_000), &[])]);
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let engine = engine_on(&memory);
    let handle = engine.start(turn(&plan, asking("q"))).await.unwrap();
    (memory, engine, handle)
}

/// Sends the requests of a question that waits in another process, at most `times` times. Returns how the run
/// ended, and when.
async fn ended(memory: &Arc<MemoryStore>, run: &RunKey, times: u32) -> (Ending, Duration) {
    let (waiting, began) = (engine_on(memory), Instant::now());
    for nth in 0.. {
        if let Some(ending) = memory.get(run).await.unwrap().ending {
            return (ending, began.elapsed());
        }
        if nth < times {
            waiting.ask_to_give_way(run).await.unwrap();
        }
        sleep(Duration::from_millis(500)).await;
    }
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn a_run_without_listeners_yields_to_a_question_waiting_in_another_process() {
    let (memory, _engine, handle) = begun().await;
    let run = handle.key.clone();
    drop(handle);
    let (ending, after) = ended(&memory, &run, u32::MAX).await;
    assert_eq!(ending, Ending::Cancelled);
    assert!(after > Duration::from_secs(2) && after < Duration::from_secs(5), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_continues_when_the_question_no_longer_waits() {
    let (memory, _engine, handle) = begun().await;
    let run = handle.key.clone();
    drop(handle);
    assert_eq!(ended(&memory, &run, 3).await.0, Ending::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_listener_anywhere_or_in_the_background_does_not_yield() {
    let (memory, _engine, handle) = begun().await;
    assert_eq!(ended(&memory, &handle.key, u32::MAX).await.0, Ending::Succeeded, "here");
    let (memory, engine, handle) = begun().await;
    let run = handle.key.clone();
    drop(handle);
    engine.run_in_background(&run);
    assert_eq!(ended(&memory, &run, u32::MAX).await.0, Ending::Succeeded, "in the background");
    let (memory, _engine, handle) = begun().await;
    let run = handle.key.clone();
    drop(handle);
    let mut elsewhere = engine_on(&memory).events(&run, 0).await.unwrap();
    let read = async { while elsewhere.next().await.unwrap().is_some() {} };
    let ((ending, _), ()) = tokio::join!(ended(&memory, &run, u32::MAX), read);
    assert_eq!(ending, Ending::Succeeded, "elsewhere");
}

/// A client that reads nothing for a while keeps its reader from polling.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_in_another_process_counts_as_a_listener() {
    let (memory, _engine, handle) = begun().await;
    let run = handle.key.clone();
    drop(handle);
    let mut elsewhere = engine_on(&memory).events(&run, 0).await.unwrap();
    let read = async {
        // Until nothing new has arrived for a moment.
        let some = async { while elsewhere.next().await.unwrap().is_some() {} };
        assert!(tokio::time::timeout(Duration::from_millis(500), some).await.is_err());
        sleep(Duration::from_secs(8)).await;
        while elsewhere.next().await.unwrap().is_some() {}
    };
    let ((ending, _), ()) = tokio::join!(ended(&memory, &run, u32::MAX), read);
    assert_eq!(ending, Ending::Succeeded);
}

/// A client that has read in another process and left no longer counts as a listener.
#[tokio::test(start_paused = true)]
async fn a_reader_that_left_another_process_no_longer_counts() {
    let (memory, _engine, handle) = begun().await;
    let run = handle.key.clone();
    drop(handle);
    let mut elsewhere = engine_on(&memory).events(&run, 0).await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(4), async move {
        while elsewhere.next().await.unwrap().is_some() {}
    });
    let ((ending, after), _) = tokio::join!(ended(&memory, &run, u32::MAX), read);
    assert_eq!(ending, Ending::Cancelled);
    assert!(after > Duration::from_secs(4) && after < Duration::from_secs(8), "{after:?}");
}

/// So the process of a run knows that it has to ask before it stops the run for a question of its own.
#[tokio::test(start_paused = true)]
async fn readers_in_other_processes_are_known_in_advance() {
    let (memory, engine, handle) = begun().await;
    assert!(!engine.was_listened_to_elsewhere(&handle.key).await.unwrap());
    let mut elsewhere = engine_on(&memory).events(&handle.key, 0).await.unwrap();
    let read = async { while elsewhere.next().await.unwrap().is_some() {} };
    let known = async {
        sleep(Duration::from_millis(500)).await;
        engine.was_listened_to_elsewhere(&handle.key).await.unwrap()
    };
    assert!(tokio::join!(read, known).1);
}

/// Otherwise its clients would hold it up until the run ends, and be cut off without a word.
#[tokio::test(start_paused = true)]
async fn a_reader_in_another_process_learns_that_this_process_stops() {
    let (memory, _engine, handle) = begun().await;
    let (elsewhere, began) = (engine_on(&memory), Instant::now());
    let mut reader = elsewhere.events(&handle.key, 0).await.unwrap();
    let read = async {
        loop {
            match reader.next().await {
                Ok(entry) => assert!(entry.is_some(), "the run is under way"),
                Err(error) => return error,
            }
        }
    };
    let stop = async {
        sleep(Duration::from_secs(2)).await;
        elsewhere.shut_down(Duration::ZERO).await;
    };
    let (error, ()) = tokio::join!(read, stop);
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.full().contains("continues in another one"), "{}", error.full());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(ended(&memory, &handle.key, 0).await.0, Ending::Succeeded);
}

/// A background run has no reader in any process.
#[tokio::test(start_paused = true)]
async fn a_background_run_never_yields_even_after_recovery() {
    let plan = plan(&[node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(10_000), &[])]);
    let memory = Arc::new(MemoryStore::default());
    stored(&memory, &plan).await;
    let first = engine_on(&memory);
    let input = TurnInput { background: true, ..asking("q") };
    let run = first.start(turn(&plan, input)).await.unwrap().key;
    sleep(Duration::from_secs(1)).await;
    first.shut_down(Duration::ZERO).await;
    let handed_over = memory.get(&run).await.unwrap();
    let next = engine_on(&memory);
    assert!(matches!(next.pick_up(&handed_over, plan).await.unwrap(), PickedUp::Running(_)));
    assert_eq!(ended(&memory, &run, u32::MAX).await.0, Ending::Succeeded);
}
