//! Messages, their content, and a memory of messages.

use serde_json::{Value as Json, json};
use weft_agent::memory::{MESSAGES_MAX, Memory};
use weft_agent::message::{BlockKind, ContentBlock, Message, Role, Source, ToolResult, ToolUse};

fn call(id: &str, name: &str, input: Json) -> ContentBlock {
    let Json::Object(input) = input else { panic!("the input is an object") };
    ContentBlock::ToolUse(ToolUse { id: id.to_owned(), name: name.to_owned(), input, raw_input: None })
}

fn result(id: &str, name: &str, output: Vec<ContentBlock>) -> Message {
    Message::tool_result(ToolResult { id: id.to_owned(), name: name.to_owned(), output })
}

fn asks(blocks: Vec<ContentBlock>) -> Message {
    Message::new(Role::Assistant, "Ada", blocks)
}

#[test]
fn every_kind_of_block_survives_json() {
    let here = Source::Base64 { media_type: "image/png".to_owned(), data: "AA==".to_owned() };
    let there = Source::Url { url: "https://example.org/a.mp3".to_owned() };
    let mut message = asks(vec![
        ContentBlock::text("hello"),
        ContentBlock::Thinking { thinking: "hm".to_owned(), signature: Some("seal".to_owned()) },
        call("1", "look", json!({"q": "x", "deep": {"n": [1, 2]}})),
        ContentBlock::ToolUse(ToolUse {
            id: "2".to_owned(),
            name: "look".to_owned(),
            input: serde_json::Map::new(),
            raw_input: Some("{\"q\": ".to_owned()),
        }),
        ContentBlock::ToolResult(ToolResult {
            id: "1".to_owned(),
            name: "look".to_owned(),
            output: vec![ContentBlock::text("found"), ContentBlock::Image { source: here.clone() }],
        }),
        ContentBlock::Image { source: here },
        ContentBlock::Audio { source: there.clone() },
        ContentBlock::Video { source: there },
    ]);
    message.metadata.insert("score".to_owned(), json!(1));
    message.timestamp_ms = 7;
    let written = serde_json::to_string(&message).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&written).unwrap(), message);
    let json: Json = serde_json::from_str(&written).unwrap();
    let types: Vec<_> = json["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    let expected = ["text", "thinking", "tool_use", "tool_use", "tool_result", "image", "audio", "video"]
        .map(Json::from);
    assert_eq!(types, expected.iter().collect::<Vec<_>>());
    assert_eq!(json["content"][5]["source"]["type"], "base64");
    assert_eq!(json["content"][6]["source"], json!({"type": "url", "url": "https://example.org/a.mp3"}));
}

#[test]
fn content_may_be_read_from_a_plain_string() {
    let read: Message =
        serde_json::from_value(json!({"id": "m", "name": "Bo", "role": "user", "content": "hi"})).unwrap();
    assert_eq!((read.text().as_str(), read.role, read.timestamp_ms), ("hi", Role::User, 0));
    let result: ToolResult =
        serde_json::from_value(json!({"id": "1", "name": "look", "output": "found"})).unwrap();
    assert_eq!(result.output, [ContentBlock::text("found")]);
    let unknown = json!({"id": "m", "name": "Bo", "role": "user", "content": [{"type": "smell"}]});
    assert!(serde_json::from_value::<Message>(unknown).is_err());
}

#[test]
fn messages_give_their_text_and_blocks() {
    let message = asks(vec![
        ContentBlock::text("one"),
        call("1", "look", json!({})),
        ContentBlock::Thinking { thinking: "hidden".to_owned(), signature: None },
        ContentBlock::text("two"),
    ]);
    assert_eq!(message.text(), "one\ntwo");
    assert!(message.has(BlockKind::ToolUse) && !message.has(BlockKind::Image));
    assert_eq!(message.blocks_of(BlockKind::Text).count(), 2);
    assert_eq!(message.tool_uses().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["look"]);
    let data = "data:image/png;base64,AA==";
    assert_eq!(Source::of_url(data).to_url(), data);
    assert!(matches!(Source::of_url("https://example.org/a.png"), Source::Url { .. }));
    assert_ne!(Message::user("a").id, Message::user("a").id);
}

#[test]
fn calls_are_counted_and_extracted_with_their_results() {
    let mut memory = Memory::new();
    memory.add(Message::user("Q"));
    memory.add(asks(vec![call("1", "look", json!({"q": "x"})), call("2", "add", json!({"n": 1}))]));
    memory.add(result("1", "look", vec![ContentBlock::text("found x")]));
    memory.add(asks(vec![call("3", "look", json!({"q": "y"}))]));
    assert_eq!((memory.count_tool_uses(None), memory.count_tool_uses(Some("look"))), (3, 2));
    assert_eq!(memory.count_tool_uses(Some("none")), 0);
    let told: Vec<_> = memory
        .tool_uses(Some("look"))
        .into_iter()
        .map(|used| (Json::Object(used.call.input), used.result.map(|result| result.output)))
        .collect();
    let found = vec![ContentBlock::text("found x")];
    assert_eq!(told, [(json!({"q": "x"}), Some(found)), (json!({"q": "y"}), None)]);
    let names: Vec<_> = memory.tool_uses(None).into_iter().map(|used| used.call.name).collect();
    assert_eq!(names, ["look", "add", "look"]);
}

#[test]
fn a_memory_holds_each_message_once_and_can_delete() {
    let mut memory = Memory::new();
    let (first, second) = (Message::user("a"), Message::user("b"));
    memory.add(first.clone());
    memory.add(second.clone());
    memory.add(first.clone());
    assert_eq!(memory.messages(), [first.clone(), second.clone()]);
    assert_eq!(memory.remove(&[&first.id, "unknown"]), 1);
    assert_eq!(memory.messages(), [second]);
    memory.clear();
    assert!(memory.is_empty());
}

#[test]
fn unanswered_calls_are_closed_in_place() {
    let mut memory = Memory::new();
    memory.add(asks(vec![call("1", "a", json!({})), call("2", "b", json!({}))]));
    memory.add(result("1", "a", vec![ContentBlock::text("done")]));
    memory.add(Message::user("next"));
    assert_eq!(memory.open_tool_uses().len(), 1);
    memory.close_tool_uses("stopped");
    let kept: Vec<_> = memory
        .messages()
        .iter()
        .map(|message| message.tool_results().map(|result| result.id.clone()).collect::<Vec<_>>())
        .collect();
    assert_eq!(kept, [vec![], vec!["1".to_owned()], vec!["2".to_owned()], vec![]]);
    let before = memory.clone();
    memory.close_tool_uses("stopped");
    assert_eq!(memory, before, "closing twice changes nothing");
}

#[test]
fn a_memory_has_a_maximum_and_never_keeps_a_result_without_its_call() {
    let mut memory = Memory::new();
    memory.add(asks(vec![call("1", "a", json!({}))]));
    memory.add(result("1", "a", vec![]));
    for n in 0..MESSAGES_MAX - 1 {
        memory.add(Message::user(n.to_string()));
    }
    assert_eq!(memory.len(), MESSAGES_MAX - 1);
    assert_eq!(memory.messages()[0].text(), "0");
}
