//! Whose runs are: this process says that it is at work, hears what others want of its runs, hands over what
//! it lets go of, and finds what nobody works on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use weft_core::seam::process_store::{ProcessPlace, StoredProcess};
use weft_core::seam::run_store::{RunFilter, RunLease, StoredRun};
use weft_core::{Error, ErrorKind, ProcessId, Result, RunKey, SessionKey};

use super::give_way::Waiters;
use super::{Engine, Stores};
use crate::watch::{ProcessWatch, SILENT_MAX};

/// How often a process with runs under way says so.
const BEAT_EVERY: Duration = Duration::from_secs(2);

/// How often a process with runs under way looks what others want of them, and hands over what it left.
const HEAR_EVERY: Duration = Duration::from_secs(1);

/// Runs without a process that are found at a time; the others are found when these go on.
const UNATTENDED_MAX: u64 = 1_000;

/// Each so many looks it is looked for runs that this process has without knowing: of a store that answered
/// too late it cannot know what it did.
const OWN_EVERY: u32 = 10;

/// A process that was silent for so long and has no runs is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// What tells this process from the others that work on the same store.
#[derive(Clone, Debug)]
pub struct ProcessIdentity {
    /// Its name, which no other life of a program has.
    pub id: ProcessId,
    /// Where it runs, as far as that is known.
    pub place: Option<ProcessPlace>,
    /// Whether it is known that nothing runs there any more.
    pub is_gone: fn(&ProcessPlace) -> bool,
}

impl ProcessIdentity {
    /// A process of which others see only whether it says anything.
    pub fn nameless() -> Self {
        Self { id: ProcessId::generate(), place: None, is_gone: |_| false }
    }
}

/// What an engine has to remember of its runs beside running them.
pub(super) struct Ownership {
    pub(super) process: ProcessIdentity,
    watch: Mutex<WatchedProcesses>,
    /// When this process last said that it is at work.
    said: Mutex<Option<Instant>>,
    /// Runs that it has let go of without handing them over yet.
    left: Mutex<Vec<RunLease>>,
    /// A run has ended or was let go of.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct WatchedProcesses {
    watch: ProcessWatch,
    looks: u32,
}

impl Ownership {
    pub(super) fn new(process: ProcessIdentity) -> Self {
        let (watch, said, left) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { process, watch, said, left, changed: Notify::new() }
    }

    fn left(&self) -> MutexGuard<'_, Vec<RunLease>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, WatchedProcesses> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process does not go on with a run: it is handed over soon.
    pub(super) fn leave(&self, lease: RunLease) {
        self.left().push(lease);
        self.changed.notify_one();
    }

    fn said_lately(&self) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.is_some_and(|said| said.elapsed() < BEAT_EVERY)
    }
}

impl Engine {
    /// Says that this process is at work, before it begins with a run: whoever has seen it silent, because it
    /// had nothing to do, would take the run for one that nobody works on.
    pub(super) async fn say_at_work(&self, stores: &Stores) -> Result<()> {
        let ownership = &self.0.ownership;
        if ownership.said_lately() {
            return Ok(());
        }
        // Taken before the call: a store that is slow to answer must not put off the next word.
        let now = Instant::now();
        stores.processes.beat(&ownership.process.id, ownership.process.place.as_ref()).await?;
        *ownership.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(())
    }

    /// Takes a run over.
    ///
    /// # Errors
    /// `Conflict` when it has ended, or another process was faster.
    pub(super) async fn take_over(&self, stores: &Stores, run: &StoredRun) -> Result<RunLease> {
        self.say_at_work(stores).await?;
        let claimed = stores.runs.claim(&run.key, run.fence, &self.0.ownership.process.id).await?;
        claimed.ok_or_else(|| {
            let message = format!("run {} has ended, or another process goes on with it", run.key.id);
            Error::new(ErrorKind::Conflict, message)
        })
    }

    /// Sees to it that somebody does what [`Engine::keep`] does.
    pub(super) fn begin_keeping(&self) {
        let (Some(stores), Ok(runtime)) = (self.0.stores.clone(), Handle::try_current()) else { return };
        if !std::mem::replace(&mut self.running().kept, true) {
            self.0.tasks.spawn_on(self.clone().keep(stores), &runtime);
        }
    }

    /// Does for all runs under way what has to be done every few seconds, until there are none.
    async fn keep(self, stores: Stores) {
        let idle = async {
            while !self.stops_keeping() {
                self.0.ownership.changed.notified().await;
            }
        };
        tokio::select! {
            // In this order, so that a history that a seed describes is always the same.
            biased;
            () = idle => {}
            () = self.say_again_and_again(&stores) => {}
            () = self.hear_again_and_again(&stores) => {}
        }
    }

