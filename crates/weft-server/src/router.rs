//! All routes in one place; those for accounts, for editors of canvases and for older clients are in submodules.

mod accounts;
mod canvases;
mod files;
mod methods;
mod older;
mod tool_servers;

use std::any::Any;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::http::Uri;
use axum::middleware::{from_fn_with_state, map_request, map_request_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, CorsLayer};
use tower_http::trace::TraceLayer;

use self::accounts::{of_audit, of_shares, of_tenants, of_tokens, of_users};
use self::canvases::{of_canvases, of_editing};
use self::files::of_files;
use self::methods::{DELETE, GET, PATCH, POST, PUT};
use self::older::{of_any_documents, of_offers, of_readings};
use self::tool_servers::of_tool_servers;
use crate::audit::{record_requests, shown_path};
use crate::client_address::name_client;
use crate::error::{ApiError, no_method, no_openai_method, no_route};
use crate::handler::{BoxedHandler, ResponseFuture, on};
use crate::metrics::count_requests;
use crate::openapi::accounts as of_account;
use crate::openapi::agents as of_agent;
use crate::openapi::chats as of_chat;
use crate::openapi::datasets as of_dataset;
use crate::openapi::mcp as of_mcp;
use crate::openapi::memories as of_memory;
use crate::openapi::responses as of_response;
use crate::openapi::runs as of_run;
use crate::openapi::schedules as of_schedule;
use crate::openapi::searches as of_search;
use crate::openapi::versions as of_version;
use crate::openapi::webhooks as of_webhook;
use crate::openapi::{Documented, MethodFilter, Routes};
use crate::routes::{
    ag_ui, agents, attachments, canvas, chat_completions, chat_openai, chat_sessions, chats, chunks,
    completions, components, conversations, dataset_tasks, datasets, documents, graph, health, mcp, memories,
    metadata, metrics, models, openai, openapi, parsing, past_runs, responses, retrieval, runs, schedules,
    searches, secrets, sessions, speech, spending, tasks, templates, traces, uploads, usage, users, versions,
    webhook_logs, webhooks,
};
use crate::state::ServerState;
use crate::upload_memory::hold_bodies;
use weft_app::config::Auth;

/// Builds the HTTP router of an app.
pub fn router(state: ServerState) -> Router {
    let cors = match state.auth {
        // Pages of any origin may send requests, because they need a token. `Authorization` has to be allowed by
        // name; `*` does not cover it.
        Auth::On => Some(CorsLayer::permissive().allow_headers(AllowHeaders::mirror_request())),
        // Without tokens, pages of other origins must not read any answer.
        Auth::Off => None,
    };
    let body_max = state.app.limits.body_bytes;
    let (routes, _) = all(state.app.limits.upload_bytes).into_parts();
    let routes = routes
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(body_max))
        .layer(from_fn_with_state(state.clone(), hold_bodies))
        // Inside the tracing and the audit layers, so that both see a panic with its request.
        .layer(CatchPanicLayer::custom(caught))
        .layer(from_fn_with_state(state.clone(), record_requests))
        .layer(TraceLayer::new_for_http().make_span_with(span))
        // Outside of those above, so that what they answer is counted, too.
        .layer(from_fn_with_state(state.clone(), count_requests))
        .layer(map_request_with_state(state.clone(), name_client))
        .with_state(state);
    let routes = match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    // Outside of the router, because a path is matched before the router's own layers run.
    Router::new().fallback_service(routes).layer(map_request(without_trailing_slash))
}

/// Returns all routes with their descriptions.
pub fn documented() -> Vec<Documented> {
    // The upload limit is not part of the documentation.
    all(0).into_parts().1
}

