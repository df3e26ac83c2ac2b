//! Contract of a [`TranscriptionModel`].

use bytes::Bytes;
use weft_core::seam::TranscriptionModel;
use weft_core::seam::speech::Recording;
use weft_core::{ErrorKind, TenantId};

use super::fine;

/// Texts for recordings made by [`said`]; stand-ins for a model take the bytes after the first three as text.
pub const SENTENCES: [&str; 2] = ["Good morning. The pump is broken.", "早上好，泵坏了。"];

/// A recording in which this text is spoken, for stand-ins that take the bytes after the first three as text.
pub fn said(text: &str) -> Recording {
    recording(format!("ID3{text}").into_bytes())
}

/// A recording with these bytes.
pub fn recording(bytes: Vec<u8>) -> Recording {
    Recording {
        name: "a \"call\" of today.mp3".to_owned(),
        media_type: "audio/mpeg".to_owned(),
        bytes: Bytes::from(bytes),
    }
}

/// Checks the contract of a transcription model. The model's backend must take the bytes after `ID3` in a recording as
/// text, and refuse recordings that begin otherwise.
///
/// # Panics
/// If the contract is violated.
pub async fn transcription_model_keeps_its_contract(model: &dyn TranscriptionModel) {
    assert!(!model.name().trim().is_empty());
    let [first, second] = SENTENCES.map(said);
    let tenant = TenantId::new("t");
    let (one, other) = tokio::join!(model.transcribe(&tenant, &first), model.transcribe(&tenant, &second));
    assert_eq!([fine(one), fine(other)], SENTENCES, "two concurrent calls do not interfere");
    // The name comes from the sender of the recording.
    for name in ["../../etc/passwd", "-m", "$(touch x).mp3", ""] {
        let named = Recording { name: name.to_owned(), ..said(SENTENCES[0]) };
        assert_eq!(fine(model.transcribe(&tenant, &named).await), SENTENCES[0], "{name}");
    }
    // Silence gives an empty text or an error, and never words.
    match model.transcribe(&tenant, &said("")).await {
        Ok(text) => assert_eq!(text.trim(), ""),
        Err(error) => assert_eq!(error.kind, ErrorKind::Invalid, "{}", error.full()),
    }
    let broken = model.transcribe(&tenant, &recording(b"no recording at all".to_vec())).await;
    assert!(broken.is_err_and(|error| error.kind == ErrorKind::Invalid), "data that is not audio is refused");
}
