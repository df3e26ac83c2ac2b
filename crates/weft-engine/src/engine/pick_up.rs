//! Resumes runs that were interrupted by the end of their process: they are rebuilt from their journals.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use weft_core::budget::Spent;
use weft_core::context::Limited;
use weft_core::journal::{ActivationRef, Ending, NextEdges};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::run_store::{RunLease, StoredRun};
use weft_core::seam::session_store::{Session, SessionCommit, SessionMessage};
use weft_core::seam::task_store::TaskChange;
use weft_core::usage::{self, ModelUse, UsedModel};
use weft_core::{Entry, Error, ErrorKind, Json, Outputs, Record, Result, RunId, SessionKey};
use weft_dsl::Plan;

use super::held::{Became, SessionLock};
use super::launch::HeldRun;
use super::owner::TakenRun;
use super::rebuild::BegunRun;
use super::sealed::SecretHandling;
use super::{Engine, RunHandle, Stores};
use crate::feed::Feed;
use crate::journal::RunJournal;
use crate::machine::Machine;
use crate::perform::{cancelled, failed_with};
use crate::recover::JournalReader;
use crate::secrets::SecretValues;
use crate::session::SessionState;
use crate::stopped::{RUN_CANCELLED, STOPPED};

/// What to do with a run that was taken over, unless only its last record was missing.
enum PickUpDecision {
    /// Resume it with this plan, run slot and session lock.
    GoOn(Arc<Plan>, OwnedSemaphorePermit, SessionLock),
    /// End it with this error.
    GiveUp(Error),
}

/// The outcome of picking up an interrupted run.
pub enum PickedUp {
    /// It was resumed.
    Running(RunHandle),
    /// Only its last record was missing, or it cannot be resumed; its end has been recorded now.
    Ended(Ending),
}

/// An interrupted run.
#[derive(Clone, Copy)]
struct CutOffRun<'a> {
    /// The lease, held by the process that examines the run.
    lease: &'a RunLease,
    /// Its journal so far.
    entries: &'a [Entry],
    /// It was requested to stop.
    stops: bool,
}

impl CutOffRun<'_> {
    /// Returns how it ends when it is not resumed for this reason: a run that was to stop anyway has not failed.
    fn given_up_for(&self, reason: Error) -> (Ending, Error) {
        if self.stops || reason.kind == ErrorKind::Cancelled {
            return (Ending::Cancelled, cancelled());
        }
        (Ending::Failed, reason)
    }
}

impl Engine {
    /// Resumes an interrupted run: finished work is taken from its journal; work that was under way begins
    /// again, with the outside results it already had. `plan` is the version its session is on.
    ///
    /// # Errors
    /// `Conflict` when it or its session is under way, here or in another process; `RateLimited` when too
    /// many runs are under way; any error of the store.
    pub async fn pick_up(&self, run: &StoredRun, plan: Arc<Plan>) -> Result<PickedUp> {
        let stores = self.stores()?;
        let place = self.place()?;
        let session = SessionKey::new(&run.key.tenant, run.session.clone());
        let lock = SessionLock::take(self, &session)?;
        let lease = self.take_over(&stores, run).await?;
        let taken = TakenRun::new(self, lease.clone());
        let next = PickUpDecision::GoOn(Arc::clone(&plan), place, lock);
        let picked_up = self.go_on_with(&stores, run, &lease, next).await?;
        taken.kept();
        let waits = matches!(picked_up, PickedUp::Ended(Ending::Waiting));
        // Only its last record was missing. Whoever requested meanwhile that it stop was told that it will.
        if waits && Box::pin(self.stop_if_requested(&stores, &run.key, plan)).await {
            return Ok(PickedUp::Ended(Ending::Cancelled));
        }
        Ok(picked_up)
    }

