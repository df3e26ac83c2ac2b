//! Work replayed after a crash: recorded answers and executed calls are not repeated.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_agent::driver::{Answer, Driver};
use weft_agent::native::Native;
use weft_agent::planner::Planner;
use weft_agent::structured::Schema;
use weft_core::budget::{Budget, BudgetLimits, Holder, Spent};
use weft_core::effect::{Effects, Known};
use weft_core::seam::chat_model::Prices;
use weft_core::{Error, ErrorKind, Result};
use weft_models::script::Failure;
use weft_testkit::{Reply, Step};

use crate::kit::{World, look};

/// A call of two tools, as the model writes it.
fn both() -> Reply {
    look("x").and_call("pay", json!({"q": "10"}))
}

/// A world whose model starts where `before` stopped.
fn world(replies: impl IntoIterator<Item = Reply>) -> World {
    let world = World::new(replies);
    world.echo("pay", |_| {});
    world
}

/// The same work in another process, with the journal of the first.
fn again(replies: impl IntoIterator<Item = Reply>, known: HashMap<Arc<str>, Known>) -> World {
    let mut world = world(replies);
    world.change(|ctx| ctx.effects = Effects::known(known));
    world
}

/// Does the whole work, then once more after a stop at every single journal record. `left` are the replies that
/// follow the first ones. The answer is always the same; no recorded reply is requested again, and no call with
/// a recorded result is repeated.
async fn check_every_stop(driver: &dyn Driver, replies: &[Reply], prepare: fn(&mut World)) -> Vec<String> {
    let mut whole = world(replies.to_vec());
    prepare(&mut whole);
    let expected = whole.ask_with(driver).await.unwrap();
    let notes = whole.notes();
    assert_eq!(whole.asked().len(), replies.len());
    for stop in 0..=notes.len() {
        let known = whole.known(stop);
        let gave = |kind: &str| {
            let gave =
                |(key, known): (&Arc<str>, &Known)| key.contains(kind) && matches!(known, Known::Ended(_));
            known.iter().filter(|(key, known)| gave((key, known))).count()
        };
        let (answered, carried_out) = (gave("model#"), gave("tool#"));
        let begun_tools: Vec<_> =
            known.iter().filter(|(key, known)| key.contains("tool#") && **known == Known::Begun).collect();
        let mut world = again(replies[answered..].to_vec(), known.clone());
        prepare(&mut world);
        let answer = world.ask_with(driver).await.unwrap();
        assert_eq!(world.asked().len(), replies.len() - answered, "{stop}");
        let made = whole.called().len() - carried_out - begun_tools.len();
        assert_eq!(world.called().len(), made, "{stop}: {:?}", world.called());
        assert_eq!((&answer.text, &answer.structured), (&expected.text, &expected.structured), "{stop}");
        let used = |answer: &Answer| answer.used.iter().map(|used| used.name.clone()).collect::<Vec<_>>();
        assert_eq!(used(&answer), used(&expected), "{stop}");
        let interrupted =
            answer.used.iter().filter(|used| used.results.to_string().contains("INTERRUPTED")).count();
        assert_eq!(interrupted, begun_tools.len(), "{stop}");
        if begun_tools.is_empty() {
            assert_eq!(answer, expected, "{stop}");
        }
    }
    notes
}

#[tokio::test]
async fn after_a_crash_anywhere_no_model_request_and_no_tool_call_is_repeated() {
    let replies = [both(), look("y").thinking("hm"), Reply::text("done")];
    let notes = check_every_stop(&Native, &replies, |world| world.options.parallel = 1).await;
    assert_eq!(
        notes,
        [
            "began model#0",
            "gave model#0",
            "began call_1/tool#0",
            "gave call_1/tool#0",
            "began call_2/tool#0",
            "gave call_2/tool#0",
            "began model#1",
            "gave model#1",
            "began call_3/tool#0",
            "gave call_3/tool#0",
            "began model#2",
            "gave model#2",
        ]
    );
}

