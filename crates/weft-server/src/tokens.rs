//! API tokens: made here, shown once, kept as hashes.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use weft_core::seam::TokenStore;
use weft_core::seam::token_store::StoredToken;
use weft_core::{Error, Result, TenantId};
use weft_models::Secret;

/// What every token begins with, so that people and scanners recognise one.
const PREFIX: &str = "weft-";

/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// A token that was just made. This is the only time it can be read.
#[derive(Debug)]
pub struct NewToken(Secret);

impl NewToken {
    /// The token, for the one place that shows it.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

/// Makes a token and stores its hash.
///
/// # Errors
/// When the system has no random numbers to give, or the store cannot be written.
pub async fn create(
    store: &dyn TokenStore,
    tenant: &TenantId,
    name: &str,
    created_ms: i64,
) -> Result<NewToken> {
    let mut random = [0_u8; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|cause| Error::internal("cannot make a token").because(cause))?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
    let stored =
        StoredToken { tenant: tenant.clone(), hash: hash(&token), name: name.to_owned(), created_ms };
    store.add(&stored).await?;
    Ok(NewToken(Secret::new(token)))
}

/// SHA-256 in lower-case hex. A token is looked up by it, so what the look-up takes tells nothing
/// about how much of a guess was right.
pub fn hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::memory_store::MemoryStore;

    #[tokio::test]
    async fn a_token_is_random_and_only_its_hash_is_kept() {
        let store = MemoryStore::new();
        let tenant = TenantId::new("t");
        let a = create(&store, &tenant, "first", 7).await.unwrap();
        let b = create(&store, &tenant, "second", 7).await.unwrap();
        assert!(a.reveal().starts_with("weft-") && a.reveal().len() == 48, "{}", a.reveal());
        assert_ne!(a.reveal(), b.reveal());
        assert_eq!(format!("{a:?}"), "NewToken(***)");
        let stored = store.find(&hash(a.reveal())).await.unwrap();
        assert_eq!((stored.tenant, stored.name.as_str()), (tenant, "first"));
        assert!(store.find(a.reveal()).await.is_err());
    }
}
