//! Agents, their sessions and their answers.

use super::common::{CHAT_COMPLETION, MESSAGES, PAGE, REMOVED, STRATEGY, STREAM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Body, Operation, Shared};

/// The version of an agent.
const VERSION: Member =
    text("version", "version to use: its hash, a label, `published` or `latest`").optional();
const ORDER: Member = flag("desc", "whether to sort in descending order; default: true").optional();
/// An error in a canvas.
pub(super) static PROBLEM: Shape = Shape {
    name: "Problem",
    summary: "a finding of `weft check`",
    members: &[
        text("code", "code of the finding"),
        member("severity", Type::OneOf(&["error", "warning"]), "errors keep the canvas from running"),
        text("pointer", "location as a JSON pointer"),
        text("message", "what is wrong"),
        text("help", "what to do about it").optional().nullable(),
    ],
};

/// A stored canvas.
pub(super) static AGENT: Shape = Shape {
    name: "Agent",
    summary: "a stored canvas",
    members: &[
        text("id", "its id"),
        text("title", "its title"),
        text("avatar", "image as a data URI, or empty"),
        text("description", "description"),
        text("permission", "`me` or `team`"),
        text("canvas_type", "heading in lists"),
        text("canvas_category", "`agent_canvas`, or `dataflow_canvas` for an ingestion pipeline"),
        text("tenant_id", "owning tenant"),
        text("user_id", "the same"),
        text("tags", "tags, separated by commas"),
        flag("release", "whether it has a published version"),
        time("release_time", "time of its publication").nullable(),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
        member("dsl", Type::Any, "the canvas, if requested").optional(),
        list("problems", &Type::Of(&PROBLEM), "findings in it; only in the response that stores it")
            .optional(),
    ],
};

/// Body of a new or changed agent.
pub(super) const AGENT_BODY: [Member; 9] = [
    text("title", "title; required for a new agent").optional(),
    member(
        "dsl",
        Type::Either(&[Type::Object(&[]), Type::Text]),
        "the canvas, also as JSON text; required for a new agent",
    )
    .optional(),
    text("description", "description").optional(),
    text("avatar", "image as a data URI").optional(),
    member("permission", Type::OneOf(&["me", "team"]), "who can see it").optional(),
    text("canvas_type", "heading in lists").optional(),
    text("canvas_category", "`agent_canvas`, or `dataflow_canvas` for an ingestion pipeline").optional(),
    flag("release", "whether to publish the stored version").optional(),
    member(
        "tags",
        Type::Either(&[Type::Text, Type::List(&Type::Text)]),
        "tags to find it by; they replace all others",
    )
    .optional(),
];

const AGENT_QUERY: [Member; 9] = [
    PAGE[0],
    PAGE[1],
    member(
        "orderby",
        Type::OneOf(&["create_time", "update_time", "title"]),
        "sort field; default: `update_time`",
    )
    .optional(),
    ORDER,
    text("id", "only this one").optional(),
    text("title", "only the one with this title").optional(),
    text("keywords", "only those with this text in the title").optional(),
    text("owner_ids", "only those of these owners; there is only one").optional(),
    text("tags", "only those with one of these tags, separated by commas").optional(),
];

static AGENTS: [Member; 2] =
    [list("canvas", &Type::Of(&AGENT), "entries of the page"), whole("total", "total number")];

/// `GET /api/v1/agents`.
pub static LIST: Operation =
    Operation::reads("Lists the agents.").query(&AGENT_QUERY).data(Type::Object(&AGENTS));
/// `POST /api/v1/agents`.
pub static CREATE: Operation =
    Operation::edits("Stores a canvas as a new agent.").body(&AGENT_BODY).data(Type::Of(&AGENT));
/// `GET /api/v1/agents/{id}`.
pub static GET: Operation = Operation::reads("Shows an agent with its canvas.").data(Type::Of(&AGENT));
/// `PUT` and `PATCH /api/v1/agents/{id}`.
pub static UPDATE: Operation =
    Operation::edits("Updates the given fields of an agent; a new canvas creates a new version.")
        .body(&AGENT_BODY)
        .data(Type::Object(&[
            time("update_time", "time of the last change"),
            list("problems", &Type::Of(&PROBLEM), "findings in its canvas"),
        ]));
