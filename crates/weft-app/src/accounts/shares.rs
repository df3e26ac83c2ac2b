//! Share tokens: created here, shown once, stored as hashes.

use std::time::Duration;

use weft_core::seam::share_store::{ShareTarget, ShareToken};
use weft_core::seam::token_store::StoredToken;
use weft_core::webhook::Rate;
use weft_core::{CanvasId, Error, ErrorKind, Result, Secret, TenantId};

use super::LISTED_MAX;
use crate::app::App;
use crate::tokens::{self, SHARE_PREFIX};

impl App {
    /// Creates a share token for an existing agent, assistant or key. It cannot be read again later.
    ///
    /// # Errors
    /// `Invalid` for a name that is not a single line, or a time in the past; `QuotaExceeded` when there are too
    /// many; `NotFound` for an agent or an assistant that does not exist or was removed meanwhile.
    pub async fn share(
        &self,
        tenant: &TenantId,
        target: ShareTarget,
        name: &str,
        expires_ms: Option<i64>,
    ) -> Result<(ShareToken, Secret)> {
        let now_ms = self.clock.now_ms();
        if expires_ms.is_some_and(|at| at <= now_ms) {
            return Err(Error::invalid("`expires_time` is in the past").help("give milliseconds since 1970"));
        }
        let secret = match &target {
            ShareTarget::Agent(_) | ShareTarget::Chat(_) => tokens::random(SHARE_PREFIX)?,
            // Older clients recognize it by its length.
            ShareTarget::OfKey(_) => tokens::random_short(SHARE_PREFIX)?,
        };
        let share = ShareToken {
            tenant: tenant.clone(),
            target,
            hash: tokens::hash(secret.reveal()),
            name: tokens::checked_name(name)?,
            created_ms: now_ms,
            expires_ms,
            last_used_ms: None,
        };
        self.accounts.stores.shares.add_share(&share).await?;
        self.share_stays(&share).await?;
        Ok((share, secret))
    }

    /// Creates the share token of a new key. If that fails, the key is removed again: nobody has seen it.
    ///
    /// # Errors
    /// When the system provides no random numbers, or the store cannot be written.
    pub async fn share_of_key(&self, key: &StoredToken) -> Result<Secret> {
        let target = ShareTarget::OfKey(CanvasId::from(key.hash.as_str()));
        match self.share(&key.tenant, target.clone(), &key.name, None).await {
            Ok((_, secret)) => Ok(secret),
            Err(error) => {
                self.take_back_key(key, &target).await;
                Err(error)
            }
        }
    }

    /// Removes a key without its share token. The caller reports the failure that led here; others are logged.
    async fn take_back_key(&self, key: &StoredToken, target: &ShareTarget) {
        // It may be stored although the store reported a failure. Without its key it gives access to nothing.
        let _ = self.accounts.stores.shares.remove_shares(&key.tenant, target).await;
        if let Err(error) = self.tokens.remove(&key.tenant, &key.hash).await {
            tracing::warn!(token.id = key.id(), error = error.detail(), "an unused key could not be removed");
        }
    }

    /// Revokes a share token, given by its id or by the token itself.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn unshare(&self, tenant: &TenantId, target: &ShareTarget, name: &str) -> Result<()> {
        let hash = tokens::hash(name);
        let all = self.accounts.stores.shares.shares(tenant, target, LISTED_MAX).await?;
        let found = all.into_iter().find(|share| share.hash == hash || share.id() == name);
        let found = found.ok_or_else(|| Error::not_found("there is no such share token"))?;
        self.accounts.stores.shares.remove_share(tenant, target, &found.hash).await
    }

    /// Returns a valid share token. Every call counts against its rate limit.
    ///
    /// # Errors
    /// `NotFound` for one that does not exist or has expired; `RateLimited`.
    pub async fn opened_by(&self, hash: &str) -> Result<ShareToken> {
        let now_ms = self.clock.now_ms();
        let share = self.accounts.stores.shares.share(hash).await?;
        if share.expires_ms.is_some_and(|at| at <= now_ms) {
            return Err(Error::not_found("the share token has expired"));
        }
        if let ShareTarget::OfKey(key) = &share.target {
            // It ends with its key, however that was revoked.
            self.tokens.find(key.as_str()).await?;
        }
        // Counted only for a token that exists, so that invented ones take up no memory.
        let rate = Rate { limit: self.accounts.config.share_calls_per_minute, per: Duration::from_secs(60) };
        if !self.accounts.limits.shares.take(&share.hash, rate, self.clock.running()) {
            let error = Error::new(ErrorKind::RateLimited, "too many calls with this share token");
            return Err(error.help("try again in a minute"));
        }
        if self.token_uses.is_news(&share.hash, now_ms)
            && let Err(error) = self.accounts.stores.shares.share_used(&share.hash, now_ms).await
        {
            tracing::warn!(error = error.detail(), "the use of a share token could not be recorded");
        }
        Ok(share)
    }
}
