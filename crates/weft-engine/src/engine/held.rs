//! What a run holds while it is under way in this process: its place on the list, and its session.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use tokio::sync::Notify;
use weft_core::inbox::SentMessage;
use weft_core::seam::run_store::{BUSY_RETRY_AFTER, RunLease};
use weft_core::{Error, ErrorKind, Result, RunKey, SessionKey};

use super::Engine;
use crate::feed::{BrokenOff, Feed};

/// What became of a run when its process stopped working on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It has ended, and that is stored.
    Ended,
    /// Another process has it.
    Lost,
    /// Nobody works on it, and its readers have been told.
    Left,
    /// This process stops in the middle of it.
    HandedOver,
}

/// A run on the list of those under way; whatever becomes of its task, it is taken off again.
pub(super) struct ListedRun {
    pub(super) became: Became,
    engine: Engine,
    lease: RunLease,
    feed: Arc<Feed>,
    lock: Option<SessionLock>,
}

impl ListedRun {
    pub(super) fn new(engine: &Engine, lease: RunLease, feed: Arc<Feed>, lock: SessionLock) -> Self {
        // Unless somebody says otherwise its task was dropped.
        Self { became: Became::HandedOver, engine: engine.clone(), lease, feed, lock: Some(lock) }
    }
}

impl Drop for ListedRun {
    fn drop(&mut self) {
        // The session is free before a reader can see that the run is over.
        drop(self.lock.take());
        match self.became {
            // Nothing to hand over: it is over, or somebody else's.
            Became::Ended | Became::Lost => {}
            Became::Left => self.engine.0.ownership.leave(self.lease.clone()),
            Became::HandedOver => {
                self.engine.0.ownership.leave(self.lease.clone());
                self.feed.break_off(BrokenOff::handed_over(&self.lease.run.id));
            }
        }
        // Off the list before the feed closes: who has read the end must not find the run under way.
        self.engine.running().runs.remove(&self.lease.run);
        self.engine.0.ownership.changed.notify_one();
        self.feed.close();
    }
}

/// One turn of a session at a time, in this process; the store's revision guards against others.
pub(super) struct SessionLock {
    engine: Engine,
    session: SessionKey,
}

impl SessionLock {
    pub(super) fn take(engine: &Engine, session: &SessionKey) -> Result<Self> {
        Self::within(engine, session, 0)
    }

    /// The same for a turn that begins: a tenant that has a quota leaves room for the others.
    pub(super) fn for_new_turn(engine: &Engine, session: &SessionKey) -> Result<Self> {
        Self::within(engine, session, engine.0.limits.tenant_runs_at_once)
    }

    /// With at most so many turns of the tenant at the same time, unless it is 0.
    fn within(engine: &Engine, session: &SessionKey, tenant_max: usize) -> Result<Self> {
        let mut running = engine.running();
        // Counted by sessions and under the lock by which one is taken. A run is on the list only when the store has
        // answered, and until then any number of others would find the same room.
        let of_tenant = |taken: &&SessionKey| taken.tenant == session.tenant;
        let count = if tenant_max == 0 { 0 } else { running.sessions.keys().filter(of_tenant).count() };
        if tenant_max > 0 && count >= tenant_max {
            let message = format!("{count} runs of this tenant are under way, as many as may be");
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

/// A turn of another process came between the reading of a session and the beginning of a run.
pub(super) fn went_on_elsewhere(session: &SessionKey) -> Error {
    let error = Error::new(ErrorKind::Conflict, format!("another run has changed session {}", session.id));
    Error { retry_after: Some(BUSY_RETRY_AFTER), ..error }.help("ask again")
}

/// A session that is in the middle of a turn in this process.
pub struct BusySession {
    /// Its run; absent while it is about to begin.
    pub run: Option<RunKey>,
    /// Whether the run gives way to a question: nobody listens to it, and it was not begun in the background.
    pub abandoned: bool,
    /// Whether it may be stopped for a question at all.
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
        // Registered before the look, so that a session that becomes free in between wakes us.
        freed.as_mut().enable();
        // Another turn may have begun since: then this one is over.
        let same = |now: &Arc<Notify>| Arc::ptr_eq(now, &self.freed);
        if self.engine.running().sessions.get(&self.session).is_some_and(same) {
            freed.await;
        }
    }
}

impl Engine {
    /// Keeps a session from beginning a turn in this process until what this gives is dropped.
    ///
    /// # Errors
    /// `Conflict` while a turn of it is under way here, or about to begin.
    pub fn hold_session(&self, session: &SessionKey) -> Result<impl Send + use<>> {
        SessionLock::take(self, session)
    }

    /// What a session is busy with in this process.
    pub fn busy_session(&self, key: &SessionKey) -> Option<BusySession> {
        let running = self.running();
        let freed = Arc::clone(running.sessions.get(key)?);
        // Over all runs of this process: there are some thousand at most, and this is asked once for a
        // question that found its session busy.
        let live = running.runs.iter().find(|(_, live)| live.session == *key);
        let background = live.is_some_and(|(_, live)| live.background);
        let abandoned = live.is_some_and(|(_, live)| live.is_abandoned());
        let (run, session) = (live.map(|(run, _)| run.clone()), key.clone());
        Some(BusySession { run, abandoned, background, freed, engine: self.clone(), session })
    }

    /// Puts a message to the agent at work in a session into its run; it waits there until the agent makes its next
    /// request to a model. Nothing when no run of the session is under way in this process.
    ///
    /// # Errors
    /// `Conflict` when too many wait already.
    pub fn send(&self, session: &SessionKey, text: &str) -> Result<Option<(RunKey, SentMessage)>> {
        let running = self.running();
        let live =
            running.runs.iter().find(|(_, live)| live.session == *session && !live.cancel.is_cancelled());
        let Some((run, live)) = live else { return Ok(None) };
        Ok(Some((run.clone(), live.inbox.send(text)?)))
    }

    /// Says that a run is nobody's question: it gives way to none.
    pub fn run_in_background(&self, key: &RunKey) {
        if let Some(live) = self.running().runs.get_mut(key) {
            live.background = true;
        }
    }
}
