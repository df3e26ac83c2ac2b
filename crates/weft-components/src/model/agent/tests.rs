use std::sync::Arc;

use serde_json::{Map, json};
use weft_core::context::Signal;
use weft_core::seam::chat_model::ChatDelta;
use weft_core::seam::databases::SqlPart;
use weft_core::seam::sandbox::{Language, Program, Ran, WrittenFile};
use weft_core::{ComponentId, ErrorKind};
use weft_testkit::{MemoryFiles, ScriptedSandbox};

use crate::testing::{Node, Setting, Stage, failure};

#[tokio::test]
async fn without_tools_an_agent_is_an_llm() {
    let node = Node::new("Agent", json!({"llm_id": "m", "tools": [], "mcp": [], "max_rounds": 5}));
    let component = node.build();
    assert!(component.shape().streams && component.shape().unsupported.is_none());
    let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
    stage.answer_text("hello");
    let outputs = component.run(&stage.ctx).await.unwrap().outputs;
    assert_eq!(json!(outputs), json!({"content": "hello", "stop_reason": "completed"}));
    assert!(stage.asked()[0].tools.is_empty());
}

/// A tool's literal parameters are checked as on the canvas; arguments filled in by the model are not.
#[test]
fn programs_and_sql_of_tools_are_known_in_advance() {
    let code =
        |script: &str| json!({"component_name": "CodeExec", "name": "Code", "params": {"script": script}});
    let sql = json!({"component_name": "ExeSQL", "name": "Rows", "params": {"db_type": "sqlite", "database": "d", "sql": "DROP TABLE t"}});
    let below = json!({"component_name": "Agent", "name": "Below", "params": {"llm_id": "m", "tools": [code("x = 1")]}});
    let editors = code("def main(arg1: str, arg2: str) -> str:\n    return");
    let tools = json!([sql, code("y = 1"), editors, below, {"component_name": "CodeExec", "name": "Any", "params": {}}]);
    let shape = Node::new("Agent", json!({"llm_id": "m", "tools": tools})).build().shape();
    let known: Vec<_> = shape.sql.iter().map(|sql| (sql.pointer.as_str(), sql.parts.as_slice())).collect();
    assert_eq!(known, [("/tools/0/params/sql", [SqlPart::Text("DROP TABLE t".to_owned())].as_slice())]);
    let known: Vec<_> = shape.programs.iter().map(|one| (one.pointer.as_str(), one.text.as_str())).collect();
    assert_eq!(
        known,
        [("/tools/1/params/script", "y = 1"), ("/tools/3/params/tools/0/params/script", "x = 1")]
    );
}

/// A money limit warns if it cannot be enforced.
#[tokio::test]
async fn a_budget_of_money_warns_of_a_model_without_prices() {
    let check = async |budget: serde_json::Value, expected: usize| {
        let node = Node::new("Agent", json!({"llm_id": "tools", "tools": ["Calculator"], "budget": budget}));
        let component = node.build();
        let mut stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("so");
        component.run(&stage.ctx).await.unwrap();
        let signals = stage.signals();
        let told =
            |signal: &&Signal| matches!(signal, Signal::Warn(told) if told.contains("it has no prices"));
        assert_eq!(signals.iter().filter(told).count(), expected);
    };
    check(json!({"money": 1}), 1).await;
    check(json!({"tokens": 1000}), 0).await;
}

/// Files drawn by a program are shown to the user, even if the model only mentions them.
#[tokio::test]
async fn files_made_by_tools_are_listed_below_the_answer() {
    let source = "open('chart.png', 'wb').write(b'PNG')";
    let drawn = |_: &Program| Ran {
        files: vec![WrittenFile { name: "chart.png".to_owned(), base64: "UE5H".to_owned() }],
        ..Ran::silent(Ok(json!(3)))
    };
    let kept = Arc::new(MemoryFiles::default());
    let store = Arc::clone(&kept);
    let setting = Setting {
        query: "Q",
        heard: true,
        sandbox: Some(Arc::new(ScriptedSandbox::new(&[Language::Python]).with(source, drawn))),
        seams: Some(Box::new(move |seams| seams.files = store)),
        ..Setting::default()
    };
    let tools = json!([{"component_name": "CodeExec", "name": "CodeExec", "params": {}}]);
    let node = Node::new("Agent", json!({"llm_id": "tools", "tools": tools}));
    let component = node.build();
    let mut stage = Stage::new(&node, &*component, setting);
    stage.answer([ChatDelta::ToolCall {
        index: 0,
        id: Some("c0".to_owned()),
        name: Some("execute_code_0".to_owned()),
        arguments: json!({"lang": "python", "script": source}).to_string(),
    }]);
    stage.answer_text("Here is the chart.");
    let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
    let file = kept.all().pop().unwrap();
    let expected =
        format!("Here is the chart.\n\n![chart.png](/api/v1/agents/attachments/{}/download)", file.id);
    assert_eq!(outputs["content"], expected.as_str());
    for signal in stage.signals() {
        let Signal::Publish(_, shared) = signal else { continue };
        assert_eq!(&*shared.text().await.unwrap(), expected.as_str());
    }
}

