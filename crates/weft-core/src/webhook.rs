//! How other programs call a canvas: the webhook settings of its Begin, parsed and checked once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::seam::secrets::PREFIX;
use crate::value::Json;

/// Maximum size of a call's body in bytes. Also the default limit.
// The payload is part of the turn's input, and so of the journal of the run.
pub const BODY_BYTES_MAX: u64 = 10 << 20;

/// How a canvas may be called. Anything not allowed here is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// The allowed methods, in upper case; empty means any method.
    pub methods: Vec<String>,
    /// The required media type of a call with a body, in lower case; absent means any.
    pub content_type: Option<String>,
    /// Who may call.
    pub auth: WebhookAuth,
    /// Maximum size of the body in bytes.
    pub body_bytes_max: u64,
    /// The networks that calls may come from; empty means anywhere.
    pub networks: Vec<Network>,
    /// The rate limit.
    pub rate: Rate,
    /// The query parameters that are passed on.
    pub query: Section,
    /// The headers that are passed on.
    pub headers: Section,
    /// The members of the body that are passed on.
    pub body: Section,
    /// The response to the caller.
    pub answer: WebhookAnswer,
}

/// How callers authenticate.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookAuth {
    /// Not configured; all calls are refused.
    Unsaid,
    /// Anonymous access is configured but not confirmed as intended; all calls are refused.
    Unconfirmed,
    /// Anyone may call; the canvas says so explicitly.
    Anonymous,
    /// Callers send a secret text in a header.
    Token {
        /// The header.
        header: String,
        /// The text.
        value: SecretText,
    },
    /// Callers send a user name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: SecretText,
    },
    /// Callers send a JSON Web Token that is signed with a secret.
    Jwt {
        /// The secret.
        secret: SecretText,
        /// The signature algorithm.
        algorithm: HmacAlgorithm,
        /// The required audience, if it is checked.
        audience: Option<String>,
        /// The required issuer, if it is checked.
        issuer: Option<String>,
        /// Further claims that the token must contain.
        required_claims: Vec<String>,
    },
    /// Callers sign the body with a secret.
    Signature {
        /// The secret.
        secret: SecretText,
        /// The header that contains the signature in hexadecimal digits, optionally prefixed with `sha256=`.
        header: String,
        /// The header that contains the signing time, in seconds since 1970. If set, the signed text is the time, a
        /// dot and the body.
        timestamp_header: Option<String>,
        /// Maximum age of a signature that has a time.
        tolerance: Duration,
    },
}

/// An algorithm for signing with a shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HmacAlgorithm {
    /// With SHA-256.
    Hs256,
    /// With SHA-384.
    Hs384,
    /// With SHA-512.
    Hs512,
}

impl HmacAlgorithm {
    /// Returns the algorithm with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "HS384" => Some(Self::Hs384),
            "HS512" => Some(Self::Hs512),
            _ => None,
        }
    }

    /// Returns its name as used in the header of a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }
}

/// A text that must not be revealed: either the text itself, or a reference to a secret of the tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(crate::masking::MASK)
    }
}

impl SecretText {
    /// Reads the text as a canvas writes it; `None` for a blank text.
    pub fn new(text: &str) -> Option<Self> {
        // Not trimmed: spaces may be part of a password.
        (!text.trim().is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the name of the secret that it refers to, if any.
    pub fn name(&self) -> Option<&str> {
        let inner = self.0.trim().strip_prefix('{')?.strip_suffix('}')?;
        // Some editors write double braces.
        let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
        inner.trim().strip_prefix(PREFIX)
    }

    /// Returns the text itself, if it does not refer to a secret.
    pub fn literal(&self) -> &str {
        &self.0
    }
}

/// An IP network: the addresses that share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Number of bits that all IPv4 addresses in IPv6 form have in common (RFC 4291 §2.5.5.2).
const MAPPED_BITS: u8 = 96;

impl Network {
    /// Parses an address, or an address and a prefix length separated by a slash.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text.trim(), None),
        };
        let address = address.parse::<IpAddr>().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return None;
        }
        // Callers are compared in their IPv4 form, whose prefix is shorter by what all mapped addresses begin with.
        match (address.to_canonical(), bits.checked_sub(MAPPED_BITS)) {
            (own @ IpAddr::V4(_), Some(bits)) => Some(Self { address: own, bits }),
            // All of IPv4, which nobody writes in this way.
            (IpAddr::V4(_), None) if bits > 32 => None,
            _ => Some(Self { address, bits }),
        }
    }

    /// Returns whether the network contains this address. IPv4 addresses may be given in their IPv6-mapped form.
    pub fn contains(self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u8| {
            let rest = width - self.bits;
            // A prefix of length zero matches every address, and shifting by the full width would overflow.
            rest == width || (a >> rest) == (b >> rest)
        };
        // A server that listens on IPv6 sees IPv4 callers as `::ffff:a.b.c.d`.
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(u32::from(own).into(), u32::from(other).into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.into(), other.into(), 128),
            // `::/0` contains every caller.
            (IpAddr::V6(own), IpAddr::V4(other)) => same(own.into(), other.to_ipv6_mapped().into(), 128),
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }
}

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Maximum number of calls …
    pub limit: u32,
    /// … per this period.
    pub per: Duration,
}

