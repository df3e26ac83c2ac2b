//! Four wires, one transcript.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{
    Author, ChatMessage, ChatRequest, Sampling, StopReason, ToolSchema, Usage,
};
use weft_models::script::ScriptTokens;
use weft_testkit::{Reply, Script, ScriptedServer, Step, Wire};

use crate::{KEY, asked, model, read, tool};

fn whole_answer() -> Reply {
    Reply::default()
        .thinking("Two cities, ")
        .thinking("two calls.")
        .then(Step::Text("I will ".into()))
        .then(Step::Text("look 汉字.".into()))
        .and_call("get_weather", json!({"city": "北京", "unit": "celsius"}))
        .and_call("get_weather", json!({"city": "Oslo"}))
        .usage(31, 17)
}

#[tokio::test]
async fn every_wire_gives_the_same_transcript() {
    for wire in Wire::ALL {
        let server = ScriptedServer::speaking(wire, Script::new().reply(whole_answer())).await;
        let request = ChatRequest { tools: [tool("get_weather")].into(), ..asked("weather?") };
        let (seen, error) = read(&*model(wire, &server), request).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        assert_eq!(seen.thinking, "Two cities, two calls.", "{wire:?}");
        assert_eq!(seen.text, "I will look 汉字.", "{wire:?}");
        let calls: Vec<(&str, Json)> = seen
            .calls
            .iter()
            .map(|call| (call.name.as_str(), serde_json::from_str(&call.arguments).unwrap()))
            .collect();
        let expected = [
            ("get_weather", json!({"city": "北京", "unit": "celsius"})),
            ("get_weather", json!({"city": "Oslo"})),
        ];
        assert_eq!(calls, expected, "{wire:?}");
        assert_ne!(seen.calls[0].id, seen.calls[1].id, "{wire:?}");
        let usage = Usage { prompt_tokens: 31, completion_tokens: 17, calls: 1, ..Usage::default() };
        assert_eq!(seen.end, Some((StopReason::ToolCalls, usage)), "{wire:?}");
        if matches!(wire, Wire::OpenAi | Wire::Anthropic) {
            assert!(seen.pieces > 8, "{wire:?} streams arguments in deltas, got {}", seen.pieces);
        }
    }
}

/// Some providers count them separately, some among the others; here they are always among the others.
#[tokio::test]
async fn cache_and_reasoning_tokens_are_reported_by_every_capable_wire() {
    let tokens = ScriptTokens {
        prompt: 31,
        completion: 17,
        cache_read: Some(20),
        cache_write: Some(4),
        reasoning: Some(9),
    };
    for wire in Wire::ALL {
        let script = Script::new().reply(Reply::text("Fine.").tokens(tokens));
        let server = ScriptedServer::speaking(wire, script).await;
        let (seen, error) = read(&*model(wire, &server), asked("weather?")).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        let all = Usage {
            prompt_tokens: 31,
            completion_tokens: 17,
            calls: 1,
            cache_read_tokens: 20,
            cache_write_tokens: 4,
            reasoning_tokens: 9,
        };
        let expected = match wire {
            Wire::OpenAi => all,
            Wire::Anthropic => Usage { reasoning_tokens: 0, ..all },
            Wire::Gemini => Usage { cache_write_tokens: 0, ..all },
            Wire::Ollama => Usage { cache_read_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0, ..all },
        };
        assert_eq!(seen.end, Some((StopReason::Stop, expected)), "{wire:?}");
    }
}

#[tokio::test]
async fn requests_contain_key_model_conversation_and_tools() {
    for wire in Wire::ALL {
        let script = Script::new()
            .reply(whole_answer().when_user("weather"))
            .reply(Reply::text("Both are fine.").when_tool("sunny"));
        // The first reply would match both requests; the second is recognised by its tool results.
        let script = Script { replies: script.replies.into_iter().rev().collect() };
        let server = ScriptedServer::speaking(wire, script).await;
        let model = model(wire, &server);
        let mut request = ChatRequest { tools: [tool("get_weather")].into(), ..asked("weather?") };
        request.messages.insert(0, ChatMessage::new(Author::System, "Be brief."));
        let (first, error) = read(&*model, request.clone()).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        let mut said = ChatMessage::new(Author::Assistant, first.text.clone());
        said.tool_calls = first.calls.clone();
        request.messages.push(said);
        for (call, result) in first.calls.iter().zip(["sunny", "rainy"]) {
            let mut message = ChatMessage::new(Author::Tool, result);
            message.tool_call_id = Some(call.id.clone());
            request.messages.push(message);
        }
        let (second, error) = read(&*model, request).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        assert_eq!(second.text, "Both are fine.", "{wire:?}");
        assert_eq!(second.end.unwrap().0, StopReason::Stop, "{wire:?}");

        let seen = server.requests();
        assert_eq!(seen.len(), 2, "{wire:?}");
        assert_eq!(seen[0].model, "model-x", "{wire:?}");
        if wire != Wire::Ollama {
            assert_eq!(seen[0].key.as_deref(), Some(KEY), "{wire:?}");
        }
        let body = seen[1].body.to_string();
        for part in ["Be brief.", "weather?", "get_weather", "sunny", "rainy", "北京"] {
            assert!(body.contains(part), "{wire:?}: no `{part}` in {body}");
        }
    }
}

