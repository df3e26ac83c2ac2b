//! The nodes of the graph and the edges between them.

use serde::{Deserialize, Serialize};

use super::state::GraphState;
use crate::message::BlockKind;

/// A node. A turn begins at [`Node::Start`] and is over behind [`Node::Finalize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// Takes the message that is replied to.
    #[serde(rename = "__start__")]
    Start,
    /// Clears what belongs to the turn before and sets the limit of steps.
    InitState,
    /// Stores what the user has asked to be remembered.
    MemoryTrigger,
    /// Makes one call of the model.
    Agent,
    /// Makes the calls of tools that the model has asked for.
    Tools,
    /// Makes the reply.
    Finalize,
    /// The turn is over.
    #[serde(rename = "__end__")]
    End,
}

impl Node {
    /// Its name.
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

/// Whether an edge is always taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// It is.
    Always,
    /// What the state says decides.
    Conditional,
}

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// From here …
    pub from: Node,
    /// … to there.
    pub to: Node,
    /// Whether it is always taken.
    pub kind: EdgeKind,
}

const fn edge(from: Node, to: Node, kind: EdgeKind) -> Edge {
    Edge { from, to, kind }
}

/// Every edge, for drawings. [`next`] follows them.
pub const EDGES: [Edge; 7] = [
    edge(Node::Start, Node::InitState, EdgeKind::Always),
    edge(Node::InitState, Node::MemoryTrigger, EdgeKind::Always),
    edge(Node::MemoryTrigger, Node::Agent, EdgeKind::Always),
    edge(Node::Agent, Node::Tools, EdgeKind::Conditional),
    edge(Node::Agent, Node::Finalize, EdgeKind::Conditional),
    edge(Node::Tools, Node::Agent, EdgeKind::Always),
    edge(Node::Finalize, Node::End, EdgeKind::Always),
];

/// The node behind another one. `stop` wins over calls that the model has asked for.
pub fn next(after: Node, state: &GraphState) -> Node {
    // The last message and not the last answer: once results stand behind it, its calls are made.
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

/// The graph in the language of Mermaid, which many viewers of Markdown draw.
pub fn to_mermaid() -> String {
    let line = |edge: &Edge| {
        let arrow = if edge.kind == EdgeKind::Always { "-->" } else { "-.->" };
        format!("    {} {arrow} {}\n", edge.from.as_str(), edge.to.as_str())
    };
    format!("flowchart TD\n{}", EDGES.iter().map(line).collect::<String>())
}
