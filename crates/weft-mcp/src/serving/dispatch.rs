//! Maps each method of the protocol to the function of the service that answers it.

use std::sync::Arc;

use serde_json::{Map, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_core::Json;

use super::capabilities::Client;
use super::envelope::{cacheable, complete, discovered, listed};
use super::message::{RpcError, RpcRequest, code};
use super::outlet::{LogLevel, Outlet};
use super::questions::Questions;
use super::revision::ProtocolRevision;
use super::service::{About, Call, Feature, Leaving, Listing, Outcome, Service, TaskWish};
use super::session::ServedSession;
use super::{legacy_tasks, listening};

/// The request that stays open for notifications of changes.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// Maximum number of times that one call may ask its client.
// Otherwise a service that never stops asking would occupy its client forever.
pub(super) const ROUNDS_MAX: usize = 32;

/// The context of one request.
pub(super) struct Context {
    pub(super) revision: ProtocolRevision,
    pub(super) client: Client,
    pub(super) level: Option<LogLevel>,
    /// Its session; absent for a stateless request.
    pub(super) session: Option<Arc<ServedSession>>,
    pub(super) cancelled: CancellationToken,
    /// Fires when the client has left, on transports that do not drop the request then.
    pub(super) left: CancellationToken,
    pub(super) leaving: Leaving,
    pub(super) sender: mpsc::Sender<Json>,
}

impl Context {
    pub(super) fn outlet(&self, request: &RpcRequest) -> Outlet {
        let token = request.meta().and_then(|meta| meta.get("progressToken")).cloned();
        Outlet::new(self.sender.clone(), token, self.level)
    }

    /// Sends questions to the client, one after the other, in revisions in which a server may send requests.
    pub(super) async fn ask(&self, questions: &Questions) -> Result<Map<String, Json>, RpcError> {
        let Some(session) = &self.session else { return Err(RpcError::capability(&json!({}))) };
        let mut answers = Map::new();
        for (name, asked) in &questions.requests {
            let method = asked.get("method").and_then(Json::as_str).unwrap_or_default();
            self.client.check_question(method)?;
            let question = session.question();
            let params = asked.get("params").cloned().unwrap_or_else(|| json!({}));
            let message = json!({"jsonrpc": "2.0", "id": question.id, "method": method, "params": params});
            if self.sender.send(message).await.is_err() {
                return Err(RpcError::new(code::BUSY, "the client disconnected"));
            }
            answers.insert(name.clone(), question.answer().await?);
        }
        Ok(answers)
    }
}

/// Processes a request.
pub(super) async fn perform(
    service: &dyn Service,
    request: &RpcRequest,
    context: &Context,
) -> Result<Map<String, Json>, RpcError> {
    let about = service.about();
    let result = match method(service, &about, request, context).await? {
        Some(result) => result,
        None => return Err(RpcError::no_method(&request.method)),
    };
    Ok(complete(result, &about, context.revision))
}

/// Returns `None` if this revision or this service does not have the method.
async fn method(
    service: &dyn Service,
    about: &About,
    request: &RpcRequest,
    context: &Context,
) -> Result<Option<Map<String, Json>>, RpcError> {
    let has = |feature| about.features.contains(&feature);
    let cursor = || request.params.get("cursor").and_then(Json::as_str);
    let list = |key: &str, listing: Listing| Ok(Some(listed(key, listing, context.revision)));
    match request.method.as_str() {
        "tools/list" => list("tools", service.tools(cursor()).await?),
        "tools/call" => call(service, Verb::Tool, request, context).await.map(Some),
        "resources/list" if has(Feature::Resources) => list("resources", service.resources(cursor()).await?),
        "resources/templates/list" if has(Feature::Resources) => {
            list("resourceTemplates", service.resource_templates(cursor()).await?)
        }
        "resources/read" if has(Feature::Resources) => {
            call(service, Verb::Resource, request, context).await.map(Some)
        }
        "prompts/list" if has(Feature::Prompts) => list("prompts", service.prompts(cursor()).await?),
        "prompts/get" if has(Feature::Prompts) => {
            call(service, Verb::Prompt, request, context).await.map(Some)
        }
        "completion/complete" if has(Feature::Completions) => {
            let values = service.complete(&request.params).await?;
            let completion = json!({"values": values, "total": values.len(), "hasMore": false});
            Ok(Some(Map::from_iter([("completion".to_owned(), completion)])))
        }
        _ if context.revision.is_stateless() => stateless(service, about, request, context).await,
        _ => conversing(service, about, request, context).await,
    }
}

/// Methods that exist from 2026-07-28 on.
async fn stateless(
    service: &dyn Service,
    about: &About,
    request: &RpcRequest,
    context: &Context,
) -> Result<Option<Map<String, Json>>, RpcError> {
    let tasks = about.features.contains(&Feature::Tasks);
    let task = || {
        context.client.check_tasks()?;
        required(&request.params, "taskId")
    };
    Ok(Some(match request.method.as_str() {
        "server/discover" => discovered(about, context.revision),
        LISTEN if about.features.contains(&Feature::ListChanges) => {
            listening::listen(service, request, context).await?
        }
        "tasks/get" if tasks => service.task(task()?).await?.whole(),
        "tasks/update" if tasks => {
            service.answer_task(task()?, answers(&request.params)?).await?;
            Map::new()
        }
        "tasks/cancel" if tasks => {
            service.cancel_task(task()?).await?;
            Map::new()
        }
        _ => return Ok(None),
    }))
}

/// Methods that exist before 2026-07-28.
async fn conversing(
    service: &dyn Service,
    about: &About,
    request: &RpcRequest,
    context: &Context,
) -> Result<Option<Map<String, Json>>, RpcError> {
    let has = |feature| about.features.contains(&feature);
    match request.method.as_str() {
        "ping" => {}
        "logging/setLevel" if has(Feature::Logging) => {
            let level = required(&request.params, "level")?;
            let level =
                LogLevel::parse(level).ok_or_else(|| RpcError::params("`level` is not a valid level"))?;
            if let Some(session) = &context.session {
                session.set_level(level);
            }
        }
        "resources/subscribe" | "resources/unsubscribe" if has(Feature::Subscriptions) => {
            required(&request.params, "uri")?;
        }
        _ if has(Feature::Tasks) && context.revision == ProtocolRevision::V2025_11_25 => {
            return legacy_tasks::method(service, request, context).await;
        }
        _ => return Ok(None),
    }
    Ok(Some(Map::new()))
}

/// A method that may need answers of the client before it has a result.
#[derive(Clone, Copy)]
enum Verb {
    Tool,
    Prompt,
    Resource,
}

impl Verb {
    /// The parameter that names its subject.
    fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
        }
    }

    async fn run(
        self,
        service: &dyn Service,
        call: Call,
        revision: ProtocolRevision,
    ) -> Result<Outcome, RpcError> {
        match self {
            Self::Tool => service.call(call).await,
            Self::Prompt => service.prompt(call).await,
            Self::Resource => {
                let uri = call.name.clone();
                let found = service.read(call).await?;
                let code = if revision.is_stateless() { code::INVALID_PARAMS } else { code::NO_RESOURCE };
                found.ok_or_else(|| {
                    RpcError::new(code, "there is no such resource").with_data(json!({"uri": uri}))
                })
            }
        }
    }
}

