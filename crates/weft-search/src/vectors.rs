//! Vectors with one byte per number, and their exhaustive comparison with a question.
//!
//! A vector of length 1 is stored as numbers from −127 to 127 and one factor. The resulting cosine differs
//! from the true one by about 0.0005. Up to a certain size all vectors are compared and no neighbour is
//! missed; beyond it [`crate::sketch`] selects those to compare.

use pulp::NullaryFnOnce;

/// The question's numbers are larger than those of the rows, so that rounding them costs nothing. The sum of
/// the products stays below 2³¹ for vectors of any dimension that fits into memory.
const QUESTION_SCALE: f32 = 8_192.0;
const ROW_MAX: f32 = 127.0;

/// Number of rows that are prefetched together when they are not adjacent: the processor then waits for all
/// of them at the same time instead of one after the other.
const READ_AHEAD: usize = 32;
/// Size of a cache line, in bytes.
const LINE: usize = 64;

/// A vector as stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VectorRow {
    /// The factor for the numbers.
    pub factor: f32,
    /// The numbers.
    pub values: Vec<i8>,
}

/// Normalises a vector to length 1 and rounds it; `None` if it has no direction.
#[expect(clippy::cast_possible_truncation, reason = "rounded numbers up to 127")]
pub(crate) fn row(vector: &[f32]) -> Option<VectorRow> {
    let length = length(vector)?;
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let values = vector.iter().map(|value| (value / largest * ROW_MAX).round() as i8).collect();
    Some(VectorRow { factor: largest / length / ROW_MAX, values })
}

/// The vector of a question.
#[derive(Clone, Debug)]
pub(crate) struct QuestionVector {
    /// Its numbers, normalised to length 1.
    values: Vec<f32>,
    /// The same numbers, scaled for the comparison with rows.
    scaled: Vec<i16>,
}

impl QuestionVector {
    /// Returns `None` if the vector has no direction.
    #[expect(clippy::cast_possible_truncation, reason = "numbers up to 8,192")]
    pub(crate) fn new(vector: &[f32]) -> Option<Self> {
        let length = length(vector)?;
        let values: Vec<f32> = vector.iter().map(|value| value / length).collect();
        let scaled = values.iter().map(|value| (value * QUESTION_SCALE).round() as i16).collect();
        Some(Self { values, scaled })
    }

    /// Returns its numbers; the vector has length 1.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }
}

fn length(vector: &[f32]) -> Option<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    (length.is_finite() && length > f32::MIN_POSITIVE).then_some(length)
}

/// Vectors of one dimension, stored contiguously.
#[derive(Debug, Default)]
pub(crate) struct VectorRows {
    dimension: usize,
    values: Vec<i8>,
    factors: Vec<f32>,
    /// The number of the chunk that each row belongs to, ascending.
    chunks: Vec<u32>,
    /// The sum of all vectors.
    sum: Vec<f64>,
}

impl VectorRows {
    /// Adds the vector of a chunk, whose number must be higher than those before.
    pub(crate) fn push(&mut self, chunk: u32, factor: f32, values: impl ExactSizeIterator<Item = i8>) {
        if self.chunks.is_empty() {
            self.dimension = values.len();
            self.sum = vec![0.0; values.len()];
        }
        // Vectors of another dimension belong to a chunk that is gone.
        if values.len() == self.dimension {
            let from = self.values.len();
            self.values.extend(values);
            add(&mut self.sum, &self.values[from..], f64::from(factor));
            self.factors.push(factor);
            self.chunks.push(chunk);
        }
    }

    /// The dimension of the vectors; 0 if there are none.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the chunks that have a vector.
    pub(crate) fn chunks(&self) -> &[u32] {
        &self.chunks
    }

