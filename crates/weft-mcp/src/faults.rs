//! Why a connection broke, told by those who saw it to those who notice later.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weft_core::value::shortened;
use weft_core::{Error, ErrorKind, Secret};

/// What ended one connection. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<OnceLock<(ErrorKind, String)>>);

impl Faults {
    /// Notes what ended the connection. The first reason is the one that counts.
    pub(crate) fn end(&self, kind: ErrorKind, message: impl Into<String>) {
        // A later reason is a consequence of the first.
        let _ = self.0.set((kind, message.into()));
    }

    /// The reason, if anybody gave one.
    pub(crate) fn reason(&self) -> Option<Error> {
        self.0.get().map(|(kind, message)| Error::new(*kind, message.clone()))
    }
}

/// Takes secrets out of texts that others wrote. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    /// Those of the configuration.
    configured: Arc<[Secret]>,
    /// Those that come and go, from the latest.
    tokens: Arc<Mutex<Vec<Secret>>>,
}

/// Tokens that are remembered: one that was refused may be told after another one has come for it.
const TOKENS_MAX: usize = 8;

/// Shorter ones would blot out ordinary words.
const SECRET_BYTES_MIN: usize = 6;
/// Words before a secret that say what kind of secret it is, as headers have them.
const SCHEMES: [&str; 5] = ["apikey", "basic", "bearer", "key", "token"];

impl Redactor {
    /// Takes out these.
    pub(crate) fn new<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        let all = secrets.flat_map(|secret| [Some(secret.clone()), behind_scheme(secret)]).flatten();
        let mut hidden: Vec<Secret> =
            all.filter(|secret| secret.reveal().len() >= SECRET_BYTES_MIN).collect();
        // The longest first: one may be a part of another, whose rest would stay.
        hidden.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        Self { configured: hidden.into(), tokens: Arc::default() }
    }

    /// Takes out this one from now on, too.
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

    /// The text without them, cut at `max` characters.
    pub(crate) fn clean(&self, text: &str, max: usize) -> String {
        let mut text = text.to_owned();
        let mut tokens = self.tokens().clone();
        tokens.sort_by_key(|token| std::cmp::Reverse(token.reveal().len()));
        for secret in tokens.iter().chain(self.configured.iter()) {
            if text.contains(secret.reveal()) {
                text = text.replace(secret.reveal(), "***");
            }
        }
        // After the secrets are out: cut before, half of one would stand at the end.
        shortened(&text, max)
    }
}

/// What a header has behind `Bearer` and the like. A server that refuses it tells it without that word.
fn behind_scheme(secret: &Secret) -> Option<Secret> {
    let (scheme, token) = secret.reveal().trim().split_once(' ')?;
    let is_scheme = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    is_scheme.then(|| Secret::new(token.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_the_one_that_counts() {
        let faults = Faults::default();
        assert!(faults.reason().is_none());
        faults.end(ErrorKind::Unavailable, "the process ended");
        faults.end(ErrorKind::Garbled, "nothing to read");
        assert_eq!(faults.reason().unwrap().message, "the process ended");
    }

    #[test]
    fn secrets_are_taken_out_and_long_texts_are_cut() {
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
