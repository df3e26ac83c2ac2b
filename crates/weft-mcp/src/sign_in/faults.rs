//! Converts errors of authorization servers into this program's messages.

use rmcp::transport::auth::AuthError;
use weft_core::{Error, ErrorKind};

/// Maximum number of characters of an authorization server's message that are shown.
const TOLD_CHARS_MAX: usize = 300;

/// Returns whether an authorization server no longer knows the client: many remove those that they have registered.
pub(super) fn has_forgotten_us(error: &AuthError) -> bool {
    let (AuthError::TokenRefreshFailed(told) | AuthError::TokenExchangeFailed(told)) = error else {
        return false;
    };
    // The library has no error of its own for it; this is how it formats the code of a response.
    ["invalid_client", "unauthorized_client"]
        .iter()
        .any(|code| told.contains(&format!("error response: {code}")))
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(TOLD_CHARS_MAX).collect()
}

/// Converts an error of an authorization server into this program's message; the original message is the cause.
pub(super) fn failed(error: &AuthError) -> Error {
    let cause = match error {
        // The error's own text omits the reason.
        AuthError::DiscoveryRequestFailed { url, source } => format!("{source}: {url}"),
        error => error.to_string(),
    };
    // Such texts come from outside, and may be long.
    let cause = shortened(&cause);
    let told = |kind, message: &str| Error::new(kind, message).because(cause.clone());
    match error {
        AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) | AuthError::TokenExpired => {
            told(ErrorKind::Unauthenticated, "the sign-in at the server has ended")
        }
        AuthError::TokenRefreshFailed(_) if has_forgotten_us(error) => {
            told(ErrorKind::Unauthenticated, "the sign-in at the server has ended")
        }
        AuthError::TokenRefreshFailed(_)
        | AuthError::DiscoveryRequestFailed { .. }
        | AuthError::AuthorizationServersUnavailable { .. }
        | AuthError::HttpError(_) => {
            told(ErrorKind::Unavailable, "the authorization server cannot be reached")
        }
        AuthError::AuthorizationServerMismatch { .. }
        | AuthError::AuthorizationServerMissingIssuer { .. } => {
            told(ErrorKind::Denied, "the response comes from another authorization server")
        }
        AuthError::RegistrationFailed(_) => told(
            ErrorKind::Invalid,
            "the authorization server does not register this program as a client",
        )
        .help(
            "register it there by hand, and set `oauth.client_id` (and `oauth.client_secret`) of the server",
        ),
        AuthError::NoAuthorizationSupport => {
            told(ErrorKind::Invalid, "the server does not support signing in")
        }
        AuthError::CredentialStoreError(_) => {
            told(ErrorKind::Unavailable, "the credentials cannot be stored")
        }
        _ => told(ErrorKind::Invalid, "the sign-in at the server failed"),
    }
}
