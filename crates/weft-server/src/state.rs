//! What handlers share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weft_core::{CanvasKey, Result};

use crate::metrics::HttpMetrics;
use crate::routes::health::Readiness;
use weft_app::app::App;
use weft_app::config::Auth;
use weft_app::rates::Rates;
use weft_app::turns::{MultitaskStrategy, Waiting};

/// What handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerState {
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
        Ok(Self {
            metrics: Arc::new(HttpMetrics::new(app.clock.now_ms())?),
            app,
            auth,
            stopping: CancellationToken::new(),
            readiness: Arc::default(),
            mcp: Arc::default(),
            webhook_rates: Arc::default(),
        })
    }
}
