//! Storage of memories, which people create and name, and in which agents remember their conversations.
//!
//! A memory contains messages. Each turn of a conversation is stored as one *raw* message; what a model extracts from
//! it (facts, events, procedures) is stored as further messages derived from it.

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, Result};
use crate::id::{MemoryId, MemoryKey, TenantId};

/// Maximum number of memories of one tenant.
pub const MEMORIES_MAX: usize = 1_000;
/// Upper limit for the size of a memory, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Default maximum size of a memory, in bytes.
pub const MEMORY_BYTES: u64 = 5 * 1024 * 1024;
/// Maximum size of the content of a turn or a derived message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// Size of a message apart from its text and vector, in bytes: its ids and times.
const MESSAGE_BYTES_BESIDE: usize = 256;
/// Maximum length of a memory's name, in characters.
pub const NAME_CHARS_MAX: usize = 128;

/// What kind of knowledge a message of a memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// A turn: what the user said and the answer.
    Raw,
    /// A fact that remains true beyond the conversation.
    Semantic,
    /// Something that happened, with its time.
    Episodic,
    /// How something is done.
    Procedural,
}

impl MessageType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Semantic, Self::Episodic, Self::Procedural];

    /// Returns the name used for it in settings and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Semantic => "semantic",
            Self::Episodic => "episodic",
            Self::Procedural => "procedural",
        }
    }

    /// Returns the type with this name, ignoring case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name.trim()))
    }

    /// Returns a distinct bit, for storing sets of types in one number.
    pub const fn bit(self) -> i64 {
        match self {
            Self::Raw => 1,
            Self::Semantic => 2,
            Self::Episodic => 4,
            Self::Procedural => 8,
        }
    }
}

/// Whether searches find a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    /// Searches find it.
    Enabled,
    /// Searches do not find it; it is still listed.
    Disabled,
}

/// A memory, without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Its storage key.
    pub key: MemoryKey,
    /// Its settings, which can be changed.
    pub settings: MemorySettings,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When its settings were last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// The settings of a memory, which its owner may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Its name, unique within the tenant.
    pub name: String,
    /// A picture, as a data URI.
    #[serde(default)]
    pub avatar: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The message types that are stored. Raw messages always are, because the others are derived from them.
    pub types: Vec<MessageType>,
    /// The model that makes its vectors. Empty: it is searched by words alone.
    #[serde(default)]
    pub embedder: String,
    /// The model that extracts messages from turns; empty means the default model.
    #[serde(default)]
    pub llm_id: String,
    /// Whether the whole team may use it, not only its owner.
    #[serde(default)]
    pub team: bool,
    /// The user who created it.
    #[serde(default)]
    pub owner: String,
    /// Maximum size of its messages, in bytes; the oldest are removed when it is exceeded.
    pub size_max: u64,
    /// The sampling temperature of the model, 0 to 1.
    pub temperature: f64,
    /// Instructions for the model that replace the built-in ones; empty keeps those.
    #[serde(default)]
    pub system_prompt: String,
    /// The text that precedes the turn in the request to the model, replacing the built-in one; empty keeps that.
    #[serde(default)]
    pub user_prompt: String,
}

impl MemorySettings {
    /// Returns the message types that a model extracts.
    pub fn derived_types(&self) -> impl Iterator<Item = MessageType> + '_ {
        self.types.iter().copied().filter(|kind| *kind != MessageType::Raw)
    }
}

/// A message to add to a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// Its type.
    pub kind: MessageType,
    /// The user it is about; empty for none in particular.
    pub user: String,
    /// The agent that took part in the conversation.
    pub agent: String,
    /// The conversation.
    pub session: String,
    /// Its content.
    pub content: String,
    /// Its vector, of length 1; empty if it has none.
    pub vector: Vec<f32>,
    /// From when it is valid, in milliseconds since 1970.
    pub valid_ms: i64,
    /// Until when it is valid.
    pub invalid_ms: Option<i64>,
}

impl NewMessage {
    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        (self.content.len() + self.vector.len() * size_of::<f32>() + MESSAGE_BYTES_BESIDE) as u64
    }
}

/// The state of the extraction from a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// The model has yet to be called, or called again.
    Pending {
        /// Why it was postponed; empty if it was not.
        problem: String,
    },
    /// Extraction is complete.
    Done,
    /// Extraction was given up, with the reason.
    Failed(String),
}

