//! MCP servers that a tenant has registered.

use super::Operation;
use super::agents::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};

static SERVER: Shape = Shape {
    name: "ToolServer",
    summary: "an MCP server of the tenant; agents name it by its id",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("tenant_id", "whose it is"),
        text("url", "where it is"),
        text("server_type", "what is spoken there"),
        text("description", "what it is for"),
        member("variables", Type::Any, "what headers refer to, masked; `tools` has what it offers, by name"),
        member(
            "headers",
            Type::Map(&Type::Text),
            "what it is sent; values are masked unless they are variables",
        ),
        time("create_time", "when it was written down"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};
static ONE: Type = Type::Of(&SERVER);
const SERVERS: Type =
    Type::Object(&[list("mcp_servers", &ONE, "the page"), whole("total", "how many there are in all")]);
const QUERY: [Member; 5] = [
    PAGE[0],
    PAGE[1],
    text("keywords", "only those with this in their name").optional(),
    member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "by what").optional(),
    flag("desc", "whether the newest come first; true when absent").optional(),
];
const LISTED: [Member; 6] = [
    QUERY[0],
    QUERY[1],
    QUERY[2],
    QUERY[3],
    QUERY[4],
    text("mcp_ids", "only these, with commas between them").optional(),
];
const KIND: Member = member("server_type", Type::OneOf(&["sse", "streamable-http"]), "what is spoken there");
const ADDRESS: [Member; 5] = [
    text("url", "where it is"),
    KIND,
    member("headers", Type::Map(&Type::Any), "what it is sent; `${name}` stands for a variable").optional(),
    member("variables", Type::Map(&Type::Any), "what headers refer to").optional(),
    member("timeout", Type::Number, "seconds that a request to it may take, 1 to 60; 10 when absent")
        .optional(),
];
const NAME: Member = text("name", "its name, 1 to 255 bytes");
const WORDS: Member = text("description", "what it is for").optional();
const CHANGE: [Member; 7] = [
    text("name", "its name, 1 to 255 bytes").optional(),
    WORDS,
    text("url", "where it is").optional(),
    text("server_type", "what is spoken there").optional(),
    ADDRESS[2],
    ADDRESS[3],
    ADDRESS[4],
];
const ID: Member = text("mcp_id", "which one");
const IDS: Member = list("mcp_ids", &Type::Text, "which ones");
static TOOL: Type = Type::Object(&[
    text("name", "its name"),
    text("description", "what it does").optional(),
    member("inputSchema", Type::Any, "the schema of its arguments").optional(),
    flag("enabled", "whether agents are offered it").optional(),
]);
const CALL: [Member; 2] =
    [text("tool_name", "which tool"), member("arguments", Type::Map(&Type::Any), "what it is called with")];
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
    .body(&[list("mcp_ids", &Type::Text, "only these").optional()])
    .data(SERVERS);
/// `GET /api/v1/mcp/servers/{server}`.
pub static GET: Operation = Operation::reads("Shows an MCP server, without its secrets.")
    .query(&[text("mode", "`download` for the form to hand on").optional()])
    .data(Type::Either(&[Type::Of(&SERVER), EXPORTED]));
/// `GET /v1/mcp_server/detail`.
pub static DETAIL: Operation =
    Operation::reads("Shows an MCP server, without its secrets.").query(&[ID]).data(Type::Of(&SERVER));
/// `POST /api/v1/mcp/servers`.
pub static CREATE: Operation = Operation::edits("Writes an MCP server down that answers now.")
    .body(&[NAME, WORDS, ADDRESS[0], ADDRESS[1], ADDRESS[2], ADDRESS[3], ADDRESS[4]])
    .data(Type::Of(&SERVER));
/// `PUT /api/v1/mcp/servers/{server}`.
pub static UPDATE: Operation =
    Operation::edits("Changes what is given of an MCP server; a masked value stays.")
        .body(&CHANGE)
        .data(Type::Of(&SERVER));
/// `POST /v1/mcp_server/update`.
pub static UPDATE_NAMED: Operation =
    Operation::edits("Changes what is given of an MCP server; a masked value stays.")
        .body(&[ID, CHANGE[0], CHANGE[1], CHANGE[2], CHANGE[3], CHANGE[4], CHANGE[5], CHANGE[6]])
        .data(Type::Of(&SERVER));
