//! The address guard, with a resolver that knows a few names and a connector that never connects.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weft_core::seam::Http as _;
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, Result, TenantId};
use weft_net::{AllowList, Connector, Outbound, OutboundRoute, Resolver, StreamRequest, StreamResponse};

struct Names(HashMap<&'static str, Vec<&'static str>>);

#[weft_core::async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let known = self.0.get(host).ok_or_else(|| std::io::Error::other("no such name"))?;
        Ok(known.iter().map(|ip| ip.parse().unwrap()).collect())
    }
}

#[derive(Default)]
struct Recorder(Mutex<Vec<OutboundRoute>>);

#[weft_core::async_trait]
impl Connector for Recorder {
    async fn exchange(&self, route: &OutboundRoute, _request: &HttpRequest) -> Result<HttpResponse> {
        self.0.lock().unwrap().push(route.clone());
        Ok(HttpResponse {
            status: 302,
            headers: vec![("location".into(), "http://127.0.0.1/".into())],
            body: String::new(),
        })
    }

    async fn open(&self, route: &OutboundRoute, _request: &StreamRequest) -> Result<StreamResponse> {
        self.0.lock().unwrap().push(route.clone());
        Ok(StreamResponse { status: 200, headers: vec![], body: Box::pin(futures::stream::empty()) })
    }
}

pub(crate) fn get(url: &str) -> HttpRequest {
    HttpRequest {
        method: "GET".into(),
        url: url.into(),
        headers: vec![],
        body: HttpBody::Empty,
        time_limit: Duration::from_secs(5),
        body_max: 1000,
        proxy: None,
    }
}

struct Setup {
    outbound: Outbound,
    recorder: Arc<Recorder>,
}

fn setup(allowed: &[&str]) -> Setup {
    let names = HashMap::from([
        ("public.example", vec!["93.184.216.34", "2606:2800:220:1::1"]),
        ("inside.example", vec!["10.1.2.3"]),
        ("mixed.example", vec!["93.184.216.34", "169.254.169.254"]),
        ("localhost", vec!["127.0.0.1", "::1"]),
        ("empty.example", vec![]),
    ]);
    let recorder = Arc::new(Recorder::default());
    let allowed = AllowList::parse(allowed).unwrap();
    Setup { outbound: Outbound::new(allowed, Arc::new(Names(names)), recorder.clone()), recorder }
}

impl Setup {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse> {
        self.outbound.send(&TenantId::from("t"), request).await
    }

    async fn refused(&self, request: HttpRequest) -> Error {
        let url = request.url.clone();
        let error = self.send(request).await.err().unwrap_or_else(|| panic!("{url} was allowed"));
        assert!(self.recorder.0.lock().unwrap().is_empty(), "{url} was connected to");
        error
    }
}

#[tokio::test]
async fn a_public_host_is_pinned_to_the_addresses_that_were_checked() {
    let setup = setup(&[]);
    setup.send(get("https://public.example/a?b=c")).await.unwrap();
    let routes = setup.recorder.0.lock().unwrap();
    let expected: Vec<SocketAddr> =
        ["93.184.216.34:443", "[2606:2800:220:1::1]:443"].iter().map(|a| a.parse().unwrap()).collect();
    assert_eq!(routes[0].target.addresses, expected);
    assert_eq!(routes[0].target.host, "public.example");
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let setup = setup(&[]);
    assert_eq!(setup.send(get("http://public.example/")).await.unwrap().status, 302);
    assert_eq!(setup.recorder.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn names_that_resolve_to_private_addresses_are_refused() {
    let setup = setup(&[]);
    for url in
        ["http://inside.example/", "http://mixed.example/", "http://localhost:8080/", "http://LOCALHOST/"]
    {
        assert_eq!(setup.refused(get(url)).await.kind, ErrorKind::Denied, "{url}");
    }
    let error = setup.refused(get("http://inside.example/")).await;
    assert_eq!(error.message, "`inside.example` is at 10.1.2.3, and that is a private address");
    assert!(error.help.unwrap().contains("net.allow"));
}

#[tokio::test]
async fn every_spelling_of_an_address_is_refused() {
    let setup = setup(&[]);
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:7f00:1::]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:pass@169.254.169.254/",
        "http://１２７.０.０.１/",
        "http://%31%32%37.0.0.1/",
        "http://127.0.0.1./",
        "http:\\\\127.0.0.1\\",
        "https:127.0.0.1",
    ] {
        assert_eq!(setup.refused(get(url)).await.kind, ErrorKind::Denied, "{url}");
    }
}

#[tokio::test]
async fn only_http_and_https_urls_are_accepted() {
    let setup = setup(&[]);
    for url in [
        "file:///etc/passwd",
        "gopher://public.example/",
        "ftp://public.example/",
        "public.example",
        "",
        "http://",
    ] {
        assert_eq!(setup.refused(get(url)).await.kind, ErrorKind::Invalid, "{url}");
    }
    for url in ["http://unknown.example/", "http://empty.example/"] {
        assert_eq!(setup.refused(get(url)).await.kind, ErrorKind::Unavailable, "{url}");
    }
}

#[tokio::test]
async fn a_proxy_is_checked_like_any_other_address() {
    let setup = setup(&[]);
    for proxy in ["http://inside.example:3128", "http://127.0.0.1:3128"] {
        let request = HttpRequest { proxy: Some(proxy.into()), ..get("http://public.example/") };
        assert_eq!(setup.refused(request).await.kind, ErrorKind::Denied, "{proxy}");
    }
    let request =
        HttpRequest { proxy: Some("http://public.example:3128".into()), ..get("http://inside.example/") };
    assert_eq!(setup.refused(request).await.kind, ErrorKind::Denied, "the target behind a proxy is checked");
    let request =
        HttpRequest { proxy: Some("socks5://public.example".into()), ..get("http://public.example/") };
    assert_eq!(setup.refused(request).await.kind, ErrorKind::Invalid);
    let request =
        HttpRequest { proxy: Some("http://public.example:3128".into()), ..get("http://public.example/") };
    setup.send(request).await.unwrap();
    assert_eq!(setup.recorder.0.lock().unwrap()[0].proxy.as_ref().unwrap().1.addresses[0].port(), 3128);
}

#[tokio::test]
async fn the_operator_can_allow_hosts_networks_and_ports() {
    let open = setup(&["inside.example:8080", "127.0.0.0/8"]);
    open.send(get("http://inside.example:8080/")).await.unwrap();
    open.send(get("http://2130706433:99/")).await.unwrap();
    let closed = setup(&["inside.example:8080"]);
    assert_eq!(closed.refused(get("http://inside.example/")).await.kind, ErrorKind::Denied);
    assert_eq!(closed.refused(get("http://10.1.2.3:8080/")).await.kind, ErrorKind::Denied);
}
