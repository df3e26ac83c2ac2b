//! Calling tools of a server in the same process.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use weft_core::tool::{BASIC_GROUP, Block, Origin, ToolStep};
use weft_core::{ErrorKind, ToolOutput};

use crate::kit::{Bench, call, end, invocation, names, tenant};
use weft_core::seam::ToolSource as _;

#[tokio::test]
async fn a_tool_of_a_server_works_like_any_other() {
    let settings = "preset.echo = { n = 3 }\ntools.echo = { approval = true, poll = true, alone = true, call_seconds = 5 }";
    let bench = Bench::new(&["echo", "other"], settings).await;
    let tool = bench.tool("echo").await;
    assert_eq!((tool.description.as_str(), tool.group.as_str()), ("does echo", BASIC_GROUP));
    assert_eq!(tool.origin, Origin::Mcp("fake".to_owned()));
    assert_eq!(
        tool.parameters,
        json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
    );
    assert_eq!(tool.preset["n"], 3);
    let traits = &tool.traits;
    assert!(traits.approval && traits.poll && traits.alone && !traits.idempotent && !traits.sources);
    assert_eq!(traits.time_limit, Duration::from_secs(5));
    let told = call(&tool, json!({"q": "汉字", "n": 3})).await.unwrap();
    assert_eq!(told, ToolOutput::text("{\"q\":\"汉字\",\"n\":3}"));
}

#[tokio::test]
async fn every_kind_of_content_becomes_a_block_and_the_value_is_kept() {
    let bench = Bench::new(&["kinds"], "").await;
    let told = bench.call("kinds").await.unwrap();
    let resource = |uri: &str, media_type: &str, text: Option<&str>| Block::Resource {
        uri: uri.into(),
        media_type: Some(media_type.into()),
        text: text.map(str::to_owned),
    };
    let expected = [
        Block::Text { text: "汉字".into() },
        Block::Image { url: "data:image/png;base64,AA==".into() },
        Block::Audio { url: "data:audio/wav;base64,AA==".into() },
        resource("file:///a.txt", "text/plain", Some("inside")),
        resource("data:application/zip;base64,AA==", "application/zip", None),
        resource("file:///b.txt", "text/plain", None),
        Block::Text { text: "{\"type\":\"hologram\",\"size\":3}".into() },
    ];
    assert_eq!(told.blocks, expected);
    assert_eq!((told.value, told.failed), (Some(json!({"found": 2})), false));
}

