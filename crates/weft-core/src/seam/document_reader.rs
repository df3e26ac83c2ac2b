//! From the bytes of a file to the pieces that are searched.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::filter::Metadata;
use crate::id::TenantId;
use crate::seam::picture_reader::Picture;
use crate::value::Json;
use crate::watched_models::ModelWatcher;

/// Bytes of one picture that is kept beside a document, at most.
pub const KEPT_PICTURE_BYTES_MAX: usize = 8 << 20;
/// Pictures that are kept beside one document, at most.
pub const KEPT_PICTURES_MAX: usize = 500;
/// Bytes of all pictures that are kept beside one document, at most.
pub const KEPT_BYTES_MAX: usize = 64 << 20;
/// Ranges of pages that the setting `pages` of a document may name. Every piece is looked for in each of them.
pub const PAGE_RANGES_MAX: usize = 1_000;

/// How a document is cut into chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkMethod {
    /// Sections and sentences, packed up to a number of tokens.
    #[default]
    Naive,
    /// By the headings of a book.
    Book,
    /// Headers, body and attachments of a mail.
    Email,
    /// A recording, written down.
    Audio,
    /// By the articles of a law.
    Laws,
    /// By the sections of a manual.
    Manual,
    /// The whole file is one.
    One,
    /// Abstract and sections of a paper.
    Paper,
    /// A picture, described.
    Picture,
    /// One for each slide or page.
    Presentation,
    /// One for each question with its answer.
    Qa,
    /// One for each row of a table.
    Table,
    /// One for each row of a set of tags.
    Tag,
    /// By the sections of somebody's résumé.
    Resume,
    /// As [`Naive`](Self::Naive), and with what the text says of whom and what.
    KnowledgeGraph,
    /// By headings that patterns tell, in `title_levels`; pipelines alone choose it.
    Titles,
}

impl ChunkMethod {
    /// Every one that the settings of a dataset may name.
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

/// What a piece is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// Text.
    #[default]
    Text,
    /// A table, as HTML.
    Table,
    /// What is known of a picture.
    Image,
}

/// A rectangle on a page. Coordinates are points from the top left corner of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The page, slide or sheet, from 1 on.
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

/// A number beyond all that a coordinate can be is the outermost one: JSON would have nothing for it, and what was written down
/// with nothing for one could not be read again.
fn coordinate<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f32, D::Error> {
    let read = Option::<f64>::deserialize(from)?.unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "within what an `f32` can be")]
    let within = read.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    Ok(within)
}

impl Position {
    /// As clients of the compatible API read it: page, left, right, top, bottom.
    pub fn as_json(self) -> Json {
        serde_json::json!([self.page, self.left, self.right, self.top, self.bottom])
    }
}

/// A part of a document that becomes a chunk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DocumentPiece {
    /// What it is made of.
    #[serde(default)]
    pub kind: PieceKind,
    /// What is shown, cited and given to models.
    pub content: String,
    /// What is searched in place of the content, where that is something else: the question of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<String>,
    /// The headings that it stands under, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Where it is, in reading order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<Position>,
    /// Words that it is to be found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Questions that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Typed columns, of a row of a table.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub fields: serde_json::Map<String, Json>,
    /// The larger piece that is shown when this one is found: an index into
    /// [`ReadDocument::parents`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// The picture that its text, or the first part of it that comes from one, was read in: an index into
    /// [`FoundPictures::pictures`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<u32>,
    /// How many tokens the content has.
    pub tokens: u32,
}

/// A heading of a document's table of contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// From 1, the outermost, on.
    pub level: u8,
    /// Its text.
    pub title: String,
    /// The first piece below it: an index into [`ReadDocument::pieces`].
    pub piece: usize,
}

/// What a document is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadDocument {
    /// What is searched, in reading order.
    pub pieces: Vec<DocumentPiece>,
    /// What is shown in place of smaller pieces; never searched.
    #[serde(default)]
    pub parents: Vec<DocumentPiece>,
    /// Its headings, as the file itself marks them.
    #[serde(default)]
    pub headings: Vec<Heading>,
    /// What the file says of itself: title, author, date.
    #[serde(default)]
    pub metadata: Metadata,
    /// How many pages, slides or sheets it has; 0 when it has none.
    #[serde(default)]
    pub pages: u32,
    /// What could not be read, for people.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How a document is to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// The file's name; its ending says what it is.
    pub name: String,
    /// How it is cut.
    pub method: ChunkMethod,
    /// The settings of the method, by the names of the compatible API: `chunk_token_num`, `delimiter`,
    /// `children_delimiter`, `overlapped_percent`, `html4excel`, `pages` … Settings that a method does
    /// not know are passed over.
    #[serde(default)]
    pub settings: serde_json::Map<String, Json>,
}

