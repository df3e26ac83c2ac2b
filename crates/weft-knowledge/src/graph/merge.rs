//! Merges the graphs of documents.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::IndexMap;
use weft_core::id::DocumentId;
use weft_core::seam::knowledge::EntityKind;

use super::names::{key, plurals};
use super::pagerank::pagerank;
use super::{CommunityReport, DESCRIPTION_MAX, Entity, Relation, Subgraph, cut};

/// Maximum number of entities of a graph; further ones are left out.
pub const ENTITIES_MAX: usize = 50_000;
/// Maximum number of relations of a graph.
pub const RELATIONS_MAX: usize = 200_000;
/// Maximum number of sample names per kind.
const SAMPLES_MAX: usize = 12;
/// Maximum number of kinds that are listed.
const KINDS_SHOWN_MAX: usize = 30;

/// The graph of a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Entities with their importance, which sums up to 1.
    pub entities: Vec<(Entity, f64)>,
    /// Relations, each between two entities given by their indexes.
    pub relations: Vec<(usize, usize, Relation)>,
    /// Reports on communities, from all documents.
    pub reports: Vec<CommunityReport>,
    /// A note about the graph, such as that it is incomplete.
    pub note: Option<String>,
}

/// Maximum number of reports of a graph.
const REPORTS_MAX: usize = 10_000;
/// Maximum number of documents listed per entity and relation.
const SOURCES_MAX: usize = 100;

/// Names for the same entity: each leads to another one, and finally to the canonical one.
#[derive(Default)]
struct EntityAliases(HashMap<String, String>);

impl EntityAliases {
    fn of(&self, name: &str) -> String {
        let mut name = key(name);
        // Only names at the ends of such chains are joined, so no chain leads back to itself.
        while let Some(next) = self.0.get(&name) {
            name.clone_from(next);
        }
        name
    }

    fn join(&mut self, one: &str, other: &str) {
        let (one, other) = (self.of(one), self.of(other));
        if one != other && !one.is_empty() && !other.is_empty() {
            // The longer name says more; ties are resolved alphabetically, so that the order of parts does
            // not matter.
            let longer = |name: &String| (std::cmp::Reverse(name.chars().count()), name.clone());
            let (kept, left) = if longer(&one) <= longer(&other) { (one, other) } else { (other, one) };
            self.0.insert(left, kept);
        }
    }
}

/// For each name, how often each kind or spelling was given.
type Said = HashMap<String, BTreeMap<String, usize>>;

/// Returns the spellings of the canonical names.
fn spellings(parts: &[Subgraph], names: &EntityAliases) -> Said {
    let mut written = Said::new();
    for part in parts {
        let ends = part.relations.iter().flat_map(|relation| [&relation.source, &relation.target]);
        for name in part.entities.iter().map(|entity| &entity.name).chain(ends) {
            // Another name for the same entity is not a spelling of this one.
            let of = names.of(name);
            if of == key(name) {
                let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
                *written.entry(of).or_default().entry(name).or_default() += 1;
            }
        }
    }
    written
}

/// Returns the most frequent spelling; among equals one in mixed case, then the alphabetically first.
fn most_usual(written: &BTreeMap<String, usize>) -> Option<&String> {
    let mixed = |name: &str| name.chars().any(char::is_uppercase) && name.chars().any(char::is_lowercase);
    let best = written.iter().rev().max_by_key(|(name, count)| (**count, mixed(name)));
    best.map(|(name, _)| name)
}

/// Merges graphs: entities whose names differ only in case, punctuation and number are the same, and so are
/// those that a part declares to be; weights are added, descriptions are joined and documents are listed, as
/// far as there is room. The order of the parts does not matter.
pub fn merge(parts: impl IntoIterator<Item = Subgraph>) -> Graph {
    let parts = in_order(parts);
    let mut names = EntityAliases::default();
    for (plural, singular) in plurals(&kinds_said(&parts)) {
        // Each leads to a shorter name, so none of these chains leads back to its start.
        names.0.insert(plural, singular);
    }
    for alias in parts.iter().flat_map(|part| &part.aliases) {
        alias.windows(2).for_each(|pair| names.join(&pair[0], &pair[1]));
    }
    let mut reports = Vec::new();
    let mut entities: IndexMap<String, Entity> = IndexMap::new();
    let mut kinds = Said::new();
    let written = spellings(&parts, &names);
    let mut relations: IndexMap<(String, String), Relation> = IndexMap::new();
    for part in parts {
        for mut entity in part.entities {
            entity.sources.extend(part.document.clone());
            add_entity(&names, &mut entities, &mut kinds, entity);
        }
        for mut relation in part.relations {
            relation.sources.extend(part.document.clone());
            add_relation(&names, &mut entities, &mut relations, relation);
        }
        let room = REPORTS_MAX.saturating_sub(reports.len());
        reports.extend(part.reports.into_iter().take(room));
    }
    for (name, entity) in &mut entities {
        // The kind given most often; ties are resolved alphabetically, so that the order of parts does not matter.
        let best = kinds.get(name).and_then(|said| said.iter().rev().max_by_key(|(_, count)| **count));
        if let Some((kind, _)) = best {
            entity.kind.clone_from(kind);
        }
        if let Some(usual) = written.get(name).and_then(most_usual) {
            entity.name.clone_from(usual);
        }
    }
    for name in reports.iter_mut().flat_map(|report: &mut CommunityReport| &mut report.entities) {
        if let Some(entity) = entities.get(&names.of(name)) {
            name.clone_from(&entity.name);
        }
    }
    Graph { reports, ..placed(entities, relations) }
}

