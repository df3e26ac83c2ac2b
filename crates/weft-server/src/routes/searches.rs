//! Search apps: single questions about datasets, each answered in its own conversation.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_store::{Chat, ChatFilter, ChatKind, ChatSettings};
use weft_core::{DatasetKey, ErrorKind, changes};

use super::agents::owners;
use super::chat_completions::{complete, said_once, turn_of};
use super::chats::{ChatRemoval, DATASETS_MAX, of_kind, order, removed};
use super::owned::{or, or_taken};
use super::retrieval;
use super::turn::question;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::chat;
use crate::wire::chat_question::ChatOptions;
use crate::wire::completion::ResponseMode;
use crate::wire::envelope::Success;
use crate::wire::mind_map::tree;
use crate::wire::search_app::{name, search_settings, view};
use weft_app::chats::{self, ChatTurn, SINGLE};

/// Number of numeric suffixes to try when a name is taken.
const NAMES_TRIED_MAX: u32 = 100;

/// Fields of a question to a search app. The others concern conversations, which a search app does not have.
const ASKED: [&str; 6] = ["question", "kb_ids", "doc_ids", "metadata_condition", "stream", "legacy"];

/// Prompt for a mind map.
const MIND_MAP: &str = "You draw a mind map of what the passages below say about the user's question. Write it as an outline \
in Markdown: one heading for the whole, a heading for each branch, and lists within lists for the points. Each is a few \
words, in the language of the question. Use only what the passages say, and write nothing but the outline.\n\n## \
Passages\n\n{knowledge}";

/// Settings of a search app that control retrieval.
const LOOKED_FOR: [&str; 8] = [
    "similarity_threshold",
    "vector_similarity_weight",
    "top_k",
    "rerank_id",
    "use_kg",
    "keyword",
    "cross_languages",
    "meta_data_filter",
];

fn no_authorization() -> ApiError {
    ApiError::new(code::NO_ACCESS, "No authorization.")
}

async fn owned(state: &ServerState, caller: &Caller, id: &str, missing: ApiError) -> Result<Chat, ApiError> {
    of_kind(state, caller, id, ChatKind::Search, missing).await
}

/// `POST /api/v1/searches`. A name that is taken gets a number appended.
///
/// # Errors
/// 101 without a name, 102 for a value that is not valid and for a dataset that is not the caller's.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["name"])?;
    let wanted = name(&body)?;
    let settings = search_settings(&body, &ChatSettings::default())?;
    check_datasets(&state, &caller, &body, &settings).await?;
    let now_ms = state.app.clock.now_ms();
    let numbered = (1..NAMES_TRIED_MAX).map(|number| format!("{wanted}({number})"));
    // The store decides what is taken, so that concurrent requests get different names.
    for name in std::iter::once(wanted.clone()).chain(numbered) {
        let app =
            Chat { kind: ChatKind::Search, ..chats::new(&caller.tenant, name, settings.clone(), now_ms) };
        match state.app.chats.create(&app).await {
            Ok(()) => return Ok(Success(json!({"search_id": app.key.id})).into_response()),
            Err(error) if error.kind == ErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::data("Duplicated search name."))
}

/// Checks the datasets of a search app when it is created or changed. Those that have no chunks yet are accepted: a
/// search app may be created first.
async fn check_datasets(
    state: &ServerState,
    caller: &Caller,
    body: &Body,
    settings: &ChatSettings,
) -> Result<(), ApiError> {
    // What the app had before may have been removed since; only what this request names is checked.
    if body.get("search_config").is_none_or(|config| config.get("kb_ids").is_none()) {
        return Ok(());
    }
    let wanted = &settings.datasets;
    if wanted.len() > DATASETS_MAX {
        return Err(ApiError::data(format!("a search app can have at most {DATASETS_MAX} datasets")));
    }
    let there = state.app.there(&caller.tenant, wanted).await?;
    match wanted.iter().find(|id| !there.contains(id)) {
        Some(foreign) => Err(ApiError::data(format!("You don't own the dataset {foreign}"))),
        None => Ok(()),
    }
}

