//! Memories of agents.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect};
use weft_core::id::{MemoryId, MemoryKey, TenantId};
use weft_core::seam::memory_store::{
    ExtractionOutcome, MEMORIES_MAX, Memory, MemoryMessage, MemorySettings, MemoryStore, MessageFilter,
    MessageStatus, NewMessage, TakenMessage, free_name, room,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use super::{ROWS_AT_ONCE_MAX, memory_message, tenant_lock};
use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, count, number, text};
use crate::open::repeated;
use crate::write_gate::WriteTransaction;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "memory")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// [`MemorySettings`] as JSON.
    pub settings: String,
    /// The number of the message that was added last, even if it has been removed.
    pub last_number: i64,
    pub used_bytes: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Why a change fails: a database error, or a refusal.
enum ChangeFailure {
    Database(DbErr),
    Refused(Error),
}

impl From<DbErr> for ChangeFailure {
    fn from(error: DbErr) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for ChangeFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

pub(crate) fn of(key: &MemoryKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

fn missing(key: &MemoryKey) -> Error {
    Error::not_found(format!("there is no memory `{}`", key.id))
}

fn written(settings: &MemorySettings) -> Result<String> {
    let settings = MemorySettings { name: text(&settings.name), ..settings.clone() };
    serde_json::to_string(&settings)
        .map_err(|cause| Error::internal("cannot write the settings of a memory").because(cause))
}

impl Model {
    fn settings(&self) -> Result<MemorySettings> {
        serde_json::from_str(&self.settings).map_err(|cause| {
            Error::new(ErrorKind::Garbled, format!("the memory `{}` is damaged", self.id)).because(cause)
        })
    }

    fn into_memory(self) -> Result<Memory> {
        Ok(Memory {
            settings: self.settings()?,
            key: MemoryKey::new(&TenantId::from(self.tenant_id), self.id),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

/// The memory, locked until the end of the transaction. In SQLite, a write transaction is already a lock.
async fn locked(db: &DatabaseTransaction, key: &MemoryKey) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(of(key)).lock_exclusive().one(db).await
}

async fn of_tenant(db: &impl ConnectionTrait, tenant: &TenantId) -> Result<Vec<Model>, DbErr> {
    let found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
    found.order_by_desc(Column::CreatedMs).order_by_desc(Column::Id).all(db).await
}

/// The name of a memory among the others of its tenant, made unique.
fn named(others: &[Model], own: &MemoryKey, wanted: &str) -> Result<String> {
    let others: Vec<String> = others
        .iter()
        .filter(|other| other.id != own.id.as_str())
        .map(|other| Ok(other.settings()?.name))
        .collect::<Result<_>>()?;
    Ok(free_name(wanted, &others))
}

/// Adds messages after the existing ones, replacing others when there is no room. `kept` stays.
async fn append(
    db: &DatabaseTransaction,
    memory: &Model,
    rows: Vec<memory_message::Model>,
    kept: Option<i64>,
) -> Result<(), ChangeFailure> {
    let key = MemoryKey::new(&TenantId::from(memory.tenant_id.clone()), memory.id.clone());
    let needed: u64 = rows.iter().map(|row| count(row.size)).sum();
    let size_max = memory.settings()?.size_max;
    let mut used = count(memory.used_bytes).saturating_add(needed);
    if used > size_max {
        let mut sizes = memory_message::sizes(db, &key).await?;
        let held: HashMap<i64, u64> = sizes.iter().map(|(number, size, _)| (*number, *size)).collect();
        // The kept message also takes up room.
        let fixed = kept.and_then(|kept| held.get(&kept)).copied().unwrap_or_default();
        sizes.retain(|(number, ..)| Some(*number) != kept);
        let gone = room(sizes, needed.saturating_add(fixed), size_max)?;
        for some in gone.chunks(ROWS_AT_ONCE_MAX) {
            memory_message::remove(db, &key, some).await?;
        }
        let freed: u64 = gone.iter().filter_map(|number| held.get(number)).sum();
        used = used.saturating_sub(freed);
    }
    let last = rows.iter().map(|row| row.number).max().unwrap_or(memory.last_number);
    for row in rows {
        memory_message::Entity::insert(row.into_active_model()).exec_without_returning(db).await?;
    }
    Entity::update_many()
        .col_expr(Column::LastNumber, Expr::value(last))
        .col_expr(Column::UsedBytes, Expr::value(number(used)))
        .filter(of(&key))
        .exec(db)
        .await?;
    Ok(())
}

/// Ends a transaction: a refused change leaves no trace.
async fn ended<T>(
    transaction: WriteTransaction,
    outcome: Result<T, ChangeFailure>,
) -> Result<Result<T>, DbErr> {
    match outcome {
        Ok(value) => transaction.commit().await.map(|()| Ok(value)),
        Err(ChangeFailure::Database(error)) => Err(error),
        Err(ChangeFailure::Refused(error)) => transaction.rollback().await.map(|()| Err(error)),
    }
}

/// Adds a memory under a unique name.
async fn create_in(db: &DatabaseTransaction, memory: &Memory) -> Result<Memory, ChangeFailure> {
    // Names are checked and counted before the memory is added.
    tenant_lock::hold(db, memory.key.tenant.as_str(), "memory").await?;
    let others = of_tenant(db, &memory.key.tenant).await?;
    if others.len() >= MEMORIES_MAX {
        let message = format!("there are {MEMORIES_MAX} memories already");
        return Err(Error::new(ErrorKind::QuotaExceeded, message).help("remove one first").into());
    }
    let name = named(&others, &memory.key, &memory.settings.name)?;
    let settings = MemorySettings { name, ..memory.settings.clone() };
    let row = Model {
        tenant_id: memory.key.tenant.as_str().to_owned(),
        id: memory.key.id.as_str().to_owned(),
        settings: written(&settings)?,
        last_number: 0,
        used_bytes: 0,
        created_ms: memory.created_ms,
        updated_ms: memory.updated_ms,
    };
    match Entity::insert(row.clone().into_active_model()).exec_without_returning(db).await {
        Err(error) if is_duplicate(&error) => {
            let message = format!("there is a memory `{}` already", memory.key.id);
            Err(Error::new(ErrorKind::Conflict, message).into())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(row.into_memory()?),
    }
}

/// Changes a memory if it is still as `seen`; `None` otherwise.
async fn change_in(
    db: &DatabaseTransaction,
    seen: &Memory,
    settings: &MemorySettings,
    now_ms: i64,
) -> Result<Option<Memory>, ChangeFailure> {
    let key = &seen.key;
    tenant_lock::hold(db, key.tenant.as_str(), "memory").await?;
    let Some(row) = locked(db, key).await? else { return Ok(None) };
    let before = row.settings()?;
    if before != seen.settings {
        return Ok(None);
    }
    // Vectors of two models cannot be compared, and notes of a removed type would still be found.
    let frozen = before.embedder != settings.embedder || before.types != settings.types;
    if frozen && !memory_message::sizes(db, key).await?.is_empty() {
        let message = "the embedder and the types of a memory with messages cannot be changed";
        return Err(Error::new(ErrorKind::Conflict, message).help("make another memory").into());
    }
    let name = named(&of_tenant(db, &key.tenant).await?, key, &settings.name)?;
    let settings = MemorySettings { name, ..settings.clone() };
    let row = Model { settings: written(&settings)?, updated_ms: now_ms, ..row };
    Entity::update_many()
        .col_expr(Column::Settings, Expr::value(row.settings.clone()))
        .col_expr(Column::UpdatedMs, Expr::value(now_ms))
        .filter(of(key))
        .exec(db)
        .await?;
    // A memory whose size limit is lowered drops the excess.
    append(db, &row, Vec::new(), None).await?;
    Ok(Some(row.into_memory()?))
}

/// Removes a memory with its messages.
async fn delete_in(db: &DatabaseTransaction, key: &MemoryKey) -> Result<(), ChangeFailure> {
    locked(db, key).await?.ok_or_else(|| missing(key))?;
    memory_message::remove_all(db, key).await?;
    Entity::delete_many().filter(of(key)).exec(db).await?;
    Ok(())
}

/// Removes the messages of a user from a memory.
async fn remove_of_user_in(
    db: &DatabaseTransaction,
    key: &MemoryKey,
    user: &str,
) -> Result<(), ChangeFailure> {
    // A memory that was just removed has no messages any more.
    let Some(memory) = locked(db, key).await? else { return Ok(()) };
    let freed = memory_message::remove_of_user(db, key, user).await?;
    Entity::update_many()
        .col_expr(Column::UsedBytes, Expr::value(number(count(memory.used_bytes).saturating_sub(freed))))
        .filter(of(key))
        .exec(db)
        .await?;
    Ok(())
}

/// Adds a message to be processed, unless it already exists.
async fn add_in(
    db: &DatabaseTransaction,
    key: &MemoryKey,
    origin: &[u8],
    message: &NewMessage,
    now_ms: i64,
) -> Result<i64, ChangeFailure> {
    let memory = locked(db, key).await?.ok_or_else(|| missing(key))?;
    // Repeated work of a run gets here a second time, with the same origin.
    if let Some(known) = memory_message::with_origin(db, key, origin).await? {
        return Ok(known);
    }
    let number = memory.last_number + 1;
    let mut row = memory_message::Model::new(key, number, None, message);
    (row.origin, row.due_ms) = (origin.to_vec(), Some(now_ms));
    append(db, &memory, vec![row], None).await?;
    Ok(number)
}

/// Records the outcome of processing a message.
async fn settle_in(
    db: &DatabaseTransaction,
    taken: &TakenMessage,
    outcome: &ExtractionOutcome,
) -> Result<(), ChangeFailure> {
    let (key, raw) = (&taken.memory, taken.message.number);
    let lost = || {
        let message = format!("message {raw} of the memory `{}` no longer belongs to this process", key.id);
        Error::new(ErrorKind::Conflict, message)
    };
    let memory = locked(db, key).await?.ok_or_else(lost)?;
    let grown = memory_message::settle(db, taken, outcome).await?.ok_or_else(lost)?;
    let used_bytes = memory.used_bytes.saturating_add(grown);
    let memory = Model { used_bytes, ..memory };
    let derived = match outcome {
        ExtractionOutcome::Done { derived, .. } => derived.as_slice(),
        ExtractionOutcome::RetryAt { .. } | ExtractionOutcome::Failed { .. } => &[],
    };
    let rows = derived.iter().zip(memory.last_number + 1..);
    let rows = rows.map(|(new, number)| memory_message::Model::new(key, number, Some(raw), new));
    // The message itself stays: those derived from it name it as their source.
    append(db, &memory, rows.collect(), Some(raw)).await
}

#[async_trait]
impl MemoryStore for Store {
    async fn create(&self, memory: &Memory) -> Result<Memory> {
        ids::check("tenant", memory.key.tenant.as_str())?;
        ids::check("memory", memory.key.id.as_str())?;
        let attempt = async || {
            let transaction = self.begin().await?;
            let outcome = create_in(&transaction.transaction, memory).await;
            ended(transaction, outcome).await
        };
        repeated(attempt).await.map_err(|error| self.fail("store the memory", error))?
    }

    async fn get(&self, key: &MemoryKey) -> Result<Memory> {
        let found = Entity::find().filter(of(key)).one(&self.inner.read).await;
        found.map_err(|error| self.fail("read the memory", error))?.ok_or_else(|| missing(key))?.into_memory()
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<Memory>> {
        let found = of_tenant(&self.inner.read, tenant).await;
        let rows = found.map_err(|error| self.fail("list the memories", error))?;
        rows.into_iter().map(Model::into_memory).collect()
    }

    async fn change(&self, seen: &Memory, settings: &MemorySettings, now_ms: i64) -> Result<Option<Memory>> {
        let attempt = async || {
            let transaction = self.begin().await?;
            let outcome = change_in(&transaction.transaction, seen, settings, now_ms).await;
            ended(transaction, outcome).await
        };
        repeated(attempt).await.map_err(|error| self.fail("change the memory", error))?
    }

    async fn delete(&self, key: &MemoryKey) -> Result<()> {
        let attempt = async || {
            let transaction = self.begin().await?;
            let outcome = delete_in(&transaction.transaction, key).await;
            ended(transaction, outcome).await
        };
        repeated(attempt).await.map_err(|error| self.fail("remove the memory", error))?
    }

    async fn add(&self, key: &MemoryKey, origin: &str, message: &NewMessage, now_ms: i64) -> Result<i64> {
        let origin = memory_message::origin(origin);
        let attempt = async || {
            let transaction = self.begin().await?;
            let outcome = add_in(&transaction.transaction, key, &origin, message, now_ms).await;
            ended(transaction, outcome).await
        };
        repeated(attempt).await.map_err(|error| self.fail("remember a message", error))?
    }

    async fn message(&self, key: &MemoryKey, number: i64) -> Result<MemoryMessage> {
        let found = memory_message::Entity::find().filter(memory_message::of(key, number));
        let found =
            found.one(&self.inner.read).await.map_err(|error| self.fail("read the message", error))?;
        Ok(found.ok_or_else(|| memory_message::missing(key, number))?.into_message())
    }

    async fn messages(&self, key: &MemoryKey, filter: &MessageFilter) -> Result<(Vec<MemoryMessage>, u64)> {
        let fail = |error| self.fail("list the messages", error);
        let mut found = memory_message::filtered(key, filter);
        let total = found.clone().count(&self.inner.read).await.map_err(fail)?;
        if let Some(number) = filter.after {
            found = found.filter(memory_message::Column::Number.lt(number));
        }
        let rows = found
            .order_by_desc(memory_message::Column::Number)
            .offset(bounded(filter.offset))
            .limit(bounded(filter.limit))
            .all(&self.inner.read)
            .await
            .map_err(fail)?;
        Ok((rows.into_iter().map(memory_message::Model::into_message).collect(), total))
    }

    async fn set_status(&self, key: &MemoryKey, number: i64, status: MessageStatus) -> Result<()> {
        let enabled = i64::from(status == MessageStatus::Enabled);
        self.set(key, number, memory_message::Column::Enabled, enabled).await
    }

    async fn forget(&self, key: &MemoryKey, number: i64, now_ms: i64) -> Result<()> {
        self.set(key, number, memory_message::Column::ForgottenMs, now_ms).await
    }

    async fn remove_of_user(&self, tenant: &TenantId, user: &str) -> Result<()> {
        const DOING: &str = "remove the messages of a user";
        let rows = of_tenant(&self.inner.read, tenant).await.map_err(|error| self.fail(DOING, error))?;
        // One memory at a time, so that no transaction has to lock all of them.
        for row in rows {
            let key = MemoryKey::new(tenant, row.id);
            let attempt = async || {
                let transaction = self.begin().await?;
                let outcome = remove_of_user_in(&transaction.transaction, &key, user).await;
                ended(transaction, outcome).await
            };
            repeated(attempt).await.map_err(|error| self.fail(DOING, error))??;
        }
        Ok(())
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenMessage>> {
        const DOING: &str = "take messages";
        // Read without a lock: a message is taken only if it is still as it was read here.
        let due = memory_message::due(&self.inner.read, now_ms, bounded(count_max)).await;
        let mut taken = Vec::new();
        for row in due.map_err(|error| self.fail(DOING, error))? {
            let _permit = self.inner.gate.permit().await;
            let take = async || memory_message::take(&self.inner.write, &row, until_ms).await;
            if repeated(take).await.map_err(|error| self.fail(DOING, error))? {
                let memory = MemoryKey::new(
                    &TenantId::from(row.tenant_id.clone()),
                    MemoryId::from(row.memory_id.clone()),
                );
                let attempts = u32::try_from(row.attempts + 1).unwrap_or(u32::MAX);
                taken.push(TakenMessage { memory, message: row.into_message(), attempts });
            }
        }
        Ok(taken)
    }

    async fn settle(&self, taken: &TakenMessage, outcome: &ExtractionOutcome) -> Result<()> {
        let attempt = async || {
            let transaction = self.begin().await?;
            let outcome = settle_in(&transaction.transaction, taken, outcome).await;
            ended(transaction, outcome).await
        };
        repeated(attempt).await.map_err(|error| self.fail("store the outcome of a message", error))?
    }
}

impl Store {
    /// Sets one column of a message, unless it was forgotten.
    async fn set(
        &self,
        key: &MemoryKey,
        number: i64,
        column: memory_message::Column,
        value: i64,
    ) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            memory_message::Entity::update_many()
                .col_expr(column, Expr::value(value))
                .filter(memory_message::of(key, number))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("change the message", error))?;
        if changed.rows_affected == 0 { Err(memory_message::missing(key, number)) } else { Ok(()) }
    }
}
