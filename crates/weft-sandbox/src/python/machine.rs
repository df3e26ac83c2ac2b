//! One program in the interpreter.

use std::path::Path;

use wasmtime::component::{Component, InstancePre, TypedFunc};
use wasmtime::{Config, Engine, Error, Result, Store, Trap};
use weft_core::Json;
use weft_core::seam::sandbox::{Failure, Limits, Program, Ran};

use super::host::{self, FirstMemory, PythonHost};
use super::kept;
use crate::result::{read_with_large_numbers, shortened};

/// Bytes of stack for the code of the interpreter.
pub(crate) const STACK: usize = 8 << 20;
/// What the interpreter raises when it has no memory left.
const NO_MEMORY: &str = "MemoryError";
/// What it raises when it has lost another error, as it does sometimes when there is no memory for one.
const LOST: &str = "SystemError";

/// What the interpreter gives: the result, or a message and a line.
type Given = (std::result::Result<String, (String, Option<u32>)>,);

/// The machine that all interpreters run on.
///
/// # Errors
/// When there is none for this processor.
pub(crate) fn engine() -> Result<Engine> {
    Engine::new(&config())
}

/// How every component is compiled and run.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        .async_stack_size(STACK)
        .max_wasm_stack(STACK)
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(None);
    config
}

/// The code of the interpreter, ready to be given memory.
pub(crate) struct PythonCode(InstancePre<PythonHost>);

impl PythonCode {
    /// The code that is kept in this folder; `None` when it is not there or not for this machine. All files are
    /// opened here, and none afterwards.
    ///
    /// # Errors
    /// When it cannot be set up.
    pub(crate) fn load(folder: &Path) -> Result<Option<Self>> {
        let engine = engine()?;
        let file = kept::file(folder, &engine);
        if !file.is_file() {
            return Ok(None);
        }
        // SAFETY: the file was written by `prepare`, as a whole, in a folder that is the operator's own, which also
        // holds the database; programs and tenants have no way to write there.
        #[expect(unsafe_code, reason = "mapping machine code that this very program has made")]
        let read = unsafe { Component::deserialize_file(&engine, &file) };
        let Ok(component) = read else {
            // It is made anew, as if it had never been there.
            std::fs::remove_file(&file)?;
            return Ok(None);
        };
        let mut linker = host::linker(&engine)?;
        linker.define_unknown_imports_as_traps(&component)?;
        Ok(Some(Self(linker.instantiate_pre(&component)?)))
    }

    /// An interpreter with fresh memory.
    ///
    /// # Errors
    /// When it cannot be set up.
    pub(crate) fn machine(&self, limits: Limits) -> Result<PythonMachine> {
        let host = PythonHost::new(limits, FirstMemory::Interpreters);
        let mut store = Store::new(self.0.engine(), host);
        store.limiter(|host| host);
        store.set_epoch_deadline(1);
        let instance = self.0.instantiate(&mut store)?;
        let run = instance.get_typed_func(&mut store, "run")?;
        Ok(PythonMachine { store, run })
    }
}

/// An interpreter that has run nothing yet.
pub(crate) struct PythonMachine {
    store: Store<PythonHost>,
    run: TypedFunc<(String, String), Given>,
}

impl PythonMachine {
    /// What ends the program at its next step.
    pub(crate) fn alarm(&self) -> impl FnOnce() + Send + 'static {
        let engine = self.store.engine().clone();
        move || engine.increment_epoch()
    }

    /// Runs a program to its end, its limits, or the alarm.
    pub(crate) fn run(mut self, program: Program) -> Ran {
        let limits = program.limits;
        let arguments = serde_json::to_string(&program.arguments).unwrap_or_default();
        let called = self.run.call(&mut self.store, (program.source, arguments));
        let host = self.store.data_mut();
        let printed = std::mem::take(&mut host.printed);
        let mut files = std::mem::take(&mut host.files);
        let result = match called {
            Ok((Ok(json),)) => result(&json, limits),
            Ok((Err((message, line)),)) => Err(raised(message, line, host)),
            Err(error) => Err(broken(&error, host)),
        };
        if result.is_err() {
            files.clear();
        }
        // The process ends, which gives the memory back sooner.
        std::mem::forget(self.store);
        Ran { result, stdout: printed.stdout, stderr: printed.stderr, truncated: printed.truncated, files }
    }
}

fn result(json: &str, limits: Limits) -> std::result::Result<Json, Failure> {
    if json.len() > limits.output_bytes { Err(Failure::Output) } else { read_with_large_numbers(json) }
}

/// What the program raised.
fn raised(message: String, line: Option<u32>, host: &PythonHost) -> Failure {
    if message.starts_with(NO_MEMORY) || host.denied && message.starts_with(LOST) {
        return Failure::Memory;
    }
    // The interpreter knows only that the file was not kept.
    if let Some(reason) = &host.unkept {
        return Failure::Program { message: reason.clone(), line };
    }
    Failure::Program { message: shortened(message), line }
}

/// Why an interpreter did not come to its end.
fn broken(error: &Error, host: &PythonHost) -> Failure {
    match error.downcast_ref::<Trap>() {
        _ if host.exited => says("it ended itself instead of returning its result"),
        Some(Trap::Interrupt) => Failure::Time,
        // Without memory anything may break, such as the end of what is nested deeply.
        _ if host.denied => Failure::Memory,
        Some(Trap::StackOverflow) => says("RecursionError: it calls itself too deeply"),
        Some(_) => Failure::Broken,
        None => says("it asked for what no program has: files, network, other processes or threads"),
    }
}

fn says(message: &str) -> Failure {
    Failure::Program { message: message.to_owned(), line: None }
}
