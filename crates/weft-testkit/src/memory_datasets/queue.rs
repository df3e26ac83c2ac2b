//! An in-memory queue of documents.

use std::collections::{HashMap, VecDeque};

use weft_core::id::{DatasetKey, DocumentId, DocumentKey};
use weft_core::seam::dataset_store::{DocumentState, Extra, IngestStage, StoredChunk};
use weft_core::seam::ingest_queue::{
    Amended, IndexNote, IngestLease, IngestOutcome, IngestProgress, IngestQueue, NotedFilter, PictureSize,
    Removed, TakenDocument, TenantBacklog, ToBeFound, Wanted, in_turns,
};
use weft_core::value::Json;
use weft_core::{Error, Result, async_trait};

use super::{
    DatasetTables, KeptChunk, KeptDocument, MemoryDatasets, at, bounded, conflict, extra_number, missing,
};

impl KeptDocument {
    /// Stops counting pictures that no chunk refers to.
    fn forget_unnamed(&mut self) {
        let chunks = &self.chunks;
        let named = |name: &String| chunks.iter().any(|one| one.chunk.picture.as_ref() == Some(name));
        self.pictures.retain(|name, _| named(name));
    }

    fn end(&mut self, state: DocumentState) {
        self.document.state = state;
        self.taken_ms = None;
        self.wanted = Wanted::GoOn;
    }

    fn stop(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::GoOn => self.taken_ms = None,
            Wanted::Pause => self.end(DocumentState::Paused),
            Wanted::Cancel => {
                self.forget_fresh();
                self.end(DocumentState::Cancelled);
            }
        }
    }

    fn go_on(&mut self, now_ms: i64) {
        self.end(DocumentState::Running);
        (self.at_ms, self.attempts) = (now_ms, 0);
    }

    pub(super) fn forget_fresh(&mut self) {
        self.fresh.clear();
        self.fresh_extras.clear();
    }

    fn queue(&mut self, now_ms: i64) -> bool {
        match self.document.state {
            DocumentState::Running if self.wanted == Wanted::Pause => self.wanted = Wanted::GoOn,
            DocumentState::Running if self.wanted == Wanted::GoOn => return false,
            DocumentState::Paused => self.go_on(now_ms),
            DocumentState::Failed if !self.fresh.is_empty() => self.go_on(now_ms),
            DocumentState::Unstarted
            | DocumentState::Running
            | DocumentState::Cancelled
            | DocumentState::Done
            | DocumentState::Failed => {
                self.end(DocumentState::Running);
                self.forget_fresh();
                (self.at_ms, self.attempts, self.stage) = (now_ms, 0, IngestStage::Reading);
                let document = &mut self.document;
                (document.progress, document.begun_ms, document.duration_ms) = (0.0, None, 0);
                document.message.clear();
            }
        }
        self.document.updated_ms = now_ms;
        true
    }
}

impl MemoryDatasets {
    fn with_lease<T>(&self, lease: &IngestLease, change: impl FnOnce(&mut KeptDocument) -> T) -> Result<T> {
        Ok(change(self.tables().leased(lease)?))
    }
}

impl DatasetTables {
    /// The document, if this lease is the current one.
    pub(super) fn leased(&mut self, lease: &IngestLease) -> Result<&mut KeptDocument> {
        let place = (at(&lease.document.dataset), lease.document.id.clone());
        let held = |kept: &&mut KeptDocument| {
            kept.fence == lease.fence
                && kept.taken_ms.is_some()
                && kept.document.state == DocumentState::Running
        };
        self.documents.get_mut(&place).filter(held).ok_or_else(|| {
            conflict(format!("the document {} belongs to another worker now", lease.document.id))
        })
    }
}

#[async_trait]
impl IngestQueue for MemoryDatasets {
    async fn queue(&self, dataset: &DatasetKey, ids: &[DocumentId], now_ms: i64) -> Result<Vec<DocumentId>> {
        let mut tables = self.tables();
        let place = |id: &DocumentId| (at(dataset), id.clone());
        if let Some(id) = ids.iter().find(|id| !tables.documents.contains_key(&place(id))) {
            return Err(missing(&DocumentKey::new(dataset, id.clone())));
        }
        let mut queued = Vec::new();
        for id in ids {
            if tables.documents.get_mut(&place(id)).is_some_and(|kept| kept.queue(now_ms)) {
                queued.push(id.clone());
            }
        }
        Ok(queued)
    }

