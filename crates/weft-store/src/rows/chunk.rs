//! The chunks of documents. While a document is being read, the rows of its new chunks are *fresh* and exist beside
//! those that can be found.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{
    Condition, ConnectionTrait, DatabaseTransaction, IntoActiveModel, QueryOrder, QuerySelect, Select,
};
use weft_core::id::{ChunkId, DatasetKey, DocumentKey, TenantId};
use weft_core::seam::dataset_store::{ChunkFilter, ChunkReplacement, RemovedChunks, StoredChunk};
use weft_core::seam::ingest_queue::IndexNote;
use weft_core::{Error, ErrorKind, Result};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, text};
use crate::open::repeated;
use crate::rows::chunk_vector::Slot;
use crate::rows::{ROWS_AT_ONCE_MAX, dataset, document, index_note, picture};

/// What the chunks to be written replace.
#[derive(Clone, Copy)]
enum ChunkPlaces<'a> {
    /// Whatever has their ids.
    Any,
    /// Exactly the chunks from which they were derived, one by one.
    Read(&'a [ChunkReplacement]),
}

impl ChunkPlaces<'_> {
    /// Whether the stored chunks have changed.
    fn are_overtaken(self, there: &HashMap<String, Model>) -> Result<bool> {
        let Self::Read(replacements) = self else { return Ok(false) };
        for one in replacements {
            // Compared as chunks, because rows of an earlier version may express the same in different JSON.
            let row = there.get(one.after.id.as_str()).cloned();
            let chunk = row.map(|row| row.into_chunk(None)).transpose()?;
            if !one.is_of(chunk.as_ref()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Chunks to be written, and the same as rows.
struct ChunkWrite<'a> {
    chunks: Vec<&'a StoredChunk>,
    rows: Vec<Model>,
    places: ChunkPlaces<'a>,
    generation: i64,
}

impl<'a> ChunkWrite<'a> {
    fn new(chunks: Vec<&'a StoredChunk>, places: ChunkPlaces<'a>, generation: u64) -> Result<Self> {
        let rows =
            chunks.iter().map(|chunk| Model::new(chunk, Age::WorkOutcome)).collect::<Result<Vec<_>>>()?;
        Ok(Self { chunks, rows, places, generation: ids::number(generation) })
    }
}

/// Maximum bytes of text in one statement: servers limit its length.
const BYTES_AT_ONCE_MAX: usize = 1 << 20;

/// All columns except the vector, which is read only on request.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "chunk")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub fresh: i64,
    pub dataset_id: String,
    pub document_id: String,
    pub ordinal: i64,
    pub kind: String,
    pub content: String,
    pub searched: Option<String>,
    /// JSON, like the four that follow.
    pub headings: String,
    pub positions: String,
    pub keywords: String,
    pub questions: String,
    pub fields: String,
    pub parent_id: Option<String>,
    pub picture: Option<String>,
    pub is_parent: i64,
    pub available: i64,
    pub tokens: i64,
    pub created_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// A kind of rows of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// The rows that can be found.
    WorkOutcome,
    /// The rows that are being created.
    Fresh,
}

impl Age {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::WorkOutcome => 0,
            Self::Fresh => 1,
        }
    }
}

pub(crate) fn in_dataset(key: &DatasetKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::DatasetId.eq(text(key.id.as_str())))
}

/// All chunks of a document, including fresh ones.
pub(crate) fn of_document(key: &DocumentKey) -> Condition {
    in_dataset(&key.dataset).add(Column::DocumentId.eq(text(key.id.as_str())))
}

pub(crate) fn of_age(key: &DocumentKey, age: Age) -> Condition {
    of_document(key).add(Column::Fresh.eq(age.number()))
}

/// The chunks of a dataset that can be found.
pub(crate) fn found_in(key: &DatasetKey) -> Condition {
    in_dataset(key)
        .add(Column::Fresh.eq(Age::WorkOutcome.number()))
        .add(Column::IsParent.eq(0))
        .add(Column::Available.eq(1))
}

