//! Removal of things that are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use serde_json::{Value as Json, json};
use weft_app::schedule::Terms;
use weft_app::turns::{MultitaskStrategy, Waiting};
use weft_app::{Config, assemble_in_memory};
use weft_core::access::MemberRole;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::dataset_store::Extra;
use weft_core::seam::schedule_store::{Misfire, SessionPolicy, Timing};
use weft_core::seam::session_store::SessionFilter;
use weft_core::seam::share_store::ShareTarget;
use weft_core::seam::work_queue::{StoredWork, Work, WorkOutcome, WorkState};
use weft_core::seam::{SessionStore, TenantStore, TokenStore};
use weft_core::{
    CanvasKey, DatasetKey, DocumentId, DocumentKey, ErrorKind, RunId, RunKey, SessionKey, TenantId, TurnInput,
};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, bench, chat_canvas, default_tenant, echo_canvas, endless};

const ASK: &str = "/api/v1/agents/chat/completions";

async fn streaming(bench: &Bench, agent: &str, session: &str) -> crate::support::Growing {
    let turn = json!({"agent_id": agent, "session_id": session, "query": "q", "stream": true});
    let mut stream = bench.open(ASK, turn).await;
    stream.until("So ").await;
    stream
}

async fn session(bench: &Bench, agent: &str) -> String {
    let session = bench.post(&format!("/api/v1/agents/{agent}/sessions"), json!({})).await.data();
    session["id"].as_str().unwrap().to_owned()
}

/// The stream ends like that of a run that was stopped.
async fn was_stopped(stream: crate::support::Growing) {
    let frames = stream.whole().await;
    let ended = frames[frames.len() - 2].json();
    assert_eq!(
        (&ended["event"], &ended["data"]["status"]),
        (&json!("workflow_finished"), &json!("cancelled"))
    );
    for frame in &frames {
        assert!(!frame.data.contains("there is no") && !frame.data.contains("\"code\":500"), "{frame:?}");
    }
}

#[tokio::test]
async fn a_listener_learns_that_a_removal_stopped_the_run() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    for whole in [true, false] {
        let agent = bench.store("Chat", chat_canvas()).await;
        let id = session(&bench, &agent).await;
        let stream = streaming(&bench, &agent, &id).await;
        let path = format!("/api/v1/agents/{agent}");
        let path = if whole { path } else { format!("{path}/sessions/{id}") };
        bench.ask("DELETE", &path, json!({})).await.data();
        was_stopped(stream).await;
        if !whole {
            bench.ask("DELETE", &format!("/api/v1/agents/{agent}"), json!({})).await.data();
        }
    }
}

#[tokio::test]
async fn sessions_removed_by_two_requests_at_once_are_removed_for_both() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    session(&bench, &agent).await;
    let id = session(&bench, &agent).await;
    let stream = streaming(&bench, &agent, &id).await;
    let path = format!("/api/v1/agents/{agent}/sessions");
    // Both wait for the end of the run, and one of them comes second.
    let remove = || bench.ask("DELETE", &path, json!({"delete_all": true}));
    let (first, second) = tokio::join!(remove(), remove());
    assert_eq!((first.data(), second.data()), (json!(true), json!(true)));
    assert_eq!(conversations(&bench, &agent).await, 0);
    was_stopped(stream).await;
}

/// The removal did not wait for the end of the run, as when that takes too long.
#[tokio::test]
async fn a_run_whose_session_is_removed_ends_as_stopped() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let id = session(&bench, &agent).await;
    let stream = streaming(&bench, &agent, &id).await;
    let run = RunKey::new(&default_tenant(), stream.frames()[0].json()["task_id"].as_str().unwrap());
    let key = SessionKey::new(&default_tenant(), id.as_str());
    SessionStore::delete(&*bench.store, &key).await.unwrap();
    assert!(bench.app.engine.cancel_here(&run));
    was_stopped(stream).await;
}

/// The agent existed when it was looked up, but may be removed before the token is stored.
#[tokio::test]
async fn a_share_token_for_a_removed_agent_is_revoked() {
    let bench = bench(Script::new()).await;
    let (tenant, shares) = (default_tenant(), &bench.app.accounts.stores.shares);
    for target in [ShareTarget::Agent("gone".into()), ShareTarget::Chat("gone".into())] {
        let refused = bench.app.share(&tenant, target.clone(), "page", None).await.err().unwrap();
        assert_eq!(refused.kind, ErrorKind::NotFound, "{}", refused.full());
        assert!(shares.shares(&tenant, &target, 9).await.unwrap().is_empty());
    }
}

