//! One state of a dataset, which stays unchanged while others are written.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tantivy::directory::{Directory as _, META_LOCK};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::{InvertedIndexReader, Segment, SegmentId};
use tantivy::{Index, Opstamp, SegmentReader, TantivyDocument};
use weft_core::id::{ChunkId, DocumentId};
use weft_core::seam::index::{IndexSize, IndexedDocument};
use weft_core::{Error, Result};

use super::schema::{EntryFields, EntryRecord, read, record_of};
use crate::sketch::Sketches;
use crate::vectors::VectorRows;

/// Maximum number of vectors that are all compared for a question; of more, only those that may be near.
pub(super) const COMPARED_MAX: usize = 1 << 17;
/// Maximum number of vectors in a part without sketches: comparing them directly is as fast.
const UNSKETCHED_MAX: usize = 1 << 12;

/// The documents of a dataset, each with a number that it keeps while the dataset is open.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    entries: Vec<Option<Arc<IndexedDocument>>>,
    numbers: HashMap<DocumentId, u32>,
    count: usize,
    /// Number of these that are not available.
    hidden: usize,
}

impl Documents {
    /// Returns the existing documents with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &IndexedDocument)> {
        self.entries.iter().enumerate().filter_map(|(number, entry)| Some((number, &**entry.as_ref()?)))
    }

    /// Number of documents.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether the chunks of all documents can be found.
    pub(super) fn are_available(&self) -> bool {
        self.hidden == 0
    }

    /// Number of document numbers assigned so far, including those of absent documents.
    pub(super) fn numbers(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of an existing document.
    pub(super) fn number(&self, id: &str) -> Option<u32> {
        self.numbers.get(id).copied()
    }

    /// Returns a document by its number.
    pub(super) fn get(&self, number: u32) -> Option<&IndexedDocument> {
        self.entries.get(usize::try_from(number).ok()?)?.as_deref()
    }

    /// Returns a value with the same numbers but no documents yet.
    fn numbers_of(before: &Self) -> Self {
        Self {
            entries: vec![None; before.entries.len()],
            numbers: before.numbers.clone(),
            count: 0,
            hidden: 0,
        }
    }

    fn put(&mut self, document: &Arc<IndexedDocument>) {
        let number = self.number_for(&document.id);
        let entry = &mut self.entries[number as usize];
        match entry {
            None => self.count += 1,
            Some(known) => self.hidden -= usize::from(!known.available),
        }
        self.hidden += usize::from(!document.available);
        *entry = Some(Arc::clone(document));
    }

    /// Forgets the numbers of documents that are gone; they are not reused.
    fn forget_absent(&mut self) {
        // If reused, a number would lead parts that were read before to another document.
        if self.numbers.len() > self.count {
            let entries = &self.entries;
            self.numbers.retain(|_, number| entries[*number as usize].is_some());
        }
    }

    fn number_for(&mut self, id: &DocumentId) -> u32 {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        let number = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push(None);
        self.numbers.insert(id.clone(), number);
        number
    }
}

/// Marks an entry that belongs to no document.
const NONE: u32 = u32::MAX;

/// The in-memory content of a part of the index. Parts never change, but their entries may be deleted.
#[derive(Debug)]
pub(super) struct PartContents {
    ids: String,
    id_ends: Vec<u32>,
    /// Hashes of the ids, sorted.
    hashes: Vec<u64>,
    documents: Vec<u32>,
    /// Documents whose entries are in this part, with the numbers of these entries.
    entries: Vec<(u32, Arc<IndexedDocument>)>,
    lengths: Vec<u8>,
    /// Ids of the chunks that are shown in place of chunks of this part.
    wholes: Vec<ChunkId>,
    /// For each chunk the 1-based index into `wholes`, or 0 for none; empty if no chunk has one.
    parents: Vec<u32>,
    /// The vectors.
    pub rows: VectorRows,
    sketches: OnceLock<Sketches>,
}

