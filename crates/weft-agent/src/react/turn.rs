//! One reply: reasons and acts in turns until the finish function has been called.

use std::sync::Arc;

use serde_json::Map;
use weft_core::context::Signal;
use weft_core::seam::chat_model::{Audience, ChatRequest, ToolChoice};
use weft_core::{Error, ErrorKind, Json, NodeContext, Result, ToolOutput};

use super::acting::{INTERRUPTED, RoundContext, ToolRound, ends, failed, offered, unasked};
use super::background::Tasks;
use super::draft::{Draft, DraftingModel};
use super::finish::{FINISH_FUNCTION, FinishOutput, finish_call, given_up};
use super::format::{Formatter, call};
use super::hooks::{HookContext, HookSet, ReasoningInput};
use super::inbox::Inbox;
use super::print::Printer;
use super::printed::PrintedMessage;
use super::retrieve::{QueryRewrite, retrieved, rewritten};
use super::{FinishStyle, Hints, Output, ReActDefinition, ToolCalls};
use crate::ask::{Ending, Reply, ask, empty_answer, warn_of_cut};
use crate::calls::{self, CallState, OpenCall};
use crate::driver::{self, Job};
use crate::memory::Memory;
use crate::message::{ContentBlock, Message, Role, ToolResult, ToolUse, text_of};
use crate::plan_notebook::PlanNotebook;
use crate::toolkit::{Offered, Toolkit};
use crate::transcript::tidy;
use crate::window::room;

/// The notice to the model that there are no more iterations.
const SUMMARY: &str = include_str!("../prompts/summary.md");
/// The same notice when a structured value is still missing.
const FORCED: &str = include_str!("../prompts/forced.md");
/// The notice to the model that its answer was empty.
const EMPTY: &str = include_str!("../prompts/empty.md");
/// The reply of the agent when it was interrupted.
const INTERRUPTED_REPLY: &str = "I was interrupted. What should I do now?";
/// Maximum number of parallel calls.
const PARALLEL_MAX: usize = 8;
/// How often a structured answer may be corrected after the last iteration.
const REPAIRS_MAX: u32 = 3;

/// The state of a reply in progress.
pub(super) struct Turn<'a> {
    pub(super) agent: &'a ReActDefinition,
    pub(super) memory: &'a mut Memory,
    pub(super) formatter: Formatter,
    pub(super) tools: Toolkit,
    pub(super) notebook: Option<PlanNotebook>,
    pub(super) tasks: Tasks,
    pub(super) inbox: Inbox,
    pub(super) hooks: HookSet,
    pub(super) printer: &'a Arc<Printer>,
    pub(super) ctx: Arc<NodeContext>,
    pub(super) finish: Toolkit,
    /// Whether the finish function has to provide a structured value.
    pub(super) structured: bool,
    pub(super) tool_choice: ToolChoice,
    pub(super) context: HookContext,
    pub(super) options: driver::Options,
    pub(super) offered: Offered,
    /// The id of the message that is replied to.
    pub(super) current: String,
    /// How the model's last answer ended.
    pub(super) ending: Ending,
    /// The last notice to the user about messages that were left out of a prompt.
    pub(super) left_out: String,
}

/// The outcome of a reply.
pub(super) enum TurnOutcome {
    /// It completed.
    Completed(Message),
    /// It was interrupted.
    Interrupted(Message),
}

/// The input of one request to the model.
struct ModelInput {
    messages: Vec<Message>,
    choice: ToolChoice,
}

impl<'a> Turn<'a> {
    /// The options of the shared loop of calls.
    pub(super) fn call_options(agent: &ReActDefinition) -> driver::Options {
        let parallel = match agent.settings.tool_calls {
            ToolCalls::Sequential => 1,
            ToolCalls::Parallel => PARALLEL_MAX,
        };
        driver::Options { parallel, ..driver::Options::default() }
    }

