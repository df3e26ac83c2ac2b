//! Finds the part of a graph that is relevant to a question.

use std::collections::HashSet;

use weft_core::seam::knowledge::{GraphEntity, GraphFound, GraphRelation, GraphReport, GraphRequest};

use super::merge::Graph;
use super::{CommunityReport, folded};

// These numbers are those of the engine whose settings users bring along: 0.3, 56 candidates, 6 of each shown.
/// Minimum similarity of a name.
const NEARNESS_MIN: f64 = 0.3;
/// Maximum number of entities, and of relations, that are scored.
const CANDIDATES_MAX: usize = 56;
/// Maximum number of entities returned.
pub const ENTITIES_MAX: usize = 6;
/// Maximum number of relations returned.
pub const RELATIONS_MAX: usize = 6;

/// Finds entities whose names are similar to those in the question, and relations near the question, weighted
/// by their importance. An entity of a wanted kind counts double, and so does a relation for each of its ends
/// that is one.
pub fn find(graph: &Graph, request: &GraphRequest) -> GraphFound {
    let names: Vec<Grams> = request.entities.iter().map(|name| Grams::of(name)).collect();
    let question = Grams::of(&request.question);
    let nearness: Vec<f64> =
        graph.entities.iter().map(|(e, _)| near(&Grams::of(&e.name), &names, &question)).collect();
    let kinds: HashSet<String> = request.kinds.iter().map(|kind| folded(kind)).collect();
    let wanted: Vec<bool> =
        graph.entities.iter().map(|(entity, _)| kinds.contains(&folded(&entity.kind))).collect();
    let entities = entities(graph, &nearness, &wanted);
    let report = report(graph, &entities);
    let notes = graph.note.iter().cloned().collect();
    GraphFound { relations: relations(graph, &nearness, &wanted), entities, report, notes }
}

/// Returns the report on the community that best covers what was found.
fn report(graph: &Graph, found: &[GraphEntity]) -> Option<GraphReport> {
    let found: Vec<(String, f64)> = found.iter().map(|entity| (folded(&entity.name), entity.score)).collect();
    let score = |report: &CommunityReport| {
        // Each name is folded once: a report may list thousands of names, and there may be thousands of reports.
        let names: HashSet<String> = report.entities.iter().map(|name| folded(name)).collect();
        found.iter().filter(|(name, _)| names.contains(name)).map(|(_, score)| score).sum::<f64>()
    };
    let scored = graph.reports.iter().map(|report| (report, score(report)));
    let (best, _) =
        scored.filter(|(_, score)| *score > 0.0).max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    Some(GraphReport { title: best.title.clone(), text: best.text.clone() })
}

fn entities(graph: &Graph, nearness: &[f64], wanted: &[bool]) -> Vec<GraphEntity> {
    let all = graph.entities.iter().zip(nearness).zip(wanted);
    let near = all.filter(|((_, nearness), _)| **nearness >= NEARNESS_MIN);
    let mut near: Vec<_> = near.map(|((entity, nearness), wanted)| (entity, *nearness, *wanted)).collect();
    // Only the nearest are scored: a graph may have far more entities than are useful.
    near.sort_by(|(_, one, _), (_, other, _)| other.total_cmp(one));
    near.truncate(CANDIDATES_MAX);
    let mut found: Vec<GraphEntity> = near
        .into_iter()
        .map(|((entity, rank), nearness, wanted)| GraphEntity {
            name: entity.name.clone(),
            kind: entity.kind.clone(),
            description: entity.description.clone(),
            score: nearness * if wanted { 2.0 } else { 1.0 } * rank,
        })
        .collect();
    // Ties are ordered by name, so that the same question finds the same entities.
    found.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.name.cmp(&other.name)));
    found.truncate(ENTITIES_MAX);
    found
}

/// Finds relations. A relation's similarity is the mean of those of its ends.
fn relations(graph: &Graph, nearness: &[f64], wanted: &[bool]) -> Vec<GraphRelation> {
    let near = |&(source, target, _): &(usize, usize, _)| f64::midpoint(nearness[source], nearness[target]);
    let mut candidates: Vec<_> = graph
        .relations
        .iter()
        .map(|relation| (relation, near(relation)))
        .filter(|(_, near)| *near >= NEARNESS_MIN)
        .collect();
    candidates.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    candidates.truncate(CANDIDATES_MAX);
    let mut found: Vec<GraphRelation> = candidates
        .into_iter()
        .map(|((source, target, relation), near)| {
            let ends = f64::from(u8::from(wanted[*source]) + u8::from(wanted[*target]));
            GraphRelation {
                source: graph.entities[*source].0.name.clone(),
                target: graph.entities[*target].0.name.clone(),
                description: relation.description.clone(),
                score: near * (1.0 + ends) * relation.weight,
            }
        })
        .collect();
    found.sort_by(|one, other| {
        let by_score = other.score.total_cmp(&one.score);
        by_score.then_with(|| (&one.source, &one.target).cmp(&(&other.source, &other.target)))
    });
    found.truncate(RELATIONS_MAX);
    found
}

