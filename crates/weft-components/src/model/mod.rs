//! Components that ask a language model.

pub(crate) mod agent;
pub(crate) mod browser;
pub(crate) mod deep_research;
pub(crate) mod llm;

pub(crate) mod caller;
mod earlier_calls;
pub(crate) mod prompt;
mod prompt_lines;
pub(crate) mod sections;
pub(crate) mod settings;
