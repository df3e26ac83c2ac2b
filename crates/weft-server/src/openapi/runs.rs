//! Runs, human tasks, tokens, models and the server itself.

use super::agents::{PAGE, STRATEGY, STREAM, WHOLE};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation};

/// Answer to the removal of several objects: true, or what could not be removed.
pub const REMOVED: Type = Type::Either(&[
    Type::Flag,
    Type::Object(&[
        whole("success_count", "how many were removed"),
        list("errors", &Type::Text, "what was not").optional(),
    ]),
]);

static RUN: Shape = Shape {
    name: "Run",
    summary: "a turn of a session",
    members: &[
        text("id", "its id"),
        text("session_id", "its session"),
        text("agent_id", "its agent"),
        text("query", "the question"),
        text("status", "how it ended, else `running` here or `unfinished`"),
        time("create_time", "when it began"),
        time("finish_time", "when it ended").nullable(),
        text("version", "the version of its agent that it runs, where it is shown by itself").optional(),
    ],
};

/// `GET /api/v1/runs`.
pub static LIST: Operation = Operation::reads("Lists the runs, the newest first.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("session_id", "only those of this session").optional(),
        flag("unfinished", "only those without an end").optional(),
    ])
    .data(Type::Object(&[list("runs", &Type::Of(&RUN), "the page")]));
/// `GET /api/v1/runs/{id}`.
pub static GET: Operation = Operation::reads("Shows a run.").data(Type::Of(&RUN));
/// `GET /api/v1/runs/{id}/events`.
pub static EVENTS: Operation = Operation::reads("Streams the events of a run, past and live, without gaps.")
    .query(&[
        whole("after", "the number of the last event that is known; also the header Last-Event-ID")
            .optional(),
        super::agents::DIALECT,
    ])
    .answer(Answer::Events);
/// `POST /api/v1/runs/{id}/replay`.
pub static REPLAY: Operation = Operation::reads(
    "Does a run again from its journal and says where it differs; nothing outside is called.",
)
.data(Type::Object(&[
    flag("same", "whether nothing differs"),
    whole("events", "how many events it has"),
    list(
        "differences",
        &Type::Object(&[
            whole("seq", "the entry of the journal"),
            text("node", "the node"),
            text("what", "what differs"),
            member("recorded", Type::Any, "as it was"),
            member("now", Type::Any, "as it is now"),
        ]),
        "what differs",
    ),
]));
/// `POST /api/v1/runs/{id}/fork`.
pub static FORK: Operation =
    Operation::runs("Begins a run that shares the beginning of this one and differs from a node on.")
        .body(&[
            text("node", "from which node on"),
            whole("activation", "which of its activations; the last one when absent").optional(),
            member("outputs", Type::Map(&Type::Any), "what it gives instead").optional(),
            list("to", &Type::Text, "where it leads instead").optional(),
            text("session_id", "the id of the new session").optional(),
        ])
        .data(Type::Object(&[
            text("run_id", "the new run"),
            text("session_id", "its session"),
            text("forks", "this run"),
        ]));
/// `GET /api/v1/runs/{id}/diff`.
pub static DIFF: Operation = Operation::reads("Compares two runs, node by node.")
    .query(&[text("with", "the other run")])
    .data(Type::Object(&[
        list("ending", &Type::Any, "how both ended"),
        list("elapsed", &Type::Number, "how long both took, in seconds"),
        list("usage", &Type::Any, "what both used of models"),
        list("nodes", &Type::Any, "every activation of either"),
        list("answer", &Type::Any, "both answers, when they differ").optional(),
    ]));

static TASK: Shape = Shape {
    name: "Task",
    summary: "something that a person has to answer before a run goes on",
    members: &[
        text("id", "its id"),
        text("kind", "what is asked for, such as `form` or `approval`"),
        text("status", "`open`, or how it ended"),
        text("title", "for people"),
        text("agent_id", "of which agent"),
        text("session_id", "of which session"),
        text("run_id", "of which run"),
        text("component_id", "of which component"),
        text("address", "where its answers go among the inputs of a turn"),
        text("tips", "what to tell the person"),
        member("inputs", Type::Map(&Type::Any), "the fields of the form"),
        time("create_time", "when it came up"),
        time("due_time", "when it is too late").nullable(),
        text("ended_by", "the run that went on with it").nullable(),
        time("end_time", "when it ended").nullable(),
    ],
};

