//! Folders and files of the file manager. Writers lock the root of a tenant's tree first, so that changes are
//! serialized.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, DatabaseTransaction, IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::id::TenantId;
use weft_core::seam::FolderStore;
use weft_core::seam::folder_store::{
    EntryChange, EntryFilter, EntryKind, EntryOrder, FolderEntry, FolderLimits, ROOT_NAME, below_itself,
    missing, no_folder, not_empty, root_stays, taken,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, containing, count, fold, number, text};
use crate::open::repeated;
use crate::rows::folder_walk::{by_size, height, sizes};
use crate::rows::{ROWS_AT_ONCE_MAX, sum};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "folder_entry")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Empty for the root. Unique together with the name, so that there is only one root.
    pub parent_id: String,
    pub name: String,
    pub name_folded: String,
    pub kind: String,
    pub size: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Maximum number of folders from an entry to the root, whatever the limits were in the past.
pub(super) const PATH_MAX: usize = 1_000;

pub(super) const FOLDER: &str = "folder";
pub(super) const ARRIVING: &str = "arriving";

fn word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Folder => FOLDER,
        EntryKind::File => "file",
        EntryKind::Arriving => ARRIVING,
    }
}

impl From<Model> for FolderEntry {
    fn from(row: Model) -> Self {
        Self {
            kind: match row.kind.as_str() {
                FOLDER => EntryKind::Folder,
                ARRIVING => EntryKind::Arriving,
                _ => EntryKind::File,
            },
            id: row.id,
            parent: row.parent_id,
            name: row.name,
            size: count(row.size),
            created_ms: row.created_ms,
            updated_ms: row.updated_ms,
        }
    }
}

impl Model {
    fn new(tenant: &TenantId, entry: &FolderEntry) -> Result<Self> {
        ids::check("tenant", tenant.as_str())?;
        ids::check("file", &entry.id)?;
        ids::fits("folder", &entry.parent)?;
        let (name, name_folded) = ids::name("file", &entry.name)?;
        Ok(Self {
            tenant_id: tenant.as_str().to_owned(),
            id: entry.id.clone(),
            parent_id: entry.parent.clone(),
            name,
            name_folded,
            kind: word(entry.kind).to_owned(),
            size: number(entry.size),
            created_ms: entry.created_ms,
            updated_ms: entry.updated_ms,
        })
    }
}

/// The trees of all tenants, with limits.
#[derive(Clone)]
pub struct Folders {
    store: Store,
    limits: FolderLimits,
}

impl std::fmt::Debug for Folders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folders").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The outcome of an attempt; the inner error is a refusal.
type Attempt<T> = std::result::Result<Result<T>, DbErr>;

