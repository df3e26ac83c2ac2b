//! MCP servers that a tenant has written down, which canvases name by their ids.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value as Json, json};
use weft_app::tool_servers::{TenantServers, ToolTrial};
use weft_core::error::found as or_gone;
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::{Error, ErrorKind, changes};

use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::document::once;
use crate::wire::envelope::Success;
use crate::wire::tool_server::{brought, changed, check_address, exported, fresh, seconds, view, with_flags};

/// Servers that one request may name or bring: each may have to be asked.
const AT_ONCE_MAX: usize = 50;
/// What says where a server is.
const ADDRESS: [&str; 2] = ["url", "server_type"];
/// Numbers that are tried behind a name that is taken.
const NUMBERS_MAX: usize = 200;

fn missing(caller: &Caller, id: &str) -> ApiError {
    ApiError::data(format!("Cannot find MCP server {id} for user {}", caller.tenant))
}

fn untested(error: &Error) -> ApiError {
    ApiError::data(format!("Test MCP error: {}", error.full()))
}

pub(super) async fn found(
    state: &ServerState,
    caller: &Caller,
    id: &str,
) -> Result<StoredToolServer, ApiError> {
    let found = state.app.tool_servers.store().get(&caller.tenant, id).await;
    found.map_err(|error| super::owned::or(error, missing(caller, id)))
}

/// Those of `mcp_ids`, all of them or none.
async fn named(state: &ServerState, caller: &Caller, body: &Body) -> Result<Vec<StoredToolServer>, ApiError> {
    let ids = body.texts("mcp_ids")?.unwrap_or_default();
    if ids.is_empty() {
        return Err(ApiError::data("No MCP server ID provided."));
    }
    if ids.len() > AT_ONCE_MAX {
        return Err(ApiError::argument(format!("one request can name {AT_ONCE_MAX} MCP servers at most")));
    }
    // One that is named twice is removed once, and is no reason to stop halfway.
    let (ids, _) = once(ids);
    let mut servers = Vec::new();
    for id in &ids {
        servers.push(found(state, caller, id).await?);
    }
    Ok(servers)
}

/// The page of a list, chosen by `keywords`, `mcp_ids`, `page`, `page_size`, `orderby` and `desc`.
async fn page(
    state: &ServerState,
    caller: &Caller,
    params: &Params,
    ids: &[String],
) -> Result<Response, ApiError> {
    let words = params.get("keywords").unwrap_or_default().to_lowercase();
    let mut servers = state.app.tool_servers.store().list(&caller.tenant).await?;
    servers.retain(|server| {
        server.name.to_lowercase().contains(&words) && (ids.is_empty() || ids.contains(&server.id))
    });
    match params.get("orderby") {
        // The store gives them in the order of their names.
        Some("name") => {}
        Some("update_time") => servers.sort_by_key(|server| server.updated_ms),
        _ => servers.sort_by_key(|server| server.created_ms),
    }
    if !params.ascending() {
        servers.reverse();
    }
    let (total, page) = (servers.len(), params.page(state.app.limits.page_size));
    let (offset, limit) = (usize::try_from(page.offset), usize::try_from(page.limit));
    let of_page = servers.iter().skip(offset.unwrap_or(usize::MAX)).take(limit.unwrap_or(usize::MAX));
    let shown = of_page.map(|server| view(&caller.tenant, server)).collect::<Result<Vec<_>, _>>()?;
    Ok(Success(json!({"mcp_servers": shown, "total": total})).into_response())
}

/// `GET /api/v1/mcp/servers`.
///
/// # Errors
/// 100 when the store cannot be read.
pub(crate) async fn list(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let ids: Vec<String> = params.all("mcp_ids").chain(params.all("mcp_id")).map(str::to_owned).collect();
    page(&state, &caller, &params, &ids).await
}

/// `POST /v1/mcp_server/list {mcp_ids}`.
///
/// # Errors
/// As [`list`].
pub(crate) async fn list_named(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    let ids = body.texts("mcp_ids")?.unwrap_or_default();
    page(&state, &caller, &params, &ids).await
}

