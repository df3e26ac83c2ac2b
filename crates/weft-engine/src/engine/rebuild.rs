//! Rebuilds a run as it was when it began from its journal; resuming, replaying and forking share this.

use std::sync::Arc;

use weft_core::Budget;
use weft_core::context::HistoryMessage;
use weft_core::journal::{JOURNAL_VERSION, RunLimits};
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::session_store::Session;
use weft_core::{Entry, Error, ErrorKind, Record, Result};
use weft_dsl::Plan;

use super::{Beginning, Engine, Prepared, StartRun, Stores};
use crate::answers::AnswerStatus;
use crate::machine::MachineLimits;
use crate::secrets::SecretValues;
use crate::session::{SessionState, turns_looked_back};

/// A run that has begun, with what is stored of it.
#[derive(Clone)]
pub(super) struct BegunRun<'a> {
    /// The run.
    pub run: &'a StoredRun,
    /// Its session as it is now.
    pub session: &'a Session,
    /// The version of the canvas that it ran.
    pub plan: Arc<Plan>,
    /// Its journal.
    pub entries: &'a [Entry],
}

impl Engine {
    /// Rebuilds everything that a run began with, within the budgets `around` it. `plan` is the canvas
    /// version that it ran.
    ///
    /// # Errors
    /// `Conflict` when the plan is another version, or when the journal dates from before journals stored the
    /// session state and that state has changed since; any error of the store.
    pub(super) async fn as_begun(
        &self,
        stores: &Stores,
        BegunRun { run, session, plan, entries }: BegunRun<'_>,
        around: Option<Arc<Budget>>,
        secrets: SecretValues,
    ) -> Result<Prepared> {
        let Some(Record::RunStarted {
            version,
            canvas_version,
            input,
            seed,
            resumes,
            reply,
            now_ms,
            revision,
            state,
            limits,
            ..
        }) = entries.first().map(|entry| &entry.record)
        else {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("the journal of run {} has no beginning", run.key.id),
            ));
        };
        if *version > JOURNAL_VERSION {
            let message = format!("the journal of run {} was written by a newer version of Weft", run.key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("continue it with that version"));
        }
        if *canvas_version != plan.version {
            return Err(Error::new(ErrorKind::Conflict, "the run is on another version of its canvas"));
        }
        let state = match state {
            Some(state) => SessionState::from_json(state)?,
            None if session.revision == *revision => {
                let mut state = session.state.clone();
                secrets.open(&mut state);
                SessionState::from_json(&state)?
            }
            None => {
                let message =
                    format!("run {} did not store the state of its session at the start", run.key.id);
                return Err(Error::new(ErrorKind::Conflict, message)
                    .help("runs of an older version of Weft can be shown, but not repeated"));
            }
        };
        let turns = turns_looked_back(&plan);
        // Only messages up to that revision: the run has not seen later ones.
        let messages = stores.sessions.history(&session.key, *revision, 2 * turns as u64).await?;
        let history = messages.into_iter().map(HistoryMessage::from);
        let mut input = (**input).clone();
        if resumes.is_some() {
            // The input was completed with the question of the first run; the text of the answer is beside it.
            input.query.clone_from(reply);
        }
        let (canvas, key) = (run.canvas.clone(), session.key.clone());
        let request = StartRun { plan, canvas, session: key, input, seed: Some(*seed), task: None };
        // The limits it began with: under others the machine would start nodes in an order that differs from
        // the journal's.
        let limits = limits.map_or(self.machine_limits(), |RunLimits { nodes_at_once, activations }| {
            MachineLimits { at_once: nodes_at_once, activations }
        });
        let beginning = Beginning {
            key: run.key.clone(),
            revision: *revision,
            now_ms: *now_ms,
            around,
            limits,
            answers: AnswerStatus::Taken,
            secrets,
        };
        self.assemble(request, state, history.collect(), beginning)
    }
}
