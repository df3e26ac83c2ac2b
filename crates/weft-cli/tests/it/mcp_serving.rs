//! `weft mcp`: agents as tools over standard input and output.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::weft::{Home, Running, ask_a_model, sample};

fn request(id: u64, method: &str, params: &Json) -> Json {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn calling(id: u64, tool: &str, arguments: &Json) -> Json {
    request(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// A stateless request that names its client, which supports tasks.
fn alone(id: u64, method: &str, mut params: Json) -> Json {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    request(id, method, &params)
}

struct Client(Running);

impl Client {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        Self(home.start(&[&["mcp"], arguments].concat()))
    }

    /// Sends a message and waits for the answer with its id.
    fn ask(&mut self, message: &Json) -> Json {
        writeln!(self.0.input.as_mut().unwrap(), "{message}").unwrap();
        let id = format!("\"id\":{},", message["id"]);
        serde_json::from_str(&self.0.printed(&id)).unwrap()
    }
}

#[test]
fn an_agent_is_called_over_lines_and_nothing_else_is_printed() {
    let home = Home::quoting();
    let said = [
        request(1, "initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(2, "tools/list", &json!({})),
        calling(3, "hello", &json!({"query": "good morning", "name": "Ada", "town": "Oslo"})),
        alone(4, "server/discover", json!({})),
    ];
    let said: String = said.iter().map(|message| format!("{message}\n")).collect();
    let agent = format!("hello={}", sample("greet"));
    let ended = home.weft_reading(&["mcp", "--agent", &agent], &said).with(0);
    let lines = ended.json_lines();
    let of = |id: u64| &lines.iter().find(|line| line["id"] == id).unwrap()["result"];
    assert_eq!(lines.len(), 4, "{}", ended.stdout);
    assert_eq!(of(1)["serverInfo"]["name"], "weft");
    let tools = of(2)["tools"].as_array().unwrap();
    assert_eq!(tools.last().unwrap()["name"], "hello");
    assert_eq!(of(3)["content"][0]["text"], "Hello Ada in Oslo, you said: good morning");
    assert_eq!(of(4)["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    // The agent is published, so the next process offers it without being told.
    let again = home.weft_reading(&["mcp"], &format!("{}\n", request(1, "tools/list", &json!({})))).with(0);
    assert!(again.stdout.contains("\"hello\""), "{}", again.stdout);
}

#[test]
fn a_canvas_with_errors_is_not_offered() {
    let home = Home::quoting();
    home.write("bad.json", json!({"components": {}}).to_string());
    let ended = home.weft_reading(&["mcp", "--agent", "bad=bad.json"], "").with(2);
    assert_eq!(ended.stdout, "");
    home.weft_reading(&["mcp", "--agent", "bad"], "").with(2).says(&["--agent ID=FILE"]);
}

#[test]
fn a_task_continues_after_its_process_was_killed() {
    let script = json!({"replies": [
        {"say": [{"text": "half"}, {"wait": 600_000}]},
    ]});
    let home = Home::scripted(&script);
    home.write("ask.json", ask_a_model().to_string());
    let mut client = Client::start(&home, &["--agent", "ask=ask.json"]);
    let created = client.ask(&alone(1, "tools/call", json!({"name": "ask", "arguments": {"query": "q"}})));
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let id = created["result"]["taskId"].clone();
    client.0.signal("KILL");
    drop(client);

    home.write("script.json", json!({"replies": [{"say": [{"text": "It is whole."}]}]}).to_string());
    let mut next = Client::start(&home, &[]);
    let (mut number, begun) = (1, Instant::now());
    loop {
        number += 1;
        let shown = next.ask(&alone(number, "tasks/get", json!({"taskId": id})));
        match shown["result"]["status"].as_str() {
            Some("working") if begun.elapsed() < Duration::from_secs(120) => {
                std::thread::sleep(Duration::from_millis(200));
            }
            Some("completed") => {
                assert_eq!(shown["result"]["result"]["content"][0]["text"], "It is whole.");
                return;
            }
            _ => panic!("{shown}"),
        }
    }
}

#[test]
fn two_clients_share_a_folder_and_a_disconnect_ends_the_process() {
    let home = Home::quoting();
    let agent = format!("hello={}", sample("greet"));
    let (mut first, mut second) = (Client::start(&home, &["--agent", &agent]), Client::start(&home, &[]));
    assert!(first.ask(&request(1, "tools/list", &json!({})))["result"]["tools"].is_array());
    let asked = json!({"query": "q", "name": "Bo", "town": "Rome"});
    let told = second.ask(&calling(2, "hello", &asked));
    assert_eq!(told["result"]["content"][0]["text"], "Hello Bo in Rome, you said: q", "{told}");
    let told = first.ask(&calling(3, "hello", &asked));
    let run = told["result"]["structuredContent"]["run_id"].clone();
    assert_eq!(
        second.ask(&calling(4, "get_run", &json!({"run_id": run})))["result"]["structuredContent"]["status"],
        "succeeded"
    );
    first.0.end().with(0);
    second.0.end().with(0);
}
