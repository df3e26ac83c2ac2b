//! Assignments: operations on the values at the time a node finishes, so that no update is lost.

use serde_json::{Value as Json, json};
use weft_core::AssignOperator;
use weft_core::journal::{Ending, NextEdges};
use weft_core::{Error, Record};
use weft_engine::SessionState;

use crate::kit::{Does, Node, Ran, asking, go_on, node, plan};

async fn with(globals: Json, nodes: &[Node]) -> Ran {
    let plan = plan(nodes);
    let mut state = SessionState::new(&plan);
    state.globals.extend(globals.as_object().unwrap().clone());
    go_on(&plan, state, asking("q"), Default::default()).await
}

fn in_rounds(parallelism: usize, changes: Vec<(&'static str, AssignOperator, &'static str)>) -> Vec<Node> {
    vec![
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(parallelism, "item@item"), &["end"]).text("{env.list}"),
        node("item", Does::Item, &["change"]).within("each"),
        node("change", Does::Assign(changes), &[]).within("each"),
        node("end", Does::Say(false), &[]).text("{env.v}"),
    ]
}

#[tokio::test]
async fn parallel_rounds_lose_no_assignment() {
    let check = async |old: Json, change: (&'static str, AssignOperator, &'static str), expected: Json| {
        for parallelism in [1, 5, 64] {
            let list: Vec<u32> = (0..12).collect();
            let globals = json!({"env.list": list, "env.v": old});
            let ran = with(globals, &in_rounds(parallelism, vec![change])).await;
            assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
            assert_eq!(ran.state.globals["env.v"], expected, "{change:?}, {parallelism} at once");
        }
    };
    let all: Json = (0..12).collect();
    check(json!([]), ("env.v", AssignOperator::Append, "item@item"), all).await;
    check(json!([]), ("env.v", AssignOperator::Extend, "[1, 2]"), [1, 2].repeat(12).into()).await;
    check(json!(0), ("env.v", AssignOperator::Add, "item@item"), json!(66)).await;
    check(json!(100), ("env.v", AssignOperator::Subtract, "item@index"), json!(34)).await;
    check(json!(1), ("env.v", AssignOperator::Multiply, "2"), json!(4096)).await;
    check(json!(4096), ("env.v", AssignOperator::Divide, "2"), json!(1)).await;
    check((0..13).collect(), ("env.v", AssignOperator::RemoveFirst, "null"), json!([12])).await;
    check((0..13).collect(), ("env.v", AssignOperator::RemoveLast, "null"), json!([0])).await;
    // An operation that reads its own target reads the current value.
    check(
        json!(""),
        ("env.v", AssignOperator::Set, "{env.v}{item@item};"),
        "0;1;2;3;4;5;6;7;8;9;10;11;".into(),
    )
    .await;
    check(json!(1), ("env.v", AssignOperator::Add, "env.v"), json!(4096)).await;
    let nested = json!({"by": {"n": 12}, "other": 1});
    check(json!({"by": {"n": 0}, "other": 1}), ("env.v.by.n", AssignOperator::Add, "1"), nested).await;
}

