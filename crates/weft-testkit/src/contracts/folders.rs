//! Contract of a store for folders of the file manager.

use futures::future::{join, join_all};
use weft_core::ErrorKind::{Conflict, Invalid, NotFound, QuotaExceeded};
use weft_core::id::{TenantId, generate};
use weft_core::seam::FolderStore;
use weft_core::seam::folder_store::{
    EntryChange, EntryFilter, EntryKind, EntryOrder, FolderEntry, FolderLimits, ROOT_NAME,
};

use super::{fine, refused, tenant};

/// Limits that the store under [`folder_store_keeps_its_contract`] must be opened with.
pub const LIMITS: FolderLimits = FolderLimits { in_folder: 5, depth: 4, entries: 12, bytes: 1_000 };

fn entry(parent: &str, name: &str, kind: EntryKind) -> FolderEntry {
    FolderEntry {
        id: generate(),
        parent: parent.to_owned(),
        name: name.to_owned(),
        kind,
        size: 0,
        created_ms: 1,
        updated_ms: 1,
    }
}

fn moved(into: &FolderEntry) -> EntryChange {
    EntryChange { parent: Some(into.id.clone()), name: None }
}

fn renamed(name: &str) -> EntryChange {
    EntryChange { name: Some(name.to_owned()), parent: None }
}

/// A tenant with its root folder.
struct Tree<'a> {
    store: &'a dyn FolderStore,
    tenant: TenantId,
    root: FolderEntry,
}

impl<'a> Tree<'a> {
    async fn new(store: &'a dyn FolderStore) -> Self {
        let tenant = tenant();
        let root = fine(store.root(&tenant, 7).await);
        Self { store, tenant, root }
    }

    async fn add(&self, entry: FolderEntry) -> FolderEntry {
        fine(self.store.add(&self.tenant, &entry).await);
        entry
    }

    async fn folder(&self, parent: &FolderEntry, name: &str) -> FolderEntry {
        self.add(entry(&parent.id, name, EntryKind::Folder)).await
    }

    async fn file(&self, parent: &FolderEntry, name: &str, size: u64) -> FolderEntry {
        self.add(FolderEntry { size, ..entry(&parent.id, name, EntryKind::File) }).await
    }

    async fn names(&self, filter: EntryFilter) -> (Vec<String>, u64) {
        let (found, total) = fine(self.store.list(&self.tenant, &filter).await);
        (found.into_iter().map(|entry| entry.name).collect(), total)
    }
}

/// Checks the contract of [`FolderStore`] for a store that is opened with [`LIMITS`].
///
/// # Panics
/// If the contract is violated.
pub async fn folder_store_keeps_its_contract(store: &dyn FolderStore) {
    there_is_one_root(store).await;
    entries_are_kept_and_listed(store).await;
    folder_sizes_include_their_contents(store).await;
    files_arrive(store).await;
    entries_move(store).await;
    entries_are_removed(store).await;
    limits_are_enforced(store).await;
    tenants_are_isolated(store).await;
    changes_are_serialised(store).await;
}

async fn there_is_one_root(store: &dyn FolderStore) {
    let ours = &tenant();
    let roots = join_all((0..4).map(|_| store.root(ours, 7))).await;
    let roots: Vec<FolderEntry> = roots.into_iter().map(fine).collect();
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
    assert_eq!((roots[0].name.as_str(), roots[0].kind), (ROOT_NAME, EntryKind::Folder));
    assert!(roots[0].is_root() && !roots[0].id.is_empty());
    assert_eq!(fine(store.get(ours, &roots[0].id).await), roots[0]);
    assert_eq!(fine(store.path(ours, &roots[0].id).await), [roots[0].clone()]);
    refused(store.change(ours, &roots[0].id, &renamed("x"), 8).await, Invalid);
    refused(store.remove(ours, std::slice::from_ref(&roots[0].id)).await, Invalid);
    refused(store.add(ours, &entry("", "second root", EntryKind::Folder)).await, NotFound);
    refused(store.path(ours, "").await, NotFound);
    let nowhere = EntryFilter { limit: 9, ..EntryFilter::default() };
    assert_eq!(fine(store.list(ours, &nowhere).await), (Vec::new(), 0));
}

