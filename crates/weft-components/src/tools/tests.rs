//! The tools as used by agents.

use serde_json::{Map, Value as Json, json};
use weft_core::citation::Chunk;
use weft_core::context::Signal;
use weft_core::seam::chat_model::{Author, ChatDelta};
use weft_core::seam::http::HttpResponse;

use crate::testing::{Node, Setting, Stage};

/// The results of one round of calls by an agent with these tools.
async fn called(tools: Json, calls: &[(&str, Json)]) -> (Vec<String>, Stage) {
    let node = Node::new("Agent", json!({"llm_id": "tools", "tools": tools}));
    let component = node.build();
    let setting = Setting { query: "Q", ..Setting::values([("env.tavily", json!("k-not-real"))]) };
    let stage = Stage::new(&node, &*component, setting);
    let files = &stage.ctx.run.seams.workspace;
    files.write(&stage.ctx.run.tenant, "notes.md", "one\ntwo").await.unwrap();
    let hits = json!({"results": [{"url": "https://a.example/", "title": "A", "content": "about a"}]});
    let page = HttpResponse { status: 200, headers: Vec::new(), body: hits.to_string() };
    stage.outside.pages.lock().unwrap().push(Ok(page));
    let chunk = |id: &str| Chunk { id: id.to_owned(), content: "known".to_owned(), ..Chunk::default() };
    stage.outside.found.lock().unwrap().push(chunk("c"));
    stage.answer((0..).zip(calls).map(|(index, (name, arguments))| ChatDelta::ToolCall {
        index,
        id: Some(format!("c{index}")),
        name: Some((*name).to_owned()),
        arguments: arguments.to_string(),
    }));
    stage.answer_text("Done.");
    let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(outputs["content"], "Done.");
    let messages = stage.asked()[1].messages.clone();
    let results = messages.iter().filter(|message| message.author == Author::Tool);
    (results.map(|message| message.text.clone()).collect(), stage)
}

fn tool(kind: &str, params: Json) -> Json {
    let mut tool = json!({"component_name": kind, "name": kind});
    tool["params"] = params;
    tool
}

#[tokio::test]
async fn one_agent_searches_reads_writes_and_calculates() {
    let tools = json!([
        tool("Retrieval", json!({"dataset_ids": ["*"]})),
        tool("WebSearch", json!({"engine": "searxng", "searxng_url": "https://s.example"})),
        tool("ReadFile", json!({})),
        tool("WriteFile", json!({})),
        tool("Calculator", json!({})),
        tool("CurrentTime", json!({})),
        tool("CodeExec", json!({"lang": "python", "arguments": {"question": "{sys.query}"}})),
    ]);
    let names: Vec<String> = {
        let (_, stage) = called(tools.clone(), &[]).await;
        stage.asked()[0].tools.iter().map(|tool| tool.name.clone()).collect()
    };
    let stems = [
        "search_my_dataset",
        "web_search",
        "read_file",
        "write_file",
        "calculator",
        "current_time",
        "execute_code",
    ];
    assert_eq!(names.len(), stems.len());
    for (name, stem) in names.iter().zip(stems) {
        assert!(name.starts_with(stem), "{name}");
    }
    let script =
        "async function main({question}) { console.log(`{sys.query}`); return {question, n: 60*60} }";
    let calls = [
        (&*names[0], json!({"query": "known"})),
        (&*names[2], json!({"path": "notes.md", "from": "2"})),
        (&*names[2], json!({"path": "../../etc/passwd"})),
        (&*names[3], json!({"path": "out/{sys.query}.md", "content": "{env.key} {{ 1 }}"})),
        (&*names[4], json!({"expression": "2^10 + 0.1 + 0.2"})),
        (&*names[5], json!({"timezone": "Asia/Tokyo"})),
        (&*names[1], json!({"query": "a"})),
        (&*names[6], json!({"lang": "javascript", "script": script})),
        (
            &*names[6],
            json!({"lang": "javascript", "script": "function main() {\n  return fetch('https://a.example') }"}),
        ),
        (&*names[6], json!({"lang": "python", "script": "def main(question): return 1"})),
        (&*names[6], json!({"lang": "javascript", "script": script, "arguments": {}})),
    ];
    let (results, stage) = called(tools, &calls).await;
    let check = |place: usize, part: &str| assert!(results[place].contains(part), "{}", results[place]);
    check(0, "ID: 0\n");
    assert_eq!(results[1], "two");
    check(2, "\"kind\":\"DENIED\"");
    check(3, "`out/{sys.query}.md`");
    assert_eq!(results[4], "1024.3");
    assert_eq!(results[5], "Thursday 1970-01-01T09:00:00+09:00 (Asia/Tokyo)");
    check(6, "ID: 1\nTitle: A\n");
    let ran = json!({"result": {"question": "Q", "n": 3600}, "stdout": "{sys.query}\n"});
    assert_eq!(serde_json::from_str::<Json>(&results[7]).unwrap(), ran);
    check(8, "in line 2: ReferenceError: fetch is not defined");
    check(9, "write the program in JavaScript");
    check(10, "`arguments`");
    // Text written by a model is never read as a reference.
    let files = &stage.ctx.run.seams.workspace;
    let written = files.read(&stage.ctx.run.tenant, "out/{sys.query}.md").await.unwrap();
    assert_eq!(written, "{env.key} {{ 1 }}");
    assert_eq!(stage.ctx.run.citations.all().len(), 2);
}

