//! Documents beside a canvas: what lies in the folder `documents` next to its file can be searched, as
//! the dataset that has the name of the canvas's folder. They are read anew by every command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasId, CanvasKey, ErrorKind};
use weft_server::{App, load_folder};

use crate::failure::{Failure, Outcome};
use crate::local;
use crate::screen::Notes;

/// Files that are read, at most.
const FILES_MAX: usize = 1_000;
/// Bytes of one file, at most.
const BYTES_MAX: u64 = 16 << 20;

/// Makes the documents beside a canvas searchable, if there are any.
///
/// # Errors
/// When one of them cannot be read.
pub async fn add_beside(app: &App, canvas: &Path) -> Outcome<()> {
    let files = beside(canvas);
    let Some(dataset) = dataset(canvas).filter(|_| !files.is_empty()) else { return Ok(()) };
    let documents = files.iter().map(|file| read(file)).collect::<Outcome<Vec<_>>>()?;
    app.beside.add(&local::tenant(), &dataset, load_folder(&documents));
    let count =
        if documents.len() == 1 { "1 document".to_owned() } else { format!("{} documents", documents.len()) };
    Notes::line(format!("note: {count} beside the canvas can be searched as the dataset `{dataset}`"));
    Ok(())
}

/// Makes the documents beside the canvases of these runs searchable, where `weft run` has begun them from
/// files that are still there: a run that goes on finds what it found before.
///
/// # Errors
/// When the store or one of the documents cannot be read.
pub async fn add_beside_runs(app: &App, runs: &[StoredRun]) -> Outcome<()> {
    let canvases: BTreeSet<&CanvasId> = runs.iter().map(|run| &run.canvas).collect();
    for id in canvases {
        let canvas = match app.canvases.get(&CanvasKey::new(&local::tenant(), id.clone())).await {
            Ok(canvas) => canvas,
            Err(error) if error.kind == ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        // Anybody may describe a canvas; only the id that `weft run` gave it says that this is its file.
        let file = Path::new(&canvas.head.description);
        if file.is_file() && local::canvas_id(file) == *id {
            add_beside(app, file).await?;
        }
    }
    Ok(())
}

/// Markdown and text files, in the order of their names.
fn beside(canvas: &Path) -> Vec<PathBuf> {
    let folder = canvas.parent().unwrap_or(Path::new("")).join("documents");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let text = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md" || ending == "txt");
    let mut files: Vec<_> = entries.filter(text).take(FILES_MAX).collect();
    files.sort();
    files
}

fn dataset(canvas: &Path) -> Option<String> {
    let whole = std::path::absolute(canvas).ok()?;
    Some(whole.parent()?.file_name()?.to_string_lossy().into_owned())
}

fn read(file: &Path) -> Outcome<weft_server::Document> {
    let shown = file.to_string_lossy();
    let failed =
        |why: &dyn std::fmt::Display| Failure::usage(format!("cannot read the document {shown}: {why}"));
    let size = std::fs::metadata(file).map_err(|error| failed(&error))?.len();
    if size > BYTES_MAX {
        return Err(failed(&format!("it is larger than {} MiB", BYTES_MAX >> 20)));
    }
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(weft_server::Document { name, text: unwrapped(&text) })
}

/// The files are wrapped for those who read them; sentences are quoted better in one piece.
pub fn unwrapped(text: &str) -> String {
    let begins = |line: &str| line.is_empty() || line.starts_with(['#', '-', '*', '|', '>']);
    let mut whole = String::with_capacity(text.len());
    let mut before = "";
    for line in text.lines().map(str::trim) {
        let goes_on = !begins(line) && !before.is_empty() && !before.starts_with('#');
        whole.push(if goes_on { ' ' } else { '\n' });
        whole.push_str(line);
        before = line;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_single_lines_and_nothing_else_does() {
        let text = "# Title\nOne\ntwo.\n\n- a\n  b\n- c\n";
        assert_eq!(unwrapped(text), "\n# Title\nOne two.\n\n- a b\n- c");
    }

    #[test]
    fn the_dataset_has_the_name_of_the_folder() {
        assert_eq!(dataset(Path::new("/a/shop/canvas.json")).as_deref(), Some("shop"));
        assert_eq!(dataset(Path::new("/canvas.json")), None);
    }
}