    /// Whether there is nothing to do any more; then somebody else has to begin again.
    fn stops_keeping(&self) -> bool {
        let mut running = self.running();
        let left = !self.0.ownership.left().is_empty() && !self.0.tasks.is_closed();
        running.kept = !running.runs.is_empty() || left;
        !running.kept
    }

    async fn say_again_and_again(&self, stores: &Stores) {
        loop {
            sleep(BEAT_EVERY).await;
            if let Err(error) = self.say_at_work(stores).await {
                tracing::warn!(error = error.detail(), "cannot say that this process is at work");
            }
        }
    }

    async fn hear_again_and_again(&self, stores: &Stores) {
        let mut waiters = Waiters::default();
        loop {
            sleep(HEAR_EVERY).await;
            self.hand_over(stores).await;
            match stores.runs.requests(&self.0.ownership.process.id).await {
                Ok(requests) => self.hear(&requests, &mut waiters),
                Err(error) => tracing::warn!(error = error.detail(), "cannot look which runs are to stop"),
            }
            self.collect_messages(stores).await;
        }
    }

    /// Hands over what was let go of. What the store does not take now is handed over later.
    pub(super) async fn hand_over(&self, stores: &Stores) {
        // A copy, so that the lock is not held while the store is
        // asked; what is let go of meanwhile stays on the list.
        let left = self.0.ownership.left().clone();
        if left.is_empty() {
            return;
        }
        match stores.runs.release(&left).await {
            Ok(()) => self.0.ownership.left().retain(|lease| !left.contains(lease)),
            Err(error) => tracing::warn!(error = error.detail(), "cannot hand over what is left of runs"),
        }
        self.0.ownership.changed.notify_one();
    }

