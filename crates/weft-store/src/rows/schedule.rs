//! Schedules of canvases.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, IntoActiveModel, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};
use weft_core::id::{ScheduleKey, TenantId};
use weft_core::seam::schedule_store::{
    Misfire, Schedule, ScheduleFilter, ScheduleStore, SessionPolicy, Timing, too_many_schedules,
};
use weft_core::{CanvasId, Error, ErrorKind, Result, TurnInput, async_trait};

use crate::Store;
use crate::failure::is_duplicate;
use crate::ids::{self, bounded, text};
use crate::open::repeated;
use crate::rows::readable;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "schedule")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub canvas_id: String,
    pub name: String,
    /// [`ScheduleTerms`] as JSON.
    pub terms: String,
    pub next_ms: Option<i64>,
    pub decided_ms: i64,
    pub revision: i64,
    pub created_ms: i64,
    pub updated_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The parts that are never queried.
#[derive(Serialize, Deserialize)]
struct ScheduleTerms {
    timing: Timing,
    input: TurnInput,
    session: SessionPolicy,
    misfire: Misfire,
}

fn of(key: &ScheduleKey) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(text(key.tenant.as_str())))
        .add(Column::Id.eq(text(key.id.as_str())))
}

fn missing(key: &ScheduleKey) -> Error {
    Error::not_found(format!("there is no schedule `{}`", key.id))
}

impl Model {
    fn new(schedule: &Schedule) -> Result<Self> {
        ids::check("tenant", schedule.key.tenant.as_str())?;
        ids::check("schedule", schedule.key.id.as_str())?;
        ids::check("canvas", schedule.canvas.as_str())?;
        let name = text(&schedule.name);
        if name.chars().count() > ids::TITLE_CHARS_MAX {
            return Err(Error::invalid("the name of the schedule is too long")
                .help(format!("use at most {} characters", ids::TITLE_CHARS_MAX)));
        }
        let Schedule { timing, input, session, misfire, .. } = schedule.clone();
        let terms = serde_json::to_string(&ScheduleTerms { timing, input, session, misfire })
            .map_err(|cause| Error::internal("cannot write a schedule").because(cause))?;
        Ok(Self {
            tenant_id: schedule.key.tenant.as_str().to_owned(),
            id: schedule.key.id.as_str().to_owned(),
            canvas_id: schedule.canvas.as_str().to_owned(),
            name,
            terms,
            next_ms: schedule.next_ms,
            decided_ms: schedule.decided_ms,
            revision: schedule.revision,
            created_ms: schedule.created_ms,
            updated_ms: schedule.updated_ms,
        })
    }

    fn into_schedule(self) -> Result<Schedule> {
        let ScheduleTerms { timing, input, session, misfire } =
            serde_json::from_str(&self.terms).map_err(|cause| {
                Error::new(ErrorKind::Garbled, format!("the schedule `{}` is damaged", self.id))
                    .because(cause)
            })?;
        Ok(Schedule {
            key: ScheduleKey::new(&TenantId::from(self.tenant_id), self.id),
            canvas: CanvasId::from(self.canvas_id),
            name: self.name,
            timing,
            input,
            session,
            misfire,
            next_ms: self.next_ms,
            decided_ms: self.decided_ms,
            revision: self.revision,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
        })
    }
}

#[async_trait]
impl ScheduleStore for Store {
    async fn create(&self, schedule: &Schedule, count_max: u64) -> Result<()> {
        const DOING: &str = "store the schedule";
        let row = Model::new(schedule)?;
        let others = Entity::find().filter(Column::TenantId.eq(&row.tenant_id));
        let insert =
            || self.insert_within(&row.tenant_id, row.clone().into_active_model(), others.clone(), count_max);
        match repeated(insert).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(too_many_schedules(count_max)),
            Err(error) if is_duplicate(&error) => {
                let taken = format!("cannot {DOING}: there is a schedule `{}` already", schedule.key.id);
                Err(Error::new(ErrorKind::Conflict, taken))
            }
            Err(error) => Err(self.fail(DOING, error)),
        }
    }

    async fn get(&self, key: &ScheduleKey) -> Result<Schedule> {
        Entity::find()
            .filter(of(key))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the schedule", error))?
            .ok_or_else(|| missing(key))?
            .into_schedule()
    }

    async fn replace(&self, schedule: &Schedule) -> Result<()> {
        let row = Model::new(schedule)?;
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(Column::CanvasId, Expr::value(row.canvas_id.clone()))
                .col_expr(Column::Name, Expr::value(row.name.clone()))
                .col_expr(Column::Terms, Expr::value(row.terms.clone()))
                .col_expr(Column::NextMs, Expr::value(row.next_ms))
                .col_expr(Column::DecidedMs, Expr::value(row.decided_ms))
                .col_expr(Column::Revision, Expr::value(row.revision + 1))
                .col_expr(Column::UpdatedMs, Expr::value(row.updated_ms))
                .filter(of(&schedule.key))
                .filter(Column::Revision.eq(row.revision))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("change the schedule", error))?;
        if changed.rows_affected == 0 {
            let message = format!("schedule `{}` was changed or removed in the meantime", schedule.key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("read it again, then change it"));
        }
        Ok(())
    }

    async fn advance(&self, seen: &Schedule, next_ms: Option<i64>, decided_ms: i64) -> Result<bool> {
        let _permit = self.inner.gate.permit().await;
        let change = async || {
            Entity::update_many()
                .col_expr(Column::NextMs, Expr::value(next_ms))
                .col_expr(Column::DecidedMs, Expr::value(decided_ms))
                .col_expr(Column::Revision, Expr::value(seen.revision + 1))
                .filter(of(&seen.key))
                .filter(Column::Revision.eq(seen.revision))
                .exec(&self.inner.write)
                .await
        };
        let changed = repeated(change).await.map_err(|error| self.fail("advance the schedule", error))?;
        Ok(changed.rows_affected > 0)
    }

    async fn due(&self, now_ms: i64, ahead_ms: i64, count_max: u64) -> Result<Vec<Schedule>> {
        let rows = Entity::find()
            .filter(Column::NextMs.is_not_null())
            // A clock that was ahead and has been corrected has decided about future times; those decisions have to
            // be made again.
            .filter(Condition::any().add(Column::NextMs.lte(now_ms)).add(Column::DecidedMs.gt(ahead_ms)))
            .order_by_asc(Column::NextMs)
            .order_by_asc(Column::Id)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for schedules that are due", error))?;
        Ok(readable(rows.into_iter().map(Model::into_schedule)))
    }

    async fn list(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<(Vec<Schedule>, u64)> {
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(canvas) = &filter.canvas {
            found = found.filter(Column::CanvasId.eq(text(canvas.as_str())));
        }
        let found = found.order_by_asc(Column::Name).order_by_asc(Column::Id);
        let page = self.inner.read.page(found, filter.offset, filter.limit).await;
        let (rows, total) = page.map_err(|error| self.fail("list the schedules", error))?;
        Ok((rows.into_iter().map(Model::into_schedule).collect::<Result<_>>()?, total))
    }

    async fn delete(&self, key: &ScheduleKey) -> Result<()> {
        let _permit = self.inner.gate.permit().await;
        let remove = async || Entity::delete_many().filter(of(key)).exec(&self.inner.write).await;
        let removed = repeated(remove).await.map_err(|error| self.fail("remove the schedule", error))?;
        if removed.rows_affected == 0 { Err(missing(key)) } else { Ok(()) }
    }
}
