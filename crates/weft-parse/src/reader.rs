//! Readers of documents: in a process of their own, or in this one.
//!
//! Files come from anywhere, and libraries that read them have defects. [`ChildReader`] gives every file a
//! process that may do nothing but compute and is ended when its limits are reached, so a file can spoil
//! nothing but its own reading.

mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weft_child::{AskLimits, Duty, WorkerEnd};
use weft_core::fair::FairSlots;
use weft_core::seam::document_reader::{FoundPictures, PictureReading, ReadDocument, ReadRequest};
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, MadeDocument, Sheet, WriteRequest};
use weft_core::seam::{DocumentReader, DocumentWriter};
use weft_core::{Error, ErrorKind, Json, Result, TenantId};

pub use weft_child::{Confinement, Worker};
pub use worker::work;
use worker::{ORDER_BYTES_MAX, READINGS_BYTES_MAX, ReaderAnswer};
pub(crate) use worker::{ReaderJob, ReaderOrder};

use crate::slots;

const DUTY: Duty = Duty { thing: "a document", does: "reads documents", section: "documents" };
/// Bytes that a worker answers, at most.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Files that wait to be worked on, at most; more are refused until some are done. Each is held in memory, and one tenant has
/// at most half of them.
const WAITING_MAX: usize = 256;

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
    fn check(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= self.file_bytes {
            return Ok(());
        }
        let (size, most) = (bytes.len() >> 20, self.file_bytes >> 20);
        Err(Error::invalid(format!("cannot read `{name}`: it has {size} MiB, {most} MiB are the most"))
            .help("divide the file, or raise `documents.file_bytes_max`"))
    }
}

/// Whose file is worked on, and what it is called in messages.
#[derive(Clone, Copy, Debug)]
struct FileRef<'a> {
    tenant: &'a TenantId,
    name: &'a str,
}

/// Reads each file in a process of its own that inherits nothing but the tables that readers use.
#[derive(Debug)]
pub struct ChildReader {
    worker: Worker,
    limits: Limits,
    slots: FairSlots,
    confinement: Confinement,
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    forks: weft_child::ForkServer,
    font: Option<PathBuf>,
}

impl ChildReader {
    /// At most `at_once` files at the same time, each within `limits`; tenants take turns. The worker calls [`work`].
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        Self {
            worker,
            limits,
            slots: FairSlots::with_waiting_max(at_once, WAITING_MAX),
            confinement: Confinement::default(),
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            forks: weft_child::ForkServer::default(),
            font: None,
        }
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

impl ChildReader {
    /// The same, where PDFs have this font for letters that the built-in one lacks.
    #[must_use]
    pub fn with_font(self, font: Option<PathBuf>) -> Self {
        Self { font, ..self }
    }

    /// Has a job done on some bytes: the answer, and the bytes that follow it.
    async fn ask(&self, file: FileRef<'_>, job: ReaderJob, bytes: &[u8]) -> Result<(ReaderAnswer, Vec<u8>)> {
        self.ask_of(file, job, &[], bytes).await
    }

    /// The same for bytes in two parts.
    async fn ask_of(
        &self,
        file: FileRef<'_>,
        job: ReaderJob,
        before: &[u8],
        bytes: &[u8],
    ) -> Result<(ReaderAnswer, Vec<u8>)> {
        let FileRef { tenant, name } = file;
        let _slot = slots::acquire(&self.slots, tenant, &format!("`{name}`")).await?;
        let order =
            ReaderOrder::new(job, self.limits, before.len() + bytes.len()).with_confinement(self.confinement);
        let mut order = serde_json::to_vec(&order)
            .map_err(|cause| Error::internal("cannot write an order down").because(cause))?;
        order.push(b'\n');
        if order.len() > ORDER_BYTES_MAX {
            let most = ORDER_BYTES_MAX >> 20;
            return Err(Error::invalid(format!("cannot work on `{name}`: it has more than {most} MiB"))
                .help("divide it"));
        }
        match self.ended(&[order.as_slice(), before, bytes]).await? {
            WorkerEnd::Answered(told) => {
                let (answer, made) = ReaderAnswer::read(&told)?;
                let from = told.len() - made.len();
                // In the memory that is there, because an answer may have a gigabyte.
                let mut made = told;
                made.drain(..from);
                Ok((answer, made))
            }
            WorkerEnd::Late | WorkerEnd::OutOfTime => Err(self.late(name)),
            // Without memory a program ends itself by a signal.
            WorkerEnd::Broken => {
                let most = self.limits.memory_bytes >> 20;
                Err(Error::invalid(format!("cannot work on `{name}`: it takes more than {most} MiB of memory, or is made to break its reader"))
                    .help("divide the file, or raise `documents.memory_bytes`"))
            }
        }
    }

