//! The place of the store: neither a mistyped data folder nor a store elsewhere goes unnoticed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Once;

use weft_app::Config;

use crate::args::{Command, DatasetCommand, ScheduleCommand, SecretCommand, TokenCommand, UserCommand};
use crate::failure::{Failure, Outcome};
use crate::screen::Notes;
use crate::settings::Flags;

/// Some commands read the settings several times.
static TOLD: Once = Once::new();

/// Returns whether a command is of no use without an existing store.
pub(crate) fn is_needed(command: &Command) -> bool {
    match command {
        Command::Runs { .. }
        | Command::Spending(_)
        | Command::Usage(_)
        | Command::Tasks(_)
        | Command::Tenant { .. }
        | Command::Audit(_) => true,
        Command::Dataset { command, .. } => {
            !matches!(command, DatasetCommand::Add(_) | DatasetCommand::Ingest(_))
        }
        Command::Schedule { command, .. } => !matches!(command, ScheduleCommand::Add(_)),
        Command::Secret { command } => !matches!(command, SecretCommand::Set(_)),
        Command::Token { command } => !matches!(command, TokenCommand::Create(_)),
        Command::User { command } => !matches!(command, UserCommand::Create(_) | UserCommand::Invite(_)),
        _ => false,
    }
}

/// Checks the place of the store if `--data` names the data folder, and notes a store outside of that folder.
///
/// # Errors
/// When there is no store and the command needs one.
pub(crate) fn check(config: &Config, flags: &Flags) -> Outcome<()> {
    // A name that is no text is refused when the store is opened.
    let Some(data) = flags.data.as_ref().filter(|data| data.to_str().is_some()) else { return Ok(()) };
    let file = config.store_file();
    if let Some(file) = file.as_ref().filter(|file| flags.needs_store && is_missing(file)) {
        return Err(Failure::usage(format!("there is no store at {}", file.display())).help(
            "name an existing data folder with --data; `weft serve`, `weft run` and `weft dataset ingest` create one",
        ));
    }
    if let Some(place) = outside(config, file.as_deref(), data) {
        TOLD.call_once(|| {
            Notes::line(format!(
                "note: `store.url` is set: the store is {place}, not in the data folder {} of --data",
                data.display()
            ));
        });
    }
    Ok(())
}

/// Whether the file does not exist. What cannot be looked at is reported when it is opened.
fn is_missing(file: &Path) -> bool {
    std::fs::metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns the place of a store that is not in the data folder.
fn outside(config: &Config, file: Option<&Path>, data: &Path) -> Option<String> {
    let url = config.store.url.as_str();
    match file {
        _ if url.is_empty() || url == "sqlite::memory:" => None,
        Some(file) => {
            let folder = resolved(file.parent().unwrap_or(file));
            (!folder.starts_with(resolved(data))).then(|| file.display().to_string())
        }
        // The URL may contain a password.
        None => Some("on a database server".to_owned()),
    }
}

/// Returns an absolute path, without symbolic links if it exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.canonicalize().unwrap_or(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_outside_of_the_data_folder_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let place = |url: &str| {
            let mut config = Config { data: data.clone(), ..Config::default() };
            url.clone_into(&mut config.store.url);
            outside(&config, config.store_file().as_deref(), &data)
        };
        let inside = format!("sqlite:{}", data.join("other.db").display());
        for url in ["", "sqlite::memory:", &inside] {
            assert_eq!(place(url), None, "{url}");
        }
        let elsewhere = folder.path().join("weft.db").display().to_string();
        assert_eq!(place(&format!("sqlite:{elsewhere}")), Some(elsewhere.clone()));
        assert_eq!(place(&format!("sqlite://{elsewhere}")), Some(elsewhere));
        let server = place("postgres://u:s3cret@host/x").unwrap();
        assert!(!server.contains("s3cret"), "{server}");
    }
}
