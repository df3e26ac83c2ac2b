//! Documents of datasets. Their role as a queue is in [`super::ingest`].

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{
    Condition, ConnectionTrait, DatabaseTransaction, FromQueryResult, Order, QueryOrder, QuerySelect, Select,
    SelectModel, Selector,
};
use weft_core::id::{DatasetKey, DocumentId, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{
    Document, DocumentChange, DocumentFilter, DocumentOrder, DocumentState,
};
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, containing, text};
use crate::open::repeated;
use crate::rows::{
    ROWS_AT_ONCE_MAX, behind, chunk, document_extra, fresh, index_note, kept_picture, reading, removed,
};

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "document")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dataset_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub name: String,
    /// The name in lower case: unique within the dataset, and searched for keywords.
    pub name_folded: String,
    /// The part after the last dot of the name, in lower case.
    pub suffix: String,
    pub size: i64,
    pub blob: String,
    pub method: String,
    /// JSON.
    pub settings: String,
    /// JSON.
    pub metadata: String,
    pub enabled: i64,
    pub state: String,
    pub progress: f64,
    pub message: String,
    pub begun_ms: Option<i64>,
    pub duration_ms: i64,
    pub chunk_count: i64,
    pub token_count: i64,
    /// The first picture among the chunks that can be found.
    pub picture: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub stage: String,
    /// 1 while a worker has it.
    pub taken: i64,
    /// When it was taken.
    pub taken_ms: i64,
    /// While it is running: the earliest time at which it may be taken.
    pub at_ms: i64,
    pub fence: i64,
    pub attempts: i64,
    /// 0 to continue, 1 to pause, 2 to cancel.
    pub wanted: i64,
    /// The counts that apply when its new chunks replace the old ones.
    pub new_chunks: i64,
    pub new_tokens: i64,
    /// Grows with each note that the index may be out of date; negative while it is noted to be up to date.
    pub unindexed: i64,
    /// The value of `unindexed` for which all vectors of the next generation exist; −1 if they do not.
    pub staged: i64,
    /// Counts the changes made by people.
    pub revision: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

pub(crate) fn of(key: &DocumentKey) -> Condition {
    in_dataset(&key.dataset).add(Column::Id.eq(text(key.id.as_str())))
}

pub(crate) fn in_dataset(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

pub(crate) fn missing(key: &DocumentKey) -> Error {
    Error::not_found(format!("there is no document `{}` in the dataset `{}`", key.id, key.dataset.id))
}

pub(crate) fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another document of the dataset has the name `{name}`"))
        .help("choose another name; case makes no difference")
}

fn suffix(folded: &str) -> String {
    folded.rsplit_once('.').map(|(_, suffix)| suffix.to_owned()).unwrap_or_default()
}

/// The stored form of a state.
pub(crate) fn state(state: DocumentState) -> &'static str {
    match state {
        DocumentState::Unstarted => "unstarted",
        DocumentState::Running => "running",
        DocumentState::Paused => "paused",
        DocumentState::Cancelled => "cancelled",
        DocumentState::Done => "done",
        DocumentState::Failed => "failed",
    }
}

impl Model {
    pub(crate) fn new(document: &Document) -> Result<Self> {
        let DocumentKey { dataset, id } = &document.key;
        ids::check("tenant", dataset.tenant.as_str())?;
        ids::check("dataset", dataset.id.as_str())?;
        ids::check("document", id.as_str())?;
        ids::fits("blob", &document.blob)?;
        let (name, name_folded) = ids::name("document", &document.name)?;
        Ok(Self {
            tenant_id: dataset.tenant.as_str().to_owned(),
            dataset_id: dataset.id.as_str().to_owned(),
            id: id.as_str().to_owned(),
            suffix: suffix(&name_folded),
            name,
            name_folded,
            size: ids::number(document.size),
            blob: document.blob.clone(),
            method: ids::word(&document.method)?,
            settings: ids::json(&document.settings)?,
            metadata: ids::json(&document.metadata)?,
            enabled: i64::from(document.enabled),
            state: state(document.state).to_owned(),
            progress: document.progress,
            message: text(&document.message),
            begun_ms: document.begun_ms,
            duration_ms: document.duration_ms,
            chunk_count: 0,
            token_count: 0,
            picture: None,
            created_ms: document.created_ms,
            updated_ms: document.updated_ms,
            stage: "reading".to_owned(),
            taken: 0,
            taken_ms: 0,
            at_ms: document.created_ms,
            fence: 0,
            attempts: 0,
            wanted: 0,
            new_chunks: 0,
            new_tokens: 0,
            unindexed: 0,
            staged: -1,
            revision: document.revision,
        })
    }

