//! Document readers, either in a child process or in this process.
//!
//! Files come from untrusted sources, and the libraries that parse them have defects. [`ChildReader`] reads each file
//! in a process that can do nothing but compute and that is killed when it exceeds its limits, so a malicious file can
//! affect only its own reading.

mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use weft_child::{AskLimits, Duty, WorkerEnd};
use weft_core::fair::FairSlots;
use weft_core::seam::document_reader::{FoundPictures, PictureReading, ReadDocument, ReadRequest};
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, MadeDocument, Sheet, WriteRequest};
use weft_core::seam::{DocumentReader, DocumentWriter};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, async_trait, blocking};

pub use weft_child::{Confinement, Worker};
pub use worker::work;
use worker::{ORDER_BYTES_MAX, READINGS_BYTES_MAX, ReaderAnswer};
pub(crate) use worker::{ReaderJob, ReaderOrder};

/// Work on a file in this process, as an error names it.
const READING: &str = "reading a document";

const DUTY: Duty = Duty { thing: "a document", does: "reads documents", section: "documents" };
/// Maximum size of a worker's answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of files waiting for a slot, at most half of them of one tenant; further ones are refused until some
/// are done. Each is held in memory.
const WAITING_MAX: usize = 256;

/// Limits for reading one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time that it may take.
    pub time: Duration,
    /// Maximum memory, in bytes.
    pub memory_bytes: usize,
    /// Maximum size of the file, in bytes.
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
        Err(Error::invalid(format!(
            "cannot read `{name}`: it has {size} MiB, more than the maximum of {most} MiB"
        ))
        .help("split the file, or raise `documents.file_bytes_max`"))
    }
}

/// The tenant that a file belongs to, and the file's name in messages.
#[derive(Clone, Copy, Debug)]
struct FileRef<'a> {
    tenant: &'a TenantId,
    name: &'a str,
}

/// Reads each file in a child process that inherits nothing but the readers' preloaded tables.
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
    /// Creates a reader that handles up to `at_once` files concurrently, each within `limits`; tenants take turns. The
    /// worker program must call [`work`].
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

    /// Sets what happens to files when their worker cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    fn late(&self, name: &str) -> Error {
        let limit = weft_core::value::plural(self.limits.time.as_secs_f64(), "second");
        Error::new(ErrorKind::Timeout, format!("cannot read `{name}`: reading it took longer than {limit}"))
            .help("split the file, or raise `documents.seconds`")
    }
}

impl ChildReader {
    /// Sets the font that PDFs use for letters missing from the built-in one.
    #[must_use]
    pub fn with_font(self, font: Option<PathBuf>) -> Self {
        Self { font, ..self }
    }

    /// Runs a job on some bytes and returns the answer and the bytes that follow it.
    async fn ask(&self, file: FileRef<'_>, job: ReaderJob, bytes: &[u8]) -> Result<(ReaderAnswer, Vec<u8>)> {
        self.ask_of(file, job, &[], bytes).await
    }

    /// Like `ask`, with the input bytes in two parts.
    async fn ask_of(
        &self,
        file: FileRef<'_>,
        job: ReaderJob,
        before: &[u8],
        bytes: &[u8],
    ) -> Result<(ReaderAnswer, Vec<u8>)> {
        let FileRef { tenant, name } = file;
        let _slot = self.slots.acquire_for(tenant, &format!("`{name}`")).await?;
        let order =
            ReaderOrder::new(job, self.limits, before.len() + bytes.len()).with_confinement(self.confinement);
        let mut order = serde_json::to_vec(&order).map_err(|cause| {
            Error::internal("cannot encode the request to the worker process").because(cause)
        })?;
        order.push(b'\n');
        if order.len() > ORDER_BYTES_MAX {
            let most = ORDER_BYTES_MAX >> 20;
            return Err(Error::invalid(format!("cannot process `{name}`: it has more than {most} MiB"))
                .help("divide it"));
        }
        match self.ended(&[order.as_slice(), before, bytes]).await? {
            WorkerEnd::Answered(told) => {
                let (answer, made) = ReaderAnswer::read(&told)?;
                let from = told.len() - made.len();
                // Reuses the allocation, because an answer can be as large as a gigabyte.
                let mut made = told;
                made.drain(..from);
                Ok((answer, made))
            }
            WorkerEnd::Late | WorkerEnd::OutOfTime => Err(self.late(name)),
            // A program that runs out of memory aborts and so ends by a signal.
            WorkerEnd::Broken => {
                let most = self.limits.memory_bytes >> 20;
                Err(Error::invalid(format!(
                    "cannot process `{name}`: it takes more than {most} MiB of memory, or crashes its reader"
                ))
                .help("split the file, or raise `documents.memory_bytes`"))
            }
        }
    }