fn all(upload_max: usize) -> Routes {
    public()
        .merge(of_agents())
        .merge(of_versions())
        .merge(of_editing())
        .merge(of_attachments(upload_max))
        .merge(of_files(upload_max))
        .merge(of_speech(upload_max))
        .merge(of_sessions())
        .nest("/v1/responses", of_responses())
        .nest("/api/v1/responses", of_responses())
        .merge(of_chats())
        .merge(of_search_apps())
        .merge(of_webhooks())
        .merge(of_schedules())
        .merge(of_runs())
        .merge(of_tasks())
        .nest("/api/v1/datasets", of_datasets())
        .nest("/api/v1/datasets/{id}", of_documents(upload_max))
        .nest("/api/v1/datasets/{id}", of_readings())
        .merge(of_any_documents())
        .merge(of_offers())
        .merge(of_tool_servers())
        .merge(of_searches())
        .merge(of_memories())
        .merge(of_secrets())
        .merge(of_tokens())
        .merge(of_users())
        .merge(of_tenants())
        .merge(of_shares())
        .merge(of_audit())
        .merge(of_mcp())
        .nest("/v1/canvas", of_canvases())
        .nest("/api/canvas", of_canvases())
}

/// A path of OpenAI's clients: they would take the response of other routes to a wrong method for a success.
fn for_openai<H, T>(method: MethodFilter, handler: H) -> MethodRouter<ServerState>
where
    H: Handler<T, ServerState, Future = ResponseFuture>,
{
    on(method, handler).fallback(no_openai_method)
}

/// Routes without authentication, except the metrics.
fn public() -> Routes {
    Routes::new("The server")
        .on(GET, "/", health::about, &of_run::ABOUT)
        .on(GET, "/healthz", health::alive, &of_run::ALIVE)
        .on(GET, "/readyz", health::ready, &of_run::READY)
        .on(GET, "/metrics", metrics::scrape, &of_run::METRICS)
        .on(GET, "/api/v1/system/ping", health::ping, &of_run::PING)
        .on(GET, "/api/v1/system/version", health::version, &of_run::VERSION)
        .on(GET, "/api/v1/system/config", users::settings, &of_account::SETTINGS)
        .on(GET, "/v1/system/config", users::settings, &of_account::SETTINGS)
        .on(GET, "/api/openapi.json", openapi::json, &of_run::OPENAPI)
        .on(GET, "/api/docs", openapi::html, &of_run::DOCS)
}

fn of_agents() -> Routes {
    Routes::new("Agents")
        .on(GET, "/api/v1/models", models::list, &of_run::LIST_MODELS)
        .on(GET, "/api/v1/components", components::list, &of_run::LIST_COMPONENTS)
        .on(GET, "/api/v1/components/{name}", components::get, &of_run::GET_COMPONENT)
        .on(GET, "/api/v1/plugins", components::plugins, &of_run::LIST_PLUGINS)
        .on(GET, "/api/v1/spending", spending::list, &of_run::SPENDING)
        .on(GET, "/api/v1/usage", usage::list, &of_run::USAGE)
        .on(GET, "/api/v1/agents", agents::list, &of_agent::LIST)
        .on(POST, "/api/v1/agents", agents::create, &of_agent::CREATE)
        .on(GET, "/api/v1/agents/templates", templates::list, &of_version::LIST_TEMPLATES)
        .on(POST, "/api/v1/agents/templates/{id}", templates::begin, &of_version::BEGIN)
        .on(GET, "/api/v1/agents/{id}", agents::get, &of_agent::GET)
        .on(PUT, "/api/v1/agents/{id}", agents::update, &of_agent::UPDATE)
        .on(PATCH, "/api/v1/agents/{id}", agents::update, &of_agent::UPDATE)
        .on(DELETE, "/api/v1/agents/{id}", agents::delete, &of_agent::DELETE)
        .on(POST, "/api/v1/agents/{id}/reset", canvas::reset_agent, &of_agent::RESET)
        .on(GET, "/api/v1/agents/{id}/logs/{message}", traces::of_agent, &of_agent::TRACE)
}

