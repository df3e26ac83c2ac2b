//! Assembly of the files of conversations, and of the file manager.

use std::sync::Arc;

use weft_core::seam::folder_store::FolderLimits;
use weft_core::seam::{BlobStore, Clock, FileStore};
use weft_store::{FileLimits, Files, Folders, Store};

use crate::config::{AttachmentsConfig, Config};
use crate::file_manager::FileManager;
use crate::pipelines::FilesAndDocuments;

/// Creates both, with their bytes in the same blob store.
pub(super) fn files(
    config: &Config,
    store: &Store,
    blobs: Arc<dyn BlobStore>,
    clock: &Arc<dyn Clock>,
) -> (Arc<dyn FileStore>, FileManager) {
    let limits = FolderLimits { bytes: config.limits.tenant_document_bytes, ..FolderLimits::default() };
    let tree = Arc::new(Folders::new(store, limits));
    // A file of the file manager can become a document, so both have the same limit.
    let file_bytes_max = config.documents.file_bytes_max as u64;
    let manager = FileManager::new(tree, Arc::clone(&blobs), Arc::clone(clock), file_bytes_max);
    let AttachmentsConfig { file_bytes_max, tenant_bytes_max } = config.attachments;
    let limits = FileLimits { file_bytes_max, tenant_bytes_max };
    let files = Arc::new(Files::new(store, Arc::clone(&blobs), limits));
    (Arc::new(FilesAndDocuments { files, documents: store.datasets(), blobs }), manager)
}
