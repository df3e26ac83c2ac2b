//! OpenAI's Responses API.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::rehearsal::{calls, canvas};
use crate::support::{Bench, bench, chat_canvas, component, echo_canvas, endless, form_canvas};

const PATH: &str = "/v1/responses";

fn asked(model: &str, input: &Json) -> Json {
    json!({"model": model, "input": input})
}

fn with(mut body: Json, more: &Json) -> Json {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn whole(bench: &Bench, body: Json) -> Json {
    let answer = bench.post(PATH, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

/// The events of a stream; each has a line with its name, and the last line marks the end.
fn events(text: &str) -> Vec<Json> {
    let body = text.strip_suffix("data: [DONE]\n\n").unwrap_or_else(|| panic!("no end: {text}"));
    let blocks = body.split_terminator("\n\n").filter(|block| !block.starts_with(": "));
    let event = |block: &str| {
        let (name, data) =
            block.strip_prefix("event: ").and_then(|rest| rest.split_once("\ndata: ")).unwrap();
        let event: Json = serde_json::from_str(data).unwrap();
        assert_eq!(event["type"], name);
        event
    };
    blocks.map(event).collect()
}

async fn streamed(bench: &Bench, body: Json) -> Vec<Json> {
    let answer = bench.post(PATH, with(body, &json!({"stream": true}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    events(&answer.text)
}

/// Items are added in order, every added item is completed, and the last event contains all of them.
fn check(events: &[Json]) {
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
    assert_eq!(events[0]["type"], "response.created");
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let places: Vec<u64> =
        of("response.output_item.added").map(|event| event["output_index"].as_u64().unwrap()).collect();
    assert_eq!(places, (0..places.len() as u64).collect::<Vec<_>>());
    let mut done: Vec<(u64, &Json)> = of("response.output_item.done")
        .map(|event| (event["output_index"].as_u64().unwrap(), &event["item"]))
        .collect();
    done.sort_by_key(|(place, _)| *place);
    let output = events.last().unwrap()["response"]["output"].as_array().unwrap();
    assert_eq!(done.into_iter().map(|(_, item)| item).collect::<Vec<_>>(), output.iter().collect::<Vec<_>>());
}

fn text(response: &Json) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let parts =
        items.filter(|item| item["type"] == "message").flat_map(|item| item["content"].as_array().unwrap());
    parts.map(|part| part["text"].as_str().unwrap()).collect()
}

/// Removes what differs from one run to the next.
fn alike(response: &Json) -> Json {
    let run = response["id"].as_str().unwrap().trim_start_matches("resp_");
    let session = response["conversation"]["id"].as_str().unwrap();
    let same = response.to_string().replace(run, "RUN").replace(session, "SESSION");
    let mut response: Json = serde_json::from_str(&same).unwrap();
    for time in ["created_at", "completed_at"] {
        response[time] = Json::Null;
    }
    response
}

#[tokio::test]
async fn streamed_direct_and_stored_responses_are_the_same() {
    let reply = Reply::pieces(["Par", "is"]).usage(3, 5).always();
    let bench = bench(Script::new().reply(reply)).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let body = with(asked(&id, &json!("capital?")), &json!({"metadata": {"k": "v"}, "user": "ada"}));
    let first = whole(&bench, body.clone()).await;
    assert_eq!((text(&first).as_str(), &first["status"]), ("Paris", &json!("completed")));
    assert_eq!((&first["model"], &first["metadata"]["k"]), (&json!(id), &json!("v")));
    assert_eq!((&first["usage"]["input_tokens"], &first["usage"]["total_tokens"]), (&json!(3), &json!(8)));
    let told = streamed(&bench, body).await;
    check(&told);
    let last = &told.last().unwrap()["response"];
    assert_eq!(alike(last), alike(&first));
    let words: String = told
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(words, "Paris");
    // Also under the other path, and after a restart.
    let path = format!("/api/v1/responses/{}", first["id"].as_str().unwrap());
    assert_eq!(bench.get(&path).await.json(), first);
    assert_eq!(bench.restarted().get(&path).await.json(), first);
    // Its events can be read from any number on.
    let again =
        bench.get(&format!("{PATH}/{}?stream=true&starting_after=3", last["id"].as_str().unwrap())).await;
    assert_eq!(events(&again.text), told[4..]);
    let items = bench.get(&format!("{path}/input_items")).await.json();
    assert_eq!(items["data"][0]["content"], json!([{"type": "input_text", "text": "capital?"}]));
}

#[tokio::test]
async fn a_response_continues_only_from_the_latest_one() {
    let reply = |text: &str| Reply::text(text);
    let bench = bench(Script::new().reply(reply("one")).reply(reply("two")).reply(reply("three"))).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let first = whole(&bench, asked(&id, &json!("a"))).await;
    let next = |previous: &Json| json!({"input": "b", "previous_response_id": previous["id"]});
    // The agent is that of the previous response.
    let second = whole(&bench, next(&first)).await;
    assert_eq!((&second["conversation"], &second["model"]), (&first["conversation"], &json!(id)));
    assert_eq!(second["previous_response_id"], first["id"]);
    let seen: Vec<String> = bench.model.requests()[1].messages.iter().map(|one| one.text.clone()).collect();
    assert!(seen.ends_with(&["a".to_owned(), "one".to_owned(), "b".to_owned()]), "{seen:?}");
    let refused = bench.post(PATH, next(&first)).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert!(refused.text.contains(second["id"].as_str().unwrap()), "{}", refused.text);
    // A conversation is a session, and an unknown one is created.
    let named = json!({"conversation": {"id": "mine"}});
    let third = whole(&bench, with(asked(&id, &json!("c")), &named)).await;
    assert_eq!((text(&third).as_str(), &third["conversation"]["id"]), ("three", &json!("mine")));
    let session = bench.get(&format!("/api/v1/agents/{id}/sessions/mine")).await.data();
    assert!(session["messages"].to_string().contains("three"));
    let other = bench.store("Other", echo_canvas()).await;
    let elsewhere = bench.post(PATH, with(asked(&other, &json!("x")), &named)).await;
    assert_eq!(elsewhere.status, 403, "{}", elsewhere.text);
}

#[tokio::test]
async fn earlier_messages_become_the_history_of_a_new_session() {
    let bench = bench(Script::new().reply(Reply::text("yes").always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let input = json!([
        {"role": "user", "content": "a"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "c"}]},
    ]);
    whole(&bench, asked(&id, &input)).await;
    let seen: Vec<String> = bench.model.requests()[0].messages.iter().map(|one| one.text.clone()).collect();
    assert!(seen.ends_with(&["a".to_owned(), "b".to_owned(), "c".to_owned()]), "{seen:?}");
}

#[tokio::test]
async fn tool_calls_are_items_with_arguments_and_results() {
    let bench = bench(Script::new()).await;
    let found = json!([
        {"tool": "search", "arguments": {"query": "a"}, "result": {"n": 1}},
        {"tool": "pay", "arguments": {}, "result": "no money", "failed": true},
    ]);
    let id = bench.store("Calls", canvas(&calls(&found))).await;
    let told = streamed(&bench, asked(&id, &json!("q"))).await;
    check(&told);
    let output = told.last().unwrap()["response"]["output"].clone();
    let call = output.as_array().unwrap().iter().find(|item| item["name"] == "search").unwrap();
    assert_eq!((&call["type"], &call["server_label"]), (&json!("mcp_call"), &json!("Agent:A")));
    assert_eq!((&call["arguments"], &call["output"]), (&json!(r#"{"query":"a"}"#), &json!(r#"{"n":1}"#)));
    let failed = output.as_array().unwrap().iter().find(|item| item["name"] == "pay").unwrap();
    assert_eq!((&failed["status"], &failed["output"]), (&json!("failed"), &Json::Null));
    assert!(text(&json!({"output": output})).contains("Done."));
}

#[tokio::test]
async fn a_form_is_a_function_call_that_the_client_answers() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let told = streamed(&bench, asked(&id, &json!("q"))).await;
    check(&told);
    let response = &told.last().unwrap()["response"];
    let call = response["output"].as_array().unwrap().last().unwrap();
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("fill_in_form")));
    let arguments: Json = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments["message"], "Which colour?");
    assert!(arguments["schema"]["properties"]["colour"].is_object(), "{arguments}");
    let output = |output: &str| {
        let item = json!({"type": "function_call_output", "call_id": call["call_id"], "output": output});
        asked(&id, &json!([call, item]))
    };
    // Another tenant cannot answer it, and an invalid answer is refused.
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    let theirs = stranger.store("Form", form_canvas()).await;
    assert_eq!(stranger.post(PATH, with(output("red"), &json!({"model": theirs}))).await.status, 404);
    let wrong = bench.post(PATH, output("{\"size\": 1}")).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    // The task determines the session.
    let red = || with(output("{\"colour\": \"red\"}"), &json!({"idempotency_key": "k"}));
    let answered = whole(&bench, red()).await;
    assert_eq!(
        (text(&answered).as_str(), &answered["conversation"]),
        ("red it is", &response["conversation"])
    );
    assert_eq!(
        whole(&bench.restarted(), red()).await["id"],
        answered["id"],
        "a repeated request is not executed again"
    );
    assert_eq!(bench.post(PATH, output("{\"colour\": \"blue\"}")).await.status, 409);
    // A form with one field takes plain text as its value.
    let second = whole(&bench, asked(&id, &json!("q"))).await;
    let call = second["output"].as_array().unwrap().last().unwrap();
    let item = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "green"}]);
    let body = json!({"input": item, "previous_response_id": second["id"], "idempotency_key": "k2"});
    let green = whole(&bench, body.clone()).await;
    assert_eq!(text(&green), "green it is");
    assert_eq!(whole(&bench, body).await["id"], green["id"]);
}

#[tokio::test]
async fn a_call_that_needs_approval_is_an_approval_request() {
    let bench = bench(Script::new()).await;
    let field = json!({"name": "Allow it?", "type": "approval", "tool": "delete_file",
        "arguments": {"path": "a"}, "options": ["approve", "deny"], "optional": false});
    let id = bench.store("Asks", canvas(&json!({"approve": {"call_1": field}}))).await;
    for (approve, said) in [(true, "call_1: approve"), (false, "\"decision\":\"deny\"")] {
        let waiting = whole(&bench, asked(&id, &json!("q"))).await;
        let request = waiting["output"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&request["type"], &request["name"]),
            (&json!("mcp_approval_request"), &json!("delete_file"))
        );
        assert_eq!(request["arguments"], r#"{"path":"a"}"#);
        let reply = json!({"type": "mcp_approval_response", "approval_request_id": request["id"],
            "approve": approve, "reason": "not now"});
        let body = json!({"input": [reply], "previous_response_id": waiting["id"]});
        let answered = whole(&bench, body).await;
        assert!(text(&answered).contains(said), "{}", text(&answered));
    }
}

#[tokio::test]
async fn refusals_are_openai_errors_with_their_status() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let check = async |body: Json, status: u16, words: &str| {
        let answer = bench.post(PATH, body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        let error = answer.json()["error"].clone();
        let message = error["message"].as_str().unwrap().to_owned();
        // Some clients read an error only in this form.
        assert!(
            error["code"].is_string() && error["param"].is_string() && error["type"].is_string(),
            "{error}"
        );
        assert!(message.contains(words), "{message}");
    };
    check(json!({"model": id}), 400, "input").await;
    check(json!({"input": "q"}), 400, "`model`").await;
    check(asked("gone", &json!("q")), 404, "no agent `gone`").await;
    check(with(asked(&id, &json!("q")), &json!({"temperature": 0.1})), 400, "`temperature`").await;
    check(with(asked(&id, &json!("q")), &json!({"tools": [{}]})), 400, "`tools`").await;
    check(with(asked(&id, &json!("q")), &json!({"instructions": "be brief"})), 400, "`instructions`").await;
    check(with(asked(&id, &json!("q")), &json!({"previous_response_id": "resp_gone"})), 404, "resp_gone")
        .await;
    check(asked(&id, &json!([{"type": "item_reference", "id": "x"}])), 400, "input[0]").await;
    check(asked(&id, &json!([{"type": "function_call_output", "call_id": "x", "output": ""}])), 404, "`x`")
        .await;
    let nobody = Bench { token: "wrong".to_owned(), ..bench.restarted() };
    let refused = nobody.post(PATH, asked(&id, &json!("q"))).await;
    assert_eq!(refused.status, 401);
    // A failed run is a response with that status.
    let failing = bench.store("Chat", chat_canvas()).await;
    let failed = whole(&bench, asked(&failing, &json!("q"))).await;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("server_error")));
    let told = streamed(&bench, asked(&failing, &json!("q"))).await;
    assert_eq!(told.last().unwrap()["type"], "response.failed");
}

