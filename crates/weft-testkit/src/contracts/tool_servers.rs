//! What every place of MCP servers of tenants promises.

use serde_json::json;
use weft_core::seam::ToolServerStore;
use weft_core::seam::tool_server_store::{SERVERS_MAX, StoredToolServer};
use weft_core::{ErrorKind, Json, Secret};

use super::{fine, refused, tenant};

fn server(name: &str) -> StoredToolServer {
    let tools = json!({"find": {"description": "Finds. 汉", "enabled": false}});
    StoredToolServer {
        id: weft_core::id::generate(),
        name: name.to_owned(),
        url: "https://tools.example/mcp".to_owned(),
        transport: "streamable-http".to_owned(),
        description: String::new(),
        sealed: Secret::new("rosebud-0815"),
        tools: match tools {
            Json::Object(tools) => tools,
            _ => serde_json::Map::new(),
        },
        created_ms: 1,
        updated_ms: 2,
    }
}

/// Checks that servers are put, replaced, listed and removed, by one tenant and no other.
///
/// # Panics
/// When one of the promises is broken.
pub async fn tool_servers_keep_their_contract(store: &dyn ToolServerStore) {
    let (ours, theirs) = (&tenant(), &tenant());
    let (first, second) = (server("Beta"), server("alpha"));
    fine(store.put(ours, &first).await);
    fine(store.put(ours, &second).await);
    assert_eq!(fine(store.get(ours, &first.id).await), first);
    assert_eq!(fine(store.list(ours).await), [second.clone(), first.clone()]);
    assert_eq!(fine(store.list(theirs).await), []);
    refused(store.get(theirs, &first.id).await, ErrorKind::NotFound);
    refused(store.remove(theirs, &first.id).await, ErrorKind::NotFound);
    refused(store.put(theirs, &first).await, ErrorKind::Conflict);
    refused(store.put(ours, &server("BETA")).await, ErrorKind::Conflict);
    // The same name is free elsewhere, and for the server that has it.
    fine(store.put(theirs, &server("beta")).await);
    let changed =
        StoredToolServer { name: "beta".into(), sealed: Secret::new(""), updated_ms: 9, ..first.clone() };
    fine(store.put(ours, &changed).await);
    assert_eq!(fine(store.get(ours, &first.id).await), changed);
    // Of several at the same time one has the name.
    let many: Vec<StoredToolServer> = (0..4).map(|_| server("same")).collect();
    let put = futures::future::join_all(many.iter().map(|one| store.put(ours, one))).await;
    assert_eq!(put.iter().filter(|one| one.is_ok()).count(), 1);
    let known = fine(store.list(ours).await).len() as u64;
    for nth in known..SERVERS_MAX {
        fine(store.put(ours, &server(&format!("n{nth}"))).await);
    }
    refused(store.put(ours, &server("one more")).await, ErrorKind::QuotaExceeded);
    fine(store.put(ours, &first).await);
    fine(store.remove(ours, &first.id).await);
    refused(store.get(ours, &first.id).await, ErrorKind::NotFound);
    refused(store.remove(ours, &first.id).await, ErrorKind::NotFound);
}
