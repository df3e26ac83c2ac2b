//! What handlers share.

use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::Auth;

/// What handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// Everything Weft can do.
    pub app: App,
    /// Whether callers must show a token.
    pub auth: Auth,
    /// Fires when the server was told to stop.
    pub stopping: CancellationToken,
}

impl ServerState {
    /// For a server that was not told to stop yet.
    pub fn new(app: App, auth: Auth) -> Self {
        Self { app, auth, stopping: CancellationToken::new() }
    }
}
