//! The graphs of documents, put together.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use weft_core::seam::knowledge::EntityKind;

use super::pagerank::pagerank;
use super::{CommunityReport, DESCRIPTION_MAX, Entity, Relation, Subgraph, cut, folded};

/// Entities of one graph, at most; those that are named later are left out.
pub const ENTITIES_MAX: usize = 50_000;
/// Relations of one graph, at most.
pub const RELATIONS_MAX: usize = 200_000;
/// Names that show what a kind is, at most.
const SAMPLES_MAX: usize = 12;
/// Kinds that are shown, at most.
const KINDS_SHOWN_MAX: usize = 30;

/// The graph of a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Entities with their importance, which sums up to 1.
    pub entities: Vec<(Entity, f64)>,
    /// Relations, each between two of the entities, by their places.
    pub relations: Vec<(usize, usize, Relation)>,
    /// Reports on communities, of all documents.
    pub reports: Vec<CommunityReport>,
}

/// Reports of one graph, at most.
const REPORTS_MAX: usize = 10_000;

/// Names that mean the same: each leads to another one, and in the end to the one that counts.
#[derive(Default)]
struct EntityAliases(HashMap<String, String>);

impl EntityAliases {
    fn of(&self, name: &str) -> String {
        let mut name = folded(name);
        while let Some(next) = self.0.get(&name) {
            name.clone_from(next);
        }
        name
    }

    fn join(&mut self, one: &str, other: &str) {
        let (one, other) = (self.of(one), self.of(other));
        if one != other && !one.is_empty() && !other.is_empty() {
            // The longer name says more; of equals the first in the alphabet, so that order is all one.
            let longer = |name: &String| (std::cmp::Reverse(name.chars().count()), name.clone());
            let (kept, left) = if longer(&one) <= longer(&other) { (one, other) } else { (other, one) };
            self.0.insert(left, kept);
        }
    }
}

/// How often each kind is said of each name.
type Kinds = HashMap<String, BTreeMap<String, usize>>;

/// Puts graphs together: what has the same name, whatever its case, is the same, and so is what a part says to be;
/// weights are added and descriptions joined, as far as there is room.
pub fn merge(parts: impl IntoIterator<Item = Subgraph>) -> Graph {
    let parts: Vec<Subgraph> = parts.into_iter().collect();
    let mut names = EntityAliases::default();
    for alias in parts.iter().flat_map(|part| &part.aliases) {
        alias.windows(2).for_each(|pair| names.join(&pair[0], &pair[1]));
    }
    let mut reports = Vec::new();
    let mut entities: IndexMap<String, Entity> = IndexMap::new();
    let mut kinds = Kinds::new();
    let mut relations: IndexMap<(String, String), Relation> = IndexMap::new();
    for part in parts {
        for entity in part.entities {
            add_entity(&names, &mut entities, &mut kinds, entity);
        }
        for relation in part.relations {
            add_relation(&names, &mut entities, &mut relations, relation);
        }
        let room = REPORTS_MAX.saturating_sub(reports.len());
        reports.extend(part.reports.into_iter().take(room));
    }
    for (name, entity) in &mut entities {
        // The kind that is said most often; of equals the first in the alphabet, so that order is all one.
        let best = kinds.get(name).and_then(|said| said.iter().rev().max_by_key(|(_, count)| **count));
        if let Some((kind, _)) = best {
            entity.kind.clone_from(kind);
        }
    }
    Graph { reports, ..placed(entities, relations) }
}

fn add_entity(
    names: &EntityAliases,
    entities: &mut IndexMap<String, Entity>,
    kinds: &mut Kinds,
    entity: Entity,
) {
    let name = names.of(&entity.name);
    if name.is_empty() || (entities.len() >= ENTITIES_MAX && !entities.contains_key(&name)) {
        return;
    }
    let kind = entity.kind.trim().to_lowercase();
    if !kind.is_empty() {
        *kinds.entry(name.clone()).or_default().entry(kind).or_default() += 1;
    }
    match entities.get_mut(&name) {
        Some(known) => {
            // Whatever came first, it is shown by the name that counts.
            if folded(&entity.name) == name && folded(&known.name) != name {
                known.name.clone_from(&entity.name);
            }
            join(&mut known.description, &entity.description);
        }
        None => {
            let description = cut(&entity.description, DESCRIPTION_MAX);
            entities.insert(name, Entity { description, ..entity });
        }
    }
}

fn add_relation(
    names: &EntityAliases,
    entities: &mut IndexMap<String, Entity>,
    relations: &mut IndexMap<(String, String), Relation>,
    relation: Relation,
) {
    let ends = (names.of(&relation.source), names.of(&relation.target));
    if ends.0.is_empty() || ends.1.is_empty() || ends.0 == ends.1 {
        return;
    }
    let weight = if relation.weight.is_finite() { relation.weight.max(0.0) } else { 1.0 };
    if let Some(known) = relations.get_mut(&ends) {
        known.weight += weight;
        join(&mut known.description, &relation.description);
        return;
    }
    // An end that no entity describes is still one.
    for (folded, name) in [(&ends.0, &relation.source), (&ends.1, &relation.target)] {
        if !entities.contains_key(folded) && entities.len() < ENTITIES_MAX {
            entities.insert(folded.clone(), Entity { name: name.trim().to_owned(), ..Entity::default() });
        }
    }
    if relations.len() < RELATIONS_MAX {
        let description = cut(&relation.description, DESCRIPTION_MAX);
        relations.insert(ends, Relation { weight, description, ..relation });
    }
}

fn join(known: &mut String, more: &str) {
    let more = more.trim();
    if more.is_empty() || known.contains(more) {
        return;
    }
    let room = DESCRIPTION_MAX.saturating_sub(known.chars().count() + 1);
    if room == 0 {
        return;
    }
    if !known.is_empty() {
        known.push(' ');
    }
    known.extend(more.chars().take(room));
}

