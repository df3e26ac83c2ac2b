//! Schedules of agents.

use super::Operation;
use super::agents::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};

static SCHEDULE: Shape = Shape {
    name: "Schedule",
    summary: "when an agent is asked by itself",
    members: &[
        text("id", "its id"),
        text("agent_id", "which agent"),
        text("name", "its name"),
        text("cron", "a cron expression; null with `every`").nullable(),
        text("timezone", "the IANA name of its zone").nullable(),
        text("every", "an interval such as `15m`; null with `cron`").nullable(),
        text("query", "the question"),
        member("inputs", Type::Map(&Type::Any), "the fields of the form"),
        list(
            "unread_inputs",
            &Type::Text,
            "those of them that nothing in the agent reads, such as a slip in a name",
        ),
        list("files", &Type::Any, "files that come with the question"),
        text("user_id", "who asks"),
        text("session_id", "in which session; a new one each time when null").nullable(),
        member("misfire", Type::OneOf(&["skip", "once", "all"]), "what becomes of times that were missed"),
        whole("misfire_max", "how many of them are made up for, with `all`").nullable(),
        flag("enabled", "whether it is on"),
        time("next_time", "when it is next").nullable(),
        list("upcoming", &Type::Text, "that time and those after it, as ISO 8601 has them"),
        time("create_time", "when it was made"),
        time("update_time", "when it was changed"),
    ],
};

const SCHEDULE_BODY: [Member; 12] = [
    text("cron", "a cron expression; this or `every`").optional(),
    text("every", "an interval such as `15m`").optional(),
    text("timezone", "the IANA name of the zone of `cron`; UTC when absent").optional(),
    text("name", "its name").optional(),
    text("query", "the question").optional(),
    member("inputs", Type::Map(&Type::Any), "the fields of the form").optional(),
    list("files", &Type::Any, "files that come with the question").optional(),
    text("user_id", "who asks").optional(),
    text("session_id", "in which session; a new one each time when empty").optional(),
    member("misfire", Type::OneOf(&["skip", "once", "all"]), "what becomes of times that were missed")
        .optional(),
    whole("misfire_max", "how many of them are made up for, with `all`").optional(),
    flag("enabled", "whether it is on").optional(),
];

/// `GET …/schedules`.
pub static LIST: Operation =
    Operation::reads("Lists the schedules of an agent.").query(&PAGE).data(Type::Object(&[
        list("schedules", &Type::Of(&SCHEDULE), "the page"),
        whole("total", "how many there are in all"),
    ]));
/// `POST …/schedules`.
pub static CREATE: Operation =
    Operation::edits("Makes a schedule.").body(&SCHEDULE_BODY).data(Type::Of(&SCHEDULE));
/// `GET …/schedules/{schedule}`.
pub static GET: Operation = Operation::reads("Shows a schedule.").data(Type::Of(&SCHEDULE));
/// `PUT` and `PATCH …/schedules/{schedule}`.
pub static UPDATE: Operation =
    Operation::edits("Changes what is given of a schedule.").body(&SCHEDULE_BODY).data(Type::Of(&SCHEDULE));
/// `DELETE …/schedules/{schedule}`.
pub static DELETE: Operation = Operation::edits("Removes a schedule.").data(Type::Flag);
/// `POST …/schedules/{schedule}/run`.
pub static RUN: Operation = Operation::runs("Asks for what a schedule asks for, now.")
    .data(Type::Object(&[text("run_id", "the run")]));
/// `GET …/schedules/{schedule}/runs`.
pub static RUNS: Operation =
    Operation::reads("Lists what a schedule has asked for.").query(&PAGE).data(Type::Object(&[
        list(
            "runs",
            &Type::Object(&[
                text("run_id", "the run"),
                text("session_id", "its session"),
                time("due_time", "when it was due"),
                text("status", "how it ended, else `queued`, `running`, `given_up` or `done`"),
                whole("attempts", "how often a worker has begun with it"),
                text("reason", "why it was postponed or abandoned"),
                time("start_time", "").nullable(),
                time("finish_time", "").nullable(),
            ]),
            "the page",
        ),
        whole("total", "how many there are in all"),
    ]));