    async fn stop(&self, document: &DocumentKey, wanted: Wanted, now_ms: i64) -> Result<()> {
        if wanted == Wanted::GoOn {
            return Err(Error::invalid("a document cannot be stopped by continuing it"));
        }
        let mut tables = self.tables();
        let kept = tables.kept(document)?;
        match kept.document.state {
            DocumentState::Running if kept.taken_ms.is_some() && kept.at_ms > now_ms => {
                if kept.wanted != Wanted::Cancel {
                    kept.wanted = wanted;
                }
            }
            DocumentState::Running => kept.stop(wanted),
            DocumentState::Paused if wanted == Wanted::Cancel => kept.stop(wanted),
            DocumentState::Paused => {}
            DocumentState::Unstarted
            | DocumentState::Cancelled
            | DocumentState::Done
            | DocumentState::Failed => {
                return Err(conflict(format!("the document `{}` is not being read", document.id)));
            }
        }
        kept.document.updated_ms = now_ms;
        Ok(())
    }

    async fn take(&self, now_ms: i64, until_ms: i64, count_max: u64) -> Result<Vec<TakenDocument>> {
        let mut tables = self.tables();
        let ready =
            |kept: &&mut KeptDocument| kept.document.state == DocumentState::Running && kept.at_ms <= now_ms;
        let mut reading = HashMap::new();
        let under_way = |kept: &&KeptDocument| {
            kept.document.state == DocumentState::Running && kept.at_ms > now_ms && kept.taken_ms.is_some()
        };
        for kept in tables.documents.values().filter(under_way) {
            *reading.entry(kept.document.key.dataset.tenant.clone()).or_default() += 1;
        }
        let mut found: Vec<&mut KeptDocument> = tables.documents.values_mut().filter(ready).collect();
        found.sort_by_key(|kept| (kept.at_ms, kept.document.key.id.clone()));
        let mut waiting: Vec<TenantBacklog<&mut KeptDocument>> = Vec::new();
        for kept in found {
            let (tenant, entry) = (kept.document.key.dataset.tenant.clone(), (kept.at_ms, kept));
            match waiting.iter_mut().find(|one| one.tenant == tenant) {
                Some(one) => one.line.push_back(entry),
                None => waiting.push(TenantBacklog { tenant, line: VecDeque::from([entry]) }),
            }
        }
        let mut taken = Vec::new();
        for kept in in_turns(waiting, reading, bounded(count_max)) {
            if kept.wanted != Wanted::GoOn {
                kept.stop(kept.wanted);
                continue;
            }
            kept.fence += 1;
            kept.attempts += 1;
            (kept.taken_ms, kept.at_ms) = (Some(now_ms), until_ms);
            kept.document.begun_ms.get_or_insert(now_ms);
            taken.push(TakenDocument {
                lease: IngestLease { document: kept.document.key.clone(), fence: kept.fence },
                document: kept.document.clone(),
                stage: kept.stage,
                attempts: kept.attempts,
            });
        }
        Ok(taken)
    }

    async fn report(&self, lease: &IngestLease, progress: &IngestProgress, until_ms: i64) -> Result<Wanted> {
        self.with_lease(lease, |kept| {
            (kept.stage, kept.at_ms) = (progress.stage, until_ms);
            kept.document.progress = progress.share.clamp(0.0, 1.0);
            kept.document.message.clone_from(&progress.message);
            kept.wanted
        })
    }

    async fn put_new(&self, lease: &IngestLease, chunks: &[StoredChunk], stage: IngestStage) -> Result<()> {
        self.with_lease(lease, |kept| {
            let new = |chunk: &StoredChunk| KeptChunk::read(&StoredChunk { vector: None, ..chunk.clone() });
            kept.fresh = chunks.iter().map(new).collect();
            kept.stage = stage;
        })
    }

    async fn add_new(&self, lease: &IngestLease, chunks: &[StoredChunk]) -> Result<()> {
        self.with_lease(lease, |kept| {
            kept.attempts = 0;
            kept.fresh.extend(chunks.iter().map(KeptChunk::read));
        })
    }

