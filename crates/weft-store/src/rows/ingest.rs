//! The queue of documents: which worker reads which one, and its progress.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, DatabaseTransaction, QueryOrder, QuerySelect};
use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{DocumentState, Extra, IngestStage, StoredChunk};
use weft_core::seam::ingest_queue::{
    Amended, IndexNote, IngestLease, IngestOutcome, IngestProgress, IngestQueue, NotedFilter, PictureSize,
    Removed, TakenDocument, ToBeFound, Wanted,
};
use weft_core::value::Json;
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::Store;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::chunk::{self, Age};
use crate::rows::document::{self, Column, Entity, Model, state};
use crate::rows::{
    ColumnChanges, change, dataset, document_extra, fresh, index_note, kept_picture, picture, readable,
    reading, to,
};

pub(crate) const RUNNING: &str = "running";
const READING: &str = "reading";

/// The document, while this lease is valid.
pub(crate) fn held(lease: &IngestLease) -> Condition {
    document::of(&lease.document)
        .add(Column::State.eq(RUNNING))
        .add(Column::Taken.eq(1))
        .add(Column::Fence.eq(lease.fence))
}

fn lost(lease: &IngestLease) -> Error {
    let message =
        format!("the document {} belongs to another worker now, or is not being read", lease.document.id);
    Error::new(ErrorKind::Conflict, message)
}

fn wanted(number: i64) -> Wanted {
    match number {
        0 => Wanted::GoOn,
        1 => Wanted::Pause,
        _ => Wanted::Cancel,
    }
}

fn ended(wanted: Wanted) -> DocumentState {
    match wanted {
        Wanted::GoOn => DocumentState::Running,
        Wanted::Pause => DocumentState::Paused,
        Wanted::Cancel => DocumentState::Cancelled,
    }
}

/// The final state of a reading that has ended for good.
fn over(settled: &IngestOutcome, wanted: Wanted) -> Option<(DocumentState, &str)> {
    match settled {
        IngestOutcome::Done { message } => Some((DocumentState::Done, message)),
        IngestOutcome::Failed { reason } | IngestOutcome::Abandoned { reason } => {
            Some((DocumentState::Failed, reason))
        }
        IngestOutcome::Stopped => (wanted == Wanted::Cancel).then_some((DocumentState::Cancelled, "")),
        IngestOutcome::RetryAt { .. } | IngestOutcome::Released => None,
    }
}

/// Releases a document and sets its state.
fn into_state(into: DocumentState) -> ColumnChanges<Column> {
    vec![to(Column::State, state(into)), to(Column::Taken, 0_i64), to(Column::Wanted, 0_i64)]
}

/// Releases a document whose new chunks have replaced the old ones.
fn into_done(row: &Model, message: &str) -> ColumnChanges<Column> {
    let mut done = into_state(DocumentState::Done);
    done.extend([
        to(Column::Progress, 1_f64),
        to(Column::Message, text(message)),
        to(Column::ChunkCount, row.new_chunks),
        to(Column::TokenCount, row.new_tokens),
        (Column::Unindexed, index_note::next()),
    ]);
    done
}

/// Stops a document that no worker has.
async fn stop_now(
    transaction: &DatabaseTransaction,
    key: &DocumentKey,
    how: Wanted,
    now_ms: i64,
) -> Result<(), DbErr> {
    if how == Wanted::Cancel {
        fresh::forget(transaction, key).await?;
    }
    let mut stopped = into_state(ended(how));
    stopped.push(to(Column::UpdatedMs, now_ms));
    change(transaction, document::of(key), stopped).await.map(drop)
}

/// The document as a worker gets it, from the row as it was before being taken.
fn just_taken(row: Model, now_ms: i64) -> Result<TakenDocument> {
    let lease = IngestLease { document: row.key(), fence: row.fence + 1 };
    let stage: IngestStage = ids::read_word(&row.stage, || format!("the document `{}`", row.id))?;
    let attempts = u32::try_from(row.attempts + 1).unwrap_or(u32::MAX);
    let begun_ms = row.begun_ms.or(Some(now_ms));
    let document = Model { begun_ms, ..row }.into_document()?;
    Ok(TakenDocument { lease, document, stage, attempts })
}

