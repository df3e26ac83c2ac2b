//! Folders and files of the file manager: reading requests and building answers.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use weft_core::TenantId;
use weft_core::seam::folder_store::{EntryFilter, EntryKind, EntryOrder, FolderEntry};

use super::document::kind;
use super::time::http_date;
use crate::body::{Body, Params};
use crate::error::ApiError;

/// Maximum number of entries that one request may name.
const IDS_MAX: usize = 100;

/// The representation of an entry in answers. The root contains itself.
pub fn view(tenant: &TenantId, entry: &FolderEntry) -> Json {
    let parent = if entry.is_root() { &entry.id } else { &entry.parent };
    json!({
        "id": entry.id,
        "parent_id": parent,
        "tenant_id": tenant,
        "created_by": tenant,
        "name": entry.name,
        "location": if entry.kind == EntryKind::File { &entry.name } else { "" },
        "size": entry.size,
        "type": if entry.kind == EntryKind::File { kind(&entry.name) } else { "folder" },
        "source_type": "",
        "create_time": entry.created_ms,
        "create_date": http_date(entry.created_ms),
        "update_time": entry.updated_ms,
        "update_date": http_date(entry.updated_ms),
    })
}

/// Information about the folders in a list.
#[derive(Clone, Copy, Debug)]
pub struct FolderContents<'a> {
    /// Folders that contain folders.
    pub with_folders: &'a [String],
    /// Total size in bytes of all files below each folder.
    pub sizes: &'a HashMap<String, u64>,
}

/// The representation in a list: adds whether the entry contains folders, and the total size below it.
pub fn listed(tenant: &TenantId, entry: &FolderEntry, inside: FolderContents<'_>) -> Json {
    let mut shown = view(tenant, entry);
    if entry.kind == EntryKind::Folder {
        shown["has_child_folder"] = inside.with_folders.contains(&entry.id).into();
        shown["size"] = inside.sizes.get(&entry.id).copied().unwrap_or_default().into();
    }
    shown
}

/// Reads the parameters of the list of a folder.
///
/// # Errors
/// 101 for an unknown order.
pub fn filter(params: &Params, folder: &FolderEntry, size_max: u64) -> Result<EntryFilter, ApiError> {
    let page = params.page(size_max);
    let order = match params.get("orderby") {
        None | Some("create_time") => EntryOrder::Created,
        Some("update_time") => EntryOrder::Updated,
        Some("name") => EntryOrder::Name,
        Some("size") => EntryOrder::Size,
        Some(other) => return Err(ApiError::argument(format!("invalid orderby field: {other}"))),
    };
    Ok(EntryFilter {
        folder: folder.id.clone(),
        keywords: params.get("keywords").unwrap_or_default().to_owned(),
        kind: None,
        order,
        ascending: params.ascending(),
        offset: page.offset,
        limit: page.limit,
    })
}

/// Reads the ids from one of these fields, without repetitions.
///
/// # Errors
/// 101 without any, for a value that is not an id, and for too many.
pub fn ids(body: &Body, names: &[&str]) -> Result<Vec<String>, ApiError> {
    let Some(name) = names.iter().find(|name| body.get(name).is_some()) else {
        let first = names.first().copied().unwrap_or_default();
        return Err(ApiError::argument(format!("required argument are missing: {first}; ")));
    };
    let mut ids = match body.get(name) {
        Some(Json::String(id)) => vec![id.clone()],
        _ => body.texts(name)?.unwrap_or_default(),
    };
    if ids.len() > IDS_MAX {
        return Err(ApiError::argument(format!("{name} must contain at most {IDS_MAX} IDs")));
    }
    if ids.is_empty() {
        return Err(ApiError::argument(format!("`{name}` is empty; name at least one")));
    }
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    Ok(ids)
}
