//! Who speaks to the user: one activation at a time, so that no message stands in the middle of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

/// Nobody speaks. Activations are numbered from 1 on.
const NOBODY: u32 = 0;
/// Nobody speaks, and whoever wants to has to ask.
const KEPT: u32 = u32::MAX;

#[derive(Debug, Default)]
struct FloorState {
    speaker: AtomicU32,
    changed: Notify,
}

/// The right to speak in a run. The default is everybody's: nobody waits for it.
///
/// Whoever finds it free takes it, without asking; it is passed on by the engine alone, when the
/// activation that has it ends.
#[derive(Clone, Debug, Default)]
pub struct Floor(Option<Arc<FloorState>>);

impl Floor {
    /// A floor that one activation has at a time. Nobody has it yet.
    pub fn of_one() -> Self {
        Self(Some(Arc::default()))
    }

    /// Takes it if nobody has it. Whether the activation has it now.
    pub fn take(&self, activation: u32) -> bool {
        let Some(inner) = &self.0 else { return true };
        let taken = inner.speaker.compare_exchange(NOBODY, activation, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(activation)
    }

    /// Whether this activation, and no other, has it.
    pub fn is_of(&self, activation: u32) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.speaker.load(Ordering::Acquire) == activation)
    }

    /// Gives it to an activation, or to whoever takes it first.
    pub fn pass(&self, to: Option<u32>) {
        self.set(to.unwrap_or(NOBODY));
    }

    /// Nobody takes it until it is passed on.
    pub fn keep(&self) {
        self.set(KEPT);
    }

    /// Whether it is kept for somebody.
    pub fn is_kept(&self) -> bool {
        self.is_of(KEPT)
    }

    /// Waits until the activation has it.
    pub async fn wait(&self, activation: u32) {
        let Some(inner) = &self.0 else { return };
        loop {
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that a change in between wakes us.
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
    fn one_has_it_and_keeps_it_until_it_is_passed_on() {
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
    fn everybody_has_the_one_that_is_everybodys() {
        let floor = Floor::default();
        assert!(floor.take(1) && floor.take(2) && floor.wait(3).now_or_never().is_some());
        assert!(!floor.is_of(1) && !floor.is_kept());
    }
}
