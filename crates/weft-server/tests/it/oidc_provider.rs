//! An OpenID provider on loopback whose behaviour the test sets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

pub(crate) const CLIENT: &str = "weft";
pub(crate) const SECRET: &str = "s3cret:with&signs";

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signing {
    Rs256,
    Es256,
    EdDsa,
    /// Unsigned.
    None,
    /// By HMAC, with the public key as the secret.
    Hs256,
    /// By an unknown key, under the id of a known one.
    Foreign,
}

/// The behaviour of the provider.
pub(crate) struct Manners {
    pub signing: Signing,
    /// The key id in the token header; if absent, the key's own id.
    pub kid: Option<String>,
    /// The ids under which keys are published.
    pub shown: Vec<&'static str>,
    /// Additional claims of a token; `null` removes a claim.
    pub claims: Json,
    /// The user info for the access token.
    pub userinfo: Json,
    /// A path with an endless response.
    pub endless: Option<&'static str>,
    /// A path that is not answered.
    pub away: Option<&'static str>,
    /// Additional members of the discovery document.
    pub description: Json,
    /// How often each path was requested.
    pub asked: BTreeMap<String, usize>,
}

struct Grant {
    nonce: String,
    challenge: String,
    redirect_uri: String,
}

struct Keys {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    foreign: Ed25519KeyPair,
}

struct Inner {
    issuer: String,
    keys: Keys,
    manners: Mutex<Manners>,
    grants: Mutex<BTreeMap<String, Grant>>,
}

pub(crate) struct OpenIdProvider {
    inner: Arc<Inner>,
    /// Dropping it ends the server.
    _tasks: JoinSet<()>,
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The query parameters of a URL.
pub(crate) fn query(url: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(url).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn form(body: &str) -> BTreeMap<String, String> {
    query(&format!("http://x/?{body}"))
}

fn ed() -> Ed25519KeyPair {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap()
}

impl Keys {
    fn new() -> Self {
        let (random, fixed) = (SystemRandom::new(), &signature::ECDSA_P256_SHA256_FIXED_SIGNING);
        let ec = EcdsaKeyPair::generate_pkcs8(fixed, &random).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(include_bytes!("oidc_key.der")).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(fixed, ec.as_ref(), &random).unwrap(),
            ed: ed(),
            foreign: ed(),
        }
    }

    fn public(&self, name: &str) -> Json {
        match name {
            "rsa" => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
                json!({"kty": "RSA", "kid": name, "use": "sig", "alg": "RS256", "n": encoded(&n), "e": encoded(&e)})
            }
            "ec" => {
                let point = &self.ec.public_key().as_ref()[1..];
                json!({"kty": "EC", "crv": "P-256", "kid": name, "x": encoded(&point[..32]), "y": encoded(&point[32..])})
            }
            _ => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": encoded(self.ed.public_key().as_ref())})
            }
        }
    }

    fn token(&self, signing: Signing, kid: Option<&str>, claims: &Map<String, Json>) -> String {
        let (alg, name) = match signing {
            Signing::Rs256 => ("RS256", "rsa"),
            Signing::Es256 => ("ES256", "ec"),
            Signing::EdDsa | Signing::Foreign => ("EdDSA", "ed"),
            Signing::None => ("none", "rsa"),
            Signing::Hs256 => ("HS256", "rsa"),
        };
        let header = json!({"alg": alg, "typ": "JWT", "kid": kid.unwrap_or(name)}).to_string();
        let claims = Json::Object(claims.clone()).to_string();
        let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
        let (bytes, random) = (signed.as_bytes(), SystemRandom::new());
        let signature = match signing {
            Signing::Rs256 => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&signature::RSA_PKCS1_SHA256, &random, bytes, &mut signature).unwrap();
                signature
            }
            Signing::Es256 => self.ec.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Signing::EdDsa => self.ed.sign(bytes).as_ref().to_vec(),
            Signing::Foreign => self.foreign.sign(bytes).as_ref().to_vec(),
            Signing::None => Vec::new(),
            Signing::Hs256 => {
                let key = self.public("rsa")["n"].as_str().unwrap().to_owned();
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
                ring::hmac::sign(&key, bytes).as_ref().to_vec()
            }
        };
        format!("{signed}.{}", encoded(&signature))
    }
}

pub(crate) fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

