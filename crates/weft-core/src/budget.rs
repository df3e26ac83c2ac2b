//! What an agent or a whole run may use up. Budgets nest: what is spent in a sub-agent counts for
//! every agent above it and for the run, so retries, resumes and sub-agents cannot get round one.

mod spent;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::seam::chat_model::{Prices, Usage};

pub use self::spent::Spent;

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
}

/// Whose budget it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// An agent or another node of a canvas.
    Node,
    /// A run.
    Run,
    /// A session: all its turns together.
    Session,
    /// A canvas: all runs of a period together.
    Canvas(Period),
    /// A tenant: all runs of all its canvases in a period together.
    Tenant(Period),
}

/// A stretch of the calendar (UTC) after which a budget begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// A day.
    Day,
    /// A month.
    Month,
    /// None: it never begins anew.
    Ever,
}

/// How much may be used in each period. Several hold at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodLimits {
    /// In a day.
    pub day: BudgetLimits,
    /// In a month.
    pub month: BudgetLimits,
    /// In all.
    pub ever: BudgetLimits,
}

impl PeriodLimits {
    /// Each period with its limits, the longest first.
    pub fn each(&self) -> [(Period, BudgetLimits); 3] {
        [(Period::Ever, self.ever), (Period::Month, self.month), (Period::Day, self.day)]
    }
}

impl Period {
    /// The word for it in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Ever => "ever",
        }
    }
}

