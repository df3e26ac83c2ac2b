//! canvas JSON → plan → run → **components' language models** → events → API
//!
//! Whatever answers messages, behind the one seam `ChatModel`.

pub mod estimate;
pub mod script;
pub mod scripted;

pub use script::{Reply, Script, Step};
pub use scripted::ScriptedModel;
