//! A server with what the official conformance suite expects, built on the same core as the real one.

mod content;
mod prompts;
mod questions;
mod tasks;
mod tools;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::StreamExt as _;
use serde_json::{Map, Value as Json, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weft_core::async_trait;
use weft_mcp::serving::{
    About, Call, Feature, Host, Listing, Names, Outcome, Posted, Reply, ReplyBody, RpcError, Service,
    TaskView, check_origin, code,
};

use tasks::Tasks;

/// What is served. All callers count as one.
#[derive(Default)]
pub(crate) struct Fixture {
    tasks: Tasks,
    /// Whether there is one more tool.
    pub has_more: AtomicBool,
    /// Cancelled when the server ends.
    pub ended: CancellationToken,
}

#[async_trait]
impl Service for Fixture {
    fn about(&self) -> About {
        About {
            name: "weft-conformance",
            title: "Conformance",
            version: "1.0.0",
            instructions: "For tests.",
            features: &[
                Feature::Resources,
                Feature::Subscriptions,
                Feature::Prompts,
                Feature::Completions,
                Feature::Logging,
                Feature::Tasks,
                Feature::ListChanges,
            ],
        }
    }

    async fn tools(&self, _: Option<&str>) -> Result<Listing, RpcError> {
        let mut tools = tools::list();
        if self.has_more.load(Ordering::SeqCst) {
            tools.push(json!({"name": "more", "inputSchema": {"type": "object"}}));
        }
        Ok(tools.into())
    }

    async fn mirrored(&self, tool: &str) -> Result<Option<Json>, RpcError> {
        Ok(tools::mirrored(tool))
    }

    async fn ended(&self) {
        self.ended.cancelled().await;
    }

    async fn call(&self, call: Call) -> Result<Outcome, RpcError> {
        tools::call(&self.tasks, call).await
    }

    async fn resources(&self, _: Option<&str>) -> Result<Listing, RpcError> {
        Ok(content::resources().into())
    }

    async fn resource_templates(&self, _: Option<&str>) -> Result<Listing, RpcError> {
        let template =
            json!({"uriTemplate": "test://template/{id}/data", "name": "template", "description": "By id."});
        Ok(vec![template].into())
    }

    async fn read(&self, call: Call) -> Result<Option<Outcome>, RpcError> {
        Ok(content::read(&call.name).map(Outcome::Done))
    }

    async fn prompts(&self, _: Option<&str>) -> Result<Listing, RpcError> {
        Ok(prompts::list().into())
    }

    async fn prompt(&self, call: Call) -> Result<Outcome, RpcError> {
        prompts::get(&call)
    }

    async fn task(&self, id: &str) -> Result<TaskView, RpcError> {
        self.tasks.view(id)
    }

    async fn answer_task(&self, id: &str, answers: Map<String, Json>) -> Result<(), RpcError> {
        self.tasks.answer(id, &answers)
    }

    async fn cancel_task(&self, id: &str) -> Result<(), RpcError> {
        self.tasks.cancel(id)
    }

    async fn tasks(&self, _: Option<&str>) -> Result<(Vec<TaskView>, Option<String>), RpcError> {
        Ok((self.tasks.all(), None))
    }
}

#[derive(Clone, Default)]
struct Place {
    host: Arc<Host>,
    fixture: Arc<Fixture>,
}

/// A listening server, until it is dropped.
pub(crate) struct Listening {
    pub url: String,
    _serving: JoinSet<()>,
}

/// Serves the fixture on a free port.
pub(crate) async fn listen() -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(posted).delete(deleted)).with_state(Place::default());
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    Listening { url, _serving: serving }
}

async fn posted(State(place): State<Place>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(reason) = check_origin(&headers, Names::Loopback) {
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    let Ok(Json::Object(message)) = serde_json::from_slice(&body) else {
        let error = RpcError::new(code::PARSE, "no JSON");
        return response(Reply::refused(StatusCode::BAD_REQUEST, &Json::Null, error));
    };
    let posted = Posted { owner: "all", headers: &headers, message, text: body };
    response(place.host.post(place.fixture, posted).await)
}

async fn deleted(State(place): State<Place>, headers: HeaderMap) -> Response {
    response(place.host.delete("all", &headers))
}

fn response(reply: Reply) -> Response {
    let mut response = match reply.body {
        ReplyBody::Empty => reply.status.into_response(),
        ReplyBody::Json(json) => (reply.status, axum::Json(json)).into_response(),
        ReplyBody::Events(events) => {
            let body = Body::from_stream(events.map(Ok::<_, Infallible>));
            ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
        }
    };
    if let Some(session) = reply.session {
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    }
    response
}
