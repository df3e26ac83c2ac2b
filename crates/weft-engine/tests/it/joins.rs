//! Joins, skips and readiness: rows 1–6 of the scheduling table.

use std::time::Duration;

use serde_json::json;
use weft_core::journal::Ending;

use crate::kit::{Does, choose, node, run};

#[tokio::test(start_paused = true)]
async fn a_diamond_joins_once_after_both() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Slow(30), &["j"]).text("A"),
        node("b", Does::Slow(10), &["j"]).text("B"),
        node("j", Does::Echo, &[]).text("{a@out}{b@out}"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "a", "b", "j"]);
    assert_eq!(ran.output("j", "out"), "AB");
}

/// Row 1: a dependency in the same batch that is still running is not met.
#[tokio::test(start_paused = true)]
async fn a_reference_waits_for_its_node_to_finish() {
    let ran = run(&[
        node("begin", Does::Echo, &["x", "c"]),
        node("x", Does::Slow(50), &["c"]).text("X"),
        node("c", Does::Echo, &[]).text("<{x@out}>"),
    ])
    .await;
    assert_eq!(ran.times("c"), 1);
    assert_eq!(ran.output("c", "out"), "<X>");
}

/// Row 1, without an edge between the two.
#[tokio::test(start_paused = true)]
async fn a_reference_waits_even_without_an_edge() {
    let ran = run(&[
        node("begin", Does::Echo, &["c", "x"]),
        node("c", Does::Echo, &[]).text("<{x@out}>"),
        node("x", Does::Slow(50), &[]).text("X"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "x", "c"]);
    assert_eq!(ran.output("c", "out"), "<X>");
}

/// Row 3: an any-of join after a branch runs once, and the branch not taken reads as empty.
#[tokio::test]
async fn an_any_of_join_after_a_branch_runs_once() {
    for (taken, expected) in [("a", "A"), ("b", "B")] {
        let ran = run(&[
            node("begin", Does::Echo, &["s"]),
            node("s", choose(&["a", "b"], move |_, _| vec![taken]), &[]),
            node("a", Does::Echo, &["m"]).text("A"),
            node("b", Does::Echo, &["m"]).text("B"),
            node("m", Does::Say(true), &[]).text("{a@out}{b@out}"),
        ])
        .await;
        assert_eq!(ran.times("m"), 1);
        assert_eq!(ran.output("m", "content"), expected);
        assert_eq!(ran.report.said, expected);
    }
}

/// Row 3: branches of unequal length, one of them straight into the join.
#[tokio::test(start_paused = true)]
async fn a_join_of_unequal_branches_runs_once() {
    for taken in [vec!["a"], vec!["m"], vec!["a", "m"]] {
        let taken_here = taken.clone();
        let ran = run(&[
            node("begin", Does::Echo, &["s"]),
            node("s", choose(&["a", "m"], move |_, _| taken_here.clone()), &[]),
            node("a", Does::Slow(5), &["b"]).text("A"),
            node("b", Does::Slow(5), &["m"]).text("{a@out}B"),
            node("m", Does::Say(true), &[]).text("[{b@out}]"),
        ])
        .await;
        let expected = if taken.contains(&"a") { "[AB]" } else { "[]" };
        assert_eq!((ran.times("m"), ran.report.said.as_str()), (1, expected), "{taken:?}");
    }
}

/// Row 3: a skip propagates through whole branches, and a join without remaining inputs is skipped too.
#[tokio::test]
async fn a_skip_propagates() {
    let ran = run(&[
        node("begin", Does::Echo, &["s"]),
        node("s", choose(&["a", "b"], |_, _| vec!["b"]), &[]),
        node("a", Does::Echo, &["a1", "a2"]),
        node("a1", Does::Echo, &["aj"]),
        node("a2", Does::Echo, &["aj"]),
        node("aj", Does::Echo, &["end"]),
        node("b", Does::Echo, &["end"]).text("B"),
        node("end", Does::Echo, &[]).text("{aj@out}{b@out}"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "s", "b", "end"]);
    assert_eq!(ran.output("end", "out"), "B");
    let skipped: Vec<_> = ran.log().into_iter().filter(|l| l.starts_with("skip")).collect();
    assert_eq!(skipped, ["skip a", "skip a1", "skip a2", "skip aj"]);
}

/// Row 3: one of two branches that both continue, each after its own branch.
#[tokio::test]
async fn consecutive_branches_join_once() {
    let ran = run(&[
        node("begin", Does::Echo, &["s", "t"]),
        node("s", choose(&["a", "b"], |_, _| vec!["a"]), &[]),
        node("t", choose(&["c", "d"], |_, _| vec!["d"]), &[]),
        node("a", Does::Echo, &["j"]).text("a"),
        node("b", Does::Echo, &["j"]).text("b"),
        node("c", Does::Echo, &["j"]).text("c"),
        node("d", Does::Echo, &["j"]).text("d"),
        node("j", Does::Echo, &[]).text("{a@out}{b@out}{c@out}{d@out}"),
    ])
    .await;
    assert_eq!(ran.times("j"), 1);
    assert_eq!(ran.output("j", "out"), "ad");
}

/// Row 4: two producers with the same two successors run each of them once.
#[tokio::test(start_paused = true)]
async fn crossing_edges_run_each_node_once() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Slow(1), &["c", "d"]),
        node("b", Does::Slow(2), &["c", "d"]),
        node("c", Does::Echo, &[]),
        node("d", Does::Echo, &[]),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "a", "b", "c", "d"]);
}

