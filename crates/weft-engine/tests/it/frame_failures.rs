//! Failures inside Iterations and Loops: the exception settings of the nearest frame that has any catch them,
//! and no edge leads out of a body.

use serde_json::json;
use weft_core::journal::Ending;
use weft_core::{Error, ErrorKind};
use weft_dsl::link::{Finding, Way};
use weft_engine::SessionState;

use crate::kit::{Does, Node, Ran, asking, choose, go_on, node, plan, plan_and_findings};

async fn over(items: serde_json::Value, nodes: &[Node]) -> Ran {
    let plan = plan(nodes);
    let mut state = SessionState::new(&plan);
    state.globals.insert("env.list".to_owned(), items);
    go_on(&plan, state, asking("q"), Default::default()).await
}

/// Fails for the item `bad`, and is slow with `slow`.
fn picky(id: &'static str) -> Vec<Node> {
    let by_item = choose(&["fails", "slow", "fine"], |_, ctx| {
        let item = ctx.inputs.iter().next().unwrap().1.snapshot();
        match item.as_str() {
            Some("bad") => vec!["fails"],
            Some("slow") => vec!["slow"],
            _ => vec!["fine"],
        }
    });
    vec![
        node("item", Does::Item, &["pick"]).within(id),
        node("pick", by_item, &[]).within(id).text("{item@item}"),
        node("fails", Does::Fail(ErrorKind::Unavailable), &["last"]).within(id),
        node("slow", Does::Slow(50), &["last"]).within(id),
        node("fine", Does::Echo, &["last"]).within(id).text("fine"),
        node("last", Does::Echo, &[]).within(id).text("{item@item}"),
    ]
}

