//! Canvases of real components that branch and join: each must produce the expected text, run every node the
//! expected number of times, and keep dependent nodes in order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use weft_core::effect::Delivery;
use weft_core::id::{ChunkId, DatasetId};
use weft_core::journal::{Ending, FramePath, Record};
use weft_core::seam::knowledge::{DatasetBrief, Found, Knowledge, Passage, SearchRequest};
use weft_core::seam::session_store::Session;
use weft_core::seam::{RunStore as _, SessionStore};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, TurnInput, async_trait};
use weft_dsl::Plan;
use weft_engine::SessionState;
use weft_models::script::{Reply, Script, Step};
use weft_testkit::fake_http::FakeHttp;
use weft_testkit::memory_store::MemoryStore;

use crate::kit::{Ran, asking};
use crate::real::{Drawn, World, drawn};

type Component = Drawn<'static>;
type To = &'static [&'static str];

fn begin(to: To) -> Component {
    ("begin", "Begin", json!({}), to, None)
}

/// Builds a text.
fn text(id: &'static str, script: &str, to: To) -> Component {
    (id, "StringTransform", json!({"method": "merge", "script": script, "delimiters": [","]}), to, None)
}

fn cut(id: &'static str, reference: &str, to: To) -> Component {
    (id, "StringTransform", json!({"method": "split", "split_ref": reference, "delimiters": [","]}), to, None)
}

fn say(id: &'static str, content: &str, to: To) -> Component {
    (id, "Message", json!({"content": [content]}), to, None)
}

fn llm(id: &'static str, prompt: &str, to: To) -> Component {
    let params = json!({
        "llm_id": "m", "sys_prompt": "s", "prompts": [{"role": "user", "content": prompt}], "cite": false,
    });
    (id, "LLM", params, to, None)
}

/// Takes the first case whose value equals `left`; the last targets are the default.
fn switch(id: &'static str, left: &str, cases: &[(Json, To)], otherwise: To) -> Component {
    let cases = cases.iter().map(|(value, to)| {
        let items = json!([{"cpn_id": left, "operator": "=", "value": value}]);
        json!({"logical_operator": "and", "items": items, "to": to})
    });
    let params = json!({"conditions": cases.collect::<Vec<_>>(), "end_cpn_ids": otherwise});
    (id, "Switch", params, &[], None)
}

fn by_query(id: &'static str, cases: &[(&str, To)], otherwise: To) -> Component {
    let cases: Vec<_> = cases.iter().map(|&(value, to)| (json!(value), to)).collect();
    switch(id, "sys.query", &cases, otherwise)
}

fn categorize(id: &'static str, categories: &[(&str, To)]) -> Component {
    let categories: serde_json::Map<_, _> = categories
        .iter()
        .map(|&(name, to)| (name.to_owned(), json!({"description": name, "examples": [], "to": to})))
        .collect();
    (
        id,
        "Categorize",
        json!({"llm_id": "m", "query": "sys.query", "category_description": categories}),
        &[],
        None,
    )
}

/// Output `answer`: the first of these that has a value.
fn first_of(id: &'static str, references: &[&str], to: To) -> Component {
    let variables: Vec<_> = references.iter().map(|reference| json!({"value": reference})).collect();
    let groups = json!([{"group_name": "answer", "type": "string", "variables": variables}]);
    (id, "VariableAggregator", json!({"groups": groups}), to, None)
}

fn assign(id: &'static str, variable: &str, operator: &str, parameter: &Json, to: To) -> Component {
    let variables = json!([{"variable": variable, "operator": operator, "parameter": parameter}]);
    (id, "VariableAssigner", json!({"variables": variables}), to, None)
}

/// Sets `env.n`, which outlives the turn, to its initial value.
fn reset(to: To) -> Component {
    assign("reset", "env.n", "clear", &Json::Null, to)
}

fn form(id: &'static str, field: &str, to: To) -> Component {
    let inputs = json!({field: {"name": field, "type": "line", "optional": false}});
    (id, "UserFillUp", json!({"enable_tips": true, "tips": "?", "inputs": inputs}), to, None)
}

/// Output `all`: the `collect` reference of each round.
fn each(id: &'static str, items: &str, parallelism: usize, collect: &str, to: To) -> Component {
    let outputs = json!({"all": {"ref": collect, "type": "Array<string>"}});
    (id, "Iteration", json!({"items_ref": items, "parallelism": parallelism, "outputs": outputs}), to, None)
}

fn item(id: &'static str, parent: &'static str, to: To) -> Component {
    (id, "IterationItem", json!({}), to, Some(parent))
}

/// Counts its variable `n` from 0; ends when it equals `end`.
fn repeat(id: &'static str, end: u32, to: To) -> Component {
    let params = json!({
        "loop_variables": [{"variable": "n", "type": "number", "input_mode": "constant", "value": 0}],
        "logical_operator": "and", "maximum_loop_count": 20,
        "loop_termination_condition":
            [{"variable": format!("{id}@n"), "operator": "≥", "value": end, "input_mode": "constant"}],
    });
    (id, "Loop", params, to, None)
}

fn round(id: &'static str, parent: &'static str, to: To) -> Component {
    (id, "LoopItem", json!({}), to, Some(parent))
}

fn leave(id: &'static str) -> Component {
    (id, "ExitLoop", json!({}), &[], None)
}

/// Requests a server that does not exist.
fn broken(id: &'static str, exception: &Json, to: To) -> Component {
    let mut params = json!({"url": "http://gone.test/", "method": "get"});
    params.as_object_mut().unwrap().extend(exception.as_object().unwrap().clone());
    (id, "Invoke", params, to, None)
}

fn goto(to: To) -> Json {
    json!({"exception_method": "goto", "exception_goto": to})
}

fn default(value: &str) -> Json {
    json!({"exception_method": "comment", "exception_default_value": value})
}

/// Moves the node into the body of `parent`.
fn within(parent: &'static str, components: Vec<Component>) -> Vec<Component> {
    components.into_iter().map(|(id, kind, params, to, _)| (id, kind, params, to, Some(parent))).collect()
}

fn canvas(parts: impl IntoIterator<Item = Vec<Component>>) -> Arc<Plan> {
    drawn(&parts.into_iter().flatten().collect::<Vec<_>>())
}

/// Answers each prompt that contains the first text with the second, chunk by chunk, with this many
/// milliseconds in between.
fn answers(replies: &[(&str, &[&str], u64)]) -> Script {
    replies.iter().fold(Script::new(), |script, &(prompt, pieces, ms)| {
        script.reply(Reply::pieces(pieces.iter().copied()).delay_ms(ms).when_user(prompt).always())
    })
}

async fn hold(plan: &Arc<Plan>, script: Script, turns: impl IntoIterator<Item = TurnInput>) -> Vec<Ran> {
    let ran = World::new(script, FakeHttp::new()).hold(plan, turns).await;
    ran.iter().for_each(|ran| in_order(plan, ran));
    ran
}

/// Two turns of a session; each must succeed, show this text, and run these nodes this many times.
async fn check(plan: &Arc<Plan>, script: Script, query: &str, said: &str, times: &[(&str, usize)]) -> Ran {
    let mut ran = hold(plan, script, [asking(query), asking(query)]).await;
    ran.iter().for_each(|ran| is(ran, said, times));
    ran.remove(0)
}

fn is(ran: &Ran, said: &str, times: &[(&str, usize)]) {
    let log = ran.log().join("\n");
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}\n{log}", ran.report.error);
    assert_eq!(ran.report.said, said, "{log}");
    for &(id, times) in times {
        assert_eq!(ran.times(id), times, "{id}\n{log}");
    }
}

/// No node starts while something that it reads is still running, except stream readers; no producer ends
/// before its readers have shown its last chunk, unless they were held back behind another message; a message
/// ends before its node.
fn in_order(plan: &Plan, ran: &Ran) {
    let log = ran.log().join("\n");
    let mut under_way: HashMap<u32, (usize, FramePath)> = HashMap::new();
    let mut listening: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut over = Vec::new();
    let (mut said, mut held_back) = (HashSet::new(), HashSet::new());
    for record in &ran.records {
        match record {
            Record::NodeStarted { who } => {
                let node = &plan.nodes[plan.by_id[&who.node]];
                for (&activation, (source, frame)) in &under_way {
                    let hears = plan.nodes[*source].listeners.contains(&plan.by_id[&who.node]);
                    let reads = node.waits.contains(source) && *frame == who.frame;
                    assert!(!reads || hears, "{} started too early\n{log}", who.node);
                    if hears && *frame == who.frame {
                        listening.entry(who.activation).or_default().push(activation);
                    }
                }
                under_way.insert(who.activation, (plan.by_id[&who.node], who.frame.clone()));
            }
            Record::NodeFinished { who, .. } => {
                under_way.remove(&who.activation);
                over.push(who.activation);
                let silent = listening.keys().filter(|listener| !said.contains(*listener));
                held_back.extend(silent.filter(|_| !said.is_empty()).copied());
            }
            Record::Said { activation, node, .. } => {
                let late =
                    listening.get(activation).into_iter().flatten().any(|source| over.contains(source));
                assert!(!late || held_back.contains(activation), "{node} writes late\n{log}");
                said.insert(*activation);
                assert!(!over.contains(activation), "{node} writes after its end\n{log}");
            }
            Record::MessageEnded { activation, node, .. } => {
                assert!(!over.contains(activation), "{node}'s message ends after it\n{log}");
            }
            _ => {}
        }
    }
}

