//! Signatures of ID tokens (RFC 7515), and their keys (RFC 7517). The algorithm must be on a list and fit the type of
//! the key, so that a token can neither choose a weaker one nor use a public key as a shared secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use weft_core::{Error, Result};

/// Maximum length of a token, in bytes. Tokens contain groups, which may be many.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Maximum number of keys of a provider that are used.
const KEYS_MAX: usize = 64;

/// The claims of a token with a valid signature.
pub(super) type Claims = Map<String, Json>;

/// Why a token was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unverified {
    /// It names no known key of the provider, which may have a new one.
    UnknownKey,
    /// Any other reason.
    Wrong(&'static str),
}

/// A public key, by its type.
#[derive(Clone, Debug)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point of the curve P-256.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Clone, Debug)]
struct ProviderKey {
    id: Option<String>,
    algorithm: Option<String>,
    public: PublicKey,
}

/// The keys of a provider.
#[derive(Clone, Debug)]
pub(super) struct Keys(Vec<ProviderKey>);

/// A key in JSON form.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<Json>,
}

fn decoded(text: Option<&String>) -> Option<Vec<u8>> {
    // Some providers add the padding that the standard omits.
    URL_SAFE_NO_PAD.decode(text?.trim_end_matches('=')).ok()
}

impl Jwk {
    /// Returns the key, unless it is of an unsupported type.
    fn key(self) -> Option<ProviderKey> {
        // A key for encryption must not verify signatures.
        if self.usage.as_ref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let point = |bytes: usize| {
            let (x, y) = (decoded(self.x.as_ref())?, decoded(self.y.as_ref())?);
            // 4 marks an uncompressed point, with both coordinates (SEC 1).
            (x.len() == bytes && y.len() == bytes).then(|| [&[4][..], &x, &y].concat())
        };
        let public = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                PublicKey::Rsa { modulus: decoded(self.n.as_ref())?, exponent: decoded(self.e.as_ref())? }
            }
            ("EC", Some("P-256")) => PublicKey::P256(point(32)?),
            ("EC", Some("P-384")) => PublicKey::P384(point(48)?),
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(decoded(self.x.as_ref())?),
            // Symmetric keys are not accepted: whoever can read one could sign tokens with it.
            _ => return None,
        };
        Some(ProviderKey { id: self.kid, algorithm: self.alg, public })
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl PublicKey {
    /// Returns whether the signature is valid; `None` if the algorithm does not fit the type of key.
    fn verifies(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> Option<bool> {
        let (verification, bytes): (&'static dyn VerificationAlgorithm, _) = match (self, algorithm) {
            (Self::Rsa { modulus, exponent }, _) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                return Some(key.verify(rsa(algorithm)?, signed, signature).is_ok());
            }
            (Self::P256(point), "ES256") => (&signature::ECDSA_P256_SHA256_FIXED, point),
            (Self::P384(point), "ES384") => (&signature::ECDSA_P384_SHA384_FIXED, point),
            (Self::Ed25519(bytes), "EdDSA" | "Ed25519") => (&signature::ED25519, bytes),
            _ => return None,
        };
        Some(UnparsedPublicKey::new(verification, bytes).verify(signed, signature).is_ok())
    }
}

