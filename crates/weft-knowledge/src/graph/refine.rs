//! What a model adds to the graph of a document: which names mean the same entity, and reports on communities.

use std::collections::HashMap;

use weft_core::{Error, Json, Result};

use super::communities::communities;
use super::find::Grams;
use super::merge::merge;
use super::names::key;
use super::{CommunityReport, DESCRIPTION_MAX, NAME_MAX, Subgraph, apart, cut};
use crate::ask::{Ask, Step, ask_json, passes, unexpected};

const SAME: &str = include_str!("../prompts/graph_same.md");
const REPORT: &str = include_str!("../prompts/graph_report.md");
/// Minimum similarity of two names about which a model is asked.
pub(super) const ALIKE_MIN: f64 = 0.5;
/// Maximum number of pairs of names about which a model is asked: the most similar ones.
const PAIRS_MAX: usize = 200;
/// Maximum number of pairs held before the most likely are selected: there are far too many pairs of names to
/// hold them all.
const PAIRS_HELD_MAX: usize = 10_000;
/// Number of pairs in one request.
const PAIRS_AT_ONCE: usize = 50;
/// Maximum number of entities of a graph that are compared.
pub(super) const COMPARED_MAX: usize = 2_000;
/// Maximum number of communities that are reported on: the largest ones.
const REPORTS_MAX: usize = 20;
/// Minimum number of entities of a community; a report on fewer says nothing that they do not.
const ENTITIES_MIN: usize = 3;
/// Approximate number of characters that a model is shown of a community.
const SHOWN_MAX: usize = 12_000;
/// Maximum number of characters of a report.
const REPORT_MAX: usize = 4_000;

/// Asks a model which similar names of the graph mean the same entity, and adds them as aliases. What could
/// not be read is noted; the inner error is a temporary failure.
///
/// # Errors
/// When the whole work has ended.
pub async fn same_names(model: &dyn Ask, graph: &mut Subgraph) -> Result<Result<Vec<String>>> {
    let names = graph.entities.iter().take(COMPARED_MAX).map(|entity| entity.name.clone());
    let names: Vec<String> = names.collect();
    let pairs = apart(move || pairs(&names)).await?;
    let (same, _, notes) = match compared(model, &pairs).await? {
        Ok(compared) => compared,
        Err(error) => return Ok(Err(error)),
    };
    graph.aliases.extend(same);
    Ok(Ok(notes))
}

/// The pairs of names that mean the same, the pairs that do not, and notes on what could not be read.
pub(super) type ComparedPairs = (Vec<Vec<String>>, Vec<Vec<String>>, Vec<String>);

