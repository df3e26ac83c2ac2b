//! Trial turns: stored nowhere, and answered from a recording when nothing outside may be called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use weft_core::context::HistoryMessage;
use weft_core::effect::RecordedCall;
use weft_core::seam::chat_model::{ChatModel, ModelDirectory, ModelInfo};
use weft_core::seam::clock::FixedClock;
use weft_core::seam::run_store::RunLease;
use weft_core::seam::secrets::NoSecrets;
use weft_core::seam::tool_source::NoTools;
use weft_core::seam::{Clock, Seams, Secrets, SpeechModel, ToolSource};
use weft_core::{Entry, Result, RunId, TenantId};

use super::replay::StandIn;
use super::turn::{last_record, messages, next_state};
use super::{Engine, StartRun};
use crate::calls::CallHandling;
use crate::drive::RunReport;
use crate::feed::{EntryReader, Feed};
use crate::journal::RunJournal;
use crate::recording::{RecordedAnswers, Recording, ReplayScript, note_questions};
use crate::secrets::StandInSecrets;
use crate::session::{SessionState, turns_looked_back};

/// A turn to try.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The turn. Its session need not exist.
    pub request: StartRun,
    /// The session state that earlier turns have left.
    pub state: SessionState,
    /// The messages of those turns.
    pub history: Vec<HistoryMessage>,
    /// The turn's time, in milliseconds since 1970; if absent, the current time.
    pub now_ms: Option<i64>,
    /// Where its outside calls are answered from.
    pub source: AnswerSource<'a>,
}

/// Where a turn's outside calls are answered from.
#[derive(Clone, Copy, Debug)]
pub enum AnswerSource<'a> {
    /// Real calls.
    Outside,
    /// A recording, and nothing else.
    Recorded {
        /// The recorded answers, in the order of the activations.
        answers: &'a [RecordedAnswers],
        /// The recorded models by the ids that the canvas uses; if absent, the configured ones are described,
        /// but never called.
        models: Option<&'a BTreeMap<String, ModelInfo>>,
    },
}

/// The result of a trial turn.
#[derive(Debug)]
pub struct Tried {
    /// Its journal.
    pub entries: Vec<Entry>,
    /// Its report.
    pub report: RunReport,
    /// The session state that a next turn begins with.
    pub state: SessionState,
    /// The conversation, including this turn.
    pub history: Vec<HistoryMessage>,
    /// The answers it got from outside, from which it can be replayed. For a replayed turn, the answers it
    /// took from the recording, with the fingerprints of its questions.
    pub answers: Vec<RecordedAnswers>,
    /// How each call was answered, when the turn was run from a recording.
    pub calls: Vec<RecordedCall>,
    /// The models that it asked for, by the ids in the canvas.
    pub models: BTreeMap<String, ModelInfo>,
}

impl Engine {
    /// Runs one turn that is stored nowhere. With a recording, nothing outside is called: a call for which
    /// the recording has no answer fails, and is listed in [`Tried::calls`].
    ///
    /// # Errors
    /// When a waiting run cannot be resumed with this plan, or when the turn's pins are invalid.
    pub async fn try_turn(&self, trial: Trial<'_>) -> Result<Tried> {
        let Trial { request, state, mut history, now_ms, source } = trial;
        let (engine, models) = self.with_source(source, now_ms);
        let script = match source {
            AnswerSource::Outside => None,
            AnswerSource::Recorded { answers, .. } => Some(Arc::new(ReplayScript::of(answers))),
        };
        let secrets = engine.secrets_of(&request.plan, &request.session.tenant).await?;
        let mut beginning = engine.beginning(&request.session, RunId::generate(), 0, None);
        beginning.secrets = secrets;
        beginning.now_ms = now_ms.unwrap_or(beginning.now_ms);
        let looked_back = 2 * turns_looked_back(&request.plan);
        // As a stored turn would have read it: no more than its canvas looks back at.
        let recent = history.split_off(history.len().saturating_sub(looked_back));
        let mut prepared = engine.assemble(request, state, recent.clone(), beginning)?;
        history.extend(recent);
        prepared.calls = script.clone().map_or(CallHandling::Kept, CallHandling::Recorded);
        let (before, resumed) = (prepared.state.clone(), prepared.resumes.is_some());
        let (feed, clock) = (Feed::whole(), Arc::clone(&engine.0.seams.clock));
        let mut journal = RunJournal::new(RunLease::first(&prepared.key), None, Arc::clone(&feed), clock);
        let (report, context) = engine.drive(prepared, &mut journal, CancellationToken::new()).await;
        let state = next_state(&before, &report, &context);
        let said = messages(&report, &context, (!resumed).then_some(0), 0).into_iter();
        history.extend(said.map(HistoryMessage::from));
        journal.note(last_record(&report));
        journal.flush().await?;
        feed.close();
        let entries = whole(&feed).await?;
        let calls = script.as_ref().map(|script| script.calls()).unwrap_or_default();
        let mut answers = match source {
            AnswerSource::Outside => Recording::of(&entries).answers(),
            AnswerSource::Recorded { answers, .. } => answers.to_vec(),
        };
        note_questions(&mut answers, &entries, &calls);
        Ok(Tried { entries, report, state, history, answers, calls, models: models.noted() })
    }

