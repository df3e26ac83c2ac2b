//! Messages sent to a run in progress, for the agent at work in it.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::context::{NodeContext, Signal, no_longer_listens};
use crate::effect::{Delivery, EffectResult, Known};
use crate::error::{Error, Result};
use crate::id::RunKey;
use crate::seam::RunMessages;
use crate::seam::run_messages::{MESSAGES_MAX, RunMessage, too_many};

/// The effect kind by which a message enters an agent's work. It is recorded like all other external input, so
/// repeated work receives the same messages at the same places.
const KIND: &str = "message";
/// Prefix of the places of these effects in a node's own work.
const PLACE: &str = "message#";

/// The messages to one run that have not been taken yet. Clones share the same inbox.
#[derive(Clone, Default)]
pub struct Inbox {
    waiting: Arc<Mutex<WaitingMessages>>,
    /// Where other processes leave messages.
    left: Option<LeftMessages>,
}

#[derive(Clone)]
struct LeftMessages {
    run: RunKey,
    messages: Arc<dyn RunMessages>,
}

#[derive(Debug, Default)]
struct WaitingMessages {
    messages: VecDeque<InboxMessage>,
    /// Number of messages sent.
    sent: u64,
    /// The ids of messages left by other processes that have already been added here; some may still be where they
    /// were left.
    known: HashSet<String>,
}

#[derive(Debug)]
struct InboxMessage {
    text: String,
    origin: MessageOrigin,
}

/// The origin of a message, so that its sender can be notified when it is taken.
#[derive(Debug)]
enum MessageOrigin {
    /// This process.
    Sent { number: u64, taken: oneshot::Sender<()> },
    /// Another process, under this id.
    Left { id: String },
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Creates the inbox of a run for which other processes may leave messages.
    pub fn of(run: RunKey, messages: Arc<dyn RunMessages>) -> Self {
        Self { waiting: Arc::default(), left: Some(LeftMessages { run, messages }) }
    }

    /// Adds a message. Dropping the returned handle before an agent has taken the message withdraws it.
    ///
    /// # Errors
    /// `Conflict` when [`MESSAGES_MAX`] messages are already waiting.
    pub fn send(&self, text: impl Into<String>) -> Result<SentMessage> {
        let mut waiting = self.waiting();
        // An agent that calls no model for a long time, or never, must not exhaust the memory of the process.
        if waiting.messages.len() >= MESSAGES_MAX {
            return Err(too_many());
        }
        let (taken, gone) = oneshot::channel();
        waiting.sent += 1;
        let number = waiting.sent;
        let origin = MessageOrigin::Sent { number, taken };
        waiting.messages.push_back(InboxMessage { text: text.into(), origin });
        // Weak: a sender that waits must not keep the messages of a run that has ended.
        Ok(SentMessage { inbox: Arc::downgrade(&self.waiting), number, gone })
    }

    /// Adds the messages that other processes have left for the run. `left` is everything waiting there now; messages
    /// that were added before are not added again.
    pub fn deliver(&self, left: impl IntoIterator<Item = RunMessage>) {
        let mut waiting = self.waiting();
        // Only the ids that are still waiting there have to be remembered, so this does not grow with the run.
        let before = std::mem::take(&mut waiting.known);
        for RunMessage { id, text, .. } in left {
            if !before.contains(&id) {
                waiting
                    .messages
                    .push_back(InboxMessage { text, origin: MessageOrigin::Left { id: id.clone() } });
            }
            waiting.known.insert(id);
        }
    }

    /// Removes messages that an agent has read, so that they are not read again, here or in a process that resumes
    /// the run.
    async fn settle(&self, ids: &[String]) -> Result<()> {
        let Some(LeftMessages { run, messages }) = self.left.as_ref().filter(|_| !ids.is_empty()) else {
            return Ok(());
        };
        {
            let mut waiting = self.waiting();
            // Done before they are removed from where they were left; a delivery in between would add them again.
            waiting.known.extend(ids.iter().cloned());
            waiting
                .messages
                .retain(|message| !matches!(&message.origin, MessageOrigin::Left { id } if ids.contains(id)));
        }
        messages.remove_messages(run, ids).await.map(drop)
    }

