//! Limits and time: rows 21, 25, 27 of the scheduling table.

use std::time::Duration;

use weft_core::ErrorKind;
use weft_core::journal::{Ending, Record};
use weft_engine::EngineLimits;

use crate::kit::{Does, asking, choose, node, run, run_with};

/// Row 21: a cycle that never leaves is stopped.
#[tokio::test]
async fn an_endless_cycle_uses_up_its_activations() {
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
    assert_eq!(ran.started().len(), 53, "fifty beyond one for each node");
}

/// Row 97 of the contract, row 27 here: a time limit is enforced, once.
#[tokio::test(start_paused = true)]
async fn a_slow_node_is_stopped_at_its_limit_and_not_run_twice() {
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

/// Row 86 of the contract: independent nodes run side by side, at most so many at once.
#[tokio::test(start_paused = true)]
async fn independent_nodes_run_at_once_up_to_the_limit() {
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

/// No barrier between levels: a run takes as long as its longest way.
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

/// Row 25: times are of the work, not of the waiting.
#[tokio::test(start_paused = true)]
async fn elapsed_time_is_the_time_of_the_work() {
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
