//! Connections with limits: a maximum number in all and per address, and time limits for clients that send nothing or
//! have stopped reading.
//!
//! A connection is *idle* until the head of a request has arrived, and again once its answer is written; in between
//! it is *busy*, for as long as that takes: streams of hours are not cut. When there is no room, the connection that
//! has been idle longest is closed, so that a partial head does not hold a place that another client needs.

pub(crate) mod body;
mod places;
mod request_body;
mod watched;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::error::{ApiError, code};
use crate::webhook::Peer;
use body::GuardedBody;
use places::{Busy, Places, Seat};
use request_body::{arrives, lent};
use watched::WatchedStream;
use weft_app::config::ConnectionLimits;

/// Time after which a connection without a request is closed. Proxies keep theirs for a minute, and must not find one
/// closed that they are about to use.
const IDLE: Duration = Duration::from_secs(75);
/// Maximum size of the head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Delay before accepting again after the system could not provide a connection.
// The cause, usually too many open files, does not go away immediately, and trying again costs processor time.
const PAUSE: Duration = Duration::from_millis(100);
/// On shutdown, the time for a request that is still on its way on an idle connection.
const LINGER: Duration = Duration::from_secs(1);
/// Paths that may be requested on the connections reserved for operators.
const OF_OPERATORS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// State shared by all connections.
struct HttpHost {
    router: Router,
    builder: http1::Builder,
    stopping: CancellationToken,
}

