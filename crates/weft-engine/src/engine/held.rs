//! What a run holds while it is under way in this process: its place on the list, and its session.

use std::sync::Arc;

use weft_core::{Error, ErrorKind, Result, RunKey, SessionKey};

use super::Engine;
use crate::feed::Feed;

/// A run on the list of those under way; whatever becomes of its task, it is taken off again.
pub(super) struct Listed {
    pub(super) engine: Engine,
    pub(super) run: RunKey,
    pub(super) feed: Arc<Feed>,
    pub(super) lock: Option<SessionLock>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        // The session is free before a reader can see that the run is over.
        drop(self.lock.take());
        self.engine.running().runs.remove(&self.run);
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
        if !engine.running().sessions.insert(session.clone()) {
            let message = format!("session {} is in the middle of a turn", session.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("wait for its end, or cancel it"));
        }
        Ok(Self { engine: engine.clone(), session: session.clone() })
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        self.engine.running().sessions.remove(&self.session);
    }
}