    /// Returns the vectors in order, as stored.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[i8], f32)> {
        self.values.chunks_exact(self.dimension.max(1)).zip(self.factors.iter().copied())
    }

    /// Returns the sum of all vectors.
    pub(crate) fn total(&self) -> &[f64] {
        &self.sum
    }

    /// Releases spare capacity when no more vectors are added.
    pub(crate) fn shrink(&mut self) {
        self.values.shrink_to_fit();
        self.factors.shrink_to_fit();
        self.chunks.shrink_to_fit();
    }

    /// Returns the sum of the vectors of living chunks. Rows do not change, so only the deleted ones are subtracted.
    pub(crate) fn sum(&self, is_there: impl Fn(u32) -> bool) -> Vec<f64> {
        let mut sum = self.sum.clone();
        for (place, _) in self.chunks.iter().enumerate().filter(|(_, chunk)| !is_there(**chunk)) {
            let from = place * self.dimension;
            add(&mut sum, &self.values[from..from + self.dimension], -f64::from(self.factors[place]));
        }
        sum
    }

    /// Size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.values.capacity()
            + self.factors.capacity() * 4
            + self.chunks.capacity() * 4
            + self.sum.capacity() * 8
    }

    /// Returns the row of a chunk; `None` if it has no vector.
    pub(crate) fn row_of(&self, chunk: u32) -> Option<u32> {
        // Numbers ascend: a row precedes its chunk's number by one for each lower number without a row. Most
        // numbers have one, so only a few rows, adjacent in memory, are left to search.
        let without = (*self.chunks.last()? as usize + 1).saturating_sub(self.chunks.len());
        let end = self.chunks.len().min(chunk as usize + 1);
        let from = (chunk as usize).saturating_sub(without).min(end);
        u32::try_from(from + self.chunks[from..end].binary_search(&chunk).ok()?).ok()
    }

    /// Returns the cosine of a chunk's vector; `None` if it has none.
    #[cfg(test)]
    pub(crate) fn cosine(&self, chunk: u32, wanted: &QuestionVector) -> Option<f32> {
        self.cosine_at(self.row_of(chunk)? as usize, wanted)
    }

    /// Returns the cosine of the vector in a row; `None` if it has another dimension.
    #[cfg(test)]
    pub(crate) fn cosine_at(&self, row: usize, wanted: &QuestionVector) -> Option<f32> {
        let from = row * self.dimension;
        let values = self.values.get(from..from + self.dimension)?;
        let wanted = &wanted.scaled;
        (wanted.len() == self.dimension).then(|| cosine(dot(values, wanted), self.factors[row]))
    }

    /// Compares some rows, and calls `found` with their chunks and cosines.
    pub(crate) fn each_of(&self, wanted: &QuestionVector, rows: &[u32], found: &mut impl FnMut(f32, u32)) {
        if wanted.scaled.len() == self.dimension && self.dimension > 0 {
            pulp::Arch::new().dispatch(ChosenScan {
                rows: self,
                wanted: &wanted.scaled,
                chosen: rows,
                found,
            });
        }
    }

    /// Compares all rows, and calls `found` with the allowed chunks and their cosines.
    pub(crate) fn each(
        &self,
        wanted: &QuestionVector,
        allowed: impl Fn(u32) -> bool,
        found: &mut impl FnMut(f32, u32),
    ) {
        if wanted.scaled.len() != self.dimension || self.dimension == 0 {
            return;
        }
        // Selects the widest instructions of this processor once.
        pulp::Arch::new().dispatch(VectorScan { rows: self, wanted: &wanted.scaled, allowed, found });
    }
}

/// Compares all rows. A type of its own, since a closure may remain a separate function, which is compiled
/// for the oldest processor and takes more than twice as long.
struct VectorScan<'a, A, F> {
    rows: &'a VectorRows,
    wanted: &'a [i16],
    allowed: A,
    found: &'a mut F,
}

impl<A: Fn(u32) -> bool, F: FnMut(f32, u32)> NullaryFnOnce for VectorScan<'_, A, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let VectorRows { dimension, values, factors, chunks, .. } = self.rows;
        for ((values, factor), chunk) in values.chunks_exact(*dimension).zip(factors).zip(chunks) {
            if (self.allowed)(*chunk) {
                (self.found)(cosine(dot(values, self.wanted), *factor), *chunk);
            }
        }
    }
}

/// Compares some rows.
struct ChosenScan<'a, F> {
    rows: &'a VectorRows,
    wanted: &'a [i16],
    chosen: &'a [u32],
    found: &'a mut F,
}

impl<F: FnMut(f32, u32)> NullaryFnOnce for ChosenScan<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let VectorRows { dimension, values, factors, chunks, .. } = self.rows;
        let own = |row: u32| values.get(row as usize * dimension..(row as usize + 1) * dimension);
        for rows in self.chosen.chunks(READ_AHEAD) {
            let lines = rows.iter().filter_map(|row| own(*row)).flat_map(|own| own.chunks(LINE));
            std::hint::black_box(lines.fold(0, |all, line| all ^ line[0]));
            for row in rows {
                let at = *row as usize;
                if let (Some(own), Some(factor)) = (own(*row), factors.get(at)) {
                    (self.found)(cosine(dot(own, self.wanted), *factor), chunks[at]);
                }
            }
        }
    }
}

fn add(sum: &mut [f64], row: &[i8], factor: f64) {
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += f64::from(*value) * factor;
    }
}