fn of_versions() -> Routes {
    let version = "/api/v1/agents/{id}/versions/{version}";
    Routes::new("Versions of agents")
        .on(GET, "/api/v1/agents/tags", versions::list_tags, &of_version::LIST_TAGS)
        .on(PUT, "/api/v1/agents/{id}/tags", versions::set_tags, &of_version::SET_TAGS)
        .on(POST, "/api/v1/agents/import", versions::import, &of_version::IMPORT)
        .on(GET, "/api/v1/agents/{id}/export", versions::export, &of_version::EXPORT)
        .on(GET, "/api/v1/agents/{id}/versions", versions::list, &of_version::LIST)
        .on(GET, version, versions::get, &of_version::GET)
        .on(PUT, version, versions::update, &of_version::UPDATE)
        .on(PATCH, version, versions::update, &of_version::UPDATE)
        .on(POST, "/api/v1/agents/{id}/versions/{version}/restore", versions::restore, &of_version::RESTORE)
        .on(GET, "/api/v1/agents/{id}/versions/{version}/diff", versions::diff, &of_version::DIFF)
        .on(PUT, "/api/v1/agents/{id}/labels/{label}", versions::label, &of_version::LABEL)
        .on(DELETE, "/api/v1/agents/{id}/labels/{label}", versions::remove_label, &of_version::REMOVE_LABEL)
}

fn of_attachments(upload_max: usize) -> Routes {
    let upload = || BoxedHandler::limited(DefaultBodyLimit::max(upload_max), attachments::upload);
    Routes::new("Files of conversations")
        .on(POST, "/api/v1/agents/{id}/upload", upload(), &of_agent::UPLOAD)
        .on(GET, "/api/v1/agents/download", attachments::download_named, &of_agent::DOWNLOAD_NAMED)
        .on(GET, "/api/v1/agents/attachments/{id}/download", attachments::download, &of_agent::DOWNLOAD)
        .on(GET, "/api/v1/agents/attachments/{id}/preview", attachments::download, &of_agent::DOWNLOAD)
        // Older names.
        .on(POST, "/v1/canvas/upload/{id}", upload(), &of_agent::UPLOAD)
        .on(GET, "/v1/canvas/download", attachments::download_named, &of_agent::DOWNLOAD_NAMED)
        .on(GET, "/api/v1/file/download/{id}", attachments::download, &of_agent::DOWNLOAD)
        .on(GET, "/v1/document/download/{id}", attachments::download, &of_agent::DOWNLOAD)
}

fn of_speech(upload_max: usize) -> Routes {
    let transcribe = || BoxedHandler::limited(DefaultBodyLimit::max(upload_max), speech::transcribe);
    Routes::new("Speech")
        .on(POST, "/api/v1/chat/audio/speech", speech::speak, &of_agent::SPEAK)
        .on(POST, "/api/v1/chat/audio/transcription", transcribe(), &of_agent::TRANSCRIBE)
        // Older names.
        .on(POST, "/api/v1/tts", speech::speak, &of_agent::SPEAK)
        .on(POST, "/api/v1/sequence2txt", transcribe(), &of_agent::TRANSCRIBE)
}

fn of_sessions() -> Routes {
    let openai = for_openai(POST, openai::of_agent);
    Routes::new("Sessions and answers")
        .on(GET, "/api/v1/agents/{id}/sessions", sessions::list, &of_agent::LIST_SESSIONS)
        .on(POST, "/api/v1/agents/{id}/sessions", sessions::create, &of_agent::CREATE_SESSION)
        .on(DELETE, "/api/v1/agents/{id}/sessions", sessions::delete, &of_agent::DELETE_SESSIONS)
        .on(GET, "/api/v1/agents/{id}/sessions/{session}", sessions::get, &of_agent::GET_SESSION)
        .on(DELETE, "/api/v1/agents/{id}/sessions/{session}", sessions::delete_one, &of_agent::DELETE_SESSION)
        .on(POST, "/api/v1/agents/{id}/completions", completions::of_agent, &of_agent::COMPLETE)
        .on(POST, "/api/v1/agents/{id}/ag-ui", ag_ui::run, &of_agent::AG_UI)
        .on(POST, "/api/v1/agents/chat/completions", completions::of_named_agent, &of_agent::COMPLETE_NAMED)
        .with(POST, "/api/v1/agents_openai/{id}/chat/completions", openai, &of_agent::COMPLETE_OPENAI)
        .on(POST, "/api/v1/completion", conversations::complete, &of_agent::COMPLETE_CONVERSATION)
        .on(POST, "/v1/api/completion", conversations::complete, &of_agent::COMPLETE_CONVERSATION)
}