/// Unwraps a success, and returns from the attempt with a refusal.
macro_rules! granted {
    ($outcome:expr) => {
        match $outcome {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

pub(super) fn of(tenant: &str) -> Select<Entity> {
    Entity::find().filter(Column::TenantId.eq(tenant))
}

fn in_folder(tenant: &str, folder: &str) -> Select<Entity> {
    of(tenant).filter(Column::ParentId.eq(folder))
}

async fn one(db: &impl ConnectionTrait, tenant: &str, id: &str) -> Result<Option<Model>, DbErr> {
    of(tenant).filter(Column::Id.eq(id)).one(db).await
}

/// The root, locked so that no other writer changes anything below it until the transaction ends.
async fn locked_root(transaction: &DatabaseTransaction, tenant: &str) -> Result<Option<Model>, DbErr> {
    in_folder(tenant, "").lock_exclusive().one(transaction).await
}

/// The folder with this id.
async fn folder(db: &impl ConnectionTrait, tenant: &str, id: &str) -> Attempt<Model> {
    Ok(match one(db, tenant, id).await? {
        None => Err(missing(id)),
        Some(row) if row.kind != FOLDER => Err(no_folder(id)),
        Some(row) => Ok(row),
    })
}

/// An entry and its ancestors, the root last.
async fn path(db: &impl ConnectionTrait, tenant: &str, id: &str) -> Attempt<Vec<Model>> {
    let mut path: Vec<Model> = Vec::new();
    let mut next = id.to_owned();
    while !next.is_empty() {
        let row = granted!(one(db, tenant, &next).await?.ok_or_else(|| missing(&next)));
        // Writers cannot make a circle, because they lock the root, but a damaged table may contain one.
        if path.len() >= PATH_MAX {
            return Ok(Err(Error::new(ErrorKind::Garbled, "a folder is stored below itself")));
        }
        next.clone_from(&row.parent_id);
        path.push(row);
    }
    Ok(Ok(path))
}

/// The total size of all files.
async fn bytes(db: &impl ConnectionTrait, tenant: &str) -> Result<u64, DbErr> {
    let sum = sum(db.get_database_backend(), Column::Size);
    let sum: Option<Option<i64>> =
        of(tenant).select_only().column_as(sum, "bytes").into_tuple().one(db).await?;
    Ok(count(sum.flatten().unwrap_or_default()))
}

impl Folders {
    /// The trees in `store`, with `limits`.
    pub fn new(store: &Store, limits: FolderLimits) -> Self {
        Self { store: store.clone(), limits }
    }

    fn done<T>(&self, doing: &str, outcome: Attempt<T>) -> Result<T> {
        outcome.map_err(|error| self.store.fail(doing, error))?
    }

    /// Same as [`Self::done`], where the only possible duplicate is an entry with this name.
    fn unless_taken<T>(&self, doing: &str, name: &str, outcome: Attempt<T>) -> Result<T> {
        match outcome {
            Err(error) if is_duplicate(&error) => Err(taken(name)),
            outcome => self.done(doing, outcome),
        }
    }

    async fn insert_root(&self, row: &Model) -> Result<(), DbErr> {
        let _permit = self.store.inner.gate.permit().await;
        Entity::insert(row.clone().into_active_model())
            .exec_without_returning(&self.store.inner.write)
            .await
            .map(drop)
    }

    async fn insert(&self, row: &Model) -> Attempt<()> {
        let tenant = row.tenant_id.as_str();
        let transaction = self.store.begin().await?;
        let root = locked_root(&transaction, tenant).await?;
        granted!(root.ok_or_else(|| missing(&row.parent_id)));
        granted!(folder(&*transaction, tenant, &row.parent_id).await?);
        let above = granted!(path(&*transaction, tenant, &row.parent_id).await?);
        granted!(self.limits.deep_enough(above.len() as u64));
        let beside = in_folder(tenant, &row.parent_id).count(&*transaction).await?;
        granted!(self.limits.room_in_folder(beside));
        // The root is also a row, but is not counted as an entry.
        let entries = of(tenant).count(&*transaction).await?.saturating_sub(1);
        let taken = bytes(&*transaction, tenant).await?;
        granted!(self.limits.room_for(entries, taken, count(row.size)));
        Entity::insert(row.clone().into_active_model()).exec_without_returning(&*transaction).await?;
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// Checks whether an entry may be moved into a folder.
    async fn check_move(&self, transaction: &DatabaseTransaction, row: &Model, into: &str) -> Attempt<()> {
        let tenant = row.tenant_id.as_str();
        granted!(folder(transaction, tenant, into).await?);
        let above = granted!(path(transaction, tenant, into).await?);
        if above.iter().any(|folder| folder.id == row.id) {
            return Ok(Err(below_itself(&row.name)));
        }
        let depth = above.len() as u64;
        // The entry itself may be at the maximum depth, so one more level matters.
        let most = self.limits.depth.saturating_add(1).saturating_sub(depth);
        let height = height(transaction, row, most).await?;
        granted!(self.limits.deep_enough(depth + height - 1));
        let beside = in_folder(tenant, into).count(transaction).await?;
        granted!(self.limits.room_in_folder(beside));
        Ok(Ok(()))
    }

    async fn update(&self, key: (&str, &str), change: &EntryChange, now_ms: i64) -> Attempt<FolderEntry> {
        let (tenant, id) = key;
        let transaction = self.store.begin().await?;
        granted!(locked_root(&transaction, tenant).await?.ok_or_else(|| missing(id)));
        let mut row = granted!(one(&*transaction, tenant, id).await?.ok_or_else(|| missing(id)));
        if row.parent_id.is_empty() {
            return Ok(Err(root_stays()));
        }
        if let Some(into) = change.parent.as_ref().filter(|into| **into != row.parent_id) {
            granted!(self.check_move(&transaction, &row, into).await?);
            row.parent_id.clone_from(into);
        }
        if let Some(name) = &change.name {
            (row.name, row.name_folded) = granted!(ids::name("file", name));
        }
        row.updated_ms = now_ms;
        // Of a row that was read, no column counts as changed until it is marked so.
        Entity::update(row.clone().into_active_model().reset_all()).exec(&*transaction).await?;
        transaction.commit().await?;
        Ok(Ok(row.into()))
    }

    async fn delete(&self, tenant: &str, ids: &[String]) -> Attempt<u64> {
        let transaction = self.store.begin().await?;
        let Some(root) = locked_root(&transaction, tenant).await? else { return Ok(Ok(0)) };
        if ids.contains(&root.id) {
            return Ok(Err(root_stays()));
        }
        let mut removed = 0;
        for some in ids.chunks(ROWS_AT_ONCE_MAX) {
            let some = || some.iter().map(String::as_str);
            let inside = of(tenant).filter(Column::ParentId.is_in(some()));
            if inside
                // What is removed together with its folder does not keep the folder.
                .filter(Column::Id.is_not_in(ids.iter().map(String::as_str)))
                .one(&*transaction)
                .await?
                .is_some()
            {
                return Ok(Err(not_empty()));
            }
            let these =
                Entity::delete_many().filter(Column::TenantId.eq(tenant)).filter(Column::Id.is_in(some()));
            removed += these.exec(&*transaction).await?.rows_affected;
        }
        transaction.commit().await?;
        Ok(Ok(removed))
    }
}

/// The query of a list: conditions and order.
fn filtered(tenant: &str, filter: &EntryFilter) -> Select<Entity> {
    let mut found = in_folder(tenant, &text(&filter.folder));
    if !filter.keywords.is_empty() {
        found = found.filter(Column::NameFolded.like(containing(&filter.keywords)));
    }
    found = found.filter(match filter.kind {
        Some(kind) => Column::Kind.eq(word(kind)),
        None => Column::Kind.ne(ARRIVING),
    });
    let by = match filter.order {
        EntryOrder::Created => Column::CreatedMs,
        EntryOrder::Updated => Column::UpdatedMs,
        EntryOrder::Name => Column::NameFolded,
        EntryOrder::Size => Column::Size,
    };
    let order = if filter.ascending { Order::Asc } else { Order::Desc };
    found.order_by(by, order.clone()).order_by(Column::Id, order)
}

#[async_trait]
impl FolderStore for Folders {
    async fn root(&self, tenant: &TenantId, now_ms: i64) -> Result<FolderEntry> {
        let doing = "find the root folder";
        let find = || async {
            let root = in_folder(&text(tenant.as_str()), "").one(&self.store.inner.read).await;
            root.map_err(|error| self.store.fail(doing, error))
        };
        if let Some(root) = find().await? {
            return Ok(root.into());
        }
        let made = FolderEntry {
            id: weft_core::id::generate(),
            parent: String::new(),
            name: ROOT_NAME.to_owned(),
            kind: EntryKind::Folder,
            size: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        let row = Model::new(tenant, &made)?;
        match repeated(|| self.insert_root(&row)).await {
            Ok(()) => Ok(made),
            // Another process was first.
            Err(error) if is_duplicate(&error) => {
                find().await?.map(FolderEntry::from).ok_or_else(|| missing(ROOT_NAME))
            }
            Err(error) => Err(self.store.fail("make the root folder", error)),
        }
    }

    async fn add(&self, tenant: &TenantId, entry: &FolderEntry) -> Result<()> {
        let row = Model::new(tenant, entry)?;
        if row.parent_id.is_empty() {
            return Err(missing(""));
        }
        self.unless_taken("store the file", &entry.name, repeated(|| self.insert(&row)).await)
    }

    async fn get(&self, tenant: &TenantId, id: &str) -> Result<FolderEntry> {
        let row = one(&self.store.inner.read, &text(tenant.as_str()), &text(id)).await;
        let row = row.map_err(|error| self.store.fail("read the details of a file", error))?;
        // Its bytes may be incomplete, or never come.
        row.filter(|row| row.kind != ARRIVING).map(FolderEntry::from).ok_or_else(|| missing(id))
    }

    async fn arrive(&self, tenant: &TenantId, id: &str) -> Result<()> {
        let arrived = Entity::update_many()
            .col_expr(Column::Kind, Expr::value(word(EntryKind::File)))
            .filter(Column::TenantId.eq(text(tenant.as_str())))
            .filter(Column::Id.eq(text(id)))
            .filter(Column::Kind.eq(ARRIVING));
        let update = || async {
            let _permit = self.store.inner.gate.permit().await;
            arrived.clone().exec(&self.store.inner.write).await
        };
        let done = repeated(update).await.map_err(|error| self.store.fail("store the file", error))?;
        if done.rows_affected == 0 { Err(missing(id)) } else { Ok(()) }
    }

    async fn arriving(&self, tenant: &TenantId, before_ms: i64, count_max: u64) -> Result<Vec<FolderEntry>> {
        let found = of(&text(tenant.as_str()))
            .filter(Column::Kind.eq(ARRIVING))
            .filter(Column::CreatedMs.lt(before_ms))
            .order_by_asc(Column::CreatedMs)
            .limit(bounded(count_max))
            .all(&self.store.inner.read)
            .await
            .map_err(|error| self.store.fail("look for files that have not arrived", error))?;
        Ok(found.into_iter().map(FolderEntry::from).collect())
    }

    async fn named(&self, tenant: &TenantId, folder: &str, name: &str) -> Result<Option<FolderEntry>> {
        let named =
            in_folder(&text(tenant.as_str()), &text(folder)).filter(Column::NameFolded.eq(fold(name)));
        let row = named.one(&self.store.inner.read).await;
        let row = row.map_err(|error| self.store.fail("look for a name in a folder", error))?;
        Ok(row.map(FolderEntry::from))
    }

    async fn list(&self, tenant: &TenantId, filter: &EntryFilter) -> Result<(Vec<FolderEntry>, u64)> {
        // The root is in no folder that can be named.
        if filter.folder.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let fail = |error| self.store.fail("list the files of a folder", error);
        let (db, tenant) = (&self.store.inner.read, text(tenant.as_str()));
        let found = filtered(&tenant, filter);
        let total = found.clone().count(db).await.map_err(fail)?;
        let rows = match filter.order {
            EntryOrder::Size => by_size(db, &tenant, found, filter).await,
            EntryOrder::Created | EntryOrder::Updated | EntryOrder::Name => {
                found.offset(bounded(filter.offset)).limit(bounded(filter.limit)).all(db).await
            }
        };
        let rows = rows.map_err(fail)?;
        Ok((rows.into_iter().map(FolderEntry::from).collect(), total))
    }

    async fn path(&self, tenant: &TenantId, id: &str) -> Result<Vec<FolderEntry>> {
        if id.is_empty() {
            return Err(missing(id));
        }
        let path = path(&self.store.inner.read, &text(tenant.as_str()), &text(id)).await;
        let path = self.done("read the folders of a file", path)?;
        Ok(path.into_iter().map(FolderEntry::from).collect())
    }

    async fn with_folders(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<String>> {
        let tenant = text(tenant.as_str());
        let mut found = Vec::new();
        for some in ids.chunks(ROWS_AT_ONCE_MAX) {
            let parents: Vec<String> = of(&tenant)
                .select_only()
                .column(Column::ParentId)
                .distinct()
                .filter(Column::ParentId.is_in(some.iter().map(|id| text(id))))
                .filter(Column::Kind.eq(FOLDER))
                .into_tuple()
                .all(&self.store.inner.read)
                .await
                .map_err(|error| self.store.fail("look into folders", error))?;
            found.extend(parents);
        }
        Ok(found)
    }

    async fn sizes(&self, tenant: &TenantId, ids: &[String]) -> Result<HashMap<String, u64>> {
        let sizes = sizes(&self.store.inner.read, &text(tenant.as_str()), ids).await;
        sizes.map_err(|error| self.store.fail("sum up what is in folders", error))
    }

    async fn change(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EntryChange,
        now_ms: i64,
    ) -> Result<FolderEntry> {
        let (tenant, id) = (text(tenant.as_str()), text(id));
        let outcome = repeated(|| self.update((&tenant, &id), change, now_ms)).await;
        self.unless_taken("change the file", change.name.as_deref().unwrap_or(&id), outcome)
    }

    async fn remove(&self, tenant: &TenantId, ids: &[String]) -> Result<u64> {
        let (tenant, ids) = (text(tenant.as_str()), ids.iter().map(|id| text(id)).collect::<Vec<_>>());
        let outcome = repeated(|| self.delete(&tenant, &ids)).await;
        self.done("remove files", outcome)
    }
}
