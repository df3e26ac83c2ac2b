//! Who speaks next in a session. A question that comes while another turn runs waits for it, first come first
//! served, at most so many and so long; a run that nobody listens to any more is stopped for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::error::found;
use weft_core::seam::run_store::{RunFilter, StoredRun, is_busy};
use weft_core::{Ending, Error, ErrorKind, Record, Result, RunId, RunKey, SessionKey};
use weft_engine::RunHandle;

use crate::app::App;

/// How often it is looked whether somebody still listens to the run that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pauses between questions to the store, when the run is another process's: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Longer than any process waits: a year.
const WAIT_MAX: Duration = Duration::from_secs(31_536_000);

/// Runs of a conversation after the one that somebody goes on from, as far as they are looked at.
const LATER_MAX: u64 = 50;

/// What becomes of a question whose session is in the middle of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MultitaskStrategy {
    /// It is refused.
    Reject,
    /// It waits for the end of the turn; a run that nobody listens to is stopped for it.
    #[default]
    Enqueue,
    /// The run is stopped for it, unless it was begun in the background.
    Interrupt,
    /// The agent at work in the session takes it up, and its answer is the answer to both. A question that none takes
    /// up waits for the end of the turn.
    Steer,
}

impl MultitaskStrategy {
    /// The strategy of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "reject" => Some(Self::Reject),
            "enqueue" => Some(Self::Enqueue),
            "interrupt" => Some(Self::Interrupt),
            "steer" => Some(Self::Steer),
            _ => None,
        }
    }
}

/// The questions that wait in this process, by what they wait for.
#[derive(Debug, Default)]
pub struct Lines(Mutex<HashMap<WaitedFor, Line>>);

impl Lines {
    /// How many questions wait for their turn, or are about to have it.
    pub(crate) fn questions(&self) -> usize {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_turns = all.iter().filter(|(of, _)| matches!(of, WaitedFor::Turn(_)));
        of_turns.map(|(_, line)| line.count).sum()
    }
}

/// What questions stand in line for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitedFor {
    /// A turn of a session.
    Turn(SessionKey),
    /// The beginning of the one run that they all ask for: only the first of them is a question to the session.
    Run(RunKey),
}

#[derive(Debug, Default)]
struct Line {
    /// Handed out in the order in which it is asked for.
    turn: Arc<Turn<()>>,
    /// How many are in the line, the one whose turn it is among them.
    count: usize,
    /// Fires when the session was in the middle of a turn for the first of them: that one waits, too.
    busy: CancellationToken,
}

/// A place in a line, until it is dropped.
pub(crate) struct Place {
    lines: Arc<Lines>,
    of: WaitedFor,
    turn: Arc<Turn<()>>,
    busy: CancellationToken,
    /// How many stood there before.
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

    /// How many waited before it. The first in line may begin at once, and waits only when it was found to.
    fn waited_before(&self) -> usize {
        if self.busy.is_cancelled() { self.before } else { self.before.saturating_sub(1) }
    }

    /// How many are in the line now, this one among them.
    fn in_line(&self) -> usize {
        let all = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&self.of).map_or(0, |line| line.count)
    }

    /// Ends when one too many waits because the first in line has to wait as well, and this place is the one.
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
    /// What becomes of it.
    pub strategy: MultitaskStrategy,
    /// Fires when the server stops: who waits then is told to ask again.
    pub stopping: CancellationToken,
    /// The run that the question goes on from. When another one of its session counts by the time that it is its turn, it is
    /// refused.
    pub after: Option<RunId>,
}

