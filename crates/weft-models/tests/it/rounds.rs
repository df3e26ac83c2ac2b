//! One conversation with tools over four wires: the same messages here, each provider's format there.

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{
    Author, ChatMessage, ChatModel, ChatRequest, StopReason, ToolCall, ToolChoice, Usage,
};
use weft_testkit::{Reply, Script, ScriptedServer, Step, Wire};

use crate::{Transcript, asked, entry, model, open, read, tool};

const QUESTION: &str = "Weather in 北京 and Oslo?";

/// Reasoning with its signature, text, and two calls in one answer; then the text.
fn script() -> Script {
    let calls = Reply::default()
        .thinking("Two cities, ")
        .thinking("two calls.")
        .signature("seal")
        .then(Step::Text("I look.".into()))
        .and_call("get_weather", json!({"city": "北京"}))
        .and_call("get_weather", json!({"city": "Oslo"}))
        .usage(31, 17);
    Script::new().reply(calls).reply(Reply::pieces(["Sunny ", "and rainy."]).usage(60, 5))
}

fn begun() -> ChatRequest {
    let mut request = ChatRequest { tools: [tool("get_weather")].into(), ..asked(QUESTION) };
    request.messages.insert(0, ChatMessage::new(Author::System, "Be brief."));
    request
}

/// The message of an answer in the history.
fn folded(seen: &Transcript) -> ChatMessage {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    ChatMessage {
        tool_calls: seen.calls.clone(),
        thinking: some(&seen.thinking),
        signature: some(&seen.signature),
        ..ChatMessage::new(Author::Assistant, seen.text.clone())
    }
}

async fn heard(model: &dyn ChatModel, request: &ChatRequest) -> Transcript {
    let (seen, error) = read(model, request.clone()).await;
    assert!(error.is_none(), "{}: {error:?}", model.info().provider);
    seen
}

/// Plays the conversation; returns its messages and each request as the server saw it.
async fn played(wire: Wire, model: &dyn ChatModel, server: &ScriptedServer) -> (Vec<ChatMessage>, Vec<Json>) {
    let mut request = begun();
    let first = heard(model, &request).await;
    assert_eq!(first.end, Some((StopReason::ToolCalls, usage(31, 17))), "{wire:?}");
    request.messages.push(folded(&first));
    for (call, result) in first.calls.iter().zip(["sunny", "rainy"]) {
        request.messages.push(ChatMessage::tool(&call.id, result));
    }
    let second = heard(model, &request).await;
    assert_eq!(second.end, Some((StopReason::Stop, usage(60, 5))), "{wire:?}");
    request.messages.push(folded(&second));
    (request.messages, server.requests().into_iter().map(|seen| seen.body).collect())
}

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage { prompt_tokens, completion_tokens, calls: 1, ..Usage::default() }
}

fn listed(wire: Wire, body: &Json) -> &Vec<Json> {
    let list = if wire == Wire::Gemini { "contents" } else { "messages" };
    body[list].as_array().unwrap()
}

