//! The time of day.

use std::time::Duration;

/// Tells the time. The time of day may go backwards together with the machine's clock, so it must not be used to
/// measure durations.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;

    /// Returns the time since a moment that is fixed while the program runs. It never goes back, and advances even
    /// while the process or the whole machine is suspended. Used to determine how old a permission is.
    fn running(&self) -> Duration;
}

/// A clock that never advances, for tests and golden logs.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub i64);

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        self.0
    }

    fn running(&self) -> Duration {
        Duration::ZERO
    }
}
