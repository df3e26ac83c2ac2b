//! Every route on one screen.

use std::any::Any;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::Uri;
use axum::middleware::map_request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, patch, post, put};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, CorsLayer};
use tower_http::trace::TraceLayer;

use crate::config::Auth;
use crate::error::{ApiError, no_method, no_route};
use crate::routes::{
    again, agents, canvas, chunks, completions, conversations, datasets, documents, graph, health, metadata,
    models, openai, parsing, retrieval, runs, schedules, sessions, spending, tasks, tokens, traces, uploads,
};
use crate::state::ServerState;

/// The HTTP face of an app.
pub fn router(state: ServerState) -> Router {
    let cors = match state.auth {
        // Pages may ask from anywhere: they need a token. Its header has to be allowed by name, `*` stands
        // for all others.
        Auth::On => Some(CorsLayer::permissive().allow_headers(AllowHeaders::mirror_request())),
        Auth::Off => None,
    };
    let body_max = state.app.limits.body_bytes;
    let routes = public()
        .merge(of_agents())
        .merge(of_schedules())
        .merge(of_runs())
        .merge(of_tokens())
        .nest("/api/v1/datasets", of_datasets())
        .nest("/api/v1/datasets/{id}", of_documents(state.app.limits.upload_bytes))
        .merge(of_searches())
        .nest("/v1/canvas", of_canvases())
        .nest("/api/canvas", of_canvases())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(body_max))
        .layer(CatchPanicLayer::custom(caught))
        .layer(TraceLayer::new_for_http().make_span_with(span))
        .with_state(state);
    let routes = match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    // Around the routes, since a path is matched before the layers of its own router see it.
    Router::new().fallback_service(routes).layer(map_request(without_trailing_slash))
}

/// Whoever reaches the server may ask these.
fn public() -> Router<ServerState> {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/api/v1/system/ping", get(health::ping))
        .route("/api/v1/system/version", get(health::version))
}

fn of_agents() -> Router<ServerState> {
    Router::new()
        .route("/api/v1/models", get(models::list))
        .route("/api/v1/spending", get(spending::list))
        .route("/api/v1/agents", get(agents::list).post(agents::create))
        .route(
            "/api/v1/agents/{id}",
            get(agents::get).put(agents::update).patch(agents::update).delete(agents::delete),
        )
        .route("/api/v1/agents/{id}/reset", post(canvas::reset_agent))
        .route(
            "/api/v1/agents/{id}/sessions",
            get(sessions::list).post(sessions::create).delete(sessions::delete),
        )
        .route("/api/v1/agents/{id}/sessions/{session}", get(sessions::get).delete(sessions::delete_one))
        .route("/api/v1/agents/{id}/logs/{message}", get(traces::of_agent))
        .route("/api/v1/agents/{id}/completions", post(completions::of_agent))
        .route("/api/v1/agents/chat/completions", post(completions::of_named_agent))
        .route("/api/v1/agents_openai/{id}/chat/completions", post(openai::of_agent))
        .route("/api/v1/completion", post(conversations::complete))
        .route("/v1/api/completion", post(conversations::complete))
}

fn of_schedules() -> Router<ServerState> {
    Router::new()
        .route("/api/v1/agents/{id}/schedules", get(schedules::list).post(schedules::create))
        .route(
            "/api/v1/agents/{id}/schedules/{schedule}",
            get(schedules::get).put(schedules::update).patch(schedules::update).delete(schedules::delete),
        )
        .route("/api/v1/agents/{id}/schedules/{schedule}/run", post(schedules::run))
        .route("/api/v1/agents/{id}/schedules/{schedule}/runs", get(schedules::runs))
}

fn of_datasets() -> Router<ServerState> {
    Router::new()
        .route("/", get(datasets::list).post(datasets::create).delete(datasets::delete))
        .route("/{id}", get(datasets::get).put(datasets::update).patch(datasets::update))
}

