//! Schedules and the runs that they have requested.

use serde::Serialize;
use serde_json::Value as Json;
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::schedule_store::{Misfire, Schedule, SessionPolicy, Timing};
use weft_core::seam::work_queue::{StoredWork, WorkState};
use weft_core::suggest::{did_you_mean, nearest};
use weft_core::{CanvasId, Ending, RunId, ScheduleId, SessionId, TurnInput};

use super::time::http_date;
use crate::auth::Caller;
use crate::body::{Body, excerpt};
use crate::error::ApiError;
use weft_app::App;
use weft_app::schedule::times::{interval, interval_text};
use weft_app::schedule::{Fire, Terms, upcoming};

/// Default time zone of a cron expression.
pub const ZONE: &str = "UTC";

/// Default number of missed times to catch up on.
pub const MADE_UP: u32 = 100;

/// Number of upcoming times that are shown.
const UPCOMING_SHOWN: usize = 5;

/// The fields of a request.
const FIELDS: [&str; 12] = [
    "cron",
    "every",
    "timezone",
    "name",
    "query",
    "inputs",
    "files",
    "user_id",
    "session_id",
    "misfire",
    "misfire_max",
    "enabled",
];

/// Fields that only answers have. They are ignored, so that a schedule can be sent as it was shown.
const ONLY_SHOWN: [&str; 9] = [
    "id",
    "agent_id",
    "unread_inputs",
    "next_time",
    "upcoming",
    "create_time",
    "create_date",
    "update_time",
    "update_date",
];

/// Checks that a request has no unknown fields: a misspelled one would be a schedule that does something else, which
/// is noticed when it fires.
fn check_fields(body: &Body) -> Result<(), ApiError> {
    let is_known = |key: &str| FIELDS.contains(&key) || ONLY_SHOWN.contains(&key);
    let Some(key) = body.0.keys().find(|key| !is_known(key.as_str())) else { return Ok(()) };
    let help =
        nearest(key, FIELDS).map_or_else(|| format!("the fields are {}", FIELDS.join(", ")), did_you_mean);
    Err(ApiError::argument(format!("there is no field `{}`: {help}", excerpt(key))))
}

/// Reads the terms of a new schedule.
///
/// # Errors
/// 101 naming the field that is missing, is unknown or is not valid.
pub fn terms(body: &Body, caller: &Caller, now_ms: i64) -> Result<Terms, ApiError> {
    check_fields(body)?;
    let Some(timing) = timing(body, None, now_ms)? else {
        return Err(ApiError::argument("required argument are missing: cron or every; "));
    };
    let terms = Terms {
        name: String::new(),
        timing,
        input: TurnInput { user_id: caller.user_id.clone(), ..TurnInput::default() },
        session: SessionPolicy::New,
        misfire: Misfire::Once,
        enabled: true,
    };
    the_rest(body, terms)
}

/// Applies the fields of a request to the terms of a schedule; absent fields stay as they are.
///
/// # Errors
/// 101 naming the field that is unknown or is not valid.
pub fn changed(body: &Body, before: Terms, now_ms: i64) -> Result<Terms, ApiError> {
    check_fields(body)?;
    let timing = timing(body, Some(&before.timing), now_ms)?.unwrap_or(before.timing);
    the_rest(body, Terms { timing, ..before })
}

fn the_rest(body: &Body, terms: Terms) -> Result<Terms, ApiError> {
    let Terms { name, timing, input, session, misfire, enabled } = terms;
    let TurnInput {
        query,
        user_id,
        files,
        inputs,
        pins,
        parallel_messages,
        background,
        all_sources,
        notes,
        webhook,
    } = input;
    Ok(Terms {
        name: body.text("name")?.unwrap_or(name),
        timing,
        input: TurnInput {
            query: body.text("query")?.unwrap_or(query),
            user_id: body.text("user_id")?.unwrap_or(user_id),
            files: body.list("files")?.unwrap_or(files),
            inputs: body.object("inputs")?.unwrap_or(inputs),
            pins,
            parallel_messages,
            background,
            all_sources,
            notes,
            webhook,
        },
        session: match (body.text("session_id")?, body.id("session_id")?) {
            (None, _) => session,
            (Some(_), Some(id)) => SessionPolicy::One(SessionId::from(id)),
            // An empty id removes the current one.
            (Some(_), None) => SessionPolicy::New,
        },
        misfire: self::misfire(body, misfire)?,
        enabled: body.flag("enabled")?.unwrap_or(enabled),
    })
}

fn timing(body: &Body, before: Option<&Timing>, now_ms: i64) -> Result<Option<Timing>, ApiError> {
    let (expression, every, zone) = (body.text("cron")?, body.text("every")?, body.text("timezone")?);
    let (expression_before, zone_before) = match before {
        Some(Timing::Cron { expression, zone }) => (Some(expression.clone()), zone.clone()),
        Some(Timing::Every { .. }) | None => (None, ZONE.to_owned()),
    };
    match (expression, every, zone) {
        (Some(_), Some(_), _) => Err(ApiError::argument("give `cron` or `every`, not both")),
        (None, Some(_), Some(_)) => Err(ApiError::argument("`timezone` belongs to `cron`, not to `every`")),
        (Some(expression), None, zone) => {
            Ok(Some(Timing::Cron { expression, zone: zone.unwrap_or(zone_before) }))
        }
        (None, Some(every), None) => {
            let every_ms = i64::try_from(interval(&every)?.as_millis()).unwrap_or(i64::MAX);
            Ok(Some(match before {
                // An unchanged interval keeps its start: sending it again does not delay the next time.
                Some(same @ Timing::Every { every_ms: now, .. }) if *now == every_ms => same.clone(),
                _ => Timing::Every { every_ms, from_ms: now_ms },
            }))
        }
        (None, None, Some(zone)) => match expression_before {
            Some(expression) => Ok(Some(Timing::Cron { expression, zone })),
            None => Err(ApiError::argument("`timezone` belongs to `cron`, and there is none")),
        },
        (None, None, None) => Ok(None),
    }
}

