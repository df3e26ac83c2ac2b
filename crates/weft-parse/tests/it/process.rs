//! The process that reads a file.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use weft_core::seam::document_reader::{ChunkMethod, ReadRequest};
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, PageSettings, Sheet, WriteRequest};
use weft_core::seam::{DocumentReader, DocumentWriter as _};
use weft_core::{ErrorKind, TenantId};
use weft_parse::{ChildReader, InProcess, Limits, Worker};

use crate::build::{docx, pdf, samples};

fn worker() -> Worker {
    Worker { program: PathBuf::from(env!("CARGO_BIN_EXE_weft-parse-worker")), arguments: Vec::new() }
}

fn reader() -> ChildReader {
    ChildReader::new(worker(), Limits::default(), 2)
}

fn request(name: &str) -> ReadRequest {
    ReadRequest { name: name.to_owned(), method: ChunkMethod::Naive, settings: serde_json::Map::new() }
}

#[tokio::test]
async fn both_readers_give_the_same_result() {
    for (name, bytes) in samples() {
        let bytes = Bytes::from(bytes);
        let child = reader().read(&"t".into(), &request(name), bytes.clone()).await.unwrap();
        let own = InProcess::default().read(&"t".into(), &request(name), bytes).await.unwrap();
        assert_eq!(child, own, "{name}");
        assert!(!child.pieces.is_empty(), "{name}");
    }
    let bytes = Bytes::from_static(b"\x89PNG\r\n\x1a\n0000");
    for reader in [&reader() as &dyn DocumentReader, &InProcess::default()] {
        let error = reader.read(&"t".into(), &request("a.png"), bytes.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().starts_with("cannot read `a.png`: it is a picture"), "{}", error.full());
    }
}

/// A library may need what a worker has given up, such as threads: code that works in this process need not
/// work there.
#[tokio::test]
async fn every_format_is_generated_in_a_confined_process() {
    // One pixel.
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let reader = reader();
    let rows = vec![vec!["name".into(), "n".into()], vec!["one".into(), 1.into()]];
    let sheets = vec![Sheet { name: "first".to_owned(), rows }; 3];
    let picture = format!("![dot](data:image/png;base64,{PNG})\n\n");
    let text = "# Title\n\nSome *words*.\n\n| name | n |\n|---|---|\n| one | 1 |\n".to_owned();
    let text = picture + &text;
    for format in DocumentFormat::ALL {
        for content in [DocumentContent::Markdown(text.clone()), DocumentContent::Sheets(sheets.clone())] {
            let page = PageSettings { title: "T".to_owned(), page_numbers: true, ..PageSettings::default() };
            let request = WriteRequest { format, content, page };
            let made = reader
                .write(&"t".into(), &request)
                .await
                .unwrap_or_else(|error| panic!("{format:?}: {}", error.full()));
            let name = format!("a.{}", format.ending());
            let read = reader.read(&"t".into(), &crate::process::request(&name), made.bytes).await.unwrap();
            let found = format!("{:?}", read.pieces);
            assert!(found.contains("one"), "{format:?}: {found}");
        }
    }
}

#[tokio::test]
async fn a_long_text_becomes_a_document() {
    let text = "0123456789\n".repeat(1 << 19);
    let content = DocumentContent::Markdown(text.clone());
    let request = WriteRequest { format: DocumentFormat::Markdown, content, page: PageSettings::default() };
    assert!(reader().write(&"t".into(), &request).await.unwrap().bytes == text.as_bytes());
}

#[tokio::test]
async fn characters_missing_in_pdf_fonts_are_reported_by_both() {
    let content = DocumentContent::Markdown("a 汉 b".to_owned());
    let request = WriteRequest { format: DocumentFormat::Pdf, content, page: PageSettings::default() };
    assert_eq!(reader().write(&"t".into(), &request).await.unwrap().unwritable, "汉");
    assert_eq!(InProcess::default().write(&"t".into(), &request).await.unwrap().unwritable, "汉");
}

