//! The inner side: what a worker does before it begins.

#[cfg(not(target_os = "linux"))]
use std::io::Read as _;
use std::io::Write as _;
#[cfg(target_os = "linux")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Exit code: the work continued after its time was up and could not be interrupted.
pub const LATE: u8 = 64;
/// Exit code: the request is not valid.
pub const REFUSED: u8 = 65;
/// Exit code: the worker cannot be confined; standard output says why.
pub const UNCONFINED: u8 = 67;
/// Exit code: the result is no longer wanted.
const UNWANTED: u8 = 66;
/// How long after its time limit uninterruptible work is killed.
const GRACE: Duration = Duration::from_millis(250);

/// Limits of the work.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time limit.
    pub time: Duration,
    /// Maximum number of bytes of memory, besides those of the worker itself.
    pub memory_bytes: usize,
    /// Number of bytes of the stack on which it runs.
    pub stack_bytes: usize,
    /// What to do if the boundary is not available.
    pub confinement: Confinement,
}

/// What to do with work on a system that cannot confine a worker: an old kernel, one without Landlock, or a system
/// other than Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Refuse it.
    #[default]
    Required,
    /// Do it behind as much of the boundary as is available.
    BestEffort,
}

/// Why work was not done.
enum Unable {
    /// The boundary is not available.
    Confine(std::io::Error),
    /// The work itself crashed.
    Broke,
}

