//! Runs, human tasks, tokens, models and the server itself.

use super::agents::WHOLE;
use super::common::{PAGE, STRATEGY, STREAM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation};

static RUN: Shape = Shape {
    name: "Run",
    summary: "a turn of a session",
    members: &[
        text("id", "its id"),
        text("session_id", "id of the session"),
        text("agent_id", "id of the agent"),
        text("query", "the question"),
        text("status", "final status; otherwise `running` in this process, or `unfinished`"),
        time("create_time", "start time"),
        time("finish_time", "end time").nullable(),
        text("version", "version of the agent that it runs, for a single run").optional(),
    ],
};

/// `GET /api/v1/runs`.
pub static LIST: Operation = Operation::reads("Lists the runs, newest first.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("session_id", "only those of this session").optional(),
        flag("unfinished", "only unfinished ones").optional(),
    ])
    .data(Type::Object(&[list("runs", &Type::Of(&RUN), "entries of the page")]));
/// `GET /api/v1/runs/{id}`.
pub static GET: Operation = Operation::reads("Shows a run.").data(Type::Of(&RUN));
/// `GET /api/v1/runs/{id}/events`.
pub static EVENTS: Operation = Operation::reads("Streams the events of a run, past and live, without gaps.")
    .query(&[
        whole("after", "number of the last known event; also accepted as the header Last-Event-ID")
            .optional(),
        super::agents::DIALECT,
    ])
    .answer(Answer::Events);
/// `POST /api/v1/runs/{id}/replay`.
pub static REPLAY: Operation =
    Operation::reads("Replays a run from its journal and reports differences; nothing outside is called.")
        .data(Type::Object(&[
            flag("same", "whether there are no differences"),
            whole("events", "number of events"),
            list(
                "differences",
                &Type::Object(&[
                    whole("seq", "number of the journal entry"),
                    text("node", "the node"),
                    text("what", "what differs"),
                    member("recorded", Type::Any, "recorded value"),
                    member("now", Type::Any, "value in the replay"),
                ]),
                "what differs",
            ),
        ]));
/// `POST /api/v1/runs/{id}/fork`.
pub static FORK: Operation = Operation::runs("Starts a run that shares the steps of this one up to a node.")
    .body(&[
        text("node", "the last node that both runs share"),
        whole("activation", "activation of that node; default: the last").optional(),
        member("outputs", Type::Map(&Type::Any), "outputs of the node to use instead").optional(),
        list("to", &Type::Text, "nodes to continue with instead").optional(),
        text("session_id", "id of the new session").optional(),
    ])
    .data(Type::Object(&[
        text("run_id", "id of the new run"),
        text("session_id", "id of the session"),
        text("forks", "id of the original run"),
    ]));
/// `GET /api/v1/runs/{id}/diff`.
pub static DIFF: Operation = Operation::reads("Compares two runs, node by node.")
    .query(&[text("with", "the other run")])
    .data(Type::Object(&[
        list("ending", &Type::Any, "final status of both"),
        list("elapsed", &Type::Number, "duration of both in seconds"),
        list("usage", &Type::Any, "model usage of both"),
        list("nodes", &Type::Any, "every activation of either run"),
        list("answer", &Type::Any, "both answers, if they differ").optional(),
    ]));

static TASK: Shape = Shape {
    name: "Task",
    summary: "a question that a person must answer before a run resumes",
    members: &[
        text("id", "its id"),
        text("kind", "kind of task, such as `form` or `approval`"),
        text("status", "`open`, or the final status"),
        text("title", "title"),
        text("agent_id", "id of the agent"),
        text("session_id", "id of the session"),
        text("run_id", "id of the run"),
        text("component_id", "id of the component"),
        text("address", "key for its answers in the inputs of a turn"),
        text("tips", "instructions for the person"),
        member("inputs", Type::Map(&Type::Any), "fields of the form"),
        time("create_time", "time of creation"),
        time("due_time", "due time").nullable(),
        text("ended_by", "the run that resumed with it").nullable(),
        time("end_time", "end time").nullable(),
    ],
};

