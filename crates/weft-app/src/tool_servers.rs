//! MCP servers that tenants have registered, in addition to those of the operator: canvases refer to either by id.
//!
//! They are URLs and never programs, and are reached through the client that checks every address.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_core::seam::tool_credentials::CredentialKey;
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::seam::tool_source::{Offered, PinStore, ToolPin};
use weft_core::seam::{Clock, ToolCredentials, ToolServerStore, ToolSource};
use weft_core::{Error, ErrorKind, Json, Result, Secret, TenantId, ToolOutput, async_trait};
use weft_mcp::{CredentialPlace, Credentials, PinMode, Reach, ServerConfig, Servers, TransportKind};
use weft_net::StreamingHttp;

use crate::default_tenant::DEFAULT_TENANT;

pub use weft_mcp::{SignInCallback, SignInPage, SignInRequest};

/// Maximum number of connected servers; beyond it the least recently used one is disconnected.
const LIVE_MAX: usize = 500;
/// Maximum time limit of a request to a server, in seconds.
pub const SECONDS_MAX: u64 = 60;
/// Default time limit, in seconds.
pub const SECONDS: u64 = 10;
/// Maximum size of the data that is sent with every request to a server, in bytes.
const SEALED_BYTES_MAX: usize = 64 << 10;
/// Transports, by the names that clients use.
pub const TRANSPORTS: [(&str, TransportKind); 2] =
    [("sse", TransportKind::Sse), ("streamable-http", TransportKind::StreamableHttp)];

/// Data that is sent with every request to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SentAlong {
    /// Headers; `${name}` stands for a variable.
    pub headers: BTreeMap<String, String>,
    /// Values to which headers may refer.
    pub variables: BTreeMap<String, String>,
}

impl SentAlong {
    /// Decodes the data of a stored server.
    ///
    /// # Errors
    /// `Garbled` when it was not written by this program.
    pub fn of(server: &StoredToolServer) -> Result<Self> {
        let damaged = |_| {
            let message = format!("the stored data of the MCP server `{}` is damaged", server.name);
            Error::new(ErrorKind::Garbled, message).help("enter its headers and variables again")
        };
        serde_json::from_str(server.sealed.reveal()).map_err(damaged)
    }

    /// Returns the form that is stored.
    ///
    /// # Errors
    /// `Invalid` when it is too large.
    pub fn sealed(&self) -> Result<Secret> {
        let text = serde_json::to_string(self).map_err(|cause| {
            Error::internal("cannot encode the headers and variables of an MCP server").because(cause)
        })?;
        if text.len() > SEALED_BYTES_MAX {
            let message = format!("the headers and variables have more than {SEALED_BYTES_MAX} bytes");
            return Err(Error::invalid(message));
        }
        Ok(Secret::new(text))
    }
}

/// Pins nothing: a tenant judges the tools of its own servers itself.
struct NoPins;

#[async_trait]
impl PinStore for NoPins {
    async fn pins(&self, _: &str) -> Result<Vec<ToolPin>> {
        Ok(Vec::new())
    }

    async fn accept(&self, _: &[ToolPin]) -> Result<()> {
        Ok(())
    }
}

/// The stores that hold the MCP servers of tenants and the credentials for them.
#[derive(Clone)]
pub struct TenantServerStores {
    /// The servers.
    pub servers: Arc<dyn ToolServerStore>,
    /// Authorizations from sign-ins at servers.
    pub credentials: Arc<dyn ToolCredentials>,
}

/// The servers of tenants, with another source for all other names. Clones share the same state.
#[derive(Clone)]
pub struct TenantServers {
    others: Arc<dyn ToolSource>,
    /// The names that `others` knows.
    operators: Arc<[String]>,
    store: Arc<dyn ToolServerStore>,
    /// Authorizations from sign-ins.
    credentials: Arc<dyn ToolCredentials>,
    http: Arc<dyn StreamingHttp>,
    live: Servers,
    /// The version at which each server was connected, and its last use.
    known: Arc<Mutex<KnownServers>>,
}

#[derive(Default)]
struct KnownServers {
    as_of: HashMap<String, (i64, u64)>,
    asked: u64,
}

impl std::fmt::Debug for TenantServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantServers").field("live", &self.live).finish_non_exhaustive()
    }
}

impl TenantServers {
    /// Creates a source for the servers of `stores`, reached through `http`; `others` has all other names.
    ///
    /// # Errors
    /// None is expected: there is no configuration that could be wrong.
    pub fn new(
        others: Arc<dyn ToolSource>,
        stores: TenantServerStores,
        http: Arc<dyn StreamingHttp>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let TenantServerStores { servers: store, credentials } = stores;
        let none = Credentials {
            store: Arc::clone(&credentials),
            // There are no servers of the operator among these.
            tenant: TenantId::new(DEFAULT_TENANT),
        };
        let (config, pins) = (weft_mcp::McpConfig::default(), Arc::new(NoPins));
        let live = Servers::open(config, &Reach::by(&http), pins, clock, &none)?;
        Ok(Self { others, operators: Arc::default(), store, credentials, http, live, known: Arc::default() })
    }

