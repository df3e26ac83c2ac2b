//! Network access: to configured addresses, and to addresses that servers name.

use std::sync::Arc;

use weft_net::StreamingHttp;

/// How servers, and the addresses that they name, are reached. Clones share the same state.
#[derive(Clone)]
pub struct Reach {
    /// For servers, and any other configured addresses.
    pub servers: Arc<dyn StreamingHttp>,
    /// For addresses that servers name in their documents, such as authorization servers: these are untrusted, so
    /// even for servers of the operator this client checks them.
    pub named: Arc<dyn StreamingHttp>,
}

impl Reach {
    /// Uses one client for both, which checks every address anyway.
    pub fn by(http: &Arc<dyn StreamingHttp>) -> Self {
        Self { servers: Arc::clone(http), named: Arc::clone(http) }
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").finish_non_exhaustive()
    }
}
