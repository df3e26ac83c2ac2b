//! Recordings transcribed by an external program.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_core::seam::TranscriptionModel as _;
use weft_core::seam::speech::Recording;
use weft_core::{Error, ErrorKind, Result};
use weft_parse::{Limits, ProgramTranscription, TranscriptionProgram, TranscriptionSettings, Worker};
use weft_testkit::contracts::transcription::{said, transcription_model_keeps_its_contract};

/// Returns the data after the first three bytes of the recording, and fails if these differ. Uses shell
/// builtins only, since it can start no process.
const HEARS: &str = r#"IFS= read -r line < "$1"
case "$line" in ID3*) printf '%s\n' "${line#ID3}" ;; *) exit 3 ;; esac"#;

fn worker() -> Worker {
    Worker { program: env!("CARGO_BIN_EXE_weft-parse-worker").into(), arguments: Vec::new() }
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("hear");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn settings(command: &[&str]) -> TranscriptionSettings {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    let program = TranscriptionProgram::Other { command };
    TranscriptionSettings { program, read: Vec::new(), threads: 1, at_once: 2 }
}

fn opened(settings: TranscriptionSettings, limits: Limits) -> Result<ProgramTranscription> {
    ProgramTranscription::open(worker(), settings, limits)
}

/// A program written by a test.
fn hearing(folder: &Path, text: &str, limits: Limits) -> ProgramTranscription {
    let path = script(folder, text);
    opened(settings(&[path.to_str().unwrap(), "{file}"]), limits).unwrap()
}

async fn failure(model: &ProgramTranscription, recording: &Recording) -> Error {
    model.transcribe(&"t".into(), recording).await.unwrap_err()
}

#[tokio::test]
async fn a_program_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let model = hearing(folder.path(), HEARS, Limits::default());
    assert_eq!(model.name(), "hear");
    transcription_model_keeps_its_contract(&model).await;
}

#[tokio::test]
async fn whisper_is_given_model_language_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("ggml-tiny.bin");
    std::fs::write(&weights, "weights\n").unwrap();
    let hears = r#"read -r weights < "$3"
[ "$weights" = weights ] || exit 4
case "$1 $2 $4 $5 $6 $7 $8 $9" in "-nf -m -l de -t 3 -f "*"/recording.mp3") ;; *) exit 5 ;; esac
echo
echo "[00:00:00.000 --> 00:00:02.500]   Good morning."
echo "[00:00:02.500 --> 00:00:04.000]   The pump is broken."
echo "[00:00:04.000 --> 00:00:06.000]   [BLANK_AUDIO]""#;
    let program = script(folder.path(), hears);
    let open = |model: PathBuf, language: &str| {
        let command = vec![program.to_str().unwrap().to_owned(), "-nf".to_owned()];
        let program = TranscriptionProgram::Whisper { command, model, language: language.to_owned() };
        let settings = TranscriptionSettings { program, read: Vec::new(), threads: 3, at_once: 1 };
        opened(settings, Limits::default())
    };
    let model = open(weights.clone(), "de").unwrap();
    assert_eq!(model.transcribe(&"t".into(), &said("")).await.unwrap(), "Good morning. The pump is broken.");
    let video = Recording { media_type: "audio/mp4".to_owned(), ..said("") };
    let error = failure(&model, &video).await;
    assert!(error.kind == ErrorKind::Invalid && error.full().contains("not audio/mp4"), "{}", error.full());
    for (model, language, part) in [
        (folder.path().join("none.bin"), "de", "transcription.model"),
        (PathBuf::new(), "de", "transcription.model"),
        (weights.clone(), "../de", "transcription.language"),
        (weights, "", "transcription.language"),
    ] {
        let error = open(model, language).unwrap_err();
        assert!(error.full().contains(part), "{part}: {}", error.full());
    }
}

