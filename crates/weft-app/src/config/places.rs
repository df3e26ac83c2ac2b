//! Where things are kept.

use std::path::{Path, PathBuf};

use weft_core::{Error, ErrorKind, Result};

use super::{Config, STORE_FILE};

/// The folder that a setting names.
fn folder(name: &str, url: &str, data: &Path, absent: &str) -> Result<PathBuf> {
    match url.split_once(':') {
        None if url.is_empty() => Ok(data.join(absent)),
        Some(("folder", path)) if !path.is_empty() => Ok(data.join(path)),
        _ => {
            // It may hold a key.
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("{name} is an address that this build cannot use"),
            )
            .help("write `folder:` and a path, or leave it empty for a folder in the data folder"))
        }
    }
}

impl Config {
    /// The store's URL, also when none is set.
    pub fn store_url(&self) -> String {
        match self.store.url.as_str() {
            "" => format!("sqlite:{}", self.data.join(STORE_FILE).display()),
            url => url.to_owned(),
        }
    }

    /// The folder of the interpreter of Python.
    pub fn python_folder(&self) -> PathBuf {
        self.data.join("python")
    }

    /// Where machine code of tools is kept that are WebAssembly components.
    pub fn components_folder(&self) -> PathBuf {
        self.data.join("wasm")
    }

    /// The folder of plugins.
    pub fn plugins_folder(&self) -> PathBuf {
        if self.plugins.folder.as_os_str().is_empty() {
            self.data.join("plugins")
        } else {
            self.plugins.folder.clone()
        }
    }

    /// The folder of uploaded files.
    ///
    /// # Errors
    /// `Unsupported` for another place than a folder.
    pub fn blobs_folder(&self) -> Result<PathBuf> {
        folder("blobs.url", &self.blobs.url, &self.data, "blobs")
    }

    /// The folder of the index.
    ///
    /// # Errors
    /// `Unsupported` for another place than a folder.
    pub fn index_folder(&self) -> Result<PathBuf> {
        folder("index.url", &self.index.url, &self.data, "index")
    }

    /// The folder of the files that agents have, if they have any.
    pub fn files_root(&self) -> Option<PathBuf> {
        let root = self.files.root.trim();
        (!root.is_empty()).then(|| self.data.join(root))
    }
}
