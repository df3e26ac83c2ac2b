//! `weft trust`: approves the settings in the current folder that otherwise only the operator may make.
//!
//! A `weft.toml` in a folder may have come with it. Its settings about starting programs, addresses and rights only
//! count after a person has approved them. The approval is stored for this file with this content: if either changes,
//! it is required again.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use weft_app::config::trust::Untrusted;

use crate::args::TrustArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::lines::InputLines;
use crate::screen::Notes;
use crate::settings::{self, Environment};
use crate::words::quoted;

/// The folder with the approvals, in the user's own settings folder.
const TRUSTED: &str = "trusted";

/// Shows what the settings of the current folder would do, asks, and stores the answer.
///
/// # Errors
/// When there is no such file, there is no terminal to ask, or the answer cannot be stored.
pub(crate) async fn run(args: &TrustArgs, environment: &Environment) -> Outcome {
    let file = settings::folder_file()?;
    let wanted = settings::untrusted(&file, environment);
    let shown = quoted(&file.path.to_string_lossy());
    if wanted.is_empty() {
        Notes::line(format!("{shown} has no settings that need to be trusted"));
        return Ok(Exit::Done);
    }
    Notes::line(format!("{shown} has settings that take effect only when it is trusted:"));
    wanted.iter().for_each(|one| Notes::line(format!("  {}", told(one))));
    let mark = mark(&file.path, &file.text, environment)?;
    if mark.exists() {
        Notes::line("It is trusted already.");
        return Ok(Exit::Done);
    }
    if !args.yes && !agreed().await? {
        Notes::line("It is not trusted.");
        return Ok(Exit::Failed);
    }
    remember(&mark, &file.path).map_err(|cause| {
        Failure::failed(format!("cannot remember it in {}: {cause}", mark.display()))
            .help("make the folder writable, or name the file with --config")
    })?;
    Notes::line("It is now trusted, until it changes.");
    Ok(Exit::Done)
}

async fn agreed() -> Outcome<bool> {
    let mut lines = InputLines::stdin();
    if !lines.interactive {
        return Err(Failure::usage("cannot ask whether the file is trusted: there is no terminal")
            .help("review it, then run: weft trust --yes"));
    }
    let said = lines.next("Trust it? [y/N] ").await.unwrap_or_default();
    Ok(matches!(said.trim(), "y" | "Y" | "yes"))
}

/// Describes a setting and what it does, in one line.
pub(crate) fn told(one: &Untrusted) -> String {
    format!("`{}`: {}", one.name, one.reason)
}

/// Returns whether this file with this content was approved.
pub(crate) fn is_trusted(path: &Path, text: &str, environment: &Environment) -> bool {
    mark(path, text, environment).is_ok_and(|mark| mark.is_file())
}

/// Returns the file that represents the approval.
fn mark(path: &Path, text: &str, environment: &Environment) -> Outcome<PathBuf> {
    let Some(folder) = environment.settings_folder() else {
        return Err(Failure::usage(
            "cannot store that the file is trusted: neither XDG_CONFIG_HOME nor HOME is set",
        )
        .help("set one of them, or name the file with --config"));
    };
    let failed = |cause| Failure::usage(format!("cannot find {}: {cause}", path.display()));
    // The same relative path leads to other files from other folders.
    let whole = path.canonicalize().map_err(failed)?;
    let mut hash = Sha256::new();
    // The length marks where the path ends.
    hash.update((whole.as_os_str().len() as u64).to_le_bytes());
    hash.update(whole.as_os_str().as_encoded_bytes());
    hash.update(text);
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(folder.join(TRUSTED).join(name))
}

fn remember(mark: &Path, path: &Path) -> std::io::Result<()> {
    let folder = mark.parent().unwrap_or(Path::new(""));
    let (mut folders, mut file) = (std::fs::DirBuilder::new(), std::fs::OpenOptions::new());
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        // No other user may approve settings.
        folders.mode(0o700);
        file.mode(0o600);
    }
    folders.recursive(true).create(folder)?;
    let mut file = file.write(true).create(true).truncate(true).open(mark)?;
    // For people who inspect it: no program reads it.
    writeln!(file, "{}", std::path::absolute(path)?.display())
}
