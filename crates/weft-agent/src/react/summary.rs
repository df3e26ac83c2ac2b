//! What is left of the older part of a conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the older part of a conversation came to, in a model's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// What the user asked for, and what counts as done.
    pub task_overview: String,
    /// What has been done, and how things stand now.
    pub current_state: String,
    /// What was found out on the way, dead ends included.
    pub important_discoveries: String,
    /// What is to be done next.
    pub next_steps: String,
    /// What else has to be kept: the user's wishes, promises, names, places of files.
    pub context_to_preserve: String,
}

impl Summary {
    /// The summary as the model reads it.
    pub(super) fn to_text(&self) -> String {
        let sections = [
            ("Task", &self.task_overview),
            ("State", &self.current_state),
            ("Discoveries", &self.important_discoveries),
            ("Next steps", &self.next_steps),
            ("To be kept", &self.context_to_preserve),
        ];
        let told = sections.iter().filter(|(_, text)| !text.trim().is_empty());
        let told: Vec<String> = told.map(|(title, text)| format!("## {title}\n\n{}", text.trim())).collect();
        format!(
            "<summary>\nThe older part of this conversation is left out. It came to this:\n\n{}\n</summary>",
            told.join("\n\n")
        )
    }
}
