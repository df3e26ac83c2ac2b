//! Members and shapes that several parts of the API share.

use super::shape::{Member, Shape, Type, flag, list, member, text, whole};

/// Query parameters for a page of a list.
pub const PAGE: [Member; 2] = [
    whole("page", "page number, starting at 1").optional(),
    whole("page_size", "entries per page").optional(),
];

/// What to do with a question while its session is answering another.
pub const STRATEGY: Member = member(
    "multitask_strategy",
    Type::OneOf(&["reject", "enqueue", "interrupt", "steer"]),
    "how to handle the question while a turn of its session is in progress",
)
.optional();

/// Whether the answer is streamed.
pub const STREAM: Member =
    flag("stream", "whether to stream events; otherwise one answer is returned at the end").optional();

/// A conversation that ends with a question.
pub const MESSAGES: Member = list(
    "messages",
    &Type::Object(&[
        text("role", "`user`, `assistant` or `system`"),
        member("content", Type::Any, "text of the message"),
    ]),
    "the conversation; its last question is answered",
);

/// Answer to the removal of several objects: true, or what could not be removed.
pub const REMOVED: Type = Type::Either(&[
    Type::Flag,
    Type::Object(&[
        whole("success_count", "number removed"),
        list("errors", &Type::Text, "what was not removed").optional(),
    ]),
]);

/// An answer in the format of OpenAI's chat completions.
pub static CHAT_COMPLETION: Shape = Shape {
    name: "ChatCompletion",
    summary: "an answer in the OpenAI chat completions format",
    members: &[
        text("id", "for an agent, the session for further questions"),
        text("object", "`chat.completion`"),
        whole("created", "start time in seconds since 1970"),
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
                member(
                    "completion_tokens_details",
                    Type::Object(&[
                        whole("reasoning_tokens", ""),
                        whole("accepted_prediction_tokens", "always 0"),
                        whole("rejected_prediction_tokens", "always 0"),
                    ]),
                    "",
                ),
            ]),
            "tokens used",
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
        member("weft", Type::Any, "data without a place in that format, such as a waiting form").optional(),
    ],
};
