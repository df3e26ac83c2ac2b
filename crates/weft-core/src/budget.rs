//! What an agent or a whole run may use up. Budgets nest: what is spent in a sub-agent counts for
//! every agent above it and for the run, so retries, resumes and sub-agents cannot get round one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::seam::chat_model::{Prices, Usage};

/// How much may be used. Absent means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// Rounds of tool calls.
    pub rounds: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Calls of models.
    pub model_calls: Option<u64>,
    /// Tokens read and written by models.
    pub tokens: Option<u64>,
    /// Money, in the currency of the models' prices.
    pub money: Option<f64>,
    /// Seconds of working time. Waiting for a person does not count.
    pub seconds: Option<f64>,
}

/// How much has been used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Rounds of tool calls.
    pub rounds: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Calls of models.
    pub model_calls: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Millionths of the currency of the prices.
    pub micros: u64,
    /// Milliseconds of working time.
    pub millis: u64,
}

/// What a budget can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Rounds of tool calls.
    Rounds,
    /// Tool calls.
    ToolCalls,
    /// Calls of models.
    ModelCalls,
    /// Tokens.
    Tokens,
    /// Money.
    Money,
    /// Seconds.
    Seconds,
}

impl Limit {
    /// The word for it in settings and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rounds => "rounds",
            Self::ToolCalls => "tool_calls",
            Self::ModelCalls => "model_calls",
            Self::Tokens => "tokens",
            Self::Money => "money",
            Self::Seconds => "seconds",
        }
    }

    /// The error of work that this limit has ended.
    pub fn error(self) -> Error {
        let what = self.as_str();
        Error::new(ErrorKind::QuotaExceeded, format!("the budget of {what} is used up"))
            .help(format!("raise `budget.{what}` of the agent or `limits.budget.{what}` of the server"))
    }
}

/// A budget and those around it.
#[derive(Debug)]
pub struct Budget {
    limits: BudgetLimits,
    rounds: AtomicU64,
    tool_calls: AtomicU64,
    model_calls: AtomicU64,
    tokens: AtomicU64,
    micros: AtomicU64,
    /// Working time before `began`.
    millis_before: u64,
    began: Instant,
    around: Option<Arc<Budget>>,
}

impl Budget {
    /// A budget of which `spent` is used already, within `around`.
    pub fn new(limits: BudgetLimits, spent: Spent, around: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            rounds: spent.rounds.into(),
            tool_calls: spent.tool_calls.into(),
            model_calls: spent.model_calls.into(),
            tokens: spent.tokens.into(),
            micros: spent.micros.into(),
            millis_before: spent.millis,
            began: Instant::now(),
            around,
        })
    }

    /// A budget without limits.
    pub fn unlimited() -> Arc<Self> {
        Self::new(BudgetLimits::default(), Spent::default(), None)
    }

    /// A budget within this one.
    pub fn within(self: &Arc<Self>, limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        Self::new(limits, spent, Some(Arc::clone(self)))
    }

    /// Adds what was used before, in a life of this work that is over.
    pub fn note(&self, spent: Spent) {
        self.rounds.fetch_add(spent.rounds, Ordering::Relaxed);
        self.tool_calls.fetch_add(spent.tool_calls, Ordering::Relaxed);
        self.model_calls.fetch_add(spent.model_calls, Ordering::Relaxed);
        self.tokens.fetch_add(spent.tokens, Ordering::Relaxed);
        self.micros.fetch_add(spent.micros, Ordering::Relaxed);
    }

    /// What has been used, what was used before included.
    pub fn spent(&self) -> Spent {
        let worked = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Spent {
            rounds: self.rounds.load(Ordering::Relaxed),
            tool_calls: self.tool_calls.load(Ordering::Relaxed),
            model_calls: self.model_calls.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            micros: self.micros.load(Ordering::Relaxed),
            millis: self.millis_before.saturating_add(worked),
        }
    }

    /// Takes a place for one more round of tool calls, here and in every budget around.
    ///
    /// # Errors
    /// The limit that is reached; then nothing is taken.
    pub fn take_round(&self) -> Result<(), Limit> {
        self.take(&|budget| (&budget.rounds, budget.limits.rounds), Limit::Rounds)
    }

    /// Takes a place for one more tool call, so that calls made side by side cannot exceed the limit.
    ///
    /// # Errors
    /// The limit that is reached; then nothing is taken.
    pub fn take_tool_call(&self) -> Result<(), Limit> {
        self.take(&|budget| (&budget.tool_calls, budget.limits.tool_calls), Limit::ToolCalls)
    }

    /// Takes a place for one more call of a model. Tokens, money and time are only known afterwards:
    /// a call begins while something of each is left.
    ///
    /// # Errors
    /// The limit that is reached; then nothing is taken.
    pub fn take_model_call(&self) -> Result<(), Limit> {
        if let Some(limit) = self.exhausted() {
            return Err(limit);
        }
        self.take(&|budget| (&budget.model_calls, budget.limits.model_calls), Limit::ModelCalls)
    }

    fn take(&self, of: &dyn Fn(&Self) -> (&AtomicU64, Option<u64>), limit: Limit) -> Result<(), Limit> {
        let mut taken: Vec<&AtomicU64> = Vec::new();
        let mut budget = Some(self);
        while let Some(here) = budget {
            let (counter, max) = of(here);
            let room = |count: u64| max.is_none_or(|max| count < max).then(|| count.saturating_add(1));
            if counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
                for counter in taken {
                    counter.fetch_sub(1, Ordering::Relaxed);
                }
                return Err(limit);
            }
            taken.push(counter);
            budget = here.around.as_deref();
        }
        Ok(())
    }

    /// Notes what a call of a model used, here and in every budget around.
    pub fn used(&self, usage: Usage, prices: Option<Prices>) {
        let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        let micros = prices.map_or(0, |prices| micros(usage, prices));
        let mut budget = Some(self);
        while let Some(here) = budget {
            here.tokens.fetch_add(tokens, Ordering::Relaxed);
            here.micros.fetch_add(micros, Ordering::Relaxed);
            budget = here.around.as_deref();
        }
    }

    /// The limit on tokens, money or time that is used up, here or around.
    pub fn exhausted(&self) -> Option<Limit> {
        let spent = self.spent();
        let money = |max: f64| spent.micros as f64 >= max * 1e6;
        let seconds = |max: f64| spent.millis as f64 >= max * 1e3;
        let here = if self.limits.tokens.is_some_and(|max| spent.tokens >= max) {
            Some(Limit::Tokens)
        } else if self.limits.money.is_some_and(money) {
            Some(Limit::Money)
        } else if self.limits.seconds.is_some_and(seconds) {
            Some(Limit::Seconds)
        } else {
            None
        };
        here.or_else(|| self.around.as_ref()?.exhausted())
    }

    /// Whether money is limited, here or around.
    pub fn limits_money(&self) -> bool {
        self.limits.money.is_some() || self.around.as_ref().is_some_and(|around| around.limits_money())
    }

    /// How much time is left, here and around; `None` without a limit.
    pub fn time_left(&self) -> Option<Duration> {
        let here = self.limits.seconds.map(|max| {
            let left = max - self.spent().millis as f64 / 1e3;
            Duration::try_from_secs_f64(left).unwrap_or(Duration::ZERO)
        });
        let around = self.around.as_ref().and_then(|around| around.time_left());
        match (here, around) {
            (Some(here), Some(around)) => Some(here.min(around)),
            (here, around) => here.or(around),
        }
    }
}

