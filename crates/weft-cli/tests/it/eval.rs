//! `weft eval`: recorded runs as tests.

use serde_json::{Value as Json, json};

use crate::datasets;
use crate::weft::{Ended, Home, agent, ask_a_model, sample};

fn say(text: &str) -> Json {
    json!({"text": text})
}

fn replies(home: &Home, replies: &Json) {
    home.write("script.json", json!({"replies": replies}).to_string());
}

fn read(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.path().join(name)).unwrap()
}

/// A home with one recorded question, and without a model.
fn recorded() -> Home {
    let home = Home::scripted(&json!({"replies": [{"say": [say("It is Oslo.")]}]}));
    home.write("canvas.json", ask_a_model().to_string());
    let arguments = ["eval", "record", "canvas.json", "--query", "Which city?", "-o", "city.eval.yaml"];
    home.weft(&arguments).with(0).says(&["1 turn, 1 recorded answer, "]);
    std::fs::remove_file(home.path().join("weft.toml")).unwrap();
    home
}

fn change(home: &Home, name: &str, from: &str, to: &str) {
    let text = read(home, name);
    assert!(text.contains(from), "{from} in {text}");
    home.write(name, text.replacen(from, to, 1));
}

#[test]
fn a_recording_passes_without_a_model() {
    let home = recorded();
    let ended = home.weft(&["eval", "."]).with(0);
    assert_eq!(ended.stdout, "ok     ./city.eval.yaml\nall passed: 1 file, 1 of 1 case\n");
    let told = home.weft(&["eval", "city.eval.yaml", "--json"]).with(0).json_lines();
    let turn = &told[0]["files"][0]["cases"][0]["turns"][0];
    assert_eq!(
        (turn["seen"]["answer"].as_str(), &turn["seen"]["spent"]["model_calls"]),
        (Some("It is Oslo."), &json!(1))
    );
    // An existing file is not overwritten by accident.
    let again = ["eval", "record", "canvas.json", "--query", "x", "-o", "city.eval.yaml"];
    home.weft(&again).with(2).says(&["city.eval.yaml already", "--force"]);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let home = recorded();
    let wrong = ["no folder", "absent", "create the folder"];
    for report in ["--junit", "--html"] {
        let ended = home.weft(&["eval", "city.eval.yaml", report, "absent/report"]).with(2).says(&wrong);
        assert_eq!(ended.stdout, "");
        home.weft(&["eval", "city.eval.yaml", report, "."]).with(2).says(&["is a folder"]);
    }
    // No model is called: there is none.
    let record = ["eval", "record", "canvas.json", "--query", "x", "-o", "absent/eval.yaml"];
    home.weft(&record).with(2).says(&wrong);
    home.weft(&["eval", "city.eval.yaml", "--live", "--strict"]).with(2).says(&["--strict", "--live"]);
}

#[cfg(unix)]
#[test]
fn a_report_is_written_to_the_target_of_a_link() {
    let home = recorded();
    home.write("real.xml", "an older report");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, home.path().join(name)).unwrap();
    link("real.xml", "junit.xml");
    // Like `/dev/stdout`: the target is not a regular file, and must not be replaced by one.
    link("/dev/null", "nowhere");
    home.weft(&["eval", "city.eval.yaml", "--junit", "junit.xml", "--html", "nowhere"]).with(0);
    assert!(read(&home, "real.xml").contains("<testsuite"));
    for name in ["junit.xml", "nowhere"] {
        assert!(home.path().join(name).is_symlink(), "{name}");
    }
}

#[test]
fn unmet_expectations_are_reported_and_fail() {
    let home = recorded();
    change(&home, "city.eval.yaml", "equals: It is Oslo.", "equals: It is Bergen.");
    let reports = ["eval", "city.eval.yaml", "--junit", "junit.xml", "--html", "report.html"];
    let ended = home.weft(&reports).with(1);
    let told =
        "    answer equals (expect[0])\n      expected: \"It is Bergen.\"\n      got:      \"It is Oslo.\"\n";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
    let junit = read(&home, "junit.xml");
    assert!(junit.contains("tests=\"1\" failures=\"1\"") && junit.contains("It is Bergen."), "{junit}");
    let page = read(&home, "report.html");
    assert!(page.contains("It is Bergen.") && page.contains("Which city?"), "{page}");
    assert_eq!(home.weft(&["eval", "city.eval.yaml", "--json"]).with(1).json_lines()[0]["passed"], false);
}

