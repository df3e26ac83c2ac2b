//! MCP clients: the tools they are offered, the results they get, and isolation between callers.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use tower::ServiceExt as _;
use weft_app::Auth;
use weft_app::config::LimitsConfig;
use weft_core::RunKey;
use weft_core::access::MemberRole;
use weft_core::journal::Ending;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::session_store::SessionFilter;
use weft_engine::engine::PickedUp;
use weft_testkit::{Reply, Script, Step};

use crate::support::{
    Bench, bench, bench_with, chat_canvas, component, default_tenant, echo_canvas, endless, form_canvas,
};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A stateless request of a client with these capabilities.
fn message(method: &str, mut params: Json, capabilities: &Json) -> Json {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

impl Bench {
    fn mcp_request(&self, token: &str, message: &Json) -> Request<Body> {
        let params = &message["params"];
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()).unwrap_or_default();
        let request = Request::builder()
            .method("POST")
            .uri("/mcp")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", message["method"].as_str().unwrap())
            .header("mcp-name", name);
        request.body(Body::from(message.to_string())).unwrap()
    }

    /// The status and the response; for a stream its last message.
    async fn mcp_as(&self, token: &str, message: Json) -> (StatusCode, Json) {
        let response = self.router.clone().oneshot(self.mcp_request(token, &message)).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 64 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let last = text.rsplit("data: ").next().unwrap_or_default();
        (status, serde_json::from_str(last.trim()).unwrap_or_else(|_| json!(text)))
    }

    async fn mcp_with(&self, method: &str, params: Json, capabilities: &Json) -> Json {
        let (_, answer) = self.mcp_as(&self.token, message(method, params, capabilities)).await;
        answer
    }

    async fn mcp(&self, method: &str, params: Json) -> Json {
        let mut answer = self.mcp_with(method, params, &json!({})).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    async fn tool(&self, name: &str, arguments: Json) -> Json {
        self.mcp("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    async fn published(&self, title: &str, dsl: Json) -> String {
        let stored = self.post("/api/v1/agents", json!({"title": title, "dsl": dsl, "release": true})).await;
        stored.data()["id"].as_str().unwrap().to_owned()
    }

    async fn tool_names(&self, token: &str) -> Vec<String> {
        let (_, listed) = self.mcp_as(token, message("tools/list", json!({}), &json!({}))).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a run was cancelled.
    async fn is_cancelled(&self, run: &RunKey) {
        for _ in 0..200 {
            if self.app.runs.get(run).await.unwrap().ending == Some(Ending::Cancelled) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the run continues although its caller cancelled it");
    }

    /// A task, once it has left this status.
    async fn task_after(&self, id: &Json, status: &str) -> Json {
        for _ in 0..600 {
            let capabilities = json!({"extensions": {TASKS: {}}});
            let mut shown = self.mcp_with("tasks/get", json!({"taskId": id}), &capabilities).await;
            if shown["result"]["status"] != status {
                return shown["result"].take();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the task is still {status}");
    }
}

fn asks_a_town() -> Json {
    let form = json!({"inputs": {"town": {"name": "Town", "type": "line", "optional": false}}});
    json!({"components": {
        "begin": component("Begin", &form, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{sys.query} in {begin@town}"]}), &[]),
    }})
}

#[tokio::test]
async fn published_agents_are_tools_in_a_stable_order_and_drafts_are_not() {
    let bench = bench(Script::new()).await;
    bench.published("Town Guide", asks_a_town()).await;
    bench.published("echo", echo_canvas()).await;
    bench.store("Draft", echo_canvas()).await;
    let names = bench.tool_names(&bench.token).await;
    assert_eq!(names[..3], ["ragflow_list_chats", "ragflow_list_datasets", "ragflow_retrieval"]);
    assert_eq!(names[names.len() - 2..], ["echo", "town_guide"]);
    assert_eq!(names, bench.tool_names(&bench.token).await);
    let tools = bench.mcp("tools/list", json!({})).await;
    let guide = tools["tools"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(guide["inputSchema"]["required"], json!(["query", "town"]));
    let told = bench.tool("town_guide", json!({"query": "rain", "town": "Oslo"})).await;
    assert_eq!(told["content"][0]["text"], "rain in Oslo");
    let data = &told["structuredContent"];
    assert_eq!((&data["answer"], &data["status"]), (&json!("rain in Oslo"), &json!("succeeded")));
    let validator = jsonschema::validator_for(&guide["outputSchema"]).unwrap();
    assert!(validator.is_valid(data), "{data}");
    // The run is an ordinary run.
    let run = bench.get(&format!("/api/v1/runs/{}", data["run_id"].as_str().unwrap())).await.data();
    assert_eq!((&run["session_id"], &run["query"]), (&data["session_id"], &json!("rain")));
    let missing = bench.mcp_with("tools/call", json!({"name": "draft", "arguments": {}}), &json!({})).await;
    assert_eq!(missing["error"]["code"], -32_602);
}

#[tokio::test]
async fn a_call_can_continue_a_session() {
    let script = Script::new().reply(Reply::text("Paris.")).reply(Reply::text("Rome."));
    let bench = bench(script).await;
    bench.published("Chat", chat_canvas()).await;
    let first = bench.tool("chat", json!({"query": "France?"})).await;
    let session = first["structuredContent"]["session_id"].clone();
    let second = bench.tool("chat", json!({"query": "Italy?", "session_id": session})).await;
    assert_eq!(second["content"][0]["text"], "Rome.");
    assert_eq!(second["structuredContent"]["session_id"], session);
    let heard: Vec<String> =
        bench.model.requests()[1].messages.iter().map(|message| message.text.to_string()).collect();
    assert!(heard.contains(&"Paris.".to_owned()), "{heard:?}");
    // A session of another agent is not found.
    bench.published("echo", echo_canvas()).await;
    let elsewhere = bench.tool("echo", json!({"query": "x", "session_id": session})).await;
    assert_eq!(elsewhere["isError"], true);
}

#[tokio::test]
async fn another_tenant_sees_and_calls_no_tools() {
    let bench = bench(Script::new()).await;
    let id = bench.published("Secret Plan", echo_canvas()).await;
    let asked = bench.tool("secret_plan", json!({"query": "q"})).await;
    let (run, session) =
        (asked["structuredContent"]["run_id"].clone(), asked["structuredContent"]["session_id"].clone());
    let stranger = bench.stranger().await;
    assert!(!bench.tool_names(&stranger).await.contains(&"secret_plan".to_owned()));
    let tasks = json!({"extensions": {TASKS: {}}});
    for (method, params) in [
        ("tools/call", json!({"name": "secret_plan", "arguments": {"query": "q"}})),
        ("tasks/get", json!({"taskId": run})),
        ("tasks/cancel", json!({"taskId": run})),
        ("tasks/update", json!({"taskId": run, "inputResponses": {}})),
    ] {
        let (_, refused) = bench.mcp_as(&stranger, message(method, params, &tasks)).await;
        assert_eq!(refused["error"]["code"], -32_602, "{method}: {refused}");
    }
    for (tool, arguments) in [
        ("get_run", json!({"run_id": run})),
        ("run_canvas", json!({"id": id, "query": "q"})),
        ("put_canvas", json!({"id": id, "title": "Mine", "canvas": echo_canvas()})),
    ] {
        let call = message("tools/call", json!({"name": tool, "arguments": arguments}), &json!({}));
        let (_, refused) = bench.mcp_as(&stranger, call).await;
        assert_eq!(refused["result"]["isError"], true, "{tool}: {refused}");
    }
    // A tenant with an agent of the same name uses its own.
    let stored = bench.mcp_as(
        &stranger,
        message(
            "tools/call",
            json!({"name": "put_canvas", "arguments": {"title": "Secret Plan", "canvas": echo_canvas()}}),
            &json!({}),
        ),
    );
    let own = stored.await.1["result"]["structuredContent"]["id"].clone();
    let call = json!({"name": "run_canvas", "arguments": {"id": own, "query": "q", "session_id": session}});
    let (_, refused) = bench.mcp_as(&stranger, message("tools/call", call, &json!({}))).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

#[tokio::test]
async fn a_token_is_required_and_other_origins_are_refused() {
    let bench = bench(Script::new()).await;
    let list = message("tools/list", json!({}), &json!({}));
    for token in ["", "weft-wrong"] {
        let response = bench.router.clone().oneshot(bench.mcp_request(token, &list)).await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }
    // Clients of RAGFlow's own server send it like this.
    let mut request = bench.mcp_request("", &list);
    request.headers_mut().remove("authorization");
    request.headers_mut().insert("api_key", bench.token.parse().unwrap());
    assert_eq!(bench.router.clone().oneshot(request).await.unwrap().status(), StatusCode::OK);
    let mut page = bench.mcp_request(&bench.token, &list);
    page.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(bench.router.clone().oneshot(page).await.unwrap().status(), StatusCode::FORBIDDEN);
    let get = Request::builder().uri("/mcp").body(Body::empty()).unwrap();
    assert_eq!(bench.router.clone().oneshot(get).await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);

    let open = bench_with(Script::new(), Auth::Off, LimitsConfig::default()).await;
    let mut rebound = open.mcp_request("", &list);
    for (name, value) in [("host", "evil.example"), ("origin", "http://evil.example")] {
        rebound.headers_mut().insert(name, value.parse().unwrap());
    }
    assert_eq!(open.router.clone().oneshot(rebound).await.unwrap().status(), StatusCode::FORBIDDEN);
    assert_eq!(open.mcp_as("", list).await.0, StatusCode::OK);
}

#[tokio::test]
async fn invalid_messages_get_protocol_errors() {
    let bench = bench(Script::new()).await;
    let post = async |body: &'static str| {
        let mut request = bench.mcp_request(&bench.token, &message("ping", json!({}), &json!({})));
        *request.body_mut() = Body::from(body);
        let response = bench.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice::<Json>(&bytes).unwrap()["error"]["code"].clone())
    };
    assert_eq!(post("{").await, (StatusCode::BAD_REQUEST, json!(-32_700)));
    assert_eq!(post("").await, (StatusCode::BAD_REQUEST, json!(-32_700)));
    // JSON, but no message; batches were dropped from the protocol.
    assert_eq!(post("[]").await, (StatusCode::BAD_REQUEST, json!(-32_600)));
    assert_eq!(post("null").await, (StatusCode::BAD_REQUEST, json!(-32_600)));
    assert_eq!(post("{}").await, (StatusCode::BAD_REQUEST, json!(-32_600)));
    let gone = bench.mcp_with("ping", json!({}), &json!({})).await;
    assert_eq!(gone["error"]["code"], -32_601);
}

#[tokio::test]
async fn two_clients_at_once_get_their_own_streamed_answers() {
    let pieces = |pieces: [&'static str; 3], question: &str| {
        let [a, b, c] = pieces;
        let reply = Reply::pieces([a]).then(Step::Wait(30)).then(Step::Text(b.into()));
        reply.then(Step::Wait(30)).then(Step::Text(c.into())).when_user(question)
    };
    let script = Script::new()
        .reply(pieces(["one ", "two ", "three"], "numbers"))
        .reply(pieces(["red ", "green ", "blue"], "colours"));
    let bench = bench(script).await;
    bench.published("Chat", chat_canvas()).await;
    let ask = async |query: &str, token: &str| {
        let params =
            json!({"name": "chat", "arguments": {"query": query}, "_meta": {"progressToken": token}});
        let request = bench.mcp_request(&bench.token, &message("tools/call", params, &json!({})));
        let response = bench.router.clone().oneshot(request).await.unwrap();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let messages: Vec<Json> = text
            .split("\n\n")
            .filter_map(|frame| frame.strip_prefix("event: message\ndata: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let (last, told) = messages.split_last().unwrap();
        assert!(told.iter().all(|one| one["params"]["progressToken"] == token), "{told:?}");
        let steps: Vec<f64> = told.iter().map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
        let said: String = told.iter().map(|one| one["params"]["message"].as_str().unwrap()).collect();
        assert_eq!(said, last["result"]["content"][0]["text"].as_str().unwrap());
        said
    };
    let (numbers, colours) = tokio::join!(ask("numbers", "a"), ask("colours", "b"));
    assert_eq!((numbers.as_str(), colours.as_str()), ("one two three", "red green blue"));
}

#[tokio::test]
async fn closing_the_stream_stops_the_run() {
    let bench = bench(Script::new().reply(endless(&["It ", "is "]))).await;
    bench.published("Chat", chat_canvas()).await;
    let params = json!({"name": "chat", "arguments": {"query": "q"}, "_meta": {"progressToken": 1}});
    let request = bench.mcp_request(&bench.token, &message("tools/call", params, &json!({})));
    let response = bench.router.clone().oneshot(request).await.unwrap();
    let mut stream = response.into_body().into_data_stream();
    assert!(stream.next().await.is_some());
    let filter = RunFilter { limit: 1, ..RunFilter::default() };
    let run = bench.app.runs.list(&default_tenant(), &filter).await.unwrap().remove(0);
    assert_eq!(run.ending, None);
    drop(stream);
    bench.is_cancelled(&run.key).await;
}

#[tokio::test]
async fn a_refused_tool_call_leaves_no_session() {
    let limits = LimitsConfig { runs_at_once: 1, ..LimitsConfig::default() };
    let bench = bench_with(Script::new().reply(endless(&["So "]).always()), Auth::On, limits).await;
    bench.published("echo", echo_canvas()).await;
    let agent = bench.store("Chat", chat_canvas()).await;
    let question = json!({"agent_id": agent, "query": "q", "stream": true});
    let mut at_work = bench.open("/api/v1/agents/chat/completions", question).await;
    at_work.until("So ").await;
    let told = bench.tool("echo", json!({"query": "rain"})).await;
    assert!(told["isError"] == true && told.to_string().contains("too many runs"), "{told}");
    let all = SessionFilter { limit: 9, ..SessionFilter::default() };
    let (_, sessions) = bench.app.sessions.list(&default_tenant(), &all).await.unwrap();
    assert_eq!(sessions, 1, "only the session of the active run");
}

/// Proxies between client and server can route by the town if the agent's form mirrors it in a header.
#[tokio::test]
async fn a_form_field_can_be_mirrored_in_a_header() {
    let bench = bench(Script::new()).await;
    let form = json!({"inputs": {"town": {"name": "Town", "type": "line", "x-mcp-header": "Town"},
        "again": {"type": "line", "optional": true, "x-mcp-header": "TOWN"}}});
    let canvas = json!({"components": {
        "begin": component("Begin", &form, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{sys.query} in {begin@town}"]}), &[]),
    }});
    bench.published("Guide", canvas).await;
    let listed = bench.mcp("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    let guide = tools.iter().find(|tool| tool["name"] == "guide").unwrap();
    let properties = &guide["inputSchema"]["properties"];
    let annotations = (&properties["town"]["x-mcp-header"], &properties["again"]["x-mcp-header"]);
    assert_eq!(annotations, (&json!("Town"), &Json::Null), "two fields cannot share a header");
    let ask = async |header: Option<&'static str>| {
        let params = json!({"name": "guide", "arguments": {"query": "Food", "town": "Ulm"}});
        let mut request = bench.mcp_request(&bench.token, &message("tools/call", params, &json!({})));
        if let Some(header) = header {
            request.headers_mut().insert("mcp-param-town", header.parse().unwrap());
        }
        let response = bench.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 64 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    };
    let (status, told) = ask(Some("Ulm")).await;
    assert!(status == StatusCode::OK && told.contains("Food in Ulm"), "{told}");
    for wrong in [None, Some("Bonn")] {
        let (status, told) = ask(wrong).await;
        assert!(status == StatusCode::BAD_REQUEST && told.contains("-32020"), "{told}");
    }
}

#[tokio::test]
async fn a_listener_is_notified_of_a_new_agent() {
    let bench = bench(Script::new()).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let request = bench.mcp_request(&bench.token, &message("subscriptions/listen", params, &json!({})));
    let response = bench.router.clone().oneshot(request).await.unwrap();
    let mut stream = response.into_body().into_data_stream();
    let next = async |stream: &mut axum::body::BodyDataStream| {
        loop {
            let bytes = stream.next().await.unwrap().unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            if text.contains("data: ") {
                return text;
            }
        }
    };
    assert!(next(&mut stream).await.contains("notifications/subscriptions/acknowledged"));
    bench.published("Town Guide", asks_a_town()).await;
    assert!(next(&mut stream).await.contains("notifications/tools/list_changed"));
}

/// In older revisions a connection may break, and only an explicit cancellation counts.
#[tokio::test]
async fn cancelling_a_request_stops_the_run_and_a_lost_connection_does_not() {
    let bench = bench(Script::new().reply(endless(&["It "])).reply(endless(&["is "]))).await;
    bench.published("Chat", chat_canvas()).await;
    let post = async |session: &str, message: Json| {
        let mut request = bench.mcp_request(&bench.token, &message);
        for header in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
            request.headers_mut().remove(header);
        }
        if !session.is_empty() {
            request.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        }
        bench.router.clone().oneshot(request).await.unwrap()
    };
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let begun = post("", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let call = |id: u64| {
        let params = json!({"name": "chat", "arguments": {"query": "q"}, "_meta": {"progressToken": id}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let newest = async || {
        let filter = RunFilter { limit: 1, ..RunFilter::default() };
        bench.app.runs.list(&default_tenant(), &filter).await.unwrap().remove(0).key
    };
    let mut first = post(&session, call(1)).await.into_body().into_data_stream();
    assert!(first.next().await.is_some());
    let (broken, mut second) = (newest().await, post(&session, call(2)).await.into_body().into_data_stream());
    assert!(second.next().await.is_some());
    let wanted = newest().await;
    assert_ne!(broken, wanted);
    drop(first);
    let taken_back =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(post(&session, taken_back).await.status(), StatusCode::ACCEPTED);
    while second.next().await.is_some() {}
    bench.is_cancelled(&wanted).await;
    assert_eq!(bench.app.runs.get(&broken).await.unwrap().ending, None);
}

#[tokio::test]
async fn questions_reach_a_person_through_the_client() {
    let bench = bench(Script::new()).await;
    bench.published("Painter", form_canvas()).await;
    let can = json!({"elicitation": {}});
    let call = json!({"name": "painter", "arguments": {"query": "paint"}});
    let asked = bench.mcp_with("tools/call", call.clone(), &can).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    let (task, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Which colour?");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["colour"]));
    let answering = |content: Json, state: &Json| {
        let mut call = call.clone();
        call["inputResponses"] = json!({task: content});
        call["requestState"] = state.clone();
        call
    };
    let blue = json!({"action": "accept", "content": {"colour": "blue"}});
    let state = &asked["requestState"];
    let forged = bench.mcp_with("tools/call", answering(blue.clone(), &json!("x")), &can).await;
    assert_eq!(forged["result"]["isError"], true);
    let garbled = bench.mcp_with("tools/call", answering(json!({"action": "accept"}), state), &can).await;
    assert!(garbled.to_string().contains("is still waiting"), "{garbled}");
    let answered = bench.mcp_with("tools/call", answering(blue.clone(), state), &can).await;
    assert_eq!(answered["result"]["content"][0]["text"], "blue it is");
    // The question can be answered only once.
    let again = bench.mcp_with("tools/call", answering(blue, state), &can).await;
    assert_eq!(again["result"]["isError"], true);

    // Declining ends the run.
    let asked = bench.mcp_with("tools/call", call.clone(), &can).await["result"].clone();
    let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut declining = call.clone();
    declining["inputResponses"] = json!({name: {"action": "decline"}});
    declining["requestState"] = asked["requestState"].clone();
    let declined = bench.mcp_with("tools/call", declining, &can).await;
    assert!(declined.to_string().contains("was abandoned"), "{declined}");
    assert_eq!(bench.get("/api/v1/tasks").await.data()["tasks"], json!([]));

    // A client that cannot be asked gets the question as data, and answers with the session.
    let waiting = bench.tool("painter", json!({"query": "paint"})).await;
    let data = &waiting["structuredContent"];
    assert_eq!(data["status"], "waiting");
    assert!(data["tasks"][0]["fields"]["colour"].is_object(), "{data}");
    let arguments = json!({"query": "", "session_id": data["session_id"], "colour": "red"});
    assert_eq!(bench.tool("painter", arguments).await["content"][0]["text"], "red it is");
}

/// A repeated call with an earlier state applies to the current question.
#[tokio::test]
async fn declining_with_an_earlier_state_declines_the_current_question() {
    let bench = bench(Script::new()).await;
    let form = |name: &str| {
        let inputs = json!({name: {"name": name, "type": "line", "optional": false}});
        component("UserFillUp", &json!({"tips": "Which?", "inputs": inputs}), &["Message:M"])
    };
    let canvas = json!({"components": {
        "begin": component("Begin", &json!({}), &["UserFillUp:F", "UserFillUp:G"]),
        "UserFillUp:F": form("colour"),
        "UserFillUp:G": form("size"),
        "Message:M": component("Message", &json!({"content": ["done"]}), &[]),
    }});
    bench.published("Painter", canvas).await;
    let can = json!({"elicitation": {}});
    let call = json!({"name": "painter", "arguments": {"query": "paint"}});
    let asked = bench.mcp_with("tools/call", call.clone(), &can).await["result"].clone();
    let questions = asked["inputRequests"].as_object().unwrap();
    assert_eq!(questions.len(), 2, "{asked}");
    let with = |task: &str, answer: Json| {
        let mut call = call.clone();
        call["inputResponses"] = json!({task: answer});
        call["requestState"] = asked["requestState"].clone();
        call
    };
    let mut names = questions.keys();
    let (first, second) = (names.next().unwrap(), names.next().unwrap());
    let fields = &questions[first]["params"]["requestedSchema"]["properties"];
    let field = fields.as_object().unwrap().keys().next().unwrap();
    let content = json!({"action": "accept", "content": {field: "blue"}});
    let answered = bench.mcp_with("tools/call", with(first, content), &can).await;
    assert_eq!(answered["result"]["resultType"], "input_required", "{answered}");
    let declined = bench.mcp_with("tools/call", with(second, json!({"action": "decline"})), &can).await;
    assert!(declined.to_string().contains("was abandoned"), "{declined}");
    assert_eq!(bench.get("/api/v1/tasks").await.data()["tasks"], json!([]));
}

#[tokio::test]
async fn a_long_run_is_a_task_with_a_result_and_can_be_stopped() {
    let slow = Reply::pieces(["It "]).then(Step::Wait(4_000)).then(Step::Text("is done.".into()));
    let bench = bench(Script::new().reply(slow).reply(endless(&["no "])).reply(Reply::text("soon"))).await;
    bench.published("Chat", chat_canvas()).await;
    let tasks = json!({"extensions": {TASKS: {}}});
    let ask = async || {
        let call = json!({"name": "chat", "arguments": {"query": "q"}});
        bench.mcp_with("tools/call", call, &tasks).await["result"].clone()
    };
    let created = ask().await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    let ended = bench.task_after(&created["taskId"], "working").await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["result"]["content"][0]["text"], "It is done.");
    let endless = ask().await;
    bench.mcp_with("tasks/cancel", json!({"taskId": endless["taskId"]}), &tasks).await;
    assert_eq!(bench.task_after(&endless["taskId"], "working").await["status"], "cancelled");
    // A quick answer is returned as a result.
    assert_eq!(ask().await["content"][0]["text"], "soon");
    // A client without the task capability may not request tasks.
    let refused = bench.mcp_with("tasks/get", json!({"taskId": endless["taskId"]}), &json!({})).await;
    assert_eq!(refused["error"]["code"], -32_021);
}

#[tokio::test]
async fn a_task_follows_its_run_after_a_person_answered() {
    let slow = Reply::text("x").delay_ms(4_000);
    let canvas = json!({"components": {
        "begin": component("Begin", &json!({}), &["LLM:L"]),
        "LLM:L": component("LLM", &json!({"llm_id": "m", "cite": false}), &["UserFillUp:F"]),
        "UserFillUp:F": component("UserFillUp", &json!({"tips": "Which?", "inputs": {
            "colour": {"name": "Colour", "type": "line"}}}), &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{UserFillUp:F@colour} it is"]}), &[]),
    }});
    let bench = bench(Script::new().reply(slow)).await;
    bench.published("Painter", canvas).await;
    let can = json!({"elicitation": {}, "extensions": {TASKS: {}}});
    let call = json!({"name": "painter", "arguments": {"query": "q"}});
    let created = bench.mcp_with("tools/call", call, &can).await["result"].clone();
    let id = &created["taskId"];
    let waiting = bench.task_after(id, "working").await;
    assert_eq!(waiting["status"], "input_required");
    let question = waiting["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let unknown = json!({"taskId": id, "inputResponses": {"other": {"action": "accept", "content": {}}}});
    assert_eq!(bench.mcp_with("tasks/update", unknown, &can).await["result"]["resultType"], "complete");
    assert_eq!(bench.task_after(id, "working").await["status"], "input_required");
    let answer = json!({question: {"action": "accept", "content": {"colour": "blue"}}});
    bench.mcp_with("tasks/update", json!({"taskId": id, "inputResponses": answer}), &can).await;
    let ended = bench.task_after(id, "working").await;
    assert_eq!((&ended["status"], &ended["taskId"]), (&json!("completed"), id));
    assert_eq!(ended["result"]["content"][0]["text"], "blue it is");
}

#[tokio::test]
async fn a_waiting_task_is_cancelled_and_its_session_continues() {
    let bench = bench(Script::new()).await;
    bench.published("Painter", form_canvas()).await;
    let waiting = bench.tool("painter", json!({"query": "paint"})).await["structuredContent"].clone();
    let (id, can) = (json!({"taskId": waiting["run_id"]}), json!({"extensions": {TASKS: {}}}));
    let shown = bench.mcp_with("tasks/get", id.clone(), &can).await;
    assert_eq!(shown["result"]["status"], "input_required");
    let (one, two) = tokio::join!(
        bench.mcp_with("tasks/cancel", id.clone(), &can),
        bench.mcp_with("tasks/cancel", id.clone(), &can)
    );
    assert!(one["error"].is_null() || two["error"].is_null(), "{one} {two}");
    assert_eq!(bench.mcp_with("tasks/get", id.clone(), &can).await["result"]["status"], "cancelled");
    assert_eq!(bench.mcp_with("tasks/cancel", id, &can).await["result"]["resultType"], "complete");
    let again = json!({"query": "paint", "session_id": waiting["session_id"]});
    assert_eq!(bench.tool("painter", again).await["structuredContent"]["status"], "waiting");
}

#[test]
fn a_task_survives_the_process_that_started_it() {
    let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = json!({"extensions": {TASKS: {}}});
    let (bench, id) = process.block_on(async {
        let bench = bench(Script::new().reply(endless(&["It ", "is "]))).await;
        bench.published("Chat", chat_canvas()).await;
        let call = json!({"name": "chat", "arguments": {"query": "q"}});
        let created = bench.mcp_with("tools/call", call, &tasks).await["result"].clone();
        assert_eq!(created["resultType"], "task");
        (bench, created["taskId"].clone())
    });
    // Killed, with everything it has started.
    drop(process);
    let after = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    after.block_on(async {
        let model = weft_testkit::ScriptedModel::new(Script::new().reply(Reply::text("It is finished.")));
        let settings = (Auth::On, bench.app.limits.clone());
        let next = crate::support::process(bench.store.clone(), model, settings);
        let next = Bench { token: bench.token.clone(), ..next };
        let shown = next.mcp_with("tasks/get", json!({"taskId": id}), &tasks).await;
        assert_eq!(shown["result"]["status"], "working");
        let run = next.app.all_cut_off().await.unwrap().remove(0);
        let PickedUp::Running(mut handle) = next.app.pick_up(&run).await.unwrap() else {
            panic!("the run was not resumed")
        };
        while handle.entries.next().await.unwrap().is_some() {}
        let ended = next.task_after(&id, "working").await;
        assert_eq!(ended["result"]["content"][0]["text"], "It is finished.");
    });
}

#[tokio::test]
async fn a_canvas_is_created_checked_run_and_inspected_but_never_published() {
    let bench = bench(Script::new()).await;
    let components = bench.tool("list_components", json!({})).await;
    let listed = components["structuredContent"]["components"].as_array().unwrap().clone();
    assert!(listed.iter().any(|one| one["name"] == "Message") && listed.len() > 30);
    let schema = bench.tool("component_schema", json!({"name": "Message"})).await;
    assert!(schema["structuredContent"]["parameters"]["properties"]["content"].is_object());
    assert_eq!(bench.tool("component_schema", json!({"name": "Nothing"})).await["isError"], true);
    let mut broken = echo_canvas();
    broken["components"]["Message:Echo"]["downstream"] = json!(["Nowhere:N"]);
    let checked = bench.tool("check_canvas", json!({"canvas": broken})).await["structuredContent"].clone();
    assert_eq!(checked["runnable"], false, "{checked}");
    assert!(checked["problems"][0]["pointer"].as_str().unwrap().starts_with("/components/"), "{checked}");
    assert_eq!(
        bench.tool("check_canvas", json!({"canvas": echo_canvas()})).await["structuredContent"],
        json!({"runnable": true, "problems": []})
    );
    let untitled = json!({"name": "put_canvas", "arguments": {"canvas": echo_canvas()}});
    assert_eq!(bench.mcp_with("tools/call", untitled, &json!({})).await["error"]["code"], -32_602);
    let stored = bench.tool("put_canvas", json!({"title": "Echo", "canvas": echo_canvas()})).await;
    let id = stored["structuredContent"]["id"].clone();
    assert!(!bench.tool_names(&bench.token).await.contains(&"echo".to_owned()));
    let taken = bench.tool("put_canvas", json!({"title": "echo", "canvas": echo_canvas()})).await;
    assert_eq!(taken["isError"], true);
    let ran =
        bench.tool("run_canvas", json!({"id": id, "query": "hello"})).await["structuredContent"].clone();
    assert_eq!(ran["answer"], "you said: hello");
    let looked = bench.tool("get_run", json!({"run_id": ran["run_id"]})).await["structuredContent"].clone();
    assert_eq!(looked["status"], "succeeded");
    let steps: Vec<&str> =
        looked["steps"].as_array().unwrap().iter().map(|step| step["component"].as_str().unwrap()).collect();
    assert_eq!(steps, ["Begin", "Message"]);

    // A published version stays unchanged when its draft changes.
    let agent = bench.published("Keeper", echo_canvas()).await;
    let mut changed = echo_canvas();
    changed["components"]["Message:Echo"]["obj"]["params"]["content"] = json!(["changed"]);
    bench.tool("put_canvas", json!({"id": agent, "canvas": changed})).await;
    assert_eq!(bench.tool("keeper", json!({"query": "a"})).await["content"][0]["text"], "you said: a");
    assert_eq!(
        bench.tool("run_canvas", json!({"id": agent, "query": "a"})).await["content"][0]["text"],
        "changed"
    );
}

/// The canvas is compiled from the parsed message, which has lost the digits.
#[tokio::test]
async fn digits_lost_by_parsing_a_message_are_reported() {
    let bench = bench(Script::new()).await;
    let mut canvas = echo_canvas();
    canvas["components"]["begin"]["obj"]["params"]["order"] = json!("ORDER");
    let written = |text: String| text.replace("\"ORDER\"", "12345678901234567890123");
    let told = async |tool: &str, arguments: Json| {
        let call = json!({"name": tool, "arguments": arguments});
        let mut request = bench.mcp_request(&bench.token, &message("tools/call", call, &json!({})));
        let body = std::mem::take(request.body_mut());
        let body = axum::body::to_bytes(body, 64 << 20).await.unwrap();
        *request.body_mut() = written(String::from_utf8(body.to_vec()).unwrap()).into();
        let response = bench.router.clone().oneshot(request).await.unwrap();
        let answer = axum::body::to_bytes(response.into_body(), 64 << 20).await.unwrap();
        let answer: Json = serde_json::from_slice(&answer).unwrap();
        let problems = answer["result"]["structuredContent"]["problems"].as_array().cloned();
        let problems = problems.unwrap_or_else(|| panic!("{answer}"));
        let lost = problems.iter().filter(|problem| problem["code"] == "lost-digits");
        lost.map(|problem| problem["pointer"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let place = ["/components/begin/obj/params/order"];
    assert_eq!(told("check_canvas", json!({"canvas": canvas})).await, place);
    assert_eq!(told("put_canvas", json!({"title": "Lost", "canvas": canvas})).await, place);
    // Also for a canvas given as a string, and only once.
    let text = written(canvas.to_string());
    assert_eq!(told("check_canvas", json!({"canvas": text})).await, place);
    assert!(told("check_canvas", json!({"canvas": echo_canvas()})).await.is_empty());
}

#[tokio::test]
async fn datasets_are_listed_and_searched() {
    let bench = bench(Script::new()).await;
    let nothing = bench.tool("ragflow_retrieval", json!({"question": "q"})).await;
    assert_eq!(nothing["isError"], true);
    let dataset = bench.post("/api/v1/datasets", json!({"name": "towns"})).await.data();
    let listed = bench.tool("ragflow_list_datasets", json!({})).await;
    let line: Json = serde_json::from_str(listed["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&line["id"], &line["name"]), (&dataset["id"], &json!("towns")));
    let found = bench.tool("ragflow_retrieval", json!({"question": "q"})).await;
    let data: Json = serde_json::from_str(found["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(data["chunks"], json!([]));
    assert_eq!(
        (&data["pagination"]["page_size"], &data["query_info"]["dataset_count"]),
        (&json!(10), &json!(1))
    );
    // Clients write null for what they leave to the server.
    let absent =
        json!({"question": "q", "page": null, "page_size": null, "dataset_ids": null, "top_k": null});
    let again = bench.tool("ragflow_retrieval", absent).await;
    assert_eq!(again["content"], found["content"]);
    let tools = bench.mcp("tools/list", json!({})).await;
    let tool = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "ragflow_retrieval");
    let weight = &tool.unwrap()["inputSchema"]["properties"]["vector_similarity_weight"];
    assert_eq!(weight["default"], data["query_info"]["vector_weight"]);
    let (_, none) = bench
        .mcp_as(
            &bench.stranger().await,
            message("tools/call", json!({"name": "ragflow_list_datasets", "arguments": {}}), &json!({})),
        )
        .await;
    assert_eq!(none["result"]["content"][0]["text"], "");
    let wrong = json!({"name": "ragflow_retrieval", "arguments": {"question": "q", "page_size": 101}});
    assert_eq!(bench.mcp_with("tools/call", wrong, &json!({})).await["error"]["code"], -32_602);
}

#[tokio::test]
async fn the_skill_is_a_resource() {
    let bench = bench(Script::new()).await;
    let listed = bench.mcp("resources/list", json!({})).await;
    let uri = listed["resources"][0]["uri"].clone();
    let read = bench.mcp("resources/read", json!({"uri": uri})).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("`check_canvas`"));
    let missing = bench.mcp_with("resources/read", json!({"uri": "skill://x/SKILL.md"}), &json!({})).await;
    assert_eq!(missing["error"]["data"]["uri"], "skill://x/SKILL.md");
}

#[tokio::test]
async fn a_role_is_offered_only_the_tools_it_may_call() {
    let bench = bench(Script::new()).await;
    bench.published("An Agent", echo_canvas()).await;
    let canvas = json!({"title": "Mine", "canvas": echo_canvas()});
    for (role, runs, edits) in [
        (MemberRole::Viewer, false, false),
        (MemberRole::User, true, false),
        (MemberRole::Editor, true, true),
    ] {
        let (member, _) = bench.as_member("default", role).await;
        let names = bench.tool_names(&member.token).await;
        let has = |name: &str| names.iter().any(|one| one == name);
        assert!(has("ragflow_retrieval") && has("get_run"), "{role}: {names:?}");
        assert_eq!((has("an_agent"), has("run_canvas"), has("put_canvas")), (runs, runs, edits), "{role}");
        for (tool, arguments, may) in
            [("an_agent", json!({"query": "q"}), runs), ("put_canvas", canvas.clone(), edits)]
        {
            let call = message("tools/call", json!({"name": tool, "arguments": arguments}), &json!({}));
            let (_, answer) = bench.mcp_as(&member.token, call).await;
            let refused = answer["error"]["message"].to_string().contains("this needs the role");
            assert_eq!(refused, !may, "{role} {tool}: {answer}");
        }
    }
    // One route serves all tools, so each refusal is logged under its own tool name.
    let log = bench.get("/api/v1/audit").await.text;
    assert!(log.contains("mcp put_canvas") && log.contains("mcp an_agent"), "{log}");
    // Whoever is refused chooses the name, which may be as long as a request.
    let (viewer, _) = bench.as_member("default", MemberRole::Viewer).await;
    let call = message("tools/call", json!({"name": "x".repeat(100_000), "arguments": {}}), &json!({}));
    bench.mcp_as(&viewer.token, call).await;
    let log = bench.get("/api/v1/audit").await.text;
    assert!(log.contains("mcp xxx") && !log.contains(&"x".repeat(2_000)), "{}", log.len());
}
