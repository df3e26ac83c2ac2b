//! What a server means by the status of a refusal.

use std::time::Duration;

use weft_core::{Error, ErrorKind};
use weft_net::StreamResponse;

/// Converts an error status.
pub(crate) fn refusal(response: &StreamResponse) -> Error {
    let status = response.status;
    let error = |kind, text: &str| Error::new(kind, format!("{text} (status {status})"));
    match status {
        // Following a redirect would send the credentials to a server that was not configured.
        300..=399 => {
            error(ErrorKind::Invalid, "the server redirects to another address, which is not followed")
                .help("set `url` to the address of the redirect")
        }
        401 => error(ErrorKind::Unauthenticated, "the server requires other credentials")
            .help("check `headers`, `variables` and `oauth` of the server"),
        403 => error(ErrorKind::Denied, "the server denies access"),
        404 | 410 => error(ErrorKind::NotFound, "there is no MCP server at this address")
            .help("check `url` and `type` of the server"),
        429 => {
            let mut error = error(ErrorKind::RateLimited, "the server limits the rate of requests");
            let seconds = response.header("retry-after").and_then(|text| text.trim().parse().ok());
            error.retry_after = seconds.map(Duration::from_secs);
            error
        }
        500..=599 => error(ErrorKind::Unavailable, "the server has failed"),
        _ => error(ErrorKind::Invalid, "the server rejects the request")
            .help("check `url` and `type` of the server"),
    }
}
