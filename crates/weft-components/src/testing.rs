//! A node and what surrounds it, for the unit tests of components.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Map, Value as Json, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weft_core::catalog::Catalog;
use weft_core::citation::{Chunk, Citations};
use weft_core::context::{HistoryMessage, RunContext, Signal, TurnInput};
use weft_core::effect::{Effects, Known};
use weft_core::id::{ChunkId, DatasetId};
use weft_core::reference::Names;
use weft_core::seam::chat_model::{
    ChatDelta, ChatModel, ChatRequest, ChatStream, ModelDirectory, ModelInfo, ModelKind, StopReason, Usage,
};
use weft_core::seam::document_writer::{DocumentContent, MadeDocument, Sheet, WriteRequest};
use weft_core::seam::http::{Http, HttpRequest, HttpResponse};
use weft_core::seam::knowledge::{
    DatasetBrief, Found, Knowledge, Passage, Scored, SearchRequest, TokensRead,
};
use weft_core::seam::{DocumentWriter, Sandbox, Seams};
use weft_core::{
    Component, ComponentId, Error, Finished, NodeContext, NodeSource, ParamProblem, Reference, Result,
    TenantId, Value, async_trait,
};
use weft_sandbox::InProcess;
use weft_testkit::around::{no_seams, node_context, run_context};

/// A node of a canvas whose other components are `Agent:A`, `Agent:B`, `begin` and the like.
pub(crate) struct Node {
    id: ComponentId,
    kind: &'static str,
    params: Map<String, Json>,
    parent: Option<(ComponentId, Map<String, Json>)>,
    item: Option<ComponentId>,
    components: HashSet<ComponentId>,
    downstream: Vec<ComponentId>,
    upstream: Vec<ComponentId>,
    others: Neighbours,
}

/// What a node knows of others.
#[derive(Debug, Default)]
struct Neighbours(HashMap<ComponentId, (String, Map<String, Json>)>);

impl weft_core::component::Others for Neighbours {
    fn get(&self, id: &ComponentId) -> Option<(&str, &Map<String, Json>)> {
        self.0.get(id).map(|(kind, params)| (kind.as_str(), params))
    }
}

impl Node {
    pub(crate) fn new(kind: &'static str, params: Json) -> Self {
        let ids = ["begin", "Agent:A", "Agent:B", "Agent:C", "Loop:L", "Item:I", "Retrieval:R"];
        let Json::Object(params) = params else { panic!("parameters are an object") };
        Self {
            id: format!("{kind}:T").into(),
            kind,
            params,
            parent: None,
            item: None,
            components: ids.into_iter().map(Into::into).collect(),
            downstream: vec!["Agent:B".into()],
            upstream: Vec::new(),
            others: Neighbours::default(),
        }
    }

    pub(crate) fn inside(mut self, parent: &str, params: Json) -> Self {
        let Json::Object(params) = params else { panic!("parameters are an object") };
        self.parent = Some((parent.into(), params));
        self
    }

    /// Behind another node, of this type.
    pub(crate) fn behind(mut self, id: &str, kind: &str) -> Self {
        self.components.insert(id.into());
        self.upstream.push(id.into());
        self.others.0.insert(id.into(), (kind.to_owned(), Map::new()));
        self
    }

    /// Adds parameters.
    pub(crate) fn add(&mut self, params: Json) {
        let Json::Object(params) = params else { panic!("parameters are an object") };
        self.params.extend(params);
    }

    pub(crate) fn source(&self) -> NodeSource<'_> {
        NodeSource {
            id: &self.id,
            kind: self.kind,
            params: &self.params,
            parent: self.parent.as_ref().map(|(id, params)| (id, params)),
            components: &self.components,
            item: self.item.as_ref(),
            downstream: &self.downstream,
            upstream: &self.upstream,
            others: &self.others,
            measuring: false,
        }
    }

    pub(crate) fn try_build(&self) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
        let catalog: Catalog = crate::catalog();
        let spec = catalog.get(self.kind).expect("the component is in the catalog");
        (spec.build)(&self.source())
    }

    pub(crate) fn build(&self) -> Arc<dyn Component> {
        self.try_build().expect("the parameters are right")
    }

    /// The places of what is wrong with the parameters.
    pub(crate) fn problems(&self) -> Vec<String> {
        match self.try_build() {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_iter().map(|problem| problem.pointer).collect(),
        }
    }

    pub(crate) fn reference(&self, text: &str) -> Reference {
        Reference::whole(text, Names { components: &self.components, item: None }).expect(text)
    }
}

