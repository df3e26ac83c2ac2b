//! The claims of an ID token whose signature was verified: checks that it is for this sign-in, and extracts the
//! person.

use serde_json::Value as Json;

use super::jws::Claims;
use crate::accounts::address;
use crate::hmac::same;

/// Maximum difference between two clocks, in milliseconds.
pub(super) const SKEW_MS: i64 = 60_000;
/// Maximum length of a subject in the standard, in bytes.
const SUBJECT_BYTES_MAX: usize = 255;
/// Maximum number of groups of a person that are used.
const GROUPS_MAX: usize = 1_000;

/// Values that the token must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedClaims<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) begun_ms: i64,
    pub(super) now_ms: i64,
}

/// A person at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    /// The permanent identifier of the person at the provider.
    pub(super) subject: String,
    /// The email address, if it is valid.
    pub(super) email: Option<String>,
    /// Whether the provider has verified the address.
    pub(super) is_verified: bool,
    /// The name that others see.
    pub(super) name: String,
}

impl Person {
    /// Returns the address if it is verified.
    pub(super) fn verified_email(&self) -> Option<&str> {
        self.email.as_deref().filter(|_| self.is_verified)
    }
}

fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Json::as_str)
}

/// Reads a time, which must be a number of seconds.
fn time_ms(claims: &Claims, name: &str) -> Option<i64> {
    let seconds = claims.get(name)?.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "what is beyond the ends of time becomes the end")]
    Some((seconds * 1_000.0) as i64)
}

/// Checks that a token is for this sign-in and currently valid.
///
/// # Errors
/// Why it is not valid.
pub(super) fn check(claims: &Claims, expected: &ExpectedClaims<'_>) -> Result<(), &'static str> {
    if text(claims, "iss") != Some(expected.issuer) {
        return Err("the ID token is from another issuer");
    }
    check_audience(claims, expected.client_id)?;
    let now_ms = expected.now_ms;
    let ends_ms = time_ms(claims, "exp").ok_or("the ID token has no expiry time")?;
    if ends_ms.saturating_add(SKEW_MS) <= now_ms {
        return Err("the ID token has expired");
    }
    let issued_ms = time_ms(claims, "iat").ok_or("the ID token has no issue time")?;
    if issued_ms > now_ms.saturating_add(SKEW_MS) {
        return Err("the ID token was issued in the future; are the clocks right?");
    }
    // A token of an earlier sign-in may be replayed.
    if issued_ms < expected.begun_ms.saturating_sub(SKEW_MS) {
        return Err("the ID token was issued before the sign-in began; are the clocks right?");
    }
    match claims.get("nbf").map(|_| time_ms(claims, "nbf")) {
        None => {}
        Some(Some(from_ms)) if from_ms <= now_ms.saturating_add(SKEW_MS) => {}
        Some(_) => return Err("the ID token is not valid yet"),
    }
    // A missing nonce reads as empty, which never equals the random one that was sent.
    let nonce = text(claims, "nonce").unwrap_or_default();
    if !same(nonce.as_bytes(), expected.nonce.as_bytes()) {
        return Err("the ID token is for another sign-in");
    }
    Ok(())
}

fn check_audience(claims: &Claims, client_id: &str) -> Result<(), &'static str> {
    let another = Err("the ID token is for another client");
    let (is_ours, count) = match claims.get("aud") {
        Some(Json::String(one)) => (one == client_id, 1),
        Some(Json::Array(all)) => (all.iter().any(|one| one == client_id), all.len()),
        _ => (false, 0),
    };
    match claims.get("azp") {
        _ if !is_ours => another,
        // With several audiences, this names the one it was issued to.
        None if count > 1 => another,
        None => Ok(()),
        Some(party) if party == client_id => Ok(()),
        Some(_) => another,
    }
}

/// Extracts the person.
///
/// # Errors
/// When the claims do not identify the person.
pub(super) fn person(claims: &Claims) -> Result<Person, &'static str> {
    let subject = text(claims, "sub").unwrap_or_default();
    if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX || subject.chars().any(char::is_control) {
        return Err("the ID token names no subject");
    }
    // An invalid address is no reason to refuse: the subject identifies the person.
    let email = text(claims, "email").and_then(|email| address::check(email).ok());
    let name = text(claims, "name").or_else(|| text(claims, "preferred_username"));
    // Some providers send a string.
    let is_verified = match claims.get("email_verified") {
        Some(Json::Bool(is)) => *is,
        Some(Json::String(is)) => is == "true",
        _ => false,
    };
    Ok(Person { subject: subject.to_owned(), email, is_verified, name: name.unwrap_or_default().to_owned() })
}

