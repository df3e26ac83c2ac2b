//! What is built from all documents of a dataset jointly. The summaries over them are the chunks of a
//! separate document, so that an answer that uses one names that document as its source, and removing it
//! removes them all; the synonyms found across the documents' graphs are stored with that document, too.

use std::collections::{BTreeSet, HashMap};

use weft_core::Json;
use weft_core::id::{DatasetKey, DocumentId};
use weft_core::seam::dataset_store::{Document, Settings, StoredChunk};

use super::{Raptor, SummaryScope};

/// The name of that document.
pub const NAME: &str = "All documents together.md";
/// The content of its file.
pub const FILE: &str = "# All documents together\n\nThe chunks of this document are summaries over all documents of the dataset \
that ask for them (`raptor.scope` is `dataset`). They are made anew when these documents change.\n";
/// The field with the ids of the documents that a summary covers.
pub const DOCUMENTS: &str = "raptor_documents";
/// Maximum number of chunks of a dataset that are summarized: those of the documents that were added first.
pub const CHUNKS_MAX: usize = 100_000;
/// Maximum number of documents that a summary lists. A summary of more lists none.
const DOCUMENTS_LISTED_MAX: usize = 200;
/// Maximum number of documents that a summary names.
const NAMED_MAX: usize = 5;
/// Prefix of the line with these names.
const NAMED: &str = "Sums up: ";

/// Returns the id of the document with the summaries of a dataset: there is at most one, whichever process
/// creates it.
pub fn document_id(dataset: &DatasetKey) -> DocumentId {
    let mut hasher = blake3::Hasher::new();
    for part in ["summaries", dataset.tenant.as_str(), dataset.id.as_str()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    DocumentId::new(weft_core::hex(&hasher.finalize().as_bytes()[..16]))
}

/// Whether this is the document with the summaries of its dataset.
pub fn is_of_dataset(document: &Document) -> bool {
    document.key.id == document_id(&document.key.dataset)
}

/// Whether the settings of a dataset ask for anything that is built from all its documents jointly.
pub fn is_wanted(settings: &Settings) -> bool {
    SummaryScope::of(settings) == SummaryScope::Dataset || has_resolution(settings)
}

/// Whether names that mean the same are to be found across graphs.
pub fn has_resolution(settings: &Settings) -> bool {
    settings.get("graphrag").and_then(|graph| graph.get("resolution")).and_then(Json::as_bool) == Some(true)
}

/// Whether a document contributes to anything that is built from all documents jointly.
pub fn takes_part(document: &Document) -> bool {
    document.enabled && document.chunk_count > 0 && !is_of_dataset(document)
}

/// Whether its chunks are summarized jointly with those of other documents.
pub fn is_summed_up(document: &Document) -> bool {
    takes_part(document) && Raptor::of(document).is_some_and(|raptor| raptor.scope == SummaryScope::Dataset)
}

/// Whether the names in its graph are compared with those of other documents.
pub fn is_resolved(document: &Document) -> bool {
    let graph = document.settings.get("graphrag").and_then(|graph| graph.get("use_graphrag"));
    takes_part(document) && graph.and_then(Json::as_bool) == Some(true) && has_resolution(&document.settings)
}

/// Returns the text of a chunk; for a summary over documents, without the line that names these.
pub fn summary_text(chunk: &StoredChunk) -> &str {
    if !chunk.fields.contains_key(DOCUMENTS) {
        return &chunk.content;
    }
    chunk.content.split_once("\n\n").map_or(&chunk.content, |(_, text)| text)
}

/// Returns the documents that some chunks come from; `None` if there are too many to be listed.
pub fn documents_of<'a>(chunks: impl Iterator<Item = &'a StoredChunk>) -> Option<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for chunk in chunks {
        match chunk.fields.get(DOCUMENTS) {
            None => drop(ids.insert(chunk.document.id.as_str().to_owned())),
            // A summary that lists none covers too many documents to be listed here, too.
            Some(listed) => ids.extend(listed.as_array()?.iter().filter_map(Json::as_str).map(str::to_owned)),
        }
        if ids.len() > DOCUMENTS_LISTED_MAX {
            return None;
        }
    }
    Some(ids)
}

/// Adds the documents that a summary covers to its fields.
pub fn note_documents(fields: &mut Settings, documents: Option<&BTreeSet<String>>) {
    let listed = documents.map_or(Json::Null, |ids| ids.iter().cloned().map(Json::from).collect());
    fields.insert(DOCUMENTS.to_owned(), listed);
}

/// Whether a summary may contain statements of a document.
pub fn may_be_of(summary: &StoredChunk, document: &DocumentId) -> bool {
    match summary.fields.get(DOCUMENTS) {
        Some(Json::Array(ids)) => ids.iter().any(|id| id.as_str() == Some(document.as_str())),
        Some(_) => true,
        None => false,
    }
}

/// Returns a summary as it is shown: after a line that names the documents it covers.
pub fn shown(
    text: &str,
    documents: Option<&BTreeSet<String>>,
    names: &HashMap<DocumentId, String>,
) -> String {
    let Some(ids) = documents else {
        return format!("{NAMED}{} documents\n\n{text}", names.len());
    };
    let mut named: Vec<&str> =
        ids.iter().filter_map(|id| names.get(&DocumentId::from(id.as_str()))).map(String::as_str).collect();
    named.sort_unstable();
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    // A line break in a name would end the line of names.
    let mut line = format!("{NAMED}{}", named.join(", ").replace(['\n', '\r'], " "));
    if more > 0 {
        line.push_str(&format!(" and {more} more"));
    }
    format!("{line}\n\n{text}")
}
