//! In-memory MCP servers of tenants.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_core::seam::ToolServerStore;
use weft_core::seam::tool_server_store::{SERVERS_MAX, StoredToolServer, missing};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

/// Servers that live as long as this value.
#[derive(Debug, Default)]
pub struct MemoryToolServers(Mutex<Vec<(TenantId, StoredToolServer)>>);

impl MemoryToolServers {
    fn kept(&self) -> MutexGuard<'_, Vec<(TenantId, StoredToolServer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taken(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the {what} is taken"))
}

fn check_name(
    kept: &[(TenantId, StoredToolServer)],
    tenant: &TenantId,
    server: &StoredToolServer,
) -> Result<()> {
    let name = server.name.to_lowercase();
    let same = |other: &StoredToolServer| other.id != server.id && other.name.to_lowercase() == name;
    if kept.iter().any(|(of, other)| of == tenant && same(other)) { Err(taken("name")) } else { Ok(()) }
}

#[async_trait]
impl ToolServerStore for MemoryToolServers {
    async fn add(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<()> {
        server.check_size()?;
        let mut kept = self.kept();
        if kept.iter().any(|(_, other)| other.id == server.id) {
            return Err(taken("id"));
        }
        check_name(&kept, tenant, server)?;
        if kept.iter().filter(|(of, _)| of == tenant).count() as u64 >= SERVERS_MAX {
            return Err(Error::new(ErrorKind::QuotaExceeded, "there are too many MCP servers"));
        }
        kept.push((tenant.clone(), server.clone()));
        Ok(())
    }

    async fn change(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<bool> {
        server.check_size()?;
        let mut kept = self.kept();
        let same = |(of, other): &(TenantId, StoredToolServer)| {
            of == tenant && other.id == server.id && other.revision == server.revision
        };
        let Some(place) = kept.iter().position(same) else { return Ok(false) };
        check_name(&kept, tenant, server)?;
        kept[place].1 = StoredToolServer { revision: server.revision + 1, ..server.clone() };
        Ok(true)
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<StoredToolServer>> {
        let mut ours: Vec<StoredToolServer> =
            self.kept().iter().filter(|(of, _)| of == tenant).map(|(_, server)| server.clone()).collect();
        ours.sort_by_key(|server| server.name.to_lowercase());
        Ok(ours)
    }

    async fn get(&self, tenant: &TenantId, id: &str) -> Result<StoredToolServer> {
        let found = {
            let kept = self.kept();
            let found = kept.iter().find(|(of, server)| of == tenant && server.id == id);
            found.map(|(_, server)| server.clone())
        };
        // Like a store on disk: other tasks run before the result arrives.
        tokio::task::yield_now().await;
        found.ok_or_else(|| missing(id))
    }

    async fn remove(&self, tenant: &TenantId, id: &str) -> Result<()> {
        let mut kept = self.kept();
        let before = kept.len();
        kept.retain(|(of, server)| of != tenant || server.id != id);
        if kept.len() < before { Ok(()) } else { Err(missing(id)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn servers_in_memory_keep_the_contract() {
        crate::contracts::tool_servers::tool_servers_keep_their_contract(&MemoryToolServers::default()).await;
    }
}