    /// The pictures of a file, as a worker tells of them.
    async fn found(&self, job: ReaderJob, file: FileRef<'_>, bytes: &[u8]) -> Result<FoundPictures> {
        match self.ask(file, job, bytes).await? {
            (ReaderAnswer::Pictures(mut found, sizes), told) => {
                let mut told = Bytes::from(told);
                for (one, size) in found.pictures.iter_mut().zip(sizes) {
                    // A worker has handled a file from anywhere, so its numbers are not relied on.
                    one.picture.bytes = told.split_to(size.min(told.len()));
                }
                Ok(found)
            }
            (answer, _) => Err(answer.failed()),
        }
    }

    /// Has a worker do what it is asked: a fork of one that is ready, where there are such.
    async fn ended(&self, asked: &[&[u8]]) -> Result<WorkerEnd> {
        let limits = AskLimits { time: self.limits.time, answer_max: ANSWER_BYTES_MAX };
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        {
            let parent =
                weft_child::ForkParent { worker: &self.worker, confinement: self.confinement, task: "" };
            let forked = self.forks.ask(parent, &DUTY, asked, limits).await?;
            if let Some(ended) = forked {
                return Ok(ended);
            }
        }
        self.worker.ask(&DUTY, asked, limits).await
    }

    /// The bytes of the operator's font, if a text may want it.
    async fn font_for(&self, request: &WriteRequest) -> Result<Vec<u8>> {
        let text = match &request.content {
            DocumentContent::Markdown(text) => text.contains(is_rare),
            DocumentContent::Sheets(sheets) => {
                let cells = sheets.iter().flat_map(|sheet| sheet.rows.iter().flatten());
                cells.filter_map(Json::as_str).any(|text| text.contains(is_rare))
            }
        };
        let page = &request.page;
        let around = [&page.header, &page.footer, &page.watermark];
        let wanted = text || around.into_iter().any(|text| text.contains(is_rare));
        // Only a PDF with such letters needs it, and it may have many megabytes.
        match &self.font {
            Some(font) if wanted && request.format == DocumentFormat::Pdf => {
                let unread = |cause: std::io::Error| {
                    Error::invalid(format!("the font {} cannot be read", font.display()))
                        .because(cause)
                        .help("look at `documents.font`")
                };
                tokio::fs::read(font).await.map_err(unread)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Letters that the built-in font may lack: scripts beyond Latin, Greek and Cyrillic.
fn is_rare(letter: char) -> bool {
    letter >= '\u{530}'
}

#[async_trait]
impl DocumentReader for ChildReader {
    fn knows(&self, name: &str) -> bool {
        crate::format::is_known(name)
    }

    async fn read(&self, tenant: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.limits.check(&request.name, &bytes)?;
        let file = FileRef { tenant, name: &request.name };
        match self.ask(file, ReaderJob::Read(request.clone()), &bytes).await? {
            (ReaderAnswer::Read(document), _) => Ok(document),
            (answer, _) => Err(answer.failed()),
        }
    }

    async fn pictures(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
    ) -> Result<FoundPictures> {
        self.limits.check(&request.name, &bytes)?;
        let file = FileRef { tenant, name: &request.name };
        self.found(ReaderJob::Pictures(request.clone()), file, &bytes).await
    }

    async fn kept_pictures(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        wanted: &[u32],
    ) -> Result<FoundPictures> {
        self.limits.check(&request.name, &bytes)?;
        let job = ReaderJob::KeptPictures(request.clone(), wanted.to_vec());
        self.found(job, FileRef { tenant, name: &request.name }, &bytes).await
    }

    async fn read_with(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        readings: &[PictureReading],
    ) -> Result<ReadDocument> {
        self.limits.check(&request.name, &bytes)?;
        let readings = serde_json::to_vec(readings)
            .map_err(|cause| Error::internal("cannot write down what was read in pictures").because(cause))?;
        if readings.len() > READINGS_BYTES_MAX {
            return Err(Error::invalid(format!(
                "cannot read `{}`: its pictures hold too much text",
                request.name
            ))
            .help("divide the file"));
        }
        let job = ReaderJob::ReadWith(request.clone(), readings.len());
        let file = FileRef { tenant, name: &request.name };
        match self.ask_of(file, job, &readings, &bytes).await? {
            (ReaderAnswer::Read(document), _) => Ok(document),
            (answer, _) => Err(answer.failed()),
        }
    }
}

#[async_trait]
impl DocumentWriter for ChildReader {
    async fn write(&self, tenant: &TenantId, request: &WriteRequest) -> Result<MadeDocument> {
        let font = self.font_for(request).await?;
        let file = FileRef { tenant, name: "the document" };
        match self.ask(file, ReaderJob::Write(request.clone()), &font).await? {
            (ReaderAnswer::Made(unwritable), made) => Ok(MadeDocument { bytes: made.into(), unwritable }),
            (answer, _) => Err(answer.failed()),
        }
    }

    async fn sheets(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<Vec<Sheet>> {
        self.limits.check(name, &bytes)?;
        let file = FileRef { tenant, name };
        match self.ask(file, ReaderJob::Sheets(name.to_owned()), &bytes).await? {
            (ReaderAnswer::Sheets(sheets), _) => Ok(sheets),
            (answer, _) => Err(answer.failed()),
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
    fn knows(&self, name: &str) -> bool {
        crate::format::is_known(name)
    }

    async fn read(&self, _: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.limits.check(&request.name, &bytes)?;
        let request = request.clone();
        blocking(move || guarded(&request, &bytes, &[])).await
    }

    async fn pictures(&self, _: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<FoundPictures> {
        self.limits.check(&request.name, &bytes)?;
        let ReadRequest { name, settings, .. } = request.clone();
        blocking(move || harmless(&name, || crate::format::pictures(&name, &bytes, &settings))).await
    }

    async fn read_with(
        &self,
        _: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        readings: &[PictureReading],
    ) -> Result<ReadDocument> {
        self.limits.check(&request.name, &bytes)?;
        let (request, readings) = (request.clone(), readings.to_vec());
        blocking(move || guarded(&request, &bytes, &readings)).await
    }
}

#[async_trait]
impl DocumentWriter for InProcess {
    async fn write(&self, _: &TenantId, request: &WriteRequest) -> Result<MadeDocument> {
        let request = request.clone();
        let made = move || harmless("the document", || crate::make(&request, &[]));
        let ended = tokio::task::spawn_blocking(made).await;
        ended.map_err(|cause| {
            Error::internal("the making of a document stopped unexpectedly").because(cause)
        })?
    }

    async fn sheets(&self, _: &TenantId, name: &str, bytes: Bytes) -> Result<Vec<Sheet>> {
        self.limits.check(name, &bytes)?;
        let name = name.to_owned();
        let read = move || harmless(&name, || crate::make::sheets(&name, &bytes));
        let ended = tokio::task::spawn_blocking(read).await;
        ended
            .map_err(|cause| Error::internal("the reading of a table stopped unexpectedly").because(cause))?
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|cause| Error::internal("the reading of a document stopped unexpectedly").because(cause))?
}

/// Reads a file. Readers fail with a reason whatever a library does; what is left are defects of the cutting.
fn guarded(request: &ReadRequest, bytes: &[u8], readings: &[PictureReading]) -> Result<ReadDocument> {
    harmless(&request.name, || crate::read_with(request, bytes, readings))
}

/// Work on a file, whatever a library does.
fn harmless<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::invalid(format!(
            "cannot work on `{name}`: a part of it cannot be handled, which is a defect"
        )))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::future::{join_all, join3};
    use weft_core::seam::document_reader::ChunkMethod;

    use super::*;

    /// A reader of one file at a time whose worker never starts.
    fn reader(waiting_max: usize) -> ChildReader {
        let worker = Worker { program: "/nowhere".into(), arguments: Vec::new() };
        let reader = ChildReader::new(worker, Limits::default(), 1);
        ChildReader { slots: FairSlots::with_waiting_max(1, waiting_max), ..reader }
    }

    /// What became of a file of this tenant.
    async fn read(reader: &ChildReader, tenant: &str) -> ErrorKind {
        let request = ReadRequest {
            name: "a.txt".into(),
            method: ChunkMethod::Naive,
            settings: serde_json::Map::new(),
        };
        let refused = reader.read(&tenant.into(), &request, Bytes::from_static(b"text")).await.unwrap_err();
        assert!(refused.full().contains("`a.txt`") || refused.kind == ErrorKind::Unavailable);
        refused.kind
    }

    #[tokio::test]
    async fn a_file_that_finds_the_line_full_is_refused() {
        let reader = reader(0);
        let _first = reader.slots.acquire(&"another".into()).await.unwrap();
        assert_eq!(read(&reader, "t").await, ErrorKind::RateLimited);
    }

    #[tokio::test]
    async fn a_tenant_with_many_files_does_not_go_before_all_others() {
        let (reader, ended) = (reader(8), Mutex::new(Vec::new()));
        let (shared, log) = (&reader, &ended);
        let file = |tenant: &'static str| async move {
            let kind = read(shared, tenant).await;
            log.lock().unwrap().push((tenant, kind));
        };
        let held = reader.slots.acquire(&"loud".into()).await.unwrap();
        let many = join_all((0..6).map(|_| file("loud")));
        // The place is given back when all the others stand in line.
        join3(many, file("quiet"), async { drop(held) }).await;
        let (refused, done) = (ErrorKind::RateLimited, ErrorKind::Unavailable);
        let of_loud = [("loud", refused), ("loud", refused), ("loud", done)];
        let then = [("quiet", done), ("loud", done), ("loud", done), ("loud", done)];
        assert_eq!(*ended.lock().unwrap(), [&of_loud[..], &then].concat());
    }
}
