//! `weft check`: its diagnostics and exit codes.

use serde_json::Value as Json;

use crate::weft::{Home, ask_a_model, sample};

fn misspelt() -> String {
    let mut canvas = ask_a_model();
    canvas["components"]["Message:M"]["obj"]["component_name"] = "Mesage".into();
    serde_json::to_string_pretty(&canvas).unwrap()
}

#[test]
fn an_unreadable_store_is_explained_without_reference_to_a_log() {
    let home = Home::quoting();
    std::fs::create_dir_all(home.path().join("data")).unwrap();
    home.write("data/weft.db", "this is no database, and long enough to be looked at as one".repeat(99));
    let told = home.weft(&["check", &sample("greet"), "--data", "data"]).says(&["not checked"]).stderr;
    assert!(!told.contains("the log has the reason"), "{told}");
    // It is opened once for everything that canvases refer to.
    assert_eq!(told.matches("not checked").count(), 1, "{told}");
}

#[test]
fn the_samples_pass_check() {
    let home = Home::quoting();
    for name in ["greet", "diamond", "form_in_iteration", "nested_iteration", "customer_service"] {
        let checked = home.weft(&["check", &sample(name)]).with(0);
        assert_eq!(checked.stdout, "", "{name}");
        checked.says(&[name]);
    }
}

#[test]
fn diagnostics_point_into_the_file_with_a_remedy() {
    let home = Home::quoting();
    let text = misspelt();
    home.write("c.json", &text);
    let line = 1 + text.lines().position(|line| line.contains("Mesage")).unwrap();
    let checked = home.weft(&["check", "c.json"]).with(2);
    assert_eq!(checked.stdout, "");
    checked.says(&[
        "unknown-component",
        &format!("c.json:{line}:"),
        "\"component_name\": \"Mesage\"",
        "did you mean `Message`?",
        "it cannot run",
    ]);
}

#[test]
fn json_output_covers_every_file() {
    let home = Home::quoting();
    home.write("bad.json", misspelt());
    let checked = home.weft(&["check", "--json", "bad.json", &sample("greet"), "absent.json"]).with(2);
    let reports: Vec<Json> = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(reports.len(), 3);
    let absent = &reports[2];
    assert_eq!((&absent["file"], &absent["ok"]), (&Json::from("absent.json"), &Json::Bool(false)));
    let problem = &absent["problems"][0];
    assert_eq!((&problem["code"], &problem["severity"]), (&Json::from("cannot-read"), &Json::from("error")));
    assert_eq!(problem["message"], "there is no file absent.json");
    assert_eq!((&reports[0]["ok"], &reports[1]["ok"]), (&Json::Bool(false), &Json::Bool(true)));
    let problem = &reports[0]["problems"][0];
    assert_eq!(problem["code"], "unknown-component");
    assert_eq!(problem["pointer"], "/components/Message:M/obj/component_name");
    let (start, end) = (problem["span"]["start"].as_u64().unwrap(), problem["span"]["end"].as_u64().unwrap());
    assert_eq!(&misspelt()[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()], "\"Mesage\"");
    checked.says(&["absent.json"]);
}

#[test]
fn warnings_do_not_fail_the_check() {
    let home = Home::quoting();
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["params"]["llm_id"] = "no-such-model@Nowhere".into();
    home.write("c.json", canvas.to_string());
    home.weft(&["check", "c.json"]).with(0).says(&[
        "no-such-model@Nowhere",
        "`extractive` is used instead",
        "warning",
    ]);
    home.weft(&["check", "--strict", "c.json"]).with(2).says(&["it can run; 1 warning"]);
    home.weft(&["check", "--strict", &sample("greet")]).with(0);
}

#[test]
fn strict_check_refuses_a_canvas_that_will_fail() {
    let home = Home::quoting();
    let canvas = serde_json::json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["WenCai:W"]},
        "WenCai:W": {"obj": {"component_name": "WenCai", "params": {}}, "downstream": []},
    }});
    home.write("c.json", canvas.to_string());
    let said =
        ["warning", "will-fail", "every run reaches it", "exception_default_value", "every run of it fails"];
    home.weft(&["check", "c.json"]).with(0).says(&said);
    home.weft(&["check", "--strict", "c.json"]).with(2).says(&said);
    let checked = home.weft(&["check", "--strict", "--json", "c.json"]).with(2);
    let reports: Json = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(reports[0]["problems"][0]["pointer"], "/components/WenCai:W/obj/component_name");
}

#[test]
fn check_looks_up_datasets_where_a_run_would() {
    let home = Home::quoting();
    let canvas = serde_json::json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Retrieval:R"]},
        "Retrieval:R": {"obj": {"component_name": "Retrieval",
            "params": {"query": "sys.query", "dataset_ids": ["notes"]}}, "downstream": []},
    }});
    home.write("c.json", canvas.to_string());
    home.weft(&["check", "c.json"]).with(0).says(&["unknown-dataset", "there is no dataset `notes`"]);
    // The check creates no files.
    let made: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made.len(), 2, "{made:?}");
    home.write("a.md", "# A\n\nSome words about nothing in particular.\n");
    home.weft(&["dataset", "ingest", "notes", "a.md"]).with(0);
    home.weft(&["check", "c.json"]).with(0).says(&["nothing is wrong"]);
}

#[test]
fn check_and_run_look_up_memories() {
    let home = Home::quoting();
    let canvas = serde_json::json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {"enablePrologue": false}}, "downstream": ["Message:M"]},
        "Message:M": {"obj": {"component_name": "Message",
            "params": {"content": ["Hello"], "memory_ids": ["gone"]}}, "downstream": []},
    }});
    home.write("c.json", canvas.to_string());
    home.weft(&["check", "c.json"]).with(0).says(&["unknown-memory", "there is no memory `gone`"]);
    home.weft(&["run", "c.json", "--query", "Hi"]).with(0).says(&["note: 1 warning in this canvas"]);
}

#[test]
fn no_error_report_shows_a_secret_near_the_error() {
    let home = Home::quoting();
    let secret = "sk-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c";
    let canvas = serde_json::json!({"components": {"begin": {
        "obj": {"component_name": "Begin", "params": {"api_key": secret}}, "downstream": ["Nope:X"],
    }}});
    home.write("c.json", canvas.to_string());
    for command in ["check", "run"] {
        let told = home.weft(&[command, "c.json"]).with(2).says(&["`Nope:X`", "api_key", "***"]).stderr;
        assert!(!told.contains(secret), "{command}: {told}");
    }
}
