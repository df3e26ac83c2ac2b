//! Published agents as tools.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use weft_app::new_session::NewSession;
use weft_app::tasks::waiting_run;
use weft_core::component::Form;
use weft_core::error::found;
use weft_core::reference::Inputs;
use weft_core::seam::canvas_store::{CanvasFilter, StoredCanvas};
use weft_core::seam::session_store::Session;
use weft_core::{CanvasKey, Error, ErrorKind, Role, RunKey, SessionKey, TurnInput};
use weft_dsl::Plan;
use weft_mcp::serving::{Call, Outcome, RpcError};

use super::arguments::Arguments;
use super::forms::{self, FormResponse};
use super::{Offering, names, results, tool};
use crate::routes::turn::{SessionOrigin, kept_with};

/// Maximum number of agents that are offered.
const AGENTS_MAX: usize = 1_000;
/// Maximum number of canvases among which they are searched.
const CANVASES_MAX: u64 = 10_000;
/// Number of canvases read in one batch.
const PAGE: u64 = 200;

/// An agent that is offered as a tool.
pub(super) struct Agent {
    pub(super) name: String,
    canvas: StoredCanvas,
    version: Arc<str>,
}

/// A question to an agent.
pub(super) struct AgentQuestion<'a> {
    pub(super) query: &'a str,
    /// Values for the fields of its form.
    pub(super) inputs: Map<String, Json>,
    /// The conversation to continue; absent for a new one.
    pub(super) session: Option<&'a str>,
    /// The version for a new conversation.
    pub(super) version: &'a str,
}

impl Offering {
    /// Returns the published agents, with their tool names.
    pub(super) async fn agents(&self) -> Result<Vec<Agent>, RpcError> {
        let mut published: Vec<(StoredCanvas, Arc<str>)> = Vec::new();
        let mut offset = 0;
        // The store cannot filter by published agents, so all canvases are scanned.
        while published.len() < AGENTS_MAX && offset < CANVASES_MAX {
            let filter = CanvasFilter {
                pipelines: Some(false),
                offset,
                limit: PAGE,
                ascending: true,
                ..CanvasFilter::default()
            };
            let (page, _) = self.app().canvases.list(self.tenant(), &filter).await?;
            let (read, full) = (page.len() as u64, page.len() as u64 == PAGE);
            published.extend(page.into_iter().filter_map(|canvas| {
                let version = Arc::clone(&canvas.published.as_ref()?.0);
                Some((canvas, version))
            }));
            offset += read;
            if !full {
                break;
            }
        }
        // The oldest agents keep their names.
        published.sort_by(|(a, _), (b, _)| {
            (a.created_ms, a.key.id.as_str()).cmp(&(b.created_ms, b.key.id.as_str()))
        });
        published.truncate(AGENTS_MAX);
        let titles = published.iter().map(|(canvas, _)| (canvas.head.title.as_str(), canvas.key.id.as_str()));
        let named = names::assign(titles, tool::is_taken);
        let agent = |(name, (canvas, version))| Agent { name, canvas, version };
        let mut agents: Vec<Agent> = named.into_iter().zip(published).map(agent).collect();
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(agents)
    }