/// A call may use any method; the canvas decides which ones it accepts, and the size of the body.
fn of_webhooks() -> Routes {
    let (call, test) = (&of_webhook::CALL, &of_webhook::TEST);
    let mut routes = Routes::new("Webhooks");
    for method in [GET, POST, PUT, PATCH, DELETE] {
        let called = || BoxedHandler::limited(DefaultBodyLimit::disable(), webhooks::call);
        let tested = || BoxedHandler::limited(DefaultBodyLimit::disable(), webhooks::test);
        routes = routes
            .on(method, "/api/v1/agents/{id}/webhook", called(), call)
            .on(method, "/api/v1/agents/{id}/webhook/test", tested(), test)
            // Older names.
            .on(method, "/api/v1/webhook/{id}", called(), call)
            .on(method, "/api/v1/webhook_test/{id}", tested(), test);
    }
    routes.on(GET, "/api/v1/agents/{id}/webhook/logs", webhook_logs::logs, &of_webhook::LOGS).on(
        GET,
        "/api/v1/webhook_trace/{id}",
        webhook_logs::logs,
        &of_webhook::LOGS,
    )
}

/// Below `/v1`, where OpenAI's clients expect them, as well as with all other routes.
fn of_responses() -> Routes {
    Routes::new("Responses")
        .with(POST, "/", for_openai(POST, responses::create), &of_response::CREATE)
        .with(GET, "/{id}", for_openai(GET, responses::get), &of_response::GET)
        // The path has its fallback already, and can have only one.
        .on(DELETE, "/{id}", responses::delete, &of_response::DELETE)
        .with(POST, "/{id}/cancel", for_openai(POST, responses::cancel), &of_response::CANCEL)
        .with(GET, "/{id}/input_items", for_openai(GET, responses::input_items), &of_response::INPUT_ITEMS)
}

fn of_chats() -> Routes {
    let openai = || for_openai(POST, chat_openai::of_chat);
    Routes::new("Chat assistants")
        .on(GET, "/api/v1/chats", chats::list, &of_chat::LIST)
        .on(POST, "/api/v1/chats", chats::create, &of_chat::CREATE)
        .on(DELETE, "/api/v1/chats", chats::delete, &of_chat::DELETE)
        .on(GET, "/api/v1/chats/{id}", chats::get, &of_chat::GET)
        .on(PUT, "/api/v1/chats/{id}", chats::update, &of_chat::UPDATE)
        .on(PATCH, "/api/v1/chats/{id}", chats::update, &of_chat::UPDATE)
        .on(DELETE, "/api/v1/chats/{id}", chats::delete_one, &of_chat::DELETE_ONE)
        .nest("/api/v1/chats/{id}/sessions", of_chat_sessions())
        .on(POST, "/api/v1/chats/{id}/completions", chat_completions::of_chat, &of_chat::COMPLETE)
        .on(POST, "/api/v1/chat/completions", chat_completions::of_named_chat, &of_chat::COMPLETE)
        .with(POST, "/api/v1/openai/{id}/chat/completions", openai(), &of_chat::COMPLETE_OPENAI)
        .on(POST, "/api/v1/chat/recommendation", chat_completions::related, &of_chat::RELATED)
        .on(GET, "/api/v1/chatbots/{id}/info", chat_completions::chatbot, &of_chat::CHATBOT)
        .on(POST, "/api/v1/chatbots/{id}/completions", chat_completions::of_chatbot, &of_chat::ASK_CHATBOT)
        // Older names.
        .with(POST, "/api/v1/chats_openai/{id}/chat/completions", openai(), &of_chat::COMPLETE_OPENAI)
        .on(POST, "/api/v1/sessions/related_questions", chat_completions::related, &of_chat::RELATED)
        .on(POST, "/api/v1/searchbots/related_questions", chat_completions::related, &of_chat::RELATED)
}

