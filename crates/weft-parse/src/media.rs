//! Reads documents including the text in their pictures and the speech in recordings.
//!
//! A file is parsed in a process that can do nothing but compute, so the picture reader and the speech model are called
//! from here: first the pictures are found, then each is read, and then the file is read again with their text in
//! place.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use weft_core::seam::document_reader::{
    FoundPicture, FoundPictures, PictureReading, Position, ReadDocument, ReadRequest, ReadingLine,
};
use weft_core::seam::picture_reader::{PictureLine, PicturePlace, TEXT_CHARS_MAX};
use weft_core::seam::speech::Recording;
use weft_core::seam::{DocumentReader, PictureReader, TranscriptionModel};
use weft_core::value::Json;
use weft_core::watched_models::{ModelWatcher, watched_reader, watched_transcription};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::pictures::whereabouts;

/// Number of pictures of one document that are read concurrently.
const PICTURES_AT_ONCE: usize = 2;
/// Maximum number of unreadable pictures that are reported individually; further ones are counted.
const NAMED_MAX: usize = 3;

/// Reads documents, using other implementations for their pictures and for recordings.
pub struct MediaReader {
    documents: Arc<dyn DocumentReader>,
    pictures: Option<Arc<dyn PictureReader>>,
    speech: Option<Arc<dyn TranscriptionModel>>,
}

impl std::fmt::Debug for MediaReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MediaReader").finish_non_exhaustive()
    }
}

impl MediaReader {
    /// Creates a reader from a document reader and an optional picture reader and speech model.
    pub fn new(
        documents: Arc<dyn DocumentReader>,
        pictures: Option<Arc<dyn PictureReader>>,
        speech: Option<Arc<dyn TranscriptionModel>>,
    ) -> Self {
        Self { documents, pictures, speech }
    }

