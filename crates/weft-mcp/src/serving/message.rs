//! JSON-RPC messages that a server reads and writes.

use bytes::Bytes;
use serde_json::{Map, json};
use weft_core::{ErrorKind, Json};

/// Error codes.
pub mod code {
    /// The text is not JSON.
    pub const PARSE: i64 = -32_700;
    /// The JSON is not a message.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// There is no such method.
    pub const NO_METHOD: i64 = -32_601;
    /// The parameters are not valid, or name something that does not exist.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// An internal error of this server.
    pub const INTERNAL: i64 = -32_603;
    /// The server is busy; the request can be repeated later.
    pub const BUSY: i64 = -32_000;
    /// No such resource, in revisions before 2026-07-28.
    pub const NO_RESOURCE: i64 = -32_002;
    /// A header differs from the body.
    pub const HEADER_MISMATCH: i64 = -32_020;
    /// The client lacks a capability that the request needs.
    pub const MISSING_CAPABILITY: i64 = -32_021;
    /// The protocol revision is not supported.
    pub const UNSUPPORTED_REVISION: i64 = -32_022;
}

/// Maximum size of an id that is a string, in bytes.
// It is stored while the request is processed, and repeated in the response.
const ID_BYTES_MAX: usize = 1_024;

/// An error of a request, in the format of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// One of the constants of [`code`].
    pub code: i64,
    /// The reason, for people.
    pub message: String,
    /// Details for programs; null if there are none.
    pub data: Json,
}

impl RpcError {
    /// Creates an error with one of the constants of [`code`] and a reason.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Json::Null }
    }

    /// Creates an error for parameters that are not valid.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// There is no such method.
    pub fn no_method(method: &str) -> Self {
        // A client may send a method of any length.
        let shown: String = method.chars().take(100).collect();
        Self::new(code::NO_METHOD, format!("there is no method `{shown}`"))
    }

    /// Creates an error for a missing capability of the client; `needed` is what the client has to declare.
    pub fn capability(needed: &Json) -> Self {
        let error =
            Self::new(code::MISSING_CAPABILITY, "the client has not declared a capability that this needs");
        error.with_data(json!({"requiredCapabilities": needed}))
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_data(self, data: Json) -> Self {
        Self { data, ..self }
    }

    /// Returns the error object of a response.
    pub fn to_json(&self) -> Json {
        let mut json = json!({"code": self.code, "message": self.message});
        if !self.data.is_null() {
            json["data"] = self.data.clone();
        }
        json
    }
}

impl From<weft_core::Error> for RpcError {
    fn from(error: weft_core::Error) -> Self {
        let code = match error.kind {
            ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Unsupported => code::INVALID_PARAMS,
            ErrorKind::Internal => code::INTERNAL,
            _ => code::BUSY,
        };
        if error.kind == ErrorKind::Internal && !error.is_private() {
            // The client gets an id only, since the reason may contain internals; the log has the reason with this id.
            let id = weft_core::id::generate();
            tracing::error!(error.id = id, reason = error.detail(), "an MCP request failed");
            return Self::new(
                code,
                format!("something went wrong inside Weft; its log has the reason under {id}"),
            );
        }
        Self::new(code, error.full())
    }
}

/// A message from a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClientMessage {
    /// A request, which is answered.
    Request(RpcRequest),
    /// A notification, which is not answered.
    Notification { method: String, params: Map<String, Json> },
    /// The response to a request of this server.
    Answer { id: Json, outcome: Result<Json, Json> },
}

/// JSON that is not a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InvalidMessage {
    /// Its id as far as it has a valid one, otherwise null.
    pub(crate) id: Json,
    pub(crate) error: RpcError,
}

/// A request from a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcRequest {
    pub(crate) id: Json,
    pub(crate) method: String,
    pub(crate) params: Map<String, Json>,
    /// The message as received.
    pub(crate) text: Bytes,
}

impl RpcRequest {
    /// Returns the metadata of the request, `_meta`.
    pub(crate) fn meta(&self) -> Option<&Map<String, Json>> {
        self.params.get("_meta").and_then(Json::as_object)
    }
}

