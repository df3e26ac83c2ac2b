//! Files and folders that cannot be used, each with one clear error.

use std::fs;
use std::path::Path;

use weft_core::id::{CanvasKey, TenantId};
use weft_core::seam::CanvasStore;
use weft_core::seam::canvas_store::{CanvasFilter, CanvasHead};
use weft_core::{Error, ErrorKind};
use weft_store::Store;

async fn open(path: &Path) -> Result<Store, Error> {
    Store::open(&format!("sqlite:{}", path.display())).await
}

#[track_caller]
fn names(error: &Error, kind: ErrorKind, path: &Path, word: &str) {
    assert_eq!(error.kind, kind, "{}", error.full());
    let told = error.private_message();
    assert!(told.contains(&*path.to_string_lossy()) && told.contains(word), "{told}");
    assert!(error.private_help().is_some(), "{told}");
}

#[tokio::test]
async fn a_missing_folder_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("some/where else/ü?#%41");
    let path = missing.join("weft.db");
    let error = open(&path).await.unwrap_err();
    names(&error, ErrorKind::Invalid, &missing, "there is no folder");
    assert!(error.help.unwrap().contains("mkdir -p"));
    assert!(!folder.path().join("some").exists());
    fs::create_dir_all(&missing).unwrap();
    open(&path).await.unwrap().close().await.unwrap();
    assert!(path.is_file());
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_removed_or_replaced_under_a_store_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, aside) = (folder.path().join("weft.db"), folder.path().join("aside.db"));
    let store = open(&path).await.unwrap();
    store.probe().await.unwrap();
    fs::rename(&path, &aside).unwrap();
    let gone = |error: &Error| names(error, ErrorKind::Unavailable, &path, "was removed or replaced");
    gone(&store.probe().await.unwrap_err());
    fs::copy(&aside, &path).unwrap();
    gone(&store.probe().await.unwrap_err());
    fs::rename(&aside, &path).unwrap();
    store.probe().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_a_store_old_or_new() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    let open_to_others = || {
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
        files.filter(|file| file.metadata().unwrap().permissions().mode() & 0o077 != 0).count()
    };
    let store = open(&path).await.unwrap();
    store.put(&CanvasKey::new(&TenantId::new("t"), "c"), &CanvasHead::default(), "{}").await.unwrap();
    assert!(folder.path().join("weft.db-wal").exists());
    assert_eq!(open_to_others(), 0);
    store.close().await.unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&path).await.unwrap();
    assert_eq!(open_to_others(), 0);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_directory_is_not_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(folder.path()).await.unwrap_err();
    names(&error, ErrorKind::Invalid, folder.path(), "is a directory");
}

#[cfg(unix)]
#[tokio::test]
async fn a_copy_is_private_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("weft.db"), folder.path().join("copy.db"));
    let store = open(&path).await.unwrap();
    let key = CanvasKey::new(&TenantId::from("t"), "c");
    store.put(&key, &CanvasHead::default(), "{}").await.unwrap();
    store.copy_into(&copy).await.unwrap();
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let copied = open(&copy).await.unwrap();
    assert_eq!(&*CanvasStore::get(&copied, &key).await.unwrap().dsl, "{}");
    copied.close().await.unwrap();
    assert!(store.copy_into(&copy).await.is_err(), "an existing file is not overwritten");
}

#[tokio::test]
async fn a_file_in_place_of_the_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = open(&file.join("weft.db")).await.unwrap_err();
    names(&error, ErrorKind::Invalid, &file, "there is no folder");
}

#[tokio::test]
async fn a_file_of_another_kind_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    let text = "this is somebody's letter, not a database\n".repeat(200);
    fs::write(&path, &text).unwrap();
    let error = open(&path).await.unwrap_err();
    names(&error, ErrorKind::Garbled, &path, "is not a SQLite database");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    let store = open(&path).await.unwrap();
    let tenant = TenantId::from("t");
    for n in 0..40 {
        let head = CanvasHead { title: n.to_string(), ..CanvasHead::default() };
        store.put(&CanvasKey::new(&tenant, n.to_string()), &head, &"{}".repeat(900)).await.unwrap();
    }
    store.close().await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let header = 100;
    bytes[header..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let error = match open(&path).await {
        Err(error) => error,
        Ok(store) => CanvasStore::list(&store, &tenant, &CanvasFilter::default()).await.unwrap_err(),
    };
    names(&error, ErrorKind::Garbled, &path, "is damaged");
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_folder_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        weft_testkit::skipped("this user may write everywhere");
        return;
    }
    let path = locked.join("weft.db");
    let error = open(&path).await.unwrap_err();
    names(&error, ErrorKind::Denied, &path, "cannot be opened");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    // Not even root may create files here.
    let path = Path::new("/proc/weft.db");
    names(&open(path).await.unwrap_err(), ErrorKind::Denied, path, "cannot make the file");
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    use sea_orm::{ConnectionTrait, Database};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weft.db");
    open(&path).await.unwrap().close().await.unwrap();
    let db = Database::connect(format!("sqlite:{}", path.display())).await.unwrap();
    db.execute_unprepared("INSERT INTO seaql_migrations VALUES ('m9999_future', 0)").await.unwrap();
    db.close().await.unwrap();
    names(&open(&path).await.unwrap_err(), ErrorKind::Unsupported, &path, "newer version");
}