fn each(parallelism: usize, to: &[&'static str]) -> Node {
    node("each", Does::Each(parallelism, "last@out"), to).text("{env.list}")
}

#[tokio::test(start_paused = true)]
async fn the_exception_branch_of_an_iteration_catches_failures_in_its_body() {
    for parallelism in [1, 4] {
        let mut nodes = vec![
            node("begin", Does::Echo, &["each"]),
            each(parallelism, &["end"]).on_error(&["sorry"], None),
            node("end", Does::Say(false), &[]).text("all went well"),
            node("sorry", Does::Say(false), &[]).text("sorry: {each@_ERROR}"),
        ];
        nodes.extend(picky("each"));
        let ran = over(json!(["slow", "a", "bad", "slow", "b", "bad"]), &nodes).await;
        assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
        assert_eq!(ran.report.said, "sorry: fails failed: it broke");
        let log = ran.log();
        assert!(log.contains(&"error fails".to_owned()) && log.contains(&"error each".to_owned()), "{log:?}");
        assert!(log.contains(&"skip end".to_owned()), "{log:?}");
        // No round starts after the failure, and parallel ones are stopped.
        assert!(ran.times("item") < 6, "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_default_value_replaces_the_collected_results() {
    let mut nodes = vec![
        node("begin", Does::Echo, &["each"]),
        each(3, &["end"]).on_error(&[], Some(json!(["none"]))),
        node("end", Does::Say(false), &[]).text("{each@all} {each@out}"),
    ];
    nodes.extend(picky("each"));
    let ran = over(json!(["a", "bad", "slow"]), &nodes).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, r#"["none"] ["none"]"#));
    let ran = over(json!(["a", "b"]), &nodes).await;
    assert_eq!(ran.report.said, r#"["a","b"] "#);
}

#[tokio::test]
async fn exception_settings_of_the_node_itself_come_first() {
    let mut nodes = vec![
        node("begin", Does::Echo, &["each"]),
        each(1, &["end"]).on_error(&[], Some(json!("none"))),
        node("end", Does::Say(false), &[]).text("{each@all}"),
    ];
    nodes.extend(picky("each"));
    nodes[5] =
        node("fails", Does::Fail(ErrorKind::Unavailable), &["last"]).within("each").on_error(&["last"], None);
    let ran = over(json!(["a", "bad"]), &nodes).await;
    assert_eq!(ran.report.said, r#"["a","bad"]"#);
}

#[tokio::test]
async fn a_failure_without_exception_settings_fails_the_run() {
    let mut nodes =
        vec![node("begin", Does::Echo, &["each"]), each(2, &["end"]), node("end", Does::Echo, &[])];
    nodes.extend(picky("each"));
    let ran = over(json!(["a", "bad"]), &nodes).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    assert_eq!(ran.report.error.as_ref().map(Error::full).unwrap(), "fails failed: it broke");
}

fn nested(outer: Node, inner: Node) -> Vec<Node> {
    let mut nodes = vec![
        node("begin", Does::Echo, &["outer"]),
        outer,
        node("outer_item", Does::Item, &["each"]).within("outer"),
        inner.within("outer"),
        node("after", Does::Echo, &[]).within("outer").text("{outer_item@item}: {each@all}"),
        node("end", Does::Say(false), &[]).text("{outer@all}"),
    ];
    nodes.extend(picky("each"));
    nodes
}

#[tokio::test(start_paused = true)]
async fn the_nearest_frame_with_settings_catches_the_failure_of_a_nested_body() {
    let outer = || node("outer", Does::Each(2, "after@out"), &["end"]).text("{env.list}");
    let inner = || node("each", Does::Each(2, "last@out"), &["after"]).text("{outer_item@item}");
    let items = json!([["a", "slow"], ["b", "bad", "slow"], ["c"]]);

    let nodes = nested(outer(), inner().on_error(&[], Some(json!("none"))));
    let ran = over(items.clone(), &nodes).await;
    let all = ran.output("outer", "all");
    assert_eq!(all[0], r#"["a","slow"]: ["a","slow"]"#);
    assert_eq!(all[1], r#"["b","bad","slow"]: none"#);
    assert_eq!(all[2], r#"["c"]: ["c"]"#);

    let nodes = nested(outer().on_error(&[], Some(json!("nothing at all"))), inner());
    let ran = over(items, &nodes).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "nothing at all"));
}

#[tokio::test]
async fn a_loop_catches_and_keeps_its_variables() {
    let nodes = [
        node("begin", Does::Echo, &["loop"]),
        node("loop", Does::Repeat, &["end"]).on_error(&["end"], None),
        node("item", Does::Until(9), &["count"]).within("loop"),
        node("count", Does::Count("loop@n"), &["check"]).within("loop"),
        node("check", choose(&["fails"], |nth, _| if nth == 2 { vec!["fails"] } else { Vec::new() }), &[])
            .within("loop"),
        node("fails", Does::Fail(ErrorKind::Invalid), &[]).within("loop"),
        node("end", Does::Say(false), &[]).text("{loop@n} {loop@_ERROR}"),
    ];
    let ran = over(json!([]), &nodes).await;
    assert_eq!(ran.report.said, "3 fails failed: it broke");
}

/// Stream readers in the frame are stopped with it, and what they have shown stays.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_in_a_body_closes_the_frame() {
    let nodes = [
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(2, "say@content"), &["end"]).text("{env.list}").on_error(&["end"], None),
        node("item", Does::Item, &["model"]).within("each"),
        node("model", Does::StreamThenFail(vec!["half a "]), &["say"]).within("each"),
        node("say", Does::Say(true), &[]).within("each").text("{model@out}"),
        node("end", Does::Say(false), &[]).text("[sorry]"),
    ];
    let ran = over(json!(["a"]), &nodes).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "half a [sorry]"));
}

#[tokio::test]
async fn no_exception_branch_leads_out_of_a_body() {
    let mut nodes = vec![
        node("begin", Does::Echo, &["each"]),
        each(1, &["end"]),
        node("end", Does::Say(false), &[]).text("{each@all}"),
        node("sorry", Does::Say(false), &[]).text("sorry"),
    ];
    nodes.extend(picky("each"));
    nodes[6] = node("fails", Does::Fail(ErrorKind::Unavailable), &["last"])
        .within("each")
        .on_error(&["sorry"], None);
    let (plan, findings) = plan_and_findings(&nodes);
    let crossing = |finding: &&Finding| matches!(finding, Finding::CrossesFrame(_, _, Way::Failure));
    assert_eq!(findings.iter().filter(crossing).count(), 1);
    assert!(plan.nodes[6].exception.goto.is_empty());
    let ran = over(json!(["a", "bad"]), &nodes).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Failed, ""));
}

#[tokio::test]
async fn no_branch_leads_into_or_out_of_a_body() {
    let branch_out = [
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(1, "switch@out"), &["end"]).text("{env.list}"),
        node("item", Does::Item, &["switch"]).within("each"),
        node("switch", choose(&["end"], |_, _| vec!["end"]), &[]).within("each"),
        node("end", Does::Echo, &[]),
    ];
    let branch_in = [
        node("begin", Does::Echo, &["switch"]),
        node("switch", choose(&["inside", "each"], |_, _| vec!["inside"]), &[]),
        node("each", Does::Each(1, "inside@out"), &[]).text("{env.list}"),
        node("item", Does::Item, &["inside"]).within("each"),
        node("inside", Does::Echo, &[]).within("each"),
    ];
    for nodes in [&branch_out[..], &branch_in] {
        let (_, findings) = plan_and_findings(nodes);
        assert!(findings.iter().any(|finding| matches!(finding, Finding::CrossesFrame(_, _, Way::Branch))));
        let ran = over(json!(["a"]), nodes).await;
        let error = ran.report.error.as_ref().map(Error::full).unwrap_or_default();
        assert!(error.contains("leads into or out of the body of a frame"), "{error}");
    }
}