/// Row 2: readiness belongs to the turn, not to the session.
#[tokio::test(start_paused = true)]
async fn the_second_turn_waits_like_the_first() {
    let nodes = [
        node("begin", Does::Echo, &["x", "c"]),
        node("x", Does::Slow(20), &["c"]).text("{sys.query}"),
        node("c", Does::Say(false), &[]).text("<{x@out}>"),
    ];
    let plan = crate::kit::plan(&nodes);
    let mut state = weft_engine::SessionState::new(&plan);
    for query in ["one", "two"] {
        let ran = crate::kit::go_on(&plan, state, crate::kit::asking(query), Default::default()).await;
        assert_eq!(ran.report.said, format!("<{query}>"));
        assert_eq!(ran.started(), ["begin", "x", "c"]);
        state = ran.state;
    }
    assert_eq!(state.turns, 2);
}

/// Row 5: a session starts with the canvas's values, whatever another session did.
#[tokio::test]
async fn sessions_are_isolated() {
    let nodes = [
        node("begin", Does::Echo, &["count"]),
        node("count", Does::Count("env.n"), &["m"]),
        node("m", Does::Say(false), &[]).text("{env.n}"),
    ];
    let plan = crate::kit::plan(&nodes);
    let first = crate::kit::go_on(
        &plan,
        weft_engine::SessionState::new(&plan),
        crate::kit::asking(""),
        Default::default(),
    )
    .await;
    let again =
        crate::kit::go_on(&plan, first.state.clone(), crate::kit::asking(""), Default::default()).await;
    let other = crate::kit::go_on(
        &plan,
        weft_engine::SessionState::new(&plan),
        crate::kit::asking(""),
        Default::default(),
    )
    .await;
    assert_eq!([first.report.said, again.report.said, other.report.said], ["1", "2", "1"]);
}

/// Row 6: a node is announced when it really starts, and finishes.
#[tokio::test(start_paused = true)]
async fn nothing_is_announced_before_it_starts() {
    let ran = run(&[
        node("begin", Does::Echo, &["x", "j"]),
        node("x", Does::Slow(5), &["j"]),
        node("j", Does::Echo, &[]).text("{x@out}"),
    ])
    .await;
    assert_eq!(ran.log(), ["start begin", "end begin", "start x", "end x", "start j", "end j", "succeeded"]);
}

/// Row 30: one of several texts is chosen by the seed, deterministically, and never one that refers to a branch
/// not taken.
#[tokio::test]
async fn one_of_several_texts_is_chosen_and_only_its_references_count() {
    let nodes = [
        node("begin", Does::Echo, &["s"]),
        node("s", choose(&["a", "b"], |_, _| vec!["b"]), &[]),
        node("a", Does::Echo, &["m"]).text("A"),
        node("b", Does::Echo, &["m"]).text("B"),
        node("m", Does::Say(true), &[]).text("{a@out}!").text("{b@out}!").text("{a@out}{b@out}"),
    ];
    let first = run(&nodes).await;
    assert_eq!(first.report.said, "B!");
    assert_eq!(run(&nodes).await.report.said, first.report.said);
}

/// Rows 40 and 41 in the engine: a branch to several targets runs them in parallel.
#[tokio::test(start_paused = true)]
async fn a_branch_may_take_several_targets() {
    let began = tokio::time::Instant::now();
    let ran = run(&[
        node("begin", Does::Echo, &["s"]),
        node("s", choose(&["a", "b", "c"], |_, _| vec!["a", "c"]), &[]),
        node("a", Does::Slow(300), &["j"]).text("a"),
        node("b", Does::Slow(300), &["j"]).text("b"),
        node("c", Does::Slow(300), &["j"]).text("c"),
        node("j", Does::Echo, &[]).text("{a@out}{b@out}{c@out}"),
    ])
    .await;
    assert_eq!(ran.output("j", "out"), "ac");
    assert!(began.elapsed() < Duration::from_millis(500), "virtual time: both ran at once");
}

/// Circular references would wait for each other forever; one of them reads as empty.
#[tokio::test]
async fn circular_references_do_not_deadlock() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Echo, &[]).text("a{b@out}"),
        node("b", Does::Echo, &[]).text("b{a@out}"),
    ])
    .await;
    assert_eq!(ran.report.ending, Ending::Succeeded);
    assert_eq!((ran.times("a"), ran.times("b")), (1, 1));
}

/// A reference to a node that no edge leads to reads as empty.
#[tokio::test]
async fn a_reference_to_an_unreachable_node_is_empty() {
    let ran = run(&[
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Echo, &[]).text("<{lost@out}>"),
        node("lost", Does::Echo, &["a"]),
    ])
    .await;
    assert_eq!(ran.output("a", "out"), json!("<>"));
}

/// Agents call other nodes as tools; those run by themselves only if an edge leads to them.
#[tokio::test]
async fn a_tool_node_runs_by_itself_only_if_an_edge_leads_to_it() {
    let check = async |to: &[&'static str], times: usize| {
        let nodes = [
            node("begin", Does::Echo, &["agent"]),
            node("agent", Does::Calls("tool"), to),
            node("tool", Does::Echo, &["m"]),
            node("m", Does::Say(false), &[]).text("{agent@out}{tool@out}!"),
        ];
        let ran = run(&nodes).await;
        assert_eq!((ran.times("tool"), ran.times("m")), (times, 1), "{to:?}");
        assert_eq!(ran.report.ending, Ending::Succeeded);
    };
    check(&["m"], 0).await;
    check(&["tool"], 1).await;
}
