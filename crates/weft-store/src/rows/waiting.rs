//! Which documents are to be read next.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};
use weft_core::TenantId;
use weft_core::seam::ingest_queue::{TenantBacklog, in_turns};

use crate::Store;
use crate::ids::{self, bounded};
use crate::rows::document::{Column, Entity, Model};
use crate::rows::ingest::RUNNING;

/// Tenants whose documents are looked at when some are taken: those of which the fewest are being read.
const TENANTS_AT_ONCE_MAX: usize = 64;
/// Tenants that are found one after the other; more are found by looking at all that waits.
const TENANTS_ONE_BY_ONE_MAX: usize = 16;

impl Store {
    /// The tenants of documents that wait or are being read, when there are few: each is found without looking at its
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

    /// What is to be taken next, in turns of the tenants.
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
            // So few that all of them are looked at: who has waited longest is told by their documents.
            Some(tenants) => tenants.into_iter().map(|tenant| (tenant, 0)).collect(),
            None => waiting_since(due()).all(db).await?,
        };
        let under_way = Condition::all().add(Column::AtMs.gt(now_ms)).add(Column::Taken.eq(1));
        // Of one tenant alone it does not matter how many are being read.
        let reading = if tenants.len() > 1 { counted(under_way).all(db).await? } else { Vec::new() };
        let reading: HashMap<String, u64> =
            reading.into_iter().map(|(tenant, count)| (tenant, ids::count(count))).collect();
        // Whoever has the fewest comes first: a tenant with thousands of documents does not hold up the others. Among very many
        // with as many it is who has waited longest, or those at the end of the list would never be looked at.
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
