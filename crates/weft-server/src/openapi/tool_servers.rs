//! MCP servers that a tenant has registered.

use super::Operation;
use super::common::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};

static SERVER: Shape = Shape {
    name: "ToolServer",
    summary: "an MCP server of the tenant; agents refer to it by id",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("tenant_id", "owning tenant"),
        text("url", "URL of the server"),
        text("server_type", "transport"),
        text("description", "purpose"),
        member(
            "variables",
            Type::Any,
            "variables that headers refer to, masked; `tools` holds the offered tools by name",
        ),
        member(
            "headers",
            Type::Map(&Type::Text),
            "headers to send; values are masked unless they are variables",
        ),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};
static ONE: Type = Type::Of(&SERVER);
const SERVERS: Type =
    Type::Object(&[list("mcp_servers", &ONE, "entries of the page"), whole("total", "total number")]);
const QUERY: [Member; 5] = [
    PAGE[0],
    PAGE[1],
    text("keywords", "only those with this text in the name").optional(),
    member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "sort field").optional(),
    flag("desc", "whether to sort in descending order; default: true").optional(),
];
const LISTED: [Member; 6] = [
    QUERY[0],
    QUERY[1],
    QUERY[2],
    QUERY[3],
    QUERY[4],
    text("mcp_ids", "only these, separated by commas").optional(),
];
const KIND: Member = member("server_type", Type::OneOf(&["sse", "streamable-http"]), "transport");
const ADDRESS: [Member; 5] = [
    text("url", "URL of the server"),
    KIND,
    member("headers", Type::Map(&Type::Any), "headers to send; `${name}` stands for a variable").optional(),
    member("variables", Type::Map(&Type::Any), "variables that headers refer to").optional(),
    member("timeout", Type::Number, "time limit of a request in seconds, 1 to 60; default: 10").optional(),
];
const NAME: Member = text("name", "name, 1 to 255 bytes");
const WORDS: Member = text("description", "purpose").optional();
const CHANGE: [Member; 7] = [
    text("name", "name, 1 to 255 bytes").optional(),
    WORDS,
    text("url", "URL of the server").optional(),
    text("server_type", "transport").optional(),
    ADDRESS[2],
    ADDRESS[3],
    ADDRESS[4],
];
const ID: Member = text("mcp_id", "id of the server");
const IDS: Member = list("mcp_ids", &Type::Text, "which ones");
static TOOL: Type = Type::Object(&[
    text("name", "its name"),
    text("description", "what it does").optional(),
    member("inputSchema", Type::Any, "schema of its arguments").optional(),
    flag("enabled", "whether it is offered to agents").optional(),
]);
const CALL: [Member; 2] = [
    text("tool_name", "name of the tool"),
    member("arguments", Type::Map(&Type::Any), "arguments of the call"),
];
const EXPORTED: Type = Type::Object(&[member(
    "mcpServers",
    Type::Map(&Type::Any),
    "by name: `type`, `url`, `tools`; no secrets",
)]);

/// `GET /api/v1/mcp/servers`.
pub static LIST: Operation =
    Operation::reads("Lists the MCP servers of the tenant.").query(&LISTED).data(SERVERS);
/// `POST /v1/mcp_server/list`.
pub static LIST_NAMED: Operation = Operation::reads("Lists the MCP servers of the tenant.")
    .query(&QUERY)
    .body(&[list("mcp_ids", &Type::Text, "only these servers").optional()])
    .data(SERVERS);
/// `GET /api/v1/mcp/servers/{server}`.
pub static GET: Operation = Operation::reads("Shows an MCP server, without its secrets.")
    .query(&[text("mode", "`download` for the export format").optional()])
    .data(Type::Either(&[Type::Of(&SERVER), EXPORTED]));
/// `GET /v1/mcp_server/detail`.
pub static DETAIL: Operation =
    Operation::reads("Shows an MCP server, without its secrets.").query(&[ID]).data(Type::Of(&SERVER));
/// `POST /api/v1/mcp/servers`.
pub static CREATE: Operation = Operation::edits("Stores an MCP server, which must respond now.")
    .body(&[NAME, WORDS, ADDRESS[0], ADDRESS[1], ADDRESS[2], ADDRESS[3], ADDRESS[4]])
    .data(Type::Of(&SERVER));
/// `PUT /api/v1/mcp/servers/{server}`.
pub static UPDATE: Operation =
    Operation::edits("Updates the given fields of an MCP server; a masked value is kept.")
        .body(&CHANGE)
        .data(Type::Of(&SERVER));
