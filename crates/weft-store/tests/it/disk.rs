//! How much disk space a conversation takes while the store is open.

use std::path::Path;

use sea_orm::{ConnectionTrait as _, Database, DbBackend, Statement};
use serde_json::{Value as Json, json};
use weft_core::Ending;
use weft_core::id::{RunId, RunKey, SessionKey, TenantId};
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry, StoredRun};
use weft_core::seam::session_store::{Session, SessionCommit, SessionFilter, SessionMessage};
use weft_core::seam::{RunStore, SessionStore};
use weft_store::Store;

const AT: i64 = 1_790_000_000_000;

pub(crate) async fn open(folder: &Path) -> Store {
    Store::open(&format!("sqlite:{}", folder.join("weft.db").display())).await.unwrap()
}

/// Size of all files in a folder, in bytes.
pub(crate) fn bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.map(|file| (file.metadata().unwrap().len(), file.file_name())).map(|(bytes, _)| bytes).sum()
}

pub(crate) fn key() -> SessionKey {
    SessionKey::new(&TenantId::from("default"), "a-long-conversation")
}

pub(crate) async fn begin(store: &Store, state: Json) {
    let session = Session {
        user_id: "ada".into(),
        name: "First words".into(),
        ..Session::new(
            key(),
            "assistant",
            "bf5402a3f0dc0649588d5173deae3d1604c5e6f62d6fc34bf1d537b39fe93088",
            state,
            AT,
        )
    };
    store.sessions().create(&session, &[]).await.unwrap();
}

/// The records of a turn, in the batches in which they are written: begin, a model that streams fifty words, a
/// message.
pub(crate) fn records(turn: i64, query: &str, answer: &[String], state: &Json) -> Vec<Vec<Json>> {
    let whole = answer.concat();
    let who = |activation: u64, node: &str, kind: &str| json!({"activation": activation, "node": node, "name": node.replace(':', "_"), "kind": kind});
    let (begin, agent, message) =
        (who(1, "begin", "Begin"), who(2, "Agent:A", "Agent"), who(3, "Message:M", "Message"));
    let usage = json!({"prompt_tokens": 1_000 + turn, "completion_tokens": 50, "calls": 1});
    let finished = |who: &Json, inputs: Json, outputs: Json, elapsed: f64| json!({"type": "node_finished", "who": who, "inputs": inputs, "outputs": outputs, "error": null, "elapsed": elapsed, "route": {"by": "onward"}});
    let said =
        answer.iter().map(|text| json!({"type": "said", "activation": 3, "node": "Message:M", "text": text}));
    vec![
        vec![
            json!({"type": "run_started", "version": 1, "canvas": "assistant", "canvas_version": "bf5402a3f0dc0649588d5173deae3d1604c5e6f62d6fc34bf1d537b39fe93088",
                "session": "a-long-conversation", "input": {"query": query, "user_id": "ada", "files": [], "inputs": {}}, "seed": 3_494_168_942_418_399_729_u64,
                "resumes": null, "now_ms": AT + turn * 5_003, "revision": turn, "state": state}),
            json!({"type": "node_started", "who": begin}),
        ],
        vec![
            finished(&begin, json!({}), json!({}), 0.000_156_808),
            json!({"type": "node_started", "who": agent}),
            json!({"type": "published", "activation": 2, "output": "content"}),
            json!({"type": "node_started", "who": message}),
            json!({"type": "effect_began", "activation": 2, "key": "model#0", "effect": "model"}),
        ],
        vec![
            json!({"type": "effect_finished", "activation": 2, "effect": "model", "usage": usage}),
            json!({"type": "effect_gave", "activation": 2, "key": "model#0", "gave": {"value": {"text": whole, "calls_left_out": 0, "ending": "whole", "end": {"whole": {"reason": "stop", "usage": usage}}}}}),
        ],
        said.chain([
            finished(&agent, json!({"sys.query": query}), json!({"content": whole}), 0.021_337 + turn as f64 / 1e5),
            json!({"type": "message_ended", "activation": 3, "node": "Message:M", "end": {"reference": null}}),
            finished(&message, json!({"Agent:A@content": whole}), json!({"content": whole}), 0.020_115 + turn as f64 / 1e5),
        ])
        .collect(),
        vec![json!({"type": "run_finished", "ending": "succeeded", "outputs": {"content": whole}, "error": null, "usage": usage, "elapsed": 0.044_375_116})],
    ]
}

pub(crate) fn begun() -> StoredRun {
    StoredRun::begun(RunKey::new(&key().tenant, RunId::generate()), key().id, "assistant", AT)
}

