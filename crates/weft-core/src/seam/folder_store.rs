//! The file manager of a tenant: a tree of folders with the files in them. What is in a file lies in a
//! [`BlobStore`](super::BlobStore).

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// What stands in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Another folder.
    Folder,
    /// A file.
    File,
    /// A file whose bytes are being stored. It has its name and takes its room, and is shown to nobody.
    Arriving,
}

/// A folder or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its id. Ids of different tenants have nothing to do with each other.
    pub id: String,
    /// The id of the folder that it is in; empty for the root, which is in none.
    pub parent: String,
    /// Its name; no two of a folder differ in case only.
    pub name: String,
    /// Which of the two it is.
    pub kind: EntryKind,
    /// Bytes of a file, also of one that arrives; 0 for a folder.
    pub size: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was renamed or moved the last time, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl FolderEntry {
    /// Whether it is the folder that all others are in.
    pub fn is_root(&self) -> bool {
        self.parent.is_empty()
    }
}

/// The name of every root.
pub const ROOT_NAME: &str = "/";

/// How much may be in the file manager of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderLimits {
    /// Files and folders in one folder, at most.
    pub in_folder: u64,
    /// Folders that an entry is in, the root included, at most.
    pub depth: u64,
    /// Files and folders in all, without the root, at most.
    pub entries: u64,
    /// Bytes of all files, at most; 0: as many as there is room for.
    pub bytes: u64,
}

impl Default for FolderLimits {
    fn default() -> Self {
        Self { in_folder: 10_000, depth: 32, entries: 100_000, bytes: 0 }
    }
}

/// What a list of a folder is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryOrder {
    /// When they were made.
    #[default]
    Created,
    /// When they were changed the last time.
    Updated,
    /// Their names, whatever their case.
    Name,
    /// Their bytes; of a folder those of all files below it, however deep.
    Size,
}

/// Which entries of a folder to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// The id of the folder.
    pub folder: String,
    /// Only those whose name holds this, whatever its case.
    pub keywords: String,
    /// Only those of this kind; without one folders and files, and none that arrive.
    pub kind: Option<EntryKind>,
    /// In which order.
    pub order: EntryOrder,
    /// The oldest, the smallest or the first of the alphabet first.
    pub ascending: bool,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// What may change of an entry. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryChange {
    /// Its name.
    pub name: Option<String>,
    /// The folder that it is in.
    pub parent: Option<String>,
}

/// Trees of folders, one for each tenant.
///
/// An implementation makes each change whole or not at all and one after the other within a tenant, so that no folder ever
/// lies below itself and no limit is passed by two requests at once. What belongs to another tenant is not there.
#[async_trait]
pub trait FolderStore: Send + Sync + fmt::Debug {
    /// The root of a tenant's tree. It is made when there is none, once.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn root(&self, tenant: &TenantId, now_ms: i64) -> Result<FolderEntry>;

    /// Puts a new entry into its folder, also a file that arrives.
    ///
    /// # Errors
    /// `NotFound` without the folder; `Invalid` when that is a file; `Conflict` when it has an entry with this name;
    /// `QuotaExceeded` when a limit would be passed.
    async fn add(&self, tenant: &TenantId, entry: &FolderEntry) -> Result<()>;

    /// Makes a file of one that arrives: its bytes are there.
    ///
    /// # Errors
    /// `NotFound` when it is not there any more, or is none that arrives.
    async fn arrive(&self, tenant: &TenantId, id: &str) -> Result<()>;

    /// Files that began to arrive before this time and still do, the oldest first: at most so many.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn arriving(&self, tenant: &TenantId, before_ms: i64, count_max: u64) -> Result<Vec<FolderEntry>>;

    /// The entry of a folder that has this name, whatever its case, also one that arrives.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn named(&self, tenant: &TenantId, folder: &str, name: &str) -> Result<Option<FolderEntry>>;

