//! Graphs, mind maps and summaries of all documents of a dataset: starts their construction and reports its progress.
//!
//! They are built document by document, by the same workers that ingest documents ([`weft_knowledge::ingest`]).
//! Running a task means enabling it in the settings of every document and ingesting the documents again; tracing it
//! means looking at the states of these documents. What is built from all documents together is a document as well,
//! which the library adds by itself.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use weft_core::error::found;
use weft_core::id::DatasetKey;
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{
    ChunkFilter, Dataset, Document, DocumentChange, DocumentFilter, DocumentState, Extra, Heads, Settings,
};
use weft_core::seam::ingest_queue::Wanted;
use weft_core::{DocumentId, DocumentKey, Error, ErrorKind};
use weft_knowledge::ingest::ChunkPages;
use weft_knowledge::raptor::dataset::{document_id, is_of_dataset, is_wanted};
use weft_knowledge::raptor::{SummaryScope, is_summary};

use super::task_id::task_id;
use super::{owned, reembedding};
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chunk::dataset_not_owned;
use crate::wire::envelope::Success;

/// Number of documents read in one batch.
const PAGE: u64 = 200;

/// Something that is built for all documents.
#[derive(Clone, Copy)]
struct DatasetTask {
    /// The section of the settings that controls it.
    section: &'static str,
    /// The setting in that section that enables it.
    switch: &'static str,
    /// Its name in the API.
    name: &'static str,
}

const GRAPH: DatasetTask =
    DatasetTask { section: "graphrag", switch: "use_graphrag", name: "graphrag_task_id" };
const RAPTOR: DatasetTask = DatasetTask { section: "raptor", switch: "use_raptor", name: "raptor_task_id" };
const MIND_MAP: DatasetTask =
    DatasetTask { section: "mindmap", switch: "use_mindmap", name: "mindmap_task_id" };

impl DatasetTask {
    fn is_wanted(self, settings: &Settings) -> bool {
        settings.get(self.section).and_then(|section| section.get(self.switch)).and_then(Json::as_bool)
            == Some(true)
    }

    fn asked(self, mut settings: Settings) -> Settings {
        let section = settings.entry(self.section).or_insert_with(|| json!({}));
        if !section.is_object() {
            *section = json!({});
        }
        section[self.switch] = json!(true);
        settings
    }

    fn not_asked(self, mut settings: Settings) -> Settings {
        if let Some(Json::Object(section)) = settings.get_mut(self.section) {
            section.insert(self.switch.to_owned(), json!(false));
        }
        settings
    }

    /// Enables the task in the settings of a document; the dataset decides whether all documents are summarized
    /// together.
    fn asked_within(self, dataset: &Dataset, settings: Settings) -> Settings {
        let mut settings = self.asked(settings);
        if self.is_over_documents(dataset) {
            settings[self.section]["scope"] = json!("dataset");
        }
        settings
    }

    /// Returns whether it is built from all documents together instead of for each one.
    fn is_over_documents(self, dataset: &Dataset) -> bool {
        self.section == RAPTOR.section && SummaryScope::of(&dataset.settings) == SummaryScope::Dataset
    }

    fn id(self, dataset: &DatasetKey) -> String {
        task_id(dataset, self.section)
    }
}

/// `POST …/run_graphrag`: builds the graph of every document of the dataset.
///
/// # Errors
/// 102 for an unknown dataset, one without documents, and one whose documents are being read.
pub(crate) async fn run_graph(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    run(&state, &caller, &id, GRAPH).await
}

/// `POST …/run_raptor`: builds the summaries of every document of the dataset.
///
/// # Errors
/// As [`run_graph`].
pub(crate) async fn run_raptor(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    run(&state, &caller, &id, RAPTOR).await
}

/// `GET …/trace_graphrag`: the progress of the task.
///
/// # Errors
/// 102 for an unknown dataset.
pub(crate) async fn trace_graph(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    trace(&state, &caller, &id, GRAPH).await
}

/// `GET …/trace_raptor`: the progress of the task.
///
/// # Errors
/// As [`trace_graph`].
pub(crate) async fn trace_raptor(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    trace(&state, &caller, &id, RAPTOR).await
}

