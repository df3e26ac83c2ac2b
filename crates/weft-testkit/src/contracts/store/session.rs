//! Contract of a session store.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use futures::future::join_all;
use serde_json::json;
use weft_core::ErrorKind::{Conflict, NotFound};
use weft_core::id::{RunId, SessionKey, TenantId};
use weft_core::seam::SessionStore;
use weft_core::seam::session_store::{
    Feedback, HISTORY_BYTES_MAX, Session, SessionCommit, SessionFilter, SessionMessage, SessionOrder,
};
use weft_core::value::Json;

use super::{LARGE, later, refused, tenant};

pub(super) fn session(tenant: &TenantId, id: &str, canvas: &str) -> Session {
    Session {
        user_id: "ada".into(),
        name: "First words 🦜".into(),
        ..Session::new(
            SessionKey::new(tenant, id),
            canvas,
            "0123abcd",
            json!({"globals": {"sys.query": "", "nul": "\u{0}", "big": 9_007_199_254_740_993_i64, "part": 0.1}}),
            1_000,
        )
    }
}

pub(super) fn said(role: &str, content: &str, run: Option<&str>) -> SessionMessage {
    let reference =
        if run.is_some() { json!({"chunks": [{"id": "c1"}], "doc_aggs": []}) } else { Json::Null };
    SessionMessage {
        role: role.into(),
        content: content.into(),
        run: run.map(RunId::from),
        reference,
        created_ms: 1_001,
        feedback: None,
    }
}

/// A turn's change to a session that does not involve tasks for people.
pub(super) fn change<'a>(
    revision: i64,
    state: &'a Json,
    messages: &'a [SessionMessage],
) -> SessionCommit<'a> {
    SessionCommit { revision, state, messages, tasks: None, lease: None }
}

/// Checks the contract of [`SessionStore`].
pub async fn session_store_keeps_its_contract(store: &dyn SessionStore) {
    sessions_round_trip(store).await;
    messages_are_read_in_order(store).await;
    messages_are_read_page_by_page(store).await;
    a_turn_reads_a_limited_part_of_the_messages(store).await;
    a_commit_needs_the_current_revision(store).await;
    one_of_many_concurrent_commits_wins(store).await;
    any_text_can_be_stored(store).await;
    sessions_are_listed_by_filter(store).await;
    names_are_searched_literally(store).await;
    tenants_are_isolated(store).await;
    messages_are_rated_and_removed(store).await;
}

async fn sessions_round_trip(store: &dyn SessionStore) {
    let tenant = tenant();
    let one = session(&tenant, "one", "c");
    refused(store.load(&one.key).await, NotFound);
    store.create(&one, &[said("assistant", "Hello", None)]).await.unwrap();
    assert_eq!(store.load(&one.key).await.unwrap(), one);
    let again = Session { name: "another".into(), ..one.clone() };
    refused(store.create(&again, &[said("assistant", "Hi", None)]).await, Conflict);
    assert_eq!(store.load(&one.key).await.unwrap(), one);
    assert_eq!(store.messages(&one.key, i64::MAX, 9).await.unwrap(), [said("assistant", "Hello", None)]);
    let upper = session(&tenant, "ONE", "c");
    store.create(&upper, &[]).await.unwrap();
    assert_eq!(store.messages(&upper.key, i64::MAX, 9).await.unwrap(), []);
}

async fn messages_are_read_in_order(store: &dyn SessionStore) {
    let one = session(&tenant(), "one", "c");
    let mut told = vec![said("assistant", "Hello", None), said("assistant", "How are you?", None)];
    store.create(&one, &told).await.unwrap();
    for turn in 0..12 {
        let run = format!("run{turn}");
        let new = [said("user", &format!("q{turn}"), Some(&run)), said("assistant", "a", Some(&run))];
        store.commit(&one.key, change(turn, &json!({}), &new)).await.unwrap();
        told.extend(new);
    }
    assert_eq!(store.messages(&one.key, i64::MAX, u64::MAX).await.unwrap(), told);
    assert_eq!(store.messages(&one.key, i64::MAX, 5).await.unwrap(), told[told.len() - 5..]);
    assert_eq!(store.messages(&one.key, i64::MAX, 0).await.unwrap(), []);
    let size =
        |message: &SessionMessage| (message.content.len() + message.reference.to_string().len()) as u64;
    let sizes: Vec<u64> = told.iter().rev().map(size).collect();
    assert_eq!(store.message_sizes(&one.key, u64::MAX).await.unwrap(), sizes);
    assert_eq!(store.message_sizes(&one.key, 5).await.unwrap(), sizes[..5]);
    let nobody = SessionKey::new(&one.key.tenant, "nobody");
    assert_eq!(store.messages(&nobody, i64::MAX, 5).await.unwrap(), []);
    assert!(store.message_sizes(&nobody, 5).await.unwrap().is_empty());
}

