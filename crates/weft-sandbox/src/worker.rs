//! The inner side of a process: reads one order, executes it, writes the outcome, and exits.
//!
//! ```text
//! standard input    one line of JSON, a SandboxOrder; then it stays open as long as the result is wanted
//! standard output   JSON, a SandboxAnswer
//! exit code         as weft-child says
//! ```

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_child::{Bounds, Confinement, REFUSED, confined, confined_with};
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};

use crate::python::{PythonCode, machine::PythonMachine};
#[cfg(target_os = "linux")]
use crate::system::Serve;
use crate::worker_answer::{SandboxAnswer, say, tell};
use crate::{component, python, quick};

/// An order to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxOrder {
    /// Run a program, once.
    Run {
        /// The program.
        program: Program,
        /// What to do if the worker cannot be confined.
        #[serde(default)]
        confinement: Confinement,
        /// The folder of the Python interpreter, if there is one.
        #[serde(default)]
        python: Option<PathBuf>,
    },
    /// Compile the Python interpreter to machine code and cache it in this folder. It is not a user's program, so the
    /// worker is not confined.
    Prepare {
        /// The folder.
        python: PathBuf,
    },
    /// Compile a component to machine code. Its bytes follow the line.
    Compile {
        /// Number of bytes.
        length: u64,
        /// What to do if the worker cannot be confined.
        confinement: Confinement,
    },
    /// Call a function of a component.
    Wasm(component::ComponentOrder),
    /// Become an interpreter of the system that serves programs.
    #[cfg(target_os = "linux")]
    Serve(Serve),
}

/// The task for which the parent of forks is started.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ForkTask {
    /// Run JavaScript programs.
    JavaScript,
    /// Run Python programs, whose interpreter is cached in this folder.
    Python(PathBuf),
}

/// What is prepared before a program arrives.
enum Ready {
    /// Nothing; files may still be opened.
    Nothing,
    /// Everything that JavaScript needs.
    JavaScript,
    /// The code of the interpreter, or why it cannot be loaded; `None` if it is not prepared.
    Python(wasmtime::Result<Option<PythonCode>>),
}

/// Executes the order on standard input and writes the outcome to standard output; if the process was started as a fork
/// server, does so in a fork for each program. This is all that a worker does; it must be called before any thread is
/// started or file opened.
pub fn work() -> ExitCode {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    if weft_child::is_fork_server() {
        return weft_child::serve(make_ready, one);
    }
    one(Ready::Nothing)
}

/// Prepares a fork server. No user's program is run here: forks share only code, and what this program itself has put
/// into memory.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn make_ready(task: &str) -> Ready {
    match serde_json::from_str(task) {
        Ok(ForkTask::JavaScript) => {
            // So that forks find in memory what an interpreter starts with.
            drop(quick::execute(&own_program(), &Arc::default()));
            Ready::JavaScript
        }
        Ok(ForkTask::Python(folder)) => Ready::Python(PythonCode::load(&folder)),
        Err(_) => Ready::Nothing,
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn own_program() -> Program {
    let source = "function main() { return JSON.stringify([1, 'a'].map(String)); }".to_owned();
    Program {
        language: Language::JavaScript,
        source,
        arguments: serde_json::Map::new(),
        limits: crate::LIMITS,
    }
}

fn one(ready: Ready) -> ExitCode {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    match read.ok().and_then(|_| serde_json::from_str::<SandboxOrder>(&line).ok()) {
        Some(SandboxOrder::Run { program, confinement, python }) => {
            run(program, confinement, python.as_deref(), ready)
        }
        Some(SandboxOrder::Prepare { python }) => {
            let told = python::prepare(&python);
            say(&told
                .map_or_else(|cause| SandboxAnswer::Unable(cause.to_string()), |()| SandboxAnswer::Prepared))
        }
        Some(SandboxOrder::Compile { length, confinement }) => component::compile(length, confinement),
        Some(SandboxOrder::Wasm(order)) => component::call(order),
        #[cfg(target_os = "linux")]
        Some(SandboxOrder::Serve(serve)) => serve.begin(),
        None => ExitCode::from(REFUSED),
    }
}

fn run(program: Program, confinement: Confinement, python: Option<&Path>, ready: Ready) -> ExitCode {
    let Limits { time, memory_bytes, .. } = program.limits;
    let bounds = |stack_bytes| Bounds { time, memory_bytes, stack_bytes, confinement };
    match (program.language, python) {
        // To stop it, the caller kills the process.
        (Language::JavaScript, _) => confined(bounds(quick::THREAD_STACK), move || {
            tell(&SandboxAnswer::Ran(quick::execute_last(&program)))
        }),
        (Language::Python, Some(folder)) => match interpreter(ready, folder, program.limits) {
            Ok(Some(machine)) => confined_with(bounds(python::THREAD_STACK), machine.alarm(), move || {
                tell(&SandboxAnswer::Ran(machine.run(program)))
            }),
            Ok(None) => say(&SandboxAnswer::Unprepared),
            Err(cause) => say(&SandboxAnswer::Unable(format!("{cause:#}"))),
        },
        (language, None) => say(&SandboxAnswer::Ran(Ran::silent(Err(Failure::Language(language))))),
    }
}

/// Returns the Python interpreter, from the code that is already loaded or that is cached in the folder.
fn interpreter(ready: Ready, folder: &Path, limits: Limits) -> wasmtime::Result<Option<PythonMachine>> {
    let code = match ready {
        Ready::Python(code) => code,
        Ready::Nothing | Ready::JavaScript => PythonCode::load(folder),
    };
    code?.map(|code| code.machine(limits)).transpose()
}
