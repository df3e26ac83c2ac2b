//! Notices when an agent goes round in circles: the same calls with the same results, or the same words
//! that lead to no call.

mod print;
mod text;

use serde::{Deserialize, Serialize};
use weft_core::Json;

use print::{CallPrint, ROUND_MAX};
use text::{TextPrint, Work};

use crate::calls::Done;

/// Rounds alike that make a loop, at least.
const WINDOW_MIN: usize = 2;
/// From which similarity on two texts count as the same: 0 is nothing in common, 1 is equal.
pub(crate) const SIMILAR: f64 = 0.90;

/// A call that is over.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The tool's name.
    pub name: String,
    /// What it was called with.
    pub arguments: Json,
    /// What came of it.
    pub result: Outcome,
    /// Whether asking the same again is the tool's purpose, as with the status of a job.
    pub poll: bool,
}

impl Observed {
    /// What is looked at of a call to this tool.
    pub(crate) fn of(name: &str, done: &Done) -> Self {
        let result =
            if done.failed { Outcome::Error(done.text.clone()) } else { Outcome::Text(done.text.clone()) };
        Self { name: name.to_owned(), arguments: done.arguments.clone(), result, poll: done.poll }
    }
}

/// What came of a call, as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A result.
    Text(String),
    /// A failure.
    Error(String),
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is progress, as far as one can tell.
    Continue,
    /// The last rounds were alike.
    Loop,
}

/// Compares each round with the one before it. Keeps about 64,000 characters at most, however large the
/// calls are.
///
/// Two rounds are alike when they have the same calls in any order: same tool, arguments that are equal
/// value by value or, as to longer texts, similar and with the same digits in them, and similar results.
/// Results are compared without what changes by itself (times, durations, random ids); errors must be
/// equal without it. Calls of polling tools do not count.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoopGuard {
    window: usize,
    alike: usize,
    /// How similar the last two rounds were in what they differ most in, 0 to 1.
    similarity: f64,
    last: Last,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Last {
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
    /// A guard that stops after `window` rounds alike, two at least.
    pub(crate) fn new(window: usize) -> Self {
        Self { window: window.max(WINDOW_MIN), alike: 0, similarity: 0.0, last: Last::Nothing }
    }

    /// The calls of a round are over.
    pub(crate) fn observe(&mut self, round: &[Observed]) -> Verdict {
        // Nothing was called, so nothing was repeated; the row before it goes on.
        if round.is_empty() {
            return Verdict::Continue;
        }
        // One limit for the round and not for each call: the guard is part of what is kept while a loop
        // waits.
        let mut left = ROUND_MAX;
        let counted = round.iter().filter(|call| !call.poll);
        let calls: Vec<CallPrint> = counted.map(|call| CallPrint::of(call, &mut left)).collect();
        // A round that only looks after a job breaks a row of rounds alike: waiting is no loop.
        if calls.is_empty() {
            return self.next(Last::Nothing, 0.0);
        }
        let similarity = match &self.last {
            Last::Calls(before) => similar_calls(before, &calls),
            Last::Nothing | Last::Idle(_) => 0.0,
        };
        self.next(Last::Calls(calls), similarity)
    }

    /// The model has replied with something that leads to no call, such as a plan that cannot be read.
    pub(crate) fn idle(&mut self, reply: &str) -> Verdict {
        let mut left = ROUND_MAX;
        let reply = TextPrint::of_value(reply, &mut left);
        let similarity = match &self.last {
            Last::Idle(before) => before.similarity(&reply, &mut Work::default()),
            Last::Nothing | Last::Calls(_) => 0.0,
        };
        self.next(Last::Idle(reply), similarity)
    }

    fn next(&mut self, last: Last, similarity: f64) -> Verdict {
        self.similarity = similarity;
        self.alike = match last {
            Last::Nothing => 0,
            Last::Calls(_) | Last::Idle(_) if similarity >= SIMILAR => self.alike.saturating_add(1),
            Last::Calls(_) | Last::Idle(_) => 1,
        };
        self.last = last;
        if self.alike >= self.window.max(WINDOW_MIN) { Verdict::Loop } else { Verdict::Continue }
    }
}

/// The lowest similarity among the pairs that the calls of two rounds form; 0 when one has no partner.
fn similar_calls(before: &[CallPrint], now: &[CallPrint]) -> f64 {
    if before.len() != now.len() {
        return 0.0;
    }
    let mut work = Work::default();
    let mut partners: Vec<&CallPrint> = before.iter().collect();
    let mut lowest = 1.0_f64;
    for call in now {
        let partner = partners.iter().enumerate().find_map(|(index, partner)| {
            let similarity = partner.similarity(call, &mut work);
            (similarity >= SIMILAR).then_some((index, similarity))
        });
        let Some((index, similarity)) = partner else { return 0.0 };
        // Each counts once: two equal calls of this round do not both match one of the round before.
        partners.swap_remove(index);
        lowest = lowest.min(similarity);
    }
    lowest
}

#[cfg(test)]
mod tests;
