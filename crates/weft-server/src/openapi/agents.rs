//! Agents, their sessions and their answers.

use super::chats::CHAT_COMPLETION;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Body, Operation, versions::NAMED as VERSION};

/// Query parameters for a page of a list.
pub const PAGE: [Member; 2] = [
    whole("page", "which page, from 1 on").optional(),
    whole("page_size", "how many entries it has").optional(),
];
const ORDER: Member = flag("desc", "whether the newest come first; true when absent").optional();
/// An error in a canvas.
pub(super) static PROBLEM: Shape = Shape {
    name: "Problem",
    summary: "something that `weft check` would name",
    members: &[
        text("code", "what kind of problem"),
        member("severity", Type::OneOf(&["error", "warning"]), "whether it keeps the canvas from running"),
        text("pointer", "where it is, as a JSON pointer"),
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
        text("avatar", "a picture as a data URI, or nothing"),
        text("description", "for people"),
        text("permission", "`me` or `team`"),
        text("canvas_type", "the heading it is listed under"),
        text("canvas_category", "`agent_canvas`, or `dataflow_canvas` for an ingestion pipeline"),
        text("tenant_id", "whose it is"),
        text("user_id", "the same"),
        text("tags", "its tags, with commas between them"),
        flag("release", "whether it has a published version"),
        time("release_time", "when that was published").nullable(),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
        member("dsl", Type::Any, "the canvas itself, where it is asked for").optional(),
        list("problems", &Type::Of(&PROBLEM), "what was found in it, in the answer that stores it")
            .optional(),
    ],
};

/// Body of a new or changed agent.
pub(super) const AGENT_BODY: [Member; 9] = [
    text("title", "its title; needed for a new one").optional(),
    member(
        "dsl",
        Type::Either(&[Type::Object(&[]), Type::Text]),
        "the canvas, also as JSON text; needed for a new one",
    )
    .optional(),
    text("description", "for people").optional(),
    text("avatar", "a picture as a data URI").optional(),
    member("permission", Type::OneOf(&["me", "team"]), "who sees it").optional(),
    text("canvas_type", "the heading it is listed under").optional(),
    text("canvas_category", "`agent_canvas`, or `dataflow_canvas` for an ingestion pipeline").optional(),
    flag("release", "whether what is stored is to be the published version").optional(),
    member("tags", Type::Either(&[Type::Text, Type::List(&Type::Text)]), "its tags, when imported")
        .optional(),
];

const AGENT_QUERY: [Member; 9] = [
    PAGE[0],
    PAGE[1],
    member(
        "orderby",
        Type::OneOf(&["create_time", "update_time", "title"]),
        "by what; `update_time` when absent",
    )
    .optional(),
    ORDER,
    text("id", "only this one").optional(),
    text("title", "only that of this title").optional(),
    text("keywords", "only those with this in their title").optional(),
    text("owner_ids", "only those of these owners, of which there is one").optional(),
    text("tags", "only those with one of these tags, with commas between them").optional(),
];

static AGENTS: [Member; 2] =
    [list("canvas", &Type::Of(&AGENT), "the page"), whole("total", "how many there are in all")];

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
    Operation::edits("Changes what is given of an agent; a new canvas is a new version.")
        .body(&AGENT_BODY)
        .data(Type::Object(&[
            time("update_time", "when it was changed"),
            list("problems", &Type::Of(&PROBLEM), "what was found in its canvas"),
        ]));
/// `DELETE /api/v1/agents/{id}`.
pub static DELETE: Operation = Operation::edits("Removes an agent.").data(Type::Flag);
/// `POST …/reset`.
pub static RESET: Operation =
    Operation::runs("Starts the caller's own conversation over and answers with the canvas.");

/// A file in a conversation.
static FILE: Shape = Shape {
    name: "File",
    summary: "a file that was uploaded; it goes into `files` of a question, or into a field of the type `file`",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        whole("size", "its bytes"),
        text("extension", "what its name ends in"),
        text("mime_type", "its media type"),
        text("created_by", "who uploaded it"),
        member("created_at", Type::Any, "when, in seconds since 1970"),
        text("preview_url", "nothing").nullable(),
        text("url", "where it is downloaded"),
    ],
};
/// `POST …/upload`.
pub static UPLOAD: Operation =
    Operation::runs("Uploads files for questions; one as an object, several as a list.")
        .takes(Body::Files)
        .data(Type::Either(&[Type::Of(&FILE), Type::List(&Type::Of(&FILE))]));
/// `POST …/audio/speech`.
pub static SPEAK: Operation = Operation::runs("Reads a text aloud: an MP3 file.")
    .body(&[text("text", "what to read; 4,096 letters at most")])
    .answer(Answer::File);
/// `POST …/audio/transcription`.
pub static TRANSCRIBE: Operation = Operation::runs("Writes down what is said in a recording.")
    .takes(Body::Files)
    .data(Type::Object(&[text("text", "what is said")]));
