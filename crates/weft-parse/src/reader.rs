//! Readers of documents: in a process of their own, or in this one.
//!
//! Files come from anywhere, and libraries that read them have defects. [`ChildReader`] gives every file a
//! process that may do nothing but compute and is ended when its limits are reached, so a file can spoil
//! nothing but its own reading.

mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;
use weft_child::{Duty, Ended};
use weft_core::seam::DocumentReader;
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};
use weft_core::{Error, ErrorKind, Result};

pub use weft_child::{Confinement, Worker};
pub use worker::work;
use worker::{Answer, Order};

const DUTY: Duty = Duty { thing: "a document", does: "reads documents", section: "documents" };
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

/// Reads each file in a process of its own that inherits nothing.
#[derive(Debug)]
pub struct ChildReader {
    worker: Worker,
    limits: Limits,
    slots: Semaphore,
    confinement: Confinement,
}

impl ChildReader {
    /// At most `at_once` files at the same time, each within `limits`. The worker calls [`work`].
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        let slots = Semaphore::new(at_once.min(Semaphore::MAX_PERMITS));
        Self { worker, limits, slots, confinement: Confinement::default() }
    }

    /// The same, where the operator has said what becomes of files whose worker cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
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

#[async_trait]
impl DocumentReader for ChildReader {
    async fn read(&self, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.limits.check(request, &bytes)?;
        let _slot = self.slots.acquire().await.map_err(|_| Error::internal("the reader is closed"))?;
        let order = Order::new(request, self.limits, bytes.len()).with_confinement(self.confinement);
        let mut order = serde_json::to_vec(&order)
            .map_err(|cause| Error::internal("cannot write an order down").because(cause))?;
        order.push(b'\n');
        let (asked, time) = ([order.as_slice(), &bytes], self.limits.time);
        match self.worker.ask(&DUTY, &asked, time, ANSWER_BYTES_MAX).await? {
            Ended::Answered(answer) => {
                let answer: Answer = serde_json::from_slice(&answer).map_err(|cause| {
                    Error::new(ErrorKind::Garbled, "cannot read what the worker of a document says")
                        .because(cause)
                })?;
                answer.into()
            }
            Ended::Late | Ended::OutOfTime => Err(self.late(&request.name)),
            // Without memory a program ends itself by a signal.
            Ended::Broken => {
                let (name, most) = (&request.name, self.limits.memory_bytes >> 20);
                Err(Error::invalid(format!("cannot read `{name}`: it takes more than {most} MiB of memory, or is made to break its reader"))
                    .help("divide the file, or raise `documents.memory_bytes`"))
            }
        }
    }
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
        tokio::task::spawn_blocking(move || guarded(&request, &bytes)).await.map_err(|cause| {
            Error::internal("the reading of a document stopped unexpectedly").because(cause)
        })?
    }
}

/// Reads a file. Readers fail with a reason whatever a library does; what is left are defects of the cutting.
fn guarded(request: &ReadRequest, bytes: &[u8]) -> Result<ReadDocument> {
    catch_unwind(AssertUnwindSafe(|| crate::read(request, bytes))).unwrap_or_else(|_| {
        let name = &request.name;
        Err(Error::invalid(format!("cannot read `{name}`: its text cannot be cut, which is a defect")))
    })
}
