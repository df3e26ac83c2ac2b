//! Turns the answer of an index into one ranked list. Performs no I/O: the same answer always gives the same list.
//!
//! Every score is normalised to lie between 0 and 1 without looking at what else was found, so that a
//! threshold means the same for every question:
//!
//! - *text*: `1 − e^(−sum/once)`, where `once` is the score of a chunk of average length that contains every
//!   word of the question once. Every word once gives 0.63, half of them (by rarity) 0.39.
//! - *vector*: `((cosine − usual) / (1 − usual))^0.7`, and 0 where that is negative. `usual` is the mean
//!   cosine of the question with everything that is searched, which is the cosine of an unrelated passage.
//!   Models differ in it more than in anything else (near 0 for some, 0.8 for others); used unchanged, the
//!   cosines of the latter would be nearly constant, so that words alone would decide and a threshold would
//!   have no effect. The exponent keeps passages that answer in other words above a threshold that unrelated
//!   passages do not reach.
//! - *both*: the weighted mean, in which the sixth power of the text score compensates for the vectors' part,
//!   as far as the vectors leave room. A passage that contains nearly all words of the question, some of them
//!   several times, is about it, whatever a model says that may not know its language; up to a text score of
//!   one half this adds next to nothing.
//!
//! A chunk found by one part is never excluded by the other: the parts search independently, and a chunk that
//! a part does not find scores 0 there.

use std::cmp::Ordering;
use std::collections::HashMap;

use weft_core::id::{DatasetId, DocumentId};
use weft_core::seam::index::{Hit, IndexAnswer};

/// The default share of the vectors; determined in docs/quality.md.
pub const VECTOR_WEIGHT: f32 = 0.5;
/// How slowly the value of a rank falls in rank fusion.
// Recommended by Cormack, Clarke and Büttcher (2009), and common since.
pub const RRF_DEPTH: f32 = 60.0;
/// The largest pagerank of a dataset.
pub const PAGERANK_MAX: u32 = 100;
/// How much of the product of a score and its distance to 1 the largest pagerank adds.
const PRIOR_MAX: f32 = 0.5;
/// The number of chunks at which half of the measured usual cosine is trusted: among only a few chunks, those
/// that answer the question make up a large part of the mean.
const USUAL_DOUBT: f32 = 8.0;
/// Gives the first steps away from the usual cosine more weight than the last ones; determined in docs/quality.md.
const VECTOR_EXPONENT: f32 = 0.7;
/// How certain the words have to be before they compensate for what the vectors lack; determined in docs/quality.md.
const SURE_EXPONENT: i32 = 6;
/// The largest usual cosine. Above it, the remaining distance to 1 would consist of rounding errors.
const USUAL_MAX: f32 = 0.98;

/// How the two parts are combined into one score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fusion {
    /// A weighted mean of the normalised scores.
    Weighted {
        /// The share of the vectors, 0 to 1. With 0 only the text part counts, with 1 only the vectors.
        vector_weight: f32,
    },
    /// Reciprocal rank fusion: ranks count, scores do not. A chunk that is first in both parts gets 1.
    Rrf {
        /// The share of the vector part, 0 to 1, as above.
        vector_weight: f32,
        /// How slowly the value of a rank falls; [`RRF_DEPTH`] is common.
        depth: f32,
    },
}

impl Default for Fusion {
    fn default() -> Self {
        Self::Weighted { vector_weight: VECTOR_WEIGHT }
    }
}

impl Fusion {
    fn vector_weight(self) -> f32 {
        let (Self::Weighted { vector_weight } | Self::Rrf { vector_weight, .. }) = self;
        if vector_weight.is_nan() { VECTOR_WEIGHT } else { vector_weight.clamp(0.0, 1.0) }
    }
}

/// How the text scores and the vector scores of a search are combined into one ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankSettings {
    /// How the parts are combined.
    pub fusion: Fusion,
    /// Chunks with a lower score are left out, 0 to 1. The prior of a dataset is not taken into account.
    pub threshold: f32,
    /// The priors of datasets, 0 to [`PAGERANK_MAX`], which prefer some datasets among equally good chunks.
    /// The default is 0.
    pub pageranks: HashMap<DatasetId, u32>,
}

/// A ranked chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The hit.
    pub hit: Hit,
    /// The score that the list is sorted by, 0 to 1.
    pub similarity: f32,
    /// The text score, 0 to 1.
    pub text: f32,
    /// The vector score, 0 to 1; absent without vectors.
    pub vector: Option<f32>,
}

