//! Settings of OpenID Connect providers.

use std::collections::BTreeMap;

use serde::Deserialize;
use weft_core::Secret;
use weft_core::access::MemberRole;

use crate::default_tenant::DEFAULT_TENANT;

/// An OpenID Connect provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OidcConfig {
    /// Its name for people; defaults to its name in the settings.
    pub title: String,
    /// Its issuer: the URL below which its discovery document is found.
    pub issuer: String,
    /// The client id of this server.
    pub client_id: String,
    /// The client secret of this server; empty for a client without one.
    pub client_secret: Secret,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Whether people without an account get one.
    pub sign_up: bool,
    /// Domains of addresses for which accounts are created; `*` for all.
    pub allowed_domains: Vec<String>,
    /// Whether a person whose address belongs to an account is taken for that user.
    pub link_by_email: bool,
    /// The tenant of new users.
    pub tenant: String,
    /// Their role in it.
    pub role: MemberRole,
    /// The claim with groups or roles; empty: none is used.
    pub role_claim: String,
    /// Roles in `tenant`, by group.
    pub roles: BTreeMap<String, MemberRole>,
}

impl Default for OidcConfig {
    fn default() -> Self {
        Self {
            title: String::new(),
            issuer: String::new(),
            client_id: String::new(),
            client_secret: Secret::default(),
            scopes: ["openid", "email", "profile"].map(str::to_owned).to_vec(),
            sign_up: false,
            allowed_domains: Vec::new(),
            link_by_email: true,
            tenant: DEFAULT_TENANT.to_owned(),
            role: MemberRole::User,
            role_claim: String::new(),
            roles: BTreeMap::new(),
        }
    }
}

/// Stands for every domain.
pub(crate) const EVERY_DOMAIN: &str = "*";

/// Returns whether a connection is protected from eavesdropping and tampering: by TLS, or within this machine.
pub(crate) fn is_private_way(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    match (url.scheme(), url.host()) {
        ("https", host) => host.is_some(),
        // Other names are not resolved here, and may lead to another machine.
        ("http", Some(url::Host::Domain(name))) => name == "localhost",
        ("http", Some(url::Host::Ipv4(ip))) => ip.is_loopback(),
        ("http", Some(url::Host::Ipv6(ip))) => ip.is_loopback(),
        _ => false,
    }
}

/// Returns whether a URL is such an address, complete and without a query or fragment: other URLs are built by
/// appending to it.
pub(super) fn is_base(url: &str) -> bool {
    let begins = url.starts_with("https://") || url.starts_with("http://");
    let is_plain = url.bytes().all(|c| c.is_ascii_graphic() && !matches!(c, b'?' | b'#' | b'@' | b'\\'));
    begins && is_plain && url.len() <= 1_024 && is_private_way(url)
}

impl OidcConfig {
    /// Returns settings with which no user could sign in.
    pub(super) fn problems(&self, name: &str) -> Vec<String> {
        let at = |what: &str| format!("accounts.oidc.{name}{what}");
        let mut wrong = Vec::new();
        let mut need = |fits: bool, what: String| wrong.extend((!fits).then_some(what));
        let is_word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        need(
            (1..=32).contains(&name.len()) && name.bytes().all(is_word),
            at(": its name must have 1 to 32 lower-case letters, digits, - and _: it is part of URLs"),
        );
        need(
            is_base(&self.issuer),
            at(".issuer must begin with https:// (http:// for this machine only) and have no ?, # and @"),
        );
        need(!self.client_id.trim().is_empty(), at(".client_id must be set"));
        need(self.scopes.iter().any(|scope| scope == "openid"), at(".scopes must have \"openid\""));
        need(
            self.scopes.iter().all(|scope| !scope.is_empty() && scope.bytes().all(|c| c.is_ascii_graphic())),
            at(".scopes must be words"),
        );
        need(!self.tenant.trim().is_empty(), at(".tenant must be set"));
        need(
            !matches!(self.tenant.trim(), "." | ".."),
            at(".tenant must have a letter or a digit: `.` and `..` cannot be part of a URL"),
        );
        need(
            !self.sign_up || !self.allowed_domains.is_empty(),
            at(".allowed_domains must say whose addresses may get an account, such as [\"example.com\"]; \
                [\"*\"] admits everybody whom the provider knows"),
        );
        need(
            self.roles.is_empty() || !self.role_claim.is_empty(),
            at(".roles needs `role_claim`, the claim that they are in"),
        );
        wrong
    }

