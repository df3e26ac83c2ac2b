//! Turns that are tried out: stored nowhere, and done from a recording when nothing may be called.

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

/// A turn to try out.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The turn. Its session need not exist.
    pub request: StartRun,
    /// What the session carries from the turns before.
    pub state: SessionState,
    /// What was said in them.
    pub history: Vec<HistoryMessage>,
    /// The time that the turn takes as its own, in milliseconds since 1970; absent: now.
    pub now_ms: Option<i64>,
    /// Where answers come from.
    pub source: AnswerSource<'a>,
}

/// Where the answers come from that a turn gets from outside.
#[derive(Clone, Copy, Debug)]
pub enum AnswerSource<'a> {
    /// From there.
    Outside,
    /// From a recording, and from nowhere else.
    Recorded {
        /// What was recorded, in the order of the activations.
        answers: &'a [RecordedAnswers],
        /// What the models were, by the ids that the canvas asks for; absent: as they are configured now,
        /// without asking one.
        models: Option<&'a BTreeMap<String, ModelInfo>>,
    },
}

/// A turn that was tried out.
#[derive(Debug)]
pub struct Tried {
    /// Its journal.
    pub entries: Vec<Entry>,
    /// How it went.
    pub report: RunReport,
    /// What a next turn begins with.
    pub state: SessionState,
    /// The conversation, this turn included.
    pub history: Vec<HistoryMessage>,
    /// What it got from outside, so that it can be done again from that. Of a turn that was done from a
    /// recording: what it got from that, with the fingerprints of its questions.
    pub answers: Vec<RecordedAnswers>,
    /// How each call was answered, when it was done from a recording.
    pub calls: Vec<RecordedCall>,
    /// The models that it asked for, by the ids in the canvas.
    pub models: BTreeMap<String, ModelInfo>,
}

impl Engine {
    /// Runs one turn that is stored nowhere. From a recording nothing outside is called: a call that the
    /// recording has no answer to fails, and is told in [`Tried::calls`].
    ///
    /// # Errors
    /// When a waiting run cannot go on with this plan, or the turn's pins make no sense.
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
        let question = (!resumed).then_some(context.input.query.as_str());
        let said = messages(&report, &context, question, 0).into_iter();
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

    /// The same engine, without stores and with the outside as the source has it.
    fn with_source(&self, source: AnswerSource<'_>, now_ms: Option<i64>) -> (Self, Arc<Noting>) {
        let seams = (*self.0.seams).clone();
        let (known, tools, secrets) = match source {
            AnswerSource::Outside => (None, Arc::clone(&seams.tools), Arc::clone(&seams.secrets)),
            // What servers offer is looked at outside of any call.
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

/// Remembers which models were asked for. In a turn that is done from a recording they only say what
/// they are.
struct Noting {
    directory: Arc<dyn ModelDirectory>,
    /// Absent when models are asked; within that, what the recording knows of them.
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
            // What a model can do decides what is asked; taken from the recording, the questions stay those
            // that were answered.
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
