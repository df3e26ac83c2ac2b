//! Selects the best of many entries.

/// Keeps the entries with the highest scores; among equal scores, those that came first.
#[derive(Debug)]
pub(crate) struct Best<T> {
    kept: Vec<(f32, T)>,
    count_max: usize,
    /// The score that an entry has to exceed to be considered.
    bar: f32,
}

impl<T: Copy + Ord> Best<T> {
    /// Creates a selection of up to `count_max` entries.
    pub(crate) fn new(count_max: usize) -> Self {
        // With no room nothing passes: `keep` assumes room for at least one entry.
        let bar = if count_max == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Self { kept: Vec::new(), count_max, bar }
    }

    /// Considers one entry.
    #[inline]
    pub(crate) fn push(&mut self, score: f32, entry: T) {
        // A score equal to the bar is not enough: among equal scores, earlier entries win.
        if score > self.bar {
            self.keep(score, entry);
        }
    }

    /// Returns the score that an entry has to exceed to be kept.
    pub(crate) fn bar(&self) -> f32 {
        self.bar
    }

    fn keep(&mut self, score: f32, entry: T) {
        self.kept.push((score, entry));
        // Up to twice as many as wanted are collected before the lower half is dropped, so that an entry
        // costs little.
        if self.kept.len() >= self.count_max * 2 {
            self.leave_out();
            self.bar = self.kept[self.count_max - 1].0;
        }
    }

    /// Drops the entries that are not among the best; the last one kept has the lowest score.
    fn leave_out(&mut self) {
        if self.kept.len() > self.count_max {
            self.kept.select_nth_unstable_by(self.count_max.saturating_sub(1), in_order);
            self.kept.truncate(self.count_max);
        }
    }

    /// Returns the best entries, in no particular order.
    pub(crate) fn into_entries(mut self) -> impl Iterator<Item = T> {
        self.leave_out();
        self.kept.into_iter().map(|(_, entry)| entry)
    }

    /// Returns the best entries, best first.
    pub(crate) fn into_sorted(mut self) -> Vec<(f32, T)> {
        self.kept.sort_unstable_by(in_order);
        self.kept.truncate(self.count_max);
        self.kept
    }
}

fn in_order<T: Ord>(one: &(f32, T), other: &(f32, T)) -> std::cmp::Ordering {
    other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_order() {
        let scores = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0];
        let check = |count_max: usize, expected: &[usize]| {
            let mut best = Best::new(count_max);
            scores.iter().enumerate().for_each(|(at, score)| best.push(*score, at));
            let found: Vec<usize> = best.into_sorted().into_iter().map(|(_, at)| at).collect();
            assert_eq!(found, expected, "{count_max}");
            let mut best = Best::new(count_max);
            scores.iter().enumerate().for_each(|(at, score)| best.push(*score, at));
            let mut found: Vec<usize> = best.into_entries().collect();
            found.sort_unstable();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "{count_max}");
        };
        check(0, &[]);
        check(1, &[5]);
        check(4, &[5, 7, 4, 8]);
        check(99, &[5, 7, 4, 8, 10, 2, 0, 9, 6, 1, 3]);
    }
}
