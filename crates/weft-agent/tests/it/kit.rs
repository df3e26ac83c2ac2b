//! An agent's environment: a run, a scripted model, tools that record their calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tokio::task::JoinSet;
use weft_agent::driver::{Answer, Driver, End, Job, Options, Start};
use weft_agent::native::Native;
use weft_agent::window::Line;
use weft_agent::{Toolkit, driver};
use weft_core::budget::{Budget, BudgetLimits, Holder, Spent};
use weft_core::citation::Chunk;
use weft_core::component::Suspension;
use weft_core::context::{Signal, ToolFinished};
use weft_core::effect::Known;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatModel, ChatRequest, Prices};
use weft_core::tool::ToolSession;
use weft_core::{Error, NodeContext, Result, SharedText, Tool};
use weft_models::retrying::{RetryPolicy, Retrying};
use weft_testkit::around::{node_context, run_context};
use weft_testkit::{Reply, Script, ScriptedModel};

/// A run with one agent in it.
pub(crate) struct World {
    pub ctx: Arc<NodeContext>,
    pub toolkit: Toolkit,
    pub model: ScriptedModel,
    /// A wrapper around the model, if any.
    front: Option<Arc<dyn ChatModel>>,
    pub options: Options,
    /// The calls made, in order: `name(arguments)`.
    pub called: Arc<Mutex<Vec<String>>>,
    signals: Arc<Mutex<Vec<Signal>>>,
    _listening: JoinSet<()>,
}

