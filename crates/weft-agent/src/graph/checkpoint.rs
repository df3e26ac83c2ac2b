//! What is kept of a graph agent's conversations, so that another process can go on with them.
//!
//! A thread is a list of checkpoints: what each node has changed, in order. The state is what all of them
//! together make, so a checkpoint is as large as what its node has done. Between two checkpoints stand notes of
//! the calls that the next node makes to the model and to tools: when the process ends in the middle of it, the
//! node begins again and is given what they had come to.

mod file;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use weft_core::effect::{EffectResult, Known};
use weft_core::{Error, ErrorKind, Result};

use super::state::{GraphState, Update};
use super::topology::Node;

pub use file::FolderCheckpointer;

/// The version of the schema that checkpoints are written with.
pub const VERSION: u32 = 1;
/// Bytes of a thread's name, at most.
// As a name of a file each byte may take three, and file systems allow 255.
pub const THREAD_MAX: usize = 100;

/// What a node has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The version of the schema. Fields that a later one has added are passed over.
    #[serde(default = "version")]
    pub version: u32,
    /// Its id.
    pub id: String,
    /// The checkpoint before it in the thread.
    #[serde(default)]
    pub parent: Option<String>,
    /// The node.
    pub node: Node,
    /// What it has changed. A whole state can be read as well: it is what has changed since there was none.
    #[serde(alias = "state")]
    pub update: Update,
    /// When, in milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub at_ms: i64,
}

fn version() -> u32 {
    VERSION
}

/// A call of the node behind the last checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallNote {
    /// Its place in the node's work: the same when the node begins again.
    pub key: Arc<str>,
    /// What it gave; absent when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave: Option<EffectResult>,
}

/// A thread as it was left.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The state.
    pub state: GraphState,
    /// The last checkpoint's id.
    pub id: String,
    /// Its node.
    pub node: Node,
    /// What is known of the calls of the node behind it, by their keys.
    pub calls: HashMap<Arc<str>, Known>,
}

/// Keeps threads.
///
/// Once a function has returned, what it was given outlives the process. Two processes may write to one thread:
/// the second one that adds a checkpoint behind the same parent is refused.
#[async_trait]
pub trait Checkpointer: Send + Sync {
    /// Adds a checkpoint behind its parent.
    ///
    /// # Errors
    /// `Conflict` when the thread has another last checkpoint, `Invalid` for a name that is not one (see
    /// [`THREAD_MAX`]), `Unavailable` when it cannot be written.
    async fn put(&self, thread: &str, checkpoint: &Checkpoint) -> Result<()>;

    /// Adds a note of a call behind the checkpoint `after`.
    ///
    /// # Errors
    /// As [`Checkpointer::put`].
    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> Result<()>;

    /// The thread as it was left; nothing when there is none of this name.
    ///
    /// # Errors
    /// `Conflict` when it was written by a later version or is damaged, `Invalid` for a name that is not one,
    /// `Unavailable` when it cannot be read.
    async fn latest(&self, thread: &str) -> Result<Option<Saved>>;
}

/// One entry of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Checkpoint(Box<Checkpoint>),
    Call(CallNote),
}

/// A thread while its entries are read.
#[derive(Clone, Debug, Default)]
struct Thread {
    saved: Option<Saved>,
}

impl Thread {
    fn last(&self) -> Option<&str> {
        self.saved.as_ref().map(|saved| saved.id.as_str())
    }

    fn take(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::Checkpoint(checkpoint) => {
                let Checkpoint { version, id, node, update, .. } = *checkpoint;
                if version > VERSION {
                    let message =
                        format!("the checkpoint {id} has version {version}; this program reads {VERSION}");
                    return Err(Error::new(ErrorKind::Conflict, message).help("use a newer version of it"));
                }
                let before = self.saved.take().map(|saved| saved.state);
                let mut state = before.unwrap_or_default();
                state.apply(update);
                // The notes belonged to the node that this checkpoint closes.
                self.saved = Some(Saved { state, id, node, calls: HashMap::new() });
            }
            Entry::Call(CallNote { key, gave }) => {
                if let Some(saved) = &mut self.saved {
                    saved.calls.insert(key, gave.map_or(Known::Begun, Known::Ended));
                }
            }
        }
        Ok(())
    }
}

/// Whether an entry behind `parent` is the next one in a thread with this last checkpoint.
fn check_next(thread: &str, last: Option<&str>, parent: Option<&str>) -> Result<()> {
    // Compare and set: of two turns that read the same end only one goes on.
    if last == parent {
        return Ok(());
    }
    let message = format!("somebody else has gone on with the thread `{thread}`");
    Err(Error::new(ErrorKind::Conflict, message).help("wait for their turn to end, and ask again"))
}

fn check_name(thread: &str) -> Result<()> {
    if (1..=THREAD_MAX).contains(&thread.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!("the name of a thread has 1 to {THREAD_MAX} bytes, not {}", thread.len())))
}

/// Keeps threads as long as the process lives. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct MemoryCheckpointer(Arc<Mutex<HashMap<String, Thread>>>);

impl MemoryCheckpointer {
    /// One without threads.
    pub fn new() -> Self {
        Self::default()
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<String, Thread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Checkpointer for MemoryCheckpointer {
    async fn put(&self, thread: &str, checkpoint: &Checkpoint) -> Result<()> {
        // The same limits as in a folder, so that what works in a test works there.
        check_name(thread)?;
        let mut threads = self.threads();
        let kept = threads.entry(thread.to_owned()).or_default();
        check_next(thread, kept.last(), checkpoint.parent.as_deref())?;
        kept.take(Entry::Checkpoint(Box::new(checkpoint.clone())))
    }

    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> Result<()> {
        check_name(thread)?;
        let mut threads = self.threads();
        let kept = threads.entry(thread.to_owned()).or_default();
        check_next(thread, kept.last(), Some(after))?;
        kept.take(Entry::Call(call.clone()))
    }

    async fn latest(&self, thread: &str) -> Result<Option<Saved>> {
        check_name(thread)?;
        Ok(self.threads().get(thread).and_then(|kept| kept.saved.clone()))
    }
}
