//! How much later turns of a conversation see of earlier tool calls.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::journal::Ending;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest};
use weft_core::seam::{RunStore, SessionStore};
use weft_core::{ErrorKind, RunKey, SessionKey};
use weft_engine::engine::PickedUp;
use weft_engine::{SessionState, StartRun};
use weft_models::script::{Reply, Script};

use crate::golden::samples;
use crate::kit::{asking, turn};
use crate::replays::replayed;
use crate::survival::{World, outcome, runtime};

/// A canvas in which an agent with a calculator answers.
pub(crate) fn canvas(params: &Json) -> String {
    let mut agent = json!({"llm_id": "m", "sys_prompt": "S", "tools": ["Calculator"]});
    agent.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
    let component = |kind: &str, params: Json, to: &[&str]| json!({"obj": {"component_name": kind, "params": params}, "downstream": to, "upstream": []});
    let components = json!({
        "begin": component("Begin", json!({}), &["Agent:A"]),
        "Agent:A": component("Agent", agent, &["Message:M"]),
        "Message:M": component("Message", json!({"content": ["{Agent:A@content}"]}), &[]),
    });
    json!({"components": components}).to_string()
}

/// The first turn calls twice, the second one only answers.
fn script() -> Script {
    let calculate = |sum: &str| Reply::call("calculator_0", json!({"expression": sum}));
    Script::new()
        .reply(
            calculate("6 * 7")
                .and_call("calculator_0", json!({"expression": "1 / 0"}))
                .when_user("first")
                .times(1),
        )
        .reply(Reply::text("It is 42.").when_user("first").times(1))
        .reply(Reply::text("As I said.").when_user("second").always())
}

async fn world(params: Json) -> World {
    World::of(&samples().join("agent_tools"), &canvas(&params), script()).await
}

/// Author, text, calls and result ids of each message.
fn told(request: &ChatRequest) -> Vec<String> {
    let one = |message: &ChatMessage| {
        let calls: Vec<_> = message.tool_calls.iter().map(|c| format!("{}={}", c.id, c.arguments)).collect();
        match (&message.tool_call_id, calls.is_empty()) {
            (Some(id), _) => format!("tool {id}: {}", message.text),
            (None, true) => format!("{:?}: {}", message.author, message.text),
            (None, false) => format!("{:?}: {} [{}]", message.author, message.text, calls.join(" ")),
        }
    };
    request.messages.iter().filter(|message| message.author != Author::System).map(one).collect()
}

fn last_asked(world: &World) -> Vec<String> {
    told(world.model.requests().last().unwrap())
}

const QUOTIENT: &str = r#"{"expression":"1 / 0"}"#;

