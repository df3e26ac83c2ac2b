//! From a question to the passages that answer it. The component, the HTTP API and the command line all use
//! this; see docs/retrieval.md.

mod filters;
pub(crate) mod parents;
pub mod weights;
mod words;

use std::collections::HashMap;

use weft_core::citation::Chunk;
use weft_core::id::{ChunkId, DatasetId, DocumentId};
use weft_core::seam::Knowledge;
use weft_core::seam::knowledge::{
    CANDIDATES_MAX, DatasetBrief, DocumentCount, Expansion, Found, Passage, Scope, Scored, SearchRequest,
};
use weft_core::{Error, Result, TenantId};

use crate::ask::Ask;
use crate::{contents, graph};

pub use filters::{FilterChoice, Filtered, Misfit, choice as filter_choice, conditions as filter_conditions};
pub use words::{KEYWORDS_MAX, LANGUAGES_MAX};

/// Maximum number of bytes of a question that are searched for; the rest is ignored.
const QUESTION_MAX: usize = 16 * 1024;
/// Minimum number of passages that a reranking model ranks, if one is named.
const RERANKED_MIN: usize = 64;

/// Which datasets are searched.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Chosen {
    /// All datasets of the tenant.
    #[default]
    All,
    /// Those with these names or ids.
    Named(Vec<String>),
    /// Those with these ids, even if others have such names.
    ById(Vec<DatasetId>),
}

/// What to search for, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Retrieval {
    /// The datasets to search.
    pub datasets: Chosen,
    /// The question.
    pub question: String,
    /// Restricts the search to these documents.
    pub documents: Option<Vec<DocumentId>>,
    /// Restricts the search to documents with matching metadata.
    pub filter: FilterChoice,
    /// The minimum score, 0 to 1.
    pub similarity_min: f64,
    /// The share of the vectors in a score, 0 to 1.
    pub vector_weight: f64,
    /// Maximum number of passages that words and vectors each find.
    pub candidates_max: usize,
    /// The reranking model; empty for none.
    pub reranker: String,
    /// Further languages in which the question is asked.
    pub languages: Vec<String>,
    /// Whether a model adds keywords for the search for words.
    pub keywords: bool,
    /// Whether a model chooses from the best document's table of contents.
    pub contents: bool,
    /// Whether the knowledge graph's passage is put first.
    pub graph: bool,
    /// Number of passages to skip.
    pub offset: usize,
    /// Maximum number of passages to return.
    pub limit: usize,
}

impl Default for Retrieval {
    fn default() -> Self {
        Self {
            datasets: Chosen::default(),
            question: String::new(),
            documents: None,
            filter: FilterChoice::All,
            similarity_min: 0.2,
            vector_weight: 0.5,
            candidates_max: CANDIDATES_MAX,
            reranker: String::new(),
            languages: Vec::new(),
            keywords: false,
            contents: false,
            graph: false,
            offset: 0,
            limit: 8,
        }
    }
}

/// The result of a retrieval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// The datasets that were searched.
    pub datasets: Vec<DatasetBrief>,
    /// The passages with their scores, best first; that of a graph before all others.
    pub passages: Vec<Passage>,
    /// Total number of passages, without that of a graph.
    pub total: usize,
    /// The documents of all passages, those with most passages first.
    pub documents: Vec<DocumentCount>,
    /// The outcome of the filter.
    pub filter: Filtered,
    /// What users should know about the search.
    pub notes: Vec<String>,
}

