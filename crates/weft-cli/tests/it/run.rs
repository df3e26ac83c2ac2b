//! `weft run`: answers, events, exit codes.

use std::io::Read as _;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::weft::{Home, ask_a_model, ended, sample};
use crate::workload;

#[test]
fn an_input_that_the_canvas_does_not_read_is_named() {
    let home = Home::quoting();
    let run = ["run", &sample("greet"), "--query", "hi", "--input", "name=Ada", "--input", "nosuch=1"];
    let told = home.weft(&run).with(0).says(&["reads no input `nosuch`"]).stderr;
    assert!(!told.contains("`name`"), "{told}");
}

#[test]
fn a_text_field_takes_what_was_typed() {
    let home = Home::quoting();
    let run = ["run", &sample("greet"), "--query", "hi", "--input", "name=1.10", "--input", "town=null"];
    let said = home.weft(&run).with(0).stdout;
    assert!(said.contains("Hello 1.10 in null,"), "{said}");
}

#[test]
fn only_the_answer_goes_to_standard_output() {
    let home = Home::quoting();
    let run = home.weft(&["run", &sample("greet"), "--query", "good morning", "--input", "name=Ada"]).with(0);
    assert_eq!(run.stdout.lines().count(), 1);
    assert!(run.stdout.contains("Ada") && run.stdout.contains("good morning"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
}

#[test]
fn files_are_passed_with_the_question() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let canvas = json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:M"], "upstream": []},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{sys.files}"]}}, "downstream": [], "upstream": []},
    }});
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("canvas.json"), canvas.to_string()).unwrap();
    std::fs::write(path("notes.csv"), "name,n\nAda,1\n").unwrap();
    let run = home.weft(&["run", &path("canvas.json"), "--query", "x", "--file", &path("notes.csv")]).with(0);
    assert!(run.stdout.contains("File: notes.csv (") && run.stdout.contains("Ada"), "{}", run.stdout);
    let missing =
        home.weft(&["run", &path("canvas.json"), "--query", "x", "--file", &path("none.csv")]).with(2);
    assert!(missing.stderr.contains("none.csv"), "{}", missing.stderr);
    std::fs::write(path("broken.pdf"), "%PDF-1.7\nnothing").unwrap();
    let broken = home.weft(&["run", &path("canvas.json"), "--query", "x", "--file", &path("broken.pdf")]);
    assert!(broken.stderr.contains("broken.pdf") && !broken.stderr.contains("`files`"), "{}", broken.stderr);
}

#[test]
fn output_files_are_listed_and_saved_to_the_given_folder() {
    let home = Home::quoting();
    let folder = tempfile::tempdir().unwrap();
    let canvas = json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["DocGenerator:D"], "upstream": []},
        "DocGenerator:D": {"obj": {"component_name": "DocGenerator", "params": {"content": "# {sys.query}", "output_format": "markdown", "filename": "report"}}, "downstream": ["Message:M"], "upstream": []},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{DocGenerator:D@download}"]}}, "downstream": [], "upstream": []},
    }});
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("canvas.json"), canvas.to_string()).unwrap();
    let (canvas, made) = (path("canvas.json"), path("made"));
    let told = home.weft(&["run", &canvas, "--query", "x", "--session", "s"]).with(0).stderr;
    assert!(told.contains("file: report.md (") && told.contains("--save-files FOLDER"), "{told}");
    for (query, name) in [("one", "report.md"), ("two", "report-2.md")] {
        let run =
            home.weft(&["run", &canvas, "--query", query, "--session", "s", "--save-files", &made]).with(0);
        assert_eq!(run.stderr.matches("file: ").count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(name), "{}", run.stderr);
        let text = std::fs::read_to_string(folder.path().join("made").join(name)).unwrap();
        assert!(text.contains(query), "{text}");
    }
    let nothing = home.weft(&["run", &sample("diamond"), "--query", "x", "--save-files", &made]).with(0);
    nothing.says(&["the run produced no files"]);
    // A file is in the place of the folder.
    home.weft(&["run", &canvas, "--query", "x", "--save-files", &canvas])
        .with(2)
        .says(&["cannot write", "name a writable folder"]);
}

