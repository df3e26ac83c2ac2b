//! What a search uses.

use weft_core::TenantId;
use weft_core::seam::dataset_store::DatasetStore;
use weft_core::seam::{Index, ModelDirectory};

/// What a search uses.
#[derive(Clone, Copy)]
pub(super) struct SearchSources<'a> {
    /// Stores chunks.
    pub store: &'a dyn DatasetStore,
    /// Finds chunks.
    pub index: &'a dyn Index,
    /// Provides embedding and reranking models.
    pub models: &'a dyn ModelDirectory,
    /// The tenant.
    pub tenant: &'a TenantId,
}
