//! `weft templates` and `weft new`: every template is checked and run as a user without an API key would.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::weft::Home;

/// The component types of a canvas.
fn kinds(canvas: &Json) -> BTreeSet<String> {
    let canvas = canvas.get("dsl").unwrap_or(canvas);
    let components = canvas["components"].as_object().unwrap().values();
    let mut kinds: BTreeSet<String> =
        components.clone().map(|one| one["obj"]["component_name"].as_str().unwrap().to_owned()).collect();
    let tools = components.filter_map(|one| one["obj"]["params"]["tools"].as_array()).flatten();
    kinds.extend(tools.filter_map(|tool| Some(tool["component_name"].as_str()?.to_owned())));
    kinds
}

/// A file may have one block here, which is smaller than a canvas.
#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_filled_is_removed() {
    let home = Home::quoting();
    let weft = home.command(&["new", "shop"]);
    let mut command = std::process::Command::new("/bin/sh");
    command.arg("-c").arg("ulimit -f 1; exec \"$@\"").arg("sh");
    command.arg(weft.get_program()).args(weft.get_args());
    command.env_clear().env("HOME", home.path()).current_dir(home.path());
    crate::weft::ended(&mut command).with(1).says(&["cannot write", "canvas.json"]);
    assert!(!home.path().join("shop").exists());
    home.weft(&["new", "shop"]).with(0);
}

#[test]
fn every_template_is_created_checked_and_run_without_a_key() {
    let home = Home::quoting();
    let listed = home.weft(&["templates", "--json"]).with(0).json_lines();
    assert!(listed.len() >= 12);
    let mut used = BTreeSet::new();
    for template in &listed {
        let id = template["id"].as_str().unwrap();
        let made = home.weft(&["new", &format!("made/{id}-1"), "--template", id]).with(0).says(&["try it"]);
        let canvas = made.stdout.trim();
        home.weft(&["check", canvas, "--strict"]).with(0);
        let drawn: Json = serde_json::from_slice(&std::fs::read(home.path().join(canvas)).unwrap()).unwrap();
        used.extend(kinds(&drawn));
        match template["question"].as_str().unwrap() {
            "" => {
                home.write("guide.md", "# One\n\nThe first part.\n\n## Two\n\nThe second part.\n");
                home.weft(&["run", canvas, "--file", "guide.md"]).with(0);
            }
            question if kinds(&drawn).contains("UserFillUp") => {
                let run = ["run", canvas, "--query", question, "--session", "s"];
                home.weft(&run).with(3);
                let answers = ["run", canvas, "--session", "s", "--input", "go=true", "--input", "note=tea"];
                let went_on = home.weft(&answers).with(0);
                assert!(!went_on.stdout.trim().is_empty());
            }
            question => {
                let ran = home.weft(&["run", canvas, "--query", question]).with(0);
                assert!(!ran.stdout.trim().is_empty(), "{id}");
            }
        }
    }
    // Each family of components has a template that shows it.
    for family in [
        vec!["Switch", "Categorize", "Iteration", "UserFillUp"],
        vec!["LLM", "Agent", "DeepResearch"],
        vec!["Retrieval", "ListOperations", "DataOperations", "VariableAssigner", "StringTransform"],
        vec!["Message", "Invoke", "DocGenerator"],
        vec!["Calculator", "CodeExec", "ExeSQL", "Email", "ReadFile", "WriteFile"],
        vec!["Parser", "TitleChunker", "Tokenizer"],
    ] {
        let missing: Vec<_> = family.iter().filter(|kind| !used.contains(**kind)).collect();
        assert!(missing.is_empty(), "no template shows {missing:?}");
    }
}

#[test]
fn existing_files_are_kept_and_unknown_templates_are_reported() {
    let home = Home::quoting();
    home.weft(&["new", "shop", "--template", "none"]).with(2).says(&["weft templates"]);
    home.weft(&["new", "shop", "--template", "customer_service"]).with(0);
    home.weft(&["new", "shop", "--template", "greet"]).with(2).says(&["does not exist yet"]);
    // Documents beside a canvas form the dataset named after its folder, whatever the template called it.
    let ran =
        home.weft(&["run", "shop/canvas.json", "--query", "How long do I have to return a bicycle?"]).with(0);
    assert!(ran.stdout.contains("30 days"), "{}", ran.stdout);
}
