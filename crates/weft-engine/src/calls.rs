//! How the outside calls of a run's activations are handled.

use std::collections::HashMap;
use std::sync::Arc;

use weft_core::effect::{Effects, Known};
use weft_core::journal::ActivationRef;

use crate::recording::{ReplayScript, Where};

/// How the outside calls of a run are handled.
#[derive(Clone, Debug)]
pub enum CallHandling {
    /// They are made and recorded, so that the run can be resumed or replayed.
    Kept,
    /// They are made but not recorded.
    Unkept,
    /// None is made: they are answered from a recording.
    Recorded(Arc<ReplayScript>),
}

/// Hands out the effects of activations.
#[derive(Debug)]
pub(crate) struct Ledger {
    calls: CallHandling,
    /// Number of activations so far at each place, where that number tells them apart.
    counts: HashMap<Where, usize>,
}

impl Ledger {
    /// Creates the ledger of a run.
    pub(crate) fn new(calls: CallHandling) -> Self {
        Self { calls, counts: HashMap::new() }
    }

    /// Returns the effects of an activation that starts, with the results already known from before.
    pub(crate) fn effects(&mut self, who: &ActivationRef, known: HashMap<Arc<str>, Known>) -> Effects {
        match &self.calls {
            CallHandling::Kept => Effects::known(known),
            CallHandling::Unkept => Effects::unkept(),
            CallHandling::Recorded(script) => {
                let place = Where::from(who);
                let nth = self.counts.entry(place.clone()).or_insert(0);
                *nth += 1;
                script.effects(&place, *nth - 1)
            }
        }
    }

    /// An activation that is requeued does its work again from the start, but counts as one activation in a
    /// recording.
    pub(crate) fn requeue(&mut self, who: &ActivationRef) {
        if let Some(count) = self.counts.get_mut(&Where::from(who)) {
            *count -= 1;
        }
    }
}