impl PartContents {
    /// Returns the id of a chunk by its number in this part.
    pub(super) fn id(&self, chunk: u32) -> ChunkId {
        ChunkId::new(&self.ids[self.id_range(chunk)])
    }

    fn id_range(&self, chunk: u32) -> Range<usize> {
        let at = chunk as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.id_ends[before]);
        from as usize..self.id_ends[at] as usize
    }

    /// Returns the number of the document that a chunk belongs to.
    pub(super) fn document(&self, chunk: u32) -> u32 {
        self.documents[chunk as usize]
    }

    /// Returns the id of the chunk that is shown in a chunk's place.
    pub(super) fn parent(&self, chunk: u32) -> Option<&ChunkId> {
        let place = self.parents.get(chunk as usize)?.checked_sub(1)?;
        self.wholes.get(place as usize)
    }

    /// Returns the sketches of its vectors, if there are any.
    pub(super) fn sketches(&self) -> Option<&Sketches> {
        self.sketches.get()
    }

    fn sketch(&self) {
        if self.rows.chunks().len() > UNSKETCHED_MAX {
            self.sketches.get_or_init(|| Sketches::new(&self.rows));
        }
    }

    /// Returns the lengths of the chunks, in tantivy's encoding.
    pub(super) fn lengths(&self) -> &[u8] {
        &self.lengths
    }

    fn bytes(&self) -> usize {
        self.ids.capacity()
            + self.id_ends.capacity() * 4
            + self.documents.capacity() * 4
            + self.hashes.capacity() * 8
            + self.lengths.capacity()
            + self.parents.capacity() * 4
            + self.rows.bytes()
            + self.sketches().map_or(0, Sketches::bytes)
    }
}

/// A part of the index, with what is alive in it.
pub(super) struct IndexPart {
    id: SegmentId,
    /// Increases with every deletion in it.
    deletions: Option<Opstamp>,
    /// The words.
    pub words: Arc<InvertedIndexReader>,
    /// Its content in memory.
    pub contents: Arc<PartContents>,
    /// The living documents.
    documents: Vec<Arc<IndexedDocument>>,
    /// One bit per chunk, set if the chunk is alive.
    pub alive: Vec<u64>,
    /// Whether some entries have been deleted.
    pub has_dead: bool,
    /// Number of living chunks, and how many of them have a vector.
    chunks: usize,
    vectors: usize,
    /// Total number of words in the living chunks.
    length: u64,
    /// The sum of their vectors.
    vector_sum: Vec<f64>,
}

/// A part of the next state.
pub(super) enum NextPart {
    /// A part that has not changed.
    Same(Arc<IndexPart>),
    /// A part in which entries were deleted; its content in memory stays the same.
    Changed(Box<SegmentReader>, Arc<PartContents>),
    /// A part that is read for the first time.
    New(Box<SegmentReader>),
}

/// One state of a dataset.
#[derive(Default)]
pub(super) struct Snapshot {
    /// Its parts.
    pub parts: Vec<Arc<IndexPart>>,
    /// Its documents.
    pub documents: Arc<Documents>,
    /// Its size.
    pub size: IndexSize,
    /// Total number of words in its chunks.
    pub length: u64,
    /// The sum of its vectors, each of length 1.
    pub vector_sum: Vec<f64>,
    /// Size in memory, in bytes.
    pub bytes: usize,
}

/// Returns a hash of an id that is stable while the program runs.
pub(super) fn hash(id: &str) -> u64 {
    foldhash::fast::FixedState::default().hash_one(id)
}

/// Whether a bit is set.
#[inline(always)]
pub(super) fn is_set(bits: &[u64], place: u32) -> bool {
    bits.get(place as usize / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
}

fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("cannot read the index of a dataset")
        .because(cause)
        .help("rebuild the index of the dataset")
}

