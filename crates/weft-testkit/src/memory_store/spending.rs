//! In-memory records of what runs have used.

use weft_core::budget::Spent;
use weft_core::id::{CanvasId, RunKey, TenantId};
use weft_core::seam::SpendingStore;
use weft_core::seam::run_store::RunLease;
use weft_core::seam::spending_store::{DaySpent, FOLDED_DAY};
use weft_core::{Result, async_trait};

use super::{MemoryStore, StoreTables};

impl StoreTables {
    pub(super) fn note_spent(&mut self, run: &RunKey, canvas: &CanvasId, day: i64, spent: Spent) {
        let noted = self.spent.entry((run.tenant.clone(), run.id.clone())).or_default();
        let more = spent.beyond(*noted);
        *noted = noted.max(spent);
        if !more.is_none() {
            *self.spending.entry((run.tenant.clone(), day, canvas.clone())).or_default() += more;
        }
    }
}

#[async_trait]
impl SpendingStore for MemoryStore {
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()> {
        let mut tables = self.tables();
        let canvas = tables.held(lease, "note what the run has used")?.run.canvas.clone();
        tables.note_spent(&lease.run, &canvas, day, spent);
        Ok(())
    }

    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent> {
        let tables = self.tables();
        let asked = tables.spending.iter().filter(|((of, day, one), _)| {
            of == tenant && *day >= since_day && canvas.is_none_or(|canvas| canvas == one)
        });
        Ok(asked.fold(Spent::default(), |sum, (_, spent)| sum + *spent))
    }

    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>> {
        let tables = self.tables();
        let rows = tables
            .spending
            .iter()
            .filter(|((of, day, _), _)| of == tenant && *day > FOLDED_DAY && *day >= since_day);
        let mut days: Vec<_> = rows
            .map(|((_, day, canvas), spent)| DaySpent { canvas: canvas.clone(), day: *day, spent: *spent })
            .collect();
        days.sort_by(|one, other| (other.day, &one.canvas).cmp(&(one.day, &other.canvas)));
        days.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(days)
    }

    async fn fold_days(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        let mut tables = self.tables();
        let is_old = |(of, day, _): &&(TenantId, i64, CanvasId)| {
            of == tenant && *day > FOLDED_DAY && *day < before_day
        };
        let old: Vec<_> = tables.spending.keys().filter(is_old).cloned().collect();
        let count = old.len() as u64;
        for key in old {
            let spent = tables.spending.remove(&key).unwrap_or_default();
            let (tenant, _, canvas) = key;
            *tables.spending.entry((tenant, FOLDED_DAY, canvas)).or_default() += spent;
        }
        Ok(count)
    }
}
