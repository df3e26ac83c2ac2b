//! Several agents on one task: one after another, side by side, or in one conversation.
//!
//! ```
//! use weft_agent::pipeline::{MessageHub, sequential};
//! # use std::sync::Arc;
//! # use weft_agent::ReActAgent;
//! # use weft_agent::react::{FinishStyle, Settings};
//! # use weft_models::{Reply, Script, ScriptedModel};
//! # fn agent(name: &str, says: &[&str]) -> weft_core::Result<ReActAgent> {
//! #     let script = says.iter().fold(Script::new(), |script, text| script.reply(Reply::text(*text)));
//! #     let settings = Settings { finish: FinishStyle::Text, ..Settings::default() };
//! #     ReActAgent::builder(name, Arc::new(ScriptedModel::new(script))).settings(settings).build()
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> weft_core::Result<()> {
//! # let (writer, editor) = (agent("Writer", &["A draft.", "I agree."])?, agent("Editor", &["A text.", "So do I."])?);
//! let (mut writer, mut editor) = (writer.session(), editor.session());
//! let text = sequential(&mut [&mut writer, &mut editor], "Write about tea.").await?;
//! assert_eq!(text.text(), "A text.");
//!
//! let mut hub = MessageHub::new([&mut writer, &mut editor]);
//! hub.announce("Is it good?").await?;
//! hub.speak(0).await?;
//! assert_eq!(hub.speak(1).await?.text(), "So do I.", "the editor has heard the writer");
//! # Ok(())
//! # }
//! ```

use futures::future::join_all;
use weft_core::{Error, Result};

use crate::message::Message;
use crate::react::Session;

/// How agents that are given the same message work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanOut {
    /// At the same time.
    #[default]
    Gathered,
    /// One after another.
    InTurn,
}

/// The reply of each agent is the message to the next. The reply of the last one; the message itself where there
/// is none.
///
/// # Errors
/// As [`Session::reply`], by the first that fails; those behind it are not asked.
pub async fn sequential(agents: &mut [&mut Session], message: impl Into<Message>) -> Result<Message> {
    let mut message = message.into();
    for agent in agents {
        message = agent.reply(message).await?;
    }
    Ok(message)
}

/// Each agent is given the message. Their replies, in the order of the agents; one that fails stops no other.
pub async fn fan_out(
    agents: &mut [&mut Session],
    message: impl Into<Message>,
    how: FanOut,
) -> Vec<Result<Message>> {
    let message = message.into();
    match how {
        FanOut::Gathered => join_all(agents.iter_mut().map(|agent| agent.reply(message.clone()))).await,
        FanOut::InTurn => {
            let mut replies = Vec::new();
            for agent in agents {
                replies.push(agent.reply(message.clone()).await);
            }
            replies
        }
    }
}

/// A conversation of several agents: what one says, the others have heard.
#[derive(Debug, Default)]
pub struct MessageHub<'a> {
    participants: Vec<&'a mut Session>,
}

impl<'a> MessageHub<'a> {
    /// A conversation of these agents.
    pub fn new(participants: impl IntoIterator<Item = &'a mut Session>) -> Self {
        Self { participants: participants.into_iter().collect() }
    }

    /// One more takes part from now on. It has heard nothing yet. Its place.
    pub fn join(&mut self, session: &'a mut Session) -> usize {
        self.participants.push(session);
        self.participants.len() - 1
    }

    /// One takes part no more; those behind it move up.
    ///
    /// # Errors
    /// `NotFound` when there is none at this place.
    pub fn leave(&mut self, place: usize) -> Result<&'a mut Session> {
        self.check(place)?;
        Ok(self.participants.remove(place))
    }

    /// Everybody hears a message.
    ///
    /// # Errors
    /// As [`Session::observe`]; those before the one that fails have heard it.
    pub async fn announce(&mut self, message: impl Into<Message>) -> Result<()> {
        let message = message.into();
        for participant in &mut self.participants {
            participant.observe(message.clone()).await?;
        }
        Ok(())
    }

    /// The participant at this place replies to what was said so far, and all others hear it.
    ///
    /// # Errors
    /// `NotFound` when there is none at this place; as [`Session::reply_to_memory`] and [`Session::observe`].
    pub async fn speak(&mut self, place: usize) -> Result<Message> {
        self.check(place)?;
        let Some(speaker) = self.participants.get_mut(place) else { return Err(nobody(place)) };
        let reply = speaker.reply_to_memory().await?;
        // Not the speaker, whose memory has the reply already; told as said by somebody it would be read as
        // another's.
        let others = self.participants.iter_mut().enumerate().filter(|(other, _)| *other != place);
        for (_, participant) in others {
            participant.observe(reply.clone()).await?;
        }
        Ok(reply)
    }

    /// Everybody speaks once, in their order.
    ///
    /// # Errors
    /// As [`MessageHub::speak`].
    pub async fn round(&mut self) -> Result<Vec<Message>> {
        let mut replies = Vec::new();
        for place in 0..self.participants.len() {
            replies.push(self.speak(place).await?);
        }
        Ok(replies)
    }

    fn check(&self, place: usize) -> Result<()> {
        if place < self.participants.len() { Ok(()) } else { Err(nobody(place)) }
    }
}

fn nobody(place: usize) -> Error {
    Error::not_found(format!("nobody takes part at place {place}"))
}
