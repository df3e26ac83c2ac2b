//! MCP servers stored by a tenant; the server under test, on loopback, is also the MCP server.

use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use weft_testkit::{Reply, Script};

use crate::support::{Bench, begin, bench, component, echo_canvas};

/// Serves the bench on a loopback port until the set is dropped.
async fn served(bench: &Bench) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (router, mut tasks) = (bench.router.clone(), JoinSet::new());
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, tasks)
}

fn server(name: &str, url: &str, token: &str) -> Json {
    json!({"name": name, "url": url, "server_type": "streamable-http",
        "headers": {"Authorization": "Bearer ${token}"}, "variables": {"token": token}})
}

#[tokio::test]
async fn a_server_is_stored_called_changed_and_removed() {
    let bench = bench(Script::new()).await;
    bench.store("Echo", echo_canvas()).await;
    let (url, _served) = served(&bench).await;
    let path = "/api/v1/mcp/servers";
    let made = bench.post(path, server("Own", &url, &bench.token)).await;
    let id = made.data()["id"].as_str().unwrap().to_owned();
    assert!(!made.text.contains(&bench.token), "{}", made.text);
    let tools = made.data()["variables"]["tools"].clone();
    assert!(tools["ragflow_retrieval"]["inputSchema"].is_object(), "{tools}");
    let one = format!("{path}/{id}");
    assert_eq!(bench.get(&one).await.data()["id"], id.as_str());
    assert_eq!(bench.get(&format!("/v1/mcp_server/detail?mcp_id={id}")).await.data()["name"], "Own");

    // Names are unique per tenant, and a server that does not respond is not stored.
    assert_eq!(
        bench.post(path, server("OWN", &url, &bench.token)).await.refusal(),
        (102, "Duplicated MCP server name.".into())
    );
    let (code, message) = bench.post(path, server("B", &url, "wrong")).await.refusal();
    assert!(code == 102 && message.starts_with("Test MCP error: "), "{message}");
    let (code, message) = bench.post(path, server("B", "http://127.0.0.1:1/mcp", "x")).await.refusal();
    assert!(code == 102 && message.starts_with("Test MCP error: "), "{message}");
    assert_eq!(bench.post(path, json!({"name": "B"})).await.refusal().0, 101);

    // A masked value keeps the stored one, so the server still responds.
    let shown = bench.get(&one).await.data();
    let again = json!({"name": "Renamed", "headers": shown["headers"], "variables": shown["variables"]});
    assert_eq!(bench.ask("PUT", &one, again).await.data()["name"], "Renamed");
    // But it is not sent to another address.
    for along in [json!({}), json!({"headers": shown["headers"], "variables": shown["variables"]})] {
        let mut moved = json!({"url": url.replace("127.0.0.1", "localhost")});
        moved.as_object_mut().unwrap().extend(along.as_object().unwrap().clone());
        for (method, path) in [("PUT", one.clone()), ("POST", format!("{one}/test"))] {
            let (code, message) = bench.ask(method, &path, moved.clone()).await.refusal();
            assert!(code == 102 && message.contains("another host"), "{message}");
        }
    }
    let listed = bench.post("/v1/mcp_server/list_tools", json!({"mcp_ids": [id]})).await.data();
    assert!(listed[&id].as_array().unwrap().len() > 1, "{listed}");
    let page = bench.post("/v1/mcp_server/list?keywords=NAME", json!({})).await.data();
    assert_eq!((&page["total"], &page["mcp_servers"][0]["name"]), (&json!(1), &json!("Renamed")));

    let call = json!({"tool_name": "ragflow_list_datasets", "arguments": {}});
    let answered = bench.post(&format!("{one}/test"), call.clone()).await;
    assert_eq!(answered.json()["code"], 0, "{}", answered.text);
    let mut named = call;
    named["mcp_id"] = json!(id);
    assert_eq!(bench.post("/v1/mcp_server/test_tool", named).await.json()["code"], 0);
    assert_eq!(
        bench.post("/v1/mcp_server/test_tool", json!({"mcp_id": id})).await.refusal(),
        (102, "Require provide tool name and arguments.".into())
    );

    let stranger = bench.with(&bench.stranger().await);
    let (code, message) = stranger.get(&one).await.refusal();
    assert!(code == 102 && message.starts_with(&format!("Cannot find MCP server {id}")), "{message}");

    let second = bench.post(path, server("Second", &url, &bench.token)).await.data();
    let both = json!({"mcp_ids": [id, id, second["id"]]});
    bench.post("/v1/mcp_server/rm", both).await.data();
    assert_eq!(bench.get(&one).await.refusal().0, 102);
    let left = bench.post("/v1/mcp_server/list", json!({})).await.data();
    assert_eq!(left["total"], 0, "{left}");
    assert_eq!(
        bench.post("/v1/mcp_server/rm", json!({"mcp_ids": []})).await.refusal(),
        (102, "No MCP server ID provided.".into())
    );
}

