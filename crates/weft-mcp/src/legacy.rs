//! HTTP with server-sent events in the form of 2024: a stream whose first event names the URL to which requests are
//! sent.

use futures::StreamExt as _;
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use sse_stream::Sse;
use url::Url;
use weft_core::{Error, ErrorKind, Result};

use crate::events::{EventStream, events};
use crate::faults::Faults;
use crate::http_peer::{HttpPeer, request};
use crate::lines::message;

/// An open stream, and the URL for requests.
pub(crate) struct Legacy {
    events: EventStream,
    requests: Url,
    peer: HttpPeer,
    faults: Faults,
}

impl Legacy {
    /// Opens the stream and waits for the URL.
    ///
    /// # Errors
    /// The failure to open the stream; `Denied` when the URL is on another server.
    pub(crate) async fn open(peer: HttpPeer, url: &str, faults: Faults) -> Result<Self> {
        let base = Url::parse(url).map_err(|cause| Error::invalid("the URL is not valid").because(cause))?;
        let headers = vec![("accept".to_owned(), "text/event-stream".to_owned())];
        let response = peer.send(request("GET", url, headers, Vec::new())).await?;
        if !(200..=299).contains(&response.status) {
            return Err(peer.authorization().refusal(&response));
        }
        let is_stream = response.header("content-type").is_some_and(|of| of.starts_with("text/event-stream"));
        if !is_stream {
            return Err(Error::new(ErrorKind::Garbled, "the server does not open an event stream")
                .help("if it speaks the newer protocol, set `type = \"streamable-http\"`"));
        }
        // Without a request id: requests are sent separately from this stream, so an event that is too long ends it.
        let mut events = events(response.body, peer.bytes_max(), None);
        while let Some(event) = events.next().await {
            let event = event.map_err(|cause| broken().because(cause))?;
            if event.event.as_deref() == Some("endpoint") {
                let requests = endpoint(&base, event.data.as_deref().unwrap_or_default())?;
                return Ok(Self { events, requests, peer, faults });
            }
        }
        Err(broken().because("it ended before it sent the endpoint for requests"))
    }

    /// Sends a message.
    pub(crate) fn send(
        &self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let (peer, url) = (self.peer.clone(), self.requests.clone());
        async move {
            let body = serde_json::to_vec(&message)
                .map_err(|cause| Error::internal("cannot write the message").because(cause))?;
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            let response = peer.send(request("POST", url.as_str(), headers, body)).await?;
            // The answer comes over the stream; the response itself says nothing more.
            if (200..=299).contains(&response.status) {
                Ok(())
            } else {
                Err(peer.authorization().refusal(&response))
            }
        }
    }

    /// Returns the next message; `None` after the last one. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => {
                    if let Some(message) = told(&event) {
                        return Some(message);
                    }
                }
                Some(Err(error)) => {
                    self.faults.end(ErrorKind::Unavailable, format!("the event stream broke: {error}"));
                    return None;
                }
                None => {
                    self.faults.end(ErrorKind::Unavailable, "the server has closed the event stream");
                    return None;
                }
            }
        }
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the event stream broke")
}

fn told(event: &Sse) -> Option<ServerJsonRpcMessage> {
    // An event without a name is a `message`, as in browsers; others, such as pings, are specific to the server.
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    message(event.data.as_deref().filter(|_| is_message)?.as_bytes())
}

/// Resolves the URL for requests, which must be on the same origin as the stream.
fn endpoint(base: &Url, named: &str) -> Result<Url> {
    let url = base.join(named.trim()).map_err(|cause| {
        Error::new(ErrorKind::Garbled, "the server sends an endpoint for requests that is not valid")
            .because(cause)
    })?;
    // The requests carry the credentials for this server, which are for no other.
    if url.origin() != base.origin() {
        return Err(Error::new(
            ErrorKind::Denied,
            format!(
                "the server wants requests sent to `{}`, which is another origin",
                url.origin().ascii_serialization()
            ),
        ));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_the_same_origin_only() {
        let base = Url::parse("https://a.example/mcp/sse?x=1").unwrap();
        let check = |named: &str, expected: Result<&str, ErrorKind>| {
            let found = endpoint(&base, named).map(String::from).map_err(|error| error.kind);
            assert_eq!(found, expected.map(str::to_owned), "{named}");
        };
        check("/messages?sessionId=1", Ok("https://a.example/messages?sessionId=1"));
        check("messages", Ok("https://a.example/mcp/messages"));
        check("https://a.example:443/m", Ok("https://a.example/m"));
        for elsewhere in ["http://a.example/m", "https://a.example:8443/m", "//b.example/m", "file:///m"] {
            check(elsewhere, Err(ErrorKind::Denied));
        }
        check("https://", Err(ErrorKind::Garbled));
    }
}