/// Stores one turn as the engine does, and returns its run.
pub(crate) async fn hold(store: &Store, turn: i64, state: (Json, Json)) -> RunKey {
    let started_ms = AT + turn * 5_003;
    let query = format!(
        "turn {turn}: {}",
        "some words of a question that a user may well ask the assistant ".repeat(3)
    );
    let answer: Vec<String> = (0..50).map(|n| format!("w{n} ")).collect();
    let run = StoredRun { query: query.clone(), started_ms, ..begun() };
    RunStore::create(store, &run).await.unwrap();
    let (mut seq, mut event) = (0, 0);
    let batches = records(turn, &query, &answer, &state.0);
    let last = batches.len() - 1;
    for (nth, batch) in batches.into_iter().enumerate() {
        if nth == last {
            let message = |role: &str, content: String| SessionMessage {
                role: role.into(),
                content,
                run: Some(run.key.id.clone()),
                reference: Json::Null,
                created_ms: started_ms + 45,
                feedback: None,
            };
            let messages = [message("user", query.clone()), message("assistant", answer.concat())];
            let lease = RunLease::first(&run.key);
            let commit = SessionCommit {
                revision: turn,
                state: &state.1,
                messages: &messages,
                tasks: None,
                lease: Some(&lease),
            };
            SessionStore::commit(store, &key(), commit).await.unwrap();
        }
        let entries = batch.into_iter().map(|record| {
            seq += 1;
            let hidden = matches!(
                record["type"].as_str(),
                Some("published" | "effect_began" | "effect_finished" | "effect_gave")
            );
            event += u64::from(!hidden);
            let record = record.to_string().into();
            StoredEntry {
                seq,
                event: (!hidden).then_some(event),
                at_ms: started_ms + seq.cast_signed(),
                record,
            }
        });
        store.append(&RunLease::first(&run.key), entries.collect()).await.unwrap();
    }
    store
        .finish(&RunLease::first(&run.key), FinishedRun::new(Ending::Succeeded, started_ms + 46))
        .await
        .unwrap();
    run.key
}

fn state(turn: i64) -> Json {
    let query = format!(
        "turn {}: {}",
        turn - 1,
        "some words of a question that a user may well ask the assistant ".repeat(3)
    );
    json!({"globals": {"sys.query": query, "sys.user_id": "ada", "sys.conversation_turns": turn, "sys.files": [], "sys.history": [],
        "sys.date": "2026-11-22 00:39:34", "sys.chat_template_kwargs": {}}, "turns": turn})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_220_turns_takes_little_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, state(0)).await;
    let empty = bytes(folder.path());
    let (mut first, mut most) = (None, 0);
    for turn in 0..220 {
        let run = hold(&store, turn, (state(turn), state(turn + 1))).await;
        first.get_or_insert(run);
        most = most.max(bytes(folder.path()));
    }
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        println!("{:?} {}", file.file_name(), file.metadata().unwrap().len());
    }
    println!(
        "{} KiB empty, {} KiB after 220 turns, {} KiB at most",
        empty >> 10,
        bytes(folder.path()) >> 10,
        most >> 10
    );
    // Including the log, which is checkpointed at a quarter of a mebibyte, and restarted when nobody reads it.
    assert!(most - empty <= 960 << 10, "{} KiB", (most - empty) >> 10);
    // All of it is still there.
    let entries = store.entries(&first.unwrap(), 0, 999).await.unwrap();
    assert_eq!(entries.len(), 63);
    assert!(entries.iter().map(|entry| entry.seq).eq(1..=63));
    assert_eq!(store.sessions().messages(&key(), i64::MAX, 999).await.unwrap().len(), 440);
    store.close().await.unwrap();
    let left = bytes(folder.path());
    // A tenth of this is empty tables: a page for each and for each index.
    assert!(left <= 592 << 10, "{} KiB", left >> 10);
}