/// Returns the mean cosine of a vector with some others, whose sum is known.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a mean of cosines")]
pub(crate) fn mean_cosine(vector: &[f32], sum: &[f64], count: usize) -> f32 {
    let Some(length) = length(vector).filter(|_| count > 0) else { return 0.0 };
    let dot: f64 = vector.iter().zip(sum).map(|(value, sum)| f64::from(*value) * sum).sum();
    (dot / f64::from(length) / count as f64) as f32
}

#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "an error of one in sixteen million")]
fn cosine(dot: i32, factor: f32) -> f32 {
    dot as f32 * factor / QUESTION_SCALE
}

/// The products of neighbours are added in pairs, which takes one instruction for sixteen numbers.
#[inline(always)]
fn dot(row: &[i8], wanted: &[i16]) -> i32 {
    row.iter().zip(wanted).map(|(one, other)| i32::from(i16::from(*one)) * i32::from(*other)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers between −1 and 1.
    fn vector(seed: u32, dimension: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0
        };
        (0..dimension).map(|_| next()).collect()
    }

    fn exact(one: &[f32], other: &[f32]) -> f32 {
        let dot: f32 = one.iter().zip(other).map(|(a, b)| a * b).sum();
        dot / length(one).unwrap() / length(other).unwrap()
    }

    #[test]
    fn quantised_cosines_are_accurate() {
        for dimension in [1, 3, 384, 1_536] {
            let question = vector(1, dimension);
            let wanted = QuestionVector::new(&question).unwrap();
            let mut rows = VectorRows::default();
            for seed in 2..60 {
                let VectorRow { factor, values } = row(&vector(seed, dimension)).unwrap();
                rows.push(seed * 3, factor, values.into_iter());
            }
            let mut seen = 0;
            rows.each(&wanted, |chunk| chunk % 2 == 0, &mut |found, chunk| {
                let expected = exact(&question, &vector(chunk / 3, dimension));
                let rounding = if dimension < 100 { 0.02 } else { 0.002 };
                assert!((found - expected).abs() < rounding, "{dimension}: {found} {expected}");
                assert_eq!(rows.cosine(chunk, &wanted), Some(found));
                seen += 1;
            });
            assert_eq!(seen, 29);
            let (chosen, mut compared) = ((0..58).step_by(3).collect::<Vec<u32>>(), Vec::new());
            rows.each_of(&wanted, &chosen, &mut |found, chunk| compared.push((chunk, Some(found))));
            let expected =
                chosen.iter().map(|row| (row + 2) * 3).map(|chunk| (chunk, rows.cosine(chunk, &wanted)));
            assert_eq!(compared, expected.collect::<Vec<_>>());
            assert_eq!(rows.cosine(1, &wanted), None);
        }
    }

    #[test]
    fn the_sum_covers_existing_vectors() {
        let mut rows = VectorRows::default();
        for seed in 0..40 {
            let VectorRow { factor, values } = row(&vector(seed, 16)).unwrap();
            rows.push(seed, factor, values.into_iter());
        }
        let question = vector(99, 16);
        let wanted = QuestionVector::new(&question).unwrap();
        for is_there in [|_| true, |chunk| chunk % 3 == 0, |chunk| chunk == 7, |_| false] {
            let there: Vec<f32> = (0..40)
                .filter(|chunk| is_there(*chunk))
                .filter_map(|chunk| rows.cosine(chunk, &wanted))
                .collect();
            let count = f32::from(u8::try_from(there.len()).unwrap());
            let expected = there.iter().sum::<f32>() / count.max(1.0);
            let found = mean_cosine(&question, &rows.sum(is_there), there.len());
            assert!((found - expected).abs() < 1e-3, "{found} {expected}");
        }
        assert_eq!(mean_cosine(&[0.0; 16], &rows.sum(|_| true), 40), 0.0);
    }

    #[test]
    fn a_vector_has_cosine_one_with_itself() {
        let one = vector(7, 384);
        let VectorRow { factor, values } = row(&one).unwrap();
        let mut rows = VectorRows::default();
        rows.push(0, factor, values.into_iter());
        let found = rows.cosine(0, &QuestionVector::new(&one).unwrap()).unwrap();
        assert!((found - 1.0).abs() < 0.001, "{found}");
    }

    #[test]
    fn zero_vectors_have_no_direction() {
        for vector in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert!(row(vector).is_none() && QuestionVector::new(vector).is_none(), "{vector:?}");
        }
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        let dimension = 16_384;
        let one = vec![1.0_f32; dimension];
        let VectorRow { factor, values } = row(&one).unwrap();
        let mut rows = VectorRows::default();
        rows.push(0, factor, values.into_iter());
        assert!((rows.cosine(0, &QuestionVector::new(&one).unwrap()).unwrap() - 1.0).abs() < 0.01);
    }
}
