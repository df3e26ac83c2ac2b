//! Datasets as searches see them: names, metadata, and passages with their scores.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::citation::Chunk;
use crate::error::Result;
use crate::filter::{Filter, Metadata};
use crate::id::{ChunkId, DatasetId, DocumentId, TenantId};

/// Maximum number of passages that one search ranks.
pub const CANDIDATES_MAX: usize = 1_024;

/// The properties of a dataset that a search needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetBrief {
    /// Its id.
    pub id: DatasetId,
    /// Its name.
    pub name: String,
    /// The model that made its vectors. Empty: it is searched by words alone.
    pub embedder: String,
    /// Default minimum score of a passage, 0 to 1.
    pub similarity_threshold: f64,
    /// Default weight of the vector part in a score, 0 to 1.
    pub vector_weight: f64,
}

/// A key of the documents' metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataKey {
    /// The key.
    pub key: String,
    /// Number of distinct values.
    pub distinct: usize,
    /// Values with the number of documents that have them, most frequent first; incomplete if there are many.
    pub values: Vec<(String, usize)>,
}

/// What is returned when the passages found are small ones that are shown as larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expansion {
    /// The larger passages, each once, with the mean of the scores of their parts.
    #[default]
    #[serde(rename = "wholes")]
    Parents,
    /// The small passages, each with the larger one that is shown in its place.
    #[serde(rename = "parts")]
    Children,
}

impl Expansion {
    fn is_usual(&self) -> bool {
        *self == Self::Parents
    }
}

/// A search in one or more datasets, with conditions and weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// The datasets to search.
    pub datasets: Vec<DatasetId>,
    /// The question, optionally followed by translations of it. Each is searched for separately; a passage gets the
    /// best of its scores.
    pub questions: Vec<String>,
    /// Additional keywords for the full-text part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Only in these documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<DocumentId>>,
    /// Only in documents that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// Minimum score, 0 to 1.
    pub similarity_min: f64,
    /// The weight of the vector part in a score, 0 to 1; the full-text part has the rest.
    pub vector_weight: f64,
    /// Maximum number of passages that each part finds.
    pub candidates_max: usize,
    /// The model that reranks the results; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reranker: String,
    /// Maximum number of passages that this model ranks. Passages that scored lower before reranking are then left
    /// out.
    #[serde(default)]
    pub reranked_max: usize,
    /// What is returned for small passages. Pages and counts refer to what is returned.
    #[serde(default, skip_serializing_if = "Expansion::is_usual")]
    pub given: Expansion,
    /// How many to skip.
    #[serde(default)]
    pub offset: usize,
    /// Maximum number to return.
    pub limit: usize,
}

/// A passage that was found, with its scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Its id.
    pub chunk: ChunkId,
    /// Its document.
    pub document: DocumentId,
    /// Its dataset.
    pub dataset: DatasetId,
    /// The larger passage that is shown in its place; absent if the result is that passage itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ChunkId>,
    /// The overall score, 0 to 1.
    pub similarity: f64,
    /// The full-text score, 0 to 1.
    pub term: f64,
    /// The vector score, or that of the reranker, 0 to 1; absent without either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<f64>,
}

/// A document and the number of its passages that were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentCount {
    /// Its id.
    pub id: DocumentId,
    /// Its name.
    pub name: String,
    /// Number of its passages with a sufficient score.
    pub count: usize,
}

/// Tokens that a model read for a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensRead {
    /// The model, by its name in the settings.
    pub model: String,
    /// Number of tokens, as reported by its provider.
    pub tokens: u64,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The requested passages, best first; ties are ordered by id.
    pub passages: Vec<Scored>,
    /// The total number of passages. Paging reaches exactly this many, each on one page.
    pub total: usize,
    /// The documents of all passages, those with most passages first.
    pub documents: Vec<DocumentCount>,
    /// Number of documents that match the metadata conditions and are among the selected ones; absent if there are no
    /// conditions or they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitting: Option<u64>,
    /// Notices about the search, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What embedding and reranking models read for it, if their providers report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<TokensRead>,
}

