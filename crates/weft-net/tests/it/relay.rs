//! Limits on answers that a library reads.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;
use weft_net::{AnswerEvents, AnswerLimits, AnswerRelay, ExchangeFailure, RelayedExchange, operator_client};

use crate::exchange::{Server, server};

fn relay(whole: usize, event: usize) -> AnswerRelay {
    let limits = AnswerLimits { whole, event, refusal: 100 };
    AnswerRelay::open(operator_client().unwrap(), limits).unwrap()
}

fn url(server: &Server, path: &str) -> Url {
    format!("http://{}{path}", server.address).parse().unwrap()
}

/// Asks as the library does.
async fn ask(relay: &AnswerRelay, exchange: &RelayedExchange, url: &Url) -> Response {
    let (name, ticket) = exchange.header();
    let asking = relay.client().post(AnswerRelay::inside_url(url)).header(name, ticket);
    asking.header("x-key", "s3cret").body("hello").send().await.unwrap()
}

#[tokio::test]
async fn an_answer_within_the_limits_arrives_unchanged() {
    let server = server().await;
    let (relay, url) = (relay(1_000, 1_000), url(&server, "/echo"));
    for _ in 0..2 {
        let exchange = relay.exchange(&url, AnswerEvents::Lines);
        let response = ask(&relay, &exchange, &url).await;
        assert_eq!(
            (response.status(), response.headers()["x-seen"].to_str().unwrap()),
            (StatusCode::OK, "s3cret")
        );
        assert_eq!(response.bytes().await.unwrap(), "hello");
        assert!(exchange.failure().is_none());
    }
    assert!(relay.is_open());
}

#[tokio::test]
async fn an_endless_answer_ends_at_a_limit() {
    let server = server().await;
    let url = url(&server, "/endless");
    let check = async |relay: AnswerRelay, bytes_max: usize| {
        let exchange = relay.exchange(&url, AnswerEvents::Lines);
        let asking = relay.client().get(AnswerRelay::inside_url(&url));
        let (name, ticket) = exchange.header();
        let body = asking.header(name, ticket).send().await.unwrap().bytes().await.unwrap();
        assert!(body.len() <= bytes_max, "{}", body.len());
        exchange.failure()
    };
    let whole = check(relay(100_000, 1_000_000), 100_000).await;
    assert!(matches!(whole, Some(ExchangeFailure::AnswerTooLong(100_000))), "{whole:?}");
    let event = check(relay(1_000_000, 100_000), 100_000).await;
    assert!(matches!(event, Some(ExchangeFailure::EventTooLong(100_000))), "{event:?}");
}

#[tokio::test]
async fn only_open_exchanges_are_served() {
    let server = server().await;
    let (relay, url) = (relay(1_000, 1_000), url(&server, "/echo"));
    let bare = relay.client().get(AnswerRelay::inside_url(&url)).send().await.unwrap();
    assert_eq!(bare.status(), StatusCode::FORBIDDEN);
    let exchange = relay.exchange(&url, AnswerEvents::Lines);
    let ticket = exchange.header().1.to_owned();
    let asking = |ticket: String| {
        relay.client().get(AnswerRelay::inside_url(&url)).header("x-weft-exchange", ticket).send()
    };
    assert_eq!(asking(ticket.clone()).await.unwrap().status(), StatusCode::OK);
    drop(exchange);
    assert_eq!(asking(ticket).await.unwrap().status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_server_that_is_gone_is_the_failure_of_the_exchange() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", taken.local_addr().unwrap()).parse().unwrap();
    drop(taken);
    let relay = relay(1_000, 1_000);
    let exchange = relay.exchange(&url, AnswerEvents::Lines);
    assert_eq!(ask(&relay, &exchange, &url).await.status(), StatusCode::BAD_GATEWAY);
    let failure = exchange.failure();
    assert!(matches!(&failure, Some(ExchangeFailure::Lost(cause)) if cause.is_connect()), "{failure:?}");
}

/// Reads a request up to the end of its head.
async fn head(stream: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_ends_at_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let relay = relay(1_000, 1_000);
    let ask = |exchange: &RelayedExchange| {
        let (name, ticket) = exchange.header();
        relay.client().get(AnswerRelay::inside_url(&url)).header(name, ticket).send()
    };
    let ends = async |stream: &mut TcpStream| {
        // A connection that breaks is as good as one that ends.
        let read = timeout(Duration::from_secs(20), stream.read(&mut [0; 100])).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
    };
    // Before the answer has begun.
    let exchange = relay.exchange(&url, AnswerEvents::Lines);
    let mut stream = tokio::select! {
        response = ask(&exchange) => panic!("{response:?}"),
        stream = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await;
            stream
        } => stream,
    };
    ends(&mut stream).await;
    // In the middle of it.
    let exchange = relay.exchange(&url, AnswerEvents::Lines);
    let (response, mut stream) = tokio::join!(ask(&exchange), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\none\n").await.unwrap();
        stream
    });
    let mut response = response.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "one\n");
    drop(response);
    ends(&mut stream).await;
}

/// How many connections of relays are open in this process. The tests beside this one have a few, too.
#[cfg(target_os = "linux")]
fn connections() -> usize {
    let sockets = std::fs::read_to_string("/proc/self/net/unix").unwrap();
    sockets.lines().filter(|line| line.contains("@weft-answers-")).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn few_connections_are_kept_after_many_exchanges_at_once() {
    let server = server().await;
    let (relay, url) = (relay(1_000, 1_000), url(&server, "/echo"));
    let before = connections();
    let exchanges: Vec<_> = (0..150).map(|_| relay.exchange(&url, AnswerEvents::Lines)).collect();
    let asking = exchanges.iter().map(|exchange| ask(&relay, exchange, &url));
    for response in futures::future::join_all(asking).await {
        assert_eq!(response.bytes().await.unwrap(), "hello");
    }
    // Those that are not kept are closed by tasks of their own.
    timeout(Duration::from_secs(20), async {
        while connections() > before + 100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
}

#[test]
fn encryption_begins_after_the_relay() {
    let check = |url: &str, expected: &str| {
        assert_eq!(AnswerRelay::inside_url(&url.parse().unwrap()).as_str(), expected);
    };
    check("https://api.example/v1/", "http://api.example/v1/");
    check("https://api.example:8443/v1/", "http://api.example:8443/v1/");
    check("http://127.0.0.1:11434/", "http://127.0.0.1:11434/");
}