impl Holder {
    /// The error of work that this holder's limit has ended, which is so much.
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

/// A budget and those around it.
#[derive(Debug)]
pub struct Budget {
    holder: Holder,
    limits: BudgetLimits,
    rounds: AtomicU64,
    tool_calls: AtomicU64,
    model_calls: AtomicU64,
    tokens: AtomicU64,
    micros: AtomicU64,
    /// Working time, without what has passed since `began`.
    millis: AtomicU64,
    /// Since when time counts; absent where many work at the same time, and time is added.
    began: Option<Instant>,
    /// What was used when this began.
    before: Spent,
    around: Option<Arc<Budget>>,
}

impl Budget {
    /// A budget of which `spent` is used already, within `around`.
    pub fn new(holder: Holder, limits: BudgetLimits, spent: Spent, around: Option<Arc<Self>>) -> Arc<Self> {
        // Runs work there side by side: the time that passes is not the time that they work, so theirs is
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

    /// A run's budget without limits.
    pub fn unlimited() -> Arc<Self> {
        Self::new(Holder::Run, BudgetLimits::default(), Spent::default(), None)
    }

    /// A node's budget within this one.
    pub fn within(self: &Arc<Self>, limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        self.within_since(Instant::now(), limits, spent)
    }

    /// The same; its time counts from `began` on.
    pub fn within_since(self: &Arc<Self>, began: Instant, limits: BudgetLimits, spent: Spent) -> Arc<Self> {
        Self::since(Some(began), Holder::Node, limits, spent, Some(Arc::clone(self)))
    }

    /// Adds what was used before, in a life of this work that is over, here and in every budget around
    /// that is not shared with other runs: those are told by [`Self::raise_to`].
    pub fn note(&self, spent: Spent) {
        let mut budget = Some(self);
        while let Some(here) = budget.filter(|budget| budget.began.is_some()) {
            for (counter, number) in here.counters().into_iter().zip(numbers(spent)) {
                add(counter, number);
            }
            budget = here.around.as_deref();
        }
    }

    /// Takes note that at least so much has been used, by whomever.
    pub fn raise_to(&self, spent: Spent) {
        for (counter, number) in self.counters().into_iter().zip(numbers(spent)) {
            // The greater one: what this process has counted since the store was asked is not in the store
            // yet.
            counter.fetch_max(number, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> [&AtomicU64; 6] {
        [&self.rounds, &self.tool_calls, &self.model_calls, &self.tokens, &self.micros, &self.millis]
    }

    /// What has been used, what was used before included.
    pub fn spent(&self) -> Spent {
        let worked =
            self.began.map_or(0, |began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let counted = self.counted();
        Spent { millis: counted.millis.saturating_add(worked), ..counted }
    }

    /// The same, without the time since this began.
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

    /// What has been used since this began.
    pub fn own(&self) -> Spent {
        self.spent().beyond(self.before)
    }

    /// The same, without any time.
    pub fn own_without_time(&self) -> Spent {
        self.counted().beyond(self.before).without_time()
    }

    /// What was used already when this began.
    pub fn before(&self) -> Spent {
        self.before
    }

    /// The error of work that a limit has ended: it names whose budget it is.
    pub fn error(&self, limit: Limit) -> Error {
        let around = || std::iter::successors(Some(self), |budget| budget.around.as_deref());
        // Looked for again, because whoever asks knows the limit and not whose it is: the nearest one that is
        // reached.
        let reached = around().find(|budget| budget.reached(limit));
        // A period may have begun anew in the meantime, so that none is reached any more.
        let limited = || around().find(|budget| budget.limited(limit));
        let budget = reached.or_else(limited).unwrap_or(self);
        budget.holder.error(limit, budget.max(limit))
    }

    /// How much there is of it, as it is written in settings.
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
        // Looked at without taking anything: what a call will use of these is known when it has come back.
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
            // Each counter stands for itself, and nothing else is read by it: no stronger ordering is needed.
            if counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
                for counter in taken {
                    // What was taken further in is given back, so that a budget around that is used up costs
                    // those within nothing.
                    counter.fetch_sub(1, Ordering::Relaxed);
                }
                return Err(limit);
            }
            taken.push(counter);
            budget = here.around.as_deref();
        }
        Ok(())
    }

    /// Notes what a call of a model used, here and in every budget around. What it cost, in millionths.
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

    /// The limit on tokens, money or time that is used up, here or around.
    pub fn exhausted(&self) -> Option<Limit> {
        let here =
            [Limit::Tokens, Limit::Money, Limit::Seconds].into_iter().find(|limit| self.reached(*limit));
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
            // A limit beyond what a duration holds is none that is reached, and not one that is used up.
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

/// Adds to a counter, up to the largest number. What a provider says it has used is a stranger's number: a counter that
/// began anew behind it would give a used-up budget back.
fn add(counter: &AtomicU64, number: u64) {
    let sum = |count: u64| Some(count.saturating_add(number));
    // Never refused: there is always a sum.
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

fn numbers(spent: Spent) -> [u64; 6] {
    let Spent { rounds, tool_calls, model_calls, tokens, micros, millis } = spent;
    [rounds, tool_calls, model_calls, tokens, micros, millis]
}

/// What a call cost, in millionths, rounded up.
pub fn micros(usage: Usage, prices: Prices) -> u64 {
    let Usage { prompt_tokens, completion_tokens, cache_read_tokens, cache_write_tokens, .. } = usage;
    // Providers count what is cached among the tokens of the question; numbers that do not fit together give
    // 0 here and not a huge one.
    let read = prompt_tokens.saturating_sub(cache_read_tokens).saturating_sub(cache_write_tokens);
    let micros = read as f64 * prices.prompt
        + cache_read_tokens as f64 * prices.cache_read.unwrap_or(prices.prompt)
        + cache_write_tokens as f64 * prices.cache_write.unwrap_or(prices.prompt)
        + completion_tokens as f64 * prices.completion;
    // Rounded up: many small calls would cost nothing else.
    // What is more than can be counted is the most that can, and not nothing: it would use no budget up.
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
    fn what_is_spent_inside_counts_outside() {
        let run = Budget::new(Holder::Run, limits(|l| l.tool_calls = Some(3)), Spent::default(), None);
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
    fn what_a_cache_has_costs_what_the_provider_takes_for_it() {
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
        // A provider that counts them beside the others is not paid less than nothing.
        let beside = Usage { prompt_tokens: 100, ..usage };
        assert_eq!(micros(beside, prices(Some(0.2), Some(2.5))), 140 + 500 + 100);
    }

    #[test]
    fn numbers_at_their_ends_use_a_budget_up_and_never_give_it_back() {
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
    async fn time_goes_on_from_what_was_used_before() {
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
