//! What documents say of things and how these have to do with each other: found by a model document by
//! document, put together for a dataset, asked beside a search.

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
use weft_core::{Error, Json, Result};

/// Characters of a name.
pub(crate) const NAME_MAX: usize = 200;
/// Characters of a description.
pub(crate) const DESCRIPTION_MAX: usize = 2_000;
/// The kinds of entities that a model is asked for when nobody says otherwise.
pub const KINDS: [&str; 5] = ["organization", "person", "geo", "event", "category"];

/// Something that is spoken of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// Its name.
    pub name: String,
    /// What it is, such as `person`.
    pub kind: String,
    /// What is said of it.
    #[serde(default)]
    pub description: String,
    /// The documents that speak of it, as far as they are listed.
    #[serde(skip)]
    pub sources: BTreeSet<DocumentId>,
}

/// How two things have to do with each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// From here.
    pub source: String,
    /// To there.
    pub target: String,
    /// What is said of it.
    #[serde(default)]
    pub description: String,
    /// How much there is to it, from 0 on.
    pub weight: f64,
    /// The documents that say so, as far as they are listed.
    #[serde(skip)]
    pub sources: BTreeSet<DocumentId>,
}

/// What one document says, as it is kept with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgraph {
    /// Entities.
    pub entities: Vec<Entity>,
    /// Relations between them.
    pub relations: Vec<Relation>,
    /// Names that mean the same thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Vec<String>>,
    /// Names that were compared and do not mean the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub different: Vec<Vec<String>>,
    /// Reports on things that have much to do with each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<CommunityReport>,
    /// Which document says all of it.
    #[serde(skip)]
    pub document: Option<DocumentId>,
}

impl Subgraph {
    /// What was kept of a document. What cannot be read is no graph; reading the document again makes it anew.
    pub fn of(document: DocumentId, kept: Json) -> Option<Self> {
        let graph: Self = serde_json::from_value(kept).ok()?;
        Some(Self { document: Some(document), ..graph })
    }
}

/// A report on a community of entities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunityReport {
    /// What it is called.
    pub title: String,
    /// What it says.
    pub text: String,
    /// The names of its entities.
    pub entities: Vec<String>,
}

/// Work that takes a while, apart from everything that waits: whoever has a document has to say so every few seconds.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("the work on a graph ended early").because(cause))
}

/// A name whatever its case and its blanks.
pub(crate) fn folded(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

pub(crate) fn cut(text: &str, characters_max: usize) -> String {
    text.trim().chars().take(characters_max).collect()
}
