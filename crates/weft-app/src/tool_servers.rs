//! MCP servers that tenants have written down for themselves, beside those of the operator: canvases name either by its id.
//!
//! They are addresses and never programs, and are reached by the way out that checks every address.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_core::seam::tool_credentials::CredentialKey;
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::seam::tool_source::{Offered, PinStore, ToolPin};
use weft_core::seam::{Clock, ToolCredentials, ToolServerStore, ToolSource};
use weft_core::{Error, ErrorKind, Json, Result, Secret, TenantId, ToolOutput};
use weft_mcp::{CredentialPlace, Credentials, PinMode, Reach, ServerConfig, Servers, TransportKind};
use weft_net::StreamingHttp;

use crate::app::DEFAULT_TENANT;

pub use weft_mcp::{SignInCallback, SignInPage, SignInRequest};

/// Servers that are connected at the same time, at most; then the one that was asked longest ago is let go.
const LIVE_MAX: usize = 500;
/// Seconds that a request to a server may take, at most.
pub const SECONDS_MAX: u64 = 60;
/// Seconds when nobody says.
pub const SECONDS: u64 = 10;
/// Bytes of what a server is sent, at most.
const SEALED_BYTES_MAX: usize = 64 << 10;
/// What is spoken at an address, in the words of clients.
pub const TRANSPORTS: [(&str, TransportKind); 2] =
    [("sse", TransportKind::Sse), ("streamable-http", TransportKind::StreamableHttp)];

/// What a server is sent with every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SentAlong {
    /// Headers; `${name}` stands for a variable.
    pub headers: BTreeMap<String, String>,
    /// What headers may refer to.
    pub variables: BTreeMap<String, String>,
}

impl SentAlong {
    /// What was sealed.
    ///
    /// # Errors
    /// `Garbled` when it is not what this program wrote.
    pub fn of(server: &StoredToolServer) -> Result<Self> {
        let damaged = |_| {
            let message = format!("what is stored of the MCP server `{}` is damaged", server.name);
            Error::new(ErrorKind::Garbled, message).help("write its headers and variables down again")
        };
        serde_json::from_str(server.sealed.reveal()).map_err(damaged)
    }

    /// As it is kept.
    ///
    /// # Errors
    /// `Invalid` when it is too large.
    pub fn sealed(&self) -> Result<Secret> {
        let text = serde_json::to_string(self)
            .map_err(|cause| Error::internal("cannot write what a server is sent").because(cause))?;
        if text.len() > SEALED_BYTES_MAX {
            let message = format!("headers and variables have more than {SEALED_BYTES_MAX} bytes");
            return Err(Error::invalid(message));
        }
        Ok(Secret::new(text))
    }
}

/// Accepts nothing and knows nothing: what a tenant's own server offers is the tenant's own to judge.
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

/// Where the servers of tenants are kept.
#[derive(Clone)]
pub struct TenantServerStores {
    /// The servers.
    pub servers: Arc<dyn ToolServerStore>,
    /// What people have allowed when they signed in at one.
    pub credentials: Arc<dyn ToolCredentials>,
}

/// The servers of tenants, and another source for all other names. Clones are the same.
#[derive(Clone)]
pub struct TenantServers {
    others: Arc<dyn ToolSource>,
    /// What `others` knows.
    operators: Arc<[String]>,
    store: Arc<dyn ToolServerStore>,
    /// What people have allowed at sign-ins.
    credentials: Arc<dyn ToolCredentials>,
    http: Arc<dyn StreamingHttp>,
    live: Servers,
    /// As of when each is connected, and when it was asked last.
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
    /// The servers of `stores`, reached by way of `http`; `others` has all other names.
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

    /// The same where `others` knows these names.
    #[must_use]
    pub fn beside(self, names: Vec<String>) -> Self {
        Self { operators: names.into(), ..self }
    }