async fn entries_are_kept_and_listed(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let (ours, root) = (&tree.tenant, &tree.root);
    let folder = tree.folder(root, "Ünï 汉_%").await;
    let report = FolderEntry { created_ms: 5, size: 20, ..entry(&root.id, "b.PDF", EntryKind::File) };
    let report = tree.add(report).await;
    let notes = FolderEntry { created_ms: 3, size: 10, ..entry(&root.id, "Annex.txt", EntryKind::File) };
    let notes = tree.add(notes).await;
    let below = tree.file(&folder, "B.pdf", 1).await;
    for one in [&folder, &report, &notes, &below] {
        assert_eq!(fine(store.get(ours, &one.id).await), *one);
    }
    refused(store.add(ours, &entry(&root.id, "B.pdf", EntryKind::Folder)).await, Conflict);
    refused(store.add(ours, &entry("unknown", "x", EntryKind::File)).await, NotFound);
    refused(store.add(ours, &entry(&report.id, "x", EntryKind::File)).await, Invalid);
    let all = EntryFilter { folder: root.id.clone(), limit: 10, ..EntryFilter::default() };
    let names = |names: &[&str], total| (names.iter().map(|&name| name.to_owned()).collect(), total);
    assert_eq!(tree.names(all.clone()).await, names(&["b.PDF", "Annex.txt", "Ünï 汉_%"], 3));
    let by = |order| EntryFilter { order, ascending: true, ..all.clone() };
    assert_eq!(tree.names(by(EntryOrder::Name)).await, names(&["Annex.txt", "b.PDF", "Ünï 汉_%"], 3));
    assert_eq!(tree.names(by(EntryOrder::Size)).await, names(&["Ünï 汉_%", "Annex.txt", "b.PDF"], 3));
    let second = EntryFilter { offset: 1, limit: 1, ..by(EntryOrder::Name) };
    assert_eq!(tree.names(second).await, names(&["b.PDF"], 3));
    let keywords = |keywords: &str| EntryFilter { keywords: keywords.to_owned(), ..all.clone() };
    assert_eq!(tree.names(keywords("B.pdf")).await, names(&["b.PDF"], 1));
    assert_eq!(tree.names(keywords("_%")).await, names(&["Ünï 汉_%"], 1));
    let folders = EntryFilter { kind: Some(EntryKind::Folder), ..all };
    assert_eq!(tree.names(folders).await, names(&["Ünï 汉_%"], 1));
    let within = tree.folder(&folder, "within").await;
    tree.file(&within, "deep.txt", 300).await;
    let looked = [root.id.clone(), folder.id.clone(), within.id.clone(), "unknown".to_owned()];
    let sizes = fine(store.sizes(ours, &looked).await);
    let of = |id: &str| sizes.get(id).copied().unwrap_or_default();
    assert_eq!(looked.each_ref().map(|id| of(id)), [331, 301, 300, 0]);
    let theirs = Tree::new(store).await;
    let foreign = fine(store.sizes(&theirs.tenant, &looked).await);
    assert!(foreign.values().all(|size| *size == 0), "{foreign:?}");
    let path = fine(store.path(ours, &below.id).await);
    assert_eq!(path, [below.clone(), folder.clone(), root.clone()]);
    let looked = [root.id.clone(), folder.id.clone(), report.id.clone()];
    let mut found = fine(store.with_folders(ours, &looked).await);
    found.sort();
    let mut expected = [root.id.clone(), folder.id.clone()];
    expected.sort();
    assert_eq!(found, expected);
}

async fn folder_sizes_include_their_contents(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let root = &tree.root;
    let large = tree.folder(root, "large").await;
    let deep = tree.folder(&large, "deep").await;
    tree.file(&deep, "f", 30).await;
    let small = tree.folder(root, "small").await;
    tree.file(&small, "f", 10).await;
    tree.file(root, "between", 20).await;
    tree.file(root, "least", 5).await;
    let empty = tree.folder(root, "empty").await;
    let by_size =
        EntryFilter { folder: root.id.clone(), order: EntryOrder::Size, limit: 10, ..EntryFilter::default() };
    let largest_first = ["large", "between", "small", "least", "empty"];
    assert_eq!(tree.names(by_size.clone()).await.0, largest_first);
    let smallest_first = ["empty", "least", "small", "between", "large"];
    let ascending = EntryFilter { ascending: true, ..by_size.clone() };
    assert_eq!(tree.names(ascending).await.0, smallest_first);
    let page = EntryFilter { offset: 1, limit: 2, ..by_size.clone() };
    let (page, total) = tree.names(page).await;
    assert_eq!((page.as_slice(), total), (["between", "small"].map(str::to_owned).as_slice(), 5));
    let past = EntryFilter { offset: 9, ..by_size.clone() };
    assert_eq!(tree.names(past).await, (Vec::new(), 5));
    let folders = EntryFilter { kind: Some(EntryKind::Folder), ..by_size.clone() };
    assert_eq!(tree.names(folders).await.0, ["large", "small", "empty"]);
    let none = EntryFilter { folder: empty.id, ..by_size };
    assert_eq!(tree.names(none).await, (Vec::new(), 0));
}

