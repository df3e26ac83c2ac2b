//! Programs of canvases and of models, run behind a boundary.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::id::TenantId;
use crate::value::Json;

/// What a program is written in.
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
    /// The language of this name, as canvases and models write it.
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

/// A program without the fence of Markdown around the whole of it, which models like to write, and without the mark that
/// some editors begin files with. Its lines keep their numbers.
pub fn unfenced(source: &str) -> Cow<'_, str> {
    const FENCES: [&str; 2] = ["```", "~~~"];
    // No part of a program: interpreters take it for a sign that is not allowed when they get a text.
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
    // Of several no one is the program.
    if !names_a_language || body.lines().any(|line| line.starts_with(fence)) {
        return source.into();
    }
    let above = source.len() - source.trim_start().len();
    let above = source.get(..above).map_or(0, |space| space.matches('\n').count());
    format!("{}{body}", "\n".repeat(above + 1)).into()
}

/// What one run of a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// From its first to its last step.
    pub time: Duration,
    /// Bytes of memory for its values; `usize::MAX` where a service has a limit of its own, which is not known here.
    pub memory_bytes: usize,
    /// Bytes of its result as JSON. More is a failure.
    pub output_bytes: usize,
    /// Bytes of what it prints, both streams together. More is cut off.
    pub printed_bytes: usize,
}

impl Limits {
    /// These, and nowhere more than `most`.
    #[must_use]
    pub fn within(self, most: Self) -> Self {
        Self {
            time: self.time.min(most.time),
            memory_bytes: self.memory_bytes.min(most.memory_bytes),
            output_bytes: self.output_bytes.min(most.output_bytes),
            printed_bytes: self.printed_bytes.min(most.printed_bytes),
        }
    }

    /// The same as a failure has to tell it: where a service has a limit of memory of its own, that one was reached.
    #[must_use]
    pub fn told_within(self, most: Self) -> Self {
        let within = self.within(most);
        Self {
            memory_bytes: if most.memory_bytes == usize::MAX { usize::MAX } else { within.memory_bytes },
            ..within
        }
    }
}

/// A program to run once. It defines a function `main`, whose return value is the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// What it is written in.
    pub language: Language,
    /// Its text. Nothing is ever pasted into it.
    pub source: String,
    /// What `main` is called with, by name.
    pub arguments: serde_json::Map<String, Json>,
    /// What it may use, as far as the sandbox allows as much.
    pub limits: Limits,
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// What `main` returned, or why there is nothing. What JSON has no word for is null.
    pub result: Result<Json, Failure>,
    /// What it printed, also when it failed.
    pub stdout: String,
    /// What it printed as warnings and errors. That is no failure.
    pub stderr: String,
    /// Whether it printed more than is here.
    pub truncated: bool,
    /// Files that it has written, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<WrittenFile>,
}

/// Files that one program may leave, at most.
pub const FILES_MAX: usize = 10;
/// Bytes of all files that one program may leave, at most.
pub const FILES_BYTES_MAX: usize = 10 << 20;

/// A file that a program has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its name, without folders.
    pub name: String,
    /// Its bytes in base64.
    pub base64: String,
}

impl Ran {
    /// A program that printed nothing.
    pub fn silent(result: Result<Json, Failure>) -> Self {
        Self { result, stdout: String::new(), stderr: String::new(), truncated: false, files: Vec::new() }
    }
}

/// A tool that is a WebAssembly component, as its file has it. It exports two functions:
///
/// ```wit
/// export describe: func() -> string;
/// export call: func(arguments: string) -> result<string, string>;
/// ```
#[derive(Clone)]
pub struct WasmTool {
    /// The component.
    pub bytes: Arc<[u8]>,
    /// What tells it from others: a digest of the bytes, in letters that a file name may have.
    pub digest: String,
}

impl fmt::Debug for WasmTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmTool").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// Which function of a [`WasmTool`] is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WasmCall {
    /// `describe`: what the tool is, as JSON.
    Describe,
    /// `call`, with arguments as JSON.
    Call(String),
}

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    /// It is no program of its language, has no `main`, raised something that nobody caught, or
    /// returned what cannot be written as JSON.
    Program {
        /// What is wrong, as the language says it.
        message: String,
        /// The line of its text, from 1 on, when it is known.
        line: Option<u32>,
    },
    /// It took longer than its limit.
    Time,
    /// It wanted more memory than its limit.
    Memory,
    /// Its result is larger than its limit.
    Output,
    /// It made its interpreter end in a way that interpreters don't.
    Broken,
    /// This sandbox does not run its language.
    Language(
        /// The language.
        Language,
    ),
}

impl Failure {
    /// The failure as an error, with what to do about it.
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
                let message = format!("the program ran longer than {} seconds", limits.time.as_secs_f64());
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
                (ErrorKind::Invalid, "the program made its interpreter break down".to_owned(), help)
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

/// Runs programs that nobody has looked at.
///
/// An implementation gives a program its arguments, its limits, the libraries of its language, and nothing else: no
/// other files, no network, no environment, no other program, nothing of an earlier run. It ends every program at its limits,
/// whatever the program does, and soon after the future is dropped. What a program does is told in
/// [`Ran`]; without a boundary to run it behind there is an error, and never another way to run it.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// The most that a program may use here.
    fn limits(&self) -> Limits;

    /// Whether a program of this language could begin at once, on this machine: nothing has to be made for it first that
    /// takes longer than a check of a canvas may.
    fn is_ready(&self, _: Language) -> bool {
        false
    }

    /// Runs a program. Waits while too many others run.
    ///
    /// # Errors
    /// `Denied` when the operator has set up none, `Unavailable` when the boundary cannot be set up.
    async fn run(&self, tenant: &TenantId, program: Program) -> Result<Ran>;

    /// Calls a function of a component in fresh memory, behind the same boundary and within `limits` as far as they are
    /// allowed. The result is the text that the function gives; an `err` of the component is a failure of the program.
    ///
    /// # Errors
    /// `Unsupported` where components are not run, otherwise as [`Sandbox::run`]; `Invalid` for bytes that are no component.
    async fn call_wasm(&self, _: &TenantId, _: &WasmTool, _: WasmCall, _: Limits) -> Result<Ran> {
        Err(Error::new(ErrorKind::Unsupported, "this sandbox runs no WebAssembly components")
            .help("leave `sandbox.remote` empty and `sandbox.at_once` above 0, so that they run in processes of this machine"))
    }
}

/// No programs: the operator has set up nothing that runs them.
#[derive(Clone, Copy, Debug)]
pub struct NoSandbox;

#[async_trait]
impl Sandbox for NoSandbox {
    fn limits(&self) -> Limits {
        Limits { time: Duration::ZERO, memory_bytes: 0, output_bytes: 0, printed_bytes: 0 }
    }

    async fn run(&self, _: &TenantId, _: Program) -> Result<Ran> {
        Err(Error::new(ErrorKind::Denied, "no programs are run here")
            .help("set `sandbox.at_once` and `sandbox.worker`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_go_by_several_names() {
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
    fn one_fence_around_the_whole_is_taken_off() {
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
    fn failures_say_where_why_and_what_to_do() {
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
    fn what_became_of_a_program_can_be_told_over_a_wire() {
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