/// `GET /api/v1/mcp/servers/{server}`; with `mode=download`, to be handed on.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn get(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let server = found(&state, &caller, &id).await?;
    Ok(match params.get("mode") {
        Some("download") => Success(exported(&[server])).into_response(),
        _ => Success(view(&caller.tenant, &server)?).into_response(),
    })
}

/// `GET /v1/mcp_server/detail?mcp_id=`.
///
/// # Errors
/// As [`get`].
pub(crate) async fn detail(
    State(state): State<ServerState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let server = found(&state, &caller, params.get("mcp_id").unwrap_or_default()).await?;
    Ok(Success(view(&caller.tenant, &server)?).into_response())
}

/// `POST /api/v1/mcp/servers`: a server that can be asked now, with what it offers.
///
/// # Errors
/// 101 without a name, an address or a type; 102 for one that cannot be, whose name is taken, or that does not answer.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["name", "url", "server_type"])?;
    let new = fresh(weft_core::id::generate(), state.app.clock.now_ms());
    let server = changed(new, &body)?;
    // Asked before it is stored: what does not answer is not kept.
    let server = asked(&state, &caller, server, seconds(&body)?).await?;
    state.app.tool_servers.store().add(&caller.tenant, &server).await.map_err(name_taken)?;
    Ok(Success(view(&caller.tenant, &server)?).into_response())
}

fn name_taken(error: Error) -> ApiError {
    match error.kind {
        ErrorKind::Conflict => ApiError::data("Duplicated MCP server name."),
        _ => error.into(),
    }
}

/// A server with the tools that it lists now; one that wants somebody to sign in first keeps those that are known.
async fn asked(
    state: &ServerState,
    caller: &Caller,
    server: StoredToolServer,
    seconds: u64,
) -> Result<StoredToolServer, ApiError> {
    let listed = match state.app.tool_servers.listed(&caller.tenant, &server, seconds).await {
        // Nobody can sign in at a server that is not stored. What people have switched off is so also when it is listed again.
        Err(error) if TenantServers::wants_sign_in(&server, &error) => return Ok(server),
        listed => listed.map_err(|error| untested(&error))?,
    };
    let tools = with_flags(listed, &server.tools);
    Ok(StoredToolServer { tools, ..server })
}

/// Stores what becomes of a server that is there; `change` makes it of what somebody else has left meanwhile.
async fn reworked<F: Future<Output = Result<StoredToolServer, ApiError>>>(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    change: impl Fn(StoredToolServer) -> F,
) -> Result<StoredToolServer, ApiError> {
    let changed = changes::made("MCP server", || async {
        let before = found(state, caller, id).await?;
        let as_of = before.updated_ms;
        let mut server = change(before).await?;
        // It grows also when the clock has gone back, because other processes notice a change by it.
        server.updated_ms = state.app.clock.now_ms().max(as_of.saturating_add(1));
        let stored = state.app.tool_servers.store().change(&caller.tenant, &server).await;
        Ok::<_, ApiError>(stored.map_err(name_taken)?.then_some(server))
    });
    let server = changed.await?;
    // Connections under way have the old address and headers.
    state.app.tool_servers.forget(&server.id).await;
    Ok(server)
}

/// `PUT /api/v1/mcp/servers/{server}`: changes what is given. One that goes elsewhere is asked what it offers.
///
/// # Errors
/// As [`create`]; 102 for an unknown one.
pub(crate) async fn update(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    change(&state, &caller, &id, &body).await
}

/// `POST /v1/mcp_server/update {mcp_id, …}`.
///
/// # Errors
/// As [`update`].
pub(crate) async fn update_named(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["mcp_id"])?;
    let id = body.id("mcp_id")?.unwrap_or_default();
    change(&state, &caller, &id, &body).await
}

async fn change(state: &ServerState, caller: &Caller, id: &str, body: &Body) -> Result<Response, ApiError> {
    let server = reworked(state, caller, id, async |before: StoredToolServer| {
        let server = changed(before.clone(), body)?;
        let elsewhere = (&server.url, &server.transport, &server.sealed);
        if elsewhere == (&before.url, &before.transport, &before.sealed) {
            return Ok(server);
        }
        asked(state, caller, server, seconds(body)?).await
    });
    Ok(Success(view(&caller.tenant, &server.await?)?).into_response())
}

