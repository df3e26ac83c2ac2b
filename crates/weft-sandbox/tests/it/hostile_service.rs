//! A malicious service that runs programs: its answers are too large, endless, slow, broken, or redirect
//! elsewhere. Whatever it answers, a run ends with a result within its limits or an error, and no other server
//! is contacted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{FILES_BYTES_MAX, FILES_MAX, Failure, Limits, Ran};
use weft_core::{Result, TenantId};
use weft_net::OperatorHttp;
use weft_sandbox::{LIMITS, RemoteSandbox};

use crate::kit::program;

const MOST: Limits =
    Limits { time: Duration::from_millis(200), output_bytes: 4 << 10, printed_bytes: 1 << 10, ..LIMITS };

/// How a service answers.
#[derive(Clone)]
enum Says {
    /// These bytes, and the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes, repeated endlessly.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, and then nothing, with the connection open.
    Silent(Vec<u8>),
}

fn raw(text: &str) -> Says {
    Says::Bytes(text.as_bytes().to_vec())
}

/// An HTTP answer with this body.
fn http(body: impl AsRef<[u8]>) -> Says {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    Says::Bytes([head.as_bytes(), body].concat())
}

/// An executor answer with these members.
fn answer(members: &Json) -> Says {
    let mut all = json!({"status": "success", "stdout": "", "stderr": "", "exit_code": 0});
    all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    http(all.to_string())
}

fn value(value: &Json) -> Says {
    answer(&json!({"result": {"present": true, "value": value}}))
}

fn files(files: &Json) -> Says {
    answer(&json!({"artifacts": files}))
}

async fn serve(mut stream: TcpStream, says: Says) {
    let mut asked = [0; 16 << 10];
    let Ok(_) = stream.read(&mut asked).await else { return };
    match says {
        Says::Bytes(bytes) => drop(stream.write_all(&bytes).await),
        Says::Silent(bytes) => {
            drop(stream.write_all(&bytes).await);
            // Until the other side disconnects.
            while stream.read(&mut asked).await.is_ok_and(|count| count > 0) {}
        }
        Says::Endless(first, again) => {
            drop(stream.write_all(&first).await);
            while stream.write_all(&again).await.is_ok() {}
        }
    }
}

/// A service that gives this answer to every request, and the number of requests.
async fn service(says: Says) -> (String, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, count) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut tasks = JoinSet::new();
    let counted = Arc::clone(&count);
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            open.spawn(serve(stream, says.clone()));
        }
    });
    drop(asked);
    (address, count, tasks)
}

async fn run(says: Says) -> Result<Ran> {
    let (address, _, _tasks) = service(says).await;
    let http = Arc::new(OperatorHttp::new().unwrap());
    let sandbox =
        RemoteSandbox::new(http, &address, MOST, 4).unwrap().with_patience(Duration::from_millis(800));
    let tenant = TenantId::new("t");
    let ran = sandbox.run(&tenant, program("1", MOST));
    tokio::time::timeout(Duration::from_secs(60), ran).await.expect("a run ends regardless of the service")
}

/// What holds for any answer of a service.
fn check_bounds(name: &str, ran: &Result<Ran>) {
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => {
            assert!(error.full().len() < 8_000, "{name}: {} bytes of an error", error.full().len());
            return;
        }
    };
    assert!(ran.stdout.len() + ran.stderr.len() <= MOST.printed_bytes, "{name}");
    match &ran.result {
        Ok(value) => assert!(value.to_string().len() <= MOST.output_bytes, "{name}"),
        Err(Failure::Program { message, .. }) => assert!(message.len() < 8_000, "{name}"),
        Err(_) => {}
    }
    assert!(ran.files.len() <= FILES_MAX, "{name}");
    for file in &ran.files {
        let unsafe_name = file.name.contains(['/', '\\', '\0']) || matches!(&*file.name, "" | "." | "..");
        assert!(!unsafe_name, "{name}: {:?}", file.name);
        assert!(STANDARD.decode(&file.base64).is_ok_and(|bytes| bytes.len() <= FILES_BYTES_MAX), "{name}");
    }
}

