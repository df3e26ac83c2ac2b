//! Credentials for MCP servers, encrypted with the key of a vault.

use weft_core::seam::ToolCredentials;
use weft_core::seam::tool_credentials::{CredentialKey, StoredCredentials};
use weft_core::{Result, Secret, async_trait};

use super::{AbsentKey, Sealed, Vault, bound_to, sealed};
use crate::ids::text;
use crate::rows::tool_credential::Model;

/// The name that credentials are bound to: neither that of a secret nor that of the server itself.
fn of_credentials(server: &str) -> String {
    format!("credentials of the MCP server {server}")
}

/// The credentials for MCP servers, encrypted with the key of a vault.
#[derive(Debug)]
pub struct SealedCredentials(pub Vault);

#[async_trait]
impl ToolCredentials for SealedCredentials {
    async fn get(&self, key: &CredentialKey) -> Result<Option<StoredCredentials>> {
        let Some(row) = self.0.store.tool_credential(key).await? else { return Ok(None) };
        let place = bound_to(&row.tenant_id, &of_credentials(&row.server_id));
        let sealed = Sealed {
            what: format!("the credentials of the MCP server `{}`", row.server_id),
            remedy: "sign in at the server again".to_owned(),
            place: &place,
            key_name: &row.key_name,
            bytes: &row.sealed,
        };
        let sealed = self.0.unsealed(self.0.key(AbsentKey::Refuse).await?, &sealed)?;
        Ok(Some(StoredCredentials { sealed, revision: row.revision }))
    }

    async fn put(&self, key: &CredentialKey, value: &Secret, revision: i64) -> Result<bool> {
        let vault_key = self.0.key(AbsentKey::Make).await?;
        let (tenant, server) = (text(key.tenant.as_str()), text(&key.server));
        let row = Model {
            sealed: sealed(vault_key, &tenant, &of_credentials(&server), value)?,
            tenant_id: tenant,
            server_id: server,
            key_name: vault_key.name(),
            revision,
        };
        self.0.store.put_tool_credential(row).await
    }

    async fn remove(&self, key: &CredentialKey) -> Result<bool> {
        self.0.store.remove_tool_credential(key).await
    }
}
