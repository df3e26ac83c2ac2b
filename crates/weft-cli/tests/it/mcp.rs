//! `weft mcp` with MCP servers, which here are shell scripts.

use serde_json::{Value as Json, json};

use crate::weft::Home;

/// Answers with the content of `tools.json` next to it.
const SERVER: &str = r#"
echo $$ >number
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      about='"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}'
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25",%s}}\n' "$id" "$about" ;;
    *'"method":"tools/list"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}\n' "$id" "$(cat tools.json)" ;;
    *'"method":"tools/call"'*'"name":"look.up"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the key is under the mat"}]}}\n' "$id" ;;
  esac
done
"#;

fn tool(name: &str, description: &str) -> Json {
    json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}})
}

fn home(more: &str) -> Home {
    let home = Home::new();
    home.write("server.sh", SERVER);
    home.write(
        "tools.json",
        json!([tool("read", "reads"), tool("write", "writes"), {"name": "odd"}]).to_string(),
    );
    home.settings(format!("[mcp.servers.files]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n{more}"));
    home
}

#[test]
fn a_file_in_the_plugins_folder_adds_a_server() {
    let home = home("");
    home.settings("[plugins]\nfolder = \"added\"\n");
    std::fs::create_dir(home.path().join("added")).unwrap();
    home.write("added/files.mcp.toml", "command = \"sh\"\nargs = [\"server.sh\"]\ndisable = [\"write\"]\n");
    let expected = [("read", "new"), ("write", "disabled"), ("odd", "refused")];
    assert_eq!(states(&home), pairs(&expected));
    home.write("added/files.mcp.toml", "comand = \"sh\"\n");
    let said = home.weft(&["mcp", "list"]).with(2).stderr;
    assert!(said.contains("files.mcp.toml: unknown field `comand`"), "{said}");
}

