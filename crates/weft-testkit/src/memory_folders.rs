//! In-memory folders of the file manager.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_core::seam::FolderStore;
use weft_core::seam::folder_store::{
    EntryChange, EntryFilter, EntryKind, EntryOrder, FolderEntry, FolderLimits, ROOT_NAME, below_itself,
    missing, no_folder, not_empty, root_stays, taken,
};
use weft_core::{Result, TenantId, async_trait};

/// The entries of a tenant, by id.
type Tree = BTreeMap<String, FolderEntry>;

/// Folders that live as long as this value.
#[derive(Debug, Default)]
pub struct MemoryFolders {
    limits: FolderLimits,
    trees: Mutex<BTreeMap<TenantId, Tree>>,
}

fn folder(tree: &Tree, id: &str) -> Result<()> {
    match tree.get(id) {
        None => Err(missing(id)),
        Some(entry) if entry.kind == EntryKind::Folder => Ok(()),
        Some(_) => Err(no_folder(id)),
    }
}

fn path(tree: &Tree, id: &str) -> Result<Vec<FolderEntry>> {
    let mut path = vec![tree.get(id).cloned().ok_or_else(|| missing(id))?];
    while let Some(above) = path.last().and_then(|entry| tree.get(&entry.parent)) {
        path.push(above.clone());
    }
    Ok(path)
}

fn inside<'a>(tree: &'a Tree, id: &'a str) -> impl Iterator<Item = &'a FolderEntry> {
    tree.values().filter(move |entry| entry.parent == id && !entry.is_root())
}

fn height(tree: &Tree, id: &str) -> u64 {
    1 + inside(tree, id).map(|entry| height(tree, &entry.id)).max().unwrap_or_default()
}

fn size(tree: &Tree, id: &str) -> u64 {
    let shown = inside(tree, id).filter(|entry| entry.kind != EntryKind::Arriving);
    shown.map(|entry| entry.size + size(tree, &entry.id)).sum()
}

fn check_name(tree: &Tree, entry: &FolderEntry) -> Result<()> {
    let name = entry.name.to_lowercase();
    let same = |other: &FolderEntry| other.id != entry.id && other.name.to_lowercase() == name;
    if inside(tree, &entry.parent).any(same) { Err(taken(&entry.name)) } else { Ok(()) }
}

impl MemoryFolders {
    /// Creates a store with these limits.
    pub fn within(limits: FolderLimits) -> Self {
        Self { limits, trees: Mutex::default() }
    }

    fn trees(&self) -> MutexGuard<'_, BTreeMap<TenantId, Tree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree(&self, tenant: &TenantId) -> Tree {
        self.trees().get(tenant).cloned().unwrap_or_default()
    }

    fn check_place(&self, tree: &Tree, into: &str, height: u64) -> Result<()> {
        self.limits.deep_enough(path(tree, into)?.len() as u64 + height - 1)?;
        self.limits.room_in_folder(inside(tree, into).count() as u64)
    }
}

