//! One model call: collects the answer and passes it on while it is being written.

mod lost;

use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use weft_core::budget::Limit;
use weft_core::context::{Limited, Signal};
use weft_core::effect::Delivery;
use weft_core::seam::chat_model::{
    Audience, Author, ChatDelta, ChatMessage, ChatModel, ChatRequest, ModelInfo, StopReason, ToolCall, Usage,
};
use weft_core::usage::UsedModel;
use weft_core::value::shortened;
use weft_core::{Error, ErrorKind, Json, NodeContext, Piece, Result};

use self::lost::{AccountedAnswer, LostAnswer, PaidPart, QuestionSize};
use crate::structured::Schema;
use crate::window::tokens;

/// Maximum number of bytes of one answer, including its reasoning and its calls.
// A provider that never ends its answer must not use up the memory of all other runs.
const ANSWER_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of calls in one answer. Further calls are dropped, and the model is told so.
// Some models fall into a loop and write the same call until they reach their token limit.
pub const CALLS_MAX: usize = 64;
/// Maximum number of characters of a tool's name in an error.
const NAME_CHARS_MAX: usize = 80;

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Normally.
    #[default]
    Whole,
    /// Its token limit was reached, so the end of the text or of the last call may be missing.
    CutOff,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Its text, without the reasoning.
    pub text: String,
    /// Its reasoning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// The provider's seal on the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The calls it asks for, assembled from their pieces, with whatever ids the model gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// How many calls there were beyond [`CALLS_MAX`].
    #[serde(default)]
    pub calls_left_out: usize,
    /// How it ended.
    pub ending: Ending,
}

/// An answer as it is recorded with the run.
#[derive(Debug, Serialize, Deserialize)]
struct Answered {
    #[serde(flatten)]
    reply: Reply,
    /// The model that answered instead of the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<ModelInfo>,
    end: End,
    /// What is charged besides `end`: the answers that broke off before this one, or instead of one, and what came of
    /// it before each pause. Absent in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost: Vec<LostAnswer>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The model finished its answer.
    Whole { reason: StopReason, usage: Usage },
    /// It failed after a part of its answer had arrived.
    Broken { kind: ErrorKind, message: String },
}

/// What a call leaves besides its recorded result.
#[derive(Default)]
struct Aside {
    /// The error of an answer that is recorded as broken.
    failure: Option<Error>,
    /// The limit that an answer reached which was about to start over or to continue after a pause.
    limit: Option<Limit>,
}

/// Asks the model and waits for the whole answer. Pieces go to `show` as they arrive; when the request has no
/// audience, `show` gets the whole text at the end. The call counts towards the budget of `ctx`, and so does its
/// usage, at the prices of the model that answered. Of an answer that breaks off after a part of it has arrived, the
/// usage is estimated and counts, too, whether it starts over, fails or is stopped. An answer does not start over, and
/// one that its provider has paused does not continue, when that has used up the budget.
///
/// An answer that was recorded before a crash is not requested again: its text is shown in one piece, and it counts
/// towards the budget as it did then. The run has already been notified of its usage.
///
/// # Errors
/// The model's errors; `Garbled` for an answer without an end or one that is too long, `Filtered` when the provider
/// withheld it, `QuotaExceeded` when the budget is used up.
pub async fn ask(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    mut request: ChatRequest,
    show: &mut (dyn FnMut(Piece) + Send),
) -> Result<Reply> {
    // Before the fingerprint is taken and before anything is sent or stored: from here on the request contains no
    // secret.
    ctx.run.masks.request(&mut request);
    // Reserved before the call begins, so that two agents working in parallel cannot both take the last one.
    if let Err(limit) = ctx.budget.take_model_call() {
        return Err(out_of(ctx, limit).await);
    }
    // Our own time limit is outside the recorded effect: reaching it is not an answer of the model.
    let mut aside = Aside::default();
    let question = ctx.effects.question("model", &request);
    let unheard = request.audience == Audience::Nobody;
    // Boxed: otherwise each enclosing future would reserve room for this one, for as long as the answer takes.
    let call = Box::pin(answered(ctx, model, request, &mut *show, &mut aside));
    let asking = ctx.effect_asking("model", Delivery::Idempotent, question, call);
    let answered = match ctx.budget.time_left() {
        // No limit of time: no timer either.
        None => asking.await,
        Some(left) => match tokio::time::timeout(left, asking).await {
            Ok(answered) => answered,
            Err(_) => return Err(out_of(ctx, Limit::Seconds).await),
        },
    };
    let (answer, made_now) = match (answered, aside.limit) {
        (Ok(answered), _) => answered,
        (Err(_), Some(limit)) => return Err(out_of(ctx, limit).await),
        (Err(error), None) => return Err(error),
    };
    // A call made just now recorded its usage when each answer ended, so that it counts even when a later step fails.
    if !made_now {
        charge_again(ctx, model.info(), &answer).await?;
    }
    let Answered { reply, end, .. } = answer;
    if (unheard || !made_now) && !reply.text.is_empty() {
        // Whoever did the work before showed it in a text that is gone; this one starts empty and needs all of it.
        show(Piece::Text(reply.text.as_str().into()));
    }
    let reason = match end {
        End::Whole { reason, .. } => reason,
        End::Broken { kind, message } => {
            return Err(aside.failure.unwrap_or_else(|| Error::new(kind, message)));
        }
    };
    if reason == StopReason::Filtered {
        return Err(Error::new(ErrorKind::Filtered, "the model's provider filtered the answer")
            .help("rephrase the question"));
    }
    Ok(reply)
}

