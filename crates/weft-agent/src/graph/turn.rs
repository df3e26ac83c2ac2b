//! One turn: runs node after node, and saves the result of each before the next begins.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weft_core::context::{RunContext, Signal};
use weft_core::effect::{Effects, Known};
use weft_core::seam::chat_model::Usage;
use weft_core::{Error, Result};

use super::checkpoint::{CallNote, Checkpoint, VERSION};
use super::events::{EventKind, Events, tool_end, tool_start};
use super::nodes::{NodeWork, not_executed};
use super::state::{GraphState, Update};
use super::topology::{Node, next};
use super::{GraphDefinition, GraphReply, StreamItem, TurnOptions};
use crate::long_term::{LongTermMemory, Owner, Storing, asked_to_remember};
use crate::message::{Message, Role};
use crate::standalone::{Signals, node_context, run_context};

/// Maximum number of warnings kept from one turn.
// A tool in a loop may emit warnings without end, and the reply contains them all.
const WARNINGS_MAX: usize = 100;
/// The result of a call of a turn that was cut off and is not continued.
const CUT_OFF: &str = "The call was cut off; nobody knows what came of it.";

/// A turn in progress.
struct GraphTurn<'a> {
    agent: &'a GraphDefinition,
    thread: &'a str,
    run: Arc<RunContext>,
    events: Arc<Events>,
    options: TurnOptions,
    state: GraphState,
    /// The last checkpoint's id and node.
    last: (String, Node),
    /// The known calls of the next node.
    known: HashMap<Arc<str>, Known>,
    notices: TurnNotices,
}

/// What a turn collects besides the changes of its nodes.
#[derive(Default)]
struct TurnNotices {
    usage: Usage,
    warnings: Vec<String>,
}

/// Stores memories in the background. Returns a message if that fails.
type Background = BoxFuture<'static, Option<String>>;

/// Runs a turn without a reader of its events.
pub(super) async fn whole(
    agent: &GraphDefinition,
    thread: &str,
    message: Option<Message>,
    options: TurnOptions,
) -> Result<GraphReply> {
    let run = run_context(&agent.seams, agent.settings.budget, thread);
    let events = Arc::new(Events::unread(run.run.as_str()));
    turn(agent, thread, message, Attempt { options, run, events }).await
}

/// Runs a turn while its events are read.
pub(super) fn streamed(
    agent: Arc<GraphDefinition>,
    thread: String,
    message: Option<Message>,
    options: TurnOptions,
) -> impl Stream<Item = Result<StreamItem>> + Send + use<> {
    async_stream::stream! {
        let run = run_context(&agent.seams, agent.settings.budget, &thread);
        let (events, mut coming) = Events::read(run.run.as_str());
        let mut work = turn(&agent, &thread, message, Attempt { options, run, events: Arc::new(events) }).boxed();
        let done = loop {
            tokio::select! {
                biased;
                Some(event) = coming.recv() => yield Ok(StreamItem::Event(event)),
                done = &mut work => break done,
            }
        };
        drop(work);
        while let Some(event) = coming.recv().await {
            yield Ok(StreamItem::Event(event));
        }
        yield done.map(StreamItem::Reply);
    }
}

/// The parts of a turn that do not depend on the thread.
struct Attempt {
    options: TurnOptions,
    run: Arc<RunContext>,
    events: Arc<Events>,
}

async fn turn(
    agent: &GraphDefinition,
    thread: &str,
    message: Option<Message>,
    attempt: Attempt,
) -> Result<GraphReply> {
    let turn = begin(agent, thread, message, attempt).await?;
    let (begin_storing, storing) = oneshot::channel::<Background>();
    let store = async { storing.await.ok()?.await };
    // What has to be remembered is stored while the nodes run.
    let (reply, problem) = futures::future::join(turn.go(begin_storing), store).await;
    let mut reply = reply?;
    reply.warnings.extend(problem);
    Ok(reply)
}

/// Loads the thread and adds the message if there is one.
async fn begin<'a>(
    agent: &'a GraphDefinition,
    thread: &'a str,
    message: Option<Message>,
    attempt: Attempt,
) -> Result<GraphTurn<'a>> {
    let Attempt { options, run, events } = attempt;
    let saved = agent.checkpointer.latest(thread).await?;
    if message.is_none() && saved.is_none() {
        return Err(Error::not_found(format!("there is no thread `{thread}`")));
    }
    let (state, last, known) = match saved {
        Some(saved) => (saved.state, Some((saved.id, saved.node)), saved.calls),
        None => (GraphState::default(), None, HashMap::new()),
    };
    let parent = last.as_ref().map(|(id, _)| id.clone());
    let last = last.unwrap_or_else(|| (String::new(), Node::End));
    let notices = TurnNotices::default();
    let mut turn = GraphTurn { agent, thread, run, events, options, state, last, known, notices };
    if let Some(message) = message {
        let now_ms = turn.now_ms();
        // In the same checkpoint as the question, so that a thread is never saved between the two.
        let mut messages = not_executed(&turn.state, CUT_OFF, now_ms);
        messages.push(Message { role: Role::User, ..message }.stamped(now_ms));
        turn.keep(Node::Start, parent, Update { messages, ..Update::default() }).await?;
    }
    Ok(turn)
}