/// A picture of a document whose text is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundPicture {
    /// Where it is. Page 0 is the document as a whole.
    pub place: Position,
    /// The path of the file that it is, within a document that is an archive; empty in others, where the place says which
    /// picture is meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Whether the document has text on that page; otherwise the picture is what the page says.
    pub is_figure: bool,
    /// The picture.
    pub picture: Picture,
    /// An earlier picture of the list that is the same byte for byte, where this one is left without its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<u32>,
}

/// The pictures of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundPictures {
    /// Those that can be read, in the order of the document.
    pub pictures: Vec<FoundPicture>,
    /// What of them cannot, for people.
    pub warnings: Vec<String>,
}

impl FoundPictures {
    /// Takes away the bytes of all pictures but those of `wanted` (indexes of the list) that are kept beside the document:
    /// of a kind that browsers show, each once, within [`KEPT_PICTURE_BYTES_MAX`], [`KEPT_PICTURES_MAX`] and
    /// [`KEPT_BYTES_MAX`]. The list stays as long as it is, and doing the same again changes nothing.
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
                "{left_out} pictures are read but not kept to be shown: {one} MiB each, {KEPT_PICTURES_MAX} pictures and {all} MiB are the most"
            ));
        }
    }
}

/// Whether browsers show pictures of this type.
// No SVG: a browser that shows one runs the programs in it.
fn is_shown(media_type: &str) -> bool {
    matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// A line of a picture, on the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadingLine {
    /// What it says; empty between two paragraphs.
    pub text: String,
    /// Where it is; absent when nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Position>,
}

/// What was read in a picture of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureReading {
    /// Where the picture is.
    pub place: Position,
    /// As in [`FoundPicture`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// As in [`FoundPicture`].
    pub is_figure: bool,
    /// Which picture it is: an index into [`FoundPictures::pictures`]; absent where nobody asks for the picture itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<u32>,
    /// Its lines in reading order.
    pub lines: Vec<ReadingLine>,
}

/// Reads documents.
///
/// An implementation reads any bytes without harm to its process, within limits of time and memory. Where it reads only a
/// few files at the same time, tenants take turns.
#[async_trait]
pub trait DocumentReader: Send + Sync {
    /// Reads a file and cuts it into pieces.
    ///
    /// # Errors
    /// `Invalid` with a reason that a person understands: a kind of file that is not known, a file that
    /// is broken, has no text, or is too large; `Timeout` when it takes too long; `Unavailable` when no
    /// process can be started; `RateLimited` when as many files of the tenant wait already as may.
    async fn read(&self, tenant: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument>;

    /// The pictures of a file that hold text which the file itself does not have: scanned pages, figures, the file
    /// as a whole. None where a reader knows nothing of pictures.
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

    /// The same list, with the bytes of those alone of `wanted` that are kept beside the document, see
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

    /// Reads a file of which some pictures have been read.
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

    /// Whether the ending of a file's name is that of a kind which is read.
    fn knows(&self, _name: &str) -> bool {
        true
    }

    /// The same reader, with somebody who hears of the calls of models that it makes; nothing where it asks none.
    fn watched(&self, _watcher: Arc<dyn ModelWatcher>) -> Option<Arc<dyn DocumentReader>> {
        None
    }
}

/// Where no file can be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReader;

#[async_trait]
impl DocumentReader for NoReader {
    async fn read(&self, _: &TenantId, request: &ReadRequest, _: Bytes) -> Result<ReadDocument> {
        let message = format!("`{}` cannot be read: nothing here reads files", request.name);
        Err(Error::new(ErrorKind::Unavailable, message).help("name a program that does in the configuration"))
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
    fn of_pictures_those_are_kept_that_are_wanted_and_can_be_shown_and_each_once() {
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
    fn pictures_that_are_kept_are_bounded() {
        let large = KEPT_PICTURE_BYTES_MAX;
        let bytes = |count: u8| (0..count).map(|byte| ("image/png", large, byte)).collect::<Vec<_>>();
        let mut many = found(&[vec![("image/png", large + 1, 99)], bytes(9)].concat());
        many.keep(&(0..10).collect::<Vec<u32>>());
        assert_eq!(sizes(&many)[0], 0);
        assert_eq!(sizes(&many).iter().sum::<usize>(), KEPT_BYTES_MAX);
        assert!(many.warnings[0].starts_with("2 pictures are read but not kept"), "{:?}", many.warnings);
        let small: Vec<_> = (1..=KEPT_PICTURES_MAX + 3).map(|size| ("image/png", size, 1)).collect();
        let mut small = found(&small);
        small.keep(&(0..1_000).collect::<Vec<u32>>());
        assert_eq!(sizes(&small).iter().filter(|size| **size > 0).count(), KEPT_PICTURES_MAX);
    }

    #[test]
    fn a_place_that_is_written_down_can_be_read_again() {
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
