//! Many tools, long results, and tools called in scripts.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use weft_agent::code_mode::add_scripts;
use weft_agent::driver::{End, Start};
use weft_agent::long_results::add_reader;
use weft_agent::native::Native;
use weft_agent::planner::Planner;
use weft_agent::tool_search::{Seeker, ToolSearch, add_search};
use weft_agent::window::tokens_of_tools;
use weft_core::budget::BudgetLimits;
use weft_core::seam::chat_model::{Author, ChatModel as _};
use weft_core::seam::sandbox::Limits;
use weft_core::tool::{Invocation, Origin, Tool, ToolBody, ToolData, ToolOutput, ToolStep, ToolStream};
use weft_core::{Error, ErrorKind};
use weft_testkit::{MemoryFiles, Reply, Script, ScriptedModel};

use crate::kit::{World, question};

/// A model without a provider's tool search that gets definitions.
const OWN: Seeker = Seeker { window: 8_000, found_by_provider_max: 0 };

fn names(world: &World, request: usize) -> Vec<String> {
    world.asked()[request].tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn tools_are_found_and_then_called() {
    let world = World::new([
        Reply::call("search_tools", json!({"query": "thing seven"})),
        Reply::call("seven", json!({"q": "x"})),
        Reply::text("done"),
    ]);
    for name in ["one", "seven", "nine"] {
        world.echo(name, |tool| tool.description = format!("Does the thing {name}."));
    }
    assert!(add_search(&world.toolkit, ToolSearch::Always, OWN).unwrap());
    let answer = world.ask().await.unwrap();
    assert_eq!(names(&world, 0), ["search_tools"]);
    assert_eq!(names(&world, 1), ["one", "seven", "nine", "search_tools"]);
    assert_eq!(answer.used[0].results["tools"][0]["name"], "seven");
    assert_eq!(world.called(), [r#"seven({"q":"x"})"#]);
}

/// A model whose provider searches tools.
fn finding(model: &ScriptedModel) -> World {
    let world = World::with(model.with_info(|info| info.deferred_tools_max = 1_000));
    add_search(&world.toolkit, ToolSearch::Always, Seeker::of(world.model.info())).unwrap();
    world
}

#[tokio::test]
async fn tools_found_by_the_provider_are_called_like_any_other() {
    let replies = [
        Reply::call("asks", json!({"q": "x"})),
        Reply::call("look", json!({"q": "y"})).and_call("look", json!({"q": "z"})),
        Reply::text("done"),
    ];
    let mut world = finding(&ScriptedModel::new(replies.into_iter().fold(Script::new(), Script::reply)));
    world.echo("asks", |tool| tool.traits.approval = true);
    world.budget(BudgetLimits { tool_calls: Some(2), ..BudgetLimits::default() });
    let waiting = world.wait_with(&Native, question("Q")).await;
    assert_eq!(world.called(), [""; 0]);
    let task = waiting.form.fields.keys().next().unwrap().clone();
    let start =
        Start::Resumed { state: waiting.state, answers: [(task, json!("approve"))].into_iter().collect() };
    let End::Answered(answer) = world.drive(&Native, start).await.unwrap() else { panic!("it waits again") };
    assert_eq!((&*answer.text, world.trace().len()), ("done", 3));
    // The last call is one too many.
    assert_eq!(world.called(), [r#"asks({"q":"x"})"#, r#"look({"q":"y"})"#]);
    for request in world.asked() {
        let kept_back: Vec<_> = request.tools.iter().map(|tool| (&*tool.name, tool.deferred)).collect();
        assert_eq!(kept_back, [("look", true), ("asks", true)]);
        assert_eq!(tokens_of_tools(&request.tools), 0);
    }
}

/// Work started with the agent's own search continues with the provider's.
#[tokio::test]
async fn work_started_with_the_local_search_continues_with_the_providers() {
    let model = || {
        ScriptedModel::from_fn(|request, _| match request.messages.len() {
            2 => Reply::call("search_tools", json!({"query": "look"})),
            4 => Reply::call("look", json!({"q": "x"})),
            _ => Reply::text("done"),
        })
    };
    let first = World::with(model());
    add_search(&first.toolkit, ToolSearch::Always, OWN).unwrap();
    let before = first.ask().await.unwrap().used;
    assert_eq!(before[0].results["tools"][0]["name"], "look");
    for notes in (0..=first.notes().len()).filter(|notes| notes % 2 == 0) {
        let mut second = finding(&model());
        let known = first.known(notes).into_iter().collect();
        second.change(|ctx| ctx.effects = weft_core::effect::Effects::known(known));
        assert_eq!(second.ask().await.unwrap().used, before, "{notes}");
    }
}

#[tokio::test]
async fn replayed_work_offers_the_same_tools() {
    let replies = || {
        [
            Reply::call("search_tools", json!({"query": "look"})),
            Reply::call("look", json!({"q": "x"})),
            Reply::text("done"),
        ]
    };
    let first = World::new(replies());
    add_search(&first.toolkit, ToolSearch::Always, OWN).unwrap();
    first.ask().await.unwrap();
    let mut second = World::new([Reply::text("done")]);
    add_search(&second.toolkit, ToolSearch::Always, OWN).unwrap();
    let known = first.known(first.notes().len() - 2).into_iter().collect();
    second.change(|ctx| ctx.effects = weft_core::effect::Effects::known(known));
    second.ask().await.unwrap();
    assert_eq!(names(&second, 0), ["look", "search_tools"]);
    assert_eq!(second.called(), [""; 0]);
}

fn long() -> String {
    (0..4_000).map(|line| format!("line {line} of a long story\n")).collect()
}

fn with_long_result(world: &mut World) -> Arc<MemoryFiles> {
    let files = Arc::new(MemoryFiles::default());
    world.seams(|seams| seams.files = files.clone());
    world.tool("story", |tool| tool.traits.idempotent = true, |_| async { Ok(Json::from(long())) });
    add_reader(&world.toolkit).unwrap();
    world.options.result_tokens = 1_000;
    files
}

#[tokio::test]
async fn a_long_result_is_read_in_parts() {
    let mut world = World::with(ScriptedModel::from_fn(|request, nth| {
        let told = request.messages.last().unwrap().text.clone();
        match nth {
            0 => Reply::call("story", json!({})),
            1 => {
                let (_, id) = told.split_once("\"id\": \"").unwrap();
                let id = id.split('"').next().unwrap();
                Reply::call("read_result", json!({"id": id, "find": "line 3999", "length": 9}))
            }
            _ => Reply::text(told),
        }
    }));
    let files = with_long_result(&mut world);
    let answer = world.ask().await.unwrap();
    assert!(answer.text.ends_with("\nline 3999"), "{}", answer.text);
    // The definition comes with the first long result, and the conversation stays short.
    assert_eq!(names(&world, 0), ["look", "story"]);
    assert_eq!(names(&world, 1), ["look", "story", "read_result"]);
    assert!(world.last(1).len() < 3_000, "{}", world.last(1));
    let file = files.all().pop().unwrap();
    assert_eq!((answer.used[0].file.as_ref(), file.size), (Some(&file.id), long().len() as u64));
    assert_eq!(answer.used[0].results, json!(long()));
}

#[tokio::test]
async fn the_planner_sees_the_beginning_of_a_long_result() {
    let mut world = World::with(ScriptedModel::from_fn(|request, _| {
        let told: String = request.messages.iter().map(|message| message.text.as_str()).collect();
        if told.contains("line 0 of a long story") {
            Reply::text(r#"[{"name": "complete_task", "arguments": {"answer": "read"}}]"#)
        } else {
            Reply::text(r#"[{"name": "story", "arguments": {}}]"#)
        }
    }));
    with_long_result(&mut world);
    world.ask_with(&Planner).await.unwrap();
    let told = world.asked().into_iter().flat_map(|request| request.messages).map(|message| message.text);
    let told: String = told.collect();
    assert!(told.contains("line 0 of a long story") && !told.contains("line 3999"), "{}", told.len());
}

#[tokio::test]
async fn only_results_of_this_conversation_can_be_read() {
    let mut world = World::new([
        Reply::call("story", json!({})),
        Reply::call("read_result", json!({"id": "other"})).and_call("read_result", json!({"id": "own"})),
        Reply::text("done"),
    ]);
    let files = with_long_result(&mut world);
    let session = world.ctx.run.session.to_string();
    for (id, name, session) in [("other", "result-x.txt", "elsewhere"), ("own", "secret.txt", &session)] {
        let file = weft_core::seam::file_store::StoredFile {
            id: id.into(),
            name: name.to_owned(),
            mime_type: "text/plain".to_owned(),
            size: 1,
            session: Some(session.to_owned().into()),
            user: None,
            created_ms: 0,
        };
        use weft_core::seam::FileStore as _;
        files.put(&world.ctx.run.tenant, &file, b"x".to_vec().into()).await.unwrap();
    }
    let answer = world.ask().await.unwrap();
    for call in &answer.used[1..] {
        assert_eq!(call.results["error"]["kind"], "NOT_FOUND", "{call:?}");
    }
}

#[tokio::test]
async fn without_file_storage_a_long_result_stays_whole() {
    let mut world = World::new([Reply::call("story", json!({})), Reply::text("done")]);
    with_long_result(&mut world);
    world.seams(|seams| seams.files = Arc::new(weft_core::seam::file_store::NoFiles));
    world.ask().await.unwrap();
    assert_eq!(world.last(1), long());
    assert!(
        world.signals().iter().any(|signal| signal.contains("stays in the conversation")),
        "{:?}",
        world.signals()
    );
}

const LIMITS: Limits = Limits {
    time: std::time::Duration::from_secs(2),
    memory_bytes: 64 << 20,
    output_bytes: 1 << 20,
    printed_bytes: 64 << 10,
};

fn scripted(script: &str, language: &str) -> World {
    let call = json!({"code": script, "language": language});
    let mut world = World::with(ScriptedModel::from_fn(move |request, _| {
        if request.messages.last().is_some_and(|message| message.author == Author::Tool) {
            Reply::text("done")
        } else {
            Reply::call("run_script", call.clone())
        }
    }));
    world.seams(|seams| seams.sandbox = Arc::new(weft_sandbox::InProcess::new(LIMITS)));
    world.tool("fails", |_| {}, |_| async { Err(Error::new(ErrorKind::Unavailable, "gone")) });
    world.tool(
        "add",
        |tool| tool.traits.idempotent = true,
        |arguments| async move { Ok(json!({"sum": arguments["n"].as_i64().unwrap_or(0) + 1})) },
    );
    let model = Arc::new(world.model.clone());
    add_scripts(&world.toolkit, model, &world.options).unwrap();
    world
}

async fn ran(script: &str) -> Json {
    let world = scripted(script, "javascript");
    world.ask().await.unwrap().used.remove(0).results
}

#[tokio::test]
async fn a_script_calls_tools_and_returns_its_value() {
    let script = "const found = await Promise.all([1, 2, 3].map(n => tools.add({n}))); \
        console.log('so far', found.length); const more = await tools.look({q: String(found[2].sum)}); \
        return {sums: found.map(f => f.sum), more};";
    let world = scripted(script, "javascript");
    let answer = world.ask().await.unwrap();
    let told = &answer.used[0].results;
    assert_eq!(told["result"], json!({"sums": [2, 3, 4], "more": "found 4"}), "{told}");
    assert_eq!((&told["calls"], told["stdout"].as_str().unwrap().trim()), (&json!(4), "so far 3"));
    assert_eq!(world.called().len(), 4);
    // One tool is offered, each call is traced, and the results are not in the conversation.
    assert_eq!(names(&world, 0), ["run_script"]);
    assert!(world.asked()[0].tools[0].description.contains("look(q?: string, n?: integer): What look does."));
    assert_eq!(world.trace().len(), 5);
    assert!(!world.last(1).contains("\"sum\":"), "{}", world.last(1));
}

#[tokio::test]
async fn script_errors_are_reported() {
    let caught = ran("try { await tools.fails() } catch (e) { return e.message }").await;
    assert!(caught["result"].as_str().unwrap().contains("gone"), "{caught}");
    let check = async |script: &str, words: &str| {
        let told = ran(script).await;
        let message = told["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{told}");
    };
    check("return await tools.nothing({})", "there is no tool nothing; there are look").await;
    check("await tools.add(5)", "takes one object").await;
    check("return (", "the script failed").await;
    check("await tools.fails()", "gone").await;
    check("await new Promise(() => {})", "never happens").await;
    check("for (;;) {}", "ran longer").await;
    // Whatever it does to its runtime, it ends and calls only existing tools.
    check("Promise.race = async () => ({asked: []}); return 1", "did not end as it should").await;
    check("Promise.race = async () => ({asked: 1}); return 1", "did not end as it should").await;
    check("Promise.race = async () => ({asked: [{name: 'nothing'}]}); return 1", "more than 200 calls").await;
    check("for (let n = 0; ; n++) await tools.add({n})", "more than 200 calls").await;
    // A script runs no scripts, and calls that are not awaited are executed.
    check("return await tools.run_script({code: ''})", "there is no tool run_script").await;
    let world = scripted("tools.add({n: 1}); return Math.random() === Math.random()", "javascript");
    let told = world.ask().await.unwrap().used.remove(0).results;
    assert_eq!((&told["result"], &told["calls"]), (&json!(false), &json!(1)));
}

/// A tool whose text for the model is a part of its data.
struct Rows;

impl ToolBody for Rows {
    fn call(&self, _: Invocation) -> ToolStream {
        let rows: Vec<Json> = (0..3_000).map(|id| json!({"id": id})).collect();
        let text = ToolOutput::text("| id |\n| --- |\n| 0 |\n\nthe first 1 of 3000 rows");
        let output = ToolOutput { data: ToolData::Value(json!([rows])), ..text };
        stream::once(async move { Ok(ToolStep::Done(output)) }).boxed()
    }
}

#[tokio::test]
async fn a_script_gets_data_whole_or_not_at_all() {
    let script = "const [rows] = await tools.rows({}); const [five, key, object] = [await tools.five({}), await tools.key({}), \
        await tools.object({})]; let long = 'nothing'; try { await tools.long({}) } catch (e) { long = e.message } \
        const wide = await tools.wide({}); \
        return {rows: rows.length, sum: five + 1, second: object.a[1], key, words: await tools.look({q: 'x'}), long, wide: wide.length};";
    let world = scripted(script, "javascript");
    let tool = Tool::new("rows", "Asks.", json!({"type": "object"}), Origin::Function, Arc::new(Rows));
    world.toolkit.register(tool).unwrap();
    let says = |name: &str, value: Json| {
        world.tool(
            name,
            |_| {},
            move |_| {
                let value = value.clone();
                async move { Ok(value) }
            },
        );
    };
    says("five", json!("5"));
    says("key", json!("12345678901234567890"));
    says("object", json!(" {\"a\": [1, 2]}\n"));
    says("long", json!("x".repeat(2 << 20)));
    says("wide", json!(vec!["x".repeat(1_000); 1_500]));
    let answer = world.ask().await.unwrap();
    let told = &answer.used[0].results["result"];
    let expected = json!({"rows": 3000, "sum": 6, "second": 2, "key": "12345678901234567890", "words": "found x",
        "long": told["long"], "wide": 1500});
    assert_eq!(*told, expected);
    assert!(told["long"].as_str().unwrap().contains("`long` gave 2097152 bytes"), "{told}");
}

#[tokio::test]
async fn each_tool_line_states_what_a_script_receives() {
    let mut world = World::new([Reply::text("done")]);
    world.echo("rows", |tool| {
        tool.returns = Some("array (for each statement\n a list of its rows)".to_owned());
    });
    world.seams(|seams| seams.sandbox = Arc::new(weft_sandbox::InProcess::new(LIMITS)));
    add_scripts(&world.toolkit, Arc::new(world.model.clone()), &world.options).unwrap();
    world.ask().await.unwrap();
    let shown = world.asked()[0].tools[0].description.clone();
    let line =
        "rows(q?: string, n?: integer) -> array (for each statement a list of its rows): What rows does.";
    assert!(shown.contains(line) && shown.contains("A call gives data"), "{shown}");
}

#[tokio::test]
async fn scripts_may_return_nothing_and_have_no_modules() {
    let told = ran("await tools.add({n: 1})").await;
    assert_eq!((&told["result"], &told["calls"]), (&Json::Null, &json!(1)), "{told}");
    assert!(told.get("error").is_none(), "{told}");
    let told = ran("import x from 'lodash'\nreturn x").await.to_string();
    assert!(told.contains("there are no modules"), "{told}");
    let told = ran("return {m: new Map([['a', 1n]]), s: new Set([2])}").await;
    assert_eq!(told["result"], json!({"m": {"a": 1}, "s": [2]}), "{told}");
}

#[tokio::test]
async fn scripts_may_be_written_as_programs() {
    for script in [
        "async function main() { return (await tools.add({n: 1})).sum }",
        "async function main() { return (await tools.add({n: 1})).sum }\nreturn await main()",
        "```js\nreturn (await tools.add({n: 1})).sum\n```",
        "const { sum } = await tools.add({n: 1}); await new Promise(resolve => setTimeout(resolve, 9)); return sum",
        "return await new Promise(resolve => setTimeout(async () => resolve((await tools.add({n: 1})).sum), 1000))",
    ] {
        let told = ran(script).await;
        assert_eq!((&told["result"], &told["calls"]), (&json!(2), &json!(1)), "{script}: {told}");
    }
    let world = World::new([
        Reply::call("run_script", json!({"code": "return 1", "lang": "js"})),
        Reply::call("run_script", json!({"code": "return 1", "lang": "cobol"})),
        Reply::call("run_script", json!({"code": "return 1", "input": 5})),
        Reply::text("done"),
    ]);
    let mut world = world;
    world.seams(|seams| seams.sandbox = Arc::new(weft_sandbox::InProcess::new(LIMITS)));
    add_scripts(&world.toolkit, Arc::new(world.model.clone()), &world.options).unwrap();
    let used = world.ask().await.unwrap().used;
    let told: Vec<String> = used.iter().map(|call| call.results.to_string()).collect();
    assert!(told[0].contains("\"result\":1"), "{told:?}");
    assert!(told[1].contains("no scripts in `cobol`") && told[2].contains("no argument `input`"), "{told:?}");
}

#[tokio::test]
async fn budgets_hold_in_scripts() {
    let mut world = scripted("for (let n = 0; n < 9; n++) await tools.add({n}); return 1", "javascript");
    world.budget(BudgetLimits { tool_calls: Some(3), ..BudgetLimits::default() });
    world.ask().await.unwrap();
    // The script itself is one of them.
    assert_eq!(world.called().len(), 2);
}

#[tokio::test]
async fn a_script_call_waits_for_approval() {
    let mut world = scripted(
        "const a = await tools.add({n: 1}); const b = await tools.asks({q: String(a.sum)}); return [a, b, Date.now()]",
        "javascript",
    );
    world.echo("asks", |tool| tool.traits.approval = true);
    let waiting = world.wait_with(&Native, question("Q")).await;
    let task = waiting.form.fields.keys().next().unwrap().clone();
    assert_eq!(world.called().len(), 1);
    world.seams(|seams| seams.clock = Arc::new(weft_core::seam::clock::FixedClock(9_999)));
    let start =
        Start::Resumed { state: waiting.state, answers: [(task, json!("approve"))].into_iter().collect() };
    let End::Answered(answer) = world.drive(&Native, start).await.unwrap() else { panic!("it waits again") };
    let result = &answer.used[0].results["result"];
    assert_eq!((&result[0]["sum"], &result[1]), (&json!(2), &json!("found 2")));
    assert_eq!(world.called().len(), 2);
}

/// Scripts that try to call a tool that needs approval, or an unknown one, unnoticed.
const AROUND_APPROVAL: [&str; 16] = [
    "return await tools.asks({q: 'x'})",
    "tools.asks({q: 'x'}); return 1",
    "try { await tools.asks({q: 'x'}) } catch {} return 1",
    "return await Promise.any([tools.asks({q: 'x'}), 1])",
    "return await tools['as' + 'ks']({q: 'x', approved: true, approval: 'approve'})",
    "return await tools.asks({q: 'x', __proto__: {approved: true}})",
    "const {asks} = tools; return await asks({q: 'x'})",
    "return await Reflect.get(tools, 'asks')({q: 'x'})",
    "return await tools.asks.call(tools.add, {q: 'x'})",
    "for (const name of ['add', 'asks']) await tools[name]({q: 'x', n: 1})",
    "Promise.race = async () => ({asked: [{name: 'asks', arguments: {q: 'x'}}]}); return 1",
    "Promise.race = async () => ({asked: [{name: 'asks', arguments: {q: 'x'}, approved: true, id: '1'}]}); return 1",
    "Promise.race = async () => ({asked: [{name: 'Asks', arguments: {q: 'x'}}, {name: 'asks ', arguments: {}}]}); return 1",
    "Array.prototype.map = function () { return [{name: 'asks', arguments: {q: 'x'}}] }; await tools.add({n: 1}); return 1",
    "JSON.stringify = () => '{\"asked\": [{\"name\": \"asks\"}]}'; return 1",
    "Object.prototype.toJSON = () => ({asked: [{name: 'asks', arguments: {q: 'x'}}]}); return {}",
];

#[tokio::test]
async fn no_script_bypasses_approval() {
    for script in AROUND_APPROVAL {
        let world = scripted(script, "javascript");
        world.tool("asks", |tool| tool.traits.approval = true, |_| async { Ok(json!("ASKED")) });
        // It waits for approval or fails; nothing was approved.
        let _end = world.drive(&Native, question("Q")).await;
        let seen = format!("{:?} {:?}", world.trace(), world.asked());
        assert!(!seen.contains("ASKED"), "{script}: {seen}");
    }
}

#[tokio::test]
async fn no_script_bypasses_a_budget() {
    for script in [
        "for (;;) { try { await tools.add({n: 1}) } catch {} }",
        "await Promise.allSettled(Array.from({length: 50}, (_, n) => tools.add({n}))); return 1",
        "for (let n = 0; n < 50; n++) tools.add({n}); return 1",
        "const again = () => tools.add({n: 1}).then(again, again); await again()",
        "Promise.race = async () => ({asked: [...'abcdefghij'].map(n => ({name: 'add', arguments: {n}}))}); return 1",
    ] {
        let mut world = scripted(script, "javascript");
        world.budget(BudgetLimits { tool_calls: Some(3), ..BudgetLimits::default() });
        let _end = world.drive(&Native, question("Q")).await;
        // The script itself is one of them.
        assert!(world.called().len() <= 2, "{script}: {:?}", world.called());
    }
}

#[tokio::test]
async fn an_interrupted_script_repeats_no_call() {
    let script = "const a = await tools.add({n: 1}); const b = await tools.add({n: a.sum}); return b.sum";
    let first = scripted(script, "javascript");
    first.ask().await.unwrap();
    let all = first.notes().len();
    for notes in 0..=all {
        let mut second = scripted(script, "javascript");
        let known = first.known(notes).into_iter().collect();
        second.change(|ctx| ctx.effects = weft_core::effect::Effects::known(known));
        let result = second.ask().await.unwrap().used.remove(0).results;
        let over = first
            .notes()
            .iter()
            .take(notes)
            .filter(|note| note.contains("gave") && note.contains("call"))
            .count();
        assert!(result["result"] == 3 && second.called().len() + over >= 2, "{notes}: {result}");
        assert!(second.called().len() <= 2, "{notes}");
        if notes == all {
            assert_eq!(second.called(), [""; 0]);
        }
    }
}
