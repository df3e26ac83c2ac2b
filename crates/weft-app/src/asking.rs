//! Questions to a session, which start when it is their turn. Values that answer a task of the session start nothing
//! else: of two concurrent identical answers, the second gets the outcome of the first.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use weft_core::seam::session_store::Session;
use weft_core::{ErrorKind, Result, RunId, RunKey, SessionKey, TurnInput};
use weft_engine::RunHandle;

use crate::app::App;
use crate::idempotency::with_files_noted;
use crate::turns::Waiting;

/// Whether a question with a key has started its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrigin {
    /// This question has.
    Started,
    /// An equal question has, earlier or at the same time.
    Known,
}

impl App {
    /// Starts a turn of a session as soon as it is its turn.
    ///
    /// # Errors
    /// As [`App::start_turn`] and [`App::take_turn`].
    pub async fn ask(&self, session: &SessionKey, input: &TurnInput, waiting: &Waiting) -> Result<RunHandle> {
        let session = self.sessions.load(session).await?;
        self.ask_of(&session, input, waiting).await
    }

    /// The same for a session that is already loaded.
    ///
    /// # Errors
    /// As [`App::ask`].
    pub async fn ask_of(&self, session: &Session, input: &TurnInput, waiting: &Waiting) -> Result<RunHandle> {
        let first = AtomicBool::new(true);
        let task = self.answered_by(session, input).await?;
        // Only once, however often starting is tried: a session may be busy for minutes.
        let read = OnceCell::new();
        let start = || -> BoxFuture<'_, Result<RunHandle>> {
            Box::pin(async {
                let input = || self.with_files_read(session, input.clone());
                let input = read.get_or_try_init(input).await?.clone();
                self.check_goes_on(&session.key, waiting).await?;
                // At the first attempt the session was just loaded.
                if first.swap(false, Ordering::Relaxed) {
                    self.start_turn_read(RunId::generate(), session, input, task.as_ref()).await
                } else {
                    // The turn before it has changed the session.
                    let session = self.sessions.load(&session.key).await?;
                    self.start_turn_read(RunId::generate(), &session, input, task.as_ref()).await
                }
            })
        };
        // An agent at work may take the question, which is then not a turn of its own.
        if let Some(handle) = self.steer(&session.key, input, waiting).await? {
            return Ok(handle);
        }
        let outcome = self.take_turn(&session.key, waiting, start).await;
        self.unless_ended(task.as_ref(), outcome).await
    }

    /// The same for a question with a key: if its run exists already, returns that run. Also returns which it was.
    ///
    /// # Errors
    /// As [`App::ask`]; `Invalid` when the run was started for a different question.
    pub async fn ask_once(
        &self,
        session: &Session,
        input: &TurnInput,
        run: &RunId,
        waiting: &Waiting,
    ) -> Result<(RunHandle, RunOrigin)> {
        // Concurrent copies of a question take no place in the queue of the session.
        let (_asks, known) =
            self.one_of_equals(&RunKey::new(&session.key.tenant, run.clone()), waiting).await?;
        if let Some(known) = known {
            return Ok((self.again(&known, input).await?, RunOrigin::Known));
        }
        let task = self.answered_by(session, input).await?;
        let read = OnceCell::new();
        let start = || -> BoxFuture<'_, Result<(RunHandle, RunOrigin)>> {
            Box::pin(async {
                let session = self.sessions.load(&session.key).await?;
                let key = RunKey::new(&session.key.tenant, run.clone());
                let with_files = || self.with_files_read(&session, with_files_noted(input.clone()));
                let with_files = read.get_or_try_init(with_files).await?.clone();
                let started = match self.check_goes_on(&session.key, waiting).await {
                    Ok(()) => self.start_turn_read(run.clone(), &session, with_files, task.as_ref()).await,
                    Err(error) => Err(error),
                };
                match started {
                    Ok(handle) => Ok((handle, RunOrigin::Started)),
                    // The session may be busy with this very run, or it may exist already.
                    Err(error) if error.kind == ErrorKind::Conflict => match self.runs.get(&key).await {
                        // It can be read here, whichever process executes it.
                        Ok(run) => Ok((self.again(&run, input).await?, RunOrigin::Known)),
                        // The run could not be read, so the conflict is all that is known.
                        Err(_) => Err(error),
                    },
                    Err(error) => Err(error),
                }
            })
        };
        let outcome = self.take_turn(&session.key, waiting, start).await;
        self.unless_ended(task.as_ref(), outcome).await
    }
}
