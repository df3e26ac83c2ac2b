//! Datasets.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{
    Condition, ConnectionTrait, DatabaseTransaction, IntoActiveModel, Order, QueryOrder, QuerySelect,
};
use weft_core::id::{DatasetKey, TenantId};
use weft_core::quota::LimitedKind;
use weft_core::seam::dataset_store::{Counting, Dataset, DatasetCounts, DatasetFilter, DocumentState};
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::{
    ROWS_AT_ONCE_MAX, behind, chunk, document, document_extra, fresh, kept_picture, reading, reembedding,
    removed, sum,
};

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "dataset")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub name: String,
    /// The name in lower case: unique within the tenant.
    pub name_folded: String,
    pub avatar: String,
    pub description: String,
    pub language: String,
    pub permission: String,
    pub embedder: String,
    pub method: String,
    /// JSON.
    pub settings: String,
    pub similarity_threshold: f64,
    pub vector_similarity_weight: f64,
    pub pagerank: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// How often all vectors have been recomputed.
    pub generation: i64,
    pub revision: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

pub(crate) fn of(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

pub(crate) fn missing(key: &DatasetKey) -> Error {
    Error::not_found(format!("there is no dataset `{}`", key.id))
}

/// The error for a caller with vectors of an earlier generation.
pub(crate) fn made_anew(key: &DatasetKey) -> Error {
    let message = format!("the vectors or the embedder of the dataset `{}` changed in the meantime", key.id);
    Error::new(ErrorKind::Conflict, message).help("try again")
}

/// How often the vectors of a dataset have been recomputed; `None` when it does not exist.
pub(crate) async fn generation(db: &impl ConnectionTrait, key: &DatasetKey) -> Result<Option<i64>, DbErr> {
    Entity::find().select_only().column(Column::Generation).filter(of(key)).into_tuple().one(db).await
}

fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another dataset has the name `{name}`"))
        .help("choose another name; case makes no difference")
}

impl Model {
    fn new(dataset: &Dataset) -> Result<Self> {
        ids::check("tenant", dataset.key.tenant.as_str())?;
        ids::check("dataset", dataset.key.id.as_str())?;
        ids::fits("embedder", &dataset.embedder)?;
        ids::fits("language", &dataset.language)?;
        ids::fits("permission", &dataset.permission)?;
        let (name, name_folded) = ids::name("dataset", &dataset.name)?;
        Ok(Self {
            tenant_id: dataset.key.tenant.as_str().to_owned(),
            id: dataset.key.id.as_str().to_owned(),
            name,
            name_folded,
            avatar: text(&dataset.avatar),
            description: text(&dataset.description),
            language: dataset.language.clone(),
            permission: dataset.permission.clone(),
            embedder: dataset.embedder.clone(),
            method: ids::word(&dataset.method)?,
            settings: ids::json(&dataset.settings)?,
            similarity_threshold: dataset.similarity_threshold,
            vector_similarity_weight: dataset.vector_similarity_weight,
            pagerank: i64::from(dataset.pagerank),
            created_ms: dataset.created_ms,
            updated_ms: dataset.updated_ms,
            generation: ids::number(dataset.generation),
            revision: dataset.revision,
        })
    }

    fn into_dataset(self, counts: DatasetCounts) -> Result<Dataset> {
        let what = || format!("the dataset `{}`", self.id);
        Ok(Dataset {
            method: ids::read_word(&self.method, what)?,
            settings: ids::read_json(&self.settings, what)?,
            key: DatasetKey::new(&TenantId::from(self.tenant_id), self.id),
            name: self.name,
            avatar: self.avatar,
            description: self.description,
            language: self.language,
            permission: self.permission,
            embedder: self.embedder,
            similarity_threshold: self.similarity_threshold,
            vector_similarity_weight: self.vector_similarity_weight,
            pagerank: u32::try_from(self.pagerank).unwrap_or_default(),
            generation: ids::count(self.generation),
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            revision: self.revision,
            counts,
        })
    }
}

/// The number of documents of a dataset that are being read, and the number of its chunks: those that may get vectors
/// of its embedder, and those that have them. Called under the lock of the dataset.
async fn vectors_of(db: &DatabaseTransaction, key: &DatasetKey) -> Result<(u64, u64), DbErr> {
    use document::Column;
    // Whoever writes chunks has the lock of their document, and looks at the generation under it: they are either counted
    // below, or find another generation.
    let locked = document::Entity::find().select_only().column(Column::Id).filter(document::in_dataset(key));
    let _: Vec<String> = locked.order_by_asc(Column::Id).lock_exclusive().into_tuple().all(db).await?;
    let states = [DocumentState::Running, DocumentState::Paused].map(document::state);
    let being_read = document::Entity::find()
        .filter(document::in_dataset(key))
        .filter(Column::State.is_in(states))
        .count(db)
        .await?;
    // After the documents: one that finishes in between has its chunks by now.
    let chunks: Option<Option<i64>> = document::Entity::find()
        .select_only()
        .column_as(sum(db.get_database_backend(), Column::ChunkCount), "chunks")
        .filter(document::in_dataset(key))
        .into_tuple()
        .one(db)
        .await?;
    Ok((being_read, ids::count(chunks.flatten().unwrap_or_default())))
}

