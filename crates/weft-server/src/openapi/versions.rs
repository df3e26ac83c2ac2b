//! Versions of agents, tags, and export and import of agents.

use super::Operation;
use super::agents::{AGENT, AGENT_BODY, PAGE, PROBLEM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time};

/// The version of an agent.
pub const NAMED: Member =
    text("version", "the version that answers, by its hash, a label, `published` or `latest`").optional();

/// A version.
static VERSION: Shape = Shape {
    name: "Version",
    summary: "a version of an agent",
    members: &[
        text("id", "its hash"),
        text("user_canvas_id", "the agent"),
        text("title", "its name; made of the agent's title and the time where nobody has named it"),
        text("description", "what there is to say about it"),
        flag("release", "whether it is the published one"),
        time("release_time", "when it was published").nullable(),
        list("labels", &Type::Text, "the labels that point to it"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was saved last"),
        text("update_date", "the same in words"),
        member("dsl", Type::Any, "its canvas; null in a list that was asked for without"),
    ],
};

/// `GET …/versions`.
pub static LIST: Operation =
    Operation::reads("Lists the versions of an agent, those first that were saved last.")
        .query(&[PAGE[0], PAGE[1], flag("dsl", "whether with their canvases; true when absent").optional()])
        .data(Type::List(&Type::Of(&VERSION)));
/// `GET …/versions/{version}`.
pub static GET: Operation =
    Operation::reads("Shows a version, named by its hash, a label, `published` or `latest`.")
        .data(Type::Of(&VERSION));
/// `PUT` and `PATCH …/versions/{version}`.
pub static UPDATE: Operation = Operation::edits("Names a version, describes it, or publishes it.")
    .body(&[
        text("title", "its name; empty for one that is made").optional(),
        text("description", "what there is to say about it").optional(),
        flag("release", "whether it is the published one").optional(),
    ])
    .data(Type::Of(&VERSION));
/// `POST …/versions/{version}/restore`.
pub static RESTORE: Operation =
    Operation::edits("Makes the canvas of a version the newest one again.").data(Type::Of(&AGENT));

static NODE: [Member; 2] = [text("id", "its id"), text("component_name", "its type")];
static CHANGE: Shape = Shape {
    name: "Change",
    summary: "a value that differs",
    members: &[
        text("pointer", "where, as a JSON pointer"),
        member("from", Type::Any, "what it was; absent when there was none").optional(),
        member("to", Type::Any, "what it is; absent when there is none").optional(),
    ],
};
static CHANGED: [Member; 5] = [
    NODE[0],
    NODE[1],
    list("changes", &Type::Of(&CHANGE), "its type, its frame and its parameters"),
    list("edges_added", &Type::Text, "where it leads now and did not before"),
    list("edges_removed", &Type::Text, "where it led before"),
];

/// `GET …/versions/{version}/diff`.
pub static DIFF: Operation = Operation::reads("Compares two versions component by component.")
    .query(&[text("with", "the other version; the newest when absent").optional()])
    .data(Type::Object(&[
        text("from", "the version that the path names"),
        text("to", "the other one"),
        list("added", &Type::Object(&NODE), "components that only the other one has"),
        list("removed", &Type::Object(&NODE), "components that only this one has"),
        list("changed", &Type::Object(&CHANGED), "components that differ"),
        list("variables", &Type::Of(&CHANGE), "declared variables that differ"),
    ]));

/// `PUT …/labels/{label}`.
pub static LABEL: Operation =
    Operation::edits("Lets a label point to a version, whatever it pointed to before.")
        .body(&[text("version", "the version")])
        .data(Type::Object(&[text("label", "the label"), text("version", "the hash of the version")]));
/// `DELETE …/labels/{label}`.
pub static REMOVE_LABEL: Operation = Operation::edits("Removes a label.").data(Type::Flag);

/// `GET /api/v1/agents/tags`.
pub static LIST_TAGS: Operation =
    Operation::reads("Lists the tags that agents have.").data(Type::List(&Type::Text));
/// `PUT …/tags`.
pub static SET_TAGS: Operation = Operation::edits("Gives an agent these tags.")
    .body(&[member(
        "tags",
        Type::Either(&[Type::Text, Type::List(&Type::Text)]),
        "a list, or a text with commas between them",
    )])
    .data(Type::Object(&[text("tags", "with commas between them")]));

/// `GET …/export`.
pub static EXPORT: Operation =
    Operation::reads("Gives an agent to be handed on, without secrets and without what runs left.")
        .query(&[text("version", "the version; the newest when absent").optional()])
        .data(Type::Object(&[
            text("title", "its title"),
            text("description", "for people"),
            text("canvas_type", "the heading it is listed under"),
            list("tags", &Type::Text, "its tags"),
            member("dsl", Type::Any, "its canvas"),
            list("secrets", &Type::Text, "the secrets that it names"),
            list("stripped", &Type::Text, "where secrets stood in the canvas, as JSON pointers"),
        ]));
/// `POST /api/v1/agents/import`.
pub static IMPORT: Operation =
    Operation::edits("Stores what an export has given as a new agent; a title that is taken gets a number.")
        .body(&AGENT_BODY)
        .data(Type::Object(&[
            text("id", "its id"),
            text("title", "its title"),
            list("problems", &Type::Of(&PROBLEM), "what was found in its canvas"),
            list("missing_secrets", &Type::Text, "the secrets that it names and that there are not"),
        ]));

static TEMPLATE: Shape = Shape {
    name: "Template",
    summary: "a canvas to begin with; it runs without a key",
    members: &[
        text("id", "its id, and the name of the dataset that it searches"),
        text("avatar", "nothing"),
        member("title", Type::Map(&Type::Text), "what it is called, by language"),
        member("description", Type::Map(&Type::Text), "what it shows, by language"),
        text("canvas_type", "the heading it is listed under"),
        list("canvas_types", &Type::Text, "the same as a list"),
        text("canvas_category", "`agent_canvas`, or `dataflow_canvas` for an ingestion pipeline"),
        text("question", "what to ask it for a try"),
        list("documents", &Type::Text, "the names of the documents that `weft new` puts beside it"),
        member("dsl", Type::Any, "the canvas"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};

/// `GET /api/v1/agents/templates`.
pub static LIST_TEMPLATES: Operation =
    Operation::reads("Lists the templates.").data(Type::List(&Type::Of(&TEMPLATE)));
/// `POST /api/v1/agents/templates/{id}`.
pub static BEGIN: Operation =
    Operation::edits("Makes an agent of a template; a title that is taken gets a number.")
        .body(&[text("title", "its title; that of the template when absent").optional()])
        .data(Type::Of(&AGENT));