impl World {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = replies.into_iter().fold(Script::new(), Script::reply);
        Self::with(ScriptedModel::new(script))
    }

    /// With a model that is retried after a broken stream.
    pub(crate) fn with_retries(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut world = Self::new(replies);
        world.front = Some(Arc::new(Retrying::new(world.model.clone(), RetryPolicy::default())));
        world
    }

    fn asked_model(&self) -> &dyn ChatModel {
        self.front.as_deref().unwrap_or(&self.model)
    }

    pub(crate) fn with(model: ScriptedModel) -> Self {
        let (ctx, mut receive) = node_context(run_context());
        let signals = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&signals);
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            while let Some((_, mut signal)) = receive.recv().await {
                noted(&mut signal);
                heard.lock().unwrap().push(signal);
            }
        });
        let world = Self {
            ctx: Arc::new(ctx),
            toolkit: Toolkit::new(),
            model,
            front: None,
            options: Options::default(),
            called: Arc::default(),
            signals,
            _listening: listening,
        };
        world.echo("look", |_| {});
        world
    }

    /// Adds a tool that answers `found <q>` and records its calls.
    pub(crate) fn echo(&self, name: &str, change: impl FnOnce(&mut Tool)) {
        self.tool(name, change, |arguments| async move {
            Ok(json!(format!("found {}", arguments["q"].as_str().unwrap_or("nothing"))))
        });
    }

    /// Adds a tool.
    pub(crate) fn tool<F, Fut>(&self, name: &str, change: impl FnOnce(&mut Tool), work: F)
    where
        F: Fn(Map<String, Json>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Json>> + Send + 'static,
    {
        let (called, own) = (Arc::clone(&self.called), name.to_owned());
        let schema =
            json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}});
        let mut tool = Tool::function(name, format!("What {name} does."), schema, move |arguments| {
            called.lock().unwrap().push(format!("{own}({})", Json::Object(arguments.clone())));
            work(arguments)
        });
        change(&mut tool);
        self.toolkit.register(tool).unwrap();
    }

    /// Sets the budget of the agent.
    pub(crate) fn budget(&mut self, limits: BudgetLimits) {
        self.change(|ctx| ctx.budget = Budget::new(Holder::Run, limits, Spent::default(), None));
    }

    /// Sets the price and the window of the model.
    pub(crate) fn model_info(&mut self, window: usize, prices: Option<Prices>) {
        self.model = self.model.with_info(|info| {
            info.window = window;
            info.prices = prices;
        });
    }

    /// Replaces external services of the agent.
    pub(crate) fn seams(&mut self, change: impl FnOnce(&mut weft_core::seam::Seams)) {
        let ctx = Arc::get_mut(&mut self.ctx).unwrap();
        let run = Arc::get_mut(&mut ctx.run).unwrap();
        change(Arc::make_mut(&mut run.seams));
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut NodeContext)) {
        let mut ctx = (*self.ctx).clone();
        change(&mut ctx);
        self.ctx = Arc::new(ctx);
    }

    /// The available sources, with these texts.
    pub(crate) fn sources(&self, texts: &[&str]) {
        let chunk =
            |text: &&str| Chunk { id: (*text).to_owned(), content: (*text).to_owned(), ..Chunk::default() };
        self.ctx.run.citations.number(texts.iter().map(chunk));
    }

    pub(crate) async fn drive(&self, driver: &dyn Driver, start: Start) -> Result<End> {
        let tools: &dyn ToolSession = &self.toolkit;
        let model = self.asked_model();
        let job = Job { ctx: &self.ctx, model, tools, options: &self.options, writer: None };
        let end = driver.run(&job, start).await;
        // Signals have been received.
        tokio::task::yield_now().await;
        end
    }

    /// Asks `Q` and waits for the answer.
    pub(crate) async fn ask_with(&self, driver: &dyn Driver) -> Result<Answer> {
        match self.drive(driver, question("Q")).await? {
            End::Answered(answer) => Ok(answer),
            End::Suspended(suspension) => panic!("it waits for {suspension:?}"),
        }
    }

    pub(crate) async fn ask(&self) -> Result<Answer> {
        self.ask_with(&Native).await
    }

    /// Works until it waits for a person.
    pub(crate) async fn wait_with(&self, driver: &dyn Driver, start: Start) -> Suspension {
        match self.drive(driver, start).await.unwrap() {
            End::Suspended(suspension) => suspension,
            End::Answered(answer) => panic!("it answered {answer:?}"),
        }
    }

    /// Asks `Q`; returns the chunks that a listener sees.
    pub(crate) async fn heard(&self) -> Vec<String> {
        let (end, pieces) = self.listened().await;
        end.unwrap();
        pieces
    }

    /// The same for an answer that breaks off.
    pub(crate) async fn heard_of_failure(&self) -> (Error, Vec<String>) {
        let (end, pieces) = self.listened().await;
        (end.unwrap_err(), pieces)
    }

    async fn listened(&self) -> (Result<End>, Vec<String>) {
        self.listened_to(&Native, question("Q")).await
    }

    /// Works with a listener: returns the ending and the chunks seen.
    pub(crate) async fn listened_to(&self, driver: &dyn Driver, start: Start) -> (Result<End>, Vec<String>) {
        let (writer, text) = SharedText::new();
        tokio::join!(self.spoken(driver, start, writer), pieces(&text))
    }

    /// The same with a listener that arrives after the end.
    pub(crate) async fn listened_later(&self) -> (Result<End>, Vec<String>) {
        let (writer, text) = SharedText::new();
        let end = self.spoken(&Native, question("Q"), writer).await;
        (end, pieces(&text).await)
    }

    async fn spoken(
        &self,
        driver: &dyn Driver,
        start: Start,
        writer: weft_core::stream::TextWriter,
    ) -> Result<End> {
        let job = Job {
            ctx: &self.ctx,
            model: self.asked_model(),
            tools: &self.toolkit,
            options: &self.options,
            writer: Some(&writer),
        };
        let end = driver.run(&job, start).await;
        // Signals have been received.
        tokio::task::yield_now().await;
        writer.finish();
        end
    }

    /// The requests to the model.
    pub(crate) fn asked(&self) -> Vec<ChatRequest> {
        self.model.requests()
    }

    /// The text of a message of a request.
    pub(crate) fn text(&self, request: usize, message: usize) -> String {
        self.asked()[request].messages[message].text.clone()
    }

    /// The text of the last message of a request.
    pub(crate) fn last(&self, request: usize) -> String {
        self.asked()[request].messages.last().unwrap().text.clone()
    }

    pub(crate) fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    pub(crate) fn signals(&self) -> Vec<String> {
        let signals = self.signals.lock().unwrap();
        signals.iter().filter(|signal| !is_effect(signal)).map(told).collect()
    }

    /// The external calls recorded in the journal, in order.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.signals.lock().unwrap().iter().filter(|signal| is_effect(signal)).map(told).collect()
    }

    /// The journal of a process that stops after this many records.
    pub(crate) fn known(&self, notes: usize) -> HashMap<Arc<str>, Known> {
        let signals = self.signals.lock().unwrap();
        let known = signals.iter().filter(|signal| is_effect(signal)).take(notes);
        let known = known.filter_map(|signal| match signal {
            Signal::EffectStarted(started) => Some((Arc::clone(&started.key), Known::Begun)),
            Signal::EffectFinished(gave) => Some((Arc::clone(&gave.key), Known::Ended(gave.gave.clone()))),
            _ => None,
        });
        known.collect()
    }

    /// The journal of a process that stops right after this record.
    pub(crate) fn known_until(&self, note: &str) -> HashMap<Arc<str>, Known> {
        let place = self.notes().iter().position(|told| told == note);
        self.known(place.expect(note) + 1)
    }

    /// The trace: every finished call.
    pub(crate) fn trace(&self) -> Vec<ToolFinished> {
        let signals = self.signals.lock().unwrap();
        let finished = signals.iter().filter_map(|signal| match signal {
            Signal::ToolFinished(finished) => Some(ToolFinished::clone(finished)),
            _ => None,
        });
        finished.collect()
    }
}

