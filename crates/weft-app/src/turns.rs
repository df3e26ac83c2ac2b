//! Turn-taking in a session. A question that arrives during another turn waits for its end, first come first served,
//! up to a maximum number of questions and a maximum time; a run without a reader is stopped to make way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::error::found;
use weft_core::seam::run_store::{RunFilter, StoredRun, is_busy};
use weft_core::{Ending, Error, ErrorKind, Record, Result, RunId, RunKey, SessionKey};

use crate::app::App;

pub use crate::multitask::MultitaskStrategy;

/// Interval for checking whether the run in the way still has a reader.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pauses between polls of the store while the run belongs to another process: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Longer than any question waits: a year.
const WAIT_MAX: Duration = Duration::from_secs(31_536_000);

/// Maximum number of runs after the one to continue from that are examined.
const LATER_MAX: u64 = 50;

/// The questions that wait in this process, by what they wait for.
#[derive(Debug, Default)]
pub struct Lines(Mutex<HashMap<WaitedFor, Line>>);

impl Lines {
    /// Returns how many questions wait for their turn, or are about to start it.
    pub(crate) fn questions(&self) -> usize {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_turns = all.iter().filter(|(of, _)| matches!(of, WaitedFor::Turn(_)));
        of_turns.map(|(_, line)| line.count).sum()
    }

    /// Returns whether a question of this process waits to start this run, or is about to.
    pub(crate) fn is_asked_for(&self, run: &RunKey) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.contains_key(&WaitedFor::Run(run.clone()))
    }
}

/// What questions queue for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitedFor {
    /// A turn of a session.
    Turn(SessionKey),
    /// The start of the one run that they all ask for: only the first of them is a question to the session.
    Run(RunKey),
}

#[derive(Debug, Default)]
struct Line {
    /// Acquired in the order of the requests.
    turn: Arc<Turn<()>>,
    /// Number of questions in the queue, including the one whose turn it is.
    count: usize,
    /// Fires when the session was busy for the first of them, so that it has to wait as well.
    busy: CancellationToken,
}

/// A place in a queue, held until it is dropped.
pub(crate) struct Place {
    lines: Arc<Lines>,
    of: WaitedFor,
    turn: Arc<Turn<()>>,
    busy: CancellationToken,
    /// Number of questions before it when it was added.
    before: usize,
}

impl Place {
    pub(crate) fn take(lines: &Arc<Lines>, of: WaitedFor) -> Self {
        let mut all = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = all.entry(of.clone()).or_default();
        line.count += 1;
        let (turn, busy, before) = (Arc::clone(&line.turn), line.busy.clone(), line.count - 1);
        Self { lines: Arc::clone(lines), of, turn, busy, before }
    }

    /// Returns how many questions waited before it. The first in the queue may start immediately, and only counts as
    /// waiting if the session was busy.
    fn waited_before(&self) -> usize {
        if self.busy.is_cancelled() { self.before } else { self.before.saturating_sub(1) }
    }

    /// Returns the current length of the queue, including this place.
    fn in_line(&self) -> usize {
        let all = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&self.of).map_or(0, |line| line.count)
    }

    /// Completes if this place exceeds the limit because the first in the queue has to wait as well.
    async fn is_one_too_many(&self, waiting_max: usize) {
        self.busy.cancelled().await;
        if self.before < waiting_max || self.in_line() <= waiting_max {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = all.get_mut(&self.of) {
            line.count -= 1;
            if line.count == 0 {
                all.remove(&self.of);
            }
        }
    }
}

/// How a question waits.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The strategy.
    pub strategy: MultitaskStrategy,
    /// Fires when the server stops: waiting questions then fail and have to be asked again.
    pub stopping: CancellationToken,
    /// The run that the question continues from. It is refused if the session has another run that counts by the time
    /// it is its turn.
    pub after: Option<RunId>,
}

