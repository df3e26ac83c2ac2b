//! API tokens.

use async_trait::async_trait;
use sea_orm::IntoActiveModel;
use sea_orm::entity::prelude::*;
use weft_core::id::TenantId;
use weft_core::seam::TokenStore;
use weft_core::seam::token_store::StoredToken;
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, text};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "token")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub name: String,
    pub created_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

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
        };
        let _turn = self.inner.turns.next().await;
        let stored = Entity::insert(row.into_active_model()).exec_without_returning(&self.inner.write).await;
        stored.map(drop).map_err(|error| {
            if is_duplicate(&error) {
                return Error::new(ErrorKind::Conflict, format!("cannot {DOING}: it is stored already"))
                    .because(error);
            }
            self.fail(DOING, error)
        })
    }

    async fn find(&self, hash: &str) -> Result<StoredToken> {
        let row = Entity::find()
            .filter(Column::Hash.eq(text(hash)))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the token", error))?
            .ok_or_else(|| Error::not_found("there is no such token"))?;
        Ok(StoredToken {
            tenant: TenantId::from(row.tenant_id),
            hash: row.hash,
            name: row.name,
            created_ms: row.created_ms,
        })
    }

    async fn count(&self) -> Result<u64> {
        Entity::find().count(&self.inner.read).await.map_err(|error| self.fail("count the tokens", error))
    }
}
