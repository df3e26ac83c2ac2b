//! Secrets of tenants. The values are ciphertext; see [`crate::Vault`].

use std::sync::Arc;

use sea_orm::IntoActiveModel;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, QueryOrder, QuerySelect};
use weft_core::id::TenantId;
use weft_core::seam::secrets::{SECRETS_MAX, SecretInfo};
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, text};
use crate::open::repeated;
use crate::rows::{ROWS_AT_ONCE_MAX, tenant_lock, tool_credential, tool_server};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "secret")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// The name of the key that encrypted it.
    pub key_name: String,
    pub sealed: Vec<u8>,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// The parts that may be shown.
    pub(crate) fn info(&self) -> SecretInfo {
        SecretInfo {
            name: Arc::from(self.name.as_str()),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        }
    }
}

fn of(tenant: &TenantId) -> Condition {
    Condition::all().add(Column::TenantId.eq(text(tenant.as_str())))
}

impl Store {
    /// Stores a row, replacing an earlier one. Returns the time when the earlier one was created.
    pub(crate) async fn put_secret(&self, row: &Model) -> Result<SecretInfo> {
        const DOING: &str = "store the secret";
        ids::check("tenant", &row.tenant_id)?;
        let written = match repeated(|| self.write_secret(row)).await {
            // Another writer has just created it, so now there is a row to change.
            Err(error) if is_duplicate(&error) => repeated(|| self.write_secret(row)).await,
            outcome => outcome,
        };
        if !written.map_err(|error| self.fail(DOING, error))? {
            let message = format!("there are {SECRETS_MAX} secrets already");
            return Err(Error::new(ErrorKind::QuotaExceeded, message).help("remove those that nothing reads"));
        }
        let found =
            Entity::find_by_id((row.tenant_id.clone(), row.name.clone())).one(&self.inner.write).await;
        let found = found.map_err(|error| self.fail(DOING, error))?;
        // It may have been removed again already; it was stored all the same.
        Ok(found.as_ref().unwrap_or(row).info())
    }

    /// Returns whether there was room for it.
    async fn write_secret(&self, row: &Model) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        // Until it is written, no other secret of the tenant is counted or added.
        tenant_lock::hold(&transaction, &row.tenant_id, "secret").await?;
        let changed = Entity::update_many()
            .col_expr(Column::KeyName, Expr::value(row.key_name.as_str()))
            .col_expr(Column::Sealed, Expr::value(row.sealed.clone()))
            .col_expr(Column::UpdatedMs, Expr::value(row.updated_ms))
            .filter(Column::TenantId.eq(&row.tenant_id))
            .filter(Column::Name.eq(&row.name))
            .exec(&*transaction)
            .await?;
        if changed.rows_affected == 0 {
            let of_tenant = Entity::find().filter(Column::TenantId.eq(&row.tenant_id));
            if of_tenant.count(&*transaction).await? >= SECRETS_MAX {
                transaction.rollback().await?;
                return Ok(false);
            }
            Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// The rows of a tenant by name.
    pub(crate) async fn secrets_of(&self, tenant: &TenantId) -> Result<Vec<Model>> {
        let found = Entity::find().filter(of(tenant)).order_by_asc(Column::Name).all(&self.inner.read).await;
        found.map_err(|error| self.fail("list the secrets", error))
    }

    /// The names of secrets that were encrypted with another key than this one, of a tenant or of all.
    pub(crate) async fn secrets_of_other_keys(
        &self,
        tenant: Option<&TenantId>,
        key_name: &str,
    ) -> Result<Vec<String>> {
        let found = Entity::find()
            .filter(tenant.map_or_else(Condition::all, of))
            .filter(Column::KeyName.ne(key_name))
            .order_by_asc(Column::Name)
            .select_only()
            .column(Column::Name)
            .limit(SECRETS_MAX)
            .into_tuple::<String>()
            .all(&self.inner.read)
            .await;
        found.map_err(|error| self.fail("list the secrets", error))
    }

    /// Whether the store contains anything that was encrypted with the key of a vault.
    pub(crate) async fn has_sealed(&self) -> Result<bool> {
        // With the writing connection: another process may have just stored the first secret.
        let db = &self.inner.write;
        let count = async {
            let secrets = Entity::find().count(db).await?;
            let servers = tool_server::Entity::find().count(db).await?;
            Ok::<_, DbErr>(secrets + servers + tool_credential::Entity::find().count(db).await?)
        };
        Ok(count.await.map_err(|error| self.fail("count the secrets", error))? > 0)
    }

    /// The existing rows with these names.
    pub(crate) async fn secrets_named(&self, tenant: &TenantId, names: &[Arc<str>]) -> Result<Vec<Model>> {
        let mut rows = Vec::new();
        for some in names.chunks(ROWS_AT_ONCE_MAX) {
            let named = Column::Name.is_in(some.iter().map(|name| text(name)));
            let found = Entity::find().filter(of(tenant)).filter(named).all(&self.inner.read).await;
            rows.extend(found.map_err(|error| self.fail("read the secrets", error))?);
        }
        Ok(rows)
    }

    /// Removes a row. Returns whether it existed.
    pub(crate) async fn remove_secret(&self, tenant: &TenantId, name: &str) -> Result<bool> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || {
            Entity::delete_many()
                .filter(of(tenant))
                .filter(Column::Name.eq(text(name)))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("remove the secret", error))?;
        Ok(removed.rows_affected > 0)
    }
}
