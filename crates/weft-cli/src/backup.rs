//! `weft backup`: copies the data folder, while servers continue.

use serde_json::json;

use crate::args::BackupArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::{plural, quoted};

/// Copies the store and the other files.
///
/// # Errors
/// When there is nothing to copy, or the destination cannot be written.
pub(crate) async fn run(args: &BackupArgs, setup: &Setup) -> Outcome {
    let copied = weft_app::backup(&setup.config, &args.folder)
        .await
        .map_err(|error| Failure::before_running(&error))?;
    let mut data = Data::stdout();
    if args.json {
        let line = json!({
            "folder": args.folder, "database_bytes": copied.database_bytes,
            "files": copied.files, "file_bytes": copied.file_bytes, "left_out": copied.left_out,
        });
        data.line(&line.to_string())?;
    } else {
        let folder = quoted(&args.folder.to_string_lossy());
        // Rounded up, so that a small database is not shown as 0 KiB.
        let (database, files) = (copied.database_bytes.div_ceil(1024), plural(copied.files, "file"));
        Notes::line(format!("copied the store ({database} KiB) and {files} into {folder}"));
        for left_out in &copied.left_out {
            Notes::line(format!("left out, so copy it yourself if you need it: {}", left_out.display()));
        }
        Notes::line(format!("`weft serve --data {folder}` serves it; the index is rebuilt automatically"));
        Notes::line(
            "serving it acts for real, also beside the original: due schedules fire, interrupted runs resume, and \
             notifications are sent",
        );
        if !setup.config.store.url.is_empty() {
            Notes::line("with these settings it would not be used: `store.url` names the original store");
        }
    }
    data.flush()?;
    Ok(Exit::Done)
}
