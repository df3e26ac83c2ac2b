//! The outer side of a worker that is there before its work is.

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

/// How long it may take to be ready.
const STARTING: Duration = Duration::from_secs(30);
/// After a start that failed, work begins with a start of its own for so long.
const COLD: Duration = Duration::from_secs(60);
/// After so long without work it ends.
const IDLE_SECONDS: u32 = 60;

/// The process that the workers of one program are forked from. Begins with the first piece of work, ends when there
/// was none for a minute, and with this value.
#[derive(Debug, Default)]
pub struct ForkServer(Mutex<WarmState>);

#[derive(Debug, Default)]
enum WarmState {
    #[default]
    None,
    Runs(Arc<WarmServer>),
    /// The worker is no such one, or could not be started.
    Failed(Instant),
}

#[derive(Debug)]
struct WarmServer {
    socket: Socket,
    /// Waits for the process; ends it when it is dropped.
    _process: JoinSet<()>,
}

/// What forks come from.
#[derive(Clone, Copy, Debug)]
pub struct ForkParent<'a> {
    /// The program, and how it is started.
    pub worker: &'a Worker,
    /// What it gives up before it forks.
    pub confinement: Confinement,
    /// What it makes ready before that, in words of the worker's own. Decides when it is started, and no later.
    pub task: &'a str,
}

impl ForkServer {
    /// What [`Worker::ask`] does, by a fork. Nothing where there is no fork server: then the worker has to
    /// be started for this.
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
        // One that something has ended, or that has just gone because it had nothing to do, is followed by another one.
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

    /// Has the next piece of work come from a parent that is started then. What is under way is done.
    pub async fn renew(&self) {
        *self.0.lock().await = WarmState::None;
    }

    async fn server(&self, parent: ForkParent<'_>) -> Option<Arc<WarmServer>> {
        // Held while one starts: whoever comes meanwhile waits for that one and starts no other.
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
        // Their side of the socket is the process's alone: when that is gone, this side ends.
        drop(command);
        let mut process = JoinSet::new();
        process.spawn(async move { drop(child.wait().await) });
        let mut hello =
            serde_json::to_vec(&Hello { confinement, idle_seconds: IDLE_SECONDS, task: task.to_owned() })?;
        hello.push(b'\n');
        (&socket).write_all(&hello)?;
        socket.set_nonblocking(true)?;
        let mut ours = UnixStream::from_std(socket.try_clone()?)?;
        let mut ready = [0; READY.len()];
        ours.read_exact(&mut ready).await?;
        if ready == READY {
            Ok(Self { socket, _process: process })
        } else {
            Err(io::Error::other("this is no fork server"))
        }
    }

    /// Hands work over; what comes back, and how the fork ended. Nothing when the server is gone.
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
        drop(theirs);
        ours.set_nonblocking(true).map_err(broken)?;
        let mut ours = UnixStream::from_std(ours).map_err(broken)?;
        for part in asked {
            // A fork that has ended is told of at the end.
            if ours.write_all(part).await.is_err() {
                break;
            }
        }
        let mut told = Vec::new();
        let most = answer_max.saturating_add(ENDED.len() as u64 + 2);
        // Who drops this closes the connection, and that ends the fork.
        match (&mut ours).take(most).read_to_end(&mut told).await {
            // More than it may say is cut off, and its end is not waited for.
            Ok(count) if count as u64 == most => Ok(Some((told, ExitStatus::default()))),
            Ok(_) => Ok(ended(told)),
            // A fork that ended before it had read everything.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => Ok(ended(told)),
            Err(cause) => Err(broken(cause)),
        }
    }

    fn send(&self, connection: &Socket) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [connection.as_fd()];
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("no room for a descriptor"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(b"w")], &mut ancillary, flags)?;
        Ok(())
    }
}

/// What a fork wrote, and how the server says that it ended.
fn ended(mut told: Vec<u8>) -> Option<(Vec<u8>, ExitStatus)> {
    let (rest, how) = told.split_last_chunk::<2>()?;
    let [by_signal, number] = *how;
    let length = rest.strip_suffix(ENDED)?.len();
    told.truncate(length);
    let raw = if by_signal == 0 { i32::from(number) << 8 } else { i32::from(number) };
    Some((told, ExitStatus::from_raw(raw)))
}
