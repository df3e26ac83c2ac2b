//! Background tools of an agent in a canvas.

use serde_json::json;
use weft_core::journal::{Ending, Record};
use weft_core::seam::chat_model::Author;
use weft_core::{Entry, Json};
use weft_models::script::{Reply, Script};

use crate::agents_tool_history::canvas;
use crate::golden::samples;
use crate::kit::{asking, turn};
use crate::replays::replayed;
use crate::survival::{World, outcome, runtime};

/// The model starts a calculation and continues with another one before it answers.
async fn world() -> World {
    let tools = json!([
        {"component_name": "Calculator", "name": "Slow", "background": true, "params": {}},
        {"component_name": "CurrentTime", "name": "Clock", "params": {}}
    ]);
    let script = Script::new()
        .reply(Reply::call("calculator_0", json!({"expression": "6 * 7"})))
        .reply(Reply::call("current_time_1", json!({})).delay_ms(100))
        .reply(Reply::text("It is 42.").delay_ms(100).always());
    World::of(&samples().join("agent_tools"), &canvas(&json!({"tools": tools})), script).await
}

/// What each request told the model about background calls.
fn told(world: &World) -> Vec<usize> {
    let told = |m: &weft_core::seam::chat_model::ChatMessage| {
        m.author == Author::User && m.text.contains("The call `background_1`") && m.text.contains("42")
    };
    world.model.requests().iter().map(|request| request.messages.iter().filter(|m| told(m)).count()).collect()
}

fn used_tools(entries: &[Entry]) -> Option<Json> {
    entries.iter().find_map(|entry| match &entry.record {
        Record::NodeFinished { who, outputs, .. } if who.node.as_str() == "Agent:A" => {
            outputs.get("use_tools").and_then(|value| serde_json::to_value(value).ok())
        }
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_background_tool_does_not_delay_the_agent() {
    let world = world().await;
    let mut handle = world.engine().start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
    while handle.entries.next().await.unwrap().is_some() {}
    assert_eq!(told(&world), [0, 0, 1]);
    let journal = world.journal(&handle.key).await;
    assert_eq!(outcome(&journal).0, Ending::Succeeded);
    let used = used_tools(&journal).unwrap().to_string();
    assert!(used.contains("calculator_0") && used.contains("42") && !used.contains("running"), "{used}");
    assert_eq!(replayed(&world, &handle.key).await.differences, []);
}

/// After a crash at any journal entry and recovery by another process, the run ends with the same answer, and
/// the model learns of the call once in each conversation.
#[test]
fn background_calls_survive_a_crash() {
    let mut stops = 0;
    for cut in 1..100 {
        let (world, key) = runtime().block_on(async {
            let world = world().await;
            world.cut_at(Some(cut));
            let mut handle = world.engine().start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
            let speaking = async { while handle.entries.next().await.unwrap().is_some() {} };
            let stalled = world.is_cut_off(speaking).await;
            (world, stalled.then_some(handle.key))
        });
        let Some(key) = key else { break };
        runtime().block_on(async {
            world.cut_at(None);
            world.go_on_with(&key).await;
            let journal = world.journal(&key).await;
            assert_eq!(outcome(&journal).0, Ending::Succeeded, "cut after {cut}");
            assert_eq!(told(&world).last(), Some(&1), "cut after {cut}");
            assert_eq!(replayed(&world, &key).await.differences, [], "cut after {cut}");
            stops += 1;
        });
    }
    assert!(stops > 15, "{stops}");
}
