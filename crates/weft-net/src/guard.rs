//! A proxy for programs that open connections themselves, such as web browsers: it uses only routes that [`Outbound`]
//! checks.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, PROXY_AUTHORIZATION};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use weft_core::{Error, ErrorKind, Result};

use crate::outbound::Outbound;

/// Maximum number of concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 256;
/// Pause after the system failed to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The header that some clients use for the connection to their proxy.
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

type Body = Either<Incoming, Full<Bytes>>;

/// A proxy on a local port. Dropping this value ends it and all of its connections.
#[derive(Debug)]
pub struct GuardProxy {
    address: SocketAddr,
    _work: JoinSet<()>,
}

impl GuardProxy {
    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Outbound {
    /// Opens a proxy for HTTP and for connections of any kind (`CONNECT`), through which at most `bytes_max` bytes can
    /// be received. Its users can reach what canvases may reach, and no other address.
    ///
    /// # Errors
    /// `Internal` when no port is available.
    pub async fn proxy(self: &Arc<Self>, bytes_max: u64) -> Result<GuardProxy> {
        // Only for programs on this machine: it has no password.
        let opened = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let opened = opened.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        let (listener, address) =
            opened.map_err(|cause| Error::internal("cannot open a port for a proxy").because(cause))?;
        let guard = Arc::new(GuardState {
            outbound: Arc::clone(self),
            left: Arc::new(AtomicU64::new(bytes_max)),
            tasks: Mutex::new(JoinSet::new()),
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        });
        let mut work = JoinSet::new();
        work.spawn(serve(listener, guard));
        Ok(GuardProxy { address, _work: work })
    }
}

struct GuardState {
    outbound: Arc<Outbound>,
    left: Arc<AtomicU64>,
    /// Connections to servers.
    tasks: Mutex<JoinSet<()>>,
    room: Arc<Semaphore>,
}

async fn serve(listener: TcpListener, guard: Arc<GuardState>) {
    let mut clients = JoinSet::new();
    while let Ok(permit) = Arc::clone(&guard.room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Possibly too many files are open: a later attempt may succeed, and the connection waits.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Finished connections are removed here; otherwise the set would grow with every connection.
        while clients.try_join_next().is_some() {}
        clients.spawn(converse(Arc::clone(&guard), stream, permit));
    }
}

async fn converse(guard: Arc<GuardState>, stream: TcpStream, permit: OwnedSemaphorePermit) {
    // Shared with the tunnels that begin on this connection: they outlive it.
    let permit = Arc::new(permit);
    let service = service_fn(move |request| {
        let (guard, permit) = (Arc::clone(&guard), Arc::clone(&permit));
        async move {
            let answered = guard.answer(request, permit).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|error| refused(&error)))
        }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error on the connection to the client is the client's own concern.
    drop(connection.with_upgrades().await);
}

fn refused(error: &Error) -> Response<Body> {
    let mut response = Response::new(Either::Right(Full::from(error.full())));
    *response.status_mut() = match error.kind {
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    };
    response
}

impl GuardState {
    async fn answer(
        &self,
        request: Request<Incoming>,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>> {
        if request.method() == Method::CONNECT {
            let server = self.connect(request.uri(), 443).await?;
            // A separate task, because the connection is handed over only after this answer has been sent.
            self.spawn(hand_on(request, server, permit));
            return Ok(Response::new(Either::Right(Full::default())));
        }
        // For https, a proxy only sees CONNECT, unless it were to read the content in the clear.
        if request.uri().scheme_str() != Some("http") {
            return Err(Error::invalid("only http requests are forwarded without a tunnel"));
        }
        let server = self.connect(request.uri(), 80).await?;
        self.ask(request, server).await
    }

    async fn connect(&self, uri: &Uri, port: u16) -> Result<CountedStream> {
        let host = uri.host().ok_or_else(|| Error::invalid("the request does not name a host"))?;
        let stream = self.outbound.connect(host, uri.port_u16().unwrap_or(port)).await?;
        Ok(CountedStream { stream, left: Arc::clone(&self.left) })
    }

    async fn ask(&self, request: Request<Incoming>, server: CountedStream) -> Result<Response<Body>> {
        let unanswered =
            |cause| Error::new(ErrorKind::Unavailable, "the server does not answer").because(cause);
        let io = TokioIo::new(server);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Incoming>(io).await.map_err(unanswered)?;
        // A separate task, because the connection must be driven while the body of the answer is read.
        self.spawn(async move { drop(connection.await) });
        let answer = sender.send_request(for_the_server(request)).await.map_err(unanswered)?;
        Ok(answer.map(Either::Left))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Converts a request to the form that the server receives: without what concerns only the proxy.
fn for_the_server(mut request: Request<Incoming>) -> Request<Incoming> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    // Hop-by-hop headers (RFC 9110, section 7.6.1), and credentials that are not for the server.
    for name in [CONNECTION, PROXY_CONNECTION, PROXY_AUTHORIZATION] {
        request.headers_mut().remove(name);
    }
    request
}

/// Copies data in both directions. Holds the permit meanwhile: for HTTP, such a connection is over when this begins.
async fn hand_on(request: Request<Incoming>, mut server: CountedStream, _permit: Arc<OwnedSemaphorePermit>) {
    if let Ok(client) = hyper::upgrade::on(request).await {
        drop(tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut server).await);
    }
}

/// A connection to a server that deducts what is received from the shared limit.
struct CountedStream {
    stream: TcpStream,
    left: Arc<AtomicU64>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let count = (buf.filled().len() - before) as u64;
        // One counter for all connections: a page that opens many gets no more.
        // Relaxed: nothing else is published through this counter.
        let take = |left: u64| left.checked_sub(count);
        Poll::Ready(match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("too many bytes were received")),
        })
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::allow_list::AllowList;

    #[tokio::test]
    async fn every_connection_counts_until_it_ends() {
        let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let to = target.local_addr().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let room = Arc::new(Semaphore::new(3));
        let guard = Arc::new(GuardState {
            outbound: Arc::new(Outbound::open(AllowList::parse(["127.0.0.1"]).unwrap())),
            left: Arc::new(AtomicU64::new(1 << 20)),
            tasks: Mutex::new(JoinSet::new()),
            room: Arc::clone(&room),
        });
        let mut work = JoinSet::new();
        work.spawn(serve(listener, guard));
        let mut client = TcpStream::connect(proxy).await.unwrap();
        let asked = format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n");
        client.write_all(asked.as_bytes()).await.unwrap();
        let (mut server, _) = target.accept().await.unwrap();
        server.write_all(b"x").await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\nx") {
            assert!(client.read_buf(&mut said).await.unwrap() > 0, "{}", String::from_utf8_lossy(&said));
        }
        // One place is held by this connection, and one by the task that waits for the next.
        assert_eq!(room.available_permits(), 1);
        drop((client, server));
        let freed = async {
            while room.available_permits() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), freed).await.expect("a place");
    }
}