#[tokio::test(start_paused = true)]
async fn the_next_turn_sees_which_tools_were_called() {
    let world = world(json!({})).await;
    world.hold(&asking("first")).await;
    world.hold(&asking("second")).await;
    let told = last_asked(&world);
    assert_eq!(told.len(), 3, "{told:#?}");
    let (question, summary) = told[0].split_once("\n\n").unwrap();
    assert_eq!((question, &*told[1], &*told[2]), ("User: first", "Assistant: It is 42.", "User: second"));
    let lines: Vec<_> = summary.lines().collect();
    assert_eq!(lines[2], r#"- calculator_0({"expression":"6 * 7"}) -> 42"#, "{summary}");
    assert!(lines[3].starts_with(&format!("- calculator_0({QUOTIENT}) -> failed: ")), "{summary}");
    assert_eq!(
        (lines[0], lines[4], lines.len()),
        ("<tool_calls_made>", "</tool_calls_made>", 5),
        "{summary}"
    );
}

#[tokio::test(start_paused = true)]
async fn past_calls_may_be_kept_as_messages_or_dropped() {
    let full = world(json!({"tool_history": "full"})).await;
    full.hold(&asking("first")).await;
    full.hold(&asking("second")).await;
    full.hold(&asking("second again")).await;
    let told = last_asked(&full);
    let asks = format!(r#"Assistant:  [call_1={{"expression":"6 * 7"}} call_2={QUOTIENT}]"#);
    assert_eq!((&*told[0], &told[1], &*told[2]), ("User: first", &asks, "tool call_1: 42"), "{told:#?}");
    assert!(told[3].starts_with("tool call_2: ") && told[4] == "Assistant: It is 42.", "{told:#?}");
    assert_eq!(&told[5..], ["User: second", "Assistant: As I said.", "User: second again"]);

    let none = world(json!({"tool_history": "none"})).await;
    none.hold(&asking("first")).await;
    none.hold(&asking("second")).await;
    assert_eq!(last_asked(&none), ["User: first", "Assistant: It is 42.", "User: second"]);
    assert!(state(&none, &none.key).await.calls.is_empty(), "unshown text is not stored");

    let blind = world(json!({"message_history_window_size": 0})).await;
    blind.hold(&asking("first")).await;
    blind.hold(&asking("second")).await;
    assert_eq!(last_asked(&blind), ["User: second"]);
}

async fn state(world: &World, key: &SessionKey) -> SessionState {
    SessionState::from_json(&world.store.store.load(key).await.unwrap().state).unwrap()
}

async fn turn_of(world: &World, session: &SessionKey, query: &str) -> RunKey {
    let request = StartRun { session: session.clone(), ..turn(&world.plan, asking(query)) };
    let mut handle = world.engine().start(request).await.unwrap();
    while handle.entries.next().await.unwrap().is_some() {}
    handle.key
}

#[tokio::test(start_paused = true)]
async fn sessions_do_not_see_each_others_calls() {
    let world = world(json!({})).await;
    let other = SessionKey::new(&world.key.tenant, "other");
    let session = world.store.store.load(&world.key).await.unwrap();
    let session = weft_core::seam::session_store::Session { key: other.clone(), ..session };
    SessionStore::create(&*world.store.store, &session, &[]).await.unwrap();
    // Both calls in parallel.
    let mine = turn_of(&world, &world.key, "first");
    let theirs = turn_of(&world, &other, "second");
    tokio::join!(mine, theirs);
    turn_of(&world, &other, "second again").await;
    assert_eq!(last_asked(&world), ["User: second", "Assistant: As I said.", "User: second again"]);
    assert!(state(&world, &other).await.calls.is_empty());
    assert_eq!(state(&world, &world.key).await.calls.of(&"Agent:A".into()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn removing_a_turn_removes_its_calls() {
    let world = world(json!({})).await;
    let first = turn_of(&world, &world.key, "first").await;
    world.store.store.forget_run(&world.key, &first.id).await.unwrap();
    turn_of(&world, &world.key, "second").await;
    assert_eq!(last_asked(&world), ["User: second"]);
    assert!(state(&world, &world.key).await.calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_failed_turn_are_seen_when_the_question_is_asked_again() {
    let script = Script::new()
        .reply(Reply::call("calculator_0", json!({"expression": "6 * 7"})))
        .reply(Reply::error(ErrorKind::Invalid, "the model breaks"))
        .reply(Reply::text("It was 42."));
    let canvas = canvas(&json!({"tool_history": "full", "max_retries": 0}));
    let world = World::of(&samples().join("agent_tools"), &canvas, script).await;
    assert_eq!(outcome(&world.hold(&asking("first")).await).0, Ending::Failed);
    assert_eq!(outcome(&world.hold(&asking("first")).await).0, Ending::Succeeded);
    let asks = r#"Assistant:  [call_1={"expression":"6 * 7"}]"#;
    assert_eq!(last_asked(&world), ["User: first", asks, "tool call_1: 42", "User: first"]);
}

/// The state of a session from before the call list existed.
#[tokio::test(start_paused = true)]
async fn a_session_saved_without_the_call_list_continues() {
    let world = world(json!({})).await;
    let stored = world.store.store.load(&world.key).await.unwrap().state;
    assert!(stored.get("calls").is_none(), "an empty list takes no space");
    world.hold(&asking("first")).await;
    assert_eq!(state(&world, &world.key).await.calls.of(&"Agent:A".into()).len(), 2);
}

/// Wherever a process is killed, the next turn sees the same calls, each once; and a replayed turn sends the
/// same requests.
#[test]
fn a_crash_does_not_change_what_the_next_turn_sees() {
    let whole = runtime().block_on(async {
        let world = world(json!({"tool_history": "full"})).await;
        let entries = world.hold(&asking("first")).await;
        let second = turn_of(&world, &world.key, "second").await;
        assert_eq!(replayed(&world, &second).await.differences, []);
        (entries.len() as u64, last_asked(&world))
    });
    for cut in 1..whole.0 {
        let (world, key) = runtime().block_on(async {
            let world = world(json!({"tool_history": "full"})).await;
            world.cut_at(Some(cut));
            let handle = world.engine().start(turn(&world.plan, asking("first"))).await.unwrap();
            world.store.stalled.notified().await;
            (world, handle.key)
        });
        runtime().block_on(async {
            world.cut_at(None);
            let run = world.store.get(&key).await.unwrap();
            if let PickedUp::Running(mut handle) =
                world.engine().pick_up(&run, Arc::clone(&world.plan)).await.unwrap()
            {
                while handle.entries.next().await.unwrap().is_some() {}
            }
            let second = turn_of(&world, &world.key, "second").await;
            assert_eq!(last_asked(&world), whole.1, "cut after {cut}");
            assert_eq!(replayed(&world, &second).await.differences, [], "cut after {cut}");
        });
    }
}