/// Everything around one activation.
pub(crate) struct Stage {
    pub ctx: NodeContext,
    heard: Arc<Heard>,
    pub outside: Arc<Outside>,
    _listening: JoinSet<()>,
}

/// What a component signals. It is heard at once, so that nobody who signals has to wait for the test.
struct Heard {
    coming: Mutex<mpsc::Receiver<(u32, Signal)>>,
    signals: Mutex<Vec<Signal>>,
}

impl Heard {
    fn add(&self, mut signal: Signal) {
        if let Signal::EffectStarted(started) = &mut signal
            && let Some(safe) = started.safe.take()
        {
            let _ = safe.send(std::time::Duration::MAX);
        }
        self.signals.lock().unwrap().push(signal);
    }

    async fn listen(&self) {
        while let Some((_, signal)) =
            std::future::poll_fn(|task| self.coming.lock().unwrap().poll_recv(task)).await
        {
            self.add(signal);
        }
    }
}

/// What the fakes answer, and what they were asked.
#[derive(Default)]
pub(crate) struct Outside {
    pub answers: Mutex<Vec<Result<Vec<ChatDelta>>>>,
    pub asked: Mutex<Vec<ChatRequest>>,
    pub pages: Mutex<Vec<Result<HttpResponse>>>,
    pub sent: Mutex<Vec<HttpRequest>>,
    pub found: Mutex<Vec<Chunk>>,
    pub read: Mutex<Vec<TokensRead>>,
    pub searched: Mutex<Vec<SearchRequest>>,
}

/// What a test changes about the surroundings before the node runs.
#[derive(Default)]
pub(crate) struct Setting {
    pub values: HashMap<&'static str, Value>,
    pub query: &'static str,
    pub user_id: &'static str,
    pub files: Vec<Json>,
    pub history: Vec<(&'static str, &'static str)>,
    pub filled: Json,
    pub timed_out: bool,
    pub round: Option<weft_core::context::Round>,
    pub alternative: usize,
    pub heard: bool,
    pub cited: Vec<Chunk>,
    /// Puts something else in the place of the fakes.
    pub seams: Option<Replace>,
    pub sandbox: Option<Arc<dyn Sandbox>>,
}

pub(crate) type Replace = Box<dyn FnOnce(&mut Seams)>;

impl Setting {
    pub(crate) fn values(values: impl IntoIterator<Item = (&'static str, Json)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name, value.into())).collect();
        Self { values, ..Self::default() }
    }
}

impl Stage {
    /// A stage on which `component` finds its inputs.
    pub(crate) fn new(node: &Node, component: &dyn Component, setting: Setting) -> Self {
        let outside = Arc::new(Outside::default());
        let citations = Citations::default();
        citations.number(setting.cited);
        let mut seams = Seams {
            models: Arc::new(FakeModels(Arc::clone(&outside))),
            http: Arc::new(FakeHttp(Arc::clone(&outside))),
            knowledge: Arc::new(FakeKnowledge(Arc::clone(&outside))),
            workspace: Arc::new(weft_testkit::MemoryWorkspace::default()),
            sandbox: setting.sandbox.unwrap_or_else(|| Arc::new(InProcess::new(weft_sandbox::LIMITS))),
            ..no_seams()
        };
        if let Some(change) = setting.seams {
            change(&mut seams);
        }
        let message = |(role, content): (&str, &str)| HistoryMessage {
            role: role.to_owned(),
            content: content.to_owned(),
            run: None,
        };
        let (query, user_id) = (setting.query.to_owned(), setting.user_id.to_owned());
        let run = RunContext {
            input: TurnInput { query, user_id, files: setting.files, ..TurnInput::default() },
            history: setting.history.into_iter().map(message).collect(),
            citations,
            seams: Arc::new(seams),
            components: Arc::new(node.components.clone()),
            ..run_context()
        };
        let mut values = setting.values;
        values.entry("sys.query").or_insert_with(|| Value::text(setting.query));
        let inputs = component
            .shape()
            .reads
            .all()
            .map(|r| (r.clone(), values.get(r.to_string().as_str()).cloned().unwrap_or_else(Value::null)))
            .collect();
        let (ctx, coming) = node_context(run);
        let ctx = NodeContext {
            node: node.id.clone(),
            name: "test".into(),
            inputs,
            alternative: setting.alternative,
            round: setting.round,
            filled: setting.filled.as_object().cloned().unwrap_or_default(),
            timed_out: setting.timed_out,
            heard: setting.heard,
            ..ctx
        };
        let heard = Arc::new(Heard { coming: Mutex::new(coming), signals: Mutex::default() });
        let mut listening = JoinSet::new();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let heard = Arc::clone(&heard);
            listening.spawn_on(async move { heard.listen().await }, &runtime);
        }
        Self { ctx, heard, outside, _listening: listening }
    }