fn of_search_apps() -> Routes {
    Routes::new("Search apps")
        .on(GET, "/api/v1/searches", searches::list, &of_search::LIST)
        .on(POST, "/api/v1/searches", searches::create, &of_search::CREATE)
        .on(GET, "/api/v1/searches/{id}", searches::get, &of_search::GET)
        .on(PUT, "/api/v1/searches/{id}", searches::update, &of_search::UPDATE)
        .on(DELETE, "/api/v1/searches/{id}", searches::delete, &of_search::DELETE)
        .on(POST, "/api/v1/searches/{id}/completions", searches::of_search, &of_search::ASK)
        .on(POST, "/api/v1/searches/{id}/completion", searches::of_search, &of_search::ASK)
        .on(POST, "/api/v1/searchbots/ask", searches::of_searchbot, &of_search::ASK_ANY)
        .on(POST, "/api/v1/searchbots/mindmap", searches::mind_map, &of_search::MIND_MAP)
        .on(POST, "/api/v1/chat/mindmap", searches::mind_map, &of_search::MIND_MAP)
        .on(POST, "/api/v1/searchbots/retrieval_test", searches::found_by_searchbot, &of_search::FIND)
        .on(POST, "/api/v1/sessions/ask", searches::of_sessions, &of_search::ASK_DATASETS)
        .on(GET, "/api/v1/searchbots/detail", searches::searchbot, &of_search::DETAIL)
}

fn of_chat_sessions() -> Routes {
    let (message, feedback) = ("/{session}/messages/{message}", "/{session}/messages/{message}/feedback");
    Routes::new("Chat assistants")
        .on(GET, "/", chat_sessions::list, &of_chat::LIST_SESSIONS)
        .on(POST, "/", chat_sessions::create, &of_chat::CREATE_SESSION)
        .on(DELETE, "/", chat_sessions::delete, &of_chat::DELETE_SESSIONS)
        .on(GET, "/{session}", chat_sessions::get, &of_chat::GET_SESSION)
        .on(PUT, "/{session}", chat_sessions::update, &of_chat::UPDATE_SESSION)
        .on(PATCH, "/{session}", chat_sessions::update, &of_chat::UPDATE_SESSION)
        .on(DELETE, message, chat_sessions::delete_message, &of_chat::DELETE_MESSAGE)
        .on(PUT, feedback, chat_sessions::judge, &of_chat::JUDGE)
}

fn of_schedules() -> Routes {
    Routes::new("Schedules").nest(
        "/api/v1/agents/{id}/schedules",
        Routes::new("Schedules")
            .on(GET, "/", schedules::list, &of_schedule::LIST)
            .on(POST, "/", schedules::create, &of_schedule::CREATE)
            .on(GET, "/{schedule}", schedules::get, &of_schedule::GET)
            .on(PUT, "/{schedule}", schedules::update, &of_schedule::UPDATE)
            .on(PATCH, "/{schedule}", schedules::update, &of_schedule::UPDATE)
            .on(DELETE, "/{schedule}", schedules::delete, &of_schedule::DELETE)
            .on(POST, "/{schedule}/run", schedules::run, &of_schedule::RUN)
            .on(GET, "/{schedule}/runs", schedules::runs, &of_schedule::RUNS),
    )
}

fn of_datasets() -> Routes {
    Routes::new("Datasets")
        .on(GET, "/", datasets::list, &of_dataset::LIST)
        .on(POST, "/", datasets::create, &of_dataset::CREATE)
        .on(DELETE, "/", datasets::delete, &of_dataset::DELETE)
        .on(POST, "/search", retrieval::search_datasets, &of_dataset::SEARCH_DATASETS)
        .on(GET, "/{id}", datasets::get, &of_dataset::GET)
        .on(PUT, "/{id}", datasets::update, &of_dataset::UPDATE)
        .on(PATCH, "/{id}", datasets::update, &of_dataset::UPDATE)
}

