//! Pages to test a browser with.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Redirect};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Seen = Arc<Mutex<Vec<String>>>;

const FORM: &str = "<!doctype html><title>Form</title><h1>Order</h1><form action=/done>\
    <input name=who placeholder='Your name'><input name=day type=date>\
    <select name=size><option>small<option>large</select><textarea name=note>old</textarea>\
    <input type=password name=pw value=hidden-word><input type=file id=f onchange=\"this.files[0].text().then(t => out.textContent = t)\">\
    <button>Send</button></form><p id=out></p><p style='display:none'>not shown</p>";
const LINKS: &str = "<!doctype html><title>Links</title><a href=/form>The form</a> <a href=/form target=_blank>In a window</a>\
    <a href=/loud target=_blank>Loud</a><a href=/file>A file</a><button onclick=\"alert('careful')\">Alarm</button>\
    <button onclick=\"out.textContent = confirm('sure?') ? 'yes' : 'no'\">Ask</button>\
    <button onclick='for (;;);'>Forever</button><button onclick=\"location = 'file:///etc/hostname'\">Read</button>\
    <button onclick=\"fetch('http://FORBIDDEN/').then(r => r.text(), e => 'failed').then(t => out.textContent = t)\">Inside</button>\
    <button onclick='hold = []; for (;;) hold.push(new Uint8Array(1e8).fill(1))'>Memory</button>\
    <div style='position:relative'><button onclick=\"out.textContent = 'covered'\">Under</button>\
    <div style='position:absolute;inset:0'></div></div><p id=out></p>";
/// Web components with slots, and an old page in frames.
const PARTS: &str = "<!doctype html><title>Parts</title><x-card><p>Given text</p></x-card><x-button>Press</x-button>\
    <p id=out></p><script>const part = (name, inside) => customElements.define(name, class extends HTMLElement {\
    constructor() { super(); this.attachShadow({ mode: 'open' }).innerHTML = inside; } });\
    part('x-card', '<h2>Card</h2><slot>in its place</slot><slot name=foot>no foot</slot>');\
    part('x-button', '<button onclick=\"out.textContent = 1 + 1 + `pressed`\"><slot></slot></button>');</script>";
const FRAMES: &str =
    "<title>Frames</title><frameset cols='50%,50%'><frame src=/form><frame src=/parts></frameset>";
/// Shows its cookies, and stores two.
const COOKIES: &str = "<title>Cookies</title><p id=out></p><script>out.textContent = document.cookie || 'none';\
    document.cookie = 'lasting=1; max-age=9999'; document.cookie = 'visit=1'</script>";

/// Pages that are served as long as this value lives.
pub(crate) struct Pages {
    pub base: String,
    /// The queries of the requests for `/done`.
    pub seen: Seen,
    /// An address that canvases may not reach.
    pub forbidden: TcpListener,
    _work: JoinSet<()>,
}

impl Pages {
    pub(crate) async fn serve() -> Self {
        let seen = Seen::default();
        let done = |State(seen): State<Seen>, query: Query<Vec<(String, String)>>| async move {
            let said: Vec<_> = query.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
            seen.lock().unwrap().push(said.join("&"));
            Html("<title>Done</title><p>Thank you")
        };
        let file = || async {
            let headers = [("content-disposition", "attachment; filename=\"../report.csv\"")];
            (headers, "a,b\n1,2\n").into_response()
        };
        let cookie = || async {
            Html(
                "<title>C</title><p id=out></p><script>out.textContent = localStorage.was || 'new'; localStorage.was = 'again'</script>",
            )
        };
        let forbidden = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let place = forbidden.local_addr().unwrap().to_string();
        let (away, links) = (format!("http://{place}/"), LINKS.replace("FORBIDDEN", &place));
        let router = Router::new()
            .route("/form", get(|| async { Html(FORM) }))
            .route("/links", get(|| async move { Html(links) }))
            .route("/away", get(|| async move { Redirect::to(&away) }))
            .route("/kept", get(cookie))
            .route(
                "/loud",
                get(|| async { Html("<title>Loud</title><script>alert('at once')</script><p>After it") }),
            )
            .route("/file", get(file))
            .route("/cookies", get(|| async { Html(COOKIES) }))
            .route("/parts", get(|| async { Html(PARTS) }))
            .route("/frames", get(|| async { Html(FRAMES) }))
            .route("/done", get(done))
            .with_state(Arc::clone(&seen));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut work = JoinSet::new();
        work.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, seen, forbidden, _work: work }
    }
}