    /// Runs that nobody works on: they were handed over, their process is known to be gone, or it was seen to be
    /// silent for longer than [`SILENT_MAX`]. What has been seen grows with every call, so it is called again
    /// and again, about every second.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn unattended(&self) -> Result<Vec<StoredRun>> {
        let stores = self.stores()?;
        let own = self.0.ownership.process.id.clone();
        let mut gone = self.gone(&stores.processes.list().await?);
        let looks = {
            let mut watched = self.0.ownership.watched();
            watched.looks = watched.looks.wrapping_add(1);
            watched.looks
        };
        if looks.is_multiple_of(OWN_EVERY) {
            gone.push(own.clone());
        }
        let mut runs = stores.runs.unattended(&gone, UNATTENDED_MAX).await?;
        if runs.is_empty() {
            return Ok(runs);
        }
        // A process that had nothing to do says that it is at work before it begins with a run: of the runs
        // that were found it is known after them whether their process is still silent.
        let processes = stores.processes.list().await?;
        let gone = self.gone(&processes);
        runs.retain(|run| match &run.owner {
            None => true,
            Some(owner) if *owner == own => !self.is_under_way(&run.key),
            Some(owner) => gone.contains(owner) || processes.iter().all(|process| process.id != *owner),
        });
        Ok(runs)
    }

    /// The same, looked for until it is known of every run: those whose process says nothing are watched as
    /// long as that takes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn all_unattended(&self) -> Result<Vec<StoredRun>> {
        let stores = self.stores()?;
        loop {
            let found = self.unattended().await?;
            let processes = stores.processes.list().await?;
            let others: Vec<ProcessId> = processes.into_iter().map(|process| process.id).collect();
            let unfinished = stores.runs.unattended(&others, UNATTENDED_MAX).await?;
            let known = |run: &StoredRun| {
                let heard = |owner: &ProcessId| self.0.ownership.watched().watch.was_heard(owner);
                found.iter().any(|found| found.key == run.key)
                    || self.is_under_way(&run.key)
                    || run.owner.as_ref().is_some_and(heard)
            };
            if unfinished.iter().all(known) {
                return Ok(found);
            }
            sleep(HEAR_EVERY).await;
        }
    }

    /// Whether a run waits for somebody to go on with it, as far as that has been seen by now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn is_unattended(&self, key: &RunKey) -> Result<bool> {
        Ok(self.unattended().await?.iter().any(|run| run.key == *key))
    }

    /// The processes that are gone, as far as that has been seen by now.
    fn gone(&self, processes: &[StoredProcess]) -> Vec<ProcessId> {
        let Ownership { process: own, .. } = &self.0.ownership;
        let mut watched = self.0.ownership.watched();
        watched.watch.look(processes, Instant::now());
        let is_gone = |process: &&StoredProcess| {
            process.id != own.id
                && (watched.watch.silence(&process.id) >= SILENT_MAX
                    || process.place.as_ref().is_some_and(own.is_gone))
        };
        processes.iter().filter(is_gone).map(|process| process.id.clone()).collect()
    }

    /// Forgets processes that are gone for good and have nothing left.
    ///
    /// # Errors
    /// When the store does not do it.
    pub async fn forget_processes(&self) -> Result<()> {
        let stores = self.stores()?;
        let processes = stores.processes.list().await?;
        let gone = self.gone(&processes);
        for process in processes.iter().filter(|process| gone.contains(&process.id)) {
            let known = process.place.as_ref().is_some_and(self.0.ownership.process.is_gone);
            let silent = self.0.ownership.watched().watch.silence(&process.id) >= FORGET_AFTER;
            if known || silent {
                // By the count that was read: a process that has woken since keeps its row.
                stores.processes.forget(&process.id, process.beat).await?;
            }
        }
        Ok(())
    }

    /// Asks a run to stop, whichever process works on it, or none. Whether it was one that has not ended.
    ///
    /// # Errors
    /// When the store cannot be written, and the run is not under way here.
    pub async fn cancel(&self, key: &RunKey) -> Result<bool> {
        let here = self.cancel_here(key);
        let Some(stores) = &self.0.stores else { return Ok(here) };
        // Also when it is under way here: whoever goes on with it, should this process end now, is to know.
        match stores.runs.request_cancel(key, self.now_ms()).await {
            Ok(asked) => Ok(asked || here),
            Err(_) if here => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Asks every run of a session to stop. Whether there was one that has not ended.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn cancel_session(&self, key: &SessionKey) -> Result<bool> {
        let of_session =
            |(run, live): (&RunKey, &super::LiveRun)| (live.session == *key).then(|| run.clone());
        let mut runs: Vec<RunKey> = self.running().runs.iter().filter_map(of_session).collect();
        if let Some(stores) = &self.0.stores {
            runs.extend(at_work(stores, key).await?.map(|run| run.key));
        }
        let mut asked = false;
        for run in &runs {
            asked |= self.cancel(run).await?;
        }
        Ok(asked)
    }

    /// The run of a session that has not ended, whichever process has it.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn at_work(&self, key: &SessionKey) -> Result<Option<StoredRun>> {
        match &self.0.stores {
            Some(stores) => at_work(stores, key).await,
            None => Ok(None),
        }
    }

    /// Asks a run to stop that is under way in this process. Whether it is.
    pub fn cancel_here(&self, key: &RunKey) -> bool {
        let running = self.running();
        running.runs.get(key).map(|live| live.cancel.cancel()).is_some()
    }

    /// Stops working on a run without ending it, and hands it over: another process goes on with it at once.
    /// Whether it was under way.
    pub fn leave(&self, key: &RunKey) -> bool {
        let running = self.running();
        running.runs.get(key).map(|live| live.leave.cancel()).is_some()
    }

    /// Waits for the runs under way, at most `grace`, then hands over the rest: the next process goes on with
    /// them at once. Nothing is cancelled.
    pub async fn shut_down(&self, grace: Duration) {
        // Closed first: the keeper then ends without waiting for a
        // store to take what is left, which is done below.
        self.0.tasks.close();
        self.0.ownership.changed.notify_one();
        if tokio::time::timeout(grace, self.0.tasks.wait()).await.is_err() {
            self.running().runs.values().for_each(|live| live.leave.cancel());
            self.0.tasks.wait().await;
        }
        let Some(stores) = &self.0.stores else { return };
        self.hand_over(stores).await;
        if let Err(error) = self.say_good_bye(stores).await {
            tracing::debug!(error = error.detail(), "this process could not say that it ends");
        }
    }

    /// Others need not watch whether this process falls silent.
    async fn say_good_bye(&self, stores: &Stores) -> Result<()> {
        let own = &self.0.ownership.process.id;
        if self.0.ownership.said.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Ok(());
        }
        for process in stores.processes.list().await?.iter().filter(|process| process.id == *own) {
            stores.processes.forget(own, process.beat).await?;
        }
        Ok(())
    }

    pub(super) fn stores(&self) -> Result<Stores> {
        self.0.stores.clone().ok_or_else(|| Error::internal("this engine has no store"))
    }
}

/// The run of a session that has not ended, whichever process has it.
async fn at_work(stores: &Stores, key: &SessionKey) -> Result<Option<StoredRun>> {
    let filter =
        RunFilter { session: Some(key.id.clone()), unfinished: true, limit: 1, ..RunFilter::default() };
    Ok(stores.runs.list(&key.tenant, &filter).await?.pop())
}

/// A run that this process has taken, until it is known who looks after it. Unless somebody does it is handed
/// over again.
pub(super) struct TakenRun {
    engine: Engine,
    lease: Option<RunLease>,
}

impl TakenRun {
    pub(super) fn new(engine: &Engine, lease: RunLease) -> Self {
        Self { engine: engine.clone(), lease: Some(lease) }
    }

    /// Somebody looks after it.
    pub(super) fn kept(mut self) {
        self.lease = None;
    }
}

impl Drop for TakenRun {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.engine.0.ownership.leave(lease);
            self.engine.begin_keeping();
        }
    }
}
