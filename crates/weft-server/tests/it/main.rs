//! The HTTP API: routes in process, and a real server on a loopback port.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests fail by panicking"
)]
#![allow(missing_docs, reason = "tests")]

mod accounts;
mod ag_ui;
mod agents;
mod app;
mod at_once;
mod attachments;
mod canvas;
mod chats;
mod chunks;
mod completions;
mod components;
mod contract;
mod cut_off;
mod dataset_tasks;
mod datasets;
mod documents;
mod editing;
mod failures;
mod files;
mod gate;
mod gone;
mod idempotency;
mod isolation;
mod known_holes;
mod mcp;
mod memories;
mod metrics;
mod models;
mod notifications;
mod oidc;
mod oidc_provider;
mod openai;
mod openapi;
mod past_runs;
mod pipelines;
mod private;
mod quotas;
mod readings;
mod reembedding;
mod rehearsal;
mod removals;
mod responses;
mod schedules;
mod searches;
mod secrets;
mod sessions;
mod shares;
mod shelf;
mod sources;
mod speaking;
mod speech;
mod stopping;
mod support;
mod suspensions;
mod tags;
mod tasks;
mod tool_servers;
mod traces;
mod turns;
mod usage;
mod vectors;
mod versions;
mod webhooks;
mod wire;
mod work;
