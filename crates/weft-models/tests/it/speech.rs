//! Speech over OpenAI's routes.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value as Json, json};
use weft_core::seam::speech::Recording;
use weft_core::seam::{ModelDirectory, TranscriptionModel};
use weft_core::usage::Counted;
use weft_core::{ErrorKind, TenantId};
use weft_models::{Directory, ModelsConfig};
use weft_testkit::contracts::transcription::{said, transcription_model_keeps_its_contract};

type Seen = Arc<Mutex<Vec<(HeaderMap, Vec<u8>)>>>;

/// A server that gives this answer after this many failures.
async fn server(answer: &'static [u8], mut failures: usize) -> (String, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let failures = Arc::new(Mutex::new(std::mem::take(&mut failures)));
    let take = move |headers: HeaderMap, body: Bytes| {
        noted.lock().unwrap().push((headers, body.to_vec()));
        let mut left = failures.lock().unwrap();
        let fails = *left > 0;
        *left = left.saturating_sub(1);
        async move { if fails { (StatusCode::TOO_MANY_REQUESTS, &b"{}"[..]) } else { (StatusCode::OK, answer) } }
    };
    let router = Router::new()
        .route("/v1/audio/speech", post(take.clone()))
        .route("/v1/audio/transcriptions", post(take));
    (serve(router).await, seen)
}

/// Where these routes answer from now on.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = listener.into_std().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    format!("http://{address}/v1")
}

fn directory(entries: &Json) -> weft_core::Result<Directory> {
    let config: ModelsConfig = serde_json::from_value(json!({"entries": entries})).unwrap();
    Directory::open(&config, &weft_net::operator_client().unwrap())
}

fn tenant() -> TenantId {
    TenantId::from("t".to_owned())
}

#[tokio::test]
async fn a_text_is_read_aloud() {
    let (base_url, seen) = server(b"ID3 sound", 1).await;
    let models = directory(&json!([{"name": "reader", "model": "tts-1", "kind": "tts", "base_url": base_url,
        "api_key": "k", "voice": "nova"}]))
    .unwrap();
    let model = models.speech(&tenant(), "").unwrap();
    let audio = model.speak("Hello").await.unwrap();
    assert_eq!((&*audio.media_type, &*audio.base64), ("audio/mpeg", "SUQzIHNvdW5k"));
    let seen = seen.lock().unwrap();
    // The refusal was retried.
    assert_eq!(seen.len(), 2);
    let (headers, body) = &seen[1];
    assert_eq!(headers["authorization"], "Bearer k");
    let body: Json = serde_json::from_slice(body).unwrap();
    assert_eq!(body, json!({"model": "tts-1", "input": "Hello", "voice": "nova", "response_format": "mp3"}));
}

#[tokio::test]
async fn an_answer_that_is_not_audio_is_refused() {
    for answer in [&b""[..], b"{\"error\": 1}", b"<html>"] {
        let (base_url, _) = server(answer, 0).await;
        let models = directory(&json!([{"name": "r", "kind": "tts", "base_url": base_url}])).unwrap();
        let error = models.speech(&tenant(), "r").unwrap().speak("x").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Garbled, "{answer:?}");
    }
}

#[tokio::test]
async fn a_recording_is_transcribed() {
    let (base_url, seen) = server(b"{\"text\": \"Hello\", \"x\": 1}", 0).await;
    let models =
        directory(&json!([{"name": "ears", "model": "whisper-1", "kind": "speech", "base_url": base_url}]))
            .unwrap();
    let model = models.transcription(&tenant(), "whisper-1").unwrap();
    let recording = Recording {
        name: "a \"b\".ogg".to_owned(),
        media_type: "audio/ogg".to_owned(),
        bytes: Bytes::from_static(b"OggS sound"),
    };
    assert_eq!(model.transcribe(&tenant(), &recording).await.unwrap(), "Hello");
    let sent = seen.lock().unwrap()[0].1.clone();
    let body = String::from_utf8_lossy(&sent);
    for part in ["name=\"model\"", "whisper-1", "OggS sound", "Content-Type: audio/ogg", "name=\"file\""] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert_eq!(
        model.transcribe_counted(&tenant(), &recording).await.unwrap(),
        Counted::untold("Hello".to_owned())
    );
    let told = b"{\"text\": \"Hello\", \"usage\": {\"type\": \"tokens\", \"input_tokens\": 14, \"output_tokens\": 3}}";
    let (base_url, _) = server(told, 0).await;
    let entry = json!([{"name": "ears", "kind": "speech", "base_url": base_url}]);
    let tells = directory(&entry).unwrap().transcription(&tenant(), "ears").unwrap();
    let usage = tells.transcribe_counted(&tenant(), &recording).await.unwrap().usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.calls), (14, 3, 1));
    let odd = Recording { media_type: "no type".to_owned(), ..recording };
    assert_eq!(model.transcribe(&tenant(), &odd).await.unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn speech_models_resolve_or_are_refused_by_name() {
    let models = directory(&json!([{"name": "reader", "kind": "tts"}, {"name": "gpt"}])).unwrap();
    assert_eq!(models.speech(&tenant(), "reader").unwrap().name(), "reader");
    let error = models.speech(&tenant(), "gpt").err().unwrap();
    assert!(error.full().contains("for answering messages, not for reading aloud"), "{}", error.full());
    let error = models.transcription(&tenant(), "").err().unwrap();
    assert!(error.full().contains("kind = \"speech\""), "{}", error.full());
    let error = directory(&json!([{"name": "a", "provider": "anthropic", "kind": "tts"}])).unwrap_err();
    assert!(error.full().contains("has no speech"), "{}", error.full());
}

/// The data after the first three bytes of the file in a form; nothing if these differ.
fn heard(form: &[u8]) -> Option<String> {
    let form = String::from_utf8_lossy(form);
    let (_, part) = form.split_once("name=\"file\"")?;
    let (_, file) = part.split_once("\r\n\r\n")?;
    let (file, _) = file.split_once("\r\n--")?;
    file.strip_prefix("ID3").map(str::to_owned)
}

#[tokio::test]
async fn the_transcription_route_keeps_the_contract() {
    let take = |body: Bytes| async move {
        match heard(&body) {
            Some(text) => (StatusCode::OK, json!({"text": text}).to_string()),
            None => (StatusCode::BAD_REQUEST, "{}".to_owned()),
        }
    };
    let base_url = serve(Router::new().route("/v1/audio/transcriptions", post(take))).await;
    let models = directory(&json!([{"name": "ears", "kind": "speech", "base_url": base_url}])).unwrap();
    transcription_model_keeps_its_contract(&*models.transcription(&tenant(), "").unwrap()).await;
}

/// Returns its own name.
struct Program;

#[weft_core::async_trait]
impl TranscriptionModel for Program {
    fn name(&self) -> &str {
        "whisper-cli"
    }

    async fn transcribe(&self, _: &TenantId, _: &Recording) -> weft_core::Result<String> {
        Ok("said by a program".to_owned())
    }
}

#[tokio::test]
async fn a_program_serves_as_the_default_model_and_by_its_name() {
    let entries = json!([{"name": "ears", "kind": "speech"}]);
    let models = directory(&entries).unwrap().with_transcription(Arc::new(Program));
    for id in ["", " ", "whisper-cli"] {
        let model = models.transcription(&tenant(), id).unwrap();
        assert_eq!(model.transcribe(&tenant(), &said("x")).await.unwrap(), "said by a program");
    }
    assert_eq!(models.transcription(&tenant(), "ears").unwrap().name(), "ears");
}