    /// What the component has signalled since it was asked last, without its calls to the outside.
    pub(crate) fn signals(&mut self) -> Vec<Signal> {
        let effect = |signal: &Signal| matches!(signal, Signal::EffectStarted(_) | Signal::EffectFinished(_));
        self.all_signals().into_iter().filter(|signal| !effect(signal)).collect()
    }

    pub(crate) fn all_signals(&mut self) -> Vec<Signal> {
        let mut coming = self.heard.coming.lock().unwrap();
        while let Ok((_, signal)) = coming.try_recv() {
            self.heard.add(signal);
        }
        drop(coming);
        std::mem::take(&mut *self.heard.signals.lock().unwrap())
    }

    /// What the journal was told about calls to the outside since it was asked last, in order.
    pub(crate) fn notes(&mut self) -> Vec<(Arc<str>, Known)> {
        let note = |signal| match signal {
            Signal::EffectStarted(started) => Some((started.key, Known::Begun)),
            Signal::EffectFinished(gave) => Some((gave.key, Known::Ended(gave.gave))),
            _ => None,
        };
        self.all_signals().into_iter().filter_map(note).collect()
    }

    /// The activation is done again, in a process that has read these notes.
    #[must_use]
    pub(crate) fn again(mut self, notes: &[(Arc<str>, Known)]) -> Self {
        self.ctx.effects = Effects::known(notes.iter().cloned().collect());
        self
    }

    /// The model answers this next.
    pub(crate) fn answer(&self, deltas: impl IntoIterator<Item = ChatDelta>) -> &Self {
        let mut deltas: Vec<_> = deltas.into_iter().collect();
        deltas.push(ended(StopReason::Stop));
        self.outside.answers.lock().unwrap().push(Ok(deltas));
        self
    }

    pub(crate) fn answer_text(&self, text: &str) -> &Self {
        self.answer([ChatDelta::Text(text.to_owned())])
    }

    pub(crate) fn asked(&self) -> Vec<ChatRequest> {
        self.outside.asked.lock().unwrap().clone()
    }
}

pub(crate) fn ended(reason: StopReason) -> ChatDelta {
    ChatDelta::End {
        reason,
        usage: Usage { prompt_tokens: 1, completion_tokens: 2, calls: 1, ..Usage::default() },
    }
}

/// Builds a node and runs it once.
pub(crate) async fn run(node: &Node, setting: Setting) -> Result<Finished> {
    let component = node.build();
    let stage = Stage::new(node, &*component, setting);
    component.run(&stage.ctx).await
}

/// The outputs of a node that is run once.
pub(crate) async fn outputs(node: &Node, setting: Setting) -> Json {
    json!(run(node, setting).await.expect("the node runs").outputs)
}

/// The error of a node that is run once.
pub(crate) async fn failure(node: &Node, setting: Setting) -> Error {
    run(node, setting).await.expect_err("the node fails")
}

struct FakeModels(Arc<Outside>);

impl ModelDirectory for FakeModels {
    fn reranker_notice(&self, _tenant: &TenantId, id: &str) -> Result<Option<String>> {
        Ok((id == "missing").then(|| "ranked without `missing`".to_owned()))
    }

    fn resolve(&self, _tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        if llm_id == "missing" {
            return Err(Error::not_found("MODEL_NOT_CONFIGURED: there is no model `missing`"));
        }
        let window = if llm_id == "small" { 600 } else { 8_000 };
        let provider = if llm_id == "quoting" { "extractive" } else { "scripted" };
        let info = ModelInfo {
            name: "fake".to_owned(),
            provider: provider.to_owned(),
            model: "fake".to_owned(),
            window,
            tools: llm_id == "tools",
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: None,
        };
        Ok(Arc::new(FakeModel(Arc::clone(&self.0), info)))
    }

