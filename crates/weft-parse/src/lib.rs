//! canvas JSON → plan → run → components → events → API: **what files say**
//!
//! From the bytes of a file to the pieces that are searched, in pure code.

mod archive;
pub mod chunk;
pub mod element;
pub mod format;
mod grid;
mod markup;
mod parts;
mod tokens;
mod words;

pub use format::{Settings, parse};
pub use tokens::tokens;
