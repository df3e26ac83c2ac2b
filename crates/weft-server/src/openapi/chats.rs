//! Chat assistants, their conversations and their answers.

use super::common::{CHAT_COMPLETION, MESSAGES, PAGE, STRATEGY, STREAM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation, Shared};

const SETTINGS: Type = Type::Map(&Type::Any);
/// The number of removed entries, and why others were not removed.
const REMOVED: Type = Type::Either(&[
    Type::Flag,
    Type::Object(&[
        whole("success_count", "number removed").optional(),
        list("errors", &Type::Text, "why others were not removed").optional(),
    ]),
]);

static CHAT: Shape = Shape {
    name: "Chat",
    summary: "a chat assistant, with the field names of both API generations",
    members: &[
        text("id", "its id"),
        text("tenant_id", "owning tenant"),
        text("name", "its name"),
        text("description", "description"),
        text("icon", "image as a data URI, or empty"),
        text("avatar", "the same, under its older name"),
        text("status", "`1`"),
        text("language", "language; informational only"),
        text("prompt_type", "`simple`"),
        text("do_refer", "`1`"),
        list("dataset_ids", &Type::Text, "searched datasets that exist"),
        list("kb_names", &Type::Text, "their names"),
        list(
            "datasets",
            &Type::Object(&[text("id", ""), text("name", ""), text("avatar", ""), whole("chunk_num", "")]),
            "the same, under its older name",
        ),
        text("llm_id", "model; empty: the default"),
        member("llm_setting", SETTINGS, "generation settings of the model"),
        member("llm", SETTINGS, "model and settings, under their older name"),
        member("prompt_config", SETTINGS, "instructions, opening message, variables and switches"),
        member("prompt", SETTINGS, "the same and search settings, under their older names"),
        member("meta_data_filter", SETTINGS, "metadata filter of the searched documents"),
        member("similarity_threshold", Type::Number, "minimum score of a passage"),
        member("vector_similarity_weight", Type::Number, "weight of vector similarity in the score"),
        whole("top_n", "maximum number of passages given to the model"),
        whole("top_k", "number of candidates to rank"),
        text("rerank_id", "reranking model; empty: none"),
        time("create_time", "time of creation"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};

const NAME: Member = text("name", "at most 255 characters; unique regardless of case");

const CHAT_BODY: [Member; 16] = [
    NAME,
    text("description", "description").optional().nullable(),
    text("icon", "image as a data URI; also accepted as `avatar`").optional().nullable(),
    list("dataset_ids", &Type::Text, "datasets to search").optional().nullable(),
    text("llm_id", "the model; default: the default model").optional().nullable(),
    member(
        "llm_setting",
        SETTINGS,
        "`temperature`, `top_p`, `presence_penalty`, `frequency_penalty`, `max_tokens`",
    )
    .optional()
    .nullable(),
    member(
        "prompt_config",
        SETTINGS,
        "`system`, `prologue`, `parameters`, `empty_response`, `quote`, `refine_multiturn`, `keyword`, \
         `cross_languages`, `toc_enhance`, `use_kg`, `reasoning`, `tavily_api_key`, `tts`",
    )
    .optional()
    .nullable(),
    member("similarity_threshold", Type::Number, "0 to 1").optional().nullable(),
    member("vector_similarity_weight", Type::Number, "0 to 1").optional().nullable(),
    whole("top_n", "0 to 1024").optional().nullable(),
    whole("top_k", "1 to 2048; more than 1024 count as 1024").optional().nullable(),
    text("rerank_id", "reranking model").optional().nullable(),
    member("meta_data_filter", SETTINGS, "`method`, `manual`, `semi_auto`, `logic`").optional().nullable(),
    member("llm", SETTINGS, "the older form: `model_name` and settings").optional().nullable(),
    member(
        "prompt",
        SETTINGS,
        "the older form: `prompt`, `opener`, `variables`, `show_quote`, `keywords_similarity_weight` …",
    )
    .optional()
    .nullable(),
    text("avatar", "the older name of `icon`").optional().nullable(),
];

/// `POST /api/v1/chats`.
pub static CREATE: Operation =
    Operation::edits("Creates a chat assistant.").body(&CHAT_BODY).data(Type::Of(&CHAT));
/// `PUT` and `PATCH /api/v1/chats/{id}`.
pub static UPDATE: Operation = Operation::edits("Updates only the given fields of a chat assistant.")
    .body(&[
        NAME.optional(),
        CHAT_BODY[1],
        CHAT_BODY[2],
        CHAT_BODY[3],
        CHAT_BODY[4],
        CHAT_BODY[5],
        CHAT_BODY[6],
        CHAT_BODY[7],
        CHAT_BODY[8],
        CHAT_BODY[9],
        CHAT_BODY[10],
        CHAT_BODY[11],
        CHAT_BODY[12],
        CHAT_BODY[13],
        CHAT_BODY[14],
        CHAT_BODY[15],
    ])
    .data(Type::Of(&CHAT));
/// `GET /api/v1/chats/{id}`.
pub static GET: Operation = Operation::reads("Shows a chat assistant.").data(Type::Of(&CHAT));
/// `GET /api/v1/chats`.
pub static LIST: Operation = Operation::reads("Lists the chat assistants.")
    .query(&[
        PAGE[0],
        PAGE[1],
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "sort field").optional(),
        flag("desc", "whether to sort in descending order; default: true").optional(),
        text("id", "only this one").optional(),
        text("name", "only the one with this name").optional(),
        text("keywords", "only those with this text in the name").optional(),
        text("owner_ids", "only those of these owners").optional(),
    ])
    .data(Type::Object(&[
        list("chats", &Type::Of(&CHAT), "entries of the page"),
        whole("total", "total number"),
    ]));
/// `DELETE /api/v1/chats/{id}`.
pub static DELETE_ONE: Operation =
    Operation::edits("Removes a chat assistant with its conversations.").data(Type::Flag);
/// `DELETE /api/v1/chats`.
pub static DELETE: Operation = Operation::edits("Removes chat assistants with their conversations.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether to remove all if no ids are given").optional().nullable(),
    ])
    .data(REMOVED);

