//! Files as people gave them: uploads and pictures.

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::id::TenantId;

/// Bytes by name, apart for each tenant. Names are ids that Weft makes, with `/` between their parts:
/// `documents/5f0c…`; they are never what a person typed.
///
/// An implementation replaces a blob whole or not at all, and what [`BlobStore::put`] has returned for is
/// there after a crash.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Keeps a blob, in place of the one with the same name.
    ///
    /// # Errors
    /// `Invalid` for a name with other characters than letters, digits, `-`, `_`, `.` and `/`, an empty
    /// part or one that begins with a dot; otherwise when it cannot be written.
    async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()>;

    /// A blob.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes>;

    /// Removes a blob, if it is there.
    ///
    /// # Errors
    /// When it cannot be removed.
    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()>;

    /// The names of all blobs in a folder: those that begin with its name and a `/`. None where there is no such folder.
    ///
    /// # Errors
    /// `Invalid` for a name that no blob may have; otherwise when it cannot be looked through.
    async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>>;

    /// Removes all files of a tenant.
    ///
    /// # Errors
    /// When they cannot be removed.
    async fn remove_all(&self, tenant: &TenantId) -> Result<()>;
}

/// Looks whether a blob may have this name.
///
/// # Errors
/// `Invalid`, as [`BlobStore::put`].
pub fn checked(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
    if name.len() <= BLOB_NAME_BYTES_MAX && name.split('/').all(fits) {
        return Ok(());
    }
    Err(Error::invalid("a stored file cannot have this name")
        .help("use letters, digits, `-`, `_` and `.`, and `/` between the parts"))
}

/// A longer name fits neither into a column nor into every file system.
const BLOB_NAME_BYTES_MAX: usize = 200;
