//! Files of conversations.

use serde::Deserialize;

/// Files of conversations: what people attach, and what runs make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttachmentsConfig {
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Bytes of all files of a tenant.
    pub tenant_bytes_max: u64,
}

impl Default for AttachmentsConfig {
    fn default() -> Self {
        Self { file_bytes_max: 100 << 20, tenant_bytes_max: 10 << 30 }
    }
}
