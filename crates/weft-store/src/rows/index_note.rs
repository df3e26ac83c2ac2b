//! Notes about documents whose index may be out of date.
//!
//! The number of a document grows with each note and with each change of what can be found of it. A positive sign
//! notes that the index may be out of date, a negative one that it is up to date. So a process that has read a number
//! and then written to the index can tell whether anything has changed in between.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func};
use sea_orm::{Condition, QueryOrder, QuerySelect};
use weft_core::Result;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::ingest_queue::{IndexNote, NotedFilter, ToBeFound};

use crate::Store;
use crate::ids::{bounded, text};
use crate::open::repeated;
use crate::rows::chunk;
use crate::rows::document::{self, Column, Entity, Model};
use crate::rows::ingest::RUNNING;
use crate::rows::{change, to};

const INDEXING: &str = "indexing";

/// The next number of a document after a note.
pub(crate) fn next() -> Expr {
    Expr::expr(Func::abs(Expr::col(Column::Unindexed))).add(1)
}

/// The note about a document after a change of what can be found of it.
pub(crate) fn after(before: &Model) -> IndexNote {
    IndexNote { number: before.unindexed.abs() + 1, first: before.unindexed <= 0, busy: is_busy(before) }
}

fn is_busy(row: &Model) -> bool {
    row.state == RUNNING && row.taken != 0 && row.stage == INDEXING
}

/// Documents that a worker is adding to the index.
fn busy() -> Condition {
    Condition::all().add(Column::State.eq(RUNNING)).add(Column::Taken.eq(1)).add(Column::Stage.eq(INDEXING))
}

impl Store {
    pub(crate) async fn note_unindexed(&self, document: &DocumentKey) -> Result<IndexNote> {
        let note = async || {
            let transaction = self.begin().await?;
            let Some(row) = document::locked(&transaction, document).await? else { return Ok(None) };
            let note = after(&row);
            change(&transaction, document::of(document), vec![to(Column::Unindexed, note.number)]).await?;
            transaction.commit().await?;
            Ok(Some(note))
        };
        let noted =
            repeated(note).await.map_err(|error| self.fail("record what has to be indexed", error))?;
        noted.ok_or_else(|| document::missing(document))
    }

    pub(crate) async fn note_all_unindexed(&self, dataset: &DatasetKey) -> Result<()> {
        let note = async || {
            let transaction = self.begin().await?;
            change(&transaction, document::in_dataset(dataset), vec![(Column::Unindexed, next())]).await?;
            transaction.commit().await
        };
        repeated(note).await.map_err(|error| self.fail("record what has to be indexed", error))
    }

    pub(crate) async fn note_indexed(&self, document: &DocumentKey, number: i64) -> Result<bool> {
        let note = async || {
            let transaction = self.begin().await?;
            // Of a document that is gone, nothing has to be indexed any more.
            let Some(row) = document::locked(&transaction, document).await? else { return Ok(true) };
            let same = row.unindexed == number && !is_busy(&row);
            // Something has changed since, or a worker is writing just now: the index may be out of date again.
            let noted = if same { to(Column::Unindexed, -number) } else { (Column::Unindexed, next()) };
            change(&transaction, document::of(document), vec![noted]).await?;
            transaction.commit().await?;
            Ok(same)
        };
        repeated(note).await.map_err(|error| self.fail("record what is indexed", error))
    }

    pub(crate) async fn list_noted(&self, filter: &NotedFilter) -> Result<Vec<DocumentKey>> {
        let mut found = Entity::find()
            .filter(Column::Unindexed.gt(0))
            // A worker that is adding one to the index completes that; only when it has become silent is the document
            // left to others.
            .filter(busy().add(Column::AtMs.gt(filter.now_ms)).not());
        if let Some(dataset) = &filter.dataset {
            found = found.filter(document::in_dataset(dataset));
        }
        if let Some(after) = &filter.after {
            found = found.filter(Column::Id.gt(text(after.as_str())));
        }
        let rows = found
            .order_by_asc(Column::Id)
            .limit(bounded(filter.count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for what has to be indexed", error))?;
        Ok(rows.iter().map(Model::key).collect())
    }

    pub(crate) async fn count_to_be_found(&self, dataset: &DatasetKey) -> Result<ToBeFound> {
        let fail = |error| self.fail("count the searchable chunks", error);
        let db = &self.inner.read;
        let chunks = chunk::Entity::find().filter(chunk::found_in(dataset)).count(db).await.map_err(fail)?;
        let changing = Condition::any().add(Column::Unindexed.gt(0)).add(busy());
        let changing = Entity::find()
            .filter(document::in_dataset(dataset))
            .filter(changing)
            .select_only()
            .column(Column::Id)
            .limit(1)
            .into_tuple::<String>()
            .one(db)
            .await
            .map_err(fail)?;
        Ok(ToBeFound { chunks, changing: changing.is_some() })
    }
}
