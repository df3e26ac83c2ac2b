//! Records why a connection broke, for those who notice later.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weft_core::value::shortened;
use weft_core::{Error, ErrorKind, Secret};

/// The reason why a connection ended. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<OnceLock<(ErrorKind, String)>>);

impl Faults {
    /// Records the reason for the end. Only the first one counts.
    pub(crate) fn end(&self, kind: ErrorKind, message: impl Into<String>) {
        // Later reasons are consequences of the first.
        let _ = self.0.set((kind, message.into()));
    }

    /// Returns the reason, if there is one.
    pub(crate) fn reason(&self) -> Option<Error> {
        self.0.get().map(|(kind, message)| Error::new(*kind, message.clone()))
    }
}

/// Removes secrets from untrusted texts. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    /// Secrets of the configuration.
    configured: Arc<[Secret]>,
    /// Current and recent tokens, the latest first.
    tokens: Arc<Mutex<Vec<Secret>>>,
}

/// Number of recent tokens: a refused one may be repeated after it was replaced.
const TOKENS_MAX: usize = 8;

/// Shorter ones would also redact ordinary words.
const SECRET_BYTES_MIN: usize = 6;
/// Words before a secret that tell its type, as in headers.
const SCHEMES: [&str; 5] = ["apikey", "basic", "bearer", "key", "token"];

impl Redactor {
    /// Creates a redactor for these secrets.
    pub(crate) fn new<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        let all = secrets.flat_map(|secret| [Some(secret.clone()), behind_scheme(secret)]).flatten();
        let mut hidden: Vec<Secret> =
            all.filter(|secret| secret.reveal().len() >= SECRET_BYTES_MIN).collect();
        // The longest first: a secret may be part of another, whose rest would remain.
        hidden.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        Self { configured: hidden.into(), tokens: Arc::default() }
    }

    /// Also removes this token from now on.
    pub(crate) fn hide(&self, token: &Secret) {
        let mut tokens = self.tokens();
        if token.reveal().len() >= SECRET_BYTES_MIN && !tokens.contains(token) {
            tokens.truncate(TOKENS_MAX - 1);
            tokens.insert(0, token.clone());
        }
    }

    fn tokens(&self) -> MutexGuard<'_, Vec<Secret>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text without the secrets, cut to `max` characters.
    pub(crate) fn clean(&self, text: &str, max: usize) -> String {
        let mut text = text.to_owned();
        let mut tokens = self.tokens().clone();
        tokens.sort_by_key(|token| std::cmp::Reverse(token.reveal().len()));
        for secret in tokens.iter().chain(self.configured.iter()) {
            if text.contains(secret.reveal()) {
                text = text.replace(secret.reveal(), "***");
            }
        }
        // Cut after redaction: otherwise half of a secret could remain at the end.
        shortened(&text, max)
    }
}

/// Returns the part of a header after `Bearer` and the like. A server that refuses it repeats it without that word.
fn behind_scheme(secret: &Secret) -> Option<Secret> {
    let (scheme, token) = secret.reveal().trim().split_once(' ')?;
    let is_scheme = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    is_scheme.then(|| Secret::new(token.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_kept() {
        let faults = Faults::default();
        assert!(faults.reason().is_none());
        faults.end(ErrorKind::Unavailable, "the process ended");
        faults.end(ErrorKind::Garbled, "nothing to read");
        assert_eq!(faults.reason().unwrap().message, "the process ended");
    }

    #[test]
    fn secrets_are_redacted_and_long_texts_are_cut() {
        let redactor = Redactor::new([Secret::new("s3cret-key"), Secret::new("a")].iter());
        assert_eq!(redactor.clean("key s3cret-key of a", 100), "key *** of a");
        assert_eq!(redactor.clean("汉字汉字", 2), "汉字…");
        for number in 1..=20 {
            redactor.clone().hide(&Secret::new(format!("token-{number}")));
        }
        assert_eq!(redactor.clean("token-20 s3cret-key", 100), "*** ***");
        assert!(redactor.tokens().len() <= TOKENS_MAX);
        let redactor = Redactor::new([Secret::new("bearer  s3cret-key"), Secret::new("s3cret-key-2")].iter());
        assert_eq!(redactor.clean("not s3cret-key, not s3cret-key-2", 100), "not ***, not ***");
    }
}
