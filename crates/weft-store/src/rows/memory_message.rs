//! Messages of memories.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{Condition, DatabaseTransaction, QueryOrder, QuerySelect};
use weft_core::Error;
use weft_core::id::MemoryKey;
use weft_core::seam::memory_store::{
    Extraction, ExtractionOutcome, MemoryMessage, MessageFilter, MessageSize, MessageType, NewMessage,
    TakenMessage,
};

use crate::ids::{count, number, text};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "memory_message")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub memory_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
    /// A hash of its origin; empty for derived messages.
    #[sea_orm(column_type = "VarBinary(StringLen::N(32))")]
    pub origin: Vec<u8>,
    /// [`MessageType::bit`].
    pub kind: i64,
    /// The message it was derived from; 0 if none.
    pub source: i64,
    pub user_id: String,
    pub agent_id: String,
    pub session_id: String,
    pub content: String,
    /// The numbers in sequence, little-endian.
    #[sea_orm(column_type = "Blob")]
    pub vector: Vec<u8>,
    pub size: i64,
    pub valid_ms: i64,
    pub invalid_ms: Option<i64>,
    pub forgotten_ms: Option<i64>,
    pub enabled: i64,
    /// When its extraction is due; absent when there is nothing to do.
    pub due_ms: Option<i64>,
    pub attempts: i64,
    pub problem: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The origin of a message, in 32 bytes.
pub(crate) fn origin(text: &str) -> Vec<u8> {
    blake3::hash(text.as_bytes()).as_bytes().to_vec()
}

pub(crate) fn missing(key: &MemoryKey, number: i64) -> Error {
    Error::not_found(format!("there is no message {number} in the memory `{}`", key.id))
}

fn of_memory(key: &MemoryKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::MemoryId.eq(text(key.id.as_str())))
}

/// A message, unless it was forgotten.
pub(crate) fn of(key: &MemoryKey, number: i64) -> Condition {
    of_memory(key).add(Column::Number.eq(number)).add(Column::ForgottenMs.is_null())
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

impl Model {
    /// A message whose extraction is complete.
    pub(crate) fn new(key: &MemoryKey, place: i64, source: Option<i64>, message: &NewMessage) -> Self {
        Self {
            tenant_id: key.tenant.as_str().to_owned(),
            memory_id: key.id.as_str().to_owned(),
            number: place,
            origin: Vec::new(),
            kind: message.kind.bit(),
            source: source.unwrap_or_default(),
            user_id: text(&message.user),
            agent_id: text(&message.agent),
            session_id: text(&message.session),
            content: text(&message.content),
            vector: bytes(&message.vector),
            size: number(message.size()),
            valid_ms: message.valid_ms,
            invalid_ms: message.invalid_ms,
            forgotten_ms: None,
            enabled: 1,
            due_ms: None,
            attempts: 0,
            problem: String::new(),
        }
    }

    pub(crate) fn into_message(self) -> MemoryMessage {
        let extraction = match (self.due_ms, self.problem) {
            (Some(_), problem) => Extraction::Pending { problem },
            (None, problem) if problem.is_empty() => Extraction::Done,
            (None, problem) => Extraction::Failed(problem),
        };
        let kind = MessageType::ALL.into_iter().find(|kind| kind.bit() == self.kind);
        MemoryMessage {
            number: self.number,
            message: NewMessage {
                kind: kind.unwrap_or(MessageType::Raw),
                user: self.user_id,
                agent: self.agent_id,
                session: self.session_id,
                content: self.content,
                vector: numbers(&self.vector),
                valid_ms: self.valid_ms,
                invalid_ms: self.invalid_ms,
            },
            source: (self.source > 0).then_some(self.source),
            forgotten_ms: self.forgotten_ms,
            enabled: self.enabled != 0,
            extraction,
        }
    }
}

/// The size of each message of a memory.
pub(crate) async fn sizes(db: &DatabaseTransaction, key: &MemoryKey) -> Result<Vec<MessageSize>, DbErr> {
    let rows: Vec<(i64, i64, Option<i64>)> = Entity::find()
        .select_only()
        .columns([Column::Number, Column::Size, Column::ForgottenMs])
        .filter(of_memory(key))
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().map(|(number, size, forgotten)| (number, count(size), forgotten.is_some())).collect())
}

/// Removes messages.
pub(crate) async fn remove(db: &DatabaseTransaction, key: &MemoryKey, numbers: &[i64]) -> Result<(), DbErr> {
    let some = of_memory(key).add(Column::Number.is_in(numbers.iter().copied()));
    Entity::delete_many().filter(some).exec(db).await.map(drop)
}

/// Removes the messages of a memory.
pub(crate) async fn remove_all(db: &DatabaseTransaction, key: &MemoryKey) -> Result<(), DbErr> {
    Entity::delete_many().filter(of_memory(key)).exec(db).await.map(drop)
}

