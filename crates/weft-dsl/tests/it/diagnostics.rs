//! Each diagnostic: its severity, place, underlined text and message.

use serde_json::{Value as Json, json};
use weft_dsl::{CompileOptions, LeftOutTool, Problem, Severity};

use crate::problems;

fn begin(downstream: &[&str]) -> Json {
    json!({"obj": {"component_name": "Begin", "params": {}}, "downstream": downstream})
}

fn node(kind: &str, params: Json, downstream: &[&str]) -> Json {
    json!({"obj": {"component_name": kind, "params": params}, "downstream": downstream})
}

fn message(text: &str) -> Json {
    node("Message", json!({"content": [text]}), &[])
}

fn inside(parent: &str, mut node: Json) -> Json {
    node["parent_id"] = parent.into();
    node
}

fn canvas(components: &Json) -> String {
    serde_json::to_string_pretty(&json!({"components": components})).unwrap()
}

/// A problem in one line: severity, code, pointer below `/components`, underlined text.
fn line(source: &str, problem: &Problem) -> String {
    let pointer = problem.pointer.strip_prefix("/components").unwrap_or(&problem.pointer);
    let span = problem.span.clone().expect("every problem has a span");
    format!("{} {} {pointer} {}", problem.severity, problem.code, &source[span])
}

/// Exactly these are found. Returns them for further checks.
fn check(components: &Json, expected: &[&str]) -> Vec<Problem> {
    check_with(components, &CompileOptions::default(), expected)
}

fn check_with(components: &Json, options: &CompileOptions<'_>, expected: &[&str]) -> Vec<Problem> {
    check_text(&canvas(components), options, expected)
}

fn check_text(source: &str, options: &CompileOptions<'_>, expected: &[&str]) -> Vec<Problem> {
    let problems = problems(source, options);
    let lines: Vec<_> = problems.iter().map(|problem| line(source, problem)).collect();
    assert_eq!(lines, expected, "{problems:#?}");
    problems
}

