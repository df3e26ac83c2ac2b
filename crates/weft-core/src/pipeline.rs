//! The data passed between the components of an ingestion pipeline: a document, and the chunks it is split into.

use serde::{Deserialize, Serialize};

use crate::filter::Metadata;
use crate::id::FileId;
use crate::seam::document_reader::{DocumentPiece, PieceKind, Position, ReadDocument};
use crate::value::{Json, to_text};

/// The output that contains a [`PipelineDocument`]; every component of a pipeline has it.
pub const DOCUMENT: &str = "document";
/// The output that contains a list of [`PipelineChunk`]s, from the chunking component onward.
pub const CHUNKS: &str = "chunks";
/// Maximum number of chunks of one document.
pub const CHUNKS_MAX: usize = 50_000;

/// A document that passes through a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineDocument {
    /// Its file.
    pub file: FileId,
    /// Its display name; the extension determines the file type.
    pub name: String,
    /// How it is parsed, by the names of
    /// [`ReadRequest::settings`](crate::seam::document_reader::ReadRequest::settings).
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub settings: serde_json::Map<String, Json>,
    /// Metadata extracted from the document as a whole.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Number of pages, slides or sheets; 0 if it has none.
    #[serde(default)]
    pub pages: u32,
    /// Whether its table of contents is requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contents: bool,
    /// How its chunks are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchedBy>,
    /// Parts that could not be read, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl PipelineDocument {
    /// Creates a document of which only the file is known yet.
    pub fn new(file: FileId, name: String) -> Self {
        Self {
            file,
            name,
            settings: serde_json::Map::new(),
            metadata: Metadata::new(),
            pages: 0,
            contents: false,
            search: None,
            warnings: Vec::new(),
        }
    }
}

/// How chunks are searched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchedBy {
    /// Whether they get embeddings.
    pub vectors: bool,
    /// Which text of a chunk is searched.
    pub field: SearchedField,
}

/// Which text of a chunk is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchedField {
    /// Its text.
    #[default]
    Text,
    /// Its extracted summary.
    Summary,
    /// The extracted questions that it answers.
    Questions,
}

/// A chunk as the components of a pipeline see it. Unknown members are retained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineChunk {
    /// The text that is shown, cited and passed to models.
    pub text: String,
    /// The kind of content.
    #[serde(default, rename = "doc_type_kwd")]
    pub kind: PieceKind,
    /// The headings it appears under, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Its positions in the document, in reading order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<Position>,
    /// The larger text that is shown when this chunk is found.
    #[serde(default, rename = "mom", skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The picture that its text was read from; see [`DocumentPiece::picture`].
    #[serde(default, rename = "picture_number", skip_serializing_if = "Option::is_none")]
    pub picture: Option<u32>,
    /// Number of tokens in the text.
    #[serde(default)]
    pub tokens: u32,
    /// The text to search instead of `text`, if different: the question of a question-answer pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<String>,
    /// Typed columns, for a row of a table.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub columns: serde_json::Map<String, Json>,
    /// Its summary, written by a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Keywords to find it by: a list, or a comma-separated text.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub keywords: Json,
    /// Questions that it answers: a list, or a text with one question per line.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub questions: Json,
    /// Values extracted for the document's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// All other members.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Json>,
}

/// Converts the pieces of a parsed document into chunks.
pub fn chunks_of(read: ReadDocument) -> Vec<PipelineChunk> {
    let parents: Vec<String> = read.parents.into_iter().map(|parent| parent.content).collect();
    let listed = |entries: Vec<String>| if entries.is_empty() { Json::Null } else { entries.into() };
    let chunk = |piece: DocumentPiece| PipelineChunk {
        text: piece.content,
        kind: piece.kind,
        headings: piece.headings,
        positions: piece.positions,
        parent: piece.parent.and_then(|at| parents.get(at).cloned()),
        picture: piece.picture,
        tokens: piece.tokens,
        searched: piece.searched,
        columns: piece.fields,
        keywords: listed(piece.keywords),
        questions: listed(piece.questions),
        ..PipelineChunk::default()
    };
    read.pieces.into_iter().map(chunk).collect()
}

