//! What agents remember of their conversations, in memories that people make and name.
//!
//! A memory holds messages. A turn of a conversation is one *raw* message; what a model finds in it (facts,
//! events, procedures) are further messages that are derived from it.

use async_trait::async_trait;
use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{MemoryId, MemoryKey, TenantId};

/// Memories of one tenant, at most.
pub const MEMORIES_MAX: usize = 1_000;
/// Bytes that a memory may take, at most.
pub const MEMORY_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Bytes that a memory may take when nobody says otherwise.
pub const MEMORY_BYTES: u64 = 5 * 1024 * 1024;
/// Bytes of what one turn or one derived message says, at most.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// Bytes that a message takes besides its text and its vector: its ids and times.
const MESSAGE_BYTES_BESIDE: usize = 256;
/// Characters of the name of a memory, at most.
pub const NAME_CHARS_MAX: usize = 128;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    /// A turn: what the user said and what was answered.
    Raw,
    /// A fact that holds beyond the conversation.
    Semantic,
    /// Something that happened, with its time.
    Episodic,
    /// How something is done.
    Procedural,
}

impl MessageType {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Semantic, Self::Episodic, Self::Procedural];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Semantic => "semantic",
            Self::Episodic => "episodic",
            Self::Procedural => "procedural",
        }
    }

    /// The one with a name, whatever its case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name.trim()))
    }

    /// A bit of its own, for sets of them in one number.
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
    /// They do.
    Enabled,
    /// They do not; it is listed all the same.
    Disabled,
}

/// A memory without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Where it is stored.
    pub key: MemoryKey,
    /// What it may be changed to.
    pub settings: MemorySettings,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// When its settings were changed last.
    pub updated_ms: i64,
}

/// What people say of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Its name, of which a tenant has one each.
    pub name: String,
    /// A picture, as a data URI.
    #[serde(default)]
    pub avatar: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// What is kept of a turn. Raw messages always are: the others are made from them.
    pub types: Vec<MessageType>,
    /// The model that makes its vectors; empty: it is searched by words alone.
    #[serde(default)]
    pub embedder: String,
    /// The model that finds facts in turns; empty: the default model.
    #[serde(default)]
    pub llm_id: String,
    /// Whether all of the team may use it, and not only its owner.
    #[serde(default)]
    pub team: bool,
    /// Who made it.
    #[serde(default)]
    pub owner: String,
    /// Bytes of its messages, at most; the oldest go when there are more.
    pub size_max: u64,
    /// How freely the model answers, 0 to 1.
    pub temperature: f64,
    /// Instructions for the model in place of the built-in ones; empty: those.
    #[serde(default)]
    pub system_prompt: String,
    /// A text for the model in place of the built-in one, behind which the turn follows; empty: that one.
    #[serde(default)]
    pub user_prompt: String,
}

impl MemorySettings {
    /// Which types a model is asked for.
    pub fn derived_types(&self) -> impl Iterator<Item = MessageType> + '_ {
        self.types.iter().copied().filter(|kind| *kind != MessageType::Raw)
    }
}

/// What is to be remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// What it is.
    pub kind: MessageType,
    /// The user it is about; empty: nobody in particular.
    pub user: String,
    /// The agent that was spoken to.
    pub agent: String,
    /// The conversation.
    pub session: String,
    /// What it says.
    pub content: String,
    /// Its vector, of length 1; empty without one.
    pub vector: Vec<f32>,
    /// Since when it holds, in milliseconds since 1970.
    pub valid_ms: i64,
    /// Until when it holds.
    pub invalid_ms: Option<i64>,
}

impl NewMessage {
    /// How many bytes it counts.
    pub fn size(&self) -> u64 {
        (self.content.len() + self.vector.len() * size_of::<f32>() + MESSAGE_BYTES_BESIDE) as u64
    }
}

/// How far a model has come with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// It is still to be asked, or asked again.
    Pending {
        /// Why it was put off; empty when it was not.
        problem: String,
    },
    /// Everything was found.
    Done,
    /// It is not asked any more, and why.
    Failed(String),
}

/// A message of a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryMessage {
    /// Its number in its memory, from 1 on in the order in which they came.
    pub number: i64,
    /// Its content and whom it is of.
    pub message: NewMessage,
    /// The raw message it was derived from.
    pub source: Option<i64>,
    /// When people said that it is to be forgotten; it is found no more, and goes first when room is needed.
    pub forgotten_ms: Option<i64>,
    /// Whether it is found.
    pub enabled: bool,
    /// How far its extraction has come.
    pub extraction: Extraction,
}

/// Which messages to list. What is absent is not looked at.
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
    /// Of a conversation whose id holds this text.
    pub session_holds: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// Only what is found in searches.
    pub found_only: bool,
    /// Only those behind this number in the list, which begins with the latest. All of them count.
    pub after: Option<i64>,
    /// How many to pass over.
    pub offset: u64,
    /// How many to give, at most.
    pub limit: u64,
}

/// A turn whose extraction a process has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenMessage {
    /// Its memory.
    pub memory: MemoryKey,
    /// The raw message.
    pub message: MemoryMessage,
    /// How often it was taken, this time included. Only who has the latest may settle it.
    pub attempts: u32,
}

