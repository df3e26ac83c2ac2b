//! Turns: streamed and complete answers, and access to them.

use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::config::LimitsConfig;
use weft_core::ErrorKind;
use weft_testkit::{Reply, Script};

use crate::support::{bench, bench_with, chat_canvas, echo_canvas, endless, events, form_canvas, said};

#[tokio::test]
async fn a_stream_is_framed_byte_for_byte() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let stream =
        bench.post(&format!("/api/v1/agents/{id}/completions"), json!({"question": "汉\u{2028}字"})).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(stream.headers["cache-control"], "no-cache");
    assert_eq!(stream.headers["connection"], "keep-alive");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    assert!(stream.text.ends_with("\n\ndata:[DONE]\n\n"), "{}", stream.text);
    assert!(stream.text.contains("汉\\u2028字"), "{}", stream.text);
    assert_eq!(stream.text.lines().count(), stream.text.split('\n').count() - 1, "all line ends are alike");
    let frames = stream.frames();
    let kinds = ["node_finished", "message", "message_end", "node_finished", "workflow_finished", "[DONE]"];
    let mut seen = events(&frames);
    seen.dedup();
    assert_eq!(seen, kinds, "{}", stream.text);
    assert_eq!(said(&frames), "you said: 汉\u{2028}字");
    let first = frames[0].json();
    for key in ["message_id", "task_id", "session_id", "created_at"] {
        assert!(!first[key].is_null(), "{key}: {first}");
    }
    for frame in frames.iter().filter(|frame| frame.id.is_some()) {
        let frame = frame.json();
        let content = frame["data"].get("content");
        let needed = frame["event"] != "message_end";
        assert!(content.is_some() || !needed, "old clients expect a content in every frame: {frame}");
    }
    let ids: Vec<_> = frames.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(ids.len(), frames.len() - 1);
    assert!(ids.is_sorted() && ids[0] > 1, "{ids:?}");
}

#[tokio::test]
async fn the_newer_route_answers_whole_or_as_a_stream() {
    let bench = bench(Script::text("Paris")).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let ask = async |body: Json| bench.post("/api/v1/agents/chat/completions", body).await;
    let answer = ask(json!({"agent_id": id, "query": "capital?", "return_trace": true})).await.data();
    assert_eq!((&answer["event"], &answer["data"]["content"]), (&json!("message_end"), &json!("Paris")));
    assert_eq!(answer["data"]["reference"], json!({}));
    assert_eq!(answer["data"]["usage"]["calls"], 1);
    let traced: Vec<_> =
        answer["data"]["trace"].as_array().unwrap().iter().map(|t| t["component_id"].clone()).collect();
    assert!(traced.contains(&json!("Agent:A")), "{traced:?}");
    let stream =
        ask(json!({"agent_id": id, "query": "capital?", "stream": true, "session_id": answer["session_id"]}))
            .await;
    let events = events(&stream.frames());
    assert_eq!(events[events.len() - 2..], ["workflow_finished", "[DONE]"]);
    assert!(!events.contains(&"node_started".to_owned()));
    assert_eq!(ask(json!({"query": "x"})).await.refusal(), (101, "`agent_id` is required.".into()));
    let gone = ask(json!({"agent_id": id, "session_id": "gone", "query": "x"})).await.refusal();
    assert_eq!(gone, (102, "Session not found!".into()));
    assert_eq!(
        ask(json!({"agent_id": "gone", "query": "x"})).await.refusal(),
        (102, "Agent not found.".into())
    );
}

#[tokio::test]
async fn the_second_prompt_contains_the_first_turn() {
    let script =
        Script::new().reply(Reply::text("Blue.").times(1)).reply(Reply::text("You asked for it.").times(1));
    let bench = bench(script).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let first = bench.post(&path, json!({"query": "My colour?"})).await.frames();
    let session = first[0].json()["session_id"].clone();
    bench.post(&path, json!({"query": "Why?", "session_id": session})).await;
    let requests = bench.model.requests();
    let texts: Vec<_> = requests[1].messages.iter().map(|message| message.text.as_str()).collect();
    for text in ["My colour?", "Blue.", "Why?"] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
}

