//! How often each webhook is called: a bucket of tokens for each, which fills again with time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use weft_core::CanvasKey;
use weft_core::webhook::Rate;

/// Buckets that are kept, unless more of them are in use.
const BUCKETS_KEPT: usize = 10_000;

/// The buckets of this process.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<CanvasKey, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at_ms: i64,
    rate: Rate,
}

impl Bucket {
    fn filled(mut self, now_ms: i64) -> Self {
        let most = f64::from(self.rate.limit);
        // A clock that was set back gives nothing.
        let passed = u32::try_from(now_ms.saturating_sub(self.at_ms).max(0)).unwrap_or(u32::MAX);
        let seconds = f64::from(passed) / 1000.0;
        self.tokens = (self.tokens + seconds * most / self.rate.per.as_secs_f64().max(1.0)).min(most);
        self.at_ms = now_ms;
        self
    }
}

impl Rates {
    /// Whether one more call is within the rate. It counts when it is.
    pub(crate) fn take(&self, webhook: &CanvasKey, rate: Rate, now_ms: i64) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_KEPT {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| bucket.filled(now_ms).tokens < f64::from(bucket.rate.limit));
        }
        let new = Bucket { tokens: f64::from(rate.limit), at_ms: now_ms, rate };
        let bucket = buckets.entry(webhook.clone()).or_insert(new);
        bucket.rate = rate;
        *bucket = bucket.filled(now_ms);
        let within = bucket.tokens >= 1.0;
        if within {
            bucket.tokens -= 1.0;
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_core::TenantId;

    use super::*;

    #[test]
    fn a_bucket_is_emptied_and_fills_with_time() {
        let (rates, rate) = (Rates::default(), Rate { limit: 2, per: Duration::from_secs(60) });
        let key = |id: &str| CanvasKey::new(&TenantId::from("t"), id);
        let take = |id: &str, at_ms: i64| rates.take(&key(id), rate, at_ms);
        assert!(take("a", 0) && take("a", 0) && !take("a", 0));
        assert!(take("b", 0), "another webhook has its own");
        assert!(!take("a", 29_000) && take("a", 30_000) && !take("a", 30_000));
        assert!(!take("a", -1_000_000), "a clock that was set back gives nothing");
        assert!(take("a", i64::MAX) && take("a", i64::MAX) && !take("a", i64::MAX));
    }
}
