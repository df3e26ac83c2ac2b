//! Limits on what an agent or a whole run may use. Budgets nest: what a sub-agent spends counts for every agent above
//! it and for the run, so retries, resumed work and sub-agents cannot bypass a limit.

mod spent;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::tokens::{Prices, Usage};

pub use self::spent::Spent;

/// Limits on usage. An absent limit means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// Rounds of tool calls.
    pub rounds: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Calls of models.
    pub model_calls: Option<u64>,
    /// Tokens read or written by models.
    pub tokens: Option<u64>,
    /// Cost, in the currency of the models' prices.
    pub money: Option<f64>,
    /// Working time in seconds, excluding time spent waiting for a person.
    pub seconds: Option<f64>,
}

/// The resource that a budget has run out of.
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
    /// The name used for it in settings and answers.
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
}

/// The holder of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// An agent or another node of a canvas.
    Node,
    /// A run.
    Run,
    /// A session: all its turns combined.
    Session,
    /// A canvas: all its runs in a period combined.
    Canvas(Period),
    /// A tenant: all runs of all its canvases in a period combined.
    Tenant(Period),
}

/// A calendar period (UTC) after which a budget resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// A day.
    Day,
    /// A month.
    Month,
    /// No period: the budget never resets.
    Ever,
}

/// Limits for each period. Several may apply at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodLimits {
    /// Per day.
    pub day: BudgetLimits,
    /// Per month.
    pub month: BudgetLimits,
    /// In total.
    pub ever: BudgetLimits,
}

impl PeriodLimits {
    /// Returns each period with its limits, longest first.
    pub fn each(&self) -> [(Period, BudgetLimits); 3] {
        [(Period::Ever, self.ever), (Period::Month, self.month), (Period::Day, self.day)]
    }
}

impl Period {
    /// The name used for it in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Ever => "ever",
        }
    }
}

impl Holder {
    /// Returns the error of work that was ended by this holder's limit; `max` is the limit's value.
    fn error(self, limit: Limit, max: Option<String>) -> Error {
        let what = limit.as_str();
        let (whose, remedy) = match self {
            Self::Node => ("the agent's".to_owned(), format!("raise `budget.{what}` of the agent")),
            Self::Run => ("the run's".to_owned(), format!("raise `limits.budget.{what}` of the server")),
            Self::Session => (
                "the session's".to_owned(),
                format!("start a new session, or raise `limits.session_budget.{what}` of the server"),
            ),
            Self::Canvas(period) => ("the canvas's".to_owned(), later(period, "canvas_budget", what)),
            Self::Tenant(period) => ("the tenant's".to_owned(), later(period, "tenant_budget", what)),
        };
        let when = match self {
            Self::Canvas(period) | Self::Tenant(period) if period != Period::Ever => {
                format!(" for this {}", period.as_str())
            }
            _ => String::new(),
        };
        let max = max.map(|max| format!(": it is {max}")).unwrap_or_default();
        let message = format!("{whose} budget of {what}{when} is used up{max}");
        Error::new(ErrorKind::QuotaExceeded, message).help(remedy)
    }
}

fn later(period: Period, setting: &str, what: &str) -> String {
    let wait = match period {
        Period::Day => "wait for the next day (UTC), or ",
        Period::Month => "wait for the next month (UTC), or ",
        Period::Ever => "",
    };
    format!("{wait}raise `limits.{setting}.{}.{what}` of the server", period.as_str())
}

/// A budget and the budgets that enclose it.
#[derive(Debug)]
pub struct Budget {
    holder: Holder,
    limits: BudgetLimits,
    rounds: AtomicU64,
    tool_calls: AtomicU64,
    model_calls: AtomicU64,
    tokens: AtomicU64,
    micros: AtomicU64,
    /// Working time, excluding the time since `began`.
    millis: AtomicU64,
    /// When time started to count; absent if concurrent runs share the budget, so that their working times are added
    /// up instead.
    began: Option<Instant>,
    /// What had been used when this budget was created.
    before: Spent,
    around: Option<Arc<Budget>>,
}

impl Budget {
    /// Creates a budget within `around`, of which `spent` has already been used.
    pub fn new(holder: Holder, limits: BudgetLimits, spent: Spent, around: Option<Arc<Self>>) -> Arc<Self> {
        // Runs that share the budget work concurrently: elapsed time is not working time, so their working times are
        // added up.
        let shared = matches!(holder, Holder::Canvas(_) | Holder::Tenant(_));
        Self::since((!shared).then(Instant::now), holder, limits, spent, around)
    }

