//! Converts the bytes of a file into the pieces that are searched.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Metadata;
use crate::id::TenantId;
use crate::model_call::ModelWatcher;
use crate::seam::picture_reader::Picture;
use crate::value::{Json, plural_with};

/// Maximum size of one picture stored with a document, in bytes.
pub const KEPT_PICTURE_BYTES_MAX: usize = 8 << 20;
/// Maximum number of pictures stored with one document.
pub const KEPT_PICTURES_MAX: usize = 500;
/// Maximum total size of the pictures stored with one document, in bytes.
pub const KEPT_BYTES_MAX: usize = 64 << 20;
/// Maximum number of page ranges in the `pages` setting of a document. Every piece is compared with each of them.
pub const PAGE_RANGES_MAX: usize = 1_000;

/// How a document is split into chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkMethod {
    /// By sections and sentences, packed up to a number of tokens.
    #[default]
    Naive,
    /// By the headings of a book.
    Book,
    /// By the headers, body and attachments of an e-mail.
    Email,
    /// A recording, transcribed.
    Audio,
    /// By the articles of a law.
    Laws,
    /// By the sections of a manual.
    Manual,
    /// The whole file as one chunk.
    One,
    /// By the abstract and sections of a paper.
    Paper,
    /// A picture, described.
    Picture,
    /// One chunk per slide or page.
    Presentation,
    /// One chunk per question with its answer.
    Qa,
    /// One chunk per row of a table.
    Table,
    /// One chunk per row of a tag set.
    Tag,
    /// By the sections of a résumé.
    Resume,
    /// Like [`Naive`](Self::Naive), plus the entities and relations that the text mentions.
    KnowledgeGraph,
    /// By headings that match the patterns in `title_levels`; used only by pipelines.
    Titles,
}

impl ChunkMethod {
    /// Every method that the settings of a dataset may name.
    pub const ALL: [Self; 15] = [
        Self::Naive,
        Self::Audio,
        Self::Book,
        Self::Email,
        Self::Laws,
        Self::Manual,
        Self::One,
        Self::Paper,
        Self::Picture,
        Self::Presentation,
        Self::Qa,
        Self::Table,
        Self::Tag,
        Self::Resume,
        Self::KnowledgeGraph,
    ];
}

/// The kind of content of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// Text.
    #[default]
    Text,
    /// A table, as HTML.
    Table,
    /// The description or text of a picture.
    Image,
}

/// A rectangle on a page. Coordinates are points from the top left corner of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The page, slide or sheet, counted from 1.
    pub page: u32,
    /// Left edge.
    #[serde(deserialize_with = "coordinate")]
    pub left: f32,
    /// Right edge.
    #[serde(deserialize_with = "coordinate")]
    pub right: f32,
    /// Upper edge.
    #[serde(deserialize_with = "coordinate")]
    pub top: f32,
    /// Lower edge.
    #[serde(deserialize_with = "coordinate")]
    pub bottom: f32,
}

/// Reads a number, clamping it if it is out of range: JSON would represent the resulting infinity as null. Null is
/// read as 0.
fn coordinate<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f32, D::Error> {
    let read = Option::<f64>::deserialize(from)?.unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "within what an `f32` can be")]
    let within = read.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    Ok(within)
}

impl Position {
    /// Returns it in the format of the compatible API: page, left, right, top, bottom.
    pub fn as_json(self) -> Json {
        serde_json::json!([self.page, self.left, self.right, self.top, self.bottom])
    }
}

/// A part of a document that becomes a chunk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentPiece {
    /// The kind of content.
    #[serde(default)]
    pub kind: PieceKind,
    /// The text that is shown, cited and passed to models.
    pub content: String,
    /// The text to search instead of the content, if different: the question of a question-answer pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<String>,
    /// The headings it appears under, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Its positions in the document, in reading order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<Position>,
    /// Keywords to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Questions that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Typed columns, for a row of a table.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub fields: serde_json::Map<String, Json>,
    /// The larger piece that is shown when this one is found: an index into
    /// [`ReadDocument::parents`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// The picture that its text, or the first part of it that comes from a picture, was read from: an index into
    /// [`FoundPictures::pictures`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<u32>,
    /// Number of tokens in the content.
    pub tokens: u32,
}

/// A heading of a document's outline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// Its level, counted from 1 for the outermost.
    pub level: u8,
    /// Its text.
    pub title: String,
    /// The first piece under it: an index into [`ReadDocument::pieces`].
    pub piece: usize,
}

