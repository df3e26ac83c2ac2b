//! Operator tasks on a running server: tokens and backups.

use serde_json::json;

use crate::serve::Server;
use crate::weft::{Home, sample};

#[test]
fn tokens_are_created_listed_and_revoked_while_a_server_runs() {
    let home = Home::quoting();
    let agent = format!("memory={}", sample("remember_turns"));
    let made = home.weft(&["token", "create", "before the first start"]).with(0).says(&["shown only now"]);
    let before = made.stdout.trim().to_owned();
    assert!(before.starts_with("weft-"), "{before}");
    let server = Server::start(&home, &["--agent", &agent]);
    assert!(server.token.is_none(), "a token existed already");
    let status = |token: &str| {
        let (status, body) = server.post("/api/v1/agents/memory/sessions", Some(token), &json!({}));
        (status.contains(" 200 "), body)
    };
    assert!(status(&before).0);

    assert!(!made.stderr.contains("did not exist"), "the default tenant always exists: {}", made.stderr);
    let for_shop = |name| home.weft(&["token", "create", name, "--tenant", "shop", "--json"]).with(0);
    let made = for_shop("ci").says(&["the tenant shop did not exist"]).json_lines();
    let again = for_shop("ci 2");
    assert!(!again.stderr.contains("did not exist"), "{}", again.stderr);
    home.weft(&["token", "revoke", "ci 2", "--tenant", "shop"]).with(0);
    let theirs = made[0]["token"].as_str().unwrap().to_owned();
    assert_eq!((&made[0]["name"], &made[0]["tenant"]), (&json!("ci"), &json!("shop")));
    let (let_in, body) = status(&theirs);
    assert!(let_in && body.contains("Agent not found"), "another tenant cannot see our agents: {body}");
    let listed = home.weft(&["token", "list", "--json"]).with(0).json_lines();
    assert_eq!(listed.len(), 2);
    let ci = listed.iter().find(|token| token["name"] == "ci").unwrap();
    assert!(ci["last_used"].is_string() && ci["created"].is_string() && ci.get("token").is_none(), "{ci}");
    let text = home.weft(&["token", "list", "--tenant", "shop"]).with(0).stdout;
    assert!(text.lines().count() == 1 && text.contains("shop") && !text.contains(&theirs), "{text}");

    home.weft(&["token", "revoke", "ci"]).with(2).says(&["there is no such token"]);
    home.weft(&["token", "revoke", "ci", "--tenant", "shop"]).with(0).says(&["revoked"]);
    let (let_in, body) = status(&theirs);
    assert!(!let_in && body.contains("401"), "revoked at once, without a restart: {body}");
    let made = for_shop("cd").json_lines();
    home.weft(&["token", "revoke", "cd"]).with(2).says(&["in the tenant `default`", "--tenant"]);
    home.weft(&["token", "revoke", made[0]["id"].as_str().unwrap()]).with(0).says(&["cd", "shop"]);
    home.weft(&["token", "list", "--tenant", "nosuch"]).with(2).says(&["there is no tenant nosuch"]);
    assert!(status(&before).0, "the other tokens stay valid");
    home.weft(&["token", "create", ""]).with(2).says(&["needs a name"]);
    server.stop();
}

