//! Headers that repeat parts of the body, so that proxies can route by them. The server checks that they agree with
//! the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::json;
use weft_core::Json;

use super::capabilities::Client;
use super::envelope::supported;
use super::message::{RpcError, RpcRequest, code};
use super::outlet::LogLevel;
use super::revision::ProtocolRevision;

/// Header with the protocol revision.
pub(super) const VERSION: &str = "mcp-protocol-version";
/// Header with the id of the session.
pub(super) const SESSION: &str = "mcp-session-id";

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CLIENT: &str = "io.modelcontextprotocol/clientCapabilities";
const META_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What a stateless request declares in its metadata.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatelessRequest {
    pub(super) revision: ProtocolRevision,
    pub(super) client: Client,
    pub(super) level: Option<LogLevel>,
}

/// Returns the value of a header, if it is text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// Returns whether a request is stateless, which its body says.
pub(super) fn is_stateless(request: &RpcRequest) -> bool {
    request.meta().is_some_and(|meta| meta.contains_key(META_VERSION))
}

/// Checks that the headers agree with the body.
///
/// # Errors
/// `HEADER_MISMATCH`, naming the header.
pub(super) fn check(headers: &HeaderMap, request: &RpcRequest) -> Result<(), RpcError> {
    let said = request.meta().and_then(|meta| meta.get(META_VERSION)).and_then(Json::as_str);
    let version = text(headers, VERSION);
    // Proxies route and authorize by the header alone: a differing body could bypass them.
    if said.is_some() && said != version {
        return Err(mismatch("MCP-Protocol-Version", "`_meta`"));
    }
    if text(headers, "mcp-method") != Some(request.method.as_str()) {
        return Err(mismatch("Mcp-Method", "`method`"));
    }
    let Some((key, name)) = name(request) else { return Ok(()) };
    if text(headers, "mcp-name").and_then(decoded).as_deref() == Some(name) {
        Ok(())
    } else {
        Err(mismatch("Mcp-Name", &format!("`params.{key}`")))
    }
}

fn mismatch(header: &str, what: &str) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, format!("the header {header} must match {what}"))
}

/// Returns the name that the body gives, and the key under which it does.
fn name(request: &RpcRequest) -> Option<(&'static str, &str)> {
    let key = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    Some((key, request.params.get(key)?.as_str()?))
}

/// Decodes a header value that may contain characters which headers cannot hold.
pub(super) fn decoded(value: &str) -> Option<String> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
    }
}

/// Reads what a stateless request declares in its metadata.
///
/// # Errors
/// `INVALID_PARAMS` when a part is missing; `UNSUPPORTED_REVISION`, with the supported revisions.
pub(super) fn stateless_request(request: &RpcRequest) -> Result<StatelessRequest, RpcError> {
    let missing = |key: &str| RpcError::params(format!("`params._meta` must have `{key}`"));
    let meta = request.meta().ok_or_else(|| RpcError::params("`params._meta` must be an object"))?;
    let version = meta.get(META_VERSION).and_then(Json::as_str).ok_or_else(|| missing(META_VERSION))?;
    let declared = meta.get(META_CLIENT).filter(|all| all.is_object()).ok_or_else(|| missing(META_CLIENT))?;
    let revision = ProtocolRevision::parse(version).filter(|revision| revision.is_stateless());
    let revision = revision.ok_or_else(|| {
        // It is repeated in the error, and may be as long as a whole message.
        let shown: String = version.chars().take(100).collect();
        let error =
            RpcError::new(code::UNSUPPORTED_REVISION, "this revision of the protocol is not supported");
        error.with_data(json!({"supported": supported(), "requested": shown}))
    })?;
    let level = meta.get(META_LEVEL).and_then(Json::as_str).and_then(LogLevel::parse);
    Ok(StatelessRequest { revision, client: Client::new(Some(declared)), level })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn request(method: &str, params: Json) -> RpcRequest {
        let Json::Object(params) = params else { panic!("{params}") };
        RpcRequest { id: json!(1), method: method.to_owned(), params, text: bytes::Bytes::new() }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn headers_must_match_the_body() {
        let call = request("tools/call", json!({"name": "echo", "_meta": {META_VERSION: "2026-07-28"}}));
        let version = (VERSION, "2026-07-28");
        let check = |pairs: &[(&'static str, &str)], expected: Option<&str>| {
            let got = check(&headers(pairs), &call).err().map(|error| error.message);
            match (&got, expected) {
                (None, None) => {}
                (Some(message), Some(part)) if message.contains(part) => {}
                _ => panic!("{pairs:?}: {got:?}"),
            }
        };
        let method = ("mcp-method", "tools/call");
        check(&[version, method, ("mcp-name", " echo ")], None);
        check(&[version, method, ("mcp-name", "=?base64?ZWNobw==?=")], None);
        check(&[version, method, ("mcp-name", "=?base64?ZWNobw?=")], Some("Mcp-Name"));
        check(&[version, method, ("mcp-name", "other")], Some("Mcp-Name"));
        check(&[version, method], Some("Mcp-Name"));
        check(&[version, ("mcp-method", "TOOLS/CALL"), ("mcp-name", "echo")], Some("Mcp-Method"));
        check(&[version, ("mcp-name", "echo")], Some("Mcp-Method"));
        check(&[("mcp-protocol-version", "2025-11-25"), method], Some("MCP-Protocol-Version"));
        check(&[method, ("mcp-name", "echo")], Some("MCP-Protocol-Version"));
    }

    #[test]
    fn a_stateless_request_must_name_its_version_and_client() {
        let read = |meta: Json| {
            stateless_request(&request("ping", json!({"_meta": meta}))).map_err(|error| error.code)
        };
        let whole =
            read(json!({META_VERSION: "2026-07-28", META_CLIENT: {"sampling": {}}, META_LEVEL: "error"}));
        let whole = whole.unwrap();
        assert!(whole.client.can("sampling") && whole.level == Some(LogLevel::Error));
        assert_eq!(read(json!({META_VERSION: "2026-07-28"})), Err(code::INVALID_PARAMS));
        assert_eq!(read(json!({META_CLIENT: {}})), Err(code::INVALID_PARAMS));
        assert_eq!(read(json!(1)), Err(code::INVALID_PARAMS));
        for version in ["2025-11-25", "v999"] {
            let spoken = read(json!({META_VERSION: version, META_CLIENT: {}}));
            assert_eq!(spoken, Err(code::UNSUPPORTED_REVISION), "{version}");
        }
        assert_eq!(
            stateless_request(&request("ping", Json::Object(Map::new()))).unwrap_err().code,
            code::INVALID_PARAMS
        );
    }
}
