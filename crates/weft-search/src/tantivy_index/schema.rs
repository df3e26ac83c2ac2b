//! The stored format of chunks and documents.
//!
//! A chunk is one entry with its words, its ids and its vector; a document is a separate entry with its
//! metadata. A single commit therefore holds everything that belongs together, and there is no second file
//! that could disagree after a crash.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tantivy::TantivyDocument;
use tantivy::schema::{
    Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value as _,
};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use weft_core::filter::Metadata;
use weft_core::id::{ChunkId, DocumentId};
use weft_core::seam::index::{IndexedChunk, IndexedDocument};
use weft_core::{Error, Result};

use crate::analysis::{each_word_of, language_of};
use crate::fields;
use crate::vectors::VectorRow;

/// Incremented when the format of entries or the rules for words change: an index of another version is rebuilt.
pub(super) const VERSION: &str = "4";
/// Earlier versions.
pub(super) const OLDER_VERSIONS: [&str; 3] = ["1", "2", "3"];
/// The name under which the tokenizer is registered.
pub(super) const WORDS: &str = "weft";

/// The fields of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryFields {
    /// The words by which a chunk is found.
    pub words: Field,
    /// The id of a chunk.
    pub chunk: Field,
    /// The document that a chunk belongs to.
    pub document: Field,
    /// The id of a document, in its own entry.
    pub entry: Field,
    /// The stored record.
    pub record: Field,
}

/// Returns the schema and its fields.
pub(super) fn schema() -> (Schema, EntryFields) {
    let mut schema = Schema::builder();
    // Scores need frequencies; positions are not used.
    let words =
        TextFieldIndexing::default().set_tokenizer(WORDS).set_index_option(IndexRecordOption::WithFreqs);
    // Indexed as a whole and not stored: the record holds the ids.
    let id = STRING;
    let fields = EntryFields {
        words: schema.add_text_field("words", TextOptions::default().set_indexing_options(words)),
        chunk: schema.add_text_field("chunk", id.clone()),
        document: schema.add_text_field("document", id.clone()),
        entry: schema.add_text_field("entry", id),
        record: schema.add_bytes_field("record", STORED),
    };
    (schema.build(), fields)
}

/// The stored record of an entry.
#[derive(Debug)]
pub(super) enum EntryRecord<'a> {
    /// A chunk.
    Chunk {
        /// Its id.
        id: &'a str,
        /// Its document.
        document: &'a str,
        /// The larger chunk that is shown in its place.
        parent: Option<&'a str>,
        /// Its vector: the factor and the numbers.
        vector: Option<(f32, &'a [u8])>,
    },
    /// A document.
    Document(IndexedDocument),
}

const CHUNK: u8 = b'c';
const DOCUMENT: u8 = b'd';
/// In the record of a chunk: no larger chunk is shown in its place.
const WHOLE: u8 = 0;
/// In the record of a chunk: the id of the chunk shown in its place follows.
const PART: u8 = 1;

/// The record of a document's entry.
#[derive(Serialize, Deserialize)]
struct StoredDocument {
    id: DocumentId,
    name: String,
    metadata: Metadata,
    available: bool,
}

/// Builds the entry of a chunk.
pub(super) fn chunk_entry(
    fields: EntryFields,
    document: &DocumentId,
    id: &ChunkId,
    chunk: &IndexedChunk,
    vector: Option<&VectorRow>,
) -> TantivyDocument {
    let mut record = vec![CHUNK];
    // With their lengths: ids are chosen by callers and may contain any character.
    put(&mut record, id.as_str().as_bytes());
    put(&mut record, document.as_str().as_bytes());
    match &chunk.parent {
        None => record.push(WHOLE),
        Some(parent) => {
            record.push(PART);
            put(&mut record, parent.as_str().as_bytes());
        }
    }
    // Last, where it needs no length prefix.
    if let Some(row) = vector {
        record.extend(row.factor.to_le_bytes());
        record.extend(row.values.iter().map(|value| value.to_le_bytes()[0]));
    }
    let mut entry = TantivyDocument::default();
    entry.add_text(fields.words, fields::joined(chunk));
    entry.add_text(fields.chunk, id.as_str());
    entry.add_text(fields.document, document.as_str());
    entry.add_bytes(fields.record, &record);
    entry
}

/// Builds the entry of a document.
pub(super) fn document_entry(fields: EntryFields, document: &IndexedDocument) -> Result<TantivyDocument> {
    let IndexedDocument { id, name, metadata, available } = document.clone();
    let mut record = vec![DOCUMENT];
    serde_json::to_writer(&mut record, &StoredDocument { id, name, metadata, available })
        .map_err(|cause| Error::internal("cannot store a document's metadata").because(cause))?;
    let mut entry = TantivyDocument::default();
    entry.add_text(fields.entry, document.id.as_str());
    entry.add_bytes(fields.record, &record);
    Ok(entry)
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) {
    record.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    record.extend(bytes);
}

