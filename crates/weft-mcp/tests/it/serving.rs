//! The server, over HTTP and over lines, with clients of every revision.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, StatusCode};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::task::JoinSet;
use weft_core::seam::ToolSource as _;
use weft_mcp::serving::{Host, Posted, Reply, ReplyBody, converse};

use crate::fixture::{Fixture, listen};
use crate::kit::{call, servers, tenant, tool_of};

const EVENTS: (&str, &str) = ("accept", "application/json, text/event-stream");

/// An endpoint that takes messages without a network.
#[derive(Default)]
struct Place {
    host: Host,
    fixture: Arc<Fixture>,
}

impl Place {
    async fn post(&self, owner: &str, headers: &[(&str, &str)], message: Json) -> Reply {
        let text = message.to_string().into();
        let Json::Object(message) = message else { panic!("{message}") };
        let pair =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        let headers: HeaderMap = headers.iter().map(pair).collect();
        self.host.post(self.fixture.clone(), Posted { owner, headers: &headers, message, text }).await
    }

    /// Opens a session.
    async fn begin(&self, owner: &str, capabilities: Json) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"}});
        let reply = self.post(owner, &[EVENTS], request(0, "initialize", params)).await;
        let id = reply.session.clone().unwrap();
        assert_eq!(json_of(reply)["result"]["protocolVersion"], "2025-11-25");
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let taken = self.post(owner, &[("mcp-session-id", &id)], told).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED);
        id
    }
}

fn request(id: u64, method: &str, params: Json) -> Json {
    let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
    request["params"] = params;
    request
}

fn calling(id: u64, tool: &str, meta: Json) -> Json {
    let mut params = json!({"name": tool, "arguments": {}});
    params["_meta"] = meta;
    request(id, "tools/call", params)
}

fn newest(capabilities: Json) -> Json {
    let mut meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    meta
}

#[track_caller]
fn json_of(reply: Reply) -> Json {
    match reply.body {
        ReplyBody::Json(json) => json,
        ReplyBody::Empty => panic!("{} without a body", reply.status),
        ReplyBody::Events(_) => panic!("events"),
    }
}

