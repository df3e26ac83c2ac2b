//! How a run ended.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Everything that could run has run.
    Succeeded,
    /// A node failed and nothing caught it, or a limit was reached.
    Failed,
    /// Its cancellation was requested.
    Cancelled,
    /// It waits for a person; a later run of the session continues from here.
    Waiting,
}

impl Ending {
    /// Returns the value that clients see in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
        }
    }
}
