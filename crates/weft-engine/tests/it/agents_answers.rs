//! What agents with tools answer, tested end to end: values, streams, failures.

use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::journal::{Ending, Record};
use weft_models::script::{Reply, Script};
use weft_testkit::fake_http::FakeHttp;

use crate::agents::{agent, join, trace};
use crate::kit::{Ran, asking};
use crate::real::{World, drawn};

/// An agent with a tool and these parameters, followed by a Message that shows its `output`.
async fn ran(more: Json, output: &str, replies: impl IntoIterator<Item = Reply>) -> (Ran, World) {
    let mut params = agent(json!([join("t")]));
    if let (Json::Object(params), Json::Object(more)) = (&mut params, more) {
        params.extend(more);
    }
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Agent:A"], None),
        ("Agent:A", "Agent", params, &["Message:M"], None),
        ("Message:M", "Message", json!({"content": [format!("{{Agent:A@{output}}}")]}), &[], None),
        ("Message:R", "Message", json!({"content": ["rescued"]}), &[], None),
    ]);
    let script = replies.into_iter().fold(Script::new(), Script::reply);
    let world = World::new(script, FakeHttp::new());
    let ran = world.hold(&plan, [asking("Q")]).await.remove(0);
    (ran, world)
}

fn call() -> Reply {
    Reply::call("string_transform_0", json!({"script": "ab"}))
}

fn form() -> Json {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

/// Rows 46 to 48: a value follows its schema, wherever the canvas has it; it is repaired if invalid; the agent
/// gets no citation rules.
#[tokio::test(start_paused = true)]
async fn an_agent_with_tools_answers_with_a_value() {
    for outputs in [
        json!({"structured": form()}),
        json!({"structured": {"schema": form()}}),
        json!({"structured": {"structured": form()}}),
    ] {
        let replies = [call(), Reply::text("{\"n\": \"many\"}"), Reply::text("```json\n{\"n\": 4}\n```")];
        let (ran, world) = ran(json!({"outputs": outputs, "cite": true}), "structured", replies).await;
        assert_eq!(ran.output("Agent:A", "structured"), json!({"n": 4}), "{:?}", ran.report.error);
        assert_eq!((ran.report.said.as_str(), trace(&ran).len()), ("{\"n\":4}", 1));
        assert!(world.model.requests().iter().all(|request| !request.messages[0].text.contains("[ID:")));
    }
    let never = Reply::text("never").always();
    let (failed, world) =
        ran(json!({"outputs": {"structured": form()}, "max_retries": 2}), "structured", [call(), never])
            .await;
    assert_eq!(failed.report.ending, Ending::Failed);
    assert_eq!(world.model.requests().len(), 5, "one round, one answer, three repairs");
    assert!(failed.output("Agent:A", "_ERROR").as_str().unwrap().contains("outputs.structured"));
}

/// Row 50: a model that fails in the second round gives the default value, a branch, or a failure; finished
/// tool calls are not repeated.
#[tokio::test(start_paused = true)]
async fn a_model_failure_midway_uses_the_agents_exception_settings() {
    let run = async |more: Json| {
        let down = Reply::error(ErrorKind::Invalid, "no such model").always();
        let (ran, _) = ran(more, "content", [call(), down]).await;
        assert_eq!(trace(&ran).len(), 1);
        ran
    };
    let shown = run(json!({"exception_method": "comment", "exception_default_value": "sorry"})).await;
    assert_eq!((shown.report.ending, shown.report.said.as_str()), (Ending::Succeeded, "sorry"));
    let branch = run(json!({"exception_method": "goto", "exception_goto": ["Message:R"]})).await;
    assert_eq!((branch.report.ending, branch.report.said.as_str()), (Ending::Succeeded, "rescued"));
    let none = run(json!({})).await;
    assert_eq!(none.report.ending, Ending::Failed);
    assert!(none.report.error.as_ref().unwrap().full().contains("no such model"));
}

/// Row 51: chunks are streamed only if a Message follows, there is no exception branch and no schema. The
/// stream equals the stored text.
#[tokio::test(start_paused = true)]
async fn an_agent_with_tools_streams_only_when_allowed() {
    let check = async |more: Json, output: &str, text: [&'static str; 3], pieces: usize| {
        let beside = Reply::pieces(["I ", "join."]).and_call("string_transform_0", json!({"script": "ab"}));
        let (ran, _) = ran(more, output, [beside.delay_ms(1), Reply::pieces(text).delay_ms(1)]).await;
        let said = ran.records.iter().filter(|record| matches!(record, Record::Said { .. })).count();
        assert_eq!(said, pieces, "{:?}", ran.report);
        let kept = ran.output("Agent:A", output);
        assert_eq!(ran.report.said, kept.as_str().map_or_else(|| kept.to_string(), str::to_owned));
    };
    check(json!({}), "content", ["a", "b", "c"], 6).await;
    let goto = json!({"exception_method": "goto", "exception_goto": ["Message:R"]});
    check(goto, "content", ["a", "b", "c"], 1).await;
    check(json!({"outputs": {"structured": form()}}), "structured", ["{\"n\"", ": 4", "}"], 1).await;
}
