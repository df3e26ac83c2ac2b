//! Metadata of documents that is included with the sources of an answer.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;
use weft_core::filter::Metadata;
use weft_core::seam::DatasetStore;
use weft_core::{DatasetKey, DocumentKey, ErrorKind, Result, TenantId};

use crate::wire::retrieval::chosen;

/// Selects the metadata of a tenant's documents.
#[derive(Clone)]
pub struct SourceMetadata {
    /// The store of the documents.
    pub datasets: Arc<dyn DatasetStore>,
    /// The tenant that owns them.
    pub tenant: TenantId,
    /// Only these keys; empty for all.
    pub fields: Vec<String>,
}

impl fmt::Debug for SourceMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceMetadata").field("fields", &self.fields).finish_non_exhaustive()
    }
}

impl SourceMetadata {
    /// Adds the metadata of its document to each source; each document is read once.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn put(&self, sources: &mut [Json]) -> Result<()> {
        let mut known: HashMap<DocumentKey, Json> = HashMap::new();
        for source in sources {
            let text = |key: &str| source[key].as_str().unwrap_or_default().to_owned();
            let dataset = DatasetKey::new(&self.tenant, text("dataset_id"));
            let key = DocumentKey::new(&dataset, text("document_id"));
            if !known.contains_key(&key) {
                let metadata = match self.datasets.document(&key).await {
                    Ok(document) => chosen(&document.metadata, &self.fields),
                    // It has been removed since, or belongs to no dataset: web pages are sources, too.
                    Err(error) if error.kind == ErrorKind::NotFound => Metadata::new(),
                    Err(error) => return Err(error),
                };
                known.insert(key.clone(), Json::Object(metadata));
            }
            source["document_metadata"] = known.get(&key).cloned().unwrap_or_default();
        }
        Ok(())
    }
}
