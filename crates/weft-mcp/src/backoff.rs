//! When a server that could not be reached may be tried again. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
// A server that is back is found within half a minute, and one that is gone is asked twice a minute.
const LONGEST: Duration = Duration::from_secs(30);
/// After this many failures in a row nobody waits any more: calls fail at once until it is time for one
/// more attempt.
const FAILURES_MAX: u32 = 5;

/// What to do about connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectDecision {
    /// Try now.
    Try,
    /// Try after this time.
    Wait(Duration),
    /// Do not try for this time.
    Refuse(Duration),
}

/// Failures to connect in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// What to do now.
    pub(crate) fn next(&self, now: Instant) -> ConnectDecision {
        // By the clock that never goes back: set to another time, the machine would rest for hours.
        let left = self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        match left {
            Duration::ZERO => ConnectDecision::Try,
            left if self.failures >= FAILURES_MAX => ConnectDecision::Refuse(left),
            left => ConnectDecision::Wait(left),
        }
    }

    /// An attempt has failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + wait);
    }

    /// How many attempts have failed in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// An attempt has succeeded.
    pub(crate) fn succeeded(&mut self) {
        // One success is enough: what failed before says nothing of the next time.
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_calls_are_refused_and_one_attempt_is_let_through() {
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
