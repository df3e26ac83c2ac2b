//! The inner side of tools that are WebAssembly components: compiles a component to machine code, or calls one of its
//! functions.
//!
//! A component is a file that the operator installed and that a third party wrote. Both steps run in a process that may
//! do nothing but compute, so that neither a defect of the compiler nor one of the code it generates can escape from
//! it.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wasmtime::component::{Component, Instance};
use wasmtime::{Engine, Error, Store, Trap};
use weft_child::{Bounds, Confinement, REFUSED, confined, confined_with};
use weft_core::Json;
use weft_core::seam::sandbox::{Failure, Limits, Ran, WasmCall};

use crate::python::host::{FirstMemory, PythonHost, linker_of_tools};
use crate::python::{THREAD_STACK, machine};
use crate::result::shortened;
use crate::worker_answer::{SandboxAnswer, say, tell};

/// Maximum number of bytes in a component.
pub(crate) const COMPONENT_MAX: u64 = 64 << 20;
/// Limits of the compiler for one component: time, and memory.
pub(crate) const COMPILING_MAX: Duration = Duration::from_mins(2);
const COMPILING_MEMORY: usize = 1 << 30;
/// Number of bytes of the compiler's stack.
const COMPILING_STACK: usize = 32 << 20;

/// A call of a function of a component.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ComponentOrder {
    /// The file with its machine code.
    pub code: PathBuf,
    /// The function call.
    pub call: WasmCall,
    /// Limits of the call.
    pub limits: Limits,
    /// What to do if the worker cannot be confined.
    pub confinement: Confinement,
}

/// Reads a component from standard input and writes its machine code to standard output.
pub(crate) fn compile(length: u64, confinement: Confinement) -> ExitCode {
    let mut bytes = Vec::new();
    // The sender may end in the middle: half a component is invalid.
    let read = std::io::stdin().lock().take(length.min(COMPONENT_MAX)).read_to_end(&mut bytes);
    if read.ok().and_then(|count| u64::try_from(count).ok()) != Some(length) {
        return ExitCode::from(REFUSED);
    }
    let bounds = Bounds {
        time: COMPILING_MAX,
        memory_bytes: COMPILING_MEMORY,
        stack_bytes: COMPILING_STACK,
        confinement,
    };
    confined(bounds, move || match machine_code(&bytes) {
        Err(cause) => tell(&SandboxAnswer::Unable(shortened(format!("{cause:#}")))),
        Ok(code) => {
            tell(&SandboxAnswer::Compiled)?;
            let mut out = std::io::stdout().lock();
            out.write_all(b"\n")?;
            out.write_all(&code)?;
            out.flush()
        }
    })
}

/// Compiles a component. The compiler starts no threads, because none can be started here.
fn machine_code(bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    Engine::new(machine::config().parallel_compilation(false))?.precompile_component(bytes)
}

/// Calls a function of a component whose machine code is in a file.
pub(crate) fn call(order: ComponentOrder) -> ExitCode {
    let ComponentOrder { code, call, limits, confinement } = order;
    let engine = match machine::engine() {
        Ok(engine) => engine,
        Err(cause) => return say(&SandboxAnswer::Unable(format!("{cause:#}"))),
    };
    if !code.is_file() {
        return say(&SandboxAnswer::Unprepared);
    }
    // SAFETY: the file was written as a whole by this program, in a folder of the operator's to which programs, tools
    // and tenants have no access, and contains the output of its compiler.
    #[expect(unsafe_code, reason = "mapping machine code that this very program has made")]
    let read = unsafe { Component::deserialize_file(&engine, &code) };
    let Ok(component) = read else {
        // Compiled by another version. It is compiled again, as if it had never existed.
        drop(std::fs::remove_file(&code));
        return say(&SandboxAnswer::Unprepared);
    };
    let bounds = Bounds {
        time: limits.time,
        memory_bytes: limits.memory_bytes,
        stack_bytes: THREAD_STACK,
        confinement,
    };
    let alarm = move || engine.increment_epoch();
    // A component's start function runs in here, too.
    confined_with(bounds, alarm, move || {
        tell(&SandboxAnswer::Ran(Ran::silent(called(&component, &call, limits))))
    })
}

fn called(component: &Component, call: &WasmCall, limits: Limits) -> Result<Json, Failure> {
    let mut store = Store::new(component.engine(), PythonHost::new(limits, FirstMemory::Tools));
    store.limiter(|host| host);
    // The alarm raises the epoch by one, which ends the call.
    store.set_epoch_deadline(1);
    let given = instance(&mut store, component).and_then(|instance| given(&mut store, &instance, call));
    let answer = match given {
        Ok(answer) => answer,
        Err(error) => Err(ended(&error, store.data())),
    };
    // The process exits, which frees the memory faster.
    std::mem::forget(store);
    let text = answer?;
    if text.len() > limits.output_bytes { Err(Failure::Output) } else { Ok(text.into()) }
}

fn instance(store: &mut Store<PythonHost>, component: &Component) -> wasmtime::Result<Instance> {
    let mut linker = linker_of_tools(component.engine())?;
    // A component may import what it never uses; only using it ends the call.
    linker.define_unknown_imports_as_traps(component)?;
    linker.instantiate(store, component)
}

fn given(
    store: &mut Store<PythonHost>,
    instance: &Instance,
    call: &WasmCall,
) -> wasmtime::Result<Result<String, Failure>> {
    let lacks = |what: &str| Ok(Err(says(format!("the component does not export `{what}`"))));
    match call {
        WasmCall::Describe => {
            let Ok(describe) = instance.get_typed_func::<(), (String,)>(&mut *store, "describe") else {
                return lacks("describe: func() -> string");
            };
            Ok(Ok(describe.call(store, ())?.0))
        }
        WasmCall::Call(arguments) => {
            type Answer = (Result<String, String>,);
            let Ok(call) = instance.get_typed_func::<(&str,), Answer>(&mut *store, "call") else {
                return lacks("call: func(arguments: string) -> result<string, string>");
            };
            Ok(call.call(store, (arguments,))?.0.map_err(says))
        }
    }
}

/// Returns why a call did not complete.
fn ended(error: &Error, host: &PythonHost) -> Failure {
    match error.downcast_ref::<Trap>() {
        _ if host.exited => says("it exited instead of returning a result"),
        Some(Trap::Interrupt) => Failure::Time,
        // A component that runs out of memory fails in its own way.
        _ if host.denied => Failure::Memory,
        Some(trap) => says(format!("the component failed: {trap}")),
        None => says(format!("the component failed: {}", error.root_cause())),
    }
}

fn says(message: impl Into<String>) -> Failure {
    Failure::Program { message: shortened(message.into()), line: None }
}
