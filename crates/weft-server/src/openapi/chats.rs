//! Chat assistants, their conversations and their answers.

use super::agents::{MESSAGES, PAGE, STRATEGY, STREAM};
use super::shape::{Member, Shape, Type, flag, list, member, text, time, whole};
use super::{Answer, Operation, Shared};

const SETTINGS: Type = Type::Map(&Type::Any);
/// The number of removed entries, and why others were not removed.
const REMOVED: Type = Type::Either(&[
    Type::Flag,
    Type::Object(&[
        whole("success_count", "how many were removed").optional(),
        list("errors", &Type::Text, "what kept the others").optional(),
    ]),
]);

static CHAT: Shape = Shape {
    name: "Chat",
    summary: "a chat assistant, in the names of both generations of the API",
    members: &[
        text("id", "its id"),
        text("tenant_id", "whose it is"),
        text("name", "its name"),
        text("description", "for people"),
        text("icon", "a picture as a data URI, or nothing"),
        text("avatar", "the same, by its older name"),
        text("status", "`1`"),
        text("language", "for people"),
        text("prompt_type", "`simple`"),
        text("do_refer", "`1`"),
        list("dataset_ids", &Type::Text, "the datasets that are searched, as far as they are there"),
        list("kb_names", &Type::Text, "their names"),
        list(
            "datasets",
            &Type::Object(&[text("id", ""), text("name", ""), text("avatar", ""), whole("chunk_num", "")]),
            "the same, by its older name",
        ),
        text("llm_id", "its model; empty for the default one"),
        member("llm_setting", SETTINGS, "how the model answers"),
        member("llm", SETTINGS, "model and settings, by their older name"),
        member("prompt_config", SETTINGS, "instructions, opening words, variables and switches"),
        member("prompt", SETTINGS, "the same and how it searches, by their older names"),
        member("meta_data_filter", SETTINGS, "which documents are searched, by their metadata"),
        member("similarity_threshold", Type::Number, "what a passage has to score at least"),
        member("vector_similarity_weight", Type::Number, "the share of vectors in a score"),
        whole("top_n", "how many passages reach the model"),
        whole("top_k", "how many candidates are ranked"),
        text("rerank_id", "the model that ranks; empty for none"),
        time("create_time", "when it was made"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};

const NAME: Member = text("name", "at most 255 characters; unique without regard to case");

const CHAT_BODY: [Member; 16] = [
    NAME,
    text("description", "for people").optional().nullable(),
    text("icon", "a picture as a data URI; also read as `avatar`").optional().nullable(),
    list("dataset_ids", &Type::Text, "the datasets to search").optional().nullable(),
    text("llm_id", "the model; the default one when absent").optional().nullable(),
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
    whole("top_n", "1 to 1024").optional().nullable(),
    whole("top_k", "1 to 1024").optional().nullable(),
    text("rerank_id", "the model that ranks").optional().nullable(),
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
    Operation::edits("Makes a chat assistant.").body(&CHAT_BODY).data(Type::Of(&CHAT));
/// `PUT` and `PATCH /api/v1/chats/{id}`.
pub static UPDATE: Operation =
    Operation::edits("Changes what is given of a chat assistant, and nothing else.")
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
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "by what").optional(),
        flag("desc", "whether the largest come first; true when absent").optional(),
        text("id", "only this one").optional(),
        text("name", "only the one with this name").optional(),
        text("keywords", "only with this in the name").optional(),
        text("owner_ids", "only of these owners").optional(),
    ])
    .data(Type::Object(&[
        list("chats", &Type::Of(&CHAT), "the page"),
        whole("total", "how many there are in all"),
    ]));
/// `DELETE /api/v1/chats/{id}`.
pub static DELETE_ONE: Operation =
    Operation::edits("Removes a chat assistant with its conversations.").data(Type::Flag);
/// `DELETE /api/v1/chats`.
pub static DELETE: Operation = Operation::edits("Removes chat assistants with their conversations.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether all of them go, where none is named").optional().nullable(),
    ])
    .data(REMOVED);