fn is_effect(signal: &Signal) -> bool {
    matches!(signal, Signal::EffectStarted(_) | Signal::EffectFinished(_))
}

/// Signals are stored at once.
fn noted(signal: &mut Signal) {
    if let Signal::EffectStarted(started) = signal
        && let Some(safe) = started.safe.take()
    {
        let _ = safe.send(std::time::Duration::MAX);
    }
}

fn told(signal: &Signal) -> String {
    match signal {
        Signal::EffectStarted(started) => format!("began {}", started.key),
        Signal::EffectFinished(gave) => format!("gave {}", gave.key),
        Signal::ToolStarted(call) => format!("start {}", call.path),
        Signal::ToolFinished(call) => format!("end {}", call.started.path),
        Signal::Limited(reason) => format!("limited {}", reason.as_str()),
        Signal::Warn(message) => format!("warn {message}"),
        Signal::Used(_) => "used".to_owned(),
        Signal::Stored(_) => "stored".to_owned(),
        Signal::Speak | Signal::Say(_) | Signal::Play(_) | Signal::Publish(..) => "said".to_owned(),
    }
}

/// A conversation with instructions and one question.
pub(crate) fn question(text: &str) -> Start {
    Start::Conversation(vec![
        Line::pinned(ChatMessage::new(Author::System, "S")),
        Line::pinned(ChatMessage::new(Author::User, text)),
    ])
}

/// A conversation with this many earlier turns.
pub(crate) fn after_turns(turns: usize) -> Start {
    let mut lines = vec![Line::pinned(ChatMessage::new(Author::System, "S"))];
    for turn in 0..turns {
        lines.push(Line::history(ChatMessage::new(Author::User, format!("question {turn}"))));
        lines.push(Line::history(ChatMessage::new(Author::Assistant, format!("answer {turn}"))));
    }
    lines.push(Line::pinned(ChatMessage::new(Author::User, "Q")));
    Start::Conversation(lines)
}

/// A request in one line: every message as `Author:text`, calls as `ask(..)`, results as `=..`.
pub(crate) fn line(request: &ChatRequest) -> String {
    let one = |message: &ChatMessage| {
        let calls: Vec<String> =
            message.tool_calls.iter().map(|c| format!("{}{}", c.name, c.arguments)).collect();
        match message.author {
            Author::Tool => format!("={}", message.text),
            author if calls.is_empty() => format!("{author:?}:{}", message.text),
            author => format!("{author:?}:{}ask({})", message.text, calls.join(",")),
        }
    };
    request.messages.iter().map(one).collect::<Vec<_>>().join(" | ")
}

/// Counts the concurrent calls.
#[derive(Clone, Default)]
pub(crate) struct AtOnce {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl AtOnce {
    pub(crate) async fn work(&self, time: Duration) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(time).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A call of `look` with this question.
pub(crate) fn look(q: &str) -> Reply {
    Reply::call("look", json!({"q": q}))
}

pub(crate) fn resumed(state: Json, answers: Json) -> driver::Start {
    let Json::Object(answers) = answers else { panic!("answers are an object") };
    Start::Resumed { state, answers }
}

async fn pieces(text: &SharedText) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut reader = text.read();
    while let Some(piece) = reader.next().await.unwrap() {
        pieces.push(match piece {
            weft_core::Piece::Text(text) => text.to_string(),
            weft_core::Piece::Thinking(text) => format!("({text})"),
        });
    }
    pieces
}
