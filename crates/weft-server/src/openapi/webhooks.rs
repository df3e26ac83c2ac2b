//! Webhooks: calls of other programs.

use super::shape::{Type, flag, list, member, text};
use super::{Answer, Operation};

/// `/api/v1/agents/{id}/webhook`.
pub static CALL: Operation =
    Operation::open("Begins a run of an agent in the way that its Begin says.").answer(Answer::File);
/// `/api/v1/agents/{id}/webhook/test`.
pub static TEST: Operation =
    Operation::edits("Tries out a webhook as its owner, whose token stands for what it asks of others.")
        .answer(Answer::File);
/// `GET /api/v1/agents/{id}/webhook/logs`.
pub static LOGS: Operation = Operation::edits("Shows what became of a webhook that is tried out.")
    .query(&[
        member("since_ts", Type::Number, "after which time, in seconds since 1970").optional(),
        text("webhook_id", "which call").optional(),
    ])
    .data(Type::Object(&[
        text("webhook_id", "the call that is found").nullable(),
        list("events", &Type::Any, "its events"),
        member("next_since_ts", Type::Number, "from where to ask on"),
        flag("finished", "whether it has no more"),
    ]));
