//! Webhook calls, by which other programs start runs: authentication, rate limits, and the input of the canvas.

mod auth;
pub(crate) mod payload;
mod rates;

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, header};
use weft_core::webhook::{SecretText, Webhook, WebhookAuth};

pub(crate) use auth::{Claimed, check_caller, check_signature};
pub use rates::CallRates;

/// The address that a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// The reason why a call is refused, as a message for its caller.
pub(crate) type Refusal = String;

/// Returns the secret that this way of authentication needs.
pub(crate) fn secret_of(auth: &WebhookAuth) -> Option<&SecretText> {
    match auth {
        WebhookAuth::Unsaid | WebhookAuth::Unconfirmed | WebhookAuth::Anonymous => None,
        WebhookAuth::Token { value: secret, .. }
        | WebhookAuth::Basic { password: secret, .. }
        | WebhookAuth::Jwt { secret, .. }
        | WebhookAuth::Signature { secret, .. } => Some(secret),
    }
}

/// Checks that the canvas accepts the method of a call.
pub(crate) fn check_method(webhook: &Webhook, method: &Method) -> Result<(), Refusal> {
    let allowed = webhook.methods.is_empty() || webhook.methods.iter().any(|one| one == method.as_str());
    if allowed { Ok(()) } else { Err(format!("HTTP method '{method}' not allowed for this webhook.")) }
}

/// Checks a call before its authentication: its method, whether anyone may call at all, its declared length and its
/// origin.
pub(crate) fn check_call(
    webhook: &Webhook,
    method: &Method,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<(), Refusal> {
    check_method(webhook, method)?;
    match webhook.auth {
        WebhookAuth::Unsaid => {
            let message = "Webhook security is required. Set allow_anonymous to true to permit unauthenticated webhooks.";
            return Err(message.to_owned());
        }
        WebhookAuth::Unconfirmed => {
            return Err("Anonymous webhook access requires allow_anonymous to be true".to_owned());
        }
        _ => {}
    }
    // A declared length is refused before anything is read; without one the limit applies while the body arrives.
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = declared.filter(|length| *length > webhook.body_bytes_max) {
        return Err(too_large(&length.to_string(), webhook));
    }
    if webhook.networks.is_empty() {
        return Ok(());
    }
    match peer {
        Some(Peer(address)) if webhook.networks.iter().any(|network| network.contains(address)) => Ok(()),
        // A socket for both families shows an IPv4 address as one of IPv6.
        Some(Peer(address)) => Err(format!("IP {} is not allowed by whitelist", address.to_canonical())),
        None => Err("IP unknown is not allowed by whitelist".to_owned()),
    }
}

/// The error for a body that exceeds the limit of the canvas.
pub(crate) fn too_large(length: &str, webhook: &Webhook) -> Refusal {
    format!("Request body too large: {length} > {}", webhook.body_bytes_max)
}

/// Returns the media type of a request in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    // A type that is not readable differs from every expected one, while an absent one is accepted.
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("?");
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (!kind.is_empty()).then_some(kind)
}

/// Checks that the media type of a request, if it has one, is what the canvas accepts.
pub(crate) fn check_media_type(webhook: &Webhook, media: Option<&str>) -> Result<(), Refusal> {
    match (&webhook.content_type, media) {
        (Some(expected), Some(media)) if expected != media => {
            Err(format!("Invalid Content-Type: expect '{expected}', got '{media}'"))
        }
        _ => Ok(()),
    }
}