impl Model {
    pub(crate) fn new(chunk: &StoredChunk, age: Age) -> Result<Self> {
        ids::check("chunk", chunk.id.as_str())?;
        Ok(Self {
            tenant_id: text(chunk.document.dataset.tenant.as_str()),
            id: chunk.id.as_str().to_owned(),
            fresh: age.number(),
            dataset_id: text(chunk.document.dataset.id.as_str()),
            document_id: text(chunk.document.id.as_str()),
            ordinal: ids::number(chunk.ordinal),
            kind: ids::word(&chunk.kind)?,
            content: text(&chunk.content),
            searched: chunk.searched.as_deref().map(text),
            headings: ids::json(&chunk.headings)?,
            positions: ids::json(&chunk.positions)?,
            keywords: ids::json(&chunk.keywords)?,
            questions: ids::json(&chunk.questions)?,
            fields: ids::json(&chunk.fields)?,
            parent_id: chunk.parent.as_ref().map(|parent| text(parent.as_str())),
            picture: chunk.picture.as_deref().map(text),
            // Chunks that can be found may be hidden by people; of new chunks, only parents are hidden.
            is_parent: i64::from(age == Age::Fresh && !chunk.available),
            available: i64::from(chunk.available),
            tokens: i64::from(chunk.tokens),
            created_ms: chunk.created_ms,
        })
    }

    fn bytes(&self) -> usize {
        let lists = [&self.headings, &self.positions, &self.keywords, &self.questions, &self.fields];
        let searched = self.searched.as_ref().map_or(0, String::len);
        lists.iter().map(|list| list.len()).sum::<usize>() + self.content.len() + searched
    }

    fn into_chunk(self, vector: Option<Vec<f32>>) -> Result<StoredChunk> {
        let what = || format!("the chunk `{}`", self.id);
        let dataset = DatasetKey::new(&TenantId::from(self.tenant_id.as_str()), self.dataset_id.as_str());
        Ok(StoredChunk {
            kind: ids::read_word(&self.kind, what)?,
            headings: ids::read_json(&self.headings, what)?,
            positions: ids::read_json(&self.positions, what)?,
            keywords: ids::read_json(&self.keywords, what)?,
            questions: ids::read_json(&self.questions, what)?,
            fields: ids::read_json(&self.fields, what)?,
            document: DocumentKey::new(&dataset, self.document_id),
            ordinal: ids::count(self.ordinal),
            content: self.content,
            searched: self.searched,
            parent: self.parent_id.map(ChunkId::from),
            picture: self.picture,
            available: self.available != 0,
            tokens: u32::try_from(self.tokens).unwrap_or_default(),
            id: self.id.into(),
            vector,
            created_ms: self.created_ms,
        })
    }
}

/// Inserts rows in statements of a bounded size.
pub(crate) async fn insert(transaction: &DatabaseTransaction, rows: Vec<Model>) -> Result<(), DbErr> {
    let (mut some, mut length) = (Vec::new(), 0);
    for row in rows {
        let more = row.bytes();
        if !some.is_empty() && (some.len() >= ROWS_AT_ONCE_MAX || length + more > BYTES_AT_ONCE_MAX) {
            Entity::insert_many(std::mem::take(&mut some)).exec_without_returning(transaction).await?;
            length = 0;
        }
        length += more;
        some.push(row.into_active_model());
    }
    if !some.is_empty() {
        Entity::insert_many(some).exec_without_returning(transaction).await?;
    }
    Ok(())
}

/// Rows of one dataset with their vectors, as chunks.
pub(crate) async fn with_vectors(
    db: &impl ConnectionTrait,
    rows: Vec<Model>,
    age: Age,
) -> Result<Result<Vec<StoredChunk>>, DbErr> {
    let Some(first) = rows.first() else { return Ok(Ok(Vec::new())) };
    let dataset = DatasetKey::new(&TenantId::from(first.tenant_id.as_str()), first.dataset_id.as_str());
    let slot = Slot::of(dataset::generation(db, &dataset).await?.unwrap_or_default());
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let mut vectors = slot.read(db, &dataset.tenant, &ids, age).await?;
    let with = |row: Model| {
        let vector = vectors.remove(&row.id);
        row.into_chunk(vector)
    };
    Ok(rows.into_iter().map(with).collect())
}