#[test]
fn the_store_is_administered_whatever_is_wrong_with_models_and_plugins() {
    let home = Home::new();
    home.settings(
        "[[models.entries]]\nname = \"m\"\nprovider = \"openai\"\napi_key_env = \"NO_SUCH_KEY\"\n\
         [mcp.servers.s]\ncommand = \"x\"\nenv_from = { KEY = \"NO_SUCH_KEY\" }\n",
    );
    let plugins = home.path().join(".local/share/weft/plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::write(plugins.join("wrong.json"), "{").unwrap();
    std::fs::write(plugins.join("wrong.mcp.toml"), "comand = 1").unwrap();
    home.weft(&["token", "create", "ci"]).with(0);
    home.weft(&["token", "revoke", "ci"]).with(0);
    for command in [
        &["token", "list"][..],
        &["user", "list"],
        &["tenant", "list"],
        &["secret", "list"],
        &["runs", "list"],
        &["runs", "prune", "--older-than", "30d"],
        &["schedule", "list"],
        &["usage"],
        &["spending"],
        &["audit"],
    ] {
        home.weft(command).with(0);
    }
    home.weft(&["schedule", "enable", "x"]).with(2).says(&["NO_SUCH_KEY"]);
}

#[test]
fn a_backup_made_while_a_server_runs_is_a_data_folder() {
    let home = Home::quoting();
    let agent = format!("memory={}", sample("remember_turns"));
    let path = "/api/v1/agents/memory/completions";
    let data = |folder: &str| home.path().join(folder).to_str().unwrap().to_owned();
    let (kept, copy) = (data("kept"), data("copy"));
    home.weft(&["backup", &copy, "--data", &kept]).with(2).says(&["there is no store"]);
    home.write("river.txt", "The river is called Fjernfloden.\n");
    home.weft(&["dataset", "ingest", "river", "river.txt", "--data", &kept]).with(0);
    let server = Server::start(&home, &["--agent", &agent, "--no-auth", "--data", &kept]);
    let ask = |server: &Server, query: &str| {
        server.post(path, None, &json!({"query": query, "session_id": "s", "stream": true})).1
    };
    ask(&server, "my name is Ada");
    // An interrupted backup has left a partial file.
    let (blobs, part) = (std::path::Path::new(&kept).join("blobs"), format!("{copy}.partial"));
    let whole = files(&blobs).pop().unwrap();
    let cut = std::path::Path::new(&part).join("blobs").join(whole.strip_prefix(&blobs).unwrap());
    std::fs::create_dir_all(cut.parent().unwrap()).unwrap();
    std::fs::write(&cut, "The").unwrap();
    let told = home.weft(&["backup", &copy, "--data", &kept, "--json"]).with(0).json_lines();
    let copied = std::path::Path::new(&copy).join("blobs").join(whole.strip_prefix(&blobs).unwrap());
    assert_eq!(std::fs::read(copied).unwrap(), std::fs::read(&whole).unwrap());
    assert!(told[0]["database_bytes"].as_u64() > Some(10_000) && told[0]["files"] == 1, "{told:?}");
    ask(&server, "this comes after the copy");
    home.weft(&["backup", &copy, "--data", &kept]).with(2).says(&["already"]);
    server.stop();
    // The original is lost.
    std::fs::remove_dir_all(&kept).unwrap();
    let search = ["dataset", "search", "what is the river called", "--in", "river", "--data", &copy];
    home.weft(&search).with(0).says(&["the index of the dataset `river` is empty"]);
    let server = Server::start(&home, &["--agent", &agent, "--no-auth", "--data", &copy]);
    let session = server.get("/api/v1/agents/memory/sessions/s");
    assert!(session.contains("my name is Ada") && !session.contains("after the copy"), "{session}");
    ask(&server, "it goes on");
    server.stop();
    let found = home.weft(&search);
    assert!(found.stdout.contains("Fjernfloden"), "{found:?}");
}

#[test]
fn a_backup_contains_the_plugins_and_names_what_it_leaves_out() {
    let home = Home::quoting();
    home.weft(&["token", "create", "me", "--data", "kept"]).with(0);
    let kept = home.path().join("kept");
    for folder in ["plugins/inner", "models/small"] {
        std::fs::create_dir_all(kept.join(folder)).unwrap();
    }
    std::fs::write(kept.join("plugins/inner/notes.txt"), "words").unwrap();
    std::fs::write(kept.join("models/small/model.bin"), "weights").unwrap();
    let told = home.weft(&["backup", "copy", "--data", "kept"]).with(0);
    assert!(told.stderr.contains("left out") && told.stderr.contains("models"), "{}", told.stderr);
    assert!(told.stderr.contains("due schedules fire"), "{}", told.stderr);
    let copy = home.path().join("copy");
    assert_eq!(std::fs::read_to_string(copy.join("plugins/inner/notes.txt")).unwrap(), "words");
    assert!(!copy.join("models").exists());
    let told = home.weft(&["backup", "again", "--data", "kept", "--json"]).with(0).json_lines();
    assert!(told[0]["left_out"][0].as_str().unwrap().ends_with("models"), "{told:?}");
    // A folder of plugins elsewhere belongs to the settings.
    home.settings("[plugins]\nfolder = \"kept/plugins\"\n");
    let told = home.weft(&["backup", "third", "--data", "kept", "--json"]).with(0).json_lines();
    assert_eq!(told[0]["left_out"].as_array().unwrap().len(), 2, "{told:?}");
    assert!(!home.path().join("third/plugins").exists());
}

#[test]
fn a_store_outside_of_the_named_data_folder_is_noted_once() {
    let home = Home::quoting();
    home.weft(&["token", "create", "me", "--data", "kept"]).with(0);
    home.weft(&["backup", "copy", "--data", "kept"]).with(0);
    let list = ["token", "list", "--data", "copy"];
    assert!(!home.weft(&list).with(0).stderr.contains("store.url"));
    home.settings("[store]\nurl = \"sqlite:kept/weft.db\"\n");
    let told = home.weft(&list).with(0).stderr;
    assert_eq!(told.matches("the store is kept/weft.db").count(), 1, "{told}");
    home.weft(&["backup", "again"]).with(0).says(&["`store.url` names the original store"]);
}

#[test]
fn a_mistyped_data_folder_is_reported_and_not_created() {
    let home = Home::quoting();
    for command in [
        &["runs", "list"][..],
        &["audit"],
        &["spending"],
        &["usage"],
        &["tasks"],
        &["tenant", "list"],
        &["token", "list"],
        &["user", "list"],
        &["secret", "list"],
        &["schedule", "list"],
        &["dataset", "list"],
        &["dataset", "search", "x"],
    ] {
        let told = home.weft(&[command, &["--data", "absent"]].concat()).with(2);
        told.says(&["there is no store at absent/weft.db", "--data"]);
        assert!(!home.path().join("absent").exists(), "{command:?}");
    }
    home.weft(&["token", "create", "me", "--data", "new"]).with(0);
    home.weft(&["token", "list", "--data", "new"]).with(0);
}

/// All files below a folder.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