/// `GET /api/v1/tasks`.
pub static LIST_TASKS: Operation = Operation::reads("Lists the tasks for people.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("kind", "only those of this kind").optional(),
        text("status", "default: `open`; `all` for any").optional(),
        text("agent_id", "only those of this agent").optional(),
        text("session_id", "only those of this session").optional(),
        time("due_by", "only those due by this time").optional(),
        flag("overdue", "only overdue ones").optional(),
    ])
    .data(Type::Object(&[
        list("tasks", &Type::Of(&TASK), "entries of the page"),
        whole("total", "total number"),
    ]));
/// `GET /api/v1/tasks/{id}`.
pub static GET_TASK: Operation = Operation::reads("Shows a task.").data(Type::Of(&TASK));
/// `PATCH /api/v1/tasks/{id}`.
pub static CHANGE_TASK: Operation = Operation::runs("Stops the run with this id, the run of the session with this id, or the run that waits for the open task with this id.")
    .body(&[member("action", Type::OneOf(&["stop"]), "")])
    .data(Type::Flag);
/// `POST /api/v1/tasks/{id}/answer`.
pub static ANSWER_TASK: Operation = Operation::runs("Answers a task and resumes its run.")
    .body(&[
        member("inputs", Type::Map(&Type::Any), "values of the form fields").optional(),
        flag("approve", "approve").optional(),
        member("deny", Type::Either(&[Type::Flag, Type::Text]), "deny, or the reason for denying").optional(),
        text("reason", "reason for the denial").optional(),
        member("edit", Type::Any, "changed arguments, or a changed plan").optional(),
        flag("retry", "try again").optional(),
        flag("give_up", "continue without it").optional(),
        member("decision", Type::Any, "one of these as text").optional(),
        STREAM,
        STRATEGY,
    ])
    .answer(Answer::EventsOrData(WHOLE));
/// `POST /api/v1/tasks/{id}/cancel` and its older names.
pub static CANCEL: Operation =
    Operation::runs("Stops the run with this id, the run of the session with this id, or the run that waits for the open task with this id.")
        .data(Type::Flag);

static TOKEN: Shape = Shape {
    name: "Token",
    summary: "an API key",
    members: &[
        text("id", "unique identifier"),
        text("name", "its name"),
        member("role", super::accounts::ROLE, "role that it grants"),
        text("user_id", "id of the owning user; null if it belongs to no user").nullable(),
        text("tenant_id", "tenant that it grants access to"),
        text("token", "the token in the response that creates it, afterwards only its end"),
        text("beta", "in that response a token for pages of any agent and chat assistant; null afterwards, and for a role without edit permission")
            .nullable(),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("last_used_time", "time of last use").nullable(),
    ],
};

/// `GET /api/v1/system/tokens`.
pub static LIST_TOKENS: Operation = Operation::reads("Lists the API keys; without `page` up to 10,000.")
    .query(&PAGE)
    .answer(Answer::Counted(Type::List(&Type::Of(&TOKEN)), "total"));
/// `POST /api/v1/system/tokens`.
pub static CREATE_TOKEN: Operation = Operation::runs("Creates an API key, which is shown only once.")
    .query(&[text("name", "its name").optional()])
    .body(&[
        text("name", "its name").optional(),
        member(
            "role",
            super::accounts::ROLE,
            "role it grants, at most the caller's own; default: the caller's own",
        )
        .optional(),
    ])
    .data(Type::Of(&TOKEN));
/// `DELETE /api/v1/system/tokens/{token}`.
pub static DELETE_TOKEN: Operation = Operation::runs("Removes an API key.").data(Type::Flag);

