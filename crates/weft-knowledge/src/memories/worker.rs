//! Processes remembered turns until told to stop.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weft_core::ErrorKind;
use weft_core::seam::memory_store::{ExtractionOutcome, TakenMessage};

use super::ConversationMemories;

/// Maximum number of turns processed concurrently.
const AT_ONCE: usize = 2;
/// How often it looks for turns when it is not woken up. Other processes cannot wake it.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a turn stays with a worker that has gone silent; longer than processing takes.
const LEASE: Duration = Duration::from_secs(300);

/// Processes turns, several at a time.
#[derive(Clone, Debug)]
pub struct MemoryWorker(ConversationMemories);

impl MemoryWorker {
    /// Creates a worker for these memories.
    pub fn new(memories: ConversationMemories) -> Self {
        Self(memories)
    }

    /// Works until `stop` fires. Work in progress then gets `grace` to finish, and is released after that.
    pub async fn run(&self, stop: &CancellationToken, grace: Duration) {
        let mut busy = JoinSet::new();
        let leaving = CancellationToken::new();
        while !stop.is_cancelled() {
            // Created before the look, so that a wake-up in between is not missed.
            let woken = self.0.wake.notified();
            self.look(&mut busy, &leaving).await;
            tokio::select! {
                // A stop takes precedence: there may be an endless supply of turns.
                biased;
                () = stop.cancelled() => {}
                Some(_) = busy.join_next() => {}
                () = woken => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        let all = async { while busy.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            leaving.cancel();
            while busy.join_next().await.is_some() {}
        }
    }

    async fn look(&self, busy: &mut JoinSet<()>, leaving: &CancellationToken) {
        while busy.try_join_next().is_some() {}
        let room = AT_ONCE.saturating_sub(busy.len());
        if room == 0 {
            return;
        }
        let now_ms = self.0.clock.now_ms();
        let lease = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        match self.0.store.take(now_ms, now_ms.saturating_add(lease), room as u64).await {
            Ok(taken) => {
                for taken in taken {
                    let (worker, leaving) = (self.clone(), leaving.clone());
                    busy.spawn(async move { worker.finish(&taken, &leaving).await });
                }
            }
            Err(error) => tracing::warn!(error = error.detail(), "cannot look for turns to remember"),
        }
    }

    /// Processes one turn, unless its memory is gone by then.
    async fn finish(&self, taken: &TakenMessage, leaving: &CancellationToken) {
        let (memory, number) = (&taken.memory.id, taken.message.number);
        let models = self.0.models_for(&taken.memory);
        let outcome = tokio::select! {
            biased;
            () = leaving.cancelled() => {
                // Nothing has failed, so the next worker need not wait.
                let from_ms = self.0.clock.now_ms();
                Ok(ExtractionOutcome::RetryAt { from_ms, problem: String::new() })
            }
            outcome = self.0.extract(taken, models.directory()) => outcome,
        };
        models.note(self.0.clock.now_ms()).await;
        let settled = match outcome {
            Ok(outcome) => {
                if let ExtractionOutcome::Failed { problem, .. } = &outcome {
                    tracing::warn!(%memory, number, problem, "a turn was abandoned");
                }
                self.0.store.settle(taken, &outcome).await
            }
            Err(error) => Err(error),
        };
        match settled {
            Ok(()) => {}
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {
                tracing::debug!(%memory, number, "a turn was forgotten while it was looked at");
            }
            // It becomes available again when its lease expires.
            Err(error) => {
                tracing::warn!(%memory, number, error = error.detail(), "a turn could not be processed");
            }
        }
    }
}
