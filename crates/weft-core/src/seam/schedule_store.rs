//! Schedules: when canvases run by themselves.

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::context::TurnInput;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{CanvasId, ScheduleKey, SessionId, TenantId};

/// The times at which a schedule fires, as written by people. It must be parsed before times can be computed from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// By calendar and local time.
    Cron {
        /// A cron expression of five fields, or six with seconds first.
        expression: String,
        /// An IANA time zone name, such as `Europe/Berlin`.
        zone: String,
    },
    /// At a fixed interval.
    Every {
        /// The interval in milliseconds.
        every_ms: i64,
        /// The start of the first interval, in milliseconds since 1970; the schedule first fires at its end.
        from_ms: i64,
    },
}

/// The conversation that the runs of a schedule belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPolicy {
    /// Each run has its own.
    New,
    /// All runs continue this one, which the first run creates.
    One(SessionId),
}

/// What happens to times that passed while no worker was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// They are skipped.
    Skip,
    /// One run makes up for all of them.
    Once,
    /// The most recent ones each get a run.
    All {
        /// The maximum number of such runs.
        max: u32,
    },
}

/// A schedule: when a canvas runs by itself, and with which input.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its tenant and id.
    pub key: ScheduleKey,
    /// The canvas; its newest version runs.
    pub canvas: CanvasId,
    /// Its name in lists.
    pub name: String,
    /// The times at which it fires.
    pub timing: Timing,
    /// The input of the runs.
    pub input: TurnInput,
    /// The conversation that the runs belong to.
    pub session: SessionPolicy,
    /// What happens to missed times.
    pub misfire: Misfire,
    /// When it fires next, in milliseconds since 1970; absent while it is disabled.
    pub next_ms: Option<i64>,
    /// Up to this time, it has been decided which runs to start.
    pub decided_ms: i64,
    /// Counts the changes; a writer must supply the current value.
    pub revision: i64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When its settings were last changed, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl Schedule {
    /// Returns whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.next_ms.is_some()
    }
}

/// Which schedules to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleFilter {
    /// Of one canvas.
    pub canvas: Option<CanvasId>,
    /// How many to skip.
    pub offset: u64,
    /// Maximum number to return.
    pub limit: u64,
}

/// The error for a tenant that has reached its limit of schedules.
pub fn too_many_schedules(count_max: u64) -> Error {
    Error::new(ErrorKind::QuotaExceeded, format!("there are {count_max} schedules already"))
        .help("remove some")
}

/// Stores schedules.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Stores a new schedule, unless its tenant already has `count_max`.
    ///
    /// # Errors
    /// `Conflict` when the id is taken; `QuotaExceeded` when there are that many.
    async fn create(&self, schedule: &Schedule, count_max: u64) -> Result<()>;

    /// Returns a schedule.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &ScheduleKey) -> Result<Schedule>;

    /// Replaces a schedule, and increments its revision.
    ///
    /// # Errors
    /// `Conflict` when `schedule.revision` is not the stored one, or when the schedule does not exist.
    async fn replace(&self, schedule: &Schedule) -> Result<()>;

    /// Records a decision: everything up to `decided_ms` has been decided, and `next_ms` is the next time. Returns
    /// whether it was recorded: not when the schedule was changed, advanced or removed in the meantime.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn advance(&self, seen: &Schedule, next_ms: Option<i64>, decided_ms: i64) -> Result<bool>;

    /// Returns schedules of all tenants whose next time is not after `now_ms`, longest overdue first, and those that
    /// were decided later than `ahead_ms`, by a clock that has been set back since.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn due(&self, now_ms: i64, ahead_ms: i64, count_max: u64) -> Result<Vec<Schedule>>;

    /// Returns schedules that match a filter, sorted by name, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<(Vec<Schedule>, u64)>;

    /// Removes a schedule.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, key: &ScheduleKey) -> Result<()>;
}
