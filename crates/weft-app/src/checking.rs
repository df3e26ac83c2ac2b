//! Checks canvases before they run, against the existing components, models and secrets.

use std::sync::Arc;

use weft_core::component::WrittenProgram;
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{Counting, DatasetFilter};
use weft_core::seam::memory_store::MemoryStore;
use weft_core::seam::secrets::PREFIX;
use weft_core::{Error, ErrorKind, Result, TenantId, blocking};
use weft_dsl::{CompileOptions, LeftOutTool, Plan, PluginTools, Problem};
use weft_plugins::Plugin;

use crate::app::App;
use crate::plans::compact;
use crate::programs::ProgramChecks;

/// Maximum number of datasets whose names are checked; with more of them, none is reported as missing.
const DATASETS_MAX: u64 = 2_000;
/// The parameter that names memories.
const MEMORIES: &str = "memory_ids";
/// Number of datasets read in one batch.
const PAGE: u64 = 200;

/// Purpose of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Report everything to the author of the canvas.
    Tell,
    /// Run it: its models must exist.
    Run,
    /// Inspect or replay a past run.
    LookBack,
}

/// Names that exist in a tenant and that canvases refer to. `None` if not checked.
#[derive(Default)]
struct ExistingNames {
    secrets: Option<Vec<String>>,
    datasets: Option<Vec<String>>,
    memories: Option<Vec<String>>,
    tool_servers: Option<Vec<String>>,
    left_out_tools: Vec<LeftOutTool>,
    plugin_tools: Vec<PluginTools>,
}

/// A plan with its warnings, or all problems.
type Checked = std::result::Result<(Plan, Vec<Problem>), Vec<Problem>>;

impl App {
    /// Returns the existing names for a canvas that may refer to some of them.
    async fn known_names(&self, tenant: &TenantId, dsl: &str, purpose: Purpose) -> Result<ExistingNames> {
        let mut known = ExistingNames::default();
        // Most canvases refer to no secret, so the list is rarely read.
        if purpose != Purpose::LookBack && dsl.contains(PREFIX) {
            let secrets = self.secrets.list(tenant).await?;
            known.secrets = Some(secrets.into_iter().map(|info| info.name.to_string()).collect());
        }
        if purpose == Purpose::Tell {
            known.tool_servers = Some(self.tool_servers.names(tenant).await?);
            known.left_out_tools = self.left_out_tools();
            known.plugin_tools = self.plugin_tools();
            // Few canvases name a memory.
            if dsl.contains(MEMORIES) {
                known.memories = Some(self.memory_names(tenant).await?);
            }
            known.datasets = self.dataset_names(tenant).await?;
        }
        Ok(known)
    }

    /// Returns the tools of plugins that agents cannot use.
    pub fn left_out_tools(&self) -> Vec<LeftOutTool> {
        let of_plugin = |plugin: &Plugin| {
            let server = plugin.name().to_owned();
            let left_out = plugin.left_out().to_vec();
            left_out.into_iter().map(move |one| LeftOutTool {
                server: server.clone(),
                tool: one.tool,
                reason: one.reason,
            })
        };
        self.plugins.iter().flat_map(of_plugin).collect()
    }

    /// Returns the tools of the plugins.
    pub fn plugin_tools(&self) -> Vec<PluginTools> {
        let of_plugin = |plugin: &Plugin| PluginTools {
            plugin: plugin.name().to_owned(),
            tools: plugin.tools().iter().map(|tool| tool.name.clone()).collect(),
        };
        self.plugins.iter().map(of_plugin).collect()
    }

