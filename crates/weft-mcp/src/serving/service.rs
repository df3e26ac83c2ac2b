//! What is offered to clients.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Map;
use tokio_util::sync::CancellationToken;
use weft_core::Json;

use super::capabilities::Client;
use super::message::{RpcError, code};
use super::outlet::Outlet;
use super::task::TaskView;

/// What a service can do besides tools, which each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Resources to be read.
    Resources,
    /// Clients may ask to hear of changes of a resource.
    Subscriptions,
    /// Prompts.
    Prompts,
    /// Values for arguments are suggested.
    Completions,
    /// It tells what it does.
    Logging,
    /// Calls may outlast their request.
    Tasks,
    /// Clients hear of it when the tools are others.
    ListChanges,
}

/// What a service says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Its name for programs.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its version.
    pub version: &'static str,
    /// How to use it; may be empty.
    pub instructions: &'static str,
    /// What it can do.
    pub features: &'static [Feature],
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The definitions, as the protocol has them.
    pub items: Vec<Json>,
    /// Where the next part begins, if there is one.
    pub next: Option<String>,
}

impl From<Vec<Json>> for Listing {
    fn from(items: Vec<Json>) -> Self {
        Self { items, next: None }
    }
}

/// Questions to the client, by names that its answers come back under.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// Requests such as `elicitation/create`: `{method, params}`.
    pub requests: Map<String, Json>,
    /// What the client is to hand back with its answers, so that nothing need be remembered here.
    pub state: Option<String>,
}

/// What comes of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A result.
    Done(Map<String, Json>),
    /// The client has to answer first; the same call then comes again with what it says.
    AsksFor(Questions),
    /// It goes on as a task.
    Task(TaskView),
}

/// Whether a call may become a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskWish {
    /// The client would not understand it.
    No,
    /// If it takes long.
    May,
    /// At once; how long it is to be kept, in milliseconds, if the client says so.
    Must(Option<u64>),
}

/// What becomes of a call whose client goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It goes on.
    GoesOn,
    /// It is stopped.
    Cancels,
}

/// A call of a tool, or a request for a prompt or a resource.
#[derive(Debug)]
pub struct Call {
    /// The name of the tool or prompt, or the address of the resource.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Json>,
    /// The message as it came: a number may have more digits there than the arguments keep of it.
    pub text: Bytes,
    /// What the client has answered to [`Outcome::AsksFor`].
    pub answers: Map<String, Json>,
    /// What was to be handed back with it.
    pub state: Option<String>,
    /// What the client can do.
    pub client: Client,
    /// Whether it may become a task.
    pub task: TaskWish,
    /// The way to tell something meanwhile.
    pub outlet: Outlet,
    /// Fires when the client wants nothing more of it.
    pub cancelled: CancellationToken,
    /// What becomes of it if the client goes away without a word.
    pub leaving: Leaving,
}

/// What one caller is offered. Everything that is not implemented is not there.
#[async_trait]
pub trait Service: Send + Sync {
    /// What it says of itself.
    fn about(&self) -> About;

    /// The tools, in an order that stays.
    ///
    /// # Errors
    /// For a cursor that is none, or when they cannot be read.
    async fn tools(&self, cursor: Option<&str>) -> Result<Listing, RpcError>;

    /// The schema of a tool's arguments, if a header has to say some of them, too (`x-mcp-header`). `None`: none has to, or
    /// there is no such tool.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn mirrored(&self, _tool: &str) -> Result<Option<Json>, RpcError> {
        Ok(None)
    }

    /// Returns when nothing more is told to those who listen.
    async fn ended(&self) {
        std::future::pending::<()>().await;
    }

    /// Calls a tool. A tool that fails has a result that says so.
    ///
    /// # Errors
    /// When there is no such tool, or it cannot be called like this.
    async fn call(&self, call: Call) -> Result<Outcome, RpcError>;

    /// The resources.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn resources(&self, _cursor: Option<&str>) -> Result<Listing, RpcError> {
        Ok(Listing::default())
    }

    /// The addresses that resources have which are not listed.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn resource_templates(&self, _cursor: Option<&str>) -> Result<Listing, RpcError> {
        Ok(Listing::default())
    }

    /// Reads a resource. `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn read(&self, _call: Call) -> Result<Option<Outcome>, RpcError> {
        Ok(None)
    }

    /// The prompts.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn prompts(&self, _cursor: Option<&str>) -> Result<Listing, RpcError> {
        Ok(Listing::default())
    }

    /// A prompt with its arguments filled in.
    ///
    /// # Errors
    /// When there is none of that name, or an argument is missing.
    async fn prompt(&self, call: Call) -> Result<Outcome, RpcError> {
        Err(RpcError::params(format!("there is no prompt `{}`", call.name)))
    }

    /// Suggests values for an argument.
    ///
    /// # Errors
    /// When it belongs to nothing that is there.
    async fn complete(&self, _params: &Map<String, Json>) -> Result<Vec<String>, RpcError> {
        Ok(Vec::new())
    }

    /// A task of the caller.
    ///
    /// # Errors
    /// `INVALID_PARAMS` for one that is not there, or is somebody else's.
    async fn task(&self, id: &str) -> Result<TaskView, RpcError> {
        Err(no_task(id))
    }

    /// Answers questions of a task. Answers to what was not asked are passed over.
    ///
    /// # Errors
    /// As [`Service::task`].
    async fn answer_task(&self, id: &str, _answers: Map<String, Json>) -> Result<(), RpcError> {
        Err(no_task(id))
    }

    /// Asks a task to stop. One that is over is none the worse for it.
    ///
    /// # Errors
    /// As [`Service::task`].
    async fn cancel_task(&self, id: &str) -> Result<(), RpcError> {
        Err(no_task(id))
    }

    /// The tasks of the caller, and where the next part begins.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn tasks(&self, _cursor: Option<&str>) -> Result<(Vec<TaskView>, Option<String>), RpcError> {
        Ok((Vec::new(), None))
    }
}

fn no_task(id: &str) -> RpcError {
    let shown: String = id.chars().take(128).collect();
    RpcError::new(code::INVALID_PARAMS, format!("there is no task `{shown}`"))
}
