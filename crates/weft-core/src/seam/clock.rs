//! The time of day.

/// Tells the time. An implementation may go backwards when the machine's clock does; nobody may
/// measure durations with it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;
}

/// A clock that stands still, for tests and golden logs.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub i64);

impl Clock for FixedClock {
    fn now_ms(&self) -> i64 {
        self.0
    }
}
