//! Datasets: collections of documents that are searched together.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use weft_core::error::found;
use weft_core::seam::canvas_store::PIPELINE_TYPE;
use weft_core::seam::chat_model::ModelInfo;
use weft_core::seam::dataset_store::{Counting, Dataset, DatasetFilter};
use weft_core::{CanvasKey, DatasetId, DatasetKey, ErrorKind, changes};
use weft_knowledge::ingest::Naming;

use super::owned;
use crate::auth::Caller;
use crate::body::{Params, RequiredBody};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::dataset::{self, DatasetFields, none_owned, not_owned, view};
use crate::wire::envelope::{Listed, Success};
use crate::wire::removal::Removal;
use crate::wire::rules::line;

/// Batch size when all datasets are removed.
const REMOVED_AT_ONCE: u64 = 100;

/// `POST /api/v1/datasets`. A name that is taken gets a number appended.
///
/// # Errors
/// 101 with a line for every field that is wrong; 102 for an unknown embedding model.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    RequiredBody(body): RequiredBody,
) -> Result<Response, ApiError> {
    let fields = DatasetFields::of_new(&body)?;
    let embedder = match fields.embedding_model.as_deref() {
        Some(name) => embedder(&state, &caller, name)?,
        None => default_embedder(&state, &caller)?,
    };
    check_pipeline(&state, &caller, fields.pipeline.as_deref()).await?;
    let new = dataset::fresh(&caller.tenant, embedder, state.app.clock.now_ms());
    let asked = fields.embedding_model.clone();
    let new = dataset::asked_for(fields.changed(new), asked.as_deref());
    let created = state.app.library.create_dataset(new, Naming::Numbered).await?;
    Ok(Success(view(&created)).into_response())
}

/// Checks that a named pipeline exists and is a pipeline.
pub(super) async fn check_pipeline(
    state: &ServerState,
    caller: &Caller,
    id: Option<&str>,
) -> Result<(), ApiError> {
    let Some(id) = id else { return Ok(()) };
    match state.app.canvases.get(&CanvasKey::new(&caller.tenant, id)).await {
        Ok(canvas) if canvas.head.canvas_type == PIPELINE_TYPE => Ok(()),
        Ok(canvas) => {
            let message = format!("`{}` is an agent, not an ingestion pipeline", canvas.head.title);
            Err(ApiError::data(message))
        }
        Err(error) if error.kind == ErrorKind::NotFound => {
            Err(ApiError::data(format!("Pipeline {id} not found")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the full name of an embedding model.
pub(super) fn embedder(state: &ServerState, caller: &Caller, name: &str) -> Result<String, ApiError> {
    let found = state.app.models.embedder(&caller.tenant, name);
    found.map(|model| model.name().to_owned()).map_err(|error| match error.kind {
        ErrorKind::NotFound => match unknown_provider(state, caller, name) {
            Some(provider) => ApiError::data(format!("Provider {provider} not found for model {name}.")),
            None => ApiError::data(format!("Model {name} not found for model embedding")),
        },
        _ => error.into(),
    })
}

/// Returns the provider at the end of a model name if there are no models of it.
fn unknown_provider<'a>(state: &ServerState, caller: &Caller, name: &'a str) -> Option<&'a str> {
    let (_, provider) = name.rsplit_once('@')?;
    // The name of a configured model may end with the provider, or the configuration may state it separately.
    let named = |model: ModelInfo| Some(model.name.rsplit_once('@')?.1.to_owned());
    let named = state.app.models.list(&caller.tenant).into_iter().filter_map(named);
    let mut known = state.app.models.makers(&caller.tenant).into_iter().chain(named);
    (!known.any(|known| known.eq_ignore_ascii_case(provider))).then_some(provider)
}

/// Returns the name of the default embedding model. Without one, datasets are only searched by words.
fn default_embedder(state: &ServerState, caller: &Caller) -> Result<String, ApiError> {
    let model = found(state.app.models.embedder(&caller.tenant, ""))?;
    Ok(model.map(|model| model.name().to_owned()).unwrap_or_default())
}

/// `GET /api/v1/datasets`: by `id`, `ids`, `name`, `page`, `page_size`, `orderby` and `desc`.
///
/// # Errors
/// 101 with a line for every parameter that is wrong; 102 for an unknown id or name.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let query = dataset::query(&params, state.app.limits.page_size)?;
    let (datasets, total) = state.app.datasets.datasets(&caller.tenant, &query.filter).await?;
    if total == 0 {
        // Each named dataset must exist, even if it does not match the other filters.
        for named in &query.named {
            let alone = DatasetFilter { counting: Counting::Without, ..named.of_datasets() };
            if state.app.datasets.datasets(&caller.tenant, &alone).await?.1 == 0 {
                return Err(not_owned(&caller.tenant, named.as_str()));
            }
        }
    }
    let shown = datasets.iter().map(view).collect();
    Ok(Listed { data: shown, total }.into_response())
}

/// `GET /api/v1/datasets/{id}`.
///
/// # Errors
/// 102 for an unknown one, whatever the form of its id.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let known = dataset::dataset_id(&id).map_err(|_| not_owned(&caller.tenant, &id))?;
    Ok(Success(view(&own(&state, &caller, known).await?)).into_response())
}

async fn own(state: &ServerState, caller: &Caller, id: DatasetId) -> Result<Dataset, ApiError> {
    let found = state.app.datasets.dataset(&DatasetKey::new(&caller.tenant, id.as_str())).await;
    found.map_err(|error| owned::or(error, not_owned(&caller.tenant, id.as_str())))
}

/// `PUT /api/v1/datasets/{id}`: changes the fields that are given.
///
/// # Errors
/// 101 with a line for every field that is wrong; 102 for an unknown dataset, a name that is taken, and a different
/// embedding model when there are chunks.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    RequiredBody(body): RequiredBody,
) -> Result<Response, ApiError> {
    let id = dataset::dataset_id(&id)?;
    let fields = DatasetFields::of_change(&body)?;
    // Read again on each attempt, so that the change applies to the latest state.
    let updated = changes::made("dataset", || async {
        let before = own(&state, &caller, id.clone()).await?;
        replaced(&state, &caller, before, fields.clone()).await
    });
    Ok(Success(view(&updated.await?)).into_response())
}

