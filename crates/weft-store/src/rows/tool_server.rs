//! MCP servers of tenants. Sealed data is ciphertext; see [`crate::Vault`].

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
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
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub tenant_id: String,
    pub name: String,
    /// The name in lower case: unique within the tenant.
    pub name_folded: String,
    pub url: String,
    pub transport: String,
    pub description: String,
    /// The name of the key that encrypted it.
    pub key_name: String,
    pub sealed: Vec<u8>,
    /// JSON.
    pub tools: String,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub revision: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn id_taken(id: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the id `{id}` is taken"))
}

fn name_taken(name: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another MCP server has the name `{name}`"))
}

impl Model {
    /// A row of a server, encrypted with the key of this name.
    pub(crate) fn new(
        tenant: &TenantId,
        server: &StoredToolServer,
        key_name: String,
        sealed: Vec<u8>,
    ) -> Result<Self> {
        server.check_size()?;
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
            revision: server.revision,
        })
    }

    /// The server, with its decrypted data.
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
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

impl Store {
    pub(crate) async fn add_tool_server(&self, row: &Model) -> Result<()> {
        const DOING: &str = "store the MCP server";
        let others = Entity::find().filter(Column::TenantId.eq(row.tenant_id.as_str()));
        let insert = || {
            self.insert_within(&row.tenant_id, row.clone().into_active_model(), others.clone(), SERVERS_MAX)
        };
        match repeated(insert).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let message = format!("there are {SERVERS_MAX} MCP servers already");
                Err(Error::new(ErrorKind::QuotaExceeded, message).help("remove those that nothing uses"))
            }
            Err(error) if is_duplicate(&error) => {
                // Two of its columns are unique, and databases differ in how they report which one is taken.
                let same = Entity::find_by_id(row.id.as_str()).one(&self.inner.write).await;
                let same = same.map_err(|error| self.fail(DOING, error))?;
                Err(if same.is_some() { id_taken(&row.id) } else { name_taken(&row.name) })
            }
            Err(error) => Err(self.fail(DOING, error)),
        }
    }

    /// Replaces a row that is still at its revision. Returns whether it was.
    pub(crate) async fn change_tool_server(&self, row: &Model) -> Result<bool> {
        let change = Entity::update_many()
            .col_expr(Column::Name, Expr::value(row.name.as_str()))
            .col_expr(Column::NameFolded, Expr::value(row.name_folded.as_str()))
            .col_expr(Column::Url, Expr::value(row.url.as_str()))
            .col_expr(Column::Transport, Expr::value(row.transport.as_str()))
            .col_expr(Column::Description, Expr::value(row.description.as_str()))
            .col_expr(Column::KeyName, Expr::value(row.key_name.as_str()))
            .col_expr(Column::Sealed, Expr::value(row.sealed.clone()))
            .col_expr(Column::Tools, Expr::value(row.tools.as_str()))
            .col_expr(Column::UpdatedMs, Expr::value(row.updated_ms))
            .col_expr(Column::Revision, Expr::value(row.revision.wrapping_add(1)))
            .filter(Column::TenantId.eq(row.tenant_id.as_str()))
            .filter(Column::Id.eq(row.id.as_str()))
            // A concurrent change has incremented the revision; it must not be overwritten.
            .filter(Column::Revision.eq(row.revision));
        let _permit = self.inner.gate.permit().await;
        match repeated(|| change.clone().exec(&self.inner.write)).await {
            Ok(changed) => Ok(changed.rows_affected > 0),
            Err(error) if is_duplicate(&error) => Err(name_taken(&row.name)),
            Err(error) => Err(self.fail("change the MCP server", error)),
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
