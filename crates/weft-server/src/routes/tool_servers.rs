//! Routes for the MCP servers that a tenant has registered. Canvases refer to them by id.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value as Json, json};
use weft_app::tool_servers::{TenantServers, ToolTrial};
use weft_core::error::found as or_gone;
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::{Error, ErrorKind, changes};

use super::owned::or_taken;
use crate::auth::Caller;
use crate::body::{Body, Params};
use crate::error::ApiError;
use crate::path::Path;
use crate::state::ServerState;
use crate::wire::envelope::Success;
use crate::wire::once::once;
use crate::wire::tool_server::{brought, changed, check_address, exported, fresh, seconds, view, with_flags};

/// Maximum number of servers that one request may name or contain: each of them may have to be contacted.
const AT_ONCE_MAX: usize = 50;
/// Fields that define the address of a server.
const ADDRESS: [&str; 2] = ["url", "server_type"];
/// Number of numeric suffixes to try when a name is taken.
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

/// Returns all servers in `mcp_ids`, or fails if any is missing.
async fn named(state: &ServerState, caller: &Caller, body: &Body) -> Result<Vec<StoredToolServer>, ApiError> {
    let ids = body.texts("mcp_ids")?.unwrap_or_default();
    if ids.is_empty() {
        return Err(ApiError::data("No MCP server ID provided."));
    }
    if ids.len() > AT_ONCE_MAX {
        return Err(ApiError::argument(format!("one request can name at most {AT_ONCE_MAX} MCP servers")));
    }
    // An id that is given twice is removed once; the repetition must not make the request fail halfway.
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
        // The store returns them ordered by name.
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

/// `GET /api/v1/mcp/servers/{server}`; with `mode=download`, in the form for export.
///
/// # Errors
/// 102 for an unknown server.
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

/// `POST /api/v1/mcp/servers`: registers a server after connecting to it and listing its tools.
///
/// # Errors
/// 101 without a name, an address or a type; 102 for a server that is not valid, whose name is taken, or that does
/// not answer.
pub(crate) async fn create(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&["name", "url", "server_type"])?;
    let new = fresh(weft_core::id::generate(), state.app.clock.now_ms());
    let server = changed(new, &body)?;
    // Contacted before it is stored: a server that does not answer is not stored.
    let server = asked(&state, &caller, server, seconds(&body)?).await?;
    state.app.tool_servers.store().add(&caller.tenant, &server).await.map_err(name_taken)?;
    Ok(Success(view(&caller.tenant, &server)?).into_response())
}

fn name_taken(error: Error) -> ApiError {
    or_taken(error, ApiError::data("Duplicated MCP server name."))
}

/// Returns the server with the tools that it lists now. A server that requires a sign-in first keeps the tools
/// already known.
async fn asked(
    state: &ServerState,
    caller: &Caller,
    server: StoredToolServer,
    seconds: u64,
) -> Result<StoredToolServer, ApiError> {
    let listed = match state.app.tool_servers.listed(&caller.tenant, &server, seconds).await {
        // A sign-in is only possible at a server that is stored. Tools that were switched off stay off when they are
        // listed again.
        Err(error) if TenantServers::wants_sign_in(&server, &error) => return Ok(server),
        listed => listed.map_err(|error| untested(&error))?,
    };
    let tools = with_flags(listed, &server.tools);
    Ok(StoredToolServer { tools, ..server })
}

/// Stores a changed version of an existing server. `change` starts from the current state, including concurrent
/// changes.
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
        // Must increase even when the clock has gone back, because other processes detect a change by it.
        server.updated_ms = state.app.clock.now_ms().max(as_of.saturating_add(1));
        let stored = state.app.tool_servers.store().change(&caller.tenant, &server).await;
        Ok::<_, ApiError>(stored.map_err(name_taken)?.then_some(server))
    });
    let server = changed.await?;
    // Open connections still use the old address and headers.
    state.app.tool_servers.forget(&server.id).await;
    Ok(server)
}

/// `PUT /api/v1/mcp/servers/{server}`: changes the fields that are given. If the address changes, the tools are
/// listed again.
///
/// # Errors
/// As [`create`]; 102 for an unknown server.
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
/// 102 for an unknown server.
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
/// 102 without ids and for an unknown server; then none is removed.
pub(crate) async fn remove_named(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    for server in named(&state, &caller, &body).await? {
        // A server that was removed concurrently is already gone, as requested; the others still have to be removed.
        or_gone(state.app.tool_servers.remove(&caller.tenant, &server.id).await)?;
    }
    Ok(Success(true).into_response())
}

/// `POST …/import {mcpServers, timeout}`: returns the outcome for each server. A name that is taken gets a number
/// appended.
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
        return Err(ApiError::argument(format!("one request can contain at most {AT_ONCE_MAX} MCP servers")));
    }
    let seconds = seconds(&body)?;
    let mut results = Vec::new();
    // A server that fails does not stop the others.
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

/// Imports one server in the format that other programs use, and returns its id and name.
async fn imported(
    state: &ServerState,
    caller: &Caller,
    name: &str,
    said: &Json,
    seconds: u64,
) -> Result<(String, String), ApiError> {
    let new = fresh(weft_core::id::generate(), state.app.clock.now_ms());
    let mut server = asked(state, caller, changed(new, &brought(name, said)?)?, seconds).await?;
    // Only the store can tell whether a name is taken: a check beforehand would be a race.
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

/// `POST /v1/mcp_server/export {mcp_ids}`: the servers in the form for export, without secrets.
///
/// # Errors
/// 102 without ids and for an unknown server.
pub(crate) async fn export(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    Ok(Success(exported(&named(&state, &caller, &body).await?)).into_response())
}

/// `POST /v1/mcp_server/list_tools {mcp_ids, timeout}`: lists the tools that each server offers now, by server id.
///
/// # Errors
/// 102 without ids, for an unknown server and for one that does not answer.
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

/// `POST /v1/mcp_server/test_tool {mcp_id, tool_name, arguments, timeout}`: calls a tool and returns its answer as
/// text.
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

/// `POST /api/v1/mcp/servers/{server}/test`: calls the named tool; without one, lists the tools of the server,
/// applying changes in the body that are not stored. A server that does not exist yet is described by the body.
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

/// `POST /v1/mcp_server/test_mcp {url, server_type, headers, variables, timeout}`: lists the tools of a server that
/// is not stored.
///
/// # Errors
/// 101 without an address or a type; 102 for a server that is not valid or does not answer.
pub(crate) async fn try_out(
    State(state): State<ServerState>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    body.require(&ADDRESS)?;
    described(&state, &caller, body).await
}

/// Lists the tools of a server that exists only in the body.
async fn described(state: &ServerState, caller: &Caller, mut body: Body) -> Result<Response, ApiError> {
    // Every server needs a name, and this one is never stored.
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

/// `POST /v1/mcp_server/cache_tools {mcp_id, tools}`: stores the users' settings for tools, mainly which are enabled.
///
/// # Errors
/// 102 for an unknown server; 101 for values that are not tools.
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
