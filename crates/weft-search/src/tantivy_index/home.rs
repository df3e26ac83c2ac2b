//! Where a dataset's index is kept, and whether something has changed there.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tantivy::directory::{Directory as _, INDEX_WRITER_LOCK, MmapDirectory, RamDirectory};
use tantivy::store::Compressor;
use tantivy::{Index, IndexSettings};
use weft_core::{Error, Result};

use super::schema;
use super::writer::{unwritable, when_free};

/// The file that names the parts of an index. Every commit puts a new one in its place.
const META: &str = "meta.json";

/// A folder, or memory.
pub(super) enum Home {
    /// A folder that other processes may use as well.
    Folder(PathBuf),
    /// Memory of this process.
    Memory(RamDirectory),
}

/// What an index looked like from outside at some time. Equal: nobody has written since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stamp {
    /// When the folder came into being; another one when the index was removed and made again.
    folder: Option<SystemTime>,
    /// When its list of parts came into being and was written, and how long it is.
    meta: (Option<SystemTime>, Option<SystemTime>, u64),
}

impl Stamp {
    const MEMORY: Self = Self { folder: None, meta: (None, None, 0) };

    fn of(folder: &Metadata, meta: &Metadata) -> Self {
        let meta = (meta.created().ok(), meta.modified().ok(), meta.len());
        Self { folder: folder.created().ok(), meta }
    }

    /// Whether both are of one folder.
    pub(super) fn same_folder(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

impl Home {
    /// The home of an index, in a folder if there is one.
    pub(super) fn new(folder: Option<&Path>) -> Self {
        folder.map_or_else(|| Self::Memory(RamDirectory::create()), |folder| Self::Folder(folder.to_owned()))
    }

    /// Whether an index is in this folder.
    pub(super) fn is_in(folder: &Path) -> bool {
        folder.join(META).exists()
    }

    /// Begins an index if there is none. One process at a time does, since to begin is to forget what is there.
    pub(super) fn begin(&self) -> Result<()> {
        let (schema, _) = schema::schema();
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let builder = Index::builder().schema(schema).settings(settings);
        match self {
            Self::Memory(directory) => builder.open_or_create(directory.clone()).map_err(unwritable)?,
            Self::Folder(folder) if Self::is_in(folder) => return Ok(()),
            Self::Folder(folder) => {
                make_folder(folder).map_err(|cause| unwritable(cause.into()))?;
                let directory = MmapDirectory::open(folder).map_err(|cause| unwritable(cause.into()))?;
                let _turn = when_free(|| Ok(directory.acquire_lock(&INDEX_WRITER_LOCK)?))?;
                let index = builder.open_or_create(directory).map_err(unwritable)?;
                remove_older(folder);
                index
            }
        };
        Ok(())
    }

    /// The index as it is now. A writer needs a fresh one after others have written, since it also keeps account of files.
    pub(super) fn open(&self) -> tantivy::Result<Index> {
        let index = match self {
            Self::Memory(directory) => Index::open(directory.clone())?,
            Self::Folder(folder) => Index::open(MmapDirectory::open(folder)?)?,
        };
        // The rules are no part of what is kept, so that they are named each time it is opened.
        index.tokenizers().register(schema::WORDS, schema::EntryWords::default());
        Ok(index)
    }

    /// What it looks like now; absent when the index is gone.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Memory(_) => Some(Stamp::MEMORY),
            Self::Folder(folder) => {
                let meta = folder.join(META).metadata().ok()?;
                Some(Stamp::of(&folder.metadata().ok()?, &meta))
            }
        }
    }
}

/// Removes indexes of the same dataset that were written down in another way. What is in them is made again from
/// the store: they hold another number of chunks than the new one.
fn remove_older(folder: &Path) {
    let name = |path: &Path| path.file_stem().map(std::ffi::OsStr::to_owned);
    let beside = folder.parent().and_then(|above| std::fs::read_dir(above).ok());
    let versions = beside.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &Path| path.extension()?.to_str()?.strip_prefix('v')?.parse::<u32>().ok();
    let is_older = |path: &Path| version(path).is_some_and(|older| Some(older) < version(folder));
    for older in versions.filter(|path| is_older(path) && name(path) == name(folder)) {
        let folder = older.display().to_string();
        match remove(&older) {
            Ok(()) => tracing::info!(folder, "an index of an older version was removed and is made again"),
            Err(error) => {
                // It only takes room: the new index reads nothing of it.
                tracing::warn!(folder, error = %error.detail(), "an index of an older version is left");
            }
        }
    }
}

/// Makes a folder that its owner alone may look into, and those above it that are missing.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Removes an index as soon as no other process writes to it: a writer that goes on would put its list of parts into
/// the index that comes next.
pub(super) fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let directory = MmapDirectory::open(folder).map_err(|cause| unwritable(cause.into()))?;
    let _turn = when_free(|| Ok(directory.acquire_lock(&INDEX_WRITER_LOCK)?))?;
    // Renamed first, so that a crash in the middle leaves no half of a dataset.
    let failed = |cause| Error::internal("cannot remove the index of a dataset").because(cause);
    let gone = folder.with_extension("gone");
    let remove = |folder: &Path| match std::fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(failed(cause)),
        _ => Ok(()),
    };
    // Left by a removal that a crash has cut short; the name has to be free.
    remove(&gone)?;
    match std::fs::rename(folder, &gone) {
        // Another process was faster.
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed(cause)),
        Ok(()) => remove(&gone),
    }
}
