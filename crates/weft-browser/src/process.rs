//! Starts a browser.

use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use command_fds::{CommandFdExt as _, FdMapping};
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::task::JoinSet;
use weft_core::{Error, ErrorKind, Result};

use crate::memory;
use crate::protocol::Connection;
use crate::settings::BrowserSettings;
use crate::stored::{self, MARK, PAGES, SIZE};

/// The descriptors for communicating with a browser: it reads the first one and writes the second.
const DESCRIPTORS: [i32; 2] = [3, 4];
/// Maximum number of bytes in a window's cache.
const CACHE_BYTES: u64 = 64 << 20;
/// Memory limit in MiB for the objects of one page's scripts.
const SCRIPT_MB: u64 = 1_024;
/// How often the use of memory and of the disk is checked.
const WATCH: Duration = Duration::from_secs(1);
/// How many times as long as a check of the disk took the pause before the next one is at least.
const LOOK_TIMES: u32 = 10;
/// The size of a larger profile is not noted: nobody waits here until all of it was looked at.
const NOTED_MAX: u64 = 256 << 20;
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
    /// the reason. All profiles together may take `bytes_max` bytes; 0 means unlimited.
    pub(crate) fn new(profiles: &Path, profile: Option<&str>, bytes_max: u64) -> Result<(Self, Vec<String>)> {
        let failed = |cause| Error::internal("cannot create the folders of a browser window").because(cause);
        let own = tempfile::Builder::new().prefix("weft-browser-").tempdir().map_err(failed)?;
        fs::create_dir(own.path().join("downloads")).map_err(failed)?;
        fs::create_dir(own.path().join("uploads")).map_err(failed)?;
        let Some(profile) = profile else {
            return Ok((Self { own, kept: None, is_ended: false }, Vec::new()));
        };
        let folder = profiles.join(profile);
        stored::make_room(profiles, &folder, SystemTime::now(), bytes_max);
        fs::create_dir_all(&folder).map_err(failed)?;
        // This updates the time even if the file exists.
        let mark = File::create(folder.join(MARK)).map_err(failed)?;
        match mark.try_lock() {
            // The lock is released with the file: even if this process is killed, the profile becomes available again.
            Ok(()) => {
                // What a killed browser has left there would keep others out.
                for left in ["SingletonLock", "SingletonSocket", "SingletonCookie"] {
                    drop(fs::remove_file(folder.join(PAGES).join(left)));
                }
                // It changes from now on.
                drop(fs::remove_file(folder.join(SIZE)));
                let kept = Some((folder.join(PAGES), mark));
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
        self.kept.as_ref().map_or_else(|| self.own.path().join(PAGES), |(folder, _)| folder.clone())
    }

    /// Returns the file for cookies that a browser forgets when it exits.
    pub(crate) fn session_cookies(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(|(profile, _)| profile.with_file_name("session-cookies.json"))
    }

    /// Returns all folders in which the browser writes.
    fn written(&self) -> Vec<PathBuf> {
        let kept = self.kept.iter().map(|(profile, _)| profile.clone());
        kept.chain([self.own.path().to_owned()]).collect()
    }

    /// Notes the size of the persistent profile, which its browser no longer changes.
    fn note_size(&self) {
        if let Some((profile, _)) = &self.kept {
            let bytes = stored::size_of(profile, NOTED_MAX);
            // Without the note, the next window measures it again.
            if bytes <= NOTED_MAX {
                drop(fs::write(profile.with_file_name(SIZE), bytes.to_string()));
            }
        }
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

impl Drop for WindowFolders {
    fn drop(&mut self) {
        if self.is_ended {
            self.note_size();
        }
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
    let limits = WatchLimits {
        memory_bytes: settings.memory_bytes,
        stored_bytes: settings.stored_bytes,
        written: place.written(),
    };
    watch.spawn(watched(child, limits));
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

/// What a browser may use.
struct WatchLimits {
    memory_bytes: u64,
    /// Bytes in the folders in which it writes; 0 means unlimited.
    stored_bytes: u64,
    written: Vec<PathBuf>,
}

impl WatchLimits {
    fn too_much_is_stored(&self) -> bool {
        if self.stored_bytes == 0 {
            return false;
        }
        let sizes = self.written.iter().map(|folder| stored::size_of(folder, self.stored_bytes));
        sizes.fold(0, u64::saturating_add) > self.stored_bytes
    }
}

/// Kills the browser when it exceeds a limit.
async fn watched(mut child: Child, limits: WatchLimits) {
    let Some(id) = child.id() else { return };
    let limits = Arc::new(limits);
    let mut next_look = Instant::now();
    loop {
        tokio::select! {
            // Its exit first: once that was reaped, the id may belong to another process.
            biased;
            _ = child.wait() => return,
            () = tokio::time::sleep(WATCH) => {}
        }
        // Reading `/proc` blocks, and there is a folder for each process of the machine.
        let watched = Arc::clone(&limits);
        let used = tokio::task::spawn_blocking(move || memory::used(id) > watched.memory_bytes).await;
        let mut exceeded = used.unwrap_or(false);
        let began = Instant::now();
        if !exceeded && began >= next_look {
            let watched = Arc::clone(&limits);
            let stored = tokio::task::spawn_blocking(move || watched.too_much_is_stored()).await;
            exceeded = stored.unwrap_or(false);
            let ended = Instant::now();
            next_look = ended + (ended - began).saturating_mul(LOOK_TIMES);
        }
        if exceeded {
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
        drop((used("old", stored::PROFILE_KEPT + hour), used("newer", stored::PROFILE_KEPT / 2)));
        let open = used("open", stored::PROFILE_KEPT + hour);
        open.lock().unwrap();
        let (place, notes) = WindowFolders::new(root.path(), Some("old again"), 0).unwrap();
        let there = |name: &str| root.path().join(name).exists();
        assert!(!there("old") && there("newer") && there("open") && there("old again"));
        drop((place, notes, open));
    }

    #[test]
    fn the_size_of_a_profile_is_noted_when_its_browser_has_exited() {
        let root = tempfile::tempdir().unwrap();
        let noted = || fs::read_to_string(root.path().join("p").join(SIZE)).ok();
        let open = || WindowFolders::new(root.path(), Some("p"), 0).unwrap().0;
        let mut place = open();
        fs::create_dir_all(place.profile()).unwrap();
        fs::write(place.profile().join("data"), vec![0_u8; 10_000]).unwrap();
        place.is_ended = true;
        drop(place);
        assert_eq!(noted().as_deref(), Some("10000"));
        let place = open();
        assert_eq!(noted(), None, "it may change now");
        drop(place);
        assert_eq!(noted(), None, "it was killed, and its last processes may still write");
    }

    #[test]
    fn a_window_may_store_only_so_much() {
        let root = tempfile::tempdir().unwrap();
        let (place, _) = WindowFolders::new(root.path(), Some("p"), 0).unwrap();
        fs::create_dir_all(place.profile()).unwrap();
        fs::write(place.profile().join("data"), vec![0_u8; 100_000]).unwrap();
        fs::write(place.downloads().join("file"), vec![0_u8; 100_000]).unwrap();
        let exceeds = |stored_bytes: u64| {
            WatchLimits { memory_bytes: u64::MAX, stored_bytes, written: place.written() }
                .too_much_is_stored()
        };
        assert!(exceeds(100_000) && exceeds(200_000));
        assert!(!exceeds(300_000) && !exceeds(0));
    }

    #[tokio::test]
    async fn a_window_folder_is_removed_while_its_browser_still_writes() {
        let (place, _) = WindowFolders::new(Path::new("none"), None, 0).unwrap();
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
