//! The client for addresses from the operator's configuration, such as model servers. These may be private.

use std::time::Duration;

use weft_core::{Error, Result};

use crate::tls;

/// Time limit for connecting.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of idle connections kept for each server.
pub(crate) const IDLE_PER_HOST_MAX: usize = 64;
/// How long an idle connection is kept; shorter than the usual 60 s of servers, so that they do not close it during a
/// request.
const IDLE_LIMIT: Duration = Duration::from_secs(50);

/// Creates a client without redirects and without proxies from the environment. It only limits the time to connect: the
/// caller knows how long an answer may take.
///
/// # Errors
/// `Internal` when TLS cannot be set up.
pub fn operator_client() -> Result<reqwest::Client> {
    builder()?
        .connect_timeout(CONNECT_LIMIT)
        .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
        .pool_idle_timeout(IDLE_LIMIT)
        .build()
        .map_err(|cause| Error::internal("cannot set up the HTTP client").because(cause))
}

/// Returns what both kinds of clients have in common.
#[expect(clippy::disallowed_methods, reason = "this crate is the one that builds HTTP clients")]
pub(crate) fn builder() -> Result<reqwest::ClientBuilder> {
    // The targets of redirects, and proxies from the environment, were not checked.
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls::config()?)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        // The address that a request came from may contain a key.
        .referer(false)
        .user_agent(concat!("weft/", env!("CARGO_PKG_VERSION"))))
}