#[tokio::test]
async fn every_wire_gives_the_same_conversation() {
    let mut transcripts = Vec::new();
    for wire in Wire::ALL {
        let server = ScriptedServer::speaking(wire, script()).await;
        let (mut messages, bodies) = played(wire, &*model(wire, &server), &server).await;
        let seal = messages[2].signature.take();
        let expected = match wire {
            Wire::Anthropic => Some("seal"),
            Wire::Gemini => Some(r#"{"calls":{"0":"seal"}}"#),
            Wire::OpenAi | Wire::Ollama => None,
        };
        assert_eq!(seal.as_deref(), expected, "{wire:?}");
        let (first, second) = (listed(wire, &bodies[0]), listed(wire, &bodies[1]));
        assert_eq!(first[..], second[..first.len()], "{wire:?}: the history only grows");
        transcripts.push(messages);
    }
    let kinds: Vec<Author> = transcripts[0].iter().map(|message| message.author).collect();
    assert_eq!(
        kinds,
        [Author::System, Author::User, Author::Assistant, Author::Tool, Author::Tool, Author::Assistant]
    );
    let calls = &transcripts[0][2].tool_calls;
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1", "call_2"]);
    assert_eq!(calls[0].arguments, r#"{"city":"北京"}"#);
    assert_eq!(transcripts[0][2].thinking.as_deref(), Some("Two cities, two calls."));
    for (wire, transcript) in Wire::ALL.iter().zip(&transcripts) {
        assert_eq!(transcript, &transcripts[0], "{wire:?}");
    }
}

/// The expected second request of a provider.
struct Shapes {
    messages: Json,
    tools: Json,
    /// Where the tool choice is, and its value.
    choice: (&'static str, Json),
    /// Where the instructions are, if not in a message.
    system: Option<(&'static str, Json)>,
}

fn function() -> Json {
    json!({"type": "function", "function":
        {"name": "get_weather", "description": "a tool", "parameters": tool("get_weather").parameters}})
}

fn of_openai() -> Shapes {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}});
    let messages = json!([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "I look.",
            "tool_calls": [call("call_1", r#"{"city":"北京"}"#), call("call_2", r#"{"city":"Oslo"}"#)]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": "rainy"},
    ]);
    Shapes { messages, tools: json!([function()]), choice: ("/tool_choice", json!("auto")), system: None }
}

fn of_anthropic() -> Shapes {
    let call = |id: &str, city: &str| json!({"type": "tool_use", "id": id, "name": "get_weather", "input": {"city": city}});
    let result =
        |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let messages = json!([
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Two cities, two calls.", "signature": "seal"},
            {"type": "text", "text": "I look."},
            call("call_1", "北京"), call("call_2", "Oslo"),
        ]},
        {"role": "user", "content": [result("call_1", "sunny"), result("call_2", "rainy")]},
    ]);
    let schema = tool("get_weather").parameters;
    let tools = json!([{"name": "get_weather", "description": "a tool", "input_schema": schema}]);
    let system = Some(("/system", json!("Be brief.")));
    Shapes { messages, tools, choice: ("/tool_choice", json!({"type": "auto"})), system }
}

fn of_gemini() -> Shapes {
    let call = |city: &str| json!({"name": "get_weather", "args": {"city": city}});
    let result = |text: &str| {
        json!({"functionResponse":
            {"name": "get_weather", "response": {"name": "get_weather", "content": text}}})
    };
    let messages = json!([
        {"role": "user", "parts": [{"text": QUESTION}]},
        {"role": "model", "parts": [
            {"text": "I look."},
            {"functionCall": call("北京"), "thoughtSignature": "seal"}, {"functionCall": call("Oslo")},
        ]},
        {"role": "user", "parts": [result("sunny"), result("rainy")]},
    ]);
    let schema = tool("get_weather").parameters;
    let declaration = json!({"name": "get_weather", "description": "a tool", "parametersJsonSchema": schema});
    Shapes {
        messages,
        tools: json!([{"functionDeclarations": [declaration]}]),
        choice: ("/toolConfig/functionCallingConfig", json!({"mode": "AUTO"})),
        system: Some(("/systemInstruction/parts/0/text", json!("Be brief."))),
    }
}

fn of_ollama() -> Shapes {
    let call = |city: &str| json!({"function": {"name": "get_weather", "arguments": {"city": city}}});
    let messages = json!([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("北京"), call("Oslo")]},
        {"role": "tool", "content": "sunny"}, {"role": "tool", "content": "rainy"},
    ]);
    // Ollama has no tool choice.
    Shapes { messages, tools: json!([function()]), choice: ("/tool_choice", Json::Null), system: None }
}

#[tokio::test]
async fn each_provider_gets_its_own_format() {
    for wire in Wire::ALL {
        let expected = match wire {
            Wire::OpenAi => of_openai(),
            Wire::Anthropic => of_anthropic(),
            Wire::Gemini => of_gemini(),
            Wire::Ollama => of_ollama(),
        };
        let server = ScriptedServer::speaking(wire, script()).await;
        let (_, bodies) = played(wire, &*model(wire, &server), &server).await;
        let body = &bodies[1];
        assert_eq!(Json::Array(listed(wire, body).clone()), expected.messages, "{wire:?}");
        for body in &bodies {
            let at = |place: &str| body.pointer(place).cloned().unwrap_or_default();
            assert_eq!(body["tools"], expected.tools, "{wire:?}: in every round");
            assert_eq!(at(expected.choice.0), expected.choice.1, "{wire:?}: in every round");
            if let Some((place, system)) = &expected.system {
                assert_eq!(&at(place), system, "{wire:?}");
            }
        }
    }
}

#[tokio::test]
async fn reasoning_is_sent_back_to_families_that_need_it() {
    for (name, expected) in [
        ("deepseek-reasoner", Some("Two cities, two calls.")),
        ("Kimi-K2-Thinking", Some("Two cities, two calls.")),
        ("gpt-4o", None),
    ] {
        let server = ScriptedServer::start(script()).await;
        let mut entry = entry(Wire::OpenAi, &server);
        entry.model = Some(name.into());
        let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
        let (_, bodies) = played(Wire::OpenAi, &*model, &server).await;
        assert_eq!(bodies[1]["messages"][2]["reasoning_content"].as_str(), expected, "{name}");
    }
}

/// The body of one request on a wire, and the answer to it.
async fn sent(wire: Wire, request: ChatRequest) -> (Json, Transcript) {
    let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
    let seen = heard(&*model(wire, &server), &request).await;
    (server.requests()[0].body.clone(), seen)
}

