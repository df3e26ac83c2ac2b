//! Tools found by the provider's own search.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::seam::chat_model::{
    Author, ChatDelta, ChatMessage, ChatModel, ChatRequest, StopReason, ToolChoice, ToolSchema,
};
use weft_models::script::{Fault, ScriptSearch};
use weft_models::{ModelEntry, estimate};
use weft_testkit::{Reply, Script, ScriptedServer, Step, Wire};

use crate::{Transcript, asked, entry, open, read, tool};

fn searching(server: &ScriptedServer) -> Arc<dyn ChatModel> {
    of(server, |_| {})
}

fn of(server: &ScriptedServer, change: impl FnOnce(&mut ModelEntry)) -> Arc<dyn ChatModel> {
    let mut entry = entry(Wire::Anthropic, server);
    entry.model = Some("claude-sonnet-4-5".into());
    change(&mut entry);
    open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0
}

async fn serving(replies: impl IntoIterator<Item = Reply>) -> ScriptedServer {
    let script = Script { replies: replies.into_iter().collect() };
    ScriptedServer::speaking(Wire::Anthropic, script).await
}

fn deferred(name: &str) -> ToolSchema {
    ToolSchema { deferred: true, ..tool(name) }
}

fn many(question: &str) -> ChatRequest {
    let tools: Vec<ToolSchema> = (0..500).map(|place| deferred(&format!("thing_{place}"))).collect();
    ChatRequest { tools: tools.into(), ..asked(question) }
}

async fn heard(model: &dyn ChatModel, request: &ChatRequest) -> Transcript {
    let (seen, error) = read(model, request.clone()).await;
    assert!(error.is_none(), "{error:?}");
    seen
}

/// Adds an answer and the results of its calls to a conversation.
fn went_on(request: &mut ChatRequest, answer: &Transcript) {
    request.messages.push(ChatMessage {
        tool_calls: answer.calls.clone(),
        signature: Some(answer.signature.clone()).filter(|seal| !seal.is_empty()),
        thinking: Some(answer.thinking.clone()).filter(|text| !text.is_empty()),
        ..ChatMessage::new(Author::Assistant, answer.text.as_str())
    });
    request.messages.extend(answer.calls.iter().map(|call| ChatMessage::tool(&*call.id, "done")));
}

fn search(id: &str, query: &str) -> Json {
    json!({"type": "server_tool_use", "id": id, "name": "tool_search_tool_bm25", "input": {"query": query}})
}

fn found(id: &str, names: &[&str]) -> Json {
    let found: Vec<Json> =
        names.iter().map(|name| json!({"type": "tool_reference", "tool_name": name})).collect();
    let content = json!({"type": "tool_search_tool_search_result", "tool_references": found});
    json!({"type": "tool_search_tool_result", "tool_use_id": id, "content": content})
}

fn call(id: &str, name: &str) -> Json {
    json!({"type": "tool_use", "id": id, "name": name, "input": {"city": "Oslo"}})
}

