//! The plan that the engine runs: a canvas checked, indexed and linked once, and shared by all runs of a version.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weft_core::component::{Component, Role, Shape};
use weft_core::reference::Inputs;
use weft_core::seam::secrets::PREFIX;
use weft_core::{ComponentId, Json, Reference};

/// Index of a node in [`Plan::nodes`].
pub type NodeIx = usize;

/// A checked canvas.
#[derive(Debug)]
pub struct Plan {
    /// SHA-256 of the canvas version, in lower-case hex.
    pub version: Arc<str>,
    /// All nodes, in the order of the canvas.
    pub nodes: Vec<PlanNode>,
    /// The top level first, then one scope for the body of each Iteration and Loop.
    pub scopes: Vec<PlanScope>,
    /// Node index by id.
    pub by_id: HashMap<ComponentId, NodeIx>,
    /// All component ids, shared with running nodes.
    pub components: Arc<HashSet<ComponentId>>,
    /// The values of `sys.*` and `env.*` when a session begins.
    pub globals: serde_json::Map<String, Json>,
    /// The names of secret globals: those declared as secret, and those used where only secrets are; and the
    /// tenant's secrets that it names, as `secret.NAME`.
    pub secrets: Vec<Arc<str>>,
    /// The opening message of a session; may be empty.
    pub prologue: String,
    /// Whether it processes documents on their way into a dataset.
    pub is_pipeline: bool,
}

impl Plan {
    /// Returns the names of the tenant's secrets that it reads.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().filter_map(|name| name.strip_prefix(PREFIX))
    }

    /// Whether a new run could use an input of this name: a component reads it, or a form that comes up later has this
    /// address.
    pub fn reads_input(&self, key: &str) -> bool {
        self.reads_of_start(key) || self.asks_at(key)
    }

    /// Whether an input of this name is a value of the component that a run starts with: a field of its form, or read as
    /// its output.
    pub fn takes_at_start(&self, key: &str) -> bool {
        let form = self.start().map(|start| start.component.form(&Inputs::default()));
        form.is_some_and(|form| form.fields.contains_key(key)) || self.reads_of_start(key)
    }

    fn start(&self) -> Option<&PlanNode> {
        self.scopes.first().and_then(|top| self.nodes.get(top.start))
    }

    fn reads_of_start(&self, key: &str) -> bool {
        let start = self.start();
        let mut read = self
            .nodes
            .iter()
            .flat_map(|node| node.reads.iter().chain(node.alternative_reads.iter().flatten()))
            .map(|read| &read.reference);
        read.any(|reference| match reference {
            Reference::Output { component, path } => {
                let rest = path.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with('.'));
                start.is_some_and(|start| start.id == *component) && rest.is_some()
            }
            Reference::Global(_) => false,
        })
    }

    fn asks_at(&self, address: &str) -> bool {
        // In a round of a frame, an address ends in the index of the round.
        let id = address.split('[').next().unwrap_or(address);
        let node = self.by_id.get(id).and_then(|&ix| self.nodes.get(ix));
        node.is_some_and(|node| !node.component.form(&Inputs::default()).fields.is_empty())
    }
}

/// What happens when a node fails.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exception {
    /// Whether failures are handled at all.
    pub armed: bool,
    /// Followed instead of the ordinary successors.
    pub goto: Vec<ComponentId>,
    /// Becomes the main output if there is no `goto`.
    pub default: Option<Json>,
    /// Takes precedence: a node that lacks a key waits until a person has fixed that.
    pub asks_for_keys: bool,
}

impl Exception {
    /// Whether a failure is caught, by a branch or by a default value.
    pub fn catches(&self) -> bool {
        self.armed && (!self.goto.is_empty() || self.default.is_some())
    }
}

/// A value that a node reads, with its reference resolved.
#[derive(Clone, Debug)]
pub struct PlannedRead {
    /// The reference as the component knows it.
    pub reference: Reference,
    /// The reference as events name it.
    pub key: Arc<str>,
    /// The node whose output it is, if it is an output.
    pub node: Option<NodeIx>,
    /// Whether reader and node are in the same loop, so that an output which this pass skipped is empty.
    pub same_pass: bool,
}

/// One node of a plan.
pub struct PlanNode {
    /// Its id.
    pub id: ComponentId,
    /// Its display name.
    pub name: Arc<str>,
    /// Its component type.
    pub kind: Arc<str>,
    /// Its role, which determines how the engine treats it.
    pub role: Role,
    /// The component that does the work.
    pub component: Arc<dyn Component>,
    /// Its declared properties.
    pub shape: Shape,
    /// The scope it is in; `local` is its index in that scope's `nodes`.
    pub scope: usize,
    /// See `scope`.
    pub local: usize,
    /// The scope of its body, for an Iteration or Loop.
    pub body: Option<usize>,
    /// Edges that leave it, as indexes into its scope's `edges`.
    pub outs: Vec<usize>,
    /// Edges that lead to it and hold it back until they are settled, as indexes into its scope's `edges`.
    pub ins: Vec<usize>,
    /// Nodes of its scope that must have finished or been skipped before it starts.
    pub waits: Vec<NodeIx>,
    /// Further such nodes for each of its alternative texts.
    pub alternative_waits: Vec<Vec<NodeIx>>,
    /// Nodes that wait for it.
    pub dependents: Vec<NodeIx>,
    /// What it always reads.
    pub reads: Vec<PlannedRead>,
    /// What it reads for each of its alternative texts.
    pub alternative_reads: Vec<Vec<PlannedRead>>,
    /// Successors that may start while it is still writing its text.
    pub listeners: Vec<NodeIx>,
    /// Whether a node behind it, at any distance, shows text to the user.
    pub message_follows: bool,
    /// What happens when it fails.
    pub exception: Exception,
    /// Components in other frames that it names as successors: no edge can lead there.
    pub out_of_reach: Vec<ComponentId>,
    /// Time limit of one activation.
    pub time_limit: Option<Duration>,
}

impl fmt::Debug for PlanNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanNode").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// One level of a canvas: the top level, or the body of an Iteration or Loop.
#[derive(Debug, Default)]
pub struct PlanScope {
    /// The Iteration or Loop whose body it is.
    pub owner: Option<NodeIx>,
    /// Its nodes.
    pub nodes: Vec<NodeIx>,
    /// The node where it starts.
    pub start: NodeIx,
    /// The edges between its nodes.
    pub edges: Vec<PlanEdge>,
    /// Its cycles.
    pub loops: Vec<LoopRegion>,
}

/// An edge from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanEdge {
    /// Its source.
    pub from: NodeIx,
    /// Its target.
    pub to: NodeIx,
    /// Taken when the source succeeds and chooses it.
    pub ordinary: bool,
    /// Taken when the source fails.
    pub exception: bool,
    /// The loop that it closes, as an index into the scope's `loops`: such an edge holds nothing back, and
    /// firing it begins the loop's next pass.
    pub closes: Option<usize>,
    /// The loops that it leaves: while one of them may still come round again, the edge is not dead.
    pub leaves: Vec<usize>,
}

/// A cycle of a canvas: the node where it is entered and all nodes on the cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopRegion {
    /// The node where it is entered.
    pub header: NodeIx,
    /// Its nodes, including the header, in ascending order.
    pub nodes: Vec<NodeIx>,
    /// Edges that lead into it from outside, as indexes into the scope's `edges`.
    pub entries: Vec<usize>,
}

impl LoopRegion {
    /// Whether a node is one of its nodes.
    pub fn holds(&self, node: NodeIx) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }
}
