//! Settings of accounts.

use std::collections::BTreeMap;

use serde::Deserialize;
use weft_core::Secret;
use weft_core::webhook::Network;

use super::oidc::{OidcConfig, is_base};

/// A shorter token could be guessed; a longer one is not accepted in requests.
const METRICS_TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=512;

/// Users, sign-ins, share tokens and the audit log.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountsConfig {
    /// Whether anyone who can reach the server may register.
    pub sign_up: bool,
    /// Lifetime of a sign-in, in days.
    pub session_days: u64,
    /// Lifetime of an invitation, in days.
    pub invitation_days: u64,
    /// Maximum number of failed password attempts for one account from one address per quarter of an hour.
    pub sign_in_attempts: u32,
    /// The same for all accounts from one address.
    pub sign_in_attempts_per_address: u32,
    /// Addresses and networks of proxies whose `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<String>,
    /// Maximum number of calls with one share token per minute.
    pub share_calls_per_minute: u32,
    /// Level of the audit log.
    pub audit: AuditLevel,
    /// How long its entries are kept, in days; 0: for ever.
    pub audit_days: u64,
    /// The URL at which browsers reach this server; empty if no redirects to it are needed.
    pub public_url: String,
    /// The token for `GET /metrics` only; empty: the owners of the tenant `default` may read it.
    pub metrics_token: Secret,
    /// OpenID Connect providers, by name.
    pub oidc: BTreeMap<String, OidcConfig>,
}

/// Level of the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditLevel {
    /// Logs nothing.
    Off,
    /// Logs changes, sign-ins, and requests that were refused for the caller's role.
    #[default]
    Changes,
    /// Also logs reads and runs.
    All,
}

impl Default for AccountsConfig {
    fn default() -> Self {
        Self {
            // Otherwise everyone who reaches the server could have a tenant of their own.
            sign_up: false,
            session_days: 14,
            invitation_days: 7,
            sign_in_attempts: 10,
            sign_in_attempts_per_address: 100,
            // Anybody else could name any address.
            trusted_proxies: Vec::new(),
            share_calls_per_minute: 60,
            // Recording reads and runs as well would cost a write per request.
            audit: AuditLevel::Changes,
            audit_days: 365,
            public_url: String::new(),
            metrics_token: Secret::default(),
            oidc: BTreeMap::new(),
        }
    }
}

impl AccountsConfig {
    /// Returns the networks of trusted proxies, without those that are not valid.
    pub fn trusted_proxies(&self) -> Vec<Network> {
        self.trusted_proxies.iter().filter_map(|text| Network::parse(text)).collect()
    }

    /// Returns settings with which no user could sign in or use the server.
    pub(super) fn problems(&self) -> Vec<String> {
        let one_at_least = [
            ("session_days", self.session_days == 0),
            ("invitation_days", self.invitation_days == 0),
            ("sign_in_attempts", self.sign_in_attempts == 0),
            ("sign_in_attempts_per_address", self.sign_in_attempts_per_address == 0),
            ("share_calls_per_minute", self.share_calls_per_minute == 0),
        ];
        let zeros = one_at_least.into_iter().filter(|(_, zero)| *zero);
        let mut wrong: Vec<String> =
            zeros.map(|(name, _)| format!("accounts.{name} must be at least 1")).collect();
        let needs_url = !self.public_url.is_empty() || !self.oidc.is_empty();
        if needs_url && !is_base(&self.public_url) {
            wrong.push(
                "accounts.public_url must be the address that browsers reach this server at, such as \
                 https://weft.example.com (http:// for this machine only): providers send people back to it"
                    .to_owned(),
            );
        }
        let token = self.metrics_token.reveal();
        let fits =
            METRICS_TOKEN_BYTES.contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !token.is_empty() && !fits {
            wrong.push(
                "accounts.metrics_token must have 16 to 512 letters, digits or signs without spaces, such as \
                 `openssl rand -hex 32` prints"
                    .to_owned(),
            );
        }
        let unreadable = self.trusted_proxies.iter().filter(|text| Network::parse(text).is_none());
        wrong.extend(unreadable.map(|text| {
            format!(
                "accounts.trusted_proxies: `{text}` is not an address or a network, such as 10.0.0.1 or 10.0.0.0/8"
            )
        }));
        wrong.extend(self.oidc.iter().flat_map(|(name, provider)| provider.problems(name)));
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_proxies_are_addresses_or_networks() {
        let trusted_proxies =
            ["10.0.0.1", "fd00::/8", "proxy.example", "10.0.0.0/33"].map(str::to_owned).to_vec();
        let config = AccountsConfig { trusted_proxies, ..AccountsConfig::default() };
        assert_eq!(config.trusted_proxies().len(), 2);
        let told = config.problems();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("accounts.trusted_proxies: `proxy.example`"), "{told:?}");
    }

    #[test]
    fn a_guessable_metrics_token_is_refused_without_showing_it() {
        let problems = |token: &str| {
            let config = AccountsConfig { metrics_token: Secret::new(token), ..AccountsConfig::default() };
            assert!(token.is_empty() || !format!("{config:?}").contains(token));
            config.problems()
        };
        for fine in [String::new(), "0f".repeat(32), "a-token_of.16+/=".to_owned()] {
            assert_eq!(problems(&fine), [""; 0], "{fine}");
        }
        for wrong in ["4711".to_owned(), "a token with spaces".to_owned(), "x".repeat(513)] {
            let told = problems(&wrong).concat();
            assert!(told.contains("accounts.metrics_token") && !told.contains(&wrong), "{told}");
        }
    }
}
