//! Steering: a question that arrives while an agent is at work. The agent takes it before its next request to the
//! model, and the answer of its run is the answer to both.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::inbox::SentMessage;
use weft_core::{Result, SessionKey, TurnInput};
use weft_engine::RunHandle;
use weft_engine::engine::LeftMessage;

use crate::app::App;
use crate::multitask::MultitaskStrategy;
use crate::turns::{Waiting, in_seconds, too_long, wait_for};

impl App {
    /// Passes a question to the agent that is at work in its session, if its strategy allows that, and waits until it
    /// was taken, in whichever process that is. `None` if no agent takes it, because the session is free or its run
    /// ends first, or if the question is more than a text. It is then a turn of its own.
    ///
    /// # Errors
    /// `Conflict` when too many wait for the run, or it has waited too long; `Unavailable` when the server stops
    /// meanwhile; the error of the store.
    pub(crate) async fn steer(
        &self,
        session: &SessionKey,
        input: &TurnInput,
        waiting: &Waiting,
    ) -> Result<Option<RunHandle>> {
        if waiting.strategy != MultitaskStrategy::Steer || !is_words_alone(input) {
            return Ok(None);
        }
        let seconds = self.limits.sessions.wait_seconds;
        let until = in_seconds(seconds);
        let (run, taken) = match self.engine.send(session, &input.query)? {
            Some((run, mut sent)) => (run, heard_of_here(&mut sent, until, waiting).await?),
            None => match self.engine.leave_message(session, &input.query).await? {
                Some(left) => {
                    let taken = heard_of(&left, until, waiting).await?;
                    (left.run.clone(), taken)
                }
                None => return Ok(None),
            },
        };
        match taken {
            Some(true) => {
                let entries = self.engine.events(&run, 0).await?;
                // Of no effect: the run belongs to the question that started it.
                Ok(Some(RunHandle { key: run, entries, cancel: CancellationToken::new() }))
            }
            Some(false) => Ok(None),
            None => Err(too_long(session, seconds)),
        }
    }
}

/// Returns whether an agent of this process has taken a message; `None` when the deadline has passed.
async fn heard_of_here(sent: &mut SentMessage, until: Instant, waiting: &Waiting) -> Result<Option<bool>> {
    let stopping = match wait_for(sent.taken(), until, &waiting.stopping).await {
        Ok(Some(taken)) => return Ok(Some(taken)),
        Ok(None) => None,
        Err(stopping) => Some(stopping),
    };
    if !sent.take_back() {
        // An agent is just reading it: whoever sent it is told its fate as soon as that is stored.
        return Ok(Some(sent.taken().await));
    }
    stopping.map_or(Ok(None), Err)
}

/// Returns whether an agent of another process has taken a message; `None` when the deadline has passed. A message
/// that is no longer waited for is withdrawn.
async fn heard_of(left: &LeftMessage, until: Instant, waiting: &Waiting) -> Result<Option<bool>> {
    match wait_for(left.taken(), until, &waiting.stopping).await {
        Ok(Some(taken)) => Ok(Some(taken?)),
        // If it no longer exists, it was taken at the last moment.
        Ok(None) => Ok((!left.take_back().await?).then_some(true)),
        Err(stopping) if left.take_back().await? => Err(stopping),
        Err(_) => Ok(Some(true)),
    }
}

/// Returns whether a question only consists of text: anything else it may have belongs to the start of a turn.
fn is_words_alone(input: &TurnInput) -> bool {
    let TurnInput {
        query,
        user_id: _,
        files,
        inputs,
        pins,
        parallel_messages: _,
        background: _,
        all_sources: _,
        notes: _,
        webhook,
    } = input;
    !query.trim().is_empty() && files.is_empty() && inputs.is_empty() && pins.is_empty() && webhook.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_text_is_steering() {
        let words = TurnInput { query: "faster".to_owned(), ..TurnInput::default() };
        assert!(is_words_alone(&words));
        assert!(!is_words_alone(&TurnInput { query: " ".to_owned(), ..words.clone() }));
        assert!(!is_words_alone(&TurnInput {
            files: vec!["data:image/png;base64,".into()],
            ..words.clone()
        }));
        let inputs = serde_json::Map::from_iter([("a".to_owned(), 1.into())]);
        assert!(!is_words_alone(&TurnInput { inputs, ..words }));
    }
}
