//! Versions of agents, tags, and export and import of agents.

use super::Operation;
use super::agents::{AGENT, AGENT_BODY, PROBLEM};
use super::common::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time};

/// A version.
static VERSION: Shape = Shape {
    name: "Version",
    summary: "a version of an agent",
    members: &[
        text("id", "its hash"),
        text("user_canvas_id", "the agent"),
        text("title", "name; by default made of the agent's title and the time"),
        text("description", "description"),
        flag("release", "whether it is the published one"),
        time("release_time", "time of publication").nullable(),
        list("labels", &Type::Text, "the labels that point to it"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last save"),
        text("update_date", "the same as text"),
        member("dsl", Type::Any, "canvas; null in a list requested without canvases"),
    ],
};

/// `GET …/versions`.
pub static LIST: Operation = Operation::reads("Lists the versions of an agent, last saved first.")
    .query(&[PAGE[0], PAGE[1], flag("dsl", "whether to include the canvases; default: true").optional()])
    .data(Type::List(&Type::Of(&VERSION)));
/// `GET …/versions/{version}`.
pub static GET: Operation =
    Operation::reads("Shows a version by its hash, a label, `published` or `latest`.")
        .data(Type::Of(&VERSION));
/// `PUT` and `PATCH …/versions/{version}`.
pub static UPDATE: Operation =
    Operation::edits("Changes the name or description of a version, or publishes it.")
        .body(&[
            text("title", "name; empty: a generated one").optional(),
            text("description", "description").optional(),
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
        text("pointer", "location as a JSON pointer"),
        member("from", Type::Any, "old value; absent if there was none").optional(),
        member("to", Type::Any, "new value; absent if there is none").optional(),
    ],
};
static CHANGED: [Member; 5] = [
    NODE[0],
    NODE[1],
    list("changes", &Type::Of(&CHANGE), "changes to its type, frame and parameters"),
    list("edges_added", &Type::Text, "targets of added edges"),
    list("edges_removed", &Type::Text, "targets of removed edges"),
];

/// `GET …/versions/{version}/diff`.
pub static DIFF: Operation = Operation::reads("Compares two versions component by component.")
    .query(&[text("with", "the other version; default: the newest").optional()])
    .data(Type::Object(&[
        text("from", "the version in the path"),
        text("to", "the other one"),
        list("added", &Type::Object(&NODE), "components that only the other version has"),
        list("removed", &Type::Object(&NODE), "components that only the version in the path has"),
        list("changed", &Type::Object(&CHANGED), "components that differ"),
        list("variables", &Type::Of(&CHANGE), "declared variables that differ"),
    ]));

/// `PUT …/labels/{label}`.
pub static LABEL: Operation = Operation::edits("Sets a label to a version, replacing its previous target.")
    .body(&[text("version", "the version")])
    .data(Type::Object(&[text("label", "the label"), text("version", "the hash of the version")]));
/// `DELETE …/labels/{label}`.
pub static REMOVE_LABEL: Operation = Operation::edits("Removes a label.").data(Type::Flag);

/// `GET /api/v1/agents/tags`.
pub static LIST_TAGS: Operation = Operation::reads("Lists the tags of agents.").data(Type::List(&Type::Text));
/// `PUT …/tags`.
pub static SET_TAGS: Operation = Operation::edits("Sets the tags of an agent.")
    .body(&[member(
        "tags",
        Type::Either(&[Type::Text, Type::List(&Type::Text)]),
        "a list, or text separated by commas",
    )])
    .data(Type::Object(&[text("tags", "separated by commas")]));

/// `GET …/export`.
pub static EXPORT: Operation =
    Operation::reads("Exports an agent, without secrets and without data from runs.")
        .query(&[text("version", "the version; default: the newest").optional()])
        .data(Type::Object(&[
            text("title", "its title"),
            text("description", "description"),
            text("canvas_type", "heading in lists"),
            list("tags", &Type::Text, "its tags"),
            member("dsl", Type::Any, "its canvas"),
            list("secrets", &Type::Text, "secrets that it refers to"),
            list("stripped", &Type::Text, "locations of secrets removed from the canvas, as JSON pointers"),
        ]));
/// `POST /api/v1/agents/import`.
pub static IMPORT: Operation =
    Operation::edits("Imports an exported agent as a new one; a title that is taken gets a number.")
        .body(&AGENT_BODY)
        .data(Type::Object(&[
            text("id", "its id"),
            text("title", "its title"),
            list("problems", &Type::Of(&PROBLEM), "findings in its canvas"),
            list("missing_secrets", &Type::Text, "secrets that it refers to but that do not exist"),
        ]));

static TEMPLATE: Shape = Shape {
    name: "Template",
    summary: "a canvas to start from; it runs without a key",
    members: &[
        text("id", "id, and name of the dataset that it searches"),
        text("avatar", "nothing"),
        member("title", Type::Map(&Type::Text), "title by language"),
        member("description", Type::Map(&Type::Text), "description by language"),
        text("canvas_type", "heading in lists"),
        list("canvas_types", &Type::Text, "the same as a list"),
        text("canvas_category", "`agent_canvas`, or `dataflow_canvas` for an ingestion pipeline"),
        text("question", "a question to try it with"),
        list("documents", &Type::Text, "names of the documents that `weft new` puts beside it"),
        member("dsl", Type::Any, "the canvas"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};

/// `GET /api/v1/agents/templates`.
pub static LIST_TEMPLATES: Operation =
    Operation::reads("Lists the templates.").data(Type::List(&Type::Of(&TEMPLATE)));
/// `POST /api/v1/agents/templates/{id}`.
pub static BEGIN: Operation =
    Operation::edits("Creates an agent from a template; a title that is taken gets a number.")
        .body(&[text("title", "title; default: that of the template").optional()])
        .data(Type::Of(&AGENT));
