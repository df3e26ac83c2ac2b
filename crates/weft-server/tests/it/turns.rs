//! Questions to a session with an active turn: they wait, replace it, or are refused.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use weft_app::Auth;
use weft_app::config::{LimitsConfig, SessionLimits};
use weft_app::turns::{MultitaskStrategy, Waiting};
use weft_core::seam::work_queue::Work;
use weft_core::{Error, ErrorKind, Result, RunKey, SessionKey, TurnInput};
use weft_engine::RunHandle;
use weft_testkit::{Reply, Script, Step};

use crate::support::{
    Bench, Growing, bench, bench_with, chat_canvas, default_tenant, endless, form_canvas, process, said,
};

const ASK: &str = "/api/v1/agents/chat/completions";

/// A session of a canvas that calls the model.
async fn session(bench: &Bench) -> (String, String) {
    let id = bench.store("Chat", chat_canvas()).await;
    let session = bench.post(&format!("/api/v1/agents/{id}/sessions"), json!({})).await.data();
    (id, session["id"].as_str().unwrap().to_owned())
}

fn turn((agent, session): &(String, String), query: &str) -> Json {
    json!({"agent_id": agent, "session_id": session, "query": query, "stream": true})
}

fn with(mut turn: Json, strategy: &str) -> Json {
    turn["multitask_strategy"] = strategy.into();
    turn
}

/// A model that pauses between two words.
fn slow(ms: u64) -> Reply {
    Reply::pieces(["So "]).then(Step::Wait(ms)).then(Step::Text("on".into()))
}

async fn begun(bench: &Bench, turn: Json) -> Growing {
    let mut stream = bench.open(ASK, turn).await;
    stream.until("So ").await;
    stream
}

