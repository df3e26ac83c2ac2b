//! Settings of the HTTP server: authentication and the number of connections.

use std::net::SocketAddr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use weft_core::{Error, Result};

/// The HTTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Whether callers need a token.
    pub auth: Auth,
    /// Maximum number of concurrent connections; 0: derived from the limit of open files.
    pub connections: usize,
    /// Maximum number of concurrent connections from one address; 0: half of all.
    pub connections_per_address: usize,
}

impl ServerConfig {
    /// Returns the limits of connections for a process that may open this many files.
    pub fn connections(&self, files: usize) -> ConnectionLimits {
        /// More are of no use to one process.
        const ALL_MAX: usize = 16_384;
        // The rest is for the store, the index, workers, and outgoing requests of runs.
        let possible = (files / 4 * 3).clamp(1, ALL_MAX);
        let all = if self.connections == 0 { possible } else { self.connections.min(possible) };
        let per_address = match self.connections_per_address {
            0 => all.div_ceil(2),
            count => count.min(all),
        };
        ConnectionLimits { all, per_address }
    }
}

/// Limits on the number of concurrent HTTP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of concurrent connections.
    pub all: usize,
    /// Maximum number of concurrent connections from one address; for IPv6 from one /64 network, which is what one
    /// customer has.
    pub per_address: usize,
}

/// Whether callers need a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// They need one.
    #[default]
    On,
    /// Everyone who can reach the server may do everything; only on loopback addresses.
    Off,
}

/// Parses an address to listen on.
///
/// # Errors
/// A message with the expected format.
pub fn listen_address(text: &str) -> std::result::Result<SocketAddr, String> {
    text.parse().map_err(|_| "it must be an IP address and a port, such as 127.0.0.1:9380".to_owned())
}

pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<SocketAddr, D::Error> {
    listen_address(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Checks that without tokens only programs on the same machine can reach the server.
///
/// # Errors
/// `Invalid` for an address that others can reach while tokens are off.
pub fn check_auth(auth: Auth, listen: SocketAddr) -> Result<()> {
    match auth {
        Auth::Off if !listen.ip().is_loopback() => {
            let message = format!("the server must not listen on {listen} without authentication");
            Err(Error::invalid(message).help("listen on 127.0.0.1 or [::1], or keep authentication on"))
        }
        Auth::On | Auth::Off => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limits_follow_the_open_file_limit() {
        let check = |set: (usize, usize), files: usize, expected: (usize, usize)| {
            let config = ServerConfig {
                connections: set.0,
                connections_per_address: set.1,
                ..ServerConfig::default()
            };
            let ConnectionLimits { all, per_address } = config.connections(files);
            assert_eq!((all, per_address), expected, "{set:?} {files}");
        };
        check((0, 0), 1_024, (768, 384));
        check((0, 0), usize::MAX, (16_384, 8_192));
        check((500, 500), 1_024, (500, 500));
        check((5_000, 6_000), 1_024, (768, 768));
        check((0, 0), 0, (1, 1));
    }
}
