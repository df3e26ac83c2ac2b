//! Finds names in the graphs of different documents that mean the same entity, using a model to compare similar ones.

use std::collections::{BTreeSet, HashMap, HashSet};

use weft_core::Result;

use super::find::Grams;
use super::merge::merge;
use super::names::key;
use super::refine::{ALIKE_MIN, COMPARED_MAX, LikeliestPairs, compared};
use super::{Subgraph, apart};
use crate::ask::Ask;

/// Returns which names of different documents mean the same, as a graph that contains nothing else. Earlier
/// results (`known`) are kept as long as their names still exist, and are not asked for again. The notes say
/// what could not be read; the inner error is a temporary failure.
///
/// # Errors
/// When the whole work has ended.
pub async fn names_across(
    model: &dyn Ask,
    parts: Vec<Subgraph>,
    known: Subgraph,
) -> Result<Result<(Subgraph, Vec<String>)>> {
    let work = move || {
        let mut known = kept(known, &parts);
        let pairs = pairs_across(&parts, &known);
        known.entities.clear();
        (known, pairs)
    };
    let (mut found, pairs) = apart(work).await?;
    let (same, different, notes) = match compared(model, &pairs).await? {
        Ok(compared) => compared,
        Err(error) => return Ok(Err(error)),
    };
    found.aliases.extend(same);
    found.different.extend(different);
    Ok(Ok((found, notes)))
}

/// Returns the keys of all names in a graph.
fn keys(part: &Subgraph) -> BTreeSet<String> {
    let ends = part.relations.iter().flat_map(|relation| [&relation.source, &relation.target]);
    part.entities.iter().map(|entity| &entity.name).chain(ends).map(|name| key(name)).collect()
}

/// Returns the earlier results whose names still exist.
fn kept(known: Subgraph, parts: &[Subgraph]) -> Subgraph {
    let there: HashSet<String> = parts.iter().flat_map(keys).collect();
    let still = |names: &Vec<String>| names.iter().all(|name| there.contains(&key(name)));
    let of = |pairs: Vec<Vec<String>>| pairs.into_iter().filter(still).collect();
    Subgraph { aliases: of(known.aliases), different: of(known.different), ..Subgraph::default() }
}

/// Returns pairs of similar names that no single document contains both of and about which nothing is known
/// yet, most similar first. The order of the documents does not matter.
fn pairs_across(parts: &[Subgraph], known: &Subgraph) -> Vec<(String, String)> {
    let mut documents: HashMap<String, BTreeSet<usize>> = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        for name in keys(part) {
            documents.entry(name).or_default().insert(number);
        }
    }
    let merged = merge(parts.iter().cloned().chain([known.clone()]));
    let mut entities: Vec<(String, f64)> =
        merged.entities.into_iter().map(|(entity, rank)| (entity.name, rank)).collect();
    entities.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    entities.truncate(COMPARED_MAX);
    let names: Vec<(&str, String, Grams)> =
        entities.iter().map(|(name, _)| (name.as_str(), key(name), Grams::of(name))).collect();
    let pair = |one: &str, other: &str| {
        if one <= other { [one.to_owned(), other.to_owned()] } else { [other.to_owned(), one.to_owned()] }
    };
    let said: HashSet<[String; 2]> = known
        .different
        .iter()
        .filter_map(|names| Some(pair(&key(names.first()?), &key(names.get(1)?))))
        .collect();
    let together = |one: &str, other: &str| match (documents.get(one), documents.get(other)) {
        (Some(one), Some(other)) => one.intersection(other).next().is_some(),
        _ => false,
    };
    let mut pairs = LikeliestPairs::default();
    for (at, (one, one_key, grams)) in names.iter().enumerate() {
        for (other, other_key, more) in &names[at + 1..] {
            let near = grams.alike(more);
            if near >= ALIKE_MIN && !together(one_key, other_key) && !said.contains(&pair(one_key, other_key))
            {
                let [first, second] = pair(one, other);
                pairs.add(near, &first, &second);
            }
        }
    }
    pairs.into_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Entity;

    fn part(names: &[&str]) -> Subgraph {
        let entity = |name: &&str| Entity { name: (*name).to_owned(), ..Entity::default() };
        Subgraph { entities: names.iter().map(entity).collect(), ..Subgraph::default() }
    }

    #[test]
    fn names_of_different_documents_are_compared_once() {
        let parts = [part(&["Ada Lovelace", "Ada Byron Lovelace"]), part(&["A. Lovelace", "ADA LOVELACE"])];
        let pairs = pairs_across(&parts, &Subgraph::default());
        let turned = [parts[1].clone(), parts[0].clone()];
        assert_eq!(pairs, pairs_across(&turned, &Subgraph::default()), "whatever the order");
        // The first two are in one document, which has compared them itself.
        assert!(
            !pairs.is_empty()
                && pairs.iter().all(|(one, other)| [one, other].iter().any(|name| *name == "A. Lovelace"))
        );
        let known = Subgraph {
            different: pairs.iter().map(|(one, other)| vec![one.clone(), other.clone()]).collect(),
            aliases: vec![vec!["gone".to_owned(), "Ada Lovelace".to_owned()]],
            ..Subgraph::default()
        };
        assert_eq!(pairs_across(&parts, &known), []);
        // Everything about a name is removed with it.
        let left = kept(known, &parts[..1]);
        assert_eq!((left.aliases.len(), left.different.len()), (0, 0));
    }
}
