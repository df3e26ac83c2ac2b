//! Notifies the run of every tool call: when it starts and, without exception, when it ends.

use tokio::time::Instant;
use weft_core::context::{Signal, ToolFinished, ToolStarted};
use weft_core::{Json, NodeContext, Result};

/// The result of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct TracedResult {
    /// For programs and people.
    pub result: Json,
    /// Whether it failed.
    pub failed: bool,
    /// Whether its arguments had to be repaired before they could be read.
    pub repaired: bool,
}

/// The result of a call that was dropped before its end.
const STOPPED: &str = "the call was stopped";

/// A call that was reported to the run. If it is dropped before its end (a cancelled run, a node that takes too
/// long), it is reported as stopped.
#[derive(Debug)]
pub(crate) struct Traced<'a> {
    ctx: &'a NodeContext,
    /// `None` once its end was reported.
    started: Option<ToolStarted>,
    began: Instant,
}

impl<'a> Traced<'a> {
    /// Reports the start of a call to the run.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub(crate) async fn start(ctx: &'a NodeContext, started: ToolStarted) -> Result<Self> {
        ctx.signal(Signal::ToolStarted(Box::new(started.clone()))).await?;
        Ok(Self { ctx, started: Some(started), began: Instant::now() })
    }

    /// Reports its end to the run.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub(crate) async fn finish(mut self, gave: TracedResult) -> Result<()> {
        // Reserves room first: after that there is no await, so the end is reported exactly once.
        let room = self.ctx.signals.reserve().await;
        let Some(finished) = self.over(gave) else { return Ok(()) };
        let Ok(room) = room else {
            return Err(weft_core::Error::new(weft_core::ErrorKind::Cancelled, STOPPED));
        };
        room.send((self.ctx.activation, Signal::ToolFinished(Box::new(finished))));
        Ok(())
    }

    fn over(&mut self, TracedResult { result, failed, repaired }: TracedResult) -> Option<ToolFinished> {
        let started = self.started.take()?;
        let elapsed = self.began.elapsed().as_secs_f64();
        Some(ToolFinished { started, result: result.into(), failed, repaired, elapsed })
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        if let Some(finished) =
            self.over(TracedResult { result: Json::from(STOPPED), failed: true, repaired: false })
        {
            // Cannot wait here: a run that is far behind is not notified.
            let signal = Signal::ToolFinished(Box::new(finished));
            let _ = self.ctx.signals.try_send((self.ctx.activation, signal));
        }
    }
}
