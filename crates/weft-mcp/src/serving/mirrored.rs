//! Arguments of tools that are repeated in headers (`x-mcp-header`), so that proxies can read them. The server checks
//! that they agree with the body. Pure.

use ::http::HeaderMap;
use serde_json::Map;
use weft_core::Json;

use super::headers::decoded;
use super::message::{RpcError, code};

/// Key in the schema of a tool that names the header of an argument.
const ANNOTATION: &str = "x-mcp-header";
/// Prefix of these headers.
const PREFIX: &str = "mcp-param-";
/// Maximum depth at which nested arguments are examined.
const DEPTH_MAX: usize = 8;

/// Checks that the headers agree with the arguments that a schema requires to be repeated there.
///
/// # Errors
/// `HEADER_MISMATCH`, naming the header.
pub(super) fn check(
    headers: &HeaderMap,
    arguments: &Map<String, Json>,
    schema: &Json,
) -> Result<(), RpcError> {
    within(headers, Some(arguments), schema, DEPTH_MAX)
}

fn within(
    headers: &HeaderMap,
    arguments: Option<&Map<String, Json>>,
    schema: &Json,
    depth: usize,
) -> Result<(), RpcError> {
    let Some(properties) = schema.get("properties").and_then(Json::as_object).filter(|_| depth > 0) else {
        return Ok(());
    };
    for (name, property) in properties {
        let value = arguments.and_then(|arguments| arguments.get(name));
        if let Some(suffix) = property.get(ANNOTATION).and_then(Json::as_str) {
            agrees(headers, suffix, value)?;
        }
        within(headers, value.and_then(Json::as_object), property, depth - 1)?;
    }
    Ok(())
}

fn agrees(headers: &HeaderMap, suffix: &str, value: Option<&Json>) -> Result<(), RpcError> {
    let mut said = headers.get_all(format!("{PREFIX}{suffix}")).iter();
    let (first, second) = (said.next(), said.next());
    let same = match (value, first) {
        // An argument without a value has no header.
        (None | Some(Json::Null), first) => first.is_none(),
        (Some(_), None) => false,
        (Some(value), Some(first)) => {
            let text = first.to_str().ok().and_then(|text| decoded(text.trim()));
            text.is_some_and(|text| is_said(value, &text))
        }
    };
    // Of several headers with this name a proxy might use another one than this server.
    if same && second.is_none() {
        return Ok(());
    }
    let message = format!("the header Mcp-Param-{suffix} must match the argument that it mirrors");
    Err(RpcError::new(code::HEADER_MISMATCH, message))
}

/// Returns whether a text represents a value. Numbers are compared as numbers.
fn is_said(value: &Json, text: &str) -> bool {
    match value {
        Json::String(value) => value == text,
        Json::Bool(value) => text == if *value { "true" } else { "false" },
        Json::Number(value) => {
            let exactly = value.to_string() == text;
            exactly || text.parse().ok().zip(value.as_f64()).is_some_and(|(said, is): (f64, f64)| said == is)
        }
        // These have no representation in a header.
        Json::Null | Json::Array(_) | Json::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(pairs: &[(&'static str, &str)], arguments: &Json) -> bool {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "limit": {"type": "integer", "x-mcp-header": "Limit"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
            "options": {"type": "object", "properties": {"tier": {"type": "string", "x-mcp-header": "Tier"}}},
            "query": {"type": "string"},
        }});
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        match check(&headers, arguments.as_object().unwrap(), &schema) {
            Ok(()) => false,
            Err(error) => {
                assert_eq!(error.code, code::HEADER_MISMATCH);
                true
            }
        }
    }

    #[test]
    fn headers_that_match_the_arguments_are_accepted() {
        let accepted = |pairs, arguments: Json| assert!(!refused(pairs, &arguments), "{arguments}");
        accepted(&[], json!({"query": "x"}));
        accepted(&[], json!({"region": null}));
        accepted(&[("mcp-param-region", " us-west1 ")], json!({"region": "us-west1"}));
        accepted(&[("mcp-param-region", "=?base64?SGVsbG8=?=")], json!({"region": "Hello"}));
        // Without both markers of the encoding the text is taken literally.
        accepted(&[("mcp-param-region", "SGVsbG8=")], json!({"region": "SGVsbG8="}));
        accepted(&[("mcp-param-region", "=?base64?SGVsbG8=")], json!({"region": "=?base64?SGVsbG8="}));
        accepted(&[("mcp-param-limit", "42.0")], json!({"limit": 42}));
        accepted(&[("mcp-param-limit", "-7")], json!({"limit": -7}));
        accepted(&[("mcp-param-dry-run", "true")], json!({"dry": true}));
        accepted(&[("mcp-param-tier", "gold")], json!({"options": {"tier": "gold"}}));
        accepted(&[("mcp-param-other", "x")], json!({}));
    }

    #[test]
    fn differing_missing_and_undecodable_headers_are_refused() {
        let check = |pairs, arguments: Json| assert!(refused(pairs, &arguments), "{arguments}");
        check(&[], json!({"region": "us-west1"}));
        check(&[("mcp-param-region", "eu")], json!({"region": "us-west1"}));
        check(&[("mcp-param-region", "US-WEST1")], json!({"region": "us-west1"}));
        check(&[("mcp-param-region", "eu")], json!({}));
        check(&[("mcp-param-region", "eu")], json!({"region": null}));
        check(&[("mcp-param-region", "eu"), ("mcp-param-region", "us")], json!({"region": "eu"}));
        check(&[("mcp-param-region", "=?base64?SGVsbG8?=")], json!({"region": "Hello"}));
        check(&[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")], json!({"region": "Hello"}));
        check(&[("mcp-param-limit", "43")], json!({"limit": 42}));
        check(&[("mcp-param-dry-run", "True")], json!({"dry": true}));
        check(&[], json!({"options": {"tier": "gold"}}));
        check(&[("mcp-param-region", "x")], json!({"region": ["x"]}));
    }
}
