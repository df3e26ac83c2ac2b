//! Webhooks: calls of other programs.

use super::shape::{Type, flag, list, member, text};
use super::{Answer, Operation};

/// `/api/v1/agents/{id}/webhook`.
pub static CALL: Operation =
    Operation::open("Starts a run of an agent as configured in its Begin.").answer(Answer::File);
/// `/api/v1/agents/{id}/webhook/test`.
pub static TEST: Operation = Operation::edits(
    "Tests a webhook as its owner, whose token replaces the authentication required of others.",
)
.answer(Answer::File);
/// `GET /api/v1/agents/{id}/webhook/logs`.
pub static LOGS: Operation = Operation::edits("Shows the results of webhook tests.")
    .query(&[
        member("since_ts", Type::Number, "only events after this time, in seconds since 1970").optional(),
        text("webhook_id", "id of the call").optional(),
    ])
    .data(Type::Object(&[
        text("webhook_id", "the call found").nullable(),
        list("events", &Type::Any, "its events"),
        member("next_since_ts", Type::Number, "`since_ts` for the next request"),
        flag("finished", "whether there are no more events"),
    ]));
