//! Searches several states for one question.
//!
//! The postings list of every word of the question is read to its end, and its shares are summed up in one
//! number per chunk. This makes the number of matches and the score of every chunk exact, and as long as the
//! numbers of a part fit into the processor's cache it costs less than skipping.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{TERMINATED, Term};
use weft_core::id::{DatasetId, DocumentId};
use weft_core::seam::index::{Hit, IndexAnswer, IndexQuery};
use weft_core::{Error, Result};

use super::snapshot::{COMPARED_MAX, IndexPart, Snapshot, is_set};
use crate::best::Best;
use crate::bm25;
use crate::question::{self, Scale, Word};
use crate::vectors::{QuestionVector, mean_cosine};
use crate::wrong_dimension;

/// Shares for frequencies below this are looked up instead of computed.
const FREQUENCIES: usize = 8;

/// How many of the vectors that may be near are compared exactly: this many for each one wanted, at least
/// this many, and at least this fraction (1/n) of all.
const COMPARED_FOR_EACH: usize = 16;
const COMPARED_MIN: usize = 1 << 14;
const COMPARED_SHARE: usize = 48;

/// A chunk: the index of its part among those searched, and its number there.
type Place = (u32, u32);

/// A part being searched.
struct SearchedPart<'a> {
    dataset: &'a DatasetId,
    snapshot: &'a Snapshot,
    part: &'a IndexPart,
    /// The chunks that pass the conditions; if absent, all that are alive.
    allowed: Option<Vec<u64>>,
}

impl SearchedPart<'_> {
    fn allowed(&self) -> &[u64] {
        self.allowed.as_deref().unwrap_or(&self.part.alive)
    }

    /// Upper bound on the number of its vectors that pass the conditions.
    fn vectors(&self) -> usize {
        let passing = self.allowed().iter().map(|word| word.count_ones() as usize).sum();
        self.part.contents.rows.chunks().len().min(passing)
    }
}

/// Searches the states of datasets. `scores` is a buffer that can be reused.
pub(super) fn search(
    datasets: &[(DatasetId, Arc<Snapshot>)],
    query: &IndexQuery,
    words_field: Field,
    scores: &mut Vec<f32>,
) -> Result<IndexAnswer> {
    let wanted = match &query.vector {
        Some(vector) => {
            for (id, snapshot) in datasets {
                let dimension = snapshot.size.dimension;
                if dimension != 0 && dimension != vector.vector.len() {
                    return Err(wrong_dimension(id, vector.vector.len(), dimension));
                }
            }
            QuestionVector::new(&vector.vector)
        }
        None => None,
    };
    let (parts, fitting) = parts(datasets, query);
    // Before the words, which note the scores of these chunks along the way.
    let by_vector = match (&wanted, &query.vector) {
        (Some(wanted), Some(vector)) => nearest(&parts, wanted, vector.cosine_min, query.count_max),
        _ => Vec::new(),
    };
    let words = query.text.as_ref().map(question::words).unwrap_or_default();
    let mut text = TextPart::new(datasets, &parts, &words, words_field)?;
    let vector_places: Vec<Place> = by_vector.iter().map(|(_, place)| *place).collect();
    let by_text = text.run(&parts, query.count_max, &vector_places, scores);
    let (cosine_mean, cosine_count) = match (&wanted, &query.vector) {
        (Some(_), Some(vector)) => usual_cosine(datasets, &vector.vector),
        _ => (0.0, 0),
    };
    let mut answer = IndexAnswer {
        bm25_scale: text.once,
        cosine_mean,
        cosine_count,
        text_total: text.total,
        fitting,
        ..IndexAnswer::default()
    };
    let mut hits: HashMap<Place, usize> = HashMap::new();
    for (rank, (cosine, place)) in by_vector.into_iter().enumerate() {
        hits.insert(place, answer.hits.len());
        let text = text.of_vectors.get(&place).copied().unwrap_or_default();
        answer.hits.push(Hit { cosine: Some(cosine), vector_rank: Some(rank), ..hit(&parts, place, text) });
    }
    let mut cosines = HashMap::new();
    if let Some(wanted) = &wanted {
        let row = |(part, chunk): Place| Some((part, parts[part as usize].part.contents.rows.row_of(chunk)?));
        let by_words_alone =
            by_text.iter().map(|(_, place)| *place).filter(|place| !hits.contains_key(place));
        compare(&parts, wanted, by_words_alone.filter_map(row).collect(), &mut |cosine, place| {
            cosines.insert(place, cosine);
        });
    }
    for (rank, (score, place)) in by_text.into_iter().enumerate() {
        match hits.get(&place) {
            Some(known) => answer.hits[*known].text_rank = Some(rank),
            None => {
                let cosine = cosines.get(&place).copied();
                answer.hits.push(Hit { cosine, text_rank: Some(rank), ..hit(&parts, place, score) });
            }
        }
    }
    answer.names = names(datasets, &answer.hits);
    Ok(answer)
}

