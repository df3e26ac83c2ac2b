//! Two processes serving one session.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;
use weft_core::journal::{Ending, Record};
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::seam::task_store::{TaskFilter, TaskStatus};
use weft_core::seam::{RunStore, TaskStore};
use weft_core::{Error, ErrorKind, TaskId, TurnInput};
use weft_engine::{Engine, StartRun};

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
    RunStore::get(&*world.store.store, &handle.key).await
}

/// How many times a tool was called in all runs, and how these ended, newest first.
async fn calls(world: &World) -> (usize, Vec<Option<Ending>>) {
    let filter = RunFilter { limit: 99, ..RunFilter::default() };
    let runs = RunStore::list(&*world.store, &world.key.tenant, &filter).await.unwrap();
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

/// The tasks with this status.
async fn tasks(world: &World, status: TaskStatus) -> Vec<TaskId> {
    let filter = TaskFilter { status: Some(status), limit: 99, ..TaskFilter::default() };
    let (tasks, _) = TaskStore::list(&*world.store.store, &world.key.tenant, &filter).await.unwrap();
    tasks.into_iter().map(|task| task.key.id).collect()
}

/// Answers a task, and returns the run that continues.
async fn answer(world: &World, task: &TaskId, input: &TurnInput) -> Result<StoredRun, Error> {
    let request = StartRun { task: Some(task.clone()), ..turn(&world.plan, input.clone()) };
    let mut handle = world.engine().start(request).await?;
    while handle.entries.next().await?.is_some() {}
    RunStore::get(&*world.store.store, &handle.key).await
}

/// Stops a run that waits, and returns the run that ends it.
async fn stop(world: &World, run: &StoredRun) -> Result<Option<StoredRun>, Error> {
    let stopped = world.engine().stop_waiting(run, Arc::clone(&world.plan)).await?;
    let Some(mut handle) = stopped else { return Ok(None) };
    while handle.entries.next().await?.is_some() {}
    RunStore::get(&*world.store.store, &handle.key).await.map(Some)
}

/// The world with a run that waits for the only open task.
async fn waiting() -> (World, StoredRun, TaskId, TurnInput) {
    let (folder, question, answer) = approval();
    let world = World::new(&folder).await;
    world.hold(&question).await;
    let filter = RunFilter { limit: 9, ..RunFilter::default() };
    let run = RunStore::list(&*world.store, &world.key.tenant, &filter).await.unwrap().remove(0);
    let task = tasks(&world, TaskStatus::Open).await.remove(0);
    (world, run, task, answer)
}

/// One of an answer and a stop took place, and the other one left no trace.
async fn one_of(
    world: &World,
    answered: Result<StoredRun, Error>,
    stopped: Result<Option<StoredRun>, Error>,
) {
    let refused = |error: &Error| assert_eq!(error.kind, ErrorKind::Conflict, "{}", error.full());
    let (expected, end) = match (answered, stopped) {
        (Ok(done), stopped) => {
            assert_eq!(done.ending, Some(Ending::Succeeded));
            match stopped {
                Ok(stopped) => assert_eq!(stopped, None),
                Err(error) => refused(&error),
            }
            ((1, Ending::Succeeded), TaskStatus::Answered)
        }
        (Err(error), Ok(Some(run))) => {
            refused(&error);
            assert_eq!(run.ending, Some(Ending::Cancelled));
            ((0, Ending::Cancelled), TaskStatus::Dropped)
        }
        (answered, stopped) => panic!("one of them, not {answered:?} and {stopped:?}"),
    };
    let (calls, endings) = calls(world).await;
    assert_eq!((calls, endings.len()), (expected.0, 2));
    assert!(endings.contains(&Some(Ending::Waiting)) && endings.contains(&Some(expected.1)), "{endings:?}");
    assert_eq!((tasks(world, TaskStatus::Open).await.len(), tasks(world, end).await.len()), (0, 1));
}

#[test]
fn of_an_answer_and_a_stop_in_two_processes_one_succeeds() {
    runtime().block_on(async {
        let (world, run, task, given) = waiting().await;
        let (answered, stopped) = tokio::join!(answer(&world, &task, &given), stop(&world, &run));
        one_of(&world, answered, stopped).await;
        let (world, run, task, given) = waiting().await;
        let (stopped, answered) = tokio::join!(stop(&world, &run), answer(&world, &task, &given));
        one_of(&world, answered, stopped).await;
    });
}

/// One of them has read the session and is about to announce its run when the other one comes and goes.
#[test]
fn an_answer_and_a_stop_that_are_late_by_a_moment_are_refused() {
    runtime().block_on(async {
        let about_to_announce = async |world: &World| {
            while world.store.announced_after.lock().unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        let (world, run, task, given) = waiting().await;
        let (go_on, wait) = oneshot::channel();
        *world.store.announced_after.lock().unwrap() = Some(wait);
        let prompt = async {
            about_to_announce(&world).await;
            let stopped = stop(&world, &run).await;
            go_on.send(()).unwrap();
            stopped
        };
        let (answered, stopped) = tokio::join!(answer(&world, &task, &given), prompt);
        assert!(answered.is_err() && stopped.is_ok());
        one_of(&world, answered, stopped).await;

        let (world, run, task, given) = waiting().await;
        let (go_on, wait) = oneshot::channel();
        *world.store.announced_after.lock().unwrap() = Some(wait);
        let prompt = async {
            about_to_announce(&world).await;
            let answered = answer(&world, &task, &given).await;
            go_on.send(()).unwrap();
            answered
        };
        let (stopped, answered) = tokio::join!(stop(&world, &run), prompt);
        assert!(answered.is_ok() && stopped.is_err());
        one_of(&world, answered, stopped).await;
    });
}