/// Returns the groups or roles in a claim, which may be a string or a list.
pub(super) fn groups<'a>(claims: &'a Claims, name: &str) -> Vec<&'a str> {
    match claims.get(name) {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(all)) => all.iter().take(GROUPS_MAX).filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_000_000;

    fn claims() -> Json {
        json!({"iss": "https://x", "aud": "weft", "exp": NOW + 300, "iat": NOW, "nonce": "n", "sub": "1"})
    }

    #[test]
    fn an_id_token_must_match_this_sign_in_and_be_valid_now() {
        let check = |changes: Json, fine: bool| {
            let Json::Object(mut all) = claims() else { panic!() };
            for (name, value) in changes.as_object().unwrap() {
                if value.is_null() {
                    drop(all.remove(name));
                } else {
                    drop(all.insert(name.clone(), value.clone()));
                }
            }
            let now_ms = NOW * 1_000;
            let expected = ExpectedClaims {
                issuer: "https://x",
                client_id: "weft",
                nonce: "n",
                begun_ms: now_ms - 30_000,
                now_ms,
            };
            assert_eq!(super::check(&all, &expected).is_ok(), fine, "{changes}");
        };
        for fine in [
            json!({}),
            json!({"aud": ["weft"]}),
            json!({"aud": ["weft", "other"], "azp": "weft"}),
            json!({"azp": "weft"}),
            json!({"exp": NOW - 59}),
            json!({"iat": NOW + 60}),
            json!({"iat": NOW - 90}),
            json!({"nbf": NOW + 60, "iat": 1_000_000.5}),
        ] {
            check(fine, true);
        }
        for wrong in [
            json!({"iss": "https://y"}),
            json!({"iss": "https://x/"}),
            json!({"iss": null}),
            json!({"aud": "other"}),
            json!({"aud": []}),
            json!({"aud": null}),
            json!({"aud": ["weft", "other"]}),
            json!({"aud": ["weft", "other"], "azp": "other"}),
            json!({"azp": "other"}),
            json!({"azp": 7}),
            json!({"exp": NOW - 60}),
            json!({"exp": null}),
            json!({"exp": "9999999999"}),
            json!({"iat": null}),
            json!({"iat": NOW + 61}),
            json!({"iat": NOW - 91}),
            json!({"nbf": NOW + 61}),
            json!({"nbf": "0"}),
            json!({"nonce": "m"}),
            json!({"nonce": null}),
            json!({"nonce": ""}),
        ] {
            check(wrong, false);
        }
    }

    #[test]
    fn only_an_address_the_provider_has_verified_is_trusted() {
        let of = |claims: Json| person(claims.as_object().unwrap());
        let ann = of(json!({"sub": "1", "email": "Ann@Example.com", "email_verified": true, "name": "Ann"}));
        assert_eq!(ann.unwrap().verified_email(), Some("ann@example.com"));
        for (verified, is) in
            [(json!("true"), true), (json!("false"), false), (json!(1), false), (json!(null), false)]
        {
            let one = of(json!({"sub": "1", "email": "a@b", "email_verified": verified})).unwrap();
            assert_eq!(one.verified_email().is_some(), is, "{verified}");
        }
        for wrong in [
            json!({}),
            json!({"sub": ""}),
            json!({"sub": 7}),
            json!({"sub": "a\nb"}),
            json!({"sub": "x".repeat(256)}),
        ] {
            assert!(of(wrong).is_err());
        }
        let odd = of(json!({"sub": "1", "email": "no address", "email_verified": true})).unwrap();
        assert_eq!(odd.email, None);
        let claims = json!({"a": "one", "b": ["one", 2, "three"], "c": 7});
        let groups = |name| groups(claims.as_object().unwrap(), name);
        assert_eq!((groups("a"), groups("b"), groups("c")), (vec!["one"], vec!["one", "three"], vec![]));
    }
}
