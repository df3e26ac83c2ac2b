//! Contract of a store for conversation files.

use bytes::Bytes;
use weft_core::ErrorKind::{Invalid, NotFound, QuotaExceeded};
use weft_core::id::{FileId, SessionId, TenantId, UserId, generate};
use weft_core::seam::FileStore;
use weft_core::seam::file_store::StoredFile;

use super::{fine, refused, tenant};

/// Maximum size of a file, in bytes, that the store under [`file_store_keeps_its_contract`] must be opened with.
pub const FILE_BYTES_MAX: u64 = 1_000;
/// Maximum size of all files of a tenant, likewise.
pub const TENANT_BYTES_MAX: u64 = 2_500;

fn file(name: &str, size: usize, created_ms: i64) -> StoredFile {
    StoredFile {
        id: FileId::from(generate()),
        name: name.to_owned(),
        mime_type: "text/plain; charset=utf-8".to_owned(),
        size: size as u64,
        session: None,
        user: None,
        created_ms,
    }
}

fn bytes(size: usize) -> Bytes {
    Bytes::from(vec![7; size])
}

/// Checks the contract of [`FileStore`] for a store that is opened with [`FILE_BYTES_MAX`] and [`TENANT_BYTES_MAX`].
pub async fn file_store_keeps_its_contract(files: &dyn FileStore) {
    let (ours, theirs) = (tenant(), tenant());
    files_round_trip(files, &ours, &theirs).await;
    quotas_are_enforced(files).await;
    found_by_age_and_session(files).await;
    found_by_user(files).await;
}

async fn files_round_trip(files: &dyn FileStore, ours: &TenantId, theirs: &TenantId) {
    let first = file("Ünïcode \"汉\".txt", 3, 10);
    refused(files.find(ours, &first.id).await, NotFound);
    refused(files.read(ours, &first.id).await, NotFound);
    fine(files.put(ours, &first, Bytes::from_static(b"\0a\xff")).await);
    assert_eq!(fine(files.find(ours, &first.id).await), first);
    assert_eq!(fine(files.read(ours, &first.id).await), (first.clone(), Bytes::from_static(b"\0a\xff")));
    refused(files.read(theirs, &first.id).await, NotFound);
    assert_eq!(fine(files.remove(theirs, std::slice::from_ref(&first.id)).await), 0);
    let again = StoredFile { name: "other.txt".to_owned(), size: 0, ..first.clone() };
    fine(files.put(ours, &again, Bytes::new()).await);
    assert_eq!(fine(files.read(ours, &first.id).await), (again, Bytes::new()));
    for bad in ["", "../x", "a b", ".a"] {
        let bad = StoredFile { id: bad.into(), ..first.clone() };
        refused(files.put(ours, &bad, Bytes::new()).await, Invalid);
    }
    assert_eq!(fine(files.remove(ours, &[first.id.clone(), "unknown".into()]).await), 1);
    refused(files.read(ours, &first.id).await, NotFound);
    assert_eq!(fine(files.remove(ours, &[first.id]).await), 0);
}

async fn quotas_are_enforced(files: &dyn FileStore) {
    let (ours, theirs) = (tenant(), tenant());
    refused(files.put(&ours, &file("large", 1_001, 1), bytes(1_001)).await, Invalid);
    let kept = [file("a", 1_000, 1), file("b", 1_000, 1), file("c", 500, 1)];
    for file in &kept {
        fine(files.put(&ours, file, bytes(usize::try_from(file.size).unwrap_or(0))).await);
    }
    let more = file("d", 1, 1);
    refused(files.put(&ours, &more, bytes(1)).await, QuotaExceeded);
    refused(files.find(&ours, &more.id).await, NotFound);
    fine(files.put(&theirs, &more, bytes(1)).await);
    // A replacement counts in place of the file that it replaces.
    fine(files.put(&ours, &kept[0], bytes(1_000)).await);
    fine(files.remove(&ours, std::slice::from_ref(&kept[1].id)).await);
    fine(files.put(&ours, &more, bytes(1)).await);
    fine(files.remove(&ours, std::slice::from_ref(&more.id)).await);
    // There is room for one more, even under concurrent requests.
    let many: Vec<StoredFile> = (0..4).map(|_| file("e", 600, 1)).collect();
    let put = futures::future::join_all(many.iter().map(|one| files.put(&ours, one, bytes(600)))).await;
    assert_eq!(put.iter().filter(|put| put.is_ok()).count(), 1, "{put:?}");
    let ids: Vec<FileId> = kept.iter().chain([&more]).chain(&many).map(|file| file.id.clone()).collect();
    fine(files.remove(&ours, &ids).await);
    fine(files.remove(&theirs, &ids).await);
}

