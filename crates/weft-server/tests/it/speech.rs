//! Messages that are read aloud, and conversion between text and recordings over HTTP.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::shelf::form;
use crate::support::{Bench, Frame, Reading, begin, bench, component, said};

fn aloud(content: &str) -> Json {
    let params = json!({"content": [content], "auto_play": true});
    json!({"components": {
        "begin": begin("", "Message:M"),
        "Message:M": component("Message", &params, &[]),
    }})
}

fn unhex(digits: &str) -> String {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    String::from_utf8((0..digits.len()).step_by(2).map(byte).collect()).unwrap()
}

/// The spoken text, sentence by sentence.
fn heard(frames: &[Frame]) -> Vec<String> {
    let spoken = frames.iter().map(Frame::json).filter_map(|frame| {
        let audio = frame["data"]["audio_binary"].as_str()?;
        assert_eq!((&frame["event"], &frame["data"]["content"]), (&json!("message"), &json!("")), "{frame}");
        assert_eq!(frame["data"]["audio_type"], "audio/mpeg");
        Some(unhex(audio))
    });
    spoken.collect()
}

async fn asked(bench: &Bench, content: &str) -> Vec<Frame> {
    let id = bench.store("Aloud", aloud(content)).await;
    bench.post(&format!("/api/v1/agents/{id}/completions"), json!({"question": "q"})).await.frames()
}

#[tokio::test]
async fn a_message_is_read_aloud_sentence_by_sentence() {
    let bench = bench(Script::new()).await;
    let text = "**Nothing** is lost. Not in 3.5 years, says {sys.query} [ID:0]. And the end";
    let frames = asked(&bench, text).await;
    assert_eq!(said(&frames), text.replace("{sys.query}", "q"));
    assert_eq!(heard(&frames), ["Nothing is lost.", "Not in 3.5 years, says q.", "And the end"]);
    // The end frame contains no speech, and all speech comes before it.
    let end = frames.iter().position(|frame| frame.event() == "message_end").unwrap();
    assert_eq!(heard(&frames[end..]), [""; 0]);
}

#[tokio::test]
async fn a_later_reader_gets_the_same_speech() {
    let bench = bench(Script::new()).await;
    let frames = asked(&bench, "The first sentence is this one. The second sentence is that.").await;
    let begun = frames[0].json();
    let run = begun["message_id"].as_str().unwrap();
    let again = bench.get(&format!("/api/v1/runs/{run}/events")).await.frames();
    assert_eq!(heard(&again), heard(&frames));
    assert_eq!(heard(&again).len(), 2);
}

#[tokio::test]
async fn a_failed_voice_is_a_warning_and_the_text_is_complete() {
    let bench = bench(Script::new()).await;
    let text = "The first sentence is this one. This one is unspeakable. The third is not read.";
    let frames = asked(&bench, text).await;
    assert_eq!(said(&frames), text);
    assert_eq!(heard(&frames), ["The first sentence is this one."]);
    let begun = frames[0].json();
    let run = begun["message_id"].as_str().unwrap();
    let frames = bench.get(&format!("/api/v1/runs/{run}/events")).await.frames();
    let warned = frames.iter().find(|frame| frame.event() == "warning").unwrap().json();
    assert!(warned["data"]["message"].as_str().unwrap().contains("the voice is gone"), "{warned}");
    assert_eq!(
        frames.iter().rev().find(|frame| frame.event() == "workflow_finished").unwrap().json()["data"]["status"],
        "succeeded"
    );
}

#[tokio::test]
async fn a_text_becomes_a_recording() {
    let bench = bench(Script::new()).await;
    for path in ["/api/v1/chat/audio/speech", "/api/v1/tts"] {
        let got = bench.post(path, json!({"text": " Hello "})).await;
        assert_eq!(
            (got.text.as_str(), got.headers["content-type"].to_str().unwrap()),
            ("Hello", "audio/mpeg")
        );
    }
    for body in [json!({}), json!({"text": "  "}), json!({"text": "x".repeat(5_000)})] {
        let refused = bench.post("/api/v1/chat/audio/speech", body).await.json();
        assert_eq!(refused["code"], 101, "{refused}");
    }
}

async fn transcribed(bench: &Bench, files: &[(&str, &str)]) -> Reading {
    let (body, kind) = form(files);
    let request = Request::builder()
        .method("POST")
        .uri("/api/v1/chat/audio/transcription")
        .header("authorization", format!("Bearer {}", bench.token))
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap();
    bench.send(request).await
}

#[tokio::test]
async fn a_recording_is_transcribed_also_as_an_attachment() {
    let bench = bench(Script::new()).await;
    for name in ["a.mp3", "recording.webm", "a.WMA"] {
        let text = transcribed(&bench, &[(name, "hello")]).await.data();
        assert_eq!(text, json!({"text": format!("{name}: hello")}));
    }
    let missing = "Missing 'file' in multipart form-data";
    let other = "Unsupported audio format: .txt. Allowed: ";
    for (files, words) in [(&[][..], missing), (&[("a.mp3", "")], missing), (&[("a.txt", "hello")], other)] {
        let (code, message) = transcribed(&bench, files).await.refusal();
        assert!(code == 102 && message.starts_with(words), "{files:?}: {message}");
    }
    let canvas = json!({"components": {
        "begin": begin("", "Message:M"),
        "Message:M": component("Message", &json!({"content": ["files {sys.files}"]}), &[]),
    }});
    let id = bench.store("Files", canvas).await;
    let file = json!("data:audio/mpeg;base64,aGVsbG8=");
    let path = format!("/api/v1/agents/{id}/completions");
    let told = said(&bench.post(&path, json!({"question": "q", "files": [file]})).await.frames());
    assert!(told.contains("attachment.mp3: hello"), "{told}");
}
