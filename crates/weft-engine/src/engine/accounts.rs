//! Budgets that several runs share: those of a canvas and of a tenant, per day, per month or unlimited in time.
//!
//! Usage so far is in the store. Each process starts from that value, adds what its own runs use, and every
//! few seconds picks up what other processes have used. Runs of one process share one count, so together they
//! keep to a limit as a single run does. Several processes can exceed it by what they use within the same few
//! seconds.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weft_core::budget::{Budget, BudgetLimits, Holder, Period, PeriodLimits, Spent};
use weft_core::seam::run_store::{FinishedRun, RunLease};
use weft_core::usage::ModelUse;
use weft_core::{CanvasId, Ending, Result, TenantId};

use super::{Engine, Stores};

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;

/// Limits on what several runs may use together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowances {
    /// For all turns of a session.
    pub session: BudgetLimits,
    /// For all runs of a canvas that is not among `canvases`.
    pub canvas: PeriodLimits,
    /// For all runs of the given canvas.
    pub canvases: BTreeMap<CanvasId, PeriodLimits>,
    /// For all runs of a tenant.
    pub tenant: PeriodLimits,
}

/// Identifies a count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Account {
    tenant: TenantId,
    canvas: Option<CanvasId>,
    period: Period,
}

impl Account {
    fn holder(&self) -> Holder {
        match self.canvas {
            Some(_) => Holder::Canvas(self.period),
            None => Holder::Tenant(self.period),
        }
    }
}

/// The counts shared by the runs under way.
#[derive(Debug, Default)]
pub(super) struct SharedBudgets(Mutex<HashMap<Account, SharedBudget>>);

#[derive(Debug)]
struct SharedBudget {
    budget: Weak<Budget>,
    /// The first day of the period that it counts.
    since: i64,
}

/// What has been used in a period, as the store tells.
#[derive(Clone, Copy)]
struct PeriodUsage {
    /// The first day of the period.
    since: i64,
    spent: Spent,
}

impl SharedBudgets {
    /// Returns a count, brought up to date with the usage in the store.
    fn open(
        &self,
        account: Account,
        used: PeriodUsage,
        limits: BudgetLimits,
        around: Option<Arc<Budget>>,
    ) -> Arc<Budget> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = open.get_mut(&account)
            && let Some(budget) = shared.budget.upgrade()
        {
            match used.since.cmp(&shared.since) {
                // Only raised: what runs of this process have used since they last reported is not in the store yet.
                Ordering::Equal => budget.raise_to(used.spent),
                // A new day or month. The runs under way count in it from now on, as the store counts what they report.
                Ordering::Greater => {
                    shared.since = used.since;
                    budget.restart(used.spent);
                }
                // The caller read the store just before midnight: going back would lose what the new day has used.
                Ordering::Less => {}
            }
            return budget;
        }
        // Counts of ended runs are dropped here, so that the map holds only what is in use.
        open.retain(|_, shared| shared.budget.strong_count() > 0);
        let budget = Budget::new(account.holder(), limits, Spent::default(), around);
        budget.raise_to(used.spent);
        open.insert(account, SharedBudget { budget: Arc::downgrade(&budget), since: used.since });
        budget
    }
}

/// Returns the first day of the period that a day is in. Both are days since 1970, in UTC.
pub fn first_day(period: Period, day: i64) -> i64 {
    match period {
        Period::Day => day,
        Period::Month => first_of_month(day),
        Period::Ever => i64::MIN,
    }
}

/// Returns the first day of a day's month; both are days since 1970.
fn first_of_month(day: i64) -> i64 {
    let date = day.checked_mul(DAY_MS).and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    // A day outside of the calendar counts by itself: a wrong clock must not stop runs.
    date.map_or(day, |date| day - i64::from(date.to_zoned(jiff::tz::TimeZone::UTC).day()) + 1)
}

