//! Runs one program in the interpreter.

use std::path::Path;

use wasmtime::component::{Component, InstancePre, TypedFunc};
use wasmtime::{Config, Engine, Error, Result, Store, Trap};
use weft_core::Json;
use weft_core::seam::sandbox::{Failure, Limits, Program, Ran};

use super::host::{self, FirstMemory, PythonHost};
use super::kept;
use crate::result::{read_with_large_numbers, shortened};

/// Number of bytes of stack for the code of the interpreter.
pub(crate) const STACK: usize = 8 << 20;
/// The exception that the interpreter raises when it is out of memory.
const NO_MEMORY: &str = "MemoryError";
/// The exception it raises when it has lost another one, which can happen when there is no memory for it.
const LOST: &str = "SystemError";

/// The interpreter's result: the value, or a message and a line.
type Given = (std::result::Result<String, (String, Option<u32>)>,);

/// Returns the engine that all interpreters run on.
///
/// # Errors
/// When this processor is not supported.
pub(crate) fn engine() -> Result<Engine> {
    Engine::new(&config())
}

/// Returns how every component is compiled and run.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        // Not used, but the engine refuses one that is smaller than the other.
        .async_stack_size(STACK)
        .max_wasm_stack(STACK)
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(None);
    config
}

/// Removes code that cannot be used: it is compiled again, as if it had never existed.
fn remove(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        // Another worker has found it unusable as well, and was faster.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The code of the interpreter, ready to be instantiated.
pub(crate) struct PythonCode(InstancePre<PythonHost>);

impl PythonCode {
    /// Loads the code that is cached in this folder; `None` if it is missing or not for this machine. All files are
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
        // SAFETY: the file was written by `prepare`, as a whole, in a folder of the operator's that also holds the
        // database; programs and tenants have no way to write there.
        #[expect(unsafe_code, reason = "mapping machine code that this very program has made")]
        let read = unsafe { Component::deserialize_file(&engine, &file) };
        let Ok(component) = read else {
            remove(&file)?;
            return Ok(None);
        };
        let mut linker = host::linker(&engine)?;
        linker.define_unknown_imports_as_traps(&component)?;
        Ok(Some(Self(linker.instantiate_pre(&component)?)))
    }

    /// Creates an interpreter with fresh memory.
    ///
    /// # Errors
    /// When it cannot be set up.
    pub(crate) fn machine(&self, limits: Limits) -> Result<PythonMachine> {
        let host = PythonHost::new(limits, FirstMemory::Interpreters);
        let mut store = Store::new(self.0.engine(), host);
        store.limiter(|host| host);
        // The alarm raises the epoch by one, which ends the program.
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
    /// Returns a function that ends the program at its next step.
    pub(crate) fn alarm(&self) -> impl FnOnce() + Send + 'static {
        let engine = self.store.engine().clone();
        move || engine.increment_epoch()
    }

    /// Runs a program until it ends, reaches its limits, or the alarm is called.
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
        // The process exits, which frees the memory faster.
        std::mem::forget(self.store);
        Ran { result, stdout: printed.stdout, stderr: printed.stderr, truncated: printed.truncated, files }
    }
}

fn result(json: &str, limits: Limits) -> std::result::Result<Json, Failure> {
    if json.len() > limits.output_bytes { Err(Failure::Output) } else { read_with_large_numbers(json) }
}

/// Converts what the program raised.
fn raised(message: String, line: Option<u32>, host: &PythonHost) -> Failure {
    if message.starts_with(NO_MEMORY) || host.denied && message.starts_with(LOST) {
        return Failure::Memory;
    }
    // The interpreter only knows that the file was not kept.
    if let Some(reason) = &host.unkept {
        return Failure::Program { message: reason.clone(), line };
    }
    Failure::Program { message: shortened(message), line }
}

/// Returns why an interpreter did not complete.
fn broken(error: &Error, host: &PythonHost) -> Failure {
    match error.downcast_ref::<Trap>() {
        _ if host.exited => says("it exited instead of returning its result"),
        Some(Trap::Interrupt) => Failure::Time,
        // Without memory anything may fail, such as unwinding deeply nested calls.
        _ if host.denied => Failure::Memory,
        Some(Trap::StackOverflow) => says("RecursionError: it calls itself too deeply"),
        Some(_) => Failure::Broken,
        None => says(
            "it requested something that programs may not use: files, network, other processes or threads",
        ),
    }
}

fn says(message: &str) -> Failure {
    Failure::Program { message: message.to_owned(), line: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_another_worker_has_removed_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("code");
        std::fs::write(&file, "no code").unwrap();
        remove(&file).unwrap();
        remove(&file).unwrap();
        assert!(!file.exists());
        // A folder is no file: nothing else is passed over.
        assert!(remove(folder.path()).is_err());
    }
}
