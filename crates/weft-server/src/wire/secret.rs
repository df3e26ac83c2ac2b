//! Secrets in the format of the API, without their values.

use serde::Serialize;
use weft_core::seam::secrets::SecretInfo;

use super::time::http_date;

/// A row of the list of secrets.
#[derive(Debug, Serialize)]
pub struct SecretRow {
    name: String,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
}

impl From<&SecretInfo> for SecretRow {
    fn from(SecretInfo { name, created_ms, updated_ms }: &SecretInfo) -> Self {
        Self {
            name: name.to_string(),
            create_time: *created_ms,
            create_date: http_date(*created_ms),
            update_time: *updated_ms,
            update_date: http_date(*updated_ms),
        }
    }
}
