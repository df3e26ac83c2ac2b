//! The client half of the official conformance suite. It starts a client, which is this test program.

use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;
use weft_core::seam::ToolSource as _;

use crate::kit::{call, servers, tenant};
use crate::peers::package;

/// Says that this process is the client.
const CLIENT: &str = "WEFT_MCP_TEST_CONFORMANCE";

/// The client that the suite starts; as a test of its own it does nothing. The address of the suite's
/// server is the last argument.
#[tokio::test]
async fn is_the_client_when_the_suite_asks_for_it() {
    if !std::env::vars().any(|(name, _)| name == CLIENT) {
        return;
    }
    let url = std::env::args().next_back().unwrap();
    let servers = servers(&format!("[servers.suite]\nurl = '{url}'"));
    let offered = servers.tools(&tenant(), "suite").await.map_err(|error| error.full()).unwrap();
    for tool in &offered.tools {
        call(tool, json!({"a": 5, "b": 3})).await.map_err(|error| error.full()).unwrap();
    }
    servers.close().await;
}

#[tokio::test]
async fn the_suite_finds_nothing_wrong_with_the_client() {
    let Some((node, suite)) = package("@modelcontextprotocol/conformance/dist/index.js") else { return };
    let version = Command::new(&node).arg("--version").output().await.unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let major: u32 = version.trim_start_matches('v').split('.').next().unwrap().parse().unwrap();
    if major < 22 {
        weft_testkit::skipped(format_args!("the suite needs Node 22, this is {}", version.trim()));
        return;
    }
    let ourselves = std::env::current_exe().unwrap();
    let client = format!(
        "{} --exact conformance::is_the_client_when_the_suite_asks_for_it --nocapture --test-threads=1",
        ourselves.display()
    );
    for scenario in ["initialize", "tools_call", "sse-retry"] {
        let mut command = Command::new(&node);
        command.arg(&suite).args(["client", "--command", &client, "--scenario", scenario]);
        let results = tempfile::tempdir().unwrap();
        command
            .arg("--output-dir")
            .arg(results.path())
            .env(CLIENT, "1")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let told = command.output().await.unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        assert!(told.status.success(), "{scenario}: {said}");
        assert!(said.contains("0 failed"), "{scenario}: {said}");
    }
}
