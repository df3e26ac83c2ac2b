//! How a browser is used.

use std::path::PathBuf;

/// An installed browser, and how it is used.
#[derive(Clone, Debug)]
pub struct BrowserSettings {
    /// The program; if `None`, one that is installed on the system.
    pub program: Option<PathBuf>,
    /// Whether its processes confine themselves. They cannot when they run as root.
    pub sandbox: bool,
    /// Maximum number of concurrent windows.
    pub at_once: usize,
    /// Maximum number of bytes of memory for all processes of one window together.
    pub memory_bytes: u64,
    /// Maximum number of bytes that one window may receive.
    pub received_bytes: u64,
    /// Maximum number of bytes in a downloaded file.
    pub download_bytes: u64,
    /// Maximum number of bytes that pages may have stored in all profiles of a tenant, and in the folders of one
    /// window; 0 means unlimited.
    pub stored_bytes: u64,
    /// The folder for persistent profiles.
    pub profiles: PathBuf,
}
