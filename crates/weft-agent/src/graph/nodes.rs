//! The work of the nodes. Each reads the state and returns an update.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use serde_json::Map;
use weft_core::context::Signal;
use weft_core::seam::Clock;
use weft_core::seam::chat_model::{
    Audience, ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, ToolChoice,
};
use weft_core::tool::ToolSession as _;
use weft_core::{Error, ErrorKind, Json, NodeContext, Result, async_trait};

use super::events::{EventKind, Events};
use super::explanation::explanation;
use super::state::{GraphState, Metadata, STATUS, StopReason, ToolCallRecord, Update};
use super::topology::Node;
use super::{AfterLoop, GraphDefinition};
use crate::ask::{Ending, Reply, ask, warn_of_cut};
use crate::calls::{self, CallState, Done, OpenCall};
use crate::driver::{self, Job};
use crate::message::{BlockKind, ContentBlock, Message, Role, Source, ToolResult, ToolUse};
use crate::react::{Draft, Formatter, ToolCalls, call};
use crate::toolkit::Offered;
use crate::transcript::{NOT_EXECUTED, tidy};
use crate::turns::{LIMIT, LOOP, UNANSWERED};
use crate::window::room;

/// Maximum number of parallel calls.
const PARALLEL_MAX: usize = 8;
/// The metadata key of a message that records that the model reached its token limit.
const FINISH_REASON: &str = "finish_reason";
/// The result of a call when the turn was cancelled.
const CANCELLED: &str = "The call was stopped: the turn was cancelled.";

/// The work of one node.
pub(super) struct NodeWork<'a> {
    pub(super) agent: &'a GraphDefinition,
    pub(super) events: &'a Arc<Events>,
    pub(super) state: &'a GraphState,
    pub(super) ctx: Arc<NodeContext>,
}