    /// The names that canvases of a tenant may use.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn names(&self, tenant: &TenantId) -> Result<Vec<String>> {
        let own = self.store.list(tenant).await?;
        Ok(self.operators.iter().cloned().chain(own.into_iter().map(|server| server.id)).collect())
    }

    /// Where they are kept.
    pub fn store(&self) -> &dyn ToolServerStore {
        &*self.store
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.live.close().await;
    }

    fn known(&self) -> MutexGuard<'_, KnownServers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of a server that need not be stored, asked anew: `name`, `description`, `inputSchema`.
    ///
    /// # Errors
    /// `Invalid` for one that cannot be; `Denied` for an address that may not be reached; what keeps it from answering.
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

    /// Whether an error of a server means that somebody has to sign in at it.
    pub fn wants_sign_in(server: &StoredToolServer, error: &Error) -> bool {
        let says_who =
            |sent: SentAlong| sent.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        error.kind == ErrorKind::Unauthenticated && !SentAlong::of(server).is_ok_and(says_who)
    }

    /// Begins a sign-in at a server: says which page a person has to see.
    ///
    /// # Errors
    /// `Invalid` for a server at which nobody signs in or that takes no client such as this program; what keeps its
    /// authorization server from being asked.
    pub async fn begin_sign_in(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        request: &SignInRequest,
    ) -> Result<SignInPage> {
        self.connected(tenant, server).await?;
        let begun = self.live.begin_sign_in(&server.id, request).await;
        begun.map_err(|error| named(error, &server.id, &server.name))
    }

    /// Ends a sign-in at a server.
    ///
    /// # Errors
    /// `Invalid` for a sign-in that has not begun, or too long ago; `Denied` when another authorization server answers than
    /// was asked; what keeps it from giving tokens.
    pub async fn finish_sign_in(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
        callback: &SignInCallback,
    ) -> Result<()> {
        self.connected(tenant, server).await?;
        let finished = self.live.finish_sign_in(&server.id, callback).await;
        finished.map_err(|error| named(error, &server.id, &server.name))
    }

    /// Forgets what was allowed at a sign-in; whether there was anything.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn sign_out(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        let was = self.credentials.remove(&credential_key(tenant, id)).await?;
        self.forget(id).await;
        Ok(was)
    }

    /// Removes a server with what was allowed at its sign-in.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant; when the store cannot be written.
    pub async fn remove(&self, tenant: &TenantId, id: &str) -> Result<()> {
        self.store.remove(tenant, id).await?;
        self.sign_out(tenant, id).await.map(drop)
    }

    /// Where what people allow at a server is kept.
    fn place(&self, tenant: &TenantId, server: &StoredToolServer) -> CredentialPlace {
        CredentialPlace {
            store: Arc::clone(&self.credentials),
            key: credential_key(tenant, &server.id),
            remedy: format!("sign in: `POST /api/v1/mcp/servers/{}/authorization` says where", server.id),
        }
    }

    /// Adds a server under a name of its own, for one request.
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

    /// Forgets the connection of a server that has changed or is gone.
    pub async fn forget(&self, id: &str) {
        self.known().as_of.remove(id);
        self.live.remove(id).await;
    }

    async fn connected(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<()> {
        let (fresh, let_go) = {
            let mut known = self.known();
            known.asked += 1;
            let now = known.asked;
            let before = known.as_of.insert(server.id.clone(), (server.updated_ms, now));
            let oldest = known.as_of.iter().min_by_key(|(_, (_, asked))| *asked).map(|(id, _)| id.clone());
            let let_go = oldest.filter(|_| known.as_of.len() > LIVE_MAX);
            if let Some(id) = &let_go {
                known.as_of.remove(id);
            }
            // Somebody else may be about to add it.
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
            // Taken back, so that the next call tries again.
            self.known().as_of.remove(&server.id);
        }
        reached
    }
}

/// A call of a tool outside of any agent.
#[derive(Clone, Copy, Debug)]
pub struct ToolTrial<'a> {
    /// Which tool.
    pub tool: &'a str,
    /// What it is called with.
    pub arguments: &'a Map<String, Json>,
    /// How long it may take.
    pub seconds: u64,
}

fn credential_key(tenant: &TenantId, id: &str) -> CredentialKey {
    CredentialKey { tenant: tenant.clone(), server: id.to_owned() }
}

/// A server under a name of its own. Its connection ends with this, also when whoever asked is gone by then.
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
        // The operator's come first: no tenant takes the place of one of them by its name.
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
        let mut offered = offered.map_err(|error| match error.kind {
            // It was let go in between, for others that were asked since. The error of that names servers of all tenants.
            ErrorKind::NotFound if !self.live.has(&server.id) => Error::new(
                ErrorKind::Unavailable,
                format!("too many MCP servers are in use beside `{}`", server.name),
            ),
            _ => error,
        })?;
        offered.tools.retain(|tool| is_enabled(&server, &tool.name));
        Ok(offered)
    }
}

/// Whether people have left a tool on.
fn is_enabled(server: &StoredToolServer, tool: &str) -> bool {
    server.tools.get(tool).and_then(|said| said.get("enabled")).and_then(Json::as_bool) != Some(false)
}

/// An error with the name of the server in the place of the id that it had for one request.
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
