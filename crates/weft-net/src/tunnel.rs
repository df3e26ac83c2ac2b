//! Connections for clients with their own protocol, such as those of databases: to addresses that were checked, and
//! with a limit on what is received.
//!
//! Such a client connects to a socket in a separate folder, and everything is copied between that and a connection that
//! was opened here. It has no other way to reach the server, whatever a name resolves to by then.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use url::Host;
use weft_core::{Error, ErrorKind, Result};

use crate::operator::CONNECT_LIMIT;
use crate::outbound::Outbound;
use crate::route::Pinned;

/// Number of bytes copied at a time.
const PIECE: usize = 16 * 1024;

impl Outbound {
    /// Resolves and checks a host that is not part of a URL.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Invalid` for an invalid name, `Unavailable` for one that cannot be resolved.
    pub async fn host(&self, host: &str, port: u16) -> Result<Pinned> {
        // An IPv6 address may be given without the brackets that it has in a URL.
        let parsed = Host::parse(host.trim())
            .or_else(|_| Host::parse(&format!("[{}]", host.trim())))
            .map_err(|cause| Error::invalid("the server name is not valid").because(cause))?;
        let parsed = match &parsed {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(ip) => Host::Ipv4(*ip),
            Host::Ipv6(ip) => Host::Ipv6(*ip),
        };
        self.pin_host(Some(parsed), port).await
    }

    /// Connects to a host that is not part of a URL.
    ///
    /// # Errors
    /// As [`Outbound::host`], and `Unavailable` when nothing answers.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream> {
        let connecting = async { dial(&self.host(host, port).await?).await };
        in_time(host, connecting).await
    }

    /// Connects to the addresses of a host as [`Outbound::host`] has returned them, for a client that connects to a
    /// socket named `file` in [`Tunnel::folder`]. The name is not looked up again: whatever else the caller has checked
    /// about the addresses holds for the connection.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Unavailable` when nothing answers, and `Internal` when the socket cannot be
    /// created.
    pub async fn tunnel(&self, to: &Pinned, file: &str, bytes_max: u64) -> Result<Tunnel> {
        // Checked again, because the type does not prove that its addresses were checked.
        for address in &to.addresses {
            self.check(&to.host, address.ip(), address.port())?;
        }
        // Before the socket exists, so that an unreachable server is reported as such and not by its client.
        let outside = in_time(&to.host, dial(to)).await?;
        let made = tempfile::Builder::new().prefix("weft-").tempdir().and_then(|folder| {
            let socket = folder.path().join(file);
            UnixListener::bind(&socket).map(|listener| (folder, socket, listener))
        });
        let (folder, socket, listener) = made
            .map_err(|cause| Error::internal("cannot create a socket for the connection").because(cause))?;
        let overflown = Arc::new(AtomicBool::new(false));
        let mut work = JoinSet::new();
        let told = Arc::clone(&overflown);
        work.spawn(async move {
            if let Ok((inside, _)) = listener.accept().await {
                // Only one client: from here on nothing else can connect.
                drop(listener);
                hand_on(inside, outside, bytes_max, &told).await;
            }
        });
        Ok(Tunnel { folder, socket, overflown, _work: work })
    }
}

/// A connection that waits for its client. Dropping this value ends it.
#[derive(Debug)]
pub struct Tunnel {
    folder: TempDir,
    socket: PathBuf,
    overflown: Arc<AtomicBool>,
    _work: JoinSet<()>,
}

impl Tunnel {
    /// Returns the folder of the socket; other users cannot access it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it was closed because the server sent too much.
    pub fn has_overflown(&self) -> bool {
        self.overflown.load(Ordering::Acquire)
    }
}

/// Limits the time for a connection.
async fn in_time(host: &str, connecting: impl Future<Output = Result<TcpStream>>) -> Result<TcpStream> {
    tokio::time::timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_| {
        let seconds = CONNECT_LIMIT.as_secs();
        Err(Error::new(ErrorKind::Unavailable, format!("`{host}` does not answer within {seconds} s")))
    })
}

async fn dial(pinned: &Pinned) -> Result<TcpStream> {
    let mut last = None;
    // In the order of the resolver, which puts nearer ones first. All of them were checked.
    for address in &pinned.addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(cause) => last = Some(cause),
        }
    }
    let error = Error::new(ErrorKind::Unavailable, format!("no answer from `{}`", pinned.host));
    Err(match last {
        Some(cause) => error.because(cause),
        None => error,
    })
}

/// Copies data in both directions until one side ends, or until the server exceeds its limit.
async fn hand_on(inside: UnixStream, outside: TcpStream, bytes_max: u64, overflown: &AtomicBool) {
    let (mut from_client, mut to_client) = inside.into_split();
    let (mut from_server, mut to_server) = outside.into_split();
    let asking = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        // The shutdown is forwarded, too: a server may delay its last reply until it knows that it has received
        // everything.
        let _ = to_server.shutdown().await;
        // The server's remaining data is let through.
        std::future::pending::<()>().await;
    };
    let answering = async {
        let mut left = bytes_max;
        let mut piece = vec![0; PIECE];
        loop {
            match from_server.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let Some(rest) = left.checked_sub(count as u64) else {
                        // Set before the client sees the end: it checks the reason as soon as it does.
                        overflown.store(true, Ordering::Release);
                        return;
                    };
                    left = rest;
                    if to_client.write_all(&piece[..count]).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}
