//! One turn, from its first record to its last: the run itself, then the session, then the end.

use std::collections::HashSet;
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
use weft_core::{
    CanvasId, ComponentId, Error, ErrorKind, Json, Record, Result, RunKey, SessionKey, TenantId,
};
use weft_dsl::Plan;

use super::held::Became;
use super::{Engine, EngineLimits, Prepared, Stores};
use crate::drive::{DriveLimits, RunDriver, RunReport};
use crate::feed::{BrokenOff, Feed};
use crate::journal::{JournalFailure, RunJournal, writer};
use crate::pause::Paused;
use crate::retrying_store::may_pass;
use crate::secrets;
use crate::session::{SessionState, TurnOutcome};

/// How long it is looked whether a run is over whose store did not answer.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Who hears of a turn, and what stops it.
pub(super) struct TurnControl<'a> {
    /// Where its entries are shown.
    pub feed: &'a Arc<Feed>,
    /// Cancelled when it is to stop.
    pub cancel: CancellationToken,
}

/// What is known of a turn when it begins, and needed when it ends.
struct BegunTurn<'a> {
    lease: &'a RunLease,
    feed: &'a Arc<Feed>,
    session: SessionKey,
    canvas: CanvasId,
    /// The session before it, without its variables.
    state: SessionState,
    revision: i64,
    /// Whether it goes on with an earlier one that has waited.
    goes_on: bool,
}

/// A turn whose canvas has come to its end.
struct DrivenTurn {
    report: RunReport,
    context: Arc<RunContext>,
}

