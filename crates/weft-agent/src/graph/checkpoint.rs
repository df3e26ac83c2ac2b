//! Persists a graph agent's conversations so that another process can continue them.
//!
//! A thread is a list of checkpoints: the changes of each node, in order. The state is the result of applying all of
//! them, so the size of a checkpoint depends only on what its node did. Between two checkpoints there are notes of
//! the next node's calls to the model and to tools: when the process ends in the middle of that node, the node starts
//! again and gets the recorded results.

mod file;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use weft_core::effect::{EffectResult, Known};
use weft_core::{Error, ErrorKind, Result, async_trait};

use super::state::{GraphState, Update};
use super::topology::Node;

pub use file::FolderCheckpointer;

/// The schema version of new checkpoints.
pub const VERSION: u32 = 1;
/// Maximum length of a thread's name in bytes.
// In a file name each byte may take three, and file systems allow 255.
pub const THREAD_MAX: usize = 100;

/// The changes made by a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The schema version. Fields added by later versions are ignored.
    #[serde(default = "version")]
    pub version: u32,
    /// Its id.
    pub id: String,
    /// The checkpoint before it in the thread.
    #[serde(default)]
    pub parent: Option<String>,
    /// The node.
    pub node: Node,
    /// The changes. A whole state is accepted as well: it is the change from an empty one.
    #[serde(alias = "state")]
    pub update: Update,
    /// The time, in milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub at_ms: i64,
}

fn version() -> u32 {
    VERSION
}

/// A call made by the node after the last checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallNote {
    /// Its position in the node's work: the same when the node starts again.
    pub key: Arc<str>,
    /// Its result; absent when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave: Option<EffectResult>,
}

/// A thread as it was last saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The state.
    pub state: GraphState,
    /// The last checkpoint's id.
    pub id: String,
    /// Its node.
    pub node: Node,
    /// The known calls of the next node, by key.
    pub calls: HashMap<Arc<str>, Known>,
}

/// Stores threads.
///
/// Once a function has returned, its data survives the end of the process. Two processes may write to one thread: the
/// second one that appends a checkpoint to the same parent is refused.
#[async_trait]
pub trait Checkpointer: Send + Sync {
    /// Appends a checkpoint to its parent.
    ///
    /// # Errors
    /// `Conflict` when the thread has a different last checkpoint, `Invalid` for an invalid name (see
    /// [`THREAD_MAX`]), `Unavailable` when it cannot be written.
    async fn put(&self, thread: &str, checkpoint: &Checkpoint) -> Result<()>;

    /// Appends a note of a call after the checkpoint `after`.
    ///
    /// # Errors
    /// As for [`Checkpointer::put`].
    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> Result<()>;

    /// The last saved state of the thread; `None` when there is no thread of this name.
    ///
    /// # Errors
    /// `Conflict` when it was written by a later version or is damaged, `Invalid` for an invalid name, `Unavailable`
    /// when it cannot be read.
    async fn latest(&self, thread: &str) -> Result<Option<Saved>>;
}

/// One entry of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ThreadEntry {
    Checkpoint(Box<Checkpoint>),
    Call(CallNote),
}

/// A thread whose entries are being read.
#[derive(Clone, Debug, Default)]
struct Thread {
    saved: Option<Saved>,
}

impl Thread {
    fn last(&self) -> Option<&str> {
        self.saved.as_ref().map(|saved| saved.id.as_str())
    }

    fn take(&mut self, entry: ThreadEntry) -> Result<()> {
        match entry {
            ThreadEntry::Checkpoint(checkpoint) => {
                let Checkpoint { version, id, node, update, .. } = *checkpoint;
                if version > VERSION {
                    let message =
                        format!("the checkpoint {id} has version {version}; this program reads {VERSION}");
                    return Err(
                        Error::new(ErrorKind::Conflict, message).help("use a newer version of the program")
                    );
                }
                let before = self.saved.take().map(|saved| saved.state);
                let mut state = before.unwrap_or_default();
                state.apply(update);
                // The notes belonged to the node that this checkpoint completes.
                self.saved = Some(Saved { state, id, node, calls: HashMap::new() });
            }
            ThreadEntry::Call(CallNote { key, gave }) => {
                // A note names the checkpoint before it, so there always is one.
                if let Some(saved) = &mut self.saved {
                    saved.calls.insert(key, gave.map_or(Known::Begun, Known::Ended));
                }
            }
        }
        Ok(())
    }
}

/// Checks whether an entry with this parent may follow the last checkpoint of a thread.
fn check_next(thread: &str, last: Option<&str>, parent: Option<&str>) -> Result<()> {
    // Compare and set: of two turns that read the same end, only one continues.
    if last == parent {
        return Ok(());
    }
    let message = format!("another turn has continued the thread `{thread}`");
    Err(Error::new(ErrorKind::Conflict, message).help("wait for that turn to end, and try again"))
}

fn check_name(thread: &str) -> Result<()> {
    if (1..=THREAD_MAX).contains(&thread.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!("the name of a thread has 1 to {THREAD_MAX} bytes, not {}", thread.len())))
}

/// Stores threads in memory while the process lives. Clones share them.
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
        // The same limits as in a folder, so that what works in tests works there too.
        check_name(thread)?;
        let mut threads = self.threads();
        let kept = threads.entry(thread.to_owned()).or_default();
        check_next(thread, kept.last(), checkpoint.parent.as_deref())?;
        kept.take(ThreadEntry::Checkpoint(Box::new(checkpoint.clone())))
    }

    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> Result<()> {
        check_name(thread)?;
        let mut threads = self.threads();
        let kept = threads.entry(thread.to_owned()).or_default();
        check_next(thread, kept.last(), Some(after))?;
        kept.take(ThreadEntry::Call(call.clone()))
    }

    async fn latest(&self, thread: &str) -> Result<Option<Saved>> {
        check_name(thread)?;
        Ok(self.threads().get(thread).and_then(|kept| kept.saved.clone()))
    }
}
