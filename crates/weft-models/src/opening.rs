//! Starts answers over, with the same model or another one, as long as no reader has seen a piece of them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use weft_core::seam::chat_model::{Audience, ChatDelta, ChatModel, ChatRequest, ChatStream};
use weft_core::{Error, Result};

/// An answer that is about to begin.
pub(crate) type Opening = BoxFuture<'static, Result<ChatStream>>;

/// Waits until the first piece of an answer has arrived, and includes the warnings before it: a provider's refusal
/// may be the first item of a stream.
pub(crate) async fn opened<M: ChatModel + ?Sized>(model: &M, request: ChatRequest) -> Result<ChatStream> {
    let mut answer = model.chat(request).await?;
    let mut first = Vec::new();
    while let Some(delta) = answer.next().await {
        let delta = delta?;
        let goes_before = matches!(delta, ChatDelta::Warning(_) | ChatDelta::AnsweredBy(_));
        first.push(Ok(delta));
        if !goes_before {
            break;
        }
    }
    Ok(stream::iter(first).chain(answer).boxed())
}

/// Decides about a failure: start over, or return the failure.
pub(crate) trait Another: FnMut(Error) -> Result<Opening> + Send + Unpin + 'static {}

impl<F: FnMut(Error) -> Result<Opening> + Send + Unpin + 'static> Another for F {}

/// The answer that starts with `first`, or else with one of those returned by `another`; also after it has broken
/// off, if its pieces so far may be taken back.
///
/// # Errors
/// The failure after which `another` does not start over.
pub(crate) async fn answered(
    first: Opening,
    audience: Audience,
    mut another: impl Another,
) -> Result<ChatStream> {
    let mut opening = first;
    let answer = loop {
        match opening.await {
            Ok(answer) => break answer,
            Err(error) => opening = another(error)?,
        }
    };
    let stage = OpeningStage::Answering(answer);
    Ok(Renewable { stage, audience, spoken: false, warned: Vec::new(), another }.boxed())
}

enum OpeningStage {
    Answering(ChatStream),
    Reopening(Opening),
    Over,
}

struct Renewable<F> {
    stage: OpeningStage,
    audience: Audience,
    /// Whether some of its text or reasoning has been passed on.
    spoken: bool,
    /// Warnings that were passed on: a restarted answer repeats them.
    warned: Vec<String>,
    another: F,
}

impl<F: Another> Renewable<F> {
    /// Handles a failure; returns it when the answer does not start over.
    fn broken(&mut self, error: Error) -> Option<Error> {
        if self.spoken && self.audience.has_heard() {
            self.stage = OpeningStage::Over;
            return Some(error);
        }
        // `another` takes the failure itself.
        let told = Error::new(error.kind, error.full());
        match (self.another)(error) {
            // A reader may have started to read at this very moment.
            Ok(_) if self.spoken && !self.audience.take_back() => {
                self.stage = OpeningStage::Over;
                Some(told)
            }
            Ok(opening) => {
                self.stage = OpeningStage::Reopening(opening);
                None
            }
            Err(error) => {
                self.stage = OpeningStage::Over;
                Some(error)
            }
        }
    }

    /// Whether a piece is to be passed on.
    fn passes(&mut self, delta: &ChatDelta) -> bool {
        match delta {
            ChatDelta::Text(text) | ChatDelta::Thinking(text) => self.spoken |= !text.is_empty(),
            ChatDelta::Warning(warning) if self.warned.contains(warning) => return false,
            ChatDelta::Warning(warning) => self.warned.push(warning.clone()),
            ChatDelta::Restarted => self.spoken = false,
            ChatDelta::Signature(_)
            | ChatDelta::ToolCall { .. }
            | ChatDelta::AnsweredBy(_)
            | ChatDelta::Paused { .. }
            | ChatDelta::End { .. } => {}
        }
        true
    }
}

impl<F: Another> Stream for Renewable<F> {
    type Item = Result<ChatDelta>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let failure = match &mut self.stage {
                OpeningStage::Over => return Poll::Ready(None),
                OpeningStage::Answering(answer) => match ready!(answer.poll_next_unpin(cx)) {
                    None => return Poll::Ready(None),
                    Some(Ok(delta)) if self.passes(&delta) => return Poll::Ready(Some(Ok(delta))),
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => error,
                },
                OpeningStage::Reopening(opening) => match ready!(opening.poll_unpin(cx)) {
                    Ok(answer) => {
                        self.stage = OpeningStage::Answering(answer);
                        self.spoken = false;
                        return Poll::Ready(Some(Ok(ChatDelta::Restarted)));
                    }
                    Err(error) => error,
                },
            };
            if let Some(error) = self.broken(failure) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}
