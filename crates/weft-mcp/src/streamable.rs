//! Streamable HTTP: this program's HTTP client below rmcp's sessions.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff};
use weft_core::{Error, ErrorKind};
use weft_net::StreamResponse;

use crate::events::{EventStream, events, too_long};
use crate::http_peer::{Headers, HttpPeer, request};
use crate::lines::message;

/// Maximum number of concurrent requests to one server.
const REQUESTS_AT_ONCE_MAX: usize = 64;
/// Maximum size of an error response, in bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// The first and the longest pause before a broken stream is resumed.
const RESUME_FIRST: Duration = Duration::from_millis(500);
const RESUME_LONGEST: Duration = Duration::from_secs(30);

type TransportFault = StreamableHttpError<Error>;
type ExtraHeaders = HashMap<HeaderName, HeaderValue>;

/// Creates the transport to a URL.
pub(crate) fn transport(peer: HttpPeer, url: &str) -> StreamableHttpClientTransport<HttpPeer> {
    let mut resuming = ExponentialBackoff::default();
    resuming.base_duration = RESUME_FIRST;
    resuming.max_delay = Some(RESUME_LONGEST);
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(REQUESTS_AT_ONCE_MAX);
    config.retry_config = Arc::new(resuming);
    config.max_sse_event_size = peer.bytes_max();
    // Servers need not support sessions; most small ones do not.
    config.allow_stateless = true;
    // A restarted server no longer knows the session, and the first call that notices must not fail because of that.
    config.reinit_on_expired_session = true;
    StreamableHttpClientTransport::with_client(peer, config)
}

/// Returns the original error from before it passed through the transport.
pub(crate) fn cause(fault: TransportFault) -> Error {
    match fault {
        StreamableHttpError::Client(error) => error,
        other => Error::new(ErrorKind::Unavailable, "the connection to the server broke off").because(other),
    }
}

fn headers(accept: &str, session: Option<&str>, extra: &ExtraHeaders) -> Headers {
    let mut headers = vec![("accept".to_owned(), accept.to_owned())];
    headers.extend(session.map(|id| ("mcp-session-id".to_owned(), id.to_owned())));
    headers.extend(extra.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    }));
    headers
}

fn is_of_type(response: &StreamResponse, media_type: &str) -> bool {
    let of = response.header("content-type").unwrap_or_default();
    of.split(';').next().is_some_and(|of| of.trim().eq_ignore_ascii_case(media_type))
}

impl HttpPeer {
    async fn post(
        &self,
        url: &str,
        sent: ClientJsonRpcMessage,
        session: Option<&str>,
        extra: &ExtraHeaders,
    ) -> Result<StreamableHttpPostResponse, TransportFault> {
        let body = serde_json::to_vec(&sent)?;
        let mut headers = headers("application/json, text/event-stream", session, extra);
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let response =
            self.send(request("POST", url, headers, body)).await.map_err(TransportFault::Client)?;
        let asked = match &sent {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
        };
        match response.status {
            202 | 204 => Ok(StreamableHttpPostResponse::Accepted),
            200..=299 => self.answer(response, asked).await,
            404 if session.is_some() => Err(TransportFault::SessionExpired),
            _ => self.refused(response, session).await,
        }
    }