#[tokio::test]
async fn a_model_cannot_set_what_the_canvas_must_set() {
    let tools = json!([
        tool("SearXNG", json!({"searxng_url": "https://s.example"})),
        tool("Invoke", json!({"url": "https://i.example", "headers": {"X-Key": "secret"}})),
    ]);
    let (_, stage) = called(tools.clone(), &[]).await;
    let names: Vec<String> = stage.asked()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    let calls = [
        (&*names[0], json!({"query": "a", "searxng_url": "http://10.0.0.1"})),
        (&*names[1], json!({"fields": {"q": "{sys.query}"}, "url": "https://thief.example"})),
        (&*names[1], json!({"fields": {"q": "{sys.query}"}})),
    ];
    let (results, stage) = called(tools, &calls).await;
    assert!(results[0].contains("searxng_url") && results[1].contains("url"), "{results:?}");
    let sent = stage.outside.sent.lock().unwrap().clone();
    let sent: Vec<&str> = sent.iter().map(|request| request.url.as_str()).collect();
    assert_eq!(sent, ["https://i.example/?q=%7Bsys.query%7D"]);
}

#[test]
fn arguments_for_models_are_parameters_of_the_component() {
    let members = |schema: &Json| schema["properties"].as_object().cloned().unwrap_or_else(Map::new);
    for spec in crate::catalog::ALL {
        let Some(tool) = &spec.tool else { continue };
        let function = tool.function;
        assert!(
            function.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
            "{function}"
        );
        let arguments = spec.arguments().unwrap();
        // Arguments that are not offered cannot be set: parameters reserved for the canvas are among the rest.
        let shut = (&arguments["type"], &arguments["additionalProperties"]);
        assert_eq!(shut, (&json!("object"), &json!(false)), "{function}");
        let params = members(&spec.parameters());
        for (name, argument) in members(&arguments) {
            assert!(params.contains_key(&name) || spec.kind == "Agent", "{function}: {name}");
            assert!(argument["description"].is_string(), "{function}: {name}");
        }
        for name in arguments["required"].as_array().into_iter().flatten() {
            assert!(members(&arguments).contains_key(name.as_str().unwrap()), "{function}: {name}");
        }
    }
}

/// A path set by the canvas is fixed: the model is not asked for it, and cannot choose another one.
#[tokio::test]
async fn parameters_set_by_the_canvas_are_fixed() {
    let tools = json!([tool("WriteFile", json!({"path": "fixed.txt"}))]);
    let calls = [
        ("write_file_0", json!({"content": "plain"})),
        ("write_file_0", json!({"content": "x", "path": "other.txt"})),
    ];
    let (results, stage) = called(tools, &calls).await;
    assert!(results[0].contains("made `fixed.txt`"), "{}", results[0]);
    assert!(results[1].contains("`path`"), "{}", results[1]);
    let files = &stage.ctx.run.seams.workspace;
    assert_eq!(files.read(&stage.ctx.run.tenant, "fixed.txt").await.unwrap(), "plain");
    assert!(files.read(&stage.ctx.run.tenant, "other.txt").await.is_err());
}

/// Editors insert the user's question where nobody has chosen anything: then the model is asked anyway.
#[tokio::test]
async fn editor_defaults_stay_open_and_tools_without_a_key_are_omitted() {
    let tools = json!([
        tool(
            "Google",
            json!({"api_key": "k-not-real", "q": "{sys.query}", "country": "us", "language": "en"})
        ),
        tool("YahooFinance", json!({"stock_code": "sys.query"})),
        tool("DuckDuckGo", json!({"channel": "text", "top_n": 10})),
        tool("Google", json!({"api_key": "", "country": "us", "language": "en"})),
        tool("TavilySearch", json!({"api_key": "{env.tavily}"})),
        tool("SearXNG", json!({"searxng_url": ""})),
    ]);
    let (_, mut stage) = called(tools.clone(), &[]).await;
    let asked = stage.asked();
    let offered = asked[0].tools.iter().map(|tool| {
        let arguments = tool.parameters["properties"].as_object().unwrap().keys().cloned();
        (tool.name.clone(), arguments.collect::<Vec<_>>().join(" "))
    });
    let expected = [
        ("google_search_0", "q start num"),
        ("yahoo_finance_1", "stock_code"),
        ("duckduckgo_search_2", "query"),
        ("tavily_search_4", "query topic include_domains exclude_domains"),
    ];
    let expected = expected.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
    assert_eq!(offered.collect::<Vec<_>>(), expected);
    let told = |part: &str, signals: &[Signal]| {
        let warns = |signal: &Signal| matches!(signal, Signal::Warn(told) if told.contains(part));
        signals.iter().any(warns)
    };
    let signals = stage.signals();
    assert!(told("`api_key` is missing, and SerpApi requires a key", &signals));
    assert!(told("no server to query", &signals));
    let shape = Node::new("Agent", json!({"llm_id": "tools", "tools": tools})).build().shape();
    let places: Vec<_> = shape.warnings.iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(places, ["/tools/3/params/api_key", "/tools/5/params/searxng_url"]);
    // A key is hidden from everybody who sees the agent's input.
    assert_eq!(shape.secrets.iter().map(ToString::to_string).collect::<Vec<_>>(), ["env.tavily"]);
}
