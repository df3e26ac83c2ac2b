//! Files of conversations.

use serde::Deserialize;

/// Files of conversations: those that people attach, and those that runs create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttachmentsConfig {
    /// Maximum size of one file, in bytes.
    pub file_bytes_max: u64,
    /// Maximum total size of a tenant's files, in bytes.
    pub tenant_bytes_max: u64,
}

impl Default for AttachmentsConfig {
    fn default() -> Self {
        Self { file_bytes_max: 100 << 20, tenant_bytes_max: 10 << 30 }
    }
}
