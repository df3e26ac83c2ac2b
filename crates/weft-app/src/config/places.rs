//! Locations of stored data.

use std::path::{Path, PathBuf};

use weft_core::{Error, ErrorKind, Result};

use super::{Config, STORE_FILE};

/// Returns the folder that a setting names.
fn folder(name: &str, url: &str, data: &Path, absent: &str) -> Result<PathBuf> {
    match url.split_once(':') {
        None if url.is_empty() => Ok(data.join(absent)),
        // An absolute path replaces the data folder.
        Some(("folder", path)) if !path.is_empty() => Ok(data.join(path)),
        _ => {
            // The URL may contain a key, so it is not repeated.
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("{name} is an address that this build cannot use"),
            )
            .help("write `folder:` and a path, or leave it empty for a folder in the data folder"))
        }
    }
}

impl Config {
    /// Returns the URL of the store, or the default one.
    pub fn store_url(&self) -> String {
        match self.store.url.as_str() {
            "" => format!("sqlite:{}", self.data.join(STORE_FILE).display()),
            url => url.to_owned(),
        }
    }

    /// Returns the file of the store, if the store is a file.
    pub fn store_file(&self) -> Option<PathBuf> {
        let url = self.store_url();
        let path = url.strip_prefix("sqlite:").filter(|path| *path != ":memory:")?;
        Some(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))
    }

    /// Returns the folder of installed models.
    pub fn models_folder(&self) -> PathBuf {
        self.data.join("models")
    }

    /// Returns the folder of the Python interpreter.
    pub fn python_folder(&self) -> PathBuf {
        self.data.join("python")
    }

    /// Returns the folder for the compiled code of WebAssembly tools.
    pub fn components_folder(&self) -> PathBuf {
        self.data.join("wasm")
    }

    /// Returns the folder of plugins.
    pub fn plugins_folder(&self) -> PathBuf {
        if self.plugins.folder.as_os_str().is_empty() {
            self.data.join("plugins")
        } else {
            self.plugins.folder.clone()
        }
    }

    /// Returns the folder of uploaded files.
    ///
    /// # Errors
    /// `Unsupported` for a location that is not a folder.
    pub fn blobs_folder(&self) -> Result<PathBuf> {
        folder("blobs.url", &self.blobs.url, &self.data, "blobs")
    }

    /// Returns the folder of the index.
    ///
    /// # Errors
    /// `Unsupported` for a location that is not a folder.
    pub fn index_folder(&self) -> Result<PathBuf> {
        folder("index.url", &self.index.url, &self.data, "index")
    }

    /// Returns the folder of the files of agents, if they have any.
    pub fn files_root(&self) -> Option<PathBuf> {
        let root = self.files.root.trim();
        (!root.is_empty()).then(|| self.data.join(root))
    }
}
