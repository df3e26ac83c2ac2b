//! Past runs: replayed, forked, compared; pinned nodes; usage.

use serde_json::{Value as Json, json};

use crate::weft::{Home, agent, ask_a_model, sample};

fn last_run(home: &Home) -> String {
    home.weft(&["runs", "list", "--json"]).json_lines()[0]["id"].as_str().unwrap().to_owned()
}

/// An agent with a calculator, and a model that gives each answer only once.
fn calculating() -> Home {
    let call =
        json!({"call": {"id": "call_1", "name": "calculator_0", "arguments": {"expression": "6 * 7"}}});
    let home = Home::scripted(&json!({"replies": [
        {"when": {"tool": "42"}, "text": "It is 42."},
        {"when": {"user": "six"}, "say": [{"text": "Let me see."}, call]},
    ]}));
    let tool = json!({"component_name": "Calculator", "name": "calculator", "params": {}});
    let prompts = json!([{"role": "user", "content": "{sys.query}"}]);
    let params = json!({"llm_id": "", "sys_prompt": "s", "prompts": prompts, "tools": [tool], "cite": false});
    home.write("c.json", agent(&params).to_string());
    home
}

#[test]
fn an_interrupted_run_resumes_with_the_named_model() {
    let home = Home::new();
    let entry = |name: &str| {
        format!("[[models.entries]]\nname = \"{name}\"\nprovider = \"scripted\"\nscript = \"script.json\"\n")
    };
    // With two models, neither is the default.
    home.write("weft.toml", [entry("one"), entry("two")].concat());
    let slow = json!({"replies": [{"delay_ms": 600_000, "say": [{"text": "late"}]}]});
    home.write("script.json", slow.to_string());
    home.write("c.json", ask_a_model().to_string());
    let mut running = home.start(&["run", "c.json", "--query", "x", "--events", "--model", "two"]);
    running.printed("\"component_id\":\"LLM:A\"");
    running.signal("KILL");
    running.end();
    home.write("script.json", json!({"replies": [{"say": [{"text": "soon"}]}]}).to_string());
    let id = last_run(&home);
    let resumed = home.weft(&["runs", "resume", &id, "--model", "two"]).with(0);
    assert!(resumed.stdout.contains("succeeded"), "{}", resumed.stdout);
}

/// The recording answers: the model has no replies left, and is not called.
#[test]
fn a_run_is_replayed_without_its_model() {
    let home = calculating();
    let events = home.weft(&["run", "c.json", "--query", "six times seven?", "--events"]).with(0).stdout;
    let id = last_run(&home);
    std::fs::remove_file(home.path().join("script.json")).unwrap();
    home.write("weft.toml", "");
    let again = home.weft(&["runs", "replay", &id]).with(0).says(&["the replay matches the run"]);
    assert_eq!(again.stdout, events, "every event, byte for byte");
    let quiet = home.weft(&["runs", "replay", &id, "--quiet"]).with(0);
    assert_eq!(quiet.stdout, "");
    home.weft(&["runs", "replay", "absent"]).with(2).says(&["absent"]);
}

/// The planner ran because the model cannot call tools; a model that is not there any more could.
#[test]
fn an_agent_whose_model_cannot_call_tools_is_replayed_without_it() {
    let home = Home::quoting();
    let question = "How much are 17 boxes at 12.50?";
    let events = home.weft(&["run", &sample("agent_tools"), "--query", question, "--events"]).stdout;
    assert!(events.contains("the planner is used"), "{events}");
    let id = last_run(&home);
    home.write("weft.toml", "");
    let again = home.weft(&["runs", "replay", &id]).with(0).says(&["the replay matches the run"]);
    assert_eq!(again.stdout, events);
}

