//! Secrets of a tenant, which canvases reference as `{secret.NAME}`.

use std::fmt;
use std::sync::Arc;

use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::secret::{self, Secret};

/// Prefix of references to secrets.
pub const PREFIX: &str = "secret.";
/// Maximum length of a name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// Minimum length of a value, in bytes: a shorter one would occur in any text and could not be masked.
pub const VALUE_BYTES_MIN: usize = secret::LENGTH_MIN;
/// Maximum length of a value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of secrets of a tenant.
// No run can mask more of them.
pub const SECRETS_MAX: u64 = 1_000;

/// What is known about a secret, except its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretInfo {
    /// Its name: letters, digits, `_` and `-`.
    pub name: Arc<str>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last stored, in milliseconds since 1970.
    pub updated_ms: i64,
}

/// A secret with its value.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// Its name, without [`PREFIX`].
    pub name: Arc<str>,
    /// Its value.
    pub value: Secret,
}

impl fmt::Debug for NamedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, secret::MASK)
    }
}

/// Stores secrets. Errors never contain any part of a value.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// Stores a value under a name, replacing an earlier one. Only the ciphertext of the value is written anywhere.
    ///
    /// # Errors
    /// `Invalid` as [`check`]; `QuotaExceeded` if there would be more than [`SECRETS_MAX`]; when it cannot be stored.
    async fn put(&self, tenant: &TenantId, name: &str, value: &Secret) -> Result<SecretInfo>;

    /// Returns all secrets of a tenant without their values, sorted by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>>;

    /// Returns the names of secrets whose values cannot be decrypted, because they were encrypted with a different key
    /// than the current one: those of a tenant, or of all tenants; at most [`SECRETS_MAX`].
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn unreadable(&self, tenant: Option<&TenantId>) -> Result<Vec<Arc<str>>> {
        let _ = tenant;
        Ok(Vec::new())
    }

    /// Returns those of the named secrets that exist, in any order and without duplicates.
    ///
    /// # Errors
    /// `Denied` when a value was encrypted with a different key than the current one; when the store cannot be read.
    async fn values(&self, tenant: &TenantId, names: &[Arc<str>]) -> Result<Vec<NamedSecret>>;

    /// Removes a secret.
    ///
    /// # Errors
    /// `NotFound`, also for one of another tenant.
    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()>;
}

/// Returns whether a text may be the name of a secret.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(fits)
}

/// Checks whether a secret can be stored.
///
/// # Errors
/// `Invalid`, with a message that does not contain the value.
pub fn check(name: &str, value: &Secret) -> Result<()> {
    if !is_name(name) {
        return Err(Error::invalid("this is not a valid name for a secret")
            .help(format!("use at most {NAME_CHARS_MAX} letters, digits, `_` and `-`")));
    }
    let bytes = value.reveal().len();
    if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes) {
        let help = format!(
            "a secret has {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes; a shorter one cannot be hidden in texts"
        );
        // A reader may have stopped at the limit, so a larger number would say nothing.
        let has = match bytes {
            0..=VALUE_BYTES_MAX => bytes.to_string(),
            _ => format!("more than {VALUE_BYTES_MAX}"),
        };
        return Err(Error::invalid(format!("the value of the secret `{name}` has {has} bytes")).help(help));
    }
    if value.reveal().contains('\0') {
        return Err(Error::invalid(format!("the value of the secret `{name}` contains a NUL character")));
    }
    Ok(())
}

/// The error for a secret that does not exist.
pub fn missing(name: &str) -> Error {
    Error::not_found(format!("there is no secret `{name}`")).help("`weft secret list` prints the names")
}

/// An empty store, for work that has no access to secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

#[async_trait]
impl Secrets for NoSecrets {
    async fn put(&self, _: &TenantId, name: &str, value: &Secret) -> Result<SecretInfo> {
        check(name, value)?;
        Err(Error::new(ErrorKind::Unsupported, "secrets are not stored here"))
    }

    async fn list(&self, _: &TenantId) -> Result<Vec<SecretInfo>> {
        Ok(Vec::new())
    }

    async fn values(&self, _: &TenantId, _: &[Arc<str>]) -> Result<Vec<NamedSecret>> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &TenantId, name: &str) -> Result<()> {
        Err(missing(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_that_can_be_stored() {
        let fits = |name: &str, value: &str| check(name, &Secret::new(value)).is_ok();
        assert!(fits("SMTP_password-2", "12345"));
        for name in ["", "a.b", "a b", "ü", "a}", &"n".repeat(NAME_CHARS_MAX + 1)] {
            assert!(!fits(name, "12345"), "{name}");
        }
        for value in ["", "1234", "12345\0", &"v".repeat(VALUE_BYTES_MAX + 1)] {
            assert!(!fits("NAME", value), "{}", value.len());
        }
        let told = check("NAME", &Secret::new("rose")).unwrap_err().full();
        assert!(!told.contains("rose") && told.contains("4 bytes"), "{told}");
        let told = check("NAME", &Secret::new("v".repeat(VALUE_BYTES_MAX + 2))).unwrap_err().full();
        assert!(told.contains("has more than 16384 bytes"), "{told}");
    }
}
