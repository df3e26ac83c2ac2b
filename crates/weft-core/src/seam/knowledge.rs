//! Datasets, as those who ask them see them: names, metadata, passages with their scores.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::citation::Chunk;
use crate::error::Result;
use crate::filter::{Filter, Metadata};
use crate::id::{ChunkId, DatasetId, DocumentId, TenantId};

/// Passages that one search ranks, at most.
pub const CANDIDATES_MAX: usize = 1_024;

/// A dataset, as far as a search has to know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetBrief {
    /// Which one.
    pub id: DatasetId,
    /// Its name.
    pub name: String,
    /// The model that made its vectors; empty: it is searched by words alone.
    pub embedder: String,
    /// What a passage has to score at least, 0 to 1, where nobody says anything else.
    pub similarity_threshold: f64,
    /// The share of the vectors in a score, 0 to 1, where nobody says anything else.
    pub vector_weight: f64,
}

/// A key of the documents' metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataKey {
    /// The key.
    pub key: String,
    /// How many different values there are.
    pub distinct: usize,
    /// Values with the number of documents that have them, the most frequent first; not all of them when
    /// there are many.
    pub values: Vec<(String, usize)>,
}

/// What is given where small passages were found that are shown as larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expansion {
    /// The larger ones, each once, with the means of the scores of their parts.
    #[default]
    #[serde(rename = "wholes")]
    Parents,
    /// What was found, each with what is shown in its place.
    #[serde(rename = "parts")]
    Children,
}

impl Expansion {
    fn is_usual(&self) -> bool {
        *self == Self::Parents
    }
}

/// What to look for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// In these datasets.
    pub datasets: Vec<DatasetId>,
    /// The question, and behind it the same in other languages. Each is looked for by itself; a passage
    /// has the best score that one of them gives it.
    pub questions: Vec<String>,
    /// Further words for the part that looks for words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Only in these documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<DocumentId>>,
    /// Only in documents that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// The smallest score that counts, 0 to 1.
    pub similarity_min: f64,
    /// The share of the vectors in a score, 0 to 1; words have the rest.
    pub vector_weight: f64,
    /// How many passages each part finds, at most.
    pub candidates_max: usize,
    /// The model that ranks what was found; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reranker: String,
    /// How many passages that model ranks, at most; what the words and vectors like less is left out then.
    #[serde(default)]
    pub reranked_max: usize,
    /// What is given of small passages; pages and counts are those of what is given.
    #[serde(default, skip_serializing_if = "Expansion::is_usual")]
    pub given: Expansion,
    /// How many to pass over.
    #[serde(default)]
    pub offset: usize,
    /// How many to give, at most.
    pub limit: usize,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Which one.
    pub chunk: ChunkId,
    /// Its document.
    pub document: DocumentId,
    /// Its dataset.
    pub dataset: DatasetId,
    /// The larger passage that is shown in its place; absent where that one is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ChunkId>,
    /// The score that counts, 0 to 1.
    pub similarity: f64,
    /// The share of words in it, 0 to 1.
    pub term: f64,
    /// The share of vectors in it, or of the model that ranked it, 0 to 1; absent without either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<f64>,
}

/// A document, and how many of its passages were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentCount {
    /// Which one.
    pub id: DocumentId,
    /// Its name.
    pub name: String,
    /// How many passages that score high enough.
    pub count: usize,
}

/// What a model was asked to read for a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensRead {
    /// The model, by its name in the settings.
    pub model: String,
    /// How many tokens, as its provider tells.
    pub tokens: u64,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The passages asked for, best first; equal ones in the order of their ids.
    pub passages: Vec<Scored>,
    /// How many there are in all: to as many lead further pages, each passage on one of them.
    pub total: usize,
    /// The documents of all of them, most passages first.
    pub documents: Vec<DocumentCount>,
    /// How many documents pass the conditions on metadata and are among the chosen ones; absent when there
    /// are no conditions, or nobody has counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitting: Option<u64>,
    /// What people should know about the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What models that make vectors or rank have read for it, where their providers tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<TokensRead>,
}

/// A passage with everything that is shown of it. Its scores are absent.
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
    /// Words that it is to be found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Questions that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// How many tokens its content has; 0 when nobody has counted them.
    #[serde(default)]
    pub tokens: u32,
}

/// An entry of a table of contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentsEntry {
    /// From 1, the outermost, on.
    pub level: u8,
    /// Its text.
    pub title: String,
    /// The passages from here to the next entry.
    pub chunks: Vec<ChunkId>,
}

/// Which documents are looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// Those of these datasets.
    pub datasets: Vec<DatasetId>,
    /// Only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<DocumentId>>,
    /// Only those that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
}

