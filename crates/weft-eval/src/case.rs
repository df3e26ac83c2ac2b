//! Runs a case, turn by turn, on recorded answers or against the real services.

use std::sync::Arc;
use std::time::Instant;

use weft_core::context::HistoryMessage;
use weft_core::effect::{Match, RecordedCall};
use weft_core::journal::Ending;
use weft_core::{CanvasId, Record, Result, SessionKey, TurnInput};
use weft_dsl::Plan;
use weft_engine::engine::{AnswerSource, Trial, Tried};
use weft_engine::recording::RecordedAnswers;
use weft_engine::{Engine, SessionState, StartRun};

use crate::expect::{Expectation, Miss};
use crate::file::{Case, Invalid, JudgedCriterion, RecordedCase, RecordedTurn, Turn};
use crate::observed::Observed;
use crate::report::{CaseReport, TurnReport};

/// Returns the judging canvas for a model's id, or why there is none.
pub type Judging = dyn Fn(&str) -> std::result::Result<Arc<Plan>, String> + Send + Sync;

/// The subject of an eval.
#[derive(Clone)]
pub struct Subject {
    /// The engine, with the external services that a live run uses.
    pub engine: Engine,
    /// The canvas.
    pub plan: Arc<Plan>,
    /// Its id, as runs report it.
    pub canvas: CanvasId,
    /// The tenant and conversation of the runs.
    pub session: SessionKey,
    /// Finds the judging canvas.
    pub judge: Arc<Judging>,
}

/// Where answers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only from the file.
    Recorded,
    /// From the real models, tools and services; their answers are recorded.
    Live,
}

/// A conversation in progress.
struct Conversation {
    state: SessionState,
    history: Vec<HistoryMessage>,
}

/// A turn that was run, and what is needed to repeat it.
pub struct Taken {
    /// Its input.
    pub input: TurnInput,
    /// The seed of random choices.
    pub seed: u64,
    /// The time that it used as the current time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Answers from external services.
    pub answers: Vec<RecordedAnswers>,
}

/// The input of a turn besides the conversation.
struct GivenTurn {
    input: TurnInput,
    /// The seed of the recorded turn.
    seed: Option<u64>,
    /// The time of the recorded turn.
    now_ms: Option<i64>,
}

impl Subject {
    /// Checks that a case only refers to nodes of the canvas, by id or display name.
    ///
    /// # Errors
    /// The name that no node has, with its place.
    pub fn check(&self, case: &Case) -> std::result::Result<(), Invalid> {
        for (at, turn) in case.turns.iter().enumerate() {
            for (nth, expectation) in turn.expect.iter().enumerate() {
                let known = |name: &&str| {
                    self.plan.nodes.iter().any(|node| node.id.as_str() == *name || *node.name == **name)
                };
                if let Some(name) = expectation.nodes().into_iter().find(|name| !known(name)) {
                    let ids: Vec<_> = self.plan.nodes.iter().map(|node| node.id.as_str()).collect();
                    let message = format!("turns[{at}].expect[{nth}]: the canvas has no node `{name}`");
                    return Err(Invalid::new(message).help(format!("it has: {}", ids.join(", "))));
                }
            }
        }
        Ok(())
    }

    fn begin(&self) -> Conversation {
        Conversation { state: SessionState::new(&self.plan), history: Vec::new() }
    }

    async fn turn(
        &self,
        conversation: &mut Conversation,
        given: GivenTurn,
        source: AnswerSource<'_>,
    ) -> Result<Tried> {
        let GivenTurn { input, seed, now_ms } = given;
        input.check_files()?;
        let request = StartRun {
            plan: Arc::clone(&self.plan),
            canvas: self.canvas.clone(),
            session: self.session.clone(),
            input,
            seed,
            task: None,
        };
        // The history is moved rather than copied: a turn that fails ends the case, so that it is not needed
        // afterwards.
        let (state, history) = (conversation.state.clone(), std::mem::take(&mut conversation.history));
        let tried = self.engine.try_turn(Trial { request, state, history, now_ms, source }).await?;
        conversation.state = tried.state.clone();
        conversation.history.clone_from(&tried.history);
        Ok(tried)
    }