/// The character bigrams of a name; similar names share many.
pub(super) struct Grams {
    text: String,
    pairs: HashSet<(char, char)>,
}

impl Grams {
    pub(super) fn of(text: &str) -> Self {
        let text = folded(text);
        let chars: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
        let pairs = chars.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
        Self { text, pairs }
    }

    /// Returns the share of common bigrams (Dice 1945), from 0 to 1.
    pub(super) fn alike(&self, other: &Self) -> f64 {
        if self.text == other.text {
            return 1.0;
        }
        let count = |pairs: usize| f64::from(u32::try_from(pairs).unwrap_or(u32::MAX));
        let both = self.pairs.iter().filter(|pair| other.pairs.contains(*pair)).count();
        let all = self.pairs.len() + other.pairs.len();
        if all == 0 { 0.0 } else { 2.0 * count(both) / count(all) }
    }

    /// Whether the name occurs in a text as a whole word or, in scripts that do not separate words, anywhere.
    fn stands_in(&self, text: &str) -> bool {
        let parted = self.text.is_ascii();
        let touches = |c: Option<char>| parted && c.is_some_and(char::is_alphanumeric);
        !self.text.is_empty()
            && text.match_indices(&self.text).any(|(at, name)| {
                let (before, after) =
                    (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
                !touches(before) && !touches(after)
            })
    }
}

fn near(name: &Grams, names: &[Grams], question: &Grams) -> f64 {
    if name.stands_in(&question.text) {
        return 1.0;
    }
    names.iter().map(|wanted| name.alike(wanted)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::merge::merge;
    use crate::graph::{CommunityReport, Entity, Relation, Subgraph};

    fn graph() -> Graph {
        let entity = |name: &str, kind: &str| Entity {
            name: name.to_owned(),
            kind: kind.to_owned(),
            description: format!("about {name}"),
            ..Entity::default()
        };
        let relation = |source: &str, target: &str, weight: f64| Relation {
            source: source.to_owned(),
            target: target.to_owned(),
            weight,
            ..Relation::default()
        };
        merge([Subgraph {
            entities: vec![
                entity("Ada Lovelace", "person"),
                entity("Charles Babbage", "person"),
                entity("Analytical Engine", "category"),
                entity("London", "geo"),
                entity("图灵", "person"),
            ],
            relations: vec![
                relation("Ada Lovelace", "Analytical Engine", 1.0),
                relation("Charles Babbage", "Analytical Engine", 3.0),
                relation("Charles Babbage", "London", 1.0),
                relation("Ada Lovelace", "London", 2.0),
            ],
            reports: vec![CommunityReport {
                title: "Engines".to_owned(),
                text: "They built engines.".to_owned(),
                entities: vec!["charles babbage".to_owned(), "Analytical Engine".to_owned()],
            }],
            ..Subgraph::default()
        }])
    }

    fn asked(question: &str, entities: &[&str], kinds: &[&str]) -> (Vec<String>, Vec<String>) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let request = GraphRequest {
            scope: weft_core::seam::knowledge::Scope::default(),
            question: question.to_owned(),
            entities: owned(entities),
            kinds: owned(kinds),
        };
        let found = find(&graph(), &request);
        let relation = |relation: &GraphRelation| format!("{}-{}", relation.source, relation.target);
        (
            found.entities.iter().map(|entity| entity.name.clone()).collect(),
            found.relations.iter().map(relation).collect(),
        )
    }

    #[test]
    fn names_are_matched_fuzzily() {
        let (entities, relations) = asked("Who?", &["ada lovelace's"], &[]);
        assert_eq!(entities, ["Ada Lovelace"]);
        assert_eq!(relations, ["Ada Lovelace-London", "Ada Lovelace-Analytical Engine"]);
        assert_eq!(asked("图灵是谁？", &[], &[]).0, ["图灵"]);
        assert_eq!(asked("Something else?", &["Zanzibar"], &[]), (Vec::new(), Vec::new()));
        assert_eq!(asked("The Londoner?", &[], &[]).0, Vec::<String>::new());
    }

    #[test]
    fn the_report_belongs_to_the_matched_entities() {
        let asked = |entity: &str| {
            let request = GraphRequest {
                scope: weft_core::seam::knowledge::Scope::default(),
                question: "?".to_owned(),
                entities: vec![entity.to_owned()],
                kinds: Vec::new(),
            };
            find(&graph(), &request).report.map(|report| report.title)
        };
        assert_eq!(asked("Charles Babbage"), Some("Engines".to_owned()));
        assert_eq!(asked("London"), None);
    }

    #[test]
    fn requested_kinds_and_importance_decide_the_order() {
        // The engine has more relations than Ada; a requested kind makes up for that.
        let question = "What did Ada Lovelace do for the Analytical Engine?";
        assert_eq!(asked(question, &[], &[]).0, ["Analytical Engine", "Ada Lovelace"]);
        assert_eq!(asked(question, &[], &["Person"]).0, ["Ada Lovelace", "Analytical Engine"]);
        // Its weight ranks the other relation of the engine first.
        assert_eq!(asked(question, &[], &[]).1[0], "Charles Babbage-Analytical Engine");
    }
}