/// The second request finds some or all of the servers removed that existed when it looked.
#[tokio::test]
async fn servers_removed_by_two_requests_at_once_are_all_removed() {
    let bench = bench(Script::new()).await;
    let (url, _served) = served(&bench).await;
    let mut ids = Vec::new();
    for name in ["A", "B", "C", "D"] {
        let made = bench.post("/api/v1/mcp/servers", server(name, &url, &bench.token)).await.data();
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    let backwards: Vec<&String> = ids.iter().rev().collect();
    let remove = async |ids: Json| bench.post("/v1/mcp_server/rm", json!({"mcp_ids": ids})).await.json();
    let (one, other) = tokio::join!(remove(json!(ids)), remove(json!(backwards)));
    assert!(one["code"] == 0 || other["code"] == 0, "{one} {other}");
    let left = bench.post("/v1/mcp_server/list", json!({})).await.data();
    assert_eq!(left["total"], 0, "{left}");
}

#[tokio::test]
async fn an_agent_can_call_only_servers_of_its_own_tenant() {
    let call = Reply::call("ragflow_list_datasets_0", json!({})).times(1);
    let script = Script::new().reply(call).reply(Reply::text("done").always());
    let bench = bench(script).await;
    bench.dataset("Canary dataset").await;
    let (url, _served) = served(&bench).await;
    let made = bench.post("/api/v1/mcp/servers", server("Own", &url, &bench.token)).await.data();
    let agent = json!({
        "llm_id": "m@OpenAI-API-Compatible", "sys_prompt": "", "max_retries": 0, "max_rounds": 3, "cite": false,
        "prompts": [{"role": "user", "content": "{sys.query}"}], "tools": [],
        "mcp": [{"mcp_id": made["id"], "tools": {"ragflow_list_datasets": {}}}],
    });
    let canvas = json!({"components": {
        "begin": begin("", "Agent:A"),
        "Agent:A": component("Agent", &agent, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{Agent:A@content}"]}), &[]),
    }});
    let id = bench.store("A", canvas.clone()).await;
    let asked = json!({"query": "which?", "stream": false});
    let answer = bench.post(&format!("/api/v1/agents/{id}/completions"), asked.clone()).await.data();
    assert_eq!(answer["data"]["content"], "done", "{answer}");
    let requests = bench.model.requests();
    let heard = requests[1].messages.iter().any(|message| message.text.contains("Canary dataset"));
    assert!(heard, "{:?}", requests[1].messages);

    // A canvas of another tenant with the same id has no such server.
    let stranger = bench.with(&bench.stranger().await);
    let theirs = stranger.store("A", canvas).await;
    stranger.post(&format!("/api/v1/agents/{theirs}/completions"), asked).await.data();
    assert!(bench.model.requests()[2].tools.is_empty(), "{:?}", bench.model.requests()[2].tools);
}

#[tokio::test]
async fn disabled_tools_are_not_offered_and_servers_are_exported_without_secrets() {
    let bench = bench(Script::new()).await;
    let (url, _served) = served(&bench).await;
    let wanted = json!({"mcpServers": {
        "one": {"type": "streamable-http", "url": url, "authorization_token": bench.token},
        "two": {"type": "stdio", "url": url},
        "three": {"command": "rm"},
    }});
    let results = bench.post("/v1/mcp_server/import", wanted.clone()).await.data()["results"].clone();
    let told = |name: &str| {
        let results = results.as_array().unwrap();
        results.iter().find(|one| one["server"] == name).unwrap().clone()
    };
    assert_eq!(
        (&told("one")["success"], &told("two")["success"]),
        (&json!(true), &json!(false)),
        "{results}"
    );
    assert_eq!(told("two")["message"], "Unsupported MCP server type.");
    assert_eq!(told("three")["message"], "Missing required fields (type or url)");
    let again = bench.post("/api/v1/mcp/servers/import", wanted).await.data()["results"].to_string();
    assert!(again.contains("Renamed from 'one' to 'one_0' avoid duplication"), "{again}");
    assert_eq!(
        bench.post("/v1/mcp_server/import", json!({})).await.refusal(),
        (102, "No MCP servers provided.".into())
    );

    let id = told("one")["id"].as_str().unwrap().to_owned();
    let handed = bench.post("/v1/mcp_server/export", json!({"mcp_ids": [id]})).await;
    assert!(handed.data()["mcpServers"]["one"]["url"] == url.as_str() && !handed.text.contains(&bench.token));
    let download = bench.get(&format!("/api/v1/mcp/servers/{id}?mode=download")).await.data();
    assert_eq!(download, handed.data());

    let offered = async || {
        let tools = weft_core::seam::ToolSource::tools(&bench.app.tool_servers, &"default".into(), &id).await;
        tools.unwrap().tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    let before = offered().await;
    assert!(before.contains(&"ragflow_retrieval".to_owned()), "{before:?}");
    let off = json!({"mcp_id": id, "tools": [{"name": "ragflow_retrieval", "enabled": false}]});
    bench.post("/v1/mcp_server/cache_tools", off).await.data();
    let after = offered().await;
    assert_eq!(after.len(), before.len() - 1, "{after:?}");
    let tried = json!({"url": url, "server_type": "streamable-http", "headers": {"Authorization": format!("Bearer {}", bench.token)}});
    assert_eq!(
        bench.post("/v1/mcp_server/test_mcp", tried).await.data().as_array().unwrap().len(),
        before.len()
    );
    let wrong = json!({"url": "file:///etc/passwd", "server_type": "sse"});
    assert_eq!(bench.post("/v1/mcp_server/test_mcp", wrong).await.refusal(), (102, "Invalid url.".into()));
}

#[tokio::test]
async fn servers_are_listed_by_id_and_can_be_tested_before_they_are_stored() {
    let bench = bench(Script::new()).await;
    let (url, _served) = served(&bench).await;
    let path = "/api/v1/mcp/servers";
    // In the form of a JSON text field.
    let mut first = server("First", &url, &bench.token);
    for key in ["headers", "variables"] {
        first[key] = first[key].to_string().into();
    }
    let first = bench.post(path, first).await.data()["id"].as_str().unwrap().to_owned();
    let second = bench.post(path, server("Second", &url, &bench.token)).await.data();
    let total = async |query: &str| bench.get(&format!("{path}?{query}")).await.data()["total"].clone();
    assert_eq!(total(&format!("mcp_ids={first}")).await, 1);
    assert_eq!(total(&format!("mcp_id={first}&keywords=second")).await, 0);
    assert_eq!(total(&format!("mcp_ids={first},{}", second["id"].as_str().unwrap())).await, 2);
    assert_eq!(total("mcp_ids=unknown").await, 0);

    let unknown = format!("{path}/unknown/test");
    let tried = json!({"url": url, "server_type": "streamable-http", "headers": {"x-api-key": bench.token}});
    assert!(bench.post(&unknown, tried).await.data().as_array().unwrap().len() > 1);
    let wrong = json!({"url": "", "server_type": "sse"});
    assert_eq!(bench.post(&unknown, wrong).await.refusal(), (102, "Invalid url.".into()));
    for lacking in
        [json!({}), json!({"url": url}), json!({"url": url, "server_type": "sse", "tool_name": "x"})]
    {
        let (code, message) = bench.post(&unknown, lacking).await.refusal();
        assert!(code == 102 && message.starts_with("Cannot find MCP server unknown"), "{message}");
    }
}

#[tokio::test]
async fn an_imported_server_gets_its_configured_headers() {
    let bench = bench(Script::new()).await;
    let (url, _served) = served(&bench).await;
    let (kind, token) = ("streamable-http", &bench.token);
    let wanted = json!({"mcpServers": {
        "own": {"type": kind, "url": url, "headers": {"x-api-key": "${my_key}"}, "my_key": token},
        "lower": {"type": kind, "url": url, "headers": {"authorization": "Bearer ${authorization_token}"},
            "authorization_token": token},
        "list": {"type": kind, "url": url, "headers": [], "authorization_token": token},
        "text": {"type": kind, "url": url, "headers": "x", "authorization_token": token},
        "number": {"type": kind, "url": url, "headers": {"x-api-key": token, "X": 1}},
        "token": {"type": kind, "url": url, "headers": {"x-api-key": token}, "authorization_token": 1},
        "address": {"type": kind, "url": true},
    }});
    let results = bench.post("/api/v1/mcp/servers/import", wanted).await.data()["results"].clone();
    let told = |name: &str| {
        let results = results.as_array().unwrap();
        let one = results.iter().find(|one| one["server"] == name).unwrap();
        (one["success"] == true, one["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(told("own"), (true, String::new()));
    assert_eq!(told("lower"), (true, String::new()));
    for name in ["list", "text", "number"] {
        assert_eq!(told(name), (false, "MCP headers must be a string-to-string object.".into()), "{name}");
    }
    assert_eq!(told("token"), (false, "authorization_token must be a string.".into()));
    assert_eq!(told("address"), (false, "Invalid url.".into()));
}

#[tokio::test]
async fn disabled_tools_stay_disabled_while_a_server_requires_a_sign_in() {
    let bench = bench(Script::new()).await;
    let (url, _served) = served(&bench).await;
    // Without a token the server requires one, as after an expired sign-in.
    let open = json!({"name": "Own", "url": url, "server_type": "streamable-http"});
    let made = bench.post("/api/v1/mcp/servers", open).await.data();
    let id = made["id"].as_str().unwrap();
    let off = json!({"mcp_id": id, "tools": [{"name": "ragflow_retrieval", "enabled": false}]});
    bench.post("/v1/mcp_server/cache_tools", off).await.data();
    let path = format!("/api/v1/mcp/servers/{id}");
    bench.ask("PUT", &path, json!({"headers": {"X-Extra": "1"}})).await.data();
    let tools = bench.get(&path).await.data()["variables"]["tools"].clone();
    assert_eq!(tools["ragflow_retrieval"]["enabled"], false, "{tools}");
}
