//! Files of agents in a folder.

use std::fs;
use std::path::Path;

use weft_core::seam::Workspace as _;
use weft_core::{ErrorKind, TenantId};
use weft_store::FolderWorkspace;
use weft_testkit::contracts::workspace::workspace_keeps_its_contract;

#[tokio::test]
async fn a_folder_meets_the_workspace_contract() {
    let folder = tempfile::tempdir().unwrap();
    workspace_keeps_its_contract(&FolderWorkspace::new(folder.path().join("not/yet"), 100), 100).await;
    let within = FolderWorkspace::within(folder.path().join("limited"), 100, 1 << 20);
    workspace_keeps_its_contract(&within, 100).await;
}

#[tokio::test]
async fn reading_creates_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("files");
    let files = FolderWorkspace::new(&root, 100);
    let error = files.read(&TenantId::new("t"), "a").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(!root.exists());
}

/// Every file below a folder, to check that none is left over.
fn all(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all(&path)) } else { found.push(path.display().to_string()) }
    }
    found
}

#[tokio::test]
async fn a_refused_text_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let files = FolderWorkspace::new(folder.path(), 10);
    let tenant = TenantId::new("t");
    files.write(&tenant, "a", "0123456789").await.unwrap();
    files.append(&tenant, "a", "x").await.unwrap_err();
    files.write(&tenant, "b", "0123456789x").await.unwrap_err();
    assert_eq!(all(folder.path()), [folder.path().join("t/a").display().to_string()]);
}

#[tokio::test]
async fn the_files_of_a_tenant_are_limited_together() {
    let folder = tempfile::tempdir().unwrap();
    let files = FolderWorkspace::within(folder.path(), 100, 10);
    let (tenant, other) = (TenantId::new("t"), TenantId::new("u"));
    files.write(&tenant, "a", "0123").await.unwrap();
    files.write(&tenant, "deep/b", "0123").await.unwrap();
    files.append(&tenant, "deep/b", "45").await.unwrap();
    for refused in [
        files.write(&tenant, "new/c", "x").await,
        files.append(&tenant, "a", "x").await,
        files.write(&tenant, "a", "01234").await,
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind, ErrorKind::QuotaExceeded, "{}", error.full());
        assert!(error.full().contains("files.tenant_bytes_max"), "{}", error.full());
    }
    assert!(!folder.path().join("t/new").exists(), "a refused file has no folder");
    files.write(&other, "a", "0123456789").await.unwrap();
    // A file can be replaced by one that is no longer, and a shorter one makes room.
    files.write(&tenant, "a", "4567").await.unwrap();
    files.write(&tenant, "a", "").await.unwrap();
    files.write(&tenant, "new/c", "0123").await.unwrap();
}

/// The operator removes files, and so do other programs.
#[tokio::test]
async fn files_that_others_remove_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let files = FolderWorkspace::within(folder.path(), 100, 10);
    let tenant = TenantId::new("t");
    files.write(&tenant, "a", "0123456789").await.unwrap();
    files.write(&tenant, "b", "0").await.unwrap_err();
    fs::remove_file(folder.path().join("t/a")).unwrap();
    // A measurement that a busy machine has made slow is trusted for a while.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while let Err(error) = files.write(&tenant, "b", "0").await {
        assert!(std::time::Instant::now() < deadline, "{}", error.full());
    }
    // More than there may be: what exists can become shorter, but not longer.
    fs::write(folder.path().join("t/big"), "0123456789abcdef").unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while files.append(&tenant, "b", "0").await.is_ok() {
        assert!(std::time::Instant::now() < deadline);
    }
    files.write(&tenant, "big", "0123456789abcde").await.unwrap();
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder of tenant `t`, a secret outside, and the workspace.
    fn place() -> (tempfile::TempDir, FolderWorkspace, TenantId) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        fs::create_dir_all(folder.path().join("files/t")).unwrap();
        fs::create_dir_all(folder.path().join("files/u")).unwrap();
        fs::write(folder.path().join("files/u/theirs"), "s").unwrap();
        let files = FolderWorkspace::new(folder.path().join("files"), 100);
        (folder, files, TenantId::new("t"))
    }

    #[tokio::test]
    async fn links_cannot_leave_the_folder() {
        let (folder, files, tenant) = place();
        let own = folder.path().join("files/t");
        symlink(folder.path().join("secret"), own.join("absolute")).unwrap();
        symlink("../../secret", own.join("relative")).unwrap();
        symlink("../u", own.join("neighbour")).unwrap();
        symlink(folder.path(), own.join("out")).unwrap();
        symlink("circle", own.join("circle")).unwrap();
        for path in ["absolute", "relative", "neighbour/theirs", "out/secret"] {
            let error = files.read(&tenant, path).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{path}: {}", error.full());
            assert!(!error.full().contains(folder.path().to_str().unwrap()), "{}", error.full());
        }
        files.read(&tenant, "circle").await.unwrap_err();
        for path in ["neighbour/new", "out/new", "out/deeper/new"] {
            let error = files.write(&tenant, path, "x").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{path}: {}", error.full());
        }
        for path in ["absolute", "relative"] {
            files.append(&tenant, path, "x").await.unwrap_err();
            // The link is replaced by the file; its target stays unchanged.
            files.write(&tenant, path, "x").await.unwrap();
        }
        assert_eq!(fs::read_to_string(folder.path().join("secret")).unwrap(), "s");
        assert_eq!(all(&folder.path().join("files/u")).len(), 1);
        symlink("plain", own.join("inside")).unwrap();
        files.write(&tenant, "plain", "p").await.unwrap();
        assert_eq!(files.read(&tenant, "inside").await.unwrap(), "p");
    }

    #[tokio::test]
    async fn the_folder_of_a_tenant_cannot_be_a_link() {
        let (folder, files, _) = place();
        symlink(folder.path(), folder.path().join("files/v")).unwrap();
        let error = files.read(&TenantId::new("v"), "secret").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{}", error.full());
    }

    #[tokio::test]
    async fn sockets_pipes_and_binary_files_are_refused() {
        let (folder, files, tenant) = place();
        let own = folder.path().join("files/t");
        let _socket = std::os::unix::net::UnixListener::bind(own.join("socket")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(own.join("pipe")).status();
        let mut paths = vec!["socket"];
        if made.is_ok_and(|status| status.success()) {
            paths.push("pipe");
        }
        for path in paths {
            let error = files.read(&tenant, path).await.unwrap_err();
            assert!(
                matches!(error.kind, ErrorKind::Invalid | ErrorKind::Internal),
                "{path}: {}",
                error.full()
            );
        }
        fs::write(own.join("binary"), [0xff, 0xfe]).unwrap();
        assert_eq!(files.read(&tenant, "binary").await.unwrap_err().kind, ErrorKind::Invalid);
    }
}