async fn a_turn_reads_a_limited_part_of_the_messages(store: &dyn SessionStore) {
    let one = session(&tenant(), "one", "c");
    let told: Vec<SessionMessage> = (0..150).map(|n| said("user", &n.to_string(), None)).collect();
    let sourced = SessionMessage { reference: json!({"chunks": [1]}), ..told[149].clone() };
    let stored: Vec<SessionMessage> = told[..149].iter().cloned().chain([sourced]).collect();
    store.create(&one, &stored).await.unwrap();
    for count in [0, 1, 63, 64, 65, 128, 149, 150, 151] {
        let expected = &told[150_usize.saturating_sub(count)..];
        assert_eq!(store.history(&one.key, i64::MAX, count as u64).await.unwrap(), expected, "{count}");
    }
    let large = "x".repeat(HISTORY_BYTES_MAX / 4);
    for turn in 0..5 {
        let new = [said("assistant", &large, Some("run"))];
        store.commit(&one.key, change(turn, &json!({}), &new)).await.unwrap();
    }
    let read = store.history(&one.key, i64::MAX, 500).await.unwrap();
    assert_eq!((read.len(), &read[3].run, &read[3].reference), (4, &Some("run".into()), &Json::Null));
    assert_eq!(store.history(&one.key, 2, 500).await.unwrap().len(), 152);
    assert_eq!(store.messages(&one.key, i64::MAX, 500).await.unwrap().len(), 155);
    let nobody = SessionKey::new(&one.key.tenant, "nobody");
    assert_eq!(store.history(&nobody, i64::MAX, 5).await.unwrap(), []);
}

async fn messages_are_read_page_by_page(store: &dyn SessionStore) {
    let one = session(&tenant(), "one", "c");
    let mut told = vec![said("assistant", "Hello", None), said("assistant", "How are you?", None)];
    store.create(&one, &told).await.unwrap();
    for turn in 0..3 {
        let new = ["q", "a", "b"].map(|words| said("user", &format!("{words}{turn}"), Some("run")));
        store.commit(&one.key, change(turn, &json!({}), &new)).await.unwrap();
        told.extend(new);
    }
    for page in [1, 2, 4, 11, 99] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let some = store.messages_after(&one.key, after, page).await.unwrap();
            assert!(some.len() as u64 <= page && some.is_sorted_by_key(|(at, _)| *at));
            let Some((last, _)) = some.last() else { break };
            after = Some(*last);
            found.extend(some.into_iter().map(|(_, message)| message));
        }
        assert_eq!(found, told, "by {page}");
    }
    assert!(store.messages_after(&one.key, None, 0).await.unwrap().is_empty());
    let nobody = SessionKey::new(&one.key.tenant, "nobody");
    assert!(store.messages_after(&nobody, None, 5).await.unwrap().is_empty());
}

async fn a_commit_needs_the_current_revision(store: &dyn SessionStore) {
    let one = Session { revision: 3, ..session(&tenant(), "one", "c") };
    store.create(&one, &[]).await.unwrap();
    let turn = json!({"turn": 1});
    store.commit(&one.key, change(3, &turn, &[said("user", "q", Some("r"))])).await.unwrap();
    let loaded = store.load(&one.key).await.unwrap();
    assert_eq!((loaded.revision, &loaded.state), (4, &turn));
    assert!(loaded.updated_ms > one.updated_ms);
    assert_eq!(loaded.created_ms, one.created_ms);
    for stale in [3, 5, -1, i64::MAX] {
        refused(
            store.commit(&one.key, change(stale, &json!({}), &[said("user", "late", None)])).await,
            Conflict,
        );
    }
    assert_eq!(store.load(&one.key).await.unwrap(), loaded);
    assert_eq!(store.messages(&one.key, i64::MAX, 9).await.unwrap().len(), 1);
    let nobody = SessionKey::new(&one.key.tenant, "nobody");
    refused(store.commit(&nobody, change(0, &json!({}), &[])).await, NotFound);
    store.commit(&one.key, change(4, &turn, &[])).await.unwrap();
}

