//! How other programs call a canvas: what its Begin says of it, read and checked once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::seam::secrets::PREFIX;
use crate::value::Json;

/// Bytes of a call's body, at most, and when nobody says how many.
pub const BODY_BYTES_MAX: u64 = 10 << 20;

/// How a canvas is called. Whatever it does not allow is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// The methods, in capital letters; none: every method there is.
    pub methods: Vec<String>,
    /// The media type that a call with a body has, in small letters; absent: any.
    pub content_type: Option<String>,
    /// Who may call.
    pub auth: WebhookAuth,
    /// Bytes of a body, at most.
    pub body_bytes_max: u64,
    /// Where calls may come from; none: from anywhere.
    pub networks: Vec<Network>,
    /// How often it may be called.
    pub rate: Rate,
    /// The parameters of the address that are handed on.
    pub query: Section,
    /// The headers that are handed on.
    pub headers: Section,
    /// The members of the body that are handed on.
    pub body: Section,
    /// What a caller is answered.
    pub answer: WebhookAnswer,
}

/// Who may call.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookAuth {
    /// Nobody: nothing says who may.
    Unsaid,
    /// Nobody: anybody is said to be let in, and not that this is meant.
    Unconfirmed,
    /// Anybody, because the canvas says so in so many words.
    Anonymous,
    /// Whoever knows a text that comes in a header.
    Token {
        /// The header.
        header: String,
        /// The text.
        value: SecretText,
    },
    /// Whoever knows a name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: SecretText,
    },
    /// Whoever has a JSON Web Token that was signed with a secret.
    Jwt {
        /// The secret.
        secret: SecretText,
        /// How it is signed.
        algorithm: HmacAlgorithm,
        /// Whom it is for, if that is looked at.
        audience: Option<String>,
        /// Who gave it, if that is looked at.
        issuer: Option<String>,
        /// What else it has to claim.
        required_claims: Vec<String>,
    },
    /// Whoever signs the body with a secret.
    Signature {
        /// The secret.
        secret: SecretText,
        /// The header with the signature in hexadecimal digits, also behind `sha256=`.
        header: String,
        /// The header with the time of signing in seconds since 1970; then the time, a dot and the body are signed.
        timestamp_header: Option<String>,
        /// How old a signature with a time may be.
        tolerance: Duration,
    },
}

/// A way to sign with a secret that both sides know.
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
    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "HS384" => Some(Self::Hs384),
            "HS512" => Some(Self::Hs512),
            _ => None,
        }
    }

    /// Its name in the head of a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }
}

/// A text that is nobody's business: as it is written, or the name of a secret of the tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(crate::masking::MASK)
    }
}

impl SecretText {
    /// As a canvas writes it; nothing for an empty text.
    pub fn new(text: &str) -> Option<Self> {
        // As it is written: blanks may belong to a password.
        (!text.trim().is_empty()).then(|| Self(text.to_owned()))
    }

    /// The secret that it names.
    pub fn name(&self) -> Option<&str> {
        let inner = self.0.trim().strip_prefix('{')?.strip_suffix('}')?;
        // Some editors write two braces.
        let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
        inner.trim().strip_prefix(PREFIX)
    }

    /// The text itself, for one that names no secret.
    pub fn literal(&self) -> &str {
        &self.0
    }
}

/// Addresses that have their first bits in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads an address, or one with the number of its bits behind a slash.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text.trim(), None),
        };
        let address = address.parse::<IpAddr>().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    /// Whether it has this address. One of the older kind may come in the shape of the newer.
    pub fn contains(self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u8| {
            let rest = width - self.bits;
            // Of no bits at all everything is the same, and a shift by the whole width would overflow.
            rest == width || (a >> rest) == (b >> rest)
        };
        // A server that listens on IPv6 sees callers of IPv4 as `::ffff:a.b.c.d`.
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) if self.bits <= 32 => {
                same(u32::from(own).into(), u32::from(other).into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.into(), other.into(), 128),
            _ => false,
        }
    }
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many times …
    pub limit: u32,
    /// … in so long.
    pub per: Duration,
}

impl Default for Rate {
    fn default() -> Self {
        Self { limit: 60, per: Duration::from_secs(60) }
    }
}

/// Which values of a part of a call are handed on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// By their names. The case of headers makes no difference.
    pub fields: BTreeMap<String, SectionField>,
}

/// A value that is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionField {
    /// What it may be.
    pub kind: PayloadType,
    /// Whether a call without it is refused.
    pub required: bool,
}

/// What a value may be.
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
    /// Files of a form.
    Files,
}

/// What each entry of a list may be.
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
    /// From its name, such as `array<string>`.
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

    /// Its name.
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

    /// What stands for one that is missing.
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

/// What a caller is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAnswer {
    /// The same to everybody, before anything is done.
    Immediate {
        /// The HTTP status.
        status: u16,
        /// The body; JSON when it is that.
        body: String,
    },
    /// What the run says, when it has ended; bit by bit to those who ask for events.
    Streaming,
    /// Which run it is.
    Deferred,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_addresses_with_their_first_bits_in_common() {
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
        for wrong in ["", "x", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "10.0.0.0/"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_named_or_written_and_never_shown() {
        let text = |text: &str| SecretText::new(text).unwrap();
        assert_eq!(text("{secret.KEY}").name(), Some("KEY"));
        assert_eq!(text(" {{secret.KEY}} ").name(), Some("KEY"));
        assert_eq!((text("open").name(), text("open").literal()), (None, "open"));
        assert_eq!(SecretText::new("  "), None);
        assert!(!format!("{:?}", text("rosebud")).contains("rosebud"));
    }

    #[test]
    fn types_have_names_and_something_for_the_missing() {
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