/// What a call cost, in millionths, rounded up.
fn micros(usage: Usage, prices: Prices) -> u64 {
    let micros =
        usage.prompt_tokens as f64 * prices.prompt + usage.completion_tokens as f64 * prices.completion;
    if micros.is_finite() && micros > 0.0 { micros.ceil() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(change: impl Fn(&mut BudgetLimits)) -> BudgetLimits {
        let mut limits = BudgetLimits::default();
        change(&mut limits);
        limits
    }

    #[test]
    fn what_is_spent_inside_counts_outside() {
        let run = Budget::new(limits(|l| l.tool_calls = Some(3)), Spent::default(), None);
        let agent = run.within(limits(|l| l.tool_calls = Some(2)), Spent::default());
        let sub = agent.within(BudgetLimits::default(), Spent::default());
        assert_eq!(run.take_tool_call(), Ok(()));
        assert_eq!((sub.take_tool_call(), sub.take_tool_call()), (Ok(()), Ok(())));
        assert_eq!(sub.take_tool_call(), Err(Limit::ToolCalls));
        // What was refused further out is not taken further in.
        assert_eq!((sub.spent().tool_calls, agent.spent().tool_calls, run.spent().tool_calls), (2, 2, 3));
        assert_eq!(
            run.within(BudgetLimits::default(), Spent::default()).take_tool_call(),
            Err(Limit::ToolCalls)
        );
    }

    #[test]
    fn tokens_and_money_are_counted_after_the_call() {
        let usage = Usage { prompt_tokens: 600, completion_tokens: 400, calls: 1 };
        let prices = Some(Prices { prompt: 2.0, completion: 10.0 });
        let check = |limits: BudgetLimits, calls: usize, expected: Option<Limit>| {
            let budget = Budget::new(limits, Spent::default(), None);
            for _ in 0..calls {
                assert_eq!(budget.take_model_call(), Ok(()));
                budget.used(usage, prices);
            }
            assert_eq!(budget.take_model_call().err(), expected, "{limits:?}");
        };
        check(limits(|l| l.tokens = Some(1_500)), 1, None);
        check(limits(|l| l.tokens = Some(1_500)), 2, Some(Limit::Tokens));
        check(limits(|l| l.money = Some(0.0052)), 1, Some(Limit::Money));
        check(limits(|l| l.money = Some(0.0053)), 1, None);
        check(limits(|l| l.model_calls = Some(2)), 2, Some(Limit::ModelCalls));
        check(BudgetLimits::default(), 5, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_from_what_was_used_before() {
        let before = Spent { millis: 4_000, ..Spent::default() };
        let budget = Budget::new(limits(|l| l.seconds = Some(10.0)), before, None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(budget.time_left(), Some(Duration::from_secs(1)));
        assert_eq!(budget.exhausted(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            budget.within(BudgetLimits::default(), Spent::default()).exhausted(),
            Some(Limit::Seconds)
        );
        assert_eq!(budget.spent().millis, 10_000);
    }
}