/// With the real store, where one request waits while the other writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_starts_with_an_agent_that_is_being_removed() {
    let app = assemble_in_memory(&Config::default()).await.unwrap();
    let tenant = default_tenant();
    let dsl = echo_canvas().to_string();
    for round in 0..40 {
        let head = CanvasHead { title: format!("Echo {round}"), ..CanvasHead::default() };
        let (stored, _) = app.put_canvas(&tenant, None, head, &dsl).await.unwrap();
        let key = stored.key;
        let terms = || Terms {
            name: String::new(),
            timing: Timing::Every { every_ms: 3_600_000, from_ms: 0 },
            input: TurnInput::default(),
            session: SessionPolicy::New,
            misfire: Misfire::Once,
            enabled: true,
        };
        let mut all = tokio::task::JoinSet::new();
        for nth in 0..12 {
            let (app, key, terms) = (app.clone(), key.clone(), terms());
            all.spawn(async move {
                if nth % 2 == 0 {
                    app.open_session(&key, "", None).await.map(drop)
                } else {
                    app.add_schedule(&key, terms).await.map(drop)
                }
            });
        }
        app.remove_canvas(&key).await.unwrap();
        while let Some(outcome) = all.join_next().await {
            if let Err(error) = outcome.unwrap() {
                assert_eq!(error.kind, ErrorKind::NotFound, "{}", error.full());
            }
        }
        let filter = SessionFilter { canvas: Some(key.id.clone()), limit: 9, ..SessionFilter::default() };
        assert_eq!(app.sessions.list(&tenant, &filter).await.unwrap().1, 0, "round {round}");
        assert_eq!(app.schedules.list(&tenant, &Default::default()).await.unwrap().1, 0, "round {round}");
    }
}

#[tokio::test]
async fn a_schedule_of_a_removed_agent_is_removed_at_its_next_run() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Echo", echo_canvas()).await;
    let terms = Terms {
        name: String::new(),
        timing: Timing::Every { every_ms: 3_600_000, from_ms: 0 },
        input: TurnInput::default(),
        session: SessionPolicy::New,
        misfire: Misfire::Once,
        enabled: true,
    };
    let canvas = CanvasKey::new(&default_tenant(), agent.as_str());
    let schedule = bench.app.add_schedule(&canvas, terms).await.unwrap();
    let work = |canvas: &str| StoredWork {
        work: Work {
            run: RunKey::new(&default_tenant(), RunId::generate()),
            canvas: canvas.into(),
            session: None,
            input: TurnInput { query: "q".to_owned(), ..TurnInput::default() },
            source: schedule.key.id.to_string(),
            due_ms: 0,
        },
        state: WorkState::Taken { until_ms: i64::MAX },
        attempts: 1,
        crashes: 0,
        reason: String::new(),
        pushed_ms: 0,
    };
    assert!(matches!(bench.app.do_work(&work(&agent)).await, WorkOutcome::Done));
    bench.app.schedules.get(&schedule.key).await.unwrap();
    assert!(matches!(bench.app.do_work(&work("gone")).await, WorkOutcome::Abandoned { .. }));
    assert_eq!(bench.app.schedules.get(&schedule.key).await.unwrap_err().kind, ErrorKind::NotFound);
}

/// Otherwise data written in the meantime would be left after the erasure, for ever.
#[tokio::test]
async fn no_member_is_admitted_to_a_tenant_that_is_being_erased() {
    let bench = bench(Script::new()).await;
    let shop = TenantId::from("shop");
    bench.app.ensure_tenant(&shop).await.unwrap();
    let (owner, _) = bench.as_member("shop", MemberRole::Owner).await;
    let (_, editor) = bench.as_member("shop", MemberRole::Editor).await;
    owner.post("/api/v1/system/tokens", json!({"name": "theirs"})).await.data();
    let (store, before) = (Arc::clone(&bench.store), TokenStore::count(&*bench.store).await.unwrap());
    let seen = Arc::new(AtomicBool::new(false));
    let (told, of) = (Arc::clone(&seen), shop.clone());
    let accounts = bench.app.accounts.clone().with_erasure(Arc::new(move |_| {
        let (told, store, of, editor) = (Arc::clone(&told), Arc::clone(&store), of.clone(), editor.clone());
        async move {
            let member = TenantStore::membership(&*store, &of, &editor).await;
            assert_eq!(member.unwrap_err().kind, ErrorKind::NotFound);
            assert!(TokenStore::count(&*store).await.unwrap() < before);
            told.store(true, Ordering::Relaxed);
            Ok(())
        }
        .boxed()
    }));
    let app = bench.app.with_parts(|parts| parts.accounts = accounts);
    app.remove_tenant(&shop).await.unwrap();
    assert!(seen.load(Ordering::Relaxed));
}

async fn conversations(bench: &Bench, agent: &str) -> u64 {
    let filter = SessionFilter { canvas: Some(agent.into()), limit: 9, ..SessionFilter::default() };
    bench.app.sessions.list(&default_tenant(), &filter).await.unwrap().1
}

