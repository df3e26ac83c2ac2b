//! Stopping a run.

use std::time::{Duration, Instant};

use weft_app::App;
use weft_core::error::found;
use weft_core::seam::run_store::StoredRun;
use weft_core::{Ending, ErrorKind, RunId, RunKey};

use super::stored::{self, gone_on};
use crate::args::RunsCancelArgs;
use crate::chosen_tenant::tenant;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes};

/// How long to wait for the process that executes the run: it looks for requests every second.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// Pause between checks whether the run has ended.
const PAUSE: Duration = Duration::from_millis(200);

/// Stops a run, and waits a while for its end.
///
/// # Errors
/// When there is no such run, or it has ended.
pub(super) async fn cancel(args: &RunsCancelArgs, app: &App) -> Outcome {
    let key = RunKey::new(&tenant(), RunId::from(args.id.as_str()));
    if !app.cancel_run(&key).await? {
        return Err(over(&stored::found(&key, app).await?));
    }
    let mut data = Data::stdout();
    match ended(&key, app).await? {
        // It was queued.
        None => Notes::line(format!("run {} is removed from the queue", key.id)),
        Some(StoredRun { ending: None, .. }) => {
            Notes::line(format!("run {} is to stop, and its process has not stopped it yet", key.id));
        }
        // The run that waited is ended by another one.
        Some(StoredRun { ending: Some(Ending::Waiting), .. }) => {
            data.line(&format!("{}  {}", key.id, Ending::Cancelled.as_str()))?;
        }
        Some(StoredRun { ending: Some(ending), .. }) => {
            data.line(&format!("{}  {}", key.id, ending.as_str()))?;
        }
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Waits a while for the end of a run that is to stop; `None` if there is no such run.
async fn ended(key: &RunKey, app: &App) -> Outcome<Option<StoredRun>> {
    let until = Instant::now() + STOP_TIME_MAX;
    loop {
        let run = found(app.runs.get(key).await)?;
        if run.as_ref().is_none_or(|run| run.ending.is_some()) || Instant::now() >= until {
            return Ok(run);
        }
        // Its process may be gone: then it ends here.
        let interrupted = app.cut_off().await?.into_iter().find(|run| run.key == *key);
        if let Some(run) = interrupted {
            match gone_on(&run, app).await {
                Ok(_) => continue,
                // Another process has resumed it, and ends it.
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the reason why a run cannot be stopped.
fn over(run: &StoredRun) -> Failure {
    let id = &run.key.id;
    match run.ending {
        Some(Ending::Waiting) => Failure::usage(format!("run {id} does not wait any more"))
            .help("it was answered or stopped, or its session continued without it"),
        Some(ending) => Failure::usage(format!("run {id} has ended: {}", ending.as_str()))
            .help("only a run that has not ended can be cancelled"),
        None => Failure::failed(format!("run {id} could not be stopped")).help("try again in a moment"),
    }
}