/// The chunks that are listed: those that can be found, in order, without parents.
fn listed(key: &DocumentKey, filter: &ChunkFilter) -> Select<Entity> {
    let mut found = Entity::find().filter(of_age(key, Age::WorkOutcome)).filter(Column::IsParent.eq(0));
    if let Some(available) = filter.available {
        found = found.filter(Column::Available.eq(i64::from(available)));
    }
    found.order_by_asc(Column::Ordinal).order_by_asc(Column::Id)
}

fn holds(row: &Model, folded: &str) -> bool {
    let keywords = || serde_json::from_str::<Vec<String>>(&row.keywords).unwrap_or_default();
    row.content.to_lowercase().contains(folded)
        || keywords().iter().any(|keyword| keyword.to_lowercase().contains(folded))
}

impl Store {
    pub(crate) async fn list_chunks(
        &self,
        key: &DocumentKey,
        filter: &ChunkFilter,
    ) -> Result<(Vec<StoredChunk>, u64)> {
        let fail = |error| self.fail("list the chunks", error);
        let db = &self.inner.read;
        if !self.has_document(db, key).await.map_err(fail)? {
            return Err(document::missing(key));
        }
        let found = listed(key, filter);
        let (rows, total) = match filter.keywords.as_deref().filter(|words| !words.is_empty()) {
            None => db.page(found, filter.offset, filter.limit).await,
            Some(words) => self.chunks_with(found, words, filter).await,
        }
        .map_err(fail)?;
        if filter.vectors {
            return Ok((with_vectors(db, rows, Age::WorkOutcome).await.map_err(fail)??, total));
        }
        Ok((rows.into_iter().map(|row| row.into_chunk(None)).collect::<Result<_>>()?, total))
    }

    pub(crate) async fn some_chunks(&self, key: &DocumentKey, ids: &[ChunkId]) -> Result<Vec<StoredChunk>> {
        let fail = |error| self.fail("read the chunks", error);
        let db = &self.inner.read;
        if !self.has_document(db, key).await.map_err(fail)? {
            return Err(document::missing(key));
        }
        let mut rows = Vec::new();
        for some in ids.chunks(ROWS_AT_ONCE_MAX) {
            let these = Column::Id.is_in(some.iter().map(|id| text(id.as_str())));
            let found = listed(key, &ChunkFilter::default()).filter(these);
            rows.extend(found.all(db).await.map_err(fail)?);
        }
        // The database has sorted each part separately.
        rows.sort_by(|a, b| (a.ordinal, &a.id).cmp(&(b.ordinal, &b.id)));
        // An id may be named twice.
        rows.dedup_by(|a, b| a.id == b.id);
        with_vectors(db, rows, Age::WorkOutcome).await.map_err(fail)?
    }

    /// Databases differ in how they ignore case, so words are searched for here, page by page.
    async fn chunks_with(
        &self,
        found: Select<Entity>,
        words: &str,
        filter: &ChunkFilter,
    ) -> Result<(Vec<Model>, u64), DbErr> {
        let folded = ids::fold(words);
        let (mut page, mut total, mut seen) = (Vec::new(), 0, 0);
        loop {
            let some = found.clone().offset(seen).limit(ROWS_AT_ONCE_MAX as u64);
            let rows = some.all(&self.inner.read).await?;
            let last = rows.len() < ROWS_AT_ONCE_MAX;
            seen += rows.len() as u64;
            for row in rows.into_iter().filter(|row| holds(row, &folded)) {
                if total >= filter.offset && (page.len() as u64) < filter.limit {
                    page.push(row);
                }
                total += 1;
            }
            if last {
                return Ok((page, total));
            }
        }
    }