/// A passage with everything that is displayed. Its scores are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The passage as it is cited.
    #[serde(flatten)]
    pub chunk: Chunk,
    /// The larger passage that is shown in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ChunkId>,
    /// Metadata of its document.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: Metadata,
    /// Keywords to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Questions that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// Number of tokens in its content; 0 if unknown.
    #[serde(default)]
    pub tokens: u32,
}

/// An entry of a table of contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentsEntry {
    /// Its level, counted from 1 for the outermost.
    pub level: u8,
    /// Its text.
    pub title: String,
    /// The passages from this entry up to the next one.
    pub chunks: Vec<ChunkId>,
}

/// Which documents to consider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// Those of these datasets.
    pub datasets: Vec<DatasetId>,
    /// Only those with these ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<DocumentId>>,
    /// Only those that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
}

/// A kind of entity in a graph, with examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntityKind {
    /// Its name, such as `person`.
    pub kind: String,
    /// Names of important entities of this kind.
    pub samples: Vec<String>,
}

/// A query to a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphRequest {
    /// The documents whose graphs are queried.
    #[serde(flatten)]
    pub scope: Scope,
    /// The question.
    pub question: String,
    /// Names of entities that the question is about.
    pub entities: Vec<String>,
    /// The kinds of entities that can answer it.
    pub kinds: Vec<String>,
}

/// An entity mentioned in documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphEntity {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// What the documents say about it.
    pub description: String,
    /// How relevant it is to the question, weighted by its importance.
    pub score: f64,
}

/// A relation between two entities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphRelation {
    /// The source entity.
    pub source: String,
    /// The target entity.
    pub target: String,
    /// What the documents say about it.
    pub description: String,
    /// How relevant it is to the question, weighted by its importance.
    pub score: f64,
}

/// The part of a graph that is relevant to a question, most important first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphFound {
    /// Entities.
    pub entities: Vec<GraphEntity>,
    /// Relations.
    pub relations: Vec<GraphRelation>,
    /// The report on the community that the entities belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<GraphReport>,
    /// Notices about the graph, such as that it is incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A report on a community of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphReport {
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// Searches datasets.
///
/// An implementation returns nothing of another tenant; what belongs to one is unknown to all others. Scores are
/// comparable across queries and datasets. The same question to the same documents yields the same order, so that
/// pages neither repeat nor omit passages.
#[async_trait]
pub trait Knowledge: Send + Sync {
    /// Returns the datasets with these names or ids, each once and in the given order; all of the tenant's if there
    /// are none. Names are matched before ids, ignoring case.
    ///
    /// # Errors
    /// `NotFound` naming the missing one, with a hint where those that exist are listed.
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>>;

    /// Returns the datasets with these ids, each once and in the given order. Names are not matched.
    ///
    /// # Errors
    /// `NotFound` naming the missing one.
    async fn datasets_of(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<DatasetBrief>> {
        chosen_by_id(&self.datasets(tenant, &[]).await?, ids)
    }

    /// Returns the datasets that any of these texts may refer to, by name or by id: the input that [`chosen`] needs.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn candidates(&self, tenant: &TenantId, _names: &[String]) -> Result<Vec<DatasetBrief>> {
        self.datasets(tenant, &[]).await
    }

    /// Returns the keys of the documents' metadata, with up to `values_max` values each.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn metadata(
        &self,
        _tenant: &TenantId,
        _datasets: &[DatasetId],
        _values_max: usize,
    ) -> Result<Vec<MetadataKey>> {
        Ok(Vec::new())
    }

    /// Returns the best of the passages that can be shown.
    ///
    /// # Errors
    /// `Invalid` when the datasets have vectors of different models; otherwise when the search fails.
    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found>;

    /// Returns passages of these datasets by id, in the order of the ids; missing ones are left out.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn passages(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        ids: &[ChunkId],
    ) -> Result<Vec<Passage>>;

    /// Returns the table of contents of a document; empty if it has none.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn contents(
        &self,
        _tenant: &TenantId,
        _dataset: &DatasetId,
        _document: &DocumentId,
    ) -> Result<Vec<ContentsEntry>> {
        Ok(Vec::new())
    }

    /// Returns the kinds of entities in the graphs of documents; none if they have no graph.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn graph_kinds(&self, _tenant: &TenantId, _scope: &Scope) -> Result<Vec<EntityKind>> {
        Ok(Vec::new())
    }

    /// Returns what graphs contain about a question.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn graph(&self, _tenant: &TenantId, _request: &GraphRequest) -> Result<GraphFound> {
        Ok(GraphFound::default())
    }
}