static SESSION: Shape = Shape {
    name: "ChatSession",
    summary: "a conversation with a chat assistant",
    members: &[
        text("id", "its id"),
        text("chat_id", "the assistant"),
        text("name", "its name"),
        text("user_id", "id of the user"),
        list(
            "messages",
            &Type::Object(&[
                text("role", "`user` or `assistant`"),
                text("content", "text of the message"),
                text("id", "id of the message; a question and its answer share it").optional(),
                whole("created_at", "in seconds since 1970"),
                list("reference", &Type::Any, "cited sources").optional(),
                flag("thumbup", "whether the reader rated it as good").optional(),
                text("feedback", "why").optional(),
            ]),
            "at most the last 1,000",
        ),
        time("create_time", "start time"),
        text("create_date", "the same as text"),
        time("update_time", "time of the last change"),
        text("update_date", "the same as text"),
    ],
};

/// `POST …/sessions`.
pub static CREATE_SESSION: Operation =
    Operation::runs("Starts a conversation; its first message is the assistant's opening message.")
        .body(&[text("name", "its name").optional(), text("user_id", "id of the user").optional()])
        .data(Type::Of(&SESSION));
/// `GET …/sessions`.
pub static LIST_SESSIONS: Operation = Operation::reads("Lists the conversations with a chat assistant.")
    .query(&[
        PAGE[0],
        PAGE[1],
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "sort field").optional(),
        flag("desc", "whether to sort in descending order; default: true").optional(),
        text("id", "only this one").optional(),
        text("name", "only those with this name").optional(),
        text("user_id", "only those of this user").optional(),
        text("keywords", "only those with this text in the name").optional(),
    ])
    .answer(Answer::Counted(Type::List(&Type::Of(&SESSION)), "total"));
/// `GET …/sessions/{session}`.
pub static GET_SESSION: Operation = Operation::reads("Shows a conversation.").data(Type::Of(&SESSION));
/// `PUT` and `PATCH …/sessions/{session}`.
pub static UPDATE_SESSION: Operation = Operation::runs("Renames a conversation.")
    .body(&[text("name", "at most 255 characters").optional()])
    .data(Type::Of(&SESSION));
/// `DELETE …/sessions`.
pub static DELETE_SESSIONS: Operation = Operation::runs("Removes conversations.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether to remove all if no ids are given").optional().nullable(),
    ])
    .data(REMOVED);
