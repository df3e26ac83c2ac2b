//! Tool calls: as events, and as the trace of a run.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::rehearsal::{calls, canvas};
use crate::support::{Bench, bench, chat_canvas, events};

fn searches() -> Json {
    calls(&json!([
        {"tool": "search", "arguments": {"query": "a"}, "result": "found"},
        {"tool": "look", "arguments": {"id": 7}, "result": {"a": [1]}, "failed": true, "repaired": true},
        {"tool": "sum", "arguments": {}, "result": 3, "agent": "Agent:A-->Helper"},
        {"tool": "search", "arguments": {"query": "b"}, "result": null},
    ]))
}

fn trace() -> Json {
    let call = |path: &str, tool: &str, arguments: Json, result: Json| json!({"path": path, "tool_name": tool, "arguments": arguments, "result": result, "elapsed_time": 0.25});
    let mut looked = call("Agent:A-->look", "look", json!({"id": 7}), json!({"a": [1]}));
    looked["is_error"] = json!(true);
    looked["repaired"] = json!(true);
    json!([
        {"component_id": "Agent:A", "trace": [
            call("Agent:A-->search", "search", json!({"query": "a"}), json!("found")), looked,
        ]},
        {"component_id": "Agent:A-->Helper", "trace": [
            call("Agent:A-->Helper-->sum", "sum", json!({}), json!(3)),
        ]},
        {"component_id": "Agent:A", "trace": [
            call("Agent:A-->search", "search", json!({"query": "b"}), Json::Null),
        ]},
    ])
}

/// Row 28: the calls can be read while the run continues, by every id that clients know for it, and also after a
/// restart.
#[tokio::test]
async fn calls_can_be_read_during_the_run_and_after_a_restart() {
    let bench = bench(Script::new()).await;
    let mut params = searches();
    params["hold"] = json!(true);
    let id = bench.store("Calls", canvas(&params)).await;
    let mut stream =
        bench.open("/v1/canvas/completion", json!({"id": id, "query": "q", "stream": true})).await;
    // The last call has ended; the agent has not.
    while stream.text.matches("tool_end").count() < 4 {
        let seen = stream.text.len();
        stream.until_longer(seen).await;
    }
    let first = stream.frames()[0].json();
    let (message, session) = (first["message_id"].as_str().unwrap(), first["session_id"].as_str().unwrap());
    let paths = [
        format!("/api/v1/agents/{id}/logs/{message}"),
        format!("/api/v1/agents/{session}/logs/{message}"),
        format!("/api/v1/agents/{message}/logs/{message}"),
        format!("/v1/canvas/trace?canvas_id={id}&message_id={message}"),
        format!("/api/canvas/trace?canvas_id={id}&message_id={message}"),
    ];
    let running = bench.get(&format!("/api/v1/runs/{message}")).await.data();
    assert_eq!(running["status"], "running");
    // To another process the run looks as after a crash.
    let elsewhere = bench.restarted().get(&format!("/api/v1/runs/{message}")).await.data();
    assert_eq!(elsewhere["status"], "unfinished");
    for path in &paths {
        assert_eq!(bench.get(path).await.data(), trace(), "{path}");
    }
    let page = bench.get(&format!("{}&page=2&page_size=3", paths[3])).await.data();
    assert_eq!(
        (page[0]["trace"].as_array().unwrap().len(), &page[0]["trace"][0]["arguments"]),
        (1, &json!({"query": "b"}))
    );
    bench.post(&format!("/api/v1/tasks/{message}/cancel"), Json::Null).await.data();
    stream.whole().await;
    let restarted = bench.restarted();
    for path in &paths {
        assert_eq!(restarted.get(path).await.data(), trace(), "{path}");
    }
}

#[tokio::test]
async fn a_missing_trace_or_one_of_another_tenant_is_an_empty_object() {
    let bench = bench(Script::text("Paris")).await;
    let id = bench.store("Calls", canvas(&searches())).await;
    let plain = bench.store("Chat", chat_canvas()).await;
    let turn = async |id: &str| {
        let answer =
            bench.post("/api/v1/agents/chat/completions", json!({"agent_id": id, "query": "q"})).await;
        answer.data()["message_id"].as_str().unwrap().to_owned()
    };
    let (called, silent) = (turn(&id).await, turn(&plain).await);
    let nothing = async |bench: &Bench, path: String| {
        assert_eq!(bench.get(&path).await.data(), json!({}), "{path}");
    };
    nothing(&bench, format!("/api/v1/agents/{plain}/logs/{silent}")).await;
    nothing(&bench, format!("/api/v1/agents/{plain}/logs/{called}")).await;
    nothing(&bench, format!("/api/v1/agents/{id}/logs/gone")).await;
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    nothing(&stranger, format!("/api/v1/agents/{id}/logs/{called}")).await;
    assert_eq!(bench.get(&format!("/api/v1/agents/{id}/logs/{called}")).await.data(), trace());
    let nobody = Bench { token: "wrong".to_owned(), ..bench.restarted() };
    assert_eq!(nobody.get(&format!("/api/v1/agents/{id}/logs/{called}")).await.status, 401);
    assert_eq!(nobody.get(&format!("/v1/canvas/trace?canvas_id={id}&message_id={called}")).await.status, 401);
    let (code, message) = bench.get("/v1/canvas/trace?canvas_id=x").await.refusal();
    assert!(code == 101 && message.contains("message_id"), "{message}");
}

