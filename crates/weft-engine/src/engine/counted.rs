//! An engine's current load and its counters.

use super::Engine;
use crate::counts::RunCounts;

impl Engine {
    /// Returns the counters of its runs so far.
    pub fn counts(&self) -> &RunCounts {
        &self.0.counts
    }

    /// Number of runs under way in this process.
    pub fn under_way(&self) -> usize {
        self.running().runs.len()
    }

    /// Maximum number of concurrent runs.
    pub fn runs_at_once(&self) -> usize {
        self.0.limits.runs_at_once
    }
}