    fn since(
        began: Option<Instant>,
        holder: Holder,
        limits: BudgetLimits,
        spent: Spent,
        around: Option<Arc<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            holder,
            limits,
            rounds: spent.rounds.into(),
            tool_calls: spent.tool_calls.into(),
            model_calls: spent.model_calls.into(),
            tokens: spent.tokens.into(),
            micros: spent.micros.into(),
            millis: spent.millis.into(),
            began,
            before: spent,
            around,
        })
    }

    /// Creates a run's budget without limits.
    pub fn unlimited() -> Arc<Self> {
        Self::new(Holder::Run, BudgetLimits::default(), Spent::default(), None)
    }

    /// Creates a node's budget within this one.
    pub fn within(self: &Arc<Self>, limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        self.within_since(Instant::now(), limits, spent)
    }

    /// Like [`Budget::within`]; its time counts from `began`.
    pub fn within_since(self: &Arc<Self>, began: Instant, limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        Self::since(Some(began), Holder::Node, limits, spent, Some(Arc::clone(self)))
    }

    /// Adds what an earlier attempt at this work had used, to this budget and to every enclosing one that is not
    /// shared with other runs. Shared budgets are updated by [`Self::raise_to`].
    pub fn note(&self, spent: Spent) {
        let mut budget = Some(self);
        while let Some(here) = budget.filter(|budget| budget.began.is_some()) {
            for (counter, number) in here.counters().into_iter().zip(numbers(spent)) {
                add(counter, number);
            }
            budget = here.around.as_deref();
        }
    }

    /// Records that at least this much has been used, by whichever runs.
    pub fn raise_to(&self, spent: Spent) {
        for (counter, number) in self.counters().into_iter().zip(numbers(spent)) {
            // Takes the maximum, because what this process has counted since the store was read is not yet in the
            // store.
            counter.fetch_max(number, Ordering::Relaxed);
        }
    }

    /// Starts anew, in another period in which this much has been used.
    pub fn restart(&self, spent: Spent) {
        for (counter, number) in self.counters().into_iter().zip(numbers(spent)) {
            counter.store(number, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> [&AtomicU64; 6] {
        [&self.rounds, &self.tool_calls, &self.model_calls, &self.tokens, &self.micros, &self.millis]
    }

    /// Returns what has been used, including what had been used before.
    pub fn spent(&self) -> Spent {
        let worked =
            self.began.map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let counted = self.counted();
        Spent { millis: counted.millis.saturating_add(worked), ..counted }
    }

    /// Like [`Budget::spent`], without the time since `began`.
    fn counted(&self) -> Spent {
        Spent {
            rounds: self.rounds.load(Ordering::Relaxed),
            tool_calls: self.tool_calls.load(Ordering::Relaxed),
            model_calls: self.model_calls.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            micros: self.micros.load(Ordering::Relaxed),
            millis: self.millis.load(Ordering::Relaxed),
        }
    }

    /// Returns what has been used since this budget was created.
    pub fn own(&self) -> Spent {
        self.spent().beyond(self.before)
    }

    /// Like [`Budget::own`], without any time.
    pub fn own_without_time(&self) -> Spent {
        self.counted().beyond(self.before).without_time()
    }

    /// Returns what had been used when this budget was created.
    pub fn before(&self) -> Spent {
        self.before
    }

    /// Returns the error of work that was ended by a limit. It names the holder of the budget.
    pub fn error(&self, limit: Limit) -> Error {
        let around = || std::iter::successors(Some(self), |budget| budget.around.as_deref());
        // The caller knows the limit but not its holder, so this searches for the nearest budget that has reached it.
        let reached = around().find(|budget| budget.reached(limit));
        // The period may have reset in the meantime, so that none is reached any more.
        let limited = || around().find(|budget| budget.limited(limit));
        let budget = reached.or_else(limited).unwrap_or(self);
        budget.holder.error(limit, budget.max(limit))
    }

    /// Returns the limit as it is written in settings.
    fn max(&self, limit: Limit) -> Option<String> {
        let BudgetLimits { rounds, tool_calls, model_calls, tokens, money, seconds } = self.limits;
        match limit {
            Limit::Rounds => rounds.map(|max| max.to_string()),
            Limit::ToolCalls => tool_calls.map(|max| max.to_string()),
            Limit::ModelCalls => model_calls.map(|max| max.to_string()),
            Limit::Tokens => tokens.map(|max| max.to_string()),
            Limit::Money => money.map(|max| max.to_string()),
            Limit::Seconds => seconds.map(|max| max.to_string()),
        }
    }

    fn limited(&self, limit: Limit) -> bool {
        self.max(limit).is_some()
    }

    fn reached(&self, limit: Limit) -> bool {
        let spent = self.spent();
        match limit {
            Limit::Rounds => self.limits.rounds.is_some_and(|max| spent.rounds >= max),
            Limit::ToolCalls => self.limits.tool_calls.is_some_and(|max| spent.tool_calls >= max),
            Limit::ModelCalls => self.limits.model_calls.is_some_and(|max| spent.model_calls >= max),
            Limit::Tokens => self.limits.tokens.is_some_and(|max| spent.tokens >= max),
            Limit::Money => self.limits.money.is_some_and(|max| spent.micros as f64 >= max * 1e6),
            Limit::Seconds => self.limits.seconds.is_some_and(|max| spent.millis as f64 >= max * 1e3),
        }
    }

    /// Takes one round of tool calls, from this budget and every enclosing one.
    ///
    /// # Errors
    /// The limit that is reached; nothing is taken then.
    pub fn take_round(&self) -> Result<(), Limit> {
        self.take(&|budget| (&budget.rounds, budget.limits.rounds), Limit::Rounds)
    }

    /// Takes one tool call, before it is made, so that concurrent calls cannot exceed the limit.
    ///
    /// # Errors
    /// The limit that is reached; nothing is taken then.
    pub fn take_tool_call(&self) -> Result<(), Limit> {
        self.take(&|budget| (&budget.tool_calls, budget.limits.tool_calls), Limit::ToolCalls)
    }

    /// Takes one model call. Tokens, money and time are known only afterwards: a call may start while some of each is
    /// left.
    ///
    /// # Errors
    /// The limit that is reached; nothing is taken then.
    pub fn take_model_call(&self) -> Result<(), Limit> {
        // Checked without taking anything: how much of these a call uses is known only once it has returned.
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
            // Each counter is independent and nothing else is synchronised by it, so no stronger ordering is needed.
            if counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
                for counter in taken {
                    // Return what was taken from the inner budgets, so that an exhausted outer budget costs them
                    // nothing. One that has started anew since has nothing to return.
                    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                        Some(count.saturating_sub(1))
                    });
                }
                return Err(limit);
            }
            taken.push(counter);
            budget = here.around.as_deref();
        }
        Ok(())
    }

    /// Adds what a model call used, to this budget and every enclosing one. Returns its cost in millionths.
    pub fn used(&self, usage: Usage, prices: Option<Prices>) -> u64 {
        let tokens = usage.total_tokens();
        let micros = prices.map_or(0, |prices| micros(usage, prices));
        let mut budget = Some(self);
        while let Some(here) = budget {
            add(&here.tokens, tokens);
            add(&here.micros, micros);
            budget = here.around.as_deref();
        }
        micros
    }

    /// Returns the limit on tokens, money or time that is exhausted, in this budget or an enclosing one.
    pub fn exhausted(&self) -> Option<Limit> {
        let here =
            [Limit::Tokens, Limit::Money, Limit::Seconds].into_iter().find(|limit| self.reached(*limit));
        here.or_else(|| self.around.as_ref()?.exhausted())
    }

    /// Returns whether this budget or an enclosing one limits money.
    pub fn limits_money(&self) -> bool {
        self.limits.money.is_some() || self.around.as_ref().is_some_and(|around| around.limits_money())
    }

    /// Returns how much time is left in this budget and the enclosing ones; `None` without a limit.
    pub fn time_left(&self) -> Option<Duration> {
        let here = self.limits.seconds.map(|max| {
            let left = max - self.spent().millis as f64 / 1e3;
            // A limit larger than a `Duration` can hold is unreachable, not exhausted.
            if left > 0.0 {
                Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)
            } else {
                Duration::ZERO
            }
        });
        let around = self.around.as_ref().and_then(|around| around.time_left());
        match (here, around) {
            (Some(here), Some(around)) => Some(here.min(around)),
            (here, around) => here.or(around),
        }
    }
}

