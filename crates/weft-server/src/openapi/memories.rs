//! Memories of agents.

use super::Operation;
use super::common::PAGE;
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};

const TYPES: Type = Type::List(&Type::OneOf(&["raw", "semantic", "episodic", "procedural"]));

static MEMORY: Shape = Shape {
    name: "Memory",
    summary: "what agents remember of their conversations",
    members: &[
        text("id", "its id"),
        text("name", "its name"),
        text("avatar", "image as a data URI, or empty"),
        text("tenant_id", "owning tenant"),
        text("owner_name", "name of the creator"),
        member("memory_type", TYPES, "kinds of messages to keep from a turn"),
        text("storage_type", "`table`"),
        text("embd_id", "embedding model; empty: none"),
        text("llm_id", "model that extracts facts from turns; empty: the default model"),
        member("permissions", Type::OneOf(&["me", "team"]), "who can use it"),
        text("description", "description"),
        whole("memory_size", "maximum size in bytes"),
        text("forgetting_policy", "`FIFO`: the oldest messages are removed when it is full"),
        member("temperature", Type::Number, "sampling temperature of the model, 0 to 1"),
        text("system_prompt", "instructions for the model; empty: the built-in ones"),
        text("user_prompt", "text for the model before the turn; empty: the built-in one"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};

static MESSAGE: Shape = Shape {
    name: "MemoryMessage",
    summary: "a message of a memory",
    members: &[
        whole("message_id", "number within the memory"),
        member(
            "message_type",
            Type::OneOf(&["raw", "semantic", "episodic", "procedural"]),
            "kind of message",
        ),
        whole("source_id", "the turn it was derived from").nullable(),
        text("memory_id", "id of the memory"),
        text("user_id", "id of the user it is about"),
        text("agent_id", "id of the agent"),
        text("agent_name", "its title"),
        text("session_id", "id of the conversation"),
        text("valid_at", "start of its validity"),
        text("invalid_at", "end of its validity").nullable(),
        text("forget_at", "time at which it was forgotten").nullable(),
        flag("status", "whether searches find it"),
        text("content", "text of the message"),
        member(
            "task",
            Type::Object(&[
                member("progress", Type::Number, "0 to 1; -1 on failure"),
                text("progress_msg", "reason for failing or waiting"),
            ]),
            "progress of extraction by a model",
        ),
        list("extract", &Type::Any, "messages derived from it"),
        member("similarity", Type::Number, "similarity to the query").optional(),
        list("content_embed", &Type::Number, "vector, if the content is requested").optional(),
    ],
};

const SETTINGS: [Member; 12] = [
    text("name", "at most 128 characters; a name that is taken gets a number"),
    member("memory_type", TYPES, "kinds of messages to keep from a turn; raw messages are always kept"),
    text("embd_id", "embedding model; empty: keyword search only"),
    text("llm_id", "model that extracts facts from turns; empty: the default model"),
    text("avatar", "image as a data URI").optional(),
    text("description", "description").optional(),
    member("permissions", Type::OneOf(&["me", "team"]), "who can use it").optional(),
    whole("memory_size", "bytes, at most 10485760").optional(),
    member("forgetting_policy", Type::OneOf(&["FIFO"]), "what to remove when it is full").optional(),
    member("temperature", Type::Number, "0 to 1").optional(),
    text("system_prompt", "instructions for the model").optional(),
    text("user_prompt", "text for the model before the turn").optional(),
];

/// `GET /api/v1/memories`.
pub static LIST: Operation = Operation::reads("Lists the memories.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("tenant_id", "only those of these tenants").optional(),
        text("memory_type", "only those with one of these types").optional(),
        text("storage_type", "only those of this kind").optional(),
        text("keywords", "only those with this text in the name").optional(),
    ])
    .data(Type::Object(&[
        list("memory_list", &Type::Of(&MEMORY), "entries of the page"),
        whole("total_count", "total number"),
    ]));
/// `POST /api/v1/memories`.
pub static CREATE: Operation = Operation::edits("Creates a memory.").body(&SETTINGS).data(Type::Of(&MEMORY));
/// `PUT /api/v1/memories/{id}`.
pub static UPDATE: Operation = Operation::edits(
    "Updates the given fields of a memory. The embedding model and types of a memory with messages cannot \
     change.",
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
pub static MESSAGES: Operation = Operation::reads("Lists the turns of a memory, latest first.")
    .query(&[
        PAGE[0],
        PAGE[1],
        text("agent_id", "only those of these agents").optional(),
        text("keywords", "only those of conversations with this text in the id").optional(),
    ])
    .data(Type::Object(&[
        member(
            "messages",
            Type::Object(&[
                list("message_list", &Type::Of(&MESSAGE), "entries of the page"),
                whole("total_count", "total number"),
            ]),
            "the turns",
        ),
        text("storage_type", "`table`"),
    ]));
/// `POST /api/v1/messages`.
pub static ADD: Operation = Operation::runs("Stores a turn of a conversation.")
    .body(&[
        member("memory_id", Type::List(&Type::Text), "ids of memories"),
        text("agent_id", "id of the agent"),
        text("session_id", "id of the conversation"),
        text("user_input", "message of the user"),
        text("agent_response", "message of the agent"),
        text("user_id", "id of the user it is about").optional().nullable(),
    ])
    .data(Type::Null);
/// `DELETE /api/v1/messages/{message}`.
pub static FORGET: Operation =
    Operation::edits("Forgets a message, named by memory and number: `<memory>:<number>`.").data(Type::Flag);
/// `PUT /api/v1/messages/{message}`.
pub static SET_STATUS: Operation = Operation::edits("Enables or disables a message for searches.")
    .body(&[flag("status", "whether searches find it")])
    .data(Type::Flag);
/// `GET /api/v1/messages/{message}/content`.
pub static CONTENT: Operation = Operation::reads("Shows a message.").data(Type::Of(&MESSAGE));
/// `GET /api/v1/messages`.
pub static RECENT: Operation = Operation::reads("Lists the latest messages of memories.")
    .query(&[
        text("memory_id", "ids of memories"),
        text("agent_id", "only those of these agents").optional(),
        text("session_id", "only those of this conversation").optional(),
        whole("limit", "maximum number").optional(),
    ])
    .data(Type::List(&Type::Of(&MESSAGE)));
/// `GET /api/v1/messages/search`.
pub static SEARCH: Operation = Operation::reads("Searches memories.")
    .query(&[
        text("query", "the question"),
        text("memory_id", "ids of memories"),
        text("agent_id", "only those of these agents").optional(),
        text("session_id", "only those of this conversation").optional(),
        text("user_id", "only those of this user").optional(),
        member("similarity_threshold", Type::Number, "minimum score of a message").optional(),
        member("keywords_similarity_weight", Type::Number, "weight of vector similarity in the score")
            .optional(),
        whole("top_n", "maximum number").optional(),
    ])
    .data(Type::List(&Type::Of(&MESSAGE)));