    async fn answer(
        &self,
        response: StreamResponse,
        asked: Option<RequestId>,
    ) -> Result<StreamableHttpPostResponse, TransportFault> {
        let session = response.header("mcp-session-id").map(str::to_owned);
        if is_of_type(&response, "text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(
                events(response.body, self.bytes_max(), asked),
                session,
            ));
        }
        let Some(_) = asked else {
            // A message that is not a request expects no response, whatever it is.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        if !is_of_type(&response, "application/json") {
            return Err(TransportFault::UnexpectedContentType(
                response.header("content-type").map(str::to_owned),
            ));
        }
        let body = response.read(self.bytes_max()).await.map_err(|error| {
            let is_long = error.kind == ErrorKind::Invalid;
            TransportFault::Client(if is_long { too_long(self.bytes_max()) } else { error })
        })?;
        match message(&body) {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            None => Err(TransportFault::UnexpectedServerResponse(Cow::from("the answer is not a message"))),
        }
    }

    async fn stream(
        &self,
        url: &str,
        session: Option<&str>,
        last_event: Option<String>,
        extra: &ExtraHeaders,
    ) -> Result<EventStream, TransportFault> {
        if last_event.is_some() {
            self.wait_to_resume().await;
        }
        let mut headers = headers("text/event-stream", session, extra);
        headers.extend(last_event.map(|id| ("last-event-id".to_owned(), id)));
        let response =
            self.send(request("GET", url, headers, Vec::new())).await.map_err(TransportFault::Client)?;
        match response.status {
            200..=299 if is_of_type(&response, "text/event-stream") => {
                Ok(events(response.body, self.bytes_max(), None))
            }
            // Servers without streams report that in different ways.
            200..=299 | 405 | 501 => Err(TransportFault::ServerDoesNotSupportSse),
            401 => Err(TransportFault::Client(self.authorization().unauthenticated())),
            404 if session.is_some() => Err(TransportFault::SessionExpired),
            _ => Err(TransportFault::Client(self.authorization().refusal(&response))),
        }
    }

    /// Converts an error response. Some servers refuse with a message of the protocol, and some report an unknown
    /// session by an ambiguous status.
    async fn refused(
        &self,
        response: StreamResponse,
        session: Option<&str>,
    ) -> Result<StreamableHttpPostResponse, TransportFault> {
        let error = self.authorization().refusal(&response);
        if matches!(response.status, 401 | 403 | 429) || !is_of_type(&response, "application/json") {
            return Err(TransportFault::Client(error));
        }
        let is_bad_request = response.status == 400;
        let body = response.read(REFUSAL_BYTES_MAX).await.unwrap_or_default();
        // There is no specific status for it, so the text is the only indication.
        let mentions_session = || String::from_utf8_lossy(&body).to_ascii_lowercase().contains("session");
        if session.is_some() && is_bad_request && mentions_session() {
            return Err(TransportFault::SessionExpired);
        }
        match message(&body) {
            Some(told @ JsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(told, None)),
            Some(_) | None => Err(TransportFault::Client(error)),
        }
    }
}

impl StreamableHttpClient for HttpPeer {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: ExtraHeaders,
    ) -> Result<StreamableHttpPostResponse, TransportFault> {
        self.post(&uri, message, session_id.as_deref(), &custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: ExtraHeaders,
    ) -> Result<(), TransportFault> {
        let headers = headers("application/json", Some(&session_id), &custom_headers);
        let response =
            self.send(request("DELETE", &uri, headers, Vec::new())).await.map_err(TransportFault::Client)?;
        match response.status {
            // Servers need not let clients end sessions, and may have forgotten this one.
            200..=299 | 404 | 405 => Ok(()),
            _ => Err(TransportFault::Client(self.authorization().refusal(&response))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: ExtraHeaders,
    ) -> Result<EventStream, TransportFault> {
        self.stream(&uri, session_id.as_deref(), last_event_id, &custom_headers).await
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use tokio::time::Instant;
    use weft_core::async_trait;
    use weft_net::{StreamRequest, StreamingHttp};

    use super::*;
    use crate::authorization::Authorization;
    use crate::config::ServerConfig;
    use crate::faults::Redactor;
    use crate::http_peer::RESUME_LEAST;

    /// A server whose streams end at once.
    struct Brief;

    #[async_trait]
    impl StreamingHttp for Brief {
        async fn open(&self, _: StreamRequest) -> weft_core::Result<StreamResponse> {
            let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
            Ok(StreamResponse { status: 200, headers, body: stream::empty().boxed() })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_are_not_resumed_in_a_tight_loop() {
        let config = ServerConfig::default();
        let peer =
            HttpPeer::new(&config, Arc::new(Brief), Authorization::Headers, Redactor::default()).unwrap();
        let (none, least) = (Duration::ZERO, RESUME_LEAST);
        for (last_event, pause) in [(None, none), (Some("1"), none), (Some("1"), least), (None, none)] {
            let begun = Instant::now();
            let last_event = last_event.map(str::to_owned);
            peer.stream("https://tools.example/mcp", Some("s"), last_event, &ExtraHeaders::new())
                .await
                .map(drop)
                .unwrap();
            assert_eq!(begun.elapsed(), pause);
        }
    }
}