/// Returns the names of the documents of hits.
fn names(datasets: &[(DatasetId, Arc<Snapshot>)], hits: &[Hit]) -> BTreeMap<DocumentId, String> {
    let found: HashSet<(&DatasetId, &DocumentId)> =
        hits.iter().map(|hit| (&hit.dataset, &hit.document)).collect();
    let name = |(dataset, document): (&DatasetId, &DocumentId)| {
        let (_, snapshot) = datasets.iter().find(|(id, _)| id == dataset)?;
        let documents = &snapshot.documents;
        let known = documents.get(documents.number(document.as_str())?)?;
        Some((document.clone(), known.name.clone()))
    };
    found.into_iter().filter_map(name).collect()
}

/// Returns the mean cosine over all chunks with vectors, and their number. Computed from the sums of the
/// vectors, without looking at any chunk.
fn usual_cosine(datasets: &[(DatasetId, Arc<Snapshot>)], vector: &[f32]) -> (f32, usize) {
    let mut sum = vec![0.0; vector.len()];
    let mut count = 0;
    for (_, snapshot) in datasets {
        count += snapshot.size.vectors;
        sum.iter_mut().zip(&snapshot.vector_sum).for_each(|(all, own)| *all += own);
    }
    (mean_cosine(vector, &sum, count), count)
}

fn hit(parts: &[SearchedPart<'_>], (part, chunk): Place, text: f32) -> Hit {
    let searched = &parts[part as usize];
    let contents = &searched.part.contents;
    let document = searched.snapshot.documents.get(contents.document(chunk));
    Hit {
        dataset: searched.dataset.clone(),
        document: document.map_or_else(|| DocumentId::new(""), |document| document.id.clone()),
        chunk: contents.id(chunk),
        parent: contents.parent(chunk).cloned(),
        text,
        cosine: None,
        text_rank: None,
        vector_rank: None,
    }
}

/// Returns the parts of all datasets with the chunks that pass the conditions, and the number of documents that do.
fn parts<'a>(
    datasets: &'a [(DatasetId, Arc<Snapshot>)],
    query: &IndexQuery,
) -> (Vec<SearchedPart<'a>>, usize) {
    let chosen: Option<HashSet<&DocumentId>> = query.documents.as_ref().map(|list| list.iter().collect());
    let (mut parts, mut fitting) = (Vec::new(), 0);
    for (dataset, snapshot) in datasets {
        let unasked = chosen.is_none() && query.filter.is_none();
        // Most questions have no conditions: no bits are copied for them.
        if unasked && snapshot.documents.are_available() {
            fitting += snapshot.documents.count();
            parts.extend(snapshot.parts.iter().map(|part| SearchedPart {
                dataset,
                snapshot,
                part,
                allowed: None,
            }));
            continue;
        }
        let mut passing = vec![false; snapshot.documents.numbers()];
        let mut all_pass = true;
        for (number, document) in snapshot.documents.iter() {
            let passes = document.available
                && chosen.as_ref().is_none_or(|chosen| chosen.contains(&document.id))
                && query.filter.as_ref().is_none_or(|filter| filter.matches(&document.metadata));
            passing[number] = passes;
            all_pass &= passes;
            fitting += usize::from(passes);
        }
        for part in &snapshot.parts {
            // If all pass, the bits of living chunks are sufficient.
            let allowed = (!all_pass).then(|| allowed(part, &passing));
            parts.push(SearchedPart { dataset, snapshot, part, allowed });
        }
    }
    (parts, fitting)
}

fn allowed(part: &IndexPart, passing: &[bool]) -> Vec<u64> {
    let mut allowed = part.alive.clone();
    for (at, word) in allowed.iter_mut().enumerate() {
        for bit in set_bits(*word) {
            let chunk = u32::try_from(at * 64).unwrap_or(u32::MAX) + bit;
            if !passing.get(part.contents.document(chunk) as usize).copied().unwrap_or_default() {
                *word &= !(1 << bit);
            }
        }
    }
    allowed
}