/// Finds passages; see the module documentation.
///
/// # Errors
/// `NotFound` naming a dataset that does not exist; `Invalid` when the datasets have vectors of different
/// models; any error of the search. A failing model is noted and the search continues without it, unless the
/// work as a whole has ended.
pub async fn retrieve(
    knowledge: &dyn Knowledge,
    model: &dyn Ask,
    tenant: &TenantId,
    asked: &Retrieval,
) -> Result<Retrieved> {
    let datasets = match &asked.datasets {
        Chosen::All => knowledge.datasets(tenant, &[]).await?,
        // For the trait, an empty list of names means all datasets.
        Chosen::Named(names) if names.is_empty() => Vec::new(),
        Chosen::Named(names) => knowledge.datasets(tenant, names).await?,
        Chosen::ById(ids) => knowledge.datasets_of(tenant, ids).await?,
    };
    one_embedder(&datasets)?;
    let question = stripped(&asked.question);
    let mut retrieved = Retrieved { datasets, ..Retrieved::default() };
    if question.is_empty() || retrieved.datasets.is_empty() || asked.limit == 0 {
        return Ok(retrieved);
    }
    let search = RetrievalSearch { knowledge, model, tenant, asked, question };
    search.fill(&mut retrieved).await?;
    // It comes before all others, so it is on the first page only.
    if asked.graph && asked.offset == 0 && !matches!(retrieved.filter, Filtered::Empty(_)) {
        let scope = Scope {
            datasets: ids(&retrieved.datasets),
            documents: asked.documents.clone(),
            filter: retrieved.filter.in_force(),
        };
        let passage = graph::question::passage(&search, scope, &mut retrieved.notes).await?;
        if let Some(passage) = passage {
            retrieved.passages.insert(0, passage);
        }
    }
    Ok(retrieved)
}

fn ids(datasets: &[DatasetBrief]) -> Vec<DatasetId> {
    datasets.iter().map(|brief| brief.id.clone()).collect()
}

/// Rejects datasets with vectors of different models, which cannot be compared. Datasets without vectors may
/// be combined with others.
fn one_embedder(datasets: &[DatasetBrief]) -> Result<()> {
    let mut with = datasets.iter().filter(|brief| !brief.embedder.is_empty());
    let Some(first) = with.next() else { return Ok(()) };
    let Some(other) = with.find(|brief| brief.embedder != first.embedder) else { return Ok(()) };
    let message = format!(
        "the datasets `{}` and `{}` have vectors from different models: `{}` and `{}`",
        first.name, other.name, first.embedder, other.embedder
    );
    Err(Error::invalid(message)
        .help("search them one after the other, or give them the same embedding model"))
}

/// Returns a question without the speaker prefix that templates add.
pub fn stripped(question: &str) -> &str {
    let question = question.trim();
    let prefixed = question.get(..5).is_some_and(|prefix| prefix.eq_ignore_ascii_case("user:"));
    let question = if prefixed { question[5..].trim() } else { question };
    let end = (0..=question.len().min(QUESTION_MAX)).rev().find(|end| question.is_char_boundary(*end));
    &question[..end.unwrap_or(0)]
}

/// A question being searched: who asks, what and where.
pub(crate) struct RetrievalSearch<'a> {
    /// The library that is searched.
    pub(crate) knowledge: &'a dyn Knowledge,
    /// The model that assists the search.
    pub(crate) model: &'a dyn Ask,
    /// The tenant that owns the datasets.
    pub(crate) tenant: &'a TenantId,
    /// The request.
    pub(crate) asked: &'a Retrieval,
    /// The question as it is searched for.
    pub(crate) question: &'a str,
}

