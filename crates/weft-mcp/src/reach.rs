//! The ways out: to what somebody has written down, and to what servers name.

use std::sync::Arc;

use weft_net::StreamingHttp;

/// How servers are reached, and how what they name. Clones are the same.
#[derive(Clone)]
pub struct Reach {
    /// To the servers, and to whatever else whoever configured them has named.
    pub servers: Arc<dyn StreamingHttp>,
    /// To what servers name in their documents, such as authorization servers: nobody has looked at such an address, so for
    /// servers of the operator this is a way that checks it.
    pub named: Arc<dyn StreamingHttp>,
}

impl Reach {
    /// One way for both: where it checks every address anyway.
    pub fn by(http: &Arc<dyn StreamingHttp>) -> Self {
        Self { servers: Arc::clone(http), named: Arc::clone(http) }
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").finish_non_exhaustive()
    }
}