/// A parsed document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadDocument {
    /// The pieces to search, in reading order.
    pub pieces: Vec<DocumentPiece>,
    /// The larger pieces shown in place of smaller ones; never searched.
    #[serde(default)]
    pub parents: Vec<DocumentPiece>,
    /// Its headings, as marked in the file.
    #[serde(default)]
    pub headings: Vec<Heading>,
    /// The metadata of the file: title, author, date.
    #[serde(default)]
    pub metadata: Metadata,
    /// Number of pages, slides or sheets; 0 if it has none.
    #[serde(default)]
    pub pages: u32,
    /// Parts that could not be read, for people.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How a document is to be parsed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// The file's name; the extension determines the type.
    pub name: String,
    /// How it is split.
    pub method: ChunkMethod,
    /// The settings of the method, by their names in the compatible API: `chunk_token_num`, `delimiter`,
    /// `children_delimiter`, `overlapped_percent`, `html4excel`, `pages` … A method ignores settings that it does not
    /// know.
    #[serde(default)]
    pub settings: serde_json::Map<String, Json>,
}

/// A picture in a document whose text has not been recognised yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundPicture {
    /// Its position. Page 0 is the document as a whole.
    pub place: Position,
    /// For an archive, the path of the picture's file within it; empty for other documents, where the position
    /// identifies the picture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Whether the document has text on that page; otherwise the picture is the only content of the page.
    pub is_figure: bool,
    /// The picture.
    pub picture: Picture,
    /// The index of an earlier picture in the list with identical bytes, if the bytes of this one have been dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<u32>,
}

/// The pictures of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundPictures {
    /// Those that can be read, in document order.
    pub pictures: Vec<FoundPicture>,
    /// Which of them cannot be read and why, for people.
    pub warnings: Vec<String>,
}

impl FoundPictures {
    /// Drops the bytes of all pictures except those of `wanted` (indexes into the list) that are stored with the
    /// document: types that browsers display, each picture once, within [`KEPT_PICTURE_BYTES_MAX`],
    /// [`KEPT_PICTURES_MAX`] and [`KEPT_BYTES_MAX`]. The list keeps its length. Idempotent.
    pub fn keep(&mut self, wanted: &[u32]) {
        let wanted: HashSet<u32> = wanted.iter().copied().collect();
        let mut kept: HashMap<Bytes, u32> = HashMap::new();
        let (mut kept_bytes, mut left_out) = (0_usize, 0_usize);
        for (number, one) in (0_u32..).zip(&mut self.pictures) {
            let bytes = std::mem::take(&mut one.picture.bytes);
            if bytes.is_empty() || !wanted.contains(&number) || !is_shown(&one.picture.media_type) {
                continue;
            }
            if let Some(first) = kept.get(&bytes) {
                one.same_as = Some(*first);
                continue;
            }
            let all = kept_bytes.saturating_add(bytes.len());
            if bytes.len() > KEPT_PICTURE_BYTES_MAX || kept.len() >= KEPT_PICTURES_MAX || all > KEPT_BYTES_MAX
            {
                left_out += 1;
                continue;
            }
            kept_bytes = all;
            kept.insert(bytes.clone(), number);
            one.picture.bytes = bytes;
        }
        if left_out > 0 {
            let (one, all) = (KEPT_PICTURE_BYTES_MAX >> 20, KEPT_BYTES_MAX >> 20);
            self.warnings.push(format!(
                "{} only used for its text and not stored: at most {KEPT_PICTURES_MAX} pictures are stored, {one} MiB \
                 each and {all} MiB in total",
                plural_with(left_out, "picture", ["is", "are"])
            ));
        }
    }
}

/// Returns whether browsers display pictures of this type.
// Excludes SVG: a browser that displays one executes the scripts in it.
fn is_shown(media_type: &str) -> bool {
    matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// A line of text in a picture, positioned on the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadingLine {
    /// Its text; empty between two paragraphs.
    pub text: String,
    /// Its position, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Position>,
}

/// The text read from a picture of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureReading {
    /// The position of the picture.
    pub place: Position,
    /// See [`FoundPicture::part`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// See [`FoundPicture::is_figure`].
    pub is_figure: bool,
    /// The picture: an index into [`FoundPictures::pictures`]; absent if the picture itself is not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<u32>,
    /// Its lines in reading order.
    pub lines: Vec<ReadingLine>,
}

