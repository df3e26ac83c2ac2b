//! Datasets whose index was lost: nothing in them can be found, which must not look as if nothing matched.

use std::collections::HashSet;

use weft_core::Result;
use weft_core::id::DatasetId;
use weft_core::seam::dataset_store::{ChunkFilter, Dataset, DocumentFilter, DocumentState};
use weft_core::seam::index::IndexAnswer;

use super::sources::SearchSources;

/// Maximum number of datasets that one search looks at.
const DATASETS_MAX: usize = 32;
/// Maximum number of documents of a dataset that are looked at.
const DOCUMENTS_MAX: u64 = 20;

/// Notes the datasets in which nothing was found and whose index is empty although it should contain chunks.
pub(super) async fn note(
    parts: SearchSources<'_>,
    datasets: &[Dataset],
    answers: &[IndexAnswer],
    notes: &mut Vec<String>,
) -> Result<()> {
    let found: HashSet<&DatasetId> =
        answers.iter().flat_map(|answer| &answer.hits).map(|hit| &hit.dataset).collect();
    let without = datasets.iter().filter(|dataset| !found.contains(&dataset.key.id));
    let without: Vec<&Dataset> = without.take(DATASETS_MAX).collect();
    for dataset in without {
        if parts.index.size(&dataset.index()).await?.chunks == 0 && has_chunks(parts, dataset).await? {
            notes.push(format!(
                "the index of the dataset `{}` is empty although its documents have chunks: they cannot be found \
                 until it has been rebuilt, which `weft serve` and `weft worker` do by themselves",
                dataset.name
            ));
        }
    }
    Ok(())
}

/// Whether one of the first documents that have been processed has a chunk that can be found.
async fn has_chunks(parts: SearchSources<'_>, dataset: &Dataset) -> Result<bool> {
    let states = vec![DocumentState::Done];
    let filter = DocumentFilter { states, limit: DOCUMENTS_MAX, ..DocumentFilter::default() };
    let (documents, _) = parts.store.documents(&dataset.key, &filter).await?;
    let filter = ChunkFilter { available: Some(true), limit: 1, ..ChunkFilter::default() };
    for document in &documents {
        if !parts.store.chunks(&document.key, &filter).await?.0.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
