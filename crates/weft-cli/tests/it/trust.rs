//! Settings files that came with a folder, and whether they are trusted.

use serde_json::json;

use crate::weft::{Home, agent, ended, sample};

/// Would create a file if the worker were started.
const STARTS: &str = "[documents]\nworker = [\"/bin/sh\", \"-c\", \"touch started\"]\n";

#[test]
fn a_settings_file_of_the_folder_starts_nothing_until_trusted() {
    let home = Home::new();
    home.weft(&["trust"]).with(2).says(&["there is no weft.toml in this folder", "change to its folder"]);
    home.write("weft.toml", STARTS);
    let told =
        ["weft.toml is not trusted", "`documents.worker`: it starts a program", "weft trust", "--config"];
    let canvas = sample("customer_service");
    for arguments in
        [&["run", &canvas, "--query", "x"] as &[&str], &["demo", "x"], &["check", &canvas], &["mcp", "list"]]
    {
        home.weft(arguments).with(2).says(&told);
    }
    assert!(!home.path().join("started").exists());

    // There is no terminal to ask at.
    home.weft(&["trust"]).with(2).says(&["`documents.worker`: it starts a program", "weft trust --yes"]);
    home.weft(&["runs", "list"]).with(2).says(&told);
    home.weft(&["trust", "--yes"]).with(0).says(&["until it changes"]);
    home.weft(&["trust"]).with(0).says(&["trusted already"]);
    drop(home.weft(&["run", &canvas, "--query", "x"]));
    assert!(home.path().join("started").exists(), "the configured worker ran");

    // The trust is for this file with this content only.
    home.write("weft.toml", format!("{STARTS}# one more line\n"));
    home.weft(&["runs", "list"]).with(2).says(&told);
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("weft.toml"), STARTS).unwrap();
    ended(home.command(&["runs", "list"]).current_dir(&elsewhere)).with(2).says(&told);
}

#[test]
fn named_files_are_trusted_and_the_folder_may_lower_limits() {
    let home = Home::new();
    let untrusted = "[net]\nallow = [\"127.0.0.1\"]\n";
    home.write("weft.toml", untrusted);
    home.write("named.toml", untrusted);
    home.weft(&["runs", "list"]).with(2).says(&["`net`"]);
    home.weft(&["runs", "list", "--config", "named.toml"]).with(0);
    let less = "[limits]\nrun_seconds = 7\n[models]\ndefault = \"m\"\nstrict = true\n\
                [[models.entries]]\nname = \"m\"\nprovider = \"extractive\"\n";
    home.write("weft.toml", less);
    home.weft(&["runs", "list"]).with(0);
    home.weft(&["trust"]).with(0).says(&["has no settings that need to be trusted"]);
    home.settings(format!("{untrusted}[limits]\nrun_seconds = 5\n"));
    home.weft(&["runs", "list"]).with(2).says(&["`limits.run_seconds`: it allows more"]);
    home.write("weft.toml", "[limits]\nrun_seconds = 4\n");
    home.weft(&["runs", "list"]).with(0);
    // An unknown setting is reported as such only, beside one that needs trust.
    home.write("weft.toml", "[limits]\nnosuch = \"x\"\nrun_seconds = 6\n");
    let listed = home.weft(&["runs", "list"]).with(2);
    assert_eq!(listed.stderr.matches("nosuch").count(), 1, "{}", listed.stderr);
    listed.says(&[
        "`limits.nosuch` in weft.toml, line 2: there is no such",
        "`limits.run_seconds`: it allows more",
    ]);
}

/// The key is the user's, the address comes from the file.
#[test]
fn a_settings_file_of_the_folder_cannot_send_a_key_anywhere() {
    let home = Home::new();
    let entry =
        "[[models.entries]]\nname = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_env = \"MY_KEY\"\n";
    home.write("weft.toml", entry);
    let greet = sample("greet");
    let mut command = home.command(&["run", &greet, "--query", "x"]);
    ended(command.env("MY_KEY", "k")).with(2).says(&["`models.entries`", "keys are sent"]);
    home.settings(entry);
    std::fs::remove_file(home.path().join("weft.toml")).unwrap();
    let mut command = home.command(&["check", &greet]);
    ended(command.env("MY_KEY", "k")).with(0);
}

/// Only the operator configures programs: a stored or imported canvas cannot.
#[test]
fn a_canvas_cannot_name_a_program() {
    let home = Home::scripted(&json!({"replies": [{"text": "Done.", "times": 0}]}));
    let program = json!(["-c", "touch started"]);
    let server = json!({"mcp_id": "theirs", "command": "/bin/sh", "args": program, "transport": "stdio", "type": "stdio",
        "server": {"command": "/bin/sh", "args": program}, "tools": {"look": {}}});
    home.write("c.json", agent(&json!({"llm_id": "actor", "mcp": [server]})).to_string());
    // The operator has not configured this server: the agent works without it.
    let checked = home.weft(&["check", "c.json"]).with(0).says(&["unknown-tool-server", "`theirs`"]);
    assert!(!home.path().join("started").exists(), "{}", checked.stderr);
    let ran = home.weft(&["run", "c.json", "--query", "x"]).with(0).says(&["warning: Agent:A: ", "`theirs`"]);
    assert!(!home.path().join("started").exists(), "{}", ran.stderr);
    assert_eq!(ran.stdout, "Done.\n", "{}", ran.stderr);
}
