//! Renewal of tokens that have expired or were refused.

use std::time::Duration;

use rmcp::transport::auth::StoredCredentials;
use weft_core::{Error, ErrorKind, Result, Secret};

use super::faults::{failed, has_forgotten_us};
use super::kept::{CredentialRow, KeptClient, KeptSignIn, Renewal, are_same};
use super::{LiveToken, SignInInner};
use crate::config::OauthConfig;

/// How often to check the store for the token of another process after a refresh token was refused.
const OTHERS_LOOKS: u32 = 5;
/// How often to check for the result of a renewal in another process: as long as most authorization servers take.
const RENEWED_LOOKS: u32 = 60;
/// Pause between these checks.
const OTHERS_LOOK: Duration = Duration::from_millis(200);

impl SignInInner {
    /// Reads a token from the store, and renews it if it has expired or was refused.
    pub(super) async fn renewed(&self, refused: Option<&Secret>) -> Result<Option<Secret>> {
        let as_of = self.known().changes;
        let row = self.row();
        let kept = row.read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let token = kept.token();
        let usable = token.as_ref().filter(|token| token.is_good() && refused != Some(&token.access));
        if let Some(token) = usable {
            return Ok(self.learn(as_of, Some(token.clone())));
        }
        if token.is_none() || !kept.can_be_renewed() {
            // A refused token need not be sent again; one without an expiry is not affected.
            return Ok(self.learn(as_of, None));
        }
        match Box::pin(self.renew(&row, &kept)).await {
            Ok(renewed) => Ok(self.learn(as_of, renewed)),
            Err(error) if error.kind == ErrorKind::Unauthenticated => {
                Ok(self.learn(as_of, by_another(&row, token.as_ref()).await?))
            }
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, row: &CredentialRow, kept: &KeptSignIn) -> Result<Option<LiveToken>> {
        let (mut manager, found) = self.found(kept.challenge.as_deref()).await?;
        // Another process may have renewed it, or there was a sign-in or sign-out, while the servers were requested.
        let now = row.read().await?.map(|(kept, _)| kept).unwrap_or_default();
        let is_same =
            |now: &&StoredCredentials| kept.credentials.as_ref().is_some_and(|kept| are_same(now, kept));
        let Some(before) = now.credentials.as_ref().filter(is_same) else { return Ok(now.token()) };
        // The refresh token is only sent to the authorization server that issued it.
        if found.metadata.issuer != before.issuer {
            if found.source.is_discovered() {
                row.replace(before, None).await?;
            }
            return Ok(None);
        }
        self.check_bond(&found.metadata, &now)?;
        manager.set_metadata(found.metadata);
        manager.set_credential_store(Renewal { row: row.clone(), before: before.clone() });
        if !manager.initialize_from_store().await.map_err(|error| failed(&error))? {
            return Ok(None);
        }
        if let Some(client) = &kept.client {
            let client = self.as_configured(client.clone());
            manager.configure_client(client.config()).map_err(|error| failed(&error))?;
        }
        if !row.claim(before, self.clock.now_ms()).await? {
            return renewed_elsewhere(row, before).await;
        }
        let Err(refused) = manager.refresh_token().await else {
            return Ok(row.read().await?.and_then(|(kept, _)| kept.token()));
        };
        let error = failed(&refused);
        if has_forgotten_us(&refused) {
            row.change(|kept| kept.forget(&before.client_id)).await?;
        }
        if error.kind == ErrorKind::Unauthenticated {
            // It need not be sent again.
            row.replace(before, None).await?;
        } else {
            row.release().await?;
        }
        Err(error)
    }

    /// Returns the client of a sign-in with its current secret, which the operator may have changed since.
    fn as_configured(&self, client: KeptClient) -> KeptClient {
        let OauthConfig { client_id, client_secret, .. } = &self.oauth;
        if client.id == *client_id && !client_secret.is_empty() {
            KeptClient { secret: Some(client_secret.reveal().to_owned()), ..client }
        } else {
            client
        }
    }

    /// Records the content of the store as of `as_of`.
    fn learn(&self, as_of: u64, token: Option<LiveToken>) -> Option<Secret> {
        let known = &mut *self.known();
        // A sign-in or sign-out since then takes precedence.
        if known.changes == as_of {
            known.note(token);
        }
        known.token.as_ref().map(|token| token.access.clone())
    }
}

/// Returns the token that another process has obtained in place of `before`, which was refused; it may not be stored
/// yet.
async fn by_another(row: &CredentialRow, before: Option<&LiveToken>) -> Result<Option<LiveToken>> {
    for _ in 0..OTHERS_LOOKS {
        let now = row.read().await?.and_then(|(kept, _)| kept.token());
        let newer = now.filter(|now| before.is_none_or(|before| before.access != now.access));
        if newer.is_some() {
            return Ok(newer);
        }
        tokio::time::sleep(OTHERS_LOOK).await;
    }
    Ok(None)
}

/// Waits for the token that another process is obtaining in place of `before`; `None` after a sign-out.
async fn renewed_elsewhere(row: &CredentialRow, before: &StoredCredentials) -> Result<Option<LiveToken>> {
    for _ in 0..RENEWED_LOOKS {
        let now = row.read().await?.map(|(kept, _)| kept).unwrap_or_default();
        match &now.credentials {
            Some(there) if are_same(there, before) => tokio::time::sleep(OTHERS_LOOK).await,
            Some(_) | None => return Ok(now.token()),
        }
    }
    let message = "another process is renewing the token and has no response yet";
    Err(Error::new(ErrorKind::Unavailable, message))
}
