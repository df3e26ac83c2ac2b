//! Backoff for servers that could not be reached. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
// A server that is available again is noticed within half a minute, and one that is gone is tried twice a minute.
const LONGEST: Duration = Duration::from_secs(30);
/// Number of consecutive failures after which callers no longer wait: calls fail immediately until the next attempt
/// is due.
const FAILURES_MAX: u32 = 5;

/// Whether to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectDecision {
    /// Try now.
    Try,
    /// Try after this time.
    Wait(Duration),
    /// Do not try for this time.
    Refuse(Duration),
}

/// Consecutive failures to connect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Returns whether to connect now.
    pub(crate) fn next(&self, now: Instant) -> ConnectDecision {
        // Uses the monotonic clock: with a clock that is set back, the pause could last for hours.
        let left = self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        match left {
            Duration::ZERO => ConnectDecision::Try,
            left if self.failures >= FAILURES_MAX => ConnectDecision::Refuse(left),
            left => ConnectDecision::Wait(left),
        }
    }

    /// Records a failed attempt.
    pub(crate) fn failed(&mut self, now: Instant) {
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + wait);
    }

    /// Returns the number of consecutive failures.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a successful attempt.
    pub(crate) fn succeeded(&mut self) {
        // One success is enough: earlier failures say nothing about the next attempt.
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_calls_are_refused_except_for_one_attempt() {
        let mut backoff = Backoff::default();
        let start = Instant::now();
        assert_eq!(backoff.next(start), ConnectDecision::Try);
        for wait in [0.5, 1.0, 2.0, 4.0] {
            backoff.failed(start);
            let wait = Duration::from_secs_f64(wait);
            assert_eq!(backoff.next(start), ConnectDecision::Wait(wait));
            assert_eq!(backoff.next(start + wait), ConnectDecision::Try);
        }
        for wait in [8, 16, 30, 30, 30] {
            backoff.failed(start);
            assert_eq!(backoff.next(start), ConnectDecision::Refuse(Duration::from_secs(wait)));
            assert_eq!(backoff.next(start + Duration::from_secs(wait)), ConnectDecision::Try);
        }
        backoff.succeeded();
        assert_eq!((backoff.next(start), backoff.failures()), (ConnectDecision::Try, 0));
    }
}