/// The position of a line in the log.
fn at(ran: &Ran, line: &str) -> usize {
    let log = ran.log();
    log.iter().position(|l| l == line).unwrap_or_else(|| panic!("no `{line}` in\n{}", log.join("\n")))
}

pub(crate) fn filled(inputs: &Json) -> TurnInput {
    TurnInput { inputs: inputs.as_object().unwrap().clone(), ..TurnInput::default() }
}

// Joins after a branch.

/// Any-of and all-of joins, long and short branches, and one edge straight into the join.
#[tokio::test(start_paused = true)]
async fn branches_of_any_length_join_once() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query(
            "s",
            &[("long", &["a1"]), ("short", &["b1"]), ("both", &["a1", "b1"]), ("all", &["a1", "b1", "m"])],
            &["m"],
        ),
        text("a1", "A", &["a2"]),
        text("a2", "{a1@result}A", &["a3"]),
        llm("a3", "think {a2@result}", &["m"]),
        text("b1", "B", &["m"]),
        say("m", "[{a3@content}|{b1@result}]", &[]),
    ]]);
    let script = || answers(&[("think AA", &["de", "ep"], 10)]);
    for (query, said, long, short) in [
        ("long", "[deep|]", 1, 0),
        ("short", "[|B]", 0, 1),
        ("both", "[deep|B]", 1, 1),
        ("all", "[deep|B]", 1, 1),
        ("none", "[|]", 0, 0),
    ] {
        check(&plan, script(), query, said, &[("m", 1), ("a3", long), ("b1", short)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nested_branches_join_at_the_end() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("x", &["x"])], &["t"]),
        text("x", "X", &["j"]),
        by_query("t", &[("y", &["y"])], &["u"]),
        text("y", "Y", &["j"]),
        by_query("u", &[("z", &["z"])], &["w"]),
        text("z", "Z", &["k"]),
        text("w", "W", &["k"]),
        text("k", "({z@result}{w@result})", &["j"]),
        first_of("j", &["x@result", "y@result", "k@result"], &["m"]),
        say("m", "{j@answer}", &[]),
    ]]);
    for (query, said, k) in [("x", "X", 0), ("y", "Y", 0), ("z", "(Z)", 1), ("?", "(W)", 1)] {
        check(&plan, Script::new(), query, said, &[("j", 1), ("m", 1), ("k", k)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_after_a_join_after_a_branch() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("a", &["a"])], &["b"]),
        text("a", "one", &["j"]),
        text("b", "two", &["j"]),
        text("j", "{a@result}{b@result}", &["t"]),
        switch("t", "j@result", &[(json!("one"), &["c"])], &["d"]),
        text("c", "C{j@result}", &["k"]),
        text("d", "D{j@result}", &["k"]),
        say("k", "{c@result}{d@result}:{a@result}{b@result}", &[]),
    ]]);
    for (query, said) in [("a", "Cone:one"), ("x", "Dtwo:two")] {
        check(&plan, Script::new(), query, said, &[("j", 1), ("t", 1), ("k", 1)]).await;
    }
}

/// A target of one branch that another branch also leads to.
#[tokio::test(start_paused = true)]
async fn a_target_that_also_follows_another_branch_runs_once() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("a", &["a"]), ("b", &["b"]), ("both", &["a", "b"])], &["m"]),
        text("a", "A", &["b"]),
        text("b", "<{a@result}>", &["m"]),
        say("m", "{a@result}{b@result}", &[]),
    ]]);
    for (query, said, a, b) in
        [("a", "A<A>", 1, 1), ("b", "<>", 0, 1), ("both", "A<A>", 1, 1), ("-", "", 0, 0)]
    {
        check(&plan, Script::new(), query, said, &[("a", a), ("b", b), ("m", 1)]).await;
    }
}

/// Two parallel branchings whose branches all join: the join waits for the slower one.
#[tokio::test(start_paused = true)]
async fn two_parallel_branchings_join_once() {
    let plan = canvas([vec![
        begin(&["s", "c"]),
        by_query("s", &[("a", &["a"])], &["b"]),
        categorize("c", &[("red", &["r"]), ("blue", &["u"])]),
        text("a", "A", &["m"]),
        text("b", "B", &["m"]),
        text("r", "R", &["m"]),
        text("u", "U", &["m"]),
        say("m", "{a@result}{b@result}{r@result}{u@result}", &[]),
    ]]);
    for (query, reply, said) in [("a", "red", "AR"), ("a", "blue", "AU"), ("x", "blue", "BU")] {
        let script = Script::new().reply(Reply::text(reply).delay_ms(500).always());
        check(&plan, script, query, said, &[("m", 1)]).await;
    }
}

/// Several targets of one category, some of which lead to the same node.
#[tokio::test(start_paused = true)]
async fn a_category_with_several_targets_takes_all_of_them() {
    let plan = canvas([vec![
        begin(&["c"]),
        categorize("c", &[("many", &["a", "b", "m"]), ("one", &["b"]), ("none", &["z"])]),
        text("a", "A", &["m"]),
        llm("b", "go", &["m"]),
        text("z", "Z", &["m"]),
        say("m", "{a@result}-{b@content}-{z@result}", &[]),
    ]]);
    for (reply, said) in [("many", "A-yes-"), ("one", "-yes-"), ("none", "--Z"), ("gibberish", "--Z")] {
        let script = answers(&[("go", &["y", "es"], 20)]).reply(Reply::text(reply).always());
        check(&plan, script, "q", said, &[("m", 1)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_named_twice_and_an_edge_listed_twice_count_once() {
    let plan = canvas([vec![
        begin(&["s", "s"]),
        by_query("s", &[("a", &["x", "x"]), ("b", &["x"])], &["x", "y"]),
        text("x", "X", &["m", "m"]),
        text("y", "Y", &["m"]),
        say("m", "{x@result}{y@result}", &[]),
    ]]);
    for (query, said, y) in [("a", "X", 0), ("b", "X", 0), ("c", "XY", 1)] {
        check(&plan, Script::new(), query, said, &[("s", 1), ("x", 1), ("y", y), ("m", 1)]).await;
    }
}

/// The parameters of a Switch count, not its drawn edges: neither an extra nor a missing edge changes anything.
#[tokio::test(start_paused = true)]
async fn the_drawn_edges_of_a_switch_are_ignored() {
    let mut s = by_query("s", &[("a", &["a"])], &["b"]);
    s.3 = &["c", "a"];
    let plan = canvas([vec![
        begin(&["s"]),
        s,
        text("a", "A", &["m"]),
        text("b", "B", &["m"]),
        text("c", "C", &["m"]),
        say("m", "{a@result}{b@result}{c@result}", &[]),
    ]]);
    for (query, said) in [("a", "A"), ("x", "B")] {
        check(&plan, Script::new(), query, said, &[("c", 0), ("m", 1)]).await;
    }
}

/// Nodes with several paths from the same Switch: directly, over one node and over two.
#[tokio::test(start_paused = true)]
async fn several_paths_from_one_switch_into_one_node() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("all", &["j", "a", "b"]), ("j", &["j"]), ("b", &["b"])], &["a", "j"]),
        text("a", "a", &["j"]),
        text("b", "b", &["b2"]),
        text("b2", "{b@result}2", &["j", "k"]),
        text("j", "[{a@result}{b2@result}]", &["k"]),
        say("k", "{j@result}{b2@result}", &[]),
    ]]);
    for (query, said) in [("all", "[ab2]b2"), ("j", "[]"), ("b", "[b2]b2"), ("x", "[a]")] {
        check(&plan, Script::new(), query, said, &[("j", 1), ("k", 1)]).await;
    }
}