impl Store {
    /// The amount of content of datasets, by id.
    async fn dataset_counts(
        &self,
        tenant: &str,
        ids: &[String],
    ) -> Result<HashMap<String, DatasetCounts>, DbErr> {
        use document::Column;
        let db = &self.inner.read;
        let backend = db.get_database_backend();
        let mut counts = HashMap::new();
        for some in ids.chunks(ROWS_AT_ONCE_MAX) {
            let rows: Vec<(String, i64, i64, i64, i64)> = document::Entity::find()
                .select_only()
                .column(Column::DatasetId)
                .column_as(Column::Id.count(), "documents")
                .column_as(sum(backend, Column::ChunkCount), "chunks")
                .column_as(sum(backend, Column::TokenCount), "tokens")
                .column_as(sum(backend, Column::Size), "bytes")
                .filter(Column::TenantId.eq(tenant))
                .filter(Column::DatasetId.is_in(some.iter().map(String::as_str)))
                .group_by(Column::DatasetId)
                .into_tuple()
                .all(db)
                .await?;
            counts.extend(rows.into_iter().map(|(id, documents, chunks, tokens, bytes)| {
                let [documents, chunks, tokens, bytes] = [documents, chunks, tokens, bytes].map(ids::count);
                (id, DatasetCounts { documents, chunks, tokens, bytes })
            }));
        }
        Ok(counts)
    }

    async fn with_counts(
        &self,
        tenant: &TenantId,
        rows: Vec<Model>,
        counting: Counting,
    ) -> Result<Vec<Dataset>> {
        if counting == Counting::Without {
            return rows.into_iter().map(|row| row.into_dataset(DatasetCounts::default())).collect();
        }
        let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
        let mut counts = self
            .dataset_counts(&text(tenant.as_str()), &ids)
            .await
            .map_err(|error| self.fail("count the documents", error))?;
        let with = |row: Model| {
            let counts = counts.remove(&row.id).unwrap_or_default();
            row.into_dataset(counts)
        };
        rows.into_iter().map(with).collect()
    }