    fn take(&self) -> Vec<InboxMessage> {
        self.waiting().messages.drain(..).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingMessages> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message on its way to an agent.
#[derive(Debug)]
pub struct SentMessage {
    /// Weak, so that it does not outlive its run.
    inbox: Weak<Mutex<WaitingMessages>>,
    number: u64,
    gone: oneshot::Receiver<()>,
}

impl SentMessage {
    /// Waits until an agent has taken the message or the run has ended. Returns whether it was taken.
    pub async fn taken(&mut self) -> bool {
        (&mut self.gone).await.is_ok()
    }

    /// Takes the message back. Returns whether it was still waiting; if not, an agent has read it or is just doing so,
    /// or the run has ended, and [`SentMessage::taken`] tells which.
    pub fn take_back(&self) -> bool {
        // If the run has ended, its messages are gone with it.
        let Some(inbox) = self.inbox.upgrade() else { return false };
        let mut waiting = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |message: &InboxMessage| match message.origin {
            MessageOrigin::Sent { number, .. } => number == self.number,
            MessageOrigin::Left { .. } => false,
        };
        let before = waiting.messages.len();
        waiting.messages.retain(|message| !is_it(message));
        waiting.messages.len() < before
    }
}

impl Drop for SentMessage {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// What arrived before a request to a model.
#[derive(Serialize, Deserialize)]
struct Arrival<T> {
    /// The number of that request within the work, counted from 0.
    request: u32,
    #[serde(flatten)]
    news: T,
}

#[derive(Serialize, Deserialize)]
struct Arrived {
    messages: Vec<String>,
    /// The ids of those among them that other processes left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

impl NodeContext {
    /// Returns news for work that is about to make its request number `request` to a model, counted from 0. News are
    /// an effect of this kind: they are recorded with their place, so that repeated work receives the same news at
    /// the same place. `look` is called only if nothing is recorded yet.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn news_before<T>(
        &self,
        kind: &'static str,
        request: u32,
        look: impl FnOnce() -> Option<T>,
    ) -> Result<Option<T>>
    where
        T: Serialize + DeserializeOwned,
    {
        let new = match self.effects.ahead(&self.part, kind) {
            // They arrived before a certain request, and are delivered again before that request.
            Some(Known::Ended(EffectResult::Value(value))) => {
                if !Arrival::<T>::deserialize(&*value).is_ok_and(|arrival| arrival.request == request) {
                    return Ok(None);
                }
                None
            }
            Some(Known::Ended(EffectResult::Failure { .. })) => return Ok(None),
            // Messages that wait in the inbox now were not there when the run was recorded.
            Some(Known::Begun) | None if self.effects.are_recorded() => return Ok(None),
            Some(Known::Begun) | None => match look() {
                None => return Ok(None),
                news => news,
            },
        };
        let arrive = async {
            let news = new.ok_or_else(|| Error::internal("what had arrived is not in the journal"))?;
            Ok(Arrival { request, news })
        };
        let (arrival, _) = self.effect(kind, Delivery::Idempotent, arrive).await?;
        Ok(Some(arrival.news))
    }

    /// Takes the messages to the run, for the agent that is about to make its request of this number, counted from 0.
    /// Only a node's own work receives any: what an agent calls does not see them.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn messages_before(&self, request: u32) -> Result<Vec<String>> {
        if !self.part.is_empty() {
            return Ok(Vec::new());
        }
        let (mut told, mut new) = (Vec::new(), false);
        let take = || {
            let mut arrived = Arrived { messages: Vec::new(), left: Vec::new() };
            for InboxMessage { text, origin } in self.run.inbox.take() {
                arrived.messages.push(text);
                match origin {
                    MessageOrigin::Sent { taken, .. } => told.push(taken),
                    MessageOrigin::Left { id } => arrived.left.push(id),
                }
            }
            new = !arrived.messages.is_empty();
            new.then_some(arrived)
        };
        let Some(Arrived { messages, left }) = self.news_before(KIND, request, take).await? else {
            return Ok(Vec::new());
        };
        if new {
            // A message that is removed before the record of its being read is safe would be lost if this process
            // crashed.
            self.stored().await?;
        }
        // A process that ends before it gets here does this when the work is repeated.
        self.run.inbox.settle(&left).await?;
        // Senders that have disappeared meanwhile need no notification.
        for taken in told {
            let _ = taken.send(());
        }
        Ok(messages)
    }

    /// Waits until everything that this work has signalled so far is stored, so that it survives a crash.
    ///
    /// # Errors
    /// `Cancelled` when it will not be stored: the run no longer listens, or another process has it.
    async fn stored(&self) -> Result<()> {
        if !self.effects.are_kept() || self.effects.are_recorded() {
            return Ok(());
        }
        let (safe, stored) = oneshot::channel();
        self.signal(Signal::Stored(safe)).await?;
        stored.await.map(drop).map_err(|_| no_longer_listens())
    }
}

/// Returns the messages that an agent has taken, if this is the result of an effect of that kind.
pub fn taken(key: &str, gave: &EffectResult) -> Vec<String> {
    match gave {
        EffectResult::Value(value) if key.starts_with(PLACE) => {
            Arrived::deserialize(&**value).map(|arrived| arrived.messages).unwrap_or_default()
        }
        EffectResult::Value(_) | EffectResult::Failure { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn a_message_is_taken_once_or_taken_back() {
        let inbox = Inbox::default();
        let (mut first, second) = (inbox.send("first").unwrap(), inbox.send("second").unwrap());
        drop(second);
        let texts = |messages: &[InboxMessage]| messages.iter().map(|m| m.text.clone()).collect::<Vec<_>>();
        let taken = inbox.take();
        assert_eq!(texts(&taken), ["first"]);
        for message in taken {
            let MessageOrigin::Sent { taken, .. } = message.origin else {
                panic!("it was sent to this process")
            };
            taken.send(()).unwrap();
        }
        assert!(first.taken().await);
        assert!(inbox.waiting().messages.is_empty());
    }

    #[tokio::test]
    async fn a_message_that_an_agent_is_just_reading_cannot_be_taken_back() {
        let inbox = Inbox::default();
        let (mut first, second) = (inbox.send("first").unwrap(), inbox.send("second").unwrap());
        assert!(second.take_back() && !second.take_back());
        let read = inbox.take().pop().unwrap();
        assert!(!first.take_back());
        let MessageOrigin::Sent { taken, .. } = read.origin else { panic!("it was sent here") };
        taken.send(()).unwrap();
        assert!(first.taken().await && !first.take_back());
        drop(inbox);
        assert!(!second.take_back(), "the run is over");
    }

    #[tokio::test]
    async fn an_inbox_is_bounded_and_closes_with_its_run() {
        let inbox = Inbox::default();
        let mut sent: Vec<_> = (0..MESSAGES_MAX).map(|_| inbox.send("m").unwrap()).collect();
        assert_eq!(inbox.send("m").unwrap_err().kind, ErrorKind::Conflict);
        drop(inbox);
        assert!(!sent[0].taken().await, "the run is over, and nobody has read it");
        drop(sent);
    }
    #[test]
    fn messages_of_other_processes_arrive_once() {
        let left = |id: &str| RunMessage {
            run: RunKey::new(&"t".into(), "r"),
            id: id.into(),
            text: format!("message {id}"),
            sent_ms: 0,
        };
        let inbox = Inbox::default();
        inbox.deliver([left("a"), left("b")]);
        inbox.deliver([left("a"), left("b"), left("c")]);
        let texts: Vec<_> = inbox.take().into_iter().map(|message| message.text).collect();
        assert_eq!(texts, ["message a", "message b", "message c"]);
        // They stay until they are known to have been read.
        inbox.deliver([left("b"), left("c")]);
        assert!(inbox.take().is_empty());
        assert_eq!(inbox.waiting().known.len(), 2, "entries that are gone are dropped");
    }
}
