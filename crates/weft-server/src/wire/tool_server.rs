//! MCP servers of tenants in the format of the API.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use weft_app::tool_servers::{SECONDS, SECONDS_MAX, SentAlong, TRANSPORTS};
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::value::to_text;
use weft_core::{Secret, TenantId};

use super::time::http_date;
use crate::body::{ABOUT_CHARS_MAX, Body, VALUES_MAX, values_of};
use crate::error::ApiError;

/// Maximum length of a name, in bytes.
const NAME_MAX: usize = 255;
/// Maximum length of a URL, in bytes.
const URL_MAX: usize = 2_048;
/// Placeholder for a secret value. Sent back, it means that the value stays.
const MASK: &str = "***";
/// Key under which the variables contain the tools of a server.
const TOOLS: &str = "tools";
/// Variable in which other programs store the token for a server.
const TOKEN: &str = "authorization_token";

/// Returns a new server with default values.
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

/// Applies the fields of a body to a server; absent fields stay as they are.
///
/// # Errors
/// 102 with the API's message for a name, a URL or a type that is not valid, and for a new host that would receive
/// values given for the previous one; 101 for values of other types.
pub fn changed(before: StoredToolServer, body: &Body) -> Result<StoredToolServer, ApiError> {
    let SentAlong { headers, variables } = SentAlong::of(&before)?;
    let (headers, keeps_headers) = match object(body, "headers")? {
        Some(given) => texts(given, &headers),
        None => {
            let hidden = headers.values().any(|value| shown(value) == MASK);
            (headers, hidden)
        }
    };
    let (variables, keeps_variables) = match object(body, "variables")? {
        Some(mut given) => {
            // Tools are shown among the variables, so clients send them back there.
            given.remove(TOOLS);
            texts(given, &variables)
        }
        None => {
            // Variables are never shown, while a header may consist of names of variables only.
            let hidden = !variables.is_empty();
            (variables, hidden)
        }
    };
    let url = match body.get("url") {
        None => None,
        Some(Json::String(url)) => Some(url.trim().to_owned()),
        Some(_) => return Err(ApiError::data("Invalid url.")),
    };
    let goes_elsewhere = url.as_deref().is_some_and(|url| host(url) != host(&before.url));
    let server = StoredToolServer {
        name: body.text("name")?.unwrap_or(before.name),
        url: url.unwrap_or(before.url),
        transport: body.text("server_type")?.unwrap_or(before.transport),
        description: body.text_within("description", ABOUT_CHARS_MAX)?.unwrap_or(before.description),
        sealed: SentAlong { headers, variables }.sealed()?,
        ..before
    };
    check(&server)?;
    // Values that are not shown would be sent to the new host.
    if goes_elsewhere && (keeps_headers || keeps_variables) {
        let message = "The url has another host. Give the values of headers and variables again, or remove them: stored values go to no other host.";
        return Err(ApiError::data(message));
    }
    Ok(server)
}

/// Reads an object, which JSON forms send as a string; an empty string is an empty object.
fn object(body: &Body, key: &str) -> Result<Option<Map<String, Json>>, ApiError> {
    let Some(Json::String(text)) = body.get(key) else { return body.object(key) };
    if text.trim().is_empty() {
        return Ok(Some(Map::new()));
    }
    // Parsed values take memory, as those of the body itself do.
    let parsed = (values_of(text.as_bytes()) <= VALUES_MAX).then(|| serde_json::from_str(text).ok());
    parsed.flatten().map_or_else(|| body.object(key), |object| Ok(Some(object)))
}

