//! Contract of a [`Workspace`]. The suite works in tenants of its own, so it may run against a folder with other
//! contents, and repeatedly.

use weft_core::ErrorKind;
use weft_core::id::{TenantId, generate};
use weft_core::seam::Workspace;

use super::{fine, refused, tenant};

/// Checks the contract of a workspace whose files are limited to `bytes_max` bytes, at least 8.
///
/// # Panics
/// If the contract is violated.
pub async fn workspace_keeps_its_contract(files: &dyn Workspace, bytes_max: usize) {
    texts_round_trip(files).await;
    tenants_are_isolated(files).await;
    reads_and_writes_are_bounded(files, bytes_max).await;
    paths_stay_inside(files).await;
    folders_are_not_files(files).await;
    concurrent_appends_are_all_kept(files).await;
}

async fn texts_round_trip(files: &dyn Workspace) {
    let tenant = tenant();
    refused(files.read(&tenant, "a.md").await, ErrorKind::NotFound);
    assert!(!fine(files.write(&tenant, "a.md", "eins\r\n").await));
    assert_eq!(fine(files.read(&tenant, "a.md").await), "eins\r\n");
    assert!(fine(files.write(&tenant, "./a.md", "汉\0").await));
    assert_eq!(fine(files.read(&tenant, "a.md").await), "汉\0");
    assert!(fine(files.append(&tenant, "a.md", "!").await));
    assert_eq!(fine(files.read(&tenant, "a.md").await), "汉\0!");
    assert!(!fine(files.append(&tenant, "x/y/z", "").await));
    assert_eq!(fine(files.read(&tenant, "x//y/z").await), "");
}

async fn tenants_are_isolated(files: &dyn Workspace) {
    let (one, two) = (tenant(), TenantId::new(format!("{}/..", generate())));
    fine(files.write(&one, "a", "one").await);
    refused(files.read(&two, "a").await, ErrorKind::NotFound);
    fine(files.write(&two, "a", "two").await);
    assert_eq!(fine(files.read(&one, "a").await), "one");
    let upper = TenantId::new(one.as_str().to_uppercase());
    if upper != one {
        refused(files.read(&upper, "a").await, ErrorKind::NotFound);
    }
}

async fn reads_and_writes_are_bounded(files: &dyn Workspace, bytes_max: usize) {
    let tenant = tenant();
    let full = "x".repeat(bytes_max);
    fine(files.write(&tenant, "a", &full).await);
    assert_eq!(fine(files.read(&tenant, "a").await), full);
    refused(files.write(&tenant, "a", &format!("{full}y")).await, ErrorKind::Invalid);
    refused(files.append(&tenant, "a", "y").await, ErrorKind::Invalid);
    assert_eq!(fine(files.read(&tenant, "a").await), full, "a refused write changes nothing");
    refused(files.write(&tenant, "b", &format!("{full}y")).await, ErrorKind::Invalid);
    refused(files.read(&tenant, "b").await, ErrorKind::NotFound);
}

async fn paths_stay_inside(files: &dyn Workspace) {
    let tenant = tenant();
    for path in ["../a", "a/../../b", "/etc/passwd", "..", "a/.."] {
        refused(files.read(&tenant, path).await, ErrorKind::Denied);
        refused(files.write(&tenant, path, "x").await, ErrorKind::Denied);
        refused(files.append(&tenant, path, "x").await, ErrorKind::Denied);
    }
    for path in ["", ".", "a/", "c:\\a", "a\0b"] {
        refused(files.read(&tenant, path).await, ErrorKind::Invalid);
        refused(files.write(&tenant, path, "x").await, ErrorKind::Invalid);
    }
}

async fn folders_are_not_files(files: &dyn Workspace) {
    let tenant = tenant();
    fine(files.write(&tenant, "a/b", "x").await);
    refused(files.read(&tenant, "a").await, ErrorKind::Invalid);
    refused(files.write(&tenant, "a", "x").await, ErrorKind::Invalid);
    refused(files.append(&tenant, "a", "x").await, ErrorKind::Invalid);
    refused(files.write(&tenant, "a/b/c", "x").await, ErrorKind::Invalid);
    assert_eq!(fine(files.read(&tenant, "a/b").await), "x");
}

async fn concurrent_appends_are_all_kept(files: &dyn Workspace) {
    let tenant = tenant();
    let added = futures::future::join_all((0..4).map(|_| files.append(&tenant, "log", "x"))).await;
    let begun = added.into_iter().map(fine).filter(|existed| !existed).count();
    assert_eq!((begun, fine(files.read(&tenant, "log").await).as_str()), (1, "xxxx"));
}