impl NodeWork<'_> {
    /// Runs a node and returns its changes.
    ///
    /// # Errors
    /// The model's errors, `QuotaExceeded` when the budget is used up.
    pub(super) async fn of(self, node: Node) -> Result<Update> {
        match node {
            Node::InitState => Ok(self.init_state()),
            Node::Agent => self.agent().await,
            Node::Tools => self.tools().await,
            Node::Finalize => Ok(self.finalize()),
            // The memory trigger changes nothing.
            Node::Start | Node::MemoryTrigger | Node::End => Ok(Update::default()),
        }
    }

    fn init_state(&self) -> Update {
        let max_steps = Some(self.agent.settings.max_steps);
        Update { new_turn: true, current_step: Some(0), max_steps, ..Update::default() }
    }

    async fn agent(self) -> Result<Update> {
        self.events.send(self.now_ms(), EventKind::NodeStart { node: Node::Agent }).await?;
        // No `?` here: every `node_start` has its `node_end`, even when the model fails.
        let update = self.answer().await;
        self.events.send(self.now_ms(), EventKind::NodeEnd { node: Node::Agent }).await?;
        update
    }

    /// One call of the model and the update from its answer.
    async fn answer(&self) -> Result<Update> {
        let (settings, state) = (&self.agent.settings, self.state);
        // The turn may have been cancelled during a round of tools; then the model is not asked.
        if state.stop {
            return Ok(Update::default());
        }
        let tools = self.agent.tools.tools();
        let polls = |name: &str| tools.iter().any(|tool| tool.name == name && tool.traits.poll);
        let looping = state.is_looping(settings.loop_window, polls);
        let reason = match looping {
            true => StopReason::LoopDetected,
            false if !tools.is_empty() && state.current_step >= state.max_steps => StopReason::MaxSteps,
            false => StopReason::None,
        };
        let update = Update { stop: Some(looping), stop_reason: Some(reason), ..Update::default() };
        if looping && settings.after_loop == AfterLoop::Explain {
            return Ok(update);
        }
        let mut messages = state.messages.clone();
        let notice = match reason {
            StopReason::LoopDetected => Some(LOOP),
            StopReason::MaxSteps => Some(LIMIT),
            _ => None,
        };
        // Only in the request: stored in the thread, it would be read in every later turn.
        messages.extend(notice.map(|notice| self.hint(notice)));
        let choice = if notice.is_some() { ToolChoice::None } else { ToolChoice::Auto };
        let (first, mut requests) = (self.request(&messages, choice.clone()).await, 1);
        let asked = match first {
            Ok(None) => {
                // Asked once more with a hint: models sometimes return nothing after results of tools, but rarely
                // twice.
                messages.push(self.hint(UNANSWERED));
                requests += 1;
                self.request(&messages, choice).await
            }
            first => first,
        };
        let update = Update { llm_calls: Some(state.llm_calls.saturating_add(requests)), ..update };
        let stopped = |reason| Update { stop: Some(true), stop_reason: Some(reason), ..Update::default() };
        Ok(match asked {
            Ok(Some((message, ending))) => {
                let cut = ending == Ending::CutOff && !message.has(BlockKind::ToolUse);
                let reason = if cut { StopReason::Length } else { reason };
                Update { messages: vec![message], stop_reason: Some(reason), ..update }
            }
            Ok(None) => Update { llm_calls: update.llm_calls, ..stopped(StopReason::EmptyResponse) },
            // A cancelled turn ends like any other; the thread can be continued.
            Err(_) if self.ctx.cancel.is_cancelled() => {
                Update { llm_calls: update.llm_calls, ..stopped(StopReason::Cancelled) }
            }
            Err(error) if error.kind == ErrorKind::Filtered => {
                Update { llm_calls: update.llm_calls, ..stopped(StopReason::ContentFilter) }
            }
            Err(error) => return Err(error),
        })
    }

    /// Asks once. `None` for an empty answer.
    async fn request(&self, messages: &[Message], choice: ToolChoice) -> Result<Option<(Message, Ending)>> {
        let settings = &self.agent.settings;
        let (tools, tokens) = Offered::default().now(self.agent.tools.tools());
        let window = room(self.agent.model.info().window, settings.sampling.max_tokens, tokens);
        let room = settings.prompt_tokens_max.map_or(window, |max| window.min(max));
        let formatter = Formatter::new(&*self.agent.name, &*self.agent.instructions);
        let question = self.state.question().map(|message| message.id.as_str());
        let (messages, note) = formatter.format(messages, question, room)?;
        if let Some(note) = note {
            self.ctx.signal(Signal::Warn(note)).await?;
        }
        let answers_only = choice == ToolChoice::None;
        let request = ChatRequest {
            messages,
            sampling: settings.sampling.clone(),
            tools,
            tool_choice: choice,
            audience: Audience::Listening,
            ..ChatRequest::default()
        };
        let mut reply = self.ask(request).await?;
        if answers_only {
            // Calls of tools that were not offered are a mistake; the text beside them is the answer.
            reply.calls.clear();
        }
        if reply.calls.is_empty() && reply.text.trim().is_empty() {
            return Ok(None);
        }
        if reply.ending == Ending::CutOff && reply.calls.is_empty() {
            warn_of_cut(&self.ctx).await?;
        }
        Ok(Some((self.said(&reply), reply.ending)))
    }

    async fn ask(&self, request: ChatRequest) -> Result<Reply> {
        let (events, clock) = (Arc::clone(self.events), Arc::clone(&self.agent.seams.clock));
        let model = TellingModel { model: &*self.agent.model, events, clock, asked: false.into() };
        let mut nobody = |_| {};
        // Boxed: the future of a request is large, and this one is inside that of the whole turn.
        let asking = Box::pin(ask(&self.ctx, &model, request, &mut nobody));
        let cancelled = || Error::new(ErrorKind::Cancelled, "the turn was cancelled");
        let reply = tokio::select! {
            // Cancellation must win over an answer that is ready at the same moment, so that the outcome of the turn
            // is deterministic.
            biased;
            () = self.ctx.cancel.cancelled() => return Err(cancelled()),
            reply = asking => reply?,
        };
        let said = !reply.text.is_empty() || !reply.thinking.is_empty();
        if said && !model.asked.load(Ordering::Relaxed) {
            // The answer was given before the process ended; its individual pieces are no longer known.
            let (token, reasoning_token) = (reply.text.clone(), reply.thinking.clone());
            self.events.send(self.now_ms(), EventKind::LlmToken { token, reasoning_token }).await?;
        }
        Ok(reply)
    }

    /// The message of an answer. Its calls get ids that are unique in the conversation.
    fn said(&self, reply: &Reply) -> Message {
        let mut message = Draft::new(&self.agent.name, self.now_ms()).complete(reply);
        let mut known: HashSet<String> =
            self.state.messages.iter().flat_map(Message::tool_uses).map(|call| call.id.clone()).collect();
        let calls = message.content.iter_mut().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some((&mut call.id, &mut call.name)),
            _ => None,
        });
        tidy(&mut known, calls);
        if reply.ending == Ending::CutOff {
            message.metadata.insert(FINISH_REASON.to_owned(), Json::from("length"));
        }
        message
    }

    async fn tools(self) -> Result<Update> {
        let Some(asked) = self.state.last_answer() else { return Ok(Update::default()) };
        // Stored in the message and not in a field, because another process may make these calls.
        let cut = asked.metadata.get(FINISH_REASON).is_some_and(|reason| reason == "length");
        let ending = if cut { Ending::CutOff } else { Ending::Whole };
        let mut open: Vec<OpenCall> = asked.tool_uses().map(call).map(OpenCall::new).collect();
        let parallel = match self.agent.settings.tool_calls {
            ToolCalls::Sequential => 1,
            ToolCalls::Parallel => PARALLEL_MAX,
        };
        let options = driver::Options { parallel, ..driver::Options::default() };
        let (ctx, model) = (&self.ctx, &*self.agent.model);
        let job = Job { ctx, model, tools: &self.agent.tools, options: &options, writer: None };
        let made = Box::pin(calls::make(&job, &mut open, &Map::new(), ending, None)).await;
        let cancelled = self.ctx.cancel.is_cancelled();
        let limited = match made {
            Ok(end) => end.limit,
            // Calls that had finished keep their results.
            Err(_) if cancelled => None,
            Err(error) => return Err(error),
        };
        let current_step = self.state.current_step.saturating_add(1);
        let mut update = Update { current_step: Some(current_step), ..Update::default() };
        if cancelled {
            (update.stop, update.stop_reason) = (Some(true), Some(StopReason::Cancelled));
        }
        if let Some(limit) = limited {
            // The model has to answer with what it has.
            update.max_steps = Some(current_step);
            let warning = format!("the budget of {} is used up", limit.as_str());
            self.ctx.signal(Signal::Warn(warning)).await?;
        }
        for open in open {
            self.over(open, &mut update);
        }
        Ok(update)
    }

    /// Adds the record of a call to the update.
    fn over(&self, OpenCall { call, state, .. }: OpenCall, update: &mut Update) {
        let (args, output, text, status) = match state {
            CallState::Done(Done { arguments, text, images, failed, .. }) => {
                let images = images.iter().map(|url| ContentBlock::Image { source: Source::of_url(url) });
                let output = std::iter::once(ContentBlock::text(&*text)).chain(images).collect();
                (arguments, output, text, if failed { "error" } else { "success" })
            }
            // There is no run here that could be suspended, so the model is told and continues without it.
            CallState::Asked | CallState::Suspended(_) => {
                let text = format!("{NOT_EXECUTED}: the call waits for a person, and nobody is asked here");
                (Json::from(call.arguments), vec![ContentBlock::text(&*text)], text, "error")
            }
            CallState::New => {
                let text = CANCELLED.to_owned();
                (Json::from(call.arguments), vec![ContentBlock::text(&*text)], text, "error")
            }
        };
        let mut message = Message::tool_result(ToolResult { id: call.id, name: call.name.clone(), output });
        message.metadata.insert(STATUS.to_owned(), Json::from(status));
        update.messages.push(message.stamped(self.now_ms()));
        update.tool_call_history.push(ToolCallRecord { name: call.name.clone(), args });
        update.tool_result_history.push(text);
        update.tools_used.push(call.name);
    }

    fn finalize(&self) -> Update {
        let state = self.state;
        let mut messages = not_executed(state, NOT_EXECUTED, self.now_ms());
        let answered = state.last_answer().filter(|_| state.stop_reason != StopReason::Cancelled);
        let mut reply = answered.map(Message::text).unwrap_or_default();
        if reply.trim().is_empty() {
            let question = state.question().map(Message::text).unwrap_or_default();
            explanation(state.stop_reason, &question).clone_into(&mut reply);
            let content = vec![ContentBlock::text(&*reply)];
            let said = Message::new(Role::Assistant, &*self.agent.name, content);
            messages.push(said.stamped(self.now_ms()));
        }
        // Each tool once, in the order of the first calls.
        let mut known = HashSet::new();
        let tools_used = state.tools_used.iter().filter(|name| known.insert(*name)).cloned().collect();
        let stop_reason = match state.stop_reason {
            StopReason::None => StopReason::Completed,
            reason => reason,
        };
        let (steps_taken, llm_calls) = (state.current_step, state.llm_calls);
        let metadata = Metadata { steps_taken, tools_used, stop_reason, llm_calls };
        Update { messages, final_reply: Some(reply), metadata: Some(metadata), ..Update::default() }
    }

    /// A message that only the model sees, once.
    fn hint(&self, text: &str) -> Message {
        let content = vec![ContentBlock::text(text.trim_end())];
        Message::new(Role::User, "hint", content).stamped(self.now_ms())
    }

    fn now_ms(&self) -> i64 {
        self.agent.seams.clock.now_ms()
    }
}

