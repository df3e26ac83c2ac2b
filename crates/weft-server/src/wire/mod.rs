//! The JSON types of the API, and how they are made from ours. Nothing else knows them.

pub mod ag_ui;
pub mod agent;
pub mod chat;
pub mod chat_question;
pub mod chunk;
pub mod completion;
pub mod dataset;
pub mod document;
pub mod envelope;
pub mod graph;
pub mod memory;
pub mod metadata;
pub mod method;
pub mod model;
mod python;
pub mod retrieval;
pub mod rules;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod session;
pub mod task;
pub mod template;
mod time;
pub mod token;
pub mod version;