/// Returns the whole ranked list, best first; its length is the exact total. Ties are ordered by text score,
/// then by id.
pub fn rank(answer: &IndexAnswer, settings: &RankSettings) -> Vec<Ranked> {
    let has_vectors = answer.hits.iter().any(|hit| hit.cosine.is_some() || hit.vector_rank.is_some());
    // Without an embedder there is only one part, which determines the whole score.
    let weight = if has_vectors { settings.fusion.vector_weight() } else { 0.0 };
    let scales = Scales { once: answer.bm25_scale, usual: usual_cosine(answer) };
    let mut ranked: Vec<Ranked> = answer
        .hits
        .iter()
        .map(|hit| scored(hit, scales, settings.fusion, weight))
        .filter(|ranked| is_found(ranked, weight) && ranked.similarity >= settings.threshold)
        .collect();
    for one in &mut ranked {
        let pagerank = settings.pageranks.get(&one.hit.dataset).copied().unwrap_or_default();
        one.similarity = lifted(one.similarity, pagerank);
    }
    ranked.sort_by(in_order);
    ranked
}

fn in_order(one: &Ranked, other: &Ranked) -> Ordering {
    let by_score = other.similarity.total_cmp(&one.similarity);
    by_score.then(other.text.total_cmp(&one.text)).then_with(|| one.hit.chunk.cmp(&other.hit.chunk))
}

/// Whether a part that counts has found a chunk. The question's vector is near everything to some degree: a
/// chunk that is no nearer than an unrelated one does not count as found by vector.
fn is_found(ranked: &Ranked, weight: f32) -> bool {
    let by_words = weight < 1.0 && ranked.hit.text_rank.is_some();
    let is_near = ranked.vector.is_some_and(|vector| vector > 0.0);
    by_words || (weight > 0.0 && ranked.hit.vector_rank.is_some() && is_near)
}

/// The reference values for the sums and cosines of an answer.
#[derive(Clone, Copy)]
struct Scales {
    once: f32,
    usual: f32,
}

fn scored(hit: &Hit, scales: Scales, fusion: Fusion, weight: f32) -> Ranked {
    let text = text_score(hit.text, scales.once);
    let vector = hit.cosine.map(|cosine| vector_score(cosine, scales.usual));
    let similarity = match fusion {
        Fusion::Weighted { .. } => both(text, vector.unwrap_or_default(), weight),
        Fusion::Rrf { depth, .. } => {
            let worth = |rank: Option<usize>| rank.map_or(0.0, |rank| worth(rank, depth));
            weight * worth(hit.vector_rank) + (1.0 - weight) * worth(hit.text_rank)
        }
    };
    Ranked { hit: hit.clone(), similarity, text, vector }
}

/// Returns the combined score of both parts, 0 to 1, with the given share of the vectors.
fn both(text: f32, vector: f32, weight: f32) -> f32 {
    // The larger the share of the vectors, the less the words contribute; at a share of 1, not at all.
    let made_up = weight * (2.0 - 2.0 * weight).min(1.0) * text.powi(SURE_EXPONENT) * (1.0 - vector);
    (weight * vector + (1.0 - weight) * text + made_up).min(1.0)
}

/// Returns the value of a rank, 1 for the first.
#[expect(clippy::cast_precision_loss, reason = "places are small")]
fn worth(rank: usize, depth: f32) -> f32 {
    let depth = if depth.is_nan() { RRF_DEPTH } else { depth.clamp(1.0, 1e6) };
    (depth + 1.0) / (depth + 1.0 + rank as f32)
}

/// Converts a BM25 sum to a score between 0 and 1.
pub fn text_score(sum: f32, once: f32) -> f32 {
    let score = 1.0 - (-sum / once).exp();
    // Without a word that was found, `once` is 0 and the quotient is not a number.
    if sum > 0.0 && once > 0.0 { score.clamp(0.0, 1.0) } else { 0.0 }
}

/// Returns the cosine of an unrelated chunk: the mean over everything, trusted less the fewer chunks there are.
#[expect(clippy::cast_precision_loss, reason = "a count beside 8")]
fn usual_cosine(answer: &IndexAnswer) -> f32 {
    let count = answer.cosine_count as f32;
    let usual = answer.cosine_mean * count / (count + USUAL_DOUBT);
    if usual.is_nan() { 0.0 } else { usual.clamp(-1.0, USUAL_MAX) }
}

