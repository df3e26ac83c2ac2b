//! The state of one scope: which edges have fired and what each node is doing. The top level of a canvas is
//! one scope; every round of an Iteration or Loop is another.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::component::Form;
use weft_core::journal::FramePath;
use weft_core::stream::PendingOutputs;
use weft_core::{Json, Outputs, RunId, TaskId};
use weft_dsl::plan::NodeIx;

use crate::output_dedup::SaidSoFar;

/// Number of a scope within its run.
pub(crate) type ScopeId = u32;

/// A node in its scope.
pub(crate) type ScopedNode = (ScopeId, NodeIx);

/// The state of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EdgeState {
    /// Its source may still take it.
    Open,
    /// Its source is writing a text that its target may start with.
    Early,
    /// Its target has started with that text.
    EarlyTaken,
    /// Taken, and its target has not started since.
    Fresh,
    /// Taken, but its source runs again before its target has started: the target waits for the new result,
    /// and the source need not take the edge a second time.
    Again,
    /// Taken, and its target has started since.
    Fired,
    /// Not taken, but a loop that it leaves may come round again.
    Dying,
    /// Not taken.
    Dead,
}

impl EdgeState {
    /// Whether its target has to wait for it.
    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Open | Self::Again | Self::Dying)
    }
}

/// The status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Its turn has not come yet.
    Waiting,
    /// It is running as this activation.
    Running(u32),
    /// A person must answer first.
    // The name in stored sessions.
    #[serde(rename = "parked")]
    Suspended,
    /// A person has answered what it asked in the middle of its work: it is about to continue.
    Resuming,
    /// It has finished.
    Done,
    /// It can no longer run.
    Skipped,
}

/// The state of one node of a scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeState {
    /// Its status.
    pub status: Status,
    /// An edge to it has fired and it has not started since.
    pub pending: bool,
    /// It need not wait for what it reads.
    #[serde(skip)]
    pub excused: bool,
    /// It is in the queue of nodes that may start.
    #[serde(skip)]
    pub queued: bool,
    /// Its most recent outputs.
    pub outputs: Option<Arc<Outputs>>,
    /// Approximate size in bytes of its outputs and its suspended state.
    #[serde(skip)]
    pub bytes: usize,
    /// What others may start with while it is at work.
    #[serde(skip)]
    pub published: Option<Published>,
    /// Its saved state while a person decides about its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // The name in stored sessions.
    #[serde(rename = "asleep")]
    pub suspended: Option<Box<SuspendedNode>>,
    /// Since when it has been waiting for a person, once its run has announced that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<SuspendedSince>,
    /// What it had said when its work was suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spoken: Option<Box<SaidSoFar>>,
}

/// What a node provides before it has finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// Texts that it is still writing, by output.
    pub texts: Outputs,
    /// All its outputs, once its work has ended.
    pub whole: PendingOutputs,
}

/// When a node began to wait for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SuspendedSince {
    /// The run in which it began to wait.
    pub run: RunId,
    /// Distinguishes tasks that came up in the same run: the first task has this number, and those for the
    /// form's further fields follow.
    pub number: u32,
    /// In milliseconds since 1970.
    pub at_ms: i64,
}

impl SuspendedSince {
    /// Returns when a wait of `timeout_seconds` is over, in milliseconds since 1970.
    pub(crate) fn due(&self, timeout_seconds: Option<u64>) -> Option<i64> {
        // Saturating: a canvas may set any timeout, even one that is effectively infinite.
        let ms = i64::try_from(timeout_seconds?.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Some(self.at_ms.saturating_add(ms))
    }

    /// Returns the id of the task that is `place` places after the first.
    pub(crate) fn task(&self, place: usize) -> TaskId {
        TaskId::new(format!("{}-{}", self.run, self.number as usize + place))
    }
}

/// The answers with which a waiting node starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filled {
    /// The values filled in.
    pub values: serde_json::Map<String, Json>,
    /// No one answered in time.
    pub timed_out: bool,
}

/// A node's work, suspended in the middle until a person answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SuspendedNode {
    /// What it asks.
    pub form: Form,
    /// The state it has to keep.
    pub state: Json,
    /// What has been answered so far.
    #[serde(default)]
    pub answers: serde_json::Map<String, Json>,
    /// Which of its alternative texts was chosen.
    #[serde(default)]
    pub alternative: usize,
}

impl SuspendedNode {
    /// Returns the fields that have not been answered yet: position in the form, key, description.
    pub(crate) fn open_fields(&self) -> impl Iterator<Item = (usize, &String, &Json)> {
        let fields = self.form.fields.iter().enumerate();
        let fields = fields.map(|(place, (field, description))| (place, field, description));
        fields.filter(|(_, field, _)| !self.answers.contains_key(*field))
    }

