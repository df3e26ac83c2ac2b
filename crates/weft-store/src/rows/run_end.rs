//! Ends runs: with as few journal rows as possible, and with what they have used.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use weft_core::id::SessionKey;
use weft_core::seam::RunStore;
use weft_core::seam::notice_store::Notice;
use weft_core::seam::run_store::{FinishedRun, RunLease, StoredEntry};
use weft_core::{Ending, Result};

use crate::Store;
use crate::batch::BatchOutcome;
use crate::compact::Compacted;
use crate::failure::{is_duplicate, is_orphan};
use crate::pack;
use crate::pieces;
use crate::rows::run::{Column, Entity, of};
use crate::rows::spending::{NOTES_TRIED_MAX, UnrecordedSpending};
use crate::rows::{model_use, notice};

/// Readers of a run see its end as soon as it is stored: that must not wait until a longer journal is compacted.
const ENDED_AT_ONCE_MAX: u64 = 1_024;

impl Store {
    /// Records how a run ended, and what it has used. See [`RunStore::finish`].
    pub(super) async fn finish_alone(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        const DOING: &str = "store how the run ended";
        for _ in 0..NOTES_TRIED_MAX {
            let more = match finished.spent {
                Some((day, spent)) => self.more_spent(lease, day, spent, DOING).await?,
                None => None,
            };
            let found = self.end_compacted(lease, &finished, more.as_ref()).await;
            self.inner.journal.ended(&lease.run);
            if found? {
                return Ok(());
            }
            let run = RunStore::get(self, &lease.run).await?;
            if run.fence != lease.fence {
                break;
            }
            // Its usage was recorded by an earlier call whose outcome is unknown.
        }
        Err(self.overtaken(lease, DOING))
    }

    async fn finish_compacted(
        &self,
        lease: &RunLease,
        finished: &FinishedRun,
        more: Option<&UnrecordedSpending>,
        session: Option<&SessionKey>,
    ) -> Result<bool, DbErr> {
        let row = self.compacted(lease, session, Vec::new()).await?.unwrap_or_else(|error| {
            tracing::warn!(run.id = %lease.run.id, error = error.detail(), "a journal could not be compacted");
            None
        });
        self.finish_run(lease, finished, more, row.as_ref().map(|row| (row, session))).await
    }

    /// Ends a run; `row` replaces rows of its journal. Returns whether the run exists and still belongs to the
    /// caller.
    async fn finish_run(
        &self,
        lease: &RunLease,
        finished: &FinishedRun,
        more: Option<&UnrecordedSpending>,
        row: Option<(&Compacted, Option<&SessionKey>)>,
    ) -> Result<bool, DbErr> {
        let mut batch = self.batch();
        let change = Entity::update_many()
            .col_expr(Column::Ending, Expr::value(finished.ending.as_str()))
            .col_expr(Column::FinishedMs, Expr::value(finished.at_ms))
            .filter(of(&lease.run))
            .filter(Column::Fence.eq(lease.fence));
        match more {
            Some(more) => more.note(change, &mut batch),
            None => batch.must(&change),
        }
        if let Some((row, session)) = row {
            row.store(&mut batch, session);
        }
        model_use::note(&lease.run, finished, &mut batch);
        if finished.ending == Ending::Failed
            && let Err(error) = notice::note(&Notice::run_failed(&lease.run, finished.at_ms), &mut batch)
        {
            // The end of the run is what matters.
            tracing::warn!(run.id = %lease.run.id, error = error.detail(), "the notification about the failed run could not be stored");
        }
        Ok(self.execute(&batch).await? == BatchOutcome::Committed)
    }

    /// Appends the last entries of a run and ends it, both in the single row that replaces all others. Returns
    /// whether that was possible; if not, nothing has changed.
    pub(super) async fn end_with(
        &self,
        lease: &RunLease,
        entries: &[StoredEntry],
        finished: &FinishedRun,
    ) -> Result<bool> {
        const DOING: &str = "store how the run ended";
        let long = entries.first().is_none_or(|first| first.seq > ENDED_AT_ONCE_MAX);
        if long || pack::plain_length(entries) >= pieces::CUT_FROM {
            return Ok(false);
        }
        let Some(session) = self.inner.journal.home(&lease.run).map(|home| home.session) else {
            return Ok(false);
        };
        let more = match finished.spent {
            Some((day, spent)) => self.more_spent(lease, day, spent, DOING).await?,
            None => None,
        };
        let row = self.compacted(lease, Some(&session), entries.to_vec()).await;
        let Ok(Some(row)) = row.map_err(|error| self.fail(DOING, error))? else { return Ok(false) };
        // A caller that gets no answer appends the entries again: the table must then show whether they are there.
        self.inner.journal.ended(&lease.run);
        match self.finish_run(lease, finished, more.as_ref(), Some((&row, Some(&session)))).await {
            Err(error) if is_orphan(&error) || is_duplicate(&error) => {
                self.inner.dictionaries.forget(&session);
                Ok(false)
            }
            ended => ended.map_err(|error| self.fail(DOING, error)),
        }
    }

    /// Ends a run with as few journal rows as possible. Returns whether it still belongs to the caller.
    async fn end_compacted(
        &self,
        lease: &RunLease,
        finished: &FinishedRun,
        more: Option<&UnrecordedSpending>,
    ) -> Result<bool> {
        let key = &lease.run;
        let session = self.inner.journal.home(key).map(|home| home.session);
        let done = match self.finish_compacted(lease, finished, more, session.as_ref()).await {
            // Without a session there is nowhere to store a dictionary.
            Err(error) if is_orphan(&error) => {
                session.iter().for_each(|session| self.inner.dictionaries.forget(session));
                self.finish_compacted(lease, finished, more, None).await
            }
            done => done,
        };
        let done = match done {
            Ok(found) => Ok(found),
            // The end of the run is what matters.
            Err(error) => {
                tracing::debug!(run.id = %key.id, %error, "a journal could not be compacted");
                self.finish_run(lease, finished, more, None).await
            }
        };
        done.map_err(|error| self.fail("store how the run ended", error))
    }
}
