//! The nodes of a run that have finished so far, for callers that requested a trace.

use weft_core::{Entry, Json};

use super::traced;

/// Maximum number of nodes in a trace.
const NODES_MAX: usize = 1_000;
/// Maximum size of a trace in bytes. Each `node_finished` of a traced stream contains all of it, and the journal that
/// it is taken from may be much larger.
const BYTES_MAX: usize = 8 << 20;

/// The first nodes that have finished, up to the limits.
#[derive(Debug, Default)]
pub(crate) struct NodeTrace {
    nodes: Vec<Json>,
    /// Size of the nodes, including the one that did not fit.
    bytes: usize,
}

impl NodeTrace {
    /// Adds the node that has finished with an entry, if any, and if there is room for it.
    pub(crate) fn learn(&mut self, entry: &Entry) {
        if self.nodes.len() >= NODES_MAX || self.bytes > BYTES_MAX {
            return;
        }
        let Some(node) = traced(entry) else { return };
        self.bytes += serde_json::to_vec(&node).map_or(0, |bytes| bytes.len());
        // After one that does not fit none is added, so that the trace has no gap.
        if self.bytes <= BYTES_MAX {
            self.nodes.push(node);
        }
    }

    /// Returns the finished nodes so far, in order.
    pub(crate) fn nodes(&self) -> &[Json] {
        &self.nodes
    }

    /// Returns the finished nodes, in order.
    pub(crate) fn into_nodes(self) -> Vec<Json> {
        self.nodes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use weft_core::journal::NextEdges;
    use weft_core::{Outputs, Record};

    use super::*;

    fn finished(bytes: usize) -> Entry {
        let who = crate::dialect::activation();
        let record = Record::NodeFinished {
            who,
            inputs: Arc::default(),
            outputs: Arc::new(Outputs::of("content", json!("x".repeat(bytes)))),
            error: None,
            elapsed: 0.5,
            route: NextEdges::default(),
            assigned: Vec::new(),
            suspension: None,
            spent: Default::default(),
        };
        Entry { seq: 1, event: Some(1), at_ms: 0, record }
    }

    #[test]
    fn a_trace_has_a_maximum_number_of_nodes_and_a_maximum_size() {
        let mut many = NodeTrace::default();
        (0..NODES_MAX + 5).for_each(|_| many.learn(&finished(1)));
        assert_eq!(many.into_nodes().len(), NODES_MAX);
        let mut large = NodeTrace::default();
        (0..4).for_each(|_| large.learn(&finished(BYTES_MAX / 3)));
        large.learn(&finished(1));
        assert_eq!(large.nodes().len(), 2);
    }
}
