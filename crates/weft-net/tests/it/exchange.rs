//! Real exchanges with a server on loopback, which the list allows.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get as on_get};
use futures::StreamExt as _;
use tokio::task::JoinSet;
use weft_core::seam::Http as _;
use weft_core::seam::http::{HttpBody, HttpRequest};
use weft_core::{ErrorKind, TenantId};
use weft_net::{AllowList, DirectConnector, Outbound, Resolver};

use crate::guard::get;

pub(crate) struct Server {
    pub address: SocketAddr,
    _tasks: JoinSet<()>,
}

pub(crate) async fn server() -> Server {
    let endless = || async {
        let pieces = futures::stream::repeat(()).map(|()| Ok::<_, std::io::Error>("0123456789".repeat(100)));
        Body::from_stream(pieces)
    };
    let router = Router::new()
        .route(
            "/echo",
            any(|headers: HeaderMap, body: String| async move {
                let key = headers.get("x-key").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
                ([("x-seen", key)], body).into_response()
            }),
        )
        .route(
            "/packed/{status}/{packing}",
            on_get(|Path((status, packing)): Path<(u16, String)>| async move {
                (StatusCode::from_u16(status).unwrap(), [("content-encoding", packing)], "\u{8}plain")
            }),
        )
        .route("/away", on_get(|| async { Redirect::temporary("/echo") }))
        .route("/endless", on_get(endless))
        .route("/never", on_get(|| async { std::future::pending::<()>().await }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    Server { address, _tasks: tasks }
}

pub(crate) fn outbound(server: &Server) -> Outbound {
    Outbound::open(AllowList::parse([server.address.to_string()]).unwrap())
}

#[tokio::test]
async fn requests_carry_method_headers_and_body() {
    let server = server().await;
    let url = format!("http://{}/echo", server.address);
    let request = HttpRequest {
        method: "POST".into(),
        headers: vec![("x-key".into(), "k".into())],
        body: HttpBody::Form(vec![("a".into(), "b c".into())]),
        ..get(&url)
    };
    let response = outbound(&server).send(&TenantId::from("t"), request).await.unwrap();
    assert_eq!((response.status, response.body.as_str()), (200, "a=b+c"));
    assert!(response.headers.contains(&("x-seen".into(), "k".into())));
}

#[tokio::test]
async fn redirects_are_not_followed_and_endless_bodies_are_cut() {
    let server = server().await;
    let outbound = outbound(&server);
    let tenant = TenantId::from("t");
    let response = outbound.send(&tenant, get(&format!("http://{}/away", server.address))).await.unwrap();
    assert_eq!(response.status, 307);
    let error = outbound.send(&tenant, get(&format!("http://{}/endless", server.address))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("more than 1000 bytes"));
}

#[tokio::test]
async fn an_unsupported_content_encoding_is_an_error() {
    let server = server().await;
    let outbound = outbound(&server);
    let tenant = TenantId::from("t");
    let ask =
        async |path: &str| outbound.send(&tenant, get(&format!("http://{}{path}", server.address))).await;
    let error = ask("/packed/200/br").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Garbled);
    assert!(error.message.contains("has the encoding `br`"), "{}", error.message);
    assert_eq!(ask("/packed/200/identity,%20Zstd").await.unwrap_err().kind, ErrorKind::Garbled);
    let refused = ask("/packed/401/deflate").await.unwrap();
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("has the encoding `deflate`"), "{}", refused.body);
    // Many servers make this mistake, and their answers can be read.
    assert_eq!(ask("/packed/200/utf-8").await.unwrap().body, "\u{8}plain");
}

#[tokio::test]
async fn an_exchange_times_out() {
    let server = server().await;
    let request = HttpRequest {
        time_limit: Duration::from_micros(99_987),
        ..get(&format!("http://{}/never", server.address))
    };
    let error = outbound(&server).send(&TenantId::from("t"), request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.ends_with("within 0.1 s"), "{}", error.message);
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outbound = Outbound::open(AllowList::parse(["127.0.0.1"]).unwrap());
    let error =
        outbound.send(&TenantId::from("t"), get(&format!("http://{address}/?key=secret"))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!error.full().contains("secret"), "{}", error.full());
}

/// Resolves every name to this machine on the first lookup, and to another machine afterwards.
#[derive(Default)]
struct Rebinding(std::sync::atomic::AtomicUsize);

#[weft_core::async_trait]
impl Resolver for Rebinding {
    async fn resolve(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(vec![if asked == 0 { [127, 0, 0, 1].into() } else { [10, 0, 0, 1].into() }])
    }
}

#[tokio::test]
async fn a_connection_uses_the_checked_address_without_a_second_lookup() {
    let server = server().await;
    let resolver = Arc::new(Rebinding::default());
    let allowed = AllowList::parse(["127.0.0.1"]).unwrap();
    let outbound = Outbound::new(allowed, resolver.clone(), Arc::new(DirectConnector::default()));
    let url = format!("http://no-such-name.invalid:{}/echo", server.address.port());
    let tenant = TenantId::from("t");
    assert_eq!(outbound.send(&tenant, get(&url)).await.unwrap().status, 200);
    assert_eq!(resolver.0.load(std::sync::atomic::Ordering::SeqCst), 1);
    // The second lookup leads elsewhere, and an open connection to the first address is not used.
    assert_eq!(outbound.send(&tenant, get(&url)).await.unwrap_err().kind, ErrorKind::Denied);
}
