//! One search: every question by words and by vector, ranked once, and then by a reranking model if one is named.

use std::collections::HashMap;

use weft_core::id::{ChunkId, DatasetId, DocumentId};
use weft_core::seam::dataset_store::{Dataset, StoredChunk};
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::index::{IndexAnswer, IndexQuery, TextQuery, VectorQuery};
use weft_core::seam::knowledge::{CANDIDATES_MAX, DocumentCount, Found, Scored, SearchRequest, TokensRead};
use weft_core::seam::reranker::Reranked;
use weft_core::{Error, ErrorKind, Result};

use super::sources::SearchSources;
use super::{there, unindexed};
use crate::rank::{self, Fusion, RankSettings, Ranked};

/// Weight of an additional keyword relative to a word of the question.
const KEYWORD_WEIGHT: f32 = 0.5;
/// Scores are rounded to this many parts of one, so that they read the same everywhere.
const PARTS_OF_ONE: f64 = 1e6;

/// Searches these datasets for passages.
pub(super) async fn search(
    parts: SearchSources<'_>,
    datasets: &[Dataset],
    request: &SearchRequest,
) -> Result<Found> {
    let mut found = Found::default();
    if datasets.is_empty() {
        return Ok(found);
    }
    let vectors = vectors(parts, datasets, request, &mut found).await?;
    let answers = answers(parts, datasets, request, vectors.as_deref()).await?;
    unindexed::note(parts, datasets, &answers, &mut found.notes).await?;
    if request.filter.is_some() {
        // Each question has the same number of answers, over the same documents.
        let of_one = answers.len() / request.questions.len().max(1);
        found.fitting = Some(answers.iter().take(of_one).map(|answer| answer.fitting as u64).sum());
    }
    let list = if request.reranker.is_empty() {
        ranked(&answers, datasets, request, request.similarity_min)
    } else {
        match ranked_by_model(parts, datasets, request, &answers).await {
            Ok((list, tokens)) => {
                note_used(&mut found, &request.reranker, tokens);
                list
            }
            // A model that does not exist is the caller's mistake; one that fails is not.
            Err(error) if error.kind == ErrorKind::NotFound => return Err(error),
            Err(error) => {
                let name = &request.reranker;
                found.notes.push(format!("ranked without `{name}` because it failed: {}", error.full()));
                ranked(&answers, datasets, request, request.similarity_min)
            }
        }
    };
    let list = there::shown(parts, list, request).await?;
    found.total = list.len();
    found.documents = counted(&answers, &list);
    found.passages = list.into_iter().skip(request.offset).take(request.limit).collect();
    Ok(found)
}

/// Notes how many tokens a model has read, if its provider reports it.
fn note_used(found: &mut Found, model: &str, tokens: u64) {
    if tokens > 0 {
        found.used.push(TokensRead { model: model.to_owned(), tokens });
    }
}

/// Ranks by a model. No candidate is dropped for its score before the model has ranked it, and candidates
/// must still exist, because ranking costs.
async fn ranked_by_model(
    parts: SearchSources<'_>,
    datasets: &[Dataset],
    request: &SearchRequest,
    answers: &[IndexAnswer],
) -> Result<(Vec<Scored>, u64)> {
    let candidates = ranked(answers, datasets, request, 0.0);
    let candidates = there::best(parts, candidates, request.reranked_max.clamp(1, CANDIDATES_MAX)).await?;
    let (mut list, tokens) = reranked(parts, datasets, request, candidates).await?;
    in_order(&mut list);
    Ok((list, tokens))
}

/// Returns the index's answers to each question. Datasets without vectors are searched separately, so that
/// their passages are scored by words alone.
async fn answers(
    parts: SearchSources<'_>,
    datasets: &[Dataset],
    request: &SearchRequest,
    vectors: Option<&[Vec<f32>]>,
) -> Result<Vec<IndexAnswer>> {
    let (with, without): (Vec<&Dataset>, Vec<&Dataset>) =
        datasets.iter().partition(|dataset| vectors.is_some() && !dataset.embedder.is_empty());
    let mut answers = Vec::new();
    for (place, question) in request.questions.iter().enumerate() {
        let vector = vectors.and_then(|vectors| vectors.get(place));
        for (group, vector) in [(&with, vector), (&without, None)] {
            if !group.is_empty() {
                let query = query(group, request, question, vector);
                answers.push(named(parts.index.search(parts.tenant, &query).await?, group));
            }
        }
    }
    Ok(answers)
}

