//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use weft_core::seam::Clock;

/// The time of day as the operating system tells it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
