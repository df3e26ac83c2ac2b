//! Graph algorithms behind the plan: which edges close cycles, which nodes belong to a loop, which are
//! strongly connected. Nodes are `0..n`, edges are successor lists.

/// Returns the edges that close a cycle when the graph is walked depth first from `start` in the order of the
/// successor lists, as `(from, to)`, and which nodes can be reached at all.
pub(crate) fn back_edges(successors: &[Vec<usize>], start: usize) -> (Vec<(usize, usize)>, Vec<bool>) {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const CLOSED: u8 = 2;
    let mut colour = vec![NEW; successors.len()];
    let mut back = Vec::new();
    // An explicit stack: a canvas may be a chain of ten thousand nodes.
    let mut stack = vec![(start, 0)];
    colour[start] = OPEN;
    while let Some((node, next)) = stack.last_mut() {
        let node = *node;
        let Some(&to) = successors[node].get(*next) else {
            colour[node] = CLOSED;
            stack.pop();
            continue;
        };
        *next += 1;
        match colour[to] {
            NEW => {
                colour[to] = OPEN;
                stack.push((to, 0));
            }
            OPEN => back.push((node, to)),
            _ => {}
        }
    }
    (back, colour.into_iter().map(|c| c != NEW).collect())
}

/// Returns the nodes that can be reached from `start`, including itself.
pub(crate) fn reachable(successors: &[Vec<usize>], start: usize) -> Vec<bool> {
    reachable_from(successors, &[start])
}

/// Returns the nodes that can be reached from any of `starts`, including themselves.
pub(crate) fn reachable_from(successors: &[Vec<usize>], starts: &[usize]) -> Vec<bool> {
    let mut seen = vec![false; successors.len()];
    let mut stack = starts.to_vec();
    for &start in starts {
        seen[start] = true;
    }
    while let Some(node) = stack.pop() {
        for &to in &successors[node] {
            if !std::mem::replace(&mut seen[to], true) {
                stack.push(to);
            }
        }
    }
    seen
}

/// Returns the graph with all edges reversed.
pub(crate) fn reversed(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (from, targets) in successors.iter().enumerate() {
        for &to in targets {
            predecessors[to].push(from);
        }
    }
    predecessors
}

/// Returns the number of each node's strongly connected component (Tarjan 1972, without recursion).
/// Components are numbered in reverse topological order.
pub(crate) fn components(successors: &[Vec<usize>]) -> Vec<usize> {
    let n = successors.len();
    let mut state = Tarjan {
        index: vec![usize::MAX; n],
        low: vec![0; n],
        component: vec![usize::MAX; n],
        stack: Vec::new(),
        next_index: 0,
        next_component: 0,
    };
    for root in 0..n {
        if state.index[root] == usize::MAX {
            state.walk(successors, root);
        }
    }
    state.component
}

struct Tarjan {
    index: Vec<usize>,
    low: Vec<usize>,
    component: Vec<usize>,
    stack: Vec<usize>,
    next_index: usize,
    next_component: usize,
}

impl Tarjan {
    fn enter(&mut self, node: usize) {
        self.index[node] = self.next_index;
        self.low[node] = self.next_index;
        self.next_index += 1;
        self.stack.push(node);
    }

    fn walk(&mut self, successors: &[Vec<usize>], root: usize) {
        // An explicit stack again: recursion would go as deep as the longest chain.
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            if let Some(&to) = successors[node].get(*next) {
                *next += 1;
                if self.index[to] == usize::MAX {
                    self.enter(to);
                    path.push((to, 0));
                // Only nodes still on the stack: a node of a closed component says nothing about this one.
                } else if self.component[to] == usize::MAX {
                    self.low[node] = self.low[node].min(self.index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                self.low[parent] = self.low[parent].min(self.low[node]);
            }
            if self.low[node] == self.index[node] {
                self.close(node);
            }
        }
    }

    fn close(&mut self, root: usize) {
        while let Some(node) = self.stack.pop() {
            self.component[node] = self.next_component;
            if node == root {
                break;
            }
        }
        self.next_component += 1;
    }
}

/// Returns the members of a loop: every node on a path from `header` to `tail` along forward edges.
pub(crate) fn loop_body(
    forward: &[Vec<usize>],
    backward: &[Vec<usize>],
    header: usize,
    tail: usize,
) -> Vec<usize> {
    let down = reachable(forward, header);
    let up = reachable(backward, tail);
    // Both ends always belong to it, even where the back edge is the only path between them.
    (0..forward.len()).filter(|&node| (down[node] && up[node]) || node == header || node == tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_closed_by_one_edge_and_contains_its_path() {
        // 0 → 1 → {2, 3} → 4 → 1, 4 → 5; 6 is unconnected.
        let graph = vec![vec![1], vec![2, 3], vec![4], vec![4], vec![1, 5], vec![], vec![5]];
        let (back, seen) = back_edges(&graph, 0);
        assert_eq!(back, [(4, 1)]);
        assert_eq!(seen, [true, true, true, true, true, true, false]);
        let mut forward = graph.clone();
        forward[4].retain(|&to| to != 1);
        assert_eq!(loop_body(&forward, &reversed(&forward), 1, 4), [1, 2, 3, 4]);
        let scc = components(&graph);
        assert!(scc[1] == scc[2] && scc[2] == scc[3] && scc[3] == scc[4]);
        assert!(scc[0] != scc[1] && scc[5] != scc[1]);
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        let chain: Vec<_> =
            (0..100_000_usize).map(|i| if i + 1 < 100_000 { vec![i + 1] } else { vec![] }).collect();
        assert!(back_edges(&chain, 0).0.is_empty());
        assert_eq!(components(&chain).len(), 100_000);
    }
}
