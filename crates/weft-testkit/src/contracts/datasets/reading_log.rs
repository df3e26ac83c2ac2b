//! Contract of the log of readings.

#![expect(clippy::unwrap_used, reason = "a contract fails by panicking")]

use weft_core::ErrorKind::NotFound;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_core::seam::dataset_store::{DocumentState, IngestStage};
use weft_core::seam::ingest_queue::{IngestOutcome, IngestQueue, TakenDocument, Wanted};
use weft_core::seam::reading_log::{READINGS_MAX, Reading, ReadingFilter};
use weft_core::seam::{DatasetStore, ReadingLog};

use super::ingest_queue::done;
use super::{chunk, dataset, document, tenant};
use crate::contracts::refused;

/// Checks the contract of [`ReadingLog`], which is another interface of `store` and `queue`.
pub async fn reading_log_keeps_its_contract(
    store: &dyn DatasetStore,
    queue: &dyn IngestQueue,
    log: &dyn ReadingLog,
) {
    let three = Three { store, queue, log };
    three.a_finished_reading_is_recorded_once().await;
    three.readings_are_filtered_and_paged().await;
    three.only_the_latest_readings_of_a_document_are_kept().await;
    three.readings_are_removed_with_their_subject().await;
    three.old_readings_are_removed().await;
}

struct Three<'a> {
    store: &'a dyn DatasetStore,
    queue: &'a dyn IngestQueue,
    log: &'a dyn ReadingLog,
}

fn all() -> ReadingFilter {
    ReadingFilter { limit: 1_000, ..ReadingFilter::default() }
}

fn failed(reason: &str) -> IngestOutcome {
    IngestOutcome::Failed { reason: reason.to_owned() }
}

