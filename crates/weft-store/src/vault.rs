//! Secrets of tenants in the store, encrypted with AES-256-GCM under a key that is stored elsewhere.
//!
//! Ciphertext is bound to its tenant and its name, so a row that is moved cannot be decrypted. The key comes from the
//! settings or is in a file that only its owner can read, created when the first secret is stored.

mod credentials;

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use weft_core::id::TenantId;
use weft_core::seam::secrets::{NamedSecret, SecretInfo, check, missing};
use weft_core::seam::tool_server_store::StoredToolServer;
use weft_core::seam::{Secrets, ToolServerStore};
use weft_core::{Error, ErrorKind, Result, Secret, async_trait, hex};

use crate::Store;
use crate::ids::text;
use crate::private;
use crate::rows::secret::Model;
use crate::rows::tool_server;
pub use credentials::SealedCredentials;

/// Length of a key in bytes.
const KEY_BYTES: usize = 32;
/// Length in bytes of the name of a key, which reveals nothing about the key.
const KEY_NAME_BYTES: usize = 8;
/// Format version of the ciphertext: nonce, ciphertext, tag.
const FORM: u8 = 1;

/// A key that encrypts secrets.
#[derive(Clone)]
pub struct VaultKey([u8; KEY_BYTES]);

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl VaultKey {
    /// Parses a key from its 64 hexadecimal digits.
    ///
    /// # Errors
    /// `Invalid` for anything else; the message does not contain the text.
    pub fn from_hex(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid("the key for secrets must be 64 hexadecimal digits")
                .help("create one with `openssl rand -hex 32`")
        };
        let text = text.trim();
        // Taking two bytes at a time, as below, would fail within a longer character.
        if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
            return Err(wrong());
        }
        let mut key = [0; KEY_BYTES];
        for (place, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(key))
    }

    fn random() -> Result<Self> {
        let mut key = [0; KEY_BYTES];
        fill(&mut key)?;
        Ok(Self(key))
    }

    /// A name that distinguishes it from other keys.
    fn name(&self) -> String {
        let mut hash = Sha256::new();
        // With a beginning of its own, so that no other hash of the key is the same as its name.
        hash.update(b"weft key of secrets\0");
        hash.update(self.0);
        hex(&hash.finalize()[..KEY_NAME_BYTES])
    }

    fn cipher(&self) -> Result<LessSafeKey> {
        let key = UnboundKey::new(&AES_256_GCM, &self.0);
        Ok(LessSafeKey::new(key.map_err(|_| Error::internal("cannot use the key for secrets"))?))
    }
}

/// Where the key is stored.
#[derive(Clone, Debug)]
pub enum KeyPlace {
    /// Passed directly.
    Given(VaultKey),
    /// In this file, once there is a secret.
    File(PathBuf),
    /// Only in this process, like the secrets it encrypts.
    Process,
}

/// The secrets of a store.
pub struct Vault {
    store: Store,
    place: KeyPlace,
    key: OnceCell<VaultKey>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("place", &self.place).finish_non_exhaustive()
    }
}

/// An encrypted value in the store.
struct Sealed<'a> {
    /// A description for people.
    what: String,
    /// What to do when it cannot be decrypted.
    remedy: String,
    /// The additional data it is bound to, without which it cannot be decrypted.
    place: &'a [u8],
    /// The name of the key that encrypted it.
    key_name: &'a str,
    bytes: &'a [u8],
}

/// What to do if the key does not exist yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AbsentKey {
    Make,
    Refuse,
}

impl Vault {
    /// The secrets of a store, with the key at this place.
    pub fn new(store: Store, place: KeyPlace) -> Self {
        Self { store, place, key: OnceCell::new() }
    }

    async fn key(&self, absent: AbsentKey) -> Result<&VaultKey> {
        self.key
            .get_or_try_init(async || match self.place.clone() {
                KeyPlace::Given(key) => Ok(key),
                KeyPlace::Process => VaultKey::random(),
                KeyPlace::File(path) => {
                    // A second key would make it look as if what exists were readable again.
                    let makes = absent == AbsentKey::Make && !self.store.has_sealed().await?;
                    let absent = if makes { AbsentKey::Make } else { AbsentKey::Refuse };
                    let read = tokio::task::spawn_blocking(move || key_in(&path, absent)).await;
                    read.map_err(|cause| Error::internal("cannot read the key for secrets").because(cause))?
                }
            })
            .await
    }

    fn open(&self, key: &VaultKey, row: &Model) -> Result<Secret> {
        let sealed = Sealed {
            what: format!("the secret `{}`", row.name),
            remedy: format!("set it again with `weft secret set {}`", row.name),
            place: &bound_to(&row.tenant_id, &row.name),
            key_name: &row.key_name,
            bytes: &row.sealed,
        };
        self.unsealed(key, &sealed)
    }

