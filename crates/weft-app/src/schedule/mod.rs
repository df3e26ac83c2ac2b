//! Schedules, which start runs of canvases automatically.

mod decide;
mod inputs;
pub mod times;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};
use weft_core::error::found;
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::schedule_store::{Misfire, Schedule, ScheduleFilter, SessionPolicy, Timing};
use weft_core::seam::work_queue::{StoredWork, Work, WorkFilter};
use weft_core::{
    CanvasKey, Error, ErrorKind, Result, RunId, RunKey, ScheduleId, ScheduleKey, TenantId, TurnInput, UserId,
};

use crate::app::App;
use crate::removal::stays_with;
pub use decide::{CLOCK_BACK_MS, Decision, MADE_UP_MAX, MISSED_AFTER_MS, decide};
use times::Times;

/// Maximum number of unfinished runs of a schedule. Further runs are not queued.
pub const OPEN_MAX: u64 = 100;

/// Maximum number of schedules of one tenant.
const SCHEDULES_MAX: u64 = 10_000;

/// Maximum length of a schedule's name, in characters.
const NAME_CHARS_MAX: usize = 255;

/// Maximum length of a user's name, in bytes, as for sessions.
const USER_BYTES_MAX: usize = 255;

/// How large the input of a schedule is at most, as JSON, in bytes. Each run that waits has a copy of it, and lists
/// read up to a thousand.
const INPUT_BYTES_MAX: usize = 256 << 10;

/// Schedules that are looked at together.
const DUE_AT_ONCE: u64 = 100;

/// Maximum number of batches of one check.
const DUE_ROUNDS_MAX: usize = 20;

/// How often to check whether the runs of a schedule that is to be removed have ended.
const LOOKED_MAX: u32 = 100;

/// Pause between these checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The settings of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Its name.
    pub name: String,
    /// When it fires.
    pub timing: Timing,
    /// The input of its runs.
    pub input: TurnInput,
    /// The sessions to which its runs belong.
    pub session: SessionPolicy,
    /// How missed times are handled.
    pub misfire: Misfire,
    /// Whether it is enabled.
    pub enabled: bool,
}

impl From<Schedule> for Terms {
    fn from(schedule: Schedule) -> Self {
        let enabled = schedule.is_enabled();
        let Schedule { name, timing, input, session, misfire, .. } = schedule;
        Self { name, timing, input, session, misfire, enabled }
    }
}

impl Terms {
    /// Checks what the types do not guarantee, and parses the timing.
    fn check(&self) -> Result<Times> {
        self.input.check_files()?;
        if self.name.chars().count() > NAME_CHARS_MAX {
            let message = "the name of the schedule is too long";
            return Err(Error::invalid(message).help(format!("use at most {NAME_CHARS_MAX} characters")));
        }
        // Sessions store the user: each run would be refused later, when nobody sees the error.
        if self.input.user_id.len() > USER_BYTES_MAX || self.input.user_id.contains('\0') {
            let message = "`user_id` of the schedule is too long, or contains a NUL character";
            return Err(Error::invalid(message).help(format!("use at most {USER_BYTES_MAX} bytes")));
        }
        let input = serde_json::to_vec(&self.input)
            .map_err(|cause| Error::internal("cannot write the input of a schedule").because(cause))?;
        if input.len() > INPUT_BYTES_MAX {
            let message = format!("the input of the schedule has more than {INPUT_BYTES_MAX} bytes as JSON");
            return Err(Error::invalid(message).help("put large texts into the canvas or into a dataset"));
        }
        if let Misfire::All { max } = self.misfire
            && !(1..=MADE_UP_MAX).contains(&max)
        {
            let message = format!("the maximum of missed runs must be from 1 to {MADE_UP_MAX}, and is {max}");
            return Err(Error::invalid(message));
        }
        Times::parse(&self.timing)
    }
}

/// Whether the user in whose name a schedule or queued work runs may act in its tenant.
pub(crate) enum UserStanding {
    /// They may, or the name is that of no user.
    Active,
    /// The account is disabled, which may be temporary.
    Disabled,
    /// The user is no member of the tenant.
    Left,
}