    /// Returns the form with only the fields that have not been answered yet.
    pub(crate) fn open(&self) -> Form {
        let mut form = self.form.clone();
        form.fields.retain(|field, _| !self.answers.contains_key(field));
        form
    }
}

impl NodeState {
    fn new() -> Self {
        Self {
            status: Status::Waiting,
            pending: false,
            excused: false,
            queued: false,
            outputs: None,
            bytes: 0,
            published: None,
            suspended: None,
            asked: None,
            spoken: None,
        }
    }

    /// Returns the tasks that it waits for.
    pub(crate) fn open_tasks(&self) -> impl Iterator<Item = TaskId> {
        let asked = self.asked.iter().filter(|_| self.status == Status::Suspended);
        asked.flat_map(|asked| {
            let places: Vec<usize> = match &self.suspended {
                None => vec![0],
                Some(suspended) => suspended.open_fields().map(|(place, ..)| place).collect(),
            };
            places.into_iter().map(|place| asked.task(place))
        })
    }

    /// Whether the scope cannot end while the node is in this state.
    pub(crate) fn is_active(&self) -> bool {
        self.pending || matches!(self.status, Status::Running(_) | Status::Suspended | Status::Resuming)
    }

    /// Whether nodes that read it need not wait.
    pub(crate) fn is_settled(&self) -> bool {
        !self.pending && matches!(self.status, Status::Done | Status::Skipped)
    }
}

/// Identifies the round of a frame that a scope represents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RoundOf {
    /// The scope that holds the Iteration or Loop.
    pub parent: ScopeId,
    /// The activation of the Iteration or Loop.
    pub frame: u32,
    /// 0-based.
    pub index: usize,
    /// The item, in an Iteration.
    pub item: Option<Arc<Json>>,
}

/// The outputs of a body's node in the last round that is over, as seen from the scope around the body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Past {
    /// The activation of the Iteration or Loop.
    pub frame: u32,
    /// 0-based.
    pub round: usize,
    /// What it produced.
    pub outputs: Arc<Outputs>,
    /// Approximate size of its outputs, in bytes.
    #[serde(skip)]
    pub bytes: usize,
}

/// The state of one scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ScopeRun {
    /// Index of the plan's scope.
    pub plan_scope: usize,
    /// Its round; absent for the top-level scope.
    pub round: Option<RoundOf>,
    /// The frame path to this scope.
    pub path: FramePath,
    /// By index in the plan scope's `edges`.
    pub edges: Vec<EdgeState>,
    /// By index in the plan scope's `nodes`.
    pub nodes: Vec<NodeState>,
    /// Edges that are [`EdgeState::Dying`].
    pub dying: Vec<usize>,
    /// Number of active nodes.
    pub active: usize,
    /// Past outputs of nodes in the bodies of this scope's frames, at any depth.
    pub past: BTreeMap<NodeIx, Past>,
}

impl ScopeRun {
    /// Creates a scope in which nothing has happened.
    pub(crate) fn new(
        plan_scope: usize,
        shape: &weft_dsl::plan::PlanScope,
        round: Option<RoundOf>,
        path: FramePath,
    ) -> Self {
        Self {
            plan_scope,
            round,
            path,
            edges: vec![EdgeState::Open; shape.edges.len()],
            nodes: vec![NodeState::new(); shape.nodes.len()],
            dying: Vec::new(),
            active: 0,
            past: BTreeMap::new(),
        }
    }

    /// Keeps the outputs of a body's node from a round that is over. Concurrent rounds may end in any order:
    /// the last item wins. Returns how many bytes are dropped.
    pub(crate) fn remember(&mut self, ix: NodeIx, new: Past) -> usize {
        let later = |old: &Past| old.frame == new.frame && old.round > new.round;
        if self.past.get(&ix).is_some_and(later) {
            return new.bytes;
        }
        self.past.insert(ix, new).map_or(0, |old| old.bytes)
    }

    /// Changes a node and keeps the count of active nodes up to date.
    pub(crate) fn change(&mut self, local: usize, change: impl FnOnce(&mut NodeState)) {
        let node = &mut self.nodes[local];
        let before = node.is_active();
        change(node);
        match (before, node.is_active()) {
            (false, true) => self.active += 1,
            (true, false) => self.active -= 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Suspended sessions are stored for as long as that takes, and read by later versions.
    #[test]
    fn stored_nodes_keep_their_names() {
        let stored = serde_json::json!({
            "status": "parked", "pending": false, "outputs": null,
            "asleep": {"form": {"tips": null, "fields": {}}, "state": 1, "answers": {}, "alternative": 0},
        });
        let node: NodeState = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(node.status, Status::Suspended);
        assert_eq!(node.suspended.as_ref().unwrap().state, 1);
        let again = serde_json::to_value(&node).unwrap();
        assert_eq!(
            (&again["status"], &again["asleep"]["state"]),
            (&stored["status"], &stored["asleep"]["state"])
        );
    }
}