/// Runs `work` on a separate thread that may do nothing but compute within its bounds and write to standard output.
/// Ends the process soon after its time is up, or as soon as the result is no longer wanted: when standard input ends,
/// which must have been read up to where nothing more is expected.
///
/// This is all that a worker does after it has read its request; no thread may have been started and no file opened
/// before. Returns the exit code of the process.
pub fn confined(bounds: Bounds, work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> ExitCode {
    confined_with(bounds, || (), work)
}

/// Runs work that can be interrupted: `alarm` is called when its time is up, so that it can still write a partial
/// result.
pub fn confined_with(
    bounds: Bounds,
    alarm: impl FnOnce() + Send + 'static,
    work: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> ExitCode {
    ExitCode::from(exit_code(inside(bounds, alarm, work)))
}

/// Returns the exit code of the process, after writing why there was no work.
fn exit_code(done: Result<std::io::Result<()>, Unable>) -> u8 {
    match done {
        Ok(Ok(())) => 0,
        // The result could not be written: the client is gone.
        Ok(Err(_)) => UNWANTED,
        Err(Unable::Confine(reason)) => {
            drop(std::io::stdout().lock().write_all(reason.to_string().as_bytes()));
            UNCONFINED
        }
        // By a signal, like any crash.
        Err(Unable::Broke) => std::process::abort(),
    }
}

fn inside(
    bounds: Bounds,
    alarm: impl FnOnce() + Send + 'static,
    work: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> Result<std::io::Result<()>, Unable> {
    share_heap();
    // Files and privileges are dropped by this thread and all that it starts from here on; system calls, which starting
    // a thread needs, are blocked for all threads at the end.
    give_up(bounds.confinement).map_err(Unable::Confine)?;
    let (time, stack_bytes) = (bounds.time, bounds.stack_bytes);
    let begun = move || -> Result<_, Unable> {
        close(&bounds).map_err(Unable::Confine)?;
        Ok(work())
    };
    done_under_watch(time, alarm, stack_bytes, begun)
}

/// Makes all threads share one heap: otherwise the working thread would get its own, which has to be set up and grows
/// by a system call for every few pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn share_heap() {
    #[expect(unsafe_code, reason = "a function of the system's library")]
    // SAFETY: It takes two numbers, and the allocator's own lock. If it is refused, the allocator continues as before.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn share_heap() {}

/// Runs work on a separate thread and ends this process with it, while this thread watches: it calls `alarm` after
/// `time` and ends the process soon after that, and as soon as its result is no longer wanted.
#[cfg(target_os = "linux")]
fn done_under_watch(
    time: Duration,
    alarm: impl FnOnce(),
    stack_bytes: usize,
    begun: impl FnOnce() -> Result<std::io::Result<()>, Unable> + Send + 'static,
) -> Result<std::io::Result<()>, Unable> {
    // The process exits where the work does: waking another thread for it would take as long as a small program.
    let work = move || {
        let done = catch_unwind(AssertUnwindSafe(begun)).unwrap_or(Err(Unable::Broke));
        std::process::exit(i32::from(exit_code(done)));
    };
    thread::Builder::new().stack_size(stack_bytes).spawn(work).map_err(Unable::Confine)?;
    std::process::exit(i32::from(watch(time, alarm)))
}

/// Waits for the end of the time or of the input; returns the exit code of the process.
#[cfg(target_os = "linux")]
fn watch(time: Duration, alarm: impl FnOnce()) -> u8 {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let after = |time| std::time::Instant::now().checked_add(time);
    let (mut alarm, mut end) = (Some(alarm), after(time));
    loop {
        let left = end.map(|end| end.saturating_duration_since(std::time::Instant::now()));
        // A time that cannot be represented as such is unlimited.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut input = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        match poll(&mut input, left.as_ref()) {
            Ok(0) => match alarm.take() {
                Some(alarm) => {
                    alarm();
                    end = after(GRACE);
                }
                None => return LATE,
            },
            Ok(_) => match rustix::io::read(rustix::stdio::stdin(), &mut [0; 64]) {
                Ok(0) => return UNWANTED,
                Err(cause) if cause != rustix::io::Errno::INTR => return UNWANTED,
                // Nothing is expected there, and only the end of the input has a meaning.
                _ => {}
            },
            Err(rustix::io::Errno::INTR) => {}
            // The client could no longer end it.
            Err(_) => return UNWANTED,
        }
    }
}

/// The same, with threads that watch.
#[cfg(not(target_os = "linux"))]
fn done_under_watch(
    time: Duration,
    alarm: impl FnOnce() + Send + 'static,
    stack_bytes: usize,
    begun: impl FnOnce() -> Result<std::io::Result<()>, Unable> + Send + 'static,
) -> Result<std::io::Result<()>, Unable> {
    watched(time, alarm).map_err(Unable::Confine)?;
    let thread = thread::Builder::new().stack_size(stack_bytes).spawn(begun);
    thread.map_err(Unable::Confine)?.join().unwrap_or(Err(Unable::Broke))
}

/// Calls `alarm` after `time` and ends this process soon after that, and as soon as its result is no longer wanted.
#[cfg(not(target_os = "linux"))]
fn watched(time: Duration, alarm: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let late = move || {
        thread::sleep(time);
        alarm();
        thread::sleep(GRACE);
    };
    ended_when(LATE, late)?;
    ended_when(UNWANTED, wait_for_the_end_of_input)
}

/// Ends the process as soon as `wait` returns, whatever else it does.
#[cfg(not(target_os = "linux"))]
fn ended_when(code: u8, wait: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let watch = move || {
        wait();
        std::process::exit(i32::from(code));
    };
    thread::Builder::new().spawn(watch).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn wait_for_the_end_of_input() {
    let mut rest = [0; 64];
    while std::io::stdin().lock().read(&mut rest).is_ok_and(|count| count > 0) {}
}

/// Drops files and privileges for this thread and those that it starts.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(crate) fn give_up(confinement: Confinement) -> std::io::Result<()> {
    use crate::boundary::{leave_files, leave_rights};
    // Forks inherit what their parent has dropped.
    if GIVEN_UP.load(Ordering::Relaxed) {
        return Ok(());
    }
    // Both are attempted before either is judged: with best effort, as much as possible is dropped.
    let (rights, files) = (leave_rights(), leave_files());
    GIVEN_UP.store(rights.is_ok() && files.is_ok(), Ordering::Relaxed);
    confinement.settle(rights)?;
    confinement.settle(files)
}

/// Whether this process, or the one it is a fork of, has dropped its files and privileges.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Drops everything else, for all threads.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn close(bounds: &Bounds) -> std::io::Result<()> {
    use crate::boundary::{leave_calls, limit};
    // Before system calls are blocked, since this is one of them.
    limit(bounds.time, bounds.memory_bytes)?;
    bounds.confinement.settle(leave_calls())
}

/// On other systems, Weft supports no boundary.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(crate) fn give_up(confinement: Confinement) -> std::io::Result<()> {
    confinement.settle(Err(std::io::Error::other("workers can only be confined on 64-bit Linux")))
}

/// On other systems, only the process itself and its limits on time and memory apply.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn close(_: &Bounds) -> std::io::Result<()> {
    Ok(())
}

impl Confinement {
    /// Decides whether it is an error that a part of the boundary is not available.
    pub(crate) fn settle(self, had: std::io::Result<()>) -> std::io::Result<()> {
        match self {
            Self::Required => had,
            Self::BestEffort => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_confinement_work_is_refused_unless_allowed() {
        let missing = || Err(std::io::Error::other("no such call"));
        assert!(Confinement::default().settle(missing()).is_err());
        assert!(Confinement::BestEffort.settle(missing()).is_ok());
        assert!(Confinement::Required.settle(Ok(())).is_ok());
    }
}
