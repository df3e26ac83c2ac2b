//! Files that a run has created: lists them, or writes them to a folder.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt as _;
use weft_app::App;
use weft_core::SessionKey;
use weft_core::id::FileId;
use weft_core::seam::file_store::{StoredFile, plain_name};

use crate::failure::{Failure, Outcome};
use crate::screen::Notes;
use crate::words::plural;

/// Maximum number of files with the same name in a folder.
const SAME_NAME_MAX: usize = 1_000;

/// Returns the files that a session has so far.
///
/// # Errors
/// When they cannot be listed.
pub(crate) async fn known(app: &App, session: &SessionKey) -> Outcome<HashSet<FileId>> {
    Ok(of(app, session).await?.into_iter().map(|file| file.id).collect())
}

/// Prints the files that were added since then. With a folder they are written to it, and a note is printed if there
/// are none.
///
/// # Errors
/// When they cannot be listed, read or written.
pub(crate) async fn tell(
    app: &App,
    session: &SessionKey,
    before: &HashSet<FileId>,
    folder: Option<&Path>,
) -> Outcome<()> {
    let made = of(app, session).await?.into_iter().filter(|file| !before.contains(&file.id));
    let made: Vec<StoredFile> = made.collect();
    if let (Some(folder), true) = (folder, made.is_empty()) {
        Notes::line(format!(
            "note: the run produced no files, so nothing was written to {}",
            folder.display()
        ));
    }
    for file in made {
        let size = plural(file.size, "byte");
        match folder {
            Some(folder) => {
                let (_, bytes) = app.files.read(&session.tenant, &file.id).await?;
                let path = written(folder, &plain_name(&file.name), &bytes).await?;
                Notes::line(format!("file: {} ({size})", path.display()));
            }
            None => Notes::line(format!(
                "file: {} ({size}); with `--save-files FOLDER` it is written there",
                plain_name(&file.name)
            )),
        }
    }
    Ok(())
}

async fn of(app: &App, session: &SessionKey) -> Outcome<Vec<StoredFile>> {
    Ok(app.files.of_session(&session.tenant, &session.id).await?)
}

/// Writes a file under its name, or the next one that is free: nothing is overwritten.
async fn written(folder: &Path, name: &str, bytes: &[u8]) -> Outcome<PathBuf> {
    let failed = |path: &Path, cause: std::io::Error| {
        Failure::usage(format!("cannot write {}: {cause}", path.display())).help("name a writable folder")
    };
    tokio::fs::create_dir_all(folder).await.map_err(|cause| failed(folder, cause))?;
    let (stem, ending) =
        name.rsplit_once('.').map_or((name, String::new()), |(stem, e)| (stem, format!(".{e}")));
    for number in 1..=SAME_NAME_MAX {
        let own = if number == 1 { name.to_owned() } else { format!("{stem}-{number}{ending}") };
        let path = folder.join(own);
        // If existence was checked separately, another program could create the file in between.
        let opened = tokio::fs::OpenOptions::new().write(true).create_new(true).open(&path).await;
        match opened {
            Ok(mut file) => {
                file.write_all(bytes).await.map_err(|cause| failed(&path, cause))?;
                // Written in the background: only flushing tells whether it has succeeded.
                file.flush().await.map_err(|cause| failed(&path, cause))?;
                return Ok(path);
            }
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(failed(&path, cause)),
        }
    }
    let message = format!("there are {SAME_NAME_MAX} files called {name} in {}", folder.display());
    Err(Failure::usage(message).help("name another folder"))
}