/// Knowledge without any datasets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKnowledge;

#[async_trait]
impl Knowledge for NoKnowledge {
    async fn datasets(&self, _: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        chosen(Vec::new(), names)
    }

    async fn search(&self, _: &TenantId, _: &SearchRequest) -> Result<Found> {
        Ok(Found::default())
    }

    async fn passages(&self, _: &TenantId, _: &[DatasetId], _: &[ChunkId]) -> Result<Vec<Passage>> {
        Ok(Vec::new())
    }
}

/// Selects from the existing datasets, as specified for [`Knowledge::datasets`].
///
/// # Errors
/// `NotFound` naming the missing one, with a hint where those that exist are listed.
pub fn chosen(known: Vec<DatasetBrief>, names: &[String]) -> Result<Vec<DatasetBrief>> {
    if names.is_empty() {
        return Ok(known);
    }
    let mut chosen: Vec<DatasetBrief> = Vec::new();
    for name in names {
        let folded = name.trim().to_lowercase();
        let named = |brief: &&DatasetBrief| brief.name.trim().to_lowercase() == folded;
        let found = known
            .iter()
            // An exact match takes precedence over one that differs in case or spacing.
            .find(|brief| brief.name == *name)
            .or_else(|| known.iter().find(named))
            .or_else(|| known.iter().find(|brief| brief.id.as_str() == name.trim()))
            .ok_or_else(|| unknown(name))?;
        if chosen.iter().all(|brief| brief.id != found.id) {
            chosen.push(found.clone());
        }
    }
    Ok(chosen)
}

/// Selects from the existing datasets, as specified for [`Knowledge::datasets_of`].
///
/// # Errors
/// `NotFound` naming the missing one.
pub fn chosen_by_id(known: &[DatasetBrief], ids: &[DatasetId]) -> Result<Vec<DatasetBrief>> {
    let mut chosen: Vec<DatasetBrief> = Vec::new();
    for id in ids {
        let found = known.iter().find(|brief| brief.id == *id);
        let found = found.ok_or_else(|| {
            crate::error::Error::not_found(format!("there is no dataset with the id `{id}`"))
        })?;
        if chosen.iter().all(|brief| brief.id != found.id) {
            chosen.push(found.clone());
        }
    }
    Ok(chosen)
}

/// The error is shown to chat users, so it does not reveal which datasets exist.
fn unknown(name: &str) -> crate::error::Error {
    crate::error::Error::not_found(format!("there is no dataset `{name}`"))
        .help("choose one of those that `weft dataset list` or `GET /api/v1/datasets` shows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datasets_are_chosen_by_name_before_id_and_once() {
        let brief = |id: &str, name: &str| DatasetBrief {
            id: id.into(),
            name: name.to_owned(),
            embedder: String::new(),
            similarity_threshold: 0.2,
            vector_weight: 0.5,
        };
        let known = || vec![brief("1", "Laws"), brief("2", "1"), brief("3", "Books")];
        let check = |names: &[&str], expected: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let ids: Vec<String> =
                chosen(known(), &names).unwrap().iter().map(|brief| brief.id.to_string()).collect();
            assert_eq!(ids, expected, "{names:?}");
        };
        check(&[], &["1", "2", "3"]);
        check(&["books", "Laws", "3"], &["3", "1"]);
        check(&["1"], &["2"]);
        // An id given as an id is no name.
        let by_id = chosen_by_id(&known(), &["1".into(), "1".into()]).unwrap();
        assert_eq!(by_id, [brief("1", "Laws")]);
        let error = chosen_by_id(&known(), &["Laws".into()]).unwrap_err();
        assert_eq!(error.kind, crate::error::ErrorKind::NotFound);
        let error = chosen(known(), &["Maps".to_owned()]).unwrap_err();
        assert_eq!(error.kind, crate::error::ErrorKind::NotFound);
        // A chat user does not see names of others.
        assert!(error.full().contains("`Maps`") && !error.full().contains("Laws"), "{}", error.full());
    }
}