fn of_documents(upload_max: usize) -> Routes {
    // Files are larger than other bodies, and are not read into memory as a whole.
    let upload = BoxedHandler::limited(DefaultBodyLimit::max(upload_max), uploads::upload);
    Routes::new("Documents and chunks")
        .on(POST, "/search", retrieval::search_dataset, &of_dataset::SEARCH_DATASET)
        .on(GET, "/knowledge_graph", graph::get, &of_dataset::GET_GRAPH)
        .on(DELETE, "/knowledge_graph", graph::delete, &of_dataset::DELETE_GRAPH)
        .on(POST, "/run_graphrag", dataset_tasks::run_graph, &of_dataset::RUN_GRAPH)
        .on(GET, "/trace_graphrag", dataset_tasks::trace_graph, &of_dataset::TRACE)
        .on(POST, "/run_raptor", dataset_tasks::run_raptor, &of_dataset::RUN_RAPTOR)
        .on(GET, "/trace_raptor", dataset_tasks::trace_raptor, &of_dataset::TRACE)
        .on(GET, "/metadata/summary", metadata::summary, &of_dataset::SUMMARY)
        .on(POST, "/metadata/update", metadata::update, &of_dataset::UPDATE_METADATA)
        .on(GET, "/metadata/config", metadata::get_config, &of_dataset::GET_CONFIG)
        .on(PUT, "/metadata/config", metadata::set_config, &of_dataset::SET_CONFIG)
        .on(GET, "/auto_metadata", metadata::get_older_config, &of_dataset::GET_CONFIG)
        .on(PUT, "/auto_metadata", metadata::set_older_config, &of_dataset::SET_CONFIG)
        .on(POST, "/chunks", parsing::start, &of_dataset::START)
        .on(DELETE, "/chunks", parsing::stop, &of_dataset::STOP)
        .on(POST, "/documents", upload, &of_dataset::UPLOAD)
        .on(GET, "/documents", documents::list, &of_dataset::LIST_DOCUMENTS)
        .on(DELETE, "/documents", documents::delete, &of_dataset::DELETE_DOCUMENTS)
        .on(POST, "/documents/parse", parsing::parse, &of_dataset::PARSE)
        .on(POST, "/documents/stop", parsing::halt, &of_dataset::HALT)
        .on(PATCH, "/documents/metadatas", metadata::update, &of_dataset::UPDATE_METADATA)
        .nest("/documents/{document}", of_document())
}

fn of_document() -> Routes {
    Routes::new("Documents and chunks")
        .on(GET, "/", documents::download, &of_dataset::DOWNLOAD)
        .on(PUT, "/", documents::update, &of_dataset::UPDATE_DOCUMENT)
        .on(PATCH, "/", documents::update, &of_dataset::UPDATE_DOCUMENT)
        .on(PUT, "/metadata/config", metadata::set_document_config, &of_dataset::SET_DOCUMENT_CONFIG)
        .on(GET, "/chunks", chunks::list, &of_dataset::LIST_CHUNKS)
        .on(POST, "/chunks", chunks::add, &of_dataset::ADD_CHUNK)
        .on(PATCH, "/chunks", chunks::switch, &of_dataset::SWITCH_CHUNKS)
        .on(DELETE, "/chunks", chunks::delete, &of_dataset::DELETE_CHUNKS)
        .on(GET, "/chunks/{chunk}", chunks::get, &of_dataset::GET_CHUNK)
        .on(PUT, "/chunks/{chunk}", chunks::update, &of_dataset::UPDATE_CHUNK)
        .on(PATCH, "/chunks/{chunk}", chunks::update, &of_dataset::UPDATE_CHUNK)
}

fn of_searches() -> Routes {
    let dify = "/api/v1/dify/retrieval";
    Routes::new("Searching")
        .on(POST, "/api/v1/retrieval", retrieval::search, &of_dataset::SEARCH)
        .on(POST, dify, retrieval::of_dify, &of_dataset::SEARCH_DIFY)
        .on(GET, dify, retrieval::of_dify_address, &of_dataset::SEARCH_DIFY_ADDRESS)
}

fn of_runs() -> Routes {
    Routes::new("Runs")
        .on(GET, "/api/v1/runs", runs::list, &of_run::LIST)
        .on(GET, "/api/v1/runs/{id}", runs::get, &of_run::GET)
        .on(GET, "/api/v1/runs/{id}/events", runs::events, &of_run::EVENTS)
        .on(POST, "/api/v1/runs/{id}/replay", past_runs::replay, &of_run::REPLAY)
        .on(POST, "/api/v1/runs/{id}/fork", past_runs::fork, &of_run::FORK)
        .on(GET, "/api/v1/runs/{id}/diff", past_runs::diff, &of_run::DIFF)
}

fn of_tasks() -> Routes {
    Routes::new("Tasks of people")
        .on(GET, "/api/v1/tasks", tasks::list, &of_run::LIST_TASKS)
        .on(GET, "/api/v1/tasks/{id}", tasks::get, &of_run::GET_TASK)
        .on(PATCH, "/api/v1/tasks/{id}", runs::change, &of_run::CHANGE_TASK)
        .on(POST, "/api/v1/tasks/{id}/answer", tasks::answer, &of_run::ANSWER_TASK)
        .on(POST, "/api/v1/tasks/{id}/cancel", runs::cancel, &of_run::CANCEL)
}