/// A kind of entities in a graph, with some of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntityKind {
    /// Such as `person`.
    pub kind: String,
    /// Names of important ones.
    pub samples: Vec<String>,
}

/// What to look for in a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphRequest {
    /// In the graphs of these documents.
    #[serde(flatten)]
    pub scope: Scope,
    /// The question.
    pub question: String,
    /// Names of things that it is about.
    pub entities: Vec<String>,
    /// The kinds of things that answer it.
    pub kinds: Vec<String>,
}

/// Something that documents speak of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphEntity {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: String,
    /// What is said of it.
    pub description: String,
    /// How well it fits the question, weighed by its importance.
    pub score: f64,
}

/// How two entities have to do with each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphRelation {
    /// From here.
    pub source: String,
    /// To there.
    pub target: String,
    /// What is said of it.
    pub description: String,
    /// How well it fits the question, weighed by its importance.
    pub score: f64,
}

/// The part of a graph that has to do with a question, the most important first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphFound {
    /// Entities.
    pub entities: Vec<GraphEntity>,
    /// Relations.
    pub relations: Vec<GraphRelation>,
    /// What is reported on the community that the entities belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<GraphReport>,
    /// What to tell of the graph, such as that it is not whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A report on a community of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphReport {
    /// What it is called.
    pub title: String,
    /// What it says.
    pub text: String,
}

/// Datasets to ask.
///
/// An implementation gives nothing of another tenant: what belongs to one is unknown to all others. A
/// score has one meaning, whatever was asked and whichever dataset a passage is in, and the same question
/// to the same documents gives the same order, so that pages neither repeat nor leave out.
#[async_trait]
pub trait Knowledge: Send + Sync {
    /// The datasets with these names or ids, each once and in their order; all of the tenant's when
    /// there are none. A name counts before an id, whatever its case.
    ///
    /// # Errors
    /// `NotFound` naming the one that is not there, and those that are.
    async fn datasets(&self, tenant: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>>;

    /// The datasets with these ids, each once and in their order; a name counts for nothing here.
    ///
    /// # Errors
    /// `NotFound` naming the one that is not there.
    async fn datasets_of(&self, tenant: &TenantId, ids: &[DatasetId]) -> Result<Vec<DatasetBrief>> {
        chosen_by_id(&self.datasets(tenant, &[]).await?, ids)
    }

    /// The datasets that one of these texts may mean, by name or by id: those that [`chosen`] has to know.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn candidates(&self, tenant: &TenantId, _names: &[String]) -> Result<Vec<DatasetBrief>> {
        self.datasets(tenant, &[]).await
    }

    /// The keys of the documents' metadata, with up to `values_max` values each.
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

    /// The best passages, of those that can be shown.
    ///
    /// # Errors
    /// `Invalid` when the datasets have vectors of different models; otherwise when the search fails.
    async fn search(&self, tenant: &TenantId, request: &SearchRequest) -> Result<Found>;

    /// Passages of these datasets by id, in the order of the ids; those that are not there are left out.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn passages(
        &self,
        tenant: &TenantId,
        datasets: &[DatasetId],
        ids: &[ChunkId],
    ) -> Result<Vec<Passage>>;

    /// The table of contents of a document; empty when it has none.
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

    /// The kinds of entities in the graphs of documents; none when they have no graph.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn graph_kinds(&self, _tenant: &TenantId, _scope: &Scope) -> Result<Vec<EntityKind>> {
        Ok(Vec::new())
    }

    /// What graphs say about a question.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn graph(&self, _tenant: &TenantId, _request: &GraphRequest) -> Result<GraphFound> {
        Ok(GraphFound::default())
    }
}

/// Where nothing can be searched.
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

/// Chooses from those that there are, as [`Knowledge::datasets`] promises.
///
/// # Errors
/// `NotFound` naming the one that is not there, and those that are.
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
            // The exact name first: it is never passed over for one that is written nearly the same.
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

/// Chooses from those that there are, as [`Knowledge::datasets_of`] promises.
///
/// # Errors
/// `NotFound` naming the one that is not there.
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

/// The error reaches whoever chats, so it does not say which datasets there are.
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
        // An id that is asked for as an id is no name.
        let by_id = chosen_by_id(&known(), &["1".into(), "1".into()]).unwrap();
        assert_eq!(by_id, [brief("1", "Laws")]);
        let error = chosen_by_id(&known(), &["Laws".into()]).unwrap_err();
        assert_eq!(error.kind, crate::error::ErrorKind::NotFound);
        let error = chosen(known(), &["Maps".to_owned()]).unwrap_err();
        assert_eq!(error.kind, crate::error::ErrorKind::NotFound);
        // Whoever chats is told no names of others.
        assert!(error.full().contains("`Maps`") && !error.full().contains("Laws"), "{}", error.full());
    }
}
