//! The forms and endings of answers with calls, on every wire.

use serde_json::json;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, StopReason, ToolCall};
use weft_testkit::{Reply, Script, ScriptedServer, Step, Wire};

use crate::{Transcript, asked, model, read, tool};

async fn heard(wire: Wire, reply: Reply) -> Transcript {
    let server = ScriptedServer::speaking(wire, Script::new().reply(reply)).await;
    let request = ChatRequest { tools: [tool("t"), tool("u")].into(), ..asked("hi") };
    let (seen, error) = read(&*model(wire, &server), request).await;
    assert!(error.is_none(), "{wire:?}: {error:?}");
    seen
}

fn shown(seen: &Transcript) -> Vec<String> {
    seen.calls.iter().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect()
}

#[tokio::test]
async fn interleaved_calls_are_kept_apart() {
    // On the OpenAI wire the deltas of the two alternate, and one splits an escape.
    let (first, second) = (r#"{"x":"caf\u00e9 \ud83d\ude00"}"#, r#"{"y":"\u6c49\u5b57","n":[1,2,3]}"#);
    let calls = [("t", json!(first)), ("u", json!(second))];
    for characters in 1..9 {
        let reply = Reply::text("both").and_calls_in_turns(calls.clone(), characters);
        let pieces = reply.say.len();
        let seen = heard(Wire::OpenAi, reply).await;
        assert!(characters > 3 || pieces >= 20, "{pieces}");
        assert_eq!(shown(&seen), [format!("call_1 t {first}"), format!("call_2 u {second}")]);
        assert_eq!((seen.text.as_str(), seen.end.unwrap().0), ("both", StopReason::ToolCalls));
    }
    for wire in Wire::ALL {
        let calls = [("t", json!({"x": "é"})), ("u", json!({"y": 1}))];
        let seen = heard(wire, Reply::text("both").and_calls_in_turns(calls, 3)).await;
        assert_eq!(shown(&seen), [r#"call_1 t {"x":"é"}"#, r#"call_2 u {"y":1}"#], "{wire:?}");
    }
}

#[tokio::test]
async fn text_may_come_before_between_and_after_calls() {
    for wire in Wire::ALL {
        let reply = Reply::text("a ")
            .and_call("t", json!({}))
            .then(Step::Text("b ".into()))
            .and_call("t", json!({"x": 1}))
            .then(Step::Text("c".into()));
        let seen = heard(wire, reply).await;
        assert_eq!(seen.text, "a b c", "{wire:?}");
        assert_eq!(shown(&seen), ["call_1 t {}", r#"call_2 t {"x":1}"#], "{wire:?}");
        assert_eq!(seen.end.unwrap().0, StopReason::ToolCalls, "{wire:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_of_calls_is_ended() {
    for wire in Wire::ALL {
        let reply = (0..200).fold(Reply::default(), |reply, at| reply.and_call("t", json!({"x": at})));
        let server = ScriptedServer::speaking(wire, Script::new().reply(reply)).await;
        let request = ChatRequest { tools: [tool("t")].into(), ..asked("hi") };
        let (seen, error) = read(&*model(wire, &server), request).await;
        assert_eq!(seen.calls.len(), 128, "{wire:?}");
        let error = error.unwrap();
        assert!(error.full().contains("more than 128 tool calls"), "{wire:?}: {}", error.full());
    }
}

#[tokio::test]
async fn broken_arguments_arrive_unchanged() {
    for wire in Wire::ALL {
        for broken in ["{'city': 'Oslo',}", "", "not json", "[1]"] {
            let seen = heard(wire, Reply::default().and_call_text("t", broken)).await;
            assert_eq!(seen.calls[0].arguments, broken, "{wire:?}");
            assert_eq!(seen.end.unwrap().0, StopReason::ToolCalls, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn every_stop_reason_is_reported_and_an_empty_answer_is_valid() {
    for wire in Wire::ALL {
        let check = async |reply: Reply, expected: StopReason| {
            let seen = heard(wire, reply).await;
            assert_eq!(seen.end.map(|(reason, _)| reason), Some(expected), "{wire:?}");
            seen
        };
        let empty = check(Reply::empty(), StopReason::Stop).await;
        assert_eq!((empty.pieces, empty.text.as_str()), (0, ""), "{wire:?}");
        check(Reply::text("half a").stop(StopReason::Length), StopReason::Length).await;
        let cut = Reply::default().and_call_text("t", r#"{"x": "ha"#).stop(StopReason::Length);
        assert_eq!(check(cut, StopReason::Length).await.calls.len(), 1, "{wire:?}");
        if wire != Wire::Ollama {
            check(Reply::text("no").stop(StopReason::Filtered), StopReason::Filtered).await;
        }
    }
}

#[tokio::test]
async fn usage_is_never_missing() {
    for wire in Wire::ALL {
        let reply = Reply::text("one two three").and_call("t", json!({"x": 1})).unmetered();
        let usage = heard(wire, reply).await.end.unwrap().1;
        assert_eq!(usage.calls, 1);
        // The question, its tools and their schemas; the text, the name and the arguments.
        assert!((40..90).contains(&usage.prompt_tokens), "{wire:?}: {usage:?}");
        assert!((10..20).contains(&usage.completion_tokens), "{wire:?}: {usage:?}");
    }
}

#[tokio::test]
async fn generated_ids_are_unique_in_a_conversation() {
    for wire in [Wire::Gemini, Wire::Ollama] {
        let server =
            ScriptedServer::speaking(wire, Script::new().reply(Reply::call("t", json!({})).always())).await;
        let model = model(wire, &server);
        let mut request = ChatRequest { tools: [tool("t")].into(), ..asked("hi") };
        for round in 1..4 {
            let (seen, error) = read(&*model, request.clone()).await;
            assert!(error.is_none(), "{wire:?}: {error:?}");
            assert_eq!(seen.calls[0].id, format!("call_{round}"), "{wire:?}");
            let mut said = ChatMessage::new(Author::Assistant, "");
            said.tool_calls = seen.calls.clone();
            request.messages.extend([said, ChatMessage::tool(&seen.calls[0].id, "done")]);
        }
    }
}

#[tokio::test]
async fn provider_ids_are_sent_back() {
    for (wire, place) in [
        (Wire::OpenAi, "/messages/1/tool_calls/0/id"),
        (Wire::Anthropic, "/messages/1/content/0/id"),
        (Wire::Gemini, "/contents/1/parts/0/functionCall/id"),
    ] {
        let call = weft_models::script::ScriptCall {
            id: Some("given".into()),
            name: "t".into(),
            arguments: json!({}),
        };
        let script = Script::new().reply(Reply::default().then(Step::Call(call))).reply(Reply::text("ok"));
        let server = ScriptedServer::speaking(wire, script).await;
        let model = model(wire, &server);
        let mut request = ChatRequest { tools: [tool("t")].into(), ..asked("hi") };
        let (seen, _) = read(&*model, request.clone()).await;
        let expected = ToolCall { id: "given".into(), name: "t".into(), arguments: "{}".into() };
        assert_eq!(seen.calls, [expected], "{wire:?}");
        let mut said = ChatMessage::new(Author::Assistant, "");
        said.tool_calls = seen.calls.clone();
        request.messages.extend([said, ChatMessage::tool("given", "done")]);
        assert!(read(&*model, request).await.1.is_none(), "{wire:?}");
        assert_eq!(server.requests()[1].body.pointer(place).unwrap(), "given", "{wire:?}");
    }
}

#[tokio::test]
async fn reasoning_blocks_are_sent_back_unchanged() {
    // Text between two parts of reasoning splits them into two blocks.
    let reply = Reply::default()
        .thinking("first")
        .signature("s")
        .signature("1")
        .then(Step::Text("hm ".into()))
        .thinking("second")
        .signature("s2")
        .and_call("t", json!({}));
    let script = Script::new().reply(reply).reply(Reply::text("ok"));
    let server = ScriptedServer::speaking(Wire::Anthropic, script).await;
    let model = model(Wire::Anthropic, &server);
    let mut request = ChatRequest { tools: [tool("t")].into(), ..asked("hi") };
    let (seen, _) = read(&*model, request.clone()).await;
    assert_eq!((seen.thinking.as_str(), seen.text.as_str()), ("firstsecond", "hm "));
    let mut said = ChatMessage::new(Author::Assistant, seen.text);
    (said.tool_calls, said.thinking) = (seen.calls, Some(seen.thinking));
    said.signature = Some(seen.signature);
    request.messages.extend([said, ChatMessage::tool("call_1", "done")]);
    assert!(read(&*model, request).await.1.is_none());
    let body = server.requests().remove(1).body;
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "first", "signature": "s1"},
            {"type": "thinking", "thinking": "second", "signature": "s2"},
            {"type": "text", "text": "hm "},
            {"type": "tool_use", "id": "call_1", "name": "t", "input": {}},
        ])
    );
}

#[tokio::test]
async fn an_answer_can_be_made_for_each_request() {
    for wire in Wire::ALL {
        let server = ScriptedServer::from_fn(wire, |request, nth| {
            let last = request.messages.last().map_or("", |message| message.text.as_str());
            Reply::text(format!("{nth} {last} {}", request.tools.len()))
        })
        .await;
        let model = model(wire, &server);
        for (question, expected) in [("a", "0 a 1"), ("b", "1 b 1")] {
            let request = ChatRequest { tools: [tool("t")].into(), ..asked(question) };
            assert_eq!(read(&*model, request).await.0.text, expected, "{wire:?}");
        }
    }
}
