//! Versions of canvases, identified by the hash of their DSL.

use std::sync::Arc;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{DatabaseTransaction, IntoActiveModel};
use sha2::{Digest, Sha256};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "canvas_version")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub canvas_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub version: String,
    pub dsl: String,
    pub created_ms: i64,
    /// The name given to it by people, if any.
    pub title: Option<String>,
    pub note: Option<String>,
    /// When it was last saved.
    pub updated_ms: Option<i64>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The id of a version: the SHA-256 of the DSL in lower-case hex.
pub(crate) fn hash(dsl: &str) -> Arc<str> {
    weft_core::hex(&Sha256::digest(dsl.as_bytes())).into()
}

/// Adds a version; an existing one stays unchanged except for the time it was last saved.
pub(crate) async fn add(transaction: &DatabaseTransaction, version: Model) -> Result<(), DbErr> {
    let key = [Column::TenantId, Column::CanvasId, Column::Version];
    let saved = OnConflict::columns(key).update_column(Column::UpdatedMs).to_owned();
    Entity::insert(version.into_active_model())
        .on_conflict(saved)
        .exec_without_returning(transaction)
        .await
        .map(drop)
}
