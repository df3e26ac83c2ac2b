//! Counters of what a process has done, for monitoring.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ending::Ending;
use crate::error::ErrorKind;
use crate::seam::chat_model::ModelKind;

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter, saturating at the maximum.
    pub fn add(&self, more: u64) {
        // Token counts come from providers; a sum that wraps around after an absurd number would be meaningless.
        let sum = |count: u64| Some(count.saturating_add(more));
        // Cannot fail: the closure always returns a sum.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// Returns the current count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A dimension by which counts are kept. It is a closed set of values: no external input becomes a label, so the
/// number of counters is bounded, and no counter reveals whose activity it counts.
pub trait Label: Copy + PartialEq + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Returns the name of the label.
    fn word(self) -> &'static str;
}

/// One counter per label.
#[derive(Debug)]
pub struct Counts<L> {
    counts: Box<[Counter]>,
    by: PhantomData<L>,
}

impl<L: Label> Default for Counts<L> {
    fn default() -> Self {
        Self { counts: L::ALL.iter().map(|_| Counter::default()).collect(), by: PhantomData }
    }
}

impl<L: Label> Counts<L> {
    fn counter(&self, label: L) -> Option<&Counter> {
        let place = L::ALL.iter().position(|known| *known == label)?;
        self.counts.get(place)
    }

    /// Adds to the counter of one label.
    pub fn add(&self, label: L, more: u64) {
        if let Some(counter) = self.counter(label) {
            counter.add(more);
        }
    }

    /// Returns the count of one label.
    pub fn get(&self, label: L) -> u64 {
        self.counter(label).map_or(0, Counter::get)
    }

    /// Returns all counts, including zeros.
    pub fn all(&self) -> impl Iterator<Item = (L, u64)> + '_ {
        L::ALL.iter().copied().zip(self.counts.iter().map(Counter::get))
    }
}

/// One counter per pair of labels.
#[derive(Debug)]
pub struct CountTable<R, C> {
    rows: Box<[Counts<C>]>,
    by: PhantomData<R>,
}

impl<R: Label, C: Label> Default for CountTable<R, C> {
    fn default() -> Self {
        Self { rows: R::ALL.iter().map(|_| Counts::default()).collect(), by: PhantomData }
    }
}

impl<R: Label, C: Label> CountTable<R, C> {
    fn row(&self, row: R) -> Option<&Counts<C>> {
        let place = R::ALL.iter().position(|known| *known == row)?;
        self.rows.get(place)
    }

    /// Adds to the counter of one pair.
    pub fn add(&self, row: R, column: C, more: u64) {
        if let Some(counts) = self.row(row) {
            counts.add(column, more);
        }
    }

    /// Returns the count of one pair.
    pub fn get(&self, row: R, column: C) -> u64 {
        self.row(row).map_or(0, |counts| counts.get(column))
    }

    /// Returns all counts, including zeros.
    pub fn all(&self) -> impl Iterator<Item = (R, C, u64)> + '_ {
        let rows = R::ALL.iter().copied().zip(self.rows.iter());
        rows.flat_map(|(row, counts)| counts.all().map(move |(column, count)| (row, column, count)))
    }
}

impl Label for Ending {
    const ALL: &'static [Self] = &[Self::Succeeded, Self::Failed, Self::Cancelled, Self::Waiting];

    fn word(self) -> &'static str {
        self.as_str()
    }
}

impl Label for ErrorKind {
    const ALL: &'static [Self] = &[
        Self::Invalid,
        Self::NotFound,
        Self::Conflict,
        Self::Denied,
        Self::Unauthenticated,
        Self::RateLimited,
        Self::QuotaExceeded,
        Self::Filtered,
        Self::Timeout,
        Self::Unavailable,
        Self::Garbled,
        Self::Cancelled,
        Self::Interrupted,
        Self::Unsupported,
        Self::Internal,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Unauthenticated => "unauthenticated",
            Self::RateLimited => "rate_limited",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Filtered => "filtered",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Garbled => "garbled",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
        }
    }
}

impl Label for ModelKind {
    const ALL: &'static [Self] =
        &[Self::Chat, Self::Vision, Self::Embedding, Self::Rerank, Self::Speech, Self::Tts, Self::Ocr];

    fn word(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Vision => "vision",
            Self::Embedding => "embedding",
            Self::Rerank => "rerank",
            Self::Speech => "speech",
            Self::Tts => "tts",
            Self::Ocr => "ocr",
        }
    }
}

/// Whether an operation succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
}

impl Label for Success {
    const ALL: &'static [Self] = &[Self::Succeeded, Self::Failed];

    fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// The work waiting in the store, across all tenants and processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Queued runs that no worker has taken.
    pub queued_runs: u64,
    /// Documents waiting to be read that no worker has taken.
    pub documents: u64,
    /// Datasets waiting for new vectors that no worker has taken.
    pub reembeddings: u64,
    /// Unanswered human tasks of runs.
    pub tasks: u64,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_label_has_its_own_count() {
        let counts = Counts::<ErrorKind>::default();
        for (place, kind) in ErrorKind::ALL.iter().enumerate() {
            counts.add(*kind, place as u64 + 1);
        }
        for (place, (kind, count)) in counts.all().enumerate() {
            assert_eq!((count, counts.get(kind)), (place as u64 + 1, place as u64 + 1), "{kind:?}");
            // Logs and metrics use the same word.
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
        let words: BTreeSet<&str> = ErrorKind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), 15);
    }

    #[test]
    fn label_pairs_are_distinct_and_counts_never_reset() {
        let table = CountTable::<ModelKind, Success>::default();
        table.add(ModelKind::Chat, Success::Failed, 2);
        table.add(ModelKind::Ocr, Success::Succeeded, u64::MAX);
        table.add(ModelKind::Ocr, Success::Succeeded, 5);
        assert_eq!(table.get(ModelKind::Chat, Success::Failed), 2);
        assert_eq!(table.get(ModelKind::Chat, Success::Succeeded), 0);
        assert_eq!(table.get(ModelKind::Ocr, Success::Succeeded), u64::MAX);
        assert_eq!(table.all().count(), ModelKind::ALL.len() * 2);
    }
}
