//! Protection against web pages that send requests to a server in the user's network, directly or by DNS rebinding.

use std::net::IpAddr;

use http::{HeaderMap, header};

/// The host names under which a server accepts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names of the loopback interface only, because nothing else distinguishes a web page from a program.
    Loopback,
    /// Any name, because every request is authenticated.
    Any,
}

/// Checks the host of a request and the origin of the page that sends it. Programs send no origin.
///
/// # Errors
/// The reason, for HTTP status 403.
pub fn check_origin(headers: &HeaderMap, names: Names) -> Result<(), &'static str> {
    // A host that is not text matches no accepted name.
    let host = headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    // A page can point its own host name to 127.0.0.1 (DNS rebinding), but its requests then carry that name.
    if names == Names::Loopback && host.is_some_and(|host| !is_loopback(host)) {
        return Err("without authentication only localhost, 127.0.0.1 and [::1] are allowed as host");
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let page = origin.to_str().ok().and_then(|origin| Some(origin.split_once("://")?.1)).unwrap_or("?");
    let own = host.is_some_and(|host| host.eq_ignore_ascii_case(page));
    if own || (names == Names::Any && is_loopback(page)) {
        Ok(())
    } else {
        Err("requests from pages of other origins are not allowed")
    }
}

/// Returns whether a host, with or without a port, is a name of the loopback interface.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _port)) => name,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.parse::<IpAddr>().map_or(name.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_origins_and_rebound_names_are_refused() {
        let check = |names: Names, host: &str, origin: Option<&str>, allowed: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(check_origin(&headers, names).is_ok(), allowed, "{names:?} {host} {origin:?}");
        };
        for names in [Names::Loopback, Names::Any] {
            check(names, "localhost:9380", None, true);
            check(names, "127.0.0.1:9380", Some("http://127.0.0.1:9380"), true);
            check(names, "[::1]:9380", Some("http://[::1]:9380"), true);
            check(names, "localhost:9380", Some("http://evil.example"), false);
            check(names, "localhost:9380", Some("null"), false);
        }
        check(Names::Loopback, "evil.example", Some("http://evil.example"), false);
        check(Names::Loopback, "evil.example", None, false);
        // A page served by another program on this machine may be anyone's.
        check(Names::Loopback, "localhost:9380", Some("http://localhost:8000"), false);
        check(Names::Any, "weft.example", Some("https://weft.example"), true);
        check(Names::Any, "weft.example", Some("http://localhost:6274"), true);
        check(Names::Any, "weft.example", Some("https://other.example"), false);
    }
}
