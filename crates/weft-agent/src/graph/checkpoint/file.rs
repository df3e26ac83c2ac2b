//! Threads in a folder: one file per thread, one line of JSON per entry.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::{Error, ErrorKind, Result, async_trait, blocking};

use super::{CallNote, Checkpoint, Checkpointer, Saved, Thread, ThreadEntry, check_name, check_next};

/// Maximum number of threads whose last entries are cached.
// Evicting one costs reading its file once more.
const ENDS_MAX: usize = 1_000;

/// Stores each thread in a file of a folder. Processes on one machine may share the folder.
#[derive(Clone, Debug)]
pub struct FolderCheckpointer {
    folder: PathBuf,
    ends: Arc<Mutex<HashMap<PathBuf, FileEnd>>>,
}

/// The end of the last complete line of a file and the last checkpoint at that time. Files only grow, so this is
/// valid while the file has this length.
#[derive(Clone, Debug)]
struct FileEnd {
    bytes: u64,
    last: String,
}

impl FolderCheckpointer {
    /// Uses this folder, which is created if it does not exist.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be created.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(|cause| unavailable("create the folder", &folder, cause))?;
        Ok(Self { folder, ends: Arc::default() })
    }

    fn path(&self, thread: &str) -> Result<PathBuf> {
        check_name(thread)?;
        let mut name = String::new();
        for byte in thread.bytes() {
            match byte {
                // Upper-case letters are encoded as well: some file systems do not distinguish them from lower case.
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
                _ => drop(write!(name, "%{byte:02x}")),
            }
        }
        Ok(self.folder.join(format!("{name}.jsonl")))
    }

    async fn add(&self, thread: &str, parent: Option<String>, entry: ThreadEntry) -> Result<()> {
        let (path, name, ends) = (self.path(thread)?, thread.to_owned(), Arc::clone(&self.ends));
        blocking("the checkpoint thread", move || {
            let open = OpenOptions::new().read(true).append(true).create(true).open(&path);
            let mut file = open.map_err(|cause| unavailable("open", &path, cause))?;
            // Held until the file is closed: other writers wait and then see this entry.
            file.lock().map_err(|cause| unavailable("lock", &path, cause))?;
            let length = file.metadata().map_err(|cause| unavailable("read", &path, cause))?.len();
            // Removed while it is used: if the write fails, the next one reads the file again.
            let known = held(&ends).remove(&path).filter(|known| known.bytes == length);
            let (last, end) = match known {
                Some(known) => (Some(known.last), known.bytes),
                None => {
                    let (kept, end) = read(&file, &path)?;
                    (kept.saved.map(|saved| saved.id), end)
                }
            };
            check_next(&name, last.as_deref(), parent.as_deref())?;
            let bytes = append(&mut file, &entry, end).map_err(|cause| unavailable("write", &path, cause))?;
            let last = match entry {
                ThreadEntry::Checkpoint(checkpoint) => Some(checkpoint.id),
                ThreadEntry::Call(_) => last,
            };
            let mut ends = held(&ends);
            // All at once: an order of use would have to be kept for each call, and this only costs reading files
            // again.
            if ends.len() >= ENDS_MAX {
                ends.clear();
            }
            ends.extend(last.map(|last| (path, FileEnd { bytes, last })));
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl Checkpointer for FolderCheckpointer {
    async fn put(&self, thread: &str, checkpoint: &Checkpoint) -> Result<()> {
        let entry = ThreadEntry::Checkpoint(Box::new(checkpoint.clone()));
        self.add(thread, checkpoint.parent.clone(), entry).await
    }

    async fn put_call(&self, thread: &str, after: &str, call: &CallNote) -> Result<()> {
        self.add(thread, Some(after.to_owned()), ThreadEntry::Call(call.clone())).await
    }

    async fn latest(&self, thread: &str) -> Result<Option<Saved>> {
        let path = self.path(thread)?;
        blocking("the checkpoint thread", move || match File::open(&path) {
            Ok(file) => {
                file.lock_shared().map_err(|cause| unavailable("lock", &path, cause))?;
                read(&file, &path).map(|(kept, _)| kept.saved)
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(unavailable("open", &path, cause)),
        })
        .await
    }
}

/// Reads the thread in a file and the end of its last complete line. Anything after that was being written when a
/// process ended, and was never acknowledged.
fn read(file: &File, path: &Path) -> Result<(Thread, u64)> {
    let mut kept = Thread::default();
    let mut lines = BufReader::new(file);
    let (mut line, mut end) = (Vec::new(), 0_u64);
    lines.seek(SeekFrom::Start(0)).map_err(|cause| unavailable("read", path, cause))?;
    for number in 1.. {
        line.clear();
        let length = lines.read_until(b'\n', &mut line);
        let length = length.map_err(|cause| unavailable("read", path, cause))?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let damaged = |cause| {
            let message = format!("line {number} of {} is not an entry of a thread", path.display());
            Error::new(ErrorKind::Conflict, message).because(cause).help("restore the file from a backup")
        };
        kept.take(serde_json::from_slice(&line).map_err(damaged)?)?;
        end += u64::try_from(length).unwrap_or_default();
    }
    Ok((kept, end))
}

fn held(ends: &Mutex<HashMap<PathBuf, FileEnd>>) -> MutexGuard<'_, HashMap<PathBuf, FileEnd>> {
    ends.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes an entry after the last complete line. Returns its end.
fn append(file: &mut File, entry: &ThreadEntry, end: u64) -> io::Result<u64> {
    // Otherwise a partial line left by a crashed process or a failed write would make this line unreadable, too.
    file.set_len(end)?;
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)?;
    // The caller makes calls once this line is written; they must not be forgotten when the machine stops.
    file.sync_data()?;
    Ok(end.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX)))
}

fn unavailable(what: &str, path: &Path, cause: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot {what} {}", path.display())).because(cause)
}