impl Engine {
    /// Runs the machine and writes everything but the last record.
    // Not `async`: what only the beginning needs would be kept for as long as the run goes on. And the future is large:
    // one allocation keeps it off everybody's stack.
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
            // By reference: a future that is given what it changes has room for it twice.
            let result = driver.run(began).await;
            (driver.report(began, result), context)
        };
        driving.boxed()
    }

    /// Writes down that a run begins, unless it goes on, and gives what runs it.
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
            // What is kept nowhere is never done again.
            let state = journal.is_stored().then(|| state.to_json().ok()).flatten();
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

    /// The models of a plan in whose place others are asked, each with the first node that names it.
    fn substitutions(&self, plan: &Plan, tenant: &TenantId) -> Vec<(ComponentId, String)> {
        let named = plan
            .nodes
            .iter()
            .flat_map(|node| node.shape.models.iter().map(move |(_, llm_id)| (&node.id, llm_id.as_str())));
        let mut seen = HashSet::new();
        named
            .filter(|(_, llm_id)| seen.insert(*llm_id))
            .filter_map(|(node, llm_id)| {
                Some((node.clone(), self.0.seams.models.substitution(tenant, llm_id)?))
            })
            .collect()
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
            goes_on: prepared.resumes.is_some(),
        };
        let clock = Arc::clone(&self.0.seams.clock);
        let journal = RunJournal::new(lease.clone(), Some(Arc::clone(&stores.runs)), Arc::clone(feed), clock)
            .counted_in(Arc::clone(&self.0.counts));
        let mut journal = match &prepared.recovered {
            Some(recovered) => journal.after(recovered.seq, recovered.event, recovered.bytes),
            None => journal,
        };
        // Whatever breaks in here, the journal gets an ending, and nobody waits for one that never comes.
        let driving = async { self.drive(*prepared, &mut journal, cancel).await };
        let driven = AssertUnwindSafe(driving).catch_unwind().await.ok();
        let driven = driven.map(|(report, context)| DrivenTurn { report, context });
        // What the end needs is large, and nothing of it is kept while the run goes on.
        Box::pin(self.ended(stores, &begun, driven, &mut journal)).await
    }

    /// Brings a turn to its end; nothing of it is known when it broke off in the middle of the engine.
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
            Err(error) if may_pass(&error) && is_over(stores, &lease.run).await => {
                tracing::warn!(run.id = %lease.run.id, error = error.detail(), "a run is over, although its store did not say so");
                // Its last entries are shown from the store.
                feed.break_off(BrokenOff { kind: ErrorKind::Conflict, message: "the run is over".into() });
                Became::Ended
            }
            Err(error) => break_off(feed, &lease.run, &error),
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
        begun: &BegunTurn<'_>,
        DrivenTurn { mut report, context }: DrivenTurn,
        journal: &mut RunJournal,
    ) -> Result<Record> {
        // The journal before the session: whoever picks the run up takes a session that has gone on for the
        // sign that nothing but the last word is missing.
        let flushed = journal.flush().await;
        if let (Some(JournalFailure::Lost(_) | JournalFailure::Unsure(_)), Err(error)) =
            (journal.broken(), &flushed)
        {
            return Err(Error::new(error.kind, error.full()));
        }
        let BegunTurn { lease, session, canvas, state: before, revision, goes_on, .. } = begun;
        let (lease, revision) = (*lease, *revision);
        let state = next_state(before, &report, &context);
        let question = (!goes_on).then_some(context.input.query.as_str());
        let messages = messages(&report, &context, question, self.now_ms());
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
            // It may be stored all the same; whoever picks the run up will see.
            Err(error) if may_pass(&error) => return Err(error),
            Err(error) if !self.still_ours(stores, lease).await? => return Err(error),
            // Whoever has removed what it belongs to wants nothing of it any more.
            Err(error) if error.kind == ErrorKind::NotFound => {
                tracing::info!(run.id = %journal.run(), error = error.detail(), "a run is stopped that was removed");
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

    /// Writes the last record of a run. When there is no place for it any more, those who watch are told
    /// that the run failed.
    ///
    /// # Errors
    /// When the run is not ours any more, or the store does not say whether it took the record.
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
            Ok(noted) => return Ok(became(lease, noted)),
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

    /// Notes how a run ended and what it has used in all. What the store does not take is noted by whoever goes on
    /// with the run.
    pub(super) async fn note_ending(
        &self,
        stores: &Stores,
        lease: &RunLease,
        finished: FinishedRun,
    ) -> Became {
        became(lease, stores.runs.finish(lease, finished).await)
    }

    /// Whether nobody has taken a run over.
    async fn still_ours(&self, stores: &Stores, lease: &RunLease) -> Result<bool> {
        match stores.runs.get(&lease.run).await {
            Ok(run) => Ok(run.fence == lease.fence),
            // Nobody can take over what was removed.
            Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// What becomes of a run whose end was noted, or was not.
fn became(RunLease { run, .. }: &RunLease, noted: Result<()>) -> Became {
    let id = &run.id;
    match noted {
        Ok(()) => Became::Ended,
        Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
            tracing::warn!(run.id = %id, error = error.detail(), "the end of a run is another process's to note");
            Became::Lost
        }
        Err(error) => {
            tracing::error!(run.id = %id, error = error.detail(), "the end of a run could not be noted");
            Became::Left
        }
    }
}

/// Whether the store has the end of a run. It may have taken it and never answered.
async fn is_over(stores: &Stores, run: &RunKey) -> bool {
    let found = tokio::time::timeout(LOOK_TIME_MAX, stores.runs.get(run)).await;
    matches!(found, Ok(Ok(run)) if run.ending.is_some())
}

/// Leaves a run that is not over to whoever picks it up, as the end of this process would.
fn break_off(feed: &Feed, key: &RunKey, error: &Error) -> Became {
    let id = &key.id;
    let (became, why) = if error.kind == ErrorKind::Conflict {
        tracing::warn!(run.id = %id, "another process has resumed the run");
        let message = format!("run {id} goes on in another process").into();
        (Became::Lost, BrokenOff { kind: error.kind, message })
    } else {
        tracing::error!(run.id = %id, error = error.detail(), "the run is left to be picked up again");
        let message = format!("run {id} goes on when the store works again: {}", error.full());
        (Became::Left, BrokenOff { kind: ErrorKind::Unavailable, message: message.into() })
    };
    feed.break_off(why);
    became
}

/// Why a run has stopped that is in no store any more.
fn removed() -> Error {
    Error::new(ErrorKind::Cancelled, "the run was stopped: the conversation that it belongs to was removed")
}

/// Another process has gone on with the session in the meantime: what it did stands.
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
    let left = TurnOutcome { paused, spent: report.spent, calls };
    before.after(&context.run, machine.globals.clone(), left)
}

/// What becomes of the tasks of the session; nothing when there were none and there are none.
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

/// What a turn adds to the conversation; `question` is what was asked, unless the turn went on with an earlier one: the
/// answers to a form are no question of their own.
pub(super) fn messages(
    report: &RunReport,
    context: &RunContext,
    question: Option<&str>,
    now_ms: i64,
) -> Vec<SessionMessage> {
    let message = |role: &str, content: &str, reference| SessionMessage {
        role: role.to_owned(),
        content: content.to_owned(),
        run: Some(context.run.clone()),
        reference,
        created_ms: now_ms,
        feedback: None,
    };
    let mut messages = Vec::new();
    if let Some(question) = question.filter(|question| !question.is_empty()) {
        messages.push(message("user", question, Json::Null));
    }
    // Behind the question and before the answer, which has taken them in.
    messages.extend(report.heard.iter().map(|text| message("user", text, Json::Null)));
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