fn text(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

/// The blocks of the assistant messages in the last request, in one list.
fn sent_back(server: &ScriptedServer) -> Vec<Json> {
    let body = server.requests().pop().unwrap().body;
    let said = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
    said.flat_map(|message| message["content"].as_array().unwrap().clone()).collect()
}

#[tokio::test]
async fn five_hundred_tools_are_searched_by_the_provider() {
    let first = Reply::text("I search. ")
        .tool_search("weather in 北京", ["thing_7", "thing_8"])
        .then(Step::Text("Found it.".into()))
        .and_call("thing_7", json!({"city": "Oslo"}));
    let server = serving([first, Reply::text("Sunny.")]).await;
    let model = searching(&server);
    assert_eq!(model.info().deferred_tools_max, 10_000);
    let mut request = many("weather?");
    assert!(estimate::usage(&request, "").prompt_tokens <= 2_000);
    let answer = heard(&*model, &request).await;
    assert_eq!(answer.text, "I search. Found it.");
    assert_eq!(answer.end.unwrap().0, StopReason::ToolCalls);
    let calls: Vec<_> = answer.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(calls, [("thing_7", r#"{"city":"Oslo"}"#)]);
    went_on(&mut request, &answer);
    assert_eq!(heard(&*model, &request).await.text, "Sunny.");

    let [one, two] = server.requests().try_into().unwrap();
    let tools = one.body["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 501);
    let search_tool = json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"});
    assert_eq!(tools[0], search_tool);
    assert!(tools[1..].iter().all(|tool| tool["defer_loading"] == true && tool["input_schema"].is_object()));
    assert_eq!(one.body["tools"], two.body["tools"]);
    assert_eq!(
        sent_back(&server),
        [
            text("I search. "),
            search("srvtoolu_1", "weather in 北京"),
            found("srvtoolu_1", &["thing_7", "thing_8"]),
            text("Found it."),
            call("call_1", "thing_7"),
        ]
    );
}

#[tokio::test]
async fn reasoning_between_tool_searches_keeps_its_place() {
    let first = Reply::default()
        .thinking("What is there?")
        .signature("s1")
        .tool_search("a", ["thing_1"])
        .thinking("That one.")
        .signature("s2")
        .then(Step::Text("Now.".into()))
        .and_call("thing_1", json!({"city": "Oslo"}));
    let server = serving([first, Reply::text("done")]).await;
    let model = searching(&server);
    let mut request = many("go");
    let answer = heard(&*model, &request).await;
    assert_eq!(answer.thinking, "What is there?That one.");
    went_on(&mut request, &answer);
    heard(&*model, &request).await;
    let thinking = |text: &str, seal: &str| json!({"type": "thinking", "thinking": text, "signature": seal});
    assert_eq!(
        sent_back(&server),
        [
            thinking("What is there?", "s1"),
            search("srvtoolu_1", "a"),
            found("srvtoolu_1", &["thing_1"]),
            thinking("That one.", "s2"),
            text("Now."),
            call("call_1", "thing_1"),
        ]
    );
    // Without a search, reasoning is sent back as usual.
    request.tools = [tool("thing_1")].into();
    let server = serving([Reply::text("done")]).await;
    heard(&*searching(&server), &request).await;
    let kinds: Vec<Json> = sent_back(&server).into_iter().map(|mut block| block["type"].take()).collect();
    assert_eq!(kinds, ["thinking", "thinking", "text", "tool_use"]);
}

#[tokio::test]
async fn a_failed_tool_search_stays_in_the_conversation() {
    let failed = Step::ToolSearch(ScriptSearch {
        query: Some("x".into()),
        error: Some("unavailable".into()),
        ..ScriptSearch::default()
    });
    let first = Reply::default().then(failed).then(Step::Text("I cannot look.".into()));
    let server = serving([first, Reply::text("well")]).await;
    let model = searching(&server);
    let mut request = many("go");
    let answer = heard(&*model, &request).await;
    assert_eq!((&*answer.text, answer.end.unwrap().0), ("I cannot look.", StopReason::Stop));
    went_on(&mut request, &answer);
    request.messages.push(ChatMessage::new(Author::User, "again"));
    heard(&*model, &request).await;
    // Fields that only answers may have are left out.
    let error = json!({"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1",
        "content": {"type": "tool_search_tool_result_error", "error_code": "unavailable"}});
    assert_eq!(sent_back(&server), [search("srvtoolu_1", "x"), error, text("I cannot look.")]);
}

/// A call beside a search is executed first; the result of the search starts the next answer.
#[tokio::test]
async fn a_tool_search_beside_a_call_is_answered_in_the_next_round() {
    let waiting = |id: &str, query: Option<&str>, found: Option<&str>| {
        Step::ToolSearch(ScriptSearch {
            id: Some(id.into()),
            query: query.map(str::to_owned),
            found: found.map(|name| vec![name.to_owned()]),
            error: None,
        })
    };
    let first = Reply::default()
        .then(waiting("srvtoolu_a", Some("x"), None))
        .and_call("thing_1", json!({"city": "Oslo"}));
    let second = Reply::default()
        .then(waiting("srvtoolu_a", None, Some("thing_2")))
        .and_call("thing_2", json!({"city": "Oslo"}));
    let server = serving([first, second, Reply::text("done"), Reply::text("done")]).await;
    let model = searching(&server);
    let mut request = many("go");
    let answer = heard(&*model, &request).await;
    went_on(&mut request, &answer);
    let mut interrupted = request.clone();
    let mut answer = heard(&*model, &request).await;
    assert_eq!(sent_back(&server), [search("srvtoolu_a", "x"), call("call_1", "thing_1")]);
    answer.calls[0].id = "call_2".into();
    went_on(&mut request, &answer);
    heard(&*model, &request).await;
    assert_eq!(
        sent_back(&server),
        [
            search("srvtoolu_a", "x"),
            call("call_1", "thing_1"),
            found("srvtoolu_a", &["thing_2"]),
            call("call_2", "thing_2"),
        ]
    );
    // After a message of another author nobody answers it any more, and it would be refused.
    interrupted.messages.push(ChatMessage::new(Author::User, "stop"));
    heard(&*model, &interrupted).await;
    assert_eq!(sent_back(&server), [call("call_1", "thing_1")]);
}

#[tokio::test]
async fn removed_tools_are_no_longer_sent() {
    let first = Reply::default().tool_search("x", ["thing_1", "thing_2"]).and_call("thing_1", json!({}));
    let server = serving([first, Reply::text("done")]).await;
    let model = searching(&server);
    let mut request = many("go");
    let answer = heard(&*model, &request).await;
    went_on(&mut request, &answer);
    request.tools = [tool("shown"), deferred("thing_1")].into();
    // A text that was changed since is sent back whole.
    request.messages[1].text = "Changed.".into();
    heard(&*model, &request).await;
    let back = sent_back(&server);
    assert_eq!(back[..2], [search("srvtoolu_1", "x"), found("srvtoolu_1", &["thing_1"])]);
    assert_eq!(back[2], text("Changed."));
}

#[tokio::test]
async fn an_answer_paused_by_the_provider_continues() {
    let pause = |reply: Reply| reply.stop(StopReason::Other).usage(10, 2);
    let first = pause(Reply::text("One. ").tool_search("a", ["thing_1"]));
    let waiting =
        ScriptSearch { id: Some("srvtoolu_b".into()), query: Some("b".into()), ..Default::default() };
    let second = pause(Reply::text("Two. ").then(Step::ToolSearch(waiting)));
    let result = ScriptSearch { id: Some("srvtoolu_b".into()), found: Some(vec![]), ..Default::default() };
    let last = Reply::default().then(Step::ToolSearch(result)).then(Step::Text("Done.".into())).usage(30, 3);
    let server = serving([first, second, last, Reply::text("ok")]).await;
    let model = searching(&server);
    let mut request = many("go");
    let answer = heard(&*model, &request).await;
    assert_eq!(answer.text, "One. Two. Done.");
    let (reason, usage) = answer.end.unwrap();
    assert_eq!((reason, usage.prompt_tokens, usage.completion_tokens), (StopReason::Stop, 50, 7));
    // Each part is reported before its provider is asked to go on.
    let paused: Vec<_> =
        answer.paused.iter().map(|part| (part.prompt_tokens, part.completion_tokens)).collect();
    assert_eq!(paused, [(10, 2), (10, 2)]);
    let all = [
        text("One. "),
        search("srvtoolu_1", "a"),
        found("srvtoolu_1", &["thing_1"]),
        text("Two. "),
        search("srvtoolu_b", "b"),
        found("srvtoolu_b", &[]),
        text("Done."),
    ];
    assert_eq!(sent_back(&server), all[..5]);
    went_on(&mut request, &answer);
    request.messages.push(ChatMessage::new(Author::User, "thanks"));
    heard(&*model, &request).await;
    assert_eq!(sent_back(&server), all);

    // An endlessly paused answer is ended.
    let server = serving([pause(Reply::text("x")).always()]).await;
    let answer = heard(&*searching(&server), &many("go")).await;
    assert_eq!((answer.text.len(), answer.end.unwrap().0), (9, StopReason::Other));
}

#[tokio::test]
async fn a_paused_answer_continues_only_when_it_is_awaited() {
    let server = serving([Reply::text("x").stop(StopReason::Other).usage(10, 2).always()]).await;
    let mut answer = searching(&server).chat(many("go")).await.unwrap();
    while !matches!(answer.next().await.unwrap().unwrap(), ChatDelta::Paused { .. }) {}
    drop(answer);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_stream_cut_during_a_tool_search_is_an_error_and_retried() {
    let cut = |reply: Reply| reply.then(Step::Fault(Fault::Cut));
    let waiting = Step::ToolSearch(ScriptSearch { query: Some("a".into()), ..ScriptSearch::default() });
    for reply in [Reply::default().then(waiting), Reply::default().tool_search("a", ["thing_1"])] {
        let server = serving([cut(reply.clone()).always()]).await;
        let once = ChatRequest { retries_max: Some(0), ..many("go") };
        let (seen, error) = read(&*searching(&server), once).await;
        let error = error.unwrap();
        assert_eq!((error.kind, seen.signature.as_str()), (ErrorKind::Unavailable, ""), "{error:?}");
        let server = serving([cut(reply), Reply::text("done")]).await;
        let again = ChatRequest { retry_delay: Some(std::time::Duration::ZERO), ..many("go") };
        assert_eq!(heard(&*searching(&server), &again).await.text, "done");
    }
}

/// A tool that cannot be deferred is sent, whoever asks for it.
#[tokio::test]
async fn models_without_tool_search_get_all_tools() {
    let request = || ChatRequest { tools: [tool("a"), deferred("b")].into(), ..asked("go") };
    for (name, setting, expected) in [
        ("claude-sonnet-4-5", None, true),
        ("claude-sonnet-4-5", Some(false), false),
        ("claude-3-5-sonnet", None, false),
        ("own", Some(true), true),
    ] {
        let server = serving([Reply::text("ok")]).await;
        let model = of(&server, |entry| (entry.model, entry.tool_search) = (Some(name.into()), setting));
        assert_eq!(model.info().deferred_tools_max > 0, expected, "{name} {setting:?}");
        heard(&*model, &request()).await;
        let body = server.requests()[0].body.to_string();
        for word in ["defer_loading", "tool_search_tool"] {
            assert_eq!(body.contains(word), expected, "{name} {setting:?}: {body}");
        }
    }
    for wire in [Wire::OpenAi, Wire::Gemini, Wire::Ollama] {
        let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
        let model = crate::model(wire, &server);
        assert_eq!(model.info().deferred_tools_max, 0, "{wire:?}");
        heard(&*model, &request()).await;
        let seen = server.requests().remove(0);
        assert_eq!(seen.messages.tools.len(), 2, "{wire:?}");
        assert!(!seen.body.to_string().contains("defer"), "{wire:?}");
        let mut entry = entry(wire, &server);
        entry.tool_search = Some(true);
        let error = open(vec![entry]).err().unwrap();
        assert!(error.full().contains("`tool_search` of the model `m`"), "{wire:?}: {}", error.full());
    }
}

#[tokio::test]
async fn a_forced_tool_is_always_sent() {
    let server = serving([Reply::text("ok")]).await;
    let mut request = ChatRequest { tools: [deferred("a"), deferred("b")].into(), ..asked("go") };
    request.tool_choice = ToolChoice::Named("b".into());
    heard(&*searching(&server), &request).await;
    let tools = server.requests().remove(0).messages.tools;
    let kept_back: Vec<_> = tools.iter().map(|tool| (&*tool.name, tool.deferred)).collect();
    assert_eq!(kept_back, [("b", false), ("a", true)]);
}

#[tokio::test]
async fn a_deferred_tool_carries_no_cache_mark() {
    let long = |name: &str| ToolSchema { description: "word ".repeat(1_500), ..tool(name) };
    let server = serving([Reply::text("ok").always()]).await;
    let model = searching(&server);
    let check = async |tools: &[ToolSchema], marked: &[&str]| {
        heard(&*model, &ChatRequest { tools: tools.iter().cloned().collect(), ..asked("go") }).await;
        let body = server.requests().pop().unwrap().body;
        let tools = body["tools"].as_array().unwrap().iter();
        let with_mark = tools.filter(|tool| tool.get("cache_control").is_some());
        let names: Vec<_> = with_mark.map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, marked);
    };
    let kept_back = |name: &str| ToolSchema { deferred: true, ..long(name) };
    check(&[kept_back("a"), long("b"), kept_back("c")], &["b"]).await;
    // None of these is in the prompt.
    check(&[kept_back("a"), kept_back("b")], &[]).await;
}
