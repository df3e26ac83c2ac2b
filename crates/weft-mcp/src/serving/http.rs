//! Streamable HTTP: a message is posted, and answered with JSON or, if other messages precede the response, with a
//! stream of events. The server sends nothing outside of a request, so it does not support GET.

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, StatusCode, header};
use async_stream::stream;
use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;
use weft_core::Json;

use super::dispatch::{Context, LISTEN};
use super::exchange::{Exchange, ExchangeEvent, channel, work};
use super::headers::{self, SESSION, VERSION, is_stateless, stateless_request};
use super::message::{ClientMessage, RpcError, RpcRequest, answer, code};
use super::revision::ProtocolRevision;
use super::service::{Leaving, Service};
use super::session::{ServedSession, Sessions};
use super::{envelope, mirrored};

/// A response within this time is sent as JSON, if no other message precedes it. After it a stream is opened.
const SOON: Duration = Duration::from_secs(5);
/// After this time without an event a comment is sent, so that proxies keep the connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A posted message.
#[derive(Debug)]
pub struct Posted<'a> {
    /// The caller: only its own sessions can be continued.
    pub owner: &'a str,
    /// The headers of the request.
    pub headers: &'a HeaderMap,
    /// The message.
    pub message: Map<String, Json>,
    /// The message as received.
    pub text: Bytes,
}

/// The response to a posted message.
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The id of a new session, for the header `Mcp-Session-Id`.
    pub session: Option<String>,
    /// The body.
    pub body: ReplyBody,
}

/// The body of a response.
pub enum ReplyBody {
    /// None.
    Empty,
    /// JSON.
    Json(Json),
    /// Server-sent events.
    Events(BoxStream<'static, Bytes>),
}

impl Reply {
    fn empty(status: StatusCode) -> Self {
        Self { status, session: None, body: ReplyBody::Empty }
    }

    fn json(status: StatusCode, json: Json) -> Self {
        Self { status, session: None, body: ReplyBody::Json(json) }
    }

    /// Creates the response to a message that was refused.
    pub fn refused(status: StatusCode, id: &Json, error: RpcError) -> Self {
        Self::json(status, answer(id, &Err(error)))
    }
}

/// The endpoint for posted messages, with its open sessions.
#[derive(Debug, Default)]
pub struct Host {
    sessions: Sessions,
}

impl Host {
    /// Processes a posted message.
    pub async fn post(&self, service: Arc<dyn Service>, posted: Posted<'_>) -> Reply {
        let Posted { owner, headers, message, text } = posted;
        let message = match ClientMessage::read(message, text) {
            Ok(message) => message,
            Err(refused) => return Reply::refused(StatusCode::BAD_REQUEST, &refused.id, refused.error),
        };
        let said = headers::text(headers, VERSION);
        let newest = said.and_then(ProtocolRevision::parse).is_some_and(ProtocolRevision::is_stateless);
        match message {
            ClientMessage::Request(request) if newest || is_stateless(&request) => {
                stateless(service, request, headers).await
            }
            // Stateless revisions have no state here that a notification could concern.
            ClientMessage::Notification { .. } if newest => Reply::empty(StatusCode::ACCEPTED),
            _ if said.is_some_and(|name| ProtocolRevision::parse(name).is_none()) => {
                let error =
                    RpcError::new(code::INVALID_REQUEST, "this revision of the protocol is not supported");
                Reply::refused(StatusCode::BAD_REQUEST, &id_of(&message), error)
            }
            ClientMessage::Request(request) if request.method == "initialize" => {
                self.begin(&*service, owner, &request)
            }
            message => self.in_session(service, owner, headers, message).await,
        }
    }

