//! API tokens.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, IntoActiveModel, Order, QueryOrder, QuerySelect, Select};
use weft_core::id::{TenantId, UserId};
use weft_core::quota::LimitedKind;
use weft_core::seam::TokenStore;
use weft_core::seam::token_store::{StoredToken, TokenFilter};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, hashes_of, text};
use crate::open::repeated;
use crate::rows::behind;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "token")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub name: String,
    pub created_ms: i64,
    /// 0 until its first use.
    pub last_used_ms: i64,
    pub role: String,
    /// Empty when it was not created by a user.
    pub user_id: String,
}

impl Model {
    fn into_token(self) -> Result<StoredToken> {
        Ok(StoredToken {
            role: self.role.parse()?,
            user: (!self.user_id.is_empty()).then(|| UserId::from(self.user_id)),
            tenant: TenantId::from(self.tenant_id),
            hash: self.hash,
            name: self.name,
            created_ms: self.created_ms,
            last_used_ms: (self.last_used_ms > 0).then_some(self.last_used_ms),
        })
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The tokens selected by a filter, on all pages.
fn found_by(filter: &TokenFilter) -> Select<Entity> {
    let mut found = Entity::find();
    if let Some(tenant) = &filter.tenant {
        found = found.filter(Column::TenantId.eq(text(tenant.as_str())));
    }
    if let Some(user) = &filter.user {
        // Tokens without a creator have an empty user.
        found = found.filter(Column::UserId.eq(text(user.as_str()))).filter(Column::UserId.ne(""));
    }
    if let Some(name) = &filter.name {
        let mut called = Condition::any().add(Column::Name.eq(text(name)));
        if let Some(hashes) = hashes_of(name) {
            called = called.add(Column::Hash.like(hashes));
        }
        found = found.filter(called);
    }
    found
}

#[async_trait]
impl TokenStore for Store {
    async fn add(&self, token: &StoredToken) -> Result<()> {
        const DOING: &str = "store the token";
        ids::check("tenant", token.tenant.as_str())?;
        ids::check("token", &token.hash)?;
        let row = Model {
            tenant_id: token.tenant.as_str().to_owned(),
            hash: token.hash.clone(),
            name: text(&token.name),
            created_ms: token.created_ms,
            last_used_ms: token.last_used_ms.unwrap_or(0),
            role: token.role.to_string(),
            user_id: token.user.as_ref().map_or_else(String::new, |user| text(user.as_str())),
        };
        let others = Entity::find().filter(Column::TenantId.eq(&row.tenant_id));
        let insert = || {
            let (tenant, row) = (&row.tenant_id, row.clone().into_active_model());
            self.insert_limited(LimitedKind::ApiKeys, tenant, row, others.clone())
        };
        match repeated(insert).await {
            Ok(outcome) => outcome,
            Err(error) if is_duplicate(&error) => {
                Err(Error::new(ErrorKind::Conflict, format!("cannot {DOING}: it is stored already")))
            }
            Err(error) => Err(self.fail(DOING, error)),
        }
    }

    async fn find(&self, hash: &str) -> Result<StoredToken> {
        let row = Entity::find()
            .filter(Column::Hash.eq(text(hash)))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the token", error))?
            .ok_or_else(|| Error::not_found("there is no such token"))?;
        row.into_token()
    }

    async fn used(&self, hash: &str, at_ms: i64) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let note = async || {
            Entity::update_many()
                .col_expr(Column::LastUsedMs, Expr::value(at_ms))
                .filter(Column::Hash.eq(text(hash)))
                // Uses are recorded concurrently, in any order: an earlier one must not replace a later one.
                .filter(Column::LastUsedMs.lt(at_ms))
                .exec(&self.inner.write)
                .await
        };
        repeated(note).await.map(drop).map_err(|error| self.fail("record the use of the token", error))
    }

    async fn list(&self, filter: &TokenFilter) -> Result<Vec<StoredToken>> {
        let mut found = found_by(filter);
        if let Some((created_ms, hash)) = &filter.after {
            let time = (Column::CreatedMs, Order::Asc, *created_ms);
            found = found.filter(behind(time, (Column::Hash, Order::Asc, text(hash))));
        }
        let rows = found
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Hash)
            .offset(bounded(filter.offset))
            .limit(bounded(filter.limit))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the tokens", error))?;
        rows.into_iter().map(Model::into_token).collect()
    }

    async fn total(&self, filter: &TokenFilter) -> Result<u64> {
        let total = found_by(filter).count(&self.inner.read).await;
        total.map_err(|error| self.fail("count the tokens", error))
    }

    async fn remove(&self, tenant: &TenantId, hash: &str) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || {
            Entity::delete_many()
                .filter(Column::TenantId.eq(text(tenant.as_str())))
                .filter(Column::Hash.eq(text(hash)))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("remove the token", error))?;
        if removed.rows_affected == 0 {
            return Err(Error::not_found("there is no such token"));
        }
        Ok(())
    }

    async fn count(&self) -> Result<u64> {
        Entity::find().count(&self.inner.read).await.map_err(|error| self.fail("count the tokens", error))
    }
}
