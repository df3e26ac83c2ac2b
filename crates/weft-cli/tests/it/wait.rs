//! Runs that wait for a person, and the commands that resume them.

use serde_json::{Value as Json, json};

use crate::weft::{Ended, Home, sample};

/// The arguments of the command that standard error suggests, with its placeholders replaced by these values.
fn offered(ended: &Ended, values: &[(&str, &str)]) -> Vec<String> {
    let line = ended.stderr.lines().find(|line| line.trim_start().starts_with("weft run ")).unwrap();
    let mut arguments: Vec<String> = Vec::new();
    for word in line.split_whitespace().skip(1) {
        let word = word.trim_matches(['[', ']']);
        match word.strip_suffix("=VALUE") {
            None => arguments.push(word.to_owned()),
            Some(field) => {
                let (_, value) = values.iter().find(|(name, _)| *name == field).unwrap();
                arguments.push(format!("{field}={value}"));
            }
        }
    }
    arguments
}

fn go_on(home: &Home, ended: &Ended, values: &[(&str, &str)]) -> Ended {
    let arguments = offered(ended, values);
    home.weft(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn the_printed_resume_command_works_in_another_process() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    let waiting = home.weft(&["run", &sample("form_pause"), "--query", "Plan a picnic"]).with(3);
    let asks = ["`UserFillUp:Approval` waits for a person", "Sandwiches.", "go (boolean)", "--session"];
    let waiting = waiting.says(&asks);
    assert_eq!(waiting.stdout, "");
    let done = go_on(&home, &waiting, &[("go", "true"), ("note", "tea")]).with(0);
    assert!(done.stdout.contains("Sandwiches.") && done.stdout.contains("tea"), "{}", done.stdout);
}

#[test]
fn the_resume_command_names_the_data_folder_if_it_was_given() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    let arguments = ["run", &sample("form_pause"), "--query", "Plan", "--data", "elsewhere"];
    let waiting = home.weft(&arguments).with(3).says(&["--data elsewhere"]);
    let done = go_on(&home, &waiting, &[("go", "false"), ("note", "-")]).with(0);
    assert_ne!(done.stdout, "");
    assert!(!home.path().join(".local").exists());
}

#[test]
fn a_pause_inside_an_iteration_continues_item_by_item() {
    let home = Home::quoting();
    let first =
        home.weft(&["run", &sample("form_in_iteration"), "--query", "red,blue"]).with(3).says(&["red"]);
    let second = go_on(&home, &first, &[("score", "5")]).with(3).says(&["blue"]);
    let third = go_on(&home, &second, &[("score", "2")]).with(0);
    assert!(third.stdout.contains("red: 5") && third.stdout.contains("blue: 2"), "{}", third.stdout);
}

#[test]
fn the_form_is_also_an_event() {
    let home = Home::quoting();
    let run = home
        .weft(&["run", &sample("form_in_iteration"), "--query", "red", "--events"])
        .with(3)
        .says(&["--input score"]);
    let events = run.json_lines();
    let form = events.iter().find(|event| event["event"] == "user_inputs").unwrap();
    assert!(matches!(&form["data"]["inputs"]["score"], Json::Object(_)));
    assert_eq!(events.last().unwrap()["data"]["status"], "waiting");
}

#[test]
fn an_answer_without_a_required_field_waits_again() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    let waiting = home.weft(&["run", &sample("form_pause"), "--query", "Plan", "--session", "s"]).with(3);
    drop(waiting);
    home.weft(&["run", &sample("form_pause"), "--session", "s", "--input", "note=tea"])
        .with(3)
        .says(&["go (boolean)"]);
    home.weft(&["run", &sample("form_pause"), "--session", "s", "--input", "go=true"]).with(0);
}
