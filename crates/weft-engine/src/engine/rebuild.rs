//! A run as it was when it began, from its journal: what going on with it, doing it again and forking
//! it have in common.

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

/// A run that has begun somewhere, with what is stored of it.
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
    /// Everything a run began with, within the budgets `around` it. `plan` is the version of the canvas that it ran.
    ///
    /// # Errors
    /// `Conflict` when the plan is another version, or when the journal is from before journals kept the
    /// state of the session and that has changed since; what the store says.
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
            let message = format!("a newer weft has written the journal of run {}", run.key.id);
            return Err(Error::new(ErrorKind::Conflict, message).help("go on with it there"));
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
                    format!("run {} did not keep what its session was like when it began", run.key.id);
                return Err(Error::new(ErrorKind::Conflict, message)
                    .help("runs that an older weft made can be shown, but not done again"));
            }
        };
        let turns = turns_looked_back(&plan);
        // Only what was said up to that revision: the run has not seen what came later.
        let messages = stores.sessions.messages(&session.key, *revision, 2 * turns as u64).await?;
        let history = messages.into_iter().map(HistoryMessage::from);
        let mut input = (**input).clone();
        if resumes.is_some() {
            input.query.clone_from(reply);
        }
        let (canvas, key) = (run.canvas.clone(), session.key.clone());
        let request = StartRun { plan, canvas, session: key, input, seed: Some(*seed), task: None };
        // Those of its beginning: under other ones the machine starts
        // nodes in an order that the journal does not tell.
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
