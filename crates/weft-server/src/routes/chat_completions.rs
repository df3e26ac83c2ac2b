//! Questions to chat assistants. Each is a turn of a session, on a canvas made from the assistant.

use std::collections::HashSet;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use weft_core::filter::Filter;
use weft_core::seam::chat_store::Chat;
use weft_core::{CanvasKey, DatasetKey, DocumentId, RunId, SessionId, SessionKey};

use super::chats::{no_access, owned};
use super::metadata;
use super::shares::{chosen, of_visitor};
use super::turn::{UnknownSession, answered, begin_turn, forget, question};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::Body;
use crate::chat_frames::{ChatAnswer, ChatFrames, PieceMode, Quoting, failed, put, put_end};
use crate::dialect::ragflow::RunView;
use crate::error::ApiError;
use crate::path::Path;
use crate::sse;
use crate::state::ServerState;
use crate::wire::chat_question::{ChatOptions, NATIVE, Said, conversation};
use crate::wire::completion::{CompletionRequest, ResponseMode, response_mode};
use crate::wire::envelope::{Success, respond};
use weft_app::chats::{self, ChatTurn, PLAIN};
use weft_app::new_session::NewSession;

/// Maximum number of documents that a metadata condition may select for one question.
const DOCUMENTS_MAX: usize = 10_000;

/// Prompt for related questions.
const RELATED: &str = "Think of questions that somebody who has asked the user's question would ask next. Give at \
most ten, short ones, in the language of the question, each on a line of its own and numbered: `1. …`. Give nothing else.";

/// `POST /api/v1/chats/{id}/completions`: a stream by default.
///
/// # Errors
/// 101, 102, 106 or 109; see the message.
pub(crate) async fn of_chat(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let chat = owned(&state, &caller, &id, no_access()).await?;
    complete(&state, &caller, chat, &headers, &body).await
}

/// `POST /api/v1/chat/completions`: with the assistant that the body names, or with a model alone.
///
/// # Errors
/// As [`of_chat`].
pub(crate) async fn of_named_chat(
    State(state): State<ServerState>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    if body.get("messages").is_none() && body.get("question").is_none() {
        return Err(ApiError::argument("required argument are missing: messages"));
    }
    let chat = match body.id("chat_id")? {
        Some(id) => owned(&state, &caller, &id, no_access()).await?,
        None if session_id(&body)?.is_some() => {
            return Err(ApiError::data("`chat_id` is required when `session_id` is provided."));
        }
        None => chats::unstored(&caller.tenant, PLAIN),
    };
    complete(&state, &caller, chat, &headers, &body).await
}

/// `POST /api/v1/chatbots/{id}/completions`: the same for pages that embed an assistant; sources are included only on
/// request.
///
/// # Errors
/// As [`of_chat`].
pub(crate) async fn of_chatbot(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut body: Body,
) -> Result<Response, ApiError> {
    let chat = owned(&state, &caller, &id, no_chatbot()).await?;
    body.0.entry("quote").or_insert(Json::Bool(false));
    if !caller.is_share() {
        return complete(&state, &caller, chat, &headers, &body).await;
    }
    let parameters = chats::parameters(&chat.settings.prompt_config);
    let parameters: Vec<String> = parameters.iter().map(|parameter| parameter.name.to_string()).collect();
    let body = of_visitor(&state, &caller, body, &parameters).await?;
    // Visitors cannot use idempotency keys: the key might be another visitor's, and would return that visitor's
    // answer.
    complete(&state, &caller, chat, &HeaderMap::new(), &body).await
}

fn no_chatbot() -> ApiError {
    ApiError::data("Authentication error: no access to this chatbot!")
}