/// `GET …/attachments/{id}/download`.
pub static DOWNLOAD: Operation =
    Operation::reads("Sends a file that was uploaded or that a run has made.").answer(Answer::File);
/// `GET …/download`.
pub static DOWNLOAD_NAMED: Operation =
    Operation::reads("Sends a file that was uploaded or that a run has made.")
        .query(&[text("id", "which one")])
        .answer(Answer::File);

/// `POST …/set` of a canvas.
pub static SET: Operation = Operation::edits("Stores a canvas, or changes the one with the given id.")
    .body(&[
        AGENT_BODY[0],
        AGENT_BODY[1],
        AGENT_BODY[2],
        AGENT_BODY[3],
        AGENT_BODY[4],
        text("id", "").optional(),
    ])
    .data(Type::Object(&[
        text("id", "its id"),
        text("title", "its title"),
        member("dsl", Type::Any, "the canvas"),
    ]));
/// `POST …/rm` of canvases.
pub static REMOVE: Operation =
    Operation::edits("Removes canvases in order, up to the first that is unknown.")
        .body(&[list("canvas_ids", &Type::Text, "which ones")])
        .data(Type::Flag);
/// `POST …/reset` of a canvas.
pub static RESET_NAMED: Operation =
    Operation::runs("Starts the caller's own conversation over and answers with the canvas.")
        .body(&[text("id", "the canvas")]);

pub(super) static SESSION: Shape = Shape {
    name: "Session",
    summary: "a conversation with an agent",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("agent_id", "with which agent"),
        text("user_id", "who talks"),
        list("messages", &Type::Of(&MESSAGE), "the messages, the last thousand"),
        list("message", &Type::Of(&MESSAGE), "the same"),
        member("dsl", Type::Any, "the canvas it runs on, where it is asked for").optional(),
        text("version_title", "which version of the canvas"),
        time("create_time", "when it began"),
        text("create_date", "the same in words"),
        time("update_time", "when the last message was stored"),
        text("update_date", "the same in words"),
    ],
};

static MESSAGE: Shape = Shape {
    name: "Message",
    summary: "a message of a session",
    members: &[
        text("role", "`user` or `assistant`"),
        text("content", "the words"),
        whole("created_at", "when, in seconds since 1970"),
        text("id", "the run that produced it").optional(),
        list("reference", &Type::Any, "the sources that it cites").optional(),
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
        text("keywords", "only those whose messages contain this").optional(),
        flag("dsl", "whether each has its canvas; true when absent").optional(),
    ])
    .answer(Answer::Counted(Type::List(&Type::Of(&SESSION)), "total"));
/// `POST …/sessions`.
pub static CREATE_SESSION: Operation =
    Operation::runs("Begins a session with the newest version of an agent.")
        .query(&[text("user_id", "who talks").optional()])
        .body(&[
            text("name", "its name").optional(),
            text("user_id", "who talks").optional(),
            flag("release", "whether it is to be the published version").optional(),
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
        flag("delete_all", "whether all of them; without ids").optional(),
    ])
    .data(super::runs::REMOVED);

static ANSWER: Shape = Shape {
    name: "Answer",
    summary: "the answer of a run in one piece",
    members: &[
        text("event", "the event that ended it, such as `workflow_finished` or `user_inputs`"),
        text("message_id", "the run"),
        text("task_id", "the same"),
        text("session_id", "the session, to go on with"),
        whole("created_at", "when it began, in seconds since 1970"),
        member(
            "data",
            Type::Object(&[
                text("content", "the text"),
                member("reference", Type::Any, "the sources that it cites, by their numbers"),
                member("outputs", Type::Any, "the outputs of the last component").optional(),
                member("usage", Type::Any, "tokens that were used").optional(),
                text("status", "how it ended").optional(),
                text("stop_reason", "the limit that has cut it short").optional(),
                member("structured", Type::Any, "the answer as an object").optional(),
                list("trace", &Type::Any, "the nodes that have finished, when `return_trace` asks for them")
                    .optional(),
            ]),
            "",
        ),
    ],
};
/// The answer of a run as a single object.
pub const WHOLE: Type = Type::Of(&ANSWER);

static AGENT_REPLY: Shape = Shape {
    name: "AgentReply",
    summary: "the reply of an agent and how it came about",
    members: &[
        text("final_reply", "the text"),
        member(
            "metadata",
            Type::Object(&[
                whole("steps_taken", "rounds of tool calls"),
                list("tools_used", &Type::Text, "each tool once, in the order of their first calls"),
                text("stop_reason", "`completed`, or what ended it"),
                whole("llm_calls", "calls of models"),
            ]),
            "how it came about",
        ),
        text("status", "how the run ended"),
        text("session_id", "the session, to go on with"),
        text("error", "why it failed").optional(),
        member("reference", Type::Any, "the sources that it cites, by their numbers").optional(),
    ],
};
/// The answer of a run as a single object, in the requested dialect.
const IN_DIALECT: Type = Type::Either(&[WHOLE, Type::Of(&AGENT_REPLY)]);

