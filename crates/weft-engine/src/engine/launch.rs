//! Starts runs, and makes sure that their ownership is settled when they have ended or were released.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use weft_core::RunKey;
use weft_core::budget::Spent;
use weft_core::journal::Ending;
use weft_core::seam::run_store::{RunLease, StoredRun};

use super::held::{Became, ListedRun, SessionLock};
use super::turn::TurnControl;
use super::used::{RunUsage, note_again_and_again};
use super::{Engine, LiveRun, Prepared, QUERY_KEPT_MAX, RunHandle, Stores};
use crate::feed::{BrokenOff, EntryReader, Feed};

/// How long to try to stop a run that has come to wait although it was to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// The resources that a run holds while it is under way.
pub(super) struct HeldRun {
    /// One of the slots for concurrent runs; a run that does no work needs none.
    pub place: Option<OwnedSemaphorePermit>,
    /// The lock on its session, in this process.
    pub lock: SessionLock,
    /// The lease on the run, in the store.
    pub lease: RunLease,
    /// Cancels the run. Cancelled already: the run ends before it starts any work.
    pub cancel: CancellationToken,
}

impl HeldRun {
    /// Creates the resources of a run that works.
    pub(super) fn new(place: OwnedSemaphorePermit, lock: SessionLock, lease: RunLease) -> Self {
        Self { place: Some(place), lock, lease, cancel: CancellationToken::new() }
    }
}

impl Engine {
    /// Returns the run's row as it is announced in the store.
    pub(super) fn stored_run(&self, prepared: &Prepared) -> StoredRun {
        let request = &prepared.request;
        // Masked before it is cut: a part of a secret would not be recognized.
        let query = prepared.context.masks.text(&request.input.query);
        StoredRun {
            // Shortened for lists of runs; the journal has the whole question.
            query: query.chars().take(QUERY_KEPT_MAX).collect(),
            owner: Some(self.0.ownership.process.id.clone()),
            ..StoredRun::begun(
                prepared.key.clone(),
                request.session.id.clone(),
                request.canvas.clone(),
                self.now_ms(),
            )
        }
    }

    /// Starts a run and lists it as running.
    pub(super) fn launch(
        &self,
        stores: Stores,
        prepared: Prepared,
        HeldRun { place, lock, lease, cancel }: HeldRun,
    ) -> RunHandle {
        let (key, feed) = (prepared.key.clone(), Feed::stored());
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
        // Only once the run is listed: the keeper stops as soon as the list is empty.
        self.begin_keeping();
        let mut listed = ListedRun::new(self, lease.clone(), Arc::clone(&feed), lock);
        let entries = self.reader(Some(Arc::clone(&feed)), &key, 0);
        let (engine, stop) = (self.clone(), cancel.clone());
        // Taken before the turn consumes `prepared`.
        let (used, plan) = (RunUsage::by(&prepared), Arc::clone(&prepared.request.plan));
        // Boxed: it is large and is freed as soon as the run has started, so it should not take up space in the task.
        let prepared = Box::new(prepared);
        self.0.tasks.spawn(async move {
            let turn = AssertUnwindSafe(engine.turn(&stores, prepared, &lease, TurnControl { feed: &feed, cancel: stop })).catch_unwind();
            let turn = tokio::select! {
                // A turn that has completed counts as ended, even if this process was asked to release it.
                biased;
                turn = turn => turn,
                never = note_again_and_again(&stores, &lease, &engine, &used) => match never {},
                // As if the process had ended here: the journal says how to resume.
                () = leave.cancelled() => return drop((listed, place)),
            };
            listed.became = match turn {
                Ok(became) => became,
                Err(_) => {
                    tracing::error!(run.id = %lease.run.id, "a run's end could not be written: the engine panicked");
                    engine.note_ending(&stores, &lease, engine.finished(Ending::Failed, Spent::default(), &[])).await
                }
            };
            let waits = listed.became == Became::Waits;
            drop((listed, place));
            if waits {
                // Boxed: few runs wait, and the others should not reserve the space.
                let stop = Box::pin(engine.stop_if_requested(&stores, &lease.run, plan));
                // Limited in time: a process that ends waits for this task.
                let _ = tokio::time::timeout(STOP_TIME_MAX, stop).await;
            }
        });
        RunHandle { key, entries, cancel }
    }

    /// Returns the live feed of a run's journal, if the run is under way here.
    pub(super) fn feed(&self, key: &RunKey) -> Option<Arc<Feed>> {
        self.running().runs.get(key).map(|live| Arc::clone(&live.feed))
    }

    /// Returns a reader of a run's entries; entries that this process does not feed are read from the store.
    pub(super) fn reader(&self, feed: Option<Arc<Feed>>, key: &RunKey, after_event: u64) -> EntryReader {
        let store = self.0.stores.as_ref().map(|stores| (Arc::clone(&stores.runs), key.clone()));
        let engine = self.clone();
        let find = Arc::new(move |key: &RunKey| engine.found(key));
        EntryReader::new(feed, store, after_event).finding(find)
    }

    /// Returns the feed for a reader that reads from the store, if there is one by now. Once this process has stopped,
    /// every run has one, which breaks off: the run may continue elsewhere for hours.
    fn found(&self, key: &RunKey) -> Option<Arc<Feed>> {
        let running = self.running();
        match running.runs.get(key) {
            Some(live) => Some(Arc::clone(&live.feed)),
            None => running.stopped.then(|| {
                let feed = Feed::stored();
                feed.break_off(BrokenOff::elsewhere(&key.id));
                feed
            }),
        }
    }
}
