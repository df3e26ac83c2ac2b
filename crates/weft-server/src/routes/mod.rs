//! One file per noun: read the request, make a call, shape the answer.

pub mod again;
pub mod agents;
pub mod canvas;
pub mod completions;
pub mod conversations;
pub mod health;
pub mod models;
pub mod openai;
pub mod runs;
pub mod schedules;
pub mod sessions;
pub mod spending;
pub mod tasks;
pub mod traces;
mod turn;