/// A reference from a join to the middle of a branch not taken, several nodes up.
#[tokio::test(start_paused = true)]
async fn a_join_reads_deep_into_a_branch_not_taken() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("long", &["a1"])], &["b"]),
        text("a1", "1", &["a2"]),
        text("a2", "{a1@result}2", &["a3"]),
        text("a3", "{a2@result}3", &["j"]),
        text("b", "B", &["j"]),
        text("j", "j", &["m"]),
        say("m", "{a1@result}.{a2@result}.{a3@result}.{b@result}", &[]),
    ]]);
    for (query, said) in [("long", "1.12.123."), ("x", "...B")] {
        check(&plan, Script::new(), query, said, &[("j", 1), ("m", 1)]).await;
    }
}

/// References without edges: the node that is read is on another branch, slow, or not taken.
#[tokio::test(start_paused = true)]
async fn references_without_edges_are_awaited_or_empty() {
    let plan = canvas([vec![
        begin(&["slow", "s"]),
        llm("slow", "go", &[]),
        by_query("s", &[("a", &["a"])], &["b"]),
        text("a", "A", &[]),
        text("b", "B", &["m"]),
        say("m", "{slow@content}{a@result}{b@result}", &[]),
    ]]);
    let ran = check(&plan, answers(&[("go", &["S", "L"], 900)]), "x", "SLB", &[("m", 1), ("a", 0)]).await;
    assert!(at(&ran, "end slow") < at(&ran, "start m"));
    check(&plan, answers(&[("go", &["S"], 900)]), "a", "", &[("m", 0), ("a", 1)]).await;
}

/// After two branches that both run, an aggregator waits for both and runs once.
#[tokio::test(start_paused = true)]
async fn an_aggregator_waits_for_every_branch_that_runs() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("both", &["a", "b"]), ("a", &["a"])], &["b"]),
        llm("a", "slow", &["v"]),
        text("b", "fast", &["v"]),
        first_of("v", &["a@content", "b@result"], &["m"]),
        say("m", "{v@answer}", &[]),
    ]]);
    for (query, said) in [("both", "considered"), ("a", "considered"), ("b", "fast")] {
        let script = answers(&[("slow", &["consi", "dered"], 700)]);
        let ran = check(&plan, script, query, said, &[("v", 1), ("m", 1)]).await;
        if ran.times("a") == 1 {
            assert!(at(&ran, "end a") < at(&ran, "start v"));
        }
    }
}

// Failures.

#[tokio::test(start_paused = true)]
async fn an_exception_branch_joins_the_ordinary_path_again() {
    for (url, said, rescue) in [("up", "ok!", 0), ("down", "rescued", 1)] {
        let mut call = broken("call", &goto(&["rescue"]), &["fine"]);
        call.2["url"] = json!(format!("http://{url}.test/"));
        let plan = canvas([vec![
            begin(&["call"]),
            call,
            text("fine", "{call@result}!", &["m"]),
            text("rescue", "rescued", &["m"]),
            say("m", "{fine@result}{rescue@result}", &[]),
        ]]);
        let world = World::new(Script::new(), FakeHttp::new().on("up.test", 200, "ok"));
        let ran = world.hold(&plan, [asking("q")]).await.remove(0);
        in_order(&plan, &ran);
        is(&ran, said, &[("m", 1), ("rescue", rescue), ("fine", 1 - rescue)]);
    }
}

/// The exception branch leads straight into a node that the ordinary path also reaches.
#[tokio::test(start_paused = true)]
async fn an_exception_branch_may_lead_to_a_later_join() {
    let plan = canvas([vec![
        begin(&["call", "side"]),
        broken("call", &goto(&["m"]), &["next"]),
        text("next", "N", &["m"]),
        llm("side", "go", &["m"]),
        say("m", "{next@result}{side@content}.", &[]),
    ]]);
    let script = answers(&[("go", &["S"], 400)]);
    let ran = check(&plan, script, "q", "S.", &[("m", 1), ("next", 0)]).await;
    assert!(ran.log().contains(&"skip next".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_node_on_both_the_exception_and_the_ordinary_path_runs_once() {
    let plan =
        canvas([vec![begin(&["call"]), broken("call", &goto(&["m"]), &["m"]), say("m", "on we go", &[])]]);
    check(&plan, Script::new(), "q", "on we go", &[("m", 1)]).await;
}

struct Down;

fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "the index is down")
}

#[async_trait]
impl Knowledge for Down {
    async fn datasets(&self, _: &TenantId, _: &[String]) -> Result<Vec<DatasetBrief>> {
        Err(down())
    }

    async fn search(&self, _: &TenantId, _: &SearchRequest) -> Result<Found> {
        Err(down())
    }

    async fn passages(&self, _: &TenantId, _: &[DatasetId], _: &[ChunkId]) -> Result<Vec<Passage>> {
        Err(down())
    }
}

/// A search and a request that fail, each with a default value, feed a join with another branch.
#[tokio::test(start_paused = true)]
async fn a_join_reads_the_default_values_of_failed_nodes() {
    let mut search = default("nothing found");
    search["query"] = json!("{sys.query}");
    search["dataset_ids"] = json!(["*"]);
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("off", &["t"])], &["r", "i", "t"]),
        ("r", "Retrieval", search, &["j"], None),
        broken("i", &default("no page"), &["j"]),
        text("t", "T", &["j"]),
        text("j", "{r@formalized_content}+{i@result}+{t@result}", &["m"]),
        say("m", "{j@result}", &[]),
    ]]);
    for (query, said, ran_times) in [("on", "nothing found+no page+T", 1), ("off", "++T", 0)] {
        let world = World::with_search(Script::new(), FakeHttp::new(), Arc::new(Down));
        let ran = world.hold(&plan, [asking(query)]).await.remove(0);
        in_order(&plan, &ran);
        // The default of a node is shown even if no Message follows.
        let shown: String = ran
            .records
            .iter()
            .filter_map(|r| match r {
                Record::Said { node, text, .. } if node.as_str() == "m" => Some(&**text),
                _ => None,
            })
            .collect();
        assert_eq!(
            (ran.report.ending, shown.as_str()),
            (Ending::Succeeded, said),
            "{}",
            ran.log().join("\n")
        );
        assert_eq!((ran.times("r"), ran.times("i"), ran.times("j")), (ran_times, ran_times, 1));
    }
}

/// An unhandled failure ends the run, whatever else is running.
#[tokio::test(start_paused = true)]
async fn an_unhandled_failure_in_one_branch_ends_the_run() {
    let plan = canvas([vec![
        begin(&["a", "call"]),
        llm("a", "go", &["m"]),
        broken("call", &json!({}), &["m"]),
        say("m", "{a@content}", &[]),
    ]]);
    let ran = hold(&plan, answers(&[("go", &["x", "y"], 10_000)]), [asking("q")]).await.remove(0);
    assert_eq!((ran.report.ending, ran.times("m")), (Ending::Failed, 0));
    let error = ran.report.error.as_ref().unwrap().full();
    assert!(error.contains("call"), "{error}");
    assert!(ran.log().contains(&"error a".to_owned()), "{:?}", ran.log());
}

// Texts and streams.

#[tokio::test(start_paused = true)]
async fn alternative_texts_follow_the_branch_that_ran() {
    let texts =
        json!({"content": ["a:{a@result}", "b:{b@content}", "both:{a@result}{b@content}", "c:{c@result}"]});
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("a", &["a"]), ("b", &["b"])], &["c"]),
        text("a", "A", &["m"]),
        llm("b", "go", &["m"]),
        text("c", "C", &["m"]),
        ("m", "Message", texts, &[], None),
    ]]);
    for (query, said) in [("a", "a:A"), ("b", "b:Bee"), ("c", "c:C")] {
        check(&plan, answers(&[("go", &["B", "ee"], 5)]), query, said, &[("m", 1)]).await;
    }
}

/// A model streams into a Message in either branch, and ends after its last chunk is shown.
#[tokio::test(start_paused = true)]
async fn a_model_in_a_branch_streams_into_the_join() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("a", &["a"])], &["b"]),
        llm("a", "aa", &["m"]),
        llm("b", "bb", &["m"]),
        say("m", "<{a@content}{b@content}>", &["n"]),
        text("n", "{m@content}", &[]),
    ]]);
    for (query, which, pieces) in [("a", "a", ["1", "2", "3"]), ("x", "b", ["4", "5", "6"])] {
        let script = answers(&[("aa", &["1", "2", "3"], 10), ("bb", &["4", "5", "6"], 10)]);
        let said = format!("<{}>", pieces.concat());
        let ran = check(&plan, script, query, &said, &[("m", 1), ("n", 1)]).await;
        assert!(at(&ran, "start m") < at(&ran, &format!("end {which}")), "it streams");
        assert!(at(&ran, &format!("say m {:?}", pieces[2])) < at(&ran, &format!("end {which}")));
        assert!(at(&ran, "end m") < at(&ran, "start n"));
        assert_eq!(ran.output("n", "result"), said);
    }
}

