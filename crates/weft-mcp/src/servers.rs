//! All servers, for the engine and for operators.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Map, json};
use tokio_util::task::TaskTracker;
use weft_core::seam::tool_credentials::CredentialKey;
use weft_core::seam::tool_source::{Offered, PinStore, RefusedTool, ToolPin};
use weft_core::seam::{Clock, ToolCredentials, ToolSource};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, ToolOutput, async_trait};
use weft_net::StreamingHttp;

use crate::config::{McpConfig, PinMode, ServerConfig};
use crate::definition::{ToolDefinition, Verdict};
use crate::dial::Dial;
use crate::faults::Redactor;
use crate::reach::Reach;
use crate::server::{McpServer, ServerAccess, read_definitions};
use crate::sign_in::{CredentialPlace, SignInCallback, SignInPage, SignInRequest};
use crate::tool::{call_once, tool};

/// Time limit for closing all servers.
const CLOSE_LIMIT: Duration = Duration::from_secs(15);

/// The configured servers. Clones share the same state.
#[derive(Clone)]
pub struct Servers(Arc<ServersInner>);

struct ServersInner {
    servers: RwLock<BTreeMap<String, Arc<McpServer>>>,
    pins: Arc<dyn PinStore>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
}

/// Where the authorizations for the operator's servers are stored.
#[derive(Clone)]
pub struct Credentials {
    /// The store.
    pub store: Arc<dyn ToolCredentials>,
    /// The tenant that owns them.
    pub tenant: TenantId,
}