async fn call(
    service: &dyn Service,
    verb: Verb,
    request: &RpcRequest,
    context: &Context,
) -> Result<Map<String, Json>, RpcError> {
    let params = &request.params;
    let name = required(params, verb.key())?;
    let arguments = object(params, "arguments")?;
    let (mut answers, mut state) = (answers(params)?, None);
    if let Some(said) = params.get("requestState") {
        let said = said.as_str().ok_or_else(|| RpcError::params("`requestState` must be a text"))?;
        state = Some(said.to_owned());
    }
    let (outlet, task) = (context.outlet(request), wish(params, context)?);
    for _ in 0..ROUNDS_MAX {
        let call = Call {
            name: name.to_owned(),
            arguments: arguments.clone(),
            text: request.text.clone(),
            answers,
            state,
            client: context.client.clone(),
            task,
            // The count continues, because clients ignore progress that does not increase.
            outlet: outlet.again(),
            cancelled: context.cancelled.clone(),
            leaving: context.leaving,
        };
        let questions = match verb.run(service, call, context.revision).await? {
            Outcome::Done(mut result) => {
                if matches!(verb, Verb::Resource) && context.revision.is_stateless() {
                    result.extend(cacheable());
                }
                return Ok(result);
            }
            Outcome::Task(view) if context.revision.is_stateless() => {
                let mut head = view.head();
                head.insert("resultType".to_owned(), "task".into());
                return Ok(head);
            }
            Outcome::Task(view) => {
                return Ok(Map::from_iter([("task".to_owned(), Json::Object(view.older()))]));
            }
            Outcome::AsksFor(questions) => questions,
        };
        if context.revision.is_stateless() {
            // The server stores nothing in between: the client sends its answers and the state with the next
            // request.
            return asks_for(questions, &context.client);
        }
        answers = context.ask(&questions).await?;
        state = questions.state;
    }
    Err(asked_too_often())
}

