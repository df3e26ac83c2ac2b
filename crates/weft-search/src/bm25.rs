//! How much a word in a chunk says about it (Robertson's BM25).

/// How quickly further occurrences of a word in a chunk count less.
// Within the usual range of BM25's parameter k1, from 1.2 to 2.
const SATURATION: f32 = 1.5;
/// How much long chunks are penalised.
// The usual value of BM25's parameter b.
const LENGTH_SHARE: f32 = 0.75;

/// Returns the inverse document frequency of a word, on a logarithmic scale; above 0 for every word.
pub(crate) fn rarity(total: usize, holding: usize) -> f32 {
    let (total, holding) = (real(total), real(holding.min(total)));
    // Without the 1, a word in more than half of the chunks would lower their scores.
    (1.0 + (total - holding + 0.5) / (holding + 0.5)).ln()
}

/// Returns the term added to a word's frequency in the denominator, for chunks of a given length.
pub(crate) fn damping(length: f32, average: f32) -> f32 {
    // An empty index has an average of 0, which must not be a divisor.
    SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length / average.max(1.0))
}

/// Returns the share of a word's weight that a chunk gets: 1 for one occurrence in a chunk of average length.
pub(crate) fn share(frequency: f32, damping: f32) -> f32 {
    frequency * (SATURATION + 1.0) / (frequency + damping)
}

/// Converts a count to a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts of chunks need no more than 24 bits")]
pub(crate) fn real(count: usize) -> f32 {
    count as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_occurrence_in_an_average_chunk_scores_one() {
        assert!((share(1.0, damping(80.0, 80.0)) - 1.0).abs() < 1e-6);
        assert!(share(2.0, damping(80.0, 80.0)) < 2.0);
        assert!(share(1.0, damping(160.0, 80.0)) < 1.0);
        assert!(share(1.0, damping(0.0, 0.0)) > 1.0);
    }

    #[test]
    fn no_word_lowers_the_score_of_a_chunk() {
        for (total, holding) in [(0, 0), (1, 1), (10, 10), (10, 99), (1_000_000, 1)] {
            assert!(rarity(total, holding) > 0.0, "{total} {holding}");
        }
        assert!(rarity(100, 1) > rarity(100, 2));
    }
}
