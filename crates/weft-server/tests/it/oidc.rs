//! Sign-in with OpenID Connect, with a provider on loopback.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::accounts::NewUser;
use weft_app::config::{AccountsConfig, LimitsConfig, OidcConfig};
use weft_core::access::MemberRole;
use weft_core::seam::Clock;
use weft_core::{Secret, TenantId};
use weft_engine::clock::SystemClock;
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Script, ScriptedModel};

use crate::oidc_provider::{CLIENT, OpenIdProvider, SECRET, Signing, now, query};
use crate::support::{Bench, HandClock, Reading, default_tenant, process_with};

const BEGIN: &str = "/api/v1/auth/oidc/corp";
const CALLBACK: &str = "/api/v1/auth/oidc/corp/callback";
const PASSWORD: &str = "correct horse battery";

fn open(provider: &OpenIdProvider) -> OidcConfig {
    OidcConfig {
        issuer: provider.issuer().to_owned(),
        client_id: CLIENT.to_owned(),
        client_secret: Secret::new(SECRET),
        sign_up: true,
        allowed_domains: vec!["example.com".to_owned()],
        ..OidcConfig::default()
    }
}

fn settings(providers: &[(&str, OidcConfig)]) -> AccountsConfig {
    AccountsConfig {
        public_url: "https://weft.example.com".to_owned(),
        oidc: providers.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect(),
        ..AccountsConfig::default()
    }
}

/// A process with this store.
fn server_at(store: &Arc<MemoryStore>, config: AccountsConfig, clock: Arc<dyn Clock>) -> Bench {
    let parts = (Arc::clone(store), ScriptedModel::new(Script::new()));
    process_with(parts, (Auth::On, LimitsConfig::default()), (clock, config))
}

fn server(config: AccountsConfig) -> Bench {
    server_at(&Arc::new(MemoryStore::new()), config, Arc::new(SystemClock))
}

/// A browser that is at the provider's sign-in page.
struct Journey {
    url: String,
    state: String,
    cookie: String,
}

