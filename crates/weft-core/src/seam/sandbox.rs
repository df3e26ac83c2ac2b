//! Runs programs of canvases and models in isolation.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::value::Json;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// JavaScript: `main(arguments)`, which may be async.
    #[serde(rename = "javascript")]
    JavaScript,
    /// Python: `main(**arguments)`.
    Python,
}

impl Language {
    /// Returns the language with this name, as canvases and models write it.
    pub fn named(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "javascript" | "js" | "nodejs" | "node" => Some(Self::JavaScript),
            "python" | "python3" | "py" => Some(Self::Python),
            _ => None,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
        })
    }
}

/// Returns a program without a Markdown code fence around the whole of it, which models like to add, and without a
/// byte order mark. Line numbers stay the same.
pub fn unfenced(source: &str) -> Cow<'_, str> {
    const FENCES: [&str; 2] = ["```", "~~~"];
    // A byte order mark is not part of the program; interpreters reject it in source text.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let text = source.trim();
    let Some(fence) = FENCES.into_iter().find(|fence| text.starts_with(fence)) else { return source.into() };
    let Some((first, rest)) = text.split_once('\n') else { return source.into() };
    let word = first.trim_start_matches(fence.chars().next().unwrap_or_default()).trim();
    let names_a_language =
        word.chars().all(|c| c.is_alphanumeric() || matches!(c, '+' | '-' | '_' | '.' | '#'));
    let Some(body) = rest.strip_suffix(fence).filter(|body| body.is_empty() || body.ends_with('\n')) else {
        return source.into();
    };
    // With several fenced blocks, none of them is the program.
    if !names_a_language || body.lines().any(|line| line.starts_with(fence)) {
        return source.into();
    }
    let above = source.len() - source.trim_start().len();
    let above = source.get(..above).map_or(0, |space| space.matches('\n').count());
    format!("{}{body}", "\n".repeat(above + 1)).into()
}

/// Resource limits of one run of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time from its first to its last step.
    pub time: Duration,
    /// Memory for its values, in bytes; `usize::MAX` if a remote service has its own limit, which is not known here.
    pub memory_bytes: usize,
    /// Size of its result as JSON, in bytes. A larger result is a failure.
    pub output_bytes: usize,
    /// Size of its output on both streams combined, in bytes. Further output is cut off.
    pub printed_bytes: usize,
}

impl Limits {
    /// Returns these limits, each capped by `most`.
    #[must_use]
    pub fn within(self, most: Self) -> Self {
        Self {
            time: self.time.min(most.time),
            memory_bytes: self.memory_bytes.min(most.memory_bytes),
            output_bytes: self.output_bytes.min(most.output_bytes),
            printed_bytes: self.printed_bytes.min(most.printed_bytes),
        }
    }

    /// Returns the capped limits as an error message should report them: if a remote service has its own memory
    /// limit, that is the one that was reached.
    #[must_use]
    pub fn told_within(self, most: Self) -> Self {
        let within = self.within(most);
        Self {
            memory_bytes: if most.memory_bytes == usize::MAX { usize::MAX } else { within.memory_bytes },
            ..within
        }
    }
}

/// A program to run once. It must define a function `main`, whose return value is the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// What it is written in.
    pub language: Language,
    /// Its source text, to which nothing is ever added.
    pub source: String,
    /// The arguments of `main`, by name.
    pub arguments: serde_json::Map<String, Json>,
    /// The limits it requests, as far as the sandbox allows them.
    pub limits: Limits,
}

/// The outcome of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// What `main` returned, or why there is no result. Values that JSON cannot represent become null.
    pub result: Result<Json, Failure>,
    /// Its standard output, even if it failed.
    pub stdout: String,
    /// Its standard error, for warnings and errors. Output here is not a failure.
    pub stderr: String,
    /// Whether some of its output was cut off.
    pub truncated: bool,
    /// Files that it wrote, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<WrittenFile>,
}

/// Maximum number of files that a program may produce.
pub const FILES_MAX: usize = 10;
/// Maximum total size of the files that a program may produce, in bytes.
pub const FILES_BYTES_MAX: usize = 10 << 20;

/// A file written by a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its name, without directories.
    pub name: String,
    /// Its bytes in base64.
    pub base64: String,
}

impl Ran {
    /// The outcome of a program that printed nothing.
    pub fn silent(result: Result<Json, Failure>) -> Self {
        Self { result, stdout: String::new(), stderr: String::new(), truncated: false, files: Vec::new() }
    }
}

