//! canvas JSON → plan → run → components → **web pages in a browser** → the internet
//!
//! A separate Chromium for every window, with its own profile and without a debugging port: it is controlled through
//! pipes. All connections of its pages go through weft-net's checking proxy.

mod memory;
mod process;
mod protocol;
mod settings;
mod stored;
mod window;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use weft_core::seam::browser::{Browser, BrowserWindow};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};
use weft_net::Outbound;

use crate::process::WindowFolders;
use crate::window::{Window, WindowResources};

pub use crate::settings::BrowserSettings;

/// Where systems install browsers that support this protocol.
const SYSTEM_PROGRAMS: [&str; 8] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome-stable",
    "/usr/bin/google-chrome",
    "/usr/local/bin/chromium",
    "/snap/bin/chromium",
    "/usr/lib/chromium/chromium",
    "/opt/google/chrome/chrome",
];
/// How long to wait for another window to close.
const TURN_LIMIT: Duration = Duration::from_secs(120);

/// Chromium, or a browser based on it.
#[derive(Debug)]
pub struct Chromium {
    settings: BrowserSettings,
    outbound: Arc<Outbound>,
    turns: Arc<Semaphore>,
}

impl Chromium {
    /// Creates one that starts a new browser for every window.
    pub fn new(settings: BrowserSettings, outbound: Arc<Outbound>) -> Self {
        let turns = Arc::new(Semaphore::new(settings.at_once.min(Semaphore::MAX_PERMITS)));
        Self { settings, outbound, turns }
    }

    fn program(&self) -> Result<PathBuf> {
        let chosen = match &self.settings.program {
            Some(program) => Some(program.clone()).filter(|program| program.is_file()),
            None => installed(),
        };
        chosen.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "no web browser is installed")
                .help("install Chromium, or set `browser.program` to its path")
        })
    }
}

/// Returns a browser that is installed on this system, if there is any.
pub fn installed() -> Option<PathBuf> {
    SYSTEM_PROGRAMS.iter().map(Path::new).find(|program| program.is_file()).map(Path::to_owned)
}

/// Removes what pages have stored for a tenant.
///
/// # Errors
/// `Internal` when it cannot be removed.
pub async fn remove_profiles(profiles: &Path, tenant: &TenantId) -> Result<()> {
    match tokio::fs::remove_dir_all(folder_of(profiles, tenant)).await {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::internal("cannot remove the stored data of pages").because(cause))
        }
        _ => Ok(()),
    }
}

/// Returns the folder of a tenant's profiles. A name of plain characters is used as it is; any other might lead
/// elsewhere, or equal that of another tenant to the file system.
fn folder_of(profiles: &Path, tenant: &TenantId) -> PathBuf {
    let name = tenant.as_str();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.chars().all(is_plain) {
        return profiles.join(name);
    }
    profiles.join(format!("_{}", weft_core::hex(name.as_bytes())))
}

#[async_trait]
impl Browser for Chromium {
    async fn open(&self, tenant: &TenantId, profile: Option<&str>) -> Result<Box<dyn BrowserWindow>> {
        // The slot is acquired first: a window that has to wait starts neither a proxy nor a process.
        let turn = tokio::time::timeout(TURN_LIMIT, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let count = self.settings.at_once;
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("already open: {}", weft_core::value::plural(count, "browser window")),
            )
            .help("try again later, or raise `browser.at_once`"));
        };
        let program = self.program()?;
        let profiles = folder_of(&self.settings.profiles, tenant);
        let (profile, bytes_max) = (profile.map(str::to_owned), self.settings.stored_bytes);
        let folders = move || WindowFolders::new(&profiles, profile.as_deref(), bytes_max);
        let (place, notes) = weft_core::blocking("the work on browser profiles", folders).await?;
        let proxy = self.outbound.proxy(self.settings.received_bytes).await?;
        // The proxy exists before the browser, so that there is never another way out.
        let started = process::start(&self.settings, &program, &place, proxy.address())?;
        let mut window = Window::new(
            started,
            tenant.clone(),
            Arc::clone(&self.outbound),
            WindowResources { place, _proxy: proxy, _turn: turn },
        );
        window.begin(self.settings.download_bytes, notes).await?;
        Ok(Box::new(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn profiles_are_stored_and_removed_with_their_tenant() {
        let root = tempfile::tempdir().unwrap();
        let profiles = root.path().join("browser");
        let names = ["shop", "Shop", "..", "../shop", "/etc", "", "a/b"].map(TenantId::new);
        for tenant in &names {
            let folder = folder_of(&profiles, tenant);
            assert_eq!(folder.parent(), Some(profiles.as_path()), "{tenant}");
            assert_eq!(names.iter().filter(|other| folder_of(&profiles, other) == folder).count(), 1);
            std::fs::create_dir_all(folder.join("profile")).unwrap();
        }
        for (removed, tenant) in names.iter().enumerate() {
            remove_profiles(&profiles, tenant).await.unwrap();
            remove_profiles(&profiles, tenant).await.unwrap();
            assert_eq!(std::fs::read_dir(&profiles).unwrap().count(), names.len() - removed - 1);
        }
    }
}