impl Keys {
    /// Parses the key set of a provider. Keys of other types are ignored.
    ///
    /// # Errors
    /// `Garbled` for a value that is not a key set, or that has no usable key.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Json>,
        }
        let garbled = |what: &str| Error::new(weft_core::ErrorKind::Garbled, what);
        let set: Set = serde_json::from_slice(bytes)
            .map_err(|_| garbled("the provider's keys are not a JSON Web Key Set"))?;
        let known = set.keys.into_iter().take(KEYS_MAX);
        let keys: Vec<ProviderKey> =
            known.filter_map(|key| serde_json::from_value::<Jwk>(key).ok()?.key()).collect();
        if keys.is_empty() {
            Err(garbled("the provider has no key for signatures (RSA, P-256, P-384 or Ed25519)"))
        } else {
            Ok(Self(keys))
        }
    }

    /// Verifies a token with these keys, and returns its claims.
    ///
    /// # Errors
    /// Why it was rejected.
    pub(super) fn verified(&self, token: &str) -> Result<Claims, Unverified> {
        let wrong = |why| Unverified::Wrong(why);
        if token.len() > TOKEN_BYTES_MAX {
            return Err(wrong("the ID token is too long"));
        }
        let unreadable = || wrong("the ID token cannot be read");
        let (signed, signature) = token.rsplit_once('.').ok_or_else(unreadable)?;
        let (header, payload) = signed.split_once('.').ok_or_else(unreadable)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| unreadable());
        let header: TokenHeader = serde_json::from_slice(&decode(header)?).map_err(|_| unreadable())?;
        // Extensions that are not understood must be refused (RFC 7515, 4.1.11).
        if header.crit.is_some() {
            return Err(wrong("the ID token requires an unknown extension"));
        }
        let signature = decode(signature)?;
        // A token without a key id is tried with all keys that fit its algorithm.
        let meant = self.0.iter().filter(|key| header.kid.is_none() || key.id == header.kid);
        let meant = meant.filter(|key| key.algorithm.as_ref().is_none_or(|one| *one == header.alg));
        let mut tried = None;
        for key in meant {
            // The claims are only parsed after a signature was verified.
            match key.public.verifies(&header.alg, signed.as_bytes(), &signature) {
                Some(true) => return serde_json::from_slice(&decode(payload)?).map_err(|_| unreadable()),
                Some(false) => tried = Some(wrong("the signature of the ID token is not valid")),
                // Its type does not fit the algorithm, so another key may be the one.
                None => {}
            }
        }
        // Otherwise the keys would be fetched again, which could not help.
        if !is_known(&header.alg) {
            return Err(wrong("the ID token is signed with an algorithm that is not accepted"));
        }
        Err(tried.unwrap_or(Unverified::UnknownKey))
    }
}

fn is_known(algorithm: &str) -> bool {
    rsa(algorithm).is_some() || matches!(algorithm, "ES256" | "ES384" | "EdDSA" | "Ed25519")
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn pair() -> Ed25519KeyPair {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap()
    }

    fn token(pair: &Ed25519KeyPair, header: &Json) -> String {
        let signed = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(br#"{"sub":"ann"}"#));
        format!("{signed}.{}", encoded(pair.sign(signed.as_bytes()).as_ref()))
    }

    fn keys(members: &[Json]) -> Keys {
        Keys::read(json!({"keys": members}).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_token_must_be_signed_by_the_named_key_with_a_matching_algorithm() {
        let pair = pair();
        let x = encoded(pair.public_key().as_ref());
        let known = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "a", "use": "sig"});
        let keys = keys(&[json!({"kty": "oct", "k": "x"}), json!(7), known.clone()]);
        let check = |header: Json, expected: Result<(), Unverified>| {
            let told = keys.verified(&token(&pair, &header)).map(|claims| assert_eq!(claims["sub"], "ann"));
            assert_eq!(told, expected, "{header}");
        };
        check(json!({"alg": "EdDSA", "kid": "a"}), Ok(()));
        check(json!({"alg": "EdDSA"}), Ok(()));
        check(json!({"alg": "EdDSA", "kid": "b"}), Err(Unverified::UnknownKey));
        check(json!({"alg": "ES256", "kid": "a"}), Err(Unverified::UnknownKey));
        let refused = Unverified::Wrong("the ID token is signed with an algorithm that is not accepted");
        check(json!({"alg": "none", "kid": "a"}), Err(refused));
        let refused = || Unverified::Wrong("the ID token is signed with an algorithm that is not accepted");
        for alg in ["HS256", "None", "", "eddsa"] {
            check(json!({"alg": alg, "kid": "a"}), Err(refused()));
        }
        let crit = Unverified::Wrong("the ID token requires an unknown extension");
        check(json!({"alg": "EdDSA", "kid": "a", "crit": ["x"]}), Err(crit));
        let fine = token(&pair, &json!({"alg": "EdDSA", "kid": "a"}));
        let (signed, _) = fine.rsplit_once('.').unwrap();
        for broken in [
            "",
            ".",
            "..",
            signed,
            &format!("{signed}."),
            &format!("{signed}.AAAA"),
            "a.b.c",
            &"x".repeat(99_999),
        ] {
            assert!(matches!(keys.verified(broken), Err(Unverified::Wrong(_))), "{broken:.50}");
        }
        let other = token(&super::tests::pair(), &json!({"alg": "EdDSA", "kid": "a"}));
        let wrong = Unverified::Wrong("the signature of the ID token is not valid");
        assert_eq!(keys.verified(&other), Err(wrong));
        for useless in [json!({"keys": []}), json!([]), json!({"keys": [{"kty": "oct", "k": "x"}]})] {
            assert!(Keys::read(useless.to_string().as_bytes()).is_err());
        }
        let mut encrypts = known;
        encrypts["use"] = "enc".into();
        assert!(Keys::read(json!({"keys": [encrypts]}).to_string().as_bytes()).is_err());
    }
}
