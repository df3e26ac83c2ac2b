//! The stores of an engine, which outlive its process.

use std::sync::Arc;

use weft_core::seam::{ProcessStore, RunMessages, RunStore, SessionStore, SpendingStore};

/// The stores of an engine.
#[derive(Clone)]
pub struct Stores {
    /// Runs and journals.
    pub runs: Arc<dyn RunStore>,
    /// Conversations.
    pub sessions: Arc<dyn SessionStore>,
    /// Spending of runs.
    pub spending: Arc<dyn SpendingStore>,
    /// Processes and their heartbeats.
    pub processes: Arc<dyn ProcessStore>,
    /// Messages that wait for agents at work in other processes.
    pub messages: Arc<dyn RunMessages>,
}
