//! Contract of a store for MCP servers of tenants.

use serde_json::json;
use weft_core::seam::ToolServerStore;
use weft_core::seam::tool_server_store::{SERVERS_MAX, StoredToolServer, TOOLS_BYTES_MAX};
use weft_core::{Error, ErrorKind, Json, Secret, TenantId, changes};

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
        revision: 0,
        created_ms: 1,
        updated_ms: 2,
    }
}

/// Checks that servers are stored, replaced, listed and removed, for one tenant only.
///
/// # Panics
/// If the contract is violated.
pub async fn tool_servers_keep_their_contract(store: &dyn ToolServerStore) {
    let (ours, theirs) = (&tenant(), &tenant());
    let (first, second) = (server("Beta"), server("alpha"));
    assert!(!fine(store.change(ours, &first).await), "there is none");
    fine(store.add(ours, &first).await);
    fine(store.add(ours, &second).await);
    assert_eq!(fine(store.get(ours, &first.id).await), first);
    assert_eq!(fine(store.list(ours).await), [second.clone(), first.clone()]);
    assert_eq!(fine(store.list(theirs).await), []);
    refused(store.get(theirs, &first.id).await, ErrorKind::NotFound);
    refused(store.remove(theirs, &first.id).await, ErrorKind::NotFound);
    refused(store.add(theirs, &first).await, ErrorKind::Conflict);
    refused(
        store.add(ours, &StoredToolServer { name: "x".into(), ..first.clone() }).await,
        ErrorKind::Conflict,
    );
    refused(store.add(ours, &server("BETA")).await, ErrorKind::Conflict);
    assert!(!fine(store.change(theirs, &first).await), "it belongs to another");
    refused(
        store.change(ours, &StoredToolServer { name: "ALPHA".into(), ..first.clone() }).await,
        ErrorKind::Conflict,
    );
    // The same name is free in another tenant, and for the server that has it.
    fine(store.add(theirs, &server("beta")).await);
    let changed =
        StoredToolServer { name: "beta".into(), sealed: Secret::new(""), updated_ms: 9, ..first.clone() };
    assert!(fine(store.change(ours, &changed).await));
    let changed = StoredToolServer { revision: 1, ..changed };
    assert_eq!(fine(store.get(ours, &first.id).await), changed);
    // A write based on an outdated read changes nothing.
    assert!(!fine(store.change(ours, &first).await));
    assert_eq!(fine(store.get(ours, &first.id).await), changed);
    // Of several concurrent requests one gets the name.
    let many: Vec<StoredToolServer> = (0..4).map(|_| server("same")).collect();
    let put = futures::future::join_all(many.iter().map(|one| store.add(ours, one))).await;
    assert_eq!(put.iter().filter(|one| one.is_ok()).count(), 1);
    concurrent_changes_are_all_kept(store, ours, &second.id).await;
    the_size_of_tools_is_limited(store, ours, &second.id).await;
    let known = fine(store.list(ours).await).len() as u64;
    for nth in known + 1..SERVERS_MAX {
        fine(store.add(ours, &server(&format!("n{nth}"))).await);
    }
    // There is room for one more, even under concurrent requests.
    let many: Vec<StoredToolServer> = (0..4).map(|nth| server(&format!("m{nth}"))).collect();
    let put = futures::future::join_all(many.iter().map(|one| store.add(ours, one))).await;
    assert_eq!(put.iter().filter(|one| one.is_ok()).count(), 1);
    refused(store.add(ours, &server("one more")).await, ErrorKind::QuotaExceeded);
    fine(store.remove(ours, &first.id).await);
    assert!(!fine(store.change(ours, &changed).await), "removed data stays removed");
    refused(store.get(ours, &first.id).await, ErrorKind::NotFound);
    refused(store.remove(ours, &first.id).await, ErrorKind::NotFound);
}

/// Concurrent changes, each of which adds to what it has read, are all kept.
async fn concurrent_changes_are_all_kept(store: &dyn ToolServerStore, ours: &TenantId, id: &str) {
    let add = async |n: u64| {
        changes::made("MCP server", || async {
            let mut there = store.get(ours, id).await?;
            there.tools.insert(format!("t{n}"), n.into());
            Ok::<_, Error>(store.change(ours, &there).await?.then_some(()))
        })
        .await
    };
    futures::future::join_all((0..8).map(add)).await.into_iter().for_each(fine);
    let there = fine(store.get(ours, id).await);
    assert!((0..8).all(|n| there.tools.contains_key(&format!("t{n}"))), "{:?}", there.tools);
}

/// All servers of a tenant are read together, so each has to be small.
async fn the_size_of_tools_is_limited(store: &dyn ToolServerStore, ours: &TenantId, id: &str) {
    let before = fine(store.get(ours, id).await);
    let mut large = before.clone();
    large.tools.insert("large".to_owned(), json!({"description": "x".repeat(TOOLS_BYTES_MAX)}));
    refused(store.change(ours, &large).await, ErrorKind::Invalid);
    assert_eq!(fine(store.get(ours, id).await), before);
    let new = StoredToolServer { tools: large.tools, ..server("large") };
    refused(store.add(ours, &new).await, ErrorKind::Invalid);
}
