//! Traverses the content of folders of the file manager level by level, and sorts entries by the resulting sizes.

use std::collections::HashMap;

use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, QuerySelect};
use weft_core::seam::folder_store::EntryFilter;

use super::folder_entry::{ARRIVING, Column, Entity, FOLDER, Model, PATH_MAX, of};
use crate::ids::{count, text};
use crate::rows::{ROWS_AT_ONCE_MAX, sum};

/// Maximum number of entries of one folder that are sorted by size: ten times as many as a folder may have.
const ORDERED_MAX: u64 = 100_000;

/// The number of folder levels in an entry, including itself; counting stops above `most`.
pub(super) async fn height(db: &impl ConnectionTrait, entry: &Model, most: u64) -> Result<u64, DbErr> {
    let mut level = vec![entry.id.clone()];
    let mut height = 0;
    while !level.is_empty() && height <= most {
        height += 1;
        let mut below = Vec::new();
        for some in level.chunks(ROWS_AT_ONCE_MAX) {
            let ids: Vec<String> = of(&entry.tenant_id)
                .select_only()
                .column(Column::Id)
                .filter(Column::ParentId.is_in(some.iter().map(String::as_str)))
                .into_tuple()
                .all(db)
                .await?;
            below.extend(ids);
        }
        level = below;
    }
    Ok(height)
}

/// The sizes of folders, level by level: the database sums up files, and folders lead to the next level.
pub(super) async fn sizes(
    db: &impl ConnectionTrait,
    tenant: &str,
    ids: &[String],
) -> Result<HashMap<String, u64>, DbErr> {
    let mut sizes: HashMap<String, u64> = HashMap::new();
    // Each folder with the positions of the requested ones that contain it.
    let mut level: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, id) in ids.iter().enumerate() {
        level.entry(text(id)).or_default().push(place);
    }
    // Bounded, because a damaged table may contain a circle.
    for _ in 0..PATH_MAX {
        if level.is_empty() {
            break;
        }
        let (mut next, names): (HashMap<String, Vec<usize>>, Vec<&String>) =
            (HashMap::new(), level.keys().collect());
        for some in names.chunks(ROWS_AT_ONCE_MAX) {
            let inside = || of(tenant).filter(Column::ParentId.is_in(some.iter().map(|id| id.as_str())));
            let files: Vec<(String, i64)> = inside()
                .select_only()
                .column(Column::ParentId)
                .column_as(sum(db.get_database_backend(), Column::Size), "bytes")
                .filter(Column::Kind.ne(ARRIVING))
                .group_by(Column::ParentId)
                .into_tuple()
                .all(db)
                .await?;
            for (parent, bytes) in files {
                for place in level.get(&parent).into_iter().flatten() {
                    *sizes.entry(ids[*place].clone()).or_default() += count(bytes);
                }
            }
            let folders: Vec<(String, String)> = inside()
                .select_only()
                .columns([Column::Id, Column::ParentId])
                .filter(Column::Kind.eq(FOLDER))
                .into_tuple()
                .all(db)
                .await?;
            for (id, parent) in folders {
                let above = level.get(&parent).cloned().unwrap_or_default();
                next.entry(id).or_default().extend(above);
            }
        }
        level = next;
    }
    Ok(sizes)
}

/// A page of those entries of a tenant that `found` selects, sorted by size, where the size of a folder is that of
/// its content. A database cannot compute that, so the ids, sizes and kinds of all entries of a folder are read.
pub(super) async fn by_size(
    db: &impl ConnectionTrait,
    tenant: &str,
    found: Select<Entity>,
    filter: &EntryFilter,
) -> Result<Vec<Model>, DbErr> {
    let all: Vec<(String, i64, String)> = found
        .select_only()
        .columns([Column::Id, Column::Size, Column::Kind])
        .limit(ORDERED_MAX)
        .into_tuple()
        .all(db)
        .await?;
    let folders = all.iter().filter(|(_, _, kind)| kind == FOLDER);
    let folders: Vec<String> = folders.map(|(id, ..)| id.clone()).collect();
    let below = sizes(db, tenant, &folders).await?;
    let whole = |id: &str, size| count(size) + below.get(id).copied().unwrap_or_default();
    let mut ordered: Vec<(u64, String)> =
        all.into_iter().map(|(id, size, _)| (whole(&id, size), id)).collect();
    // With the ids, so that entries of one size have the same order on every page.
    ordered.sort_unstable();
    if !filter.ascending {
        ordered.reverse();
    }
    let [offset, limit] = [filter.offset, filter.limit].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let page: Vec<String> = ordered.into_iter().skip(offset).take(limit).map(|(_, id)| id).collect();
    let mut rows: HashMap<String, Model> = HashMap::new();
    for some in page.chunks(ROWS_AT_ONCE_MAX) {
        let these = of(tenant).filter(Column::Id.is_in(some.iter().map(String::as_str)));
        rows.extend(these.all(db).await?.into_iter().map(|row| (row.id.clone(), row)));
    }
    // An entry that was removed meanwhile is absent.
    Ok(page.iter().filter_map(|id| rows.remove(id)).collect())
}
