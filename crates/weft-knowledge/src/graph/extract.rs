//! Extracts entities and relations from the passages of a document, using a model.

use weft_core::{Error, Json, Result};

use super::{DESCRIPTION_MAX, Entity, NAME_MAX, Relation, Subgraph, apart, cut, folded};
use crate::ask::{Ask, Step, ask_json, passes, unexpected};

const INSTRUCTIONS: &str = include_str!("../prompts/graph.md");
const MORE: &str = include_str!("../prompts/graph_more.md");
/// Approximate number of characters of passages in one request.
const PACK_CHARS_MAX: usize = 12_000;
/// Maximum number of characters of one passage.
const PASSAGE_CHARS_MAX: usize = 8_000;
/// How often the general method asks for what was missed.
const GLEANINGS_MAX: usize = 2;
/// Maximum number of entities in one answer.
const ENTITIES_MAX: usize = 200;
/// The default weight of a relation, and the largest.
const WEIGHT: f64 = 1.0;
const WEIGHT_MAX: f64 = 10.0;

/// How thoroughly to extract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExtractionMethod {
    /// Each text is examined once.
    #[default]
    Light,
    /// The model is asked again for what it has missed.
    General,
}

impl ExtractionMethod {
    /// Parses `graphrag.method`.
    pub fn parse(text: &str) -> Self {
        if text.trim().eq_ignore_ascii_case("general") { Self::General } else { Self::Light }
    }
}