/// Returns the entries of a list, or of a text split at these characters: trimmed, without empty entries and
/// duplicates.
fn entries(value: &Json, between: &[char]) -> Vec<String> {
    let texts: Vec<String> = match value {
        Json::Array(items) => items.iter().map(to_text).collect(),
        Json::Null => Vec::new(),
        other => to_text(other).split(between).map(str::to_owned).collect(),
    };
    // Uses a hash set: a model, or a component that joins texts, may produce a hundred thousand entries.
    let mut entries: indexmap::IndexSet<&str> = indexmap::IndexSet::new();
    entries.extend(texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()));
    entries.into_iter().map(str::to_owned).collect()
}

impl PipelineChunk {
    /// Returns the keywords to find it by.
    pub fn keyword_list(&self) -> Vec<String> {
        entries(&self.keywords, &[',', '，', ';', '；', '\n'])
    }

    /// Returns the questions that it answers.
    pub fn question_list(&self) -> Vec<String> {
        entries(&self.questions, &['\n'])
    }

    fn piece(self, field: SearchedField) -> (DocumentPiece, Option<String>) {
        let (keywords, questions) = (self.keyword_list(), self.question_list());
        let written = match field {
            SearchedField::Text => None,
            // If the model wrote nothing, the text is searched instead, so that the chunk can still be found.
            SearchedField::Summary => self.summary.filter(|summary| !summary.trim().is_empty()),
            SearchedField::Questions => Some(questions.join("\n")).filter(|text| !text.is_empty()),
        };
        let tokens = match self.tokens {
            // A token of Latin text is about four characters.
            0 => u32::try_from(self.text.chars().count() / 4 + 1).unwrap_or(u32::MAX),
            tokens => tokens,
        };
        let piece = DocumentPiece {
            kind: self.kind,
            content: self.text,
            searched: written.or(self.searched),
            fields: self.columns,
            headings: self.headings,
            positions: self.positions,
            keywords,
            questions,
            picture: self.picture,
            tokens,
            ..DocumentPiece::default()
        };
        (piece, self.parent)
    }
}

/// Combines a document and its chunks into the form that datasets take. Chunks without text are left out. Metadata
/// extracted from several chunks is merged into lists.
pub fn read_document(document: PipelineDocument, chunks: Vec<PipelineChunk>) -> ReadDocument {
    let field = document.search.as_ref().map(|search| search.field).unwrap_or_default();
    let mut read = ReadDocument {
        metadata: document.metadata,
        pages: document.pages,
        warnings: document.warnings,
        ..ReadDocument::default()
    };
    for mut chunk in chunks {
        for (key, value) in std::mem::take(&mut chunk.metadata) {
            add(&mut read.metadata, key, value);
        }
        // After the metadata has been taken, which belongs to the document and counts even if the chunk has no text.
        if chunk.text.trim().is_empty() {
            continue;
        }
        let (mut piece, parent) = chunk.piece(field);
        if let Some(content) = parent {
            // Chunks of one parent are adjacent, so comparing with the last parent is enough.
            let known = read.parents.last().filter(|last| last.content == content);
            if known.is_none() {
                let (headings, positions) = (piece.headings.clone(), piece.positions.clone());
                let (picture, tokens) = (piece.picture, piece.tokens);
                read.parents.push(DocumentPiece {
                    content,
                    headings,
                    positions,
                    picture,
                    tokens,
                    ..DocumentPiece::default()
                });
            }
            piece.parent = Some(read.parents.len() - 1);
        }
        read.pieces.push(piece);
    }
    read
}

/// Maximum number of values per key of a document's metadata.
const VALUES_MAX: usize = 100;

