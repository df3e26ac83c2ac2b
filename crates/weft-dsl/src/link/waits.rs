//! Which nodes wait for which, beyond what the edges say.

use weft_core::Reference;
use weft_core::component::Role;

use super::{Finding, Linked};
use crate::graph;
use crate::plan::{NodeIx, PlanScope};

impl Linked {
    /// Determines which nodes wait for which: a reference acts as an edge without control flow, lifted to the
    /// level that both ends share, and omitted where it would close a cycle.
    pub(super) fn wait(&mut self) {
        let mut wishes: Vec<Wish> = Vec::new();
        let mut itself = Vec::new();
        for ix in 0..self.nodes.len() {
            let node = &self.nodes[ix];
            let always = node.reads.iter().map(|read| (read, None));
            let chosen = node.alternative_reads.iter().enumerate();
            let chosen = chosen.flat_map(|(a, reads)| reads.iter().map(move |read| (read, Some(a))));
            for (read, alternative) in always.chain(chosen) {
                if read.node == Some(ix) {
                    itself.push((ix, read.reference.clone()));
                    continue;
                }
                let Some((waiter, source)) = read.node.and_then(|source| self.lift(ix, source)) else {
                    // A frame reads before its body has run.
                    if read.node.is_some_and(|source| self.around(source).any(|frame| frame == ix)) {
                        itself.push((ix, read.reference.clone()));
                    }
                    continue;
                };
                // A frame that stands in for the reader has no alternatives of its own: it always waits.
                let alternative = alternative.filter(|_| waiter == ix);
                wishes.push(Wish {
                    reader: ix,
                    reference: read.reference.clone(),
                    waiter,
                    source,
                    alternative,
                });
            }
        }
        for (ix, reference) in itself {
            self.note_itself(ix, reference);
        }
        for ix in 0..self.nodes.len() {
            self.nodes[ix].alternative_waits = vec![Vec::new(); self.nodes[ix].alternative_reads.len()];
        }
        // Level by level: two nodes of different levels never wait for each other.
        let mut levels: Vec<Vec<Wish>> = self.scopes.iter().map(|_| Vec::new()).collect();
        for wish in wishes {
            levels[self.nodes[wish.waiter].scope].push(wish);
        }
        for (scope, wishes) in levels.into_iter().enumerate() {
            self.grant(scope, wishes);
        }
    }

    /// Returns the pair of nodes on one level that represent the reader and its source: the nodes themselves
    /// or frames around them. `None` when one is inside the other.
    pub(crate) fn lift(&self, reader: NodeIx, source: NodeIx) -> Option<(NodeIx, NodeIx)> {
        self.around(reader)
            .find_map(|waiter| {
                let level = self.nodes[waiter].scope;
                let source = self.around(source).find(|&s| self.nodes[s].scope == level)?;
                Some((waiter, source))
            })
            .filter(|(waiter, source)| waiter != source)
    }

    /// Returns a node and the frames around it, innermost first.
    fn around(&self, ix: NodeIx) -> impl Iterator<Item = NodeIx> {
        std::iter::successors(Some(ix), |&ix| self.owner(ix)).take(self.nodes.len())
    }

    fn grant(&mut self, scope: usize, wishes: Vec<Wish>) {
        let count = self.scopes[scope].nodes.len();
        let mut forward = vec![Vec::new(); count];
        let mut started = vec![false; count];
        for edge in &self.scopes[scope].edges {
            started[self.nodes[edge.to].local] = true;
            if edge.closes.is_none() {
                forward[self.nodes[edge.from].local].push(self.nodes[edge.to].local);
            }
        }
        let mut with_all = forward.clone();
        for wish in &wishes {
            with_all[self.nodes[wish.source].local].push(self.nodes[wish.waiter].local);
        }
        // A wish can close a cycle only where all wishes together form one; only there is each followed.
        let circle = graph::components(&with_all);
        let start = self.scopes[scope].start;
        for wish in wishes {
            let (source, waiter) = (self.nodes[wish.source].local, self.nodes[wish.waiter].local);
            // A node that no edge leads to never runs, so no other node waits for it.
            if wish.source != start && !started[source] {
                continue;
            }
            if circle[source] == circle[waiter] {
                if graph::reachable(&forward, waiter)[source] {
                    self.note_later(scope, &wish);
                    continue;
                }
                // Two wishes may close a cycle only together: one that was granted counts against the next.
                forward[source].push(waiter);
            }
            self.wait_for(&wish);
        }
    }

    /// Reading what runs later is valid inside a loop, where it is the value of the previous pass or round.
    fn note_later(&mut self, scope: usize, wish: &Wish) {
        let PlanScope { loops, owner, .. } = &self.scopes[scope];
        let together = loops.iter().any(|l| l.holds(wish.source) && l.holds(wish.waiter));
        let rounds = owner.is_some_and(|owner| self.nodes[owner].role == Role::Repeat);
        if !together && !rounds {
            self.findings.push(Finding::ReadsLater(wish.reader, wish.reference.clone()));
        }
    }

    /// A node that runs again can read what it, or its body, produced the time before.
    fn note_itself(&mut self, ix: NodeIx, reference: Reference) {
        let node = &self.nodes[ix];
        let PlanScope { loops, owner, .. } = &self.scopes[node.scope];
        let again = loops.iter().any(|l| l.holds(ix))
            || owner.is_some_and(|owner| self.nodes[owner].role == Role::Repeat);
        if matches!(node.role, Role::Step | Role::Each | Role::Repeat) && !again {
            self.findings.push(Finding::ReadsLater(ix, reference));
        }
    }

    fn wait_for(&mut self, wish: &Wish) {
        let node = &mut self.nodes[wish.waiter];
        let waits = match wish.alternative {
            Some(alternative) => &mut node.alternative_waits[alternative],
            None => &mut node.waits,
        };
        if !waits.contains(&wish.source) {
            waits.push(wish.source);
            let dependents = &mut self.nodes[wish.source].dependents;
            if !dependents.contains(&wish.waiter) {
                dependents.push(wish.waiter);
            }
        }
    }
}

struct Wish {
    reader: NodeIx,
    reference: Reference,
    waiter: NodeIx,
    source: NodeIx,
    alternative: Option<usize>,
}
