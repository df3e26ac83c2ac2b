//! A scripted model behind a real HTTP server on loopback, speaking the protocol of a provider.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;
use weft_core::seam::chat_model::ChatRequest;
use weft_core::{Error, ErrorKind};
use weft_models::script::{Failure, Fault, Playback, Reply, Script, Step};

use crate::mock_wires::{Wire, WireWriter};

/// Maximum number of requests that are recorded.
const REQUESTS_REMEMBERED_MAX: usize = 10_000;

/// A server that answers by a script. It stops when it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    /// The `base_url` for a model entry.
    pub base_url: String,
    state: Arc<Mutex<ScriptedPlay>>,
    /// Aborts the server task on drop.
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct ScriptedPlay {
    wire: Wire,
    playback: Playback,
    requests: Vec<SeenRequest>,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenRequest {
    /// Path and query.
    pub path: String,
    /// The key it was sent with, in whichever header the protocol uses.
    pub key: Option<String>,
    /// The requested model.
    pub model: String,
    /// The body.
    pub body: Json,
    /// Its messages and tools, as far as scripts look at them: authors, texts, names and schemas.
    pub messages: ChatRequest,
}

impl ScriptedServer {
    /// Starts a server with the OpenAI protocol.
    ///
    /// # Panics
    /// If no port of the loopback address can be opened.
    pub async fn start(script: Script) -> Self {
        Self::speaking(Wire::OpenAi, script).await
    }

    /// Starts a server with this protocol.
    ///
    /// # Panics
    /// If no port of the loopback address can be opened.
    pub async fn speaking(wire: Wire, script: Script) -> Self {
        Self::playing(wire, Playback::new(script)).await
    }

    /// Starts a server that computes each reply from the request, as far as [`SeenRequest::messages`] contains it, and
    /// from the number of requests before it.
    ///
    /// # Panics
    /// If no port of the loopback address can be opened.
    pub async fn from_fn(
        wire: Wire,
        answerer: impl Fn(&ChatRequest, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::playing(wire, Playback::from_fn(answerer)).await
    }

    #[expect(clippy::expect_used, reason = "a test without its server cannot go on")]
    async fn playing(wire: Wire, playback: Playback) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
        let address = listener.local_addr().expect("the address of an open port");
        let played = ScriptedPlay { wire, playback, requests: Vec::new() };
        let state = Arc::new(Mutex::new(played));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Serving ends only when the task is aborted.
            let _ended = axum::serve(listener, router).await;
        });
        Self { base_url: format!("http://{address}{}", wire.base_path()), state, _tasks: tasks }
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }
}

async fn answer(
    State(state): State<Arc<Mutex<ScriptedPlay>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let (wire, seen, reply) = {
        let mut played = state.lock().unwrap_or_else(PoisonError::into_inner);
        let wire = played.wire;
        let Some(seen) = seen(wire, &uri, &headers, &body) else {
            return refuse(&Error::invalid("the body is not JSON").into_failure());
        };
        if played.requests.len() < REQUESTS_REMEMBERED_MAX {
            played.requests.push(seen.clone());
        }
        let reply = played.playback.next(&seen.model, &seen.messages);
        (wire, seen, reply)
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return refuse(&error.into_failure()),
    };
    match reply.steps().first() {
        Some(Step::Error(failure)) => {
            tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
            refuse(failure)
        }
        Some(Step::Fault(Fault::Garbage)) => {
            respond(StatusCode::OK, "text/html", Body::from("<html><body>It works!</body></html>"))
        }
        _ => respond(StatusCode::OK, wire.content_type(), Body::from_stream(play(wire, &seen, &reply))),
    }
}

trait IntoFailure {
    fn into_failure(self) -> Failure;
}

impl IntoFailure for Error {
    fn into_failure(self) -> Failure {
        Failure { kind: self.kind, message: self.full(), retry_after_ms: None }
    }
}

fn seen(wire: Wire, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Option<SeenRequest> {
    let body: Json = serde_json::from_slice(body).ok()?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let key = header("authorization")
        .map(|value| value.trim_start_matches("Bearer ").to_owned())
        .or_else(|| header("x-api-key"))
        .or_else(|| header("x-goog-api-key"));
    Some(SeenRequest {
        path: uri.to_string(),
        key,
        model: wire.model(uri.path(), &body),
        messages: wire.messages(&body),
        body,
    })
}

fn play(
    wire: Wire,
    seen: &SeenRequest,
    reply: &Reply,
) -> impl Stream<Item = Result<String, std::io::Error>> + use<> {
    let usage = (!reply.unmetered).then(|| reply.usage_for(&seen.messages));
    let mut writer = WireWriter::new(wire, &seen.model, usage);
    let pause = Duration::from_millis(reply.delay_ms);
    let mut frames: Vec<(Duration, Result<String, Fault>)> = vec![(Duration::ZERO, Ok(writer.begin()))];
    let mut whole = true;
    for step in reply.steps() {
        match step {
            Step::Wait(ms) => frames.push((Duration::from_millis(ms), Ok(String::new()))),
            Step::Error(failure) => {
                frames.push((pause, Ok(writer.error(&error_object(&failure)))));
                whole = false;
            }
            Step::Fault(Fault::Garbage) => {
                frames.push((pause, Ok(writer.garbage())));
                whole = false;
            }
            Step::Fault(Fault::Cut) => {
                frames.push((pause, Err(Fault::Cut)));
                whole = false;
            }
            said => frames.extend(writer.say(&said).into_iter().map(|frame| (pause, Ok(frame)))),
        }
        if !whole {
            break;
        }
    }
    if whole {
        frames.push((Duration::ZERO, Ok(writer.end(reply.stop_reason()))));
    }
    stream::iter(frames).then(|(pause, frame)| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if frame.is_err() {
            // Lets the frames so far be sent first.
            tokio::task::yield_now().await;
        }
        frame.map_err(|_cut| std::io::Error::other("cut off by the script"))
    })
}

fn respond(status: StatusCode, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Ok(value) = content_type.parse() {
        response.headers_mut().insert("content-type", value);
    }
    response
}

fn refuse(failure: &Failure) -> Response<Body> {
    let status = match failure.kind {
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::RateLimited | ErrorKind::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    let body = json!({"error": error_object(failure)}).to_string();
    let mut response = respond(status, "application/json", Body::from(body));
    if let Some(wait) = failure.retry_after_ms {
        response.headers_mut().insert("retry-after-ms", wait.into());
        response.headers_mut().insert("retry-after", wait.div_ceil(1000).into());
    }
    response
}

fn error_object(failure: &Failure) -> Json {
    let code = match failure.kind {
        ErrorKind::Unauthenticated => "invalid_api_key",
        ErrorKind::RateLimited => "rate_limit_exceeded",
        ErrorKind::QuotaExceeded => "insufficient_quota",
        ErrorKind::Filtered => "content_filter",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Unavailable | ErrorKind::Internal => "server_error",
        _ => "invalid_request_error",
    };
    json!({"message": failure.message, "type": code, "code": code})
}
