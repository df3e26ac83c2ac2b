//! Limits and time: rows 21, 25, 27 of the scheduling table.

use std::time::Duration;

use weft_core::budget::{Budget, BudgetLimits, Holder, Spent};
use weft_core::journal::{Ending, Record};
use weft_core::{AssignOperator, ErrorKind};
use weft_engine::{EngineLimits, SessionState};

use crate::kit::{Does, asking, choose, go_on, node, plan, run, run_with};

/// Row 21: a cycle that never leaves is stopped.
#[tokio::test]
async fn an_endless_cycle_is_stopped_by_the_activation_limit() {
    let limits = EngineLimits { activations: 50, ..EngineLimits::default() };
    let nodes = [
        node("begin", Does::Echo, &["a"]),
        node("a", choose(&["a", "end"], |_, _| vec!["a"]), &[]),
        node("end", Does::Echo, &[]),
    ];
    let ran = run_with(&nodes, asking(""), limits).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    let error = ran.report.error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::QuotaExceeded);
    assert_eq!(ran.started().len(), 53, "fifty more than one for each node");
}

/// The rounds of a Loop have their own limit. Each round gets the activations its nodes need, and an endless
/// cycle in it is stopped.
#[tokio::test]
async fn rounds_of_a_loop_do_not_use_up_activations() {
    let limits = EngineLimits { activations: 5, ..EngineLimits::default() };
    let rounds = |body: Vec<_>| {
        let mut nodes = vec![
            node("begin", Does::Echo, &["loop"]),
            node("loop", Does::Repeat, &[]),
            node("start", Does::Until(40), &["count"]).within("loop"),
        ];
        nodes.extend(body);
        nodes
    };
    let counts = rounds(vec![node("count", Does::Count("loop@n"), &[]).within("loop")]);
    let ran = run_with(&counts, asking(""), limits).await;
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
    assert_eq!(ran.times("count"), 40);
    let circles = rounds(vec![
        node("count", Does::Echo, &["again"]).within("loop"),
        node("again", choose(&["count"], |_, _| vec!["count"]), &[]).within("loop"),
    ]);
    let ran = run_with(&circles, asking(""), limits).await;
    assert_eq!(ran.report.error.as_ref().unwrap().kind, ErrorKind::QuotaExceeded);
}

/// Row 97 of the contract, row 27 here: a time limit is enforced, without a retry.
#[tokio::test(start_paused = true)]
async fn a_slow_node_is_stopped_at_its_time_limit_and_not_retried() {
    let nodes = [
        node("begin", Does::Echo, &["slow"]),
        node("slow", Does::Slow(60_000), &[]).limit(Duration::from_secs(3)),
    ];
    let began = tokio::time::Instant::now();
    let ran = run(&nodes).await;
    assert_eq!(ran.report.error.as_ref().unwrap().kind, ErrorKind::Timeout);
    assert_eq!(ran.times("slow"), 1);
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_run_has_a_time_limit() {
    let limits = EngineLimits { run_time: Duration::from_secs(10), ..EngineLimits::default() };
    let nodes = [node("begin", Does::Echo, &["slow"]), node("slow", Does::Slow(100_000), &[])];
    let ran = run_with(&nodes, asking(""), limits).await;
    assert_eq!(ran.report.error.as_ref().unwrap().kind, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_run_without_a_time_limit_runs() {
    let limits =
        EngineLimits { run_time: Duration::MAX, node_time: Duration::MAX, ..EngineLimits::default() };
    let ran = run_with(&[node("begin", Does::Echo, &[])], asking(""), limits).await;
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
}

/// Row 86 of the contract: independent nodes run in parallel, up to the limit.
#[tokio::test(start_paused = true)]
async fn independent_nodes_run_in_parallel_up_to_the_limit() {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut nodes = vec![node("begin", Does::Echo, &NAMES)];
    nodes.extend(NAMES.map(|name| node(name, Does::Slow(300), &[])));
    let began = tokio::time::Instant::now();
    let ran = run(&nodes).await;
    assert_eq!(ran.started()[1..], NAMES);
    assert_eq!(began.elapsed().as_millis(), 600, "virtual time: five, then three");
    let open = ran.log().into_iter().scan(0_i32, |open, line| {
        *open += i32::from(line.starts_with("start")) - i32::from(line.starts_with("end"));
        Some(*open)
    });
    assert_eq!(open.max(), Some(5));
}

/// No barrier between levels: a run takes as long as its longest path.
#[tokio::test(start_paused = true)]
async fn a_run_takes_as_long_as_its_critical_path() {
    let nodes = [
        node("begin", Does::Echo, &["a", "x"]),
        node("a", Does::Slow(100), &["b"]),
        node("b", Does::Slow(100), &["j"]),
        node("x", Does::Slow(10), &["y"]),
        node("y", Does::Slow(190), &["j"]),
        node("j", Does::Echo, &[]),
    ];
    let began = tokio::time::Instant::now();
    run(&nodes).await;
    assert_eq!(began.elapsed().as_millis(), 200);
}

/// Row 25: durations measure work, not waiting.
#[tokio::test(start_paused = true)]
async fn elapsed_time_excludes_waiting() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "j"]),
        node("a", Does::Slow(2_000), &["j"]),
        node("j", Does::Slow(500), &[]),
    ])
    .await;
    let elapsed = ran.records.iter().find_map(|record| match record {
        Record::NodeFinished { who, elapsed, .. } if who.node.as_str() == "j" => Some(*elapsed),
        _ => None,
    });
    assert!((elapsed.unwrap() - 0.5).abs() < 1e-6);
}

