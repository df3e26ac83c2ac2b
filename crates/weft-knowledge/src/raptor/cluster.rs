//! Clusters related vectors: they are reduced to a few numbers (principal components) and grouped by normal
//! distributions (Gaussian mixture, expectation maximisation), with as many groups as the Bayesian
//! information criterion favours.

use super::Raptor;

/// Maximum number of components that a vector is reduced to.
const COMPONENTS_MAX: usize = 12;
/// Minimum number of vectors per component: with few vectors, many components would say more than the data supports.
const VECTORS_A_COMPONENT: usize = 6;
/// Maximum number of vectors clustered together; more are split into blocks, in document order.
pub const BLOCK_MAX: usize = 1_000;
/// Maximum number of rounds of a power iteration, and of an expectation maximisation.
const ROUNDS_MAX: usize = 30;
/// The search ends after this many further group counts without a better criterion.
const WORSE_MAX: usize = 6;
/// Up to this many groups, every number of groups is tried; beyond it, each is an eighth larger than the one before.
// The work for a number of groups grows with it, and one more among hundreds makes little difference.
const EACH_TRIED_MAX: usize = 64;
/// Minimum variance of a group, as a share of the overall variance: a single vector has none.
const VARIANCE_SHARE_MIN: f64 = 1e-2;

/// Returns groups of the vectors' indexes, each with at least one. There are fewer groups than vectors, and
/// each vector is in one or more.
pub fn clusters(vectors: &[&[f32]], settings: &Raptor) -> Vec<Vec<usize>> {
    let blocks = vectors.len().div_ceil(BLOCK_MAX).max(1);
    let size = vectors.len().div_ceil(blocks).max(1);
    let mut found = Vec::new();
    for (number, block) in vectors.chunks(size).enumerate() {
        let of_block = block_clusters(block, settings);
        found.extend(
            of_block.into_iter().map(|group| group.into_iter().map(|at| at + number * size).collect()),
        );
    }
    found
}

fn block_clusters(vectors: &[&[f32]], settings: &Raptor) -> Vec<Vec<usize>> {
    let count = vectors.len();
    // Two points are either a group or not; a mixture of distributions cannot tell.
    if count <= 2 {
        return vec![(0..count).collect()];
    }
    let points = components(vectors, COMPONENTS_MAX.min(count.div_ceil(VECTORS_A_COMPONENT)), settings.seed);
    let most = settings.clusters_max.min(count - 1);
    let mut best: Option<(f64, Mixture)> = None;
    let mut worse = 0;
    for groups in tried(most) {
        let mixture = Mixture::fit(&points, groups, settings.seed);
        let criterion = mixture.criterion(count);
        match &best {
            Some((known, _)) if *known <= criterion => worse += 1,
            _ => (best, worse) = (Some((criterion, mixture)), 0),
        }
        if worse > WORSE_MAX {
            break;
        }
    }
    let Some((_, mixture)) = best else { return vec![(0..count).collect()] };
    mixture.groups(settings.threshold)
}

/// Returns the numbers of groups that are tried, up to `most`.
fn tried(most: usize) -> impl Iterator<Item = usize> {
    let next = move |groups: &usize| {
        let step = if *groups < EACH_TRIED_MAX { 1 } else { groups / 8 };
        (*groups < most).then(|| (groups + step).min(most))
    };
    std::iter::successors((most > 0).then_some(1), next)
}

/// A simple random number generator with a seed.
struct Chance(u64);

impl Chance {
    /// Returns a number from 0 to below 1.
    fn share(&mut self) -> f64 {
        // The constants are Knuth's (MMIX).
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 33).unwrap_or(0)) / f64::from(1_u32 << 31)
    }
}