/// Replaces the fields of a dataset; `None` if it was changed since it was read.
async fn replaced(
    state: &ServerState,
    caller: &Caller,
    before: Dataset,
    fields: DatasetFields,
) -> Result<Option<Dataset>, ApiError> {
    check_pipeline(state, caller, fields.pipeline.as_deref()).await?;
    let embedder = match fields.embedding_model.as_deref() {
        None if fields.default_model => default_embedder(state, caller)?,
        None => before.embedder.clone(),
        // Clients may send back the current model, even if that no longer exists.
        Some(name) if name == before.embedder || name == dataset::model(&before) => before.embedder.clone(),
        Some(name) => {
            if let Some(message) = dataset::model_problem(name) {
                return Err(ApiError::argument(line("embedding_model", message, &json!(name))));
            }
            embedder(state, caller, name)?
        }
    };
    if embedder != before.embedder && before.counts.chunks > 0 {
        let (chunks, embedder) = (before.counts.chunks, &before.embedder);
        // Clients know the first sentence.
        let message = format!(
            "When chunk_num ({chunks}) > 0, embedding_model must remain {embedder}. To compute all vectors again: \
             POST /api/v1/datasets/{id}/index?type=embedding with this embedding_model",
            id = before.key.id
        );
        return Err(ApiError::data(message));
    }
    let other_model = embedder != before.embedder;
    let asked = fields.embedding_model.clone();
    let renamed = asked.is_some() || fields.default_model;
    let mut changed = Dataset { embedder, ..fields.changed(before) };
    if renamed {
        changed = dataset::asked_for(changed, asked.as_deref());
    }
    let name = changed.name.clone();
    let updated = state.app.library.update_dataset(changed).await;
    updated.map_err(|error| match error.kind {
        ErrorKind::Conflict if !other_model => {
            ApiError::data(format!("Dataset name '{name}' already exists"))
        }
        ErrorKind::Conflict => ApiError::data(error.full()),
        _ => error.into(),
    })
}

/// `DELETE /api/v1/datasets {ids, delete_all}`: only with ids, or with `delete_all`.
///
/// # Errors
/// 101 for ids that are not valid; 102 when one of them is unknown; then nothing is removed.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    RequiredBody(body): RequiredBody,
) -> Result<Response, ApiError> {
    let removed = match dataset::removal(&body)? {
        Removal::Nothing => 0,
        Removal::These(ids) => {
            let mut missing = Vec::new();
            for id in &ids {
                let key = DatasetKey::new(&caller.tenant, id.as_str());
                if found(state.app.datasets.dataset_uncounted(&key).await)?.is_none() {
                    missing.push(id.clone());
                }
            }
            if !missing.is_empty() {
                return Err(none_owned(&caller.tenant, &missing));
            }
            let mut removed = 0;
            for id in &ids {
                removed += remove(&state, &caller, DatasetId::from(id.as_str())).await?;
            }
            removed
        }
        Removal::Everything => remove_all(&state, &caller).await?,
    };
    Ok(Success(json!({"success_count": removed})).into_response())
}

async fn remove_all(state: &ServerState, caller: &Caller) -> Result<u64, ApiError> {
    let mut removed = 0;
    loop {
        // Always from the start: removed entries leave the list.
        let filter =
            DatasetFilter { limit: REMOVED_AT_ONCE, counting: Counting::Without, ..DatasetFilter::default() };
        let (datasets, _) = state.app.datasets.datasets(&caller.tenant, &filter).await?;
        if datasets.is_empty() {
            return Ok(removed);
        }
        for dataset in datasets {
            removed += remove(state, caller, dataset.key.id).await?;
        }
    }
}

/// Returns how many datasets this call removed: one that was removed concurrently is counted by the other request.
async fn remove(state: &ServerState, caller: &Caller, id: DatasetId) -> Result<u64, ApiError> {
    let gone = found(state.app.library.remove_dataset(&DatasetKey::new(&caller.tenant, id)).await)?;
    Ok(u64::from(gone.is_some()))
}
