//! Contract of a store for credentials of MCP servers.

use weft_core::seam::ToolCredentials;
use weft_core::seam::tool_credentials::{CredentialKey, StoredCredentials};
use weft_core::{Error, Secret, changes};

use super::{fine, tenant};

/// Checks that credentials are stored, replaced and removed, and only through their own key.
///
/// # Panics
/// If the contract is violated.
pub async fn credentials_keep_their_contract(store: &dyn ToolCredentials) {
    let (ours, other_tenant) = (tenant(), tenant());
    let key = |server: &str| CredentialKey { tenant: ours.clone(), server: server.to_owned() };
    let (files, mail) = (&key("files"), &key("mail"));
    let theirs = &CredentialKey { tenant: other_tenant, server: "files".to_owned() };
    let of = |text: &str, revision| Some(StoredCredentials { sealed: Secret::new(text), revision });
    assert_eq!(fine(store.get(files).await), None);
    assert!(!fine(store.remove(files).await), "there are none");
    assert!(!fine(store.put(files, &Secret::new("x"), 1).await), "there are none to replace");
    assert!(fine(store.put(files, &Secret::new("rosebud 汉"), 0).await));
    assert!(!fine(store.put(files, &Secret::new("late"), 0).await), "another caller was first");
    assert_eq!(fine(store.get(files).await), of("rosebud 汉", 1));
    for other in [mail, theirs] {
        assert_eq!(fine(store.get(other).await), None);
        assert!(!fine(store.remove(other).await));
    }
    assert!(fine(store.put(theirs, &Secret::new("theirs"), 0).await));
    assert!(fine(store.put(files, &Secret::new(""), 1).await));
    assert!(!fine(store.put(files, &Secret::new("late"), 1).await));
    assert_eq!((fine(store.get(files).await), fine(store.get(theirs).await)), (of("", 2), of("theirs", 1)));
    concurrent_changes_are_all_kept(store, files).await;
    let revision = fine(store.get(files).await).map_or(0, |there| there.revision);
    assert!(fine(store.remove(files).await));
    assert!(!fine(store.put(files, &Secret::new("late"), revision).await), "removed data stays removed");
    assert_eq!((fine(store.get(files).await), fine(store.get(theirs).await)), (None, of("theirs", 1)));
}

/// Concurrent changes, each of which adds to what it has read, are all kept.
async fn concurrent_changes_are_all_kept(store: &dyn ToolCredentials, key: &CredentialKey) {
    let text = async || {
        let there = store.get(key).await?;
        Ok::<_, Error>(
            there.map_or((String::new(), 0), |there| (there.sealed.reveal().to_owned(), there.revision)),
        )
    };
    let add = async |n: u32| {
        changes::made("credentials", || async {
            let (text, revision) = text().await?;
            let put = store.put(key, &Secret::new(format!("{text}[{n}]")), revision).await?;
            Ok::<_, Error>(put.then_some(()))
        })
        .await
    };
    futures::future::join_all((0..6).map(add)).await.into_iter().for_each(fine);
    let (there, _) = fine(text().await);
    assert!((0..6).all(|n| there.contains(&format!("[{n}]"))), "{there}");
}