/// An index of a dataset that can be built.
enum BuiltIndex {
    /// Built from its documents, by the workers that ingest them.
    OfDocuments(DatasetTask),
    /// New vectors.
    Vectors,
}

/// Returns the index that a request names by its `type`.
fn named(params: &Params) -> Result<BuiltIndex, ApiError> {
    made(params.get("type").unwrap_or_default())
}

fn made(index: &str) -> Result<BuiltIndex, ApiError> {
    match index {
        "graph" => Ok(BuiltIndex::OfDocuments(GRAPH)),
        "raptor" => Ok(BuiltIndex::OfDocuments(RAPTOR)),
        "mindmap" => Ok(BuiltIndex::OfDocuments(MIND_MAP)),
        "embedding" => Ok(BuiltIndex::Vectors),
        other => {
            let message = format!(
                "Invalid index type '{other}'. Must be one of ['graph', 'raptor', 'mindmap', 'embedding']"
            );
            Err(ApiError::data(message))
        }
    }
}

/// `POST …/index?type=`: does what [`run_graph`] and [`run_raptor`] do, and the same for mind maps; type `embedding`
/// takes `{embedding_model}`.
///
/// # Errors
/// As these and as [`reembedding::begin`]; 102 for an unknown type.
pub(crate) async fn run_index(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    let task = match named(&params)? {
        BuiltIndex::OfDocuments(task) => task,
        BuiltIndex::Vectors => return reembedding::begin(&state, &caller, &id, &body).await,
    };
    begun(&state, &caller, &id, task).await?;
    Ok(Success(json!({"task_id": task.id(&DatasetKey::new(&caller.tenant, id.as_str()))})).into_response())
}

/// `GET …/index?type=`: the progress of the task.
///
/// # Errors
/// 102 for an unknown dataset and for an unknown type.
pub(crate) async fn trace_index(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    match named(&params)? {
        BuiltIndex::OfDocuments(task) => trace(&state, &caller, &id, task).await,
        BuiltIndex::Vectors => reembedding::trace(&state, &caller, &id).await,
    }
}

