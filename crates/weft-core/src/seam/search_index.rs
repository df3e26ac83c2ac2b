//! Documents to search.

use async_trait::async_trait;

use crate::citation::Chunk;
use crate::error::Result;
use crate::id::TenantId;

/// What to look for.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SearchRequest {
    /// Words in any language.
    pub query: String,
    /// Names or ids of datasets; empty means all of the tenant's.
    pub datasets: Vec<String>,
    /// At most this many.
    pub count_max: usize,
    /// Drop what scores below this share of the best possible score, 0 to 1.
    pub score_min: f64,
}

/// A searchable collection of chunks.
#[async_trait]
pub trait SearchIndex: Send + Sync {
    /// The best chunks, best first, never of another tenant.
    ///
    /// # Errors
    /// `NotFound` naming a dataset that does not exist for this tenant.
    async fn search(&self, tenant: &TenantId, request: SearchRequest) -> Result<Vec<Chunk>>;

    /// Adds chunks to a dataset, which comes into being with its first chunk; a chunk whose id is
    /// there already is replaced.
    ///
    /// # Errors
    /// When the index cannot be written.
    async fn add(&self, tenant: &TenantId, dataset: &str, chunks: Vec<Chunk>) -> Result<()>;
}