impl GraphTurn<'_> {
    async fn go(mut self, begin_storing: oneshot::Sender<Background>) -> Result<GraphReply> {
        let mut begin_storing = Some(begin_storing);
        loop {
            let node = next(self.last.1, &self.state);
            let update = match node {
                Node::End | Node::Start => break,
                Node::MemoryTrigger => {
                    if let (Some(begin), Some(storing)) = (begin_storing.take(), self.storing()) {
                        // Without a receiver the turn has ended.
                        let _ = begin.send(storing);
                    }
                    Update::default()
                }
                node => self.run(node).await?,
            };
            self.keep(node, Some(self.last.0.clone()), update).await?;
        }
        let Self { state, notices, .. } = self;
        let metadata = state.metadata.unwrap_or_default();
        let TurnNotices { usage, warnings } = notices;
        Ok(GraphReply { reply: state.final_reply, metadata, usage, warnings })
    }

    /// Runs a node. Its signals are handled while it runs, and all of them before the next node.
    async fn run(&mut self, node: Node) -> Result<Update> {
        // Only for the first node: the notes follow the last checkpoint and belong to the node after it.
        let effects = Effects::known(std::mem::take(&mut self.known));
        // A child token, so that a node may cancel its own calls without ending the turn.
        let cancel = self.options.cancel.child_token();
        let (ctx, mut signals) = node_context(&self.run, &self.agent.name, effects, cancel);
        self.events.set_step(self.state.current_step);
        let work = NodeWork { agent: self.agent, events: &self.events, state: &self.state, ctx };
        let mut work = work.of(node).boxed();
        let mut notices = std::mem::take(&mut self.notices);
        let done = loop {
            tokio::select! {
                // Signals first: the work waits until some of them are recorded, and signals sent before its end must
                // be handled before it.
                biased;
                Some((_, signal)) = signals.recv() => self.hear(signal, &mut notices).await?,
                done = &mut work => break done,
            }
        };
        drop(work);
        self.hear_rest(signals, &mut notices).await?;
        self.notices = notices;
        done
    }

    async fn hear_rest(&self, mut signals: Signals, notices: &mut TurnNotices) -> Result<()> {
        while let Ok((_, signal)) = signals.try_recv() {
            self.hear(signal, notices).await?;
        }
        Ok(())
    }

    async fn hear(&self, signal: Signal, notices: &mut TurnNotices) -> Result<()> {
        match signal {
            Signal::EffectStarted(started) => {
                // Effects that may be repeated need no note when they start.
                if let Some(safe) = started.safe {
                    self.note(CallNote { key: started.key, gave: None }).await?;
                    let _ = safe.send(self.agent.seams.clock.running());
                }
            }
            Signal::EffectFinished(finished) => {
                self.note(CallNote { key: finished.key, gave: Some(finished.gave) }).await?;
            }
            Signal::ToolStarted(started) => self.events.send(self.now_ms(), tool_start(&started)).await?,
            Signal::ToolFinished(finished) => self.events.send(self.now_ms(), tool_end(&finished)).await?,
            Signal::Used(used) => notices.usage += used.usage,
            Signal::Warn(warning) => notices.warn(warning),
            Signal::Limited(why) => notices.warn(format!("the work was cut short: {}", why.as_str())),
            // Everything sent earlier has been recorded by now.
            Signal::Stored(safe) => drop(safe.send(self.agent.seams.clock.running())),
            // They are for the readers of a canvas's output; a turn has its own events.
            Signal::Speak | Signal::Say(_) | Signal::Play(_) | Signal::Publish(..) => {}
        }
        Ok(())
    }

    async fn note(&self, call: CallNote) -> Result<()> {
        self.agent.checkpointer.put_call(self.thread, &self.last.0, &call).await
    }

    /// Saves the changes of a node, then applies them.
    async fn keep(&mut self, node: Node, parent: Option<String>, update: Update) -> Result<()> {
        let id = weft_core::id::generate();
        let at_ms = self.now_ms();
        let checkpoint = Checkpoint { version: VERSION, id: id.clone(), parent, node, update, at_ms };
        // Saved before it is applied: later work must not depend on something that a crash would undo.
        self.agent.checkpointer.put(self.thread, &checkpoint).await?;
        self.state.apply(checkpoint.update);
        self.last = (id, node);
        // Keys repeat from node to node; a note of the previous node must not answer a call of the next one.
        self.known.clear();
        Ok(())
    }

    /// Starts storing what the user asked to remember.
    fn storing(&self) -> Option<Background> {
        let memory = Arc::clone(self.agent.memory.as_ref()?);
        let text = asked_to_remember(&self.state.question()?.text())?.to_owned();
        let owner = self.options.owner.clone().unwrap_or_else(|| Owner {
            agent_id: Some(self.agent.name.to_string()),
            run_id: Some(self.thread.to_owned()),
            ..Owner::default()
        });
        let (events, clock) = (Arc::clone(&self.events), Arc::clone(&self.agent.seams.clock));
        let (limit, cancel) = (self.agent.settings.memory_time_limit, self.options.cancel.clone());
        Some(
            async move {
                match tokio::time::timeout(limit, stored(&*memory, &owner, &text, &cancel)).await {
                    Ok(Ok(ids)) => {
                        let told = events.send(clock.now_ms(), EventKind::MemoryStored { ids }).await;
                        told.err().map(|error| error.full())
                    }
                    Ok(Err(error)) => Some(format!("the requested memory was not stored: {}", error.full())),
                    Err(_) => Some(format!("the requested memory was not stored within {limit:?}")),
                }
            }
            .boxed(),
        )
    }

    fn now_ms(&self) -> i64 {
        self.agent.seams.clock.now_ms()
    }
}

async fn stored(
    memory: &dyn LongTermMemory,
    owner: &Owner,
    text: &str,
    cancel: &CancellationToken,
) -> Result<Vec<String>> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Error::new(weft_core::ErrorKind::Cancelled, "the turn was cancelled")),
        ids = memory.add(owner, text, Storing::Verbatim) => ids,
    }
}

impl TurnNotices {
    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(warning);
        }
    }
}
