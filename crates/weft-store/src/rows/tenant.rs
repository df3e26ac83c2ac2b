//! Tenants with their members and invitations.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait as _;
use sea_orm::{Condition, ConnectionTrait, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::access::MemberRole;
use weft_core::id::{TenantId, UserId};
use weft_core::seam::TenantStore;
use weft_core::seam::tenant_store::{
    INVITATIONS_MAX, Invitation, Joining, MemberCounts, Membership, Tenant, too_many_invitations,
};
use weft_core::seam::user_store::User;
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, fold, text};
use crate::open::repeated;
use crate::rows::{ROWS_AT_ONCE_MAX, invitation, membership, user};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tenant")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub name: String,
    /// Incremented by every change of its members, so that those changes are serialized.
    pub revision: i64,
    pub created_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for Tenant {
    fn from(row: Model) -> Self {
        Self { id: TenantId::from(row.id), name: row.name, created_ms: row.created_ms }
    }
}

/// The outcome of a change of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberChange {
    Done,
    NoTenant,
    NoUser,
    NoMember,
    NoInvitation,
    LastOwner,
    TooManyInvitations,
}

impl MemberChange {
    pub(crate) fn into_result(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::NoTenant => Err(no_tenant()),
            Self::NoUser => Err(user::no_user()),
            Self::NoMember => Err(no_member()),
            Self::NoInvitation => Err(no_invitation()),
            Self::TooManyInvitations => Err(too_many_invitations()),
            Self::LastOwner => {
                let error = Error::new(ErrorKind::Conflict, "the tenant would be left without an owner");
                Err(error.help("make another member an owner first"))
            }
        }
    }
}

pub(super) fn no_tenant() -> Error {
    Error::not_found("there is no such tenant")
}

fn no_member() -> Error {
    Error::not_found("there is no such member of the tenant")
}

fn no_invitation() -> Error {
    Error::not_found("there is no such invitation")
}

/// Locks the members of a tenant until the transaction ends. Returns whether the tenant exists.
pub(crate) async fn lock(db: &impl ConnectionTrait, tenant: &str) -> Result<bool, DbErr> {
    let locked = Entity::update_many()
        .col_expr(Column::Revision, Expr::col(Column::Revision).add(1))
        .filter(Column::Id.eq(tenant))
        .exec(db)
        .await?;
    Ok(locked.rows_affected > 0)
}

impl Store {
    async fn write_tenant(&self, row: &Model) -> Result<(), DbErr> {
        let transaction = self.begin().await?;
        if Entity::find_by_id(row.id.clone()).one(&*transaction).await?.is_none() {
            Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        }
        transaction.commit().await
    }

    async fn write_role(
        &self,
        tenant: &TenantId,
        who: &UserId,
        role: MemberRole,
    ) -> Result<MemberChange, DbErr> {
        let transaction = self.begin().await?;
        let id = text(tenant.as_str());
        lock(&*transaction, &id).await?;
        let of_them = || membership::of(tenant, who);
        let Some(before) = membership::Entity::find().filter(of_them()).one(&*transaction).await? else {
            transaction.rollback().await?;
            return Ok(MemberChange::NoMember);
        };
        let was_owner = before.role == MemberRole::Owner.as_str();
        if was_owner && role != MemberRole::Owner && !membership::others(&*transaction, &id, who).await?.0 {
            transaction.rollback().await?;
            return Ok(MemberChange::LastOwner);
        }
        membership::Entity::update_many()
            .col_expr(membership::Column::Role, Expr::value(role.as_str()))
            .filter(of_them())
            .exec(&*transaction)
            .await?;
        transaction.commit().await?;
        Ok(MemberChange::Done)
    }

    async fn erase_member(&self, tenant: &TenantId, who: &UserId) -> Result<MemberChange, DbErr> {
        let transaction = self.begin().await?;
        let id = text(tenant.as_str());
        lock(&*transaction, &id).await?;
        if !membership::may_leave(&*transaction, &id, who).await? {
            transaction.rollback().await?;
            return Ok(MemberChange::LastOwner);
        }
        let gone =
            membership::Entity::delete_many().filter(membership::of(tenant, who)).exec(&*transaction).await?;
        if gone.rows_affected == 0 {
            transaction.rollback().await?;
            return Ok(MemberChange::NoMember);
        }
        // In the same transaction: a former member's sign-ins and API keys must not outlive the membership.
        user::forget(&*transaction, Some(tenant), who).await?;
        transaction.commit().await?;
        Ok(MemberChange::Done)
    }

    async fn write_invitation(&self, row: &invitation::Model) -> Result<MemberChange, DbErr> {
        let transaction = self.begin().await?;
        if !lock(&*transaction, &row.tenant_id).await? {
            transaction.rollback().await?;
            return Ok(MemberChange::NoTenant);
        }
        // Expired invitations are removed together with the one that is replaced.
        let over = Condition::any()
            .add(invitation::Column::Email.eq(&row.email))
            .add(invitation::Column::ExpiresMs.lte(row.created_ms));
        invitation::Entity::delete_many()
            .filter(invitation::Column::TenantId.eq(&row.tenant_id))
            .filter(over)
            .exec(&*transaction)
            .await?;
        let open = invitation::Entity::find().filter(invitation::Column::TenantId.eq(&row.tenant_id));
        if open.count(&*transaction).await? >= INVITATIONS_MAX {
            transaction.rollback().await?;
            return Ok(MemberChange::TooManyInvitations);
        }
        invitation::Entity::insert(row.clone().into_active_model())
            .exec_without_returning(&*transaction)
            .await?;
        transaction.commit().await?;
        Ok(MemberChange::Done)
    }