/// The messages of a stream.
struct Told(BoxStream<'static, axum::body::Bytes>);

impl Told {
    #[track_caller]
    fn of(reply: Reply) -> Self {
        match reply.body {
            ReplyBody::Events(events) => Self(events),
            ReplyBody::Json(json) => panic!("{json}"),
            ReplyBody::Empty => panic!("{} without a body", reply.status),
        }
    }

    async fn next(&mut self) -> Option<Json> {
        loop {
            let bytes =
                tokio::time::timeout(Duration::from_secs(30), self.0.next()).await.expect("a message")?;
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            if let Some(data) = text.strip_prefix("event: message\ndata: ") {
                return Some(serde_json::from_str(data.trim_end()).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn a_plain_answer_is_json_and_one_with_notifications_is_a_stream() {
    let place = Place::default();
    let id = place.begin("a", json!({})).await;
    let session = ("mcp-session-id", id.as_str());
    let simple = place.post("a", &[EVENTS, session], calling(1, "test_simple_text", json!({}))).await;
    assert!(json_of(simple)["result"]["content"][0]["text"].as_str().unwrap().starts_with("This is"));
    let meta = json!({"progressToken": "p"});
    let reply =
        place.post("a", &[EVENTS, session], calling(2, "test_tool_with_progress", meta.clone())).await;
    let mut told = Told::of(reply);
    for progress in [0.0, 50.0, 100.0] {
        let params = &told.next().await.unwrap()["params"];
        assert_eq!((&params["progressToken"], &params["progress"]), (&json!("p"), &json!(progress)));
    }
    assert_eq!(told.next().await.unwrap()["id"], 2);
    assert_eq!(told.next().await, None);
    // A client that does not accept event streams gets only the answer.
    let whole = place.post("a", &[session], calling(3, "test_tool_with_progress", meta)).await;
    assert_eq!(json_of(whole)["id"], 3);
}

/// What the scenario `http-custom-header-server-validation` of the conformance suite checks.
#[tokio::test]
async fn arguments_must_match_their_mirrored_headers() {
    let place = Place::default();
    let call = async |header: Option<&str>, arguments: Json| {
        let mut headers = vec![
            EVENTS,
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "test_header_params"),
        ];
        headers.extend(header.map(|value| ("mcp-param-region", value)));
        let params =
            json!({"name": "test_header_params", "arguments": arguments, "_meta": newest(json!({}))});
        let reply = place.post("a", &headers, request(1, "tools/call", params)).await;
        let status = reply.status;
        (status, json_of(reply))
    };
    for (header, region) in [("eu", "eu"), ("=?base64?SGVsbG8=?=", "Hello"), ("SGVsbG8=", "SGVsbG8=")] {
        let (status, answer) = call(Some(header), json!({"region": region})).await;
        assert_eq!((status, &answer["error"]), (StatusCode::OK, &Json::Null), "{header}");
        assert_eq!(answer["result"]["content"][0]["text"], format!("region={region}"));
    }
    for (header, region) in [
        (None, "eu"),
        (Some("us"), "eu"),
        (Some("=?base64?SGVsbG8?="), "Hello"),
        (Some("=?base64?SGVs!!!bG8=?="), "Hello"),
    ] {
        let (status, answer) = call(header, json!({"region": region})).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!(-32_020)),
            "{header:?}"
        );
    }
    // Without an argument no header is needed; the missing argument gives another error.
    let (_, answer) = call(None, json!({})).await;
    assert_eq!(answer["error"]["code"], -32_602);
    let (status, answer) = call(Some("eu"), json!({"region": "eu", "limit": null})).await;
    assert_eq!((status, &answer["error"]), (StatusCode::OK, &Json::Null));
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_notified_when_the_tools_change() {
    let place = Place::default();
    let headers = [EVENTS, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let listening = |wanted: Json| {
        request(7, "subscriptions/listen", json!({"notifications": wanted, "_meta": newest(json!({}))}))
    };
    let wanted =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["x:y"]});
    let mut told = Told::of(place.post("a", &headers, listening(wanted)).await);
    let first = told.next().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    assert_eq!(first["params"], json!({"_meta": meta, "notifications": {"toolsListChanged": true}}));
    for has_more in [true, false] {
        place.fixture.has_more.store(has_more, std::sync::atomic::Ordering::SeqCst);
        let changed = told.next().await.unwrap();
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"], meta);
    }
    // A server that stops tells its listeners.
    place.fixture.ended.cancel();
    let last = told.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert_eq!(told.next().await, None);
    // The server confirms only the notifications that it sends.
    let mut none = Told::of(place.post("a", &headers, listening(json!({"promptsListChanged": true}))).await);
    assert_eq!(none.next().await.unwrap()["params"]["notifications"], json!({}));
    assert_eq!(none.next().await.unwrap()["id"], 7);
    for wanted in [json!(1), json!({"toolsListChanged": "yes"})] {
        let refused = json_of(place.post("a", &headers, listening(wanted)).await);
        assert_eq!(refused["error"]["code"], -32_602);
    }
    let without = json_of(place.post("a", &headers[1..], listening(json!({"toolsListChanged": true}))).await);
    assert_eq!(without["error"]["code"], -32_600);
}

#[tokio::test]
async fn a_client_of_an_older_revision_gets_questions_on_the_stream() {
    let place = Place::default();
    let id = place.begin("a", json!({"elicitation": {}})).await;
    let session = ("mcp-session-id", id.as_str());
    let mut told =
        Told::of(place.post("a", &[EVENTS, session], calling(1, "test_wait_for_answer", json!({}))).await);
    let asked = told.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let answer =
        json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"go": true}}});
    // Another caller cannot answer for it.
    let other = place.begin("b", json!({})).await;
    let forged = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    place.post("b", &[("mcp-session-id", &other)], forged).await;
    assert_eq!(place.post("a", &[session], answer).await.status, StatusCode::ACCEPTED);
    let answered = told.next().await.unwrap();
    assert!(answered["result"]["content"][0]["text"].as_str().unwrap().contains("accept"), "{answered}");
    // A client that cannot be asked gets an error.
    let id = place.begin("a", json!({})).await;
    let headers = [EVENTS, ("mcp-session-id", id.as_str())];
    let reply = place.post("a", &headers, calling(1, "test_wait_for_answer", json!({}))).await;
    assert_eq!(json_of(reply)["error"]["data"]["requiredCapabilities"], json!({"elicitation": {}}));
}

#[tokio::test]
async fn a_cancelled_request_gets_no_answer() {
    let place = Place::default();
    let id = place.begin("a", json!({})).await;
    let session = ("mcp-session-id", id.as_str());
    let waiting = calling(7, "test_wait", json!({"progressToken": 1}));
    let mut told = Told::of(place.post("a", &[EVENTS, session], waiting).await);
    assert!(told.next().await.is_some());
    let taken_back =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    place.post("a", &[session], taken_back).await;
    assert_eq!(told.next().await, None);
}