fn of_memories() -> Routes {
    Routes::new("Memories")
        .on(GET, "/api/v1/memories", memories::list, &of_memory::LIST)
        .on(POST, "/api/v1/memories", memories::create, &of_memory::CREATE)
        .on(GET, "/api/v1/memories/{id}", memories::messages, &of_memory::MESSAGES)
        .on(PUT, "/api/v1/memories/{id}", memories::update, &of_memory::UPDATE)
        .on(DELETE, "/api/v1/memories/{id}", memories::delete, &of_memory::DELETE)
        .on(GET, "/api/v1/memories/{id}/config", memories::config, &of_memory::CONFIG)
        .on(POST, "/api/v1/messages", memories::add, &of_memory::ADD)
        .on(GET, "/api/v1/messages", memories::recent, &of_memory::RECENT)
        .on(GET, "/api/v1/messages/search", memories::search, &of_memory::SEARCH)
        .on(PUT, "/api/v1/messages/{message}", memories::set_status, &of_memory::SET_STATUS)
        .on(DELETE, "/api/v1/messages/{message}", memories::forget, &of_memory::FORGET)
        .on(GET, "/api/v1/messages/{message}/content", memories::content, &of_memory::CONTENT)
}

fn of_secrets() -> Routes {
    Routes::new("Secrets")
        .on(GET, "/api/v1/secrets", secrets::list, &of_run::LIST_SECRETS)
        .on(PUT, "/api/v1/secrets/{name}", secrets::put, &of_run::PUT_SECRET)
        .on(DELETE, "/api/v1/secrets/{name}", secrets::remove, &of_run::DELETE_SECRET)
}

fn of_mcp() -> Routes {
    // The server sends nothing outside of a request, which clients learn from the answer to `GET`.
    let posted = on(POST, mcp::posted).get(BoxedHandler::new(mcp::no_stream));
    Routes::new("Model Context Protocol").with(POST, "/mcp", posted, &of_mcp::POST).on(
        DELETE,
        "/mcp",
        mcp::ended,
        &of_mcp::DELETE,
    )
}

/// The span of a request: method and path without tokens, and no query, headers and body.
fn span(request: &Request) -> tracing::Span {
    tracing::info_span!("http", method = %request.method(), path = shown_path(request.uri().path()))
}

#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn caught(panic: Box<dyn Any + Send>) -> Response {
    // A panic with a literal message holds a `&str`, one with format arguments a `String`.
    let text = panic.downcast_ref::<&str>().copied();
    let reason = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ApiError::internal(reason.unwrap_or("a panic without words")).into_response()
}

async fn without_trailing_slash(mut request: Request) -> Request {
    let path = request.uri().path();
    let single = without_empty_parts(path);
    let trimmed = single.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return request;
    }
    let target = match request.uri().query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    if let Ok(uri) = target.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request
}

/// Drops empty segments, so that a path with an empty id is answered like the path without it, as in the compatible
/// API.
fn without_empty_parts(path: &str) -> String {
    let mut single = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !single.ends_with('/') {
            single.push(letter);
        }
    }
    single
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    async fn boom() {
        panic!("a secret detail");
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error_response_without_its_message() {
        let router = Router::new().route("/", get(boom)).layer(CatchPanicLayer::custom(caught));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(body["code"], 100);
        assert!(!body["message"].as_str().unwrap().contains("secret"), "{body}");
    }

    #[tokio::test]
    async fn trailing_slashes_are_removed_and_queries_kept() {
        let path = async |uri: &'static str| {
            let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            without_trailing_slash(request).await.uri().to_string()
        };
        assert_eq!(path("/a/b/?x=/").await, "/a/b?x=/");
        assert_eq!(path("/a//").await, "/a");
        assert_eq!(path("/a//b?x=//").await, "/a/b?x=//");
        assert_eq!(path("/").await, "/");
        assert_eq!(path("/a").await, "/a");
    }
}
