//! One turn, from its first record to its last: the run itself, then the session, then the end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use weft_core::budget::Spent;
use weft_core::citation::reference;
use weft_core::context::RunContext;
use weft_core::journal::{Ending, JOURNAL_VERSION, RunLimits};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::session_store::{SessionCommit, SessionMessage};
use weft_core::seam::task_store::TaskChange;
use weft_core::{CanvasId, Error, ErrorKind, Json, Record, Result, RunKey, SessionKey};

use super::{Engine, EngineLimits, Prepared, Stores};
use crate::drive::{DriveLimits, Driver, Report};
use crate::feed::{BrokenOff, Feed};
use crate::journal::{Broken, Journal, writer};
use crate::patient::may_pass;
use crate::pause::Paused;
use crate::session::SessionState;

impl Engine {
    /// Runs the machine and writes everything but the last record.
    pub(super) async fn drive(
        &self,
        prepared: Prepared,
        journal: &mut Journal,
        cancel: CancellationToken,
    ) -> (Report, Arc<RunContext>) {
        let Prepared {
            request,
            state,
            machine,
            context,
            resumes,
            reply,
            revision,
            now_ms,
            recovered,
            calls,
            ..
        } = prepared;
        let EngineLimits { run_time, node_time, output_bytes, .. } = self.0.limits;
        let limits = DriveLimits { run: run_time, node: node_time, output_bytes };
        if recovered.is_none() {
            // What is kept nowhere is never done again.
            let state = journal.is_stored().then(|| state.to_json().ok()).flatten();
            journal.note(Record::RunStarted {
                version: JOURNAL_VERSION,
                canvas: request.canvas,
                canvas_version: Arc::clone(&request.plan.version),
                session: request.session.id,
                input: request.input,
                seed: context.seed,
                resumes,
                reply,
                now_ms,
                revision,
                state: state.map(Arc::new),
                forks: None,
                limits: Some(RunLimits {
                    nodes_at_once: machine.limits.at_once,
                    activations: machine.limits.activations,
                }),
                by: writer(),
            });
            if let Some((node, message)) = &machine.unused {
                journal.note(Record::Warned { node: node.clone(), message: message.as_str().into() });
            }
        }
        let driver = Driver::new(machine, Arc::clone(&context), journal, cancel, limits).with_calls(calls);
        let driver = match recovered {
            Some(recovered) => driver.after(recovered),
            None => driver,
        };
        // The driver's future is large; one allocation keeps it off everybody's stack.
        let report = Box::pin(driver.run()).await;
        if !report.forms.is_empty() {
            journal.note(Record::Waiting { forms: report.forms.clone() });
        }
        (report, context)
    }

    /// One turn of a stored session, from its first record to its last.
    pub(super) async fn turn(
        &self,
        stores: &Stores,
        prepared: Prepared,
        feed: &Arc<Feed>,
        cancel: CancellationToken,
    ) {
        let (key, session) = (prepared.key.clone(), prepared.request.session.clone());
        let (before, revision) = (prepared.state.clone(), prepared.revision);
        let canvas = prepared.request.canvas.clone();
        let resumed = prepared.resumes.is_some();
        let clock = Arc::clone(&self.0.seams.clock);
        let journal = Journal::new(key.clone(), Some(Arc::clone(&stores.runs)), Arc::clone(feed), clock);
        let mut journal = match &prepared.recovered {
            Some(recovered) => journal.after(recovered.seq, recovered.event),
            None => journal,
        };
        let driven = AssertUnwindSafe(self.drive(prepared, &mut journal, cancel)).catch_unwind().await;
        let last = match driven {
            Ok((report, context)) => {
                let before = (&before, revision, resumed);
                self.kept(stores, (&session, &canvas, before), (report, context), &mut journal).await
            }
            Err(_) => Ok(broken_record()),
        };
        let ended = match last {
            Ok(last) => self.end(stores, &mut journal, (&key, last)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            break_off(feed, &key, &error);
        }
    }

    /// Stores the conversation, which is safe before anybody is told that the turn is over. The last
    /// record of the run comes back.
    ///
    /// # Errors
    /// When it cannot be known whether it is stored, or the run is not ours any more.
    async fn kept(
        &self,
        stores: &Stores,
        (session, canvas, (before, revision, resumed)): (&SessionKey, &CanvasId, (&SessionState, i64, bool)),
        (mut report, context): (Report, Arc<RunContext>),
        journal: &mut Journal,
    ) -> Result<Record> {
        let flushed = journal.flush().await;
        if let (Some(Broken::Lost(_) | Broken::Unsure(_)), Err(error)) = (journal.broken(), &flushed) {
            return Err(Error::new(error.kind, error.full()));
        }
        let state = next_state(before, &report, &context);
        let messages = messages(&report, &context, (resumed, self.now_ms()));
        let tasks = tasks(before, &report, (&context, canvas, self.now_ms()));
        let committed = match (flushed, state.to_json()) {
            (Ok(()), Ok(state)) => {
                let (messages, tasks) = (messages.as_slice(), tasks.as_ref());
                let commit = SessionCommit { revision, state: &state, messages, tasks };
                stores.sessions.commit(session, commit).await
            }
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
        };
        match committed {
            Ok(()) => {}
            // It may be stored all the same; whoever picks the run up will see.
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) => {
                let error = overtaken(session, error);
                tracing::error!(run.id = %journal.run(), error = error.full(), "a turn could not be stored");
                report.ending = Ending::Failed;
                report.error = Some(error);
            }
        }
        Ok(last_record(&report))
    }

