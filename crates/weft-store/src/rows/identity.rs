//! Who users are at OpenID providers.

use async_trait::async_trait;
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::UserId;
use weft_core::seam::IdentityStore;
use weft_core::seam::identity_store::{AuthorizationRequest, Identity};
use weft_core::{Error, ErrorKind, Result};

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
    /// 0 while nobody has signed in with it.
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

/// Removes what there is of a user at providers. Whoever removes the user does this last: an identity is added while
/// its user is held fast.
pub(crate) async fn forget(db: &impl ConnectionTrait, user: &UserId) -> Result<(), DbErr> {
    use authorization_request as request;
    let user = text(user.as_str());
    Entity::delete_many().filter(Column::UserId.eq(user.clone())).exec(db).await?;
    request::Entity::delete_many().filter(request::Column::UserId.eq(user)).exec(db).await.map(drop)
}

impl Store {
    /// Whether there is such a user.
    async fn write_identity(&self, row: &Model) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        // Whoever removes the user waits for this, or this finds none.
        let held = user::Entity::update_many()
            .col_expr(user::Column::Enabled, Expr::col(user::Column::Enabled))
            .filter(user::Column::Id.eq(row.user_id.clone()))
            .exec(&*transaction)
            .await?;
        if held.rows_affected == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

#[async_trait]
impl IdentityStore for Store {
    async fn add_identity(&self, identity: &Identity) -> Result<()> {
        ids::check("identity", &identity.hash)?;
        let row = Model::from(identity);
        match repeated(|| self.write_identity(&row)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(user::no_user()),
            Err(error) if is_duplicate(&error) => {
                let found = Entity::find_by_id(text(&identity.hash)).one(&self.inner.write).await;
                let found = found.map_err(|error| self.fail("read the identity", error))?;
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
        noted.map(drop).map_err(|error| self.fail("note the use of the identity", error))
    }

    async fn remove_identity(&self, user: &UserId, hash: &str) -> Result<()> {
        let removal = Entity::delete_many()
            .filter(Column::UserId.eq(text(user.as_str())))
            .filter(Column::Hash.eq(text(hash)));
        let _permit = self.inner.gate.permit().await;
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        let removed = removed.map_err(|error| self.fail("remove the identity", error))?;
        if removed.rows_affected == 0 { Err(missing()) } else { Ok(()) }
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
