//! Runs that were cut off by the end of their process: read back from their journals, and gone on with.

use std::sync::Arc;

use weft_core::budget::Spent;
use weft_core::context::Limited;
use weft_core::journal::{Ending, Onward, Who};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::session_store::Session;
use weft_core::{Entry, Error, ErrorKind, Outputs, Record, Result, RunKey, SessionKey};
use weft_dsl::Plan;

use super::held::SessionLock;
use super::{Engine, RunHandle, Stores};
use crate::drive::STOPPED;
use crate::feed::Feed;
use crate::journal::Journal;
use crate::machine::Machine;
use crate::recover::Reading;

/// Entries read from the store at a time.
const PAGE: u64 = 512;

/// How often a run goes on after it was cut off: it may be the run that ends its process.
pub const PICK_UPS_MAX: usize = 5;

/// What became of a run that was cut off.
pub enum PickedUp {
    /// It goes on.
    Running(RunHandle),
    /// It was over but for its last word, or it cannot go on; that has been written down now.
    Ended(Ending),
}

impl Engine {
    /// Goes on with a run that was cut off: what is finished is taken from its journal, what was under
    /// way begins again with what it had got from outside. `plan` is the version its session is on.
    ///
    /// # Errors
    /// `Conflict` when it or its session is under way, here or in another process; `RateLimited` when too many runs are under way; what the store says.
    pub async fn pick_up(&self, run: &StoredRun, plan: Arc<Plan>) -> Result<PickedUp> {
        let stores = self.0.stores.clone().ok_or_else(|| Error::internal("this engine has no store"))?;
        let place = Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| {
            Error::new(ErrorKind::RateLimited, "too many runs are under way").help("try again in a moment")
        })?;
        let session = SessionKey::new(&run.key.tenant, run.session.clone());
        let lock = SessionLock::take(self, &session)?;
        if !stores.runs.claim(&run.key, run.alive_ms, self.now_ms()).await? {
            let message = format!("run {} has ended, or another process goes on with it", run.key.id);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let entries = self.whole_journal(&stores, &run.key).await?;
        if let Some(Entry { record: Record::RunFinished { ending, spent, .. }, .. }) = entries.last() {
            // Its process may have ended before it could note this; noted twice it counts once.
            self.note_spent(&stores, &run.key, *spent).await?;
            stores.runs.finish(&run.key, *ending, self.now_ms()).await?;
            return Ok(PickedUp::Ended(*ending));
        }
        let stored = stores.sessions.load(&session).await?;
        let begun = entries.first().map(|entry| &entry.record);
        let Some(Record::RunStarted { revision, .. }) = begun else {
            // Nobody has seen anything of it, and nobody knows what it was asked.
            let error = Error::new(ErrorKind::Interrupted, "the process was stopped before the run began");
            return self
                .close(&stores, (&run.key, &entries), (Ending::Failed, Some(error.help("ask again"))))
                .await;
        };
        let before = entries.iter().filter(|entry| matches!(entry.record, Record::PickedUp { .. })).count();
        if before >= PICK_UPS_MAX {
            let message = format!("the run was cut off {} times, each time with its process", before + 1);
            let error =
                Error::new(ErrorKind::Interrupted, message).help("look in the log for what ends the process");
            return self.close(&stores, (&run.key, &entries), (Ending::Failed, Some(error))).await;
        }
        if stored.revision != *revision {
            // Its session is safe already, and only the last word is missing; or somebody went on with it.
            return self.close(&stores, (&run.key, &entries), told(&entries)).await;
        }
        match self.recovered(&stores, (run, stored, plan), &entries).await {
            Ok(prepared) => Ok(PickedUp::Running(self.launch(stores, prepared, (place, lock)))),
            Err(error) if error.kind == ErrorKind::Conflict => {
                self.close(&stores, (&run.key, &entries), (Ending::Failed, Some(error))).await
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn whole_journal(&self, stores: &Stores, key: &RunKey) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |entry| entry.seq);
            let page = stores.runs.entries(key, after, PAGE).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            for stored in page {
                let record = serde_json::from_str(&stored.record).map_err(|cause| {
                    let message = format!("cannot read entry {} of run {}", stored.seq, key.id);
                    Error::internal(message).because(cause)
                })?;
                entries.push(Entry { seq: stored.seq, event: stored.event, at_ms: stored.at_ms, record });
            }
        }
    }