/// Returns the chunks nearest to a vector, best first. If there are very many, only those that may be near
/// are compared.
fn nearest(
    parts: &[SearchedPart<'_>],
    wanted: &QuestionVector,
    cosine_min: f32,
    count_max: usize,
) -> Vec<(f32, Place)> {
    let mut best = Best::new(count_max);
    let mut compared = |number, searched: &SearchedPart<'_>| {
        let allowed = searched.allowed();
        searched.part.contents.rows.each(wanted, |chunk| is_set(allowed, chunk), &mut |cosine, chunk| {
            if cosine >= cosine_min {
                best.push(cosine, (number, chunk));
            }
        });
    };
    let candidates: usize = parts.iter().map(SearchedPart::vectors).sum();
    if candidates <= COMPARED_MAX {
        (0_u32..).zip(parts).for_each(|(number, searched)| compared(number, searched));
        return best.into_sorted();
    }
    let for_all = count_max.saturating_mul(COMPARED_FOR_EACH);
    let mut near = Best::new(for_all.max(COMPARED_MIN).max(candidates / COMPARED_SHARE));
    for (number, searched) in (0_u32..).zip(parts) {
        let (allowed, chunks) = (searched.allowed(), searched.part.contents.rows.chunks());
        match searched.part.contents.sketches() {
            None => compared(number, searched),
            Some(sketches) => {
                sketches.each(wanted, |row| is_set(allowed, chunks[row as usize]), &mut |estimate, row| {
                    near.push(estimate, (number, row));
                    near.bar()
                });
            }
        }
    }
    compare(parts, wanted, near.into_entries().collect(), &mut |cosine, place| {
        if cosine >= cosine_min {
            best.push(cosine, place);
        }
    });
    best.into_sorted()
}

