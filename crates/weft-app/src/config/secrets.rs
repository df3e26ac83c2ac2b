//! Settings of secrets.

use std::path::PathBuf;

use serde::Deserialize;
use weft_core::Secret;

use super::Config;

/// Name of the key file in the data folder.
const KEY_FILE: &str = "secrets.key";
/// Number of hexadecimal digits of a key.
const DIGITS: usize = 64;

/// Storage of secrets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretsConfig {
    /// The key as 64 hexadecimal digits; empty for a file in the data folder.
    pub key: Secret,
}

impl SecretsConfig {
    /// Returns what is wrong with the key, without repeating it.
    pub(super) fn problem(&self) -> Option<String> {
        let key = self.key.reveal().trim();
        let fits = key.len() == DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        (!key.is_empty() && !fits).then(|| {
            format!("secrets.key must be {DIGITS} hexadecimal digits, such as `openssl rand -hex 32` prints")
        })
    }
}

impl Config {
    /// Returns the file of the encryption key for secrets, which is used if the settings have none.
    pub(crate) fn secrets_file(&self) -> PathBuf {
        self.data.join(KEY_FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_key_is_refused_without_showing_it() {
        let mut config = Config::default();
        assert_eq!(config.secrets.problem(), None);
        config.secrets.key = Secret::new("0f".repeat(32));
        assert_eq!(config.secrets.problem(), None);
        config.secrets.key = Secret::new("not-a-key-4711");
        let told = config.check().unwrap_err().full();
        assert!(told.contains("secrets.key") && !told.contains("4711"), "{told}");
        assert!(!format!("{config:?}").contains("4711"));
    }
}
