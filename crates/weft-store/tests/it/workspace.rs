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