/// Clients of all events see the calls; clients of the messages see only the text.
#[tokio::test]
async fn tool_calls_are_events_and_not_part_of_the_answer() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Calls", canvas(&searches())).await;
    let all = bench.post("/v1/canvas/completion", json!({"id": id, "query": "q", "stream": true})).await;
    let kinds = events(&all.frames());
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool_start").count(), 4, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool_end").count(), 4, "{kinds:?}");
    let body = json!({"question": "q", "stream": true});
    let older = bench.post(&format!("/api/v1/agents/{id}/completions"), body).await;
    assert!(!older.text.contains("tool_"), "{}", older.text);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}], "stream": true});
    let openai = bench.post(&format!("/api/v1/agents_openai/{id}/chat/completions"), body).await;
    assert!(!openai.text.contains("search") && openai.text.contains("Done."), "{}", openai.text);
}

/// A limit that cut the answer short is not a failure, and such an answer can be distinguished from a complete one.
#[tokio::test]
async fn an_answer_cut_short_by_a_limit_is_marked() {
    let bench = bench(Script::new()).await;
    let check = async |params: Json, finish: &str, stop: Json| {
        let id = bench.store(&format!("C{finish}"), canvas(&params)).await;
        let path = format!("/api/v1/agents_openai/{id}/chat/completions");
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}]});
        let whole = bench.post(&path, body.clone()).await.json();
        assert_eq!(whole["choices"][0]["finish_reason"], finish);
        assert_eq!(whole["choices"][0]["message"]["content"], "Done.");
        body["stream"] = json!(true);
        let frames = bench.post(&path, body).await.frames();
        assert_eq!(frames[frames.len() - 2].json()["choices"][0]["finish_reason"], finish);
        let body = json!({"agent_id": id, "query": "q"});
        let answer = bench.post("/api/v1/agents/chat/completions", body).await.data();
        assert_eq!((&answer["data"]["stop_reason"], &answer["data"]["status"]), (&stop, &json!("succeeded")));
        let all = bench.post("/v1/canvas/completion", json!({"id": id, "query": "q", "stream": true})).await;
        let last =
            all.frames().into_iter().map(|frame| frame.json()).rfind(|f| f["event"] == "workflow_finished");
        assert_eq!(last.unwrap()["data"]["stop_reason"], stop);
    };
    check(json!({"limited": true}), "length", json!("max_rounds")).await;
    check(json!({}), "stop", Json::Null).await;
}

/// On every route with a choice of format, the events of one agent can be requested instead, and an interrupted
/// stream continues from its last number.
#[tokio::test]
async fn a_caller_may_request_the_events_of_an_agent() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Calls", canvas(&searches())).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let ask = |stream: bool| json!({"query": "q", "stream": stream, "dialect": "agent"});
    let frames = bench.post(&path, ask(true)).await.frames();
    let told: Vec<Json> = frames[..frames.len() - 1].iter().map(|frame| frame.json()).collect();
    assert_eq!(frames.last().unwrap().data, "[DONE]");
    let count = |event: &str| told.iter().filter(|frame| frame["event"] == event).count();
    assert_eq!((count("tool_start"), count("tool_end"), count("reply")), (4, 4, 1));
    assert!(count("node_start") > 0 && count("node_start") == count("node_end"), "every start has its end");
    let words: String = told.iter().filter_map(|frame| frame["data"]["token"].as_str()).collect();
    let reply = &told.last().unwrap()["data"];
    assert_eq!((words.as_str(), &reply["final_reply"]), ("Done.", &json!("Done.")));
    assert_eq!(reply["metadata"]["tools_used"], json!(["search", "look", "sum"]));
    assert_eq!(reply["metadata"]["stop_reason"], "completed");
    let numbers: Vec<u64> = told.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    // The same from the store, starting in the middle.
    let run = told[0]["run_id"].as_str().unwrap();
    let rest = format!("/api/v1/runs/{run}/events?dialect=agent&after={}", numbers[3]);
    let rest = bench.restarted().get(&rest).await.frames();
    let again: Vec<Json> = rest[..rest.len() - 1].iter().map(|frame| frame.json()).collect();
    assert_eq!(again, told[4..]);
    let whole = bench.post(&path, ask(false)).await.data();
    assert_eq!((&whole["final_reply"], &whole["status"]), (&json!("Done."), &json!("succeeded")));
    let wrong = bench.post(&path, json!({"query": "q", "dialect": "klingon"})).await.refusal();
    assert!(wrong.0 == 101 && wrong.1.contains("ragflow, agent"), "{wrong:?}");
}