/// The questions of a session, in order.
async fn asked(bench: &Bench, (agent, session): &(String, String)) -> Vec<String> {
    let session = bench.get(&format!("/api/v1/agents/{agent}/sessions/{session}")).await.data();
    let messages = session["messages"].as_array().unwrap();
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn limits(sessions: SessionLimits) -> LimitsConfig {
    LimitsConfig { sessions, ..LimitsConfig::default() }
}

#[tokio::test]
async fn an_abandoned_stream_gives_way_to_the_next_question() {
    let script = Script::new().reply(endless(&["So "]).times(9)).reply(Reply::text("at last").always());
    let bench = bench(script).await;
    let on = session(&bench).await;
    for nth in 0..9 {
        drop(begun(&bench, turn(&on, &format!("q{nth}"))).await);
    }
    let frames = bench.post(ASK, turn(&on, "q9")).await.frames();
    assert_eq!(said(&frames), "at last");
    let expected: Vec<_> = (0..10).map(|nth| format!("q{nth}")).collect();
    assert_eq!(asked(&bench, &on).await, expected, "each ended in order");
}

#[tokio::test]
async fn every_route_of_a_session_waits_for_its_turn() {
    let bench = bench(Script::new().reply(slow(30).always())).await;
    let on = session(&bench).await;
    let (agent, id) = (&on.0, &on.1);
    let messages = json!([{"role": "user", "content": "openai"}]);
    let asks = [
        (ASK.to_owned(), json!({"agent_id": agent, "session_id": id, "query": "newer", "stream": false})),
        (
            format!("/api/v1/agents/{agent}/completions"),
            json!({"session_id": id, "question": "older", "stream": false}),
        ),
        (
            format!("/api/v1/agents_openai/{agent}/chat/completions"),
            json!({"model": "m", "session_id": id, "messages": messages}),
        ),
        ("/v1/canvas/completion".to_owned(), json!({"id": agent, "session_id": id, "query": "canvas"})),
        (
            "/api/v1/completion".to_owned(),
            json!({"conversation_id": id, "messages": [{"role": "user", "content": "plain"}], "stream": false}),
        ),
    ];
    // Clearly one after the other: routes do different amounts of work before they queue.
    let all = asks.iter().enumerate().map(|(nth, (path, body))| {
        let bench = &bench;
        async move {
            for _ in 0..50 * nth {
                tokio::task::yield_now().await;
            }
            bench.post(path, body.clone()).await
        }
    });
    let answers = futures::future::join_all(all).await;
    for ((path, _), answer) in asks.iter().zip(answers) {
        // Streams send it in pieces.
        let text = answer.text.replace("\"So ", "\"So on");
        assert!(text.contains("So on"), "{path}: {}", answer.text);
    }
    assert_eq!(
        asked(&bench, &on).await,
        ["newer", "older", "openai", "canvas", "plain"],
        "first come, first served"
    );
}

#[tokio::test]
async fn a_run_with_a_listener_is_waited_for_unless_the_question_says_otherwise() {
    let script = Script::new().reply(endless(&["So "]).times(1)).reply(Reply::text("next").always());
    let bench = bench(script).await;
    let on = session(&bench).await;
    let first = begun(&bench, turn(&on, "first")).await;
    let refused = bench.post(ASK, with(turn(&on, "no"), "reject")).await.refusal();
    assert!(refused.0 == 106 && refused.1.contains("in the middle of a turn"), "{refused:?}");
    let wrong = bench.post(ASK, with(turn(&on, "no"), "shout")).await.refusal();
    assert!(wrong.0 == 101 && wrong.1.contains("`reject`, `enqueue`, `interrupt` or `steer`"), "{wrong:?}");
    let patient = tokio::time::timeout(Duration::from_millis(300), bench.post(ASK, turn(&on, "gone")));
    assert!(patient.await.is_err(), "it waits, and its client disconnects");
    let frames = bench.post(ASK, with(turn(&on, "now"), "interrupt")).await.frames();
    assert_eq!(said(&frames), "next");
    let ended = first.whole().await;
    assert_eq!(ended[ended.len() - 2].json()["data"]["status"], "cancelled");
    assert_eq!(
        asked(&bench, &on).await,
        ["first", "now"],
        "the question of the disconnected client never ran"
    );
}

/// A canvas in which an agent with a calculator answers.
fn agent_canvas() -> Json {
    let component = |kind: &str, params: Json, to: &[&str]| json!({"obj": {"component_name": kind, "params": params}, "downstream": to, "upstream": []});
    let agent = json!({"llm_id": "m", "sys_prompt": "S", "tools": ["Calculator"], "prompts": [{"role": "user", "content": "{sys.query}"}]});
    json!({"components": {
        "begin": component("Begin", json!({}), &["Agent:A"]),
        "Agent:A": component("Agent", agent, &["Message:M"]),
        "Message:M": component("Message", json!({"content": ["{Agent:A@content}"]}), &[]),
    }})
}

#[tokio::test]
async fn a_working_agent_takes_up_a_question() {
    let works =
        Reply::pieces(["So "]).then(Step::Wait(500)).and_call("calculator_0", json!({"expression": "6 * 7"}));
    let script = Script::new()
        .reply(works)
        .reply(Reply::text("it is 42.").when_user("faster"))
        .reply(Reply::text("next").always());
    let bench = bench(script).await;
    let id = bench.store("Agent", agent_canvas()).await;
    let session = bench.post(&format!("/api/v1/agents/{id}/sessions"), json!({})).await.data();
    let on = (id, session["id"].as_str().unwrap().to_owned());
    let mut first = bench.open(ASK, turn(&on, "first")).await;
    first.until("\"So").await;
    let both = bench.post(ASK, with(turn(&on, "faster"), "steer")).await.frames();
    assert!(said(&both).ends_with("it is 42."), "{}", said(&both));
    let ended = first.whole().await;
    assert_eq!(ended[ended.len() - 2].json()["data"]["status"], "succeeded", "nobody was interrupted");
    assert_eq!(asked(&bench, &on).await, ["first", "faster"]);
    let runs = bench.get(&format!("/api/v1/runs?session_id={}", on.1)).await.data();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "one run answers both");
    // No turn is active: it is an ordinary question.
    let alone = bench.post(ASK, with(turn(&on, "alone"), "steer")).await.frames();
    assert_eq!(said(&alone), "next");
    assert_eq!(asked(&bench, &on).await, ["first", "faster", "alone"]);
}

#[tokio::test]
async fn work_after_the_message_is_not_stopped() {
    // An older client stops reading at the end of the message; the next question waits for the rest of the run.
    let bench = bench(Script::new().reply(Reply::pieces(["So ", "on"]).always())).await;
    let on = session(&bench).await;
    for nth in 0..10 {
        let body = json!({"session_id": on.1, "question": format!("q{nth}"), "stream": true});
        let mut stream = bench.open(&format!("/api/v1/agents/{}/completions", on.0), body).await;
        stream.until("message_end").await;
    }
    bench.post(ASK, turn(&on, "last")).await;
    let runs = bench.get(&format!("/api/v1/runs?session_id={}", on.1)).await.data();
    let statuses: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| run["status"].clone()).collect();
    assert_eq!(statuses, vec![json!("succeeded"); 11]);
}