/// `DELETE …/messages/{message}`.
pub static DELETE_MESSAGE: Operation =
    Operation::runs("Removes a question and its answer.").data(Type::Of(&SESSION));
/// `PUT …/messages/{message}/feedback`.
pub static JUDGE: Operation = Operation::runs("Stores a reader's feedback on an answer.")
    .body(&[flag("thumbup", "whether the answer is good"), text("feedback", "why").optional()])
    .data(Type::Of(&SESSION));

pub(super) static ANSWER: Shape = Shape {
    name: "ChatAnswer",
    summary: "the answer of a chat assistant",
    members: &[
        text("answer", "the text; in a stream, its next piece"),
        member("reference", Type::Any, "the sources: `chunks`, `doc_aggs`, `total`"),
        text("prompt", "the assistant's instructions"),
        whole("created_at", "start time in seconds since 1970"),
        member("audio_binary", Type::Null, "nothing"),
        text("id", "the message").nullable(),
        text("session_id", "the conversation, for further questions"),
        text("chat_id", "the assistant"),
    ],
};

const QUESTION: [Member; 17] = [
    text("question", "the question").optional(),
    MESSAGES.optional(),
    text("session_id", "the conversation; also accepted as `conversation_id`; default: a new one").optional(),
    STREAM,
    flag("quote", "whether to cite sources").optional(),
    member(
        "doc_ids",
        Type::Either(&[Type::List(&Type::Text), Type::Text]),
        "search only these documents; also as text separated by commas",
    )
    .optional(),
    list("kb_ids", &Type::Text, "datasets to search instead of the assistant's").optional(),
    member("metadata_condition", SETTINGS, "search only documents with matching metadata").optional(),
    member("reasoning", Type::Any, "whether to search in several steps: a boolean, or a depth from 1 to 4")
        .optional(),
    text("llm_id", "another model").optional(),
    member("temperature", Type::Number, "0 to 2; `top_p` and the penalties are accepted as well").optional(),
    whole("max_tokens", "maximum length of the answer in tokens").optional(),
    flag("legacy", "whether each frame contains everything so far, with reasoning in tags").optional(),
    text("user_id", "id of the user who asks").optional(),
    STRATEGY,
    text(
        "idempotency_key",
        "the same question with the same key runs only once; also accepted as the header Idempotency-Key",
    )
    .optional(),
    text("chat_id", "the assistant, if the path does not name it; default: a model alone").optional(),
];

/// `POST …/completions`.
pub static COMPLETE: Operation =
    Operation::runs("Asks a chat assistant.").body(&QUESTION).answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `POST /api/v1/chatbots/{id}/completions`.
pub static ASK_CHATBOT: Operation = Operation::runs("Asks a chat assistant from a page that embeds it.")
    .shared(Shared::Chat)
    .body(&QUESTION)
    .answer(Answer::EventsOrData(Type::Of(&ANSWER)));

/// `POST …/openai/{id}/chat/completions`.
pub static COMPLETE_OPENAI: Operation =
    Operation::runs("Asks a chat assistant using the OpenAI chat completions format.")
        .body(&[
            text("model", "`model` for the assistant's own model, or another model"),
            MESSAGES,
            STREAM,
            text("session_id", "the conversation; default: the given messages").optional(),
            flag("reference", "whether to return sources").optional(),
            QUESTION[7],
            member("extra_body", SETTINGS, "the same fields in one object").optional(),
        ])
        .answer(Answer::EventsOrWhole(Type::Of(&CHAT_COMPLETION)));
/// `POST /api/v1/chat/recommendation`.
pub static RELATED: Operation = Operation::runs("Suggests follow-up questions.")
    .body(&[text("question", "the question asked"), text("industry", "industry of the user").optional()])
    .data(Type::List(&Type::Text));
/// `GET /api/v1/chatbots/{id}/info`.
pub static CHATBOT: Operation = Operation::reads("Shows what a page needs to show a chat assistant.")
    .shared(Shared::Chat)
    .data(Type::Object(&[
        text("title", "its name"),
        text("avatar", "image as a data URI, or empty"),
        text("prologue", "opening message"),
        flag("has_tavily_key", "whether it also searches the web"),
        flag("has_web_search_provider", "the same"),
        text("llm_id", "model"),
    ]));
