//! Authentication of webhook calls. All secrets are compared in constant time.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value as Json};
use weft_core::webhook::{HmacAlgorithm, WebhookAuth};

use super::Refusal;
use weft_app::hmac::{same, sign};

/// The message for a call without a signature.
const UNSIGNED: &str = "Missing signature";

/// Properties of an authenticated call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// Key that identifies repetitions of the same call.
    pub once: Option<String>,
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Authenticates a call as far as its headers allow. `secret` is the one from the settings.
///
/// # Errors
/// A message that callers of the compatible API know.
pub(crate) fn check_caller(
    auth: &WebhookAuth,
    headers: &HeaderMap,
    secret: &str,
    now_ms: i64,
) -> Result<(), Refusal> {
    match auth {
        WebhookAuth::Unsaid | WebhookAuth::Unconfirmed => Err("nobody may call this webhook".to_owned()),
        WebhookAuth::Anonymous => Ok(()),
        // The signature covers the body, which is not read for a call without one.
        WebhookAuth::Signature { header, .. } => match text(headers, header) {
            Some(_) => Ok(()),
            None => Err(UNSIGNED.to_owned()),
        },
        WebhookAuth::Token { header, .. } => match text(headers, header) {
            Some(given) if same(given.as_bytes(), secret.as_bytes()) => Ok(()),
            _ => Err("Invalid token authentication".to_owned()),
        },
        WebhookAuth::Basic { username, .. } => {
            let (name, password) = basic(headers).unwrap_or_default();
            // Both are compared, whatever the result of the first.
            let (name, password) =
                (same(name.as_bytes(), username.as_bytes()), same(password.as_bytes(), secret.as_bytes()));
            if name & password { Ok(()) } else { Err("Invalid Basic Auth credentials".to_owned()) }
        }
        WebhookAuth::Jwt { algorithm, audience, issuer, required_claims, .. } => {
            let claims = verified(bearer(headers)?, *algorithm, secret, now_ms)?;
            check_audience(&claims, audience.as_deref())?;
            if let Some(issuer) = issuer
                && claims.get("iss").and_then(Json::as_str) != Some(issuer)
            {
                return Err("Invalid JWT: Invalid issuer".to_owned());
            }
            match required_claims.iter().find(|claim| claims.get(*claim).is_none_or(Json::is_null)) {
                Some(claim) => Err(format!("Missing JWT claim: {claim}")),
                None => Ok(()),
            }
        }
    }
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, encoded) = text(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let decoded = String::from_utf8(decoded).ok()?;
    // A password may contain colons, a name cannot (RFC 7617, 2).
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = text(headers, header::AUTHORIZATION.as_str()).unwrap_or_default();
    let token = match value.split_at_checked("bearer".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
        _ => return Err("Missing Bearer token".to_owned()),
    };
    if token.is_empty() { Err("Empty Bearer token".to_owned()) } else { Ok(token) }
}

/// Returns the claims of a token if its signature and its times are valid.
fn verified(
    token: &str,
    algorithm: HmacAlgorithm,
    secret: &str,
    now_ms: i64,
) -> Result<Map<String, Json>, Refusal> {
    let invalid = |reason: &str| Err(format!("Invalid JWT: {reason}"));
    let mut parts = token.split('.');
    let (Some(head), Some(body), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return invalid("Not enough segments");
    };
    let object = |part: &str| -> Option<Map<String, Json>> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let Some(about) = object(head) else { return invalid("Invalid header") };
    // The token must not choose the algorithm: `none` or a weaker one is not what is configured.
    if about.get("alg").and_then(Json::as_str) != Some(algorithm.as_str()) {
        return invalid("The specified alg value is not allowed");
    }
    // Extensions marked as critical must be understood, or the token is rejected (RFC 7515, 4.1.11).
    if about.contains_key("crit") {
        return invalid("The header requires an unknown extension");
    }
    let expected = sign(algorithm, secret.as_bytes(), &[head.as_bytes(), b".", body.as_bytes()]);
    // Invalid Base64 becomes an empty signature, which never matches.
    let given = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    if !same(&given, &expected) {
        return invalid("Signature verification failed");
    }
    // The claims are not parsed before the signature is verified.
    let Some(claims) = object(body) else { return invalid("Invalid payload") };
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(format!("Invalid JWT: {name} must be a number")),
        },
    };
    #[expect(clippy::cast_precision_loss, reason = "exact for every time within 280,000 years")]
    let now = now_ms as f64 / 1000.0;
    // A token is no longer valid at the very time of `exp` (RFC 7519, 4.1.4).
    if time("exp")?.is_some_and(|end| now >= end) {
        return invalid("Signature has expired");
    }
    if time("nbf")?.is_some_and(|begin| now < begin) || time("iat")?.is_some_and(|made| now < made.floor()) {
        return invalid("The token is not yet valid");
    }
    Ok(claims)
}

