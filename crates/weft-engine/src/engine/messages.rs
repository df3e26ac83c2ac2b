//! Messages to runs of other processes: the sending process leaves them in the store; the process that works
//! on the run looks once a second and hands them to the agent.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use weft_core::id::generate;
use weft_core::inbox::Inbox;
use weft_core::seam::run_messages::RunMessage;
use weft_core::{Result, RunKey, SessionKey};

use super::{Engine, Stores};

/// Maximum number of messages taken in one look.
// The rest is taken by the next look, a second later.
const MESSAGES_AT_ONCE_MAX: u64 = 256;

/// How often a sender checks what has become of its message.
// A sender waits for an answer, and the check reads a single row by its key.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A message that waits for a run of another process. Dropping this before an agent has read the message
/// takes it back.
pub struct LeftMessage {
    /// The run.
    pub run: RunKey,
    id: String,
    stores: Stores,
    engine: Engine,
    /// The message's fate is known.
    settled: AtomicBool,
}

impl LeftMessage {
    /// Waits until an agent has read the message, or until the run is over without that. Returns whether it was read.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn taken(&self) -> Result<bool> {
        loop {
            if !self.stores.messages.message_waits(&self.run, &self.id).await? {
                self.settled.store(true, Ordering::Relaxed);
                return Ok(true);
            }
            if self.stores.runs.get(&self.run).await?.ending.is_some() {
                // An agent may have taken it just before the end. The removal that finds the row decides, so
                // nothing is read twice.
                return Ok(!self.take_back().await?);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Takes the message back. Returns whether it was still waiting.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn take_back(&self) -> Result<bool> {
        let removed = self.stores.messages.remove_messages(&self.run, std::slice::from_ref(&self.id)).await?;
        self.settled.store(true, Ordering::Relaxed);
        Ok(removed > 0)
    }
}

impl Drop for LeftMessage {
    fn drop(&mut self) {
        // Outside of a runtime (in a program that is exiting) nothing can take it back; it is removed with its run.
        let Ok(runtime) = Handle::try_current() else { return };
        if self.settled.load(Ordering::Relaxed) {
            return;
        }
        let (messages, run, id) = (Arc::clone(&self.stores.messages), self.run.clone(), self.id.clone());
        let take_back = async move {
            if let Err(error) = messages.remove_messages(&run, &[id]).await {
                tracing::warn!(run.id = %run.id, error = error.detail(), "cannot take back a message that nobody waits for");
            }
        };
        // Among the tasks of the engine, so that a process which ends waits for it.
        self.engine.0.tasks.spawn_on(take_back, &runtime);
    }
}

impl Engine {
    /// Leaves a message for the agent at work in a session whose run belongs to another process. `None` when
    /// no run of the session is under way anywhere.
    ///
    /// # Errors
    /// `Conflict` when too many messages wait already; errors of the store.
    pub async fn leave_message(&self, session: &SessionKey, text: &str) -> Result<Option<LeftMessage>> {
        let stores = self.stores()?;
        let Some(run) = self.at_work(session).await?.filter(|run| run.cancel_ms.is_none()) else {
            return Ok(None);
        };
        let message = RunMessage {
            run: run.key,
            id: generate(),
            text: text.to_owned(),
            sent_ms: self.0.seams.clock.now_ms(),
        };
        if !stores.messages.leave_message(&message).await? {
            return Ok(None);
        }
        let (engine, settled) = (self.clone(), AtomicBool::new(false));
        Ok(Some(LeftMessage { run: message.run, id: message.id, stores, engine, settled }))
    }

    /// Returns the inbox of a run that is about to start here.
    pub(super) fn inbox_of(&self, run: &RunKey) -> Inbox {
        match &self.0.stores {
            Some(stores) => Inbox::of(run.clone(), Arc::clone(&stores.messages)),
            None => Inbox::default(),
        }
    }

    /// Delivers messages that other processes have left for runs of this one.
    pub(super) async fn collect_messages(&self, stores: &Stores) {
        let left = stores.messages.messages_for(&self.0.ownership.process.id, MESSAGES_AT_ONCE_MAX).await;
        let left = match left {
            Ok(left) => left,
            Err(error) => {
                return tracing::warn!(error = error.detail(), "cannot look for messages to runs");
            }
        };
        let mut by_run: HashMap<RunKey, Vec<RunMessage>> = HashMap::new();
        for message in left {
            by_run.entry(message.run.clone()).or_default().push(message);
        }
        // After the store has answered: the lock is not held across an await.
        let running = self.running();
        for (run, messages) in by_run {
            if let Some(live) = running.runs.get(&run).filter(|live| !live.cancel.is_cancelled()) {
                live.inbox.deliver(messages);
            }
        }
    }
}