    async fn join(
        &self,
        invited: &Invitation,
        new: Option<&user::Model>,
        joining: Joining<'_>,
        at_ms: i64,
    ) -> Result<MemberChange, DbErr> {
        let transaction = self.begin().await?;
        lock(&*transaction, &text(invited.tenant.as_str())).await?;
        // Removing the invitation ensures that it is accepted only once, however many attempts are made concurrently.
        let taken = invitation::Entity::delete_many()
            .filter(invitation::Column::Hash.eq(text(&invited.hash)))
            .filter(invitation::Column::TenantId.eq(text(invited.tenant.as_str())))
            .exec(&*transaction)
            .await?;
        if taken.rows_affected == 0 {
            transaction.rollback().await?;
            return Ok(MemberChange::NoInvitation);
        }
        let who = match joining {
            Joining::New(user) => &user.id,
            Joining::Known(id) => id,
        };
        match new {
            Some(row) => {
                user::Entity::insert(row.clone().into_active_model())
                    .exec_without_returning(&*transaction)
                    .await?;
            }
            None if user::Entity::find_by_id(text(who.as_str())).one(&*transaction).await?.is_none() => {
                transaction.rollback().await?;
                return Ok(MemberChange::NoUser);
            }
            None => {}
        }
        let before = membership::Entity::find()
            .filter(membership::of(&invited.tenant, who))
            .one(&*transaction)
            .await?;
        let before = before.and_then(|row| row.role.parse::<MemberRole>().ok());
        // An invitation never lowers the role of an existing member.
        let role = before.map_or(invited.role, |role| role.max(invited.role));
        let member =
            Membership { tenant: invited.tenant.clone(), user: who.clone(), role, created_ms: at_ms };
        membership::Model::new(&member).put(&*transaction).await?;
        transaction.commit().await?;
        Ok(MemberChange::Done)
    }
}

#[async_trait]
impl TenantStore for Store {
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()> {
        ids::check("tenant", tenant.id.as_str())?;
        let row = Model {
            id: tenant.id.as_str().to_owned(),
            name: text(&tenant.name),
            revision: 0,
            created_ms: tenant.created_ms,
        };
        match repeated(|| self.write_tenant(&row)).await {
            // Another writer has just stored it.
            Err(error) if is_duplicate(&error) => Ok(()),
            outcome => outcome.map_err(|error| self.fail("store the tenant", error)),
        }
    }

    async fn tenant(&self, id: &TenantId) -> Result<Tenant> {
        let found = Entity::find_by_id(text(id.as_str())).one(&self.inner.read).await;
        let found = found.map_err(|error| self.fail("read the tenant", error))?;
        found.map(Tenant::from).ok_or_else(no_tenant)
    }

    async fn tenants(&self, after: Option<&TenantId>, count_max: u64) -> Result<Vec<Tenant>> {
        let mut found = Entity::find();
        if let Some(after) = after {
            found = found.filter(Column::Id.gt(text(after.as_str())));
        }
        let rows = found.order_by_asc(Column::Id).limit(bounded(count_max)).all(&self.inner.read).await;
        let rows = rows.map_err(|error| self.fail("list the tenants", error))?;
        Ok(rows.into_iter().map(Tenant::from).collect())
    }