/// Returns the first principal components of each vector.
fn components(vectors: &[&[f32]], wanted: usize, seed: u64) -> Vec<Vec<f64>> {
    let width = vectors.first().map_or(0, |vector| vector.len());
    let count = vectors.len() as f64;
    let mut mean = vec![0.0; width];
    for vector in vectors {
        mean.iter_mut().zip(*vector).for_each(|(sum, value)| *sum += f64::from(*value) / count);
    }
    let mut rest: Vec<Vec<f64>> = vectors
        .iter()
        .map(|vector| vector.iter().zip(&mean).map(|(value, mean)| f64::from(*value) - mean).collect())
        .collect();
    let mut points = vec![Vec::with_capacity(wanted); vectors.len()];
    let mut chance = Chance(seed.wrapping_add(1));
    for _ in 0..wanted.min(width) {
        let mut axis: Vec<f64> = (0..width).map(|_| chance.share() - 0.5).collect();
        for _ in 0..ROUNDS_MAX {
            let shares: Vec<f64> = rest.iter().map(|row| dot(row, &axis)).collect();
            let mut next = vec![0.0; width];
            for (row, share) in rest.iter().zip(&shares) {
                next.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * share);
            }
            let length = dot(&next, &next).sqrt();
            if length <= f64::MIN_POSITIVE {
                break;
            }
            axis = next.into_iter().map(|value| value / length).collect();
        }
        // If the iteration ends immediately, the axis has not been normalised to length 1.
        let length = dot(&axis, &axis).sqrt().max(f64::MIN_POSITIVE);
        axis.iter_mut().for_each(|value| *value /= length);
        for (row, point) in rest.iter_mut().zip(&mut points) {
            let share = dot(row, &axis);
            point.push(share);
            // The part along this axis is removed, so that the next axis is a different one.
            row.iter_mut().zip(&axis).for_each(|(value, axis)| *value -= share * axis);
        }
    }
    points
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// A mixture of uncorrelated normal distributions.
struct Mixture {
    weights: Vec<f64>,
    means: Vec<Vec<f64>>,
    variances: Vec<Vec<f64>>,
    /// The probabilities of each point to belong to each group.
    shares: Vec<Vec<f64>>,
    likelihood: f64,
}

impl Mixture {
    fn fit(points: &[Vec<f64>], groups: usize, seed: u64) -> Self {
        let width = points.first().map_or(0, Vec::len);
        let all = spread(points, width);
        // Never 0, which would be a divisor.
        let least: Vec<f64> = all.iter().map(|value| (value * VARIANCE_SHARE_MIN).max(1e-12)).collect();
        let mut mixture = Self {
            weights: vec![1.0 / groups as f64; groups],
            means: begin(points, groups, seed),
            variances: vec![all.iter().zip(&least).map(|(value, least)| value.max(*least)).collect(); groups],
            shares: vec![vec![0.0; groups]; points.len()],
            likelihood: f64::NEG_INFINITY,
        };
        for _ in 0..ROUNDS_MAX {
            let before = mixture.likelihood;
            mixture.expect(points);
            mixture.maximise(points, &least);
            if (mixture.likelihood - before).abs() < 1e-4 * points.len() as f64 {
                break;
            }
        }
        mixture
    }

    fn expect(&mut self, points: &[Vec<f64>]) {
        let constants: Vec<f64> = self
            .variances
            .iter()
            .zip(&self.weights)
            .map(|(variances, weight)| {
                let width: f64 = variances.iter().map(|value| (std::f64::consts::TAU * value).ln()).sum();
                // The logarithm of 0 would be infinite.
                weight.max(1e-300).ln() - 0.5 * width
            })
            .collect();
        self.likelihood = 0.0;
        for (point, shares) in points.iter().zip(&mut self.shares) {
            for (group, share) in shares.iter_mut().enumerate() {
                let far = point.iter().zip(&self.means[group]).zip(&self.variances[group]);
                let far: f64 = far.map(|((value, mean), variance)| (value - mean).powi(2) / variance).sum();
                *share = constants[group] - 0.5 * far;
            }
            // Relative to the largest, or all of them would be rounded to 0.
            let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = shares.iter().map(|share| (share - most).exp()).sum();
            self.likelihood += most + sum.ln();
            shares.iter_mut().for_each(|share| *share = (*share - most).exp() / sum);
        }
    }

    fn maximise(&mut self, points: &[Vec<f64>], least: &[f64]) {
        let count = points.len() as f64;
        for group in 0..self.weights.len() {
            // A group may have lost all its points.
            let total: f64 = self.shares.iter().map(|shares| shares[group]).sum::<f64>().max(1e-9);
            self.weights[group] = total / count;
            for (at, least) in least.iter().enumerate() {
                let weighed = |value: &dyn Fn(f64) -> f64| -> f64 {
                    let of = points.iter().zip(&self.shares);
                    of.map(|(point, shares)| shares[group] * value(point[at])).sum::<f64>() / total
                };
                let mean = weighed(&|value| value);
                let variance = weighed(&|value| (value - mean).powi(2));
                self.means[group][at] = mean;
                self.variances[group][at] = variance.max(*least);
            }
        }
    }

    /// Returns the Bayesian information criterion; lower is better.
    fn criterion(&self, count: usize) -> f64 {
        let width = self.means.first().map_or(0, Vec::len);
        // Each group has a mean and a variance in each dimension and a weight; the last weight follows from the
        // others.
        let free = self.weights.len() * (2 * width + 1) - 1;
        free as f64 * (count as f64).ln() - 2.0 * self.likelihood
    }