impl Credentials {
    fn place(&self, id: &str) -> CredentialPlace {
        CredentialPlace {
            store: Arc::clone(&self.store),
            key: CredentialKey { tenant: self.tenant.clone(), server: id.to_owned() },
            remedy: format!("sign in with `weft mcp login {id}`"),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// A tool as it is shown to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Its name on the server.
    pub name: String,
    /// The description by the server.
    pub description: String,
    /// The verdict on its definition.
    pub verdict: Verdict,
    /// Whether agents can use it.
    pub offered: bool,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Servers").field(&self.names()).finish()
    }
}

impl Servers {
    /// Opens the servers of a configuration, without connecting to any.
    ///
    /// # Errors
    /// `Invalid` naming everything in the configuration that is not valid.
    pub fn open(
        config: McpConfig,
        reach: &Reach,
        pins: Arc<dyn PinStore>,
        clock: Arc<dyn Clock>,
        credentials: &Credentials,
    ) -> Result<Self> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(Error::invalid(problems.join("; ")));
        }
        let tasks = TaskTracker::new();
        let servers = Self(Arc::new(ServersInner { servers: RwLock::default(), pins, clock, tasks }));
        for (id, server) in config.servers {
            let (server, clock) = (Arc::new(server), Arc::clone(&servers.0.clock));
            let place = credentials.place(&id);
            let way = ServerAccess::configured(&server, config.inherited.clone(), reach, place, clock);
            servers.put(&id, server, way);
        }
        Ok(servers)
    }

    /// Adds a server that is reached through `dial`, replacing one with the same id.
    pub async fn add(&self, id: &str, config: ServerConfig, dial: Arc<dyn Dial>) {
        let redactor = Redactor::new(config.secrets());
        self.replace(id, Arc::new(config), ServerAccess { dial, sign_in: None, redactor }).await;
    }

    /// Adds a server at a URL, which is reached through `http`, as is everything that it names, replacing one with
    /// the same id. Authorizations from sign-ins are stored in `place`.
    ///
    /// # Errors
    /// `Invalid` naming everything in its configuration that is not valid, or when it is a program to start.
    pub async fn reach(
        &self,
        id: &str,
        config: ServerConfig,
        http: &Arc<dyn StreamingHttp>,
        place: CredentialPlace,
    ) -> Result<()> {
        if config.command.is_some() {
            return Err(Error::invalid("an MCP server with an address has no `command`"));
        }
        let all = McpConfig { servers: BTreeMap::from([(id.to_owned(), config)]), ..McpConfig::default() };
        let problems = all.problems();
        if !problems.is_empty() {
            // Its author has no configuration file, and mostly does not know the id either.
            let prefix = format!("mcp.servers.{id}: ");
            let told: Vec<String> = problems.iter().map(|one| one.replacen(&prefix, "", 1)).collect();
            return Err(Error::invalid(told.join("; ")));
        }
        let reach = Reach::by(http);
        for (id, config) in all.servers {
            let (config, clock) = (Arc::new(config), Arc::clone(&self.0.clock));
            let way = ServerAccess::configured(&config, BTreeMap::new(), &reach, place.clone(), clock);
            self.replace(&id, config, way).await;
        }
        Ok(())
    }

    /// Returns the usable tools of a server as it lists them: `name`, `description`, `inputSchema`. This does not
    /// accept any definitions.
    ///
    /// # Errors
    /// As [`ToolSource::tools`].
    pub async fn listed(&self, id: &str) -> Result<Vec<Json>> {
        let definitions = self.server(id)?.definitions().await?;
        let usable = definitions.iter().filter(|tool| tool.flaw.is_none());
        let told = |tool: &ToolDefinition| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.schema});
        Ok(usable.map(told).collect())
    }

    /// Calls a tool of a server once, outside of any agent.
    ///
    /// # Errors
    /// As [`ToolSource::tools`]; the refusal of the server.
    pub async fn call(&self, id: &str, tool: &str, arguments: &Map<String, Json>) -> Result<ToolOutput> {
        call_once(self.server(id)?.as_ref(), tool, arguments).await
    }

    /// Starts a sign-in at a server, and returns the page for the person.
    ///
    /// # Errors
    /// `NotFound` for an unknown server, `Invalid` for one without sign-in or that does not accept clients such as
    /// this program; otherwise the failure of its authorization server.
    pub async fn begin_sign_in(&self, id: &str, request: &SignInRequest) -> Result<SignInPage> {
        let server = self.server(id)?;
        let sign_in = server.sign_in()?;
        if !sign_in.has_heard() {
            sign_in.knock().await;
        }
        let begun = sign_in.begin(request).await;
        begun.map_err(|error| server.about("cannot sign in at", error))
    }

    /// Returns the local port of the redirect URI in the latest client registration: for a different port, this
    /// program has to be registered again.
    ///
    /// # Errors
    /// `NotFound` for an unknown server, `Invalid` for one without sign-in; when the store cannot be read.
    pub async fn sign_in_port(&self, id: &str) -> Result<Option<u16>> {
        self.server(id)?.sign_in()?.port().await
    }

    /// Completes a sign-in with the parameters of the redirect. From then on requests are sent with the
    /// authorization.
    ///
    /// # Errors
    /// `NotFound` for an unknown server, `Invalid` for a sign-in that was not started or has expired; `Denied` when a
    /// different authorization server answers; otherwise the failure of the authorization server.
    pub async fn finish_sign_in(&self, id: &str, callback: &SignInCallback) -> Result<()> {
        let server = self.server(id)?;
        let finished = server.sign_in()?.finish(callback).await;
        finished.map_err(|error| server.about("cannot sign in at", error))?;
        server.begin_anew().await;
        Ok(())
    }

    /// Removes the authorization from a sign-in. Returns whether there was one.
    ///
    /// # Errors
    /// `NotFound` for an unknown server, `Invalid` for one without sign-in; when the store cannot be written.
    pub async fn sign_out(&self, id: &str) -> Result<bool> {
        let server = self.server(id)?;
        let was = server.sign_in()?.sign_out().await?;
        server.begin_anew().await;
        Ok(was)
    }

    /// Replaces a server in one step, so that it is never missing in between; the connection of the previous one is
    /// closed.
    async fn replace(&self, id: &str, config: Arc<ServerConfig>, way: ServerAccess) {
        if let Some(before) = self.put(id, config, way) {
            before.close().await;
        }
    }

    /// Replaces a server and returns the previous one, whose connection stays open.
    // The lock is held no longer than that: a process takes seconds to end.
    fn put(&self, id: &str, config: Arc<ServerConfig>, way: ServerAccess) -> Option<Arc<McpServer>> {
        let server = McpServer::new(id, config, way, self.0.tasks.clone());
        self.write().insert(id.to_owned(), Arc::new(server))
    }

    /// Removes a server: its connection is closed, and its tools can no longer be called. Returns whether there was
    /// one.
    pub async fn remove(&self, id: &str) -> bool {
        // In a separate statement: the lock must not be held while a process ends, which may take seconds.
        let removed = self.write().remove(id);
        match removed {
            Some(server) => {
                server.close().await;
                true
            }
            None => false,
        }
    }

    /// The same without waiting until the connection is closed, for callers that cannot wait.
    pub fn let_go(&self, id: &str) {
        let removed = self.write().remove(id);
        if let Some(server) = removed {
            self.0.tasks.spawn(async move { server.close().await });
        }
    }

    /// Returns whether there is a server with this id.
    pub fn has(&self, id: &str) -> bool {
        self.read().contains_key(id)
    }

    /// Returns the ids of all servers.
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// Closes all connections, and refuses all further requests. Waits until the processes of servers have ended, up
    /// to a time limit.
    pub async fn close(&self) {
        // Copied, because the lock must not be held across the following awaits.
        let servers: Vec<_> = self.read().values().cloned().collect();
        let closing = async {
            futures::future::join_all(servers.iter().map(|server| server.close())).await;
            // After the servers, because their end starts tasks with the last messages to them.
            self.0.tasks.close();
            self.0.tasks.wait().await;
        };
        if tokio::time::timeout(CLOSE_LIMIT, closing).await.is_err() {
            tracing::warn!("some MCP servers did not stop in time");
        }
    }

    /// Returns the tools of a server, with a verdict on each. This does not accept any definitions.
    ///
    /// # Errors
    /// As [`ToolSource::tools`].
    pub async fn survey(&self, id: &str) -> Result<Vec<Surveyed>> {
        let server = self.server(id)?;
        let judged = self.judged(&server).await?;
        let surveyed = judged.into_iter().map(|(definition, verdict)| Surveyed {
            name: definition.name,
            description: definition.description,
            offered: verdict == Verdict::Accepted || is_first_use(&server, &verdict),
            verdict,
        });
        Ok(surveyed.collect())
    }

    /// Accepts the current definitions of these tools, by their names on the server; without names, of all that can
    /// be accepted. Returns the accepted ones.
    ///
    /// # Errors
    /// `NotFound` for a tool that the server does not list, `Invalid` for one that cannot be used, and as
    /// [`ToolSource::tools`]; in these cases nothing is accepted.
    pub async fn accept(&self, id: &str, tools: &[String]) -> Result<Vec<String>> {
        let judged = self.judged(self.server(id)?.as_ref()).await?;
        for wanted in tools {
            match judged.iter().find(|(definition, _)| definition.name == *wanted) {
                None => {
                    let known: Vec<_> = judged.iter().map(|(known, _)| known.name.as_str()).collect();
                    return Err(Error::not_found(format!("the MCP server `{id}` has no tool `{wanted}`"))
                        .help(format!("it has {}", known.join(", "))));
                }
                Some((_, Verdict::Flawed(flaw))) => {
                    return Err(Error::invalid(format!("`{wanted}` of `{id}` cannot be used: {flaw}")));
                }
                Some((_, Verdict::Accepted | Verdict::New | Verdict::Changed(_) | Verdict::Disabled)) => {}
            }
        }
        let chosen = judged.iter().filter(|(definition, verdict)| match tools {
            [] => matches!(verdict, Verdict::New | Verdict::Changed(_)),
            tools => tools.contains(&definition.name),
        });
        let pins: Vec<_> = chosen.map(|(definition, _)| self.pin(id, definition)).collect();
        self.0.pins.accept(&pins).await?;
        Ok(pins.into_iter().map(|pin| pin.tool).collect())
    }

    /// Returns all tools of a server with their verdicts.
    async fn judged(&self, server: &McpServer) -> Result<Vec<(ToolDefinition, Verdict)>> {
        let definitions = server.definitions().await?;
        judge(server, &definitions, &self.pins(server).await?)
    }

    /// Returns the accepted definitions of a server.
    async fn pins(&self, server: &McpServer) -> Result<Vec<ToolPin>> {
        match server.config.pin {
            PinMode::Off => Ok(Vec::new()),
            PinMode::FirstUse | PinMode::Strict => self.0.pins.pins(&server.id).await,
        }
    }

    /// Returns the accepted tools of a server that is unavailable; fails with `failure` if there are none.
    async fn offered_earlier(&self, server: &Arc<McpServer>, failure: Error) -> Result<Offered> {
        // No definitions are stored, so there is no substitute.
        if server.config.pin == PinMode::Off {
            return Err(failure);
        }
        let pins = self.0.pins.pins(&server.id).await?;
        let accepted: Vec<_> = pins.into_iter().map(|pin| pin.definition).collect();
        let accepted = read_definitions(accepted).await?;
        let usable =
            accepted.iter().filter(|tool| tool.flaw.is_none() && server.config.is_enabled(&tool.name));
        let tools: Vec<_> = usable.map(|definition| Arc::new(tool(server, definition))).collect();
        if tools.is_empty() {
            return Err(failure);
        }
        Ok(Offered { tools, refused: Vec::new(), down: Some(failure.full()) })
    }

    fn pin(&self, server: &str, definition: &ToolDefinition) -> ToolPin {
        ToolPin {
            server: server.to_owned(),
            tool: definition.name.clone(),
            definition: definition.pinned(),
            accepted_ms: self.0.clock.now_ms(),
        }
    }

    fn server(&self, id: &str) -> Result<Arc<McpServer>> {
        let servers = self.read();
        servers.get(id).cloned().ok_or_else(|| {
            let known: Vec<_> = servers.keys().map(String::as_str).collect();
            let help = match known.as_slice() {
                [] => "configure it below `mcp.servers`".to_owned(),
                known => format!("configure it below `mcp.servers`; known servers are {}", known.join(", ")),
            };
            Error::not_found(format!("there is no MCP server `{id}`")).help(help)
        })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Arc<McpServer>>> {
        self.0.servers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Arc<McpServer>>> {
        self.0.servers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ToolSource for Servers {
    async fn tools(&self, _tenant: &TenantId, id: &str) -> Result<Offered> {
        let server = self.server(id)?;
        let definitions = match server.definitions().await {
            Ok(definitions) => definitions,
            Err(error) => return self.offered_earlier(&server, error).await,
        };
        let accepted = self.pins(&server).await?;
        let judged = judge(&server, &definitions, &accepted)?;
        let new = judged.iter().filter(|(definition, verdict)| {
            is_first_use(&server, verdict)
                || (*verdict == Verdict::Accepted && definition.completes(&accepted))
        });
        let pins: Vec<_> = new.map(|(definition, _)| self.pin(id, definition)).collect();
        // Stored before the tools are offered: a tool that is called must be held to its definition.
        if !pins.is_empty() {
            self.0.pins.accept(&pins).await?;
        }
        let mut offered = Offered::default();
        for (definition, verdict) in judged {
            let accept = format!(
                "review it with `weft mcp list {id}` and accept it with `weft mcp accept {id} {}`",
                definition.name
            );
            let reason = match verdict {
                // Configured by the operator, so this is not reported.
                Verdict::Disabled => continue,
                verdict if verdict == Verdict::Accepted || is_first_use(&server, &verdict) => {
                    offered.tools.push(Arc::new(tool(&server, &definition)));
                    continue;
                }
                Verdict::Changed(change) => format!("{change}; {accept}"),
                Verdict::Flawed(flaw) => flaw,
                Verdict::New | Verdict::Accepted => format!("nobody has accepted it yet; {accept}"),
            };
            tracing::debug!(server = id, tool = %definition.name, %reason, "a tool is not offered");
            offered.refused.push(RefusedTool { name: definition.name, reason });
        }
        Ok(offered)
    }
}

fn judge(
    server: &McpServer,
    definitions: &[ToolDefinition],
    pins: &[ToolPin],
) -> Result<Vec<(ToolDefinition, Verdict)>> {
    unknown_names(server, definitions)?;
    let judged = definitions.iter().map(|definition| {
        let verdict = if server.config.is_enabled(&definition.name) {
            definition.verdict(server.config.pin, pins)
        } else {
            Verdict::Disabled
        };
        (definition.clone(), verdict)
    });
    Ok(judged.collect())
}

/// Returns whether a definition is accepted on first use.
fn is_first_use(server: &McpServer, verdict: &Verdict) -> bool {
    *verdict == Verdict::New && server.config.pin == PinMode::FirstUse
}

/// Checks that all tools named in the settings exist on the server.
fn unknown_names(server: &McpServer, definitions: &[ToolDefinition]) -> Result<()> {
    let is_known = |tool: &str| definitions.iter().any(|definition| definition.name == tool);
    let unknown: Vec<_> = server
        .config
        .named_tools()
        .filter(|(_, tool)| !is_known(tool))
        .map(|(setting, tool)| format!("`{tool}` in `{setting}`"))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    // An error for the whole server: otherwise a tool that is misspelled in `disable`, or whose arguments were to be
    // preset, would be offered.
    let known: Vec<_> = definitions.iter().map(|definition| definition.name.as_str()).collect();
    let message = format!("the MCP server `{}` has no such tools: {}", server.id, unknown.join(", "));
    Err(Error::new(ErrorKind::Invalid, message).help(format!("it has {}", known.join(", "))))
}
