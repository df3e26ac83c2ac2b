//! Messages to a running agent.

use std::time::Duration;

use serde_json::json;
use weft_core::journal::{Ending, Record};
use weft_core::seam::chat_model::Author;
use weft_core::seam::run_messages::RunMessage;
use weft_core::seam::{RunMessages, SessionStore};
use weft_core::{Entry, SessionKey};
use weft_models::script::{Reply, Script};

use crate::agents_tool_history::canvas;
use crate::golden::samples;
use crate::kit::{asking, turn};
use crate::replays::replayed;
use crate::survival::{World, outcome, runtime};

/// The model calls a slow tool, then answers.
async fn world() -> World {
    slow_world(100).await
}

async fn slow_world(delay_ms: u64) -> World {
    calling_world(1, delay_ms).await
}

async fn calling_world(calls: usize, delay_ms: u64) -> World {
    let call = || Reply::call("calculator_0", json!({"expression": "6 * 7"})).delay_ms(delay_ms);
    let script = (0..calls)
        .fold(Script::new(), |script, _| script.reply(call()))
        .reply(Reply::text("It is 42.").delay_ms(delay_ms).always());
    World::of(&samples().join("agent_tools"), &canvas(&json!({})), script).await
}

async fn until_asked(world: &World, times: usize) {
    while world.model.requests().len() < times {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Role and text of each message of the conversation.
async fn conversation(world: &World) -> Vec<String> {
    let messages = world.store.store.messages(&world.key, i64::MAX, 100).await.unwrap();
    messages.iter().map(|message| format!("{}: {}", message.role, message.content)).collect()
}

fn users_words(world: &World, request: usize) -> Vec<String> {
    let messages = world.model.requests().remove(request).messages;
    messages.into_iter().filter(|m| m.author == Author::User).map(|m| m.text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_read_before_the_next_request() {
    let (world, other) = (world().await, SessionKey::new(&"t".into(), "other"));
    let engine = world.engine();
    assert!(engine.send(&world.key, "Nobody is there.").unwrap().is_none());
    let mut handle = engine.start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
    until_asked(&world, 1).await;
    assert!(engine.send(&other, "Somebody else's.").unwrap().is_none());
    let withdrawn = engine.send(&world.key, "Never mind.").unwrap().unwrap();
    let (run, mut sent) = engine.send(&world.key, "In French, please.").unwrap().unwrap();
    drop(withdrawn);
    assert_eq!(run, handle.key);
    assert!(sent.taken().await);
    until_asked(&world, 2).await;
    // The model has given its last answer before this message arrives.
    let (_, mut late) = engine.send(&world.key, "Too late.").unwrap().unwrap();
    while handle.entries.next().await.unwrap().is_some() {}
    assert!(!late.taken().await, "it is taken as the next question");
    assert_eq!(users_words(&world, 0), ["What is 6 * 7?"]);
    assert_eq!(users_words(&world, 1), ["What is 6 * 7?", "In French, please."]);
    let asked = world.model.requests().remove(1).messages;
    let order: Vec<_> = asked.iter().rev().take(3).map(|message| message.author).collect();
    assert_eq!(order, [Author::User, Author::Tool, Author::Assistant], "after the results of its calls");
    let expected = ["user: What is 6 * 7?", "user: In French, please.", "assistant: It is 42."];
    assert_eq!(conversation(&world).await, expected);
    assert_eq!(replayed(&world, &run).await.differences, []);
}

#[tokio::test(start_paused = true)]
async fn the_planner_reads_a_message_before_its_next_step() {
    let step = r#"[{"name": "calculator_0", "arguments": {"expression": "6 * 7"}}]"#;
    let close = r#"[{"name": "complete_task", "arguments": {"answer": "42"}}]"#;
    let script = [step, close, "C'est 42."]
        .into_iter()
        .fold(Script::new(), |script, reply| script.reply(Reply::text(reply).delay_ms(100)));
    let canvas = canvas(&json!({"driver": "planner"}));
    let world = World::of(&samples().join("agent_tools"), &canvas, script).await;
    let engine = world.engine();
    let mut handle = engine.start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
    until_asked(&world, 1).await;
    let (_, mut sent) = engine.send(&world.key, "In French, please.").unwrap().unwrap();
    assert!(sent.taken().await);
    while handle.entries.next().await.unwrap().is_some() {}
    let told = |request: usize| users_words(&world, request).join("\n").contains("In French, please.");
    assert_eq!([0, 1, 2].map(told), [false, true, true], "it counts towards the answer, too");
    let expected = ["user: What is 6 * 7?", "user: In French, please.", "assistant: C'est 42."];
    assert_eq!(conversation(&world).await, expected);
    assert_eq!(replayed(&world, &handle.key).await.differences, []);
}

fn has_taken(entries: &[Entry]) -> bool {
    let taken =
        |entry: &Entry| matches!(&entry.record, Record::EffectFinished { key, .. } if &**key == "message#0");
    entries.iter().any(taken)
}

/// After a crash at any journal entry, messages recorded as read are replayed once at the same place;
/// unrecorded ones were never acknowledged.
#[test]
fn read_messages_survive_a_crash() {
    let (mut read, mut lost) = (0, 0);
    for cut in 1..100 {
        let (world, key) = runtime().block_on(async {
            let world = world().await;
            world.cut_at(Some(cut));
            let engine = world.engine();
            let mut handle = engine.start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
            let speaking = async {
                until_asked(&world, 1).await;
                let sent = engine.send(&world.key, "In French, please.").unwrap();
                while handle.entries.next().await.unwrap().is_some() {}
                drop(sent);
            };
            let stalled = world.is_cut_off(speaking).await;
            (world, stalled.then_some(handle.key))
        });
        // The run had ended before this number of entries.
        let Some(key) = key else { break };
        runtime().block_on(async {
            world.cut_at(None);
            let known = has_taken(&world.journal(&key).await);
            world.go_on_with(&key).await;
            assert_eq!(outcome(&world.journal(&key).await).0, Ending::Succeeded, "cut after {cut}");
            let said = conversation(&world).await.iter().filter(|m| m.contains("In French")).count();
            assert_eq!(said, usize::from(known), "cut after {cut}");
            if known {
                let last = world.model.requests().len() - 1;
                let expected = ["What is 6 * 7?", "In French, please."];
                assert_eq!(users_words(&world, last), expected, "cut after {cut}");
            }
            assert_eq!(replayed(&world, &key).await.differences, [], "cut after {cut}");
            *if known { &mut read } else { &mut lost } += 1;
        });
    }
    assert!(read > 3 && lost > 3, "{read} {lost}");
}

/// As long as a process takes to notice a message left by another one.
const NOTICED_MS: u64 = 2_500;

#[tokio::test(start_paused = true)]
async fn a_message_sent_through_another_process_is_read_before_the_next_request() {
    let world = slow_world(NOTICED_MS).await;
    let (here, there) = (world.engine(), world.engine());
    assert!(there.leave_message(&world.key, "Nobody is there.").await.unwrap().is_none());
    let mut handle = here.start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
    until_asked(&world, 1).await;
    assert!(there.send(&world.key, "It is not here.").unwrap().is_none());
    let withdrawn = there.leave_message(&world.key, "Never mind.").await.unwrap().unwrap();
    let left = there.leave_message(&world.key, "In French, please.").await.unwrap().unwrap();
    assert!(withdrawn.take_back().await.unwrap());
    // As if its client disconnected.
    drop(there.leave_message(&world.key, "Nor this.").await.unwrap());
    assert_eq!(left.run, handle.key);
    assert!(left.taken().await.unwrap());
    until_asked(&world, 2).await;
    let late = there.leave_message(&world.key, "Too late.").await.unwrap().unwrap();
    while handle.entries.next().await.unwrap().is_some() {}
    assert!(!late.taken().await.unwrap(), "it is taken as the next question");
    assert_eq!(users_words(&world, 1), ["What is 6 * 7?", "In French, please."]);
    let expected = ["user: What is 6 * 7?", "user: In French, please.", "assistant: It is 42."];
    assert_eq!(conversation(&world).await, expected);
    assert_eq!(replayed(&world, &handle.key).await.differences, []);
}

/// After a crash at any journal entry, the recovering process reads the message that was left unless it was
/// read before: once in total.
#[test]
fn a_message_left_by_another_process_is_read_once_after_a_crash() {
    let (mut before, mut after) = (0, 0);
    for cut in 1..100 {
        let (world, key) = runtime().block_on(async {
            let world = calling_world(2, NOTICED_MS).await;
            world.cut_at(Some(cut));
            let engine = world.engine();
            let mut handle = engine.start(turn(&world.plan, asking("What is 6 * 7?"))).await.unwrap();
            let (run, text) = (handle.key.clone(), "In French, please.".to_owned());
            let message = RunMessage { run, id: "m".to_owned(), text, sent_ms: 0 };
            assert!(world.store.store.leave_message(&message).await.unwrap());
            let listening = async { while handle.entries.next().await.unwrap().is_some() {} };
            let stalled = world.is_cut_off(listening).await;
            (world, stalled.then_some(handle.key))
        });
        let Some(key) = key else { break };
        runtime().block_on(async {
            world.cut_at(None);
            let known = has_taken(&world.journal(&key).await);
            world.go_on_with(&key).await;
            assert_eq!(outcome(&world.journal(&key).await).0, Ending::Succeeded, "cut after {cut}");
            let waits = world.store.store.message_waits(&key, "m").await.unwrap();
            let said = conversation(&world).await.iter().filter(|m| m.contains("In French")).count();
            assert_eq!((said, waits), (1, false), "cut after {cut}: it is read once and removed");
            assert_eq!(replayed(&world, &key).await.differences, [], "cut after {cut}");
            *if known { &mut before } else { &mut after } += 1;
        });
    }
    assert!(before > 3 && after > 3, "{before} {after}");
}