    /// Ends the session that the headers name.
    pub fn delete(&self, owner: &str, headers: &HeaderMap) -> Reply {
        let refused = |status, why: &str| {
            Reply::refused(status, &Json::Null, RpcError::new(code::INVALID_REQUEST, why))
        };
        match headers::text(headers, SESSION).map(|id| self.sessions.close(owner, id)) {
            Some(true) => Reply::empty(StatusCode::NO_CONTENT),
            // The same for the session of another caller, so that ids cannot be probed.
            Some(false) => refused(StatusCode::NOT_FOUND, "there is no such session"),
            None => refused(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id must name a session"),
        }
    }

    fn begin(&self, service: &dyn Service, owner: &str, request: &RpcRequest) -> Reply {
        let session = ServedSession::new(&request.params);
        let result = envelope::initialized(&service.about(), session.revision);
        let id = self.sessions.open(owner, session);
        Reply { session: Some(id), ..Reply::json(StatusCode::OK, answer(&request.id, &Ok(result))) }
    }

    /// Processes a message of a session. A request without a session is answered as well: most methods do not depend on
    /// earlier messages.
    async fn in_session(
        &self,
        service: Arc<dyn Service>,
        owner: &str,
        headers: &HeaderMap,
        message: ClientMessage,
    ) -> Reply {
        let session = match headers::text(headers, SESSION) {
            Some(id) => match self.sessions.find(owner, id) {
                Some(session) => session,
                None => {
                    let error =
                        RpcError::new(code::INVALID_REQUEST, "there is no such session: start a new one");
                    return Reply::refused(StatusCode::NOT_FOUND, &id_of(&message), error);
                }
            },
            None => {
                let revision = headers::text(headers, VERSION).and_then(ProtocolRevision::parse);
                // The protocol assumes this revision for a request without the header.
                Arc::new(ServedSession::without_session(revision.unwrap_or(ProtocolRevision::UNNAMED)))
            }
        };
        match message {
            ClientMessage::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    session.under_way.cancel(&params);
                }
                Reply::empty(StatusCode::ACCEPTED)
            }
            ClientMessage::Answer { id, outcome } => {
                session.answered(&id, outcome);
                Reply::empty(StatusCode::ACCEPTED)
            }
            ClientMessage::Request(request) => answer_in(service, session, request, headers).await,
        }
    }
}

fn id_of(message: &ClientMessage) -> Json {
    match message {
        ClientMessage::Request(request) => request.id.clone(),
        ClientMessage::Notification { .. } | ClientMessage::Answer { .. } => Json::Null,
    }
}

async fn answer_in(
    service: Arc<dyn Service>,
    session: Arc<ServedSession>,
    request: RpcRequest,
    headers: &HeaderMap,
) -> Reply {
    let working = match session.under_way.begin(&request.id) {
        Ok(working) => working,
        Err(error) => return Reply::refused(StatusCode::OK, &request.id, error),
    };
    let (sender, told) = channel();
    let asked = Arc::clone(&session);
    let context = Context {
        revision: session.revision,
        client: session.client.clone(),
        level: Some(session.level()),
        session: Some(session),
        cancelled: working.cancelled.clone(),
        left: CancellationToken::new(),
        // In these revisions a lost connection does not mean that the client cancels.
        leaving: Leaving::GoesOn,
        sender,
    };
    respond(Exchange::new(work(service, request, context, working), told), headers, Some(&asked)).await
}