    /// Returns whether accounts are created for addresses of this domain.
    pub(crate) fn allows(&self, email: &str) -> bool {
        let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
        let is_it = |allowed: &String| allowed == EVERY_DOMAIN || allowed.eq_ignore_ascii_case(domain);
        !domain.is_empty() && self.allowed_domains.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_must_be_complete_and_admits_nobody_by_default() {
        let check = |text: &str, parts: &[&str]| {
            let found = toml::from_str::<OidcConfig>(text).unwrap().problems("corp");
            assert_eq!(found.len(), parts.len(), "{text}: {found:?}");
            for (problem, part) in found.iter().zip(parts) {
                assert!(problem.contains(part), "{problem}");
            }
        };
        let fine = "issuer = \"https://x.example\"\nclient_id = \"weft\"\n";
        let with = |more: &str| format!("{fine}{more}");
        check(fine, &[]);
        check("", &["corp.issuer", "corp.client_id"]);
        for issuer in
            ["http://x.example", "http://127.0.0.1.x.example", "https://x/?a", "ftp://x", "https://a@b"]
        {
            check(&format!("issuer = \"{issuer}\"\nclient_id = \"weft\""), &["corp.issuer"]);
        }
        for issuer in ["http://localhost:9", "http://127.0.0.1:9/realm", "http://[::1]:9"] {
            check(&format!("issuer = \"{issuer}\"\nclient_id = \"weft\""), &[]);
        }
        for open in [
            "http://127.0.0.1:9@x.example",
            "http://localhost\\@x.example",
            "http:x.example",
            "https://",
            "x",
        ] {
            assert!(
                !is_private_way(open) || url::Url::parse(open).unwrap().host_str() == Some("localhost"),
                "{open}"
            );
            assert!(!is_base(open), "{open}");
        }
        check(&with("scopes = [\"email\"]"), &["must have \"openid\""]);
        check(&with("scopes = [\"openid\", \"a b\"]"), &["must be words"]);
        check(&with("tenant = \" \""), &["tenant must be set"]);
        check(&with("tenant = \"..\""), &["tenant must have a letter"]);
        check(&with("sign_up = true"), &["allowed_domains"]);
        check(&with("sign_up = true\nallowed_domains = [\"*\"]"), &[]);
        check(&with("roles = {admins = \"owner\"}"), &["role_claim"]);
        check(&with("roles = {admins = \"owner\"}\nrole_claim = \"groups\""), &[]);
        let one = toml::from_str::<OidcConfig>(fine).unwrap();
        assert!(!one.sign_up && !one.problems("Corp/x").is_empty());
    }

    #[test]
    fn the_public_url_must_be_usable_for_redirects() {
        let check = |url: &str, fine: bool| {
            let one = OidcConfig {
                issuer: "https://x.example".to_owned(),
                client_id: "weft".to_owned(),
                ..OidcConfig::default()
            };
            let oidc = [("corp".to_owned(), one)].into();
            let config =
                super::super::AccountsConfig { public_url: url.to_owned(), oidc, ..Default::default() };
            let problems = config.problems();
            assert_eq!(problems.is_empty(), fine, "{url}: {problems:?}");
        };
        for url in ["https://weft.example.com", "https://weft.example.com/below/", "http://localhost:9380"] {
            check(url, true);
        }
        for url in
            ["", "weft.example.com", "http://weft.example.com", "HTTPS://weft.example.com", "https://x/ü"]
        {
            check(url, false);
        }
    }

    #[test]
    fn email_domains_match_as_a_whole() {
        let with = |domains: &[&str]| OidcConfig {
            allowed_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
            ..OidcConfig::default()
        };
        let shop = with(&["Example.com"]);
        assert!(shop.allows("ann@example.com") && shop.allows("ann@EXAMPLE.com"));
        for other in
            ["ann@evil-example.com", "ann@example.com.evil", "ann@sub.example.com", "example.com", "ann@"]
        {
            assert!(!shop.allows(other), "{other}");
        }
        assert!(!with(&[]).allows("ann@example.com") && with(&["*"]).allows("ann@example.com"));
    }
}
