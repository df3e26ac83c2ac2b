//! Entries that `append` has acknowledged survive `kill -9`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use weft_core::id::{RunKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{RunLease, StoredEntry, StoredRun};
use weft_store::Store;

const FOLDER: &str = "WEFT_TEST_CRASH_FOLDER";
const ENTRIES_A_STEP: u64 = 3;

fn run() -> StoredRun {
    StoredRun::begun(RunKey::new(&TenantId::from("t"), "run"), "s", "c", 0)
}

async fn open(folder: &Path) -> Store {
    Store::open(&format!("sqlite:{}", folder.join("weft.db").display())).await.unwrap()
}

async fn append(store: &Store, first_seq: u64) {
    let entries = (first_seq..first_seq + ENTRIES_A_STEP)
        .map(|seq| StoredEntry { seq, event: None, at_ms: 0, record: format!("{{\"n\":{seq}}}").into() })
        .collect();
    store.append(&RunLease::first(&run().key), entries).await.unwrap();
}

/// The process that is killed: appends until then, and prints its progress after each append.
#[tokio::test]
#[ignore = "only as the child of the test below"]
async fn child() {
    #[expect(clippy::disallowed_methods, reason = "the parent names the folder this way")]
    let folder = std::env::var(FOLDER).expect("started by the test below");
    let store = open(Path::new(&folder)).await;
    store.create(&run()).await.unwrap();
    for step in 0.. {
        append(&store, step * ENTRIES_A_STEP + 1).await;
        println!("stored {}", (step + 1) * ENTRIES_A_STEP);
    }
}

#[tokio::test]
async fn acknowledged_entries_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "crash::child", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = 0_u64;
    while answered < 60 * ENTRIES_A_STEP {
        let line = lines.next().expect("the child goes on until it is killed").unwrap();
        if let Some(seq) = line.strip_prefix("stored ") {
            answered = seq.parse().unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let store = open(folder.path()).await;
    let entries = store.entries(&run().key, 0, u64::MAX).await.unwrap();
    let last = entries.last().unwrap().seq;
    assert!(last >= answered && last % ENTRIES_A_STEP == 0, "{last} stored, {answered} acknowledged");
    assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq));
    append(&store, last + 1).await;
}
