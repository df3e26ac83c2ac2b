//! A server's tool as a tool of agents.

use std::sync::Arc;

use serde_json::Map;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use weft_core::tool::{
    BASIC_GROUP, Invocation, Origin, Purpose, Tool, ToolBody, ToolOutput, ToolStep, ToolStream, ToolTraits,
};
use weft_core::{Error, ErrorKind, Json, Result};

use crate::asked_back::{ROUNDS_MAX, filled_in};
use crate::definition::ToolDefinition;
use crate::link::{RequestEvent, RequestFailure, RequestFate};
use crate::result::output;
use crate::server::{McpServer, RunningCall, gone};

/// Creates the tool of an accepted definition.
pub(crate) fn tool(server: &Arc<McpServer>, definition: &ToolDefinition) -> Tool {
    let config = &server.config;
    let preset = config.preset.get(&definition.name).cloned().unwrap_or_default();
    let said = config.tools.get(&definition.name).cloned().unwrap_or_default();
    // The operator's settings take precedence over the server's hints.
    let idempotent = said.idempotent.unwrap_or_else(|| definition.is_idempotent());
    let body = RemoteTool { server: Arc::clone(server), name: definition.name.clone(), idempotent };
    Tool {
        // The server's own name, which canvases use; a toolkit derives one that models accept.
        name: definition.name.clone(),
        description: definition.description.clone(),
        parameters: definition.schema_without(&preset),
        returns: None,
        preset,
        group: BASIC_GROUP.to_owned(),
        origin: Origin::Mcp(server.id.clone()),
        traits: ToolTraits {
            purpose: Purpose::Work,
            idempotent,
            approval: said.approval,
            approval_timeout: None,
            poll: said.poll,
            alone: said.alone,
            background: false,
            sources: false,
            time_limit: config.call_limit(&definition.name),
        },
        postprocess: None,
        body: Arc::new(body),
    }
}

struct RemoteTool {
    server: Arc<McpServer>,
    /// Its name on the server.
    name: String,
    idempotent: bool,
}

impl ToolBody for RemoteTool {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let server = Arc::clone(&self.server);
        let (name, idempotent) = (self.name.clone(), self.idempotent);
        let cancel = invocation.agent.cancel.clone();
        Box::pin(async_stream::stream! {
            let limits = CallLimits::new(&server, &name, cancel);
            let mut may_repeat = true;
            loop {
                let failure = match limits.begin(&invocation.arguments).await {
                    Ok(mut call) => {
                        let outcome = loop {
                            match limits.next(&mut call).await {
                                RequestEvent::Progress(output) => yield Ok(ToolStep::Progress(output)),
                                RequestEvent::Answer(outcome) => break outcome,
                            }
                        };
                        let outcome = limits.completed(&mut call, &invocation.arguments, outcome).await;
                        server.ended(&call, outcome.as_ref().err());
                        drop(call);
                        match outcome {
                            Ok(result) => {
                                let output = output(&result).map(ToolStep::Done);
                                yield output.map_err(|error| limits.about(error));
                                return;
                            }
                            Err(failure) => failure,
                        }
                    }
                    Err(failure) => failure,
                };
                let again = match failure.sent {
                    RequestFate::Never => may_repeat,
                    RequestFate::Lost => may_repeat && idempotent,
                    RequestFate::Answered => false,
                };
                if !again {
                    yield Err(limits.failed(failure));
                    return;
                }
                // Only once: a server that crashes because of the call would crash each time.
                may_repeat = false;
            }
        })
    }
}

/// Makes one call; progress is ignored.
pub(crate) async fn call_once(
    server: &McpServer,
    name: &str,
    arguments: &Map<String, Json>,
) -> Result<ToolOutput> {
    let limits = CallLimits::new(server, name, CancellationToken::new());
    let mut call = limits.begin(arguments).await.map_err(|failure| limits.failed(failure))?;
    let outcome = loop {
        if let RequestEvent::Answer(outcome) = limits.next(&mut call).await {
            break outcome;
        }
    };
    let outcome = limits.completed(&mut call, arguments, outcome).await;
    server.ended(&call, outcome.as_ref().err());
    let result = outcome.map_err(|failure| limits.failed(failure))?;
    output(&result).map_err(|error| limits.about(error))
}

/// What can end a call early.
struct CallLimits<'a> {
    server: &'a McpServer,
    tool: &'a str,
    cancel: CancellationToken,
    until: Instant,
}

impl<'a> CallLimits<'a> {
    fn new(server: &'a McpServer, tool: &'a str, cancel: CancellationToken) -> Self {
        Self { server, tool, cancel, until: Instant::now() + server.config.call_limit(tool) }
    }

    async fn begin(&self, arguments: &Map<String, Json>) -> Result<RunningCall, RequestFailure> {
        let begun = timeout_at(self.until, self.server.begin(self.tool, arguments));
        tokio::select! {
            // An abandoned call is not sent.
            biased;
            () = self.cancel.cancelled() => Err(stopped(cancelled())),
            begun = begun => begun.unwrap_or_else(|_| Err(stopped(self.late()))),
        }
    }

    async fn next(&self, call: &mut RunningCall) -> RequestEvent {
        let stop = tokio::select! {
            // A cancellation takes precedence over a simultaneous answer, and an answer over the timeout.
            biased;
            () = self.cancel.cancelled() => cancelled(),
            () = self.server.until_closed() => gone(),
            heard = call.asked.next() => match heard {
                // Otherwise endless progress would keep the timer from being polled.
                RequestEvent::Progress(_) if Instant::now() >= self.until => self.late(),
                heard => return heard,
            },
            () = sleep_until(self.until) => self.late(),
        };
        RequestEvent::Answer(Err(stopped(stop)))
    }

    /// Waits for the end of a call, answering questions of the server in between. Progress is ignored.
    async fn completed(
        &self,
        call: &mut RunningCall,
        arguments: &Map<String, Json>,
        outcome: Result<Json, RequestFailure>,
    ) -> Result<Json, RequestFailure> {
        let mut outcome = outcome;
        for _ in 0..ROUNDS_MAX {
            let result = outcome?;
            let Some(filled_in) = filled_in(&result, self.server.config.elicitation) else {
                return Ok(result);
            };
            self.server.go_on(call, self.tool, arguments, filled_in).await?;
            outcome = loop {
                if let RequestEvent::Answer(outcome) = self.next(call).await {
                    break outcome;
                }
            };
        }
        outcome
    }

    fn late(&self) -> Error {
        let seconds = self.server.config.call_limit(self.tool).as_secs();
        Error::new(ErrorKind::Timeout, format!("no answer within {seconds} s"))
            .help("ask for less, or raise `call_seconds` of the server or the tool")
    }

    /// Adds the tool and the server to an error.
    fn about(&self, cause: Error) -> Error {
        self.server.about(&format!("cannot call `{}` of", self.tool), cause)
    }

    fn failed(&self, failure: RequestFailure) -> Error {
        match failure.sent {
            RequestFate::Lost => {
                self.about(failure.error).help("the call may have been carried out all the same")
            }
            RequestFate::Never | RequestFate::Answered => self.about(failure.error),
        }
    }
}

/// Converts the error of a call that this program has ended; it is not repeated.
fn stopped(error: Error) -> RequestFailure {
    RequestFailure { error, sent: RequestFate::Answered }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the call was cancelled")
}
