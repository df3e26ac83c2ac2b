//! Nodes that others call as tools: they need no edge that leads to them.

use std::collections::HashSet;

use crate::link::{Finding, Linked};

impl Linked {
    /// Tells nodes that run as tools from those that never run.
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
            // Taken out of `lost` as it is found, so that agents who call each other end this.
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
