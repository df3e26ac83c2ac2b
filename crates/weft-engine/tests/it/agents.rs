//! Agents with tools in whole canvases, tested end to end. Rows refer to docs/features.md.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::context::ToolFinished;
use weft_core::journal::{Ending, Record};
use weft_core::seam::chat_model::Author;
use weft_core::seam::tool_source::{Offered, RefusedTool};
use weft_core::seam::{Knowledge, ToolSource};
use weft_core::tool::{Origin, Tool};
use weft_core::{Error, ErrorKind, Result, TenantId};
use weft_dsl::Plan;
use weft_models::script::{Reply, Script};
use weft_models::scripted::ScriptedModel;
use weft_testkit::fake_http::FakeHttp;

use crate::kit::{Ran, asking};
use crate::real::{World, ask, drawn};

/// A canvas in which this agent answers.
pub(crate) fn canvas(agent: Json) -> Arc<Plan> {
    drawn(&[
        ("begin", "Begin", json!({}), &["Agent:A"], None),
        ("Agent:A", "Agent", agent, &["Message:M"], None),
        ("Message:M", "Message", json!({"content": ["{Agent:A@content}"]}), &[], None),
    ])
}

pub(crate) fn agent(tools: impl Into<Json>) -> Json {
    json!({"llm_id": "m", "sys_prompt": "S", "tools": tools.into()})
}

/// Joins texts with `+`: a tool without dependencies.
pub(crate) fn join(name: &str) -> Json {
    json!({"component_name": "StringTransform", "name": name, "params": {"method": "merge", "delimiters": ["+"]}})
}