static SECRET: Shape = Shape {
    name: "Secret",
    summary: "a secret for canvases; its value is never shown",
    members: &[
        text("name", "name; canvases refer to it as `{secret.NAME}`"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change of the value"),
        text("update_date", "the same as text"),
    ],
};

/// `GET /api/v1/secrets`.
pub static LIST_SECRETS: Operation =
    Operation::edits("Lists the secrets, without their values.").data(Type::List(&Type::Of(&SECRET)));
/// `PUT /api/v1/secrets/{name}`.
pub static PUT_SECRET: Operation =
    Operation::administers("Sets the value of a secret, creating it if necessary.")
        .body(&[text("value", "value that replaces `{secret.NAME}` in canvases, 5 to 16384 bytes")])
        .data(Type::Of(&SECRET));
/// `DELETE /api/v1/secrets/{name}`.
pub static DELETE_SECRET: Operation = Operation::administers("Removes a secret.").data(Type::Flag);

static MODEL: Shape = Shape {
    name: "Model",
    summary: "a configured model",
    members: &[
        text("name", "its name in the configuration"),
        text("provider", "provider"),
        text("model", "name at the provider"),
        whole("window", "context window: tokens of prompt and answer together"),
        flag("tools", "whether it supports tools"),
        whole("deferred_tools_max", "maximum number of tools that its provider defers until searched for")
            .optional(),
        text("kind", "kind of model"),
        member("prices", Type::Any, "prices").nullable(),
    ],
};
const MODELS: Type = Type::List(&Type::Of(&MODEL));
const fn models(name: &'static str) -> Member {
    member(name, MODELS, "")
}
/// `GET /api/v1/models`.
pub static LIST_MODELS: Operation =
    Operation::reads("Lists the configured models by kind.").data(Type::Object(&[
        models("chat"),
        models("vision"),
        models("embedding"),
        models("rerank"),
        models("speech"),
        models("tts"),
        models("ocr"),
    ]));

static COMPONENT: Shape = Shape {
    name: "Component",
    summary: "a component type: everything that a form, an editor or a reference page needs",
    members: &[
        text("name", "name in the canvas"),
        text("summary", "what it does"),
        list(
            "groups",
            &Type::Object(&[
                text("title", "a heading"),
                list("fields", &Type::Of(&FIELD), "fields in order"),
            ]),
            "parameters as shown in a form",
        ),
        member("parameters", Type::Any, "JSON Schema of its parameters"),
        list("outputs", &Type::Any, "outputs that do not depend on parameters"),
        member("tool", Type::Any, "its definition as a tool for agents").optional(),
        member("example", EXAMPLE, "its parameters in a sample").optional(),
    ],
};
const EXAMPLE: Type =
    Type::Object(&[text("from", "name of the sample"), member("params", Type::Any, "the parameters")]);
static FIELD: Shape = Shape {
    name: "Field",
    summary: "a parameter of a component",
    members: &[
        text("name", "name in the canvas"),
        text("title", "label"),
        text("description", "description"),
        text("type", "type as in JSON Schema"),
        text("widget", "form widget"),
        member("default", Type::Any, "default value").optional(),
        text("unit", "unit").optional(),
        member("minimum", Type::Number, "").optional(),
        member("maximum", Type::Number, "").optional(),
        list("choices", &Type::Any, "allowed values, each with `value` and `description`").optional(),
        list("members", &Type::Any, "members of its objects").optional(),
        list("older_names", &Type::Text, "former names").optional(),
        member("shown_when", Type::Any, "the field and values for which it applies").optional(),
        flag("by_model", "whether a model fills it in").optional(),
        flag("secret", "whether its value is secret").optional(),
    ],
};
/// `GET /api/v1/components`.
pub static LIST_COMPONENTS: Operation =
    Operation::reads("Lists the component types.").data(Type::List(&Type::Of(&COMPONENT)));
/// `GET /api/v1/components/{name}`.
pub static GET_COMPONENT: Operation = Operation::reads("Shows a component type.").data(Type::Of(&COMPONENT));

static PLUGIN: Shape = Shape {
    name: "Plugin",
    summary: "tools added without a new build",
    members: &[
        text("name", "name for agents"),
        text("title", "title given by the service"),
        list(
            "tools",
            &Type::Object(&[
                text("name", "its name"),
                text("description", "purpose"),
                member("parameters", Type::Any, "JSON Schema of its arguments"),
                flag("approval", "whether each call requires approval by a person"),
            ]),
            "tools it offers",
        ),
        list("left_out", &Type::Text, "operations left out, each with the reason"),
    ],
};
/// `GET /api/v1/plugins`.
pub static LIST_PLUGINS: Operation =
    Operation::reads("Lists the plugins and their tools.").data(Type::List(&Type::Of(&PLUGIN)));

/// `GET /api/v1/plugin/tools`.
pub static LIST_PLUGIN_TOOLS: Operation =
    Operation::reads("Lists the tools of plugins, in the format of the compatible API.")
        .data(Type::List(&Type::Map(&Type::Any)));

/// `GET /api/v1/spending`.
pub static SPENDING: Operation = Operation::reads("Shows the usage of runs by agent and day.")
    .query(&[whole("days", "number of days; default: 30").optional()])
    .data(Type::Object(&[list(
        "spending",
        &Type::Object(&[
            text("agent_id", "id of the agent"),
            text("date", "the day"),
            whole("model_calls", ""),
            whole("tool_calls", ""),
            whole("rounds", ""),
            whole("tokens", ""),
            member("money", Type::Number, "in the currency of the price list"),
            member("seconds", Type::Number, ""),
        ]),
        "one entry per agent and day",
    )]));

const USED: [Member; 8] = [
    whole("model_calls", "number of model calls"),
    whole("prompt_tokens", "prompt tokens"),
    whole("completion_tokens", "completion tokens"),
    whole("total_tokens", "both"),
    whole("cache_read_tokens", "prompt tokens read from the provider's cache"),
    whole("cache_write_tokens", "prompt tokens written to the cache"),
    whole("reasoning_tokens", "completion tokens used for reasoning"),
    member("money", Type::Number, "cost, in the currency of the price list"),
];
const OF_USAGE: [Member; 14] = [
    text("agent_id", "the agent; empty for work on datasets").optional(),
    text("node", "the node of the agent, or `dataset:` or `memory:` with an id").optional(),
    text("model", "the model, by its name in the settings").optional(),
    text("user_id", "user of the session").optional(),
    text("session_id", "the session").optional(),
    text("date", "day on which the run or other work ended, such as 2026-01-31 (UTC)").optional(),
    USED[0],
    USED[1],
    USED[2],
    USED[3],
    USED[4],
    USED[5],
    USED[6],
    USED[7],
];
/// `GET /api/v1/usage`.
pub static USAGE: Operation = Operation::reads(
    "Shows the usage of models by agent, node, model, user, session or day, most expensive first.",
)
.query(&[
    text("by", "dimensions to group by: `day`, `agent`, `node`, `model`, `user`, `session`, separated by commas; default: `model`").optional(),
    whole("days", "number of days; default: 30").optional(),
    OF_USAGE[0],
    OF_USAGE[1],
    OF_USAGE[2],
    OF_USAGE[3],
    OF_USAGE[4],
    OF_USAGE[5],
])
.data(Type::Object(&[
    list("usage", &Type::Object(&OF_USAGE), "one entry per group"),
    member("total", Type::Object(&USED), "total of all"),
]));

/// `GET /`.
pub static ABOUT: Operation = Operation::open("Describes the server and where to find its documentation.")
    .answer(Answer::Whole(Type::Object(&[
        text("about", "description in one sentence"),
        text("docs", "path of the documentation page"),
        text("openapi", "path of the OpenAPI document"),
        text("ready", "path of the readiness check"),
        text("first_call", "a first call to try"),
    ])));
/// `GET /healthz`.
pub static ALIVE: Operation = Operation::open("Reports that the server is alive.")
    .answer(Answer::Whole(Type::Object(&[text("status", "`ok`")])));
/// `GET /readyz`.
pub static READY: Operation =
    Operation::open("Reports whether the server is ready.").answer(Answer::Whole(Type::Object(&[
        text("status", "`ok`, or what is wrong"),
        text("db", "whether the store answers"),
        flag("stopping", "whether it is shutting down"),
    ])));
/// `GET /metrics`.
pub static METRICS: Operation = Operation::administers(
    "Returns metrics of all tenants together in the Prometheus text format. Requires the token of \
     `accounts.metrics_token`, or without one the role of an owner of the tenant `default`.",
)
.answer(Answer::Text);
/// `GET /api/v1/system/ping`.
pub static PING: Operation = Operation::open("Answers with `pong`.").answer(Answer::Text);
/// `GET /api/v1/system/version`.
pub static VERSION: Operation = Operation::open("Returns the version of the server.").data(Type::Text);
/// `GET /api/openapi.json`.
pub static OPENAPI: Operation = Operation::open("This document.").answer(Answer::Whole(Type::Any));
/// `GET /api/docs`.
pub static DOCS: Operation = Operation::open("This document as a readable page.").answer(Answer::File);
