//! Tool calls made in earlier turns of a conversation, as far as they are retained.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{ComponentId, RunId};

/// Maximum number of calls retained for one node; the oldest are dropped first.
pub const CALLS_MAX: usize = 32;
/// Maximum total size of the calls of all nodes of a session, in characters.
const SESSION_CHARS_MAX: usize = 96_000;
/// Assumed size of the names in a call, in characters.
const PER_CALL: usize = 40;

/// What an agent sees, in later turns, of the calls that it made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolHistory {
    /// Nothing.
    #[default]
    None,
    /// One line per call: the tool, its arguments and its result.
    Summary,
    /// The calls and their results, as in the turn itself.
    Full,
}

impl ToolHistory {
    /// Returns the maximum size of the arguments of one call, in characters.
    pub fn arguments_max(self) -> usize {
        match self {
            Self::None => 0,
            Self::Summary => 160,
            Self::Full => 4_000,
        }
    }

    /// Returns the maximum size of the result of one call, in characters.
    pub fn result_max(self) -> usize {
        match self {
            Self::None => 0,
            Self::Summary => 200,
            Self::Full => 6_000,
        }
    }

    /// Returns the maximum size of all calls of one node, in characters.
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
    /// The call's id, unique within the activation that made it.
    pub call: Arc<str>,
    /// The name by which the model called it.
    pub tool: Arc<str>,
    /// The arguments as JSON; truncated where only a summary is retained.
    pub arguments: Arc<str>,
    /// The result, or its beginning.
    pub result: Arc<str>,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl PastCall {
    fn chars(&self) -> usize {
        // The length in bytes is at least the number of characters, and costs nothing to obtain.
        PER_CALL + self.tool.len() + self.arguments.len() + self.result.len()
    }
}

/// The calls of earlier turns by node, oldest first. Bounded in number and size, so that the state of a session does
/// not grow with the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PastCalls(BTreeMap<ComponentId, Vec<PastCall>>);

impl PastCalls {
    /// Returns the calls of a node, oldest first.
    pub fn of(&self, node: &ComponentId) -> &[PastCall] {
        self.0.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds further calls of a node; they may displace the oldest ones.
    pub fn add(&mut self, node: &ComponentId, keeps: ToolHistory, calls: impl IntoIterator<Item = PastCall>) {
        let all = self.0.entry(node.clone()).or_default();
        all.extend(calls);
        let mut chars: usize = all.iter().map(PastCall::chars).sum();
        let mut gone = 0;
        // The oldest go first, because a conversation mostly returns to what came last.
        while all.len() - gone > CALLS_MAX || chars > keeps.node_max() {
            let Some(oldest) = all.get(gone) else { break };
            chars -= oldest.chars();
            gone += 1;
        }
        // Removed together, because every removal from the front moves the rest.
        all.drain(..gone);
        self.shrink();
    }

    /// Drops the calls for which `holds` is false.
    pub fn retain(&mut self, holds: impl Fn(&ComponentId, &PastCall) -> bool) {
        for (node, calls) in &mut self.0 {
            calls.retain(|call| holds(node, call));
        }
        self.0.retain(|_, calls| !calls.is_empty());
    }

    /// Drops calls of the node with the largest total until the overall size is within the limit.
    fn shrink(&mut self) {
        let chars = |calls: &Vec<PastCall>| calls.iter().map(PastCall::chars).sum::<usize>();
        // The state of a session is read and written in every turn.
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
    fn a_session_has_its_own_limit() {
        let mut kept = PastCalls::default();
        for node in 0..20 {
            let node = ComponentId::from(format!("Agent:{node}"));
            kept.add(&node, ToolHistory::Full, (0..4).map(|number| call(number, &"x".repeat(5_000))));
        }
        let size = serde_json::to_string(&kept).unwrap().len();
        assert!((60_000..SESSION_CHARS_MAX + 10_000).contains(&size), "{size}");
        assert!(!kept.of(&"Agent:19".into()).is_empty(), "the latest call is kept");
        kept.retain(|_, _| false);
        assert!(kept.is_empty());
    }
}
