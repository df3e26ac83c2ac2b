//! The file manager of a tenant: a tree of folders and files. The contents of files are in a
//! [`BlobStore`](super::BlobStore).

use std::collections::HashMap;
use std::fmt;

use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;

/// The kind of an entry in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Another folder.
    Folder,
    /// A file.
    File,
    /// A file that is still being uploaded. It reserves its name and space, but is not shown.
    Arriving,
}

/// A folder or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its id. Ids are unrelated across tenants.
    pub id: String,
    /// The id of the folder it is in; empty for the root.
    pub parent: String,
    /// Its name, unique within the folder, ignoring case.
    pub name: String,
    /// Its kind.
    pub kind: EntryKind,
    /// Size of a file in bytes, even while it is being uploaded; 0 for a folder.
    pub size: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last renamed or moved, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl FolderEntry {
    /// Returns whether it is the root folder.
    pub fn is_root(&self) -> bool {
        self.parent.is_empty()
    }
}

/// The name of every root.
pub const ROOT_NAME: &str = "/";

/// Limits for the file manager of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderLimits {
    /// Maximum number of files and folders in one folder.
    pub in_folder: u64,
    /// Maximum number of folders above an entry, including the root.
    pub depth: u64,
    /// Maximum number of files and folders in total, excluding the root.
    pub entries: u64,
    /// Maximum size of all files in bytes; 0 means unlimited.
    pub bytes: u64,
}

impl Default for FolderLimits {
    fn default() -> Self {
        Self { in_folder: 10_000, depth: 32, entries: 100_000, bytes: 0 }
    }
}

/// The sort order of a folder listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryOrder {
    /// By when they were created.
    #[default]
    Created,
    /// By when they were last changed.
    Updated,
    /// By name, ignoring case.
    Name,
    /// By size; that of a folder is the size of all files below it, at any depth.
    Size,
}

/// Which entries of a folder to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// The id of the folder.
    pub folder: String,
    /// Only those whose name contains this, ignoring case.
    pub keywords: String,
    /// Only those of this kind; if absent, folders and files that have been uploaded.
    pub kind: Option<EntryKind>,
    /// The sort order.
    pub order: EntryOrder,
    /// Oldest, smallest or alphabetically first.
    pub ascending: bool,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// Changes to an entry. Absent values stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryChange {
    /// Its name.
    pub name: Option<String>,
    /// The folder that it is in.
    pub parent: Option<String>,
}

/// Stores a tree of folders for each tenant.
///
/// Within a tenant, an implementation makes changes atomically and one after another, so that no folder is ever
/// placed below itself and concurrent requests cannot exceed a limit. What belongs to another tenant does not exist
/// for a caller.
#[async_trait]
pub trait FolderStore: Send + Sync + fmt::Debug {
    /// Returns the root of a tenant's tree, creating it if necessary.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn root(&self, tenant: &TenantId, now_ms: i64) -> Result<FolderEntry>;

    /// Adds an entry to its folder, including a file that is being uploaded.
    ///
    /// # Errors
    /// `NotFound` if the folder does not exist; `Invalid` if it is a file; `Conflict` if it has an entry with this
    /// name; `QuotaExceeded` if a limit would be exceeded.
    async fn add(&self, tenant: &TenantId, entry: &FolderEntry) -> Result<()>;

    /// Completes the upload of a file: its contents are stored.
    ///
    /// # Errors
    /// `NotFound` when it no longer exists, or is not being uploaded.
    async fn arrive(&self, tenant: &TenantId, id: &str) -> Result<()>;

    /// Returns up to `count_max` files whose upload started before this time and has not been completed, oldest
    /// first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn arriving(&self, tenant: &TenantId, before_ms: i64, count_max: u64) -> Result<Vec<FolderEntry>>;

    /// Returns the entry of a folder with this name, ignoring case, including one that is being uploaded.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn named(&self, tenant: &TenantId, folder: &str, name: &str) -> Result<Option<FolderEntry>>;

