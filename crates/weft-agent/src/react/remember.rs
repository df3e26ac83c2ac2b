//! Long-term memory of an agent: the tools with which the model stores and retrieves memories, and the automatic use
//! around each reply.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_core::{Error, ErrorKind, Result, Tool};

use super::turn::Turn;
use crate::function::tool;
use crate::long_term::{LongTermMemory, Owner, Remembered, Storing};
use crate::message::Message;

/// The number of memories retrieved for a reply.
pub(super) const RETRIEVED: usize = 5;
/// Maximum number of memories that one call may request.
const LIMIT_MAX: usize = 50;
/// Maximum number of keywords in one call.
// Each is a request to the store, one after another, within the time limit of the call.
const KEYWORDS_MAX: usize = 20;
/// How long a reply waits for the memory, at its start and at its end.
// The memory is optional: a reply without it is better than none.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Who uses an agent's long-term memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryControl {
    /// Every reply: memories that match the message are added at its start, and the exchange is stored at its end.
    Static,
    /// The model, with `record_to_memory` and `retrieve_from_memory`.
    Agent,
    /// Both.
    #[default]
    Both,
}

impl MemoryControl {
    pub(super) fn is_static(self) -> bool {
        matches!(self, Self::Static | Self::Both)
    }

    pub(super) fn is_by_agent(self) -> bool {
        matches!(self, Self::Agent | Self::Both)
    }
}

/// A long-term memory and its owner.
#[derive(Clone)]
pub(super) struct AgentMemory {
    pub(super) store: Arc<dyn LongTermMemory>,
    pub(super) owner: Owner,
    pub(super) control: MemoryControl,
}

#[derive(Deserialize, JsonSchema)]
struct Record {
    /// Why this is worth remembering.
    thinking: String,
    /// What to remember: each entry stands for itself and names who and what it is about.
    content: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Retrieve {
    /// What to look for: names, dates, places, short phrases.
    keywords: Vec<String>,
    /// How many memories for each keyword, at most.
    #[serde(default = "retrieved")]
    limit: usize,
}

fn retrieved() -> usize {
    RETRIEVED
}

impl AgentMemory {
    /// The tools with which the model uses it.
    pub(super) fn tools(&self) -> Result<[Tool; 2]> {
        let (recorder, finder) = (self.clone(), self.clone());
        let record = tool(
            "record_to_memory",
            "Remembers something beyond this conversation, such as what the user likes or has decided.",
            move |record: Record| {
                let memory = recorder.clone();
                async move { memory.record(record).await }
            },
        )?;
        let mut retrieve = tool(
            "retrieve_from_memory",
            "Looks up what is remembered from earlier conversations.",
            move |retrieve: Retrieve| {
                let memory = finder.clone();
                async move { memory.retrieve(retrieve).await }
            },
        )?;
        // Recording is not idempotent: a service may store the same text a second time.
        retrieve.traits.idempotent = true;
        Ok([record, retrieve])
    }

    async fn record(&self, Record { thinking, content }: Record) -> Result<String> {
        let content: Vec<&str> =
            content.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        if content.is_empty() {
            return Err(Error::invalid("there is nothing to remember in `content`"));
        }
        let content = content.join("\n");
        let reasoned =
            if thinking.trim().is_empty() { content.clone() } else { format!("{thinking}\n{content}") };
        let mut ids = self.store.add(&self.owner, &reasoned, Storing::Inferred).await?;
        if ids.is_empty() {
            // The store has found no fact in it, but the model explicitly asked to store it.
            ids = self.store.add(&self.owner, &content, Storing::Verbatim).await?;
        }
        Ok(format!("Remembered ({}).", ids.len()))
    }

    async fn retrieve(&self, Retrieve { keywords, limit }: Retrieve) -> Result<String> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let mut found: Vec<Remembered> = Vec::new();
        // Sequentially, because stores are small services; the number of keywords is limited.
        for keyword in keywords
            .iter()
            .map(|keyword| keyword.trim())
            .filter(|keyword| !keyword.is_empty())
            .take(KEYWORDS_MAX)
        {
            for one in self.store.search(&self.owner, keyword, limit).await? {
                if !found.iter().any(|known| known.id == one.id) {
                    found.push(one);
                }
            }
        }
        if found.is_empty() {
            return Ok("Nothing is remembered about this.".to_owned());
        }
        Ok(found.iter().map(|one| format!("- {}", one.text)).collect::<Vec<_>>().join("\n"))
    }

    /// The memories that match a message, as text for the model; `None` when there are none.
    pub(super) async fn recalled(&self, message: &str) -> Result<Option<String>> {
        let found = in_time(self.store.search(&self.owner, message, RETRIEVED)).await?;
        let lines: Vec<String> = found.iter().map(|one| format!("- {}", one.text)).collect();
        let text = format!(
            "<long_term_memory>\nThis is remembered from earlier conversations and may help:\n{}\n</long_term_memory>",
            lines.join("\n")
        );
        Ok((!lines.is_empty()).then_some(text))
    }

    /// Stores an exchange.
    pub(super) async fn keep(&self, text: &str) -> Result<()> {
        in_time(self.store.add(&self.owner, text, Storing::Inferred)).await.map(drop)
    }
}

impl Turn<'_> {
    /// Adds the memories that match the message. If the memory fails, the reply continues.
    pub(super) async fn recall(&mut self, asked: &str) -> Result<()> {
        let extras = &self.agent.extras;
        let Some(memory) = extras.memory.as_ref().filter(|memory| memory.control.is_static()) else {
            return Ok(());
        };
        match self.unless_interrupted(memory.recalled(asked)).await? {
            Ok(Some(text)) => self.inform("long_term_memory", text).await,
            Ok(None) => Ok(()),
            Err(error) => self.warn("memories are left out", &error).await,
        }
    }

    /// Stores the exchange beyond the session. A failing memory does not fail the reply.
    pub(super) async fn keep(&self, asked: &str, reply: &Message) -> Result<()> {
        let extras = &self.agent.extras;
        let Some(memory) = extras.memory.as_ref().filter(|memory| memory.control.is_static()) else {
            return Ok(());
        };
        match memory.keep(&format!("user: {asked}\n{}: {}", self.agent.name, reply.text())).await {
            Ok(()) => Ok(()),
            Err(error) => self.warn("the exchange was not stored in the memory", &error).await,
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::new(ErrorKind::Timeout, format!("the memory took longer than {TIME_LIMIT:?}"));
    tokio::time::timeout(TIME_LIMIT, work).await.map_err(late)?
}