/// Adds a value that filters can compare: a text, a number, or a list of these.
fn add(metadata: &mut Metadata, key: String, value: Json) {
    let new: Vec<Json> = match value {
        Json::Array(items) => items,
        one => vec![one],
    };
    // Filters compare only texts and numbers; anything else would be stored but never found.
    let plain = |value: &Json| match value {
        Json::String(text) => !text.trim().is_empty(),
        Json::Number(_) => true,
        _ => false,
    };
    let mut values: Vec<Json> = match metadata.remove(&key) {
        Some(Json::Array(items)) => items,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    for value in new.into_iter().filter(plain) {
        if values.len() < VALUES_MAX && !values.contains(&value) {
            values.push(value);
        }
    }
    match values.len() {
        0 => {}
        1 => drop(metadata.insert(key, values.remove(0))),
        _ => drop(metadata.insert(key, values.into())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chunk(value: Json) -> PipelineChunk {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_chunk_of_many_keywords_is_read_quickly() {
        let begun = std::time::Instant::now();
        let words: Vec<String> = (0..60_000).map(|number| format!("keyword {number}")).collect();
        let many = chunk(json!({"text": "a", "keywords": words.join(","), "questions": words}));
        assert_eq!((many.keyword_list().len(), many.question_list().len()), (60_000, 60_000));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn chunks_are_converted_for_datasets() {
        let document = PipelineDocument {
            metadata: json!({"title": "T"}).as_object().unwrap().clone(),
            pages: 3,
            search: Some(SearchedBy { vectors: true, field: SearchedField::Summary }),
            ..PipelineDocument::new("f".into(), "a.md".to_owned())
        };
        let chunks = vec![
            chunk(json!({"text": "a", "summary": "A", "keywords": "x, y，x", "questions": "q?\n\nr?",
                "metadata": {"city": "Bonn", "odd": {"a": 1}, "year": 1}, "own": 1})),
            chunk(
                json!({"text": "b", "mom": "bc", "keywords": ["z"], "metadata": {"city": ["Ulm", "Bonn"]}}),
            ),
            chunk(json!({"text": "c", "mom": "bc", "summary": " "})),
            chunk(json!({"text": " "})),
        ];
        assert_eq!(json!(chunks)[0]["own"], 1, "unknown fields are kept");
        let read = read_document(document, chunks);
        assert_eq!(json!(read.metadata), json!({"title": "T", "city": ["Bonn", "Ulm"], "year": 1}));
        let seen: Vec<_> = read
            .pieces
            .iter()
            .map(|piece| (piece.content.as_str(), piece.searched.as_deref(), piece.parent))
            .collect();
        assert_eq!(seen, [("a", Some("A"), None), ("b", None, Some(0)), ("c", None, Some(0))]);
        assert_eq!(read.pieces[0].keywords, ["x", "y"]);
        assert_eq!(read.pieces[0].questions, ["q?", "r?"]);
        assert_eq!((read.parents.len(), read.pages), (1, 3));
    }

    #[test]
    fn pieces_and_chunks_round_trip() {
        let position = Position { page: 2, left: 1.0, ..Position::default() };
        let piece = |content: &str, parent| DocumentPiece {
            content: content.to_owned(),
            positions: vec![position],
            headings: vec!["H".to_owned()],
            tokens: 7,
            picture: Some(3),
            parent,
            ..DocumentPiece::default()
        };
        // The fields of a question-answer pair, of a table row, and of a text with tags.
        let known = DocumentPiece {
            searched: Some("Which?".to_owned()),
            fields: json!({"price": 12.5}).as_object().unwrap().clone(),
            keywords: vec!["oil, heavy".to_owned()],
            questions: vec!["Why?".to_owned()],
            ..piece("a", None)
        };
        let read = ReadDocument {
            pieces: vec![known, piece("b", Some(0))],
            parents: vec![piece("whole", None)],
            ..ReadDocument::default()
        };
        let chunks = chunks_of(read.clone());
        let written: Vec<PipelineChunk> = serde_json::from_value(json!(chunks)).unwrap();
        assert_eq!(written, chunks);
        assert_eq!(read_document(PipelineDocument::new("f".into(), "a.md".to_owned()), chunks), read);
    }
}
