//! Hooks: functions of the program that see, and may change, what is passed between the stages of a reply.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use weft_core::Result;
use weft_core::seam::chat_model::ToolChoice;
use weft_core::tool::ToolOutput;

use super::printed::PrintedMessage;
use crate::message::{Message, ToolUse};

/// Where a hook is called from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookContext {
    /// The agent's name.
    pub agent: Arc<str>,
    /// The session's id.
    pub session: Arc<str>,
    /// The iteration of the reply, from 0; outside of iterations, the number of iterations so far.
    pub iteration: u32,
}

/// The input of the next request to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningInput {
    /// The conversation, without the instructions. A change affects only this request.
    pub messages: Vec<Message>,
    /// Whether and how the model may call tools.
    pub tool_choice: ToolChoice,
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResponse {
    /// The call.
    pub call: ToolUse,
    /// The tool's output, including its metadata.
    pub output: ToolOutput,
    /// Whether it is complete.
    pub is_last: bool,
    /// Whether the call was stopped by an interruption; the output is what the tool had produced until then.
    pub is_interrupted: bool,
}

type Hook<T> = dyn Fn(HookContext, T) -> BoxFuture<'static, Result<Option<T>>> + Send + Sync;
type NamedHook<T> = (String, Arc<Hook<T>>);

/// The named hooks of one point, in the order in which they were added. Clones share them.
pub struct HookList<T>(Arc<Mutex<Vec<NamedHook<T>>>>);

impl<T> Clone for HookList<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for HookList<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> fmt::Debug for HookList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().iter().map(|(name, _)| name)).finish()
    }
}

impl<T> HookList<T> {
    /// Adds a hook. It gets a copy of the value and returns a replacement, or `None` to leave it unchanged; its error
    /// fails the stage. A hook of the same name is replaced at its position.
    pub fn add<F, Fut>(&self, name: impl Into<String>, hook: F)
    where
        F: Fn(HookContext, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<T>>> + Send + 'static,
    {
        let (name, hook): (String, Arc<Hook<T>>) =
            (name.into(), Arc::new(move |context, value| hook(context, value).boxed()));
        let mut hooks = self.lock();
        match hooks.iter_mut().find(|(known, _)| *known == name) {
            // At its position: later hooks may rely on what it does.
            Some((_, known)) => *known = hook,
            None => hooks.push((name, hook)),
        }
    }

    /// Removes a hook. Returns whether there was one of this name.
    pub fn remove(&self, name: &str) -> bool {
        let mut hooks = self.lock();
        let before = hooks.len();
        hooks.retain(|(known, _)| known != name);
        hooks.len() < before
    }

    /// Removes all hooks of this point.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NamedHook<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> HookList<T> {
    async fn run(&self, context: &HookContext, mut value: T) -> Result<T> {
        // The current hooks: a hook may add and remove hooks.
        let hooks: Vec<_> = self.lock().iter().map(|(_, hook)| Arc::clone(hook)).collect();
        for hook in hooks {
            if let Some(changed) = hook(context.clone(), value.clone()).await? {
                value = changed;
            }
        }
        Ok(value)
    }
}

/// The hooks of a session, of an agent, or of several agents. Clones share them, so hooks that are added later apply
/// to all holders of a clone.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Before a reply: the message that is replied to.
    pub pre_reply: HookList<Message>,
    /// After a reply: the reply, before it is remembered.
    pub post_reply: HookList<Message>,
    /// Before the model is asked.
    pub pre_reasoning: HookList<ReasoningInput>,
    /// After it has answered: its message, before it is remembered and its calls are made.
    pub post_reasoning: HookList<Message>,
    /// Before a tool is called. The call keeps its id. An error is passed to the model in place of a result.
    pub pre_acting: HookList<ToolUse>,
    /// After a tool was called, or could not be: the response that the model gets.
    pub post_acting: HookList<ToolResponse>,
    /// Before a message, or a chunk of one, is shown.
    pub pre_print: HookList<PrintedMessage>,
    /// After it was shown; a change affects only later hooks.
    pub post_print: HookList<PrintedMessage>,
    /// Before a message is remembered without being replied to.
    pub pre_observe: HookList<Message>,
    /// After that; a change affects only later hooks.
    pub post_observe: HookList<Message>,
}

impl Hooks {
    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all hooks of all points.
    pub fn clear(&self) {
        let Self { pre_reply, post_reply, pre_reasoning, post_reasoning, .. } = self;
        let Self { pre_acting, post_acting, pre_print, post_print, pre_observe, post_observe, .. } = self;
        for messages in [pre_reply, post_reply, post_reasoning, pre_observe, post_observe] {
            messages.clear();
        }
        pre_print.clear();
        post_print.clear();
        pre_reasoning.clear();
        pre_acting.clear();
        post_acting.clear();
    }
}

/// The hooks that apply to one session: its own first, then those of its agent.
#[derive(Clone, Debug)]
pub(crate) struct HookSet {
    pub(crate) session: Hooks,
    pub(crate) agent: Hooks,
}

impl HookSet {
    /// Runs the hooks of one point.
    pub(crate) async fn run<T: Clone>(
        &self,
        point: fn(&Hooks) -> &HookList<T>,
        context: &HookContext,
        value: T,
    ) -> Result<T> {
        // The agent's last: hooks for all sessions take precedence.
        let value = point(&self.session).run(context, value).await?;
        point(&self.agent).run(context, value).await
    }
}
