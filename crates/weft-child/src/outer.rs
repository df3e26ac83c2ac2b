//! The outer side: a separate process for every piece of work.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use weft_core::{Error, ErrorKind, Result};

use crate::inner::{LATE, REFUSED, UNCONFINED};

/// How much longer than its limit a worker is waited for. It exits by itself earlier, unless the machine is very busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The exit code of failed programs.
const FAILED: i32 = 1;

/// Exit codes of workers that have not become a program yet.
const OF_WORKERS: [u8; 3] = [LATE, REFUSED, UNCONFINED];

/// Maximum number of characters in the reason why a worker cannot be confined.
const REASON_MAX: usize = 300;

/// How a worker is started: the program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The purpose of a worker, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Duty {
    /// What it works on: `a program`.
    pub thing: &'static str,
    /// What it does: `runs programs`.
    pub does: &'static str,
    /// The section of the settings that configures it: `sandbox`.
    pub section: &'static str,
}

/// How a worker ended.
#[derive(Debug)]
pub enum WorkerEnd {
    /// It did its work and wrote this.
    Answered(Vec<u8>),
    /// It exceeded its time limit.
    Late,
    /// The system killed it because its processor time was used up.
    OutOfTime,
    /// It ended by a signal: it crashed, ran out of memory, or the system killed it.
    Broken,
}

/// How a program ended that a worker has become.
#[derive(Debug)]
pub enum ProgramEnd {
    /// As workers end.
    Ended(WorkerEnd),
    /// With this exit code, which is the program's own.
    Failed(i32),
}

/// Limits of one piece of work.
#[derive(Clone, Copy, Debug)]
pub struct AskLimits {
    /// Time from the request to the end of the answer.
    pub time: Duration,
    /// Maximum number of bytes that are read of the answer.
    pub answer_max: u64,
}

impl Worker {
    /// Starts the worker, sends it its work, and waits for up to its time limit and a little more. Dropping the future
    /// kills the worker.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be started or confined, is not a worker, or is lost.
    pub async fn ask(&self, duty: &Duty, asked: &[&[u8]], limits: AskLimits) -> Result<WorkerEnd> {
        match self.exchange(duty, asked, limits).await? {
            Some((answer, status)) => duty.ended(answer, status),
            None => Ok(WorkerEnd::Late),
        }
    }

    /// Like [`Worker::ask`] for a worker that becomes another program: `None` when that program reports failure by its
    /// exit code.
    ///
    /// # Errors
    /// As [`Worker::ask`].
    pub async fn ask_program(
        &self,
        duty: &Duty,
        asked: &[&[u8]],
        limits: AskLimits,
    ) -> Result<Option<WorkerEnd>> {
        match self.exchange(duty, asked, limits).await? {
            Some((_, status)) if status.code() == Some(FAILED) => Ok(None),
            Some((answer, status)) => duty.ended(answer, status).map(Some),
            None => Ok(Some(WorkerEnd::Late)),
        }
    }

    /// Like [`Worker::ask`] for a program of the operator's, which may exit with any code.
    ///
    /// # Errors
    /// As [`Worker::ask`].
    pub async fn ask_foreign(&self, duty: &Duty, asked: &[&[u8]], limits: AskLimits) -> Result<ProgramEnd> {
        match self.exchange(duty, asked, limits).await? {
            Some((answer, status)) => match status.code() {
                Some(code) if code != 0 && !OF_WORKERS.iter().any(|own| i32::from(*own) == code) => {
                    Ok(ProgramEnd::Failed(code))
                }
                _ => duty.ended(answer, status).map(ProgramEnd::Ended),
            },
            None => Ok(ProgramEnd::Ended(WorkerEnd::Late)),
        }
    }

    /// Returns its output and how it ended; `None` on a timeout.
    async fn exchange(
        &self,
        duty: &Duty,
        asked: &[&[u8]],
        limits: AskLimits,
    ) -> Result<Option<(Vec<u8>, ExitStatus)>> {
        let AskLimits { time, answer_max } = limits;
        // Dropped with this future, which kills it.
        let mut child = self.start(duty)?;
        let exchanged = exchange(&mut child, duty, asked, answer_max);
        tokio::time::timeout(time + PATIENCE, exchanged).await.ok().transpose()
    }

    fn start(&self, duty: &Duty) -> Result<Child> {
        let mut command = Command::new(&self.program);
        // The environment may contain keys.
        command.args(&self.arguments).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.kill_on_drop(true).spawn().map_err(|cause| {
            let path = self.program.display();
            Error::new(ErrorKind::Unavailable, format!("cannot start {path}, which {}", duty.does))
                .because(cause)
                .help(format!("set `{}.worker` to another one", duty.section))
        })
    }
}

/// Sends the work; returns the answer, and how the worker ended.
async fn exchange(
    child: &mut Child,
    duty: &Duty,
    asked: &[&[u8]],
    answer_max: u64,
) -> Result<(Vec<u8>, ExitStatus)> {
    let broken = |cause| duty.lost(cause);
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::internal("a worker has no pipes"));
    };
    // All of it before anything is read: a worker answers only once it has its whole request.
    for part in asked {
        // A worker that has exited reports the reason by its exit code.
        if input.write_all(part).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    output.take(answer_max).read_to_end(&mut answer).await.map_err(broken)?;
    // The end of its input makes it exit, if it has not done so yet.
    drop(input);
    let status = child.wait().await.map_err(broken)?;
    Ok((answer, status))
}

impl Duty {
    /// Returns the error for a worker that no longer answers.
    pub(crate) fn lost(&self, cause: std::io::Error) -> Error {
        Error::new(ErrorKind::Unavailable, format!("lost the worker of {}", self.thing)).because(cause)
    }

    pub(crate) fn ended(&self, answer: Vec<u8>, status: ExitStatus) -> Result<WorkerEnd> {
        let Self { thing, section, .. } = self;
        match status.code() {
            Some(0) => Ok(WorkerEnd::Answered(answer)),
            Some(code) if code == i32::from(LATE) => Ok(WorkerEnd::Late),
            Some(code) if code == i32::from(UNCONFINED) => {
                let reason: String = String::from_utf8_lossy(&answer).chars().take(REASON_MAX).collect();
                let message =
                    format!("{thing} was not processed, because its worker cannot be confined: {reason}");
                Err(Error::new(ErrorKind::Unavailable, message).help(format!(
                    "use Linux 5.13 or newer with Landlock and seccomp; or set `{section}.confinement = \"best_effort\"`, \
                     which lets a defect of an interpreter or a reader access everything that this process can access"
                )))
            }
            Some(code) if code == i32::from(REFUSED) => {
                let message = format!("the worker of {thing} does not understand the request");
                Err(Error::new(ErrorKind::Unavailable, message)
                    .help(format!("check that `{section}.worker` has the same version as this program")))
            }
            Some(code) => {
                let message = format!("the worker of {thing} exited with code {code}");
                Err(Error::new(ErrorKind::Unavailable, message)
                    .help(format!("check that `{section}.worker` is a worker")))
            }
            None if is_out_of_time(status) => Ok(WorkerEnd::OutOfTime),
            None => Ok(WorkerEnd::Broken),
        }
    }
}

/// Whether the system killed it because its processor time was used up.
#[cfg(unix)]
fn is_out_of_time(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    // SIGXCPU.
    const OUT_OF_TIME: i32 = 24;
    status.signal() == Some(OUT_OF_TIME)
}

/// Other systems only limit the elapsed time.
#[cfg(not(unix))]
fn is_out_of_time(_: ExitStatus) -> bool {
    false
}