    fn list(&self, _tenant: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}

struct FakeModel(Arc<Outside>, ModelInfo);

#[async_trait]
impl ChatModel for FakeModel {
    fn info(&self) -> &ModelInfo {
        &self.1
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        self.0.asked.lock().unwrap().push(request);
        let mut answers = self.0.answers.lock().unwrap();
        if answers.is_empty() {
            return Err(Error::internal("the test gave no further answer"));
        }
        let deltas = answers.remove(0)?;
        Ok(futures::stream::iter(deltas.into_iter().map(|delta| match delta {
            // A warning with this text stands for a connection that breaks here.
            ChatDelta::Warning(text) if text == "break" => {
                Err(Error::new(weft_core::ErrorKind::Unavailable, "the connection broke"))
            }
            delta => Ok(delta),
        }))
        .boxed())
    }
}

struct FakeHttp(Arc<Outside>);

#[async_trait]
impl Http for FakeHttp {
    async fn send(&self, _tenant: &TenantId, request: HttpRequest) -> Result<HttpResponse> {
        self.0.sent.lock().unwrap().push(request);
        self.0.pages.lock().unwrap().remove(0)
    }

    /// Whatever is not on this machine.
    async fn may_reach(&self, _tenant: &TenantId, url: &str) -> Result<()> {
        if url.contains("127.0.0.1") || url.contains("localhost") {
            Err(Error::new(weft_core::ErrorKind::Denied, format!("`{url}` is private")))
        } else {
            Ok(())
        }
    }
}

struct FakeKnowledge(Arc<Outside>);

#[async_trait]
impl Knowledge for FakeKnowledge {
    async fn datasets(&self, _: &TenantId, names: &[String]) -> Result<Vec<DatasetBrief>> {
        let everything = vec!["everything".to_owned()];
        let names = if names.is_empty() { &everything } else { names };
        let brief = |name: &String| match name.as_str() {
            "missing" => Err(Error::not_found("there is no dataset `missing`")),
            name => Ok(DatasetBrief {
                id: name.into(),
                name: name.to_owned(),
                embedder: String::new(),
                similarity_threshold: 0.2,
                vector_weight: 0.5,
            }),
        };
        names.iter().map(brief).collect()
    }

    async fn search(&self, _: &TenantId, request: &SearchRequest) -> Result<Found> {
        self.0.searched.lock().unwrap().push(request.clone());
        let found = self.0.found.lock().unwrap();
        let scored = |chunk: &Chunk| Scored {
            chunk: chunk.id.as_str().into(),
            document: chunk.document_id.as_str().into(),
            dataset: chunk.dataset_id.as_str().into(),
            parent: None,
            similarity: 0.5,
            term: 0.5,
            vector: None,
        };
        let passages = found.iter().map(scored).collect();
        let used = self.0.read.lock().unwrap().clone();
        Ok(Found { passages, total: found.len(), used, ..Found::default() })
    }

    async fn passages(&self, _: &TenantId, _: &[DatasetId], ids: &[ChunkId]) -> Result<Vec<Passage>> {
        let found = self.0.found.lock().unwrap();
        let find = |id: &ChunkId| found.iter().find(|chunk| chunk.id == id.as_str()).cloned();
        let passage = |chunk| Passage { chunk, ..Passage::default() };
        Ok(ids.iter().filter_map(find).map(passage).collect())
    }
}

/// Documents that hold what was asked for, and tables that are written as JSON.
#[derive(Debug)]
pub(crate) struct PlainDocuments;

#[async_trait]
impl DocumentWriter for PlainDocuments {
    async fn write(&self, _: &TenantId, request: &WriteRequest) -> Result<MadeDocument> {
        let bytes = serde_json::to_vec(request).unwrap().into();
        let text = match &request.content {
            DocumentContent::Markdown(text) => text.as_str(),
            DocumentContent::Sheets(_) => "",
        };
        Ok(MadeDocument { bytes, unwritable: text.matches('\u{2603}').take(1).collect() })
    }

    async fn sheets(&self, _: &TenantId, _name: &str, bytes: Bytes) -> Result<Vec<Sheet>> {
        Ok(serde_json::from_slice(&bytes).unwrap())
    }
}
