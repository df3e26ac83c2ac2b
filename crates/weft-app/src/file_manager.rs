//! The file manager: folders and files of a tenant. The bytes of the files are in the blob store.
//!
//! An entry is marked as arriving before its bytes are stored, and becomes a file afterwards. So if the process ends
//! in between, there are neither unknown bytes nor a file without bytes; an entry that is still arriving after a day
//! is removed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use weft_core::seam::folder_store::{EntryChange, EntryFilter, EntryKind, FolderEntry, missing, no_folder};
use weft_core::seam::{BlobStore, Clock, FolderStore};
use weft_core::{Error, ErrorKind, Result, TenantId};
use weft_knowledge::ingest::{NAME_BYTES_MAX, WantedName, numbered, under_free_name};

/// Age after which an arriving file was abandoned by its process: longer than the slowest blob store takes to store
/// one.
const ARRIVES_WITHIN_MS: i64 = 24 * 3_600_000;
/// Number of entries of a folder that are removed or read in one batch.
const AT_ONCE: u64 = 200;
/// How often a folder that is being removed is emptied again when other requests add entries.
const EMPTIED_MAX: u32 = 100;

/// The folders and files of all tenants. Clones share the same state.
#[derive(Clone)]
pub struct FileManager {
    tree: Arc<dyn FolderStore>,
    blobs: Arc<dyn BlobStore>,
    clock: Arc<dyn Clock>,
    file_bytes_max: u64,
}

impl fmt::Debug for FileManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileManager").field("file_bytes_max", &self.file_bytes_max).finish_non_exhaustive()
    }
}

/// Returns the key of a file's bytes. The ids of files are generated, and never contain user input.
fn blob(id: &str) -> String {
    format!("folders/{id}")
}

fn check_name(name: &str) -> Result<()> {
    if matches!(name.trim(), "" | "." | "..") {
        return Err(Error::invalid("a file or folder needs a name").help("give it one"));
    }
    if name.len() > NAME_BYTES_MAX {
        let message = format!("the name has {} bytes", name.len());
        return Err(Error::invalid(message).help(format!("use at most {NAME_BYTES_MAX}")));
    }
    if name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        return Err(Error::invalid("a name of a file or folder has neither slashes nor control characters")
            .help("leave them out"));
    }
    Ok(())
}

/// Numbers a name that is taken, in the same way as for documents of a dataset.
fn wanted(name: &str) -> WantedName<'_> {
    WantedName { name, with_number: numbered }
}

/// Returns a filter for a batch of the oldest entries of a folder.
fn some_of(folder: &str) -> EntryFilter {
    EntryFilter { folder: folder.to_owned(), ascending: true, limit: AT_ONCE, ..EntryFilter::default() }
}

impl FileManager {
    /// Creates a file manager with entries in `tree` and bytes in `blobs`, up to `file_bytes_max` in one file.
    pub fn new(
        tree: Arc<dyn FolderStore>,
        blobs: Arc<dyn BlobStore>,
        clock: Arc<dyn Clock>,
        file_bytes_max: u64,
    ) -> Self {
        Self { tree, blobs, clock, file_bytes_max }
    }

    /// Returns the store of the entries, for reading.
    pub fn tree(&self) -> &dyn FolderStore {
        &*self.tree
    }

