//! Reproducible random numbers: the same seed gives the same numbers.

use weft_core::context::mix;

/// A sequence of numbers determined by a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or_default()
    }

    /// Returns `true` with a probability of `per_mille` in a thousand.
    pub fn happens(&mut self, per_mille: u16) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// Returns another sequence that is determined by this one.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.number())
    }
}