/// Both models of two branches run: one Message shows both, in the order of its text, although the second
/// finishes first.
#[tokio::test(start_paused = true)]
async fn two_models_at_once_stream_into_one_message_in_the_order_of_its_text() {
    let plan = canvas([vec![
        begin(&["a", "b"]),
        llm("a", "aa", &["m"]),
        llm("b", "bb", &["m"]),
        say("m", "{a@content}/{b@content}", &[]),
    ]]);
    let script = answers(&[("aa", &["1", "2", "3"], 100), ("bb", &["4", "5"], 1)]);
    let ran = check(&plan, script, "q", "123/45", &[("m", 1)]).await;
    assert!(at(&ran, "say m \"5\"") < at(&ran, "end b"));
}

/// One model, two Messages and one plain reader: called once, shown twice, read whole.
#[tokio::test(start_paused = true)]
async fn a_stream_read_by_two_messages_is_produced_once() {
    let plan = canvas([vec![
        begin(&["a"]),
        llm("a", "aa", &["m", "n", "t"]),
        say("m", "m:{a@content}", &["z"]),
        say("n", "n:{a@content}", &["z"]),
        text("t", "t:{a@content}", &["z"]),
        text("z", "{m@content} {n@content} {t@result}", &[]),
    ]]);
    let world = World::new(answers(&[("aa", &["x", "y"], 10)]), FakeHttp::new());
    let ran = world.hold(&plan, [asking("q")]).await.remove(0);
    in_order(&plan, &ran);
    assert_eq!(world.model.requests().len(), 1);
    assert_eq!((ran.times("a"), ran.times("z")), (1, 1));
    assert_eq!(ran.output("z", "result"), "m:xy n:xy t:xy", "{}", ran.log().join("\n"));
    assert!(at(&ran, "end a") < at(&ran, "start t"));
}

/// Two Messages after a Switch: one, the other, or both, and the nodes after both.
#[tokio::test(start_paused = true)]
async fn messages_in_branches_feed_what_follows() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("m", &["m"]), ("both", &["m", "n"])], &["n"]),
        say("m", "M;", &["t"]),
        say("n", "N;", &["t"]),
        text("t", "({m@content}{n@content})", &["end"]),
        say("end", "{t@result}", &[]),
    ]]);
    for (query, said) in [("m", "M;(M;)"), ("both", "M;N;(M;N;)"), ("x", "N;(N;)")] {
        check(&plan, Script::new(), query, said, &[("t", 1), ("end", 1)]).await;
    }
}

/// A streaming Message is followed by a branch on its text.
#[tokio::test(start_paused = true)]
async fn a_branch_reads_the_output_of_a_message() {
    let plan = canvas([vec![
        begin(&["a"]),
        llm("a", "aa", &["m"]),
        say("m", "{a@content}", &["s"]),
        switch("s", "m@content", &[(json!("yes"), &["y"])], &["n"]),
        say("y", " indeed", &[]),
        say("n", " but no", &[]),
    ]]);
    for (pieces, said) in [(["y", "es"], "yes indeed"), (["n", "o"], "no but no")] {
        let script = Script::new().reply(Reply::pieces(pieces).delay_ms(3).always());
        check(&plan, script, "q", said, &[("s", 1)]).await;
    }
}

/// A model that breaks off while it is streamed: its default ends the text, and the join continues.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_continues_with_its_default() {
    let mut a = llm("a", "aa", &["m"]);
    a.2.as_object_mut().unwrap().extend(default("(lost)").as_object().unwrap().clone());
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("a", &["a"])], &["b"]),
        a,
        text("b", "B", &["m"]),
        say("m", "<{a@content}{b@result}>", &["t"]),
        text("t", "{a@content}", &[]),
    ]]);
    let broken = Step::Error(weft_models::script::Failure {
        kind: ErrorKind::Invalid,
        message: "gone".into(),
        retry_after_ms: None,
    });
    let script = Script::new().reply(Reply::pieces(["half "]).then(broken).always());
    let ran = hold(&plan, script, [asking("a")]).await.remove(0);
    let log = ran.log().join("\n");
    assert_eq!(ran.report.ending, Ending::Succeeded, "{log}");
    assert_eq!((ran.times("m"), ran.times("t")), (1, 1), "{log}");
    assert!(ran.report.said.contains("(lost)"), "{}\n{log}", ran.report.said);
}

// Cycles.

/// A cycle with a join inside it and a join after it.
#[tokio::test(start_paused = true)]
async fn a_cycle_with_joins_inside_and_after() {
    let plan = canvas([vec![
        begin(&["reset", "p"]),
        reset(&["count"]),
        text("p", "P", &["m"]),
        assign("count", "env.n", "+=", &json!(1), &["s"]),
        switch("s", "env.n", &[(json!(2), &["odd"])], &["even", "odd"]),
        text("odd", "o{env.n}", &["j"]),
        llm("even", "go", &["j"]),
        text("j", "{odd@result}{even@content}", &["t"]),
        switch("t", "env.n", &[(json!(3), &["out"])], &["count"]),
        text("out", "{j@result}", &["m"]),
        say("m", "{p@result}:{out@result}", &[]),
    ]]);
    let script = answers(&[("go", &["e"], 50)]);
    let times = [("count", 3), ("j", 3), ("t", 3), ("odd", 3), ("even", 2), ("out", 1), ("m", 1)];
    check(&plan, script, "q", "P:o3e", &times).await;
}

/// Every pass leads to a Message as well as back; each shows the values of its pass.
#[tokio::test(start_paused = true)]
async fn a_cycle_with_a_message_in_every_pass() {
    let plan = canvas([vec![
        begin(&["reset"]),
        reset(&["count"]),
        assign("count", "env.n", "+=", &json!(1), &["m"]),
        say("m", "{env.n} ", &["s"]),
        switch("s", "env.n", &[(json!(4), &["end"])], &["count"]),
        say("end", "done", &[]),
    ]]);
    check(&plan, Script::new(), "q", "1 2 3 4 done", &[("m", 4), ("end", 1)]).await;
}

/// A node after a cycle is reached in one pass while it still waits for another node, and is not reached in the
/// next pass: the first activation is not lost.
#[tokio::test(start_paused = true)]
async fn a_node_reached_in_one_pass_is_not_lost_in_the_next() {
    let plan = canvas([vec![
        begin(&["slow", "reset"]),
        reset(&["count"]),
        llm("slow", "go", &[]),
        assign("count", "env.n", "+=", &json!(1), &["s"]),
        switch("s", "env.n", &[(json!(1), &["count", "m"]), (json!(2), &["count"])], &["end"]),
        text("end", "E", &[]),
        text("m", "{slow@content}{end@result}", &["say"]),
        say("say", "{m@result}", &[]),
    ]]);
    let script = answers(&[("go", &["S"], 500)]);
    check(&plan, script, "q", "SE", &[("s", 3), ("m", 1), ("say", 1)]).await;
}

/// Two back edges from one Switch, to different nodes: each pass runs the nodes on its path, and the node after
/// the cycle joins once with the parallel branch.
#[tokio::test(start_paused = true)]
async fn a_cycle_with_two_back_edges() {
    for (second, said, i, h, t) in [(2, "12P", 2, 3, 1), (7, "2P", 2, 2, 0)] {
        let plan = canvas([vec![
            begin(&["reset", "p"]),
            llm("p", "go", &[]),
            reset(&["i"]),
            assign("i", "env.n", "+=", &json!(1), &["h"]),
            text("h", "{env.n}", &["s"]),
            switch(
                "s",
                "env.n",
                &[(json!(1), &["i"]), (json!(second), &["t"]), (json!(9), &["never"])],
                &["out"],
            ),
            assign("t", "env.n", "+=", &json!(10), &["h"]),
            text("out", "{h@result}", &["m"]),
            text("never", "never", &["m"]),
            say("m", "{out@result}{never@result}", &["end"]),
            say("end", "{p@content}", &[]),
        ]]);
        let times = [("i", i), ("h", h), ("s", h), ("t", t), ("m", 1), ("end", 1), ("never", 0)];
        let ran = check(&plan, answers(&[("go", &["P"], 5_000)]), "q", said, &times).await;
        assert!(at(&ran, "end m") < at(&ran, "end p"), "the join after the cycle waits for nothing else");
    }
}

