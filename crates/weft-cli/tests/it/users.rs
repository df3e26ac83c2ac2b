//! `weft user` and `weft audit`, also while a server runs on the same store.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::serve::Server;
use crate::weft::{Home, sample};

const PASSWORD: &str = "correct horse battery";

fn sign_in(server: &Server, password: &str) -> Json {
    let body = json!({"email": "ann@example.com", "password": password});
    serde_json::from_str(&server.post("/api/v1/auth/login", None, &body).1).unwrap()
}

#[test]
fn a_tenant_is_removed_with_its_members_and_keys() {
    let home = Home::quoting();
    let create = ["user", "create", "ann@example.com", "--role", "owner", "--tenant", "acme"];
    home.weft_reading(&create, &format!("{PASSWORD}\n")).with(0);
    home.weft(&["token", "create", "ci", "--tenant", "acme"]).with(0);
    let listed = home.weft(&["tenant", "list"]).with(0).stdout;
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["acme", "default"]);
    home.weft(&["tenant", "remove", "acme"]).with(2).says(&["--confirm"]);
    home.weft(&["tenant", "remove", "acme", "--confirm", "other"])
        .with(2)
        .says(&["`--confirm` names other, not the tenant acme", "--confirm acme"]);
    home.weft(&["tenant", "remove", "acme", "--confirm", "acme"]).with(0).says(&["everything that it had"]);
    // Also for names that no new tenant may have.
    for gone in ["acme", ".", "..", ""] {
        home.weft(&["tenant", "remove", gone]).with(2).says(&["there is no tenant"]);
        home.weft(&["tenant", "remove", gone, "--confirm", gone]).with(2).says(&["there is no tenant", gone]);
    }
    home.weft(&["tenant", "remove", "default", "--confirm", "default"]).with(2).says(&["cannot be removed"]);
    let left = home.weft(&["tenant", "list", "--json"]).with(0).json_lines();
    assert_eq!(left, [json!({"id": "default"})]);
    let log = home.weft(&["audit", "--json"]).with(0).json_lines();
    assert_eq!((&log[0]["action"], &log[0]["target"]), (&json!("remove tenant"), &json!("acme")));
    // The former members still exist.
    let users = home.weft(&["user", "list"]).with(0).stdout;
    assert!(users.contains("ann@example.com"), "{users}");
    assert_eq!(home.weft(&["token", "list"]).with(0).stdout.matches("ci").count(), 0);
}

/// Returns the number of files in a folder and below.
fn files_below(folder: &Path) -> usize {
    let count = |path: &Path| if path.is_dir() { files_below(path) } else { 1 };
    std::fs::read_dir(folder).unwrap().map(|entry| count(&entry.unwrap().path())).sum()
}

#[test]
fn a_removed_tenant_leaves_no_files() {
    let home = Home::quoting();
    let create = ["user", "create", "ann@example.com", "--role", "owner", "--tenant", "acme"];
    home.weft_reading(&create, &format!("{PASSWORD}\n")).with(0);
    let notes = home.write("notes.md", "The bridge was built in 1823.");
    home.weft(&["dataset", "ingest", "notes", notes.to_str().unwrap(), "--tenant", "acme"]).with(0);
    let data = home.path().join(".local/share/weft");
    let kept = || ["blobs", "index"].map(|folder| files_below(&data.join(folder)));
    assert!(kept().iter().all(|files| *files > 0), "{:?}", kept());
    home.weft(&["tenant", "remove", "acme", "--confirm", "acme"]).with(0);
    assert_eq!(kept(), [0, 0], "the document and its index are removed");
}

