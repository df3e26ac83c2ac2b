//! Runs.

use std::collections::BTreeMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{Condition, DbBackend, IntoActiveModel, Order, QueryOrder, QuerySelect, Statement};
use weft_core::id::{RunKey, SessionKey, TenantId};
use weft_core::seam::RunStore;
use weft_core::seam::run_store::{
    self, FinishedRun, GiveWay, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, StoredEntry,
    StoredRun,
};
use weft_core::{CanvasId, Ending, Error, ErrorKind, ProcessId, Result, SessionId, async_trait};

use crate::Store;
use crate::batch::{Batch, BatchOutcome};
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::lane::{NumberedColumn, Placeholder, RowId, row_with};
use crate::open::repeated;
use crate::pace::Haste;
use crate::pack;
use crate::pieces::{self, Cut};
use crate::rows::{behind, journal, process, session};

/// Number of journal rows read in one batch. A packed row may contain many steps.
const ROWS_READ_MAX: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "run")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub session_id: String,
    pub canvas_id: String,
    pub query: String,
    /// `succeeded`, `failed`, `cancelled` or `waiting`.
    pub ending: Option<String>,
    pub started_ms: i64,
    pub finished_ms: Option<i64>,
    pub fence: i64,
    /// The process that runs it; absent when no process does.
    pub owner: Option<String>,
    pub cancel_ms: Option<i64>,
    /// Number of requests that it gives way, and number of replies that it has a reader.
    pub give_way: i64,
    pub listened: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