/// A failure that leads back: retried until it succeeds.
#[tokio::test(start_paused = true)]
async fn an_exception_branch_that_leads_back_is_a_cycle() {
    let plan = canvas([vec![
        begin(&["count"]),
        assign("count", "env.n", "+=", &json!(1), &["call"]),
        broken("call", &goto(&["count"]), &["m"]),
        say("m", "{call@result} after {env.n}", &[]),
    ]]);
    let http = FakeHttp::new()
        .fails_once("gone", ErrorKind::Unavailable, "1")
        .fails_once("gone", ErrorKind::Unavailable, "2")
        .on("gone", 200, "ok");
    let ran = World::new(Script::new(), http).hold(&plan, [asking("q")]).await.remove(0);
    in_order(&plan, &ran);
    is(&ran, "ok after 3", &[("call", 3), ("m", 1)]);
}

// Iterations and Loops.

/// A branch and a join in the body of an Iteration, over none, one and many items, sequentially and in
/// parallel: the results are in item order.
#[tokio::test(start_paused = true)]
async fn a_branch_in_an_iteration_joins_in_every_round() {
    for parallelism in [1, 3, 64] {
        let plan = canvas([
            vec![
                begin(&["cut"]),
                cut("cut", "sys.query", &["it"]),
                each("it", "cut@result", parallelism, "j@result", &["m"]),
                say("m", "{it@all}", &[]),
                item("i", "it", &["s"]),
            ],
            within(
                "it",
                vec![
                    switch("s", "i@item", &[(json!("a"), &["a", "b"]), (json!("b"), &["b"])], &["j"]),
                    llm("a", "item {i@item}", &["j"]),
                    text("b", "B{i@index}", &["j"]),
                    text("j", "{a@content}{b@result}{i@item}", &[]),
                ],
            ),
        ]);
        for (query, said, a, b, j) in
            [("a", r#"["AB0a"]"#, 1, 1, 1), ("b,a,c,a", r#"["B0b","AB1a","c","AB3a"]"#, 2, 3, 4)]
        {
            let script = answers(&[("item a", &["A"], 300)]);
            check(&plan, script, query, said, &[("a", a), ("b", b), ("j", j), ("i", j), ("it", 1), ("m", 1)])
                .await;
        }
    }
    let plan = canvas([
        vec![
            begin(&["it"]),
            each("it", "env.list", 4, "a@result", &["m"]),
            say("m", "none: {it@all}", &[]),
            item("i", "it", &["a"]),
        ],
        within("it", vec![text("a", "A", &[])]),
    ]);
    check(&plan, Script::new(), "q", "none: []", &[("it", 1), ("i", 0), ("a", 0), ("m", 1)]).await;
}

/// An Iteration in one branch, a plain node in the other.
#[tokio::test(start_paused = true)]
async fn an_iteration_in_a_branch_joins_the_other_branch() {
    let plan = canvas([
        vec![
            begin(&["s"]),
            by_query("s", &[("x", &["x"])], &["cut"]),
            text("x", "X", &["m"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 2, "a@result", &["m"]),
            say("m", "{x@result}{it@all}", &[]),
            item("i", "it", &["a"]),
        ],
        within("it", vec![text("a", "<{i@item}>", &[])]),
    ]);
    check(&plan, Script::new(), "x", "X", &[("it", 0), ("i", 0), ("m", 1)]).await;
    check(&plan, Script::new(), "p,q", r#"["<p>","<q>"]"#, &[("it", 1), ("a", 2), ("m", 1)]).await;
}

/// From outside, a body node has the outputs of the last item's round, whichever round finishes last.
#[tokio::test(start_paused = true)]
async fn outside_a_body_its_nodes_have_the_outputs_of_the_last_item() {
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 3, "a@content", &["m"]),
            say("m", "{a@content}", &[]),
            item("i", "it", &["a"]),
        ],
        within("it", vec![llm("a", "item {i@item}", &[])]),
    ]);
    let script = answers(&[("item p", &["P"], 900), ("item q", &["Q"], 500), ("item r", &["R"], 100)]);
    check(&plan, script, "p,q,r", "R", &[("a", 3)]).await;
}

/// A Loop in the body of an Iteration with parallel rounds: each round has its own Loop and reads its own
/// values from it.
#[tokio::test(start_paused = true)]
async fn a_loop_inside_parallel_rounds_is_separate_per_round() {
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 4, "j@result", &["m"]),
            say("m", "{it@all}", &[]),
            item("i", "it", &["lo"]),
        ],
        within(
            "it",
            vec![
                repeat("lo", 2, &["wait"]),
                llm("wait", "wait {i@item}", &["j"]),
                text("j", "{i@item}{t@result}{wait@content}", &[]),
            ],
        ),
        vec![round("li", "lo", &["t"])],
        within("lo", vec![text("t", "({lo@n}{i@item})", &["v"]), assign("v", "lo@n", "+=", &json!(1), &[])]),
    ]);
    let script = answers(&[("wait p", &["P"], 900), ("wait q", &["Q"], 300), ("wait r", &["R"], 600)]);
    let said = r#"["p(1p)P","q(1q)Q","r(1r)R"]"#;
    check(&plan, script, "p,q,r", said, &[("lo", 3), ("li", 9), ("t", 6), ("j", 3)]).await;
}

/// An Iteration in the body of a Loop restarts in every round.
#[tokio::test(start_paused = true)]
async fn an_iteration_in_a_loop_restarts_in_every_round() {
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["lo"]),
            repeat("lo", 3, &["m"]),
            say("m", "{lo@n}{it@all}", &[]),
            round("li", "lo", &["it"]),
        ],
        within(
            "lo",
            vec![each("it", "cut@result", 2, "a@result", &["v"]), assign("v", "lo@n", "+=", &json!(1), &[])],
        ),
        vec![item("i", "it", &["a"])],
        within("it", vec![text("a", "{lo@n}{i@item}{i@index}", &[])]),
    ]);
    check(&plan, Script::new(), "x,y", r#"3["2x0","2y1"]"#, &[("it", 3), ("i", 6), ("a", 6), ("li", 4)])
        .await;
}

/// A Loop whose body branches and joins, and leaves by an ExitLoop in one branch while another is still
/// running.
#[tokio::test(start_paused = true)]
async fn an_exit_in_a_branch_leaves_the_loop_at_once() {
    let plan = canvas([
        vec![
            begin(&["lo"]),
            repeat("lo", 9, &["m"]),
            say("m", "left at {lo@n}", &[]),
            round("li", "lo", &["v"]),
        ],
        within(
            "lo",
            vec![
                assign("v", "lo@n", "+=", &json!(1), &["s", "busy"]),
                llm("busy", "go", &["j"]),
                switch("s", "lo@n", &[(json!(3), &["x"])], &["j"]),
                leave("x"),
                text("j", "{busy@content}", &[]),
            ],
        ),
    ]);
    let script = answers(&[("go", &["b"], 1_000)]);
    let ran =
        check(&plan, script, "q", "left at 3", &[("li", 3), ("j", 2), ("x", 1), ("busy", 3), ("m", 1)]).await;
    assert!(ran.log().contains(&"error busy".to_owned()), "running nodes are stopped");
}

/// A Loop inside a Loop: leaving the inner one continues the outer one.
#[tokio::test(start_paused = true)]
async fn an_exit_leaves_only_the_innermost_loop() {
    let plan = canvas([
        vec![
            begin(&["out"]),
            repeat("out", 2, &["m"]),
            say("m", "{out@n}{in@n}", &[]),
            round("oi", "out", &["in"]),
        ],
        within("out", vec![repeat("in", 9, &["v"]), assign("v", "out@n", "+=", &json!(1), &[])]),
        vec![round("ii", "in", &["w"])],
        within(
            "in",
            vec![
                assign("w", "in@n", "+=", &json!(1), &["s"]),
                switch("s", "in@n", &[(json!(2), &["x"])], &["on"]),
                text("on", "on", &[]),
                leave("x"),
            ],
        ),
    ]);
    check(&plan, Script::new(), "q", "22", &[("in", 2), ("ii", 4), ("x", 2), ("v", 2), ("oi", 3)]).await;
}

