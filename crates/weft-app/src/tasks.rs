//! Tasks for people, and their answers.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Map;
use weft_core::error::found;
use weft_core::seam::run_store::RunLease;
use weft_core::seam::session_store::{Session, SessionCommit};
use weft_core::seam::task_store::{DuePosition, Task, TaskChange, TaskFilter, TaskKind, TaskStatus};
use weft_core::value::listed;
use weft_core::{
    CanvasKey, Error, ErrorKind, Json, Result, RunId, RunKey, SessionKey, TaskId, TaskKey, TurnInput,
};
use weft_engine::form::satisfied;
use weft_engine::{RunHandle, SessionState, StartRun};

use crate::app::App;
use crate::idempotency::with_files_noted;
use crate::late::ended;
use crate::notifications::overdue;
use crate::turns::Waiting;

/// Interval for checking for expired tasks.
// Time limits of tasks are given in seconds.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of tasks that are handled in one check.
const TIMED_OUT_AT_ONCE_MAX: u64 = 1_000;
/// How often to check whether a concurrent request has ended a task.
const LOOKS_MAX: u32 = 10;
/// Pause between these checks.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A person's answer to a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskAnswer {
    /// Values for the fields of its form.
    Inputs(Map<String, Json>),
    /// A decision such as `approve`, or an object with a `decision`.
    Decision(Json),
}

/// Properties of the run that continues with an answer, set before it starts.
#[derive(Clone, Debug, Default)]
pub struct Answering {
    /// The id of the run, if a key of the caller determines it.
    pub run: Option<RunId>,
    /// Notes for its journal, as in [`TurnInput::notes`].
    pub notes: Option<Box<Map<String, Json>>>,
    /// Whether the run has no reader, as in [`TurnInput::background`].
    pub background: bool,
}

/// Returns the suspended run of a session that waits for people, as of when the session was read.
pub fn waiting_run(session: &Session) -> Option<RunId> {
    session.state.pointer("/paused/run").and_then(Json::as_str).map(RunId::from)
}

impl App {
    /// Answers a task: starts the run that continues the session.
    ///
    /// # Errors
    /// `NotFound` for an unknown task; `Conflict` when it is no longer open, or while another turn of its session is
    /// under way; `Invalid` for an answer that does not fit the task; as [`App::start_turn`].
    pub async fn answer_task(
        &self,
        key: &TaskKey,
        answer: TaskAnswer,
        waiting: &Waiting,
    ) -> Result<(Session, RunHandle)> {
        let task = self.tasks.get(key).await?;
        let session = self.sessions.load(&SessionKey::new(&key.tenant, task.session.clone())).await?;
        let handle = self.answer_tasks(&session, vec![(key.clone(), answer)], waiting).await?;
        Ok((session, handle))
    }

    /// Answers tasks of one session in one turn.
    ///
    /// # Errors
    /// As [`App::answer_task`]; `NotFound` also for a task of another session, `Invalid` without any.
    pub async fn answer_tasks(
        &self,
        session: &Session,
        answers: Vec<(TaskKey, TaskAnswer)>,
        waiting: &Waiting,
    ) -> Result<RunHandle> {
        self.answer_tasks_with(session, answers, waiting, Answering::default()).await
    }

