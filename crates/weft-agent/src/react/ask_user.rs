//! Questions of an agent to people, which do not stop its work.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{Notify, oneshot};
use weft_core::tool::{Invocation, Origin, ToolBody, ToolOutput, ToolStream, ToolTraits, once};
use weft_core::{Error, ErrorKind, Json, Result, Tool};

use crate::function::arguments_schema;

/// The name of the tool that asks.
pub const ASK_FUNCTION: &str = "ask_user";
/// Maximum number of questions that are open at the same time, over all sessions of an agent.
// Each is held in memory for up to a day.
pub const QUESTIONS_OPEN_MAX: usize = 1_000;
/// How long a question is open; after that its task fails and the model is told.
// People may answer the next day; the limit is there so that no task waits forever.
const ANSWER_TIME: Duration = Duration::from_secs(24 * 3_600);

/// An open question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserQuestion {
    /// Its id, such as `question_1`.
    pub id: String,
    /// The session whose model asks; see [`super::Session::id`].
    pub session: String,
    /// The question.
    pub question: String,
    /// Answers that the model proposes; other answers are possible, too.
    pub choices: Vec<String>,
}

/// The questions of an agent. Clones share them; their tool is passed to
/// [`super::ReActAgentBuilder::background_tool`], so that the model works on while its question is open and is
/// notified of the answer. A question is closed when its task is stopped or its session ends.
#[derive(Clone, Debug, Default)]
pub struct UserQuestions(Arc<SharedQuestions>);

#[derive(Debug, Default)]
struct SharedQuestions {
    state: Mutex<QuestionState>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct QuestionState {
    asked: u64,
    open: VecDeque<(UserQuestion, oneshot::Sender<String>)>,
}

impl UserQuestions {
    /// The tool with which a model asks.
    ///
    /// # Errors
    /// None for its fixed arguments.
    pub fn tool(&self) -> Result<Tool> {
        let description = "Asks the user something that only the user can decide or knows. Go on with what does not \
                           depend on the answer.";
        let body = Arc::new(AskUserTool(self.clone()));
        let tool = Tool::new(ASK_FUNCTION, description, arguments_schema::<Asked>()?, Origin::Function, body);
        Ok(tool.with_traits(ToolTraits { time_limit: ANSWER_TIME, ..ToolTraits::default() }))
    }

    /// The open questions of a session, oldest first.
    pub fn open(&self, session: &str) -> Vec<UserQuestion> {
        let of_session = |(question, _): &&(UserQuestion, _)| question.session == session;
        self.state().open.iter().filter(of_session).map(|(question, _)| question.clone()).collect()
    }

    /// Answers a question of a session. The model gets the answer when it looks at the task or waits for it.
    ///
    /// # Errors
    /// `NotFound` when the session has no open question of this id; `Invalid` for an empty answer.
    pub fn answer(&self, session: &str, id: &str, answer: impl Into<String>) -> Result<()> {
        let answer = answer.into();
        if answer.trim().is_empty() {
            return Err(Error::invalid("the answer is empty").help("say something, or stop the task"));
        }
        let mut state = self.state();
        let place = state.open.iter().position(|(open, _)| open.session == session && open.id == id);
        let Some((_, reply)) = place.and_then(|place| state.open.remove(place)) else {
            let error = Error::not_found(format!("the session has no open question `{id}`"));
            return Err(
                error.help("it may have been answered, stopped or given up; check the open questions")
            );
        };
        // The asking call may just have been dropped.
        let _ = reply.send(answer);
        Ok(())
    }

    /// Waits until a session has an open question and returns the oldest.
    pub async fn next(&self, session: &str) -> UserQuestion {
        loop {
            let asked = self.0.asked.notified();
            tokio::pin!(asked);
            // Registered before the check: a question that is asked in between is not missed.
            asked.as_mut().enable();
            if let Some(question) = self.open(session).into_iter().next() {
                return question;
            }
            asked.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, QuestionState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a question. It is closed when the returned guard is dropped.
    fn ask(&self, session: String, asked: Asked) -> Result<(OpenQuestion, oneshot::Receiver<String>)> {
        let mut state = self.state();
        if state.open.len() >= QUESTIONS_OPEN_MAX {
            let error = Error::new(ErrorKind::QuotaExceeded, "too many questions wait for people already");
            return Err(error.help("go on without an answer"));
        }
        state.asked += 1;
        let id = format!("question_{}", state.asked);
        let (reply, answer) = oneshot::channel();
        let Asked { question, choices } = asked;
        let choices = choices.unwrap_or_default();
        state.open.push_back((UserQuestion { id: id.clone(), session, question, choices }, reply));
        drop(state);
        // All of them: each waits for its own session and checks whether the question is for it.
        self.0.asked.notify_waiters();
        Ok((OpenQuestion { questions: self.clone(), id }, answer))
    }
}

/// Closes a question when it is dropped.
struct OpenQuestion {
    questions: UserQuestions,
    id: String,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.questions.state().open.retain(|(question, _)| question.id != self.id);
    }
}

#[derive(Deserialize, JsonSchema)]
struct Asked {
    /// The question, in the user's language.
    question: String,
    /// Answers to choose from, if there are such.
    choices: Option<Vec<String>>,
}

struct AskUserTool(UserQuestions);

impl ToolBody for AskUserTool {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let questions = self.0.clone();
        once(async move {
            let asked = serde_json::from_value(Json::Object(invocation.arguments))
                .map_err(|cause| Error::invalid("the question is not as it has to be").because(cause))?;
            // Held until the answer is there: when the call is dropped, its question is closed.
            let (open, answer) = questions.ask(invocation.agent.run.session.to_string(), asked)?;
            let said = answer.await;
            drop(open);
            said.map(ToolOutput::text)
                .map_err(|_| Error::new(ErrorKind::Cancelled, "the question was given up"))
        })
    }
}