    /// Returns the tool definitions of the agents. An agent that cannot run is left out.
    pub(super) async fn agent_tools(&self) -> Result<Vec<Json>, RpcError> {
        let mut tools = Vec::new();
        for agent in self.agents().await? {
            match self.app().plan(&agent.canvas.key, &agent.version).await {
                Ok(plan) => tools.push(definition(&agent, &plan)),
                Err(error) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotFound) => {
                    tracing::debug!(agent = %agent.canvas.key.id, error = error.detail(), "a published agent cannot run");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(tools)
    }

    /// Returns the input fields of an agent if a header has to mirror any of them.
    pub(super) async fn mirrored_fields(&self, tool: &str) -> Result<Option<Json>, RpcError> {
        let agents = self.agents().await?;
        let Some(agent) = agents.into_iter().find(|agent| agent.name == tool) else { return Ok(None) };
        let plan = self.app().plan(&agent.canvas.key, &agent.version).await?;
        let fields = form(&plan).fields;
        Ok(forms::is_mirrored(&fields).then(|| forms::arguments(&fields)))
    }

    /// Calls the agent that a call names.
    pub(super) async fn ask_agent(&self, call: Call) -> Result<Outcome, RpcError> {
        let agents = self.agents().await?;
        let Some(agent) = agents.into_iter().find(|agent| agent.name == call.name) else {
            let shown: String = call.name.chars().take(128).collect();
            return Err(RpcError::params(format!("there is no tool `{shown}`")));
        };
        let plan = self.app().plan(&agent.canvas.key, &agent.version).await?;
        // If the form has a field of this name, the value is for that field, and the conversation is a new one.
        let own = form(&plan).fields.contains_key(forms::SESSION);
        let (arguments, mut inputs) = (Arguments(&call.arguments), call.arguments.clone());
        let query = arguments.text(forms::QUERY)?.unwrap_or_default().to_owned();
        let session = if own { None } else { arguments.id(forms::SESSION)? };
        if !own {
            inputs.remove(forms::SESSION);
        }
        // The question is passed separately; it is only among the fields if the form has a field for it.
        if !form(&plan).fields.contains_key(forms::QUERY) {
            inputs.remove(forms::QUERY);
        }
        let question = AgentQuestion { query: &query, inputs, session, version: "published" };
        self.ask(&agent.canvas.key, question, &call).await
    }

    /// Asks an agent, or resumes a run that has asked something. Failures of the agent are returned as results.
    pub(super) async fn ask(
        &self,
        canvas: &CanvasKey,
        question: AgentQuestion<'_>,
        call: &Call,
    ) -> Result<Outcome, RpcError> {
        let begun = match &call.state {
            Some(state) => self.go_on(canvas, state, call).await,
            None => self.begin(canvas, question).await,
        };
        match begun {
            Ok((session, handle)) => self.follow(handle, &session.key.id, call).await,
            // An internal error of this server is nothing that a model could act on.
            Err(error) if error.kind == ErrorKind::Internal => Err(error.into()),
            Err(error) => Ok(Outcome::Done(results::failed(&error.full()))),
        }
    }

    async fn begin(
        &self,
        canvas: &CanvasKey,
        question: AgentQuestion<'_>,
    ) -> weft_core::Result<(Session, weft_engine::RunHandle)> {
        let user_id = self.caller.user_id.clone();
        let AgentQuestion { query, inputs, session, version } = question;
        let (session, origin) = match session {
            Some(id) => (self.session_of(canvas, id).await?, SessionOrigin::Known),
            None => {
                let new = NewSession { user_id: &user_id, name: query, ..NewSession::default() };
                (self.app().open_session_on(canvas, new, version).await?, SessionOrigin::Begun)
            }
        };
        let input = TurnInput { query: query.to_owned(), user_id, inputs, ..TurnInput::default() };
        let asked = self.app().ask_of(&session, &input, &self.state.waiting(None)).await;
        let handle = kept_with(&self.state, &session, origin, asked).await?;
        Ok((session, handle))
    }

    /// Returns a session of this agent.
    async fn session_of(&self, canvas: &CanvasKey, id: &str) -> weft_core::Result<Session> {
        let unknown = || Error::not_found(format!("there is no session {id} of this agent"));
        let session = found(self.app().sessions.load(&SessionKey::new(self.tenant(), id)).await)?;
        // The session of another agent is not distinguished from an unknown one.
        session.filter(|session| session.canvas == canvas.id).ok_or_else(unknown)
    }

    /// Resumes the run whose state a call has returned, if it is one of this agent.
    async fn go_on(
        &self,
        canvas: &CanvasKey,
        state: &str,
        call: &Call,
    ) -> weft_core::Result<(Session, weft_engine::RunHandle)> {
        let unknown = || Error::invalid("`requestState` is not valid: call the tool again");
        let run = found(self.app().runs.get(&RunKey::new(self.tenant(), state)).await)?;
        let run = run.filter(|run| run.canvas == canvas.id).ok_or_else(unknown)?;
        let session = self.session_of(canvas, run.session.as_str()).await?;
        // Only the session's currently open tasks can be answered, whatever run the state names.
        let open = self.open_tasks(&run.session).await.map_err(|error| Error::invalid(error.message))?;
        let answers = match forms::hear(&open, &call.answers) {
            FormResponse::Answers(answers) => answers,
            FormResponse::Declined => {
                let given_up = match waiting_run(&session) {
                    Some(waits) => self.app().give_up_waiting(&session.key, &waits).await?,
                    None => false,
                };
                return Err(if given_up {
                    Error::new(ErrorKind::Cancelled, "the person declined, and the run was abandoned")
                } else {
                    let message = "the person declined, but the conversation has continued in the meantime";
                    Error::new(ErrorKind::Conflict, message)
                });
            }
            FormResponse::Nothing => {
                let message = "nothing was answered, so the run is still waiting";
                return Err(Error::invalid(message).help("call the tool again, or answer what it asks"));
            }
        };
        let handle = self.app().answer_tasks(&session, answers, &self.state.waiting(None)).await?;
        Ok((session, handle))
    }
}

/// Returns the form of the input of a run.
fn form(plan: &Plan) -> Form {
    let entry = plan.nodes.iter().find(|node| node.role == Role::Entry);
    entry.map(|node| node.component.form(&Inputs::default())).unwrap_or_default()
}

fn definition(agent: &Agent, plan: &Plan) -> Json {
    let head = &agent.canvas.head;
    let description = match head.description.trim() {
        "" => format!("Asks the agent \"{}\".", head.title),
        text => text.to_owned(),
    };
    json!({
        "name": agent.name,
        "title": head.title,
        "description": description,
        "inputSchema": forms::arguments(&form(plan).fields),
        "outputSchema": results::schema(),
        "annotations": {"title": head.title, "readOnlyHint": false, "openWorldHint": true},
        "execution": {"taskSupport": "optional"},
    })
}