#[test]
fn invalid_files_are_reported_with_file_and_place() {
    let home = recorded();
    let valid = read(&home, "city.eval.yaml");
    let check = |from: &str, to: &str, parts: &[&str]| -> Ended {
        home.write("wrong.yaml", valid.replacen(from, to, 1));
        home.weft(&["eval", "wrong.yaml", "city.eval.yaml"]).with(2).says(parts)
    };
    check("equals:", "eqals:", &["wrong.yaml", "eqals", "line 7"]);
    check("canvas: canvas.json", "canvas: other.json", &["other.json", "does not exist"]);
    check("weft_eval: 1", "weft_eval: 2", &["version 2"]);
    let nodes = "  - nodes: {not_run: LLM:None}\n  - answer:";
    check("  - answer:", nodes, &["expect[0]", "no node `LLM:None`", "LLM:A"]);
    check("Which city?", "'{{row.city}}'", &["no column `city`", "dataset"]);
    check("turns:", "dataset: {file: rows.csv}\nturns:", &["rows.csv"]);
    home.weft(&["eval", "absent.yaml"]).with(2).says(&["absent.yaml"]);
    std::fs::create_dir(home.path().join("empty")).unwrap();
    home.weft(&["eval", "empty"]).with(2).says(&["no eval in the folder", "record"]);
    home.weft(&["eval", ".", "--filter", "nothing has this"]).with(2);
}

#[test]
fn a_changed_canvas_is_answered_from_the_recording_where_possible() {
    let home = recorded();
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["params"]["sys_prompt"] = "Be brief.".into();
    home.write("canvas.json", canvas.to_string());
    let ended = home.weft(&["eval", "."]).with(0);
    assert!(ended.stdout.contains("note: model#0 of LLM:A: the question differs"), "{}", ended.stdout);
    let strict = home.weft(&["eval", ".", "--strict"]).with(1);
    assert!(strict.stdout.contains("record it again"), "{}", strict.stdout);
    let text = ask_a_model().to_string().replace("LLM:A", "LLM:B");
    home.write("canvas.json", &text);
    home.weft(&["eval", ".", "--strict"]).with(0);
    home.write("canvas.json", text.replace("\"sys_prompt\":\"\"", "\"sys_prompt\":\"New.\""));
    let lacking = home.weft(&["eval", "."]).with(1);
    assert!(lacking.stdout.contains("an answer to the call model#0 of LLM:B"), "{}", lacking.stdout);
}

#[test]
fn a_past_run_becomes_an_eval_with_all_its_turns() {
    let home = Home::scripted(&json!({"replies": [{"say": [say("A plan.")], "times": 0}]}));
    let canvas = sample("form_pause");
    home.weft(&["run", &canvas, "--query", "Plan", "--session", "s"]).with(3);
    home.weft(&["run", &canvas, "--session", "s", "--input", "go=true", "--input", "note=tea"]).with(0);
    let id = home.weft(&["runs", "list", "--json"]).json_lines()[0]["id"].as_str().unwrap().to_owned();
    home.weft(&["eval", "record", "--run", &id, "-o", "eval.yaml"]).with(0).says(&["2 turns"]);
    std::fs::remove_file(home.path().join("weft.toml")).unwrap();
    let text = read(&home, "eval.yaml");
    assert!(text.contains("status: waiting") && text.contains("note: tea"), "{text}");
    home.weft(&["eval", "eval.yaml", "--strict"]).with(0);
    change(&home, "eval.yaml", "note: tea", "note: milk");
    let ended = home.weft(&["eval", "eval.yaml"]).with(1);
    assert!(ended.stdout.contains("turn 2: answer equals"), "{}", ended.stdout);
    home.weft(&["eval", "record", "--run", "absent", "-o", "x.yaml"]).with(2).says(&["absent"]);
}

