//! Accounts for answers, including those that break off. A provider reports usage only where it ends or pauses an
//! answer, so that of an answer without an end is estimated: the question, and what had arrived.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::budget::Limit;
use weft_core::context::Signal;
use weft_core::seam::chat_model::{ChatRequest, ModelInfo, ToolSchema, Usage};
use weft_core::usage::UsedModel;
use weft_core::{Error, ErrorKind, NodeContext, Result};

use super::{Coming, used};
use crate::window;

/// The usage of an answer that broke off after a part of it had arrived, or of a part before a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LostAnswer {
    /// The model that gave it, if it was not the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<ModelInfo>,
    /// What it used, as far as it can be estimated.
    pub(super) usage: Usage,
}

/// The part of an answer that has been charged already, because its provider has paused since.
#[derive(Default)]
pub(super) struct PaidPart {
    /// What its provider reported.
    usage: Usage,
    /// Its length in bytes.
    pub(super) bytes: usize,
    /// Its length in tokens, estimated.
    tokens: usize,
}

/// The size of a question. The question itself is given away to the model.
pub(super) struct QuestionSize {
    /// Tokens of the messages and the schema.
    tokens: usize,
    /// Counted only when they are needed, because that takes longer.
    tools: Arc<[ToolSchema]>,
}

impl QuestionSize {
    pub(super) fn of(request: &ChatRequest) -> Self {
        let messages: usize = request.messages.iter().map(window::cost).sum();
        let schema = request.schema.as_ref().map_or(0, |schema| window::tokens(&schema.to_string()));
        Self { tokens: messages + schema, tools: Arc::clone(&request.tools) }
    }

    fn tokens(&self) -> usize {
        self.tokens + window::tokens_of_tools(&self.tools)
    }
}

/// An answer that is arriving, whose usage is charged however it ends. One that is dropped, because its work was
/// stopped or ran out of time, is charged then.
pub(super) struct AccountedAnswer<'a> {
    pub(super) ctx: &'a NodeContext,
    /// The requested model.
    pub(super) model: &'a ModelInfo,
    pub(super) question: QuestionSize,
    pub(super) coming: Coming,
}

impl AccountedAnswer<'_> {
    /// Charges the usage that the model reported at the end of the answer, without what was charged at its pauses.
    /// Returns what is charged.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub(super) async fn ended(&mut self, whole: Usage) -> Result<Usage> {
        let usage = rest(whole, self.coming.paid.usage);
        // From here on nothing of it is left to be charged.
        self.coming.size = 0;
        let used = used(self.ctx, self.coming.by.as_ref().unwrap_or(self.model), usage);
        self.ctx.signal(Signal::Used(Box::new(used))).await?;
        Ok(usage)
    }

    /// Charges what the answer used until its provider paused it.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub(super) async fn paused(&mut self, usage: Usage) -> Result<()> {
        let tokens = self.coming.tokens();
        let coming = &mut self.coming;
        coming.paid.usage += usage;
        coming.paid.bytes += std::mem::take(&mut coming.size);
        coming.paid.tokens = tokens;
        let by = coming.by.clone();
        let used = used(self.ctx, by.as_ref().unwrap_or(self.model), usage);
        self.coming.lost.push(LostAnswer { by, usage });
        self.ctx.signal(Signal::Used(Box::new(used))).await
    }

    /// Checks that another call may be made for the answer.
    ///
    /// # Errors
    /// `Cancelled` when the budget is used up; `limit` tells of what.
    pub(super) fn may_go_on(&self, limit: &mut Option<Limit>) -> Result<()> {
        *limit = self.ctx.budget.exhausted();
        match limit {
            None => Ok(()),
            // Of this kind, so that it is not recorded: with a larger budget, replayed work asks again.
            Some(_) => Err(Error::new(ErrorKind::Cancelled, "the budget is used up")),
        }
    }

    /// Charges what has arrived of an answer that breaks off here, if anything has.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub(super) async fn broken(&mut self) -> Result<()> {
        match self.lose() {
            Some(used) => self.ctx.signal(Signal::Used(Box::new(used))).await,
            None => Ok(()),
        }
    }

    fn lose(&mut self) -> Option<UsedModel> {
        // A model that has sent nothing has failed, and as far as is known that is not charged.
        if std::mem::take(&mut self.coming.size) == 0 {
            return None;
        }
        let count = |tokens: usize| u64::try_from(tokens).unwrap_or(u64::MAX);
        let usage = Usage {
            // What came before a pause is sent again with the question.
            prompt_tokens: count(self.question.tokens() + self.coming.paid.tokens),
            completion_tokens: count(self.coming.tokens().saturating_sub(self.coming.paid.tokens)),
            calls: 1,
            ..Usage::default()
        };
        let by = self.coming.by.clone();
        let used = used(self.ctx, by.as_ref().unwrap_or(self.model), usage);
        self.coming.lost.push(LostAnswer { by, usage });
        Some(used)
    }
}

/// What is left of the usage of a whole answer without that of its earlier parts.
fn rest(whole: Usage, paid: Usage) -> Usage {
    Usage {
        prompt_tokens: whole.prompt_tokens.saturating_sub(paid.prompt_tokens),
        completion_tokens: whole.completion_tokens.saturating_sub(paid.completion_tokens),
        calls: whole.calls.saturating_sub(paid.calls),
        cache_read_tokens: whole.cache_read_tokens.saturating_sub(paid.cache_read_tokens),
        cache_write_tokens: whole.cache_write_tokens.saturating_sub(paid.cache_write_tokens),
        reasoning_tokens: whole.reasoning_tokens.saturating_sub(paid.reasoning_tokens),
    }
}

impl Drop for AccountedAnswer<'_> {
    fn drop(&mut self) {
        if let Some(used) = self.lose() {
            // The budgets have counted it already; if the run cannot take the notification, only its details are
            // missing.
            let _ = self.ctx.signals.try_send((self.ctx.activation, Signal::Used(Box::new(used))));
        }
    }
}
