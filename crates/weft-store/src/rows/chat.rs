//! Chat assistants.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, IntoActiveModel, Order, QueryOrder};
use weft_core::id::{CanvasKey, TenantId};
use weft_core::quota::LimitedKind;
use weft_core::seam::ChatStore;
use weft_core::seam::chat_store::{Chat, ChatFilter, ChatKind, ChatOrder};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, containing, fold, text};
use crate::open::repeated;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "chat")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// [`ChatKind::as_str`].
    pub kind: String,
    pub name: String,
    /// The name in lower case: unique within the tenant and the kind, and searched for keywords.
    pub name_folded: String,
    /// [`weft_core::seam::chat_store::ChatSettings`] as JSON.
    pub settings: String,
    pub revision: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

fn of(key: &CanvasKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

fn missing(key: &CanvasKey) -> Error {
    Error::not_found(format!("there is no chat assistant `{}`", key.id))
}

fn taken(chat: &Chat) -> Error {
    let message =
        format!("there is a chat assistant `{}` already, or one named `{}`", chat.key.id, chat.name);
    Error::new(ErrorKind::Conflict, message).help("choose another name; case makes no difference")
}

impl Model {
    fn new(chat: &Chat) -> Result<Self> {
        ids::check("tenant", chat.key.tenant.as_str())?;
        ids::check("chat assistant", chat.key.id.as_str())?;
        let (name, name_folded) = ids::name("chat assistant", &chat.name)?;
        Ok(Self {
            tenant_id: chat.key.tenant.as_str().to_owned(),
            id: chat.key.id.as_str().to_owned(),
            kind: chat.kind.as_str().to_owned(),
            name,
            name_folded,
            settings: ids::json(&chat.settings)?,
            revision: chat.revision,
            created_ms: chat.created_ms,
            updated_ms: chat.updated_ms,
        })
    }

    fn into_chat(self) -> Result<Chat> {
        Ok(Chat {
            kind: match self.kind.as_str() {
                "search" => ChatKind::Search,
                _ => ChatKind::Assistant,
            },
            settings: ids::read_json(&self.settings, || format!("the chat assistant `{}`", self.id))?,
            key: CanvasKey::new(&TenantId::from(self.tenant_id), self.id),
            name: self.name,
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

#[async_trait]
impl ChatStore for Store {
    async fn create(&self, chat: &Chat) -> Result<()> {
        let row = Model::new(chat)?;
        let others = Entity::find().filter(Column::TenantId.eq(&row.tenant_id));
        let insert = || {
            let (tenant, row) = (&row.tenant_id, row.clone().into_active_model());
            self.insert_limited(LimitedKind::Chats, tenant, row, others.clone())
        };
        match repeated(insert).await {
            Ok(outcome) => outcome,
            Err(error) if is_duplicate(&error) => Err(taken(chat)),
            Err(error) => Err(self.fail("store the chat assistant", error)),
        }
    }

    async fn get(&self, key: &CanvasKey) -> Result<Chat> {
        let found = Entity::find().filter(of(key)).one(&self.inner.read).await;
        let row = found.map_err(|error| self.fail("read the chat assistant", error))?;
        row.ok_or_else(|| missing(key))?.into_chat()
    }

    async fn change(&self, chat: &Chat, now_ms: i64) -> Result<Option<Chat>> {
        let row = Model::new(chat)?;
        // Revisions are only compared for equality, so this one may wrap.
        let next = chat.revision.wrapping_add(1);
        let change = Entity::update_many()
            .col_expr(Column::Name, Expr::value(row.name.as_str()))
            .col_expr(Column::NameFolded, Expr::value(row.name_folded.as_str()))
            .col_expr(Column::Settings, Expr::value(row.settings.as_str()))
            .col_expr(Column::Revision, Expr::value(next))
            .col_expr(Column::UpdatedMs, Expr::value(now_ms))
            .filter(of(&chat.key))
            // A concurrent change has incremented the revision; it must not be overwritten.
            .filter(Column::Revision.eq(chat.revision));
        let _permit = self.inner.gate.permit().await;
        let changed = repeated(|| change.clone().exec(&self.inner.write)).await;
        let changed = changed.map_err(|error| {
            if is_duplicate(&error) { taken(chat) } else { self.fail("change the chat assistant", error) }
        })?;
        let changed = changed.rows_affected > 0;
        let row = Model { revision: next, updated_ms: now_ms, ..row };
        changed.then(|| row.into_chat()).transpose()
    }

    async fn list(&self, tenant: &TenantId, filter: &ChatFilter) -> Result<(Vec<Chat>, u64)> {
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(id) = &filter.id {
            found = found.filter(Column::Id.eq(text(id.as_str())));
        }
        if let Some(kind) = filter.kind {
            found = found.filter(Column::Kind.eq(kind.as_str()));
        }
        if let Some(name) = &filter.name {
            found = found.filter(Column::NameFolded.eq(fold(name)));
        }
        if !filter.keywords.is_empty() {
            found = found.filter(Column::NameFolded.like(containing(&filter.keywords)));
        }
        let order = if filter.ascending { Order::Asc } else { Order::Desc };
        let by = match filter.order {
            ChatOrder::Created => Column::CreatedMs,
            ChatOrder::Updated => Column::UpdatedMs,
            ChatOrder::Name => Column::NameFolded,
        };
        let found = found.order_by(by, order.clone()).order_by(Column::Id, order);
        let page = self.inner.read.page(found, filter.offset, filter.limit).await;
        let (rows, total) = page.map_err(|error| self.fail("list the chat assistants", error))?;
        Ok((rows.into_iter().map(Model::into_chat).collect::<Result<_>>()?, total))
    }

    async fn delete(&self, key: &CanvasKey) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let gone = repeated(|| Entity::delete_many().filter(of(key)).exec(&self.inner.write)).await;
        let gone = gone.map_err(|error| self.fail("remove the chat assistant", error))?;
        if gone.rows_affected == 0 { Err(missing(key)) } else { Ok(()) }
    }
}
