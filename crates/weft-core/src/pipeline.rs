//! What goes from one component of an ingestion pipeline to the next: a document, and the chunks that it is cut into.

use serde::{Deserialize, Serialize};

use crate::filter::Metadata;
use crate::id::FileId;
use crate::seam::document_reader::{DocumentPiece, PieceKind, Position, ReadDocument};
use crate::value::{Json, to_text};

/// The output of every component of a pipeline that holds a [`PipelineDocument`].
pub const DOCUMENT: &str = "document";
/// The output that holds a list of [`PipelineChunk`]s, from the component on that cuts.
pub const CHUNKS: &str = "chunks";
/// Chunks of one document, at most.
pub const CHUNKS_MAX: usize = 50_000;

/// What is known of the document that goes through a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineDocument {
    /// Its file.
    pub file: FileId,
    /// What people call it; its ending says what it is.
    pub name: String,
    /// How it is read, by the names of [`ReadRequest::settings`](crate::seam::document_reader::ReadRequest::settings).
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub settings: serde_json::Map<String, Json>,
    /// What was extracted from all of it.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// How many pages, slides or sheets it has; 0 when it has none.
    #[serde(default)]
    pub pages: u32,
    /// Whether its table of contents is wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contents: bool,
    /// How its chunks are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchedBy>,
    /// What could not be read, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl PipelineDocument {
    /// A document of which nothing is known yet but its file.
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

/// How chunks are found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchedBy {
    /// Whether they get vectors.
    pub vectors: bool,
    /// What is searched of each chunk.
    pub field: SearchedField,
}

/// What is searched of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchedField {
    /// Its text.
    #[default]
    Text,
    /// What was extracted as its summary.
    Summary,
    /// What was extracted as the questions that it answers.
    Questions,
}

/// A chunk as the components of a pipeline see it. Members that nothing here knows are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineChunk {
    /// What is shown, cited and given to models.
    pub text: String,
    /// What it is made of.
    #[serde(default, rename = "doc_type_kwd")]
    pub kind: PieceKind,
    /// The headings that it stands under, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// Where it is, in reading order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<Position>,
    /// The larger text that is shown when this one is found.
    #[serde(default, rename = "mom", skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The picture that its text was read in, see [`DocumentPiece::picture`].
    #[serde(default, rename = "picture_number", skip_serializing_if = "Option::is_none")]
    pub picture: Option<u32>,
    /// How many tokens the text has.
    #[serde(default)]
    pub tokens: u32,
    /// What is searched where the text is, if that is something else: the question of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<String>,
    /// Typed columns, of a row of a table.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub columns: serde_json::Map<String, Json>,
    /// What a model has written about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Words that it is to be found by: a list, or a text with commas.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub keywords: Json,
    /// Questions that it answers: a list, or a text with one in each line.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub questions: Json,
    /// What was extracted for the document's metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// What else there is.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Json>,
}

/// The chunks of a document that was read.
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

/// A list or a text, cut at these characters: trimmed, without what is empty and what comes again.
fn entries(value: &Json, between: &[char]) -> Vec<String> {
    let texts: Vec<String> = match value {
        Json::Array(items) => items.iter().map(to_text).collect(),
        Json::Null => Vec::new(),
        other => to_text(other).split(between).map(str::to_owned).collect(),
    };
    // With a table: a model, or a component that puts texts together, may give a hundred thousand of them.
    let mut entries: indexmap::IndexSet<&str> = indexmap::IndexSet::new();
    entries.extend(texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()));
    entries.into_iter().map(str::to_owned).collect()
}

impl PipelineChunk {
    /// The words that it is to be found by.
    pub fn keyword_list(&self) -> Vec<String> {
        entries(&self.keywords, &[',', '，', ';', '；', '\n'])
    }

    /// The questions that it answers.
    pub fn question_list(&self) -> Vec<String> {
        entries(&self.questions, &['\n'])
    }

    fn piece(self, field: SearchedField) -> (DocumentPiece, Option<String>) {
        let (keywords, questions) = (self.keyword_list(), self.question_list());
        let written = match field {
            SearchedField::Text => None,
            // A model that has written nothing must not make the chunk unfindable: then its text is searched.
            SearchedField::Summary => self.summary.filter(|summary| !summary.trim().is_empty()),
            SearchedField::Questions => Some(questions.join("\n")).filter(|text| !text.is_empty()),
        };
        let tokens = match self.tokens {
            // Four characters of a Latin text are about a token.
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

/// A document with its chunks, as datasets take it. Chunks without a text are left out; what was extracted for metadata
/// from several chunks becomes lists.
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
        // Behind its metadata, which is of the document and counts without a text as well.
        if chunk.text.trim().is_empty() {
            continue;
        }
        let (mut piece, parent) = chunk.piece(field);
        if let Some(content) = parent {
            // Pieces of one parent follow each other, so looking at the last one is enough.
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

/// Values of one key of a document's metadata, at most.
const VALUES_MAX: usize = 100;

/// Adds a value that filters can look at: a text, a number, or lists of these.
fn add(metadata: &mut Metadata, key: String, value: Json) {
    let new: Vec<Json> = match value {
        Json::Array(items) => items,
        one => vec![one],
    };
    // Filters compare texts and numbers alone; anything else would be kept and never found.
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
    fn a_chunk_of_many_keywords_is_read_in_moments() {
        let begun = std::time::Instant::now();
        let words: Vec<String> = (0..60_000).map(|number| format!("keyword {number}")).collect();
        let many = chunk(json!({"text": "a", "keywords": words.join(","), "questions": words}));
        assert_eq!((many.keyword_list().len(), many.question_list().len()), (60_000, 60_000));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn chunks_become_what_datasets_take() {
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
        assert_eq!(json!(chunks)[0]["own"], 1, "what is not known is kept");
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
    fn pieces_become_chunks_and_pieces_again() {
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
        // What a method knows of a pair, of a row of a table, and of a text with tags.
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
