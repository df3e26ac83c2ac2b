//! Finds the causes behind nodes that never run. A node that lies behind an edge to a missing component, or
//! behind another node that never runs, is not reported itself; only the cause is.

use std::collections::{HashMap, HashSet};

use weft_core::ComponentId;

use crate::canvas::Canvas;
use crate::link::{Finding, Linked};
use crate::plan::NodeIx;
use crate::suggest::Suggester;

/// What is reported about the nodes that no edge leads to.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// The nodes to report, each with the number of nodes behind it.
    pub heads: HashMap<NodeIx, usize>,
    /// Nodes that become reachable once an edge already reported as an error is fixed: nothing is reported
    /// about them.
    pub by_broken_way: HashSet<NodeIx>,
}

impl Lost {
    /// Examines a linked graph.
    pub(crate) fn of(canvas: &Canvas, linked: &Linked, suggester: &mut Suggester) -> Self {
        let mut search = LostSearch { canvas, linked, lost: HashSet::new(), without_turn: HashSet::new() };
        for finding in &linked.findings {
            match finding {
                Finding::Unreachable(ix) => {
                    search.lost.insert(*ix);
                    search.without_turn.insert(*ix);
                }
                Finding::OnlyCalled(ix) => {
                    search.without_turn.insert(*ix);
                }
                _ => {}
            }
        }
        if search.lost.is_empty() {
            return Self::default();
        }
        let by_broken_way = search.by_broken_way(suggester);
        search.lost.retain(|ix| !by_broken_way.contains(ix));
        Self { heads: search.heads(), by_broken_way }
    }
}

struct LostSearch<'a> {
    canvas: &'a Canvas,
    linked: &'a Linked,
    /// The nodes that no edge leads to.
    lost: HashSet<NodeIx>,
    /// These, and the nodes that run only as tools.
    without_turn: HashSet<NodeIx>,
}

impl<'a> LostSearch<'a> {
    /// Returns the ids that a node leads to, including ids of missing components.
    fn ways(&self, ix: NodeIx) -> impl Iterator<Item = &'a ComponentId> + use<'a> {
        let node = &self.linked.nodes[ix];
        let armed = node.exception.armed;
        let branches = node.shape.branches.iter().flatten().flat_map(|(_, ids)| ids);
        // For a node with branches the list is only the drawing.
        let written = self.canvas.nodes.get(&node.id).filter(|_| node.shape.branches.is_none());
        let drawn = written.into_iter().flat_map(|node| &node.downstream).map(|link| &link.to);
        branches.chain(drawn).chain(node.exception.goto.iter().filter(move |_| armed))
    }

    fn targets(&self, ix: NodeIx) -> impl Iterator<Item = NodeIx> + use<'a> {
        let by_id = &self.linked.by_id;
        self.ways(ix).filter_map(move |id| by_id.get(id)).copied()
    }

    /// Returns the nodes that a node calls as tools.
    fn tools(&self, ix: NodeIx) -> impl Iterator<Item = NodeIx> + use<'a> {
        let by_id = &self.linked.by_id;
        self.linked.nodes[ix].shape.calls.iter().filter_map(move |id| by_id.get(id)).copied()
    }

    fn by_broken_way(&self, suggester: &mut Suggester) -> HashSet<NodeIx> {
        let running = (0..self.linked.nodes.len()).filter(|ix| !self.without_turn.contains(ix));
        let broken = running.flat_map(|ix| self.ways(ix)).filter(|id| !self.linked.by_id.contains_key(*id));
        let mut seen = HashSet::new();
        let mut open = Vec::new();
        for id in broken.filter(|id| seen.insert(*id)) {
            let ids = self.linked.nodes.iter().map(|node| node.id.as_str());
            let Some(meant) = suggester.misspelled_among(id.as_str(), ids) else {
                // It cannot be known which node is meant: it may be any of them.
                return self.lost.clone();
            };
            open.extend(self.linked.by_id.get(meant).copied());
        }
        let mut found = HashSet::new();
        while let Some(ix) = open.pop() {
            if self.lost.contains(&ix) && found.insert(ix) {
                open.extend(self.targets(ix).chain(self.tools(ix)));
            }
        }
        found
    }

    /// Returns the fewest nodes from which all lost ones can be reached; of a cycle, the first node.
    fn heads(&self) -> HashMap<NodeIx, usize> {
        let others = |ix: NodeIx| self.targets(ix).filter(move |&to| to != ix);
        let led_to: HashSet<NodeIx> = self.lost.iter().flat_map(|&ix| others(ix)).collect();
        let mut order: Vec<NodeIx> = self.lost.iter().copied().collect();
        // Nodes that no other one leads to come first, so a cycle is a head only where no head reaches it.
        order.sort_by_key(|ix| (led_to.contains(ix), *ix));
        let (mut heads, mut known) = (HashMap::new(), HashSet::new());
        for head in order {
            if !known.insert(head) {
                continue;
            }
            let before = known.len();
            let mut open: Vec<NodeIx> = self.targets(head).collect();
            while let Some(ix) = open.pop() {
                if self.lost.contains(&ix) && known.insert(ix) {
                    open.extend(self.targets(ix));
                }
            }
            heads.insert(head, known.len() - before);
        }
        heads
    }
}
