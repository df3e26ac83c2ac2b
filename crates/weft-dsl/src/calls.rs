//! Nodes that others call as tools: they need no edge leading to them.

use std::collections::HashSet;

use crate::link::{Finding, Linked};

impl Linked {
    /// Distinguishes nodes that run only as tools from those that never run.
    pub(crate) fn note_calls(&mut self) {
        let mut lost: HashSet<_> = self
            .findings
            .iter()
            .filter_map(|finding| if let Finding::Unreachable(ix) = finding { Some(*ix) } else { None })
            .collect();
        if lost.is_empty() {
            return;
        }
        let mut callers: Vec<_> = (0..self.nodes.len()).filter(|ix| !lost.contains(ix)).collect();
        while let Some(caller) = callers.pop() {
            let called = self.nodes[caller].shape.calls.iter().filter_map(|id| self.by_id.get(id));
            // Removed from `lost` when found, so that agents calling each other do not loop for ever.
            callers.extend(called.copied().filter(|ix| lost.remove(ix)));
        }
        for finding in &mut self.findings {
            if let Finding::Unreachable(ix) = *finding
                && !lost.contains(&ix)
            {
                *finding = Finding::OnlyCalled(ix);
            }
        }
    }
}
