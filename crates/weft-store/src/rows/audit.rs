//! The audit log.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::id::TenantId;
use weft_core::seam::AuditStore;
use weft_core::seam::audit_store::{AuditEntry, AuditFilter};
use weft_core::{Result, async_trait};

use crate::Store;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::behind;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub at_ms: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub actor: String,
    pub action: String,
    pub target: String,
    pub outcome: i64,
    pub address: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for AuditEntry {
    fn from(row: Model) -> Self {
        Self {
            tenant: TenantId::from(row.tenant_id),
            at_ms: row.at_ms,
            id: row.id,
            actor: row.actor,
            action: row.action,
            target: row.target,
            outcome: u16::try_from(row.outcome).unwrap_or(u16::MAX),
            address: row.address,
        }
    }
}

#[async_trait]
impl AuditStore for Store {
    async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        ids::check("tenant", entry.tenant.as_str())?;
        ids::check("entry of the audit log", &entry.id)?;
        ids::fits("actor", &entry.actor)?;
        let row = Model {
            tenant_id: entry.tenant.as_str().to_owned(),
            at_ms: entry.at_ms,
            id: entry.id.clone(),
            actor: entry.actor.clone(),
            action: text(&entry.action),
            target: text(&entry.target),
            outcome: i64::from(entry.outcome),
            address: text(&entry.address),
        };
        let _permit = self.inner.gate.permit().await;
        let insert = || Entity::insert(row.clone().into_active_model());
        let stored = repeated(|| insert().exec_without_returning(&self.inner.write)).await;
        stored.map(drop).map_err(|error| self.fail("write the audit log", error))
    }

    async fn audit(&self, tenant: &TenantId, filter: &AuditFilter) -> Result<Vec<AuditEntry>> {
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(actor) = &filter.actor {
            found = found.filter(Column::Actor.eq(text(actor)));
        }
        if let Some(since) = filter.since_ms {
            found = found.filter(Column::AtMs.gte(since));
        }
        if let Some(until) = filter.until_ms {
            found = found.filter(Column::AtMs.lt(until));
        }
        let order = if filter.ascending { Order::Asc } else { Order::Desc };
        if let Some(after) = &filter.after {
            // Not an offset: entries that are added meanwhile would move the others to later pages.
            let time = (Column::AtMs, order.clone(), after.at_ms);
            found = found.filter(behind(time, (Column::Id, order.clone(), text(&after.id))));
        }
        let rows = found
            .order_by(Column::AtMs, order.clone())
            .order_by(Column::Id, order)
            .limit(bounded(filter.limit))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the audit log", error))?;
        Ok(rows.into_iter().map(AuditEntry::from).collect())
    }

    async fn replace_audit_target(&self, target: &str, by: &str) -> Result<u64> {
        let change = Entity::update_many()
            .col_expr(Column::Target, Expr::value(text(by)))
            .filter(Column::Target.eq(text(target)));
        let _permit = self.inner.gate.permit().await;
        let changed = repeated(|| change.clone().exec(&self.inner.write)).await;
        Ok(changed.map_err(|error| self.fail("change the audit log", error))?.rows_affected)
    }

    async fn remove_audit_before(&self, before_ms: i64) -> Result<u64> {
        let removal = Entity::delete_many().filter(Column::AtMs.lt(before_ms));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        Ok(removed.map_err(|error| self.fail("shorten the audit log", error))?.rows_affected)
    }
}
