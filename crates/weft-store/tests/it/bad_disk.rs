//! Disks that run full, and files that lose their ends: clear errors, and what was answered is there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use weft_core::id::RunKey;
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{StoredEntry, StoredRun};
use weft_core::{Ending, ErrorKind};
use weft_store::Store;

use crate::disk::{begin, begun, key, noise, open};

const FOLDER: &str = "WEFT_TEST_FULL_FOLDER";

fn run(id: &str) -> StoredRun {
    StoredRun { key: RunKey::new(&key().tenant, id), session: id.into(), ..begun() }
}

fn entry(seq: u64, bytes: usize) -> Vec<StoredEntry> {
    vec![StoredEntry { seq, event: None, at_ms: 0, record: noise(seq, bytes).into() }]
}

async fn fill(store: &Store, id: &str, count: u64) {
    store.create(&run(id)).await.unwrap();
    for seq in 1..=count {
        store.append(&run(id).key, entry(seq, 300)).await.unwrap();
    }
}

/// The process whose files may not grow beyond a size: writes until that is reached, and reads then.
#[tokio::test]
#[ignore = "only as the child of the test below"]
async fn child() {
    #[expect(clippy::disallowed_methods, reason = "the parent names the folder this way")]
    let folder = std::env::var(FOLDER).expect("started by the test below");
    let store = open(Path::new(&folder)).await;
    store.create(&run("r")).await.unwrap();
    for seq in 1..100_000 {
        match store.append(&run("r").key, entry(seq, 2_000)).await {
            Ok(()) => println!("stored {seq}"),
            Err(error) => {
                println!("failed {}", error.full().replace('\n', " "));
                break;
            }
        }
    }
    // Nothing that was there is gone, and what cannot be written says so again and again.
    let there = store.entries(&run("r").key, 0, u64::MAX).await.unwrap().len();
    println!("there {there}");
    let again = store.finish(&run("r").key, Ending::Succeeded, 1).await;
    println!("finish {}", again.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_disk_that_runs_full_loses_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.close().await.unwrap();
    // The shell's limit is in blocks of 512 bytes, or of 1024 in some shells.
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "bad_disk::child", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    child.wait().unwrap();
    let told =
        |what: &str| lines.iter().rev().find_map(|line| line.strip_prefix(what)).unwrap_or_default().trim();
    let answered: u64 = told("stored").parse().unwrap();
    let file = folder.path().join("weft.db").display().to_string();
    assert!(told("failed").contains(&file) && told("failed").contains("disk"), "{lines:?}");
    assert!(told("there").parse::<u64>().unwrap() >= answered && answered > 100, "{lines:?}");
    // With room again it goes on where it was.
    let store = open(folder.path()).await;
    let there = store.entries(&run("r").key, 0, u64::MAX).await.unwrap();
    assert!(there.len() as u64 >= answered);
    assert!(
        there.iter().zip(1..).all(|(entry, seq)| entry.seq == seq && *entry.record == *noise(seq, 2_000))
    );
    store.append(&run("r").key, entry(there.len() as u64 + 1, 9)).await.unwrap();
    store.finish(&run("r").key, Ending::Succeeded, 1).await.unwrap();
    assert_eq!(store.entries(&run("r").key, 0, u64::MAX).await.unwrap().len(), there.len() + 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_lost_its_end_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    fill(&store, "r", 3).await;
    store.close().await.unwrap();
    let store = open(folder.path()).await;
    // Few enough that the log is not copied into the file yet.
    for seq in 4..=6 {
        store.append(&run("r").key, entry(seq, 300)).await.unwrap();
    }
    // As a crash of the machine leaves it: with the log, whose last pages never reached the disk.
    let log = fs::read(folder.path().join("weft.db-wal")).unwrap();
    assert!(log.len() > 3 * 2_048, "{}", log.len());
    let mut seen = Vec::new();
    for (nth, cut) in [0, 1, 700, 2_100, 9_000, log.len() - 40, log.len()].into_iter().enumerate() {
        for garbled in [false, true] {
            let copy = tempfile::tempdir().unwrap();
            fs::copy(folder.path().join("weft.db"), copy.path().join("weft.db")).unwrap();
            let mut log = log.clone();
            let end = log.len() - cut;
            match garbled {
                true => log[end..].fill(0xa5),
                false => log.truncate(end),
            }
            fs::write(copy.path().join("weft.db-wal"), log).unwrap();
            let store = open(copy.path()).await;
            let there = store.entries(&run("r").key, 0, 99).await.unwrap();
            assert!(there.len() >= 3 && there.iter().zip(1..).all(|(entry, seq)| entry.seq == seq), "{nth}");
            seen.push(there.len());
            store.append(&run("r").key, entry(there.len() as u64 + 1, 300)).await.unwrap();
            store.close().await.unwrap();
        }
    }
    assert!(seen[0] == 6 && seen.contains(&3), "{seen:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_last_page_concerns_what_is_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, serde_json::Value::Null).await;
    fill(&store, "before", 5).await;
    fill(&store, "after", 40).await;
    store.close().await.unwrap();
    let path = folder.path().join("weft.db");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 2_048;
    bytes[last..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let store = open(folder.path()).await;
    assert_eq!(store.entries(&run("before").key, 0, 99).await.unwrap().len(), 5);
    let error = store.entries(&run("after").key, 0, 99).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Garbled, "{}", error.full());
    assert!(error.message.contains("is damaged") && error.help.is_some(), "{}", error.full());
    // Its end can still be noted, and whoever writes to the page is told.
    store.finish(&run("after").key, Ending::Failed, 1).await.unwrap();
    assert_eq!(store.get(&run("after").key).await.unwrap().ending, Some(Ending::Failed));
    let error = store.append(&run("before").key, entry(6, 300)).await.unwrap_err();
    assert!(error.kind == ErrorKind::Garbled && error.message.contains("is damaged"), "{}", error.full());
    assert_eq!(store.entries(&run("before").key, 0, 99).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_clock_that_jumps_back_takes_nothing_along() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, serde_json::Value::Null).await;
    store.create(&run("r")).await.unwrap();
    let times = [1_000, 9_000, 2_000, -5, i64::MAX, i64::MIN, 0];
    for (at_ms, seq) in times.into_iter().zip(1..) {
        let entry = StoredEntry { seq, event: Some(seq), at_ms, record: "{}".into() };
        store.append(&run("r").key, vec![entry]).await.unwrap();
        store.alive(&[run("r").key], at_ms).await.unwrap();
    }
    assert_eq!(store.get(&run("r").key).await.unwrap().alive_ms, i64::MAX, "and never goes back");
    store.finish(&run("r").key, Ending::Succeeded, -1).await.unwrap();
    let there = store.entries(&run("r").key, 0, 99).await.unwrap();
    assert!(there.iter().map(|entry| entry.at_ms).eq(times));
    store.close().await.unwrap();
}
