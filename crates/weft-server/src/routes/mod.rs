//! One file per noun: read the request, make a call, shape the answer.

pub mod agents;
pub mod canvas;
pub mod chunks;
pub mod completions;
pub mod components;
pub mod conversations;
pub mod datasets;
pub mod documents;
pub mod graph;
pub mod health;
pub mod metadata;
pub mod models;
pub mod openai;
pub mod openapi;
mod owned;
pub mod parsing;
pub mod past_runs;
pub mod retrieval;
pub mod runs;
pub mod schedules;
pub mod sessions;
pub mod spending;
pub mod tasks;
pub mod tokens;
pub mod traces;
mod turn;
pub mod uploads;