#[tokio::test]
async fn a_budget_holds_even_without_tools() {
    let node = Node::new("Agent", json!({"llm_id": "m", "budget": {"model_calls": 0}}));
    let error = failure(&node, Setting { query: "Q", ..Setting::default() }).await;
    assert_eq!(error.kind, ErrorKind::QuotaExceeded);
}

/// An agent has no document for them; as tools they would fail at every call.
#[test]
fn pipeline_steps_are_not_tools() {
    for kind in ["File", "Parser", "TokenChunker", "Extractor", "Tokenizer", "Compiler"] {
        let tools = json!([{"component_name": kind, "name": "x", "params": {"field_name": "summary"}}]);
        let node = Node::new("Agent", json!({"llm_id": "m", "tools": tools}));
        let problems = node.try_build().err().unwrap_or_default();
        let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(told, [format!("`{kind}` is a step of an ingestion pipeline, not a tool")]);
    }
}

/// A missing tool is reported at its place, and the agent works without it.
#[tokio::test]
async fn missing_tools_are_omitted() {
    let below =
        json!({"component_name": "Agent", "name": "sub", "params": {"tools": ["Calculator", "Nosuch"]}});
    let tools = json!([{"component_name": "WenCai", "name": "Search", "params": {}}, "Calculater", below,
        {"component_name": "WebSearch", "name": "Web", "params": {"engine": "tavily"}}, {"component_name": "Lookup"}]);
    let node = Node::new("Agent", json!({"llm_id": "tools", "tools": tools}));
    let shape = node.build().shape();
    let told = shape.warnings.iter().map(|warning| warning.pointer.as_str());
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "/tools/0/component_name",
            "/tools/1",
            "/tools/3/params/api_key",
            "/tools/4/component_name",
            "/tools/2/params/tools/1",
        ]
    );
    let first = &shape.warnings[0].message;
    assert!(first.contains("`Search`") && first.contains("WenCai isn't part of this build"), "{first}");
    assert_eq!(shape.warnings[1].help.as_deref(), Some("did you mean `Calculator`?"));
    assert!(shape.unsupported.is_none());

    let component = node.build();
    let mut stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
    stage.answer_text("so");
    component.run(&stage.ctx).await.unwrap();
    let offered: Vec<String> = stage.asked()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["sub_2"]);
    let warned = |signal: &Signal| matches!(signal, Signal::Warn(told) if told.contains("continues without"));
    assert_eq!(stage.signals().iter().filter(|signal| warned(signal)).count(), 4);
}

/// With conditions or without: it returns the next nodes of a run, which are useless to a model.
#[tokio::test]
async fn a_switch_is_not_a_tool() {
    let conditions =
        json!([{"items": [{"cpn_id": "sys.query", "operator": "=", "value": "x"}], "to": ["Agent:A"]}]);
    let tools = json!([
        {"component_name": "Switch", "name": "Way", "params": {}},
        {"component_name": "Switch", "params": {"conditions": conditions, "end_cpn_ids": ["Agent:B"]}},
        "Calculator",
    ]);
    let node = Node::new("Agent", json!({"llm_id": "tools", "tools": tools}));
    let component = node.build();
    let warnings = component.shape().warnings;
    let places: Vec<&str> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(places, ["/tools/0/component_name", "/tools/1/component_name"]);
    assert!(
        warnings[0].message.contains("`Way`: `Switch` chooses the next component of a run"),
        "{warnings:?}"
    );
    let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
    stage.answer_text("so");
    component.run(&stage.ctx).await.unwrap();
    let offered: Vec<String> = stage.asked()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["calculator_2"]);
}

