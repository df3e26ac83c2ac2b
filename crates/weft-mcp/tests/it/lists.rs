//! Tool lists: pages, changes, filters.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use weft_core::ErrorKind;

use crate::fake::tool;
use crate::kit::{Bench, call, names};

#[tokio::test]
async fn long_lists_are_read_page_by_page() {
    let tools: Vec<String> = (0..25).map(|at| format!("t{at}")).collect();
    let bench = Bench::new(&tools.iter().map(String::as_str).collect::<Vec<_>>(), "").await;
    bench.fake.page.store(10, Ordering::SeqCst);
    assert_eq!(names(&bench.offered().await.unwrap()), tools);
    assert_eq!(bench.fake.count("tools/list"), 3);
}

#[tokio::test]
async fn a_list_that_is_too_long_in_total_is_refused() {
    let bench = Bench::new(&[], "").await;
    let mut large = tool("large");
    large["description"] = "x".repeat(1 << 20).into();
    *bench.fake.tools.lock().unwrap() = vec![large; 40];
    bench.fake.page.store(2, Ordering::SeqCst);
    let error = bench.offered().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Garbled);
    assert!(error.full().contains("list of tools has more than"), "{}", error.full());
    assert!(bench.fake.count("tools/list") < 12);
}

#[tokio::test]
async fn very_large_timeouts_mean_no_timeout() {
    let longest = "connect_seconds = 9223372036854775807\nlist_seconds = 9223372036854775807";
    let bench = Bench::new(&["echo"], &format!("{longest}\ncall_seconds = 9223372036854775807")).await;
    assert_eq!(bench.call("echo").await.unwrap().to_text(), "{\"q\":\"x\"}");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_cached_until_the_server_reports_a_change() {
    let bench = Bench::new(&["echo"], "").await;
    for _ in 0..3 {
        bench.offered().await.unwrap();
        tokio::time::advance(Duration::from_secs(3_600)).await;
    }
    assert_eq!(bench.fake.count("tools/list"), 1);
    bench.fake.tools.lock().unwrap().push(tool("new"));
    bench.fake.announce(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    // The notification and our request cross; what follows the notification is used.
    while bench.fake.count("tools/list") < 2 {
        bench.offered().await.unwrap();
    }
    assert_eq!(names(&bench.offered().await.unwrap()), ["echo", "new"]);
    assert_eq!(bench.fake.count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_change_notifications_is_cached_for_a_minute() {
    let bench = Bench::new(&["echo"], "stateless = true").await;
    for (passed, lists) in [(0, 1), (59, 1), (2, 2)] {
        tokio::time::advance(Duration::from_secs(passed)).await;
        bench.offered().await.unwrap();
        assert_eq!(bench.fake.count("tools/list"), lists);
    }
}

#[tokio::test]
async fn only_enabled_tools_are_offered() {
    let offered = async |settings: &str| {
        let bench = Bench::new(&["a", "b", "c"], settings).await;
        bench.offered().await.map(|offered| names(&offered).join(" ")).map_err(|error| error.full())
    };
    assert_eq!(offered("").await.unwrap(), "a b c");
    assert_eq!(offered("enable = ['c', 'a']").await.unwrap(), "a c");
    assert_eq!(offered("enable = []").await.unwrap(), "");
    assert_eq!(offered("disable = ['b']").await.unwrap(), "a c");
    assert_eq!(
        offered("enable = ['a', 'x']\ndisable = ['y']\npreset.z = {}\ntools.w = {}").await.unwrap_err(),
        "the MCP server `fake` has no such tools: `x` in `enable`, `y` in `disable`, `z` in `preset`, `w` in \
         `tools` (it has a, b, c)"
    );
}

#[tokio::test]
async fn a_malformed_tool_is_refused_and_the_others_are_offered() {
    let bench = Bench::new(&["good", "also"], "").await;
    bench.fake.tools.lock().unwrap().extend([
        json!({"name": "text", "description": "d", "inputSchema": "object"}),
        json!({"name": "wrong", "description": "d", "inputSchema": {"type": "object", "properties": {"a": {"type": 7}}}}),
        json!({"description": "nameless", "inputSchema": {"type": "object"}}),
        json!({"name": "bare", "description": "d", "parameters": {"q": {"type": "string"}}}),
        json!(17),
    ]);
    let offered = bench.offered().await.unwrap();
    assert_eq!(names(&offered), ["good", "also", "bare"]);
    let refused: Vec<_> = offered.refused.iter().map(|r| (r.name.as_str(), r.reason.as_str())).collect();
    assert_eq!(refused[0], ("text", "its schema is not an object"));
    assert!(refused[1].0 == "wrong" && refused[1].1.starts_with("its schema is not valid: "), "{refused:?}");
    assert_eq!(refused[2..], [("tool 5", "it has no name"), ("tool 7", "it has no name")]);
}

#[tokio::test]
async fn tools_keep_the_names_of_their_server() {
    let bench = Bench::new(&["files.read", "files/read", "汉"], "").await;
    let offered = bench.offered().await.unwrap();
    assert_eq!(names(&offered), ["files.read", "files/read", "汉"]);
    for tool in &offered.tools {
        call(tool, json!({})).await.unwrap();
    }
    let called: Vec<_> = bench.fake.seen("tools/call").iter().map(|c| c["params"]["name"].clone()).collect();
    assert_eq!(called, ["files.read", "files/read", "汉"]);
}

#[tokio::test]
async fn a_silent_rename_is_noticed_at_the_next_listing() {
    let bench = Bench::new(&["old", "echo"], "").await;
    let old = bench.tool("old").await;
    bench.fake.tools.lock().unwrap()[0] = tool("new");
    let error = call(&old, json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.full().contains("unknown tool old"), "{}", error.full());
    assert_eq!(names(&bench.offered().await.unwrap()), ["new", "echo"]);
}
