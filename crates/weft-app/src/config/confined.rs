//! Settings of work in separate processes: programs of canvases and models, and the parsing of files.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use weft_core::seam::sandbox::Limits;
use weft_sandbox::Confinement;

/// Programs of canvases and models.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxConfig {
    /// Maximum number of concurrent programs; 0: none may run.
    pub at_once: usize,
    /// Time limit of a program, in seconds.
    pub seconds: f64,
    /// Memory limit of a program, in bytes.
    pub memory_bytes: usize,
    /// Maximum size of its result as JSON, in bytes.
    pub output_bytes: usize,
    /// Maximum size of its printed output, in bytes; more is cut off.
    pub printed_bytes: usize,
    /// The command that runs them, with its arguments. Empty: `weft` itself, or none in a program that embeds the
    /// server.
    pub worker: Vec<String>,
    /// What to do if their process cannot be confined.
    pub confinement: Confinement,
    /// A Python interpreter of the system, with packages, for programs in Python; empty: the built-in one.
    pub python: PathBuf,
    /// Modules that it imports before any program runs.
    pub python_modules: Vec<String>,
    /// The URL of a service that runs them instead; empty: this machine does.
    pub remote: String,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        let Limits { time, memory_bytes, output_bytes, printed_bytes } = weft_sandbox::LIMITS;
        let (at_once, seconds) = (weft_sandbox::AT_ONCE, time.as_secs_f64());
        let (worker, confinement, remote) = (Vec::new(), Confinement::default(), String::new());
        Self {
            at_once,
            seconds,
            memory_bytes,
            output_bytes,
            printed_bytes,
            worker,
            confinement,
            python: PathBuf::new(),
            python_modules: Vec::new(),
            remote,
        }
    }
}

impl SandboxConfig {
    /// Returns the limits of a program if the numbers are valid.
    pub fn limits(&self) -> Option<Limits> {
        const MEMORY_MIN: usize = 1 << 20;
        let &Self { memory_bytes, output_bytes, printed_bytes, .. } = self;
        let time = Duration::try_from_secs_f64(self.seconds).ok()?;
        let sound = !time.is_zero()
            && time <= Duration::from_secs(86_400)
            && memory_bytes >= MEMORY_MIN
            && output_bytes > 0;
        sound.then_some(Limits { time, memory_bytes, output_bytes, printed_bytes })
    }
}

/// Parsing of files for datasets, each in its own process.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentsConfig {
    /// Maximum number of files that are parsed concurrently; 0: none.
    pub at_once: usize,
    /// Time limit for parsing a file, in seconds.
    pub seconds: f64,
    /// Memory limit for parsing a file, in bytes.
    pub memory_bytes: usize,
    /// Maximum size of a file, in bytes.
    pub file_bytes_max: usize,
    /// The command that parses them, with its arguments. Empty: `weft` itself, or none in a program that embeds the
    /// server.
    pub worker: Vec<String>,
    /// What to do if their process cannot be confined.
    pub confinement: Confinement,
    /// A font for characters in PDFs that the built-in one lacks; empty: a font of the system.
    pub font: PathBuf,
    /// Text recognition for pictures: `none`, `tesseract`, or the name of a model of the kind `ocr` or `vision`.
    pub ocr: String,
    /// Languages for `tesseract`, by its names.
    pub ocr_languages: Vec<String>,
    /// Time limit for one picture, in seconds.
    pub ocr_seconds: f64,
}

/// Pictures are not recognized.
pub(crate) const NO_OCR: &str = "none";
/// Pictures are recognized by the program of the system.
pub(crate) const TESSERACT: &str = "tesseract";

/// Common system fonts with characters of many scripts in one file.
const SYSTEM_FONTS: [&str; 5] = [
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/android/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/google-droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/arphic-gbsn00lp/gbsn00lp.ttf",
    "/Library/Fonts/Arial Unicode.ttf",
];

impl Default for DocumentsConfig {
    fn default() -> Self {
        let weft_parse::Limits { time, memory_bytes, file_bytes } = weft_parse::Limits::default();
        let seconds = time.as_secs_f64();
        let (worker, confinement, font) = (Vec::new(), Confinement::default(), PathBuf::new());
        Self {
            at_once: 2,
            seconds,
            memory_bytes,
            file_bytes_max: file_bytes,
            worker,
            confinement,
            font,
            ocr: NO_OCR.to_owned(),
            ocr_languages: vec!["eng".to_owned()],
            ocr_seconds: 60.0,
        }
    }
}

impl DocumentsConfig {
    /// Returns the font for characters that the built-in one lacks, if there is any.
    pub fn font(&self) -> Option<PathBuf> {
        if self.font.as_os_str().is_empty() {
            SYSTEM_FONTS.into_iter().map(PathBuf::from).find(|font| font.is_file())
        } else {
            Some(self.font.clone())
        }
    }

    /// Returns the limits for recognizing a picture with a program if the numbers are valid.
    pub fn picture_limits(&self) -> Option<weft_parse::Limits> {
        Some(weft_parse::Limits { time: seconds(self.ocr_seconds)?, ..self.limits()? })
    }

    /// Returns the limits for parsing a file if the numbers are valid.
    pub fn limits(&self) -> Option<weft_parse::Limits> {
        const MEMORY_MIN: usize = 16 << 20;
        let &Self { memory_bytes, file_bytes_max: file_bytes, .. } = self;
        let time = seconds(self.seconds)?;
        let sound = memory_bytes >= MEMORY_MIN && file_bytes > 0;
        sound.then_some(weft_parse::Limits { time, memory_bytes, file_bytes })
    }
}

/// Parses a time limit: greater than zero, and at most a day.
fn seconds(number: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(number).ok()?;
    (!time.is_zero() && time <= Duration::from_secs(86_400)).then_some(time)
}
