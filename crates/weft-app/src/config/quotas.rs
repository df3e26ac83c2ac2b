//! How many objects each tenant may keep.

use weft_core::quota::TenantQuotas;

use super::LimitsConfig;

impl LimitsConfig {
    /// Returns the maximum numbers of objects per tenant.
    pub(crate) fn tenant_quotas(&self) -> TenantQuotas {
        TenantQuotas {
            api_keys: self.tenant_api_keys,
            canvases: self.tenant_canvases,
            chats: self.tenant_chats,
            datasets: self.tenant_datasets,
            sessions: self.tenant_sessions,
        }
    }
}
