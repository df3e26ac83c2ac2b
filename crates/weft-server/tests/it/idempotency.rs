//! Questions with an idempotency key: however often they are sent, and to whichever process, each is one run.

use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::config::LimitsConfig;
use weft_testkit::{Reply, Script, Step};

use crate::attachments::{uploaded, with_files};
use crate::support::{
    Bench, HandClock, bench, bench_with, chat_canvas, endless, form_canvas, process, process_at, said,
};

const ASK: &str = "/api/v1/agents/chat/completions";

/// Sends a question with its key in the header.
async fn ask(bench: &Bench, key: &str, body: Json) -> crate::support::Reading {
    let mut request = bench.request("POST", ASK, &body);
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    bench.send(request).await
}

fn run(answer: &Json) -> (String, String, String) {
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    (text(&answer["task_id"]), text(&answer["session_id"]), text(&answer["data"]["content"]))
}

async fn runs(bench: &Bench) -> usize {
    bench.get("/api/v1/runs").await.data()["runs"].as_array().unwrap().len()
}

/// Another process with the same store.
fn other(bench: &Bench) -> Bench {
    let there = process(bench.store.clone(), bench.model.clone(), (Auth::On, LimitsConfig::default()));
    Bench { token: bench.token.clone(), ..there }
}

#[tokio::test]
async fn the_same_key_gives_the_same_run_and_another_key_does_not() {
    let script = Script::new().reply(Reply::text("one").times(1)).reply(Reply::text("two").times(1));
    let bench = bench(script).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let question = json!({"agent_id": id, "query": "pay", "stream": false});
    let first = run(&ask(&bench, "k1", question.clone()).await.data());
    assert_eq!(first.2, "one");
    assert_eq!(run(&ask(&bench, "k1", question.clone()).await.data()), first);
    // Also as a field, in a stream, and after a restart.
    let streamed = json!({"agent_id": id, "query": "pay", "stream": true, "idempotency_key": "k1"});
    let frames = bench.restarted().post(ASK, streamed).await.frames();
    assert_eq!(
        (frames[0].json()["task_id"].as_str().unwrap(), said(&frames)),
        (first.0.as_str(), "one".into())
    );
    assert_eq!(runs(&bench).await, 1);
    assert_eq!(run(&ask(&bench, "k2", question).await.data()).2, "two");
    let misused = ask(&bench, "k1", json!({"agent_id": id, "query": "pay more"})).await.refusal();
    assert!(misused.0 == 101 && misused.1.contains("used for another question"), "{misused:?}");
    let elsewhere = json!({"agent_id": id, "query": "pay", "session_id": "mine"});
    assert_eq!(ask(&bench, "k1", elsewhere).await.refusal().0, 101);
    let long = "x".repeat(256);
    assert_eq!(ask(&bench, &long, json!({"agent_id": id, "query": "pay"})).await.refusal().0, 101);
    let stranger = Bench { token: bench.stranger().await, ..other(&bench) };
    assert_eq!(ask(&stranger, "k1", json!({"agent_id": id, "query": "pay"})).await.refusal().0, 102);
}

#[tokio::test]
async fn one_key_used_concurrently_in_two_processes_is_one_run() {
    let slow = Reply::pieces(["So "]).then(Step::Wait(100)).then(Step::Text("on".into()));
    let here = bench(Script::new().reply(slow.times(1))).await;
    let there = other(&here);
    let id = here.store("Chat", chat_canvas()).await;
    let question = json!({"agent_id": id, "query": "pay", "stream": false});
    let all = (0..4).map(|nth| ask(if nth % 2 == 0 { &here } else { &there }, "k", question.clone()));
    let answers = futures::future::join_all(all).await;
    let first = run(&answers[0].data());
    assert_eq!(first.2, "So on");
    let ids = answers.iter().map(|answer| run(&answer.data()).0);
    assert!(ids.eq(std::iter::repeat_n(first.0.clone(), 4)), "{answers:?}");
    assert_eq!(runs(&here).await, 1);
}