#[tokio::test]
async fn large_files_are_refused_before_anything_is_started() {
    let limits = Limits { file_bytes: 9, ..Limits::default() };
    let nobody = Worker { program: PathBuf::from("/no/such/worker"), arguments: Vec::new() };
    let error = ChildReader::new(nobody.clone(), limits, 1)
        .read(&"t".into(), &request("a.txt"), Bytes::from_static(b"1234567890"))
        .await
        .unwrap_err();
    assert!(error.full().contains("documents.file_bytes_max"), "{}", error.full());
    let error = ChildReader::new(nobody, limits, 1)
        .read(&"t".into(), &request("a.txt"), Bytes::from_static(b"1"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.full().contains("/no/such/worker"), "{}", error.full());
}

/// A document whose reading takes some time in a test build.
fn long_text() -> Bytes {
    Bytes::from(docx(&"<w:p><w:r><w:t>some words of a text</w:t></w:r></w:p>".repeat(200_000)))
}

#[tokio::test]
async fn a_reading_that_takes_too_long_is_stopped() {
    let limits = Limits { time: Duration::from_millis(5), ..Limits::default() };
    let error = ChildReader::new(worker(), limits, 1)
        .read(&"t".into(), &request("a.docx"), long_text())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.full().contains("documents.seconds"), "{}", error.full());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_reading_that_uses_too_much_memory_is_stopped() {
    // The worker reserves 128 MiB for itself, half of it stack.
    let limits = Limits { memory_bytes: 1, ..Limits::default() };
    let text = Bytes::from("Some words of a text, and some more.\n\n".repeat(3_000_000));
    let reader = ChildReader::new(worker(), limits, 1);
    let error = reader.read(&"t".into(), &request("a.txt"), text).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.full().contains("of memory"), "{}", error.full());
    // Its slot is free again.
    assert!(reader.read(&"t".into(), &request("a.txt"), Bytes::from_static(b"text")).await.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_crashed_worker_does_not_affect_others() {
    let shell = |script: &str| {
        let worker =
            Worker { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), script.into()] };
        ChildReader::new(worker, Limits::default(), 1)
    };
    let check = async |script: &str, kind: ErrorKind| {
        let error = shell(script)
            .read(&"t".into(), &request("a.txt"), Bytes::from_static(b"text"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, kind, "{script}: {}", error.full());
    };
    check("kill -SEGV $$", ErrorKind::Invalid).await;
    check("kill -XCPU $$", ErrorKind::Timeout).await;
    check("echo hello", ErrorKind::Garbled).await;
    check("exit 3", ErrorKind::Unavailable).await;
}

#[tokio::test]
async fn files_wait_for_a_free_worker() {
    let reader = reader();
    let bytes = Bytes::from(pdf(&[vec![(10, 50, 700, "text".to_owned())]]));
    let (tenant, request) = (TenantId::new("t"), request("a.pdf"));
    let all = (0..8).map(|_| reader.read(&tenant, &request, bytes.clone()));
    assert!(futures::future::join_all(all).await.into_iter().all(|read| read.is_ok()));
}

/// The workers with this marker that have not ended.
#[cfg(target_os = "linux")]
fn workers(mark: &str) -> usize {
    let marked = |path: &PathBuf| {
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(marked).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_a_reading_stops_its_worker() {
    let mark = "dropped-by-its-test";
    let worker = Worker { arguments: vec![mark.into()], ..worker() };
    let reader = ChildReader::new(worker, Limits::default(), 1);
    let (tenant, request) = (TenantId::new("t"), request("a.docx"));
    let until_there_are = async |count: usize| {
        let there = async {
            while workers(mark) != count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), there).await.expect("the workers start and end");
    };
    let mut reading = reader.read(&tenant, &request, long_text());
    tokio::select! {
        read = &mut reading => panic!("{:?}", read.map(|read| read.pieces.len())),
        // The reading worker, and the one that it was forked from.
        () = until_there_are(2) => {}
    }
    drop(reading);
    until_there_are(1).await;
    drop(reader);
    until_there_are(0).await;
}
