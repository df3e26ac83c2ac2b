//! Limits on how many objects a tenant may keep, against every database of this build: called by the contracts.

use futures::future::join_all;
use weft_core::access::MemberRole;
use weft_core::id::{CanvasKey, DatasetKey, SessionKey, TenantId, generate};
use weft_core::quota::TenantQuotas;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::chat_store::{Chat, ChatKind, ChatSettings};
use weft_core::seam::dataset_store::Dataset;
use weft_core::seam::session_store::Session;
use weft_core::seam::token_store::StoredToken;
use weft_core::{ErrorKind, Json, Result};
use weft_store::Store;
use weft_testkit::contracts::datasets::dataset;

const LIMITS: TenantQuotas = TenantQuotas { api_keys: 2, canvases: 2, chats: 2, datasets: 2, sessions: 2 };

pub(crate) async fn tenants_stay_within_their_limits(opened: &Store) {
    let store = opened.clone().with_quotas(LIMITS);
    let add = async |tenant: &TenantId, name: &str| store.tokens().add(&key(tenant, name)).await;
    let remove =
        async |tenant: &TenantId, name: &str| store.tokens().remove(tenant, &key(tenant, name).hash).await;
    is_limited("limits.tenant_api_keys", add, remove).await;

    let add = async |tenant: &TenantId, name: &str| store_canvas(&store, tenant, name).await;
    let remove =
        async |tenant: &TenantId, name: &str| store.canvases().delete(&CanvasKey::new(tenant, name)).await;
    is_limited("limits.tenant_canvases", add, remove).await;

    let add = async |tenant: &TenantId, name: &str| store.chats().create(&chat(tenant, name)).await;
    let remove =
        async |tenant: &TenantId, name: &str| store.chats().delete(&CanvasKey::new(tenant, name)).await;
    is_limited("limits.tenant_chats", add, remove).await;

    let add = async |tenant: &TenantId, name: &str| store.datasets().create(&named(tenant, name)).await;
    let remove = async |tenant: &TenantId, name: &str| {
        store.datasets().remove(&named(tenant, name).key).await.map(drop)
    };
    is_limited("limits.tenant_datasets", add, remove).await;

    existing_canvases_can_be_changed(&store).await;
    sessions_are_limited(&store).await;
}

fn key(tenant: &TenantId, name: &str) -> StoredToken {
    StoredToken {
        tenant: tenant.clone(),
        hash: format!("{tenant}-{name}"),
        name: name.to_owned(),
        role: MemberRole::Editor,
        user: None,
        created_ms: 1,
        last_used_ms: None,
    }
}

async fn store_canvas(store: &Store, tenant: &TenantId, name: &str) -> Result<()> {
    let head = CanvasHead { title: name.to_owned(), ..CanvasHead::default() };
    store.canvases().put(&CanvasKey::new(tenant, name), &head, "{}").await.map(drop)
}

fn chat(tenant: &TenantId, name: &str) -> Chat {
    Chat {
        key: CanvasKey::new(tenant, name),
        kind: ChatKind::Assistant,
        name: name.to_owned(),
        settings: ChatSettings::default(),
        revision: 1,
        created_ms: 1,
        updated_ms: 1,
    }
}

fn named(tenant: &TenantId, name: &str) -> Dataset {
    Dataset { key: DatasetKey::new(tenant, name), ..dataset(tenant, name) }
}

/// Checks a limit of two objects.
async fn is_limited(
    setting: &str,
    add: impl AsyncFn(&TenantId, &str) -> Result<()>,
    remove: impl AsyncFn(&TenantId, &str) -> Result<()>,
) {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let (ours, theirs) = (TenantId::new(generate()), TenantId::new(generate()));
    // At the same moment: each is counted by those that come after it.
    let mut additions = Vec::new();
    for name in NAMES {
        additions.push(add(&ours, name));
    }
    let mut stored = Vec::new();
    for (name, outcome) in NAMES.into_iter().zip(join_all(additions).await) {
        match outcome {
            Ok(()) => stored.push(name),
            Err(refused) => {
                assert_eq!(refused.kind, ErrorKind::QuotaExceeded, "{}", refused.full());
                assert!(refused.full().contains(setting), "{}", refused.full());
            }
        }
    }
    assert_eq!(stored.len(), 2, "{setting}: {stored:?}");
    add(&theirs, "a").await.unwrap();
    remove(&ours, stored[0]).await.unwrap();
    add(&ours, "e").await.unwrap();
    assert_eq!(add(&ours, "f").await.unwrap_err().kind, ErrorKind::QuotaExceeded, "{setting}");
}

async fn existing_canvases_can_be_changed(store: &Store) {
    let tenant = TenantId::new(generate());
    for name in ["a", "b", "a"] {
        store_canvas(store, &tenant, name).await.unwrap();
    }
    store_canvas(store, &tenant, "c").await.unwrap_err();
    let seen = store.canvases().get(&CanvasKey::new(&tenant, "a")).await.unwrap();
    let changed = store.canvases().change(&seen, &seen.head, r#"{"n":1}"#).await.unwrap();
    assert!(changed.is_some());
    // Without a limit, there is room again.
    store_canvas(&store.clone().with_quotas(TenantQuotas::default()), &tenant, "c").await.unwrap();
    store_canvas(store, &tenant, "b").await.unwrap();
}

/// Not at the same moment, when each may find the room that the others use.
async fn sessions_are_limited(store: &Store) {
    let (ours, theirs) = (TenantId::new(generate()), TenantId::new(generate()));
    let sessions = store.sessions();
    let start = async |tenant: &TenantId, id: &str| {
        sessions.create(&Session::new(SessionKey::new(tenant, id), "c", "v", Json::Null, 1), &[]).await
    };
    start(&ours, "a").await.unwrap();
    start(&ours, "b").await.unwrap();
    let refused = start(&ours, "c").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::QuotaExceeded, "{}", refused.full());
    assert!(refused.full().contains("limits.tenant_sessions"), "{}", refused.full());
    // A repeated request goes on with the session that it has created before.
    assert_eq!(start(&ours, "b").await.unwrap_err().kind, ErrorKind::Conflict);
    start(&theirs, "a").await.unwrap();
    sessions.delete(&SessionKey::new(&ours, "a")).await.unwrap();
    start(&ours, "c").await.unwrap();
    start(&ours, "d").await.unwrap_err();
}

/// With room for many, sessions are not counted each time; the limit holds nevertheless.
#[tokio::test]
async fn many_sessions_stay_within_a_limit_that_is_counted_now_and_then() {
    const LIMIT: u64 = 100;
    let quotas = TenantQuotas { sessions: LIMIT, ..TenantQuotas::default() };
    let store = Store::open("sqlite::memory:").await.unwrap().with_quotas(quotas);
    let tenant = TenantId::from("one");
    let sessions = store.sessions();
    for nth in 0..LIMIT {
        let key = SessionKey::new(&tenant, nth.to_string());
        sessions.create(&Session::new(key, "c", "v", Json::Null, 1), &[]).await.unwrap();
    }
    let another = Session::new(SessionKey::new(&tenant, "another"), "c", "v", Json::Null, 1);
    assert_eq!(sessions.create(&another, &[]).await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    store.close().await.unwrap();
}
