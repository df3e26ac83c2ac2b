//! The services outside the killed processes: a model and a web service, which keep running.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value as Json;
use weft_testkit::{Script, ScriptedServer, Wire, steady};

pub(crate) struct Outside {
    pub(crate) model_url: String,
    pub(crate) web_url: String,
    /// The number of requests that change something.
    posted: Arc<AtomicU64>,
    _model: ScriptedServer,
    _runtime: tokio::runtime::Runtime,
}

impl Outside {
    pub(crate) fn of(folder: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let script = std::fs::read_to_string(folder.join("script.json"))
            .map_or_else(|_| Script::new(), |text| Script::parse(&text).unwrap());
        let model = runtime.block_on(ScriptedServer::from_fn(Wire::OpenAi, steady(script)));
        let answers: Vec<Json> = std::fs::read_to_string(folder.join("http.json"))
            .map(|text| serde_json::from_str(&text).unwrap())
            .unwrap_or_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let web_url = format!("http://{}", listener.local_addr().unwrap());
        let posted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&posted);
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Errors of a client that was killed during a request do not matter.
                let _ = answer(stream, &answers, &count);
            }
        });
        Self { model_url: model.base_url.clone(), web_url, posted, _model: model, _runtime: runtime }
    }

    pub(crate) fn posted(&self) -> u64 {
        self.posted.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, answers: &[Json], posted: &AtomicU64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.take(length).read_to_end(&mut Vec::new())?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // `/shop.example/stock` stands for `https://shop.example/stock`; a redirect omits the host.
    let found = answers.iter().find(|answer| {
        let url = answer["url"].as_str().unwrap_or_default();
        answer["status"].is_u64() && (url.ends_with(path) || url.ends_with(path.trim_start_matches('/')))
    });
    // Some services use POST for queries that change nothing, which may be repeated.
    let asks = found.is_some_and(|answer| answer["asks"] == true);
    if method == "POST" && !asks {
        posted.fetch_add(1, Ordering::SeqCst);
    }
    let (status, body) = found.map_or((503, ""), |answer| {
        (answer["status"].as_u64().unwrap_or(200), answer["body"].as_str().unwrap_or_default())
    });
    let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in found.and_then(|answer| answer["headers"].as_object()).into_iter().flatten() {
        head.push_str(&format!("{name}: {}\r\n", value.as_str().unwrap_or_default()));
    }
    write!(stream, "{head}\r\n{body}")
}