impl Journey {
    fn of(url: &str, answer: &Reading) -> Self {
        let cookie = answer.headers["set-cookie"].to_str().unwrap().to_owned();
        for part in ["; Path=/;", "; HttpOnly", "; SameSite=Lax", "; Max-Age=600", "; Secure"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(cookie.starts_with("__Host-weft-oidc-"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { state: query(url)["state"].clone(), url: url.to_owned(), cookie }
    }

    async fn begin(bench: &Bench, path: &str) -> Self {
        let answer = bench.with("").get(path).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        assert_eq!(answer.headers["cache-control"], "no-store");
        let url = answer.headers["location"].to_str().unwrap();
        let data: Json = answer.json();
        assert_eq!(data["data"]["url"], url);
        Self::of(url, &answer)
    }

    async fn end_with(&self, bench: &Bench, cookie: &str, query: &str) -> Reading {
        let request = Request::builder()
            .uri(format!("{CALLBACK}?state={}&{query}", self.state))
            .header("cookie", format!("other=1; {cookie}; more=2"));
        bench.send(request.body(Body::empty()).unwrap()).await
    }

    async fn end(&self, bench: &Bench, code: &str) -> Reading {
        self.end_with(bench, &self.cookie, &format!("code={code}")).await
    }
}

async fn sign_in(bench: &Bench, provider: &OpenIdProvider) -> Reading {
    let journey = Journey::begin(bench, BEGIN).await;
    let code = provider.grant(&journey.url);
    journey.end(bench, &code).await
}

fn token(answer: &Reading) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.headers["authorization"].to_str().unwrap().to_owned()
}

/// Asserts that a sign-in was refused with a message that contains this, and without a token.
#[track_caller]
fn assert_refused(answer: &Reading, part: &str) {
    assert_eq!(answer.status, 403, "{part}: {}", answer.text);
    assert!(answer.text.contains(part), "{part}: {}", answer.text);
    assert!(answer.headers.get("authorization").is_none() && !answer.text.contains("eyJ"), "{}", answer.text);
    assert!(!answer.text.contains("at-4711") && !answer.text.contains(SECRET), "{}", answer.text);
}

#[tokio::test]
async fn a_first_sign_in_creates_an_account_that_is_found_again() {
    let provider = OpenIdProvider::start().await;
    let bench = server(settings(&[("corp", open(&provider))]));
    let offered = bench.with("").get("/api/v1/auth/providers").await.data();
    assert_eq!(offered, json!([{"name": "corp", "title": "corp", "path": BEGIN}]));
    let first = sign_in(&bench, &provider).await;
    assert_eq!(first.headers["cache-control"], "no-store");
    assert!(first.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    let ann = bench.with(&token(&first));
    let data = first.data();
    let seen = [&data["email"], &data["nickname"], &data["tenant_id"], &data["role"], &data["has_password"]];
    assert_eq!(json!(seen), json!(["ann@example.com", "Ann", "default", "user", false]));
    assert_eq!(ann.get("/api/v1/users/me").await.data()["id"], data["id"]);
    for signing in [Signing::Es256, Signing::EdDsa, Signing::Rs256] {
        provider.behave(|manners| manners.signing = signing);
        assert_eq!(sign_in(&bench, &provider).await.data()["id"], data["id"], "{signing:?}");
    }
    // A changed address at the provider changes nothing here, and takes over no other account.
    let bob = NewUser { email: "bob@example.com", nickname: "Bob", password: None };
    let bob = bench.app.create_user(bob, &default_tenant(), MemberRole::Owner).await.unwrap();
    provider.says(json!({"email": "bob@example.com"}));
    let changed = sign_in(&bench, &provider).await.data();
    assert_eq!((&changed["id"], &changed["email"]), (&data["id"], &json!("ann@example.com")));
    let mine = ann.get("/api/v1/users/me/identities").await.data();
    assert_eq!(mine.as_array().unwrap().len(), 1);
    assert_eq!((&mine[0]["provider"], &mine[0]["subject"]), (&json!("corp"), &json!("ann-1")));
    assert_eq!(mine[0]["email"], "bob@example.com");
    assert!(bench.app.identities(&bob.id).await.unwrap().is_empty());
    // The discovery document and the keys are each requested once.
    assert_eq!(provider.asked("keys") + provider.asked(".well-known/openid-configuration"), 2);
    let export = ann.get("/api/v1/users/me/export").await;
    assert!(
        export.text.contains("\"kind\":\"identity\"") && export.text.contains("ann-1"),
        "{}",
        export.text
    );
    // A user who deleted their account gets a new one at the next sign-in.
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me", json!({})).await.data(), true);
    provider.says(json!({}));
    assert_ne!(sign_in(&bench, &provider).await.data()["id"], data["id"]);
}

#[tokio::test]
async fn without_providers_the_routes_name_the_missing_setting() {
    let bench = server(AccountsConfig::default());
    assert_eq!(bench.get("/api/v1/auth/providers").await.data(), json!([]));
    for path in [BEGIN, CALLBACK, "/api/v1/auth/oidc/corp?next=/a"] {
        let answer = bench.get(path).await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.refusal().0, 102);
        assert!(answer.text.contains("accounts.oidc"), "{}", answer.text);
    }
}

#[tokio::test]
async fn invalid_id_tokens_are_refused() {
    let provider = OpenIdProvider::start().await;
    let bench = server(settings(&[("corp", open(&provider))]));
    for (claims, part) in [
        (json!({"nonce": "another"}), "for another sign-in"),
        (json!({"nonce": null}), "for another sign-in"),
        (json!({"aud": "another"}), "for another client"),
        (json!({"aud": [CLIENT, "another"]}), "for another client"),
        (json!({"azp": "another"}), "for another client"),
        (json!({"iss": "https://another.example"}), "from another issuer"),
        (json!({"exp": now() - 3_600}), "has expired"),
        (json!({"exp": "never"}), "has no expiry time"),
        (json!({"iat": now() + 3_600}), "issued in the future"),
        (json!({"iat": now() - 3_600}), "before the sign-in began"),
        (json!({"sub": ""}), "names no subject"),
        (json!({"email_verified": false}), "confirms no e-mail address"),
        (json!({"email_verified": null}), "confirms no e-mail address"),
        (json!({"email": "ann@another.example"}), "you have no account here"),
    ] {
        provider.says(claims);
        assert_refused(&sign_in(&bench, &provider).await, part);
    }
    provider.says(json!({}));
    for (signing, part) in [
        (Signing::None, "not accepted"),
        (Signing::Hs256, "not accepted"),
        (Signing::Foreign, "the signature of the ID token is not valid"),
    ] {
        provider.behave(|manners| manners.signing = signing);
        assert_refused(&sign_in(&bench, &provider).await, part);
    }
    assert!(bench.app.find_user("ann@example.com").await.is_err());
}

#[tokio::test]
async fn an_unknown_key_is_requested_only_once_in_a_while() {
    let provider = OpenIdProvider::start().await;
    let clock = HandClock::at(now() * 1_000);
    let bench =
        server_at(&Arc::new(MemoryStore::new()), settings(&[("corp", open(&provider))]), clock.clone());
    provider.behave(|manners| manners.shown = vec!["rsa"]);
    token(&sign_in(&bench, &provider).await);
    provider.behave(|manners| (manners.shown, manners.signing) = (vec!["rsa", "ec"], Signing::Es256));
    // The keys have just been requested.
    assert_refused(&sign_in(&bench, &provider).await, "does not publish");
    clock.go_on(61_000);
    provider.says(json!({"iat": now() + 61, "exp": now() + 400}));
    token(&sign_in(&bench, &provider).await);
    assert_eq!(provider.asked("keys"), 2);
    provider.behave(|manners| manners.kid = Some("nobody's".to_owned()));
    for _ in 0..3 {
        assert_refused(&sign_in(&bench, &provider).await, "does not publish");
    }
    assert_eq!(provider.asked("keys"), 2);
}

#[tokio::test]
async fn a_sign_in_belongs_to_one_browser_and_completes_once() {
    let provider = OpenIdProvider::start().await;
    let store = Arc::new(MemoryStore::new());
    let clock = HandClock::at(now() * 1_000);
    let two = [("corp", open(&provider)), ("other", open(&provider))];
    let bench = server_at(&store, settings(&two), clock.clone());
    let over = "this sign-in has ended or was started in another browser";
    // Two sign-ins at the same time in one browser do not interfere.
    let (first, second) = (Journey::begin(&bench, BEGIN).await, Journey::begin(&bench, BEGIN).await);
    let both = format!("{}; {}", first.cookie, second.cookie);
    let code = provider.grant(&first.url);
    token(&first.end_with(&bench, &both, &format!("code={code}")).await);
    // A state is invalid the second time, even with a valid code.
    let fresh = provider.grant(&first.url);
    assert_refused(&first.end(&bench, &fresh).await, over);
    // A callback from another browser signs nobody in, and ends the sign-in for both.
    let code = provider.grant(&second.url);
    assert_refused(&second.end_with(&bench, "a=b", &format!("code={code}")).await, over);
    assert_refused(&second.end(&bench, &code).await, over);
    let third = Journey::begin(&bench, BEGIN).await;
    let code = provider.grant(&third.url);
    let stolen = format!("{}=x{}", third.cookie.split('=').next().unwrap(), &first.cookie[40..]);
    assert_refused(&third.end_with(&bench, &stolen, &format!("code={code}")).await, over);
    // Nor does a callback to the address of another provider.
    let other = Journey::begin(&bench, "/api/v1/auth/oidc/other").await;
    let code = provider.grant(&other.url);
    assert_refused(&other.end(&bench, &code).await, over);
    // Nor does a callback that names another issuer.
    let fourth = Journey::begin(&bench, BEGIN).await;
    let code = provider.grant(&fourth.url);
    let mixed = format!("code={code}&iss=https://another.example");
    assert_refused(&fourth.end_with(&bench, &fourth.cookie, &mixed).await, "the issuer is another one");
    // A sign-in expires after ten minutes.
    let late = Journey::begin(&bench, BEGIN).await;
    let code = provider.grant(&late.url);
    clock.go_on(600_000);
    assert_refused(&late.end(&bench, &code).await, over);
    for query in ["", "?state=", "?state=unknown&code=x", &format!("?state={}", "x".repeat(9_000))] {
        assert_refused(&bench.get(&format!("{CALLBACK}{query}")).await, over);
    }
    // Of several identical callbacks only one succeeds.
    let last = Journey::begin(&bench, BEGIN).await;
    provider.says(json!({"iat": now() + 600, "exp": now() + 999}));
    let code = provider.grant(&last.url);
    let ends = futures::future::join_all((0..4).map(|_| last.end(&bench, &code))).await;
    assert_eq!(ends.iter().filter(|end| end.status == 200).count(), 1);
}

#[tokio::test]
async fn a_sign_in_can_be_finished_in_another_process() {
    let provider = OpenIdProvider::start().await;
    let store = Arc::new(MemoryStore::new());
    let process = || server_at(&store, settings(&[("corp", open(&provider))]), Arc::new(SystemClock));
    let (one, other) = (process(), process());
    let journey = Journey::begin(&one, BEGIN).await;
    let code = provider.grant(&journey.url);
    let answer = journey.end(&other, &code).await;
    let token = token(&answer);
    let id = answer.data()["id"].clone();
    assert_eq!(one.with(&token).get("/api/v1/users/me").await.data()["id"], id);
    assert_refused(&journey.end(&one, &code).await, "this sign-in has ended");
    // A first sign-in in two processes at once creates one user.
    provider.says(json!({"sub": "bob", "email": "bob@example.com"}));
    let (here, there) = futures::join!(sign_in(&one, &provider), sign_in(&other, &provider));
    assert_eq!(here.data()["id"], there.data()["id"]);
}

#[tokio::test]
async fn after_sign_in_the_browser_goes_to_a_page_of_this_server_only() {
    let provider = OpenIdProvider::start().await;
    let bench = server(settings(&[("corp", open(&provider))]));
    let journey = Journey::begin(&bench, &format!("{BEGIN}?next=/chat%3Fid=7")).await;
    let code = provider.grant(&journey.url);
    let answer = journey.end(&bench, &code).await;
    assert_eq!(
        (answer.status, answer.headers["referrer-policy"].to_str().unwrap()),
        (StatusCode::SEE_OTHER, "no-referrer")
    );
    let place = answer.headers["location"].to_str().unwrap();
    let token = place.strip_prefix("/chat?id=7#authorization=").unwrap();
    assert_eq!(bench.with(token).get("/api/v1/users/me").await.data()["email"], "ann@example.com");
    assert!(!answer.text.contains(token));
    for next in [
        "//x.example",
        "https://x.example",
        "/%5Cx.example",
        "javascript:alert(1)",
        "/a%0d%0ab",
        "/api/v1/webhook/7",
        "/chat/../api/v1/webhook/7",
        "/a%23b",
    ] {
        let answer = bench.get(&format!("{BEGIN}?next={next}")).await;
        assert_eq!(answer.refusal().0, 101, "{next}");
        assert!(answer.headers.get("location").is_none());
    }
    // Text from the provider is escaped, in the page and behind the `#`.
    let said = "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E%0d%0aX-Evil:%201";
    let journey = Journey::begin(&bench, &format!("{BEGIN}?next=/chat")).await;
    let answer = journey.end_with(&bench, &journey.cookie, said).await;
    let place = answer.headers["location"].to_str().unwrap();
    assert!(place.starts_with("/chat#error=the%20provider%20%60corp%60"), "{place}");
    assert!(place.contains("%3Cscript%3E") && !place.contains('<'), "{place}");
    let journey = Journey::begin(&bench, BEGIN).await;
    let answer = journey.end_with(&bench, &journey.cookie, said).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(answer.headers.get("x-evil").is_none());
    assert_refused(&answer, "access_denied: <script>");
}

#[tokio::test]
async fn a_failing_provider_is_reported_and_passwords_still_work() {
    const DESCRIPTION: &str = ".well-known/openid-configuration";
    let provider = OpenIdProvider::start().await;
    let check = async |change: &dyn Fn(&mut crate::oidc_provider::Manners)| {
        let bench = server(settings(&[("corp", open(&provider))]));
        provider.behave(|manners| {
            (manners.away, manners.endless, manners.description) = (None, None, json!({}));
            change(manners);
        });
        let begun = bench.get(BEGIN).await;
        let answer = match begun.status.as_u16() {
            303 => {
                let journey = Journey::of(begun.headers["location"].to_str().unwrap(), &begun);
                let code = provider.grant(&journey.url);
                journey.end(&bench, &code).await
            }
            _ => begun,
        };
        assert_eq!(answer.status, 502, "{}", answer.text);
        assert_eq!(answer.refusal().0, 105);
        assert!(answer.text.contains("the provider `corp`"), "{}", answer.text);
        let password = Secret::new(PASSWORD);
        let bob = NewUser { email: "bob@example.com", nickname: "Bob", password: Some(&password) };
        bench.app.create_user(bob, &default_tenant(), MemberRole::User).await.unwrap();
        let body = json!({"email": "bob@example.com", "password": PASSWORD});
        token(&bench.with("").post("/api/v1/auth/login", body).await);
    };
    for path in [DESCRIPTION, "keys", "token"] {
        check(&|manners| manners.away = Some(path)).await;
        check(&|manners| manners.endless = Some(path)).await;
    }
    check(&|manners| manners.description = json!({"issuer": "https://another.example"})).await;
    check(&|manners| manners.description = json!({"token_endpoint": "http://another.example/token"})).await;
    check(&|manners| manners.description = json!({"jwks_uri": "file:///etc/passwd"})).await;
    // A failed request is not repeated at once.
    provider.behave(|manners| {
        (manners.away, manners.description) = (Some(DESCRIPTION), json!({}));
        manners.asked.clear();
    });
    let bench = server(settings(&[("corp", open(&provider))]));
    for _ in 0..5 {
        assert_eq!(bench.get(BEGIN).await.status, 502);
    }
    assert_eq!(provider.asked(DESCRIPTION), 1);
}

#[tokio::test]
async fn an_account_is_linked_only_by_a_verified_address() {
    let provider = OpenIdProvider::start().await;
    let closed = OidcConfig { sign_up: false, ..open(&provider) };
    let bench = server(settings(&[("corp", closed.clone())]));
    assert_refused(&sign_in(&bench, &provider).await, "ask an owner of the tenant for an invitation");
    let (tenant, password) = (default_tenant(), Secret::new(PASSWORD));
    let ann = NewUser { email: "ann@example.com", nickname: "Ann", password: Some(&password) };
    let ann = bench.app.create_user(ann, &tenant, MemberRole::Editor).await.unwrap();
    provider.says(json!({"email_verified": false}));
    assert_refused(&sign_in(&bench, &provider).await, "confirms no e-mail address");
    provider.says(json!({"email": "ANN@Example.com"}));
    let answer = sign_in(&bench, &provider).await.data();
    assert_eq!((answer["id"].as_str(), &answer["role"]), (Some(ann.id.as_str()), &json!("editor")));
    // Another subject at the provider with the same verified address signs in to the same account.
    provider.says(json!({"sub": "another"}));
    assert_eq!(sign_in(&bench, &provider).await.data()["id"], ann.id.as_str());
    bench.app.disable_user(&ann.id).await.unwrap();
    assert_refused(&sign_in(&bench, &provider).await, "disabled");
    // Not where the settings forbid linking, nor where the address was never verified here.
    let never = server(settings(&[("corp", OidcConfig { link_by_email: false, ..open(&provider) })]));
    let unconfirmed = NewUser { email: "ann@example.com", nickname: "Ann", password: None };
    never.app.create_user(unconfirmed, &tenant, MemberRole::User).await.unwrap();
    assert_refused(&sign_in(&never, &provider).await, "an account with your e-mail address exists");
    let config = AccountsConfig { sign_up: true, ..settings(&[("corp", open(&provider))]) };
    let registered = server(config);
    let mallory = registered.app.register("ann@example.com", "Mallory", &password, "").await.unwrap();
    assert_refused(&sign_in(&registered, &provider).await, "an account with your e-mail address exists");
    // Leaving the tenant of the registration verifies nothing.
    let tenants = &registered.app.accounts.stores.tenants;
    tenants.remove_member(&mallory.tenant, &mallory.user.id).await.unwrap();
    assert_refused(&sign_in(&registered, &provider).await, "an account with your e-mail address exists");
}

#[tokio::test]
async fn an_invited_user_gets_the_role_of_the_invitation() {
    let provider = OpenIdProvider::start().await;
    let bench = server(settings(&[("corp", OidcConfig { sign_up: false, ..open(&provider) })]));
    let shop = TenantId::new("shop");
    bench.app.invite(&shop, "Ann@example.com", MemberRole::Editor, "cli").await.unwrap();
    provider.says(json!({"email_verified": false}));
    assert_refused(&sign_in(&bench, &provider).await, "confirms no e-mail address");
    provider.says(json!({}));
    let answer = sign_in(&bench, &provider).await.data();
    assert_eq!((&answer["tenant_id"], &answer["role"]), (&json!("shop"), &json!("editor")));
    assert_eq!(sign_in(&bench, &provider).await.data()["id"], answer["id"]);
}

#[tokio::test]
async fn two_providers_map_to_two_tenants_and_groups_to_roles() {
    let provider = OpenIdProvider::start().await;
    let second = OpenIdProvider::start().await;
    let roles = [("admins", MemberRole::Owner), ("writers", MemberRole::Editor)];
    let corp = OidcConfig {
        role: MemberRole::Viewer,
        role_claim: "groups".to_owned(),
        roles: roles.map(|(group, role)| (group.to_owned(), role)).into(),
        tenant: "first".to_owned(),
        ..open(&provider)
    };
    let shop = OidcConfig { tenant: "second".to_owned(), title: "Shop".to_owned(), ..open(&second) };
    let bench = server(settings(&[("corp", corp), ("shop", shop)]));
    let boss = NewUser { email: "boss@example.com", nickname: "", password: None };
    bench.app.create_user(boss, &TenantId::new("first"), MemberRole::Owner).await.unwrap();
    for (groups, role) in [
        (json!(["others", "writers"]), "editor"),
        (json!("admins"), "owner"),
        (json!(["writers", "admins"]), "owner"),
        (json!([]), "viewer"),
    ] {
        provider.says(json!({"groups": groups}));
        let answer = sign_in(&bench, &provider).await.data();
        assert_eq!((&answer["tenant_id"], &answer["role"]), (&json!("first"), &json!(role)), "{groups}");
    }
    // The same subject at another provider is another person, in another tenant.
    second.says(json!({"email": "eve@example.com"}));
    let journey = Journey::begin(&bench, "/api/v1/auth/oidc/shop").await;
    let code = second.grant(&journey.url);
    let request = Request::builder()
        .uri(format!("/api/v1/auth/oidc/shop/callback?state={}&code={code}", journey.state))
        .header("cookie", &journey.cookie);
    let eve = bench.send(request.body(Body::empty()).unwrap()).await;
    let token = token(&eve);
    assert_eq!(eve.data()["tenant_id"], "second");
    let refused =
        bench.with(&token).ask("PUT", "/api/v1/users/me/tenant", json!({"tenant_id": "first"})).await;
    assert_ne!(refused.json()["code"], 0);
}

#[tokio::test]
async fn claims_missing_from_the_token_come_from_the_user_info() {
    let provider = OpenIdProvider::start().await;
    let bench = server(settings(&[("corp", open(&provider))]));
    provider.says(json!({"email": null, "email_verified": true}));
    provider.behave(|manners| manners.userinfo = json!({"sub": "ann-1", "email": "ann@example.com"}));
    // The claim that an address is verified has to come from the same place as the address.
    assert_refused(&sign_in(&bench, &provider).await, "confirms no e-mail address");
    let whole = json!({"sub": "ann-1", "email": "ann@example.com", "email_verified": true});
    provider.behave(|manners| manners.userinfo = whole.clone());
    assert_eq!(sign_in(&bench, &provider).await.data()["email"], "ann@example.com");
    let mut another = whole;
    another["sub"] = "bob".into();
    provider.behave(|manners| manners.userinfo = another);
    assert_refused(&sign_in(&bench, &provider).await, "the user info is about another user");
    // A client may have to send its secret in the body.
    let bench = server(settings(&[("corp", open(&provider))]));
    let post = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    provider.behave(|manners| (manners.claims, manners.description) = (json!({}), post));
    token(&sign_in(&bench, &provider).await);
    // A provider that announces the issuer parameter must send it.
    let bench = server(settings(&[("corp", open(&provider))]));
    let named = json!({"authorization_response_iss_parameter_supported": true});
    provider.behave(|manners| manners.description = named);
    assert_refused(&sign_in(&bench, &provider).await, "the issuer is missing");
    let journey = Journey::begin(&bench, BEGIN).await;
    let code = provider.grant(&journey.url);
    let named = format!("code={code}&iss={}", provider.issuer());
    token(&journey.end_with(&bench, &journey.cookie, &named).await);
}

#[tokio::test]
async fn a_user_adds_and_removes_identities_with_audit_entries() {
    const MINE: &str = "/api/v1/users/me/identities";
    let provider = OpenIdProvider::start().await;
    let bench = server(settings(&[("corp", OidcConfig { sign_up: false, ..open(&provider) })]));
    let (ann, ann_id) = bench.as_member("default", MemberRole::Owner).await;
    let (bob, _) = bench.as_member("default", MemberRole::User).await;
    // For a user who is already signed in the address does not matter.
    provider.says(json!({"email": "elsewhere@another.example", "email_verified": false}));
    let add = async |who: &Bench, next: &str| {
        let answer = who.post(MINE, json!({"provider": "corp", "next": next})).await;
        let url = answer.data()["url"].as_str().unwrap().to_owned();
        let journey = Journey::of(&url, &answer);
        let code = provider.grant(&url);
        journey.end(&bench, &code).await
    };
    let added = add(&ann, "").await;
    assert!(added.headers.get("authorization").is_none());
    assert_eq!(added.data()["subject"], "ann-1");
    assert_eq!(sign_in(&bench, &provider).await.data()["id"], ann_id.as_str());
    let again = add(&ann, "/account").await;
    assert_eq!(again.headers["location"], "/account#added=corp");
    // A user cannot remove another user's identity.
    let refused = add(&bob, "").await;
    assert_eq!(refused.refusal().0, 106);
    assert_eq!(bob.get(MINE).await.data(), json!([]));
    let id = ann.get(MINE).await.data()[0]["id"].as_str().unwrap().to_owned();
    let path = format!("{MINE}/{id}");
    assert_eq!(bob.ask("DELETE", &path, Json::Null).await.refusal().0, 102);
    // The last identity of a user without a password cannot be removed.
    assert_eq!(ann.ask("DELETE", &path, Json::Null).await.refusal().0, 103);
    bench.app.set_password(&ann_id, &Secret::new(PASSWORD), None).await.unwrap();
    let ann = bench.with(&token(&sign_in(&bench, &provider).await));
    assert_eq!(ann.ask("DELETE", &path, Json::Null).await.data(), true);
    assert_refused(&sign_in(&bench, &provider).await, "no account here belongs to this sign-in");
    let log = ann.get("/api/v1/audit").await.data();
    let seen: Vec<(&str, u64)> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["target"] == "corp")
        .map(|entry| (entry["action"].as_str().unwrap(), entry["code"].as_u64().unwrap()))
        .collect();
    for expected in
        [("add identity", 0), ("remove identity", 0), ("login by provider", 0), ("login by provider", 103)]
    {
        assert!(seen.contains(&expected), "{expected:?} in {seen:?}");
    }
    for who in [bench.with(""), bench.with("weft-nobody")] {
        assert_eq!(who.post(MINE, json!({"provider": "corp"})).await.status, 401);
    }
}

#[tokio::test]
async fn unfinished_sign_ins_are_limited() {
    let provider = OpenIdProvider::start().await;
    let config = AccountsConfig { sign_in_attempts_per_address: 3, ..settings(&[("corp", open(&provider))]) };
    let bench = server(config);
    for _ in 0..5 {
        token(&sign_in(&bench, &provider).await);
    }
    for _ in 0..3 {
        Journey::begin(&bench, BEGIN).await;
    }
    let refused = bench.get(BEGIN).await;
    assert_eq!((refused.status.as_u16(), refused.refusal().0), (429, 429));
    // Password sign-ins are counted separately.
    let (tenant, password) = (default_tenant(), Secret::new(PASSWORD));
    let bob = NewUser { email: "bob@example.com", nickname: "", password: Some(&password) };
    bench.app.create_user(bob, &tenant, MemberRole::User).await.unwrap();
    let body = json!({"email": "bob@example.com", "password": PASSWORD});
    token(&bench.with("").post("/api/v1/auth/login", body).await);
}
