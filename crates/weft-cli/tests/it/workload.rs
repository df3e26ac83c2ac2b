//! Canvases of any size, for benchmarks and for the tests that benchmarks can run.

#![allow(dead_code, reason = "tests, benches and what measures each use some of them")]

use serde_json::{Value as Json, json};

/// A component: its id, type, parameters, successors, and the Iteration around it.
pub(crate) struct Part {
    id: String,
    kind: &'static str,
    params: Json,
    downstream: Vec<String>,
    parent: Option<&'static str>,
}

fn part(id: impl Into<String>, kind: &'static str, params: Json, downstream: &[&str]) -> Part {
    let downstream = downstream.iter().map(|id| (*id).to_owned()).collect();
    Part { id: id.into(), kind, params, downstream, parent: None }
}

fn inside(parent: &'static str, part: Part) -> Part {
    Part { parent: Some(parent), ..part }
}

fn begin(downstream: &[&str]) -> Part {
    part(
        "begin",
        "Begin",
        json!({"mode": "conversational", "enablePrologue": false, "prologue": "", "inputs": {}}),
        downstream,
    )
}

fn merge(id: impl Into<String>, script: &str, downstream: &[&str]) -> Part {
    let outputs = json!({"result": {"type": "string", "value": ""}});
    part(
        id,
        "StringTransform",
        json!({"method": "merge", "script": script, "delimiters": [","], "outputs": outputs}),
        downstream,
    )
}

fn message(text: &str) -> Part {
    part("Message:M", "Message", json!({"content": [text]}), &[])
}

/// A canvas of these components, as JSON.
pub(crate) fn canvas(parts: &[Part]) -> Json {
    let mut components = serde_json::Map::new();
    for part in parts {
        let upstream: Vec<&str> = parts
            .iter()
            .filter(|other| other.downstream.contains(&part.id))
            .map(|other| other.id.as_str())
            .collect();
        let mut entry = json!({
            "obj": {"component_name": part.kind, "params": part.params},
            "downstream": part.downstream,
            "upstream": upstream,
        });
        if let Some(parent) = part.parent {
            entry["parent_id"] = json!(parent);
        }
        components.insert(part.id.clone(), entry);
    }
    let globals = json!({"sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": []});
    json!({"components": components, "globals": globals, "history": [], "path": [], "retrieval": []})
}

/// `count` templates in a line, each of which adds a dot.
pub(crate) fn line(count: usize) -> Json {
    let id = |at: usize| format!("StringTransform:S{at}");
    let mut parts = vec![begin(&[&id(0)])];
    let mut before = "sys.query".to_owned();
    for at in 0..count {
        let next = if at + 1 < count { id(at + 1) } else { "Message:M".to_owned() };
        parts.push(merge(id(at), &format!("{{{before}}}."), &[&next]));
        before = format!("{}@result", id(at));
    }
    parts.push(message(&format!("{{{before}}}")));
    canvas(&parts)
}

/// `count` parallel templates, and one that joins them.
pub(crate) fn fan(count: usize) -> Json {
    let ids: Vec<String> = (0..count).map(|at| format!("StringTransform:S{at}")).collect();
    let mut parts = vec![begin(&ids.iter().map(String::as_str).collect::<Vec<_>>())];
    parts.extend(
        ids.iter()
            .enumerate()
            .map(|(at, id)| merge(id, &format!("{{sys.query}}{at}"), &["StringTransform:Agg"])),
    );
    let all: Vec<String> = ids.iter().map(|id| format!("{{{id}@result}}")).collect();
    parts.push(merge("StringTransform:Agg", &all.join("\n"), &["Message:M"]));
    parts.push(message("{StringTransform:Agg@result}"));
    canvas(&parts)
}

/// An iteration over the comma-separated parts of the question.
pub(crate) fn iteration() -> Json {
    let split = json!({"method": "split", "split_ref": "sys.query", "delimiters": [","],
        "outputs": {"result": {"type": "Array<string>", "value": []}}});
    let each = json!({"items_ref": "StringTransform:Split@result",
        "outputs": {"out": {"ref": "StringTransform:Body@result", "type": "Array<string>"}}});
    canvas(&[
        begin(&["StringTransform:Split"]),
        part("StringTransform:Split", "StringTransform", split, &["Iteration:I"]),
        part("Iteration:I", "Iteration", each, &["StringTransform:Join"]),
        inside(
            "Iteration:I",
            part("IterationItem:Item", "IterationItem", json!({"outputs": {}}), &["StringTransform:Body"]),
        ),
        inside("Iteration:I", merge("StringTransform:Body", "item {IterationItem:Item@item}", &[])),
        merge("StringTransform:Join", "{Iteration:I@out}", &["Message:M"]),
        message("{StringTransform:Join@result}"),
    ])
}

/// The question for an iteration over `count` items.
pub(crate) fn items(count: usize) -> String {
    (0..count).map(|at| format!("i{at}")).collect::<Vec<_>>().join(",")
}

fn agent(model: &str, tools: &Json) -> Json {
    let params = json!({"llm_id": model, "sys_prompt": "You are a helpful agent.",
        "prompts": [{"role": "user", "content": "{sys.query}"}], "max_rounds": 10, "cite": false, "tools": tools,
        "outputs": {"content": {"type": "string", "value": ""}}});
    canvas(&[
        begin(&["Agent:A"]),
        part("Agent:A", "Agent", params, &["Message:M"]),
        message("{Agent:A@content}"),
    ])
}

/// An agent without tools, whose answer is streamed.
pub(crate) fn chat(model: &str) -> Json {
    agent(model, &json!([]))
}

/// An agent with a tool.
pub(crate) fn react(model: &str) -> Json {
    agent(model, &json!([{"component_name": "Lookup", "name": "lookup", "params": {}}]))
}