    /// Assigns each point to the groups that it is likely to belong to, and always to the likeliest one.
    fn groups(&self, threshold: f64) -> Vec<Vec<usize>> {
        let mut groups = vec![Vec::new(); self.weights.len()];
        for (at, shares) in self.shares.iter().enumerate() {
            let likeliest = shares.iter().enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other));
            for (group, share) in shares.iter().enumerate() {
                if *share > threshold || likeliest.is_some_and(|(best, _)| best == group) {
                    groups[group].push(at);
                }
            }
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// Selects points that are far apart, the first one at random (k-means++).
fn begin(points: &[Vec<f64>], groups: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut chance = Chance(seed.wrapping_add(7));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among few")]
    let first = ((chance.share() * points.len() as f64) as usize).min(points.len() - 1);
    let mut means = vec![points[first].clone()];
    let far = |point: &[f64], mean: &[f64]| point.iter().zip(mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let mut nearest: Vec<f64> = points.iter().map(|point| far(point, &means[0])).collect();
    while means.len() < groups {
        let mut left = chance.share() * nearest.iter().sum::<f64>();
        let next = nearest.iter().position(|far| {
            left -= far;
            left < 0.0
        });
        // All points may already coincide with the means.
        let mean = points[next.unwrap_or(means.len() % points.len())].clone();
        nearest.iter_mut().zip(points).for_each(|(known, point)| *known = known.min(far(point, &mean)));
        means.push(mean);
    }
    means
}

/// Returns the variance of all points in each dimension.
fn spread(points: &[Vec<f64>], width: usize) -> Vec<f64> {
    let count = points.len().max(1) as f64;
    let of = |at: usize| {
        let mean = points.iter().map(|point| point[at]).sum::<f64>() / count;
        points.iter().map(|point| (point[at] - mean).powi(2)).sum::<f64>() / count
    };
    (0..width).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Raptor {
        Raptor {
            scope: super::super::SummaryScope::Document,
            prompt: String::new(),
            tokens_max: 256,
            threshold: 0.1,
            clusters_max: 64,
            seed: 0,
        }
    }

    fn noisy(direction: usize, at: usize) -> Vec<f32> {
        let mut chance = Chance(at as u64 * 7_919 + 13);
        #[expect(clippy::cast_possible_truncation, reason = "a little noise")]
        let mut vector: Vec<f32> = (0..16).map(|_| (chance.share() * 0.2 - 0.1) as f32).collect();
        vector[direction] += 1.0;
        vector
    }

    #[test]
    fn every_number_of_groups_up_to_the_usual_maximum_is_tried_and_fewer_beyond_it() {
        assert_eq!(tried(0).count(), 0);
        assert_eq!(tried(3).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(tried(64).eq(1..=64));
        assert_eq!(tried(100).skip(63).collect::<Vec<_>>(), [64, 72, 81, 91, 100]);
        assert_eq!(tried(999).last(), Some(999));
        assert!(tried(999).count() < 90);
    }

    #[test]
    fn similar_vectors_are_clustered_together() {
        let vectors: Vec<Vec<f32>> = (0..60).map(|at| noisy(at % 3, at)).collect();
        let views: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
        let mut found = clusters(&views, &settings());
        assert_eq!(found, clusters(&views, &settings()), "the same each time");
        found.sort();
        // However many clusters there are, none has vectors of two directions.
        assert!(found.len() >= 3 && found.len() < 60, "{found:?}");
        for group in &found {
            assert!(group.iter().all(|at| at % 3 == group[0] % 3), "{group:?}");
        }
        let mut all: Vec<usize> = found.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 60, "each vector is somewhere");
    }

    #[test]
    fn degenerate_vectors_are_clustered_too() {
        let same = vec![1.0_f32; 8];
        for count in [0, 1, 2, 3, 50, 2_500] {
            let views: Vec<&[f32]> = (0..count).map(|_| same.as_slice()).collect();
            let found = clusters(&views, &settings());
            assert!(found.len() < count.max(2), "{count}: fewer groups than vectors");
            assert_eq!(found.iter().flatten().max().map_or(0, |last| last + 1), count);
        }
        let one = Raptor { clusters_max: 1, ..settings() };
        let vectors: Vec<Vec<f32>> = (0..9).map(|at| noisy(at, at)).collect();
        let views: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
        assert_eq!(clusters(&views, &one).len(), 1);
    }
}
