//! Whatever input is wrong: one clear error with place and remedy, and never a panic.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use crate::weft::{Ended, Home, ask_a_model, ended, sample};
use crate::workload;

/// Runs `check` and `run` on a file and compares their messages.
#[track_caller]
fn refused(text: impl AsRef<[u8]>, says: &[&str]) -> Ended {
    let home = Home::quoting();
    home.write("c.json", text);
    let run = home.weft(&["run", "c.json", "--query", "x"]).with(2).says(says);
    assert_eq!(run.stdout, "");
    home.weft(&["check", "c.json"]).with(2).says(says)
}

#[test]
fn truncated_json() {
    let text = serde_json::to_string_pretty(&ask_a_model()).unwrap();
    refused(&text[..text.len() / 2], &["truncated", "c.json:", "line", "cut off"]);
}

#[test]
fn text_that_is_no_json_or_no_canvas() {
    refused("hello", &["not JSON", "line 1"]);
    refused("", &["the document is empty"]);
    refused("[1, 2]", &["c.json"]);
    refused("{\"components\": 5}", &["components"]);
    refused(b"{\"a\": \"\xff\"}", &["not UTF-8", "byte 7"]);
}

#[test]
fn unknown_component() {
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["component_name"] = "LLMs".into();
    refused(canvas.to_string(), &["no component type `LLMs`", "did you mean `LLM`?"]);
}

#[test]
fn unresolvable_reference() {
    let mut canvas = ask_a_model();
    canvas["components"]["Message:M"]["obj"]["params"]["content"] = json!(["{LLM:Absent@content}"]);
    refused(canvas.to_string(), &["LLM:Absent", "Message:M"]);
}

#[test]
fn wrong_types() {
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["params"]["temperature"] = json!("hot");
    canvas["components"]["LLM:A"]["obj"]["params"]["prompts"] = json!(7);
    refused(canvas.to_string(), &["/components/LLM:A/obj/params/prompts"]);
}

#[test]
fn missing_model() {
    let home = Home::new();
    let entry = |name: &str| format!("[[models.entries]]\nname = \"{name}\"\nprovider = \"extractive\"\n");
    home.write("weft.toml", entry("a") + &entry("b"));
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["params"]["llm_id"] = "gpt-9@OpenAI".into();
    home.write("c.json", canvas.to_string());
    home.weft(&["run", "c.json"]).with(2).says(&["gpt-9@OpenAI", "LLM:A", "`a`", "`b`", "models.default"]);
}

#[test]
fn a_cycle_without_an_exit() {
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["downstream"] = json!(["LLM:A"]);
    refused(canvas.to_string(), &["LLM:A"]);
}

#[test]
fn deep_nesting() {
    refused("[".repeat(1 << 20), &["nest deeper"]);
    refused("{\"components\":".repeat(5_000), &["nest deeper"]);
}

#[test]
fn a_text_of_ten_megabytes_is_accepted() {
    let home = Home::quoting();
    let mut canvas = workload::line(1);
    canvas["components"]["Message:M"]["obj"]["params"]["content"] = json!(["x".repeat(10 << 20)]);
    home.write("c.json", canvas.to_string());
    assert_eq!(home.weft(&["run", "c.json"]).with(0).stdout.len(), (10 << 20) + 1);
    canvas["components"]["Message:M"]["obj"]["component_name"] = "Massage".into();
    home.write("c.json", canvas.to_string());
    let refused = home.weft(&["check", "c.json"]).with(2).says(&["did you mean `Message`?"]);
    assert!(refused.stderr.len() < 4_000, "{} bytes", refused.stderr.len());
}

#[test]
fn five_thousand_nodes_are_accepted() {
    let home = Home::quoting();
    home.write("c.json", workload::line(5_000).to_string());
    home.weft(&["check", "c.json"]).with(0);
    assert_eq!(home.weft(&["run", "c.json", "--query", "hi"]).with(0).stdout.trim_end().len(), 5_002);
}

#[test]
fn paths_that_are_not_files() {
    let home = Home::quoting();
    std::fs::create_dir(home.path().join("folder")).unwrap();
    for verb in ["check", "run", "chat"] {
        home.weft(&[verb, "absent.json"]).with(2).says(&["there is no file absent.json", "help: "]);
        let told = home.weft(&[verb, "folder"]).with(2).says(&["folder is a folder", "name a file in it"]);
        assert!(!told.stderr.contains("canvas.json"), "{}", told.stderr);
    }
    // This path exists.
    home.write("folder/canvas.json", "{}");
    home.weft(&["check", "folder"]).with(2).says(&["such as folder/canvas.json"]);
}