/// `GET /api/v1/chatbots/{id}/info`: what a page shows of an assistant before the first question.
///
/// # Errors
/// 102 for one that is not the caller's.
pub(crate) async fn chatbot(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let Chat { name, settings, .. } = owned(&state, &caller, &id, no_chatbot()).await?;
    let web = !chats::text(&settings.prompt_config, "tavily_api_key").is_empty();
    let info = json!({
        "title": name,
        "avatar": settings.icon,
        "prologue": chats::text(&settings.prompt_config, "prologue"),
        "has_tavily_key": web,
        "has_web_search_provider": web,
        "llm_id": settings.llm_id,
    });
    Ok(Success(info).into_response())
}

/// Returns `session_id`, else `conversation_id`.
fn session_id(body: &Body) -> Result<Option<String>, ApiError> {
    match body.id("session_id")? {
        Some(id) => Ok(Some(id)),
        None => body.id("conversation_id"),
    }
}

pub(crate) async fn complete(
    state: &ServerState,
    caller: &Caller,
    chat: Chat,
    headers: &HeaderMap,
    sent: &Body,
) -> Result<Response, ApiError> {
    let body = &*chosen(caller, sent);
    let (before, asked) = match body.get("messages") {
        Some(messages) => conversation(messages, &NATIVE)?,
        None => (Vec::new(), body.text("question")?.unwrap_or_default()),
    };
    let mut session = session_id(body)?;
    if asked.trim().is_empty() {
        return match session {
            Some(_) => Err(ApiError::argument("required argument are missing: question")),
            None => greeting(state, caller, &chat, body).await,
        };
    }
    if body.flag("store_history_messages")? == Some(false) {
        if body.flag("pass_all_history_messages")? != Some(true) {
            let message = "`pass_all_history_messages` must be true when `store_history_messages` is false.";
            return Err(ApiError::data(message));
        }
        // A question that is not to be stored in the conversation gets one of its own.
        session = None;
    }
    // Read before anything starts, also when the answer comes whole.
    let pieces = if body.flag("legacy")? == Some(true) { PieceMode::SoFar } else { PieceMode::New };
    let turn = turn_of(state, caller, &chat, &ChatOptions::read(body)?, sent).await?;
    let request = question(body, caller, session, asked, ResponseMode::Stream)?.with_headers(headers)?;
    let request = asking(request, &chat, &turn, before)?;
    let (session, handle) = begin_turn(state, &chat.key, &request, UnknownSession::Refuse).await?;
    let mut about = ChatAnswer {
        run: handle.key.id.clone(),
        session: session.clone(),
        chat: chat.key.id,
        prompt: if caller.is_share() {
            // Visitors see the answers, but not the system prompt.
            String::new()
        } else {
            chats::text(&chat.settings.prompt_config, "system").to_owned()
        },
        quoting: if turn.quote { Quoting::Sources } else { Quoting::Nothing },
        started_ms: 0,
    };
    if request.response_mode == ResponseMode::Stream {
        return Ok(sse::respond(handle.entries, ChatFrames::new(about, pieces)));
    }
    let mut view = RunView::new(&handle.key.id, &session);
    let answer = answered(handle, &mut view).await?;
    about.started_ms = view.started_ms;
    Ok(match answer.failure() {
        // Clients read the code in the body, and expect this status even for failures.
        Some(reason) => respond(StatusCode::OK, &failed(reason)),
        None => Success(about.whole(&answer)).into_response(),
    })
}

/// Builds the request for a turn of an assistant. A new conversation begins with the opening text, unless earlier
/// messages are given.
pub(crate) fn asking(
    request: CompletionRequest,
    chat: &Chat,
    turn: &ChatTurn,
    before: Vec<Said>,
) -> Result<CompletionRequest, ApiError> {
    let mut opening = chats::opening(&chat.settings);
    opening.extend(before);
    let input = weft_core::TurnInput { inputs: turn.inputs()?, all_sources: turn.quote, ..request.input };
    Ok(CompletionRequest { input, opening: Some(opening), ..request })
}

