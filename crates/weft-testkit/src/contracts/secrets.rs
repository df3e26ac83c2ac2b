//! Contract of a store for secrets.

use std::sync::Arc;

use weft_core::seam::Secrets;
use weft_core::seam::secrets::{NamedSecret, SECRETS_MAX, VALUE_BYTES_MAX};
use weft_core::{ErrorKind, Secret, TenantId};

use super::{fine, refused, tenant};

async fn values(secrets: &dyn Secrets, tenant: &TenantId, names: &[&str]) -> Vec<(String, String)> {
    let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
    let found = fine(secrets.values(tenant, &names).await).into_iter();
    let mut found: Vec<_> =
        found.map(|NamedSecret { name, value }| (name.to_string(), value.reveal().to_owned())).collect();
    found.sort();
    found
}

async fn names(secrets: &dyn Secrets, tenant: &TenantId) -> Vec<String> {
    fine(secrets.list(tenant).await).into_iter().map(|info| info.name.to_string()).collect()
}

/// Checks that values are stored, read, replaced, listed without their values and removed, for one tenant only.
///
/// # Panics
/// If the contract is violated.
pub async fn secrets_keep_their_contract(secrets: &dyn Secrets) {
    let (ours, theirs) = (&tenant(), &tenant());
    let long = "ü".repeat(VALUE_BYTES_MAX / 2);
    assert_eq!(names(secrets, ours).await, [""; 0]);
    let first = fine(secrets.put(ours, "key", &Secret::new("rosebud-0815")).await);
    fine(secrets.put(ours, "Key", &Secret::new(long.as_str())).await);
    fine(secrets.put(theirs, "key", &Secret::new("theirs-4711")).await);
    assert_eq!(names(secrets, ours).await, ["Key", "key"]);

    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let found = values(secrets, ours, &["key", "none", "Key", "key"]).await;
    assert_eq!(found, [pair("Key", &long), pair("key", "rosebud-0815")]);
    assert_eq!(values(secrets, theirs, &["key", "Key"]).await, [pair("key", "theirs-4711")]);
    assert_eq!(values(secrets, ours, &[]).await, []);

    let again = fine(secrets.put(ours, "key", &Secret::new("line one\nline \"two\"")).await);
    assert_eq!((&*again.name, again.created_ms), ("key", first.created_ms));
    assert!(again.updated_ms >= first.updated_ms);
    assert_eq!(values(secrets, ours, &["key"]).await, [pair("key", "line one\nline \"two\"")]);
    assert_eq!(names(secrets, ours).await, ["Key", "key"]);

    for (name, value) in [("a.b", "12345"), ("", "12345"), ("short", "1234")] {
        let outcome = secrets.put(ours, name, &Secret::new(value)).await;
        let told = outcome.as_ref().err().map(weft_core::Error::full).unwrap_or_default();
        assert!(!told.contains(value), "{told}");
        refused(outcome, ErrorKind::Invalid);
    }
    refused(secrets.remove(theirs, "Key").await, ErrorKind::NotFound);
    fine(secrets.remove(ours, "key").await);
    refused(secrets.remove(ours, "key").await, ErrorKind::NotFound);
    assert_eq!(values(secrets, ours, &["key"]).await, []);
    assert_eq!(values(secrets, theirs, &["key"]).await, [pair("key", "theirs-4711")]);

    let known = names(secrets, theirs).await.len() as u64;
    for nth in known + 1..SECRETS_MAX {
        fine(secrets.put(theirs, &format!("n{nth}"), &Secret::new("12345")).await);
    }
    // There is room for one more, even under concurrent requests.
    let (many, value) = (["m1", "m2", "m3", "m4"], Secret::new("12345"));
    let put = futures::future::join_all(many.iter().map(|name| secrets.put(theirs, name, &value))).await;
    assert_eq!(put.iter().filter(|put| put.is_ok()).count(), 1, "{put:?}");
    refused(secrets.put(theirs, "one-more", &value).await, ErrorKind::QuotaExceeded);
    fine(secrets.put(theirs, "key", &value).await);
}