    fn unsealed(&self, key: &VaultKey, sealed: &Sealed<'_>) -> Result<Secret> {
        let &Sealed { ref what, ref remedy, place, key_name, bytes } = sealed;
        // Checked before decrypting: the ciphertext alone does not tell a different key from damage, and the remedies
        // differ.
        if key_name != key.name() {
            return Err(self.other_key(what));
        }
        let damaged = || {
            Error::new(ErrorKind::Garbled, format!("what is stored of {what} is damaged"))
                .help(remedy.clone())
        };
        let sealed = bytes.strip_prefix(&[FORM]).ok_or_else(damaged)?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN).ok_or_else(damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
        let mut sealed = sealed.to_vec();
        let value =
            key.cipher()?.open_in_place(nonce, Aad::from(place), &mut sealed).map_err(|_| damaged())?;
        let value = std::str::from_utf8(value).map_err(|_| damaged())?;
        Ok(Secret::new(value))
    }

    fn other_key(&self, what: &str) -> Error {
        let help = match &self.place {
            KeyPlace::File(_) => {
                "restore the file `secrets.key` of that time in the data folder, or store the value again"
            }
            KeyPlace::Given(_) | KeyPlace::Process => {
                "configure that key as `secrets.key`, or store the value again"
            }
        };
        Error::new(ErrorKind::Denied, format!("{what} was stored under another key")).help(help)
    }
}

fn fill(bytes: &mut [u8]) -> Result<()> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| Error::internal("the operating system provides no random numbers"))
}

/// The additional data that a value is bound to, without which it cannot be decrypted.
fn bound_to(tenant: &str, name: &str) -> Vec<u8> {
    [tenant.as_bytes(), b"\0", name.as_bytes()].concat()
}

fn sealed(key: &VaultKey, tenant: &str, name: &str, value: &Secret) -> Result<Vec<u8>> {
    // Random and not counted: several processes encrypt under one key and know nothing of each other.
    let mut nonce = [0; NONCE_LEN];
    fill(&mut nonce)?;
    let mut bytes = value.reveal().as_bytes().to_vec();
    let bound = Aad::from(bound_to(tenant, name));
    key.cipher()?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut bytes)
        .map_err(|_| Error::internal(format!("cannot encrypt the secret `{name}`")))?;
    Ok([&[FORM][..], &nonce, &bytes].concat())
}

/// Reads the key from a file, creating it if requested.
fn key_in(path: &Path, absent: AbsentKey) -> Result<VaultKey> {
    private::tighten_file(path);
    match std::fs::read_to_string(path) {
        Ok(text) => VaultKey::from_hex(&text).map_err(|error| {
            Error::new(
                ErrorKind::Denied,
                format!("the file {} does not contain a key for secrets", path.display()),
            )
            .because(error)
            .help("restore the file of that time, or remove it together with all secrets")
        }),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && absent == AbsentKey::Make => {
            make_key(path).map_err(|cause| unusable(path, cause))?;
            // Another process may have created it first.
            key_in(path, AbsentKey::Refuse)
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(lost(path)),
        Err(cause) => Err(unusable(path, cause)),
    }
}

fn lost(path: &Path) -> Error {
    let path = path.display();
    let message =
        format!("the key is missing that the stored secrets were encrypted with: there is no file {path}");
    Error::new(ErrorKind::Denied, message).help(format!(
        "restore the file, or configure the key as `secrets.key`; if it is lost, create a new one with `openssl rand \
         -hex 32 > {path}` and set every secret again"
    ))
}

fn unusable(path: &Path, cause: io::Error) -> Error {
    Error::new(ErrorKind::Denied, format!("cannot use the key for secrets in {}", path.display()))
        .because(cause)
        .help("restore the file, or configure the key as `secrets.key`")
}

/// Writes a new key to a temporary file first, so that a partial key is never visible; if a key exists by then, that
/// one stays.
fn make_key(path: &Path) -> io::Result<()> {
    let key = VaultKey::random().map_err(io::Error::other)?;
    let beside = path.with_extension(format!("{}.new", weft_core::id::generate().as_str()));
    // A link rather than a rename, which would replace a key that another process has created meanwhile.
    let made = write_key(&beside, &key).and_then(|()| match std::fs::hard_link(&beside, path) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    });
    let removed = std::fs::remove_file(&beside);
    made.and(removed)
}

fn write_key(path: &Path, key: &VaultKey) -> io::Result<()> {
    // The permissions are set before the key is written: others can never read it.
    private::make_file(path)?;
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    writeln!(file, "{}", hex(&key.0))?;
    file.sync_all()
}

