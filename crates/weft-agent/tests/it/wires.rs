//! The same agent over every provider protocol.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_agent::driver::{Answer, Driver, End, Job};
use weft_agent::native::Native;
use weft_agent::tool_search::{Seeker, ToolSearch, add_search};
use weft_agent::window::tokens_of_tools;
use weft_core::seam::chat_model::ChatModel;
use weft_models::{Directory, ModelEntry, ModelsConfig, Secret, estimate};
use weft_testkit::{Reply, Script, ScriptedServer, Wire};

use crate::kit::{World, question};

fn script() -> Script {
    Script::new()
        .reply(
            Reply::text("I look.")
                .and_call("look", json!({"q": "北京"}))
                .and_call("look", json!({"q": "Oslo"}))
                .usage(30, 9),
        )
        .reply(Reply::call("look", json!({"q": "more"})).usage(50, 4))
        .reply(Reply::pieces(["Sunny ", "and rainy."]).usage(60, 5))
}

fn model(wire: Wire, name: &str, server: &ScriptedServer) -> Arc<dyn ChatModel> {
    let provider = serde_json::from_value(json!(format!("{wire:?}").to_lowercase())).unwrap();
    let mut entry = ModelEntry::new(name, provider);
    entry.base_url = Some(server.base_url.clone());
    entry.api_key = Secret::new("key");
    let config = ModelsConfig { entries: vec![entry], ..ModelsConfig::default() };
    let directory = Directory::open(&config, &weft_net::operator_client().unwrap()).unwrap();
    directory.resolve_with_notice(name).unwrap().0
}

async fn answered(world: &World, model: &dyn ChatModel) -> Answer {
    let job = Job { ctx: &world.ctx, model, tools: &world.toolkit, options: &world.options, writer: None };
    match Native.run(&job, question("Q")).await.unwrap() {
        End::Answered(answer) => answer,
        End::Suspended(form) => panic!("{} waits: {form:?}", model.info().provider),
    }
}

/// The answer of the agent, its trace and its usage.
async fn played(wire: Wire) -> (Answer, Vec<String>, Vec<String>, u64, usize) {
    let server = ScriptedServer::speaking(wire, script()).await;
    let world = World::new([]);
    let answer = answered(&world, &*model(wire, "m", &server)).await;
    let trace = world.trace().iter().map(|call| format!("{} {}", call.started.path, call.result)).collect();
    (answer, trace, world.called(), world.ctx.budget.spent().tokens, server.requests().len())
}

#[tokio::test]
async fn every_wire_gives_the_same_transcript() {
    let expected = played(Wire::ALL[0]).await;
    assert_eq!(expected.0.text, "I look.\n\nSunny and rainy.");
    assert_eq!((expected.1.len(), expected.2.len(), expected.3, expected.4), (3, 3, 158, 3));
    for wire in &Wire::ALL[1..] {
        assert_eq!(played(*wire).await, expected, "{wire:?}");
    }
}

/// Five hundred tools, found by the search of the provider or by ours.
fn many() -> World {
    let world = World::new([]);
    for place in 0..500 {
        let about = format!("Does the thing number {place}, at some length and for many reasons.");
        world.echo(&format!("thing_{place}"), |tool| tool.description = about);
    }
    world
}

#[tokio::test]
async fn five_hundred_tools_are_searched_by_a_capable_provider() {
    let script = Script::new()
        .reply(
            Reply::text("I search.")
                .tool_search("thing seven", ["thing_7", "thing_8"])
                .and_call("thing_7", json!({"q": "x"})),
        )
        .reply(Reply::call("thing_8", json!({"q": "y"})))
        .reply(Reply::text("Done."));
    let server = ScriptedServer::speaking(Wire::Anthropic, script).await;
    let model = model(Wire::Anthropic, "claude-sonnet-4-5", &server);
    let world = many();
    assert!(add_search(&world.toolkit, ToolSearch::Auto, Seeker::of(model.info())).unwrap());
    assert_eq!(answered(&world, &*model).await.text, "I search.\n\nDone.");
    assert_eq!(world.called(), [r#"thing_7({"q":"x"})"#, r#"thing_8({"q":"y"})"#]);

    let requests = server.requests();
    let tools = requests[0].body["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["name"]), (502, &json!("tool_search_tool_bm25")));
    assert!(tools[1..].iter().all(|tool| tool["defer_loading"] == true));
    for request in &requests {
        assert_eq!(&request.body["tools"], &requests[0].body["tools"]);
        let prompt = estimate::usage(&request.messages, "").prompt_tokens;
        assert!(prompt <= 2_000 && tokens_of_tools(&request.messages.tools) == 0, "{prompt}");
    }
    // Found tools stay known: the search is sent back in every later request, in its place.
    let kinds = |message: &Json| {
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for request in &requests[1..] {
        let said = &request.body["messages"][1];
        assert_eq!(kinds(said), ["text", "server_tool_use", "tool_search_tool_result", "tool_use"]);
        let found = &said["content"][2]["content"]["tool_references"];
        assert_eq!(found[0], json!({"type": "tool_reference", "tool_name": "thing_7"}));
    }
}

#[tokio::test]
async fn five_hundred_tools_are_searched_by_the_agent_otherwise() {
    for (wire, name) in [
        (Wire::OpenAi, "claude-sonnet-4-5"),
        (Wire::Anthropic, "claude-3-5-haiku"),
        (Wire::Gemini, "gemini"),
        (Wire::Ollama, "qwen"),
    ] {
        let script = Script::new()
            .reply(Reply::call("search_tools", json!({"query": "thing number 7"})))
            .reply(Reply::call("thing_7", json!({"q": "x"})))
            .reply(Reply::text("Done."));
        let server = ScriptedServer::speaking(wire, script).await;
        let model = model(wire, name, &server);
        let world = many();
        assert!(add_search(&world.toolkit, ToolSearch::Auto, Seeker::of(model.info())).unwrap());
        assert_eq!(answered(&world, &*model).await.text, "Done.");
        assert_eq!(world.called(), [r#"thing_7({"q":"x"})"#], "{wire:?}");
        let first = &server.requests()[0];
        assert!(!first.body.to_string().contains("defer"), "{wire:?}");
        let offered: Vec<_> = first.messages.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(offered, ["search_tools"], "{wire:?}");
        assert!(estimate::usage(&first.messages, "").prompt_tokens <= 2_000, "{wire:?}");
    }
}
