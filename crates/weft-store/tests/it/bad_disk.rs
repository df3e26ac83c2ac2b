//! Full disks and truncated files: errors are clear, and acknowledged data is still there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use weft_core::id::{RunKey, SessionKey};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry, StoredRun};
use weft_core::seam::session_store::{Session, SessionFilter};
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
        store.append(&RunLease::first(&run(id).key), entry(seq, 300)).await.unwrap();
    }
}

/// A process with a limited file size: it writes until the limit is reached, and reads after that.
#[tokio::test]
#[ignore = "only as the child of the test below"]
async fn child() {
    #[expect(clippy::disallowed_methods, reason = "the parent names the folder this way")]
    let folder = std::env::var(FOLDER).expect("started by the test below");
    let store = open(Path::new(&folder)).await;
    store.create(&run("r")).await.unwrap();
    for seq in 1..100_000 {
        match store.append(&RunLease::first(&run("r").key), entry(seq, 2_000)).await {
            Ok(()) => println!("stored {seq}"),
            Err(error) => {
                println!("failed {}", error.detail().replace('\n', " "));
                break;
            }
        }
    }
    // Nothing stored is lost, and every further write fails with the same error.
    let there = store.entries(&run("r").key, 0, u64::MAX).await.unwrap().len();
    println!("there {there}");
    let again = store.finish(&RunLease::first(&run("r").key), FinishedRun::new(Ending::Succeeded, 1)).await;
    println!("finish {}", again.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_full_disk_loses_no_acknowledged_data() {
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
    // With free space it continues where it stopped.
    let store = open(folder.path()).await;
    let there = store.entries(&run("r").key, 0, u64::MAX).await.unwrap();
    assert!(there.len() as u64 >= answered);
    assert!(
        there.iter().zip(1..).all(|(entry, seq)| entry.seq == seq && *entry.record == *noise(seq, 2_000))
    );
    store.append(&RunLease::first(&run("r").key), entry(there.len() as u64 + 1, 9)).await.unwrap();
    store.finish(&RunLease::first(&run("r").key), FinishedRun::new(Ending::Succeeded, 1)).await.unwrap();
    assert_eq!(store.entries(&run("r").key, 0, u64::MAX).await.unwrap().len(), there.len() + 1);
    store.close().await.unwrap();
}

/// Limits the size of files that this process may write from now on.
#[cfg(unix)]
fn limit_files(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

#[cfg(unix)]
fn conversation(nth: usize) -> Session {
    Session {
        user_id: "ada".into(),
        name: noise(nth as u64, 200),
        ..Session::new(
            SessionKey::new(&key().tenant, format!("s{nth}")),
            "c",
            "v",
            serde_json::json!({ "text": noise(nth as u64, 20_000) }),
            0,
        )
    }
}

/// A process whose disk is full for a while: everything it acknowledges must be stored, then and later.
#[cfg(unix)]
#[tokio::test]
#[ignore = "only as the child of the test below"]
async fn filled() {
    #[expect(clippy::disallowed_methods, reason = "the parent names the folder this way")]
    let folder = std::env::var(FOLDER).expect("started by the test below");
    let store = open(Path::new(&folder)).await;
    let sessions = store.sessions();
    let mut stored = Vec::new();
    store.probe().await.unwrap();
    // Two rounds: a connection that was not discarded after the first would lose data in the second.
    for round in 0..2 {
        limit_files(Some(fs::metadata(Path::new(&folder).join("weft.db-wal")).unwrap().len() + 50_000));
        let mut refused = 0;
        for nth in (round * 1_000..).take(200) {
            match sessions.create(&conversation(nth), &[]).await {
                Ok(()) => stored.push(nth),
                Err(error) => {
                    assert!(!error.full().contains("weft.db"), "{}", error.full());
                    refused += 1;
                }
            }
            if refused == 3 {
                break;
            }
        }
        assert_eq!(refused, 3, "the disk should have been full");
        // The remaining space might be enough for a single row.
        limit_files(Some(0));
        println!("unready {}", store.probe().await.is_err());
        limit_files(None);
        println!("ready {}", store.probe().await.is_ok());
        for nth in round * 1_000 + 500..round * 1_000 + 505 {
            sessions.create(&conversation(nth), &[]).await.unwrap();
            stored.push(nth);
        }
    }
    let (_, total) =
        sessions.list(&key().tenant, &SessionFilter { limit: 1, ..SessionFilter::default() }).await.unwrap();
    println!("counted {}", total == stored.len() as u64);
    // Another process can write, since nobody holds the lock.
    let other = open(Path::new(&folder)).await;
    other.probe().await.unwrap();
    println!("stored {}", stored.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    // Exits as a kill would.
    std::process::exit(0);
}

#[cfg(unix)]
#[tokio::test]
async fn data_acknowledged_after_a_full_disk_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "bad_disk::filled", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    let told: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("stored ")).collect();
    let [stored] = told[..] else { panic!("{out}\n{}", String::from_utf8_lossy(&child.stderr)) };
    for words in ["unready true", "ready true", "counted true"] {
        assert!(out.contains(words) && !out.contains(&words.replace("true", "false")), "{out}");
    }
    let store = open(folder.path()).await;
    for nth in stored.split(',') {
        let there = store.sessions().load(&SessionKey::new(&key().tenant, format!("s{nth}"))).await;
        assert!(there.is_ok(), "{nth} was acknowledged: {out}");
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_truncated_write_ahead_log_is_read_up_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    fill(&store, "r", 3).await;
    store.close().await.unwrap();
    let store = open(folder.path()).await;
    // Few enough that the log is not checkpointed into the file yet.
    for seq in 4..=6 {
        store.append(&RunLease::first(&run("r").key), entry(seq, 300)).await.unwrap();
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
            if garbled {
                log[end..].fill(0xa5);
            } else {
                log.truncate(end);
            }
            fs::write(copy.path().join("weft.db-wal"), log).unwrap();
            let store = open(copy.path()).await;
            let there = store.entries(&run("r").key, 0, 99).await.unwrap();
            assert!(there.len() >= 3 && there.iter().zip(1..).all(|(entry, seq)| entry.seq == seq), "{nth}");
            seen.push(there.len());
            store.append(&RunLease::first(&run("r").key), entry(there.len() as u64 + 1, 300)).await.unwrap();
            store.close().await.unwrap();
        }
    }
    assert!(seen[0] == 6 && seen.contains(&3), "{seen:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_last_page_affects_only_its_own_rows() {
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
    let told = error.private_message();
    assert!(told.contains("is damaged") && error.private_help().is_some(), "{told}");
    // The run can still be finished, and a write to the page returns the error.
    store.finish(&RunLease::first(&run("after").key), FinishedRun::new(Ending::Failed, 1)).await.unwrap();
    assert_eq!(store.get(&run("after").key).await.unwrap().ending, Some(Ending::Failed));
    let error = store.append(&RunLease::first(&run("before").key), entry(6, 300)).await.unwrap_err();
    assert!(error.kind == ErrorKind::Garbled && error.private_message().contains("is damaged"));
    assert_eq!(store.entries(&run("before").key, 0, 99).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_clock_that_jumps_back_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, serde_json::Value::Null).await;
    store.create(&run("r")).await.unwrap();
    let times = [1_000, 9_000, 2_000, -5, i64::MAX, i64::MIN, 0];
    for (at_ms, seq) in times.into_iter().zip(1..) {
        let entry = StoredEntry { seq, event: Some(seq), at_ms, record: "{}".into() };
        store.append(&RunLease::first(&run("r").key), vec![entry]).await.unwrap();
        store.request_cancel(&run("r").key, at_ms).await.unwrap();
    }
    assert_eq!(store.get(&run("r").key).await.unwrap().cancel_ms, Some(1_000), "the first time counts");
    store.finish(&RunLease::first(&run("r").key), FinishedRun::new(Ending::Succeeded, -1)).await.unwrap();
    let there = store.entries(&run("r").key, 0, 99).await.unwrap();
    assert!(there.iter().map(|entry| entry.at_ms).eq(times));
    store.close().await.unwrap();
}