#[tokio::test]
async fn tool_choice_is_translated_for_every_wire() {
    let none = json!(null);
    let named = || ToolChoice::Named("b".into());
    let cases = [
        (Wire::OpenAi, ToolChoice::Required, json!("required"), "ab", false),
        (Wire::OpenAi, named(), json!({"type": "function", "function": {"name": "b"}}), "ab", false),
        (Wire::OpenAi, ToolChoice::None, none.clone(), "", false),
        (Wire::Anthropic, ToolChoice::Required, json!({"type": "any"}), "ab", false),
        (Wire::Anthropic, named(), json!({"type": "tool", "name": "b"}), "ab", false),
        (Wire::Anthropic, ToolChoice::None, json!({"type": "none"}), "ab", false),
        (Wire::Gemini, ToolChoice::Required, json!({"mode": "ANY"}), "ab", false),
        (Wire::Gemini, named(), json!({"mode": "ANY", "allowedFunctionNames": ["b"]}), "ab", false),
        (Wire::Gemini, ToolChoice::None, none.clone(), "", false),
        (Wire::Ollama, ToolChoice::Required, none.clone(), "ab", true),
        (Wire::Ollama, named(), none.clone(), "b", true),
        (Wire::Ollama, ToolChoice::None, none.clone(), "", false),
    ];
    for (wire, choice, expected, tools, warned) in cases {
        // A conversation that contains a call, since then Anthropic requires its tools.
        let mut request = asked("go");
        let mut said = ChatMessage::new(Author::Assistant, "");
        said.tool_calls.push(ToolCall {
            id: "call_1".into(),
            name: "a".into(),
            arguments: "not json".into(),
        });
        request.messages.extend([said, ChatMessage::tool("call_1", "wrong arguments")]);
        request.tools = [tool("a"), tool("b")].into();
        request.tool_choice = choice.clone();
        let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
        let seen = heard(&*model(wire, &server), &request).await;
        let arrived = server.requests().remove(0);
        let place = if wire == Wire::Gemini { "/toolConfig/functionCallingConfig" } else { "/tool_choice" };
        let body = &arrived.body;
        assert_eq!(body.pointer(place).cloned().unwrap_or_default(), expected, "{wire:?} {choice:?}");
        let names: String = arrived.messages.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, tools, "{wire:?} {choice:?}");
        assert_eq!(body.get("tools").is_some(), !tools.is_empty(), "{wire:?} {choice:?}");
        assert_eq!(!seen.warnings.is_empty(), warned, "{wire:?} {choice:?}: {:?}", seen.warnings);
        assert!(!body.to_string().contains("not json"), "{wire:?}: {body}");
    }
}

#[tokio::test]
async fn without_tools_no_wire_sends_tools() {
    for wire in Wire::ALL {
        let (body, _) = sent(wire, asked("hi")).await;
        for key in ["tools", "tool_choice", "toolConfig"] {
            assert_eq!(body.get(key), None, "{wire:?}: {body}");
        }
        let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
        let mut entry = entry(wire, &server);
        entry.tools = false;
        let model = open(vec![entry]).unwrap().resolve_with_notice("m").unwrap().0;
        assert!(!model.info().tools);
        let request = ChatRequest { tools: [tool("a")].into(), ..asked("hi") };
        let seen = heard(&*model, &request).await;
        assert_eq!(server.requests()[0].body.get("tools"), None, "{wire:?}");
        assert_eq!(seen.warnings, ["`m` is configured without tools; they were not sent"], "{wire:?}");
    }
}

#[tokio::test]
async fn a_tool_may_have_a_name_that_a_provider_uses_itself() {
    for wire in Wire::ALL {
        for name in ["web_search", "codeExecution", "googleSearch"] {
            let server = ScriptedServer::speaking(wire, Script::text("ok")).await;
            let request = ChatRequest { tools: [tool(name)].into(), ..asked("hi") };
            heard(&*model(wire, &server), &request).await;
            let arrived = server.requests().remove(0).messages.tools;
            assert_eq!(arrived[0], tool(name), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn result_images_are_sent_with_the_result_or_after_the_round() {
    const IMAGE: &str = "data:image/png;base64,AA==";
    for wire in Wire::ALL {
        let mut request = begun();
        let mut said = ChatMessage::new(Author::Assistant, "");
        for id in ["call_1", "call_2"] {
            let (name, arguments) = ("get_weather".into(), "{}".into());
            said.tool_calls.push(ToolCall { id: id.into(), name, arguments });
        }
        let seen = ChatMessage { images: vec![IMAGE.into()], ..ChatMessage::tool("call_1", "a photo") };
        request.messages.extend([said, seen, ChatMessage::tool("call_2", "none")]);
        let (body, _) = sent(wire, request).await;
        let messages = texts(wire, &body);
        let last = listed(wire, &body).last().unwrap();
        let place = match wire {
            Wire::OpenAi => "/content/1/image_url/url",
            Wire::Anthropic => "/content/0/content/1/source/data",
            Wire::Gemini => "/parts/1/inline_data/data",
            Wire::Ollama => "/images/0",
        };
        let image = last.pointer(place).and_then(Json::as_str).unwrap_or_else(|| panic!("{wire:?}: {body}"));
        assert!(image == "AA==" || image == IMAGE, "{wire:?}: {image}");
        let (photo, none) = (messages.find("a photo").unwrap(), messages.find("none").unwrap());
        assert!(photo < none, "{wire:?}: {messages}");
        if wire != Wire::Anthropic {
            assert_eq!(last["role"], "user", "{wire:?}");
            assert!(none < messages.find("Images from the results").unwrap(), "{wire:?}: {messages}");
        }
    }
}

fn texts(wire: Wire, body: &Json) -> String {
    Json::Array(listed(wire, body).clone()).to_string()
}
