//! State shared by all handlers.

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weft_core::Result;
use weft_core::webhook::Network;

use crate::metrics::HttpMetrics;
use crate::routes::health::Readiness;
use crate::upload_memory::UploadMemory;
use crate::webhook::CallRates;
use weft_app::app::App;
use weft_app::config::Auth;
use weft_app::turns::{MultitaskStrategy, Waiting};

/// State shared by all handlers, behind one pointer: every route holds a clone, so does each of its layers, and each
/// request makes more of them.
#[derive(Clone, Debug)]
pub struct ServerState(Arc<HandlerState>);

impl Deref for ServerState {
    type Target = HandlerState;

    fn deref(&self) -> &HandlerState {
        &self.0
    }
}

/// The fields of a [`ServerState`].
#[derive(Debug)]
pub struct HandlerState {
    /// The application.
    pub app: App,
    /// Whether callers need a token.
    pub auth: Auth,
    /// Fires when the server is to stop.
    pub stopping: CancellationToken,
    /// Whether the store could be written at the last attempt.
    pub readiness: Arc<Readiness>,
    /// Metrics of HTTP requests.
    pub metrics: Arc<HttpMetrics>,
    /// Handles the messages of MCP clients.
    pub mcp: Arc<weft_mcp::serving::Host>,
    /// Call rate of each webhook.
    pub webhook_rates: Arc<CallRates>,
    /// Proxies whose `X-Forwarded-For` names the client.
    pub(crate) trusted_proxies: Vec<Network>,
    /// Memory for files and bodies that are being received.
    pub(crate) upload_memory: UploadMemory,
}

impl ServerState {
    /// Returns how a question waits for its session.
    pub fn waiting(&self, strategy: Option<MultitaskStrategy>) -> Waiting {
        let strategy = strategy.unwrap_or(self.app.limits.sessions.multitask_strategy);
        Waiting { strategy, stopping: self.stopping.clone(), after: None }
    }

    /// Creates the state of a server without a token for its shutdown.
    ///
    /// # Errors
    /// As [`HttpMetrics::new`].
    pub fn new(app: App, auth: Auth) -> Result<Self> {
        Self::until(app, auth, CancellationToken::new())
    }

    /// Creates the state of a server that stops when `stopping` fires.
    ///
    /// # Errors
    /// As [`HttpMetrics::new`].
    pub fn until(app: App, auth: Auth, stopping: CancellationToken) -> Result<Self> {
        Ok(Self(Arc::new(HandlerState {
            metrics: Arc::new(HttpMetrics::new(app.clock.now_ms())?),
            upload_memory: UploadMemory::new(app.limits.upload_memory_bytes),
            trusted_proxies: app.accounts.config.trusted_proxies(),
            app,
            auth,
            stopping,
            readiness: Arc::default(),
            mcp: Arc::default(),
            webhook_rates: Arc::default(),
        })))
    }
}