#[test]
fn arguments_that_are_not_utf8_or_unknown() {
    let home = Home::quoting();
    let mut command = home.command(&["run", "c.json", "--query"]);
    ended(command.arg(OsStr::from_bytes(b"\xff\xfe"))).with(2).says(&["UTF-8"]);
    let mut command = home.command(&["run"]);
    ended(command.arg(OsStr::from_bytes(b"\xff.json"))).with(2).says(&["there is no file"]);
    let mut command = home.command(&["serve", "--agent"]);
    ended(command.arg(OsStr::from_bytes(b"a=\xff"))).with(2).says(&["--agent"]);
    home.weft(&["run", &sample("greet"), "--input", "name"]).with(2).says(&["--input name", "KEY=VALUE"]);
    home.weft(&["run"]).with(2).says(&["FILE"]);
    home.weft(&["rum"]).with(2).says(&["run"]);
    home.weft(&[]).with(2).says(&["Usage"]);
    home.weft(&["run", &sample("greet"), "--repeat", "3"]).with(2).says(&["--bench-json"]);
    assert!(home.weft(&["--version"]).with(0).stdout.starts_with("weft "));
}

/// Names become parts of paths and URLs, where these two mean other folders.
#[test]
fn names_that_mean_other_folders() {
    let home = Home::quoting();
    home.write("a.md", "# A\n\nSome words.\n");
    for name in [".", ".."] {
        let run = home.weft(&["run", &sample("greet"), "--query", "x", "--session", name]).with(2);
        run.says(&["help", &format!("a session cannot be called `{name}`")]);
        home.weft(&["dataset", "ingest", name, "a.md"]).with(2).says(&["a dataset cannot be called"]);
        home.weft(&["dataset", "list", "--tenant", name]).with(2).says(&["a tenant cannot be called"]);
    }
    home.weft(&["run", &sample("greet"), "--query", "x", "--session", ".a"]).with(0);
}

#[test]
fn a_session_id_that_is_not_valid() {
    let home = Home::quoting();
    home.weft(&["run", &sample("greet"), "--session", &"s".repeat(5_000)])
        .with(2)
        .says(&["session id", "255"]);
    home.weft(&["run", &sample("greet"), "--session", ""]).with(2).says(&["session id is empty"]);
}

#[test]
fn a_data_folder_that_cannot_be_created() {
    let home = Home::quoting();
    home.write("file", "in the way");
    home.weft(&["runs", "list", "--data", "file"])
        .with(2)
        .says(&["the data folder file is not a folder", "--data"]);
    for place in ["file/data", "/proc/weft"] {
        let run = home.weft(&["run", &sample("greet"), "--data", place]).with(2).says(&[place, "--data"]);
        assert_eq!(run.stdout, "");
        home.weft(&["serve", "--listen", "127.0.0.1:0", "--data", place]).with(2).says(&[place]);
    }
}

#[test]
fn an_invalid_listen_address() {
    let home = Home::quoting();
    let told = "it must be an IP address and a port, such as 127.0.0.1:9380";
    home.weft(&["serve", "--listen", "localhost:9380"]).with(2).says(&["--listen", told]);
    ended(home.command(&["runs", "list"]).env("WEFT_LISTEN", "9380")).with(2).says(&["WEFT_LISTEN", told]);
    home.write("listen.toml", "listen = \"localhost\"\n");
    home.weft(&["runs", "list", "--config", "listen.toml"]).with(2).says(&["`listen` in listen.toml", told]);
}

#[test]
fn a_store_that_cannot_be_opened() {
    let home = Home::quoting();
    std::fs::create_dir_all(home.path().join("d/weft.db")).unwrap();
    home.weft(&["run", &sample("greet"), "--data", "d"]).with(2).says(&["weft.db"]);
    std::fs::create_dir(home.path().join("e")).unwrap();
    home.write("e/weft.db", "this is not a database".repeat(100));
    home.weft(&["runs", "list", "--data", "e"]).with(2).says(&["weft.db"]);
    let mut command = home.command(&["runs", "list"]);
    let told =
        ended(command.env("WEFT_STORE__URL", "ftp://u:s3cret@host/x")).with(2).says(&["ftp:", "sqlite:"]);
    assert!(!told.stderr.contains("s3cret"), "{}", told.stderr);
}
