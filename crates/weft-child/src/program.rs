//! The inner side for an interpreter that runs programs itself: the privileges that a worker drops before it becomes
//! one.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::inner::{Bounds, Confinement, UNCONFINED};

/// Becomes another program, which may read and execute what lies below `read`, and reach no other file; it has no root
/// privileges and cannot gain any. It inherits the descriptors that are marked for it, and sets its own limits. Returns
/// only when that fails.
pub fn become_program(read: &[PathBuf], confinement: Confinement, command: &mut Command) -> ExitCode {
    become_after(give_up(read, confinement), command)
}

/// Becomes another program that does one piece of work and exits, such as one that reads a picture. Like
/// [`become_program`], but with no more memory and processor time than `bounds` allow, and with few system calls
/// (seccomp): it reads files as far as it may, computes, and writes to descriptors that it has. The stack size is up to
/// the system.
pub fn become_bounded_program(read: &[PathBuf], bounds: &Bounds, command: &mut Command) -> ExitCode {
    become_after(give_up(read, bounds.confinement).and_then(|()| close(bounds)), command)
}

/// Like [`become_bounded_program`] for a program that computes on `threads` threads, each of which may use the
/// processor for as long as the work may take. It may start threads but no process. It may be a script; the program
/// that this becomes (`exec`) is restricted in the same way.
pub fn become_threaded_program(
    read: &[PathBuf],
    bounds: &Bounds,
    threads: u32,
    command: &mut Command,
) -> ExitCode {
    let closed = |()| close_but_threads(bounds, threads);
    become_after(give_up(read, bounds.confinement).and_then(closed), command)
}

fn become_after(given_up: io::Result<()>, command: &mut Command) -> ExitCode {
    let reason = match given_up {
        Ok(()) => replace(command),
        Err(reason) => reason,
    };
    drop(io::stdout().lock().write_all(reason.to_string().as_bytes()));
    ExitCode::from(UNCONFINED)
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn close(bounds: &Bounds) -> io::Result<()> {
    use crate::boundary::{leave_calls_but_to_become, limit_work};
    limit_work(bounds.time, bounds.memory_bytes)?;
    bounds.confinement.settle(leave_calls_but_to_become())
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn close_but_threads(bounds: &Bounds, threads: u32) -> io::Result<()> {
    use crate::boundary::{leave_calls_but_to_become_threaded, limit_work};
    limit_work(bounds.time.saturating_mul(threads.max(1)), bounds.memory_bytes)?;
    bounds.confinement.settle(leave_calls_but_to_become_threaded())
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn close(_: &Bounds) -> io::Result<()> {
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn close_but_threads(_: &Bounds, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn give_up(read: &[PathBuf], confinement: Confinement) -> io::Result<()> {
    use crate::boundary::{leave_files_but, leave_rights, limit_files};
    use landlock::{ABI, AccessFs};
    let open: Vec<_> = read.iter().map(|path| (path.as_path(), AccessFs::from_read(ABI::V5))).collect();
    limit_files()?;
    confinement.settle(leave_rights())?;
    confinement.settle(leave_files_but(&open))
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn give_up(_: &[PathBuf], confinement: Confinement) -> io::Result<()> {
    confinement.settle(Err(io::Error::other("workers can only be confined on 64-bit Linux")))
}

#[cfg(unix)]
fn replace(command: &mut Command) -> io::Error {
    use std::os::unix::process::CommandExt as _;
    command.exec()
}

#[cfg(not(unix))]
fn replace(_: &mut Command) -> io::Error {
    io::Error::other("a process cannot be replaced by another program on this system")
}

/// Returns the system call filter (seccomp) for a process that runs one program in an interpreter: it reads files as
/// far as it may, computes, and writes to descriptors that it has. It starts no process or thread, reaches no other
/// process, opens no socket, and shares no memory. The format is that of the kernel: eight bytes for each instruction.
///
/// # Errors
/// When this machine's system calls are not known.
pub fn filter_for_programs() -> io::Result<Vec<u8>> {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    return crate::boundary::filter_for_programs();
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    return Err(io::Error::other("programs can only be confined on 64-bit Linux"));
}