/// `GET /api/v1/searches`.
///
/// # Errors
/// 101 for an unknown order, 103 for owners other than the caller.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    owners(&caller, &params)?;
    let page = params.page_if_asked(state.app.limits.page_size);
    let filter = ChatFilter {
        kind: Some(ChatKind::Search),
        keywords: params.get("keywords").unwrap_or_default().to_owned(),
        order: order(&params)?,
        ascending: params.ascending(),
        offset: page.offset,
        limit: page.limit,
        ..ChatFilter::default()
    };
    let (found, total) = state.app.chats.list(&caller.tenant, &filter).await?;
    let apps: Vec<Json> = found.iter().map(view).collect();
    Ok(Success(json!({"search_apps": apps, "total": total})).into_response())
}

/// `GET /api/v1/searches/{id}`.
///
/// # Errors
/// 103 for one that is not the caller's.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let missing = ApiError::new(code::OPERATING, "Has no permission for this operation.");
    Ok(Success(view(&owned(&state, &caller, &id, missing).await?)).into_response())
}

/// `PUT /api/v1/searches/{id}`: sets its name and the settings that are given.
///
/// # Errors
/// 101 without a name or settings, 102 for a value that is not valid and for a dataset that is not the caller's, 109
/// for an app that is not the caller's.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["name", "search_config"])?;
    let name = name(&body)?;
    let app = changes::made("search app", || async {
        // Settings that are not given keep the values of the latest state.
        let before = owned(&state, &caller, &id, no_authorization()).await?;
        let settings = search_settings(&body, &before.settings)?;
        check_datasets(&state, &caller, &body, &settings).await?;
        let changed = Chat { name: name.clone(), settings, ..before };
        let changed = state.app.chats.change(&changed, state.app.clock.now_ms()).await;
        changed.map_err(|error| or_taken(error, ApiError::data("Duplicated search name.")))
    });
    Ok(Success(view(&app.await?)).into_response())
}

/// `DELETE /api/v1/searches/{id}`.
///
/// # Errors
/// 109 for one that is not the caller's.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    match removed(&state, &caller, ChatKind::Search, &id).await? {
        ChatRemoval::Done => Ok(Success(true).into_response()),
        ChatRemoval::NotThere => Err(no_authorization()),
    }
}

/// `POST /api/v1/searches/{id}/completions`: a question to a search app.
///
/// # Errors
/// 101 without a question, 102 without datasets, 109 for an app that is not the caller's.
pub(crate) async fn of_search(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let app = owned(&state, &caller, &id, no_authorization()).await?;
    ask(&state, &caller, app, &headers, body).await
}

/// `POST /api/v1/searchbots/ask`: a question to the datasets that the body names, answered with the settings of the
/// search app `search_id` if given.
///
/// # Errors
/// As [`of_search`].
pub(crate) async fn of_searchbot(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let app = named(&state, &caller, &body).await?;
    ask(&state, &caller, app, &headers, body).await
}

/// Returns the search app named by `search_id`, or a default one.
async fn named(state: &ServerState, caller: &Caller, body: &Body) -> Result<Chat, ApiError> {
    match body.id("search_id")? {
        Some(id) => owned(state, caller, &id, no_authorization()).await,
        None => Ok(chats::unstored(&caller.tenant, SINGLE)),
    }
}

/// `POST /api/v1/searchbots/mindmap` and `POST /api/v1/chat/mindmap`: a mind map of what the datasets say about a
/// question.
///
/// # Errors
/// As [`of_search`]; when the model fails.
pub(crate) async fn mind_map(
    State(state): State<ServerState>,
    caller: Caller,
    mut body: Body,
) -> Result<Response, ApiError> {
    let app = named(&state, &caller, &body).await?;
    let asked = single(&app, &mut body)?;
    let turn = turn_of(&state, &caller, &app, &ChatOptions::read(&body)?, &body).await?;
    // An outline has no place for marks of citations.
    let turn = ChatTurn { system: Some(MIND_MAP.to_owned()), quote: false, ..turn };
    let request = question(&body, &caller, None, asked.clone(), ResponseMode::Whole)?;
    let outline = said_once(&state, &caller, &app, &turn, request).await?;
    Ok(Success(tree(&outline, &asked)).into_response())
}

