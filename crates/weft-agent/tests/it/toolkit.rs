//! The tools of one agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::{Map, Value as Json, json};
use weft_agent::toolkit::{DATA_MAX, Group, OUTPUT_MAX, function_name, numbered};
use weft_core::tool::{
    Block, Invocation, Origin, Tool, ToolBody, ToolData, ToolOutput, ToolSession, ToolStep, ToolStream,
};
use weft_core::{Error, ErrorKind, NodeContext, Result};
use weft_testkit::Reply;

use crate::kit::{World, look};

fn invocation(world: &World, arguments: Json) -> Invocation {
    let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
    Invocation { id: "c".to_owned(), arguments, agent: Arc::clone(&world.ctx), resumed: None }
}

/// The steps of a call: `…text` for partial results.
async fn steps(world: &World, name: &str, arguments: Json) -> Vec<Result<String>> {
    let told = |step: Result<ToolStep>| {
        step.map(|step| match step {
            ToolStep::Progress(output) => format!("…{}", output.to_text()),
            ToolStep::Done(output) => output.to_text(),
            ToolStep::Suspended(_) => "waits".to_owned(),
        })
    };
    world.toolkit.call(name, invocation(world, arguments)).map(told).collect().await
}

async fn result(world: &World, name: &str, arguments: Json) -> Result<String> {
    steps(world, name, arguments).await.pop().unwrap()
}

#[tokio::test]
async fn tools_are_registered_listed_and_called() {
    let world = World::new([]);
    let listed = world.toolkit.tools();
    assert_eq!((listed.len(), listed[0].name.as_str()), (1, "look"));
    assert_eq!(listed[0].parameters["properties"]["q"]["type"], "string");
    assert_eq!(result(&world, "look", json!({"q": "x"})).await.unwrap(), "found x");
    let error = result(&world, "nosuch", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let again = Tool::function("look", "", json!({"type": "object"}), |_| async { Ok(json!(1)) });
    assert_eq!(world.toolkit.register(again).unwrap_err().kind, ErrorKind::Conflict);
    let malformed = Tool::function("odd", "", json!({"type": 7}), |_| async { Ok(json!(1)) });
    let error = world.toolkit.register(malformed).unwrap_err();
    assert!(error.full().contains("odd"), "{}", error.full());
    assert_eq!(world.toolkit.remove(|tool| tool.origin == Origin::Function), 1);
    assert!(world.toolkit.tools().is_empty());
}

/// A tool with data besides its text.
struct Rows;

impl ToolBody for Rows {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let length = invocation.arguments["length"].as_u64().unwrap();
        let rows = ToolData::Value(json!("x".repeat(usize::try_from(length).unwrap())));
        let output = ToolOutput { data: rows, ..ToolOutput::text("a table") };
        stream::once(async move { Ok(ToolStep::Done(output)) }).boxed()
    }
}

#[tokio::test]
async fn data_is_kept_only_on_request() {
    let world = World::new([]);
    let parameters = json!({"type": "object", "properties": {"length": {"type": "integer"}}});
    world.toolkit.register(Tool::new("rows", "", parameters, Origin::Function, Arc::new(Rows))).unwrap();
    let data = async |keeps_data: bool, length: usize| {
        let agent = Arc::new(NodeContext { keeps_data, ..(*world.ctx).clone() });
        let invocation = Invocation { agent, ..invocation(&world, json!({"length": length})) };
        let Some(Ok(ToolStep::Done(output))) = world.toolkit.call("rows", invocation).next().await else {
            panic!("one step")
        };
        assert_eq!(output.to_text(), "a table");
        output.data
    };
    assert_eq!(data(false, 2).await, ToolData::Same);
    assert_eq!(data(true, 2).await, ToolData::Value(json!("xx")));
    assert_eq!(data(true, DATA_MAX + 1).await, ToolData::TooLarge(DATA_MAX + 1));
}

#[test]
fn tool_names_fit_provider_rules() {
    let check = |name: &str, expected: &str| assert_eq!(function_name(name), expected);
    check("Search the web!", "Search_the_web_");
    check("搜索", "__");
    check("  ", "tool");
    check(&"x".repeat(99), &"x".repeat(64));
    assert_eq!(numbered("calculator", 0), "calculator_0");
    assert_eq!(numbered(&"x".repeat(99), 12).len(), 64);
    assert_ne!(numbered(&"x".repeat(99), 1), numbered(&"x".repeat(99), 2));
}

