//! `weft trust`: the settings of this folder may do what only the operator's may do.
//!
//! A `weft.toml` that lies in a folder may have come with it. What it says of starting programs, of addresses and
//! of rights counts once somebody has looked at it. That is remembered for this file with this content: when
//! either changes it is asked anew.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use weft_app::config::trust::Untrusted;

use crate::args::TrustArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::lines::Lines;
use crate::screen::Notes;
use crate::settings::{self, Environment};
use crate::words::quoted;

/// The folder that remembers, in the user's own folder of settings.
const TRUSTED: &str = "trusted";

/// Shows what the settings of this folder would do, asks, and remembers the answer.
///
/// # Errors
/// When there is no such file, nobody can be asked, or the answer cannot be kept.
pub(crate) async fn run(args: &TrustArgs, environment: &Environment) -> Outcome {
    let file = settings::folder_file()?;
    let wanted = settings::untrusted(&file, environment);
    let shown = quoted(&file.path.to_string_lossy());
    if wanted.is_empty() {
        Notes::line(format!("{shown} does nothing that it has to be trusted for"));
        return Ok(Exit::Done);
    }
    Notes::line(format!("{shown} has settings that take effect only once it is trusted:"));
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
    let mut lines = Lines::stdin();
    if !lines.interactive {
        return Err(Failure::usage("nobody can be asked here whether the file is trusted")
            .help("look at it, then: weft trust --yes"));
    }
    let said = lines.next("Trust it? [y/N] ").await.unwrap_or_default();
    Ok(matches!(said.trim(), "y" | "Y" | "yes"))
}

/// A setting and what it does, in a line.
pub(crate) fn told(one: &Untrusted) -> String {
    format!("`{}`: {}", one.name, one.reason)
}

/// Whether somebody has said that this file with this content is trusted.
pub(crate) fn is_trusted(path: &Path, text: &str, environment: &Environment) -> bool {
    mark(path, text, environment).is_ok_and(|mark| mark.is_file())
}

/// The file that stands for that answer.
fn mark(path: &Path, text: &str, environment: &Environment) -> Outcome<PathBuf> {
    let Some(folder) = environment.settings_folder() else {
        return Err(Failure::usage(
            "there is no folder to remember it in: neither XDG_CONFIG_HOME nor HOME is set",
        )
        .help("set one of them, or name the file with --config"));
    };
    let failed = |cause| Failure::usage(format!("cannot find {}: {cause}", path.display()));
    let whole = path.canonicalize().map_err(failed)?;
    let mut hash = Sha256::new();
    // The length tells where the path ends.
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
        // Nobody else may say what is trusted.
        folders.mode(0o700);
        file.mode(0o600);
    }
    folders.recursive(true).create(folder)?;
    let mut file = file.write(true).create(true).truncate(true).open(mark)?;
    // For people who look: nothing reads it.
    writeln!(file, "{}", std::path::absolute(path)?.display())
}
