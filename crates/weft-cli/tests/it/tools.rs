//! Agents that call tools, ask for approval, and reach limits.

use serde_json::{Value as Json, json};

use crate::weft::{Ended, Home, agent};

/// A model that calls the calculator with the question.
fn script() -> Json {
    let call = |expression: &str| json!({"call": {"id": "call_1", "name": "calculator_0", "arguments": {"expression": expression}}});
    json!({"replies": [
        {"when": {"tool": "refused"}, "times": 0, "text": "Then not."},
        {"when": {"tool": "42"}, "times": 0, "text": "It is 42."},
        {"when": {"tool": "14"}, "times": 0, "text": "It is 14."},
        {"when": {"user": "limit"}, "times": 0, "text": "No more."},
        {"when": {"user": "six"}, "times": 0, "say": [{"text": "Let me see."}, call("6 * 7")]},
    ]})
}

/// A home with an agent that has a calculator; `tool` and `more` add parameters of the tool and of the agent.
fn home(tool: &Json, more: &Json) -> Home {
    let home = Home::scripted(&script());
    let with = |mut json: Json, more: &Json| {
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json
    };
    let tool = with(json!({"component_name": "Calculator", "name": "calculator", "params": {}}), tool);
    let prompts = json!([{"role": "user", "content": "{sys.query}"}]);
    let params = json!({"llm_id": "", "sys_prompt": "s", "prompts": prompts, "tools": [tool], "cite": false});
    home.write("c.json", agent(&with(params, more)).to_string());
    home
}

fn asking() -> Home {
    home(&json!({"approval": true}), &json!({}))
}

#[test]
fn tool_calls_are_shown_on_stderr_and_not_in_the_answer() {
    let home = home(&json!({}), &json!({}));
    let ran = home.weft(&["run", "c.json", "--query", "six times seven?"]).with(0);
    let ran = ran.says(&["calculator_0 {\"expression\":\"6 * 7\"}", "✓"]);
    assert!(ran.stdout.contains("It is 42.") && !ran.stdout.contains("calculator"), "{}", ran.stdout);
    let events = home.weft(&["run", "c.json", "--query", "six times seven?", "--events"]).with(0);
    assert!(!events.stderr.contains("calculator"), "{}", events.stderr);
    let kinds: Vec<_> = events.json_lines().iter().map(|event| event["event"].clone()).collect();
    assert!(kinds.contains(&json!("tool_start")) && kinds.contains(&json!("tool_end")), "{kinds:?}");
    let chat = home.weft_reading(&["chat", "c.json"], "six times seven?\n").with(0);
    assert!(chat.stdout.contains("It is 42."), "{}", chat.stdout);
    chat.says(&["calculator_0 {\"expression\":\"6 * 7\"}"]);
}

/// Every command that shows a run shows the warnings of its agents.
#[test]
fn warnings_of_agents_are_shown() {
    let home = home(&json!({}), &json!({"mcp": [{"mcp_id": "gone", "tools": {"a": {}}}]}));
    home.weft(&["check", "c.json"])
        .with(0)
        .says(&["unknown-tool-server", "no MCP server and no plugin `gone`"]);
    let told = ["warning: Agent:A: ", "`gone`"];
    let ran = home.weft(&["run", "c.json", "--query", "six"]).with(0).says(&told);
    assert!(!ran.stderr.contains("WARN"), "{}", ran.stderr);
    drop(home.weft_reading(&["chat", "c.json"], "six\n").with(0).says(&told));
    let events = home.weft(&["run", "c.json", "--query", "six", "--events"]).with(0).json_lines();
    let warning = events.iter().find(|event| event["event"] == "warning").unwrap();
    assert_eq!(warning["data"]["component_id"], "Agent:A");
    assert!(warning["data"]["message"].as_str().unwrap().contains("`gone`"), "{warning}");
}

