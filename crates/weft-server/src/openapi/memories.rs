//! Memories of agents.

use super::Operation;
use super::agents::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};

const TYPES: Type = Type::List(&Type::OneOf(&["raw", "semantic", "episodic", "procedural"]));

static MEMORY: Shape = Shape {
    name: "Memory",
    summary: "what agents remember of their conversations",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("avatar", "a picture as a data URI, or nothing"),
        text("tenant_id", "whose it is"),
        text("owner_name", "who made it"),
        member("memory_type", TYPES, "what is kept of a turn"),
        text("storage_type", "`table`"),
        text("embd_id", "what makes its vectors; empty for none"),
        text("llm_id", "what finds facts in turns; empty for the default model"),
        member("permissions", Type::OneOf(&["me", "team"]), "who may use it"),
        text("description", "for people"),
        whole("memory_size", "how many bytes it holds, at most"),
        text("forgetting_policy", "`FIFO`: the oldest messages go when there is no room"),
        member("temperature", Type::Number, "how freely the model answers, 0 to 1"),
        text("system_prompt", "instructions for the model; empty for ours"),
        text("user_prompt", "what the model reads before the turn; empty for ours"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};

static MESSAGE: Shape = Shape {
    name: "MemoryMessage",
    summary: "a message of a memory",
    members: &[
        whole("message_id", "its number in its memory"),
        member("message_type", Type::OneOf(&["raw", "semantic", "episodic", "procedural"]), "what it is"),
        whole("source_id", "the turn it was derived from").nullable(),
        text("memory_id", "in which memory"),
        text("user_id", "whom it is about"),
        text("agent_id", "which agent was spoken to"),
        text("agent_name", "its title"),
        text("session_id", "in which conversation"),
        text("valid_at", "since when it holds"),
        text("invalid_at", "until when it holds").nullable(),
        text("forget_at", "when it was forgotten").nullable(),
        flag("status", "whether it is found"),
        text("content", "what it says"),
        member(
            "task",
            Type::Object(&[
                member("progress", Type::Number, "0 to 1, and -1 when it failed"),
                text("progress_msg", "why it failed or waits"),
            ]),
            "how far a model has come with it",
        ),
        list("extract", &Type::Any, "what was derived from it"),
        member("similarity", Type::Number, "how well it fits the question").optional(),
        list("content_embed", &Type::Number, "its vector, where its content is asked for").optional(),
    ],
};

const SETTINGS: [Member; 12] = [
    text("name", "at most 128 characters; a taken one gets a number"),
    member("memory_type", TYPES, "what is kept of a turn; raw messages always are"),
    text("embd_id", "what makes its vectors; empty: searched by words alone"),
    text("llm_id", "what finds facts in turns; empty: the default model"),
    text("avatar", "a picture as a data URI").optional(),
    text("description", "for people").optional(),
    member("permissions", Type::OneOf(&["me", "team"]), "who may use it").optional(),
    whole("memory_size", "bytes, at most 10485760").optional(),
    member("forgetting_policy", Type::OneOf(&["FIFO"]), "what goes when there is no room").optional(),
    member("temperature", Type::Number, "0 to 1").optional(),
    text("system_prompt", "instructions for the model").optional(),
    text("user_prompt", "what the model reads before the turn").optional(),
];

/// `GET /api/v1/memories`.
pub static LIST: Operation = Operation::reads("Lists the memories.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("tenant_id", "only of these tenants").optional(),
        text("memory_type", "only with one of these types").optional(),
        text("storage_type", "only of this kind").optional(),
        text("keywords", "only with this in the name").optional(),
    ])
    .data(Type::Object(&[
        list("memory_list", &Type::Of(&MEMORY), "the page"),
        whole("total_count", "how many there are in all"),
    ]));
/// `POST /api/v1/memories`.
pub static CREATE: Operation = Operation::edits("Makes a memory.").body(&SETTINGS).data(Type::Of(&MEMORY));
/// `PUT /api/v1/memories/{id}`.
pub static UPDATE: Operation = Operation::edits(
    "Changes what is given of a memory. The embedder and the types of one with messages stay.",
)
.body(&[
    SETTINGS[0].optional(),
    SETTINGS[1].optional(),
    SETTINGS[2].optional(),
    SETTINGS[3].optional(),
    SETTINGS[4],
    SETTINGS[5],
    SETTINGS[6],
    SETTINGS[7],
    SETTINGS[8],
    SETTINGS[9],
    SETTINGS[10],
    SETTINGS[11],
])
.data(Type::Of(&MEMORY));
/// `DELETE /api/v1/memories/{id}`.
pub static DELETE: Operation = Operation::edits("Removes a memory with its messages.").data(Type::Flag);
/// `GET /api/v1/memories/{id}/config`.
pub static CONFIG: Operation = Operation::reads("Shows a memory.").data(Type::Of(&MEMORY));
/// `GET /api/v1/memories/{id}`.
pub static MESSAGES: Operation = Operation::reads("Lists the turns of a memory, the latest first.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("agent_id", "only of these agents").optional(),
        text("keywords", "only of conversations with this in their id").optional(),
    ])
    .data(Type::Object(&[
        member(
            "messages",
            Type::Object(&[
                list("message_list", &Type::Of(&MESSAGE), "the page"),
                whole("total_count", "how many there are in all"),
            ]),
            "the turns",
        ),
        text("storage_type", "`table`"),
    ]));
/// `POST /api/v1/messages`.
pub static ADD: Operation = Operation::runs("Remembers a turn of a conversation.")
    .body(&[
        member("memory_id", Type::List(&Type::Text), "in which memories"),
        text("agent_id", "which agent was spoken to"),
        text("session_id", "in which conversation"),
        text("user_input", "what the user said"),
        text("agent_response", "what was answered"),
        text("user_id", "whom it is about").optional().nullable(),
    ])
    .data(Type::Null);
/// `DELETE /api/v1/messages/{message}`.
pub static FORGET: Operation =
    Operation::edits("Forgets a message, named by memory and number: `<memory>:<number>`.").data(Type::Flag);
/// `PUT /api/v1/messages/{message}`.
pub static SET_STATUS: Operation = Operation::edits("Says whether searches find a message.")
    .body(&[flag("status", "whether they do")])
    .data(Type::Flag);
/// `GET /api/v1/messages/{message}/content`.
pub static CONTENT: Operation = Operation::reads("Shows a message.").data(Type::Of(&MESSAGE));
/// `GET /api/v1/messages`.
pub static RECENT: Operation = Operation::reads("Lists the latest messages of memories.")
    .query(&[
        text("memory_id", "of which memories"),
        text("agent_id", "only of these agents").optional(),
        text("session_id", "only of this conversation").optional(),
        whole("limit", "how many, at most").optional(),
    ])
    .data(Type::List(&Type::Of(&MESSAGE)));
/// `GET /api/v1/messages/search`.
pub static SEARCH: Operation = Operation::reads("Searches memories.")
    .query(&[
        text("query", "the question"),
        text("memory_id", "in which memories; nothing is found in none").optional(),
        text("agent_id", "only of these agents").optional(),
        text("session_id", "only of this conversation").optional(),
        text("user_id", "only of this user").optional(),
        member("similarity_threshold", Type::Number, "what a message has to score at least").optional(),
        member("keywords_similarity_weight", Type::Number, "the share of the vectors in a score").optional(),
        whole("top_n", "how many, at most").optional(),
    ])
    .data(Type::List(&Type::Of(&MESSAGE)));
