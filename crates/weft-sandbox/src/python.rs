//! Programs in Python: CPython as a WebAssembly component, which knows no files, no network and no other module than
//! those that are in its memory from the beginning.
//!
//! `python/build.sh` makes the component of `python/*.py`. Before it can run it is made machine code, which takes
//! seconds; that is done once, by a worker ([`prepare`]), and kept in a folder of the operator's. Each run has the
//! code in a process of its own and fresh memory, so nothing is left of an earlier one.

pub(crate) mod host;
pub(crate) mod kept;
pub(crate) mod machine;

use std::path::Path;

pub(crate) use kept::prepare;
pub(crate) use machine::PythonCode;

/// Whether the interpreter lies in this folder as machine code for this machine.
pub(crate) fn is_kept(folder: &Path) -> bool {
    machine::engine().is_ok_and(|engine| kept::file(folder, &engine).is_file())
}

/// Bytes of stack of the thread that a program runs on: the interpreter's and some for this program.
pub(crate) const THREAD_STACK: usize = machine::STACK + (4 << 20);
