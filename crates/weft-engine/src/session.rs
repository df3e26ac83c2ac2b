//! What a session carries from one turn to the next.

use serde::{Deserialize, Serialize};
use weft_core::budget::Spent;
use weft_core::context::HistoryMessage;
use weft_core::past_calls::PastCalls;
use weft_core::{Error, Json, Result, RunId, TurnInput};
use weft_dsl::Plan;

use crate::pause::Paused;

/// The question, as canvases refer to it and may change it.
pub(crate) const QUERY: &str = "sys.query";

/// The files that came with the question.
const FILES: &str = "sys.files";

/// Turns of the conversation that every canvas gets, for `sys.history`.
const HISTORY_TURNS: usize = 13;

/// How many turns of the conversation a canvas needs: as many as its component that looks back
/// furthest.
pub fn turns_looked_back(plan: &Plan) -> usize {
    plan.nodes.iter().map(|node| node.shape.history_turns).fold(HISTORY_TURNS, usize::max)
}

/// The engine's part of a session. Its size does not grow with the conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// `sys.*` and `env.*`.
    pub globals: serde_json::Map<String, Json>,
    /// How many turns there have been.
    pub turns: u64,
    /// The run that waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<Paused>>,
    /// What its turns have used.
    #[serde(default, skip_serializing_if = "Spent::is_none")]
    pub spent: Spent,
    /// What its turns have called, as far as their nodes look back at it.
    #[serde(default, skip_serializing_if = "PastCalls::is_empty")]
    pub calls: PastCalls,
    /// The run that left it so, by which its process knows its own work again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

/// What a turn leaves to the session beside its variables.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// Where it waits for a person.
    pub paused: Option<Paused>,
    /// What it has used.
    pub spent: Spent,
    /// The calls of tools that later turns are to know.
    pub calls: PastCalls,
}

impl SessionState {
    /// The state of a session that has just begun: the canvas's own values, never another session's.
    pub fn new(plan: &Plan) -> Self {
        Self { globals: plan.globals.clone(), ..Self::default() }
    }

    /// The same without its variables: of those a turn has its own from its beginning on.
    pub fn without_globals(&self) -> Self {
        let Self { globals: _, turns, paused, spent, calls, run } = self;
        let (paused, calls, run) = (paused.clone(), calls.clone(), run.clone());
        Self { globals: serde_json::Map::new(), turns: *turns, paused, spent: *spent, calls, run }
    }

    /// From a stored session.
    ///
    /// # Errors
    /// `Internal` when it is not what this program wrote.
    pub fn from_json(json: &Json) -> Result<Self> {
        Self::deserialize(json).map_err(|cause| {
            Error::internal("cannot read the state of the session").because(cause).help("start a new session")
        })
    }

    /// For storing.
    ///
    /// # Errors
    /// `Internal` when it cannot be written as JSON.
    pub fn to_json(&self) -> Result<Json> {
        serde_json::to_value(self)
            .map_err(|cause| Error::internal("cannot write the state of the session").because(cause))
    }

    /// The values a turn begins with. `sys.query`, `sys.user_id` and `sys.files` are set every turn,
    /// also to nothing.
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

    /// The values of a turn that goes on after a pause, with the question and the files as the run has made them out of
    /// what its caller gave `before`. Files that come with an answer take the place of those.
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

    /// The state after a turn, which was this run. The history is kept as messages, not here.
    pub fn after(&self, run: &RunId, mut globals: serde_json::Map<String, Json>, left: TurnOutcome) -> Self {
        // The messages have it; kept here as well, a session would grow with its conversation.
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
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_827_696_000), "2000-02-29 12:34:56");
        assert_eq!(date(i64::MAX), "");
    }

    #[test]
    fn what_follows_a_turn_needs_no_variables_from_before_it() {
        let plan_globals = serde_json::Map::from_iter([("env.a".to_owned(), Json::from(1))]);
        let before = SessionState { globals: plan_globals.clone(), turns: 2, ..SessionState::default() };
        let after =
            |state: &SessionState| state.after(&"r".into(), plan_globals.clone(), TurnOutcome::default());
        let expected = after(&before).to_json().unwrap();
        assert_eq!(after(&before.without_globals()).to_json().unwrap(), expected);
        assert_eq!(expected["turns"], 3);
    }

    #[test]
    fn every_turn_sets_what_the_caller_gave_also_to_nothing() {
        let mut state = SessionState::default();
        state.globals.insert("sys.query".to_owned(), "old".into());
        state.turns = 1;
        let globals = state.globals_for(&TurnInput::default(), &[], &RunId::from("r"), "now");
        assert_eq!((&globals["sys.query"], &globals["sys.run_id"]), (&"".into(), &"r".into()));
        assert_eq!(globals["sys.files"], serde_json::json!([]));
        assert_eq!(globals["sys.conversation_turns"], 2);
    }
}