#[tokio::test]
async fn a_response_of_another_tenant_is_not_found() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let mine = whole(&bench, asked(&id, &json!("secret"))).await;
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    let theirs = stranger.store("Echo", echo_canvas()).await;
    let path = format!("{PATH}/{}", mine["id"].as_str().unwrap());
    for (method, path) in [
        ("GET", path.clone()),
        ("GET", format!("{path}?stream=true")),
        ("GET", format!("{path}/input_items")),
        ("POST", format!("{path}/cancel")),
        ("DELETE", path.clone()),
    ] {
        let answer = stranger.ask(method, &path, json!({})).await;
        assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text);
    }
    for model in [&theirs, &id] {
        let body = with(asked(model, &json!("q")), &json!({"previous_response_id": mine["id"]}));
        assert_eq!(stranger.post(PATH, body).await.status, 404);
    }
    assert_eq!(bench.get(&path).await.status, 200);
}

#[tokio::test]
async fn unstored_and_removed_responses_are_not_found() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let unkept = whole(&bench, with(asked(&id, &json!("a")), &json!({"store": false}))).await;
    assert_eq!((text(&unkept).as_str(), &unkept["store"]), ("you said: a", &json!(false)));
    let path = |response: &Json| format!("{PATH}/{}", response["id"].as_str().unwrap());
    assert_eq!(bench.get(&path(&unkept)).await.status, 404);
    let body = json!({"input": "b", "previous_response_id": unkept["id"]});
    assert_eq!(bench.post(PATH, body).await.status, 404);
    let kept = whole(&bench, asked(&id, &json!("a"))).await;
    let removed = bench.ask("DELETE", &path(&kept), Json::Null).await.json();
    assert_eq!(removed, json!({"id": kept["id"], "object": "response", "deleted": true}));
    assert_eq!(bench.get(&path(&kept)).await.status, 404);
    let session = kept["conversation"]["id"].as_str().unwrap();
    let session = bench.get(&format!("/api/v1/agents/{id}/sessions/{session}")).await.data();
    assert!(!session["messages"].to_string().contains("you said"), "{session}");
}

