//! `weft secret`, and a secret that a canvas sends everywhere it can, which must be found nowhere else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use crate::serve::Server;
use crate::weft::Home;

/// A part that every encoding of the value contains: plain, in a URL, within JSON.
const NEEDLE: &str = "needle4711Q";
/// A value with characters that each of these encodings escapes.
const CANARY: &str = "a \"needle4711Q/+ö&%";

/// A server that records requests and echoes them.
fn echo() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(String::new())));
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut reader, mut head, mut length) =
                (BufReader::new(stream.try_clone().unwrap()), String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head += &line;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let told = head + &String::from_utf8_lossy(&body);
            kept.lock().unwrap().push_str(&told);
            let answer = json!({"told": told}).to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                answer.len()
            );
        }
    });
    (port, heard)
}

fn node(kind: &str, params: &Json, downstream: &[&str]) -> Json {
    json!({"obj": {"component_name": kind, "params": params}, "downstream": downstream})
}

/// A canvas that uses the secret in every place where it may, and outputs all results.
fn canvas(port: u16) -> Json {
    let call = json!({
        "url": format!("http://127.0.0.1:{port}/?key={{secret.CANARY}}"), "method": "post",
        "headers": {"Authorization": "{secret.HEADER}", "X-Key": "Key {secret.HEADER}"},
        "variables": [{"key": "k", "value": "{secret.CANARY}"}], "datatype": "json",
    });
    let code = json!({
        "lang": "javascript", "arguments": {"key": "{secret.CANARY}"},
        "script": "function main({ key }) { console.log(key); return { key, more: [key + '!'] }; }",
        "outputs": {"key": {"type": "String"}, "more": {"type": "Array<String>"}},
    });
    let sql = json!({
        "sql": "select 1", "db_type": "mysql", "database": "d", "host": "127.0.0.1", "port": 1,
        "username": "{secret.CANARY}", "password": "{secret.CANARY}",
        "exception_method": "comment", "exception_default_value": "no database",
    });
    let model = json!({
        "llm_id": "actor", "cite": false, "sys_prompt": "The key is {secret.CANARY}.",
        "prompts": [{"role": "user", "content": "{sys.query} {CodeExec:C@key} {Invoke:I@result}"}],
    });
    let said = "{{ secret.CANARY }} {Invoke:I@result} {CodeExec:C@more} {LLM:L@content} {env.kept} {ExeSQL:S@formalized_content}";
    json!({
        "components": {
            "begin": node("Begin", &json!({"mode": "conversational", "enablePrologue": false, "prologue": ""}), &["Invoke:I"]),
            "Invoke:I": node("Invoke", &call, &["CodeExec:C"]),
            "CodeExec:C": node("CodeExec", &code, &["VariableAssigner:V"]),
            "VariableAssigner:V": node("VariableAssigner", &json!({"variables": [
                {"variable": "env.kept", "operator": "overwrite", "parameter": "{secret.CANARY}"},
            ]}), &["ExeSQL:S"]),
            "ExeSQL:S": node("ExeSQL", &sql, &["WriteFile:W"]),
            "WriteFile:W": node("WriteFile", &json!({"path": "note.txt", "content": "{secret.CANARY} {env.kept}"}), &["LLM:L"]),
            "LLM:L": node("LLM", &model, &["Message:M"]),
            "Message:M": node("Message", &json!({"content": [said], "output_format": "markdown"}), &[]),
        },
        "variables": {"kept": {"type": "string", "value": ""}},
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn holds_it(bytes: &[u8]) -> bool {
    bytes.windows(NEEDLE.len()).any(|window| window == NEEDLE.as_bytes())
}

#[track_caller]
fn tells_nothing(text: &str) {
    assert!(!text.contains(NEEDLE), "{text}");
}

#[test]
fn a_secret_is_found_only_where_a_canvas_sends_it() {
    let (port, heard) = echo();
    let home = Home::scripted(&json!({"replies": [{"times": 0, "say": [{"text": "Fine."}]}]}));
    home.settings("[net]\nallow = [\"127.0.0.1\"]\n[files]\nroot = \"files\"\n");
    home.write("canary.json", canvas(port).to_string());
    let data = home.path().join("kept");
    let at = |arguments: &[&str]| home.weft(&[arguments, &["--data", data.to_str().unwrap()]].concat());
    let set = |name: &str, value: &str| {
        let arguments = ["secret", "set", name, "--data", data.to_str().unwrap()];
        let told = home.weft_reading(&arguments, &format!("{value}\n")).with(0).says(&["stored"]);
        tells_nothing(&(told.stdout + &told.stderr));
    };
    set("CANARY", CANARY);
    set("HEADER", NEEDLE);
    let checked = at(&["check", "canary.json"]).with(0);
    assert!(!checked.stderr.contains("unknown-secret"), "{}", checked.stderr);
    tells_nothing(&checked.stderr);

    let mut server =
        home.command(&["serve", "--listen", "127.0.0.1:0", "--no-auth", "--agent", "a=canary.json"]);
    server.args(["--data", data.to_str().unwrap()]).env("WEFT_LOG", "trace");
    let server = Server::with(server);
    let ask = |query: &str, stream: bool| {
        let body = json!({"question": query, "session_id": "s", "stream": stream, "return_trace": true});
        server.post("/api/v1/agents/a/completions", None, &body).1
    };
    let stream = ask("first", true);
    tells_nothing(&stream);
    assert!(stream.contains("Fine.") && stream.contains("no database"), "{stream}");
    // The second turn starts with the state that the first has stored.
    let whole = ask("second", false);
    tells_nothing(&whole);
    assert!(whole.contains("***") && whole.contains("\"succeeded\""), "{whole}");
    let sent = heard.lock().unwrap().clone();
    let header = format!("authorization: {NEEDLE}");
    assert!(
        sent.to_ascii_lowercase().contains(&header.to_ascii_lowercase()) && sent.matches(NEEDLE).count() >= 8,
        "{sent}"
    );

    let listed =
        home.weft(&["runs", "list", "--json", "--data", data.to_str().unwrap()]).with(0).json_lines();
    let run = listed[0]["id"].as_str().unwrap().to_owned();
    let shown = at(&["runs", "show", &run, "--json"]).with(0);
    tells_nothing(&(shown.stdout + &shown.stderr));
    let again = at(&["runs", "replay", &run]).with(0).says(&["the replay matches the run"]);
    tells_nothing(&(again.stdout + &again.stderr));
    let forked = at(&["runs", "fork", &run, "--at", "CodeExec:C"]);
    assert_eq!(forked.code, Some(0), "{forked:?}");
    tells_nothing(&(forked.stdout + &forked.stderr));
    for path in ["/api/v1/agents/a/sessions/s", "/api/v1/agents/a", "/api/v1/secrets", "/api/openapi.json"] {
        tells_nothing(&server.get(path));
    }
    tells_nothing(&server.get(&format!("/api/v1/runs/{run}/events")));
    let (out, log) = server.log();
    tells_nothing(&out);
    tells_nothing(&log);

    let ran = at(&["run", "canary.json", "--query", "third"]).with(0);
    tells_nothing(&(ran.stdout + &ran.stderr));
    let found: Vec<_> =
        files(&data).into_iter().filter(|file| holds_it(&std::fs::read(file).unwrap())).collect();
    assert!(found.is_empty(), "{found:?}");
    let note =
        std::fs::read_to_string(files(&data).into_iter().find(|file| file.ends_with("note.txt")).unwrap());
    assert_eq!(note.unwrap(), "*** ***");
}

#[test]
fn secrets_are_set_listed_and_removed_and_a_missing_one_is_reported() {
    let home = Home::quoting();
    let canvas = json!({"components": {
        "begin": node("Begin", &json!({"mode": "conversational"}), &["Message:M"]),
        "Message:M": node("Message", &json!({"content": ["key {secret.KEY}"]}), &[]),
    }});
    home.write("c.json", canvas.to_string());
    home.weft(&["check", "c.json"]).with(0).says(&["unknown-secret", "weft secret set KEY"]);
    let failed = home.weft(&["run", "c.json", "--query", "x"]).with(1);
    failed.says(&["there is no secret `KEY`", "weft secret set KEY"]);
    home.weft_reading(&["secret", "set", "KEY"], "four").with(2).says(&["4 bytes"]);
    home.weft_reading(&["secret", "set", "a.b"], "12345").with(2).says(&["name for a secret"]);
    home.weft_reading(&["secret", "set", "KEY"], NEEDLE).with(0);
    // The run is repeated without the secret, as it was.
    let run = home.weft(&["runs", "list", "--json"]).json_lines()[0]["id"].as_str().unwrap().to_owned();
    home.weft(&["runs", "replay", &run]).with(0).says(&["the replay matches the run"]);
    home.weft_reading(&["secret", "set", "KEY", "--tenant", "shop"], "theirs").with(0);
    let listed = home.weft(&["secret", "list", "--json"]).with(0);
    tells_nothing(&listed.stdout);
    assert_eq!(listed.json_lines().len(), 1);
    assert_eq!(home.weft(&["run", "c.json", "--query", "x"]).with(0).stdout.trim(), "key ***");
    home.weft(&["secret", "delete", "KEY"]).with(0).says(&["removed KEY"]);
    home.weft(&["secret", "delete", "KEY"]).with(2).says(&["there is no secret `KEY`"]);
    assert_eq!(home.weft(&["secret", "list", "--tenant", "shop", "--json"]).with(0).json_lines().len(), 1);
    let log = home.weft(&["audit", "--actor", "cli", "--json"]).with(0).json_lines();
    let logged: Vec<_> = log.iter().map(|entry| (&entry["action"], &entry["target"])).collect();
    let (set, removed, key) = (json!("set secret"), json!("remove secret"), json!("KEY"));
    assert_eq!(logged, [(&set, &key), (&removed, &key)]);
}

#[test]
fn a_lost_key_is_reported_and_not_replaced() {
    let home = Home::quoting();
    let data = home.path().join("kept");
    let at = ["--data", data.to_str().unwrap()];
    home.weft_reading(&[&["secret", "set", "KEY"][..], &at].concat(), NEEDLE).with(0);
    let list = || home.weft(&[&["secret", "list", "--json"][..], &at].concat()).with(0).json_lines();
    assert_eq!(list()[0]["readable"], true);
    std::fs::remove_file(data.join("secrets.key")).unwrap();
    let refused = home.weft_reading(&[&["secret", "set", "MORE"][..], &at].concat(), NEEDLE);
    refused.with(1).says(&["secrets.key", "restore the file"]);
    assert_eq!(list()[0]["readable"], false);
    let told = home.weft(&[&["secret", "list"][..], &at].concat()).with(0).stdout;
    assert!(told.contains("cannot be read"), "{told}");
    let mut server = home.start(&[&["serve", "--listen", "127.0.0.1:0", "--no-auth"][..], &at].concat());
    server.told("1 secret cannot be read");
    server.told("Ctrl-C stops it");
    server.signal("TERM");
    server.end().with(0);
}
