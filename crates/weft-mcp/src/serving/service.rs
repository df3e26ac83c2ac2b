//! The interface between the protocol and the features that are offered to clients.

use bytes::Bytes;
use serde_json::Map;
use tokio_util::sync::CancellationToken;
use weft_core::{Json, async_trait};

use super::capabilities::Client;
use super::message::{RpcError, code};
use super::outlet::Outlet;
use super::questions::Questions;
use super::task::TaskView;

/// An optional feature of a service. Every service has tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Clients can list and read resources.
    Resources,
    /// Clients can subscribe to changes of a resource.
    Subscriptions,
    /// Clients can list and use prompts.
    Prompts,
    /// It suggests values for the arguments of prompts and resource templates.
    Completions,
    /// It sends log messages.
    Logging,
    /// A call can continue as a task after its request has been answered.
    Tasks,
    /// Clients are notified when the list of tools changes.
    ListChanges,
}

/// The description of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Its name for programs.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The version of the software.
    pub version: &'static str,
    /// How to use it; may be empty.
    pub instructions: &'static str,
    /// Its optional features.
    pub features: &'static [Feature],
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The definitions, in the format of the protocol.
    pub items: Vec<Json>,
    /// The cursor of the next page; absent on the last one.
    pub next: Option<String>,
}

impl From<Vec<Json>> for Listing {
    fn from(items: Vec<Json>) -> Self {
        Self { items, next: None }
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has this result, which may report a failure of the tool.
    Done(Map<String, Json>),
    /// The client has to answer questions first. It then repeats the call with its answers.
    AsksFor(Questions),
    /// It continues as a task.
    Task(TaskView),
}

/// Whether a call may become a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskWish {
    /// No: the client does not support tasks.
    No,
    /// Yes, if it takes long.
    May,
    /// Yes, immediately. The value is the time to keep the task in milliseconds, if the client requests one.
    Must(Option<u64>),
}

/// What happens to a call when its client disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It continues.
    GoesOn,
    /// It is cancelled.
    Cancels,
}

/// A call of a tool, or a request for a prompt or a resource.
#[derive(Debug)]
pub struct Call {
    /// The name of the tool or prompt, or the URI of the resource.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Json>,
    /// The message as received: it keeps all digits of a number, of which `arguments` may have lost some.
    pub text: Bytes,
    /// The client's answers to [`Outcome::AsksFor`].
    pub answers: Map<String, Json>,
    /// The state that the client returns with its answers, from [`Questions::state`].
    pub state: Option<String>,
    /// The capabilities of the client.
    pub client: Client,
    /// Whether it may become a task.
    pub task: TaskWish,
    /// Sends progress and log messages to the client during the call.
    pub outlet: Outlet,
    /// Fires when the client cancels the call.
    pub cancelled: CancellationToken,
    /// What happens to it when the client disconnects without cancelling it.
    pub leaving: Leaving,
}

/// What one caller is offered. By default it has tools only.
#[async_trait]
pub trait Service: Send + Sync {
    /// Returns its description.
    fn about(&self) -> About;

    /// Returns the tools, in a stable order.
    ///
    /// # Errors
    /// When the cursor is not valid, or the tools cannot be read.
    async fn tools(&self, cursor: Option<&str>) -> Result<Listing, RpcError>;

    /// Returns the schema of a tool's arguments if some of them have to be repeated in headers (`x-mcp-header`);
    /// `None` if none has to, or if there is no such tool.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn mirrored(&self, _tool: &str) -> Result<Option<Json>, RpcError> {
        Ok(None)
    }

    /// Returns when listening clients receive no further notifications.
    async fn ended(&self) {
        std::future::pending::<()>().await;
    }

    /// Calls a tool. The failure of a tool is a result, not an error.
    ///
    /// # Errors
    /// When there is no such tool, or the arguments are not valid.
    async fn call(&self, call: Call) -> Result<Outcome, RpcError>;

    /// Returns the resources.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn resources(&self, _cursor: Option<&str>) -> Result<Listing, RpcError> {
        Ok(Listing::default())
    }

    /// Returns the URI templates of resources that are not listed.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn resource_templates(&self, _cursor: Option<&str>) -> Result<Listing, RpcError> {
        Ok(Listing::default())
    }

    /// Reads a resource. Returns `None` if there is no such resource.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn read(&self, _call: Call) -> Result<Option<Outcome>, RpcError> {
        Ok(None)
    }

    /// Returns the prompts.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn prompts(&self, _cursor: Option<&str>) -> Result<Listing, RpcError> {
        Ok(Listing::default())
    }

    /// Returns a prompt with its arguments filled in.
    ///
    /// # Errors
    /// When there is no prompt with this name, or an argument is missing.
    async fn prompt(&self, call: Call) -> Result<Outcome, RpcError> {
        Err(RpcError::params(format!("there is no prompt `{}`", call.name)))
    }

    /// Suggests values for an argument.
    ///
    /// # Errors
    /// When the prompt or resource template of the argument does not exist.
    async fn complete(&self, _params: &Map<String, Json>) -> Result<Vec<String>, RpcError> {
        Ok(Vec::new())
    }

    /// Returns a task of the caller.
    ///
    /// # Errors
    /// `INVALID_PARAMS` when it does not exist or belongs to another caller.
    async fn task(&self, id: &str) -> Result<TaskView, RpcError> {
        Err(no_task(id))
    }

    /// Answers questions of a task. Answers to other questions are ignored.
    ///
    /// # Errors
    /// As [`Service::task`].
    async fn answer_task(&self, id: &str, _answers: Map<String, Json>) -> Result<(), RpcError> {
        Err(no_task(id))
    }

    /// Requests that a task stops. Has no effect on a task that has ended.
    ///
    /// # Errors
    /// As [`Service::task`].
    async fn cancel_task(&self, id: &str) -> Result<(), RpcError> {
        Err(no_task(id))
    }

    /// Returns a page of the caller's tasks, and the cursor of the next page.
    ///
    /// # Errors
    /// As [`Service::tools`].
    async fn tasks(&self, _cursor: Option<&str>) -> Result<(Vec<TaskView>, Option<String>), RpcError> {
        Ok((Vec::new(), None))
    }
}

fn no_task(id: &str) -> RpcError {
    // A client may send an id of any length.
    let shown: String = id.chars().take(128).collect();
    RpcError::new(code::INVALID_PARAMS, format!("there is no task `{shown}`"))
}