/// A key from a variable or a secret is known to be missing only when the agent runs.
#[tokio::test]
async fn tools_without_their_key_at_run_time_are_omitted() {
    let below = json!({"component_name": "Agent", "name": "sub", "params": {"sys_prompt": "S", "tools": [
        {"component_name": "TavilySearch", "name": "T", "params": {"api_key": "{secret.THEIRS}"}}]}});
    let tools = json!([
        {"component_name": "TavilySearch", "name": "A", "params": {"api_key": "{secret.NOPE}"}},
        {"component_name": "TavilySearch", "name": "B", "params": {"api_key": " {env.key}"}},
        {"component_name": "TavilySearch", "name": "C", "params": {"api_key": "{secret.THERE}"}},
        {"component_name": "Agent", "name": "D", "params": {"sys_prompt": "{secret.NOPE}"}},
        {"component_name": "CodeExec", "name": "E", "params": {"arguments": {"key": "{secret.NOPE}"}}},
        "Calculator", below,
    ]);
    let node = Node::new("Agent", json!({"llm_id": "tools", "sys_prompt": "{secret.OWN}", "tools": tools}));
    let component = node.build();
    let named =
        |references: &[weft_core::Reference]| references.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut dispensable = named(&component.shape().dispensable);
    dispensable.sort();
    dispensable.dedup();
    assert_eq!(dispensable, ["secret.NOPE", "secret.THEIRS", "secret.THERE"]);
    let setting =
        Setting { query: "Q", ..Setting::values([("secret.THERE", json!("k-1")), ("env.key", json!(""))]) };
    let mut stage = Stage::new(&node, &*component, setting);
    stage.answer_text("so");
    component.run(&stage.ctx).await.unwrap();
    let offered: Vec<String> = stage.asked()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["tavily_search_2", "calculator_5", "sub_6"]);
    let signals = stage.all_signals();
    let told: Vec<&str> = signals
        .iter()
        .filter_map(|signal| match signal {
            Signal::Warn(told) => Some(told.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 4, "{told:?}");
    let none = "there is no secret `NOPE` (set it with `weft secret set NOPE`)";
    assert_eq!(told[0], format!("the agent continues without the tool `A`: {none}"));
    assert!(
        told[1].starts_with("the agent continues without the tool `B`: `api_key` is missing, and "),
        "{}",
        told[1]
    );
    // On replay it omits the same tools, although there is a key by then, and nothing is reported again.
    let setting = Setting { query: "Q", ..Setting::values([("secret.THERE", json!("k-1"))]) };
    let mut before = Stage::new(&node, &*component, setting);
    before.answer_text("so");
    component.run(&before.ctx).await.unwrap();
    let notes = before.notes();
    let setting =
        Setting { query: "Q", ..Setting::values([("secret.NOPE", json!("k-2")), ("env.key", json!("k-3"))]) };
    let mut again = Stage::new(&node, &*component, setting).again(&notes);
    component.run(&again.ctx).await.unwrap();
    assert!(!again.signals().iter().any(|signal| matches!(signal, Signal::Warn(_))));
}

#[test]
fn tool_problems_are_reported_with_their_place() {
    let check = |params: serde_json::Value, expected: &[&str]| {
        assert_eq!(Node::new("Agent", params).problems(), expected);
    };
    check(json!({"tools": "all"}), &["/tools"]);
    check(json!({"tools": [{"name": "x"}, 7]}), &["/tools/0/component_name", "/tools/1"]);
    check(json!({"tools": [{"component_name": "Begin"}]}), &["/tools/0/component_name"]);
    check(
        json!({"tools": [{"component_name": "Agent", "name": "sub", "params": {"tools": [{"component_name": "Retrieval", "params": {"top_n": "many"}}]}}]}),
        &["/tools/0/params/tools/0/params/top_n"],
    );
    check(json!({"mcp": [{"tools": {}}]}), &["/mcp/0/mcp_id"]);
    check(json!({"mcp": [{"mcp_id": "s", "tools": ["echo"]}]}), &["/mcp/0/tools"]);
    check(
        json!({"mcp": [{"mcp_id": "s", "tools": {"a/b": {"approval": 7}}}]}),
        &["/mcp/0/tools/a~1b/approval"],
    );
    let listing = |count: usize| {
        let tools: Map<String, serde_json::Value> =
            (0..count).map(|n| (format!("t{n}"), json!({}))).collect();
        json!([{"mcp_id": "s", "tools": tools}])
    };
    check(json!({"mcp": listing(2_000)}), &[]);
    check(json!({"mcp": listing(2_001)}), &["/mcp"]);
    let sub = json!({"component_name": "Agent", "name": "sub", "params": {"mcp": listing(1_500)}});
    check(json!({"tools": [sub], "mcp": listing(1_500)}), &["/mcp"]);
    check(
        json!({"driver": "magic", "budget": {"tokens": -1, "rounds": 1.5, "mony": 1}}),
        &["/driver", "/budget/tokens", "/budget/rounds", "/budget/mony"],
    );
    check(json!({"budget": 5, "planner": {"analyse": "by hand"}}), &["/planner/analyse", "/budget"]);
    check(
        json!({"tools": [{"component_name": "Calculator", "approval": "maybe", "tool_time_limit": "soon",
            "params": {"poll": "often"}}, {"component_name": "CurrentTime", "tool_time_limit": -3}]}),
        &[
            "/tools/0/approval",
            "/tools/0/params/poll",
            "/tools/0/tool_time_limit",
            "/tools/1/tool_time_limit",
        ],
    );
    check(json!({"max_parallel_tools": 0}), &["/max_parallel_tools"]);
    // A model may choose the language of its programs, and the canvas may set none that does not exist.
    check(
        json!({"tools": [{"component_name": "CodeExec", "params": {"lang": "ruby"}}]}),
        &["/tools/0/params/lang"],
    );
    check(json!({"tools": [{"component_name": "CodeExec", "params": {"lang": "", "script": ""}}]}), &[]);
}

#[test]
fn typos_are_reported_with_a_suggestion() {
    let check = |params: serde_json::Value, expected: &[(&str, &str)]| {
        let warnings = Node::new("Agent", params).build().shape().warnings;
        let told = warnings.iter().map(|w| (w.pointer.as_str(), w.help.as_deref().unwrap_or_default()));
        assert_eq!(told.collect::<Vec<_>>(), expected);
    };
    let tool = json!({"component_name": "Calculator", "id": "x", "name": "c", "aproval": false, "colour": 1});
    check(
        json!({"tools": [tool], "debug_inputs": {}, "planner": {"analyze": "llm"}}),
        &[
            ("/tools/0/aproval", "did you mean `approval`?"),
            ("/tools/0/colour", "remove it, or move it into `params`"),
            ("/planner/analyze", "did you mean `analyse`?"),
        ],
    );
    let meta = json!({"description": "d", "inputSchema": {}, "aproval": false});
    check(
        json!({"mcp": [{"mcp_id": "s", "tools": {"t": meta}}]}),
        &[("/mcp/0/tools/t/aproval", "did you mean `approval`?")],
    );
    // Headers set by a canvas are not sent to the operator's servers.
    let warnings = Node::new("Agent", json!({"custom_header": {"X-Key": "k"}})).build().shape().warnings;
    assert_eq!((warnings.len(), warnings[0].pointer.as_str()), (1, "/custom_header"));
}

/// Otherwise the calls would be made without the approval that the author asked for.
#[test]
fn a_misspelled_approval_is_an_error() {
    let check = |tool: serde_json::Value, expected: &[&str]| {
        let node = Node::new("Agent", json!({"tools": [tool], "mcp": []}));
        assert_eq!(node.problems(), expected);
    };
    let tool = |key: &str, value: serde_json::Value| json!({"component_name": "Calculator", key: value});
    check(tool("aproval", json!(true)), &["/tools/0/aproval"]);
    check(tool("require_approval", json!("always")), &["/tools/0/require_approval"]);
    check(tool("mustBeApproved", json!(1)), &["/tools/0/mustBeApproved"]);
    check(tool("require_approval", json!(null)), &[]);
    check(tool("require_approval", json!(false)), &[]);
    check(tool("approval_timeout", json!(60)), &[]);
    check(tool("params", json!({"needsApproval": true})), &["/tools/0/params/needsApproval"]);
    check(tool("params", json!({"needsApproval": false, "approval_timeout_seconds": 60})), &[]);
    let server = json!({"mcp": [{"mcp_id": "s", "tools": {"t": {"aproval": true}}}]});
    assert_eq!(Node::new("Agent", server).problems(), ["/mcp/0/tools/t/aproval"]);
}

/// Parameters fixed by a canvas are neither requested from the model nor accepted from it; leftovers of editors
/// stay open.
#[test]
fn an_argument_set_by_the_canvas_is_hidden_from_the_model() {
    let check = |kind: &str, params: serde_json::Value, open: &[&str], required: &[&str]| {
        let spec = crate::catalog::find(kind).unwrap();
        let schema = super::component_tool::parameters(spec, params.as_object().unwrap());
        let names: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((names, json!(schema["required"])), (open.to_vec(), json!(required)), "{kind} {params}");
    };
    check("WriteFile", json!({"path": "fixed.txt"}), &["content", "append"], &["content"]);
    check("WriteFile", json!({"append": false, "path": ""}), &["path", "content"], &["path", "content"]);
    for query in ["", "sys.query", "{sys.query}"] {
        check("Retrieval", json!({"query": query, "top_n": 3}), &["query"], &["query"]);
    }
    check("Retrieval", json!({"query": "{Agent:A@content}"}), &[], &[]);
    check("CodeExec", json!({"lang": "python"}), &["lang", "script"], &["lang", "script"]);
    check("CodeExec", json!({"lang": "python", "script": "x"}), &[], &[]);
    let editors = json!({"lang": "python", "script": "def main(arg1: str, arg2: str) -> dict:\n  return {}"});
    check("CodeExec", editors, &["lang", "script"], &["lang", "script"]);
    // The editor's arguments are dropped with its program, and a canvas's own stay.
    let left = |script: &str| {
        let params = json!({"script": script, "arguments": {"arg1": "", "arg2": ""}, "outputs": {}});
        let spec = crate::catalog::find("CodeExec").unwrap();
        super::component_tool::of_canvas(spec, params.as_object().unwrap()).contains_key("arguments")
    };
    assert!(!left("def main(arg1: str, arg2: str):\n  return {}") && !left("def main(arg1, arg2):\n  pass"));
    assert!(left("def main(arg1):\n  return arg1"));
}

/// A canvas may be stricter than the operator, but never laxer.
#[test]
fn operator_settings_of_a_server_tool_are_a_minimum() {
    use std::time::Duration;
    use weft_core::tool::ToolTraits;
    let seconds = Duration::from_secs;
    let check = |meta: serde_json::Value, (guarded, own): (bool, u64), expected: (bool, bool, bool, u64)| {
        let node = Node::new("Agent", json!({"mcp": [{"mcp_id": "s", "tools": {"t": meta}}]}));
        let servers = super::entries::servers(&mut crate::params::Params::of(&node.source()), |_| Ok(()));
        let operators = ToolTraits {
            approval: guarded,
            alone: guarded,
            idempotent: !guarded,
            time_limit: seconds(own),
            ..ToolTraits::default()
        };
        let now = servers[0].tools[0].2.within(&operators);
        let now = (now.approval, now.alone, now.idempotent, now.time_limit.as_secs());
        assert_eq!(now, expected, "{meta}");
    };
    let lax = json!({"approval": false, "alone": false, "idempotent": true, "tool_time_limit": 900});
    let strict = json!({"approval": true, "alone": true, "idempotent": false, "tool_time_limit": 5});
    check(json!({}), (true, 60), (true, true, false, 60));
    check(lax, (true, 60), (true, true, false, 60));
    check(strict, (false, 60), (true, true, false, 5));
}

#[test]
fn an_agent_that_is_its_own_tool_is_refused_where_it_is_named() {
    #[derive(Debug)]
    struct Other(serde_json::Map<String, serde_json::Value>);
    impl weft_core::component::Others for Other {
        fn get(&self, id: &ComponentId) -> Option<(&str, &serde_json::Map<String, serde_json::Value>)> {
            id.as_str().starts_with("Agent:").then_some(("Agent", &self.0))
        }
    }
    let check = |own: serde_json::Value, other: serde_json::Value, expected: &[&str]| {
        let node = Node::new("Agent", json!({"tools": own}));
        let other = Other(serde_json::Map::from_iter([("tools".to_owned(), other)]));
        let source = weft_core::NodeSource { others: &other, ..node.source() };
        let problems = (super::SPEC.build)(&source).err().unwrap_or_default();
        assert_eq!(problems.iter().map(|problem| problem.pointer.as_str()).collect::<Vec<_>>(), expected);
    };
    check(json!(["Agent:T"]), json!([]), &["/tools/0"]);
    check(json!(["Agent:A", "Agent:A"]), json!([]), &[]);
    check(json!(["Agent:A"]), json!(["Calculator", "Agent:T"]), &["/tools/0/params/tools/1"]);
    let inline = json!([{"component_name": "Agent", "params": {"tools": ["Agent:A"]}}]);
    check(json!(["Agent:A"]), inline, &["/tools/0/params/tools/0/params/tools/0"]);
}

#[test]
fn a_tool_is_read_with_its_references() {
    let tools = json!([{"component_name": "Agent", "name": "sub", "params": {"sys_prompt": "for {sys.user_id} {Agent:A@content}", "llm_id": "small"}}]);
    let shape =
        Node::new("Agent", json!({"tools": tools, "llm_id": "large", "prompts": "x"})).build().shape();
    let reads: Vec<String> = shape.reads.all().map(ToString::to_string).collect();
    assert!(
        reads.contains(&"sys.user_id".to_owned()) && reads.contains(&"Agent:A@content".to_owned()),
        "{reads:?}"
    );
    assert_eq!(
        shape.models,
        [
            ("/llm_id".to_owned(), "large".to_owned()),
            ("/tools/0/params/llm_id".to_owned(), "small".to_owned())
        ]
    );
}
