//! Tests that cannot run on this machine: each records a reason, and a run of all tests ends with the list.
//!
//! The output of passing tests is hidden, so a message alone would not be seen. Every reason is also written to a file
//! of the test run, which [`report`] prints; a run is identified by the process that started its test programs.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Records that the calling test cannot run here, and why. The caller must then return.
#[expect(clippy::print_stdout, reason = "whoever runs the tests with --nocapture sees it where it happens")]
pub fn skipped(reason: impl Display) {
    println!("skipped: {reason}");
    // A reason that cannot be recorded must not make the test fail.
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
    // A single write, so that lines of concurrent programs are not interleaved.
    file.write_all(format!("{package} {test}: {reason}\n").as_bytes())
}

/// Returns the skipped tests of this run, as sentences to print at its end, and removes the records of this and older
/// runs.
#[must_use]
pub fn report() -> String {
    let Ok(folder) = folder() else { return String::new() };
    let noted = fs::read_to_string(folder.join(run())).unwrap_or_default();
    // Records that cannot be removed belong to another run and are never read.
    let _ = fs::remove_dir_all(&folder);
    let mut lines: Vec<_> = noted.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    match lines.len() {
        0 => "every test could run here\n".to_owned(),
        count => format!("{count} tests were skipped, as they cannot run here:\n  {}\n", lines.join("\n  ")),
    }
}

/// The folder of the records, next to the test programs of this build.
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
