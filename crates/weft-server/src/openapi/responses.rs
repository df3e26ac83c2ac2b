//! Agents behind OpenAI's Responses API.

use super::common::STREAM;
use super::shape::{Member, Shape, Type, flag, list, member, text, whole};
use super::{Answer, Operation};

static RESPONSE: Shape = Shape {
    name: "Response",
    summary: "an answer in the format of the OpenAI Responses API",
    members: &[
        text("id", "id, for continuing from it"),
        text("object", "`response`"),
        whole("created_at", "start time in seconds since 1970"),
        whole("completed_at", "end time").nullable(),
        member(
            "status",
            Type::OneOf(&["in_progress", "completed", "incomplete", "failed", "cancelled"]),
            "status",
        ),
        member("error", Type::Object(&[text("code", ""), text("message", "")]), "reason for the failure")
            .nullable(),
        member(
            "incomplete_details",
            Type::Object(&[text("reason", ""), text("limit", "the limit that was reached")]),
            "reason for being incomplete",
        )
        .nullable(),
        text("model", "the agent"),
        member("conversation", Type::Object(&[text("id", "")]), "the session"),
        list("output", &Type::Any, "messages, reasoning, tool calls, and questions to people"),
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
            "tokens used; null until it is finished",
        )
        .nullable(),
        text("previous_response_id", "the response that it continues").nullable(),
        text("instructions", "additional instructions").nullable(),
        member("metadata", Type::Map(&Type::Text), "metadata set by the client"),
        flag("store", "whether it can be retrieved later"),
        flag("background", "whether it runs in the background"),
    ],
};

const BODY: [Member; 12] = [
    text("model", "the agent: its id, or its id, `@` and a version; default: that of `previous_response_id`")
        .optional(),
    member("input", Type::Either(&[Type::Text, Type::List(&Type::Any)]), "the question, or a list of items"),
    text("instructions", "used by a canvas whose Begin has an input of this name").optional().nullable(),
    STREAM,
    text("previous_response_id", "the response to continue").optional().nullable(),
    member(
        "conversation",
        Type::Either(&[Type::Text, Type::Object(&[text("id", "")])]),
        "the session; an unknown id starts a new one",
    )
    .optional()
    .nullable(),
    flag("store", "whether it can be retrieved later; default: true").optional().nullable(),
    flag("background", "respond at once and continue in the background").optional().nullable(),
    member("metadata", Type::Map(&Type::Text), "metadata for the client's own use").optional().nullable(),
    text("safety_identifier", "id of the user; also accepted as `user`").optional().nullable(),
    member("inputs", Type::Map(&Type::Any), "values of the form fields of the canvas").optional().nullable(),
    text("version", "version of the agent to use").optional().nullable(),
];

/// `POST /v1/responses`.
pub static CREATE: Operation = Operation::runs("Asks an agent using the format of the OpenAI Responses API.")
    .body(&BODY)
    .answer(Answer::EventsOrWhole(Type::Of(&RESPONSE)));
/// `GET /v1/responses/{id}`.
pub static GET: Operation = Operation::reads("Shows a response, or its events.")
    .query(&[
        flag("stream", "its events").optional(),
        whole("starting_after", "only those after the event with this number").optional(),
    ])
    .answer(Answer::EventsOrWhole(Type::Of(&RESPONSE)));
/// `DELETE /v1/responses/{id}`.
pub static DELETE: Operation =
    Operation::runs("Removes a response and its messages in the conversation.").answer(Answer::Whole(
        Type::Object(&[text("id", ""), text("object", "`response`"), flag("deleted", "")]),
    ));
/// `POST /v1/responses/{id}/cancel`.
pub static CANCEL: Operation =
    Operation::runs("Cancels a response in progress.").answer(Answer::Whole(Type::Of(&RESPONSE)));
/// `GET /v1/responses/{id}/input_items`.
pub static INPUT_ITEMS: Operation = Operation::reads("Lists the input items of a response.")
    .query(&[
        whole("limit", "maximum number; default: 20").optional(),
        member("order", Type::OneOf(&["asc", "desc"]), "default: `desc`").optional(),
        text("after", "only those after the item with this id").optional(),
    ])
    .answer(Answer::Whole(Type::Object(&[
        text("object", "`list`"),
        list("data", &Type::Any, "the items"),
        text("first_id", "").nullable(),
        text("last_id", "").nullable(),
        flag("has_more", ""),
    ])));