async fn files_arrive(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let (ours, root) = (&tree.tenant, &tree.root);
    let folder = tree.folder(root, "a").await;
    let arriving = |created_ms, name: &str| FolderEntry {
        created_ms,
        size: 400,
        ..entry(&folder.id, name, EntryKind::Arriving)
    };
    let (older, newer) = (tree.add(arriving(3, "Older")).await, tree.add(arriving(5, "newer")).await);
    refused(store.get(ours, &older.id).await, NotFound);
    let all = EntryFilter { folder: folder.id.clone(), limit: 9, ..EntryFilter::default() };
    assert_eq!(tree.names(all.clone()).await, (Vec::new(), 0));
    let only = EntryFilter { kind: Some(EntryKind::Arriving), ascending: true, ..all.clone() };
    assert_eq!(fine(store.list(ours, &only).await), (vec![older.clone(), newer.clone()], 2));
    let sizes = fine(store.sizes(ours, std::slice::from_ref(&folder.id)).await);
    assert_eq!(sizes.get(&folder.id).copied().unwrap_or_default(), 0);
    // Its name, its bytes and its place in the folder are reserved.
    refused(store.add(ours, &entry(&folder.id, "older", EntryKind::File)).await, Conflict);
    refused(store.add(ours, &arriving(7, "third")).await, QuotaExceeded);
    refused(store.add(ours, &entry(&older.id, "x", EntryKind::File)).await, Invalid);
    refused(store.remove(ours, std::slice::from_ref(&folder.id)).await, Conflict);
    assert_eq!(fine(store.named(ours, &folder.id, "oLDER").await), Some(older.clone()));
    assert_eq!(fine(store.named(ours, &root.id, "older").await), None);
    let stranger = Tree::new(store).await.tenant;
    assert_eq!(fine(store.named(&stranger, &folder.id, "older").await), None);
    assert!(fine(store.arriving(&stranger, 9, 9).await).is_empty());
    refused(store.arrive(&stranger, &older.id).await, NotFound);
    assert_eq!(fine(store.arriving(ours, 9, 9).await), [older.clone(), newer.clone()]);
    assert_eq!(fine(store.arriving(ours, 9, 1).await), std::slice::from_ref(&older));
    assert_eq!(fine(store.arriving(ours, 5, 9).await), std::slice::from_ref(&older));
    fine(store.arrive(ours, &older.id).await);
    let there = FolderEntry { kind: EntryKind::File, ..older };
    assert_eq!(fine(store.get(ours, &there.id).await), there);
    assert_eq!(tree.names(all).await.0, ["Older"]);
    refused(store.arrive(ours, &there.id).await, NotFound);
    refused(store.arrive(ours, &folder.id).await, NotFound);
    assert_eq!(fine(store.remove(ours, std::slice::from_ref(&newer.id)).await), 1);
    refused(store.arrive(ours, &newer.id).await, NotFound);
    assert!(fine(store.arriving(ours, 9, 9).await).is_empty());
}

async fn entries_move(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let (ours, root) = (&tree.tenant, &tree.root);
    let a = tree.folder(root, "a").await;
    let b = tree.folder(&a, "b").await;
    let file = tree.file(root, "f.txt", 1).await;
    let other = tree.file(&b, "F.TXT", 1).await;
    refused(store.change(ours, &a.id, &moved(&a), 9).await, Invalid);
    refused(store.change(ours, &a.id, &moved(&b), 9).await, Invalid);
    refused(store.change(ours, &a.id, &moved(&file), 9).await, Invalid);
    refused(store.change(ours, &file.id, &moved(&b), 9).await, Conflict);
    refused(store.change(ours, "unknown", &moved(&b), 9).await, NotFound);
    let nowhere = EntryChange { parent: Some("unknown".to_owned()), name: None };
    refused(store.change(ours, &file.id, &nowhere, 9).await, NotFound);
    assert_eq!(fine(store.get(ours, &file.id).await), file);
    let both = EntryChange { name: Some("g.txt".to_owned()), parent: Some(b.id.clone()) };
    let gone = fine(store.change(ours, &file.id, &both, 9).await);
    let expected = FolderEntry { name: "g.txt".to_owned(), parent: b.id.clone(), updated_ms: 9, ..file };
    assert_eq!(gone, expected);
    assert_eq!(fine(store.get(ours, &gone.id).await), expected);
    refused(store.change(ours, &gone.id, &renamed("f.txt"), 10).await, Conflict);
    assert_eq!(fine(store.change(ours, &other.id, &renamed("f.txt"), 10).await).name, "f.txt");
    let up = fine(store.change(ours, &b.id, &moved(root), 11).await);
    assert_eq!(fine(store.path(ours, &gone.id).await), [gone, up, root.clone()]);
    assert_eq!(fine(store.change(ours, &a.id, &moved(&b), 12).await).parent, b.id);
}

