//! What runs have used, by canvas and day. Rows without a canvas are the totals of the tenant.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{IntoActiveModel, QueryOrder, QuerySelect, UpdateMany};
use weft_core::budget::Spent;
use weft_core::id::{CanvasId, TenantId};
use weft_core::seam::SpendingStore;
use weft_core::seam::run_store::RunLease;
use weft_core::seam::spending_store::{DaySpent, FOLDED_DAY};
use weft_core::{Error, Result, async_trait};

use crate::Store;
use crate::batch::{Batch, BatchOutcome};
use crate::ids::{bounded, text};
use crate::known_runs::LocalRun;

/// The canvas id of a tenant's totals: no canvas has this id.
const WHOLE: &str = "";

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "spending")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub canvas_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    pub rounds: i64,
    pub tool_calls: i64,
    pub model_calls: i64,
    pub tokens: i64,
    pub micros: i64,
    pub millis: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The part of a run's row with its usage.
mod of_run {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "run")]
    pub(super) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant_id: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub canvas_id: String,
        pub fence: i64,
        /// The usage recorded so far, as JSON.
        pub spent: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(super) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

impl Model {
    fn new(tenant_id: &str, canvas_id: &str, day: i64, spent: Spent) -> Self {
        Self {
            tenant_id: tenant_id.to_owned(),
            canvas_id: canvas_id.to_owned(),
            day,
            rounds: number(spent.rounds),
            tool_calls: number(spent.tool_calls),
            model_calls: number(spent.model_calls),
            tokens: number(spent.tokens),
            micros: number(spent.micros),
            millis: number(spent.millis),
        }
    }

    fn spent(&self) -> Spent {
        Spent {
            rounds: count(self.rounds),
            tool_calls: count(self.tool_calls),
            model_calls: count(self.model_calls),
            tokens: count(self.tokens),
            micros: count(self.micros),
            millis: count(self.millis),
        }
    }

    /// Moves the row into the sum of its canvas for the days that are not kept.
    fn fold(mut self, batch: &mut Batch) {
        // Only as it was read: another process may have moved it meanwhile, or added to it.
        let as_read = Entity::delete_many()
            .filter(Column::TenantId.eq(self.tenant_id.as_str()))
            .filter(Column::CanvasId.eq(self.canvas_id.as_str()))
            .filter(Column::Day.eq(self.day))
            .filter(Column::Rounds.eq(self.rounds))
            .filter(Column::ToolCalls.eq(self.tool_calls))
            .filter(Column::ModelCalls.eq(self.model_calls))
            .filter(Column::Tokens.eq(self.tokens))
            .filter(Column::Micros.eq(self.micros))
            .filter(Column::Millis.eq(self.millis));
        batch.must(&as_read);
        self.day = FOLDED_DAY;
        self.add_to(batch);
    }

    /// Adds it to the existing row.
    fn add_to(self, batch: &mut Batch) {
        let columns = [
            Column::Rounds,
            Column::ToolCalls,
            Column::ModelCalls,
            Column::Tokens,
            Column::Micros,
            Column::Millis,
        ];
        let more = [self.rounds, self.tool_calls, self.model_calls, self.tokens, self.micros, self.millis];
        // Refers to the existing row, and not to the one that was to be inserted.
        let sums = columns
            .into_iter()
            .zip(more)
            .map(|(column, more)| (column, Expr::col((Entity, column)).add(more)));
        let key = [Column::TenantId, Column::CanvasId, Column::Day];
        let there = OnConflict::columns(key).values(sums).to_owned();
        batch.then(&Entity::insert(self.into_active_model()).on_conflict(there));
    }
}

/// Rows that one transaction adds up. Other writers wait meanwhile.
const FOLDED_AT_ONCE: u64 = 100;

/// How often a record is retried that was overtaken by another one for the same run. Of several that collide, one
/// always succeeds, and a run has one recording at a time, or a few whose end it did not wait for.
pub(crate) const NOTES_TRIED_MAX: usize = 16;

/// The usage of a run beyond what has been recorded.
pub(crate) struct UnrecordedSpending {
    tenant: String,
    canvas: String,
    day: i64,
    more: Spent,
    /// The row's value before and after.
    before: Option<String>,
    after: Spent,
}

impl UnrecordedSpending {
    /// Adds it to its canvas and its tenant, together with a change of the run's row. That fails if the row has a
    /// different value by now: the same record may have been written already.
    pub(crate) fn note<E: EntityTrait>(&self, change: UpdateMany<E>, batch: &mut Batch) {
        let said = match &self.before {
            Some(before) => of_run::Column::Spent.eq(before.as_str()),
            None => of_run::Column::Spent.is_null(),
        };
        batch.must(&change.col_expr(of_run::Column::Spent, Expr::value(written(self.after))).filter(said));
        // Always in this order, so that two writers do not deadlock.
        Model::new(&self.tenant, WHOLE, self.day, self.more).add_to(batch);
        Model::new(&self.tenant, &self.canvas, self.day, self.more).add_to(batch);
    }
}