    pub(crate) async fn read_chunks(
        &self,
        tenant: &TenantId,
        wanted: &[ChunkId],
    ) -> Result<Vec<StoredChunk>> {
        let tenant = text(tenant.as_str());
        let mut found = HashMap::with_capacity(wanted.len());
        for some in wanted.chunks(ROWS_AT_ONCE_MAX) {
            let rows = Entity::find()
                .filter(Column::TenantId.eq(tenant.as_str()))
                .filter(Column::Fresh.eq(Age::WorkOutcome.number()))
                .filter(Column::Id.is_in(some.iter().map(|id| text(id.as_str()))))
                .all(&self.inner.read)
                .await
                .map_err(|error| self.fail("read the chunks", error))?;
            found.extend(rows.into_iter().map(|row| (row.id.clone(), row)));
        }
        // An id that is requested twice is returned once.
        let rows = wanted.iter().filter_map(|id| found.remove(id.as_str()));
        rows.map(|row| row.into_chunk(None)).collect()
    }

    /// Returns the note about the index; `None` when the stored chunks are no longer those from which the new ones
    /// were derived.
    async fn write_chunks(
        &self,
        key: &DocumentKey,
        write: &ChunkWrite<'_>,
    ) -> Result<Result<Option<IndexNote>>, DbErr> {
        let ChunkWrite { chunks, rows, places, generation } = write;
        let transaction = self.begin().await?;
        let Some(before) = document::locked(&transaction, key).await? else {
            return Ok(Err(document::missing(key)));
        };
        // A task that recomputes all vectors checks the documents under their locks, so nothing comes between this
        // check and the commit.
        if dataset::generation(&*transaction, &key.dataset).await? != Some(*generation) {
            return Ok(Err(dataset::made_anew(&key.dataset)));
        }
        let mut rows = rows.clone();
        let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
        let gone = take_out(&transaction, key, &ids).await?;
        // Under the lock of the document, which every writer of its chunks holds. The chunks that were taken out are
        // restored when the transaction ends without a commit.
        match places.are_overtaken(&gone) {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        }
        for row in &mut rows {
            // Whether a chunk is a parent was decided when it was created; hiding it now does not make it one.
            row.is_parent = gone.get(&row.id).map_or(0, |gone| gone.is_parent);
        }
        let added = counted(rows.iter());
        insert(&transaction, rows).await?;
        for chunk in chunks {
            if let Some(vector) = &chunk.vector {
                let of = of_age(key, Age::WorkOutcome);
                Slot::of(*generation).write(&transaction, of, &chunk.id, vector).await?;
            }
        }
        let removed = counted(gone.values());
        let chunks = before.chunk_count + added.0 - removed.0;
        let tokens = before.token_count + added.1 - removed.1;
        count(&transaction, key, chunks, tokens).await?;
        transaction.commit().await?;
        Ok(Ok(Some(index_note::after(&before))))
    }

    async fn keep_write(&self, key: &DocumentKey, write: ChunkWrite<'_>) -> Result<Option<IndexNote>> {
        match repeated(|| self.write_chunks(key, &write)).await {
            Ok(kept) => kept,
            Err(error) if is_duplicate(&error) => {
                let message = "a chunk with this id already exists, in another document or twice in this one";
                Err(Error::new(ErrorKind::Conflict, message))
            }
            Err(error) => Err(self.fail("store the chunks", error)),
        }
    }

    pub(crate) async fn keep_chunks(
        &self,
        key: &DocumentKey,
        chunks: &[StoredChunk],
        generation: u64,
    ) -> Result<IndexNote> {
        let write = ChunkWrite::new(chunks.iter().collect(), ChunkPlaces::Any, generation)?;
        let kept = self.keep_write(key, write).await?;
        kept.ok_or_else(|| Error::internal("chunks that replace anything were overtaken"))
    }

