//! Fairness: whose documents are taken next.

use weft_core::id::DocumentKey;
use weft_core::seam::dataset_store::Document;

use super::{Both, END};

impl Both<'_> {
    pub(super) async fn tenants_take_turns(&self) {
        let (many, few) = (self.documents(5).await, self.documents(2).await);
        for (one, now_ms) in many.iter().zip(1_000..).chain(few.iter().zip(2_000..)) {
            self.queue_at(one, now_ms).await;
        }
        let taken = async |now, count| -> Vec<DocumentKey> {
            let taken = self.queue.take(now, END, count).await.unwrap();
            taken.into_iter().map(|taken| taken.lease.document).collect()
        };
        let keys = |of: [&Document; 2]| of.map(|one| one.key.clone());
        assert_eq!(taken(1_500, 2).await, keys([&many[0], &many[1]]));
        // Two of the first are being read, however long its other documents have waited.
        assert_eq!(taken(3_000, 2).await, keys([&few[0], &few[1]]));
        assert_eq!(taken(3_000, 2).await, keys([&many[2], &many[3]]));
        assert_eq!(taken(3_000, 9).await, [many[4].key.clone()]);
        self.drain().await;
    }
}
