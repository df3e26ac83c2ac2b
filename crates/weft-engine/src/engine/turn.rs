//! One turn from its first record to its last: the run, then the session, then the end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::budget::Spent;
use weft_core::citation::reference;
use weft_core::context::RunContext;
use weft_core::journal::{Ending, JOURNAL_VERSION, RunLimits};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::run_store::{FinishedRun, RunLease};
use weft_core::seam::session_store::{SessionCommit, SessionMessage};
use weft_core::seam::task_store::TaskChange;
use weft_core::{CanvasId, Error, ErrorKind, Json, Record, Result, RunKey, SessionKey};

use super::failure_log::log_failure;
use super::held::Became;
use super::{Engine, EngineLimits, Prepared, Stores};
use crate::drive::{DriveLimits, RunDriver, RunReport};
use crate::feed::{BrokenOff, Feed};
use crate::journal::{JournalFailure, RunJournal, writer};
use crate::pause::Paused;
use crate::retrying_store::may_pass;
use crate::secrets;
use crate::session::{SessionState, TurnOutcome};

/// How long to keep checking whether a run is over when the store does not answer.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Where a turn is shown, and what stops it.
pub(super) struct TurnControl<'a> {
    /// The feed that shows its entries.
    pub feed: &'a Arc<Feed>,
    /// Cancelled when the turn is to stop.
    pub cancel: CancellationToken,
}

/// What is known of a turn when it begins, and needed when it ends.
struct BegunTurn<'a> {
    lease: &'a RunLease,
    feed: &'a Arc<Feed>,
    session: SessionKey,
    canvas: CanvasId,
    /// The session before the turn, without its variables.
    state: SessionState,
    revision: i64,
    /// When its question was asked; `None` if it resumes an earlier turn that waited.
    asked_ms: Option<i64>,
}

/// A turn whose canvas has run to completion.
struct DrivenTurn {
    report: RunReport,
    context: Arc<RunContext>,
}

