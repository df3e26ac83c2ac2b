//! How much an engine does and has done.

use super::Engine;
use crate::counts::RunCounts;

impl Engine {
    /// What has become of its runs so far.
    pub fn counts(&self) -> &RunCounts {
        &self.0.counts
    }

    /// How many runs are under way in this process.
    pub fn under_way(&self) -> usize {
        self.running().runs.len()
    }

    /// How many there may be.
    pub fn runs_at_once(&self) -> usize {
        self.0.limits.runs_at_once
    }
}