/// `DELETE /api/v1/agents/{id}`.
pub static DELETE: Operation = Operation::edits("Removes an agent.").data(Type::Flag);
/// `POST …/reset`.
pub static RESET: Operation = Operation::runs("Resets the caller's own conversation and returns the canvas.");

/// A file in a conversation.
static FILE: Shape = Shape {
    name: "File",
    summary: "an uploaded file, for `files` of a question or a field of type `file`",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        whole("size", "size in bytes"),
        text("extension", "file name extension"),
        text("mime_type", "media type"),
        text("created_by", "who uploaded it"),
        member("created_at", Type::Any, "time in seconds since 1970"),
        text("preview_url", "nothing").nullable(),
        text("url", "download URL"),
    ],
};
/// `POST …/upload`.
pub static UPLOAD: Operation =
    Operation::runs("Uploads files for questions; returns an object for one file, a list for several.")
        .takes(Body::Files)
        .data(Type::Either(&[Type::Of(&FILE), Type::List(&Type::Of(&FILE))]))
        .shared(Shared::Agent);
/// `POST …/audio/speech`.
pub static SPEAK: Operation = Operation::runs("Converts text to speech, as an MP3 file.")
    .body(&[text("text", "text to speak; at most 4,096 characters")])
    .answer(Answer::File);
/// `POST …/audio/transcription`.
pub static TRANSCRIBE: Operation = Operation::runs("Transcribes a recording.")
    .takes(Body::Files)
    .data(Type::Object(&[text("text", "the transcript")]));
/// `GET …/attachments/{id}/download`.
pub static DOWNLOAD: Operation = Operation::reads("Downloads a file that was uploaded or created by a run.")
    .answer(Answer::File)
    .shared(Shared::File);
/// `GET …/download`.
pub static DOWNLOAD_NAMED: Operation =
    Operation::reads("Downloads a file that was uploaded or created by a run.")
        .query(&[text("id", "id of the file")])
        .answer(Answer::File);

/// `POST …/set` of a canvas.
pub static SET: Operation = Operation::edits("Stores a canvas, or updates the one with the given id.")
    .body(&[
        AGENT_BODY[0],
        AGENT_BODY[1],
        AGENT_BODY[2],
        AGENT_BODY[3],
        AGENT_BODY[4],
        AGENT_BODY[8],
        text("id", "").optional(),
    ])
    .data(Type::Object(&[
        text("id", "its id"),
        text("title", "its title"),
        member("dsl", Type::Any, "the canvas"),
    ]));
/// `POST …/rm` of canvases.
pub static REMOVE: Operation = Operation::edits("Removes canvases in order, up to the first unknown one.")
    .body(&[list("canvas_ids", &Type::Text, "which ones")])
    .data(Type::Flag);
/// `POST …/reset` of a canvas.
pub static RESET_NAMED: Operation =
    Operation::runs("Resets the caller's own conversation and returns the canvas.")
        .body(&[text("id", "the canvas")]);

pub(super) static SESSION: Shape = Shape {
    name: "Session",
    summary: "a conversation with an agent",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("agent_id", "id of the agent"),
        text("user_id", "id of the user"),
        list("messages", &Type::Of(&MESSAGE), "the messages, at most the last 1,000"),
        list("message", &Type::Of(&MESSAGE), "the same"),
        member("dsl", Type::Any, "the canvas it runs on, if requested").optional(),
        text("version_title", "hash of the version that it runs on"),
        time("create_time", "start time"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last message"),
        text("update_date", "the same as text"),
    ],
};

static MESSAGE: Shape = Shape {
    name: "Message",
    summary: "a message of a session",
    members: &[
        text("role", "`user` or `assistant`"),
        text("content", "text of the message"),
        whole("created_at", "time in seconds since 1970"),
        text("id", "the run that produced it").optional(),
        list("reference", &Type::Any, "cited sources").optional(),
    ],
};

