//! Responses that are read while they arrive.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use weft_core::ErrorKind;
use weft_net::{
    AllowList, DirectConnector, NotSent, OperatorHttp, Outbound, Resolver, StreamRequest, StreamingHttp,
};

use crate::exchange::{outbound, server};

fn ask(method: &str, url: String, body: &str) -> StreamRequest {
    let headers = vec![("x-key".to_owned(), "s3cret".to_owned())];
    StreamRequest { method: method.into(), url, headers, body: body.into() }
}

#[tokio::test]
async fn both_clients_stream_the_same_exchange() {
    let server = server().await;
    let (operator, guarded) = (OperatorHttp::new().unwrap(), outbound(&server));
    let both: [&dyn StreamingHttp; 2] = [&operator, &guarded];
    for http in both {
        let request = ask("POST", format!("http://{}/echo", server.address), "hello");
        assert!(!format!("{request:?}").contains("s3cret"));
        let response = http.open(request).await.unwrap();
        assert_eq!((response.status, response.header("x-seen")), (200, Some("s3cret")));
        assert_eq!(response.read(5).await.unwrap(), b"hello");
        let away = ask("GET", format!("http://{}/away", server.address), "");
        assert_eq!(http.open(away).await.unwrap().status, 307);
    }
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_the_limit() {
    let server = server().await;
    let http = OperatorHttp::new().unwrap();
    let endless = || ask("GET", format!("http://{}/endless", server.address), "");
    let response = http.open(endless()).await.unwrap();
    assert_eq!(response.read(10_000).await.unwrap_err().message, "the answer has more than 10000 bytes");
    let mut body = http.open(endless()).await.unwrap().body;
    assert!(body.next().await.unwrap().unwrap().starts_with(b"0123456789"));
}

#[tokio::test]
async fn an_error_says_that_the_request_was_not_sent() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?key=s3cret", taken.local_addr().unwrap());
    drop(taken);
    let error = OperatorHttp::new().unwrap().open(ask("GET", url, "")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.source().unwrap().is::<NotSent>(), "{}", error.full());
    assert!(error.full().contains("refused") && !error.full().contains("s3cret"), "{}", error.full());
}

#[tokio::test]
async fn the_guard_also_checks_streamed_exchanges() {
    let server = server().await;
    let refusing = weft_net::Outbound::open(weft_net::AllowList::none());
    let request = ask("GET", format!("http://{}/echo", server.address), "");
    assert_eq!(refusing.open(request).await.unwrap_err().kind, ErrorKind::Denied);
}

/// A resolver that never answers.
struct Silent;

#[weft_core::async_trait]
impl Resolver for Silent {
    async fn resolve(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_never_ends_times_out() {
    let outbound = Outbound::new(AllowList::none(), Arc::new(Silent), Arc::new(DirectConnector::default()));
    let asked = outbound.open(ask("GET", "http://a.example/".to_owned(), ""));
    let answer = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("an answer");
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Timeout);
}
