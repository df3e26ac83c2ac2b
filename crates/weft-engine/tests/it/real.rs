//! Real canvases: parsed, compiled against the real components, run with a scripted model.

use std::sync::Arc;

use bytes::Bytes;
use weft_core::context::HistoryMessage;
use weft_core::id::DatasetKey;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::document_reader::{DocumentReader, ReadDocument, ReadRequest};
use weft_core::seam::tool_source::NoTools;
use weft_core::seam::{ChatModel, FileStore, Http, Knowledge, ModelDirectory, Seams, ToolSource};
use weft_core::{Json, Result, TenantId, TurnInput, async_trait};
use weft_dsl::Plan;
use weft_dsl::compile::{CompileOptions, compile};
use weft_dsl::problem::Problem;
use weft_engine::{Engine, EngineLimits, SessionState};
use weft_knowledge::local_documents::{LocalDocuments, LocalDocumentsParts};
use weft_models::retrying::{RetryPolicy, Retrying};
use weft_models::script::Script;
use weft_models::scripted::ScriptedModel;
use weft_search::MemoryChunkIndex;
use weft_testkit::fake_http::FakeHttp;
use weft_testkit::memory_datasets::MemoryDatasets;

use crate::kit::{Ran, turn_in};

/// A directory with one model.
pub(crate) struct OneModel(pub(crate) Arc<dyn ChatModel>);

impl ModelDirectory for OneModel {
    fn resolve(&self, _: &TenantId, _: &str) -> Result<Arc<dyn ChatModel>> {
        Ok(Arc::clone(&self.0))
    }

    /// It answers to any name but this one.
    fn substitution(&self, _: &TenantId, llm_id: &str) -> Option<String> {
        (llm_id == "gpt-9@OpenAI").then(|| format!("`{}` stands in for `{llm_id}`", self.0.info().name))
    }

    fn list(&self, _: &TenantId) -> Vec<weft_core::seam::chat_model::ModelInfo> {
        vec![self.0.info().clone()]
    }
}

/// Where a canvas runs in these tests.
pub(crate) struct World {
    pub engine: Engine,
    pub model: Arc<ScriptedModel>,
    pub http: Arc<FakeHttp>,
    pub files: Arc<weft_testkit::MemoryFiles>,
}

impl World {
    pub(crate) fn new(script: Script, http: FakeHttp) -> Self {
        Self::with_search(script, http, crate::kit::nothing_to_search())
    }

    pub(crate) fn with_search(script: Script, http: FakeHttp, search: Arc<dyn Knowledge>) -> Self {
        Self::put_together(ScriptedModel::new(script).into(), http, search, Arc::new(NoTools))
    }

    /// A world with retries, whose model is called again after a broken stream.
    pub(crate) fn asked_again(script: Script) -> Self {
        let model = ScriptedModel::new(script);
        let front = Retrying::new(model.clone(), RetryPolicy::default());
        let around = (FakeHttp::new(), crate::kit::nothing_to_search(), Arc::new(NoTools) as _);
        Self::around((model.into(), Arc::new(front)), around)
    }

    /// A world in which this model answers.
    pub(crate) fn of(model: ScriptedModel) -> Self {
        let search = crate::kit::nothing_to_search();
        Self::put_together(model.into(), FakeHttp::new(), search, Arc::new(NoTools))
    }

    /// A world with a server of tools.
    pub(crate) fn with_tools(script: Script, tools: Arc<dyn ToolSource>) -> Self {
        Self::of(ScriptedModel::new(script)).and_tools(tools)
    }

    /// The same world with a server of tools.
    pub(crate) fn and_tools(self, tools: Arc<dyn ToolSource>) -> Self {
        Self::put_together(self.model, FakeHttp::new(), crate::kit::nothing_to_search(), tools)
    }

    fn put_together(
        model: Arc<ScriptedModel>,
        http: FakeHttp,
        search: Arc<dyn Knowledge>,
        tools: Arc<dyn ToolSource>,
    ) -> Self {
        let front: Arc<dyn ChatModel> = model.clone();
        Self::around((model, front), (http, search, tools))
    }

