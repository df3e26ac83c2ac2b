//! The nodes of the graph and the edges between them.

use serde::{Deserialize, Serialize};

use super::state::GraphState;
use crate::message::BlockKind;

/// A node. A turn starts at [`Node::Start`] and ends after [`Node::Finalize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// Takes the message to reply to.
    #[serde(rename = "__start__")]
    Start,
    /// Clears the data of the previous turn and sets the step limit.
    InitState,
    /// Stores what the user asked to remember.
    MemoryTrigger,
    /// Makes one call of the model.
    Agent,
    /// Makes the tool calls requested by the model.
    Tools,
    /// Builds the reply.
    Finalize,
    /// The turn is over.
    #[serde(rename = "__end__")]
    End,
}

impl Node {
    /// Returns its name in checkpoints and drawings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "__start__",
            Self::InitState => "init_state",
            Self::MemoryTrigger => "memory_trigger",
            Self::Agent => "agent",
            Self::Tools => "tools",
            Self::Finalize => "finalize",
            Self::End => "__end__",
        }
    }
}

/// Whether an edge is always taken or depends on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// Always taken.
    Always,
    /// Taken depending on the state.
    Conditional,
}

/// An edge of the graph, which the turn follows from one node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The source node.
    pub from: Node,
    /// The target node.
    pub to: Node,
    /// Whether it is always taken.
    pub kind: EdgeKind,
}

const fn edge(from: Node, to: Node, kind: EdgeKind) -> Edge {
    Edge { from, to, kind }
}

/// All edges, for drawings. [`next`] follows them.
pub const EDGES: [Edge; 7] = [
    edge(Node::Start, Node::InitState, EdgeKind::Always),
    edge(Node::InitState, Node::MemoryTrigger, EdgeKind::Always),
    edge(Node::MemoryTrigger, Node::Agent, EdgeKind::Always),
    edge(Node::Agent, Node::Tools, EdgeKind::Conditional),
    edge(Node::Agent, Node::Finalize, EdgeKind::Conditional),
    edge(Node::Tools, Node::Agent, EdgeKind::Always),
    edge(Node::Finalize, Node::End, EdgeKind::Always),
];

/// The node that follows another one. `stop` takes precedence over calls requested by the model.
pub fn next(after: Node, state: &GraphState) -> Node {
    // The last message and not the last answer: once results follow it, its calls have been made.
    let calls = || state.messages.last().is_some_and(|message| message.has(BlockKind::ToolUse));
    match after {
        Node::Start => Node::InitState,
        Node::InitState => Node::MemoryTrigger,
        Node::MemoryTrigger | Node::Tools => Node::Agent,
        Node::Agent if !state.stop && calls() => Node::Tools,
        Node::Agent => Node::Finalize,
        Node::Finalize | Node::End => Node::End,
    }
}

/// The graph as a Mermaid diagram, which many Markdown viewers can display.
pub fn to_mermaid() -> String {
    let line = |edge: &Edge| {
        let arrow = if edge.kind == EdgeKind::Always { "-->" } else { "-.->" };
        format!("    {} {arrow} {}\n", edge.from.as_str(), edge.to.as_str())
    };
    format!("flowchart TD\n{}", EDGES.iter().map(line).collect::<String>())
}
