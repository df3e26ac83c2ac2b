//! Routes for editors of canvases: single components and their forms, prompts, databases, settings.

use super::agents::{AGENT, AGENT_BODY, LIST_SESSIONS, SESSION};
use super::shape::{Member, Type, list, member, text, whole};
use super::{Operation, Shared};

/// A component of an agent.
const COMPONENT: [Member; 2] = [text("id", "the agent"), text("component_id", "id of the component")];

/// The fields of a form, by name.
const FORM: Type = Type::Map(&Type::Object(&[
    text("name", "label").optional(),
    text("type", "type of field: `line`, `paragraph`, `options`, `file` …").optional(),
]));
const VALUES: Member =
    member("params", Type::Map(&Type::Any), "values by field name, each directly or as `{\"value\": …}`");

/// `GET …/input-form`.
pub static INPUT_FORM: Operation =
    Operation::reads("Shows the input form of a component that is run alone.").data(FORM);
/// `GET …/input_form`.
pub static INPUT_FORM_NAMED: Operation =
    Operation::reads("Shows the input form of a component that is run alone.").query(&COMPONENT).data(FORM);
/// `POST …/debug`.
pub static DEBUG: Operation = Operation::edits(
    "Runs a component alone, on a copy of the newest canvas, and returns its outputs; `_ERROR` holds the reason \
     for a failure.",
)
.body(&[VALUES])
.data(Type::Map(&Type::Any));
/// `POST …/debug` with the component in the body.
pub static DEBUG_NAMED: Operation = Operation::edits(
    "Runs a component alone, on a copy of the newest canvas, and returns its outputs; `_ERROR` holds the reason \
     for a failure.",
)
.body(&[COMPONENT[0], COMPONENT[1], VALUES])
.data(Type::Map(&Type::Any));

/// `GET …/prompts`.
pub static PROMPTS: Operation =
    Operation::reads("Shows the default prompts of agents.").data(Type::Object(&[
        text("task_analysis", "prompt for analyzing a task"),
        text("plan_generation", "prompt for choosing the next calls"),
        text("reflection", "prompt for judging results"),
        text("citation_guidelines", "prompt for citing sources"),
    ]));

/// `POST …/test_db_connection`.
pub static TEST_DATABASE: Operation = Operation::edits(
    "Tests the connection to a database, in the same way and at the same addresses as canvases connect.",
)
.body(&[
    member(
        "db_type",
        Type::OneOf(&["mysql", "mariadb", "oceanbase", "postgres", "sqlite"]),
        "kind of database",
    ),
    text("database", "name of the database, or a file in the workspace"),
    text("username", "user name").optional(),
    text("host", "host name of the server").optional(),
    member("port", Type::Any, "port of the server").optional(),
    text("password", "password of the user").optional(),
    member(
        "sslmode",
        Type::OneOf(&["disable", "prefer", "require", "verify-full"]),
        "whether the connection is encrypted",
    )
    .optional(),
])
.data(Type::Text);

/// `POST …/setting`.
pub static SETTING: Operation = Operation::edits("Changes the metadata of a canvas, not the canvas itself.")
    .body(&[
        text("id", "id of the canvas"),
        text("title", "its title"),
        member("permission", Type::OneOf(&["me", "team"]), "who can see it"),
        AGENT_BODY[2],
        AGENT_BODY[3],
    ])
    .data(Type::Whole);

/// `GET …/getsse/{id}`.
pub static GET_SHARED: Operation =
    Operation::reads("Shows an agent with its canvas; with a share token, only what starts a conversation.")
        .data(Type::Of(&AGENT))
        .shared(Shared::Agent);

/// `GET …/{id}/sessions` of a canvas.
pub static SESSIONS: Operation =
    Operation::reads("Lists the sessions of an agent.").query(LIST_SESSIONS.query).data(Type::Object(&[
        list("sessions", &Type::Of(&SESSION), "entries of the page"),
        whole("total", "total number"),
    ]));