/// Removes the messages of a user, forgotten ones included. Returns the bytes that they took.
pub(crate) async fn remove_of_user(
    db: &DatabaseTransaction,
    key: &MemoryKey,
    user: &str,
) -> Result<u64, DbErr> {
    let theirs = of_memory(key).add(Column::UserId.eq(text(user)));
    let sizes: Vec<i64> =
        Entity::find().select_only().column(Column::Size).filter(theirs.clone()).into_tuple().all(db).await?;
    Entity::delete_many().filter(theirs).exec(db).await?;
    Ok(sizes.into_iter().map(count).sum())
}

/// The message with this origin.
pub(crate) async fn with_origin(
    db: &DatabaseTransaction,
    key: &MemoryKey,
    origin: &[u8],
) -> Result<Option<i64>, DbErr> {
    let from = of_memory(key).add(Column::Origin.eq(origin));
    Entity::find().select_only().column(Column::Number).filter(from).into_tuple().one(db).await
}

/// The messages selected by a filter.
pub(crate) fn filtered(key: &MemoryKey, filter: &MessageFilter) -> Select<Entity> {
    let mut all = of_memory(key).add(Column::ForgottenMs.is_null());
    if let Some(kind) = filter.kind {
        all = all.add(Column::Kind.eq(kind.bit()));
    }
    if let Some(sources) = &filter.sources {
        all = all.add(Column::Source.is_in(sources.iter().copied()));
    }
    if !filter.agents.is_empty() {
        all = all.add(Column::AgentId.is_in(filter.agents.iter().map(|agent| text(agent))));
    }
    if let Some(session) = &filter.session {
        all = all.add(Column::SessionId.eq(text(session)));
    }
    if let Some(held) = filter.session_holds.as_ref().filter(|held| !held.is_empty()) {
        let folded = Expr::expr(Func::lower(Expr::col(Column::SessionId)));
        all = all.add(folded.like(crate::ids::containing(held)));
    }
    if let Some(user) = &filter.user {
        all = all.add(Column::UserId.eq(text(user)));
    }
    if filter.found_only {
        all = all.add(Column::Enabled.eq(1));
    }
    Entity::find().filter(all)
}

/// The messages whose extraction is due, the longest waiting first.
pub(crate) async fn due(db: &impl ConnectionTrait, now_ms: i64, count_max: u64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::DueMs.lte(now_ms))
        .order_by_asc(Column::DueMs)
        .order_by_asc(Column::MemoryId)
        .order_by_asc(Column::Number)
        .limit(count_max)
        .all(db)
        .await
}

fn row_of(row: &Model) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(&row.tenant_id))
        .add(Column::MemoryId.eq(&row.memory_id))
        .add(Column::Number.eq(row.number))
}

/// Takes a message if it is still as `seen`. Returns whether it was.
pub(crate) async fn take(db: &impl ConnectionTrait, seen: &Model, until_ms: i64) -> Result<bool, DbErr> {
    // Several processes may have read the same row; only one of them finds it unchanged.
    let taken = Entity::update_many()
        .col_expr(Column::DueMs, Expr::value(until_ms))
        .col_expr(Column::Attempts, Expr::value(seen.attempts + 1))
        .filter(row_of(seen).add(Column::Attempts.eq(seen.attempts)).add(Column::DueMs.eq(seen.due_ms)))
        .exec(db)
        .await?;
    Ok(taken.rows_affected > 0)
}

/// Records the outcome of a message's extraction. Returns by how many bytes the message has grown; `None` when
/// another process has taken it since.
pub(crate) async fn settle(
    db: &DatabaseTransaction,
    taken: &TakenMessage,
    outcome: &ExtractionOutcome,
) -> Result<Option<i64>, DbErr> {
    let mut grown = 0;
    let mut change = Entity::update_many();
    let (due, problem) = match outcome {
        ExtractionOutcome::Done { vector, .. } | ExtractionOutcome::Failed { vector, .. } => {
            let new = NewMessage { vector: vector.clone(), ..taken.message.message.clone() };
            grown = number(new.size()) - number(taken.message.message.size());
            change = change
                .col_expr(Column::Vector, Expr::value(bytes(vector)))
                .col_expr(Column::Size, Expr::value(number(new.size())));
            (
                None,
                match outcome {
                    ExtractionOutcome::Failed { problem, .. } => problem.as_str(),
                    ExtractionOutcome::Done { .. } | ExtractionOutcome::RetryAt { .. } => "",
                },
            )
        }
        ExtractionOutcome::RetryAt { from_ms, problem } => (Some(*from_ms), problem.as_str()),
    };
    // A process that took too long finds a different number of attempts and overwrites nothing newer.
    let mine = of_memory(&taken.memory)
        .add(Column::Number.eq(taken.message.number))
        .add(Column::Attempts.eq(i64::from(taken.attempts)))
        .add(Column::DueMs.is_not_null());
    let changed = change
        .col_expr(Column::DueMs, Expr::value(due))
        .col_expr(Column::Problem, Expr::value(text(problem)))
        .filter(mine)
        .exec(db)
        .await?;
    Ok((changed.rows_affected > 0).then_some(grown))
}
