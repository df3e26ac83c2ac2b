//! A sandbox with the worker of this crate.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;
use weft_core::TenantId;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_sandbox::{LIMITS, ProcessSandbox, Worker};

pub(crate) fn worker() -> Worker {
    Worker { program: PathBuf::from(env!("CARGO_BIN_EXE_weft-sandbox-worker")), arguments: Vec::new() }
}

pub(crate) fn sandbox() -> ProcessSandbox {
    ProcessSandbox::new(worker(), LIMITS, 4)
}

/// A sandbox that runs Python, too. All tests share the interpreter that the first of them prepares.
pub(crate) fn sandbox_of_python() -> ProcessSandbox {
    sandbox().with_python(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("python"))
}

/// A program in Python.
pub(crate) fn python(source: &str, limits: Limits) -> Program {
    Program { language: Language::Python, ..program(source, limits) }
}

pub(crate) async fn run_python(source: &str, limits: Limits) -> Ran {
    sandbox_of_python().run(&TenantId::new("t"), python(source, limits)).await.unwrap()
}

/// Short limits for tests.
pub(crate) const SHORT: Limits =
    Limits { time: Duration::from_millis(400), memory_bytes: 16 << 20, ..LIMITS };

pub(crate) fn program(source: &str, limits: Limits) -> Program {
    let arguments = serde_json::Map::new();
    Program { language: Language::JavaScript, source: source.to_owned(), arguments, limits }
}

pub(crate) async fn run(source: &str, limits: Limits) -> Ran {
    sandbox().run(&TenantId::new("t"), program(source, limits)).await.unwrap()
}

pub(crate) async fn result(source: &str) -> Result<Json, Failure> {
    run(source, LIMITS).await.result
}

/// The result of this body of `main`.
pub(crate) async fn returned(body: &str) -> Result<Json, Failure> {
    result(&format!("function main() {{ {body} }}")).await
}

/// The message and the line of a failing program.
pub(crate) fn failed(result: Result<Json, Failure>) -> (String, Option<u32>) {
    match result {
        Err(Failure::Program { message, line }) => (message, line),
        other => panic!("{other:?}"),
    }
}
