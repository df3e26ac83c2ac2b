//! What a session carries from one turn to the next.

use serde::{Deserialize, Serialize};
use weft_core::budget::Spent;
use weft_core::context::HistoryMessage;
use weft_core::past_calls::PastCalls;
use weft_core::{Ending, Error, Json, Result, RunId, TurnInput};
use weft_dsl::Plan;

use crate::pause::Paused;

/// The question, as canvases refer to it and may change it.
pub(crate) const QUERY: &str = "sys.query";

/// The files that came with the question.
const FILES: &str = "sys.files";

/// Number of turns of the conversation that every canvas gets in `sys.history`.
const HISTORY_TURNS: usize = 13;

/// Number of turns of the conversation that a canvas needs: as many as its component that looks back furthest.
pub fn turns_looked_back(plan: &Plan) -> usize {
    plan.nodes.iter().map(|node| node.shape.history_turns).fold(HISTORY_TURNS, usize::max)
}

/// The engine's part of a session. Its size does not grow with the conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// `sys.*` and `env.*`.
    pub globals: serde_json::Map<String, Json>,
    /// Number of turns so far.
    pub turns: u64,
    /// The run that waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<Paused>>,
    /// What its turns have used.
    #[serde(default, skip_serializing_if = "Spent::is_none")]
    pub spent: Spent,
    /// Past tool calls, as far as its nodes look back at them.
    #[serde(default, skip_serializing_if = "PastCalls::is_empty")]
    pub calls: PastCalls,
    /// The run that left it in this state, by which its process recognises its own commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// How that run ended, for the process that has to write its last record when its own could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// What a turn leaves to the session besides its variables.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// Its paused state, if it waits for a person.
    pub paused: Option<Paused>,
    /// What it has used.
    pub spent: Spent,
    /// The tool calls that later turns are to know.
    pub calls: PastCalls,
    /// How its run ended.
    pub ending: Option<Ending>,
}

impl SessionState {
    /// Returns the state of a new session: the canvas's own values, never another session's.
    pub fn new(plan: &Plan) -> Self {
        Self { globals: plan.globals.clone(), ..Self::default() }
    }

    /// Returns the state without its variables, of which a running turn has its own copy.
    pub fn without_globals(&self) -> Self {
        // Each field by name, so that one that is added is not left out unnoticed.
        let Self { globals: _, turns, paused, spent, calls, run, ending } = self;
        let (paused, calls, run) = (paused.clone(), calls.clone(), run.clone());
        let globals = serde_json::Map::new();
        Self { globals, turns: *turns, paused, spent: *spent, calls, run, ending: *ending }
    }

    /// Reads the state of a stored session.
    ///
    /// # Errors
    /// `Internal` when it was not written by this program.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::deserialize(json).map_err(|cause| {
            Error::internal("cannot read the state of the session").because(cause).help("start a new session")
        })
    }

    /// Returns the state for storage.
    ///
    /// # Errors
    /// `Internal` when it cannot be written as JSON.
    pub fn to_json(&self) -> Result<Json> {
        serde_json::to_value(self)
            .map_err(|cause| Error::internal("cannot write the state of the session").because(cause))
    }

    /// Returns the globals that a turn begins with. `sys.query`, `sys.user_id` and `sys.files` are set every
    /// turn, even if empty.
    pub fn globals_for(
        &self,
        input: &TurnInput,
        history: &[HistoryMessage],
        run: &RunId,
        now: &str,
    ) -> serde_json::Map<String, Json> {
        let mut globals = self.globals.clone();
        let lines =
            history.iter().map(|message| Json::String(format!("{}: {}", message.role, message.content)));
        globals.insert(QUERY.to_owned(), Json::String(input.query.clone()));
        globals.insert("sys.user_id".to_owned(), Json::String(input.user_id.clone()));
        globals.insert(FILES.to_owned(), Json::Array(input.files.clone()));
        globals.insert("sys.conversation_turns".to_owned(), Json::from(self.turns + 1));
        globals.insert("sys.history".to_owned(), Json::Array(lines.collect()));
        globals.insert("sys.date".to_owned(), Json::String(now.to_owned()));
        globals.insert("sys.run_id".to_owned(), Json::String(run.to_string()));
        globals
    }

    /// Returns the globals of a turn that resumes after a pause, keeping the question and the files as the
    /// run has changed them from the caller's input `before`. Files that come with an answer replace them.
    pub(crate) fn with_assigned(
        &self,
        mut globals: serde_json::Map<String, Json>,
        before: &TurnInput,
    ) -> serde_json::Map<String, Json> {
        let same_files = globals.get(FILES).and_then(Json::as_array) == Some(&before.files);
        let kept = [(QUERY, true), (FILES, same_files)].into_iter().filter(|(_, kept)| *kept);
        for (name, value) in kept.filter_map(|(name, _)| Some((name, self.globals.get(name)?))) {
            globals.insert(name.to_owned(), value.clone());
        }
        globals
    }

    /// Returns the state after a turn, whose run is `run`. The history is stored as messages, not here.
    pub fn after(&self, run: &RunId, mut globals: serde_json::Map<String, Json>, left: TurnOutcome) -> Self {
        // The messages have it; if it were kept here as well, a session would grow with its conversation.
        globals.insert("sys.history".to_owned(), Json::Array(Vec::new()));
        // The next turn is another run.
        globals.insert("sys.run_id".to_owned(), Json::String(String::new()));
        Self {
            globals,
            turns: self.turns + 1,
            paused: left.paused.map(Box::new),
            spent: self.spent + left.spent,
            calls: left.calls,
            run: Some(run.clone()),
            ending: left.ending,
        }
    }
}

/// `YYYY-MM-DD HH:MM:SS` in UTC; empty for a time outside the calendar.
pub fn date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_827_696_000), "2000-02-29 12:34:56");
        assert_eq!(date(i64::MAX), "");
    }

    #[test]
    fn the_next_state_does_not_need_the_previous_globals() {
        let plan_globals = serde_json::Map::from_iter([("env.a".to_owned(), Json::from(1))]);
        let before = SessionState { globals: plan_globals.clone(), turns: 2, ..SessionState::default() };
        let after =
            |state: &SessionState| state.after(&"r".into(), plan_globals.clone(), TurnOutcome::default());
        let expected = after(&before).to_json().unwrap();
        assert_eq!(after(&before.without_globals()).to_json().unwrap(), expected);
        assert_eq!(expected["turns"], 3);
    }

    #[test]
    fn every_turn_resets_caller_values_even_to_empty() {
        let mut state = SessionState::default();
        state.globals.insert("sys.query".to_owned(), "old".into());
        state.turns = 1;
        let globals = state.globals_for(&TurnInput::default(), &[], &RunId::from("r"), "now");
        assert_eq!((&globals["sys.query"], &globals["sys.run_id"]), (&"".into(), &"r".into()));
        assert_eq!(globals["sys.files"], serde_json::json!([]));
        assert_eq!(globals["sys.conversation_turns"], 2);
    }
}