    fn around(
        (model, front): (Arc<ScriptedModel>, Arc<dyn ChatModel>),
        (http, search, tools): (FakeHttp, Arc<dyn Knowledge>, Arc<dyn ToolSource>),
    ) -> Self {
        let http = Arc::new(http);
        let files = Arc::new(weft_testkit::MemoryFiles::default());
        let seams = Seams {
            models: Arc::new(OneModel(front)),
            http: Arc::clone(&http) as Arc<dyn Http>,
            reader: Arc::new(AtOnce),
            files: Arc::clone(&files) as Arc<dyn FileStore>,
            knowledge: search,
            tools,
            workspace: Arc::new(weft_testkit::MemoryWorkspace::default()),
            sandbox: Arc::new(weft_sandbox::InProcess::new(weft_sandbox::LIMITS)),
            clock: Arc::new(FixedClock(1_700_000_000_000)),
            ..weft_testkit::around::no_seams()
        };
        let engine = Engine::new(Arc::new(seams), None, EngineLimits::default());
        Self { engine, model, http, files }
    }

    /// A conversation from its beginning.
    pub(crate) async fn hold(
        &self,
        plan: &Arc<Plan>,
        turns: impl IntoIterator<Item = TurnInput>,
    ) -> Vec<Ran> {
        let mut state = SessionState::new(plan);
        let mut history = Vec::new();
        let mut ran = Vec::new();
        for input in turns {
            let question = input.query.clone();
            let resumed = state.paused.is_some();
            let turn = turn_in(&self.engine, plan, state, input, history.clone()).await;
            let message = |role: &str, content: &str| HistoryMessage {
                role: role.into(),
                content: content.into(),
                run: turn.state.run.clone(),
            };
            if !resumed && !question.is_empty() {
                history.push(message("user", &question));
            }
            if !turn.report.said.is_empty() {
                history.push(message("assistant", &turn.report.said));
            }
            state = turn.state.clone();
            ran.push(turn);
        }
        ran
    }
}

/// Reads files synchronously, without a runtime.
struct AtOnce;

#[async_trait]
impl DocumentReader for AtOnce {
    async fn read(&self, _: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        weft_parse::read(request, &bytes)
    }
}

/// Files as `(dataset, name, bytes)`, read like those beside a canvas.
pub(crate) async fn searching(
    files: impl IntoIterator<Item = (&str, String, Vec<u8>)>,
) -> Arc<dyn Knowledge> {
    let beside = LocalDocuments::new(LocalDocumentsParts {
        store: Arc::new(MemoryDatasets::new()),
        index: Arc::new(MemoryChunkIndex::new()),
        reader: Arc::new(AtOnce),
        models: Arc::new(OneModel(Arc::new(ScriptedModel::new(Script::new())))),
        clock: Arc::new(FixedClock(1_700_000_000_000)),
    });
    for (dataset, name, bytes) in files {
        beside.add(&DatasetKey::new(&"t".into(), dataset), &name, bytes.into()).await.unwrap();
    }
    Arc::new(beside.datasets())
}

/// Compiles a canvas with the real catalog.
pub(crate) fn compiled(text: &str) -> std::result::Result<Arc<Plan>, Vec<Problem>> {
    let canvas = weft_dsl::load(text.as_bytes())?;
    let catalog = weft_components::catalog::catalog();
    compile(&canvas, &catalog, &CompileOptions::default()).map(|compiled| Arc::new(compiled.plan))
}

/// A component as `(id, kind, params, downstream, parent)`.
pub(crate) type Drawn<'a> = (&'a str, &'a str, Json, &'a [&'a str], Option<&'a str>);

/// A canvas of these components.
pub(crate) fn drawn(components: &[Drawn<'_>]) -> Arc<Plan> {
    let components = components.iter().map(|(id, kind, params, to, parent)| {
        let mut entry = serde_json::json!({
            "obj": {"component_name": kind, "params": params}, "downstream": to, "upstream": [],
        });
        if let Some(parent) = parent {
            entry["parent_id"] = (*parent).into();
        }
        ((*id).to_owned(), entry)
    });
    let components: serde_json::Map<_, _> = components.collect();
    let variables = serde_json::json!({
        "n": {"name": "n", "type": "number", "value": 0}, "list": {"name": "list", "type": "array<string>", "value": []},
    });
    let canvas = serde_json::json!({"components": components, "variables": variables, "globals": {}});
    compiled(&canvas.to_string()).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Runs a canvas once with a question.
pub(crate) async fn ask(plan: &Arc<Plan>, script: Script, query: &str) -> Ran {
    let world = World::new(script, FakeHttp::new());
    world.hold(plan, [crate::kit::asking(query)]).await.remove(0)
}
