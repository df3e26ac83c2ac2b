//! The AG-UI protocol.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::rehearsal::{calls, canvas};
use crate::support::{Bench, bench, chat_canvas, form_canvas};

fn asked(thread: &str, run: &str, question: &str) -> Json {
    json!({
        "threadId": thread, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "1", "role": "user", "content": question}],
    })
}

async fn events(bench: &Bench, id: &str, body: Json) -> Vec<Json> {
    let answer = bench.post(&format!("/api/v1/agents/{id}/ag-ui"), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.frames().iter().map(|frame| frame.json()).collect()
}

fn kinds(events: &[Json]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn words(events: &[Json]) -> String {
    let said = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    said.filter_map(|event| event["delta"].as_str()).collect()
}

/// Everything that starts ends once, in order, between the start and the end of the run.
fn check(events: &[Json]) {
    let pairs = [
        ("STEP_STARTED", "STEP_FINISHED", "stepName"),
        ("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"),
        ("REASONING_START", "REASONING_END", "messageId"),
        ("REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "messageId"),
        ("TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"),
    ];
    assert_eq!(events[0]["type"], "RUN_STARTED");
    assert!(["RUN_FINISHED", "RUN_ERROR"].contains(&events.last().unwrap()["type"].as_str().unwrap()));
    for (start, end, key) in pairs {
        let mut open: Vec<&Json> = Vec::new();
        for event in events {
            if event["type"] == start {
                assert!(!open.contains(&&event[key]), "{event} starts twice");
                open.push(&event[key]);
            } else if event["type"] == end {
                let place = open.iter().position(|id| **id == event[key]).expect("an event that has started");
                open.remove(place);
            }
        }
        assert!(open.is_empty(), "{open:?} of {start} has no end");
    }
}

#[tokio::test]
async fn a_run_is_streamed_and_its_thread_continues() {
    let bench = bench(
        Script::new().reply(weft_testkit::Reply::text("Paris.")).reply(weft_testkit::Reply::text("Rome.")),
    )
    .await;
    let id = bench.store("Chat", chat_canvas()).await;
    let first = events(&bench, &id, asked("t1", "r1", "France?")).await;
    check(&first);
    assert_eq!(words(&first), "Paris.");
    let (started, finished) = (&first[0], first.last().unwrap());
    for event in [started, finished] {
        assert_eq!((&event["threadId"], &event["runId"]), (&json!("t1"), &json!("r1")));
    }
    assert_eq!(finished["outcome"], json!({"type": "success"}));
    assert!(finished["usage"][0]["totalTokens"].as_u64().is_some());
    // A repeated request returns the same run.
    assert_eq!(words(&events(&bench, &id, asked("t1", "r1", "France?")).await), "Paris.");
    let path = format!("/api/v1/agents/{id}/ag-ui");
    for (thread, question, told) in
        [("t1", "Spain?", "used for another question"), ("t2", "France?", "used in another session")]
    {
        let reused = bench.post(&path, asked(thread, "r1", question)).await;
        assert_eq!(reused.status, 400, "{}", reused.text);
        assert!(reused.text.contains(&format!("`runId` was {told}")), "{}", reused.text);
    }
    let second = events(&bench, &id, asked("t1", "r2", "Italy?")).await;
    assert_eq!(words(&second), "Rome.");
    let session = bench.get(&format!("/api/v1/agents/{id}/sessions/t1")).await.data();
    let said: Vec<&str> =
        session["messages"].as_array().unwrap().iter().filter_map(|one| one["content"].as_str()).collect();
    assert!(said.ends_with(&["France?", "Paris.", "Italy?", "Rome."]), "{said:?}");
}

#[tokio::test]
async fn calls_have_arguments_and_results() {
    let bench = bench(Script::new()).await;
    let found = json!([{"tool": "search", "arguments": {"query": "a"}, "result": {"n": 1}}]);
    let id = bench.store("Calls", canvas(&calls(&found))).await;
    let told = events(&bench, &id, asked("t", "r", "q")).await;
    check(&told);
    let place = kinds(&told).iter().position(|kind| *kind == "TOOL_CALL_START").unwrap();
    let call = &told[place..place + 4];
    assert_eq!(kinds(call), ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]);
    assert_eq!((&call[0]["toolCallName"], &call[1]["delta"]), (&json!("search"), &json!(r#"{"query":"a"}"#)));
    assert_eq!((&call[3]["content"], &call[3]["role"]), (&json!(r#"{"n":1}"#), &json!("tool")));
    assert!(call.iter().all(|event| event["toolCallId"] == call[0]["toolCallId"]));
}

#[tokio::test]
async fn a_form_is_an_interrupt_and_answering_it_resumes_the_run() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let told = events(&bench, &id, asked("t", "r1", "q")).await;
    check(&told);
    let outcome = &told.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt");
    let interrupts = outcome["interrupts"].as_array().unwrap();
    assert_eq!((interrupts.len(), &interrupts[0]["reason"]), (1, &json!("input_required")));
    let fields = interrupts[0]["responseSchema"]["properties"].as_object().unwrap();
    assert!(!fields.is_empty());
    let values: serde_json::Map<String, Json> =
        fields.keys().map(|name| (name.clone(), json!("Ada"))).collect();
    let resume = |status: &str, payload: Json| {
        let mut body = asked("t", "r2", "q");
        body["resume"] = json!([{"interruptId": interrupts[0]["id"], "status": status, "payload": payload}]);
        body
    };
    let path = format!("/api/v1/agents/{id}/ag-ui");
    let mut elsewhere = resume("resolved", json!(values));
    elsewhere["threadId"] = json!("another");
    assert_eq!(bench.post(&path, elsewhere).await.status, 404, "the task belongs to another thread");
    let resumed = events(&bench, &id, resume("resolved", json!(values))).await;
    check(&resumed);
    assert_eq!(resumed.last().unwrap()["outcome"], json!({"type": "success"}));
    assert!(words(&resumed).contains("Ada"), "{}", words(&resumed));
    let again = events(&bench.restarted(), &id, resume("resolved", json!(values))).await;
    assert_eq!(again, resumed, "a repeated request returns the same run");
    let mut changed = values.clone();
    changed.values_mut().for_each(|value| *value = json!("Grace"));
    assert_eq!(
        bench.post(&path, resume("resolved", json!(changed))).await.status,
        400,
        "it is a different answer"
    );
    let mut twice = resume("resolved", json!(values));
    twice["runId"] = json!("r3");
    let twice = bench.post(&path, twice).await;
    assert_eq!(twice.status, 409, "it was answered before: {}", twice.text);
}

#[tokio::test]
async fn cancelling_a_form_ends_its_run() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let told = events(&bench, &id, asked("t", "r1", "q")).await;
    let interrupt = told.last().unwrap()["outcome"]["interrupts"][0].clone();
    let resume = |run: &str, status: &str| {
        let mut body = asked("t", run, "q");
        let payload = json!({"name": "Ada"});
        body["resume"] = json!([{"interruptId": interrupt["id"], "status": status, "payload": payload}]);
        body
    };
    let path = format!("/api/v1/agents/{id}/ag-ui");
    let mut elsewhere = resume("r2", "cancelled");
    elsewhere["threadId"] = json!("another");
    assert_eq!(bench.post(&path, elsewhere).await.status, 404, "the task belongs to another thread");
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    assert_eq!(stranger.post(&path, resume("r2", "cancelled")).await.status, 404);
    // Several requests at once get the same result: the form is cancelled for each of them.
    let many = ["c1", "c2", "c3", "c4"].map(|run| events(&bench, &id, resume(run, "cancelled")));
    for told in futures::future::join_all(many).await {
        assert_eq!(told.last().unwrap()["outcome"], json!({"type": "cancelled"}), "{told:?}");
    }
    // Also when the request is repeated, by the same client or by one that does not know of the first.
    for run in ["r2", "r2", "r3"] {
        let told = events(&bench, &id, resume(run, "cancelled")).await;
        check(&told);
        assert_eq!(kinds(&told), ["RUN_STARTED", "RUN_FINISHED"]);
        let end = told.last().unwrap();
        assert_eq!((&end["outcome"], &end["runId"]), (&json!({"type": "cancelled"}), &json!(run)));
    }
    assert_eq!(bench.get("/api/v1/tasks?status=open").await.data()["total"], 0);
    assert_eq!(bench.post(&path, resume("r4", "resolved")).await.status, 409, "the question is closed");
    let anew = events(&bench, &id, asked("t", "r5", "q")).await;
    let asks = &anew.last().unwrap()["outcome"]["interrupts"][0];
    assert_ne!(asks["id"], interrupt["id"], "the next question is a new task");
    // A form that was answered cannot be cancelled.
    let answer = |status: &str, run: &str| {
        let mut body = resume(run, status);
        body["resume"][0]["interruptId"] = asks["id"].clone();
        let fields = asks["responseSchema"]["properties"].as_object().unwrap().keys();
        body["resume"][0]["payload"] = fields.map(|field| (field.clone(), json!("Ada"))).collect();
        body
    };
    events(&bench, &id, answer("resolved", "r6")).await;
    assert_eq!(bench.post(&path, answer("cancelled", "r7")).await.status, 409);
}

#[tokio::test]
async fn invalid_requests_are_refused_before_anything_starts() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let path = format!("/api/v1/agents/{id}/ag-ui");
    assert_eq!(bench.post(&path, json!({"runId": "r"})).await.status, 400);
    assert_eq!(bench.post("/api/v1/agents/gone/ag-ui", asked("t", "r", "q")).await.status, 404);
    let long = "x".repeat(10_000);
    assert_eq!(bench.post(&path, asked("t", &long, "q")).await.status, 400);
    let unnamed = bench.post(&path, asked("t", "", "q")).await;
    assert_eq!(unnamed.status, 400);
    assert!(unnamed.text.contains("`runId` must be a text of 1 to"), "{}", unnamed.text);
    let mut picture = asked("t", "r", "q");
    picture["messages"][0]["content"] = json!([{"type": "binary", "mimeType": "image/png", "data": "eA=="}]);
    assert_eq!(bench.post(&path, picture).await.status, 400, "the agent exists, the request is wrong");
    let mut silent = asked("t", "r", "q");
    silent["messages"] = json!([]);
    assert_eq!(bench.post(&path, silent).await.status, 400);
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    assert_eq!(stranger.post(&path, asked("t", "r", "q")).await.status, 404);
    let nobody = Bench { token: "wrong".to_owned(), ..bench.restarted() };
    assert_eq!(nobody.post(&path, asked("t", "r", "q")).await.status, 401);
    // A failed run is reported in the protocol.
    let told = events(&bench, &id, asked("t", "r", "q")).await;
    check(&told);
    assert_eq!(told.last().unwrap()["type"], "RUN_ERROR");
}
