//! What a run holds while it is under way in this process: its entry among the running runs, and its session.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use tokio::sync::Notify;
use weft_core::inbox::SentMessage;
use weft_core::seam::run_store::{BUSY_RETRY_AFTER, RunLease};
use weft_core::{Error, ErrorKind, Result, RunKey, SessionKey};

use super::Engine;
use crate::feed::{BrokenOff, Feed};

/// The state of a run when its process stopped working on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It has ended, and its ending is stored.
    Ended,
    /// The same, and it waits for a person.
    Waits,
    /// Another process owns it.
    Lost,
    /// No process works on it, and its readers have been notified.
    Left,
    /// This process shuts down in the middle of it.
    HandedOver,
}

/// A run listed as running; it is removed from the list when this is dropped, however its task ends.
pub(super) struct ListedRun {
    pub(super) became: Became,
    engine: Engine,
    lease: RunLease,
    feed: Arc<Feed>,
    lock: Option<SessionLock>,
}

impl ListedRun {
    pub(super) fn new(engine: &Engine, lease: RunLease, feed: Arc<Feed>, lock: SessionLock) -> Self {
        // Unless set otherwise, the task was dropped.
        Self { became: Became::HandedOver, engine: engine.clone(), lease, feed, lock: Some(lock) }
    }
}

impl Drop for ListedRun {
    fn drop(&mut self) {
        // The session is freed before a reader can see that the run is over.
        drop(self.lock.take());
        match self.became {
            // Nothing to hand over: it has ended, or belongs to another process.
            Became::Ended | Became::Waits | Became::Lost => {}
            Became::Left => self.engine.0.ownership.leave(self.lease.clone()),
            Became::HandedOver => {
                self.engine.0.ownership.leave(self.lease.clone());
                self.feed.break_off(BrokenOff::handed_over(&self.lease.run.id));
            }
        }
        // Removed from the list before the feed closes: a reader that has seen the end must not find the run
        // still under way.
        self.engine.running().runs.remove(&self.lease.run);
        self.engine.0.ownership.changed.notify_one();
        self.feed.close();
    }
}

/// Ensures one turn of a session at a time within this process; the store's revision guards against other processes.
pub(super) struct SessionLock {
    engine: Engine,
    session: SessionKey,
}

impl SessionLock {
    pub(super) fn take(engine: &Engine, session: &SessionKey) -> Result<Self> {
        Self::within(engine, session, 0)
    }

    /// Locks the session for a new turn, subject to the tenant's limit of concurrent runs.
    pub(super) fn for_new_turn(engine: &Engine, session: &SessionKey) -> Result<Self> {
        Self::within(engine, session, engine.0.limits.tenant_runs_at_once)
    }

    /// Locks the session, with at most `tenant_max` concurrent turns of its tenant; 0 means no limit.
    fn within(engine: &Engine, session: &SessionKey, tenant_max: usize) -> Result<Self> {
        let mut running = engine.running();
        // Counted by sessions, under the same lock that takes one. A run is listed only after the store has
        // answered, and until then any number of others would find the same slot free.
        let of_tenant = |taken: &&SessionKey| taken.tenant == session.tenant;
        let count = if tenant_max == 0 { 0 } else { running.sessions.keys().filter(of_tenant).count() };
        if tenant_max > 0 && count >= tenant_max {
            let message = format!("{count} runs of this tenant are already under way, which is the maximum");
            return Err(Error::new(ErrorKind::RateLimited, message)
                .help("try again when one has ended, or let an operator raise limits.tenant_runs_at_once"));
        }
        match running.sessions.entry(session.clone()) {
            Entry::Occupied(_) => {
                let message = format!("session {} is in the middle of a turn", session.id);
                let error = Error::new(ErrorKind::Conflict, message).help("wait for its end, or cancel it");
                Err(Error { retry_after: Some(BUSY_RETRY_AFTER), ..error })
            }
            Entry::Vacant(free) => {
                free.insert(Arc::default());
                Ok(Self { engine: engine.clone(), session: session.clone() })
            }
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        let freed = self.engine.running().sessions.remove(&self.session);
        freed.iter().for_each(|freed| freed.notify_waiters());
    }
}

/// Returns the error for a session that another process's turn changed between reading it and starting a run.
pub(super) fn went_on_elsewhere(session: &SessionKey) -> Error {
    let error = Error::new(ErrorKind::Conflict, format!("another run has changed session {}", session.id));
    Error { retry_after: Some(BUSY_RETRY_AFTER), ..error }.help("ask again")
}

/// A session that is in the middle of a turn in this process.
pub struct BusySession {
    /// Its run; absent while the run is about to start.
    pub run: Option<RunKey>,
    /// Whether the run gives way to a question: it has no listeners, and it was not started in the background.
    pub abandoned: bool,
    /// Whether it was started in the background; such a run is never stopped for a question.
    pub background: bool,
    freed: Arc<Notify>,
    engine: Engine,
    session: SessionKey,
}

impl BusySession {
    /// Waits until the session is free.
    pub async fn freed(&self) {
        let freed = self.freed.notified();
        tokio::pin!(freed);
        // Registered before the check, so that a session which becomes free in between wakes this task.
        freed.as_mut().enable();
        // If another turn has begun since, this one is over.
        let same = |now: &Arc<Notify>| Arc::ptr_eq(now, &self.freed);
        if self.engine.running().sessions.get(&self.session).is_some_and(same) {
            freed.await;
        }
    }
}

impl Engine {
    /// Prevents a session from starting a turn in this process until the returned guard is dropped.
    ///
    /// # Errors
    /// `Conflict` while a turn of it is under way here, or about to start.
    pub fn hold_session(&self, session: &SessionKey) -> Result<impl Send + use<>> {
        SessionLock::take(self, session)
    }

    /// Returns what keeps a session busy in this process.
    pub fn busy_session(&self, key: &SessionKey) -> Option<BusySession> {
        let running = self.running();
        let freed = Arc::clone(running.sessions.get(key)?);
        // A linear search over the runs of this process: there are a few thousand at most, and it happens
        // once per question that found its session busy.
        let live = running.runs.iter().find(|(_, live)| live.session == *key);
        let background = live.is_some_and(|(_, live)| live.background);
        let abandoned = live.is_some_and(|(_, live)| live.is_abandoned());
        let (run, session) = (live.map(|(run, _)| run.clone()), key.clone());
        Some(BusySession { run, abandoned, background, freed, engine: self.clone(), session })
    }

    /// Sends a message to the agent at work in a session; it waits in the run's inbox until the agent makes
    /// its next model request. `None` when no run of the session is under way in this process.
    ///
    /// # Errors
    /// `Conflict` when too many messages wait already.
    pub fn send(&self, session: &SessionKey, text: &str) -> Result<Option<(RunKey, SentMessage)>> {
        let running = self.running();
        let live =
            running.runs.iter().find(|(_, live)| live.session == *session && !live.cancel.is_cancelled());
        let Some((run, live)) = live else { return Ok(None) };
        Ok(Some((run.clone(), live.inbox.send(text)?)))
    }

    /// Marks a run as a background run: it gives way to no question.
    pub fn run_in_background(&self, key: &RunKey) {
        if let Some(live) = self.running().runs.get_mut(key) {
            live.background = true;
        }
    }
}