fn of_documents(upload_max: usize) -> Router<ServerState> {
    // Files are larger than everything else, and are not read into memory together.
    let upload = post(uploads::upload).layer(DefaultBodyLimit::max(upload_max));
    let documents = upload.merge(get(documents::list).delete(documents::delete));
    Router::new()
        .route("/knowledge_graph", get(graph::get).delete(graph::delete))
        .route("/metadata/summary", get(metadata::summary))
        .route("/metadata/update", post(metadata::update))
        .route("/metadata/config", get(metadata::get_config).put(metadata::set_config))
        .route("/auto_metadata", get(metadata::get_config).put(metadata::set_config))
        .route("/chunks", post(parsing::start).delete(parsing::stop))
        .route("/documents", documents)
        .route("/documents/parse", post(parsing::parse))
        .route("/documents/stop", post(parsing::halt))
        .route("/documents/metadatas", patch(metadata::update))
        .route(
            "/documents/{document}",
            get(documents::download).put(documents::update).patch(documents::update),
        )
        .route("/documents/{document}/metadata/config", put(metadata::set_document_config))
        .route(
            "/documents/{document}/chunks",
            get(chunks::list).post(chunks::add).patch(chunks::switch).delete(chunks::delete),
        )
        .route(
            "/documents/{document}/chunks/{chunk}",
            get(chunks::get).put(chunks::update).patch(chunks::update),
        )
}

fn of_searches() -> Router<ServerState> {
    Router::new()
        .route("/api/v1/retrieval", post(retrieval::search))
        .route("/api/v1/dify/retrieval", post(retrieval::of_dify))
}

fn of_runs() -> Router<ServerState> {
    Router::new()
        .route("/api/v1/runs", get(runs::list))
        .route("/api/v1/runs/{id}", get(runs::get))
        .route("/api/v1/runs/{id}/events", get(runs::events))
        .route("/api/v1/runs/{id}/replay", post(again::replay))
        .route("/api/v1/runs/{id}/fork", post(again::fork))
        .route("/api/v1/runs/{id}/diff", get(again::diff))
        .route("/api/v1/tasks", get(tasks::list))
        .route("/api/v1/tasks/{id}", get(tasks::get).patch(runs::change))
        .route("/api/v1/tasks/{id}/answer", post(tasks::answer))
        .route("/api/v1/tasks/{id}/cancel", post(runs::cancel))
}

fn of_tokens() -> Router<ServerState> {
    Router::new()
        .route("/api/v1/system/tokens", get(tokens::list).post(tokens::create))
        .route("/api/v1/system/tokens/{token}", delete(tokens::remove))
        // The older names.
        .route("/v1/system/new_token", post(tokens::create))
        .route("/v1/system/token_list", get(tokens::list))
        .route("/v1/system/token/{token}", delete(tokens::remove))
}

fn of_canvases() -> Router<ServerState> {
    Router::new()
        .route("/set", post(canvas::set))
        .route("/get/{id}", get(canvas::get))
        .route("/list", get(canvas::list))
        .route("/rm", post(canvas::remove))
        .route("/reset", post(canvas::reset))
        .route("/completion", post(canvas::complete))
        .route("/cancel/{id}", put(runs::cancel))
        .route("/trace", get(traces::of_canvas))
}

/// Method and path; no query, no headers, no body.
fn span(request: &Request) -> tracing::Span {
    tracing::info_span!("http", method = %request.method(), path = request.uri().path())
}

#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn caught(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let reason = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ApiError::internal(reason.unwrap_or("a panic without words")).into_response()
}

async fn without_trailing_slash(mut request: Request) -> Request {
    let path = request.uri().path();
    let trimmed = path.trim_end_matches('/');
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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;

    async fn boom() {
        panic!("a secret detail");
    }

    #[tokio::test]
    async fn a_panic_is_an_envelope_without_its_words() {
        let router = Router::new().route("/", get(boom)).layer(CatchPanicLayer::custom(caught));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(body["code"], 100);
        assert!(!body["message"].as_str().unwrap().contains("secret"), "{body}");
    }

    #[tokio::test]
    async fn trailing_slashes_are_taken_off_and_queries_kept() {
        let path = async |uri: &'static str| {
            let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            without_trailing_slash(request).await.uri().to_string()
        };
        assert_eq!(path("/a/b/?x=/").await, "/a/b?x=/");
        assert_eq!(path("/a//").await, "/a");
        assert_eq!(path("/").await, "/");
        assert_eq!(path("/a").await, "/a");
    }
}
