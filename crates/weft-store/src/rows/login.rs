//! Sign-ins of users.

use sea_orm::entity::prelude::*;
use weft_core::id::{TenantId, UserId};
use weft_core::seam::user_store::Login;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "login")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub user_id: String,
    pub tenant_id: String,
    pub created_ms: i64,
    pub expires_ms: i64,
    /// 0 until its first use.
    pub last_used_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<&Login> for Model {
    fn from(login: &Login) -> Self {
        Self {
            hash: login.hash.clone(),
            user_id: login.user.as_str().to_owned(),
            tenant_id: login.tenant.as_str().to_owned(),
            created_ms: login.created_ms,
            expires_ms: login.expires_ms,
            last_used_ms: login.last_used_ms.unwrap_or(0),
        }
    }
}

impl From<Model> for Login {
    fn from(row: Model) -> Self {
        Self {
            hash: row.hash,
            user: UserId::from(row.user_id),
            tenant: TenantId::from(row.tenant_id),
            created_ms: row.created_ms,
            expires_ms: row.expires_ms,
            last_used_ms: (row.last_used_ms > 0).then_some(row.last_used_ms),
        }
    }
}