fn take<'a>(record: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = record.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *record = rest;
    Some(bytes)
}

/// Returns the stored record of an entry.
pub(super) fn record_of(fields: EntryFields, entry: &TantivyDocument) -> Result<&[u8]> {
    entry.get_first(fields.record).and_then(|value| value.as_bytes()).ok_or_else(damaged)
}

/// Decodes a record.
pub(super) fn read(record: &[u8]) -> Result<EntryRecord<'_>> {
    match record.split_first() {
        Some((&CHUNK, rest)) => chunk(rest).ok_or_else(damaged),
        Some((&DOCUMENT, rest)) => {
            let StoredDocument { id, name, metadata, available } =
                serde_json::from_slice(rest).map_err(|cause| damaged().because(cause))?;
            Ok(EntryRecord::Document(IndexedDocument { id, name, metadata, available }))
        }
        _ => Err(damaged()),
    }
}

fn chunk(mut rest: &[u8]) -> Option<EntryRecord<'_>> {
    let id = std::str::from_utf8(take(&mut rest)?).ok()?;
    let document = std::str::from_utf8(take(&mut rest)?).ok()?;
    let (kind, more) = rest.split_first()?;
    rest = more;
    let parent = match *kind {
        WHOLE => None,
        PART => Some(std::str::from_utf8(take(&mut rest)?).ok()?),
        _ => return None,
    };
    let vector = rest.split_first_chunk::<4>();
    let vector = vector.map(|(factor, values)| (f32::from_le_bytes(*factor), values));
    Some(EntryRecord::Chunk { id, document, parent, vector })
}

fn damaged() -> Error {
    Error::internal("an entry of the index cannot be read").help("rebuild the index of the dataset")
}

/// Tokenizes an entry, repeating each field as often as it counts.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryWords {
    terms: String,
    places: Vec<Range<usize>>,
    token: Token,
}

impl Tokenizer for EntryWords {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.terms.clear();
        self.places.clear();
        let Self { terms, places, token } = self;
        let language = language_of(text);
        fields::each(text, |field, count| {
            let before = places.len();
            each_word_of(field, language, &mut |term, _, _| {
                places.push(terms.len()..terms.len() + term.len());
                terms.push_str(term);
            });
            // Repeated instead of weighted: tantivy expresses the weight of a word only by its frequency.
            let once = before..places.len();
            (1..count).for_each(|_| places.extend_from_within(once.clone()));
        });
        token.reset();
        WordStream { words: self, next: 0 }
    }
}

/// Yields the words one by one.
#[derive(Debug)]
pub(super) struct WordStream<'a> {
    words: &'a mut EntryWords,
    next: usize,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(place) = self.words.places.get(self.next) else { return false };
        self.words.token.text.clear();
        self.words.token.text.push_str(&self.words.terms[place.clone()]);
        self.words.token.position = self.next;
        self.next += 1;
        true
    }

    fn token(&self) -> &Token {
        &self.words.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.words.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::row;

    #[test]
    fn entries_round_trip() {
        let (_, fields) = schema();
        let parent = Some(ChunkId::new("p"));
        let chunk = IndexedChunk { content: "x".to_owned(), parent, ..IndexedChunk::default() };
        let (id, document) = (ChunkId::new("c é"), DocumentId::new(""));
        let vector = row(&[1.0, -0.5]).unwrap();
        let entry = chunk_entry(fields, &document, &id, &chunk, Some(&vector));
        let bytes = record_of(fields, &entry).unwrap();
        let EntryRecord::Chunk { id, document, parent, vector: Some((factor, values)) } =
            read(bytes).unwrap()
        else {
            panic!()
        };
        assert_eq!((id, document, parent), ("c é", "", Some("p")));
        assert_eq!((factor, values), (vector.factor, &[127_u8, 192][..]));
        for end in 0..18 {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        let metadata = serde_json::json!({ "year": [1, "2"] }).as_object().unwrap().clone();
        let name = "d.pdf".to_owned();
        let document = IndexedDocument { id: DocumentId::new("d"), name, metadata, available: false };
        let entry = document_entry(fields, &document).unwrap();
        let EntryRecord::Document(found) = read(record_of(fields, &entry).unwrap()).unwrap() else {
            panic!()
        };
        assert_eq!(found, document);
    }

    #[test]
    fn fields_have_the_right_weights() {
        let chunk =
            IndexedChunk { title: "Title".to_owned(), content: "text".to_owned(), ..IndexedChunk::default() };
        let text = fields::joined(&chunk);
        let mut words = EntryWords::default();
        let mut found = Vec::new();
        words.token_stream(&text).process(&mut |token| found.push(token.text.clone()));
        let titles = found.iter().filter(|word| *word == "titl").count();
        assert_eq!((titles, found.len()), (fields::TITLE_COUNT, fields::TITLE_COUNT + 1));
    }
}