#[test]
fn users_are_created_changed_and_removed_while_a_server_runs() {
    let home = Home::quoting();
    home.weft(&["user", "list"]).with(0).says(&["there are no users"]);
    let server = Server::start(&home, &["--agent", &format!("memory={}", sample("remember_turns"))]);
    let create = ["user", "create", "Ann@Example.com", "--name", "Ann", "--role", "owner", "--json"];
    home.weft_reading(&create, "short\n").with(2).says(&["8 characters"]);
    let made = home.weft_reading(&create, &format!("{PASSWORD}\n")).with(0).json_lines();
    assert_eq!((&made[0]["email"], &made[0]["role"]), (&json!("ann@example.com"), &json!("owner")));
    home.weft_reading(&create, PASSWORD)
        .with(2)
        .says(&["another user has this e-mail address", "weft user role"]);
    home.weft_reading(&["user", "create", "ann"], PASSWORD).with(2).says(&["e-mail address"]);
    assert_eq!(sign_in(&server, PASSWORD)["data"]["nickname"], "Ann");
    assert_eq!(sign_in(&server, "wrong")["code"], 109);

    let listed = home.weft(&["user", "list", "--tenant", "default"]).with(0).stdout;
    assert!(listed.contains("ann@example.com") && listed.contains("owner"), "{listed}");
    home.weft(&["user", "list", "--tenant", "nosuch"]).with(2).says(&["there is no tenant nosuch"]);
    let elsewhere = ["user", "role", "ann@example.com", "viewer", "--tenant", "shop"];
    home.weft(&elsewhere).with(2).says(&["is not a member of the tenant shop"]);
    home.weft(&["user", "role", "ann@example.com", "viewer"]).with(1).says(&["without an owner"]);
    let invited = home.weft(&["user", "invite", "bob@example.com"]).with(0).says(&["shown only now"]);
    assert!(invited.stdout.starts_with("weftinvite-"), "{invited:?}");
    home.weft_reading(&["user", "password", "ann@example.com"], "another password").with(0);
    assert_eq!(sign_in(&server, PASSWORD)["code"], 109);
    home.weft(&["user", "disable", "ann@example.com"]).with(0);
    assert_eq!(sign_in(&server, "another password")["code"], 403);
    home.weft(&["user", "enable", "ann@example.com"]).with(0);
    assert_eq!(sign_in(&server, "another password")["code"], 0);

    let exported = home.weft(&["user", "export", "ann@example.com"]).with(0);
    assert_eq!(exported.json_lines()[0]["kind"], "user");
    assert!(!exported.stdout.contains("argon2"), "{exported:?}");
    let remove = ["user", "remove", "ann@example.com"];
    home.weft(&remove).with(2).says(&["--confirm"]);
    home.weft(&[&remove[..], &["--confirm", "bob@example.com"]].concat()).with(2).says(&["bob@example.com"]);
    home.weft(&[&remove[..], &["--confirm", "ann@example.com"]].concat()).with(0);
    home.weft(&remove).with(2).says(&["no such user", "weft user list"]);
    assert_eq!(sign_in(&server, "another password")["code"], 109);

    let log = home.weft(&["audit", "--actor", "cli", "--json"]).with(0).json_lines();
    let actions: Vec<&str> = log.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    let expected = [
        "create user",
        "invite",
        "set password",
        "disable user",
        "enable user",
        "export user",
        "remove user",
    ];
    assert_eq!(actions, expected);
    let all = home.weft(&["audit"]).with(0).stdout;
    assert!(all.contains("nobody  login  ann@example.com  109"), "{all}");
    server.stop();
}

#[test]
fn a_key_has_the_role_it_was_created_with() {
    let home = Home::quoting();
    let made = home.weft(&["token", "create", "reads", "--role", "viewer", "--json"]).with(0).json_lines();
    assert_eq!(made[0]["role"], "viewer");
    let server = Server::start(&home, &["--agent", &format!("memory={}", sample("remember_turns"))]);
    let token = made[0]["token"].as_str();
    let (status, body) = server.post("/api/v1/agents/memory/sessions", token, &json!({}));
    assert!(status.contains(" 403 ") && body.contains("this needs the role `user`"), "{status} {body}");
    server.stop();
}
