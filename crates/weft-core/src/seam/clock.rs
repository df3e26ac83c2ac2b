//! The time of day.

use std::time::Duration;

/// Tells the time. An implementation may go backwards when the machine's clock does; nobody may
/// measure durations with the time of day.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;

    /// The time since some moment, which stays the same while the program runs. It never goes back, and goes
    /// on while the program or the whole machine sleeps: for whoever must know how old a permission is.
    fn running(&self) -> Duration;
}

/// A clock that stands still, for tests and golden logs.
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
