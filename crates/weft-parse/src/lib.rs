//! canvas JSON → plan → run → components → events → API: **what files say**
//!
//! From the bytes of a file to the pieces that are searched, in pure code.

pub mod chunk;
pub mod element;
mod tokens;

pub use tokens::tokens;