async fn one_of_many_concurrent_commits_wins(store: &dyn SessionStore) {
    let one = session(&tenant(), "one", "c");
    store.create(&one, &[]).await.unwrap();
    for revision in 0..3 {
        let commit = async |n: usize| {
            let messages = [said("user", &n.to_string(), None), said("assistant", &n.to_string(), None)];
            (n, store.commit(&one.key, change(revision, &json!({ "winner": n }), &messages)).await)
        };
        let outcomes = join_all((0..8).map(commit)).await;
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|(_, outcome)| outcome.is_ok());
        assert_eq!(won.len(), 1);
        lost.into_iter().for_each(|(_, outcome)| refused(outcome, Conflict));
        let loaded = store.load(&one.key).await.unwrap();
        assert_eq!((loaded.revision, &loaded.state), (revision + 1, &json!({ "winner": won[0].0 })));
        let messages = store.messages(&one.key, i64::MAX, 2).await.unwrap();
        assert!(messages.iter().all(|message| message.content == won[0].0.to_string()));
    }
    assert_eq!(store.messages(&one.key, i64::MAX, 99).await.unwrap().len(), 6);
    // The messages of earlier revisions can still be read.
    for revision in 0..3 {
        let told = store.messages(&one.key, revision, 99).await.unwrap();
        assert_eq!(told.len() as i64, 2 * revision);
    }
}

async fn any_text_can_be_stored(store: &dyn SessionStore) {
    let one = Session { name: "a\0b".into(), ..session(&tenant(), "one", "c") };
    store.create(&one, &[]).await.unwrap();
    let long = "Ω🦜".repeat(LARGE / 6);
    let state = json!({ "history": long });
    let messages = [said("user", &long, None), said("assistant", "before\0after", None)];
    store.commit(&one.key, change(0, &state, &messages)).await.unwrap();
    let told = store.messages(&one.key, i64::MAX, 9).await.unwrap();
    assert!(told[0] == messages[0] && store.load(&one.key).await.unwrap().state == state);
    assert!(told[1].content.starts_with("before") && told[1].content.ends_with("after"));
    let many: Vec<_> = (0..1_200).map(|n| said("user", &n.to_string(), None)).collect();
    store.commit(&one.key, change(1, &state, &many)).await.unwrap();
    assert!(store.messages(&one.key, i64::MAX, 1_200).await.unwrap() == many);
}

async fn sessions_are_listed_by_filter(store: &dyn SessionStore) {
    let tenant = tenant();
    for (n, (id, canvas, user)) in
        [("a", "x", "ada"), ("b", "x", "grace"), ("c", "y", "ada"), ("d", "x", "Ada")].into_iter().enumerate()
    {
        let (created_ms, updated_ms) = (500 + n as i64, 1_000 + n as i64);
        let name = format!("About 100% of {}", id.to_uppercase());
        let one =
            Session { user_id: user.into(), name, created_ms, updated_ms, ..session(&tenant, id, canvas) };
        store.create(&one, &[]).await.unwrap();
    }
    later().await;
    store.commit(&SessionKey::new(&tenant, "a"), change(0, &json!({}), &[])).await.unwrap();
    let all = SessionFilter { limit: u64::MAX, ..SessionFilter::default() };
    let check = async |filter: SessionFilter, ids: &[&str], total: u64| {
        let (found, of) = store.list(&tenant, &filter).await.unwrap();
        assert!(found.iter().all(|session| session.state.is_null()), "{filter:?}");
        let found: Vec<_> = found.iter().map(|session| session.key.id.as_str()).collect();
        assert_eq!((&*found, of), (ids, total), "{filter:?}");
    };
    check(all.clone(), &["a", "d", "c", "b"], 4).await;
    check(SessionFilter { ascending: true, ..all.clone() }, &["b", "c", "d", "a"], 4).await;
    let by_creation = SessionFilter { order: SessionOrder::Created, ..all.clone() };
    check(SessionFilter { ascending: true, ..by_creation.clone() }, &["a", "b", "c", "d"], 4).await;
    check(SessionFilter { limit: 2, ..by_creation.clone() }, &["d", "c"], 4).await;
    // A position in the list is valid even if its entry no longer exists.
    for (place, follow) in [((501, "b"), &["c", "d"][..]), ((501, "aa"), &["b", "c", "d"]), ((503, "d"), &[])]
    {
        let after = Some((place.0, place.1.into()));
        check(SessionFilter { after, ascending: true, ..by_creation.clone() }, follow, 4).await;
    }
    let by_name = SessionFilter { order: SessionOrder::Name, ..all.clone() };
    check(SessionFilter { ascending: true, ..by_name }, &["a", "b", "c", "d"], 4).await;
    check(SessionFilter { canvas: Some("x".into()), ..all.clone() }, &["a", "d", "b"], 3).await;
    check(SessionFilter { user_id: Some("ada".into()), ..all.clone() }, &["a", "c"], 2).await;
    check(SessionFilter { id: Some("c".into()), ..all.clone() }, &["c"], 1).await;
    check(SessionFilter { id: Some("C".into()), ..all.clone() }, &[], 0).await;
    let keywords = |text: &str| SessionFilter { keywords: text.into(), ..all.clone() };
    check(keywords("ABOUT 100% of c"), &["c"], 1).await;
    check(keywords("100_"), &[], 0).await;
    check(keywords("zzz"), &[], 0).await;
    check(SessionFilter { offset: 1, limit: 2, ..all.clone() }, &["d", "c"], 4).await;
    check(SessionFilter { offset: u64::MAX, ..all }, &[], 4).await;
    check(SessionFilter::default(), &[], 4).await;
}

