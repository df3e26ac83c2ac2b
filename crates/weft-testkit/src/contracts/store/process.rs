//! Contract of a store in which processes report that they are alive.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use weft_core::Ending;
use weft_core::id::ProcessId;
use weft_core::seam::process_store::{ProcessPlace, StoredProcess};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredRun};
use weft_core::seam::{ProcessStore, RunStore};

use super::run::{of_tenant, run};
use super::tenant;

/// Checks the contract of [`ProcessStore`], and its effect on [`RunStore::unattended`]. The two are one store.
pub async fn process_store_keeps_its_contract(store: &dyn ProcessStore, runs: &dyn RunStore) {
    // Unique names, because processes do not belong to a tenant.
    let (one, other) = (ProcessId::generate(), ProcessId::generate());
    let place = ProcessPlace { host: "höst".into(), boot: "b/1".into(), pid: u32::MAX, started: u64::MAX };
    let find = async |id: &ProcessId| -> Option<StoredProcess> {
        store.list().await.unwrap().into_iter().find(|process| process.id == *id)
    };
    assert_eq!(find(&one).await, None);
    store.beat(&one, Some(&place)).await.unwrap();
    store.beat(&other, None).await.unwrap();
    assert_eq!(find(&one).await.unwrap().place, Some(place.clone()));
    assert_eq!(find(&other).await.unwrap().place, None);
    let first = find(&one).await.unwrap().beat;
    for said in join_all((0..8).map(|_| store.beat(&one, Some(&place)))).await {
        said.unwrap();
    }
    assert_eq!(
        find(&one).await.unwrap(),
        StoredProcess { id: one.clone(), place: Some(place), beat: first + 8 }
    );
    let tenant = tenant();
    let owned = StoredRun { owner: Some(one.clone()), ..run(&tenant, "owned", "s", "c") };
    runs.create(&owned).await.unwrap();
    let unattended =
        async |gone: &[ProcessId]| of_tenant(&tenant, runs.unattended(gone, u64::MAX).await.unwrap());
    assert_eq!(unattended(&[]).await, [""; 0]);
    assert_eq!(unattended(std::slice::from_ref(&other)).await, [""; 0]);
    assert_eq!(unattended(&[other.clone(), one.clone()]).await, ["owned"]);
    // A process that has reported since, or owns a run, is not removed.
    assert!(!store.forget(&one, first).await.unwrap());
    assert!(!store.forget(&one, first + 8).await.unwrap());
    runs.finish(&RunLease::of(&owned), FinishedRun::new(Ending::Succeeded, 9)).await.unwrap();
    assert!(store.forget(&one, first + 8).await.unwrap());
    assert!(!store.forget(&one, first + 8).await.unwrap());
    assert_eq!(find(&one).await, None);
    assert!(find(&other).await.is_some());
    // A process that was only silent comes back.
    store.beat(&one, None).await.unwrap();
    assert!(find(&one).await.is_some());
    for id in [one, other] {
        let beat = find(&id).await.unwrap().beat;
        assert!(store.forget(&id, beat).await.unwrap());
    }
}
