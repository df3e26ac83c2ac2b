//! What a graph says about a question, as one passage before all others.

use weft_core::citation::Chunk;
use weft_core::seam::knowledge::{EntityKind, GraphFound, GraphRequest, Passage, Scope};
use weft_core::{Json, Result};

use crate::ask::{Step, ask_json, unexpected};
use crate::retrieve::RetrievalSearch;
use crate::tokens;

const INSTRUCTIONS: &str = include_str!("../prompts/graph_question.md");
/// The name under which the passage is shown.
pub const TITLE: &str = "Related content in Knowledge Graph";
// As users know the passage from the engine that they come from.
/// Maximum number of tokens of the passage.
const TOKENS_MAX: usize = 8_196;
/// Maximum number of names that a question is about.
const NAMES_MAX: usize = 5;
/// Maximum number of kinds that answer it.
const KINDS_MAX: usize = 3;

/// Returns the passage, if the graph has anything to say. Failures are noted.
///
/// # Errors
/// When the graph cannot be read, or the whole work has ended.
pub(crate) async fn passage(
    search: &RetrievalSearch<'_>,
    scope: Scope,
    notes: &mut Vec<String>,
) -> Result<Option<Passage>> {
    let &RetrievalSearch { knowledge, model, tenant, question, .. } = search;
    let kinds = knowledge.graph_kinds(tenant, &scope).await?;
    if kinds.is_empty() {
        notes.push("the datasets have no knowledge graph".to_owned());
        return Ok(None);
    }
    let text = format!("Question: {question}\n\nKinds:\n{}", listed(&kinds));
    let answer = ask_json(model, Step::GraphQuestion, INSTRUCTIONS, &text).await?;
    let read = answer.and_then(|json| read(&json).ok_or_else(|| unexpected("kinds and names")));
    let (kinds, entities) = read.unwrap_or_else(|error| {
        notes.push(format!("searched the graph with the unchanged question: {}", error.full()));
        (Vec::new(), vec![question.to_owned()])
    });
    let request = GraphRequest { scope, question: question.to_owned(), entities, kinds };
    let found = knowledge.graph(tenant, &request).await?;
    notes.extend(found.notes.iter().cloned());
    Ok(told(&found))
}

fn listed(kinds: &[EntityKind]) -> String {
    kinds.iter().map(|kind| format!("- {}: {}\n", kind.kind, kind.samples.join(" | "))).collect()
}

fn read(answer: &Json) -> Option<(Vec<String>, Vec<String>)> {
    let texts = |key: &str, count_max: usize| -> Option<Vec<String>> {
        let list = answer.get(key)?.as_array()?.iter().take(count_max);
        Some(
            list.filter_map(Json::as_str).map(str::to_owned).filter(|text| !text.trim().is_empty()).collect(),
        )
    };
    let (kinds, names) = (texts("kinds", KINDS_MAX).unwrap_or_default(), texts("entities", NAMES_MAX)?);
    (!names.is_empty() || !kinds.is_empty()).then_some((kinds, names))
}

/// Builds the passage: two tables, as much of them as there is room for, and a report.
fn told(found: &GraphFound) -> Option<Passage> {
    let mut content = String::new();
    let mut room = TOKENS_MAX;
    let entity = |e: &weft_core::seam::knowledge::GraphEntity| {
        vec![e.name.clone(), e.kind.clone(), e.description.clone()]
    };
    let relation = |r: &weft_core::seam::knowledge::GraphRelation| {
        vec![r.source.clone(), r.target.clone(), r.description.clone()]
    };
    table("Entities\nentity,kind,description", found.entities.iter().map(entity), &mut content, &mut room);
    table("Relations\nfrom,to,description", found.relations.iter().map(relation), &mut content, &mut room);
    if let Some(report) = &found.report {
        let text = format!("---- Report: {}\n{}\n", report.title, report.text);
        // A report is included as a whole or not at all.
        if tokens::at_most(&text) <= room {
            content.push_str(&text);
        }
    }
    let content = content.trim_end().to_owned();
    let tokens = u32::try_from(tokens::at_most(&content)).unwrap_or(u32::MAX);
    (!content.is_empty()).then(|| Passage {
        chunk: Chunk {
            id: format!("graph-{:016x}", fingerprint(&content)),
            content,
            document_name: TITLE.to_owned(),
            similarity: Some(1.0),
            vector_similarity: Some(1.0),
            term_similarity: Some(0.0),
            ..Chunk::default()
        },
        tokens,
        ..Passage::default()
    })
}

fn table(title: &str, rows: impl Iterator<Item = Vec<String>>, text: &mut String, room: &mut usize) {
    let mut begun = false;
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
        let head = if begun { String::new() } else { format!("---- {title}\n") };
        let line = format!("{head}{}\n", cells.join(","));
        let cost = tokens::at_most(&line);
        if cost > *room {
            return;
        }
        *room -= cost;
        begun = true;
        text.push_str(&line);
    }
}

/// Formats a cell of a table according to RFC 4180, on one line.
fn quoted(cell: &str) -> String {
    let line = cell.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.contains([',', '"']) { format!("\"{}\"", line.replace('"', "\"\"")) } else { line }
}

/// Returns an FNV-1a hash: a passage repeated within a turn is one source.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::seam::knowledge::{GraphEntity, GraphRelation};

    fn entity(name: &str, description: &str) -> GraphEntity {
        let description = description.to_owned();
        GraphEntity { name: name.to_owned(), kind: "person".to_owned(), description, score: 1.0 }
    }

    #[test]
    fn the_passage_is_two_tables_within_their_token_limits() {
        let relation = GraphRelation {
            source: "Ada".to_owned(),
            target: "Babbage, C.".to_owned(),
            description: "said \"yes\"\nto".to_owned(),
            score: 1.0,
        };
        let entities = vec![entity("Ada", "wrote")];
        let found = GraphFound { entities, relations: vec![relation], ..GraphFound::default() };
        let passage = told(&found).unwrap();
        let expected = "---- Entities\nentity,kind,description\nAda,person,wrote\n---- Relations\nfrom,to,description\n\
                        Ada,\"Babbage, C.\",\"said \"\"yes\"\" to\"";
        assert_eq!(passage.chunk.content, expected);
        assert_eq!((passage.chunk.document_name.as_str(), passage.chunk.similarity), (TITLE, Some(1.0)));
        assert_eq!(super::told(&GraphFound::default()), None);
        let long = GraphFound {
            entities: (0..6).map(|n| entity(&format!("E{n}"), &"汉".repeat(2_000))).collect(),
            ..GraphFound::default()
        };
        let passage = super::told(&long).unwrap();
        assert!(passage.tokens as usize <= TOKENS_MAX && passage.chunk.content.contains("E3"));
        assert!(!passage.chunk.content.contains("E4"));
    }

    #[test]
    fn model_answers_are_parsed() {
        let check = |answer: Json, expected: Option<(&[&str], &[&str])>| {
            let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let expected = expected.map(|(kinds, names)| (owned(kinds), owned(names)));
            assert_eq!(read(&answer), expected, "{answer}");
        };
        check(json!({"kinds": ["person"], "entities": ["Ada", 7, " "]}), Some((&["person"], &["Ada"])));
        check(json!({"entities": ["a", "b", "c", "d", "e", "f"]}), Some((&[], &["a", "b", "c", "d", "e"])));
        check(json!({"entities": []}), None);
        check(json!(["Ada"]), None);
    }
}
