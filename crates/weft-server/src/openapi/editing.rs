//! Routes for editors of canvases: single components and their forms, prompts, databases, settings.

use super::agents::{AGENT, AGENT_BODY, LIST_SESSIONS, SESSION};
use super::shape::{Member, Type, list, member, text, whole};
use super::{Operation, Shared};

/// A component of an agent.
const COMPONENT: [Member; 2] = [text("id", "the agent"), text("component_id", "the component, by its id")];

/// The fields of a form, by name.
const FORM: Type = Type::Map(&Type::Object(&[
    text("name", "what to show").optional(),
    text("type", "what kind of field: `line`, `paragraph`, `options`, `file` …").optional(),
]));
const VALUES: Member = member(
    "params",
    Type::Map(&Type::Any),
    "the values by the names of the fields, each alone or as `{\"value\": …}`",
);

/// `GET …/input-form`.
pub static INPUT_FORM: Operation =
    Operation::reads("Shows what a component asks for when it runs alone.").data(FORM);
/// `GET …/input_form`.
pub static INPUT_FORM_NAMED: Operation =
    Operation::reads("Shows what a component asks for when it runs alone.").query(&COMPONENT).data(FORM);
/// `POST …/debug`.
pub static DEBUG: Operation = Operation::edits(
    "Runs a component alone, on a copy of the newest canvas, and answers with its outputs; why it failed is in `_ERROR`.",
)
.body(&[VALUES])
.data(Type::Map(&Type::Any));
/// `POST …/debug` with the component in the body.
pub static DEBUG_NAMED: Operation = Operation::edits(
    "Runs a component alone, on a copy of the newest canvas, and answers with its outputs; why it failed is in `_ERROR`.",
)
.body(&[COMPONENT[0], COMPONENT[1], VALUES])
.data(Type::Map(&Type::Any));

/// `GET …/prompts`.
pub static PROMPTS: Operation =
    Operation::reads("Shows what agents are told by default.").data(Type::Object(&[
        text("task_analysis", "how a task is looked at"),
        text("plan_generation", "how the next calls are chosen"),
        text("reflection", "how results are judged"),
        text("citation_guidelines", "how sources are cited"),
    ]));

/// `POST …/test_db_connection`.
pub static TEST_DATABASE: Operation = Operation::edits(
    "Says whether a database lets itself be asked: by the same way, and at the same addresses, as canvases ask.",
)
.body(&[
    member(
        "db_type",
        Type::OneOf(&["mysql", "mariadb", "oceanbase", "postgres", "sqlite"]),
        "what kind of database it is",
    ),
    text("database", "the database on the server, or a file of the workspace"),
    text("username", "who asks").optional(),
    text("host", "the server").optional(),
    member("port", Type::Any, "its port").optional(),
    text("password", "how the server knows that it is them").optional(),
])
.data(Type::Text);

/// `POST …/setting`.
pub static SETTING: Operation = Operation::edits("Changes what is said of a canvas, and not the canvas.")
    .body(&[
        text("id", "which one"),
        text("title", "its title"),
        member("permission", Type::OneOf(&["me", "team"]), "who sees it"),
        AGENT_BODY[2],
        AGENT_BODY[3],
    ])
    .data(Type::Whole);

/// `GET …/getsse/{id}`.
pub static GET_SHARED: Operation = Operation::reads(
    "Shows an agent with its canvas; whoever has a share token is shown what a conversation begins with.",
)
.data(Type::Of(&AGENT))
.shared(Shared::Agent);

/// `GET …/{id}/sessions` of a canvas.
pub static SESSIONS: Operation =
    Operation::reads("Lists the sessions of an agent.").query(LIST_SESSIONS.query).data(Type::Object(&[
        list("sessions", &Type::Of(&SESSION), "the page"),
        whole("total", "how many there are in all"),
    ]));