impl Engine {
    /// Runs the machine and writes everything but the last record.
    // Not `async`: otherwise values that only the beginning needs would be kept for as long as the run lasts.
    // The future is large, so one allocation keeps it off every caller's stack.
    pub(super) fn drive<'a>(
        &self,
        prepared: Prepared,
        journal: &'a mut RunJournal,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, (RunReport, Arc<RunContext>)> {
        let context = Arc::clone(&prepared.context);
        let mut driver = self.driver(prepared, journal, cancel);
        let driving = async move {
            let began = Instant::now();
            // By reference: a future that takes ownership of what it mutates reserves space for it twice.
            let result = driver.run(began).await;
            (driver.report(began, result), context)
        };
        driving.boxed()
    }

    /// Records that a run begins, unless it is resumed, and returns its driver.
    fn driver<'a>(
        &self,
        prepared: Prepared,
        journal: &'a mut RunJournal,
        cancel: CancellationToken,
    ) -> RunDriver<'a> {
        let Prepared {
            request,
            key,
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
        journal.mask(context.masks.clone());
        let EngineLimits { run_time, node_time, output_bytes, values_bytes, journal_bytes, .. } =
            self.0.limits.of(&request.plan);
        let limits =
            DriveLimits { run: run_time, node: node_time, output_bytes, values_bytes, journal_bytes };
        if recovered.is_none() {
            // A run that is not stored is never resumed.
            let state = journal.is_stored().then(|| state.to_json().ok()).flatten();
            let settings =
                journal.is_stored().then(|| self.settings_of(&request.plan, &request.session.tenant));
            journal.note(Record::RunStarted {
                version: JOURNAL_VERSION,
                canvas: request.canvas,
                canvas_version: Arc::clone(&request.plan.version),
                session: request.session.id,
                input: Box::new(request.input),
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
                settings: settings.map(Arc::new),
                by: writer(),
            });
            if let Some((node, message)) = &machine.unused {
                journal.note(Record::Warned { node: node.clone(), message: message.as_str().into() });
            }
            for (node, message) in self.substitutions(&request.plan, &request.session.tenant) {
                tracing::warn!(run.id = %key.id, component.id = %node, message, "another model stands in");
                journal.note(Record::Warned { node, message: message.into() });
            }
        }
        let driver = RunDriver::new(machine, context, journal, cancel, limits).with_calls(calls);
        match recovered {
            Some(recovered) => driver.after(recovered),
            None => driver,
        }
    }

    /// One turn of a stored session, from its first record to its last.
    pub(super) async fn turn(
        &self,
        stores: &Stores,
        prepared: Box<Prepared>,
        lease: &RunLease,
        TurnControl { feed, cancel }: TurnControl<'_>,
    ) -> Became {
        let begun = BegunTurn {
            lease,
            feed,
            session: prepared.request.session.clone(),
            canvas: prepared.request.canvas.clone(),
            state: prepared.state.without_globals(),
            revision: prepared.revision,
            asked_ms: prepared.resumes.is_none().then_some(prepared.now_ms),
        };
        let clock = Arc::clone(&self.0.seams.clock);
        let journal = RunJournal::new(lease.clone(), Some(Arc::clone(&stores.runs)), Arc::clone(feed), clock)
            .counted_in(Arc::clone(&self.0.counts));
        let mut journal = match &prepared.recovered {
            Some(recovered) => journal.after(recovered.seq, recovered.event, recovered.bytes),
            None => journal,
        };
        // Whatever breaks in here, the journal gets an ending, so that no reader waits for one that never comes.
        let driving = async { self.drive(*prepared, &mut journal, cancel).await };
        let driven = AssertUnwindSafe(driving).catch_unwind().await.ok();
        let driven = driven.map(|(report, context)| DrivenTurn { report, context });
        // Boxed: what the end needs is large, and should not take up space while the run lasts.
        Box::pin(self.ended(stores, &begun, driven, &mut journal)).await
    }

    /// Ends a turn; `driven` is `None` when the engine itself panicked during the run.
    async fn ended(
        &self,
        stores: &Stores,
        begun: &BegunTurn<'_>,
        driven: Option<DrivenTurn>,
        journal: &mut RunJournal,
    ) -> Became {
        let BegunTurn { lease, feed, .. } = *begun;
        let last = match driven {
            Some(driven) => self.kept(stores, begun, driven, journal).await,
            None => Ok(broken_record()),
        };
        let ended = match last {
            Ok(last) => self.end(stores, journal, lease, last).await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(became) => became,
            Err(error) if may_pass(&error) => match ending_in(stores, &lease.run).await {
                Some(ending) => {
                    tracing::warn!(run.id = %lease.run.id, error = error.detail(), "a run has ended, although the store reported a failure");
                    // Its last entries are read from the store.
                    feed.break_off(BrokenOff {
                        kind: ErrorKind::Conflict,
                        message: "the run is over".into(),
                    });
                    over(ending)
                }
                None => break_off(feed, &lease.run, &error),
            },
            Err(error) => break_off(feed, &lease.run, &error),
        }
    }

    /// Stores the conversation, before any reader learns that the turn is over. Returns the last record of the run.
    ///
    /// # Errors
    /// When it is not known whether the conversation is stored, or when this process no longer owns the run.
    async fn kept(
        &self,
        stores: &Stores,
        begun: &BegunTurn<'_>,
        DrivenTurn { mut report, context }: DrivenTurn,
        journal: &mut RunJournal,
    ) -> Result<Record> {
        // The journal before the session: a process that picks up the run takes a changed session as the sign
        // that only the last record is missing.
        let flushed = journal.flush().await;
        if let (Some(JournalFailure::Lost(_) | JournalFailure::Unsure(_)), Err(error)) =
            (journal.broken(), &flushed)
        {
            return Err(Error::new(error.kind, error.full()));
        }
        let BegunTurn { lease, session, canvas, state: before, revision, asked_ms, .. } = begun;
        let (lease, revision) = (*lease, *revision);
        if let (Ending::Failed, Some(error)) = (report.ending, &report.error) {
            log_failure(&lease.run, canvas, error, &context.masks);
        }
        let state = next_state(before, &report, &context);
        let messages = messages(&report, &context, *asked_ms, self.now_ms());
        let tasks = tasks(before, &report, &context, canvas, self.now_ms());
        let committed = match (flushed, state.to_json()) {
            (Ok(()), Ok(mut state)) => {
                secrets::seal(&mut state, &report.machine.plan, &context.masks);
                let (messages, tasks) = (messages.as_slice(), tasks.as_ref());
                let lease = Some(lease);
                let commit = SessionCommit { revision, state: &state, messages, tasks, lease };
                stores.sessions.commit(session, commit).await
            }
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
        };
        match committed {
            Ok(()) => {}
            // It may be stored all the same; the process that picks up the run will find out.
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) if !self.still_ours(stores, lease).await? => return Err(error),
            // Whoever removed the session has no use for the run any more.
            Err(error) if error.kind == ErrorKind::NotFound => {
                tracing::info!(run.id = %journal.run(), error = error.detail(), "a run that was removed is stopped");
                report.ending = Ending::Cancelled;
                report.error = Some(removed());
            }
            Err(error) => {
                let error = overtaken(session, error);
                tracing::error!(run.id = %journal.run(), error = error.detail(), "a turn could not be stored");
                report.ending = Ending::Failed;
                report.error = Some(error);
            }
        }
        Ok(last_record(&report))
    }

    /// Writes the last record of a run. When there is no room for it any more, readers are shown that the run failed.
    ///
    /// # Errors
    /// When this process no longer owns the run, or when the store does not say whether it took the record.
    pub(super) async fn end(
        &self,
        stores: &Stores,
        journal: &mut RunJournal,
        lease: &RunLease,
        record: Record,
    ) -> Result<Became> {
        let key = &lease.run;
        let Record::RunFinished { mut ending, spent, uses, .. } = record.clone() else {
            return Err(Error::internal("a run ends with its last record"));
        };
        if journal.broken().is_some() {
            journal.go_back();
        }
        let mut last = record.clone();
        journal.note(record);
        match journal.end(self.finished(ending, spent, &uses)).await {
            Ok(noted) => return Ok(became(lease, ending, noted)),
            Err(cause) if !matches!(journal.broken(), Some(JournalFailure::Refused(_))) => return Err(cause),
            Err(cause) if cause.kind == ErrorKind::NotFound => {
                if let Record::RunFinished { ending: told, error, .. } = &mut last {
                    *told = Ending::Cancelled;
                    *error = Some(removed().full().into());
                }
                journal.show_unstored(last);
                return Ok(Became::Lost);
            }
            Err(cause) => {
                tracing::error!(run.id = %key.id, error = cause.detail(), "the end of a run could not be stored");
                if let Record::RunFinished { ending: told, error, .. } = &mut last {
                    *told = Ending::Failed;
                    *error = Some(cause.full().into());
                }
                ending = Ending::Failed;
                journal.show_unstored(last);
            }
        }
        Ok(self.note_ending(stores, lease, self.finished(ending, spent, &uses)).await)
    }

    /// Stores how a run ended and what it used in total. If the store fails, the process that resumes the run
    /// does it.
    pub(super) async fn note_ending(
        &self,
        stores: &Stores,
        lease: &RunLease,
        finished: FinishedRun,
    ) -> Became {
        let ending = finished.ending;
        became(lease, ending, stores.runs.finish(lease, finished).await)
    }

    /// Whether no other process has taken over the run.
    async fn still_ours(&self, stores: &Stores, lease: &RunLease) -> Result<bool> {
        match stores.runs.get(&lease.run).await {
            Ok(run) => Ok(run.fence == lease.fence),
            // A removed run cannot be taken over.
            Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Returns the state of a run after the attempt to store its end.
fn became(RunLease { run, .. }: &RunLease, ending: Ending, noted: Result<()>) -> Became {
    let id = &run.id;
    match noted {
        Ok(()) => over(ending),
        Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
            tracing::warn!(run.id = %id, error = error.detail(), "the end of a run is left to another process");
            Became::Lost
        }
        Err(error) => {
            tracing::error!(run.id = %id, error = error.detail(), "the end of a run could not be recorded");
            Became::Left
        }
    }
}

/// Returns the state of a run whose ending is stored.
fn over(ending: Ending) -> Became {
    if ending == Ending::Waiting { Became::Waits } else { Became::Ended }
}

/// Returns how a run has ended, if the store has its end. It may have stored it without answering.
async fn ending_in(stores: &Stores, run: &RunKey) -> Option<Ending> {
    let found = tokio::time::timeout(LOOK_TIME_MAX, stores.runs.get(run)).await;
    found.ok()?.ok()?.ending
}

/// Leaves an unfinished run to whichever process picks it up, as if this process had ended.
fn break_off(feed: &Feed, key: &RunKey, error: &Error) -> Became {
    let id = &key.id;
    let (became, why) = if error.kind == ErrorKind::Conflict {
        tracing::warn!(run.id = %id, "another process has resumed the run");
        let message = format!("run {id} continues in another process").into();
        (Became::Lost, BrokenOff { kind: error.kind, message })
    } else {
        tracing::error!(run.id = %id, error = error.detail(), "the run is left to be picked up again");
        let message = format!("run {id} continues when the store works again: {}", error.full());
        (Became::Left, BrokenOff { kind: ErrorKind::Unavailable, message: message.into() })
    };
    feed.break_off(why);
    became
}

/// Returns the error of a run that was stopped because it is no longer in the store.
fn removed() -> Error {
    Error::new(ErrorKind::Cancelled, "the run was stopped: the conversation that it belongs to was removed")
}

/// Returns the error for a session that another process has changed in the meantime: that change stands.
fn overtaken(session: &SessionKey, error: Error) -> Error {
    if error.kind != ErrorKind::Conflict {
        return error;
    }
    let message =
        format!("another run has changed session {} while this turn ran, so it was not kept", session.id);
    Error::new(ErrorKind::Conflict, message).because(error).help("ask again")
}

pub(super) fn next_state(before: &SessionState, report: &RunReport, context: &RunContext) -> SessionState {
    let machine = &report.machine;
    let paused = (report.ending == Ending::Waiting).then(|| {
        let fields = report.forms.iter().map(|waiting| waiting.form.fields.len()).sum();
        Paused::take(machine, context, fields)
    });
    let calls = report.calls.after(&before.calls, &machine.plan, context);
    let left = TurnOutcome { paused, spent: report.spent, calls, ending: Some(report.ending) };
    before.after(&context.run, machine.globals.clone(), left)
}

/// Returns the changes to the session's tasks; `None` when there were none and there are none.
fn tasks(
    before: &SessionState,
    report: &RunReport,
    context: &RunContext,
    canvas: &CanvasId,
    at_ms: i64,
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

/// Returns the messages that a turn adds to the conversation. `asked_ms` is when its question was asked, or `None` if
/// the turn resumed an earlier one. Secrets are masked: a person may have written one.
pub(super) fn messages(
    report: &RunReport,
    context: &RunContext,
    asked_ms: Option<i64>,
    now_ms: i64,
) -> Vec<SessionMessage> {
    let message = |role: &str, content: &str, reference| SessionMessage {
        role: role.to_owned(),
        content: context.masks.text(content).into_owned(),
        run: Some(context.run.clone()),
        reference,
        created_ms: now_ms,
        feedback: None,
    };
    let mut messages = Vec::new();
    let question = &context.input.query;
    if let Some(created_ms) = asked_ms.filter(|_| !question.is_empty()) {
        messages.push(SessionMessage { created_ms, ..message("user", question, Json::Null) });
    }
    // After the question and before the answer, which takes them into account.
    messages.extend(report.heard.iter().map(|text| message("user", text, Json::Null)));
    if !report.said.is_empty() {
        let found = context.input.all_sources.then(|| context.citations.all());
        let sources = found.as_deref().unwrap_or(&report.cited);
        let sources = if sources.is_empty() { Json::Null } else { reference(sources) };
        messages.push(message("assistant", &report.said, sources));
    }
    messages
}

/// Returns the last record of a run in which the engine itself panicked.
pub(super) fn broken_record() -> Record {
    let error = Error::internal("the engine panicked in the middle of the run");
    let error = error.help("this is a defect of Weft; please report it with the canvas");
    Record::RunFinished {
        ending: Ending::Failed,
        outputs: Arc::default(),
        error: Some(error.full().into()),
        usage: Usage::default(),
        uses: Vec::new(),
        limited: Vec::new(),
        spent: Spent::default(),
        elapsed: 0.0,
    }
}

pub(super) fn last_record(report: &RunReport) -> Record {
    Record::RunFinished {
        ending: report.ending,
        outputs: Arc::clone(&report.outputs),
        error: report.error.as_ref().map(|error| error.full().into()),
        usage: report.usage,
        uses: report.uses.clone(),
        limited: report.limited.clone(),
        spent: report.spent,
        elapsed: report.elapsed,
    }
}