#[tokio::test]
async fn tool_failures_and_protocol_errors_are_distinguished() {
    let settings = "headers = { X-Token = 's3cret-token' }";
    let bench = Bench::new(&["fails", "refuses", "echo"], settings).await;
    let told = bench.call("fails").await.unwrap();
    assert_eq!((told.to_text().as_str(), told.failed), ("no luck", true));
    let error = bench.call("refuses").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(
        error.full(),
        "cannot call `refuses` of the MCP server `fake`: the server returned an error: broken with *** inside (code -32603)"
    );
    assert!(!bench.call("echo").await.unwrap().failed);
    assert_eq!(bench.fake.sessions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_tool_times_out_without_delaying_others() {
    let bench = Bench::new(&["never", "echo"], "call_seconds = 30\ntools.never = { call_seconds = 5 }").await;
    let (never, echo) = (bench.tool("never").await, bench.tool("echo").await);
    let begun = tokio::time::Instant::now();
    let slow = call(&never, json!({"q": "x"}));
    let others = async {
        bench.fake.until("tools/call", 1).await;
        for at in 0..20 {
            assert_eq!(call(&echo, json!({"n": at})).await.unwrap().to_text(), format!("{{\"n\":{at}}}"));
        }
        begun.elapsed()
    };
    let (slow, others) = tokio::join!(slow, others);
    assert_eq!(others, Duration::ZERO);
    let error = slow.unwrap_err();
    assert_eq!((error.kind, begun.elapsed()), (ErrorKind::Timeout, Duration::from_secs(5)));
    assert!(error.full().contains("cannot call `never` of the MCP server `fake`: no answer within 5 s"));
    bench.fake.until("notifications/cancelled", 1).await;
    let told = &bench.fake.seen("notifications/cancelled")[0]["params"];
    assert_eq!(told["requestId"], bench.fake.seen("tools/call")[0]["id"]);
    assert_eq!(bench.fake.sessions(), 1);
}

#[tokio::test]
async fn cancelling_a_call_notifies_the_server() {
    let bench = Bench::new(&["never", "echo"], "").await;
    let tool = bench.tool("never").await;
    // Cancelled by the run.
    let (invocation_, cancel) = invocation(json!({"q": "x"}));
    let stop = async {
        bench.fake.until("tools/call", 1).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(end(tool.body.call(invocation_)), stop);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Cancelled);
    bench.fake.until("notifications/cancelled", 1).await;
    // Cancelled because its stream is dropped.
    let mut steps = tool.body.call(invocation(json!({"q": "y"})).0);
    tokio::select! {
        _ = steps.next() => panic!("it never answers"),
        () = bench.fake.until("tools/call", 2) => {}
    }
    drop(steps);
    bench.fake.until("notifications/cancelled", 2).await;
    let (calls, told) = (bench.fake.seen("tools/call"), bench.fake.seen("notifications/cancelled"));
    for (call, told) in calls.iter().zip(&told) {
        assert_eq!(call["id"], told["params"]["requestId"]);
    }
    // A call that has been answered is not cancelled.
    bench.call("echo").await.unwrap();
    bench.servers.close().await;
    assert_eq!(bench.fake.count("notifications/cancelled"), 2);
}

#[tokio::test]
async fn progress_is_reported_as_it_increases() {
    let bench = Bench::new(&["steps"], "").await;
    let tool = bench.tool("steps").await;
    let mut steps = tool.body.call(invocation(json!({"q": "x"})).0);
    let mut last = String::new();
    while !last.ends_with("3 of 3: step 3") {
        let Some(Ok(ToolStep::Progress(output))) = steps.next().await else { panic!("no progress") };
        assert!(output.to_text().starts_with(&last), "{last} {output:?}");
        last = output.to_text();
    }
    assert_eq!(last, "1 of 3: step 1\n2 of 3: step 2\n3 of 3: step 3");
    bench.fake.release.notify_one();
    assert_eq!(end(steps).await.unwrap(), ToolOutput::text("done"));
}

#[tokio::test(start_paused = true)]
async fn endless_progress_does_not_extend_the_timeout_of_a_call() {
    let bench = Bench::new(&["chatters"], "").await;
    let tool = bench.tool("chatters").await;
    let mut steps = tool.body.call(invocation(json!({"q": "x"})).0);
    assert!(matches!(steps.next().await, Some(Ok(ToolStep::Progress(_)))));
    tokio::time::advance(Duration::from_secs(61)).await;
    // Give the server time to send more.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let Some(Err(error)) = steps.next().await else { panic!("more progress") };
    assert_eq!(error.kind, ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_to_list_its_tools_is_closed() {
    let bench = Bench::new(&["echo"], "list_seconds = 3600").await;
    bench.fake.deaf.lock().unwrap().push("tools/list");
    let begun = tokio::time::Instant::now();
    let removing = async {
        bench.fake.until("tools/list", 1).await;
        assert!(bench.servers.remove("fake").await);
    };
    let (offered, ()) = tokio::join!(bench.offered(), removing);
    let error = offered.unwrap_err();
    assert!(error.full().contains("it has been closed"), "{}", error.full());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stateful_server_has_one_session_and_a_stateless_one_has_one_for_each_call() {
    let sessions = async |settings: &str| {
        let bench = Bench::new(&["echo"], settings).await;
        let tool = bench.tool("echo").await;
        let listing = bench.fake.sessions();
        for _ in 0..3 {
            call(&tool, json!({})).await.unwrap();
        }
        tokio::join!(async { call(&tool, json!({})).await.unwrap() }, async {
            call(&tool, json!({})).await.unwrap()
        });
        let calling = bench.fake.sessions() - listing;
        bench.servers.close().await;
        (listing, calling)
    };
    assert_eq!(sessions("stateless = false").await, (1, 0));
    assert_eq!(sessions("stateless = true").await, (1, 5));
}

#[tokio::test]
async fn calls_to_a_closed_or_removed_server_fail() {
    let bench = Bench::new(&["echo", "slow"], "").await;
    assert_eq!(bench.fake.sessions(), 0, "the connection is opened only when it is needed");
    let (echo, slow) = (bench.tool("echo").await, bench.tool("slow").await);
    let removing = async {
        bench.fake.until("tools/call", 1).await;
        assert!(bench.servers.remove("fake").await);
    };
    let (outcome, ()) = tokio::join!(call(&slow, json!({})), removing);
    assert!(outcome.unwrap_err().full().contains("closed"));
    assert!(call(&echo, json!({})).await.unwrap_err().full().contains("it has been closed"));
    assert_eq!(bench.offered().await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!((bench.servers.names().len(), bench.servers.remove("fake").await), (0, false));

    let bench = Bench::new(&["echo"], "").await;
    bench.servers.close().await;
    let error = bench.servers.tools(&tenant(), "fake").await.unwrap_err();
    assert!(error.full().contains("it has been closed"), "{}", error.full());
    assert_eq!((error.kind, bench.fake.sessions()), (ErrorKind::Unavailable, 0));
}

#[tokio::test]
async fn the_error_for_an_unknown_server_lists_the_known_ones() {
    let bench = Bench::new(&["echo"], "").await;
    let error = bench.servers.tools(&tenant(), "fkae").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(
        error.full(),
        "there is no MCP server `fkae` (configure it below `mcp.servers`; known servers are fake)"
    );
    assert_eq!(names(&bench.offered().await.unwrap()), ["echo"]);
}
