//! Messages that wait for runs.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{Condition, IntoActiveModel, JoinType, QueryOrder, QuerySelect};
use weft_core::id::{ProcessId, RunKey, TenantId};
use weft_core::seam::RunMessages;
use weft_core::seam::run_messages::{MESSAGES_MAX, RunMessage, too_many};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::run;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "run_message")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub text: String,
    pub sent_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    #[sea_orm(
        belongs_to = "super::run::Entity",
        from = "(Column::TenantId, Column::RunId)",
        to = "(super::run::Column::TenantId, super::run::Column::Id)"
    )]
    Run,
}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for RunMessage {
    fn from(row: Model) -> Self {
        Self {
            run: RunKey::new(&TenantId::from(row.tenant_id), row.run_id),
            id: row.id,
            text: row.text,
            sent_ms: row.sent_ms,
        }
    }
}

fn of(run: &RunKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(run.tenant.as_str())))
        .add(Column::RunId.eq(text(run.id.as_str())))
}

/// The outcome of leaving a message.
enum LeaveOutcome {
    Left,
    /// The run does not exist, or has ended.
    Over,
    Full,
}

impl Store {
    async fn leave(&self, row: &Model) -> Result<LeaveOutcome, DbErr> {
        let run = RunKey::new(&TenantId::from(row.tenant_id.clone()), row.run_id.clone());
        let transaction = self.begin().await?;
        // Locked, so that the run does not end and no other message is added in between.
        let under_way = run::Entity::find().filter(run::of(&run)).filter(run::Column::Ending.is_null());
        if under_way.lock_exclusive().one(&*transaction).await?.is_none() {
            transaction.rollback().await?;
            return Ok(LeaveOutcome::Over);
        }
        if Entity::find().filter(of(&run)).count(&*transaction).await? >= MESSAGES_MAX as u64 {
            transaction.rollback().await?;
            return Ok(LeaveOutcome::Full);
        }
        Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(LeaveOutcome::Left)
    }

    /// Removes messages for runs that no longer exist.
    pub(super) async fn remove_messages_of_gone(&self, runs: &[RunKey]) -> Result<(), DbErr> {
        let named = runs.iter().fold(Condition::any(), |any, run| any.add(of(run)));
        let there = Query::select()
            .expr(Expr::value(1))
            .from(run::Entity)
            .and_where(Expr::col((run::Entity, run::Column::TenantId)).equals((Entity, Column::TenantId)))
            .and_where(Expr::col((run::Entity, run::Column::Id)).equals((Entity, Column::RunId)))
            .take();
        let gone = Expr::exists(there).not();
        let _permit = self.inner.gate.permit().await;
        let remove = Entity::delete_many().filter(named).filter(gone);
        repeated(|| remove.clone().exec(&self.inner.write)).await.map(drop)
    }
}

#[async_trait]
impl RunMessages for Store {
    async fn leave_message(&self, message: &RunMessage) -> Result<bool> {
        ids::check("tenant", message.run.tenant.as_str())?;
        ids::check("run", message.run.id.as_str())?;
        ids::check("message", &message.id)?;
        let row = Model {
            tenant_id: text(message.run.tenant.as_str()),
            run_id: text(message.run.id.as_str()),
            id: text(&message.id),
            text: text(&message.text),
            sent_ms: message.sent_ms,
        };
        match repeated(|| self.leave(&row)).await {
            Ok(LeaveOutcome::Left) => Ok(true),
            Ok(LeaveOutcome::Over) => Ok(false),
            Ok(LeaveOutcome::Full) => Err(too_many()),
            Err(error) if is_duplicate(&error) => {
                Err(Error::new(ErrorKind::Conflict, "this message waits for the run already"))
            }
            Err(error) => Err(self.fail("leave the message", error)),
        }
    }

    async fn messages_for(&self, owner: &ProcessId, count_max: u64) -> Result<Vec<RunMessage>> {
        let rows = Entity::find()
            .join(JoinType::InnerJoin, Relation::Run.def())
            .filter(run::Column::Owner.eq(text(owner.as_str())))
            .filter(run::Column::Ending.is_null())
            .order_by_asc(Column::SentMs)
            .order_by_asc(Column::Id)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await;
        let rows = rows.map_err(|error| self.fail("look for messages to runs", error))?;
        Ok(rows.into_iter().map(RunMessage::from).collect())
    }

    async fn message_waits(&self, run: &RunKey, id: &str) -> Result<bool> {
        let found =
            Entity::find().filter(of(run)).filter(Column::Id.eq(text(id))).one(&self.inner.read).await;
        found.map(|row| row.is_some()).map_err(|error| self.fail("look for a message to the run", error))
    }

    async fn remove_messages(&self, run: &RunKey, ids: &[String]) -> Result<u64> {
        let named: Vec<String> = ids.iter().map(|id| text(id)).collect();
        let remove = Entity::delete_many().filter(of(run)).filter(Column::Id.is_in(named));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| remove.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("remove a message to the run", error))?.rows_affected)
    }
}
