//! A server that is a process of ours: started in a group of its own, and ended with everything that it
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

/// Lines of its complaints that are kept.
// The last ones say why it ended; what it printed before is of no use to anybody.
const COMPLAINTS_MAX: usize = 5;
/// Bytes of one such line.
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;
/// Characters of its complaints in a message.
const COMPLAINTS_SHOWN_MAX: usize = 400;
/// How long it may take to end by itself, and then once more after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

type Complaints = Arc<Mutex<VecDeque<String>>>;

/// A running process, its group and its complaints. Dropping it kills the group.
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
    // Our own environment holds the keys of models; a server gets what it is configured to have.
    command.args(&config.args).env_clear().envs(inherited).kill_on_drop(true);
    command.envs(config.env.iter().map(|(name, value)| (name, value.reveal())));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &config.cwd {
        command.current_dir(folder);
    }
    #[cfg(unix)]
    // What the program starts in its turn is ended with it, by the number of the group.
    command.process_group(0);
    let mut child = command.spawn().map_err(|cause| {
        Error::invalid(format!("cannot start `{program}`"))
            .because(cause)
            .help("check `command` and `cwd` of the server, and that PATH leads to it")
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

/// Reads what it complains about, so that it never waits for us, and keeps the end.
async fn keep_complaints(stderr: ChildStderr, complaints: Complaints) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line need not have an end: one that is too long is kept in parts.
        match (&mut reader).take(COMPLAINT_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // Lossy, since a part of a long line may end within a character.
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
    /// Ends the process and all of its group: first by closing its input, then by asking, then by force.
    /// Says how it ended.
    pub(crate) async fn end(mut self, lines: &mut MessageLines, faults: &Faults) {
        lines.finish().await;
        // The process is not waited for before its group is dead: as long as it has not been waited
        // for, nobody else can have its number.
        let closed =
            async |lines: &mut MessageLines| tokio::time::timeout(GRACE, lines.drain()).await.is_ok();
        if !closed(lines).await {
            self.signal(ProcessSignal::Terminate);
            closed(lines).await;
        }
        // What it said last is still on its way.
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

    /// What it complained about last, in one line and without secrets.
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
            // Who is gone already needs no signal.
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

/// Why nothing can be sent to a process that has ended.
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the process has ended").because(NotSent("it is gone".to_owned()))
}
