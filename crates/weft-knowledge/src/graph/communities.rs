//! Detects communities: entities that are more closely related to each other than to others (Louvain: Blondel
//! et al. 2008).

/// Maximum number of rounds over all entities on one level.
const ROUNDS_MAX: usize = 20;
/// Maximum number of times that communities are merged into larger ones.
const LEVELS_MAX: usize = 8;
/// Smallest gain that counts.
// Smaller gains are rounding errors, which could move nodes back and forth forever.
const GAIN_MIN: f64 = 1e-9;

/// Returns the community of each of `count` nodes, numbered from 0. Edges count in both directions.
pub(super) fn communities(count: usize, edges: &[(usize, usize, f64)]) -> Vec<usize> {
    let mut of: Vec<usize> = (0..count).collect();
    let mut graph = EntityNetwork::new(count, edges.iter().copied());
    for _ in 0..LEVELS_MAX {
        let moved = graph.moved();
        let (moved, groups) = numbered(&moved);
        if groups == graph.neighbours.len() {
            break;
        }
        of.iter_mut().for_each(|node| *node = moved[*node]);
        graph = graph.together(&moved, groups);
    }
    numbered(&of).0
}

/// Renumbers groups from 0 in order of appearance, and returns how many there are.
fn numbered(groups: &[usize]) -> (Vec<usize>, usize) {
    let mut numbers = std::collections::HashMap::new();
    let of = groups
        .iter()
        .map(|group| {
            let next = numbers.len();
            *numbers.entry(*group).or_insert(next)
        })
        .collect();
    (of, numbers.len())
}

struct EntityNetwork {
    /// The neighbours of each node, with the weights of the edges.
    neighbours: Vec<Vec<(usize, f64)>>,
    /// Twice the weight inside each node that stands for several.
    within: Vec<f64>,
    /// Twice the sum of all weights.
    total: f64,
}

impl EntityNetwork {
    fn new(count: usize, edges: impl Iterator<Item = (usize, usize, f64)>) -> Self {
        let mut graph = Self { neighbours: vec![Vec::new(); count], within: vec![0.0; count], total: 0.0 };
        for (one, other, weight) in edges {
            if one >= count || other >= count || !weight.is_finite() || weight <= 0.0 {
                continue;
            }
            graph.total += 2.0 * weight;
            if one == other {
                graph.within[one] += 2.0 * weight;
            } else {
                graph.neighbours[one].push((other, weight));
                graph.neighbours[other].push((one, weight));
            }
        }
        graph
    }

    fn degree(&self, node: usize) -> f64 {
        self.within[node] + self.neighbours[node].iter().map(|(_, weight)| weight).sum::<f64>()
    }

    /// Moves each node to where modularity gains most, until no move gains anything.
    fn moved(&self) -> Vec<usize> {
        let count = self.neighbours.len();
        let mut of: Vec<usize> = (0..count).collect();
        let degrees: Vec<f64> = (0..count).map(|node| self.degree(node)).collect();
        let mut sums = degrees.clone();
        if self.total <= 0.0 {
            return of;
        }
        for _ in 0..ROUNDS_MAX {
            let mut is_still = true;
            for node in 0..count {
                let own = of[node];
                // A node is compared as if it were in no community.
                sums[own] -= degrees[node];
                // In the order of the groups, so that the same graph always has the same communities.
                let mut links: std::collections::BTreeMap<usize, f64> = std::collections::BTreeMap::new();
                for (neighbour, weight) in &self.neighbours[node] {
                    *links.entry(of[*neighbour]).or_default() += weight;
                }
                let gain = |group: usize, links: f64| links - sums[group] * degrees[node] / self.total;
                let stay = gain(own, links.get(&own).copied().unwrap_or_default());
                let best = links.iter().map(|(group, links)| (*group, gain(*group, *links)));
                let best =
                    best.fold((own, stay), |best, next| if next.1 > best.1 + GAIN_MIN { next } else { best });
                sums[best.0] += degrees[node];
                is_still &= best.0 == own;
                of[node] = best.0;
            }
            if is_still {
                break;
            }
        }
        of
    }

    /// Returns the network whose nodes are the groups.
    fn together(&self, of: &[usize], groups: usize) -> Self {
        let mut graph =
            Self { neighbours: vec![Vec::new(); groups], within: vec![0.0; groups], total: self.total };
        let mut between: std::collections::BTreeMap<(usize, usize), f64> = std::collections::BTreeMap::new();
        for (node, group) in of.iter().enumerate() {
            graph.within[*group] += self.within[node];
            for (neighbour, weight) in &self.neighbours[node] {
                match of[*neighbour] {
                    other if other == *group => graph.within[*group] += weight,
                    other => *between.entry((*group, other)).or_default() += weight,
                }
            }
        }
        for ((one, other), weight) in between {
            graph.neighbours[one].push((other, weight));
        }
        graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_entities_form_a_community() {
        // Two complete groups of four, with one edge between them.
        let mut edges = vec![(0, 4, 1.0)];
        for group in [0, 4] {
            for one in 0..4 {
                edges.extend((one + 1..4).map(|other| (group + one, group + other, 1.0)));
            }
        }
        assert_eq!(communities(8, &edges), [0, 0, 0, 0, 1, 1, 1, 1]);
        // Strong edges count more than many.
        let chain = [(0, 1, 9.0), (1, 2, 1.0), (2, 3, 9.0)];
        assert_eq!(communities(4, &chain), [0, 0, 1, 1]);
    }

    #[test]
    fn degenerate_graphs_have_communities_too() {
        assert_eq!(communities(0, &[]), Vec::<usize>::new());
        assert_eq!(communities(3, &[]), [0, 1, 2]);
        assert_eq!(communities(2, &[(0, 0, 1.0), (0, 1, f64::NAN), (5, 6, 1.0)]), [0, 1]);
        let ring: Vec<_> = (0..1_000).map(|at| (at, (at + 1) % 1_000, 1.0)).collect();
        let found = communities(1_000, &ring);
        assert!(found.iter().max() < Some(&200), "long ranges belong together");
    }
}
