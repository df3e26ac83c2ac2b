//! Iterations and Loops: rows 11 and 12 of the scheduling table.

use serde_json::json;
use weft_core::journal::Ending;

use crate::kit::{Does, Node, choose, node, run};

fn each(parallelism: usize, items: &'static str, body: Vec<Node>) -> Vec<Node> {
    let mut nodes = vec![
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(parallelism, "last@out"), &["end"]).text(items),
        node("item", Does::Item, &["first"]).within("each"),
        node("end", Does::Say(false), &[]).text("{each@all}"),
    ];
    nodes.extend(body);
    nodes
}

fn items() -> Vec<Node> {
    vec![
        node("first", Does::Echo, &["last"]).within("each").text("{item@item}"),
        node("last", Does::Echo, &[]).within("each").text("{first@out}{item@index}"),
    ]
}

#[tokio::test]
async fn a_body_runs_once_for_each_item_and_results_are_in_order() {
    let mut nodes = each(1, "{begin@list}", items());
    nodes[1] = node("each", Does::Each(1, "last@out"), &["end"]).text("{env.list}");
    // The list is a global of the canvas.
    let plan = crate::kit::plan(&nodes);
    let mut state = weft_engine::SessionState::new(&plan);
    state.globals.insert("env.list".to_owned(), json!(["a", "b", "c"]));
    let ran = crate::kit::go_on(&plan, state, crate::kit::asking("q"), Default::default()).await;
    assert_eq!(ran.report.said, r#"["a0","b1","c2"]"#);
    assert_eq!(ran.times("item"), 3);
    assert_eq!(ran.times("each"), 1);
    let log = ran.log();
    let place = |line: &str| log.iter().rposition(|l| l == line).unwrap();
    assert!(place("end last") < place("end each"), "a frame finishes after its body");
}

async fn over(parallelism: usize, list: serde_json::Value, body: Vec<Node>) -> crate::kit::Ran {
    let mut nodes = each(parallelism, "{env.list}", body);
    nodes[1] = node("each", Does::Each(parallelism, "last@out"), &["end"]).text("{env.list}");
    let plan = crate::kit::plan(&nodes);
    let mut state = weft_engine::SessionState::new(&plan);
    state.globals.insert("env.list".to_owned(), list);
    crate::kit::go_on(&plan, state, crate::kit::asking("q"), Default::default()).await
}

#[tokio::test]
async fn an_empty_list_ends_at_once_with_an_empty_result() {
    let ran = over(1, json!([]), items()).await;
    assert_eq!((ran.times("item"), ran.report.said.as_str()), (0, "[]"));
}

#[tokio::test]
async fn iterating_over_a_value_that_is_not_a_list_fails_the_iteration() {
    let ran = over(1, json!("text"), items()).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    assert!(ran.log().contains(&"error each".to_owned()));
}

/// Row 11: parallel branches of unequal length in the body join at its end.
#[tokio::test(start_paused = true)]
async fn a_body_with_parallel_branches_ends_when_all_have() {
    let body = vec![
        node("first", Does::Echo, &["slow", "last"]).within("each").text("{item@item}"),
        node("slow", Does::Slow(50), &[]).within("each").text("s"),
        node("last", Does::Echo, &[]).within("each").text("{first@out}"),
    ];
    let ran = over(1, json!([1, 2]), body).await;
    assert_eq!((ran.times("slow"), ran.times("last")), (2, 2));
    assert_eq!(ran.report.said, r#"["1","2"]"#);
}

#[tokio::test(start_paused = true)]
async fn parallel_rounds_keep_their_order() {
    let began = tokio::time::Instant::now();
    let body = vec![
        node("first", Does::Slow(100), &["last"]).within("each").text("{item@item}"),
        node("last", Does::Echo, &[]).within("each").text("{first@out}"),
    ];
    let ran = over(4, json!(["a", "b", "c", "d", "e", "f"]), body).await;
    assert_eq!(ran.report.said, r#"["a","b","c","d","e","f"]"#);
    assert_eq!(began.elapsed().as_millis() / 100, 2, "virtual time: four, then two");
}

/// Row 11: nodes that a round did not run are null in the results, so that they stay aligned.
#[tokio::test]
async fn a_branch_in_a_body_keeps_results_aligned() {
    let body = vec![
        node(
            "first",
            choose(&["last", "other"], |n, _| if n == 1 { vec!["other"] } else { vec!["last"] }),
            &[],
        )
        .within("each"),
        node("last", Does::Echo, &[]).within("each").text("{item@item}"),
        node("other", Does::Echo, &[]).within("each"),
    ];
    let ran = over(1, json!(["a", "b", "c"]), body).await;
    assert_eq!(ran.report.said, r#"["a",null,"c"]"#);
}

/// The end of a body may point back at its item node: the meaning is the same as without that edge.
#[tokio::test]
async fn an_explicit_edge_back_to_the_item_starts_the_next_round() {
    let body = vec![
        node("first", Does::Echo, &["last"]).within("each"),
        node("last", Does::Echo, &["item"]).within("each").text("{item@item}"),
    ];
    let ran = over(1, json!([1, 2]), body).await;
    assert_eq!((ran.times("item"), ran.report.said.as_str()), (2, r#"["1","2"]"#));
}

/// Row 11: a nested frame restarts each time, and its results belong to its own round.
#[tokio::test(start_paused = true)]
async fn frames_nest() {
    let body = vec![
        node("first", Does::Each(2, "inner_out@out"), &["last"]).within("each").text("{item@item}"),
        node("inner_item", Does::Item, &["inner_out"]).within("first"),
        node("inner_out", Does::Slow(10), &[]).within("first").text("{item@index}.{inner_item@item}"),
        node("last", Does::Echo, &[]).within("each").text("{first@all}"),
    ];
    let ran = over(2, json!([["a", "b"], ["c"]]), body).await;
    assert_eq!(ran.report.said, r#"["[\"0.a\",\"0.b\"]","[\"1.c\"]"]"#);
    assert_eq!((ran.times("first"), ran.times("inner_item")), (2, 3));
}

fn repeat(rounds: usize, body: Vec<Node>) -> Vec<Node> {
    let mut nodes = vec![
        node("begin", Does::Echo, &["loop"]),
        node("loop", Does::Repeat, &["end"]),
        node("start", Does::Until(rounds), &["count"]).within("loop"),
        node("end", Does::Say(false), &[]).text("{loop@n}"),
    ];
    nodes.extend(body);
    nodes
}

#[tokio::test]
async fn a_loop_repeats_until_its_condition_ends_it() {
    let ran = run(&repeat(3, vec![node("count", Does::Count("loop@n"), &[]).within("loop")])).await;
    assert_eq!((ran.times("count"), ran.report.said.as_str()), (3, "3"));
    assert_eq!(ran.output("loop", "n"), json!(3));
}

/// Row 12: ExitLoop closes its frame, finishes the Loop, and cancels its pending nodes.
#[tokio::test(start_paused = true)]
async fn leaving_a_loop_stops_its_running_nodes() {
    let ran = run(&repeat(
        100,
        vec![
            node("count", Does::Count("loop@n"), &["s", "slow"]).within("loop"),
            node("s", choose(&["out", "on"], |n, _| if n == 2 { vec!["out"] } else { vec!["on"] }), &[])
                .within("loop"),
            node("on", Does::Echo, &[]).within("loop"),
            node("out", Does::Leave, &[]).within("loop"),
            node("slow", Does::Slow(1_000), &["after"]).within("loop"),
            node("after", Does::Echo, &[]).within("loop"),
        ],
    ))
    .await;
    assert_eq!(ran.report.said, "3");
    assert_eq!(ran.report.ending, Ending::Succeeded);
    assert_eq!((ran.times("slow"), ran.times("after")), (3, 2));
    let log = ran.log();
    assert!(log.iter().filter(|l| *l == "error slow").count() == 1, "{log:?}");
    assert_eq!(log.iter().filter(|l| *l == "end loop").count(), 1);
}

#[tokio::test]
async fn leaving_from_an_iteration_inside_a_loop_closes_the_loop() {
    for parallelism in [1, 2] {
        let nodes = repeat(
            100,
            vec![
                node("count", Does::Count("loop@n"), &["inner"]).within("loop"),
                node("inner", Does::Each(parallelism, "x@out"), &["after"]).text("{env.list}").within("loop"),
                node("item", Does::Item, &["s"]).within("inner"),
                node("s", choose(&["out", "x"], |n, _| if n == 4 { vec!["out"] } else { vec!["x"] }), &[])
                    .within("inner"),
                node("x", Does::Echo, &[]).within("inner"),
                node("out", Does::Leave, &[]).within("inner"),
                node("after", Does::Echo, &[]).within("loop"),
            ],
        );
        let plan = crate::kit::plan(&nodes);
        let mut state = weft_engine::SessionState::new(&plan);
        state.globals.insert("env.list".to_owned(), json!(["a", "b", "c"]));
        let ran = crate::kit::go_on(&plan, state, crate::kit::asking("q"), Default::default()).await;
        assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "2"));
        assert_eq!((ran.times("out"), ran.times("after")), (1, 1));
        let log = ran.log();
        let place = |line: &str| log.iter().rposition(|l| l == line).unwrap();
        assert!(place("error inner") < place("end loop"), "{log:?}");
    }
}

#[tokio::test]
async fn a_failure_in_a_loop_closes_its_frames() {
    let ran = run(&repeat(
        100,
        vec![
            node("count", Does::Count("loop@n"), &["inner"]).within("loop"),
            node("inner", Does::Each(1, "x@out"), &[]).text("{env.none}").within("loop"),
        ],
    ))
    .await;
    // `env.none` is null, which is no list: the error stops the run, and the open frames are closed.
    assert_eq!(ran.report.ending, Ending::Failed);
    assert!(ran.log().contains(&"error loop".to_owned()), "{:?}", ran.log());
}