    /// Ends an interrupted run that is not to be resumed: as cancelled when the error says so or when its cancellation
    /// was requested, which also drops the tasks that its session waits for, else as failed.
    ///
    /// # Errors
    /// `Conflict` when it has ended, or when it or its session is under way; any error of the store.
    pub async fn give_up(&self, run: &StoredRun, error: Error) -> Result<()> {
        let stores = self.stores()?;
        let _lock = SessionLock::take(self, &SessionKey::new(&run.key.tenant, run.session.clone()))?;
        let lease = self.take_over(&stores, run).await?;
        let taken = TakenRun::new(self, lease.clone());
        self.go_on_with(&stores, run, &lease, PickUpDecision::GiveUp(error)).await?;
        taken.kept();
        Ok(())
    }

    /// Decides what happens to a run that this process has just taken over: ends it where it is over or
    /// cannot be resumed, and otherwise does what `next` says.
    async fn go_on_with(
        &self,
        stores: &Stores,
        run: &StoredRun,
        lease: &RunLease,
        next: PickUpDecision,
    ) -> Result<PickedUp> {
        let session = SessionKey::new(&run.key.tenant, run.session.clone());
        let plan = match &next {
            PickUpDecision::GoOn(plan, ..) => Some(Arc::clone(plan)),
            PickUpDecision::GiveUp(_) => None,
        };
        let secrets = match &plan {
            Some(plan) => self.secrets_of(plan, &run.key.tenant).await?,
            None => SecretValues::default(),
        };
        let entries = self.whole_journal(stores, &run.key, &secrets).await?;
        if let Some(Entry { record: Record::RunFinished { ending, spent, uses, .. }, .. }) = entries.last() {
            // Its process ended before it could store this.
            stores.runs.finish(lease, self.finished(*ending, *spent, uses)).await?;
            return Ok(PickedUp::Ended(*ending));
        }
        let stored = stores.sessions.load(&session).await?;
        let cut_off = CutOffRun { lease, entries: &entries, stops: run.cancel_ms.is_some() };
        let begun = entries.first().map(|entry| &entry.record);
        let Some(Record::RunStarted { revision, .. }) = begun else {
            // No one has seen anything of it, and its question is not known.
            let (ending, error) = cut_off.given_up_for(never_begun());
            return self.close(stores, cut_off, ending, Some(error)).await;
        };
        if stored.revision != *revision {
            // Its session is stored already and only the last record is missing, or another run has changed
            // the session.
            let (ending, error) = ended_as(&stored, &run.key.id, &entries);
            return self.close(stores, cut_off, ending, error).await;
        }
        // Counted before the run is resumed: if it ends this process again, nothing is left to count.
        let fruitless = fruitless_pick_ups(&entries);
        if fruitless >= self.0.limits.pick_ups {
            return self.give_up_turn(stores, cut_off, stored, without_progress(fruitless)).await;
        }
        let (plan, place, lock) = match next {
            PickUpDecision::GoOn(plan, place, lock) => (plan, place, lock),
            PickUpDecision::GiveUp(error) => {
                return self.give_up_turn(stores, cut_off, stored, error).await;
            }
        };
        let begun = BegunRun { run, session: &stored, plan, entries: &entries };
        match self.recovered(stores, lease, begun, secrets).await {
            Ok(prepared) => {
                let held = HeldRun::new(place, lock, lease.clone());
                // Its work may have been stopped already, for a reason that only its process knew.
                if run.cancel_ms.is_some() || was_cancelled(&entries) {
                    held.cancel.cancel();
                }
                Ok(PickedUp::Running(self.launch(stores.clone(), prepared, held)))
            }
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.give_up_turn(stores, cut_off, stored, error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a run that cannot be resumed. Its question stays in the session, as after every failure.
    async fn give_up_turn(
        &self,
        stores: &Stores,
        cut_off: CutOffRun<'_>,
        session: Session,
        error: Error,
    ) -> Result<PickedUp> {
        let CutOffRun { lease, entries, .. } = cut_off;
        let (ending, error) = cut_off.given_up_for(error);
        let Some(Record::RunStarted { input, resumes, now_ms, revision, .. }) =
            entries.first().map(|entry| &entry.record)
        else {
            return Err(Error::internal("a journal without a beginning"));
        };
        let mut state = SessionState::from_json(&session.state)?;
        state.turns += 1;
        state.run = Some(lease.run.id.clone());
        state.ending = Some(ending);
        state.spent += spent_by(entries);
        // After a failure the form stays open: somebody may want to answer it again.
        let waited = ending == Ending::Cancelled && state.paused.take().is_some();
        let dropped = waited.then(|| TaskChange {
            run: lease.run.id.clone(),
            at_ms: self.now_ms(),
            open: Vec::new(),
            ended: Vec::new(),
        });
        let asked = SessionMessage {
            role: "user".to_owned(),
            content: input.query.clone(),
            run: Some(lease.run.id.clone()),
            reference: Json::Null,
            created_ms: *now_ms,
            feedback: None,
        };
        // The answers to a form are not a question of their own.
        let asked = (resumes.is_none() && !input.query.is_empty()).then_some(asked);
        let (state, messages) = (state.to_json()?, asked.as_slice());
        let (revision, tasks, lease_held) = (*revision, dropped.as_ref(), Some(lease));
        let commit = SessionCommit { revision, state: &state, messages, tasks, lease: lease_held };
        match stores.sessions.commit(&session.key, commit).await {
            Ok(()) => {}
            // An earlier attempt got this far, another run has changed the session, or the session is gone:
            // the run ends all the same.
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
                tracing::warn!(run.id = %lease.run.id, error = error.detail(), "an abandoned run changes no session");
            }
            Err(error) => return Err(error),
        }
        self.close(stores, cut_off, ending, Some(error)).await
    }

    /// Prepares a run to be resumed: its machine has applied the journal, and its budgets include what it has used.
    async fn recovered(
        &self,
        stores: &Stores,
        lease: &RunLease,
        begun: BegunRun<'_>,
        secrets: SecretValues,
    ) -> Result<super::Prepared> {
        let (run, entries) = (begun.run, begun.entries);
        let around = self.account(stores, &run.key.tenant, &run.canvas).await?;
        let mut prepared = self.as_begun(stores, begun, around, secrets).await?;
        let (plan, limits) = (Arc::clone(&prepared.machine.plan), prepared.machine.limits);
        let spare = Machine::new(plan, serde_json::Map::new(), prepared.context.seed, limits);
        let machine = std::mem::replace(&mut prepared.machine, spare);
        let mut reading = JournalReader::new(machine, prepared.context.input.inputs.clone());
        for entry in entries {
            if matches!(entry.record, Record::Sourced { .. }) {
                prepared.context.citations.note_search();
            }
            reading.take(entry)?;
        }
        let mut recovered = reading.end();
        recovered.handed_over = run.owner.is_none();
        std::mem::swap(&mut prepared.machine, &mut recovered.machine);
        prepared.context.citations.number(recovered.sources.iter().map(|cited| (*cited.chunk).clone()));
        prepared.context.budget.note(recovered.spent);
        // What was used between the last report and the interruption is in the journal alone; it is counted
        // before more is used.
        self.note_spent(stores, lease, recovered.spent.beyond(recovered.shared)).await?;
        self.account(stores, &run.key.tenant, &run.canvas).await?;
        prepared.recovered = Some(recovered);
        Ok(prepared)
    }

    /// Writes the last record of a run that is not resumed.
    async fn close(
        &self,
        stores: &Stores,
        CutOffRun { lease, entries, .. }: CutOffRun<'_>,
        ending: Ending,
        error: Option<Error>,
    ) -> Result<PickedUp> {
        let clock = Arc::clone(&self.0.seams.clock);
        // The end repeats journal content for people, so secrets are masked in it.
        let masked = if entries.is_empty() {
            Vec::new()
        } else {
            self.read_journal(stores, &lease.run, SecretHandling::Masked).await?
        };
        let entries = masked.as_slice();
        let (seq, event) =
            entries.iter().fold((0, 0), |(_, event), entry| (entry.seq, entry.event.unwrap_or(event)));
        let journal = RunJournal::new(lease.clone(), Some(Arc::clone(&stores.runs)), Feed::stored(), clock);
        let mut journal = journal.counted_in(Arc::clone(&self.0.counts)).after(seq, event, 0);
        if matches!(ending, Ending::Failed | Ending::Cancelled) {
            ends(entries).into_iter().for_each(|end| journal.note(end));
        }
        let (usage, limited) = used(entries);
        let uses = uses_by(entries);
        let last = Record::RunFinished {
            ending,
            outputs: last_outputs(entries),
            error: error.map(|error| error.full().into()),
            usage,
            uses,
            limited,
            spent: spent_by(entries),
            elapsed: 0.0,
        };
        if self.end(stores, &mut journal, lease, last).await? == Became::Left {
            self.0.ownership.leave(lease.clone());
            self.begin_keeping();
        }
        Ok(PickedUp::Ended(ending))
    }
}

/// Number of hand-overs that count as one interruption. Stopping a process must not count against its runs,
/// but a run that a store never lets proceed would be handed over again and again.
const HANDED_OVER_PER_CUT: usize = 20;

/// Counts the interruptions since the run last made progress, that is, since a record that survives another
/// interruption.
fn fruitless_pick_ups(entries: &[Entry]) -> usize {
    let stays = |entry: &Entry| match &entry.record {
        Record::EffectFinished { .. } | Record::FrameOpened { .. } => true,
        // Work that was under way at the interruption is suspended, and begins again.
        Record::NodeFinished { route, suspension, .. } => {
            *route != NextEdges::Suspended || suspension.is_some()
        }
        _ => false,
    };
    let since = entries.iter().rev().take_while(|entry| !stays(entry));
    let (mut cut_off, mut handed_over) = (0, 0);
    for entry in since {
        match entry.record {
            Record::PickedUp { handed_over: true, .. } => handed_over += 1,
            Record::PickedUp { .. } => cut_off += 1,
            _ => {}
        }
    }
    cut_off + handed_over / HANDED_OVER_PER_CUT
}

fn without_progress(fruitless: usize) -> Error {
    let message = format!("the run was interrupted {} times without progress", fruitless + 1);
    Error::new(ErrorKind::Interrupted, message)
        .help("check the log for why the process ends, or raise limits.pick_ups")
}

/// Whether the work of a run was stopped because it was cancelled.
fn was_cancelled(entries: &[Entry]) -> bool {
    let shared = shared_to(entries);
    entries.iter().filter(|entry| entry.seq > shared).any(|entry| match &entry.record {
        Record::NodeFinished { error: Some(error), .. } => {
            error.strip_prefix(STOPPED).is_some_and(|why| why == RUN_CANCELLED)
        }
        _ => false,
    })
}

/// Returns how a run whose session is stored ended: as the session says, or else as far as its journal tells.
fn ended_as(stored: &Session, run: &RunId, entries: &[Entry]) -> (Ending, Option<Error>) {
    let (told, error) = told(entries);
    let state = SessionState::from_json(&stored.state).ok();
    let ending = state.filter(|state| state.run.as_ref() == Some(run)).and_then(|state| state.ending);
    match ending {
        Some(Ending::Cancelled) => (Ending::Cancelled, Some(cancelled())),
        Some(Ending::Failed) => (Ending::Failed, error.or_else(|| Some(abandoned()))),
        Some(ending @ (Ending::Succeeded | Ending::Waiting)) => (ending, None),
        None => (told, error),
    }
}

fn never_begun() -> Error {
    Error::new(ErrorKind::Interrupted, "the process was stopped before the run began").help("ask again")
}

fn abandoned() -> Error {
    Error::new(ErrorKind::Interrupted, "the run was interrupted and abandoned")
}

/// Returns how a run whose session is stored ended, as far as its journal tells.
fn told(entries: &[Entry]) -> (Ending, Option<Error>) {
    let waits = entries.iter().any(|entry| matches!(entry.record, Record::Waiting { .. }));
    // From the end, so that when a failure is met it is already known what continued after it.
    let mut went_on = HashSet::new();
    let failure = entries.iter().rev().find_map(|entry| match &entry.record {
        Record::NodeFinished { who, error: Some(error), route: NextEdges::None, .. } => {
            let caught = who.frame.iter().any(|step| went_on.contains(&step.activation));
            (!caught).then(|| Error::new(ErrorKind::Unavailable, failed_with(who, error)))
        }
        Record::NodeFinished { who, route, .. } => {
            if !matches!(route, NextEdges::None | NextEdges::Suspended) {
                went_on.insert(who.activation);
            }
            None
        }
        _ => None,
    });
    // A turn that completed has ended everything it began. This one was given up, and its process ended
    // before it could record that.
    let failure = failure.or_else(|| (!waits && !ends(entries).is_empty()).then(abandoned));
    match (waits, failure) {
        (true, _) => (Ending::Waiting, None),
        (false, Some(error)) => (Ending::Failed, Some(error)),
        (false, None) => (Ending::Succeeded, None),
    }
}

/// Returns the number of the last entry that a run shares with the run that it was forked from.
fn shared_to(entries: &[Entry]) -> u64 {
    match entries.first().map(|entry| &entry.record) {
        Some(Record::RunStarted { forks: Some(forks), .. }) => forks.seq,
        _ => 0,
    }
}

/// Returns the model usage of a run's nodes, without that of a run whose beginning it shares.
fn uses_by(entries: &[Entry]) -> Vec<ModelUse> {
    let (shared, mut uses, mut nodes) = (shared_to(entries), Vec::new(), HashMap::new());
    for entry in entries {
        match &entry.record {
            Record::NodeStarted { who } => {
                nodes.insert(who.activation, &who.node);
            }
            Record::ModelUsed { activation, usage, model, micros, .. } if entry.seq > shared => {
                if let Some(node) = nodes.get(activation) {
                    let used = UsedModel { model: Arc::clone(model), usage: *usage, micros: *micros };
                    usage::add(&mut uses, node, &used);
                }
            }
            _ => {}
        }
    }
    uses
}

/// Returns what a run's finished work has used, without that of a run whose beginning it shares.
fn spent_by(entries: &[Entry]) -> Spent {
    let shared = shared_to(entries);
    let own = entries.iter().filter(|entry| entry.seq > shared);
    own.fold(Spent::default(), |sum, entry| match &entry.record {
        Record::NodeFinished { spent, .. } => sum + *spent,
        _ => sum,
    })
}

/// Returns the outputs of the last message, or else of the last node, as a run that ends by itself reports
/// them. Suspended work has no outputs.
fn last_outputs(entries: &[Entry]) -> Arc<Outputs> {
    let ended = entries.iter().filter_map(|entry| match &entry.record {
        Record::MessageEnded { activation, .. } => Some(*activation),
        _ => None,
    });
    let messages: HashSet<u32> = ended.collect();
    let finished = || {
        entries.iter().rev().filter_map(|entry| match &entry.record {
            Record::NodeFinished { who, outputs, route, .. } if *route != NextEdges::Suspended => {
                Some((who.activation, outputs))
            }
            _ => None,
        })
    };
    let of_message = finished().find(|(activation, _)| messages.contains(activation));
    of_message.or_else(|| finished().next()).map(|(_, outputs)| Arc::clone(outputs)).unwrap_or_default()
}

/// Returns the run's model usage, and the limits that cut its agents' work short.
fn used(entries: &[Entry]) -> (Usage, Vec<Limited>) {
    let (mut used, mut limited) = (Usage::default(), Vec::new());
    for entry in entries {
        match &entry.record {
            Record::ModelUsed { usage, .. } => used += *usage,
            Record::Limited { reason, .. } if !limited.contains(reason) => limited.push(*reason),
            _ => {}
        }
    }
    (used, limited)
}

/// Returns end records for the work that was under way at the interruption, latest first: every start has its end.
fn ends(entries: &[Entry]) -> Vec<Record> {
    let mut open: Vec<&ActivationRef> = Vec::new();
    for entry in entries {
        match &entry.record {
            Record::NodeStarted { who } => open.push(who),
            Record::NodeFinished { who, .. } => open.retain(|open| open.activation != who.activation),
            _ => {}
        }
    }
    let end = |who: &ActivationRef| Record::NodeFinished {
        who: who.clone(),
        inputs: Arc::default(),
        outputs: Arc::default(),
        error: Some(format!("{STOPPED}the process was stopped").into()),
        elapsed: 0.0,
        route: NextEdges::None,
        assigned: Vec::new(),
        suspension: None,
        spent: Spent::default(),
    };
    open.into_iter().rev().map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::Json;
    use weft_core::component::MessageEnd;

    /// Its session is committed, so the turn ended or was given up; then its process died.
    #[test]
    fn a_run_with_unfinished_effects_has_not_succeeded() {
        let entry = |(record, seq)| Entry { seq, event: None, at_ms: 0, record };
        let who = ActivationRef {
            activation: 1,
            node: "A:1".into(),
            name: "A".into(),
            kind: "Agent".into(),
            frame: weft_core::journal::FramePath::default(),
        };
        let started = Record::NodeStarted { who };
        let mut entries = vec![entry((started, 1))];
        assert_eq!(told(&entries).0, Ending::Failed);
        let mut end = ends(&entries).remove(0);
        if let Record::NodeFinished { error, route, .. } = &mut end {
            (*error, *route) = (None, NextEdges::Routed(weft_core::Route::Onward));
        }
        entries.push(entry((end, 2)));
        assert_eq!(told(&entries).0, Ending::Succeeded);
    }

    #[test]
    fn a_run_is_not_blamed_for_stopped_processes() {
        let entries = |handed_over: usize, cut_off: usize| {
            let picked_up = |handed_over| Record::PickedUp { by: Arc::default(), handed_over };
            let records = std::iter::repeat_n(picked_up(true), handed_over)
                .chain(std::iter::repeat_n(picked_up(false), cut_off));
            let entry = |(record, seq)| Entry { seq, event: None, at_ms: 0, record };
            records.zip(1..).map(entry).collect::<Vec<_>>()
        };
        let check = |handed_over, cut_off, expected| {
            assert_eq!(fruitless_pick_ups(&entries(handed_over, cut_off)), expected);
        };
        check(0, 3, 3);
        check(19, 0, 0);
        check(20, 1, 2);
    }

    fn of(record: Record) -> Entry {
        Entry { seq: 1, event: None, at_ms: 0, record }
    }

    fn finished(activation: u32, given: &str, route: NextEdges) -> Entry {
        of(Record::NodeFinished {
            who: ActivationRef {
                activation,
                node: "X".into(),
                name: "X".into(),
                kind: "X".into(),
                frame: Arc::default(),
            },
            inputs: Arc::default(),
            outputs: Arc::new(Outputs::of("given", Json::from(given))),
            error: None,
            elapsed: 0.0,
            route,
            assigned: Vec::new(),
            suspension: None,
            spent: Spent::default(),
        })
    }

    #[test]
    fn a_recovered_failure_is_reported_like_a_live_one() {
        let mut entry = finished(1, "", NextEdges::None);
        if let Record::NodeFinished { error, .. } = &mut entry.record {
            *error = Some("it broke".into());
        }
        let (ending, error) = told(&[entry]);
        assert_eq!((ending, error.unwrap().message.as_str()), (Ending::Failed, "X failed: it broke"));
    }

    fn message_ended(activation: u32) -> Entry {
        of(Record::MessageEnded { activation, node: "X".into(), end: MessageEnd::default() })
    }

    #[test]
    fn a_run_has_the_outputs_of_its_last_message_or_node() {
        let check = |entries: &[Entry], expected: &str| {
            assert_eq!(*last_outputs(entries), Outputs::of("given", Json::from(expected)));
        };
        let on = || NextEdges::default();
        assert_eq!(*last_outputs(&[]), Outputs::new());
        check(&[finished(1, "a", on()), finished(2, "b", on())], "b");
        // A suspended frame has no outputs.
        check(&[finished(1, "a", on()), finished(2, "", NextEdges::Suspended)], "a");
        check(&[message_ended(1), finished(1, "said", on()), finished(2, "b", on())], "said");
    }
}
