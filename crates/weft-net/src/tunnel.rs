//! Connections of clients that speak for themselves, such as those of databases: to addresses that were checked, and
//! with a limit on what comes back.
//!
//! Such a client connects to a socket in a folder of its own, and everything is handed on between that and a
//! connection that was made here. It knows no other way to the server, whatever a name means by then.

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
use crate::outbound::{Outbound, Pinned};

/// Bytes handed on at a time.
const PIECE: usize = 16 * 1024;

impl Outbound {
    /// Resolves and checks a host that is no part of a URL.
    ///
    /// # Errors
    /// `Denied` for a refused address, `Invalid` for a name that is none, `Unavailable` for one that cannot be resolved.
    pub async fn host(&self, host: &str, port: u16) -> Result<Pinned> {
        // People write an address of IPv6 without the brackets that it has in a URL.
        let parsed = Host::parse(host.trim())
            .or_else(|_| Host::parse(&format!("[{}]", host.trim())))
            .map_err(|cause| Error::invalid("the name of the server is not valid").because(cause))?;
        let parsed = match &parsed {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(ip) => Host::Ipv4(*ip),
            Host::Ipv6(ip) => Host::Ipv6(*ip),
        };
        self.pin_host(Some(parsed), port).await
    }

    /// Connects to a host that is no part of a URL.
    ///
    /// # Errors
    /// As [`Outbound::host`], and `Unavailable` when nothing answers.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream> {
        let connecting = async { dial(&self.host(host, port).await?).await };
        tokio::time::timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_| {
            let seconds = CONNECT_LIMIT.as_secs();
            Err(Error::new(ErrorKind::Unavailable, format!("`{host}` does not answer within {seconds} s")))
        })
    }

    /// Connects to a host that is no part of a URL, for a client that connects to a socket named `file` in
    /// [`Tunnel::folder`].
    ///
    /// # Errors
    /// As [`Outbound::connect`], and `Internal` when there is no room for the socket.
    pub async fn tunnel(&self, host: &str, port: u16, file: &str, bytes_max: u64) -> Result<Tunnel> {
        let outside = self.connect(host, port).await?;
        let made = tempfile::Builder::new().prefix("weft-").tempdir().and_then(|folder| {
            let socket = folder.path().join(file);
            UnixListener::bind(&socket).map(|listener| (folder, socket, listener))
        });
        let (folder, socket, listener) =
            made.map_err(|cause| Error::internal("cannot make a socket for the connection").because(cause))?;
        let overflown = Arc::new(AtomicBool::new(false));
        let mut work = JoinSet::new();
        let told = Arc::clone(&overflown);
        work.spawn(async move {
            if let Ok((inside, _)) = listener.accept().await {
                // One client and no other: from here on nobody else can connect.
                drop(listener);
                hand_on(inside, outside, bytes_max, &told).await;
            }
        });
        Ok(Tunnel { folder, socket, overflown, _work: work })
    }
}

/// A connection that waits for its client. It ends with this value.
#[derive(Debug)]
pub struct Tunnel {
    folder: TempDir,
    socket: PathBuf,
    overflown: Arc<AtomicBool>,
    _work: JoinSet<()>,
}

impl Tunnel {
    /// The folder of the socket; nobody else may enter it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it was ended because the server sent too much.
    pub fn has_overflown(&self) -> bool {
        self.overflown.load(Ordering::Acquire)
    }
}

async fn dial(pinned: &Pinned) -> Result<TcpStream> {
    let mut last = None;
    // In the order of the resolver, which puts the nearer ones first. Each of them was checked.
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

/// Hands on what either side says until one of them ends, or until the server has said more than it may.
async fn hand_on(inside: UnixStream, outside: TcpStream, bytes_max: u64, overflown: &AtomicBool) {
    let (mut from_client, mut to_client) = inside.into_split();
    let (mut from_server, mut to_server) = outside.into_split();
    let asking = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        // Handed on, too: a server may wait with its last word until it knows that it has heard everything.
        let _ = to_server.shutdown().await;
        // What the server still has to say is let through.
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
                        // Before the client sees its end: it looks for the reason as soon as it does.
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