/// Sorts the parts by their content.
fn in_order(parts: impl IntoIterator<Item = Subgraph>) -> Vec<Subgraph> {
    let mut parts: Vec<Subgraph> = parts.into_iter().collect();
    let content = |part: &Subgraph| {
        // A graph can always be serialized; if it could not, it would come first.
        let json = serde_json::to_vec(part).unwrap_or_default();
        (*blake3::hash(&json).as_bytes(), part.document.clone())
    };
    parts.sort_by_cached_key(content);
    parts
}

/// Returns the kinds given for each name, by its key.
fn kinds_said(parts: &[Subgraph]) -> HashMap<String, BTreeSet<String>> {
    let mut said: HashMap<String, BTreeSet<String>> = HashMap::new();
    for part in parts {
        for entity in &part.entities {
            said.entry(key(&entity.name)).or_default().insert(entity.kind.trim().to_lowercase());
        }
        for end in part.relations.iter().flat_map(|relation| [&relation.source, &relation.target]) {
            said.entry(key(end)).or_default();
        }
    }
    said
}

/// Adds documents to the listed ones; which ones are kept does not depend on the order.
fn add_sources(known: &mut BTreeSet<DocumentId>, more: BTreeSet<DocumentId>) {
    known.extend(more);
    while known.len() > SOURCES_MAX {
        known.pop_last();
    }
}

