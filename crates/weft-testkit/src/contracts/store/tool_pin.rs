//! Contract of a store for accepted tools.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::ErrorKind::Invalid;
use weft_core::Json;
use weft_core::id::generate;
use weft_core::seam::tool_source::{PinStore, ToolPin};

use super::{LARGE, refused};

/// Checks the contract of [`PinStore`].
pub async fn pin_store_keeps_its_contract(store: &dyn PinStore) {
    let (server, other) = (generate(), generate());
    let pin = |server: &str, tool: &str, description: &str, accepted_ms: i64| ToolPin {
        server: server.to_owned(),
        tool: tool.to_owned(),
        definition: serde_json::json!({"name": tool, "description": description, "inputSchema": {"z": 1, "a": [null]}}),
        accepted_ms,
    };
    assert_eq!(store.pins(&server).await.unwrap(), []);
    store.accept(&[]).await.unwrap();

    // Names that differ in case or in surrounding white space are different, and texts come back unchanged.
    let first = [
        pin(&server, "Echo", "upper", 1),
        pin(&server, "echo", "🦜 \u{0} ' \" \\", 2),
        pin(&server, "echo ", &"汉".repeat(LARGE), 3),
    ];
    store.accept(&first).await.unwrap();
    assert_eq!(sorted(store.pins(&server).await.unwrap()), first);
    assert_eq!(store.pins(&server.to_uppercase()).await.unwrap(), []);

    // A new definition replaces only that of the same tool of the same server.
    store.accept(&[pin(&other, "echo", "theirs", 4)]).await.unwrap();
    store.accept(&[pin(&server, "echo", "changed", 5), pin(&server, "new", "n", 6)]).await.unwrap();
    let names = |pins: Vec<ToolPin>| -> Vec<(String, Json)> {
        sorted(pins).into_iter().map(|pin| (pin.tool, pin.definition["description"].clone())).collect()
    };
    let expected = [("Echo", "upper"), ("echo", "changed"), ("echo ", &"汉".repeat(LARGE)), ("new", "n")];
    let expected = expected.map(|(tool, description)| (tool.to_owned(), Json::from(description)));
    assert_eq!(names(store.pins(&server).await.unwrap()), expected);
    assert_eq!(names(store.pins(&other).await.unwrap()), [("echo".to_owned(), "theirs".into())]);

    // The last of several for the same tool wins.
    store.accept(&[pin(&other, "echo", "a", 7), pin(&other, "echo", "b", 8)]).await.unwrap();
    assert_eq!(names(store.pins(&other).await.unwrap()), [("echo".to_owned(), "b".into())]);

    // All or none.
    let mixed = [pin(&other, "echo", "c", 9), pin(&other, "", "nameless", 9)];
    refused(store.accept(&mixed).await, Invalid);
    refused(store.accept(&[pin("", "echo", "homeless", 9)]).await, Invalid);
    assert_eq!(names(store.pins(&other).await.unwrap()), [("echo".to_owned(), "b".into())]);
    let many: Vec<_> = (0..700).map(|at| pin(&other, &format!("t{at:03}"), "m", at)).collect();
    store.accept(&many).await.unwrap();
    assert_eq!(store.pins(&other).await.unwrap().len(), 701);
}

fn sorted(mut pins: Vec<ToolPin>) -> Vec<ToolPin> {
    pins.sort_by(|a, b| a.tool.cmp(&b.tool));
    pins
}
