//! One round of tool calls: a session of tools in which every call passes the hooks, is shown while it runs, and has
//! exactly one response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use weft_core::tool::{Invocation, Tool, ToolOutput, ToolSession, ToolStep, ToolStream, failure_text};
use weft_core::{Error, ErrorKind, Result};

use super::finish::{FINISH_FUNCTION, FinishOutput, finished, unfinished};
use super::hooks::{HookContext, HookSet, ToolResponse};
use super::print::Printer;
use super::printed::PrintedMessage;
use crate::message::{ContentBlock, Message, ToolResult, ToolUse, content_of};
use crate::toolkit::Toolkit;

/// The result of a call when the user has interrupted the agent.
pub(crate) const INTERRUPTED: &str = "The call was interrupted by the user.";

/// The state shared by the calls of a round. Clones refer to the same round.
#[derive(Clone)]
pub(crate) struct ToolRound(Arc<RoundState>);

struct RoundState {
    tools: Toolkit,
    finish: Toolkit,
    hooks: HookSet,
    printer: Arc<Printer>,
    context: HookContext,
    calls: Mutex<HashMap<String, CallProgress>>,
    /// The first failure of a hook that can only be reported to the program.
    failure: Mutex<Option<Error>>,
}

/// A call and its progress.
struct CallProgress {
    /// The message about it; every chunk has its id.
    message: Message,
    written: ToolUse,
    so_far: Option<ToolOutput>,
    response: Option<ToolResponse>,
}

/// The parts from which a round is built.
pub(crate) struct RoundContext<'a> {
    pub(crate) tools: &'a Toolkit,
    pub(crate) finish: &'a Toolkit,
    pub(crate) hooks: &'a HookSet,
    pub(crate) printer: &'a Arc<Printer>,
    pub(crate) context: &'a HookContext,
    pub(crate) now_ms: i64,
}

impl ToolRound {
    pub(crate) fn new(around: &RoundContext<'_>, calls: &[ToolUse]) -> Self {
        let call = |call: &ToolUse| {
            let nothing = ToolResult { id: call.id.clone(), name: call.name.clone(), output: Vec::new() };
            let message = Message::tool_result(nothing).stamped(around.now_ms);
            (call.id.clone(), CallProgress { message, written: call.clone(), so_far: None, response: None })
        };
        Self(Arc::new(RoundState {
            tools: around.tools.clone(),
            finish: around.finish.clone(),
            hooks: around.hooks.clone(),
            printer: Arc::clone(around.printer),
            context: around.context.clone(),
            // All calls of the round from the start: one that is stopped before it begins still needs a result.
            calls: Mutex::new(calls.iter().map(call).collect()),
            failure: Mutex::new(None),
        }))
    }

