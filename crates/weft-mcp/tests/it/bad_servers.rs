//! Servers that crash, hang, answer too much or speak another protocol.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weft_core::ErrorKind;
use weft_mcp::{Dial, ServerWire};

use crate::fake::Fake;
use crate::kit::{Bench, call, names, servers, settings, tool_of};

#[tokio::test]
async fn a_server_that_died_between_calls_is_reconnected() {
    let bench = Bench::new(&["echo"], "").await;
    let tool = bench.tool("echo").await;
    for sessions in 1..=4 {
        assert_eq!(call(&tool, json!({})).await.unwrap().to_text(), "{}");
        assert_eq!(bench.fake.sessions(), sessions);
        bench.dial.kill().await;
    }
}

#[tokio::test]
async fn a_call_that_killed_the_server_is_repeated_only_if_idempotent() {
    let bench = Bench::new(&["die", "echo"], "").await;
    let error = bench.call("die").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(error.help.as_deref(), Some("the call may have been carried out all the same"));
    assert_eq!((bench.fake.count("tools/call"), bench.fake.sessions()), (1, 1));
    bench.call("echo").await.unwrap();
    assert_eq!(bench.fake.sessions(), 2);

    let bench = Bench::new(&["die"], "tools.die = { idempotent = true }").await;
    bench.call("die").await.unwrap_err();
    assert_eq!((bench.fake.count("tools/call"), bench.fake.sessions()), (2, 2));
}

#[tokio::test]
async fn an_answer_over_the_limit_is_dropped_and_the_server_stays_connected() {
    let bench = Bench::new(&["huge", "echo"], "result_bytes_max = 20000").await;
    bench.fake.huge.store(10_000, Ordering::SeqCst);
    assert_eq!(bench.call("huge").await.unwrap().to_text().len(), 10_000);
    bench.fake.huge.store(1 << 20, Ordering::SeqCst);
    let error = bench.call("huge").await.unwrap_err();
    assert!(error.full().contains("more than 20000 bytes"), "{}", error.full());
    assert_eq!(bench.call("echo").await.unwrap().to_text(), "{\"q\":\"x\"}");
}

#[tokio::test(start_paused = true)]
async fn connecting_and_listing_time_out() {
    for (method, seconds, words) in [
        ("initialize", 10, "cannot connect to the MCP server `fake`: no answer within 10 s"),
        ("tools/list", 15, "cannot list the tools of the MCP server `fake`: no list of tools within 15 s"),
    ] {
        let bench = Bench::new(&["echo"], "").await;
        bench.fake.deaf.lock().unwrap().push(method);
        let begun = Instant::now();
        let error = bench.offered().await.unwrap_err();
        assert_eq!((error.kind, begun.elapsed()), (ErrorKind::Timeout, Duration::from_secs(seconds)));
        assert_eq!(error.full(), words);
        bench.fake.deaf.lock().unwrap().clear();
        assert_eq!(names(&bench.offered().await.unwrap()), ["echo"]);
    }
}

#[tokio::test]
async fn an_unknown_version_is_named() {
    let bench = Bench::new(&["echo"], "").await;
    *bench.fake.version.lock().unwrap() = Some("1999-01-01");
    let error = bench.offered().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let told = error.full();
    assert!(told.contains("uses version `1999-01-01` of MCP, which is not supported here"), "{told}");
    assert!(told.contains("2024-11-05") && told.contains("2025-11-25"), "{told}");
    for known in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let bench = Bench::new(&["echo"], "").await;
        *bench.fake.version.lock().unwrap() = Some(known);
        assert_eq!(names(&bench.offered().await.unwrap()), ["echo"], "{known}");
    }
}

#[tokio::test]
async fn a_refused_version_falls_back_to_the_newest_that_the_server_names() {
    let bench = Bench::new(&["echo"], "").await;
    *bench.fake.supported.lock().unwrap() = vec!["2024-11-05", "2025-03-26", "1999-01-01"];
    assert_eq!(names(&bench.offered().await.unwrap()), ["echo"]);
    let asked: Vec<_> = bench.fake.seen("initialize").iter().map(version).collect();
    assert_eq!(asked, ["2025-11-25", "2025-03-26"]);

    let bench = Bench::new(&["echo"], "").await;
    *bench.fake.supported.lock().unwrap() = vec!["1999-01-01"];
    let error = bench.offered().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let told = error.full();
    assert!(
        told.contains("the server rejected the initialization: Unsupported protocol version (code -32602)"),
        "{told}"
    );
    assert!(told.contains("this program supports MCP 2024-11-05"), "{told}");
}

