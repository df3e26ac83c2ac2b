//! Several agents on one task: sequentially, in parallel, or in one conversation.
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

/// How agents that are given the same message run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanOut {
    /// In parallel.
    #[default]
    Gathered,
    /// One after another.
    InTurn,
}

/// Passes the reply of each agent to the next as its message. Returns the last reply, or the message itself when
/// there are no agents.
///
/// # Errors
/// As for [`Session::reply`], from the first agent that fails; the agents after it are not asked.
pub async fn sequential(agents: &mut [&mut Session], message: impl Into<Message>) -> Result<Message> {
    let mut message = message.into();
    for agent in agents {
        message = agent.reply(message).await?;
    }
    Ok(message)
}

/// Gives each agent the message. Returns their replies in the order of the agents; an agent that fails does not stop
/// the others.
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

/// A conversation of several agents: each hears what the others say.
#[derive(Debug, Default)]
pub struct MessageHub<'a> {
    participants: Vec<&'a mut Session>,
}

impl<'a> MessageHub<'a> {
    /// A conversation of these agents.
    pub fn new(participants: impl IntoIterator<Item = &'a mut Session>) -> Self {
        Self { participants: participants.into_iter().collect() }
    }

    /// Adds a participant, who has heard nothing yet, and returns its position.
    pub fn join(&mut self, session: &'a mut Session) -> usize {
        self.participants.push(session);
        self.participants.len() - 1
    }

    /// Removes a participant; those after it move up by one.
    ///
    /// # Errors
    /// `NotFound` when there is none at this position.
    pub fn leave(&mut self, place: usize) -> Result<&'a mut Session> {
        self.check(place)?;
        Ok(self.participants.remove(place))
    }

    /// Sends a message to all participants.
    ///
    /// # Errors
    /// As for [`Session::observe`]; the participants before the failing one have heard the message.
    pub async fn announce(&mut self, message: impl Into<Message>) -> Result<()> {
        let message = message.into();
        for participant in &mut self.participants {
            participant.observe(message.clone()).await?;
        }
        Ok(())
    }

    /// The participant at this position replies to what has been said so far, and all others hear it.
    ///
    /// # Errors
    /// `NotFound` when there is none at this position; as for [`Session::reply_to_memory`] and [`Session::observe`].
    pub async fn speak(&mut self, place: usize) -> Result<Message> {
        self.check(place)?;
        let Some(speaker) = self.participants.get_mut(place) else { return Err(nobody(place)) };
        let reply = speaker.reply_to_memory().await?;
        // Not the speaker: its memory has the reply already, and hearing it would make it look like another agent's.
        let others = self.participants.iter_mut().enumerate().filter(|(other, _)| *other != place);
        for (_, participant) in others {
            participant.observe(reply.clone()).await?;
        }
        Ok(reply)
    }

    /// Each participant speaks once, in order.
    ///
    /// # Errors
    /// As for [`MessageHub::speak`].
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
    Error::not_found(format!("there is no participant at position {place}"))
}