impl Store {
    /// Returns the first missing document if there is one, otherwise those that were queued.
    async fn queue_documents(
        &self,
        dataset: &DatasetKey,
        ids: &[DocumentId],
        now_ms: i64,
    ) -> Result<Result<Vec<DocumentId>, DocumentId>, DbErr> {
        let transaction = self.begin().await?;
        // A change of the embedder checks under this lock whether a document is being read.
        dataset::Entity::find().filter(dataset::of(dataset)).lock_exclusive().one(&*transaction).await?;
        let mut queued = Vec::new();
        for id in ids {
            let key = DocumentKey::new(dataset, id.clone());
            let Some(row) = document::locked(&transaction, &key).await? else { return Ok(Err(id.clone())) };
            let mut fields = vec![to(Column::Wanted, 0_i64), to(Column::UpdatedMs, now_ms)];
            let asked = (row.state == RUNNING).then(|| wanted(row.wanted));
            if asked == Some(Wanted::GoOn) {
                continue;
            }
            // A pause that the worker has not noticed yet is simply withdrawn. A cancelled document is read from the
            // beginning: a worker that still has it has lost it.
            if asked != Some(Wanted::Pause) {
                fields.extend([
                    to(Column::State, RUNNING),
                    to(Column::Taken, 0_i64),
                    to(Column::AtMs, now_ms),
                    to(Column::Attempts, 0_i64),
                ]);
                // Only a paused or failed document has something to continue with.
                let goes_on = row.state == state(DocumentState::Paused)
                    || (row.state == state(DocumentState::Failed)
                        && fresh::is_there(&transaction, &key).await?);
                if !goes_on {
                    fresh::forget(&transaction, &key).await?;
                    fields.extend([
                        to(Column::Stage, READING),
                        to(Column::Progress, 0_f64),
                        to(Column::Message, ""),
                        to(Column::BegunMs, None::<i64>),
                        to(Column::DurationMs, 0_i64),
                    ]);
                }
            }
            change(&transaction, document::of(&key), fields).await?;
            queued.push(id.clone());
        }
        transaction.commit().await?;
        Ok(Ok(queued))
    }

    async fn stop_document(&self, key: &DocumentKey, how: Wanted, now_ms: i64) -> Result<Result<()>, DbErr> {
        let transaction = self.begin().await?;
        let Some(row) = document::locked(&transaction, key).await? else {
            return Ok(Err(document::missing(key)));
        };
        let asleep = row.state == state(DocumentState::Paused);
        // A worker that has become silent will not notice the request, so the document is treated as if no worker had
        // it.
        if row.state == RUNNING && row.taken != 0 && row.at_ms > now_ms {
            // A pause does not withdraw a cancellation.
            let how = std::cmp::max(row.wanted, if how == Wanted::Cancel { 2 } else { 1 });
            let asked = vec![to(Column::Wanted, how), to(Column::UpdatedMs, now_ms)];
            change(&transaction, document::of(key), asked).await?;
        } else if row.state == RUNNING || (asleep && how == Wanted::Cancel) {
            stop_now(&transaction, key, how, now_ms).await?;
        } else if !asleep {
            let message = format!("the document `{}` is not being read", key.id);
            return Ok(Err(Error::new(ErrorKind::Conflict, message)));
        }
        transaction.commit().await?;
        Ok(Ok(()))
    }

