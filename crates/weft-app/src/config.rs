//! All settings with their defaults. `config.default.toml` documents them with reasons; a test keeps the two
//! consistent. Files, environment variables and flags are read by weft-cli.

mod accounts;
mod attachments;
mod browser;
mod budgets;
mod confined;
mod notifications;
mod oidc;
mod places;
mod plugin_servers;
mod quotas;
mod retention;
mod secrets;
mod sections;
mod server;
mod transcription;
pub mod trust;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use weft_core::budget::{BudgetLimits, PeriodLimits};
use weft_core::{CanvasId, Error, Result};
use weft_engine::engine::{Allowances, EngineLimits};
use weft_mcp::McpConfig;
use weft_models::ModelsConfig;

use self::budgets::{impossible_prices, run_budget, useless};
use crate::multitask::MultitaskStrategy;

pub use self::accounts::{AccountsConfig, AuditLevel};
pub use self::attachments::AttachmentsConfig;
pub use self::browser::BrowserConfig;
pub use self::confined::{DocumentsConfig, SandboxConfig};
pub(crate) use self::confined::{NO_OCR, TESSERACT};
pub use self::notifications::{MailConfig, NotificationsConfig, Receivers};
pub use self::oidc::OidcConfig;
pub(crate) use self::oidc::is_private_way;
pub use self::retention::RetentionConfig;
pub use self::secrets::SecretsConfig;
pub use self::sections::sections;
pub use self::server::{Auth, ConnectionLimits, ServerConfig, check_auth, listen_address};
pub use self::transcription::{TranscriptionConfig, TranscriptionEngine};

/// All settings with their defaults and reasons, for people.
pub const DEFAULTS: &str = include_str!("../config.default.toml");

/// The store's file in the data folder.
pub(crate) const STORE_FILE: &str = "weft.db";

/// All settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The data folder.
    pub data: PathBuf,
    /// The address on which `weft serve` listens.
    #[serde(deserialize_with = "server::listen")]
    pub listen: SocketAddr,
    /// The store of canvases, sessions, runs and tokens.
    pub store: StoreConfig,
    /// Secrets that canvases refer to.
    pub secrets: SecretsConfig,
    /// Uploaded files.
    pub blobs: BlobsConfig,
    /// The search index.
    pub index: IndexConfig,
    /// Retention of runs.
    pub retention: RetentionConfig,
    /// Limits of runs and requests.
    pub limits: LimitsConfig,
    /// Language models.
    pub models: ModelsConfig,
    /// MCP servers of the operator.
    pub mcp: McpConfig,
    /// Tools of plugins.
    pub plugins: PluginsConfig,
    /// Network addresses that canvases may reach.
    pub net: NetConfig,
    /// Files that agents read and write.
    pub files: FilesConfig,
    /// Execution of programs of canvases and models.
    pub sandbox: SandboxConfig,
    /// Web browsers that models control.
    pub browser: BrowserConfig,
    /// Files of conversations.
    pub attachments: AttachmentsConfig,
    /// Ingestion of files into datasets.
    pub documents: DocumentsConfig,
    /// Transcription of recordings.
    pub transcription: TranscriptionConfig,
    /// The HTTP server.
    pub server: ServerConfig,
    /// Users, sign-ins, share tokens and the audit log.
    pub accounts: AccountsConfig,
    /// Notifications.
    pub notifications: NotificationsConfig,
    /// Processing of the queue.
    pub worker: WorkerConfig,
}

/// Location of plugins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// A folder that contains a file or a folder per plugin; empty for `plugins` in the data folder.
    pub folder: PathBuf,
}

/// Location of canvases, sessions, runs and tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `sqlite:PATH`, `postgres://…` or `mysql://…`; empty for a SQLite file in the data folder.
    pub url: String,
}

/// Location of uploaded files.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlobsConfig {
    /// `folder:PATH`; empty for a folder in the data folder.
    pub url: String,
}

/// Location of the index of the datasets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IndexConfig {
    /// `folder:PATH`; empty for a folder in the data folder.
    pub url: String,
}

