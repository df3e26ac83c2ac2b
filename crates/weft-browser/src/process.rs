//! Starts a browser.

use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use command_fds::{CommandFdExt as _, FdMapping};
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::task::JoinSet;
use weft_core::{Error, ErrorKind, Result};

use crate::memory;
use crate::protocol::Connection;
use crate::settings::BrowserSettings;

/// The descriptors for communicating with a browser: it reads the first one and writes the second.
const DESCRIPTORS: [i32; 2] = [3, 4];
/// Maximum number of bytes in a window's cache.
const CACHE_BYTES: u64 = 64 << 20;
/// Memory limit in MiB for the objects of one page's scripts.
const SCRIPT_MB: u64 = 1_024;
/// How long an unused profile is kept.
// The same as the default for files of conversations.
const PROFILE_KEPT: Duration = Duration::from_hours(90 * 24);
/// The file whose time is the last use of a profile, and whose lock marks the profile as in use.
const MARK: &str = "in-use";
/// How often memory use is checked.
const WATCH: Duration = Duration::from_secs(1);
/// Number of attempts to remove the folder of a window whose browser is being killed: until then its processes write
/// there.
const REMOVALS: usize = 20;
/// Pause between two attempts.
const REMOVAL_PAUSE: Duration = Duration::from_millis(250);

/// The folders of a window.
pub(crate) struct WindowFolders {
    /// Whatever lasts as long as the window.
    own: TempDir,
    /// The persistent profile, if any, with the file that marks it as in use.
    kept: Option<(PathBuf, File)>,
    /// Whether the browser has exited, so that nothing is written there any more.
    pub(crate) is_ended: bool,
}

impl WindowFolders {
    /// Creates the folders. A persistent profile is used unless another window uses it; in that case, the notes contain
    /// the reason.
    pub(crate) fn new(profiles: &Path, profile: Option<&str>) -> Result<(Self, Vec<String>)> {
        let failed = |cause| Error::internal("cannot create the folders of a browser window").because(cause);
        let own = tempfile::Builder::new().prefix("weft-browser-").tempdir().map_err(failed)?;
        fs::create_dir(own.path().join("downloads")).map_err(failed)?;
        fs::create_dir(own.path().join("uploads")).map_err(failed)?;
        let Some(profile) = profile else {
            return Ok((Self { own, kept: None, is_ended: false }, Vec::new()));
        };
        remove_unused(profiles, SystemTime::now());
        let folder = profiles.join(profile);
        fs::create_dir_all(&folder).map_err(failed)?;
        // This updates the time even if the file exists.
        let mark = File::create(folder.join(MARK)).map_err(failed)?;
        match mark.try_lock() {
            // The lock is released with the file: even if this process is killed, the profile becomes available again.
            Ok(()) => {
                // What a killed browser has left there would keep others out.
                for left in ["SingletonLock", "SingletonSocket", "SingletonCookie"] {
                    drop(fs::remove_file(folder.join("profile").join(left)));
                }
                let kept = Some((folder.join("profile"), mark));
                Ok((Self { own, kept, is_ended: false }, Vec::new()))
            }
            Err(TryLockError::WouldBlock) => {
                let note = "another window uses this profile: this one begins without what pages have stored";
                Ok((Self { own, kept: None, is_ended: false }, vec![note.to_owned()]))
            }
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }

    /// Returns the folder of what pages store.
    fn profile(&self) -> PathBuf {
        self.kept.as_ref().map_or_else(|| self.own.path().join("profile"), |(folder, _)| folder.clone())
    }

    /// Returns the file for cookies that a browser forgets when it exits.
    pub(crate) fn session_cookies(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(|(profile, _)| profile.with_file_name("session-cookies.json"))
    }

    /// Returns the folder of downloads.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.own.path().join("downloads")
    }

    /// Returns the folder of uploads.
    pub(crate) fn uploads(&self) -> PathBuf {
        self.own.path().join("uploads")
    }
}

/// Removes profiles that have not been used for long: each conversation has one, and its end is never announced.
fn remove_unused(profiles: &Path, now: SystemTime) {
    // What cannot be checked now is checked by the next window.
    for folder in fs::read_dir(profiles).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(mark) = File::open(folder.join(MARK)) else { continue };
        let used = mark.metadata().and_then(|about| about.modified());
        let age = used.ok().and_then(|used| now.duration_since(used).ok());
        if age.is_some_and(|age| age > PROFILE_KEPT) && mark.try_lock().is_ok() {
            drop(fs::remove_dir_all(&folder));
        }
    }
}

impl Drop for WindowFolders {
    fn drop(&mut self) {
        let folder = self.own.path().to_owned();
        if fs::remove_dir_all(&folder).is_ok() && self.is_ended {
            return;
        }
        // Not waited for: the runtime may be about to end, and the window's owner has continued.
        let removal = move || {
            for _ in 0..REMOVALS {
                thread::sleep(REMOVAL_PAUSE);
                drop(fs::remove_dir_all(&folder));
            }
        };
        drop(thread::Builder::new().spawn(removal));
    }
}

/// A running browser. Dropping this value kills it.
pub(crate) struct Started {
    pub connection: Connection,
    watch: JoinSet<()>,
}

