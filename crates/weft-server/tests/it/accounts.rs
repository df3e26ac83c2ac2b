//! Users, their sign-ins, and their permissions in their tenants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_app::Auth;
use weft_app::accounts::NewUser;
use weft_app::config::{AccountsConfig, AuditLevel, LimitsConfig};
use weft_core::access::MemberRole;
use weft_core::id::UserId;
use weft_core::seam::audit_store::AuditFilter;
use weft_core::seam::file_store::StoredFile;
use weft_core::seam::memory_store::NewMessage;
use weft_core::seam::session_store::{Session, SessionCommit, SessionMessage};
use weft_core::seam::tenant_store::Tenant;
use weft_core::seam::token_store::StoredToken;
use weft_core::seam::user_store::{Login, Logins, UserChange};
use weft_core::{ErrorKind, SessionKey, TenantId};
use weft_engine::clock::SystemClock;
use weft_server::webhook::Peer;
use weft_testkit::contracts::memories::{memory, message};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Script, ScriptedModel};

use crate::attachments::upload;
use crate::support::{Bench, HandClock, Reading, bench, default_tenant, echo_canvas, process_with};

const PASSWORD: &str = "correct horse battery";
const DAY_MS: i64 = 86_400_000;

/// A server with these account settings.
fn with_config(config: AccountsConfig) -> Bench {
    let store = (Arc::new(MemoryStore::new()), ScriptedModel::new(Script::new()));
    process_with(store, (Auth::On, LimitsConfig::default()), (Arc::new(SystemClock), config))
}

async fn with_ann(bench: &Bench, role: MemberRole) -> String {
    let password = weft_core::Secret::new(PASSWORD);
    let tenant = default_tenant();
    let user = NewUser { email: "Ann@Example.com", nickname: "Ann", password: Some(&password) };
    bench.app.create_user(user, &tenant, role).await.unwrap().id.to_string()
}

impl Bench {
    async fn sign_in(&self, email: &str, password: &str) -> Reading {
        self.with("").post("/api/v1/auth/login", json!({"email": email, "password": password})).await
    }

    /// The same server, used by a user who has just signed in.
    async fn signed_in(&self, email: &str, password: &str) -> Self {
        let answer = self.sign_in(email, password).await;
        answer.data();
        self.with(answer.headers["authorization"].to_str().unwrap())
    }
}

#[tokio::test]
async fn a_user_signs_in_is_recognized_and_signs_out() {
    let bench = bench(Script::new()).await;
    let id = with_ann(&bench, MemberRole::Editor).await;
    let answer = bench.sign_in(" ANN@example.com", PASSWORD).await;
    let token = answer.headers["authorization"].to_str().unwrap().to_owned();
    assert_eq!(answer.headers["cache-control"], "no-store");
    let data = answer.data();
    for (member, expected) in [
        ("id", id.as_str()),
        ("email", "ann@example.com"),
        ("nickname", "Ann"),
        ("tenant_id", "default"),
        ("role", "editor"),
    ] {
        assert_eq!(data[member], expected, "{member}");
    }
    assert!(!answer.text.contains("argon2") && !answer.text.contains(&token), "{}", answer.text);
    let ann = bench.with(&token);
    for path in ["/api/v1/users/me", "/v1/user/info"] {
        assert_eq!(ann.get(path).await.data()["id"], id.as_str());
    }
    // In the form that older clients send.
    let raw = Request::builder().uri("/v1/user/info").header("authorization", &token);
    assert_eq!(bench.send(raw.body(Body::empty()).unwrap()).await.data()["id"], id.as_str());
    ann.store("Hers", echo_canvas()).await;
    let mine = ann.get("/api/v1/users/me/logins").await.data();
    assert_eq!((mine.as_array().unwrap().len(), &mine[0]["current"]), (1, &json!(true)));
    assert!(!mine.to_string().contains(&token));
    let other = bench.signed_in("ann@example.com", PASSWORD).await;
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me/logins", Json::Null).await.data(), 1);
    assert_eq!(other.get("/api/v1/users/me").await.status, 401);
    assert_eq!(ann.ask("POST", "/api/v1/auth/logout", Json::Null).await.data(), true);
    assert_eq!(ann.get("/api/v1/users/me").await.status, 401);
    let again = bench.signed_in("ann@example.com", PASSWORD).await;
    assert_eq!(again.get("/v1/user/logout").await.data(), true);
    assert_eq!(again.get("/api/v1/agents").await.status, 401);
}

#[tokio::test]
async fn an_unknown_user_and_a_wrong_password_get_the_same_error() {
    let bench = bench(Script::new()).await;
    with_ann(&bench, MemberRole::Owner).await;
    let no_password = NewUser { email: "Bob@example.com", nickname: "Bob", password: None };
    bench.app.create_user(no_password, &default_tenant(), MemberRole::User).await.unwrap();
    let mut told = Vec::new();
    for (email, password) in [
        ("ann@example.com", "wrong"),
        ("nobody@example.com", PASSWORD),
        ("bob@example.com", ""),
        ("bob@example.com", "x"),
    ] {
        let refused = bench.sign_in(email, password).await;
        assert!(refused.headers.get("authorization").is_none());
        if password.is_empty() {
            continue;
        }
        told.push((refused.status, refused.text));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].1.contains("Email and password do not match!") && told[0].1.contains("109"), "{told:?}");
    for body in [json!({}), json!({"email": "ann@example.com"}), json!({"password": "x"})] {
        assert_eq!(bench.post("/api/v1/auth/login", body).await.refusal().0, 101);
    }
}

#[tokio::test]
async fn password_guessing_is_limited_without_locking_out_other_addresses() {
    let config =
        AccountsConfig { sign_in_attempts: 3, sign_in_attempts_per_address: 5, ..AccountsConfig::default() };
    let bench = with_config(config);
    with_ann(&bench, MemberRole::Owner).await;
    let from = async |address: &str, email: &str, password: &str| {
        let body = json!({"email": email, "password": password});
        let mut request = bench.request("POST", "/api/v1/auth/login", &body);
        request.extensions_mut().insert(Peer(address.parse().unwrap()));
        let reading = bench.send(request).await;
        (reading.status, reading.json()["code"].as_u64().unwrap())
    };
    let (here, there) = ("192.0.2.1", "2001:db8::1");
    let mismatch = (StatusCode::OK, 109);
    let too_many = (StatusCode::TOO_MANY_REQUESTS, 429);
    // Successful attempts do not count.
    for _ in 0..4 {
        assert_eq!(from(here, "ann@example.com", PASSWORD).await, (StatusCode::OK, 0));
    }
    let guesses = futures::future::join_all((0..4).map(|_| from(here, "ann@example.com", "wrong"))).await;
    assert_eq!(guesses.iter().filter(|one| **one == mismatch).count(), 3, "{guesses:?}");
    assert_eq!(from(here, "ANN@example.com ", PASSWORD).await, too_many, "this account from this address");
    assert_eq!(from(there, "ann@example.com", PASSWORD).await, (StatusCode::OK, 0), "not from elsewhere");
    // Other accounts share the remaining attempts of this address.
    for email in ["bob@example.com", "eve@example.com"] {
        assert_eq!(from(here, email, "x").await, mismatch);
    }
    assert_eq!(from(here, "kim@example.com", "x").await, too_many);
}

