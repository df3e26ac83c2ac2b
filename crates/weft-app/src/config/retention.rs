//! How long data is kept.

use serde::Deserialize;

/// Retention of runs and other data. A run is removed if either of its limits excludes it; conversations remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Runs are removed this many days after they ended; 0: never.
    pub runs_days: u64,
    /// Number of runs that are kept per session, the newest ones; 0: all.
    pub runs_per_session: u64,
    /// Number of versions that are kept per canvas, the newest ones, in addition to those that something depends on;
    /// 0: all.
    pub versions_per_canvas: u64,
    /// Files of conversations are removed after this many days; 0: never.
    pub files_days: u64,
    /// Usage of models, and of canvases by day, is kept for this many days; 0: for ever.
    pub usage_days: u64,
    /// Outcomes of document ingestions are kept for this many days; 0: as long as the document exists.
    pub readings_days: u64,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            runs_days: 0,
            runs_per_session: 0,
            versions_per_canvas: 200,
            files_days: 90,
            usage_days: 400,
            readings_days: 90,
        }
    }
}
