//! A person signs in, and agents use what was granted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use weft_core::seam::ToolSource as _;
use weft_core::seam::clock::FixedClock;
use weft_core::{Error, ErrorKind, Result};
use weft_mcp::{Credentials, Reach, Servers, SignInCallback, SignInRequest};
use weft_net::{AllowList, Outbound, StreamRequest};
use weft_testkit::memory_store::MemoryStore;

use crate::fake::Fake;
use crate::http_fake::HttpFake;
use crate::kit::{call, credentials, http, tenant, tool_of};

const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// A process of those that share credentials.
fn process(config: &str, credentials: &Credentials) -> Servers {
    let config = toml::from_str(config).unwrap();
    let (pins, clock) = (Arc::new(MemoryStore::new()), Arc::new(FixedClock(7)));
    Servers::open(config, &Reach::by(&http()), pins, clock, credentials).unwrap()
}

fn request() -> SignInRequest {
    SignInRequest { redirect_uri: REDIRECT.to_owned(), scope: None }
}

fn site() -> (HttpFake, String) {
    let fake = HttpFake::start(&Fake::new(&["echo"]));
    *fake.site.auth.token.lock().unwrap() = Some("nobody has it yet".to_owned());
    let config = format!("[servers.web]\nurl = '{}'", fake.url("mcp"));
    (fake, config)
}

/// Follows the sign-in as the person's browser does and returns the redirect address.
async fn allowed(servers: &Servers) -> String {
    let page = servers.begin_sign_in("web", &request()).await.map_err(|error| error.full()).unwrap();
    let get = StreamRequest { method: "GET".into(), url: page.url, headers: vec![], body: vec![] };
    let sent = http().open(get).await.unwrap();
    let back = sent.header("location").unwrap().to_owned();
    assert!(back.contains(&page.state), "{back}");
    back
}

async fn finish(servers: &Servers, back: &str) -> Result<()> {
    servers.finish_sign_in("web", &SignInCallback::of_url(back)?).await
}

async fn unauthenticated(servers: &Servers) -> Error {
    let error = servers.tools(&tenant(), "web").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthenticated, "{}", error.full());
    assert!(error.full().contains("weft mcp login web"), "{}", error.full());
    error
}

fn grants(fake: &HttpFake) -> Vec<String> {
    fake.site.auth.given.lock().unwrap().iter().map(|form| form["grant_type"].clone()).collect()
}