/// Limits of runs and requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Maximum number of concurrent runs; a further one is refused.
    pub runs_at_once: usize,
    /// Maximum number of concurrent runs of one tenant in this process; 0: no quota.
    pub tenant_runs_at_once: usize,
    /// Maximum number of documents of one tenant in all its datasets; 0: no quota.
    pub tenant_documents: u64,
    /// Maximum size of the documents of one tenant in all its datasets in bytes, as uploaded, including stored
    /// pictures; 0: no quota.
    pub tenant_document_bytes: u64,
    /// Maximum number of canvases of one tenant; 0: no quota.
    pub tenant_canvases: u64,
    /// Maximum number of chat assistants and search apps of one tenant together; 0: no quota.
    pub tenant_chats: u64,
    /// Maximum number of datasets of one tenant; 0: no quota.
    pub tenant_datasets: u64,
    /// Maximum number of sessions of one tenant; 0: no quota.
    pub tenant_sessions: u64,
    /// Maximum number of API keys of one tenant; 0: no quota.
    pub tenant_api_keys: u64,
    /// Maximum number of concurrent nodes within a run.
    pub nodes_at_once: usize,
    /// Maximum number of activations of a run in addition to one per node; each round of an Iteration or a Loop has
    /// the same limit.
    pub activations: u64,
    /// Time limit of a run, in seconds.
    pub run_seconds: u64,
    /// Time limit of an activation whose component has none, in seconds.
    pub node_seconds: u64,
    /// Time limit of a run that ingests a document with a pipeline, in seconds.
    pub pipeline_seconds: u64,
    /// Maximum number of model calls of such a run.
    pub pipeline_model_calls: u64,
    /// Maximum size of the output of one activation, in bytes.
    pub output_bytes: usize,
    /// Maximum size of all values that a run holds at the same time, in bytes.
    pub values_bytes: usize,
    /// Maximum size of a run's journal, in bytes.
    pub journal_bytes: u64,
    /// Budget of a run for models and tools together; an absent entry is unlimited, except for model calls.
    #[serde(deserialize_with = "run_budget")]
    pub budget: BudgetLimits,
    /// Budget of all turns of a session together.
    pub session_budget: BudgetLimits,
    /// Budget of all runs of a canvas together, unless `canvas_budgets` names it.
    pub canvas_budget: PeriodLimits,
    /// Budgets of all runs of a canvas together, by its id.
    pub canvas_budgets: BTreeMap<String, PeriodLimits>,
    /// Budget of all runs of a tenant together.
    pub tenant_budget: PeriodLimits,
    /// Questions to a session that has a turn under way.
    pub sessions: SessionLimits,
    /// Maximum size of a request body, in bytes.
    pub body_bytes: usize,
    /// Maximum size of a request that uploads files, in bytes.
    pub upload_bytes: usize,
    /// Maximum size of the uploaded files and the larger bodies that a process holds in memory at the same time, in
    /// bytes. A tenant gets half of it.
    pub upload_memory_bytes: usize,
    /// Number of compiled canvas versions that are cached in memory.
    pub plans_kept: usize,
    /// Maximum number of entries on a page of a list.
    pub page_size: u64,
    /// Time for runs to finish on shutdown, in seconds. Then they are handed over.
    pub shutdown_seconds: u64,
    /// How often a run is recovered that makes no progress in between.
    pub pick_ups: usize,
}

/// Questions to a session that has a turn under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionLimits {
    /// Strategy for a request that names none.
    pub multitask_strategy: MultitaskStrategy,
    /// Maximum number of questions that wait for one session in one process; a further one is refused.
    pub waiting_max: usize,
    /// How long a question waits, in seconds.
    pub wait_seconds: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { multitask_strategy: MultitaskStrategy::Enqueue, waiting_max: 16, wait_seconds: 300 }
    }
}

/// Network addresses that canvases may reach.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetConfig {
    /// Hosts, addresses and networks that are not public but may be reached.
    pub allow: Vec<String>,
}

