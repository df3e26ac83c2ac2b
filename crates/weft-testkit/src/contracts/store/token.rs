//! The promises of a token store.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::id::generate;
use weft_core::seam::TokenStore;
use weft_core::seam::token_store::StoredToken;

use super::{refused, tenant};

/// Checks every promise of [`TokenStore`]. Nobody else may add tokens meanwhile.
pub async fn token_store_keeps_its_contract(store: &dyn TokenStore) {
    let before = store.count().await.unwrap();
    let token =
        StoredToken { tenant: tenant(), hash: generate(), name: "cli 🦜".into(), created_ms: 1_000 };
    refused(store.find(&token.hash).await, NotFound);
    store.add(&token).await.unwrap();
    assert_eq!(store.find(&token.hash).await.unwrap(), token);
    refused(store.find(&token.hash.to_uppercase()).await, NotFound);
    refused(store.find("").await, NotFound);
    refused(store.add(&token).await, Conflict);
    let theirs = StoredToken { tenant: tenant(), ..token.clone() };
    refused(store.add(&theirs).await, Conflict);
    assert_eq!(store.find(&token.hash).await.unwrap(), token);
    store.add(&StoredToken { hash: generate(), ..theirs }).await.unwrap();
    assert_eq!(store.count().await.unwrap(), before + 2);
}
