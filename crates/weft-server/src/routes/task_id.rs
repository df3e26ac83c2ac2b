//! The ids of the tasks of a dataset.

use sha2::{Digest as _, Sha256};
use weft_core::hex;
use weft_core::id::DatasetKey;

/// Returns the id of a task. A dataset has one task of each kind, so the id is derived from the two.
pub(super) fn task_id(dataset: &DatasetKey, kind: &str) -> String {
    let whole = [dataset.tenant.as_str(), dataset.id.as_str(), kind].join("\u{0}");
    hex(&Sha256::digest(whole.as_bytes())[..16])
}