/// `GET /api/v1/tasks`.
pub static LIST_TASKS: Operation = Operation::reads("Lists what waits for a person.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("kind", "only those of this kind").optional(),
        text("status", "`open` when absent, `all` for any").optional(),
        text("agent_id", "only those of this agent").optional(),
        text("session_id", "only those of this session").optional(),
        time("due_by", "only those that are due by then").optional(),
        flag("overdue", "only those that are too late").optional(),
    ])
    .data(Type::Object(&[
        list("tasks", &Type::Of(&TASK), "the page"),
        whole("total", "how many there are in all"),
    ]));
/// `GET /api/v1/tasks/{id}`.
pub static GET_TASK: Operation = Operation::reads("Shows a task.").data(Type::Of(&TASK));
/// `PATCH /api/v1/tasks/{id}`.
pub static CHANGE_TASK: Operation = Operation::runs("Stops the run or the session of this id.")
    .body(&[member("action", Type::OneOf(&["stop"]), "")])
    .data(Type::Flag);
/// `POST /api/v1/tasks/{id}/answer`.
pub static ANSWER_TASK: Operation = Operation::runs("Answers a task; its run goes on.")
    .body(&[
        member("inputs", Type::Map(&Type::Any), "the fields of a form").optional(),
        flag("approve", "a yes").optional(),
        member("deny", Type::Either(&[Type::Flag, Type::Text]), "a no, or why").optional(),
        text("reason", "why not").optional(),
        member("edit", Type::Any, "other arguments, or another plan").optional(),
        flag("retry", "to try once more").optional(),
        flag("give_up", "to give up").optional(),
        member("decision", Type::Any, "one of these as a word").optional(),
        STREAM,
        STRATEGY,
    ])
    .answer(Answer::EventsOrData(WHOLE));
/// `POST /api/v1/tasks/{id}/cancel` and its older names.
pub static CANCEL: Operation = Operation::runs("Stops the run or the session of this id.").data(Type::Flag);

static TOKEN: Shape = Shape {
    name: "Token",
    summary: "a token of the API",
    members: &[
        text("id", "what tells it from others"),
        text("name", "its name"),
        member("role", super::accounts::ROLE, "what whoever shows it may do"),
        text("user_id", "the user whose it is; null for one that is no user's").nullable(),
        text("tenant_id", "whose data it opens"),
        text("token", "the token in the answer that makes it, after that only its end"),
        text("beta", "in that answer a token for pages of any agent and chat assistant; null after that, and for a role that may not edit")
            .nullable(),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("last_used_time", "when it was used last").nullable(),
    ],
};

/// `GET /api/v1/system/tokens`.
pub static LIST_TOKENS: Operation = Operation::reads("Lists the tokens; without a page up to 10,000.")
    .query(&PAGE)
    .answer(Answer::Counted(Type::List(&Type::Of(&TOKEN)), "total"));
/// `POST /api/v1/system/tokens`.
pub static CREATE_TOKEN: Operation = Operation::runs("Makes a token, which is shown this once.")
    .query(&[text("name", "its name").optional()])
    .body(&[
        text("name", "its name").optional(),
        member(
            "role",
            super::accounts::ROLE,
            "what it may do, at most what its maker may; as much when absent",
        )
        .optional(),
    ])
    .data(Type::Of(&TOKEN));
/// `DELETE /api/v1/system/tokens/{token}`.
pub static DELETE_TOKEN: Operation = Operation::runs("Removes a token.").data(Type::Flag);