/// Accepts connections and answers requests until `stopping` fires, then waits for the answers under way. Dropping
/// the future cuts them off.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stopping: CancellationToken,
) {
    // HTTP/1 only: a seat is either busy or idle, which requires one request at a time.
    let mut builder = http1::Builder::new();
    // This timeout also closes kept-alive connections without a request; a head that has started has the shorter one
    // of `WatchedStream`.
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD_BYTES_MAX);
    let host = Arc::new(HttpHost { router, builder, stopping });
    let places = Arc::new(Places::new(limits));
    let mut open = JoinSet::new();
    loop {
        // Stopping first, so that no more connections are accepted.
        let (stream, address) = tokio::select! {
            biased;
            () = host.stopping.cancelled() => break,
            // Finished connections are removed before new ones are accepted, so that the set does not grow with every
            // connection there ever was.
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        match places.enter(address.ip()) {
            Some(seat) => drop(open.spawn(converse(Arc::clone(&host), stream, Arc::new(seat)))),
            // No connection can be evicted, so the new one is closed.
            None => tracing::debug!(%address, "a connection is refused: there are too many"),
        }
    }
    // Closed before waiting for the answers under way, so that new connections are refused instead of left waiting.
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn accept(listener: &TcpListener, places: &Places) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // A connection was aborted before it was accepted. The listener works, so there is no pause.
            Err(error) if is_about_the_other_side(&error) => {}
            Err(error) => {
                // Usually: too many open files. The connection that has been idle longest is closed.
                tracing::warn!(%error, "cannot take a connection");
                places.make_room();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn is_about_the_other_side(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves one connection until it ends.
async fn converse(host: Arc<HttpHost>, stream: TcpStream, seat: Arc<Seat>) {
    // Each token is a packet of its own and should be sent immediately.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn off delays of a connection");
    }
    let peer = stream.peer_addr().ok().map(|address| Peer(address.ip()));
    let watched = TokioIo::new(WatchedStream::new(stream, Arc::clone(&seat)));
    let mut builder = host.builder.clone();
    // A reserved place serves one request only, so that the next operator finds it free.
    builder.keep_alive(!seat.is_reserved());
    let service = {
        let (host, seat) = (Arc::clone(&host), Arc::clone(&seat));
        service_fn(move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            answer(Arc::clone(&host), Arc::clone(&seat), request)
        })
    };
    let mut connection = pin!(builder.serve_connection(watched, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // Its place has been given to another connection; a request that arrives just now is not answered.
        () = seat.left() => return,
        () = host.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(LINGER, connection.as_mut()).await {
                Ok(ended) => ended,
                // A request is being answered, perhaps by a stream; the caller of `serve` limits how long that may
                // take.
                Err(_) if seat.is_busy() => connection.await,
                // No request has arrived, so there is nothing to answer.
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

async fn answer(
    host: Arc<HttpHost>,
    seat: Arc<Seat>,
    request: Request<Incoming>,
) -> Result<Response<GuardedBody<Busy>>, Infallible> {
    // Marked before the request is routed: an idle connection may be evicted at any moment.
    let busy = Seat::busy(&seat);
    let closes = request.version() < Version::HTTP_11
        || host.stopping.is_cancelled()
        || seat.is_reserved()
        || asks_to_close(request.headers());
    // Such a client sends its body only when asked, and reading would ask for it.
    let waits = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let (body, lent) = lent(Body::new(body));
    let request = Request::from_parts(parts, body);
    let mut response = if request.method() == Method::CONNECT {
        no_tunnel()
    } else if seat.is_reserved() && !OF_OPERATORS.contains(&request.uri().path()) {
        too_many()
    } else {
        host.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
    };
    let rest = lent.unread();
    if closes {
        // Only the server decides whether the connection is kept alive.
        response.headers_mut().remove(header::CONNECTION);
        if rest.is_some() {
            seat.linger();
        }
    } else if let Some(rest) = rest {
        // Requests that are refused are often answered before their body was read. The connection can only be kept if
        // the rest arrives; otherwise the client must know before it sends another request.
        let arrives = !waits && arrives(rest).await;
        if !arrives {
            seat.linger();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
    Ok(response.map(|body| GuardedBody::new(body, busy)))
}

/// Returns whether the client wants the connection to be closed. This must agree with how hyper reads the header.
fn asks_to_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// Most errors have the status 200, which for this method would mean that there is a tunnel: a proxy in front would from
/// then on forward whatever its client sends.
fn no_tunnel() -> Response<Body> {
    let error = ApiError::new(code::EXCEPTION, "the server opens no tunnels: CONNECT is not supported");
    error.with_status(StatusCode::NOT_IMPLEMENTED).into_response()
}

fn too_many() -> Response<Body> {
    let message = "the server has reached its maximum number of connections; try again later";
    let error = ApiError::new(code::TOO_MANY, message).with_status(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = error.into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;

    use super::*;

    const HALF: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ";
    /// More bytes than the system buffers for one connection.
    const LARGE: usize = 64 << 20;

    struct Server {
        address: SocketAddr,
        stopping: CancellationToken,
        release: Arc<Notify>,
        serving: JoinSet<()>,
    }

    impl Server {
        /// `/slow` answers when it is released.
        async fn start(all: usize, per_address: usize) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, stopping) = (listener.local_addr().unwrap(), CancellationToken::new());
            let release = Arc::new(Notify::new());
            let wait = Arc::clone(&release);
            let slow = async move || {
                wait.notified().await;
                "slow"
            };
            let kept = async || ([(header::CONNECTION, "keep-alive")], "kept");
            let router = Router::new().route("/healthz", get(async || "well")).route("/slow", get(slow));
            let router = router.route("/kept", get(kept)).route("/metrics", get(async || "counted"));
            let router = router.route("/large", get(async || "x".repeat(LARGE)));
            let limits = ConnectionLimits { all, per_address };
            let serving = JoinSet::from_iter([serve(listener, router, limits, stopping.clone())]);
            Self { address, stopping, release, serving }
        }

        async fn connect(&self, said: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(said).await.unwrap();
            stream
        }

        async fn ask(&self, path: &str) -> String {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let mut stream = self.connect(request.as_bytes()).await;
            rest(&mut stream).await
        }
    }

    async fn rest(stream: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes).await);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[tokio::test]
    async fn half_sent_request_heads_do_not_block_others() {
        let server = Server::start(10, 10).await;
        let mut halves = Vec::new();
        for _ in 0..60 {
            halves.push(server.connect(HALF).await);
        }
        for _ in 0..5 {
            assert!(server.ask("/healthz").await.ends_with("well"));
        }
        // The first connections were closed to make room.
        assert_eq!(rest(&mut halves[0]).await, "");
    }

    #[tokio::test]
    async fn active_requests_keep_their_connections_and_operators_still_get_one() {
        let server = Server::start(3, 10).await;
        let mut slow = Vec::new();
        for _ in 0..3 {
            slow.push(server.connect(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await);
        }
        // Until all of them are being answered, one would be closed to make room for this one.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(server.ask("/healthz").await.ends_with("well"));
        assert!(
            server.ask("/metrics").await.ends_with("counted"),
            "metrics are served while the server is full"
        );
        let refused = server.ask("/slow").await;
        assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("\"code\":429"), "{refused}");
        for stream in &mut slow {
            server.release.notify_one();
            assert!(rest(stream).await.ends_with("slow"));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_still_being_read_keeps_its_place_and_is_waited_for() {
        let server = Server::start(1, 10).await;
        let mut large = server.connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
        // The server has handed over all of it by then, and most of it waits for the client to read.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(server.ask("/healthz").await.ends_with("well"));
        server.stopping.cancel();
        tokio::time::sleep(LINGER + Duration::from_millis(500)).await;
        assert!(rest(&mut large).await.len() > LARGE);
        server.serving.join_all().await;
    }

    #[tokio::test]
    async fn one_address_cannot_exceed_its_limit() {
        let server = Server::start(100, 2).await;
        let mut halves = Vec::new();
        for _ in 0..4 {
            halves.push(server.connect(HALF).await);
        }
        for half in &mut halves[..2] {
            assert_eq!(rest(half).await, "");
        }
        assert!(server.ask("/healthz").await.ends_with("well"));
    }

    #[tokio::test]
    async fn only_http_1_is_supported_and_request_heads_are_limited() {
        let server = Server::start(10, 10).await;
        let mut stream = server.connect(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        assert_eq!(rest(&mut stream).await, "");
        let long = format!("GET /healthz?{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        let mut stream = server.connect(long.as_bytes()).await;
        assert!(!rest(&mut stream).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn the_connection_header_is_sent_once() {
        let server = Server::start(10, 10).await;
        let closed = server.ask("/kept").await;
        assert!(closed.contains("connection: close") && !closed.contains("keep-alive"), "{closed}");
        let mut stream = server.connect(b"GET /kept HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut bytes = vec![0; 1_000];
        let count = stream.read(&mut bytes).await.unwrap();
        let kept = String::from_utf8_lossy(&bytes[..count]);
        assert!(kept.contains("connection: keep-alive") && !kept.contains("close"), "{kept}");
    }

    /// The head of a request that is refused before its body is read, because of its method.
    const REFUSED: &str = "POST /healthz HTTP/1.1\r\nHost: x\r\n";
    const LAST: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_refused_request_keeps_its_connection_if_its_body_arrives() {
        let server = Server::start(10, 10).await;
        let long = "x".repeat(60 << 10);
        for (head, body) in [
            ("Content-Length: 4".to_owned(), "body"),
            (format!("Content-Length: {}", long.len()), long.as_str()),
            ("Transfer-Encoding: chunked".to_owned(), "4\r\nbody\r\n0\r\n\r\n"),
        ] {
            let mut stream = server.connect(format!("{REFUSED}{head}\r\n\r\n").as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.write_all(format!("{body}{REFUSED}{head}\r\n\r\n{body}{LAST}").as_bytes()).await.unwrap();
            let told = rest(&mut stream).await;
            assert_eq!(told.matches("HTTP/1.1 405").count(), 2, "{head}: {told}");
            assert!(told.matches("connection: close").count() == 1 && told.ends_with("well"), "{told}");
        }
    }

    #[tokio::test]
    async fn a_response_tells_that_the_connection_closes_without_the_rest_of_a_body() {
        let server = Server::start(10, 10).await;
        for (head, body) in [
            ("Content-Length: 4", "bod"),
            ("Content-Length: 100000000", "body"),
            ("Transfer-Encoding: chunked", "4\r\nbody\r\n"),
            ("Content-Length: 4\r\nExpect: 100-continue", ""),
            ("Connection: Keep-Alive\r\nContent-Length: 4", "bod"),
            ("Connection: TE\r\nContent-Length: 4", "bod"),
        ] {
            let mut stream = server.connect(format!("{REFUSED}{head}\r\n\r\n{body}").as_bytes()).await;
            let told = rest(&mut stream).await;
            assert!(told.starts_with("HTTP/1.1 405") && told.contains("connection: close"), "{head}: {told}");
        }
    }

    #[tokio::test]
    async fn a_client_that_still_sends_its_body_can_read_the_response() {
        let server = Server::start(10, 10).await;
        for head in ["", "Connection: close\r\n"] {
            let request = format!("{REFUSED}{head}Content-Length: 100000000\r\n\r\n");
            let mut stream = server.connect(request.as_bytes()).await;
            assert!(rest(&mut stream).await.contains("connection: close"));
            // A socket that is closed resets the connection at the first of these, and the next one fails.
            for _ in 0..3 {
                stream.write_all(&[0; 1_000]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    #[tokio::test]
    async fn no_tunnel_is_opened() {
        let server = Server::start(10, 10).await;
        for target in ["x:443", "/healthz", "http://x/healthz"] {
            let request = format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let mut stream = server.connect(request.as_bytes()).await;
            let told = rest(&mut stream).await;
            assert!(told.starts_with("HTTP/1.1 501"), "{target}: {told}");
        }
    }

    /// A proxy in front may see the end of such a request elsewhere, and what follows it as another client's.
    #[tokio::test]
    async fn nothing_is_answered_after_a_request_of_unclear_length() {
        let server = Server::start(10, 10).await;
        for (head, status) in [
            ("Content-Length: 4\r\nContent-Length: 5", 400),
            ("Content-Length: 4, 4", 400),
            ("Content-Length: +4", 400),
            ("Transfer-Encoding: chunked, identity", 400),
            ("Transfer-Encoding: gzip", 400),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", 405),
        ] {
            let request = format!("{REFUSED}{head}\r\n\r\n0\r\n\r\n{LAST}");
            let mut stream = server.connect(request.as_bytes()).await;
            let told = rest(&mut stream).await;
            assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {told}");
            assert_eq!(told.matches("HTTP/1.1").count(), 1, "{head}: {told}");
        }
    }

    #[tokio::test]
    async fn shutdown_waits_for_active_requests_only() {
        let server = Server::start(10, 10).await;
        let mut half = server.connect(HALF).await;
        let mut slow = server.connect(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.stopping.cancel();
        assert_eq!(rest(&mut half).await, "");
        assert!(TcpStream::connect(server.address).await.is_err());
        server.release.notify_one();
        let told = rest(&mut slow).await;
        assert!(told.contains("connection: close") && told.ends_with("slow"), "{told}");
        server.serving.join_all().await;
    }
}