impl Default for Rate {
    fn default() -> Self {
        Self { limit: 60, per: Duration::from_secs(60) }
    }
}

/// Which values of a part of a call are passed on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The values by name. Header names are case-insensitive.
    pub fields: BTreeMap<String, SectionField>,
}

/// A value that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionField {
    /// The type it must have.
    pub kind: PayloadType,
    /// Whether a call without it is refused.
    pub required: bool,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadType {
    /// Anything.
    Any,
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// An object.
    Object,
    /// A list.
    List(Option<ItemType>),
    /// Uploaded files of a form.
    Files,
}

/// The type of the entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemType {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// An object.
    Object,
}

impl PayloadType {
    /// Parses a type by its name, such as `array<string>`.
    pub fn parse(name: &str) -> Option<Self> {
        let item = |name: &str| match name {
            "string" => Some(ItemType::Text),
            "number" => Some(ItemType::Number),
            "boolean" => Some(ItemType::Flag),
            "object" => Some(ItemType::Object),
            _ => None,
        };
        let name = name.trim().to_ascii_lowercase();
        Some(match name.as_str() {
            "" | "any" => Self::Any,
            "array" => Self::List(None),
            "file" => Self::Files,
            "integer" => Self::Number,
            name => match name.strip_prefix("array<").and_then(|rest| rest.strip_suffix('>')) {
                Some(of) => Self::List(Some(item(of.trim())?)),
                None => match item(name)? {
                    ItemType::Text => Self::Text,
                    ItemType::Number => Self::Number,
                    ItemType::Flag => Self::Flag,
                    ItemType::Object => Self::Object,
                },
            },
        })
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Text => "string",
            Self::Number => "number",
            Self::Flag => "boolean",
            Self::Object => "object",
            Self::List(None) => "array",
            Self::List(Some(ItemType::Text)) => "array<string>",
            Self::List(Some(ItemType::Number)) => "array<number>",
            Self::List(Some(ItemType::Flag)) => "array<boolean>",
            Self::List(Some(ItemType::Object)) => "array<object>",
            Self::Files => "file",
        }
    }

    /// Returns the value used if an optional one is missing.
    pub fn missing(self) -> Json {
        match self {
            Self::Any => Json::Null,
            Self::Text => "".into(),
            Self::Number => 0.into(),
            Self::Flag => false.into(),
            Self::Object => Json::Object(serde_json::Map::new()),
            Self::List(_) | Self::Files => Json::Array(Vec::new()),
        }
    }
}

/// The response to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAnswer {
    /// The same response to every caller, before anything is done.
    Immediate {
        /// The HTTP status.
        status: u16,
        /// The body; it is sent as JSON if it is valid JSON.
        body: String,
    },
    /// The answer of the run once it has ended; piece by piece for callers that ask for events.
    Streaming,
    /// The id of the run.
    Deferred,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_match_by_prefix() {
        let check = |network: &str, address: &str, expected: bool| {
            let found = Network::parse(network).unwrap().contains(address.parse().unwrap());
            assert_eq!(found, expected, "{network} {address}");
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "10.1.2.4", false);
        check("0.0.0.0/0", "203.0.113.9", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("10.0.0.0/8", "::ffff:10.0.0.9", true);
        check("2001:db8::/32", "2001:db8:ffff::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::/0", "::1", true);
        check("::/0", "203.0.113.9", true);
        check("::/0", "::ffff:203.0.113.9", true);
        check("::/96", "203.0.113.9", false);
        check("2001:db8::/32", "203.0.113.9", false);
        check("::ffff:10.1.2.3", "10.1.2.3", true);
        check("::ffff:10.1.2.3", "10.1.2.4", false);
        check("::ffff:10.0.0.0/104", "::ffff:10.255.0.1", true);
        check("::ffff:10.0.0.0/104", "11.0.0.1", false);
        check("::ffff:10.0.0.0/96", "11.0.0.1", true);
        let wrong = ["", "x", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "10.0.0.0/"];
        for wrong in wrong.into_iter().chain(["::ffff:10.0.0.0/33", "::ffff:10.0.0.0/95"]) {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_a_name_or_a_value_and_never_shown() {
        let text = |text: &str| SecretText::new(text).unwrap();
        assert_eq!(text("{secret.KEY}").name(), Some("KEY"));
        assert_eq!(text(" {{secret.KEY}} ").name(), Some("KEY"));
        assert_eq!((text("open").name(), text("open").literal()), (None, "open"));
        assert_eq!(SecretText::new("  "), None);
        assert!(!format!("{:?}", text("rosebud")).contains("rosebud"));
    }

    #[test]
    fn types_have_names_and_defaults() {
        for name in [
            "any",
            "string",
            "number",
            "boolean",
            "object",
            "array",
            "array<string>",
            "array<object>",
            "file",
        ] {
            assert_eq!(PayloadType::parse(name).unwrap().name(), name);
        }
        assert_eq!(PayloadType::parse("array<file>"), None);
        assert_eq!(PayloadType::parse("date"), None);
        assert_eq!(PayloadType::parse("").unwrap().missing(), Json::Null);
    }
}