/// `GET …/sessions`.
pub static LIST_SESSIONS: Operation = Operation::reads("Lists the sessions of an agent.")
    .query(&[
        PAGE[0],
        PAGE[1],
        ORDER,
        text("id", "only this one").optional(),
        text("user_id", "only those of this user").optional(),
        text("keywords", "only those whose messages contain this text").optional(),
        flag("dsl", "whether to include the canvas; default: true").optional(),
    ])
    .answer(Answer::Counted(Type::List(&Type::Of(&SESSION)), "total"));
/// `POST …/sessions`.
pub static CREATE_SESSION: Operation =
    Operation::runs("Starts a session with the newest version of an agent.")
        .query(&[text("user_id", "id of the user").optional()])
        .body(&[
            text("name", "its name").optional(),
            text("user_id", "id of the user").optional(),
            flag("release", "whether to use the published version").optional(),
            VERSION,
        ])
        .data(Type::Of(&SESSION));
/// `GET …/sessions/{session}`.
pub static GET_SESSION: Operation = Operation::reads("Shows a session.").data(Type::Of(&SESSION));
/// `DELETE …/sessions/{session}`.
pub static DELETE_SESSION: Operation = Operation::runs("Removes a session.").data(Type::Flag);
/// `DELETE …/sessions`.
pub static DELETE_SESSIONS: Operation = Operation::runs("Removes sessions.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional(),
        flag("delete_all", "whether to remove all; without ids").optional(),
    ])
    .data(REMOVED);

static ANSWER: Shape = Shape {
    name: "Answer",
    summary: "the complete answer of a run",
    members: &[
        text("event", "final event, such as `workflow_finished` or `user_inputs`"),
        text("message_id", "the run"),
        text("task_id", "the same"),
        text("session_id", "the session, for further questions"),
        whole("created_at", "start time in seconds since 1970"),
        member(
            "data",
            Type::Object(&[
                text("content", "the text"),
                member("reference", Type::Any, "cited sources by number"),
                member("outputs", Type::Any, "the outputs of the last component").optional(),
                member("usage", Type::Any, "tokens used").optional(),
                text("status", "final status").optional(),
                text("stop_reason", "the limit that ended it early").optional(),
                member("structured", Type::Any, "the answer as a structured object").optional(),
                list("trace", &Type::Any, "finished nodes, with `return_trace`").optional(),
            ]),
            "",
        ),
    ],
};
/// The answer of a run as a single object.
pub const WHOLE: Type = Type::Of(&ANSWER);

static AGENT_REPLY: Shape = Shape {
    name: "AgentReply",
    summary: "the reply of an agent with details of the run",
    members: &[
        text("final_reply", "the text"),
        member(
            "metadata",
            Type::Object(&[
                whole("steps_taken", "rounds of tool calls"),
                list("tools_used", &Type::Text, "each tool once, in order of first call"),
                text("stop_reason", "`completed`, or the reason for ending early"),
                whole("llm_calls", "number of model calls"),
            ]),
            "details of the run",
        ),
        text("status", "final status of the run"),
        text("session_id", "the session, for further questions"),
        text("error", "reason for the failure").optional(),
        member("reference", Type::Any, "cited sources by number").optional(),
    ],
};
/// The answer of a run as a single object, in the requested dialect.
const IN_DIALECT: Type = Type::Either(&[WHOLE, Type::Of(&AGENT_REPLY)]);

/// The format of the events.
pub const DIALECT: Member = member(
    "dialect",
    Type::OneOf(&crate::dialect::Dialect::NAMES),
    "format of the events: `ragflow`, or `agent` for `node_start`, `llm_token`, `node_end`, `tool_start`, \
     `tool_end` and a `reply` with metadata; see docs/agents.md",
)
.optional();

