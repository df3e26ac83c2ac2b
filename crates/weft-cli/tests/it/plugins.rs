//! Tools that are added by putting a file into a folder.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value as Json, json};

use crate::weft::{Home, agent};

/// A service that answers every request with its first line.
fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let key = text.to_lowercase().contains("x-key: k1");
            let line = text.lines().next().unwrap_or_default();
            let body = json!({"asked": line, "key": key}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            );
            let _ = write!(stream, "{head}connection: close\r\n\r\n{body}");
        }
    });
    address
}

fn document(address: SocketAddr) -> Json {
    json!({
        "openapi": "3.0.3", "info": {"title": "Weather"}, "servers": [{"url": format!("http://{address}")}],
        "paths": {"/cities/{city}": {"get": {
            "operationId": "forecast", "summary": "Tells the weather.",
            "parameters": [{"name": "city", "in": "path", "required": true, "schema": {"type": "string"}}],
        }}},
    })
}

fn home(server: &str) -> Home {
    let call = json!({"call": {"name": "forecast_0", "arguments": {"city": "Bergen"}}});
    let home = Home::scripted(&json!({"replies": [
        {"when": {"tool": "GET /cities/Bergen"}, "times": 0, "text": "It rains."},
        {"when": {"tool": "error"}, "times": 0, "text": "Nobody knows."},
        {"when": {"user": "weather"}, "times": 0, "say": [call]},
    ]}));
    let params = json!({"llm_id": "", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "tools": [], "mcp": [{"mcp_id": server, "tools": {"forecast": {}}}], "cite": false});
    home.write("c.json", agent(&params).to_string());
    home
}

#[test]
fn an_openapi_document_in_the_folder_is_a_tool_of_agents() {
    let home = home("weather");
    home.weft(&["plugins"]).with(0).says(&["there are no plugins", "NAME.json"]);
    home.weft(&["check", "c.json"]).says(&["no MCP server and no plugin `weather`"]);

    let folder = home.path().join("d/plugins");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("weather.json"), document(service()).to_string()).unwrap();
    std::fs::write(folder.join("weather.toml"), "headers = { X-Key = \"k1\" }").unwrap();
    let listed = home.weft(&["plugins", "--data", "d"]).with(0).stdout;
    assert_eq!(listed, "weather: 1 tool\n  forecast  Tells the weather.\n");
    let lines = home.weft(&["plugins", "--json", "--data", "d"]).with(0).json_lines();
    assert_eq!(lines[0]["parameters"]["required"], json!(["city"]));
    let checked = home.weft(&["check", "c.json", "--data", "d"]).with(0);
    assert!(!checked.stderr.contains("plugin"), "{}", checked.stderr);

    // An address of this machine is refused, also for a plugin, until the operator allows it.
    let run = ["run", "c.json", "--query", "weather?", "--data", "d"];
    let refused = home.weft(&run).with(0);
    assert!(refused.stdout.contains("Nobody knows."), "{refused:?}");
    let ran = home.command(&run).env("WEFT_NET__ALLOW", "[\"127.0.0.1\"]").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("It rains."), "{said}\n{told}");
    assert!(told.contains("forecast_0 {\"city\":\"Bergen\"}") && !told.contains("k1"), "{told}");
}

