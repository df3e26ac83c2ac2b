//! Datasets over HTTP: questions, small files, chunks one by one.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::process::Process;
use crate::{Bench, row, wire};

/// Chunks of W7, unless `MEASURE_CHUNKS` says something else, and in how many documents.
const CHUNKS: usize = 100_000;
const CHUNKS_OF_DOCUMENT: usize = 100;
/// Questions of W7 of each kind.
const QUESTIONS: usize = 300;
/// Files of W8.
const FILES: usize = 500;
/// Files of one upload.
const FILES_AT_ONCE: usize = 25;
/// Chunks of W9.
const ADDED: usize = 500;

/// Words as texts have them: few that are everywhere, many that are rare.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn text(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            // The nth word is about as frequent as 1/n.
            let place = (self.next() % 1_000_000) as f64 / 1e6;
            let nth = (20_000_f64.powf(place)) as u64;
            let consonants = b"bcdfghklmnprstvz";
            let vowels = b"aeiou";
            let mut rest = nth * 7 + 3;
            while rest > 0 {
                text.push(char::from(consonants[(rest % 16) as usize]));
                text.push(char::from(vowels[(rest / 16 % 5) as usize]));
                rest /= 80;
            }
            text.push(' ');
        }
        text.truncate(text.trim_end().len());
        text
    }
}

async fn dataset(server: &Process, name: &str, settings: &Json) -> String {
    let mut body = json!({"name": name, "chunk_method": "naive"});
    if !settings.is_null() {
        body["parser_config"] = settings.clone();
    }
    let created = wire::post(&server.address, "/api/v1/datasets", &body).await;
    format!("/api/v1/datasets/{}", created["id"].as_str().unwrap())
}

async fn upload(server: &Process, dataset: &str, files: &[(String, String)]) -> Vec<String> {
    let mut body = String::new();
    for (name, text) in files {
        write!(
            body,
            "--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: text/plain\r\n\r\n{text}\r\n"
        )
        .unwrap();
    }
    body.push_str("--frontier--\r\n");
    let path = format!("{dataset}/documents");
    let kind = ("multipart/form-data; boundary=frontier", body.as_str());
    let kept = wire::call(&server.address, ("POST", &path), kind).await;
    kept.as_array().unwrap().iter().map(|kept| kept["id"].as_str().unwrap().to_owned()).collect()
}