/// What came of an extraction.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtractionOutcome {
    /// The vector of the turn, and what was found in it.
    Done {
        /// Empty without an embedder.
        vector: Vec<f32>,
        /// With their vectors.
        derived: Vec<NewMessage>,
    },
    /// It is to be tried again.
    RetryAt {
        /// Not before.
        from_ms: i64,
        /// Why.
        problem: String,
    },
    /// It is given up.
    Failed {
        /// The vector of the turn; empty without one.
        vector: Vec<f32>,
        /// Why.
        problem: String,
    },
}

/// Where memories are kept.
///
/// An implementation gives nothing of another tenant. A change is made as a whole or not at all, and has
/// outlived a crash when it returns.
#[async_trait]
pub trait MemoryStore: Send + Sync {
    /// Adds a memory. A name that is taken gets a number behind it. The memory as it was stored.
    ///
    /// # Errors
    /// `QuotaExceeded` when the tenant has [`MEMORIES_MAX`]; `Conflict` when the id is taken.
    async fn create(&self, memory: &Memory) -> Result<Memory>;

    /// A memory.
    ///
    /// # Errors
    /// `NotFound` when it is not there.
    async fn get(&self, key: &MemoryKey) -> Result<Memory>;

    /// All memories of a tenant, the latest first.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn list(&self, tenant: &TenantId) -> Result<Vec<Memory>>;

    /// Changes the settings of a memory that are still what was `seen`. A name that is taken gets a number.
    /// The memory as it was stored. Absent: somebody has changed it in the meantime, or removed it, and nothing was
    /// changed.
    ///
    /// # Errors
    /// `Conflict` when the embedder or the types are to change and messages are there.
    async fn change(&self, seen: &Memory, settings: &MemorySettings, now_ms: i64) -> Result<Option<Memory>>;

    /// Removes a memory and its messages.
    ///
    /// # Errors
    /// `NotFound` when it is not there.
    async fn delete(&self, key: &MemoryKey) -> Result<()>;

    /// Adds a raw message whose extraction is pending from now on, and removes others when there is no room
    /// ([`room`]). `origin` names what it comes from: a second message with the same one adds nothing,
    /// as long as the first is there. The number of the message that is there.
    ///
    /// # Errors
    /// `NotFound` when the memory is not there, `Invalid` when the message is larger than the memory.
    async fn add(&self, key: &MemoryKey, origin: &str, message: &NewMessage, now_ms: i64) -> Result<i64>;

    /// A message.
    ///
    /// # Errors
    /// `NotFound` when it is not there.
    async fn message(&self, key: &MemoryKey, number: i64) -> Result<MemoryMessage>;

    /// A page of the messages, the latest first, and how many there are in all; nothing of a memory that is
    /// not there.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn messages(&self, key: &MemoryKey, filter: &MessageFilter) -> Result<(Vec<MemoryMessage>, u64)>;

    /// Says whether searches find a message.
    ///
    /// # Errors
    /// `NotFound` when it is not there.
    async fn set_status(&self, key: &MemoryKey, number: i64, status: MessageStatus) -> Result<()>;

    /// Forgets a message: it is found and listed no more. What was derived from it stays.
    ///
    /// # Errors
    /// `NotFound` when it is not there or was forgotten before.
    async fn forget(&self, key: &MemoryKey, number: i64, now_ms: i64) -> Result<()>;

    /// Takes raw messages whose extraction is due, the longest waiting first. They are due again at
    /// `until_ms` unless they are settled before.
    ///
    /// # Errors
    /// When they cannot be read or taken.
    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenMessage>>;

    /// Notes what came of an extraction, and removes messages when there is no room for what was derived.
    ///
    /// # Errors
    /// `Conflict` when somebody else has taken it since, or it is not there any more.
    async fn settle(&self, taken: &TakenMessage, outcome: &ExtractionOutcome) -> Result<()>;
}

/// What a message takes: its number, its bytes, and whether it was forgotten.
pub type MessageSize = (i64, u64, bool);

/// Which messages go so that `needed` bytes more fit: forgotten ones first, then the oldest.
///
/// # Errors
/// `Invalid` when it would not fit into an empty memory.
pub fn room(mut held: Vec<MessageSize>, needed: u64, size_max: u64) -> Result<Vec<i64>> {
    if needed > size_max {
        let message = format!("the message takes {needed} bytes, and the memory holds {size_max}");
        return Err(
            Error::invalid(message).help("let the memory hold more (`memory_size`), or remember less")
        );
    }
    let mut used = held.iter().fold(u128::from(needed), |sum, (_, size, _)| sum + u128::from(*size));
    // What somebody asked to forget goes first, and after that the oldest.
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

/// A name that nobody has yet: the one that is wanted, or that with a number behind it.
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

/// The ids of memories as callers write them: each once and in their order.
pub fn each_once(ids: impl IntoIterator<Item = String>) -> Vec<MemoryId> {
    // A request or a canvas may name any number.
    let once: IndexSet<String> =
        ids.into_iter().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect();
    once.into_iter().map(MemoryId::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_goes_first_and_then_the_oldest() {
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
