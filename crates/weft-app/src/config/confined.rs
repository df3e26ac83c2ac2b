//! What is worked on in processes of its own: programs of canvases and models, and files that are read.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use weft_core::seam::sandbox::Limits;
use weft_sandbox::Confinement;

/// Programs of canvases and models.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxConfig {
    /// How many run at the same time; 0: none does.
    pub at_once: usize,
    /// How long one may take.
    pub seconds: f64,
    /// Bytes of memory that one may use.
    pub memory_bytes: usize,
    /// Bytes of what one returns, as JSON.
    pub output_bytes: usize,
    /// Bytes of what one prints; more is cut off.
    pub printed_bytes: usize,
    /// The program that runs them, with its arguments. Empty: `weft` itself, and in a program that embeds
    /// the server none.
    pub worker: Vec<String>,
    /// What becomes of them where their process cannot be confined.
    pub confinement: Confinement,
    /// An interpreter of Python that the system has, with packages, for programs in Python; empty: the built-in one.
    pub python: PathBuf,
    /// What it has imported before any program runs.
    pub python_modules: Vec<String>,
    /// The address of a service that runs them instead; empty: this machine does.
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
    /// What one program may use, when the numbers make sense.
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

/// Files that are read into datasets, each in a process of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentsConfig {
    /// How many are read at the same time; 0: none is.
    pub at_once: usize,
    /// How long reading one may take.
    pub seconds: f64,
    /// Bytes of memory that reading one may use.
    pub memory_bytes: usize,
    /// Bytes that one may have.
    pub file_bytes_max: usize,
    /// The program that reads them, with its arguments. Empty: `weft` itself, and in a program that embeds
    /// the server none.
    pub worker: Vec<String>,
    /// What becomes of them where their process cannot be confined.
    pub confinement: Confinement,
    /// A font for letters in PDFs that the built-in one lacks; empty: one that the system has.
    pub font: PathBuf,
    /// Who reads pictures: `none`, `tesseract`, or the name of a model of the kind `ocr` or `vision`.
    pub ocr: String,
    /// The languages that `tesseract` looks for, as it names them.
    pub ocr_languages: Vec<String>,
    /// How long reading one picture may take.
    pub ocr_seconds: f64,
}

/// Pictures are not read.
pub(crate) const NO_OCR: &str = "none";
/// The program of this system reads them.
pub(crate) const TESSERACT: &str = "tesseract";

/// Fonts that systems have, with letters of many scripts in one file.
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
    /// The font for letters that the built-in one lacks, if there is any.
    pub fn font(&self) -> Option<PathBuf> {
        if self.font.as_os_str().is_empty() {
            SYSTEM_FONTS.into_iter().map(PathBuf::from).find(|font| font.is_file())
        } else {
            Some(self.font.clone())
        }
    }

    /// What reading one picture by a program may use, when the numbers make sense.
    pub fn picture_limits(&self) -> Option<weft_parse::Limits> {
        Some(weft_parse::Limits { time: seconds(self.ocr_seconds)?, ..self.limits()? })
    }

    /// What reading one file may use, when the numbers make sense.
    pub fn limits(&self) -> Option<weft_parse::Limits> {
        const MEMORY_MIN: usize = 16 << 20;
        let &Self { memory_bytes, file_bytes_max: file_bytes, .. } = self;
        let time = seconds(self.seconds)?;
        let sound = memory_bytes >= MEMORY_MIN && file_bytes > 0;
        sound.then_some(weft_parse::Limits { time, memory_bytes, file_bytes })
    }
}

/// A time limit: more than nothing, and a day at most.
fn seconds(number: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(number).ok()?;
    (!time.is_zero() && time <= Duration::from_secs(86_400)).then_some(time)
}