impl ClientMessage {
    /// Reads a message; `text` is the message as received. An error carries the message's id if that is valid.
    pub(crate) fn read(mut json: Map<String, Json>, text: Bytes) -> Result<Self, Box<InvalidMessage>> {
        // Read first, so that the client can match an error to its request.
        let id = json.remove("id");
        let refused = |why: &str| {
            let id = id.clone().filter(is_id).unwrap_or(Json::Null);
            Err(Box::new(InvalidMessage { id, error: RpcError::new(code::INVALID_REQUEST, why) }))
        };
        if json.get("jsonrpc").and_then(Json::as_str) != Some("2.0") {
            return refused("`jsonrpc` must be \"2.0\"");
        }
        if id.as_ref().is_some_and(|id| !is_id(id)) {
            return refused("`id` must be a number or a text of at most 1024 bytes");
        }
        let method = match json.remove("method") {
            Some(Json::String(method)) => method,
            Some(_) => return refused("`method` must be a text"),
            None => {
                let Some(id) = id.clone() else { return refused("a message needs a `method` or an `id`") };
                return match (json.remove("result"), json.remove("error")) {
                    (Some(result), None) => Ok(Self::Answer { id, outcome: Ok(result) }),
                    (None, Some(error)) => Ok(Self::Answer { id, outcome: Err(error) }),
                    _ => refused("a response needs a `result` or an `error`"),
                };
            }
        };
        let params = match json.remove("params") {
            None => Map::new(),
            Some(Json::Object(params)) => params,
            Some(_) => return refused("`params` must be an object"),
        };
        Ok(match id {
            Some(id) => Self::Request(RpcRequest { id, method, params, text }),
            None => Self::Notification { method, params },
        })
    }
}

/// Returns whether it is a valid id of a request, or a valid progress token.
pub(super) fn is_id(id: &Json) -> bool {
    match id {
        Json::Number(_) => true,
        Json::String(text) => text.len() <= ID_BYTES_MAX,
        _ => false,
    }
}

/// Returns the response to a request.
pub(crate) fn answer(id: &Json, outcome: &Result<Map<String, Json>, RpcError>) -> Json {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()}),
    }
}

/// Returns a notification.
pub(crate) fn notification(method: &str, params: &Json) -> Json {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: Json) -> Result<ClientMessage, (Json, i64)> {
        let Json::Object(map) = json else { panic!("{json}") };
        ClientMessage::read(map, Bytes::new()).map_err(|refused| (refused.id, refused.error.code))
    }

    #[test]
    fn requests_notifications_and_responses_are_distinguished() {
        let request = read(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).unwrap();
        assert!(matches!(request, ClientMessage::Request(RpcRequest { method, .. }) if method == "ping"));
        let told = read(json!({"jsonrpc": "2.0", "method": "n", "params": {"a": 1}})).unwrap();
        assert!(matches!(told, ClientMessage::Notification { params, .. } if params["a"] == 1));
        let answer = read(json!({"jsonrpc": "2.0", "id": "q", "error": {"code": 1}})).unwrap();
        assert!(matches!(answer, ClientMessage::Answer { outcome: Err(_), .. }));
    }

    #[test]
    fn an_invalid_message_is_refused_under_its_id() {
        let check = |json: Json, id: Json| {
            assert_eq!(read(json.clone()), Err((id, code::INVALID_REQUEST)), "{json}");
        };
        check(json!({"id": 1, "method": "ping"}), json!(1));
        check(json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}), Json::Null);
        check(json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), Json::Null);
        check(json!({"jsonrpc": "2.0", "id": "x".repeat(2_000), "method": "ping"}), Json::Null);
        check(json!({"jsonrpc": "2.0", "id": 1, "method": 2}), json!(1));
        check(json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}), json!(1));
        check(json!({"jsonrpc": "2.0", "id": 1}), json!(1));
        check(json!({"jsonrpc": "2.0", "id": 1, "result": 1, "error": 1}), json!(1));
        check(json!({"jsonrpc": "2.0"}), Json::Null);
    }
}
