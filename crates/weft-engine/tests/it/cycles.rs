//! Cycles: each pass is a new activation; joins inside and after a cycle run once per pass.

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::json;
use weft_core::effect::Delivery;
use weft_core::journal::Ending;
use weft_dsl::link::Finding;

use crate::kit::{Does, Outside, choose, node, plan_and_findings, run};

#[tokio::test]
async fn a_cycle_repeats_until_its_branch_leaves() {
    let ran = run(&[
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Count("env.n"), &["s"]),
        node("s", choose(&["a", "end"], |n, _| if n < 2 { vec!["a"] } else { vec!["end"] }), &[]),
        node("end", Does::Say(false), &[]).text("{env.n}"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "a", "s", "a", "s", "a", "s", "end"]);
    assert_eq!(ran.report.said, "3");
    assert_eq!(ran.report.ending, Ending::Succeeded);
}

/// A slow node completes while a cycle beside it always has something ready to run.
#[tokio::test]
async fn a_busy_cycle_does_not_starve_other_nodes() {
    let elsewhere: Outside = Arc::new(|_| {
        async {
            for _ in 0..3 {
                tokio::spawn(async {}).await.unwrap();
            }
            Ok(json!("done"))
        }
        .boxed()
    });
    let ran = run(&[
        node("begin", Does::Echo, &["a", "o"]),
        node("o", Does::Outside(Delivery::Idempotent, elsewhere), &["after"]),
        node("after", Does::Echo, &[]),
        node("a", Does::Count("env.n"), &["s"]),
        node("s", choose(&["a", "end"], |n, _| if n < 400 { vec!["a"] } else { vec!["end"] }), &[]),
        node("end", Does::Say(false), &[]).text("{env.n}"),
    ])
    .await;
    assert_eq!(ran.report.said, "401");
    let began = ran.started();
    let place = |id: &str| began.iter().position(|began| *began == id).unwrap();
    assert!(place("after") < 700, "it started as number {} of {}", place("after"), place("end"));
}

/// Rows 1 and 4 inside a cycle: a diamond in the loop joins once per pass, with the values of this pass.
#[tokio::test(start_paused = true)]
async fn a_diamond_inside_a_cycle_joins_once_per_pass() {
    let ran = run(&[
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Count("env.n"), &["b", "c"]),
        node("b", Does::Slow(20), &["d"]).text("b{env.n}"),
        node("c", Does::Slow(5), &["d"]).text("c{env.n}{b@out}"),
        node("d", choose(&["a", "end"], |n, _| if n < 1 { vec!["a"] } else { vec!["end"] }), &[])
            .text("{b@out}{c@out}"),
        node("end", Does::Say(false), &[]).text("{d@out}"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "a", "b", "c", "d", "a", "b", "c", "d", "end"]);
    assert_eq!(ran.report.said, "b2c2b2");
}

/// The node after a loop is not skipped while the loop may still repeat, and joins once.
#[tokio::test(start_paused = true)]
async fn a_join_after_a_loop_waits_for_the_loop() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "p"]),
        node("p", Does::Echo, &["j"]).text("P"),
        node("a", Does::Slow(10), &["s"]),
        node("s", choose(&["x", "out"], |n, _| if n < 3 { vec!["x"] } else { vec!["out"] }), &[]),
        node("x", Does::Slow(10), &["a"]),
        node("out", Does::Echo, &["j"]).text("O"),
        node("j", Does::Say(false), &[]).text("{p@out}{out@out}"),
    ])
    .await;
    assert_eq!((ran.times("a"), ran.times("x"), ran.times("j")), (4, 3, 1));
    assert_eq!(ran.report.said, "PO");
}

/// A loop that ends on a path that leads nowhere: its other exits are skipped then, and the join runs.
#[tokio::test]
async fn unused_exits_of_a_finished_loop_are_skipped() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "p"]),
        node("p", Does::Echo, &["j"]).text("P"),
        node("a", Does::Echo, &["s"]),
        node("s", choose(&["a", "out", "stop"], |n, _| if n < 2 { vec!["a"] } else { vec!["stop"] }), &[]),
        node("stop", Does::Echo, &[]),
        node("out", Does::Echo, &["j"]).text("O"),
        node("j", Does::Say(false), &[]).text("{p@out}{out@out}"),
    ])
    .await;
    assert_eq!((ran.times("j"), ran.times("out")), (1, 0));
    assert_eq!(ran.report.said, "P");
}

#[tokio::test]
async fn a_branch_not_taken_in_one_pass_may_be_taken_in_the_next() {
    let ran = run(&[
        node("begin", Does::Echo, &["a"]),
        node("a", choose(&["l", "r"], |n, _| if n == 0 { vec!["l"] } else { vec!["r"] }), &[]),
        node("l", Does::Echo, &["d"]).text("l"),
        node("r", Does::Echo, &["d"]).text("r"),
        node("d", choose(&["a", "end"], |n, _| if n < 1 { vec!["a"] } else { vec!["end"] }), &[])
            .text("{l@out}{r@out}"),
        node("end", Does::Say(false), &[]).text("{d@out}"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "a", "l", "d", "a", "r", "d", "end"]);
    // In the second pass `l` was skipped, so it reads as empty.
    assert_eq!(ran.report.said, "r");
}

#[tokio::test]
async fn nested_loops_repeat_independently() {
    let ran = run(&[
        node("begin", Does::Echo, &["outer"]),
        node("outer", Does::Echo, &["inner"]),
        node("inner", Does::Count("env.n"), &["s"]),
        node("s", choose(&["inner", "t"], |n, _| if n % 2 == 0 { vec!["inner"] } else { vec!["t"] }), &[]),
        node("t", choose(&["outer", "end"], |n, _| if n < 2 { vec!["outer"] } else { vec!["end"] }), &[]),
        node("end", Does::Say(false), &[]).text("{env.n}"),
    ])
    .await;
    assert_eq!((ran.times("outer"), ran.times("inner"), ran.times("t"), ran.times("end")), (3, 6, 3, 1));
    assert_eq!(ran.report.said, "6");
}

#[test]
fn a_cycle_without_an_exit_is_reported() {
    let (plan, findings) = plan_and_findings(&[
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Echo, &["b"]),
        node("b", Does::Echo, &["a", "c"]),
        node("c", Does::Echo, &[]),
    ]);
    let ids = |nodes: &[usize]| nodes.iter().map(|&ix| plan.nodes[ix].id.as_str()).collect::<Vec<_>>();
    assert!(
        matches!(findings.as_slice(), [Finding::EndlessCycle(cycle)] if ids(cycle) == ["a", "b"]),
        "{findings:?}"
    );
}

/// A node of a loop reads a node behind one of the loop's exits: it need not wait for a node that cannot run
/// before it.
#[tokio::test]
async fn reading_a_node_behind_an_exit_does_not_block_the_loop() {
    let ran = run(&[
        node("begin", Does::Echo, &["a"]),
        node("a", choose(&["b", "out"], |n, _| if n < 2 { vec!["b"] } else { vec!["out"] }), &[]),
        node("b", Does::Echo, &["a"]).text("<{later@out}>"),
        node("out", Does::Echo, &["later"]),
        node("later", Does::Say(false), &[]).text("{b@out}"),
    ])
    .await;
    assert_eq!(ran.started(), ["begin", "a", "b", "a", "b", "a", "out", "later"]);
    assert_eq!(ran.report.said, "<>");
}
