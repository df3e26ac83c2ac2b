//! Readers of documents: in a process of their own, or in this one.
//!
//! Files come from anywhere, and libraries that read them have defects. [`ChildReader`] gives every file a
//! process that has nothing but its limits and is ended when they are reached, so a file can spoil
//! nothing but its own reading.

mod confine;
mod worker;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use weft_core::seam::DocumentReader;
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};
use weft_core::{Error, ErrorKind, Result};

pub use worker::work;
use worker::{Answer, LATE, Order, REFUSED};

/// How much longer than its limit a worker is waited for. It ends itself before, unless the machine is
/// very busy.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that a worker answers, at most.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// What reading one file may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// Bytes of memory.
    pub memory_bytes: usize,
    /// Bytes that the file may have.
    pub file_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), memory_bytes: 1 << 30, file_bytes: 128 << 20 }
    }
}

impl Limits {
    fn check(&self, request: &ReadRequest, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= self.file_bytes {
            return Ok(());
        }
        let (size, most) = (bytes.len() >> 20, self.file_bytes >> 20);
        Err(Error::invalid(format!(
            "cannot read `{}`: it has {size} MiB, {most} MiB are the most",
            request.name
        ))
        .help("divide the file, or raise `documents.file_bytes_max`"))
    }
}

/// How a worker is started: the program and its arguments. It calls [`work`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The path of the program.
    pub program: PathBuf,
    /// What it is started with.
    pub arguments: Vec<OsString>,
}

/// Reads each file in a process of its own that inherits nothing.
#[derive(Debug)]
pub struct ChildReader {
    worker: Worker,
    limits: Limits,
    slots: Semaphore,
}

impl ChildReader {
    /// At most `at_once` files at the same time, each within `limits`.
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        Self { worker, limits, slots: Semaphore::new(at_once.min(Semaphore::MAX_PERMITS)) }
    }

    fn start(&self) -> Result<Child> {
        let mut command = Command::new(&self.worker.program);
        command.args(&self.worker.arguments).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.kill_on_drop(true).spawn().map_err(|cause| {
            let path = self.worker.program.display();
            Error::new(ErrorKind::Unavailable, format!("cannot start {path}, which reads documents"))
                .because(cause)
                .help("name another one as `documents.worker`")
        })
    }

    fn understood(&self, name: &str, answer: &[u8], status: ExitStatus) -> Result<ReadDocument> {
        if status.success() {
            let answer: Answer = serde_json::from_slice(answer).map_err(|cause| {
                Error::new(ErrorKind::Garbled, "cannot read what the worker of a document says")
                    .because(cause)
            })?;
            return answer.into();
        }
        match status.code() {
            Some(code) if code == i32::from(LATE) => Err(self.late(name)),
            Some(code) if code == i32::from(REFUSED) => {
                Err(Error::new(ErrorKind::Unavailable, "the worker of a document cannot be confined")
                    .help("see whether the system lets processes lower their limits"))
            }
            Some(code) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("the worker of a document ended with code {code}"),
            )
            .help("see whether `documents.worker` is a worker")),
            None if is_out_of_time(status) => Err(self.late(name)),
            // Without memory a program ends itself by a signal.
            None => {
                let most = self.limits.memory_bytes >> 20;
                Err(Error::invalid(format!("cannot read `{name}`: it takes more than {most} MiB of memory, or is made to break its reader"))
                    .help("divide the file, or raise `documents.memory_bytes`"))
            }
        }
    }

    fn late(&self, name: &str) -> Error {
        let seconds = self.limits.time.as_secs_f64();
        Error::new(
            ErrorKind::Timeout,
            format!("cannot read `{name}`: it takes longer than {seconds} seconds"),
        )
        .help("divide the file, or raise `documents.seconds`")
    }
}

/// Whether the system ended it because its processor time was used up.
#[cfg(unix)]
fn is_out_of_time(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    const OUT_OF_TIME: i32 = 24;
    status.signal() == Some(OUT_OF_TIME)
}

/// Other systems leave it at the clock.
#[cfg(not(unix))]
fn is_out_of_time(_: ExitStatus) -> bool {
    false
}

#[async_trait]
impl DocumentReader for ChildReader {
    async fn read(&self, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.limits.check(request, &bytes)?;
        let _slot = self.slots.acquire().await.map_err(|_| Error::internal("the reader is closed"))?;
        let order = Order::new(request, self.limits, bytes.len());
        // Dropped with this future, which kills it.
        let mut child = self.start()?;
        match tokio::time::timeout(self.limits.time + PATIENCE, exchange(&mut child, &order, &bytes)).await {
            Ok(exchanged) => {
                let (answer, status) = exchanged?;
                self.understood(&request.name, &answer, status)
            }
            Err(_) => Err(self.late(&request.name)),
        }
    }
}

/// Hands a file over; what comes back, and how the worker ended.
async fn exchange(child: &mut Child, order: &Order, bytes: &[u8]) -> Result<(Vec<u8>, ExitStatus)> {
    let broken = |cause: std::io::Error| {
        Error::new(ErrorKind::Unavailable, "lost the worker of a document").because(cause)
    };
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::internal("a worker has no pipes"));
    };
    let mut line = serde_json::to_vec(order)
        .map_err(|cause| Error::internal("cannot write an order down").because(cause))?;
    line.push(b'\n');
    // A worker that has ended says why with its exit code.
    if input.write_all(&line).await.is_ok() {
        let _ = input.write_all(bytes).await;
    }
    let mut answer = Vec::new();
    output.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.map_err(broken)?;
    // The end of its input ends it, if it has not ended yet.
    drop(input);
    let status = child.wait().await.map_err(broken)?;
    Ok((answer, status))
}

/// Reads files in this very process: for tests, and for files that the embedding program has written
/// itself. It is no boundary for others: nothing interrupts a file that takes forever.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess {
    limits: Limits,
}

impl InProcess {
    /// Files within `limits`, of which only the size of the file counts here.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

#[async_trait]
impl DocumentReader for InProcess {
    async fn read(&self, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.limits.check(request, &bytes)?;
        let request = request.clone();
        tokio::task::spawn_blocking(move || guarded(&request, &bytes))
            .await
            .map_err(|cause| Error::internal("the reading of a document broke off").because(cause))?
    }
}

/// Reads a file; a defect of a library is a reason like any other.
fn guarded(request: &ReadRequest, bytes: &[u8]) -> Result<ReadDocument> {
    catch_unwind(AssertUnwindSafe(|| crate::read(request, bytes))).unwrap_or_else(|_| {
        Err(Error::invalid(format!(
            "cannot read `{}`: the library for files of this kind failed on it",
            request.name
        )))
    })
}
