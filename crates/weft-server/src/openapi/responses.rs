//! Agents behind OpenAI's Responses API.

use super::agents::STREAM;
use super::shape::{Member, Shape, Type, flag, list, member, text, whole};
use super::{Answer, Operation};

static RESPONSE: Shape = Shape {
    name: "Response",
    summary: "an answer in the shape of OpenAI's Responses API",
    members: &[
        text("id", "its id, to go on from"),
        text("object", "`response`"),
        whole("created_at", "when it began, in seconds since 1970"),
        whole("completed_at", "when it ended").nullable(),
        member(
            "status",
            Type::OneOf(&["in_progress", "completed", "incomplete", "failed", "cancelled"]),
            "how far it has come",
        ),
        member("error", Type::Object(&[text("code", ""), text("message", "")]), "why it failed").nullable(),
        member(
            "incomplete_details",
            Type::Object(&[text("reason", ""), text("limit", "the limit that was reached")]),
            "why it lacks its end",
        )
        .nullable(),
        text("model", "the agent"),
        member("conversation", Type::Object(&[text("id", "")]), "the session"),
        list("output", &Type::Any, "messages, reasoning, calls of tools, and what people are asked"),
        member(
            "usage",
            Type::Object(&[
                whole("input_tokens", ""),
                member(
                    "input_tokens_details",
                    Type::Object(&[whole("cached_tokens", ""), whole("cache_write_tokens", "")]),
                    "",
                ),
                whole("output_tokens", ""),
                member("output_tokens_details", Type::Object(&[whole("reasoning_tokens", "")]), ""),
                whole("total_tokens", ""),
            ]),
            "tokens that were used; null until it is over",
        )
        .nullable(),
        text("previous_response_id", "the response that it goes on from").nullable(),
        text("instructions", "what was said beside the question").nullable(),
        member("metadata", Type::Map(&Type::Text), "what the client has noted"),
        flag("store", "whether it may be asked for later"),
        flag("background", "whether nobody waits for it"),
    ],
};

const BODY: [Member; 12] = [
    text(
        "model",
        "the agent: its id, or its id, `@` and a version; that of `previous_response_id` when absent",
    )
    .optional(),
    member("input", Type::Either(&[Type::Text, Type::List(&Type::Any)]), "the question, or items"),
    text("instructions", "for a canvas whose Begin has an input of this name").optional().nullable(),
    STREAM,
    text("previous_response_id", "the response to go on from").optional().nullable(),
    member(
        "conversation",
        Type::Either(&[Type::Text, Type::Object(&[text("id", "")])]),
        "the session; one that nobody knows begins",
    )
    .optional()
    .nullable(),
    flag("store", "whether it may be asked for later; true when absent").optional().nullable(),
    flag("background", "answers at once, and goes on").optional().nullable(),
    member("metadata", Type::Map(&Type::Text), "what the client notes for itself").optional().nullable(),
    text("safety_identifier", "who asks; also read as `user`").optional().nullable(),
    member("inputs", Type::Map(&Type::Any), "values for the form of the canvas").optional().nullable(),
    text("version", "the version of the agent that is to answer").optional().nullable(),
];

/// `POST /v1/responses`.
pub static CREATE: Operation = Operation::runs("Asks an agent in the shape of OpenAI's Responses API.")
    .body(&BODY)
    .answer(Answer::EventsOrWhole(Type::Of(&RESPONSE)));
/// `GET /v1/responses/{id}`.
pub static GET: Operation = Operation::reads("Shows a response, or its events.")
    .query(&[
        flag("stream", "its events").optional(),
        whole("starting_after", "only those after the event of this number").optional(),
    ])
    .answer(Answer::EventsOrWhole(Type::Of(&RESPONSE)));
/// `DELETE /v1/responses/{id}`.
pub static DELETE: Operation = Operation::runs(
    "Removes a response, and what it has left in its conversation.",
)
.answer(Answer::Whole(Type::Object(&[text("id", ""), text("object", "`response`"), flag("deleted", "")])));
/// `POST /v1/responses/{id}/cancel`.
pub static CANCEL: Operation =
    Operation::runs("Stops a response that is under way.").answer(Answer::Whole(Type::Of(&RESPONSE)));
/// `GET /v1/responses/{id}/input_items`.
pub static INPUT_ITEMS: Operation = Operation::reads("Lists the items that a response answers.")
    .query(&[
        whole("limit", "how many, 20 when absent").optional(),
        member("order", Type::OneOf(&["asc", "desc"]), "`desc` when absent").optional(),
        text("after", "only those after the item with this id").optional(),
    ])
    .answer(Answer::Whole(Type::Object(&[
        text("object", "`list`"),
        list("data", &Type::Any, "the items"),
        text("first_id", "").nullable(),
        text("last_id", "").nullable(),
        flag("has_more", ""),
    ])));