/// However many, they count as one question in the queue of the session.
#[tokio::test]
async fn equal_questions_take_one_place_in_the_queue() {
    let slow = Reply::pieces(["So "]).then(Step::Wait(100)).then(Step::Text("on".into()));
    let mut limits = LimitsConfig::default();
    limits.sessions.waiting_max = 2;
    let script = Script::new().reply(slow.times(1)).reply(Reply::text("paid").always());
    let bench = bench_with(script, Auth::On, limits).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let busy = json!({"agent_id": id, "query": "first", "session_id": "s", "stream": false});
    let question = json!({"agent_id": id, "query": "pay", "session_id": "s", "stream": false});
    let key = weft_core::CanvasKey::new(&crate::support::default_tenant(), id.as_str());
    bench.app.open_session(&key, "", Some("s".into())).await.unwrap();
    let all = (0..8).map(|_| ask(&bench, "k", question.clone()));
    let (_, answers) = futures::future::join(bench.post(ASK, busy), futures::future::join_all(all)).await;
    let runs: std::collections::HashSet<_> = answers.iter().map(|answer| run(&answer.data()).0).collect();
    assert_eq!(runs.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn a_repeated_key_follows_the_run_in_progress() {
    let bench = bench(Script::new().reply(endless(&["So "]).times(1))).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let question = json!({"agent_id": id, "query": "pay", "stream": true, "idempotency_key": "k"});
    let mut first = bench.open(ASK, question.clone()).await;
    first.until("So ").await;
    let run = first.frames()[0].json()["task_id"].as_str().unwrap().to_owned();
    // The client has lost its connection and retries.
    drop(first);
    let mut again = bench.open(ASK, question).await;
    again.until("So ").await;
    assert_eq!(again.frames()[0].json()["task_id"], run.as_str());
}

/// The journal has the texts of the files, not what was sent.
#[tokio::test]
async fn a_question_with_files_can_be_repeated() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Files", with_files()).await;
    let (one, two) =
        (uploaded(&bench, &id, "a.txt", "one").await, uploaded(&bench, &id, "b.txt", "two").await);
    let inline = "data:text/plain;base64,aGVsbG8=";
    let question = |inputs: Json, files: Json| json!({"agent_id": id, "query": "q", "stream": false, "inputs": inputs, "files": files});
    for (nth, sent) in
        [json!({"doc": {"type": "file", "value": one}}), json!({"doc": [one]}), json!({"doc": inline})]
            .into_iter()
            .enumerate()
    {
        let key = format!("k{nth}");
        let first = run(&ask(&bench, &key, question(sent.clone(), json!([one]))).await.data());
        assert!(first.2.contains("File: "), "{first:?}");
        let again = question(sent.clone(), json!([one]));
        assert_eq!(run(&ask(&bench.restarted(), &key, again).await.data()), first);
        for (inputs, files) in [
            (json!({"doc": {"type": "file", "value": two}}), json!([one])),
            (json!({"doc": "one"}), json!([one])),
            (json!({}), json!([one])),
            (sent.clone(), json!([two])),
            (sent, json!([])),
        ] {
            let refused = ask(&bench, &key, question(inputs, files)).await.refusal();
            assert!(refused.1.contains("used for another question"), "{refused:?}");
        }
    }
    let without = json!({"agent_id": id, "query": "q", "stream": false});
    ask(&bench, "k", without.clone()).await.data();
    let misused = ask(&bench, "k", question(json!({}), json!([one]))).await.refusal();
    assert!(misused.1.contains("used for another question"), "{misused:?}");
}

#[tokio::test]
async fn an_answer_to_a_form_has_its_own_key() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let asked = ask(&bench, "k1", json!({"agent_id": id, "query": "paint"})).await.data();
    let answer = json!({"agent_id": id, "session_id": asked["session_id"], "query": "red"});
    let first = run(&ask(&bench, "k2", answer.clone()).await.data());
    assert_eq!(first.2, "red it is");
    assert_eq!(run(&ask(&bench, "k2", answer.clone()).await.data()), first);
    let other = json!({"agent_id": id, "session_id": asked["session_id"], "query": "blue"});
    assert_eq!(ask(&bench, "k2", other).await.refusal().0, 101);
}

#[tokio::test]
async fn a_question_that_waits_across_midnight_is_the_same_question() {
    let script = Script::new().reply(endless(&["So "]).times(1)).reply(Reply::text("paid").always());
    // A second before midnight.
    let clock = HandClock::at(1_700_006_399_000);
    let made = bench(script).await;
    let settings = (Auth::On, LimitsConfig::default());
    let bench = process_at(made.store.clone(), made.model.clone(), settings, clock.clone());
    let bench = Bench { token: made.token.clone(), ..bench };
    let id = bench.store("Chat", chat_canvas()).await;
    let key = weft_core::CanvasKey::new(&crate::support::default_tenant(), id.as_str());
    bench.app.open_session(&key, "", Some("s".into())).await.unwrap();
    let busy = json!({"agent_id": id, "query": "first", "session_id": "s", "stream": true});
    let mut busy = bench.open(ASK, busy).await;
    busy.until("So ").await;
    let question = json!({"agent_id": id, "query": "pay", "session_id": "s", "stream": false});
    let pause = || tokio::time::sleep(std::time::Duration::from_millis(100));
    let again = async {
        pause().await;
        clock.go_on(2_000);
        let answer = ask(&bench, "k", question.clone());
        let free = async {
            pause().await;
            assert!(bench.app.cancel(&key.tenant, "s").await.unwrap());
        };
        futures::join!(answer, free).0
    };
    let (first, again) = futures::join!(ask(&bench, "k", question.clone()), again);
    assert_eq!(run(&again.data()), run(&first.data()));
    assert_eq!(runs(&bench).await, 2);
}

#[tokio::test]
async fn a_key_is_remembered_for_a_day() {
    const HOUR: i64 = 3_600_000;
    let script = Script::new().reply(Reply::text("one").times(1)).reply(Reply::text("two").times(1));
    let clock = HandClock::at(1_700_000_000_000);
    let made = bench(script).await;
    let settings = (Auth::On, LimitsConfig::default());
    let bench = process_at(made.store.clone(), made.model.clone(), settings, clock.clone());
    let bench = Bench { token: made.token.clone(), ..bench };
    let id = bench.store("Chat", chat_canvas()).await;
    let question = json!({"agent_id": id, "query": "pay"});
    let first = run(&ask(&bench, "k", question.clone()).await.data());
    for _ in 0..23 {
        clock.go_on(HOUR);
        assert_eq!(run(&ask(&bench, "k", question.clone()).await.data()), first, "across midnight, too");
    }
    clock.go_on(HOUR);
    assert_eq!(run(&ask(&bench, "k", question).await.data()).2, "two");
}