/// Has documents read and waits for the last of them; so many have been read before.
async fn read(server: &Process, dataset: &str, ids: &[String], before: usize) {
    for some in ids.chunks(500) {
        wire::post(&server.address, &format!("{dataset}/chunks"), &json!({"document_ids": some})).await;
    }
    loop {
        let path = format!("{dataset}/documents?page_size=1&run=RUNNING");
        if wire::get(&server.address, &path).await["total"] == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let done = format!("{dataset}/documents?page_size=1&run=DONE");
    assert_eq!(wire::get(&server.address, &done).await["total"], before + ids.len(), "every file was read");
}

/// W7: questions to many chunks, by words and by words and vectors.
#[expect(clippy::disallowed_methods, reason = "who measures may say how many chunks")]
pub(crate) async fn questions(bench: &Bench) {
    let count = std::env::var("MEASURE_CHUNKS").ok().and_then(|count| count.parse().ok()).unwrap_or(CHUNKS);
    let server = bench.serve_with("mock-1-0-0-0", &[("WEFT_DEFAULT_EMBEDDING", "mock")]).await;
    let dataset = dataset(&server, "many", &json!({"delimiter": "`\n`", "filename_embd_weight": 0.1})).await;
    let mut words = Words(0x9e37_79b9_7f4a_7c15);
    let mut ids = Vec::new();
    let before = server.cpu_of_all();
    for first in (0..count).step_by(CHUNKS_OF_DOCUMENT * FILES_AT_ONCE) {
        let files =
            (first..(first + CHUNKS_OF_DOCUMENT * FILES_AT_ONCE).min(count)).step_by(CHUNKS_OF_DOCUMENT);
        let file = |at: usize| {
            let lines: Vec<String> = (0..CHUNKS_OF_DOCUMENT).map(|_| words.text(75)).collect();
            (format!("file {at}.txt"), lines.join("\n"))
        };
        let files: Vec<(String, String)> = files.map(file).collect();
        ids.extend(upload(&server, &dataset, &files).await);
    }
    read(&server, &dataset, &ids, 0).await;
    let cpu = (server.cpu_of_all() - before).as_secs_f64() * 1e3 / count as f64;
    row(&format!("W7: a chunk on its way in, {count} of them"), "ms", cpu, None);
    let id = dataset.rsplit('/').next().unwrap();
    let asked: Vec<String> = (0..QUESTIONS).map(|_| words.text(8)).collect();
    for (what, share) in [("words", 0.0), ("both", 0.5)] {
        for size in [8, 30] {
            let ask = async |question: &str| {
                let body = json!({
                    "question": question, "dataset_ids": [id], "vector_similarity_weight": share,
                    "similarity_threshold": 0.05, "page_size": size,
                });
                let found = wire::post(&server.address, "/api/v1/retrieval", &body).await;
                assert_eq!(found["chunks"].as_array().unwrap().len(), size, "{found}");
            };
            ask(&asked[0]).await;
            let before = server.cpu();
            for question in &asked {
                ask(question).await;
            }
            let each = (server.cpu() - before).as_secs_f64() * 1e3 / asked.len() as f64;
            row(&format!("W7: a question by {what}, {size} shown"), "ms", each, None);
        }
    }
    row("W7: memory", "MiB", server.memory(), None);
}

/// W8: many small files.
pub(crate) async fn small_files(bench: &Bench) {
    let server = bench.serve("mock-1-0-0-0").await;
    let dataset = dataset(&server, "small", &Json::Null).await;
    let mut words = Words(7);
    let mut file = |at: usize| (format!("file {at}.txt"), words.text(200));
    let first = upload(&server, &dataset, &[file(0)]).await;
    read(&server, &dataset, &first, 0).await;
    let before = server.cpu_of_all();
    let mut ids = Vec::new();
    for from in (1..=FILES).step_by(FILES_AT_ONCE) {
        let files: Vec<(String, String)> = (from..from + FILES_AT_ONCE).map(&mut file).collect();
        ids.extend(upload(&server, &dataset, &files).await);
    }
    let uploaded = server.cpu_of_all();
    read(&server, &dataset, &ids, first.len()).await;
    // What is written behind is part of it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = |from: Duration, to: Duration| (to - from).as_secs_f64() * 1e3 / FILES as f64;
    row("W8: a small file, its upload", "ms", each(before, uploaded), None);
    row("W8: a small file, all", "ms", each(before, server.cpu_of_all()), None);
}

/// W9: chunks that are added one by one, the last of which the next question finds.
pub(crate) async fn chunks(bench: &Bench) {
    let server = bench.serve("mock-1-0-0-0").await;
    let dataset = dataset(&server, "by hand", &Json::Null).await;
    let ids = upload(&server, &dataset, &[("a.txt".to_owned(), "some text".to_owned())]).await;
    read(&server, &dataset, &ids, 0).await;
    let path = format!("{dataset}/documents/{}/chunks", ids[0]);
    let mut words = Words(3);
    let before = server.cpu();
    for at in 0..ADDED {
        let content = format!("{} number{at}", words.text(75));
        wire::post(&server.address, &path, &json!({"content": content})).await;
    }
    let id = dataset.rsplit('/').next().unwrap();
    let question = format!("number{}", ADDED - 1);
    let body = json!({"question": question, "dataset_ids": [id], "similarity_threshold": 0.0});
    let found = wire::post(&server.address, "/api/v1/retrieval", &body).await;
    let first = found["chunks"][0]["content"].as_str().unwrap();
    assert!(first.ends_with(&question), "{found}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = (server.cpu() - before).as_secs_f64() * 1e3 / ADDED as f64;
    row("W9: a chunk that is added by itself", "ms", each, None);
}
