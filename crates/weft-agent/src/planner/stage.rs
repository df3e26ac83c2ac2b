//! What the planner does besides calling tools. Each stage appears in the trace as if it were a tool.

use std::sync::Arc;

use weft_core::context::ToolStarted;
use weft_core::seam::chat_model::{Audience, ChatMessage, ChatRequest};
use weft_core::{ErrorKind, Json, Result};

use super::{AnswerForm, request};
use crate::ask::ask;
use crate::driver::Job;
use crate::trace::{Traced, TracedResult};
use crate::window::Line;

/// A stage in the trace.
#[derive(Clone, Copy)]
pub(super) struct PlannerStage {
    /// Its name in the trace.
    pub(super) name: &'static str,
    /// The number of earlier stages with this name.
    pub(super) before: u32,
}

impl PlannerStage {
    /// The first or only stage with this name.
    pub(super) const fn first(name: &'static str) -> Self {
        Self { name, before: 0 }
    }
}

/// Adds the start of a stage to the trace.
pub(super) async fn begun<'j>(job: &Job<'j>, stage: PlannerStage, asked: Json) -> Result<Traced<'j>> {
    let PlannerStage { name, before } = stage;
    let part = &job.ctx.part;
    // The first has no number: clients know it by that name.
    let call = if before == 0 { format!("{part}{name}") } else { format!("{part}{name}_{before}") };
    let started = ToolStarted {
        agent: job.ctx.node.clone(),
        path: format!("{}-->{name}", job.ctx.name).into(),
        call: call.into(),
        tool: name.into(),
        arguments: Arc::new(asked),
    };
    Traced::start(job.ctx, started).await
}

/// Adds a stage without a request to the trace.
pub(super) async fn report(job: &Job<'_>, stage: PlannerStage, result: &str) -> Result<()> {
    begun(job, stage, Json::Null)
        .await?
        .finish(TracedResult { result: Json::from(result), ..TracedResult::default() })
        .await
}

/// Asks the model something outside of the conversation. Returns `None` when that fails: the work continues without
/// it. Only what ends the whole work is an error.
pub(super) async fn staged(
    job: &Job<'_>,
    stage: PlannerStage,
    messages: Vec<ChatMessage>,
) -> Result<Option<String>> {
    let asked = messages.last().map(|message| Json::from(message.text.as_str()));
    let traced = begun(job, stage, asked.unwrap_or_default()).await?;
    let lines: Vec<Line> = messages.into_iter().map(Line::pinned).collect();
    let reply = match request(job, lines, AnswerForm::Free).await {
        Ok(request) => {
            let request = ChatRequest { audience: Audience::Nobody, ..request };
            ask(job.ctx, job.model, request, &mut |_| {}).await
        }
        Err(error) => Err(error),
    };
    match reply {
        Ok(reply) => {
            let result = Json::from(reply.text.as_str());
            traced.finish(TracedResult { result, ..TracedResult::default() }).await?;
            Ok(Some(reply.text))
        }
        // Any other failure costs only this help and not the answer.
        Err(error) if matches!(error.kind, ErrorKind::Cancelled | ErrorKind::QuotaExceeded) => Err(error),
        Err(error) => {
            let result = Json::from(format!("failed: {}", error.full()));
            traced.finish(TracedResult { result, failed: true, ..TracedResult::default() }).await?;
            Ok(None)
        }
    }
}