    async fn written_down(
        &self,
        model: &dyn TranscriptionModel,
        tenant: &TenantId,
        request: &ReadRequest,
        recording: Recording,
    ) -> Result<ReadDocument> {
        let mut said = model.transcribe(tenant, &recording).await?;
        // A program may write terminal control sequences, and a text with a NUL character would not be recognized as
        // text.
        said.retain(|letter| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t'));
        if said.trim().is_empty() {
            let message = format!("cannot read `{}`: `{}` found no speech in it", request.name, model.name());
            return Err(Error::invalid(message));
        }
        // The extension makes it read as text, whatever the recording is called.
        let text = ReadRequest { name: format!("{}.txt", request.name), ..request.clone() };
        self.documents.read(tenant, &text, Bytes::from(said)).await
    }

    async fn read_pictures(
        &self,
        reader: &dyn PictureReader,
        tenant: &TenantId,
        found: Vec<FoundPicture>,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<PictureReading>> {
        let read = |(number, one): (u32, FoundPicture)| {
            async move {
                let lines = reader.read(tenant, &one.picture).await;
                let FoundPicture { place, part, is_figure, .. } = one;
                let picture = Some(number);
                (PictureReading { place, part, is_figure, picture, lines: Vec::new() }, lines)
            }
            .boxed()
        };
        // In order, which is the order of the document.
        let mut reading = futures::stream::iter((0..).zip(found).map(read)).buffered(PICTURES_AT_ONCE);
        let (mut readings, mut failed) = (Vec::new(), 0);
        while let Some((picture, lines)) = reading.next().await {
            match lines {
                Ok(lines) => {
                    let lines = placed(picture.place, lines);
                    readings.push(PictureReading { lines, ..picture });
                }
                // These errors concern this picture alone; any other would prevent all pictures from being read.
                Err(error)
                    if matches!(
                        error.kind,
                        ErrorKind::Invalid | ErrorKind::Timeout | ErrorKind::Garbled | ErrorKind::Filtered
                    ) =>
                {
                    failed += 1;
                    if failed <= NAMED_MAX {
                        let (where_, reason) = (whereabouts(picture.place.page, &picture.part), error.full());
                        warnings.push(format!("A picture{where_} was not read: {reason}"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if failed > NAMED_MAX {
            let more = weft_core::value::plural_with(failed - NAMED_MAX, "more picture", ["was", "were"]);
            warnings.push(format!("{more} not read"));
        }
        Ok(readings)
    }
}

/// Maps the lines of a picture to positions on its page.
fn placed(place: Position, lines: Vec<PictureLine>) -> Vec<ReadingLine> {
    let (width, height) = (place.right - place.left, place.bottom - place.top);
    let on_page = |share: PicturePlace| Position {
        page: place.page,
        left: place.left + share.left * width,
        right: place.left + share.right * width,
        top: place.top + share.top * height,
        bottom: place.top + share.bottom * height,
    };
    let mut left = TEXT_CHARS_MAX;
    let mut kept = Vec::new();
    for PictureLine { text, place } in lines {
        let count = text.chars().count() + 1;
        if count > left {
            break;
        }
        left -= count;
        kept.push(ReadingLine { text, place: place.map(on_page) });
    }
    kept
}

/// Number of bytes in which the headers of a mail are looked for.
const MAIL_HEADERS_MAX: usize = 64 << 10;

/// Whether a file may contain pictures that have to be read.
fn may_hold_pictures(bytes: &[u8]) -> bool {
    // This check saves most files a worker process.
    let start = &bytes[..bytes.len().min(1_024)];
    start.windows(5).any(|bytes| bytes == b"%PDF-")
        || start.starts_with(b"PK\x03\x04")
        || crate::pictures::of_file(bytes).is_some()
        || start.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
        || holds(&bytes[..bytes.len().min(MAIL_HEADERS_MAX)], b"mime-version:")
        || holds(bytes, b"data:image/")
}

/// Runs [`may_hold_pictures`] off the async threads, since it scans files of many MiB.
async fn may_need_pictures_read(bytes: &Bytes) -> bool {
    let bytes = bytes.clone();
    let looked = tokio::task::spawn_blocking(move || may_hold_pictures(&bytes)).await;
    // If the check failed, the search for pictures finds out that there are none.
    looked.unwrap_or(true)
}

/// Whether some bytes contain this text, ignoring ASCII case.
fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|some| some.eq_ignore_ascii_case(wanted))
}

/// Media type of a recording; `None` for any other file.
fn recording(name: &str, bytes: &[u8]) -> Option<&'static str> {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
    match bytes {
        [b'I', b'D', b'3', ..] => Some("audio/mpeg"),
        // Two bytes say little, so the extension has to agree.
        [0xff, 0xe0..=0xff, ..] if matches!(ending.as_str(), "mp3" | "mpga" | "mpeg") => Some("audio/mpeg"),
        [0xff, 0xf0..=0xff, ..] if ending == "aac" => Some("audio/aac"),
        [b'O', b'g', b'g', b'S', ..] => Some("audio/ogg"),
        [b'f', b'L', b'a', b'C', ..] => Some("audio/flac"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some("audio/wav"),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some("audio/webm"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some("audio/mp4"),
        _ => None,
    }
}

fn text<'a>(request: &'a ReadRequest, key: &str) -> &'a str {
    request.settings.get(key).and_then(Json::as_str).unwrap_or_default()
}

impl MediaReader {
    /// Warnings about settings of the compatible API that have no effect here, by name.
    fn without_effect(&self, request: &ReadRequest) -> Vec<String> {
        let mut warnings = Vec::new();
        match text(request, "layout_recognize") {
            "" | "DeepDOC" | "Plain Text" => {}
            other => {
                let by = self.pictures.as_ref().map_or("nothing", |pictures| pictures.name());
                warnings.push(format!(
                    "`layout_recognize` is `{other}`, which is not available: pictures are read by {by} (setting `documents.ocr`)"
                ));
            }
        }
        let number = |key: &str| request.settings.get(key).and_then(Json::as_u64).unwrap_or_default();
        if number("image_context_size") > 0 {
            warnings.push(
                "`image_context_size` has no effect: the text of a picture is placed in the text around it"
                    .to_owned(),
            );
        }
        // Clients of the compatible API send these numbers with every dataset.
        if !matches!(number("task_page_size"), 0 | 12 | 22) {
            warnings.push("`task_page_size` has no effect: a document is read in one piece".to_owned());
        }
        warnings
    }
}

#[async_trait]
impl DocumentReader for MediaReader {
    async fn read(&self, tenant: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        if let (Some(model), Some(media_type)) = (&self.speech, recording(&request.name, &bytes)) {
            let (name, media_type) = (request.name.clone(), media_type.to_owned());
            let recording = Recording { name, media_type, bytes };
            return self.written_down(&**model, tenant, request, recording).await;
        }
        let mut warnings = self.without_effect(request);
        let mut reader = self.pictures.as_ref().filter(|_| text(request, "layout_recognize") != "Plain Text");
        if reader.is_some() && !may_need_pictures_read(&bytes).await {
            reader = None;
        }
        let readings = match reader {
            Some(reader) => {
                let found =
                    self.documents.pictures(tenant, request, bytes.clone()).await.unwrap_or_else(|error| {
                        // The text of the file can perhaps be read without the pictures.
                        FoundPictures { pictures: Vec::new(), warnings: vec![error.full()] }
                    });
                warnings.extend(found.warnings);
                self.read_pictures(&**reader, tenant, found.pictures, &mut warnings).await?
            }
            None => Vec::new(),
        };
        let read = if readings.is_empty() {
            self.documents.read(tenant, request, bytes).await
        } else {
            self.documents.read_with(tenant, request, bytes, &readings).await
        };
        // When a file has no text at all, the reason is that its pictures could not be read, so the error says why.
        let mut read = read.map_err(|error| {
            if warnings.is_empty() || self.pictures.is_none() {
                error
            } else {
                Error::new(error.kind, format!("{}. {}", error.full(), warnings.join(". ")))
            }
        })?;
        read.warnings.extend(warnings);
        Ok(read)
    }

    async fn pictures(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
    ) -> Result<FoundPictures> {
        self.documents.pictures(tenant, request, bytes).await
    }

    async fn kept_pictures(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        wanted: &[u32],
    ) -> Result<FoundPictures> {
        self.documents.kept_pictures(tenant, request, bytes, wanted).await
    }

    fn knows(&self, name: &str) -> bool {
        self.documents.knows(name)
    }

    async fn read_with(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        readings: &[PictureReading],
    ) -> Result<ReadDocument> {
        self.documents.read_with(tenant, request, bytes, readings).await
    }

    fn watched(&self, watcher: Arc<dyn ModelWatcher>) -> Option<Arc<dyn DocumentReader>> {
        let pictures = self.pictures.clone().map(|reader| watched_reader(reader, Arc::clone(&watcher)));
        let speech = self.speech.clone().map(|speech| watched_transcription(speech, watcher));
        Some(Arc::new(Self::new(Arc::clone(&self.documents), pictures, speech)))
    }
}
