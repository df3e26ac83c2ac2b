//! Metadata of documents and chunks, read without their content.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect, Select};
use weft_core::Result;
use weft_core::filter::Metadata;
use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{ChunkHead, DocumentHead, Heads};

use crate::Store;
use crate::ids::{self, bounded, text};
use crate::rows::{ROWS_AT_ONCE_MAX, chunk, document, document_extra};

impl Store {
    pub(crate) async fn read_chunk_heads(
        &self,
        tenant: &TenantId,
        wanted: &[ChunkId],
    ) -> Result<Vec<ChunkHead>> {
        let mut found = HashMap::with_capacity(wanted.len());
        for some in wanted.chunks(ROWS_AT_ONCE_MAX) {
            let columns = [
                chunk::Column::Id,
                chunk::Column::DatasetId,
                chunk::Column::DocumentId,
                chunk::Column::ParentId,
                chunk::Column::Available,
            ];
            let rows: Vec<(String, String, String, Option<String>, i64)> = chunk::Entity::find()
                .select_only()
                .columns(columns)
                .filter(chunk::Column::TenantId.eq(text(tenant.as_str())))
                .filter(chunk::Column::Fresh.eq(chunk::Age::WorkOutcome.number()))
                .filter(chunk::Column::Id.is_in(some.iter().map(|id| text(id.as_str()))))
                .into_tuple()
                .all(&self.inner.read)
                .await
                .map_err(|error| self.fail("look the chunks up", error))?;
            found.extend(rows.into_iter().map(|(id, dataset, document, parent, available)| {
                let document = DocumentKey::new(&DatasetKey::new(tenant, dataset), document);
                let parent = parent.map(ChunkId::from);
                (id.clone(), ChunkHead { id: id.into(), document, parent, available: available != 0 })
            }));
        }
        // An id that is requested twice is returned once.
        Ok(wanted.iter().filter_map(|id| found.remove(id.as_str())).collect())
    }

    pub(crate) async fn find_next_ordinal(&self, key: &DocumentKey) -> Result<u64> {
        let fail = |error| self.fail("look for the last chunk", error);
        let db = &self.inner.read;
        let last = chunk::Entity::find()
            .select_only()
            .column(chunk::Column::Ordinal)
            .filter(chunk::of_age(key, chunk::Age::WorkOutcome))
            .order_by_desc(chunk::Column::Ordinal)
            .limit(1)
            .into_tuple::<i64>()
            .one(db)
            .await
            .map_err(fail)?;
        match last {
            Some(last) => Ok(ids::count(last) + 1),
            None if self.has_document(db, key).await.map_err(fail)? => Ok(0),
            None => Err(document::missing(key)),
        }
    }

    pub(crate) async fn list_document_heads(
        &self,
        dataset: &DatasetKey,
        wanted: &Heads,
    ) -> Result<Vec<DocumentHead>> {
        let all = || {
            document::Entity::find().filter(document::in_dataset(dataset)).order_by_asc(document::Column::Id)
        };
        let these = |some: &[DocumentId]| {
            all().filter(document::Column::Id.is_in(some.iter().map(|id| text(id.as_str()))))
        };
        let lists: Vec<Select<document::Entity>> = match wanted {
            Heads::Of(ids) => ids.chunks(ROWS_AT_ONCE_MAX).map(these).collect(),
            Heads::With(extra) => {
                vec![all().filter(document::Column::Id.in_subquery(document_extra::having(dataset, *extra)))]
            }
            Heads::Page(None, limit) => vec![all().limit(bounded(*limit))],
            Heads::Page(Some(after), limit) => {
                vec![all().filter(document::Column::Id.gt(text(after.as_str()))).limit(bounded(*limit))]
            }
        };
        let columns = [
            document::Column::Id,
            document::Column::Name,
            document::Column::Metadata,
            document::Column::Enabled,
            document::Column::Revision,
            document::Column::UpdatedMs,
        ];
        let mut heads = Vec::new();
        for list in lists {
            let rows: Vec<(String, String, String, i64, i64, i64)> = list
                .select_only()
                .columns(columns)
                .into_tuple()
                .all(&self.inner.read)
                .await
                .map_err(|error| self.fail("look the documents up", error))?;
            for (id, name, metadata, enabled, revision, updated_ms) in rows {
                let metadata: Metadata = ids::read_json(&metadata, || format!("the document `{id}`"))?;
                let (id, enabled) = (id.into(), enabled != 0);
                heads.push(DocumentHead { id, name, metadata, enabled, revision, updated_ms });
            }
        }
        Ok(heads)
    }
}