#[tokio::test]
async fn a_session_belongs_to_one_caller_and_can_be_closed() {
    let place = Place::default();
    let (mine, other) = (place.begin("a", json!({})).await, place.begin("b", json!({})).await);
    let list = |id: u64| request(id, "tools/list", json!({}));
    let status = async |owner: &str, session: &str| {
        place.post(owner, &[("mcp-session-id", session)], list(1)).await.status
    };
    assert_eq!((status("a", &mine).await, status("b", &other).await), (StatusCode::OK, StatusCode::OK));
    assert_eq!(
        (status("b", &mine).await, status("a", "made-up").await),
        (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND)
    );
    let headers = HeaderMap::from_iter([(HeaderName::from_static("mcp-session-id"), mine.parse().unwrap())]);
    assert_eq!(place.host.delete("b", &headers).status, StatusCode::NOT_FOUND);
    assert_eq!(place.host.delete("a", &headers).status, StatusCode::NO_CONTENT);
    assert_eq!(status("a", &mine).await, StatusCode::NOT_FOUND);
    // A request that needs no session works without one.
    assert!(json_of(place.post("a", &[], list(2)).await)["result"]["tools"].as_array().unwrap().len() > 20);
    let unknown = place.post("a", &[("mcp-protocol-version", "1999-01-01")], list(3)).await;
    assert_eq!((unknown.status, json_of(unknown)["id"].clone()), (StatusCode::BAD_REQUEST, json!(3)));
}

#[tokio::test]
async fn tasks_of_2025_11_25_are_requested_and_awaited() {
    let place = Place::default();
    let id = place.begin("a", json!({"elicitation": {}})).await;
    let headers = [EVENTS, ("mcp-session-id", id.as_str())];
    let asked = json!({"name": "confirm_delete", "arguments": {"filename": "a"}, "task": {"ttl": 60_000}});
    let created = json_of(place.post("a", &headers, request(1, "tools/call", asked)).await);
    let task = created["result"]["task"]["taskId"].clone();
    let of_task = json!({"taskId": task});
    let shown = json_of(place.post("a", &headers, request(2, "tasks/get", of_task.clone())).await);
    assert_eq!(shown["result"]["status"], "input_required");
    assert_eq!(shown["result"]["ttl"], 600_000);
    let listed = json_of(place.post("a", &headers, request(3, "tasks/list", json!({}))).await);
    assert_eq!(listed["result"]["tasks"][0]["taskId"], task);
    let mut told = Told::of(place.post("a", &headers, request(4, "tasks/result", of_task.clone())).await);
    let question = told.next().await.unwrap();
    let answer =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}});
    place.post("a", &headers, answer).await;
    let result = told.next().await.unwrap();
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/related-task"], of_task);
    let refused = json_of(place.post("a", &headers, request(5, "tasks/cancel", of_task)).await);
    assert_eq!(refused["error"]["code"], -32_602);
}

#[tokio::test]
async fn a_task_that_keeps_asking_is_not_awaited() {
    let place = Place::default();
    let id = place.begin("a", json!({"elicitation": {}})).await;
    let headers = [EVENTS, ("mcp-session-id", id.as_str())];
    let asked = json!({"name": "insists", "arguments": {}, "task": {}});
    let created = json_of(place.post("a", &headers, request(1, "tools/call", asked)).await);
    let of_task = json!({"taskId": created["result"]["task"]["taskId"]});
    let mut told = Told::of(place.post("a", &headers, request(2, "tasks/result", of_task)).await);
    for _ in 0..100 {
        let said = told.next().await.unwrap();
        if said["id"] == 2 {
            assert!(said["error"]["message"].as_str().unwrap().contains("has asked 32 times"), "{said}");
            return;
        }
        let answer =
            json!({"jsonrpc": "2.0", "id": said["id"], "result": {"action": "accept", "content": {}}});
        place.post("a", &headers, answer).await;
    }
    panic!("the task keeps asking");
}

#[tokio::test]
async fn a_client_without_event_streams_gets_an_error_instead_of_a_question() {
    let place = Place::default();
    let id = place.begin("a", json!({"elicitation": {}})).await;
    let headers = [("mcp-session-id", id.as_str())];
    let asking = place.post("a", &headers, calling(1, "test_wait_for_answer", json!({})));
    let reply = tokio::time::timeout(Duration::from_secs(30), asking).await.expect("an answer");
    let answer = json_of(reply);
    assert!(answer["error"]["message"].as_str().unwrap().contains("accept text/event-stream"), "{answer}");
}

/// A client over lines.
struct Client {
    lines: Lines<BufReader<DuplexStream>>,
    input: Option<DuplexStream>,
    serving: JoinSet<weft_core::Result<()>>,
}