/// Lets a model compare pairs of names. The inner error is a temporary failure.
///
/// # Errors
/// When the whole work has ended.
pub(super) async fn compared(model: &dyn Ask, pairs: &[(String, String)]) -> Result<Result<ComparedPairs>> {
    let (mut same, mut different, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for some in pairs.chunks(PAIRS_AT_ONCE) {
        let listed: String = some
            .iter()
            .enumerate()
            .map(|(number, (one, other))| format!("{number}. {one} | {other}\n"))
            .collect();
        match ask_json(model, Step::Graph, SAME, &listed).await? {
            Ok(answer) => match numbers(&answer) {
                Some(numbers) => {
                    for (number, (one, other)) in some.iter().enumerate() {
                        // Pairs that the model does not list have different meanings.
                        let list = if numbers.contains(&number) { &mut same } else { &mut different };
                        list.push(vec![one.clone(), other.clone()]);
                    }
                }
                None => notes.push(unexpected("numbers of pairs").full()),
            },
            Err(error) if passes(error.kind) => return Ok(Err(error)),
            Err(error) => notes.push(format!("cannot compare names: {}", error.full())),
        }
    }
    Ok(Ok((same, different, notes)))
}

/// Selects the most similar pairs of names.
#[derive(Default)]
pub(super) struct LikeliestPairs {
    held: Vec<(f64, String, String)>,
    /// Pairs with a similarity below this are not among them.
    least: f64,
}

impl LikeliestPairs {
    pub(super) fn add(&mut self, near: f64, one: &str, other: &str) {
        if near < self.least {
            return;
        }
        if self.held.len() >= PAIRS_HELD_MAX {
            self.choose();
        }
        self.held.push((near, one.to_owned(), other.to_owned()));
    }

    fn choose(&mut self) {
        // Ties are ordered by name, so that the same graph asks the same question and a recording fits.
        self.held.sort_by(|one, other| {
            other.0.total_cmp(&one.0).then_with(|| (&one.1, &one.2).cmp(&(&other.1, &other.2)))
        });
        self.held.truncate(PAIRS_MAX);
        self.least = self.held.last().map_or(0.0, |(near, ..)| *near);
    }

    /// Returns the pairs, most similar first.
    pub(super) fn into_names(mut self) -> Vec<(String, String)> {
        self.choose();
        self.held.into_iter().map(|(_, one, other)| (one, other)).collect()
    }
}

/// Returns pairs of similar names, most similar first.
fn pairs(names: &[String]) -> Vec<(String, String)> {
    // Each name is split into bigrams once, not once for every comparison.
    let names: Vec<(&String, String, Grams)> =
        names.iter().map(|name| (name, key(name), Grams::of(name))).collect();
    let mut pairs = LikeliestPairs::default();
    for (at, (one, one_key, grams)) in names.iter().enumerate() {
        for (other, other_key, more) in names.iter().skip(at + 1) {
            let near = grams.alike(more);
            if near >= ALIKE_MIN && one_key != other_key {
                pairs.add(near, one, other);
            }
        }
    }
    pairs.into_names()
}

fn numbers(answer: &Json) -> Option<Vec<usize>> {
    let list = answer.as_array().or_else(|| answer.get("same")?.as_array())?;
    Some(list.iter().filter_map(|number| usize::try_from(number.as_u64()?).ok()).collect())
}

/// Lets a model report on each of the larger communities. Otherwise as [`same_names`].
///
/// # Errors
/// When the whole work has ended.
pub async fn reports(model: &dyn Ask, graph: &mut Subgraph) -> Result<Result<Vec<String>>> {
    let mut notes = Vec::new();
    let of = graph.clone();
    for (names, shown) in apart(move || shown(&of)).await? {
        match ask_json(model, Step::Graph, REPORT, &shown).await? {
            Ok(answer) => match report(&answer, names) {
                Some(report) => graph.reports.push(report),
                None => notes.push(unexpected("a report").full()),
            },
            Err(error) if passes(error.kind) => return Ok(Err(error)),
            Err(error) => notes.push(missing(&error)),
        }
    }
    Ok(Ok(notes))
}

fn missing(error: &Error) -> String {
    format!("a report is missing: {}", error.full())
}

/// Returns the larger communities: the names of their entities, and what a model is shown of them.
fn shown(graph: &Subgraph) -> Vec<(Vec<String>, String)> {
    let merged = merge([graph.clone()]);
    let edges: Vec<(usize, usize, f64)> =
        merged.relations.iter().map(|(one, other, relation)| (*one, *other, relation.weight)).collect();
    let of = communities(merged.entities.len(), &edges);
    let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
    of.iter().enumerate().for_each(|(entity, community)| members.entry(*community).or_default().push(entity));
    let mut groups: Vec<Vec<usize>> =
        members.into_values().filter(|group| group.len() >= ENTITIES_MIN).collect();
    // The map has no order; ties need one, or the same graph would be described differently each time.
    groups.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    groups.truncate(REPORTS_MAX);
    let tell = |group: Vec<usize>| {
        let community = group.first().and_then(|at| of.get(*at));
        let members = || group.iter().filter_map(|at| merged.entities.get(*at));
        let entities = members()
            .map(|(entity, _)| format!("- {} ({}): {}\n", entity.name, entity.kind, entity.description));
        let inside = merged
            .relations
            .iter()
            .filter(|(one, other, _)| of.get(*one) == community && of.get(*other) == community);
        let relations = inside.map(|(_, _, relation)| {
            format!("- {} → {}: {}\n", relation.source, relation.target, relation.description)
        });
        let title = |title: &str| std::iter::once(title.to_owned());
        let lines = title("Entities:\n").chain(entities).chain(title("\nRelations:\n")).chain(relations);
        let (mut text, mut length) = (String::new(), 0);
        for line in lines {
            // Lines beyond what is shown are not even built: a community may be the whole graph.
            if length >= SHOWN_MAX {
                break;
            }
            length += line.chars().count();
            text.push_str(&line);
        }
        let names = members().map(|(entity, _)| entity.name.clone()).collect();
        (names, text.chars().take(SHOWN_MAX).collect())
    };
    groups.into_iter().map(tell).collect()
}

fn report(answer: &Json, entities: Vec<String>) -> Option<CommunityReport> {
    let text = |key: &str, most: usize| cut(answer.get(key).and_then(Json::as_str).unwrap_or_default(), most);
    let (title, mut body) = (text("title", NAME_MAX), text("summary", DESCRIPTION_MAX));
    for finding in answer.get("findings").and_then(Json::as_array).into_iter().flatten() {
        let said = finding.as_str().or_else(|| finding.get("explanation")?.as_str()).unwrap_or_default();
        if !said.trim().is_empty() {
            body.push_str("\n- ");
            body.push_str(said.trim());
        }
    }
    let text = cut(&body, REPORT_MAX);
    (!text.is_empty()).then_some(CommunityReport { title, text, entities })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::{Entity, Relation};

    fn graph() -> Subgraph {
        let entity = |name: &str| Entity { name: name.to_owned(), ..Entity::default() };
        let relation = |source: &str, target: &str| Relation {
            source: source.to_owned(),
            target: target.to_owned(),
            weight: 1.0,
            ..Relation::default()
        };
        Subgraph {
            entities: ["Ada Lovelace", "Lovelace, Ada", "Babbage", "London", "Thames"].map(entity).into(),
            relations: vec![
                relation("Ada Lovelace", "Babbage"),
                relation("Babbage", "London"),
                relation("Ada Lovelace", "London"),
            ],
            ..Subgraph::default()
        }
    }

    #[test]
    fn similar_names_are_sent_to_the_model() {
        let names: Vec<String> = graph().entities.into_iter().map(|entity| entity.name).collect();
        assert_eq!(pairs(&names), [("Ada Lovelace".to_owned(), "Lovelace, Ada".to_owned())]);
        assert_eq!(numbers(&json!([0, "x", 2])), Some(vec![0, 2]));
        assert_eq!(numbers(&json!({"same": [1]})), Some(vec![1]));
        assert_eq!(numbers(&json!({"x": 1})), None);
    }

    #[test]
    fn only_the_likeliest_of_many_pairs_are_kept() {
        let count = PAIRS_HELD_MAX * 2 + 7;
        let nearness = |n: usize| (n % 1_000) as f64 / 1_000.0;
        let chosen = |order: &mut dyn Iterator<Item = usize>| {
            let mut pairs = LikeliestPairs::default();
            for n in order {
                pairs.add(nearness(n), &format!("a{n:05}"), "b");
                assert!(pairs.held.len() <= PAIRS_HELD_MAX);
            }
            pairs.into_names()
        };
        let best = chosen(&mut (0..count));
        assert_eq!((best.len(), best[0].0.as_str()), (PAIRS_MAX, "a00999"));
        assert_eq!(best, chosen(&mut (0..count).rev()), "whatever the order");
    }

    /// A model that records whether it was called, and gives empty answers.
    #[derive(Default)]
    struct Silent(std::sync::atomic::AtomicBool);

    #[weft_core::async_trait]
    impl Ask for Silent {
        async fn ask(&self, _: Step, _: &str, _: &str) -> Result<String> {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            Ok("[]".to_owned())
        }

        async fn now_ms(&self) -> Result<i64> {
            Ok(0)
        }
    }

    /// For many names and a large community each takes longer than a lease may wait.
    #[tokio::test]
    async fn long_computations_do_not_block_the_runtime() {
        let (model, mut of) = (Silent::default(), graph());
        let asked = || model.0.load(std::sync::atomic::Ordering::SeqCst);
        let (mut names_waited, mut reports_waited) = (false, false);
        // The other thread may finish before anybody looks, but not every time.
        for _ in 0..100 {
            model.0.store(false, std::sync::atomic::Ordering::SeqCst);
            let (noted, early) = tokio::join!(same_names(&model, &mut of), async { asked() });
            assert!(noted.unwrap().unwrap().is_empty() && asked());
            names_waited |= !early;
            model.0.store(false, std::sync::atomic::Ordering::SeqCst);
            let (noted, early) = tokio::join!(reports(&model, &mut of), async { asked() });
            assert!(noted.unwrap().unwrap().len() == 1 && asked());
            reports_waited |= !early;
        }
        assert!(names_waited && reports_waited);
    }

    #[test]
    fn communities_are_rendered_and_reports_parsed() {
        let shown = shown(&graph());
        assert_eq!(shown.len(), 1);
        assert!(shown[0].0.contains(&"Babbage".to_owned()) && shown[0].1.contains("Ada Lovelace → Babbage"));
        let read = report(
            &json!({"title": "T", "summary": "S.", "findings": ["one", {"explanation": "two"}, 3]}),
            Vec::new(),
        );
        assert_eq!(read.map(|report| report.text), Some("S.\n- one\n- two".to_owned()));
        assert!(report(&json!({"title": "T"}), Vec::new()).is_none());
    }
}
