//! `subscriptions/listen`: a request that stays open and notifies the client when the list of tools changes.
//!
//! Another process may change the list, so it is polled, as often as a client would poll it that caches the list for as
//! long as it may.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use serde_json::{Map, json};
use weft_core::Json;

use super::dispatch::Context;
use super::message::{RpcError, RpcRequest, notification};
use super::service::Service;

/// The interval at which the list is compared.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of pages of a list, in case a service never reports its end.
const PAGES_MAX: usize = 1_000;

const TOOLS: &str = "toolsListChanged";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Sends notifications until the client leaves or the service ends.
pub(super) async fn listen(
    service: &dyn Service,
    request: &RpcRequest,
    context: &Context,
) -> Result<Map<String, Json>, RpcError> {
    let wanted = request.params.get("notifications").and_then(Json::as_object);
    let wanted = wanted.ok_or_else(|| RpcError::params("`notifications` must be an object"))?;
    let mut honoured = Map::new();
    match wanted.get(TOOLS) {
        None | Some(Json::Bool(false)) => {}
        Some(Json::Bool(true)) => drop(honoured.insert(TOOLS.to_owned(), true.into())),
        Some(_) => return Err(RpcError::params(format!("`notifications.{TOOLS}` must be true or false"))),
    }
    // Before the subscription is acknowledged, so that no later change is missed.
    let known = if honoured.is_empty() { None } else { Some(digest(service).await?) };
    let meta = || json!({SUBSCRIPTION: request.id});
    let told = json!({"_meta": meta(), "notifications": honoured});
    if context.sender.send(notification("notifications/subscriptions/acknowledged", &told)).await.is_err() {
        return Ok(Map::new());
    }
    let ended = || Map::from_iter([("_meta".to_owned(), meta())]);
    // None of the requested notifications is supported, so there is nothing to wait for.
    let Some(mut known) = known else { return Ok(ended()) };
    loop {
        tokio::select! {
            biased;
            () = service.ended() => break,
            // Over standard streams nothing else ends this request, which would keep the process from exiting.
            () = context.left.cancelled() => break,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let now = match digest(service).await {
            Ok(now) => now,
            Err(error) => {
                tracing::debug!(error = error.message, "the tools of an MCP client cannot be listed");
                continue;
            }
        };
        if now != known {
            known = now;
            let changed = notification("notifications/tools/list_changed", &json!({"_meta": meta()}));
            if context.sender.send(changed).await.is_err() {
                break;
            }
        }
    }
    Ok(ended())
}

/// Returns a hash that changes with the list.
async fn digest(service: &dyn Service) -> Result<u64, RpcError> {
    // Only compared within this process, so it may differ between processes.
    let (mut hasher, mut cursor) = (DefaultHasher::new(), None::<String>);
    for _ in 0..PAGES_MAX {
        let page = service.tools(cursor.as_deref()).await?;
        for tool in &page.items {
            tool.to_string().hash(&mut hasher);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(hasher.finish())
}
