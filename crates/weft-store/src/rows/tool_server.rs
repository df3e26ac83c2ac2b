//! MCP servers of tenants. What is sealed here is ciphertext; see [`crate::Vault`].

use sea_orm::entity::prelude::*;
use sea_orm::{IntoActiveModel, QueryOrder};
use weft_core::id::TenantId;
use weft_core::seam::tool_server_store::{SERVERS_MAX, StoredToolServer, missing};
use weft_core::{Error, ErrorKind, Result, Secret};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, text};
use crate::open::repeated;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tool_server")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub tenant_id: String,
    pub name: String,
    /// The name in lower case: unique within the tenant.
    pub name_folded: String,
    pub url: String,
    pub transport: String,
    pub description: String,
    /// Which key it was sealed with.
    pub key_name: String,
    pub sealed: Vec<u8>,
    /// JSON.
    pub tools: String,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// A row of a server, sealed with a key of this name.
    pub(crate) fn new(
        tenant: &TenantId,
        server: &StoredToolServer,
        key_name: String,
        sealed: Vec<u8>,
    ) -> Result<Self> {
        ids::check("tenant", tenant.as_str())?;
        ids::check("MCP server", &server.id)?;
        let (name, name_folded) = ids::name("MCP server", &server.name)?;
        Ok(Self {
            id: server.id.clone(),
            tenant_id: tenant.as_str().to_owned(),
            name,
            name_folded,
            url: text(&server.url),
            transport: text(&server.transport),
            description: text(&server.description),
            key_name,
            sealed,
            tools: ids::json(&server.tools)?,
            created_ms: server.created_ms,
            updated_ms: server.updated_ms,
        })
    }

    /// The server, with what was sealed.
    pub(crate) fn into_server(self, sealed: Secret) -> Result<StoredToolServer> {
        let what = || format!("the MCP server `{}`", self.id);
        Ok(StoredToolServer {
            tools: ids::read_json(&self.tools, what)?,
            id: self.id,
            name: self.name,
            url: self.url,
            transport: self.transport,
            description: self.description,
            sealed,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

/// What became of a row that was to be written.
enum Put {
    Written,
    OfAnother,
    TooMany,
}

impl Store {
    async fn write_tool_server(&self, row: &Model) -> Result<Put, DbErr> {
        let transaction = self.begin().await?;
        let known = Entity::find_by_id(row.id.as_str()).one(&*transaction).await?;
        if known.as_ref().is_some_and(|known| known.tenant_id != row.tenant_id) {
            return Ok(Put::OfAnother);
        }
        match known {
            Some(_) => {
                Entity::update(row.clone().into_active_model().reset_all()).exec(&*transaction).await?;
            }
            None => {
                let of_tenant = Entity::find().filter(Column::TenantId.eq(row.tenant_id.as_str()));
                if of_tenant.count(&*transaction).await? >= SERVERS_MAX {
                    return Ok(Put::TooMany);
                }
                Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
            }
        }
        transaction.commit().await?;
        Ok(Put::Written)
    }

    pub(crate) async fn put_tool_server(&self, row: &Model) -> Result<()> {
        let conflict = |message: String| Err(Error::new(ErrorKind::Conflict, message));
        match repeated(|| self.write_tool_server(row)).await {
            Ok(Put::Written) => Ok(()),
            Ok(Put::OfAnother) => conflict(format!("the id `{}` is taken", row.id)),
            Ok(Put::TooMany) => {
                let message = format!("there are {SERVERS_MAX} MCP servers already");
                Err(Error::new(ErrorKind::QuotaExceeded, message).help("remove those that nothing uses"))
            }
            Err(error) if is_duplicate(&error) => {
                conflict(format!("another MCP server has the name `{}`", row.name))
            }
            Err(error) => Err(self.fail("store the MCP server", error)),
        }
    }

    pub(crate) async fn tool_servers_of(&self, tenant: &TenantId) -> Result<Vec<Model>> {
        let found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        let rows = found.order_by_asc(Column::NameFolded).all(&self.inner.read).await;
        rows.map_err(|error| self.fail("list the MCP servers", error))
    }

    pub(crate) async fn tool_server(&self, tenant: &TenantId, id: &str) -> Result<Model> {
        let found = Entity::find_by_id(text(id)).filter(Column::TenantId.eq(text(tenant.as_str())));
        let row = found.one(&self.inner.read).await;
        row.map_err(|error| self.fail("read the MCP server", error))?.ok_or_else(|| missing(id))
    }

    pub(crate) async fn remove_tool_server(&self, tenant: &TenantId, id: &str) -> Result<()> {
        let remove = async || {
            let _permit = self.inner.gate.permit().await;
            Entity::delete_many()
                .filter(Column::TenantId.eq(text(tenant.as_str())))
                .filter(Column::Id.eq(text(id)))
                .exec(&self.inner.write)
                .await
        };
        let removed = repeated(remove).await.map_err(|error| self.fail("remove the MCP server", error))?;
        if removed.rows_affected > 0 { Ok(()) } else { Err(missing(id)) }
    }
}