#[tokio::test]
async fn a_repaired_answer_is_not_requested_again() {
    let replies =
        [look("x"), Reply::text("no json"), Reply::text("{\"a\": \"x\"}"), Reply::text("{\"a\": 1}")];
    let prepare = |world: &mut World| {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
        world.options.schema = Some(Arc::new(Schema::new(schema).unwrap()));
        world.options.retries = Some(2);
    };
    check_every_stop(&Native, &replies, prepare).await;
}

#[tokio::test]
async fn the_planner_resumes_where_it_stopped() {
    let step = r#"[{"name": "look", "arguments": {"q": "1"}}, {"name": "pay", "arguments": {"q": "2"}}]"#;
    let close = r#"[{"name": "complete_task", "arguments": {"answer": "a draft"}}]"#;
    let replies =
        ["the task", step, "seen", "no step", step, "seen again", close, "the answer"].map(Reply::text);
    let prepare = |world: &mut World| {
        world.options.planner.analyse = true;
        world.options.planner.reflect = true;
        world.options.parallel = 1;
    };
    check_every_stop(&Planner, &replies, prepare).await;
}

#[tokio::test]
async fn a_started_call_is_repeated_only_if_idempotent() {
    let check = async |idempotent: bool, called: usize, told: &str| {
        let pays = || [Reply::call("send", json!({"q": "1"})), Reply::text("done")];
        let tool = |world: &World| world.echo("send", |tool| tool.traits.idempotent = idempotent);
        let first = world(pays());
        tool(&first);
        first.ask().await.unwrap();
        let known = first.known_until("began call_1/tool#0");
        let second = again(pays().into_iter().skip(1), known.clone());
        tool(&second);
        let answer = second.ask().await.unwrap();
        assert_eq!(second.called().len(), called);
        let result = answer.used[0].results.to_string();
        assert!(result.contains(told), "{result}");
        if !idempotent {
            assert!(result.contains("\"retryable\":false"), "{result}");
            // It stays truncated, however many times the work is replayed.
            let mut known = known;
            known.extend(second.known(usize::MAX));
            let third = again([], known);
            tool(&third);
            assert_eq!(third.ask().await.unwrap(), answer);
        }
    };
    check(true, 1, "found 1").await;
    check(false, 0, "INTERRUPTED").await;
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_get_their_own_results_in_any_order() {
    let slow = |world: &World, waits: [u64; 3]| {
        world.tool(
            "slow",
            |_| {},
            move |arguments| async move {
                let n = arguments["n"].as_u64().unwrap_or_default();
                tokio::time::sleep(Duration::from_millis(waits[usize::try_from(n).unwrap()])).await;
                Ok(json!(format!("{n} in this life")))
            },
        );
    };
    let calls = || {
        (1..3).fold(Reply::call("slow", json!({"n": 0})), |reply, n| reply.and_call("slow", json!({"n": n})))
    };
    let first = world([calls(), Reply::text("done")]);
    slow(&first, [30, 20, 10]);
    let expected = first.ask().await.unwrap();
    // Two of them had returned: the last one and the one before it.
    let known = first.known_until("gave call_2/tool#0");
    let mut second = again([Reply::text("done")], known);
    slow(&second, [10, 20, 30]);
    second.options.parallel = 2;
    let answer = second.ask().await.unwrap();
    assert!(second.called().is_empty(), "{:?}", second.called());
    assert_eq!(answer.used[1..], expected.used[1..]);
    assert!(answer.used[0].results.to_string().contains("INTERRUPTED"));
}

#[tokio::test]
async fn a_replayed_failure_is_the_same_failure() {
    let fails = |world: &World| {
        world.tool(
            "fail",
            |_| {},
            |_| async { Err(Error::new(ErrorKind::Denied, "not you").help("ask somebody else")) },
        );
    };
    let call = || Reply::call("fail", json!({}));
    let first = world([call(), Reply::text("done")]);
    fails(&first);
    let expected = first.ask().await.unwrap();
    let second = again([], first.known(usize::MAX));
    fails(&second);
    assert_eq!(second.ask().await.unwrap(), expected);
    assert!(second.called().is_empty());

    let failure = Failure { kind: ErrorKind::Unavailable, message: "gone".into(), retry_after_ms: None };
    let first = world([Reply::default().then(Step::Error(failure))]);
    let error = first.ask().await.unwrap_err();
    let second = again([], first.known(usize::MAX));
    let same = second.ask().await.unwrap_err();
    assert_eq!((same.kind, same.message), (error.kind, error.full()));
}

#[tokio::test]
async fn text_before_a_model_failure_is_replayed() {
    let failure = Failure { kind: ErrorKind::Unavailable, message: "gone".into(), retry_after_ms: None };
    let first = world([Reply::text("so far").then(Step::Error(failure))]);
    let (error, shown) = first.heard_of_failure().await;
    assert_eq!(shown, ["so far"]);
    let second = again([], first.known(usize::MAX));
    let (same, shown) = second.heard_of_failure().await;
    assert_eq!((same.kind, same.message, shown), (error.kind, error.full(), vec!["so far".to_owned()]));
}

#[tokio::test]
async fn a_replayed_answer_is_shown_at_once_and_counted_as_before() {
    let prices = Some(Prices::new(1.0, 1.0));
    let reply = || {
        Reply::default()
            .thinking("hm")
            .then(Step::Text("a ".into()))
            .then(Step::Text("b".into()))
            .usage(30, 4)
    };
    let mut first = world([reply()]);
    first.model_info(8_000, prices);
    assert_eq!(first.heard().await, ["(hm)", "a ", "b"]);
    let mut second = again([], first.known(usize::MAX));
    second.model_info(8_000, prices);
    second
        .change(|ctx| ctx.budget = Budget::new(Holder::Run, BudgetLimits::default(), Spent::default(), None));
    assert_eq!(second.heard().await, ["a b"]);
    let spent = second.ctx.budget.spent();
    assert_eq!((spent.model_calls, spent.tokens, spent.micros), (1, 34, 34));
    assert!(first.signals().contains(&"used".to_owned()) && !second.signals().contains(&"used".to_owned()));
    assert!(second.notes().is_empty(), "{:?}", second.notes());
}

#[tokio::test]
async fn a_spent_budget_is_not_recorded_as_a_model_answer() {
    let budget = BudgetLimits { model_calls: Some(1), ..BudgetLimits::default() };
    let mut first = world([look("x"), Reply::text("done")]);
    first.budget(budget);
    assert_eq!(first.ask().await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert_eq!(first.notes().last().map(String::as_str), Some("gave call_1/tool#0"));
    // With the same budget it ends at the same place, with a larger one it continues.
    let check = async |limit: u64, expected: Result<&str, ErrorKind>| {
        let mut second = again([Reply::text("done")], first.known(usize::MAX));
        second.budget(BudgetLimits { model_calls: Some(limit), ..BudgetLimits::default() });
        let answer = second.ask().await;
        assert_eq!(answer.as_ref().map(|answer| answer.text.as_str()).map_err(|error| error.kind), expected);
    };
    check(1, Err(ErrorKind::QuotaExceeded)).await;
    check(2, Ok("done")).await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_not_recorded_as_a_model_answer() {
    let mut first = world([Reply::text("late").delay_ms(5_000)]);
    first.budget(BudgetLimits { seconds: Some(1.0), ..BudgetLimits::default() });
    assert_eq!(first.ask().await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert_eq!(first.notes(), ["began model#0"]);
}

#[tokio::test]
async fn every_call_of_an_activation_has_a_unique_trace_id() {
    let step = r#"[{"name": "look", "arguments": {"q": "1"}}]"#;
    let close = r#"[{"name": "complete_task", "arguments": {"answer": "a draft"}}]"#;
    let mut world = world([step, step, close, "the answer"].map(Reply::text));
    world.change(|ctx| ctx.part = "call_7/".into());
    world.ask_with(&Planner).await.unwrap();
    let ids: Vec<String> = world.trace().iter().map(|call| call.started.call.to_string()).collect();
    assert_eq!(
        ids,
        ["analyze_task", "step_0", "reflection", "step_1", "reflection_1"].map(|id| format!("call_7/{id}"))
    );
}
