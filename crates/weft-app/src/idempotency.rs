//! Idempotency keys for questions: a question with a key becomes one run, however often it is sent. No separate table
//! is needed: the id of the run is derived from the key, so that any process finds it, even after a crash.

use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use weft_core::error::found;
use weft_core::masking::is_sealed;
use weft_core::seam::run_store::StoredRun;
use weft_core::{CanvasKey, Error, ErrorKind, Record, Result, RunId, RunKey, SessionId, TurnInput};
use weft_engine::RunHandle;

use crate::app::App;
use crate::attachments::{are_read_from, files_of};
use crate::turns::{Place, WaitedFor, Waiting, in_seconds, lock, wait_for};

/// How long a key refers to its run, in milliseconds: a day. After that the same key is a new question. Longer than
/// any client retries, and short enough that keys which programs reuse by mistake are forgotten.
const KEY_LIFE_MS: i64 = 86_400_000;

/// Maximum length of a key, in characters.
pub const KEY_CHARS_MAX: usize = 255;

/// Name under which the notes of a turn contain the fingerprint of the call that started it, for a route whose questions
/// are not in the text and the form values of the turn.
pub const CALL_NOTE: &str = "call";

/// Name under which they contain the fingerprint of the files with which a turn was sent: the turn itself has what was
/// read of them.
const FILES_NOTE: &str = "files";

/// The current meaning of a key.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The run, if it exists already.
    pub known: Option<StoredRun>,
    /// The id of the run: the existing one, else the one to be started.
    pub run: RunId,
    /// Its conversation; without a run, the one to be created if none is named.
    pub session: SessionId,
}

