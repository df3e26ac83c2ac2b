//! What work has used, as plain numbers.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Usage of each budgeted resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Rounds of tool calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub rounds: u64,
    /// Tool calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
    /// Calls of models.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Millionths of the currency of the prices.
    #[serde(skip_serializing_if = "is_zero")]
    pub micros: u64,
    /// Milliseconds of working time.
    #[serde(skip_serializing_if = "is_zero")]
    pub millis: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Spent {
    /// Returns whether nothing has been used.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the same usage without working time.
    #[must_use]
    pub fn without_time(self) -> Self {
        Self { millis: 0, ..self }
    }

    /// Returns how much this exceeds `other`, resource by resource; zero where it does not.
    #[must_use]
    pub fn beyond(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// Returns the maximum of each resource.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rounds: each(self.rounds, other.rounds),
            tool_calls: each(self.tool_calls, other.tool_calls),
            model_calls: each(self.model_calls, other.model_calls),
            tokens: each(self.tokens, other.tokens),
            micros: each(self.micros, other.micros),
            millis: each(self.millis, other.millis),
        }
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_usage_is_the_difference() {
        let before = Spent { tokens: 10, micros: 7, ..Spent::default() };
        let now = Spent { tokens: 15, rounds: 1, ..Spent::default() };
        assert_eq!(now.beyond(before), Spent { tokens: 5, rounds: 1, ..Spent::default() });
        assert_eq!(before + now.beyond(before), now.max(before));
        assert!(before.beyond(before).is_none());
    }

    #[test]
    fn only_nonzero_usage_is_serialised() {
        let spent = Spent { tokens: 3, ..Spent::default() };
        assert_eq!(serde_json::to_string(&spent).unwrap(), r#"{"tokens":3}"#);
        assert_eq!(serde_json::from_str::<Spent>(r#"{"tokens":3}"#).unwrap(), spent);
    }
}
