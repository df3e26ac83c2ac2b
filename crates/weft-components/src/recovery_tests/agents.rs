//! Agents that call agents.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::effect::Known;
use weft_core::seam::chat_model::{Author, ChatRequest};
use weft_testkit::{Reply, ScriptedModel};

use crate::testing::{Node, Replace, Setting, Stage};

const TASKS: [&str; 3] = ["one", "two", "three"];

/// Every agent does the same whenever it is asked the same: the boss gives three tasks to the helper at
/// once, and the helper adds a line about its task to a file.
fn answer(request: &ChatRequest) -> Reply {
    let text = |author| {
        let of_author = request.messages.iter().rev().find(|message| message.author == author);
        of_author.map(|message| message.text.clone()).unwrap_or_default()
    };
    let tool = request.tools.first().map(|tool| tool.name.clone()).unwrap_or_default();
    let results: Vec<&str> = request
        .messages
        .iter()
        .filter(|message| message.author == Author::Tool)
        .map(|message| message.text.as_str())
        .collect();
    let boss = text(Author::System).contains("boss");
    match (boss, results.is_empty()) {
        (true, true) => {
            let task = |task: &str| json!({"user_prompt": task, "reasoning": "", "context": ""});
            let first = Reply::call(&*tool, task(TASKS[0]));
            TASKS[1..].iter().fold(first, |reply, next| reply.and_call(&*tool, task(next)))
        }
        (true, false) => Reply::text(results.join("; ")),
        (false, true) => Reply::call(
            tool,
            json!({"path": "log", "content": format!("{}\n", text(Author::User)), "append": true}),
        ),
        (false, false) => Reply::text(format!("{}: {}", text(Author::User), results.join(", "))),
    }
}

struct Life {
    outputs: Json,
    notes: Vec<(Arc<str>, Known)>,
    requests: usize,
    lines: Vec<String>,
}

/// The work in a process that has read `notes`.
async fn life(parallel: usize, notes: &[(Arc<str>, Known)]) -> Life {
    let write = json!({"component_name": "WriteFile", "name": "write"});
    let helper = json!({"component_name": "Agent", "name": "helper",
        "params": {"llm_id": "m", "sys_prompt": "You help.", "tools": [write]}});
    let params = json!({"llm_id": "m", "sys_prompt": "You are the boss.", "tools": [helper], "max_parallel_tools": parallel});
    let node = Node::new("Agent", params);
    let component = node.build();
    let model = ScriptedModel::from_fn(|request, _| answer(request));
    let models = model.clone();
    let seams: Replace = Box::new(move |seams| seams.models = Arc::new(models));
    let setting = Setting { query: "Q", seams: Some(seams), ..Setting::default() };
    let mut stage = Stage::new(&node, &*component, setting).again(notes);
    let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
    let run = &stage.ctx.run;
    let log = run.seams.workspace.read(&run.tenant, "log").await.unwrap_or_default();
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Life { outputs, notes: stage.notes(), requests: model.requests().len(), lines }
}

#[tokio::test]
async fn wherever_it_stops_agents_below_agents_repeat_nothing() {
    let whole = life(3, &[]).await;
    assert_eq!((whole.requests, whole.lines.len()), (1 + 2 * TASKS.len() + 1, TASKS.len()));
    let content = whole.outputs["content"].as_str().unwrap();
    for parallel in [1, 3] {
        for stop in 0..=whole.notes.len() {
            let known = &whole.notes[..stop];
            let latest: HashMap<_, _> = known.iter().cloned().collect();
            let count = |kind: &str, gave: bool| {
                let is = |known: &Known| matches!(known, Known::Ended(_)) == gave;
                latest.iter().filter(|(key, known)| key.contains(kind) && is(known)).count()
            };
            let again = life(parallel, known).await;
            assert_eq!(again.requests, whole.requests - count("model#", true), "{stop}");
            // What had begun may have been carried out, so it is not.
            let unknown = count("file#", false);
            assert_eq!(again.lines.len(), TASKS.len() - count("file#", true) - unknown, "{stop}");
            let told = again.outputs["content"].as_str().unwrap();
            assert_eq!(told.matches("INTERRUPTED").count(), unknown, "{stop}: {told}");
            if unknown == 0 {
                let results = |outputs: &Json| outputs["use_tools"].clone();
                // The first to write makes the file, whoever it is; all else is the same.
                let plain = |text: &str| text.replace("added to", "made");
                assert_eq!(plain(told), plain(content), "{stop}");
                assert_eq!(
                    plain(&results(&again.outputs).to_string()),
                    plain(&results(&whole.outputs).to_string())
                );
            }
        }
    }
}

#[tokio::test]
async fn every_call_has_a_part_of_its_own_down_to_the_last_agent() {
    let whole = life(1, &[]).await;
    let mut keys: Vec<&str> = whole.notes.iter().map(|(key, _)| &**key).collect();
    keys.dedup();
    let helper =
        |call: &str| ["model#0", "call_1/file#0", "model#1"].map(|inside| format!("{call}/{inside}"));
    let inner = ["call_1", "call_2", "call_3"].iter().flat_map(|call| helper(call));
    let expected: Vec<String> =
        ["model#0".to_owned()].into_iter().chain(inner).chain(["model#1".to_owned()]).collect();
    assert_eq!(keys, expected.iter().flat_map(|key| [key.as_str()]).collect::<Vec<_>>());
}