    async fn rename_tenant(&self, id: &TenantId, name: &str) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(Column::Name, Expr::value(text(name)))
                .filter(Column::Id.eq(text(id.as_str())))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("rename the tenant", error))?;
        if changed.rows_affected == 0 { Err(no_tenant()) } else { Ok(()) }
    }

    async fn close_tenant(&self, id: &TenantId) -> Result<()> {
        self.close_whole_tenant(id).await
    }

    async fn remove_tenant(&self, id: &TenantId) -> Result<()> {
        self.remove_whole_tenant(id).await
    }

    async fn membership(&self, tenant: &TenantId, user: &UserId) -> Result<Membership> {
        let found =
            membership::Entity::find().filter(membership::of(tenant, user)).one(&self.inner.read).await;
        let found = found.map_err(|error| self.fail("read the membership", error))?;
        found.ok_or_else(no_member)?.into_membership()
    }

    async fn memberships(&self, user: &UserId) -> Result<Vec<Membership>> {
        let rows = membership::Entity::find()
            .filter(membership::Column::UserId.eq(text(user.as_str())))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the memberships", error))?;
        let mut found =
            rows.into_iter().map(membership::Model::into_membership).collect::<Result<Vec<_>>>()?;
        // Not by the database, which would sort the roles as words.
        found.sort_by(|a, b| {
            b.role.cmp(&a.role).then(a.created_ms.cmp(&b.created_ms)).then_with(|| a.tenant.cmp(&b.tenant))
        });
        Ok(found)
    }

    async fn members(
        &self,
        tenant: &TenantId,
        offset: u64,
        count_max: u64,
    ) -> Result<Vec<(Membership, User)>> {
        let fail = |error| self.fail("list the members", error);
        let rows = membership::Entity::find()
            .filter(membership::Column::TenantId.eq(text(tenant.as_str())))
            .order_by_asc(membership::Column::CreatedMs)
            .order_by_asc(membership::Column::UserId)
            .offset(bounded(offset))
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(fail)?;
        let mut users = HashMap::new();
        for some in rows.chunks(ROWS_AT_ONCE_MAX) {
            let ids = some.iter().map(|row| row.user_id.clone());
            let found = user::Entity::find().filter(user::Column::Id.is_in(ids)).all(&self.inner.read).await;
            users.extend(found.map_err(fail)?.into_iter().map(|row| (row.id.clone(), User::from(row))));
        }
        let both = rows.into_iter().filter_map(|row| {
            // The user may have been removed since the first query.
            let user = users.remove(&row.user_id)?;
            Some(row.into_membership().map(|membership| (membership, user)))
        });
        both.collect()
    }

    async fn member_counts(&self, tenant: &TenantId) -> Result<MemberCounts> {
        let fail = |error| self.fail("count the members", error);
        let (tenant, db) = (text(tenant.as_str()), &self.inner.read);
        let members = membership::Entity::find()
            .filter(membership::Column::TenantId.eq(tenant.as_str()))
            .count(db)
            .await;
        let invitations = invitation::Entity::find()
            .filter(invitation::Column::TenantId.eq(tenant.as_str()))
            .count(db)
            .await;
        Ok(MemberCounts { members: members.map_err(fail)?, invitations: invitations.map_err(fail)? })
    }

    async fn set_role(&self, tenant: &TenantId, user: &UserId, role: MemberRole) -> Result<()> {
        let changed = repeated(|| self.write_role(tenant, user, role)).await;
        changed.map_err(|error| self.fail("change the member", error))?.into_result()
    }

    async fn remove_member(&self, tenant: &TenantId, user: &UserId) -> Result<()> {
        let changed = repeated(|| self.erase_member(tenant, user)).await;
        changed.map_err(|error| self.fail("remove the member", error))?.into_result()
    }

    async fn add_invitation(&self, invited: &Invitation) -> Result<()> {
        let row = invitation::Model::from(invited);
        ids::check("invitation", &row.hash)?;
        ids::check("e-mail address as an", &row.email)?;
        let changed = repeated(|| self.write_invitation(&row)).await;
        changed.map_err(|error| self.fail("store the invitation", error))?.into_result()
    }

    async fn invitation(&self, hash: &str) -> Result<Invitation> {
        let found = invitation::Entity::find_by_id(text(hash)).one(&self.inner.read).await;
        let found = found.map_err(|error| self.fail("read the invitation", error))?;
        found.ok_or_else(no_invitation)?.into_invitation()
    }

    async fn invitations(&self, tenant: &TenantId, offset: u64, count_max: u64) -> Result<Vec<Invitation>> {
        let rows = invitation::Entity::find()
            .filter(invitation::Column::TenantId.eq(text(tenant.as_str())))
            .order_by_asc(invitation::Column::CreatedMs)
            .order_by_asc(invitation::Column::Hash)
            .offset(bounded(offset))
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the invitations", error))?;
        rows.into_iter().map(invitation::Model::into_invitation).collect()
    }

    async fn invitations_for(&self, email: &str) -> Result<Vec<Invitation>> {
        let rows = invitation::Entity::find()
            .filter(invitation::Column::Email.eq(fold(email.trim())))
            .order_by_asc(invitation::Column::CreatedMs)
            .order_by_asc(invitation::Column::Hash)
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the invitations", error))?;
        rows.into_iter().map(invitation::Model::into_invitation).collect()
    }

    async fn accept_invitation(&self, invited: &Invitation, joining: Joining<'_>, at_ms: i64) -> Result<()> {
        let new = match joining {
            Joining::New(user) => Some(user::Model::new(user)?),
            Joining::Known(_) => None,
        };
        let changed = repeated(|| self.join(invited, new.as_ref(), joining, at_ms)).await;
        match changed {
            Err(error) if is_duplicate(&error) => {
                Err(Error::new(ErrorKind::Conflict, "another user has this e-mail address"))
            }
            outcome => outcome.map_err(|error| self.fail("accept the invitation", error))?.into_result(),
        }
    }

    async fn remove_invitation(&self, tenant: &TenantId, hash: &str) -> Result<()> {
        let removal = invitation::Entity::delete_many()
            .filter(invitation::Column::TenantId.eq(text(tenant.as_str())))
            .filter(invitation::Column::Hash.eq(text(hash)));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        let removed = removed.map_err(|error| self.fail("remove the invitation", error))?;
        if removed.rows_affected == 0 { Err(no_invitation()) } else { Ok(()) }
    }
}
