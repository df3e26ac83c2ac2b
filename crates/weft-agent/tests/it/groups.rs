//! Groups of tools that the model switches on and off.

use serde_json::{Value as Json, json};
use weft_agent::react::{EQUIP_FUNCTION, ReActAgent};
use weft_agent::toolkit::{Group, Toolkit};
use weft_core::ErrorKind;
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, finish, look, script};

fn agent(model: &ScriptedModel) -> ReActAgent {
    let tools = Toolkit::new();
    for (name, notes) in [("maps", "Give coordinates."), ("mail", "")] {
        let group = Group { active: false, description: format!("For {name}."), notes: notes.to_owned() };
        tools.add_group(name, group).unwrap();
        let mut tool = look().in_group(name);
        tool.name = format!("{name}_look");
        tools.register(tool).unwrap();
    }
    tools.register(look()).unwrap();
    ada(model).toolkit(tools).with_meta_tool().build().unwrap()
}

fn offered(model: &ScriptedModel, request: usize) -> Vec<String> {
    model.requests()[request].tools.iter().map(|tool| tool.name.clone()).collect()
}

fn last_result(model: &ScriptedModel) -> String {
    model.requests().pop().unwrap().messages.pop().unwrap().text
}

fn equip(groups: Json) -> Reply {
    Reply::call(EQUIP_FUNCTION, groups)
}

#[tokio::test]
async fn tools_of_an_inactive_group_are_neither_offered_nor_callable() {
    let model = script([Reply::call("maps_look", json!({"q": "x"})), finish("done")]);
    agent(&model).session().reply("Q").await.unwrap();
    assert_eq!(offered(&model, 0), ["look", EQUIP_FUNCTION, "generate_response"]);
    assert!(last_result(&model).contains("its group `maps` isn't active"), "{}", last_result(&model));
}

#[tokio::test]
async fn the_model_switches_groups_on_and_off() {
    let model = script([
        equip(json!({"maps": true})),
        equip(json!({"mail": true, "maps": false})),
        equip(json!({})),
        finish("done"),
    ]);
    let agent = agent(&model);
    let (mut session, other) = (agent.session(), agent.session());
    session.reply("Q").await.unwrap();
    let parameters = &model.requests()[0].tools[1].parameters;
    assert_eq!(parameters["properties"]["maps"]["description"], "For maps.");
    assert_eq!(parameters["properties"]["mail"]["type"], "boolean");
    let requests = model.requests();
    let answers: Vec<_> =
        requests[1..].iter().map(|request| request.messages.last().unwrap().text.clone()).collect();
    assert_eq!(
        answers,
        ["`maps` is active. Give coordinates.", "`mail` is active.", "No group of tools is active."]
    );
    assert!(offered(&model, 1).contains(&"maps_look".to_owned()));
    let second = offered(&model, 2);
    assert!(second.contains(&"mail_look".to_owned()) && !second.contains(&"maps_look".to_owned()));
    assert_eq!(offered(&model, 3), ["look", EQUIP_FUNCTION, "generate_response"]);
    assert!(other.toolkit().active_groups().is_empty(), "groups belong to a session");
}

#[tokio::test]
async fn unknown_groups_are_reported() {
    let model = script([equip(json!({"nosuch": true})), finish("done")]);
    let mut session = agent(&model).session();
    session.reply("Q").await.unwrap();
    assert!(last_result(&model).contains("nosuch"), "{}", last_result(&model));
    assert!(session.toolkit().active_groups().is_empty());
}

#[tokio::test]
async fn the_meta_tool_name_is_reserved() {
    let tools = Toolkit::new();
    tools.add_group("g", Group { active: false, description: String::new(), notes: String::new() }).unwrap();
    let mut tool = look();
    tool.name = EQUIP_FUNCTION.to_owned();
    tools.register(tool).unwrap();
    let built = ada(&script([])).toolkit(tools).with_meta_tool().build();
    assert_eq!(built.unwrap_err().kind, ErrorKind::Conflict);
}