#[tokio::test]
async fn presets_take_precedence_and_the_model_does_not_see_them() {
    let world = World::new([Reply::call("search", json!({"q": "x", "key": "mine"})), Reply::text("done")]);
    world.tool(
        "search",
        |tool| {
            tool.preset.insert("key".to_owned(), json!("secret"));
            tool.parameters["properties"]["key"] = json!({"type": "string"});
            tool.parameters["required"] = json!(["q", "key"]);
        },
        |arguments| async move { Ok(Json::Object(arguments)) },
    );
    world.ask().await.unwrap();
    assert_eq!(world.called(), [r#"search({"q":"x","key":"secret"})"#]);
    let shown = &world.asked()[0].tools[1].parameters;
    assert_eq!((shown["properties"].get("key"), &shown["required"]), (None, &json!(["q"])));
    assert!(!serde_json::to_string(&world.asked()[0].tools).unwrap().contains("secret"));
    assert!(!serde_json::to_string(&world.trace()[0].started.arguments).unwrap().contains("secret"));
}

#[tokio::test]
async fn switching_groups_sets_the_complete_state() {
    let world = World::new([]);
    let group = |active| Group { active, description: "d".to_owned(), notes: String::new() };
    world.toolkit.add_group("web", group(false)).unwrap();
    world.toolkit.add_group("files", group(true)).unwrap();
    assert_eq!(world.toolkit.add_group("web", group(true)).unwrap_err().kind, ErrorKind::Conflict);
    world.echo("browse", |tool| tool.group = "web".to_owned());
    world.echo("read", |tool| tool.group = "files".to_owned());
    let names = || world.toolkit.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(), ["look", "read"]);
    let error = result(&world, "browse", json!({})).await.unwrap_err();
    assert!(error.kind == ErrorKind::Denied && error.message.contains("web"));
    world.toolkit.set_active(&BTreeSet::from(["web".to_owned()])).unwrap();
    assert_eq!(names(), ["look", "browse"]);
    assert!(world.toolkit.set_active(&BTreeSet::from(["nosuch".to_owned()])).is_err());
    assert_eq!(names(), ["look", "browse"], "a refused change changes nothing");
    let unknown =
        Tool { group: "nosuch".to_owned(), ..Tool::function("t", "", json!({}), |_| async { Ok(json!(1)) }) };
    assert_eq!(world.toolkit.register(unknown).unwrap_err().kind, ErrorKind::NotFound);
}

struct Counting;

impl ToolBody for Counting {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let so_far = |n: i32| ToolOutput::text((1..=n).map(|n| n.to_string()).collect::<String>());
        let fails = invocation.arguments.contains_key("fail");
        let steps = (1..3).map(move |n| Ok(ToolStep::Progress(so_far(n))));
        let last = if fails { Err(Error::invalid("in the middle")) } else { Ok(ToolStep::Done(so_far(3))) };
        stream::iter(steps.chain([last, Ok(ToolStep::Done(ToolOutput::text("after the end")))])).boxed()
    }
}

#[tokio::test]
async fn chunks_are_cumulative_and_postprocessed_one_by_one() {
    let world = World::new([Reply::call("count", json!({})), Reply::text("done")]);
    let mut tool = Tool::new("count", "", json!({"type": "object"}), Origin::Function, Arc::new(Counting));
    tool.postprocess =
        Some(Arc::new(|_, output: &ToolOutput| Some(ToolOutput::text(format!("<{}>", output.to_text())))));
    world.toolkit.register(tool).unwrap();
    let told: Vec<_> = steps(&world, "count", json!({})).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(told, ["…<1>", "…<12>", "<123>"]);
    let broken = steps(&world, "count", json!({"fail": 1})).await;
    assert!(broken.len() == 3 && broken[2].is_err(), "an error in the middle ends the call");
    world.ask().await.unwrap();
    assert_eq!(world.asked()[1].messages[3].text, "<123>", "the model gets the last chunk, not their sum");
}

