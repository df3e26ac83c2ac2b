//! Ownership of runs: this process sends heartbeats, receives what other processes request of its runs,
//! releases the runs it gives up, and finds runs that no process works on.

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

/// How often a process with runs under way sends a heartbeat.
// Three heartbeats may be missed before a process counts as dead, see `SILENT_MAX`.
const BEAT_EVERY: Duration = Duration::from_secs(2);

/// How often a process with runs under way checks for requests from other processes and hands over the runs
/// it released.
const HEAR_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of unattended runs returned at once; the others are found once these have been resumed.
const UNATTENDED_MAX: u64 = 1_000;

/// Every this many looks, also look for runs that this process owns without knowing: after a store answered
/// too late, it cannot know what the store did.
const OWN_EVERY: u32 = 10;

/// A process without runs is forgotten after it has been silent for this long.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// What distinguishes this process from the others that work on the same store.
#[derive(Clone, Debug)]
pub struct ProcessIdentity {
    /// Its id, unique to this execution of the program.
    pub id: ProcessId,
    /// Where it runs, if that is known.
    pub place: Option<ProcessPlace>,
    /// Whether it is certain that nothing runs at a place any more.
    pub is_gone: fn(&ProcessPlace) -> bool,
}

impl ProcessIdentity {
    /// Creates the identity of a process that others can only judge by its heartbeats.
    pub fn nameless() -> Self {
        Self { id: ProcessId::generate(), place: None, is_gone: |_| false }
    }
}

/// What an engine tracks about the ownership of its runs.
pub(super) struct Ownership {
    pub(super) process: ProcessIdentity,
    watch: Mutex<WatchedProcesses>,
    /// When this process last sent a heartbeat; absent before the first one.
    sent: Mutex<Option<Instant>>,
    /// Runs that it has released but not handed over yet.
    left: Mutex<Vec<RunLease>>,
    /// Notified when a run has ended or was released.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct WatchedProcesses {
    watch: ProcessWatch,
    looks: u32,
}

impl Ownership {
    pub(super) fn new(process: ProcessIdentity) -> Self {
        let (watch, sent, left) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { process, watch, sent, left, changed: Notify::new() }
    }

    fn left(&self) -> MutexGuard<'_, Vec<RunLease>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, WatchedProcesses> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases a run that this process does not continue; it is handed over soon.
    pub(super) fn leave(&self, lease: RunLease) {
        self.left().push(lease);
        self.changed.notify_one();
    }

    fn sent_lately(&self) -> bool {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.is_some_and(|sent| sent.elapsed() < BEAT_EVERY)
    }
}

impl Engine {
    /// Sends a heartbeat before a run starts: a process that saw this one silent, because it was idle, would
    /// take the run for an unattended one.
    pub(super) async fn say_at_work(&self, stores: &Stores) -> Result<()> {
        let ownership = &self.0.ownership;
        if ownership.sent_lately() {
            return Ok(());
        }
        // Taken before the call: a store that is slow to answer must not delay the next heartbeat.
        let now = Instant::now();
        stores.processes.beat(&ownership.process.id, ownership.process.place.as_ref()).await?;
        *ownership.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(())
    }

    /// Takes over a run.
    ///
    /// # Errors
    /// `Conflict` when it has ended, or when another process was faster.
    pub(super) async fn take_over(&self, stores: &Stores, run: &StoredRun) -> Result<RunLease> {
        self.say_at_work(stores).await?;
        let claimed = stores.runs.claim(&run.key, run.fence, &self.0.ownership.process.id).await?;
        claimed.ok_or_else(|| {
            let message = format!("run {} has ended, or another process continues it", run.key.id);
            Error::new(ErrorKind::Conflict, message)
        })
    }

    /// Makes sure that a task runs [`Engine::keep`].
    pub(super) fn begin_keeping(&self) {
        let (Some(stores), Ok(runtime)) = (self.0.stores.clone(), Handle::try_current()) else { return };
        if !std::mem::replace(&mut self.running().kept, true) {
            self.0.tasks.spawn_on(self.clone().keep(stores), &runtime);
        }
    }

    /// Does what all runs under way need every few seconds, until there are none left.
    async fn keep(self, stores: Stores) {
        let idle = async {
            while !self.stops_keeping() {
                self.0.ownership.changed.notified().await;
            }
        };
        tokio::select! {
            // In this order, so that the history for a given seed is always the same.
            biased;
            () = idle => {}
            () = self.say_again_and_again(&stores) => {}
            () = self.hear_again_and_again(&stores) => {}
        }
    }