#[tokio::test]
async fn a_chain_of_five_thousand_nodes_runs() {
    let names: Vec<&'static str> =
        (0..5_000).map(|i| &*Box::leak(format!("n{i}").into_boxed_str())).collect();
    let mut nodes = vec![node("begin", Does::Echo, &[names[0]])];
    for (i, name) in names.iter().enumerate() {
        nodes.push(node(name, Does::Echo, &names[(i + 1).min(names.len())..(i + 2).min(names.len())]));
    }
    let ran = run(&nodes).await;
    assert_eq!((ran.report.ending, ran.started().len()), (Ending::Succeeded, 5_001));
}

#[tokio::test]
async fn an_output_that_grows_without_end_is_an_error() {
    let limits = EngineLimits { output_bytes: 1_000, ..EngineLimits::default() };
    let nodes = [
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Echo, &["s"]).text("more {s@out} {s@out}"),
        node("s", choose(&["a", "end"], |_, _| vec!["a"]), &[]).text("{a@out}"),
        node("end", Does::Echo, &[]),
    ];
    let ran = run_with(&nodes, asking(""), limits).await;
    assert!(ran.report.error.as_ref().unwrap().message.contains("1000 bytes"), "{:?}", ran.report.error);
}

/// Replaced outputs free their space; the values held at the same time have their own limit.
#[tokio::test]
async fn the_values_of_a_run_have_a_total_limit() {
    let limits = EngineLimits { values_bytes: 4_000, ..EngineLimits::default() };
    let nodes = [
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Echo, &["b"]).text("x{b@out}{b@out}"),
        node("b", Does::Echo, &["s"]).text("{a@out}"),
        node("s", choose(&["a"], |_, _| vec!["a"]), &[]),
    ];
    let ran = run_with(&nodes, asking(""), limits).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap();
    assert!(
        error.contains("more than 4000 bytes together") && error.contains("limits.values_bytes"),
        "{error}"
    );
    assert!(error.starts_with("a failed") || error.starts_with("b failed"), "it names the node: {error}");
    // Both texts together reached it: 1,023 and 2,047 characters, neither alone.
    assert!(ran.output("a", "out").as_str().is_none_or(|text| text.len() < 4_000));

    // A thousand rounds that each replace the previous values fit where ten at the same time would not.
    let text: &'static str = Box::leak("x".repeat(1_000).into_boxed_str());
    let nodes = [
        node("begin", Does::Echo, &["loop"]),
        node("loop", Does::Repeat, &[]),
        node("item", Does::Until(100), &["a"]).within("loop"),
        node("a", Does::Echo, &[]).within("loop").text(text),
    ];
    let ran = run_with(&nodes, asking(""), limits).await;
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
    // Only the outputs of the last round remain of a frame.
    let held = ran.report.machine.held_bytes();
    assert!((1_000..2_000).contains(&held), "{held}");
}