/// In a Loop, a node that has not run yet in this round has its outputs of the previous round; a node that the
/// round skipped is empty.
#[tokio::test(start_paused = true)]
async fn a_node_in_a_loop_reads_outputs_of_the_previous_round() {
    let plan = canvas([
        vec![
            begin(&["out"]),
            repeat("out", 2, &["m"]),
            say("m", "{draft@result}", &[]),
            round("oi", "out", &["lo"]),
        ],
        within("out", vec![repeat("lo", 3, &["w"]), assign("w", "out@n", "+=", &json!(1), &[])]),
        vec![round("li", "lo", &["draft"])],
        within(
            "lo",
            vec![
                text("draft", "{out@n}{lo@n}<{critic@result}>", &["s"]),
                switch("s", "lo@n", &[(json!(1), &["skip"])], &["once"]),
                text("once", "!", &["critic"]),
                text("skip", "?", &["critic"]),
                text("critic", "c{lo@n}{once@result}", &["v"]),
                assign("v", "lo@n", "+=", &json!(1), &[]),
            ],
        ),
    ]);
    let ran = check(&plan, Script::new(), "q", "12<c1>", &[("draft", 6), ("critic", 6)]).await;
    let drafts = ran.records.iter().filter_map(|record| match record {
        Record::NodeFinished { who, outputs, .. } if who.node.as_str() == "draft" => {
            outputs.get("result").map(|value| value.snapshot().as_str().unwrap().to_owned())
        }
        _ => None,
    });
    let drafts: Vec<_> = drafts.collect();
    assert_eq!(drafts, ["00<>", "01<c0!>", "02<c1>", "10<>", "11<c0!>", "12<c1>"]);
}

/// The outputs of a Loop in one round are not visible in the next round, which skips the Loop.
#[tokio::test(start_paused = true)]
async fn a_round_does_not_see_a_loop_of_another_round() {
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 1, "j@result", &["m"]),
            say("m", "{it@all}", &[]),
            item("i", "it", &["s"]),
        ],
        within(
            "it",
            vec![
                switch("s", "i@item", &[(json!("a"), &["lo"])], &["j"]),
                repeat("lo", 1, &["j"]),
                text("j", "{i@item}{t@result}", &[]),
            ],
        ),
        vec![round("li", "lo", &["t"])],
        within("lo", vec![text("t", "T", &["v"]), assign("v", "lo@n", "+=", &json!(1), &[])]),
    ]);
    check(&plan, Script::new(), "a,b,a", r#"["aT","b","aT"]"#, &[("lo", 2), ("j", 3)]).await;
}

/// A failure with an exception branch inside a round, in some of several parallel rounds.
#[tokio::test(start_paused = true)]
async fn failures_in_parallel_rounds_take_their_own_exception_branch() {
    let mut call = broken("call", &goto(&["r"]), &["ok"]);
    call.2["url"] = json!("http://{i@item}.test/");
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 3, "j@result", &["m"]),
            say("m", "{it@all}", &[]),
            item("i", "it", &["call"]),
        ],
        within(
            "it",
            vec![
                call,
                text("ok", "{call@result}", &["j"]),
                text("r", "failed {i@index}", &["j"]),
                text("j", "{ok@result}{r@result}", &[]),
            ],
        ),
    ]);
    let world = World::new(Script::new(), FakeHttp::new().on("up.test", 200, "up"));
    let ran = world.hold(&plan, [asking("up,down,up,off")]).await.remove(0);
    in_order(&plan, &ran);
    is(&ran, r#"["up","failed 1","up","failed 3"]"#, &[("call", 4), ("j", 4), ("r", 2)]);
}

// Human tasks.

/// A form in one branch, and a join that reads it and the other branch; every turn is like the first.
#[tokio::test(start_paused = true)]
async fn a_form_in_a_branch_is_waited_for_before_the_join() {
    let plan = canvas([vec![
        begin(&["s"]),
        by_query("s", &[("ask", &["f", "b"])], &["b"]),
        form("f", "name", &["m"]),
        llm("b", "go", &["m"]),
        say("m", "{f@name}{b@content}", &[]),
    ]]);
    let turns = || {
        [
            asking("ask"),
            filled(&json!({"name": "Ada"})),
            asking("no"),
            asking("ask"),
            filled(&json!({"name": {"value": "Bo"}})),
        ]
    };
    let ran = hold(&plan, answers(&[("go", &["b", "!"], 10)]), turns()).await;
    let endings: Vec<_> = ran.iter().map(|ran| ran.report.ending).collect();
    use Ending::{Succeeded, Waiting};
    assert_eq!(endings, [Waiting, Succeeded, Succeeded, Waiting, Succeeded]);
    let said: Vec<_> = ran.iter().map(|ran| ran.report.said.as_str()).collect();
    assert_eq!(said, ["", "Adab!", "b!", "", "Bob!"]);
    assert_eq!(ran[0].started(), ["begin", "s", "b"]);
    assert_eq!(ran[1].started(), ["f", "m"]);
    assert_eq!((ran[2].times("f"), ran[2].times("m")), (0, 1));
}

/// Two parallel forms before a join, answered one at a time.
#[tokio::test(start_paused = true)]
async fn two_forms_before_a_join_can_be_answered_in_two_turns() {
    let plan = canvas([vec![
        begin(&["f", "g"]),
        form("f", "x", &["m"]),
        form("g", "y", &["m"]),
        say("m", "{f@x}+{g@y}", &[]),
    ]]);
    let turns = [asking("q"), filled(&json!({"y": "2"})), filled(&json!({"x": "1"}))];
    let ran = hold(&plan, Script::new(), turns).await;
    assert_eq!((ran[0].report.ending, ran[1].report.ending), (Ending::Waiting, Ending::Waiting));
    assert_eq!(ran[1].started(), ["g"]);
    is(&ran[2], "1+2", &[("f", 1), ("m", 1)]);
}

/// Parallel rounds each wait for a person; each is answered separately.
#[tokio::test(start_paused = true)]
async fn parallel_rounds_wait_for_a_person_each() {
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 2, "j@result", &["m"]),
            say("m", "{it@all}", &[]),
            item("i", "it", &["s"]),
        ],
        within(
            "it",
            vec![
                switch("s", "i@item", &[(json!("c"), &["j"])], &["f"]),
                form("f", "x", &["j"]),
                text("j", "{i@item}{f@x}", &[]),
            ],
        ),
    ]);
    let answer = |x: &str| filled(&json!({"x": x}));
    let turns = [asking("a,b,c,d"), answer("1"), answer("2"), answer("3")];
    let ran = hold(&plan, Script::new(), turns.clone()).await;
    let waits: Vec<_> = ran.iter().map(|ran| ran.report.forms.len()).collect();
    // Sequentially: a free slot continues with the next item.
    assert_eq!(waits, [2, 2, 1, 0]);
    // The iteration continues with each of them.
    is(&ran[3], r#"["a1","b2","c","d3"]"#, &[("it", 1), ("f", 1), ("m", 1)]);
    // The next conversation behaves like the first.
    let again = hold(&plan, Script::new(), turns).await;
    assert_eq!(again[3].report.said, ran[3].report.said);
}

/// A form in a Loop asks in every round; in a cycle, in every pass.
#[tokio::test(start_paused = true)]
async fn a_form_in_a_loop_asks_in_every_round() {
    let plan = canvas([
        vec![begin(&["lo"]), repeat("lo", 2, &["m"]), say("m", "{t@result}", &[]), round("li", "lo", &["f"])],
        within(
            "lo",
            vec![
                form("f", "x", &["t"]),
                text("t", "{t@result}{f@x}{lo@n}", &["v"]),
                assign("v", "lo@n", "+=", &json!(1), &[]),
            ],
        ),
    ]);
    let turns = [asking("q"), filled(&json!({"x": "a"})), filled(&json!({"x": "b"}))];
    let ran = hold(&plan, Script::new(), turns).await;
    assert_eq!((ran[0].report.ending, ran[1].report.ending), (Ending::Waiting, Ending::Waiting));
    is(&ran[2], "a0b1", &[("t", 1), ("f", 1), ("m", 1)]);
    let plan = canvas([vec![
        begin(&["f"]),
        form("f", "x", &["s"]),
        switch("s", "f@x", &[(json!("stop"), &["m"])], &["say"]),
        say("say", "again: {f@x}", &["f"]),
        say("m", "bye", &[]),
    ]]);
    let turns = [asking("q"), filled(&json!({"x": "a"})), filled(&json!({"x": "stop"}))];
    let ran = hold(&plan, Script::new(), turns).await;
    assert_eq!((ran[1].report.ending, ran[1].report.said.as_str()), (Ending::Waiting, "again: a"));
    is(&ran[2], "bye", &[("f", 1), ("say", 0)]);
}

/// A run that resumes after a suspension and then fails closes the open Iteration.
#[tokio::test(start_paused = true)]
async fn a_resumed_run_that_fails_closes_what_was_open() {
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 1, "f@x", &["m"]),
            say("m", "{it@all}", &[]),
            item("i", "it", &["f"]),
        ],
        within("it", vec![form("f", "x", &["call"]), broken("call", &json!({}), &[])]),
    ]);
    let ran = hold(&plan, Script::new(), [asking("a"), filled(&json!({"x": "1"}))]).await;
    assert_eq!((ran[0].report.ending, ran[1].report.ending), (Ending::Waiting, Ending::Failed));
    assert!(ran[1].log().contains(&"error it".to_owned()), "{:?}", ran[1].log());
}

