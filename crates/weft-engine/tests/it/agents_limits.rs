//! Limits of agents in whole canvases: budgets, nesting, and parameters they cannot change.

use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::budget::Limit;
use weft_core::context::Limited;
use weft_core::journal::Ending;
use weft_core::seam::chat_model::ToolChoice;
use weft_models::script::{Reply, Script};
use weft_models::scripted::ScriptedModel;

use crate::agents::{agent, canvas, join, paths, retrieval, sub, task, trace};
use crate::kit::asking;
use crate::real::{World, ask, compiled};

/// Row 24: parameters set by the canvas stay, whatever else a model writes beside the arguments.
#[tokio::test(start_paused = true)]
async fn a_model_cannot_change_what_the_canvas_has_set() {
    let check = async |tool: Json, function: &str, arguments: Json, named: &str| {
        let script = Script::new().reply(Reply::call(function, arguments)).reply(Reply::text("done"));
        let ran = ask(&canvas(agent(json!([tool]))), script, "Q").await;
        let result = trace(&ran)[0].result.to_string();
        assert!(trace(&ran)[0].failed && result.contains(named), "{result}");
    };
    check(join("t"), "string_transform_0", json!({"script": "a b", "delimiters": ["-"]}), "delimiters").await;
    let searching = json!({"query": "x", "dataset_ids": ["dogs"]});
    check(retrieval("cats"), "search_my_dataset_0", searching, "dataset_ids").await;
}

/// A budget covers sub-agents, and its end is distinguished from success.
#[tokio::test(start_paused = true)]
async fn budgets_reach_into_sub_agents() {
    let mut params = agent(json!([sub("greedy", json!([join("t")]))]));
    params["budget"] = json!({"tool_calls": 3});
    params["max_rounds"] = json!(50);
    let model = ScriptedModel::from_fn(|request, nth| {
        match (&request.tool_choice, request.messages[0].text.as_str()) {
            (ToolChoice::None, _) => Reply::text("so far"),
            (_, "S") => Reply::call("greedy_0", task(&format!("try {nth}"))),
            _ => Reply::call("string_transform_0", json!({"script": format!("{nth}")})),
        }
    });
    let world = World::of(model);
    let ran = world.hold(&canvas(params), [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.ending, Ending::Succeeded);
    assert!(ran.report.limited.contains(&Limited::Budget(Limit::ToolCalls)), "{:?}", ran.report.limited);
    let made = trace(&ran).iter().filter(|call| !call.failed).count();
    assert_eq!(made, 3, "{:?}", paths(&ran));
    assert_eq!(ran.output("Agent:A", "stop_reason"), "tool_calls");

    let mut params = agent(json!([sub("greedy", json!([join("t")]))]));
    params["budget"] = json!({"model_calls": 4});
    let model = ScriptedModel::from_fn(|request, nth| match request.messages[0].text.as_str() {
        "S" => Reply::call("greedy_0", task(&format!("try {nth}"))),
        _ => Reply::call("string_transform_0", json!({"script": format!("{nth}")})),
    });
    let world = World::of(model);
    let ran = world.hold(&canvas(params), [asking("Q")]).await.remove(0);
    assert_eq!((ran.report.ending, world.model.requests().len()), (Ending::Failed, 4));
    assert_eq!(ran.report.error.as_ref().unwrap().kind, ErrorKind::QuotaExceeded);
}

/// A round budget in a canvas covers an agent and its sub-agents together.
#[tokio::test(start_paused = true)]
async fn a_round_budget_covers_agents_and_their_sub_agents() {
    let mut params = agent(json!([sub("helper", json!([join("t")]))]));
    params["budget"] = json!({"rounds": 3});
    params["max_rounds"] = json!(20);
    let model =
        ScriptedModel::from_fn(|request, nth| match (&request.tool_choice, &*request.messages[0].text) {
            (ToolChoice::None, _) => Reply::text("so far"),
            (_, "S") => Reply::call("helper_0", task(&format!("try {nth}"))),
            _ => Reply::call("string_transform_0", json!({"script": format!("{nth}")})),
        });
    let world = World::of(model);
    let ran = world.hold(&canvas(params), [asking("Q")]).await.remove(0);
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "so far"));
    assert_eq!(ran.output("Agent:A", "stop_reason"), "max_rounds");
    assert_eq!(trace(&ran).iter().filter(|call| !call.failed).count(), 3, "{:?}", paths(&ran));
}

/// Agents that name each other as tools end with an error message, not with an endless plan.
#[test]
fn agents_that_call_each_other_in_a_cycle_are_refused() {
    let text = json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Agent:A"], "upstream": []},
        "Agent:A": {"obj": {"component_name": "Agent", "params": agent(json!(["Agent:B"]))}, "downstream": [], "upstream": ["begin"]},
        "Agent:B": {"obj": {"component_name": "Agent", "params": agent(json!(["Agent:A"]))}, "downstream": [], "upstream": []},
    }});
    let problems = compiled(&text.to_string()).unwrap_err();
    assert!(
        problems.iter().any(|problem| problem.to_string().contains("would be a tool of itself")),
        "{problems:#?}"
    );
}

/// A few agents that each name the next one many times would take exponentially long to read.
#[test]
fn exponentially_nested_agents_are_refused() {
    let mut components = serde_json::Map::from_iter([(
        "begin".to_owned(),
        json!({"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Agent:0"], "upstream": []}),
    )]);
    for n in 0..15 {
        let tools = json!(vec![format!("Agent:{}", n + 1); 10]);
        let upstream = if n == 0 { json!(["begin"]) } else { json!([]) };
        components.insert(
            format!("Agent:{n}"),
            json!({"obj": {"component_name": "Agent", "params": agent(tools)}, "downstream": [], "upstream": upstream}),
        );
    }
    components.insert(
        "Agent:15".to_owned(),
        json!({"obj": {"component_name": "Agent", "params": agent(json!([]))}, "downstream": [], "upstream": []}),
    );
    let problems = compiled(&json!({"components": components}).to_string()).unwrap_err();
    assert!(
        problems.iter().any(|problem| problem.to_string().contains("more than 200 tools")),
        "{problems:#?}"
    );
}