#[tokio::test(start_paused = true)]
async fn every_call_has_a_time_limit_and_reports_its_progress() {
    struct Endless;
    impl ToolBody for Endless {
        fn call(&self, _: Invocation) -> ToolStream {
            let first = stream::iter([Ok(ToolStep::Progress(ToolOutput::text("half")))]);
            first.chain(stream::pending()).boxed()
        }
    }
    let world = World::new([]);
    let mut tool = Tool::new("endless", "", json!({}), Origin::Function, Arc::new(Endless));
    tool.traits.time_limit = Duration::from_secs(7);
    world.toolkit.register(tool).unwrap();
    let began = tokio::time::Instant::now();
    let error = result(&world, "endless", json!({})).await.unwrap_err();
    assert_eq!((error.kind, began.elapsed()), (ErrorKind::Timeout, Duration::from_secs(7)));
    assert!(error.message.contains("half"));
}

#[tokio::test]
async fn oversized_output_is_truncated_with_a_notice() {
    let world = World::new([]);
    world.tool("flood", |_| {}, |_| async { Ok(json!("漢".repeat(OUTPUT_MAX))) });
    let text = result(&world, "flood", json!({})).await.unwrap();
    assert!(text.len() < OUTPUT_MAX + 100 && text.contains("left out"), "{}", text.len());
}

/// A tool of a misbehaving server: more parts than anybody reads, and files too large to hold.
struct Flood(usize, usize);

impl ToolBody for Flood {
    fn call(&self, _: Invocation) -> ToolStream {
        let url = format!("data:image/png;base64,{}", "A".repeat(self.1));
        let output = ToolOutput { blocks: vec![Block::Image { url }; self.0], ..ToolOutput::default() };
        stream::once(async { Ok(ToolStep::Done(output)) }).boxed()
    }
}

#[tokio::test]
async fn parts_files_and_time_are_bounded() {
    let world = World::new([]);
    for (name, flood) in [("files", Flood(20, 1 << 20)), ("parts", Flood(5_000, 1))] {
        let mut tool = Tool::new(name, "", json!({"type": "object"}), Origin::Function, Arc::new(flood));
        tool.traits.time_limit = Duration::MAX;
        world.toolkit.register(tool).unwrap();
    }
    let images = |text: &str| text.matches("[an image]").count();
    let files = result(&world, "files", json!({})).await.unwrap();
    assert!(images(&files) == 15 && files.contains("bytes of an image were left out"));
    let parts = result(&world, "parts", json!({})).await.unwrap();
    assert!(images(&parts) == 1_000 && parts.contains("4000 more parts were left out"));
}

#[tokio::test]
async fn a_tool_keeps_nothing_between_calls() {
    let world = World::new([look("a").and_call("look", json!({})), look("b"), Reply::text("done")]);
    world.ask().await.unwrap();
    let mut called = world.called();
    called.sort();
    assert_eq!(called, [r#"look({"q":"a"})"#, r#"look({"q":"b"})"#, "look({})"]);
}

#[tokio::test]
async fn defaults_of_the_schema_are_filled_in() {
    let world = World::new([]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "default": 3}}});
    let tool = Tool::function("plus", "", schema, |arguments: Map<String, Json>| async move {
        Ok(arguments["n"].clone())
    });
    world.toolkit.register(tool).unwrap();
    assert_eq!(result(&world, "plus", json!({})).await.unwrap(), "3");
}

/// Saved canvases and their prompts know the search by a misspelt name, and without its number.
#[tokio::test]
async fn a_search_tool_is_found_by_its_old_name_and_without_its_number() {
    let world = World::new([
        Reply::call("search_my_dateset", json!({"q": "a"})),
        Reply::call("search_my_dateset_0", json!({"q": "b"})),
        Reply::call("search_my_dataset", json!({"q": "c"})),
        Reply::text("done"),
    ]);
    world.echo("search_my_dataset_0", |_| {});
    world.ask().await.unwrap();
    let asked: Vec<String> =
        ["a", "b", "c"].map(|q| format!("search_my_dataset_0({{\"q\":\"{q}\"}})")).into();
    assert_eq!(world.called(), asked);
    // With two of them the name is ambiguous.
    world.echo("search_my_dataset_1", |_| {});
    let error = result(&world, "search_my_dateset", json!({"q": "d"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(result(&world, "search_my_dateset_1", json!({"q": "e"})).await.is_ok());
}
