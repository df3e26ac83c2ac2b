//! Sketches of vectors with one bit per number, used to find the ones that may be near without reading the others.
//!
//! Each bit says on which side of the mean of all vectors a number lies. Together with two numbers per vector
//! this gives an estimate of the vector's cosine with a question that is off by a few hundredths, whatever
//! the question and the conditions are (RaBitQ, Gao and Long 2024, around one centre). Vectors are rotated
//! first, since bits would say little about vectors in which only a few numbers are large. The best by this
//! estimate are compared exactly; docs/quality.md describes what is missed.

use pulp::NullaryFnOnce;

use crate::vectors::{QuestionVector, VectorRows};

/// Number of bits per number of the question. Their error is half that of the vectors' bits and independent
/// of it, so using four bits instead would improve an estimate by a tenth and take 1.4 times as long
/// (docs/quality.md).
const PLANES: usize = 2;
/// The largest level of a number of the question, 2^PLANES − 1. Levels are the odd numbers from minus this
/// value to this value.
const LEVEL_MAX: f32 = 3.0;
/// Half the distance between levels that loses the least for numbers around 0 with a standard deviation of 1:
/// J. Max, Quantizing for Minimum Distortion, 1960. Numbers beyond the largest level are clamped to it.
const STEP: f32 = 0.9957 / 2.0;

/// Number of 64-bit words compared together: the loop over two of them is unrolled, which takes a third of the time.
const WORDS: usize = 2;
const BITS: usize = WORDS * 64;

/// Number of times that blocks of numbers are mixed: after two rounds each number has a share of all others.
const ROUNDS: u64 = 4;

/// The sketches of rows.
#[derive(Debug)]
pub(crate) struct Sketches {
    turn: Rotation,
    /// Number of groups of words per row.
    groups: usize,
    bits: Vec<[u64; WORDS]>,
    /// Factors for the products of the rows' signs.
    scales: Vec<f32>,
    /// Offsets added to these: the rows' products with the centre.
    offsets: Vec<f32>,
    center: Vec<f32>,
}

impl Sketches {
    /// Creates the sketches of all rows.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a mean")]
    pub(crate) fn new(rows: &VectorRows) -> Self {
        let (groups, count) = (rows.dimension().div_ceil(BITS), rows.chunks().len());
        let center: Vec<f32> = rows.total().iter().map(|sum| (sum / count.max(1) as f64) as f32).collect();
        let mut sketches = Self {
            turn: Rotation::new(rows.dimension()),
            groups,
            bits: Vec::with_capacity(groups * count),
            scales: Vec::with_capacity(count),
            offsets: Vec::with_capacity(count),
            center,
        };
        // Selects the widest instructions of this processor once.
        pulp::Arch::new().dispatch(Sketching { sketches: &mut sketches, rows });
        sketches
    }

    #[inline(always)]
    fn push(&mut self, values: &[i8], factor: f32, rest: &mut [f32]) {
        let (mut sum, mut square, mut along) = (0.0_f32, 0.0_f32, 0.0_f32);
        for ((rest, value), center) in rest.iter_mut().zip(values).zip(&self.center) {
            *rest = f32::from(*value) * factor - center;
            square += *rest * *rest;
            along += *rest * center;
        }
        self.turn.apply(rest);
        for rest in rest.chunks(BITS) {
            let mut group = [0_u64; WORDS];
            for (word, rest) in group.iter_mut().zip(rest.chunks(64)) {
                for (at, rest) in rest.iter().enumerate() {
                    *word |= u64::from(*rest > 0.0) << at;
                    sum += rest.abs();
                }
            }
            self.bits.push(group);
        }
        // A vector that lies in the centre has no direction from there: its estimate is that of the centre.
        self.scales.push(if sum > 0.0 { square / sum } else { 0.0 });
        self.offsets.push(along);
    }

    /// Size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bits.capacity() * WORDS * 8 + (self.scales.capacity() + self.offsets.capacity()) * 4
    }

    /// Estimates the cosine of each row, and calls `found` for rows that are allowed and exceed the bar.
    /// `found` returns the bar for the rows that follow.
    pub(crate) fn each(
        &self,
        wanted: &QuestionVector,
        allowed: impl Fn(u32) -> bool,
        found: &mut impl FnMut(f32, u32) -> f32,
    ) {
        if let Some(probe) = SketchProbe::new(wanted.values(), &self.center, &self.turn) {
            pulp::Arch::new().dispatch(SketchScan { sketches: self, probe: &probe, allowed, found });
        }
    }
}

/// Computes the sketches of all rows; a type of its own for the same reason as in [`crate::vectors`].
struct Sketching<'a> {
    sketches: &'a mut Sketches,
    rows: &'a VectorRows,
}

impl NullaryFnOnce for Sketching<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut rest = vec![0.0; self.rows.dimension()];
        for (values, factor) in self.rows.iter() {
            self.sketches.push(values, factor, &mut rest);
        }
    }
}

