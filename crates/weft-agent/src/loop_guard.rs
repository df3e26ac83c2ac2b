//! Detects when an agent goes round in circles: the same calls with the same results, or the same text without a
//! call.

mod print;
mod text;

use serde::{Deserialize, Serialize};
use weft_core::Json;

use print::{CallPrint, ROUND_MAX};
use text::{ComparisonBudget, TextPrint};

use crate::calls::Done;

/// Minimum number of similar rounds that make a loop.
// A single round has none before it that it could repeat.
const WINDOW_MIN: usize = 2;
/// Minimum similarity of two texts that count as the same, from 0 (nothing in common) to 1 (equal).
pub(crate) const SIMILAR: f64 = 0.90;

/// A finished call.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Json,
    /// Its outcome.
    pub result: Outcome,
    /// Whether the tool is meant to be polled, such as for the status of a job.
    pub poll: bool,
}

impl Observed {
    /// The parts of a tool call that are compared.
    pub(crate) fn of(name: &str, done: &Done) -> Self {
        let result =
            if done.failed { Outcome::Error(done.text.clone()) } else { Outcome::Text(done.text.clone()) };
        Self { name: name.to_owned(), arguments: done.arguments.clone(), result, poll: done.poll }
    }
}

/// The outcome of a call, as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A result.
    Text(String),
    /// A failure.
    Error(String),
}

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Progress, as far as can be told.
    Continue,
    /// The last rounds were similar.
    Loop,
}

/// Compares each round with the previous one. Stores at most about 64,000 characters, however large the calls are.
///
/// Two rounds are similar when they have the same calls in any order: the same tool, arguments that are equal value
/// by value or, for longer texts, similar and with the same digits, and similar results. Results are compared without
/// parts that change by themselves (times, durations, random ids); errors must be equal after that. Calls of polling
/// tools do not count.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoopGuard {
    window: usize,
    alike: usize,
    /// The lowest similarity between the parts of the last two rounds, 0 to 1.
    similarity: f64,
    last: LastRound,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LastRound {
    #[default]
    Nothing,
    Calls(Vec<CallPrint>),
    Idle(TextPrint),
}

impl Default for LoopGuard {
    fn default() -> Self {
        Self::new(WINDOW_MIN)
    }
}

impl LoopGuard {
    /// A guard that stops after `window` similar rounds, at least two.
    pub(crate) fn new(window: usize) -> Self {
        Self { window: window.max(WINDOW_MIN), alike: 0, similarity: 0.0, last: LastRound::Nothing }
    }

    /// Adds a finished round of calls.
    pub(crate) fn observe(&mut self, round: &[Observed]) -> Verdict {
        // Nothing was called, so nothing was repeated; the current series of similar rounds continues.
        if round.is_empty() {
            return Verdict::Continue;
        }
        // One limit for the round and not for each call: the guard is part of the state saved while a loop is
        // suspended.
        let mut left = ROUND_MAX;
        let counted = round.iter().filter(|call| !call.poll);
        let calls: Vec<CallPrint> = counted.map(|call| CallPrint::of(call, &mut left)).collect();
        // A round that only polls a job ends a series of similar rounds: waiting is not a loop.
        if calls.is_empty() {
            return self.next(LastRound::Nothing, 0.0);
        }
        let similarity = match &self.last {
            LastRound::Calls(before) => similar_calls(before, &calls),
            LastRound::Nothing | LastRound::Idle(_) => 0.0,
        };
        self.next(LastRound::Calls(calls), similarity)
    }

    /// Adds a reply of the model that leads to no call, such as a plan that cannot be parsed.
    pub(crate) fn idle(&mut self, reply: &str) -> Verdict {
        let mut left = ROUND_MAX;
        let reply = TextPrint::of_value(reply, &mut left);
        let similarity = match &self.last {
            LastRound::Idle(before) => before.similarity(&reply, &mut ComparisonBudget::default()),
            LastRound::Nothing | LastRound::Calls(_) => 0.0,
        };
        self.next(LastRound::Idle(reply), similarity)
    }

    fn next(&mut self, last: LastRound, similarity: f64) -> Verdict {
        self.similarity = similarity;
        self.alike = match last {
            LastRound::Nothing => 0,
            LastRound::Calls(_) | LastRound::Idle(_) if similarity >= SIMILAR => self.alike.saturating_add(1),
            LastRound::Calls(_) | LastRound::Idle(_) => 1,
        };
        self.last = last;
        if self.alike >= self.window.max(WINDOW_MIN) { Verdict::Loop } else { Verdict::Continue }
    }
}

/// The lowest similarity among the pairs formed by the calls of two rounds; 0 when a call has no partner.
fn similar_calls(before: &[CallPrint], now: &[CallPrint]) -> f64 {
    if before.len() != now.len() {
        return 0.0;
    }
    let mut work = ComparisonBudget::default();
    let mut partners: Vec<&CallPrint> = before.iter().collect();
    let mut lowest = 1.0_f64;
    for call in now {
        let partner = partners.iter().enumerate().find_map(|(index, partner)| {
            let similarity = partner.similarity(call, &mut work);
            (similarity >= SIMILAR).then_some((index, similarity))
        });
        let Some((index, similarity)) = partner else { return 0.0 };
        // Each call is paired once: two equal calls of this round do not both match one of the previous round.
        partners.swap_remove(index);
        lowest = lowest.min(similarity);
    }
    lowest
}

#[cfg(test)]
mod tests;