fn add_entity(
    names: &EntityAliases,
    entities: &mut IndexMap<String, Entity>,
    kinds: &mut Said,
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
            join(&mut known.description, &entity.description);
            add_sources(&mut known.sources, entity.sources);
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
    // An end that no entity describes is still an entity.
    for (folded, name) in [(&ends.0, &relation.source), (&ends.1, &relation.target)] {
        if !entities.contains_key(folded) && entities.len() < ENTITIES_MAX {
            let sources = relation.sources.clone();
            let name = name.trim().to_owned();
            entities.insert(folded.clone(), Entity { name, sources, ..Entity::default() });
        } else if let Some(known) = entities.get_mut(folded) {
            add_sources(&mut known.sources, relation.sources.clone());
        }
    }
    if let Some(known) = relations.get_mut(&ends) {
        known.weight += weight;
        join(&mut known.description, &relation.description);
        add_sources(&mut known.sources, relation.sources);
        return;
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
    let entities = entities.into_values().zip(ranks).collect();
    Graph { entities, relations, ..Graph::default() }
}

impl Graph {
    /// Returns the kinds of entities with the most important entities of each, the most frequent kind first.
    pub fn kinds(&self) -> Vec<EntityKind> {
        let mut kinds: IndexMap<&str, Vec<(&str, f64)>> = IndexMap::new();
        for (entity, rank) in &self.entities {
            if !entity.kind.is_empty() {
                kinds.entry(&entity.kind).or_default().push((&entity.name, *rank));
            }
        }
        let mut kinds: Vec<(&str, Vec<(&str, f64)>)> = kinds.into_iter().collect();
        // The map has no order; ties need one, or the question to the model would differ each time.
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
        Entity {
            name: name.to_owned(),
            kind: kind.to_owned(),
            description: description.to_owned(),
            ..Entity::default()
        }
    }

    fn relation(source: &str, target: &str, weight: f64, description: &str) -> Relation {
        let description = description.to_owned();
        Relation {
            source: source.to_owned(),
            target: target.to_owned(),
            weight,
            description,
            ..Relation::default()
        }
    }

    #[test]
    fn the_same_name_is_the_same_entity() {
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
        assert_eq!(ada.kind, "person");
        // In an order determined by the parts, each only once.
        assert!(ada.description.contains("Wrote notes.") && ada.description.contains("Was born in 1815."));
        assert_eq!(ada.description.matches("Wrote").count(), 1);
        let (_, _, with) = &graph.relations[0];
        assert!(
            with.weight == 5.0
                && ["worked with", "wrote to"].iter().all(|said| with.description.contains(said))
        );
        assert_eq!(graph.relations.len(), 2);
        assert!(graph.entities[0].1 > graph.entities[1].1 && graph.entities[1].1 > graph.entities[2].1);
        assert_eq!(
            graph.kinds(),
            [EntityKind { kind: "person".to_owned(), samples: vec!["Ada Lovelace".to_owned()] }]
        );
    }

    #[test]
    fn synonymous_names_are_merged() {
        let part = |aliases: &[[&str; 2]], names: &[&str]| Subgraph {
            entities: names.iter().map(|name| entity(name, "person", name)).collect(),
            relations: vec![relation(names[0], "London", 1.0, "")],
            aliases: aliases.iter().map(|pair| pair.map(str::to_owned).to_vec()).collect(),
            ..Subgraph::default()
        };
        let one =
            part(&[["Lovelace", "Ada Lovelace"], ["A. Lovelace", "lovelace"]], &["Lovelace", "Ada Lovelace"]);
        // Another document that uses one of the names means the same entity.
        let other = part(&[["Ada Lovelace", "Lovelace"]], &["A. Lovelace"]);
        let graph = merge([one, other]);
        let names: Vec<&str> = graph.entities.iter().map(|(entity, _)| entity.name.as_str()).collect();
        assert_eq!(names, ["Ada Lovelace", "London"]);
        assert_eq!(graph.entities[0].0.description, "Lovelace Ada Lovelace A. Lovelace");
        assert_eq!((graph.relations.len(), graph.relations[0].2.weight), (1, 2.0));
    }

    #[test]
    fn merging_ignores_document_order_and_removal_takes_its_part_out() {
        let part = |document: &str, entities: Vec<Entity>, relations: Vec<Relation>| Subgraph {
            entities,
            relations,
            document: Some(document.into()),
            ..Subgraph::default()
        };
        let parts = [
            part(
                "1",
                vec![entity("Steam engine", "category", "It moves.")],
                vec![relation("Watt", "steam engines", 1.5, "built")],
            ),
            part(
                "2",
                vec![
                    entity("STEAM-ENGINES", "category", "They burn coal."),
                    entity("Watt", "person", "A Scot."),
                ],
                vec![],
            ),
            part(
                "3",
                vec![
                    entity("steam engine", "machine", "It hisses."),
                    entity("Watts", "person", "Another one."),
                ],
                vec![relation("Watt.", "Steam Engine", 0.1, "improved")],
            ),
            Subgraph {
                aliases: vec![vec!["Watt".to_owned(), "James Watt".to_owned()]],
                ..part("4", vec![entity("James Watt", "person", "")], vec![])
            },
        ];
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
        let graphs: Vec<Graph> =
            orders.iter().map(|order| merge(order.map(|at| parts[at].clone()))).collect();
        assert!(graphs.iter().all(|graph| *graph == graphs[0]), "{graphs:#?}");
        let ids = |sources: &BTreeSet<DocumentId>| {
            sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let mut told: Vec<(String, String, String)> = graphs[0]
            .entities
            .iter()
            .map(|(entity, _)| (key(&entity.name), entity.kind.clone(), ids(&entity.sources)))
            .collect();
        told.sort();
        let row =
            |name: &str, kind: &str, sources: &str| (name.to_owned(), kind.to_owned(), sources.to_owned());
        assert_eq!(
            told,
            [
                row("james watt", "person", "1 2 3 4"),
                row("steam engine", "category", "1 2 3"),
                row("watts", "person", "3")
            ]
        );
        let engine = graphs[0].entities.iter().find(|(entity, _)| entity.kind == "category").unwrap();
        for said in ["It moves.", "They burn coal.", "It hisses."] {
            assert!(engine.0.description.contains(said));
        }
        let [(_, _, built)] = &graphs[0].relations[..] else { panic!("{:?}", graphs[0].relations) };
        assert!((built.weight - 1.6).abs() < 1e-9 && ids(&built.sources) == "1 3", "{built:?}");
        let without = merge([parts[0].clone(), parts[1].clone()]);
        assert!(!format!("{without:?}").contains("hisses") && !format!("{without:?}").contains("James"));
    }

    #[test]
    fn descriptions_are_bounded() {
        let part = |n: usize| Subgraph {
            entities: vec![entity("A", "person", &format!("{n} {}", "é".repeat(900)))],
            ..Subgraph::default()
        };
        let graph = merge((0..20).map(part));
        assert_eq!(graph.entities[0].0.description.chars().count(), DESCRIPTION_MAX);
        assert_eq!(merge([]), Graph::default());
    }
}