#[tokio::test]
async fn parallel_branches_change_different_members_of_one_variable() {
    let ran = with(
        json!({"env.o": {}, "env.v": 0}),
        &[
            node("begin", Does::Echo, &["a", "b"]),
            node(
                "a",
                Does::Assign(vec![
                    ("env.o.a", AssignOperator::Set, "1"),
                    ("env.v", AssignOperator::Add, "1"),
                ]),
                &["end"],
            ),
            node(
                "b",
                Does::Assign(vec![
                    ("env.o.b", AssignOperator::Set, "2"),
                    ("env.v", AssignOperator::Add, "10"),
                ]),
                &["end"],
            ),
            node("end", Does::Say(false), &[]).text("{env.o} {env.v}"),
        ],
    )
    .await;
    assert_eq!(ran.report.said, r#"{"a":1,"b":2} 11"#);
}

#[tokio::test]
async fn loop_variables_and_outputs_can_be_assigned_like_globals() {
    let ran = with(
        json!({}),
        &[
            node("begin", Does::Echo, &["loop"]),
            node("loop", Does::Repeat, &["end"]),
            node("item", Does::Until(3), &["a", "b"]).within("loop"),
            node("a", Does::Assign(vec![("loop@n", AssignOperator::Add, "1")]), &[]).within("loop"),
            node("b", Does::Assign(vec![("loop@n", AssignOperator::Add, "10")]), &[]).within("loop"),
            node("end", Does::Say(false), &[]).text("{loop@n}"),
        ],
    )
    .await;
    assert_eq!(ran.report.said, "33");
    let ran = with(
        json!({}),
        &[
            node("begin", Does::Echo, &["a", "b"]).text("start"),
            node("a", Does::Assign(vec![("begin@out", AssignOperator::Set, "{begin@out} a")]), &["end"]),
            node("b", Does::Assign(vec![("begin@out", AssignOperator::Set, "{begin@out} b")]), &["end"]),
            node("end", Does::Say(false), &[]).text("{begin@out}"),
        ],
    )
    .await;
    assert_eq!(ran.report.said, "start a b");
}

#[tokio::test]
async fn the_assignments_of_a_node_are_applied_in_order() {
    let changes = vec![
        ("env.n", AssignOperator::Add, "1"),
        ("env.n", AssignOperator::Multiply, "env.n"),
        ("env.o.a.c", AssignOperator::Set, "x{env.n}"),
        ("env.t", AssignOperator::Overwrite, "env.o.a"),
        ("env.new", AssignOperator::Append, "env.o.a.c"),
        ("env.new.0", AssignOperator::Set, "{env.new.0}!"),
    ];
    let globals = json!({"env.n": 2, "env.o": {"a": {"b": 1}}, "env.t": ""});
    let ran =
        with(globals, &[node("begin", Does::Echo, &["a"]), node("a", Does::Assign(changes), &[])]).await;
    let globals = &ran.state.globals;
    assert_eq!(globals["env.n"], json!(9));
    assert_eq!(globals["env.o"], json!({"a": {"b": 1, "c": "x9"}}));
    assert_eq!(globals["env.t"], json!({"b": 1, "c": "x9"}));
    assert_eq!(globals["env.new"], json!(["x9!"]));
}

#[tokio::test]
async fn an_assignment_that_cannot_be_applied_fails_the_node_and_changes_nothing() {
    let check = async |old: Json, change: (&'static str, AssignOperator, &'static str), expected: &str| {
        let changes = vec![("env.other", AssignOperator::Set, "1"), change];
        let nodes = [node("begin", Does::Echo, &["a"]), node("a", Does::Assign(changes), &[])];
        let ran = with(json!({"env.v": old, "env.other": 0}), &nodes).await;
        assert_eq!(ran.report.ending, Ending::Failed);
        let error = ran.report.error.as_ref().map(Error::full).unwrap();
        assert!(error.starts_with("a failed: cannot change `env.v") && error.contains(expected), "{error}");
        assert_eq!((&ran.state.globals["env.v"], &ran.state.globals["env.other"]), (&old, &json!(0)));
    };
    check(json!("precious"), ("env.v.note", AssignOperator::Set, "1"), "has no members").await;
    check(json!(7), ("env.v.note", AssignOperator::Set, "1"), "has no members").await;
    check(json!([1, 2]), ("env.v.note", AssignOperator::Set, "1"), "is not an index").await;
    check(json!([1, 2]), ("env.v.2", AssignOperator::Set, "1"), "a list of 2: there is no element 2").await;
    check(json!("text"), ("env.v", AssignOperator::Append, "1"), "not a list").await;
    check(json!(["a"]), ("env.v", AssignOperator::Append, "1"), "doesn't fit").await;
    check(json!(1), ("env.v", AssignOperator::Divide, "0"), "divide by zero").await;
}

#[tokio::test]
async fn an_index_sets_that_element() {
    let changes = vec![("env.v.0", AssignOperator::Set, "9"), ("env.v.-1.a", AssignOperator::Set, "true")];
    let nodes = [node("begin", Does::Echo, &["a"]), node("a", Does::Assign(changes), &[])];
    let ran = with(json!({"env.v": [1, {"a": false}]}), &nodes).await;
    assert_eq!(ran.state.globals["env.v"], json!([9, {"a": true}]));
}

#[tokio::test]
async fn exception_settings_catch_an_assignment_that_cannot_be_applied() {
    // Each operation is valid by itself; the second one to finish no longer fits the value left by the first.
    let nodes = [
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Assign(vec![("env.v", AssignOperator::Append, "1")]), &["end"]),
        node("b", Does::Assign(vec![("env.v", AssignOperator::Append, r#""x""#)]), &["end"])
            .on_error(&["sorry"], None),
        node("sorry", Does::Say(false), &["end"]).text("sorry: {b@_ERROR}"),
        node("end", Does::Echo, &[]).text("{env.v}"),
    ];
    let ran = with(json!({"env.v": []}), &nodes).await;
    assert_eq!(ran.report.ending, Ending::Succeeded);
    assert_eq!(ran.output("end", "out"), "[1]");
    assert!(ran.report.said.contains("cannot change `env.v`"), "{}", ran.report.said);
}

#[tokio::test]
async fn journals_hold_the_operation() {
    let nodes = in_rounds(1, vec![("env.v", AssignOperator::Append, "item@item")]);
    let ran = with(json!({"env.list": ["x"], "env.v": []}), &nodes).await;
    let assigned = ran.records.iter().find_map(|record| match record {
        Record::NodeFinished { who, assigned, route, inputs, .. } if who.node.as_str() == "change" => {
            assert_eq!(*route, NextEdges::Routed(weft_core::Route::Onward));
            // The journal does not store every state of a list that grows in every round.
            let read: Vec<_> = inputs.0.iter().map(|(name, _)| name.to_string()).collect();
            assert_eq!(read, ["item@item"]);
            Some(json!(assigned))
        }
        _ => None,
    });
    assert_eq!(
        assigned.unwrap(),
        json!([{"target": "env.v", "operator": "append", "reference": "item@item"}])
    );
}