/// Extracts the graph of a document. Also returns notes on what could not be read in the model's answers.
/// Packs of passages with unusable answers are left out as long as others are usable; if none is, that is the
/// inner error. So is a temporary failure: a missing answer does not mean that the model found nothing.
///
/// # Errors
/// When the whole work has ended.
pub async fn extract(
    model: &dyn Ask,
    method: ExtractionMethod,
    kinds: &[String],
    passages: &[String],
) -> Result<Result<(Subgraph, Vec<String>)>> {
    let (mut graph, mut notes) = (Subgraph::default(), Vec::new());
    let mut usable = false;
    let mut last: Option<Error> = None;
    for (number, text) in packs(passages).into_iter().enumerate() {
        match pack(model, method, kinds, &text).await? {
            Ok(part) => {
                usable = true;
                graph.entities.extend(part.entities);
                graph.relations.extend(part.relations);
            }
            Err(error) if passes(error.kind) => return Ok(Err(error)),
            Err(error) => {
                notes.push(format!("cannot extract a graph from part {}: {}", number + 1, error.full()));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if !usable => Ok(Err(error)),
        _ => Ok(Ok((apart(move || tidy(graph)).await?, notes))),
    }
}

async fn pack(
    model: &dyn Ask,
    method: ExtractionMethod,
    kinds: &[String],
    text: &str,
) -> Result<Result<Subgraph>> {
    let question = format!("Kinds: {}\n\nText:\n{text}", kinds.join(", "));
    let answer = ask_json(model, Step::Graph, INSTRUCTIONS, &question).await?;
    let mut graph = match answer.and_then(|json| read(&json)) {
        Ok(graph) => graph,
        Err(error) => return Ok(Err(error)),
    };
    if method == ExtractionMethod::Light {
        return Ok(Ok(graph));
    }
    for _ in 0..GLEANINGS_MAX {
        let names: Vec<&str> = graph.entities.iter().map(|entity| entity.name.as_str()).collect();
        let question = format!("{question}\n\nFound so far: {}", names.join(", "));
        // What was found is kept even if the answer to the second request is unusable.
        let more = ask_json(model, Step::Graph, MORE, &question).await?.and_then(|json| read(&json));
        let more = match more {
            Ok(more) => more,
            Err(error) if passes(error.kind) => return Ok(Err(error)),
            Err(_) => break,
        };
        let known: std::collections::HashSet<String> =
            graph.entities.iter().map(|entity| folded(&entity.name)).collect();
        let news = more.entities.iter().any(|entity| !known.contains(&folded(&entity.name)));
        let relations = !more.relations.is_empty();
        graph.entities.extend(more.entities);
        graph.relations.extend(more.relations);
        if !news && !relations {
            break;
        }
    }
    Ok(Ok(graph))
}

/// Packs passages together, up to the size of a request.
pub(crate) fn packs(passages: &[String]) -> Vec<String> {
    let mut packs = vec![String::new()];
    let mut size = 0;
    for passage in passages {
        let passage: String = passage.chars().take(PASSAGE_CHARS_MAX).collect();
        let more = passage.chars().count();
        if size + more > PACK_CHARS_MAX && size > 0 {
            packs.push(String::new());
            size = 0;
        }
        size += more;
        if let Some(pack) = packs.last_mut() {
            pack.push_str(&passage);
            pack.push_str("\n\n");
        }
    }
    packs.retain(|pack| !pack.trim().is_empty());
    packs
}

/// Reads an answer, ignoring items that are neither entities nor relations.
fn read(answer: &Json) -> Result<Subgraph> {
    let list = |key: &str| answer.get(key).and_then(Json::as_array);
    let (entities, relations) = (list("entities"), list("relations").or_else(|| list("relationships")));
    if entities.is_none() && relations.is_none() {
        return Err(unexpected("entities and relations"));
    }
    let text = |item: &Json, keys: &[&str], max: usize| {
        let found = keys.iter().find_map(|key| item.get(*key)?.as_str());
        cut(found.unwrap_or_default(), max)
    };
    let entity = |item: &Json| {
        let entity = Entity {
            name: text(item, &["name", "entity"], NAME_MAX),
            kind: text(item, &["kind", "type"], NAME_MAX).to_lowercase(),
            description: text(item, &["description"], DESCRIPTION_MAX),
            ..Entity::default()
        };
        (!entity.name.is_empty()).then_some(entity)
    };
    let relation = |item: &Json| {
        let weight = item.get("weight").and_then(|w| w.as_f64().or_else(|| w.as_str()?.trim().parse().ok()));
        let weight = weight.filter(|weight| weight.is_finite() && *weight > 0.0).unwrap_or(WEIGHT);
        let relation = Relation {
            source: text(item, &["source", "from"], NAME_MAX),
            target: text(item, &["target", "to"], NAME_MAX),
            description: text(item, &["description"], DESCRIPTION_MAX),
            weight: weight.min(WEIGHT_MAX),
            ..Relation::default()
        };
        (!relation.source.is_empty() && !relation.target.is_empty()).then_some(relation)
    };
    Ok(Subgraph {
        entities: entities.into_iter().flatten().filter_map(entity).take(ENTITIES_MAX).collect(),
        relations: relations.into_iter().flatten().filter_map(relation).take(ENTITIES_MAX).collect(),
        ..Subgraph::default()
    })
}

/// Returns the graph of one document with each name once.
fn tidy(graph: Subgraph) -> Subgraph {
    let merged = super::merge::merge([graph]);
    Subgraph {
        entities: merged.entities.into_iter().map(|(entity, _)| entity).collect(),
        relations: merged.relations.into_iter().map(|(_, _, relation)| relation).collect(),
        ..Subgraph::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn invalid_entities_are_skipped() {
        let graph = read(&json!({
            "entities": [{"name": " Ada ", "type": "PERSON", "description": "x"}, {"kind": "person"}, 7, {"name": "B"}],
            "relationships": [{"source": "Ada", "target": "B", "weight": "99"}, {"source": "Ada"}, {"from": "B", "to": "Ada", "weight": -1}],
        }))
        .unwrap();
        let names: Vec<(&str, &str)> =
            graph.entities.iter().map(|entity| (entity.name.as_str(), entity.kind.as_str())).collect();
        assert_eq!(names, [("Ada", "person"), ("B", "")]);
        let weights: Vec<f64> = graph.relations.iter().map(|relation| relation.weight).collect();
        assert_eq!(weights, [10.0, 1.0]);
        assert!(read(&json!({"things": []})).is_err());
        assert!(read(&json!("none")).is_err());
    }

    #[test]
    fn passages_are_packed_up_to_a_size() {
        let passages: Vec<String> = (0..5).map(|_| "x".repeat(5_000)).collect();
        assert_eq!(packs(&passages).len(), 3);
        assert_eq!(packs(&[" ".to_owned()]), Vec::<String>::new());
        assert_eq!(packs(&["x".repeat(50_000)])[0].trim().len(), PASSAGE_CHARS_MAX);
    }
}
