//! The default models, in the formats of older clients. The operator decides which models there are.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{ModelInfo, ModelKind};

use crate::auth::Caller;
use crate::body::Params;
use crate::error::{ApiError, code};
use crate::state::ServerState;
use crate::wire::envelope::Success;

/// Returns the name of a kind of model in the API.
fn kind_name(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Chat => "chat",
        ModelKind::Vision => "image2text",
        ModelKind::Embedding => "embedding",
        ModelKind::Rerank => "rerank",
        ModelKind::Speech => "speech2text",
        ModelKind::Tts => "tts",
        ModelKind::Ocr => "ocr",
    }
}

/// `GET /api/v1/users/me/models`: the default models.
pub(crate) async fn defaults(State(state): State<ServerState>, caller: Caller) -> Response {
    let (models, tenant) = (&state.app.models, &caller.tenant);
    let listed = models.list(tenant);
    let first = |kind: ModelKind| {
        let found = listed.iter().find(|model| model.kind == kind);
        found.map(|model| model.name.clone()).unwrap_or_default()
    };
    let chat = models.resolve(tenant, "").map(|model| model.info().name.clone()).unwrap_or_default();
    let embedder = models.embedder(tenant, "").map(|model| model.name().to_owned()).unwrap_or_default();
    let told = json!({
        "tenant_id": tenant,
        "name": tenant,
        "llm_id": chat,
        "embd_id": embedder,
        "img2txt_id": first(ModelKind::Vision),
        "asr_id": first(ModelKind::Speech),
        "tts_id": first(ModelKind::Tts),
        "rerank_id": first(ModelKind::Rerank),
    });
    Success(told).into_response()
}

/// Returns the models by the part of their name after the `@`, which clients take for the provider.
fn by_provider(state: &ServerState, caller: &Caller) -> BTreeMap<String, Vec<ModelInfo>> {
    let models = &state.app.models;
    let mut providers = BTreeMap::<String, Vec<ModelInfo>>::new();
    // Both lists contain the models in the same order.
    for (model, maker) in models.list(&caller.tenant).into_iter().zip(models.makers(&caller.tenant)) {
        providers.entry(maker).or_default().push(model);
    }
    providers
}

/// `GET /v1/llm/list?model_type=`: models by provider.
pub(crate) async fn list(State(state): State<ServerState>, caller: Caller, params: Params) -> Response {
    let wanted =
        |model: &&ModelInfo| params.get("model_type").is_none_or(|kind| kind == kind_name(model.kind));
    let mut told = BTreeMap::<String, Vec<Json>>::new();
    for (provider, models) in by_provider(&state, &caller) {
        let row = |model: &ModelInfo| {
            json!({"llm_name": model.name, "fid": provider, "model_type": kind_name(model.kind),
                "max_tokens": model.window, "is_tools": model.tools, "available": true, "status": "1"})
        };
        let rows: Vec<Json> = models.iter().filter(wanted).map(row).collect();
        if !rows.is_empty() {
            told.insert(provider, rows);
        }
    }
    Success(told).into_response()
}

/// `GET /v1/llm/my_llms`: the same in another format.
pub(crate) async fn mine(State(state): State<ServerState>, caller: Caller) -> Response {
    let row = |model: &ModelInfo| json!({"name": model.name, "type": kind_name(model.kind), "used_token": 0, "status": "1"});
    let told: BTreeMap<String, Json> = by_provider(&state, &caller)
        .into_iter()
        .map(|(provider, models)| {
            let rows: Vec<Json> = models.iter().map(row).collect();
            (provider, json!({"tags": "", "llm": rows}))
        })
        .collect();
    Success(told).into_response()
}

/// `GET /api/v1/providers`, `GET /v1/llm/factories`.
pub(crate) async fn providers(State(state): State<ServerState>, caller: Caller) -> Response {
    let told: Vec<Json> = by_provider(&state, &caller)
        .into_iter()
        .map(|(provider, models)| {
            let mut kinds: Vec<&str> = models.iter().map(|model| kind_name(model.kind)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            json!({"name": provider, "model_types": kinds, "status": "1"})
        })
        .collect();
    Success(told).into_response()
}

/// Refuses every change of the models.
///
/// # Errors
/// 103 always.
pub(crate) async fn refuse(_: Caller) -> ApiError {
    let message = "models, including the default ones, are set by the operator, under `models` in the server's \
        configuration; `GET /api/v1/models` lists them";
    ApiError::new(code::OPERATING, message)
}

/// Refuses everything about connectors, which import documents from other services.
///
/// # Errors
/// 103 always.
pub(crate) async fn refuse_connectors(_: Caller) -> ApiError {
    let message = "connectors are not part of this build: add documents with `POST /api/v1/datasets/{id}/documents`, from a \
        program that fetches them, or with `weft dataset ingest`";
    ApiError::new(code::OPERATING, message)
}