/// A rotation of vectors that preserves their products and gives each number a share of all others:
/// pseudo-random signs followed by sums and differences of blocks (Hadamard), alternating between the block
/// at the beginning and the one at the end.
#[derive(Debug)]
struct Rotation {
    /// Number of elements in a block.
    block: usize,
    signs: Vec<f32>,
}

impl Rotation {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand numbers")]
    fn new(dimension: usize) -> Self {
        let block = if dimension == 0 { 0 } else { 1 << dimension.ilog2() };
        let size = 1.0 / (block.max(1) as f32).sqrt();
        // A fixed seed, so that a question always has the same answer.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        // Marsaglia's xorshift: the signs have to be balanced, not secret.
        let mut sign = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state >> 40 & 1 == 1 { size } else { -size }
        };
        let signs = (0..ROUNDS).flat_map(|_| 0..block).map(|_| sign()).collect();
        Self { block, signs }
    }

    #[inline(always)]
    fn apply(&self, values: &mut [f32]) {
        // The length need not be a power of two: two overlapping blocks reach all numbers in alternation.
        let end = values.len() - self.block;
        for (round, signs) in self.signs.chunks(self.block.max(1)).enumerate() {
            let from = if round % 2 == 0 { 0 } else { end };
            let block = &mut values[from..from + self.block];
            block.iter_mut().zip(signs).for_each(|(value, sign)| *value *= sign);
            let mut half = 1;
            while half < block.len() {
                for pair in block.chunks_exact_mut(half * 2) {
                    let (one, other) = pair.split_at_mut(half);
                    for (one, other) in one.iter_mut().zip(other) {
                        (*one, *other) = (*one + *other, *one - *other);
                    }
                }
                half *= 2;
            }
        }
    }
}

/// A question prepared for comparison with rows: its numbers as levels, stored bit plane by bit plane.
struct SketchProbe {
    planes: Vec<[[u64; PLANES]; WORDS]>,
    /// Factor for a level.
    unit: f32,
    /// The sum of the products if all signs match, at the highest level.
    most: f32,
    /// The question's product with the centre.
    base: f32,
}

impl SketchProbe {
    /// `None` for a question of another dimension.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "levels up to 3, and a few thousand numbers"
    )]
    fn new(question: &[f32], center: &[f32], turn: &Rotation) -> Option<Self> {
        if question.len() != center.len() {
            return None;
        }
        let mut rest: Vec<f32> = question.iter().zip(center).map(|(one, other)| one - other).collect();
        turn.apply(&mut rest);
        // Rotated numbers lie around 0. Never 0 itself, since it is a divisor below: a question may be the
        // centre itself.
        let square: f32 = rest.iter().map(|value| value * value).sum();
        let deviation = (square / rest.len().max(1) as f32).sqrt().max(f32::MIN_POSITIVE);
        let step = deviation * STEP;
        let level = |value: f32| {
            (((value / step + LEVEL_MAX) / 2.0).round() * 2.0 - LEVEL_MAX).clamp(-LEVEL_MAX, LEVEL_MAX)
        };
        // Levels are shorter than the numbers they stand for; this factor gives the row's signs their full
        // share of the question.
        let along: f32 = rest.iter().map(|value| value * level(*value)).sum();
        let unit = if along > 0.0 { square / along } else { 0.0 };
        let planes = rest.chunks(BITS).map(|values| {
            let mut group = [[0_u64; PLANES]; WORDS];
            for (planes, values) in group.iter_mut().zip(values.chunks(64)) {
                for (at, value) in values.iter().enumerate() {
                    let level = ((level(*value) + LEVEL_MAX) / 2.0) as u64;
                    for (bit, plane) in planes.iter_mut().enumerate() {
                        *plane |= (level >> bit & 1) << at;
                    }
                }
            }
            group
        });
        Some(Self {
            planes: planes.collect(),
            unit,
            most: LEVEL_MAX * rest.len() as f32,
            base: question.iter().zip(center).map(|(one, other)| one * other).sum(),
        })
    }
}

/// Returns the sum of the levels of the numbers whose bit differs.
#[inline(always)]
fn levels(word: u64, planes: &[u64; PLANES]) -> u32 {
    (word ^ planes[0]).count_ones() + 2 * (word ^ planes[1]).count_ones()
}

/// Compares all rows; a type of its own for the same reason as in [`crate::vectors`].
struct SketchScan<'a, A, F> {
    sketches: &'a Sketches,
    probe: &'a SketchProbe,
    allowed: A,
    found: &'a mut F,
}