static SESSION: Shape = Shape {
    name: "ChatSession",
    summary: "a conversation with a chat assistant",
    members: &[
        text("id", "its id"),
        text("chat_id", "the assistant"),
        text("name", "its name"),
        text("user_id", "who talks"),
        list(
            "messages",
            &Type::Object(&[
                text("role", "`user` or `assistant`"),
                text("content", "what was said"),
                text("id", "the message's, the same of a question and its answer").optional(),
                whole("created_at", "in seconds since 1970"),
                list("reference", &Type::Any, "the sources that it cites").optional(),
                flag("thumbup", "whether its reader thinks it good").optional(),
                text("feedback", "why").optional(),
            ]),
            "the last 1000",
        ),
        time("create_time", "when it began"),
        text("create_date", "the same in words"),
        time("update_time", "when it was changed"),
        text("update_date", "the same in words"),
    ],
};

/// `POST …/sessions`.
pub static CREATE_SESSION: Operation =
    Operation::runs("Begins a conversation; its first message is the assistant's opening words.")
        .body(&[text("name", "its name").optional(), text("user_id", "who talks").optional()])
        .data(Type::Of(&SESSION));
/// `GET …/sessions`.
pub static LIST_SESSIONS: Operation = Operation::reads("Lists the conversations with a chat assistant.")
    .query(&[
        PAGE[0],
        PAGE[1],
        member("orderby", Type::OneOf(&["create_time", "update_time", "name"]), "by what").optional(),
        flag("desc", "whether the newest come first; true when absent").optional(),
        text("id", "only this one").optional(),
        text("name", "only those with this name").optional(),
        text("user_id", "only of this user").optional(),
        text("keywords", "only with this in the name").optional(),
    ])
    .answer(Answer::Counted(Type::List(&Type::Of(&SESSION)), "total"));
/// `GET …/sessions/{session}`.
pub static GET_SESSION: Operation = Operation::reads("Shows a conversation.").data(Type::Of(&SESSION));
/// `PUT` and `PATCH …/sessions/{session}`.
pub static UPDATE_SESSION: Operation = Operation::runs("Gives a conversation another name.")
    .body(&[text("name", "at most 255 characters").optional()])
    .data(Type::Of(&SESSION));
/// `DELETE …/sessions`.
pub static DELETE_SESSIONS: Operation = Operation::runs("Removes conversations.")
    .body(&[
        list("ids", &Type::Text, "which ones").optional().nullable(),
        flag("delete_all", "whether all of them go, where none is named").optional().nullable(),
    ])
    .data(REMOVED);
/// `DELETE …/messages/{message}`.
pub static DELETE_MESSAGE: Operation =
    Operation::runs("Removes a question with its answer.").data(Type::Of(&SESSION));
/// `PUT …/messages/{message}/feedback`.
pub static JUDGE: Operation = Operation::runs("Keeps what a reader thinks of an answer.")
    .body(&[flag("thumbup", "whether it is good"), text("feedback", "why").optional()])
    .data(Type::Of(&SESSION));

pub(super) static ANSWER: Shape = Shape {
    name: "ChatAnswer",
    summary: "the answer of a chat assistant",
    members: &[
        text("answer", "the text; in a stream the next piece of it"),
        member("reference", Type::Any, "the sources: `chunks`, `doc_aggs`, `total`"),
        text("prompt", "the assistant's instructions"),
        whole("created_at", "when it began, in seconds since 1970"),
        member("audio_binary", Type::Null, "nothing"),
        text("id", "the message").nullable(),
        text("session_id", "the conversation, to go on with"),
        text("chat_id", "the assistant"),
    ],
};

