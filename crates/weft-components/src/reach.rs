//! No component reaches what the guard of requests keeps, however an address is written and whoever names it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value as Json, json};
use weft_core::Result;
use weft_core::field::{FieldSpec, specs};
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_net::{AllowList, Connector, Outbound, OutboundRoute, Resolver, StreamRequest, StreamResponse};

use crate::catalog::ALL;
use crate::testing::{Node, Setting, run};

const PUBLIC: &str = "93.184.216.34";

/// Hosts, with what stands before and behind them, that lead to where no canvas may get.
const INSIDE: [&str; 30] = [
    "127.0.0.1",
    "127.1",
    "127.0.0.1:8080",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "0",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "１２７.０.０.１",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "[::]",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00::1]",
    "localhost",
    "LOCALHOST.",
    "inside.example",
    "mixed.example",
    "user:pass@169.254.169.254",
    "public.example:80@127.0.0.1",
];

/// Names, one of which is somewhere else each time it is asked for.
#[derive(Default)]
struct Names(Mutex<bool>);

#[weft_core::async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let addresses: &[&str] = match host.trim_end_matches('.').to_ascii_lowercase().as_str() {
            "localhost" => &["127.0.0.1", "::1"],
            "inside.example" => &["10.1.2.3"],
            "mixed.example" => &[PUBLIC, "169.254.169.254"],
            "turning.example" => {
                let mut inside = self.0.lock().unwrap();
                *inside = !*inside;
                if *inside { &[PUBLIC] } else { &["127.0.0.1"] }
            }
            "public.example" => &[PUBLIC],
            _ => &[],
        };
        Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }
}

/// Answers every request in the same way and keeps where it went.
struct Recorder {
    status: u16,
    location: String,
    routes: Mutex<Vec<OutboundRoute>>,
}

#[weft_core::async_trait]
impl Connector for Recorder {
    async fn exchange(&self, route: &OutboundRoute, _: &HttpRequest) -> Result<HttpResponse> {
        self.routes.lock().unwrap().push(route.clone());
        let headers = vec![("location".to_owned(), self.location.clone())];
        Ok(HttpResponse { status: self.status, headers, body: "{}".to_owned() })
    }

    async fn open(&self, route: &OutboundRoute, _: &StreamRequest) -> Result<StreamResponse> {
        self.routes.lock().unwrap().push(route.clone());
        let headers = vec![("location".to_owned(), self.location.clone())];
        Ok(StreamResponse { status: self.status, headers, body: Box::pin(futures::stream::empty()) })
    }
}

/// Runs a component behind the guard, and gives where its requests went.
async fn went(kind: &'static str, params: Json, status: u16, location: &str) -> Vec<OutboundRoute> {
    let recorder = Arc::new(Recorder { status, location: location.to_owned(), routes: Mutex::default() });
    let http = Outbound::new(AllowList::default(), Arc::new(Names::default()), recorder.clone());
    let node = Node::new(kind, params);
    let seams: crate::testing::Replace = Box::new(move |seams| seams.http = Arc::new(http));
    // What becomes of it is not looked at: some fail, and some go on with what they have.
    drop(run(&node, Setting { query: "anything", seams: Some(seams), ..Setting::default() }).await);
    let routes = recorder.routes.lock().unwrap();
    for route in routes.iter() {
        let targets = [Some(&route.target), route.proxy.as_ref().map(|(_, proxy)| proxy)];
        for address in targets.into_iter().flatten().flat_map(|pinned| &pinned.addresses) {
            assert_eq!(address.ip().to_string(), PUBLIC, "{kind}: {}", route.url);
        }
    }
    routes.clone()
}

/// Fields in which a canvas says where requests go.
fn names_a_place(kind: &str, field: &FieldSpec) -> bool {
    ["url", "base_url", "searxng_url", "proxy"].contains(&field.name)
        || (kind, field.name) == ("Crawler", "query")
}

/// Every component that has such a field, with parameters with which it asks at this address.
fn asking(url: &str) -> Vec<(&'static str, &'static str, Json)> {
    let mut asking = Vec::new();
    // A research asks when its model says so, and then as WebSearch does.
    for spec in ALL.iter().filter(|spec| spec.kind != "DeepResearch") {
        let fields: Vec<&FieldSpec> = specs(spec.fields).collect();
        for place in fields.iter().filter(|field| names_a_place(spec.kind, field)) {
            let mut params = Map::new();
            for field in fields.iter().filter(|field| field.secret) {
                params.insert(field.name.to_owned(), json!("key"));
            }
            if place.name == "proxy" {
                let url = if spec.kind == "Crawler" { "query" } else { "url" };
                params.insert(url.to_owned(), json!("http://public.example/"));
            }
            if fields.iter().any(|field| field.name == "urls") {
                params.insert("urls".to_owned(), json!("http://public.example/"));
            }
            if place.name == "searxng_url" && spec.kind == "WebSearch" {
                params.insert("engine".to_owned(), json!("searxng"));
            }
            params.insert(place.name.to_owned(), json!(url));
            asking.push((spec.kind, place.name, Json::Object(params)));
        }
    }
    asking
}

#[tokio::test(start_paused = true)]
async fn no_component_reaches_what_is_inside() {
    let places = asking("http://public.example/");
    let kinds: BTreeSet<&str> = places.iter().map(|(kind, ..)| *kind).collect();
    for kind in ["Invoke", "HttpGet", "Crawler", "SearXNG", "TavilySearch"] {
        assert!(kinds.contains(kind), "{kind}");
    }
    let mut silent = Vec::new();
    for (kind, name, params) in places {
        if went(kind, params, 200, "").await.is_empty() {
            silent.push((kind, name));
        }
    }
    assert!(silent.is_empty(), "these ask nobody, so that this test would show nothing: {silent:?}");
    for inside in INSIDE {
        for scheme in ["http://", "https://", "HTTP:", "http:\\\\", ""] {
            for (kind, name, params) in asking(&format!("{scheme}{inside}/a")) {
                let routes = went(kind, params, 200, "").await;
                assert!(routes.is_empty(), "{kind} with `{name}` asks at {scheme}{inside}: {routes:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_redirect_leads_inside() {
    for inside in INSIDE {
        for (kind, _, params) in asking("http://public.example/") {
            for status in [301, 302, 307, 308] {
                // `went` looks at every address.
                went(kind, params.clone(), status, &format!("http://{inside}/")).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_turns_inward_is_looked_up_once_for_each_request() {
    for (kind, name, params) in asking("http://turning.example/") {
        let routes = went(kind, params, 302, "http://turning.example/").await;
        assert!(!routes.is_empty(), "{kind} with `{name}`");
    }
}

#[tokio::test(start_paused = true)]
async fn other_schemes_ask_nobody() {
    for url in [
        "file:///etc/passwd",
        "ftp://public.example/",
        "gopher://public.example/",
        "data:,x",
        "ws://public.example/",
    ] {
        for (kind, name, params) in asking(url).into_iter().filter(|(_, name, _)| *name != "proxy") {
            let routes = went(kind, params, 200, "").await;
            assert!(routes.is_empty(), "{kind} with `{name}` asks at {url}: {routes:?}");
        }
    }
}
