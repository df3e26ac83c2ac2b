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

use crate::protocol::Connection;
use crate::{BrowserSettings, memory};

/// The descriptors by which a browser is spoken with: it reads the first one and writes the second.
const DESCRIPTORS: [i32; 2] = [3, 4];
/// Bytes of a window's cache.
const CACHE_BYTES: u64 = 64 << 20;
/// MiB of the objects of one page's scripts.
const SCRIPT_MB: u64 = 1_024;
/// How long a profile is kept that nobody uses.
// As the files of conversations, when nobody says otherwise.
const PROFILE_KEPT: Duration = Duration::from_hours(90 * 24);
/// The file that says when a profile was used last, and whose lock says that it is in use.
const MARK: &str = "in-use";
/// How often its memory is looked at.
const WATCH: Duration = Duration::from_secs(1);
/// How often the folder of a window is removed whose browser is being ended: until then its processes write there.
const REMOVALS: usize = 20;
/// What lies between two of these.
const REMOVAL_PAUSE: Duration = Duration::from_millis(250);

/// The folders of a window.
pub(crate) struct WindowFolders {
    /// Whatever lasts as long as the window.
    own: TempDir,
    /// The profile when it is kept, with the mark that it is in use.
    kept: Option<(PathBuf, File)>,
    /// Whether the browser has ended, so that nobody writes there any more.
    pub(crate) is_ended: bool,
}

impl WindowFolders {
    /// With a profile that is kept when nobody else uses it; else the reason among the notes.
    pub(crate) fn new(profiles: &Path, profile: Option<&str>) -> Result<(Self, Vec<String>)> {
        let failed = |cause| Error::internal("cannot make the folders of a browser window").because(cause);
        let own = tempfile::Builder::new().prefix("weft-browser-").tempdir().map_err(failed)?;
        fs::create_dir(own.path().join("downloads")).map_err(failed)?;
        fs::create_dir(own.path().join("uploads")).map_err(failed)?;
        let Some(profile) = profile else {
            return Ok((Self { own, kept: None, is_ended: false }, Vec::new()));
        };
        remove_unused(profiles, SystemTime::now());
        let folder = profiles.join(profile);
        fs::create_dir_all(&folder).map_err(failed)?;
        // Also when it is there this notes the time.
        let mark = File::create(folder.join(MARK)).map_err(failed)?;
        match mark.try_lock() {
            // The lock goes with the file: also when this process is killed, the profile is free again.
            Ok(()) => {
                // What a browser that was killed has left there keeps others out.
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

    /// What pages store.
    fn profile(&self) -> PathBuf {
        self.kept.as_ref().map_or_else(|| self.own.path().join("profile"), |(folder, _)| folder.clone())
    }

    /// What is kept of cookies that a browser forgets when it ends.
    pub(crate) fn session_cookies(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(|(profile, _)| profile.with_file_name("session-cookies.json"))
    }

    /// Files that pages give.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.own.path().join("downloads")
    }

    /// Files that pages are given.
    pub(crate) fn uploads(&self) -> PathBuf {
        self.own.path().join("uploads")
    }
}

/// Removes profiles that nobody has used for long: each conversation has one, and nobody says when it is over.
fn remove_unused(profiles: &Path, now: SystemTime) {
    // What cannot be looked at now is looked at by the next window.
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
        // Nobody waits for it: the runtime may be about to end, and the window's owner has gone on.
        let removal = move || {
            for _ in 0..REMOVALS {
                thread::sleep(REMOVAL_PAUSE);
                drop(fs::remove_dir_all(&folder));
            }
        };
        drop(thread::Builder::new().spawn(removal));
    }
}

/// A browser that runs. It ends with this value.
pub(crate) struct Started {
    pub connection: Connection,
    watch: JoinSet<()>,
}

impl Started {
    /// Waits until the browser has ended.
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
    // Pipes and no port: whoever else is on this machine could talk to a port.
    let (to_browser, its_input) = pipe::pipe().map_err(failed)?;
    let (its_output, from_browser) = pipe::pipe().map_err(failed)?;
    let ends: [OwnedFd; 2] =
        [its_input.into_blocking_fd().map_err(failed)?, its_output.into_blocking_fd().map_err(failed)?];
    let mut command = Command::new(program);
    command.args(arguments(settings, place, proxy));
    // Of this process's environment, which may hold keys, a browser gets nothing.
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", place.own.path());
    // In any other locale it finds no file whose name has letters beyond ASCII.
    command.env("LC_ALL", "C.UTF-8");
    // Inherited, its many messages would come between those of this program.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mappings = ends.into_iter().zip(DESCRIPTORS);
    let mappings = mappings.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }).collect();
    command.fd_mappings(mappings).map_err(|cause| failed(std::io::Error::other(cause)))?;
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn().map_err(failed)?;
    // The browser's ends are the command's: it must not live on, or the end of the browser would not be seen.
    drop(command);
    let mut watch = JoinSet::new();
    // Besides the watch nobody has the process: it is killed when the window is dropped.
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
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-gpu",
        "--disable-quic",
        "--disable-sync",
        "--mute-audio",
        "--password-store=basic",
        "--lang=en-US",
        "--window-size=1280,900",
        "--renderer-process-limit=4",
        // Every way out is the proxy: also to this machine, and also for media connections. Nothing else finds a name.
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

/// Ends the browser when it uses more memory than it may.
async fn watched(mut child: Child, memory_bytes: u64) {
    let Some(id) = child.id() else { return };
    loop {
        tokio::select! {
            // Its end first: once that was taken note of, the id may be that of another process.
            biased;
            _ = child.wait() => return,
            () = tokio::time::sleep(WATCH) => {}
        }
        // Reading `/proc` blocks, and there is a folder for each process of the machine.
        let used = tokio::task::spawn_blocking(move || memory::used(id)).await.unwrap_or(0);
        if used > memory_bytes {
            // It may have ended by itself.
            drop(child.start_kill());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_that_nobody_uses_are_removed_in_time() {
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
    async fn the_folder_of_a_window_goes_although_its_browser_still_writes() {
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