    /// Runs a case. With [`Mode::Live`], the report contains the recorded answers, to be written into the file.
    pub async fn run(&self, case: &Case, mode: Mode) -> CaseReport {
        let began = Instant::now();
        let mut report = CaseReport::new(&case.name);
        let done = match mode {
            Mode::Recorded => self.run_recorded(case, &mut report).await,
            Mode::Live => self.run_live(case, &mut report).await,
        };
        if let Err(error) = done {
            report.error = Some(error.full());
        }
        report.seconds = began.elapsed().as_secs_f64();
        report
    }

    async fn run_recorded(&self, case: &Case, report: &mut CaseReport) -> Result<()> {
        let mut conversation = self.begin();
        for (at, turn) in case.turns.iter().enumerate() {
            let recorded = case.recorded.as_ref().and_then(|of| of.turns.get(at));
            let Some(RecordedTurn { now_ms, seed, models, answers, judged }) = recorded else {
                report.error = Some(format!("turn {} was never recorded", at + 1));
                return Ok(());
            };
            let source = AnswerSource::Recorded { answers, models: Some(models) };
            let given = GivenTurn { input: turn.input(), seed: Some(*seed), now_ms: Some(*now_ms) };
            // The time and the seed are those of the recording: prompts may contain the time, and random choices follow
            // the seed.
            let tried = self.turn(&mut conversation, given, source).await?;
            let seen = Observed::of(&tried);
            let usual = usual_endings(case, at);
            report.turns.push(looked_at(turn, usual, seen, judged, &tried.calls));
        }
        Ok(())
    }

    async fn run_live(&self, case: &Case, report: &mut CaseReport) -> Result<()> {
        let mut conversation = self.begin();
        // Kept until all turns have run: a conversation is only repeated as a whole.
        let (mut taken, mut judged_all) = (Vec::new(), Vec::new());
        for (at, turn) in case.turns.iter().enumerate() {
            let given = GivenTurn { input: turn.input(), seed: None, now_ms: None };
            let tried = self.turn(&mut conversation, given, AnswerSource::Outside).await?;
            let seen = Observed::of(&tried);
            // Before the next turn: if this fails, no more model calls are made.
            let judged = self.judge(turn, &seen).await?;
            let (seed, now_ms) = begun(&tried);
            let usual = usual_endings(case, at);
            // Without calls to compare: this turn is the recording.
            report.turns.push(looked_at(turn, usual, seen, &judged, &[]));
            taken.push(Taken { input: turn.input(), seed, now_ms, answers: tried.answers });
            judged_all.push(judged);
        }
        // Repeated immediately, to see whether the recording is usable before it is stored.
        let again = self.again(&taken).await?;
        let mut turns = Vec::new();
        for ((recorded, calls, _), judged) in again.into_iter().zip(judged_all) {
            report.lacking(&calls);
            turns.push(RecordedTurn { judged, ..recorded });
        }
        report.recorded = Some(RecordedCase { case: case.name.clone(), turns });
        Ok(())
    }

    /// Repeats turns from their recorded answers. This shows what their calls asked and which models they used, and
    /// whether they can be repeated at all.
    ///
    /// # Errors
    /// When a turn cannot begin.
    pub async fn again(&self, taken: &[Taken]) -> Result<Vec<(RecordedTurn, Vec<RecordedCall>, Observed)>> {
        let mut conversation = self.begin();
        let mut turns = Vec::new();
        for Taken { input, seed, now_ms, answers } in taken {
            let source = AnswerSource::Recorded { answers, models: None };
            let given = GivenTurn { input: input.clone(), seed: Some(*seed), now_ms: Some(*now_ms) };
            let tried = self.turn(&mut conversation, given, source).await?;
            let seen = Observed::of(&tried);
            let mut answers = tried.answers;
            // Activations are identified by their order, so only those after the last answer are useless.
            while answers.last().is_some_and(|of| of.gave.is_empty()) {
                answers.pop();
            }
            let recorded = RecordedTurn {
                now_ms: *now_ms,
                seed: *seed,
                models: tried.models,
                answers: needed(answers),
                judged: Vec::new(),
            };
            turns.push((recorded, tried.calls, seen));
        }
        Ok(turns)
    }

