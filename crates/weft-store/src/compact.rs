//! Compacts the journal of a run that has ended into as few rows as possible.
//!
//! While a run is in progress each step is a row, because each is a durable write. When it has ended, its rows are
//! read once more and written as one, compressed together, which takes a fraction of the space. Very long journals
//! become several rows, so that reading a part of one stays cheap.

use std::sync::Arc;

use sea_orm::entity::prelude::*;
use sea_orm::{DbBackend, DbErr, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::Result;
use weft_core::id::{RunKey, SessionKey};
use weft_core::seam::run_store::{RunLease, StoredEntry};

use crate::Store;
use crate::batch::Batch;
use crate::ids::text;
use crate::known_runs::KeptRow;
use crate::pack::{self, pack, unpack};
use crate::pieces::{self, LIST};
use crate::rows::journal::{Column, Entity, Model};
use crate::rows::run;
use crate::session_dictionary::{self, BASED, SessionDictionary};

/// Maximum size of a row's content before compression.
// A reader of any entry has to unpack the whole row.
const ROW_BYTES_MAX: usize = 256 * 1024;

/// Rows read at a time.
// A journal has any length, and all of its rows at once might not fit into memory.
const ROWS_READ_MAX: u64 = 64;

/// Work on more bytes than this is moved off the async worker threads.
// Compressing them takes long enough to delay the other tasks on the thread.
const BYTES_AT_ONCE_MAX: usize = 64 * 1024;

/// Rows that become a single one.
#[derive(Default)]
struct RowGroup {
    rows: usize,
    entries: Vec<StoredEntry>,
    bytes: usize,
}

impl RowGroup {
    fn takes(&self, entries: &[StoredEntry]) -> bool {
        self.rows == 0 || self.bytes + pack::plain_length(entries) <= ROW_BYTES_MAX
    }

    /// Whether these entries come next and still fit.
    fn is_followed_by(&self, next: &[StoredEntry]) -> bool {
        let numbers = self.entries.last().zip(next.first());
        numbers.is_some_and(|(last, next)| last.seq.checked_add(1) == Some(next.seq)) && self.takes(next)
    }

    /// Adds the entries of this many rows.
    fn add(&mut self, rows: usize, entries: Vec<StoredEntry>) {
        self.rows += rows;
        self.bytes += pack::plain_length(&entries);
        self.entries.extend(entries);
    }

    /// The row that replaces all of them, unless there is only one.
    async fn row(self, store: &Store, key: &RunKey, session: Option<&SessionKey>) -> Option<Compacted> {
        let (first, last) = (self.entries.first()?.seq, self.entries.last()?.seq);
        if self.rows < 2 {
            return None;
        }
        let (body, base) = if self.bytes > BYTES_AT_ONCE_MAX {
            let entries = self.entries;
            // If compression fails, only space is lost: the rows stay as they are.
            (tokio::task::spawn_blocking(move || pack(&entries)).await.ok()?, None)
        } else {
            let based = session
                .and_then(|session| store.inner.dictionaries.pack(session, &pack::parts(&self.entries)));
            based.unwrap_or_else(|| (pack(&self.entries), None))
        };
        let row = Model {
            tenant_id: text(key.tenant.as_str()),
            run_id: text(key.id.as_str()),
            first_seq: first.cast_signed(),
            last_seq: last.cast_signed(),
            body,
        };
        Some(Compacted { row, base })
    }
}

/// A row that replaces others.
pub(crate) struct Compacted {
    row: Model,
    base: Option<Arc<SessionDictionary>>,
}

impl Compacted {
    /// Replaces the rows from which this one was built. The database rejects it as a duplicate when another process
    /// has meanwhile compacted fewer or more of them, and as an orphan when the session of its dictionary does not
    /// exist.
    pub(crate) fn store(&self, batch: &mut Batch, session: Option<&SessionKey>) {
        let Model { tenant_id, run_id, first_seq, last_seq, .. } = &self.row;
        if let (Some(base), Some(session)) = (&self.base, session) {
            if batch.backend != DbBackend::Sqlite {
                // A concurrent sweep could remove the dictionary before the row that refers to it is stored.
                batch.then(&pieces::locked(session));
            }
            pieces::keep(batch, &base.row);
        }
        let these = Entity::delete_many()
            .filter(Column::TenantId.eq(tenant_id))
            .filter(Column::RunId.eq(run_id))
            .filter(Column::FirstSeq.gte(*first_seq))
            .filter(Column::LastSeq.lte(*last_seq));
        batch.then(&these);
        batch.then(&Entity::insert(self.row.clone().into_active_model()));
    }
}

impl Store {
    /// The row that replaces the rows of a run, and includes entries that follow them and are not stored yet; for the
    /// holder of the run's lease. For a long journal it is the last row; the earlier ones have been written already.
    /// With a session, it may use the session's dictionary. `None` when the row would replace only one, or the
    /// entries do not follow.
    ///
    /// # Errors
    /// The inner error when a row cannot be parsed.
    pub(crate) async fn compacted(
        &self,
        lease: &RunLease,
        session: Option<&SessionKey>,
        last: Vec<StoredEntry>,
    ) -> Result<Result<Option<Compacted>>, DbErr> {
        let key = &lease.run;
        let (mut group, mut after) = (RowGroup::default(), 0);
        let kept = self.inner.journal.rows(key);
        let mut whole = kept.is_some();
        for KeptRow { first_seq, count, body } in kept.into_iter().flatten() {
            match unpack(first_seq, &body) {
                Ok(entries) if group.takes(&entries) => group.add(count, entries),
                Ok(_) => {
                    // Unpacked they exceed one row: then they are read row by row.
                    (group, whole) = (RowGroup::default(), false);
                    break;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        while !whole {
            let rows = of(key)
                .filter(Column::FirstSeq.gt(after))
                .order_by_asc(Column::FirstSeq)
                .limit(ROWS_READ_MAX)
                .all(&self.inner.read)
                .await?;
            let Some(last) = rows.last() else { break };
            after = last.first_seq;
            whole = (rows.len() as u64) < ROWS_READ_MAX;
            for row in rows {
                // A body that is split into pieces stays so.
                let entries = match row.body.first() {
                    Some(&LIST) => None,
                    _ => match self.unpacked(key, &row).await? {
                        Ok(entries) => Some(entries),
                        Err(error) => return Ok(Err(error)),
                    },
                };
                if entries.as_ref().is_none_or(|entries| !group.takes(entries)) {
                    // Written as soon as it is full, so that at most one row of a long journal is held in memory.
                    let full = std::mem::take(&mut group);
                    if let Some(row) = full.row(self, key, session).await {
                        self.replace(&row, lease, session).await?;
                    }
                }
                if let Some(entries) = entries {
                    group.add(1, entries);
                }
            }
        }
        if !last.is_empty() {
            if !group.is_followed_by(&last) {
                return Ok(Ok(None));
            }
            group.add(1, last);
        }
        Ok(Ok(group.row(self, key, session).await))
    }

    async fn replace(
        &self,
        row: &Compacted,
        lease: &RunLease,
        session: Option<&SessionKey>,
    ) -> Result<(), DbErr> {
        let mut batch = self.batch();
        // A process that has lost the run must leave its rows alone: the new owner appends to them.
        batch.check(run::held(batch.backend, lease));
        row.store(&mut batch, session);
        self.execute(&batch).await.map(drop)
    }

    /// The entries of a row.
    ///
    /// # Errors
    /// The inner error when it cannot be parsed.
    pub(crate) async fn unpacked(
        &self,
        key: &RunKey,
        row: &Model,
    ) -> Result<Result<Vec<StoredEntry>>, DbErr> {
        let first_seq = row.first_seq.cast_unsigned();
        let kept = match row.body.first() {
            Some(&LIST | &BASED) => self.session_of(key).await?,
            _ => None,
        };
        let Some(session) = kept else { return Ok(unpack(first_seq, &row.body)) };
        let db = &self.inner.read;
        Ok(match session_dictionary::named(&row.body) {
            Some(name) => {
                let content = pieces::one(db, &session, name).await?;
                let parts = content.and_then(|content| session_dictionary::parts(&row.body, &content));
                parts.and_then(|parts| pack::entries_of(first_seq, &parts))
            }
            None => {
                let body = pieces::whole(db, &session, &row.body).await?;
                body.and_then(|body| unpack(first_seq, &body))
            }
        })
    }
}

fn of(key: &RunKey) -> Select<Entity> {
    Entity::find()
        .filter(Column::TenantId.eq(text(key.tenant.as_str())))
        .filter(Column::RunId.eq(text(key.id.as_str())))
}
