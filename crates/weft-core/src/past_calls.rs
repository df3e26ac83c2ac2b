//! Calls of tools that earlier turns of a conversation have made, as far as the conversation keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ComponentId, RunId};

/// Calls that are kept for one node, at most; the oldest go first.
pub const CALLS_MAX: usize = 32;
/// Characters that the calls of all nodes of a session take together, at most.
const SESSION_CHARS_MAX: usize = 96_000;
/// What the names of a call are taken to cost, in characters.
const PER_CALL: usize = 40;

/// What an agent sees in later turns of the calls that it has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolHistory {
    /// Nothing.
    #[default]
    None,
    /// One line for each call: what was called with what, and what came of it.
    Summary,
    /// The calls and their results, as they were in the turn itself.
    Full,
}

impl ToolHistory {
    /// Characters of the arguments of one call.
    pub fn arguments_max(self) -> usize {
        match self {
            Self::None => 0,
            Self::Summary => 160,
            Self::Full => 4_000,
        }
    }

    /// Characters of what one call gave.
    pub fn result_max(self) -> usize {
        match self {
            Self::None => 0,
            Self::Summary => 200,
            Self::Full => 6_000,
        }
    }

    /// Characters of all calls of one node.
    fn node_max(self) -> usize {
        match self {
            Self::None => 0,
            Self::Summary => 6_000,
            Self::Full => 24_000,
        }
    }
}

/// A call of a tool in an earlier turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastCall {
    /// The run that made it.
    pub run: RunId,
    /// Its id, unique within the activation that made it.
    pub call: Arc<str>,
    /// The name the model called it by.
    pub tool: Arc<str>,
    /// The arguments as JSON; cut off where only a summary is kept.
    pub arguments: Arc<str>,
    /// What it gave, or the beginning of that.
    pub result: Arc<str>,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl PastCall {
    fn chars(&self) -> usize {
        // Bytes are no fewer than characters, and are known.
        PER_CALL + self.tool.len() + self.arguments.len() + self.result.len()
    }
}

/// The calls of earlier turns by node, oldest first. Bounded in number and size, so that the state of a session does
/// not grow with the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PastCalls(BTreeMap<ComponentId, Vec<PastCall>>);

impl PastCalls {
    /// Those of a node, oldest first.
    pub fn of(&self, node: &ComponentId) -> &[PastCall] {
        self.0.get(node).map_or(&[], Vec::as_slice)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps further calls of a node, the newest of which may push out the oldest.
    pub fn add(&mut self, node: &ComponentId, keeps: ToolHistory, calls: impl IntoIterator<Item = PastCall>) {
        let all = self.0.entry(node.clone()).or_default();
        all.extend(calls);
        let mut chars: usize = all.iter().map(PastCall::chars).sum();
        let mut gone = 0;
        // The oldest first: what a conversation turns to again is mostly what came last.
        while all.len() - gone > CALLS_MAX || chars > keeps.node_max() {
            let Some(oldest) = all.get(gone) else { break };
            chars -= oldest.chars();
            gone += 1;
        }
        // All at once: a call taken from the front moves those behind it.
        all.drain(..gone);
        self.shrink();
    }

    /// Lets go of the calls that this does not hold of.
    pub fn retain(&mut self, holds: impl Fn(&ComponentId, &PastCall) -> bool) {
        for (node, calls) in &mut self.0 {
            calls.retain(|call| holds(node, call));
        }
        self.0.retain(|_, calls| !calls.is_empty());
    }

    /// Takes from the node that has most, until all of it is small enough.
    fn shrink(&mut self) {
        let chars = |calls: &Vec<PastCall>| calls.iter().map(PastCall::chars).sum::<usize>();
        // The state of a session is read and written with each of its turns.
        while self.0.values().map(chars).sum::<usize>() > SESSION_CHARS_MAX {
            let Some(most) = self.0.values_mut().max_by_key(|calls| chars(calls)) else { break };
            most.remove(0);
        }
        self.0.retain(|_, calls| !calls.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: usize, result: &str) -> PastCall {
        let (call, result) = (format!("call_{number}").into(), result.into());
        PastCall { run: "r".into(), call, tool: "t".into(), arguments: "{}".into(), result, failed: false }
    }

    #[test]
    fn the_newest_calls_are_kept() {
        let (mut kept, node) = (PastCalls::default(), ComponentId::from("Agent:A"));
        kept.add(&node, ToolHistory::Full, (0..40).map(|number| call(number, "x")));
        let ids: Vec<_> = kept.of(&node).iter().map(|call| &*call.call).collect();
        assert_eq!((ids.len(), ids[0], ids[31]), (CALLS_MAX, "call_8", "call_39"));
        kept.add(&node, ToolHistory::Full, [call(40, &"x".repeat(20_000)), call(41, &"x".repeat(3_000))]);
        assert!(kept.of(&node).len() < 30 && &*kept.of(&node).last().unwrap().call == "call_41");
        // One that is too long by itself leaves nothing.
        kept.add(&node, ToolHistory::Summary, [call(42, &"x".repeat(20_000))]);
        assert!(kept.is_empty());
    }

    #[test]
    fn a_session_has_a_limit_of_its_own() {
        let mut kept = PastCalls::default();
        for node in 0..20 {
            let node = ComponentId::from(format!("Agent:{node}"));
            kept.add(&node, ToolHistory::Full, (0..4).map(|number| call(number, &"x".repeat(5_000))));
        }
        let size = serde_json::to_string(&kept).unwrap().len();
        assert!((60_000..SESSION_CHARS_MAX + 10_000).contains(&size), "{size}");
        assert!(!kept.of(&"Agent:19".into()).is_empty(), "what has just been done is there");
        kept.retain(|_, _| false);
        assert!(kept.is_empty());
    }
}