/// `POST /v1/mcp_server/update`.
pub static UPDATE_NAMED: Operation =
    Operation::edits("Updates the given fields of an MCP server; a masked value is kept.")
        .body(&[ID, CHANGE[0], CHANGE[1], CHANGE[2], CHANGE[3], CHANGE[4], CHANGE[5], CHANGE[6]])
        .data(Type::Of(&SERVER));
/// `DELETE /api/v1/mcp/servers/{server}`.
pub static DELETE: Operation = Operation::edits("Removes an MCP server.").data(Type::Flag);
/// `POST /v1/mcp_server/rm`.
pub static REMOVE: Operation =
    Operation::edits("Removes MCP servers, all of them or none.").body(&[IDS]).data(Type::Flag);
/// `POST /api/v1/mcp/servers/{server}/authorization`.
pub static BEGIN_SIGN_IN: Operation = Operation::edits(
    "Starts a sign-in to an MCP server that requires one (OAuth 2.1): returns the page where a person authorizes \
     access for agents. The person's browser is then redirected to `redirect_uri`.",
)
.body(&[
    text("redirect_uri", "URL to redirect the browser to afterwards; its query completes the sign-in"),
    text("scope", "scopes to request, separated by spaces; default: those the server asks for").optional(),
])
.data(Type::Object(&[
    text("authorization_url", "the page for the person's browser"),
    text("state", "value returned with the redirect"),
]));
/// `PUT /api/v1/mcp/servers/{server}/authorization`.
pub static FINISH_SIGN_IN: Operation = Operation::edits(
    "Completes a sign-in to an MCP server, within ten minutes. From then on agents use the authorization.",
)
.body(&[text("callback_url", "full URL that the person's browser was redirected to")])
.data(Type::Flag);
/// `DELETE /api/v1/mcp/servers/{server}/authorization`.
pub static SIGN_OUT: Operation =
    Operation::edits("Removes the authorization for an MCP server; returns whether there was one.")
        .data(Type::Flag);
/// `POST …/import`.
pub static IMPORT: Operation = Operation::edits("Imports MCP servers in the format of other programs.")
    .body(&[
        member(
            "mcpServers",
            Type::Map(&Type::Any),
            "by name: `type`, `url`, also `authorization_token`, `headers`, and the variables these refer to as \
             `${name}`",
        ),
        ADDRESS[4],
    ])
    .data(Type::Object(&[list(
        "results",
        &Type::Any,
        "result for each: `server`, `success`, `id`, `message`",
    )]));
/// `POST /v1/mcp_server/export`.
pub static EXPORT: Operation =
    Operation::reads("Exports MCP servers, without secrets.").body(&[IDS]).data(EXPORTED);
/// `POST /v1/mcp_server/list_tools`.
pub static LIST_TOOLS: Operation = Operation::runs("Lists the tools that MCP servers offer.")
    .body(&[IDS, ADDRESS[4]])
    .data(Type::Map(&Type::List(&TOOL)));
/// `POST /v1/mcp_server/test_tool`.
pub static TEST_TOOL: Operation = Operation::edits("Calls a tool of an MCP server once.")
    .body(&[ID, CALL[0], CALL[1], ADDRESS[4]])
    .data(Type::Text);
/// `POST /api/v1/mcp/servers/{server}/test`.
pub static TEST: Operation = Operation::edits(
    "Calls a tool of an MCP server once, or lists its tools, also with unsaved changes; a server not stored yet \
     is described by `url` and `server_type`.",
)
.body(&[
    text("tool_name", "name of the tool").optional(),
    member("arguments", Type::Map(&Type::Any), "arguments of the call").optional(),
    CHANGE[2],
    CHANGE[3],
    CHANGE[4],
    CHANGE[5],
    CHANGE[6],
])
.data(Type::Either(&[Type::Text, Type::List(&TOOL)]));
/// `POST /v1/mcp_server/test_mcp`.
pub static TRY_OUT: Operation = Operation::edits("Lists the tools of an MCP server that is not stored.")
    .body(&ADDRESS)
    .data(Type::List(&TOOL));
/// `POST /v1/mcp_server/cache_tools`.
pub static CACHE_TOOLS: Operation =
    Operation::edits("Sets which tools of an MCP server are offered to agents.")
        .body(&[ID, list("tools", &TOOL, "its tools")])
        .data(Type::List(&TOOL));
