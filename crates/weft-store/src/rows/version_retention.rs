//! Removes versions of canvases that need not be kept any longer.

use std::collections::HashSet;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query};
use sea_orm::{Condition, DatabaseTransaction, Order, QueryOrder, QuerySelect};
use weft_core::seam::canvas_store::CHAT_TYPE;
use weft_core::seam::version_store::LABELS_MAX;

use crate::Store;
use crate::ids::bounded;
use crate::rows::canvas_version::{Column, Entity};
use crate::rows::{behind, canvas, canvas_label, session};

/// Versions that one save removes. A canvas that has more too many loses the rest with its next saves.
// Other writers wait meanwhile.
const REMOVED_AT_ONCE: usize = 64;

/// Versions of a canvas that others refer to by name: by labels, as the newest one and as the published one.
const REFERRED_MAX: usize = LABELS_MAX + 2;

/// Old versions that are looked at: so many that those which stay cannot hide the others.
const LOOKED_AT: usize = REMOVED_AT_ONCE + REFERRED_MAX;

fn of(canvas: &canvas::Model) -> Condition {
    Condition::all().add(Column::TenantId.eq(&canvas.tenant_id)).add(Column::CanvasId.eq(&canvas.id))
}

/// Versions that no session is on and that nobody has described. Runs and tasks have the version of their session.
fn unused(canvas: &canvas::Model) -> Condition {
    let blank = |column: Column| Condition::any().add(column.is_null()).add(column.eq(""));
    let sessions = Query::select()
        .expr(Expr::value(1))
        .from(session::Entity)
        .and_where(session::Column::TenantId.eq(&canvas.tenant_id))
        .and_where(session::Column::CanvasId.eq(&canvas.id))
        .and_where(
            Expr::col((session::Entity, session::Column::CanvasVersion)).equals((Entity, Column::Version)),
        )
        .take();
    Condition::all().add(Expr::exists(sessions).not()).add(blank(Column::Title)).add(blank(Column::Note))
}

/// Decides which of the old unused versions are removed, given as the oldest ones first: those that nothing refers
/// to.
fn outdated(old: Vec<String>, referred: &HashSet<String>) -> Vec<String> {
    old.into_iter().filter(|version| !referred.contains(version)).take(REMOVED_AT_ONCE).collect()
}

impl Store {
    /// Removes old versions of a canvas within the transaction that has just changed its row. Until it ends, nobody
    /// else publishes or labels one of them: whoever does locks that row.
    pub(crate) async fn remove_old_versions(
        &self,
        transaction: &DatabaseTransaction,
        canvas: &canvas::Model,
    ) -> Result<(), DbErr> {
        // The versions of an assistant's canvas are named only in the journals of its runs, not by its sessions: they
        // are removed when no run needs them.
        if self.versions_kept == 0 || canvas.canvas_type == CHAT_TYPE {
            return Ok(());
        }
        let last_kept: Option<(Option<i64>, String)> = Entity::find()
            .select_only()
            .columns([Column::UpdatedMs, Column::Version])
            .filter(of(canvas))
            .order_by_desc(Column::UpdatedMs)
            .order_by_asc(Column::Version)
            .offset(bounded(self.versions_kept) - 1)
            .into_tuple()
            .one(transaction)
            .await?;
        let Some((Some(saved_ms), version)) = last_kept else { return Ok(()) };
        let older =
            behind((Column::UpdatedMs, Order::Desc, saved_ms), (Column::Version, Order::Asc, version));
        let old: Vec<String> = Entity::find()
            .select_only()
            .column(Column::Version)
            .filter(of(canvas).add(older).add(unused(canvas)))
            .order_by_asc(Column::UpdatedMs)
            .order_by_desc(Column::Version)
            .limit(LOOKED_AT as u64)
            .into_tuple()
            .all(transaction)
            .await?;
        if old.is_empty() {
            return Ok(());
        }
        let gone = outdated(old, &referred(transaction, canvas).await?);
        // The same condition again: on databases with concurrent writers, somebody may have begun to use one.
        let remove = of(canvas).add(Column::Version.is_in(gone)).add(unused(canvas));
        Entity::delete_many().filter(remove).exec(transaction).await.map(drop)
    }
}

/// The versions that others refer to by name.
async fn referred(
    transaction: &DatabaseTransaction,
    canvas: &canvas::Model,
) -> Result<HashSet<String>, DbErr> {
    let labelled: Vec<String> = canvas_label::Entity::find()
        .select_only()
        .column(canvas_label::Column::Version)
        .filter(canvas_label::Column::TenantId.eq(&canvas.tenant_id))
        .filter(canvas_label::Column::CanvasId.eq(&canvas.id))
        .into_tuple()
        .all(transaction)
        .await?;
    let own = [Some(canvas.version.clone()), canvas.published.clone()];
    Ok(labelled.into_iter().chain(own.into_iter().flatten()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_referred_to_stay_and_do_not_hide_others() {
        let names = |range: std::ops::Range<usize>| range.map(|n| n.to_string()).collect::<Vec<_>>();
        let referred: HashSet<String> = names(0..REFERRED_MAX).into_iter().collect();
        assert_eq!(outdated(names(0..REFERRED_MAX), &referred), Vec::<String>::new());
        let gone = outdated(names(0..LOOKED_AT), &referred);
        assert_eq!(gone, names(REFERRED_MAX..LOOKED_AT));
        assert_eq!(outdated(names(0..LOOKED_AT), &HashSet::new()), names(0..REMOVED_AT_ONCE));
    }
}
