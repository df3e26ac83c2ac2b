//! The fake over HTTP, with the current transport and the one of 2024. It runs on its own threads, so that it can be
//! killed together with all its connections.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream::{self, Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use weft_net::StreamRequest;
use weft_testkit::AuthorizationServer;

use crate::fake::{Fake, MESSAGES_MAX, Out, Taken};
use crate::kit::http;

/// State shared by all requests.
#[derive(Clone)]
pub(crate) struct Site {
    pub fake: Arc<Fake>,
    sessions: Arc<Mutex<HashMap<String, Option<Out>>>>,
    /// The method and the headers of every request.
    pub headers: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    /// Answers requests with streams.
    pub streams: Arc<AtomicBool>,
    /// Breaks off the stream of a call before its answer, which can be requested afterwards.
    pub breaks: Arc<AtomicBool>,
    /// Answers 400 for an unknown session.
    pub bad_request: Arc<AtomicBool>,
    /// The authorization server; by default no token is required.
    pub auth: AuthorizationServer,
    kept: Arc<Mutex<Vec<Value>>>,
    /// Where requests of the 2024 transport are sent instead.
    pub elsewhere: Arc<Mutex<Option<String>>>,
    numbers: Arc<AtomicUsize>,
    tasks: TaskTracker,
}

/// A running site.
pub(crate) struct HttpFake {
    pub site: Site,
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl HttpFake {
    pub(crate) fn start(fake: &Arc<Fake>) -> Self {
        let auth = AuthorizationServer::new("token");
        *auth.token.lock().unwrap() = None;
        let site = Site {
            fake: Arc::clone(fake),
            sessions: Arc::default(),
            headers: Arc::default(),
            streams: Arc::default(),
            breaks: Arc::default(),
            bad_request: Arc::default(),
            auth,
            kept: Arc::default(),
            elsewhere: Arc::default(),
            numbers: Arc::default(),
            tasks: TaskTracker::new(),
        };
        Self::at(site, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    fn at(site: Site, address: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let router = router(site.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
        Self { site, address, runtime: Some(runtime) }
    }

    /// Ends it with all its connections and sessions.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime may not be shut down on one of its own task threads.
            let ending = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(10)));
            ending.join().unwrap();
        }
        self.site.sessions.lock().unwrap().clear();
    }

    /// Starts a new one at the same address that does not know the old sessions.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        *self = Self::at(self.site.clone(), self.address);
        // When this is answered, the client has seen that the old connections are closed.
        let request =
            StreamRequest { method: "GET".into(), url: self.url("nowhere"), headers: vec![], body: vec![] };
        assert_eq!(http().open(request).await.unwrap().status, 404);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Forgets all sessions, as servers do after a while.
    pub(crate) fn forget(&self) {
        self.site.sessions.lock().unwrap().clear();
    }

    /// The values of a header in all requests to the MCP endpoint, and how many requests had none.
    pub(crate) fn sent(&self, name: &str) -> (Vec<String>, usize) {
        let headers = self.site.headers.lock().unwrap();
        let values: Vec<_> = headers
            .iter()
            .filter_map(|(_, headers)| {
                Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
            })
            .collect();
        let without = headers.len() - values.len();
        (values, without)
    }
}

impl Drop for HttpFake {
    fn drop(&mut self) {
        self.kill();
    }
}

fn router(site: Site) -> Router {
    let auth = site.auth.router();
    Router::new()
        .route("/mcp", post(posted).get(listening).delete(deleted))
        .route("/sse", get(opened))
        .route("/messages", post(message))
        .with_state(site)
        .merge(auth)
}

impl Site {
    fn is_let_in(&self, method: &str, headers: &HeaderMap) -> bool {
        self.headers.lock().unwrap().push((method.to_owned(), headers.clone()));
        self.auth.is_let_in(headers)
    }