#[test]
fn a_run_is_forked_with_another_output_and_compared() {
    let home = Home::quoting();
    home.weft(&["run", &sample("switch_any_of_join"), "--query", "good morning"]).with(0);
    let first = last_run(&home);
    let set = ["--at", "StringTransform:Other", "--set", "result=Nobody calls."];
    let forked = home.weft(&[&["runs", "fork", &first], &set[..]].concat()).with(0);
    assert_eq!(forked.stdout.trim(), "Nobody calls.");
    let forked = forked.says(&["forked from", &first]);
    let second = last_run(&home);
    assert!(forked.stderr.contains(&second) && first != second, "{}", forked.stderr);

    let diff = home.weft(&["runs", "diff", &first, &second]).with(1).stdout;
    for part in [
        "~ ",
        "StringTransform:Other",
        "- result: \"Somebody will call you about: good morning\"",
        "+ result: \"Nobody calls.\"",
        "succeeded",
    ] {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(!diff.contains("Switch:Topic"), "unchanged nodes are not shown: {diff}");
    assert!(home.weft(&["runs", "diff", &first, &second, "--all"]).stdout.contains("Switch:Topic"));
    let json = &home.weft(&["runs", "diff", &first, &second, "--json"]).with(1).json_lines()[0];
    assert_eq!(json["nodes"].as_array().unwrap().len(), 4, "{json}");
    home.weft(&["runs", "diff", &first, &first]).with(0);

    // Another branch; and an invalid value is named.
    let to = ["--at", "Switch:Topic", "--to", "StringTransform:Refund"];
    let forked = home.weft(&[&["runs", "fork", &first], &to[..]].concat()).with(0);
    assert_eq!(forked.stdout.trim(), "A refund takes five days.");
    home.weft(&["runs", "fork", &first, "--at", "Switch:Topic", "--to", "begin", "--set", "nosuch=x"])
        .with(2)
        .says(&["no output `nosuch`"]);
    let taken =
        home.weft(&["runs", "list", "--json"]).json_lines()[0]["session"].as_str().unwrap().to_owned();
    home.weft(&["runs", "fork", &first, "--at", "Switch:Topic", "--session", &taken]).with(2).says(&[
        "there is already a session",
        &taken,
        "--session",
    ]);
    home.weft(&["runs", "fork", &first, "--at", "Nowhere:X"]).with(2).says(&["Nowhere:X", "weft runs show"]);
    home.weft(&["runs", "fork", &first, "--at", "Switch:Topic", "--to", "begin"])
        .with(2)
        .says(&["no branch"]);
    home.weft(&["runs", "fork", &first, "--at", "StringTransform:Other", "--to", "Message:Reply"])
        .with(2)
        .says(&["`StringTransform:Other` does not branch", "leave `to` out"]);
}

#[test]
fn a_fork_that_waits_tells_how_to_answer_it_in_the_same_place() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    home.weft(&["run", &sample("form_pause"), "--query", "Plan", "--data", "d"]).with(3);
    let id = home.weft(&["runs", "list", "--json", "--data", "d"]).json_lines()[0]["id"].clone();
    let fork = ["runs", "fork", id.as_str().unwrap(), "--at", "LLM:Plan", "--session", "s", "--data", "d"];
    home.weft(&fork).with(3).says(&["weft run FILE --session s --data d --input go=VALUE"]);
}

#[test]
fn a_pinned_node_does_not_run() {
    let home = Home::scripted(&json!({"replies": [{"when": {"user": "a"}, "text": "from the model"}]}));
    home.write("c.json", ask_a_model().to_string());
    let pinned =
        |pin: &str, code: i32| home.weft(&["run", "c.json", "--query", "b", "--pin", pin]).with(code);
    let ran = pinned(r#"LLM:A={"content": "from the pin"}"#, 0);
    assert_eq!(ran.stdout.trim(), "from the pin", "the model has no answer for b");
    home.weft(&["run", "c.json", "--query", "a"]).with(0);
    let id = last_run(&home);
    assert_eq!(pinned(&format!("LLM:A@{id}"), 0).stdout.trim(), "from the model");
    drop(pinned("LLM:A=7", 2).says(&["LLM:A", "is not a JSON object", "--pin"]));
    let words = pinned("LLM:A=notjson", 2).says(&["is not a JSON object with the outputs of the node"]);
    assert!(!words.stderr.contains("line 1"), "{}", words.stderr);
    drop(pinned("LLM:Z={}", 2).says(&["LLM:Z"]));
    drop(pinned(r#"LLM:A={"contnet": "x"}"#, 2).says(&["no output `contnet`", "did you mean `content`?"]));
    drop(pinned(r#"LLM:A={"page": "x"}"#, 2).says(&["no output `page`", "its outputs are `content`"]));
    drop(pinned("LLM:A@none", 2).says(&["there is no run `none`", "weft runs list"]));
    drop(pinned("nonsense", 2).says(&["--pin"]));
    let twice = ["run", "c.json", "--query", "b", "--pin", "LLM:A={}", "--pin", "LLM:A={}"];
    home.weft(&twice).with(2).says(&["--pin gives LLM:A twice"]);
}

/// Several runs share one budget, and their usage is shown.
#[test]
fn budgets_apply_across_runs_and_usage_is_shown() {
    let home = calculating();
    home.weft(&["spending"]).with(0).says(&["no model or tool"]);
    home.write("again.json", json!({"replies": [
        {"when": {"tool": "42"}, "times": 0, "text": "It is 42."},
        {"when": {"user": "six"}, "times": 0, "say": [{"call": {"id": "call_1", "name": "calculator_0", "arguments": {"expression": "6 * 7"}}}]},
    ]}).to_string());
    home.write(
        "weft.toml",
        "[[models.entries]]\nname = \"actor\"\nprovider = \"scripted\"\nscript = \"again.json\"\n\
         [limits.tenant_budget]\nday = { model_calls = 3 }\n",
    );
    let ask = || home.weft(&["run", "c.json", "--query", "six"]);
    ask().with(0);
    let used = &home.weft(&["spending", "--json"]).with(0).json_lines()[0];
    let counts =
        |line: &Json| ["model_calls", "tool_calls", "rounds"].map(|name| line[name].as_u64().unwrap_or(0));
    assert_eq!(counts(used), [2, 1, 1], "{used}");
    let refused = ask().with(1);
    drop(refused.says(&[
        "the tenant's budget of model_calls for this day is used up",
        "limits.tenant_budget.day.model_calls",
    ]));
    let line = home.weft(&["spending"]).with(0).stdout;
    // Singular where there is one.
    home.weft(&["spending", "--tenant", "none", "--days", "1"]).with(0).says(&["in the last 1 day\n"]);
    for command in ["spending", "usage"] {
        home.weft(&[command, "--days", "x"]).with(2).says(&["'x'", "--days", "it must be a whole number"]);
    }
    assert!(line.contains("3 model calls") && line.contains("2 tool calls"), "{line}");
}