impl Three<'_> {
    async fn dataset(&self) -> DatasetKey {
        let new = dataset(&tenant(), "Readings");
        self.store.create(&new).await.unwrap();
        new.key
    }

    async fn document(&self, dataset: &DatasetKey, name: &str) -> DocumentKey {
        let new = document(dataset, name);
        self.store.add_document(&new).await.unwrap();
        new.key
    }

    /// Takes a document at this time. The queue must be empty otherwise.
    async fn taken(&self, document: &DocumentKey, now_ms: i64) -> TakenDocument {
        self.queue.queue(&document.dataset, std::slice::from_ref(&document.id), now_ms).await.unwrap();
        self.queue.take(now_ms, now_ms + 1_000_000, 1).await.unwrap().pop().unwrap()
    }

    /// A reading from one time to another.
    async fn read(&self, document: &DocumentKey, (from_ms, to_ms): (i64, i64), outcome: &IngestOutcome) {
        let taken = self.taken(document, from_ms).await;
        self.queue.settle(&taken.lease, outcome, to_ms).await.unwrap();
    }

    async fn listed(&self, dataset: &DatasetKey, filter: &ReadingFilter) -> Vec<Reading> {
        self.log.readings(dataset, filter).await.unwrap().0
    }

    async fn a_finished_reading_is_recorded_once(&self) {
        let dataset = self.dataset().await;
        let document = self.document(&dataset, "Ä.pdf").await;
        let taken = self.taken(&document, 100).await;
        let chunks = [chunk(&document, 0, "a"), chunk(&document, 1, "b")];
        self.queue.put_new(&taken.lease, &chunks, IngestStage::Indexing).await.unwrap();
        let later = IngestOutcome::RetryAt { from_ms: 200, reason: "busy".into() };
        self.queue.settle(&taken.lease, &later, 150).await.unwrap();
        assert_eq!(self.listed(&dataset, &all()).await, []);
        let taken = self.queue.take(200, 1_000, 1).await.unwrap().pop().unwrap();
        self.queue.settle(&taken.lease, &done(), 260).await.unwrap();
        // A worker that is too late adds no entry.
        self.queue.settle(&taken.lease, &failed("late"), 270).await.unwrap_err();
        let found = self.listed(&dataset, &all()).await;
        assert_eq!(found.len(), 1, "{found:?}");
        let reading = &found[0];
        assert_eq!((reading.name.as_str(), reading.state), ("Ä.pdf", DocumentState::Done));
        assert_eq!((reading.begun_ms, reading.ended_ms, reading.duration_ms), (Some(100), 260, 110));
        assert_eq!((reading.chunk_count, reading.token_count, &*reading.message), (2, 6, "Task done"));
        assert_eq!((&reading.document, reading.settings["a"][1].as_str()), (&document, Some("zwei")));
        assert_eq!(self.log.reading(&dataset.tenant, &reading.id).await.unwrap(), *reading);
        refused(self.log.reading(&tenant(), &reading.id).await, NotFound);

        let taken = self.taken(&document, 300).await;
        self.queue.stop(&document, Wanted::Cancel, 310).await.unwrap();
        self.queue.settle(&taken.lease, &IngestOutcome::Stopped, 320).await.unwrap();
        let last = self.listed(&dataset, &all()).await.remove(0);
        assert_eq!((last.state, last.ended_ms, last.chunk_count), (DocumentState::Cancelled, 320, 0));
    }

    async fn readings_are_filtered_and_paged(&self) {
        let dataset = self.dataset().await;
        let (first, second) =
            (self.document(&dataset, "One.txt").await, self.document(&dataset, "Two.txt").await);
        self.read(&first, (100, 110), &done()).await;
        self.read(&second, (200, 210), &failed("why")).await;
        self.read(&first, (300, 310), &failed("why not")).await;
        let ended = async |filter: ReadingFilter| -> Vec<i64> {
            self.listed(&dataset, &filter).await.iter().map(|reading| reading.ended_ms).collect()
        };
        assert_eq!(ended(all()).await, [310, 210, 110]);
        assert_eq!(ended(ReadingFilter { ascending: true, ..all() }).await, [110, 210, 310]);
        assert_eq!(ended(ReadingFilter { document: Some(first.id.clone()), ..all() }).await, [310, 110]);
        assert_eq!(ended(ReadingFilter { states: vec![DocumentState::Failed], ..all() }).await, [310, 210]);
        assert_eq!(ended(ReadingFilter { keywords: "TWO".into(), ..all() }).await, [210]);
        assert_eq!(ended(ReadingFilter { keywords: "%".into(), ..all() }).await, [0_i64; 0]);
        assert_eq!(ended(ReadingFilter { from_ms: Some(210), ..all() }).await, [310, 210]);
        assert_eq!(ended(ReadingFilter { from_ms: Some(111), to_ms: Some(210), ..all() }).await, [210]);
        let page = ReadingFilter { offset: 1, limit: 1, ..all() };
        let (found, total) = self.log.readings(&dataset, &page).await.unwrap();
        assert_eq!((found[0].ended_ms, found.len(), total), (210, 1, 3));
        let far = ReadingFilter { offset: u64::MAX, limit: u64::MAX, ..all() };
        assert_eq!(ended(far).await, [0_i64; 0]);
        assert_eq!(self.listed(&self.dataset().await, &all()).await, []);
    }

    async fn only_the_latest_readings_of_a_document_are_kept(&self) {
        let dataset = self.dataset().await;
        let (often, once) = (self.document(&dataset, "often").await, self.document(&dataset, "once").await);
        self.read(&once, (1, 2), &done()).await;
        let times = i64::try_from(READINGS_MAX).unwrap() + 3;
        for time in 1..=times {
            self.read(&often, (1_000 * time, 1_000 * time + 1), &failed("again")).await;
        }
        let of_it = ReadingFilter { document: Some(often.id.clone()), ..all() };
        let found = self.listed(&dataset, &of_it).await;
        assert_eq!(found.len() as u64, READINGS_MAX);
        assert_eq!((found[0].ended_ms, found.last().unwrap().ended_ms), (1_000 * times + 1, 4_001));
        assert_eq!(self.listed(&dataset, &all()).await.len() as u64, READINGS_MAX + 1);
    }

    async fn readings_are_removed_with_their_subject(&self) {
        let dataset = self.dataset().await;
        let (gone, stays) = (self.document(&dataset, "gone").await, self.document(&dataset, "stays").await);
        self.read(&gone, (1, 2), &done()).await;
        self.read(&stays, (3, 4), &done()).await;
        self.store.remove_documents(&dataset, std::slice::from_ref(&gone.id)).await.unwrap();
        let found = self.listed(&dataset, &all()).await;
        assert_eq!(found.iter().map(|reading| &reading.document).collect::<Vec<_>>(), [&stays]);
        self.store.remove(&dataset).await.unwrap();
        assert_eq!(self.listed(&dataset, &all()).await, []);
        refused(self.log.reading(&dataset.tenant, &found[0].id).await, NotFound);
    }

    async fn old_readings_are_removed(&self) {
        let dataset = self.dataset().await;
        let document = self.document(&dataset, "x").await;
        // Older than everything else.
        self.read(&document, (-50, -40), &done()).await;
        self.read(&document, (-30, -20), &done()).await;
        assert_eq!(self.log.forget_readings(-20).await.unwrap(), 1);
        assert_eq!(self.log.forget_readings(-20).await.unwrap(), 0);
        assert_eq!(self.listed(&dataset, &all()).await.len(), 1);
    }
}
