//! Determines what an interpreter of the system must be able to read.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use weft_core::{Error, ErrorKind, Result};

/// Time limit for the interpreter to report its location.
const TIME: Duration = Duration::from_secs(30);
/// The oldest version that supports what `guest.py` uses.
const OLDEST: (u32, u32) = (3, 11);
/// Prints its version, and one folder per line.
const WHERE: &str = "\
import os, sys
print(*sys.version_info[:2], sep='.')
for path in [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.realpath(sys.executable)), *sys.path]:
    if os.path.isabs(path) and os.path.exists(path): print(path)
";
/// Files that programs of the system are linked against.
const SYSTEM: [&str; 8] = [
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/alternatives",
];

/// Returns the folders and files that this interpreter needs. It is the operator's own, so its report can be trusted.
pub(super) async fn folders(program: &Path) -> Result<Vec<PathBuf>> {
    let unusable = |reason: String| {
        let message = format!("{} cannot run Python programs: {reason}", program.display());
        Error::new(ErrorKind::Unavailable, message).help("set `sandbox.python` to another interpreter")
    };
    let mut command = Command::new(program);
    // Isolated, so that no variable or folder of the caller affects the reported location.
    command.args(["-I", "-B", "-c", WHERE]).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIME, command.output())
        .await
        .map_err(|_| unusable("it does not report its location".to_owned()))?
        .map_err(|cause| unusable(cause.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let version = lines.next().and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    match version {
        Some(version) if version >= OLDEST => {}
        Some((major, minor)) => {
            return Err(unusable(format!("it is Python {major}.{minor}, but 3.11 is required")));
        }
        None => return Err(unusable("it is not Python".to_owned())),
    }
    let mut folders: Vec<PathBuf> =
        SYSTEM.into_iter().map(PathBuf::from).filter(|path| path.exists()).collect();
    for path in lines.map(PathBuf::from) {
        // The root contains everything on the machine.
        if path.parent().is_none() {
            return Err(unusable(format!("it is located at {}", path.display())));
        }
        if !folders.iter().any(|folder| path.starts_with(folder)) {
            folders.push(path);
        }
    }
    Ok(folders)
}
