//! What handlers share.

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weft_core::{CanvasKey, Result};

use crate::metrics::HttpMetrics;
use crate::routes::health::Readiness;
use weft_app::app::App;
use weft_app::config::Auth;
use weft_app::rates::Rates;
use weft_app::turns::{MultitaskStrategy, Waiting};

/// What handlers share, behind one pointer: every route has a clone, each of its layers has another, and each request
/// makes more of them.
#[derive(Clone, Debug)]
pub struct ServerState(Arc<HandlerState>);

impl Deref for ServerState {
    type Target = HandlerState;

    fn deref(&self) -> &HandlerState {
        &self.0
    }
}

/// What handlers find in a [`ServerState`].
#[derive(Debug)]
pub struct HandlerState {
    /// Everything Weft can do.
    pub app: App,
    /// Whether callers must show a token.
    pub auth: Auth,
    /// Fires when the server was told to stop.
    pub stopping: CancellationToken,
    /// Whether the store could be written when that was last tried.
    pub readiness: Arc<Readiness>,
    /// What is counted of its requests.
    pub metrics: Arc<HttpMetrics>,
    /// Where MCP clients post their messages.
    pub mcp: Arc<weft_mcp::serving::Host>,
    /// How often each webhook is called.
    pub webhook_rates: Arc<Rates<CanvasKey>>,
}

impl ServerState {
    /// How a question waits for its session.
    pub fn waiting(&self, strategy: Option<MultitaskStrategy>) -> Waiting {
        let strategy = strategy.unwrap_or(self.app.limits.sessions.multitask_strategy);
        Waiting { strategy, stopping: self.stopping.clone(), after: None }
    }

    /// For a server that was not told to stop yet.
    ///
    /// # Errors
    /// As [`HttpMetrics::new`].
    pub fn new(app: App, auth: Auth) -> Result<Self> {
        Self::until(app, auth, CancellationToken::new())
    }

    /// For a server that stops when `stopping` fires.
    ///
    /// # Errors
    /// As [`HttpMetrics::new`].
    pub fn until(app: App, auth: Auth, stopping: CancellationToken) -> Result<Self> {
        Ok(Self(Arc::new(HandlerState {
            metrics: Arc::new(HttpMetrics::new(app.clock.now_ms())?),
            app,
            auth,
            stopping,
            readiness: Arc::default(),
            mcp: Arc::default(),
            webhook_rates: Arc::default(),
        })))
    }
}
