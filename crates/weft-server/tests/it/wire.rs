//! A real server on a loopback port, with a model server behind it.

use std::path::Path;

use futures::StreamExt as _;
use reqwest::{Client, Response};
use serde_json::{Value as Json, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use weft_app::{App, Auth, Config, DEFAULT_TENANT, ModelsConfig, OneServer, assemble};
use weft_core::seam::ModelDirectory as _;
use weft_core::seam::chat_model::{Author, ChatDelta, ChatMessage, ChatRequest};
use weft_core::{CanvasId, Result};
use weft_models::Directory;
use weft_server::{ServeOptions, bind, serve};
use weft_testkit::{Reply, Script, ScriptedServer, Step};

use crate::support::{FOREVER_MS, Frame, chat_canvas, component, events, frames, said};

pub(crate) struct Server {
    base: String,
    token: Option<String>,
    pub app: App,
    client: Client,
    stop: oneshot::Sender<()>,
    served: JoinSet<Result<()>>,
}

pub(crate) fn config(folder: &Path, models: &ScriptedServer) -> Config {
    let one_server = OneServer {
        base_url: models.base_url.clone(),
        api_key: weft_app::Secret::new("x"),
        ..OneServer::default()
    };
    let mut config = Config { data: folder.to_owned(), ..Config::default() };
    config.models = ModelsConfig { one_server: Some(one_server), ..ModelsConfig::default() };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config
}

pub(crate) async fn start(config: &Config) -> Server {
    let app = assemble(config).await.unwrap();
    let token = app.first_token().await.unwrap().map(|token| token.reveal().to_owned());
    let listener = bind(config.listen).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let mut served = JoinSet::new();
    let (serving, options) = (app.clone(), ServeOptions::from(config));
    served.spawn(async move {
        let stopped = async {
            let _told_or_dropped = stopped.await;
        };
        Box::pin(serve(serving, listener, options, stopped)).await
    });
    Server { base, token, app, client: weft_net::operator_client().unwrap(), stop, served }
}

impl Server {
    pub(crate) async fn stop(mut self) {
        self.stop.send(()).unwrap();
        self.served.join_next().await.unwrap().unwrap().unwrap();
    }

    async fn put_chat(&self) {
        let head = weft_core::seam::canvas_store::CanvasHead { title: "chat".into(), ..Default::default() };
        let id = Some(CanvasId::new("chat"));
        let dsl = chat_canvas().to_string();
        self.app.put_canvas(&DEFAULT_TENANT.into(), id, head, &dsl).await.unwrap();
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn stream(&self, path: &str, body: Json) -> Live {
        Live::new(self.request("POST", path).json(&body).send().await.unwrap())
    }

    async fn events(&self, run: &str, after: u64) -> Live {
        let request = self.request("GET", &format!("/api/v1/runs/{run}/events"));
        Live::new(request.header("last-event-id", after.to_string()).send().await.unwrap())
    }

    async fn cancel(&self, run: &str) {
        let sent = self.request("POST", &format!("/api/v1/tasks/{run}/cancel")).send().await.unwrap();
        assert_eq!(sent.json::<Json>().await.unwrap()["data"], true);
    }
}

/// A stream that is being read; it holds only whole frames.
pub(crate) struct Live {
    response: Response,
    text: String,
}

impl Live {
    fn new(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        Self { response, text: String::new() }
    }

    fn frames(&self) -> Vec<Frame> {
        let end = self.text.rfind("\n\n").map_or(0, |at| at + 2);
        frames(&self.text[..end])
    }

    async fn until(&mut self, done: impl Fn(&[Frame]) -> bool) -> Vec<Frame> {
        loop {
            let frames = self.frames();
            if done(&frames) {
                return frames;
            }
            let chunk = self.response.chunk().await.unwrap();
            let chunk = chunk.unwrap_or_else(|| panic!("the stream ended: {}", self.text));
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub(crate) async fn whole(mut self) -> Vec<Frame> {
        while let Some(chunk) = self.response.chunk().await.unwrap() {
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        self.frames()
    }
}

fn run_of(frames: &[Frame]) -> String {
    frames[0].json()["task_id"].as_str().unwrap().to_owned()
}

fn ids(frames: &[Frame]) -> Vec<u64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

const NEWER: &str = "/api/v1/agents/chat/completions";

fn turn(query: &str) -> Json {
    json!({"agent_id": "chat", "query": query, "stream": true})
}

/// Any client of the OpenAI protocol can call an agent; here it is the client with which Weft calls models.
#[tokio::test]
async fn a_client_of_the_openai_protocol_calls_an_agent_as_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let reply = Reply::pieces(["Par", "is"]).usage(3, 5);
    let models = ScriptedServer::start(Script::new().reply(reply.always())).await;
    let server = start(&config(folder.path(), &models)).await;
    server.put_chat().await;
    let ask = async |agent: &str, key: &str| {
        let base_url = format!("{}/api/v1/agents_openai/{agent}", server.base);
        let entry =
            json!({"name": "agent", "model": "m", "base_url": base_url, "api_key": key, "retries": 0});
        let entries: ModelsConfig = serde_json::from_value(json!({"entries": [entry]})).unwrap();
        let directory = Directory::open(&entries, &weft_net::operator_client().unwrap())?;
        let model = directory.resolve(&DEFAULT_TENANT.into(), "agent")?;
        let messages = vec![ChatMessage::new(Author::User, "capital?")];
        let mut answer = model.chat(ChatRequest { messages, ..ChatRequest::default() }).await?;
        let (mut text, mut ended) = (String::new(), false);
        while let Some(delta) = answer.next().await {
            match delta? {
                ChatDelta::Text(piece) => text.push_str(&piece),
                ChatDelta::End { .. } => ended = true,
                _ => {}
            }
        }
        Ok::<_, weft_core::Error>((text, ended))
    };
    let key = server.token.clone().unwrap_or_default();
    assert_eq!(ask("chat", &key).await.unwrap(), ("Paris".to_owned(), true));
    // A refusal becomes an error of the client, with the message of the server.
    assert!(ask("gone", &key).await.unwrap_err().full().contains("You don't own the agent gone"));
    assert!(ask("chat", "wrong").await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn tokens_arrive_while_the_model_streams_and_cancel_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let reply = Reply::pieces(["one ", "two "]).then(Step::Wait(FOREVER_MS)).then(Step::Text("never".into()));
    let models = ScriptedServer::start(Script::new().reply(reply.always())).await;
    let server = start(&config(folder.path(), &models)).await;
    server.put_chat().await;
    let mut live = server.stream(NEWER, turn("hello")).await;
    // The model never ends by itself, so this text arrived while it was streaming.
    let seen = live.until(|frames| said(frames) == "one two ").await;
    server.cancel(&run_of(&seen)).await;
    let all = live.whole().await;
    let [.., finished, done] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(finished.json()["data"]["status"], "cancelled");
    assert_eq!((done.data.as_str(), said(&all).as_str()), ("[DONE]", "one two "));
    assert_eq!(models.requests()[0].key.as_deref(), Some("x"));
    server.stop().await;
}

#[tokio::test]
async fn a_stream_resumes_where_it_broke_even_after_the_end_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let endless = Reply::pieces(["one ", "two ", "three "]).then(Step::Wait(FOREVER_MS));
    let models = ScriptedServer::start(Script::new().reply(endless.always())).await;
    let config = config(folder.path(), &models);
    let server = start(&config).await;
    server.put_chat().await;
    let mut live = server.stream("/v1/canvas/completion", json!({"id": "chat", "query": "hello"})).await;
    let seen = live.until(|frames| said(frames).starts_with("one ")).await;
    drop(live);
    let (run, last) = (run_of(&seen), *ids(&seen).last().unwrap());

    let mut resumed = server.events(&run, last).await;
    let heard = said(&seen);
    resumed.until(|frames| format!("{heard}{}", said(frames)) == "one two three ").await;
    server.cancel(&run).await;
    let rest = resumed.whole().await;
    let together: Vec<u64> = ids(&seen).into_iter().chain(ids(&rest)).collect();
    assert_eq!(together, (1..=together.len() as u64).collect::<Vec<_>>(), "no gap and no repetition");
    assert_eq!(events(&rest)[rest.len() - 2..], ["workflow_finished", "[DONE]"]);

    let after_the_end = server.events(&run, last).await.whole().await;
    assert_eq!(after_the_end, rest);
    let all = server.events(&run, 0).await.whole().await;
    let token = server.token.clone();
    server.stop().await;

    let server = Server { token, ..start(&config).await };
    assert_eq!(server.events(&run, last).await.whole().await, rest);
    assert_eq!(server.events(&run, 0).await.whole().await, all);
    assert_eq!(events(&server.events(&run, 10_000).await.whole().await), ["[DONE]"]);
    server.stop().await;
}

#[tokio::test]
async fn a_session_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        Script::new().reply(Reply::text("Blue.").times(1)).reply(Reply::text("Since you like it.").times(1));
    let models = ScriptedServer::start(script).await;
    let config = config(folder.path(), &models);
    let server = start(&config).await;
    server.put_chat().await;
    let first = server.stream(NEWER, turn("My colour?")).await.whole().await;
    let session = first[0].json()["session_id"].clone();
    let token = server.token.clone();
    server.stop().await;

    let again = start(&config).await;
    assert!(again.token.is_none(), "the first token is created only once");
    let server = Server { token, ..again };
    let mut second = turn("Why?");
    second["session_id"] = session;
    let answer = server.stream(NEWER, second).await.whole().await;
    assert_eq!(said(&answer), "Since you like it.");
    let prompt = models.requests()[1].body["messages"].to_string();
    for part in ["My colour?", "Blue.", "Why?"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_provider_that_disconnects_leaves_no_partial_session() {
    let folder = tempfile::tempdir().unwrap();
    let cut = Reply::text("half").then(Step::Fault(weft_models::script::Fault::Cut));
    let script = Script::new().reply(cut.times(1)).reply(Reply::text("whole").always());
    let models = ScriptedServer::start(script).await;
    let server = start(&config(folder.path(), &models)).await;
    server.put_chat().await;
    let broken = server.stream(NEWER, turn("one")).await.whole().await;
    let [.., finished, error, done] = broken.as_slice() else { panic!("{broken:?}") };
    assert_eq!(finished.json()["data"]["status"], "failed");
    assert_eq!((error.json()["code"].clone(), done.data.as_str()), (json!(500), "[DONE]"));
    let session = finished.json()["session_id"].clone();
    let mut second = turn("two");
    second["session_id"] = session.clone();
    assert_eq!(said(&server.stream(NEWER, second).await.whole().await), "whole");
    let path = format!("/api/v1/agents/chat/sessions/{}", session.as_str().unwrap());
    let got: Json = server.request("GET", &path).send().await.unwrap().json().await.unwrap();
    let messages = got["data"]["message"].as_array().unwrap();
    let users: Vec<_> =
        messages.iter().filter(|m| m["role"] == "user").map(|m| m["content"].clone()).collect();
    assert_eq!(users, ["one", "two"]);
    server.stop().await;
}

/// Runs in progress when a server stops are handed over: their readers are told where to continue.
#[tokio::test]
async fn a_shutdown_hands_over_runs_and_ends_their_streams() {
    let folder = tempfile::tempdir().unwrap();
    let endless = Reply::pieces(["one "]).then(Step::Wait(FOREVER_MS));
    let models = ScriptedServer::start(Script::new().reply(endless.always())).await;
    let mut config = config(folder.path(), &models);
    config.limits.shutdown_seconds = 0;
    let server = start(&config).await;
    server.put_chat().await;
    let mut live = server.stream(NEWER, turn("hello")).await;
    live.until(|frames| said(frames) == "one ").await;
    let (rest, ()) = futures::join!(live.whole(), server.stop());
    let Some(last) = rest.last() else { panic!("the reader got no final frame") };
    assert_eq!(last.json()["code"], 500, "{rest:?}");
    assert!(last.data.contains("Last-Event-ID") && last.data.contains("/events"), "{rest:?}");
    assert!(!rest.iter().any(|frame| frame.data.contains("workflow_finished")), "{rest:?}");
}

#[tokio::test]
async fn unusable_listen_addresses_give_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let models = ScriptedServer::start(Script::new()).await;
    let taken = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address).await.unwrap_err().full();
    assert!(error.contains(&address.to_string()) && error.contains("--listen"), "{error}");

    let mut config = config(folder.path(), &models);
    config.server.auth = Auth::Off;
    config.listen = "0.0.0.0:0".parse().unwrap();
    let error = assemble(&config).await.unwrap_err().full();
    assert!(error.contains("loopback") || error.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn many_concurrent_streams_are_each_complete() {
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<String> = (0..50).map(|n| format!("w{n} ")).collect();
    let models = ScriptedServer::start(Script::new().reply(Reply::pieces(words.clone()).always())).await;
    let server = start(&config(folder.path(), &models)).await;
    server.put_chat().await;
    let streams = futures::stream::iter(0..40).map(|n| {
        let server = &server;
        async move { server.stream(NEWER, turn(&format!("q{n}"))).await.whole().await }
    });
    let all: Vec<_> = streams.buffer_unordered(20).collect().await;
    for frames in &all {
        assert_eq!(said(frames), words.concat());
    }
    assert_eq!(all.len(), 40);
    server.stop().await;
}

/// Runs `curl` as in the documentation; `None` if it is not installed.
fn curl(arguments: &[&str]) -> Option<String> {
    let output =
        std::process::Command::new("curl").args(["-sS", "-N", "--max-time", "60"]).args(arguments).output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            weft_testkit::skipped(format_args!("there is no curl here: {error}"));
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_documented_calls_work_with_curl() {
    let folder = tempfile::tempdir().unwrap();
    let models = ScriptedServer::start(Script::new().reply(Reply::pieces(["Xin ", "chào"]).always())).await;
    let server = start(&config(folder.path(), &models)).await;
    let key = format!("Authorization: Bearer {}", server.token.clone().unwrap());
    let base = server.base.clone();
    let calls = tokio::task::spawn_blocking(move || {
        let common = ["-H", &key, "-H", "Content-Type: application/json"];
        let canvas = json!({"title": "Trợ lý", "dsl": chat_canvas()}).to_string();
        let set =
            curl(&[&common[..], &["-X", "POST", &format!("{base}/api/canvas/set"), "-d", &canvas]].concat())?;
        let set: Json = serde_json::from_str(&set).unwrap();
        let ask = json!({"id": set["data"]["id"], "query": "xin chào", "stream": true}).to_string();
        let asked =
            curl(&[&common[..], &["-i", &format!("{base}/api/canvas/completion"), "-d", &ask]].concat())?;
        Some((set, asked))
    });
    // The same two calls without `curl`, which may be missing.
    let canvas = json!({"title": "Một trợ lý khác", "dsl": chat_canvas()});
    let set = server.request("POST", "/api/canvas/set").json(&canvas).send().await.unwrap();
    let set = set.json::<Json>().await.unwrap();
    let ask = json!({"id": set["data"]["id"], "query": "xin chào", "stream": true});
    assert_eq!(said(&server.stream("/api/canvas/completion", ask).await.whole().await), "Xin chào");
    if let Some((set, asked)) = calls.await.unwrap() {
        assert_eq!((&set["code"], &set["data"]["title"]), (&json!(0), &json!("Trợ lý")));
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains("content-type: text/event-stream; charset=utf-8"), "{head}");
        assert_eq!(said(&frames(body)), "Xin chào");
        assert!(body.starts_with("id: 1\ndata:{\"event\":\"workflow_started\""), "{body}");
    }
    server.stop().await;
}

/// A canvas that splits the question at its commas and repeats each part.
fn pieces_canvas() -> Json {
    let split = json!({
        "method": "split", "script": "", "split_ref": "sys.query", "delimiters": [","],
        "outputs": {"result": {"type": "Array<string>", "value": []}},
    });
    let merge = |script: &str| {
        let outputs = json!({"result": {"type": "string", "value": ""}});
        json!({"method": "merge", "script": script, "split_ref": "", "delimiters": [","], "outputs": outputs})
    };
    let each = json!({
        "items_ref": "StringTransform:Split@result",
        "outputs": {"out": {"ref": "StringTransform:Body@result", "type": "Array<string>"}},
    });
    let mut components = json!({
        "begin": component("Begin", &json!({"enablePrologue": false}), &["StringTransform:Split"]),
        "StringTransform:Split": component("StringTransform", &split, &["Iteration:I"]),
        "Iteration:I": component("Iteration", &each, &["Message:M"]),
        "IterationItem:Item": component("IterationItem", &json!({}), &["StringTransform:Body"]),
        "StringTransform:Body": component("StringTransform", &merge("{IterationItem:Item@item}"), &[]),
        "Message:M": component("Message", &json!({"content": ["done"]}), &[]),
    });
    for child in ["IterationItem:Item", "StringTransform:Body"] {
        components[child]["parent_id"] = json!("Iteration:I");
    }
    json!({"components": components})
}

#[tokio::test]
async fn a_reader_that_stalls_blocks_nobody_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let models = ScriptedServer::start(Script::new()).await;
    let server = start(&config(folder.path(), &models)).await;
    let head = weft_core::seam::canvas_store::CanvasHead { title: "pieces".into(), ..Default::default() };
    let id = Some(CanvasId::new("pieces"));
    server.app.put_canvas(&DEFAULT_TENANT.into(), id, head, &pieces_canvas().to_string()).await.unwrap();
    // More than the sockets and the in-memory feed can hold together.
    let query = vec!["x".repeat(4_000); 800].join(",");
    let mut lazy = server.stream("/v1/canvas/completion", json!({"id": "pieces", "query": query})).await;
    let begun = lazy.until(|frames| !frames.is_empty()).await;
    let watched = server.events(&run_of(&begun), 0).await.whole().await;
    assert_eq!(said(&watched), "done");
    assert!(watched.len() > 3_000, "{}", watched.len());
    let late = lazy.whole().await;
    assert_eq!(ids(&late), (1..=late.len() as u64).collect::<Vec<_>>());
    assert_eq!(late, watched[..watched.len() - 1], "the same except for the final frame");
    server.stop().await;
}
