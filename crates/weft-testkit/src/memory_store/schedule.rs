//! In-memory schedules.

use weft_core::id::{ScheduleId, ScheduleKey, TenantId};
use weft_core::seam::schedule_store::{Schedule, ScheduleFilter, ScheduleStore, too_many_schedules};
use weft_core::{Result, async_trait};

use super::{MemoryStore, conflict, missing, page};

fn place(key: &ScheduleKey) -> (TenantId, ScheduleId) {
    (key.tenant.clone(), key.id.clone())
}

#[async_trait]
impl ScheduleStore for MemoryStore {
    async fn create(&self, schedule: &Schedule, count_max: u64) -> Result<()> {
        let mut tables = self.tables();
        let at = place(&schedule.key);
        let others = tables.schedules.keys().filter(|(tenant, _)| *tenant == schedule.key.tenant).count();
        if others as u64 >= count_max {
            return Err(too_many_schedules(count_max));
        }
        if tables.schedules.contains_key(&at) {
            return Err(conflict(format!("there is a schedule `{}` already", schedule.key.id)));
        }
        tables.schedules.insert(at, schedule.clone());
        Ok(())
    }

    async fn get(&self, key: &ScheduleKey) -> Result<Schedule> {
        let found = self.tables().schedules.get(&place(key)).cloned();
        found.ok_or_else(|| missing("schedule", key.id.as_str()))
    }

    async fn replace(&self, schedule: &Schedule) -> Result<()> {
        let mut tables = self.tables();
        let current = |known: &&mut Schedule| known.revision == schedule.revision;
        match tables.schedules.get_mut(&place(&schedule.key)).filter(current) {
            Some(known) => {
                let (revision, created_ms) = (known.revision + 1, known.created_ms);
                *known = Schedule { revision, created_ms, ..schedule.clone() };
                Ok(())
            }
            None => {
                let message = format!("schedule `{}` was changed or removed meanwhile", schedule.key.id);
                Err(conflict(message))
            }
        }
    }

    async fn advance(&self, seen: &Schedule, next_ms: Option<i64>, decided_ms: i64) -> Result<bool> {
        let mut tables = self.tables();
        let current = |known: &&mut Schedule| known.revision == seen.revision;
        let Some(known) = tables.schedules.get_mut(&place(&seen.key)).filter(current) else {
            return Ok(false);
        };
        (known.next_ms, known.decided_ms) = (next_ms, decided_ms);
        known.revision += 1;
        Ok(true)
    }

    async fn due(&self, now_ms: i64, ahead_ms: i64, count_max: u64) -> Result<Vec<Schedule>> {
        let due = |schedule: &&Schedule| {
            schedule.next_ms.is_some_and(|next_ms| next_ms <= now_ms || schedule.decided_ms > ahead_ms)
        };
        let mut found: Vec<_> = self.tables().schedules.values().filter(due).cloned().collect();
        found.sort_by(|a, b| (a.next_ms, &a.key.id).cmp(&(b.next_ms, &b.key.id)));
        Ok(page(found, 0, count_max).0)
    }

    async fn list(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<(Vec<Schedule>, u64)> {
        let wanted = |schedule: &&Schedule| {
            schedule.key.tenant == *tenant
                && filter.canvas.as_ref().is_none_or(|canvas| *canvas == schedule.canvas)
        };
        let mut found: Vec<_> = self.tables().schedules.values().filter(wanted).cloned().collect();
        found.sort_by(|a, b| (&a.name, &a.key.id).cmp(&(&b.name, &b.key.id)));
        Ok(page(found, filter.offset, filter.limit))
    }

    async fn delete(&self, key: &ScheduleKey) -> Result<()> {
        let removed = self.tables().schedules.remove(&place(key));
        removed.map(drop).ok_or_else(|| missing("schedule", key.id.as_str()))
    }
}