impl Engine {
    /// Returns the budgets around a run of a canvas, innermost first, as far as anything is limited. They are
    /// brought up to date with the usage in the store.
    ///
    /// # Errors
    /// Any error of the store.
    pub(super) async fn account(
        &self,
        stores: &Stores,
        tenant: &TenantId,
        canvas: &CanvasId,
    ) -> Result<Option<Arc<Budget>>> {
        let Allowances { canvas: each, canvases, tenant: of_tenant, .. } = &self.0.allowances;
        let of_canvas = canvases.get(canvas).unwrap_or(each);
        // The tenant's first, so that each count encloses the one opened after it.
        let of_tenant = of_tenant.each().map(|(period, limits)| (None, period, limits));
        let of_canvas = of_canvas.each().map(|(period, limits)| (Some(canvas.clone()), period, limits));
        let day = self.today();
        let mut around: Option<Arc<Budget>> = None;
        for (canvas, period, limits) in of_tenant.into_iter().chain(of_canvas) {
            if limits == BudgetLimits::default() {
                continue;
            }
            let since = first_day(period, day);
            let spent = stores.spending.spent(tenant, canvas.as_ref(), since).await?;
            let account = Account { tenant: tenant.clone(), canvas, period };
            let used = PeriodUsage { since, spent };
            around = Some(self.0.accounts.open(account, used, limits, around.take()));
        }
        Ok(around)
    }

    /// Returns the final record of a run that ends now: its ending and what it used.
    pub(super) fn finished(&self, ending: Ending, spent: Spent, uses: &[ModelUse]) -> FinishedRun {
        let spent = noteworthy(spent).map(|spent| (self.today(), spent));
        FinishedRun { spent, uses: uses.to_vec(), ..FinishedRun::new(ending, self.now_ms()) }
    }

    /// Adds a run's usage to that of its canvas and its tenant.
    ///
    /// # Errors
    /// Any error of the store.
    pub(super) async fn note_spent(&self, stores: &Stores, lease: &RunLease, spent: Spent) -> Result<()> {
        match noteworthy(spent) {
            Some(spent) => stores.spending.note(lease, self.today(), spent).await,
            None => Ok(()),
        }
    }

    fn today(&self) -> i64 {
        self.now_ms().div_euclid(DAY_MS)
    }
}

/// Returns the usage if there is any to record: time alone does not count.
fn noteworthy(spent: Spent) -> Option<Spent> {
    (!spent.without_time().is_none()).then_some(spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_start_on_their_first_day() {
        // 1970-01-31, 1970-02-01, 2024-02-29, and a day outside the calendar.
        let cases = [(30, 0), (31, 31), (19_782, 19_754), (i64::MAX, i64::MAX)];
        for (day, first) in cases {
            assert_eq!(first_of_month(day), first);
        }
    }

    #[test]
    fn concurrent_users_of_an_account_share_one_budget() {
        let accounts = SharedBudgets::default();
        let open = |tenant: &str, since, tokens| {
            let account = Account { tenant: tenant.into(), canvas: None, period: Period::Day };
            let used = PeriodUsage { since, spent: Spent { tokens, ..Spent::default() } };
            accounts.open(account, used, BudgetLimits::default(), None)
        };
        let first = open("t", 1, 5);
        assert!(Arc::ptr_eq(&first, &open("t", 1, 3)));
        assert_eq!(first.spent().tokens, 5, "what it has counted stays");
        assert!(Arc::ptr_eq(&first, &open("t", 2, 1)));
        assert_eq!(first.spent().tokens, 1, "another day");
        assert!(Arc::ptr_eq(&first, &open("t", 1, 7)));
        assert_eq!(first.spent().tokens, 1, "a caller who is late does not bring the old day back");
        assert!(!Arc::ptr_eq(&first, &open("u", 2, 0)));
        drop(first);
        let _other = open("u", 2, 0);
        assert_eq!(accounts.0.lock().unwrap().len(), 1, "unused counters are dropped");
    }
}