    /// Returns the pictures of a file as reported by a worker.
    async fn found(&self, job: ReaderJob, file: FileRef<'_>, bytes: &[u8]) -> Result<FoundPictures> {
        match self.ask(file, job, bytes).await? {
            (ReaderAnswer::Pictures(mut found, sizes), told) => {
                let mut told = Bytes::from(told);
                for (one, size) in found.pictures.iter_mut().zip(sizes) {
                    // The worker has processed an untrusted file, so the sizes it reports are not trusted either.
                    one.picture.bytes = told.split_to(size.min(told.len()));
                }
                Ok(found)
            }
            (answer, _) => Err(answer.failed()),
        }
    }

    /// Runs a request in a worker: in a fork of a warm one where the platform supports it.
    async fn ended(&self, asked: &[&[u8]]) -> Result<WorkerEnd> {
        let limits = AskLimits { time: self.limits.time, answer_max: ANSWER_BYTES_MAX };
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        {
            // Every parent prepares the same tables, so there is nothing to name.
            let parent =
                weft_child::ForkParent { worker: &self.worker, confinement: self.confinement, task: "" };
            let forked = self.forks.ask(parent, &DUTY, asked, limits).await?;
            if let Some(ended) = forked {
                return Ok(ended);
            }
        }
        self.worker.ask(&DUTY, asked, limits).await
    }

    /// Returns the bytes of the operator's font if the text may need it; empty otherwise.
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
        // Only a PDF with such letters needs the font, which can be many megabytes.
        match &self.font {
            Some(font) if wanted && request.format == DocumentFormat::Pdf => {
                let unread = |cause: std::io::Error| {
                    Error::invalid(format!("the font {} cannot be read", font.display()))
                        .because(cause)
                        .help("check `documents.font`")
                };
                tokio::fs::read(font).await.map_err(unread)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether the built-in font may lack this letter: true for scripts beyond Latin, Greek and Cyrillic.
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
            .map_err(|cause| Error::internal("cannot encode the text of pictures").because(cause))?;
        if readings.len() > READINGS_BYTES_MAX {
            return Err(Error::invalid(format!(
                "cannot read `{}`: its pictures contain too much text",
                request.name
            ))
            .help("split the file"));
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

/// Reads files in this process, for tests and for files that the embedding program has written itself. It gives no
/// isolation: nothing interrupts a file that takes forever.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcess {
    limits: Limits,
}

impl InProcess {
    /// Creates a reader with `limits`, of which only the file size is enforced here.
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
        blocking(READING, move || guarded(&request, &bytes, &[])).await
    }

    async fn pictures(&self, _: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<FoundPictures> {
        self.limits.check(&request.name, &bytes)?;
        let ReadRequest { name, settings, .. } = request.clone();
        blocking(READING, move || harmless(&name, || crate::format::pictures(&name, &bytes, &settings))).await
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
        blocking(READING, move || guarded(&request, &bytes, &readings)).await
    }
}

#[async_trait]
impl DocumentWriter for InProcess {
    async fn write(&self, _: &TenantId, request: &WriteRequest) -> Result<MadeDocument> {
        let request = request.clone();
        let made = move || harmless("the document", || crate::make(&request, &[]));
        blocking("creating a document", made).await
    }

    async fn sheets(&self, _: &TenantId, name: &str, bytes: Bytes) -> Result<Vec<Sheet>> {
        self.limits.check(name, &bytes)?;
        let name = name.to_owned();
        blocking("reading a table", move || harmless(&name, || crate::make::sheets(&name, &bytes))).await
    }
}

/// Reads a file. The formats already turn panics of libraries into errors; this also catches defects in the chunking.
fn guarded(request: &ReadRequest, bytes: &[u8], readings: &[PictureReading]) -> Result<ReadDocument> {
    harmless(&request.name, || crate::read_with(request, bytes, readings))
}

/// Runs work on a file and turns a panic into an error.
fn harmless<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::invalid(format!("cannot process `{name}`: its reader failed on it, which is a bug")))
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

    /// The outcome of a file of this tenant.
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
    async fn a_file_is_refused_when_the_queue_is_full() {
        let reader = reader(0);
        let _first = reader.slots.acquire(&"another".into()).await.unwrap();
        assert_eq!(read(&reader, "t").await, ErrorKind::RateLimited);
    }

    #[tokio::test]
    async fn a_tenant_with_many_files_does_not_starve_others() {
        let (reader, ended) = (reader(8), Mutex::new(Vec::new()));
        let (shared, log) = (&reader, &ended);
        let file = |tenant: &'static str| async move {
            let kind = read(shared, tenant).await;
            log.lock().unwrap().push((tenant, kind));
        };
        let held = reader.slots.acquire(&"loud".into()).await.unwrap();
        let many = join_all((0..6).map(|_| file("loud")));
        // The slot is released when all the others are queued.
        join3(many, file("quiet"), async { drop(held) }).await;
        let (refused, done) = (ErrorKind::RateLimited, ErrorKind::Unavailable);
        let of_loud = [("loud", refused), ("loud", refused), ("loud", done)];
        let then = [("quiet", done), ("loud", done), ("loud", done), ("loud", done)];
        assert_eq!(*ended.lock().unwrap(), [&of_loud[..], &then].concat());
    }
}
