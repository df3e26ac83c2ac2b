//! A wrapper for stores that fail temporarily, do not answer, or have carried out a call that they reported
//! as failed: it limits the time of each call, retries it, and recognises its own earlier work.
//!
//! Failures that may be transient are retried a bounded number of times. A failed call that took effect all
//! the same is recognised because the stored data is identical.

use std::sync::Arc;
use std::time::Duration;

use weft_core::budget::Spent;
use weft_core::id::{CanvasId, TenantId};
use weft_core::seam::process_store::{ProcessPlace, StoredProcess};
use weft_core::seam::run_messages::RunMessage;
use weft_core::seam::run_store::{
    FinishedRun, GiveWayWord, Retention, RunFilter, RunLease, RunRequest, StoredEntry, StoredRun,
};
use weft_core::seam::session_store::{
    Feedback, MessagePosition, Session, SessionCommit, SessionFilter, SessionMessage,
};
use weft_core::seam::spending_store::{DaySpent, SpendingStore};
use weft_core::seam::{ProcessStore, RunMessages, RunStore, SessionStore};
use weft_core::{Error, ErrorKind, Json, ProcessId, Result, RunId, RunKey, SessionKey, async_trait};

use crate::engine::Stores;

/// Time limit of one store call.
// Longer than a store that is merely busy takes; without a limit, a dead connection would block its run for ever.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a process waits for the store to accept its heartbeat. The next one follows soon, and the process
/// must not be silent for long.
const BEAT_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum number of attempts for a call that changes something on which the run depends.
// With the pauses between them about six seconds, not counting the calls themselves.
const WRITES_TRIED_MAX: u32 = 8;

/// Maximum number of attempts for a call that changes nothing.
// Fewer than for writes: a reader can be given the error and ask again.
const READS_TRIED_MAX: u32 = 4;

/// Pause before the first retry; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a store may succeed a little later after this error. A full disk, for example, may have space again.
pub(crate) fn may_pass(error: &Error) -> bool {
    error.kind.is_passing() || error.kind == ErrorKind::Internal
}

/// A store that retries failed calls where that can help and does no harm.
struct RetryingStore<S: ?Sized>(Arc<S>);

/// Wraps the stores so that failed calls are retried.
pub(crate) fn retrying(stores: Stores) -> Stores {
    Stores {
        runs: Arc::new(RetryingStore(stores.runs)),
        sessions: Arc::new(RetryingStore(stores.sessions)),
        spending: Arc::new(RetryingStore(stores.spending)),
        processes: Arc::new(RetryingStore(stores.processes)),
        messages: Arc::new(RetryingStore(stores.messages)),
    }
}

/// The remaining attempts of a call.
struct Tries {
    left: u32,
    pause: Duration,
    /// An earlier attempt failed, and its effect is unknown.
    uncertain: bool,
}

impl Tries {
    fn new(most: u32) -> Self {
        Self { left: most, pause: PAUSE, uncertain: false }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// The failure itself when it is permanent, or after the last attempt.
    async fn after(&mut self, error: Error) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || !may_pass(&error) {
            return Err(error);
        }
        tracing::warn!(error = error.detail(), "the store failed; the request is repeated");
        self.uncertain = true;
        tokio::time::sleep(self.pause).await;
        self.pause *= 2;
        Ok(())
    }

    /// Whether a rejection may be due to an earlier attempt of ours that took effect.
    fn may_be_ours(&self, error: &Error) -> bool {
        self.uncertain && error.kind == ErrorKind::Conflict
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T>> + Send) -> Result<T> {
    in_time_of(CALL_TIME_MAX, call).await
}

async fn in_time_of<T>(most: Duration, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
    match tokio::time::timeout(most, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("the store did not answer within {} s", most.as_secs());
            Err(Error::new(ErrorKind::Timeout, message))
        }
    }
}

/// Repeats a read until it succeeds or has failed too often. A read changes nothing, so repeating it is safe.
async fn read<T, F>(mut call: impl FnMut() -> F + Send) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    let mut tries = Tries::new(READS_TRIED_MAX);
    loop {
        match in_time(call()).await {
            Ok(found) => return Ok(found),
            Err(error) => tries.after(error).await?,
        }
    }
}