#[tokio::test]
async fn a_grant_is_used_and_renewed_by_every_process_until_it_is_removed() {
    let (fake, config) = site();
    let shared = credentials();
    let (first, second) = (process(&config, &shared), process(&config, &shared));
    unauthenticated(&first).await;
    finish(&first, &allowed(&first).await).await.map_err(|error| error.full()).unwrap();
    {
        let given = fake.site.auth.given.lock().unwrap();
        let form = &given[0];
        let wanted = ["authorization_code", "code for tools", REDIRECT, &fake.url("mcp"), "client-0"];
        let names = ["grant_type", "code", "redirect_uri", "resource", "client_id"];
        assert_eq!(names.map(|name| form[name].as_str()), wanted);
        assert!(form.contains_key("code_verifier"));
    }
    for servers in [&first, &second] {
        let tool = tool_of(servers, "web", "echo").await;
        call(&tool, json!({})).await.unwrap();
    }
    assert_eq!(grants(&fake), ["authorization_code"]);
    // The token is revoked early: concurrent calls renew it once.
    *fake.site.auth.token.lock().unwrap() = Some("another".to_owned());
    let tool = tool_of(&first, "web", "echo").await;
    let (one, other) = tokio::join!(call(&tool, json!({})), call(&tool, json!({})));
    one.unwrap();
    other.unwrap();
    assert_eq!(grants(&fake), ["authorization_code", "refresh_token"]);
    assert_eq!(fake.site.auth.given.lock().unwrap()[1]["resource"], fake.url("mcp"));
    // Another process still has the old token, and finds the new one in the store.
    call(tool_of(&second, "web", "echo").await.as_ref(), json!({})).await.unwrap();
    assert_eq!(grants(&fake).len(), 2);
    assert!(first.sign_out("web").await.unwrap());
    assert!(!first.sign_out("web").await.unwrap());
    *fake.site.auth.token.lock().unwrap() = Some("another".to_owned());
    // The accepted tools stay on offer, as for any server that is down.
    let down = first.tools(&tenant(), "web").await.unwrap().down.unwrap();
    assert!(down.contains("weft mcp login web"), "{down}");
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_token_near_its_expiry_is_renewed_before_use() {
    let (fake, config) = site();
    fake.site.auth.lasting.store(10, Ordering::SeqCst);
    let servers = process(&config, &credentials());
    finish(&servers, &allowed(&servers).await).await.unwrap();
    fake.site.auth.lasting.store(3_600, Ordering::SeqCst);
    call(tool_of(&servers, "web", "echo").await.as_ref(), json!({})).await.unwrap();
    assert_eq!(grants(&fake), ["authorization_code", "refresh_token"]);
    servers.close().await;
}

/// A refresh token is used once: some servers revoke the whole grant when it is presented again.
#[tokio::test]
async fn two_processes_that_renew_at_the_same_time_both_succeed() {
    let (fake, config) = site();
    let shared = credentials();
    let (first, second) = (process(&config, &shared), process(&config, &shared));
    finish(&first, &allowed(&first).await).await.unwrap();
    let (one, other) = (tool_of(&first, "web", "echo").await, tool_of(&second, "web", "echo").await);
    *fake.site.auth.token.lock().unwrap() = Some("another".to_owned());
    let gives = fake.site.auth.gives.lock().await;
    let (ask_one, ask_other) = (call(&one, json!({})), call(&other, json!({})));
    let release = async {
        while grants(&fake).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Give the other process time to try as well.
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(gives);
    };
    let (one, other, ()) = tokio::join!(ask_one, ask_other, release);
    one.unwrap();
    other.unwrap();
    assert_eq!(grants(&fake), ["authorization_code", "refresh_token"]);
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_refused_renewal_requires_a_new_sign_in() {
    let (fake, config) = site();
    let servers = process(&config, &credentials());
    finish(&servers, &allowed(&servers).await).await.unwrap();
    fake.site.auth.spent.lock().unwrap().push("refresh-1".to_owned());
    *fake.site.auth.token.lock().unwrap() = Some("another".to_owned());
    let told = unauthenticated(&servers).await.full();
    assert!(!told.contains("refresh-1") && !told.contains("token-1"), "{told}");
    // The renewal is not retried.
    unauthenticated(&servers).await;
    assert_eq!(grants(&fake), ["authorization_code", "refresh_token"]);
    finish(&servers, &allowed(&servers).await).await.unwrap();
    call(tool_of(&servers, "web", "echo").await.as_ref(), json!({})).await.unwrap();
    servers.close().await;
}

#[tokio::test]
async fn a_sign_in_completes_once_in_any_process_with_its_own_state() {
    let (fake, config) = site();
    let shared = credentials();
    let (first, second) = (process(&config, &shared), process(&config, &shared));
    let back = allowed(&first).await;
    let check = async |back: &str, kind: ErrorKind, words: &str| {
        let error = finish(&second, back).await.unwrap_err();
        assert_eq!(error.kind, kind, "{back}: {}", error.full());
        assert!(error.full().contains(words), "{back}: {}", error.full());
    };
    check("http://127.0.0.1:9/callback", ErrorKind::Invalid, "no `code`").await;
    check("not an address", ErrorKind::Invalid, "no `code`").await;
    check(
        &format!("{REDIRECT}?error=access_denied&error_description=No."),
        ErrorKind::Denied,
        "access_denied: No.",
    )
    .await;
    check(&format!("{REDIRECT}?code=c&state=unknown"), ErrorKind::Invalid, "does not exist or has ended")
        .await;
    let elsewhere = back.replace("iss=http", "iss=https");
    check(&elsewhere, ErrorKind::Denied, "another authorization server").await;
    check(back.split("&iss=").next().unwrap(), ErrorKind::Denied, "another authorization server").await;
    assert!(grants(&fake).is_empty(), "the code was not sent");
    finish(&second, &back).await.map_err(|error| error.full()).unwrap();
    check(&back, ErrorKind::Invalid, "does not exist or has ended").await;
    // What people have allowed at one address is sent to no other.
    let (other, _) = site();
    let moved = process(&format!("[servers.web]\nurl = '{}'", other.url("mcp")), &shared);
    unauthenticated(&moved).await;
    assert!(other.sent("authorization").0.is_empty());
    for servers in [first, second, moved] {
        servers.close().await;
    }
}

#[tokio::test]
async fn sign_in_is_refused_where_other_credentials_are_configured() {
    let (fake, _) = site();
    let url = fake.url("mcp");
    let servers = process(
        &format!(
            "[servers.web]\nurl = '{url}'\nheaders = {{ Authorization = 'Bearer x' }}\n[servers.program]\ncommand = 'true'"
        ),
        &credentials(),
    );
    for id in ["web", "program"] {
        let error = servers.begin_sign_in(id, &request()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains("needs no sign-in"), "{}", error.full());
    }
    let error = servers.tools(&tenant(), "web").await.unwrap_err();
    assert!(error.full().contains("check `headers`"), "{}", error.full());
}

/// A refresh token is valid once, so its successor must not be lost with the process.
#[tokio::test]
async fn shutdown_waits_for_a_renewal_in_progress() {
    let (fake, config) = site();
    let shared = credentials();
    let (first, second) = (process(&config, &shared), process(&config, &shared));
    finish(&first, &allowed(&first).await).await.unwrap();
    *fake.site.auth.token.lock().unwrap() = Some("another".to_owned());
    let gives = fake.site.auth.gives.lock().await;
    {
        let tenant = tenant();
        let given_up = first.tools(&tenant, "web");
        tokio::pin!(given_up);
        while grants(&fake).len() < 2 {
            assert!(tokio::time::timeout(Duration::from_millis(5), &mut given_up).await.is_err());
        }
    }
    let closed = async move {
        first.close().await;
        drop(first);
    };
    let given = async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(gives);
    };
    tokio::join!(closed, given);
    call(tool_of(&second, "web", "echo").await.as_ref(), json!({})).await.unwrap();
    assert_eq!(grants(&fake), ["authorization_code", "refresh_token"]);
    second.close().await;
}

#[tokio::test]
async fn the_lifetime_of_a_token_may_be_a_string() {
    let (fake, config) = site();
    fake.site.auth.lasting_is_text.store(true, Ordering::SeqCst);
    let servers = process(&config, &credentials());
    finish(&servers, &allowed(&servers).await).await.map_err(|error| error.full()).unwrap();
    call(tool_of(&servers, "web", "echo").await.as_ref(), json!({})).await.unwrap();
    assert_eq!(grants(&fake), ["authorization_code"], "the token is valid for an hour");
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_requires_no_token_is_sent_one_message_before_a_sign_in() {
    let (fake, config) = site();
    *fake.site.auth.token.lock().unwrap() = None;
    let servers = process(&config, &credentials());
    servers.begin_sign_in("web", &request()).await.map_err(|error| error.full()).unwrap();
    assert_eq!(fake.site.fake.sessions(), 0);
    let sent = fake.site.headers.lock().unwrap().iter().filter(|(method, _)| method == "POST").count();
    assert_eq!(sent, 1);
    servers.close().await;
}

/// Whoever runs or has taken over a server chooses the authorization server that it names.
#[tokio::test]
async fn a_private_authorization_server_is_reached_only_if_the_operator_names_it() {
    let (fake, config) = site();
    let inside = format!("http://localhost:{}", fake.address.port());
    *fake.site.auth.named.lock().unwrap() = Some(inside.clone());
    let begin = async |config: &str, allowed: AllowList| {
        let reach = Reach { servers: http(), named: Arc::new(Outbound::open(allowed)) };
        let (pins, clock) = (Arc::new(MemoryStore::new()), Arc::new(FixedClock(7)));
        let config = toml::from_str(config).unwrap();
        let servers = Servers::open(config, &reach, pins, clock, &credentials()).unwrap();
        let begun = servers.begin_sign_in("web", &request()).await;
        servers.close().await;
        begun.map(|page| page.url).map_err(|error| error.full())
    };
    let refused = begin(&config, AllowList::none()).await.unwrap_err();
    assert!(refused.contains("net.allow"), "{refused}");
    assert_eq!(fake.site.auth.registered.load(Ordering::SeqCst), 0);
    let page = begin(&config, AllowList::parse(["localhost"]).unwrap()).await.unwrap();
    assert!(page.starts_with(&inside), "{page}");
    let named = format!("{config}\noauth = {{ issuer = '{inside}' }}");
    let page = begin(&named, AllowList::none()).await.unwrap();
    assert!(page.starts_with(&inside), "{page}");
}
