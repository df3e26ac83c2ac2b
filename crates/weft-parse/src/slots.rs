//! A concurrency limit with a bounded waiting queue.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use weft_core::{Error, ErrorKind, Result};

/// Delay after which a caller that was refused may retry.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// A fixed number of slots and a limit on how many callers wait for one. The wait is bounded because each waiting
/// caller holds its file in memory.
#[derive(Debug)]
pub(crate) struct Slots {
    places: Semaphore,
    /// Counts callers that hold a slot as well as those that wait.
    line: Semaphore,
    waiting_max: usize,
}

/// A slot, freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    // In this order, so that a caller admitted to the queue finds the slot already free.
    _place: SemaphorePermit<'a>,
    _in_line: SemaphorePermit<'a>,
}

impl Slots {
    /// Creates `at_once` slots with room for `waiting_max` waiting callers.
    pub(crate) fn new(at_once: usize, waiting_max: usize) -> Self {
        let waiting_max = waiting_max.min(Semaphore::MAX_PERMITS);
        let at_once = at_once.min(Semaphore::MAX_PERMITS - waiting_max);
        let line = Semaphore::new(at_once + waiting_max);
        Self { places: Semaphore::new(at_once), line, waiting_max }
    }

    /// Waits for a slot. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// `RateLimited` if the queue is full.
    pub(crate) async fn acquire(&self, what: &str) -> Result<Slot<'_>> {
        let in_line = self.line.try_acquire().map_err(|_| self.full(what))?;
        let place = self.places.acquire().await.map_err(|_| Error::internal("a line of files is closed"))?;
        Ok(Slot { _place: place, _in_line: in_line })
    }

    fn full(&self, what: &str) -> Error {
        let message = format!("cannot work on {what} now: {} others wait already", self.waiting_max);
        let full = Error::new(ErrorKind::RateLimited, message).help("try again when some of them are done");
        Error { retry_after: Some(AGAIN_AFTER), ..full }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn whoever_finds_the_line_full_is_refused() {
        let slots = Slots::new(1, 2);
        let first = slots.acquire("a").now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(slots.acquire("b"))).collect();
        waiting.iter_mut().for_each(|one| assert!(one.now_or_never().is_none()));
        let refused = slots.acquire("c").now_or_never().unwrap().unwrap_err();
        assert_eq!((refused.kind, refused.retry_after), (ErrorKind::RateLimited, Some(AGAIN_AFTER)));
        assert!(refused.full().contains("2 others wait"), "{}", refused.full());
        // Who goes away makes room, and so does who is done.
        drop(waiting.pop());
        let mut late = Box::pin(slots.acquire("d"));
        assert!((&mut late).now_or_never().is_none());
        drop(first);
        let second = (&mut waiting[0]).now_or_never().unwrap().unwrap();
        let mut last = Box::pin(slots.acquire("e"));
        assert!((&mut last).now_or_never().is_none());
        drop(second);
        assert!((&mut late).now_or_never().unwrap().is_ok());
    }
}