// Sizes.

/// Five thousand parallel branches into one join, and ten thousand items: the work per node does not grow.
#[tokio::test(start_paused = true)]
async fn a_wide_canvas_and_a_long_list() {
    use crate::kit::{Does, node};
    let ids: Vec<&'static str> = (0..5_000).map(|n| &*Box::leak(format!("n{n}").into_boxed_str())).collect();
    let mut nodes = vec![node("begin", Does::Echo, &ids), node("j", Does::Echo, &[]).text("done")];
    nodes.extend(ids.iter().map(|&id| node(id, Does::Slow(1), &["j"])));
    let ran = crate::kit::run(&nodes).await;
    assert_eq!((ran.started().len(), ran.times("j")), (5_002, 1));
    let plan = canvas([
        vec![
            begin(&["cut"]),
            cut("cut", "sys.query", &["it"]),
            each("it", "cut@result", 64, "a@result", &["j"]),
            text("j", "{it@all}", &[]),
            item("i", "it", &["a"]),
        ],
        within("it", vec![text("a", "{i@item}", &[])]),
    ]);
    let query = (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let ran = check(&plan, Script::new(), &query, "", &[("a", 10_000), ("j", 1)]).await;
    let expected: Vec<_> = (0..10_000).map(|n| json!(n.to_string())).collect();
    assert_eq!(ran.output("it", "all"), Json::Array(expected));
}

// The engine itself.

/// Stores with a session of this plan.
pub(crate) async fn stored(store: &Arc<MemoryStore>, plan: &Arc<Plan>) -> weft_engine::engine::Stores {
    let session = Session::new(
        weft_core::SessionKey::new(&"t".into(), "s"),
        "c",
        Arc::clone(&plan.version),
        SessionState::new(plan).to_json().unwrap(),
        0,
    );
    SessionStore::create(&**store, &session, &[]).await.unwrap();
    weft_engine::engine::Stores {
        runs: store.clone(),
        sessions: store.clone(),
        spending: store.clone(),
        processes: store.clone(),
        messages: store.clone(),
    }
}

/// A clock that panics once.
struct BreaksAt(std::sync::atomic::AtomicI64);

impl weft_core::seam::Clock for BreaksAt {
    fn now_ms(&self) -> i64 {
        assert_ne!(self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst), 0, "the clock broke");
        1_700_000_000_000
    }

    fn running(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// Wherever the engine itself panics, the run has an ending, its readers reach the end of the stream, and the
/// session is free.
#[tokio::test(start_paused = true)]
async fn a_panic_in_the_engine_leaves_nothing_behind() {
    use crate::kit::{Does, node, seams, turn};
    use futures::FutureExt as _;
    let plan = crate::kit::plan(&[
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Slow(5), &["m"]).text("A"),
        node("m", Does::Say(true), &[]).text("{a@out}"),
    ]);
    let mut unbroken = false;
    for place in 0..40 {
        let store = Arc::new(MemoryStore::default());
        let stores = stored(&store, &plan).await;
        let clock = Arc::new(BreaksAt(place.into()));
        let seams = weft_core::seam::Seams { clock: clock.clone(), ..Arc::into_inner(seams()).unwrap() };
        let engine = weft_engine::Engine::new(Arc::new(seams), Some(stores), Default::default());
        let started =
            std::panic::AssertUnwindSafe(engine.start(turn(&plan, asking("q")))).catch_unwind().await;
        if let Ok(started) = started {
            let mut handle = started.unwrap();
            while handle.entries.next().await.unwrap().is_some() {}
            assert!(!engine.cancel_here(&handle.key), "it is no longer active");
            assert!(store.get(&handle.key).await.unwrap().ending.is_some(), "panic at {place}");
            unbroken |= clock.0.load(std::sync::atomic::Ordering::SeqCst) >= 0;
        }
        clock.0.store(-1, std::sync::atomic::Ordering::SeqCst);
        let mut next = engine.start(turn(&plan, asking("q"))).await.unwrap();
        while next.entries.next().await.unwrap().is_some() {}
        assert_eq!(store.get(&next.key).await.unwrap().ending, Some(Ending::Succeeded));
    }
    assert!(unbroken, "the last places are after the end");
}

/// Cancelled at any moment, a run ends as cancelled, closes what it started, and leaves the session free.
#[tokio::test(start_paused = true)]
async fn a_run_may_be_cancelled_at_any_moment() {
    use crate::kit::{Does, choose, node, seams, turn};
    let in_round = |id, does, to: To| node(id, does, to).within("it");
    let plan = crate::kit::plan(&[
        node("begin", Does::Echo, &["it", "l"]),
        node("it", Does::Each(2, "j@out"), &["m"]).text("{sys.files}"),
        node("i", Does::Item, &["s"]).within("it"),
        in_round("s", choose(&["a", "b"], |n, _| if n % 2 == 0 { vec!["a"] } else { vec!["a", "b"] }), &[]),
        in_round("a", Does::Stream(vec!["x", "y"], 5), &["j", "said"]),
        in_round("b", Does::Slow(7), &["j"]),
        in_round("said", Does::Say(true), &[]).text("{a@out}"),
        in_round("j", Does::Echo, &[]).text("{a@out}{b@out}"),
        node("l", Does::Stream(vec!["1", "2", "3"], 9), &["m"]),
        node("m", Does::Say(true), &[]).text("{l@out}{it@all}"),
    ]);
    let input = || TurnInput { files: vec![json!(1), json!(2), json!(3)], ..asking("q") };
    for moment in 0..200 {
        let store = Arc::new(MemoryStore::default());
        let stores = stored(&store, &plan).await;
        let engine = weft_engine::Engine::new(seams(), Some(stores), Default::default());
        let mut handle = engine.start(turn(&plan, input())).await.unwrap();
        let (mut seen, mut open, mut ending) = (0, std::collections::HashSet::new(), None);
        if moment == 0 {
            handle.cancel.cancel();
        }
        while let Some(entry) = handle.entries.next().await.unwrap() {
            seen += 1;
            if seen == moment {
                handle.cancel.cancel();
            }
            assert_eq!(ending, None, "nothing follows the end");
            match &entry.record {
                Record::NodeStarted { who } => assert!(open.insert(who.activation)),
                Record::NodeFinished { who, .. } => assert!(open.remove(&who.activation)),
                Record::RunFinished { ending: how, .. } => ending = Some(*how),
                _ => {}
            }
        }
        assert!(open.is_empty(), "stopped at {moment}: {open:?} are still open");
        assert_eq!(ending, store.get(&handle.key).await.unwrap().ending);
        let mut next = engine.start(turn(&plan, asking("q"))).await.unwrap();
        while next.entries.next().await.unwrap().is_some() {}
        if ending == Some(Ending::Succeeded) {
            assert!(moment > 30, "{moment}");
            return;
        }
        assert_eq!(ending, Some(Ending::Cancelled));
    }
    panic!("it never came to its end");
}

// Random canvases against a simple reference interpreter.

#[derive(Clone, Debug)]
pub(crate) enum Sort {
    Step(u64),
    Branch(u64),
    Stream(u64),
    Say,
    Ask,
    Approve,
    Outside(Delivery),
    Each(usize, Vec<Spot>),
}

/// A node: its kind, its predecessors (none: the start leads to it), and what it reads.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    sort: Sort,
    ins: Vec<usize>,
    reads: Vec<usize>,
}

/// One level of a canvas with Iterations, to this depth.
pub(crate) fn level(depth: u32) -> BoxedStrategy<Vec<Spot>> {
    let plain = prop_oneof![
        4 => (0..30_u64).prop_map(Sort::Step),
        3 => any::<u64>().prop_map(Sort::Branch),
        1 => (0..9_u64).prop_map(Sort::Stream),
        1 => Just(Sort::Say),
        1 => Just(Sort::Ask),
        1 => Just(Sort::Approve),
        1 => Just(Sort::Outside(Delivery::AtMostOnce)),
        1 => Just(Sort::Outside(Delivery::Idempotent)),
    ];
    let sort = match depth {
        0 => plain.boxed(),
        _ => prop_oneof![5 => plain, 1 => (1..4_usize, level(depth - 1)).prop_map(|(n, body)| Sort::Each(n, body))]
            .boxed(),
    };
    let places = || prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    prop::collection::vec((sort, places(), places()), 1..7)
        .prop_map(|nodes| {
            let before = |i: usize, places: Vec<prop::sample::Index>| {
                let mut places: Vec<_> =
                    if i == 0 { Vec::new() } else { places.iter().map(|place| place.index(i)).collect() };
                places.sort_unstable();
                places.dedup();
                places
            };
            let nodes = nodes.into_iter().enumerate();
            nodes
                .map(|(i, (sort, ins, reads))| Spot { sort, ins: before(i, ins), reads: before(i, reads) })
                .collect()
        })
        .boxed()
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn outs(level: &[Spot], from: usize) -> Vec<usize> {
    (0..level.len()).filter(|&to| level[to].ins.contains(&from)).collect()
}

fn output(node: &Spot) -> &'static str {
    match node.sort {
        Sort::Each(..) => "all",
        Sort::Say => "content",
        Sort::Ask => "v",
        _ => "out",
    }
}

