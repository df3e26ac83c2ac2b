//! The other side of a stream: asks, reads every word as it comes, and checks that none is missing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Streams side by side.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    pub count: usize,
    /// Their beginnings are spread over this time.
    pub over: Duration,
    /// Words of a whole answer.
    pub words: usize,
}

/// What they came to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Load {
    /// To the first word, the median.
    pub first: Duration,
    /// User and system time of the server.
    pub cpu: Duration,
    /// MiB of the server when they were most.
    pub memory: f64,
}

/// A request whose answer streams. Chunk lengths of HTTP stand on lines of their own and are passed by.
pub(crate) async fn request(address: &str, path: &str, body: &Json) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

/// The next line of data; nothing at the end.
pub(crate) async fn data(reader: &mut BufReader<TcpStream>, line: &mut Vec<u8>) -> Option<Json> {
    loop {
        line.clear();
        if reader.read_until(b'\n', line).await.unwrap() == 0 {
            return None;
        }
        if let Some(data) = line.strip_prefix(b"data:")
            && let Ok(data) = serde_json::from_slice(data)
        {
            return Some(data);
        }
    }
}

/// Sends a body and gives what is answered, which must say that all is well.
pub(crate) async fn call(address: &str, (method, path): (&str, &str), (kind, body): (&str, &str)) -> Json {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {kind}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    stream.read_to_end(&mut told).await.unwrap();
    let told = String::from_utf8(told).unwrap();
    let (_, body) = told.split_once("\r\n\r\n").unwrap();
    let answer: Json = serde_json::from_str(body).unwrap_or_else(|_| panic!("{method} {path}: {told}"));
    assert_eq!(answer["code"], 0, "{method} {path}: {answer}");
    answer["data"].clone()
}

/// The same with JSON.
pub(crate) async fn post(address: &str, path: &str, body: &Json) -> Json {
    call(address, ("POST", path), ("application/json", &body.to_string())).await
}

/// The same without a body.
pub(crate) async fn get(address: &str, path: &str) -> Json {
    call(address, ("GET", path), ("text/plain", "")).await
}

/// Asks once, reads the whole answer, and gives the time to its first word.
pub(crate) async fn ask(address: &str, path: &str, body: &Json, words: usize) -> Duration {
    let begun = Instant::now();
    let mut reader = request(address, path, body).await;
    let (mut line, mut text, mut first) = (Vec::new(), String::new(), None);
    while let Some(event) = data(&mut reader, &mut line).await {
        let places = ["/choices/0/delta/content", "/data/content"];
        let word = places.iter().find_map(|place| event.pointer(place)?.as_str()).unwrap_or_default();
        if !word.is_empty() {
            first.get_or_insert_with(|| begun.elapsed());
            text.push_str(word);
        }
    }
    let expected = (0..words).map(|nth| format!("w{nth}"));
    assert!(text.split_ascii_whitespace().map(str::to_owned).eq(expected), "not whole: {text:?}");
    first.unwrap_or_default()
}

/// Asks side by side.
pub(crate) async fn load(address: &str, path: &str, streams: &Streams, body: impl Fn(usize) -> Json) -> Load {
    let (address, path): (Arc<str>, Arc<str>) = (address.into(), path.into());
    let mut all = JoinSet::new();
    for nth in 0..streams.count {
        let (address, path, body, streams) = (Arc::clone(&address), Arc::clone(&path), body(nth), *streams);
        all.spawn(async move {
            tokio::time::sleep(streams.over * nth as u32 / streams.count as u32).await;
            ask(&address, &path, &body, streams.words).await
        });
    }
    let mut firsts = all.join_all().await;
    firsts.sort_unstable();
    Load { first: firsts[firsts.len() / 2], ..Load::default() }
}