/// Adds to a counter, saturating at the maximum. Usage reported by a provider is untrusted: a counter that wrapped
/// around would restore an exhausted budget.
fn add(counter: &AtomicU64, number: u64) {
    let sum = |count: u64| Some(count.saturating_add(number));
    // Cannot fail: the closure always returns a sum.
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

fn numbers(spent: Spent) -> [u64; 6] {
    let Spent { rounds, tool_calls, model_calls, tokens, micros, millis } = spent;
    [rounds, tool_calls, model_calls, tokens, micros, millis]
}

/// Returns the cost of a call in millionths, rounded up.
pub fn micros(usage: Usage, prices: Prices) -> u64 {
    let Usage { prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens, .. } = usage;
    // Providers include cached tokens in the prompt tokens. Inconsistent numbers yield 0 instead of a huge value.
    let read = prompt_tokens.saturating_sub(cache_read_tokens).saturating_sub(cache_write_tokens);
    let micros = read as f64 * prices.prompt
        + cache_read_tokens as f64 * prices.cache_read.unwrap_or(prices.prompt)
        + cache_write_tokens as f64 * prices.cache_write.unwrap_or(prices.prompt)
        + completion_tokens as f64 * prices.completion;
    // Rounded up, because otherwise many small calls would be free. The float-to-int cast saturates: a cost beyond
    // the largest number becomes the largest number, not zero, which would exhaust no budget.
    if micros > 0.0 { micros.ceil() as u64 } else { 0 }
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
    fn usage_of_an_inner_budget_counts_in_the_outer() {
        let run = Budget::new(Holder::Run, limits(|l| l.tool_calls = Some(3)), Spent::default(), None);
        let agent = run.within(limits(|l| l.tool_calls = Some(2)), Spent::default());
        let sub = agent.within(BudgetLimits::default(), Spent::default());
        assert_eq!(run.take_tool_call(), Ok(()));
        assert_eq!((sub.take_tool_call(), sub.take_tool_call()), (Ok(()), Ok(())));
        assert_eq!(sub.take_tool_call(), Err(Limit::ToolCalls));
        // Usage refused by an outer budget is not taken from an inner one.
        assert_eq!((sub.spent().tool_calls, agent.spent().tool_calls, run.spent().tool_calls), (2, 2, 3));
        assert_eq!(
            run.within(BudgetLimits::default(), Spent::default()).take_tool_call(),
            Err(Limit::ToolCalls)
        );
    }

    #[test]
    fn tokens_and_money_are_counted_after_the_call() {
        let usage = Usage { prompt_tokens: 600, completion_tokens: 400, calls: 1, ..Usage::default() };
        let prices = Some(Prices::new(2.0, 10.0));
        let check = |limits: BudgetLimits, calls: usize, expected: Option<Limit>| {
            let budget = Budget::new(Holder::Run, limits, Spent::default(), None);
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

    #[test]
    fn cached_tokens_cost_the_provider_cache_price() {
        let usage = Usage {
            prompt_tokens: 1_000,
            completion_tokens: 10,
            calls: 1,
            cache_read_tokens: 700,
            cache_write_tokens: 200,
            reasoning_tokens: 4,
        };
        let prices =
            |cache_read, cache_write| Prices { prompt: 2.0, completion: 10.0, cache_read, cache_write };
        assert_eq!(micros(usage, prices(None, None)), 2_100);
        assert_eq!(micros(usage, prices(Some(0.2), None)), 200 + 140 + 400 + 100);
        assert_eq!(micros(usage, prices(Some(0.2), Some(2.5))), 200 + 140 + 500 + 100);
        // A provider that counts them separately never gets a negative cost.
        let beside = Usage { prompt_tokens: 100, ..usage };
        assert_eq!(micros(beside, prices(Some(0.2), Some(2.5))), 140 + 500 + 100);
    }

    #[test]
    fn extreme_numbers_exhaust_a_budget_and_never_refund_it() {
        let budget = Budget::new(Holder::Run, limits(|l| l.tokens = Some(u64::MAX)), Spent::default(), None);
        let usage = Usage { prompt_tokens: u64::MAX, ..Usage::default() };
        budget.used(usage, None);
        budget.used(Usage { prompt_tokens: 1, ..usage }, None);
        assert_eq!(budget.take_model_call(), Err(Limit::Tokens));
        budget.note(Spent { tokens: 1, ..Spent::default() });
        assert_eq!(budget.spent().tokens, u64::MAX);
        let endless = Budget::new(Holder::Run, limits(|l| l.seconds = Some(1e30)), Spent::default(), None);
        assert_eq!(endless.time_left(), Some(Duration::MAX));
        let dear = Prices { prompt: f64::MAX, completion: 0.0, cache_read: None, cache_write: None };
        assert_eq!(micros(usage, dear), u64::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn time_continues_from_previous_usage() {
        let before = Spent { millis: 4_000, ..Spent::default() };
        let budget = Budget::new(Holder::Run, limits(|l| l.seconds = Some(10.0)), before, None);
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
