//! What is recorded of work that was stopped.

/// Prefix of the error messages of work that was stopped before it ended by itself.
pub(crate) const STOPPED: &str = "stopped: ";
/// What follows it when the whole run was cancelled.
pub(crate) const RUN_CANCELLED: &str = "the run was cancelled";
