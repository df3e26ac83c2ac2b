//! What the server offers to MCP clients: published agents as tools, runs as tasks, datasets, and tools for building
//! canvases. The protocol itself is in `weft_mcp::serving`.

mod agents;
mod arguments;
mod authoring;
mod datasets;
mod following;
mod forms;
mod names;
mod results;
mod skill;
mod tasks;
mod tool;

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use weft_core::access::Permission;
use weft_core::{Result, TenantId, async_trait};
use weft_mcp::serving::{About, Call, Feature, Listing, Outcome, RpcError, Service, TaskView, code};

use crate::audit::note_call;
use crate::auth::Caller;
use crate::error;
use crate::state::ServerState;
use weft_app::app::App;
use weft_app::config::Auth;

/// Number of definitions in one answer.
const PAGE: usize = 200;

/// The server as it is offered to one caller.
#[derive(Clone, Debug)]
pub struct Offering {
    pub(crate) state: ServerState,
    pub(crate) caller: Caller,
}

impl Offering {
    /// Creates the offering for a caller.
    pub fn new(state: ServerState, caller: Caller) -> Self {
        Self { state, caller }
    }

    fn app(&self) -> &App {
        &self.state.app
    }

    fn tenant(&self) -> &TenantId {
        &self.caller.tenant
    }

    /// Checks a permission of the caller, and records the call for the audit log like a request, because one route
    /// serves all of these.
    async fn admit(&self, needs: Permission, what: &str) -> Result<(), RpcError> {
        let admitted = self.caller.check(needs);
        let outcome = admitted.as_ref().map_or(error::code::OPERATING, |()| 0);
        // Refused calls are recorded, too.
        note_call(self.app(), &self.caller, needs, what, outcome).await;
        admitted.map_err(|refused| RpcError::new(code::INVALID_REQUEST, refused.message()))
    }
}

/// Answers the messages of a client in a line-based stream until it ends or `stopping` fires, and meanwhile also
/// keeps runs going.
///
/// # Errors
/// When the streams fail.
pub async fn converse(
    app: App,
    tenant: TenantId,
    source: impl AsyncRead + Send + Unpin,
    sink: impl AsyncWrite + Send + Unpin,
    stopping: CancellationToken,
) -> Result<()> {
    // The caller is the user who started this process.
    let state = ServerState::until(app.clone(), Auth::Off, stopping.clone())?;
    let offering = Arc::new(Offering::new(state, tenant.into()));
    // There may be no server on this store that looks after the runs and tasks.
    tokio::select! {
        ended = weft_mcp::serving::converse(offering, source, sink) => ended,
        () = app.keep_runs_going() => Ok(()),
        () = Box::pin(app.keep_tasks_timely()) => Ok(()),
        () = stopping.cancelled() => Ok(()),
    }
}

#[async_trait]
impl Service for Offering {
    fn about(&self) -> About {
        About {
            name: "weft",
            title: "Weft",
            version: env!("CARGO_PKG_VERSION"),
            instructions: "Each published agent is a tool: ask it with `query`, and continue a conversation with its \
                `session_id`. `ragflow_retrieval` searches datasets. To build an agent, read the resource \
                skill://weft-canvas/SKILL.md first, then use `list_components`, `component_schema`, \
                `check_canvas`, `put_canvas`, `run_canvas` and `get_run`.",
            features: &[Feature::Resources, Feature::Tasks, Feature::ListChanges],
        }
    }

    async fn tools(&self, cursor: Option<&str>) -> Result<Listing, RpcError> {
        // Tools that the caller may not use are not offered.
        let mut all: Vec<Json> = tool::all()
            .filter(|tool| self.caller.role.may(tool.needs))
            .map(tool::BuiltIn::definition)
            .collect();
        if self.caller.role.may(Permission::Run) {
            all.extend(self.agent_tools().await?);
        }
        let name = |one: &Json| one["name"].as_str().map(str::to_owned);
        // A cursor is a name rather than a position: agents come and go between two pages.
        let from = match cursor {
            None => 0,
            Some(last) => match all.iter().position(|one| one["name"] == last) {
                Some(place) => place + 1,
                None => {
                    return Err(RpcError::params("`cursor` is not valid, or its tool no longer exists"));
                }
            },
        };
        let more = all.len() > from + PAGE;
        let items: Vec<Json> = all.into_iter().skip(from).take(PAGE).collect();
        let next = items.last().and_then(name).filter(|_| more);
        Ok(Listing { items, next })
    }

    async fn mirrored(&self, tool: &str) -> Result<Option<Json>, RpcError> {
        if tool::is_taken(tool) {
            return Ok(None);
        }
        self.mirrored_fields(tool).await
    }

    async fn ended(&self) {
        self.state.stopping.cancelled().await;
    }

    async fn call(&self, call: Call) -> Result<Outcome, RpcError> {
        // Built-in tools come first; no agent gets the name of one.
        match tool::all().find(|tool| tool.name == call.name) {
            Some(tool) => {
                self.admit(tool.needs, &call.name).await?;
                (tool.run)(self, &call).await
            }
            None => {
                self.admit(Permission::Run, &call.name).await?;
                self.ask_agent(call).await
            }
        }
    }

    async fn resources(&self, _: Option<&str>) -> Result<Listing, RpcError> {
        Ok(vec![skill::resource()].into())
    }

    async fn read(&self, call: Call) -> Result<Option<Outcome>, RpcError> {
        Ok(skill::read(&call.name).map(Outcome::Done))
    }

    async fn task(&self, id: &str) -> Result<TaskView, RpcError> {
        self.task_view(id).await
    }

    async fn answer_task(&self, id: &str, answers: Map<String, Json>) -> Result<(), RpcError> {
        self.admit(Permission::Run, "tasks/update").await?;
        self.answer_questions(id, answers).await
    }

    async fn cancel_task(&self, id: &str) -> Result<(), RpcError> {
        self.admit(Permission::Run, "tasks/cancel").await?;
        self.cancel_run(id).await
    }

    async fn tasks(&self, cursor: Option<&str>) -> Result<(Vec<TaskView>, Option<String>), RpcError> {
        self.task_views(cursor).await
    }
}
