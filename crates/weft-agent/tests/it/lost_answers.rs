//! Answers that break off count towards budgets, each exactly once.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use serde_json::json;
use weft_agent::ask::ask;
use weft_core::budget::{Budget, BudgetLimits, Holder, Spent};
use weft_core::effect::{EffectResult, Effects, Known};
use weft_core::seam::chat_model::{
    ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, Prices, StopReason, Usage,
};
use weft_core::{Error, ErrorKind, Piece, Result, async_trait};
use weft_models::script::Fault;
use weft_testkit::{Reply, Step};

use crate::kit::World;

/// An answer that breaks off after three words, which are estimated at four tokens.
fn broken() -> Reply {
    Reply::text("half an answer").then(Step::Fault(Fault::Cut))
}

fn priced(mut world: World) -> World {
    world
        .change(|ctx| ctx.budget = Budget::new(Holder::Run, BudgetLimits::default(), Spent::default(), None));
    world
}

/// The same work in another process, with the journal of the first.
fn again(known: HashMap<Arc<str>, Known>) -> World {
    let mut world = World::new([]);
    world.model_info(8_000, Some(Prices::new(1.0, 1.0)));
    world.change(|ctx| ctx.effects = Effects::known(known));
    priced(world)
}

fn used(world: &World) -> usize {
    world.signals().iter().filter(|signal| *signal == "used").count()
}

