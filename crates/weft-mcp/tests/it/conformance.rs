//! The official conformance suite. For its client half, it starts this test program as the client; for its server
//! half, it queries the fixture: the core of the real server with the tools that the suite expects.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value as Json, json};
use tokio::process::Command;
use weft_core::seam::ToolSource as _;
use weft_core::{ErrorKind, Result};
use weft_mcp::{Servers, SignInCallback, SignInRequest};
use weft_net::StreamRequest;

use crate::fixture;
use crate::kit::{call, http, servers, tenant};
use crate::peers::package;

/// Set when this process is to be the client.
const CLIENT: &str = "WEFT_MCP_TEST_CONFORMANCE";

/// Where the suite expects the client metadata document.
const DESCRIPTION: &str = "https://conformance-test.local/client-metadata.json";
/// The redirect address of the sign-in.
const REDIRECT: &str = "http://127.0.0.1:8976/callback";
/// Sign-ins per client, each with more scopes than the one before.
const SIGN_INS_MAX: usize = 3;

/// The client that the suite starts; run as an ordinary test it does nothing. The last argument is the address of the
/// suite's server.
#[tokio::test]
async fn acts_as_the_client_when_the_suite_starts_it() {
    let said = |wanted: &str| std::env::vars().find(|(name, _)| name == wanted).map(|(_, value)| value);
    if said(CLIENT).is_none() {
        return;
    }
    let url = std::env::args().next_back().unwrap();
    let context: Json =
        serde_json::from_str(&said("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or_default();
    let mut oauth = format!("client_metadata_url = '{DESCRIPTION}'");
    if let (Some(id), Some(secret)) = (context["client_id"].as_str(), context["client_secret"].as_str()) {
        oauth = format!("client_id = '{id}', client_secret = '{secret}'");
    }
    let mut config =
        format!("[servers.suite]\nurl = '{url}'\noauth = {{ {oauth} }}\nelicitation = 'defaults'\n");
    if let Some(revision) = said("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        config += &format!("revision = '{revision}'");
    }
    let servers = servers(&config);
    for sign_in in 0..=SIGN_INS_MAX {
        match asked(&servers, &context["toolCalls"]).await {
            Ok(()) => return servers.close().await,
            Err(error)
                if sign_in < SIGN_INS_MAX
                    && matches!(error.kind, ErrorKind::Unauthenticated | ErrorKind::Denied) =>
            {
                println!("{}", error.full());
                if let Err(error) = signed_in(&servers).await {
                    panic!("{}", error.full());
                }
            }
            Err(error) => panic!("{}", error.full()),
        }
    }
    panic!("the granted scopes are never enough");
}

/// Calls each tool of the suite, in the way the suite specifies if it does.
async fn asked(servers: &Servers, calls: &Json) -> Result<()> {
    let offered = servers.tools(&tenant(), "suite").await?;
    for tool in &offered.tools {
        let calls = calls
            .as_array()
            .into_iter()
            .flatten()
            .filter(|call| tool.name.ends_with(call["name"].as_str().unwrap()));
        let mut arguments: Vec<Json> = calls.map(|call| call["arguments"].clone()).collect();
        if arguments.is_empty() {
            arguments.push(json!({"a": 5, "b": 3}));
        }
        for arguments in arguments {
            call(tool, arguments).await?;
        }
    }
    Ok(())
}

/// Does what a person's browser does: the suite's page grants everything at once.
async fn signed_in(servers: &Servers) -> Result<()> {
    let request = SignInRequest { redirect_uri: REDIRECT.to_owned(), scope: None };
    let page = servers.begin_sign_in("suite", &request).await?;
    let get =
        StreamRequest { method: "GET".to_owned(), url: page.url, headers: Vec::new(), body: Vec::new() };
    let sent = http().open(get).await?;
    let back = sent.header("location").unwrap_or_default().to_owned();
    servers.finish_sign_in("suite", &SignInCallback::of_url(&back)?).await
}

/// The program that runs the suite, and the suite, if both are installed.
async fn suite() -> Option<(PathBuf, PathBuf)> {
    let (node, suite) = package("@modelcontextprotocol/conformance/dist/index.js")?;
    let version = Command::new(&node).arg("--version").output().await.unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let major: u32 = version.trim_start_matches('v').split('.').next().unwrap().parse().unwrap();
    if major < 22 {
        weft_testkit::skipped(format_args!("the suite needs Node 22, this is {}", version.trim()));
        return None;
    }
    Some((node, suite))
}

/// The output of the suite, which must succeed.
async fn told(arguments: &[&str]) -> Option<String> {
    let (node, suite) = suite().await?;
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new(&node);
    command.arg(&suite).args(arguments).arg("--output-dir").arg(results.path());
    let told = command.env(CLIENT, "1").stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{arguments:?}: {said}");
    Some(said)
}

#[tokio::test]
async fn the_client_passes_the_suite() {
    let ourselves = std::env::current_exe().unwrap();
    let client = format!(
        "{} --exact conformance::acts_as_the_client_when_the_suite_starts_it --nocapture --test-threads=1",
        ourselves.display()
    );
    for revision in ["2025-11-25", "2026-07-28"] {
        let arguments = ["client", "--command", &client, "--requirements", revision];
        let Some(said) = told(&arguments).await else { return };
        println!("{said}");
    }
}

/// Everything that a revision requires of servers, as frozen at its release.
async fn requirements(revision: &str) {
    let server = fixture::listen().await;
    let arguments = ["server", "--url", &server.url, "--requirements", revision];
    let Some(said) = told(&arguments).await else { return };
    println!("{said}");
}

#[tokio::test]
async fn the_server_passes_the_suite_for_2025_11_25() {
    requirements("2025-11-25").await;
}

#[tokio::test]
async fn the_server_passes_the_suite_for_2026_07_28() {
    requirements("2026-07-28").await;
}

#[tokio::test]
async fn the_server_passes_the_suite_for_tasks() {
    let server = fixture::listen().await;
    let scenarios = [
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        // This scenario checks nothing yet.
        "tasks-status-notifications",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
    ];
    for scenario in scenarios {
        let Some(said) = told(&["server", "--url", &server.url, "--scenario", scenario]).await else {
            return;
        };
        println!("{said}");
        assert!(said.contains("0 failed"), "{scenario}: {said}");
    }
}