    /// An entry.
    ///
    /// # Errors
    /// `NotFound`, also for a file that arrives.
    async fn get(&self, tenant: &TenantId, id: &str) -> Result<FolderEntry>;

    /// Entries of a folder by filter, the newest first, and how many there are in all. Of a folder that is not there, none.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &EntryFilter) -> Result<(Vec<FolderEntry>, u64)>;

    /// An entry, the folder that it is in, and so on up to the root.
    ///
    /// # Errors
    /// `NotFound`.
    async fn path(&self, tenant: &TenantId, id: &str) -> Result<Vec<FolderEntry>>;

    /// Those of these folders that have other folders in them.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn with_folders(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<String>>;

    /// Bytes of all files that lie below each of these folders, however deep, by the ids of the folders. Those without any may be
    /// absent, and files that arrive do not count.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn sizes(&self, tenant: &TenantId, ids: &[String]) -> Result<HashMap<String, u64>>;

    /// Renames an entry, moves it, or both at once. As it is then.
    ///
    /// # Errors
    /// `NotFound` without the entry or the folder; `Invalid` for the root, and for a folder that is to be moved into itself
    /// or below itself; `Conflict` when the folder has another entry with this name; `QuotaExceeded` when a limit would be
    /// passed.
    async fn change(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EntryChange,
        now_ms: i64,
    ) -> Result<FolderEntry>;

    /// Removes files and empty folders, those that are there; how many there were.
    ///
    /// # Errors
    /// `Conflict` when something is in one of the folders, `Invalid` for the root; then none is removed.
    async fn remove(&self, tenant: &TenantId, ids: &[String]) -> Result<u64>;
}

/// The error that there is no such entry.
pub fn missing(id: &str) -> Error {
    Error::not_found(format!("there is no file or folder `{id}`"))
}

/// The error that the name is taken.
pub fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the folder has an entry with the name `{name}`"))
        .help("choose another name")
}

/// The error that something is to be put into a file.
pub fn no_folder(id: &str) -> Error {
    Error::invalid(format!("`{id}` is a file and not a folder")).help("name a folder")
}

/// The error that a folder would lie below itself.
pub fn below_itself(name: &str) -> Error {
    Error::invalid(format!("the folder `{name}` cannot be moved into itself"))
        .help("choose a folder outside of it")
}

/// The error that the root is to be changed or removed.
pub fn root_stays() -> Error {
    Error::invalid("the root folder can be neither renamed, moved nor removed").help("name a folder in it")
}

/// The error that something is in a folder that is to be removed.
pub fn not_empty() -> Error {
    Error::new(ErrorKind::Conflict, "the folder is not empty").help("remove what is in it first")
}

impl FolderLimits {
    /// Looks whether there is room for one more entry in a folder that has so many.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn room_in_folder(&self, entries: u64) -> Result<()> {
        let most = self.in_folder;
        if entries < most {
            return Ok(());
        }
        Err(exceeded(format!("the folder has {entries} entries and may have {most}")))
    }

    /// Looks whether an entry may be in so many folders.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn deep_enough(&self, depth: u64) -> Result<()> {
        let most = self.depth;
        if depth <= most {
            return Ok(());
        }
        Err(exceeded(format!("the entry would lie {depth} folders deep, and {most} are the most")))
    }

    /// Looks whether a tenant that has so many entries with so many bytes may have one more of this size.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn room_for(&self, entries: u64, bytes: u64, size: u64) -> Result<()> {
        if entries >= self.entries {
            return Err(exceeded(format!("there are {entries} files and folders, as many as may be")));
        }
        if self.bytes > 0 && bytes.saturating_add(size) > self.bytes {
            let most = self.bytes;
            let message = format!("the files take {bytes} bytes and may take {most}; this one has {size}");
            return Err(
                exceeded(message).help("remove some, or let an operator raise limits.tenant_document_bytes")
            );
        }
        Ok(())
    }
}

fn exceeded(message: String) -> Error {
    Error::new(ErrorKind::QuotaExceeded, message).help("remove some, or use other folders")
}
