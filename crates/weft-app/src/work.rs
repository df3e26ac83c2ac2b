//! Work items of the queue: each becomes one run, however often it is started.

use std::collections::HashSet;

use weft_core::error::found;
use weft_core::id::ScheduleKey;
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::schedule_store::Schedule;
use weft_core::seam::session_store::Session;
use weft_core::seam::work_queue::{StoredWork, Work, WorkFilter, WorkOutcome, WorkState};
use weft_core::{CanvasKey, Ending, Error, ErrorKind, Result, SessionId, SessionKey};
use weft_engine::engine::PickedUp;
use weft_engine::{RunHandle, SessionState, StartRun};

use crate::app::App;
use crate::late::{is_of_ended_task, is_values_alone};
use crate::new_session::NewSession;
use crate::schedule::UserStanding;

/// Maximum number of other work items of a source that are examined for those that ended with their process.
const BESIDE_MAX: u64 = 100;

/// Number of attempts after which work is abandoned. It may be the work that crashes its process.
const ATTEMPTS_MAX: u32 = 8;

/// Number of attempts that ended with their process, after which work is not restarted automatically: a run that
/// exhausts the memory takes all other runs of the process with it each time.
const CRASHES_MAX: u32 = 2;

/// How long work waits for its session to become free, in milliseconds.
const BUSY_MAX_MS: i64 = 86_400_000;

/// How long work waits that another process seems to be executing, in milliseconds.
const ELSEWHERE_MS: i64 = 2_000;

/// The reason for waiting.
const ELSEWHERE: &str = "another process has its run";

/// The outcome of starting work.
pub enum Begun {
    /// Its run is under way in this process.
    Running(RunHandle),
    /// Its run has ended.
    Ended(Ending),
    /// Another process was recently executing its run.
    Elsewhere,
}

