//! A run of the data folder: how it is found, resumed and written on a line.

use weft_app::App;
use weft_core::seam::run_store::StoredRun;
use weft_core::{Ending, RunKey};
use weft_engine::engine::PickedUp;

use crate::failure::{Failure, Outcome};
use crate::words::on_one_line;

/// Maximum number of characters of a text in a line.
const TEXT_CHARS: usize = 200;

/// Returns a run of this data folder.
pub(crate) async fn found(key: &RunKey, app: &App) -> Outcome<StoredRun> {
    let help = "`weft runs list` shows the runs of this data folder; --data names another one";
    app.runs.get(key).await.map_err(|error| Failure::finding(error, help))
}

/// Resumes an interrupted run and waits for its end.
pub(super) async fn gone_on(run: &StoredRun, app: &App) -> weft_core::Result<Ending> {
    Ok(match app.pick_up(run).await? {
        PickedUp::Ended(ending) => ending,
        PickedUp::Running(mut handle) => {
            // Only its end matters.
            while handle.entries.next().await?.is_some() {}
            app.runs.get(&run.key).await?.ending.unwrap_or(Ending::Failed)
        }
    })
}

/// Returns a text on one line, cut to a readable length.
pub(super) fn short(text: &str) -> String {
    on_one_line(text, TEXT_CHARS)
}