impl App {
    /// Starts a turn of a session as soon as it is its turn, and returns what `start` does, which is called again if the
    /// session was busy.
    ///
    /// # Errors
    /// `Conflict` when the session is busy and the question must not wait, when too many are waiting, or when it has
    /// waited too long; `Unavailable` when the server stops meanwhile; as `start`.
    pub async fn take_turn<'a, T>(
        &self,
        session: &SessionKey,
        waiting: &Waiting,
        start: impl Fn() -> BoxFuture<'a, Result<T>> + Send,
    ) -> Result<T> {
        let place = Place::take(&self.lines, WaitedFor::Turn(session.clone()));
        let limits = self.limits.sessions;
        let line_may_be = match waiting.strategy {
            MultitaskStrategy::Reject => 0,
            MultitaskStrategy::Enqueue | MultitaskStrategy::Interrupt | MultitaskStrategy::Steer => {
                limits.waiting_max
            }
        };
        // Only the first in the queue tries to start; all others wait.
        if place.before > 0 && place.waited_before() >= line_may_be {
            return Err(match waiting.strategy {
                MultitaskStrategy::Reject => is_not_free(session),
                _ => line_is_full(session, place.waited_before()),
            });
        }
        let until = in_seconds(limits.wait_seconds);
        // The lock first: a place that is free is not refused because of those behind it.
        let turn = async {
            tokio::select! {
                biased;
                turn = lock(&place) => Ok(turn),
                () = place.is_one_too_many(line_may_be) => Err(line_is_full(session, line_may_be)),
            }
        };
        let Some(turn) = wait_for(turn, until, &waiting.stopping).await? else {
            return Err(too_long(session, limits.wait_seconds));
        };
        let _turn = turn?;
        let mut pause = PAUSE_MIN;
        loop {
            let busy = match start().await {
                Err(error) if is_busy(&error) => error,
                outcome => return outcome,
            };
            match waiting.strategy {
                MultitaskStrategy::Reject => return Err(busy),
                MultitaskStrategy::Enqueue | MultitaskStrategy::Steer if line_may_be == 0 => {
                    return Err(line_is_full(session, 0).because(busy));
                }
                // An interrupted run ends immediately, so there is nothing to queue for.
                MultitaskStrategy::Enqueue | MultitaskStrategy::Interrupt | MultitaskStrategy::Steer => {}
            }
            place.busy.cancel();
            let waited = wait_for(self.give_way(session, waiting.strategy, pause), until, &waiting.stopping);
            match waited.await? {
                Some(outcome) => outcome?,
                None => return Err(too_long(session, limits.wait_seconds).because(busy)),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Returns the latest run of a session after the one to continue from. Failed and stopped runs do not count, nor
    /// does the run that the same question has started before.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn gone_on_since(
        &self,
        session: &SessionKey,
        from: &RunId,
        again: Option<&RunId>,
    ) -> Result<Option<RunId>> {
        let filter =
            RunFilter { session: Some(session.id.clone()), limit: LATER_MAX, ..RunFilter::default() };
        let runs = self.runs.list(&session.tenant, &filter).await?;
        let mut later = runs.into_iter().take_while(|run| run.key.id != *from);
        let counts = |run: &StoredRun| {
            !matches!(run.ending, Some(Ending::Failed | Ending::Cancelled)) && again != Some(&run.key.id)
        };
        Ok(later.find(counts).map(|run| run.key.id))
    }

    /// Checks, when it is a question's turn, that it still continues from the end of its conversation: one before it
    /// in the queue may have continued from the same run.
    pub(crate) async fn check_goes_on(&self, session: &SessionKey, waiting: &Waiting) -> Result<()> {
        let Some(from) = &waiting.after else { return Ok(()) };
        match self.gone_on_since(session, from, None).await? {
            None => Ok(()),
            Some(newer) => {
                let message =
                    format!("session {} has continued since run {from}, with run {newer}", session.id);
                Err(Error::new(ErrorKind::Conflict, message).help("continue from its last run"))
            }
        }
    }

    /// Waits a short while for the session to become free, and stops its run if that has to give way.
    async fn give_way(
        &self,
        session: &SessionKey,
        strategy: MultitaskStrategy,
        pause: Duration,
    ) -> Result<()> {
        let Some(busy) = self.engine.busy_session(session) else {
            // It belongs to another process, or has ended by now.
            if strategy == MultitaskStrategy::Interrupt {
                self.interrupt_elsewhere(session).await?;
            } else if pause == PAUSE_MAX
                && let Some(run) = self.engine.at_work(session).await?
            {
                // A run that ends soon need not be asked to give way.
                self.engine.ask_to_give_way(&run.key).await?;
            }
            tokio::time::sleep(pause).await;
            return Ok(());
        };
        let interrupts = strategy == MultitaskStrategy::Interrupt && !busy.background;
        let mut look_every = LOOK_EVERY;
        if let Some(run) = busy.run.as_ref().filter(|_| interrupts || busy.abandoned) {
            if interrupts || !self.engine.was_listened_to_elsewhere(run).await? {
                self.stop_for_question(run);
            } else {
                // Its reader may still exist: asked through the store, it answers, or the next checks of this process
                // find that it does not.
                self.engine.ask_to_give_way(run).await?;
                look_every = PAUSE_MAX;
            }
        }
        tokio::select! {
            () = busy.freed() => {}
            () = tokio::time::sleep(look_every) => {}
        }
        Ok(())
    }

    fn stop_for_question(&self, run: &RunKey) {
        if self.engine.cancel_here(run) {
            tracing::info!(run.id = %run.id, "a run is stopped for the next question of its session");
        }
    }

    /// Requests the process that executes a session's run to stop it, unless it was started in the background.
    async fn interrupt_elsewhere(&self, session: &SessionKey) -> Result<()> {
        let Some(run) = self.engine.at_work(session).await? else { return Ok(()) };
        if run.cancel_ms.is_some() {
            return Ok(());
        }
        if !self.is_in_background(&run.key).await? {
            self.engine.cancel(&run.key).await?;
        }
        Ok(())
    }

    /// Returns whether a run of another process gives way to no question: it comes from the queue, or its first entry
    /// says so.
    async fn is_in_background(&self, run: &RunKey) -> Result<bool> {
        if found(self.queue.get(run).await)?.is_some() {
            return Ok(true);
        }
        let first = self.runs.entries(run, 0, 1).await?.into_iter().next();
        let first: Option<Record> = first.and_then(|entry| serde_json::from_str(&entry.record).ok());
        Ok(matches!(first, Some(Record::RunStarted { input, .. }) if input.background))
    }
}

pub(crate) async fn lock(place: &Place) -> OwnedMutexGuard<()> {
    Arc::clone(&place.turn).lock_owned().await
}

/// Returns the deadline in this many seconds.
pub(crate) fn in_seconds(seconds: u64) -> Instant {
    // Limited, because settings allow more than an `Instant` can represent.
    Instant::now() + Duration::from_secs(seconds).min(WAIT_MAX)
}

/// Waits for a future; `None` when the deadline has passed.
pub(crate) async fn wait_for<T>(
    what: impl Future<Output = T>,
    until: Instant,
    stopping: &CancellationToken,
) -> Result<Option<T>> {
    tokio::select! {
        // The result counts even if the deadline passes at the same moment.
        biased;
        done = what => Ok(Some(done)),
        () = stopping.cancelled() => {
            let message = "the server is stopping, and the question has not been started";
            Err(Error::new(ErrorKind::Unavailable, message).help("ask again"))
        }
        () = tokio::time::sleep_until(until) => Ok(None),
    }
}

fn is_not_free(session: &SessionKey) -> Error {
    let message = format!("session {} is in the middle of a turn", session.id);
    Error::new(ErrorKind::Conflict, message)
        .help("wait for it to end, or let the question wait: set `multitask_strategy` to `enqueue`")
}

fn line_is_full(session: &SessionKey, waiting: usize) -> Error {
    let wait = match waiting {
        0 => "no question may wait".to_owned(),
        1 => "1 question waits".to_owned(),
        more => format!("{more} questions wait"),
    };
    let message = format!("session {} is in the middle of a turn, and {wait} for it", session.id);
    Error::new(ErrorKind::Conflict, message)
        .help("wait for it to end; `limits.sessions.waiting_max` limits how many questions may wait")
}

pub(crate) fn too_long(session: &SessionKey, seconds: u64) -> Error {
    let message = format!("the question has waited {seconds} s for session {} to be free", session.id);
    Error::new(ErrorKind::Conflict, message)
        .help("wait for its turn to end, or cancel it; `limits.sessions.wait_seconds` is the limit")
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;

    use super::*;

    #[test]
    fn an_unlimited_wait_becomes_a_very_long_deadline() {
        assert!(in_seconds(u64::MAX) > Instant::now() + Duration::from_secs(30_000_000));
    }

    #[test]
    fn an_empty_queue_is_removed() {
        let lines = Arc::new(Lines::default());
        let key = |id: &str| WaitedFor::Turn(SessionKey::new(&TenantId::from("t"), id));
        let (first, second) = (Place::take(&lines, key("s")), Place::take(&lines, key("s")));
        let other = Place::take(&lines, key("other"));
        assert_eq!((first.before, second.before, other.before), (0, 1, 0));
        drop(first);
        assert_eq!(Place::take(&lines, key("s")).before, 1);
        drop((second, other));
        assert!(lines.0.lock().unwrap().is_empty());
    }
}
