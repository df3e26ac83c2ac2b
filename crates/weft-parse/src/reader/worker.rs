//! The worker's side: reads or makes one file, reports the outcome, and exits.
//!
//! ```text
//! standard input    one line of JSON, a ReaderOrder; the bytes of the file; then stays open as long as the result
//!                   is wanted
//! standard output   JSON, a ReaderAnswer; followed by the bytes of the file that was made, if the answer says so
//! exit code         as documented in weft-child
//! ```

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_child::{Bounds, Confinement, REFUSED, confined};
use weft_core::seam::document_reader::{
    ChunkMethod, FoundPictures, PictureReading, ReadDocument, ReadRequest,
};
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, PageSettings, Sheet, WriteRequest};
use weft_core::{Error, ErrorKind, Result};

use super::{Limits, guarded, harmless};
use crate::tesseract::Recognition;
use crate::transcription::Transcription;

/// Stack size for reading a file, in bytes. Some libraries recurse for each level of nesting.
const STACK_BYTES: usize = 64 << 20;
/// Maximum size of an order, in bytes: an order to make a document contains its whole text and the pictures in it.
pub(super) const ORDER_BYTES_MAX: usize = 256 << 20;
/// Maximum size, in bytes, of the serialized texts that were read in the pictures of a file.
pub(super) const READINGS_BYTES_MAX: usize = 256 << 20;

/// What a worker is to do with the bytes that it is passed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ReaderJob {
    /// Read the bytes as a file and cut it into chunks.
    Read(ReadRequest),
    /// Find the pictures of the file in the bytes.
    Pictures(ReadRequest),
    /// Find the pictures of the file in the bytes and return those with these numbers.
    KeptPictures(ReadRequest, Vec<u32>),
    /// Read a file and cut it into chunks. This many bytes of texts read in its pictures come first, then the file.
    ReadWith(ReadRequest, usize),
    /// No bytes follow: run another program to read a picture in a file of this system.
    Recognize(Recognition),
    /// No bytes follow: run another program to transcribe a recording in a file of this system.
    Transcribe(Transcription),
    /// Read the tables of the file in the bytes, which has this name.
    Sheets(String),
    /// Make a file, with the font in the bytes.
    Write(WriteRequest),
}

/// A job for a worker and the limits that apply to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReaderOrder {
    job: ReaderJob,
    time: Duration,
    memory_bytes: usize,
    /// Number of bytes of the file that follow.
    file_bytes: usize,
    /// What happens to the file when the worker cannot be confined.
    #[serde(default)]
    confinement: Confinement,
}

impl ReaderOrder {
    /// Creates an order for a file of `file_bytes` bytes with these limits.
    pub(crate) fn new(job: ReaderJob, limits: Limits, file_bytes: usize) -> Self {
        let Limits { time, memory_bytes, .. } = limits;
        let confinement = Confinement::default();
        Self { job, time, memory_bytes, file_bytes, confinement }
    }

    /// Sets what happens to files when their worker cannot be confined.
    pub(crate) fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }
}

/// The outcome of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ReaderAnswer {
    /// The file was read.
    Read(ReadDocument),
    /// The tables of the file were read.
    Sheets(Vec<Sheet>),
    /// The pictures of the file were found. Their bytes follow; the numbers are the size of each.
    Pictures(FoundPictures, Vec<usize>),
    /// A file was made, with other characters in place of these letters. Its bytes follow.
    Made(String),
    /// The job failed.
    Undone {
        /// Kind of the failure.
        kind: ErrorKind,
        /// The reason.
        message: String,
        /// What the user can do about it.
        help: Option<String>,
    },
}

impl From<Error> for ReaderAnswer {
    fn from(mut error: Error) -> Self {
        let help = error.help.take();
        Self::Undone { kind: error.kind, message: error.full(), help }
    }
}

impl ReaderAnswer {
    /// Splits a worker's output into its answer and the bytes that follow.
    pub(super) fn read(told: &[u8]) -> Result<(Self, &[u8])> {
        let mut answers = serde_json::Deserializer::from_slice(told).into_iter();
        let garbled = || Error::new(ErrorKind::Garbled, "cannot parse the response of a document worker");
        match answers.next() {
            Some(Ok(answer)) => Ok((answer, told.get(answers.byte_offset()..).unwrap_or_default())),
            Some(Err(cause)) => Err(garbled().because(cause)),
            None => Err(garbled()),
        }
    }

    /// The error that this answer stands for.
    pub(super) fn failed(self) -> Error {
        match self {
            Self::Undone { kind, message, help } => Error { help, ..Error::new(kind, message) },
            _ => Error::new(ErrorKind::Garbled, "a document worker responded to another request"),
        }
    }
}

