//! Backup of everything that cannot be rebuilt, while servers continue: the database as of one moment, the uploaded
//! files, the files of agents, and the plugins and the key of the secrets if they are in the data folder. The index is
//! rebuilt from these. Models are large and can be installed again, so they are only named. The copy has the layout of
//! a data folder, so restoring it means serving it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use weft_core::{Error, ErrorKind, Result};

use crate::assemble::copy_database;
use crate::config::Config;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Size of the database, in bytes.
    pub database_bytes: u64,
    /// Number of other files.
    pub files: u64,
    /// Their total size, in bytes.
    pub file_bytes: u64,
    /// Folders with files that a server uses and that were not copied.
    pub left_out: Vec<PathBuf>,
}

/// Copies everything into a new folder. An interrupted backup leaves no folder of that name.
///
/// # Errors
/// `Invalid` when something with that name exists or there is nothing to copy, `Unsupported` for a database server,
/// which has its own backup tools; otherwise when something cannot be read or written.
pub async fn backup(config: &Config, into: &Path) -> Result<Copied> {
    config.check()?;
    let source = source(config)?;
    // A path that cannot be checked counts as existing.
    if tokio::fs::try_exists(into).await.unwrap_or(true) {
        return Err(Error::invalid(format!("`{}` already exists", into.display()))
            .help("name a folder that does not exist yet, such as one with today's date"));
    }
    let name = into.file_name().ok_or_else(|| {
        Error::invalid(format!("`{}` does not name a folder", into.display())).help("name one to be created")
    })?;
    // Next to the final path, so that the rename at the end stays within one file system.
    let mut partial = name.to_owned();
    partial.push(".partial");
    let partial = into.with_file_name(partial);
    // An interrupted backup may have left incomplete files.
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
        // The remains are of no use; a failure to remove them changes nothing.
        let _ = tokio::fs::remove_dir_all(&partial).await;
    }
    done
}

/// Returns the file of the database.
fn source(config: &Config) -> Result<PathBuf> {
    let path = config.store_file().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "only a store in a SQLite file can be copied").help(
            "copy the database with its own tool, such as pg_dump or mariadb-dump, and then the folders `blobs`, \
             `files` and `plugins` and the file `secrets.key` in the data folder",
        )
    })?;
    if !path.is_file() {
        return Err(Error::invalid(format!("there is no store at {}", path.display()))
            .help("name the data folder with --data"));
    }
    Ok(path)
}

async fn copy_all(config: &Config, source: &Path, partial: &Path) -> Result<Copied> {
    private_folder(partial).await?;
    let (plugins, left_out) = (own_plugins(config), left_out(config));
    let folders: Vec<(PathBuf, PathBuf)> =
        [(Some(config.blobs_folder()?), "blobs"), (config.files_root(), "files"), (plugins, "plugins")]
            .into_iter()
            .filter_map(|(from, name)| Some((from?, partial.join(name))))
            .collect();
    let mut copied = Copied { left_out, ..Copied::default() };
    // A file exists before its row is written and is removed after the row. So the files copied before the database,
    // and those added by the time it is copied, include every file that its rows name.
    for (from, to) in &folders {
        copy_folder(from, to, &mut copied).await?;
    }
    let database = partial.join("weft.db");
    copy_database(source, &database).await?;
    // A secret never exists before its key.
    copy_key(config, partial, &mut copied).await?;
    for (from, to) in &folders {
        copy_folder(from, to, &mut copied).await?;
    }
    // The database is synced to disk before the copy gets its final name.
    let file = tokio::fs::File::open(&database).await.map_err(|cause| failed(&database, cause))?;
    file.sync_all().await.map_err(|cause| failed(&database, cause))?;
    copied.database_bytes = file.metadata().await.map_err(|cause| failed(&database, cause))?.len();
    Ok(copied)
}

/// Returns the folder of plugins, unless the settings name another, which may belong to other programs as well.
fn own_plugins(config: &Config) -> Option<PathBuf> {
    config.plugins.folder.as_os_str().is_empty().then(|| config.plugins_folder())
}

/// Returns the folders that are not copied, if there is anything in them.
fn left_out(config: &Config) -> Vec<PathBuf> {
    let mut folders = vec![config.models_folder()];
    if own_plugins(config).is_none() {
        folders.push(config.plugins_folder());
    }
    folders.retain(|folder| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()));
    folders
}

/// Copies the file of the encryption key for secrets, if there is one.
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

/// Copies the files of a folder that are not at the destination yet. Symbolic links are not followed.
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
                    // It was removed meanwhile, and so was the row that names it.
                    Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
                    Err(cause) => return Err(failed(&source, cause)),
                }
            }
        }
    }
    Ok(())
}

/// Creates a folder that no other user can read, like the data folder.
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
