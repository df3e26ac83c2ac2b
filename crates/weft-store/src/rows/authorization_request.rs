//! Sign-ins that have started at an OpenID provider.

use sea_orm::IntoActiveModel;
use sea_orm::entity::prelude::*;
use weft_core::id::UserId;
use weft_core::seam::identity_store::AuthorizationRequest;
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::ids::{self, text};
use crate::open::repeated;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "authorization_request")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub browser_hash: String,
    pub provider: String,
    pub issuer: String,
    pub nonce: String,
    pub verifier: String,
    pub next: String,
    /// Empty for no user.
    pub user_id: String,
    pub expires_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<&AuthorizationRequest> for Model {
    fn from(request: &AuthorizationRequest) -> Self {
        Self {
            hash: request.hash.clone(),
            browser_hash: request.browser_hash.clone(),
            provider: text(&request.provider),
            issuer: text(&request.issuer),
            nonce: request.nonce.clone(),
            verifier: request.verifier.clone(),
            next: text(&request.next),
            user_id: request.user.as_ref().map_or_else(String::new, |user| text(user.as_str())),
            expires_ms: request.expires_ms,
        }
    }
}

impl From<Model> for AuthorizationRequest {
    fn from(row: Model) -> Self {
        Self {
            hash: row.hash,
            browser_hash: row.browser_hash,
            provider: row.provider,
            issuer: row.issuer,
            nonce: row.nonce,
            verifier: row.verifier,
            next: row.next,
            user: (!row.user_id.is_empty()).then(|| UserId::from(row.user_id)),
            expires_ms: row.expires_ms,
        }
    }
}

impl Store {
    pub(super) async fn begin_authorization(
        &self,
        request: &AuthorizationRequest,
        now_ms: i64,
        count_max: u64,
    ) -> Result<()> {
        ids::check("authorization request", &request.hash)?;
        let fail = |error| self.fail("store the sign-in that begins", error);
        let _permit = self.inner.gate.permit().await;
        let over = Entity::delete_many().filter(Column::ExpiresMs.lte(now_ms));
        repeated(|| over.clone().exec(&self.inner.write)).await.map_err(fail)?;
        // Concurrent calls may slightly exceed the limit: it only has to exist.
        if Entity::find().count(&self.inner.write).await.map_err(fail)? >= count_max {
            let error = Error::new(ErrorKind::RateLimited, "too many sign-ins are under way");
            return Err(error.help("try again in a few minutes"));
        }
        let row = Model::from(request);
        let insert = || Entity::insert(row.clone().into_active_model());
        repeated(|| insert().exec_without_returning(&self.inner.write)).await.map(drop).map_err(fail)
    }

    pub(super) async fn take_authorization(&self, hash: &str) -> Result<AuthorizationRequest> {
        let fail = |error| self.fail("read the sign-in that has begun", error);
        let missing = || Error::not_found("this sign-in does not exist or has ended");
        // With the writing connection: another process may have started it just now.
        let row = Entity::find_by_id(text(hash)).one(&self.inner.write).await.map_err(fail)?;
        let row = row.ok_or_else(missing)?;
        let _permit = self.inner.gate.permit().await;
        let removal = Entity::delete_many().filter(Column::Hash.eq(text(hash)));
        // Not repeated: a caller that cannot be sure to have removed the row must not take it.
        let removed = removal.exec(&self.inner.write).await.map_err(fail)?;
        if removed.rows_affected == 1 { Ok(row.into()) } else { Err(missing()) }
    }
}
