//! A server that is a child process: started in its own process group, and ended together with everything that it
//! started.

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinSet;
use weft_core::{Error, ErrorKind, Result};
use weft_net::NotSent;

use crate::config::ServerConfig;
use crate::faults::{Faults, Redactor};
use crate::lines::MessageLines;

/// Number of lines of its standard error that are kept.
// The last ones tell why it ended; those before are of no use.
const COMPLAINTS_MAX: usize = 5;
/// Maximum length of such a line, in bytes.
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;
/// Maximum number of characters of its standard error in a message.
const COMPLAINTS_SHOWN_MAX: usize = 400;
/// Time for it to exit by itself, and again after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

type Complaints = Arc<Mutex<VecDeque<String>>>;

/// A running process with its group and the tail of its standard error. Dropping it kills the group.
pub(crate) struct ChildGroup {
    child: Child,
    complaints: Complaints,
    redactor: Redactor,
    reading: JoinSet<()>,
}

/// Starts the process of a server.
///
/// # Errors
/// `Invalid` when the program cannot be started.
pub(crate) fn start(
    config: &ServerConfig,
    inherited: &BTreeMap<String, String>,
    faults: &Faults,
) -> Result<(MessageLines, ChildGroup)> {
    let program = config.command.as_deref().unwrap_or_default();
    let mut command = Command::new(program);
    // The environment of this process contains keys of models; a server only gets what is configured.
    command.args(&config.args).env_clear().envs(inherited).kill_on_drop(true);
    command.envs(config.env.iter().map(|(name, value)| (name, value.reveal())));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &config.cwd {
        command.current_dir(folder);
    }
    #[cfg(unix)]
    // Child processes of the program are ended together with it, by the process group.
    command.process_group(0);
    let mut child = command.spawn().map_err(|cause| {
        Error::invalid(format!("cannot start `{program}`"))
            .because(cause)
            .help("check `command` and `cwd` of the server, and that it is in PATH")
    })?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Error::internal(format!("`{program}` was started without pipes")));
    };
    let complaints = Complaints::default();
    let mut reading = JoinSet::new();
    reading.spawn(keep_complaints(stderr, Arc::clone(&complaints)));
    let redactor = Redactor::new(config.secrets());
    let lines = MessageLines::new(Box::new(stdout), Box::new(stdin), config.result_bytes_max, faults.clone());
    Ok((lines, ChildGroup { child, complaints, redactor, reading }))
}

/// Reads its standard error, so that it never blocks, and keeps the last lines.
async fn keep_complaints(stderr: ChildStderr, complaints: Complaints) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line may have no end: one that is too long is kept in parts.
        match (&mut reader).take(COMPLAINT_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // Lossy, because a part of a long line may end within a character.
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.is_empty() {
            continue;
        }
        let mut kept = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == COMPLAINTS_MAX {
            kept.pop_front();
        }
        kept.push_back(text);
    }
}

impl ChildGroup {
    /// Ends the process and its group: first by closing its input, then with a signal, then by force. Records how it
    /// ended.
    pub(crate) async fn end(mut self, lines: &mut MessageLines, faults: &Faults) {
        lines.finish().await;
        // The process is only reaped after its group was killed: until then no other process can get its id.
        let closed =
            async |lines: &mut MessageLines| tokio::time::timeout(GRACE, lines.drain()).await.is_ok();
        if !closed(lines).await {
            self.signal(ProcessSignal::Terminate);
            closed(lines).await;
        }
        // Its last output may still be on its way.
        let read = async { while self.reading.join_next().await.is_some() {} };
        drop(tokio::time::timeout(GRACE, read).await);
        self.signal(ProcessSignal::Kill);
        let status = match tokio::time::timeout(GRACE, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(_)) | Err(_) => "no exit status".to_owned(),
        };
        let said = self.complaints().map(|text| format!("; it said: {text}")).unwrap_or_default();
        faults.end(ErrorKind::Unavailable, format!("the process has ended ({status}){said}"));
    }

    /// Returns the end of its standard error, in one line and without secrets.
    fn complaints(&self) -> Option<String> {
        let kept = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = kept.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
        (!joined.is_empty()).then(|| self.redactor.clean(&joined, COMPLAINTS_SHOWN_MAX))
    }

    #[cfg(unix)]
    fn signal(&self, signal: ProcessSignal) {
        let signal = match signal {
            ProcessSignal::Terminate => rustix::process::Signal::TERM,
            ProcessSignal::Kill => rustix::process::Signal::KILL,
        };
        let id = self.child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(id) = id {
            // A process that has already exited needs no signal.
            let _ = rustix::process::kill_process_group(id, signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&mut self, signal: ProcessSignal) {
        if matches!(signal, ProcessSignal::Kill) {
            drop(self.child.start_kill());
        }
    }
}

#[derive(Clone, Copy)]
enum ProcessSignal {
    Terminate,
    Kill,
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        self.signal(ProcessSignal::Kill);
    }
}

/// The error for sending to a process that has ended.
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the process has ended")
        .because(NotSent("it has terminated".to_owned()))
}