#[tokio::test]
async fn the_queue_and_the_wait_are_limited() {
    let sessions = SessionLimits { waiting_max: 1, wait_seconds: 1, ..SessionLimits::default() };
    let script = Script::new().reply(endless(&["So "]).always());
    let bench = bench_with(script, Auth::On, limits(sessions)).await;
    let on = session(&bench).await;
    let _listening = begun(&bench, turn(&on, "first")).await;
    let late = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.post(ASK, turn(&on, "third")).await.refusal()
    };
    let (second, third, more) = tokio::join!(bench.post(ASK, turn(&on, "second")), late, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bench.post(ASK, turn(&on, "fourth")).await.refusal()
    });
    let second = second.refusal();
    assert!(second.0 == 106 && second.1.contains("has waited 1 s"), "{second:?}");
    for (code, words) in [third, more] {
        let full = words.contains("limits.sessions.waiting_max");
        assert!(code == 106 && (full || words.contains("has waited 1 s")), "{words}");
    }
}

/// The error for a question whose session has an active turn.
fn busy() -> Result<RunHandle> {
    let error = Error::new(ErrorKind::Conflict, "busy");
    Err(Error { retry_after: Some(Duration::from_secs(1)), ..error })
}

async fn with_waiting_max(waiting_max: usize) -> Bench {
    bench_with(Script::new(), Auth::On, limits(SessionLimits { waiting_max, ..SessionLimits::default() }))
        .await
}

#[tokio::test]
async fn the_waiting_limit_does_not_count_the_active_turn() {
    for (waiting_max, told) in [(1, "1 question waits"), (3, "3 questions wait")] {
        let bench = with_waiting_max(waiting_max).await;
        let session = SessionKey::new(&default_tenant(), "s");
        let waiting = Waiting::default();
        let is_busy = || async { busy() }.boxed();
        let mut line: Vec<_> =
            (0..waiting_max).map(|_| Box::pin(bench.app.take_turn(&session, &waiting, is_busy))).collect();
        for one in &mut line {
            assert!(one.now_or_never().is_none(), "it waits");
        }
        let more = bench.app.take_turn(&session, &waiting, is_busy).await.err().unwrap();
        assert!(more.message.contains(told), "{}", more.full());
        assert!(more.full().contains("limits.sessions.waiting_max"), "{}", more.full());
        drop(line.pop());
        let mut more = Box::pin(bench.app.take_turn(&session, &waiting, is_busy));
        assert!((&mut more).now_or_never().is_none(), "a place in the queue is free again");
    }
}

#[tokio::test]
async fn the_fourth_question_is_refused_where_three_may_wait() {
    let script = Script::new().reply(endless(&["So "]).times(1)).reply(Reply::text("at last").always());
    let sessions = SessionLimits { waiting_max: 3, ..SessionLimits::default() };
    let bench = bench_with(script, Auth::On, limits(sessions)).await;
    let on = session(&bench).await;
    let first = begun(&bench, turn(&on, "first")).await;
    let mut others: FuturesUnordered<_> =
        ["a", "b", "c", "d"].into_iter().map(|query| bench.post(ASK, turn(&on, query))).collect();
    // Nobody else gets an answer during the first turn, which does not end by itself.
    let (code, words) = others.next().await.unwrap().refusal();
    assert!(code == 106 && words.contains("3 questions wait"), "{code} {words}");
    assert!(others.next().now_or_never().is_none(), "the others wait");
    drop(first);
    for _ in 0..3 {
        assert_eq!(said(&others.next().await.unwrap().frames()), "at last");
    }
    assert!(others.next().await.is_none());
    assert_eq!(asked(&bench, &on).await.len(), 4);
}