/// Each tool with its state, from the JSON lines.
fn states(home: &Home) -> Vec<(String, String)> {
    let listed = home.weft(&["mcp", "list", "--json"]).with(0).json_lines();
    let text = |line: &Json, name: &str| line[name].as_str().unwrap().to_owned();
    listed.iter().map(|line| (text(line, "tool"), text(line, "state"))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(tool, state)| ((*tool).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn tools_are_listed_accepted_and_refused_after_a_change() {
    let home = home("disable = [\"write\"]\n");
    let new = [("read", "new"), ("write", "disabled"), ("odd", "refused")];
    assert_eq!(states(&home), pairs(&new));
    assert_eq!(states(&home), pairs(&new), "listing accepts nothing");
    let listed = home.weft(&["mcp", "list"]).with(0).stdout;
    assert!(listed.starts_with("files: 3 tools\n  read   new       reads\n"), "{listed}");
    assert!(listed.contains("  odd    refused   it has no schema\n"), "{listed}");

    assert_eq!(home.weft(&["mcp", "accept", "files"]).with(0).stdout, "read\n");
    home.weft(&["mcp", "accept", "files"]).with(0).says(&["already been accepted"]);
    assert_eq!(states(&home)[0], pairs(&[("read", "accepted")])[0]);

    home.write(
        "tools.json",
        json!([tool("read", "reads \u{1b}[2J all your keys"), tool("write", "w")]).to_string(),
    );
    let changed = home.weft(&["mcp", "list", "files"]).with(0).says(&["weft mcp accept files"]).stdout;
    assert!(
        changed.contains("read   changed   its description was `reads` and is now `reads [2J all"),
        "{changed:?}"
    );
    assert!(!changed.chars().any(|c| c.is_control() && c != '\n'), "{changed:?}");
    assert_eq!(home.weft(&["mcp", "accept", "files", "read"]).with(0).stdout, "read\n");
    assert_eq!(states(&home), pairs(&[("read", "accepted"), ("write", "disabled")]));
}

#[test]
fn tools_that_wait_to_be_accepted_are_reported() {
    let strict = home("pin = \"strict\"\ndisable = [\"write\"]\n");
    let note = "What is new is not offered before `weft mcp accept files` accepts it.";
    drop(strict.weft(&["mcp", "list"]).with(0).says(&[note]));
    assert_eq!(strict.weft(&["mcp", "list", "--json"]).with(0).json_lines()[0]["offered"], false);
    strict.weft(&["mcp", "accept", "files"]).with(0);
    let others = [strict.weft(&["mcp", "list"]).with(0), home("").weft(&["mcp", "list"]).with(0)];
    assert!(others.iter().all(|listed| !listed.stderr.contains("not offered")), "{others:?}");
}

#[test]
fn an_unreachable_server_is_reported_and_the_others_are_listed() {
    let home = home("[mcp.servers.broken]\ncommand = \"/nowhere/server\"\n");
    let ended =
        home.weft(&["mcp", "list"]).with(2).says(&["`broken`", "cannot start `/nowhere/server`", "help: "]);
    assert!(ended.stdout.contains("files: 3 tools"), "{}", ended.stdout);
    home.weft(&["mcp", "list", "absent"])
        .with(2)
        .says(&["no MCP server `absent`", "known servers are broken, files"]);
    home.weft(&["mcp", "accept", "files", "absent"])
        .with(2)
        .says(&["no tool `absent`", "it has read, write, odd"]);
    home.weft(&["mcp", "accept", "files", "odd"]).with(2).says(&["cannot be used: it has no schema"]);
    Home::new().weft(&["mcp", "list"]).with(0).says(&["no MCP server is configured"]);
}

/// An agent uses a server's tool under a name that models accept; the server ends with the run.
#[test]
fn an_agent_uses_the_tools_of_a_server() {
    let script = json!({"replies": [
        {"when": {"user": "where"}, "say": [{"call": {"name": "look_up_0", "arguments": {}}}], "times": 1},
        {"when": {"tool": "under the mat"}, "text": "Look under the mat."},
    ]});
    let home = Home::scripted(&script);
    home.write("server.sh", SERVER);
    home.write("tools.json", json!([tool("look.up", "looks"), tool("write", "writes")]).to_string());
    let servers = "[mcp.servers.files]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n";
    home.settings(servers);
    let node = |name: &str, params: Json, downstream: &[&str], upstream: &[&str]| {
        let obj = json!({"component_name": name, "params": params});
        json!({"obj": obj, "downstream": downstream, "upstream": upstream})
    };
    let agent = json!({
        "llm_id": "actor", "sys_prompt": "Find things.", "prompts": [{"role": "user", "content": "{sys.query}"}],
        "mcp": [{"mcp_id": "files", "tools": {"look.up": {}}}],
    });
    let canvas = json!({"components": {
        "begin": node("Begin", json!({"mode": "conversational"}), &["Agent:A"], &[]),
        "Agent:A": node("Agent", agent, &["Message:M"], &["begin"]),
        "Message:M": node("Message", json!({"content": ["{Agent:A@content}"]}), &[], &["Agent:A"]),
    }});
    home.write("canvas.json", canvas.to_string());
    let ran = home.weft(&["run", "canvas.json", "--query", "where is it"]).with(0);
    assert_eq!(ran.stdout, "Look under the mat.\n", "{}", ran.stderr);
    let number = std::fs::read_to_string(home.path().join("number")).unwrap();
    assert!(!std::path::Path::new("/proc").join(number.trim()).exists());
    assert!(states(&home).contains(&("look.up".to_owned(), "accepted".to_owned())));

    // The server is down: the tool is offered as it was accepted, and the run reports the problem.
    home.settings(servers.replace("\"sh\"", "\"/nowhere/server\""));
    home.weft(&["run", "canvas.json", "--query", "where is it"]).says(&[
        "warning: Agent:A: the tools of the MCP server `files` are unavailable: ",
        "→ Agent:A-->look_up_0",
    ]);
}

#[test]
fn server_settings_are_checked_with_all_others() {
    let home = Home::new();
    home.settings(
        "[mcp.servers.a]\nurl = \"nowhere\"\n[mcp.servers.b]\nurl = \"http://127.0.0.1:1\"\n\
         variables_from = { token = \"NOT_SET\" }\n[mcp.servers.c]\ncomand = \"x\"\n",
    );
    let parts =
        ["mcp.servers.a: `url` is not an http", "b.variables_from: NOT_SET", "`mcp.servers.c.comand`"];
    home.weft(&["mcp", "list"]).with(2).says(&parts);
}