#[test]
fn each_row_of_a_data_set_is_a_case_with_a_required_pass_rate() {
    let home = Home::scripted(&json!({"replies": []}));
    home.write("canvas.json", ask_a_model().to_string());
    let capital =
        |country: &str, city: &str| json!({"when": {"user": country}, "say": [say(city)], "times": 0});
    replies(
        &home,
        &json!([capital("Norway", "Oslo"), capital("Sweden", "Stockholm"), capital("Spain", "Seville")]),
    );
    home.write("rows.csv", "country,capital\nNorway,Oslo\nSweden,Stockholm\nSpain,Madrid\n");
    let file = "# Capitals.\nweft_eval: 1\ncanvas: canvas.json\ndataset: {file: rows.csv, name: country} # rows\npass: 0.6\n\
        turns:\n- query: The capital of {{row.country}}?\n  expect:\n  - answer: {equals: '{{row.capital}}'}\n";
    home.write("eval.yaml", file);
    let unrecorded = home.weft(&["eval", "eval.yaml"]).with(1);
    assert!(unrecorded.stdout.contains("turn 1 was never recorded"), "{}", unrecorded.stdout);
    home.weft(&["eval", "eval.yaml", "--live", "--update"]).with(0);
    let written = read(&home, "eval.yaml");
    assert!(written.starts_with(file) && written.contains("case: Sweden"), "{written}");
    std::fs::remove_file(home.path().join("weft.toml")).unwrap();
    let ended = home.weft(&["eval", "eval.yaml", "--jobs", "2"]).with(0);
    assert!(
        ended.stdout.contains("ok     eval.yaml  2 of 3 cases passed, 60 % required\n  Spain\n"),
        "{}",
        ended.stdout
    );
    change(&home, "eval.yaml", "pass: 0.6", "pass: 0.7");
    home.weft(&["eval", "eval.yaml"]).with(1);
    home.weft(&["eval", "eval.yaml", "--filter", "Sweden"]).with(0);
}

#[test]
fn update_records_only_the_cases_that_ran() {
    let home = Home::scripted(&json!({"replies": []}));
    home.write("canvas.json", ask_a_model().to_string());
    home.write("rows.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");
    home.write(
        "eval.yaml",
        "weft_eval: 1\ncanvas: canvas.json\ndataset: {file: rows.jsonl}\nturns:\n- query: number {{row.n}}\n  expect:\n  - answer: {contains: first}\n",
    );
    replies(&home, &json!([{"say": [say("at first")], "times": 0}]));
    home.weft(&["eval", "eval.yaml", "--live", "--update"]).with(0);
    replies(&home, &json!([{"say": [say("at second")], "times": 0}]));
    home.weft(&["eval", "eval.yaml", "--live"]).with(1);
    home.weft(&["eval", "eval.yaml"]).with(0);
    home.weft(&["eval", "eval.yaml", "--live", "--update", "--filter", "row 2"]).with(1);
    let ended = home.weft(&["eval", "eval.yaml"]).with(1);
    assert!(ended.stdout.contains("1 of 2 cases passed\n  row 2\n"), "{}", ended.stdout);
}

#[test]
fn the_verdict_of_a_judge_model_is_recorded() {
    let verdict = |meets: bool| json!({"meets": meets, "because": "It names a city."}).to_string();
    let judge = |meets| json!({"when": {"system": "criterion"}, "say": [say(&verdict(meets))], "times": 0});
    let home = Home::scripted(&json!({"replies": []}));
    replies(&home, &json!([judge(true), {"say": [say("Oslo.")], "times": 0}]));
    home.write("canvas.json", ask_a_model().to_string());
    let file = "weft_eval: 1\ncanvas: canvas.json\nturns:\n- query: Which city?\n  expect:\n  - judge: {criterion: It names a city.}\n";
    home.write("eval.yaml", file);
    home.weft(&["eval", "eval.yaml", "--live", "--update"]).with(0);
    home.weft(&["eval", "eval.yaml"]).with(0);
    replies(&home, &json!([judge(false), {"say": [say("Bergen.")], "times": 0}]));
    let ended = home.weft(&["eval", "eval.yaml", "--live", "--update"]).with(1);
    assert!(ended.stdout.contains("judge (expect[0])"), "{}", ended.stdout);
    home.weft(&["eval", "eval.yaml"]).with(1);
    // A verdict applies to one answer only.
    change(&home, "eval.yaml", "meets: false", "meets: true");
    home.weft(&["eval", "eval.yaml"]).with(0);
    change(&home, "eval.yaml", "text: Bergen.", "text: Tromsø.");
    let ended = home.weft(&["eval", "eval.yaml"]).with(1);
    assert!(ended.stdout.contains("no model was asked"), "{}", ended.stdout);
}

