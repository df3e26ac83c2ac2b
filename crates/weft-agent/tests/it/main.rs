//! The agent loop against scripted models and tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(missing_docs, reason = "tests")]

mod adversarial;
mod approval;
mod background;
mod definitions;
mod endings;
mod functions;
mod graph;
mod graph_crash;
mod graph_kit;
mod graph_memory;
mod groups;
mod guardrails;
mod images;
mod kit;
mod layers;
mod long_term;
mod lost_answers;
mod many_tools;
mod messages;
mod native;
mod pipelines;
mod planner;
mod plans;
mod random;
mod react;
mod react_ask_user;
mod react_background;
mod react_compression;
mod react_hooks;
mod react_inbox;
mod react_kit;
mod react_knowledge;
mod react_memory;
mod react_state;
mod react_streams;
mod recovery;
mod research;
mod tool_attribute;
mod toolkit;
mod wires;
