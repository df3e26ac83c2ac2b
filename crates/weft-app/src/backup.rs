//! A copy of everything that cannot be made again, while servers go on: the database as it is at one moment, the
//! uploaded files, the files of agents, and the key of the secrets if it lies with them. The index is made again from these. The copy has the shape of a data
//! folder, so restoring is serving it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use weft_core::{Error, ErrorKind, Result};

use crate::assemble::copy_database;
use crate::config::Config;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of the database.
    pub database_bytes: u64,
    /// Files beside it.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
}

/// Copies everything into a new folder. What breaks off before its end leaves no folder of that name.
///
/// # Errors
/// `Invalid` when there is something under that name already or nothing to copy, `Unsupported` for a database
/// server, whose own tools make copies; otherwise when something cannot be read or written.
pub async fn backup(config: &Config, into: &Path) -> Result<Copied> {
    config.check()?;
    let source = source(config)?;
    // What cannot be looked at may be there.
    if tokio::fs::try_exists(into).await.unwrap_or(true) {
        return Err(Error::invalid(format!("there is a `{}` already", into.display()))
            .help("name a folder that is not there yet, such as one with today's date"));
    }
    let name = into.file_name().ok_or_else(|| {
        Error::invalid(format!("`{}` does not name a folder", into.display())).help("name one to be made")
    })?;
    // Beside its final place, so that the rename at the end stays within one file system.
    let mut partial = name.to_owned();
    partial.push(".partial");
    let partial = into.with_file_name(partial);
    // What a copy that was broken off has left may be the beginnings of files.
    match tokio::fs::remove_dir_all(&partial).await {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(failed(&partial, cause)),
        Ok(()) | Err(_) => {}
    }
    let copied = copy_all(config, &source, &partial).await;
    let done = match copied {
        Ok(copied) => {
            tokio::fs::rename(&partial, into).await.map(|()| copied).map_err(|cause| failed(into, cause))
        }
        Err(error) => Err(error),
    };
    if done.is_err() {
        // What is left of it is of no use; that it cannot be removed either changes nothing.
        let _ = tokio::fs::remove_dir_all(&partial).await;
    }
    done
}

/// The file of the database.
fn source(config: &Config) -> Result<PathBuf> {
    let url = config.store_url();
    let path = url.strip_prefix("sqlite:").filter(|path| *path != ":memory:").ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "only a store in a SQLite file is copied").help(
            "make a copy of the database with its own tool, such as pg_dump or mariadb-dump, and then of the \
             folders `blobs` and `files` in the data folder",
        )
    })?;
    let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
    if !path.is_file() {
        return Err(Error::invalid(format!("there is no store at {}", path.display()))
            .help("name the data folder with --data"));
    }
    Ok(path)
}

async fn copy_all(config: &Config, source: &Path, partial: &Path) -> Result<Copied> {
    private_folder(partial).await?;
    let folders: Vec<(PathBuf, PathBuf)> =
        [(Some(config.blobs_folder()?), "blobs"), (config.files_root(), "files")]
            .into_iter()
            .filter_map(|(from, name)| Some((from?, partial.join(name))))
            .collect();
    let mut copied = Copied::default();
    // A file is there before its row and goes after it: those that are copied before the database and those
    // that have come by then are all that its rows name.
    for (from, to) in &folders {
        copy_folder(from, to, &mut copied).await?;
    }
    let database = partial.join("weft.db");
    copy_database(source, &database).await?;
    // A secret is not there before its key.
    copy_key(config, partial, &mut copied).await?;
    for (from, to) in &folders {
        copy_folder(from, to, &mut copied).await?;
    }
    // The database is on the disk before the copy has its name.
    let file = tokio::fs::File::open(&database).await.map_err(|cause| failed(&database, cause))?;
    file.sync_all().await.map_err(|cause| failed(&database, cause))?;
    copied.database_bytes = file.metadata().await.map_err(|cause| failed(&database, cause))?.len();
    Ok(copied)
}

/// Copies the file of the key that secrets are encrypted with, if there is one.
async fn copy_key(config: &Config, partial: &Path, copied: &mut Copied) -> Result<()> {
    let from = config.secrets_file();
    let Some(name) = from.file_name() else { return Ok(()) };
    match tokio::fs::copy(&from, partial.join(name)).await {
        Ok(bytes) => {
            copied.files += 1;
            copied.file_bytes += bytes;
            Ok(())
        }
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed(&from, cause)),
    }
}

/// Copies the files of a folder that are not at the other place yet. Links are not followed.
async fn copy_folder(from: &Path, to: &Path, copied: &mut Copied) -> Result<()> {
    let mut folders = VecDeque::from([(from.to_owned(), to.to_owned())]);
    while let Some((from, to)) = folders.pop_front() {
        let mut entries = match tokio::fs::read_dir(&from).await {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(failed(&from, cause)),
        };
        private_folder(&to).await?;
        while let Some(entry) = entries.next_entry().await.map_err(|cause| failed(&from, cause))? {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().await.map_err(|cause| failed(&source, cause))?;
            if kind.is_dir() {
                folders.push_back((source, target));
            } else if kind.is_file() && !tokio::fs::try_exists(&target).await.unwrap_or(false) {
                match tokio::fs::copy(&source, &target).await {
                    Ok(bytes) => {
                        copied.files += 1;
                        copied.file_bytes += bytes;
                    }
                    // It was removed meanwhile: so was what names it.
                    Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
                    Err(cause) => return Err(failed(&source, cause)),
                }
            }
        }
    }
    Ok(())
}

/// What is copied may be read by nobody else, as in the data folder.
async fn private_folder(path: &Path) -> Result<()> {
    let mut builder = tokio::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(0o700);
    builder.create(path).await.map_err(|cause| failed(path, cause))
}

fn failed(path: &Path, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot copy `{}`", path.display())).because(cause)
}
