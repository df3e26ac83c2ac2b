//! Users' identities at OpenID providers.

use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::UserId;
use weft_core::seam::IdentityStore;
use weft_core::seam::identity_store::{
    AuthorizationRequest, IDENTITIES_MAX, Identity, last_identity, too_many_identities,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::{authorization_request, user};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "identity")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub user_id: String,
    pub provider: String,
    pub issuer: String,
    pub subject: String,
    pub email: String,
    pub created_ms: i64,
    /// 0 until the first sign-in with it.
    pub used_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<&Identity> for Model {
    fn from(identity: &Identity) -> Self {
        Self {
            hash: identity.hash.clone(),
            user_id: text(identity.user.as_str()),
            provider: text(&identity.provider),
            issuer: text(&identity.issuer),
            subject: text(&identity.subject),
            email: text(&identity.email),
            created_ms: identity.created_ms,
            used_ms: identity.used_ms.unwrap_or(0),
        }
    }
}

impl From<Model> for Identity {
    fn from(row: Model) -> Self {
        Self {
            hash: row.hash,
            user: UserId::from(row.user_id),
            provider: row.provider,
            issuer: row.issuer,
            subject: row.subject,
            email: row.email,
            created_ms: row.created_ms,
            used_ms: (row.used_ms > 0).then_some(row.used_ms),
        }
    }
}

fn missing() -> Error {
    Error::not_found("there is no such identity")
}

/// Removes a user's identities and pending sign-ins. The removal of a user does this last: an identity is added while
/// its user is locked.
pub(crate) async fn forget(db: &impl ConnectionTrait, user: &UserId) -> Result<(), DbErr> {
    use authorization_request as request;
    let user = text(user.as_str());
    Entity::delete_many().filter(Column::UserId.eq(user.clone())).exec(db).await?;
    request::Entity::delete_many().filter(request::Column::UserId.eq(user)).exec(db).await.map(drop)
}

/// The outcome of a change of a user's identities.
enum IdentityChange {
    Done,
    NoUser,
    NoIdentity,
    TooMany,
    Last,
}

impl IdentityChange {
    fn into_result(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::NoUser => Err(user::no_user()),
            Self::NoIdentity => Err(missing()),
            Self::TooMany => Err(too_many_identities()),
            Self::Last => Err(last_identity()),
        }
    }
}

/// Locks a user until the transaction ends. A concurrent removal of the user waits for that, or this finds no user;
/// other changes of the user's identities wait as well.
async fn hold(db: &impl ConnectionTrait, user: &str) -> Result<bool, DbErr> {
    let held = user::Entity::update_many()
        .col_expr(user::Column::Enabled, Expr::col(user::Column::Enabled))
        .filter(user::Column::Id.eq(user))
        .exec(db)
        .await?;
    Ok(held.rows_affected > 0)
}

impl Store {
    async fn write_identity(&self, row: &Model) -> Result<IdentityChange, DbErr> {
        let transaction = self.begin().await?;
        if !hold(&*transaction, &row.user_id).await? {
            transaction.rollback().await?;
            return Ok(IdentityChange::NoUser);
        }
        let others =
            Entity::find().filter(Column::UserId.eq(&row.user_id)).filter(Column::Hash.ne(&row.hash));
        if others.count(&*transaction).await? >= IDENTITIES_MAX {
            transaction.rollback().await?;
            return Ok(IdentityChange::TooMany);
        }
        Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(IdentityChange::Done)
    }

    async fn erase_identity(&self, who: &str, hash: &str) -> Result<IdentityChange, DbErr> {
        let transaction = self.begin().await?;
        // If the user is gone, so are the identities, which the next query notices.
        hold(&*transaction, who).await?;
        let theirs = || Entity::find().filter(Column::UserId.eq(who));
        if theirs().filter(Column::Hash.eq(hash)).one(&*transaction).await?.is_none() {
            transaction.rollback().await?;
            return Ok(IdentityChange::NoIdentity);
        }
        let row = user::Entity::find_by_id(who).one(&*transaction).await?;
        let has_password = row.is_some_and(|row| !row.password_hash.is_empty());
        // Without a password, nobody could sign in as this user any more.
        if !has_password && theirs().count(&*transaction).await? == 1 {
            transaction.rollback().await?;
            return Ok(IdentityChange::Last);
        }
        Entity::delete_by_id(hash).exec(&*transaction).await?;
        transaction.commit().await?;
        Ok(IdentityChange::Done)
    }
}

#[async_trait]
impl IdentityStore for Store {
    async fn add_identity(&self, identity: &Identity) -> Result<()> {
        ids::check("identity", &identity.hash)?;
        let row = Model::from(identity);
        match repeated(|| self.write_identity(&row)).await {
            Ok(change) => change.into_result(),
            Err(error) if is_duplicate(&error) => {
                let found = Entity::find_by_id(text(&identity.hash)).one(&self.inner.write).await;
                let found = found.map_err(|error| self.fail("read the identity", error))?;
                // Two concurrent sign-ins of one person add the same identity.
                if found.is_some_and(|found| found.user_id == row.user_id) {
                    Ok(())
                } else {
                    Err(Error::new(ErrorKind::Conflict, "this identity is another user's"))
                }
            }
            Err(error) => Err(self.fail("store the identity", error)),
        }
    }

    async fn identity(&self, hash: &str) -> Result<Identity> {
        let found = Entity::find_by_id(text(hash)).one(&self.inner.read).await;
        let found = found.map_err(|error| self.fail("read the identity", error))?;
        found.map(Identity::from).ok_or_else(missing)
    }

    async fn identities(&self, user: &UserId, count_max: u64) -> Result<Vec<Identity>> {
        let rows = Entity::find()
            .filter(Column::UserId.eq(text(user.as_str())))
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Hash)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the identities", error))?;
        Ok(rows.into_iter().map(Identity::from).collect())
    }

    async fn identity_used(&self, hash: &str, email: &str, at_ms: i64) -> Result<()> {
        let note = Entity::update_many()
            .col_expr(Column::UsedMs, Expr::value(at_ms))
            .col_expr(Column::Email, Expr::value(text(email)))
            .filter(Column::Hash.eq(text(hash)));
        let _permit = self.inner.gate.permit().await;
        let noted = repeated(|| note.clone().exec(&self.inner.write)).await;
        noted.map(drop).map_err(|error| self.fail("record the use of the identity", error))
    }

    async fn remove_identity(&self, user: &UserId, hash: &str) -> Result<()> {
        let (who, hash) = (text(user.as_str()), text(hash));
        let removed = repeated(|| self.erase_identity(&who, &hash)).await;
        removed.map_err(|error| self.fail("remove the identity", error))?.into_result()
    }

    async fn add_authorization_request(
        &self,
        request: &AuthorizationRequest,
        now_ms: i64,
        count_max: u64,
    ) -> Result<()> {
        self.begin_authorization(request, now_ms, count_max).await
    }

    async fn take_authorization_request(&self, hash: &str) -> Result<AuthorizationRequest> {
        self.take_authorization(hash).await
    }
}
