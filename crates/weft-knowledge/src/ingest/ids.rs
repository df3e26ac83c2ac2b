//! Ids of chunks.

use std::collections::HashMap;

use weft_core::id::{ChunkId, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::StoredChunk;
use weft_core::seam::document_reader::{DocumentPiece, ReadDocument};

// As long as the ids that existing clients have seen so far: 64 bits.
/// Number of bytes of an id; it is written as twice as many characters.
const ID_BYTES: usize = 8;

/// Distinguishes the ids of parents from those of chunks with the same text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ChunkRole {
    Chunk,
    Parent,
}

/// Assigns the ids of a document's chunks. An id derives from the document, the text, and how often the text
/// occurred before, so that unchanged chunks keep their ids and no two share one.
pub(super) struct Namer<'a> {
    document: &'a DocumentId,
    seen: HashMap<(ChunkRole, blake3::Hash), u64>,
}

impl<'a> Namer<'a> {
    pub(super) fn new(document: &'a DocumentId) -> Self {
        Self { document, seen: HashMap::new() }
    }

    /// Returns the id of the next chunk with this text.
    pub(super) fn chunk(&mut self, content: &str) -> ChunkId {
        self.name(ChunkRole::Chunk, content)
    }

    fn name(&mut self, role: ChunkRole, content: &str) -> ChunkId {
        let before = self.seen.entry((role, blake3::hash(content.as_bytes()))).or_default();
        let mut hasher = blake3::Hasher::new();
        let document = self.document.as_str().as_bytes();
        // The length separates the end of the document's id from the beginning of the text.
        hasher.update(&(document.len() as u64).to_le_bytes()).update(document);
        hasher.update(&[u8::from(role == ChunkRole::Parent)]).update(&before.to_le_bytes());
        hasher.update(content.as_bytes());
        *before += 1;
        let hash = hasher.finalize();
        ChunkId::new(hash.as_bytes()[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

/// The names under which a document's pictures are stored, by their numbers.
pub(crate) type PictureNames = HashMap<u32, String>;

/// Converts what was read into chunks: first those that are found, in reading order, then their parents,
/// which are not.
pub(crate) fn chunks(
    document: &DocumentKey,
    read: ReadDocument,
    pictures: &PictureNames,
    now_ms: i64,
) -> Vec<StoredChunk> {
    let mut namer = Namer::new(&document.id);
    let parents: Vec<ChunkId> =
        read.parents.iter().map(|parent| namer.name(ChunkRole::Parent, &parent.content)).collect();
    let pieces: Vec<(ChunkId, bool, DocumentPiece)> =
        read.pieces.into_iter().map(|piece| (namer.chunk(&piece.content), true, piece)).collect();
    let hidden = read.parents.into_iter().zip(&parents).map(|(parent, id)| (id.clone(), false, parent));
    let all = pieces.into_iter().chain(hidden);
    let found = all.enumerate().map(|(ordinal, (id, available, piece))| StoredChunk {
        id,
        available,
        document: document.clone(),
        ordinal: ordinal as u64,
        kind: piece.kind,
        content: piece.content,
        searched: piece.searched,
        headings: piece.headings,
        positions: piece.positions,
        keywords: piece.keywords,
        questions: piece.questions,
        fields: piece.fields,
        parent: piece.parent.and_then(|parent| parents.get(parent).cloned()),
        picture: piece.picture.and_then(|number| pictures.get(&number).cloned()),
        tokens: piece.tokens,
        vector: None,
        created_ms: now_ms,
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use weft_core::id::{DatasetKey, TenantId};

    use super::*;

    fn key(id: &str) -> DocumentKey {
        DocumentKey::new(&DatasetKey::new(&TenantId::from("t"), "d"), id)
    }

    fn piece(content: &str, parent: Option<usize>) -> DocumentPiece {
        DocumentPiece { content: content.into(), parent, ..DocumentPiece::default() }
    }

    #[test]
    fn equal_texts_get_distinct_stable_ids() {
        let read = |texts: &[&str]| ReadDocument {
            pieces: texts.iter().map(|text| piece(text, None)).collect(),
            ..ReadDocument::default()
        };
        let ids = |document: &str, texts: &[&str]| -> Vec<String> {
            let made = chunks(&key(document), read(texts), &PictureNames::new(), 0);
            made.iter().map(|chunk| chunk.id.to_string()).collect()
        };
        let first = ids("a", &["same", "other", "same"]);
        assert!(first[0] != first[2] && first.iter().all(|id| id.len() == 16));
        assert!(first[0].chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)));
        assert_eq!(
            ids("a", &["new", "same", "same", "other"])[1..],
            [first[0].clone(), first[2].clone(), first[1].clone()]
        );
        assert!(ids("b", &["same", "other", "same"]).iter().all(|id| !first.contains(id)));
    }

    #[test]
    fn parents_are_hidden_and_those_of_other_documents_differ() {
        let read = || ReadDocument {
            pieces: vec![piece("whole", Some(0)), piece("b", Some(0)), piece("c", Some(7))],
            parents: vec![piece("whole", None)],
            ..ReadDocument::default()
        };
        let made = chunks(&key("a"), read(), &PictureNames::new(), 5);
        let available: Vec<bool> = made.iter().map(|chunk| chunk.available).collect();
        assert_eq!(available, [true, true, true, false]);
        assert_eq!(made[0].parent, Some(made[3].id.clone()));
        assert_eq!((made[2].parent.clone(), made[3].parent.clone()), (None, None));
        assert_ne!(made[0].id, made[3].id);
        assert_ne!(chunks(&key("b"), read(), &PictureNames::new(), 5)[3].id, made[3].id);
        assert!(made.iter().map(|chunk| chunk.ordinal).eq(0..4));
    }
}
