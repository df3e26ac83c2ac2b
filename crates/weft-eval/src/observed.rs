//! What a turn did, folded from its journal into the data that expectations use. Pure.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use weft_core::budget::Spent;
use weft_core::citation::Cited;
use weft_core::journal::{Ending, NextEdges};
use weft_core::{Entry, Json, Record};
use weft_engine::engine::Tried;

/// What a turn did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observed {
    /// Its answer; if the canvas emits no text, its outputs as JSON.
    pub answer: String,
    /// The outputs of its last message, or else of its last node.
    pub outputs: Json,
    /// Activations that ended, in order.
    pub nodes: Vec<NodeSeen>,
    /// Tool calls, in the order in which they started.
    pub tools: Vec<ToolSeen>,
    /// The sources that the answer cites.
    pub cited: Vec<Cited>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// How it ended.
    pub ending: Ending,
    /// The error, unless it succeeded or is suspended.
    pub error: Option<String>,
    /// Its usage.
    pub spent: Spent,
}

/// An activation that ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSeen {
    /// The node.
    pub node: String,
    /// Its display name.
    pub name: Arc<str>,
    /// Its outputs.
    pub outputs: Json,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSeen {
    /// The name by which the model calls it.
    pub tool: String,
    /// Its path in display names.
    pub path: String,
    /// The arguments.
    pub arguments: Arc<Json>,
    /// Whether it failed.
    pub failed: bool,
}

impl Observed {
    /// Returns what a trial turn did.
    pub fn of(tried: &Tried) -> Self {
        let report = &tried.report;
        let outputs = json!(report.outputs);
        let nothing = report.outputs.0.is_empty() || report.ending != Ending::Succeeded;
        // If a canvas ends without a message, there is still a value for expectations.
        let answer =
            if report.said.is_empty() && !nothing { outputs.to_string() } else { report.said.clone() };
        let mut observed = Self {
            answer,
            outputs,
            nodes: Vec::new(),
            tools: Vec::new(),
            cited: report.cited.clone(),
            warnings: Vec::new(),
            ending: report.ending,
            error: report.error.as_ref().map(weft_core::Error::full),
            spent: report.spent,
        };
        tried.entries.iter().for_each(|entry| observed.learn(entry));
        observed
    }

    fn learn(&mut self, entry: &Entry) {
        match &entry.record {
            // It will be recorded when it ends.
            Record::NodeFinished { route: NextEdges::Suspended, .. } => {}
            Record::NodeFinished { who, outputs, .. } => self.nodes.push(NodeSeen {
                node: who.node.to_string(),
                name: Arc::clone(&who.name),
                outputs: json!(outputs),
            }),
            Record::ToolStarted { call, .. } => self.tools.push(ToolSeen {
                tool: call.tool.to_string(),
                path: call.path.to_string(),
                arguments: Arc::clone(&call.arguments),
                failed: false,
            }),
            Record::ToolFinished { call, .. } if call.failed => {
                let started = &call.started;
                let same = |seen: &&mut ToolSeen| {
                    // Of several equal calls, the first that has not failed yet: what a test sees of them does not tell
                    // them apart.
                    !seen.failed && *seen.path == *started.path && seen.arguments == started.arguments
                };
                if let Some(seen) = self.tools.iter_mut().find(same) {
                    seen.failed = true;
                }
            }
            Record::Warned { node, message } => self.warnings.push(format!("{node}: {message}")),
            _ => {}
        }
    }

    /// Returns the last outputs of a node, by its id or display name.
    pub fn outputs_of(&self, node: &str) -> Option<&Json> {
        // The last activation counts: a node in a loop ends several times.
        self.nodes.iter().rev().find(|seen| seen.is(node)).map(|seen| &seen.outputs)
    }

    /// Returns the cost, in the currency of the models' prices.
    #[expect(clippy::cast_precision_loss, reason = "money that large is not spent on a test")]
    pub fn money(&self) -> f64 {
        self.spent.micros as f64 / 1e6
    }
}

impl NodeSeen {
    /// Whether this is the node, by its id or display name.
    pub fn is(&self, node: &str) -> bool {
        self.node == node || *self.name == *node
    }
}

impl ToolSeen {
    /// Whether this is the tool, by its name or its path.
    pub fn is(&self, tool: &str) -> bool {
        self.tool == tool || self.path == tool
    }
}
