//! Removes runs that need not be kept any longer.

use std::collections::HashSet;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait as _, Query};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryOrder, QuerySelect, Statement, Value,
};
use weft_core::id::{RunKey, SessionKey, TenantId};
use weft_core::seam::run_store::{Retention, StoredRun};
use weft_core::{Ending, Result};

use crate::Store;
use crate::ids::{bounded, text};
use crate::lane::Placeholder;
use crate::open::repeated;
use crate::pieces::{self, LIST};
use crate::rows::{ROWS_AT_ONCE_MAX, journal, piece, run, session};
use crate::session_dictionary::BASED;

/// Journal rows that are read at a time.
const ROWS_READ_MAX: u64 = 64;

/// Pages of a SQLite file that are released at a time.
// Other writers wait while pages are released.
const PAGES_FREED_MAX: u32 = 4_096;

impl Store {
    pub(crate) async fn expired_runs(
        &self,
        tenant: &TenantId,
        keep: &Retention,
        count_max: u64,
    ) -> Result<Vec<StoredRun>> {
        let db = &self.inner.read;
        let backend = db.get_database_backend();
        let at = |n| Placeholder(backend, n);
        // The last run of a session is kept while it waits for a person: the next turn continues it.
        let sql = format!(
            "SELECT tenant_id, id, session_id, canvas_id, query, ending, started_ms, finished_ms, \
             fence, owner, cancel_ms, give_way, listened FROM (SELECT tenant_id, id, session_id, canvas_id, query, ending, \
             started_ms, finished_ms, fence, owner, cancel_ms, give_way, listened, \
             ROW_NUMBER() OVER (PARTITION BY session_id ORDER BY started_ms DESC, id DESC) AS nth \
             FROM run WHERE tenant_id = {}) ranked \
             WHERE ending IS NOT NULL AND (finished_ms < {} OR nth > {}) AND NOT (nth = 1 AND ending = {}) \
             ORDER BY finished_ms, id LIMIT {}",
            at(1),
            at(2),
            at(3),
            at(4),
            at(5)
        );
        let many = |count: Option<u64>| bounded(count.unwrap_or(u64::MAX)).cast_signed();
        let values = [
            Value::from(text(tenant.as_str())),
            Value::from(keep.ended_before_ms.unwrap_or(i64::MIN)),
            Value::from(many(keep.per_session_max)),
            Value::from(Ending::Waiting.as_str()),
            Value::from(bounded(count_max).cast_signed()),
        ];
        let statement = Statement::from_sql_and_values(backend, sql, values);
        let rows = run::Entity::find().from_raw_sql(statement).all(db).await;
        let rows = rows.map_err(|error| self.fail("look for runs that need not be kept", error))?;
        rows.into_iter().map(run::Model::into_run).collect()
    }

    pub(crate) async fn remove_runs(&self, keys: &[RunKey]) -> Result<u64> {
        let fail = |error| self.fail("remove runs", error);
        let mut removed = 0;
        for some in keys.chunks(ROWS_AT_ONCE_MAX) {
            // Queried first: after the removal it is unknown in which sessions to sweep pieces.
            let sessions = self.sessions_of(some).await.map_err(fail)?;
            let remove = async || {
                let _permit = self.inner.gate.permit().await;
                let ended = run::Entity::delete_many().filter(run::any_of(some));
                // Whatever the caller names, a run that is under way stays.
                ended.filter(run::Column::Ending.is_not_null()).exec(&self.inner.write).await
            };
            removed += repeated(remove).await.map_err(fail)?.rows_affected;
            self.remove_messages_of_gone(some).await.map_err(fail)?;
            for session in sessions {
                repeated(|| self.sweep(&session)).await.map_err(fail)?;
            }
        }
        if removed > 0 {
            self.inner.journal.removed();
            self.give_back_pages().await.map_err(fail)?;
        }
        Ok(removed)
    }

