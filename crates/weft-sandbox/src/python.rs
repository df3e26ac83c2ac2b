//! Python programs: CPython as a WebAssembly component, which has no files, no network and no modules other than those
//! that are in its memory from the start.
//!
//! `python/build.sh` builds the component from `python/*.py`. Before it can run it is compiled to machine code, which
//! takes seconds; that is done once, by a worker ([`prepare`]), and cached in a folder of the operator's. Each run gets
//! the code in a separate process with fresh memory, so nothing remains of an earlier one.

pub(crate) mod host;
pub(crate) mod kept;
pub(crate) mod machine;

use std::path::Path;

pub(crate) use kept::prepare;
pub(crate) use machine::PythonCode;

/// Whether this folder contains the interpreter as machine code for this machine.
pub(crate) fn is_kept(folder: &Path) -> bool {
    machine::engine().is_ok_and(|engine| kept::file(folder, &engine).is_file())
}

/// Number of bytes of the stack of the thread that runs a program: the interpreter's, and some for this program.
pub(crate) const THREAD_STACK: usize = machine::STACK + (4 << 20);
