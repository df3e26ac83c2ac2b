//! Replaces small passages by the larger ones around them.

use std::collections::HashMap;

use weft_core::id::ChunkId;
use weft_core::seam::knowledge::Scored;

/// Replaces those passages that are parts of a larger one by that larger passage. Its scores are the means of
/// theirs; ties keep the order of their first parts.
pub(crate) fn substituted(found: &[Scored]) -> Vec<Scored> {
    let mut groups: Vec<Vec<&Scored>> = Vec::new();
    let mut places: HashMap<&ChunkId, usize> = HashMap::new();
    for scored in found {
        let shown = scored.parent.as_ref().unwrap_or(&scored.chunk);
        let place = *places.entry(shown).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(scored);
    }
    let mut shown: Vec<Scored> = groups.iter().filter_map(|group| mean(group)).collect();
    shown.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
    shown
}

fn mean(group: &[&Scored]) -> Option<Scored> {
    let (first, more) = group.split_first()?;
    if more.is_empty() && first.parent.is_none() {
        return Some((*first).clone());
    }
    let over = |score: &dyn Fn(&Scored) -> f64| {
        let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
        group.iter().map(|scored| score(scored)).sum::<f64>() / f64::from(count)
    };
    let vectors = group.iter().any(|scored| scored.vector.is_some());
    Some(Scored {
        chunk: first.parent.clone().unwrap_or_else(|| first.chunk.clone()),
        parent: None,
        similarity: over(&|scored| scored.similarity),
        term: over(&|scored| scored.term),
        vector: vectors.then(|| over(&|scored| scored.vector.unwrap_or_default())),
        ..(*first).clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(id: &str, parent: Option<&str>, similarity: f64) -> Scored {
        Scored {
            chunk: id.into(),
            document: "d".into(),
            dataset: "s".into(),
            parent: parent.map(Into::into),
            similarity,
            term: similarity,
            vector: None,
        }
    }

    #[test]
    fn parts_are_replaced_by_their_parent_with_the_mean_score() {
        let found = [
            scored("a1", Some("a"), 0.75),
            scored("x", None, 0.6),
            scored("b1", Some("b"), 0.5),
            scored("a2", Some("a"), 0.25),
            scored("b2", Some("b"), 0.5),
        ];
        let shown: Vec<(String, f64)> =
            substituted(&found).into_iter().map(|one| (one.chunk.to_string(), one.similarity)).collect();
        assert_eq!(shown, [("x".to_owned(), 0.6), ("a".to_owned(), 0.5), ("b".to_owned(), 0.5)]);
        assert!(substituted(&found).iter().all(|one| one.parent.is_none()));
        assert!(substituted(&[]).is_empty());
    }
}
