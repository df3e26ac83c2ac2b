//! Documents next to a canvas: the files in the folder `documents` next to the canvas file can be searched, as a
//! dataset with the name of the canvas's folder. Every command parses them again, in the same way as the files of
//! datasets.

use std::collections::HashSet;
use std::path::Path;

use bytes::Bytes;
use futures::StreamExt as _;
use weft_app::App;
use weft_core::error::found;
use weft_core::id::DatasetKey;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasKey, Error, ErrorKind, Result, TenantId};

use crate::dataset::files::{Below, FoundFile, below};
use crate::failure::Outcome;
use crate::screen::Notes;
use crate::words::{plural, quoted};

/// Maximum number of files that are parsed.
// They are not stored, so each command parses them again.
const FILES_MAX: usize = 1_000;
/// Maximum size of one file in bytes; larger ones should be ingested once, into a dataset.
const BYTES_MAX: u64 = 16 << 20;
/// Number of files that are in memory at the same time.
const AT_ONCE: usize = 4;

/// Makes the documents next to a canvas searchable, if there are any. One that cannot be parsed is left out with a
/// note.
///
/// # Errors
/// When no document can be parsed at all, or the folder cannot be read.
pub(crate) async fn add_beside(app: &App, tenant: &TenantId, canvas: &Path) -> Outcome<()> {
    let folder = canvas.parent().unwrap_or(Path::new("")).join("documents");
    let Some(dataset) = dataset(canvas).filter(|_| folder.is_dir()) else { return Ok(()) };
    let Below { mut files, refused } = below(std::slice::from_ref(&folder))?;
    for (path, why) in refused {
        Notes::line(format!("note: {} next to the canvas: {why}", path.display()));
    }
    // A canvas may have come with a repository, and so may its symbolic links: they must not lead to the user's
    // files.
    let root = std::fs::canonicalize(
        canvas.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")),
    );
    files.retain(|file| {
        let place = std::fs::canonicalize(&file.path);
        let within = matches!((&root, &place), (Ok(root), Ok(place)) if place.starts_with(root));
        if !within {
            let path = file.path.display();
            Notes::line(format!("note: {path} points outside the folder of the canvas and is not read"));
        }
        within
    });
    if files.len() > FILES_MAX {
        Notes::line(format!("note: only the first {FILES_MAX} documents next to the canvas are read"));
        files.truncate(FILES_MAX);
    }
    let named = files.into_iter().map(|FoundFile { path, name }| (name, async move { read(&path).await }));
    let count = add(app, &DatasetKey::new(tenant, dataset.as_str()), named).await?;
    if count > 0 {
        let count = plural(count as u64, "document");
        Notes::line(format!("note: {count} next to the canvas can be searched as the dataset `{dataset}`"));
    }
    Ok(())
}

/// Makes documents searchable. Returns how many could be parsed; for the others a note has the reason.
///
/// # Errors
/// For a failure that is not caused by the document itself.
pub(crate) async fn add(
    app: &App,
    dataset: &DatasetKey,
    documents: impl Iterator<Item = (String, impl Future<Output = Result<Bytes>>)>,
) -> Outcome<usize> {
    let read = documents.map(async |(name, bytes)| {
        let added = async { app.beside.add(dataset, &name, bytes.await?).await };
        (added.await, name.clone())
    });
    // A few at a time, so that a large folder does not fill the memory.
    let mut reading = futures::stream::iter(read).buffered(AT_ONCE);
    let mut count = 0;
    while let Some((added, name)) = reading.next().await {
        match added {
            Ok(_) => count += 1,
            Err(error) if is_about_the_file(error.kind) => {
                let why = error.full();
                Notes::line(format!("note: {} next to the canvas is not searched: {why}", quoted(&name)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(count)
}

/// Returns whether the failure only concerns this file.
fn is_about_the_file(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::Timeout | ErrorKind::Conflict | ErrorKind::NotFound)
}

/// Makes the documents next to the canvases of these runs searchable, if `weft run` has started them from files that
/// still exist: a resumed run finds what it found before.
///
/// # Errors
/// When the store or one of the documents cannot be read.
pub(crate) async fn add_beside_runs(app: &App, runs: &[StoredRun]) -> Outcome<()> {
    for canvas in canvases_of(runs) {
        add_beside_stored(app, &canvas).await?;
    }
    Ok(())
}

/// Returns the canvases of runs, without repetitions. Two tenants may have canvases with the same id.
fn canvases_of(runs: &[StoredRun]) -> Vec<CanvasKey> {
    let mut seen = HashSet::new();
    let keys = runs.iter().map(|run| CanvasKey::new(&run.key.tenant, run.canvas.clone()));
    keys.filter(|key| seen.insert(key.clone())).collect()
}

/// The same for one canvas.
///
/// # Errors
/// As [`add_beside_runs`].
pub(crate) async fn add_beside_stored(app: &App, canvas: &CanvasKey) -> Outcome<()> {
    let Some(stored) = found(app.canvases.get(canvas).await)? else { return Ok(()) };
    match file_of(&stored.head) {
        Some(file) => add_beside(app, &canvas.tenant, file).await,
        None => Ok(()),
    }
}

/// Returns the file from which a canvas was read, if it still exists. Only this program sets the field, and no
/// request can: a path from outside is never trusted.
pub(crate) fn file_of(head: &CanvasHead) -> Option<&Path> {
    Some(Path::new(&head.source)).filter(|file| file.is_absolute() && file.is_file())
}

/// Returns the dataset of the documents next to a canvas, if there are any.
pub(crate) fn dataset_beside(canvas: &Path) -> Option<String> {
    dataset(canvas).filter(|_| canvas.parent().unwrap_or(Path::new("")).join("documents").is_dir())
}

fn dataset(canvas: &Path) -> Option<String> {
    // A path such as `canvas.json` contains no folder name to use.
    let whole = std::path::absolute(canvas).ok()?;
    Some(whole.parent()?.file_name()?.to_string_lossy().into_owned())
}

async fn read(file: &Path) -> Result<Bytes> {
    let failed = |cause| Error::invalid("it cannot be opened").because(cause);
    // Checked before it is read, because all of it would be in memory.
    if tokio::fs::metadata(file).await.map_err(failed)?.len() > BYTES_MAX {
        let message = format!("it is larger than {} MiB", BYTES_MAX >> 20);
        return Err(Error::invalid(message).help("put it into a dataset: `weft dataset ingest`"));
    }
    Ok(tokio::fs::read(file).await.map_err(failed)?.into())
}

#[cfg(test)]
mod tests {
    use weft_core::RunKey;

    use super::*;

    #[test]
    fn canvases_with_one_id_are_kept_apart_by_tenant() {
        let run = |tenant: &str, id: &str| {
            StoredRun::begun(RunKey::new(&TenantId::from(tenant), id), "s", "shop", 0)
        };
        let expected = ["a", "b"].map(|tenant| CanvasKey::new(&TenantId::from(tenant), "shop"));
        let runs = [run("a", "1"), run("b", "2"), run("b", "3")];
        assert_eq!(canvases_of(&runs), expected);
    }

    #[test]
    fn the_dataset_is_named_after_the_folder() {
        assert_eq!(dataset(Path::new("/a/shop/canvas.json")).as_deref(), Some("shop"));
        assert_eq!(dataset(Path::new("/canvas.json")), None);
    }
}