/// A run that a schedule has queued.
#[derive(Clone, Debug)]
pub struct Fire {
    /// The work in the queue.
    pub stored: StoredWork,
    /// The run, once it has started.
    pub run: Option<StoredRun>,
}

/// Returns the id of the run for one time of a schedule. All workers derive the same id, in the format of random ids.
fn run_of(schedule: &ScheduleKey, fire_ms: i64) -> RunId {
    let mut hash = Sha256::new();
    for part in [schedule.tenant.as_str(), schedule.id.as_str()] {
        // The length separates each part from the next.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(fire_ms.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    // RFC 9562 §4: version 1, and the variant.
    bytes[6] = bytes[6] & 0x0f | 0x10;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    RunId::new(weft_core::hex(&bytes))
}

fn work(schedule: &Schedule, run: RunId, due_ms: i64) -> Work {
    Work {
        run: RunKey::new(&schedule.key.tenant, run),
        canvas: schedule.canvas.clone(),
        session: match &schedule.session {
            SessionPolicy::New => None,
            SessionPolicy::One(id) => Some(id.clone()),
        },
        input: schedule.input.clone(),
        source: schedule.key.id.to_string(),
        due_ms,
    }
}

/// Returns the next times of a schedule for display, in its own time zone; at most `count_max`.
pub fn upcoming(schedule: &Schedule, count_max: usize) -> Vec<String> {
    let Ok(times) = Times::parse(&schedule.timing) else { return Vec::new() };
    let zone = match &schedule.timing {
        Timing::Cron { zone, .. } => TimeZone::get(zone).unwrap_or(TimeZone::UTC),
        Timing::Every { .. } => TimeZone::UTC,
    };
    let nexts = std::iter::successors(schedule.next_ms, |ms| times.after(*ms)).take(count_max);
    nexts
        .filter_map(|ms| {
            let time = Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone());
            Some(time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
        })
        .collect()
}

/// Describes a timing for display.
pub fn timing_text(timing: &Timing) -> String {
    match timing {
        Timing::Cron { expression, zone } => format!("{expression} ({zone})"),
        Timing::Every { every_ms, .. } => format!("every {}", times::interval_text(*every_ms)),
    }
}

impl App {
    /// Creates a schedule for a canvas.
    ///
    /// # Errors
    /// `NotFound` for an unknown canvas; `Invalid` for settings or inputs that are not valid; `QuotaExceeded` when the tenant has
    /// the maximum number of schedules.
    pub async fn add_schedule(&self, canvas: &CanvasKey, terms: Terms) -> Result<Schedule> {
        let times = terms.check()?;
        self.canvases.get(canvas).await?;
        self.check_inputs(canvas, &terms).await?;
        let now_ms = self.clock.now_ms();
        let schedule = Schedule {
            key: ScheduleKey::new(&canvas.tenant, ScheduleId::generate()),
            canvas: canvas.id.clone(),
            name: terms.name,
            timing: terms.timing,
            input: terms.input,
            session: terms.session,
            misfire: terms.misfire,
            next_ms: times.after(now_ms).filter(|_| terms.enabled),
            decided_ms: now_ms,
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        self.schedules.create(&schedule, SCHEDULES_MAX).await?;
        stays_with(self.canvases.newest(canvas).await, self.remove_schedule(&schedule.key)).await?;
        self.wake.notify_one();
        Ok(schedule)
    }

    /// Changes a schedule that was just read. Times in the past no longer fire. If it is disabled, its runs that wait
    /// for a worker are withdrawn, except those that a person has requested.
    ///
    /// # Errors
    /// `Invalid` for settings or inputs that are not valid; `Conflict` when it was changed in the meantime.
    pub async fn change_schedule(&self, before: &Schedule, terms: Terms) -> Result<Schedule> {
        let times = terms.check()?;
        // Unchanged inputs may have been made unfit by a change of the canvas, which must not prevent other changes.
        if terms.input.inputs != before.input.inputs {
            let canvas = CanvasKey::new(&before.key.tenant, before.canvas.clone());
            self.check_inputs(&canvas, &terms).await?;
        }
        let now_ms = self.clock.now_ms();
        // With the same times, past decisions stay: otherwise renaming a schedule would repeat a time.
        let same_times = terms.enabled && before.is_enabled() && terms.timing == before.timing;
        let next_ms = if same_times { before.next_ms } else { times.after(now_ms).filter(|_| terms.enabled) };
        let changed = Schedule {
            name: terms.name,
            timing: terms.timing,
            input: terms.input,
            session: terms.session,
            misfire: terms.misfire,
            next_ms,
            decided_ms: if same_times { before.decided_ms } else { now_ms },
            updated_ms: now_ms,
            ..before.clone()
        };
        match self.schedules.replace(&changed).await {
            // A worker has queued a run in the meantime, which is no conflicting change.
            Err(error) if error.kind == ErrorKind::Conflict => self.replace_again(before, &changed).await?,
            replaced => replaced?,
        }
        // After it is disabled, so that no worker queues more in between.
        if !terms.enabled {
            self.withdraw_times(&before.key).await?;
        }
        self.wake.notify_one();
        self.schedules.get(&before.key).await
    }

    /// Stores the change again, if only the next time has changed in the meantime.
    async fn replace_again(&self, before: &Schedule, changed: &Schedule) -> Result<()> {
        let now = self.schedules.get(&before.key).await?;
        let only_time = Schedule {
            next_ms: now.next_ms,
            decided_ms: now.decided_ms,
            revision: now.revision,
            ..before.clone()
        };
        if now != only_time {
            let message = format!("schedule `{}` was changed in the meantime", before.key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("read it again, then change it"));
        }
        let (next_ms, decided_ms) = if changed.next_ms == before.next_ms {
            (now.next_ms, now.decided_ms)
        } else {
            (changed.next_ms, changed.decided_ms)
        };
        let revision = now.revision;
        self.schedules.replace(&Schedule { next_ms, decided_ms, revision, ..changed.clone() }).await
    }

    /// Withdraws the queued runs for times of a schedule that no worker has taken. Those that a person has requested
    /// stay: their ids are not derived from a time.
    async fn withdraw_times(&self, key: &ScheduleKey) -> Result<()> {
        let source = Some(key.id.to_string());
        let filter = WorkFilter { source, open: true, limit: OPEN_MAX, ..WorkFilter::default() };
        let (open, _) = self.queue.list(&key.tenant, &filter).await?;
        let works = open.into_iter().map(|stored| stored.work);
        let of_times = works.filter(|work| work.run.id == run_of(key, work.due_ms));
        let runs: Vec<RunId> = of_times.map(|work| work.run.id).collect();
        self.queue.withdraw_runs(&key.tenant, &runs).await.map(drop)
    }

    /// Removes a schedule, and its queued runs that no worker has taken.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_schedule(&self, key: &ScheduleKey) -> Result<()> {
        self.schedules.delete(key).await?;
        self.queue.withdraw(&key.tenant, key.id.as_str()).await.map(drop)
    }

    /// Disables the schedules of a tenant that run in the name of a user, and withdraws their runs that no worker has
    /// taken.
    pub(crate) async fn stop_schedules_of(&self, tenant: &TenantId, user: &UserId) -> Result<()> {
        for key in self.schedules_of(tenant, user).await? {
            // Again if a worker has advanced it in the meantime.
            while let Some(schedule) = found(self.schedules.get(&key).await)? {
                if self.schedules.advance(&schedule, None, schedule.decided_ms).await? {
                    break;
                }
            }
            self.queue.withdraw(tenant, key.id.as_str()).await?;
        }
        Ok(())
    }

    /// Removes the schedules of a tenant that run in the name of a user, which were stopped, with what the queue has
    /// of them: the input of each of their runs.
    ///
    /// # Errors
    /// `Conflict` while a worker is at work on one of their runs. Repeating the call continues.
    pub(crate) async fn remove_schedules_of(&self, tenant: &TenantId, user: &UserId) -> Result<()> {
        for key in self.schedules_of(tenant, user).await? {
            self.until_settled(&key).await?;
            self.queue.remove_settled(tenant, key.id.as_str()).await?;
            // The schedule goes last, because it tells which work is the user's.
            found(self.remove_schedule(&key).await)?;
        }
        Ok(())
    }

    /// Waits until no worker is at work on a run of a schedule. A run that was stopped is settled a moment later.
    async fn until_settled(&self, key: &ScheduleKey) -> Result<()> {
        let source = Some(key.id.to_string());
        let filter = WorkFilter { source, open: true, limit: 1, ..WorkFilter::default() };
        for _ in 0..LOOKED_MAX {
            // Also what a worker has just given back.
            self.queue.withdraw(&key.tenant, key.id.as_str()).await?;
            if self.queue.list(&key.tenant, &filter).await?.0.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let message = format!("a run of the schedule `{}` has not ended in time", key.id);
        Err(Error::new(ErrorKind::Conflict, message).help("try again when it has ended"))
    }

    /// Returns the schedules of a tenant that run in the name of a user.
    pub(crate) async fn schedules_of(&self, tenant: &TenantId, user: &UserId) -> Result<Vec<ScheduleKey>> {
        let mut theirs = Vec::new();
        let mut filter = ScheduleFilter { limit: DUE_AT_ONCE, ..ScheduleFilter::default() };
        loop {
            let (page, _) = self.schedules.list(tenant, &filter).await?;
            if page.is_empty() {
                return Ok(theirs);
            }
            filter.offset = filter.offset.saturating_add(page.len() as u64);
            let of_user = page.into_iter().filter(|one| one.input.user_id == user.as_str());
            theirs.extend(of_user.map(|one| one.key));
        }
    }

    /// Returns whether the user in whose name something runs may still act in its tenant.
    pub(crate) async fn standing_of_user(&self, tenant: &TenantId, user: &str) -> Result<UserStanding> {
        // In the tenant of a registration, callers without a user run under the id of its first user as well.
        if user.is_empty() || user == tenant.as_str() {
            return Ok(UserStanding::Active);
        }
        let user = UserId::from(user);
        // API keys may choose any name, and most of these are no users.
        let Some(known) = found(self.accounts.stores.users.user(&user).await)? else {
            return Ok(UserStanding::Active);
        };
        let member = found(self.accounts.stores.tenants.membership(tenant, &user).await)?;
        Ok(match member {
            None => UserStanding::Left,
            Some(_) if known.enabled => UserStanding::Active,
            Some(_) => UserStanding::Disabled,
        })
    }

    /// Queues a run of a schedule now, even if it is disabled.
    ///
    /// # Errors
    /// `RateLimited` when too many of its runs are waiting.
    pub async fn fire_schedule(&self, schedule: &Schedule) -> Result<RunKey> {
        let now_ms = self.clock.now_ms();
        let work = work(schedule, RunId::generate(), now_ms);
        if self.queue.push_within(std::slice::from_ref(&work), now_ms, OPEN_MAX).await? > 0 {
            let message = format!("{OPEN_MAX} runs of schedule `{}` have not ended", schedule.key.id);
            return Err(Error::new(ErrorKind::RateLimited, message).help("wait for them"));
        }
        self.wake.notify_one();
        Ok(work.run)
    }

    /// Returns the runs that a schedule has queued, latest first, and their total number. Old ones have been pruned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn fires(&self, schedule: &ScheduleKey, offset: u64, limit: u64) -> Result<(Vec<Fire>, u64)> {
        let source = Some(schedule.id.to_string());
        let filter = WorkFilter { source, offset, limit, ..WorkFilter::default() };
        let (found, total) = self.queue.list(&schedule.tenant, &filter).await?;
        let mut fires = Vec::with_capacity(found.len());
        for stored in found {
            let run = weft_core::error::found(self.runs.get(&stored.work.run).await)?;
            fires.push(Fire { stored, run });
        }
        Ok((fires, total))
    }

    /// Queues the runs of all schedules that are due. Any number of workers may do so concurrently: each time has one
    /// run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn fire_due(&self) -> Result<()> {
        for _ in 0..DUE_ROUNDS_MAX {
            let now_ms = self.clock.now_ms();
            // Also schedules whose next time was set by a clock that was ahead.
            let ahead_ms = now_ms.saturating_add(CLOCK_BACK_MS);
            let due = self.schedules.due(now_ms, ahead_ms, DUE_AT_ONCE).await?;
            let page = due.len() as u64;
            let mut failed = false;
            for schedule in due {
                // One that fails must not keep the others waiting.
                if let Err(error) = self.fire_times(&schedule, now_ms).await {
                    failed = true;
                    tracing::warn!(schedule.id = %schedule.key.id, error = error.detail(), "a schedule could not fire");
                }
            }
            // A failed schedule would be first in the next batch as well.
            if page < DUE_AT_ONCE || failed {
                break;
            }
        }
        Ok(())
    }

    async fn fire_times(&self, schedule: &Schedule, now_ms: i64) -> Result<()> {
        let times = match Times::parse(&schedule.timing) {
            Ok(times) => times,
            Err(error) => {
                // Another version of the program has accepted this timing.
                tracing::error!(schedule.id = %schedule.key.id, error = error.detail(), "a schedule is disabled");
                return self.schedules.advance(schedule, None, now_ms).await.map(drop);
            }
        };
        let Some(decision) = decide(&times, schedule, now_ms) else { return Ok(()) };
        // Looked up at each time, because a user can be removed or disabled in several ways and by other processes.
        match self.standing_of_user(&schedule.key.tenant, &schedule.input.user_id).await? {
            UserStanding::Active => {}
            UserStanding::Disabled => {
                // These times are over when the user is enabled again, and are not made up for.
                let Decision { next_ms, decided_ms, .. } = decision;
                return self.schedules.advance(schedule, next_ms, decided_ms).await.map(drop);
            }
            UserStanding::Left => {
                tracing::warn!(schedule.id = %schedule.key.id, "a schedule is disabled: its user has left the tenant");
                self.schedules.advance(schedule, None, now_ms).await?;
                return self.withdraw_times(&schedule.key).await;
            }
        }
        // If there is no room for all, the latest ones are queued. Each contains the whole input, so no more are
        // created than fit.
        let skipped = decision.fires.len().saturating_sub(usize::try_from(OPEN_MAX).unwrap_or(usize::MAX));
        let fires = decision.fires.iter().skip(skipped);
        let all: Vec<Work> = fires.map(|fire| work(schedule, run_of(&schedule.key, *fire), *fire)).collect();
        // The runs are queued before the decision is stored: a process that stops in between queues them again.
        let passed_over = self.queue.push_within(&all, now_ms, OPEN_MAX).await?;
        let passed_over = passed_over.saturating_add(u64::try_from(skipped).unwrap_or(u64::MAX));
        if passed_over > 0 {
            tracing::warn!(schedule.id = %schedule.key.id, passed_over, "too many runs of a schedule have not ended");
        }
        if self.schedules.advance(schedule, decision.next_ms, decision.decided_ms).await? {
            return Ok(());
        }
        // Another worker was faster, or the schedule was just disabled.
        let now = found(self.schedules.get(&schedule.key).await)?;
        if now.is_some_and(|now| now.is_enabled()) {
            Ok(())
        } else {
            self.withdraw_times(&schedule.key).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_of_each_schedule_has_its_own_run_id() {
        let key = |tenant: &str, id: &str| ScheduleKey::new(&TenantId::from(tenant), id);
        let run = run_of(&key("t", "s"), 1_000);
        assert_eq!(run, run_of(&key("t", "s"), 1_000));
        for other in
            [run_of(&key("t", "s"), 1_001), run_of(&key("ts", ""), 1_000), run_of(&key("", "ts"), 1_000)]
        {
            assert_ne!(run, other);
        }
        let id = run.as_str();
        assert!(id.len() == 32 && &id[12..13] == "1" && "89ab".contains(&id[16..17]), "{id}");
        assert_eq!(run_of(&key("t", "s"), i64::MIN).as_str().len(), 32);
    }
}