impl App {
    /// Begins a turn of a session when it is its turn. `start` is called again when the session was busy.
    ///
    /// # Errors
    /// `Conflict` when the session is busy and the question is not to wait, when too many wait already, or
    /// when it has waited too long; `Unavailable` when the server stops meanwhile; as `start`.
    pub async fn take_turn<'a>(
        &self,
        session: &SessionKey,
        waiting: &Waiting,
        start: impl Fn() -> BoxFuture<'a, Result<RunHandle>> + Send,
    ) -> Result<RunHandle> {
        let place = Place::take(&self.lines, WaitedFor::Turn(session.clone()));
        let limits = self.limits.sessions;
        let line_may_be = match waiting.strategy {
            MultitaskStrategy::Reject => 0,
            MultitaskStrategy::Enqueue | MultitaskStrategy::Interrupt | MultitaskStrategy::Steer => {
                limits.waiting_max
            }
        };
        // The first in the line is the one that tries to begin; all others wait.
        if place.before > 0 && place.waited_before() >= line_may_be {
            return Err(match waiting.strategy {
                MultitaskStrategy::Reject => is_not_free(session),
                _ => line_is_full(session, place.waited_before()),
            });
        }
        let until = in_seconds(limits.wait_seconds);
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
                // What is interrupted ends at once: that is no line.
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

    /// The latest run of a session after the one that somebody goes on from. What has failed or was stopped counts for nothing,
    /// nor does the run that the same question has begun before.
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

    /// Whether a question still goes on from the end of its conversation, now that it is its turn: the one that was before it in
    /// line may have gone on from the same run.
    pub(crate) async fn check_goes_on(&self, session: &SessionKey, waiting: &Waiting) -> Result<()> {
        let Some(from) = &waiting.after else { return Ok(()) };
        match self.gone_on_since(session, from, None).await? {
            None => Ok(()),
            Some(newer) => {
                let message =
                    format!("session {} has gone on since run {from}, with run {newer}", session.id);
                Err(Error::new(ErrorKind::Conflict, message).help("go on from its last run"))
            }
        }
    }

    /// Waits until the session may be free, for a short while at most, and stops its run if that has to
    /// give way.
    async fn give_way(
        &self,
        session: &SessionKey,
        strategy: MultitaskStrategy,
        pause: Duration,
    ) -> Result<()> {
        let Some(busy) = self.engine.busy_session(session) else {
            // It is another process's, or free by now.
            if strategy == MultitaskStrategy::Interrupt {
                self.interrupt_elsewhere(session).await?;
            } else if pause == PAUSE_MAX
                && let Some(run) = self.engine.at_work(session).await?
            {
                // A run that ends soon need not be asked.
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
                // Its reader may still be there: asked in the store, it answers, or the next looks of this process find
                // that it does not.
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
            tracing::info!(run.id = %run.id, "a run gives way to the next question of its session");
        }
    }

    /// Asks the process that has the run of a session to stop it, unless it was begun in the background.
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

    /// Whether a run of another process gives way to no question: the queue has asked for it, or its first entry says so.
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

/// When whoever waits for so many seconds has waited long enough.
pub(crate) fn in_seconds(seconds: u64) -> Instant {
    // A clock cannot count as far as settings can.
    Instant::now() + Duration::from_secs(seconds).min(WAIT_MAX)
}

/// Nothing when the time is up.
pub(crate) async fn wait_for<T>(
    what: impl Future<Output = T>,
    until: Instant,
    stopping: &CancellationToken,
) -> Result<Option<T>> {
    tokio::select! {
        // What is done counts, also when the time is up at the same moment.
        biased;
        done = what => Ok(Some(done)),
        () = stopping.cancelled() => {
            let message = "the server stops, and the question has not begun";
            Err(Error::new(ErrorKind::Unavailable, message).help("ask again"))
        }
        () = tokio::time::sleep_until(until) => Ok(None),
    }
}

fn is_not_free(session: &SessionKey) -> Error {
    let message = format!("session {} is in the middle of a turn", session.id);
    Error::new(ErrorKind::Conflict, message)
        .help("wait for its end, or let the question wait for it: `multitask_strategy` is `enqueue` then")
}

fn line_is_full(session: &SessionKey, waiting: usize) -> Error {
    let wait = match waiting {
        0 => "no question may wait".to_owned(),
        1 => "1 question waits".to_owned(),
        more => format!("{more} questions wait"),
    };
    let message = format!("session {} is in the middle of a turn, and {wait} for it", session.id);
    Error::new(ErrorKind::Conflict, message)
        .help("wait for its end; `limits.sessions.waiting_max` is how many may wait")
}

pub(crate) fn too_long(session: &SessionKey, seconds: u64) -> Error {
    let message = format!("the question has waited {seconds} s for session {} to be free", session.id);
    Error::new(ErrorKind::Conflict, message)
        .help("wait for the end of its turn, or cancel it; `limits.sessions.wait_seconds` is the limit")
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;

    use super::*;

    #[test]
    fn who_may_wait_for_ever_waits_very_long() {
        assert!(in_seconds(u64::MAX) > Instant::now() + Duration::from_secs(30_000_000));
    }

    #[test]
    fn a_line_is_forgotten_when_nobody_stands_in_it() {
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