/// Runs all of them concurrently, and checks the outcome of each.
async fn all(cases: Vec<(&'static str, Says)>, is_right: impl Fn(&Result<Ran>) -> bool) {
    let ran = futures::future::join_all(cases.iter().map(|(_, says)| run(says.clone()))).await;
    for ((name, _), ran) in cases.iter().zip(&ran) {
        check_bounds(name, ran);
        assert!(is_right(ran), "{name}: {ran:?}");
    }
}

#[tokio::test]
async fn an_invalid_http_answer_is_an_error() {
    let long_header = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n{{}}", "x".repeat(2 << 20));
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n{{}}", "x: y\r\n".repeat(5_000));
    all(
        vec![
            ("nothing", raw("")),
            ("a line", raw("hello\r\n")),
            ("binary", Says::Bytes((0..=255).cycle().take(4_096).collect())),
            ("zeros", Says::Bytes(vec![0; 1 << 20])),
            ("another protocol", raw("SSH-2.0-OpenSSH_9.9\r\n")),
            ("TLS", Says::Bytes(vec![0x15, 3, 3, 0, 2, 2, 40])),
            ("HTTP/2", raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")),
            ("HTTP/9", raw("HTTP/9.9 200 OK\r\n\r\n{}")),
            ("no status", raw("HTTP/1.1 \r\n\r\n{}")),
            ("a status that is none", raw("HTTP/1.1 abc OK\r\n\r\n{}")),
            ("a status of five digits", raw("HTTP/1.1 20000 OK\r\n\r\n{}")),
            ("half a head", raw("HTTP/1.1 200 OK\r\ncontent-type: app")),
            ("a header without a name", raw("HTTP/1.1 200 OK\r\n: x\r\n\r\n{}")),
            ("a header of two megabytes", raw(&long_header)),
            ("five thousand headers", raw(&many_headers)),
            ("a length that is none", raw("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{}")),
            ("a length below zero", raw("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}")),
            (
                "a length beyond all",
                raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n{}"),
            ),
            ("two lengths", raw("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 9\r\n\r\n{}")),
            (
                "a body that is cut off",
                raw("HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"status\": \"succ"),
            ),
            (
                "a chunk of no size",
                raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
            ),
            (
                "a chunk of a size beyond all",
                raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}"),
            ),
            ("a chunk that is cut off", raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\n{")),
            (
                "a switch of protocols",
                raw("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
            ),
        ],
        Result::is_err,
    )
    .await;
}

#[tokio::test]
async fn endless_answers_are_abandoned() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let start = [head.as_slice(), b"{\"status\": \"success\", \"stdout\": \""].concat();
    let large = b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n".to_vec();
    all(
        vec![
            ("silence", Says::Silent(Vec::new())),
            ("half a line and silence", Says::Silent(b"HTTP/1.1 20".to_vec())),
            ("a head and silence", Says::Silent(head.clone())),
            ("half a body and silence", Says::Silent(start.clone())),
            ("a length and silence", Says::Silent(large.clone())),
            (
                "headers without an end",
                Says::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x: y\r\n".repeat(100)),
            ),
            (
                "one header without an end",
                Says::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; 4_096]),
            ),
            (
                "to be continued, without an end",
                Says::Endless(Vec::new(), b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
            ),
            ("a body without an end", Says::Endless(head, vec![b' '; 64 << 10])),
            ("a text without an end", Says::Endless(start, vec![b'x'; 64 << 10])),
            (
                "chunks without an end",
                Says::Endless(
                    chunked.clone(),
                    b"1000\r\n".iter().copied().chain([b' '; 0x1000]).chain(*b"\r\n").collect(),
                ),
            ),
            ("chunks of one byte without an end", Says::Endless(chunked.clone(), b"1\r\n \r\n".repeat(50))),
            ("a chunk's size without an end", Says::Endless(chunked, vec![b'0'; 4_096])),
            ("ten gigabytes", Says::Endless(large, vec![b'['; 64 << 10])),
        ],
        Result::is_err,
    )
    .await;
}

#[tokio::test]
async fn redirects_of_a_service_are_not_followed() {
    let (other, asked, _tasks) = service(value(&json!("elsewhere"))).await;
    let to = |status: &str| {
        raw(&format!(
            "HTTP/1.1 {status}\r\nlocation: {other}/run\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ))
    };
    let refresh = format!("HTTP/1.1 200 OK\r\nrefresh: 0; url={other}\r\ncontent-length: 0\r\n\r\n");
    all(
        vec![
            ("300", to("300 Multiple Choices")),
            ("301", to("301 Moved")),
            ("302", to("302 Found")),
            ("303", to("303 See Other")),
            ("305", to("305 Use Proxy")),
            ("307", to("307 Temporary Redirect")),
            ("308", to("308 Permanent Redirect")),
            ("401", raw("HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=x\r\ncontent-length: 0\r\n\r\n")),
            ("407", raw("HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n")),
            ("a refresh", raw(&refresh)),
            ("to a file", raw("HTTP/1.1 302 Found\r\nlocation: file:///etc/passwd\r\ncontent-length: 0\r\n\r\n")),
            ("500 with an answer", raw("HTTP/1.1 500 No\r\ncontent-length: 20\r\n\r\n{\"status\":\"success\"}")),
            ("429", raw("HTTP/1.1 429 Too Many\r\nretry-after: 999999999\r\ncontent-length: 0\r\n\r\n")),
            ("503", raw("HTTP/1.1 503 Away\r\nretry-after: -1\r\ncontent-length: 0\r\n\r\n")),
        ],
        Result::is_err,
    )
    .await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "no other server is contacted");
}

#[tokio::test]
async fn an_invalid_executor_answer_is_an_error() {
    let deep = format!(
        "{{\"status\": \"success\", \"result\": {{\"value\": {}1{}}}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let gzip = [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n".as_slice(),
        &[0x1f, 0x8b, 8, 0],
    ]
    .concat();
    let marker = |encoded: &str| answer(&json!({"stdout": format!("x\n__RAGFLOW_RESULT__:{encoded}\n")}));
    all(
        vec![
            ("no JSON", http("hello")),
            ("a page", http("<html><script>alert(1)</script></html>")),
            ("no body", http("")),
            ("null", http("null")),
            ("a number", http("1e999")),
            ("a list of lists", http("[".repeat(10_000))),
            ("half a text", http("{\"status\": \"\\ud800\"}")),
            ("no UTF-8", http(b"{\"status\": \"\xff\xfe\"}")),
            ("two documents", http("{\"status\": \"success\"}{\"status\": \"success\"}")),
            ("a member twice", http("{\"status\": \"success\", \"status\": \"success\"}")),
            ("a member of another type", answer(&json!({"stdout": {"a": 1}}))),
            ("a code beyond all", http("{\"status\": \"success\", \"exit_code\": 1e30}")),
            ("a value that is nested beyond all", http(deep)),
            ("gzip that nobody asked for", Says::Bytes(gzip)),
            ("no status", http("{}")),
            ("a status that does not exist", answer(&json!({"status": "owned"}))),
            ("a status of a megabyte", answer(&json!({"status": "x".repeat(1 << 20)}))),
            (
                "an error of a megabyte",
                answer(&json!({"status": "program_runner_error", "detail": "x".repeat(1 << 20)})),
            ),
            ("no capacity", answer(&json!({"exit_code": -10}))),
            ("a result in no base64", marker("%%%")),
            ("a result that is no JSON", marker(&STANDARD.encode("{")).clone()),
            ("files of no form", files(&json!("x"))),
            ("a file without a name", files(&json!([{"content": ""}]))),
            ("a file in no base64", files(&json!([{"name": "a", "content": "%"}]))),
            ("a file twice its bytes", files(&json!([{"name": "a", "content": "", "data": ""}]))),
            ("too many files", files(&json!(vec![json!({"name": "a", "content": ""}); FILES_MAX + 1]))),
        ],
        Result::is_err,
    )
    .await;
}

#[tokio::test]
async fn service_results_are_limited() {
    let long = "x".repeat(1 << 20);
    let file = |name: &str| json!({"name": name, "content_b64": STANDARD.encode("x")});
    let failed = |members: Json| {
        let mut all = json!({"status": "program_error", "exit_code": 1});
        all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        answer(&all)
    };
    all(
        vec![
            ("a long value", value(&json!(long))),
            ("a long list", value(&json!(vec![0; 10_000]))),
            (
                "much that is printed",
                answer(&json!({"stdout": &long[..100_000], "stderr": &long[..100_000]})),
            ),
            ("letters of four bytes", answer(&json!({"stdout": "🎉".repeat(10_000)}))),
            (
                "signs of terminals",
                answer(&json!({"stdout": "\u{1b}]0;owned\u{7}\u{1b}[2J", "result": {"value": 1}})),
            ),
            ("a long reason", failed(json!({"detail": long}))),
            ("a long error", failed(json!({"stderr": long}))),
            (
                "a long access",
                answer(&json!({"status": "unauthorized_access", "unauthorized_access_type": long})),
            ),
            (
                "a value of its own kind",
                value(&json!({"__proto__": {"a": 1}, "constructor": {"prototype": 1}})),
            ),
            ("a present value that is none", answer(&json!({"result": {"present": false, "value": "x"}}))),
            ("success and out of time", answer(&json!({"exit_code": -124}))),
            ("members that nobody knows", answer(&json!({"eval": "1", "redirect": "http://127.0.0.1"}))),
            ("a file above", files(&json!([file("../../etc/cron.d/x")]))),
            ("a file from the root", files(&json!([file("/etc/passwd")]))),
            ("a file of Windows", files(&json!([file("..\\..\\x"), file("C:\\x")]))),
            ("a file without letters", files(&json!([file(""), file("."), file("..")]))),
            ("a file with signs", files(&json!([file("a\u{0}b"), file("a\nb"), file("a\u{202e}gpj.exe")]))),
            ("a long name", files(&json!([file(&"a".repeat(100_000))]))),
            ("files of one name", files(&json!([file("a"), file("a"), file("a")]))),
        ],
        |ran| ran.is_ok(),
    )
    .await;
}
