//! What runs have used, by canvas and day. The rows of no canvas are the tenant's: all its canvases
//! together.

use async_trait::async_trait;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::budget::Spent;
use weft_core::id::{CanvasId, TenantId};
use weft_core::seam::SpendingStore;
use weft_core::seam::run_store::{RunLease, overtaken};
use weft_core::seam::spending_store::DaySpent;
use weft_core::{Error, Result};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{bounded, text};
use crate::open::repeated;

/// The canvas of the rows of a whole tenant: no canvas has this id.
const WHOLE: &str = "";

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "spending")]
pub struct Model {
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
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The part of a run's row that tells what it has used.
mod of_run {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "run")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub tenant_id: String,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub canvas_id: String,
        pub fence: i64,
        /// What has been noted of it so far, as JSON.
        pub spent: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

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

    async fn add(self, transaction: &DatabaseTransaction) -> Result<(), DbErr> {
        let more = [
            (Column::Rounds, self.rounds),
            (Column::ToolCalls, self.tool_calls),
            (Column::ModelCalls, self.model_calls),
            (Column::Tokens, self.tokens),
            (Column::Micros, self.micros),
            (Column::Millis, self.millis),
        ];
        let mut change = Entity::update_many();
        for (column, number) in more.into_iter().filter(|(_, number)| *number != 0) {
            change = change.col_expr(column, Expr::col(column).add(number));
        }
        let changed = change
            .filter(Column::TenantId.eq(self.tenant_id.as_str()))
            .filter(Column::CanvasId.eq(self.canvas_id.as_str()))
            .filter(Column::Day.eq(self.day))
            .exec(transaction)
            .await?;
        if changed.rows_affected == 0 {
            Entity::insert(self.into_active_model()).exec_without_returning(transaction).await?;
        }
        Ok(())
    }
}

/// What became of a note.
enum Noted {
    Yes,
    /// There is no such run.
    Missing,
    /// Another process has taken it over.
    Overtaken,
}

impl Store {
    async fn add_spending(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<Noted, DbErr> {
        let (tenant, id) = (text(lease.run.tenant.as_str()), text(lease.run.id.as_str()));
        let transaction = self.begin().await?;
        let run = of_run::Entity::find_by_id((tenant.clone(), id.clone()))
            .lock_exclusive()
            .one(&*transaction)
            .await?;
        let run = match run {
            Some(run) if run.fence == lease.fence => run,
            found => {
                transaction.rollback().await?;
                return Ok(if found.is_some() { Noted::Overtaken } else { Noted::Missing });
            }
        };
        // What cannot be read counts as nothing noted.
        let noted: Spent =
            run.spent.as_deref().and_then(|noted| serde_json::from_str(noted).ok()).unwrap_or_default();
        let more = spent.beyond(noted);
        if more.is_none() {
            transaction.rollback().await?;
            return Ok(Noted::Yes);
        }
        let json = serde_json::to_string(&noted.max(spent)).unwrap_or_default();
        of_run::Entity::update_many()
            .col_expr(of_run::Column::Spent, Expr::value(json))
            .filter(of_run::Column::TenantId.eq(tenant.as_str()))
            .filter(of_run::Column::Id.eq(id))
            .exec(&*transaction)
            .await?;
        // Always in this order, so that two writers do not wait for each other.
        Model::new(&tenant, WHOLE, day, more).add(&transaction).await?;
        Model::new(&tenant, &run.canvas_id, day, more).add(&transaction).await?;
        transaction.commit().await?;
        Ok(Noted::Yes)
    }
}

#[async_trait]
impl SpendingStore for Store {
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()> {
        let attempt = || async {
            match self.add_spending(lease, day, spent).await {
                // Another run made the first row of the day at the same moment; now it is there.
                Err(error) if is_duplicate(&error) => self.add_spending(lease, day, spent).await,
                outcome => outcome,
            }
        };
        match repeated(attempt).await.map_err(|error| self.fail("note what the run has used", error))? {
            Noted::Yes => Ok(()),
            Noted::Missing => Err(Error::not_found(format!("there is no run `{}`", lease.run.id))),
            Noted::Overtaken => Err(overtaken(lease, "note what the run has used")),
        }
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
}
