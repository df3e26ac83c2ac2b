//! Documents of datasets: their metadata, and their chunks as they are shown.

use std::collections::{BTreeMap, HashMap, HashSet};

use weft_core::citation::Chunk;
use weft_core::filter::Metadata;
use weft_core::id::{ChunkId, DatasetId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{DatasetStore, DocumentHead, Extra, Heads, StoredChunk};
use weft_core::seam::document_reader::PieceKind;
use weft_core::seam::knowledge::{ContentsEntry, MetadataKey, Passage};
use weft_core::value::to_text;
use weft_core::{ErrorKind, Json, Result};

use crate::{contents, pictures};

/// Number of rows read at a time.
const ROWS_AT_ONCE: u64 = 500;
/// Maximum number of documents whose metadata is read.
// They are read for each question for which a model chooses a filter.
const DOCUMENTS_MAX: u64 = 10_000;
/// Maximum number of keys that are counted.
const KEYS_MAX: usize = 200;
/// Maximum number of different values of a key that are counted.
const VALUES_MAX: usize = 10_000;

/// Returns the keys of the documents' metadata with their most frequent values.
pub(super) async fn metadata(
    store: &dyn DatasetStore,
    tenant: &TenantId,
    datasets: &[DatasetId],
    values_max: usize,
) -> Result<Vec<MetadataKey>> {
    let mut counts: BTreeMap<String, HashMap<String, usize>> = BTreeMap::new();
    for dataset in datasets {
        let key = DatasetKey::new(tenant, dataset.clone());
        let (mut after, mut seen) = (None, 0);
        while seen < DOCUMENTS_MAX {
            let heads = store.document_heads(&key, &Heads::Page(after, ROWS_AT_ONCE)).await?;
            let Some(last) = heads.last() else { break };
            (after, seen) = (Some(last.id.clone()), seen + ROWS_AT_ONCE);
            heads.iter().for_each(|head| count(&mut counts, &head.metadata));
        }
    }
    let key = |(key, values): (String, HashMap<String, usize>)| {
        let distinct = values.len();
        let mut values: Vec<(String, usize)> = values.into_iter().collect();
        values.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        values.truncate(values_max);
        MetadataKey { key, distinct, values }
    };
    Ok(counts.into_iter().map(key).collect())
}

fn count(counts: &mut BTreeMap<String, HashMap<String, usize>>, metadata: &Metadata) {
    for (key, value) in metadata {
        if counts.len() >= KEYS_MAX && !counts.contains_key(key) {
            continue;
        }
        let known = counts.entry(key.clone()).or_default();
        let values = match value {
            Json::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        // A document counts once per value, however often it contains that value.
        let values: HashSet<String> = values.iter().map(to_text).filter(|v| !v.trim().is_empty()).collect();
        for value in values {
            // Values already counted are still counted; only new ones are left out when there are many.
            if known.len() < VALUES_MAX || known.contains_key(&value) {
                *known.entry(value).or_default() += 1;
            }
        }
    }
}

/// Returns the table of contents of a document, restricted to what may be shown: chunks can be hidden or
/// removed after it was built. It names no larger chunks. A document that has been deleted since it was found
/// has none.
pub(super) async fn contents(store: &dyn DatasetStore, document: &DocumentKey) -> Result<Vec<ContentsEntry>> {
    let mut entries = match store.extra(document, Extra::Contents).await {
        Ok(kept) => kept.map(contents::from_json).unwrap_or_default(),
        Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let named: HashSet<&ChunkId> = entries.iter().flat_map(|entry| &entry.chunks).collect();
    let named: Vec<ChunkId> = named.into_iter().cloned().collect();
    let heads = store.chunk_heads(&document.dataset.tenant, &named).await?;
    let shown: HashSet<ChunkId> =
        heads.into_iter().filter(|head| head.available).map(|head| head.id).collect();
    for entry in &mut entries {
        entry.chunks.retain(|chunk| shown.contains(chunk));
    }
    Ok(entries)
}

/// Returns passages of these datasets, in the order of the ids.
pub(super) async fn passages(
    store: &dyn DatasetStore,
    tenant: &TenantId,
    datasets: &[DatasetId],
    ids: &[ChunkId],
) -> Result<Vec<Passage>> {
    let mut chunks = store.chunks_by_id(tenant, ids).await?;
    // Chunks are looked up within the tenant, so those of other datasets may be among them.
    chunks.retain(|chunk| datasets.contains(&chunk.document.dataset.id));
    let mut wanted: HashMap<DatasetKey, Vec<DocumentId>> = HashMap::new();
    for chunk in &chunks {
        let ids = wanted.entry(chunk.document.dataset.clone()).or_default();
        if !ids.contains(&chunk.document.id) {
            ids.push(chunk.document.id.clone());
        }
    }
    let mut documents: HashMap<DocumentId, DocumentHead> = HashMap::new();
    for (dataset, ids) in wanted {
        for head in store.document_heads(&dataset, &Heads::Of(ids)).await? {
            documents.insert(head.id.clone(), head);
        }
    }
    let shown =
        |chunk: StoredChunk| documents.get(&chunk.document.id).map(|document| passage(chunk, document));
    Ok(chunks.into_iter().filter_map(shown).collect())
}

fn passage(chunk: StoredChunk, document: &DocumentHead) -> Passage {
    let doc_type = match chunk.kind {
        PieceKind::Text => None,
        PieceKind::Table => Some("table".to_owned()),
        PieceKind::Image => Some("image".to_owned()),
    };
    let image_id = pictures::image_id_of(&chunk, &document.name);
    Passage {
        chunk: Chunk {
            id: chunk.id.as_str().to_owned(),
            content: chunk.content,
            document_id: document.id.as_str().to_owned(),
            document_name: document.name.clone(),
            dataset_id: chunk.document.dataset.id.as_str().to_owned(),
            positions: chunk.positions.into_iter().map(|position| position.as_json()).collect(),
            url: address(&document.metadata),
            image_id,
            doc_type,
            ..Chunk::default()
        },
        parent: chunk.parent,
        metadata: document.metadata.clone(),
        keywords: chunk.keywords,
        questions: chunk.questions,
        tokens: chunk.tokens,
    }
}

/// Returns the address of a document, if its metadata has one.
fn address(metadata: &Metadata) -> Option<String> {
    let url = metadata.get("url").or_else(|| metadata.get("URL"))?.as_str()?.trim();
    (url.starts_with("http://") || url.starts_with("https://")).then(|| url.to_owned())
}