/// Converts a cosine to a score between 0 (no nearer than an unrelated chunk) and 1 (identical).
pub fn vector_score(cosine: f32, usual: f32) -> f32 {
    let share = (cosine - usual) / (1.0 - usual);
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0).powf(VECTOR_EXPONENT) }
}

/// Returns a score raised by the prior of its dataset: this preserves the order within a dataset, stays below
/// 1, and adds at most an eighth, when the largest pagerank raises a score of one half.
#[expect(clippy::cast_precision_loss, reason = "at most a hundred")]
pub fn lifted(score: f32, pagerank: u32) -> f32 {
    let share = pagerank.min(PAGERANK_MAX) as f32 / PAGERANK_MAX as f32;
    score + PRIOR_MAX * share * score * (1.0 - score)
}

/// Returns the number of ranked chunks per document, largest first; among equals, the better document first.
pub fn documents(ranked: &[Ranked]) -> Vec<(DocumentId, usize)> {
    let mut counts: Vec<(DocumentId, usize)> = Vec::new();
    let mut places: HashMap<&DocumentId, usize> = HashMap::new();
    for one in ranked {
        let place = *places.entry(&one.hit.document).or_insert_with(|| {
            counts.push((one.hit.document.clone(), 0));
            counts.len() - 1
        });
        counts[place].1 += 1;
    }
    // A stable sort: among equal counts, the document whose chunk came first, and is thus the better one,
    // stays first.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Returns one page of the list, counted from 1; empty after the end.
pub fn page(ranked: &[Ranked], number: usize, size: usize) -> &[Ranked] {
    let from = number.saturating_sub(1).saturating_mul(size).min(ranked.len());
    &ranked[from..from.saturating_add(size).min(ranked.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::id::ChunkId;

    fn hit(chunk: &str, text: (f32, Option<usize>), cosine: (Option<f32>, Option<usize>)) -> Hit {
        Hit {
            dataset: DatasetId::new(chunk[..1].to_owned()),
            document: DocumentId::new(chunk[..2].to_owned()),
            chunk: ChunkId::new(chunk),
            parent: None,
            text: text.0,
            cosine: cosine.0,
            text_rank: text.1,
            vector_rank: cosine.1,
        }
    }

    fn answer(hits: Vec<Hit>) -> IndexAnswer {
        IndexAnswer { text_total: hits.len(), hits, bm25_scale: 10.0, ..IndexAnswer::default() }
    }

    fn order(answer: &IndexAnswer, settings: &RankSettings) -> Vec<(String, f32)> {
        let round = |score: f32| (score * 1000.0).round() / 1000.0;
        rank(answer, settings)
            .into_iter()
            .map(|one| (one.hit.chunk.to_string(), round(one.similarity)))
            .collect()
    }

    fn three() -> IndexAnswer {
        answer(vec![
            hit("a1x", (0.0, None), (Some(0.8), Some(0))),
            hit("a2y", (10.0, Some(0)), (Some(0.1), None)),
            hit("b1z", (5.0, Some(1)), (Some(0.6), Some(1))),
        ])
    }

    #[test]
    fn the_weight_ranges_from_words_only_to_vectors_only() {
        let check = |weight: f32, expected: &[(&str, f32)]| {
            let fusion = Fusion::Weighted { vector_weight: weight };
            let found = order(&three(), &RankSettings { fusion, ..RankSettings::default() });
            let found: Vec<(&str, f32)> = found.iter().map(|(id, score)| (id.as_str(), *score)).collect();
            assert_eq!(found, expected, "{weight}");
        };
        check(0.0, &[("a2y", 0.632), ("b1z", 0.393)]);
        check(0.5, &[("b1z", 0.547), ("a2y", 0.441), ("a1x", 0.428)]);
        check(1.0, &[("a1x", 0.855), ("b1z", 0.699)]);
        check(7.0, &[("a1x", 0.855), ("b1z", 0.699)]);
        check(f32::NAN, &[("b1z", 0.547), ("a2y", 0.441), ("a1x", 0.428)]);
    }

    /// The cosines of one model between 0 and 1, and those of another model that gives everything at least
    /// 0.75; taken as they are, only their order would remain.
    fn wide_and_narrow() -> [IndexAnswer; 2] {
        let cosines = [("a1x", 0.0, 0.7), ("a2y", 6.0, 0.15), ("a3z", 3.0, 0.4), ("a4q", 0.0, 0.05)];
        let usual = |mean: f32, narrow: fn(f32) -> f32| IndexAnswer {
            cosine_mean: narrow(mean),
            cosine_count: usize::MAX,
            ..answer(
                cosines
                    .iter()
                    .enumerate()
                    .map(|(place, (id, text, cosine))| {
                        hit(id, (*text, (*text > 0.0).then_some(place)), (Some(narrow(*cosine)), Some(place)))
                    })
                    .collect(),
            )
        };
        [usual(0.1, |cosine| cosine), usual(0.1, |cosine| 0.75 + cosine / 4.0)]
    }

    #[test]
    fn models_with_a_narrow_cosine_range_rank_like_others() {
        let [wide, narrow] = wide_and_narrow();
        for threshold in [0.0, 0.2, 0.4] {
            for weight in [0.3, 0.5, 1.0] {
                let fusion = Fusion::Weighted { vector_weight: weight };
                let settings = RankSettings { fusion, threshold, ..RankSettings::default() };
                assert_eq!(order(&wide, &settings), order(&narrow, &settings), "{threshold} {weight}");
            }
        }
        let found = order(&narrow, &RankSettings { threshold: 0.2, ..RankSettings::default() });
        assert_eq!(found, [("a1x".to_owned(), 0.376), ("a3z".to_owned(), 0.361), ("a2y".to_owned(), 0.295)]);
        // A chunk no nearer than usual is not found by its vector, whatever the threshold.
        assert_eq!(order(&narrow, &RankSettings::default()).len(), 3);
    }

    #[test]
    fn strong_word_matches_compensate_for_weak_vectors() {
        let whole = |text: f32, vector: f32| (both(text, vector, 0.5) * 1000.0).round() / 1000.0;
        // A passage with all the words, and one that a model finds similar for no reason.
        assert!(both(0.95, 0.28, 0.5) - both(0.5, 0.44, 0.5) > 0.35);
        // If neither is certain, it is the mean.
        assert_eq!((whole(0.3, 0.6), whole(0.0, 0.8), whole(0.5, 0.5)), (0.45, 0.4, 0.504));
        for weight in 0..=20_u8 {
            let weight = f32::from(weight) / 20.0;
            for (text, vector) in [(1.0, 0.0), (1.0, 1.0), (0.9, 0.4), (0.0, 0.0)] {
                let score = both(text, vector, weight);
                assert!((0.0..=1.0).contains(&score), "{text} {vector} {weight}: {score}");
                let better = both(text, (vector + 0.1_f32).min(1.0), weight);
                assert!(better > score - 1e-6, "{text} {vector} {weight}");
            }
        }
        assert_eq!((both(0.9, 0.4, 0.0), both(0.9, 0.4, 1.0)), (0.9, 0.4));
    }

    #[test]
    fn a_score_is_independent_of_other_hits() {
        let whole = wide_and_narrow()[1].clone();
        for chosen in 0..whole.hits.len() {
            let alone = IndexAnswer { hits: vec![whole.hits[chosen].clone()], ..whole.clone() };
            let settings = RankSettings::default();
            for one in order(&alone, &settings) {
                assert!(order(&whole, &settings).contains(&one), "{one:?}");
            }
        }
    }

    #[test]
    fn the_mean_cosine_of_few_chunks_has_little_weight() {
        let score = |cosine: f32, mean: f32, count: usize| {
            let found = answer(vec![hit("a1x", (0.0, None), (Some(cosine), Some(0)))]);
            let found = IndexAnswer { cosine_mean: mean, cosine_count: count, ..found };
            let only = Fusion::Weighted { vector_weight: 1.0 };
            let settings = RankSettings { fusion: only, ..RankSettings::default() };
            order(&found, &settings).first().map_or(0.0, |(_, score)| *score)
        };
        // One chunk, and a dataset of its copies.
        assert!(score(0.5, 0.5, 1) > 0.45 && score(0.9, 0.9, 1) > 0.85);
        assert!(score(0.5, 0.5, 100) > 0.0 && score(1.0, 1.0, usize::MAX) > 0.99);
        // Each added chunk changes little.
        let mut before = score(0.9, 0.8, 0);
        for count in 1..1_000 {
            let next = score(0.9, 0.8, count);
            assert!(next <= before && before - next < 0.04, "{count}: {before} {next}");
            before = next;
        }
        assert!((score(0.9, 0.8, 1_000_000) - 0.616).abs() < 0.01);
        // Negative cosines are compared like others.
        assert!(score(0.0, -0.2, 1_000_000) > 0.28 && score(-0.3, -0.2, 1_000_000) == 0.0);
        for (cosine, mean) in [(f32::NAN, 0.0), (0.5, f32::NAN), (2.0, 1.0), (1.0, -9.0)] {
            assert!((0.0..=1.0).contains(&score(cosine, mean, 9)), "{cosine} {mean}");
        }
    }

    #[test]
    fn rank_fusion_uses_ranks() {
        let fusion = Fusion::Rrf { vector_weight: 0.5, depth: 60.0 };
        let found = order(&three(), &RankSettings { fusion, ..RankSettings::default() });
        let found: Vec<(&str, f32)> = found.iter().map(|(id, score)| (id.as_str(), *score)).collect();
        assert_eq!(found, [("b1z", 0.984), ("a2y", 0.5), ("a1x", 0.5)]);
    }

    #[test]
    fn without_vectors_the_text_score_is_the_score() {
        let found = answer(vec![hit("a1x", (10.0, Some(0)), (None, None))]);
        assert_eq!(order(&found, &RankSettings::default()), [("a1x".to_owned(), 0.632)]);
        let only = Fusion::Weighted { vector_weight: 1.0 };
        let settings = RankSettings { fusion: only, ..RankSettings::default() };
        assert_eq!(order(&found, &settings), [("a1x".to_owned(), 0.632)]);
    }

    #[test]
    fn a_pagerank_orders_good_hits_but_lifts_no_bad_one() {
        let found = answer(vec![
            hit("a1x", (10.0, Some(0)), (Some(0.5), Some(0))),
            hit("b1y", (9.0, Some(1)), (Some(0.5), Some(1))),
            hit("b2z", (1.0, Some(2)), (Some(0.02), Some(2))),
        ]);
        let pageranks = HashMap::from([(DatasetId::new("b"), 100)]);
        let with = RankSettings { threshold: 0.2, pageranks, ..RankSettings::default() };
        let without = RankSettings { threshold: 0.2, ..RankSettings::default() };
        let ids = |settings: &RankSettings| -> Vec<String> {
            order(&found, settings).into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(ids(&without), ["a1x", "b1y"]);
        assert_eq!(ids(&with), ["b1y", "a1x"]);
        assert!(lifted(1.0, 1_000) <= 1.0 && lifted(0.0, 100) == 0.0 && lifted(0.5, 100) <= 0.625);
    }

    #[test]
    fn scores_stay_between_zero_and_one() {
        for (sum, once) in [(0.0, 0.0), (-1.0, 1.0), (1.0, 0.0), (f32::NAN, 1.0), (f32::MAX, 1e-9)] {
            assert!((0.0..=1.0).contains(&text_score(sum, once)), "{sum} {once}");
        }
    }

    #[test]
    fn equal_scores_have_a_stable_order() {
        let mut hits: Vec<Hit> = ["a1c", "a1a", "a1b"].map(|id| hit(id, (1.0, Some(0)), (None, None))).into();
        let one = order(&answer(hits.clone()), &RankSettings::default());
        hits.reverse();
        assert_eq!(one, order(&answer(hits), &RankSettings::default()));
        assert_eq!(one[0].0, "a1a");
    }

    #[test]
    fn pages_and_document_counts_cover_the_whole_list() {
        let ids = ["a1a", "a2b", "a2c", "a3d", "a3e"];
        let place = |(rank, id): (usize, &&str)| {
            hit(id, (9.0 - f32::from(u8::try_from(rank).unwrap()), Some(rank)), (None, None))
        };
        let ranked = rank(&answer(ids.iter().enumerate().map(place).collect()), &RankSettings::default());
        let counts: Vec<(String, usize)> =
            documents(&ranked).into_iter().map(|(id, count)| (id.to_string(), count)).collect();
        assert_eq!(counts, [("a2".to_owned(), 2), ("a3".to_owned(), 2), ("a1".to_owned(), 1)]);
        let check = |number: usize, size: usize, expected: &[&str]| {
            let found: Vec<&str> =
                page(&ranked, number, size).iter().map(|one| one.hit.chunk.as_str()).collect();
            assert_eq!(found, expected, "{number} {size}");
        };
        check(1, 2, &["a1a", "a2b"]);
        check(3, 2, &["a3e"]);
        check(4, 2, &[]);
        check(0, 2, &["a1a", "a2b"]);
        check(usize::MAX, usize::MAX, &[]);
    }
}