async fn found_by_age_and_session(files: &dyn FileStore) {
    let (ours, session) = (tenant(), SessionId::from(generate()));
    // Older than anything else in the same store.
    let mut made: Vec<StoredFile> = (0..3).map(|n| file("x", 1, i64::MIN / 2 + n)).collect();
    made[1].session = Some(session.clone());
    made[2].session = Some(session.clone());
    for file in made.iter().rev() {
        fine(files.put(&ours, file, bytes(1)).await);
    }
    let key = |n: usize| (ours.clone(), made[n].id.clone());
    let before = i64::MIN / 2 + 2;
    assert_eq!(fine(files.older_than(before, 10).await), [key(0), key(1)]);
    assert_eq!(fine(files.older_than(before, 1).await), [key(0)]);
    assert_eq!(fine(files.older_than(i64::MIN / 2, 10).await), []);
    assert_eq!(fine(files.of_session(&ours, &session).await), made[1..]);
    assert_eq!(fine(files.of_session(&tenant(), &session).await), []);
    assert_eq!(fine(files.of_session(&ours, &SessionId::from("other")).await), []);
    let ids: Vec<FileId> = made.into_iter().map(|file| file.id).collect();
    assert_eq!(fine(files.remove(&ours, &ids).await), 3);
    assert_eq!(fine(files.older_than(before, 10).await), []);
}

async fn found_by_user(files: &dyn FileStore) {
    let (ours, theirs) = (tenant(), tenant());
    let (ann, bob) = (UserId::generate(), UserId::generate());
    let of = |user: &UserId, created_ms| StoredFile { user: Some(user.clone()), ..file("x", 1, created_ms) };
    // Two of the same time, in the order of their ids.
    let mut made = [of(&ann, 1), of(&ann, 2), of(&ann, 2), of(&ann, 3)];
    made[1..3].sort_by_key(|file| file.id.clone());
    let (other, nobodys) = (of(&bob, 2), file("x", 1, 2));
    for file in made.iter().rev().chain([&other, &nobodys]) {
        fine(files.put(&ours, file, bytes(1)).await);
    }
    let elsewhere = of(&ann, 2);
    fine(files.put(&theirs, &elsewhere, bytes(1)).await);
    assert_eq!(fine(files.find(&ours, &made[0].id).await), made[0]);
    assert_eq!(fine(files.of_user(&ours, &ann, None, 9).await), made);
    assert_eq!(fine(files.of_user(&ours, &ann, None, 2).await), made[..2]);
    for (nth, last) in made.iter().enumerate() {
        let after = Some((last.created_ms, &last.id));
        assert_eq!(fine(files.of_user(&ours, &ann, after, 9).await), made[nth + 1..]);
    }
    assert_eq!(fine(files.of_user(&ours, &bob, None, 9).await), std::slice::from_ref(&other));
    assert_eq!(fine(files.of_user(&theirs, &ann, None, 9).await), std::slice::from_ref(&elsewhere));
    assert_eq!(fine(files.of_user(&ours, &UserId::generate(), None, 9).await), []);
    // Whoever replaces a file has it.
    let taken = StoredFile { user: Some(bob.clone()), ..made[3].clone() };
    fine(files.put(&ours, &taken, bytes(1)).await);
    assert_eq!(fine(files.of_user(&ours, &ann, None, 9).await), made[..3]);
    assert_eq!(fine(files.of_user(&ours, &bob, None, 9).await), [other.clone(), taken]);
    let ids: Vec<FileId> = made.iter().chain([&other, &nobodys]).map(|file| file.id.clone()).collect();
    fine(files.remove(&ours, &ids).await);
    assert_eq!(fine(files.of_user(&ours, &ann, None, 9).await), []);
    fine(files.remove(&theirs, std::slice::from_ref(&elsewhere.id)).await);
}