/// A tool that is a WebAssembly component. It exports two functions:
///
/// ```wit
/// export describe: func() -> string;
/// export call: func(arguments: string) -> result<string, string>;
/// ```
#[derive(Clone)]
pub struct WasmTool {
    /// The component's bytes.
    pub bytes: Arc<[u8]>,
    /// Identifies the component: a digest of the bytes, in characters that are allowed in file names.
    pub digest: String,
}

impl fmt::Debug for WasmTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmTool").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// A call to a function of a [`WasmTool`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WasmCall {
    /// `describe`, which returns a description of the tool as JSON.
    Describe,
    /// `call`, with its arguments as JSON.
    Call(String),
}

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    /// It is not a valid program of its language, has no `main`, raised an uncaught exception, or returned something
    /// that cannot be represented as JSON.
    Program {
        /// The error message of the language.
        message: String,
        /// The line in the source text, counted from 1, if known.
        line: Option<u32>,
    },
    /// It exceeded the time limit.
    Time,
    /// It exceeded the memory limit.
    Memory,
    /// Its result is too large.
    Output,
    /// It made its interpreter terminate abnormally.
    Broken,
    /// This sandbox does not support its language.
    Language(
        /// The language.
        Language,
    ),
}

impl Failure {
    /// Returns the failure as an error with a remedy.
    pub fn error(&self, limits: Limits) -> Error {
        const MIB: usize = 1 << 20;
        let (kind, message, help) = match self {
            Self::Program { message, line } => {
                let place = line.map(|line| format!(" in line {line}")).unwrap_or_default();
                let help = "a program defines `main(args)`, which returns a value that can be written as JSON, or only prints; \
                            it has no network, no other programs, and no files but those that one in Python writes itself";
                (ErrorKind::Invalid, format!("the program failed{place}: {message}"), help)
            }
            Self::Time => {
                let limit = crate::value::plural(limits.time.as_secs_f64(), "second");
                let message = format!("the program ran longer than {limit}");
                (ErrorKind::Timeout, message, "let it do less at once, or raise `sandbox.seconds`")
            }
            Self::Memory if limits.memory_bytes == usize::MAX => {
                let message =
                    "the program used more memory than the service at `sandbox.remote` gives it".to_owned();
                (ErrorKind::Invalid, message, "let it keep less at once, or raise the limit of that service")
            }
            Self::Memory => {
                let message =
                    format!("the program used more than {} MiB of memory", limits.memory_bytes / MIB);
                (ErrorKind::Invalid, message, "let it keep less at once, or raise `sandbox.memory_bytes`")
            }
            Self::Output => {
                let message = format!("the program returned more than {} bytes", limits.output_bytes);
                (ErrorKind::Invalid, message, "let it return less, or raise `sandbox.output_bytes`")
            }
            Self::Broken => {
                let help = "write the program in another way; nothing outside it was touched";
                (ErrorKind::Invalid, "the program crashed its interpreter".to_owned(), help)
            }
            Self::Language(language) => {
                let help = match language {
                    Language::Python => "write the program in JavaScript (`lang`: `javascript`)",
                    Language::JavaScript => "set up a sandbox that runs it",
                };
                (ErrorKind::Unsupported, format!("there is no sandbox for {language} here"), help)
            }
        };
        Error::new(kind, message).help(help)
    }
}

/// Runs untrusted programs.
///
/// An implementation gives a program its arguments, its limits, the libraries of its language, and nothing else: no
/// other files, no network, no environment, no other programs, and nothing from an earlier run. It stops every
/// program at its limits, whatever the program does, and soon after the future is dropped. The outcome of the program
/// is returned in [`Ran`]. If isolation is not available, it returns an error and never runs the program in another
/// way.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Returns the upper limits for programs.
    fn limits(&self) -> Limits;

    /// Returns whether a program in this language could start immediately on this machine, without preparations that
    /// take longer than a check of a canvas may.
    fn is_ready(&self, _: Language) -> bool {
        false
    }

    /// Runs a program. Waits while too many others are running.
    ///
    /// # Errors
    /// `Denied` when the operator has not set up a sandbox, `Unavailable` when the isolation cannot be set up.
    async fn run(&self, tenant: &TenantId, program: Program) -> Result<Ran>;

    /// Calls a function of a component in fresh memory, in the same isolation, and within `limits` as far as they are
    /// allowed. The result is the text that the function returns; an `err` of the component is a failure of the
    /// program.
    ///
    /// # Errors
    /// `Unsupported` if components are not supported, otherwise as [`Sandbox::run`]; `Invalid` for bytes that are not
    /// a component.
    async fn call_wasm(&self, _: &TenantId, _: &WasmTool, _: WasmCall, _: Limits) -> Result<Ran> {
        Err(Error::new(ErrorKind::Unsupported, "this sandbox runs no WebAssembly components")
            .help("leave `sandbox.remote` empty and `sandbox.at_once` above 0, so that they run in processes of this machine"))
    }
}