    /// Whether there is nothing left to do; the keeper must then be started again when there is.
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
                tracing::warn!(error = error.detail(), "cannot record that this process is at work");
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
                Err(error) => {
                    tracing::warn!(error = error.detail(), "cannot check which runs are to be stopped");
                }
            }
            self.collect_messages(stores).await;
        }
    }

    /// Hands over the runs that were released. Those that the store does not accept now are handed over later.
    pub(super) async fn hand_over(&self, stores: &Stores) {
        // A copy, so that the lock is not held during the store call; runs released meanwhile stay on the list.
        let left = self.0.ownership.left().clone();
        if left.is_empty() {
            return;
        }
        match stores.runs.release(&left).await {
            Ok(()) => self.0.ownership.left().retain(|lease| !left.contains(lease)),
            Err(error) => tracing::warn!(error = error.detail(), "cannot hand over the remaining runs"),
        }
        self.0.ownership.changed.notify_one();
    }

    /// Returns the runs that no process works on: they were handed over, their process is known to be gone,
    /// or it has been silent for longer than [`SILENT_MAX`]. Silence is observed across calls, so this has to
    /// be called repeatedly, about once a second.
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
        // A process that was idle sends a heartbeat before it starts a run, so reading the processes again
        // after the runs were found tells whether their owners are still silent.
        let processes = stores.processes.list().await?;
        let gone = self.gone(&processes);
        runs.retain(|run| match &run.owner {
            None => true,
            Some(owner) if *owner == own => !self.is_under_way(&run.key),
            Some(owner) => gone.contains(owner) || processes.iter().all(|process| process.id != *owner),
        });
        Ok(runs)
    }

    /// Finds unattended runs, and waits until the state of every run is known: silent processes are watched
    /// for as long as that takes.
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

    /// Whether a run waits to be resumed, as far as has been observed so far.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn is_unattended(&self, key: &RunKey) -> Result<bool> {
        Ok(self.unattended().await?.iter().any(|run| run.key == *key))
    }

    /// Returns the processes that are gone, as far as has been observed so far.
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

    /// Forgets processes that are gone for good and own no runs.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_processes(&self) -> Result<()> {
        let stores = self.stores()?;
        let processes = stores.processes.list().await?;
        let gone = self.gone(&processes);
        for process in processes.iter().filter(|process| gone.contains(&process.id)) {
            let known = process.place.as_ref().is_some_and(self.0.ownership.process.is_gone);
            let silent = self.0.ownership.watched().watch.silence(&process.id) >= FORGET_AFTER;
            if known || silent {
                // Conditional on the heartbeat count that was read: a process that has woken up since keeps its row.
                stores.processes.forget(&process.id, process.beat).await?;
            }
        }
        Ok(())
    }

    /// Requests that a run stop, whichever process works on it, if any. Returns whether the run was unfinished. One that
    /// waits for a person has ended: [`Engine::stop_waiting`] stops it.
    ///
    /// # Errors
    /// When the store cannot be written and the run is not under way here.
    pub async fn cancel(&self, key: &RunKey) -> Result<bool> {
        let here = self.cancel_here(key);
        let Some(stores) = &self.0.stores else { return Ok(here) };
        // Also when it is under way here: if this process ends now, the process that resumes the run must know.
        match stores.runs.request_cancel(key, self.now_ms()).await {
            Ok(asked) => Ok(asked || here),
            Err(_) if here => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Requests that every run of a session stop. Returns whether any of them was unfinished.
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

    /// Returns the unfinished run of a session, whichever process owns it.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn at_work(&self, key: &SessionKey) -> Result<Option<StoredRun>> {
        match &self.0.stores {
            Some(stores) => at_work(stores, key).await,
            None => Ok(None),
        }
    }

    /// Cancels a run if it is under way in this process. Returns whether it is.
    pub fn cancel_here(&self, key: &RunKey) -> bool {
        let running = self.running();
        running.runs.get(key).map(|live| live.cancel.cancel()).is_some()
    }

    /// Stops working on a run without ending it and hands it over: another process can resume it immediately.
    /// Returns whether it was under way.
    pub fn leave(&self, key: &RunKey) -> bool {
        let running = self.running();
        running.runs.get(key).map(|live| live.leave.cancel()).is_some()
    }

    /// Waits up to `grace` for the runs under way, then hands over the rest: the next process can resume them
    /// immediately. Nothing is cancelled. After that, readers of runs of other processes get an error that tells them
    /// to continue elsewhere.
    pub async fn shut_down(&self, grace: Duration) {
        // Closed first: the keeper then ends without waiting for the store to take what was released; that is
        // done below.
        self.0.tasks.close();
        self.0.ownership.changed.notify_one();
        if tokio::time::timeout(grace, self.0.tasks.wait()).await.is_err() {
            self.running().runs.values().for_each(|live| live.leave.cancel());
            self.0.tasks.wait().await;
        }
        self.running().stopped = true;
        let Some(stores) = &self.0.stores else { return };
        self.hand_over(stores).await;
        if let Err(error) = self.deregister(stores).await {
            tracing::debug!(error = error.detail(), "this process could not record that it is ending");
        }
    }

    /// Removes this process from the store, so that others need not wait until it counts as dead.
    async fn deregister(&self, stores: &Stores) -> Result<()> {
        let own = &self.0.ownership.process.id;
        // It has never registered: there is nothing to remove.
        if self.0.ownership.sent.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
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

/// Returns the unfinished run of a session, whichever process owns it.
async fn at_work(stores: &Stores, key: &SessionKey) -> Result<Option<StoredRun>> {
    let filter =
        RunFilter { session: Some(key.id.clone()), unfinished: true, limit: 1, ..RunFilter::default() };
    Ok(stores.runs.list(&key.tenant, &filter).await?.pop())
}

/// A run that this process has just claimed, until a task is responsible for it. If none becomes responsible,
/// the run is released again.
pub(super) struct TakenRun {
    engine: Engine,
    lease: Option<RunLease>,
}

impl TakenRun {
    pub(super) fn new(engine: &Engine, lease: RunLease) -> Self {
        Self { engine: engine.clone(), lease: Some(lease) }
    }

    /// A task is responsible for the run now.
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