#[tokio::test]
async fn removing_a_response_removes_its_open_question() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let waits = whole(&bench, asked(&id, &json!("q"))).await;
    assert_eq!(bench.get("/api/v1/tasks").await.data()["total"], 1);
    let path = format!("{PATH}/{}", waits["id"].as_str().unwrap());
    assert_eq!(bench.ask("DELETE", &path, Json::Null).await.json()["deleted"], true);
    assert_eq!(bench.get("/api/v1/tasks").await.data()["total"], 0);
    // The next question to its session starts a new turn.
    let session = waits["conversation"]["id"].as_str().unwrap();
    let next = json!({"agent_id": id, "session_id": session, "query": "q", "stream": false});
    let next = bench.post("/api/v1/agents/chat/completions", next).await.data();
    assert_eq!(next["data"]["status"], "waiting", "{next}");
}

#[tokio::test]
async fn cancelling_a_response_drops_its_open_question() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Form", form_canvas()).await;
    let waits = whole(&bench, asked(&id, &json!("q"))).await;
    let task = bench.get("/api/v1/tasks").await.data()["tasks"][0]["id"].clone();
    let path = format!("{PATH}/{}/cancel", waits["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(bench.post(&path, json!({})).await.json()["id"], waits["id"]);
        assert_eq!(bench.get("/api/v1/tasks").await.data()["total"], 0);
    }
    let output = json!([{"type": "function_call_output", "call_id": task, "output": "red"}]);
    let late = bench.post(PATH, asked(&id, &output)).await;
    assert_eq!(late.status, 409, "{}", late.text);
    assert!(late.text.contains("was dropped"), "{}", late.text);
}

