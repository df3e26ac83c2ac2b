//! Controls who speaks to the user: one activation at a time, so that messages do not interleave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

/// No activation speaks. Activations are numbered from 1.
const NOBODY: u32 = 0;
/// No activation speaks, and none may take the floor without asking.
const KEPT: u32 = u32::MAX;

#[derive(Debug, Default)]
struct FloorState {
    speaker: AtomicU32,
    changed: Notify,
}

/// The right to speak in a run. The default floor is unrestricted: no activation waits for it.
///
/// An activation that finds it free takes it without asking. Only the engine passes it on, when the activation that
/// holds it ends.
#[derive(Clone, Debug, Default)]
pub struct Floor(Option<Arc<FloorState>>);

impl Floor {
    /// Creates a floor that one activation holds at a time. It is free at first.
    pub fn of_one() -> Self {
        Self(Some(Arc::default()))
    }

    /// Takes the floor if it is free. Returns whether the activation holds it now.
    pub fn take(&self, activation: u32) -> bool {
        let Some(inner) = &self.0 else { return true };
        let taken = inner.speaker.compare_exchange(NOBODY, activation, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(activation)
    }

    /// Returns whether this activation holds it exclusively.
    pub fn is_of(&self, activation: u32) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.speaker.load(Ordering::Acquire) == activation)
    }

    /// Passes it to an activation, or frees it.
    pub fn pass(&self, to: Option<u32>) {
        self.set(to.unwrap_or(NOBODY));
    }

    /// Reserves it: it cannot be taken until it is passed on.
    pub fn keep(&self) {
        self.set(KEPT);
    }

    /// Returns whether it is reserved.
    pub fn is_kept(&self) -> bool {
        self.is_of(KEPT)
    }

    /// Waits until the activation holds it.
    pub async fn wait(&self, activation: u32) {
        let Some(inner) = &self.0 else { return };
        loop {
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that a change in between wakes this task.
            changed.as_mut().enable();
            if self.is_of(activation) {
                return;
            }
            changed.await;
        }
    }

    fn set(&self, speaker: u32) {
        if let Some(inner) = &self.0 {
            inner.speaker.store(speaker, Ordering::Release);
            inner.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn one_holder_keeps_the_floor_until_it_is_passed_on() {
        let floor = Floor::of_one();
        assert!(floor.take(3) && floor.take(3) && floor.is_of(3));
        assert!(!floor.take(4));
        assert_eq!(floor.wait(4).now_or_never(), None);
        let mut waits = std::pin::pin!(floor.wait(4));
        assert!(waits.as_mut().now_or_never().is_none());
        floor.pass(Some(4));
        assert!(waits.now_or_never().is_some() && floor.take(4) && !floor.take(3));
        floor.keep();
        assert!(floor.is_kept() && !floor.take(5));
        floor.pass(None);
        assert!(floor.take(5));
    }

    #[test]
    fn the_shared_floor_is_held_by_everyone() {
        let floor = Floor::default();
        assert!(floor.take(1) && floor.take(2) && floor.wait(3).now_or_never().is_some());
        assert!(!floor.is_of(1) && !floor.is_kept());
    }
}
