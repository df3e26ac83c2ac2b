//! Human tasks.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{Condition, IntoActiveModel, Order, QueryOrder, QuerySelect};
use weft_core::component::Form;
use weft_core::id::{SessionKey, TaskKey, TenantId};
use weft_core::seam::TaskStore;
use weft_core::seam::task_store::{DuePosition, Task, TaskChange, TaskFilter, TaskKind, TaskStatus};
use weft_core::{Error, ErrorKind, Result, RunId, async_trait};

use crate::Store;
use crate::batch::Batch;
use crate::ids::{self, bounded, text};
use crate::rows::{ROWS_AT_ONCE_MAX, behind, readable};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "task")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub session_id: String,
    pub canvas_id: String,
    pub run_id: String,
    pub node: String,
    pub address: String,
    pub kind: String,
    pub title: String,
    /// JSON.
    pub form: String,
    pub created_ms: i64,
    pub due_ms: Option<i64>,
    pub status: String,
    pub ended_by: Option<String>,
    pub ended_ms: Option<i64>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Checks the new values before anything is written.
pub(crate) fn checked(change: &TaskChange) -> Result<()> {
    ids::fits("run", change.run.as_str())?;
    for task in &change.open {
        ids::check("task", task.key.id.as_str())?;
        ids::check("canvas", task.canvas.as_str())?;
        ids::fits("run", task.run.as_str())?;
    }
    Ok(())
}

impl Model {
    fn new(task: &Task) -> Result<Self, DbErr> {
        let form = serde_json::to_string(&task.form).map_err(|cause| DbErr::Custom(cause.to_string()))?;
        Ok(Self {
            tenant_id: task.key.tenant.as_str().to_owned(),
            id: task.key.id.as_str().to_owned(),
            session_id: task.session.as_str().to_owned(),
            canvas_id: task.canvas.as_str().to_owned(),
            run_id: task.run.as_str().to_owned(),
            node: text(task.node.as_str()),
            address: text(&task.address),
            kind: task.kind.as_str().to_owned(),
            title: text(&task.title),
            form,
            created_ms: task.created_ms,
            due_ms: task.due_ms,
            status: task.status.as_str().to_owned(),
            ended_by: task.ended_by.as_ref().map(|run| run.as_str().to_owned()),
            ended_ms: task.ended_ms,
        })
    }

    fn into_task(self) -> Result<Task> {
        let garbled =
            || Error::new(ErrorKind::Garbled, format!("what is stored of the task `{}` is damaged", self.id));
        let form: Form = serde_json::from_str(&self.form).map_err(|cause| garbled().because(cause))?;
        let kind = TaskKind::parse(&self.kind).ok_or_else(garbled)?;
        let status = TaskStatus::parse(&self.status).ok_or_else(garbled)?;
        Ok(Task {
            key: TaskKey::new(&TenantId::from(self.tenant_id), self.id),
            session: self.session_id.into(),
            canvas: self.canvas_id.into(),
            run: self.run_id.into(),
            node: self.node.into(),
            address: self.address,
            kind,
            title: self.title,
            form,
            created_ms: self.created_ms,
            due_ms: self.due_ms,
            status,
            ended_by: self.ended_by.map(RunId::from),
            ended_ms: self.ended_ms,
        })
    }
}

/// Closes the open tasks of a session and opens others.
pub(crate) fn change(batch: &mut Batch, key: &SessionKey, change: &TaskChange) -> Result<(), DbErr> {
    let open = || {
        Condition::all()
            .add(Column::TenantId.eq(text(key.tenant.as_str())))
            .add(Column::SessionId.eq(text(key.id.as_str())))
            .add(Column::Status.eq(TaskStatus::Open.as_str()))
    };
    let end = |status: TaskStatus| {
        Entity::update_many()
            .col_expr(Column::Status, Expr::value(status.as_str()))
            .col_expr(Column::EndedBy, Expr::value(change.run.as_str()))
            .col_expr(Column::EndedMs, Expr::value(change.at_ms))
            .filter(open())
    };
    // One statement for each status, because a statement sets the same value in all its rows.
    for status in [TaskStatus::Answered, TaskStatus::TimedOut] {
        let ids = change.ended.iter().filter(|(_, how)| *how == status).map(|(id, _)| id.as_str());
        for some in ids.collect::<Vec<_>>().chunks(ROWS_AT_ONCE_MAX) {
            batch.then(&end(status).filter(Column::Id.is_in(some.iter().copied())));
        }
    }
    // Before the new ones are inserted: unanswered open tasks are dropped.
    batch.then(&end(TaskStatus::Dropped));
    for some in change.open.chunks(ROWS_AT_ONCE_MAX) {
        let rows: Vec<_> = some
            .iter()
            .map(|task| Model::new(task).map(IntoActiveModel::into_active_model))
            .collect::<Result<_, _>>()?;
        // Tasks that were open before are reopened with their current content.
        let replacing = OnConflict::columns([Column::TenantId, Column::Id])
            // Except for the time and the origin: those belong to the run that asked first.
            .update_columns([
                Column::SessionId,
                Column::RunId,
                Column::Title,
                Column::Form,
                Column::DueMs,
                Column::Status,
                Column::EndedBy,
                Column::EndedMs,
            ])
            .to_owned();
        batch.then(&Entity::insert_many(rows).on_conflict(replacing));
    }
    Ok(())
}