#[test]
fn missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "exit 0");
    let text = folder.path().join("text");
    std::fs::write(&text, "#!/bin/sh").unwrap();
    let (program, text) = (program.to_str().unwrap(), text.to_str().unwrap());
    let check = |command: &[&str], part: &str| {
        let error = opened(settings(command), Limits::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains(part), "{command:?}: {}", error.full());
    };
    check(&[], "transcription.command");
    check(&["/no/such/program", "{file}"], "/no/such/program");
    check(&["sh", "{file}"], "full path");
    check(&[text, "{file}"], "executable");
    check(&[program, "--loud"], "{file}");
    let read = vec![PathBuf::from("/no/such/folder")];
    let error = opened(TranscriptionSettings { read, ..settings(&[program, "{file}"]) }, Limits::default())
        .unwrap_err();
    assert!(error.full().contains("/no/such/folder"), "{}", error.full());
}

#[tokio::test]
async fn failures_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "exit 7");
    let command = [program.to_str().unwrap(), "--key=s3cret", "{file}"];
    let model = opened(settings(&command), Limits::default()).unwrap();
    let error = failure(&model, &said("x")).await;
    assert!(error.kind == ErrorKind::Invalid && error.full().contains("code 7"), "{}", error.full());
    let told = error.full();
    assert!(!told.contains("s3cret") && !told.contains(command[0]), "a tenant is shown no path: {told}");
    let model = hearing(folder.path(), "exit 0", Limits::default());
    let error = failure(&model, &said("x")).await;
    assert!(error.full().contains("has written nothing"), "{}", error.full());
    let small = Limits { file_bytes: 3, ..Limits::default() };
    let error = failure(&hearing(folder.path(), HEARS, small), &said("x")).await;
    assert!(error.full().contains("transcription.file_bytes_max"), "{}", error.full());
    let line = "x".repeat(4_096);
    let model =
        hearing(folder.path(), &format!("while :; do echo {line} || exit 1; done"), Limits::default());
    assert_eq!(failure(&model, &said("x")).await.kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn a_program_ends_at_its_time_limit() {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    // One computes, and one waits forever.
    for text in ["while :; do :; done", "read -r never"] {
        let folder = tempfile::tempdir().unwrap();
        let model = hearing(folder.path(), text, limits);
        let recording = said("x");
        let ended = tokio::time::timeout(Duration::from_secs(30), failure(&model, &recording)).await.unwrap();
        assert_eq!(ended.kind, ErrorKind::Timeout, "{text}: {}", ended.full());
        assert!(ended.full().contains("transcription.seconds"), "{}", ended.full());
        for _ in 0..100 {
            if !is_running(folder.path()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!is_running(folder.path()), "{text}");
    }
}

/// Whether a process was started with a path in this folder.
fn is_running(folder: &Path) -> bool {
    let folder = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|words| String::from_utf8_lossy(&words).contains(folder))
}

#[tokio::test]
async fn a_program_reads_only_its_input() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = elsewhere.path().join("secret");
    std::fs::write(&secret, "precious\n").unwrap();
    let looks = format!("read -r line < {} && echo \"saw $line\" || echo hidden", secret.display());
    let program = script(folder.path(), &looks);
    let command = [program.to_str().unwrap(), "{file}"];
    let model = opened(settings(&command), Limits::default()).unwrap();
    assert_eq!(model.transcribe(&"t".into(), &said("x")).await.unwrap(), "hidden");
    let read = vec![elsewhere.path().to_owned()];
    let model = opened(TranscriptionSettings { read, ..settings(&command) }, Limits::default()).unwrap();
    assert_eq!(model.transcribe(&"t".into(), &said("x")).await.unwrap(), "saw precious");
    let starts = "/bin/true && echo started || echo alone";
    let model = hearing(folder.path(), starts, Limits::default());
    assert!(!model.transcribe(&"t".into(), &said("x")).await.is_ok_and(|text| text.contains("started")));
}
