//! The web browser that models drive.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A browser of this machine, started anew for each piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrowserConfig {
    /// How many windows are open at the same time; 0: none is.
    pub at_once: usize,
    /// Bytes of memory that all processes of one may use together.
    pub memory_bytes: u64,
    /// Bytes that the pages of one may receive.
    pub received_bytes: u64,
    /// Bytes of one downloaded file.
    pub download_bytes: u64,
    /// The program. Empty: a Chromium that the system has.
    pub program: PathBuf,
    /// Whether its processes confine themselves; root's cannot.
    pub sandbox: bool,
}

impl Default for BrowserConfig {
    fn default() -> Self {
        Self {
            at_once: 2,
            memory_bytes: 3 << 30,
            received_bytes: 512 << 20,
            download_bytes: 50 << 20,
            program: PathBuf::new(),
            sandbox: true,
        }
    }
}

impl BrowserConfig {
    /// The folder in the data folder for what pages have stored.
    pub(crate) fn profiles(data: &Path) -> PathBuf {
        data.join("browser")
    }

    /// How browsers are used, with profiles in the data folder; absent when none is.
    pub fn settings(&self, data: &Path) -> Option<weft_browser::BrowserSettings> {
        let &Self { at_once, memory_bytes, received_bytes, download_bytes, ref program, sandbox } = self;
        let program = Some(program.clone()).filter(|program| !program.as_os_str().is_empty());
        let profiles = Self::profiles(data);
        (at_once > 0).then_some(weft_browser::BrowserSettings {
            program,
            sandbox,
            at_once,
            memory_bytes,
            received_bytes,
            download_bytes,
            profiles,
        })
    }
}
