//! Rate limits: a token bucket per key, which refills with time.
//!
//! Times are those of [`weft_core::seam::Clock::running`]: a time of day that is set back and corrected later would
//! refill all buckets, and one that was ahead until it was corrected would refill none for as long.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weft_core::webhook::Rate;

/// Number of buckets from which on full ones are removed.
// Below this their memory does not matter, and removing them takes a scan under the lock.
const BUCKETS_KEPT: usize = 10_000;

/// Maximum number of buckets. Where callers choose the keys, they could otherwise exhaust memory; beyond it new keys
/// are refused until buckets have refilled.
const BUCKETS_MAX: usize = 200_000;

/// Minimum interval for removing full buckets: this scans all of them, and blocks concurrent callers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The buckets of this process.
#[derive(Debug)]
pub struct Rates<K>(Mutex<Buckets<K>>);

#[derive(Debug)]
struct Buckets<K> {
    of: HashMap<K, Bucket>,
    looked: Option<Duration>,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self(Mutex::new(Buckets { of: HashMap::new(), looked: None }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Duration,
    rate: Rate,
}

impl Bucket {
    fn filled(mut self, now: Duration) -> Self {
        let most = f64::from(self.rate.limit);
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + seconds * most / self.rate.per.as_secs_f64().max(1.0)).min(most);
        // Concurrent callers may have read the clock in another order.
        self.at = self.at.max(now);
        self
    }
}

impl<K: Clone + Eq + Hash> Rates<K> {
    /// Takes a token if the rate allows it. Returns whether it does.
    pub fn take(&self, who: &K, rate: Rate, now: Duration) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { of: buckets, looked } = &mut *buckets;
        let is_time = looked.is_none_or(|looked| now.saturating_sub(looked) >= LOOK_EVERY);
        if buckets.len() >= BUCKETS_KEPT && is_time {
            *looked = Some(now);
            // A full bucket is equivalent to none.
            buckets.retain(|_, bucket| bucket.filled(now).tokens < f64::from(bucket.rate.limit));
        }
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(who) {
            return false;
        }
        let new = Bucket { tokens: f64::from(rate.limit), at: now, rate };
        let bucket = buckets.entry(who.clone()).or_insert(new);
        // The rate may have been changed since the bucket was created.
        bucket.rate = rate;
        *bucket = bucket.filled(now);
        let within = bucket.tokens >= 1.0;
        if within {
            bucket.tokens -= 1.0;
        }
        within
    }

    /// Returns a token that should not have counted.
    pub fn give_back(&self, who: &K) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.of.get_mut(who) {
            bucket.tokens = (bucket.tokens + 1.0).min(f64::from(bucket.rate.limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::{CanvasKey, TenantId};

    use super::*;

    #[test]
    fn many_buckets_stay_fast_and_full_ones_are_dropped() {
        let (rates, rate) = (Rates::default(), Rate { limit: 1, per: Duration::from_secs(60) });
        let began = std::time::Instant::now();
        for who in 0..60_000 {
            assert!(rates.take(&who, rate, Duration::ZERO));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let kept = || rates.0.lock().unwrap().of.len();
        assert!(rates.take(&60_000, rate, Duration::from_secs(1)) && kept() == 60_001);
        assert!(
            rates.take(&1, rate, Duration::from_millis(60_500)) && kept() == 2,
            "only the previous bucket and this one are left"
        );
    }

    #[test]
    fn a_bucket_empties_and_refills_with_time() {
        let (rates, rate) = (Rates::default(), Rate { limit: 2, per: Duration::from_secs(60) });
        let key = |id: &str| CanvasKey::new(&TenantId::from("t"), id);
        let take = |id: &str, seconds: u64| rates.take(&key(id), rate, Duration::from_secs(seconds));
        assert!(take("a", 0) && take("a", 0) && !take("a", 0));
        assert!(take("b", 0), "another webhook has its own bucket");
        assert!(!take("a", 29) && take("a", 30) && !take("a", 30));
        assert!(!take("a", 0) && !take("a", 30), "no time has passed for one who read the clock earlier");
        assert!(take("a", u64::MAX) && take("a", u64::MAX) && !take("a", u64::MAX));
        rates.give_back(&key("a"));
        rates.give_back(&key("nobody"));
        assert!(take("a", u64::MAX) && !take("a", u64::MAX));
    }
}