    /// Returns this engine without stores, and with the outside replaced as the source says.
    fn with_source(&self, source: AnswerSource<'_>, now_ms: Option<i64>) -> (Self, Arc<Noting>) {
        let seams = (*self.0.seams).clone();
        let (known, tools, secrets) = match source {
            AnswerSource::Outside => (None, Arc::clone(&seams.tools), Arc::clone(&seams.secrets)),
            // The list of tools that a server offers is requested outside of any recorded call.
            AnswerSource::Recorded { models, .. } => {
                let secrets = Arc::new(StandInSecrets(Arc::new(NoSecrets))) as Arc<dyn Secrets>;
                (Some(models.cloned()), Arc::new(NoTools) as Arc<dyn ToolSource>, secrets)
            }
        };
        let models =
            Arc::new(Noting { directory: Arc::clone(&seams.models), known, noted: Mutex::default() });
        let clock = match now_ms {
            Some(now_ms) => Arc::new(FixedClock(now_ms)) as Arc<dyn Clock>,
            None => Arc::clone(&seams.clock),
        };
        let directory = Arc::clone(&models) as Arc<dyn ModelDirectory>;
        let seams = Seams { models: directory, tools, secrets, clock, ..seams };
        (Self::new(Arc::new(seams), None, self.0.limits), models)
    }
}

async fn whole(feed: &Arc<Feed>) -> Result<Vec<Entry>> {
    let mut reader = EntryReader::new(Some(Arc::clone(feed)), None, 0);
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().await? {
        entries.push((*entry).clone());
    }
    Ok(entries)
}

/// Records which models were asked for. In a turn that is run from a recording, the models only describe themselves.
struct Noting {
    directory: Arc<dyn ModelDirectory>,
    /// Absent when models are really called; the inner value is what the recording knows of them.
    known: Option<Option<BTreeMap<String, ModelInfo>>>,
    noted: Mutex<BTreeMap<String, ModelInfo>>,
}

impl Noting {
    fn noted(&self) -> BTreeMap<String, ModelInfo> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ModelDirectory for Noting {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        let configured = || self.directory.resolve(tenant, llm_id);
        let stand_in = |info: Option<ModelInfo>| {
            Arc::new(info.map_or_else(|| StandIn::new(llm_id), StandIn)) as Arc<dyn ChatModel>
        };
        let model = match &self.known {
            None => configured()?,
            Some(None) => stand_in(configured().ok().map(|model| model.info().clone())),
            // What a model can do determines what it is asked; taking its description from the recording
            // keeps the questions as they were answered.
            Some(Some(known)) => stand_in(known.get(llm_id).cloned()),
        };
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(llm_id.to_owned(), model.info().clone());
        Ok(model)
    }

    fn speech(&self, tenant: &TenantId, id: &str) -> Result<Arc<dyn SpeechModel>> {
        match &self.known {
            None => self.directory.speech(tenant, id),
            Some(_) => Ok(Arc::new(StandIn::new(id))),
        }
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.directory.list(tenant)
    }
}
