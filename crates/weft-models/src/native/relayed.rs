//! How genai reaches a server: through a relay with limits, because it keeps whatever a server sends.

use genai::Client;
use weft_core::{Error, Result};
use weft_net::{AnswerLimits, AnswerRelay, ExchangeFailure};

use super::asking::Asking;
use crate::failure;
use crate::sse::{ANSWER_BYTES_MAX, EVENT_BYTES_MAX};

/// How much of an error response is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// genai, with the only way it has to a server.
pub(super) struct RelayedClient {
    pub(super) relay: AnswerRelay,
    pub(super) client: Client,
}

impl RelayedClient {
    /// # Errors
    /// `Internal` when the relay or genai cannot be set up.
    pub(super) fn open(outside: reqwest::Client) -> Result<Self> {
        let limits =
            AnswerLimits { whole: ANSWER_BYTES_MAX, event: EVENT_BYTES_MAX, refusal: REFUSAL_BYTES_MAX };
        let relay = AnswerRelay::open(outside, limits)?;
        let client = Client::builder()
            .with_reqwest(relay.client().clone())
            .build()
            .map_err(|cause| Error::internal("cannot set up the model client").because(cause.to_string()))?;
        Ok(Self { relay, client })
    }
}

/// What it means that an exchange has no complete answer.
pub(super) fn failed(asking: &Asking, lost: ExchangeFailure) -> Error {
    let too_long =
        |what: &str, bytes_max: usize| failure::too_long(&asking.model, &asking.address, what, bytes_max);
    match lost {
        ExchangeFailure::Lost(cause) => failure::no_answer(&asking.model, cause, &asking.key),
        ExchangeFailure::AnswerTooLong(max) => too_long("an answer", max),
        ExchangeFailure::EventTooLong(max) => too_long("an event", max),
    }
}
