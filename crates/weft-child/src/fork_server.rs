//! The inner side of a worker that is started before its work arrives: it prepares what every piece of work needs, drops
//! files and privileges, and forks for each one. It never sees the work itself: that is read from a connection that
//! only the fork has.
//!
//! ```text
//! standard input    a socket. First a line of JSON, a Hello, which is answered by READY; then a byte with a
//!                   descriptor for each piece of work. At its end the process and all its forks end
//! a descriptor      a connection that is standard input and output of the fork. When the fork has ended, an
//!                   ENDED follows what it wrote, which says how
//! ```
//!
//! The process has a single thread, so that forking is safe. It waits only for the next piece of work, for the exit of
//! its forks, and for the disconnection of their clients.

#![expect(unsafe_code, reason = "there is no safe way to fork")]

use std::io::{IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketType, recvmsg, send, sockopt,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
    waitpid,
};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin};
use serde::{Deserialize, Serialize};

use crate::inner::{Confinement, REFUSED, UNCONFINED, give_up};

/// The reply of a fork server that is ready for requests.
pub(crate) const READY: &[u8] = b"ready\n";
/// Precedes the two bytes that report how a fork ended: whether by a signal, and the exit code or signal number.
pub(crate) const ENDED: &[u8] = b"\0ended\0";
/// Maximum number of bytes in a hello.
const HELLO_MAX: usize = 32 << 10;
/// Maximum number of concurrent pieces of work. Clients have their own limits, which are lower.
const FORKS_MAX: usize = 256;

/// The first message to a fork server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// What to do if the work cannot be confined.
    pub confinement: Confinement,
    /// Number of seconds without work after which it exits.
    pub idle_seconds: u32,
    /// What to prepare, in a format of the worker's own.
    pub task: String,
}

/// Whether this process was started as a fork server: its standard input is then a socket, not a pipe.
pub fn is_fork_server() -> bool {
    sockopt::socket_type(stdin()).is_ok_and(|kind| kind == SocketType::STREAM)
}

/// Serves until the client disconnects. Calls `prepare` once, with the task for which the process was started; then
/// `work` in every fork, with the result of `prepare`; in a fork, this returns the result of `work`. No thread may have
/// been started before.
pub fn serve<T>(prepare: impl FnOnce(&str) -> T, work: impl FnOnce(T) -> ExitCode) -> ExitCode {
    let Some(hello) = hello() else { return ExitCode::from(REFUSED) };
    let ready = prepare(&hello.task);
    // Only afterwards are files dropped: the preparation may have to read some.
    // A fork has only the thread that forked: locks held by other threads would be held forever.
    if std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count) != 1 {
        return ExitCode::from(REFUSED);
    }
    if let Err(reason) = give_up(hello.confinement) {
        drop(std::io::stdout().lock().write_all(reason.to_string().as_bytes()));
        return ExitCode::from(UNCONFINED);
    }
    if send(stdin(), READY, SendFlags::NOSIGNAL).is_err() {
        return ExitCode::SUCCESS;
    }
    let idle = Duration::from_secs(hello.idle_seconds.into());
    match (ForkParent { forks: Vec::new(), idle }).run() {
        ProcessRole::Fork => work(ready),
        ProcessRole::Server => ExitCode::SUCCESS,
    }
}

/// Reads the hello byte by byte, so that nothing that comes with a descriptor is consumed.
fn hello() -> Option<Hello> {
    let (mut line, mut byte) = (Vec::new(), [0_u8]);
    while line.len() < HELLO_MAX {
        if rustix::io::read(stdin(), &mut byte).ok()? == 0 || byte == [b'\n'] {
            break;
        }
        line.extend(byte);
    }
    serde_json::from_slice(&line).ok()
}

/// The role of a process after a fork.
#[derive(Clone, Copy, PartialEq)]
enum ProcessRole {
    Server,
    Fork,
}

/// A piece of work in progress.
struct RunningFork {
    pid: Pid,
    process: OwnedFd,
    connection: OwnedFd,
}

struct ForkParent {
    forks: Vec<RunningFork>,
    idle: Duration,
}

