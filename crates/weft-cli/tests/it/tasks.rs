//! `weft tasks`: the open tasks on the command line.

use serde_json::json;

use crate::weft::{Home, sample};

#[test]
fn a_task_is_listed_shown_and_answered() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    home.weft(&["tasks"]).with(0).says(&["there are no tasks"]);
    home.weft(&["run", &sample("form_pause"), "--query", "Plan", "--session", "s"]).with(3);
    let listed = home.weft(&["tasks", "--json"]).with(0).json_lines();
    assert_eq!(
        (listed.len(), &listed[0]["kind"], &listed[0]["session_id"]),
        (1, &json!("form"), &json!("s"))
    );
    let run = listed[0]["run_id"].as_str().unwrap();
    home.weft(&["runs", "resume", run]).with(2).says(&[
        "it stopped to wait for a person",
        "`weft tasks --session s",
        "the next turn of its session",
    ]);
    let id = listed[0]["id"].as_str().unwrap();
    let line = home.weft(&["tasks", "list", "--session", "s"]).with(0).stdout;
    assert!(line.starts_with(id) && line.contains("form"), "{line}");
    let shown = home
        .weft(&["tasks", "show", id])
        .with(0)
        .says(&["weft tasks answer", "--input go=VALUE [--input note=VALUE]"]);
    assert!(
        shown.stdout.contains("Sandwiches.") && shown.stdout.contains("go (boolean)"),
        "{}",
        shown.stdout
    );

    home.weft(&["tasks", "answer", id, "--approve"]).with(2).says(&["is a form", "`go`"]);
    home.weft(&["tasks", "answer", id]).with(2);
    home.weft(&["tasks", "answer", "nothing", "--approve"]).with(2).says(&["there is no task", "weft tasks"]);
    let answered = home.weft(&["tasks", "answer", id, "--input", "go=1", "--input", "note=1.10"]).with(0);
    let said = &answered.stdout;
    assert!(said.contains("Going on with: Sandwiches. Note: 1.10"), "{said}");
    home.weft(&["tasks", "answer", id, "--input", "go=true"]).with(1).says(&["was answered already"]);
    let late = r#"UserFillUp:Approval={"go": true}"#;
    home.weft(&["run", &sample("form_pause"), "--session", "s", "--input", late])
        .with(1)
        .says(&["was answered already"]);
    home.weft(&["tasks"]).with(0).says(&["there are no tasks; --status all"]);
    let none = home.weft(&["tasks", "--status", "all", "--session", "none"]).with(0).stderr;
    assert_eq!(none, "there are no tasks\n");
    assert_eq!(home.weft(&["tasks", "--status", "answered", "--json"]).with(0).json_lines().len(), 1);
    home.weft(&["tasks", "--kind", "chore"]).with(2).says(&["tool_approval"]);
}

#[test]
fn a_run_that_waits_is_cancelled() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    home.weft(&["run", &sample("form_pause"), "--query", "Plan", "--session", "s"]).with(3);
    let task = home.weft(&["tasks", "--json"]).with(0).json_lines().remove(0);
    let (id, run) = (task["id"].as_str().unwrap(), task["run_id"].as_str().unwrap());
    home.weft(&["runs", "cancel", run, "--tenant", "shop"]).with(2).says(&["there is no run"]);
    assert_eq!(home.weft(&["runs", "cancel", run]).with(0).stdout, format!("{run}  cancelled\n"));
    home.weft(&["tasks"]).with(0).says(&["there are no tasks; --status all"]);
    let late = home.weft(&["tasks", "answer", id, "--input", "go=true"]).with(1);
    late.says(&["was dropped: its run was stopped"]);
    home.weft(&["runs", "cancel", run]).with(2).says(&["does not wait any more"]);
    let runs = home.weft(&["runs", "list", "--json"]).with(0).json_lines();
    let status: Vec<_> = runs.iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["cancelled", "waiting"]);
    let stopped = runs[0]["id"].as_str().unwrap();
    home.weft(&["runs", "show", stopped]).with(0);
    home.weft(&["runs", "replay", stopped, "--quiet"]).with(0);
    home.weft(&["runs", "cancel", stopped]).with(2).says(&["has ended: cancelled"]);
}

/// The operator corrects the key between two processes; the question is not asked again.
#[test]
fn a_run_continues_after_a_refused_key_is_corrected() {
    let refused = json!({"error": {"kind": "unauthenticated", "message": "the key is not valid"}});
    let home = Home::scripted(&json!({"replies": [{"say": [refused]}]}));
    home.weft(&["check", &sample("missing_key")]).with(0);
    home.weft(&["run", &sample("missing_key"), "--query", "Who is there?"]).with(3);
    let task = &home.weft(&["tasks", "--json"]).with(0).json_lines()[0];
    assert_eq!(task["kind"], "credential", "{task}");
    let id = task["id"].as_str().unwrap();
    let shown = home.weft(&["tasks", "show", id]).with(0);
    assert!(shown.stdout.contains("the key is not valid"), "{}", shown.stdout);
    drop(shown.says(&["--retry", "--give-up"]));
    home.weft(&["tasks", "answer", id, "--retry"]).with(3);
    let again = home.weft(&["tasks", "--json"]).with(0).json_lines();
    assert_ne!(again[0]["id"].as_str().unwrap(), id, "the retry fails again and creates another task");

    home.write("script.json", json!({"replies": [{"text": "It is me."}]}).to_string());
    let answered = home.weft(&["tasks", "answer", again[0]["id"].as_str().unwrap(), "--retry"]).with(0);
    assert_eq!(answered.stdout.trim(), "It is me.");
}
