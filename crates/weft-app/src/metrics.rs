//! Metrics of an app, for operators: totals over all tenants, with labels to which no request and no setting can add.
//! Nothing here reveals to whom anything belongs.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use weft_core::counts::{Backlog, CountTable, Counts, Label};
use weft_core::seam::chat_model::ModelKind;
use weft_core::watched_models::{CallOutcome, ModelCall, ModelWatcher};
use weft_core::{ErrorKind, Result};

use crate::app::App;

/// Whether tokens were sent to a model or received from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenDirection {
    /// To the model.
    Prompt,
    /// From it.
    Completion,
}

impl Label for TokenDirection {
    const ALL: &'static [Self] = &[Self::Prompt, Self::Completion];

    fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Completion => "completion",
        }
    }
}

/// Finished calls of models, by runs and by everything else.
#[derive(Debug, Default)]
pub struct ModelCounts {
    /// By kind of model and outcome.
    pub calls: CountTable<ModelKind, CallOutcome>,
    /// Their tokens, as far as providers report them.
    pub tokens: CountTable<ModelKind, TokenDirection>,
}

impl ModelWatcher for ModelCounts {
    fn ended(&self, call: &ModelCall<'_>) {
        self.calls.add(call.kind, call.outcome, 1);
        self.tokens.add(call.kind, TokenDirection::Prompt, call.usage.prompt_tokens);
        self.tokens.add(call.kind, TokenDirection::Completion, call.usage.completion_tokens);
    }
}

/// Counts the backlog in the store.
pub type CountBacklog = dyn Fn() -> BoxFuture<'static, Result<Backlog>> + Send + Sync;

/// Metrics collected where the parts of an app meet.
#[derive(Clone)]
pub struct Meters {
    /// Calls of models.
    pub models: Arc<ModelCounts>,
    /// Number of failures of the store.
    pub store_failures: Arc<Counts<ErrorKind>>,
    /// Counts the backlog in the store.
    pub backlog: Arc<CountBacklog>,
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

/// All counts are zero, and there is no backlog.
impl Default for Meters {
    fn default() -> Self {
        let backlog: Arc<CountBacklog> = Arc::new(|| Box::pin(async { Ok(Backlog::default()) }));
        Self { models: Arc::default(), store_failures: Arc::default(), backlog }
    }
}

impl App {
    /// Returns the number of questions that wait for their sessions in this process, including those about to start.
    pub fn questions_waiting(&self) -> usize {
        self.lines.questions()
    }
}

#[cfg(test)]
mod tests {
    use weft_core::seam::chat_model::Usage;

    use super::*;

    #[test]
    fn calls_and_tokens_are_summed() {
        let counts = ModelCounts::default();
        let call = |outcome, prompt_tokens, completion_tokens| ModelCall {
            kind: ModelKind::Chat,
            model: "whatever a tenant calls it",
            prices: None,
            usage: Usage { prompt_tokens, completion_tokens, calls: 1, ..Usage::default() },
            outcome,
        };
        counts.ended(&call(CallOutcome::Succeeded, 10, 3));
        counts.ended(&call(CallOutcome::Succeeded, 1, 1));
        counts.ended(&call(CallOutcome::Failed(ErrorKind::RateLimited), 0, 0));
        assert_eq!(counts.calls.get(ModelKind::Chat, CallOutcome::Succeeded), 2);
        assert_eq!(counts.calls.get(ModelKind::Chat, CallOutcome::Failed(ErrorKind::RateLimited)), 1);
        assert_eq!(counts.tokens.get(ModelKind::Chat, TokenDirection::Prompt), 11);
        assert_eq!(counts.tokens.get(ModelKind::Chat, TokenDirection::Completion), 4);
        assert_eq!(counts.calls.get(ModelKind::Embedding, CallOutcome::Succeeded), 0);
    }
}