    async fn new_chunks(
        &self,
        lease: &IngestLease,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<StoredChunk>> {
        self.with_lease(lease, |kept| {
            let later = |chunk: &&KeptChunk| after.is_none_or(|after| chunk.chunk.ordinal > after);
            let mut found: Vec<_> =
                kept.fresh.iter().filter(later).map(|chunk| chunk.chunk.clone()).collect();
            found.sort_by_key(|chunk| chunk.ordinal);
            found.truncate(bounded(limit));
            found
        })
    }

    async fn amend_new(&self, lease: &IngestLease, amended: &[Amended]) -> Result<()> {
        self.with_lease(lease, |kept| {
            if !amended.is_empty() {
                kept.attempts = 0;
            }
            for one in amended {
                let Some(found) = kept.fresh.iter_mut().find(|chunk| chunk.chunk.id == one.id) else {
                    continue;
                };
                let Amended { keywords, questions, vector, .. } = one.clone();
                let chunk = &mut found.chunk;
                chunk.keywords = keywords.unwrap_or_else(|| chunk.keywords.clone());
                chunk.questions = questions.unwrap_or_else(|| chunk.questions.clone());
                chunk.vector = vector.or_else(|| chunk.vector.clone());
            }
        })
    }

    async fn put_new_extra(&self, lease: &IngestLease, extra: Extra, value: &Json) -> Result<()> {
        self.with_lease(lease, |kept| {
            kept.fresh_extras.insert(extra_number(extra), value.clone());
        })
    }

    async fn count_pictures(
        &self,
        lease: &IngestLease,
        pictures: &[PictureSize],
        bytes_max: u64,
    ) -> Result<Vec<String>> {
        self.tables().count_pictures(lease, pictures, bytes_max)
    }

    async fn unindexed(&self, document: &DocumentKey) -> Result<IndexNote> {
        self.note_unindexed(document)
    }

    async fn all_unindexed(&self, dataset: &DatasetKey) -> Result<()> {
        self.note_all_unindexed(dataset);
        Ok(())
    }

    async fn indexed(&self, document: &DocumentKey, number: i64) -> Result<bool> {
        Ok(self.note_indexed(document, number))
    }

    async fn to_index(&self, filter: &NotedFilter) -> Result<Vec<DocumentKey>> {
        Ok(self.noted(filter))
    }

    async fn to_be_found(&self, dataset: &DatasetKey) -> Result<ToBeFound> {
        Ok(self.count_to_be_found(dataset))
    }

    async fn expect_file(&self, document: &DocumentKey, blob: &str, from_ms: i64) -> Result<()> {
        let DocumentKey { dataset, id } = document.clone();
        let note = Removed { dataset, document: Some(id), blob: blob.to_owned() };
        self.tables().leave((note, from_ms));
        Ok(())
    }

    async fn removed(&self, now_ms: i64, count_max: u64) -> Result<Vec<Removed>> {
        Ok(self.list_removed(now_ms, count_max))
    }

    async fn forget(&self, dataset: &DatasetKey, document: Option<&DocumentId>, now_ms: i64) -> Result<()> {
        self.forget_removed(dataset, document, now_ms);
        Ok(())
    }

    async fn settle(&self, lease: &IngestLease, settled: &IngestOutcome, now_ms: i64) -> Result<()> {
        let over = self.with_lease(lease, |kept| {
            let spent = now_ms.saturating_sub(kept.taken_ms.unwrap_or(now_ms)).max(0);
            kept.document.duration_ms += spent;
            kept.document.updated_ms = now_ms;
            match settled {
                IngestOutcome::Done { message } => {
                    kept.chunks = std::mem::take(&mut kept.fresh);
                    kept.extras.extend(std::mem::take(&mut kept.fresh_extras));
                    kept.extras.retain(|_, value| !value.is_null());
                    kept.count();
                    kept.document.picture = kept.first_picture();
                    kept.forget_unnamed();
                    kept.note();
                    kept.document.progress = 1.0;
                    kept.document.message.clone_from(message);
                    kept.end(DocumentState::Done);
                }
                IngestOutcome::Failed { reason } => {
                    kept.forget_fresh();
                    kept.document.message.clone_from(reason);
                    kept.end(DocumentState::Failed);
                }
                IngestOutcome::Abandoned { reason } => {
                    kept.document.message.clone_from(reason);
                    kept.end(DocumentState::Failed);
                }
                IngestOutcome::RetryAt { from_ms, reason } => {
                    kept.document.message.clone_from(reason);
                    (kept.taken_ms, kept.at_ms) = (None, *from_ms);
                }
                IngestOutcome::Stopped => {
                    kept.at_ms = now_ms;
                    kept.stop(kept.wanted);
                }
                IngestOutcome::Released => {
                    (kept.taken_ms, kept.at_ms) = (None, now_ms);
                    kept.attempts = kept.attempts.saturating_sub(1);
                }
            }
            kept.over(now_ms)
        })?;
        if let Some(reading) = over {
            self.tables().note(reading);
        }
        Ok(())
    }
}
