//! In-memory tasks that recompute all vectors of a dataset.

use std::collections::HashMap;

use weft_core::id::{ChunkId, DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::ReembeddingStore;
use weft_core::seam::dataset_store::{DocumentState, IngestStage};
use weft_core::seam::reembedding_store::{
    NumberedDocument, Reembedding, ReembeddingLease, ReembeddingOutcome, ReembeddingProgress,
    ReembeddingState, TakenReembedding,
};
use weft_core::{Error, Result, async_trait};

use super::{DatasetTables, KeptDocument, MemoryDatasets, at, bounded, conflict};

/// A task with its position in the queue.
#[derive(Debug)]
pub(super) struct KeptReembedding {
    task: Reembedding,
    is_littered: bool,
    is_taken: bool,
    at_ms: i64,
    fence: i64,
    attempts: u32,
}

impl KeptReembedding {
    fn end(&mut self, state: ReembeddingState, message: &str, now_ms: i64) {
        self.task.state = state;
        self.task.message = message.to_owned();
        self.task.ended_ms = Some(now_ms);
        (self.is_littered, self.is_taken, self.at_ms) = (true, false, now_ms);
    }
}

fn lost() -> Error {
    conflict("these new vectors are no longer this worker's")
}

impl KeptDocument {
    fn is_staged(&self) -> bool {
        self.staged == Some(self.unindexed.abs())
    }

    fn numbered(&self) -> NumberedDocument {
        NumberedDocument { id: self.document.key.id.clone(), number: self.unindexed.abs() }
    }
}

impl DatasetTables {
    fn task(&mut self, lease: &ReembeddingLease) -> Result<&mut KeptReembedding> {
        let kept = self.reembeddings.get_mut(&at(&lease.dataset));
        kept.filter(|kept| kept.is_taken && kept.fence == lease.fence).ok_or_else(lost)
    }

    fn all_of(&mut self, key: &DatasetKey) -> impl Iterator<Item = &mut KeptDocument> {
        let at = at(key);
        self.documents.iter_mut().filter(move |((of, _), _)| *of == at).map(|(_, kept)| kept)
    }
}

#[async_trait]
impl ReembeddingStore for MemoryDatasets {
    async fn begin(&self, dataset: &DatasetKey, embedder: &str, now_ms: i64) -> Result<()> {
        let mut tables = self.tables();
        tables.dataset(dataset)?;
        let before = tables.reembeddings.get(&at(dataset));
        if before.is_some_and(|before| before.task.state == ReembeddingState::Running) {
            return Err(conflict("the dataset is getting new vectors already"));
        }
        let task = Reembedding {
            dataset: dataset.clone(),
            embedder: embedder.to_owned(),
            state: ReembeddingState::Running,
            progress: 0.0,
            message: String::new(),
            begun_ms: now_ms,
            ended_ms: None,
        };
        let new = KeptReembedding {
            task,
            is_littered: true,
            is_taken: false,
            at_ms: before.map_or(now_ms, |before| before.at_ms.max(now_ms)),
            fence: before.map_or(0, |before| before.fence + 1),
            attempts: 0,
        };
        tables.reembeddings.insert(at(dataset), new);
        Ok(())
    }

    async fn last(&self, dataset: &DatasetKey) -> Result<Option<Reembedding>> {
        Ok(self.tables().reembeddings.get(&at(dataset)).map(|kept| kept.task.clone()))
    }

    async fn cancel(&self, dataset: &DatasetKey, now_ms: i64) -> Result<()> {
        let mut tables = self.tables();
        let kept = tables.reembeddings.get_mut(&at(dataset));
        let running = kept.filter(|kept| kept.task.state == ReembeddingState::Running);
        let kept = running.ok_or_else(|| conflict("the dataset is not getting new vectors"))?;
        kept.fence += 1;
        kept.end(ReembeddingState::Cancelled, "", now_ms);
        Ok(())
    }

    async fn take(&self, now_ms: i64, until_ms: i64) -> Result<Option<TakenReembedding>> {
        let mut tables = self.tables();
        let ready = tables.reembeddings.values_mut().filter(|kept| {
            (kept.task.state == ReembeddingState::Running || kept.is_littered) && kept.at_ms <= now_ms
        });
        let Some(kept) = ready.min_by_key(|kept| kept.at_ms) else { return Ok(None) };
        (kept.is_taken, kept.at_ms) = (true, until_ms);
        (kept.fence, kept.attempts) = (kept.fence + 1, kept.attempts + 1);
        let lease = ReembeddingLease { dataset: kept.task.dataset.clone(), fence: kept.fence };
        let (attempts, is_littered) = (kept.attempts, kept.is_littered);
        Ok(Some(TakenReembedding { lease, task: kept.task.clone(), attempts, is_littered }))
    }

    async fn report(
        &self,
        lease: &ReembeddingLease,
        progress: &ReembeddingProgress,
        until_ms: i64,
    ) -> Result<()> {
        let mut tables = self.tables();
        let kept = tables.task(lease)?;
        kept.at_ms = until_ms;
        kept.task.progress = progress.share.clamp(0.0, 1.0);
        kept.task.message.clone_from(&progress.message);
        Ok(())
    }

    async fn unstaged(
        &self,
        dataset: &DatasetKey,
        after: Option<&DocumentId>,
        limit: u64,
    ) -> Result<Vec<NumberedDocument>> {
        let tables = self.tables();
        let left = tables
            .of(dataset)
            .filter(|kept| !kept.is_staged() && after.is_none_or(|after| kept.document.key.id > *after));
        Ok(left.map(KeptDocument::numbered).take(bounded(limit)).collect())
    }

    async fn staged_vectors(
        &self,
        document: &DocumentKey,
        ids: &[ChunkId],
    ) -> Result<HashMap<ChunkId, Vec<f32>>> {
        let mut tables = self.tables();
        let Ok(kept) = tables.kept(document) else { return Ok(HashMap::new()) };
        let wanted = kept.chunks.iter().filter(|chunk| ids.contains(&chunk.chunk.id));
        Ok(wanted.filter_map(|chunk| Some((chunk.chunk.id.clone(), chunk.next.clone()?))).collect())
    }

    async fn stage(
        &self,
        lease: &ReembeddingLease,
        document: &NumberedDocument,
        vectors: &[(ChunkId, Vec<f32>)],
    ) -> Result<bool> {
        let mut tables = self.tables();
        tables.task(lease)?;
        let key = DocumentKey::new(&lease.dataset, document.id.clone());
        let Ok(kept) = tables.kept(&key) else { return Ok(false) };
        if kept.unindexed.abs() != document.number {
            return Ok(false);
        }
        for (id, vector) in vectors {
            let chunk = kept.chunks.iter_mut().find(|chunk| chunk.chunk.id == *id);
            if let Some(chunk) = chunk {
                chunk.next = Some(vector.clone());
            }
        }
        tables.task(lease)?.attempts = 0;
        Ok(true)
    }

    async fn staged(&self, lease: &ReembeddingLease, documents: &[NumberedDocument]) -> Result<()> {
        let mut tables = self.tables();
        tables.task(lease)?;
        for one in documents {
            if let Ok(kept) = tables.kept(&DocumentKey::new(&lease.dataset, one.id.clone())) {
                kept.staged = Some(one.number);
            }
        }
        Ok(())
    }

    async fn switch(
        &self,
        lease: &ReembeddingLease,
        documents: u64,
        now_ms: i64,
        clear_from_ms: i64,
    ) -> Result<bool> {
        let mut tables = self.tables();
        let task = tables.task(lease)?;
        if task.task.state != ReembeddingState::Running {
            return Err(lost());
        }
        let embedder = task.task.embedder.clone();
        let is_being_read =
            |kept: &KeptDocument| kept.document.state == DocumentState::Running && kept.taken_ms.is_some();
        let ready = |kept: &KeptDocument| kept.is_staged() && !is_being_read(kept);
        if tables.of(&lease.dataset).count() as u64 != documents || !tables.of(&lease.dataset).all(ready) {
            return Ok(false);
        }
        for kept in tables.all_of(&lease.dataset) {
            kept.forget_fresh();
            (kept.stage, kept.staged) = (IngestStage::Reading, None);
            kept.unindexed += if kept.unindexed > 0 { 1 } else { -1 };
            for chunk in &mut kept.chunks {
                std::mem::swap(&mut chunk.chunk.vector, &mut chunk.next);
            }
        }
        let set = tables.datasets.get_mut(&at(&lease.dataset)).ok_or_else(lost)?;
        (set.generation, set.embedder, set.updated_ms) = (set.generation + 1, embedder, now_ms);
        let kept = tables.task(lease)?;
        kept.end(ReembeddingState::Done, "Task done", now_ms);
        (kept.task.progress, kept.at_ms, kept.attempts) = (1.0, clear_from_ms, 0);
        Ok(true)
    }

    async fn clear(&self, lease: &ReembeddingLease) -> Result<()> {
        let mut tables = self.tables();
        tables.task(lease)?.is_littered = false;
        for kept in tables.all_of(&lease.dataset) {
            kept.staged = None;
            kept.chunks.iter_mut().for_each(|chunk| chunk.next = None);
        }
        Ok(())
    }

    async fn settle(
        &self,
        lease: &ReembeddingLease,
        outcome: &ReembeddingOutcome,
        now_ms: i64,
    ) -> Result<()> {
        let mut tables = self.tables();
        let kept = tables.task(lease)?;
        kept.is_taken = false;
        match outcome {
            ReembeddingOutcome::Failed { reason } => kept.end(ReembeddingState::Failed, reason, now_ms),
            ReembeddingOutcome::RetryAt { from_ms, reason } => {
                kept.at_ms = *from_ms;
                kept.task.message.clone_from(reason);
            }
            ReembeddingOutcome::Released { from_ms } => {
                (kept.at_ms, kept.attempts) = (*from_ms, kept.attempts.saturating_sub(1));
            }
            ReembeddingOutcome::Cleared => {
                (kept.at_ms, kept.attempts, kept.is_littered) = (now_ms, 0, false);
            }
        }
        Ok(())
    }
}
