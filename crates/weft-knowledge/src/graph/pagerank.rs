//! The importance of the nodes of a graph.

/// The share that is passed on along relations; the rest is distributed equally.
const DAMPING: f64 = 0.85;
/// Maximum number of rounds.
// The error shrinks by the damping in each round, so after a hundred it is below 1e-7.
const ROUNDS_MAX: usize = 100;
/// Iteration ends when no value changes by more than this.
const CHANGE_MIN: f64 = 1e-9;

/// Computes PageRank (Page, Brin 1998) over weighted relations in both directions. The values are above 0 and
/// sum up to 1; what nodes without relations hold is distributed equally.
pub(super) fn pagerank(nodes: usize, edges: &[(usize, usize, f64)]) -> Vec<f64> {
    if nodes == 0 {
        return Vec::new();
    }
    let count = f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
    let usable = |(one, other, weight): &&(usize, usize, f64)| {
        *one < nodes && *other < nodes && one != other && weight.is_finite() && *weight > 0.0
    };
    let edges: Vec<&(usize, usize, f64)> = edges.iter().filter(usable).collect();
    let mut strength = vec![0.0; nodes];
    for (one, other, weight) in &edges {
        strength[*one] += weight;
        strength[*other] += weight;
    }
    let mut ranks = vec![1.0 / count; nodes];
    for _ in 0..ROUNDS_MAX {
        let alone: f64 = ranks.iter().zip(&strength).filter(|(_, s)| **s == 0.0).map(|(rank, _)| rank).sum();
        let mut next = vec![(1.0 - DAMPING) / count + DAMPING * alone / count; nodes];
        for (one, other, weight) in &edges {
            next[*other] += DAMPING * ranks[*one] * weight / strength[*one];
            next[*one] += DAMPING * ranks[*other] * weight / strength[*other];
        }
        let change = ranks.iter().zip(&next).map(|(old, new)| (old - new).abs()).fold(0.0, f64::max);
        ranks = next;
        if change < CHANGE_MIN {
            break;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::pagerank;

    #[test]
    fn the_centre_of_a_star_ranks_highest() {
        let ranks = pagerank(5, &[(0, 1, 1.0), (0, 2, 1.0), (3, 0, 1.0)]);
        assert!(ranks[1..].iter().all(|rank| *rank < ranks[0]), "{ranks:?}");
        assert!((ranks[1] - ranks[3]).abs() < 1e-6, "direction makes no difference: {ranks:?}");
        assert!(ranks[4] > 0.0 && ranks[4] < ranks[1]);
        assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn valid_weights_count_and_invalid_ones_are_ignored() {
        let ranks = pagerank(3, &[(0, 1, 5.0), (0, 2, 1.0)]);
        assert!(ranks[1] > ranks[2]);
        let ranks = pagerank(2, &[(0, 0, 1.0), (0, 9, 1.0), (0, 1, f64::NAN), (0, 1, -1.0)]);
        assert_eq!(ranks, [0.5, 0.5]);
        assert!(pagerank(0, &[]).is_empty());
    }
}
