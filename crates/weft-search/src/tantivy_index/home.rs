//! Where a dataset's index is stored, and whether it has changed.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tantivy::directory::{Directory as _, INDEX_WRITER_LOCK, MmapDirectory, RamDirectory};
use tantivy::store::Compressor;
use tantivy::{Index, IndexSettings};
use weft_core::{Error, Result};

use super::lock::{unwritable, when_free};
use super::schema;

/// The file that lists the parts of an index. Every commit replaces it.
const META: &str = "meta.json";

/// A folder, or memory.
pub(super) enum Home {
    /// A folder that other processes may use as well.
    Folder(PathBuf),
    /// The memory of this process.
    Memory(RamDirectory),
}

/// File metadata of an index at some point in time. If two stamps are equal, nothing was written in between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stamp {
    /// When the folder was created; differs if the index was removed and created again.
    folder: Option<SystemTime>,
    /// When the list of parts was created and last written, and its length.
    meta: (Option<SystemTime>, Option<SystemTime>, u64),
}

impl Stamp {
    const MEMORY: Self = Self { folder: None, meta: (None, None, 0) };

    fn of(folder: &Metadata, meta: &Metadata) -> Self {
        let meta = (meta.created().ok(), meta.modified().ok(), meta.len());
        Self { folder: folder.created().ok(), meta }
    }

    /// Whether both belong to the same folder.
    pub(super) fn same_folder(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

impl Home {
    /// Returns the home of an index, in a folder if one is given.
    pub(super) fn new(folder: Option<&Path>) -> Self {
        folder.map_or_else(|| Self::Memory(RamDirectory::create()), |folder| Self::Folder(folder.to_owned()))
    }

    /// Whether a folder contains an index.
    pub(super) fn is_in(folder: &Path) -> bool {
        folder.join(META).exists()
    }

    /// Creates an index if there is none. Only one process at a time does so, since creating an index
    /// discards what is there.
    pub(super) fn begin(&self) -> Result<()> {
        let (schema, _) = schema::schema();
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            // Without compression, another thread would have nothing to do.
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

    /// Opens the index as it is now. After another process has written, a writer needs a newly opened index,
    /// because an index also tracks its files.
    pub(super) fn open(&self) -> tantivy::Result<Index> {
        let index = match self {
            Self::Memory(directory) => Index::open(directory.clone())?,
            Self::Folder(folder) => Index::open(MmapDirectory::open(folder)?)?,
        };
        // The tokenizer is not stored with the index, so it is registered each time it is opened.
        index.tokenizers().register(schema::WORDS, schema::EntryWords::default());
        Ok(index)
    }

    /// Returns its current stamp; `None` if the index is gone.
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

/// Removes indexes of the same dataset in older formats. Their content is rebuilt from the store: they hold a
/// different number of chunks than the new index.
fn remove_older(folder: &Path) {
    let name = |path: &Path| path.file_stem().map(std::ffi::OsStr::to_owned);
    let beside = folder.parent().and_then(|above| std::fs::read_dir(above).ok());
    let versions = beside.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &Path| path.extension()?.to_str()?.strip_prefix('v')?.parse::<u32>().ok();
    let is_older = |path: &Path| version(path).is_some_and(|older| Some(older) < version(folder));
    for older in versions.filter(|path| is_older(path) && name(path) == name(folder)) {
        let folder = older.display().to_string();
        match remove(&older) {
            Ok(()) => tracing::info!(folder, "an index of an older version was removed and is being rebuilt"),
            Err(error) => {
                // It only takes up space: the new index does not read it.
                tracing::warn!(folder, error = %error.detail(), "an index of an older version is left");
            }
        }
    }
}

/// Creates a folder that only its owner can access, and any missing parents.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Removes an index once no other process writes to it: a writer that continued would put its list of parts
/// into the next index there.
pub(super) fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let directory = MmapDirectory::open(folder).map_err(|cause| unwritable(cause.into()))?;
    let _turn = when_free(|| Ok(directory.acquire_lock(&INDEX_WRITER_LOCK)?))?;
    // Renamed first, so that a crash midway does not leave half a dataset.
    let failed = |cause| Error::internal("cannot remove the index of a dataset").because(cause);
    let gone = folder.with_extension("gone");
    let remove = |folder: &Path| match std::fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(failed(cause)),
        _ => Ok(()),
    };
    // Left by a removal that a crash interrupted; the name has to be free.
    remove(&gone)?;
    match std::fs::rename(folder, &gone) {
        // Another process was faster.
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed(cause)),
        Ok(()) => remove(&gone),
    }
}