/// Converts the configuration of a server from other programs into the body that creates it. Members that its headers
/// refer to become variables.
///
/// # Errors
/// 102 with the API's message without a type or a URL, and for headers or a token that are not valid.
pub fn brought(name: &str, said: &Json) -> Result<Body, ApiError> {
    let (Some(kind), Some(url)) = (said.get("type"), said.get("url")) else {
        return Err(ApiError::data("Missing required fields (type or url)"));
    };
    let mut headers = match said.get("headers") {
        None | Some(Json::Null) => Map::new(),
        Some(Json::Object(headers)) if headers.values().all(Json::is_string) => headers.clone(),
        Some(_) => return Err(ApiError::data("MCP headers must be a string-to-string object.")),
    };
    let token = match said.get(TOKEN) {
        None => "",
        Some(Json::String(token)) => token.as_str(),
        Some(_) => return Err(ApiError::data("authorization_token must be a string.")),
    };
    let mut variables = Map::new();
    for value in headers.values().filter_map(Json::as_str) {
        variables.extend(named(value).filter_map(|name| Some((name.to_owned(), said.get(name)?.clone()))));
    }
    // Two headers with the same name would contradict each other, and a reference to the token already determines
    // where it goes.
    let is_placed = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    if !token.is_empty() && !is_placed && !variables.contains_key(TOKEN) {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{TOKEN}}}").into());
        variables.insert(TOKEN.to_owned(), token.into());
    }
    Body::of(
        json!({"name": name, "url": url, "server_type": kind, "headers": headers, "variables": variables}),
    )
}

/// Returns the variables that a header refers to, as `$name` or `${name}`.
fn named(value: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    value
        .split('$')
        .skip(1)
        .filter_map(move |rest| rest.strip_prefix('{').unwrap_or(rest).split(|c: char| !is_part(c)).next())
}

/// Returns the scheme and the host of a URL.
fn host(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    (scheme, rest.split(['/', '?', '#']).next().unwrap_or_default())
}

