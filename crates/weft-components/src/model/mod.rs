//! What asks a language model.

pub mod agent;
pub mod llm;

pub(crate) mod ask;
pub(crate) mod caller;
pub(crate) mod prompt;
pub(crate) mod settings;
pub(crate) mod structured;
mod window;