impl Client {
    fn start() -> Self {
        let ((input, source), (sink, output)) = (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
        let serving = JoinSet::from_iter([converse(Arc::new(Fixture::default()), source, sink)]);
        Self { lines: BufReader::new(output).lines(), input: Some(input), serving }
    }

    async fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn send(&mut self, message: Json) {
        self.say(&message.to_string()).await;
    }

    async fn next(&mut self) -> Json {
        let line = tokio::time::timeout(Duration::from_secs(30), self.lines.next_line()).await;
        serde_json::from_str(&line.expect("a line in time").unwrap().expect("a line")).unwrap()
    }

    /// Closes its input and reads the rest.
    async fn end(mut self) -> Vec<Json> {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        self.serving.join_next().await.unwrap().unwrap().unwrap();
        rest
    }
}

#[tokio::test]
async fn lines_are_answered_concurrently_in_every_revision() {
    let mut client = Client::start();
    client.say("no json").await;
    assert_eq!(client.next().await["error"]["code"], -32_700);
    client.say("").await;
    client
        .send(request(
            1,
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}}),
        ))
        .await;
    assert_eq!(client.next().await["result"]["protocolVersion"], "2025-06-18");
    // A slow request does not delay others, and can be cancelled.
    client.send(calling(2, "test_wait", json!({"progressToken": 1}))).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    client.send(request(3, "ping", json!({}))).await;
    assert_eq!(client.next().await, json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))
        .await;
    // A question and its answer.
    client.send(calling(4, "test_wait_for_answer", json!({}))).await;
    let asked = client.next().await;
    client
        .send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}))
        .await;
    assert_eq!(client.next().await["id"], 4);
    // A stateless request, on the same lines.
    client.send(request(5, "server/discover", json!({"_meta": newest(json!({}))}))).await;
    assert_eq!(client.next().await["result"]["supportedVersions"][0], "2026-07-28");
    client.send(request(6, "ping", json!({"_meta": newest(json!({}))}))).await;
    assert_eq!(client.next().await["error"]["code"], -32_601);
    // Work that is in progress at the end of input is answered.
    client.send(calling(7, "test_tool_with_progress", json!({}))).await;
    let rest = client.end().await;
    assert_eq!(rest.iter().map(|one| &one["id"]).collect::<Vec<_>>(), [&json!(7)]);
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_question_blocks_nothing() {
    let mut client = Client::start();
    client.send(request(1, "initialize", json!({"capabilities": {"elicitation": {}}}))).await;
    client.next().await;
    client.send(calling(2, "test_wait_for_answer", json!({}))).await;
    client.next().await;
    let rest = tokio::time::timeout(Duration::from_secs(30), client.end()).await.unwrap();
    assert!(rest[0]["error"]["message"].as_str().unwrap().contains("disconnected"), "{rest:?}");
}

#[tokio::test]
async fn a_client_that_disconnects_while_listening_blocks_nothing() {
    let mut client = Client::start();
    let wanted = json!({"notifications": {"toolsListChanged": true}, "_meta": newest(json!({}))});
    client.send(request(1, "subscriptions/listen", wanted)).await;
    assert_eq!(client.next().await["method"], "notifications/subscriptions/acknowledged");
    let rest = tokio::time::timeout(Duration::from_secs(30), client.end()).await.expect("an end");
    assert_eq!(rest[0]["id"], 1);
}

#[tokio::test]
async fn a_client_that_initializes_again_during_a_question_blocks_nothing() {
    let mut client = Client::start();
    let begin = |id: u64| request(id, "initialize", json!({"capabilities": {"elicitation": {}}}));
    client.send(begin(1)).await;
    client.next().await;
    client.send(calling(2, "test_wait_for_answer", json!({}))).await;
    client.next().await;
    client.send(begin(3)).await;
    let said = [client.next().await, client.next().await];
    let answer = said.iter().find(|one| one["id"] == 2).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("disconnected"), "{said:?}");
    tokio::time::timeout(Duration::from_secs(30), client.end()).await.unwrap();
}

#[tokio::test]
async fn our_client_works_with_our_server() {
    let server = listen().await;
    let servers = servers(&format!("[servers.own]\nurl = '{}'", server.url));
    let offered = servers.tools(&tenant(), "own").await.map_err(|error| error.full()).unwrap();
    assert!(offered.tools.len() > 20 && offered.refused.is_empty(), "{:?}", offered.refused);
    let greet = tool_of(&servers, "own", "greet").await;
    let told = call(&greet, json!({"name": "Ada"})).await.map_err(|error| error.full()).unwrap();
    assert_eq!(told.to_text(), "Hello, Ada!");
    let failing = tool_of(&servers, "own", "test_error_handling").await;
    assert!(call(&failing, json!({})).await.map_err(|error| error.full()).unwrap().failed);
    servers.close().await;
}