fn misfire(body: &Body, before: Misfire) -> Result<Misfire, ApiError> {
    let max = match body.get("misfire_max") {
        None => None,
        Some(max) => Some(
            max.as_u64()
                .and_then(|max| u32::try_from(max).ok())
                .ok_or_else(|| ApiError::argument("`misfire_max` must be a number"))?,
        ),
    };
    let misfire = match (body.text("misfire")?.as_deref(), before) {
        (Some("skip"), _) => Misfire::Skip,
        (Some("once"), _) => Misfire::Once,
        (Some("all"), Misfire::All { max: known }) => Misfire::All { max: max.unwrap_or(known) },
        (Some("all"), Misfire::Skip | Misfire::Once) => Misfire::All { max: max.unwrap_or(MADE_UP) },
        (None, Misfire::All { max: known }) => Misfire::All { max: max.unwrap_or(known) },
        (None, before) => before,
        (Some(_), _) => return Err(ApiError::argument("`misfire` must be `skip`, `once` or `all`")),
    };
    if max.is_some() && !matches!(misfire, Misfire::All { .. }) {
        return Err(ApiError::argument("`misfire_max` has no effect without `misfire`: `all`"));
    }
    Ok(misfire)
}

/// A schedule with its next time, as the API returns it.
#[derive(Debug, Serialize)]
pub struct ScheduleItem {
    id: ScheduleId,
    agent_id: CanvasId,
    name: String,
    cron: Option<String>,
    timezone: Option<String>,
    every: Option<String>,
    query: String,
    inputs: serde_json::Map<String, Json>,
    /// Those of them that nothing in the agent reads.
    unread_inputs: Vec<String>,
    files: Vec<Json>,
    user_id: String,
    /// Absent if each run has its own session.
    session_id: Option<SessionId>,
    misfire: &'static str,
    misfire_max: Option<u32>,
    enabled: bool,
    next_time: Option<i64>,
    /// The upcoming times in a form for people.
    upcoming: Vec<String>,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
}

impl ScheduleItem {
    /// How a schedule is shown, with what its agent makes of it as it is now.
    pub async fn of(app: &App, schedule: Schedule) -> Self {
        let unread_inputs = app.unread_inputs(&schedule).await;
        let upcoming = upcoming(&schedule, UPCOMING_SHOWN);
        let enabled = schedule.is_enabled();
        let Schedule {
            key,
            canvas,
            name,
            timing,
            input,
            session,
            misfire,
            next_ms,
            decided_ms: _,
            revision: _,
            created_ms,
            updated_ms,
        } = schedule;
        let TurnInput {
            query,
            user_id,
            files,
            inputs,
            pins: _,
            parallel_messages: _,
            background: _,
            all_sources: _,
            notes: _,
            webhook: _,
        } = input;
        let (cron, timezone, every) = match timing {
            Timing::Cron { expression, zone } => (Some(expression), Some(zone), None),
            Timing::Every { every_ms, .. } => (None, None, Some(interval_text(every_ms))),
        };
        let (misfire, misfire_max) = match misfire {
            Misfire::Skip => ("skip", None),
            Misfire::Once => ("once", None),
            Misfire::All { max } => ("all", Some(max)),
        };
        Self {
            id: key.id,
            agent_id: canvas,
            name,
            cron,
            timezone,
            every,
            query,
            inputs,
            unread_inputs,
            files,
            user_id,
            session_id: match session {
                SessionPolicy::New => None,
                SessionPolicy::One(id) => Some(id),
            },
            misfire,
            misfire_max,
            enabled,
            next_time: next_ms,
            upcoming,
            create_time: created_ms,
            create_date: http_date(created_ms),
            update_time: updated_ms,
            update_date: http_date(updated_ms),
        }
    }
}

/// A run that a schedule has requested.
#[derive(Debug, Serialize)]
pub struct FireItem {
    run_id: RunId,
    session_id: SessionId,
    due_time: i64,
    /// The status of the run once it has started; before that `queued`, or `given_up`.
    status: &'static str,
    /// Number of times that a worker has started it.
    attempts: u32,
    /// Why it was delayed or given up; empty if it was not.
    reason: String,
    start_time: Option<i64>,
    finish_time: Option<i64>,
}

/// Returns the status of a requested run.
pub fn fire_status(fire: &Fire) -> &'static str {
    match (&fire.run, &fire.stored.state) {
        (Some(StoredRun { ending: Some(ending), .. }), _) => Ending::as_str(*ending),
        (Some(_), _) => "running",
        (None, WorkState::Waiting { .. } | WorkState::Taken { .. }) => "queued",
        (None, WorkState::Abandoned { .. }) => "given_up",
        // Its run was removed, or is older than the retention of runs.
        (None, WorkState::Done { .. }) => "done",
    }
}

impl From<Fire> for FireItem {
    fn from(fire: Fire) -> Self {
        let status = fire_status(&fire);
        let Fire { stored, run } = fire;
        let StoredWork { work, state: _, attempts, crashes: _, reason, pushed_ms: _ } = stored;
        // A run without a session of its schedule creates a session with its own id.
        let own = SessionId::new(work.run.id.as_str());
        Self {
            session_id: work.session.unwrap_or(own),
            run_id: work.run.id,
            due_time: work.due_ms,
            status,
            attempts,
            reason,
            start_time: run.as_ref().map(|run| run.started_ms),
            finish_time: run.and_then(|run| run.finished_ms),
        }
    }
}