#[tokio::test]
async fn collected_results_and_variables_count_towards_the_limit() {
    let text: &'static str = Box::leak("x".repeat(1_000).into_boxed_str());
    let limits = EngineLimits { values_bytes: 8_000, ..EngineLimits::default() };
    let collects = [
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(1, "a@out"), &[]).text("{env.list}"),
        node("item", Does::Item, &["a"]).within("each"),
        node("a", Does::Echo, &[]).within("each").text(text),
    ];
    let plan_of = plan;
    let plan = plan_of(&collects);
    let mut state = SessionState::new(&plan);
    state.globals.insert("env.list".to_owned(), (0..3).collect());
    let ran = go_on(&plan, state.clone(), asking(""), limits).await;
    assert_eq!(ran.report.ending, Ending::Succeeded, "{:?}", ran.report.error);
    state.globals.insert("env.list".to_owned(), (0..30).collect());
    let ran = go_on(&plan, state, asking(""), limits).await;
    let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap();
    assert!(error.contains("limits.values_bytes"), "{error}");

    let doubles = vec![("env.t", AssignOperator::Set, "{env.t}{env.t}")];
    let nodes = [
        node("begin", Does::Echo, &["a"]),
        node("a", Does::Assign(doubles), &["s"]),
        node("s", choose(&["a"], |_, _| vec!["a"]), &[]),
    ];
    let plan = plan_of(&nodes);
    let mut state = SessionState::new(&plan);
    state.globals.insert("env.t".to_owned(), "x".into());
    let ran = go_on(&plan, state, asking(""), limits).await;
    let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap();
    assert!(error.starts_with("a failed: ") && error.contains("limits.values_bytes"), "{error}");
    assert_eq!(ran.state.globals["env.t"].as_str().unwrap().len(), 4_096);
}

#[tokio::test]
async fn the_journal_limit_leaves_room_for_the_ending() {
    let limits = EngineLimits { journal_bytes: 100_000, activations: 1_000_000, ..EngineLimits::default() };
    let nodes = [
        node("begin", Does::Echo, &["a", "slow"]),
        node("a", Does::Echo, &["s"]),
        node("s", choose(&["a"], |_, _| vec!["a"]), &[]),
        node("slow", Does::Slow(1_000_000), &[]),
    ];
    let ran = run_with(&nodes, asking(""), limits).await;
    let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap();
    assert!(error.contains("larger than 100000 bytes") && error.contains("limits.journal_bytes"), "{error}");
    assert!(ran.log().contains(&"error slow".to_owned()), "open activations have an end");
    let bytes: usize = ran.records.iter().map(|record| serde_json::to_string(record).unwrap().len()).sum();
    // Data that is not stored counts as it lies in memory, where a short record takes more than as text.
    assert!((40_000..110_000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn a_run_has_a_default_budget_of_model_calls() {
    assert_eq!(EngineLimits::default().budget.model_calls, Some(200));
    let budget = Budget::new(Holder::Run, EngineLimits::default().budget, Spent::default(), None);
    let node = budget.within(BudgetLimits::default(), Spent::default());
    (0..200).for_each(|_| node.take_model_call().unwrap());
    let error = node.error(node.take_model_call().unwrap_err()).full();
    assert!(error.contains("the run's budget of model_calls is used up: it is 200"), "{error}");
    assert!(error.contains("limits.budget.model_calls"), "{error}");
}

/// Doubling forty times is refused before it is allocated.
#[tokio::test]
async fn exponentially_growing_assignments_are_refused_before_allocation() {
    let limits = EngineLimits { values_bytes: 100_000, ..EngineLimits::default() };
    let doubles = vec![("env.l", AssignOperator::Extend, "env.l"); 40];
    let nodes = [node("begin", Does::Echo, &["a"]), node("a", Does::Assign(doubles), &[])];
    let plan = plan(&nodes);
    let mut state = SessionState::new(&plan);
    state.globals.insert("env.l".to_owned(), vec!["x"; 10].into());
    let ran = go_on(&plan, state, asking(""), limits).await;
    let error = ran.report.error.as_ref().map(weft_core::Error::full).unwrap();
    assert!(error.starts_with("a failed: ") && error.contains("limits.values_bytes"), "{error}");
    assert_eq!(ran.state.globals["env.l"].as_array().unwrap().len(), 10, "nothing has changed");
}