#[tokio::test]
async fn a_background_response_is_polled_and_cancelled() {
    let bench = bench(Script::new().reply(endless(&["So "]).always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let begun = whole(&bench, with(asked(&id, &json!("q")), &json!({"background": true}))).await;
    assert_eq!((&begun["status"], &begun["usage"]), (&json!("in_progress"), &Json::Null));
    let path = format!("{PATH}/{}", begun["id"].as_str().unwrap());
    assert_eq!(bench.get(&path).await.json()["status"], "in_progress");
    assert_eq!(bench.ask("DELETE", &path, Json::Null).await.status, 409);
    let stopped = bench.post(&format!("{path}/cancel"), json!({})).await.json();
    assert_eq!(stopped["status"], "cancelled", "{stopped}");
    assert_eq!(bench.get(&path).await.json(), stopped);
    assert_eq!(bench.post(&format!("{path}/cancel"), json!({})).await.json(), stopped);
}

#[tokio::test]
async fn instructions_reach_a_canvas_that_accepts_them() {
    let bench = bench(Script::new()).await;
    let fields = json!({"inputs": {"instructions": {"type": "paragraph", "optional": true}}});
    let canvas = json!({"components": {
        "begin": component("Begin", &fields, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{begin@instructions}: {sys.query}"]}), &[]),
    }});
    let id = bench.store("Takes", canvas).await;
    let body = with(asked(&id, &json!("q")), &json!({"instructions": "be brief"}));
    let response = whole(&bench, body).await;
    assert_eq!((text(&response).as_str(), &response["instructions"]), ("be brief: q", &json!("be brief")));
    let input = json!([{"role": "system", "content": "be kind"}, {"role": "user", "content": "q"}]);
    assert_eq!(text(&whole(&bench, asked(&id, &input)).await), "be kind: q");
}

#[tokio::test]
async fn a_model_name_may_include_a_version() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let named = bench.post(PATH, asked(&format!("{id}@latest"), &json!("q"))).await;
    assert_eq!(named.status, 200, "{}", named.text);
    let unknown = bench.post(PATH, asked(&format!("{id}@nosuch"), &json!("q"))).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text);
}

#[tokio::test]
async fn a_repeated_question_is_the_same_response() {
    let bench = bench(Script::new().reply(Reply::text("once").always())).await;
    let id = bench.store("Chat", chat_canvas()).await;
    let first = whole(&bench, asked(&id, &json!("a"))).await;
    let body = json!({"input": "b", "previous_response_id": first["id"], "idempotency_key": "k"});
    let second = whole(&bench, body.clone()).await;
    assert_eq!(whole(&bench, body).await, second);
    assert_eq!(bench.model.requests().len(), 2);
}

#[tokio::test]
async fn secrets_are_masked_in_stored_responses_too() {
    let bench = bench(Script::new()).await;
    bench.ask("PUT", "/api/v1/secrets/KEY", json!({"value": "rosebud-0815"})).await.data();
    let canvas = json!({"components": {
        "begin": component("Begin", &json!({}), &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["it is {secret.KEY}"]}), &[]),
    }});
    let id = bench.store("Tells", canvas).await;
    let response = whole(&bench, asked(&id, &json!("q"))).await;
    assert!(!response.to_string().contains("rosebud"), "{response}");
    let later = bench.get(&format!("{PATH}/{}", response["id"].as_str().unwrap())).await.json();
    assert_eq!(later, response);
}