impl Store {
    /// The usage of a run beyond what has been recorded; `None` when there is none.
    ///
    /// # Errors
    /// `NotFound` when the run does not exist; `Conflict` when another process has taken it over since.
    pub(crate) async fn more_spent(
        &self,
        lease: &RunLease,
        day: i64,
        spent: Spent,
        doing: &str,
    ) -> Result<Option<UnrecordedSpending>> {
        let (tenant, id) = (text(lease.run.tenant.as_str()), text(lease.run.id.as_str()));
        let (canvas, before) = match self.inner.journal.home(&lease.run) {
            Some(LocalRun { canvas, noted: Some(noted), .. }) => {
                (text(canvas.as_str()), (!noted.is_none()).then(|| written(noted)))
            }
            _ => {
                let found = of_run::Entity::find_by_id((tenant.clone(), id)).one(&self.inner.read).await;
                match found.map_err(|error| self.fail(doing, error))? {
                    Some(run) if run.fence == lease.fence => (run.canvas_id, run.spent),
                    Some(_) => return Err(self.overtaken(lease, doing)),
                    None => return Err(Error::not_found(format!("there is no run `{}`", lease.run.id))),
                }
            }
        };
        // A value that cannot be parsed counts as nothing recorded.
        let noted: Spent =
            before.as_deref().and_then(|noted| serde_json::from_str(noted).ok()).unwrap_or_default();
        let more = spent.beyond(noted);
        let after = noted.max(spent);
        Ok((!more.is_none()).then_some(UnrecordedSpending { tenant, canvas, day, more, before, after }))
    }
}

fn written(spent: Spent) -> String {
    serde_json::to_string(&spent).unwrap_or_default()
}

#[async_trait]
impl SpendingStore for Store {
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()> {
        const DOING: &str = "store what the run has used";
        for _ in 0..NOTES_TRIED_MAX {
            let Some(more) = self.more_spent(lease, day, spent, DOING).await? else { return Ok(()) };
            let mut batch = self.batch();
            let run = of_run::Entity::update_many()
                .filter(of_run::Column::TenantId.eq(text(lease.run.tenant.as_str())))
                .filter(of_run::Column::Id.eq(text(lease.run.id.as_str())))
                .filter(of_run::Column::Fence.eq(lease.fence));
            more.note(run, &mut batch);
            // The recorded value is unknown until the outcome is known.
            self.inner.journal.noted(&lease.run, None);
            match self.execute(&batch).await.map_err(|error| self.fail(DOING, error))? {
                BatchOutcome::Committed => {
                    self.inner.journal.noted(&lease.run, Some(more.after));
                    return Ok(());
                }
                BatchOutcome::Refused(_) => {}
            }
        }
        Err(self.overtaken(lease, DOING))
    }

    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent> {
        let rows = Entity::find()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::CanvasId.eq(canvas.map_or_else(|| WHOLE.to_owned(), |id| text(id.as_str()))))
            .filter(Column::Day.gte(since_day))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("read what has been used", error))?;
        Ok(rows.iter().fold(Spent::default(), |sum, row| sum + row.spent()))
    }

    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>> {
        let rows = Entity::find()
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::CanvasId.ne(WHOLE))
            .filter(Column::Day.gt(FOLDED_DAY))
            .filter(Column::Day.gte(since_day))
            .order_by_desc(Column::Day)
            .order_by_asc(Column::CanvasId)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("read what has been used", error))?;
        let day = |row: Model| DaySpent { day: row.day, spent: row.spent(), canvas: row.canvas_id.into() };
        Ok(rows.into_iter().map(day).collect())
    }

    async fn fold_days(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        const DOING: &str = "add up what was used long ago";
        let mut folded = 0;
        loop {
            let rows = Entity::find()
                .filter(Column::TenantId.eq(text(tenant.as_str())))
                .filter(Column::Day.gt(FOLDED_DAY))
                .filter(Column::Day.lt(before_day))
                .order_by_asc(Column::CanvasId)
                .order_by_asc(Column::Day)
                .limit(FOLDED_AT_ONCE)
                .all(&self.inner.read)
                .await
                .map_err(|error| self.fail(DOING, error))?;
            if rows.is_empty() {
                return Ok(folded);
            }
            let count = rows.len() as u64;
            let mut batch = self.batch();
            rows.into_iter().for_each(|row| row.fold(&mut batch));
            match self.execute(&batch).await.map_err(|error| self.fail(DOING, error))? {
                BatchOutcome::Committed => folded += count,
                // Somebody else changes these rows at this moment; what is left is found the next time.
                BatchOutcome::Refused(_) => return Ok(folded),
            }
        }
    }
}
