//! The process from which programs are forked.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use command_fds::{CommandFdExt as _, FdMapping};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, ChildStdout};
use weft_child::{Confinement, Worker, become_program, filter_for_programs};
use weft_core::{Error, ErrorKind, Result};

use super::SystemInterpreter;
use crate::worker::SandboxOrder;

/// The program that the interpreter runs: it serves programs from then on.
const SERVER: &str = concat!(
    include_str!("../../python/guest.py"),
    include_str!("../../python/files.py"),
    include_str!("../../python/threads.py"),
    include_str!("../../python/system.py")
);
/// Time limit for imports.
const STARTING: Duration = Duration::from_mins(2);
/// Time limit for testing bubblewrap.
const TRYING: Duration = Duration::from_secs(10);
/// Maximum number of bytes in its startup message.
const SAID_MAX: u64 = 8 << 10;
/// The descriptor of the socket on which it listens.
const LISTENER: i32 = 3;
/// Where bubblewrap is installed.
const BUBBLEWRAP: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];
/// Variables that limit libraries to a single thread: a program starts none.
const THREADS: [&str; 5] =
    ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS"];

/// Settings of libraries: plots go to files, and files are written only by Python, whose files are in memory.
const LIBRARIES: [(&str, &str); 3] =
    [("MPLBACKEND", "Agg"), ("MPLCONFIGDIR", "/tmp/matplotlib"), ("OPENPYXL_LXML", "False")];

/// Returns bubblewrap, if it is installed.
pub(super) fn bubblewrap() -> Option<PathBuf> {
    BUBBLEWRAP.into_iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Returns why processes have no separate namespaces, if so: bubblewrap is tested.
pub(super) async fn lacks_namespaces(bubblewrap: Option<&Path>) -> Option<&'static str> {
    let Some(bubblewrap) = bubblewrap else { return Some("bubblewrap (`bwrap`) is not installed") };
    let mut command = tokio::process::Command::new(bubblewrap);
    // It starts itself, which certainly exists.
    command.args(["--unshare-all", "--ro-bind", "/", "/", "--"]).arg(bubblewrap).arg("--version");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(TRYING, command.status()).await {
        Ok(Ok(status)) if status.success() => None,
        _ => Some("this system does not allow user namespaces"),
    }
}

/// The order for a worker to become such a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Serve {
    program: PathBuf,
    modules: Vec<String>,
    read: Vec<PathBuf>,
    confinement: Confinement,
    idle_seconds: u64,
}

impl Serve {
    /// Drops privileges that are not needed, and becomes the interpreter.
    pub(crate) fn begin(self) -> ExitCode {
        let filter = match filter_for_programs() {
            Ok(filter) => STANDARD.encode(filter),
            Err(_) => return ExitCode::from(weft_child::UNCONFINED),
        };
        let config =
            serde_json::json!({"modules": self.modules, "filter": filter, "idle_seconds": self.idle_seconds});
        let mut command = Command::new(&self.program);
        command.args(["-I", "-B", "-X", "utf8", "-c", SERVER, &config.to_string()]);
        command.env_clear().envs(THREADS.map(|name| (name, "1"))).envs(LIBRARIES).current_dir("/");
        become_program(&self.read, self.confinement, &mut command)
    }
}

/// The boundary of the process.
#[derive(Clone, Copy)]
pub(super) struct Boundary<'a> {
    pub confinement: Confinement,
    pub bubblewrap: Option<&'a Path>,
    /// Time without a program after which it exits.
    pub idle: Duration,
}

