//! Credentials for MCP servers. Their values are ciphertext; see [`crate::Vault`].

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, IntoActiveModel};
use weft_core::Result;
use weft_core::seam::tool_credentials::CredentialKey;

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, text};
use crate::open::repeated;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tool_credential")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub server_id: String,
    /// The name of the key that encrypted it.
    pub key_name: String,
    pub sealed: Vec<u8>,
    pub revision: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn of_key(key: &CredentialKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::ServerId.eq(text(&key.server)))
}

impl Store {
    pub(crate) async fn tool_credential(&self, key: &CredentialKey) -> Result<Option<Model>> {
        // With the writing connection: the user may have just signed in through another process.
        let row = Entity::find().filter(of_key(key)).one(&self.inner.write).await;
        row.map_err(|error| self.fail("read the credentials of the MCP server", error))
    }

    /// Replaces the row that has its revision, 0 for none. Returns whether it was found.
    pub(crate) async fn put_tool_credential(&self, row: Model) -> Result<bool> {
        ids::check("tenant", &row.tenant_id)?;
        ids::check("MCP server", &row.server_id)?;
        let before = row.revision;
        let row = Model { revision: before.wrapping_add(1), ..row };
        let _permit = self.inner.gate.permit().await;
        let written = if before == 0 {
            let add = || Entity::insert(row.clone().into_active_model());
            match repeated(|| add().exec_without_returning(&self.inner.write)).await {
                Err(error) if is_duplicate(&error) => return Ok(false),
                written => written,
            }
        } else {
            let change = Entity::update_many()
                .col_expr(Column::KeyName, Expr::value(row.key_name.as_str()))
                .col_expr(Column::Sealed, Expr::value(row.sealed.clone()))
                .col_expr(Column::Revision, Expr::value(row.revision))
                .filter(Column::TenantId.eq(row.tenant_id.as_str()))
                .filter(Column::ServerId.eq(row.server_id.as_str()))
                .filter(Column::Revision.eq(before));
            repeated(|| change.clone().exec(&self.inner.write)).await.map(|changed| changed.rows_affected)
        };
        let written = written.map_err(|error| self.fail("store the credentials of the MCP server", error))?;
        Ok(written > 0)
    }

    pub(crate) async fn remove_tool_credential(&self, key: &CredentialKey) -> Result<bool> {
        let _permit = self.inner.gate.permit().await;
        let removal = Entity::delete_many().filter(of_key(key));
        let removed = repeated(|| removal.clone().exec(&self.inner.write)).await;
        let removed =
            removed.map_err(|error| self.fail("remove the credentials of the MCP server", error))?;
        Ok(removed.rows_affected > 0)
    }
}