static SECRET: Shape = Shape {
    name: "Secret",
    summary: "a secret that canvases name; its value is never shown",
    members: &[
        text("name", "its name; canvases write `{secret.NAME}`"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when its value was put last"),
        text("update_date", "the same in words"),
    ],
};

/// `GET /api/v1/secrets`.
pub static LIST_SECRETS: Operation =
    Operation::edits("Lists the secrets, without their values.").data(Type::List(&Type::Of(&SECRET)));
/// `PUT /api/v1/secrets/{name}`.
pub static PUT_SECRET: Operation = Operation::administers("Puts a secret, or another value of it.")
    .body(&[text("value", "what canvases use in the place of `{secret.NAME}`, 5 to 16384 bytes")])
    .data(Type::Of(&SECRET));
/// `DELETE /api/v1/secrets/{name}`.
pub static DELETE_SECRET: Operation = Operation::administers("Removes a secret.").data(Type::Flag);

static MODEL: Shape = Shape {
    name: "Model",
    summary: "a configured model",
    members: &[
        text("name", "its name in the configuration"),
        text("provider", "who runs it"),
        text("model", "the name that its provider knows it by"),
        whole("window", "how many tokens question and answer may have together"),
        flag("tools", "whether it can be given tools"),
        whole("deferred_tools_max", "how many tools its provider keeps back until they are searched for")
            .optional(),
        text("kind", "what it is for"),
        member("prices", Type::Any, "what it costs").nullable(),
    ],
};
const MODELS: Type = Type::List(&Type::Of(&MODEL));
const fn models(name: &'static str) -> Member {
    member(name, MODELS, "")
}
/// `GET /api/v1/models`.
pub static LIST_MODELS: Operation = Operation::reads("Lists the configured models by what they are for.")
    .data(Type::Object(&[
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
    summary: "a component type: all that a form, an editor or a reference page needs",
    members: &[
        text("name", "its name in the canvas"),
        text("summary", "what it does"),
        list(
            "groups",
            &Type::Object(&[text("title", "a heading"), list("fields", &Type::Of(&FIELD), "in their order")]),
            "its parameters as a form shows them",
        ),
        member("parameters", Type::Any, "the JSON Schema of its parameters"),
        list("outputs", &Type::Any, "its outputs, as far as they do not follow from parameters"),
        member("tool", Type::Any, "how agents call it").optional(),
        member("example", EXAMPLE, "parameters of it in a sample").optional(),
    ],
};
const EXAMPLE: Type =
    Type::Object(&[text("from", "which sample"), member("params", Type::Any, "the parameters")]);
static FIELD: Shape = Shape {
    name: "Field",
    summary: "a parameter of a component",
    members: &[
        text("name", "its name in the canvas"),
        text("title", "its label"),
        text("description", "what it is"),
        text("type", "what it may be, in the words of JSON Schema"),
        text("widget", "how a form asks for it"),
        member("default", Type::Any, "what it is when it is absent").optional(),
        text("unit", "what it is counted in").optional(),
        member("minimum", Type::Number, "").optional(),
        member("maximum", Type::Number, "").optional(),
        list("choices", &Type::Any, "what it may be, each with `value` and `description`").optional(),
        list("members", &Type::Any, "the members of its objects").optional(),
        list("older_names", &Type::Text, "names it had").optional(),
        member("shown_when", Type::Any, "the field and its values with which it means something").optional(),
        flag("by_model", "whether a model fills it in").optional(),
        flag("secret", "whether its value is nobody's business").optional(),
    ],
};
/// `GET /api/v1/components`.
pub static LIST_COMPONENTS: Operation =
    Operation::reads("Lists what canvases can be made of.").data(Type::List(&Type::Of(&COMPONENT)));
/// `GET /api/v1/components/{name}`.
pub static GET_COMPONENT: Operation = Operation::reads("Shows a component type.").data(Type::Of(&COMPONENT));

static PLUGIN: Shape = Shape {
    name: "Plugin",
    summary: "Tools that were added without a new build.",
    members: &[
        text("name", "what agents call it"),
        text("title", "what the service calls itself"),
        list(
            "tools",
            &Type::Object(&[
                text("name", "its name"),
                text("description", "what it is for"),
                member("parameters", Type::Any, "the JSON Schema of its arguments"),
                flag("approval", "whether a person has to agree before each call"),
            ]),
            "what it offers",
        ),
        list("left_out", &Type::Text, "operations that cannot be tools, each with the reason"),
    ],
};
/// `GET /api/v1/plugins`.
pub static LIST_PLUGINS: Operation =
    Operation::reads("Lists the plugins and their tools.").data(Type::List(&Type::Of(&PLUGIN)));

/// `GET /api/v1/plugin/tools`.
pub static LIST_PLUGIN_TOOLS: Operation =
    Operation::reads("Lists the tools of plugins, in the shape that clients of the compatible API know.")
        .data(Type::List(&Type::Map(&Type::Any)));

/// `GET /api/v1/spending`.
pub static SPENDING: Operation = Operation::reads("Shows what runs have used, by agent and day.")
    .query(&[whole("days", "of how many days; 30 when absent").optional()])
    .data(Type::Object(&[list(
        "spending",
        &Type::Object(&[
            text("agent_id", "which agent"),
            text("date", "which day"),
            whole("model_calls", ""),
            whole("tool_calls", ""),
            whole("rounds", ""),
            whole("tokens", ""),
            member("money", Type::Number, "in the currency of the price list"),
            member("seconds", Type::Number, ""),
        ]),
        "a line for each agent and day",
    )]));

const USED: [Member; 8] = [
    whole("model_calls", "calls of models"),
    whole("prompt_tokens", "tokens of the questions"),
    whole("completion_tokens", "tokens of the answers"),
    whole("total_tokens", "both"),
    whole("cache_read_tokens", "of the questions those that the provider had in its cache"),
    whole("cache_write_tokens", "of the questions those that it put there"),
    whole("reasoning_tokens", "of the answers those of the reasoning"),
    member("money", Type::Number, "what that cost, in the currency of the price list"),
];
const OF_USAGE: [Member; 14] = [
    text("agent_id", "which agent; empty for work on datasets").optional(),
    text("node", "which node of it, or `dataset:` or `memory:` with the id of one").optional(),
    text("model", "which model, by its name in the settings").optional(),
    text("user_id", "whose session").optional(),
    text("session_id", "which session").optional(),
    text("date", "the day on which a run or other work ended, such as 2026-01-31 (UTC)").optional(),
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
    "Shows what models were used for, by agent, node, model, user, session or day; the dearest first.",
)
.query(&[
    text("by", "what lines differ in: some of `day`, `agent`, `node`, `model`, `user`, `session`, with commas between; `model` when absent").optional(),
    whole("days", "of how many days; 30 when absent").optional(),
    OF_USAGE[0],
    OF_USAGE[1],
    OF_USAGE[2],
    OF_USAGE[3],
    OF_USAGE[4],
    OF_USAGE[5],
])
.data(Type::Object(&[
    list("usage", &Type::Object(&OF_USAGE), "a line for each that differs"),
    member("total", Type::Object(&USED), "all of it together"),
]));

/// `GET /`.
pub static ABOUT: Operation =
    Operation::open("Says what this is, and where it is described.").answer(Answer::Whole(Type::Object(&[
        text("about", "what this is, in a sentence"),
        text("docs", "where the page of all routes is"),
        text("openapi", "where the same is for programs"),
        text("ready", "where the server says whether it can work"),
        text("first_call", "with what to begin"),
    ])));
/// `GET /healthz`.
pub static ALIVE: Operation = Operation::open("Says that the server is there.")
    .answer(Answer::Whole(Type::Object(&[text("status", "`ok`")])));
/// `GET /readyz`.
pub static READY: Operation =
    Operation::open("Says whether the server can work.").answer(Answer::Whole(Type::Object(&[
        text("status", "`ok`, or what is wrong"),
        text("db", "whether the store answers"),
        flag("stopping", "whether it is about to end"),
    ])));
/// `GET /metrics`.
pub static METRICS: Operation = Operation::administers(
    "Tells what is counted of all tenants together, in the text format of Prometheus: to whom has the token of \
     `accounts.metrics_token`, or where there is none to the owners of the tenant `default`.",
)
.answer(Answer::Text);
/// `GET /api/v1/system/ping`.
pub static PING: Operation = Operation::open("Answers with `pong`.").answer(Answer::Text);
/// `GET /api/v1/system/version`.
pub static VERSION: Operation = Operation::open("Tells the version of the server.").data(Type::Text);
/// `GET /api/openapi.json`.
pub static OPENAPI: Operation = Operation::open("This document.").answer(Answer::Whole(Type::Any));
/// `GET /api/docs`.
pub static DOCS: Operation = Operation::open("This document as a page for people.").answer(Answer::File);