/// Charges what a recorded answer used at the time, and the answers that broke off before it.
async fn charge_again(ctx: &NodeContext, model: &ModelInfo, answered: &Answered) -> Result<()> {
    let whole = match &answered.end {
        End::Whole { usage, .. } => Some((&answered.by, *usage)),
        End::Broken { .. } => None,
    };
    for (by, usage) in answered.lost.iter().map(|lost| (&lost.by, lost.usage)).chain(whole) {
        let used = used(ctx, by.as_ref().unwrap_or(model), usage);
        if ctx.effects.are_recorded() {
            // The notification at the time of the recording went to another run.
            ctx.signal(Signal::Used(Box::new(used))).await?;
        }
    }
    Ok(())
}

/// Charges the usage of a call to the budgets.
fn used(ctx: &NodeContext, model: &ModelInfo, usage: Usage) -> UsedModel {
    let micros = ctx.budget.used(usage, model.prices);
    UsedModel { model: model.name.as_str().into(), usage, micros }
}

/// The error of work that a budget has ended; the run is notified as well.
pub async fn out_of(ctx: &NodeContext, limit: Limit) -> Error {
    // If the run is no longer listening, it has ended, and this work is about to end too.
    let _ = ctx.signal(Signal::Limited(Limited::Budget(limit))).await;
    ctx.budget.error(limit)
}

/// Makes the call. A failure after part of the answer arrived counts as an answer as well, because it was paid for; the
/// error itself goes to `aside`.
async fn answered(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    request: ChatRequest,
    show: &mut (dyn FnMut(Piece) + Send),
    aside: &mut Aside,
) -> Result<Answered> {
    let unheard = request.audience == Audience::Nobody;
    let mut nobody = |_: Piece| {};
    // Without an audience nothing is shown, so an answer that breaks off can be requested again unnoticed.
    let show = if unheard { &mut nobody } else { show };
    let (question, coming) = (QuestionSize::of(&request), Coming::default());
    let mut answer = AccountedAnswer { ctx, model: model.info(), question, coming };
    let error = match answer.collect(model, request, show, &mut aside.limit).await {
        Ok((reason, usage)) => {
            let Coming { reply, by, lost, .. } = std::mem::take(&mut answer.coming);
            // Also for a filtered answer: it was produced and paid for, and replaying the work must have the same
            // result.
            return Ok(Answered { reply, by, end: End::Whole { reason, usage }, lost });
        }
        Err(error) => error,
    };
    answer.broken().await?;
    let Coming { reply, by, lost, .. } = std::mem::take(&mut answer.coming);
    // What nobody has seen is not shown by replayed work either.
    let text = if unheard { String::new() } else { reply.text };
    // An answer that was stopped is not recorded: replayed work may ask again. A failure without any part of an answer
    // has used nothing.
    if error.kind == ErrorKind::Cancelled || (text.is_empty() && lost.is_empty()) {
        return Err(error);
    }
    let end = End::Broken { kind: error.kind, message: error.full() };
    aside.failure = Some(error);
    // Without its calls: half a call must never be made when the work is replayed.
    let reply = Reply { text, ..Reply::default() };
    Ok(Answered { reply, by, end, lost })
}