/// A sandbox that runs no programs, because the operator has not set one up.
#[derive(Clone, Copy, Debug)]
pub struct NoSandbox;

#[async_trait]
impl Sandbox for NoSandbox {
    fn limits(&self) -> Limits {
        Limits { time: Duration::ZERO, memory_bytes: 0, output_bytes: 0, printed_bytes: 0 }
    }

    async fn run(&self, _: &TenantId, _: Program) -> Result<Ran> {
        Err(Error::new(ErrorKind::Denied, "running programs is not configured")
            .help("set `sandbox.at_once` and `sandbox.worker`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_several_names() {
        for (name, language) in [
            ("javascript", Some(Language::JavaScript)),
            ("nodejs", Some(Language::JavaScript)),
            (" Python3 ", Some(Language::Python)),
            ("bash", None),
            ("", None),
        ] {
            assert_eq!(Language::named(name), language, "{name}");
        }
    }

    #[test]
    fn one_enclosing_code_fence_is_removed() {
        for (source, expected) in [
            ("```python\nx = 1\nx\n```", "\nx = 1\nx\n"),
            ("\n\n```js\nlet a = `b`;\n```\n", "\n\n\nlet a = `b`;\n"),
            ("~~~\n1\n~~~", "\n1\n"),
            ("x = 1 # ```python\n```", "x = 1 # ```python\n```"),
            ("```python\n1\n```\nand\n```python\n2\n```", "```python\n1\n```\nand\n```python\n2\n```"),
            ("``` a `${b}` \n```", "``` a `${b}` \n```"),
            ("```", "```"),
            ("\u{feff}x = 1", "x = 1"),
            ("\u{feff}```python\n1\n```", "\n1\n"),
            ("", ""),
        ] {
            assert_eq!(unfenced(source), expected, "{source:?}");
        }
    }

    #[test]
    fn failures_have_position_reason_and_remedy() {
        let limits = Limits {
            time: Duration::from_millis(1_500),
            memory_bytes: 64 << 20,
            output_bytes: 9,
            printed_bytes: 9,
        };
        let check = |failure: Failure, kind: ErrorKind, part: &str| {
            let error = failure.error(limits);
            assert_eq!(error.kind, kind);
            assert!(error.full().contains(part), "{}", error.full());
        };
        let program = Failure::Program { message: "TypeError: no".to_owned(), line: Some(3) };
        check(program, ErrorKind::Invalid, "in line 3: TypeError: no (a program defines `main(args)`");
        check(Failure::Time, ErrorKind::Timeout, "1.5 seconds");
        check(Failure::Memory, ErrorKind::Invalid, "64 MiB");
        let elsewhere = Failure::Memory.error(Limits { memory_bytes: usize::MAX, ..limits });
        assert!(elsewhere.full().contains("the service at `sandbox.remote`"), "{}", elsewhere.full());
        assert!(!elsewhere.full().contains("sandbox.memory_bytes"), "{}", elsewhere.full());
        let service = Limits { time: Duration::from_secs(1), memory_bytes: usize::MAX, ..limits };
        let told = Failure::Memory.error(limits.told_within(service));
        assert!(told.full().contains("the service at `sandbox.remote`"), "{}", told.full());
        assert_eq!(limits.told_within(service).time, Duration::from_secs(1));
        let less = Limits { memory_bytes: 8 << 20, ..limits };
        assert_eq!(limits.told_within(less), less);
        check(Failure::Output, ErrorKind::Invalid, "9 bytes");
        check(
            Failure::Language(Language::Python),
            ErrorKind::Unsupported,
            "Python here (write the program in JavaScript",
        );
    }

    #[test]
    fn program_results_round_trip_through_json() {
        let failures = [
            Failure::Program { message: "x".to_owned(), line: None },
            Failure::Time,
            Failure::Language(Language::JavaScript),
        ];
        for result in failures.into_iter().map(Err).chain([Ok(Json::Null)]) {
            let ran = Ran::silent(result);
            let text = serde_json::to_string(&ran).unwrap();
            assert_eq!(serde_json::from_str::<Ran>(&text).unwrap(), ran, "{text}");
        }
    }
}
