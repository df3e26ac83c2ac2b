//! Settings of the web browser that models control.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A local browser, which is started separately for each task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrowserConfig {
    /// Maximum number of open windows; 0: none.
    pub at_once: usize,
    /// Memory limit of all processes of one browser together, in bytes.
    pub memory_bytes: u64,
    /// Maximum number of bytes that the pages of one browser may receive.
    pub received_bytes: u64,
    /// Maximum size of a downloaded file, in bytes.
    pub download_bytes: u64,
    /// Maximum size of what pages have stored for one tenant, in bytes; 0: no quota.
    pub stored_bytes: u64,
    /// The program; empty: a Chromium of the system.
    pub program: PathBuf,
    /// Whether its processes use their own sandbox, which is impossible as root.
    pub sandbox: bool,
}

impl Default for BrowserConfig {
    fn default() -> Self {
        Self {
            at_once: 2,
            memory_bytes: 3 << 30,
            received_bytes: 512 << 20,
            download_bytes: 50 << 20,
            stored_bytes: 10 << 30,
            program: PathBuf::new(),
            sandbox: true,
        }
    }
}

impl BrowserConfig {
    /// Returns the folder in the data folder for data stored by pages.
    pub(crate) fn profiles(data: &Path) -> PathBuf {
        data.join("browser")
    }

    /// Returns the settings of browsers, with profiles in the data folder; `None` if there are none.
    pub fn settings(&self, data: &Path) -> Option<weft_browser::BrowserSettings> {
        let &Self { at_once, memory_bytes, received_bytes, download_bytes, stored_bytes, .. } = self;
        let sandbox = self.sandbox;
        let program = Some(self.program.clone()).filter(|program| !program.as_os_str().is_empty());
        let profiles = Self::profiles(data);
        (at_once > 0).then_some(weft_browser::BrowserSettings {
            program,
            sandbox,
            at_once,
            memory_bytes,
            received_bytes,
            download_bytes,
            stored_bytes,
            profiles,
        })
    }
}
