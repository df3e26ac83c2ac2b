//! Selects the documents to be read next.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};
use weft_core::TenantId;
use weft_core::seam::ingest_queue::{TenantBacklog, in_turns};

use crate::Store;
use crate::ids::{self, bounded};
use crate::rows::document::{Column, Entity, Model};
use crate::rows::ingest::RUNNING;

/// Maximum number of tenants whose documents are considered at a time: those with the fewest documents being read.
const TENANTS_AT_ONCE_MAX: usize = 64;
/// Up to this many tenants are found one by one; if there are more, all waiting documents are read.
const TENANTS_ONE_BY_ONE_MAX: usize = 16;

impl Store {
    /// The tenants with documents that wait or are being read, if there are few: each is found without reading its
    /// documents, of which there may be very many.
    async fn tenants_with_work(&self) -> Result<Option<Vec<String>>, DbErr> {
        let mut tenants: Vec<String> = Vec::new();
        loop {
            let mut next = Entity::find()
                .select_only()
                .column(Column::TenantId)
                .filter(Column::State.eq(RUNNING))
                .order_by_asc(Column::TenantId)
                .limit(1);
            if let Some(last) = tenants.last() {
                next = next.filter(Column::TenantId.gt(last.as_str()));
            }
            match next.into_tuple::<String>().one(&self.inner.read).await? {
                None => return Ok(Some(tenants)),
                Some(_) if tenants.len() == TENANTS_ONE_BY_ONE_MAX => return Ok(None),
                Some(tenant) => tenants.push(tenant),
            }
        }
    }

    /// The documents to be taken next, alternating between tenants.
    pub(super) async fn ready(&self, now_ms: i64, count_max: u64) -> Result<Vec<Model>, DbErr> {
        let db = &self.inner.read;
        let counted = |which: Condition| {
            Entity::find()
                .select_only()
                .column(Column::TenantId)
                .column_as(Column::Id.count(), "documents")
                .filter(which.add(Column::State.eq(RUNNING)))
                .group_by(Column::TenantId)
                .into_tuple::<(String, i64)>()
        };
        let waiting_since = |which: Condition| {
            Entity::find()
                .select_only()
                .column(Column::TenantId)
                .column_as(Column::AtMs.min(), "since")
                .filter(which.add(Column::State.eq(RUNNING)))
                .group_by(Column::TenantId)
                .into_tuple::<(String, i64)>()
        };
        let due = || Condition::all().add(Column::AtMs.lte(now_ms));
        let mut tenants: Vec<(String, i64)> = match self.tenants_with_work().await? {
            // So few that all of them are considered: their documents tell which one has waited longest.
            Some(tenants) => tenants.into_iter().map(|tenant| (tenant, 0)).collect(),
            None => waiting_since(due()).all(db).await?,
        };
        let under_way = Condition::all().add(Column::AtMs.gt(now_ms)).add(Column::Taken.eq(1));
        // With a single tenant, the number of documents being read does not matter.
        let reading = if tenants.len() > 1 { counted(under_way).all(db).await? } else { Vec::new() };
        let reading: HashMap<String, u64> =
            reading.into_iter().map(|(tenant, count)| (tenant, ids::count(count))).collect();
        // The tenant with the fewest comes first: one with thousands of documents does not delay the others. Among
        // very many with equal numbers, the one that has waited longest comes first; otherwise those at the end of
        // the list would never be considered.
        tenants.sort_by_key(|(tenant, since)| (reading.get(tenant).copied().unwrap_or_default(), *since));
        let mut waiting = Vec::new();
        for (tenant, _) in tenants.into_iter().take(TENANTS_AT_ONCE_MAX) {
            let rows = Entity::find()
                .filter(due().add(Column::State.eq(RUNNING)).add(Column::TenantId.eq(tenant.as_str())))
                .order_by_asc(Column::AtMs)
                .order_by_asc(Column::Id)
                .limit(bounded(count_max))
                .all(db)
                .await?;
            let line = rows.into_iter().map(|row| (row.at_ms, row)).collect();
            waiting.push(TenantBacklog { tenant: TenantId::from(tenant), line });
        }
        let reading = reading.into_iter().map(|(tenant, count)| (TenantId::from(tenant), count)).collect();
        Ok(in_turns(waiting, reading, usize::try_from(count_max).unwrap_or(usize::MAX)))
    }
}
