//! Texts that are shown while they are written, and failures in them: rows 7–9, 14 and 16 of the scheduling
//! table, and the order of events.

use serde_json::json;
use weft_core::ErrorKind;
use weft_core::journal::{Ending, Record};

use crate::kit::{Does, node, run};

#[tokio::test(start_paused = true)]
async fn a_message_streams_and_its_producer_finishes_after_the_last_chunk() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["~hm", "Par", "is"], 10), &["m"]),
        node("m", Does::Say(true), &[]).text("It is {llm@out}."),
    ])
    .await;
    assert_eq!(
        ran.log(),
        [
            "start begin",
            "end begin",
            "start llm",
            "start m",
            "say m \"It is \"",
            "think m",
            "say m \"hm\"",
            "thought m",
            "say m \"Par\"",
            "say m \"is\"",
            "say m \".\"",
            "said m",
            "end llm",
            "end m",
            "succeeded",
        ]
    );
    assert_eq!(ran.output("m", "content"), "It is Paris.");
    assert_eq!(ran.output("llm", "out"), "Paris");
}

/// Row 7: another reader of the same text gets all of it.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_not_a_message_gets_the_whole_text() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b"], 10), &["m", "reader"]),
        node("m", Does::Say(true), &[]).text("{llm@out}"),
        node("reader", Does::Echo, &[]).text("<{llm@out}>"),
    ])
    .await;
    assert_eq!(ran.output("reader", "out"), "<ab>");
    assert_eq!(ran.report.said, "ab");
}

#[tokio::test(start_paused = true)]
async fn two_messages_read_the_same_stream_from_its_start() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b"], 10), &["m", "n"]),
        node("m", Does::Say(true), &[]).text("{llm@out}"),
        node("n", Does::Say(true), &[]).text("{llm@out}"),
    ])
    .await;
    assert_eq!((ran.output("m", "content"), ran.output("n", "content")), (json!("ab"), json!("ab")));
    assert_eq!(ran.times("llm"), 1);
}

#[tokio::test(start_paused = true)]
async fn two_streams_are_shown_in_the_order_of_the_text() {
    let ran = run(&[
        node("begin", Does::Echo, &["slow", "fast"]),
        node("slow", Does::Stream(vec!["1", "2"], 50), &["m"]),
        node("fast", Does::Stream(vec!["3", "4"], 1), &["m"]),
        node("m", Does::Say(true), &[]).text("{slow@out}-{fast@out}"),
    ])
    .await;
    assert_eq!(ran.report.said, "12-34");
    let log = ran.log();
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(place("say m \"1\"") < place("end slow"), "{log:?}");
    assert!(place("said m") < place("end slow") && place("said m") < place("end fast"), "{log:?}");
    assert!(place("end fast") < place("end m"), "{log:?}");
}

/// A Message that also waits for another node starts late and still shows everything.
#[tokio::test(start_paused = true)]
async fn a_late_message_shows_the_whole_stream() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm", "x"]),
        node("llm", Does::Stream(vec!["a", "b"], 1), &["m"]),
        node("x", Does::Slow(500), &["m"]).text("X"),
        node("m", Does::Say(true), &[]).text("{llm@out}{x@out}"),
    ])
    .await;
    assert_eq!((ran.report.said.as_str(), ran.times("m")), ("abX", 1));
}

/// Row 8: an error inside a stream fails its producer and the run, and is not lost.
#[tokio::test]
async fn an_error_inside_a_stream_fails_the_run() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::StreamThenFail(vec!["par", "tial"]), &["m"]),
        node("m", Does::Say(true), &["after"]).text("{llm@out}"),
        node("after", Does::Echo, &[]),
    ])
    .await;
    assert_eq!(ran.report.ending, Ending::Failed);
    let error = ran.report.error.as_ref().unwrap();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("the model went away"), "{}", error.message);
    assert_eq!(ran.times("after"), 0);
    assert!(ran.log().contains(&"error llm".to_owned()));
}