async fn stateless(service: Arc<dyn Service>, request: RpcRequest, headers: &HeaderMap) -> Reply {
    let read = headers::check(headers, &request).and_then(|()| stateless_request(&request));
    let declared = match read {
        Ok(declared) => declared,
        Err(error) => return Reply::refused(StatusCode::BAD_REQUEST, &request.id, error),
    };
    if let Err(error) = read_beforehand(&*service, &request, headers).await {
        let status = match error.code {
            code::HEADER_MISMATCH | code::INVALID_REQUEST => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        return Reply::refused(status, &request.id, error);
    }
    let (sender, told) = channel();
    let context = Context {
        revision: declared.revision,
        client: declared.client,
        level: declared.level,
        session: None,
        cancelled: CancellationToken::new(),
        left: CancellationToken::new(),
        // In stateless revisions closing the stream cancels the request.
        leaving: Leaving::Cancels,
        sender,
    };
    let reply = respond(Exchange::new(work(service, request, context, ()), told), headers, None).await;
    Reply { status: status(&reply).unwrap_or(reply.status), ..reply }
}

/// Checks a request before it is processed.
async fn read_beforehand(
    service: &dyn Service,
    request: &RpcRequest,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    if request.method == LISTEN && !takes_events(headers) {
        return Err(RpcError::new(
            code::INVALID_REQUEST,
            "the response is a stream of events: accept text/event-stream",
        ));
    }
    if request.method != "tools/call" {
        return Ok(());
    }
    let Some(tool) = request.params.get("name").and_then(Json::as_str) else { return Ok(()) };
    let Some(schema) = service.mirrored(tool).await? else { return Ok(()) };
    let none = Map::new();
    let arguments = request.params.get("arguments").and_then(Json::as_object).unwrap_or(&none);
    mirrored::check(headers, arguments, &schema)
}

fn takes_events(headers: &HeaderMap) -> bool {
    headers::text(headers, header::ACCEPT.as_str()).is_some_and(|all| all.contains("text/event-stream"))
}

/// Returns the HTTP status of an error: from 2026-07-28 on it depends on the kind of error.
fn status(reply: &Reply) -> Option<StatusCode> {
    let ReplyBody::Json(json) = &reply.body else { return None };
    match json.pointer("/error/code")?.as_i64()? {
        code::NO_METHOD => Some(StatusCode::NOT_FOUND),
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_REVISION => {
            Some(StatusCode::BAD_REQUEST)
        }
        _ => None,
    }
}

/// Responds with JSON if the result is available soon and no message precedes it, or if the client accepts nothing
/// else; otherwise with events.
async fn respond(mut exchange: Exchange, headers: &HeaderMap, asked: Option<&Arc<ServedSession>>) -> Reply {
    if !takes_events(headers) {
        loop {
            match exchange.next().await {
                // Without a stream only the response can be sent.
                ExchangeEvent::Told(told) => fail_question(asked, &told),
                ExchangeEvent::Answer(answer) => return Reply::json(StatusCode::OK, answer),
                ExchangeEvent::Nothing => return Reply::empty(StatusCode::ACCEPTED),
            }
        }
    }
    // The format is decided by the first message: a lone response needs no stream.
    let first = match tokio::time::timeout(SOON, exchange.next()).await {
        Ok(ExchangeEvent::Answer(answer)) => return Reply::json(StatusCode::OK, answer),
        Ok(ExchangeEvent::Nothing) => return Reply::empty(StatusCode::ACCEPTED),
        Ok(ExchangeEvent::Told(told)) => event(&told),
        // Opens the stream, so that proxies do not close an idle connection.
        Err(_) => ping(),
    };
    let events = stream! {
        yield first;
        loop {
            match tokio::time::timeout(HEARTBEAT, exchange.next()).await {
                Err(_) => yield ping(),
                Ok(ExchangeEvent::Told(told)) => yield event(&told),
                Ok(ExchangeEvent::Answer(answer)) => {
                    yield event(&answer);
                    return;
                }
                Ok(ExchangeEvent::Nothing) => return,
            }
        }
    };
    Reply { body: ReplyBody::Events(Box::pin(events)), ..Reply::empty(StatusCode::OK) }
}

/// Fails a question that cannot be sent to the client; otherwise the call would wait for its answer forever.
fn fail_question(asked: Option<&Arc<ServedSession>>, told: &Json) {
    if let (Some(session), Some(id)) = (asked, told.get("id")) {
        let why = "it can only be asked through events, which it does not accept: accept text/event-stream";
        session.answered(id, Err(json!({"message": why})));
    }
}

fn ping() -> Bytes {
    Bytes::from_static(b": ping\n\n")
}

/// Characters that JSON need not escape, but at which some clients split a stream into lines, such as those that use
/// Python's `splitlines`.
const LINE_BREAKS: [(char, &str); 3] =
    [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

fn event(message: &Json) -> Bytes {
    // Compact JSON contains no other line breaks.
    let mut line = message.to_string();
    for (letter, escape) in LINE_BREAKS {
        // They can only occur within strings, where an escape is equivalent.
        if line.contains(letter) {
            line = line.replace(letter, escape);
        }
    }
    Bytes::from(format!("event: message\ndata: {line}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_for_every_client() {
        let message = json!({"text": "a\u{85}b\u{2028}c\u{2029}d\n é", "2": "\\u2028"});
        let event = String::from_utf8(event(&message).to_vec()).unwrap();
        assert!(!event.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{event:?}");
        let data = event.strip_prefix("event: message\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!data.contains('\n'));
        assert_eq!(serde_json::from_str::<Json>(data).unwrap(), message);
    }
}
