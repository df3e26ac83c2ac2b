//! Tells the run of every call: that it begins, and without fail that it is over.

use tokio::time::Instant;
use weft_core::context::{Signal, ToolFinished, ToolStarted};
use weft_core::{Json, NodeContext, Result};

/// What a call gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gave {
    /// For programs and people.
    pub result: Json,
    /// Whether it failed.
    pub failed: bool,
    /// Whether its arguments had to be repaired before they could be read.
    pub repaired: bool,
}

/// What is said of a call whose end nobody has waited for.
const STOPPED: &str = "the call was stopped";

/// A call that the run has been told of. When it is dropped before its end (a run that is cancelled, a
/// node that takes too long), the run is told that it was stopped.
#[derive(Debug)]
pub(crate) struct Traced<'a> {
    ctx: &'a NodeContext,
    /// Nothing once the run has been told of the end.
    started: Option<ToolStarted>,
    began: Instant,
}

impl<'a> Traced<'a> {
    /// Tells the run that a call begins.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub(crate) async fn start(ctx: &'a NodeContext, started: ToolStarted) -> Result<Self> {
        ctx.signal(Signal::ToolStarted(Box::new(started.clone()))).await?;
        Ok(Self { ctx, started: Some(started), began: Instant::now() })
    }

    /// Tells the run that it is over.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub(crate) async fn finish(mut self, gave: Gave) -> Result<()> {
        // Room first: from here on nothing is waited for, so the end is told exactly once.
        let room = self.ctx.signals.reserve().await;
        let Some(finished) = self.over(gave) else { return Ok(()) };
        let Ok(room) = room else {
            return Err(weft_core::Error::new(weft_core::ErrorKind::Cancelled, STOPPED));
        };
        room.send((self.ctx.activation, Signal::ToolFinished(Box::new(finished))));
        Ok(())
    }

    fn over(&mut self, Gave { result, failed, repaired }: Gave) -> Option<ToolFinished> {
        let started = self.started.take()?;
        let elapsed = self.began.elapsed().as_secs_f64();
        Some(ToolFinished { started, result: result.into(), failed, repaired, elapsed })
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        if let Some(finished) = self.over(Gave { result: Json::from(STOPPED), failed: true, repaired: false })
        {
            // Nobody can wait here: a run that is far behind does not hear it.
            let signal = Signal::ToolFinished(Box::new(finished));
            let _ = self.ctx.signals.try_send((self.ctx.activation, signal));
        }
    }
}