fn placed(entities: IndexMap<String, Entity>, relations: IndexMap<(String, String), Relation>) -> Graph {
    let place = |name: &String| entities.get_index_of(name);
    let relations: Vec<(usize, usize, Relation)> = relations
        .into_iter()
        .filter_map(|((source, target), relation)| Some((place(&source)?, place(&target)?, relation)))
        .collect();
    let edges: Vec<(usize, usize, f64)> =
        relations.iter().map(|(source, target, relation)| (*source, *target, relation.weight)).collect();
    let ranks = pagerank(entities.len(), &edges);
    Graph { entities: entities.into_values().zip(ranks).collect(), relations, reports: Vec::new() }
}

impl Graph {
    /// The kinds of entities with the most important ones, the most frequent kind first.
    pub fn kinds(&self) -> Vec<EntityKind> {
        let mut kinds: IndexMap<&str, Vec<(&str, f64)>> = IndexMap::new();
        for (entity, rank) in &self.entities {
            if !entity.kind.is_empty() {
                kinds.entry(&entity.kind).or_default().push((&entity.name, *rank));
            }
        }
        let mut kinds: Vec<(&str, Vec<(&str, f64)>)> = kinds.into_iter().collect();
        // The map has no order; equals get one, or each question to the model would be another one.
        kinds.sort_by(|(one, a), (other, b)| b.len().cmp(&a.len()).then_with(|| one.cmp(other)));
        kinds.truncate(KINDS_SHOWN_MAX);
        let kind = |(kind, mut names): (&str, Vec<(&str, f64)>)| {
            names.sort_by(|(_, one), (_, other)| other.total_cmp(one));
            let samples = names.into_iter().take(SAMPLES_MAX).map(|(name, _)| name.to_owned()).collect();
            EntityKind { kind: kind.to_owned(), samples }
        };
        kinds.into_iter().map(kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(name: &str, kind: &str, description: &str) -> Entity {
        Entity { name: name.to_owned(), kind: kind.to_owned(), description: description.to_owned() }
    }

    fn relation(source: &str, target: &str, weight: f64, description: &str) -> Relation {
        let description = description.to_owned();
        Relation { source: source.to_owned(), target: target.to_owned(), weight, description }
    }

    #[test]
    fn the_same_name_is_the_same_thing() {
        let one = Subgraph {
            entities: vec![entity("Ada Lovelace", "person", "Wrote notes."), entity("", "person", "x")],
            relations: vec![relation("Ada Lovelace", "Babbage", 2.0, "worked with")],
            ..Subgraph::default()
        };
        let other = Subgraph {
            entities: vec![
                entity("ADA  LOVELACE", "Person", "Was born in 1815."),
                entity("ada lovelace", "category", "Wrote notes."),
            ],
            relations: vec![
                relation("ada lovelace", "babbage", 3.0, "wrote to"),
                relation("Ada Lovelace", "ada lovelace", 1.0, "is"),
                relation("Ada Lovelace", "Byron", f64::NAN, "daughter of"),
            ],
            ..Subgraph::default()
        };
        let graph = merge([one, other]);
        let names: Vec<&str> = graph.entities.iter().map(|(entity, _)| entity.name.as_str()).collect();
        assert_eq!(names, ["Ada Lovelace", "Babbage", "Byron"]);
        let ada = &graph.entities[0].0;
        assert_eq!(
            (ada.kind.as_str(), ada.description.as_str()),
            ("person", "Wrote notes. Was born in 1815.")
        );
        let (_, _, with) = &graph.relations[0];
        assert_eq!((with.weight, with.description.as_str()), (5.0, "worked with wrote to"));
        assert_eq!(graph.relations.len(), 2);
        assert!(graph.entities[0].1 > graph.entities[1].1 && graph.entities[1].1 > graph.entities[2].1);
        assert_eq!(
            graph.kinds(),
            [EntityKind { kind: "person".to_owned(), samples: vec!["Ada Lovelace".to_owned()] }]
        );
    }

    #[test]
    fn names_that_mean_the_same_are_one() {
        let part = |aliases: &[[&str; 2]], names: &[&str]| Subgraph {
            entities: names.iter().map(|name| entity(name, "person", name)).collect(),
            relations: vec![relation(names[0], "London", 1.0, "")],
            aliases: aliases.iter().map(|pair| pair.map(str::to_owned).to_vec()).collect(),
            ..Subgraph::default()
        };
        let one =
            part(&[["Lovelace", "Ada Lovelace"], ["A. Lovelace", "lovelace"]], &["Lovelace", "Ada Lovelace"]);
        // Another document that uses one of the names means the same.
        let other = part(&[["Ada Lovelace", "Lovelace"]], &["A. Lovelace"]);
        let graph = merge([one, other]);
        let names: Vec<&str> = graph.entities.iter().map(|(entity, _)| entity.name.as_str()).collect();
        assert_eq!(names, ["Ada Lovelace", "London"]);
        assert_eq!(graph.entities[0].0.description, "Lovelace Ada Lovelace A. Lovelace");
        assert_eq!((graph.relations.len(), graph.relations[0].2.weight), (1, 2.0));
    }

    #[test]
    fn descriptions_have_an_end() {
        let part = |n: usize| Subgraph {
            entities: vec![entity("A", "person", &format!("{n} {}", "é".repeat(900)))],
            ..Subgraph::default()
        };
        let graph = merge((0..20).map(part));
        assert_eq!(graph.entities[0].0.description.chars().count(), DESCRIPTION_MAX);
        assert_eq!(merge([]), Graph::default());
    }
}
