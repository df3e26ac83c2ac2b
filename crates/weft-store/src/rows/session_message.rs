//! Messages of sessions. A message is identified by the revision that added it and its position in it, so adding one
//! does not require reading the existing ones.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func};
use sea_orm::{Condition, ConnectionTrait, DbBackend, IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::id::SessionKey;
use weft_core::seam::session_store::{MessagePosition, SessionMessage};
use weft_core::{RunId, value::Json};

use crate::batch::Batch;
use crate::ids::{bounded, count, text};
use crate::rows::{ROWS_AT_ONCE_MAX, behind};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "session_message")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub session_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub revision: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i64,
    pub role: String,
    pub content: String,
    pub run_id: Option<String>,
    /// JSON.
    pub reference: String,
    pub created_ms: i64,
    /// JSON; present once a reader has given feedback.
    pub feedback: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    pub(crate) fn at(&self) -> MessagePosition {
        MessagePosition { revision: self.revision, place: self.position }
    }

    pub(crate) fn into_message(self) -> Result<SessionMessage, serde_json::Error> {
        Ok(SessionMessage {
            role: self.role,
            content: self.content,
            run: self.run_id.map(RunId::from),
            reference: serde_json::from_str::<Json>(&self.reference)?,
            created_ms: self.created_ms,
            feedback: self.feedback.as_deref().map(serde_json::from_str).transpose()?,
        })
    }
}

/// The messages of a run.
pub(crate) fn of_run(key: &SessionKey, run: &RunId) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::SessionId.eq(text(key.id.as_str())))
        .add(Column::RunId.eq(text(run.as_str())))
}

/// The messages after one, of those of its session.
pub(crate) fn after(at: MessagePosition) -> Condition {
    // The first condition allows the key to be used.
    Condition::all()
        .add(Column::Revision.gte(at.revision))
        .add(behind((Column::Revision, Order::Asc, at.revision), (Column::Position, Order::Asc, at.place)))
}

/// The sizes of the last messages of a session, the latest first, in characters.
pub(crate) async fn sizes(
    db: &impl ConnectionTrait,
    key: &SessionKey,
    count_max: u64,
) -> Result<Vec<u64>, DbErr> {
    // MariaDB has its own name for an integer in a cast.
    let whole = if db.get_database_backend() == DbBackend::MySql { "SIGNED" } else { "BIGINT" };
    let length = |column: Column| Expr::expr(Func::char_length(Expr::col(column)));
    let size = length(Column::Content).add(length(Column::Reference)).cast_as(whole);
    let sizes: Vec<i64> = Entity::find()
        .select_only()
        .column_as(size, "size")
        .filter(Column::TenantId.eq(text(key.tenant.as_str())))
        .filter(Column::SessionId.eq(text(key.id.as_str())))
        .order_by(Column::Revision, Order::Desc)
        .order_by(Column::Position, Order::Desc)
        .limit(bounded(count_max))
        .into_tuple()
        .all(db)
        .await?;
    Ok(sizes.into_iter().map(count).collect())
}

/// Adds the messages of a revision.
pub(crate) fn add(batch: &mut Batch, key: &SessionKey, revision: i64, messages: &[SessionMessage]) {
    let mut rows = messages.iter().zip(0_i64..).map(|(message, position)| {
        Model {
            tenant_id: key.tenant.as_str().to_owned(),
            session_id: key.id.as_str().to_owned(),
            revision,
            position,
            role: text(&message.role),
            content: text(&message.content),
            run_id: message.run.as_ref().map(|run| text(run.as_str())),
            reference: message.reference.to_string(),
            created_ms: message.created_ms,
            feedback: None,
        }
        .into_active_model()
    });
    loop {
        let some: Vec<_> = rows.by_ref().take(ROWS_AT_ONCE_MAX).collect();
        if some.is_empty() {
            return;
        }
        batch.then(&Entity::insert_many(some));
    }
}
