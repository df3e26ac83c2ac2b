//! Past runs: replaying, forking and comparing them.

use std::sync::Arc;

use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasKey, Entry, Error, Record, Result, RunKey, SessionId, SessionKey};
use weft_dsl::Plan;
use weft_engine::compare::Comparison;
use weft_engine::engine::{ForkPoint, PickedUp, Replayed};

use crate::app::App;
use crate::checking::{Purpose, refusal};
use crate::removal::stays_with;

impl App {
    /// Returns the plan of the canvas version that a run used.
    ///
    /// # Errors
    /// `NotFound` when its canvas or session no longer exists.
    pub async fn plan_of(&self, run: &StoredRun) -> Result<Arc<Plan>> {
        let (canvas, version) = self.version_of(run).await?;
        self.plan(&canvas, &version).await
    }

    /// Returns the canvas of a run, and the version of its session, or the one that the run itself recorded.
    pub async fn version_of(&self, run: &StoredRun) -> Result<(CanvasKey, Arc<str>)> {
        let session = self.sessions.load(&SessionKey::new(&run.key.tenant, run.session.clone())).await?;
        let canvas = CanvasKey::new(&run.key.tenant, run.canvas.clone());
        if !session.canvas_version.is_empty() {
            return Ok((canvas, session.canvas_version));
        }
        let first = self.runs.entries(&run.key, 0, 1).await?.into_iter().next();
        match first.map(|entry| serde_json::from_str(&entry.record)) {
            Some(Ok(Record::RunStarted { canvas_version, .. })) => Ok((canvas, canvas_version)),
            // It was interrupted before its first record, and has not executed any version.
            _ => {
                let newest = self.canvases.get(&canvas).await?.version;
                Ok((canvas, newest))
            }
        }
    }

    /// Replays a run from its journal without executing any effect: its models need not exist any more. Nothing is
    /// stored.
    ///
    /// # Errors
    /// As [`weft_engine::Engine::replay`]; `NotFound` when the run, its canvas or its session no longer exists.
    pub async fn replay(&self, key: &RunKey) -> Result<Replayed> {
        let run = self.runs.get(key).await?;
        let plan = self.past_plan_of(&run).await?;
        self.engine.replay(&run, plan).await
    }

    /// Returns the plan of the canvas version that a run used, for something that calls nothing outside: its models
    /// need not exist any more.
    pub(crate) async fn past_plan_of(&self, run: &StoredRun) -> Result<Arc<Plan>> {
        let (canvas, version) = self.version_of(run).await?;
        let dsl = self.canvases.version(&canvas, &version).await?;
        let compiled = self.compiled(&run.key.tenant, dsl, Purpose::LookBack).await?;
        let (plan, _) = compiled.map_err(|problems| refusal(&problems))?;
        // Not cached: its models were not checked, so no new run may use it.
        Ok(Arc::new(plan))
    }

    /// Starts a run that shares the beginning of another one, in its own session.
    ///
    /// # Errors
    /// As [`weft_engine::Engine::fork`]; `NotFound` when the run, its canvas or its session no longer exists.
    pub async fn fork(
        &self,
        key: &RunKey,
        session: Option<SessionId>,
        point: &ForkPoint,
    ) -> Result<(SessionKey, RunKey, PickedUp)> {
        let run = self.runs.get(key).await?;
        let (canvas, version) = self.version_of(&run).await?;
        let plan = self.plan(&canvas, &version).await?;
        self.keep_version_of_chat(&canvas, &version).await?;
        let session = SessionKey::new(&key.tenant, session.unwrap_or_else(SessionId::generate));
        let (new, forked) = self.engine.fork(&run, plan, session.clone(), point).await?;
        // The canvas may also belong to an assistant.
        let canvas = self.canvases.get(&CanvasKey::new(&key.tenant, run.canvas)).await;
        stays_with(canvas, self.sessions.delete(&session)).await?;
        Ok((session, new, forked))
    }

    /// Compares two runs, and returns the comparison with their journals.
    ///
    /// # Errors
    /// `NotFound` for an unknown one.
    pub async fn compare(&self, first: &RunKey, second: &RunKey) -> Result<(Comparison, [Vec<Entry>; 2])> {
        let told = async |key: &RunKey| -> Result<Vec<Entry>> {
            let entries = self.engine.journal(key).await?;
            if entries.is_empty() {
                return Err(Error::not_found(format!("run {} has no journal", key.id)));
            }
            Ok(entries)
        };
        let both = [told(first).await?, told(second).await?];
        Ok((Comparison::of(&both[0], &both[1]), both))
    }
}