/// Imported canvases often name a tool that does not exist here: the agent works with the others.
#[test]
fn a_missing_tool_is_left_out() {
    let lacking = json!([
        {"component_name": "Calculator", "name": "calculator", "params": {}},
        {"component_name": "WenCai", "name": "facts", "params": {}},
        {"component_name": "Nosuch", "name": "other", "params": {}},
    ]);
    let home = home(&json!({}), &json!({"tools": lacking}));
    let checked = home.weft(&["check", "c.json", "--json"]).with(0);
    let checked: Json = serde_json::from_str(&checked.stdout).unwrap();
    let places: Vec<_> = checked[0]["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["pointer"].as_str().unwrap().rsplit("/params").next().unwrap().to_owned())
        .collect();
    assert_eq!(places, ["/tools/1/component_name", "/tools/2/component_name"], "{checked}");
    let told = ["without the tool `facts`", "WenCai isn't part of this build", "without the tool `other`"];
    let ran = home.weft(&["run", "c.json", "--query", "six"]).with(0).says(&told);
    assert!(ran.stdout.contains("It is 42."), "{}", ran.stdout);
}

/// A missing secret that only a tool reads disables that tool; one that the agent reads fails the agent.
#[test]
fn a_tool_with_a_missing_secret_is_left_out() {
    let tools = json!([
        {"component_name": "Calculator", "name": "calculator", "params": {}},
        {"component_name": "TavilySearch", "name": "web", "params": {"api_key": "{secret.NOPE}"}},
    ]);
    let home = home(&json!({}), &json!({"tools": tools}));
    let told = ["without the tool `web`", "weft secret set NOPE"];
    let ran = home.weft(&["run", "c.json", "--query", "six"]).with(0).says(&told);
    assert!(ran.stdout.contains("It is 42."), "{}", ran.stdout);
    let asking = self::home(&json!({}), &json!({"tools": tools, "on_missing_credential": "ask"}));
    drop(asking.weft(&["run", "c.json", "--query", "six", "--session", "s"]).with(3).says(&["`NOPE`"]));
    let own = self::home(&json!({}), &json!({"tools": [tools[0]], "sys_prompt": "{secret.NOPE}"}));
    drop(own.weft(&["run", "c.json", "--query", "six"]).with(1).says(&["there is no secret `NOPE`"]));
}

/// When another model than the named one would answer, the user is warned first, or the run is refused.
#[test]
fn a_substitute_model_is_reported_or_refused() {
    let home = home(&json!({}), &json!({"llm_id": "gpt-9@OpenAI"}));
    let both = ["`gpt-9@OpenAI` is not configured", "`actor`"];
    drop(home.weft(&["check", "c.json"]).with(0).says(&["default-model"]).says(&both));
    drop(home.weft(&["run", "c.json", "--query", "six"]).with(0).says(&both));
    let events = home.weft(&["run", "c.json", "--query", "six", "--events"]).with(0).json_lines();
    let place = |kind: &str| events.iter().position(|event| event["event"] == kind).unwrap();
    assert!(place("warning") < place("node_started"), "{events:?}");
    let settings = std::fs::read_to_string(home.path().join("weft.toml")).unwrap();
    home.write("weft.toml", format!("[models]\nstrict = true\n{settings}"));
    for command in [&["check", "c.json"][..], &["run", "c.json", "--query", "six"]] {
        drop(home.weft(command).with(2).says(&["MODEL_NOT_CONFIGURED", "`gpt-9@OpenAI`", "models.strict"]));
    }
}

#[test]
fn a_reached_limit_is_reported() {
    let ran = home(&json!({}), &json!({"max_rounds": 0})).weft(&["run", "c.json", "--query", "six"]);
    // With 1 there is a second round, and the answer is then complete.
    let whole =
        home(&json!({}), &json!({"max_rounds": 1})).weft(&["run", "c.json", "--query", "six"]).with(0);
    assert!(!whole.stderr.contains("a limit cut the work short"), "{}", whole.stderr);
    let tight = home(&json!({}), &json!({}));
    tight.settings("[limits.budget]\ntool_calls = 0\n");
    for ran in [ran, tight.weft(&["run", "c.json", "--query", "six"])] {
        drop(ran.with(0).says(&["note: a limit cut the work short: "]));
    }
}

/// The run waits; the pending call and the way to decide are shown; the next process continues with the decision.
#[test]
fn an_approval_is_given_in_another_process() {
    let decide = |decision: &str| -> Ended {
        let home = asking();
        let waiting = home.weft(&["run", "c.json", "--query", "six", "--session", "s"]).with(3);
        let asks = [
            "call_1 (approve | deny | edit)",
            r#"calculator_0 {"expression":"6 * 7"}"#,
            "--session s --input call_1=VALUE",
        ];
        drop(waiting.says(&asks));
        home.weft(&["run", "c.json", "--session", "s", "--input", &format!("call_1={decision}")])
    };
    let check = |decision: &str, answer: &str| {
        let ran = decide(decision).with(0);
        assert!(ran.stdout.contains(answer), "{decision}: {}", ran.stdout);
    };
    check("approve", "It is 42.");
    check("true", "It is 42.");
    check("deny", "Then not.");
    check(r#"{"decision": "edit", "arguments": {"expression": "2 * 7"}}"#, "It is 14.");
}

#[test]
fn a_missing_script_is_named() {
    let home = Home::new();
    home.write(
        "weft.toml",
        "[[models.entries]]\nname = \"a\"\nprovider = \"scripted\"\nscript = \"gone.json\"\n",
    );
    home.write("c.json", agent(&json!({"llm_id": "a"})).to_string());
    drop(
        home.weft(&["run", "c.json", "--query", "q"]).with(2).says(&["cannot read the script ", "gone.json"]),
    );
}

/// An answer that comes too late, or to the wrong session, starts nothing.
#[test]
fn an_answer_to_a_session_without_a_question_is_refused() {
    let home = asking();
    let answer = ["run", "c.json", "--session", "s", "--input", "call_1=approve"];
    let parts = ["session s is not waiting for an answer", "no input `call_1`", "weft runs list --session s"];
    drop(home.weft(&answer).with(2).says(&parts));
    home.weft(&["run", "c.json", "--query", "six", "--session", "s"]).with(3);
    home.weft(&answer).with(0);
    drop(home.weft(&answer).with(2).says(&parts));
}

#[test]
fn an_approval_is_requested_in_a_chat() {
    let check = |typed: &str, answer: &str| {
        let home = asking();
        let chat = home.weft_reading(&["chat", "c.json"], &format!("six\n{typed}\n")).with(0);
        assert!(chat.stdout.contains(answer), "{typed}: {}", chat.stdout);
        chat.says(&[r#"calculator_0 {"expression":"6 * 7"}"#])
    };
    check("approve", "It is 42.");
    check("deny too easy", "Then not.");
    check("edit {\"expression\": \"2 * 7\"}", "It is 14.");
    check("perhaps\ny", "It is 42.").says(&["answer approve, deny"]);
}

/// The benchmark of agents: rounds of a tool that answers at once, then the answer.
#[test]
fn benchmark_of_an_agent_with_a_tool() {
    let round = |at: u32| {
        let call = json!({"call": {"name": "lookup_0", "arguments": {"key": format!("k{at}")}}});
        let say = json!([call]);
        match at.checked_sub(1) {
            None => json!({"when": {"user": "q"}, "times": 0, "say": say}),
            Some(before) => json!({"when": {"tool": format!("value of k{before}")}, "times": 0, "say": say}),
        }
    };
    let end = json!({"when": {"tool": "value of k4"}, "times": 0, "text": "Found."});
    let replies: Vec<Json> = std::iter::once(end).chain((0..5).rev().map(round)).collect();
    let home = Home::scripted(&json!({"replies": replies}));
    let params = json!({"llm_id": "", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "tools": [{"component_name": "Lookup", "name": "lookup", "params": {}}], "max_rounds": 10, "cite": false});
    home.write("c.json", agent(&params).to_string());
    let measured = home
        .weft(&["run", "c.json", "--query", "q", "--repeat", "3", "--concurrency", "2", "--bench-json"])
        .with(0);
    let result: Json = serde_json::from_str(&measured.stdout).unwrap();
    assert_eq!((result["answer"].as_str(), result["wall_ms"].as_array().unwrap().len()), (Some("Found."), 3));
}

/// A canvas that runs this program and shows what it returns.
fn running(script: &str) -> Json {
    let begin = json!({"mode": "conversational", "enablePrologue": false, "prologue": "", "inputs": {}});
    let params = json!({"lang": "javascript", "script": script, "arguments": {"query": "sys.query"}});
    json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": begin}, "downstream": ["CodeExec:C"], "upstream": []},
        "CodeExec:C": {"obj": {"component_name": "CodeExec", "params": params}, "downstream": ["Message:M"], "upstream": ["begin"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{CodeExec:C@result}"]}},
            "downstream": [], "upstream": ["CodeExec:C"]},
    }, "globals": {"sys.query": ""}, "history": [], "path": [], "retrieval": []})
}

#[test]
fn programs_run_in_a_worker_that_ends_with_them() {
    let home = Home::quoting();
    let set = |more: &str| home.settings(format!("[sandbox]\n{more}\n"));
    let run = |script: &str| {
        home.write("c.json", running(script).to_string());
        home.weft(&["run", "c.json", "--query", "7"])
    };
    let ran = run("const main = async ({query}) => [query, 6 * 7, typeof process]").with(0);
    assert_eq!(ran.stdout.trim(), "[\"7\",42,\"undefined\"]");
    run("function main() {\n  return nothing }").with(1).says(&["line 2: ReferenceError: nothing"]);
    set("seconds = 0.3");
    // Only killing its process ends this program.
    run("function main() { [].reverse.call({length: 2 ** 53 - 1}) }")
        .with(1)
        .says(&["longer than 0.3 seconds"]);
    set("at_once = 0");
    run("function main() {}").with(1).says(&["running programs is not configured", "sandbox.at_once"]);
    set("worker = [\"/no/such/worker\"]");
    run("function main() {}").with(1).says(&["/no/such/worker", "sandbox.worker"]);
}

#[test]
fn a_program_with_a_syntax_error_is_reported_before_it_runs() {
    let home = Home::quoting();
    let check = |script: &str| {
        home.write("c.json", running(script).to_string());
        home.weft(&["check", "c.json"]).with(0)
    };
    check("function main() {\n  reutrn 1 }")
        .says(&["fails in every run: line 2, column 10: SyntaxError", "`main`"]);
    // The same is noted before a run.
    home.weft(&["run", "c.json", "--query", "7"]).says(&["note: 1 warning in this canvas"]);
    let right = check("function main() {\n  return 1 }");
    assert!(!right.stderr.contains("fails in every run"), "{}", right.stderr);
    let ran = home.weft(&["run", "c.json", "--query", "7"]).with(0);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn worker_commands_need_input_and_are_hidden_from_help() {
    let home = Home::new();
    for worker in ["sandbox-worker", "document-worker"] {
        assert_eq!(home.weft(&[worker]).code, Some(65));
        assert!(!home.weft(&["--help"]).stdout.contains(worker));
    }
}

#[test]
fn python_programs_need_no_installed_python() {
    let home = Home::scripted(&json!({"replies": []}));
    let source = "import json, statistics\n\ndef main(numbers):\n    print('so far')\n    return {'mean': statistics.mean(json.loads(numbers))}\n";
    let part = |name: &str, params: Json, down: &[&str], up: &[&str]| json!({"obj": {"component_name": name, "params": params}, "downstream": down, "upstream": up});
    let code = json!({
        "lang": "python", "script": source, "arguments": {"numbers": "{sys.query}"}, "outputs": {"mean": {"type": "Number"}},
    });
    let canvas = json!({"components": {
        "begin": part("Begin", json!({}), &["CodeExec:C"], &[]),
        "CodeExec:C": part("CodeExec", code, &["Message:M"], &["begin"]),
        "Message:M": part("Message", json!({"content": ["The mean is {CodeExec:C@mean}. {CodeExec:C@stdout}"]}), &[], &["CodeExec:C"]),
    }});
    home.write("c.json", canvas.to_string());
    home.weft(&["check", "c.json", "--strict"]).with(0);
    let ran = home.weft(&["run", "c.json", "--query", "[1, 2, 6]"]).with(0);
    assert_eq!(ran.stdout, "The mean is 3. so far\n");
    let ran = home.weft(&["run", "c.json", "--query", "[1, 2,"]).with(1);
    ran.says(&["CodeExec:C", "line 5: JSONDecodeError"]);
}

#[test]
fn an_agent_calls_its_tools_from_a_python_script() {
    let script = "total = '0'\nfor n in range(3):\n    total = tools.calculator_0(expression=f'{total} + {n}')\ntry:\n    tools.calculator_0(expression='1 +')\n\
        except RuntimeError as error:\n    print('refused')\nresult = {'total': total}\n";
    runs_in_python(script, r#""calls":4,"result":{"total":3},"stdout":"refused\n""#);
}

#[test]
fn python_scripts_may_be_written_in_several_forms() {
    for script in [
        "tools.calculator_0(expression='1 + 2')",
        "result = await tools.calculator_0(expression='1 + 2')",
        "async def main():\n    return await tools.calculator_0(expression='1 + 2')",
        "import asyncio\nasync def main():\n    return tools.calculator_0(expression='1 + 2')\nasyncio.run(main())",
        "def main():\n    return tools.calculator_0(expression='1 + 2')\nmain()",
        "```python\ndef main():\n    return tools.calculator_0(expression='1 + 2')\n```",
    ] {
        runs_in_python(script, r#""calls":1,"result":3"#);
    }
}

fn runs_in_python(script: &str, told: &str) {
    let call = json!({"name": "run_script", "arguments": {"code": script, "language": "python"}});
    let home = Home::scripted(&json!({"replies": [
        {"when": {"user": "add"}, "say": [{"call": call}], "times": 1},
        {"when": {"tool": told}, "text": "It is 3."},
        {"text": "something else came of it"},
    ]}));
    let part = |name: &str, params: Json, down: &[&str], up: &[&str]| json!({"obj": {"component_name": name, "params": params}, "downstream": down, "upstream": up});
    let agent = json!({
        "llm_id": "", "sys_prompt": "Add.", "prompts": [{"role": "user", "content": "{sys.query}"}], "code_mode": true,
        "tools": [{"component_name": "Calculator", "name": "Calculator", "params": {}}],
    });
    let canvas = json!({"components": {
        "begin": part("Begin", json!({}), &["Agent:A"], &[]),
        "Agent:A": part("Agent", agent, &["Message:M"], &["begin"]),
        "Message:M": part("Message", json!({"content": ["{Agent:A@content}"]}), &[], &["Agent:A"]),
    }});
    home.write("c.json", canvas.to_string());
    let ran = home.weft(&["run", "c.json", "--query", "add"]).with(0);
    assert_eq!(ran.stdout, "It is 3.\n");
}
