//! Questions to datasets outside of any run.

use weft_core::{Result, TenantId};
use weft_knowledge::ask::Direct;
use weft_knowledge::retrieve::{Retrieval, Retrieved, retrieve};

use crate::app::App;

impl App {
    /// Finds passages in a tenant's datasets. The default model helps where the search asks for one.
    ///
    /// # Errors
    /// As [`retrieve`].
    pub async fn retrieve(&self, tenant: &TenantId, asked: &Retrieval) -> Result<Retrieved> {
        let now_ms = self.clock.now_ms();
        let model = Direct { models: &*self.models, tenant, llm_id: "", now_ms };
        retrieve(&*self.knowledge, &model, tenant, asked).await
    }
}
