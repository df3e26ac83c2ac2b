//! Contract of a token store.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::access::MemberRole;
use weft_core::id::{TenantId, UserId, generate};
use weft_core::seam::TokenStore;
use weft_core::seam::token_store::{StoredToken, TokenFilter};

use super::{refused, tenant};

/// Checks the contract of [`TokenStore`]. No other tokens may be added meanwhile.
pub async fn token_store_keeps_its_contract(store: &dyn TokenStore) {
    let before = store.count().await.unwrap();
    let token = StoredToken {
        tenant: tenant(),
        hash: generate(),
        name: "cli 🦜".into(),
        role: MemberRole::Editor,
        user: Some(UserId::generate()),
        created_ms: 1_000,
        last_used_ms: None,
    };
    refused(store.find(&token.hash).await, NotFound);
    store.add(&token).await.unwrap();
    assert_eq!(store.find(&token.hash).await.unwrap(), token);
    refused(store.find(&token.hash.to_uppercase()).await, NotFound);
    refused(store.find("").await, NotFound);
    refused(store.add(&token).await, Conflict);
    let theirs = StoredToken { tenant: tenant(), ..token.clone() };
    refused(store.add(&theirs).await, Conflict);
    assert_eq!(store.find(&token.hash).await.unwrap(), token);
    let theirs = StoredToken { hash: generate(), created_ms: 900, ..theirs };
    store.add(&theirs).await.unwrap();
    assert_eq!(store.count().await.unwrap(), before + 2);
    let second = StoredToken { hash: generate(), name: "second".into(), created_ms: 1_001, ..token.clone() };
    let second = StoredToken { role: MemberRole::Owner, user: None, ..second };
    store.add(&second).await.unwrap();
    let listed = async |tenant: Option<&TenantId>, limit| {
        let filter = TokenFilter { tenant: tenant.cloned(), limit, ..TokenFilter::default() };
        store.list(&filter).await.unwrap()
    };
    assert_eq!(listed(Some(&token.tenant), 9).await, [token.clone(), second.clone()]);
    assert_eq!(listed(Some(&token.tenant), 1).await, std::slice::from_ref(&token));
    let all = listed(None, u64::MAX).await;
    assert!([&token, &second, &theirs].iter().all(|one| all.contains(one)), "{all:?}");
    filtered(store, &token, &second).await;
    for at_ms in [5_000, 4_000] {
        store.used(&token.hash, at_ms).await.unwrap();
    }
    store.used(&generate(), 6_000).await.unwrap();
    assert_eq!(store.find(&token.hash).await.unwrap().last_used_ms, Some(5_000), "it never goes back");
    assert_eq!(store.find(&second.hash).await.unwrap().last_used_ms, None);
    refused(store.remove(&theirs.tenant, &token.hash).await, NotFound);
    store.remove(&token.tenant, &token.hash).await.unwrap();
    refused(store.find(&token.hash).await, NotFound);
    refused(store.remove(&token.tenant, &token.hash).await, NotFound);
    assert_eq!(listed(Some(&token.tenant), 9).await, [second]);
    assert_eq!(store.find(&theirs.hash).await.unwrap(), theirs);
}

/// Filters apply before tokens are counted and skipped.
async fn filtered(store: &dyn TokenStore, token: &StoredToken, second: &StoredToken) {
    let ours = TokenFilter { tenant: Some(token.tenant.clone()), limit: 1, ..TokenFilter::default() };
    let check = async |filter: TokenFilter, expected: &[&StoredToken]| {
        assert_eq!(store.list(&filter).await.unwrap().iter().collect::<Vec<_>>(), expected, "{filter:?}");
    };
    check(TokenFilter { offset: 1, ..ours.clone() }, &[second]).await;
    check(TokenFilter { offset: 2, ..ours.clone() }, &[]).await;
    assert_eq!(store.total(&TokenFilter { offset: 1, ..ours.clone() }).await.unwrap(), 2);
    // A place in the list is one even when nothing stands there any more.
    for (place, follow) in [
        ((1_000, token.hash.clone()), &[second][..]),
        ((1_001, second.hash.clone()), &[]),
        ((999, "f".into()), &[token]),
    ] {
        let behind = TokenFilter { after: Some(place), ..ours.clone() };
        assert_eq!(store.total(&behind).await.unwrap(), 2);
        check(behind, follow).await;
    }
    let of_user = TokenFilter { user: token.user.clone(), ..ours.clone() };
    assert_eq!(store.total(&of_user).await.unwrap(), 1);
    check(of_user, &[token]).await;
    check(TokenFilter { user: Some(UserId::generate()), ..ours.clone() }, &[]).await;
    check(TokenFilter { user: Some(UserId::from("")), ..ours.clone() }, &[]).await;
    check(TokenFilter { name: Some("second".into()), ..ours.clone() }, &[second]).await;
    check(TokenFilter { name: Some(second.id().to_owned()), ..ours.clone() }, &[second]).await;
    for none in ["%", "", "secon_", &second.id()[1..], &second.hash] {
        check(TokenFilter { name: Some(none.into()), ..ours.clone() }, &[]).await;
    }
}