#[test]
fn events_are_printed_in_order_one_per_line() {
    let home = Home::quoting();
    let run = home.weft(&["run", &sample("diamond"), "--query", "x", "--events"]).with(0);
    let events = run.json_lines();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("workflow_started", "workflow_finished"));
    let of = |name: &'static str| events.iter().filter(move |event| event["event"] == name);
    let ids = |name: &'static str| {
        let mut ids: Vec<&str> =
            of(name).map(|event| event["data"]["component_id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids("node_started"), ids("node_finished"));
    let joins = of("node_started").filter(|event| event["data"]["component_type"] == "Message").count();
    assert_eq!(joins, 1);
    let ends: Vec<&Json> = of("workflow_finished").collect();
    assert_eq!((ends.len(), &ends[0]["data"]["status"]), (1, &json!("succeeded")));
    assert!(events.iter().all(|event| event["message_id"] == events[0]["message_id"]));
}

#[test]
fn a_failed_run_prints_the_reason_and_exits_with_one() {
    let home = Home::scripted(&json!({"replies": [
        {"say": [{"error": {"kind": "unavailable", "message": "the model is away"}}]},
    ]}));
    home.write("c.json", ask_a_model().to_string());
    let run = home.weft(&["run", "c.json", "--query", "x"]).with(1).says(&[
        "the run failed",
        "the model is away",
        "LLM:A",
    ]);
    assert_eq!(run.stdout, "");
    let again = home.weft(&["run", "c.json", "--query", "x", "--events"]).with(1);
    assert_eq!(again.json_lines().last().unwrap()["data"]["status"], "failed");
}

#[test]
fn reasoning_is_not_part_of_the_answer() {
    let home = Home::scripted(
        &json!({"replies": [{"say": [{"thinking": "hm"}, {"text": "Sun"}, {"text": "shine."}]}]}),
    );
    home.write("c.json", ask_a_model().to_string());
    assert_eq!(home.weft(&["run", "c.json", "--query", "x"]).with(0).stdout, "Sunshine.\n");
}

#[test]
fn a_session_continues_in_another_process() {
    let home = Home::quoting();
    let file = sample("remember_turns");
    let turn = |query: &str| home.weft(&["run", &file, "--session", "s1", "--query", query]).with(0).stdout;
    assert!(turn("I like tea").starts_with("Turn 1"), "the first turn");
    let second = turn("I like rain");
    assert!(second.starts_with("Turn 2") && second.contains("I like tea"), "{second}");
    home.weft(&["run", &sample("greet"), "--session", "s1"])
        .with(2)
        .says(&["session s1 belongs to another canvas"]);
}

#[test]
fn one_model_can_replace_all_others() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "from the script"}]}]}));
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["params"]["llm_id"] = "gpt-9@OpenAI".into();
    home.write("c.json", canvas.to_string());
    let run = home.weft(&["run", "c.json", "--query", "x", "--model", "actor"]).with(0);
    assert_eq!(run.stdout, "from the script\n");
    home.weft(&["run", "c.json", "--query", "x", "--model", "absent"])
        .with(2)
        .says(&["there is no model absent, which `--model` names", "use `actor`"]);
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let home = Home::quoting();
    home.write("c.json", workload::line(300).to_string());
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = home.command(&["run", "c.json", "--query", "x", "--events"]);
    let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    // The command holds the writing end as well.
    drop(command);
    reader.read_exact(&mut [0]).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn ctrl_c_stops_the_run_and_is_recorded_in_its_journal() {
    let home = Home::scripted(&json!({"replies": [{"delay_ms": 600_000, "say": [{"text": "late"}]}]}));
    home.write("c.json", ask_a_model().to_string());
    let mut running = home.start(&["run", "c.json", "--query", "x", "--events"]);
    running.printed("\"component_id\":\"LLM:A\"");
    running.signal("INT");
    let ended = running.end().with(1).says(&["the run was stopped"]);
    assert_eq!(ended.json_lines().last().unwrap()["data"]["status"], "cancelled");
    let runs = home.weft(&["runs", "list", "--json"]).with(0).json_lines();
    assert_eq!(runs[0]["status"], "cancelled");
}

#[test]
fn sigterm_acts_like_ctrl_c_and_a_repeated_signal_counts_once() {
    let home = Home::scripted(&json!({"replies": [{"delay_ms": 600_000, "say": [{"text": "late"}]}]}));
    home.write("c.json", ask_a_model().to_string());
    for signals in [&["TERM"] as &[&str], &["INT", "TERM"]] {
        let mut running = home.start(&["run", "c.json", "--query", "x", "--events"]);
        running.printed("\"component_id\":\"LLM:A\"");
        for signal in signals {
            running.signal(signal);
        }
        let ended = running.end().with(1).says(&["the run was stopped"]);
        assert_eq!(ended.json_lines().last().unwrap()["data"]["status"], "cancelled");
    }
    let runs = home.weft(&["runs", "list", "--json"]).with(0).json_lines();
    assert!(runs.iter().all(|run| run["status"] == "cancelled"), "{runs:?}");
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        weft_testkit::skipped("there is no /dev/full");
        return;
    };
    let home = Home::quoting();
    let ended = ended(home.command(&["run", &sample("greet"), "--query", "x"]).stdout(full)).with(1);
    ended.says(&["cannot write to standard output"]);
}

#[test]
fn ctrl_c_is_reported_on_its_own_line() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Half"}, {"wait": 30_000}]}]}));
    home.write("c.json", ask_a_model().to_string());
    // Both outputs go to one pipe, as in a terminal.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = home.command(&["run", "c.json", "--query", "x"]);
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    // Only the child holds the writing ends.
    drop(command);
    let mut told = Vec::new();
    while !told.ends_with(b"Half") {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        told.push(byte[0]);
    }
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
    assert!(rest.starts_with("\nstopping …\n"), "{rest:?}");
}