/// `DELETE /api/v1/mcp/servers/{server}`.
pub static DELETE: Operation = Operation::edits("Removes an MCP server.").data(Type::Flag);
/// `POST /v1/mcp_server/rm`.
pub static REMOVE: Operation =
    Operation::edits("Removes MCP servers, all of them or none.").body(&[IDS]).data(Type::Flag);
/// `POST /api/v1/mcp/servers/{server}/authorization`.
pub static BEGIN_SIGN_IN: Operation = Operation::edits(
    "Begins a sign-in at an MCP server that wants one (OAuth 2.1): says at which page a person allows what agents do there. \
     The person's browser is then sent to `redirect_uri`.",
)
.body(&[
    text("redirect_uri", "where the browser is sent afterwards; what it is called with ends the sign-in"),
    text("scope", "what is to be allowed, words with spaces; absent: what the server asks for").optional(),
])
.data(Type::Object(&[
    text("authorization_url", "the page for the person's browser"),
    text("state", "what comes back with the person"),
]));
/// `PUT /api/v1/mcp/servers/{server}/authorization`.
pub static FINISH_SIGN_IN: Operation = Operation::edits(
    "Ends a sign-in at an MCP server, within ten minutes. From then on agents ask the server with what was allowed.",
)
.body(&[text("callback_url", "the whole address that the person's browser was sent to")])
.data(Type::Flag);
/// `DELETE /api/v1/mcp/servers/{server}/authorization`.
pub static SIGN_OUT: Operation =
    Operation::edits("Forgets what was allowed at an MCP server; says whether anything was.")
        .data(Type::Flag);
/// `POST …/import`.
pub static IMPORT: Operation = Operation::edits("Writes MCP servers down as other programs have them.")
    .body(&[
        member(
            "mcpServers",
            Type::Map(&Type::Any),
            "by name: `type`, `url`, also `authorization_token`, `headers`, and what these name as `${name}`",
        ),
        ADDRESS[4],
    ])
    .data(Type::Object(&[list(
        "results",
        &Type::Any,
        "what came of each: `server`, `success`, `id`, `message`",
    )]));
/// `POST /v1/mcp_server/export`.
pub static EXPORT: Operation = Operation::reads("Gives MCP servers to be handed on, without what is secret.")
    .body(&[IDS])
    .data(EXPORTED);
/// `POST /v1/mcp_server/list_tools`.
pub static LIST_TOOLS: Operation = Operation::runs("Asks MCP servers what they offer.")
    .body(&[IDS, ADDRESS[4]])
    .data(Type::Map(&Type::List(&TOOL)));
/// `POST /v1/mcp_server/test_tool`.
pub static TEST_TOOL: Operation = Operation::edits("Calls a tool of an MCP server once.")
    .body(&[ID, CALL[0], CALL[1], ADDRESS[4]])
    .data(Type::Text);
/// `POST /api/v1/mcp/servers/{server}/test`.
pub static TEST: Operation = Operation::edits(
    "Calls a tool of an MCP server once, or asks what it offers, also with changes that are not stored; one that is not there \
     yet is described by `url` and `server_type`.",
)
.body(&[
    text("tool_name", "which tool").optional(),
    member("arguments", Type::Map(&Type::Any), "what it is called with").optional(),
    CHANGE[2],
    CHANGE[3],
    CHANGE[4],
    CHANGE[5],
    CHANGE[6],
])
.data(Type::Either(&[Type::Text, Type::List(&TOOL)]));
/// `POST /v1/mcp_server/test_mcp`.
pub static TRY_OUT: Operation = Operation::edits("Asks an MCP server that is not stored what it offers.")
    .body(&ADDRESS)
    .data(Type::List(&TOOL));
/// `POST /v1/mcp_server/cache_tools`.
pub static CACHE_TOOLS: Operation = Operation::edits("Says which tools of an MCP server agents are offered.")
    .body(&[ID, list("tools", &TOOL, "its tools")])
    .data(Type::List(&TOOL));