/// A message as a memory stores it: its content, and what has happened to it since.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryMessage {
    /// Its number within the memory, counted from 1 in order of arrival.
    pub number: i64,
    /// Its content and origin.
    pub message: NewMessage,
    /// The raw message it was derived from.
    pub source: Option<i64>,
    /// When it was marked as forgotten; searches no longer find it, and it is removed first when space is needed.
    pub forgotten_ms: Option<i64>,
    /// Whether searches find it.
    pub enabled: bool,
    /// The state of its extraction.
    pub extraction: Extraction,
}

/// Which messages to list. Absent criteria are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// Of this type.
    pub kind: Option<MessageType>,
    /// Derived from one of these.
    pub sources: Option<Vec<i64>>,
    /// Of one of these agents.
    pub agents: Vec<String>,
    /// Of this conversation.
    pub session: Option<String>,
    /// Of a conversation whose id contains this text.
    pub session_holds: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// Only those that searches can find.
    pub found_only: bool,
    /// Only those after this number in the list, which begins with the latest. Does not affect the total count.
    pub after: Option<i64>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// A turn whose extraction has been taken by a process.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenMessage {
    /// Its memory.
    pub memory: MemoryKey,
    /// The raw message.
    pub message: MemoryMessage,
    /// Number of times it has been taken, including this one. Only the latest taker may settle it.
    pub attempts: u32,
}

/// The outcome of extracting messages from a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtractionOutcome {
    /// It is complete: the vector of the turn, and the messages extracted from it.
    Done {
        /// Empty if there is no embedder.
        vector: Vec<f32>,
        /// The messages, with their vectors.
        derived: Vec<NewMessage>,
    },
    /// It is to be retried.
    RetryAt {
        /// The earliest time, in milliseconds since 1970.
        from_ms: i64,
        /// The reason.
        problem: String,
    },
    /// It is given up.
    Failed {
        /// The vector of the turn; empty if it has none.
        vector: Vec<f32>,
        /// The reason.
        problem: String,
    },
}

/// Stores memories.
///
/// An implementation returns nothing of another tenant. Each change is atomic, and durable when the call returns.
#[async_trait]
pub trait MemoryStore: Send + Sync {
    /// Adds a memory. If its name is taken, a number is appended to it. Returns the memory as stored.
    ///
    /// # Errors
    /// `QuotaExceeded` when the tenant has [`MEMORIES_MAX`]; `Conflict` when the id is taken.
    async fn create(&self, memory: &Memory) -> Result<Memory>;

    /// Returns a memory.
    ///
    /// # Errors
    /// `NotFound` when it does not exist.
    async fn get(&self, key: &MemoryKey) -> Result<Memory>;

    /// Returns all memories of a tenant, newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn list(&self, tenant: &TenantId) -> Result<Vec<Memory>>;

    /// Changes the settings of a memory if they are still those of `seen`. If the new name is taken, a number is
    /// appended to it. Returns the memory as stored. `None`: it has been changed or removed in the meantime, and
    /// nothing was changed.
    ///
    /// # Errors
    /// `Conflict` when the embedder or the types would change although the memory has messages.
    async fn change(&self, seen: &Memory, settings: &MemorySettings, now_ms: i64) -> Result<Option<Memory>>;

    /// Removes a memory and its messages.
    ///
    /// # Errors
    /// `NotFound` when it does not exist.
    async fn delete(&self, key: &MemoryKey) -> Result<()>;

    /// Adds a raw message with its extraction pending, and removes others if there is not enough room ([`room`]).
    /// `origin` identifies its source: a second message with the same origin is not added while the first exists.
    /// Returns the number of the existing or added message.
    ///
    /// # Errors
    /// `NotFound` when the memory does not exist, `Invalid` when the message is larger than the memory.
    async fn add(&self, key: &MemoryKey, origin: &str, message: &NewMessage, now_ms: i64) -> Result<i64>;

    /// Returns a message.
    ///
    /// # Errors
    /// `NotFound` when it does not exist.
    async fn message(&self, key: &MemoryKey, number: i64) -> Result<MemoryMessage>;

    /// Returns a page of the messages, newest first, and their total number; nothing for a memory that does not
    /// exist.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn messages(&self, key: &MemoryKey, filter: &MessageFilter) -> Result<(Vec<MemoryMessage>, u64)>;

    /// Sets whether searches find a message.
    ///
    /// # Errors
    /// `NotFound` when it does not exist.
    async fn set_status(&self, key: &MemoryKey, number: i64, status: MessageStatus) -> Result<()>;

