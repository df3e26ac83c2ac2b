//! In-memory human tasks.

use weft_core::id::{SessionKey, TaskKey, TenantId};
use weft_core::seam::task_store::{DuePosition, Task, TaskChange, TaskFilter, TaskStatus, TaskStore};
use weft_core::{Result, async_trait};

use super::{MemoryStore, StoreTables, missing, page};

impl StoreTables {
    pub(super) fn change_tasks(&mut self, key: &SessionKey, change: &TaskChange) {
        let of_session = |task: &&mut Task| {
            task.key.tenant == key.tenant && task.session == key.id && task.status == TaskStatus::Open
        };
        for task in self.tasks.values_mut().filter(of_session) {
            let ended = change.ended.iter().find(|(id, _)| *id == task.key.id);
            task.status = ended.map_or(TaskStatus::Dropped, |(_, status)| *status);
            task.ended_by = Some(change.run.clone());
            task.ended_ms = Some(change.at_ms);
        }
        let open = change.open.iter().map(|task| ((key.tenant.clone(), task.key.id.clone()), task.clone()));
        self.tasks.extend(open);
    }

    /// Removes the tasks of sessions that no longer exist.
    pub(super) fn drop_homeless_tasks(&mut self) {
        let sessions = &self.sessions;
        self.tasks.retain(|(tenant, _), task| sessions.contains_key(&(tenant.clone(), task.session.clone())));
    }
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn get(&self, key: &TaskKey) -> Result<Task> {
        let at = (key.tenant.clone(), key.id.clone());
        self.tables().tasks.get(&at).cloned().ok_or_else(|| missing("task", key.id.as_str()))
    }

    async fn list(&self, tenant: &TenantId, filter: &TaskFilter) -> Result<(Vec<Task>, u64)> {
        let mut found: Vec<_> = self
            .tables()
            .tasks
            .values()
            .filter(|task| {
                task.key.tenant == *tenant
                    && filter.canvas.as_ref().is_none_or(|canvas| *canvas == task.canvas)
                    && filter.session.as_ref().is_none_or(|session| *session == task.session)
                    && filter.kind.is_none_or(|kind| kind == task.kind)
                    && filter.status.is_none_or(|status| status == task.status)
                    && filter.due_by_ms.is_none_or(|by| task.due_ms.is_some_and(|due| due <= by))
            })
            .cloned()
            .collect();
        found.sort_by(|a, b| (a.created_ms, &a.key.id).cmp(&(b.created_ms, &b.key.id)));
        let total = found.len() as u64;
        if let Some((created_ms, id)) = &filter.after {
            found.retain(|task| (task.created_ms, &task.key.id) > (*created_ms, id));
        }
        Ok((page(found, filter.offset, filter.limit).0, total))
    }

    async fn due(&self, by_ms: i64, after: Option<&DuePosition>, count_max: u64) -> Result<Vec<Task>> {
        let open = |task: &&Task| task.status == TaskStatus::Open;
        let due = |task: &&Task| task.due_ms.is_some_and(|due| due <= by_ms);
        let mut found: Vec<_> = self.tables().tasks.values().filter(open).filter(due).cloned().collect();
        found.sort_by(|a, b| (a.due_ms, &a.key.tenant, &a.key.id).cmp(&(b.due_ms, &b.key.tenant, &b.key.id)));
        if let Some((due_ms, key)) = after {
            let at = (Some(*due_ms), &key.tenant, &key.id);
            found.retain(|task| (task.due_ms, &task.key.tenant, &task.key.id) > at);
        }
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }
}
