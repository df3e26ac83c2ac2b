//! Tests that cannot run on this machine: each says why, and a run of all tests ends with the list.
//!
//! The output of a test that passes is hidden, so a message alone would not be seen. Every reason is
//! also noted in a file of the test run, which [`report`] prints; the run is known by the process that
//! started its test programs.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Says that the test that calls this cannot run here, and why. The caller returns.
#[expect(clippy::print_stdout, reason = "whoever runs the tests with --nocapture sees it where it happens")]
pub fn skipped(reason: impl Display) {
    println!("skipped: {reason}");
    // A note that cannot be written must not fail a test that only could not run.
    let _ = note(&reason);
}

#[expect(clippy::disallowed_methods, reason = "what the test runner says of a test is no setting")]
fn note(reason: &dyn Display) -> io::Result<()> {
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(folder.join(run()))?;
    // The test runner names the thread of a test after it.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Set by the test runner.
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    // One write, so that the lines of programs that run side by side stay whole.
    file.write_all(format!("{package} {test}: {reason}\n").as_bytes())
}

/// What has been skipped in this run, as sentences for its end; forgets it, and what older runs left.
#[must_use]
pub fn report() -> String {
    let Ok(folder) = folder() else { return String::new() };
    let noted = fs::read_to_string(folder.join(run())).unwrap_or_default();
    // What stays behind is listed under another run and read by none.
    let _ = fs::remove_dir_all(&folder);
    let mut lines: Vec<_> = noted.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    match lines.len() {
        0 => "every test could run here\n".to_owned(),
        count => format!("{count} tests were skipped, as they cannot run here:\n  {}\n", lines.join("\n  ")),
    }
}

/// The folder of the notes, beside the test programs of this build.
fn folder() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    Ok(target.join("skipped-tests"))
}

#[cfg(unix)]
fn run() -> String {
    std::os::unix::process::parent_id().to_string()
}

#[cfg(not(unix))]
fn run() -> String {
    "all".to_owned()
}
