//! The outer side: a process for every run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_core::{Error, ErrorKind, Result, TenantId};

use crate::worker::{LATE, REFUSED};

/// How much longer than its limit a worker is waited for. It ends itself before, unless the machine is
/// very busy.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that one byte of a text takes as JSON, at most.
const ESCAPED: usize = 6;

/// How a worker is started: the program and its arguments. It calls [`crate::work`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The path of the program.
    pub program: PathBuf,
    /// What it is started with.
    pub arguments: Vec<OsString>,
}

/// Runs JavaScript, each program in a process of its own that inherits nothing.
#[derive(Debug)]
pub struct ProcessSandbox {
    worker: Worker,
    limits: Limits,
    slots: Semaphore,
}

impl ProcessSandbox {
    /// At most `at_once` programs at the same time, each within `limits`.
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        Self { worker, limits, slots: Semaphore::new(at_once.min(Semaphore::MAX_PERMITS)) }
    }

    fn start(&self) -> Result<Child> {
        let mut command = Command::new(&self.worker.program);
        command.args(&self.worker.arguments).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.kill_on_drop(true).spawn().map_err(|cause| {
            let path = self.worker.program.display();
            Error::new(ErrorKind::Unavailable, format!("cannot start {path}, which runs programs"))
                .because(cause)
                .help("name another one as `sandbox.worker`")
        })
    }
}

#[async_trait]
impl Sandbox for ProcessSandbox {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn run(&self, _: &TenantId, mut program: Program) -> Result<Ran> {
        if program.language != Language::JavaScript {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        program.limits = program.limits.within(self.limits);
        let _slot = self.slots.acquire().await.map_err(|_| Error::internal("the sandbox is closed"))?;
        // Dropped with this future, which kills it.
        let mut child = self.start()?;
        let exchanged = tokio::time::timeout(program.limits.time + PATIENCE, exchange(&mut child, &program));
        match exchanged.await {
            Ok(exchanged) => {
                let (answer, status) = exchanged?;
                understood(&answer, status)
            }
            Err(_) => Ok(Ran::silent(Err(Failure::Time))),
        }
    }
}

/// Hands a program over; what comes back, and how the worker ended.
async fn exchange(child: &mut Child, program: &Program) -> Result<(Vec<u8>, ExitStatus)> {
    let broken = |cause: std::io::Error| {
        Error::new(ErrorKind::Unavailable, "lost the worker of a program").because(cause)
    };
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::internal("a worker has no pipes"));
    };
    let mut request = serde_json::to_vec(program)
        .map_err(|cause| Error::internal("cannot write a program down").because(cause))?;
    request.push(b'\n');
    // A worker that has ended says why with its exit code.
    let _ = input.write_all(&request).await;
    let mut answer = Vec::new();
    output.take(answer_max(program.limits)).read_to_end(&mut answer).await.map_err(broken)?;
    // The end of its input ends it, if it has not ended yet.
    drop(input);
    let status = child.wait().await.map_err(broken)?;
    Ok((answer, status))
}

/// Bytes of an answer, at most.
fn answer_max(limits: Limits) -> u64 {
    const REST: usize = 64 << 10;
    let bytes = limits.output_bytes.saturating_add(limits.printed_bytes).saturating_mul(ESCAPED);
    u64::try_from(bytes.saturating_add(REST)).unwrap_or(u64::MAX)
}

fn understood(answer: &[u8], status: ExitStatus) -> Result<Ran> {
    if status.success() {
        return serde_json::from_slice(answer).map_err(|cause| {
            Error::new(ErrorKind::Garbled, "cannot read what the worker of a program says").because(cause)
        });
    }
    match status.code() {
        Some(code) if code == i32::from(LATE) => Ok(Ran::silent(Err(Failure::Time))),
        Some(code) if code == i32::from(REFUSED) => {
            Err(Error::new(ErrorKind::Unavailable, "the worker of a program cannot be confined")
                .help("see whether the system lets processes lower their limits"))
        }
        Some(code) => {
            Err(Error::new(ErrorKind::Unavailable, format!("the worker of a program ended with code {code}"))
                .help("see whether `sandbox.worker` is a worker"))
        }
        // A signal: the interpreter broke, or the system stopped it.
        None => Ok(Ran::silent(Err(Failure::Broken))),
    }
}
