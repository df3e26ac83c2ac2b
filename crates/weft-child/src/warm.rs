//! The outer side of a worker that is started before its work arrives.

use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use weft_core::Result;

use crate::Confinement;
use crate::fork_server::{ENDED, Hello, READY};
use crate::outer::{AskLimits, Duty, PATIENCE, Worker, WorkerEnd};

/// Time limit for it to become ready.
const STARTING: Duration = Duration::from_secs(30);
/// How long after a failed start each piece of work starts its own worker.
const COLD: Duration = Duration::from_secs(60);
/// Number of seconds without work after which it exits.
const IDLE_SECONDS: u32 = 60;

/// The process from which the workers of one program are forked. Starts with the first piece of work, and ends when
/// there was none for a minute, or when this value is dropped.
#[derive(Debug, Default)]
pub struct ForkServer(Mutex<WarmState>);

#[derive(Debug, Default)]
enum WarmState {
    #[default]
    None,
    Runs(Arc<WarmServer>),
    /// The worker is not a fork server, or could not be started.
    Failed(Instant),
}

#[derive(Debug)]
struct WarmServer {
    socket: Socket,
    /// Waits for the process; kills it when dropped.
    _process: JoinSet<()>,
}

/// The process from which workers are forked.
#[derive(Clone, Copy, Debug)]
pub struct ForkParent<'a> {
    /// The program, and how it is started.
    pub worker: &'a Worker,
    /// What to do if it cannot be confined.
    pub confinement: Confinement,
    /// What it prepares before it forks, in a format of the worker's own. Only used when it is started.
    pub task: &'a str,
}

impl ForkServer {
    /// Does what [`Worker::ask`] does, in a fork. Returns `None` if there is no fork server: then the worker has to be
    /// started for this.
    ///
    /// # Errors
    /// As [`Worker::ask`].
    pub async fn ask(
        &self,
        parent: ForkParent<'_>,
        duty: &Duty,
        asked: &[&[u8]],
        limits: AskLimits,
    ) -> Result<Option<WorkerEnd>> {
        let AskLimits { time, answer_max } = limits;
        // A server that was killed, or that has just exited because it was idle, is replaced by another one.
        for _ in 0..2 {
            let Some(server) = self.server(parent).await else { return Ok(None) };
            let exchanged = server.exchange(duty, asked, answer_max);
            match tokio::time::timeout(time + PATIENCE, exchanged).await {
                Err(_) => return Ok(Some(WorkerEnd::Late)),
                Ok(Ok(Some((answer, status)))) => return duty.ended(answer, status).map(Some),
                Ok(Ok(None)) => self.forget(&server).await,
                Ok(Err(error)) => {
                    self.forget(&server).await;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Makes the next piece of work start a new parent. Work in progress is completed.
    pub async fn renew(&self) {
        *self.0.lock().await = WarmState::None;
    }

    async fn server(&self, parent: ForkParent<'_>) -> Option<Arc<WarmServer>> {
        // Held while a server starts: concurrent callers wait for it instead of starting another.
        let mut state = self.0.lock().await;
        match &*state {
            WarmState::Runs(server) => return Some(Arc::clone(server)),
            WarmState::Failed(at) if at.elapsed() < COLD => return None,
            WarmState::Failed(_) | WarmState::None => {}
        }
        let started = tokio::time::timeout(STARTING, WarmServer::start(parent)).await;
        let server = started.ok().and_then(io::Result::ok).map(Arc::new);
        *state = server.clone().map_or_else(|| WarmState::Failed(Instant::now()), WarmState::Runs);
        server
    }

    async fn forget(&self, gone: &Arc<WarmServer>) {
        let mut state = self.0.lock().await;
        if matches!(&*state, WarmState::Runs(server) if Arc::ptr_eq(server, gone)) {
            *state = WarmState::None;
        }
    }
}

impl WarmServer {
    async fn start(parent: ForkParent<'_>) -> io::Result<Self> {
        let ForkParent { worker, confinement, task } = parent;
        let (socket, theirs) = Socket::pair()?;
        let mut command = Command::new(&worker.program);
        command.args(&worker.arguments).env_clear().kill_on_drop(true);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        // Only the process holds the other end of the socket: when it is gone, this end is closed.
        drop(command);
        let mut process = JoinSet::new();
        process.spawn(async move { drop(child.wait().await) });
        let mut hello =
            serde_json::to_vec(&Hello { confinement, idle_seconds: IDLE_SECONDS, task: task.to_owned() })?;
        hello.push(b'\n');
        // Still blocking: a hello is smaller than the buffer of a socket.
        (&socket).write_all(&hello)?;
        socket.set_nonblocking(true)?;
        let mut ours = UnixStream::from_std(socket.try_clone()?)?;
        let mut ready = [0; READY.len()];
        ours.read_exact(&mut ready).await?;
        if ready == READY {
            Ok(Self { socket, _process: process })
        } else {
            Err(io::Error::other("this is not a fork server"))
        }
    }

    /// Sends work; returns the answer, and how the fork ended. `None` when the server is gone.
    async fn exchange(
        &self,
        duty: &Duty,
        asked: &[&[u8]],
        answer_max: u64,
    ) -> Result<Option<(Vec<u8>, ExitStatus)>> {
        let broken = |cause| duty.lost(cause);
        let (ours, theirs) = Socket::pair().map_err(broken)?;
        // Nothing has begun yet, so another server may be asked.
        if self.send(&theirs).is_err() {
            return Ok(None);
        }
        // Otherwise this process would hold the connection open, and its end would never be seen.
        drop(theirs);
        ours.set_nonblocking(true).map_err(broken)?;
        let mut ours = UnixStream::from_std(ours).map_err(broken)?;
        for part in asked {
            // The exit of a fork is reported at the end.
            if ours.write_all(part).await.is_err() {
                break;
            }
        }
        let mut told = Vec::new();
        let most = answer_max.saturating_add(ENDED.len() as u64 + 2);
        // Dropping this future closes the connection, which ends the fork.
        match (&mut ours).take(most).read_to_end(&mut told).await {
            // An answer that exceeds the limit is cut off, and its end is not waited for.
            Ok(count) if count as u64 == most => Ok(Some((told, ExitStatus::default()))),
            Ok(_) => Ok(ended(told)),
            // A fork that exited before it had read everything.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => Ok(ended(told)),
            Err(cause) => Err(broken(cause)),
        }
    }

    fn send(&self, connection: &Socket) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [connection.as_fd()];
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("there is no space for a descriptor"));
        }
        // A full queue means that the server is stuck: another one is started instead of waiting.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(b"w")], &mut ancillary, flags)?;
        Ok(())
    }
}

/// Splits what a fork wrote from the server's report of how it ended.
fn ended(mut told: Vec<u8>) -> Option<(Vec<u8>, ExitStatus)> {
    let (rest, how) = told.split_last_chunk::<2>()?;
    let [by_signal, number] = *how;
    let length = rest.strip_suffix(ENDED)?.len();
    told.truncate(length);
    // As `wait` encodes it: the exit code in the second byte, a signal in the first.
    let raw = if by_signal == 0 { i32::from(number) << 8 } else { i32::from(number) };
    Some((told, ExitStatus::from_raw(raw)))
}
