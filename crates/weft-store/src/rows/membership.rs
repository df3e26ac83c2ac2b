//! Memberships of users in tenants.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, ConnectionTrait, IntoActiveModel};
use weft_core::Result;
use weft_core::access::MemberRole;
use weft_core::id::{TenantId, UserId};
use weft_core::seam::tenant_store::Membership;

use crate::ids::text;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "membership")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: String,
    pub role: String,
    pub created_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

pub(crate) fn of(tenant: &TenantId, user: &UserId) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(tenant.as_str())))
        .add(Column::UserId.eq(text(user.as_str())))
}

impl Model {
    pub(crate) fn new(membership: &Membership) -> Self {
        Self {
            tenant_id: text(membership.tenant.as_str()),
            user_id: text(membership.user.as_str()),
            role: membership.role.to_string(),
            created_ms: membership.created_ms,
        }
    }

    pub(crate) fn into_membership(self) -> Result<Membership> {
        Ok(Membership {
            role: self.role.parse()?,
            tenant: TenantId::from(self.tenant_id),
            user: UserId::from(self.user_id),
            created_ms: self.created_ms,
        })
    }

    /// Stores the row, or updates the role of an existing one.
    pub(crate) async fn put(&self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        let changed = Entity::update_many()
            .col_expr(Column::Role, Expr::value(self.role.as_str()))
            .filter(Column::TenantId.eq(&self.tenant_id))
            .filter(Column::UserId.eq(&self.user_id))
            .exec(db)
            .await?;
        if changed.rows_affected == 0 {
            Entity::insert(self.clone().into_active_model()).exec_without_returning(db).await?;
        }
        Ok(())
    }
}

/// Whether a user may leave a tenant whose members are locked: anyone but the only owner of others. The last member of
/// all may leave, too: an empty tenant is no loss for anyone.
pub(crate) async fn may_leave(db: &impl ConnectionTrait, tenant: &str, user: &UserId) -> Result<bool, DbErr> {
    let own = Entity::find()
        .filter(Column::TenantId.eq(tenant))
        .filter(Column::UserId.eq(text(user.as_str())))
        .one(db)
        .await?;
    // A tenant may have no member who is an owner: an API key can be its owner.
    if own.is_none_or(|own| own.role != MemberRole::Owner.as_str()) {
        return Ok(true);
    }
    let (owner, member) = others(db, tenant, user).await?;
    Ok(owner || !member)
}

/// Whether a tenant has an owner other than this user, and whether it has other members at all.
pub(crate) async fn others(
    db: &impl ConnectionTrait,
    tenant: &str,
    user: &UserId,
) -> Result<(bool, bool), DbErr> {
    let others =
        Entity::find().filter(Column::TenantId.eq(tenant)).filter(Column::UserId.ne(text(user.as_str())));
    let owners = others.clone().filter(Column::Role.eq(MemberRole::Owner.as_str())).count(db).await?;
    Ok((owners > 0, others.count(db).await? > 0))
}
