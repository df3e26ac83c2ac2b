//! `weft worker`: processes the queue and does nothing else.

use std::time::Duration;

use crate::args::WorkerArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::idle;
use crate::screen::Notes;
use crate::serve;
use crate::setup::Setup;
use crate::signals::stopped;
use crate::words::plural;

/// Works until it is stopped.
///
/// # Errors
/// When the data folder cannot be used, or a canvas has errors.
pub(crate) async fn run(args: &WorkerArgs, setup: &Setup) -> Outcome {
    let agents = serve::agents(&args.agents)?;
    let config = &setup.config;
    let app = weft_app::assemble(config).await.map_err(|error| Failure::before_running(&error))?;
    if let Err(failure) = serve::store_all(&app, &agents, setup).await {
        app.shut_down(Duration::ZERO).await?;
        return Err(failure);
    }
    Notes::line(&setup.model);
    Notes::line(format!(
        "The worker executes up to {} at a time; Ctrl-C stops it.",
        plural(config.worker.concurrency, "run")
    ));
    let grace = Duration::from_secs(config.limits.shutdown_seconds);
    idle::between(Box::pin(weft_app::worker::work(app, config.worker, grace, stopped()))).await?;
    Notes::line("Stopped.");
    Ok(Exit::Done)
}