impl<A: Fn(u32) -> bool, F: FnMut(f32, u32) -> f32> NullaryFnOnce for SketchScan<'_, A, F> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "counts of bits")]
    fn call(self) {
        let Sketches { groups, bits, scales, offsets, .. } = self.sketches;
        let SketchProbe { planes, unit, most, base } = self.probe;
        // Copies, which stay in registers whatever is called.
        let (unit, most, base) = (*unit, *most, *base);
        let rows = bits.chunks_exact((*groups).max(1)).zip(scales.iter().zip(offsets));
        let mut bar = f32::NEG_INFINITY;
        for (row, (bits, (scale, offset))) in (0_u32..).zip(rows) {
            // Each differing bit subtracts twice its level.
            let mut differing = 0;
            for (words, planes) in bits.iter().zip(planes) {
                differing += levels(words[0], &planes[0]) + levels(words[1], &planes[1]);
            }
            let product = unit * (most - 2.0 * differing as f32);
            let estimate = base + offset + scale * product;
            // Few exceed the bar: only for these is it looked up whether they are allowed.
            if estimate > bar && (self.allowed)(row) {
                bar = (self.found)(estimate, row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{VectorRow, row};

    /// Pseudo-random numbers between −1 and 1, shifted by a component that all vectors share.
    fn vector(seed: u32, dimension: usize, common: f32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0 + common
        };
        (0..dimension).map(|_| next()).collect()
    }

    #[test]
    fn estimates_approximate_cosines() {
        for (dimension, common, error) in
            [(384, 0.0, 0.15), (384, 1.5, 0.1), (100, 0.0, 0.3), (1_536, 0.0, 0.08)]
        {
            let mut rows = VectorRows::default();
            for seed in 0..400 {
                let VectorRow { factor, values } = row(&vector(seed, dimension, common)).unwrap();
                rows.push(seed, factor, values.into_iter());
            }
            let sketches = Sketches::new(&rows);
            // A query near one of them, and one unrelated to any.
            let near: Vec<f32> = vector(7, dimension, common)
                .iter()
                .zip(vector(9_999, dimension, common))
                .map(|(one, other)| one + other * 0.5)
                .collect();
            for question in [near, vector(5_000, dimension, -common)] {
                let wanted = QuestionVector::new(&question).unwrap();
                let (mut seen, mut off) = (0, 0.0_f32);
                sketches.each(&wanted, |row| row % 2 == 1, &mut |estimate, row| {
                    let cosine = rows.cosine_at(row as usize, &wanted).unwrap();
                    off = off.max((estimate - cosine).abs());
                    seen += 1;
                    f32::NEG_INFINITY
                });
                assert!(off < error, "{dimension} {common}: {off}");
                assert_eq!(seen, 200);
            }
        }
    }

    #[test]
    fn rotation_preserves_products() {
        for dimension in [1, 2, 3, 16, 100, 384] {
            let turn = Rotation::new(dimension);
            let turned = |seed: u32| {
                let mut vector = vector(seed, dimension, 0.3);
                turn.apply(&mut vector);
                vector
            };
            let product = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
            let before = product(&vector(1, dimension, 0.3), &vector(2, dimension, 0.3));
            let after = product(&turned(1), &turned(2));
            assert!((before - after).abs() < 0.001 * before.abs().max(1.0), "{dimension}: {before} {after}");
        }
    }

    /// In some models' vectors few numbers are large.
    #[test]
    fn neighbours_are_found_among_skewed_vectors() {
        let uneven = |seed: u32| -> Vec<f32> {
            let of = |(at, value): (u16, f32)| value / (1.0 + f32::from(at) / 10.0);
            (0_u16..).zip(vector(seed, 128, 0.0)).map(of).collect()
        };
        let mut rows = VectorRows::default();
        for seed in 0..4_000 {
            let VectorRow { factor, values } = row(&uneven(seed)).unwrap();
            rows.push(seed, factor, values.into_iter());
        }
        let sketches = Sketches::new(&rows);
        let (mut held, questions) = (0, 20);
        for question in 0..questions {
            let wanted = QuestionVector::new(&uneven(10_000 + question)).unwrap();
            let (mut exact, mut near) = (crate::best::Best::new(10), crate::best::Best::new(200));
            rows.each(&wanted, |_| true, &mut |cosine, row| exact.push(cosine, row));
            sketches.each(&wanted, |_| true, &mut |estimate, row| {
                near.push(estimate, row);
                near.bar()
            });
            let near: Vec<u32> = near.into_sorted().into_iter().map(|(_, row)| row).collect();
            held += exact.into_sorted().iter().filter(|(_, row)| near.contains(row)).count();
        }
        assert!(held >= 194, "{held} of 200");
    }

    #[test]
    fn queries_of_another_length_match_nothing() {
        let mut rows = VectorRows::default();
        let VectorRow { factor, values } = row(&[1.0, 2.0]).unwrap();
        rows.push(0, factor, values.into_iter());
        let wanted = QuestionVector::new(&[1.0, 2.0, 3.0]).unwrap();
        Sketches::new(&rows).each(&wanted, |_| true, &mut |_, _| panic!("nothing can be compared"));
        Sketches::new(&VectorRows::default()).each(&wanted, |_| true, &mut |_, _| panic!("there is nothing"));
    }
}
