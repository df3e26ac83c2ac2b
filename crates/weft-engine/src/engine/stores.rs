//! Where an engine keeps what outlives its process.

use std::sync::Arc;

use weft_core::seam::{ProcessStore, RunMessages, RunStore, SessionStore, SpendingStore};

/// The stores an engine keeps runs and sessions in.
#[derive(Clone)]
pub struct Stores {
    /// Runs and journals.
    pub runs: Arc<dyn RunStore>,
    /// Conversations.
    pub sessions: Arc<dyn SessionStore>,
    /// What runs have used.
    pub spending: Arc<dyn SpendingStore>,
    /// Who is at work.
    pub processes: Arc<dyn ProcessStore>,
    /// What waits for agents at work in other processes.
    pub messages: Arc<dyn RunMessages>,
}
