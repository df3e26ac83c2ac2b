//! Whole canvases of real components: what each row of the tables promises, tested end to end.

use serde_json::json;
use weft_core::TurnInput;
use weft_core::journal::{Ending, Record};
use weft_models::script::{Fault, Reply, Script, Step};
use weft_testkit::fake_http::FakeHttp;

use crate::kit::asking;
use crate::real::{World, ask, compiled, drawn};

fn llm(prompt: &str) -> serde_json::Value {
    json!({"llm_id": "m", "sys_prompt": "s", "prompts": [{"role": "user", "content": prompt}], "cite": false})
}

fn switch(value: &str, yes: &str, no: &str) -> serde_json::Value {
    json!({
        "conditions": [{
            "logical_operator": "and",
            "items": [{"cpn_id": "sys.query", "operator": "=", "value": value}],
            "to": [yes],
        }],
        "end_cpn_ids": [no],
    })
}

/// Row 3: the pattern that loses the whole answer in other engines: a Switch, two branches, one Message whose
/// text names both.
#[tokio::test(start_paused = true)]
async fn a_message_after_a_switch_names_both_branches() {
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Switch:s"], None),
        ("Switch:s", "Switch", switch("a", "LLM:a", "LLM:b"), &["LLM:a", "LLM:b"], None),
        ("LLM:a", "LLM", llm("A {sys.query}"), &["Message:m"], None),
        ("LLM:b", "LLM", llm("B {sys.query}"), &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{LLM:a@content}{LLM:b@content}"]}), &[], None),
    ]);
    for (query, expected) in [("a", "from a"), ("x", "from b")] {
        let script = Script::new()
            .reply(Reply::text("from a").when_user("A ").always())
            .reply(Reply::text("from b").when_user("B ").always());
        let ran = ask(&plan, script, query).await;
        assert_eq!((ran.report.said.as_str(), ran.times("Message:m")), (expected, 1));
        assert_eq!(ran.report.ending, Ending::Succeeded);
    }
}

/// Row 95 of the contract: only the branch that ran supplies the text, through an aggregator and
/// through alternative texts.
#[tokio::test(start_paused = true)]
async fn only_the_branch_that_ran_supplies_the_text() {
    let aggregator = json!({"groups": [{"group_name": "answer", "type": "string", "variables": [
        {"value": "StringTransform:a@result"}, {"value": "StringTransform:b@result"},
    ]}]});
    let text = |script: &str| json!({"method": "merge", "script": script, "delimiters": [","]});
    let texts = json!({"content": ["{StringTransform:a@result}!", "{StringTransform:b@result}!"]});
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Switch:s"], None),
        ("Switch:s", "Switch", switch("a", "StringTransform:a", "StringTransform:b"), &[], None),
        ("StringTransform:a", "StringTransform", text("A"), &["VariableAggregator:v", "Message:n"], None),
        ("StringTransform:b", "StringTransform", text("B"), &["VariableAggregator:v", "Message:n"], None),
        ("VariableAggregator:v", "VariableAggregator", aggregator, &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{VariableAggregator:v@answer}"]}), &[], None),
        ("Message:n", "Message", texts, &[], None),
    ]);
    for (query, expected) in [("a", "A"), ("x", "B")] {
        let ran = ask(&plan, Script::new(), query).await;
        assert_eq!(ran.output("Message:m", "content"), expected);
        assert_eq!(ran.output("Message:n", "content"), format!("{expected}!"));
        assert_eq!(ran.times("VariableAggregator:v"), 1);
    }
}

/// Row 83: nested access, both spellings of braces, native types for a reference on its own.
#[tokio::test]
async fn references_reach_into_values_and_keep_their_types() {
    let pick = json!({"operations": "topN", "n": 2, "query": "begin@data.results"});
    let text = "{begin@data.results.0.score} {{sys.query}} {{ env.n }} {begin@data.results.-1.score}";
    let plan = drawn(&[
        (
            "begin",
            "Begin",
            json!({"inputs": {"data": {"type": "object", "name": "data"}}}),
            &["ListOperations:l", "Message:m"],
            None,
        ),
        ("ListOperations:l", "ListOperations", pick, &[], None),
        ("Message:m", "Message", json!({"content": [text]}), &[], None),
    ]);
    let data = json!({"results": [{"score": 0.5}, {"score": 7}]});
    let inputs = json!({"data": {"value": data}}).as_object().unwrap().clone();
    let world = World::new(Script::new(), FakeHttp::new());
    let input = TurnInput { inputs, query: "Q".into(), ..TurnInput::default() };
    let ran = world.hold(&plan, [input]).await.remove(0);
    assert_eq!(ran.report.said, "0.5 Q 0 7");
    assert_eq!(ran.output("ListOperations:l", "result"), data["results"]);
}

/// Rows 32 and 34: spaces stay, and inserted values are not expanded again.
#[tokio::test]
async fn user_input_is_never_expanded() {
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["Hi {sys.query} you, {sys.user_id}."]}), &[], None),
    ]);
    let world = World::new(Script::new(), FakeHttp::new());
    let input = TurnInput { user_id: "secret".into(), ..asking("{sys.user_id}") };
    let ran = world.hold(&plan, [input]).await.remove(0);
    assert_eq!(ran.report.said, "Hi {sys.user_id} you, secret.");
}