#[async_trait]
impl FolderStore for MemoryFolders {
    async fn root(&self, tenant: &TenantId, now_ms: i64) -> Result<FolderEntry> {
        let mut trees = self.trees();
        let tree = trees.entry(tenant.clone()).or_default();
        if let Some(root) = tree.values().find(|entry| entry.is_root()) {
            return Ok(root.clone());
        }
        let root = FolderEntry {
            id: weft_core::id::generate(),
            parent: String::new(),
            name: ROOT_NAME.to_owned(),
            kind: EntryKind::Folder,
            size: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        tree.insert(root.id.clone(), root.clone());
        Ok(root)
    }

    async fn add(&self, tenant: &TenantId, entry: &FolderEntry) -> Result<()> {
        let mut trees = self.trees();
        let tree = trees.entry(tenant.clone()).or_default();
        folder(tree, &entry.parent)?;
        self.check_place(tree, &entry.parent, 1)?;
        let bytes = tree.values().map(|entry| entry.size).sum();
        self.limits.room_for((tree.len() as u64).saturating_sub(1), bytes, entry.size)?;
        check_name(tree, entry)?;
        tree.insert(entry.id.clone(), entry.clone());
        Ok(())
    }

    async fn get(&self, tenant: &TenantId, id: &str) -> Result<FolderEntry> {
        let entry = self.tree(tenant).remove(id).filter(|entry| entry.kind != EntryKind::Arriving);
        entry.ok_or_else(|| missing(id))
    }

    async fn arrive(&self, tenant: &TenantId, id: &str) -> Result<()> {
        let mut trees = self.trees();
        let entry = trees.get_mut(tenant).and_then(|tree| tree.get_mut(id));
        let entry = entry.filter(|entry| entry.kind == EntryKind::Arriving).ok_or_else(|| missing(id))?;
        entry.kind = EntryKind::File;
        Ok(())
    }

    async fn arriving(&self, tenant: &TenantId, before_ms: i64, count_max: u64) -> Result<Vec<FolderEntry>> {
        let arrives = |entry: &FolderEntry| entry.kind == EntryKind::Arriving && entry.created_ms < before_ms;
        let mut found: Vec<FolderEntry> = self.tree(tenant).into_values().filter(arrives).collect();
        found.sort_by_key(|entry| entry.created_ms);
        found.truncate(usize::try_from(count_max).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn named(&self, tenant: &TenantId, folder: &str, name: &str) -> Result<Option<FolderEntry>> {
        let (tree, name) = (self.tree(tenant), name.to_lowercase());
        Ok(inside(&tree, folder).find(|entry| entry.name.to_lowercase() == name).cloned())
    }

    async fn list(&self, tenant: &TenantId, filter: &EntryFilter) -> Result<(Vec<FolderEntry>, u64)> {
        let tree = self.tree(tenant);
        let keywords = filter.keywords.to_lowercase();
        let fits = |entry: &&FolderEntry| {
            let is_kind = match filter.kind {
                Some(kind) => entry.kind == kind,
                None => entry.kind != EntryKind::Arriving,
            };
            is_kind && entry.name.to_lowercase().contains(&keywords)
        };
        let mut found: Vec<FolderEntry> = inside(&tree, &filter.folder).filter(fits).cloned().collect();
        found.sort_by(|a, b| {
            let order = match filter.order {
                EntryOrder::Created => a.created_ms.cmp(&b.created_ms),
                EntryOrder::Updated => a.updated_ms.cmp(&b.updated_ms),
                EntryOrder::Name => a.name.to_lowercase().cmp(&b.name.to_lowercase()),
                EntryOrder::Size => (a.size + size(&tree, &a.id)).cmp(&(b.size + size(&tree, &b.id))),
            };
            order.then_with(|| a.id.cmp(&b.id))
        });
        if !filter.ascending {
            found.reverse();
        }
        let total = found.len() as u64;
        let (offset, limit) =
            [filter.offset, filter.limit].map(|n| usize::try_from(n).unwrap_or(usize::MAX)).into();
        Ok((found.into_iter().skip(offset).take(limit).collect(), total))
    }

    async fn path(&self, tenant: &TenantId, id: &str) -> Result<Vec<FolderEntry>> {
        path(&self.tree(tenant), id)
    }

    async fn with_folders(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<String>> {
        let tree = self.tree(tenant);
        let has = |id: &&String| inside(&tree, id).any(|entry| entry.kind == EntryKind::Folder);
        Ok(ids.iter().filter(has).cloned().collect())
    }

    async fn sizes(&self, tenant: &TenantId, ids: &[String]) -> Result<HashMap<String, u64>> {
        let tree = self.tree(tenant);
        Ok(ids.iter().map(|id| (id.clone(), size(&tree, id))).collect())
    }

    async fn change(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EntryChange,
        now_ms: i64,
    ) -> Result<FolderEntry> {
        let mut trees = self.trees();
        let tree = trees.entry(tenant.clone()).or_default();
        let mut entry = tree.get(id).cloned().ok_or_else(|| missing(id))?;
        if entry.is_root() {
            return Err(root_stays());
        }
        if let Some(into) = change.parent.as_ref().filter(|into| **into != entry.parent) {
            folder(tree, into)?;
            if path(tree, into)?.iter().any(|above| above.id == id) {
                return Err(below_itself(&entry.name));
            }
            self.check_place(tree, into, height(tree, id))?;
            entry.parent.clone_from(into);
        }
        if let Some(name) = &change.name {
            entry.name.clone_from(name);
        }
        entry.updated_ms = now_ms;
        check_name(tree, &entry)?;
        tree.insert(id.to_owned(), entry.clone());
        Ok(entry)
    }

    async fn remove(&self, tenant: &TenantId, ids: &[String]) -> Result<u64> {
        let mut trees = self.trees();
        let tree = trees.entry(tenant.clone()).or_default();
        let there: Vec<&String> = ids.iter().filter(|id| tree.contains_key(*id)).collect();
        if there.iter().any(|id| tree.get(*id).is_some_and(FolderEntry::is_root)) {
            return Err(root_stays());
        }
        if there.iter().any(|id| inside(tree, id).any(|entry| !ids.contains(&entry.id))) {
            return Err(not_empty());
        }
        let before = tree.len();
        tree.retain(|id, _| !ids.contains(id));
        Ok((before - tree.len()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::folders::{LIMITS, folder_store_keeps_its_contract};

    #[tokio::test]
    async fn folders_in_memory_keep_the_contract() {
        folder_store_keeps_its_contract(&MemoryFolders::within(LIMITS)).await;
    }
}