impl Started {
    /// Waits until the browser has exited.
    pub(crate) async fn ended(&mut self) {
        while self.watch.join_next().await.is_some() {}
    }
}

pub(crate) fn start(
    settings: &BrowserSettings,
    program: &Path,
    place: &WindowFolders,
    proxy: SocketAddr,
) -> Result<Started> {
    let failed = |cause| {
        Error::new(ErrorKind::Unavailable, "the web browser cannot be started")
            .because(cause)
            .help("see `browser.program`")
    };
    // Pipes rather than a port: any other program on this machine could connect to a port.
    let (to_browser, its_input) = pipe::pipe().map_err(failed)?;
    let (its_output, from_browser) = pipe::pipe().map_err(failed)?;
    // A browser expects ordinary descriptors, whose reads wait.
    let ends: [OwnedFd; 2] =
        [its_input.into_blocking_fd().map_err(failed)?, its_output.into_blocking_fd().map_err(failed)?];
    let mut command = Command::new(program);
    command.args(arguments(settings, place, proxy));
    // The browser gets nothing of this process's environment, which may contain keys.
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", place.own.path());
    // In any other locale, it cannot find files whose names contain non-ASCII letters.
    command.env("LC_ALL", "C.UTF-8");
    // If inherited, its many messages would be mixed with those of this program.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mappings = ends.into_iter().zip(DESCRIPTORS);
    let mappings = mappings.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }).collect();
    command.fd_mappings(mappings).map_err(|cause| failed(std::io::Error::other(cause)))?;
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn().map_err(failed)?;
    // The command holds the browser's ends of the pipes: unless it is dropped, the exit of the browser would not be
    // seen.
    drop(command);
    let mut watch = JoinSet::new();
    // Only the watch holds the process, which is killed when the window is dropped.
    watch.spawn(watched(child, settings.memory_bytes));
    Ok(Started { connection: Connection::new(to_browser, from_browser), watch })
}

fn arguments(settings: &BrowserSettings, place: &WindowFolders, proxy: SocketAddr) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--headless=new",
        "--remote-debugging-pipe",
        "--no-startup-window",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
        // In containers, shared memory is often limited to 64 MiB.
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-gpu",
        // QUIC uses UDP, which does not pass through the proxy.
        "--disable-quic",
        "--disable-sync",
        "--mute-audio",
        // Otherwise it would look for the keyring of a desktop.
        "--password-store=basic",
        "--lang=en-US",
        "--window-size=1280,900",
        // Each renderer takes memory, which is limited for all of them together.
        "--renderer-process-limit=4",
        // The proxy is the only way out: also to this machine, and for media connections. Nothing else can resolve
        // names.
        "--proxy-bypass-list=<-loopback>",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--disable-features=DnsOverHttps,MediaRouter,OptimizationHints,Translate",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--proxy-server=http://{proxy}"));
    arguments.push(format!("--user-data-dir={}", place.profile().display()));
    arguments.push(format!("--disk-cache-size={CACHE_BYTES}"));
    arguments.push(format!("--js-flags=--max-old-space-size={SCRIPT_MB}"));
    if !settings.sandbox {
        arguments.push("--no-sandbox".to_owned());
    }
    arguments
}

/// Kills the browser when it exceeds its memory limit.
async fn watched(mut child: Child, memory_bytes: u64) {
    let Some(id) = child.id() else { return };
    loop {
        tokio::select! {
            // Its exit first: once that was reaped, the id may belong to another process.
            biased;
            _ = child.wait() => return,
            () = tokio::time::sleep(WATCH) => {}
        }
        // Reading `/proc` blocks, and there is a folder for each process of the machine.
        let used = tokio::task::spawn_blocking(move || memory::used(id)).await.unwrap_or(0);
        if used > memory_bytes {
            // It may have exited by itself.
            drop(child.start_kill());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_profiles_are_removed_after_a_while() {
        let root = tempfile::tempdir().unwrap();
        let used = |name: &str, ago: Duration| {
            let folder = root.path().join(name);
            fs::create_dir_all(folder.join("profile")).unwrap();
            let mark = File::create(folder.join(MARK)).unwrap();
            mark.set_modified(SystemTime::now() - ago).unwrap();
            mark
        };
        let hour = Duration::from_hours(1);
        drop((used("old", PROFILE_KEPT + hour), used("newer", PROFILE_KEPT / 2)));
        let open = used("open", PROFILE_KEPT + hour);
        open.lock().unwrap();
        let (place, notes) = WindowFolders::new(root.path(), Some("old again")).unwrap();
        let there = |name: &str| root.path().join(name).exists();
        assert!(!there("old") && there("newer") && there("open") && there("old again"));
        drop((place, notes, open));
    }

    #[tokio::test]
    async fn a_window_folder_is_removed_while_its_browser_still_writes() {
        let (place, _) = WindowFolders::new(Path::new("none"), None).unwrap();
        let folder = place.own.path().to_owned();
        assert!(folder.join("downloads").is_dir());
        drop(place);
        fs::create_dir_all(folder.join("profile")).unwrap();
        fs::write(folder.join("profile/Preferences"), "{}").unwrap();
        let gone = async {
            while folder.exists() {
                tokio::time::sleep(REMOVAL_PAUSE).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    }
}