/// Files that agents read and write.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// The folder with one folder per tenant; relative to the data folder. Empty: agents have no files.
    pub root: String,
    /// Maximum size of a file, in bytes.
    pub bytes_max: usize,
    /// Maximum size of all files of one tenant, in bytes; 0: no quota.
    pub tenant_bytes_max: u64,
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self { root: "files".to_owned(), bytes_max: 5 << 20, tenant_bytes_max: 10 << 30 }
    }
}

/// Processing of the queue: runs of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerConfig {
    /// Whether `weft serve` processes the queue as well; `weft worker` always does.
    pub enabled: bool,
    /// Maximum number of concurrent runs of the queue in one process.
    pub concurrency: usize,
    /// Maximum number of documents that are ingested concurrently in one process.
    pub documents_at_once: usize,
    /// How long finished work is kept in the queue, in days.
    pub kept_days: u64,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        // As many documents as are parsed at the same time (`documents.at_once`): more would only wait.
        Self { enabled: true, concurrency: 16, documents_at_once: 2, kept_days: 30 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from("weft-data"),
            // Only this machine, until the operator decides otherwise.
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9380)),
            store: StoreConfig::default(),
            secrets: SecretsConfig::default(),
            blobs: BlobsConfig::default(),
            index: IndexConfig::default(),
            retention: RetentionConfig::default(),
            limits: LimitsConfig::default(),
            models: ModelsConfig::default(),
            mcp: McpConfig::default(),
            plugins: PluginsConfig::default(),
            net: NetConfig::default(),
            files: FilesConfig::default(),
            sandbox: SandboxConfig::default(),
            browser: BrowserConfig::default(),
            attachments: AttachmentsConfig::default(),
            documents: DocumentsConfig::default(),
            transcription: TranscriptionConfig::default(),
            server: ServerConfig::default(),
            accounts: AccountsConfig::default(),
            notifications: NotificationsConfig::default(),
            worker: WorkerConfig::default(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let engine = EngineLimits::default();
        Self {
            runs_at_once: engine.runs_at_once,
            tenant_runs_at_once: engine.tenant_runs_at_once,
            tenant_documents: 0,
            tenant_document_bytes: 10 << 30,
            tenant_canvases: 10_000,
            tenant_chats: 10_000,
            tenant_datasets: 10_000,
            tenant_sessions: 0,
            tenant_api_keys: 10_000,
            nodes_at_once: engine.nodes_at_once,
            activations: engine.activations,
            run_seconds: engine.run_time.as_secs(),
            node_seconds: engine.node_time.as_secs(),
            pipeline_seconds: engine.pipeline_time.as_secs(),
            pipeline_model_calls: engine.pipeline_model_calls,
            output_bytes: engine.output_bytes,
            values_bytes: engine.values_bytes,
            journal_bytes: engine.journal_bytes,
            budget: engine.budget,
            session_budget: BudgetLimits::default(),
            canvas_budget: PeriodLimits::default(),
            canvas_budgets: BTreeMap::new(),
            tenant_budget: PeriodLimits::default(),
            body_bytes: 16 << 20,
            upload_bytes: 1 << 30,
            upload_memory_bytes: 512 << 20,
            plans_kept: 256,
            sessions: SessionLimits::default(),
            page_size: 1_000,
            shutdown_seconds: 10,
            pick_ups: 5,
        }
    }
}

impl LimitsConfig {
    /// Returns the limits of the engine.
    pub fn engine(&self) -> EngineLimits {
        EngineLimits {
            runs_at_once: self.runs_at_once,
            tenant_runs_at_once: self.tenant_runs_at_once,
            nodes_at_once: self.nodes_at_once,
            activations: self.activations,
            run_time: Duration::from_secs(self.run_seconds),
            node_time: Duration::from_secs(self.node_seconds),
            pipeline_time: Duration::from_secs(self.pipeline_seconds),
            pipeline_model_calls: self.pipeline_model_calls,
            output_bytes: self.output_bytes,
            values_bytes: self.values_bytes,
            journal_bytes: self.journal_bytes,
            budget: self.budget,
            pick_ups: self.pick_ups,
        }
    }