/// `DELETE …/{index}`: removes the summaries or the mind map, which can be built again on request; cancels a
/// re-embedding. The graph has a route of its own.
///
/// # Errors
/// 102 for an unknown dataset and for an unknown index.
pub(crate) async fn delete_index(
    State(state): State<ServerState>,
    caller: Caller,
    Path((id, index)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let task = match made(&index)? {
        BuiltIndex::OfDocuments(task) => task,
        BuiltIndex::Vectors => return reembedding::cancel(&state, &caller, &id).await,
    };
    let dataset = owned::dataset(&state, &caller, &id, |_| ApiError::data("no authorization")).await?;
    for document in documents(&state, &dataset.key).await? {
        // A document that is removed concurrently has none.
        if task.section == MIND_MAP.section {
            found(delete_mind_map(&state, &document).await)?;
        } else {
            found(delete_summaries(&state, document).await)?;
        }
    }
    Ok(Success(true).into_response())
}

async fn delete_summaries(state: &ServerState, document: Document) -> weft_core::Result<()> {
    let (library, key) = (&state.app.library, &document.key);
    if is_of_dataset(&document) {
        library.remove_documents(&key.dataset, std::slice::from_ref(&key.id)).await?;
        return Ok(());
    }
    ask_no_more(state, &document, RAPTOR).await?;
    // All ids are collected before any chunk is removed, because removing shifts the pages.
    let filter = ChunkFilter { limit: PAGE, ..ChunkFilter::default() };
    let summaries = ChunkPages::new(&*state.app.datasets, key, filter).ids(is_summary).await?;
    if !summaries.is_empty() {
        library.remove_chunks(key, &summaries).await?;
    }
    Ok(())
}

async fn delete_mind_map(state: &ServerState, document: &Document) -> weft_core::Result<()> {
    ask_no_more(state, document, MIND_MAP).await?;
    state.app.datasets.put_extra(&document.key, Extra::MindMap, &Json::Null).await
}

/// Disables a task for a document. Stops the document if it is being ingested, as it would otherwise still produce
/// the result.
async fn ask_no_more(state: &ServerState, document: &Document, task: DatasetTask) -> weft_core::Result<()> {
    let (library, key) = (&state.app.library, &document.key);
    if !task.is_wanted(&document.settings) {
        return Ok(());
    }
    let change = |document: &Document| {
        let settings = Some(task.not_asked(document.settings.clone()));
        Ok::<_, Error>(Some(DocumentChange { settings, ..DocumentChange::default() }))
    };
    match library.rework_document(key, &change).await {
        Err(error) if error.kind == ErrorKind::Conflict => {
            library.stop(key, Wanted::Cancel).await.or_else(gone)?;
        }
        reworked => return reworked.map(drop),
    }
    // If no worker has started on the document, it is stopped now; otherwise its settings keep the task until they
    // are changed.
    library.rework_document(key, &change).await.map(drop).or_else(gone)
}

/// Ignores conflicts: a document that is not being ingested need not be stopped, and one that still is cannot be
/// changed.
fn gone(error: weft_core::Error) -> weft_core::Result<()> {
    if error.kind == ErrorKind::Conflict { Ok(()) } else { Err(error) }
}

/// Returns all documents of a dataset, the newest first.
pub(super) async fn documents(state: &ServerState, dataset: &DatasetKey) -> Result<Vec<Document>, ApiError> {
    Ok(all_of(&*state.app.datasets, dataset).await?)
}

async fn all_of(store: &dyn DatasetStore, dataset: &DatasetKey) -> weft_core::Result<Vec<Document>> {
    let mut all = Vec::new();
    let mut after = None;
    // Pages continue from the last id rather than by offset: documents that come or go concurrently neither hide nor
    // repeat others.
    loop {
        let heads = store.document_heads(dataset, &Heads::Page(after, PAGE)).await?;
        let Some(last) = heads.last() else { break };
        after = Some(last.id.clone());
        let ids = Some(heads.into_iter().map(|head| head.id).collect());
        let filter = DocumentFilter { ids, limit: PAGE, ..DocumentFilter::default() };
        all.extend(store.documents(dataset, &filter).await?.0);
    }
    // The pages are ordered by id.
    all.sort_by(|one, other| (other.created_ms, &other.key.id).cmp(&(one.created_ms, &one.key.id)));
    Ok(all)
}

async fn run(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    task: DatasetTask,
) -> Result<Response, ApiError> {
    begun(state, caller, id, task).await?;
    let mut told = serde_json::Map::new();
    told.insert(task.name.to_owned(), Json::from(task.id(&DatasetKey::new(&caller.tenant, id))));
    Ok(Success(Json::Object(told)).into_response())
}

async fn begun(state: &ServerState, caller: &Caller, id: &str, task: DatasetTask) -> Result<(), ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    let mut documents = documents(state, &dataset.key).await?;
    // The document that summarizes the others is created separately.
    documents.retain(|document| !is_of_dataset(document));
    if documents.is_empty() {
        return Err(ApiError::data(format!("No documents in Dataset {id}")));
    }
    // The settings of a document that is being ingested cannot change, and a task must cover all documents.
    if let Some(document) = documents.iter().find(|document| document.state == DocumentState::Running) {
        let message = format!("the document {} is being read; try again when it is done", document.name);
        return Err(ApiError::data(message));
    }
    let mut ids: Vec<DocumentId> = Vec::with_capacity(documents.len());
    for document in documents {
        let settings = task.asked_within(&dataset, document.settings.clone());
        // When all documents are summarized together, a document that is already ingested has nothing left to do.
        let is_done = document.state == DocumentState::Done && settings == document.settings;
        if is_done && task.is_over_documents(&dataset) {
            continue;
        }
        let change = |document: &Document| {
            let settings = Some(task.asked_within(&dataset, document.settings.clone()));
            Ok::<_, Error>(Some(DocumentChange { settings, ..DocumentChange::default() }))
        };
        // If one is removed concurrently, those reworked before it must still be queued.
        if found(state.app.library.rework_document(&document.key, change).await)?.is_some() {
            ids.push(document.key.id);
        }
    }
    state.app.library.queue(&dataset.key, &ids).await?;
    // A mind map changes neither summaries nor names in a graph.
    if task.section != MIND_MAP.section && is_wanted(&dataset.settings) {
        state.app.library.ask_for_summaries(&dataset.key).await?;
    }
    Ok(())
}

