//! Calls of other programs that begin a run: who may, how often, and what of a call a canvas gets.

mod auth;
pub(crate) mod payload;

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, header};
use weft_core::webhook::{SecretText, Webhook, WebhookAuth};

pub(crate) use auth::{check_caller, check_signature};

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Why a call is refused, in words for its caller.
pub(crate) type Refusal = String;

/// The secret that is looked up for this way of calling.
pub(crate) fn secret_of(auth: &WebhookAuth) -> Option<&SecretText> {
    match auth {
        WebhookAuth::Unsaid | WebhookAuth::Unconfirmed | WebhookAuth::Anonymous => None,
        WebhookAuth::Token { value: secret, .. }
        | WebhookAuth::Basic { password: secret, .. }
        | WebhookAuth::Jwt { secret, .. }
        | WebhookAuth::Signature { secret, .. } => Some(secret),
    }
}

/// A call has one of the methods that the canvas takes.
pub(crate) fn check_method(webhook: &Webhook, method: &Method) -> Result<(), Refusal> {
    let allowed = webhook.methods.is_empty() || webhook.methods.iter().any(|one| one == method.as_str());
    if allowed { Ok(()) } else { Err(format!("HTTP method '{method}' not allowed for this webhook.")) }
}

/// What is refused of a call before anybody looks who makes it: its method, what nobody allows, its declared length and
/// where it comes from.
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
    // A declared length is refused before anything is read; who declares none is stopped while the body
    // comes.
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
        Some(Peer(address)) => Err(format!("IP {} is not allowed by whitelist", address.to_canonical())),
        None => Err("IP unknown is not allowed by whitelist".to_owned()),
    }
}

/// A body is larger than the canvas takes.
pub(crate) fn too_large(length: &str, webhook: &Webhook) -> Refusal {
    format!("Request body too large: {length} > {}", webhook.body_bytes_max)
}

/// The media type of a request in small letters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("?");
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    (!kind.is_empty()).then_some(kind)
}

/// A request that says what its body is says what the canvas takes.
pub(crate) fn check_media_type(webhook: &Webhook, media: Option<&str>) -> Result<(), Refusal> {
    match (&webhook.content_type, media) {
        (Some(expected), Some(media)) if expected != media => {
            Err(format!("Invalid Content-Type: expect '{expected}', got '{media}'"))
        }
        _ => Ok(()),
    }
}