impl App {
    /// Starts a work item: starts its run if there is none yet, otherwise resumes it.
    ///
    /// # Errors
    /// `Conflict` while its session has a turn under way or waits for a person, and for values that answer a task which
    /// has ended; `Denied` when its user may not act in the tenant any more; `NotFound` when its canvas does not exist;
    /// `Invalid` for a canvas with errors; `RateLimited` when too many runs are under way.
    pub async fn begin_work(&self, work: &Work) -> Result<Begun> {
        if let Some(run) = found(self.runs.get(&work.run).await)? {
            return self.go_on_with(work, &run).await;
        }
        self.check_user(work).await?;
        let session = self.session_of(work).await?;
        let request = self.request(work, &session).await?;
        // Only before the run exists: afterwards the session would be busy with this very run.
        if is_values_alone(&work.input) {
            Box::pin(self.refuse_late(&session, &request.plan, &work.input.inputs)).await?;
        }
        match self.engine.start_as(work.run.id.clone(), request).await {
            Ok(handle) => Ok(self.begun(handle)),
            // Another process has just started it, or its session is busy.
            Err(error) if error.kind == ErrorKind::Conflict => match self.runs.get(&work.run).await {
                Ok(run) => self.go_on_with(work, &run).await,
                // Without a run of this id, it is the session that is busy.
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn go_on_with(&self, work: &Work, run: &StoredRun) -> Result<Begun> {
        if let Some(ending) = run.ending {
            return Ok(Begun::Ended(ending));
        }
        if !self.engine.is_unattended(&run.key).await? {
            return Ok(Begun::Elsewhere);
        }
        if !self.engine.has_begun(&run.key).await? {
            self.check_user(work).await?;
            let session = self.session_of(work).await?;
            let request = self.request(work, &session).await?;
            return Ok(self.begun(self.engine.begin(run, request).await?));
        }
        let plan = self.plan_of(run).await?;
        Ok(match self.engine.pick_up(run, plan).await? {
            PickedUp::Running(handle) => self.begun(handle),
            PickedUp::Ended(ending) => Begun::Ended(ending),
        })
    }

    /// A run from the queue gives way to no question.
    fn begun(&self, handle: RunHandle) -> Begun {
        self.engine.run_in_background(&handle.key);
        Begun::Running(handle)
    }

    async fn request(&self, work: &Work, session: &Session) -> Result<StartRun> {
        let input = self.with_files_read(session, work.input.clone()).await?;
        let canvas = CanvasKey::new(&session.key.tenant, session.canvas.clone());
        let plan = self.plan(&canvas, &session.canvas_version).await?;
        let session = session.key.clone();
        Ok(StartRun { plan, canvas: canvas.id, session, input, seed: None, task: None })
    }

    /// Checks that the user in whose name work was queued may still act in the tenant: it may have waited for long.
    async fn check_user(&self, work: &Work) -> Result<()> {
        let user = work.input.user_id.as_str();
        let (why, help) = match self.standing_of_user(&work.run.tenant, user).await? {
            UserStanding::Active => return Ok(()),
            UserStanding::Disabled => ("is disabled", "enable the user, then run it again"),
            UserStanding::Left => ("has left the tenant", "let a member of the tenant run it"),
        };
        let message = format!("user {user}, in whose name it was queued, {why}");
        Err(Error::new(ErrorKind::Denied, message).help(help))
    }

    /// Returns the conversation of a work item. If it has its own, that has the id of the run, so that a second
    /// attempt finds it.
    async fn session_of(&self, work: &Work) -> Result<Session> {
        let id = work.session.clone().unwrap_or_else(|| SessionId::new(work.run.id.as_str()));
        let key = SessionKey::new(&work.run.tenant, id.clone());
        let session = match found(self.sessions.load(&key).await)? {
            Some(session) => session,
            None => {
                let canvas = CanvasKey::new(&work.run.tenant, work.canvas.clone());
                let (user_id, name) = (&work.input.user_id, &work.input.query);
                let new = NewSession { user_id, id: Some(id), name, ..NewSession::default() };
                match self.open_session_on(&canvas, new, "latest").await {
                    // Another process has just created it.
                    Err(error) if error.kind == ErrorKind::Conflict => self.sessions.load(&key).await?,
                    opened => opened?,
                }
            }
        };
        if session.canvas != work.canvas {
            let message = format!("session {} belongs to another canvas, `{}`", key.id, session.canvas);
            return Err(Error::invalid(message).help("name another session"));
        }
        // A schedule cannot answer a form.
        if SessionState::from_json(&session.state)?.paused.is_some() {
            let message = format!("session {} waits for a person", key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("answer its form"));
        }
        Ok(session)
    }

    /// Processes a work item: starts it, waits for its end, and returns the outcome.
    pub async fn do_work(&self, stored: &StoredWork) -> WorkOutcome {
        // An outcome that is stored counts, however its processes have ended.
        if !self.has_ended(&stored.work).await {
            // A schedule requests the next run before the lease on the last one has expired, so the processes that
            // earlier runs have ended count, too.
            let (cut_off, processes) = self.cut_off_beside(&stored.work).await;
            if stored.crashes.saturating_add(processes) >= CRASHES_MAX {
                for work in &cut_off {
                    let error =
                        Error::new(ErrorKind::Interrupted, "its process ended while it was under way");
                    if let Err(error) = self.end_crashing(work, error).await {
                        tracing::warn!(
                            run.id = %work.run.id,
                            error = error.full(),
                            "work that crashes its process cannot be ended"
                        );
                    }
                }
                return self.give_up_crashing(&stored.work).await;
            }
        }
        if stored.attempts > ATTEMPTS_MAX {
            let reason = match stored.reason.as_str() {
                "" => "each time its process ended".to_owned(),
                reason => reason.to_owned(),
            };
            return WorkOutcome::Abandoned {
                reason: format!("it was started {ATTEMPTS_MAX} times: {reason}"),
            };
        }
        let outcome = match self.begin_work(&stored.work).await {
            Ok(Begun::Running(handle)) => self.follow(handle).await,
            Ok(Begun::Ended(ending)) => Ok(Some(ending)),
            Ok(Begun::Elsewhere) => return self.elsewhere(),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Some(ending)) => {
                tracing::info!(run.id = %stored.work.run.id, ending = ending.as_str(), "queued work is done");
                WorkOutcome::Done
            }
            Ok(None) => {
                let from_ms = self.clock.now_ms().saturating_add(ELSEWHERE_MS);
                WorkOutcome::Released { from_ms, reason: "its run was left unfinished".to_owned() }
            }
            Err(error) => {
                if error.kind == ErrorKind::NotFound {
                    self.forget_schedule_of_nothing(&stored.work).await;
                }
                outcome_of(&error, stored, self.clock.now_ms())
            }
        }
    }

    /// Removes the schedule of work whose canvas no longer exists: it would request runs for ever, and is in no
    /// canvas's list.
    async fn forget_schedule_of_nothing(&self, work: &Work) {
        let canvas = CanvasKey::new(&work.run.tenant, work.canvas.clone());
        let gone = self.canvases.newest(&canvas).await.is_err_and(|error| error.kind == ErrorKind::NotFound);
        if !gone || work.source.is_empty() {
            return;
        }
        let key = ScheduleKey::new(&work.run.tenant, work.source.as_str());
        match found(self.remove_schedule(&key).await) {
            Ok(_) => {
                tracing::warn!(
                    schedule.id = %key.id,
                    canvas.id = %canvas.id,
                    "a schedule is removed whose agent is gone"
                );
            }
            Err(error) => {
                tracing::warn!(
                    schedule.id = %key.id,
                    error = error.detail(),
                    "a schedule whose agent is gone cannot be removed"
                );
            }
        }
    }

    /// Returns work of the same source whose run was interrupted, and how many processes ended with it. Several runs
    /// that end with one process count once: most of them did not cause it.
    async fn cut_off_beside(&self, work: &Work) -> (Vec<Work>, u32) {
        if work.source.is_empty() {
            return (Vec::new(), 0);
        }
        let filter =
            WorkFilter { source: Some(work.source.clone()), open: true, offset: 0, limit: BESIDE_MAX };
        let others = match self.queue.list(&work.run.tenant, &filter).await {
            Ok((others, _)) => others,
            Err(error) => {
                tracing::warn!(
                    run.id = %work.run.id,
                    error = error.detail(),
                    "cannot look for other work from the same source"
                );
                return (Vec::new(), 0);
            }
        };
        let taken =
            |other: &StoredWork| other.work.run != work.run && matches!(other.state, WorkState::Taken { .. });
        let others: Vec<Work> = others.into_iter().filter(taken).map(|other| other.work).collect();
        if others.is_empty() {
            return (others, 0);
        }
        // If this fails, no work is considered to have ended a process.
        let unattended = self.engine.unattended().await.unwrap_or_default();
        let owner = |work: &Work| {
            let run = unattended.iter().find(|run| run.key == work.run)?;
            run.owner.clone()
        };
        let cut_off: Vec<Work> = others.into_iter().filter(|work| owner(work).is_some()).collect();
        let processes: HashSet<_> = cut_off.iter().filter_map(owner).collect();
        (cut_off, u32::try_from(processes.len()).unwrap_or(u32::MAX))
    }

    /// Waits until the fate of the process that has its run is known.
    fn elsewhere(&self) -> WorkOutcome {
        let from_ms = self.clock.now_ms().saturating_add(ELSEWHERE_MS);
        WorkOutcome::Released { from_ms, reason: ELSEWHERE.to_owned() }
    }

    async fn has_ended(&self, work: &Work) -> bool {
        self.runs.get(&work.run).await.is_ok_and(|run| run.ending.is_some())
    }

    /// Ends work that has ended its process each time, and disables the schedule that would request it again.
    async fn give_up_crashing(&self, work: &Work) -> WorkOutcome {
        let reason = format!("its process ended {CRASHES_MAX} times while it was under way");
        let error = Error::new(ErrorKind::Interrupted, reason.clone()).help(
            "check the log for what ends the process; its schedule is disabled until somebody enables it",
        );
        if let Err(error) = self.end_crashing(work, error).await {
            // Another process has resumed it after all, or still may.
            if error.kind == ErrorKind::Conflict {
                return self.elsewhere();
            }
            tracing::warn!(
                run.id = %work.run.id,
                error = error.full(),
                "work that crashes its process cannot be ended"
            );
        }
        WorkOutcome::Abandoned {
            reason: format!("{reason}; it is not restarted automatically, and its schedule is disabled"),
        }
    }

    async fn end_crashing(&self, work: &Work, error: Error) -> Result<()> {
        if let Some(run) = found(self.runs.get(&work.run).await)?.filter(|run| run.ending.is_none()) {
            if !self.engine.is_unattended(&run.key).await? {
                return Err(Error::new(ErrorKind::Conflict, ELSEWHERE));
            }
            self.engine.give_up(&run, error).await?;
        }
        let key = ScheduleKey::new(&work.run.tenant, work.source.as_str());
        let Some(schedule) = found(self.schedules.get(&key).await)? else { return Ok(()) };
        self.schedules.replace(&Schedule { next_ms: None, ..schedule }).await?;
        self.queue.withdraw(&key.tenant, key.id.as_str()).await.map(drop)
    }

    /// Waits for the end of a run; `None` if the run was left without one.
    async fn follow(&self, mut handle: RunHandle) -> Result<Option<Ending>> {
        while handle.entries.next().await?.is_some() {}
        Ok(self.runs.get(&handle.key).await?.ending)
    }
}

/// Returns the outcome of a failed start. Work whose session is busy waits for it; temporary failures are retried
/// with a pause that doubles each time; other work is given up.
fn outcome_of(error: &Error, stored: &StoredWork, now_ms: i64) -> WorkOutcome {
    const PAUSE_MIN_MS: i64 = 1_000;
    const PAUSE_MAX_MS: i64 = 300_000;
    let reason = error.full();
    // Unlike a busy session, an ended task stays as it is.
    if is_of_ended_task(error) {
        return WorkOutcome::Abandoned { reason };
    }
    match error.kind {
        ErrorKind::Conflict | ErrorKind::RateLimited => {
            let waited = now_ms.saturating_sub(stored.work.due_ms.max(stored.pushed_ms));
            if waited > BUSY_MAX_MS {
                return WorkOutcome::Abandoned { reason: format!("it has been waiting for a day: {reason}") };
            }
            // A tenth of the time waited so far: frequent at first, and rare for work that waits for hours.
            let pause = (waited / 10).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS / 10);
            WorkOutcome::Released { from_ms: now_ms.saturating_add(pause), reason }
        }
        ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::Internal
            if stored.attempts < ATTEMPTS_MAX =>
        {
            // Limited to the longest pause, so that no bits are shifted out.
            let pause = (PAUSE_MIN_MS << stored.attempts.min(16)).min(PAUSE_MAX_MS);
            WorkOutcome::RetryAt { from_ms: now_ms.saturating_add(pause), reason }
        }
        ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Internal
        | ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Denied
        | ErrorKind::Unauthenticated
        | ErrorKind::QuotaExceeded
        | ErrorKind::Filtered
        | ErrorKind::Garbled
        | ErrorKind::Cancelled
        | ErrorKind::Interrupted
        | ErrorKind::Unsupported => WorkOutcome::Abandoned { reason },
    }
}

#[cfg(test)]
mod tests {
    use weft_core::{RunKey, TenantId, TurnInput};

