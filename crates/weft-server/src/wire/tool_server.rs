//! MCP servers of tenants, as the API has them.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use weft_app::tool_servers::{SECONDS, SECONDS_MAX, SentAlong, TRANSPORTS};
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::value::to_text;
use weft_core::{Secret, TenantId};

use super::time::http_date;
use crate::body::Body;
use crate::error::ApiError;

/// Bytes of a name.
const NAME_MAX: usize = 255;
/// Bytes of an address.
const URL_MAX: usize = 2_048;
/// What is shown in the place of a value. Sent back it means that the value stays.
const MASK: &str = "***";
/// Where variables have the tools that a server has offered.
const TOOLS: &str = "tools";

/// What is known of a server before it is stored.
pub fn fresh(id: String, now_ms: i64) -> StoredToolServer {
    StoredToolServer {
        id,
        name: String::new(),
        url: String::new(),
        transport: String::new(),
        description: String::new(),
        sealed: Secret::new("{}"),
        tools: Map::new(),
        revision: 0,
        created_ms: now_ms,
        updated_ms: now_ms,
    }
}

/// A server with what a body says of it; what it does not say stays.
///
/// # Errors
/// 102 in the API's words for a name, an address or a type that cannot be, and for another host that would be sent what
/// was given for the one before; 101 for values of other types.
pub fn changed(before: StoredToolServer, body: &Body) -> Result<StoredToolServer, ApiError> {
    let SentAlong { headers, variables } = SentAlong::of(&before)?;
    let (headers, keeps_headers) = match body.object("headers")? {
        Some(given) => texts(given, &headers),
        None => {
            let hidden = headers.values().any(|value| shown(value) == MASK);
            (headers, hidden)
        }
    };
    let (variables, keeps_variables) = match body.object("variables")? {
        Some(mut given) => {
            // Tools are shown among the variables and come back with them.
            given.remove(TOOLS);
            texts(given, &variables)
        }
        None => {
            let hidden = !variables.is_empty();
            (variables, hidden)
        }
    };
    let url = body.text("url")?.map(|url| url.trim().to_owned());
    let goes_elsewhere = url.as_deref().is_some_and(|url| host(url) != host(&before.url));
    let server = StoredToolServer {
        name: body.text("name")?.unwrap_or(before.name),
        url: url.unwrap_or(before.url),
        transport: body.text("server_type")?.unwrap_or(before.transport),
        description: body.text("description")?.unwrap_or(before.description),
        sealed: SentAlong { headers, variables }.sealed()?,
        ..before
    };
    check(&server)?;
    // Something that is not shown would be sent along as it was.
    if goes_elsewhere && (keeps_headers || keeps_variables) {
        let message = "The url has another host. Give the values of headers and variables again, or remove them: what was stored is sent to nobody else.";
        return Err(ApiError::data(message));
    }
    Ok(server)
}

/// The scheme of an address, and whom it leads to.
fn host(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    (scheme, rest.split(['/', '?', '#']).next().unwrap_or_default())
}

/// Names and values of an object, where a masked one is what it was, and whether one is.
fn texts(given: Map<String, Json>, before: &BTreeMap<String, String>) -> (BTreeMap<String, String>, bool) {
    let mut keeps = false;
    let value = |(name, value): (String, Json)| {
        let known = before.get(&name).filter(|_| value.as_str() == Some(MASK));
        keeps |= known.is_some();
        let value = match (known, value) {
            (Some(known), _) => known.clone(),
            // There is nothing that it could stand for.
            (None, Json::String(text)) if text == MASK => String::new(),
            (None, other) => to_text(&other),
        };
        (name, value)
    };
    let texts = given.into_iter().map(value).collect();
    (texts, keeps)
}

fn check(server: &StoredToolServer) -> Result<(), ApiError> {
    if server.name.trim().is_empty() || server.name.len() > NAME_MAX {
        let length = server.name.len();
        let message = format!("Invalid MCP name or length is {length} which is large than {NAME_MAX}.");
        return Err(ApiError::data(message));
    }
    check_address(server)
}

/// Whether an address can be one, and can be spoken to.
///
/// # Errors
/// 102 in the API's words.
pub fn check_address(server: &StoredToolServer) -> Result<(), ApiError> {
    if !TRANSPORTS.iter().any(|(name, _)| *name == server.transport) {
        return Err(ApiError::data("Unsupported MCP server type."));
    }
    let (scheme, host) = host(&server.url);
    let web = matches!(scheme, "http" | "https");
    // A name and a password in an address would be shown to everybody.
    if !web || server.url.len() > URL_MAX || host.is_empty() || host.contains('@') {
        return Err(ApiError::data("Invalid url."));
    }
    Ok(())
}