/// `DELETE /api/v1/mcp/servers/{server}`.
///
/// # Errors
/// 102 for an unknown one.
pub(crate) async fn delete(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    remove(&state, &caller, &id).await?;
    Ok(Success(true).into_response())
}

async fn remove(state: &ServerState, caller: &Caller, id: &str) -> Result<(), ApiError> {
    let removed = state.app.tool_servers.remove(&caller.tenant, id).await;
    removed.map_err(|error| super::owned::or(error, missing(caller, id)))
}

/// `POST /v1/mcp_server/rm {mcp_ids}`.
///
/// # Errors
/// 102 without ids and for an unknown one, and then none is removed.
pub(crate) async fn remove_named(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    for server in named(&state, &caller, &body).await? {
        // One that somebody else has removed meanwhile is gone as was asked, and the others are still to go.
        or_gone(state.app.tool_servers.remove(&caller.tenant, &server.id).await)?;
    }
    Ok(Success(true).into_response())
}

/// `POST …/import {mcpServers, timeout}`: what came of each. A name that is taken gets a number.
///
/// # Errors
/// 102 without servers; 101 for too many.
pub(crate) async fn import(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let servers = body.object("mcpServers")?.unwrap_or_default();
    if servers.is_empty() {
        return Err(ApiError::data("No MCP servers provided."));
    }
    if servers.len() > AT_ONCE_MAX {
        return Err(ApiError::argument(format!("one request can bring {AT_ONCE_MAX} MCP servers at most")));
    }
    let seconds = seconds(&body)?;
    let mut results = Vec::new();
    // One that fails stops none of the others.
    for (name, said) in servers {
        results.push(match imported(&state, &caller, &name, &said, seconds).await {
            Ok((id, new_name)) => {
                let message = if new_name == name { String::new() } else { format!("Renamed from '{name}' to '{new_name}' avoid duplication") };
                json!({"server": name, "success": true, "action": "created", "id": id, "new_name": new_name, "message": message})
            }
            Err(error) => json!({"server": name, "success": false, "message": error.message()}),
        });
    }
    Ok(Success(json!({"results": results})).into_response())
}

/// One server as other programs write it down: its id and its name.
async fn imported(
    state: &ServerState,
    caller: &Caller,
    name: &str,
    said: &Json,
    seconds: u64,
) -> Result<(String, String), ApiError> {
    let new = fresh(weft_core::id::generate(), state.app.clock.now_ms());
    let mut server = asked(state, caller, changed(new, &brought(name, said)?)?, seconds).await?;
    // Whether a name is taken only the store can say: a look beforehand could be overtaken.
    for number in 0..NUMBERS_MAX {
        match state.app.tool_servers.store().add(&caller.tenant, &server).await {
            Err(error) if error.kind == ErrorKind::Conflict => server.name = format!("{name}_{number}"),
            outcome => {
                outcome?;
                return Ok((server.id, server.name));
            }
        }
    }
    Err(ApiError::data("Duplicated MCP server name."))
}

/// `POST /v1/mcp_server/export {mcp_ids}`: to be handed on, without what is secret.
///
/// # Errors
/// 102 without ids and for an unknown one.
pub(crate) async fn export(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    Ok(Success(exported(&named(&state, &caller, &body).await?)).into_response())
}

/// `POST /v1/mcp_server/list_tools {mcp_ids, timeout}`: what servers offer now, by their ids.
///
/// # Errors
/// 102 without ids, for an unknown one and for one that does not answer.
pub(crate) async fn list_tools(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let seconds = seconds(&body)?;
    let mut told = Map::new();
    for server in named(&state, &caller, &body).await? {
        let listed = state.app.tool_servers.listed(&caller.tenant, &server, seconds).await;
        let listed =
            listed.map_err(|error| ApiError::data(format!("MCP list tools error: {}", error.full())))?;
        let tools: Vec<Json> = with_flags(listed, &server.tools).into_iter().map(|(_, tool)| tool).collect();
        told.insert(server.id, tools.into());
    }
    Ok(Success(told).into_response())
}

