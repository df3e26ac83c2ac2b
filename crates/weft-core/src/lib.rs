//! canvas JSON → plan → run → components → events → API: **the vocabulary that all stages share**
//!
//! Ids, values, references, events, errors, the definition of a component, and the seams. This crate uses no files,
//! no network, no SQL, no environment and no clock: those live behind the traits in [`seam`].

pub mod access;
pub mod assign;
mod blocking;
pub mod budget;
pub mod catalog;
pub mod changes;
pub mod citation;
pub mod component;
pub mod component_reference;
pub mod context;
pub mod counts;
pub mod effect;
mod ending;
pub mod error;
pub mod exact;
pub mod exception;
pub mod fair;
pub mod field;
pub mod filter;
mod floor;
pub mod form;
mod hex;
pub mod id;
pub mod inbox;
pub mod journal;
pub mod literal;
pub mod masking;
pub mod media_type;
mod model_call;
pub mod operators;
mod ordered;
pub mod params;
pub mod past_calls;
pub mod pattern;
pub mod pipeline;
pub mod quota;
pub mod reference;
pub mod rendering;
pub mod retry;
pub mod seam;
pub mod secret;
#[cfg(test)]
mod stored_names;
pub mod stream;
pub mod suggest;
mod tokens;
pub mod tool;
pub mod usage;
pub mod value;
pub mod watched_models;
pub mod webhook;

pub use assign::{AssignOperator, Assignment, Operand};
pub use blocking::blocking;
pub use budget::Budget;
pub use catalog::Catalog;
pub use component::{
    Component, ComponentSpec, Expected, Finished, NodeOutput, NodeOutputs, NodeSource, OutputSpec,
    ParamProblem, Reads, Role, Route, Shape, Suspension, ToolSpec,
};
pub use context::{NodeContext, TurnInput};
pub use error::{Error, ErrorKind, Result};
pub use field::Field;
pub use filter::Filter;
pub use floor::Floor;
pub use hex::hex;
pub use id::{
    CanvasId, CanvasKey, ChunkId, ComponentId, DatasetId, DatasetKey, DocumentId, DocumentKey, MemoryId,
    MemoryKey, ProcessId, RunId, RunKey, ScheduleId, ScheduleKey, SessionId, SessionKey, TaskId, TaskKey,
    TenantId, UserId,
};
pub use journal::{Ending, Entry, Record};
pub use params::Params;
pub use reference::{Reference, Template};
pub use secret::Secret;
pub use stream::{Piece, SharedText};
pub use tool::{Tool, ToolBody, ToolOutput};
pub use value::{Json, Outputs, Value};
pub use weft_macros::async_trait;