/// A result with the text `note` for each call without one: providers refuse a conversation with open calls.
pub(super) fn not_executed(state: &GraphState, note: &str, now_ms: i64) -> Vec<Message> {
    let result = |call: &ToolUse| {
        let output = vec![ContentBlock::text(note)];
        let result = ToolResult { id: call.id.clone(), name: call.name.clone(), output };
        let mut message = Message::tool_result(result).stamped(now_ms);
        message.metadata.insert(STATUS.to_owned(), Json::from("error"));
        message
    };
    state.open_calls().into_iter().map(result).collect()
}

/// A model whose pieces are sent as events.
struct TellingModel<'a> {
    model: &'a dyn ChatModel,
    events: Arc<Events>,
    clock: Arc<dyn Clock>,
    /// Whether it was asked at all.
    asked: AtomicBool,
}

fn told(delta: &ChatDelta) -> Option<EventKind> {
    let piece = |token: &str, reasoning_token: &str| EventKind::LlmToken {
        token: token.to_owned(),
        reasoning_token: reasoning_token.to_owned(),
    };
    match delta {
        ChatDelta::Text(text) if !text.is_empty() => Some(piece(text, "")),
        ChatDelta::Thinking(text) if !text.is_empty() => Some(piece("", text)),
        ChatDelta::Restarted => Some(EventKind::LlmRestart {}),
        _ => None,
    }
}

#[async_trait]
impl ChatModel for TellingModel<'_> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        self.asked.store(true, Ordering::Relaxed);
        let deltas = self.model.chat(request).await?;
        let (events, clock) = (Arc::clone(&self.events), Arc::clone(&self.clock));
        let heard = deltas.then(move |delta| {
            let (events, now_ms) = (Arc::clone(&events), clock.now_ms());
            async move {
                if let Some(event) = delta.as_ref().ok().and_then(told) {
                    events.send(now_ms, event).await?;
                }
                delta
            }
        });
        Ok(heard.boxed())
    }
}