#[test]
fn what_a_stored_dataset_has_is_recorded_and_tested() {
    let home = Home::quoting();
    home.write("bridge.md", "The stone bridge over the Alder was built in 1823.\n");
    home.weft(&["dataset", "ingest", "town", "bridge.md"]).with(0);
    home.write("canvas.json", datasets::canvas("town").to_string());
    let question = "When was the stone bridge built?";
    let recorded =
        home.weft(&["eval", "record", "canvas.json", "--query", question, "-o", "eval.yaml"]).with(0);
    assert!(!recorded.stderr.contains("failed"), "{}", recorded.stderr);
    let text = read(&home, "eval.yaml");
    assert!(text.contains("1823"), "{text}");
    home.weft(&["eval", "eval.yaml"]).with(0);
    home.weft(&["eval", "eval.yaml", "--live"]).with(0);
    assert_eq!(home.weft(&["runs", "list", "--json"]).with(0).stdout, "", "no run of them is stored");
}

#[test]
fn recording_a_failed_turn_warns() {
    let home = Home::scripted(&json!({"replies": [
        {"say": [say("Oslo.")]}, {"say": [{"error": {"kind": "invalid", "message": "too hot"}}]}]}));
    home.write("canvas.json", ask_a_model().to_string());
    let questions = ["--query", "Which city?", "--query", "How warm is it?"];
    let ended = home.weft(&[&["eval", "record", "canvas.json", "-o", "eval.yaml"], &questions[..]].concat());
    let ended = ended.with(0).says(&["warning: turn 2 failed", "too hot"]);
    assert!(!ended.stderr.contains("turn 1"), "{}", ended.stderr);
}

#[test]
fn tools_are_replayed_without_being_called() {
    let home = Home::scripted(&json!({"replies": [
        {"say": [{"call": {"name": "calculator_0", "arguments": {"expression": "6 * 7"}}}]},
        {"say": [say("It is 42.")]}]}));
    let params = json!({"llm_id": "", "sys_prompt": "", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "max_rounds": 3, "cite": false, "tools": [{"component_name": "Calculator", "name": "Calculator", "params": {}}]});
    home.write("canvas.json", agent(&params).to_string());
    home.weft(&["eval", "record", "canvas.json", "--query", "6 by 7?", "-o", "eval.yaml"]).with(0);
    std::fs::remove_file(home.path().join("weft.toml")).unwrap();
    home.weft(&["eval", "eval.yaml", "--strict"]).with(0);
    change(&home, "eval.yaml", "expression: 6 * 7", "expression: 6 * 8");
    let ended = home.weft(&["eval", "eval.yaml"]).with(1);
    assert!(ended.stdout.contains("calculator_0 with {\"expression\":\"6 * 8\"}"), "{}", ended.stdout);
}

#[test]
fn the_evals_of_the_samples_pass_in_an_empty_home() {
    let home = Home::new();
    let samples = format!("{}/../../canvases", env!("CARGO_MANIFEST_DIR"));
    let told = home.weft(&["eval", &samples, "--strict", "--json"]).with(0).json_lines();
    let files = told[0]["files"].as_array().unwrap();
    assert!(files.len() >= 7, "{}", files.len());
    assert!(files.iter().all(|file| !file["cases"].as_array().unwrap().is_empty()));
}
