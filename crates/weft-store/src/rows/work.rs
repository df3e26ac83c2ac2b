//! The queue of runs that wait for a worker.

use std::collections::HashSet;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{Condition, ConnectionTrait, DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::{RunId, RunKey, TenantId};
use weft_core::seam::work_queue::{
    Lease, StoredWork, Taken, Work, WorkFilter, WorkOutcome, WorkQueue, WorkState,
};
use weft_core::{CanvasId, Error, ErrorKind, Result, SessionId, async_trait};

use crate::Store;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::{ROWS_AT_ONCE_MAX, readable, tenant_lock};

/// No worker has it; `at_ms` is the earliest time at which it may be taken.
pub(crate) const WAITING: &str = "waiting";
/// A worker has it; `at_ms` is the end of the lease.
const TAKEN: &str = "taken";
/// Its run has ended; `at_ms` is the time at which that was recorded.
const DONE: &str = "done";
/// It will never start; `at_ms` is the time of that decision.
const GIVEN_UP: &str = "given_up";

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "work")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: String,
    pub canvas_id: String,
    pub session_id: Option<String>,
    pub source: String,
    /// JSON.
    pub input: String,
    pub due_ms: i64,
    pub state: String,
    pub at_ms: i64,
    pub fence: i64,
    pub attempts: i64,
    /// Number of times that a worker's lease has expired.
    pub crashes: i64,
    pub reason: String,
    pub pushed_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn of(key: &RunKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::RunId.eq(text(key.id.as_str())))
}

/// Matches the work if this lease is still valid.
fn held(lease: &Lease) -> Condition {
    of(&lease.run).add(Column::State.eq(TAKEN)).add(Column::Fence.eq(lease.fence))
}

fn lost(lease: &Lease) -> Error {
    let message = format!("the work of run {} belongs to another worker now, or is done", lease.run.id);
    Error::new(ErrorKind::Conflict, message)
}

