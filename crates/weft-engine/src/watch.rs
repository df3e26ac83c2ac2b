//! Detects whether other processes have fallen silent, from the watcher's own observations and by its own
//! clock. Performs no I/O.
//!
//! The clocks of two machines need not agree, and a clock may be set at any time, so no time written by
//! another process is compared with anything. A process counts its heartbeats; the watcher checks whether the
//! count still grows.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use weft_core::ProcessId;
use weft_core::seam::process_store::StoredProcess;

/// A process that has been silent for this long is considered dead. It sends a heartbeat every 2 seconds, so
/// it has missed three; a run is resumed within 10 seconds: these 7, plus up to one second each until the
/// last heartbeat was first noticed and until the next look.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(7);

/// Maximum time between two looks that counts as silence. A watcher that was suspended, or could not read the
/// store, has not observed the others in the meantime.
const BETWEEN_LOOKS_MAX: Duration = Duration::from_secs(2);

/// What has been observed of other processes.
#[derive(Debug, Default)]
pub(crate) struct ProcessWatch {
    seen: HashMap<ProcessId, ProcessHeartbeat>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct ProcessHeartbeat {
    beat: i64,
    silent: Duration,
    /// It has sent a heartbeat since it was first seen.
    heard: bool,
}

impl ProcessWatch {
    /// Takes in the current heartbeats of all processes.
    pub(crate) fn look(&mut self, processes: &[StoredProcess], now: Instant) {
        let since = self.looked.map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        self.looked = Some(now);
        let there: HashSet<&ProcessId> = processes.iter().map(|process| &process.id).collect();
        // Forgets processes that have signed off or were removed: the store's table bounds this one.
        self.seen.retain(|id, _| there.contains(id));
        for StoredProcess { id, beat, .. } in processes {
            match self.seen.get_mut(id) {
                Some(seen) if seen.beat == *beat => seen.silent += since.min(BETWEEN_LOOKS_MAX),
                known => {
                    let seen =
                        ProcessHeartbeat { beat: *beat, silent: Duration::ZERO, heard: known.is_some() };
                    self.seen.insert(id.clone(), seen);
                }
            }
        }
    }

    /// Whether a process has sent a heartbeat while it was watched.
    pub(crate) fn was_heard(&self, id: &ProcessId) -> bool {
        self.seen.get(id).is_some_and(|seen| seen.heard)
    }

    /// Returns for how long a process has been observed to be silent.
    pub(crate) fn silence(&self, id: &ProcessId) -> Duration {
        self.seen.get(id).map_or(Duration::ZERO, |seen| seen.silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(beat: i64) -> Vec<StoredProcess> {
        vec![StoredProcess { id: "p".into(), place: None, beat }]
    }

    /// Checks once a second; what was seen of the process each time.
    fn silence(beats: &[i64]) -> Vec<u64> {
        let (mut watch, began) = (ProcessWatch::default(), Instant::now());
        let look = |(beat, second): (&i64, u64)| {
            watch.look(&said(*beat), began + Duration::from_secs(second));
            watch.silence(&"p".into()).as_secs()
        };
        beats.iter().zip(0..).map(look).collect()
    }

    #[test]
    fn a_process_that_keeps_counting_is_alive() {
        assert_eq!(silence(&[1, 1, 2, 2, 3, 3, 4]), [0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(silence(&[7, 7, 7, 7, 7, 8, 8]), [0, 1, 2, 3, 4, 0, 1]);
        // A counter that restarts is a sign of life, too.
        assert_eq!(silence(&[7, 7, 1, 1]), [0, 1, 0, 1]);
    }

    #[test]
    fn a_process_that_slept_does_not_judge_others_silent() {
        let (mut watch, began) = (ProcessWatch::default(), Instant::now());
        watch.look(&said(1), began);
        watch.look(&said(1), began + Duration::from_secs(3_600));
        assert_eq!(watch.silence(&"p".into()), BETWEEN_LOOKS_MAX);
        // A clock that stands still or goes back does not count.
        watch.look(&said(1), began);
        assert_eq!(watch.silence(&"p".into()), BETWEEN_LOOKS_MAX);
        assert_eq!(watch.silence(&"nobody".into()), Duration::ZERO);
        watch.look(&[], began + Duration::from_secs(1));
        assert_eq!(watch.silence(&"p".into()), Duration::ZERO);
    }
}