#[tokio::test]
async fn a_starting_question_counts_as_waiting_only_if_the_session_is_busy() {
    let bench = with_waiting_max(1).await;
    let session = SessionKey::new(&default_tenant(), "s");
    let waiting = Waiting::default();
    let found = Notify::new();
    let is_found_busy = || -> BoxFuture<'_, Result<RunHandle>> {
        Box::pin(async {
            found.notified().await;
            busy()
        })
    };
    let mut first = Box::pin(bench.app.take_turn(&session, &waiting, is_found_busy));
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(bench.app.take_turn(&session, &waiting, is_found_busy));
    assert!((&mut second).now_or_never().is_none(), "it waits while the other one starts");
    let third = bench.app.take_turn(&session, &waiting, is_found_busy).await.err().unwrap();
    assert!(third.message.contains("1 question waits"), "{}", third.full());
    // The session was taken by another question, so now two would wait.
    found.notify_one();
    assert!((&mut first).now_or_never().is_none(), "the first one continues to wait");
    let second = second.await.err().unwrap();
    assert!(second.message.contains("1 question waits"), "{}", second.full());
}

#[tokio::test]
async fn without_a_queue_a_question_to_a_busy_session_is_refused() {
    let bench = with_waiting_max(0).await;
    let session = SessionKey::new(&default_tenant(), "s");
    let is_busy = || async { busy() }.boxed();
    let waiting = Waiting::default();
    let refused = bench.app.take_turn(&session, &waiting, is_busy).await.err().unwrap();
    assert!(refused.message.contains("no question may wait"), "{}", refused.full());
    // A question that interrupts the turn does not queue.
    let waiting = Waiting { strategy: MultitaskStrategy::Interrupt, ..Waiting::default() };
    assert!(Box::pin(bench.app.take_turn(&session, &waiting, is_busy)).now_or_never().is_none());
}

#[tokio::test]
async fn the_run_of_another_process_is_waited_for() {
    let script = Script::new().reply(slow(200).times(1)).reply(Reply::text("next").always());
    let here = bench(script).await;
    let there = process(here.store.clone(), here.model.clone(), (Auth::On, LimitsConfig::default()));
    let there = Bench { token: here.token.clone(), ..there };
    let on = session(&here).await;
    let first = begun(&here, turn(&on, "first")).await;
    let refused = there.post(ASK, with(turn(&on, "no"), "reject")).await.refusal();
    assert_eq!(refused.0, 106, "{refused:?}");
    let (frames, first) = tokio::join!(there.post(ASK, turn(&on, "second")), first.whole());
    assert_eq!((said(&first), said(&frames.frames())), ("So on".into(), "next".into()));
    assert_eq!(asked(&there, &on).await, ["first", "second"]);
}