/// Rows 88 and 89 of the contract, with a real model node: the text streams, reasoning is separate, and the
/// model finishes after its last chunk.
#[tokio::test(start_paused = true)]
async fn a_model_streams_into_a_message() {
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Agent:a"], None),
        ("Agent:a", "Agent", llm("{sys.query}"), &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{Agent:a@content}"]}), &[], None),
    ]);
    let reply = Reply::default().thinking("hm").then(Step::Text("Par".into())).then(Step::Text("is".into()));
    let ran = ask(&plan, Script::new().reply(reply.delay_ms(5)), "capital?").await;
    let log = ran.log();
    assert_eq!(
        log[2..],
        [
            "start Agent:a",
            "start Message:m",
            "think Message:m",
            "say Message:m \"hm\"",
            "thought Message:m",
            "say Message:m \"Par\"",
            "say Message:m \"is\"",
            "said Message:m",
            "end Agent:a",
            "end Message:m",
            "succeeded",
        ]
    );
    assert_eq!(ran.output("Agent:a", "content"), "Paris");
}

/// Row 80 of the contract: interrupted reasoning is closed anyway.
#[tokio::test(start_paused = true)]
async fn a_research_that_fails_closes_its_reasoning() {
    let params = json!({"llm_id": "m", "dataset_ids": ["*"]});
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["DeepResearch:d"], None),
        ("DeepResearch:d", "DeepResearch", params, &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{DeepResearch:d@content}"]}), &[], None),
    ]);
    let reply = Reply::default().then(Step::Text("I look.".into())).then(Step::Fault(Fault::Cut));
    let ran = ask(&plan, Script::new().reply(reply.delay_ms(5).always()), "why?").await;
    let log = ran.log();
    let thought = |line: &&String| ["think", "thought"].contains(&line.split(' ').next().unwrap());
    assert_eq!(
        log.iter().filter(thought).collect::<Vec<_>>(),
        ["think Message:m", "thought Message:m"],
        "{log:#?}"
    );
    assert!(
        log.contains(&"say Message:m \"I look.\"".to_owned()) && log.last().unwrap().starts_with("failed"),
        "{log:#?}"
    );
}

/// Row 51 of the contract: it streams only into a Message, without an exception branch and without a
/// schema.
#[tokio::test(start_paused = true)]
async fn a_model_streams_only_when_allowed() {
    let with = |extra: serde_json::Value| {
        let mut params = llm("{sys.query}");
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        params
    };
    let goto = with(json!({"exception_method": "goto", "exception_goto": ["Message:r"]}));
    for (params, pieces) in [(llm("{sys.query}"), 3), (goto, 1)] {
        let plan = drawn(&[
            ("begin", "Begin", json!({}), &["LLM:l"], None),
            ("LLM:l", "LLM", params, &["Message:m"], None),
            ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
            ("Message:r", "Message", json!({"content": ["rescued"]}), &[], None),
        ]);
        let script = Script::new().reply(Reply::pieces(["a", "b", "c"]).delay_ms(1).always());
        let ran = ask(&plan, script, "q").await;
        let said = ran.records.iter().filter(|r| matches!(r, Record::Said { .. })).count();
        assert_eq!((said, ran.report.said.as_str()), (pieces, "abc"));
    }
}

/// Row 90 of the contract: the three outcomes of a failing model.
#[tokio::test(start_paused = true)]
async fn a_failure_takes_a_branch_a_default_or_fails_the_run() {
    let run = |extra: serde_json::Value| async move {
        let mut params = llm("{sys.query}");
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let plan = drawn(&[
            ("begin", "Begin", json!({}), &["LLM:l"], None),
            ("LLM:l", "LLM", params, &["Message:m"], None),
            ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
            ("Message:r", "Message", json!({"content": ["rescued"]}), &[], None),
        ]);
        let error = Reply::error(weft_core::ErrorKind::Invalid, "no such model").always();
        ask(&plan, Script::new().reply(error), "q").await
    };
    let goto = run(json!({"exception_method": "goto", "exception_goto": ["Message:r"]})).await;
    assert_eq!((goto.report.ending, goto.report.said.as_str()), (Ending::Succeeded, "rescued"));
    let default = run(json!({"exception_method": "comment", "exception_default_value": "sorry"})).await;
    assert_eq!((default.report.ending, default.report.said.as_str()), (Ending::Succeeded, "sorry"));
    let none = run(json!({"exception_method": null})).await;
    assert_eq!(none.report.ending, Ending::Failed);
    let error = none.report.error.as_ref().unwrap().full();
    assert!(error.contains("LLM:l") && error.contains("no such model"), "{error}");
}

