//! The inner side of a process: reads or makes one file, tells what became of it, and ends.
//!
//! ```text
//! standard input    one line of JSON, a ReaderOrder; the bytes of the file; then it stays open as long as the
//!                   result is wanted
//! standard output   JSON, a ReaderAnswer; behind one that says so the bytes of the file that was made
//! exit code         as weft-child says
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

/// Bytes of the stack that a file is read on. Some libraries call themselves for each level of nesting.
const STACK_BYTES: usize = 64 << 20;
/// Bytes of an order, at most: one to make a document holds all of its text, and pictures in it.
pub(super) const ORDER_BYTES_MAX: usize = 256 << 20;
/// Bytes of what was read in the pictures of a file, at most, as it is handed over.
pub(super) const READINGS_BYTES_MAX: usize = 256 << 20;

/// What a worker is to do with the bytes that it is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ReaderJob {
    /// They are a file to read and cut into pieces.
    Read(ReadRequest),
    /// They are a file whose pictures are wanted.
    Pictures(ReadRequest),
    /// They are a file of whose pictures those with these numbers are kept.
    KeptPictures(ReadRequest, Vec<u32>),
    /// They are so many bytes of what was read in the pictures of a file, and the file to read and cut into pieces.
    ReadWith(ReadRequest, usize),
    /// Nothing follows: a picture in a file of this system is to be read by another program.
    Recognize(Recognition),
    /// Nothing follows: a recording in a file of this system is to be written down by another program.
    Transcribe(Transcription),
    /// They are a file of this name, of which the tables are wanted.
    Sheets(String),
    /// They are a font to make a file with.
    Write(WriteRequest),
}

/// What a worker is to do, and within which limits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReaderOrder {
    job: ReaderJob,
    time: Duration,
    memory_bytes: usize,
    /// How many bytes of the file follow.
    file_bytes: usize,
    /// What becomes of it where the worker cannot be confined.
    #[serde(default)]
    confinement: Confinement,
}

impl ReaderOrder {
    /// A file of so many bytes, within these limits.
    pub(crate) fn new(job: ReaderJob, limits: Limits, file_bytes: usize) -> Self {
        let Limits { time, memory_bytes, .. } = limits;
        let confinement = Confinement::default();
        Self { job, time, memory_bytes, file_bytes, confinement }
    }

    /// The same, where the operator has said what becomes of files whose worker cannot be confined.
    pub(crate) fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ReaderAnswer {
    /// The file was read.
    Read(ReadDocument),
    /// Its tables were.
    Sheets(Vec<Sheet>),
    /// Its pictures were found. Their bytes follow, of each as many as stand here.
    Pictures(FoundPictures, Vec<usize>),
    /// A file was made, with other signs in the place of these letters. Its bytes follow.
    Made(String),
    /// It was not done, and why.
    Undone {
        /// Of which kind the failure is.
        kind: ErrorKind,
        /// The reason.
        message: String,
        /// What can be done about it.
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
    /// What a worker wrote: an answer, and the bytes behind it.
    pub(super) fn read(told: &[u8]) -> Result<(Self, &[u8])> {
        let mut answers = serde_json::Deserializer::from_slice(told).into_iter();
        let garbled = || Error::new(ErrorKind::Garbled, "cannot read what the worker of a document says");
        match answers.next() {
            Some(Ok(answer)) => Ok((answer, told.get(answers.byte_offset()..).unwrap_or_default())),
            Some(Err(cause)) => Err(garbled().because(cause)),
            None => Err(garbled()),
        }
    }

    /// The failure that it tells of.
    pub(super) fn failed(self) -> Error {
        match self {
            Self::Undone { kind, message, help } => Error { help, ..Error::new(kind, message) },
            _ => Error::new(ErrorKind::Garbled, "the worker of a document answers another question"),
        }
    }
}

/// Does the job; what is to follow the answer comes with it.
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
                    // Here, so that nobody else has to hold the others.
                    found.keep(wanted);
                    return pictures(found);
                }
                Err(error) => Err(error),
            }
        }
        ReaderJob::Recognize(_) | ReaderJob::Transcribe(_) => {
            Err(Error::internal("this is done by another program"))
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

/// The pictures of a file: what is known of them, and their bytes one behind the other.
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
        .map_err(|cause| Error::internal("cannot read what was read in pictures").because(cause))?;
    guarded(request, file, &readings)
}

/// Does what standard input asks for and writes to standard output what came of it; when it is started as a fork server, in
/// a fork for each file. This is all that a worker does; it must be called before anything else has started a
/// thread or opened a file.
pub fn work() -> ExitCode {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    if weft_child::is_fork_server() {
        return weft_child::serve(|_| warm(), |()| one());
    }
    one()
}

/// Reads some files of its own, so that no fork has to load the tables that readers use.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn warm() {
    const TEXT: &str = "# One\n\nSome *words* of a text. 一些文字。\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    let read = |name: &str, bytes: &[u8]| {
        let (name, settings) = (name.to_owned(), serde_json::Map::new());
        // Whether it can be read is seen with the files that people give.
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
    // Before the process is confined, since it becomes another program.
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
    // A size for which there is no memory is refused rather than the end of the process.
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
