//! The tool calls of an agent, as its node reports them.

use serde::{Deserialize, Serialize};
use weft_core::Json;
use weft_core::id::FileId;

/// A tool call as the agent's node reports it in `use_tools`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// The function's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Json,
    /// Its result.
    pub results: Json,
    /// The file in which the model reads the result, when it is too long for the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileId>,
}
