//! Stops runs that no work of the engine can notice: those that wait for a person, and interrupted ones that cannot be
//! resumed.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weft_core::seam::run_store::{RunLease, StoredRun};
use weft_core::{Json, Result, RunId, RunKey, SessionKey, TurnInput};
use weft_dsl::Plan;

use super::held::{SessionLock, went_on_elsewhere};
use super::launch::HeldRun;
use super::owner::TakenRun;
use super::{Engine, NewRun, RunHandle, StartRun, Stores};
use crate::answers::AnswerStatus;
use crate::perform::cancelled;

impl Engine {
    /// Stops a run that waits for a person: a run that resumes it ends as cancelled before it starts any work, so that
    /// its tasks are dropped and its session is free. Of this and a concurrent answer, in whichever process, only one
    /// succeeds. No limit on the number of runs prevents it. `plan` is the version of the canvas that the run ran.
    /// Returns `None` if its session does not wait for it any more.
    ///
    /// # Errors
    /// `NotFound` for an unknown session; `Conflict` while a turn of it is under way or about to start, and when the run
    /// waits on another version of its canvas; any error of the store.
    pub async fn stop_waiting(&self, run: &StoredRun, plan: Arc<Plan>) -> Result<Option<RunHandle>> {
        let stores = self.stores()?;
        let key = SessionKey::new(&run.key.tenant, run.session.clone());
        let lock = SessionLock::take(self, &key)?;
        self.say_at_work(&stores).await?;
        let session = stores.sessions.load(&key).await?;
        let waiting = session.state.pointer("/paused/run").and_then(Json::as_str);
        if waiting != Some(run.key.id.as_str()) {
            return Ok(None);
        }
        // In the background: it ends by itself, and no client has asked for it.
        let input = TurnInput { user_id: session.user_id.clone(), background: true, ..TurnInput::default() };
        let request =
            StartRun { plan, canvas: run.canvas.clone(), session: key, input, seed: None, task: None };
        let new = NewRun { id: RunId::generate(), answers: AnswerStatus::Withheld };
        let prepared = self.prepare(&stores, new, request, session).await?;
        // Announced with its cancellation: should this process end now, the one that resumes it ends it as well.
        let announced = StoredRun { cancel_ms: Some(self.now_ms()), ..self.stored_run(&prepared) };
        if !stores.runs.announce(&announced, prepared.revision).await? {
            return Err(went_on_elsewhere(&prepared.request.session));
        }
        let lease = RunLease::of(&announced);
        let taken = TakenRun::new(self, lease.clone());
        let held = HeldRun { place: None, lock, lease, cancel: CancellationToken::new() };
        held.cancel.cancel();
        let handle = self.launch(stores, prepared, held);
        taken.kept();
        Ok(Some(handle))
    }

    /// Stops a run that has come to wait for a person, if that was requested just before: whoever requested it was told
    /// that the run stops. Returns whether it is being stopped.
    pub(super) async fn stop_if_requested(&self, stores: &Stores, key: &RunKey, plan: Arc<Plan>) -> bool {
        let stop = async {
            let run = stores.runs.get(key).await?;
            match run.cancel_ms {
                Some(_) => self.stop_waiting(&run, plan).await,
                None => Ok(None),
            }
        };
        match stop.await {
            Ok(stopped) => stopped.is_some(),
            // It was answered at the same moment, or removed.
            Err(error) => {
                tracing::warn!(run.id = %key.id, error = error.detail(), "a run that waits could not be stopped");
                false
            }
        }
    }

    /// Ends an interrupted run as cancelled without resuming it, for a run whose canvas can no longer be run.
    ///
    /// # Errors
    /// As [`Engine::give_up`].
    pub async fn end_cancelled(&self, run: &StoredRun) -> Result<()> {
        self.give_up(run, cancelled()).await
    }
}
