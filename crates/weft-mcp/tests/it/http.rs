//! Servers at an address, over both HTTP transports.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use weft_core::ErrorKind;
use weft_core::seam::ToolSource as _;
use weft_core::seam::clock::FixedClock;
use weft_core::tool::ToolStep;
use weft_mcp::{Reach, Servers};
use weft_net::{AllowList, Outbound, StreamingHttp};
use weft_testkit::memory_store::MemoryStore;

use crate::fake::Fake;
use crate::http_fake::HttpFake;
use crate::kit::{Bench, call, end, invocation, names, servers, tenant, tool_of};

/// A client configured with this fake as the server `web` of this type.
fn web(http: &HttpFake, kind: &str, more: &str) -> Servers {
    let path = if kind == "sse" { "sse" } else { "mcp" };
    servers(&format!("[servers.web]\nurl = '{}'\ntype = '{kind}'\n{more}", http.url(path)))
}

const KINDS: [&str; 2] = ["streamable-http", "sse"];

#[tokio::test]
async fn every_transport_gives_the_same_definitions() {
    let tools = ["echo", "kinds", "files.read"];
    let bench = Bench::new(&tools, "").await;
    let told = |offered: weft_core::seam::tool_source::Offered| -> Vec<_> {
        let tools = offered.tools.iter();
        tools
            .map(|t| (t.name.clone(), t.description.clone(), t.parameters.clone(), t.traits.clone()))
            .collect()
    };
    let expected = told(bench.offered().await.unwrap());
    let http = HttpFake::start(&Fake::new(&tools));
    for kind in KINDS {
        for streams in [false, true] {
            http.site.streams.store(streams, Ordering::SeqCst);
            let servers = web(&http, kind, "");
            assert_eq!(told(servers.tools(&tenant(), "web").await.unwrap()), expected, "{kind} {streams}");
            let kinds = call(&*tool_of(&servers, "web", "kinds").await, json!({})).await.unwrap();
            assert_eq!((kinds.blocks.len(), kinds.value), (7, Some(json!({"found": 2}))), "{kind} {streams}");
            servers.close().await;
        }
    }
}

#[tokio::test]
async fn headers_are_sent_with_variables_and_without_empty_ones() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    for kind in KINDS {
        http.site.headers.lock().unwrap().clear();
        let more = "headers = { Authorization = 'Bearer ${token}', X-Bare = 'Bearer', X-Empty = ' ', \
                    X-Unknown = '$unknown', '$name' = 'v' }\n\
                    variables = { token = 'reaB-Bear', name = 'X-Named' }";
        let servers = web(&http, kind, more);
        call(&*tool_of(&servers, "web", "echo").await, json!({})).await.unwrap();
        let (tokens, without) = http.sent("authorization");
        assert!(tokens.len() >= 4 && without == 0, "{kind}: {tokens:?}");
        assert!(tokens.iter().all(|token| token == "Bearer reaB-Bear"), "{kind}: {tokens:?}");
        assert!(http.sent("x-bare").0.is_empty() && http.sent("x-empty").0.is_empty());
        assert!(http.sent("x-unknown").0.iter().all(|value| value == "$unknown"));
        assert_eq!(http.sent("x-named").1, 0);
        servers.close().await;
    }
}