/// Compares rows of parts, and calls `found` with their chunks and cosines.
fn compare(
    parts: &[SearchedPart<'_>],
    wanted: &QuestionVector,
    mut rows: Vec<Place>,
    found: &mut impl FnMut(f32, Place),
) {
    // In the order in which they lie in memory.
    rows.sort_unstable();
    for some in rows.chunk_by(|one, other| one.0 == other.0) {
        let number = some[0].0;
        let chosen: Vec<u32> = some.iter().map(|(_, row)| *row).collect();
        let rows = &parts[number as usize].part.contents.rows;
        rows.each_of(wanted, &chosen, &mut |cosine, chunk| found(cosine, (number, chunk)));
    }
}

/// A word with its worth and its postings lists.
struct AskedWord {
    worth: f32,
    lists: Vec<Option<BlockSegmentPostings>>,
}

struct TextPart {
    asked: Vec<AskedWord>,
    average: f32,
    once: f32,
    total: usize,
    of_vectors: HashMap<Place, f32>,
}

fn unreadable(cause: std::io::Error) -> Error {
    Error::internal("cannot read the words of a dataset's index").because(cause)
}

impl TextPart {
    /// Looks up the words, and computes their rarity over all datasets.
    fn new(
        datasets: &[(DatasetId, Arc<Snapshot>)],
        parts: &[SearchedPart<'_>],
        words: &[Word],
        field: Field,
    ) -> Result<Self> {
        // Over everything that is searched, whatever the conditions: scores are comparable with and without them.
        let chunks: usize = datasets.iter().map(|(_, snapshot)| snapshot.size.chunks).sum();
        let length: u64 = datasets.iter().map(|(_, snapshot)| snapshot.length).sum();
        let average = bm25::real(usize::try_from(length).unwrap_or(usize::MAX)) / bm25::real(chunks.max(1));
        let mut text = Self { asked: Vec::new(), average, once: 0.0, total: 0, of_vectors: HashMap::new() };
        let mut scale = Scale::default();
        for word in words {
            let term = Term::from_field_text(field, &word.term);
            let mut holding = 0;
            let mut lists = Vec::with_capacity(parts.len());
            for searched in parts {
                let list = searched
                    .part
                    .words
                    .read_block_postings(&term, IndexRecordOption::WithFreqs)
                    .map_err(unreadable)?;
                holding += list.as_ref().map_or(0, |list| count(list, searched.part));
                lists.push(list);
            }
            // A word that no chunk contains would count as the rarest of all, and lower all scores.
            if holding > 0 {
                let worth = word.weight * bm25::rarity(chunks, holding);
                scale.add(word, worth);
                text.asked.push(AskedWord { worth, lists });
            }
        }
        text.once = scale.sum();
        Ok(text)
    }

    /// Returns the chunks with the highest sums, best first. Also notes the sums of the chunks in `noted`.
    fn run(
        &mut self,
        parts: &[SearchedPart<'_>],
        count_max: usize,
        noted: &[Place],
        scores: &mut Vec<f32>,
    ) -> Vec<(f32, Place)> {
        let mut best = Best::new(count_max);
        if self.asked.is_empty() {
            return Vec::new();
        }
        // Lengths are stored in one byte each, so there are only 256 damping values to compute, however many
        // chunks there are.
        let damping: Vec<f32> = (0..=255)
            .map(|code| {
                let length = usize::try_from(FieldNormReader::id_to_fieldnorm(code)).unwrap_or(usize::MAX);
                bm25::damping(bm25::real(length), self.average)
            })
            .collect();
        let shares = WordShares::new(&damping);
        for (number, searched) in (0_u32..).zip(parts) {
            let lengths = searched.part.contents.lengths();
            scores.clear();
            scores.resize(lengths.len(), 0.0);
            for asked in &mut self.asked {
                if let Some(list) = &mut asked.lists[number as usize] {
                    add(list, asked.worth, &shares, lengths, scores);
                }
            }
            let blocks = scores.chunks(u64::BITS as usize).zip(searched.allowed());
            for (first, (scores, allowed)) in (0_u32..).step_by(u64::BITS as usize).zip(blocks) {
                self.total += held(scores, *allowed);
                // Few are better than those already found: most blocks are done after a single look at all
                // their scores.
                let bar = best.bar();
                if scores.iter().fold(false, |any, score| any | (*score > bar)) {
                    for bit in set_bits(*allowed) {
                        if let Some(score) = scores.get(bit as usize).filter(|score| **score > 0.0) {
                            best.push(*score, (number, first + bit));
                        }
                    }
                }
            }
            for (part, chunk) in noted.iter().filter(|(part, _)| *part == number) {
                self.of_vectors.insert((*part, *chunk), scores[*chunk as usize]);
            }
        }
        best.into_sorted()
    }
}

/// Returns the positions of the set bits of a word.
fn set_bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

/// Number of chunks in a block that contain a word of the question and pass the conditions.
fn held(scores: &[f32], allowed: u64) -> usize {
    let holds = |score: &f32| *score > 0.0;
    // In most blocks hardly any chunk is left out, so all are counted together and the few are subtracted.
    let left_out = set_bits(!allowed).filter(|bit| scores.get(*bit as usize).is_some_and(holds));
    scores.iter().filter(|score| holds(score)).count() - left_out.count()
}

/// Number of living chunks in a postings list.
fn count(list: &BlockSegmentPostings, part: &IndexPart) -> usize {
    // Without deletions the list's own count is exact, and nothing has to be read.
    if !part.has_dead {
        return list.doc_freq() as usize;
    }
    let mut list = list.clone();
    let mut count = 0;
    while list.block_len() > 0 && list.docs().first().is_some_and(|chunk| *chunk != TERMINATED) {
        count += list.docs().iter().filter(|chunk| is_set(&part.alive, **chunk)).count();
        list.advance();
    }
    count
}

/// A chunk's share of a word's worth, by frequency and length.
struct WordShares<'a> {
    damping: &'a [f32],
    known: Vec<[f32; 256]>,
}

impl<'a> WordShares<'a> {
    fn new(damping: &'a [f32]) -> Self {
        let row = |frequency: usize| {
            let mut row = [0.0; 256];
            for (share, damping) in row.iter_mut().zip(damping) {
                *share = bm25::share(bm25::real(frequency), *damping);
            }
            row
        };
        Self { damping, known: (0..FREQUENCIES).map(row).collect() }
    }

    #[inline]
    fn of(&self, frequency: u32, length: u8) -> f32 {
        match self.known.get(frequency as usize) {
            Some(row) => row[usize::from(length)],
            None => bm25::share(bm25::real(frequency as usize), self.damping[usize::from(length)]),
        }
    }
}

/// Adds a word's contribution to the chunks that contain it.
fn add(
    list: &mut BlockSegmentPostings,
    worth: f32,
    shares: &WordShares<'_>,
    lengths: &[u8],
    scores: &mut [f32],
) {
    loop {
        let chunks = list.docs();
        if chunks.first().is_none_or(|chunk| *chunk == TERMINATED) {
            return;
        }
        for (chunk, frequency) in chunks.iter().zip(list.freqs()) {
            let place = *chunk as usize;
            if let (Some(score), Some(length)) = (scores.get_mut(place), lengths.get(place)) {
                *score += worth * shares.of(*frequency, *length);
            }
        }
        list.advance();
    }
}
