//! Two processes serving one session.

use std::path::PathBuf;

use tokio::sync::oneshot;
use weft_core::journal::{Ending, Record};
use weft_core::seam::RunStore as _;
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::{Error, ErrorKind, TurnInput};
use weft_engine::Engine;

use crate::golden::{Input, read, samples};
use crate::kit::turn;
use crate::survival::{World, runtime};

/// A canvas whose tool needs approval, the question, and the answer.
fn approval() -> (PathBuf, TurnInput, TurnInput) {
    let folder = samples().join("agent_approval");
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let turns = &input.conversations[0].turns;
    (folder, turns[0].clone(), turns[1].clone())
}

async fn hold(world: &World, engine: &Engine, input: &TurnInput) -> Result<StoredRun, Error> {
    let mut handle = engine.start(turn(&world.plan, input.clone())).await?;
    while handle.entries.next().await?.is_some() {}
    world.store.store.get(&handle.key).await
}

/// How many times a tool was called in all runs, and how these ended, newest first.
async fn calls(world: &World) -> (usize, Vec<Option<Ending>>) {
    let filter = RunFilter { limit: 99, ..RunFilter::default() };
    let runs = world.store.list(&world.key.tenant, &filter).await.unwrap();
    let mut calls = 0;
    for run in &runs {
        let journal = world.journal(&run.key).await;
        let called = |record: &Record| matches!(record, Record::ToolStarted { .. });
        calls += journal.iter().filter(|entry| called(&entry.record)).count();
    }
    (calls, runs.iter().map(|run| run.ending).collect())
}

#[test]
fn an_approval_answered_in_two_processes_at_once_is_used_once() {
    let (folder, question, answer) = approval();
    runtime().block_on(async {
        let world = World::new(&folder).await;
        world.hold(&question).await;
        let (ours, theirs) = (world.engine(), world.engine());
        let (a, b) = tokio::join!(hold(&world, &ours, &answer), hold(&world, &theirs, &answer));
        let (done, refused) = match (a, b) {
            (Ok(done), Err(refused)) | (Err(refused), Ok(done)) => (done, refused),
            (a, b) => panic!("one of them, not {a:?} and {b:?}"),
        };
        assert_eq!(done.ending, Some(Ending::Succeeded));
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert!(refused.message.contains(done.key.id.as_str()), "{}", refused.full());
        assert_eq!(calls(&world).await, (1, vec![Some(Ending::Succeeded), Some(Ending::Waiting)]));
    });
}

#[test]
fn an_approval_already_used_by_another_process_is_not_reused() {
    let (folder, question, answer) = approval();
    runtime().block_on(async {
        let world = World::new(&folder).await;
        world.hold(&question).await;
        let (ours, theirs) = (world.engine(), world.engine());
        let (go_on, wait) = oneshot::channel();
        *world.store.announced_after.lock().unwrap() = Some(wait);
        let late = hold(&world, &ours, &answer);
        let prompt = async {
            // The other one has read the session and waits to announce its run.
            while world.store.announced_after.lock().unwrap().is_some() {
                tokio::task::yield_now().await;
            }
            let done = hold(&world, &theirs, &answer).await.unwrap();
            go_on.send(()).unwrap();
            done
        };
        let (late, done) = tokio::join!(late, prompt);
        assert_eq!((late.unwrap_err().kind, done.ending), (ErrorKind::Conflict, Some(Ending::Succeeded)));
        let (calls, endings) = calls(&world).await;
        // Nothing of the late one is stored.
        assert_eq!((calls, endings.len()), (1, 2));
        assert!(endings.iter().all(Option::is_some), "no run is left active: {endings:?}");
        // The session continues.
        assert!(hold(&world, &ours, &question).await.unwrap().ending.is_some());
    });
}
