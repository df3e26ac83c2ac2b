//! Memories in this process, and optionally in a file that outlives it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use weft_core::{Error, ErrorKind, Result, async_trait, blocking};

use super::{LongTermMemory, Owner, Remembered, Storing};
use crate::bm25;

/// Maximum number of memories of one owner; the oldest are dropped first.
// A search visits all memories of an owner.
pub const MEMORIES_MAX: usize = 10_000;
/// Maximum size of one memory in bytes.
pub const MEMORY_BYTES_MAX: usize = 64 * 1024;
/// Size in bytes from which a file is rewritten when at least half of it belongs to memories that were dropped.
const REWRITTEN_FROM: u64 = 4 * 1024 * 1024;

/// A store whose memories are found by their words. Clones share the memories.
///
/// Texts are stored verbatim: there is no model here that could extract facts from them.
#[derive(Clone, Debug, Default)]
pub struct LocalMemory(Arc<Mutex<LocalMemories>>);

#[derive(Debug, Default)]
struct LocalMemories {
    memories: Vec<LocalMemoryEntry>,
    /// The number of memories per owner.
    // If it were recounted for each line, a file of a hundred thousand memories would take minutes to open.
    counts: HashMap<Owner, usize>,
    /// Size of their lines in the file, in bytes.
    kept_bytes: u64,
    file: Option<MemoryFile>,
}

/// The file of memories, and the end of its last complete line.
#[derive(Debug)]
struct MemoryFile {
    path: PathBuf,
    file: File,
    end: u64,
    /// Its size from which it is rewritten if that saves enough.
    rewritten_from: u64,
}

impl MemoryFile {
    /// Writes a line after the last complete one.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        // A write that failed half-way, such as on a full disk, leaves a partial line. A line after it would be
        // unreadable, and so would the file.
        self.file.set_len(self.end)?;
        self.file.write_all(line)?;
        self.file.sync_data()?;
        self.end += length(line);
        Ok(())
    }

    /// Replaces the file with one that has only these memories. After a crash, either one of them is there as a whole.
    fn rewrite(&mut self, memories: &mut [LocalMemoryEntry]) -> io::Result<()> {
        let mut path = self.path.clone().into_os_string();
        path.push(".rewritten");
        let path = PathBuf::from(path);
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        // Before it has its final name, so that no other process opens it in between; and before it is cleared of what
        // a crash has left, in case it is the file of another process.
        file.try_lock().map_err(|refused| match refused {
            TryLockError::WouldBlock => io::Error::from(io::ErrorKind::WouldBlock),
            TryLockError::Error(cause) => cause,
        })?;
        let replaced = self.fill(&file, memories).and_then(|lengths| {
            std::fs::rename(&path, &self.path)?;
            Ok(lengths)
        });
        // The disk may be full.
        let lengths = replaced.inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        self.file = file;
        self.end = lengths.iter().sum();
        memories.iter_mut().zip(lengths).for_each(|(memory, length)| memory.length = length);
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Not every system can open a folder as a file.
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Fills a file that takes the place of this one, and returns the sizes of its lines.
    fn fill(&self, file: &File, memories: &[LocalMemoryEntry]) -> io::Result<Vec<u64>> {
        file.set_len(0)?;
        file.set_permissions(self.file.metadata()?.permissions())?;
        let (mut lines, mut lengths) = (BufWriter::new(file), Vec::with_capacity(memories.len()));
        for memory in memories {
            let line = line_of(memory)?;
            lines.write_all(&line)?;
            lengths.push(length(&line));
        }
        lines.flush()?;
        drop(lines);
        file.sync_all()?;
        Ok(lengths)
    }
}

/// Returns whether a path leads to this file: another process may have rewritten the file before it was locked here.
#[cfg(unix)]
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (opened, there) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino()))
}

/// Other systems do not allow replacing an open file.
#[cfg(not(unix))]
fn is_at(_: &Path, _: &File) -> io::Result<bool> {
    Ok(true)
}

fn length(line: &[u8]) -> u64 {
    u64::try_from(line.len()).unwrap_or_default()
}

/// Returns the line of a memory in the file.
fn line_of(memory: &LocalMemoryEntry) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(memory)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LocalMemoryEntry {
    id: String,
    owner: Owner,
    text: String,
    /// Size of its line in the file, in bytes; 0 without a file.
    #[serde(skip)]
    length: u64,
}