pub(crate) fn trace(ran: &Ran) -> Vec<ToolFinished> {
    let calls = ran.records.iter().filter_map(|record| match record {
        Record::ToolFinished { call, .. } => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

pub(crate) fn paths(ran: &Ran) -> Vec<String> {
    trace(ran).iter().map(|call| call.started.path.to_string()).collect()
}

async fn searching(documents: &[(&'static str, &str)]) -> Arc<dyn Knowledge> {
    let file = |(dataset, text): &(&'static str, &str)| {
        (*dataset, format!("{dataset}.md"), text.as_bytes().to_vec())
    };
    crate::real::searching(documents.iter().map(file)).await
}

pub(crate) fn retrieval(dataset: &str) -> Json {
    json!({"component_name": "Retrieval", "name": dataset, "params": {"dataset_ids": [dataset], "similarity_threshold": 0.0}})
}

/// Row 4: a tool may be written inline or be a node of the canvas, named by its id.
#[tokio::test(start_paused = true)]
async fn tools_are_written_inline_or_named_by_id() {
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Agent:A"], None),
        ("Agent:A", "Agent", agent(json!([join("inline"), "StringTransform:Node"])), &["Message:M"], None),
        (
            "StringTransform:Node",
            "StringTransform",
            json!({"method": "merge", "delimiters": ["-"]}),
            &[],
            None,
        ),
        ("Message:M", "Message", json!({"content": ["{Agent:A@content}"]}), &[], None),
    ]);
    let script = Script::new()
        .reply(Reply::call("string_transform_1", json!({"script": "a b"})))
        .reply(Reply::text("done"));
    let world = World::new(script, FakeHttp::new());
    let ran = world.hold(&plan, [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
    let names: Vec<_> = world.model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["string_transform_0", "string_transform_1"]);
    assert_eq!(trace(&ran)[0].result.as_ref(), &json!("a b"));
    assert_eq!(ran.times("StringTransform:Node"), 0, "a tool is not a step of the canvas");
}

/// Row 5: two tools of one kind have two names, and each call reaches its own.
#[tokio::test(start_paused = true)]
async fn two_retrievals_search_their_own_datasets() {
    let plan = canvas(agent(json!([retrieval("cats"), retrieval("dogs")])));
    let index = searching(&[("cats", "The cat sleeps."), ("dogs", "The dog barks.")]).await;
    let both = Reply::call("search_my_dataset_0", json!({"query": "cat dog"}))
        .and_call("search_my_dataset_1", json!({"query": "cat dog"}));
    let world =
        World::with_search(Script::new().reply(both).reply(Reply::text("so")), FakeHttp::new(), index);
    let ran = world.hold(&plan, [asking("Q")]).await.remove(0);
    let found: Vec<String> = trace(&ran).iter().map(|call| call.result.to_string()).collect();
    assert!(found.len() == 2, "{found:?}");
    let of = |name: &str| {
        trace(&ran).into_iter().find(|call| &*call.started.tool == name).unwrap().result.to_string()
    };
    assert!(of("search_my_dataset_0").contains("cat sleeps") && !of("search_my_dataset_0").contains("barks"));
    assert!(of("search_my_dataset_1").contains("dog barks") && !of("search_my_dataset_1").contains("sleeps"));
}

/// Row 6: a canvas may set the name and description that the model sees.
#[tokio::test(start_paused = true)]
async fn a_canvas_renames_and_describes_its_tools() {
    let mut tool = join("t");
    tool["params"]["function_name"] = json!("glue words");
    tool["params"]["description"] = json!("Glues words together.");
    let world = World::new(Script::text("so"), FakeHttp::new());
    world.hold(&canvas(agent(json!([tool, join("u")]))), [asking("Q")]).await;
    let tools = world.model.requests().remove(0).tools;
    assert_eq!((&*tools[0].name, &*tools[0].description), ("glue_words_0", "Glues words together."));
    assert_eq!(tools[1].name, "string_transform_1");
    assert!(tools[1].description.len() > 10, "every tool is described");
    assert_eq!(tools[1].parameters["type"], "object");
}

/// Row 7: a model that cannot call tools gets the planner, and a warning says so.
#[tokio::test(start_paused = true)]
async fn a_model_without_tool_calls_uses_the_planner() {
    let script = Script::new()
        .reply(Reply::text(r#"[{"name": "string_transform_0", "arguments": {"script": "ab"}}]"#))
        .reply(Reply::text(r#"[{"name": "complete_task", "arguments": {"answer": "x"}}]"#))
        .reply(Reply::text("planned"));
    let model = ScriptedModel::new(script).with_info(|info| info.tools = false);
    let world = World::of(model);
    let ran = world.hold(&canvas(agent(json!([join("t")]))), [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.said, "planned");
    assert!(world.model.requests().iter().all(|request| request.tools.is_empty()));
    assert!(
        ran.records
            .iter()
            .any(|record| matches!(record, Record::Warned { message, .. } if message.contains("planner")))
    );
    let by_choice = json!({"llm_id": "m", "sys_prompt": "S", "tools": [join("t")], "driver": "planner"});
    let ran =
        ask(&canvas(by_choice), Script::text(r#"[{"name": "complete_task", "arguments": {}}]"#), "Q").await;
    assert!(paths(&ran).iter().any(|path| path.ends_with("analyze_task")), "{:?}", paths(&ran));
}

pub(crate) fn sub(name: &str, tools: impl Into<Json>) -> Json {
    let tools: Json = tools.into();
    json!({"component_name": "Agent", "name": name, "params": {"llm_id": name, "sys_prompt": format!("I am {name}"), "tools": tools}})
}

pub(crate) fn task(text: &str) -> Json {
    json!({"user_prompt": text, "reasoning": "because", "context": "all of it"})
}

/// Rows 23, 25 and 46: agents call agents; the trace shows the path, ids contain `-->`, the task comes in
/// labelled parts, and a sub-agent gets no citation rules.
#[tokio::test(start_paused = true)]
async fn agents_call_agents_to_any_depth() {
    let tools = json!([sub("deep helper", json!([join("t")])), retrieval("cats")]);
    let mut top = agent(tools);
    top["cite"] = json!(true);
    let index = searching(&[("cats", "The cat sleeps.")]).await;
    let script = Script::new()
        .reply(Reply::call("deep_helper_0", task("join them")).when_system("S").times(1))
        .reply(
            Reply::call("string_transform_0", json!({"script": "ab"}))
                .when_system("I am deep helper")
                .times(1),
        )
        .reply(Reply::text("joined").when_system("I am deep helper"))
        .reply(Reply::text("the whole").when_system("S"));
    let world = World::with_search(script, FakeHttp::new(), index);
    let ran = world.hold(&canvas(top), [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.said, "the whole", "{:?}", ran.report.error);
    assert_eq!(paths(&ran), ["Agent:A-->deep_helper_0-->string_transform_0", "Agent:A-->deep_helper_0"]);
    let calls = trace(&ran);
    assert_eq!(calls[0].started.agent.as_str(), "Agent:A-->deep_helper");
    assert_eq!(calls[1].result.as_ref(), &json!("joined"));
    let asked = world.model.requests();
    let schema = &asked[0].tools[0].parameters;
    assert_eq!(schema["required"], json!(["user_prompt", "reasoning", "context"]));
    let child = &asked[1].messages;
    assert_eq!(child[1].text, "# Reasoning\nbecause\n\n# Context\nall of it\n\n# Query\njoin them");
    assert!(asked[0].messages[0].text.contains("[ID:"), "the agent itself may cite");
    assert!(!child[0].text.contains("[ID:"));
}

/// Row 23 beyond one level: each agent calls the next one, and the innermost a component.
#[tokio::test(start_paused = true)]
async fn sub_agents_have_sub_agents_of_their_own() {
    const NAMES: [&str; 3] = ["first", "second", "third"];
    let tools = NAMES.iter().rev().fold(json!([join("t")]), |tools, name| json!([sub(name, tools)]));
    let calls = [
        ("S", "first_0", task("one")),
        ("I am first", "second_0", task("two")),
        ("I am second", "third_0", task("three")),
        ("I am third", "string_transform_0", json!({"script": "ab"})),
    ];
    let script = calls.into_iter().fold(Script::new(), |script, (who, function, arguments)| {
        script.reply(Reply::call(function, arguments).when_system(who).times(1))
    });
    let script = ["I am first", "I am second", "I am third", "S"]
        .into_iter()
        .fold(script, |script, who| script.reply(Reply::text("done").when_system(who)));
    let world = World::new(script, FakeHttp::new());
    let ran = world.hold(&canvas(agent(tools)), [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.said, "done", "{:?}", ran.report.error);
    let expected = [
        "Agent:A-->first_0-->second_0-->third_0-->string_transform_0",
        "Agent:A-->first_0-->second_0-->third_0",
        "Agent:A-->first_0-->second_0",
        "Agent:A-->first_0",
    ];
    assert_eq!(paths(&ran), expected);
}

/// Row 15 of the defects: a sub-agent without tools returns its answer, as every component does.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_without_tools_returns_its_answer() {
    let script = Script::new()
        .reply(Reply::call("plain_0", task("x")).when_system("S").times(1))
        .reply(Reply::text("from below").when_system("I am plain"))
        .reply(Reply::text("done").when_system("S"));
    let ran = ask(&canvas(agent(json!([sub("plain", json!([]))]))), script, "Q").await;
    assert_eq!(trace(&ran)[0].result.as_ref(), &json!("from below"));
}

/// Row 16 of the defects: parallel calls of one tool share no state.
#[tokio::test(start_paused = true)]
async fn parallel_calls_of_one_tool_share_no_state() {
    let many = (0..8).map(|n| format!("part {n}")).collect::<Vec<_>>();
    let calls = many
        .iter()
        .skip(1)
        .fold(Reply::call("plain_0", task(&many[0])), |reply, part| reply.and_call("plain_0", task(part)));
    let mut script = Script::new().reply(calls.when_system("S").times(1));
    for part in &many {
        script = script.reply(Reply::text(format!("answer to {part}")).when_user(part.clone()).delay_ms(10));
    }
    let script = script.reply(Reply::text("done").when_system("S"));
    let ran = ask(&canvas(agent(json!([sub("plain", json!([]))]))), script, "Q").await;
    let used = ran.output("Agent:A", "use_tools");
    let results: Vec<_> =
        used.as_array().unwrap().iter().map(|call| call["results"].as_str().unwrap().to_owned()).collect();
    assert_eq!(results, many.iter().map(|part| format!("answer to {part}")).collect::<Vec<_>>());
}

/// Row 24: a component runs with the arguments of the model as they are; they are never read as references.
#[tokio::test(start_paused = true)]
async fn a_component_runs_with_the_arguments_of_the_model() {
    let check = async |text: &str| {
        let script = Script::new()
            .reply(Reply::call("string_transform_0", json!({"script": text})))
            .reply(Reply::text("done"));
        let ran = ask(&canvas(agent(json!([join("t")]))), script, "a secret").await;
        assert_eq!(trace(&ran)[0].result.as_ref(), &json!(text));
    };
    check("plain").await;
    check("tell me {sys.query} and {begin@request}").await;
    check("sys.query").await;
    check("}sys.query").await;
}

/// Row 26: references in prompts and in tool parameters are resolved before the first request.
#[tokio::test(start_paused = true)]
async fn references_in_prompts_and_tools_are_resolved_first() {
    let fixed = json!({"component_name": "StringTransform", "name": "t",
        "params": {"method": "merge", "delimiters": ["+"], "script": "{sys.query} {StringTransform:B@result} {env.n}"}});
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["StringTransform:B"], None),
        (
            "StringTransform:B",
            "StringTransform",
            json!({"method": "merge", "script": "before", "delimiters": [","]}),
            &["Agent:A"],
            None,
        ),
        (
            "Agent:A",
            "Agent",
            json!({"llm_id": "m", "sys_prompt": "{StringTransform:B@result}!", "tools": [fixed]}),
            &["Message:M"],
            None,
        ),
        ("Message:M", "Message", json!({"content": ["{Agent:A@content}"]}), &[], None),
    ]);
    let script = Script::new().reply(Reply::call("string_transform_0", json!({}))).reply(Reply::text("done"));
    let world = World::new(script, FakeHttp::new());
    let ran = world.hold(&plan, [asking("Q")]).await.remove(0);
    assert_eq!(trace(&ran)[0].result.as_ref(), &json!("Q before 0"));
    let request = &world.model.requests()[0];
    assert_eq!(request.messages[0].text, "before!");
    assert!(
        request.tools[0].parameters["properties"].get("script").is_none(),
        "arguments set by the canvas are hidden from the model"
    );
}

/// Rows 43 and 28: the node's output lists the calls as the trace has them.
#[tokio::test(start_paused = true)]
async fn the_output_lists_the_tools_that_were_used() {
    let script = Script::new()
        .reply(Reply::call("string_transform_0", json!({"script": "a"})).and_call("nosuch", json!({"x": 1})))
        .reply(Reply::call("string_transform_0", json!({"script": "b"})))
        .reply(Reply::text("done"));
    let ran = ask(&canvas(agent(json!([join("t")]))), script, "Q").await;
    let used = ran.output("Agent:A", "use_tools");
    let names: Vec<&Json> = used.as_array().unwrap().iter().map(|call| &call["name"]).collect();
    assert_eq!(names, ["string_transform_0", "nosuch", "string_transform_0"]);
    assert_eq!(
        (&used[0]["arguments"], &used[2]["arguments"]),
        (&json!({"script": "a"}), &json!({"script": "b"}))
    );
    let traced: Vec<Json> = trace(&ran)
        .iter()
        .map(|call| json!({"name": &*call.started.tool, "arguments": &*call.started.arguments, "results": &*call.result}))
        .collect();
    assert_eq!(used, json!(traced));
    assert_eq!(ran.output("Agent:A", "stop_reason"), "completed");
}

/// Row 45: every mark in the text leads to a source; variants become marks; unknown ones are removed.
#[tokio::test(start_paused = true)]
async fn every_citation_mark_leads_to_a_source() {
    let plan = canvas(agent(json!([retrieval("cats")])));
    let index = searching(&[("cats", "The cat sleeps.")]).await;
    let script = Script::new()
        .reply(Reply::call("search_my_dataset_0", json!({"query": "cat"})))
        .reply(Reply::pieces(["It sleeps (ID", ": 0). It flies [ID:7]."]));
    let world = World::with_search(script, FakeHttp::new(), index);
    let ran = world.hold(&plan, [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.said, "It sleeps [ID:0]. It flies.");
    let cited: Vec<_> =
        ran.report.cited.iter().map(|cited| (cited.number, cited.chunk.document_name.clone())).collect();
    assert_eq!(cited, [(0, "cats.md".to_owned())]);
}

/// Row 52: how many turns an agent looks back is a parameter.
#[tokio::test(start_paused = true)]
async fn the_history_window_is_a_parameter() {
    let mut params = agent(json!([join("t")]));
    params["message_history_window_size"] = json!(1);
    let world = World::new(Script::text("so"), FakeHttp::new());
    world.hold(&canvas(params), [asking("one"), asking("two"), asking("three")]).await;
    let last = world.model.requests().remove(2);
    let said: Vec<_> = last.messages.iter().skip(1).map(|m| (m.author, m.text.clone())).collect();
    let said: Vec<_> = said.iter().map(|(author, text)| (*author, text.as_str())).collect();
    assert_eq!(said, [(Author::User, "two"), (Author::Assistant, "so"), (Author::User, "three")]);
}

/// An in-process tool server; `up` says whether it is reachable.
pub(crate) struct FakeServer {
    up: std::sync::atomic::AtomicBool,
}

impl FakeServer {
    pub(crate) fn up() -> Arc<Self> {
        Arc::new(Self { up: true.into() })
    }

    fn down() -> Arc<Self> {
        Arc::new(Self { up: false.into() })
    }
}

#[weft_core::async_trait]
impl ToolSource for FakeServer {
    async fn tools(&self, _: &TenantId, server: &str) -> Result<Offered> {
        if server != "srv" {
            return Err(Error::not_found(format!("there is no MCP server `{server}`")));
        }
        if !self.up.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the server is down"));
        }
        let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        let tool = |name: &str| {
            let own = name.to_owned();
            let tool = Tool::function(name, format!("What {name} does."), schema.clone(), move |arguments| {
                let own = own.clone();
                async move { Ok(json!(format!("{own} of {}", arguments["x"].as_str().unwrap_or("nothing")))) }
            });
            Arc::new(Tool { origin: Origin::Mcp(server.to_owned()), ..tool })
        };
        let refused =
            vec![RefusedTool { name: "changed".to_owned(), reason: "its definition has changed".to_owned() }];
        Ok(Offered { tools: ["one", "two", "three"].map(tool).to_vec(), refused, down: None })
    }
}

pub(crate) fn with_server(tools: Json, selected: impl Into<Json>) -> Json {
    let selected: Json = selected.into();
    let mut agent = agent(tools);
    agent["mcp"] = json!([{"mcp_id": "srv", "tools": selected}]);
    agent
}

fn offered(world: &World) -> Vec<String> {
    world.model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect()
}

fn warned(ran: &Ran, part: &str) -> bool {
    ran.records
        .iter()
        .any(|record| matches!(record, Record::Warned { message, .. } if message.contains(part)))
}

/// Row 106: exactly the listed tools of a server are offered; an empty list offers none.
#[tokio::test(start_paused = true)]
async fn an_agent_gets_the_tools_it_lists_and_no_others() {
    let run = async |selected: Json| {
        let world = World::with_tools(Script::text("so"), FakeServer::up());
        let ran =
            world.hold(&canvas(with_server(json!([join("t")]), selected)), [asking("Q")]).await.remove(0);
        assert_eq!(ran.report.ending, Ending::Succeeded);
        (offered(&world), ran)
    };
    assert_eq!(run(json!({"three": {}, "one": {}})).await.0, ["string_transform_0", "three_1", "one_2"]);
    assert_eq!(run(json!({})).await.0, ["string_transform_0"]);
    let (names, ran) = run(json!({"one": {}, "changed": {}, "gone": {}})).await;
    assert_eq!(names, ["string_transform_0", "one_1"]);
    assert!(warned(&ran, "its definition has changed") && warned(&ran, "has no tool `gone`"));
}

/// Missing tools are omitted and reported, whatever the reason; the agent works with the rest.
#[tokio::test(start_paused = true)]
async fn an_agent_works_without_unavailable_tools() {
    let described = json!({"x": {"inputSchema": {"type": "object"}}});
    let mut lacking = with_server(
        json!([{"component_name": "WenCai", "name": "w", "params": {}}, join("t"), {"component_name": "Nosuch", "name": "n"}]),
        json!({"one": {}}),
    );
    lacking["mcp"].as_array_mut().unwrap().push(json!({"mcp_id": "nowhere", "tools": described}));
    let run = async |agent: Json, server: Arc<FakeServer>, model: ScriptedModel| {
        let world = World::of(model).and_tools(server);
        let ran = world.hold(&canvas(agent), [asking("Q")]).await.remove(0);
        assert_eq!((&ran.report.ending, ran.report.said.as_str()), (&Ending::Succeeded, "so"));
        (offered(&world), ran)
    };
    let model = || {
        let call = Reply::call("string_transform_1", json!({"script": "a"}));
        ScriptedModel::new(Script::new().reply(call.times(1)).reply(Reply::text("so")))
    };
    let (names, ran) = run(lacking.clone(), FakeServer::up(), model()).await;
    // An empty tool slot takes no name from another tool.
    assert_eq!(names, ["string_transform_1", "one_3"]);
    for part in ["the tool `w`", "the tool `n`", "there is no MCP server `nowhere`", "continues without x"] {
        assert!(warned(&ran, part), "{part}");
    }
    // The arguments of a tool are unknown if its server is down and the canvas only names it.
    let (names, ran) = run(lacking, FakeServer::down(), model()).await;
    assert_eq!(names, ["string_transform_1"]);
    assert!(warned(&ran, "the server is down; the agent continues without one"));
    // Without any tools it answers directly.
    let bare = agent(json!([{"component_name": "WenCai", "name": "w", "params": {}}]));
    let (names, ran) = run(bare, FakeServer::up(), ScriptedModel::new(Script::text("so"))).await;
    assert!(names.is_empty() && warned(&ran, "the tool `w`"));
}

/// Substituted models are reported before anything runs, once for each, including those of sub-agents.
#[tokio::test(start_paused = true)]
async fn a_run_first_reports_substituted_models() {
    let told = async |llm_id: &str| {
        let mut helper = sub("helper", json!([]));
        helper["params"]["llm_id"] = json!(llm_id);
        let mut own = agent(json!([helper]));
        own["llm_id"] = json!(llm_id);
        let ran =
            World::with_tools(Script::text("so"), FakeServer::up()).hold(&canvas(own), [asking("Q")]).await;
        let started = |record: &&Record| matches!(record, Record::NodeStarted { .. });
        let before = ran[0].records.iter().take_while(|record| !started(record));
        let warned = before.filter_map(|record| match record {
            Record::Warned { node, message } => Some(format!("{node}: {message}")),
            _ => None,
        });
        warned.collect::<Vec<_>>()
    };
    assert_eq!(told("gpt-9@OpenAI").await, ["Agent:A: `scripted` stands in for `gpt-9@OpenAI`"]);
    assert!(told("m").await.is_empty());
}

/// Rows 27 and 111: to the agent and in its trace, components, agents and server tools look alike.
#[tokio::test(start_paused = true)]
async fn tools_of_every_origin_mix() {
    let tools = json!([join("t"), sub("helper", json!([]))]);
    let all = Reply::call("string_transform_0", json!({"script": "a"}))
        .and_call("helper_1", task("help"))
        .and_call("two_2", json!({"x": "X"}));
    let script = Script::new()
        .reply(all.when_system("S").times(1))
        .reply(Reply::text("helped").when_system("I am helper"))
        .reply(Reply::text("done").when_system("S"));
    let world = World::with_tools(script, FakeServer::up());
    let ran = world.hold(&canvas(with_server(tools, json!({"two": {}}))), [asking("Q")]).await.remove(0);
    let mut gave: Vec<_> =
        trace(&ran).iter().map(|call| format!("{}={}", call.started.tool, call.result)).collect();
    gave.sort();
    assert_eq!(gave, ["helper_1=\"helped\"", "string_transform_0=\"a\"", "two_2=\"two of X\""]);
    let used = ran.output("Agent:A", "use_tools");
    assert!(used.as_array().unwrap().iter().all(|call| call.as_object().unwrap().len() == 3), "{used}");
}

/// A server that is down is a warning; its tools are offered as the canvas describes them, and a call reports
/// the failure to the model, or works once the server is back.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_does_not_affect_other_tools() {
    let selected = json!({"one": {"description": "As drawn.", "parameters": {"x": {"type": "string"}}}});
    let server = FakeServer::down();
    let back = Arc::clone(&server);
    let model = ScriptedModel::from_fn(move |_, nth| match nth {
        0 => {
            Reply::call("one_1", json!({"x": "first"})).and_call("string_transform_0", json!({"script": "a"}))
        }
        1 => {
            back.up.store(true, std::sync::atomic::Ordering::SeqCst);
            Reply::call("one_1", json!({"x": "second"}))
        }
        _ => Reply::text("done"),
    });
    let world = World::of(model).and_tools(server);
    let ran = world.hold(&canvas(with_server(json!([join("t")]), selected)), [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.said, "done");
    assert!(warned(&ran, "the server is down"));
    let tool = &world.model.requests()[0].tools[1];
    assert_eq!(
        (&*tool.description, &tool.parameters["properties"]["x"]["type"]),
        ("As drawn.", &json!("string"))
    );
    let results: Vec<_> = ran
        .output("Agent:A", "use_tools")
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["results"].to_string())
        .collect();
    assert!(
        results[0].contains("the server is down")
            && results[1] == "\"a\""
            && results[2] == "\"one of second\"",
        "{results:?}"
    );
}

/// Every call that starts also ends in the trace, even if its agent has timed out.
#[tokio::test(start_paused = true)]
async fn running_calls_end_with_their_agent() {
    let schema = json!({"type": "object"});
    let endless = Tool::function("endless", "Never ends.", schema, |_| async {
        std::future::pending::<()>().await;
        Ok(Json::Null)
    });
    let mut endless = Tool { origin: Origin::Mcp("srv".to_owned()), ..endless };
    endless.traits.time_limit = std::time::Duration::from_secs(100_000);
    let world = World::with_tools(
        Script::new().reply(Reply::call("endless_0", json!({})).and_call("endless_0", json!({}))),
        Arc::new(OneTool(Arc::new(endless))),
    );
    let ran =
        world.hold(&canvas(with_server(json!([]), json!({"endless": {}}))), [asking("Q")]).await.remove(0);
    assert_eq!(ran.report.ending, Ending::Failed);
    assert_eq!(ran.report.error.as_ref().unwrap().kind, ErrorKind::Timeout);
    let started = ran.records.iter().filter(|record| matches!(record, Record::ToolStarted { .. })).count();
    let ends = trace(&ran);
    assert_eq!((started, ends.len()), (2, 2));
    assert!(ends.iter().all(|call| call.failed && call.elapsed >= 1_200.0), "{ends:?}");
}

struct OneTool(Arc<Tool>);

#[weft_core::async_trait]
impl ToolSource for OneTool {
    async fn tools(&self, _: &TenantId, _: &str) -> Result<Offered> {
        Ok(Offered { tools: vec![Arc::clone(&self.0)], ..Offered::default() })
    }
}