    pub(crate) fn key(&self) -> DocumentKey {
        let dataset = DatasetKey::new(&TenantId::from(self.tenant_id.as_str()), self.dataset_id.as_str());
        DocumentKey::new(&dataset, self.id.as_str())
    }

    pub(crate) fn into_document(self) -> Result<Document> {
        let what = || format!("the document `{}`", self.id);
        Ok(Document {
            key: self.key(),
            method: ids::read_word(&self.method, what)?,
            settings: ids::read_json(&self.settings, what)?,
            metadata: ids::read_json(&self.metadata, what)?,
            state: ids::read_word(&self.state, what)?,
            name: self.name,
            size: ids::count(self.size),
            blob: self.blob,
            enabled: self.enabled != 0,
            progress: self.progress,
            message: self.message,
            begun_ms: self.begun_ms,
            duration_ms: self.duration_ms,
            chunk_count: ids::count(self.chunk_count),
            token_count: ids::count(self.token_count),
            picture: self.picture,
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

/// The outcome of a change.
enum DocumentWrite {
    Done,
    Missing,
    Overtaken,
}

/// A document, locked until the end of the transaction.
pub(crate) async fn locked(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(of(key)).lock_exclusive().one(transaction).await
}

/// What may be left over when a document is removed.
#[derive(Clone, Debug, FromQueryResult)]
pub(crate) struct LeftOver {
    pub(crate) id: String,
    pub(crate) blob: String,
    pub(crate) taken: i64,
    pub(crate) at_ms: i64,
}

pub(crate) fn left(these: Condition) -> Selector<SelectModel<LeftOver>> {
    let columns = [Column::Id, Column::Blob, Column::Taken, Column::AtMs];
    Entity::find().select_only().columns(columns).filter(these).into_model()
}

/// Removes documents with everything that belongs to them, and notes that something may be left over. Returns the
/// blobs of those that existed.
pub(crate) async fn delete(
    transaction: &DatabaseTransaction,
    dataset: &DatasetKey,
    ids: &[DocumentId],
) -> Result<Vec<String>, DbErr> {
    let (tenant, of_dataset) = (text(dataset.tenant.as_str()), text(dataset.id.as_str()));
    let mut blobs = Vec::new();
    for some in ids.chunks(ROWS_AT_ONCE_MAX) {
        let some: Vec<String> = some.iter().map(|id| text(id.as_str())).collect();
        let these = || in_dataset(dataset).add(Column::Id.is_in(some.clone()));
        // Only its row has the name of its file, and shows whether a worker may still be writing to the index.
        let found: Vec<LeftOver> = left(these()).all(transaction).await?;
        blobs.extend(found.iter().map(|left| left.blob.clone()));
        removed::insert(transaction, dataset, found).await?;
        Entity::delete_many().filter(these()).exec(transaction).await?;
        chunk::Entity::delete_many()
            .filter(chunk::Column::TenantId.eq(tenant.as_str()))
            .filter(chunk::Column::DatasetId.eq(of_dataset.as_str()))
            .filter(chunk::Column::DocumentId.is_in(some.clone()))
            .exec(transaction)
            .await?;
        document_extra::Entity::delete_many()
            .filter(document_extra::Column::TenantId.eq(tenant.as_str()))
            .filter(document_extra::Column::DatasetId.eq(of_dataset.as_str()))
            .filter(document_extra::Column::DocumentId.is_in(some.clone()))
            .exec(transaction)
            .await?;
        let pictures = kept_picture::in_dataset(dataset);
        kept_picture::Entity::delete_many()
            .filter(pictures.add(kept_picture::Column::DocumentId.is_in(some.clone())))
            .exec(transaction)
            .await?;
        let readings = reading::in_dataset(dataset).add(reading::Column::DocumentId.is_in(some.clone()));
        reading::Entity::delete_many().filter(readings).exec(transaction).await?;
    }
    Ok(blobs)
}

/// The conditions of a list that a database can evaluate.
fn filtered(dataset: &DatasetKey, filter: &DocumentFilter) -> Select<Entity> {
    let mut found = Entity::find().filter(in_dataset(dataset));
    if let Some(ids) = &filter.ids {
        found = found.filter(Column::Id.is_in(ids.iter().map(|id| text(id.as_str()))));
    }
    if let Some(name) = &filter.name {
        found = found.filter(Column::NameFolded.eq(ids::fold(name)));
    }
    if let Some(keywords) = filter.keywords.as_deref().filter(|keywords| !keywords.is_empty()) {
        found = found.filter(Column::NameFolded.like(containing(keywords)));
    }
    let endings = |of: &[String]| -> Vec<String> {
        of.iter().map(|suffix| ids::fold(suffix.trim_start_matches('.'))).collect()
    };
    if !filter.suffixes.is_empty() {
        found = found.filter(Column::Suffix.is_in(endings(&filter.suffixes)));
    }
    if !filter.other_suffixes.is_empty() {
        found = found.filter(Column::Suffix.is_not_in(endings(&filter.other_suffixes)));
    }
    if filter.bare {
        // As JSON, an empty map is written in exactly this way.
        found = found.filter(Column::Metadata.eq("{}"));
    }
    if !filter.states.is_empty() {
        found = found.filter(Column::State.is_in(filter.states.iter().map(|one| state(*one))));
    }
    if let Some(from) = filter.from_ms {
        found = found.filter(Column::CreatedMs.gte(from));
    }
    if let Some(to) = filter.to_ms {
        found = found.filter(Column::CreatedMs.lte(to));
    }
    let order = direction(filter);
    found.order_by(ordering(filter.order), order.clone()).order_by(Column::Id, order)
}

fn direction(filter: &DocumentFilter) -> Order {
    if filter.ascending { Order::Asc } else { Order::Desc }
}

/// The column by which a list is sorted, before the ids.
fn ordering(order: DocumentOrder) -> Column {
    match order {
        DocumentOrder::Created => Column::CreatedMs,
        DocumentOrder::Updated => Column::UpdatedMs,
        DocumentOrder::Name => Column::NameFolded,
    }
}

/// The condition for what comes after a row in the order of a list.
fn after_row(filter: &DocumentFilter, row: &Model) -> Condition {
    let (by, order) = (ordering(filter.order), direction(filter));
    let at = match filter.order {
        DocumentOrder::Created => Value::from(row.created_ms),
        DocumentOrder::Updated => Value::from(row.updated_ms),
        DocumentOrder::Name => Value::from(row.name_folded.as_str()),
    };
    behind((by, order.clone(), at), (Column::Id, order, row.id.as_str()))
}

impl Store {
    pub(crate) async fn read_document(&self, key: &DocumentKey) -> Result<Document> {
        Entity::find()
            .filter(of(key))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the document", error))?
            .ok_or_else(|| missing(key))?
            .into_document()
    }

    pub(crate) async fn list_documents(
        &self,
        dataset: &DatasetKey,
        filter: &DocumentFilter,
    ) -> Result<(Vec<Document>, u64)> {
        let fail = |error| self.fail("list the documents", error);
        let found = filtered(dataset, filter);
        let Some(wanted) = &filter.metadata else {
            let total = found.clone().count(&self.inner.read).await.map_err(fail)?;
            let page = found.offset(bounded(filter.offset)).limit(bounded(filter.limit));
            let rows = page.all(&self.inner.read).await.map_err(fail)?;
            return Ok((rows.into_iter().map(Model::into_document).collect::<Result<_>>()?, total));
        };
        // Conditions on metadata are evaluated by the filter itself, so that they mean the same on every database.
        let (mut page, mut total) = (Vec::new(), 0);
        let mut some = found.clone();
        loop {
            let rows = some.limit(ROWS_AT_ONCE_MAX as u64).all(&self.inner.read).await.map_err(fail)?;
            // After a row and not by offset: each step costs the same, and no row is missed when the list changes
            // meanwhile.
            let next =
                rows.last().filter(|_| rows.len() == ROWS_AT_ONCE_MAX).map(|row| after_row(filter, row));
            for row in rows {
                let what = || format!("the document `{}`", row.id);
                if !wanted.matches(&ids::read_json(&row.metadata, what)?) {
                    continue;
                }
                if total >= filter.offset && (page.len() as u64) < filter.limit {
                    page.push(row.into_document()?);
                }
                total += 1;
            }
            match next {
                Some(next) => some = found.clone().filter(next),
                None => return Ok((page, total)),
            }
        }
    }

    pub(crate) async fn change_document(
        &self,
        key: &DocumentKey,
        change: &DocumentChange,
        now_ms: i64,
    ) -> Result<Option<Document>> {
        let mut columns = vec![
            (Column::UpdatedMs, Expr::value(now_ms)),
            (Column::Unindexed, index_note::next()),
            (Column::Revision, Expr::col(Column::Revision).add(1)),
        ];
        if let Some(name) = &change.name {
            let (name, folded) = ids::name("document", name)?;
            columns.push((Column::Suffix, Expr::value(suffix(&folded))));
            columns.push((Column::Name, Expr::value(name)));
            columns.push((Column::NameFolded, Expr::value(folded)));
        }
        if let Some(method) = &change.method {
            columns.push((Column::Method, Expr::value(ids::word(method)?)));
        }
        if let Some(settings) = &change.settings {
            columns.push((Column::Settings, Expr::value(ids::json(settings)?)));
        }
        if let Some(metadata) = &change.metadata {
            columns.push((Column::Metadata, Expr::value(ids::json(metadata)?)));
        }
        if let Some(enabled) = change.enabled {
            columns.push((Column::Enabled, Expr::value(i64::from(enabled))));
        }
        let attempt = async || {
            let transaction = self.begin().await?;
            let Some(row) = locked(&transaction, key).await? else { return Ok(DocumentWrite::Missing) };
            // A concurrent change has incremented the revision; it must not be overwritten.
            if change.revision.is_some_and(|revision| revision != row.revision) {
                return Ok(DocumentWrite::Overtaken);
            }
            let mut update = Entity::update_many().filter(of(key));
            for (column, value) in &columns {
                update = update.col_expr(*column, value.clone());
            }
            // The note that the index is out of date is in the same statement, so that nothing can come between the
            // two.
            update.exec(&*transaction).await?;
            // A failed document would otherwise continue with chunks that were created with the old settings.
            if change.settings.is_some() && row.state == state(DocumentState::Failed) {
                fresh::forget(&transaction, key).await?;
            }
            transaction.commit().await?;
            Ok(DocumentWrite::Done)
        };
        match repeated(attempt).await {
            Ok(DocumentWrite::Missing) => Err(missing(key)),
            Ok(DocumentWrite::Overtaken) => Ok(None),
            Ok(DocumentWrite::Done) => self.read_document(key).await.map(Some),
            Err(error) if is_duplicate(&error) => Err(taken(change.name.as_deref().unwrap_or_default())),
            Err(error) => Err(self.fail("change the document", error)),
        }
    }

    /// Returns the blobs of those that existed.
    pub(crate) async fn delete_documents(
        &self,
        dataset: &DatasetKey,
        ids: &[DocumentId],
    ) -> Result<Vec<String>, DbErr> {
        let transaction = self.begin().await?;
        let blobs = delete(&transaction, dataset, ids).await?;
        transaction.commit().await?;
        Ok(blobs)
    }

    /// Resets a document. The inner error says why it cannot be reset.
    pub(crate) async fn unread_document(&self, key: &DocumentKey, now_ms: i64) -> Result<Result<()>, DbErr> {
        let transaction = self.begin().await?;
        match locked(&transaction, key).await? {
            None => return Ok(Err(missing(key))),
            Some(row) if row.state == state(DocumentState::Running) => {
                let message = format!("the document `{}` is being read", key.id);
                return Ok(Err(Error::new(ErrorKind::Conflict, message).help("stop it first")));
            }
            Some(_) => {}
        }
        chunk::Entity::delete_many().filter(chunk::of_document(key)).exec(&*transaction).await?;
        document_extra::Entity::delete_many().filter(document_extra::of(key)).exec(&*transaction).await?;
        kept_picture::Entity::delete_many().filter(kept_picture::of(key)).exec(&*transaction).await?;
        let zero = [Column::ChunkCount, Column::TokenCount, Column::DurationMs, Column::Attempts];
        let update = zero
            .into_iter()
            .fold(Entity::update_many(), |update, column| update.col_expr(column, Expr::value(0_i64)));
        update
            .col_expr(Column::State, Expr::value(state(DocumentState::Unstarted)))
            .col_expr(Column::Progress, Expr::value(0_f64))
            .col_expr(Column::Message, Expr::value(""))
            .col_expr(Column::BegunMs, Expr::value(None::<i64>))
            .col_expr(Column::Picture, Expr::value(None::<String>))
            .col_expr(Column::Stage, Expr::value("reading"))
            .col_expr(Column::UpdatedMs, Expr::value(now_ms))
            .col_expr(Column::Unindexed, index_note::next())
            .filter(of(key))
            .exec(&*transaction)
            .await?;
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// Whether there is such a document.
    pub(crate) async fn has_document(
        &self,
        db: &impl ConnectionTrait,
        key: &DocumentKey,
    ) -> Result<bool, DbErr> {
        Ok(Entity::find().filter(of(key)).count(db).await? > 0)
    }
}