/// Text that hardly compresses.
pub(crate) fn noise(seed: u64, length: usize) -> String {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // No character that JSON escapes.
        char::from(b'#' + (state >> 59) as u8 + ((state >> 20) % 25) as u8)
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_takes_at_most_300_bytes_beyond_its_output() {
    const NODES: u64 = 1_000;
    const OUTPUT: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, json!({})).await;
    let run = begun();
    RunStore::create(&store, &run).await.unwrap();
    let mut seq = 0;
    let mut read = noise(0, OUTPUT);
    for node in 1..=NODES {
        let output = noise(node, OUTPUT);
        let who = json!({"activation": node, "node": format!("StringTransform:S{node}"), "name": format!("StringTransform_S{node}"), "kind": "StringTransform"});
        let finished = json!({"type": "node_finished", "who": who, "inputs": {format!("StringTransform:S{}@result", node - 1): read},
            "outputs": {"result": output}, "error": null, "elapsed": 0.000_013 * node as f64, "route": {"by": "onward"}});
        read = output;
        let records = [json!({"type": "node_started", "who": who}), finished];
        let entries = records.into_iter().map(|record| {
            seq += 1;
            StoredEntry {
                seq,
                event: Some(seq),
                at_ms: AT + seq.cast_signed() / 40,
                record: record.to_string().into(),
            }
        });
        store.append(&RunLease::first(&run.key), entries.collect()).await.unwrap();
    }
    let beyond = async || {
        let (bytes, rows) = journal(folder.path()).await;
        (bytes / NODES.cast_signed() - OUTPUT as i64, rows)
    };
    let (under_way, rows) = beyond().await;
    println!("{under_way} bytes a node beyond its output in {rows} rows under way");
    assert!(under_way <= 300 && rows == NODES.cast_signed(), "{under_way} bytes in {rows} rows");
    store.finish(&RunLease::first(&run.key), FinishedRun::new(Ending::Succeeded, AT + 99)).await.unwrap();
    let (ended, rows) = beyond().await;
    println!("{ended} bytes a node beyond its output in {rows} rows at the end");
    assert!(ended <= 100 && rows <= 5, "{ended} bytes in {rows} rows");
    let whole = store.entries(&run.key, 0, u64::MAX).await.unwrap();
    assert!(whole.iter().map(|entry| entry.seq).eq(1..=2 * NODES));
    for after in [0, 1, 777, 1_998, 1_999, 2_000] {
        let page = store.entries(&run.key, after, 3).await.unwrap();
        assert_eq!(page, whole[after as usize..].iter().take(3).cloned().collect::<Vec<_>>());
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_stays_smaller_than_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let StoredRun { key: run, .. } = &begun();
    RunStore::create(&store, &StoredRun { key: run.clone(), ..begun() }).await.unwrap();
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    for seq in 1..=1_500_u64 {
        let entry = StoredEntry { seq, event: None, at_ms: AT, record: noise(seq, 4_000).into() };
        store.append(&RunLease::first(run), vec![entry]).await.unwrap();
        let (file, log) = (size("weft.db"), size("weft.db-wal"));
        // At first the log also contains the empty tables.
        assert!(log <= file / 4 + (384 << 10), "{log} bytes beside {file} after {seq}");
    }
    assert!(size("weft.db") > 4_000_000, "{}", size("weft.db"));
    store.close().await.unwrap();
}

/// Text that compresses well is short while the run is under way, but is too long for one row after it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_compressible_journal_is_split_into_several_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let StoredRun { key: run, .. } = &begun();
    RunStore::create(&store, &StoredRun { key: run.clone(), ..begun() }).await.unwrap();
    for seq in 1..=40_u64 {
        let entry = StoredEntry { seq, event: None, at_ms: AT, record: format!("{seq:0>20000}").into() };
        store.append(&RunLease::first(run), vec![entry]).await.unwrap();
    }
    assert!(journal(folder.path()).await.0 < 64 * 1024, "the journal is small enough to be kept in memory");
    store.finish(&RunLease::first(run), FinishedRun::new(Ending::Succeeded, AT + 99)).await.unwrap();
    let (_, rows) = journal(folder.path()).await;
    assert!((4..10).contains(&rows), "{rows} rows hold 800 kB");
    let whole = store.entries(run, 0, u64::MAX).await.unwrap();
    assert!(whole.iter().map(|entry| (entry.seq, entry.record.len())).eq((1..=40).map(|seq| (seq, 20_000))));
    store.close().await.unwrap();
}

