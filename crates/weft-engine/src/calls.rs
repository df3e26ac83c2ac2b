//! What becomes of the calls that the activations of a run make to the outside.

use std::collections::HashMap;
use std::sync::Arc;

use weft_core::effect::{Effects, Known};
use weft_core::journal::ActivationRef;

use crate::recording::{ReplayScript, Where};

/// What becomes of the calls of a run.
#[derive(Clone, Debug)]
pub enum CallHandling {
    /// They are made and noted, so that the run can go on, or be done again.
    Kept,
    /// They are made, and forgotten.
    Unkept,
    /// None is made: they are answered from a recording.
    Recorded(Arc<ReplayScript>),
}

/// Hands out the calls of activations.
#[derive(Debug)]
pub(crate) struct Ledger {
    calls: CallHandling,
    /// How many activations there have been at each place, where they are told apart by that.
    counts: HashMap<Where, usize>,
}

impl Ledger {
    /// For a run.
    pub(crate) fn new(calls: CallHandling) -> Self {
        Self { calls, counts: HashMap::new() }
    }

    /// The calls of an activation that begins, with what is known of them from before.
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

    /// An activation does its work when it begins again, and that is one activation in a recording.
    pub(crate) fn requeue(&mut self, who: &ActivationRef) {
        if let Some(count) = self.counts.get_mut(&Where::from(who)) {
            *count -= 1;
        }
    }
}