    async fn sessions_of(&self, keys: &[RunKey]) -> Result<HashSet<SessionKey>, DbErr> {
        let found = run::Entity::find()
            .select_only()
            .columns([run::Column::TenantId, run::Column::SessionId])
            .filter(run::any_of(keys));
        let found: Vec<(String, String)> = found.into_tuple().all(&self.inner.read).await?;
        Ok(found.into_iter().map(|(tenant, id)| SessionKey::new(&TenantId::from(tenant), id)).collect())
    }

    /// Removes the unreferenced pieces of a session. While one of its runs is in progress, data that it is about to
    /// write may refer to any of them, so the sweep is postponed.
    async fn sweep(&self, key: &SessionKey) -> Result<(), DbErr> {
        let (tenant, id) = (text(key.tenant.as_str()), text(key.id.as_str()));
        let pieces = piece::Entity::find().filter(piece::Column::TenantId.eq(&tenant));
        if pieces.filter(piece::Column::SessionId.eq(&id)).one(&self.inner.read).await?.is_none() {
            return Ok(());
        }
        let transaction = self.begin().await?;
        let there = pieces::lock(&transaction, key).await?;
        let of_session = run::Entity::find()
            .filter(run::Column::TenantId.eq(&tenant))
            .filter(run::Column::SessionId.eq(&id));
        let under_way = of_session.filter(run::Column::Ending.is_null()).one(&*transaction).await?;
        if !there || under_way.is_some() {
            return transaction.rollback().await;
        }
        let lists = lists(&transaction, key).await?;
        pieces::sweep(&transaction, key, &lists).await?;
        transaction.commit().await
    }

    /// SQLite keeps the pages of removed data for reuse; here they are released, some at a time. Files from before
    /// this was possible keep them.
    async fn give_back_pages(&self) -> Result<(), DbErr> {
        if self.inner.write.get_database_backend() != DbBackend::Sqlite {
            return Ok(());
        }
        let _permit = self.inner.gate.permit().await;
        let free = format!("PRAGMA incremental_vacuum({PAGES_FREED_MAX})");
        self.inner.write.execute_unprepared(&free).await.map(drop)
    }
}

/// The bodies of a session and its runs that refer to pieces.
async fn lists(db: &DatabaseTransaction, key: &SessionKey) -> Result<Vec<Vec<u8>>, DbErr> {
    let (tenant, id) = (text(key.tenant.as_str()), text(key.id.as_str()));
    let state: Option<Option<Vec<u8>>> = session::Entity::find()
        .select_only()
        .column(session::Column::StateList)
        .filter(session::of(key))
        .into_tuple()
        .one(db)
        .await?;
    let mut lists: Vec<Vec<u8>> = state.flatten().into_iter().collect();
    let runs = Query::select()
        .column(run::Column::Id)
        .from(run::Entity)
        .and_where(run::Column::TenantId.eq(&tenant))
        .and_where(run::Column::SessionId.eq(&id))
        .take();
    let rows = journal::Entity::find()
        .filter(journal::Column::TenantId.eq(&tenant))
        .filter(journal::Column::RunId.in_subquery(runs))
        .order_by_asc(journal::Column::RunId)
        .order_by_asc(journal::Column::FirstSeq);
    let mut after: Option<(String, i64)> = None;
    loop {
        let mut page = rows.clone();
        if let Some((run, seq)) = &after {
            let later = journal::Column::RunId.eq(run).and(journal::Column::FirstSeq.gt(*seq));
            page = page.filter(journal::Column::RunId.gt(run).or(later));
        }
        let page = page.limit(ROWS_READ_MAX).all(db).await?;
        let Some(last) = page.last() else { return Ok(lists) };
        after = Some((last.run_id.clone(), last.first_seq));
        for row in page {
            match row.body.first() {
                Some(&LIST) => lists.push(row.body),
                // Its dictionary is named at the beginning; the rest would only take memory.
                Some(&BASED) => lists.push(row.body[..row.body.len().min(pieces::NAMED_BASE_BYTES)].to_vec()),
                _ => {}
            }
        }
    }
}
