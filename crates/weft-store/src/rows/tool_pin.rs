//! Accepted definitions of tools.

use std::collections::BTreeMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{IntoActiveModel, QueryOrder};
use weft_core::seam::tool_source::{PinStore, ToolPin};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::ids::{self, text};
use crate::open::repeated;
use crate::rows::ROWS_AT_ONCE_MAX;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tool_pin")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub server: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub tool: String,
    /// JSON.
    pub definition: String,
    pub accepted_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    fn new(pin: &ToolPin) -> Result<Self> {
        ids::check("MCP server", &pin.server)?;
        ids::check("tool", &pin.tool)?;
        Ok(Self {
            server: pin.server.clone(),
            tool: pin.tool.clone(),
            definition: pin.definition.to_string(),
            accepted_ms: pin.accepted_ms,
        })
    }

    fn into_pin(self) -> Result<ToolPin> {
        let definition = serde_json::from_str(&self.definition).map_err(|cause| {
            let message = format!("the definition of `{}` of `{}` is damaged", self.tool, self.server);
            Error::new(ErrorKind::Garbled, message).because(cause)
        })?;
        Ok(ToolPin { server: self.server, tool: self.tool, definition, accepted_ms: self.accepted_ms })
    }
}

impl Store {
    async fn put_pins(&self, rows: &[Model]) -> Result<(), DbErr> {
        let transaction = self.begin().await?;
        for some in rows.chunks(ROWS_AT_ONCE_MAX) {
            let replacing = OnConflict::columns([Column::Server, Column::Tool])
                .update_columns([Column::Definition, Column::AcceptedMs])
                .to_owned();
            Entity::insert_many(some.iter().cloned().map(IntoActiveModel::into_active_model))
                .on_conflict(replacing)
                .exec_without_returning(&*transaction)
                .await?;
        }
        transaction.commit().await
    }
}

#[async_trait]
impl PinStore for Store {
    async fn pins(&self, server: &str) -> Result<Vec<ToolPin>> {
        let rows = Entity::find()
            .filter(Column::Server.eq(text(server)))
            .order_by_asc(Column::Tool)
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the accepted tools", error))?;
        rows.into_iter().map(Model::into_pin).collect()
    }

    async fn accept(&self, pins: &[ToolPin]) -> Result<()> {
        // One statement must not name a row twice; the last one counts. The order keeps two writers from deadlocking.
        let rows: BTreeMap<_, _> = pins
            .iter()
            .map(|pin| Ok(((pin.server.clone(), pin.tool.clone()), Model::new(pin)?)))
            .collect::<Result<_>>()?;
        let rows: Vec<_> = rows.into_values().collect();
        if rows.is_empty() {
            return Ok(());
        }
        repeated(|| self.put_pins(&rows)).await.map_err(|error| self.fail("accept the tools", error))
    }
}
