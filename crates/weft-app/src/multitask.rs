//! What happens to a question while its session answers another.

use serde::{Deserialize, Serialize};

/// What to do with a question if its session already has a turn under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MultitaskStrategy {
    /// Refuse it.
    Reject,
    /// Wait for the end of the turn; a run without a reader is stopped.
    #[default]
    Enqueue,
    /// Stop the run, unless it was started in the background.
    Interrupt,
    /// Pass it to the agent at work in the session, whose answer is the answer to both. If no agent takes it, it
    /// waits for the end of the turn.
    Steer,
}

impl MultitaskStrategy {
    /// Returns the strategy with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "reject" => Some(Self::Reject),
            "enqueue" => Some(Self::Enqueue),
            "interrupt" => Some(Self::Interrupt),
            "steer" => Some(Self::Steer),
            _ => None,
        }
    }
}
