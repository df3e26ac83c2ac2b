//! Messages to a run that is under way, for the agent at work in it.

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

/// The kind of effect by which a message comes into an agent's work. It is written down like every other thing that
/// comes from outside, so work that is done again gets the same messages at the same place.
const KIND: &str = "message";
/// How the places of such effects begin in the work of a node itself.
const PLACE: &str = "message#";

/// The messages to one run that nobody has taken yet. Clones are the same inbox.
#[derive(Clone, Default)]
pub struct Inbox {
    waiting: Arc<Mutex<Waiting>>,
    /// Where other processes leave messages.
    left: Option<Left>,
}

#[derive(Clone)]
struct Left {
    run: RunKey,
    messages: Arc<dyn RunMessages>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    /// How many have been sent.
    sent: u64,
    /// Those that other processes left and that came in here already; some may still be where they were left.
    known: HashSet<String>,
}

#[derive(Debug)]
struct Message {
    text: String,
    origin: Origin,
}

/// Where a message came from, so that its sender hears that it was taken.
#[derive(Debug)]
enum Origin {
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
    /// The inbox of a run to which other processes may leave messages.
    pub fn of(run: RunKey, messages: Arc<dyn RunMessages>) -> Self {
        Self { waiting: Arc::default(), left: Some(Left { run, messages }) }
    }

    /// Puts a message in. It is taken back when what comes back is dropped before an agent has taken it.
    ///
    /// # Errors
    /// `Conflict` when [`MESSAGES_MAX`] messages wait already.
    pub fn send(&self, text: impl Into<String>) -> Result<SentMessage> {
        let mut waiting = self.waiting();
        // An agent that asks no model for long, or none at all, must not fill the memory of the process.
        if waiting.messages.len() >= MESSAGES_MAX {
            return Err(too_many());
        }
        let (taken, gone) = oneshot::channel();
        waiting.sent += 1;
        let number = waiting.sent;
        let origin = Origin::Sent { number, taken };
        waiting.messages.push_back(Message { text: text.into(), origin });
        Ok(SentMessage { inbox: Arc::downgrade(&self.waiting), number, gone })
    }

    /// Puts in what other processes have left for the run: all that waits there now. What came in before does not
    /// come in again.
    pub fn deliver(&self, left: impl IntoIterator<Item = RunMessage>) {
        let mut waiting = self.waiting();
        // Only what still waits there has to be remembered, so that this does not grow with the run.
        let before = std::mem::take(&mut waiting.known);
        for RunMessage { id, text, .. } in left {
            if !before.contains(&id) {
                waiting.messages.push_back(Message { text, origin: Origin::Left { id: id.clone() } });
            }
            waiting.known.insert(id);
        }
    }

    /// An agent has read these: they are not read again, here or in a process that goes on with the run.
    async fn settle(&self, ids: &[String]) -> Result<()> {
        let Some(Left { run, messages }) = self.left.as_ref().filter(|_| !ids.is_empty()) else {
            return Ok(());
        };
        {
            let mut waiting = self.waiting();
            // Before they are removed where they were left: a delivery in between would put them in once
            // more.
            waiting.known.extend(ids.iter().cloned());
            waiting
                .messages
                .retain(|message| !matches!(&message.origin, Origin::Left { id } if ids.contains(id)));
        }
        messages.remove_messages(run, ids).await.map(drop)
    }

    fn take(&self) -> Vec<Message> {
        self.waiting().messages.drain(..).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
        // The run is over, and its messages are gone with it.
        let Some(inbox) = self.inbox.upgrade() else { return };
        let mut waiting = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |message: &Message| matches!(message.origin, Origin::Sent { number, .. } if number == self.number);
        waiting.messages.retain(|message| !is_it(message));
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
    /// The ids of those among them that other processes have left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
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
            // Whatever waits in the inbox now was not there when the run was recorded.
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

    /// The messages to the run that nobody has taken yet, for the agent that is about to make its request of this
    /// number, counted from 0 on. Only a node's own work takes any: what an agent calls knows nothing of them.
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
            for Message { text, origin } in self.run.inbox.take() {
                arrived.messages.push(text);
                match origin {
                    Origin::Sent { taken, .. } => told.push(taken),
                    Origin::Left { id } => arrived.left.push(id),
                }
            }
            new = !arrived.messages.is_empty();
            new.then_some(arrived)
        };
        let Some(Arrived { messages, left }) = self.news_before(KIND, request, take).await? else {
            return Ok(Vec::new());
        };
        if new {
            // What is taken away before it is known that it was read would be lost with this process.
            self.stored().await?;
        }
        // A process that ended before it has come here does this when it does the work again.
        self.run.inbox.settle(&left).await?;
        // Whoever has gone away meanwhile need not know.
        for taken in told {
            let _ = taken.send(());
        }
        Ok(messages)
    }

    /// Waits until all that this work has told so far is stored, so that it is known after a crash.
    ///
    /// # Errors
    /// `Cancelled` when it will not be: the run no longer listens, or another process has it.
    async fn stored(&self) -> Result<()> {
        if !self.effects.are_kept() || self.effects.are_recorded() {
            return Ok(());
        }
        let (safe, stored) = oneshot::channel();
        self.signal(Signal::Stored(safe)).await?;
        stored.await.map(drop).map_err(|_| no_longer_listens())
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
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn a_message_is_taken_once_or_taken_back() {
        let inbox = Inbox::default();
        let (mut first, second) = (inbox.send("first").unwrap(), inbox.send("second").unwrap());
        drop(second);
        let texts = |messages: &[Message]| messages.iter().map(|m| m.text.clone()).collect::<Vec<_>>();
        let taken = inbox.take();
        assert_eq!(texts(&taken), ["first"]);
        for message in taken {
            let Origin::Sent { taken, .. } = message.origin else { panic!("it was sent here") };
            taken.send(()).unwrap();
        }
        assert!(first.taken().await);
        assert!(inbox.waiting().messages.is_empty());
    }

    #[tokio::test]
    async fn an_inbox_has_an_end_and_so_has_its_run() {
        let inbox = Inbox::default();
        let mut sent: Vec<_> = (0..MESSAGES_MAX).map(|_| inbox.send("m").unwrap()).collect();
        assert_eq!(inbox.send("m").unwrap_err().kind, ErrorKind::Conflict);
        drop(inbox);
        assert!(!sent[0].taken().await, "the run is over, and nobody has read it");
        drop(sent);
    }
    #[test]
    fn what_other_processes_leave_comes_in_once() {
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
        // They are still there until it is known that they were read.
        inbox.deliver([left("b"), left("c")]);
        assert!(inbox.take().is_empty());
        assert_eq!(inbox.waiting().known.len(), 2, "what is gone is forgotten");
    }
}