/// Derives an id from a key.
fn derived(what: &str, canvas: &CanvasKey, key: &str, day: i64) -> String {
    let mut hash = Sha256::new();
    for part in [what, canvas.tenant.as_str(), canvas.id.as_str(), key, &day.to_string()] {
        // The length separates each part from the next.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    weft_core::hex(&hash.finalize()[..16])
}

/// Returns a fingerprint of the files with which a turn is sent.
fn fingerprint_of_files(input: &TurnInput) -> String {
    let mut files = files_of(input);
    // Fields have no order, but the files of one have.
    files.sort_by_key(|(field, _)| *field);
    let mut hash = Sha256::new();
    for part in files.into_iter().flat_map(|(field, file)| [field, file]) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    weft_core::hex(&hash.finalize()[..16])
}

/// Adds a note to the input of a turn with a key, by which a repeated question is recognized once the files of this one
/// have been read.
pub(crate) fn with_files_noted(mut input: TurnInput) -> TurnInput {
    let files = fingerprint_of_files(&input);
    input.notes.get_or_insert_default().insert(FILES_NOTE.to_owned(), files.into());
    input
}

/// Returns whether a run that begins with this record was started for this question, whose files were not read.
fn is_of(first: &Record, input: &TurnInput) -> bool {
    let Record::RunStarted { input: before, resumes, reply, .. } = first else { return true };
    // An answer to a form is stored next to the question that led to the form.
    let said = if resumes.is_some() { reply } else { &before.query };
    let note = |of: &TurnInput, name: &str| of.notes.as_ref().and_then(|notes| notes.get(name).cloned());
    // A run of an older version has no fingerprints.
    let same_call = note(before, CALL_NOTE).is_none_or(|call| Some(call) == note(input, CALL_NOTE));
    let same_files = note(before, FILES_NOTE).is_none_or(|files| files == fingerprint_of_files(input));
    *said == input.query && are_read_from(&before.inputs, &input.inputs, 0) && same_call && same_files
}

impl App {
    /// Resolves a caller's key.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn keyed(&self, canvas: &CanvasKey, key: &str) -> Result<Keyed> {
        let now_ms = self.clock.now_ms();
        let today = now_ms.div_euclid(KEY_LIFE_MS);
        // A run that started yesterday may be less than a day old.
        for day in [today, today - 1] {
            let id = RunId::from(derived("run", canvas, key, day));
            let run = found(self.runs.get(&RunKey::new(&canvas.tenant, id)).await)?;
            if let Some(run) = run.filter(|run| now_ms.saturating_sub(run.started_ms) < KEY_LIFE_MS) {
                let (id, session) = (run.key.id.clone(), run.session.clone());
                return Ok(Keyed { known: Some(run), run: id, session });
            }
        }
        // A question that was asked before midnight may still wait for its turn, and has no run yet.
        let before = RunId::from(derived("run", canvas, key, today - 1));
        let waits = self.lines.is_asked_for(&RunKey::new(&canvas.tenant, before));
        let day = if waits { today - 1 } else { today };
        let run = RunId::from(derived("run", canvas, key, day));
        let session = SessionId::from(derived("session", canvas, key, day));
        Ok(Keyed { known: None, run, session })
    }

    /// Waits until no identical question in this process is about to start the run that both ask for; returns the run
    /// if it exists by then. While the returned guard is held, all others wait.
    pub(crate) async fn one_of_equals(
        &self,
        run: &RunKey,
        waiting: &Waiting,
    ) -> Result<((Place, OwnedMutexGuard<()>), Option<StoredRun>)> {
        let place = Place::take(&self.lines, WaitedFor::Run(run.clone()));
        let seconds = self.limits.sessions.wait_seconds;
        let Some(turn) = wait_for(lock(&place), in_seconds(seconds), &waiting.stopping).await? else {
            let message = format!("the question has waited {seconds} s for one with the same key to start");
            return Err(Error::new(ErrorKind::Conflict, message).help("ask again with the same key"));
        };
        let known = found(self.runs.get(run).await)?;
        Ok(((place, turn), known))
    }

    /// Returns a run that was started for the same key, from its first entry on.
    ///
    /// # Errors
    /// `Invalid` when it was started for a different question.
    pub async fn again(&self, run: &StoredRun, input: &TurnInput) -> Result<RunHandle> {
        self.check_same(run, input).await?;
        let entries = self.engine.events(&run.key, 0).await?;
        // Of no effect: others may read this run, so an equal question must not be able to stop it.
        Ok(RunHandle { key: run.key.clone(), entries, cancel: CancellationToken::new() })
    }

    async fn check_same(&self, run: &StoredRun, input: &TurnInput) -> Result<()> {
        let first = self.runs.entries(&run.key, 0, 1).await?.into_iter().next();
        // Its first entry is not stored yet.
        let Some(first) = first else { return Ok(()) };
        // Or it is of an older format.
        let Ok(stored) = serde_json::from_str(&first.record) else { return Ok(()) };
        if is_of(&stored, input) {
            return Ok(());
        }
        // The question may contain a secret of the canvas, which is stored nowhere.
        if is_sealed(&first.record) {
            // Boxed, because hardly any question gets here and the others should not reserve the space.
            let plan = Box::pin(self.past_plan_of(run)).await?;
            let begun = Box::pin(self.engine.begun(&run.key, &plan)).await?;
            if begun.is_some_and(|begun| is_of(&begun, input)) {
                return Ok(());
            }
        }
        Err(Error::invalid("the idempotency key was used for another question")
            .help("use a new one for each question, and the same one only to repeat it"))
    }
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;

    use super::*;

    #[test]
    fn ids_follow_from_tenant_canvas_key_and_day() {
        let canvas = |tenant: &str, id: &str| CanvasKey::new(&TenantId::from(tenant), id);
        let id = derived("run", &canvas("t", "c"), "k", 1);
        assert_eq!(id, derived("run", &canvas("t", "c"), "k", 1));
        let others = [
            derived("session", &canvas("t", "c"), "k", 1),
            derived("run", &canvas("other", "c"), "k", 1),
            derived("run", &canvas("t", "ck"), "", 1),
            derived("run", &canvas("t", "c"), "k", 2),
        ];
        assert!(!others.contains(&id) && id.len() == 32, "{others:?}");
    }
}