#[test]
fn a_wasm_component_in_the_folder_is_a_tool_of_agents() {
    let call = json!({"call": {"name": "echo_0", "arguments": {"text": "Bergen"}}});
    let home = Home::scripted(&json!({"replies": [
        {"when": {"tool": "{\"text\":\"Bergen\"}"}, "times": 0, "text": "It said Bergen."},
        {"when": {"user": "say"}, "times": 0, "say": [call]},
    ]}));
    let params = json!({"llm_id": "", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "tools": [], "mcp": [{"mcp_id": "say", "tools": {"echo": {}}}], "cite": false});
    home.write("c.json", agent(&params).to_string());
    let folder = home.path().join("d/plugins");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("say.wasm"), weft_testkit::WasmToolText::default().bytes()).unwrap();

    let listed = home.weft(&["plugins", "--data", "d"]).with(0).stdout;
    assert_eq!(listed, "say: 1 tool\n  echo  Says what it is told.\n");
    let ran = home.weft(&["run", "c.json", "--query", "say it", "--data", "d"]).with(0);
    assert!(ran.stdout.contains("It said Bergen."), "{ran:?}");

    // A file that is not a component is reported before anything runs, and so is one that does not answer in time.
    std::fs::write(folder.join("broken.wasm"), "no component").unwrap();
    let endless = weft_testkit::WasmToolText {
        module: "(func $begin (loop $again (br $again))) (start $begin)",
        ..weft_testkit::WasmToolText::default()
    };
    std::fs::write(folder.join("endless.wasm"), endless.bytes()).unwrap();
    let refused =
        home.command(&["plugins", "--data", "d"]).env("WEFT_SANDBOX__SECONDS", "1").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in ["broken.wasm: it is not a WebAssembly component", "endless.wasm", "longer than 1 second"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_invalid_file_is_named_before_anything_runs() {
    let home = home("weather");
    let folder = home.path().join("d/plugins");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("weather.json"), "{\"swagger\": \"2.0\"}").unwrap();
    for command in [&["plugins", "--data", "d"][..], &["run", "c.json", "--query", "weather?", "--data", "d"]]
    {
        let refused = home.weft(command);
        assert_ne!(refused.code, Some(0));
        refused.says(&[
            "weather.json",
            "not an OpenAPI document of version 3",
            "remove them from the plugin folder",
        ]);
    }
}

#[test]
fn unusable_operations_are_reported_with_the_reason() {
    let home = home("weather");
    let folder = home.path().join("d/plugins");
    std::fs::create_dir_all(&folder).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut document = document(address);
    let operation =
        |id: &str, parameter: Json| json!({"get": {"operationId": id, "parameters": [parameter]}});
    document["paths"]["/a"] =
        operation("typed", json!({"name": "p", "in": "query", "schema": {"type": "strin"}}));
    document["paths"]["/b"] = operation("styled", json!({"name": "p", "in": "query", "style": "label"}));
    let put = |document: &Json| std::fs::write(folder.join("weather.json"), document.to_string()).unwrap();
    put(&document);
    let listed = home.weft(&["plugins", "--data", "d"]).with(0);
    assert_eq!(listed.stdout, "weather: 1 tool\n  forecast  Tells the weather.\n");
    listed.says(&[
        "is used without typed: the schema",
        "is used without styled: its parameter `p` has the style `label`",
    ]);
    let params = json!({"llm_id": "", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "tools": [], "mcp": [{"mcp_id": "weather", "tools": {"forecast": {}, "styled": {}}}], "cite": false});
    home.write("wants.json", agent(&params).to_string());
    home.weft(&["check", "wants.json", "--data", "d"])
        .with(0)
        .says(&["left-out-tool", "`weather` has no tool `styled`: its parameter `p` has the style `label`"]);
    let misspelled = json!({"llm_id": "", "sys_prompt": "s", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "tools": [], "mcp": [{"mcp_id": "weather", "tools": {"forcast": {}}}], "cite": false});
    home.write("wants.json", agent(&misspelled).to_string());
    let said = ["unknown-tool", "the plugin `weather` has no tool `forcast`", "did you mean `forecast`?"];
    home.weft(&["check", "wants.json", "--data", "d"]).with(0).says(&said);
    document["servers"] = json!([{"url": "http://{host}", "variables": {}}]);
    put(&document);
    let refused = home.weft(&["plugins", "--data", "d"]);
    assert_ne!(refused.code, Some(0));
    refused.says(&["weather.json", "the variable `host`, which has no default", "base_url"]);
}
