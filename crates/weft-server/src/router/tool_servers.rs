//! Routes for the MCP servers that a tenant has registered.

use super::methods::{DELETE, GET, POST, PUT};
use crate::openapi::Routes;
use crate::openapi::tool_servers as of_server;
use crate::routes::tool_server_sign_in as sign_in;
use crate::routes::tool_servers as servers;

const AUTHORIZATION: &str = "/api/v1/mcp/servers/{server}/authorization";

pub(super) fn of_tool_servers() -> Routes {
    Routes::new("MCP servers")
        .on(GET, "/api/v1/mcp/servers", servers::list, &of_server::LIST)
        .on(POST, "/api/v1/mcp/servers", servers::create, &of_server::CREATE)
        .on(POST, "/api/v1/mcp/servers/import", servers::import, &of_server::IMPORT)
        .on(GET, "/api/v1/mcp/servers/{server}", servers::get, &of_server::GET)
        .on(PUT, "/api/v1/mcp/servers/{server}", servers::update, &of_server::UPDATE)
        .on(DELETE, "/api/v1/mcp/servers/{server}", servers::delete, &of_server::DELETE)
        .on(POST, "/api/v1/mcp/servers/{server}/test", servers::test, &of_server::TEST)
        .on(POST, AUTHORIZATION, sign_in::begin, &of_server::BEGIN_SIGN_IN)
        .on(PUT, AUTHORIZATION, sign_in::finish, &of_server::FINISH_SIGN_IN)
        .on(DELETE, AUTHORIZATION, sign_in::remove, &of_server::SIGN_OUT)
        // Older names.
        .on(POST, "/v1/mcp_server/list", servers::list_named, &of_server::LIST_NAMED)
        .on(GET, "/v1/mcp_server/detail", servers::detail, &of_server::DETAIL)
        .on(POST, "/v1/mcp_server/create", servers::create, &of_server::CREATE)
        .on(POST, "/v1/mcp_server/update", servers::update_named, &of_server::UPDATE_NAMED)
        .on(POST, "/v1/mcp_server/rm", servers::remove_named, &of_server::REMOVE)
        .on(POST, "/v1/mcp_server/import", servers::import, &of_server::IMPORT)
        .on(POST, "/v1/mcp_server/export", servers::export, &of_server::EXPORT)
        .on(POST, "/v1/mcp_server/list_tools", servers::list_tools, &of_server::LIST_TOOLS)
        .on(POST, "/v1/mcp_server/test_tool", servers::test_tool, &of_server::TEST_TOOL)
        .on(POST, "/v1/mcp_server/test_mcp", servers::try_out, &of_server::TRY_OUT)
        .on(POST, "/v1/mcp_server/cache_tools", servers::cache_tools, &of_server::CACHE_TOOLS)
}