/// Starts a conversation and returns its opening text, as clients without a question expect.
async fn greeting(
    state: &ServerState,
    caller: &Caller,
    chat: &Chat,
    body: &Body,
) -> Result<Response, ApiError> {
    let user_id = body.text("user_id")?.unwrap_or_else(|| caller.user_id.clone());
    let opening = chats::opening(&chat.settings);
    let new = NewSession { user_id: &user_id, name: "New session", before: &opening, id: None };
    let session = state.app.open_chat(&chat.key, new).await?;
    let about = ChatAnswer {
        run: RunId::from(""),
        session: session.key.id,
        chat: chat.key.id.clone(),
        prompt: String::new(),
        quoting: Quoting::Nothing,
        started_ms: session.created_ms,
    };
    let mut data = about.whole(&Answer::default());
    data["answer"] = opening.first().map(|(_, words)| words.as_str()).unwrap_or_default().into();
    // Without a run there is no message that it could identify.
    data["id"] = Json::Null;
    if response_mode(body, ResponseMode::Stream)? == ResponseMode::Whole {
        return Ok(Success(data).into_response());
    }
    let mut out = Vec::new();
    put(&mut out, None, &data);
    put_end(&mut out);
    Ok(sse::event_stream(out.into()))
}

/// Builds the input of a turn: the assistant's settings, overridden by those of the request.
///
/// # Errors
/// 101 or 102 with the API's message for a value that is not valid.
pub(crate) async fn turn_of(
    state: &ServerState,
    caller: &Caller,
    chat: &Chat,
    options: &ChatOptions,
    body: &Body,
) -> Result<ChatTurn, ApiError> {
    let prompt = &chat.settings.prompt_config;
    let wanted = options.datasets.as_ref().unwrap_or(&chat.settings.datasets);
    let datasets = state.app.there(&caller.tenant, wanted).await?;
    // Datasets of the assistant may have been removed since, and its answer says so; an unknown dataset in a request
    // is an error.
    if options.datasets.is_some()
        && let Some(foreign) = wanted.iter().find(|id| !datasets.contains(id))
    {
        return Err(ApiError::data(format!("You don't own the dataset {foreign}")));
    }
    if let Some(llm_id) = &options.llm_id {
        let checked = state.app.check_model(&caller.tenant, llm_id);
        checked.map_err(|_| ApiError::data(format!("Cannot use specified model {llm_id}.")))?;
    }
    let documents = match &options.filter {
        None => options.documents.clone(),
        Some(filter) => Some(fitting(state, caller, &datasets, filter, options.documents.as_deref()).await?),
    };
    let mut variables = Vec::new();
    for parameter in chats::parameters(prompt) {
        let value = body.get(&parameter.name).map(weft_core::value::to_text);
        // `knowledge` is filled in by the retrieval.
        if value.is_none() && !parameter.optional && parameter.name != "knowledge" {
            return Err(ApiError::data(format!("Miss parameter: {}", parameter.name)));
        }
        variables.push(value.unwrap_or_default());
    }
    Ok(ChatTurn {
        variables,
        datasets_gone: datasets.is_empty() && !wanted.is_empty(),
        datasets,
        documents,
        empty_response: chats::text(prompt, "empty_response").to_owned(),
        quote: options.quote.unwrap_or_else(|| chats::flag(prompt.get("quote"))),
        date_given: body.get("date").is_some(),
        reasoning: chats::strategy(options.reasoning.as_ref().or_else(|| prompt.get("reasoning"))),
        llm_id: options.llm_id.clone(),
        llm_setting: options.llm_setting.clone(),
        system: None,
    })
}

