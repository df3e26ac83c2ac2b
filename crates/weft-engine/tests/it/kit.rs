//! Small plans of fake components, and a readable log of their runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use weft_core::component::{Finished, Form, MessageEnd, Role, Route, Shape, Suspension};
use weft_core::context::HistoryMessage;
use weft_core::effect::Delivery;
use weft_core::journal::NextEdges;
use weft_core::reference::{Inputs, Names, Reference, Template};
use weft_core::seam::chat_model::Usage;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::knowledge::NoKnowledge;
use weft_core::seam::{Knowledge, Seams};
use weft_core::{
    AssignOperator, Assignment, CanvasId, Component, ComponentId, ComponentSpec, Error, ErrorKind, Json,
    NodeContext, Operand, Outputs, Piece, Reads, Record, Result, SessionKey, SharedText, TurnInput, Value,
    async_trait,
};
use weft_dsl::Plan;
use weft_dsl::link::{Finding, NodeDraft, link};
use weft_dsl::plan::Exception;
use weft_engine::drive::RunReport;
use weft_engine::{Engine, EngineLimits, SessionState, StartRun};

type Decide = Arc<dyn Fn(usize, &NodeContext) -> Vec<&'static str> + Send + Sync>;

/// What a fake node does.
#[derive(Clone)]
pub(crate) enum Does {
    /// Its output `out` is its text with the references filled in.
    Echo,
    /// Echo after some (virtual) time.
    Slow(u64),
    /// Takes only these branches; the number is the index of this activation of the node, from 0.
    Choose(Vec<&'static str>, Decide),
    Fail(ErrorKind),
    /// The same after this many milliseconds.
    FailAfter(u64),
    Panic,
    /// Writes these chunks at this interval; their number is `count`.
    Stream(Vec<&'static str>, u64),
    /// Writes `x`; `count` is how many times the node has run.
    Numbered,
    /// Writes these chunks and fails.
    StreamThenFail(Vec<&'static str>),
    /// Shows its text; `true` if it may start early.
    Say(bool),
    /// A Message that fails.
    FailingMessage,
    /// Waits for a person; these are its required fields.
    Ask(Vec<&'static str>),
    /// The same with one field that may stay empty.
    AskIfYouLike(&'static str),
    /// The same with fields as a canvas describes them.
    AskTyped(Json),
    /// Echo that names this node as its tool.
    Calls(&'static str),
    /// Takes this many tool calls from the budget.
    Spend(u64),
    /// Writes these chunks, waits for these decisions midway, writes `task=decision;` for each.
    Approve(Vec<&'static str>, Vec<&'static str>),
    /// Iterates over the list of its text, this many at once; collects this reference as `all`.
    Each(usize, &'static str),
    /// Repeats; has the variable `n` = 0.
    Repeat,
    Item,
    /// Starts a round of a Repeat; ends it after this many rounds.
    Until(usize),
    Leave,
    /// Adds 1 to the number at this reference.
    Count(&'static str),
    /// Applies this operation to this target, with a reference, a text with references, or JSON.
    Assign(Vec<(&'static str, AssignOperator, &'static str)>),
    /// Echo that makes an external call first, once or as a model call with these tokens.
    Outside(Delivery, Outside),
}

/// An external call of a fake node; it receives the call and the calling node: `tool n3[1]`.
pub(crate) type Outside = Arc<dyn Fn(String) -> BoxFuture<'static, Result<Json>> + Send + Sync>;

/// A node of a fake canvas.
#[derive(Clone)]
pub(crate) struct Node {
    id: &'static str,
    does: Does,
    texts: Vec<&'static str>,
    to: Vec<&'static str>,
    parent: Option<&'static str>,
    exception: Exception,
    limit: Option<Duration>,
}

pub(crate) fn node(id: &'static str, does: Does, to: &[&'static str]) -> Node {
    let (texts, parent, exception, limit) = (Vec::new(), None, Exception::default(), None);
    Node { id, does, texts, to: to.to_vec(), parent, exception, limit }
}

impl Node {
    pub(crate) fn text(mut self, text: &'static str) -> Self {
        self.texts.push(text);
        self
    }

    pub(crate) fn within(mut self, parent: &'static str) -> Self {
        self.parent = Some(parent);
        self
    }

    pub(crate) fn on_error(mut self, goto: &[&'static str], default: Option<Json>) -> Self {
        let goto = goto.iter().map(|&id| id.into()).collect();
        self.exception = Exception { armed: true, goto, default, ..Exception::default() };
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }
}

struct Fake {
    node: Node,
    templates: Vec<Template>,
    count: AtomicUsize,
    components: Arc<HashSet<ComponentId>>,
}

impl Fake {
    fn reference(&self, text: &str) -> Reference {
        Reference::parse(text, Names { components: &self.components, item: None }).unwrap()
    }

    fn assignment(&self, (target, operator, operand): (&str, AssignOperator, &str)) -> Assignment {
        let names = Names { components: &self.components, item: None };
        let operand = match Template::parse_value(operand, names) {
            template if template.references().next().is_none() => {
                Operand::Value(serde_json::from_str(operand).unwrap())
            }
            template => template.alone().cloned().map_or(Operand::Text(template), Operand::Reference),
        };
        Assignment { target: self.reference(target), operator, operand }
    }

    fn assign(&self, changes: &[(&str, AssignOperator, &str)]) -> Result<Finished> {
        let assigned = changes.iter().map(|change| self.assignment(*change)).collect();
        Ok(Finished { assigned, ..Finished::default() })
    }

    fn text(&self, ctx: &NodeContext) -> String {
        let rendered = self.templates.get(ctx.alternative).map(|t| t.render(&ctx.inputs).unwrap());
        rendered.unwrap_or_default()
    }

    async fn number(&self, ctx: &NodeContext, count: usize) -> Result<Finished> {
        let mut outputs = self.stream(ctx, &["x"], 1).await?.outputs;
        outputs.set("count", json!(count));
        Ok(outputs.into())
    }

    async fn stream(&self, ctx: &NodeContext, pieces: &[&'static str], pause: u64) -> Result<Finished> {
        let (writer, text) = SharedText::new();
        if ctx.heard {
            ctx.publish("out", text).await?;
        }
        let mut all = String::new();
        for &piece in pieces {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            writer.push(match piece.strip_prefix('~') {
                Some(thought) => Piece::Thinking(thought.into()),
                None => Piece::Text(piece.into()),
            });
            if !piece.starts_with('~') {
                all.push_str(piece);
            }
        }
        if matches!(self.node.does, Does::Stream(..) | Does::Numbered) {
            writer.finish();
            let count = json!(pieces.len()).into();
            return Ok(Outputs::from_iter([("out", Value::text(all)), ("count", count)]).into());
        }
        let error = Error::new(ErrorKind::Unavailable, "the model went away");
        if let Some(Json::String(default)) = &self.node.exception.default {
            writer.push(Piece::Text(default.as_str().into()));
            writer.finish();
        } else {
            writer.fail(&error);
        }
        Err(error)
    }

    async fn approve(&self, ctx: &NodeContext, pieces: &[&str], tasks: &[&str]) -> Result<Finished> {
        let (writer, text) = SharedText::new();
        if ctx.heard {
            ctx.publish("out", text).await?;
        }
        let mut all = String::new();
        let mut write = |piece: &str| {
            all.push_str(piece);
            writer.push(Piece::Text(piece.into()));
        };
        for piece in pieces {
            write(piece);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let state = json!({"written": pieces.len()});
        let Some(resumed) = &ctx.resumed else {
            let field = |task: &&str| ((*task).to_owned(), json!({"type": "approval", "tool": task}));
            let form = Form { fields: tasks.iter().map(field).collect(), tips: None, ..Form::default() };
            drop(writer);
            // Readers of the text notice before this ends.
            tokio::task::yield_now().await;
            return Ok(Finished::suspended(Suspension { form, state }));
        };
        assert_eq!(*resumed, state);
        for task in tasks {
            write(&format!("{task}={};", weft_core::value::to_text(&ctx.filled[*task])));
        }
        writer.finish();
        Ok(Outputs::of("out", Value::text(all)).into())
    }

    async fn say(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut all = String::new();
        let Some(template) = self.templates.get(ctx.alternative) else { return Ok(Finished::default()) };
        for segment in template.segments() {
            match segment {
                weft_core::reference::Segment::Literal(text) => {
                    all.push_str(text);
                    ctx.say(Piece::Text(Arc::clone(text))).await?;
                }
                weft_core::reference::Segment::Reference(reference) => match ctx.value(reference) {
                    value @ (Value::Json(_) | Value::Pending(_)) => {
                        let text = weft_core::value::to_text(&*value.settled().await?);
                        all.push_str(&text);
                        ctx.say(Piece::Text(text.into())).await?;
                    }
                    Value::Stream(stream) => {
                        let mut reader = stream.read();
                        while let Some(piece) = reader.next().await? {
                            if let Piece::Text(text) = &piece {
                                all.push_str(text);
                            }
                            ctx.say(piece).await?;
                        }
                    }
                },
            }
        }
        let message_end = Some(Box::new(MessageEnd::default()));
        Ok(Finished { outputs: Outputs::of("content", Value::text(all)), message_end, ..Finished::default() })
    }

    fn each(&self, ctx: &NodeContext) -> Result<Finished> {
        let list = self.templates[0].value(&ctx.inputs)?;
        let items = list.as_array().cloned();
        let items = items.ok_or_else(|| Error::invalid(format!("{list} is not a list")))?;
        Ok(Finished { items: Some(items), ..Finished::default() })
    }
}

#[async_trait]
impl Component for Fake {
    fn shape(&self) -> Shape {
        let reads = self.templates.iter().map(|t| t.references().cloned().collect::<Vec<_>>());
        let reads = match &self.node.does {
            Does::Say(_) => Reads { always: Vec::new(), alternatives: reads.collect() },
            Does::Count(target) => Reads::always([self.reference(target)]),
            Does::Assign(changes) => {
                let changes = changes.iter().map(|change| self.assignment(*change));
                Reads::always(changes.flat_map(|change| {
                    let operand: Vec<_> = change.operand.references().cloned().collect();
                    std::iter::once(change.target).chain(operand)
                }))
            }
            _ => Reads::always(reads.flatten()),
        };
        let branches = match &self.node.does {
            Does::Choose(ids, _) => Some(vec![(String::new(), ids.iter().map(|&id| id.into()).collect())]),
            _ => None,
        };
        let (parallelism, collects) = match &self.node.does {
            Does::Each(n, reference) => (*n, vec![("all".to_owned(), self.reference(reference))]),
            _ => (0, Vec::new()),
        };
        let changes = match &self.node.does {
            Does::Assign(changes) => changes.iter().map(|change| self.assignment(*change)).collect(),
            _ => Vec::new(),
        };
        let own = |change: &Assignment| change.operand.references().any(|read| *read == change.target);
        Shape {
            reads,
            changes: changes.into_iter().filter(|change| !own(change)).map(|change| change.target).collect(),
            branches,
            streams: matches!(
                self.node.does,
                Does::Stream(..) | Does::Numbered | Does::StreamThenFail(_) | Does::Approve(..)
            ) && self.node.exception.goto.is_empty(),
            listens: matches!(self.node.does, Does::Say(true)),
            parallelism,
            collects,
            calls: match &self.node.does {
                Does::Calls(tool) => vec![(*tool).into()],
                _ => Vec::new(),
            },
            main_output: "out",
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let count = self.count.fetch_add(1, Ordering::SeqCst);
        let echo = || Finished::with(Outputs::of("out", Value::text(self.text(ctx))));
        match &self.node.does {
            Does::Echo | Does::Calls(_) => Ok(echo()),
            Does::Slow(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                Ok(echo())
            }
            Does::Choose(_, decide) => {
                let ids = decide(count, ctx).into_iter().map(Into::into).collect();
                Ok(Finished { route: Route::To(ids), ..echo() })
            }
            Does::Fail(kind) => Err(Error::new(*kind, "it broke")),
            Does::FailAfter(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                Err(Error::new(ErrorKind::Unavailable, "it broke"))
            }
            Does::FailingMessage => Err(Error::new(ErrorKind::Invalid, "it broke")),
            Does::Numbered => self.number(ctx, count + 1).await,
            Does::Panic => panic!("a defect"),
            Does::Stream(pieces, pause) => self.stream(ctx, pieces, *pause).await,
            Does::StreamThenFail(pieces) => self.stream(ctx, pieces, 0).await,
            Does::Spend(calls) => {
                (0..*calls)
                    .try_for_each(|_| ctx.budget.take_tool_call())
                    .map_err(|limit| ctx.budget.error(limit))?;
                Ok(echo())
            }
            Does::Approve(pieces, tasks) => self.approve(ctx, pieces, tasks).await,
            Does::Say(_) => self.say(ctx).await,
            Does::Ask(_) | Does::AskIfYouLike(_) | Does::AskTyped(_) => {
                Ok(Outputs::from_iter(ctx.filled.clone()).into())
            }
            Does::Each(..) => self.each(ctx),
            Does::Repeat => Ok(Outputs::of("n", json!(0)).into()),
            Does::Item => {
                let round = ctx.round.clone().unwrap();
                let item = round.item.map(|item| (*item).clone()).unwrap_or_default();
                Ok(Outputs::from_iter([("item", item), ("index", json!(round.index))]).into())
            }
            Does::Until(rounds) => {
                let route = if ctx.round.as_ref().unwrap().index >= *rounds {
                    Route::EndFrame
                } else {
                    Route::Onward
                };
                Ok(Finished { route, ..Finished::default() })
            }
            Does::Leave => Ok(Finished::default()),
            Does::Outside(again, outside) => {
                let kind = if *again == Delivery::AtMostOnce { "tool" } else { "model" };
                let told = ctx.round.as_ref().map_or(String::new(), |round| format!("[{}]", round.index));
                let call = async {
                    let answer = outside(format!("{kind} {}{told}", ctx.node)).await?;
                    if *again == Delivery::Idempotent {
                        let usage =
                            Usage { calls: 1, prompt_tokens: 3, completion_tokens: 2, ..Usage::default() };
                        let used = weft_core::usage::UsedModel { model: "m".into(), usage, micros: 5 };
                        ctx.signal(weft_core::context::Signal::Used(Box::new(used))).await?;
                    }
                    Ok(answer)
                };
                ctx.effect(kind, *again, call).await?;
                Ok(echo())
            }
            Does::Assign(changes) => self.assign(changes),
            Does::Count(target) => self.assign(&[(*target, AssignOperator::Add, "1")]),
        }
    }

    fn form(&self, inputs: &Inputs) -> Form {
        let (fields, optional) = match &self.node.does {
            Does::Ask(fields) => (fields.clone(), false),
            Does::AskIfYouLike(field) => (vec![*field], true),
            Does::AskTyped(fields) => {
                return Form { fields: fields.as_object().unwrap().clone(), ..Form::default() };
            }
            _ => return Form::default(),
        };
        let field = |field: &str| (field.to_owned(), json!({"type": "line", "optional": optional}));
        let fields = fields.into_iter().map(field);
        let tips = self.templates.first().map(|t| t.render(inputs));
        let tips = tips.map(Result::unwrap);
        Form { fields: fields.collect(), tips, ..Form::default() }
    }
}

macro_rules! spec {
    ($name:ident, $kind:literal, $role:ident) => {
        static $name: ComponentSpec = ComponentSpec {
            kind: $kind,
            role: Role::$role,
            summary: "",
            fields: &[],
            outputs: &[],
            time_limit: None,
            measuring_only: false,
            tool: None,
            build: |_| Err(Vec::new()),
        };
    };
}

spec!(ENTRY, "Begin", Entry);
spec!(STEP, "Step", Step);
spec!(MESSAGE, "Message", Step);
spec!(PAUSE, "UserFillUp", Pause);
spec!(EACH, "Iteration", Each);
spec!(REPEAT, "Loop", Repeat);
spec!(ITEM, "Item", RoundStart);
spec!(LEAVE, "ExitLoop", Leave);

fn spec_of(node: &Node) -> &'static ComponentSpec {
    match node.does {
        _ if node.id == "begin" => &ENTRY,
        Does::Say(_) | Does::FailingMessage => &MESSAGE,
        Does::Ask(_) | Does::AskIfYouLike(_) | Does::AskTyped(_) => &PAUSE,
        Does::Each(..) => &EACH,
        Does::Repeat => &REPEAT,
        Does::Item | Does::Until(_) => &ITEM,
        Does::Leave => &LEAVE,
        _ => &STEP,
    }
}

/// Links nodes into a plan; also returns the diagnostics of the graph.
pub(crate) fn plan_and_findings(nodes: &[Node]) -> (Arc<Plan>, Vec<Finding>) {
    let components: Arc<HashSet<ComponentId>> = Arc::new(nodes.iter().map(|n| n.id.into()).collect());
    let names = Names { components: &components, item: None };
    let drafts = nodes.iter().map(|node| {
        let parse = match node.does {
            Does::Say(_) => Template::parse,
            _ => Template::parse_value,
        };
        let templates = node.texts.iter().map(|text| parse(text, names)).collect();
        let count = AtomicUsize::new(0);
        let fake = Fake { node: node.clone(), templates, count, components: Arc::clone(&components) };
        NodeDraft {
            id: node.id.into(),
            name: node.id.into(),
            spec: spec_of(node),
            shape: fake.shape(),
            component: Arc::new(fake),
            parent: node.parent.map(Into::into),
            downstream: node.to.iter().map(|&id| id.into()).collect(),
            exception: node.exception.clone(),
            time_limit: node.limit,
        }
    });
    let linked = link(drafts.collect(), &"begin".into());
    let plan = Plan {
        version: "v1".into(),
        nodes: linked.nodes,
        scopes: linked.scopes,
        by_id: linked.by_id,
        components,
        globals: serde_json::Map::from_iter([("env.n".to_owned(), json!(0))]),
        secrets: Vec::new(),
        prologue: String::new(),
        is_pipeline: false,
    };
    (Arc::new(plan), linked.findings)
}

pub(crate) fn plan(nodes: &[Node]) -> Arc<Plan> {
    plan_and_findings(nodes).0
}

pub(crate) fn nothing_to_search() -> Arc<dyn Knowledge> {
    Arc::new(NoKnowledge)
}

pub(crate) fn seams() -> Arc<Seams> {
    Arc::new(Seams { clock: Arc::new(FixedClock(1_700_000_000_000)), ..weft_testkit::around::no_seams() })
}

pub(crate) fn turn(plan: &Arc<Plan>, input: TurnInput) -> StartRun {
    let session = SessionKey::new(&"t".into(), "s");
    StartRun {
        plan: Arc::clone(plan),
        canvas: CanvasId::from("c"),
        session,
        input,
        seed: Some(7),
        task: None,
    }
}

pub(crate) fn asking(query: &str) -> TurnInput {
    TurnInput { query: query.to_owned(), ..TurnInput::default() }
}

/// The outcome of a run.
pub(crate) struct Ran {
    pub records: Vec<Record>,
    pub report: RunReport,
    pub state: SessionState,
}

impl Ran {
    /// `start x`, `end x`, `skip x`, `say x "text"`, `error x`, … in order.
    pub(crate) fn log(&self) -> Vec<String> {
        self.records.iter().filter_map(line).collect()
    }

    /// The nodes that started, in order.
    pub(crate) fn started(&self) -> Vec<&str> {
        let started = self.records.iter().filter_map(|record| match record {
            Record::NodeStarted { who } => Some(who.node.as_str()),
            _ => None,
        });
        started.collect()
    }

    /// The nodes that really ended, in order.
    pub(crate) fn ended(&self) -> Vec<&str> {
        let ended = self.records.iter().filter_map(|record| match record {
            Record::NodeFinished { who, route, .. } if *route != NextEdges::Suspended => {
                Some(who.node.as_str())
            }
            _ => None,
        });
        ended.collect()
    }

    /// How many times a node ran.
    pub(crate) fn times(&self, id: &str) -> usize {
        self.started().iter().filter(|&&started| started == id).count()
    }

    /// The last value of an output of a node.
    pub(crate) fn output(&self, id: &str, name: &str) -> Json {
        let outputs = self.records.iter().rev().find_map(|record| match record {
            Record::NodeFinished { who, outputs, .. } if who.node.as_str() == id => Some(outputs),
            _ => None,
        });
        outputs.and_then(|o| o.get(name)).map(|v| (*v.snapshot()).clone()).unwrap_or_default()
    }
}

fn line(record: &Record) -> Option<String> {
    Some(match record {
        Record::NodeStarted { who } => format!("start {}", who.node),
        Record::NodeFinished { who, route: NextEdges::Suspended, .. } => format!("asleep {}", who.node),
        Record::NodeFinished { who, error: None, .. } => format!("end {}", who.node),
        Record::NodeFinished { who, error: Some(_), .. } => format!("error {}", who.node),
        Record::NodeSkipped { node, .. } => format!("skip {node}"),
        Record::Said { node, text, .. } => format!("say {node} {text:?}"),
        Record::ThinkingStarted { node, .. } => format!("think {node}"),
        Record::ThinkingEnded { node, .. } => format!("thought {node}"),
        Record::MessageEnded { node, .. } => format!("said {node}"),
        Record::Waiting { forms } => format!("wait {}", forms.len()),
        Record::RunFinished { ending, .. } => ending.as_str().to_owned(),
        _ => return None,
    })
}

pub(crate) async fn run(nodes: &[Node]) -> Ran {
    run_with(nodes, asking("q"), EngineLimits::default()).await
}

pub(crate) async fn run_with(nodes: &[Node], input: TurnInput, limits: EngineLimits) -> Ran {
    let plan = plan(nodes);
    go_on(&plan, SessionState::new(&plan), input, limits).await
}

/// A turn of a session, with the invariants of every run checked.
pub(crate) async fn go_on(
    plan: &Arc<Plan>,
    state: SessionState,
    input: TurnInput,
    limits: EngineLimits,
) -> Ran {
    turn_in(&Engine::new(seams(), None, limits), plan, state, input, Vec::new()).await
}

/// The same with a given engine and history.
pub(crate) async fn turn_in(
    engine: &Engine,
    plan: &Arc<Plan>,
    state: SessionState,
    input: TurnInput,
    history: Vec<HistoryMessage>,
) -> Ran {
    let (feed, report, state) = engine.run_unstored(turn(plan, input), state, history).await.unwrap();
    let mut reader = weft_engine::EntryReader::new(Some(feed), None, 0);
    let mut records = Vec::new();
    let (mut seq, mut event) = (0, 0);
    while let Some(entry) = reader.next().await.unwrap() {
        seq += 1;
        assert_eq!(entry.seq, seq, "the journal has no gap");
        if let Some(number) = entry.event {
            event += 1;
            assert_eq!(number, event, "the events have no gap");
        }
        records.push(entry.record.clone());
    }
    let ran = Ran { records, report, state };
    check_invariants(&ran);
    ran
}

/// Every start has its finish, nothing comes after the end, and there is exactly one end.
fn check_invariants(ran: &Ran) {
    let log = ran.log().join("\n");
    let mut open: HashSet<u32> = HashSet::new();
    for record in &ran.records {
        match record {
            Record::NodeStarted { who } => assert!(open.insert(who.activation), "{log}"),
            Record::NodeFinished { who, .. } => {
                assert!(open.remove(&who.activation), "{} ended twice\n{log}", who.node);
            }
            Record::Said { activation, .. } => assert!(open.contains(activation), "{log}"),
            _ => {}
        }
    }
    if !shown_at_once(&ran.records) {
        check_that_one_speaks_at_a_time(&ran.records, &log);
    }
    assert_eq!(open, HashSet::new(), "every start has its finish\n{log}");
    let ends = ran.records.iter().filter(|r| matches!(r, Record::RunFinished { .. })).count();
    assert_eq!(ends, 1);
    assert!(matches!(ran.records.last(), Some(Record::RunFinished { .. })), "{log}");
}

fn shown_at_once(records: &[Record]) -> bool {
    matches!(records.first(), Some(Record::RunStarted { input, .. }) if input.parallel_messages)
}

/// No message is shown inside another one.
pub(crate) fn check_that_one_speaks_at_a_time(records: &[Record], log: &str) {
    let mut speaker = None;
    for record in records {
        let (who, ends) = match record {
            Record::Said { activation, .. } | Record::ThinkingStarted { activation, .. } => {
                (*activation, false)
            }
            Record::MessageEnded { activation, .. }
            | Record::MessageReset { activation: Some(activation), .. } => (*activation, true),
            Record::NodeFinished { who, .. } if speaker == Some(who.activation) => (who.activation, true),
            _ => continue,
        };
        assert!(speaker.is_none_or(|speaker| speaker == who), "{who} writes while {speaker:?} does\n{log}");
        speaker = (!ends).then_some(who);
    }
}

pub(crate) fn choose(
    branches: &[&'static str],
    decide: impl Fn(usize, &NodeContext) -> Vec<&'static str> + Send + Sync + 'static,
) -> Does {
    Does::Choose(branches.to_vec(), Arc::new(decide))
}
