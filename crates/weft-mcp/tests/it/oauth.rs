//! Renewal of tokens.

use std::sync::atomic::Ordering;

use serde_json::json;
use weft_core::ErrorKind;
use weft_core::seam::ToolSource as _;
use weft_mcp::Servers;

use crate::fake::Fake;
use crate::http_fake::HttpFake;
use crate::kit::{call, servers, tenant, tool_of};

fn web(http: &HttpFake, oauth: &str) -> Servers {
    *http.site.auth.token.lock().unwrap() = Some("nobody has it yet".to_owned());
    let (url, token_url) = (http.url("mcp"), http.url("token"));
    servers(&format!(
        "[servers.web]\nurl = '{url}'\noauth = {{ token_url = '{token_url}', client_id = 'weft', {oauth} }}"
    ))
}

/// What was presented for tokens: the grant type and the refresh token.
fn given(http: &HttpFake) -> Vec<(String, Option<String>)> {
    let given = http.site.auth.given.lock().unwrap();
    given.iter().map(|form| (form["grant_type"].clone(), form.get("refresh_token").cloned())).collect()
}

fn renewal(token: &str) -> (String, Option<String>) {
    ("refresh_token".to_owned(), Some(token.to_owned()))
}

#[tokio::test]
async fn a_refused_token_is_renewed_and_the_request_repeated() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    let servers = web(&http, "refresh_token = 'refresh-0', scope = 'tools'");
    let tool = tool_of(&servers, "web", "echo").await;
    call(&tool, json!({})).await.unwrap();
    assert_eq!(given(&http), [renewal("refresh-0")]);
    assert_eq!(http.site.auth.given.lock().unwrap()[0]["scope"], "tools");
    // The server revokes the token; concurrent calls renew once, with the newest refresh token.
    *http.site.auth.token.lock().unwrap() = Some("something else".to_owned());
    let (first, second) = tokio::join!(call(&tool, json!({})), call(&tool, json!({})));
    assert_eq!((first.unwrap().to_text(), second.unwrap().to_text()), ("{}".to_owned(), "{}".to_owned()));
    assert_eq!(given(&http), [renewal("refresh-0"), renewal("refresh-1")]);
    servers.close().await;
}

/// A refresh token is invalid after its use, so its successor must not be lost when the call is dropped.
#[tokio::test]
async fn a_renewal_survives_the_call_that_needed_it() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    let servers = web(&http, "refresh_token = 'refresh-0'");
    let gives = http.site.auth.gives.lock().await;
    {
        let tenant = tenant();
        let given_up = servers.tools(&tenant, "web");
        tokio::pin!(given_up);
        while given(&http).is_empty() {
            let step = std::time::Duration::from_millis(5);
            assert!(tokio::time::timeout(step, &mut given_up).await.is_err());
        }
    }
    drop(gives);
    let tool = tool_of(&servers, "web", "echo").await;
    call(&tool, json!({})).await.unwrap();
    assert_eq!(given(&http), [renewal("refresh-0")]);
    servers.close().await;
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    // The lifetime is shorter than the margin: each request needs a new token.
    http.site.auth.lasting.store(10, Ordering::SeqCst);
    let servers = web(&http, "client_secret = 's3cret'");
    servers.tools(&tenant(), "web").await.unwrap();
    let given = given(&http);
    assert!(given.len() >= 3, "{given:?}");
    assert_eq!(given[0], ("client_credentials".to_owned(), None));
    assert_eq!(http.site.auth.given.lock().unwrap()[0]["client_secret"], "s3cret");
    let refused = http.sent("authorization").0.into_iter().filter(|token| token.contains("nobody")).count();
    assert_eq!(refused, 0);
    servers.close().await;
}

#[tokio::test]
async fn the_lifetime_of_a_token_may_be_a_string() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    http.site.auth.lasting_is_text.store(true, Ordering::SeqCst);
    let servers = web(&http, "client_secret = 's3cret'");
    servers.tools(&tenant(), "web").await.unwrap();
    assert_eq!(given(&http).len(), 1, "the token is valid for an hour");
    servers.close().await;
}

#[tokio::test]
async fn a_failed_renewal_is_reported_without_showing_the_token() {
    let http = HttpFake::start(&Fake::new(&["echo"]));
    let servers = web(&http, "refresh_token = 'spent', client_secret = 's3cret'");
    let error = servers.tools(&tenant(), "web").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthenticated);
    let told = error.full();
    assert!(told.contains("the token server refused the request: invalid_grant"), "{told}");
    assert!(!told.contains("spent") && !told.contains("s3cret"), "{told}");
}
