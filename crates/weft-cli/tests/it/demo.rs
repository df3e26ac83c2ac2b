//! `weft demo`, the first command that new users try.

use std::process::Stdio;

use serde_json::json;

use crate::weft::{Ended, Home, ended};

fn quoting(arguments: &[&str]) -> Ended {
    let home = Home::new();
    let models = "[{name = \"extractive\", provider = \"extractive\"}]";
    ended(home.command(arguments).env("WEFT_MODELS__ENTRIES", models).stdin(Stdio::null()))
}

#[test]
fn the_demo_cites_its_sources_by_name() {
    let demo = quoting(&["demo", "How long do I have to return a bicycle?"]).with(0);
    assert!(demo.stdout.contains("30 days"), "{}", demo.stdout);
    assert!(demo.stdout.contains("[ID:0]"), "{}", demo.stdout);
    assert!(demo.stdout.contains("] returns.md: "), "{}", demo.stdout);
    demo.says(&["extractive", "--model NAME", "? How long do I have", "✓", "(Retrieval)"]);
}

#[test]
fn without_a_question_the_demo_asks_several() {
    let demo = quoting(&["demo"]).with(0);
    assert!(demo.stdout.matches(".md: ").count() >= 3, "{}", demo.stdout);
    assert_eq!(demo.stderr.matches("\n? ").count(), 3, "{}", demo.stderr);
    // The canvas is built in: there is no file to look at, and its documents are not missing.
    for absent in ["warning", "canvases/"] {
        assert!(!demo.stderr.contains(absent), "{}", demo.stderr);
    }
    demo.says(&["weft new FOLDER --template customer_service"]);
}

#[test]
fn ctrl_c_ends_all_of_it() {
    let slow = json!({"replies": [{"delay_ms": 600_000, "say": [{"text": "late"}]}]});
    let home = Home::scripted(&slow);
    let mut demo = home.start(&["demo"]);
    demo.told("? ");
    // A node has ended, so the run is followed.
    demo.told("✓");
    demo.signal("INT");
    let ended = demo.end().with(1).says(&["the run was stopped"]);
    assert!(!ended.stderr.contains("\n? "), "{}", ended.stderr);
}

#[test]
fn the_demo_needs_no_home_settings_or_environment_and_leaves_no_files() {
    let home = Home::new();
    let demo =
        ended(home.command(&["demo", "Can I pay by invoice?"]).env_remove("HOME").stdin(Stdio::null()))
            .with(0);
    assert!(!demo.stdout.trim().is_empty(), "{}", demo.stderr);
    demo.says(&["model"]);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