    /// Sets the names that `others` knows.
    #[must_use]
    pub fn beside(self, names: Vec<String>) -> Self {
        Self { operators: names.into(), ..self }
    }

    /// Returns the names that canvases of a tenant may use.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn names(&self, tenant: &TenantId) -> Result<Vec<String>> {
        let own = self.store.list(tenant).await?;
        Ok(self.operators.iter().cloned().chain(own.into_iter().map(|server| server.id)).collect())
    }

    /// Returns the store of the servers.
    pub fn store(&self) -> &dyn ToolServerStore {
        &*self.store
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.live.close().await;
    }

    fn known(&self) -> MutexGuard<'_, KnownServers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the tools of a server, which need not be stored, over a new connection: `name`, `description`,
    /// `inputSchema`.
    ///
    /// # Errors
    /// `Invalid` for a server that is not valid; `Denied` for an address that may not be reached; otherwise the
    /// failure of the server.
    pub async fn listed(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        seconds: u64,
    ) -> Result<Vec<Json>> {
        let once = self.for_once(tenant, server, seconds).await?;
        let listed = self.live.listed(&once.id).await;
        listed.map_err(|error| named(error, &once.id, &server.name))
    }

    /// Calls a tool of a server.
    ///
    /// # Errors
    /// As [`TenantServers::listed`].
    pub async fn call(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        call: ToolTrial<'_>,
    ) -> Result<ToolOutput> {
        let once = self.for_once(tenant, server, call.seconds).await?;
        let called = self.live.call(&once.id, call.tool, call.arguments).await;
        called.map_err(|error| named(error, &once.id, &server.name))
    }

    /// Returns whether an error of a server means that a sign-in is required.
    pub fn wants_sign_in(server: &StoredToolServer, error: &Error) -> bool {
        let says_who =
            |sent: SentAlong| sent.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        error.kind == ErrorKind::Unauthenticated && !SentAlong::of(server).is_ok_and(says_who)
    }

    /// Starts a sign-in at a server, and returns the page for the person.
    ///
    /// # Errors
    /// `Invalid` for a server without sign-in or that does not accept clients such as this program; otherwise the
    /// failure of its authorization server.
    pub async fn begin_sign_in(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        request: &SignInRequest,
    ) -> Result<SignInPage> {
        self.connected(tenant, server).await?;
        let begun = self.live.begin_sign_in(&server.id, request).await;
        begun.map_err(|error| named(self.without_others(error, server), &server.id, &server.name))
    }

    /// Completes a sign-in at a server.
    ///
    /// # Errors
    /// `Invalid` for a sign-in that was not started or has expired; `Denied` when a different authorization server
    /// answers; otherwise the failure of the authorization server.
    pub async fn finish_sign_in(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        callback: &SignInCallback,
    ) -> Result<()> {
        self.connected(tenant, server).await?;
        let finished = self.live.finish_sign_in(&server.id, callback).await;
        finished.map_err(|error| named(self.without_others(error, server), &server.id, &server.name))
    }

    /// Removes the authorization from a sign-in. Returns whether there was one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn sign_out(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        let was = self.credentials.remove(&credential_key(tenant, id)).await?;
        // An open connection would go on with the token that it has.
        self.forget(id).await;
        Ok(was)
    }

    /// Removes a server and the authorization from its sign-in.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant; when the store cannot be written.
    pub async fn remove(&self, tenant: &TenantId, id: &str) -> Result<()> {
        // First, because the store refuses servers of other tenants, whose connections must stay.
        self.store.remove(tenant, id).await?;
        self.sign_out(tenant, id).await.map(drop)
    }

    /// Returns where the authorization for a server is stored.
    fn place(&self, tenant: &TenantId, server: &StoredToolServer) -> CredentialPlace {
        CredentialPlace {
            store: Arc::clone(&self.credentials),
            key: credential_key(tenant, &server.id),
            remedy: format!(
                "sign in: `POST /api/v1/mcp/servers/{}/authorization` returns the address",
                server.id
            ),
        }
    }

    /// Adds a server under a unique name, for one request.
    async fn for_once(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        seconds: u64,
    ) -> Result<ServerForOnce<'_>> {
        let seconds = seconds.clamp(1, SECONDS_MAX);
        let mut config = config(server)?;
        (config.connect_seconds, config.list_seconds, config.call_seconds) = (seconds, seconds, seconds);
        let once = ServerForOnce { live: &self.live, id: weft_core::id::generate() };
        self.live.reach(&once.id, config, &self.http, self.place(tenant, server)).await?;
        Ok(once)
    }

    /// Closes the connection of a server that was changed or removed.
    pub async fn forget(&self, id: &str) {
        self.known().as_of.remove(id);
        self.live.remove(id).await;
    }

    /// Replaces the error for a server that was disconnected in favour of servers that were used since: the original
    /// error would name servers of other tenants.
    fn without_others(&self, error: Error, server: &StoredToolServer) -> Error {
        if error.kind != ErrorKind::NotFound || self.live.has(&server.id) {
            return error;
        }
        let message = format!("too many MCP servers are in use besides `{}`", server.name);
        Error::new(ErrorKind::Unavailable, message).help("try again later")
    }

    async fn connected(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<()> {
        let (fresh, let_go) = {
            let mut known = self.known();
            // A counter and no clock: only the order of the uses matters.
            known.asked += 1;
            let now = known.asked;
            let before = known.as_of.insert(server.id.clone(), (server.updated_ms, now));
            let oldest = known.as_of.iter().min_by_key(|(_, (_, asked))| *asked).map(|(id, _)| id.clone());
            let let_go = oldest.filter(|_| known.as_of.len() > LIVE_MAX);
            if let Some(id) = &let_go {
                known.as_of.remove(id);
            }
            // A concurrent call may be about to add it.
            let there = self.live.has(&server.id);
            (there && before.is_some_and(|(as_of, _)| as_of == server.updated_ms), let_go)
        };
        if let Some(id) = let_go {
            self.live.let_go(&id);
        }
        if fresh {
            return Ok(());
        }
        let reached =
            self.live.reach(&server.id, config(server)?, &self.http, self.place(tenant, server)).await;
        if reached.is_err() {
            // Reverted, so that the next call tries again.
            self.known().as_of.remove(&server.id);
        }
        reached
    }
}

