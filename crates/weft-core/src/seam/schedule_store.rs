//! When canvases run by themselves.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::context::TurnInput;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{CanvasId, ScheduleKey, SessionId, TenantId};

/// At which times a schedule fires, as people write it. Who computes with it parses it first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// By the calendar and the clock on the wall.
    Cron {
        /// Five fields, or six with seconds first.
        expression: String,
        /// A name of the IANA database, such as `Europe/Berlin`.
        zone: String,
    },
    /// Again and again after the same time.
    Every {
        /// Milliseconds from one to the next.
        every_ms: i64,
        /// Milliseconds since 1970 that all are counted from; the first is one interval later.
        from_ms: i64,
    },
}

/// Which conversation the runs of a schedule belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPolicy {
    /// Each has one of its own.
    New,
    /// All go on with this one, which begins with the first.
    One(SessionId),
}

/// What happens to times that passed while no worker was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// One run makes up for all of them.
    Once,
    /// The last ones are made up for, each.
    All {
        /// How many.
        max: u32,
    },
}

/// When and with what a canvas runs by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Which tenant it belongs to, and its id.
    pub key: ScheduleKey,
    /// The canvas; its newest version runs.
    pub canvas: CanvasId,
    /// What it is called in lists.
    pub name: String,
    /// At which times.
    pub timing: Timing,
    /// What the runs are given.
    pub input: TurnInput,
    /// Which conversation they belong to.
    pub session: SessionPolicy,
    /// What happens to times that were missed.
    pub misfire: Misfire,
    /// When it fires next, in milliseconds since 1970; absent while it is disabled.
    pub next_ms: Option<i64>,
    /// Everything up to this time has been decided.
    pub decided_ms: i64,
    /// Counts the changes; a writer must know the current one.
    pub revision: i64,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// When somebody last changed it, in milliseconds since 1970.
    pub updated_ms: i64,
}

impl Schedule {
    /// Whether it fires at all.
    pub fn is_enabled(&self) -> bool {
        self.next_ms.is_some()
    }
}

/// Which schedules to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleFilter {
    /// Of one canvas.
    pub canvas: Option<CanvasId>,
    /// How many to pass over.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// The error that a tenant has as many schedules as it may have.
pub fn too_many_schedules(count_max: u64) -> Error {
    Error::new(ErrorKind::QuotaExceeded, format!("there are {count_max} schedules already"))
        .help("remove some")
}

/// Where schedules are kept.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Stores a new schedule, unless its tenant has `count_max` already.
    ///
    /// # Errors
    /// `Conflict` when the id is taken; `QuotaExceeded` when there are that many.
    async fn create(&self, schedule: &Schedule, count_max: u64) -> Result<()>;

    /// A schedule.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get(&self, key: &ScheduleKey) -> Result<Schedule>;

    /// Replaces a schedule, and raises its revision by one.
    ///
    /// # Errors
    /// `Conflict` when `schedule.revision` is not the stored one, also when there is no such schedule.
    async fn replace(&self, schedule: &Schedule) -> Result<()>;

    /// Notes what was decided: everything up to `decided_ms`, with `next_ms` as what comes next. Whether
    /// it was noted: not when the schedule was changed, decided about, or removed in the meantime.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn advance(&self, seen: &Schedule, next_ms: Option<i64>, decided_ms: i64) -> Result<bool>;

    /// Schedules of all tenants whose next time is not after `now_ms`, the longest overdue first, and
    /// those that were decided after `ahead_ms`, by a clock that has gone back since.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn due(&self, now_ms: i64, ahead_ms: i64, count_max: u64) -> Result<Vec<Schedule>>;

    /// Schedules by filter, by name, and how many there are in all.
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