/// Returns the documents that match a condition, among the named ones or among all.
async fn fitting(
    state: &ServerState,
    caller: &Caller,
    datasets: &[String],
    filter: &Filter,
    named: Option<&[String]>,
) -> Result<Vec<String>, ApiError> {
    let mut fitting = Vec::new();
    let named: Option<HashSet<&str>> = named.map(|named| named.iter().map(String::as_str).collect());
    let chosen = |id: &DocumentId| named.as_ref().is_none_or(|named| named.contains(id.as_str()));
    for id in datasets {
        let key = DatasetKey::new(&caller.tenant, id.as_str());
        metadata::each(state, &key, |head| {
            // One more than the maximum is enough to detect that there are too many.
            if fitting.len() <= DOCUMENTS_MAX && chosen(&head.id) && filter.matches(&head.metadata) {
                fitting.push(head.id.to_string());
            }
        })
        .await?;
    }
    if fitting.len() > DOCUMENTS_MAX {
        let message =
            format!("metadata_condition matches more than {DOCUMENTS_MAX} documents; make it narrower.");
        return Err(ApiError::data(message));
    }
    Ok(fitting)
}

/// `POST /api/v1/chat/recommendation`: questions that a user might ask next.
///
/// # Errors
/// 101 without a question; when the model fails.
pub(crate) async fn related(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let Some(asked) = body.text("question")?.filter(|question| !question.trim().is_empty()) else {
        return Err(ApiError::argument("question is required."));
    };
    let system = match body.text("industry")? {
        Some(industry) if !industry.trim().is_empty() => {
            format!("{RELATED} They work in this field: {industry}.")
        }
        _ => RELATED.to_owned(),
    };
    let chat = chats::unstored(&caller.tenant, PLAIN);
    let turn = ChatTurn { system: Some(system), ..ChatTurn::default() };
    let request = question(&body, &caller, None, asked, ResponseMode::Whole)?;
    let said = said_once(&state, &caller, &chat, &turn, request).await?;
    Ok(Success(numbered(&said)).into_response())
}

/// Returns an assistant's answer to a single question. Nothing is stored.
///
/// # Errors
/// When the model fails.
pub(super) async fn said_once(
    state: &ServerState,
    caller: &Caller,
    chat: &Chat,
    turn: &ChatTurn,
    request: CompletionRequest,
) -> Result<String, ApiError> {
    let session = SessionId::generate();
    let request = CompletionRequest {
        session: Some(session.clone()),
        // The conversation is deleted at the end, so a repetition has no stored answer to return.
        idempotency_key: None,
        ..asking(request, chat, turn, Vec::new())?
    };
    let (of_task, key, session) = (state.clone(), chat.key.clone(), SessionKey::new(&caller.tenant, session));
    let said = async move |given_up: CancellationToken| {
        let answer = single_answer(&of_task, &key, &request, &given_up).await;
        forget(&of_task, &session).await;
        answer
    };
    let answer = state.app.whole(said).await??;
    match answer.failure() {
        Some(reason) => Err(ApiError::new(crate::error::code::FAILED, reason)),
        None => Ok(answer.text()),
    }
}

/// The answer to the first question of a conversation. The run is stopped when nothing waits for the answer any more.
async fn single_answer(
    state: &ServerState,
    chat: &CanvasKey,
    request: &CompletionRequest,
    given_up: &CancellationToken,
) -> Result<Answer, ApiError> {
    let (session, handle) = begin_turn(state, chat, request, UnknownSession::Begin).await?;
    let mut view = RunView::new(&handle.key.id, &session);
    let cancel = handle.cancel.clone();
    let mut answer = std::pin::pin!(answered(handle, &mut view));
    tokio::select! {
        answer = &mut answer => answer,
        () = given_up.cancelled() => {
            cancel.cancel();
            // Waits until nothing of the run is under way before its conversation is deleted.
            answer.await
        }
    }
}

/// Returns the lines of the form `1. text`, without their numbers.
fn numbered(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (number, rest) = line.trim().split_once(['.', ')'])?;
        let counts = !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit());
        (counts && !rest.trim().is_empty()).then(|| rest.trim().to_owned())
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn numbered_lines_become_related_questions() {
        let text = "Here:\n1. What is 2.5?\n 2) Why?\n\n3.\n- no\n10. Last one";
        assert_eq!(numbered(text), ["What is 2.5?", "Why?", "Last one"]);
    }
}
