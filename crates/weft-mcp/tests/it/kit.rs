//! Shared helpers of the client tests.

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::Value as Json;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use weft_core::seam::ToolSource as _;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::tool_source::Offered;
use weft_core::tool::{Invocation, ToolStep, ToolStream};
use weft_core::{Error, Result, TenantId, Tool, ToolOutput, async_trait};
use weft_mcp::{Credentials, Dial, McpConfig, Reach, ServerConfig, ServerWire, Servers};
use weft_net::{OperatorHttp, StreamingHttp};
use weft_testkit::MemoryCredentials;
use weft_testkit::around::{node_context, run_context};
use weft_testkit::memory_store::MemoryStore;

use crate::fake::Fake;

/// An invocation with these arguments, and the token that cancels it.
pub(crate) fn invocation(arguments: Json) -> (Invocation, CancellationToken) {
    let (agent, _) = node_context(run_context());
    let cancel = agent.cancel.clone();
    let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
    (Invocation { id: "call_1".into(), arguments, agent: Arc::new(agent), resumed: None }, cancel)
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("t")
}

pub(crate) fn http() -> Arc<dyn StreamingHttp> {
    Arc::new(OperatorHttp::new().unwrap())
}

/// The servers of a configuration, with their own store.
pub(crate) fn servers(config: &str) -> Servers {
    servers_with(config, MemoryStore::new())
}

pub(crate) fn servers_with(config: &str, pins: MemoryStore) -> Servers {
    let config: McpConfig = toml::from_str(config).unwrap();
    let config =
        config.with_environment(|name| std::env::vars().find(|(known, _)| known == name).map(|(_, v)| v));
    let (pins, clock) = (Arc::new(pins), Arc::new(FixedClock(7)));
    Servers::open(config.unwrap(), &Reach::by(&http()), pins, clock, &credentials()).unwrap()
}

/// A credential store for these servers alone.
pub(crate) fn credentials() -> Credentials {
    Credentials { store: Arc::new(MemoryCredentials::default()), tenant: tenant() }
}

/// The settings of a server.
pub(crate) fn settings(text: &str) -> ServerConfig {
    toml::from_str(text).unwrap()
}

/// Connects to a fake in the same process.
pub(crate) struct InProcess {
    fake: Arc<Fake>,
    bytes_max: usize,
    /// How many further connection attempts fail.
    pub unreachable: Mutex<usize>,
    pub attempts: Mutex<usize>,
    speaking: Mutex<(JoinSet<()>, Option<AbortHandle>)>,
}

impl InProcess {
    pub(crate) fn new(fake: &Arc<Fake>, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            fake: Arc::clone(fake),
            bytes_max,
            unreachable: Mutex::default(),
            attempts: Mutex::default(),
            speaking: Mutex::default(),
        })
    }

    /// Closes the latest connection from the server's side.
    pub(crate) async fn kill(&self) {
        let speaking = self.speaking.lock().unwrap().1.take().unwrap();
        speaking.abort();
        while !speaking.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Dial for InProcess {
    async fn dial(&self) -> Result<ServerWire> {
        *self.attempts.lock().unwrap() += 1;
        let mut unreachable = self.unreachable.lock().unwrap();
        if *unreachable > 0 {
            *unreachable -= 1;
            return Err(Error::new(weft_core::ErrorKind::Unavailable, "nobody is there"));
        }
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (source, sink) = tokio::io::split(theirs);
        let mut speaking = self.speaking.lock().unwrap();
        let (tasks, latest) = &mut *speaking;
        *latest = Some(tasks.spawn(Arc::clone(&self.fake).speak(source, sink)));
        let (source, sink) = tokio::io::split(ours);
        Ok(ServerWire::lines(Box::new(source), Box::new(sink), self.bytes_max))
    }
}

/// Servers with one fake in the same process, called `fake`.
pub(crate) struct Bench {
    pub fake: Arc<Fake>,
    pub dial: Arc<InProcess>,
    pub servers: Servers,
    pub pins: MemoryStore,
}

impl Bench {
    pub(crate) async fn new(tools: &[&str], config: &str) -> Self {
        let pins = MemoryStore::new();
        Self::with(Fake::new(tools), config, pins).await
    }

    pub(crate) async fn with(fake: Arc<Fake>, config: &str, pins: MemoryStore) -> Self {
        let config = settings(&format!("url = 'http://unused'\n{config}"));
        let dial = InProcess::new(&fake, config.result_bytes_max);
        let servers = servers_with("", pins.clone());
        servers.add("fake", config, Arc::clone(&dial) as Arc<dyn Dial>).await;
        Self { fake, dial, servers, pins }
    }

    pub(crate) async fn offered(&self) -> Result<Offered> {
        self.servers.tools(&tenant(), "fake").await
    }

    pub(crate) async fn tool(&self, name: &str) -> Arc<Tool> {
        tool_of(&self.servers, "fake", name).await
    }

    pub(crate) async fn call(&self, name: &str) -> Result<ToolOutput> {
        let tool = self.tool(name).await;
        call(&tool, serde_json::json!({"q": "x"})).await
    }
}

pub(crate) async fn tool_of(servers: &Servers, server: &str, name: &str) -> Arc<Tool> {
    let offered = servers.tools(&tenant(), server).await.map_err(|error| error.full()).unwrap();
    let names: Vec<_> = offered.tools.iter().map(|tool| tool.name.clone()).collect();
    let found = offered.tools.into_iter().find(|tool| tool.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {names:?}, refused: {:?}", offered.refused))
}

/// Names of the offered tools.
pub(crate) fn names(offered: &Offered) -> Vec<&str> {
    offered.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Calls a tool and returns its final result.
pub(crate) async fn call(tool: &Tool, arguments: Json) -> Result<ToolOutput> {
    end(tool.body.call(invocation(arguments).0)).await
}

pub(crate) async fn end(mut steps: ToolStream) -> Result<ToolOutput> {
    loop {
        match steps.next().await.expect("a call has a result")? {
            ToolStep::Progress(_) => {}
            ToolStep::Done(output) => {
                assert!(steps.next().await.is_none(), "nothing follows the result");
                return Ok(output);
            }
            ToolStep::Suspended(_) => panic!("the call was suspended"),
        }
    }
}