/// Positions of `cache_control` in a request.
fn marked(body: &Json) -> Vec<String> {
    fn look(value: &Json, place: &str, found: &mut Vec<String>) {
        match value {
            Json::Object(members) => {
                if members.contains_key("cache_control") {
                    found.push(place.to_owned());
                }
                members.iter().for_each(|(key, value)| look(value, &format!("{place}/{key}"), found));
            }
            Json::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(n, value)| look(value, &format!("{place}/{n}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    look(body, "", &mut found);
    found
}

/// Long recurring parts are marked where the provider wants it, and nowhere else.
#[tokio::test]
async fn long_prompt_prefixes_carry_the_cache_mark() {
    let long = "Be brief. ".repeat(600);
    let instructed = |request: ChatRequest| {
        let mut messages = request.messages;
        messages.insert(0, ChatMessage::new(Author::System, &*long));
        ChatRequest { messages, ..request }
    };
    let with_tools = |request: ChatRequest| ChatRequest { tools: [tool("a"), tool("b")].into(), ..request };
    let long_tool = || ToolSchema { description: long.clone(), ..tool("b") };
    let cases: [(ChatRequest, &[&str]); 5] = [
        (asked("weather?"), &[]),
        (with_tools(asked("weather?")), &[]),
        (instructed(asked("weather?")), &["/system/0"]),
        (with_tools(instructed(asked("weather?"))), &["/messages/0/content/0", "/system/0"]),
        (ChatRequest { tools: [tool("a"), long_tool()].into(), ..asked("weather?") }, &["/tools/1"]),
    ];
    for wire in Wire::ALL {
        for (request, expected) in cases.clone() {
            let server = ScriptedServer::speaking(wire, Script::text("Fine.")).await;
            let (_, error) = read(&*model(wire, &server), request).await;
            assert!(error.is_none(), "{wire:?}: {error:?}");
            let mut found = marked(&server.requests()[0].body);
            found.sort();
            let expected: &[&str] = if wire == Wire::Anthropic { expected } else { &[] };
            assert_eq!(found, expected, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn sampling_reaches_every_wire_under_its_name() {
    let sampling = Sampling {
        temperature: Some(0.5),
        top_p: Some(0.25),
        presence_penalty: Some(0.4),
        max_tokens: Some(77),
        ..Sampling::default()
    };
    let expected = [
        (Wire::OpenAi, "/temperature", "/top_p", "/max_tokens"),
        (Wire::Anthropic, "/temperature", "/top_p", "/max_tokens"),
        (
            Wire::Gemini,
            "/generationConfig/temperature",
            "/generationConfig/topP",
            "/generationConfig/maxOutputTokens",
        ),
        (Wire::Ollama, "/options/temperature", "/options/top_p", "/options/num_predict"),
    ];
    for (wire, temperature, top_p, max_tokens) in expected {
        let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
        let (seen, error) =
            read(&*model(wire, &server), ChatRequest { sampling: sampling.clone(), ..asked("hi") }).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        let body = server.requests()[0].body.clone();
        let at = |pointer: &str| body.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(
            (at(temperature), at(top_p), at(max_tokens)),
            (json!(0.5), json!(0.25), json!(77)),
            "{wire:?}: {body}"
        );
        let warned = seen.warnings.iter().any(|warning| warning.contains("presence_penalty"));
        assert_eq!(warned, wire != Wire::OpenAi, "{wire:?}");
    }
}

#[tokio::test]
async fn tags_in_the_text_become_reasoning_on_every_wire() {
    for wire in Wire::ALL {
        let script = Script::new().reply(Reply::pieces(["<thi", "nk>hm", "</think>", "42"]));
        let server = ScriptedServer::speaking(wire, script).await;
        let (seen, error) = read(&*model(wire, &server), asked("?")).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        assert_eq!((seen.thinking.as_str(), seen.text.as_str()), ("hm", "42"), "{wire:?}");
    }
}

#[tokio::test]
async fn reasoning_is_enabled_per_wire_within_the_limit() {
    let budget = "/generationConfig/thinkingConfig/thinkingBudget";
    let cases = [
        (Wire::Anthropic, None, "/thinking/budget_tokens", json!(8000)),
        (Wire::Anthropic, Some(4000), "/thinking/budget_tokens", json!(1024)),
        (Wire::Gemini, None, "/generationConfig/thinkingConfig/includeThoughts", json!(true)),
        (Wire::Gemini, Some(4000), budget, json!(1000)),
        (Wire::Ollama, None, "/think", json!(true)),
    ];
    for (wire, max_tokens, place, expected) in cases {
        let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
        let sampling =
            Sampling { thinking: Some(true), temperature: Some(0.5), max_tokens, ..Sampling::default() };
        let (_, error) = read(&*model(wire, &server), ChatRequest { sampling, ..asked("hi") }).await;
        assert!(error.is_none(), "{wire:?}: {error:?}");
        let body = server.requests()[0].body.clone();
        assert_eq!(body.pointer(place), Some(&expected), "{wire:?}: {body}");
        // Anthropic refuses a temperature with it.
        assert!(body.get("temperature").is_none(), "{wire:?}: {body}");
    }
}
