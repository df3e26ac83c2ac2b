//! `weft chat` through pipes.

use std::io::Write as _;

use serde_json::json;

use crate::weft::{Home, ask_a_model, sample};

#[test]
fn each_line_is_a_turn_of_one_session() {
    let home = Home::quoting();
    let chat = home.weft_reading(&["chat", &sample("remember_turns")], "I like tea\n\nI like rain\n").with(0);
    let lines: Vec<&str> = chat.stdout.lines().filter(|line| line.starts_with("Turn ")).collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("Turn 1") && lines[1].starts_with("Turn 2"),
        "{}",
        chat.stdout
    );
    assert!(lines[1].contains("I like tea"), "{}", chat.stdout);
}

#[test]
fn the_greeting_is_shown_first_and_once() {
    let home = Home::scripted(&json!({"replies": [{"times": 0, "say": [{"text": "Fine."}]}]}));
    home.write("c.json", ask_a_model().to_string());
    let chat = home.weft_reading(&["chat", "c.json", "--session", "s"], "How are you?\n").with(0);
    assert_eq!(chat.stdout, "Welcome.\nFine.\n");
}

#[test]
fn forms_are_asked_field_by_field() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    let chat = home.weft_reading(&["chat", &sample("form_pause")], "Plan a picnic\nperhaps\nyes\n\n").with(0);
    assert!(chat.stdout.contains("Sandwiches."), "{}", chat.stdout);
    chat.says(&["Here is the plan", "go: answer yes or no"]);
}

#[test]
fn an_unanswered_form_can_be_answered_later() {
    let home = Home::quoting();
    let file = sample("form_in_iteration");
    let arguments = ["chat", &file, "--session", "s", "--model", "extractive"];
    let left = home.weft_reading(&arguments, "red,blue\n5\n").with(3);
    left.says(&["still waits", "weft chat", "--session s --model extractive"]);
    let chat = home.weft_reading(&["chat", &file, "--session", "s"], "2\n").with(0);
    assert!(chat.stdout.contains("red: 5") && chat.stdout.contains("blue: 2"), "{}", chat.stdout);
}

#[test]
fn a_failed_turn_does_not_end_the_chat() {
    let home = Home::scripted(&json!({"replies": [
        {"when": {"user": "good"}, "say": [{"text": "Here."}]},
        {"when": {"user": "bad"}, "say": [{"error": {"kind": "unavailable", "message": "away"}}]},
    ]}));
    home.write("c.json", ask_a_model().to_string());
    let chat = home.weft_reading(&["chat", "c.json"], "bad\ngood\n").with(0).says(&["away"]);
    assert_eq!(chat.stdout, "Welcome.\nHere.\n");
    home.weft_reading(&["chat", "c.json"], "bad\n").with(1);
}

#[test]
fn ctrl_c_stops_an_answer_but_not_the_chat() {
    let home = Home::scripted(&json!({"replies": [
        {"when": {"user": "slow"}, "say": [{"text": "one\n"}, {"wait": 600_000}, {"text": "two"}]},
        {"when": {"user": "fast"}, "say": [{"text": "three"}]},
    ]}));
    home.write("c.json", ask_a_model().to_string());
    let mut chat = home.start(&["chat", "c.json"]);
    let mut input = chat.input.take().unwrap();
    input.write_all(b"slow\nfast\n").unwrap();
    drop(input);
    chat.printed("one");
    chat.signal("INT");
    let ended = chat.end().with(0).says(&["the run was stopped"]);
    assert_eq!(ended.stdout, "three\n");
}

#[test]
fn sigterm_stops_an_answer_and_the_chat() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "one\n"}, {"wait": 600_000}]}]}));
    home.write("c.json", ask_a_model().to_string());
    let mut chat = home.start(&["chat", "c.json"]);
    let mut input = chat.input.take().unwrap();
    input.write_all(b"slow\n").unwrap();
    chat.printed("one");
    chat.signal("TERM");
    // The input stays open: only the signal ends the chat.
    chat.end().says(&["the run was stopped"]);
    drop(input);
}

#[test]
fn lines_that_are_not_utf8_are_skipped() {
    let home = Home::quoting();
    let mut chat = home.start(&["chat", &sample("remember_turns")]);
    chat.input.take().unwrap().write_all(b"\xff\xfe\nI like tea\n").unwrap();
    let ended = chat.end().with(0).says(&["not UTF-8"]);
    assert!(ended.stdout.contains("Turn 1") && !ended.stdout.contains("Turn 2"), "{}", ended.stdout);
}
