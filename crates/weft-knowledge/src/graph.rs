//! Knowledge graphs: entities and their relations, extracted by a model document by document, merged for a
//! dataset, and consulted alongside a search.

mod communities;
pub mod extract;
pub mod find;
pub mod gather;
pub mod merge;
mod names;
mod pagerank;
pub mod question;
pub mod refine;
pub mod resolve;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weft_core::id::DocumentId;
use weft_core::{Json, Result, blocking};

/// Maximum number of characters of a name.
pub(crate) const NAME_MAX: usize = 200;
/// Maximum number of characters of a description.
pub(crate) const DESCRIPTION_MAX: usize = 2_000;
/// The kinds of entities that a model is asked for by default.
pub const KINDS: [&str; 5] = ["organization", "person", "geo", "event", "category"];

/// An entity that documents speak of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// Its name.
    pub name: String,
    /// Its kind, such as `person`.
    pub kind: String,
    /// What is said about it.
    #[serde(default)]
    pub description: String,
    /// The documents that mention it, as far as they are listed.
    #[serde(skip)]
    pub sources: BTreeSet<DocumentId>,
}

/// A relation between two entities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// The name of the entity that it starts from.
    pub source: String,
    /// The name of the entity that it leads to.
    pub target: String,
    /// What is said about it.
    #[serde(default)]
    pub description: String,
    /// Its strength, at least 0.
    pub weight: f64,
    /// The documents that state it, as far as they are listed.
    #[serde(skip)]
    pub sources: BTreeSet<DocumentId>,
}

/// The graph of one document, as stored with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgraph {
    /// Entities.
    pub entities: Vec<Entity>,
    /// Relations between them.
    pub relations: Vec<Relation>,
    /// Groups of names for the same entity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Vec<String>>,
    /// Groups of names that were compared and do not mean the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub different: Vec<Vec<String>>,
    /// Reports on communities of related entities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<CommunityReport>,
    /// The document that it was extracted from.
    #[serde(skip)]
    pub document: Option<DocumentId>,
}

impl Subgraph {
    /// Reads the stored graph of a document. Returns `None` if it cannot be read; processing the document
    /// again rebuilds it.
    pub fn of(document: DocumentId, kept: Json) -> Option<Self> {
        let graph: Self = serde_json::from_value(kept).ok()?;
        Some(Self { document: Some(document), ..graph })
    }
}

/// A report on a community of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunityReport {
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
    /// The names of its entities.
    pub entities: Vec<String>,
}

/// Runs long work on a separate thread, so that it does not block asynchronous tasks: a worker has to renew
/// its claim on a document every few seconds.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    blocking("work on a graph", move || Ok(work())).await
}

/// Folds a name: case and whitespace are ignored.
pub(crate) fn folded(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

pub(crate) fn cut(text: &str, characters_max: usize) -> String {
    text.trim().chars().take(characters_max).collect()
}