    /// Takes the document that was just read, unless another process was faster.
    async fn take_document(&self, row: &Model, now_ms: i64, until_ms: i64) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        // Everything on which the decision below depends: if any of it has changed, the decision is void.
        let same = document::of(&row.key())
            .add(Column::State.eq(RUNNING))
            .add(Column::AtMs.eq(row.at_ms))
            .add(Column::Fence.eq(row.fence))
            .add(Column::Taken.eq(row.taken))
            .add(Column::Wanted.eq(row.wanted));
        let stopped = wanted(row.wanted);
        let fields = match stopped {
            Wanted::GoOn => vec![
                to(Column::Taken, 1_i64),
                to(Column::TakenMs, now_ms),
                to(Column::AtMs, until_ms),
                to(Column::Fence, row.fence + 1),
                to(Column::Attempts, row.attempts + 1),
                to(Column::BegunMs, row.begun_ms.unwrap_or(now_ms)),
            ],
            // Its worker has disappeared without noticing the request to stop.
            Wanted::Pause | Wanted::Cancel => into_state(ended(stopped)),
        };
        let changed = change(&transaction, same, fields).await?;
        if changed > 0 && stopped == Wanted::Cancel {
            fresh::forget(&transaction, &row.key()).await?;
        }
        transaction.commit().await?;
        Ok(changed > 0 && stopped == Wanted::GoOn)
    }

    /// The document of a lease, locked; `None` when the lease is lost.
    pub(crate) async fn lease(
        &self,
        transaction: &DatabaseTransaction,
        lease: &IngestLease,
    ) -> Result<Option<Model>, DbErr> {
        Entity::find().filter(held(lease)).lock_exclusive().one(transaction).await
    }

    async fn write_new(
        &self,
        lease: &IngestLease,
        rows: &[chunk::Model],
        stage: &str,
    ) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        if self.lease(&transaction, lease).await?.is_none() {
            return Ok(false);
        }
        // From an interrupted attempt. Ids are derived from texts, so the new chunks would collide with them.
        fresh::forget_chunks(&transaction, &lease.document).await?;
        let (chunks, tokens) = chunk::counted(rows.iter());
        chunk::insert(&transaction, rows.to_vec()).await?;
        let fields =
            vec![to(Column::Stage, stage), to(Column::NewChunks, chunks), to(Column::NewTokens, tokens)];
        change(&transaction, held(lease), fields).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn settle_document(
        &self,
        lease: &IngestLease,
        settled: &IngestOutcome,
        now_ms: i64,
    ) -> Result<bool, DbErr> {
        let transaction = self.begin().await?;
        let Some(row) = self.lease(&transaction, lease).await? else { return Ok(false) };
        let key = &lease.document;
        // The clocks of workers differ: one that is behind must not reduce the duration.
        let spent = row.duration_ms + std::cmp::max(now_ms.saturating_sub(row.taken_ms), 0);
        let again = |from_ms: i64| vec![to(Column::Taken, 0_i64), to(Column::AtMs, from_ms)];
        let mut fields = match settled {
            IngestOutcome::Done { message } => {
                fresh::swap(&transaction, key).await?;
                document_extra::swap(&transaction, key).await?;
                let mut done = into_done(&row, message);
                done.push(to(Column::Picture, picture::first(&transaction, key).await?));
                kept_picture::forget_unnamed(&transaction, key).await?;
                done
            }
            IngestOutcome::Failed { reason } => {
                fresh::forget(&transaction, key).await?;
                let mut failed = into_state(DocumentState::Failed);
                failed.push(to(Column::Message, text(reason)));
                failed
            }
            // Its fresh chunks stay: when it is queued again, reading continues with them.
            IngestOutcome::Abandoned { reason } => {
                let mut failed = into_state(DocumentState::Failed);
                failed.push(to(Column::Message, text(reason)));
                failed
            }
            IngestOutcome::RetryAt { from_ms, reason } => {
                let mut waiting = again(*from_ms);
                waiting.push(to(Column::Message, text(reason)));
                waiting
            }
            IngestOutcome::Stopped => match wanted(row.wanted) {
                Wanted::GoOn => again(now_ms),
                how => {
                    if how == Wanted::Cancel {
                        fresh::forget(&transaction, key).await?;
                    }
                    into_state(ended(how))
                }
            },
            IngestOutcome::Released => {
                let mut waiting = again(now_ms);
                // A worker that is told to shut down has not failed on the document.
                waiting.push(to(Column::Attempts, std::cmp::max(row.attempts - 1, 0)));
                waiting
            }
        };
        fields.extend([to(Column::DurationMs, spent), to(Column::UpdatedMs, now_ms)]);
        change(&transaction, held(lease), fields).await?;
        if let Some((state, message)) = over(settled, wanted(row.wanted)) {
            let ended = reading::Ended { state, message, at_ms: now_ms, duration_ms: spent };
            reading::note(&transaction, &row, ended).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    fn kept(&self, lease: &IngestLease, doing: &str, outcome: Result<bool, DbErr>) -> Result<()> {
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost(lease)),
            Err(error) => Err(self.fail(doing, error)),
        }
    }
}