impl AccountedAnswer<'_> {
    /// Receives the answer. `limit` is set when it would start over or continue after a pause, and what it has used
    /// leaves nothing for that.
    async fn collect(
        &mut self,
        model: &dyn ChatModel,
        request: ChatRequest,
        show: &mut (dyn FnMut(Piece) + Send),
        limit: &mut Option<Limit>,
    ) -> Result<(StopReason, Usage)> {
        let mut deltas = model.chat(request).await?;
        let (reason, usage) = loop {
            match deltas.next().await.transpose()? {
                Some(ChatDelta::Warning(message)) => self.ctx.signal(Signal::Warn(message)).await?,
                Some(ChatDelta::End { reason, usage }) => break (reason, self.ended(usage).await?),
                Some(ChatDelta::Restarted) => {
                    self.broken().await?;
                    self.coming.restart();
                    self.may_go_on(limit)?;
                }
                Some(ChatDelta::Paused { usage }) => {
                    self.paused(usage).await?;
                    self.may_go_on(limit)?;
                }
                Some(ChatDelta::AnsweredBy(info)) => {
                    warn_of_prices(self.ctx, &info).await?;
                    self.coming.by = Some((*info).clone());
                }
                Some(delta) => self.coming.take(delta, show),
                None => {
                    return Err(Error::new(ErrorKind::Garbled, "the model's answer ended prematurely"));
                }
            }
            if self.coming.size + self.coming.paid.bytes > ANSWER_MAX {
                let message = format!("the model's answer is longer than {ANSWER_MAX} bytes");
                return Err(Error::new(ErrorKind::Garbled, message));
            }
        };
        let coming = &mut self.coming;
        coming.reply.ending = if reason == StopReason::Length { Ending::CutOff } else { Ending::Whole };
        (coming.reply.calls, coming.reply.calls_left_out) = std::mem::take(&mut coming.calls).finish();
        Ok((reason, usage))
    }
}

/// An answer that is still arriving.
#[derive(Default)]
struct Coming {
    reply: Reply,
    calls: Calls,
    /// The number of bytes of it that have not been charged yet.
    size: usize,
    by: Option<ModelInfo>,
    /// What came before the last pause, and has been charged.
    paid: PaidPart,
    /// The answers before it that broke off, and its own parts before a pause.
    lost: Vec<LostAnswer>,
}

impl Coming {
    /// Begins another answer. The reader has taken back the pieces so far; which model answers is kept, because its
    /// prices apply.
    fn restart(&mut self) {
        *self = Self { by: self.by.take(), lost: std::mem::take(&mut self.lost), ..Self::default() };
    }

    /// The number of tokens that have arrived, estimated.
    fn tokens(&self) -> usize {
        let calls = self.calls.so_far().map(|(_, call)| tokens(&call.name) + tokens(&call.arguments));
        tokens(&self.reply.text) + tokens(&self.reply.thinking) + calls.sum::<usize>()
    }

    fn take(&mut self, delta: ChatDelta, show: &mut (dyn FnMut(Piece) + Send)) {
        match delta {
            ChatDelta::Text(text) => {
                self.size += text.len();
                self.reply.text.push_str(&text);
                show(Piece::Text(text.into()));
            }
            ChatDelta::Thinking(text) => {
                self.size += text.len();
                self.reply.thinking.push_str(&text);
                show(Piece::Thinking(text.into()));
            }
            ChatDelta::Signature(seal) => {
                self.size += seal.len();
                self.reply.signature.get_or_insert_default().push_str(&seal);
            }
            ChatDelta::ToolCall { index, id, name, arguments } => {
                let length = |part: &Option<String>| part.as_ref().map_or(0, String::len);
                // Even an empty piece takes some room.
                self.size += arguments.len() + length(&id) + length(&name) + size_of::<usize>();
                self.calls.add(index, id, name, &arguments);
            }
            // They are sent to the run, which has to be awaited.
            ChatDelta::Warning(_)
            | ChatDelta::AnsweredBy(_)
            | ChatDelta::Restarted
            | ChatDelta::Paused { .. }
            | ChatDelta::End { .. } => {}
        }
    }
}

/// Asks the model for a value that matches this schema, without showing the answer. An answer that does not match is
/// sent back with the reason, up to `repairs_left` times.
///
/// # Errors
/// Those of [`ask_text`]; `Garbled` when no answer matches the schema.
pub async fn ask_structured(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    mut request: ChatRequest,
    schema: &Schema,
    mut repairs_left: u32,
) -> Result<Json> {
    loop {
        let answer = ask_text(ctx, model, request.clone(), &mut |_| {}).await?;
        let problem = match schema.check(&answer) {
            Ok(value) => return Ok(value),
            Err(problem) => problem,
        };
        if repairs_left == 0 {
            return Err(Schema::given_up(problem));
        }
        // The model sees its own answer and what is wrong with it: without that, it would often repeat the answer.
        repairs_left -= 1;
        request.messages.push(ChatMessage::new(Author::Assistant, answer));
        request.messages.push(ChatMessage::new(Author::User, Schema::complaint(&problem)));
    }
}

/// Asks for text only.
///
/// # Errors
/// As for [`ask`]; also `Garbled` for an empty answer.
pub async fn ask_text(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    request: ChatRequest,
    show: &mut (dyn FnMut(Piece) + Send),
) -> Result<String> {
    // No tools were offered, so a call is a mistake of the model; the text around it counts.
    let reply = ask(ctx, model, request, show).await?;
    if reply.text.trim().is_empty() {
        return Err(empty_answer(reply.ending, &reply.calls));
    }
    if reply.ending == Ending::CutOff {
        warn_of_cut(ctx).await?;
    }
    Ok(reply.text)
}