#[tokio::test]
async fn a_restarted_server_answers_the_next_call() {
    for kind in KINDS {
        let mut http = HttpFake::start(&Fake::new(&["echo"]));
        let servers = web(&http, kind, "");
        let tool = tool_of(&servers, "web", "echo").await;
        assert_eq!(call(&tool, json!({"n": 1})).await.unwrap().to_text(), "{\"n\":1}");
        for n in 2..4 {
            http.restart().await;
            let told = call(&tool, json!({"n": n})).await.map_err(|error| error.full());
            assert_eq!(told.unwrap().to_text(), format!("{{\"n\":{n}}}"), "{kind}");
        }
        assert_eq!(http.site.fake.sessions(), 3, "{kind}");
        http.kill();
        let error = call(&tool, json!({})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{kind}: {}", error.full());
        servers.close().await;
    }
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_restarted() {
    for bad_request in [false, true] {
        let http = HttpFake::start(&Fake::new(&["echo"]));
        http.site.bad_request.store(bad_request, Ordering::SeqCst);
        let servers = web(&http, "streamable-http", "");
        let tool = tool_of(&servers, "web", "echo").await;
        http.forget();
        assert_eq!(call(&tool, json!({})).await.unwrap().to_text(), "{}");
        assert_eq!((http.site.fake.sessions(), http.site.fake.count("initialize")), (2, 2));
        servers.close().await;
    }
}

#[tokio::test]
async fn a_broken_stream_is_resumed() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    http.site.breaks.store(true, Ordering::SeqCst);
    let servers = web(&http, "streamable-http", "");
    let tool = tool_of(&servers, "web", "echo").await;
    assert_eq!(call(&tool, json!({"n": 5})).await.unwrap().to_text(), "{\"n\":5}");
    assert_eq!(http.sent("last-event-id").0, ["event-1"]);
    assert_eq!(http.site.fake.count("tools/call"), 1);
    servers.close().await;
}

#[tokio::test]
async fn sessions_are_opened_and_closed_as_needed() {
    for kind in KINDS {
        for (stateless, calling) in [(false, 0), (true, 3)] {
            let http = HttpFake::start(&Fake::new(&["echo"]));
            let servers = web(&http, kind, &format!("stateless = {stateless}"));
            let tool = tool_of(&servers, "web", "echo").await;
            for _ in 0..3 {
                call(&tool, json!({})).await.unwrap();
            }
            servers.close().await;
            assert_eq!(http.site.fake.sessions(), 1 + calling, "{kind} {stateless}");
            let ended = http.site.headers.lock().unwrap().iter().filter(|(m, _)| m == "DELETE").count();
            assert_eq!(ended, if kind == "sse" { 0 } else { 1 + calling }, "{kind} {stateless}");
        }
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_aborted_while_it_is_read() {
    for (kind, streams) in [("streamable-http", false), ("streamable-http", true), ("sse", false)] {
        let http = HttpFake::start(&Fake::new(&["huge", "echo", "slow"]));
        http.site.streams.store(streams, Ordering::SeqCst);
        http.site.fake.huge.store(3 << 20, Ordering::SeqCst);
        let servers = web(&http, kind, "result_bytes_max = 20000");
        let error = call(&*tool_of(&servers, "web", "huge").await, json!({})).await.unwrap_err();
        assert!(error.full().contains("more than 20000 bytes"), "{kind} {streams}: {}", error.full());
        let echo = tool_of(&servers, "web", "echo").await;
        assert_eq!(call(&echo, json!({})).await.unwrap().to_text(), "{}", "{kind} {streams}");
        servers.close().await;
    }
}

#[tokio::test]
async fn progress_and_list_changes_arrive_over_every_transport() {
    for kind in KINDS {
        let http = HttpFake::start(&Fake::new(&["steps", "echo"]));
        http.site.streams.store(true, Ordering::SeqCst);
        let servers = web(&http, kind, "");
        let tool = tool_of(&servers, "web", "steps").await;
        let mut steps = tool.body.call(invocation(json!({})).0);
        let Some(Ok(ToolStep::Progress(output))) = steps.next().await else { panic!("{kind}: no progress") };
        assert!(output.to_text().starts_with("1 of 3: step 1"), "{kind}: {output:?}");
        // Calls run concurrently.
        let echo = tool_of(&servers, "web", "echo").await;
        assert_eq!(call(&echo, json!({})).await.unwrap().to_text(), "{}");
        http.site.fake.release.notify_one();
        assert_eq!(end(steps).await.unwrap().to_text(), "done");
        http.site.fake.tools.lock().unwrap().remove(1);
        http.site
            .fake
            .announce(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
            .await;
        while names(&servers.tools(&tenant(), "web").await.unwrap()).len() == 2 {
            tokio::task::yield_now().await;
        }
        servers.close().await;
    }
}

/// It may say so where nobody hears it: without a stream, or in a session that it has forgotten.
#[tokio::test]
async fn a_list_is_kept_for_a_minute_even_if_the_server_says_what_changes() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    let servers = web(&http, "streamable-http", "");
    servers.tools(&tenant(), "web").await.unwrap();
    // Once its stream is open, nothing is under way that the leaps in time below could end.
    while http.site.fake.outs.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    for (passed, lists) in [(50, 1), (20, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(passed)).await;
        tokio::time::resume();
        servers.tools(&tenant(), "web").await.unwrap();
        assert_eq!(http.site.fake.count("tools/list"), lists);
    }
    servers.close().await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    for kind in KINDS {
        let http = HttpFake::start(&Fake::new(&["slow"]));
        http.site.streams.store(true, Ordering::SeqCst);
        let servers = web(&http, kind, "");
        let tool = tool_of(&servers, "web", "slow").await;
        let (invocation, cancel) = invocation(json!({}));
        let stop = async {
            http.site.fake.until("tools/call", 1).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(end(tool.body.call(invocation)), stop);
        assert_eq!(outcome.unwrap_err().kind, ErrorKind::Cancelled);
        http.site.fake.until("notifications/cancelled", 1).await;
        servers.close().await;
    }
}

#[tokio::test]
async fn errors_tell_why_a_server_cannot_be_used() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    let told = async |settings: &str| {
        let servers = servers(&format!("[servers.web]\n{settings}"));
        let error = servers.tools(&tenant(), "web").await.unwrap_err();
        (error.kind, error.full())
    };
    let check = |(kind, text): (ErrorKind, String), expected: ErrorKind, part: &str| {
        assert!(kind == expected && text.contains(part), "{kind:?}: {text}");
        assert!(text.starts_with("cannot connect to the MCP server `web`: "), "{text}");
    };
    let nowhere = http.url("nowhere");
    check(told(&format!("url = '{nowhere}'")).await, ErrorKind::Invalid, "no MCP server at this address");
    check(told(&format!("url = '{nowhere}'\ntype = 'sse'")).await, ErrorKind::Invalid, "check `url`");
    let (mcp, messages) = (http.url("mcp"), http.url("messages"));
    let refused = told(&format!("url = '{messages}'\ntype = 'sse'")).await;
    check(refused, ErrorKind::Invalid, "rejects the request (status 405) (check `url` and `type`");
    *http.site.auth.token.lock().unwrap() = Some("other".to_owned());
    for url in [format!("url = '{mcp}'"), format!("url = '{}'\ntype = 'sse'", http.url("sse"))] {
        let settings = format!("{url}\nheaders = {{ Authorization = 'Bearer s3cret' }}");
        let answer = told(&settings).await;
        assert!(!answer.1.contains("s3cret"));
        check(answer, ErrorKind::Unauthenticated, "check `headers`");
    }
}

#[tokio::test]
async fn a_server_without_sessions_gets_the_newer_protocol() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    http.site.fake.modern.store(true, Ordering::SeqCst);
    let servers = web(&http, "streamable-http", "");
    let tool = tool_of(&servers, "web", "echo").await;
    assert_eq!(call(&tool, json!({"n": 1})).await.unwrap().to_text(), "{\"n\":1}");
    assert_eq!(http.sent("mcp-session-id").0, [""; 0]);
    assert_eq!(http.sent("mcp-method").0.last().unwrap(), "tools/call");
    servers.close().await;
}

#[tokio::test]
async fn the_client_works_through_the_address_guard() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    for kind in KINDS {
        let path = if kind == "sse" { "sse" } else { "mcp" };
        let config = format!("[servers.web]\nurl = '{}'\ntype = '{kind}'", http.url(path));
        let ask = async |allowed: AllowList| {
            let guard: Arc<dyn StreamingHttp> = Arc::new(Outbound::open(allowed));
            let (pins, clock) = (Arc::new(MemoryStore::new()), Arc::new(FixedClock(0)));
            let servers = Servers::open(
                toml::from_str(&config).unwrap(),
                &Reach::by(&guard),
                pins,
                clock,
                &crate::kit::credentials(),
            )
            .unwrap();
            let offered = servers.tools(&tenant(), "web").await.map(|offered| offered.tools.len());
            servers.close().await;
            offered.map_err(|error| error.kind)
        };
        assert_eq!(ask(AllowList::none()).await, Err(ErrorKind::Denied), "{kind}");
        assert!(http.site.headers.lock().unwrap().is_empty());
        assert_eq!(ask(AllowList::parse(["127.0.0.1"]).unwrap()).await, Ok(1), "{kind}");
        http.site.headers.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn requests_of_the_2024_transport_stay_at_the_same_origin() {
    let (http, other) = (HttpFake::start(&Fake::new(&["echo"])), HttpFake::start(&Fake::new(&["echo"])));
    *http.site.elsewhere.lock().unwrap() = Some(other.url("messages"));
    let servers = web(&http, "sse", "headers = { Authorization = 'Bearer s3cret' }");
    let error = servers.tools(&tenant(), "web").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.full().contains("which is another origin"), "{}", error.full());
    assert!(other.site.headers.lock().unwrap().is_empty());
}
