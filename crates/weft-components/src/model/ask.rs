//! One call of a model: collects its answer and hands it on while it is being written.

use futures::StreamExt as _;
use weft_core::context::Signal;
use weft_core::seam::chat_model::{ChatDelta, ChatModel, ChatRequest, StopReason};
use weft_core::stream::TextWriter;
use weft_core::{Error, ErrorKind, NodeContext, Piece, Result};

/// Bytes of one answer, at most.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Asks the model and waits for the whole answer, without its reasoning. Pieces go to `writer` as
/// they come.
///
/// # Errors
/// What the model fails with; `Garbled` for an empty answer or one without an end, `Filtered` when
/// the provider held it back.
pub async fn ask(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    request: ChatRequest,
    writer: Option<&TextWriter>,
) -> Result<String> {
    let mut deltas = model.chat(request).await?;
    let mut answer = String::new();
    let push = |piece| {
        if let Some(writer) = writer {
            writer.push(piece);
        }
    };
    let reason = loop {
        match deltas.next().await.transpose()? {
            Some(ChatDelta::Text(text)) => {
                answer.push_str(&text);
                push(Piece::Text(text.into()));
            }
            Some(ChatDelta::Thinking(text)) => push(Piece::Thinking(text.into())),
            // Nothing was offered, so a call is a model's slip; the text around it counts.
            Some(ChatDelta::ToolCall { .. }) => {}
            Some(ChatDelta::Warning(message)) => ctx.signal(Signal::Warn(message)).await?,
            Some(ChatDelta::End { reason, usage }) => {
                ctx.signal(Signal::Used(usage)).await?;
                break reason;
            }
            None => return Err(Error::new(ErrorKind::Garbled, "the model's answer stopped without an end")),
        }
        if answer.len() > ANSWER_MAX {
            return Err(Error::new(
                ErrorKind::Garbled,
                format!("the model's answer is longer than {ANSWER_MAX} bytes"),
            ));
        }
    };
    match reason {
        StopReason::Filtered => {
            Err(Error::new(ErrorKind::Filtered, "the model's provider filtered the answer")
                .help("put the question differently"))
        }
        StopReason::Length if !answer.trim().is_empty() => {
            let message = "the answer is incomplete: the model reached its limit of tokens".to_owned();
            ctx.signal(Signal::Warn(message)).await?;
            Ok(answer)
        }
        StopReason::Length => {
            Err(Error::new(ErrorKind::Garbled, "the model reached its limit of tokens before it answered")
                .help("raise `max_tokens`, or ask for less reasoning"))
        }
        _ if answer.trim().is_empty() => Err(Error::new(ErrorKind::Garbled, "the model's answer is empty")
            .help("try again, or try another model")),
        _ => Ok(answer),
    }
}
