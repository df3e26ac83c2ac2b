//! Asks a model which entries of the best document's table of contents are relevant to the question, and
//! raises the scores of the passages they refer to.

use std::collections::HashMap;

use weft_core::id::{ChunkId, DatasetId, DocumentId};
use weft_core::seam::knowledge::{ContentsEntry, Scored};
use weft_core::{Json, Result};

use crate::ask::{Step, ask_json, unexpected};
use crate::retrieve::RetrievalSearch;

const INSTRUCTIONS: &str = include_str!("../prompts/contents_choice.md");
/// Number of passages examined to find the best document.
const WINDOW: usize = 64;
/// Maximum number of entries that a model is shown.
const SHOWN_MAX: usize = 300;
// The grades from -1 to 5 and their effect are those of the engine whose `toc_enhance` this implements.
/// The best grade of an entry.
const GRADE_MAX: f64 = 5.0;
/// Minimum mean grade of a passage's entries.
const SCORE_MIN: f64 = 0.3;

/// Raises passages according to the table of contents of the best document, and adds passages that were not
/// found: up to two pages' worth, the same for every page of a given size. Failures are noted.
///
/// # Errors
/// When the table or its passages cannot be read, or the whole work has ended.
pub(crate) async fn enhance(
    search: &RetrievalSearch<'_>,
    page: usize,
    found: &mut Vec<Scored>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let &RetrievalSearch { knowledge, model, tenant, question, .. } = search;
    let Some((dataset, document)) = best_document(&found[..found.len().min(WINDOW)]) else { return Ok(()) };
    let mut entries = knowledge.contents(tenant, &dataset, &document).await?;
    if entries.is_empty() {
        notes.push("the best document has no table of contents".to_owned());
        return Ok(());
    }
    entries.truncate(SHOWN_MAX);
    let text = format!("Question: {question}\n\nContents:\n{}", listed(&entries));
    let answer = ask_json(model, Step::ContentsChoice, INSTRUCTIONS, &text).await?;
    let grades = match answer.and_then(|json| grades(&json).ok_or_else(|| unexpected("grades"))) {
        Ok(grades) => grades,
        Err(error) => {
            notes.push(format!("searched without the table of contents: {}", error.full()));
            return Ok(());
        }
    };
    let chosen = chosen(&entries, &grades, page.saturating_mul(2));
    let missing: Vec<ChunkId> = chosen
        .iter()
        .map(|(chunk, _)| chunk)
        .filter(|chunk| found.iter().all(|scored| scored.chunk != **chunk))
        .cloned()
        .collect();
    // Passages deleted since must not take the place of existing ones.
    let there = if missing.is_empty() {
        Vec::new()
    } else {
        knowledge.passages(tenant, std::slice::from_ref(&dataset), &missing).await?
    };
    for (chunk, score) in chosen {
        if let Some(scored) = found.iter_mut().find(|scored| scored.chunk == chunk) {
            // Scores stay between 0 and 1, even with what is added.
            scored.similarity = (scored.similarity + score).min(1.0);
        } else if let Some(passage) = there.iter().find(|passage| passage.chunk.id == chunk.as_str()) {
            found.push(Scored {
                chunk,
                document: document.clone(),
                dataset: dataset.clone(),
                parent: passage.parent.clone(),
                similarity: score,
                term: 0.0,
                vector: None,
            });
        }
    }
    found.sort_by(|one, other| other.similarity.total_cmp(&one.similarity));
    Ok(())
}

/// Returns the document with the largest sum of scores; among equals, the one found first.
fn best_document(found: &[Scored]) -> Option<(DatasetId, DocumentId)> {
    let mut sums: Vec<(&Scored, f64)> = Vec::new();
    for scored in found {
        match sums.iter_mut().find(|(first, _)| first.document == scored.document) {
            Some((_, sum)) => *sum += scored.similarity,
            None => sums.push((scored, scored.similarity)),
        }
    }
    let best = sums.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    Some((best.0.dataset.clone(), best.0.document.clone()))
}

fn listed(entries: &[ContentsEntry]) -> String {
    let line = |(number, entry): (usize, &ContentsEntry)| {
        let indent = "  ".repeat(usize::from(entry.level.saturating_sub(1)).min(8));
        format!("{number}. {indent}{}\n", entry.title)
    };
    entries.iter().enumerate().map(line).collect()
}