fn version(message: &serde_json::Value) -> String {
    message["params"]["protocolVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_server_without_initialize_gets_the_newer_protocol() {
    let bench = Bench::new(&["echo"], "").await;
    bench.fake.modern.store(true, Ordering::SeqCst);
    assert_eq!(bench.call("echo").await.unwrap().to_text(), "{\"q\":\"x\"}");
    assert_eq!((bench.fake.count("server/discover"), bench.fake.count("initialize")), (1, 1));
    let call = &bench.fake.seen("tools/call")[0];
    assert_eq!(call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{call}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_floods_requests_and_reads_nothing_is_closed() {
    let asking = Arc::new(Asking::default());
    let servers = servers("");
    let dial = Arc::clone(&asking) as Arc<dyn Dial>;
    servers.add("fake", settings("url = 'http://unused'"), dial).await;
    let tool = tool_of(&servers, "fake", "echo").await;
    let error = call(&tool, json!({})).await.unwrap_err();
    assert!(error.full().contains("accepts no responses"), "{}", error.full());
}

/// Starts normally, lists a tool, and then sends requests without end and never reads again.
#[derive(Default)]
struct Asking(Mutex<JoinSet<()>>);

#[weft_core::async_trait]
impl Dial for Asking {
    async fn dial(&self) -> weft_core::Result<ServerWire> {
        let (ours, theirs) = tokio::io::duplex(1_000);
        self.0.lock().unwrap().spawn(async move {
            let (source, mut sink) = tokio::io::split(theirs);
            let (out, mut answers) = mpsc::channel(10);
            let (fake, mut lines) = (Fake::new(&["echo"]), BufReader::new(source).lines());
            while fake.count("tools/list") == 0 {
                let line = lines.next_line().await.unwrap().unwrap();
                fake.take(serde_json::from_str(&line).unwrap(), &out).await;
                while let Ok(answer) = answers.try_recv() {
                    sink.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
                }
            }
            for id in 0_u64.. {
                let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
                if sink.write_all(format!("{ping}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let (source, sink) = tokio::io::split(ours);
        Ok(ServerWire::lines(Box::new(source), Box::new(sink), 100_000))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_server_that_returns_soon() {
    let bench = Bench::new(&["echo"], "").await;
    *bench.dial.unreachable.lock().unwrap() = 3;
    let begun = Instant::now();
    assert_eq!(bench.call("echo").await.unwrap().to_text(), "{\"q\":\"x\"}");
    assert_eq!((*bench.dial.attempts.lock().unwrap(), begun.elapsed()), (4, Duration::from_millis(3_500)));
}

#[tokio::test(start_paused = true)]
async fn simultaneous_calls_share_one_attempt_to_connect() {
    let connecting = ("initialize", 10, "cannot connect to the MCP server `fake`: no answer within 10 s");
    let listing =
        ("tools/list", 15, "cannot list the tools of the MCP server `fake`: no list of tools within 15 s");
    for settings in ["", "stateless = true"] {
        for (deaf, seconds, words) in [connecting, listing] {
            let bench = Bench::new(&["echo"], settings).await;
            bench.fake.deaf.lock().unwrap().push(deaf);
            let begun = Instant::now();
            let all = futures::future::join_all((0..5).map(|_| bench.offered())).await;
            for offered in all {
                let error = offered.unwrap_err();
                assert_eq!((error.kind, error.full().as_str()), (ErrorKind::Timeout, words), "{settings}");
            }
            assert!(begun.elapsed() < Duration::from_secs(seconds + 1), "{settings} {:?}", begun.elapsed());
            assert_eq!(*bench.dial.attempts.lock().unwrap(), 1, "{settings} {deaf}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_does_not_wait_for_a_new_connection() {
    let bench = Bench::new(&["die", "never"], "tools.die = { idempotent = true }").await;
    let (die, never) = (bench.tool("die").await, bench.tool("never").await);
    bench.fake.deaf.lock().unwrap().push("initialize");
    let begun = Instant::now();
    let dying = async {
        bench.fake.until("tools/call", 1).await;
        // The call is repeated over another connection, which the server does not open.
        call(&die, json!({})).await
    };
    let lost = async { (call(&never, json!({})).await, begun.elapsed()) };
    let (died, (lost, after)) = tokio::join!(dying, lost);
    assert_eq!(
        (died.unwrap_err().kind, lost.unwrap_err().kind),
        (ErrorKind::Timeout, ErrorKind::Unavailable)
    );
    assert!(after < Duration::from_secs(1) && begun.elapsed() >= Duration::from_secs(10), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_server_that_stays_down_fail_fast_after_a_while() {
    let bench = Bench::new(&["echo"], "").await;
    *bench.dial.unreachable.lock().unwrap() = 1_000;
    let begun = Instant::now();
    let error = bench.offered().await.unwrap_err();
    assert_eq!(error.full(), "cannot connect to the MCP server `fake`: nobody is there");
    assert_eq!((*bench.dial.attempts.lock().unwrap(), begun.elapsed()), (4, Duration::from_millis(3_500)));
    // The next request, such as a call of one of its tools, tries once more.
    let begun = Instant::now();
    let error = bench.offered().await.unwrap_err();
    assert_eq!(error.full(), "cannot connect to the MCP server `fake`: nobody is there");
    assert_eq!((*bench.dial.attempts.lock().unwrap(), begun.elapsed()), (5, Duration::from_secs(4)));
    // After that, calls fail at once without an attempt to connect.
    let begun = Instant::now();
    let error = bench.offered().await.unwrap_err();
    assert!(
        error.full().contains(
            "could not be reached, 5 times in a row (nobody is there); the next attempt is in 8.0 s"
        )
    );
    assert_eq!((*bench.dial.attempts.lock().unwrap(), begun.elapsed()), (5, Duration::ZERO));
    // After the pause one attempt is made.
    tokio::time::advance(Duration::from_secs(8)).await;
    bench.offered().await.unwrap_err();
    assert_eq!(*bench.dial.attempts.lock().unwrap(), 6);
    *bench.dial.unreachable.lock().unwrap() = 0;
    tokio::time::advance(Duration::from_secs(16)).await;
    bench.offered().await.unwrap();
    assert_eq!(bench.fake.sessions(), 1);
}
