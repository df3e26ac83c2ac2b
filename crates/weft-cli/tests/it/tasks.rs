//! The inbox on the command line.

use serde_json::json;

use crate::weft::{Home, sample};

#[test]
fn a_task_is_listed_shown_and_answered() {
    let home = Home::scripted(&json!({"replies": [{"say": [{"text": "Sandwiches."}]}]}));
    home.weft(&["tasks"]).with(0).says(&["nobody is asked anything"]);
    home.weft(&["run", &sample("form_pause"), "--query", "Plan", "--session", "s"]).with(3);
    let listed = home.weft(&["tasks", "--json"]).with(0).json_lines();
    assert_eq!(
        (listed.len(), &listed[0]["kind"], &listed[0]["session_id"]),
        (1, &json!("form"), &json!("s"))
    );
    let id = listed[0]["id"].as_str().unwrap();
    let line = home.weft(&["tasks", "list", "--session", "s"]).with(0).stdout;
    assert!(line.starts_with(id) && line.contains("form"), "{line}");
    let shown = home.weft(&["tasks", "show", id]).with(0).says(&["weft tasks answer", "--input go=VALUE"]);
    assert!(
        shown.stdout.contains("Sandwiches.") && shown.stdout.contains("go (boolean)"),
        "{}",
        shown.stdout
    );

    home.weft(&["tasks", "answer", id, "--approve"]).with(2).says(&["is a form", "`go`"]);
    home.weft(&["tasks", "answer", id]).with(2);
    home.weft(&["tasks", "answer", "nothing", "--approve"]).with(2).says(&["there is no task", "weft tasks"]);
    let answered = home.weft(&["tasks", "answer", id, "--input", "go=true"]).with(0);
    assert!(answered.stdout.contains("Sandwiches."), "{}", answered.stdout);
    home.weft(&["tasks", "answer", id, "--input", "go=true"]).with(1).says(&["was answered already"]);
    home.weft(&["tasks"]).with(0).says(&["nobody is asked anything"]);
    assert_eq!(home.weft(&["tasks", "--status", "answered", "--json"]).with(0).json_lines().len(), 1);
    home.weft(&["tasks", "--kind", "chore"]).with(2).says(&["tool_approval"]);
}
