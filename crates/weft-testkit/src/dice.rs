//! Chance that can be had again: the same seed gives the same numbers.

use weft_core::context::mix;

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Numbers that this seed gives, and no other one.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or_default()
    }

    /// True so many times in a thousand.
    pub fn happens(&mut self, per_mille: u16) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// Other dice that depend on these.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.number())
    }
}