pub(super) fn of(key: &RunKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

/// Matches any of these runs, in a form for which every database uses the primary key.
pub(crate) fn any_of(keys: &[RunKey]) -> Condition {
    let mut by_tenant: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for key in keys {
        by_tenant.entry(key.tenant.as_str()).or_default().push(text(key.id.as_str()));
    }
    by_tenant.into_iter().fold(Condition::any(), |any, (tenant, ids)| {
        any.add(Condition::all().add(Column::TenantId.eq(text(tenant))).add(Column::Id.is_in(ids)))
    })
}

fn missing(key: &RunKey) -> Error {
    Error::not_found(format!("there is no run `{}`", key.id))
}

fn ending_of(word: &str) -> Result<Ending> {
    [Ending::Succeeded, Ending::Failed, Ending::Cancelled, Ending::Waiting]
        .into_iter()
        .find(|ending| ending.as_str() == word)
        .ok_or_else(|| {
            Error::new(ErrorKind::Garbled, format!("a stored run has the unknown ending `{word}`"))
        })
}

fn checked(run: &StoredRun) -> Result<()> {
    ids::check("tenant", run.key.tenant.as_str())?;
    ids::check("run", run.key.id.as_str())?;
    ids::fits("session", run.session.as_str())?;
    run.owner.iter().try_for_each(|owner| ids::check("process", owner.as_str()))?;
    ids::fits("canvas", run.canvas.as_str())
}

impl Model {
    fn new(run: &StoredRun) -> Self {
        Self {
            tenant_id: run.key.tenant.as_str().to_owned(),
            id: run.key.id.as_str().to_owned(),
            session_id: run.session.as_str().to_owned(),
            canvas_id: run.canvas.as_str().to_owned(),
            query: text(&run.query),
            ending: run.ending.map(|ending| ending.as_str().to_owned()),
            started_ms: run.started_ms,
            finished_ms: run.finished_ms,
            fence: run.fence,
            owner: run.owner.as_ref().map(|owner| owner.as_str().to_owned()),
            cancel_ms: run.cancel_ms,
            give_way: run.give_way.asked,
            listened: run.give_way.listened,
        }
    }

    pub(crate) fn into_run(self) -> Result<StoredRun> {
        Ok(StoredRun {
            key: RunKey::new(&TenantId::from(self.tenant_id), self.id),
            session: SessionId::from(self.session_id),
            canvas: CanvasId::from(self.canvas_id),
            query: self.query,
            ending: self.ending.as_deref().map(ending_of).transpose()?,
            started_ms: self.started_ms,
            finished_ms: self.finished_ms,
            fence: self.fence,
            owner: self.owner.map(ProcessId::from),
            cancel_ms: self.cancel_ms,
            give_way: GiveWay { asked: self.give_way, listened: self.listened },
        })
    }
}

/// Returns a row if this lease of the run is still valid. Then no other process can take over the run before the
/// transaction ends.
pub(crate) fn held(backend: DbBackend, RunLease { run, fence }: &RunLease) -> Statement {
    let column = NumberedColumn { table: "run", column: "fence" };
    row_with(backend, column, RowId { tenant: run.tenant.as_str(), id: run.id.as_str() }, *fence)
}

/// Returns a row if a session has no unfinished run. The caller must hold the lock on the session.
pub(crate) fn none_at_work(backend: DbBackend, session: &SessionKey) -> Statement {
    let at = |n| Placeholder(backend, n);
    let sql = format!(
        "SELECT s.revision FROM session s WHERE s.tenant_id = {} AND s.id = {} AND NOT EXISTS \
         (SELECT r.id FROM run r WHERE r.tenant_id = {} AND r.session_id = {} AND r.ending IS NULL)",
        at(1),
        at(2),
        at(3),
        at(4)
    );
    let (tenant, id) = (text(session.tenant.as_str()), text(session.id.as_str()));
    let values = [tenant.clone(), id.clone(), tenant, id].map(Value::from);
    Statement::from_sql_and_values(backend, sql, values)
}

/// Selects the runs of a session that have not ended.
fn unfinished(tenant: &TenantId, session: &SessionId) -> Select<Entity> {
    Entity::find()
        .filter(Column::TenantId.eq(text(tenant.as_str())))
        .filter(Column::SessionId.eq(text(session.as_str())))
        .filter(Column::Ending.is_null())
}

impl Store {
    /// Returns the error for a change of a session that has an unfinished run.
    pub(crate) async fn busy(&self, session: &SessionKey, doing: &str) -> Result<Error> {
        let at_work = unfinished(&session.tenant, &session.id)
            .one(&self.inner.write)
            .await
            .map_err(|error| self.fail(doing, error))?;
        Ok(match at_work {
            Some(run) => run_store::at_work(&session.id, &run.id.into()),
            // It has ended just now.
            None => Error::new(
                ErrorKind::Conflict,
                format!("cannot {doing}: a run of `{}` was under way", session.id),
            )
            .help("read the session again, then repeat the change"),
        })
    }

    /// Returns the error for a run that could not be announced, because its id or its session is in use.
    async fn taken(&self, run: &StoredRun, doing: &str) -> Result<Error> {
        let at_work = unfinished(&run.key.tenant, &run.session)
            .filter(Column::Id.ne(text(run.key.id.as_str())))
            .one(&self.inner.write)
            .await
            .map_err(|error| self.fail(doing, error))?;
        Ok(match at_work {
            Some(other) => run_store::at_work(&run.session, &other.id.into()),
            None => Error::new(
                ErrorKind::Conflict,
                format!("cannot {doing}: there is a run `{}` already", run.key.id),
            ),
        })
    }
}

impl Store {
    /// Adds a run if the preceding statements of the batch return what is expected. Returns whether they do.
    async fn add(&self, run: &StoredRun, mut batch: Batch) -> Result<bool> {
        const DOING: &str = "store the run";
        checked(run)?;
        batch.then(&Entity::insert(Model::new(run).into_active_model()));
        match self.execute(&batch).await {
            Ok(BatchOutcome::Committed) => {
                self.inner.journal.begun(run);
                Ok(true)
            }
            Ok(BatchOutcome::Refused(_)) => Ok(false),
            Err(error) if is_duplicate(&error) => Err(self.taken(run, DOING).await?),
            Err(error) => Err(self.fail(DOING, error)),
        }
    }

    /// Stores entries as pieces of their session, and returns the list of them. `None` if the session is not stored
    /// here.
    async fn in_pieces(&self, key: &RunKey, entries: &[StoredEntry]) -> Result<Option<Vec<u8>>, DbErr> {
        let Some(session) = self.session_of(key).await? else { return Ok(None) };
        let cut = Cut::new(pack::pack_plain(entries)).prepare(&self.inner.read, &session).await?;
        let store = async || {
            let transaction = self.begin().await?;
            if !pieces::lock(&transaction, &session).await? {
                transaction.rollback().await?;
                return Ok(None);
            }
            cut.store(&transaction, &session).await?;
            transaction.commit().await?;
            Ok(Some(cut.list()))
        };
        repeated(store).await
    }

    async fn append_in(&self, haste: Haste, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        // Pieces before the row that names them: those that a crash leaves without a row are removed by the next sweep.
        let list = if pack::plain_length(&entries) >= pieces::CUT_FROM {
            // Boxed, because it is rare and large, and would enlarge the future of every append.
            Box::pin(self.in_pieces(&lease.run, &entries))
                .await
                .map_err(|error| self.fail("append to the journal", error))?
        } else {
            None
        };
        self.inner.journal.append(lease, haste, &entries, list).await
    }

    pub(crate) async fn session_of(&self, key: &RunKey) -> Result<Option<SessionKey>, DbErr> {
        let found = Entity::find().select_only().column(Column::SessionId).filter(of(key));
        let session: Option<String> = found.into_tuple().one(&self.inner.read).await?;
        Ok(session.map(|session| SessionKey::new(&key.tenant, session)))
    }
}

#[async_trait]
impl RunStore for Store {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        self.add(run, self.batch()).await.map(drop)
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        let mut batch = self.batch();
        batch.check(session::at(
            batch.backend,
            &SessionKey::new(&run.key.tenant, run.session.clone()),
            revision,
        ));
        self.add(run, batch).await
    }

    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        self.append_in(Haste::Brief, lease, entries).await
    }

    async fn append_text(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        self.append_in(Haste::Patient, lease, entries).await
    }

    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>> {
        ids::check("process", by.as_str())?;
        // After an overflow the fence would be lower than those of earlier owners.
        let Some(fence) = seen.checked_add(1) else { return Ok(None) };
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(Column::Fence, Expr::value(fence))
                .col_expr(Column::Owner, Expr::value(by.as_str()))
                .filter(of(run))
                .filter(Column::Ending.is_null())
                .filter(Column::Fence.eq(seen))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("take over the run", error))?;
        if changed.rows_affected == 0 {
            return Ok(None);
        }
        // The cached facts date from before another process wrote.
        self.inner.journal.ended(run);
        Ok(Some(RunLease { run: run.clone(), fence }))
    }

    async fn release(&self, leases: &[RunLease]) -> Result<()> {
        for lease in leases {
            let _permit = self.inner.gate.permit().await;
            let change = async || {
                Entity::update_many()
                    .col_expr(Column::Owner, Expr::value(None::<String>))
                    .filter(of(&lease.run))
                    .filter(Column::Ending.is_null())
                    .filter(Column::Fence.eq(lease.fence))
                    .exec(&self.inner.write)
                    .await
            };
            repeated(change).await.map_err(|error| self.fail("hand over the run", error))?;
            self.inner.journal.ended(&lease.run);
        }
        Ok(())
    }

    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool> {
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                // The first request counts, however often it is repeated.
                .col_expr(Column::CancelMs, Expr::col(Column::CancelMs).if_null(now_ms))
                .filter(of(run))
                .filter(Column::Ending.is_null())
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("ask the run to stop", error))?;
        Ok(changed.rows_affected > 0)
    }

    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool> {
        let column = match word {
            GiveWayWord::Asked => Column::GiveWay,
            GiveWayWord::Listened => Column::Listened,
        };
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(column, Expr::col(column).add(1_i64))
                .filter(of(run))
                .filter(Column::Ending.is_null())
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("ask the run to give way", error))?;
        Ok(changed.rows_affected > 0)
    }

    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>> {
        let rows: Vec<(String, String, Option<i64>, i64, i64)> = Entity::find()
            .select_only()
            .columns([Column::TenantId, Column::Id, Column::CancelMs, Column::GiveWay, Column::Listened])
            .filter(Column::Ending.is_null())
            .filter(Condition::any().add(Column::CancelMs.is_not_null()).add(Column::GiveWay.gt(0)))
            .filter(Column::Owner.eq(text(owner.as_str())))
            .into_tuple()
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for runs that are to stop", error))?;
        let request = |(tenant, id, cancel_ms, asked, listened): (String, String, Option<i64>, i64, i64)| {
            let run = RunKey::new(&TenantId::from(tenant), id);
            RunRequest { run, cancel: cancel_ms.is_some(), give_way: GiveWay { asked, listened } }
        };
        Ok(rows.into_iter().map(request).collect())
    }

    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>> {
        let known = Query::select().column(process::Column::Id).from(process::Entity).take();
        let whose = Condition::any()
            .add(Column::Owner.is_null())
            .add(Column::Owner.is_in(gone.iter().map(|gone| text(gone.as_str()))))
            // A process that was pruned, or ended before its first heartbeat, has no row.
            .add(Column::Owner.not_in_subquery(known));
        let rows = Entity::find()
            .filter(Column::Ending.is_null())
            .filter(whose)
            .order_by_asc(Column::StartedMs)
            .order_by_asc(Column::Id)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for runs that no process works on", error))?;
        rows.into_iter().map(Model::into_run).collect()
    }

    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        self.finish_alone(lease, finished).await
    }

    async fn end(
        &self,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        finished: FinishedRun,
    ) -> Result<Result<()>> {
        if self.end_with(lease, &entries, &finished).await? {
            return Ok(Ok(()));
        }
        RunStore::append(self, lease, entries).await?;
        Ok(self.finish(lease, finished).await)
    }

    async fn get(&self, key: &RunKey) -> Result<StoredRun> {
        Entity::find()
            .filter(of(key))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the run", error))?
            .ok_or_else(|| missing(key))?
            .into_run()
    }

    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>> {
        let fail = |error| self.fail("read the journal", error);
        let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
        let mut entries: Vec<StoredEntry> = Vec::new();
        let mut after = after_seq;
        while entries.len() < count_max {
            let wanted = (count_max - entries.len()) as u64;
            let rows = journal::after(&self.inner.read, key, after, Ord::min(wanted, ROWS_READ_MAX))
                .await
                .map_err(fail)?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                // The run may have ended since the last look: then one row holds what has been read already, too.
                let seen = std::mem::replace(&mut after, row.last_seq.cast_unsigned());
                let unpacked = self.unpacked(key, &row).await.map_err(fail)??;
                entries.extend(unpacked.into_iter().filter(|entry| entry.seq > seen));
                if entries.len() >= count_max {
                    break;
                }
            }
        }
        if entries.is_empty() {
            // It is no error if a run has no further entries, but it is one if the run does not exist.
            RunStore::get(self, key).await?;
        }
        entries.truncate(count_max);
        Ok(entries)
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        self.expired_runs(tenant, keep, count_max).await
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        self.remove_runs(runs).await
    }

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(session) = &filter.session {
            found = found.filter(Column::SessionId.eq(text(session.as_str())));
        }
        if filter.unfinished {
            found = found.filter(Column::Ending.is_null());
        }
        if let Some((started_ms, id)) = &filter.after {
            let time = (Column::StartedMs, Order::Desc, *started_ms);
            found = found.filter(behind(time, (Column::Id, Order::Desc, text(id.as_str()))));
        }
        let rows = found
            .order_by_desc(Column::StartedMs)
            .order_by_desc(Column::Id)
            .offset(bounded(filter.offset))
            .limit(bounded(filter.limit))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the runs", error))?;
        rows.into_iter().map(Model::into_run).collect()
    }
}