    /// The same with further properties of the run. If the run has already started with the same answers, returns
    /// that run.
    ///
    /// # Errors
    /// As [`App::answer_tasks`]; `Invalid` also when the run has started with different ones.
    pub async fn answer_tasks_with(
        &self,
        session: &Session,
        answers: Vec<(TaskKey, TaskAnswer)>,
        waiting: &Waiting,
        Answering { run, notes, background }: Answering,
    ) -> Result<RunHandle> {
        let (task, inputs) = self.given_to_tasks(session, answers, run.as_ref()).await?;
        // The waiting run is not the one that answers, even if a client uses the same name for both.
        let waits = waiting_run(session);
        let run = run.filter(|run| task.status != TaskStatus::Open || waits.as_ref() != Some(run));
        let (_asks, known) = match &run {
            Some(run) => {
                let key = RunKey::new(&session.key.tenant, run.clone());
                let (asks, known) = self.one_of_equals(&key, waiting).await?;
                (Some(asks), known)
            }
            None => (None, None),
        };
        let input =
            TurnInput { inputs, notes, background, user_id: session.user_id.clone(), ..TurnInput::default() };
        match known {
            Some(known) if known.session != session.key.id => {
                return Err(Error::invalid("the idempotency key was used in another session"));
            }
            Some(known) => return self.again(&known, &input).await,
            None => {}
        }
        let input = if run.is_some() { with_files_noted(input) } else { input };
        let start = || -> BoxFuture<'_, Result<RunHandle>> {
            Box::pin(self.start_for_task(session, &task, input.clone(), run.clone()))
        };
        let outcome = self.take_turn(&session.key, waiting, start).await;
        self.unless_ended(Some(&task.key), outcome).await
    }

    /// Returns the task that the values of a turn answer, among those for which its session waited when it was read.
    /// If a concurrent request answers first, the values start nothing else.
    pub(crate) async fn answered_by(&self, session: &Session, input: &TurnInput) -> Result<Option<TaskKey>> {
        if input.inputs.is_empty() || session.state.get("paused").is_none_or(Json::is_null) {
            return Ok(None);
        }
        let open: Vec<TaskId> = {
            let state = SessionState::from_json(&session.state)?;
            state.paused.iter().flat_map(|paused| paused.open_tasks()).collect()
        };
        let is_only = open.len() == 1;
        for id in open {
            let task = found(self.tasks.get(&TaskKey::new(&session.key.tenant, id)).await)?;
            // Whatever is said to a form without fields is its answer, unless it may be that of another one.
            let unsaid = |task: &Task| is_only && task.form.fields.is_empty();
            if let Some(task) = task.filter(|task| is_meant(task, &input.inputs) || unsaid(task)) {
                return Ok(Some(task.key));
            }
        }
        Ok(None)
    }

    /// Returns the outcome of starting the turn for a task. A concurrent request may have ended the task while this
    /// answer was queued or checked.
    pub(crate) async fn unless_ended<T>(&self, task: Option<&TaskKey>, outcome: Result<T>) -> Result<T> {
        match (task, outcome) {
            (Some(task), Err(error)) if error.kind == ErrorKind::Conflict => {
                Err(self.ended_since(task, error).await)
            }
            (_, outcome) => outcome,
        }
    }

    /// Returns the first of some tasks of a session, which are open or were ended by `run`, and all answers to them
    /// as the input of a turn.
    async fn given_to_tasks(
        &self,
        session: &Session,
        answers: Vec<(TaskKey, TaskAnswer)>,
        run: Option<&RunId>,
    ) -> Result<(Task, Map<String, Json>)> {
        let (mut inputs, mut first) = (Map::new(), None);
        for (key, answer) in answers {
            let task = self.tasks.get(&key).await?;
            if task.session != session.key.id {
                return Err(not_of_session(&key));
            }
            if task.status != TaskStatus::Open && (run.is_none() || task.ended_by.as_ref() != run) {
                return Err(ended(&task));
            }
            let given = given(&task, answer)?;
            // Several tasks may be fields of one form.
            match inputs.entry(task.address.clone()).or_insert_with(|| Json::Object(Map::new())) {
                Json::Object(fields) => fields.extend(given),
                other => *other = Json::Object(given),
            }
            first.get_or_insert(task);
        }
        let task = first.ok_or_else(|| Error::invalid("the request answers no task"))?;
        Ok((task, inputs))
    }

    /// Returns why an open task could not be answered: how it has ended since then, if it has.
    async fn ended_since(&self, key: &TaskKey, error: Error) -> Error {
        match self.tasks.get(key).await {
            Ok(task) if task.status != TaskStatus::Open => ended(&task),
            Ok(_) | Err(_) => error,
        }
    }

    /// Gives up the open tasks of a suspended run: they are dropped, and the next question of its session starts a
    /// new turn. Returns whether the run was waiting.
    ///
    /// # Errors
    /// `NotFound` for an unknown session; `Conflict` when a turn of it is under way, or has just ended.
    pub async fn give_up_waiting(&self, session: &SessionKey, run: &RunId) -> Result<bool> {
        let stored = self.sessions.load(session).await?;
        if waiting_run(&stored).as_ref() != Some(run) {
            return Ok(false);
        }
        // Otherwise a turn that starts meanwhile would fail at its end, because the session has changed. One of
        // another process is found here, or by the store when it makes the change.
        let _held = self.engine.hold_session(session)?;
        if let Some(busy) = self.engine.at_work(session).await? {
            return Err(weft_core::seam::run_store::at_work(&session.id, &busy.key.id));
        }
        self.drop_tasks(stored, run, None).await?;
        Ok(true)
    }

    /// Drops the open tasks of a session, which waits for nobody from then on. `by` is the run that drops them, with
    /// its lease while it is under way.
    pub(crate) async fn drop_tasks(
        &self,
        session: Session,
        by: &RunId,
        lease: Option<&RunLease>,
    ) -> Result<()> {
        let Session { key, revision, mut state, .. } = session;
        if let Json::Object(members) = &mut state {
            members.remove("paused");
        }
        let at_ms = self.clock.now_ms();
        let change = TaskChange { run: by.clone(), at_ms, open: Vec::new(), ended: Vec::new() };
        let commit = SessionCommit { revision, state: &state, messages: &[], tasks: Some(&change), lease };
        self.sessions.commit(&key, commit).await
    }

    /// Gives up the open tasks of a session if there is a form among `tasks`, which are to be cancelled: unlike a
    /// call, a form cannot be answered with a refusal. Returns whether there was one; if not, nothing has changed. A
    /// form that was already dropped remains so.
    ///
    /// # Errors
    /// `NotFound` for a task of another session; `Conflict` for a form that has ended in another way, and while a turn
    /// of the session is under way.
    pub async fn cancel_forms(&self, session: &Session, tasks: &[TaskKey]) -> Result<bool> {
        let mut forms = Vec::new();
        for key in tasks {
            let task = self.tasks.get(key).await?;
            if task.session != session.key.id {
                return Err(not_of_session(key));
            }
            if task.kind == TaskKind::Form {
                forms.push(task);
            }
        }
        if let Some(task) = forms.iter().find(|task| is_past(task)) {
            return Err(ended(task));
        }
        let Some(open) = forms.iter().find(|task| task.status == TaskStatus::Open) else {
            return Ok(!forms.is_empty());
        };
        let given_up = match waiting_run(session) {
            Some(run) => self.give_up_waiting(&session.key, &run).await,
            None => Ok(false),
        };
        let error = match given_up {
            Ok(true) => return Ok(true),
            Ok(false) => weft_core::seam::run_store::at_work(&session.key.id, &open.run),
            Err(error) if error.kind == ErrorKind::Conflict => error,
            Err(error) => return Err(error),
        };
        // A concurrent request has dropped it as well, or has answered it, which may be about to be stored.
        for _ in 0..LOOKS_MAX {
            let task = self.tasks.get(&open.key).await?;
            match task.status {
                TaskStatus::Dropped => return Ok(true),
                TaskStatus::Open => tokio::time::sleep(LOOK_PAUSE).await,
                TaskStatus::Answered | TaskStatus::TimedOut => return Err(ended(&task)),
            }
        }
        Err(error)
    }

    /// Resumes the runs of all tenants whose tasks have expired, one per session. Returns those that were started.
    ///
    /// # Errors
    /// When the store cannot be read. A failure to resume a single run is logged.
    pub async fn time_out_tasks(&self) -> Result<Vec<RunHandle>> {
        self.time_out_tasks_after(&mut None).await
    }

    /// The same for the tasks after this position, which moves past those that were handled: however many of them
    /// cannot be resumed, the next call handles those behind them. After the last one it starts from the beginning.
    ///
    /// # Errors
    /// As [`App::time_out_tasks`].
    pub async fn time_out_tasks_after(&self, after: &mut Option<DuePosition>) -> Result<Vec<RunHandle>> {
        let tasks = self.tasks.due(self.clock.now_ms(), after.as_ref(), TIMED_OUT_AT_ONCE_MAX).await?;
        // A batch that is not full was the last one.
        let last = tasks.last().filter(|_| tasks.len() as u64 >= TIMED_OUT_AT_ONCE_MAX);
        *after = last.and_then(|task| Some((task.due_ms?, task.key.clone())));
        let (mut sessions, mut begun) = (HashSet::new(), Vec::new());
        for task in tasks {
            // The turn that handles a task handles all expired ones of its session.
            if !sessions.insert((task.key.tenant.clone(), task.session.clone())) {
                continue;
            }
            match self.time_out(&task).await {
                Ok(handle) => begun.push(handle),
                // Another process has it, or there is no capacity now.
                Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::RateLimited) => {}
                Err(error) => {
                    tracing::warn!(
                        task.id = %task.key.id,
                        error = error.detail(),
                        "a run whose wait has timed out cannot be resumed"
                    );
                }
            }
        }
        Ok(begun)
    }

    /// Periodically resumes runs whose tasks have expired. Never returns.
    pub async fn keep_tasks_timely(&self) {
        let mut after = None;
        loop {
            tokio::time::sleep(EVERY).await;
            match self.time_out_tasks_after(&mut after).await {
                Ok(begun) => {
                    for run in begun {
                        tracing::info!(run.id = %run.key.id, "a wait timed out without an answer");
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot look for waits that have timed out");
                }
            }
        }
    }

    /// Handles expired tasks of a session before something else starts.
    pub(crate) async fn time_out_before(&self, session: &Session) -> Result<()> {
        let filter = TaskFilter { session: Some(session.key.id.clone()), limit: 1, ..self.due() };
        let (tasks, _) = self.tasks.list(&session.key.tenant, &filter).await?;
        let Some(task) = tasks.first() else { return Ok(()) };
        match self.time_out(task).await {
            Ok(mut handle) => {
                while handle.entries.next().await?.is_some() {}
                Ok(())
            }
            // The task was just answered or handled concurrently.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn time_out(&self, task: &Task) -> Result<RunHandle> {
        let late = overdue(task, self.clock.now_ms());
        // Recorded first: once the run has resumed, the task is no longer found.
        if let Err(error) = self.notifications.note(vec![late]).await {
            tracing::warn!(
                task.id = %task.key.id,
                error = error.detail(),
                "cannot notify anybody that a task is overdue"
            );
        }
        let session = self.sessions.load(&SessionKey::new(&task.key.tenant, task.session.clone())).await?;
        // No client has asked for the run, so it has no reader.
        let input = TurnInput { user_id: session.user_id.clone(), background: true, ..TurnInput::default() };
        self.start_for_task(&session, task, input, None).await
    }

    fn due(&self) -> TaskFilter {
        let due_by_ms = Some(self.clock.now_ms());
        TaskFilter { status: Some(TaskStatus::Open), due_by_ms, ..TaskFilter::default() }
    }

    /// Starts a turn only if the task is still open, with the given run id if any.
    async fn start_for_task(
        &self,
        session: &Session,
        task: &Task,
        mut input: TurnInput,
        run: Option<RunId>,
    ) -> Result<RunHandle> {
        let canvas = CanvasKey::new(&session.key.tenant, session.canvas.clone());
        let plan = self.plan(&canvas, &session.canvas_version).await?;
        let task = Some(task.key.id.clone());
        // Only members of the tenant answer tasks, and they attach any of its files, even if a visitor of a page has
        // the conversation.
        let user_id = std::mem::take(&mut input.user_id);
        let input = TurnInput { user_id, ..self.with_files_read(session, input).await? };
        let (canvas, session) = (canvas.id, session.key.clone());
        let run = run.unwrap_or_else(RunId::generate);
        self.engine.start_as(run, StartRun { plan, canvas, session, input, seed: None, task }).await
    }
}

fn not_of_session(key: &TaskKey) -> Error {
    Error::not_found(format!("there is no task {} in this session", key.id))
}

/// Returns whether a task was ended by an answer or by its deadline, so that it cannot be taken back.
fn is_past(task: &Task) -> bool {
    matches!(task.status, TaskStatus::Answered | TaskStatus::TimedOut)
}

/// Returns whether values of a caller are for a task: under its address or its node, or by the names of its fields.
fn is_meant(task: &Task, inputs: &Map<String, Json>) -> bool {
    let fields = &task.form.fields;
    let below = |address: &str| inputs.get(address).and_then(Json::as_object);
    match below(&task.address).or_else(|| below(task.node.as_str())) {
        Some(own) => task.kind == TaskKind::Form || own.keys().any(|field| fields.contains_key(field)),
        None => inputs.keys().any(|field| fields.contains_key(field)),
    }
}

/// Converts an answer into values for the fields of the task's form.
fn given(task: &Task, answer: TaskAnswer) -> Result<Map<String, Json>> {
    let fields = &task.form.fields;
    let names = || listed(fields.keys());
    let id = &task.key.id;
    match (answer, task.kind) {
        (TaskAnswer::Decision(_), TaskKind::Form) => {
            let error = Error::invalid(format!("task {id} is a form, which is not approved or denied"));
            Err(error.help(format!("give values for its fields: {}", names())))
        }
        (TaskAnswer::Decision(decision), _) => {
            Ok(fields.keys().map(|field| (field.clone(), decision.clone())).collect())
        }
        (TaskAnswer::Inputs(inputs), _) => {
            if let Some(unknown) = inputs.keys().find(|field| !fields.contains_key(*field)) {
                let error = Error::invalid(format!("task {id} has no field `{unknown}`"));
                return Err(error.help(format!("its fields are: {}", names())));
            }
            let values = weft_engine::form::unwrap(&inputs);
            if !satisfied(&task.form, &values) {
                let missing = |field: &&String| {
                    let only =
                        Map::from_iter(fields.get_key_value(*field).map(|(k, v)| (k.clone(), v.clone())));
                    let form = weft_core::component::Form { fields: only, ..Default::default() };
                    !satisfied(&form, &values)
                };
                let missing = listed(fields.keys().filter(missing));
                let error = Error::invalid(format!("task {id} needs a value for {missing}"));
                return Err(error.help("give a value for each of its fields that is not optional"));
            }
            Ok(inputs)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_testkit::open_task as task;

    use super::*;

    #[test]
    fn answers_become_field_values_or_an_error() {
        let check = |task: &Task, answer: TaskAnswer, expected: Result<Json, &str>| match (
            given(task, answer.clone()),
            expected,
        ) {
            (Ok(got), Ok(expected)) => assert_eq!(Json::Object(got), expected),
            (Err(error), Err(part)) => assert!(error.full().contains(part), "{}", error.full()),
            (got, _) => panic!("{answer:?}: {got:?}"),
        };
        let inputs = |json: Json| TaskAnswer::Inputs(json.as_object().unwrap().clone());
        let decision = TaskAnswer::Decision;
        let form = task(TaskKind::Form, &json!({"go": {}, "why": {}, "note": {"optional": true}}));
        check(&form, inputs(json!({"go": true, "why": "x"})), Ok(json!({"go": true, "why": "x"})));
        check(
            &form,
            inputs(json!({"go": {"value": 1}, "why": 2})),
            Ok(json!({"go": {"value": 1}, "why": 2})),
        );
        check(&form, inputs(json!({"go": 1})), Err("needs a value for `why`"));
        check(&form, inputs(json!({"note": 1})), Err("needs a value for `go`, `why`"));
        check(&form, inputs(json!({"note": 1})), Err("each of its fields that is not optional"));
        check(&form, inputs(json!({"go": 1, "why": 2, "wy": 3})), Err("no field `wy`"));
        check(&form, decision(json!("approve")), Err("give values for its fields: `go`"));
        let call = task(TaskKind::ToolApproval, &json!({"call_1": {"type": "approval"}}));
        check(&call, decision(json!("approve")), Ok(json!({"call_1": "approve"})));
        check(&call, inputs(json!({"call_1": "deny"})), Ok(json!({"call_1": "deny"})));
        check(&call, inputs(json!({})), Err("needs a value for `call_1`"));
    }
}