const COMPLETION: [Member; 15] = [
    text("query", "the question; also accepted as `question`").optional(),
    text("session_id", "the session; default: a new one").optional(),
    STREAM,
    DIALECT,
    member("inputs", Type::Map(&Type::Any), "values of the form fields by key").optional(),
    list("files", &Type::Any, "files attached to the question").optional(),
    text("user_id", "id of the user who asks").optional(),
    flag("return_trace", "whether to list finished nodes").optional(),
    STRATEGY,
    text(
        "idempotency_key",
        "the same question with the same key runs only once; also accepted as the header Idempotency-Key",
    )
    .optional(),
    member("pins", Type::Map(&Type::Any), "outputs to use instead of running nodes").optional(),
    flag("parallel_messages", "whether pieces of concurrent messages may be interleaved").optional(),
    text("agent_id", "the agent, if the path does not name it").optional(),
    flag("release", "whether to run the published version").optional(),
    VERSION,
];

/// `POST …/completions`.
pub static COMPLETE: Operation =
    Operation::runs("Asks an agent.").body(&COMPLETION).answer(Answer::EventsOrData(IN_DIALECT));
/// `POST …/ag-ui`.
pub static AG_UI: Operation = Operation::runs(
    "Asks an agent using the AG-UI protocol: answers with its events, and with interrupts for questions to \
     people.",
)
.body(&[
    text("threadId", "the session; an unknown id starts a new one"),
    text("runId", "id of the run; a known id refers to the same run"),
    member("messages", Type::List(&Type::Any), "the conversation; its last question is answered").optional(),
    member("forwardedProps", Type::Any, "its `inputs` are the values of the form fields by key").optional(),
    list(
        "resume",
        &Type::Object(&[
            text("interruptId", "the task"),
            member("status", Type::OneOf(&["resolved", "cancelled"]), "whether it was answered"),
            member("payload", Type::Any, "the answer: form values, or a decision").optional(),
        ]),
        "answers to the interrupts of the previous run",
    )
    .optional(),
    STRATEGY,
])
.answer(Answer::Events);
/// `POST …/completion` of a canvas.
pub static COMPLETE_CANVAS: Operation = Operation::runs("Asks a canvas in the caller's own conversation.")
    .takes(Body::Json(Type::Object(&[
        text("id", "the canvas"),
        COMPLETION[0],
        COMPLETION[1],
        STREAM,
        DIALECT,
        COMPLETION[4],
    ])))
    .answer(Answer::EventsOrData(IN_DIALECT));
/// `POST /api/v1/completion`.
pub static COMPLETE_CONVERSATION: Operation =
    Operation::runs("Asks a question in a conversation identified by its id alone.")
        .body(&[text("conversation_id", "the session"), MESSAGES, STREAM])
        .answer(Answer::EventsOrData(Type::Object(&[
            text("answer", "the answer"),
            list("reference", &Type::Any, "cited sources"),
            text("id", "the run"),
            text("session_id", "the session"),
        ])));

/// `POST …/agents_openai/{id}/chat/completions`.
pub static COMPLETE_OPENAI: Operation =
    Operation::runs("Asks an agent using the OpenAI chat completions format.")
        .body(&[
            text("model", "any name"),
            MESSAGES,
            STREAM,
            text("session_id", "the session; also accepted as `id`, and in `metadata`").optional(),
            member("metadata", Type::Any, "").optional(),
        ])
        .answer(Answer::EventsOrWhole(Type::Of(&CHAT_COMPLETION)));
/// `POST /api/v1/agents/chat/completions`.
pub static COMPLETE_NAMED: Operation = Operation::runs("Asks the agent named in the body.")
    .body(&COMPLETION)
    .answer(Answer::EventsOrWhole(Type::Either(&[
        Type::Object(&[whole("code", ""), text("message", ""), member("data", Type::Any, "")]),
        Type::Of(&CHAT_COMPLETION),
    ])));

/// `GET …/logs/{message}` and `GET …/trace`.
pub static TRACE: Operation =
    Operation::reads("Shows the tool calls of a run by node.").query(&PAGE).data(Type::Any);
/// `GET …/trace`.
pub static TRACE_CANVAS: Operation = Operation::reads("Shows the tool calls of a run by node.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("canvas_id", "the canvas, the session or the run"),
        text("message_id", "the run"),
    ])
    .data(Type::Any);