/// Returns the error for a call that has asked [`ROUNDS_MAX`] times.
pub(super) fn asked_too_often() -> RpcError {
    RpcError::new(code::BUSY, format!("the call has asked {ROUNDS_MAX} times and still has no result"))
}

/// Returns a result that asks the client.
fn asks_for(questions: Questions, client: &Client) -> Result<Map<String, Json>, RpcError> {
    for asked in questions.requests.values() {
        client.check_question(asked.get("method").and_then(Json::as_str).unwrap_or_default())?;
    }
    let mut result = Map::from_iter([
        ("resultType".to_owned(), Json::from("input_required")),
        ("inputRequests".to_owned(), Json::Object(questions.requests)),
    ]);
    if let Some(state) = questions.state {
        result.insert("requestState".to_owned(), state.into());
    }
    Ok(result)
}

/// Returns whether the call may become a task.
fn wish(params: &Map<String, Json>, context: &Context) -> Result<TaskWish, RpcError> {
    if context.revision.is_stateless() {
        // `task` in the parameters belongs to the previous revision and has no effect.
        return Ok(if context.client.check_tasks().is_ok() { TaskWish::May } else { TaskWish::No });
    }
    if context.revision != ProtocolRevision::V2025_11_25 || !params.contains_key("task") {
        return Ok(TaskWish::No);
    }
    Ok(TaskWish::Must(object(params, "task")?.get("ttl").and_then(Json::as_u64)))
}

/// Returns a required parameter.
pub(super) fn required<'a>(params: &'a Map<String, Json>, key: &str) -> Result<&'a str, RpcError> {
    params.get(key).and_then(Json::as_str).ok_or_else(|| RpcError::params(format!("`{key}` must be a text")))
}

fn object(params: &Map<String, Json>, key: &str) -> Result<Map<String, Json>, RpcError> {
    match params.get(key) {
        None => Ok(Map::new()),
        Some(Json::Object(object)) => Ok(object.clone()),
        Some(_) => Err(RpcError::params(format!("`{key}` must be an object"))),
    }
}

/// Returns the client's answers in a request.
fn answers(params: &Map<String, Json>) -> Result<Map<String, Json>, RpcError> {
    let answers = object(params, "inputResponses")?;
    match answers.iter().find(|(_, answer)| !answer.is_object()) {
        None => Ok(answers),
        Some((name, _)) => {
            let shown: String = name.chars().take(100).collect();
            Err(RpcError::params(format!("`inputResponses.{shown}` must be an object")))
        }
    }
}
