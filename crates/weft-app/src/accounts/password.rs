//! Passwords: checked against rules, hashed with Argon2id, and compared in a time that reveals nothing.

use std::sync::Arc;
use std::time::Duration;

use argon2::{Config, ThreadMode, Variant, Version};
use tokio::sync::Semaphore;
use weft_core::{Error, ErrorKind, Result, Secret};

/// Minimum length of a new password, in characters.
pub const CHARS_MIN: usize = 8;
/// Maximum length of a password in bytes, with room for passwords that clients encrypt before sending.
pub const BYTES_MAX: usize = 1_024;

/// Memory of one hash in KiB, and number of passes: the parameters that OWASP recommends for Argon2id.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Number of hashes that are computed concurrently; each takes [`MEMORY_KIB`] and a thread.
const AT_ONCE: usize = 4;
/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(10);
// The lengths that RFC 9106 recommends for Argon2: 128 bits of salt, and 256 bits of hash.
const SALT_BYTES: usize = 16;
const HASH_BYTES: u32 = 32;

/// Compared in place of a missing hash, so that this takes as long. No password matches it.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyBpdCAhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and compares passwords, a limited number concurrently.
#[derive(Debug)]
pub struct Passwords {
    places: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

/// Checks a new password.
///
/// # Errors
/// `Invalid` when it is too short or too long.
pub fn check_new(password: &Secret) -> Result<()> {
    let text = password.reveal();
    if text.chars().count() < CHARS_MIN || text.len() > BYTES_MAX {
        let message =
            format!("a password must have at least {CHARS_MIN} characters and at most {BYTES_MAX} bytes");
        return Err(Error::invalid(message));
    }
    Ok(())
}

impl Passwords {
    /// Hashes a new password, in the PHC string format.
    ///
    /// # Errors
    /// As [`check_new`]; `RateLimited` when too many are waiting.
    pub async fn hash(&self, password: &Secret) -> Result<String> {
        check_new(password)?;
        let mut salt = [0_u8; SALT_BYTES];
        getrandom::fill(&mut salt)
            .map_err(|cause| Error::internal("cannot generate a salt").because(cause))?;
        let password = password.clone();
        self.computed(move || {
            argon2::hash_encoded(password.reveal().as_bytes(), &salt, &config()).map_err(failed)
        })
        .await
    }

    /// Returns whether a password matches a hash. Without a hash it does not, and that takes as long.
    ///
    /// # Errors
    /// `RateLimited` when too many are waiting.
    pub async fn fits(&self, password: &Secret, hash: Option<&str>) -> Result<bool> {
        let hash = hash.filter(|hash| !hash.is_empty()).unwrap_or(NOBODYS).to_owned();
        // A password that is too long never matches; an empty one is compared in its place, so that a long text takes
        // no longer.
        let too_long = password.reveal().len() > BYTES_MAX;
        let password = if too_long { Secret::default() } else { password.clone() };
        self.computed(move || {
            let fits = argon2::verify_encoded(&hash, password.reveal().as_bytes()).map_err(failed)?;
            Ok(fits && !too_long)
        })
        .await
    }

    async fn computed<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let busy = || Error::new(ErrorKind::RateLimited, "too many sign-ins at the same time");
        let place = tokio::time::timeout(WAIT, Arc::clone(&self.places).acquire_owned()).await;
        let place = place.map_err(|_| busy())?.map_err(|_| busy())?;
        let compute = move || {
            // Held by the computation: it goes on when its request is abandoned.
            let _place = place;
            compute()
        };
        // Hashing would block all other work on this thread.
        let done = tokio::task::spawn_blocking(compute).await;
        done.unwrap_or_else(|cause| Err(Error::internal("cannot hash a password").because(cause)))
    }
}

fn config() -> Config<'static> {
    Config {
        ad: &[],
        hash_length: HASH_BYTES,
        lanes: LANES,
        mem_cost: MEMORY_KIB,
        secret: &[],
        thread_mode: ThreadMode::Sequential,
        time_cost: PASSES,
        variant: Variant::Argon2id,
        version: Version::Version13,
    }
}

fn failed(error: argon2::Error) -> Error {
    Error::internal("cannot hash a password").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_matches_only_its_own_hash() {
        let passwords = Passwords::default();
        let secret = Secret::new("correct horse 🦜");
        let (one, two) = (passwords.hash(&secret).await.unwrap(), passwords.hash(&secret).await.unwrap());
        assert_ne!(one, two, "each hash has its own salt");
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && !one.contains("horse"), "{one}");
        assert!(passwords.fits(&secret, Some(&one)).await.unwrap());
        for wrong in ["", "correct horse", "Correct horse 🦜", &"x".repeat(BYTES_MAX + 1)] {
            assert!(!passwords.fits(&Secret::new(wrong), Some(&one)).await.unwrap(), "{wrong}");
        }
        for (nobody, wrong) in [(None, "x"), (Some(""), ""), (None, "")] {
            assert!(!passwords.fits(&Secret::new(wrong), nobody).await.unwrap());
        }
        // The stand-in for a missing hash has the same parameters, so comparing with it takes as long.
        let parts = |hash: &str| hash.split('$').map(str::to_owned).collect::<Vec<_>>();
        let (real, dummy) = (parts(&one), parts(NOBODYS));
        assert_eq!(real[..4], dummy[..4]);
        assert_eq!((real[4].len(), real[5].len()), (dummy[4].len(), dummy[5].len()));
        assert!(passwords.fits(&secret, Some("no hash")).await.is_err());
    }

    #[test]
    fn new_passwords_have_a_minimum_and_maximum_length() {
        for wrong in ["", "1234567", &"x".repeat(BYTES_MAX + 1)] {
            assert!(check_new(&Secret::new(wrong)).is_err(), "{wrong}");
        }
        assert!(check_new(&Secret::new("12345678")).is_ok());
    }

    #[tokio::test]
    async fn an_abandoned_request_keeps_its_place_until_the_hash_is_computed() {
        let passwords = Passwords::default();
        let (end, ended) = std::sync::mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let computed = passwords.computed(move || {
            begin.send(()).unwrap();
            ended.recv().unwrap();
            Ok(())
        });
        tokio::select! {
            done = computed => panic!("it cannot end yet: {done:?}"),
            begun = begun => begun.unwrap(),
        }
        assert_eq!(passwords.places.available_permits(), AT_ONCE - 1);
        end.send(()).unwrap();
        while passwords.places.available_permits() < AT_ONCE {
            tokio::task::yield_now().await;
        }
    }
}