#[tokio::test]
async fn a_lock_is_in_the_audit_log_once_and_each_sign_in_in_the_metrics() {
    let bench = with_config(AccountsConfig { sign_in_attempts: 2, ..AccountsConfig::default() });
    with_ann(&bench, MemberRole::Owner).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    for _ in 0..2 {
        assert_eq!(bench.sign_in("ann@example.com", "wrong").await.refusal().0, 109);
    }
    for _ in 0..3 {
        assert_eq!(bench.sign_in("ann@example.com", PASSWORD).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
    let all = AuditFilter { limit: 99, ..AuditFilter::default() };
    let entries = bench.app.accounts.stores.audit.audit(&default_tenant(), &all).await.unwrap();
    let refused: Vec<_> = entries.iter().filter(|one| one.outcome == 429).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((&*refused[0].action, &*refused[0].target), ("login", "ann@example.com"));
    let page = ann.get("/metrics").await.text;
    for (outcome, count) in [("succeeded", 1), ("mismatch", 2), ("too_many", 3), ("failed", 0)] {
        assert!(page.contains(&format!("weft_sign_ins_total{{outcome=\"{outcome}\"}} {count}\n")), "{page}");
    }
}

#[tokio::test]
async fn clients_of_a_trusted_proxy_do_not_lock_each_other_out() {
    let trusted_proxies = vec!["10.0.0.0/8".to_owned()];
    let config = AccountsConfig { sign_in_attempts: 1, trusted_proxies, ..AccountsConfig::default() };
    let bench = with_config(config);
    with_ann(&bench, MemberRole::Owner).await;
    let through = async |proxy: &str, client: &str, password: &str| {
        let body = json!({"email": "ann@example.com", "password": password});
        let mut request = bench.request("POST", "/api/v1/auth/login", &body);
        request.extensions_mut().insert(Peer(proxy.parse().unwrap()));
        request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
        bench.send(request).await
    };
    let code = async |proxy: &str, client: &str, password: &str| {
        through(proxy, client, password).await.json()["code"].as_u64().unwrap()
    };
    assert_eq!(code("10.0.0.1", "203.0.113.7", "wrong").await, 109);
    let refused = through("10.0.0.1", "198.51.100.1, 203.0.113.7", PASSWORD).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "900");
    assert_eq!(code("10.0.0.1", "203.0.113.8", PASSWORD).await, 0, "another client of the same proxy");
    // Anybody else writes what they like.
    assert_eq!(code("192.0.2.1", "203.0.113.7", "wrong").await, 109);
    assert_eq!(code("192.0.2.1", "203.0.113.9", PASSWORD).await, 429);
}

#[tokio::test]
async fn bodies_are_small_where_no_token_is_needed() {
    let open = with_config(AccountsConfig { sign_up: true, ..AccountsConfig::default() });
    let long = "x".repeat(70_000);
    let sign_in = json!({"email": "ann@example.com", "password": long});
    let register = json!({"email": "eve@example.com", "password": PASSWORD, "nickname": long});
    for (path, body) in [
        ("/api/v1/auth/login", &sign_in),
        ("/v1/user/login", &sign_in),
        ("/api/v1/users", &register),
        ("/v1/user/register", &register),
        ("/api/v1/auth/invitations/accept", &json!({"invitation": long, "password": PASSWORD})),
    ] {
        let refused = open.with("").post(path, body.clone()).await;
        assert_eq!((refused.status, refused.refusal().0), (StatusCode::PAYLOAD_TOO_LARGE, 413), "{path}");
    }
}

#[tokio::test]
async fn a_sign_in_that_fails_internally_is_not_counted_as_a_guess() {
    let config = AccountsConfig { sign_in_attempts: 1, ..AccountsConfig::default() };
    let bench = with_config(config);
    let id = UserId::from(with_ann(&bench, MemberRole::Owner).await);
    let users = &bench.app.accounts.stores.users;
    let hash = users.user(&id).await.unwrap().password_hash;
    let set = async |hash: &str| {
        let change = UserChange { password_hash: Some(hash.to_owned()), ..UserChange::default() };
        users.change_user(&id, &change).await.unwrap();
    };
    set("no hash").await;
    for _ in 0..3 {
        assert_eq!(
            bench.sign_in("ann@example.com", PASSWORD).await.status,
            StatusCode::INTERNAL_SERVER_ERROR
        );
    }
    set(&hash).await;
    bench.signed_in("ann@example.com", PASSWORD).await;
    assert_eq!(bench.sign_in("ann@example.com", "wrong").await.refusal().0, 109);
    assert_eq!(bench.sign_in("ann@example.com", PASSWORD).await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn sign_ins_expire() {
    let clock = HandClock::at(1_700_000_000_000);
    let store = (Arc::new(MemoryStore::new()), ScriptedModel::new(Script::new()));
    let config = AccountsConfig { session_days: 2, ..AccountsConfig::default() };
    let bench = process_with(store, (Auth::On, LimitsConfig::default()), (clock.clone(), config));
    with_ann(&bench, MemberRole::Owner).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    clock.go_on(2 * DAY_MS - 1);
    ann.get("/api/v1/users/me").await.data();
    clock.go_on(1);
    assert_eq!(ann.get("/api/v1/users/me").await.status, 401);
}

#[tokio::test]
async fn changing_a_password_needs_the_old_one_and_ends_other_sign_ins() {
    let bench = bench(Script::new()).await;
    with_ann(&bench, MemberRole::User).await;
    let (ann, other) = (
        bench.signed_in("ann@example.com", PASSWORD).await,
        bench.signed_in("ann@example.com", PASSWORD).await,
    );
    let change = async |old: &str, new: &str| {
        ann.ask("PATCH", "/api/v1/users/me", json!({"password": old, "new_password": new})).await.json()["code"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(change("wrong", "another password").await, 109);
    assert_eq!(change(PASSWORD, "short").await, 101);
    // A request that is refused because of one field changes nothing.
    for nickname in ["a\nb", " "] {
        let both = json!({"password": PASSWORD, "new_password": "another password", "nickname": nickname});
        assert_eq!(ann.ask("PATCH", "/api/v1/users/me", both).await.refusal().0, 101);
    }
    other.get("/api/v1/users/me").await.data();
    assert_eq!(change(PASSWORD, "another password").await, 0);
    assert_eq!(other.get("/api/v1/users/me").await.status, 401);
    ann.get("/api/v1/users/me").await.data();
    assert_eq!(bench.sign_in("ann@example.com", PASSWORD).await.refusal().0, 109);
    bench.signed_in("ann@example.com", "another password").await;
    let renamed = ann.post("/v1/user/setting", json!({"nickname": "Anna"})).await.data();
    assert_eq!(renamed["nickname"], "Anna");
    assert_eq!(ann.post("/v1/user/setting", json!({"nickname": "a\nb"})).await.refusal().0, 101);
}

#[tokio::test]
async fn registration_is_off_unless_the_settings_allow_it() {
    let body = json!({"email": "eve@example.com", "password": PASSWORD, "nickname": "Eve"});
    let closed = bench(Script::new()).await;
    for path in ["/api/v1/users", "/v1/user/register"] {
        let refused = closed.with("").post(path, body.clone()).await.refusal();
        assert_eq!(refused, (103, "User registration is disabled!".into()));
    }
    assert_eq!(closed.get("/api/v1/system/config").await.data()["registerEnabled"], 0);
    let open = with_config(AccountsConfig { sign_up: true, ..AccountsConfig::default() });
    assert_eq!(open.get("/v1/system/config").await.data()["registerEnabled"], 1);
    for (changed, code) in [
        (json!({"email": "eve"}), 101),
        (json!({"password": "short"}), 101),
        (json!({"nickname": "a\nb"}), 101),
    ] {
        let mut body = body.clone();
        body.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        assert_eq!(open.post("/v1/user/register", body).await.refusal().0, code, "{changed}");
    }
    let answer = open.post("/v1/user/register", body.clone()).await;
    let eve = open.with(answer.headers["authorization"].to_str().unwrap());
    let data = answer.data();
    // A new tenant, in which the user is the only member.
    assert_eq!((&data["tenant_id"], &data["role"]), (&data["id"], &json!("owner")));
    eve.store("Hers", echo_canvas()).await;
    let tenants = async || open.app.accounts.stores.tenants.tenants(None, 99).await.unwrap().len();
    let before = tenants().await;
    let twice = open.post("/v1/user/register", body).await.refusal();
    assert_eq!(tenants().await, before, "registering with a taken address creates no tenant");
    assert_eq!(twice, (103, "Email: eve@example.com has already registered!".into()));
}

#[tokio::test]
async fn an_invitation_can_be_used_once() {
    let bench = bench(Script::new()).await;
    let path = "/api/v1/tenants/default/users";
    let invited = bench.post(path, json!({"email": "Bob@Example.com", "role": "editor"})).await.data();
    let secret = invited["invitation"].as_str().unwrap().to_owned();
    assert_eq!((&invited["email"], &invited["role"]), (&json!("bob@example.com"), &json!("invite")));
    let listed = bench.get(path).await;
    assert!(listed.text.contains("bob@example.com") && !listed.text.contains(&secret));
    let accept = async |secret: &str, password: &str| {
        let body = json!({"invitation": secret, "password": password, "nickname": "Bob"});
        bench.with("").post("/api/v1/auth/invitations/accept", body).await
    };
    assert_eq!(accept("weftinvite-none", PASSWORD).await.refusal().0, 102);
    assert_eq!(accept(&secret, "short").await.refusal().0, 101);
    let answer = accept(&secret, PASSWORD).await;
    assert_eq!((&answer.data()["role"], &answer.data()["tenant_id"]), (&json!("editor"), &json!("default")));
    assert_eq!(accept(&secret, PASSWORD).await.refusal().0, 102, "once");
    let bob = bench.with(answer.headers["authorization"].to_str().unwrap());
    bob.store("His", echo_canvas()).await;
    assert_eq!(bob.get(path).await.status, 403, "an editor is not an administrator");
    // A user who has an account already proves that it is theirs, and gets the same responses until then.
    let other = bench.with(&bench.stranger().await);
    let path = "/api/v1/tenants/another/users";
    let again = other.post(path, json!({"email": "bob@example.com"})).await.data();
    let secret = again["invitation"].as_str().unwrap();
    assert_eq!(accept(secret, "wrong").await.refusal().0, 109);
    let tenancies = bob.get("/v1/tenant/list").await.data();
    let roles: Vec<_> =
        tenancies.as_array().unwrap().iter().map(|one| (&one["tenant_id"], &one["role"])).collect();
    assert_eq!(roles, [(&json!("default"), &json!("editor")), (&json!("another"), &json!("invite"))]);
    let switch = json!({"tenant_id": "another"});
    assert_eq!(bob.ask("PUT", "/api/v1/users/me/tenant", switch.clone()).await.refusal().0, 103);
    assert_eq!(bob.ask("PATCH", "/api/v1/tenants/another", Json::Null).await.data()["role"], "user");
    assert_eq!(bob.ask("PATCH", "/api/v1/tenants/another", Json::Null).await.refusal().0, 102);
    assert_eq!(bob.ask("PUT", "/api/v1/users/me/tenant", switch).await.data()["role"], "user");
    assert_eq!(bob.get("/api/v1/agents").await.data()["total"], 0);
    assert_eq!(bob.post("/api/v1/agents", json!({"title": "x", "dsl": echo_canvas()})).await.status, 403);
}

#[tokio::test]
async fn who_has_registered_needs_the_secret_of_an_invitation() {
    let open = with_config(AccountsConfig { sign_up: true, ..AccountsConfig::default() });
    let (owner, _) = open.as_member("shop", MemberRole::Owner).await;
    let invited = json!({"email": "ann@example.com", "role": "owner"});
    let invited = owner.post("/api/v1/tenants/shop/users", invited).await.data();
    // Anyone can register with any address.
    let body = json!({"email": "ann@example.com", "password": PASSWORD, "nickname": "Mallory"});
    let answer = open.with("").post("/api/v1/users", body).await;
    let id = UserId::from(answer.data()["id"].as_str().unwrap());
    let mallory = open.with(answer.headers["authorization"].to_str().unwrap());
    let (code, message) = mallory.ask("PATCH", "/api/v1/tenants/shop", Json::Null).await.refusal();
    assert!(code == 103 && message.contains("/api/v1/auth/invitations/accept"), "{code} {message}");
    // Removing the tenant of the registration does not make the address a confirmed one.
    open.app.remove_tenant(&TenantId::new(id.as_str())).await.unwrap();
    let user = open.app.accounts.stores.users.user(&id).await.unwrap();
    let refused = open.app.accept_as(&user, &TenantId::new("shop")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied, "{}", refused.full());
    let body = json!({"invitation": invited["invitation"], "password": PASSWORD});
    let accepted = open.with("").post("/api/v1/auth/invitations/accept", body).await.data();
    assert_eq!((&accepted["role"], &accepted["tenant_id"]), (&json!("owner"), &json!("shop")));
}

/// The names on a page of a list, and the total.
async fn part(bench: &Bench, path: &str, name: &str) -> (Vec<String>, u64) {
    let answer = bench.get(path).await.json();
    let entries = answer["data"].as_array().unwrap().iter();
    (entries.map(|one| one[name].as_str().unwrap().to_owned()).collect(), answer["total"].as_u64().unwrap())
}

#[tokio::test]
async fn members_and_keys_are_paged_and_counted() {
    let bench = bench(Script::new()).await;
    let (editor, _) = bench.as_member("default", MemberRole::Editor).await;
    bench.as_member("default", MemberRole::Viewer).await;
    let path = "/api/v1/tenants/default/users";
    for email in ["a@example.com", "b@example.com", "c@example.com"] {
        bench.post(path, json!({"email": email})).await.data();
    }
    let (all, total) = part(&bench, path, "email").await;
    assert_eq!((all.len(), total), (5, 5));
    let mut paged = Vec::new();
    for page in 1..=3 {
        let (some, total) = part(&bench, &format!("{path}?page={page}&page_size=2"), "email").await;
        assert_eq!(total, 5);
        paged.push(some);
    }
    assert_eq!(paged.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(paged.concat(), all, "members come before invitations");
    let path = "/api/v1/system/tokens";
    for name in ["one", "two", "three"] {
        editor.post(path, json!({"name": name})).await.data();
    }
    let (all, total) = part(&editor, path, "id").await;
    assert_eq!((all.len(), total), (3, 3));
    let second = part(&editor, &format!("{path}?page=2&page_size=2"), "id").await;
    assert_eq!(second, (all[2..].to_vec(), 3));
}

#[tokio::test]
async fn sign_ins_are_paged_and_exported_completely() {
    let bench = bench(Script::new()).await;
    let user = UserId::from(with_ann(&bench, MemberRole::User).await);
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    for nth in 0..250_i64 {
        let hash = format!("{nth:064}");
        let (tenant, user) = (default_tenant(), user.clone());
        let login =
            Login { hash, user, tenant, created_ms: nth, expires_ms: 4_000_000_000_000, last_used_ms: None };
        bench.app.accounts.stores.users.add_login(&login).await.unwrap();
    }
    let path = "/api/v1/users/me/logins";
    let all = ann.get(path).await.data();
    let all = all.as_array().unwrap();
    assert_eq!((all.len(), &all[0]["current"]), (251, &json!(true)), "the newest comes first");
    let last = ann.get(&format!("{path}?page=3&page_size=100")).await.data();
    assert_eq!(last.as_array().unwrap().as_slice(), &all[200..]);
    let told = ann.get("/api/v1/users/me/export").await.data();
    let of_kind = |kind: &str| told.as_array().unwrap().iter().filter(|one| one["kind"] == kind).count();
    assert_eq!((of_kind("sign_in"), of_kind("membership")), (251, 1));
}

#[tokio::test]
async fn an_expired_or_revoked_invitation_is_refused() {
    let clock = HandClock::at(1_700_000_000_000);
    let store = (Arc::new(MemoryStore::new()), ScriptedModel::new(Script::new()));
    let config = AccountsConfig::default();
    let bench = process_with(store, (Auth::On, LimitsConfig::default()), (clock.clone(), config));
    let mut secrets = Vec::new();
    for email in ["a@example.com", "b@example.com"] {
        let invited = bench.app.invite(&default_tenant(), email, MemberRole::User, "cli").await.unwrap();
        secrets.push((invited.invitation.id().to_owned(), invited.secret));
    }
    let owner = bench.app.first_token().await.unwrap().unwrap();
    let gone = format!("/api/v1/tenants/default/users/{}", secrets[0].0);
    assert_eq!(bench.with(owner.reveal()).ask("DELETE", &gone, Json::Null).await.data(), true);
    clock.go_on(8 * DAY_MS);
    for (_, secret) in secrets {
        let body = json!({"invitation": secret.reveal(), "password": PASSWORD});
        let refused = bench.post("/api/v1/auth/invitations/accept", body).await.refusal();
        assert!(refused.0 == 102 && refused.1.contains("expired"), "{refused:?}");
    }
}

/// The first token of a server belongs to no user, so the tenant has no member who is an owner.
#[tokio::test]
async fn members_and_invitations_can_be_removed_where_an_api_key_is_the_only_owner() {
    let bench = bench(Script::new()).await;
    let (ann, _) = bench.as_member("default", MemberRole::Editor).await;
    let (_, bob) = bench.as_member("default", MemberRole::User).await;
    let (_, carl) = bench.as_member("default", MemberRole::Viewer).await;
    let invited =
        bench.app.invite(&default_tenant(), "d@example.com", MemberRole::User, "cli").await.unwrap();
    let path = |name: &str| format!("/api/v1/tenants/default/users/{name}");
    assert_eq!(bench.ask("DELETE", &path("nobody"), Json::Null).await.refusal().0, 102);
    for name in [invited.invitation.id(), bob.as_str()] {
        assert_eq!(bench.ask("DELETE", &path(name), Json::Null).await.data(), true);
    }
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me", json!({})).await.data(), true);
    assert_eq!(bench.ask("DELETE", &path(carl.as_str()), Json::Null).await.data(), true);
}

#[tokio::test]
async fn a_role_change_applies_at_once_and_the_last_owner_stays() {
    let bench = bench(Script::new()).await;
    let (owner, owner_id) = bench.as_member("default", MemberRole::Owner).await;
    let (member, id) = bench.as_member("default", MemberRole::Viewer).await;
    let path = format!("/api/v1/tenants/default/users/{id}");
    let create = async |title: &str| {
        member.post("/api/v1/agents", json!({"title": title, "dsl": echo_canvas()})).await.status
    };
    assert_eq!(create("a").await, 403);
    assert_eq!(owner.ask("PATCH", &path, json!({"role": "admin"})).await.refusal().0, 101);
    assert_eq!(owner.ask("PATCH", &path, json!({"role": "editor"})).await.data(), true);
    assert_eq!(create("b").await, 200);
    let key = member.post("/api/v1/system/tokens", json!({"name": "mine"})).await.data();
    let key = bench.with(key["token"].as_str().unwrap());
    assert_eq!(owner.ask("PATCH", &path, json!({"role": "viewer"})).await.data(), true);
    assert_eq!(create("c").await, 403);
    assert_eq!(key.post("/api/v1/agents", json!({"title": "d", "dsl": echo_canvas()})).await.status, 403);
    key.get("/api/v1/agents").await.data();
    let last = format!("/api/v1/tenants/default/users/{owner_id}");
    for refused in [
        owner.ask("PATCH", &last, json!({"role": "editor"})).await,
        owner.ask("DELETE", &last, Json::Null).await,
        owner.ask("DELETE", "/api/v1/users/me/tenants/default", Json::Null).await,
        owner.ask("DELETE", "/api/v1/users/me", json!({})).await,
    ] {
        let (code, message) = refused.refusal();
        assert!(code == 106 && message.contains("without an owner"), "{message}");
    }
    assert_eq!(owner.ask("DELETE", &path, Json::Null).await.data(), true);
    assert_eq!(member.get("/api/v1/agents").await.status, 401);
    assert_eq!(key.get("/api/v1/agents").await.status, 401, "a key ends with the membership of its creator");
}

#[tokio::test]
async fn a_key_may_do_at_most_what_its_creator_may() {
    let bench = bench(Script::new()).await;
    let (editor, _) = bench.as_member("default", MemberRole::Editor).await;
    let (viewer, _) = bench.as_member("default", MemberRole::Viewer).await;
    let path = "/api/v1/system/tokens";
    assert_eq!(viewer.post(path, json!({"name": "x"})).await.status, 403);
    assert_eq!(editor.post(path, json!({"role": "owner"})).await.status, 403);
    assert_eq!(editor.post(path, json!({"role": "king"})).await.refusal().0, 101);
    let made = editor.post(path, json!({"name": "reads", "role": "viewer"})).await.data();
    assert_eq!(made["role"], "viewer");
    let reads = bench.with(made["token"].as_str().unwrap());
    reads.get("/api/v1/agents").await.data();
    assert_eq!(reads.post("/api/v1/agents", json!({"title": "x", "dsl": echo_canvas()})).await.status, 403);
    // Users see and revoke their own keys; those of others look missing.
    assert_eq!(editor.get(path).await.data().as_array().unwrap().len(), 1);
    let first = bench.get(path).await.data();
    assert_eq!(first.as_array().unwrap().len(), 2, "owners see all keys");
    let others = first.as_array().unwrap().iter().find(|key| key["user_id"].is_null()).unwrap();
    let others = format!("{path}/{}", others["id"].as_str().unwrap());
    assert_eq!(editor.ask("DELETE", &others, Json::Null).await.refusal(), (102, "Token not found!".into()));
    bench.post(path, json!({"name": "reads"})).await.data();
    assert_eq!(editor.ask("DELETE", &format!("{path}/reads"), Json::Null).await.data(), true);
    assert_eq!(reads.get("/api/v1/agents").await.status, 401);
    assert_eq!(bench.get(path).await.data().as_array().unwrap().len(), 2, "the owner's key stays");
    // API keys cannot access what belongs to a person.
    for (method, path) in [
        ("GET", "/api/v1/users/me/logins"),
        ("GET", "/api/v1/users/me/export"),
        ("DELETE", "/api/v1/users/me"),
        ("POST", "/api/v1/auth/logout"),
    ] {
        assert_eq!(bench.ask(method, path, Json::Null).await.refusal().0, 103, "{path}");
    }
}

#[tokio::test]
async fn a_disabled_user_and_their_keys_are_refused() {
    let bench = bench(Script::new()).await;
    let id = with_ann(&bench, MemberRole::Owner).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    let key = ann.post("/api/v1/system/tokens", json!({"name": "hers"})).await.data();
    let key = bench.with(key["token"].as_str().unwrap());
    let id = id.as_str().into();
    bench.app.disable_user(&id).await.unwrap();
    for one in [&ann, &key] {
        assert_eq!(one.get("/api/v1/agents").await.status, 401);
    }
    let refused = bench.sign_in("ann@example.com", PASSWORD).await.refusal();
    assert!(refused.0 == 403 && refused.1.contains("disabled"), "{refused:?}");
    assert_eq!(bench.sign_in("ann@example.com", "wrong").await.refusal().0, 109, "only with the password");
    bench.app.enable_user(&id).await.unwrap();
    assert_eq!(ann.get("/api/v1/agents").await.status, 401);
    key.get("/api/v1/agents").await.data();
}

#[tokio::test]
async fn the_audit_log_records_changes_and_refusals() {
    let bench = bench(Script::new()).await;
    with_ann(&bench, MemberRole::Owner).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    bench.sign_in("ann@example.com", "wrong").await;
    let agent = ann.store("Echo", echo_canvas()).await;
    ann.get(&format!("/api/v1/agents/{agent}")).await.data();
    let (viewer, viewer_id) = bench.as_member("default", MemberRole::Viewer).await;
    viewer.ask("DELETE", &format!("/api/v1/agents/{agent}"), Json::Null).await.refusal();
    ann.ask("DELETE", "/api/v1/agents/none", Json::Null).await.refusal();
    let entries = ann.get("/api/v1/audit?page_size=50").await.data()["entries"].clone();
    let entries: Vec<String> = entries
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|one| {
            let of = |name: &str| one[name].as_str().unwrap().split(':').next().unwrap().to_owned();
            format!("{} {} {} {}", of("actor"), one["action"].as_str().unwrap(), of("target"), one["code"])
        })
        .collect();
    let expected = [
        "user login ann@example.com 0".to_owned(),
        "nobody login ann@example.com 109".to_owned(),
        "user POST /api/v1/agents /api/v1/agents 0".to_owned(),
        format!("user DELETE /api/v1/agents/{{id}} /api/v1/agents/{agent} 103"),
        "user DELETE /api/v1/agents/{id} /api/v1/agents/none 103".to_owned(),
    ];
    assert_eq!(entries, expected);
    let of_viewer = ann.get(&format!("/api/v1/audit?actor=user:{viewer_id}")).await.data();
    assert_eq!(of_viewer["entries"].as_array().unwrap().len(), 1);
    // By pages, and as JSON lines. Reads of the log are recorded in it, too: two before the first page, five
    // including the request for the lines.
    let first = ann.get("/api/v1/audit?page_size=2").await.data();
    let second = ann
        .get(&format!("/api/v1/audit?page_size=50&after={}", first["next"].as_str().unwrap()))
        .await
        .data();
    assert_eq!(second["entries"].as_array().unwrap().len() + 2, expected.len() + 2);
    assert_eq!(second["next"], Json::Null);
    let lines = ann.get("/api/v1/audit/export").await.text;
    let lines: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["action"]), (expected.len() + 5, &json!("login")));
    for wrong in ["since=x", "after=x"] {
        assert_eq!(ann.get(&format!("/api/v1/audit?{wrong}")).await.refusal().0, 101, "{wrong}");
    }
    // Only entries of the own tenant.
    let other = bench.with(&bench.stranger().await);
    assert_eq!(other.get("/api/v1/audit").await.data()["entries"], json!([]));
    assert_eq!(viewer.get("/api/v1/audit").await.status, 403);
}

/// A token that is named in a path would otherwise be readable in the log, whether it was revoked or not.
#[tokio::test]
async fn the_audit_log_holds_no_token() {
    let bench = bench(Script::new()).await;
    with_ann(&bench, MemberRole::Owner).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    let agent = ann.store("Echo", echo_canvas()).await;
    let shares = format!("/api/v1/agents/{agent}/shares");
    let share = ann.post(&shares, json!({"name": "page"})).await.data();
    let key = ann.post("/api/v1/system/tokens", json!({"name": "ci"})).await.data();
    let [share, key] = [&share, &key].map(|made| made["token"].as_str().unwrap().to_owned());
    let (viewer, _) = bench.as_member("default", MemberRole::Viewer).await;
    let encoded = key.replacen('-', "%2D", 1);
    for path in
        [format!("{shares}/{share}"), format!("/api/v1/agents/{key}"), format!("/api/v1/agents/{encoded}")]
    {
        viewer.ask("DELETE", &path, Json::Null).await.refusal();
        ann.ask("DELETE", &path, Json::Null).await;
    }
    let entries = ann.get("/api/v1/audit?page_size=50").await.text;
    for secret in [share, key, encoded] {
        assert!(!entries.contains(&secret), "{secret}: {entries}");
    }
    assert!(entries.contains("/shares/weftshare-***"), "{entries}");
    assert_eq!(entries.matches("/api/v1/agents/weft-***").count(), 4, "{entries}");
}

/// The handlers of nested routes get paths without the prefix, which would not tell what was changed.
#[tokio::test]
async fn the_audit_log_has_whole_paths() {
    let bench = bench(Script::new()).await;
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    let sent = [
        ("PUT", "/api/v1/datasets/d"),
        ("PUT", "/api/v1/datasets/d/documents/e"),
        ("DELETE", "/api/v1/agents/a/schedules/s"),
        ("POST", "/v1/file/rm"),
        ("POST", "/v1/canvas/rm"),
    ];
    for (method, path) in sent {
        owner.ask(method, path, json!({})).await;
    }
    let entries = owner.get("/api/v1/audit?page_size=50").await.data()["entries"].clone();
    let targets = entries.as_array().unwrap().iter().rev();
    let targets: Vec<&str> = targets.map(|entry| entry["target"].as_str().unwrap()).collect();
    assert_eq!(targets, sent.map(|(_, path)| path));
}

#[tokio::test]
async fn the_audit_log_names_what_is_removed_together() {
    let bench = bench(Script::new()).await;
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    let many: Vec<String> = (0..22).map(|nth| format!("id-{nth}")).collect();
    let sent = [
        ("/api/v1/datasets", json!({"ids": ["a", "b"]}), ": a, b".to_owned()),
        ("/api/v1/chats", json!({"ids": many}), format!(": {}, and 2 more", many[..20].join(", "))),
        // The log has no content.
        ("/api/v1/files", json!({"ids": ["a", "some words", 1]}), ": a, and 2 more".to_owned()),
        ("/api/v1/files", json!({"ids": []}), String::new()),
    ];
    for (path, body, _) in &sent {
        owner.ask("DELETE", path, body.clone()).await;
    }
    let entries = owner.get("/api/v1/audit?page_size=50").await.data()["entries"].clone();
    let targets = entries.as_array().unwrap().iter().rev();
    let targets: Vec<&str> = targets.map(|entry| entry["target"].as_str().unwrap()).collect();
    assert_eq!(targets, sent.map(|(path, _, ids)| format!("{path}{ids}")));
}

#[tokio::test]
async fn the_audit_log_records_reads_if_configured_and_nothing_when_off() {
    for (audit, expected) in [(AuditLevel::All, 2), (AuditLevel::Off, 0)] {
        let bench = with_config(AccountsConfig { audit, ..AccountsConfig::default() });
        let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
        owner.get("/api/v1/agents").await.data();
        owner.post("/api/v1/agents", json!({"title": "x", "dsl": echo_canvas()})).await.data();
        let entries = owner.get("/api/v1/audit").await.data()["entries"].clone();
        assert_eq!(entries.as_array().unwrap().len(), expected, "{entries}");
    }
}

#[tokio::test]
async fn a_session_of_any_length_is_exported_whole() {
    let bench = bench(Script::new()).await;
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    with_ann(&bench, MemberRole::User).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    let agent = owner.store("Echo", echo_canvas()).await;
    let asked = json!({"query": "first words", "stream": false});
    let answer = ann.post(&format!("/api/v1/agents/{agent}/completions"), asked).await.data();
    let key = SessionKey::new(&default_tenant(), answer["session_id"].as_str().unwrap());
    let session = bench.app.sessions.load(&key).await.unwrap();
    let more: Vec<_> = (0..10_050_i64).map(|nth| said_once(&format!("word {nth}"), nth)).collect();
    let change = SessionCommit {
        revision: session.revision,
        state: &session.state,
        messages: &more,
        tasks: None,
        lease: None,
    };
    bench.app.sessions.commit(&key, change).await.unwrap();
    let told = ann.get("/api/v1/users/me/export").await.data();
    let mut words = Vec::new();
    for one in told.as_array().unwrap() {
        let of = match one["kind"].as_str().unwrap() {
            "conversation" => &one["id"],
            "messages" => &one["conversation"],
            _ => continue,
        };
        assert_eq!(*of, key.id.as_str());
        let messages = one["messages"].as_array().unwrap();
        assert!((1..=1_000).contains(&messages.len()));
        words.extend(messages.iter().map(|one| one["content"].as_str().unwrap().to_owned()));
    }
    let expected: Vec<_> = more.iter().map(|one| one.content.clone()).collect();
    assert!(words.iter().any(|word| word == "first words"), "{:?}", &words[..3]);
    assert_eq!(words[words.len() - expected.len()..], expected[..]);
}

/// One of many sessions of a user.
fn conversation(nth: i64, user: &str) -> Session {
    Session {
        user_id: user.to_owned(),
        ..Session::new(SessionKey::new(&default_tenant(), format!("s{nth}")), "c", "", json!({}), nth)
    }
}

/// One of many files that a user has attached.
fn attached(nth: i64, user: &UserId) -> StoredFile {
    StoredFile {
        id: format!("f{nth}").into(),
        name: "a.txt".to_owned(),
        mime_type: "text/plain".to_owned(),
        size: 1,
        session: None,
        user: Some(user.clone()),
        created_ms: nth,
    }
}

#[tokio::test]
async fn sessions_that_continue_during_an_export_hide_no_others() {
    let bench = bench(Script::new()).await;
    let ann = with_ann(&bench, MemberRole::User).await;
    let sessions = &bench.app.sessions;
    let key = |nth| conversation(nth, &ann).key;
    for nth in 0..150 {
        let session = conversation(nth, &ann);
        sessions.create(&session, &[]).await.unwrap();
    }
    let user = bench.app.find_user("ann@example.com").await.unwrap();
    let mut told = Box::pin(bench.app.personal_data(user, None));
    let mut seen = HashSet::new();
    while let Some(one) = told.next().await {
        let one = one.unwrap();
        if one["kind"] != "conversation" {
            continue;
        }
        if seen.is_empty() {
            for nth in 0..50 {
                sessions.rename(&key(nth), "later").await.unwrap();
            }
        }
        seen.insert(one["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), 150);
}

#[tokio::test]
async fn data_removed_during_an_export_hides_no_other_data() {
    const ALL: i64 = 150;
    let bench = bench(Script::new()).await;
    let ann = with_ann(&bench, MemberRole::User).await;
    let (home, user) = (default_tenant(), UserId::from(ann.as_str()));
    let (sessions, tokens, files) = (&bench.app.sessions, &bench.app.tokens, &bench.app.files);
    let (users, memories) = (&bench.app.accounts.stores.users, &bench.app.memories.store);
    let mut roomy = memory(&home, "m");
    roomy.settings.size_max = 1 << 20;
    let roomy = memories.create(&roomy).await.unwrap().key;
    let hash = |nth: i64| format!("{nth:064}");
    for nth in 0..ALL {
        sessions.create(&conversation(nth, &ann), &[]).await.unwrap();
        files.put(&home, &attached(nth, &user), "x".into()).await.unwrap();
        let (created_ms, role) = (nth, MemberRole::User);
        let (hash, name, tenant) = (hash(nth), format!("key {nth}"), home.clone());
        let login = Login {
            hash: hash.clone(),
            user: user.clone(),
            tenant: tenant.clone(),
            created_ms,
            expires_ms: DAY_MS,
            last_used_ms: None,
        };
        users.add_login(&login).await.unwrap();
        let token = StoredToken {
            tenant,
            hash,
            name,
            role,
            user: Some(user.clone()),
            created_ms,
            last_used_ms: None,
        };
        tokens.add(&token).await.unwrap();
        let said = NewMessage { user: ann.clone(), ..message("words") };
        memories.add(&roomy, &nth.to_string(), &said, 1).await.unwrap();
    }
    let found = bench.app.find_user("ann@example.com").await.unwrap();
    let mut told = Box::pin(bench.app.personal_data(found, None));
    let mut seen: HashMap<String, i64> = HashMap::new();
    while let Some(one) = told.next().await {
        let kind = one.unwrap()["kind"].as_str().unwrap().to_owned();
        let count = seen.entry(kind.clone()).or_default();
        *count += 1;
        if *count > 1 {
            continue;
        }
        // A third of them, all of which have been read by now.
        for nth in 0..ALL / 3 {
            match kind.as_str() {
                "conversation" => sessions.delete(&conversation(nth, &ann).key).await.unwrap(),
                "api_key" => tokens.remove(&home, &hash(nth)).await.unwrap(),
                "sign_in" => {
                    let removed = users.remove_logins(&user, Logins::One(&hash(ALL - 1 - nth))).await;
                    assert_eq!(removed.unwrap(), 1);
                }
                "file" => {
                    let removed = files.remove(&home, &[attached(nth, &user).id]).await;
                    assert_eq!(removed.unwrap(), 1);
                }
                "memory" => memories.forget(&roomy, ALL - nth, 1).await.unwrap(),
                _ => {}
            }
        }
    }
    for kind in ["conversation", "file", "api_key", "sign_in", "memory"] {
        assert_eq!(seen[kind], ALL, "{kind}");
    }
}

fn said_once(content: &str, created_ms: i64) -> SessionMessage {
    SessionMessage {
        role: "user".to_owned(),
        content: content.to_owned(),
        run: None,
        reference: Json::Null,
        created_ms,
        feedback: None,
    }
}

#[tokio::test]
async fn the_data_of_a_person_is_exported_and_removed() {
    let bench = bench(Script::new()).await;
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    with_ann(&bench, MemberRole::User).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    let agent = owner.store("Echo", echo_canvas()).await;
    let asked = json!({"query": "my words", "stream": false});
    let mut with_file = asked.clone();
    with_file["files"] = json!(["data:text/plain;name=c.txt;base64,dGhyZWU="]);
    let answer = ann.post(&format!("/api/v1/agents/{agent}/completions"), with_file).await.data();
    let theirs = owner.post(&format!("/api/v1/agents/{agent}/completions"), asked).await.data();
    ann.post("/api/v1/system/tokens", json!({"name": "hers"})).await.data();
    let path = format!("/api/v1/agents/{agent}/upload");
    let her_file = ann.send(upload(&ann, &path, &[("notes.txt", "hers")])).await.data();
    let their_file = owner.send(upload(&owner, &path, &[("other.txt", "theirs")])).await.data();
    let found = ann.get("/api/v1/users/me/export").await.data();
    let kinds: Vec<&str> =
        found.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "sign_in", "membership", "api_key", "conversation", "file", "file", "audit"]);
    let mut names: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["mime_type"].as_str().and(one["name"].as_str()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["c.txt", "notes.txt"], "what she sent with a question, and what she uploaded");
    let told = found.to_string();
    assert!(told.contains("you said: my words") && !told.contains("argon2"), "{told}");
    assert!(!told.contains(&answer["session_id"].to_string()) || told.contains("my words"));
    let id = found[0]["id"].as_str().unwrap();
    let member = format!("/api/v1/tenants/default/users/{id}");
    let of_owner = owner.get(&format!("{member}/export")).await.data();
    assert_eq!(of_owner[0]["kind"], "membership", "what is of the tenant, and not the account");
    assert_eq!(owner.get("/api/v1/tenants/default/users/none/export").await.refusal().0, 102);
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me", json!({"password": "wrong"})).await.refusal().0, 109);
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me", json!({"password": PASSWORD})).await.data(), true);
    assert_eq!(ann.get("/api/v1/users/me").await.status, 401);
    assert_eq!(bench.sign_in("ann@example.com", PASSWORD).await.refusal().0, 109);
    let session =
        |answer: &Json| format!("/api/v1/agents/{agent}/sessions/{}", answer["session_id"].as_str().unwrap());
    assert_eq!(owner.get(&session(&answer)).await.refusal().0, 102);
    owner.get(&session(&theirs)).await.data();
    let run = answer["message_id"].as_str().unwrap();
    assert_eq!(owner.get(&format!("/api/v1/runs/{run}")).await.refusal().0, 102);
    assert_eq!(owner.get(her_file["url"].as_str().unwrap()).await.refusal().0, 102);
    assert_eq!(owner.get(their_file["url"].as_str().unwrap()).await.text, "theirs");
    assert_eq!(bench.app.files.older_than(i64::MAX, 9).await.unwrap().len(), 1, "the owner's alone is left");
}

#[tokio::test]
async fn a_user_without_a_tenant_is_told_who_can_export_and_remove_the_account() {
    let bench = bench(Script::new()).await;
    with_ann(&bench, MemberRole::User).await;
    let ann = bench.signed_in("ann@example.com", PASSWORD).await;
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me/tenants/default", Json::Null).await.data(), true);
    assert_eq!(ann.get("/api/v1/users/me/export").await.status, 401);
    let (code, message) = bench.sign_in("ann@example.com", PASSWORD).await.refusal();
    assert!(code == 103 && message.contains("`weft user export`"), "{code}: {message}");
}

#[tokio::test]
async fn the_audit_log_has_the_id_of_an_erased_user_and_not_the_address() {
    let bench = bench(Script::new()).await;
    let id = with_ann(&bench, MemberRole::User).await;
    let ann = bench.signed_in(" ANN@example.com", PASSWORD).await;
    assert_eq!(bench.sign_in("Ann@Example.com", "wrong").await.refusal().0, 109);
    let (owner, _) = bench.as_member("default", MemberRole::Owner).await;
    let logged = async || owner.get("/api/v1/audit/export").await.text;
    assert_eq!(logged().await.matches("ann@example.com").count(), 2);
    assert_eq!(ann.ask("DELETE", "/api/v1/users/me", json!({"password": PASSWORD})).await.data(), true);
    let entries = logged().await;
    assert!(!entries.to_lowercase().contains("ann@example.com"), "{entries}");
    let logins: Vec<Json> = entries
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap())
        .filter(|entry| entry["action"] == "login")
        .collect();
    assert_eq!(logins.len(), 2, "{entries}");
    assert!(logins.iter().all(|entry| entry["target"] == id.as_str()), "{entries}");
}

#[tokio::test]
async fn memories_keep_nothing_of_an_erased_user_not_even_what_was_forgotten() {
    let bench = bench(Script::new()).await;
    let id = with_ann(&bench, MemberRole::User).await;
    let memories = &bench.app.memories.store;
    let key = memories.create(&memory(&default_tenant(), "m")).await.unwrap().key;
    let hers = NewMessage { user: id.clone(), ..message("her words") };
    for origin in ["forgotten", "there"] {
        memories.add(&key, origin, &hers, 1).await.unwrap();
    }
    memories.add(&key, "other", &message("other words"), 1).await.unwrap();
    memories.forget(&key, 1, 1).await.unwrap();
    bench.app.erase_user(&UserId::from(id.as_str())).await.unwrap();
    // What is forgotten is in no list, and still due for extraction.
    let due = memories.take(i64::MAX - 1, i64::MAX, 9).await.unwrap();
    let due: Vec<&str> = due.iter().map(|taken| taken.message.message.content.as_str()).collect();
    assert_eq!(due, ["other words"]);
}

#[tokio::test]
async fn the_tenant_of_a_registration_is_not_named_after_an_erased_user() {
    let bench = bench(Script::new()).await;
    let id = with_ann(&bench, MemberRole::User).await;
    let own = TenantId::from(id.as_str());
    let tenants = &bench.app.accounts.stores.tenants;
    tenants.add_tenant(&Tenant { id: own.clone(), name: "Ann".to_owned(), created_ms: 1 }).await.unwrap();
    bench.app.erase_user(&UserId::from(id.as_str())).await.unwrap();
    assert_eq!(tenants.tenant(&own).await.unwrap().name, id);
}

#[tokio::test]
async fn a_removed_user_leaves_no_conversation_in_a_tenant_they_left_before() {
    let bench = bench(Script::new()).await;
    let ann = with_ann(&bench, MemberRole::User).await;
    let shop = TenantId::from("shop");
    bench.app.ensure_tenant(&shop).await.unwrap();
    let sessions = &bench.app.sessions;
    let [hers, other] = [(0, ann.as_str()), (1, "somebody else")].map(|(nth, user)| {
        let session = conversation(nth, user);
        Session { key: SessionKey::new(&shop, session.key.id.clone()), ..session }
    });
    for session in [&hers, &other] {
        sessions.create(session, &[]).await.unwrap();
    }
    bench.app.erase_user(&UserId::from(ann.as_str())).await.unwrap();
    let gone = sessions.load(&hers.key).await.map_err(|error| error.kind);
    assert_eq!(gone, Err(weft_core::ErrorKind::NotFound));
    assert_eq!(sessions.load(&other.key).await.unwrap(), other);
}

/// The tenant of a registration has the id of its first user, under which callers without a user speak there as well.
#[tokio::test]
async fn a_tenant_keeps_its_conversations_when_its_first_user_is_removed_after_leaving() {
    let bench = bench(Script::new()).await;
    let ann = with_ann(&bench, MemberRole::User).await;
    let theirs = TenantId::from(ann.as_str());
    bench.app.ensure_tenant(&theirs).await.unwrap();
    let session = conversation(0, &ann);
    let session = Session { key: SessionKey::new(&theirs, session.key.id.clone()), ..session };
    bench.app.sessions.create(&session, &[]).await.unwrap();
    bench.app.erase_user(&UserId::from(ann.as_str())).await.unwrap();
    assert_eq!(bench.app.sessions.load(&session.key).await.unwrap(), session);
}

#[tokio::test]
async fn a_tenant_is_removed_with_all_its_data() {
    let bench = bench(Script::new()).await;
    bench.app.ensure_tenant(&TenantId::from("shop")).await.unwrap();
    let (owner, id) = bench.as_member("shop", MemberRole::Owner).await;
    let (editor, _) = bench.as_member("shop", MemberRole::Editor).await;
    let agent = owner.store("Echo", echo_canvas()).await;
    let asked = json!({"query": "my words", "stream": false});
    owner.post(&format!("/api/v1/agents/{agent}/completions"), asked).await.data();
    owner.post("/api/v1/datasets", json!({"name": "Theirs"})).await.data();
    let chat = owner.post("/api/v1/chats", json!({"name": "Assistant"})).await.data();
    let waiting = owner.store("Form", crate::support::form_canvas()).await;
    owner
        .post(&format!("/api/v1/agents/{waiting}/completions"), json!({"query": "q", "stream": false}))
        .await;
    owner.post("/api/v1/system/tokens", json!({"name": "theirs"})).await.data();
    let path = "/api/v1/tenants/shop";
    let remove = async |who: &Bench, body: serde_json::Value| who.ask("DELETE", path, body).await;
    assert_eq!(remove(&editor, json!({"tenant_id": "shop"})).await.refusal().0, 103);
    assert_eq!(remove(&bench, json!({"tenant_id": "shop"})).await.refusal().0, 103, "not by another tenant");
    assert_eq!(remove(&owner, json!({"tenant_id": "shops"})).await.refusal().0, 101);
    let default = bench.ask("DELETE", "/api/v1/tenants/default", json!({"tenant_id": "default"})).await;
    assert!(default.refusal().1.contains("cannot be removed"));
    assert_eq!(remove(&owner, json!({"tenant_id": "shop"})).await.data(), true);
    // Nobody can sign in there any more, and a new tenant with this name inherits nothing.
    assert_eq!(owner.get("/api/v1/users/me").await.status, 401);
    assert_eq!(
        bench.app.accounts.stores.users.user(&id).await.unwrap().id,
        id,
        "the users themselves are kept"
    );
    bench.app.ensure_tenant(&TenantId::from("shop")).await.unwrap();
    let (new, _) = bench.as_member("shop", MemberRole::Owner).await;
    for list in
        ["/api/v1/agents", "/api/v1/datasets", "/api/v1/tasks", "/api/v1/system/tokens", "/api/v1/usage"]
    {
        let found = new.get(list).await.data().to_string();
        assert!(
            !found.contains(&agent) && !found.contains("heirs") && !found.contains("\"form\""),
            "{list}: {found}"
        );
    }
    assert!(!new.get("/api/v1/chats").await.text.contains(chat["id"].as_str().unwrap()));
    // The removal is recorded, but not in a log that was removed with the tenant.
    let removal = |log: &Json| {
        let entries = log["entries"].as_array().unwrap().iter();
        entries.filter(|entry| entry["target"] == path && entry["code"] == 0).count()
    };
    let logs = [new.get("/api/v1/audit").await.data(), bench.get("/api/v1/audit").await.data()];
    assert_eq!(logs.each_ref().map(removal), [0, 1], "{logs:?}");
}

#[tokio::test]
async fn old_runs_of_every_tenant_are_pruned() {
    let bench = bench(Script::new()).await;
    let other = bench.with(&bench.stranger().await);
    let mut runs = Vec::new();
    for one in [&bench, &other] {
        // A tenant exists once a member has been admitted.
        one.app.ensure_tenant(&TenantId::from("another")).await.unwrap();
        let agent = one.store("Echo", echo_canvas()).await;
        let asked = json!({"query": "x", "stream": false});
        let answer = one.post(&format!("/api/v1/agents/{agent}/completions"), asked).await.data();
        runs.push((one, answer["message_id"].as_str().unwrap().to_owned()));
    }
    let rules = weft_core::seam::run_store::Retention {
        ended_before_ms: Some(i64::MAX),
        ..weft_core::seam::run_store::Retention::default()
    };
    let removed = bench.app.prune(&rules, |_| Ok::<(), weft_core::Error>(())).await.unwrap();
    assert_eq!(removed, 2);
    for (one, run) in runs {
        assert_eq!(one.get(&format!("/api/v1/runs/{run}")).await.refusal().0, 102);
    }
}