const QUESTION: [Member; 17] = [
    text("question", "the question").optional(),
    MESSAGES.optional(),
    text("session_id", "which conversation; also read as `conversation_id`; a new one when absent")
        .optional(),
    STREAM,
    flag("quote", "whether sources are cited").optional(),
    member(
        "doc_ids",
        Type::Either(&[Type::List(&Type::Text), Type::Text]),
        "only in these documents; also a text with commas",
    )
    .optional(),
    list("kb_ids", &Type::Text, "in these datasets instead of the assistant's").optional(),
    member("metadata_condition", SETTINGS, "only in documents with such metadata").optional(),
    member(
        "reasoning",
        Type::Any,
        "whether it searches in several steps: a truth value, or a depth from 1 to 4",
    )
    .optional(),
    text("llm_id", "another model").optional(),
    member("temperature", Type::Number, "0 to 2; so also `top_p` and the penalties").optional(),
    whole("max_tokens", "how long the answer may be").optional(),
    flag("legacy", "whether each frame has everything so far, with reasoning in tags").optional(),
    text("user_id", "who asks").optional(),
    STRATEGY,
    text(
        "idempotency_key",
        "the same question with the same key is asked once; also the header Idempotency-Key",
    )
    .optional(),
    text("chat_id", "which assistant, where the address does not say it; a model alone when absent")
        .optional(),
];

/// `POST …/completions`.
pub static COMPLETE: Operation =
    Operation::runs("Asks a chat assistant.").body(&QUESTION).answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// `POST /api/v1/chatbots/{id}/completions`.
pub static ASK_CHATBOT: Operation = Operation::runs("Asks a chat assistant from a page that shows it.")
    .shared(Shared::Chat)
    .body(&QUESTION)
    .answer(Answer::EventsOrData(Type::Of(&ANSWER)));
/// An answer in the format of OpenAI's chat completions.
pub static CHAT_COMPLETION: Shape = Shape {
    name: "ChatCompletion",
    summary: "an answer in the shape of OpenAI's chat completions",
    members: &[
        text("id", "of an agent the session, to go on with"),
        text("object", "`chat.completion`"),
        whole("created", "when it began, in seconds since 1970"),
        text("model", "the agent, or the chat assistant"),
        member(
            "usage",
            Type::Object(&[
                whole("prompt_tokens", ""),
                whole("completion_tokens", ""),
                whole("total_tokens", ""),
                member(
                    "prompt_tokens_details",
                    Type::Object(&[whole("cached_tokens", ""), whole("cache_write_tokens", "")]),
                    "",
                ),
                member("completion_tokens_details", Type::Object(&[whole("reasoning_tokens", "")]), ""),
            ]),
            "tokens that were used",
        ),
        list(
            "choices",
            &Type::Object(&[
                whole("index", ""),
                text("finish_reason", "").nullable(),
                member(
                    "message",
                    Type::Object(&[
                        text("role", ""),
                        text("content", "").nullable(),
                        member("reference", Type::Any, "sources").optional(),
                    ]),
                    "",
                ),
            ]),
            "one",
        ),
        member("weft", Type::Any, "what that shape has no place for, such as a form that waits").optional(),
    ],
};

/// `POST …/openai/{id}/chat/completions`.
pub static COMPLETE_OPENAI: Operation =
    Operation::runs("Asks a chat assistant in the shape of OpenAI's chat completions.")
        .body(&[
            text("model", "`model` for the assistant's own, or another one"),
            MESSAGES,
            STREAM,
            text("session_id", "which conversation; the messages are it when absent").optional(),
            flag("reference", "whether sources are told").optional(),
            QUESTION[7],
            member("extra_body", SETTINGS, "the same fields, as one object").optional(),
        ])
        .answer(Answer::EventsOrWhole(Type::Of(&CHAT_COMPLETION)));
/// `POST /api/v1/chat/recommendation`.
pub static RELATED: Operation = Operation::runs("Thinks of questions that somebody might ask next.")
    .body(&[text("question", "what was asked"), text("industry", "the field they work in").optional()])
    .data(Type::List(&Type::Text));
/// `GET /api/v1/chatbots/{id}/info`.
pub static CHATBOT: Operation = Operation::reads("Shows what a page needs of a chat assistant.")
    .shared(Shared::Chat)
    .data(Type::Object(&[
        text("title", "its name"),
        text("avatar", "a picture as a data URI, or nothing"),
        text("prologue", "its opening words"),
        flag("has_tavily_key", "whether it searches the web, too"),
        flag("has_web_search_provider", "the same"),
        text("llm_id", "its model"),
    ]));