impl LocalMemory {
    /// Memories that live as long as the process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memories in a file, one line of JSON each. The file is locked by this process while it is open. It is rewritten,
    /// by way of a file of the same name with `.rewritten` at its end, when it is large and half of it belongs to
    /// memories that were dropped.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be opened or read, `Conflict` when another process has it open or a line is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let failed = |cause| {
            Error::new(ErrorKind::Unavailable, format!("cannot open the memories in {}", path.display()))
                .because(cause)
        };
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(failed)?;
        let taken = || {
            let message = format!("another process has opened the memories in {}", path.display());
            Error::new(ErrorKind::Conflict, message).help("use a separate file for each process")
        };
        // Does not wait for the lock: the other process holds it for its lifetime.
        file.try_lock().map_err(|cause| match cause {
            TryLockError::WouldBlock => taken(),
            // Some file systems do not support locks.
            TryLockError::Error(cause) => failed(cause).help("put the file on a local disk"),
        })?;
        if !is_at(&path, &file).map_err(failed)? {
            return Err(taken());
        }
        let mut all = Vec::new();
        let (mut lines, mut line, mut end) = (BufReader::new(&file), Vec::new(), 0_u64);
        for number in 1.. {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(failed)?;
            // A partial line was being written when a process ended, and was never acknowledged.
            if line.last() != Some(&b'\n') {
                break;
            }
            let damaged = |cause| {
                let message = format!("line {number} of {} is not a memory", path.display());
                Error::new(ErrorKind::Conflict, message).because(cause).help("restore the file from a backup")
            };
            let memory: LocalMemoryEntry = serde_json::from_slice(&line).map_err(damaged)?;
            let length = length(&line);
            all.push(LocalMemoryEntry { length, ..memory });
            end += length;
        }
        // Otherwise the next line would be appended to a partial one, and both would be unreadable.
        file.set_len(end).map_err(failed)?;
        let mut state = LocalMemories::newest(all);
        // A link to the file is not replaced by it, and the process may change its folder.
        let own = std::fs::canonicalize(&path).map_err(failed)?;
        state.file = Some(MemoryFile { path: own, file, end, rewritten_from: REWRITTEN_FROM });
        state.compact();
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    fn state(&self) -> MutexGuard<'_, LocalMemories> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalMemories {
    /// Keeps the newest memories of each owner, in order.
    fn newest(all: Vec<LocalMemoryEntry>) -> Self {
        let mut counts: HashMap<Owner, usize> = HashMap::new();
        let is_kept = |memory: &LocalMemoryEntry| {
            let count = counts.entry(memory.owner.clone()).or_default();
            let is_kept = *count < MEMORIES_MAX;
            *count += usize::from(is_kept);
            is_kept
        };
        let mut memories: Vec<LocalMemoryEntry> = all.into_iter().rev().filter(is_kept).collect();
        memories.reverse();
        let kept_bytes = memories.iter().map(|memory| memory.length).sum();
        Self { memories, counts, kept_bytes, file: None }
    }

    fn take(&mut self, memory: LocalMemoryEntry) {
        let count = self.counts.entry(memory.owner.clone()).or_default();
        if *count < MEMORIES_MAX {
            *count += 1;
        } else if let Some(oldest) = self.memories.iter().position(|known| known.owner == memory.owner) {
            self.kept_bytes -= self.memories.remove(oldest).length;
        }
        self.kept_bytes += memory.length;
        self.memories.push(memory);
    }

    fn add(&mut self, mut memory: LocalMemoryEntry) -> Result<()> {
        if let Some(file) = &mut self.file {
            let line = line_of(&memory)
                .map_err(|cause| Error::internal("cannot serialize a memory").because(cause))?;
            memory.length = length(&line);
            file.append(&line).map_err(|cause| {
                let message = format!("cannot write the memories in {}", file.path.display());
                Error::new(ErrorKind::Unavailable, message).because(cause)
            })?;
        }
        // After the write: what is found must be in the file.
        self.take(memory);
        self.compact();
        Ok(())
    }

    /// Rewrites the file when at least half of it belongs to memories that were dropped.
    fn compact(&mut self) {
        let Some(file) = &mut self.file else { return };
        if file.end < file.rewritten_from || self.kept_bytes > file.end / 2 {
            return;
        }
        match file.rewrite(&mut self.memories) {
            Ok(()) => {
                self.kept_bytes = file.end;
                file.rewritten_from = REWRITTEN_FROM;
            }
            // Nothing is lost: the file is only larger than it has to be. A full disk is not filled again each time.
            Err(_) => file.rewritten_from = file.end.saturating_mul(2),
        }
    }

    /// The memories of an owner that contain words of a question, best first.
    fn search(&self, owner: &Owner, query: &str, limit: usize) -> Vec<Remembered> {
        let own: Vec<&LocalMemoryEntry> =
            self.memories.iter().filter(|memory| owner.covers(&memory.owner)).collect();
        let scores = bm25::scores_of(query, own.iter().map(|memory| memory.text.as_str()));
        let found = bm25::best(&scores).into_iter().take(limit).map(|place| {
            let LocalMemoryEntry { id, text, .. } = own[place];
            Remembered { id: id.clone(), text: text.clone(), score: scores[place] }
        });
        found.collect()
    }
}

impl Owner {
    /// Whether a request for this owner matches `other`: every given id is equal.
    fn covers(&self, other: &Self) -> bool {
        let same = |asked: &Option<String>, known: &Option<String>| asked.is_none() || asked == known;
        same(&self.user_id, &other.user_id)
            && same(&self.agent_id, &other.agent_id)
            && same(&self.run_id, &other.run_id)
    }
}

#[async_trait]
impl LongTermMemory for LocalMemory {
    async fn add(&self, owner: &Owner, text: &str, _: Storing) -> Result<Vec<String>> {
        owner.check()?;
        let text = text.trim();
        if text.is_empty() {
            return Ok(Vec::new());
        }
        if text.len() > MEMORY_BYTES_MAX {
            return Err(Error::invalid(format!("a memory has at most {MEMORY_BYTES_MAX} bytes")));
        }
        let (memories, owner, text) = (self.clone(), owner.clone(), text.to_owned());
        blocking("the work on memories", move || {
            let mut state = memories.state();
            // A repeated turn, or a user who says it twice, adds nothing.
            if let Some(known) =
                state.memories.iter().find(|known| known.owner == owner && known.text == text)
            {
                return Ok(vec![known.id.clone()]);
            }
            let id = weft_core::id::generate();
            state.add(LocalMemoryEntry { id: id.clone(), owner, text, length: 0 })?;
            Ok(vec![id])
        })
        .await
    }

    async fn search(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Remembered>> {
        owner.check()?;
        let (memories, owner, query) = (self.clone(), owner.clone(), query.to_owned());
        blocking("the work on memories", move || Ok(memories.state().search(&owner, &query, limit))).await
    }
}