impl RetryingStore<dyn RunStore> {
    /// Announces a run. Returns `done` when an earlier attempt that seemed to have failed took effect.
    async fn announce_by<T: Send, F: Future<Output = Result<T>> + Send>(
        &self,
        announce: impl Fn() -> F,
        run: &StoredRun,
        done: T,
    ) -> Result<T> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        loop {
            match in_time(announce()).await {
                Ok(announced) => return Ok(announced),
                Err(error) if tries.may_be_ours(&error) => {
                    let ours = self.get(&run.key).await.is_ok_and(|found| same_run(&found, run));
                    return if ours { Ok(done) } else { Err(error) };
                }
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn append_by<F: Future<Output = Result<()>> + Send>(
        &self,
        append: impl Fn(Vec<StoredEntry>) -> F,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        mut tries: Tries,
    ) -> Result<()> {
        loop {
            match in_time(append(entries.clone())).await {
                Ok(()) => return Ok(()),
                Err(error) if tries.may_be_ours(&error) => {
                    let after = entries.first().map_or(0, |first| first.seq.saturating_sub(1));
                    let found = self.entries(&lease.run, after, entries.len() as u64).await?;
                    // The entries may be ours although the run belongs to another process by now.
                    let ours = found == entries && self.get(&lease.run).await?.fence == lease.fence;
                    return if ours { Ok(()) } else { Err(error) };
                }
                Err(error) => tries.after(error).await?,
            }
        }
    }
}

#[async_trait]
impl RunStore for RetryingStore<dyn RunStore> {
    async fn create(&self, run: &StoredRun) -> Result<()> {
        self.announce_by(|| self.0.create(run), run, ()).await
    }

    async fn announce(&self, run: &StoredRun, revision: i64) -> Result<bool> {
        self.announce_by(|| self.0.announce(run, revision), run, true).await
    }

    async fn append(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        let tries = Tries::new(WRITES_TRIED_MAX);
        self.append_by(|entries| self.0.append(lease, entries), lease, entries, tries).await
    }

    async fn append_text(&self, lease: &RunLease, entries: Vec<StoredEntry>) -> Result<()> {
        let tries = Tries::new(WRITES_TRIED_MAX);
        self.append_by(|entries| self.0.append_text(lease, entries), lease, entries, tries).await
    }

    /// Whether an unanswered claim took effect is seen by this process's unique id. A claim that takes effect
    /// later is found by looking for runs that this process owns without knowing.
    async fn claim(&self, run: &RunKey, seen: i64, by: &ProcessId) -> Result<Option<RunLease>> {
        let mut tries = Tries::new(READS_TRIED_MAX);
        loop {
            match in_time(self.0.claim(run, seen, by)).await {
                Ok(None) if tries.uncertain => {
                    let found = self.get(run).await?;
                    let next = seen.checked_add(1);
                    let ours = found.owner.as_ref() == Some(by) && Some(found.fence) == next;
                    return Ok((ours && found.ending.is_none()).then(|| RunLease::of(&found)));
                }
                Ok(taken) => return Ok(taken),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn release(&self, leases: &[RunLease]) -> Result<()> {
        // Tried once: the list of runs to hand over is processed again every second.
        in_time(self.0.release(leases)).await
    }

    async fn request_cancel(&self, run: &RunKey, now_ms: i64) -> Result<bool> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        loop {
            // Repeated without a check, because asking twice is the same as asking once.
            match in_time(self.0.request_cancel(run, now_ms)).await {
                Ok(asked) => return Ok(asked),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn say_of_giving_way(&self, run: &RunKey, word: GiveWayWord) -> Result<bool> {
        // Tried once: the caller repeats it anyway.
        in_time(self.0.say_of_giving_way(run, word)).await
    }

    async fn requests(&self, owner: &ProcessId) -> Result<Vec<RunRequest>> {
        read(|| self.0.requests(owner)).await
    }

    async fn unattended(&self, gone: &[ProcessId], count_max: u64) -> Result<Vec<StoredRun>> {
        read(|| self.0.unattended(gone, count_max)).await
    }

    async fn finish(&self, lease: &RunLease, finished: FinishedRun) -> Result<()> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        loop {
            // Repeated without a check, because recording the same end again changes nothing.
            match in_time(self.0.finish(lease, finished.clone())).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    /// If that fails it is done step by step, which shows how far it came.
    async fn end(
        &self,
        lease: &RunLease,
        entries: Vec<StoredEntry>,
        finished: FinishedRun,
    ) -> Result<Result<()>> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        match in_time(self.0.end(lease, entries.clone(), finished.clone())).await {
            Ok(Ok(())) => return Ok(Ok(())),
            Ok(Err(_)) => {}
            Err(error) => {
                tries.after(error).await?;
                self.append_by(|entries| self.0.append(lease, entries), lease, entries, tries).await?;
            }
        }
        Ok(self.finish(lease, finished).await)
    }

    async fn get(&self, key: &RunKey) -> Result<StoredRun> {
        read(|| self.0.get(key)).await
    }

    async fn entries(&self, key: &RunKey, after_seq: u64, count_max: u64) -> Result<Vec<StoredEntry>> {
        read(|| self.0.entries(key, after_seq, count_max)).await
    }

    async fn list(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<StoredRun>> {
        read(|| self.0.list(tenant, filter)).await
    }

    async fn expired(&self, tenant: &TenantId, keep: &Retention, count_max: u64) -> Result<Vec<StoredRun>> {
        read(|| self.0.expired(tenant, keep, count_max)).await
    }

    async fn remove(&self, runs: &[RunKey]) -> Result<u64> {
        in_time(self.0.remove(runs)).await
    }
}

/// Whether the found run is the one that was stored, and no other process has taken it over since. The store
/// may have changed the question slightly, and other processes may have made requests by now.
fn same_run(found: &StoredRun, run: &StoredRun) -> bool {
    let StoredRun { query, cancel_ms, give_way, .. } = run.clone();
    let found = StoredRun { query, cancel_ms, give_way, ..found.clone() };
    found == *run
}

#[async_trait]
impl SessionStore for RetryingStore<dyn SessionStore> {
    async fn create(&self, session: &Session, opening: &[SessionMessage]) -> Result<()> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        loop {
            match in_time(self.0.create(session, opening)).await {
                Ok(()) => return Ok(()),
                Err(error) if tries.may_be_ours(&error) => {
                    let found = self.load(&session.key).await?;
                    let ours = found.revision == session.revision
                        && found.canvas_version == session.canvas_version
                        && found.state == session.state;
                    return if ours { Ok(()) } else { Err(error) };
                }
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn load(&self, key: &SessionKey) -> Result<Session> {
        read(|| self.0.load(key)).await
    }

    async fn revision(&self, key: &SessionKey) -> Result<i64> {
        read(|| self.0.revision(key)).await
    }

    async fn messages(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        read(|| self.0.messages(key, revision, count_max)).await
    }

    async fn history(&self, key: &SessionKey, revision: i64, count_max: u64) -> Result<Vec<SessionMessage>> {
        read(|| self.0.history(key, revision, count_max)).await
    }

    async fn message_sizes(&self, key: &SessionKey, count_max: u64) -> Result<Vec<u64>> {
        read(|| self.0.message_sizes(key, count_max)).await
    }

    async fn messages_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
        count_max: u64,
    ) -> Result<Vec<(MessagePosition, SessionMessage)>> {
        read(|| self.0.messages_after(key, after, count_max)).await
    }

    async fn commit(&self, key: &SessionKey, commit: SessionCommit<'_>) -> Result<()> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        loop {
            match in_time(self.0.commit(key, commit)).await {
                Ok(()) => return Ok(()),
                // Also at the first attempt: the process that owned this run before may have committed the same.
                Err(error) if error.kind == ErrorKind::Conflict => {
                    let ours = self.holds(key, commit.revision, commit.state).await?;
                    return if ours { Ok(()) } else { Err(error) };
                }
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn list(&self, tenant: &TenantId, filter: &SessionFilter) -> Result<(Vec<Session>, u64)> {
        read(|| self.0.list(tenant, filter)).await
    }

    async fn rename(&self, key: &SessionKey, name: &str) -> Result<()> {
        // Tried once, as those that follow: whoever asks for them is told of a failure and can ask again.
        in_time(self.0.rename(key, name)).await
    }

    async fn judge(&self, key: &SessionKey, run: &RunId, feedback: &Feedback) -> Result<()> {
        in_time(self.0.judge(key, run, feedback)).await
    }

    async fn forget_run(&self, key: &SessionKey, run: &RunId) -> Result<()> {
        in_time(self.0.forget_run(key, run)).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<()> {
        in_time(self.0.delete(key)).await
    }
}

impl RetryingStore<dyn SessionStore> {
    /// Whether the commit after `revision` is this one: the state names the run that made it.
    async fn holds(&self, key: &SessionKey, revision: i64, state: &Json) -> Result<bool> {
        let found = self.load(key).await?;
        if Some(found.revision) != revision.checked_add(1) {
            return Ok(false);
        }
        Ok(found.state.get("run").is_some_and(|run| Some(run) == state.get("run")))
    }
}

#[async_trait]
impl ProcessStore for RetryingStore<dyn ProcessStore> {
    /// Tried twice: a caller that gets no answer sends the next heartbeat soon. A heartbeat that is stored
    /// counts, whatever the store answered.
    async fn beat(&self, id: &ProcessId, place: Option<&ProcessPlace>) -> Result<()> {
        if in_time_of(BEAT_TIME_MAX, self.0.beat(id, place)).await.is_ok() {
            return Ok(());
        }
        let before = self.beats_of(id).await;
        let Err(error) = in_time_of(BEAT_TIME_MAX, self.0.beat(id, place)).await else { return Ok(()) };
        let heard = before.is_some() && self.beats_of(id).await > before;
        if heard { Ok(()) } else { Err(error) }
    }

    async fn list(&self) -> Result<Vec<StoredProcess>> {
        read(|| self.0.list()).await
    }

    async fn forget(&self, id: &ProcessId, beat: i64) -> Result<bool> {
        in_time(self.0.forget(id, beat)).await
    }
}

impl RetryingStore<dyn ProcessStore> {
    /// Number of heartbeats that a process has sent; `None` when the store cannot be read.
    async fn beats_of(&self, id: &ProcessId) -> Option<i64> {
        let processes = in_time_of(BEAT_TIME_MAX, self.0.list()).await.ok()?;
        Some(processes.iter().find(|process| process.id == *id).map_or(0, |process| process.beat))
    }
}

#[async_trait]
impl RunMessages for RetryingStore<dyn RunMessages> {
    /// Tried once: the sender is notified of a failure and may try again.
    async fn leave_message(&self, message: &RunMessage) -> Result<bool> {
        in_time(self.0.leave_message(message)).await
    }

    async fn messages_for(&self, owner: &ProcessId, count_max: u64) -> Result<Vec<RunMessage>> {
        read(|| self.0.messages_for(owner, count_max)).await
    }

    async fn message_waits(&self, run: &RunKey, id: &str) -> Result<bool> {
        read(|| self.0.message_waits(run, id)).await
    }

    /// Messages removed by an earlier attempt that went unanswered count as removed by another process.
    async fn remove_messages(&self, run: &RunKey, ids: &[String]) -> Result<u64> {
        read(|| self.0.remove_messages(run, ids)).await
    }
}

#[async_trait]
impl SpendingStore for RetryingStore<dyn SpendingStore> {
    /// Noting the same usage twice counts once, so nothing has to be checked.
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()> {
        let mut tries = Tries::new(WRITES_TRIED_MAX);
        loop {
            match in_time(self.0.note(lease, day, spent)).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent> {
        read(|| self.0.spent(tenant, canvas, since_day)).await
    }

    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>> {
        read(|| self.0.days(tenant, since_day, count_max)).await
    }

    async fn fold_days(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        self.0.fold_days(tenant, before_day).await
    }
}