/// Row 8: a default value takes over in the middle of the stream, and the run goes on.
#[tokio::test]
async fn a_default_value_ends_a_broken_stream() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::StreamThenFail(vec!["par"]), &["m"]).on_error(&[], Some(json!("sorry"))),
        node("m", Does::Say(true), &[]).text("{llm@out}"),
    ])
    .await;
    assert_eq!(ran.report.ending, Ending::Succeeded);
    assert_eq!(ran.report.said, "parsorry");
    assert_eq!(ran.output("llm", "out"), "sorry");
    assert!(ran.log().contains(&"error llm".to_owned()), "the error stays visible");
}

/// Row 9: a failed run ends with one last record that says so, and everything open is closed.
#[tokio::test(start_paused = true)]
async fn a_failure_stops_parallel_nodes_and_ends_the_run() {
    let ran = run(&[
        node("begin", Does::Echo, &["bad", "slow"]),
        node("bad", Does::Fail(ErrorKind::Invalid), &["never"]),
        node("slow", Does::Slow(10_000), &[]),
        node("never", Does::Echo, &[]),
    ])
    .await;
    assert_eq!(
        ran.log(),
        [
            "start begin",
            "end begin",
            "start bad",
            "start slow",
            "error bad",
            "skip never",
            "error slow",
            "failed"
        ]
    );
    let Some(Record::RunFinished { error: Some(error), .. }) = ran.records.last() else { panic!() };
    assert!(error.starts_with("bad failed: it broke"), "{error}");
}

/// Row 14: one rule for default values: they become the main output.
#[tokio::test]
async fn a_default_value_becomes_the_main_output() {
    let ran = run(&[
        node("begin", Does::Echo, &["bad"]),
        node("bad", Does::Fail(ErrorKind::Invalid), &["m"]).on_error(&[], Some(json!({"k": 1}))),
        node("m", Does::Say(false), &[]).text("{bad@out.k}"),
    ])
    .await;
    assert_eq!(ran.report.said, "1");
}

/// Row 14: it is shown as a message only if no Message follows.
#[tokio::test]
async fn a_default_value_is_shown_when_no_message_follows() {
    let ran = run(&[
        node("begin", Does::Echo, &["bad"]),
        node("bad", Does::Fail(ErrorKind::Invalid), &["next"]).on_error(&[], Some(json!("sorry"))),
        node("next", Does::Echo, &[]),
    ])
    .await;
    assert_eq!(ran.report.said, "sorry");
    assert!(ran.log().contains(&"said bad".to_owned()));
}

/// Row 14: the exception branch replaces the ordinary one.
#[tokio::test]
async fn an_exception_branch_is_taken_instead() {
    let ran = run(&[
        node("begin", Does::Echo, &["bad"]),
        node("bad", Does::Fail(ErrorKind::Invalid), &["ok"]).on_error(&["rescue"], None),
        node("ok", Does::Echo, &["m"]).text("ok"),
        node("rescue", Does::Echo, &["m"]).text("rescued: {bad@_ERROR}"),
        node("m", Does::Say(true), &[]).text("{ok@out}{rescue@out}"),
    ])
    .await;
    assert_eq!(ran.report.ending, Ending::Succeeded);
    assert_eq!((ran.times("ok"), ran.report.said.as_str()), (0, "rescued: it broke"));
}

#[tokio::test]
async fn without_an_error_the_exception_branch_is_skipped() {
    let ran = run(&[
        node("begin", Does::Echo, &["good"]),
        node("good", Does::Echo, &["m"]).text("ok").on_error(&["rescue"], None),
        node("rescue", Does::Echo, &["m"]).text("rescued"),
        node("m", Does::Say(true), &[]).text("{good@out}{rescue@out}"),
    ])
    .await;
    assert_eq!((ran.times("rescue"), ran.report.said.as_str()), (0, "ok"));
}

#[tokio::test]
async fn a_panic_in_a_component_is_an_error_not_a_crash() {
    let ran = run(&[node("begin", Does::Echo, &["bad"]), node("bad", Does::Panic, &[])]).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    assert_eq!(ran.report.error.as_ref().unwrap().kind, ErrorKind::Internal);
}