#[test]
fn an_unknown_component_is_reported() {
    let found = check(
        &json!({"begin": begin(&["a"]), "a": node("Mesage", json!({}), &["b"]), "b": message("x")}),
        &[r#"error unknown-component /a/obj/component_name "Mesage""#],
    );
    assert_eq!(found[0].message, "there is no component type `Mesage`");
    assert_eq!(found[0].help.as_deref(), Some("did you mean `Message`?"));
    assert_eq!(found[0].component.as_ref().unwrap().as_str(), "a");
    check(
        &json!({"begin": node("Bgin", json!({}), &[])}),
        &[r#"error unknown-component /begin/obj/component_name "Bgin""#],
    );
    // A name similar to none of them has a remedy, too.
    let found = check(
        &json!({"begin": begin(&["a"]), "a": node("AgentInvoke", json!({}), &[])}),
        &[r#"error unknown-component /a/obj/component_name "AgentInvoke""#],
    );
    assert_eq!(found[0].help.as_deref(), Some("use one of those that `weft components` lists"));
}

#[test]
fn a_component_for_tests_only_is_reported() {
    let components = json!({"begin": begin(&["a"]), "a": node("Delay", json!({}), &[])});
    check(&components, &[r#"error unknown-component /a/obj/component_name "Delay""#]);
    check_with(&components, &CompileOptions { measuring: true, ..CompileOptions::default() }, &[]);
}

#[test]
fn targets_that_do_not_exist() {
    let condition = json!({"items": [], "to": ["m", "Mesage:1"]});
    let found = check(
        &json!({
            "begin": begin(&["s", "gone"]),
            "s": node("Switch", json!({"conditions": [condition], "end_cpn_ids": ["m", "x/y"]}), &["decoration"]),
            "m": node("Message", json!({"content": ["x"], "exception_method": "goto", "exception_goto": ["n"]}), &[]),
            "Message:1": message("x"),
        }),
        &[
            r#"error unknown-target /begin/downstream/1 "gone""#,
            r#"error unknown-target /s/obj/params/conditions/0/to/1 "Mesage:1""#,
            r#"error unknown-target /s/obj/params/end_cpn_ids/1 "x/y""#,
            r#"warning unknown-target /s/downstream/0 "decoration""#,
            r#"error unknown-target /m/obj/params/exception_goto/0 "n""#,
        ],
    );
    assert_eq!(found[1].help.as_deref(), Some("did you mean `Message:1`?"));
    assert_eq!(found[1].message, "the branch leads to `Mesage:1`, which does not exist");
}

#[test]
fn incomplete_exception_settings_are_reported() {
    let found = check(
        &json!({
            "begin": begin(&["a", "b"]),
            "a": node("Agent", json!({"exception_method": "goto", "exception_goto": []}), &[]),
            "b": node("Agent", json!({"exception_method": "comment", "exception_default_value": ""}), &[]),
        }),
        &[
            r#"warning failure-not-handled /a/obj/params/exception_method "goto""#,
            r#"warning failure-not-handled /b/obj/params/exception_method "comment""#,
        ],
    );
    assert!(found[0].message.contains("none is named"), "{}", found[0].message);
    assert!(found[1].message.contains("none is set"), "{}", found[1].message);
}

#[test]
fn diagnostics_of_a_drawing_point_into_the_drawing() {
    let node = |id: &str, label: &str, form: Json| json!({"id": id, "data": {"label": label, "name": "N", "form": form}});
    let graph = json!({
        "nodes": [node("begin", "Begin", json!({})), node("m", "Message", json!({"content": ["{gone@x}"]})), node("n", "Nope", json!({}))],
        "edges": [{"source": "begin", "target": "m"}, {"source": "begin", "target": "n"}, {"source": "m", "target": "away"}],
    });
    check_text(
        &json!({"graph": graph}).to_string(),
        &CompileOptions::default(),
        &[
            r#"error unknown-reference /graph/nodes/1/data/form/content/0 "{gone@x}""#,
            r#"error unknown-component /graph/nodes/2/data/label "Nope""#,
            r#"error unknown-target /graph/edges/2/target "away""#,
        ],
    );
}

#[test]
fn unreachable_nodes_and_their_readers_are_reported() {
    check(
        &json!({"begin": begin(&["m"]), "m": message("{lost@content}"), "lost": message("x")}),
        &[
            r#"warning reads-nothing /m/obj/params/content/0 "{lost@content}""#,
            r#"warning unreachable /lost "lost""#,
        ],
    );
}

/// One cause is one diagnostic: nodes behind an edge reported as broken are not reported as well.
#[test]
fn consequences_of_a_broken_edge_are_not_reported() {
    let agent = |reads: &str, tools: &[&str], to: &[&str]| {
        node("Agent", json!({"sys_prompt": reads, "tools": tools}), to)
    };
    let chain = |first: &str| {
        json!({
            "begin": begin(&[first]), "Agent:First": agent("{sys.query}", &[], &["Agent:Second"]),
            "Agent:Second": agent("{Agent:First@content}", &["Agent:Helper"], &["Message:End"]),
            "Agent:Helper": agent("{sys.query}", &[], &[]), "Message:End": message("{Agent:Second@content}"),
            "Message:Lost": message("x"),
        })
    };
    let lost = r#"warning unreachable /Message:Lost "Message:Lost""#;
    check(&chain("Agent:First"), &[lost]);
    let broken = r#"error unknown-target /begin/downstream/0 "Agent:Fisrt""#;
    check(&chain("Agent:Fisrt"), &[broken, lost]);
    // If the intended node is unknown, it may be any of them.
    check(&chain("Nowhere"), &[r#"error unknown-target /begin/downstream/0 "Nowhere""#]);
}

/// Without a broken edge, the first unreachable node stands for the others.
#[test]
fn only_the_first_node_of_an_unreachable_chain_is_reported() {
    let agent = |to: &[&str]| node("Agent", json!({}), to);
    let found = check(
        &json!({
            "begin": begin(&[]), "c": agent(&["d"]), "a": agent(&["b"]), "b": agent(&["c"]), "d": message("x"),
            "r": agent(&["s"]), "s": agent(&["r"]),
        }),
        &[r#"warning unreachable /a "a""#, r#"warning unreachable /r "r""#],
    );
    assert_eq!(
        found[0].message,
        "nothing leads to this component: it never runs, and neither do the 3 after it"
    );
    assert!(found[1].message.ends_with("neither does the one after it"), "{}", found[1].message);
}

#[test]
fn reads_of_another_branch() {
    let reading = |reads: &str, to: &[&str]| node("Agent", json!({"sys_prompt": reads}), to);
    let switch =
        |back: &[&str]| node("Switch", json!({"conditions": [{"to": ["a"]}], "end_cpn_ids": back}), &[]);
    let canvas = |of_b: &str, back: &[&str]| {
        json!({
            "begin": begin(&["s"]), "s": switch(back), "a": reading("{sys.query}", &["a2"]),
            "a2": reading("{a@content} {s@next}", &["both"]), "b": reading(of_b, &["both"]),
            "both": message("{a@content}{b@content}"),
        })
    };
    check(&canvas("{begin@city}", &["b"]), &[]);
    let found = check(
        &canvas("{a@content}", &["b"]),
        &[r#"warning reads-nothing /b/obj/params/sys_prompt "{a@content}""#],
    );
    assert!(found[0].message.contains("on another branch of `s`"), "{}", found[0].message);
    // One branch leads to both, or a previous pass may have taken the other one.
    check(&canvas("{a@content}", &["a", "b"]), &[]);
    let mut again = canvas("{a@content}", &["b"]);
    again["a2"]["downstream"] = json!(["s"]);
    check(&again, &[]);
    // Another node gives it a value.
    let mut given = canvas("{a@content}", &["b"]);
    given["begin"]["downstream"] = json!(["set"]);
    let variables = json!([{"variable": "{a@content}", "operator": "set", "parameter": "x"}]);
    given["set"] = node("VariableAssigner", json!({"variables": variables}), &["s"]);
    check(&given, &[r#"warning reads-nothing /set/obj/params/variables/0/variable "{a@content}""#]);
}

#[test]
fn reads_of_another_branch_in_a_body() {
    let canvas = |frame: &str, of_b: &str, back: &[&str]| {
        let switch = json!({"conditions": [{"to": ["a"]}], "end_cpn_ids": ["b"]});
        json!({
            "begin": begin(&["f"]), "f": node(frame, json!({}), &["m"]), "m": message("done"),
            "i": inside("f", node(&format!("{frame}Item"), json!({}), &["s"])),
            "s": inside("f", node("Switch", switch, &[])),
            "a": inside("f", node("Agent", json!({"sys_prompt": "{sys.query}"}), back)),
            "b": inside("f", node("Agent", json!({"sys_prompt": of_b}), &[])),
        })
    };
    for frame in ["Iteration", "Loop"] {
        check(&canvas(frame, "{sys.query}", &[]), &[]);
        let found = check(
            &canvas(frame, "{a@content}", &[]),
            &[r#"warning reads-nothing /b/obj/params/sys_prompt "{a@content}""#],
        );
        assert!(found[0].message.contains("on another branch of `s`"), "{}", found[0].message);
        // A previous pass may have taken the other one.
        check(&canvas(frame, "{a@content}", &["s"]), &[]);
        // Within a nested body of the branch.
        let mut deep = canvas(frame, "{sys.query}", &[]);
        deep["b"]["downstream"] = json!(["g"]);
        deep["g"] = inside("f", node("Iteration", json!({}), &[]));
        deep["h"] = inside("g", node("IterationItem", json!({}), &["r"]));
        deep["r"] = inside("g", node("Agent", json!({"sys_prompt": "{a@content}"}), &[]));
        check(&deep, &[r#"warning reads-nothing /r/obj/params/sys_prompt "{a@content}""#]);
    }
    // Nodes before the branches read values of a previous round.
    let mut before = canvas("Loop", "{sys.query}", &[]);
    before["i"]["downstream"] = json!(["p"]);
    before["p"] = inside("f", node("Agent", json!({"sys_prompt": "{a@content}"}), &["s"]));
    check(&before, &[]);
}

#[test]
fn invalid_paths_into_globals_are_reported() {
    let variables = json!({
        "town": {"type": "string", "value": "Ulm"}, "n": {"type": "number", "value": 3}, "free": {"type": "string"},
        "json": {"type": "string", "value": "{\"a\": [1]}"}, "list": {"type": "array<object>", "value": [{"a": 1}]},
        "told": {"type": "string", "value": "x"},
    });
    let check = |text: &str, expected: &[(&str, &str)]| {
        let assigned = json!([{"variable": "env.told", "operator": "set", "parameter": "y"}]);
        let source = json!({
            "components": {
                "begin": begin(&["v"]), "v": node("VariableAssigner", json!({"variables": assigned}), &["m"]),
                "m": message(text),
            },
            "variables": variables,
        })
        .to_string();
        let found = problems(&source, &CompileOptions::default());
        let told: Vec<_> = found
            .iter()
            .map(|found| (found.message.as_str(), found.help.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(told, expected, "{text}");
        assert!(found.iter().all(|problem| problem.code == "unknown-global"), "{found:?}");
    };
    check("{sys.files.0} {sys.query.a} {env.json.a.0} {env.list.0.a} {env.list.-1.a} {env.free.x}", &[]);
    check("{env.told.x}", &[]);
    let list = "`sys.files.name` is empty: `sys.files` is a list and has no member `name`";
    check("{sys.files.name}", &[(list, "write `sys.files.0`")]);
    let entry = "`sys.files.0.name` is empty: `sys.files.0` is a text and has no member `name`";
    check("{sys.files.0.name}", &[(entry, "write `sys.files.0`")]);
    let text = "`env.town.name` is empty: `env.town` is a text and has no member `name`";
    check("{env.town.name}", &[(text, "write `env.town`")]);
    let number = "`env.n.x` is empty: `env.n` is a number and has no member `x`";
    check("{env.n.x}", &[(number, "write `env.n`")]);
    let deep = "`env.json.a.b` is empty: `env.json.a` is a list and has no member `b`";
    check("{env.json.a.b}", &[(deep, "write `env.json.a.0`")]);
    let member = "`env.list.0.b` is empty: `env.list.0` is an object and has no member `b`";
    check("{env.list.0.b}", &[(member, "write `env.list.0.a`")]);
}

#[test]
fn types_are_recognized_in_any_case() {
    let assigned = json!([{"variable": "env.told", "operator": "set", "parameter": "{\"x\": 1}"}]);
    let source = json!({
        "components": {
            "begin": begin(&["v"]), "v": node("variableassigner", json!({"variables": assigned}), &["c"]),
            "c": node("codeExec", json!({"script": "{ sys.query"}), &["m"]), "m": message("{env.told.x}"),
        },
        "variables": {"told": {"type": "string", "value": "y"}},
    });
    assert_eq!(problems(&source.to_string(), &CompileOptions::default()), []);
    let pipeline = json!({"components": {"File": {"obj": {"component_name": "file", "params": {}}}}});
    let plan = crate::compiled(&pipeline).plan;
    assert!(plan.is_pipeline && plan.prologue.is_empty());
}

#[test]
fn tex_is_not_an_abbreviation_of_an_iteration() {
    let canvas = |text: &str| {
        json!({
            "begin": begin(&["f", "m"]), "m": message(text),
            "f": node("Iteration", json!({}), &[]), "i": inside("f", node("IterationItem", json!({}), &[])),
        })
    };
    check(&canvas(r"Write \text{item} and \frac{index}{item}, x_{index}."), &[]);
    check(&canvas("about {item}"), &[r#"warning outside-iteration /m/obj/params/content/0 "about {item}""#]);
}

/// Tools of agents, also nested ones, need no edge. Their own targets are another matter.
#[test]
fn a_component_called_as_a_tool_needs_no_edge() {
    let agent = |tools: &[&str], to: &[&str]| node("Agent", json!({"tools": tools}), to);
    check(
        &json!({
            "begin": begin(&["a"]), "a": agent(&["helper", "a"], &["m"]), "m": message("{search@content}"),
            "helper": agent(&["search", "helper"], &["after"]), "search": node("Retrieval", json!({}), &[]),
            "after": message("x"), "lost": agent(&["other"], &[]), "other": agent(&["lost"], &[]),
        }),
        &[
            r#"warning reads-nothing /m/obj/params/content/0 "{search@content}""#,
            r#"warning unreachable /after "after""#,
            r#"warning unreachable /lost "lost""#,
            r#"warning unreachable /other "other""#,
        ],
    );
}

#[test]
fn references_to_nothing_are_reported() {
    let source = serde_json::to_string_pretty(&json!({
        "components": {
            "begin": begin(&["Agent:A"]),
            "Agent:A": node("Agent", json!({"sys_prompt": "{sys.qery} {env.town.name} {env.n}", "prompts": [{"content": "{begin@nope.x}"}]}), &["m"]),
            "m": node("Message", json!({"content": ["hi", "{Agent:B@content}", "mail me@example.org, {iteration:0@generate:1}"]}), &[]),
        },
        "variables": {"n": {"type": "number"}},
    }))
    .unwrap();
    let prompt = r#""{sys.qery} {env.town.name} {env.n}""#;
    let unknown = format!("error unknown-global /Agent:A/obj/params/sys_prompt {prompt}");
    let reference = r#"error unknown-reference /m/obj/params/content/1 "{Agent:B@content}""#;
    let found = check_text(&source, &CompileOptions::default(), &[&unknown, &unknown, reference]);
    assert_eq!(found[0].message, "`sys.qery` does not exist");
    assert_eq!(found[0].help.as_deref(), Some("did you mean `sys.query`?"));
    assert_eq!(found[1].help.as_deref(), Some("declare `town.name` under `variables`"));
    assert_eq!(found[2].help.as_deref(), Some("did you mean `Agent:A`?"));
}

#[test]
fn a_reference_to_a_later_node_is_reported() {
    let found = check(
        &json!({"begin": begin(&["a"]), "a": node("Agent", json!({"sys_prompt": "{b@content}"}), &["b"]), "b": message("x")}),
        &[r#"warning reads-nothing /a/obj/params/sys_prompt "{b@content}""#],
    );
    assert!(found[0].message.contains("after this component"), "{}", found[0].message);
    // In parallel is fine: the reader waits.
    check(
        &json!({"begin": begin(&["a", "b"]), "a": node("Agent", json!({"sys_prompt": "{b@content}"}), &[]), "b": message("x")}),
        &[],
    );
}

#[test]
fn invalid_or_ineffective_parameters_are_reported() {
    let found = check(
        &json!({
            "begin": begin(&["a", "b", "c"]),
            "a": node("Message", json!({}), &[]),
            "b": node("Retrieval", json!({"top_n": "many"}), &[]),
            "c": node("Retrieval", json!({"enable_toc": true}), &[]),
        }),
        &[
            r#"error invalid-parameter /a/obj/params/content "params""#,
            r#"error invalid-parameter /b/obj/params/top_n "many""#,
            r#"warning parameter-warning /c/obj/params/enable_toc true"#,
        ],
    );
    assert_eq!(found[0].help.as_deref(), Some("give it one"));
}

#[test]
fn removed_and_unavailable_components_are_reported() {
    let found = check(
        &json!({"begin": begin(&["a"]), "a": node("Answer", json!({}), &["b"]), "b": node("ExeSQL", json!({}), &["a"])}),
        &[r#"warning will-fail /a/obj/component_name "Answer""#],
    );
    assert_eq!(found[0].message, "`Answer` was removed from the canvas language, and every run reaches it");
}

#[test]
fn unknown_tool_servers_are_reported() {
    let servers = ["files".to_owned()];
    let options = CompileOptions { tool_servers: Some(&servers), ..CompileOptions::default() };
    let mcp =
        |id: &str| json!([{"mcp_id": "files", "tools": {"read_file": {}}}, {"mcp_id": id, "tools": {}}]);
    let helper = json!({"component_name": "Agent", "params": {"mcp": mcp("gone")}});
    let params = json!({"mcp": mcp("flies"), "tools": [helper]});
    let components = json!({"begin": begin(&["a"]), "a": node("Agent", params, &[])});
    let found = check_with(
        &components,
        &options,
        &[
            r#"warning unknown-tool-server /a/obj/params/mcp/1/mcp_id "flies""#,
            r#"warning unknown-tool-server /a/obj/params/tools/0/params/mcp/1/mcp_id "gone""#,
        ],
    );
    assert_eq!(found[0].help.as_deref(), Some("did you mean `files`?"));
    check(&components, &[]);
}

/// Published canvases have entries of this kind: the agent gets a server but none of its tools.
#[test]
fn tool_servers_without_named_tools() {
    let servers = ["files".to_owned()];
    let options = CompileOptions { tool_servers: Some(&servers), ..CompileOptions::default() };
    let mcp = json!([{"mcp_id": "files", "tools": {}}, {"mcp_id": "files", "tools": {"read_file": {}}}]);
    let helper = json!({"component_name": "Agent", "params": {"mcp": [{"mcp_id": "files", "tools": {}}]}});
    let components =
        json!({"begin": begin(&["a"]), "a": node("Agent", json!({"mcp": mcp, "tools": [helper]}), &[])});
    let found = check_with(
        &components,
        &options,
        &[
            "warning no-tool-named /a/obj/params/mcp/0/tools \"tools\"",
            "warning no-tool-named /a/obj/params/tools/0/params/mcp/0/tools \"tools\"",
        ],
    );
    assert_eq!(found[0].message, "no tool of `files` is named: the agent runs without its tools");
    check(&components, &[]);
}

#[test]
fn omitted_tools_are_reported() {
    let left_out = [LeftOutTool {
        server: "weather".to_owned(),
        tool: "up/load".to_owned(),
        reason: "its body is neither JSON nor a form".to_owned(),
    }];
    let options = CompileOptions { left_out_tools: &left_out, ..CompileOptions::default() };
    let mcp = |id: &str| json!([{"mcp_id": id, "tools": {"forecast": {}, "up/load": {}}}]);
    let helper = json!({"component_name": "Agent", "params": {"mcp": mcp("weather")}});
    let params = json!({"mcp": mcp("weather"), "tools": [helper]});
    let components = json!({"begin": begin(&["a"]), "a": node("Agent", params, &["b"]),
        "b": node("Agent", json!({"mcp": mcp("another")}), &[])});
    let found = check_with(
        &components,
        &options,
        &[
            r#"warning left-out-tool /a/obj/params/mcp/0/tools/up~1load "up/load""#,
            r#"warning left-out-tool /a/obj/params/tools/0/params/mcp/0/tools/up~1load "up/load""#,
        ],
    );
    assert_eq!(
        found[0].message,
        "`weather` has no tool `up/load`: its body is neither JSON nor a form; the agent runs without it"
    );
    check(&components, &[]);
}

#[test]
fn models() {
    let check_models = |id: &str, expected: &[&str]| {
        let models = |llm_id: &str| match llm_id {
            "" => Ok(Some("no model is named: `small` answers".to_owned())),
            "small" => Ok(None),
            other => Err(format!("there is no model `{other}`; there is `small`")),
        };
        let options = CompileOptions { models: Some(&models), ..CompileOptions::default() };
        check_with(
            &json!({"begin": begin(&["a"]), "a": node("LLM", json!({"llm_id": id}), &[])}),
            &options,
            expected,
        )
    };
    check_models("small", &[]);
    check_models("", &[r#"warning default-model /a/obj/params/llm_id """#]);
    let found = check_models("big", &[r#"error MODEL_NOT_CONFIGURED /a/obj/params/llm_id "big""#]);
    assert_eq!(found[0].message, "there is no model `big`; there is `small`");
}

#[test]
fn a_cycle_without_an_exit_is_reported() {
    let found = check(
        &json!({"begin": begin(&["a"]), "a": node("Agent", json!({}), &["b"]), "b": node("Agent", json!({}), &["a"])}),
        &[r#"error endless-cycle /a/downstream/0 "b""#],
    );
    assert!(found[0].message.contains("`a`") && found[0].message.contains("`b`"), "{}", found[0].message);
    // A branch, success, or a person who is asked ends it; but a branch to itself is taken again and again.
    let again = node("Agent", json!({"exception_method": "goto", "exception_goto": ["a"]}), &[]);
    check(&json!({"begin": begin(&["a"]), "a": again}), &[]);
    let either = node("Switch", json!({"conditions": [{"to": ["a"]}], "end_cpn_ids": []}), &[]);
    check(
        &json!({"begin": begin(&["a"]), "a": either}),
        &[r#"warning endless-cycle /a/obj/params/conditions/0/to/0 "a""#],
    );
    let switch = node("Switch", json!({"conditions": [{"to": ["a"]}], "end_cpn_ids": ["m"]}), &[]);
    check(
        &json!({"begin": begin(&["a"]), "a": node("Agent", json!({}), &["s"]), "s": switch, "m": message("x")}),
        &[],
    );
    check(
        &json!({"begin": begin(&["u"]), "u": node("UserFillUp", json!({}), &["a"]), "a": node("Agent", json!({}), &["u"])}),
        &[],
    );
}

#[test]
fn frames_without_a_start_or_with_several_are_reported() {
    let body = |kind: &str, downstream: &[&str]| inside("f", node(kind, json!({}), downstream));
    let frame = |kind: &str| node(kind, json!({}), &[]);
    check(
        &json!({"begin": begin(&["f"]), "f": frame("Iteration"), "m": body("Agent", &[])}),
        &[r#"error frame-without-start /f "f""#],
    );
    check(
        &json!({"begin": begin(&["f"]), "f": frame("Loop"), "i": body("LoopItem", &["j"]), "j": body("LoopItem", &[])}),
        &[r#"warning several-starts /f "f""#],
    );
    check(
        &json!({"begin": begin(&["f"]), "f": frame("Loop"), "i": body("LoopItem", &["x"]), "x": body("ExitLoop", &[])}),
        &[r#"warning leaves-at-once /x "x""#],
    );
}

#[test]
fn invalid_parents_are_reported() {
    check(
        &json!({
            "begin": begin(&["a", "b"]),
            "a": inside("gone", message("x")),
            "b": inside("a", message("x")),
        }),
        &[r#"error unknown-parent /a/parent_id "gone""#, r#"error parent-without-body /b/parent_id "a""#],
    );
}

#[test]
fn a_misspelled_parent_is_one_finding() {
    let found = check(
        &json!({
            "begin": begin(&["Loop:L"]),
            "Loop:L": node("Loop", json!({}), &[]),
            "i": inside("Loop:L", node("LoopItem", json!({}), &["m"])),
            "m": inside("Loop:LL", message("x")),
        }),
        &[r#"error unknown-parent /m/parent_id "Loop:LL""#],
    );
    assert_eq!(found[0].help.as_deref(), Some("did you mean `Loop:L`?"));
}

#[test]
fn an_exit_outside_a_loop_is_reported() {
    check(
        &json!({"begin": begin(&["x"]), "x": node("ExitLoop", json!({}), &[])}),
        &[r#"error leaves-nothing /x "x""#],
    );
}

#[test]
fn an_edge_into_a_body_is_reported() {
    check(
        &json!({
            "begin": begin(&["f", "b"]),
            "f": node("Iteration", json!({}), &[]),
            "i": inside("f", node("IterationItem", json!({}), &["b"])),
            "b": inside("f", message("x")),
        }),
        &[r#"warning crosses-frame /begin/downstream/1 "b""#],
    );
}

/// An edge that would lead nowhere is not silently accepted: these are errors, not harmless drawings.
#[test]
fn branches_into_or_out_of_a_body_are_reported() {
    let failing =
        |to: &str| json!({"content": ["x"], "exception_method": "goto", "exception_goto": ["x", to]});
    let switch = json!({"conditions": [{"to": ["x"]}], "end_cpn_ids": ["m"]});
    check(
        &json!({
            "begin": begin(&["f", "s"]),
            "f": node("Iteration", json!({}), &["m"]),
            "i": inside("f", node("IterationItem", json!({}), &["a", "t"])),
            "a": inside("f", node("Message", failing("m"), &[])),
            "t": inside("f", node("Switch", switch.clone(), &[])),
            "x": inside("f", message("x")),
            "s": node("Switch", switch, &[]),
            "m": message("x"),
        }),
        &[
            r#"error crosses-frame /a/obj/params/exception_goto/1 "m""#,
            r#"error crosses-frame /t/obj/params/end_cpn_ids/0 "m""#,
            r#"error crosses-frame /s/obj/params/conditions/0/to/0 "x""#,
        ],
    );
    // The settings of a frame are for failures in it, and not an edge into it.
    let into_itself = json!({"exception_method": "goto", "exception_goto": ["x"]});
    check(
        &json!({
            "begin": begin(&["f"]),
            "f": node("Iteration", into_itself, &[]),
            "i": inside("f", node("IterationItem", json!({}), &["x"])),
            "x": inside("f", message("x")),
        }),
        &[r#"error crosses-frame /f/obj/params/exception_goto/0 "x""#],
    );
}

#[test]
fn a_canvas_needs_exactly_one_entry() {
    check(&json!({"m": message("x")}), &[r#"error no-entry  "components""#]);
    check(
        &json!({"begin": begin(&[]), "second": begin(&[])}),
        &[r#"warning several-entries /second "second""#],
    );
    check(&json!({"one": begin(&[]), "two": begin(&[])}), &[r#"error several-entries /two "two""#]);
    check(&json!({"one": begin(&[])}), &[]);
}

#[test]
fn an_ingestion_pipeline_starts_with_a_file() {
    let file = || node("File", json!({}), &["p"]);
    let parser = || node("Parser", json!({}), &[]);
    let found = check(&json!({"File": file(), "p": parser()}), &[]);
    assert!(found.is_empty());
    let wrapped = |components: Json| {
        json!({"canvas_category": "dataflow_canvas", "dsl": {"components": components}}).to_string()
    };
    let found = check_text(
        &wrapped(json!({"p": parser()})),
        &CompileOptions::default(),
        &[r#"error no-entry /dsl/components "components""#],
    );
    assert!(found[0].help.as_deref().is_some_and(|help| help.contains("File")), "{found:?}");
    check(
        &json!({"begin": begin(&["p"]), "File": file(), "p": parser()}),
        &[r#"warning several-entries /File "File""#],
    );
}

#[test]
fn plain_text_secrets_are_found_and_not_shown() {
    let secret = "tvly-dev-abcdefghij0123456789";
    let tools = json!([{"component_name": "TavilySearch", "params": {"api_key": secret}}]);
    let source = serde_json::to_string_pretty(&json!({
        "components": {
            "begin": begin(&["a"]),
            "a": node("Agent", json!({"tools": tools, "password": "{env.api_token}"}), &[]),
        },
        "variables": {"api_token": {"type": "string", "value": "abc"}, "city": {"value": "Ulm"}},
    }))
    .unwrap();
    let in_tool = format!("warning secret-in-clear /a/obj/params/tools/0/params/api_key \"{secret}\"");
    let expected = [in_tool.as_str(), r#"warning secret-in-clear /variables/api_token/value "abc""#];
    for problem in check_text(&source, &CompileOptions::default(), &expected) {
        assert!(
            !problem.to_string().contains("dev-abc") && !problem.to_string().contains("abc"),
            "{problem}"
        );
    }
}

#[test]
fn a_duplicate_key_is_reported() {
    let source = r#"{"components": {"begin": {"name": "Begin"}, "m": {"name": "Message"}, "begin": {"name": "Begin", "params": {}}}}"#;
    let expected = [
        r#"error invalid-parameter /m/params/content "m""#,
        r#"warning unreachable /m "m""#,
        r#"warning duplicate-key /begin "begin""#,
    ];
    let found = check_text(source, &CompileOptions::default(), &expected);
    assert_eq!(found[2].span, Some(70..77));
}

#[test]
fn a_number_that_loses_digits() {
    let source = r#"{"components": {"begin": {"name": "Begin", "params": {"tracking_number": 12345678901234567890123}}}}"#;
    let found = check_text(
        source,
        &CompileOptions::default(),
        &["warning lost-digits /begin/params/tracking_number 12345678901234567890123"],
    );
    assert!(found[0].message.contains("`12345678901234567890123`") && found[0].help.is_some(), "{found:?}");
}

#[test]
fn components_of_the_wrong_shape_are_reported() {
    check(
        &json!({
            "begin": {"obj": {"component_name": "Begin", "params": [1]}, "downstream": [5, "a"], "parent_id": 3},
            "a": "text",
            "b": {"obj": {"params": {}}, "downstream": {"x": 1}},
        }),
        &[
            "error malformed-component /begin/obj/params \"params\"",
            "error malformed-component /begin/downstream/0 5",
            "error malformed-component /begin/parent_id 3",
            "error malformed-component /a \"text\"",
            "error malformed-component /b \"b\"",
            "warning unreachable /b \"b\"",
            "error malformed-component /b/downstream \"downstream\"",
        ],
    );
    let source = json!({"components": {"begin": begin(&[])}, "variables": 7}).to_string();
    check_text(&source, &CompileOptions::default(), &["error malformed-variables /variables 7"]);
}

#[test]
fn graphs_that_take_too_long_to_check_are_refused() {
    let to: Vec<_> = (0..50_001).map(|_| "begin").collect();
    let found = check(&json!({"begin": begin(&to)}), &[r#"error too-many-edges  "components""#]);
    assert!(found[0].message.contains("50001 edges"), "{}", found[0].message);

    let all: Vec<_> = (0..200).map(|i| format!("n{i}")).collect();
    let switch = |own: &String| {
        let others: Vec<_> = all.iter().filter(|id| *id != own).collect();
        node("Switch", json!({"end_cpn_ids": others}), &[])
    };
    let mut components = json!({"begin": begin(&["n0"])});
    components.as_object_mut().unwrap().extend(all.iter().map(|id| (id.clone(), switch(id))));
    check(&components, &[r#"error too-many-cycles  "components""#]);

    let texts: String = (0..40_000).map(|i| format!("{{begin@x{i}}}")).collect();
    check(
        &json!({"begin": begin(&["m"]), "m": message(&texts)}),
        &[r#"error too-many-references  "components""#],
    );
}

#[test]
fn all_problems_are_reported_at_once_with_exact_spans() {
    let source = r#"{"dsl": {"components": {
  "begin": {"obj": {"component_name": "Begin"}, "downstream": ["nope"]},
  "x": {"obj": {"component_name": "Nope"}}
}}}"#;
    let found = problems(source, &CompileOptions::default());
    let found: Vec<_> = found.iter().map(|p| (p.severity, &*p.pointer, p.span.clone().unwrap())).collect();
    let expected = [
        (Severity::Error, "/dsl/components/begin/downstream/0", 88..94),
        (Severity::Error, "/dsl/components/x/obj/component_name", 132..138),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_dsl_stored_as_text_is_underlined_in_its_text() {
    let source = json!({"dsl": json!({"components": {"x": {"name": "Nope"}}}).to_string()}).to_string();
    let found = problems(&source, &CompileOptions::default());
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|problem| problem.span == Some(1..6)), "{found:?}");
    assert!(found.iter().any(|problem| problem.pointer == "/dsl/components/x/name"));
}

#[test]
fn a_text_that_cannot_be_read_aloud_is_reported() {
    let canvas = json!({"begin": begin(&["a"]), "a": node("Message", json!({"content": ["x"], "auto_play": true}), &[])});
    let options =
        CompileOptions { no_voice: Some("no model is configured for that"), ..CompileOptions::default() };
    let found = check_with(&canvas, &options, &["warning no-voice /a/obj/params/auto_play true"]);
    assert_eq!(found[0].message, "the text will not be read aloud: no model is configured for that");
    check_with(&canvas, &CompileOptions::default(), &[]);
}

/// Inside a Loop it reads its output of the previous round.
#[test]
fn a_component_that_reads_its_own_output_is_reported() {
    let itself = |id: &str| node("Agent", json!({"sys_prompt": format!("after {{{id}@content}}")}), &[]);
    let found = check(
        &json!({
            "begin": begin(&["a", "l"]), "a": itself("a"),
            "l": node("Loop", json!({}), &[]), "i": inside("l", node("LoopItem", json!({}), &["b"])),
            "b": inside("l", itself("b")),
        }),
        &[r#"warning reads-nothing /a/obj/params/sys_prompt "after {a@content}""#],
    );
    assert_eq!(found[0].help.as_deref(), Some("refer to another component: this is its own output"));
}

#[test]
fn diagnostics_name_components_as_the_file_does() {
    let found = check(
        &json!({
            "begin": begin(&["m"]), "m": message("{PDFGenerator:P@download}"),
            "PDFGenerator:P": node("PDFGenerator", json!({"content": "x"}), &[]),
        }),
        &[
            r#"warning reads-nothing /m/obj/params/content/0 "{PDFGenerator:P@download}""#,
            r#"warning unreachable /PDFGenerator:P "PDFGenerator:P""#,
        ],
    );
    assert!(
        found[0].message.starts_with("`PDFGenerator:P@download` never has a value"),
        "{}",
        found[0].message
    );
    assert_eq!(found[1].component.as_ref().unwrap().as_str(), "PDFGenerator:P");
    assert_eq!(found[1].name.as_deref(), Some("PDFGenerator:P"));
}
