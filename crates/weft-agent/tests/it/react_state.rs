//! Saved sessions continue in another process.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use weft_agent::message::Message;
use weft_agent::react::{ReActAgent, SessionState};
use weft_agent::toolkit::{Group, Toolkit};
use weft_core::ErrorKind;
use weft_core::seam::chat_model::ChatRequest;
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, call, finish, look, remembered, script};

/// An agent with two groups of tools that are switched off.
fn agent(model: &ScriptedModel) -> ReActAgent {
    let tools = Toolkit::new();
    for name in ["extra", "rare"] {
        let group = Group { active: false, description: String::new(), notes: String::new() };
        tools.add_group(name, group).unwrap();
        let mut tool = look().in_group(name);
        tool.name = name.to_owned();
        tools.register(tool).unwrap();
    }
    tools.register(look()).unwrap();
    ada(model).toolkit(tools).build().unwrap()
}

/// The request when this session continues with `and?`.
async fn next_request(saved: &str) -> ChatRequest {
    let model = script([finish("next")]);
    let state: SessionState = serde_json::from_str(saved).unwrap();
    let mut session = agent(&model).resume(state.clone()).unwrap();
    assert_eq!(session.state(), state);
    session.reply("and?").await.unwrap();
    model.requests().remove(0)
}

const MARK: &str = "the next request: ";

/// The other process of the test below.
#[tokio::test]
#[ignore = "it is run by another test, in a process of its own"]
async fn another_process() {
    let mut saved = String::new();
    std::io::stdin().read_to_string(&mut saved).unwrap();
    println!("\n{MARK}{}", serde_json::to_string(&next_request(&saved).await).unwrap());
}

#[tokio::test]
async fn a_saved_session_continues_in_another_process_with_the_same_request() {
    let first = Reply::text("hm").thinking("deep").signature("seal").and_call("look", json!({"q": "x"}));
    let model = script([first, finish("done"), finish("next")]);
    let mut session = agent(&model).session();
    session.toolkit().set_active(&["extra".to_owned()].into()).unwrap();
    session.reply("Q").await.unwrap();
    session.observe("news").await.unwrap();
    let saved = serde_json::to_string(&session.state()).unwrap();
    session.reply("and?").await.unwrap();

    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "react_state::another_process", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    other.stdin.take().unwrap().write_all(saved.as_bytes()).unwrap();
    let said = String::from_utf8(other.wait_with_output().unwrap().stdout).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix(MARK)).expect(&said);
    let request = serde_json::to_value(model.requests().pop().unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Json>(line).unwrap(), request);
    let tools: Vec<_> = request["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(tools, ["extra", "look", "generate_response"]);
    assert_eq!(request["messages"].as_array().unwrap().len(), 9);
}

#[tokio::test]
async fn a_resumed_session_equals_the_saved_one() {
    let mut session = agent(&script([call("x"), finish("done")])).session();
    session.reply(Message::user("Q")).await.unwrap();
    let model = script([]);
    let others = ada(&model).instructions("others").build().unwrap();
    let resumed = others.resume(session.state()).unwrap();
    assert_eq!(resumed.state(), session.state(), "its instructions, too");
    assert_eq!((resumed.id(), remembered(resumed.memory())), (session.id(), remembered(session.memory())));
}

#[tokio::test]
async fn an_incompatible_state_is_refused() {
    let model = script([]);
    let agent = ada(&model).build().unwrap();
    let state = serde_json::to_value(agent.session().state()).unwrap();
    let resume = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut state = state.clone();
        change(&mut state);
        agent.resume(serde_json::from_value(state).unwrap()).map(drop).map_err(|error| error.kind)
    };
    assert_eq!(resume(&|_| {}), Ok(()));
    assert_eq!(resume(&|state| state["format"] = json!(2)), Err(ErrorKind::Conflict));
    assert_eq!(resume(&|state| state["agent"] = json!("Bo")), Err(ErrorKind::Conflict));
    assert_eq!(resume(&|state| state["active_groups"] = json!(["gone"])), Err(ErrorKind::NotFound));
}
