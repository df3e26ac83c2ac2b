//! The inner side of a process: reads one file, tells what became of it, and ends.
//!
//! ```text
//! standard input    one line of JSON, an Order; the bytes of the file; then it stays open as long as the
//!                   result is wanted
//! standard output   JSON, an Answer
//! exit code         as weft-child says
//! ```

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_child::{Bounds, Confinement, REFUSED, confined};
use weft_core::seam::document_reader::{ReadDocument, ReadRequest};
use weft_core::{Error, ErrorKind, Result};

use super::{Limits, guarded};

/// Bytes of the stack that a file is read on. Some libraries call themselves for each level of nesting.
const STACK_BYTES: usize = 64 << 20;
/// Bytes of an order, at most.
const ORDER_BYTES_MAX: u64 = 4 << 20;

/// What a worker is to read.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    request: ReadRequest,
    time: Duration,
    memory_bytes: usize,
    /// How many bytes of the file follow.
    file_bytes: usize,
    /// What becomes of it where the worker cannot be confined.
    #[serde(default)]
    confinement: Confinement,
}

impl Order {
    /// A file of so many bytes, within these limits.
    pub fn new(request: &ReadRequest, limits: Limits, file_bytes: usize) -> Self {
        let Limits { time, memory_bytes, .. } = limits;
        let confinement = Confinement::default();
        Self { request: request.clone(), time, memory_bytes, file_bytes, confinement }
    }

    /// The same, where the operator has said what becomes of files whose worker cannot be confined.
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It was read.
    Read(ReadDocument),
    /// It was not, and why.
    Unread {
        /// Of which kind the failure is.
        kind: ErrorKind,
        /// The reason.
        message: String,
        /// What can be done about it.
        help: Option<String>,
    },
}

impl From<Result<ReadDocument>> for Answer {
    fn from(read: Result<ReadDocument>) -> Self {
        match read {
            Ok(document) => Self::Read(document),
            Err(mut error) => {
                let help = error.help.take();
                Self::Unread { kind: error.kind, message: error.full(), help }
            }
        }
    }
}

impl From<Answer> for Result<ReadDocument> {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Read(document) => Ok(document),
            Answer::Unread { kind, message, help } => Err(Error { help, ..Error::new(kind, message) }),
        }
    }
}

/// Reads the file on standard input and writes its pieces to standard output. This is all that a worker
/// does; it must be called before anything else has started a thread or opened a file.
pub fn work() -> ExitCode {
    let Some((order, bytes)) = told() else { return ExitCode::from(REFUSED) };
    let Order { request, time, memory_bytes, confinement, .. } = order;
    let bounds = Bounds { time, memory_bytes, stack_bytes: STACK_BYTES, confinement };
    confined(bounds, move || tell(&guarded(&request, &bytes).into()))
}

fn told() -> Option<(Order, Vec<u8>)> {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    input.by_ref().take(ORDER_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
    let order: Order = serde_json::from_slice(&line).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(order.file_bytes).ok()?;
    let count = input.take(u64::try_from(order.file_bytes).ok()?).read_to_end(&mut bytes).ok()?;
    (count == order.file_bytes).then_some((order, bytes))
}

fn tell(answer: &Answer) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer(&mut out, answer)?;
    out.flush()
}