fn takes(bits: u64, way: usize, round: usize) -> bool {
    bits >> ((way + 7 * round) % 64) & 1 == 1
}

/// Draws a level and those inside it; returns the nodes that the start leads to.
pub(crate) fn draw(
    level: &[Spot],
    prefix: &str,
    parent: Option<&'static str>,
    outside: &crate::kit::Outside,
    nodes: &mut Vec<crate::kit::Node>,
) -> Vec<&'static str> {
    use crate::kit::{Does, choose, node};
    let ids: Vec<_> = (0..level.len()).map(|i| leak(format!("{prefix}{i}"))).collect();
    for (i, drawn) in level.iter().enumerate() {
        let to: Vec<_> = outs(level, i).into_iter().map(|to| ids[to]).collect();
        let reads = drawn.reads.iter().map(|&read| format!("{{{}@{}}}", ids[read], output(&level[read])));
        let mut text = format!("<{}>{}", ids[i], reads.collect::<String>());
        let does = match &drawn.sort {
            Sort::Step(ms) => Does::Slow(*ms),
            Sort::Stream(ms) => Does::Stream(vec!["x", "y"], *ms),
            Sort::Say => Does::Say(true),
            Sort::Ask => Does::Ask(vec!["v"]),
            Sort::Approve => Does::Approve(vec!["x", "y"], vec!["t", "u"]),
            Sort::Outside(again) => Does::Outside(*again, Arc::clone(outside)),
            Sort::Branch(_) if to.is_empty() => Does::Echo,
            Sort::Branch(bits) => {
                let (bits, ways) = (*bits, to.clone());
                choose(&to, move |_, ctx| {
                    let round = ctx.round.as_ref().map_or(0, |round| round.index);
                    ways.iter()
                        .enumerate()
                        .filter(|&(way, _)| takes(bits, way, round))
                        .map(|(_, &to)| to)
                        .collect()
                })
            }
            Sort::Each(at_once, body) => {
                let inner = format!("{}x", ids[i]);
                let first = draw(body, &inner, Some(ids[i]), outside, nodes);
                nodes.push(node(leak(format!("{inner}i")), Does::Item, &first).within(ids[i]));
                text = "{sys.files}".to_owned();
                let last = body.len() - 1;
                Does::Each(*at_once, leak(format!("{inner}{last}@{}", output(&body[last]))))
            }
        };
        let drawn = node(ids[i], does, &to).text(leak(text));
        nodes.push(match parent {
            Some(parent) => drawn.within(parent),
            None => drawn,
        });
    }
    (0..level.len()).filter(|&i| level[i].ins.is_empty()).map(|i| ids[i]).collect()
}

/// The value of each node of a level, by number; counts how many times each runs.
fn meaning(
    level: &[Spot],
    prefix: &str,
    round: usize,
    items: usize,
    times: &mut HashMap<String, usize>,
) -> Vec<Json> {
    let mut values: Vec<Option<Json>> = Vec::new();
    for (i, drawn) in level.iter().enumerate() {
        let reached = drawn.ins.is_empty()
            || drawn.ins.iter().any(|&from| {
                let way = outs(level, from).iter().position(|&to| to == i).unwrap();
                let taken = match level[from].sort {
                    Sort::Branch(bits) => takes(bits, way, round),
                    _ => true,
                };
                values[from].is_some() && taken
            });
        let id = format!("{prefix}{i}");
        values.push(reached.then(|| {
            *times.entry(id.clone()).or_default() += 1;
            match &drawn.sort {
                Sort::Stream(_) => json!("xy"),
                Sort::Ask => json!("answer"),
                Sort::Approve => json!("xyt=1;u=2;"),
                Sort::Each(_, body) => {
                    let inner = format!("{id}x");
                    (0..items)
                        .map(|round| meaning(body, &inner, round, items, times).pop().unwrap())
                        .collect()
                }
                _ => {
                    let reads = drawn.reads.iter().filter_map(|&read| values[read].as_ref());
                    json!(format!("<{id}>{}", reads.map(weft_core::value::to_text).collect::<String>()))
                }
            }
        }));
    }
    values.into_iter().map(Option::unwrap_or_default).collect()
}

/// What each message of each round has shown in all turns together, and its final text.
fn heard(turns: &[Ran]) -> (HashMap<String, String>, HashMap<String, String>) {
    let (mut heard, mut meant) = (HashMap::<String, String>::new(), HashMap::new());
    for ran in turns {
        let mut places = HashMap::new();
        for record in &ran.records {
            match record {
                Record::NodeStarted { who } => {
                    let rounds = who.frame.iter().map(|step| format!(" {}", step.round)).collect::<String>();
                    places.insert(who.activation, format!("{}{rounds}", who.node));
                }
                Record::Said { activation, text, .. } => {
                    heard.entry(places[activation].clone()).or_default().push_str(text);
                }
                Record::NodeFinished { who, outputs, .. } if outputs.get("content").is_some() => {
                    let content = outputs.get("content").unwrap().snapshot();
                    meant.insert(places[&who.activation].clone(), weft_core::value::to_text(&content));
                }
                _ => {}
            }
        }
    }
    (heard, meant)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..Default::default() })]

    /// Nested branches, joins, streams, forms and Iterations give the values of the reference interpreter,
    /// however fast each node is and however many run at once.
    #[test]
    fn random_canvases_match_a_reference_interpreter(top in level(2), items in 0..4_usize, at_once in 1..6_usize) {
        let mut nodes = Vec::new();
        let outside: crate::kit::Outside = Arc::new(|_| Box::pin(async { Ok(Json::Null) }));
        let first = draw(&top, "n", None, &outside, &mut nodes);
        nodes.push(crate::kit::node("begin", crate::kit::Does::Echo, &first));
        let limits = weft_engine::EngineLimits { nodes_at_once: at_once, ..Default::default() };
        let input = TurnInput { files: (0..items).map(|n| json!(n)).collect(), ..asking("q") };
        let virtual_time = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let plan = crate::kit::plan(&nodes);
        let mut turns = Vec::new();
        let (mut state, mut input) = (SessionState::new(&plan), input);
        loop {
            let ran = virtual_time.block_on(crate::kit::go_on(&plan, state, input, limits));
            // The state as another process reads it.
            state = SessionState::from_json(&ran.state.to_json().unwrap()).unwrap();
            input = filled(&json!({"v": "answer"}));
            // One decision for each suspended node; the other one in another turn.
            for waiting in &ran.report.forms {
                let task = waiting.form.fields.keys().next().unwrap();
                if task != "v" {
                    let decision = json!({task: if task == "t" { 1 } else { 2 }});
                    input.inputs.insert(waiting.address(), decision);
                }
            }
            let waits = ran.report.ending == Ending::Waiting;
            turns.push(ran);
            if !waits || turns.len() > 200 {
                break;
            }
        }
        let log = turns.iter().flat_map(Ran::log).collect::<Vec<_>>().join("\n");
        let last = turns.last().unwrap();
        prop_assert_eq!(last.report.ending, Ending::Succeeded, "{:?}\n{:#?}\n{}", last.report.error, top, log);
        let ended: Vec<&str> = turns.iter().flat_map(Ran::ended).filter(|id| *id != "begin" && !id.ends_with('i')).collect();
        let mut times = HashMap::new();
        let values = meaning(&top, "n", 0, items, &mut times);
        for (i, value) in values.iter().enumerate() {
            let id = format!("n{i}");
            let came = turns.iter().map(|ran| ran.output(&id, output(&top[i]))).find(|value| !value.is_null());
            prop_assert_eq!(&came.unwrap_or_default(), value, "{}\n{:#?}\n{}", id, top, log);
        }
        for id in &ended {
            let ran_times = ended.iter().filter(|other| *other == id).count();
            prop_assert_eq!(ran_times, times.get(*id).copied().unwrap_or(0), "{}\n{}", id, log);
        }
        prop_assert_eq!(times.values().sum::<usize>(), ended.len());
        let (heard, meant) = heard(&turns);
        prop_assert_eq!(heard, meant, "every message shows all of its text once\n{}", log);
    }
}
