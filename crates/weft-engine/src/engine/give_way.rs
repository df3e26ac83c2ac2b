//! Lets a run give way to a question that waits for its session in another process. That process asks
//! repeatedly; the process that works on the run stops it unless the run has listeners: readers here, or in a
//! third process, which then says so in the store.

use std::collections::HashMap;

use weft_core::error::found;
use weft_core::seam::run_store::{GiveWay, GiveWayWord, RunRequest};
use weft_core::{Result, RunKey};

use super::Engine;

/// Number of consecutive looks that must find the question asked again with no listener having answered: the
/// time in which readers elsewhere, which look once a second, would have answered.
const UNANSWERED_MIN: u32 = 2;

/// The questions waiting for runs of this process, as of the last look.
#[derive(Debug, Default)]
pub(super) struct Waiters(HashMap<RunKey, GiveWayState>);

#[derive(Clone, Copy, Debug)]
struct GiveWayState {
    last: GiveWay,
    unanswered: u32,
}

impl Waiters {
    /// Evaluates the current requests and returns the runs that give way unless they have listeners here.
    /// Requests made before the first look may come from a process that no longer waits, so only repeated
    /// requests count.
    pub(super) fn look(&mut self, requests: &[RunRequest]) -> Vec<RunKey> {
        // Runs that are no longer asked about are forgotten.
        let before = std::mem::take(&mut self.0);
        let mut give_way = Vec::new();
        for RunRequest { run, give_way: now, .. } in requests.iter().filter(|r| r.give_way.asked > 0) {
            let unanswered = match before.get(run) {
                Some(GiveWayState { last, unanswered })
                    if now.asked > last.asked && now.listened == last.listened =>
                {
                    unanswered.saturating_add(1)
                }
                _ => 0,
            };
            if unanswered >= UNANSWERED_MIN {
                give_way.push(run.clone());
            }
            self.0.insert(run.clone(), GiveWayState { last: *now, unanswered });
        }
        give_way
    }
}

impl Engine {
    /// Asks the process that works on a run to stop it if it has no listeners. The caller has to repeat this
    /// at least once a second while its question waits. Returns whether the run is still unfinished.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ask_to_give_way(&self, key: &RunKey) -> Result<bool> {
        self.stores()?.runs.say_of_giving_way(key, GiveWayWord::Asked).await
    }

    /// Whether readers in another process have listened to a run. Those still listening answer each request.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn was_listened_to_elsewhere(&self, key: &RunKey) -> Result<bool> {
        let run = found(self.stores()?.runs.get(key).await)?;
        Ok(run.is_some_and(|run| run.give_way.listened > 0))
    }

    /// Carries out what other processes request of this process's runs.
    pub(super) fn hear(&self, requests: &[RunRequest], waiters: &mut Waiters) {
        for request in requests.iter().filter(|request| request.cancel) {
            self.cancel_here(&request.run);
        }
        for run in waiters.look(requests) {
            let running = self.running();
            let nobodys = running.runs.get(&run).filter(|live| live.is_abandoned());
            if let Some(live) = nobodys.filter(|live| !live.cancel.is_cancelled()) {
                live.cancel.cancel();
                tracing::info!(run.id = %run.id, "a run gives way to a question that waits in another process");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_yields_only_to_a_repeated_unanswered_request() {
        let key = RunKey::new(&"t".into(), "r");
        let mut waiters = Waiters::default();
        let mut check = |asked, listened, gives_way: bool| {
            let give_way = GiveWay { asked, listened };
            let found = waiters.look(&[RunRequest { run: key.clone(), cancel: false, give_way }]);
            assert_eq!(!found.is_empty(), gives_way, "{asked} {listened}");
        };
        // The first requester may be gone.
        check(7, 0, false);
        check(7, 0, false);
        check(8, 0, false);
        check(9, 0, true);
        check(11, 0, true);
        // A listener in another process answers, and then leaves.
        check(12, 1, false);
        check(13, 2, false);
        check(14, 2, false);
        check(15, 2, true);
        // The question is withdrawn, and another one arrives.
        check(15, 2, false);
        check(16, 2, false);
        check(17, 2, true);
        // No question waits any more.
        check(0, 0, false);
        assert!(waiters.0.is_empty());
    }
}