/// Parses documents.
///
/// An implementation parses arbitrary bytes without harm to its process, within limits of time and memory. If it
/// parses only a few files at a time, tenants take turns.
#[async_trait]
pub trait DocumentReader: Send + Sync {
    /// Parses a file and splits it into pieces.
    ///
    /// # Errors
    /// `Invalid` with a reason that people understand: the file has an unknown type, is broken, has no text, or is
    /// too large; `Timeout` when it takes too long; `Unavailable` when no process can be started; `RateLimited` when too
    /// many files of the tenant are waiting.
    async fn read(&self, tenant: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument>;

    /// Returns the pictures of a file that contain text which the file itself does not: scanned pages, figures, or
    /// the file as a whole. None if the reader does not support pictures.
    ///
    /// # Errors
    /// As [`DocumentReader::read`].
    async fn pictures(
        &self,
        _tenant: &TenantId,
        _request: &ReadRequest,
        _bytes: Bytes,
    ) -> Result<FoundPictures> {
        Ok(FoundPictures::default())
    }

    /// Returns the same list, with only the bytes of those in `wanted` that are stored with the document; see
    /// [`FoundPictures::keep`].
    ///
    /// # Errors
    /// As [`DocumentReader::read`].
    async fn kept_pictures(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        wanted: &[u32],
    ) -> Result<FoundPictures> {
        let mut found = self.pictures(tenant, request, bytes).await?;
        found.keep(wanted);
        Ok(found)
    }

    /// Parses a file, given the text of some of its pictures.
    ///
    /// # Errors
    /// As [`DocumentReader::read`].
    async fn read_with(
        &self,
        tenant: &TenantId,
        request: &ReadRequest,
        bytes: Bytes,
        _readings: &[PictureReading],
    ) -> Result<ReadDocument> {
        self.read(tenant, request, bytes).await
    }

    /// Returns whether files with the extension of this name can be parsed.
    fn knows(&self, _name: &str) -> bool {
        true
    }

    /// Returns the same reader with its model calls reported to a watcher; `None` if it makes none.
    fn watched(&self, _watcher: Arc<dyn ModelWatcher>) -> Option<Arc<dyn DocumentReader>> {
        None
    }
}

/// A reader that can read no files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReader;

#[async_trait]
impl DocumentReader for NoReader {
    async fn read(&self, _: &TenantId, request: &ReadRequest, _: Bytes) -> Result<ReadDocument> {
        let message = format!("`{}` cannot be read: no document reader is configured", request.name);
        Err(Error::new(ErrorKind::Unavailable, message)
            .help("set the program that reads documents in the configuration"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pictures: &[(&str, usize, u8)]) -> FoundPictures {
        let one = |(media_type, size, byte): &(&str, usize, u8)| FoundPicture {
            picture: Picture {
                media_type: (*media_type).to_owned(),
                bytes: vec![*byte; *size].into(),
                ..Picture::default()
            },
            ..FoundPicture::default()
        };
        FoundPictures { pictures: pictures.iter().map(one).collect(), warnings: Vec::new() }
    }

    fn sizes(found: &FoundPictures) -> Vec<usize> {
        found.pictures.iter().map(|one| one.picture.bytes.len()).collect()
    }

    #[test]
    fn only_wanted_displayable_pictures_are_kept_once_each() {
        let gif = "image/gif";
        let mut all = found(&[(gif, 5, 1), ("image/tiff", 5, 2), (gif, 5, 3), (gif, 5, 1), (gif, 6, 4)]);
        for _ in 0..2 {
            all.keep(&[0, 1, 3, 4, 99]);
            assert_eq!(sizes(&all), [5, 0, 0, 0, 6]);
            let same: Vec<Option<u32>> = all.pictures.iter().map(|one| one.same_as).collect();
            assert_eq!(same, [None, None, None, Some(0), None]);
            assert_eq!(all.warnings, Vec::<String>::new());
        }
    }

    #[test]
    fn kept_pictures_are_limited() {
        let large = KEPT_PICTURE_BYTES_MAX;
        let bytes = |count: u8| (0..count).map(|byte| ("image/png", large, byte)).collect::<Vec<_>>();
        let mut many = found(&[vec![("image/png", large + 1, 99)], bytes(9)].concat());
        many.keep(&(0..10).collect::<Vec<u32>>());
        assert_eq!(sizes(&many)[0], 0);
        assert_eq!(sizes(&many).iter().sum::<usize>(), KEPT_BYTES_MAX);
        assert!(many.warnings[0].starts_with("2 pictures are only used for"), "{:?}", many.warnings);
        let small: Vec<_> = (1..=KEPT_PICTURES_MAX + 3).map(|size| ("image/png", size, 1)).collect();
        let mut small = found(&small);
        small.keep(&(0..1_000).collect::<Vec<u32>>());
        assert_eq!(sizes(&small).iter().filter(|size| **size > 0).count(), KEPT_PICTURES_MAX);
    }

    #[test]
    fn positions_round_trip() {
        let far = r#"{"page": 1, "left": 1e39, "right": -1e300, "top": null, "bottom": 7}"#;
        let read: Position = serde_json::from_str(far).unwrap();
        assert_eq!(read, Position { page: 1, left: f32::MAX, right: f32::MIN, top: 0.0, bottom: 7.0 });
        for place in [read, Position { page: 2, left: 0.1, right: f32::INFINITY, top: f32::NAN, bottom: 5.5 }]
        {
            let again: Position = serde_json::from_str(&serde_json::to_string(&place).unwrap()).unwrap();
            assert!([again.left, again.right, again.top, again.bottom].iter().all(|at| at.is_finite()));
            assert_eq!((again.left, again.bottom), (place.left, place.bottom));
        }
    }
}