/// Returns the entries of an object, with masked values replaced by their previous ones, and whether there were any.
fn texts(given: Map<String, Json>, before: &BTreeMap<String, String>) -> (BTreeMap<String, String>, bool) {
    let mut keeps = false;
    let value = |(name, value): (String, Json)| {
        let known = before.get(&name).filter(|_| value.as_str() == Some(MASK));
        keeps |= known.is_some();
        let value = match (known, value) {
            (Some(known), _) => known.clone(),
            // There is no previous value that it could stand for.
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

/// Checks that a server's URL is valid and its transport supported.
///
/// # Errors
/// 102 with the API's message.
pub fn check_address(server: &StoredToolServer) -> Result<(), ApiError> {
    if !TRANSPORTS.iter().any(|(name, _)| *name == server.transport) {
        return Err(ApiError::data("Unsupported MCP server type."));
    }
    let (scheme, host) = host(&server.url);
    let web = matches!(scheme, "http" | "https");
    // Everyone who sees the server would see a user name and a password in its URL.
    if !web || server.url.len() > URL_MAX || host.is_empty() || host.contains('@') {
        return Err(ApiError::data("Invalid url."));
    }
    Ok(())
}

/// Reads the time limit of a request to a server, in seconds.
///
/// # Errors
/// 101 for a value that is not a valid number of seconds.
pub fn seconds(body: &Body) -> Result<u64, ApiError> {
    let Some(given) = body.get("timeout") else { return Ok(SECONDS) };
    let number = weft_core::value::number(given).filter(|number| (1.0..=SECONDS_MAX as f64).contains(number));
    let number = number.ok_or_else(|| {
        ApiError::argument(format!("`timeout` must be a number of seconds from 1 to {SECONDS_MAX}"))
    })?;
    // Rounded up, so that the server has at least the time that was asked for.
    Ok(number.ceil() as u64)
}

/// Masks the value of a header, unless it consists of variables with at most a word before them.
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

/// The representation of a server in answers, without its secrets.
///
/// # Errors
/// 100 when the stored server is damaged.
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

/// Servers in the form for export, without their secrets.
pub fn exported(servers: &[StoredToolServer]) -> Json {
    let one = |server: &StoredToolServer| {
        let told = json!({"type": server.transport, "url": server.url, "name": server.name,
            "authorization_token": "", "tools": server.tools});
        (server.name.clone(), told)
    };
    json!({"mcpServers": servers.iter().map(one).collect::<Map<String, Json>>()})
}

/// Returns the tools that a server lists, by name, with the users' earlier settings for them.
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
    fn secrets_are_masked_and_kept_when_the_mask_is_sent_back() {
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
    fn headers_and_variables_may_be_json_strings() {
        let given = json!({"name": "n", "url": "https://a.example", "server_type": "sse",
            "headers": "{\"X-Key\": \"${key}\"}", "variables": "{\"key\": \"s3cret\", \"tools\": {\"x\": {}}}"});
        let server = changed(fresh("i".into(), 1), &body(given)).unwrap();
        let told = view(&"t".into(), &server).unwrap();
        assert_eq!(told["headers"], json!({"X-Key": "${key}"}));
        assert_eq!(told["variables"], json!({"key": "***", "tools": {}}));
        let emptied = changed(server.clone(), &body(json!({"headers": " "}))).unwrap();
        assert_eq!(view(&"t".into(), &emptied).unwrap()["headers"], json!({}));
        for text in ["x", "[]", "1", "{\"a\": }"] {
            let error = changed(server.clone(), &body(json!({"headers": text}))).unwrap_err();
            assert!(error.message().contains("Input should be a valid dictionary"), "{text}");
        }
    }

    #[test]
    fn imported_settings_of_other_programs_are_converted() {
        let said = |members: Json| {
            let mut said = json!({"type": "sse", "url": "https://a.example"});
            said.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            brought("n", &said).map(|Body(body)| (body["headers"].clone(), body["variables"].clone()))
        };
        let with_token = (
            json!({"Authorization": "Bearer ${authorization_token}"}),
            json!({"authorization_token": "s3cret"}),
        );
        assert_eq!(said(json!({"authorization_token": "s3cret"})).unwrap(), with_token);
        let named = json!({"X-Key": "${key}", "X-Other": "$other.", "X-Unknown": "a$b ${c"});
        let of_named =
            said(json!({"headers": named, "key": "k", "other": 7, "c": null, "unused": "u"})).unwrap();
        assert_eq!(of_named, (named, json!({"key": "k", "other": 7, "c": null})));
        // The headers already say where the token goes.
        for headers in [json!({"authorization": "Token x"}), json!({"X-Key": "${authorization_token}"})] {
            let sent = said(json!({"headers": headers, "authorization_token": "s3cret"})).unwrap();
            assert_eq!(sent.0, headers);
        }
        for headers in [json!([]), json!("x"), json!({"X": 1})] {
            let error = said(json!({"headers": headers, "authorization_token": "s3cret"})).unwrap_err();
            assert_eq!(error.message(), "MCP headers must be a string-to-string object.", "{headers}");
        }
        for token in [json!(1), json!(null), json!({}), json!([])] {
            let error = said(json!({"authorization_token": token})).unwrap_err();
            assert_eq!(error.message(), "authorization_token must be a string.", "{token}");
        }
        assert!(brought("n", &json!("x")).is_err() && brought("n", &json!({"type": "sse"})).is_err());
    }

    #[test]
    fn invalid_tool_servers_give_the_error_messages_of_the_api() {
        let refused = |name: &str, value: Json| {
            let mut given = json!({"name": "n", "url": "https://a.example", "server_type": "sse"});
            given[name] = value;
            format!("{:?}", changed(fresh("i".into(), 1), &body(given)).unwrap_err())
        };
        for url in ["", "a.example", "file:///etc/passwd", "https://", "https://user:pw@a.example", "ftp://a"]
        {
            assert!(refused("url", url.into()).contains("Invalid url."), "{url}");
        }
        assert!(refused("url", json!(123)).contains("Invalid url."));
        assert!(refused("name", "n".repeat(256).into()).contains("length is 256"));
        assert!(refused("server_type", "stdio".into()).contains("Unsupported MCP server type."));
        for timeout in [json!(0), json!(61), json!(-1), json!("x"), json!(1e300)] {
            assert!(seconds(&body(json!({"timeout": timeout}))).is_err());
        }
        assert_eq!(seconds(&body(json!({"timeout": 1.5}))).unwrap(), 2);
    }
}
