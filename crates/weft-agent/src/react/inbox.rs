//! Messages that arrive while an agent works.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::{Error, ErrorKind, Result};

use super::turn::Turn;
use crate::message::Message;

/// Messages that wait in an inbox, at most.
pub const INBOX_MAX: usize = 100;

/// Takes messages for one session while it replies. Clones are the same inbox.
///
/// The reply that is going on reads them before its next request to the model, behind the results of the calls
/// it has made. Messages that arrive when the model has said its last word wait for the next reply, which
/// reads them before its own message. Hooks for observed messages see each of them; one that fails fails the
/// reply. They are no part of [`super::SessionState`].
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<VecDeque<Message>>>);

impl Inbox {
    /// Puts a message in.
    ///
    /// # Errors
    /// `QuotaExceeded` when [`INBOX_MAX`] messages wait already.
    pub fn send(&self, message: impl Into<Message>) -> Result<()> {
        let mut waiting = self.waiting();
        if waiting.len() >= INBOX_MAX {
            return Err(Error::new(ErrorKind::QuotaExceeded, "too many messages wait for the agent")
                .help("wait until it has read some of them"));
        }
        waiting.push_back(message.into());
        Ok(())
    }

    /// How many messages wait to be read.
    pub fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The oldest message, which then waits no longer.
    fn next(&self) -> Option<Message> {
        self.waiting().pop_front()
    }
}

impl Turn<'_> {
    /// Reads what has arrived. Every call in the memory must have its result by now.
    pub(super) async fn read_inbox(&mut self) -> Result<()> {
        // A hook may send messages itself; those are for the next round.
        for _ in 0..self.inbox.len() {
            let Some(message) = self.inbox.next() else { break };
            let message = self.hooks.run(|hooks| &hooks.pre_observe, &self.context, message).await?;
            self.memory.add(message.clone().stamped(self.now_ms()));
            self.hooks.run(|hooks| &hooks.post_observe, &self.context, message).await?;
        }
        Ok(())
    }
}