/// In every script, whatever case folding the database uses.
async fn names_are_searched_literally(store: &dyn SessionStore) {
    let one = Session { name: "Ärger mit ÖL_50%".into(), ..session(&tenant(), "one", "c") };
    store.create(&one, &[]).await.unwrap();
    for (keywords, found) in [("Ärger", 1), ("ÖL_50%", 1), ("MIT", 1), ("ÖL 50", 0), ("Übel", 0)] {
        let filter = SessionFilter { keywords: keywords.into(), limit: 9, ..SessionFilter::default() };
        assert_eq!(store.list(&one.key.tenant, &filter).await.unwrap().1, found, "{keywords}");
    }
}

async fn messages_are_rated_and_removed(store: &dyn SessionStore) {
    let one = session(&tenant(), "one", "c");
    let told = [said("user", "q", Some("r")), said("assistant", "a", Some("r"))];
    store.create(&one, &[said("assistant", "Hello", None)]).await.unwrap();
    store.commit(&one.key, change(0, &Json::Null, &told)).await.unwrap();
    store.commit(&one.key, change(1, &Json::Null, &[said("user", "more", Some("s"))])).await.unwrap();
    let stranger = SessionKey::new(&tenant(), "one");
    let (run, feedback) = (RunId::from("r"), Feedback { good: false, words: "汉\u{0}".into() });
    refused(store.judge(&stranger, &run, &feedback).await, NotFound);
    refused(store.judge(&one.key, &RunId::from("s"), &feedback).await, NotFound);
    store.judge(&one.key, &run, &feedback).await.unwrap();
    let messages = store.messages(&one.key, i64::MAX, 9).await.unwrap();
    assert_eq!(messages[1], told[0]);
    assert_eq!(messages[2], SessionMessage { feedback: Some(feedback), ..told[1].clone() });
    refused(store.rename(&stranger, "x").await, NotFound);
    store.rename(&one.key, "new").await.unwrap();
    // A turn in progress is not disturbed by a rename.
    assert_eq!(store.load(&one.key).await.unwrap().revision, 2);
    assert_eq!(store.load(&one.key).await.unwrap().name, "new");
    refused(store.forget_run(&stranger, &run).await, NotFound);
    store.forget_run(&one.key, &run).await.unwrap();
    refused(store.forget_run(&one.key, &run).await, NotFound);
    let left: Vec<_> = store.messages(&one.key, i64::MAX, 9).await.unwrap();
    assert_eq!(left.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(), ["Hello", "more"]);
    let named = SessionFilter { name: Some("new".into()), limit: 9, ..SessionFilter::default() };
    assert_eq!(store.list(&one.key.tenant, &named).await.unwrap().1, 1);
    let other = SessionFilter { name: Some("ne".into()), ..named };
    assert_eq!(store.list(&one.key.tenant, &other).await.unwrap().1, 0);
}

async fn tenants_are_isolated(store: &dyn SessionStore) {
    let (ours, theirs) = (tenant(), tenant());
    let mine = session(&ours, "same", "c");
    let yours = Session { name: "yours".into(), ..session(&theirs, "same", "c") };
    store.create(&mine, &[said("user", "mine", None)]).await.unwrap();
    store.create(&yours, &[]).await.unwrap();
    store.commit(&mine.key, change(0, &json!({"turn": 1}), &[])).await.unwrap();
    assert_eq!(store.load(&yours.key).await.unwrap(), yours);
    assert_eq!(store.messages(&yours.key, i64::MAX, 9).await.unwrap(), []);
    store.delete(&mine.key).await.unwrap();
    refused(store.delete(&mine.key).await, NotFound);
    refused(store.load(&mine.key).await, NotFound);
    assert_eq!(store.messages(&mine.key, i64::MAX, 9).await.unwrap(), []);
    assert_eq!(store.load(&yours.key).await.unwrap(), yours);
}