#[tokio::test]
async fn a_refused_question_leaves_no_session() {
    let bench = bench(Script::new().reply(Reply::text("yes").always())).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let with_file = |more: Json| {
        let mut body = json!({"agent_id": agent, "query": "q", "stream": false, "files": [{"id": "nosuch"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for more in [json!({}), json!({"idempotency_key": "k"}), json!({"session_id": "mine"})] {
        let refused = bench.post(ASK, with_file(more)).await;
        assert_ne!(refused.refusal().0, 0, "{}", refused.text);
        assert_eq!(conversations(&bench, &agent).await, 0);
    }
    // A session that existed before is kept.
    let id = session(&bench, &agent).await;
    assert_ne!(bench.post(ASK, with_file(json!({"session_id": id}))).await.refusal().0, 0);
    assert_eq!(conversations(&bench, &agent).await, 1);
}

/// Two questions continue from the same run: the second notices that when its turn comes.
#[tokio::test]
async fn only_one_question_continues_from_a_run() {
    let script = Script::new().reply(Reply::text("one").times(1)).reply(endless(&["So "]).always());
    let bench = bench(script).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let answer = bench.post(ASK, json!({"agent_id": agent, "query": "a", "stream": false})).await.data();
    let session = SessionKey::new(&default_tenant(), answer["session_id"].as_str().unwrap());
    let after = Some(RunId::from(answer["task_id"].as_str().unwrap()));
    let waiting = Waiting { after, ..Waiting::default() };
    let input = TurnInput { query: "b".to_owned(), ..TurnInput::default() };
    let first = bench.app.ask(&session, &input, &waiting).await.unwrap();
    let second =
        tokio::time::timeout(std::time::Duration::from_secs(5), bench.app.ask(&session, &input, &waiting));
    let refused = second.await.unwrap().err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains(first.key.id.as_str()), "{}", refused.full());
    first.cancel.cancel();
}

#[tokio::test]
async fn a_question_that_must_not_wait_is_told_only_that_the_session_is_busy() {
    let bench = bench(Script::new()).await;
    let session = SessionKey::new(&default_tenant(), "s");
    let begins = || async { std::future::pending::<weft_core::Result<()>>().await }.boxed();
    let waiting = Waiting::default();
    let mut first = Box::pin(bench.app.take_turn(&session, &waiting, begins));
    assert!((&mut first).now_or_never().is_none());
    let waiting = Waiting { strategy: MultitaskStrategy::Reject, ..Waiting::default() };
    let refused = bench.app.take_turn(&session, &waiting, begins).await.err().unwrap();
    assert!(refused.message.contains("in the middle of a turn"), "{}", refused.message);
    assert!(!refused.message.contains("wait"), "{}", refused.message);
}

/// Whatever the moment of its removal.
#[tokio::test]
async fn a_removed_document_does_not_block_a_request_for_several() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let key = DatasetKey::new(&default_tenant(), dataset.rsplit('/').next().unwrap());
    let switch = format!("{dataset}/documents/batch-update-status");
    for steps in 0..60 {
        let goes_then = async |id: String| {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            bench.app.library.remove_documents(&key, &[DocumentId::from(id)]).await.unwrap();
        };
        let stays = bench.document(&dataset, &format!("{steps}.txt"), "one").await;
        let goes = bench.document(&dataset, "goes.txt", "two").await;
        let asked = json!({"doc_ids": [goes, stays], "status": 0});
        let (told, ()) = futures::join!(bench.post(&switch, asked), goes_then(goes.clone()));
        assert_eq!(told.data()[&stays]["status"], "0", "after {steps} steps: {}", told.text);

        let goes = bench.document(&dataset, "goes.txt", "two").await;
        let asked = json!({"doc_ids": [goes, stays], "run": 1, "delete": true});
        let asked = bench.post("/api/v1/documents/ingest", asked);
        let (told, ()) = futures::join!(asked, goes_then(goes.clone()));
        let code = told.json()["code"].as_u64().unwrap();
        assert!([0, 109].contains(&code), "after {steps} steps: {}", told.text);
        let shown = bench.get(&format!("{dataset}/documents?id={stays}")).await.data();
        assert!(code == 109 || shown["docs"][0]["run"] == "RUNNING", "after {steps} steps: {shown}");
    }
}

/// The graphs of the other documents are removed all the same.
#[tokio::test]
async fn a_removed_document_does_not_block_the_removal_of_graphs() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let key = DatasetKey::new(&default_tenant(), dataset.rsplit('/').next().unwrap());
    let store = &bench.app.datasets;
    for steps in 0..40 {
        let mut ids = Vec::new();
        for name in ["one", "two", "three"] {
            let id = DocumentId::from(bench.document(&dataset, &format!("{steps}{name}.txt"), name).await);
            let of = DocumentKey::new(&key, id.clone());
            store.put_extra(&of, Extra::Graph, &json!({"entities": []})).await.unwrap();
            ids.push(id);
        }
        // The document that is processed last.
        ids.sort();
        let goes = ids.pop().unwrap();
        let going = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            bench.app.library.remove_documents(&key, std::slice::from_ref(&goes)).await.unwrap();
        };
        let path = format!("{dataset}/knowledge_graph");
        let (removed, ()) = futures::join!(bench.ask("DELETE", &path, json!({})), going);
        assert_eq!(removed.data(), true, "after {steps} steps");
        for id in ids {
            let left = store.extra(&DocumentKey::new(&key, id), Extra::Graph).await.unwrap();
            assert_eq!(left, None, "after {steps} steps");
        }
    }
}