async fn entries_are_removed(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let (ours, root) = (&tree.tenant, &tree.root);
    let folder = tree.folder(root, "a").await;
    let file = tree.file(&folder, "f", 1).await;
    let other = tree.file(root, "g", 1).await;
    refused(store.remove(ours, &[other.id.clone(), folder.id.clone()]).await, Conflict);
    assert_eq!(fine(store.get(ours, &other.id).await), other);
    assert_eq!(
        fine(store.remove(ours, &[file.id.clone(), folder.id.clone(), "unknown".to_owned()]).await),
        2
    );
    refused(store.get(ours, &folder.id).await, NotFound);
    refused(store.get(ours, &file.id).await, NotFound);
    assert_eq!(fine(store.remove(ours, &[]).await), 0);
    assert_eq!(fine(store.remove(ours, std::slice::from_ref(&other.id)).await), 1);
    assert_eq!(fine(store.remove(ours, &[other.id]).await), 0);
}

async fn limits_are_enforced(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let (ours, root) = (&tree.tenant, &tree.root);
    let mut deepest = root.clone();
    for name in ["1", "2", "3"] {
        deepest = tree.folder(&deepest, name).await;
    }
    let last = tree.folder(&deepest, "4").await;
    refused(store.add(ours, &entry(&last.id, "5", EntryKind::File)).await, QuotaExceeded);
    // A folder is moved with its whole depth.
    let pair = tree.folder(root, "pair").await;
    let inner = tree.file(&pair, "inner", 600).await;
    refused(store.change(ours, &pair.id, &moved(&deepest), 9).await, QuotaExceeded);
    let large = FolderEntry { size: 401, ..entry(&root.id, "large", EntryKind::File) };
    refused(store.add(ours, &large).await, QuotaExceeded);
    fine(store.remove(ours, std::slice::from_ref(&inner.id)).await);
    fine(store.change(ours, &pair.id, &moved(&deepest), 9).await);
    for name in ["a", "b", "c", "d"] {
        tree.file(root, name, 0).await;
    }
    refused(store.add(ours, &entry(&root.id, "e", EntryKind::File)).await, QuotaExceeded);
    refused(store.change(ours, &last.id, &moved(root), 9).await, QuotaExceeded);
    let first = fine(store.path(ours, &last.id).await)[3].clone();
    for name in ["x", "y", "z"] {
        tree.file(&first, name, 0).await;
    }
    refused(store.add(ours, &entry(&first.id, "thirteenth", EntryKind::File)).await, QuotaExceeded);
}

async fn tenants_are_isolated(store: &dyn FolderStore) {
    let (ours, theirs) = (Tree::new(store).await, Tree::new(store).await);
    assert_ne!(ours.root.id, theirs.root.id);
    let file = ours.file(&ours.root, "f", 1).await;
    let folder = theirs.folder(&theirs.root, "f").await;
    let stranger = &theirs.tenant;
    refused(store.get(stranger, &file.id).await, NotFound);
    refused(store.path(stranger, &file.id).await, NotFound);
    refused(store.change(stranger, &file.id, &moved(&folder), 9).await, NotFound);
    refused(store.change(&ours.tenant, &file.id, &moved(&folder), 9).await, NotFound);
    refused(store.add(stranger, &entry(&ours.root.id, "x", EntryKind::File)).await, NotFound);
    assert_eq!(fine(store.remove(stranger, std::slice::from_ref(&file.id)).await), 0);
    assert_eq!(fine(store.with_folders(&ours.tenant, std::slice::from_ref(&theirs.root.id)).await), [""; 0]);
    let filter = EntryFilter { folder: ours.root.id.clone(), limit: 9, ..EntryFilter::default() };
    assert_eq!(fine(store.list(stranger, &filter).await), (Vec::new(), 0));
    assert_eq!(fine(store.list(&ours.tenant, &filter).await), (vec![file], 1));
}

async fn changes_are_serialised(store: &dyn FolderStore) {
    let tree = Tree::new(store).await;
    let (ours, root) = (&tree.tenant, &tree.root);
    let (a, b) = (tree.folder(root, "a").await, tree.folder(root, "b").await);
    let (into_b, into_a) = (moved(&b), moved(&a));
    let (first, second) =
        join(store.change(ours, &a.id, &into_b, 9), store.change(ours, &b.id, &into_a, 9)).await;
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let entries: Vec<FolderEntry> =
        (0..6).map(|nth| entry(&root.id, &format!("f{nth}"), EntryKind::File)).collect();
    let added = join_all(entries.iter().map(|entry| store.add(ours, entry))).await;
    // One folder exists already, so there is room for four more.
    assert_eq!(added.iter().filter(|outcome| outcome.is_ok()).count(), 4, "{added:?}");
    let same: Vec<FolderEntry> = (0..3).map(|_| entry(&a.id, "same", EntryKind::File)).collect();
    let added = join_all(same.iter().map(|entry| store.add(ours, entry))).await;
    assert_eq!(added.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{added:?}");
}
