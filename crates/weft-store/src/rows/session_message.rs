//! Messages of sessions. A message is identified by the revision that added it and its position in it, so adding one
//! does not require reading the existing ones.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func};
use sea_orm::{
    Condition, ConnectionTrait, DbBackend, FromQueryResult, IntoActiveModel, Order, QueryOrder, QuerySelect,
};
use weft_core::id::SessionKey;
use weft_core::seam::session_store::{HISTORY_BYTES_MAX, MessagePosition, SessionMessage, latest_within};
use weft_core::{RunId, value::Json};

use crate::batch::Batch;
use crate::ids::{bounded, count, text};
use crate::rows::{ROWS_AT_ONCE_MAX, behind};

/// Messages that a turn reads at a time. Nearly every turn reads fewer.
const SAID_AT_ONCE: u64 = 64;

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

/// The last messages of a session up to a revision, the latest first.
fn latest(key: &SessionKey, revision: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::TenantId.eq(text(key.tenant.as_str())))
        .filter(Column::SessionId.eq(text(key.id.as_str())))
        .filter(Column::Revision.lte(revision))
        .order_by(Column::Revision, Order::Desc)
        .order_by(Column::Position, Order::Desc)
}

/// All of the last messages of a session up to a revision, the latest first.
pub(crate) async fn last(
    db: &impl ConnectionTrait,
    key: &SessionKey,
    (revision, count_max): (i64, u64),
) -> Result<Vec<Model>, DbErr> {
    latest(key, revision).limit(bounded(count_max)).all(db).await
}

/// What a turn reads of a message.
#[derive(Debug, FromQueryResult)]
struct SaidRow {
    revision: i64,
    position: i64,
    role: String,
    content: String,
    run_id: Option<String>,
    created_ms: i64,
}

/// What a turn reads of the last messages of a session up to a revision, oldest first.
pub(crate) async fn history(
    db: &impl ConnectionTrait,
    key: &SessionKey,
    (revision, count_max): (i64, u64),
) -> Result<Vec<SessionMessage>, DbErr> {
    let mut said: Vec<SessionMessage> = Vec::new();
    let mut before: Option<(i64, i64)> = None;
    let mut bytes = 0;
    loop {
        let asked = Ord::min(SAID_AT_ONCE, count_max.saturating_sub(said.len() as u64));
        // The first condition allows the key to be used.
        let mut found = latest(key, before.map_or(revision, |(revision, _)| revision));
        if let Some((revision, position)) = before {
            let time = (Column::Revision, Order::Desc, revision);
            found = found.filter(behind(time, (Column::Position, Order::Desc, position)));
        }
        let rows: Vec<SaidRow> = found
            .select_only()
            .columns([Column::Revision, Column::Position, Column::Role, Column::Content])
            .columns([Column::RunId, Column::CreatedMs])
            .limit(bounded(asked))
            .into_model()
            .all(db)
            .await?;
        let is_last = (rows.len() as u64) < asked;
        for SaidRow { revision, position, role, content, run_id, created_ms } in rows {
            before = Some((revision, position));
            bytes += content.len();
            let run = run_id.map(RunId::from);
            let reference = Json::Null;
            said.push(SessionMessage { role, content, run, reference, created_ms, feedback: None });
        }
        if is_last || said.len() as u64 >= count_max || bytes > HISTORY_BYTES_MAX {
            said.reverse();
            return Ok(latest_within(HISTORY_BYTES_MAX, said));
        }
    }
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
