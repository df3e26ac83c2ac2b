//! The model that a search asks, as part of a run: its calls are recorded, counted and charged like any other.

use weft_agent::ask::ask_text;
use weft_core::effect::Delivery;
use weft_core::{NodeContext, Result, async_trait};
use weft_knowledge::ask::{Ask, Step, request};

use crate::model::caller::warn_of_prices;

/// The model of an activation.
#[derive(Debug)]
pub(super) struct Helper<'a> {
    /// The activation that asks.
    pub ctx: &'a NodeContext,
    /// The model; empty for the default model.
    pub llm_id: &'a str,
}

#[async_trait]
impl Ask for Helper<'_> {
    async fn ask(&self, _: Step, instructions: &str, question: &str) -> Result<String> {
        let ctx = self.ctx;
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, self.llm_id)?;
        warn_of_prices(ctx, &*model).await?;
        ask_text(ctx, &*model, request(instructions, question), &mut |_| {}).await
    }

    async fn now_ms(&self) -> Result<i64> {
        // Recorded, so that repeated work reckons with the same time.
        let clock = &self.ctx.run.seams.clock;
        self.ctx.effect("clock", Delivery::Idempotent, async { Ok(clock.now_ms()) }).await.map(|(now, _)| now)
    }
}