    /// Writes the last record of a run. When there is no place for it any more, those who watch are told
    /// that the run failed.
    ///
    /// # Errors
    /// When the run is not ours any more, or the store does not say whether it took the record.
    pub(super) async fn end(
        &self,
        stores: &Stores,
        journal: &mut Journal,
        (key, record): (&RunKey, Record),
    ) -> Result<()> {
        let Record::RunFinished { mut ending, spent, .. } = record else {
            return Err(Error::internal("a run ends with its last record"));
        };
        if journal.broken().is_some() {
            journal.go_back();
        }
        let mut last = record.clone();
        journal.note(record);
        if let Err(cause) = journal.flush().await {
            if !matches!(journal.broken(), Some(Broken::Refused(_))) {
                return Err(cause);
            }
            tracing::error!(run.id = %key.id, error = cause.full(), "the end of a run could not be stored");
            if let Record::RunFinished { ending: told, error, .. } = &mut last {
                *told = Ending::Failed;
                *error = Some(cause.full().into());
            }
            ending = Ending::Failed;
            journal.show_unstored(last);
        }
        if let Err(error) = self.note_spent(stores, key, spent).await {
            tracing::error!(run.id = %key.id, error = error.full(), "what the run has used could not be noted");
        }
        self.note_ending(stores, key, ending).await;
        Ok(())
    }

    pub(super) async fn note_ending(&self, stores: &Stores, key: &RunKey, ending: Ending) {
        if let Err(error) = stores.runs.finish(key, ending, self.now_ms()).await {
            tracing::error!(run.id = %key.id, error = error.full(), "the end of a run could not be noted");
        }
    }
}

/// Leaves a run that is not over to whoever picks it up, as the end of this process would.
fn break_off(feed: &Feed, key: &RunKey, error: &Error) {
    let id = &key.id;
    let why = if error.kind == ErrorKind::Conflict {
        tracing::warn!(run.id = %id, "another process goes on with the run");
        BrokenOff { kind: error.kind, message: format!("run {id} goes on in another process").into() }
    } else {
        tracing::error!(run.id = %id, error = error.full(), "the run is left to be picked up again");
        let message = format!("run {id} goes on when the store works again: {}", error.full());
        BrokenOff { kind: ErrorKind::Unavailable, message: message.into() }
    };
    feed.break_off(why);
}

/// Another process has gone on with the session in the meantime: what it did stands.
fn overtaken(session: &SessionKey, error: Error) -> Error {
    if error.kind != ErrorKind::Conflict {
        return error;
    }
    let message =
        format!("somebody else went on with session {} while this turn ran, so it was not kept", session.id);
    Error::new(ErrorKind::Conflict, message).because(error).help("ask again")
}

pub(super) fn next_state(before: &SessionState, report: &Report, context: &RunContext) -> SessionState {
    let machine = &report.machine;
    let paused = (report.ending == Ending::Waiting).then(|| {
        let fields = report.forms.iter().map(|waiting| waiting.form.fields.len()).sum();
        Paused::take(machine, context, fields)
    });
    before.after(&context.run, machine.globals.clone(), (paused, report.spent))
}

/// What becomes of the tasks of the session; nothing when there were none and there are none.
fn tasks(
    before: &SessionState,
    report: &Report,
    (context, canvas, at_ms): (&RunContext, &CanvasId, i64),
) -> Option<TaskChange> {
    let waits = report.ending == Ending::Waiting;
    let open = if waits { report.machine.tasks(context, canvas) } else { Vec::new() };
    (before.paused.is_some() || waits).then(|| TaskChange {
        run: context.run.clone(),
        at_ms,
        open,
        ended: report.machine.ended.clone(),
    })
}

pub(super) fn messages(
    report: &Report,
    context: &RunContext,
    (resumed, now_ms): (bool, i64),
) -> Vec<SessionMessage> {
    let message = |role: &str, content: &str, reference| SessionMessage {
        role: role.to_owned(),
        content: content.to_owned(),
        run: Some(context.run.clone()),
        reference,
        created_ms: now_ms,
    };
    let mut messages = Vec::new();
    // The answers to a form are no question of their own.
    if !resumed && !context.input.query.is_empty() {
        messages.push(message("user", &context.input.query, Json::Null));
    }
    if !report.said.is_empty() {
        let sources = if report.cited.is_empty() { Json::Null } else { reference(&report.cited) };
        messages.push(message("assistant", &report.said, sources));
    }
    messages
}

/// The end of a run that broke off in the middle of the engine.
pub(super) fn broken_record() -> Record {
    let error = Error::internal("the engine broke in the middle of the run");
    let error = error.help("this is a defect of Weft; please report it with the canvas");
    Record::RunFinished {
        ending: Ending::Failed,
        outputs: Arc::default(),
        error: Some(error.full().into()),
        usage: Usage::default(),
        limited: Vec::new(),
        spent: Spent::default(),
        elapsed: 0.0,
    }
}

pub(super) fn last_record(report: &Report) -> Record {
    Record::RunFinished {
        ending: report.ending,
        outputs: Arc::clone(&report.outputs),
        error: report.error.as_ref().map(|error| error.full().into()),
        usage: report.usage,
        limited: report.limited.clone(),
        spent: report.spent,
        elapsed: report.elapsed,
    }
}