/// The name that a server's data is bound to. It cannot be that of a secret, because those contain no spaces.
fn of_server(id: &str) -> String {
    format!("MCP server {id}")
}

/// The MCP servers of tenants, encrypted with the key of a vault.
#[derive(Debug)]
pub struct SealedToolServers(pub Vault);

#[async_trait]
impl ToolServerStore for SealedToolServers {
    async fn add(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<()> {
        let row = self.0.sealed_server(tenant, server).await?;
        self.0.store.add_tool_server(&row).await
    }

    async fn change(&self, tenant: &TenantId, server: &StoredToolServer) -> Result<bool> {
        let row = self.0.sealed_server(tenant, server).await?;
        self.0.store.change_tool_server(&row).await
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<StoredToolServer>> {
        let mut servers = Vec::new();
        for row in self.0.store.tool_servers_of(tenant).await? {
            servers.push(self.0.opened_server(row).await?);
        }
        Ok(servers)
    }

    async fn get(&self, tenant: &TenantId, id: &str) -> Result<StoredToolServer> {
        let row = self.0.store.tool_server(tenant, id).await?;
        self.0.opened_server(row).await
    }

    async fn remove(&self, tenant: &TenantId, id: &str) -> Result<()> {
        self.0.store.remove_tool_server(tenant, id).await
    }
}

impl Vault {
    async fn sealed_server(
        &self,
        tenant: &TenantId,
        server: &StoredToolServer,
    ) -> Result<tool_server::Model> {
        let key = self.key(AbsentKey::Make).await?;
        let bytes = sealed(key, &text(tenant.as_str()), &of_server(&server.id), &server.sealed)?;
        tool_server::Model::new(tenant, server, key.name(), bytes)
    }

    async fn opened_server(&self, row: tool_server::Model) -> Result<StoredToolServer> {
        let key = self.key(AbsentKey::Refuse).await?;
        let place = bound_to(&row.tenant_id, &of_server(&row.id));
        let sealed = Sealed {
            what: format!("the MCP server `{}`", row.name),
            remedy: "remove it, and add it again".to_owned(),
            place: &place,
            key_name: &row.key_name,
            bytes: &row.sealed,
        };
        let secret = self.unsealed(key, &sealed)?;
        row.into_server(secret)
    }
}

#[async_trait]
impl Secrets for Vault {
    async fn put(&self, tenant: &TenantId, name: &str, value: &Secret) -> Result<SecretInfo> {
        check(name, value)?;
        let key = self.key(AbsentKey::Make).await?;
        let tenant = text(tenant.as_str());
        let now_ms = self.store.inner.clock.now_ms();
        let row = Model {
            sealed: sealed(key, &tenant, name, value)?,
            tenant_id: tenant,
            name: name.to_owned(),
            key_name: key.name(),
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        self.store.put_secret(&row).await
    }

    async fn list(&self, tenant: &TenantId) -> Result<Vec<SecretInfo>> {
        Ok(self.store.secrets_of(tenant).await?.iter().map(Model::info).collect())
    }

    async fn unreadable(&self, tenant: Option<&TenantId>) -> Result<Vec<Arc<str>>> {
        let key_name = match self.key(AbsentKey::Refuse).await {
            Ok(key) => key.name(),
            // No key has this name: without a key, none of them can be decrypted.
            Err(error) if error.kind == ErrorKind::Denied => String::new(),
            Err(error) => return Err(error),
        };
        let names = self.store.secrets_of_other_keys(tenant, &key_name).await?;
        Ok(names.into_iter().map(Arc::from).collect())
    }

    async fn values(&self, tenant: &TenantId, names: &[Arc<str>]) -> Result<Vec<NamedSecret>> {
        // First of all, because without any secret there may be no key yet.
        let rows = self.store.secrets_named(tenant, names).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        // A new key could not decrypt anything stored; reporting that the old one is missing is better.
        let key = self.key(AbsentKey::Refuse).await?;
        let opened = |row: &Model| {
            let value = self.open(key, row)?;
            Ok(NamedSecret { name: Arc::from(row.name.as_str()), value })
        };
        rows.iter().map(opened).collect()
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<()> {
        if self.store.remove_secret(tenant, name).await? { Ok(()) } else { Err(missing(name)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant() -> TenantId {
        TenantId::from("t")
    }

    async fn value(vault: &Vault) -> Result<String> {
        let found = vault.values(&tenant(), &["key".into()]).await?;
        Ok(found.first().map(|named| named.value.reveal().to_owned()).unwrap_or_default())
    }

    #[tokio::test]
    async fn the_key_file_is_created_once_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.key");
        let store = Store::open("sqlite::memory:").await.unwrap();
        let vault = || Vault::new(store.clone(), KeyPlace::File(file.clone()));
        // Reading creates no key file.
        assert_eq!(value(&vault()).await.unwrap(), "");
        assert!(!file.exists());
        // Two processes that start together use one key.
        let (one, other) = (vault(), vault());
        let (secret, tenant_of_both) = (Secret::new("rosebud-0815"), tenant());
        let (a, b) = tokio::join!(
            one.put(&tenant_of_both, "key", &secret),
            other.put(&tenant_of_both, "more", &secret)
        );
        a.unwrap();
        b.unwrap();
        assert_eq!(value(&vault()).await.unwrap(), "rosebud-0815");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn a_lost_key_is_not_replaced_while_secrets_exist() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.key");
        let store = Store::open("sqlite::memory:").await.unwrap();
        let vault = || Vault::new(store.clone(), KeyPlace::File(file.clone()));
        let (other, secret) = (TenantId::from("other"), Secret::new("rosebud-0815"));
        let unreadable = async |tenant: Option<&TenantId>| {
            let names = vault().unreadable(tenant).await.unwrap();
            names.into_iter().map(|name| name.to_string()).collect::<Vec<_>>()
        };
        vault().put(&tenant(), "key", &secret).await.unwrap();
        assert_eq!(unreadable(None).await, [""; 0]);
        let key = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let error = vault().put(&other, "more", &secret).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(error.full().contains("openssl rand -hex 32"), "{}", error.full());
        assert!(!file.exists());
        assert_eq!(unreadable(Some(&tenant())).await, ["key"]);
        assert_eq!(unreadable(Some(&other)).await, [""; 0]);
        // A key that somebody has put there deliberately is used.
        std::fs::write(&file, "1".repeat(64)).unwrap();
        vault().put(&other, "more", &secret).await.unwrap();
        assert_eq!(unreadable(None).await, ["key"]);
        std::fs::write(&file, key).unwrap();
        assert_eq!(value(&vault()).await.unwrap(), "rosebud-0815");
        // Without any secret, a new key is created.
        vault().remove(&tenant(), "key").await.unwrap();
        vault().remove(&other, "more").await.unwrap();
        std::fs::remove_file(&file).unwrap();
        vault().put(&tenant(), "key", &secret).await.unwrap();
        assert!(file.exists());
    }

    #[tokio::test]
    async fn a_wrong_key_and_damage_give_different_errors() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let vault = |digit: &str| {
            let key = VaultKey::from_hex(&digit.repeat(64)).unwrap();
            Vault::new(store.clone(), KeyPlace::Given(key))
        };
        vault("1").put(&tenant(), "key", &Secret::new("rosebud-0815")).await.unwrap();
        let error = value(&vault("2")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(error.full().contains("another key"), "{}", error.full());
        // A row copied to another tenant or another name cannot be decrypted.
        let rows = store.secrets_of(&tenant()).await.unwrap();
        let [row] = &rows[..] else { panic!() };
        for moved in [
            Model { tenant_id: "u".to_owned(), ..row.clone() },
            Model { name: "other".to_owned(), ..row.clone() },
            Model { sealed: row.sealed[..row.sealed.len() - 1].to_vec(), ..row.clone() },
            Model { sealed: Vec::new(), ..row.clone() },
        ] {
            let key = VaultKey::from_hex(&"1".repeat(64)).unwrap();
            assert_eq!(vault("1").open(&key, &moved).unwrap_err().kind, ErrorKind::Garbled);
        }
        // Storing the secret again repairs it.
        vault("2").put(&tenant(), "key", &Secret::new("rosebud-0816")).await.unwrap();
        assert_eq!(value(&vault("2")).await.unwrap(), "rosebud-0816");
    }

    #[tokio::test]
    async fn the_same_value_encrypts_differently_each_time_and_never_in_clear() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let vault = Vault::new(store.clone(), KeyPlace::Process);
        let mut seen = Vec::new();
        for _ in 0..2 {
            vault.put(&tenant(), "key", &Secret::new("rosebud-0815")).await.unwrap();
            seen.push(store.secrets_of(&tenant()).await.unwrap()[0].sealed.clone());
        }
        assert_ne!(seen[0], seen[1]);
        assert!(!seen[0].windows(7).any(|window| window == b"rosebud"));
    }

    #[test]
    fn an_invalid_key_is_refused_without_showing_it() {
        for text in ["", "abc", &"g".repeat(64), &"ü".repeat(32)] {
            let error = VaultKey::from_hex(text).unwrap_err();
            assert!(error.kind == ErrorKind::Invalid && (text.is_empty() || !error.full().contains(text)));
        }
    }
}
