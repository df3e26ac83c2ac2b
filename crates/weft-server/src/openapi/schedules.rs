//! Schedules of agents.

use super::Operation;
use super::common::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};

static SCHEDULE: Shape = Shape {
    name: "Schedule",
    summary: "when an agent runs automatically",
    members: &[
        text("id", "its id"),
        text("agent_id", "id of the agent"),
        text("name", "its name"),
        text("cron", "a cron expression; null with `every`").nullable(),
        text("timezone", "IANA name of the time zone").nullable(),
        text("every", "an interval such as `15m`; null with `cron`").nullable(),
        text("query", "the question"),
        member("inputs", Type::Map(&Type::Any), "fields of the form"),
        list(
            "unread_inputs",
            &Type::Text,
            "inputs that nothing in the agent reads, such as a misspelled name",
        ),
        list("files", &Type::Any, "files attached to the question"),
        text("user_id", "id of the user who asks"),
        text("session_id", "the session; null: a new one for each run").nullable(),
        member("misfire", Type::OneOf(&["skip", "once", "all"]), "how to handle missed times"),
        whole("misfire_max", "with `all`: maximum number of missed runs to make up for").nullable(),
        flag("enabled", "whether it is enabled"),
        time("next_time", "next time").nullable(),
        list("upcoming", &Type::Text, "the next times in ISO 8601 format"),
        time("create_time", "time of creation"),
        time("update_time", "time of the last change"),
    ],
};

const SCHEDULE_BODY: [Member; 12] = [
    text("cron", "a cron expression; this or `every`").optional(),
    text("every", "an interval such as `15m`").optional(),
    text("timezone", "IANA time zone of `cron`; default: UTC").optional(),
    text("name", "its name").optional(),
    text("query", "the question").optional(),
    member("inputs", Type::Map(&Type::Any), "fields of the form").optional(),
    list("files", &Type::Any, "files attached to the question").optional(),
    text("user_id", "id of the user who asks").optional(),
    text("session_id", "the session; empty: a new one for each run").optional(),
    member("misfire", Type::OneOf(&["skip", "once", "all"]), "how to handle missed times").optional(),
    whole("misfire_max", "with `all`: maximum number of missed runs to make up for").optional(),
    flag("enabled", "whether it is enabled").optional(),
];

/// `GET …/schedules`.
pub static LIST: Operation =
    Operation::reads("Lists the schedules of an agent.").query(&PAGE).data(Type::Object(&[
        list("schedules", &Type::Of(&SCHEDULE), "entries of the page"),
        whole("total", "total number"),
    ]));
/// `POST …/schedules`.
pub static CREATE: Operation =
    Operation::edits("Creates a schedule.").body(&SCHEDULE_BODY).data(Type::Of(&SCHEDULE));
/// `GET …/schedules/{schedule}`.
pub static GET: Operation = Operation::reads("Shows a schedule.").data(Type::Of(&SCHEDULE));
/// `PUT` and `PATCH …/schedules/{schedule}`.
pub static UPDATE: Operation = Operation::edits("Updates the given fields of a schedule.")
    .body(&SCHEDULE_BODY)
    .data(Type::Of(&SCHEDULE));
/// `DELETE …/schedules/{schedule}`.
pub static DELETE: Operation = Operation::edits("Removes a schedule.").data(Type::Flag);
/// `POST …/schedules/{schedule}/run`.
pub static RUN: Operation =
    Operation::runs("Queues a run of a schedule now.").data(Type::Object(&[text("run_id", "the run")]));
/// `GET …/schedules/{schedule}/runs`.
pub static RUNS: Operation =
    Operation::reads("Lists the runs of a schedule.").query(&PAGE).data(Type::Object(&[
        list(
            "runs",
            &Type::Object(&[
                text("run_id", "the run"),
                text("session_id", "id of the session"),
                time("due_time", "due time"),
                text("status", "final status; otherwise `queued`, `running`, `given_up` or `done`"),
                whole("attempts", "number of attempts by workers"),
                text("reason", "why it was postponed or abandoned"),
                time("start_time", "").nullable(),
                time("finish_time", "").nullable(),
            ]),
            "entries of the page",
        ),
        whole("total", "total number"),
    ]));
