//! The same agent over every provider protocol.

use serde_json::json;
use weft_agent::driver::{Answer, Driver, End, Job};
use weft_agent::native::Native;
use weft_models::{Directory, ModelEntry, ModelsConfig, Secret};
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

/// What the agent gave, what it traced and what it used.
async fn played(wire: Wire) -> (Answer, Vec<String>, Vec<String>, u64, usize) {
    let server = ScriptedServer::speaking(wire, script()).await;
    let provider = serde_json::from_value(json!(format!("{wire:?}").to_lowercase())).unwrap();
    let mut entry = ModelEntry::new("m", provider);
    entry.base_url = Some(server.base_url.clone());
    entry.api_key = Secret::new("key");
    let config = ModelsConfig { entries: vec![entry], ..ModelsConfig::default() };
    let directory = Directory::open(&config, &weft_net::operator_client().unwrap()).unwrap();
    let model = directory.resolve_with_notice("m").unwrap().0;
    let world = World::new([]);
    let job =
        Job { ctx: &world.ctx, model: &*model, tools: &world.toolkit, options: &world.options, writer: None };
    let End::Answered(answer) = Native.run(&job, question("Q")).await.unwrap() else {
        panic!("{wire:?} waits")
    };
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