/// Bytes and rows of all journals.
async fn journal(folder: &Path) -> (i64, i64) {
    let db = Database::connect(format!("sqlite:{}", folder.join("weft.db").display())).await.unwrap();
    let sql = "SELECT SUM(LENGTH(body)) AS bytes, COUNT(*) AS count FROM journal";
    let row = db.query_one_raw(Statement::from_string(DbBackend::Sqlite, sql)).await.unwrap().unwrap();
    db.close().await.unwrap();
    (row.try_get("", "bytes").unwrap(), row.try_get("", "count").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_a_large_session_stores_only_its_changes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let mut notes: Vec<String> = (0..1_000).map(|n| noise(n, 1_000)).collect();
    let state = |notes: &[String]| json!({"globals": {"env.notes": notes}, "turns": 1});
    begin(&store, state(&notes)).await;
    let mut before = bytes(folder.path());
    assert!(before > 500_000, "{before} bytes");
    let mut worst = 0;
    for turn in 0..20_usize {
        let (old, word) = (state(&notes), noise(9_999 + turn as u64, 40));
        notes[turn * 50].replace_range(10..20, &word);
        let run = hold(&store, turn as i64, (old, state(&notes))).await;
        let after = bytes(folder.path());
        if turn > 2 {
            worst = worst.max(after.saturating_sub(before));
        }
        before = after;
        let first = store.entries(&run, 0, 1).await.unwrap();
        assert!(first[0].record.len() > 1_000_000 && first[0].record.contains(&notes[999]));
    }
    println!("{worst} bytes a turn");
    assert!(worst < 80_000, "{worst} bytes a turn");
    assert_eq!(store.sessions().load(&key()).await.unwrap().state, state(&notes));
    let (listed, _) = store
        .sessions()
        .list(&key().tenant, &SessionFilter { limit: 9, ..SessionFilter::default() })
        .await
        .unwrap();
    // A list names the sessions without their states.
    assert_eq!((listed.len(), &listed[0].state), (1, &Json::Null));
    store.close().await.unwrap();
}

/// Listing a thousand sessions does not read a thousand states: one that cannot be read changes nothing.
#[tokio::test]
async fn sessions_are_listed_without_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, json!({"turns": 1})).await;
    let db = Database::connect(format!("sqlite:{}", folder.path().join("weft.db").display())).await.unwrap();
    db.execute_unprepared("UPDATE session SET state = x'ff'").await.unwrap();
    db.close().await.unwrap();
    assert!(store.sessions().load(&key()).await.is_err());
    let filter = SessionFilter { limit: 9, ..SessionFilter::default() };
    let (listed, total) = store.sessions().list(&key().tenant, &filter).await.unwrap();
    assert_eq!((listed.len(), total, &listed[0].name), (1, 1, &"First words".to_owned()));
    store.close().await.unwrap();
}

/// Number of pieces, and number of pages of the file.
async fn pieces(folder: &Path) -> (i64, i64) {
    let db = Database::connect(format!("sqlite:{}", folder.join("weft.db").display())).await.unwrap();
    let sql = "SELECT (SELECT COUNT(*) FROM piece) AS pieces, page_count AS pages FROM pragma_page_count";
    let row = db.query_one_raw(Statement::from_string(DbBackend::Sqlite, sql)).await.unwrap().unwrap();
    db.close().await.unwrap();
    (row.try_get("", "pieces").unwrap(), row.try_get("", "pages").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_removed_runs_is_removed_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let state = |n: u64| json!({"globals": {"env.note": noise(n, 300_000)}, "turns": n});
    begin(&store, state(0)).await;
    let mut runs = Vec::new();
    for turn in 0..6_u64 {
        runs.push(hold(&store, turn.cast_signed(), (state(turn), state(turn + 1))).await);
    }
    // A run under way has pieces of its own.
    let open_run = StoredRun { key: RunKey::new(&key().tenant, "open"), ..begun() };
    RunStore::create(&store, &open_run).await.unwrap();
    let record = json!({"type": "run_started", "state": state(6)}).to_string();
    let first = StoredEntry { seq: 1, event: None, at_ms: AT, record: record.as_str().into() };
    store.append(&RunLease::first(&open_run.key), vec![first.clone()]).await.unwrap();
    let (all, pages) = pieces(folder.path()).await;
    assert_eq!(store.remove(&runs[..5]).await.unwrap(), 5);
    assert_eq!(pieces(folder.path()).await.0, all, "pieces are removed later");
    assert_eq!(store.entries(&open_run.key, 0, 9).await.unwrap(), [first]);
    store.finish(&RunLease::first(&open_run.key), FinishedRun::new(Ending::Failed, AT)).await.unwrap();
    assert_eq!(store.remove(std::slice::from_ref(&open_run.key)).await.unwrap(), 1);
    let (left, fewer) = pieces(folder.path()).await;
    assert!(left * 2 < all && fewer * 2 < pages, "{left} of {all} pieces, {fewer} of {pages} pages");
    let entries = store.entries(&runs[5], 0, 99).await.unwrap();
    assert!(entries.len() == 63 && entries[0].record.contains(&noise(5, 300_000)));
    assert_eq!(store.sessions().load(&key()).await.unwrap().state, state(6));
    // Removing the session removes the rest.
    store.sessions().delete(&key()).await.unwrap();
    assert_eq!(pieces(folder.path()).await.0, 0);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dictionary_is_kept_as_long_as_a_run_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, state(0)).await;
    let mut runs = Vec::new();
    for turn in 0..4 {
        runs.push(hold(&store, turn, (state(turn), state(turn + 1))).await);
    }
    let whole = store.entries(&runs[3], 0, 99).await.unwrap();
    assert_eq!(pieces(folder.path()).await.0, 1);
    assert_eq!(store.remove(&runs[..3]).await.unwrap(), 3);
    store.close().await.unwrap();
    let store = open(folder.path()).await;
    assert_eq!(store.entries(&runs[3], 0, 99).await.unwrap(), whole);
    assert_eq!(store.remove(&runs).await.unwrap(), 1);
    assert_eq!(pieces(folder.path()).await.0, 0);
    store.close().await.unwrap();
}