/// Warns the run that an answer was cut off.
///
/// # Errors
/// `Cancelled` when the run is no longer listening.
pub async fn warn_of_cut(ctx: &NodeContext) -> Result<()> {
    let message = "the answer is incomplete: the model reached its token limit".to_owned();
    ctx.signal(Signal::Warn(message)).await
}

/// Warns the run when a limit on money cannot be enforced, because this model has no prices.
///
/// # Errors
/// `Cancelled` when the run is no longer listening.
pub async fn warn_of_prices(ctx: &NodeContext, model: &ModelInfo) -> Result<()> {
    if model.prices.is_some() || !ctx.budget.limits_money() {
        return Ok(());
    }
    let message = format!(
        "the money budget does not count the model `{}`: it has no prices (set them at its entry in `models`)",
        model.name
    );
    ctx.signal(Signal::Warn(message)).await
}

/// The error of an answer without text. `unasked` are the calls it contains instead, although no tool was offered.
pub fn empty_answer(ending: Ending, unasked: &[ToolCall]) -> Error {
    let (message, help) = match (ending, unasked.first()) {
        (Ending::CutOff, _) => (
            "the model reached its token limit before it answered".to_owned(),
            "raise `max_tokens`, or ask for less reasoning",
        ),
        (Ending::Whole, None) => {
            ("the model's answer is empty".to_owned(), "try again, or try another model")
        }
        (Ending::Whole, Some(call)) => (
            // The name is whatever the model wrote and may be long.
            format!(
                "the model calls the tool `{}` instead of answering, but no tool is offered",
                shortened(&call.name, NAME_CHARS_MAX)
            ),
            "remove mentions of tools from the prompts, use an agent that has tools, or try another model",
        ),
    };
    Error::new(ErrorKind::Garbled, message).help(help).for_nothing()
}

/// Collects calls that arrive in pieces, identified by their index, in any order.
#[derive(Default)]
pub(crate) struct Calls {
    by_index: Vec<(usize, ToolCall)>,
    left_out: std::collections::BTreeSet<usize>,
}

impl Calls {
    pub(crate) fn add(&mut self, index: usize, id: Option<String>, name: Option<String>, arguments: &str) {
        let known = self.by_index.iter().position(|(known, _)| *known == index);
        let at = match known {
            Some(at) => at,
            None if self.by_index.len() >= CALLS_MAX => {
                // Bounded by the size limit of the whole answer.
                self.left_out.insert(index);
                return;
            }
            None => {
                let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
                self.by_index.push((index, call));
                self.by_index.len() - 1
            }
        };
        let Some((_, call)) = self.by_index.get_mut(at) else { return };
        // Some providers repeat both the id and the name in every piece.
        if let Some(id) = id.filter(|_| call.id.is_empty()) {
            call.id = id;
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            call.name = name;
        }
        call.arguments.push_str(arguments);
    }

    /// The calls received so far, with their indices, in the order in which they began.
    pub(crate) fn so_far(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        self.by_index.iter().map(|(index, call)| (*index, call))
    }

    /// The calls ordered by index, and how many were dropped.
    fn finish(mut self) -> (Vec<ToolCall>, usize) {
        // Providers send the pieces of several calls interleaved; the index is the model's own order.
        self.by_index.sort_by_key(|(index, _)| *index);
        (self.by_index.into_iter().map(|(_, call)| call).collect(), self.left_out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_deltas_are_assembled_by_index() {
        let mut calls = Calls::default();
        let id = |id: &str| Some(id.to_owned());
        calls.add(1, id("b"), id("two"), "{\"y\":");
        calls.add(0, id("a"), id("one"), "");
        calls.add(0, None, None, "{\"x\": \"\\u6c");
        calls.add(1, id("b"), id("two"), " 2}");
        calls.add(0, None, None, "49\"}");
        calls.add(2, id("a"), id("three"), "");
        calls.add(3, None, id("four"), "{}");
        let (calls, left_out) = calls.finish();
        let told: Vec<_> = calls.iter().map(|c| (&*c.id, &*c.name, &*c.arguments)).collect();
        assert_eq!(
            told,
            [
                ("a", "one", "{\"x\": \"\\u6c49\"}"),
                ("b", "two", "{\"y\": 2}"),
                ("a", "three", ""),
                ("", "four", "{}"),
            ]
        );
        assert_eq!(left_out, 0);
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let mut calls = Calls::default();
        (0..1_000).for_each(|index| calls.add(index, None, Some("x".to_owned()), "{}"));
        let (calls, left_out) = calls.finish();
        assert_eq!((calls.len(), left_out), (CALLS_MAX, 1_000 - CALLS_MAX));
    }
}
