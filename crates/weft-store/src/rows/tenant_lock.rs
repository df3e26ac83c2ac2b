//! Locks for limits per tenant: adding an object of a limited kind holds a row here until it is stored, so that the
//! count made before is still valid then.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{DatabaseTransaction, DbBackend, IntoActiveModel};
use weft_core::quota::LimitedKind;

use crate::Store;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tenant_lock")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    /// The limited kind: the name of its table.
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: String,
    pub changes: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Locks this kind of objects of a tenant against concurrent additions until the transaction ends. Called before the
/// transaction reads anything: MariaDB fixes the transaction's view at its first read. A tenant need not have a row
/// of its own.
pub(crate) async fn hold(
    transaction: &DatabaseTransaction,
    tenant: &str,
    kind: &'static str,
) -> Result<(), DbErr> {
    // In SQLite, a transaction that writes is already alone.
    if transaction.get_database_backend() == DbBackend::Sqlite {
        return Ok(());
    }
    let row = Model { tenant_id: tenant.to_owned(), kind: kind.to_owned(), changes: 1 };
    let again = OnConflict::columns([Column::TenantId, Column::Kind])
        .value(Column::Changes, Expr::col((Entity, Column::Changes)).add(1))
        .to_owned();
    let held = Entity::insert(row.into_active_model()).on_conflict(again);
    held.exec_without_returning(transaction).await.map(drop)
}

impl Store {
    /// Inserts a row, unless there are `count_max` of the rows that `others` finds already. Returns whether there was
    /// room.
    pub(crate) async fn insert_within<E: EntityTrait<Model: Sync + 'static>>(
        &self,
        tenant: &str,
        row: E::ActiveModel,
        others: Select<E>,
        count_max: u64,
    ) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        hold(&transaction, tenant, E::default().table_name()).await?;
        if others.count(&*transaction).await? >= count_max {
            transaction.rollback().await?;
            return Ok(false);
        }
        E::insert(row).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Inserts a row, unless the tenant has as many as it may have of this kind: those that `others` finds. Returns
    /// why it was not inserted.
    pub(crate) async fn insert_limited<E: EntityTrait<Model: Sync + 'static>>(
        &self,
        kind: LimitedKind,
        tenant: &str,
        row: E::ActiveModel,
        others: Select<E>,
    ) -> Result<weft_core::Result<()>, DbErr> {
        let transaction = self.begin().await?;
        let room = self.room(&transaction, kind, (tenant, others)).await?;
        if let Err(full) = room {
            transaction.rollback().await?;
            return Ok(Err(full));
        }
        E::insert(row).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// Checks whether a tenant may have another object of a kind, in addition to those that `others` finds. Until the
    /// transaction ends, nobody else adds one. Called before the transaction reads anything, as for [`hold`].
    pub(crate) async fn room<E: EntityTrait<Model: Sync + 'static>>(
        &self,
        transaction: &DatabaseTransaction,
        kind: LimitedKind,
        (tenant, others): (&str, Select<E>),
    ) -> Result<weft_core::Result<()>, DbErr> {
        let limits = self.quotas.limits;
        // Without a limit, nobody waits for anybody.
        if limits.limit(kind).is_none() {
            return Ok(Ok(()));
        }
        hold(transaction, tenant, E::default().table_name()).await?;
        let count = others.count(transaction).await?;
        Ok(limits.check(kind, count))
    }
}
