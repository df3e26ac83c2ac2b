//! An in-memory workspace for the files of agents.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_core::seam::Workspace;
use weft_core::seam::workspace::names;
use weft_core::{Error, Result, TenantId, async_trait};

/// In-memory files. It fulfils the contract of a folder, and limits the size of each file but not their number.
#[derive(Debug)]
pub struct MemoryWorkspace {
    bytes_max: usize,
    files: Mutex<BTreeMap<(TenantId, String), String>>,
}

impl Default for MemoryWorkspace {
    /// Limits files to 5 MB, like the server's default.
    fn default() -> Self {
        Self::new(5 << 20)
    }
}

impl MemoryWorkspace {
    /// Creates a workspace for files of up to `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<(TenantId, String), String>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, tenant: &TenantId, path: &str, text: &str, before: PreviousText) -> Result<bool> {
        let names = names(path)?;
        let key = (tenant.clone(), names.join("/"));
        let mut files = self.files();
        if is_folder(&files, &key) {
            return Err(Error::invalid(format!("`{path}` is a folder")));
        }
        if (1..names.len()).any(|to| files.contains_key(&(tenant.clone(), names[..to].join("/")))) {
            return Err(Error::invalid(format!("a part of `{path}` is a file, not a folder")));
        }
        let before = match before {
            PreviousText::Kept => files.get(&key).cloned().unwrap_or_default(),
            PreviousText::Replaced => String::new(),
        };
        if before.len() + text.len() > self.bytes_max {
            return Err(Error::invalid(format!("`{path}` is larger than {} bytes", self.bytes_max)));
        }
        Ok(files.insert(key, before + text).is_some())
    }
}

/// What happens to the previous text of the file.
#[derive(Clone, Copy)]
enum PreviousText {
    Kept,
    Replaced,
}

fn is_folder(files: &BTreeMap<(TenantId, String), String>, key: &(TenantId, String)) -> bool {
    let below = format!("{}/", key.1);
    let from = (key.0.clone(), below.clone());
    files.range(from..).next().is_some_and(|((tenant, path), _)| *tenant == key.0 && path.starts_with(&below))
}

#[async_trait]
impl Workspace for MemoryWorkspace {
    async fn read(&self, tenant: &TenantId, path: &str) -> Result<String> {
        let key = (tenant.clone(), names(path)?.join("/"));
        let files = self.files();
        match files.get(&key) {
            Some(text) => Ok(text.clone()),
            None if is_folder(&files, &key) => Err(Error::invalid(format!("`{path}` is a folder"))),
            None => Err(Error::not_found(format!("there is no file `{path}`"))),
        }
    }

    async fn write(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool> {
        self.put(tenant, path, text, PreviousText::Replaced)
    }

    async fn append(&self, tenant: &TenantId, path: &str, text: &str) -> Result<bool> {
        self.put(tenant, path, text, PreviousText::Kept)
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryWorkspace;
    use crate::contracts::workspace::workspace_keeps_its_contract;

    #[tokio::test]
    async fn files_in_memory_keep_the_contract() {
        workspace_keeps_its_contract(&MemoryWorkspace::new(100), 100).await;
    }
}