impl ForkParent {
    /// Returns in every fork, and in the server when it is no longer wanted.
    fn run(mut self) -> ProcessRole {
        loop {
            let Some(happened) = self.wait() else { return ProcessRole::Server };
            // In reverse order, so that removing one does not move those still to come.
            for (at, wanted) in happened.forks.into_iter().enumerate().rev() {
                match wanted {
                    ForkEvent::Nothing => {}
                    ForkEvent::Unwanted => drop(pidfd_send_signal(&self.forks[at].process, Signal::KILL)),
                    ForkEvent::Ended => end(&self.forks.swap_remove(at)),
                }
            }
            if happened.asked {
                let Some(connection) = received() else { return ProcessRole::Server };
                if self.fork(connection) == ProcessRole::Fork {
                    return ProcessRole::Fork;
                }
            }
        }
    }

    /// Waits until something happens; `None` when there was no work for too long.
    fn wait(&self) -> Option<PollResult> {
        let own = stdin();
        let mut all = Vec::with_capacity(1 + 2 * self.forks.len());
        // Further work waits in the socket until a fork has ended.
        let asked = if self.forks.len() < FORKS_MAX { PollFlags::IN } else { PollFlags::empty() };
        all.push(PollFd::new(&own, asked));
        for fork in &self.forks {
            all.push(PollFd::new(&fork.process, PollFlags::IN));
            all.push(PollFd::new(&fork.connection, PollFlags::RDHUP));
        }
        let idle = Timespec { tv_sec: i64::try_from(self.idle.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
        match poll(&mut all, Some(&idle)) {
            Ok(0) if self.forks.is_empty() => return None,
            Err(cause) if cause != rustix::io::Errno::INTR => return None,
            _ => {}
        }
        let forks = all[1..].chunks(2).map(|pair| match pair {
            // An end counts first: the process has to be collected, and killing it would do nothing.
            [process, _] if !process.revents().is_empty() => ForkEvent::Ended,
            [_, connection] if !connection.revents().is_empty() => ForkEvent::Unwanted,
            _ => ForkEvent::Nothing,
        });
        Some(PollResult { forks: forks.collect(), asked: !all[0].revents().is_empty() })
    }

    /// Forks for a piece of work. If no process can be created, the connection is closed without a message.
    fn fork(&mut self, connection: OwnedFd) -> ProcessRole {
        // SAFETY: This process has a single thread, and the fork continues like any program.
        match unsafe { libc::fork() } {
            0 => {
                // The fork must not hold the other connections: they would stay open beyond their work.
                self.forks.clear();
                // Even if the server is killed, its forks end with it.
                let own = set_parent_process_death_signal(Some(Signal::KILL))
                    .and_then(|()| dup2_stdin(&connection))
                    .and_then(|()| dup2_stdout(&connection));
                if own.is_err() {
                    std::process::exit(i32::from(REFUSED));
                }
                ProcessRole::Fork
            }
            pid => {
                if let Some(pid) = Pid::from_raw(pid) {
                    match pidfd_open(pid, PidfdFlags::empty()) {
                        Ok(process) => self.forks.push(RunningFork { pid, process, connection }),
                        // A process that cannot be watched would never be waited for.
                        Err(_) => {
                            let _ = rustix::process::kill_process(pid, Signal::KILL);
                            let _ = waitpid(Some(pid), WaitOptions::empty());
                        }
                    }
                }
                ProcessRole::Server
            }
        }
    }
}

/// The result of one poll.
struct PollResult {
    /// The event of each fork.
    forks: Vec<ForkEvent>,
    /// Whether there is work, or the client has disconnected.
    asked: bool,
}

#[derive(Clone, Copy)]
enum ForkEvent {
    Nothing,
    /// Its result is no longer wanted.
    Unwanted,
    Ended,
}

/// Returns the connection of the next piece of work; `None` at the end.
fn received() -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8];
    let told =
        recvmsg(stdin(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut given = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    given.next().filter(|_| told.bytes > 0)
}

/// Reports how a fork ended, after everything that it wrote.
fn end(fork: &RunningFork) {
    let Ok(Some((_, status))) = waitpid(Some(fork.pid), WaitOptions::empty()) else { return };
    let by_signal = status.terminating_signal();
    let number = by_signal.or(status.exit_status()).and_then(|number| u8::try_from(number).ok());
    let mut told = ENDED.to_vec();
    told.extend([u8::from(by_signal.is_some()), number.unwrap_or(u8::MAX)]);
    // The client reads continuously, or is gone. The message is so short that it is sent immediately or, while much is
    // still unread, as soon as there is space.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    while send(fork.connection.as_fd(), &told, flags) == Err(rustix::io::Errno::AGAIN) {
        let mut room = [PollFd::new(&fork.connection, PollFlags::OUT)];
        let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
        if !matches!(poll(&mut room, Some(&patience)), Ok(1..)) {
            return;
        }
    }
}
