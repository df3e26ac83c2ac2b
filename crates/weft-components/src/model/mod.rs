//! What asks a language model.

pub mod agent;
pub mod browser;
pub mod deep_research;
pub mod llm;

pub(crate) mod caller;
mod earlier_calls;
pub(crate) mod prompt;
pub(crate) mod sections;
pub(crate) mod settings;