    /// Returns the shared budgets of several runs.
    pub fn allowances(&self) -> Allowances {
        let canvases = self.canvas_budgets.iter();
        Allowances {
            session: self.session_budget,
            canvas: self.canvas_budget,
            canvases: canvases.map(|(id, limits)| (CanvasId::from(id.as_str()), *limits)).collect(),
            tenant: self.tenant_budget,
        }
    }

    /// Returns budgets with which no model could be called at all. A budget without tools makes sense.
    fn useless_budgets(&self) -> Vec<String> {
        let periods = |name: String, limits: &PeriodLimits| {
            limits.each().map(|(period, limits)| (format!("{name}.{}", period.as_str()), limits))
        };
        let one = [("budget", self.budget), ("session_budget", self.session_budget)];
        let canvases = self.canvas_budgets.iter();
        one.into_iter()
            .map(|(name, limits)| (name.to_owned(), limits))
            .chain(periods("canvas_budget".to_owned(), &self.canvas_budget))
            .chain(canvases.flat_map(|(id, limits)| periods(format!("canvas_budgets.{id}"), limits)))
            .chain(periods("tenant_budget".to_owned(), &self.tenant_budget))
            .flat_map(|(name, limits)| useless(limits).map(move |what| format!("{name}.{what}")))
            .collect()
    }

    fn zeros(&self) -> impl Iterator<Item = &'static str> {
        let one_at_least = [
            ("runs_at_once", self.runs_at_once == 0),
            ("nodes_at_once", self.nodes_at_once == 0),
            ("activations", self.activations == 0),
            ("run_seconds", self.run_seconds == 0),
            ("node_seconds", self.node_seconds == 0),
            ("pipeline_seconds", self.pipeline_seconds == 0),
            ("pipeline_model_calls", self.pipeline_model_calls == 0),
            ("output_bytes", self.output_bytes == 0),
            ("values_bytes", self.values_bytes == 0),
            ("journal_bytes", self.journal_bytes == 0),
            ("body_bytes", self.body_bytes == 0),
            ("upload_bytes", self.upload_bytes == 0),
            ("upload_memory_bytes", self.upload_memory_bytes == 0),
            ("plans_kept", self.plans_kept == 0),
            ("page_size", self.page_size == 0),
        ];
        one_at_least.into_iter().filter_map(|(name, zero)| zero.then_some(name))
    }
}