impl OpenIdProvider {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let manners = Manners {
            signing: Signing::Rs256,
            kid: None,
            shown: vec!["rsa", "ec", "ed"],
            claims: json!({}),
            userinfo: Json::Null,
            endless: None,
            away: None,
            description: json!({}),
            asked: BTreeMap::new(),
        };
        let inner = Arc::new(Inner {
            issuer: format!("http://{}/realm", listener.local_addr().unwrap()),
            keys: Keys::new(),
            manners: Mutex::new(manners),
            grants: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = axum::serve(listener, router).await;
        });
        Self { inner, _tasks: tasks }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.inner.issuer
    }

    /// Changes the behaviour from now on.
    pub(crate) fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.inner.manners.lock().unwrap());
    }

    /// Sets the additional claims of tokens.
    pub(crate) fn says(&self, claims: Json) {
        self.behave(|manners| manners.claims = claims);
    }

    pub(crate) fn asked(&self, path: &str) -> usize {
        self.inner.manners.lock().unwrap().asked.get(path).copied().unwrap_or_default()
    }

    /// Signs in at the provider; returns the code for the callback.
    pub(crate) fn grant(&self, url: &str) -> String {
        assert!(url.starts_with(&format!("{}/authorize?", self.inner.issuer)), "{url}");
        let asked = query(url);
        for (name, expected) in
            [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")]
        {
            assert_eq!(asked[name], expected, "{url}");
        }
        assert_eq!(asked["scope"], "openid email profile");
        assert!(
            asked["state"].len() >= 43 && asked["nonce"].len() >= 43 && asked["code_challenge"].len() == 43
        );
        let code = format!("code-{}", weft_core::id::generate());
        let grant = Grant {
            nonce: asked["nonce"].clone(),
            challenge: asked["code_challenge"].clone(),
            redirect_uri: asked["redirect_uri"].clone(),
        };
        self.inner.grants.lock().unwrap().insert(code.clone(), grant);
        code
    }
}

impl Inner {
    fn describe(&self, more: &Json) -> Json {
        let at = |path: &str| format!("{}/{path}", self.issuer);
        let mut all = json!({"issuer": self.issuer, "authorization_endpoint": at("authorize"),
            "token_endpoint": at("token"), "jwks_uri": at("keys"), "userinfo_endpoint": at("userinfo")});
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        all
    }

    fn exchange(&self, manners: &Manners, headers: &HeaderMap, body: &str) -> (StatusCode, String) {
        let refuse = |error: &str| {
            let description = "<script>alert(1)</script>\r\nfor a reason";
            let told = json!({"error": error, "error_description": description});
            (StatusCode::BAD_REQUEST, told.to_string())
        };
        let sent = form(body);
        let signs = "s3cret%3Awith%26signs";
        let basic = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{signs}")));
        let in_header = headers.get("authorization").is_some_and(|value| value == basic.as_str());
        let in_body = sent.get("client_secret").is_some_and(|secret| secret == SECRET);
        if !in_header && !in_body {
            return refuse("invalid_client");
        }
        let Some(grant) = self.grants.lock().unwrap().remove(&sent["code"]) else {
            return refuse("invalid_grant");
        };
        let challenge = encoded(&Sha256::digest(sent["code_verifier"].as_bytes()));
        if challenge != grant.challenge || sent["redirect_uri"] != grant.redirect_uri {
            return refuse("invalid_grant");
        }
        let mut claims = json!({"iss": self.issuer, "aud": CLIENT, "sub": "ann-1", "exp": now() + 300,
            "iat": now(), "nonce": grant.nonce, "email": "ann@example.com", "email_verified": true, "name": "Ann"});
        let claims = claims.as_object_mut().unwrap();
        for (name, value) in manners.claims.as_object().unwrap() {
            if value.is_null() {
                drop(claims.remove(name));
            } else {
                drop(claims.insert(name.clone(), value.clone()));
            }
        }
        let token = self.keys.token(manners.signing, manners.kid.as_deref(), claims);
        (
            StatusCode::OK,
            json!({"id_token": token, "access_token": "at-4711", "token_type": "Bearer"}).to_string(),
        )
    }
}

async fn answer(
    State(inner): State<Arc<Inner>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let path = uri.path().trim_start_matches("/realm/").to_owned();
    let mut manners = inner.manners.lock().unwrap();
    *manners.asked.entry(path.clone()).or_default() += 1;
    if manners.away == Some(&*path) {
        return (StatusCode::SERVICE_UNAVAILABLE, String::new());
    }
    if manners.endless == Some(&*path) {
        return (StatusCode::OK, format!("{{\"a\": \"{}\"}}", "x".repeat(2 << 20)));
    }
    match &*path {
        ".well-known/openid-configuration" => {
            (StatusCode::OK, inner.describe(&manners.description).to_string())
        }
        "keys" => {
            let keys: Vec<Json> = manners.shown.iter().map(|name| inner.keys.public(name)).collect();
            (StatusCode::OK, json!({"keys": keys}).to_string())
        }
        "token" => inner.exchange(&manners, &headers, std::str::from_utf8(&body).unwrap()),
        "userinfo" if headers["authorization"] == "Bearer at-4711" => {
            (StatusCode::OK, manners.userinfo.to_string())
        }
        _ => (StatusCode::NOT_FOUND, String::new()),
    }
}