#[tokio::test]
async fn a_failed_run_is_reported_on_every_route() {
    let bench = bench(Script::new().reply(Reply::error(ErrorKind::Invalid, "it broke").always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let older = bench.post(&format!("/api/v1/agents/{id}/completions"), json!({"query": "x"})).await.frames();
    assert!(said(&older).starts_with("**ERROR**: ") && said(&older).contains("it broke"), "{older:?}");
    assert_eq!(older.last().unwrap().data, "[DONE]");
    let newer = json!({"agent_id": id, "query": "x", "stream": true});
    let newer = bench.post("/api/v1/agents/chat/completions", newer).await.frames();
    let [.., told, finished, error, done] = newer.as_slice() else { panic!("{newer:?}") };
    assert!(told.json()["data"]["content"].as_str().unwrap().starts_with("**ERROR**: "), "{told:?}");
    assert_eq!(told.id, None, "this frame is not an event of the journal");
    assert_eq!(
        (finished.event(), finished.json()["data"]["status"].clone()),
        ("workflow_finished".into(), json!("failed"))
    );
    let error = error.json();
    assert_eq!((&error["code"], &error["data"]), (&json!(500), &json!({"content": ""})));
    assert!(error["message"].as_str().unwrap().contains("it broke"));
    assert_eq!(done.data, "[DONE]");
}

#[tokio::test]
async fn a_form_pauses_the_run_and_the_next_call_fills_it_in() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let body = json!({"agent_id": id, "query": "paint", "stream": true});
    let frames = bench.post("/api/v1/agents/chat/completions", body).await.frames();
    let [.., form, finished, _] = frames.as_slice() else { panic!("{frames:?}") };
    let asked = form.json();
    assert_eq!((&asked["event"], &asked["data"]["tips"]), (&json!("user_inputs"), &json!("Which colour?")));
    assert_eq!(asked["data"]["inputs"]["colour"]["type"], "line");
    assert_eq!(asked["data"]["forms"][0]["component_id"], "UserFillUp:F");
    assert_eq!(finished.json()["data"]["status"], "waiting");
    let answer = json!({"agent_id": id, "session_id": asked["session_id"], "inputs": {"colour": {"type": "line", "value": "red"}}});
    let answer = bench.post("/api/v1/agents/chat/completions", answer).await.data();
    assert_eq!(answer["data"]["content"], "red it is");
    assert_ne!(answer["message_id"], asked["message_id"]);
    let whole = json!({"agent_id": id, "query": "paint"});
    let whole = bench.post("/api/v1/agents/chat/completions", whole).await.data();
    assert_eq!((&whole["event"], &whole["data"]["tips"]), (&json!("user_inputs"), &json!("Which colour?")));
}

#[tokio::test]
async fn a_session_runs_one_turn_at_a_time_and_cancel_frees_it() {
    let script = Script::new().reply(endless(&["So "]).times(1)).reply(Reply::text("next").times(1));
    let bench = bench(script).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let session = bench.post(&format!("/api/v1/agents/{id}/sessions"), json!({})).await.data()["id"].clone();
    let turn = json!({"agent_id": id, "query": "x", "session_id": session, "stream": true});
    let mut stream = bench.open("/api/v1/agents/chat/completions", turn.clone()).await;
    stream.until("So ").await;
    let mut rejected = turn.clone();
    rejected["multitask_strategy"] = "reject".into();
    let (code, message) = bench.post("/api/v1/agents/chat/completions", rejected).await.refusal();
    assert_eq!(code, 106, "{message}");
    let task = stream.frames()[0].json()["task_id"].as_str().unwrap().to_owned();
    assert_eq!(bench.post(&format!("/api/v1/tasks/{task}/cancel"), json!(null)).await.data(), true);
    let frames = stream.whole().await;
    let [.., finished, done] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!(
        (finished.event(), finished.json()["data"]["status"].clone()),
        ("workflow_finished".into(), json!("cancelled"))
    );
    assert_eq!(done.data, "[DONE]");
    let again = bench.post("/api/v1/agents/chat/completions", turn).await.frames();
    assert_eq!(said(&again), "next");
    let stop = bench.ask("PATCH", &format!("/api/v1/tasks/{task}"), json!({"action": "stop"})).await;
    assert_eq!(stop.data(), true);
    let go = bench.ask("PATCH", &format!("/api/v1/tasks/{task}"), json!({"action": "go"})).await.refusal();
    assert_eq!(go, (101, "Only 'stop' is supported as `action`".to_owned()));
}

#[tokio::test]
async fn an_unknown_session_id_creates_a_session_only_without_authentication() {
    let turn = |session: &str| json!({"query": "hi", "session_id": session, "stream": true});
    let strict = bench(Script::new()).await;
    let id = strict.store("Echo", echo_canvas()).await;
    let refused = strict.post(&format!("/api/v1/agents/{id}/completions"), turn("mine")).await.refusal();
    assert_eq!(refused, (102, "Session not found!".into()));

    let open = bench_with(Script::new(), Auth::Off, LimitsConfig::default()).await;
    let id = open.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents/{id}/completions");
    for query in 1..=2 {
        let frames = open.post(&path, turn("mine")).await.frames();
        assert_eq!(said(&frames), "you said: hi", "{query}");
        assert_eq!(frames[0].json()["session_id"], "mine");
    }
    let got = open.get(&format!("/api/v1/agents/{id}/sessions/mine")).await.data();
    assert_eq!(got["message"].as_array().unwrap().len(), 5, "the greeting and two turns");
    assert_eq!(open.post(&path, turn(&"x".repeat(200))).await.refusal().0, 101);
}

#[tokio::test]
async fn a_client_that_disconnects_does_not_stop_the_run() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let turn = json!({"agent_id": id, "query": "x", "stream": true});
    let mut stream = bench.open("/v1/canvas/completion", json!({"id": id, "query": "x"})).await;
    stream.until("So ").await;
    let run = stream.frames()[0].json()["task_id"].as_str().unwrap().to_owned();
    drop(stream);
    let unfinished = bench.get("/api/v1/runs?unfinished=true").await.data();
    assert_eq!(
        (&unfinished["runs"][0]["id"], &unfinished["runs"][0]["status"]),
        (&json!(run), &json!("running"))
    );
    assert_eq!(bench.get(&format!("/api/v1/runs/{run}")).await.data()["agent_id"], json!(id));
    bench.ask("PUT", &format!("/v1/canvas/cancel/{run}"), json!(null)).await.data();
    let events_of = bench.get(&format!("/api/v1/runs/{run}/events")).await.frames();
    let ids: Vec<_> = events_of.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "{turn}");
    assert_eq!(events(&events_of).last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn older_completion_routes_stream_the_whole_answer_so_far() {
    let bench = bench(Script::new().reply(Reply::pieces(["Par", "is"]).always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let session = bench.post(&format!("/api/v1/agents/{id}/sessions"), json!({})).await.data()["id"].clone();
    for path in ["/api/v1/completion", "/v1/api/completion"] {
        let messages = json!([{"role": "user", "content": "capital?"}]);
        let stream = bench.post(path, json!({"conversation_id": session, "messages": messages})).await;
        let frames = stream.frames();
        assert_eq!(frames.last().unwrap().data, r#"{"code":0,"message":"","data":true}"#);
        let answers: Vec<_> =
            frames[..frames.len() - 1].iter().map(|frame| frame.json()["data"]["answer"].clone()).collect();
        assert_eq!(answers.last().unwrap(), "Paris");
        assert!(answers.iter().all(|answer| "Paris".starts_with(answer.as_str().unwrap())), "{answers:?}");
        let whole = json!({"conversation_id": session, "messages": messages, "stream": false});
        assert_eq!(bench.post(path, whole).await.data()["answer"], "Paris");
    }
    let gone = json!({"conversation_id": "gone", "messages": [{"role": "user", "content": "x"}]});
    let refused = bench.post("/api/v1/completion", gone).await.refusal();
    assert_eq!(refused, (102, "Conversation not found!".into()));
    let missing = bench.post("/api/v1/completion", json!({})).await.refusal();
    assert_eq!(missing, (101, "required argument are missing: conversation_id,messages; ".into()));
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_the_process_that_resumes_the_run() {
    use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry, StoredRun};
    use weft_core::{Record, RunKey};
    let bench = bench(Script::new()).await;
    let key = RunKey::new(&crate::support::default_tenant(), "cut");
    let run =
        StoredRun { owner: Some("another process".into()), ..StoredRun::begun(key.clone(), "s", "c", 5_000) };
    bench.app.runs.create(&run).await.unwrap();
    let entry = |seq: u64, text: &str| {
        let said = Record::Said { activation: 1, node: "M".into(), text: text.into() };
        let record = serde_json::to_string(&said).unwrap().into();
        vec![StoredEntry { seq, event: Some(seq), at_ms: 5_000, record }]
    };
    bench.app.runs.append(&RunLease::of(&run), entry(1, "half")).await.unwrap();
    let goes_on = async {
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        // By now a third process owns the run.
        let lease = bench.app.runs.claim(&key, 1, &"a third one".into()).await.unwrap().unwrap();
        bench.app.runs.append(&lease, entry(2, "whole")).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        let last = Record::RunFinished {
            ending: weft_core::Ending::Succeeded,
            outputs: std::sync::Arc::default(),
            error: None,
            usage: Default::default(),
            limited: Vec::new(),
            uses: Vec::new(),
            spent: Default::default(),
            elapsed: 40.0,
        };
        let record = serde_json::to_string(&last).unwrap().into();
        let last = vec![StoredEntry { seq: 3, event: Some(3), at_ms: 45_000, record }];
        bench.app.runs.append(&lease, last).await.unwrap();
        bench.app.runs.finish(&lease, FinishedRun::new(weft_core::Ending::Succeeded, 45_000)).await.unwrap();
    };
    let (frames, ()) = tokio::join!(async { bench.get("/api/v1/runs/cut/events").await.frames() }, goes_on);
    let events: Vec<_> = frames.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(events, [1, 2, 3], "{frames:?}");
    assert_eq!(frames.last().unwrap().data, "[DONE]");
    assert!(
        frames.iter().all(|frame| frame.data == "[DONE]" || frame.json()["code"] != json!(500)),
        "{frames:?}"
    );
}

#[tokio::test]
async fn removing_an_agent_stops_its_runs() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let mut stream = bench.open("/v1/canvas/completion", json!({"id": id, "query": "x"})).await;
    stream.until("So ").await;
    assert_eq!(bench.ask("DELETE", &format!("/api/v1/agents/{id}"), json!(null)).await.data(), true);
    // The stream ends: a run that nobody stopped would keep it open for ever.
    stream.whole().await;
}

#[tokio::test]
async fn invalid_pins_are_refused_with_the_expected_form() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    for pins in [json!({"Message:M": 1}), json!({"Message:M": {"output": {}}})] {
        let body = json!({"question": "Hi", "pins": pins, "stream": false});
        let (code, message) = bench.post(&format!("/api/v1/agents/{id}/completions"), body).await.refusal();
        assert_eq!(code, 101, "{message}");
        assert!(
            message.contains("{\"NODE\": {\"outputs\": {…}}}") && !message.contains("struct"),
            "{message}"
        );
    }
}
