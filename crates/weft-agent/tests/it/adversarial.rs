//! A model that misbehaves in every way cannot exceed a budget by more than one call.

use proptest::prelude::*;
use serde_json::json;
use weft_agent::driver::Driver;
use weft_agent::native::Native;
use weft_agent::planner::Planner;
use weft_core::budget::BudgetLimits;
use weft_core::seam::chat_model::Prices;
use weft_core::{Error, ErrorKind};
use weft_testkit::{Reply, ScriptedModel};

use crate::kit::{World, question};

/// A random misbehaviour of models, chosen by `dice`.
fn worst(dice: u64, nth: usize) -> Reply {
    let step = |name: &str, arguments: serde_json::Value| Reply::call(name, arguments);
    match dice % 9 {
        0 => step("look", json!({"q": format!("{nth} times")})),
        1 => step("look", json!({"q": "the same"})),
        2 => (0..200).fold(step("look", json!({"q": "many"})), |reply, n| {
            reply.and_call("look", json!({"q": n.to_string()}))
        }),
        3 => Reply::default().and_call_text("look", "{{{\"q\": "),
        4 => step("nosuch", json!({"q": "x"})),
        5 => Reply::text("flood ".repeat(20_000)).and_call("look", json!({"q": nth.to_string()})),
        6 => Reply::empty(),
        7 => step("frail", json!({"q": "x"})),
        _ => Reply::text(r#"[{"name": "look", "arguments": {"q": "planned"}}, {"name": "nosuch"}, 7]"#),
    }
    .usage(100, 50)
}

fn world(dice: Vec<u64>) -> World {
    let model = ScriptedModel::from_fn(move |_, nth| worst(dice[nth % dice.len()], nth));
    let world = World::with(model);
    world.tool("frail", |_| {}, |_| async { Err(Error::new(ErrorKind::Unavailable, "down")) });
    world
}

/// Every possible ending, and the usage at that point.
fn check(dice: Vec<u64>, limits: BudgetLimits, driver: &dyn Driver) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = world(dice);
        world.options.rounds_max = 40;
        world.model_info(128_000, Some(Prices::new(1.0, 2.0)));
        world.budget(limits);
        let end = world.drive(driver, question("Q")).await;
        let spent = world.ctx.budget.spent();
        assert!(limits.tool_calls.is_none_or(|max| spent.tool_calls <= max), "{spent:?}");
        assert!(limits.rounds.is_none_or(|max| spent.rounds <= max), "{spent:?}");
        assert!(limits.model_calls.is_none_or(|max| spent.model_calls <= max), "{spent:?}");
        // One call may start while something is left: it takes 150 tokens and 200 millionths.
        assert!(limits.tokens.is_none_or(|max| spent.tokens < max + 150), "{spent:?}");
        assert!(limits.money.is_none_or(|max| (spent.micros as f64) < max * 1e6 + 200.0), "{spent:?}");
        assert_eq!(world.asked().len() as u64, spent.model_calls);
        let made = world.called().len() as u64;
        assert!(made <= spent.tool_calls, "{made} calls, {spent:?}");
        if let Err(error) = end {
            assert!(matches!(error.kind, ErrorKind::QuotaExceeded | ErrorKind::Garbled), "{error:?}");
        }
        // Whatever happened, the model only received valid conversations.
        for request in world.asked() {
            let calls: Vec<_> =
                request.messages.iter().flat_map(|m| &m.tool_calls).map(|call| &call.id).collect();
            let results: Vec<_> = request.messages.iter().filter_map(|m| m.tool_call_id.as_ref()).collect();
            assert_eq!(calls, results);
            let ids: std::collections::BTreeSet<_> = calls.iter().collect();
            assert_eq!(ids.len(), calls.len(), "ids are unique");
        }
        let trace = world.signals();
        let count = |prefix: &str| trace.iter().filter(|signal| signal.starts_with(prefix)).count();
        assert_eq!(count("start "), count("end "), "every started call has an end");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_budget_is_exceeded(
        dice in proptest::collection::vec(0_u64..9, 1..6),
        planned: bool,
        rounds in proptest::option::of(0_u64..6),
        tool_calls in proptest::option::of(0_u64..12),
        model_calls in proptest::option::of(1_u64..12),
        tokens in proptest::option::of(100_u64..3_000),
        money in proptest::option::of(0.0001_f64..0.003),
    ) {
        let driver: &dyn Driver = if planned { &Planner } else { &Native };
        check(dice, BudgetLimits { rounds, tool_calls, model_calls, tokens, money, ..BudgetLimits::default() }, driver);
    }
}

#[tokio::test]
async fn a_spent_budget_ends_the_run_with_quota_exceeded() {
    let mut world = world(vec![0]);
    world.options.rounds_max = 40;
    world.budget(BudgetLimits { tokens: Some(400), ..BudgetLimits::default() });
    let error = world.ask().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::QuotaExceeded);
    assert!(error.full().contains("tokens") && error.help.is_some());
    assert_eq!(world.asked().len(), 3);
    assert!(world.signals().contains(&"limited tokens".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_time_budget_stops_a_silent_model_and_a_slow_tool() {
    let mut slow = World::new([Reply::text("late").delay_ms(60_000)]);
    slow.budget(BudgetLimits { seconds: Some(5.0), ..BudgetLimits::default() });
    let began = tokio::time::Instant::now();
    assert_eq!(slow.ask().await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert_eq!(began.elapsed().as_secs(), 5);
    let mut tool = World::new([Reply::call("sleep", json!({})), Reply::text("never")]);
    tool.tool(
        "sleep",
        |_| {},
        |_| async {
            tokio::time::sleep(std::time::Duration::from_secs(50)).await;
            Ok(json!("late"))
        },
    );
    tool.budget(BudgetLimits { seconds: Some(5.0), ..BudgetLimits::default() });
    let began = tokio::time::Instant::now();
    assert_eq!(tool.ask().await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert_eq!((began.elapsed().as_secs(), tool.asked().len()), (5, 1));
}

#[tokio::test]
async fn the_model_learns_that_tool_calls_are_spent_and_still_answers() {
    let mut world = World::with(ScriptedModel::from_fn(|request, nth| match &request.tool_choice {
        weft_core::seam::chat_model::ToolChoice::None => Reply::text("so far"),
        _ => Reply::call("look", json!({"q": nth.to_string()})).and_call("look", json!({"q": "b"})),
    }));
    world.budget(BudgetLimits { tool_calls: Some(3), ..BudgetLimits::default() });
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.text, "so far");
    assert_eq!(answer.limited.unwrap().as_str(), "tool_calls");
    assert_eq!(world.called().len(), 3);
    let told = world.asked().remove(2).messages;
    assert!(told[told.len() - 2].text.contains("not executed"), "{told:?}");
}
