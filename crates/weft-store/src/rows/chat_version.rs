//! Removes versions of assistants' canvases that no run needs any longer. No session is on one of them: only the
//! journals of runs name them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query, SelectStatement};
use sea_orm::{Condition, FromQueryResult, QueryOrder, QuerySelect};
use weft_core::seam::canvas_store::CHAT_TYPE;

use crate::Store;
use crate::open::repeated;
use crate::rows::canvas_version::{Column, Entity};
use crate::rows::{canvas, run};

const DAY_MS: i64 = 86_400_000;

/// Versions that are read, and removed, at a time.
const VERSIONS_AT_ONCE: u64 = 100;

/// By canvas: the days on which its runs began.
type RunDays = HashMap<String, BTreeSet<i64>>;

/// A version that was last saved long ago.
#[derive(Debug, FromQueryResult)]
struct OldVersion {
    canvas_id: String,
    version: String,
    created_ms: i64,
    updated_ms: Option<i64>,
}

impl OldVersion {
    /// Whether a run may have used it: one that began while it was in use, or up to a day before or after. A version in
    /// use is not saved again for each run, and the clocks of processes differ.
    fn is_needed(&self, days: &RunDays) -> bool {
        let first = self.created_ms.div_euclid(DAY_MS).saturating_sub(1);
        let last = self.updated_ms.unwrap_or(self.created_ms).div_euclid(DAY_MS).saturating_add(1);
        let of_canvas = days.get(&self.canvas_id);
        of_canvas.is_some_and(|days| days.range(first..=Ord::max(first, last)).next().is_some())
    }
}

/// Selects a column of the assistants' canvases of a tenant.
fn of_chats(tenant: &str, column: canvas::Column) -> SelectStatement {
    Query::select()
        .column(column)
        .from(canvas::Entity)
        .and_where(canvas::Column::TenantId.eq(tenant))
        .and_where(canvas::Column::CanvasType.eq(CHAT_TYPE))
        .take()
}

/// Versions of assistants' canvases that were last saved before a time. The newest one of each stays.
fn old(tenant: &str, saved_before_ms: i64) -> Condition {
    Condition::all()
        .add(Column::TenantId.eq(tenant))
        .add(Column::CanvasId.in_subquery(of_chats(tenant, canvas::Column::Id)))
        .add(Column::Version.not_in_subquery(of_chats(tenant, canvas::Column::Version)))
        .add(Column::UpdatedMs.lt(saved_before_ms))
}

impl Store {
    /// Removes the versions of a tenant's assistants that were last saved before a time, unless a run may need them.
    /// Returns how many.
    pub(crate) async fn remove_versions_of_chats(
        &self,
        tenant: &str,
        saved_before_ms: i64,
    ) -> Result<u64, DbErr> {
        if self.versions_kept == 0 {
            return Ok(0);
        }
        let mut page = self.old_versions(tenant, saved_before_ms, None).await?;
        if page.is_empty() {
            return Ok(0);
        }
        // Of all canvases at once: for each of them, all runs of the tenant would be read again.
        let days = self.days_of_runs(tenant).await?;
        let mut removed = 0;
        loop {
            let Some(last) = page.pop() else { return Ok(removed) };
            let mut gone: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for old in page.iter().chain([&last]).filter(|old| !old.is_needed(&days)) {
                gone.entry(&old.canvas_id).or_default().push(&old.version);
            }
            for (canvas, versions) in gone {
                // The same condition again: one that was saved meanwhile is in use again.
                let remove = Entity::delete_many()
                    .filter(old(tenant, saved_before_ms))
                    .filter(Column::CanvasId.eq(canvas))
                    .filter(Column::Version.is_in(versions));
                let _permit = self.inner.gate.permit().await;
                removed += repeated(|| remove.clone().exec(&self.inner.write)).await?.rows_affected;
            }
            page = self.old_versions(tenant, saved_before_ms, Some(&last)).await?;
        }
    }

    /// Returns the next old versions after one of them.
    async fn old_versions(
        &self,
        tenant: &str,
        saved_before_ms: i64,
        after: Option<&OldVersion>,
    ) -> Result<Vec<OldVersion>, DbErr> {
        let mut found = Entity::find()
            .select_only()
            .columns([Column::CanvasId, Column::Version, Column::CreatedMs, Column::UpdatedMs])
            .filter(old(tenant, saved_before_ms));
        if let Some(after) = after {
            let same = Column::CanvasId.eq(&after.canvas_id).and(Column::Version.gt(&after.version));
            found = found.filter(Column::CanvasId.gt(&after.canvas_id).or(same));
        }
        let ordered = found.order_by_asc(Column::CanvasId).order_by_asc(Column::Version);
        ordered.limit(VERSIONS_AT_ONCE).into_model().all(&self.inner.read).await
    }

    /// Returns on which days the runs of a tenant's assistants began.
    async fn days_of_runs(&self, tenant: &str) -> Result<RunDays, DbErr> {
        // The start of the day: one row per canvas and day, instead of one per run.
        let began = Expr::col((run::Entity, run::Column::StartedMs));
        let day_ms = began.clone().sub(began.modulo(DAY_MS));
        let found: Vec<(String, i64)> = run::Entity::find()
            .select_only()
            .column(run::Column::CanvasId)
            .column_as(day_ms, "day_ms")
            .filter(run::Column::TenantId.eq(tenant))
            .filter(run::Column::CanvasId.in_subquery(of_chats(tenant, canvas::Column::Id)))
            .distinct()
            .into_tuple()
            .all(&self.inner.read)
            .await?;
        let mut days = RunDays::new();
        for (canvas, day_ms) in found {
            days.entry(canvas).or_default().insert(day_ms.div_euclid(DAY_MS));
        }
        Ok(days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_needed_by_runs_of_the_days_around_its_use() {
        let old = |created_day: i64, updated_day: i64| OldVersion {
            canvas_id: "c".to_owned(),
            version: "v".to_owned(),
            created_ms: created_day * DAY_MS + 1,
            updated_ms: Some(updated_day * DAY_MS + 1),
        };
        let days =
            RunDays::from([("c".to_owned(), BTreeSet::from([20])), ("d".to_owned(), (0..40).collect())]);
        for (created, updated, needed) in
            [(10, 18, false), (10, 19, true), (10, 30, true), (21, 30, true), (22, 30, false), (30, 1, false)]
        {
            assert_eq!(old(created, updated).is_needed(&days), needed, "{created} {updated}");
        }
        assert!(!old(i64::MIN / DAY_MS + 1, i64::MAX / DAY_MS - 1).is_needed(&RunDays::new()));
    }
}