/// How long a request to a server may take, in seconds.
///
/// # Errors
/// 101 for what is no number of seconds.
pub fn seconds(body: &Body) -> Result<u64, ApiError> {
    let Some(given) = body.get("timeout") else { return Ok(SECONDS) };
    let number = weft_core::value::number(given).filter(|number| (1.0..=SECONDS_MAX as f64).contains(number));
    let number = number.ok_or_else(|| {
        ApiError::argument(format!("`timeout` must be a number of seconds from 1 to {SECONDS_MAX}"))
    })?;
    Ok(number.ceil() as u64)
}

/// A header that holds nothing but variables, and a word before them, is no secret.
fn shown(value: &str) -> &str {
    let mut rest = value;
    let mut words = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        let Some((_, after)) = after.split_once('}') else { return MASK };
        words.push_str(before);
        rest = after;
    }
    words.push_str(rest);
    let plain = ["", "bearer", "basic", "token"].contains(&words.trim().to_ascii_lowercase().as_str());
    if plain && value.contains("${") { value } else { MASK }
}

/// A server without its secrets.
///
/// # Errors
/// 100 when what is stored of it is damaged.
pub fn view(tenant: &TenantId, server: &StoredToolServer) -> Result<Json, ApiError> {
    let sent = SentAlong::of(server)?;
    let headers: BTreeMap<&String, &str> =
        sent.headers.iter().map(|(name, value)| (name, shown(value))).collect();
    let mut variables: Map<String, Json> =
        sent.variables.keys().map(|name| (name.clone(), MASK.into())).collect();
    variables.insert(TOOLS.to_owned(), Json::Object(server.tools.clone()));
    Ok(json!({
        "id": server.id,
        "name": server.name,
        "tenant_id": tenant,
        "url": server.url,
        "server_type": server.transport,
        "description": server.description,
        "variables": variables,
        "headers": headers,
        "create_time": server.created_ms,
        "create_date": http_date(server.created_ms),
        "update_time": server.updated_ms,
        "update_date": http_date(server.updated_ms),
    }))
}

/// Servers to be handed on, without their secrets.
pub fn exported(servers: &[StoredToolServer]) -> Json {
    let one = |server: &StoredToolServer| {
        let told = json!({"type": server.transport, "url": server.url, "name": server.name,
            "authorization_token": "", "tools": server.tools});
        (server.name.clone(), told)
    };
    json!({"mcpServers": servers.iter().map(one).collect::<Map<String, Json>>()})
}

/// What a server lists, by names, with what people have said of its tools before.
pub fn with_flags(listed: Vec<Json>, before: &Map<String, Json>) -> Map<String, Json> {
    let known = |mut tool: Json| {
        let name = tool["name"].as_str()?.to_owned();
        let enabled = before.get(&name).and_then(|said| said["enabled"].as_bool()).unwrap_or(true);
        tool["enabled"] = enabled.into();
        Some((name, tool))
    };
    listed.into_iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: Json) -> Body {
        Body::of(json).unwrap()
    }

    #[test]
    fn secrets_are_masked_and_stay_when_the_mask_comes_back() {
        let given = json!({"name": "n", "url": "https://a.example/mcp", "server_type": "sse",
            "headers": {"Authorization": "Bearer ${token}", "X-Key": "s3cret", "X-Odd": "s3cret ${token}", "X-Open": "${tok"},
            "variables": {"token": "s3cret", "tools": {"x": {}}}});
        let server = changed(fresh("i".into(), 1), &body(given)).unwrap();
        let told = view(&"t".into(), &server).unwrap();
        assert!(!told.to_string().contains("s3cret"), "{told}");
        assert_eq!(told["headers"]["Authorization"], "Bearer ${token}");
        assert_eq!(told["variables"], json!({"token": "***", "tools": {}}));
        let back = json!({"headers": told["headers"], "variables": told["variables"], "description": "d"});
        let again = changed(server.clone(), &body(back)).unwrap();
        assert_eq!((&again.sealed, again.description.as_str()), (&server.sealed, "d"));
        assert!(!exported(&[server]).to_string().contains("s3cret"));
    }

    #[test]
    fn what_cannot_be_a_server_is_refused_in_the_words_of_the_api() {
        let refused = |name: &str, value: Json| {
            let mut given = json!({"name": "n", "url": "https://a.example", "server_type": "sse"});
            given[name] = value;
            format!("{:?}", changed(fresh("i".into(), 1), &body(given)).unwrap_err())
        };
        for url in ["", "a.example", "file:///etc/passwd", "https://", "https://user:pw@a.example", "ftp://a"]
        {
            assert!(refused("url", url.into()).contains("Invalid url."), "{url}");
        }
        assert!(refused("name", "n".repeat(256).into()).contains("length is 256"));
        assert!(refused("server_type", "stdio".into()).contains("Unsupported MCP server type."));
        for timeout in [json!(0), json!(61), json!(-1), json!("x"), json!(1e300)] {
            assert!(seconds(&body(json!({"timeout": timeout}))).is_err());
        }
        assert_eq!(seconds(&body(json!({"timeout": 1.5}))).unwrap(), 2);
    }
}