/// Queues the rows that are not queued yet. Several workers may make the same decision, with the same ids.
async fn insert(db: &impl ConnectionTrait, rows: &[Model]) -> Result<(), DbErr> {
    let keys = [Column::TenantId, Column::RunId];
    let inserted = Entity::insert_many(rows.iter().cloned().map(IntoActiveModel::into_active_model))
        .on_conflict(OnConflict::columns(keys).do_nothing_on(keys).to_owned())
        .exec_without_returning(db)
        .await;
    match inserted {
        Ok(_) | Err(DbErr::RecordNotInserted) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the runs of these rows, all of one tenant, that were queued before.
async fn known(transaction: &DatabaseTransaction, rows: &[Model]) -> Result<HashSet<String>, DbErr> {
    let mut known = HashSet::new();
    for some in rows.chunks(ROWS_AT_ONCE_MAX) {
        let Some(first) = some.first() else { continue };
        let found: Vec<String> = Entity::find()
            .select_only()
            .column(Column::RunId)
            .filter(Column::TenantId.eq(first.tenant_id.as_str()))
            .filter(Column::RunId.is_in(some.iter().map(|row| row.run_id.as_str())))
            .into_tuple()
            .all(transaction)
            .await?;
        known.extend(found);
    }
    Ok(known)
}

impl Model {
    fn new(work: &Work, now_ms: i64) -> Result<Self> {
        ids::check("tenant", work.run.tenant.as_str())?;
        ids::check("run", work.run.id.as_str())?;
        ids::check("canvas", work.canvas.as_str())?;
        if let Some(session) = &work.session {
            ids::check("session", session.as_str())?;
        }
        ids::fits("source", &work.source)?;
        let input = serde_json::to_string(&work.input)
            .map_err(|cause| Error::internal("cannot write the input of a run").because(cause))?;
        Ok(Self {
            tenant_id: work.run.tenant.as_str().to_owned(),
            run_id: work.run.id.as_str().to_owned(),
            canvas_id: work.canvas.as_str().to_owned(),
            session_id: work.session.as_ref().map(|session| session.as_str().to_owned()),
            source: work.source.clone(),
            input,
            due_ms: work.due_ms,
            state: WAITING.to_owned(),
            at_ms: work.due_ms,
            fence: 0,
            attempts: 0,
            crashes: 0,
            reason: String::new(),
            pushed_ms: now_ms,
        })
    }

    fn into_stored(self) -> Result<StoredWork> {
        let run = self.run_id.clone();
        let garbled = |what: &str| {
            Error::new(ErrorKind::Garbled, format!("the stored work of the run `{run}` has {what}"))
        };
        let at_ms = self.at_ms;
        let state = match self.state.as_str() {
            WAITING => WorkState::Waiting { from_ms: at_ms },
            TAKEN => WorkState::Taken { until_ms: at_ms },
            DONE => WorkState::Done { at_ms },
            GIVEN_UP => WorkState::Abandoned { at_ms },
            other => return Err(garbled(&format!("the unknown state `{other}`"))),
        };
        let input = serde_json::from_str(&self.input)
            .map_err(|cause| garbled("an input that is not valid").because(cause))?;
        let work = Work {
            run: RunKey::new(&TenantId::from(self.tenant_id), self.run_id),
            canvas: CanvasId::from(self.canvas_id),
            session: self.session_id.map(SessionId::from),
            input,
            source: self.source,
            due_ms: self.due_ms,
        };
        let number = |number| u32::try_from(number).unwrap_or_default();
        let (attempts, crashes) = (number(self.attempts), number(self.crashes));
        Ok(StoredWork { work, state, attempts, crashes, reason: self.reason, pushed_ms: self.pushed_ms })
    }

    /// Returns the number of expired leases, including the present one if it is taken.
    fn crashes_by_now(&self) -> i64 {
        self.crashes + i64::from(self.state == TAKEN)
    }
}

impl Store {
    /// Takes a row that was just read, unless another worker was faster. Returns whether it was taken.
    async fn take_one(&self, row: &Model, until_ms: i64) -> Result<bool, DbErr> {
        let taken = Entity::update_many()
            .col_expr(Column::State, Expr::value(TAKEN))
            .col_expr(Column::AtMs, Expr::value(until_ms))
            .col_expr(Column::Fence, Expr::value(row.fence + 1))
            .col_expr(Column::Attempts, Expr::value(row.attempts + 1))
            .col_expr(Column::Crashes, Expr::value(row.crashes_by_now()))
            // The reason for waiting does not apply to the attempt that begins now.
            .col_expr(Column::Reason, Expr::value(""))
            .filter(Column::TenantId.eq(&row.tenant_id))
            .filter(Column::RunId.eq(&row.run_id))
            .filter(Column::State.eq(&row.state))
            .filter(Column::AtMs.eq(row.at_ms))
            .filter(Column::Fence.eq(row.fence))
            .exec(&self.inner.write)
            .await?;
        Ok(taken.rows_affected > 0)
    }
}

#[async_trait]
impl WorkQueue for Store {
    async fn push_within(&self, work: &[Work], now_ms: i64, open_max: u64) -> Result<u64> {
        let rows: Vec<Model> = work.iter().map(|work| Model::new(work, now_ms)).collect::<Result<_>>()?;
        let Some(first) = rows.first() else { return Ok(0) };
        let push = async || {
            let transaction = self.begin().await?;
            // Concurrent callers are serialized, so that their counts include each other.
            tenant_lock::hold(&transaction, &first.tenant_id, "work").await?;
            let mut known = known(&transaction, &rows).await?;
            let open = Entity::find()
                .filter(Column::TenantId.eq(first.tenant_id.as_str()))
                .filter(Column::Source.eq(first.source.as_str()))
                .filter(Column::State.is_in([WAITING, TAKEN]))
                .count(&*transaction)
                .await?;
            let fresh: Vec<&Model> = rows.iter().filter(|row| known.insert(row.run_id.clone())).collect();
            let room = usize::try_from(open_max.saturating_sub(open)).unwrap_or(usize::MAX);
            let passed_over = fresh.len().saturating_sub(room);
            let last: Vec<Model> = fresh.into_iter().skip(passed_over).cloned().collect();
            for some in last.chunks(ROWS_AT_ONCE_MAX) {
                insert(&*transaction, some).await?;
            }
            transaction.commit().await?;
            Ok(passed_over)
        };
        let passed_over = repeated(push).await.map_err(|error| self.fail("queue the work", error))?;
        Ok(u64::try_from(passed_over).unwrap_or(u64::MAX))
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<Taken>> {
        const DOING: &str = "take work";
        let ready = Entity::find()
            // Also taken work whose lease has expired, because its worker has stopped.
            .filter(Column::State.is_in([WAITING, TAKEN]))
            .filter(Column::AtMs.lte(now_ms))
            .order_by_asc(Column::AtMs)
            .order_by_asc(Column::RunId)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail(DOING, error))?;
        let mut taken = Vec::new();
        for mut row in ready {
            let _permit = self.inner.gate.permit().await;
            if !repeated(|| self.take_one(&row, until_ms)).await.map_err(|error| self.fail(DOING, error))? {
                continue;
            }
            row.crashes = row.crashes_by_now();
            TAKEN.clone_into(&mut row.state);
            (row.at_ms, row.fence, row.attempts) = (until_ms, row.fence + 1, row.attempts + 1);
            let fence = row.fence;
            // It becomes available again when its lease expires.
            let Some(stored) = readable([row.into_stored()]).pop() else { continue };
            taken.push(Taken { lease: Lease { run: stored.work.run.clone(), fence }, stored });
        }
        Ok(taken)
    }

    async fn renew(&self, lease: &Lease, until_ms: i64) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(Column::AtMs, Expr::value(until_ms))
                .filter(held(lease))
                .exec(&self.inner.write)
                .await
        };
        let changed =
            repeated(change).await.map_err(|error| self.fail("extend the lease of the work", error))?;
        if changed.rows_affected == 0 { Err(lost(lease)) } else { Ok(()) }
    }

    async fn settle(&self, lease: &Lease, settled: &WorkOutcome, now_ms: i64) -> Result<()> {
        let (state, at_ms, counted, reason) = match settled {
            WorkOutcome::Done => (DONE, now_ms, 0, None),
            WorkOutcome::Abandoned { reason } => (GIVEN_UP, now_ms, 0, Some(reason)),
            WorkOutcome::RetryAt { from_ms, reason } => (WAITING, *from_ms, 0, Some(reason)),
            // Releasing work is no failure, so this attempt does not count.
            WorkOutcome::Released { from_ms, reason } => (WAITING, *from_ms, 1, Some(reason)),
        };
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            let mut change = Entity::update_many()
                .col_expr(Column::State, Expr::value(state))
                .col_expr(Column::AtMs, Expr::value(at_ms))
                .col_expr(Column::Attempts, Expr::col(Column::Attempts).sub(counted));
            if let Some(reason) = reason {
                change = change.col_expr(Column::Reason, Expr::value(text(reason)));
            }
            change.filter(held(lease)).exec(&self.inner.write).await
        };
        let changed =
            repeated(change).await.map_err(|error| self.fail("store the outcome of the work", error))?;
        if changed.rows_affected == 0 { Err(lost(lease)) } else { Ok(()) }
    }

    async fn get(&self, run: &RunKey) -> Result<StoredWork> {
        Entity::find()
            .filter(of(run))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the work", error))?
            .ok_or_else(|| Error::not_found(format!("no work is queued for run `{}`", run.id)))?
            .into_stored()
    }

    async fn list(&self, tenant: &TenantId, filter: &WorkFilter) -> Result<(Vec<StoredWork>, u64)> {
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(source) = &filter.source {
            found = found.filter(Column::Source.eq(text(source)));
        }
        if filter.open {
            found = found.filter(Column::State.is_in([WAITING, TAKEN]));
        }
        let found = found.order_by_desc(Column::DueMs).order_by_desc(Column::RunId);
        let page = self.inner.read.page(found, filter.offset, filter.limit).await;
        let (rows, total) = page.map_err(|error| self.fail("list the work", error))?;
        Ok((rows.into_iter().map(Model::into_stored).collect::<Result<_>>()?, total))
    }

    async fn withdraw(&self, tenant: &TenantId, source: &str) -> Result<u64> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || {
            Entity::delete_many()
                .filter(Column::TenantId.eq(text(tenant.as_str())))
                .filter(Column::Source.eq(text(source)))
                // Taken work may have started its run already, which would then be missing from the list.
                .filter(Column::State.eq(WAITING))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("withdraw the work", error))?;
        Ok(removed.rows_affected)
    }

    async fn withdraw_runs(&self, tenant: &TenantId, runs: &[RunId]) -> Result<u64> {
        let _permit = self.inner.gate.permit().await;
        let mut count = 0;
        for some in runs.chunks(ROWS_AT_ONCE_MAX) {
            let remove = async || {
                Entity::delete_many()
                    .filter(Column::TenantId.eq(text(tenant.as_str())))
                    .filter(Column::RunId.is_in(some.iter().map(|run| text(run.as_str()))))
                    // As above: taken work may have started its run already.
                    .filter(Column::State.eq(WAITING))
                    .exec(&self.inner.write)
                    .await
            };
            let removed = repeated(remove).await.map_err(|error| self.fail("withdraw the work", error))?;
            count += removed.rows_affected;
        }
        Ok(count)
    }

    async fn remove_settled(&self, tenant: &TenantId, source: &str) -> Result<u64> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || {
            Entity::delete_many()
                .filter(Column::TenantId.eq(text(tenant.as_str())))
                .filter(Column::Source.eq(text(source)))
                .filter(Column::State.is_in([DONE, GIVEN_UP]))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("remove settled work", error))?;
        Ok(removed.rows_affected)
    }

    async fn prune(&self, before_ms: i64) -> Result<u64> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || {
            Entity::delete_many()
                .filter(Column::State.is_in([DONE, GIVEN_UP]))
                .filter(Column::AtMs.lt(before_ms))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("forget old work", error))?;
        Ok(removed.rows_affected)
    }
}
