//! `weft mcp login`: a person authorizes Weft at a server, here one whose page grants everything at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use weft_testkit::AuthorizationServer;

use crate::weft::{Home, Running};

async fn mcp(
    State(auth): State<AuthorizationServer>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    if !auth.is_let_in(&headers) {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}}),
        Some("tools/list") => {
            json!({"tools": [{"name": "find", "description": "finds", "inputSchema": {"type": "object"}}]})
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

/// A server on its own thread for as long as the tests run, and its authorization server.
fn listen() -> (SocketAddr, AuthorizationServer) {
    let auth = AuthorizationServer::new("rosebud");
    let router = Router::new().route("/mcp", post(mcp)).with_state(auth.clone()).merge(auth.router());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    (address, auth)
}

/// A home whose settings name the server at this address as `web`.
fn home(address: SocketAddr) -> Home {
    let home = Home::new();
    home.settings(format!("[mcp.servers.web]\nurl = \"http://{address}/mcp\"\n"));
    home
}

/// Fetches an address as a browser does; returns the response with its head.
fn browse(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

fn sent_to(told: &str) -> String {
    let place = told.lines().find_map(|line| line.strip_prefix("location: "));
    place.unwrap_or_else(|| panic!("{told}")).to_owned()
}

#[test]
fn a_sign_in_is_used_until_the_sign_out() {
    let home = home(listen().0);
    home.weft(&["mcp", "list"]).with(1).says(&["sign in with `weft mcp login web`"]);
    let mut login = home.start(&["mcp", "login", "web"]);
    let back = sent_to(&browse(login.printed("/authorize?").trim()));
    // Requests that a browser makes on its own are not taken as the answer.
    let (place, _) = back.split_once('?').unwrap();
    assert!(browse(place).starts_with("HTTP/1.1 400"));
    // A request caused by another page does not complete this sign-in.
    for other in ["code=c&state=another", "error=access_denied"] {
        assert!(browse(&format!("{place}?{other}")).starts_with("HTTP/1.1 400"));
    }
    let shown = browse(&back);
    assert!(shown.contains("This page can be closed"), "{shown}");
    login.end().with(0).says(&["Signed in at web."]);
    let listed = home.weft(&["mcp", "list"]).with(0).stdout;
    assert!(listed.contains("find"), "{listed}");
    for file in std::fs::read_dir(home.path().join(".local/share/weft")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(7).any(|part| part == b"rosebud"), "the token is stored encrypted");
    }
    home.weft(&["mcp", "logout", "web"]).with(0).says(&["Signed out of web"]);
    home.weft(&["mcp", "logout", "web"]).with(0).says(&["Nobody was signed in"]);
    home.weft(&["mcp", "list"]).with(1).says(&["weft mcp login web"]);
}

fn paste(login: &mut Running, text: &str) {
    login.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
}

/// The browser may be on another machine: its last address can be pasted.
#[test]
fn the_redirect_address_can_be_pasted() {
    let home = home(listen().0);
    let mut login = home.start(&["mcp", "login", "web"]);
    let back = sent_to(&browse(login.printed("/authorize?").trim()));
    paste(&mut login, &format!("\nnothing of the kind\n{back}\n"));
    login.end().with(0).says(&["the URL contains no `code`", "Signed in"]);
    home.weft(&["mcp", "list"]).with(0);
    let refused = format!("{}?error=access_denied", back.split_once('?').unwrap().0);
    let mut login = home.start(&["mcp", "login", "web"]);
    login.printed("/authorize?");
    paste(&mut login, &format!("{refused}\n"));
    login.end().with(1).says(&["the sign-in was refused: access_denied"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let home = home(listen().0);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let told = home.weft(&["mcp", "login", "web", "--port", &port]).with(2).says(&[&port, "--port"]).stderr;
    assert!(!told.contains("standard output"), "{told}");
}

/// Authorization servers keep every client that they register.
#[test]
fn repeated_sign_ins_register_one_client() {
    let (address, auth) = listen();
    let home = home(address);
    for _ in 0..2 {
        let mut login = home.start(&["mcp", "login", "web"]);
        let back = sent_to(&browse(login.printed("/authorize?").trim()));
        browse(&back);
        login.end().with(0).says(&["Signed in at web."]);
    }
    assert_eq!(auth.registered.load(Ordering::SeqCst), 1);
}