async fn trace(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    task: DatasetTask,
) -> Result<Response, ApiError> {
    let dataset = owned::dataset(state, caller, id, dataset_not_owned).await?;
    let mut documents = documents(state, &dataset.key).await?;
    documents.retain(|document| task.is_wanted(&document.settings));
    if documents.is_empty() {
        return Ok(Success(json!({})).into_response());
    }
    // The document for all of them is in no list until a worker has started on it; it counts as one more document
    // without progress.
    let begins = task.is_over_documents(&dataset) && is_about_to_begin(state, &dataset).await?;
    let mut told = told(&documents, &task.id(&dataset.key));
    if begins && let Some(share) = told["progress"].as_f64().filter(|share| *share > 0.0) {
        told["progress"] = json!(share * documents.len() as f64 / (documents.len() + 1) as f64);
    }
    Ok(Success(told).into_response())
}

/// Returns whether the result for all documents together does not exist yet and no worker has started on it.
async fn is_about_to_begin(state: &ServerState, dataset: &Dataset) -> Result<bool, ApiError> {
    let key = DocumentKey::new(&dataset.key, document_id(&dataset.key));
    match state.app.datasets.extra(&key, Extra::Summaries).await {
        Ok(made) => Ok(made.is_none()),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(!dataset.embedder.is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// The state of a task in the form that clients expect: the progress −1 means that it failed.
fn told(documents: &[Document], id: &str) -> Json {
    let failed: Vec<&Document> =
        documents.iter().filter(|document| document.state == DocumentState::Failed).collect();
    let running = documents.iter().any(|document| document.state == DocumentState::Running);
    let share = documents.iter().map(|document| document.progress.clamp(0.0, 1.0)).sum::<f64>();
    let done = documents.iter().filter(|document| document.state == DocumentState::Done).count();
    let all = weft_core::value::plural(documents.len(), "document");
    let mut message = format!("{done} of {all} done");
    for document in failed.iter().take(5) {
        message.push_str(&format!("\n{}: {}", document.name, document.message));
    }
    // While other documents are being ingested the task is not over.
    let progress = match (failed.is_empty(), running) {
        (false, false) => -1.0,
        _ => share / documents.len() as f64,
    };
    json!({
        "id": id,
        "progress": progress,
        "progress_msg": message,
        "begin_at": documents.iter().filter_map(|document| document.begun_ms).min(),
        "process_duration": documents.iter().map(|document| document.duration_ms as f64).sum::<f64>() / 1_000.0,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weft_core::TenantId;
    use weft_testkit::contracts::datasets::{dataset, document};
    use weft_testkit::memory_datasets::MemoryDatasets;

    use super::*;

    #[tokio::test]
    async fn documents_removed_during_paging_hide_no_others() {
        let (store, set) = (MemoryDatasets::new(), dataset(&TenantId::new("t"), "Docs"));
        store.create(&set).await.unwrap();
        let mut ids = Vec::new();
        for (at, name) in (0..2 * PAGE + 50).enumerate() {
            let created_ms = i64::try_from(at).unwrap();
            let made = Document { created_ms, ..document(&set.key, &format!("{name}.txt")) };
            store.add_document(&made).await.unwrap();
            ids.push(made.key.id);
        }
        let all = all_of(&store, &set.key).await.unwrap();
        let newest_first: Vec<_> = ids.iter().rev().collect();
        assert_eq!(all.iter().map(|one| &one.key.id).collect::<Vec<_>>(), newest_first);

        // The newest documents are removed between two pages.
        let (stay, go) = ids.split_at(2 * usize::try_from(PAGE).unwrap());
        let (read, removed) = futures::join!(all_of(&store, &set.key), store.remove_documents(&set.key, go));
        removed.unwrap();
        let read = read.unwrap();
        let seen: HashSet<_> = read.iter().map(|one| &one.key.id).collect();
        assert_eq!(seen.len(), read.len(), "no document appears twice");
        assert!(stay.iter().all(|id| seen.contains(id)), "{} of {}", seen.len(), stay.len());
    }
}
