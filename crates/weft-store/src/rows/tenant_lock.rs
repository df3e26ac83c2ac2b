//! Who adds something of which a tenant may have so many holds a row here until it is there, so that what is counted before
//! is still right then.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{DatabaseTransaction, DbBackend, IntoActiveModel};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tenant_lock")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    /// What there may be so many of: the name of its table.
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: String,
    pub changes: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Lets nobody else add things of this kind to a tenant until the transaction ends. It comes before everything that the
/// transaction reads: MariaDB goes on to see what was there at the first look. A tenant need not have a row of its own.
pub(crate) async fn hold(
    transaction: &DatabaseTransaction,
    tenant: &str,
    kind: &'static str,
) -> Result<(), DbErr> {
    // There a transaction that writes is alone already.
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