impl Snapshot {
    /// Returns the parts that the index has now. Files of parts that are unchanged since this state are not opened.
    pub(super) fn next_parts(&self, index: &Index) -> tantivy::Result<Vec<NextPart>> {
        // Held only while files are opened: a writer that cleans up waits for it.
        let _lock = index.directory().acquire_lock(&META_LOCK)?;
        let open = |segment: &Segment| SegmentReader::open(segment).map(Box::new);
        let next = |segment: &Segment| {
            let before = self.parts.iter().find(|part| part.id == segment.id());
            Ok(match before {
                Some(part) if part.deletions == segment.meta().delete_opstamp() => {
                    NextPart::Same(Arc::clone(part))
                }
                Some(part) => NextPart::Changed(open(segment)?, Arc::clone(&part.contents)),
                None => NextPart::New(open(segment)?),
            })
        };
        index.searchable_segments()?.iter().map(next).collect()
    }

    /// Returns the state after this one.
    pub(super) fn next(&self, next_parts: Vec<NextPart>, fields: EntryFields) -> Result<Self> {
        let mut documents = Documents::numbers_of(&self.documents);
        let mut parts = Vec::with_capacity(next_parts.len());
        for next in next_parts {
            // The reader is dropped after each part. All entries of a new part have been read through it, so
            // its file need not stay mapped.
            let part = match next {
                NextPart::Same(part) => part,
                NextPart::Changed(reader, contents) => Arc::new(IndexPart::new(&reader, fields, contents)?),
                NextPart::New(reader) => {
                    let contents = Arc::new(load(&reader, fields, &mut documents)?);
                    Arc::new(IndexPart::new(&reader, fields, contents)?)
                }
            };
            part.documents.iter().for_each(|document| documents.put(document));
            parts.push(part);
        }
        documents.forget_absent();
        Ok(Self::of(parts, Arc::new(documents)))
    }

    fn of(parts: Vec<Arc<IndexPart>>, documents: Arc<Documents>) -> Self {
        let mut size = IndexSize { documents: documents.count, ..IndexSize::default() };
        let (mut length, mut vector_sum) = (0, Vec::new());
        for part in &parts {
            size.chunks += part.chunks;
            size.vectors += part.vectors;
            length += part.length;
            if part.vectors > 0 {
                size.dimension = part.contents.rows.dimension();
                vector_sum.resize(part.vector_sum.len(), 0.0);
                vector_sum.iter_mut().zip(&part.vector_sum).for_each(|(all, own)| *all += own);
            }
        }
        // Done here, when writing or opening, and not when answering a question.
        if size.vectors > COMPARED_MAX {
            parts.iter().for_each(|part| part.contents.sketch());
        }
        let bytes = parts.iter().map(|part| part.contents.bytes() + part.alive.len() * 8).sum();
        Self { parts, documents, size, length, vector_sum, bytes }
    }

    /// Whether a chunk with an id of this hash may exist.
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        self.parts.iter().any(|part| part.contents.hashes.binary_search(&hash).is_ok())
    }

    /// Returns the living chunks: the document's number, the chunk's id, and whether it has a vector.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (u32, &str, bool)> {
        self.parts.iter().flat_map(|part| {
            let contents = &part.contents;
            let alive = (0..contents.documents.len()).filter_map(|at| u32::try_from(at).ok());
            alive.filter(|chunk| is_set(&part.alive, *chunk)).map(|chunk| {
                let has_vector = contents.rows.chunks().binary_search(&chunk).is_ok();
                (contents.document(chunk), &contents.ids[contents.id_range(chunk)], has_vector)
            })
        })
    }
}