/// Merges all answers into one list: a passage gets its best score.
fn ranked(
    answers: &[IndexAnswer],
    datasets: &[Dataset],
    request: &SearchRequest,
    threshold: f64,
) -> Vec<Scored> {
    #[expect(clippy::cast_possible_truncation, reason = "shares between 0 and 1")]
    let (vector_weight, threshold) = (request.vector_weight as f32, threshold as f32);
    let pageranks = datasets.iter().map(|dataset| (dataset.key.id.clone(), dataset.pagerank)).collect();
    let settings = RankSettings { fusion: Fusion::Weighted { vector_weight }, threshold, pageranks };
    if let [answer] = answers {
        // With a single answer, no passage occurs twice.
        let mut list: Vec<Scored> = rank::rank(answer, &settings).into_iter().map(scored).collect();
        in_order(&mut list);
        return list;
    }
    let mut best: HashMap<ChunkId, Ranked> = HashMap::new();
    for ranked in answers.iter().flat_map(|answer| rank::rank(answer, &settings)) {
        match best.get(&ranked.hit.chunk) {
            Some(known) if known.similarity >= ranked.similarity => {}
            _ => drop(best.insert(ranked.hit.chunk.clone(), ranked)),
        }
    }
    let mut list: Vec<Scored> = best.into_values().map(scored).collect();
    in_order(&mut list);
    list
}

/// Returns the vectors of the questions, unless no dataset has an embedder or only words count. A failing
/// embedder ends the search if only vectors count; otherwise it is noted.
async fn vectors(
    parts: SearchSources<'_>,
    datasets: &[Dataset],
    request: &SearchRequest,
    found: &mut Found,
) -> Result<Option<Vec<Vec<f32>>>> {
    let notes = &mut found.notes;
    let mut embedders =
        datasets.iter().map(|dataset| dataset.embedder.as_str()).filter(|name| !name.is_empty());
    let Some(name) = embedders.next() else { return Ok(None) };
    if let Some(other) = embedders.find(|other| *other != name) {
        let message = format!("the datasets have vectors from different models: `{name}` and `{other}`");
        return Err(Error::invalid(message).help("search them one after the other"));
    }
    // Words alone need no vectors; but incompatible datasets are reported all the same.
    if request.vector_weight <= 0.0 {
        return Ok(None);
    }
    // If no dataset has vectors, their absence is not worth a note.
    let without = datasets.iter().filter(|dataset| dataset.embedder.is_empty());
    let without: Vec<String> = without.map(|dataset| format!("`{}`", dataset.name)).collect();
    match without.as_slice() {
        [] => {}
        [one] => notes.push(format!("the dataset {one} has no embedder: it is searched by words alone")),
        [some @ .., last] => {
            let some = some.join(", ");
            notes.push(format!(
                "the datasets {some} and {last} have no embedder: they are searched by words alone"
            ));
        }
    }
    let made = async {
        let embedder = parts.models.embedder(parts.tenant, name)?;
        embedder.embed(EmbeddingPurpose::Query, &request.questions).await
    };
    match made.await {
        Ok(embedded) if embedded.vectors.len() == request.questions.len() => {
            note_used(found, name, embedded.tokens);
            Ok(Some(embedded.vectors))
        }
        Ok(_) => {
            Err(Error::new(ErrorKind::Garbled, format!("`{name}` returned no vector for each question")))
        }
        Err(error) if request.vector_weight >= 1.0 => Err(error),
        Err(error) => {
            notes.push(format!("searched by words alone, because `{name}` failed: {}", error.full()));
            Ok(None)
        }
    }
}

/// Replaces the ids of indexes in an answer by those of their datasets: they differ if vectors have been rebuilt.
fn named(mut answer: IndexAnswer, datasets: &[&Dataset]) -> IndexAnswer {
    let renamed = datasets.iter().map(|dataset| (dataset.index().id, &dataset.key.id));
    let renamed: HashMap<DatasetId, &DatasetId> = renamed.filter(|(index, id)| index != *id).collect();
    if !renamed.is_empty() {
        for hit in &mut answer.hits {
            if let Some(id) = renamed.get(&hit.dataset) {
                hit.dataset = (*id).clone();
            }
        }
    }
    answer
}

