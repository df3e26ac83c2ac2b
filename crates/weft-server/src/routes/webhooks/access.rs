//! Which webhook calls are let in.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use weft_core::CanvasKey;
use weft_core::webhook::{Webhook, WebhookAuth};

use super::{By, CalledCanvas, refused};
use crate::error::ApiError;
use crate::state::ServerState;
use crate::webhook::{self, Claimed, Peer, Refusal};

/// Checks whether a call has access, as far as its headers show, and returns the configured secret.
pub(super) async fn admitted(
    state: &ServerState,
    called: &CalledCanvas,
    by: By,
    parts: &Parts,
    peer: Option<Peer>,
) -> Result<String, ApiError> {
    let CalledCanvas { canvas, webhook, .. } = called;
    if by == By::Owner {
        webhook::check_method(webhook, &parts.method).map_err(refused)?;
        return Ok(String::new());
    }
    let now_ms = state.app.clock.now_ms();
    webhook::check_call(webhook, &parts.method, &parts.headers, peer).map_err(refused)?;
    let secret = secret(state, canvas, webhook).await?;
    let checked = webhook::check_caller(&webhook.auth, &parts.headers, &secret, now_ms);
    match (&webhook.auth, checked) {
        // Only its signature, which covers the body, shows whose call it is.
        (WebhookAuth::Signature { .. }, Ok(())) => {}
        (_, checked) => within_rate(state, called, checked)?,
    }
    Ok(secret)
}

/// Checks the signature of a call whose body has arrived, if the webhook is configured for signatures.
pub(super) fn signed(
    state: &ServerState,
    called: &CalledCanvas,
    headers: &HeaderMap,
    (body, secret): (&[u8], &str),
) -> Result<Claimed, ApiError> {
    let auth = &called.webhook.auth;
    let checked = webhook::check_signature(auth, headers, body, secret, state.app.clock.now_ms());
    match auth {
        WebhookAuth::Signature { .. } => within_rate(state, called, checked),
        // Counted before its body was read.
        _ => checked.map_err(refused),
    }
}

/// Counts a call whose authentication had this outcome, and returns the outcome if the rate allows it.
fn within_rate<T>(
    state: &ServerState,
    called: &CalledCanvas,
    checked: Result<T, Refusal>,
) -> Result<T, ApiError> {
    let now = state.app.clock.running();
    state.webhook_rates.count(&called.canvas, called.webhook.rate, now, checked).map_err(refused)
}

/// Returns the secret of a webhook: a literal, or the tenant's secret of that name.
async fn secret(state: &ServerState, canvas: &CanvasKey, webhook: &Webhook) -> Result<String, ApiError> {
    let Some(text) = webhook::secret_of(&webhook.auth) else { return Ok(String::new()) };
    let Some(name) = text.name() else { return Ok(text.literal().to_owned()) };
    let values = state.app.secrets.values(&canvas.tenant, &[name.into()]).await?;
    match values.into_iter().next() {
        Some(named) => Ok(named.value.reveal().to_owned()),
        None => {
            // At debug level: the caller gets the error as well, and may call as often as it likes.
            tracing::debug!(canvas.id = %canvas.id, secret = name, "a webhook names a secret that does not exist");
            Err(refused("the secret of this webhook does not exist"))
        }
    }
}