#[async_trait]
impl TaskStore for Store {
    async fn get(&self, key: &TaskKey) -> Result<Task> {
        Entity::find()
            .filter(Column::TenantId.eq(text(key.tenant.as_str())))
            .filter(Column::Id.eq(text(key.id.as_str())))
            .one(&self.inner.read)
            .await
            .map_err(|error| self.fail("read the task", error))?
            .ok_or_else(|| Error::not_found(format!("there is no task `{}`", key.id)))?
            .into_task()
    }

    async fn list(&self, tenant: &TenantId, filter: &TaskFilter) -> Result<(Vec<Task>, u64)> {
        let fail = |error| self.fail("list the tasks", error);
        let mut found = Entity::find().filter(Column::TenantId.eq(text(tenant.as_str())));
        if let Some(canvas) = &filter.canvas {
            found = found.filter(Column::CanvasId.eq(text(canvas.as_str())));
        }
        if let Some(session) = &filter.session {
            found = found.filter(Column::SessionId.eq(text(session.as_str())));
        }
        if let Some(kind) = filter.kind {
            found = found.filter(Column::Kind.eq(kind.as_str()));
        }
        if let Some(status) = filter.status {
            found = found.filter(Column::Status.eq(status.as_str()));
        }
        if let Some(by) = filter.due_by_ms {
            found = found.filter(Column::DueMs.lte(by));
        }
        let total = found.clone().count(&self.inner.read).await.map_err(fail)?;
        if let Some((created_ms, id)) = &filter.after {
            let time = (Column::CreatedMs, Order::Asc, *created_ms);
            found = found.filter(behind(time, (Column::Id, Order::Asc, text(id.as_str()))));
        }
        let rows = found
            .order_by_asc(Column::CreatedMs)
            .order_by_asc(Column::Id)
            .offset(bounded(filter.offset))
            .limit(bounded(filter.limit))
            .all(&self.inner.read)
            .await
            .map_err(fail)?;
        Ok((rows.into_iter().map(Model::into_task).collect::<Result<_>>()?, total))
    }

    async fn due(&self, by_ms: i64, after: Option<&DuePosition>, count_max: u64) -> Result<Vec<Task>> {
        let mut found = Entity::find()
            .filter(Column::Status.eq(TaskStatus::Open.as_str()))
            .filter(Column::DueMs.lte(by_ms));
        if let Some((due_ms, key)) = after {
            let tenant = || text(key.tenant.as_str());
            let of_tenant =
                Condition::all().add(Column::TenantId.eq(tenant())).add(Column::Id.gt(text(key.id.as_str())));
            // Ids are unique only within a tenant, so the position consists of three columns.
            let of_others = Condition::any().add(Column::TenantId.gt(tenant())).add(of_tenant);
            let of_time = Condition::all().add(Column::DueMs.eq(*due_ms)).add(of_others);
            found = found.filter(Condition::any().add(Column::DueMs.gt(*due_ms)).add(of_time));
        }
        let rows = found
            .order_by_asc(Column::DueMs)
            .order_by_asc(Column::TenantId)
            .order_by_asc(Column::Id)
            .limit(bounded(count_max))
            .all(&self.inner.read)
            .await
            .map_err(|error| self.fail("look for tasks that are due", error))?;
        Ok(readable(rows.into_iter().map(Model::into_task)))
    }
}