    pub(crate) async fn keep_replacements(
        &self,
        key: &DocumentKey,
        replacements: &[ChunkReplacement],
        generation: u64,
    ) -> Result<Option<IndexNote>> {
        let chunks = replacements.iter().map(|one| &one.after).collect();
        self.keep_write(key, ChunkWrite::new(chunks, ChunkPlaces::Read(replacements), generation)?).await
    }

    /// `None` when the document does not exist.
    async fn delete_chunks(&self, key: &DocumentKey, ids: &[String]) -> Result<Option<RemovedChunks>, DbErr> {
        let transaction = self.begin().await?;
        let Some(before) = document::locked(&transaction, key).await? else { return Ok(None) };
        let gone = take_out(&transaction, key, ids).await?;
        let removed = counted(gone.values());
        let (chunks, tokens) = (before.chunk_count - removed.0, before.token_count - removed.1);
        count(&transaction, key, chunks, tokens).await?;
        let pictures = picture::left_by(&transaction, &before, gone.values()).await?;
        transaction.commit().await?;
        Ok(Some(RemovedChunks { count: gone.len() as u64, pictures }))
    }

    pub(crate) async fn drop_chunks(&self, key: &DocumentKey, ids: &[ChunkId]) -> Result<RemovedChunks> {
        let ids: Vec<String> = ids.iter().map(|id| text(id.as_str())).collect();
        match repeated(|| self.delete_chunks(key, &ids)).await {
            Ok(Some(removed)) => Ok(removed),
            Ok(None) => Err(document::missing(key)),
            Err(error) => Err(self.fail("remove the chunks", error)),
        }
    }
}

/// Removes chunks from a document and returns those that existed.
async fn take_out(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
    ids: &[String],
) -> Result<HashMap<String, Model>, DbErr> {
    let mut gone = HashMap::new();
    for some in ids.chunks(ROWS_AT_ONCE_MAX) {
        let these = || of_age(key, Age::WorkOutcome).add(Column::Id.is_in(some.iter().map(String::as_str)));
        let rows = Entity::find().filter(these()).all(transaction).await?;
        if rows.is_empty() {
            continue;
        }
        gone.extend(rows.into_iter().map(|row| (row.id.clone(), row)));
        Entity::delete_many().filter(these()).exec(transaction).await?;
    }
    Ok(gone)
}

/// The number of chunks and tokens, without those of parents.
pub(crate) fn counted<'a>(rows: impl Iterator<Item = &'a Model>) -> (i64, i64) {
    rows.filter(|row| row.is_parent == 0)
        .fold((0, 0), |(chunks, tokens), row| (chunks + 1, tokens + row.tokens))
}

async fn count(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
    chunks: i64,
    tokens: i64,
) -> Result<(), DbErr> {
    document::Entity::update_many()
        .col_expr(document::Column::ChunkCount, Expr::value(std::cmp::max(chunks, 0)))
        .col_expr(document::Column::TokenCount, Expr::value(std::cmp::max(tokens, 0)))
        .col_expr(document::Column::Unindexed, index_note::next())
        .filter(document::of(key))
        .exec(transaction)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use weft_core::seam::document_reader::PieceKind;

    use super::*;

    #[test]
    fn all_texts_of_a_chunk_count_toward_the_statement_size() {
        let of = |questions: Vec<String>| {
            let dataset = DatasetKey::new(&TenantId::from("t"), "d");
            let chunk = StoredChunk {
                id: ChunkId::from("c"),
                document: DocumentKey::new(&dataset, "a"),
                ordinal: 0,
                kind: PieceKind::Text,
                content: "x".to_owned(),
                searched: None,
                headings: Vec::new(),
                positions: Vec::new(),
                keywords: Vec::new(),
                questions,
                fields: serde_json::Map::new(),
                parent: None,
                picture: None,
                available: true,
                tokens: 1,
                vector: None,
                created_ms: 0,
            };
            Model::new(&chunk, Age::WorkOutcome).unwrap().bytes()
        };
        assert!(of(vec!["?".repeat(1_000)]) >= of(Vec::new()) + 1_000);
    }
}
