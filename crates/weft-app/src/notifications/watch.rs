//! Notifications about gradual conditions: budgets that are nearly used up, and tasks that have waited too long.

use std::time::Duration;

use serde_json::json;
use weft_core::budget::{BudgetLimits, Period, PeriodLimits, Spent};
use weft_core::seam::notice_store::{Notice, NoticeKey, NoticeKind};
use weft_core::seam::task_store::{TaskFilter, TaskStatus};
use weft_core::{CanvasId, Result, TenantId};
use weft_engine::engine::first_day;

use super::overdue;
use crate::app::App;
use crate::spending::day as date;
use crate::tokens;

/// Interval for checking the conditions.
const WATCH_EVERY: Duration = Duration::from_secs(60);
/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;
/// Milliseconds in an hour.
const HOUR_MS: i64 = 3_600_000;
/// Maximum number of canvases of one tenant in a check: those that ran today or yesterday.
const CANVASES_MAX: u64 = 10_000;
/// Number of tasks read in one batch.
const TASKS_AT_ONCE: u64 = 200;
/// Maximum number of tasks of one tenant in a check.
const TASKS_MAX: u64 = 10_000;
/// The longest subject that every store accepts.
const SUBJECT_BYTES_MAX: usize = 255;

impl App {
    /// Periodically checks the conditions. Never returns.
    pub(super) async fn keep_watching(&self) {
        loop {
            self.watch().await;
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    /// Records notifications about budgets that are nearly used up and overdue tasks, for the tenants with receivers. A
    /// failure is logged: it must not keep the other tenants from their notifications.
    pub async fn watch(&self) {
        let config = &self.notifications.config;
        for (tenant, receivers) in &config.tenants {
            let tenant = TenantId::from(tenant.as_str());
            if receivers.want(NoticeKind::Budget)
                && let Err(error) = self.watch_budgets(&tenant).await
            {
                tracing::warn!(tenant.id = %tenant, error = error.detail(), "cannot check the budgets of a tenant");
            }
            if receivers.want(NoticeKind::TaskOverdue)
                && config.task_hours > 0
                && let Err(error) = self.watch_tasks(&tenant).await
            {
                tracing::warn!(tenant.id = %tenant, error = error.detail(), "cannot check the tasks of a tenant");
            }
        }
    }

    async fn watch_budgets(&self, tenant: &TenantId) -> Result<()> {
        let allowances = self.limits.allowances();
        self.watch_budget(tenant, None, &allowances.tenant).await?;
        let none = PeriodLimits::default();
        if allowances.canvas == none && allowances.canvases.values().all(|limits| *limits == none) {
            return Ok(());
        }
        // No other canvas has used anything since the last check.
        let yesterday = self.clock.now_ms().div_euclid(DAY_MS).saturating_sub(1);
        let mut canvases: Vec<CanvasId> = self
            .spending
            .days(tenant, yesterday, CANVASES_MAX)
            .await?
            .into_iter()
            .map(|spent| spent.canvas)
            .collect();
        // Each of the two days lists its own canvases.
        canvases.sort_unstable();
        canvases.dedup();
        for canvas in canvases {
            let limits = allowances.canvases.get(&canvas).unwrap_or(&allowances.canvas);
            self.watch_budget(tenant, Some(&canvas), limits).await?;
        }
        Ok(())
    }

    async fn watch_budget(
        &self,
        tenant: &TenantId,
        canvas: Option<&CanvasId>,
        limits: &PeriodLimits,
    ) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let percent = self.notifications.config.budget_percent;
        let mut notices = Vec::new();
        for (period, limits) in limits.each() {
            if limits == BudgetLimits::default() {
                continue;
            }
            let since = first_day(period, now_ms.div_euclid(DAY_MS));
            let spent = self.spending.spent(tenant, canvas, since).await?;
            for used in nearly_used_up(&limits, spent, percent) {
                // The key contains the start of the period, so each period is reported once.
                let key = budget_key(tenant, canvas, period, since, used.limit);
                let said = json!({
                    "agent_id": canvas, "period": period.as_str(), "since": date(since), "limit": used.limit,
                    "max": used.max, "used": used.used, "percent": used.percent(),
                });
                notices.push(Notice { key, said, at_ms: now_ms });
            }
        }
        self.notifications.note(notices).await
    }

    async fn watch_tasks(&self, tenant: &TenantId) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let hours = i64::from(self.notifications.config.task_hours);
        let before_ms = now_ms.saturating_sub(hours.saturating_mul(HOUR_MS));
        for offset in (0..TASKS_MAX).step_by(usize::try_from(TASKS_AT_ONCE).unwrap_or(1)) {
            let filter = TaskFilter {
                status: Some(TaskStatus::Open),
                offset,
                limit: TASKS_AT_ONCE,
                ..TaskFilter::default()
            };
            // The oldest first.
            let (tasks, _) = self.tasks.list(tenant, &filter).await?;
            let count = tasks.len() as u64;
            let old: Vec<_> = tasks.into_iter().take_while(|task| task.created_ms <= before_ms).collect();
            let more = count == TASKS_AT_ONCE && old.len() as u64 == count;
            // A task with its own time limit is reported when that expires.
            let late = old.iter().filter(|task| task.due_ms.is_none());
            self.notifications.note(late.map(|task| overdue(task, now_ms)).collect()).await?;
            if !more {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the key of a budget in one of its periods.
fn budget_key(
    tenant: &TenantId,
    canvas: Option<&CanvasId>,
    period: Period,
    since: i64,
    limit: &str,
) -> NoticeKey {
    let whose = canvas.map_or_else(|| "tenant".to_owned(), |canvas| format!("canvas/{canvas}"));
    let subject = format!("{limit}/{}/{}/{whose}", period.as_str(), date(since));
    // Hashed and not cut, because long ids may begin alike.
    let subject = if subject.len() > SUBJECT_BYTES_MAX { tokens::hash(&subject) } else { subject };
    NoticeKey { tenant: tenant.clone(), kind: NoticeKind::Budget, subject }
}

/// A limit, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LimitUse {
    limit: &'static str,
    max: f64,
    used: f64,
}

impl LimitUse {
    /// Returns the used percentage, rounded down.
    fn percent(&self) -> f64 {
        // So that 100 % is only reported for a limit that is used up.
        (self.used / self.max * 100.0).floor()
    }
}

/// Returns the limits of which at least this percentage is used.
fn nearly_used_up(limits: &BudgetLimits, spent: Spent, percent: u32) -> Vec<LimitUse> {
    let count = |limit: Option<u64>| limit.map(|limit| limit as f64);
    let each = [
        ("rounds", count(limits.rounds), spent.rounds as f64),
        ("tool_calls", count(limits.tool_calls), spent.tool_calls as f64),
        ("model_calls", count(limits.model_calls), spent.model_calls as f64),
        ("tokens", count(limits.tokens), spent.tokens as f64),
        ("money", limits.money, spent.micros as f64 / 1e6),
        ("seconds", limits.seconds, spent.millis as f64 / 1e3),
    ];
    let limited = each.into_iter().filter_map(|(limit, max, used)| Some(LimitUse { limit, max: max?, used }));
    // A limit of no tool calls at all cannot be approached.
    limited.filter(|used| used.max > 0.0 && used.used * 100.0 >= used.max * f64::from(percent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_warning_starts_at_the_configured_percentage() {
        let limits = BudgetLimits {
            tokens: Some(1_000),
            money: Some(2.0),
            tool_calls: Some(0),
            ..BudgetLimits::default()
        };
        let check = |tokens, micros, expected: &[&str]| {
            let spent = Spent { tokens, micros, tool_calls: 7, ..Spent::default() };
            let found: Vec<&str> = nearly_used_up(&limits, spent, 80).iter().map(|used| used.limit).collect();
            assert_eq!(found, expected);
        };
        check(0, 0, &[]);
        check(799, 1_599_999, &[]);
        check(800, 0, &["tokens"]);
        check(u64::MAX, 1_600_000, &["tokens", "money"]);
    }

    #[test]
    fn each_budget_period_has_its_own_subject() {
        let (tenant, canvas) = (TenantId::from("t"), CanvasId::from("c"));
        let long = CanvasId::from("c".repeat(255));
        let name = |canvas: Option<&CanvasId>, since| {
            budget_key(&tenant, canvas, Period::Month, since, "tokens").subject
        };
        assert_eq!(name(Some(&canvas), 0), "tokens/month/1970-01-01/canvas/c");
        assert_eq!(name(None, 31), "tokens/month/1970-02-01/tenant");
        assert!(name(Some(&long), 0).len() <= SUBJECT_BYTES_MAX);
        assert_ne!(name(Some(&long), 0), name(Some(&long), 31));
    }
}
