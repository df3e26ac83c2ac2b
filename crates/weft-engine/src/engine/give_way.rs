//! A run gives way to a question that waits for it in another process. That one asks again and again; the process
//! that works on the run stops it unless somebody listens: here, or in a third process, which then says so.

use std::collections::HashMap;

use weft_core::error::found;
use weft_core::seam::run_store::{GiveWay, GiveWayWord, RunRequest};
use weft_core::{Result, RunKey};

use super::Engine;

/// So often in a row a look finds that a question has asked again and that nobody has answered: as long as it
/// takes readers elsewhere, who look once a second, to answer.
const UNANSWERED_MIN: u32 = 2;

/// The questions that wait for runs of this process, as its looks have seen them.
#[derive(Debug, Default)]
pub(super) struct Waiters(HashMap<RunKey, GiveWayState>);

#[derive(Clone, Copy, Debug)]
struct GiveWayState {
    last: GiveWay,
    unanswered: u32,
}

impl Waiters {
    /// Takes a look. The runs that give way unless somebody listens to them here: what was asked before the first
    /// look may be of somebody who no longer waits, so only what is asked again counts.
    pub(super) fn look(&mut self, requests: &[RunRequest]) -> Vec<RunKey> {
        // Runs that are no longer asked about are forgotten with it.
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
    /// Asks the process that works on a run to stop it if nobody listens to it. It is to be asked again, at least
    /// once a second, as long as the question waits. Whether the run has not ended.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ask_to_give_way(&self, key: &RunKey) -> Result<bool> {
        self.stores()?.runs.say_of_giving_way(key, GiveWayWord::Asked).await
    }

    /// Whether somebody has listened to a run in another process. Who still does answers those who ask.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn was_listened_to_elsewhere(&self, key: &RunKey) -> Result<bool> {
        let run = found(self.stores()?.runs.get(key).await)?;
        Ok(run.is_some_and(|run| run.give_way.listened > 0))
    }

    /// Does what others want of the runs of this process.
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
    fn only_who_asks_again_and_is_not_answered_is_given_way_to() {
        let key = RunKey::new(&"t".into(), "r");
        let mut waiters = Waiters::default();
        let mut check = |asked, listened, gives_way: bool| {
            let give_way = GiveWay { asked, listened };
            let found = waiters.look(&[RunRequest { run: key.clone(), cancel: false, give_way }]);
            assert_eq!(!found.is_empty(), gives_way, "{asked} {listened}");
        };
        // Who asked before may be gone.
        check(7, 0, false);
        check(7, 0, false);
        check(8, 0, false);
        check(9, 0, true);
        check(11, 0, true);
        // Somebody who listens elsewhere has answered, and then leaves.
        check(12, 1, false);
        check(13, 2, false);
        check(14, 2, false);
        check(15, 2, true);
        // The question is withdrawn, and another one comes.
        check(15, 2, false);
        check(16, 2, false);
        check(17, 2, true);
        // Nothing is wanted any more.
        check(0, 0, false);
        assert!(waiters.0.is_empty());
    }
}