    use super::*;

    fn stored(attempts: u32) -> StoredWork {
        let work = Work {
            run: RunKey::new(&TenantId::from("t"), "r"),
            canvas: "c".into(),
            session: None,
            input: TurnInput::default(),
            source: String::new(),
            due_ms: 1_000,
        };
        let state = WorkState::Taken { until_ms: 0 };
        StoredWork { work, state, attempts, crashes: 0, reason: String::new(), pushed_ms: 500 }
    }

    #[test]
    fn work_for_a_busy_session_is_postponed_up_to_a_limit() {
        let busy = Error::new(ErrorKind::Conflict, "it is busy");
        let after = |waited| outcome_of(&busy, &stored(9), 1_000 + waited);
        let again = |from_ms| WorkOutcome::Released { from_ms, reason: "it is busy".into() };
        assert_eq!(after(0), again(2_000));
        assert_eq!(after(100_000), again(111_000));
        assert_eq!(after(BUSY_MAX_MS), again(1_000 + BUSY_MAX_MS + 30_000));
        assert!(matches!(after(BUSY_MAX_MS + 1), WorkOutcome::Abandoned { .. }));
    }

    #[test]
    fn transient_failures_are_retried_with_backoff_and_others_are_abandoned() {
        let gone = Error::new(ErrorKind::Unavailable, "it is down");
        let pause = |attempts| match outcome_of(&gone, &stored(attempts), 0) {
            WorkOutcome::RetryAt { from_ms, .. } => Some(from_ms),
            _ => None,
        };
        assert_eq!([1, 2, 3, 7].map(pause), [Some(2_000), Some(4_000), Some(8_000), Some(128_000)]);
        assert_eq!(pause(ATTEMPTS_MAX), None);
        let wrong = Error::invalid("the canvas cannot run");
        assert_eq!(
            outcome_of(&wrong, &stored(1), 0),
            WorkOutcome::Abandoned { reason: "the canvas cannot run".into() }
        );
    }
}