    async fn recovered(
        &self,
        stores: &Stores,
        (run, session, plan): (&StoredRun, Session, Arc<Plan>),
        entries: &[Entry],
    ) -> Result<super::Prepared> {
        let around = self.account(stores, &run.key.tenant, &run.canvas).await?;
        let mut prepared = self.as_begun(stores, (run, &session, plan), (entries, around)).await?;
        let (plan, limits) = (Arc::clone(&prepared.machine.plan), prepared.machine.limits);
        let spare = Machine::new(plan, serde_json::Map::new(), prepared.context.seed, limits);
        let machine = std::mem::replace(&mut prepared.machine, spare);
        let mut reading = Reading::new(machine, prepared.context.input.inputs.clone());
        for entry in entries {
            reading.take(entry)?;
        }
        let mut recovered = reading.end();
        std::mem::swap(&mut prepared.machine, &mut recovered.machine);
        prepared.context.citations.number(recovered.sources.iter().map(|cited| (*cited.chunk).clone()));
        prepared.context.budget.note(recovered.spent);
        self.note_spent(stores, &run.key, recovered.spent.beyond(recovered.shared)).await?;
        self.account(stores, &run.key.tenant, &run.canvas).await?;
        prepared.recovered = Some(recovered);
        Ok(prepared)
    }

    /// Writes the last word of a run that does not go on.
    async fn close(
        &self,
        stores: &Stores,
        (key, entries): (&RunKey, &[Entry]),
        (ending, error): (Ending, Option<Error>),
    ) -> Result<PickedUp> {
        let clock = Arc::clone(&self.0.seams.clock);
        let (seq, event) =
            entries.iter().fold((0, 0), |(_, event), entry| (entry.seq, entry.event.unwrap_or(event)));
        let journal = Journal::new(key.clone(), Some(Arc::clone(&stores.runs)), Feed::stored(), clock);
        let mut journal = journal.after(seq, event);
        if ending == Ending::Failed {
            ends(entries).into_iter().for_each(|end| journal.note(end));
        }
        let (usage, limited) = used(entries);
        let last = Record::RunFinished {
            ending,
            outputs: last_outputs(entries),
            error: error.map(|error| error.full().into()),
            usage,
            limited,
            spent: spent_by(entries),
            elapsed: 0.0,
        };
        self.end(stores, &mut journal, (key, last)).await?;
        Ok(PickedUp::Ended(ending))
    }
}

/// How a run ended whose session is safe, as far as its journal tells.
fn told(entries: &[Entry]) -> (Ending, Option<Error>) {
    let waits = entries.iter().any(|entry| matches!(entry.record, Record::Waiting { .. }));
    let failure = entries.iter().rev().find_map(|entry| match &entry.record {
        Record::NodeFinished { who, error: Some(error), route: Onward::Nowhere, .. } => {
            Some(Error::new(ErrorKind::Unavailable, format!("{} ({}) failed: {error}", who.name, who.node)))
        }
        _ => None,
    });
    match (waits, failure) {
        (true, _) => (Ending::Waiting, None),
        (false, Some(error)) => (Ending::Failed, Some(error)),
        (false, None) => (Ending::Succeeded, None),
    }
}

/// What a run's finished work has used, without that of the run whose beginning it shares.
fn spent_by(entries: &[Entry]) -> Spent {
    let shared = match entries.first().map(|entry| &entry.record) {
        Some(Record::RunStarted { forks: Some(forks), .. }) => forks.seq,
        _ => 0,
    };
    let own = entries.iter().filter(|entry| entry.seq > shared);
    own.fold(Spent::default(), |sum, entry| match &entry.record {
        Record::NodeFinished { spent, .. } => sum + *spent,
        _ => sum,
    })
}

fn last_outputs(entries: &[Entry]) -> Arc<Outputs> {
    let last = entries.iter().rev().find_map(|entry| match &entry.record {
        Record::NodeFinished { outputs, .. } => Some(Arc::clone(outputs)),
        _ => None,
    });
    last.unwrap_or_default()
}

/// What the run has used, and the limits that have cut its agents' work short.
fn used(entries: &[Entry]) -> (Usage, Vec<Limited>) {
    let (mut used, mut limited) = (Usage::default(), Vec::new());
    for entry in entries {
        match &entry.record {
            Record::EffectFinished { usage, .. } => used += *usage,
            Record::Limited { reason, .. } if !limited.contains(reason) => limited.push(*reason),
            _ => {}
        }
    }
    (used, limited)
}

/// The ends of what was under way when the run was cut off, latest first: every start has its end.
fn ends(entries: &[Entry]) -> Vec<Record> {
    let mut open: Vec<&Who> = Vec::new();
    for entry in entries {
        match &entry.record {
            Record::NodeStarted { who } => open.push(who),
            Record::NodeFinished { who, .. } => open.retain(|open| open.activation != who.activation),
            _ => {}
        }
    }
    let end = |who: &Who| Record::NodeFinished {
        who: who.clone(),
        inputs: Arc::default(),
        outputs: Arc::default(),
        error: Some(format!("{STOPPED}the process was stopped").into()),
        elapsed: 0.0,
        route: Onward::Nowhere,
        assigned: Vec::new(),
        suspension: None,
        spent: Spent::default(),
    };
    open.into_iter().rev().map(end).collect()
}
