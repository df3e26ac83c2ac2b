//! The JSON types of the API, and how they are made from ours. Nothing else knows them.

pub mod agent;
pub mod completion;
pub mod envelope;
pub mod model;
pub mod run;
pub mod schedule;
pub mod session;
pub mod task;
mod time;