impl Config {
    /// Checks constraints that the types cannot express.
    ///
    /// # Errors
    /// `Invalid` that names every setting that is not valid.
    pub fn check(&self) -> Result<()> {
        let mut wrong: Vec<String> =
            self.limits.zeros().map(|name| format!("limits.{name} must be at least 1")).collect();
        if self.files.bytes_max == 0 {
            wrong.push("files.bytes_max must be at least 1".to_owned());
        }
        if self.attachments.file_bytes_max == 0 {
            wrong.push("attachments.file_bytes_max must be at least 1".to_owned());
        }
        wrong.extend(self.accounts.problems());
        wrong.extend(self.notifications.problems());
        if self.worker.concurrency == 0 {
            wrong.push("worker.concurrency must be at least 1".to_owned());
        }
        if self.worker.documents_at_once == 0 {
            wrong.push("worker.documents_at_once must be at least 1".to_owned());
        }
        wrong.extend(
            [self.blobs_folder(), self.index_folder()]
                .into_iter()
                .filter_map(|folder| Some(folder.err()?.full())),
        );
        if self.sandbox.limits().is_none() {
            let message = "sandbox: seconds must be more than 0 and at most a day, memory_bytes at least 1048576, \
                           output_bytes at least 1";
            wrong.push(message.to_owned());
        }
        if self.documents.limits().is_none() {
            let message = "documents: seconds must be more than 0 and at most a day, memory_bytes at least 16777216, \
                           file_bytes_max at least 1";
            wrong.push(message.to_owned());
        }
        if self.documents.picture_limits().is_none() {
            wrong.push("documents.ocr_seconds must be more than 0 and at most a day".to_owned());
        }
        if self.transcription.limits().is_none() {
            let message = "transcription: seconds must be more than 0 and at most a day, memory_bytes at least 16777216, \
                           file_bytes_max and at_once at least 1, threads from 1 to 1024";
            wrong.push(message.to_owned());
        }
        let useless = self.limits.useless_budgets();
        wrong.extend(useless.into_iter().map(|name| format!("limits.{name} must be more than 0")));
        wrong.extend(
            impossible_prices(&self.models)
                .map(|name| format!("models.entries: the prices of `{name}` must be numbers from 0 on")),
        );
        if let Err(error) = check_auth(self.server.auth, self.listen) {
            wrong.push(error.full());
        }
        wrong.extend(self.secrets.problem());
        if let Err(error) = weft_net::AllowList::parse(&self.net.allow) {
            wrong.push(format!("net.allow: {}", error.full()));
        }
        wrong.extend(self.mcp.problems());
        wrong.extend(self.models.twins());
        if wrong.is_empty() { Ok(()) } else { Err(Error::invalid(wrong.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_committed_file_holds_the_defaults() {
        let file = parse(include_str!("../config.default.toml")).unwrap();
        assert_eq!(format!("{file:?}"), format!("{:?}", Config::default()));
        let commented: Vec<_> = include_str!("../config.default.toml").lines().collect();
        for name in [
            "data",
            "listen",
            "url",
            "runs_at_once",
            "body_bytes",
            "upload_bytes",
            "upload_memory_bytes",
            "documents_at_once",
            "allow",
            "auth",
            "page_size",
            "root",
            "at_once",
            "kept_days",
            "runs_days",
            "runs_per_session",
            "versions_per_canvas",
        ] {
            assert!(commented.iter().any(|line| line.starts_with(&format!("{name} = "))), "{name}");
        }
    }

    /// A budget is unlimited by default, so the file shows each one as a commented example.
    #[test]
    fn every_budget_has_an_example() {
        let file = include_str!("../config.default.toml");
        let (_, section) = file.split_once("[limits.budget]\n").unwrap();
        let section = section.lines().take_while(|line| !line.is_empty());
        let shown: Vec<&str> = section.map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
        let budget: BudgetLimits = toml::from_str(&shown.join("\n")).unwrap();
        let shown = serde_json::to_value(budget).unwrap();
        assert!(shown.as_object().unwrap().values().all(|limit| !limit.is_null()), "{shown}");
        let (_, shared) = file.split_once("#\n# [limits.session_budget]\n").unwrap();
        let shown: Vec<&str> = shared.lines().map_while(|line| line.strip_prefix("# ")).collect();
        let config = parse(&format!("[limits.session_budget]\n{}", shown.join("\n"))).unwrap();
        config.check().unwrap();
        let Allowances { session, canvas, canvases, tenant } = config.limits.allowances();
        assert_ne!(session, BudgetLimits::default());
        assert!([canvas, tenant, canvases["support"]].iter().all(|each| *each != PeriodLimits::default()));
    }

    /// The example servers work as they are.
    #[test]
    fn the_example_tool_servers_are_valid() {
        let file = include_str!("../config.default.toml");
        let (_, examples) = file.split_once("#\n# [mcp.servers.files]\n").unwrap();
        let shown: Vec<_> =
            examples.lines().map_while(|line| line.strip_prefix('#')).map(str::trim_start).collect();
        let config = parse(&format!("[mcp.servers.files]\n{}", shown.join("\n"))).unwrap();
        config.check().unwrap();
        assert_eq!(config.mcp.servers.len(), 2);
        let set = config.mcp.with_environment(|name| Some(format!("value of {name}"))).unwrap();
        assert_eq!(set.servers["files"].env["API_KEY"].reveal(), "value of FILES_KEY");
    }

    /// The example models work as they are, except for their keys and files.
    #[test]
    fn the_example_models_are_valid() {
        let file = include_str!("../config.default.toml");
        let (_, examples) = file.split_once("\n# default = \"fast\"\n").unwrap();
        let shown: Vec<_> =
            examples.lines().map_while(|line| line.strip_prefix('#')).map(str::trim_start).collect();
        let models = parse(&format!("[models]\n{}", shown.join("\n"))).unwrap().models;
        let names: Vec<&str> = models.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["fast", "rehearsed", "vectors", "judge", "reader", "ears", "all-minilm-l6-v2"]);
        let defaults = [models.default_embedding.as_deref(), models.default_rerank.as_deref()];
        assert_eq!(defaults, [Some("vectors"), Some("judge")]);
    }

    #[test]
    fn an_unknown_setting_is_named() {
        let error = parse("[limits]\nrun_at_once = 3").unwrap_err();
        assert!(error.contains("run_at_once") && error.contains("runs_at_once"), "{error}");
        assert!(parse("listen = \"nowhere\"").unwrap_err().contains("nowhere"));
    }

    #[test]
    fn every_bad_setting_is_named_at_once() {
        let text = "listen = \"0.0.0.0:1\"\nfiles.bytes_max = 0\nsandbox.seconds = -1.0\nworker.concurrency = 0\n[limits]\nplans_kept = 0\npage_size = 0\n\
                    tenant_budget.month.tokens = 0\ncanvas_budgets.x.day.money = 0.0\nbudget = {tokens = 0, money = -1.0, rounds = 0, seconds = nan}\n[server]\nauth = \"off\"\n\
                    [net]\nallow = [\"http://x\"]\n[mcp.servers.x]";
        let error = parse(text).unwrap().check().unwrap_err().message;
        let parts =
            ["limits.plans_kept", "limits.page_size", "0.0.0.0:1", "net.allow", "files.bytes_max", "sandbox"];
        for part in parts.into_iter().chain([
            "tenant_budget.month.tokens",
            "canvas_budgets.x.day.money",
            "mcp.servers.x",
            "budget.tokens",
            "budget.money",
            "budget.seconds",
            "worker.concurrency",
        ]) {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("rounds"), "{error}");
        for prices in [
            "prompt = nan, completion = 1.0",
            "prompt = 1.0, completion = -1.0",
            "prompt = 1.0, completion = 1.0, cache_read = inf",
        ] {
            let text = format!("[[models.entries]]\nname = \"dear\"\nprices = {{{prices}}}");
            let error = parse(&text).unwrap().check().unwrap_err().message;
            assert!(error.contains("the prices of `dear`"), "{prices}: {error}");
        }
        parse("[[models.entries]]\nname = \"m\"\nprices = {prompt = 0.0, completion = 1.5}")
            .unwrap()
            .check()
            .unwrap();
        Config::default().check().unwrap();
        check_auth(Auth::Off, "[::1]:80".parse().unwrap()).unwrap();
    }

    #[test]
    fn the_store_defaults_to_the_data_folder() {
        let mut config = Config::default();
        assert_eq!(config.store_url(), "sqlite:weft-data/weft.db");
        config.store.url = "postgres://db/weft".to_owned();
        assert_eq!(config.store_url(), "postgres://db/weft");
    }

    #[test]
    fn uploads_and_index_default_to_the_data_folder() {
        let mut config = Config::default();
        assert_eq!(config.blobs_folder().unwrap(), PathBuf::from("weft-data/blobs"));
        assert_eq!(config.index_folder().unwrap(), PathBuf::from("weft-data/index"));
        config.blobs.url = "folder:/srv/blobs".to_owned();
        config.index.url = "folder:other".to_owned();
        assert_eq!(config.blobs_folder().unwrap(), PathBuf::from("/srv/blobs"));
        assert_eq!(config.index_folder().unwrap(), PathBuf::from("weft-data/other"));
        config.blobs.url = "s3://bucket".to_owned();
        config.worker.documents_at_once = 0;
        let error = config.check().unwrap_err().message;
        for part in ["blobs.url is an address", "worker.documents_at_once"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("bucket"), "{error}");
    }

    #[test]
    fn files_default_to_the_data_folder_and_can_be_turned_off() {
        let mut config = Config::default();
        assert_eq!(config.files_root(), Some(PathBuf::from("weft-data/files")));
        config.files.root = "/srv/weft".to_owned();
        assert_eq!(config.files_root(), Some(PathBuf::from("/srv/weft")));
        config.files.root = " ".to_owned();
        assert_eq!(config.files_root(), None);
    }
}
