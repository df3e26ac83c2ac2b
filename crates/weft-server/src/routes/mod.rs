//! One file per noun: read the request, make a call, shape the answer.

pub mod agents;
pub mod canvas;
pub mod completions;
pub mod conversations;
pub mod health;
pub mod openai;
pub mod runs;
pub mod sessions;
mod turn;