    /// Returns an entry.
    ///
    /// # Errors
    /// `NotFound`, also for a file that is being uploaded.
    async fn get(&self, tenant: &TenantId, id: &str) -> Result<FolderEntry>;

    /// Returns entries of a folder that match a filter, newest first, and their total number; none if the folder does
    /// not exist.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &EntryFilter) -> Result<(Vec<FolderEntry>, u64)>;

    /// Returns an entry, the folder it is in, and so on up to the root.
    ///
    /// # Errors
    /// `NotFound`.
    async fn path(&self, tenant: &TenantId, id: &str) -> Result<Vec<FolderEntry>>;

    /// Returns which of these folders contain other folders.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn with_folders(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<String>>;

    /// Returns the total size in bytes of all files below each of these folders, at any depth, by folder id. Folders
    /// without files may be absent, and files being uploaded do not count.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn sizes(&self, tenant: &TenantId, ids: &[String]) -> Result<HashMap<String, u64>>;

    /// Renames an entry, moves it, or both in one step. Returns the new state.
    ///
    /// # Errors
    /// `NotFound` if the entry or the folder does not exist; `Invalid` for the root, and for a folder that would be
    /// moved into itself or below itself; `Conflict` when the folder has another entry with this name;
    /// `QuotaExceeded` when a limit would be exceeded.
    async fn change(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EntryChange,
        now_ms: i64,
    ) -> Result<FolderEntry>;

    /// Removes files and empty folders, ignoring missing ones. Returns how many were removed.
    ///
    /// # Errors
    /// `Conflict` when one of the folders is not empty, `Invalid` for the root; then none is removed.
    async fn remove(&self, tenant: &TenantId, ids: &[String]) -> Result<u64>;
}

/// The error for an entry that does not exist.
pub fn missing(id: &str) -> Error {
    Error::not_found(format!("there is no file or folder `{id}`"))
}

/// The error for a name that is taken.
pub fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the folder has an entry with the name `{name}`"))
        .help("choose another name")
}

/// The error for an attempt to put something into a file.
pub fn no_folder(id: &str) -> Error {
    Error::invalid(format!("`{id}` is a file and not a folder")).help("name a folder")
}

/// The error for a folder that would be placed below itself.
pub fn below_itself(name: &str) -> Error {
    Error::invalid(format!("the folder `{name}` cannot be moved into itself"))
        .help("choose a folder outside of it")
}

/// The error for an attempt to change or remove the root.
pub fn root_stays() -> Error {
    Error::invalid("the root folder can be neither renamed, moved nor removed").help("name a folder in it")
}

/// The error for an attempt to remove a folder that is not empty.
pub fn not_empty() -> Error {
    Error::new(ErrorKind::Conflict, "the folder is not empty").help("remove what is in it first")
}

impl FolderLimits {
    /// Checks whether a folder that has this many entries has room for another.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn room_in_folder(&self, entries: u64) -> Result<()> {
        let most = self.in_folder;
        if entries < most {
            return Ok(());
        }
        Err(exceeded(format!("the folder has {entries} entries; at most {most} are allowed")))
    }

    /// Checks whether an entry may be this many folders deep.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn deep_enough(&self, depth: u64) -> Result<()> {
        let most = self.depth;
        if depth <= most {
            return Ok(());
        }
        Err(exceeded(format!("the entry would be {depth} folders deep; at most {most} are allowed")))
    }

    /// Checks whether a tenant with this many entries and bytes may have another file of this size.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn room_for(&self, entries: u64, bytes: u64, size: u64) -> Result<()> {
        if entries >= self.entries {
            return Err(exceeded(format!(
                "there are {entries} files and folders already, which is the maximum"
            )));
        }
        if self.bytes > 0 && bytes.saturating_add(size) > self.bytes {
            let most = self.bytes;
            let message = format!("the files take {bytes} bytes of at most {most}; this one has {size}");
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
