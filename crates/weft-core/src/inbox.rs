//! Messages to a run that is under way, for the agent at work in it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::context::NodeContext;
use crate::effect::{Delivery, EffectResult, Known};
use crate::error::{Error, ErrorKind, Result};

/// Messages that wait for one run, at most.
pub const INBOX_MAX: usize = 16;

/// The kind of effect by which a message comes into an agent's work. It is written down like every other thing that
/// comes from outside, so work that is done again gets the same messages at the same place.
const KIND: &str = "message";
/// How the places of such effects begin in the work of a node itself.
const PLACE: &str = "message#";

/// The messages to one run that nobody has taken yet. Clones are the same inbox.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    /// How many have been sent.
    sent: u64,
}

#[derive(Debug)]
struct Message {
    number: u64,
    text: String,
    taken: oneshot::Sender<()>,
}

impl Inbox {
    /// Puts a message in. It is taken back when what comes back is dropped before an agent has taken it.
    ///
    /// # Errors
    /// `Conflict` when [`INBOX_MAX`] messages wait already.
    pub fn send(&self, text: impl Into<String>) -> Result<SentMessage> {
        let mut waiting = self.waiting();
        if waiting.messages.len() >= INBOX_MAX {
            let message = format!("{INBOX_MAX} messages wait for the agent already, as many as may");
            return Err(Error::new(ErrorKind::Conflict, message).help("wait until it has read some of them"));
        }
        let (taken, gone) = oneshot::channel();
        waiting.sent += 1;
        let number = waiting.sent;
        waiting.messages.push_back(Message { number, text: text.into(), taken });
        Ok(SentMessage { inbox: Arc::downgrade(&self.0), number, gone })
    }

    fn take(&self) -> Vec<Message> {
        self.waiting().messages.drain(..).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message on its way to an agent.
#[derive(Debug)]
pub struct SentMessage {
    /// Weak, so that it does not outlive its run.
    inbox: Weak<Mutex<Waiting>>,
    number: u64,
    gone: oneshot::Receiver<()>,
}

impl SentMessage {
    /// Waits until an agent has taken it, or until the run is over without that. Whether one has.
    pub async fn taken(&mut self) -> bool {
        (&mut self.gone).await.is_ok()
    }
}

impl Drop for SentMessage {
    fn drop(&mut self) {
        let Some(inbox) = self.inbox.upgrade() else { return };
        let mut waiting = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.messages.retain(|message| message.number != self.number);
    }
}

/// What has arrived before a request to a model.
#[derive(Serialize, Deserialize)]
struct Arrival<T> {
    /// Which request of the work it was, from 0 on.
    request: u32,
    #[serde(flatten)]
    news: T,
}

#[derive(Serialize, Deserialize)]
struct Arrived {
    messages: Vec<String>,
}

impl NodeContext {
    /// News for the work that is about to make its request of this number to a model, counted from 0 on. They are an effect of
    /// this kind: written down with their place, so that work that is done again learns the same at the same place. `look` is
    /// asked only when nobody knows yet.
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
            // They came before a certain request, and come again before that one.
            Some(Known::Ended(EffectResult::Value(value))) => {
                if !Arrival::<T>::deserialize(&*value).is_ok_and(|arrival| arrival.request == request) {
                    return Ok(None);
                }
                None
            }
            Some(Known::Ended(EffectResult::Failure { .. })) => return Ok(None),
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
        let (arrival, _) = self.effect((kind, Delivery::Idempotent), arrive).await?;
        Ok(Some(arrival.news))
    }

    /// The messages to the run that nobody has taken yet, for the agent that is about to make its request of this
    /// number, counted from 0 on. Only a node's own work takes any: what an agent calls knows nothing of them.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn messages_before(&self, request: u32) -> Result<Vec<String>> {
        if !self.part.is_empty() {
            return Ok(Vec::new());
        }
        let mut told = Vec::new();
        let take = || {
            let mut messages = Vec::new();
            for Message { text, taken, .. } in self.run.inbox.take() {
                messages.push(text);
                told.push(taken);
            }
            (!messages.is_empty()).then_some(Arrived { messages })
        };
        let arrived = self.news_before(KIND, request, take).await?;
        // Whoever has gone away meanwhile need not know.
        for taken in told {
            let _ = taken.send(());
        }
        Ok(arrived.map(|arrived| arrived.messages).unwrap_or_default())
    }
}

/// The messages that an agent has taken, if this is what an effect of that kind gave.
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

    #[tokio::test]
    async fn a_message_is_taken_once_or_taken_back() {
        let inbox = Inbox::default();
        let (mut first, second) = (inbox.send("first").unwrap(), inbox.send("second").unwrap());
        drop(second);
        let texts = |messages: &[Message]| messages.iter().map(|m| m.text.clone()).collect::<Vec<_>>();
        let taken = inbox.take();
        assert_eq!(texts(&taken), ["first"]);
        taken.into_iter().for_each(|message| message.taken.send(()).unwrap());
        assert!(first.taken().await);
        assert!(inbox.waiting().messages.is_empty());
    }

    #[tokio::test]
    async fn an_inbox_has_an_end_and_so_has_its_run() {
        let inbox = Inbox::default();
        let mut sent: Vec<_> = (0..INBOX_MAX).map(|_| inbox.send("m").unwrap()).collect();
        assert_eq!(inbox.send("m").unwrap_err().kind, ErrorKind::Conflict);
        drop(inbox);
        assert!(!sent[0].taken().await, "the run is over, and nobody has read it");
        drop(sent);
    }
}