fn query(
    datasets: &[&Dataset],
    request: &SearchRequest,
    question: &str,
    vector: Option<&Vec<f32>>,
) -> IndexQuery {
    let keywords = request.keywords.iter().map(|word| (word.clone(), KEYWORD_WEIGHT)).collect();
    IndexQuery {
        datasets: datasets.iter().map(|dataset| dataset.index().id).collect(),
        documents: request.documents.clone(),
        filter: request.filter.clone(),
        // Additional keywords count in the search for words: mixed into the question they would shift its vector.
        text: Some(TextQuery { text: question.to_owned(), keywords }),
        // A vector's similarity counts in the score, and only the score has a threshold. Typical cosines
        // differ between models, so none is too small.
        vector: vector.map(|vector| VectorQuery { vector: vector.clone(), cosine_min: -1.0 }),
        count_max: request.candidates_max.clamp(1, CANDIDATES_MAX),
    }
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * PARTS_OF_ONE).round() / PARTS_OF_ONE
}

fn scored(ranked: Ranked) -> Scored {
    Scored {
        chunk: ranked.hit.chunk,
        document: ranked.hit.document,
        dataset: ranked.hit.dataset,
        parent: ranked.hit.parent,
        similarity: rounded(ranked.similarity),
        term: rounded(ranked.text),
        vector: ranked.vector.map(rounded),
    }
}

/// Sorts by score, best first; ties by the score of the words, then by id.
fn in_order(list: &mut [Scored]) {
    list.sort_by(|one, other| {
        let by_score = other.similarity.total_cmp(&one.similarity);
        by_score.then(other.term.total_cmp(&one.term)).then_with(|| one.chunk.cmp(&other.chunk))
    });
}

/// Ranks the best passages by a model, whose score replaces the vectors' share. Also returns the number of
/// tokens that it has read.
async fn reranked(
    parts: SearchSources<'_>,
    datasets: &[Dataset],
    request: &SearchRequest,
    mut list: Vec<Scored>,
) -> Result<(Vec<Scored>, u64)> {
    // A model that does not exist is reported even if nothing is found.
    let reranker = parts.models.reranker(parts.tenant, &request.reranker)?;
    let question = request.questions.first().map(String::as_str).unwrap_or_default();
    let ids: Vec<ChunkId> = list.iter().map(|scored| scored.chunk.clone()).collect();
    let chunks = parts.store.chunks_by_id(parts.tenant, &ids).await?;
    // As written by people: rerankers are trained on texts, not on lists of stems.
    let texts: Vec<String> = chunks.iter().map(text).collect();
    if texts.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let Reranked { scores, tokens } = reranker.rerank(question, &texts).await?;
    if scores.len() != texts.len() {
        return Err(Error::new(ErrorKind::Garbled, "it returned no score for each passage"));
    }
    // Scores are comparable everywhere as long as they lie between 0 and 1.
    let scores: HashMap<&ChunkId, f64> =
        chunks.iter().zip(scores).map(|(chunk, score)| (&chunk.id, rounded(score.clamp(0.0, 1.0)))).collect();
    let weight = request.vector_weight.clamp(0.0, 1.0);
    list.retain_mut(|scored| {
        let Some(score) = scores.get(&scored.chunk) else { return false };
        let similarity = weight * score + (1.0 - weight) * scored.term;
        scored.vector = Some(*score);
        scored.similarity = preferred(similarity, &scored.dataset, datasets);
        similarity >= request.similarity_min
    });
    Ok((list, tokens))
}

fn preferred(similarity: f64, id: &DatasetId, datasets: &[Dataset]) -> f64 {
    let pagerank =
        datasets.iter().find(|dataset| dataset.key.id == *id).map_or(0, |dataset| dataset.pagerank);
    #[expect(clippy::cast_possible_truncation, reason = "a share between 0 and 1")]
    let lifted = rank::lifted(similarity as f32, pagerank);
    rounded(lifted)
}

/// Returns what a model reads of a passage: its text as written, with the headings it is under.
fn text(chunk: &StoredChunk) -> String {
    if chunk.headings.is_empty() {
        chunk.content.clone()
    } else {
        format!("{}\n{}", chunk.headings.join(" › "), chunk.content)
    }
}

/// Returns the documents of a list by number of passages, largest first; among equals, the better one first.
fn counted(answers: &[IndexAnswer], list: &[Scored]) -> Vec<DocumentCount> {
    let mut counts: Vec<DocumentCount> = Vec::new();
    let mut places: HashMap<&DocumentId, usize> = HashMap::new();
    for scored in list {
        let place = *places.entry(&scored.document).or_insert_with(|| {
            let name = answers.iter().find_map(|answer| answer.names.get(&scored.document));
            let (id, name) = (scored.document.clone(), name.cloned().unwrap_or_default());
            counts.push(DocumentCount { id, name, count: 0 });
            counts.len() - 1
        });
        counts[place].count += 1;
    }
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    counts
}