    fn session(&self, out: Option<Out>) -> String {
        let id = format!("session-{}", self.numbers.fetch_add(1, Ordering::SeqCst));
        self.fake.sessions.fetch_add(1, Ordering::SeqCst);
        self.sessions.lock().unwrap().insert(id.clone(), out);
        id
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn posted(State(site): State<Site>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    if !site.is_let_in("POST", &headers) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response();
    }
    let begins = message["method"] == "initialize";
    let known =
        header(&headers, "mcp-session-id").is_some_and(|id| site.sessions.lock().unwrap().contains_key(id));
    if !begins && !known && !site.fake.modern.load(Ordering::SeqCst) {
        return if site.bad_request.load(Ordering::SeqCst) {
            let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
            let body = json!({"jsonrpc": "2.0", "error": error, "id": null});
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        } else {
            StatusCode::NOT_FOUND.into_response()
        };
    }
    let (out, messages) = mpsc::channel(MESSAGES_MAX);
    let is_request = message.get("id").is_some() && message.get("method").is_some();
    let is_call = message["method"] == "tools/call";
    let fake = Arc::clone(&site.fake);
    if !is_request {
        fake.take(message, &out).await;
        return StatusCode::ACCEPTED.into_response();
    }
    let session = begins.then(|| site.session(None));
    let mut response = if is_call && site.breaks.load(Ordering::SeqCst) {
        fake.take(message, &out).await;
        drop(out);
        let kept: Vec<Value> = tokio_stream_of(messages).collect().await;
        *site.kept.lock().unwrap() = kept;
        let first = Event::default().id("event-1").retry(Duration::from_millis(1)).comment("wait");
        Sse::new(stream::iter([Ok::<_, Infallible>(first.data(""))])).into_response()
    } else if site.streams.load(Ordering::SeqCst) {
        let work = async move { fake.take(message, &out).await };
        Sse::new(with(work, messages)).into_response()
    } else {
        match fake.take(message, &out).await {
            Taken::Well => {}
            Taken::Dies => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
        drop(out);
        let all: Vec<Value> = tokio_stream_of(messages).collect().await;
        match all.into_iter().next_back() {
            Some(answer) => Json(answer).into_response(),
            None => std::future::pending().await,
        }
    };
    if let Some(session) = session {
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    }
    response
}

fn tokio_stream_of(messages: mpsc::Receiver<Value>) -> impl Stream<Item = Value> {
    stream::unfold(messages, |mut messages| async move { Some((messages.recv().await?, messages)) })
}

/// The messages as events while the work that produces them continues.
fn with(
    work: impl Future<Output = Taken> + Send + 'static,
    messages: mpsc::Receiver<Value>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let work = stream::once(async move {
        work.await;
        None
    });
    let told = tokio_stream_of(messages).map(Some);
    stream::select(told, work.boxed())
        .filter_map(|message| async move { Some(Ok(Event::default().data(message?.to_string()))) })
}

async fn listening(State(site): State<Site>, headers: HeaderMap) -> Response {
    if !site.is_let_in("GET", &headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if header(&headers, "last-event-id") == Some("event-1") {
        let kept = std::mem::take(&mut *site.kept.lock().unwrap());
        let events =
            kept.into_iter().map(|message| Ok::<_, Infallible>(Event::default().data(message.to_string())));
        return Sse::new(stream::iter(events)).into_response();
    }
    let (out, messages) = mpsc::channel(MESSAGES_MAX);
    site.fake.outs.lock().unwrap().push(out);
    let events = tokio_stream_of(messages).map(|m| Ok::<_, Infallible>(Event::default().data(m.to_string())));
    Sse::new(events).into_response()
}

async fn deleted(State(site): State<Site>, headers: HeaderMap) -> StatusCode {
    site.is_let_in("DELETE", &headers);
    let known = header(&headers, "mcp-session-id").and_then(|id| site.sessions.lock().unwrap().remove(id));
    if known.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

async fn opened(State(site): State<Site>, headers: HeaderMap) -> Response {
    if !site.is_let_in("GET", &headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (out, messages) = mpsc::channel(MESSAGES_MAX);
    site.fake.outs.lock().unwrap().push(out.clone());
    let id = site.session(Some(out));
    let endpoint = site.elsewhere.lock().unwrap().clone().unwrap_or_else(|| "/messages".to_owned());
    let first = Event::default().event("endpoint").data(format!("{endpoint}?session={id}"));
    let told = tokio_stream_of(messages).map(|m| Event::default().event("message").data(m.to_string()));
    Sse::new(stream::iter([first]).chain(told).map(Ok::<_, Infallible>)).into_response()
}

async fn message(
    State(site): State<Site>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> StatusCode {
    if !site.is_let_in("POST", &headers) {
        return StatusCode::UNAUTHORIZED;
    }
    let out = site.sessions.lock().unwrap().get(&query["session"]).cloned().flatten();
    let Some(out) = out else { return StatusCode::NOT_FOUND };
    let fake = Arc::clone(&site.fake);
    site.tasks.spawn(async move { fake.take(message, &out).await });
    StatusCode::ACCEPTED
}