/// Row 94 of the contract: a Loop stops at its condition, and at its maximum.
#[tokio::test]
async fn a_loop_stops_at_its_condition_and_at_its_maximum() {
    for (limit, maximum, expected) in [(3, 10, "3"), (100, 4, "4"), (100, 1, "1"), (0, 1, "0")] {
        let params = json!({
            "loop_variables": [{"variable": "n", "type": "number", "input_mode": "constant", "value": 0}],
            "logical_operator": "and",
            "loop_termination_condition":
                [{"variable": "Loop:l@n", "operator": "≥", "value": limit, "input_mode": "constant"}],
            "maximum_loop_count": maximum,
        });
        let count = json!({"variables": [{"variable": "Loop:l@n", "operator": "+=", "parameter": 1}]});
        let plan = drawn(&[
            ("begin", "Begin", json!({}), &["Loop:l"], None),
            ("Loop:l", "Loop", params, &["Message:m"], None),
            ("LoopItem:i", "LoopItem", json!({}), &["VariableAssigner:v"], Some("Loop:l")),
            ("VariableAssigner:v", "VariableAssigner", count, &[], Some("Loop:l")),
            ("Message:m", "Message", json!({"content": ["{Loop:l@n}"]}), &[], None),
        ]);
        let ran = ask(&plan, Script::new(), "q").await;
        assert_eq!(
            (ran.report.said.as_str(), ran.times("VariableAssigner:v").to_string().as_str()),
            (expected, expected)
        );
    }
}

/// Row 96 of the contract and row 24: `sys.*` are set every turn, turns are counted, files are read.
#[tokio::test]
async fn session_values_are_set_every_turn() {
    let text = "{sys.conversation_turns} {sys.user_id} {sys.files} {sys.query}";
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["Message:m"], None),
        ("Message:m", "Message", json!({"content": [text]}), &[], None),
    ]);
    let world = World::new(Script::new(), FakeHttp::new());
    let first = TurnInput { user_id: "ada".into(), files: vec![json!("text of a file")], ..asking("one") };
    let ran = world.hold(&plan, [first, TurnInput::default()]).await;
    assert_eq!(ran[0].report.said, r#"1 ada ["text of a file"] one"#);
    assert_eq!(ran[1].report.said, "2  [] ");
}

/// Row 18: a question after a turn without an answer is sent anyway.
#[tokio::test]
async fn a_question_after_an_unanswered_one_is_sent_to_the_model() {
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["LLM:l"], None),
        ("LLM:l", "LLM", llm("{sys.query}"), &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
    ]);
    let script = Script::new()
        .reply(Reply::error(weft_core::ErrorKind::Invalid, "down").when_user("first").times(1))
        .reply(Reply::text("here").when_user("second"));
    let world = World::new(script, FakeHttp::new());
    let ran = world.hold(&plan, [asking("first"), asking("second")]).await;
    assert_eq!(ran[1].report.said, "here", "{:?}", ran[1].report.error);
    let sent = world.model.requests();
    let last = &sent.last().unwrap().messages;
    assert!(last.last().unwrap().text.contains("second"), "{last:#?}");
}

/// Row 28: one retry policy, and only before the first chunk: an interrupted answer is not silently restarted.
#[tokio::test(start_paused = true)]
async fn an_interrupted_answer_is_an_error_with_the_text_so_far() {
    let plan = drawn(&[
        ("begin", "Begin", json!({}), &["LLM:l"], None),
        ("LLM:l", "LLM", llm("{sys.query}"), &["Message:m"], None),
        ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
    ]);
    let broken = Reply::pieces(["half an "]).then(Step::Error(weft_models::script::Failure {
        kind: weft_core::ErrorKind::Unavailable,
        message: "gone".into(),
        retry_after_ms: None,
    }));
    let ran = ask(&plan, Script::new().reply(broken.always()), "q").await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Failed, "half an "));
}

/// Rows 31 and 47: running does not change the canvas: the same plan serves every session.
#[tokio::test]
async fn a_plan_is_not_changed_by_its_runs() {
    let text = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../canvases/structured_answer/canvas.json"),
    )
    .unwrap();
    let plan = compiled(&text).unwrap();
    let before = plan.globals.clone();
    let script = || {
        Script::parse(
            &std::fs::read_to_string(
                std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("../../canvases/structured_answer/script.json"),
            )
            .unwrap(),
        )
        .unwrap()
    };
    let first = ask(&plan, script(), "q").await;
    let second = ask(&plan, script(), "q").await;
    assert_eq!(first.log(), second.log());
    assert_eq!(plan.globals, before);
}

/// A window wider than the default is loaded from the store.
#[test]
fn the_conversation_is_loaded_as_far_as_the_widest_window() {
    for (window, expected) in [(1, 13), (40, 40)] {
        let mut params = llm("{sys.query}");
        params["message_history_window_size"] = window.into();
        let plan = drawn(&[
            ("begin", "Begin", json!({}), &["LLM:l"], None),
            ("LLM:l", "LLM", params, &["Message:m"], None),
            ("Message:m", "Message", json!({"content": ["{LLM:l@content}"]}), &[], None),
        ]);
        assert_eq!(weft_engine::session::turns_looked_back(&plan), expected);
    }
}