    /// Returns the maximum size of a file, in bytes.
    pub fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    /// Returns the root folder of a tenant.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn root(&self, tenant: &TenantId) -> Result<FolderEntry> {
        self.tree.root(tenant, self.clock.now_ms()).await
    }

    /// Returns the folder with this id, or the root without an id.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` when it is a file.
    pub async fn folder(&self, tenant: &TenantId, id: Option<&str>) -> Result<FolderEntry> {
        let Some(id) = id else { return self.root(tenant).await };
        let found = self.tree.get(tenant, id).await?;
        match found.kind {
            EntryKind::Folder => Ok(found),
            EntryKind::File | EntryKind::Arriving => Err(no_folder(id)),
        }
    }

    fn fresh(&self, folder: &FolderEntry, name: &str, kind: EntryKind) -> FolderEntry {
        let now_ms = self.clock.now_ms();
        FolderEntry {
            id: weft_core::id::generate(),
            parent: folder.id.clone(),
            name: name.to_owned(),
            kind,
            size: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }

    /// Creates a folder.
    ///
    /// # Errors
    /// As [`FolderStore::add`]; `Invalid` for a name that is not valid.
    pub async fn make_folder(
        &self,
        tenant: &TenantId,
        within: &FolderEntry,
        name: &str,
    ) -> Result<FolderEntry> {
        check_name(name)?;
        let made = self.fresh(within, name, EntryKind::Folder);
        self.tree.add(tenant, &made).await?;
        Ok(made)
    }

    /// Stores a file. A name that is taken gets a number appended. The file becomes visible once its bytes are
    /// stored.
    ///
    /// # Errors
    /// As [`FolderStore::add`]; `Invalid` for a name that is not valid and for too many bytes; `NotFound` when its
    /// folder is removed concurrently.
    pub async fn keep(
        &self,
        tenant: &TenantId,
        within: &FolderEntry,
        name: &str,
        bytes: Bytes,
    ) -> Result<FolderEntry> {
        check_name(name)?;
        let (size, most) = (bytes.len() as u64, self.file_bytes_max);
        if size > most {
            return Err(Error::invalid(format!("the file `{name}` has {size} bytes")).help(format!(
                "use files of at most {most} bytes, or have an operator raise documents.file_bytes_max"
            )));
        }
        let new = FolderEntry { size, ..self.fresh(within, name, EntryKind::Arriving) };
        // The entry comes first, so that the bytes are found and removed if this process ends before it is complete.
        let arriving = self.add_named(tenant, &new).await?;
        if let Err(error) = self.blobs.put(tenant, &blob(&new.id), bytes).await {
            self.take_back(tenant, &arriving).await;
            return Err(error);
        }
        match self.tree.arrive(tenant, &new.id).await {
            Ok(()) => Ok(FolderEntry { kind: EntryKind::File, ..arriving }),
            Err(error) => {
                // After any other error of the store it may have become a file; if not, it is removed later.
                if error.kind == ErrorKind::NotFound {
                    self.take_back(tenant, &arriving).await;
                }
                Err(error)
            }
        }
    }

    /// Removes a file whose arrival failed. Errors are ignored in favour of the original one; leftovers are removed
    /// later.
    async fn take_back(&self, tenant: &TenantId, arriving: &FolderEntry) {
        let _ = self.remove_files(tenant, std::slice::from_ref(arriving)).await;
    }

    async fn add_named(&self, tenant: &TenantId, entry: &FolderEntry) -> Result<FolderEntry> {
        let add = |name: String| {
            let named = FolderEntry { name, ..entry.clone() };
            async move { self.tree.add(tenant, &named).await.map(|()| named) }
        };
        let is_taken = |name: String| async move { self.is_taken(tenant, &entry.parent, &name, entry).await };
        under_free_name(wanted(&entry.name), add, is_taken).await
    }

    /// Returns whether another entry of a folder has this name.
    async fn is_taken(
        &self,
        tenant: &TenantId,
        folder: &str,
        name: &str,
        entry: &FolderEntry,
    ) -> Result<bool> {
        let found = self.tree.named(tenant, folder, name).await?;
        Ok(found.is_some_and(|other| other.id != entry.id))
    }

    /// Removes files whose process ended while their bytes were being stored. Returns their number.
    ///
    /// # Errors
    /// When something cannot be read or removed; the next call continues.
    pub async fn clear_away(&self, tenant: &TenantId) -> Result<u64> {
        let before_ms = self.clock.now_ms().saturating_sub(ARRIVES_WITHIN_MS);
        let mut removed = 0;
        loop {
            let left = self.tree.arriving(tenant, before_ms, AT_ONCE).await?;
            let gone = if left.is_empty() { 0 } else { self.remove_files(tenant, &left).await? };
            removed += gone;
            // Entries that cannot be removed would be found again for ever.
            if gone == 0 || (left.len() as u64) < AT_ONCE {
                return Ok(removed);
            }
        }
    }

    /// Returns a file with its bytes.
    ///
    /// # Errors
    /// `NotFound`, also for a folder.
    pub async fn read(&self, tenant: &TenantId, id: &str) -> Result<(FolderEntry, Bytes)> {
        let file = self.tree.get(tenant, id).await?;
        if file.kind != EntryKind::File {
            return Err(missing(id));
        }
        match self.blobs.get(tenant, &blob(&file.id)).await {
            Ok(bytes) => Ok((file, bytes)),
            // It is being removed.
            Err(error) if error.kind == ErrorKind::NotFound => Err(missing(id)),
            Err(error) => Err(error),
        }
    }

    /// Renames an entry to exactly this name.
    ///
    /// # Errors
    /// As [`FolderStore::change`]; `Invalid` for a name that is not valid.
    pub async fn rename(&self, tenant: &TenantId, id: &str, name: &str) -> Result<FolderEntry> {
        check_name(name)?;
        let change = EntryChange { name: Some(name.to_owned()), parent: None };
        self.tree.change(tenant, id, &change, self.clock.now_ms()).await
    }

    /// Moves an entry into a folder, with another name if one is given. A name that is taken there gets a number
    /// appended.
    ///
    /// # Errors
    /// As [`FolderStore::change`]; `Invalid` for a name that is not valid, and for the root.
    pub async fn move_into(
        &self,
        tenant: &TenantId,
        entry: &FolderEntry,
        folder: &FolderEntry,
        name: Option<&str>,
    ) -> Result<FolderEntry> {
        if entry.is_root() {
            return Err(weft_core::seam::folder_store::root_stays());
        }
        let name = name.unwrap_or(&entry.name);
        check_name(name)?;
        let change = |name: String| {
            let change = EntryChange { name: Some(name), parent: Some(folder.id.clone()) };
            async move { self.tree.change(tenant, &entry.id, &change, self.clock.now_ms()).await }
        };
        let is_taken = |name: String| async move { self.is_taken(tenant, &folder.id, &name, entry).await };
        under_free_name(wanted(name), change, is_taken).await
    }

    /// Removes an entry and everything below it, in batches. If interrupted, repeating the call continues. Returns
    /// the number of removed entries.
    ///
    /// # Errors
    /// `Invalid` for the root; `Conflict` when other requests keep adding entries to one of the folders.
    pub async fn remove(&self, tenant: &TenantId, entry: &FolderEntry) -> Result<u64> {
        if entry.is_root() {
            return Err(weft_core::seam::folder_store::root_stays());
        }
        if entry.kind != EntryKind::Folder {
            return self.remove_files(tenant, std::slice::from_ref(entry)).await;
        }
        let (mut removed, mut emptied) = (0, 0);
        // A stack instead of recursion, because the depth of folders is not limited.
        let mut open = vec![entry.clone()];
        while let Some(folder) = open.last() {
            let inside = self.anything_inside(tenant, &folder.id).await?;
            let (folders, files): (Vec<_>, Vec<_>) =
                inside.into_iter().partition(|entry| entry.kind == EntryKind::Folder);
            if !files.is_empty() {
                removed += self.remove_files(tenant, &files).await?;
            } else if let Some(inner) = folders.into_iter().next() {
                open.push(inner);
            } else {
                match self.tree.remove(tenant, std::slice::from_ref(&folder.id)).await {
                    Ok(gone) => {
                        removed += gone;
                        open.pop();
                    }
                    // The store removes no folder that has entries: one was added meanwhile.
                    Err(error) if error.kind == ErrorKind::Conflict && emptied < EMPTIED_MAX => emptied += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(removed)
    }

    async fn inside(&self, tenant: &TenantId, folder: &str, offset: u64) -> Result<Vec<FolderEntry>> {
        let filter = EntryFilter { offset, ..some_of(folder) };
        Ok(self.tree.list(tenant, &filter).await?.0)
    }

    /// Returns a batch of the entries of a folder; if none are visible, those that are arriving. The request that
    /// stores one of these will find it removed.
    async fn anything_inside(&self, tenant: &TenantId, folder: &str) -> Result<Vec<FolderEntry>> {
        let shown = self.inside(tenant, folder, 0).await?;
        if !shown.is_empty() {
            return Ok(shown);
        }
        let arriving = EntryFilter { kind: Some(EntryKind::Arriving), ..some_of(folder) };
        Ok(self.tree.list(tenant, &arriving).await?.0)
    }

    async fn remove_files(&self, tenant: &TenantId, files: &[FolderEntry]) -> Result<u64> {
        // The bytes go first: without an entry they could not be found again.
        for file in files {
            self.blobs.remove(tenant, &blob(&file.id)).await?;
        }
        let ids: Vec<String> = files.iter().map(|file| file.id.clone()).collect();
        let removed = self.tree.remove(tenant, &ids).await?;
        // The bytes of an arriving file may have been stored, and the file become visible, between the two. Without an
        // entry it cannot become visible any more, and a request that stores its bytes later removes them itself.
        for file in files.iter().filter(|file| file.kind == EntryKind::Arriving) {
            self.blobs.remove(tenant, &blob(&file.id)).await?;
        }
        Ok(removed)
    }

    /// Returns the files among these entries and below them, without repetitions.
    ///
    /// # Errors
    /// `Invalid` when there are more than `most`.
    pub async fn files_below(
        &self,
        tenant: &TenantId,
        entries: Vec<FolderEntry>,
        most: usize,
    ) -> Result<Vec<FolderEntry>> {
        let mut files: Vec<FolderEntry> = Vec::new();
        let mut open = entries;
        while let Some(entry) = open.pop() {
            if entry.kind != EntryKind::Folder {
                // A file and its folder may both be selected.
                if files.iter().all(|file| file.id != entry.id) {
                    files.push(entry);
                }
                if files.len() > most {
                    let message = format!("the selection contains more than {most} files");
                    return Err(Error::invalid(message).help("select fewer at a time"));
                }
                continue;
            }
            for offset in (0..).step_by(AT_ONCE as usize) {
                let some = self.inside(tenant, &entry.id, offset).await?;
                let last = (some.len() as u64) < AT_ONCE;
                open.extend(some);
                if last {
                    break;
                }
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::{Notify, Semaphore};
    use weft_core::async_trait;
    use weft_core::seam::clock::FixedClock;
    use weft_core::seam::folder_store::FolderLimits;
    use weft_engine::clock::SystemClock;
    use weft_testkit::{MemoryBlobs, MemoryFolders};

    use super::*;

    /// A blob store that does the work of each call at once, but returns only when it gets a permit.
    struct Slow {
        blobs: MemoryBlobs,
        going_on: Semaphore,
    }

    #[async_trait]
    impl BlobStore for Slow {
        async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()> {
            self.blobs.put(tenant, name, bytes).await?;
            self.going_on.acquire().await.unwrap().forget();
            Ok(())
        }

        async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes> {
            self.blobs.get(tenant, name).await
        }

        async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
            self.blobs.remove(tenant, name).await
        }

        async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
            self.blobs.below(tenant, folder).await
        }

        async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
            self.blobs.remove_all(tenant).await
        }
    }

    /// The stores that a file manager writes to; `at` makes a manager whose clock stands at a given time.
    struct Cut {
        tree: Arc<MemoryFolders>,
        slow: Arc<Slow>,
        tenant: TenantId,
    }

    impl Cut {
        fn new() -> Self {
            let slow = Slow { blobs: MemoryBlobs::default(), going_on: Semaphore::new(0) };
            let tree = Arc::new(MemoryFolders::within(FolderLimits::default()));
            Self { tree, slow: Arc::new(slow), tenant: TenantId::new("t") }
        }

        fn at(&self, now_ms: i64) -> FileManager {
            let tree = Arc::clone(&self.tree) as Arc<dyn FolderStore>;
            let blobs = Arc::clone(&self.slow) as Arc<dyn BlobStore>;
            FileManager::new(tree, blobs, Arc::new(FixedClock(now_ms)), 10)
        }

        async fn only_arriving(&self) -> FolderEntry {
            let all = self.tree.arriving(&self.tenant, i64::MAX, 9).await.unwrap();
            assert_eq!(all.len(), 1, "{all:?}");
            all.into_iter().next().unwrap()
        }

        async fn assert_no_bytes(&self, file: &FolderEntry) {
            let left = self.slow.get(&self.tenant, &blob(&file.id)).await;
            assert_eq!(left.unwrap_err().kind, ErrorKind::NotFound);
        }
    }

    #[tokio::test]
    async fn files_left_by_a_killed_process_are_cleaned_up() {
        let cut = Cut::new();
        let (manager, tenant) = (cut.at(0), &cut.tenant);
        let root = manager.root(tenant).await.unwrap();
        assert!(manager.keep(tenant, &root, "f", "bytes".into()).now_or_never().is_none());
        let left = cut.only_arriving().await;
        assert_eq!(cut.slow.get(tenant, &blob(&left.id)).await.unwrap(), "bytes");
        assert_eq!(manager.read(tenant, &left.id).await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(manager.files_below(tenant, vec![root.clone()], 9).await.unwrap().len(), 0);
        assert_eq!(
            cut.at(ARRIVES_WITHIN_MS).clear_away(tenant).await.unwrap(),
            0,
            "the upload may still be running"
        );
        assert_eq!(cut.at(ARRIVES_WITHIN_MS + 1).clear_away(tenant).await.unwrap(), 1);
        cut.assert_no_bytes(&left).await;
        cut.slow.going_on.add_permits(1);
        assert_eq!(manager.keep(tenant, &root, "f", "again".into()).await.unwrap().name, "f");
        assert_eq!(cut.at(i64::MAX).clear_away(tenant).await.unwrap(), 0, "the upload is complete");
    }

    #[tokio::test]
    async fn removing_a_folder_removes_an_upload_in_progress() {
        let cut = Cut::new();
        let (manager, tenant) = (cut.at(0), &cut.tenant);
        let root = manager.root(tenant).await.unwrap();
        let folder = manager.make_folder(tenant, &root, "folder").await.unwrap();
        let (kept, left) = tokio::join!(manager.keep(tenant, &folder, "f", "bytes".into()), async {
            let left = cut.only_arriving().await;
            manager.remove(tenant, &folder).await.unwrap();
            cut.slow.going_on.add_permits(1);
            left
        });
        assert_eq!(kept.unwrap_err().kind, ErrorKind::NotFound);
        cut.assert_no_bytes(&left).await;
        assert_eq!(manager.files_below(tenant, vec![root], 9).await.unwrap().len(), 0);
    }

    /// A blob store that stores bytes only once some were removed, and returns from a removal only with a permit.
    #[derive(Default)]
    struct Overtaken {
        blobs: MemoryBlobs,
        removed: Notify,
        arrived: Notify,
    }

    #[async_trait]
    impl BlobStore for Overtaken {
        async fn put(&self, tenant: &TenantId, name: &str, bytes: Bytes) -> Result<()> {
            self.removed.notified().await;
            self.blobs.put(tenant, name, bytes).await
        }

        async fn get(&self, tenant: &TenantId, name: &str) -> Result<Bytes> {
            self.blobs.get(tenant, name).await
        }

        async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
            self.blobs.remove(tenant, name).await?;
            self.removed.notify_one();
            self.arrived.notified().await;
            self.arrived.notify_one();
            Ok(())
        }

        async fn below(&self, tenant: &TenantId, folder: &str) -> Result<Vec<String>> {
            self.blobs.below(tenant, folder).await
        }

        async fn remove_all(&self, tenant: &TenantId) -> Result<()> {
            self.blobs.remove_all(tenant).await
        }
    }

    #[tokio::test]
    async fn a_file_that_arrives_while_its_folder_is_removed_leaves_no_bytes() {
        let tree = Arc::new(MemoryFolders::within(FolderLimits::default()));
        let (blobs, tenant) = (Arc::new(Overtaken::default()), TenantId::new("t"));
        let stored = Arc::clone(&blobs) as Arc<dyn BlobStore>;
        let manager = FileManager::new(tree, stored, Arc::new(FixedClock(0)), 10);
        let root = manager.root(&tenant).await.unwrap();
        let folder = manager.make_folder(&tenant, &root, "folder").await.unwrap();
        let keeping = async {
            let kept = manager.keep(&tenant, &folder, "f", "bytes".into()).await.unwrap();
            assert_eq!(manager.read(&tenant, &kept.id).await.unwrap().1, "bytes");
            blobs.arrived.notify_one();
            kept
        };
        let (kept, removed) = tokio::join!(keeping, manager.remove(&tenant, &folder));
        assert_eq!(removed.unwrap(), 2);
        let left = blobs.get(&tenant, &blob(&kept.id)).await;
        assert_eq!(left.unwrap_err().kind, ErrorKind::NotFound);
    }

    fn manager(limits: FolderLimits) -> (FileManager, Arc<MemoryBlobs>, TenantId) {
        let (tree, blobs) = (Arc::new(MemoryFolders::within(limits)), Arc::new(MemoryBlobs::default()));
        let manager =
            FileManager::new(tree, Arc::clone(&blobs) as Arc<dyn BlobStore>, Arc::new(SystemClock), 10);
        (manager, blobs, TenantId::new("t"))
    }

    #[tokio::test]
    async fn removing_a_folder_removes_everything_below_it() {
        let (manager, blobs, tenant) = manager(FolderLimits::default());
        let root = manager.root(&tenant).await.unwrap();
        let outer = manager.make_folder(&tenant, &root, "outer").await.unwrap();
        let inner = manager.make_folder(&tenant, &outer, "inner").await.unwrap();
        let beside = manager.keep(&tenant, &root, "f", "beside".into()).await.unwrap();
        let mut below = Vec::new();
        // More files than one batch removes.
        for nth in 0..AT_ONCE + 30 {
            let within = if nth % 100 == 0 { &outer } else { &inner };
            below.push(manager.keep(&tenant, within, "f", nth.to_string().into()).await.unwrap());
        }
        assert_eq!(below[1].name, "f");
        assert_eq!(below[2].name, "f(1)");
        assert_eq!(manager.read(&tenant, &below[7].id).await.unwrap().1, "7");
        let all = manager.files_below(&tenant, vec![outer.clone(), below[0].clone()], 1_000).await.unwrap();
        assert_eq!(all.len(), below.len());
        let few = manager.files_below(&tenant, vec![outer.clone()], below.len() - 1).await.unwrap_err();
        assert_eq!(few.kind, ErrorKind::Invalid);
        assert_eq!(manager.remove(&tenant, &outer).await.unwrap(), below.len() as u64 + 2);
        for file in &below {
            let left = blobs.get(&tenant, &blob(&file.id)).await;
            assert_eq!(left.unwrap_err().kind, ErrorKind::NotFound, "{}", file.name);
        }
        assert_eq!(manager.remove(&tenant, &outer).await.unwrap(), 0, "the folder is already removed");
        assert_eq!(manager.read(&tenant, &beside.id).await.unwrap().1, "beside");
        assert_eq!(manager.remove(&tenant, &root).await.unwrap_err().kind, ErrorKind::Invalid);
    }

    #[tokio::test]
    async fn names_and_sizes_are_checked() {
        let (manager, _, tenant) = manager(FolderLimits { in_folder: 1, ..FolderLimits::default() });
        let root = manager.root(&tenant).await.unwrap();
        for name in ["", " ", "..", "a/b", "a\\b", "a\nb", "\0", &"x".repeat(256)] {
            let made = manager.make_folder(&tenant, &root, name).await.unwrap_err();
            let kept = manager.keep(&tenant, &root, name, Bytes::new()).await.unwrap_err();
            assert_eq!((made.kind, kept.kind), (ErrorKind::Invalid, ErrorKind::Invalid), "{name:?}");
        }
        let large = manager.keep(&tenant, &root, "large", Bytes::from(vec![0; 11])).await.unwrap_err();
        assert_eq!(large.kind, ErrorKind::Invalid);
        let file = manager.keep(&tenant, &root, "f", Bytes::from(vec![0; 10])).await.unwrap();
        let full = manager.keep(&tenant, &root, "g", Bytes::new()).await.unwrap_err();
        assert_eq!(full.kind, ErrorKind::QuotaExceeded);
        assert_eq!(manager.rename(&tenant, &file.id, "a/b").await.unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(manager.folder(&tenant, Some(&file.id)).await.unwrap_err().kind, ErrorKind::Invalid);
    }
}
