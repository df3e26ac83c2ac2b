//! Messages that arrive while an agent works.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::{Error, ErrorKind, Result};

use super::turn::Turn;
use crate::message::Message;

/// Maximum number of unread messages in an inbox.
// All of them are added to the next prompt at once.
pub const INBOX_MAX: usize = 100;

/// Takes messages for one session while it replies. Clones share the inbox.
///
/// The current reply reads them before its next request to the model, after the results of the calls it has made.
/// Messages that arrive after the model's final answer stay in the inbox until the next reply, which reads them
/// before its own message. Hooks for observed messages see each of them; a hook that fails also fails the reply.
/// Unread messages are not part of [`super::SessionState`].
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<VecDeque<Message>>>);

impl Inbox {
    /// Adds a message.
    ///
    /// # Errors
    /// `QuotaExceeded` when there are already [`INBOX_MAX`] unread messages.
    pub fn send(&self, message: impl Into<Message>) -> Result<()> {
        let mut waiting = self.waiting();
        if waiting.len() >= INBOX_MAX {
            return Err(Error::new(ErrorKind::QuotaExceeded, "too many messages are waiting for the agent")
                .help("wait until it has read some of them"));
        }
        waiting.push_back(message.into());
        Ok(())
    }

    /// The number of unread messages.
    pub fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Whether there are no unread messages.
    pub fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the oldest message.
    fn next(&self) -> Option<Message> {
        self.waiting().pop_front()
    }
}

impl Turn<'_> {
    /// Adds the messages that have arrived. Every call in the memory must have its result by now.
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