#[async_trait]
impl IngestQueue for Store {
    async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId], now_ms: i64) -> Result<Vec<DocumentId>> {
        let queued = repeated(|| self.queue_documents(dataset, ids, now_ms)).await;
        let missing = |id| document::missing(&DocumentKey::new(dataset, id));
        queued.map_err(|error| self.fail("queue the documents", error))?.map_err(missing)
    }

    async fn stop(&self, document: &DocumentKey, wanted: Wanted, now_ms: i64) -> Result<()> {
        if wanted == Wanted::GoOn {
            return Err(Error::invalid("a document cannot be stopped by continuing it")
                .help("queue the document instead"));
        }
        let stopped = repeated(|| self.stop_document(document, wanted, now_ms)).await;
        stopped.map_err(|error| self.fail("stop the document", error))?
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenDocument>> {
        const DOING: &str = "take documents";
        let ready = self.ready(now_ms, count_max).await.map_err(|error| self.fail(DOING, error))?;
        let mut taken = Vec::new();
        for row in ready {
            let attempt = repeated(|| self.take_document(&row, now_ms, until_ms)).await;
            if !attempt.map_err(|error| self.fail(DOING, error))? {
                continue;
            }
            taken.extend(readable([just_taken(row, now_ms)]));
        }
        Ok(taken)
    }

    async fn report(&self, lease: &IngestLease, progress: &IngestProgress, until_ms: i64) -> Result<Wanted> {
        let stage = ids::word(&progress.stage)?;
        let report = async || {
            let transaction = self.begin().await?;
            let Some(row) = self.lease(&transaction, lease).await? else { return Ok(None) };
            let fields = vec![
                to(Column::Stage, stage.as_str()),
                to(Column::Progress, progress.share.clamp(0.0, 1.0)),
                to(Column::Message, text(&progress.message)),
                to(Column::AtMs, until_ms),
            ];
            change(&transaction, held(lease), fields).await?;
            transaction.commit().await?;
            Ok(Some(wanted(row.wanted)))
        };
        let wanted =
            repeated(report).await.map_err(|error| self.fail("report the progress of a document", error))?;
        wanted.ok_or_else(|| lost(lease))
    }

    async fn put_new(&self, lease: &IngestLease, chunks: &[StoredChunk], stage: IngestStage) -> Result<()> {
        let rows: Vec<chunk::Model> =
            chunks.iter().map(|chunk| chunk::Model::new(chunk, Age::Fresh)).collect::<Result<_>>()?;
        let stage = ids::word(&stage)?;
        let written = repeated(|| self.write_new(lease, &rows, &stage)).await;
        self.kept(lease, "store the new chunks", written)
    }

    async fn add_new(&self, lease: &IngestLease, chunks: &[StoredChunk]) -> Result<()> {
        let row = |chunk| chunk::Model::new(chunk, Age::Fresh);
        let rows: Vec<chunk::Model> = chunks.iter().map(row).collect::<Result<_>>()?;
        let written = repeated(|| self.add_fresh(lease, chunks, &rows)).await;
        self.kept(lease, "store more new chunks", written)
    }

    async fn new_chunks(
        &self,
        lease: &IngestLease,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<StoredChunk>> {
        let fail = |error| self.fail("read the new chunks", error);
        let db = &self.inner.read;
        // Its next owner may be reading it again, and mixing pages of both readings would be inconsistent.
        if Entity::find().filter(held(lease)).count(db).await.map_err(fail)? == 0 {
            return Err(lost(lease));
        }
        let mut found = chunk::Entity::find().filter(chunk::of_age(&lease.document, Age::Fresh));
        if let Some(after) = after {
            found = found.filter(chunk::Column::Ordinal.gt(ids::number(after)));
        }
        let rows =
            found.order_by_asc(chunk::Column::Ordinal).limit(bounded(limit)).all(db).await.map_err(fail)?;
        chunk::with_vectors(db, rows, Age::Fresh).await.map_err(fail)?
    }

    async fn amend_new(&self, lease: &IngestLease, amended: &[Amended]) -> Result<()> {
        let json = |words: &Option<Vec<String>>| words.as_ref().map(ids::json).transpose();
        let with = |one: &Amended| Ok((one.clone(), [json(&one.keywords)?, json(&one.questions)?]));
        let amended: Vec<_> = amended.iter().map(with).collect::<Result<_>>()?;
        let written = repeated(|| self.amend(lease, &amended)).await;
        self.kept(lease, "store what was added to chunks", written)
    }

    async fn put_new_extra(&self, lease: &IngestLease, extra: Extra, value: &Json) -> Result<()> {
        let value = ids::json(value)?;
        let write = async || {
            let transaction = self.begin().await?;
            if self.lease(&transaction, lease).await?.is_none() {
                return Ok(false);
            }
            document_extra::put_fresh(&transaction, &lease.document, extra, &value).await?;
            transaction.commit().await?;
            Ok(true)
        };
        let written = repeated(write).await;
        self.kept(lease, "store what is made of the document", written)
    }

    async fn count_pictures(
        &self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Vec<String>> {
        let counted = repeated(|| self.note_pictures(lease, pictures, bytes_max)).await;
        counted.map_err(|error| self.fail("count the pictures", error))?.ok_or_else(|| lost(lease))
    }

    async fn unindexed(&self, document: &DocumentKey) -> Result<IndexNote> {
        self.note_unindexed(document).await
    }

    async fn all_unindexed(&self, dataset: &DatasetKey) -> Result<()> {
        self.note_all_unindexed(dataset).await
    }

    async fn indexed(&self, document: &DocumentKey, number: i64) -> Result<bool> {
        self.note_indexed(document, number).await
    }

    async fn to_index(&self, filter: &NotedFilter) -> Result<Vec<DocumentKey>> {
        self.list_noted(filter).await
    }

    async fn to_be_found(&self, dataset: &DatasetKey) -> Result<ToBeFound> {
        self.count_to_be_found(dataset).await
    }

    async fn expect_file(&self, document: &DocumentKey, blob: &str, from_ms: i64) -> Result<()> {
        self.note_expected(document, blob, from_ms).await
    }

    async fn removed(&self, now_ms: i64, count_max: u64) -> Result<Vec<Removed>> {
        self.list_removed(now_ms, count_max).await
    }

    async fn forget(&self, dataset: &DatasetKey, document: Option<&DocumentId>, now_ms: i64) -> Result<()> {
        self.forget_removed(dataset, document, now_ms).await
    }

    async fn settle(&self, lease: &IngestLease, settled: &IngestOutcome, now_ms: i64) -> Result<()> {
        let written = repeated(|| self.settle_document(lease, settled, now_ms)).await;
        self.kept(lease, "store the outcome of the document", written)
    }
}