/// A single tool call outside of any agent.
#[derive(Clone, Copy, Debug)]
pub struct ToolTrial<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Json>,
    /// Time limit, in seconds.
    pub seconds: u64,
}

fn credential_key(tenant: &TenantId, id: &str) -> CredentialKey {
    CredentialKey { tenant: tenant.clone(), server: id.to_owned() }
}

/// A server under a unique name. Dropping this closes its connection, even if the request was abandoned.
struct ServerForOnce<'a> {
    live: &'a Servers,
    id: String,
}

impl Drop for ServerForOnce<'_> {
    fn drop(&mut self) {
        self.live.let_go(&self.id);
    }
}

#[async_trait]
impl ToolSource for TenantServers {
    async fn tools(&self, tenant: &TenantId, id: &str) -> Result<Offered> {
        // The operator's servers come first: no tenant can replace one of them by using its name.
        let unknown = match self.others.tools(tenant, id).await {
            Err(error) if error.kind == ErrorKind::NotFound => error,
            outcome => return outcome,
        };
        let server = match self.store.get(tenant, id).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Err(unknown),
            found => found?,
        };
        self.connected(tenant, &server).await?;
        let offered = self.live.tools(tenant, &server.id).await;
        let mut offered = offered.map_err(|error| self.without_others(error, &server))?;
        offered.tools.retain(|tool| is_enabled(&server, &tool.name));
        Ok(offered)
    }
}

/// Returns whether the users have left a tool enabled.
fn is_enabled(server: &StoredToolServer, tool: &str) -> bool {
    server.tools.get(tool).and_then(|said| said.get("enabled")).and_then(Json::as_bool) != Some(false)
}

/// Replaces the temporary id in an error by the name of the server.
fn named(mut error: Error, id: &str, name: &str) -> Error {
    error.message = error.message.replace(id, name);
    error
}

fn config(server: &StoredToolServer) -> Result<ServerConfig> {
    let known = TRANSPORTS.iter().find(|(name, _)| *name == server.transport);
    let (_, transport) = known.ok_or_else(|| Error::invalid("Unsupported MCP server type."))?;
    let SentAlong { headers, variables } = SentAlong::of(server)?;
    let secret = |(name, value): (String, String)| (name, Secret::new(value));
    Ok(ServerConfig {
        url: Some(server.url.clone()),
        transport: Some(*transport),
        headers: headers.into_iter().map(secret).collect(),
        variables: variables.into_iter().map(secret).collect(),
        connect_seconds: SECONDS,
        pin: PinMode::Off,
        ..ServerConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, assemble_in_memory};

    #[tokio::test]
    async fn an_error_never_names_servers_of_other_tenants() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let server = |id: &str| StoredToolServer {
            id: id.to_owned(),
            name: format!("Server {id}"),
            url: "https://tools.example/mcp".to_owned(),
            transport: "streamable-http".to_owned(),
            description: String::new(),
            sealed: Secret::new("{}"),
            tools: Map::new(),
            revision: 0,
            created_ms: 0,
            updated_ms: 0,
        };
        let (own, others) = (server("own"), server("theirs"));
        let servers = &app.tool_servers;
        servers.connected(&TenantId::new("other"), &others).await.unwrap();
        // As if it was disconnected for other servers a moment ago.
        let raw = servers.live.begin_sign_in(&own.id, &SignInRequest::default()).await.unwrap_err();
        assert!(raw.full().contains("theirs"), "{}", raw.full());
        let told = servers.without_others(raw, &own);
        assert_eq!(told.kind, ErrorKind::Unavailable);
        assert!(told.full().contains("Server own") && !told.full().contains("theirs"), "{}", told.full());
        let kept = servers.without_others(Error::not_found("no such tool"), &others);
        assert_eq!(kept.kind, ErrorKind::NotFound, "the server itself is connected");
    }
}
