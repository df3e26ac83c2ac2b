//! Settings of speech transcription.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use weft_parse::{Limits, TranscriptionProgram, TranscriptionSettings};

/// What transcribes recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptionEngine {
    /// The default model of the kind `speech`, if there is one.
    #[default]
    Model,
    /// The program of whisper.cpp.
    Whisper,
    /// A program that the operator configures.
    Program,
}

/// Recordings, and the local program that transcribes them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TranscriptionConfig {
    /// What transcribes recordings in documents, in questions and over the API.
    pub engine: TranscriptionEngine,
    /// The path of the program and its arguments.
    pub command: Vec<String>,
    /// The model file for `whisper`.
    pub model: PathBuf,
    /// The spoken language, for `whisper`.
    pub language: String,
    /// Files that the program may read in addition to itself, the model, the recording and the system's libraries.
    pub read: Vec<PathBuf>,
    /// Number of threads of one program.
    pub threads: u32,
    /// Maximum number of concurrent programs.
    pub at_once: usize,
    /// Time limit for one recording, in seconds.
    pub seconds: f64,
    /// Memory limit of one program, in bytes.
    pub memory_bytes: usize,
    /// Maximum size of a recording, in bytes.
    pub file_bytes_max: usize,
}

impl Default for TranscriptionConfig {
    fn default() -> Self {
        Self {
            engine: TranscriptionEngine::default(),
            command: Vec::new(),
            model: PathBuf::new(),
            language: "auto".to_owned(),
            read: Vec::new(),
            threads: 4,
            // One recording already takes several threads.
            at_once: 1,
            seconds: 1_800.0,
            memory_bytes: 3 << 30,
            file_bytes_max: 128 << 20,
        }
    }
}

impl TranscriptionConfig {
    /// Returns the settings of the program; `None` if a model transcribes.
    pub fn settings(&self) -> Option<TranscriptionSettings> {
        let Self { engine, command, model, language, read, threads, at_once, .. } = self;
        let command = command.clone();
        let program = match engine {
            TranscriptionEngine::Model => return None,
            TranscriptionEngine::Whisper => {
                let (model, language) = (model.clone(), language.trim().to_owned());
                TranscriptionProgram::Whisper { command, model, language }
            }
            TranscriptionEngine::Program => TranscriptionProgram::Other { command },
        };
        Some(TranscriptionSettings { program, read: read.clone(), threads: *threads, at_once: *at_once })
    }

    /// Returns the limits of the program for one recording if the numbers are valid.
    pub fn limits(&self) -> Option<Limits> {
        const MEMORY_MIN: usize = 16 << 20;
        const THREADS_MAX: u32 = 1_024;
        let &Self { memory_bytes, file_bytes_max: file_bytes, threads, at_once, .. } = self;
        let time = Duration::try_from_secs_f64(self.seconds).ok()?;
        let sound = !time.is_zero()
            && time <= Duration::from_secs(86_400)
            && memory_bytes >= MEMORY_MIN
            && file_bytes > 0
            && at_once > 0
            && (1..=THREADS_MAX).contains(&threads);
        sound.then_some(Limits { time, memory_bytes, file_bytes })
    }
}
