//! Chunks that are added while a document is being processed.

use weft_core::ErrorKind::Conflict;
use weft_core::id::ChunkId;
use weft_core::seam::dataset_store::{Document, DocumentQuota, IngestStage, StoredChunk};
use weft_core::seam::ingest_queue::PictureSize;

use super::{Both, done};
use crate::contracts::datasets::{chunk, document};
use crate::contracts::refused;

impl Both<'_> {
    pub(super) async fn new_chunks_are_added(&self) {
        let made = self.queued().await;
        let first = self.one(1_000, 2_000).await;
        let mut expected = vec![chunk(&made.key, 0, "text")];
        self.queue.put_new(&first.lease, &expected, IngestStage::Summarizing).await.unwrap();
        let more = |n: u64| StoredChunk {
            vector: Some(vec![0.5, 1.0]),
            picture: Some(format!("picture {n}")),
            ..chunk(&made.key, n, &format!("more {n}"))
        };
        self.queue.add_new(&first.lease, &[more(1), more(2)]).await.unwrap();
        self.queue.add_new(&first.lease, &[more(3)]).await.unwrap();
        expected.extend([more(1), more(2), more(3)]);
        assert_eq!(self.queue.new_chunks(&first.lease, None, 9).await.unwrap(), expected);
        // Another worker continues there, and the first one has lost the lease.
        let second = self.one(2_500, 3_500).await;
        assert_eq!((second.stage, second.attempts), (IngestStage::Summarizing, 1));
        let late = self.queue.add_new(&first.lease, &[more(4)]).await;
        refused(late, Conflict);
        self.queue.settle(&second.lease, &done(), 2_600).await.unwrap();
        assert_eq!(self.found(&made).await, expected);
        let document = self.store.document(&made.key).await.unwrap();
        assert_eq!((document.chunk_count, document.picture.as_deref()), (4, Some("picture 1")));
        self.pictures_remain_with_their_chunks(&made).await;
        self.pictures_count_towards_the_quota().await;
        self.store.reset_document(&made.key, 2_700).await.unwrap();
        assert_eq!(self.store.document(&made.key).await.unwrap().picture, None);
    }

    /// A document whose chunks 1 to 3 have a picture each, the first of which is the document's own.
    async fn pictures_remain_with_their_chunks(&self, made: &Document) {
        let id = |n: u64| ChunkId::new(format!("{}-{n}", made.key.id));
        let removed = async |ids: &[ChunkId]| {
            let removed = self.store.remove_chunks(&made.key, ids).await.unwrap();
            (removed.count, removed.pictures)
        };
        let own = async || self.store.document(&made.key).await.unwrap().picture;
        assert_eq!(removed(&[id(0)]).await, (1, Vec::new()));
        let same = StoredChunk { picture: Some("picture 3".into()), ..chunk(&made.key, 7, "the same") };
        self.store.put_chunks(&made.key, std::slice::from_ref(&same), 0).await.unwrap();
        assert_eq!(removed(&[id(3)]).await, (1, Vec::new()), "another chunk is shown with it");
        assert_eq!(own().await.as_deref(), Some("picture 1"));
        assert_eq!(removed(&[id(1), "x".into()]).await, (1, vec!["picture 1".to_owned()]));
        assert_eq!(own().await.as_deref(), Some("picture 2"));
        let rest = vec!["picture 2".to_owned(), "picture 3".to_owned()];
        assert_eq!(removed(&[same.id, id(2)]).await, (2, rest));
        assert_eq!(own().await, None);
    }

    /// Each document has 12 bytes.
    async fn pictures_count_towards_the_quota(&self) {
        let made = self.queued().await;
        let lease = self.one(1_000, 2_000).await.lease;
        let picture = |n: u64, bytes| PictureSize { name: format!("picture {n}"), bytes };
        let all = [picture(1, 10), picture(2, 20), picture(3, 5)];
        let counted = async |bytes_max| self.queue.count_pictures(&lease, &all, bytes_max).await.unwrap();
        assert_eq!(counted(27).await, ["picture 1", "picture 3"]);
        assert_eq!(counted(27).await, ["picture 1", "picture 3"], "they take no more space than that");
        let set = &made.key.dataset;
        // Whether one more document fits within the limit; it is removed again.
        let fits = async |bytes| {
            let (one, quota) = (document(set, "another.txt"), DocumentQuota { documents: 0, bytes });
            let added = self.store.add_document_within(&one, quota).await;
            self.store.remove_documents(set, std::slice::from_ref(&one.key.id)).await.unwrap();
            added.is_ok()
        };
        assert_eq!((fits(38).await, fits(39).await), (false, true));
        // Pictures of the new chunks stay when these become searchable, and the others are removed.
        let new = StoredChunk { picture: Some("picture 1".into()), ..chunk(&made.key, 0, "new") };
        self.queue.put_new(&lease, std::slice::from_ref(&new), IngestStage::Indexing).await.unwrap();
        self.queue.settle(&lease, &done(), 1_500).await.unwrap();
        refused(self.queue.count_pictures(&lease, &all, 0).await, Conflict);
        assert_eq!((fits(33).await, fits(34).await), (false, true));
        self.store.remove_chunks(&made.key, &[new.id]).await.unwrap();
        assert_eq!((fits(23).await, fits(24).await), (false, true));
        // They are removed with the document, also if there is no limit.
        self.queue_at(&made, 2_000).await;
        let lease = self.one(2_000, 3_000).await.lease;
        assert_eq!(self.queue.count_pictures(&lease, &all, 0).await.unwrap().len(), 3);
        assert_eq!((fits(58).await, fits(59).await), (false, true));
        self.store.remove_documents(set, std::slice::from_ref(&made.key.id)).await.unwrap();
        assert!(fits(12).await);
    }
}