    /// Replies to a message, or without one to the last message of another speaker.
    pub(super) async fn reply(mut self, message: Option<Message>) -> Result<TurnOutcome> {
        let message = match message {
            Some(message) => Some(self.hooks.run(|hooks| &hooks.pre_reply, &self.context, message).await?),
            None => None,
        };
        self.refuse_unknown(&self.tool_choice)?;
        // A reply that was dropped midway may have left open calls.
        self.memory.close_tool_uses(INTERRUPTED);
        self.read_inbox().await?;
        let now_ms = self.now_ms();
        let asked = match message {
            Some(message) => {
                self.current.clone_from(&message.id);
                let asked = message.text();
                self.memory.add(message.stamped(now_ms));
                asked
            }
            None => {
                let others =
                    |message: &&Message| message.name != *self.context.agent && message.role != Role::System;
                let last = self.memory.messages().iter().rev().find(others);
                self.current = last.map(|message| message.id.clone()).unwrap_or_default();
                last.map(Message::text).unwrap_or_default()
            }
        };
        let (reply, replied): (_, fn(Message) -> TurnOutcome) = match self.informed(&asked).await {
            Ok(reply) => (reply, TurnOutcome::Completed),
            Err(_) if self.ctx.cancel.is_cancelled() => (self.interrupted().await?, TurnOutcome::Interrupted),
            Err(error) => return Err(error),
        };
        let reply = self.hooks.run(|hooks| &hooks.post_reply, &self.context, reply).await?;
        self.memory.add(reply.clone());
        let replied = replied(reply);
        // After the hooks: what a guardrail removes from a reply, or blocks, must not get into a memory that outlives
        // the session.
        if let TurnOutcome::Completed(reply) = &replied {
            self.keep(&asked, reply).await?;
        }
        Ok(replied)
    }

    /// Adds what is known and remembered about the message, then reasons and acts.
    async fn informed(&mut self, asked: &str) -> Result<Message> {
        self.recall(asked).await?;
        self.look_up(asked).await?;
        self.iterate().await
    }

    /// Adds what the knowledge bases have about the message.
    async fn look_up(&mut self, asked: &str) -> Result<()> {
        let extras = &self.agent.extras;
        if extras.knowledge.is_empty() || asked.trim().is_empty() {
            return Ok(());
        }
        let query = match extras.rewrite {
            QueryRewrite::Off => asked.to_owned(),
            QueryRewrite::On => match self.reworded().await {
                Ok(query) => query,
                Err(error) if self.ctx.cancel.is_cancelled() || error.kind == ErrorKind::QuotaExceeded => {
                    return Err(error);
                }
                Err(error) => {
                    self.warn("the search uses the original question", &error).await?;
                    asked.to_owned()
                }
            },
        };
        // The program's own bases have no time limit, so an interruption has to end the wait for them.
        let (told, problems) = self.unless_interrupted(retrieved(&extras.knowledge, &query)).await?;
        for problem in problems {
            self.warn("a knowledge source is left out", &problem).await?;
        }
        match told {
            Some(text) => self.inform("retrieved_knowledge", text).await,
            None => Ok(()),
        }
    }

    async fn reworded(&self) -> Result<String> {
        let model = &*self.agent.model;
        let room = room(model.info().window, None, 0);
        let (messages, _) = self.formatter.format(self.memory.messages(), Some(&self.current), room)?;
        self.unless_interrupted(Box::pin(rewritten(&self.ctx, model, messages))).await?
    }