    /// Forgets a message: it is no longer found or listed. Messages derived from it stay.
    ///
    /// # Errors
    /// `NotFound` when it does not exist or has been forgotten before.
    async fn forget(&self, key: &MemoryKey, number: i64, now_ms: i64) -> Result<()>;

    /// Removes all messages of a user from the memories of a tenant, also those that were forgotten or whose extraction
    /// is pending. The memories stay. The change is atomic for each memory; if interrupted, it can be repeated.
    ///
    /// # Errors
    /// When they cannot be removed.
    async fn remove_of_user(&self, tenant: &TenantId, user: &str) -> Result<()>;

    /// Takes raw messages whose extraction is due, those that have waited longest first. They become due again at
    /// `until_ms` unless they are settled before.
    ///
    /// # Errors
    /// When they cannot be read or taken.
    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenMessage>>;

    /// Records the outcome of an extraction, and removes messages if there is not enough room for the derived ones.
    ///
    /// # Errors
    /// `Conflict` when it has been taken by another process since, or no longer exists.
    async fn settle(&self, taken: &TakenMessage, outcome: &ExtractionOutcome) -> Result<()>;
}

/// The size of a message: its number, its size in bytes, and whether it is forgotten.
pub type MessageSize = (i64, u64, bool);

/// Returns which messages to remove so that `needed` more bytes fit: forgotten ones first, then the oldest.
///
/// # Errors
/// `Invalid` when they would not fit into an empty memory.
pub fn room(mut held: Vec<MessageSize>, needed: u64, size_max: u64) -> Result<Vec<i64>> {
    if needed > size_max {
        let message = format!("the message takes {needed} bytes, and the memory holds {size_max}");
        return Err(
            Error::invalid(message).help("let the memory hold more (`memory_size`), or remember less")
        );
    }
    let mut used = held.iter().fold(u128::from(needed), |sum, (_, size, _)| sum + u128::from(*size));
    // Forgotten messages first, then the oldest.
    held.sort_by_key(|(number, _, forgotten)| (!forgotten, *number));
    let mut gone = Vec::new();
    for (number, size, _) in held {
        if used <= u128::from(size_max) {
            break;
        }
        used -= u128::from(size);
        gone.push(number);
    }
    Ok(gone)
}

/// Returns a name that is not taken: the wanted one, or that with a number appended.
pub fn free_name(wanted: &str, taken: &[String]) -> String {
    let is_free = |name: &str| taken.iter().all(|other| other.to_lowercase() != name.to_lowercase());
    if is_free(wanted) {
        return wanted.to_owned();
    }
    let numbered = |number: usize| {
        let ending = format!("({number})");
        let kept: String = wanted.chars().take(NAME_CHARS_MAX - ending.len()).collect();
        format!("{kept}{ending}")
    };
    (1..=MEMORIES_MAX + 1).map(numbered).find(|name| is_free(name)).unwrap_or_else(|| wanted.to_owned())
}

/// Returns the ids of memories given by a caller, in order and without duplicates.
pub fn each_once(ids: impl IntoIterator<Item = String>) -> Vec<MemoryId> {
    // Uses a hash set, because a request or a canvas may contain any number of ids.
    let once: IndexSet<String> =
        ids.into_iter().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect();
    once.into_iter().map(MemoryId::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_messages_are_evicted_first_then_the_oldest() {
        let held = || vec![(1, 40, false), (2, 30, true), (3, 20, false)];
        let check =
            |needed: u64, gone: &[i64]| assert_eq!(room(held(), needed, 100).unwrap(), gone, "{needed}");
        check(10, &[]);
        check(11, &[2]);
        check(41, &[2, 1]);
        check(100, &[2, 1, 3]);
        assert!(room(held(), 101, 100).unwrap_err().full().contains("memory_size"));
        assert_eq!(room(vec![(1, u64::MAX, false), (2, u64::MAX, false)], 1, 5).unwrap(), [1, 2]);
    }

    #[test]
    fn a_taken_name_gets_a_number_and_stays_short_enough() {
        let free = |wanted: &str, taken: &[&str]| {
            let taken: Vec<String> = taken.iter().map(|name| (*name).to_owned()).collect();
            free_name(wanted, &taken)
        };
        assert_eq!(free("a", &[]), "a");
        assert_eq!(free("a", &["A", "a(1)"]), "a(2)");
        let long = "ü".repeat(NAME_CHARS_MAX);
        let numbered = free(&long, &[&long]);
        assert_eq!(numbered.chars().count(), NAME_CHARS_MAX);
        assert!(numbered.ends_with("(1)"));
    }
}