impl RetrievalSearch<'_> {
    async fn fill(&self, retrieved: &mut Retrieved) -> Result<()> {
        let (asked, notes) = (self.asked, &mut retrieved.notes);
        let datasets = ids(&retrieved.datasets);
        retrieved.filter = filters::decide(self, &datasets, notes).await?;
        let questions = words::questions(self.model, self.question, &asked.languages, notes).await?;
        let keywords = if asked.keywords {
            words::keywords(self.model, self.question, notes).await?
        } else {
            Vec::new()
        };
        let mut request = SearchRequest {
            datasets,
            questions,
            keywords,
            documents: asked.documents.clone(),
            filter: retrieved.filter.in_force(),
            similarity_min: asked.similarity_min,
            vector_weight: asked.vector_weight,
            candidates_max: asked.candidates_max.clamp(1, CANDIDATES_MAX),
            reranker: asked.reranker.clone(),
            // The same for every page of a given size, so that all pages are cut from one list.
            reranked_max: asked.limit.clamp(RERANKED_MIN, CANDIDATES_MAX),
            given: Expansion::Parents,
            offset: asked.offset,
            limit: asked.limit,
        };
        let mut found = self.found(request.clone(), notes).await?;
        // The search itself reports whether any document matches, so the documents need not be checked beforehand.
        if found.fitting == Some(0) {
            retrieved.filter = std::mem::take(&mut retrieved.filter).by_nothing(&asked.filter, notes);
            if matches!(retrieved.filter, Filtered::Relaxed(_)) {
                request.filter = None;
                found = self.found(request.clone(), notes).await?;
            }
        }
        notes.extend(found.notes);
        (retrieved.total, retrieved.documents) = (found.total, found.documents);
        retrieved.passages = self.with_texts(&request.datasets, &found.passages).await?;
        Ok(())
    }

    /// Returns a page of the results. A table of contents may raise passages from far down the list, so in
    /// that case pages are cut here, from the whole list.
    async fn found(&self, request: SearchRequest, notes: &mut Vec<String>) -> Result<Found> {
        if !self.asked.contents {
            return self.knowledge.search(self.tenant, &request).await;
        }
        let (offset, limit) = (request.offset, request.limit);
        let whole = SearchRequest { given: Expansion::Children, offset: 0, limit: usize::MAX, ..request };
        let mut found = self.knowledge.search(self.tenant, &whole).await?;
        if !found.passages.is_empty() {
            contents::question::enhance(self, limit, &mut found.passages, notes).await?;
        }
        let passages = parents::substituted(&found.passages);
        let documents = recounted(found.documents, &passages);
        let total = passages.len();
        let passages = passages.into_iter().skip(offset).take(limit).collect();
        Ok(Found { passages, total, documents, ..found })
    }

    async fn with_texts(&self, datasets: &[DatasetId], page: &[Scored]) -> Result<Vec<Passage>> {
        if page.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<ChunkId> = page.iter().map(|scored| scored.chunk.clone()).collect();
        let passages = self.knowledge.passages(self.tenant, datasets, &ids).await?;
        let mut by_id: HashMap<String, Passage> =
            passages.into_iter().map(|passage| (passage.chunk.id.clone(), passage)).collect();
        // A passage that was removed since it was found is left out.
        Ok(page
            .iter()
            .filter_map(|scored| by_id.remove(scored.chunk.as_str()).map(|p| shown(p, scored)))
            .collect())
    }
}

/// Recounts how many of these passages each document has.
fn recounted(mut documents: Vec<DocumentCount>, passages: &[Scored]) -> Vec<DocumentCount> {
    let mut counts: HashMap<&DocumentId, usize> = HashMap::new();
    passages.iter().for_each(|scored| *counts.entry(&scored.document).or_default() += 1);
    for document in &mut documents {
        document.count = counts.get(&document.id).copied().unwrap_or_default();
    }
    documents.sort_by_key(|document| std::cmp::Reverse(document.count));
    documents
}

fn shown(passage: Passage, scored: &Scored) -> Passage {
    let chunk = Chunk {
        similarity: Some(scored.similarity),
        vector_similarity: scored.vector,
        term_similarity: Some(scored.term),
        ..passage.chunk
    };
    Passage { chunk, ..passage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_prefix_is_not_part_of_the_question() {
        let check = |question: &str, expected: &str| assert_eq!(stripped(question), expected, "{question}");
        check("  user: What? ", "What?");
        check("USER:What?", "What?");
        check("users: What?", "users: What?");
        check("用户 x", "用户 x");
        check("", "");
        assert_eq!(stripped(&"é".repeat(20_000)).len(), QUESTION_MAX);
    }

    #[test]
    fn vectors_of_different_models_are_not_compared() {
        let brief = |name: &str, embedder: &str| DatasetBrief {
            id: name.into(),
            name: name.to_owned(),
            embedder: embedder.to_owned(),
            similarity_threshold: 0.2,
            vector_weight: 0.3,
        };
        assert!(one_embedder(&[]).is_ok());
        assert!(one_embedder(&[brief("a", "m"), brief("b", ""), brief("c", "m")]).is_ok());
        let error = one_embedder(&[brief("a", "m"), brief("b", ""), brief("c", "n")]).unwrap_err();
        assert!(["`a`", "`c`", "`m`", "`n`"].iter().all(|part| error.message.contains(part)), "{error:?}");
    }
}