    /// Asks models to judge what only a reader can tell.
    async fn judge(&self, turn: &Turn, seen: &Observed) -> Result<Vec<JudgedCriterion>> {
        let mut all = Vec::new();
        for expectation in &turn.expect {
            let Expectation::Judge(judge) = expectation else { continue };
            let plan = (self.judge)(&judge.model).map_err(weft_core::Error::invalid)?;
            // The same engine and session with another plan: the judge is a canvas, too.
            let judging = Self { plan, ..self.clone() };
            let query = crate::judge::question(&judge.criterion, &turn.query, &seen.answer);
            let input = TurnInput { query, ..TurnInput::default() };
            // A separate conversation: earlier verdicts must not influence it.
            let mut conversation = judging.begin();
            // Boxed, because few turns are judged, and all would reserve the space.
            let tried = Box::pin(judging.turn(
                &mut conversation,
                GivenTurn { input, seed: None, now_ms: None },
                AnswerSource::Outside,
            ))
            .await?;
            all.push(crate::judge::verdict(&judge.criterion, &seen.answer, &Observed::of(&tried))?);
        }
        Ok(all)
    }
}

/// Drops the activations of places without any answers: they are only needed for counting.
fn needed(answers: Vec<RecordedAnswers>) -> Vec<RecordedAnswers> {
    let used: Vec<_> = answers.iter().filter(|of| !of.gave.is_empty()).map(|of| of.place.clone()).collect();
    answers.into_iter().filter(|of| used.contains(&of.place)).collect()
}

fn begun(tried: &Tried) -> (u64, i64) {
    match tried.entries.first().map(|entry| &entry.record) {
        Some(Record::RunStarted { seed, now_ms, .. }) => (*seed, *now_ms),
        _ => (0, 0),
    }
}

/// Returns the endings that are accepted by default for a turn: only the last one is not followed by another turn.
fn usual_endings(case: &Case, turn: usize) -> &'static [Ending] {
    if turn + 1 == case.turns.len() { &[Ending::Succeeded] } else { &[Ending::Succeeded, Ending::Waiting] }
}

/// Compares a turn with what is expected of it; `usual` are the endings that are accepted by default.
fn looked_at(
    turn: &Turn,
    usual: &[Ending],
    seen: Observed,
    judged: &[JudgedCriterion],
    calls: &[RecordedCall],
) -> TurnReport {
    let mut misses = Vec::new();
    for call in calls.iter().filter(|call| call.answered == Match::Lacking) {
        let expected = format!("an answer to the call {} of {}", call.key, call.node);
        misses.push(Miss::new("recording", expected, "there is none: record it again"));
    }
    // An expectation of a status replaces the default.
    let speaks = |expectation: &Expectation| matches!(expectation, Expectation::Status(_));
    if !turn.expect.iter().any(speaks) {
        misses.extend(crate::expect::status(usual, &seen));
    }
    for (nth, expectation) in turn.expect.iter().enumerate() {
        let verdict = match expectation {
            Expectation::Judge(judge) => crate::judge::of(judged, &judge.criterion, &seen.answer),
            _ => None,
        };
        let found = expectation.misses(&seen, verdict).into_iter();
        misses.extend(found.map(|miss| Miss { expectation: Some(nth), ..miss }));
    }
    let differing = calls.iter().filter(|call| call.answered == Match::Differs);
    let stale = differing.map(|call| format!("{} of {}", call.key, call.node)).collect();
    TurnReport { query: turn.query.clone(), expectations: turn.expect.len(), misses, stale, seen }
}