/// What to do with a question while its session is answering another.
pub const STRATEGY: Member = member(
    "multitask_strategy",
    Type::OneOf(&["reject", "enqueue", "interrupt", "steer"]),
    "what becomes of it while the session is in the middle of a turn",
)
.optional();
/// Whether the answer is streamed.
pub const STREAM: Member =
    flag("stream", "whether to stream events; else one answer comes at the end").optional();

/// The format of the events.
pub const DIALECT: Member = member(
    "dialect",
    Type::OneOf(&crate::dialect::Dialect::NAMES),
    "which events: `ragflow`, or `agent` for `node_start`, `llm_token`, `node_end`, `tool_start`, `tool_end` and a \
     `reply` with metadata; see docs/agents.md",
)
.optional();

const COMPLETION: [Member; 15] = [
    text("query", "the question; also read as `question`").optional(),
    text("session_id", "which session; a new one when absent").optional(),
    STREAM,
    DIALECT,
    member("inputs", Type::Map(&Type::Any), "the fields of the form, by their keys").optional(),
    list("files", &Type::Any, "files that come with the question").optional(),
    text("user_id", "who asks").optional(),
    flag("return_trace", "whether finished nodes are listed").optional(),
    STRATEGY,
    text(
        "idempotency_key",
        "the same question with the same key is asked once; also the header Idempotency-Key",
    )
    .optional(),
    member("pins", Type::Map(&Type::Any), "outputs that take the place of what nodes would give").optional(),
    flag("parallel_messages", "whether pieces of several messages may come side by side").optional(),
    text("agent_id", "which agent, where the address does not say it").optional(),
    flag("release", "whether to run the published version").optional(),
    VERSION,
];
/// A conversation that ends with a question.
pub const MESSAGES: Member = list(
    "messages",
    &Type::Object(&[
        text("role", "`user`, `assistant` or `system`"),
        member("content", Type::Any, "the words"),
    ]),
    "the conversation; its last question is asked",
);

/// `POST …/completions`.
pub static COMPLETE: Operation =
    Operation::runs("Asks an agent.").body(&COMPLETION).answer(Answer::EventsOrData(IN_DIALECT));
/// `POST …/ag-ui`.
pub static AG_UI: Operation = Operation::runs(
    "Asks an agent in the AG-UI protocol: its events, and what people are asked as interrupts.",
)
.body(&[
    text("threadId", "the session; one that nobody knows begins"),
    text("runId", "what the run is called; one that is known is the same run"),
    member("messages", Type::List(&Type::Any), "the conversation; its last question is asked").optional(),
    member("forwardedProps", Type::Any, "`inputs` in it are the fields of the form, by their keys")
        .optional(),
    list(
        "resume",
        &Type::Object(&[
            text("interruptId", "the task"),
            member("status", Type::OneOf(&["resolved", "cancelled"]), "whether it is answered"),
            member("payload", Type::Any, "the answer: values of the form, or a decision").optional(),
        ]),
        "answers to the interrupts of the run before",
    )
    .optional(),
    STRATEGY,
])
.answer(Answer::Events);
/// `POST …/completion` of a canvas.
pub static COMPLETE_CANVAS: Operation =
    Operation::runs("Asks a canvas in the caller's own conversation with it.")
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
    Operation::runs("Asks in a conversation that is named by its id alone.")
        .body(&[text("conversation_id", "the session"), MESSAGES, STREAM])
        .answer(Answer::EventsOrData(Type::Object(&[
            text("answer", "the answer"),
            list("reference", &Type::Any, "the sources that it cites"),
            text("id", "the run"),
            text("session_id", "the session"),
        ])));

/// `POST …/agents_openai/{id}/chat/completions`.
pub static COMPLETE_OPENAI: Operation =
    Operation::runs("Asks an agent in the shape of OpenAI's chat completions.")
        .body(&[
            text("model", "any name"),
            MESSAGES,
            STREAM,
            text("session_id", "which session; also read as `id`, and in `metadata`").optional(),
            member("metadata", Type::Any, "").optional(),
        ])
        .answer(Answer::EventsOrWhole(Type::Of(&CHAT_COMPLETION)));
/// `POST /api/v1/agents/chat/completions`.
pub static COMPLETE_NAMED: Operation = Operation::runs("Asks the agent that the body names.")
    .body(&COMPLETION)
    .answer(Answer::EventsOrWhole(Type::Either(&[
        Type::Object(&[whole("code", ""), text("message", ""), member("data", Type::Any, "")]),
        Type::Of(&CHAT_COMPLETION),
    ])));

/// `GET …/logs/{message}` and `GET …/trace`.
pub static TRACE: Operation =
    Operation::reads("Shows the tool calls of a run, by their nodes.").query(&PAGE).data(Type::Any);
/// `GET …/trace`.
pub static TRACE_CANVAS: Operation = Operation::reads("Shows the tool calls of a run, by their nodes.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("canvas_id", "the canvas, the session or the run"),
        text("message_id", "the run"),
    ])
    .data(Type::Any);