/// `POST /v1/mcp_server/test_tool {mcp_id, tool_name, arguments, timeout}`: what a tool answers, as text.
///
/// # Errors
/// 102 without a tool, for an unknown server and for a call that fails.
pub(crate) async fn test_tool(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let id = body.id("mcp_id")?.ok_or_else(|| ApiError::data("No MCP server ID provided."))?;
    let server = found(&state, &caller, &id).await?;
    called(&state, &caller, &server, &body).await
}

async fn called(
    state: &ServerState,
    caller: &Caller,
    server: &StoredToolServer,
    body: &Body,
) -> Result<Response, ApiError> {
    let (tool, arguments) = (body.text("tool_name")?.unwrap_or_default(), body.object("arguments")?);
    let Some(arguments) = arguments.filter(|_| !tool.is_empty()) else {
        return Err(ApiError::data("Require provide tool name and arguments."));
    };
    let trial = ToolTrial { tool: &tool, arguments: &arguments, seconds: seconds(body)? };
    let output = state.app.tool_servers.call(&caller.tenant, server, trial).await;
    Ok(Success(output.map_err(|error| untested(&error))?.to_text()).into_response())
}

/// `POST /api/v1/mcp/servers/{server}/test`: calls the tool that is named, and else lists what the server offers, also with
/// changes that are not stored. One that is not there yet is described by the body.
///
/// # Errors
/// As [`test_tool`] and [`try_out`].
pub(crate) async fn test(
    State(state): State<ServerState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let lists = body.get("tool_name").is_none();
    let server = match found(&state, &caller, &id).await {
        Err(_) if lists && body.require(&ADDRESS).is_ok() => return described(&state, &caller, body).await,
        found => found?,
    };
    if !lists {
        return called(&state, &caller, &server, &body).await;
    }
    let server = changed(server, &body)?;
    tried(&state, &caller, &server, seconds(&body)?).await
}

/// `POST /v1/mcp_server/test_mcp {url, server_type, headers, variables, timeout}`: what a server offers that is not stored.
///
/// # Errors
/// 101 without an address or a type; 102 for one that cannot be or does not answer.
pub(crate) async fn try_out(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&ADDRESS)?;
    described(&state, &caller, body).await
}

/// What a server offers that is nowhere but in the body.
async fn described(state: &ServerState, caller: &Caller, mut body: Body) -> Result<Response, ApiError> {
    body.0.insert("name".to_owned(), "test".into());
    let server = changed(fresh(weft_core::id::generate(), 0), &body)?;
    check_address(&server)?;
    tried(state, caller, &server, seconds(&body)?).await
}

async fn tried(
    state: &ServerState,
    caller: &Caller,
    server: &StoredToolServer,
    seconds: u64,
) -> Result<Response, ApiError> {
    let listed = state.app.tool_servers.listed(&caller.tenant, server, seconds).await;
    let listed = listed.map_err(|error| untested(&error))?;
    let tools: Vec<Json> = with_flags(listed, &server.tools).into_iter().map(|(_, tool)| tool).collect();
    Ok(Success(tools).into_response())
}

/// `POST /v1/mcp_server/cache_tools {mcp_id, tools}`: what people say of tools, above all which are on.
///
/// # Errors
/// 102 for an unknown server; 101 for what are no tools.
pub(crate) async fn cache_tools(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["mcp_id", "tools"])?;
    let id = body.id("mcp_id")?.unwrap_or_default();
    found(&state, &caller, &id).await?;
    let mut tools = Map::new();
    for tool in body.list("tools")?.unwrap_or_default() {
        let Some(name) = tool["name"].as_str() else {
            return Err(ApiError::argument("each of `tools` must be an object with a `name`"));
        };
        tools.insert(name.to_owned(), tool);
    }
    let said = async |before: StoredToolServer| Ok(StoredToolServer { tools: tools.clone(), ..before });
    reworked(&state, &caller, &id, said).await?;
    Ok(Success(tools.into_iter().map(|(_, tool)| tool).collect::<Vec<Json>>()).into_response())
}