/// Checks the audience: a token for one audience is not valid for another.
fn check_audience(claims: &Map<String, Json>, audience: Option<&str>) -> Result<(), Refusal> {
    let told: Vec<&str> = match claims.get("aud") {
        Some(Json::String(one)) => vec![one],
        Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let fits = match audience {
        Some(audience) => told.contains(&audience),
        None => told.is_empty(),
    };
    if fits { Ok(()) } else { Err("Invalid JWT: Audience doesn't match".to_owned()) }
}

/// Checks the signature of a body, if the webhook is configured for signatures.
///
/// # Errors
/// A message for the caller.
pub(crate) fn check_signature(
    auth: &WebhookAuth,
    headers: &HeaderMap,
    body: &[u8],
    secret: &str,
    now_ms: i64,
) -> Result<Claimed, Refusal> {
    let WebhookAuth::Signature { header, timestamp_header, tolerance, .. } = auth else {
        return Ok(Claimed::default());
    };
    let Some(given) = text(headers, header) else { return Err(UNSIGNED.to_owned()) };
    // GitHub, for one, prefixes the digits with the algorithm.
    let given = given.strip_prefix("sha256=").unwrap_or(given).to_ascii_lowercase();
    let time = match timestamp_header {
        None => None,
        Some(name) => Some(timely(text(headers, name), tolerance.as_secs(), now_ms)?),
    };
    // The time is signed as well; otherwise an old call could be replayed with a new time.
    let parts = match time {
        Some(time) => vec![time.as_bytes(), b".", body],
        None => vec![body],
    };
    let expected = weft_core::hex(&sign(HmacAlgorithm::Hs256, secret.as_bytes(), &parts));
    if !same(given.as_bytes(), expected.as_bytes()) {
        return Err("Invalid signature".to_owned());
    }
    // An intercepted call can be replayed, and must count as the same call then. Without a time, the same body may be
    // intended twice.
    Ok(Claimed { once: time.map(|_| format!("signature {given}")) })
}

/// Checks that a signing time is not too far from now.
fn timely(time: Option<&str>, tolerance: u64, now_ms: i64) -> Result<&str, Refusal> {
    let Some(time) = time else { return Err("Missing timestamp of the signature".to_owned()) };
    let signed: i64 =
        time.parse().map_err(|_| "The timestamp of the signature is not a number".to_owned())?;
    // In both directions: with a time in the future a call could be replayed for longer.
    if now_ms.div_euclid(1000).abs_diff(signed) > tolerance {
        return Err("The signature is too old".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use weft_core::webhook::SecretText;

    use super::*;

    const NOW: i64 = 1_000_000_000_000;
    const SECRET: &str = "rosebud";

    fn secret() -> SecretText {
        SecretText::new(SECRET).unwrap()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (header::HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn check(auth: &WebhookAuth, pairs: &[(&'static str, &str)]) -> Result<(), String> {
        check_caller(auth, &headers(pairs), SECRET, NOW)
    }

    #[test]
    fn a_token_must_match_as_a_whole() {
        let auth = WebhookAuth::Token { header: "X-Key".to_owned(), value: secret() };
        assert!(check(&auth, &[("x-key", SECRET)]).is_ok());
        for wrong in ["", "rosebu", "rosebudd", "Rosebud"] {
            assert_eq!(check(&auth, &[("x-key", wrong)]), Err("Invalid token authentication".to_owned()));
        }
        assert!(check(&auth, &[]).is_err());
    }

    #[test]
    fn both_user_name_and_password_must_match() {
        let auth = WebhookAuth::Basic { username: "ada".to_owned(), password: secret() };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(check(&auth, &[("authorization", &basic("ada:rosebud"))]).is_ok());
        for wrong in
            [basic("ada:x"), basic("bob:rosebud"), basic("ada"), "Basic !".to_owned(), "Bearer x".to_owned()]
        {
            assert!(check(&auth, &[("authorization", &wrong)]).is_err(), "{wrong}");
        }
    }

    fn jwt(head: &Json, claims: &Json, algorithm: HmacAlgorithm, key: &str) -> String {
        let part = |json: &Json| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", part(head), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(sign(algorithm, key.as_bytes(), &[signed.as_bytes()]));
        format!("{signed}.{signature}")
    }

    #[test]
    fn a_jwt_must_be_signed_and_valid_now() {
        let auth = WebhookAuth::Jwt {
            secret: secret(),
            algorithm: HmacAlgorithm::Hs256,
            audience: Some("weft".to_owned()),
            issuer: Some("me".to_owned()),
            required_claims: vec!["role".to_owned()],
        };
        let good =
            json!({"aud": ["weft", "x"], "iss": "me", "role": "r", "exp": NOW / 1000 + 1, "nbf": NOW / 1000});
        let ask = |token: &str| check(&auth, &[("authorization", &format!("Bearer {token}"))]);
        let with = |head: &Json, claims: &Json, key: &str| ask(&jwt(head, claims, HmacAlgorithm::Hs256, key));
        let head = json!({"alg": "HS256", "typ": "JWT"});
        assert_eq!(with(&head, &good, SECRET), Ok(()));
        let changed = |name: &str, value: Json| {
            let mut claims = good.clone();
            claims[name] = value;
            with(&head, &claims, SECRET).unwrap_err()
        };
        assert!(changed("exp", json!(NOW / 1000)).contains("has expired"));
        assert!(changed("exp", json!("tomorrow")).contains("must be a number"));
        assert!(changed("nbf", json!(NOW / 1000 + 5)).contains("not yet valid"));
        assert!(changed("aud", json!("other")).contains("Audience"));
        assert!(changed("iss", json!("you")).contains("issuer"));
        assert_eq!(changed("role", Json::Null), "Missing JWT claim: role");
        assert!(with(&head, &good, "guess").unwrap_err().contains("verification failed"));
        for alg in ["none", "None", "HS512", "RS256"] {
            assert!(with(&json!({"alg": alg}), &good, SECRET).unwrap_err().contains("alg"), "{alg}");
        }
        let unsigned = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(head.to_string()),
            URL_SAFE_NO_PAD.encode(good.to_string())
        );
        assert!(ask(&unsigned).unwrap_err().contains("verification failed"));
        assert!(ask("a.b").unwrap_err().contains("segments"));
        assert_eq!(check(&auth, &[]), Err("Missing Bearer token".to_owned()));
        assert_eq!(check(&auth, &[("authorization", "Bearer ")]), Err("Empty Bearer token".to_owned()));
        let nobodys = WebhookAuth::Jwt {
            secret: secret(),
            algorithm: HmacAlgorithm::Hs256,
            audience: None,
            issuer: None,
            required_claims: Vec::new(),
        };
        let token = jwt(&head, &json!({"aud": "other"}), HmacAlgorithm::Hs256, SECRET);
        assert!(check(&nobodys, &[("authorization", &format!("Bearer {token}"))]).is_err());
    }

    #[test]
    fn a_signature_must_cover_this_body_and_this_time() {
        let timed = |timestamp_header: Option<&str>| WebhookAuth::Signature {
            secret: secret(),
            header: "X-Sig".to_owned(),
            timestamp_header: timestamp_header.map(str::to_owned),
            tolerance: Duration::from_secs(300),
        };
        let signed = |text: &[u8]| weft_core::hex(&sign(HmacAlgorithm::Hs256, SECRET.as_bytes(), &[text]));
        let ask = |auth: &WebhookAuth, pairs: &[(&'static str, &str)]| {
            check_signature(auth, &headers(pairs), b"{}", SECRET, NOW)
        };
        let plain = format!("sha256={}", signed(b"{}"));
        assert_eq!(ask(&timed(None), &[("x-sig", &plain)]), Ok(Claimed::default()));
        assert!(ask(&timed(None), &[("x-sig", &signed(b"{} "))]).is_err());
        assert!(ask(&timed(None), &[]).is_err());
        assert_eq!(check(&timed(None), &[]), Err(UNSIGNED.to_owned()));
        assert_eq!(check(&timed(None), &[("x-sig", "0")]), Ok(()));
        let at = |seconds: i64| {
            let time = (NOW / 1000 + seconds).to_string();
            let signature = signed(format!("{time}.{{}}").as_bytes());
            ask(&timed(Some("X-Time")), &[("x-sig", &signature), ("x-time", &time)])
        };
        assert!(at(0).unwrap().once.is_some() && at(-300).is_ok() && at(300).is_ok());
        assert!(at(-301).unwrap_err().contains("too old") && at(301).is_err());
        // A time that is not covered by the signature is not accepted.
        let now = (NOW / 1000).to_string();
        assert!(ask(&timed(Some("X-Time")), &[("x-sig", &plain), ("x-time", &now)]).is_err());
        assert!(ask(&timed(Some("X-Time")), &[("x-sig", &plain)]).is_err());
    }
}