fn load(reader: &SegmentReader, fields: EntryFields, documents: &mut Documents) -> Result<PartContents> {
    let count = reader.max_doc() as usize;
    let mut contents = PartContents {
        ids: String::new(),
        id_ends: Vec::with_capacity(count),
        hashes: Vec::with_capacity(count),
        documents: vec![NONE; count],
        entries: Vec::new(),
        lengths: Vec::with_capacity(count),
        wholes: Vec::new(),
        parents: Vec::new(),
        rows: VectorRows::default(),
        sketches: OnceLock::new(),
    };
    let mut places: HashMap<ChunkId, u32> = HashMap::new();
    // Only one block is cached: entries are read once, in order.
    let store = reader.get_store_reader(1).map_err(unreadable)?;
    let entries = store.iter::<TantivyDocument>(reader.alive_bitset());
    for (number, entry) in reader.doc_ids_alive().zip(entries) {
        let entry = entry.map_err(unreadable)?;
        match read(record_of(fields, &entry)?)? {
            EntryRecord::Chunk { id, document, parent, vector } => {
                let end = u32::try_from(contents.ids.len()).map_err(unreadable)?;
                // Entries between chunks are documents or deleted; their ids are empty.
                contents.id_ends.resize(number as usize, end);
                contents.ids.push_str(id);
                contents.hashes.push(hash(id));
                contents.id_ends.push(u32::try_from(contents.ids.len()).map_err(unreadable)?);
                contents.documents[number as usize] = documents.number_for(&DocumentId::new(document));
                if let Some(parent) = parent {
                    contents.parents.resize(count, 0);
                    let wholes = &mut contents.wholes;
                    let place = places.entry(ChunkId::new(parent)).or_insert_with_key(|parent| {
                        wholes.push(parent.clone());
                        u32::try_from(wholes.len()).unwrap_or(0)
                    });
                    contents.parents[number as usize] = *place;
                }
                if let Some((factor, values)) = vector {
                    contents.rows.push(number, factor, values.iter().map(|byte| i8::from_le_bytes([*byte])));
                }
            }
            EntryRecord::Document(document) => contents.entries.push((number, Arc::new(document))),
        }
    }
    let end = u32::try_from(contents.ids.len()).map_err(unreadable)?;
    contents.id_ends.resize(count, end);
    // The content stays the same as long as the part lives, so spare capacity would never be used.
    contents.ids.shrink_to_fit();
    contents.rows.shrink();
    // Sorted, so that ids can be found by binary search.
    contents.hashes.sort_unstable();
    let norms = reader.get_fieldnorms_reader(fields.words).map_err(unreadable)?;
    contents.lengths.extend((0..reader.max_doc()).map(|number| norms.fieldnorm_id(number)));
    Ok(contents)
}

impl IndexPart {
    fn new(reader: &SegmentReader, fields: EntryFields, contents: Arc<PartContents>) -> Result<Self> {
        let mut alive = vec![0_u64; contents.documents.len().div_ceil(64)];
        // A chunk that was already deleted when the part was read is missing here, but is still in the
        // postings lists.
        let mut has_dead = reader.has_deletes();
        let (mut chunks, mut length) = (0, 0);
        for ((number, document), code) in (0_u32..).zip(&contents.documents).zip(&contents.lengths) {
            if *document == NONE {
                continue;
            }
            if reader.is_deleted(number) {
                has_dead = true;
                continue;
            }
            alive[number as usize / 64] |= 1 << (number % 64);
            chunks += 1;
            length += u64::from(FieldNormReader::id_to_fieldnorm(*code));
        }
        let there = |chunk| is_set(&alive, chunk);
        let vectors = contents.rows.chunks().iter().filter(|chunk| there(**chunk)).count();
        let vector_sum = contents.rows.sum(there);
        let entries = contents.entries.iter().filter(|(number, _)| !reader.is_deleted(*number));
        let documents = entries.map(|(_, document)| Arc::clone(document)).collect();
        Ok(Self {
            id: reader.segment_id(),
            deletions: reader.delete_opstamp(),
            words: reader.inverted_index(fields.words).map_err(unreadable)?,
            contents,
            documents,
            alive,
            has_dead,
            chunks,
            vectors,
            length,
            vector_sum,
        })
    }
}
