//! Runs as tasks of the protocol. A task is named by its first run; when that has waited for a person, the task
//! continues with the run that resumes it. All state is read from the store, so that any process can answer.

use serde_json::{Map, Value as Json};
use weft_app::tasks::Answering;
use weft_core::journal::Ending;
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::seam::task_store::{Task, TaskStatus};
use weft_core::{ErrorKind, RunId, RunKey, SessionKey};
use weft_mcp::serving::{Questions, RpcError, TaskState, TaskView};

use super::forms::{self, FormResponse};
use super::{Offering, results};
use crate::answer::collect;
use crate::dialect::ragflow::RunView;

/// Maximum number of runs of a session that are examined.
const RUNS_MAX: u64 = 1_000;
/// Number of tasks in one answer.
const PAGE: u64 = 20;

/// The state of a task.
struct Standing {
    /// Its first run.
    first: StoredRun,
    /// Its current run.
    now: StoredRun,
    /// The open tasks of the current run.
    open: Vec<Task>,
}

impl Offering {
    /// Returns a task, for its tenant.
    pub(super) async fn task_view(&self, id: &str) -> Result<TaskView, RpcError> {
        let first = self.run(id).await?;
        self.view(self.standing(first).await?).await
    }

    async fn run(&self, id: &str) -> Result<StoredRun, RpcError> {
        let key = RunKey::new(self.tenant(), id);
        self.app().runs.get(&key).await.map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                let shown: String = id.chars().take(128).collect();
                RpcError::params(format!("there is no task `{shown}`"))
            }
            _ => error.into(),
        })
    }

    /// Follows a task from its first run to the current one.
    async fn standing(&self, first: StoredRun) -> Result<Standing, RpcError> {
        if first.ending != Some(Ending::Waiting) {
            return Ok(Standing { now: first.clone(), first, open: Vec::new() });
        }
        let filter =
            RunFilter { session: Some(first.session.clone()), limit: RUNS_MAX, ..RunFilter::default() };
        let mut runs = self.app().runs.list(self.tenant(), &filter).await?;
        // The store lists the newest first.
        runs.reverse();
        let tasks = self.tasks_of(&first.session).await?;
        let now = last_of(&first, &runs, &tasks).clone();
        let open = match now.ending {
            Some(Ending::Waiting) => {
                tasks.into_iter().filter(|task| task.status == TaskStatus::Open).collect()
            }
            _ => Vec::new(),
        };
        Ok(Standing { first, now, open })
    }

    async fn view(&self, Standing { first, now, open }: Standing) -> Result<TaskView, RpcError> {
        let (state, message) = match now.ending {
            None => (TaskState::Working, "the run is under way"),
            Some(Ending::Cancelled) => (TaskState::Cancelled, "the run was cancelled"),
            // It was given up, or another question was asked in its session.
            Some(Ending::Waiting) if open.is_empty() => {
                (TaskState::Cancelled, "the run was stopped, or its session continued without it")
            }
            Some(Ending::Waiting) => {
                let requests = open.iter().map(|task| (task.key.id.to_string(), forms::question(task)));
                let questions = Questions { requests: requests.collect(), state: None };
                (TaskState::AsksFor(questions), "the run waits for a person")
            }
            Some(Ending::Succeeded) => (TaskState::Done(self.result(&now).await?), "the run has ended"),
            Some(Ending::Failed) => (TaskState::Done(self.result(&now).await?), "the run has failed"),
        };
        Ok(TaskView {
            id: first.key.id.to_string(),
            state,
            message: message.to_owned(),
            created: rfc3339(first.started_ms),
            updated: rfc3339(now.finished_ms.unwrap_or(now.started_ms)),
            ttl_ms: None,
        })
    }

    async fn result(&self, run: &StoredRun) -> Result<Map<String, Json>, RpcError> {
        let mut entries = self.app().engine.events(&run.key, 0).await?;
        let answer = collect(&mut entries, &mut RunView::from(run)).await?;
        Ok(results::of_run(&run.key.id, &run.session, &answer, &[]))
    }

    /// Answers the questions of a task; the run that continues has started before this returns.
    pub(super) async fn answer_questions(
        &self,
        id: &str,
        answers: Map<String, Json>,
    ) -> Result<(), RpcError> {
        let standing = self.standing(self.run(id).await?).await?;
        let given = match forms::hear(&standing.open, &answers) {
            FormResponse::Answers(given) => given,
            FormResponse::Declined => return self.give_up(&standing.now).await,
            FormResponse::Nothing => return Ok(()),
        };
        let session = SessionKey::new(self.tenant(), standing.now.session.clone());
        let session = self.app().sessions.load(&session).await?;
        // Nothing reads the run here, and without `background` a run without a reader would give way to the next
        // question.
        let with = Answering { background: true, ..Answering::default() };
        self.app().answer_tasks_with(&session, given, &self.state.waiting(None), with).await?;
        Ok(())
    }

    /// Stops the run of a task, which may wait for answers.
    pub(super) async fn cancel_run(&self, id: &str) -> Result<(), RpcError> {
        let standing = self.standing(self.run(id).await?).await?;
        self.app().cancel_run(&standing.now.key).await?;
        Ok(())
    }

    /// Gives up the open questions of a run.
    pub(super) async fn give_up(&self, run: &StoredRun) -> Result<(), RpcError> {
        let session = SessionKey::new(self.tenant(), run.session.clone());
        self.app().give_up_waiting(&session, &run.key.id).await?;
        Ok(())
    }

    /// Returns the newest runs of the tenant as tasks.
    pub(super) async fn task_views(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<TaskView>, Option<String>), RpcError> {
        let strange = || RpcError::params("`cursor` is not valid");
        let after = cursor.map(|cursor| place_of(cursor).ok_or_else(strange)).transpose()?;
        let filter = RunFilter { after, limit: PAGE, ..RunFilter::default() };
        let runs = self.app().runs.list(self.tenant(), &filter).await?;
        // A page that is not full is the last one.
        let last = runs.last().filter(|_| runs.len() as u64 == PAGE);
        let next = last.map(|run| format!("{}.{}", run.started_ms, run.key.id));
        let mut views = Vec::new();
        for run in runs {
            views.push(self.view(self.standing(run).await?).await?);
        }
        Ok((views, next))
    }
}

/// Parses a cursor as a position in the list. An offset would point to a different run as soon as a new run starts.
fn place_of(cursor: &str) -> Option<(i64, RunId)> {
    let (started_ms, id) = cursor.split_once('.')?;
    Some((started_ms.parse().ok()?, RunId::from(id)))
}

/// Returns the current run of a task: from a waiting run to the next one of the session, as long as that resumes it.
/// `runs` are those of the session, the oldest first.
fn last_of<'a>(first: &'a StoredRun, runs: &'a [StoredRun], tasks: &[Task]) -> &'a StoredRun {
    let goes_on = |run: &StoredRun| {
        let ended = |task: &&Task| matches!(task.status, TaskStatus::Answered | TaskStatus::TimedOut);
        // The tasks that a run has answered are only stored when it ends.
        run.ending.is_none()
            || tasks.iter().filter(ended).any(|task| task.ended_by.as_ref() == Some(&run.key.id))
    };
    let Some(place) = runs.iter().position(|run| run.key == first.key) else { return first };
    let mut now = first;
    for run in runs.iter().skip(place + 1) {
        if now.ending != Some(Ending::Waiting) || !goes_on(run) {
            break;
        }
        now = run;
    }
    now
}

fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