#[tokio::test]
async fn the_run_of_another_process_is_interrupted() {
    let script = Script::new().reply(endless(&["So "]).times(1)).reply(Reply::text("next").always());
    let here = bench(script).await;
    let there = process(here.store.clone(), here.model.clone(), (Auth::On, LimitsConfig::default()));
    let there = Bench { token: here.token.clone(), ..there };
    let on = session(&here).await;
    let first = begun(&here, turn(&on, "first")).await;
    let (frames, ended) = tokio::join!(there.post(ASK, with(turn(&on, "now"), "interrupt")), first.whole());
    assert_eq!(said(&frames.frames()), "next");
    assert_eq!(ended[ended.len() - 2].json()["data"]["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_another_process_takes_up_a_question() {
    let call = Reply::call("Calculator", json!({"expression": "6 * 7"}));
    let script = Script::new().reply(call.delay_ms(2_500)).reply(Reply::text("both").always());
    let here = bench(script).await;
    let there = process(here.store.clone(), here.model.clone(), (Auth::On, LimitsConfig::default()));
    let there = Bench { token: here.token.clone(), ..there };
    let id = here.store("Agent", agent_canvas()).await;
    let session = here.post(&format!("/api/v1/agents/{id}/sessions"), json!({})).await.data();
    let on = (id, session["id"].as_str().unwrap().to_owned());
    let first = here.open(ASK, turn(&on, "first")).await;
    while here.model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (second, first) = tokio::join!(there.post(ASK, with(turn(&on, "faster"), "steer")), first.whole());
    assert_eq!((said(&first), said(&second.frames())), ("both".into(), "both".into()));
    assert_eq!(asked(&there, &on).await, ["first", "faster"]);
    // No turn is active any more: it is a turn of its own.
    let alone = there.post(ASK, with(turn(&on, "alone"), "steer")).await.frames();
    assert_eq!(said(&alone), "both");
}

#[tokio::test]
async fn an_abandoned_run_in_another_process_gives_way() {
    let script = Script::new().reply(endless(&["So "]).times(1)).reply(Reply::text("next").always());
    let here = bench(script).await;
    let there = process(here.store.clone(), here.model.clone(), (Auth::On, LimitsConfig::default()));
    let there = Bench { token: here.token.clone(), ..there };
    let on = session(&here).await;
    drop(begun(&here, turn(&on, "first")).await);
    let frames = there.post(ASK, turn(&on, "second")).await.frames();
    assert_eq!(said(&frames), "next");
    assert_eq!(asked(&there, &on).await, ["first", "second"]);
}

/// A client whose connection broke may continue to read from any process.
#[tokio::test]
async fn a_run_read_through_another_process_does_not_give_way() {
    let script = Script::new().reply(slow(1_500).times(1)).reply(Reply::text("next").always());
    let here = bench(script).await;
    let there = process(here.store.clone(), here.model.clone(), (Auth::On, LimitsConfig::default()));
    let there = Bench { token: here.token.clone(), ..there };
    let on = session(&here).await;
    let first = begun(&here, turn(&on, "first")).await;
    let run = first.frames()[0].json()["message_id"].as_str().unwrap().to_owned();
    let events = format!("/api/v1/runs/{run}/events");
    let key = RunKey::new(&default_tenant(), run);
    let (read, second) = tokio::join!(there.get(&events), async {
        // Long enough for the other process to have announced it.
        for _ in 0..60 {
            if here.app.runs.get(&key).await.unwrap().give_way.listened > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(first);
        here.post(ASK, turn(&on, "second")).await
    });
    assert_eq!((said(&read.frames()), said(&second.frames())), ("So on".into(), "next".into()));
    assert_eq!(asked(&here, &on).await, ["first", "second"]);
}

#[tokio::test]
async fn a_background_response_is_not_interrupted_by_any_process() {
    let script = Script::new().reply(slow(400).times(1)).reply(Reply::text("next").always());
    let here = bench(script).await;
    let there = process(here.store.clone(), here.model.clone(), (Auth::On, LimitsConfig::default()));
    let there = Bench { token: here.token.clone(), ..there };
    let on = session(&here).await;
    let first = json!({"model": on.0, "conversation": on.1, "input": "first", "background": true});
    let begun = here.post("/v1/responses", first).await.json();
    let run = begun["id"].as_str().unwrap().trim_start_matches("resp_").to_owned();
    let frames = there.post(ASK, with(turn(&on, "now"), "interrupt")).await.frames();
    assert_eq!(said(&frames), "next");
    let run = here.get(&format!("/api/v1/runs/{run}")).await.data();
    assert_eq!(run["status"], "succeeded", "{run}");
}

#[tokio::test]
async fn a_question_that_waited_for_a_turn_answers_its_form() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let session = bench.post(&format!("/api/v1/agents/{id}/sessions"), json!({})).await.data()["id"].clone();
    let on = (id, session.as_str().unwrap().to_owned());
    let (asked, answered) =
        tokio::join!(bench.post(ASK, turn(&on, "paint")), bench.post(ASK, turn(&on, "red")));
    assert!(asked.text.contains("user_inputs"), "{}", asked.text);
    assert_eq!(said(&answered.frames()), "red it is");
}

#[tokio::test]
async fn a_scheduled_run_does_not_give_way() {
    let script = Script::new().reply(slow(200).times(1)).reply(Reply::text("next").always());
    let bench = bench(script).await;
    let on = session(&bench).await;
    let work = Work {
        run: RunKey::new(&default_tenant(), "nightly"),
        canvas: on.0.as_str().into(),
        session: Some(on.1.as_str().into()),
        input: TurnInput { query: "nightly".into(), ..TurnInput::default() },
        source: String::new(),
        due_ms: 0,
    };
    let begun = bench.app.begin_work(&work).await.unwrap();
    // Nobody listens to it.
    drop(begun);
    let frames = bench.post(ASK, with(turn(&on, "mine"), "interrupt")).await.frames();
    assert_eq!(said(&frames), "next");
    let run = bench.get("/api/v1/runs/nightly").await.data();
    assert_eq!(run["status"], "succeeded", "{run}");
}