    pub(crate) async fn dataset_tenants(&self) -> Result<Vec<TenantId>> {
        let tenants: Vec<String> = Entity::find()
            .select_only()
            .column(Column::TenantId)
            .distinct()
            .order_by_asc(Column::TenantId)
            .into_tuple()
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("list the tenants", error))?;
        Ok(tenants.into_iter().map(TenantId::from).collect())
    }

    pub(crate) async fn create_dataset(&self, dataset: &Dataset) -> Result<()> {
        let row = Model::new(dataset)?;
        let others = Entity::find().filter(Column::TenantId.eq(&row.tenant_id));
        let insert = || {
            let (tenant, row) = (&row.tenant_id, row.clone().into_active_model());
            self.insert_limited(LimitedKind::Datasets, tenant, row, others.clone())
        };
        // Gives way to other writers and retries; otherwise a serialization conflict would be mistaken for a name
        // conflict.
        match repeated(insert).await {
            Ok(outcome) => outcome,
            Err(error) if is_duplicate(&error) => Err(taken(&dataset.name)),
            Err(error) => Err(self.fail("store the dataset", error)),
        }
    }

    pub(crate) async fn read_dataset(&self, key: &DatasetKey, counting: Counting) -> Result<Dataset> {
        let row = Entity::find()
            .filter(of(key))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the dataset", error))?
            .ok_or_else(|| missing(key))?;
        self.with_counts(&key.tenant, vec![row], counting).await?.pop().ok_or_else(|| missing(key))
    }

    pub(crate) async fn list_datasets(
        &self,
        tenant: &TenantId,
        filter: &DatasetFilter,
    ) -> Result<(Vec<Dataset>, u64)> {
        let fail = |error| self.fail("list the datasets", error);
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(ids) = &filter.ids {
            found = found.filter(Column::Id.is_in(ids.iter().map(|id| text(id.as_str()))));
        }
        if let Some(name) = &filter.name {
            found = found.filter(Column::NameFolded.eq(ids::fold(name)));
        }
        if let Some(names) = &filter.names {
            found = found.filter(Column::NameFolded.is_in(names.iter().map(|name| ids::fold(name))));
        }
        let total = found.clone().count(&self.inner.read).await.map_err(fail)?;
        let order = if filter.ascending { Order::Asc } else { Order::Desc };
        let by = if filter.by_update { Column::UpdatedMs } else { Column::CreatedMs };
        if let Some((time_ms, id)) = &filter.after {
            let id = (Column::Id, order.clone(), text(id.as_str()));
            found = found.filter(behind((by, order.clone(), *time_ms), id));
        }
        let rows = found
            .order_by(by, order.clone())
            .order_by(Column::Id, order)
            .offset(bounded(filter.offset))
            .limit(bounded(filter.limit))
            .all(&self.inner.read)
            .await
            .map_err(fail)?;
        Ok((self.with_counts(tenant, rows, filter.counting).await?, total))
    }

    pub(crate) async fn update_dataset(&self, dataset: &Dataset) -> Result<bool> {
        let row = Model::new(dataset)?;
        let change = async || {
            let transaction = self.begin().await?;
            // Queueing a document of it takes the same lock, so none is queued between the check below and the
            // commit.
            let before = Entity::find().filter(of(&dataset.key)).lock_exclusive().one(&*transaction).await?;
            // A concurrent change has incremented the revision, and must not be overwritten. The row also records
            // which model computed its vectors, which may be a different one by now.
            let current =
                |before: &Model| before.revision == row.revision && before.generation == row.generation;
            let Some(before) = before.filter(current) else { return Ok(Ok(false)) };
            let mut generation = before.generation;
            if before.embedder != row.embedder {
                let held = vectors_of(&transaction, &dataset.key).await?;
                generation = ids::number(dataset.with_other_embedder());
                if let Err(refused) = dataset.check_other_embedder(&before.embedder, held) {
                    return Ok(Err(refused));
                }
            }
            Entity::update_many()
                .col_expr(Column::Name, Expr::value(row.name.clone()))
                .col_expr(Column::NameFolded, Expr::value(row.name_folded.clone()))
                .col_expr(Column::Avatar, Expr::value(row.avatar.clone()))
                .col_expr(Column::Description, Expr::value(row.description.clone()))
                .col_expr(Column::Language, Expr::value(row.language.clone()))
                .col_expr(Column::Permission, Expr::value(row.permission.clone()))
                .col_expr(Column::Embedder, Expr::value(row.embedder.clone()))
                .col_expr(Column::Method, Expr::value(row.method.clone()))
                .col_expr(Column::Settings, Expr::value(row.settings.clone()))
                .col_expr(Column::SimilarityThreshold, Expr::value(row.similarity_threshold))
                .col_expr(Column::VectorSimilarityWeight, Expr::value(row.vector_similarity_weight))
                .col_expr(Column::Pagerank, Expr::value(row.pagerank))
                .col_expr(Column::Generation, Expr::value(generation))
                .col_expr(Column::UpdatedMs, Expr::value(row.updated_ms))
                .col_expr(Column::Revision, Expr::value(row.revision.wrapping_add(1)))
                .filter(of(&dataset.key))
                .exec(&*transaction)
                .await?;
            // Vectors of documents that are being read come from the old embedder and are recomputed.
            if before.embedder != row.embedder {
                fresh::forget_in(&transaction, &dataset.key).await?;
            }
            transaction.commit().await?;
            Ok(Ok(true))
        };
        match repeated(change).await {
            Ok(updated) => updated,
            Err(error) if is_duplicate(&error) => Err(taken(&dataset.name)),
            Err(error) => Err(self.fail("change the dataset", error)),
        }
    }

    /// Returns the blobs of its documents; `None` when there is no such dataset.
    pub(crate) async fn delete_dataset(&self, key: &DatasetKey) -> Result<Option<Vec<String>>, DbErr> {
        let (tenant, id) = (text(key.tenant.as_str()), text(key.id.as_str()));
        let transaction = self.begin().await?;
        // The dataset first: adding a document locks its row, and fails after this.
        let removed = Entity::delete_many().filter(of(key)).exec(&*transaction).await?;
        if removed.rows_affected == 0 {
            return Ok(None);
        }
        let of_dataset = || document::in_dataset(key);
        let found = document::left(of_dataset()).all(&*transaction).await?;
        let blobs = found.iter().map(|left| left.blob.clone()).collect();
        removed::insert_dataset(&transaction, key, found).await?;
        document::Entity::delete_many().filter(of_dataset()).exec(&*transaction).await?;
        chunk::Entity::delete_many()
            .filter(chunk::Column::TenantId.eq(tenant.as_str()))
            .filter(chunk::Column::DatasetId.eq(id.as_str()))
            .exec(&*transaction)
            .await?;
        document_extra::Entity::delete_many()
            .filter(document_extra::Column::TenantId.eq(tenant.as_str()))
            .filter(document_extra::Column::DatasetId.eq(id.as_str()))
            .exec(&*transaction)
            .await?;
        kept_picture::Entity::delete_many().filter(kept_picture::in_dataset(key)).exec(&*transaction).await?;
        reading::Entity::delete_many().filter(reading::in_dataset(key)).exec(&*transaction).await?;
        reembedding::Entity::delete_many().filter(reembedding::of(key)).exec(&*transaction).await?;
        transaction.commit().await?;
        Ok(Some(blobs))
    }
}