/// `POST /api/v1/searchbots/retrieval_test {question, kb_id, search_id?}`: searches the datasets of the body, with
/// the settings of the search app `search_id` if given.
///
/// # Errors
/// 101 without a question; 102 without datasets, and for one that is not the caller's; 109 for an app that is not the
/// caller's.
pub(crate) async fn found_by_searchbot(
    State(state): State<ServerState>,
    caller: Caller,
    mut body: Body,
) -> Result<Response, ApiError> {
    let app = named(&state, &caller, &body).await?;
    // The settings of the app take precedence over the body.
    for key in LOOKED_FOR {
        if let Some(set) = app.settings.search_config.get(key).filter(|set| !set.is_null()) {
            body.0.insert(key.to_owned(), set.clone());
        }
    }
    let datasets = match body.0.remove("kb_id").or_else(|| body.0.remove("kb_ids")) {
        _ if !app.settings.datasets.is_empty() => json!(remaining(&state, &caller, &app).await?),
        Some(Json::String(one)) => json!([one]),
        Some(Json::Array(several)) if !several.is_empty() => Json::Array(several),
        _ => return Err(ApiError::data("Please specify dataset firstly.")),
    };
    body.0.insert("dataset_ids".to_owned(), datasets);
    retrieval::in_datasets(&state, &caller, body, None).await
}

/// Returns the datasets of a search app that have not been removed since it was set up.
///
/// # Errors
/// 102 when none is left.
async fn remaining(state: &ServerState, caller: &Caller, app: &Chat) -> Result<Vec<String>, ApiError> {
    let there = state.app.there(&caller.tenant, &app.settings.datasets).await?;
    if there.is_empty() {
        let message = "The datasets of this search app have been removed: set others in its `kb_ids`";
        return Err(ApiError::data(message));
    }
    Ok(there)
}

/// `POST /api/v1/sessions/ask {question, dataset_ids}`: the same under its older name, for datasets that have chunks.
/// Each frame contains the whole answer so far.
///
/// # Errors
/// 102 without a question or datasets, and for a dataset that is not the caller's or has no chunks.
pub(crate) async fn of_sessions(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    mut body: Body,
) -> Result<Response, ApiError> {
    let asked = body.text("question")?.unwrap_or_default();
    if asked.trim().is_empty() {
        return Err(ApiError::data("`question` is required."));
    }
    let datasets = chat::datasets(&body, "dataset_ids")?.unwrap_or_default();
    if datasets.is_empty() {
        return Err(ApiError::data("`dataset_ids` is required."));
    }
    for id in &datasets {
        let key = DatasetKey::new(&caller.tenant, id.as_str());
        let missing = ApiError::data(format!("You don't own the dataset {id}."));
        let dataset = state.app.datasets.dataset(&key).await.map_err(|error| or(error, missing))?;
        if dataset.counts.chunks == 0 {
            return Err(ApiError::data(format!("The dataset {id} doesn't own parsed file")));
        }
    }
    body.0.insert("kb_ids".to_owned(), json!(datasets));
    // Clients of this route take each frame for the whole answer.
    body.0.insert("legacy".to_owned(), json!(true));
    ask(&state, &caller, chats::unstored(&caller.tenant, SINGLE), &headers, body).await
}

/// `GET /api/v1/searchbots/detail?search_id=`: the public description of a search app, for a page that embeds it.
///
/// # Errors
/// 101 without an id, 103 for one that is not the caller's.
pub(crate) async fn searchbot(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let id = params.get("search_id").ok_or_else(|| ApiError::argument("`search_id` is required."))?;
    let missing = ApiError::new(code::OPERATING, "Has no permission for this operation.");
    Ok(Success(view(&owned(&state, &caller, id, missing).await?)).into_response())
}

async fn ask(
    state: &ServerState,
    caller: &Caller,
    app: Chat,
    headers: &HeaderMap,
    mut body: Body,
) -> Result<Response, ApiError> {
    single(&app, &mut body)?;
    complete(state, caller, app, headers, &body).await
}

/// Returns the question, and removes the fields from the body that do not belong to a single question.
fn single(app: &Chat, body: &mut Body) -> Result<String, ApiError> {
    let asked = body.text("question")?.unwrap_or_default();
    if asked.trim().is_empty() {
        return Err(ApiError::argument("required argument are missing: question; question is required."));
    }
    body.0.retain(|key, _| ASKED.contains(&key.as_str()));
    // The app's own datasets take precedence, so that it gives no access to others.
    if app.settings.datasets.is_empty() {
        let named = chat::datasets(body, "kb_ids")?.unwrap_or_default();
        if named.is_empty() {
            return Err(ApiError::data("`kb_ids` is required."));
        }
    } else {
        body.0.remove("kb_ids");
    }
    Ok(asked)
}
