//! Sets a run going, and sees to it that it is known whose it is when it has ended or was let go of.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use weft_core::RunKey;
use weft_core::budget::Spent;
use weft_core::journal::Ending;
use weft_core::seam::run_store::{GiveWay, RunLease, StoredRun};

use super::held::{ListedRun, SessionLock};
use super::turn::TurnControl;
use super::used::{RunUsage, note_again_and_again};
use super::{Engine, LiveRun, Prepared, QUERY_KEPT_MAX, RunHandle, Stores};
use crate::feed::{EntryReader, Feed};

/// What a run holds while it is under way.
pub(super) struct HeldRun {
    /// One of the places for runs at once.
    pub place: OwnedSemaphorePermit,
    /// Its session, in this process.
    pub lock: SessionLock,
    /// The run, in the store.
    pub lease: RunLease,
}

impl Engine {
    /// A run as it is announced.
    pub(super) fn stored_run(&self, prepared: &Prepared) -> StoredRun {
        StoredRun {
            key: prepared.key.clone(),
            session: prepared.request.session.id.clone(),
            canvas: prepared.request.canvas.clone(),
            // For lists of runs; the journal has all of it.
            query: prepared.request.input.query.chars().take(QUERY_KEPT_MAX).collect(),
            ending: None,
            started_ms: self.now_ms(),
            finished_ms: None,
            fence: RunLease::FIRST,
            owner: Some(self.0.ownership.process.id.clone()),
            cancel_ms: None,
            give_way: GiveWay::default(),
        }
    }

    /// Sets a run going, on the list of those under way.
    pub(super) fn launch(
        &self,
        stores: Stores,
        prepared: Prepared,
        HeldRun { place, lock, lease }: HeldRun,
    ) -> RunHandle {
        let (key, feed, cancel) = (prepared.key.clone(), Feed::stored(), CancellationToken::new());
        let (live_feed, session) = (Arc::clone(&feed), prepared.request.session.clone());
        let leave = CancellationToken::new();
        let live = LiveRun {
            feed: live_feed,
            cancel: cancel.clone(),
            leave: leave.clone(),
            session,
            background: prepared.request.input.background,
            inbox: prepared.context.inbox.clone(),
        };
        self.running().runs.insert(key.clone(), live);
        // Only now that the run is on the list: the keeper stops as soon as that is empty.
        self.begin_keeping();
        let mut listed = ListedRun::new(self, lease.clone(), Arc::clone(&feed), lock);
        let entries = self.reader(Some(Arc::clone(&feed)), &key, 0);
        let (engine, stop) = (self.clone(), cancel.clone());
        // Before the turn takes what was prepared.
        let used = RunUsage::by(&prepared);
        // It is large, and gone as soon as the run has begun: the task has no room for it.
        let prepared = Box::new(prepared);
        self.0.tasks.spawn(async move {
            let turn = AssertUnwindSafe(engine.turn(&stores, prepared, &lease, TurnControl { feed: &feed, cancel: stop })).catch_unwind();
            let turn = tokio::select! {
                // A turn that has come to its end has ended, although this process is to let go of it.
                biased;
                turn = turn => turn,
                never = note_again_and_again(&stores, &lease, &engine, &used) => match never {},
                // As if the process had ended here: its journal says how to go on.
                () = leave.cancelled() => return drop((listed, place)),
            };
            listed.became = match turn {
                Ok(became) => became,
                Err(_) => {
                    tracing::error!(run.id = %lease.run.id, "the end of a run could not be written: the engine broke");
                    engine.note_ending(&stores, &lease, engine.finished(Ending::Failed, Spent::default(), &[])).await
                }
            };
            drop((listed, place));
        });
        RunHandle { key, entries, cancel }
    }

    /// The live end of a run's journal, when it is under way here.
    pub(super) fn feed(&self, key: &RunKey) -> Option<Arc<Feed>> {
        self.running().runs.get(key).map(|live| Arc::clone(&live.feed))
    }

    /// A reader of a run's entries; where they are not shown here they are read in the store.
    pub(super) fn reader(&self, feed: Option<Arc<Feed>>, key: &RunKey, after_event: u64) -> EntryReader {
        let store = self.0.stores.as_ref().map(|stores| (Arc::clone(&stores.runs), key.clone()));
        let engine = self.clone();
        let find = Arc::new(move |key: &RunKey| engine.feed(key));
        EntryReader::new(feed, store, after_event).finding(find)
    }
}
