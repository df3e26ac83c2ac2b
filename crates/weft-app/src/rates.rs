//! Rate limits: a token bucket per key, which refills with time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use weft_core::webhook::Rate;

/// Number of buckets from which on full ones are removed.
const BUCKETS_KEPT: usize = 10_000;

/// Maximum number of buckets. Where callers choose the keys, they could otherwise exhaust memory; beyond it new keys
/// are refused until buckets have refilled.
const BUCKETS_MAX: usize = 200_000;

/// Minimum interval for removing full buckets, in milliseconds: this scans all of them, and blocks concurrent
/// callers.
const LOOK_EVERY_MS: u64 = 1_000;

/// The buckets of this process.
#[derive(Debug)]
pub struct Rates<K>(Mutex<Buckets<K>>);

#[derive(Debug)]
struct Buckets<K> {
    of: HashMap<K, Bucket>,
    looked_ms: i64,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self(Mutex::new(Buckets { of: HashMap::new(), looked_ms: i64::MIN }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at_ms: i64,
    rate: Rate,
}

impl Bucket {
    fn filled(mut self, now_ms: i64) -> Self {
        let most = f64::from(self.rate.limit);
        // A clock that was set back adds nothing.
        let passed = u32::try_from(now_ms.saturating_sub(self.at_ms).max(0)).unwrap_or(u32::MAX);
        let seconds = f64::from(passed) / 1000.0;
        self.tokens = (self.tokens + seconds * most / self.rate.per.as_secs_f64().max(1.0)).min(most);
        self.at_ms = now_ms;
        self
    }
}

impl<K: Clone + Eq + Hash> Rates<K> {
    /// Takes a token if the rate allows it. Returns whether it does.
    pub fn take(&self, who: &K, rate: Rate, now_ms: i64) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { of: buckets, looked_ms } = &mut *buckets;
        if buckets.len() >= BUCKETS_KEPT && now_ms.abs_diff(*looked_ms) >= LOOK_EVERY_MS {
            *looked_ms = now_ms;
            // A full bucket is equivalent to none.
            buckets.retain(|_, bucket| bucket.filled(now_ms).tokens < f64::from(bucket.rate.limit));
        }
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(who) {
            return false;
        }
        let new = Bucket { tokens: f64::from(rate.limit), at_ms: now_ms, rate };
        let bucket = buckets.entry(who.clone()).or_insert(new);
        // The rate may have been changed since the bucket was created.
        bucket.rate = rate;
        *bucket = bucket.filled(now_ms);
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
    use std::time::Duration;

    use weft_core::{CanvasKey, TenantId};

    use super::*;

    #[test]
    fn many_buckets_stay_fast_and_full_ones_are_dropped() {
        let (rates, rate) = (Rates::default(), Rate { limit: 1, per: Duration::from_secs(60) });
        let began = std::time::Instant::now();
        for who in 0..60_000 {
            assert!(rates.take(&who, rate, 0));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let kept = || rates.0.lock().unwrap().of.len();
        assert!(rates.take(&60_000, rate, 1_000) && kept() == 60_001);
        assert!(
            rates.take(&1, rate, 60_500) && kept() == 2,
            "only the previous bucket and this one are left"
        );
    }

    #[test]
    fn a_bucket_empties_and_refills_with_time() {
        let (rates, rate) = (Rates::default(), Rate { limit: 2, per: Duration::from_secs(60) });
        let key = |id: &str| CanvasKey::new(&TenantId::from("t"), id);
        let take = |id: &str, at_ms: i64| rates.take(&key(id), rate, at_ms);
        assert!(take("a", 0) && take("a", 0) && !take("a", 0));
        assert!(take("b", 0), "another webhook has its own bucket");
        assert!(!take("a", 29_000) && take("a", 30_000) && !take("a", 30_000));
        assert!(!take("a", -1_000_000), "a clock that was set back refills nothing");
        assert!(take("a", i64::MAX) && take("a", i64::MAX) && !take("a", i64::MAX));
        rates.give_back(&key("a"));
        rates.give_back(&key("nobody"));
        assert!(take("a", i64::MAX) && !take("a", i64::MAX));
    }
}