    /// The error of a failed hook, if any.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fail(&self, error: Error) {
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    async fn print(&self, printed: PrintedMessage) {
        if let Err(error) = self.0.printer.print(&self.0.context, printed).await {
            self.fail(error);
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, CallProgress>> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call as the model wrote it. All calls of the round are known.
    fn written(&self, id: &str) -> Option<ToolUse> {
        self.calls().get(id).map(|call| call.written.clone())
    }

    /// Whether a call of the finish function has ended the reply.
    fn is_finished(&self) -> bool {
        self.calls().values().any(|call| call.response.as_ref().is_some_and(|gave| ends(gave).is_some()))
    }

    /// Shows the output so far, and saves it in case no more follows.
    async fn progress(&self, id: &str, output: &ToolOutput) {
        // The lock is released before anything is shown: a hook may take its time while other calls run.
        let message = {
            let mut calls = self.calls();
            let Some(call) = calls.get_mut(id) else { return };
            // Saved for `interrupt`: the partial output of a tool is worth more than the note alone.
            call.so_far = Some(output.clone());
            filled(&call.message, output)
        };
        self.print(PrintedMessage { message, last: false }).await;
    }

    /// Ends a call, whatever its outcome: the output passes the hooks, is shown and saved. Returns the output for the
    /// model.
    pub(crate) async fn end(&self, id: &str, output: ToolOutput) -> ToolOutput {
        let Some(call) = self.written(id) else { return output };
        let output = if call.name == FINISH_FUNCTION && finished(&output).is_none() {
            unfinished(output)
        } else {
            output
        };
        self.settle(ToolResponse { call, output, is_last: true, is_interrupted: false }).await
    }

    /// Ends a call that was stopped, with its output so far and a note.
    pub(crate) async fn interrupt(&self, id: &str) -> ToolOutput {
        let found = self.calls().get(id).map(|call| (call.written.clone(), call.so_far.clone()));
        let note = ToolOutput { failed: true, ..ToolOutput::text(INTERRUPTED) };
        let Some((call, so_far)) = found else { return note };
        let mut output = so_far.unwrap_or_default();
        output.blocks.extend(note.blocks);
        output.failed = true;
        self.settle(ToolResponse { call, output, is_last: true, is_interrupted: true }).await
    }

    async fn settle(&self, response: ToolResponse) -> ToolOutput {
        let id = response.call.id.clone();
        // Unchanged when a hook fails: a call without a result would make the conversation invalid.
        let hooked = self.0.hooks.run(|hooks| &hooks.post_acting, &self.0.context, response.clone()).await;
        let response = hooked.unwrap_or_else(|error| {
            self.fail(error);
            response
        });
        let output = response.output.clone();
        // The call that ends a reply is shown as the reply itself.
        let shown = ends(&response).is_none();
        let message = {
            let mut calls = self.calls();
            let Some(call) = calls.get_mut(&id) else { return output };
            call.message = filled(&call.message, &output);
            call.response = Some(response);
            call.message.clone()
        };
        if shown {
            self.print(PrintedMessage { message, last: true }).await;
        }
        output
    }

    /// The message and the response of a call, once it has ended.
    pub(crate) fn ended(&self, id: &str) -> Option<(Message, ToolResponse)> {
        let calls = self.calls();
        let call = calls.get(id)?;
        Some((call.message.clone(), call.response.clone()?))
    }

    /// Starts a call: the hooks may change or refuse it.
    async fn begin(&self, name: String, invocation: Invocation) -> Result<ToolStream> {
        let id = invocation.id.clone();
        let raw_input = None;
        let call = ToolUse { id, name, input: invocation.arguments, raw_input };
        let call = self.0.hooks.run(|hooks| &hooks.pre_acting, &self.0.context, call).await?;
        let invocation = Invocation { arguments: call.input, ..invocation };
        if call.name != FINISH_FUNCTION {
            return Ok(self.0.tools.call(&call.name, invocation));
        }
        // Several parallel calls may try to give the response: the first that succeeds counts.
        if self.is_finished() {
            return Err(Error::new(ErrorKind::Conflict, "the response has been given already"));
        }
        Ok(self.0.finish.call(&call.name, invocation))
    }

    /// The next chunk of a call.
    async fn follow(&self, invocation: &Invocation, steps: &mut ToolStream) -> ToolStep {
        let id = &invocation.id;
        let error = match steps.next().await {
            Some(Ok(ToolStep::Progress(output))) => {
                self.progress(id, &output).await;
                return ToolStep::Progress(output);
            }
            Some(Ok(ToolStep::Done(output))) => return ToolStep::Done(self.end(id, output).await),
            // Any failure of a tool after an interruption is attributed to it.
            Some(Err(_)) if invocation.agent.cancel.is_cancelled() => {
                return ToolStep::Done(self.interrupt(id).await);
            }
            Some(Ok(ToolStep::Suspended(_))) => unasked(),
            Some(Err(error)) => error,
            None => Error::new(ErrorKind::Garbled, "the tool ended without a result"),
        };
        ToolStep::Done(self.end(id, failed(&error)).await)
    }
}

/// The error of a call that would need a person's approval.
pub(crate) fn unasked() -> Error {
    Error::new(ErrorKind::Denied, "the call waits for a person, and nobody is asked here")
}

/// The message to a model about a failed call.
pub(crate) fn failed(error: &Error) -> ToolOutput {
    ToolOutput { failed: true, ..ToolOutput::text(failure_text(error)) }
}

/// The response of the agent, if this call ends the reply.
pub(crate) fn ends(response: &ToolResponse) -> Option<FinishOutput> {
    let finish = response.call.name == FINISH_FUNCTION;
    finish.then(|| finished(&response.output)).flatten()
}

/// The message of a call, filled with its output.
fn filled(message: &Message, output: &ToolOutput) -> Message {
    let result = |result: &ToolResult| ToolResult { output: content_of(output), ..result.clone() };
    let content = message.tool_results().map(|before| ContentBlock::ToolResult(result(before))).collect();
    Message { content, metadata: output.metadata.clone(), ..message.clone() }
}

impl ToolSession for ToolRound {
    fn tools(&self) -> Vec<Arc<Tool>> {
        offered(&self.0.tools, &self.0.finish)
    }

    fn call(&self, name: &str, invocation: Invocation) -> ToolStream {
        let (round, name) = (self.clone(), name.to_owned());
        async_stream::stream! {
            let mut steps = match round.begin(name, invocation.clone()).await {
                Ok(steps) => steps,
                Err(error) => {
                    yield Ok(ToolStep::Done(round.end(&invocation.id, failed(&error)).await));
                    return;
                }
            };
            loop {
                let step = round.follow(&invocation, &mut steps).await;
                let over = matches!(step, ToolStep::Done(_));
                yield Ok(step);
                if over {
                    return;
                }
            }
        }
        .boxed()
    }
}

/// The offered tools, followed by the finish function. It keeps its name, even if another tool has it too.
pub(crate) fn offered(tools: &Toolkit, finish: &Toolkit) -> Vec<Arc<Tool>> {
    let mut offered = tools.tools();
    // Hooks may register tools after the builder's check.
    offered.retain(|tool| tool.name != FINISH_FUNCTION);
    offered.extend(finish.tools());
    offered
}