/// A parent process. Dropping this value ends it, and all of its programs.
#[derive(Debug)]
pub(super) struct Parent {
    folder: TempDir,
    _child: Child,
    /// When they are closed, the process knows that it is no longer needed.
    _pipes: (ChildStdin, BufReader<ChildStdout>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParentMessage {
    #[serde(rename = "ready")]
    Ready(IgnoredAny),
    Unable(String),
}

impl Parent {
    /// Starts a process, in separate namespaces if possible, and waits until it has imported everything.
    pub(super) async fn start(
        worker: &Worker,
        interpreter: &SystemInterpreter,
        read: &[PathBuf],
        Boundary { confinement, bubblewrap, idle }: Boundary<'_>,
    ) -> Result<Self> {
        let SystemInterpreter { program, modules } = interpreter;
        let order = |confinement| {
            let (program, modules) = (program.clone(), modules.clone());
            let idle_seconds = idle.as_secs().max(1);
            let serve = Serve { program, modules, read: read.to_vec(), confinement, idle_seconds };
            serde_json::to_vec(&SandboxOrder::Serve(serve))
                .map_err(|cause| Error::internal("cannot serialize an order").because(cause))
        };
        if let Some(bubblewrap) = bubblewrap {
            // The worker must be visible inside, to drop privileges there.
            let arguments = wrapped(read, worker);
            match Self::launch(bubblewrap, &arguments, order(confinement)?).await {
                // The system allows no namespaces: bubblewrap exits without a message.
                Err(reason) if reason.is_empty() => {}
                launched => return launched.map_err(|reason| unable(&reason)),
            }
        }
        let launched = Self::launch(&worker.program, &worker.arguments, order(confinement)?).await;
        launched.map_err(|reason| unable(&reason))
    }

    async fn launch(program: &Path, arguments: &[OsString], mut order: Vec<u8>) -> Result<Self, String> {
        let failed = |cause: std::io::Error| format!("{}: {cause}", program.display());
        let folder = tempfile::Builder::new().prefix("weft-python-").tempdir().map_err(failed)?;
        let listener = UnixListener::bind(folder.path().join("socket")).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mapping = FdMapping { parent_fd: OwnedFd::from(listener), child_fd: LISTENER };
        command.fd_mappings(vec![mapping]).map_err(|cause| failed(std::io::Error::other(cause)))?;
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        // Only the process holds the socket: when it is gone, nothing can connect.
        drop(command);
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker has no pipes".to_owned());
        };
        order.push(b'\n');
        // A worker that has exited reports the reason.
        drop(input.write_all(&order).await);
        let mut output = BufReader::new(output);
        let mut line = String::new();
        let reading = async { (&mut output).take(SAID_MAX).read_line(&mut line).await };
        match tokio::time::timeout(STARTING, reading).await {
            Err(_) => return Err("it took too long to import its modules".to_owned()),
            Ok(Err(cause)) => return Err(failed(cause)),
            Ok(Ok(_)) => {}
        }
        match serde_json::from_str(&line) {
            Ok(ParentMessage::Ready(_)) => Ok(Self { folder, _child: child, _pipes: (input, output) }),
            Ok(ParentMessage::Unable(reason)) => Err(reason),
            Err(_) => Err(line.trim().to_owned()),
        }
    }

    /// Opens a connection that takes one program.
    pub(super) async fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.folder.path().join("socket")).await
    }
}

fn unable(reason: &str) -> Error {
    let reason = if reason.is_empty() { "its process ended without a message" } else { reason };
    Error::new(ErrorKind::Unavailable, format!("the Python interpreter cannot be started: {reason}"))
        .help("check `sandbox.python`, `sandbox.python_modules` and `sandbox.confinement`")
}

/// Returns the arguments of bubblewrap: only what may be read is visible, and the worker, which is started.
fn wrapped(read: &[PathBuf], worker: &Worker) -> Vec<OsString> {
    // Started by its real path, because nothing else is visible: a link, or a path relative to another folder, would
    // lead nowhere.
    let program = fs::canonicalize(&worker.program).unwrap_or_else(|_| worker.program.clone());
    let mut arguments: Vec<OsString> =
        ["--unshare-all", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL", "--chdir", "/"]
            .map(OsString::from)
            .to_vec();
    for path in read.iter().chain([&program]) {
        // A folder may have been removed since it was listed.
        arguments.extend([OsString::from("--ro-bind-try"), path.into(), path.into()]);
    }
    arguments.push("--".into());
    arguments.push(program.into());
    arguments.extend(worker.arguments.iter().cloned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_behind_a_link_is_started_by_the_path_that_is_visible() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap().join("worker");
        fs::write(&real, "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let worker = Worker { program: link, arguments: vec!["sandbox".into()] };
        let arguments = wrapped(&[], &worker);
        let real = real.into_os_string();
        assert_eq!(
            arguments[arguments.len() - 6..],
            ["--ro-bind-try".into(), real.clone(), real.clone(), "--".into(), real, "sandbox".into(),]
        );
    }
}