/// Does the job and returns the answer and the bytes to send after it.
fn done(job: &ReaderJob, bytes: &[u8]) -> (ReaderAnswer, Vec<u8>) {
    let answer = match job {
        ReaderJob::Read(request) => guarded(request, bytes, &[]).map(ReaderAnswer::Read),
        ReaderJob::ReadWith(request, count) => read_with(request, *count, bytes).map(ReaderAnswer::Read),
        ReaderJob::Pictures(request) => match harmless(&request.name, || found(request, bytes)) {
            Ok(found) => return pictures(found),
            Err(error) => Err(error),
        },
        ReaderJob::KeptPictures(request, wanted) => {
            match harmless(&request.name, || found(request, bytes)) {
                Ok(mut found) => {
                    // Filtered in the worker, so that the parent process never has to hold the other pictures.
                    found.keep(wanted);
                    return pictures(found);
                }
                Err(error) => Err(error),
            }
        }
        ReaderJob::Recognize(_) | ReaderJob::Transcribe(_) => {
            Err(Error::internal("another program has to do this"))
        }
        ReaderJob::Sheets(name) => {
            harmless(name, || crate::make::sheets(name, bytes)).map(ReaderAnswer::Sheets)
        }
        ReaderJob::Write(request) => match harmless("the document", || crate::make(request, bytes)) {
            Ok(made) => return (ReaderAnswer::Made(made.unwritable), made.bytes.into()),
            Err(error) => Err(error),
        },
    };
    (answer.unwrap_or_else(ReaderAnswer::from), Vec::new())
}

fn found(request: &ReadRequest, bytes: &[u8]) -> Result<FoundPictures> {
    crate::format::pictures(&request.name, bytes, &request.settings)
}

/// Builds the answer for the pictures of a file: their metadata, and their bytes concatenated.
fn pictures(mut found: FoundPictures) -> (ReaderAnswer, Vec<u8>) {
    let (mut sizes, mut all) = (Vec::new(), Vec::new());
    for one in &mut found.pictures {
        let bytes = std::mem::take(&mut one.picture.bytes);
        sizes.push(bytes.len());
        all.extend_from_slice(&bytes);
    }
    (ReaderAnswer::Pictures(found, sizes), all)
}

fn read_with(request: &ReadRequest, count: usize, bytes: &[u8]) -> Result<ReadDocument> {
    let (readings, file) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
    let readings: Vec<PictureReading> = serde_json::from_slice(readings)
        .map_err(|cause| Error::internal("cannot parse the text of pictures").because(cause))?;
    guarded(request, file, &readings)
}

/// Carries out the job on standard input and writes the outcome to standard output. When started as a fork server, does
/// so in a fork for each file. This is the whole worker; it must be called before any other code has started a thread
/// or opened a file.
pub fn work() -> ExitCode {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    if weft_child::is_fork_server() {
        return weft_child::serve(|_| warm(), |()| one());
    }
    one()
}

/// Reads some built-in sample files, so that forks inherit the readers' tables already loaded.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn warm() {
    const TEXT: &str = "# One\n\nSome *words* of a text. 一些文字。\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let read = |name: &str, bytes: &[u8]| {
        let (name, settings) = (name.to_owned(), serde_json::Map::new());
        // The result does not matter here; a reader that fails will report it on real files.
        drop(guarded(&ReadRequest { name, method: ChunkMethod::Naive, settings }, bytes, &[]));
    };
    for name in ["a.txt", "a.md", "a.html", "a.csv", "a.json", "a.eml"] {
        read(name, TEXT.as_bytes());
    }
    for (format, name) in [(DocumentFormat::Pdf, "a.pdf"), (DocumentFormat::Docx, "a.docx")] {
        let content = DocumentContent::Markdown(TEXT.to_owned());
        let request = WriteRequest { format, content, page: PageSettings::default() };
        if let Ok(made) = harmless(name, || crate::make(&request, &[])) {
            read(name, &made.bytes);
        }
    }
}

fn one() -> ExitCode {
    let Some((order, bytes)) = told() else { return ExitCode::from(REFUSED) };
    let ReaderOrder { job, time, memory_bytes, confinement, .. } = order;
    let bounds = Bounds { time, memory_bytes, stack_bytes: STACK_BYTES, confinement };
    // Must happen before the process is confined, since it turns into another program.
    let job = match job {
        ReaderJob::Recognize(recognition) => return recognition.begin(&bounds),
        ReaderJob::Transcribe(transcription) => return transcription.begin(&bounds),
        job => job,
    };
    confined(bounds, move || {
        let (answer, made) = done(&job, &bytes);
        tell(&answer, &made)
    })
}

fn told() -> Option<(ReaderOrder, Vec<u8>)> {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    input.by_ref().take(ORDER_BYTES_MAX as u64).read_until(b'\n', &mut line).ok()?;
    let order: ReaderOrder = serde_json::from_slice(&line).ok()?;
    let mut bytes = Vec::new();
    // A size for which there is no memory is refused instead of aborting the process.
    bytes.try_reserve_exact(order.file_bytes).ok()?;
    let count = input.take(u64::try_from(order.file_bytes).ok()?).read_to_end(&mut bytes).ok()?;
    (count == order.file_bytes).then_some((order, bytes))
}

fn tell(answer: &ReaderAnswer, made: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(made)?;
    out.flush()
}
