//! Invitations of people to tenants.

use sea_orm::entity::prelude::*;
use weft_core::Result;
use weft_core::id::TenantId;
use weft_core::seam::tenant_store::Invitation;

use crate::ids::{fold, text};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "invitation")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub tenant_id: String,
    pub email: String,
    pub role: String,
    pub invited_by: String,
    pub created_ms: i64,
    pub expires_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<&Invitation> for Model {
    fn from(invitation: &Invitation) -> Self {
        Self {
            hash: invitation.hash.clone(),
            tenant_id: text(invitation.tenant.as_str()),
            email: fold(&invitation.email),
            role: invitation.role.to_string(),
            invited_by: text(&invitation.invited_by),
            created_ms: invitation.created_ms,
            expires_ms: invitation.expires_ms,
        }
    }
}

impl Model {
    pub(crate) fn into_invitation(self) -> Result<Invitation> {
        Ok(Invitation {
            role: self.role.parse()?,
            hash: self.hash,
            tenant: TenantId::from(self.tenant_id),
            email: self.email,
            invited_by: self.invited_by,
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
        })
    }
}