/// Reads grades by the number of the entry: `{"3": 5}` or `[{"entry": 3, "grade": 5}]`.
fn grades(json: &Json) -> Option<HashMap<usize, f64>> {
    let number = |json: &Json| json.as_f64().or_else(|| json.as_str()?.trim().parse().ok());
    let whole = |json: &Json| json.as_u64().or_else(|| json.as_str()?.trim().parse().ok());
    let pairs: Option<Vec<(usize, f64)>> = match json {
        Json::Object(map) => {
            map.iter().map(|(entry, grade)| Some((entry.trim().parse().ok()?, number(grade)?))).collect()
        }
        Json::Array(list) => list
            .iter()
            .map(|item| {
                let entry = usize::try_from(whole(item.get("entry")?)?).ok()?;
                Some((entry, number(item.get("grade").or_else(|| item.get("score"))?)?))
            })
            .collect(),
        _ => None,
    };
    Some(pairs?.into_iter().collect())
}

/// Returns the passages that the grades favour, best first, each with the mean of its entries' grades.
fn chosen(entries: &[ContentsEntry], grades: &HashMap<usize, f64>, count_max: usize) -> Vec<(ChunkId, f64)> {
    let mut order: Vec<&ChunkId> = Vec::new();
    let mut sums: HashMap<&ChunkId, (f64, f64)> = HashMap::new();
    for (number, entry) in entries.iter().enumerate() {
        let Some(grade) = grades.get(&number).filter(|grade| **grade >= 1.0) else { continue };
        for chunk in &entry.chunks {
            let (sum, count) = sums.entry(chunk).or_insert_with(|| {
                order.push(chunk);
                (0.0, 0.0)
            });
            *sum += grade.min(GRADE_MAX) / GRADE_MAX;
            *count += 1.0;
        }
    }
    let mut chosen: Vec<(ChunkId, f64)> = order
        .into_iter()
        .filter_map(|chunk| sums.get(chunk).map(|(sum, count)| (chunk.clone(), sum / count)))
        .filter(|(_, score)| *score >= SCORE_MIN)
        .collect();
    chosen.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    chosen.truncate(count_max);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(title: &str, chunks: &[&str]) -> ContentsEntry {
        let chunks = chunks.iter().map(|id| (*id).into()).collect();
        ContentsEntry { level: 1, title: title.to_owned(), chunks }
    }

    #[test]
    fn a_passage_has_the_mean_score_of_its_entries() {
        let entries =
            [entry("A", &["1", "2"]), entry("B", &["2", "3"]), entry("C", &["4"]), entry("D", &["5"])];
        let check = |answer: Json, count_max: usize, expected: &[(&str, f64)]| {
            let chosen = chosen(&entries, &grades(&answer).unwrap(), count_max);
            let chosen: Vec<(&str, f64)> = chosen.iter().map(|(id, score)| (id.as_str(), *score)).collect();
            assert_eq!(chosen, expected, "{answer}");
        };
        check(json!({"0": 5, "1": 2, "2": 1, "3": -1}), 9, &[("1", 1.0), ("2", 0.7), ("3", 0.4)]);
        check(json!({"0": 5, "1": 2}), 2, &[("1", 1.0), ("2", 0.7)]);
        check(json!([{"entry": 3, "grade": "5"}, {"entry": 99, "score": 5}]), 9, &[("5", 1.0)]);
        check(json!({}), 9, &[]);
        assert_eq!(grades(&json!(["A"])), None);
        assert_eq!(grades(&json!({"A": 5})), None);
    }

    #[test]
    fn the_best_document_has_the_highest_total_score() {
        let scored = |document: &str, similarity: f64| Scored {
            chunk: "c".into(),
            document: document.into(),
            dataset: "s".into(),
            parent: None,
            similarity,
            term: 0.0,
            vector: None,
        };
        let found = [scored("a", 0.9), scored("b", 0.5), scored("b", 0.45)];
        assert_eq!(best_document(&found).unwrap().1.as_str(), "b");
        assert_eq!(best_document(&[]), None);
    }
}
