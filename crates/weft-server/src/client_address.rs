//! The address of a client, also behind proxies that the settings trust.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use weft_core::webhook::Network;

use crate::state::ServerState;
use crate::webhook::Peer;

/// The header in which each proxy appends the address that a request came to it from.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Replaces the address of a trusted proxy by that of its client, for everything that follows.
pub(crate) async fn name_client(State(state): State<ServerState>, mut request: Request) -> Request {
    if let Some(Peer(peer)) = request.extensions().get::<Peer>().copied() {
        let client = client(peer, request.headers(), &state.trusted_proxies);
        request.extensions_mut().insert(Peer(client));
    }
    request
}

/// Returns the last address on the way of a request that is not a trusted proxy.
fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer;
    // Read from the end: everything before the entry of the first trusted proxy is written by the client.
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    let mut named = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    while is_trusted(client) {
        let Some(next) = named.next().and_then(address) else { break };
        client = next;
    }
    client
}

/// Parses an address, which some proxies write with a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    text.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip())).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(peer: &str, lines: &[&'static str], expected: &str) {
        let trusted = ["10.0.0.0/8", "::1"].map(|text| Network::parse(text).unwrap());
        let mut headers = HeaderMap::new();
        for &line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
        }
        let found = client(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
    }

    #[test]
    fn only_trusted_proxies_name_their_client() {
        check("192.0.2.1", &["203.0.113.7"], "192.0.2.1");
        check("10.0.0.1", &["203.0.113.7"], "203.0.113.7");
        check("::ffff:10.0.0.1", &["203.0.113.7:4711"], "203.0.113.7");
        check("::1", &["[2001:db8::1]:443"], "2001:db8::1");
        check("10.0.0.1", &[], "10.0.0.1");
    }

    #[test]
    fn what_a_client_writes_itself_is_not_believed() {
        check("10.0.0.1", &["198.51.100.1, 203.0.113.7"], "203.0.113.7");
        check("10.0.0.1", &["198.51.100.1", "203.0.113.7, 10.2.3.4"], "203.0.113.7");
        check("10.0.0.1", &["198.51.100.1, unknown, 10.2.3.4"], "10.2.3.4");
        check("10.0.0.1", &["10.5.5.5, 10.2.3.4"], "10.5.5.5");
    }
}