#[tokio::test(start_paused = true)]
async fn a_retried_answer_counts_with_the_one_before_it() {
    let first = priced(World::with_retries([broken(), broken(), Reply::text("whole").usage(30, 4)]));
    assert_eq!(first.ask().await.unwrap().text, "whole");
    let spent = first.ctx.budget.spent();
    // Each of the broken ones has a question of at least one token, and four tokens of an answer.
    assert!(spent.tokens >= 34 + 2 * 5, "{spent:?}");
    assert_eq!((spent.model_calls, used(&first), first.asked().len()), (1, 3, 3));
    // Replayed work charges the same, and notifies nobody a second time.
    let second = again(first.known(usize::MAX));
    assert_eq!(second.ask().await.unwrap().text, "whole");
    let replayed = second.ctx.budget.spent();
    assert_eq!((replayed.tokens, replayed.model_calls, replayed.micros), (spent.tokens, 1, spent.tokens));
    assert_eq!((used(&second), second.asked().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_counts_heard_or_not() {
    for heard in [false, true] {
        let ask = async |world: &World| {
            if heard { world.heard_of_failure().await } else { (world.ask().await.unwrap_err(), Vec::new()) }
        };
        let first = priced(World::new([broken()]));
        let (error, shown) = ask(&first).await;
        let spent = first.ctx.budget.spent();
        assert!(spent.tokens >= 5, "{heard}: {spent:?}");
        assert_eq!((error.kind, used(&first)), (ErrorKind::Unavailable, 1), "{heard}");
        assert_eq!(first.notes(), ["began model#0", "gave model#0"]);
        let second = again(first.known(usize::MAX));
        let (same, shown_again) = ask(&second).await;
        assert_eq!((same.kind, same.message, shown_again), (error.kind, error.full(), shown), "{heard}");
        assert_eq!(second.ctx.budget.spent().tokens, spent.tokens, "{heard}");
        assert_eq!(second.asked().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_sent_nothing_is_not_charged() {
    let busy = Reply::error(ErrorKind::Unavailable, "busy");
    let world = priced(World::with_retries([busy, Reply::text("whole").usage(30, 4)]));
    world.ask().await.unwrap();
    assert_eq!((world.ctx.budget.spent().tokens, used(&world)), (34, 1));
}

#[tokio::test(start_paused = true)]
async fn a_broken_answer_that_uses_up_the_budget_does_not_start_over() {
    let mut world = World::with_retries([broken(), Reply::text("whole")]);
    world.budget(BudgetLimits { tokens: Some(5), ..BudgetLimits::default() });
    let error = world.ask().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::QuotaExceeded, "{}", error.full());
    assert!(world.signals().contains(&"limited tokens".to_owned()));
    // The end of a budget is not recorded as an answer: with a larger one the work continues.
    assert_eq!(world.notes(), ["began model#0"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_stopped_counts_as_far_as_it_came() {
    let mut late = World::new([Reply::pieces(["one ", "two ", "three "]).delay_ms(2_000)]);
    late.budget(BudgetLimits { seconds: Some(5.0), ..BudgetLimits::default() });
    assert_eq!(late.ask().await.unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert!(late.ctx.budget.spent().tokens > 0);
    assert_eq!(used(&late), 1);
    // Before the first piece there is nothing to count.
    let mut silent = World::new([Reply::text("late").delay_ms(60_000)]);
    silent.budget(BudgetLimits { seconds: Some(5.0), ..BudgetLimits::default() });
    silent.ask().await.unwrap_err();
    assert_eq!((silent.ctx.budget.spent().tokens, used(&silent)), (0, 0));
}

/// A model whose provider pauses its answer twice. Each of the three parts uses ten tokens.
struct Pausing {
    info: ModelInfo,
    /// The last part breaks off.
    broken: bool,
}

#[async_trait]
impl ChatModel for Pausing {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatStream> {
        let part = |calls: u64| Usage {
            prompt_tokens: 8 * calls,
            completion_tokens: 2 * calls,
            calls,
            ..Usage::default()
        };
        let end = if self.broken {
            Err(Error::new(ErrorKind::Unavailable, "cut"))
        } else {
            Ok(ChatDelta::End { reason: StopReason::Stop, usage: part(3) })
        };
        let text = |text: &str| Ok(ChatDelta::Text(text.to_owned()));
        let pause = || Ok(ChatDelta::Paused { usage: part(1) });
        let deltas = [text("one "), pause(), text("two "), pause(), text("three"), end];
        Ok(stream::iter(deltas).boxed())
    }
}

#[tokio::test]
async fn a_paused_answer_is_charged_at_each_pause() {
    for broken in [false, true] {
        let first = priced(World::new([]));
        let pausing = Pausing { info: first.model.info().clone(), broken };
        let mut shown = String::new();
        let mut show = |piece: Piece| {
            if let Piece::Text(text) = piece {
                shown.push_str(&text);
            }
        };
        let answer = ask(&first.ctx, &pausing, ChatRequest::default(), &mut show).await;
        assert_eq!((answer.is_err(), shown.as_str()), (broken, "one two three"));
        tokio::task::yield_now().await;
        let tokens = first.ctx.budget.spent().tokens;
        assert!(if broken { tokens > 20 } else { tokens == 30 }, "{tokens}");
        assert_eq!(used(&first), 3);
        let second = again(first.known(usize::MAX));
        let replayed = ask(&second.ctx, &pausing, ChatRequest::default(), &mut |_| {}).await;
        assert_eq!((replayed.is_err(), second.ctx.budget.spent().tokens), (broken, tokens));
    }
}

#[tokio::test]
async fn a_paused_answer_that_uses_up_the_budget_does_not_continue() {
    for (max, heard) in [(10, "one "), (15, "one two "), (25, "one two three")] {
        let mut world = World::new([]);
        world.budget(BudgetLimits { tokens: Some(max), ..BudgetLimits::default() });
        let pausing = Pausing { info: world.model.info().clone(), broken: false };
        let mut shown = String::new();
        let mut show = |piece: Piece| {
            if let Piece::Text(text) = piece {
                shown.push_str(&text);
            }
        };
        let answer = ask(&world.ctx, &pausing, ChatRequest::default(), &mut show).await;
        let kind = answer.err().map(|error| error.kind);
        assert_eq!(kind, (max < 20).then_some(ErrorKind::QuotaExceeded), "{max}");
        assert_eq!(shown, heard, "{max}");
    }
}

/// What was recorded before broken answers were counted.
#[tokio::test]
async fn an_older_record_is_replayed() {
    let usage = json!({"prompt_tokens": 30, "completion_tokens": 4, "calls": 1});
    let end = json!({"whole": {"reason": "stop", "usage": usage}});
    let recorded = json!({"text": "old", "calls_left_out": 0, "ending": "whole", "end": end});
    let gave = Known::Ended(EffectResult::Value(recorded.into()));
    let world = again(HashMap::from([(Arc::from("model#0"), gave)]));
    assert_eq!(world.ask().await.unwrap().text, "old");
    assert_eq!(world.ctx.budget.spent().tokens, 34);
}

/// A model in whose place another one answers, which has no prices.
struct Replaced(ModelInfo);

#[async_trait]
impl ChatModel for Replaced {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatStream> {
        let other = ModelInfo { name: "other".to_owned(), prices: None, ..self.0.clone() };
        let end = ChatDelta::End { reason: StopReason::Stop, usage: Usage::default() };
        let deltas = [ChatDelta::AnsweredBy(Arc::new(other)), ChatDelta::Text("yes".to_owned()), end];
        Ok(stream::iter(deltas.map(Ok)).boxed())
    }
}

#[tokio::test]
async fn a_substitute_without_prices_is_reported() {
    let mut world = World::new([]);
    let prices = Some(Prices::new(1.0, 1.0));
    let model = Replaced(ModelInfo { prices, ..world.model.info().clone() });
    for (money, warnings) in [(None, 0), (Some(1.0), 1)] {
        world.budget(BudgetLimits { money, ..BudgetLimits::default() });
        let reply = ask(&world.ctx, &model, ChatRequest::default(), &mut |_| {}).await.unwrap();
        tokio::task::yield_now().await;
        let told = world.signals().into_iter().filter(|signal| signal.contains("model `other`")).count();
        assert_eq!((reply.text.as_str(), told), ("yes", warnings), "{money:?}");
    }
}