    /// Returns the ids of a tenant's memories.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn memory_names(&self, tenant: &TenantId) -> Result<Vec<String>> {
        ids_of_memories(&*self.memories.store, tenant).await
    }

    /// Returns the names and ids of the datasets that canvases of a tenant may use; `None` if there are too many to
    /// check.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn dataset_names(&self, tenant: &TenantId) -> Result<Option<Vec<String>>> {
        names_of_datasets(&*self.datasets, tenant, DATASETS_MAX).await
    }

    /// Returns all problems of a canvas, with their positions in the JSON.
    ///
    /// # Errors
    /// `Invalid` when the text is not a JSON object.
    pub async fn check_canvas(&self, tenant: &TenantId, dsl: &str) -> Result<Vec<Problem>> {
        let dsl: Arc<str> = compact(dsl)?.into();
        Ok(match self.compiled(tenant, dsl, Purpose::Tell).await? {
            Ok((_, warnings)) => warnings,
            Err(problems) => problems,
        })
    }

    /// Compiles a canvas into a plan, or returns its problems. For a complete report, its programs are checked as
    /// well.
    pub(crate) async fn compiled(
        &self,
        tenant: &TenantId,
        dsl: Arc<str>,
        purpose: Purpose,
    ) -> Result<Checked> {
        let checks = ProgramChecks::default();
        let (checked, checks) = self.compiled_once(tenant, Arc::clone(&dsl), purpose, checks).await?;
        if purpose != Purpose::Tell {
            return Ok(checked);
        }
        match Box::pin(checks.parsed(&*self.sandbox, tenant)).await {
            Some(checks) => Ok(self.compiled_once(tenant, dsl, purpose, checks).await?.0),
            None => Ok(checked),
        }
    }

    /// Compiles on a blocking thread, because a large canvas would delay other tasks.
    async fn compiled_once(
        &self,
        tenant: &TenantId,
        dsl: Arc<str>,
        purpose: Purpose,
        programs: ProgramChecks,
    ) -> Result<(Checked, ProgramChecks)> {
        let (catalog, check, tenant) =
            (Arc::clone(&self.catalog), Arc::clone(&self.model_check), tenant.clone());
        let measuring = self.measuring;
        let directory = Arc::clone(&self.models);
        let no_voice = directory.speech(&tenant, "").err().map(|error| error.full());
        let known = self.known_names(&tenant, &dsl, purpose).await?;
        let compiled = blocking("the check of the canvas", move || {
            let canvas = match weft_dsl::load(dsl.as_bytes()) {
                Ok(canvas) => canvas,
                Err(problems) => return Ok((Err(problems), programs)),
            };
            let check = |llm_id: &str| check(&tenant, llm_id);
            let check: &dyn Fn(&str) -> Result<Option<String>, String> = &check;
            let models = (purpose != Purpose::LookBack).then_some(check);
            let rank = |id: &str| directory.reranker_notice(&tenant, id).map_err(|error| error.full());
            let rank: &dyn Fn(&str) -> Result<Option<String>, String> = &rank;
            // Inspecting a past run calls no model, so none has to exist.
            let rerankers = models.and(Some(rank));
            let no_voice = models.and(no_voice.as_deref());
            let parses = |program: &WrittenProgram| programs.of(program);
            let options = CompileOptions {
                models,
                rerankers,
                sql: Some(&weft_sql::refusals),
                programs: Some(&parses),
                no_voice,
                measuring,
                secrets: known.secrets.as_deref(),
                datasets: known.datasets.as_deref(),
                memories: known.memories.as_deref(),
                tool_servers: known.tool_servers.as_deref(),
                left_out_tools: &known.left_out_tools,
                plugin_tools: &known.plugin_tools,
            };
            let compiled = weft_dsl::compile(&canvas, &catalog, &options);
            Ok((compiled.map(|compiled| (compiled.plan, compiled.warnings)), programs))
        });
        compiled.await
    }
}

/// Returns the names and ids of a tenant's datasets; `None` if there are more than `most`.
pub(crate) async fn names_of_datasets(
    store: &dyn DatasetStore,
    tenant: &TenantId,
    most: u64,
) -> Result<Option<Vec<String>>> {
    let mut names = Vec::new();
    let mut filter = DatasetFilter { counting: Counting::Without, limit: PAGE, ..DatasetFilter::default() };
    let mut count = 0;
    loop {
        let (page, _) = store.datasets(tenant, &filter).await?;
        let Some(last) = page.last() else { return Ok(Some(names)) };
        // Offsets would shift when datasets come or go concurrently.
        filter.after = Some((last.created_ms, last.key.id.clone()));
        count += page.len() as u64;
        if count > most {
            return Ok(None);
        }
        names.extend(page.into_iter().flat_map(|dataset| [dataset.name, dataset.key.id.to_string()]));
    }
}

/// Returns the ids of a tenant's memories, of which there are few.
pub(crate) async fn ids_of_memories(store: &dyn MemoryStore, tenant: &TenantId) -> Result<Vec<String>> {
    let memories = store.list(tenant).await?;
    Ok(memories.into_iter().map(|memory| memory.key.id.to_string()).collect())
}

/// Combines all problems that keep a canvas from running into one error.
pub fn refusal(problems: &[Problem]) -> Error {
    let errors: Vec<String> =
        problems.iter().filter(|problem| problem.is_error()).map(ToString::to_string).collect();
    let count = match errors.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    Error::new(
        ErrorKind::Invalid,
        format!("the canvas cannot run because it has {count}: {}", errors.join("; ")),
    )
}