    /// Does some work, unless the reply is interrupted before its end.
    ///
    /// # Errors
    /// `Cancelled` when the reply is interrupted.
    pub(super) async fn unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.ctx.cancel.cancelled() => {
                Err(Error::new(ErrorKind::Cancelled, "the reply was interrupted"))
            }
            done = work => Ok(done),
        }
    }

    /// Adds information for the model besides the user's message. It stays in the memory.
    pub(super) async fn inform(&mut self, name: &str, text: String) -> Result<()> {
        let message = Message::new(Role::User, name, vec![ContentBlock::text(text)]).stamped(self.now_ms());
        if self.agent.settings.hints == Hints::Printed {
            self.print(PrintedMessage { message: message.clone(), last: true }).await?;
        }
        self.memory.add(message);
        Ok(())
    }

    pub(super) async fn warn(&self, what: &str, error: &Error) -> Result<()> {
        self.ctx.signal(Signal::Warn(format!("{what}: {}", error.full()))).await
    }

    async fn iterate(&mut self) -> Result<Message> {
        for iteration in 0..self.agent.settings.max_iters {
            self.context.iteration = iteration;
            self.read_inbox().await?;
            let Some(message) = self.reasoning().await? else { continue };
            if message.tool_uses().next().is_none() {
                return Ok(message);
            }
            if let Some(reply) = self.acting(&message).await? {
                return Ok(reply);
            }
        }
        self.context.iteration = self.agent.settings.max_iters;
        if self.structured { self.finish_by_force().await } else { self.summarize().await }
    }

    /// Asks the model what to do. `None` when a hook has removed its whole answer. A message without calls is the
    /// reply, and is not yet in the memory.
    async fn reasoning(&mut self) -> Result<Option<Message>> {
        let choice = match (&self.tool_choice, self.context.iteration) {
            // Otherwise the same tool would be called forever.
            (ToolChoice::Named(_), 1..) => ToolChoice::Auto,
            (choice, _) => choice.clone(),
        };
        let mut messages = self.compressed().await?;
        if let Some(notebook) = &self.notebook {
            messages.push(self.hint(&notebook.hint()).await?);
        }
        let (news, ended) = self.tasks.news().unzip();
        if let Some(news) = news {
            messages.push(self.hint(&news).await?);
        }
        let input = ReasoningInput { messages, tool_choice: choice };
        let input = self.hooks.run(|hooks| &hooks.pre_reasoning, &self.context, input).await?;
        self.refuse_unknown(&input.tool_choice)?;
        let asked = ModelInput { messages: input.messages, choice: input.tool_choice };
        let message = self.think(asked).await?;
        // Only now: a request that failed or was interrupted has told the model nothing.
        self.tasks.note_told(&ended.unwrap_or_default());
        let mut message = self.hooks.run(|hooks| &hooks.post_reasoning, &self.context, message).await?;
        if message.tool_uses().next().is_none() {
            if message.text().trim().is_empty() {
                return Ok(None);
            }
            if !self.finishes_by_function() {
                return Ok(Some(message));
            }
            finish_with_text(&mut message);
        }
        self.tidy(&mut message);
        self.memory.add(message.clone());
        Ok(Some(message))
    }

    /// Asks the model, shows its answer, and converts text alone to a call of the finish function if there is one.
    async fn think(&mut self, input: ModelInput) -> Result<Message> {
        let ModelInput { mut messages, choice } = input;
        let nothing = |reply: &Reply| reply.calls.is_empty() && reply.text.trim().is_empty();
        let (mut message, mut reply) = self.ask(&messages, choice.clone()).await?;
        if nothing(&reply) && reply.ending == Ending::Whole {
            messages.push(self.hint(EMPTY).await?);
            (message, reply) = self.ask(&messages, choice).await?;
        }
        if nothing(&reply) {
            return Err(empty_answer(reply.ending, &reply.calls));
        }
        if reply.calls.is_empty() && self.finishes_by_function() {
            finish_with_text(&mut message);
        }
        self.ending = reply.ending;
        self.tidy(&mut message);
        self.print(PrintedMessage { message: message.clone(), last: true }).await?;
        Ok(message)
    }

    /// One request to the model.
    async fn ask(&mut self, messages: &[Message], choice: ToolChoice) -> Result<(Message, Reply)> {
        let request = self.request(messages, choice).await?;
        let draft = Draft::new(&self.context.agent, self.now_ms());
        let draft = match self.agent.settings.output {
            Output::Streamed => draft.shown_by(self.printer, &self.context),
            Output::Whole => draft,
        };
        let model = DraftingModel { model: &*self.agent.model, draft: draft.clone() };
        let mut nobody = |_| {};
        let asking = Box::pin(ask(&self.ctx, &model, request, &mut nobody));
        let cancel = self.ctx.cancel.clone();
        let reply = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let mut partial = draft.so_far();
                if !partial.content.is_empty() {
                    self.tidy(&mut partial);
                    self.print(PrintedMessage { message: partial.clone(), last: true }).await?;
                    self.memory.add(partial);
                }
                return Err(Error::new(ErrorKind::Cancelled, "the reply was interrupted"));
            }
            reply = asking => reply?,
        };
        Ok((draft.complete(&reply), reply))
    }

    async fn request(&mut self, messages: &[Message], tool_choice: ToolChoice) -> Result<ChatRequest> {
        let (tools, tokens) = self.offered.now(offered(&self.tools, &self.finish));
        let settings = &self.agent.settings;
        let window = room(self.agent.model.info().window, settings.sampling.max_tokens, tokens);
        let room = settings.prompt_tokens_max.map_or(window, |max| window.min(max));
        let (messages, note) = self.formatter.format(messages, Some(&self.current), room)?;
        if let Some(note) = note {
            self.ctx.signal(Signal::Warn(note)).await?;
        }
        let audience = match settings.output {
            Output::Streamed => Audience::Listening,
            Output::Whole => Audience::Nobody,
        };
        let sampling = settings.sampling.clone();
        Ok(ChatRequest { messages, sampling, tools, tool_choice, audience, ..ChatRequest::default() })
    }

    /// Makes the calls of a message. Returns the reply if the finish function was among them.
    async fn acting(&mut self, message: &Message) -> Result<Option<Message>> {
        let written: Vec<ToolUse> = message.tool_uses().cloned().collect();
        let round = ToolRound::new(&self.round_context(), &written);
        // Other calls are made before the finish function is called.
        let (finishing, others): (Vec<_>, Vec<_>) =
            written.iter().map(call).partition(|call| call.name == FINISH_FUNCTION);
        let mut open: Vec<OpenCall> = others.into_iter().chain(finishing).map(OpenCall::new).collect();
        let model = &*self.agent.model;
        let job = Job { ctx: &self.ctx, model, tools: &round, options: &self.options, writer: None };
        let made = Box::pin(calls::make(&job, &mut open, &Map::new(), self.ending, None)).await;
        let interrupted = made.is_err() || self.ctx.cancel.is_cancelled();
        let mut reply = None;
        for call in &written {
            if round.ended(&call.id).is_none() {
                match open.iter().find(|open| open.call.id == call.id).map(|open| &open.state) {
                    Some(CallState::Done(done)) => {
                        let output = ToolOutput { failed: done.failed, ..ToolOutput::text(&*done.text) };
                        round.end(&call.id, output).await;
                    }
                    _ if interrupted => drop(round.interrupt(&call.id).await),
                    _ => drop(round.end(&call.id, failed(&unasked())).await),
                }
            }
            // In the order in which the model wrote them: providers require results in the order of the calls.
            let Some((message, response)) = round.ended(&call.id) else { continue };
            self.memory.add(message);
            reply = reply.or_else(|| ends(&response).map(|finished| self.replied(finished)));
        }
        // Only now that every call has its result in the memory, whatever happens to the reply.
        made?;
        match round.failure() {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }

    /// Asks for an answer without tools.
    async fn summarize(&mut self) -> Result<Message> {
        self.read_inbox().await?;
        let mut messages = self.compressed().await?;
        messages.push(self.hint(SUMMARY).await?);
        let (mut message, reply) = self.ask(&messages, ToolChoice::None).await?;
        // Calls of tools that were not offered are a mistake; the text beside them is the answer.
        message.content.retain(|block| !matches!(block, ContentBlock::ToolUse(_)));
        if message.text().trim().is_empty() {
            return Err(empty_answer(reply.ending, &reply.calls));
        }
        if reply.ending == Ending::CutOff {
            warn_of_cut(&self.ctx).await?;
        }
        self.print(PrintedMessage { message: message.clone(), last: true }).await?;
        Ok(message)
    }

    /// Asks only for the structured answer.
    async fn finish_by_force(&mut self) -> Result<Message> {
        self.tools = Toolkit::new();
        let mut problem = String::new();
        for attempt in 0..=REPAIRS_MAX {
            let mut messages = self.compressed().await?;
            if attempt == 0 {
                messages.push(self.hint(FORCED).await?);
            }
            let choice = ToolChoice::Named(FINISH_FUNCTION.to_owned());
            let message = self.think(ModelInput { messages, choice }).await?;
            self.memory.add(message.clone());
            if let Some(reply) = self.acting(&message).await? {
                return Ok(reply);
            }
            let last = self.memory.messages().last();
            problem = last
                .and_then(|message| message.tool_results().next().map(|r| text_of(&r.output)))
                .unwrap_or_default();
        }
        Err(given_up(&problem))
    }

    /// Closes the calls that the interruption left open, and asks what to do.
    async fn interrupted(&mut self) -> Result<Message> {
        for call in self.memory.open_tool_uses() {
            let output = vec![ContentBlock::text(INTERRUPTED)];
            let message = Message::tool_result(ToolResult { id: call.id, name: call.name, output });
            let message = message.stamped(self.now_ms());
            self.memory.add(message.clone());
            self.print(PrintedMessage { message, last: true }).await?;
        }
        let mut reply = self.says(vec![ContentBlock::text(INTERRUPTED_REPLY)]);
        reply.metadata.insert("is_interrupted".to_owned(), Json::Bool(true));
        self.print(PrintedMessage { message: reply.clone(), last: true }).await?;
        Ok(reply)
    }

    fn finishes_by_function(&self) -> bool {
        self.structured || self.agent.settings.finish == FinishStyle::Function
    }

    fn replied(&self, finished: FinishOutput) -> Message {
        let message = self.says(vec![ContentBlock::text(finished.response)]);
        Message { metadata: finished.structured, ..message }
    }

    fn says(&self, content: Vec<ContentBlock>) -> Message {
        Message::new(Role::Assistant, &*self.context.agent, content).stamped(self.now_ms())
    }

    /// A message that the model sees once, and the user as well if hints are printed.
    async fn hint(&self, text: &str) -> Result<Message> {
        let content = vec![ContentBlock::text(text.trim_end())];
        let message = Message::new(Role::User, "hint", content).stamped(self.now_ms());
        if self.agent.settings.hints == Hints::Printed {
            self.print(PrintedMessage { message: message.clone(), last: true }).await?;
        }
        Ok(message)
    }

    /// Gives the calls of a new message ids that are unique in the conversation.
    fn tidy(&self, message: &mut Message) {
        let calls = message.content.iter_mut().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some((&mut call.id, &mut call.name)),
            _ => None,
        });
        tidy(&mut self.memory.call_ids(), calls);
    }

    fn refuse_unknown(&self, choice: &ToolChoice) -> Result<()> {
        let ToolChoice::Named(name) = choice else { return Ok(()) };
        let tools = offered(&self.tools, &self.finish);
        if tools.iter().any(|tool| tool.name == *name) {
            return Ok(());
        }
        let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        Err(Error::invalid(format!("the tool `{name}` cannot be forced: it is not offered"))
            .help(format!("choose one of these: {}", known.join(", "))))
    }

    fn round_context(&self) -> RoundContext<'_> {
        RoundContext {
            tools: &self.tools,
            finish: &self.finish,
            hooks: &self.hooks,
            printer: self.printer,
            context: &self.context,
            now_ms: self.now_ms(),
        }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.ctx.run.seams.clock.now_ms()
    }

    pub(super) async fn print(&self, printed: PrintedMessage) -> Result<()> {
        self.printer.print(&self.context, printed).await
    }
}

/// Converts the text of a message to a call of the finish function.
fn finish_with_text(message: &mut Message) {
    let response = message.text();
    message.content.retain(|block| !matches!(block, ContentBlock::Text { .. }));
    message.content.push(ContentBlock::ToolUse(finish_call(&response)));
}
