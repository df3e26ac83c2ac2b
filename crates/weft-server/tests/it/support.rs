//! An app in memory with a scripted model, and requests to its routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::shelf::OtherFaces;
use crate::vectors::WithVectors;
use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Request, StatusCode};
use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use tower::ServiceExt as _;
use weft_app::accounts::{AccountStores, Accounts, NewUser};
use weft_app::config::{AccountsConfig, LimitsConfig, NotificationsConfig};
use weft_app::notifications::Notifications;
use weft_app::tool_servers::{TenantServerStores, TenantServers};
use weft_app::{App, Auth, DEFAULT_TENANT, Parts, tokens};
use weft_core::access::MemberRole;
use weft_core::id::UserId;
use weft_core::seam::chat_model::{Prices, Usage};
use weft_core::seam::folder_store::FolderLimits;
use weft_core::seam::picture_reader::{Picture, PictureLine};
use weft_core::seam::tool_source::NoTools;
use weft_core::seam::user_store::Login;
use weft_core::seam::{Clock, DocumentReader, PictureReader, Seams};
use weft_core::usage::Counted;
use weft_core::{Result, TenantId, async_trait};
use weft_engine::Engine;
use weft_engine::clock::SystemClock;
use weft_engine::engine::Stores;
use weft_knowledge::memories::ConversationMemories;
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{FakeHttp, Reply, Script, ScriptedModel, Step};

/// Longer than any test runs, for a model that never finishes by itself.
pub(crate) const FOREVER_MS: u64 = 3_600_000;

pub(crate) fn component(kind: &str, params: &Json, downstream: &[&str]) -> Json {
    json!({"obj": {"component_name": kind, "params": params}, "downstream": downstream, "upstream": []})
}

pub(crate) fn begin(prologue: &str, downstream: &str) -> Json {
    let params = json!({"mode": "conversational", "prologue": prologue, "enablePrologue": !prologue.is_empty(), "inputs": {}});
    component("Begin", &params, &[downstream])
}

/// A canvas that repeats the question.
pub(crate) fn echo_canvas() -> Json {
    json!({"components": {
        "begin": begin("Hi!", "Message:Echo"),
        "Message:Echo": component("Message", &json!({"content": ["you said: {sys.query}"]}), &[]),
    }})
}

/// A canvas that calls a model with the history.
pub(crate) fn chat_canvas() -> Json {
    let agent = json!({
        "llm_id": "m@OpenAI-API-Compatible",
        "sys_prompt": "You are helpful.",
        "prompts": [{"role": "user", "content": "{sys.query}"}],
        "max_retries": 0, "max_rounds": 3, "message_history_window_size": 12, "cite": false, "tools": [], "mcp": [],
        "outputs": {"content": {"type": "string", "value": ""}},
    });
    json!({"components": {
        "begin": begin("", "Agent:A"),
        "Agent:A": component("Agent", &agent, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{Agent:A@content}"]}), &[]),
    }})
}

/// A canvas that asks a person for a colour before it answers.
pub(crate) fn form_canvas() -> Json {
    let fill = json!({
        "enable_tips": true, "tips": "Which colour?",
        "inputs": {"colour": {"name": "Colour", "type": "line", "optional": false, "options": []}},
    });
    json!({"components": {
        "begin": begin("", "UserFillUp:F"),
        "UserFillUp:F": component("UserFillUp", &fill, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{UserFillUp:F@colour} it is"]}), &[]),
    }})
}

pub(crate) struct Bench {
    pub app: App,
    pub router: Router,
    pub token: String,
    pub model: ScriptedModel,
    pub store: Arc<MemoryStore>,
}

/// A response that has been read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reading {
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    pub(crate) fn data(&self) -> Json {
        let mut json = self.json();
        assert_eq!(json["code"], 0, "{json}");
        json["data"].take()
    }

    /// The code and message of a refusal.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u64, String) {
        let json = self.json();
        (json["code"].as_u64().unwrap(), json["message"].as_str().unwrap().to_owned())
    }

    /// The frames of a stream.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        frames(&self.text)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub id: Option<u64>,
    pub data: String,
}

impl Frame {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.data).unwrap_or_else(|_| Json::String(self.data.clone()))
    }

    pub(crate) fn event(&self) -> String {
        self.json()["event"].as_str().unwrap_or(&self.data).to_owned()
    }
}

/// Parses a stream; every line must be of a known kind.
pub(crate) fn frames(text: &str) -> Vec<Frame> {
    let blocks = text.split_terminator("\n\n").filter(|block| !block.starts_with(": "));
    blocks
        .map(|block| {
            let (id, data) = match block.strip_prefix("id: ").and_then(|rest| rest.split_once('\n')) {
                Some((id, data)) => (Some(id.parse().unwrap()), data),
                None => (None, block),
            };
            let data = data.strip_prefix("data:").unwrap_or_else(|| panic!("{block:?}"));
            Frame { id, data: data.strip_prefix(' ').unwrap_or(data).to_owned() }
        })
        .collect()
}

pub(crate) fn events(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(Frame::event).collect()
}

/// The text of all messages.
pub(crate) fn said(frames: &[Frame]) -> String {
    let messages = frames.iter().map(Frame::json).filter(|json| json["event"] == "message");
    messages.map(|json| json["data"]["content"].as_str().unwrap_or_default().to_owned()).collect()
}

pub(crate) async fn bench(script: Script) -> Bench {
    bench_with(script, Auth::On, LimitsConfig::default()).await
}

pub(crate) async fn bench_with(script: Script, auth: Auth, limits: LimitsConfig) -> Bench {
    let bench = process(Arc::new(MemoryStore::new()), ScriptedModel::new(script), (auth, limits));
    let token = bench.app.first_token().await.unwrap().unwrap().reveal().to_owned();
    Bench { token, ..bench }
}

/// A server with this store; another one with the same store stands for a restarted server.
pub(crate) fn process(
    store: Arc<MemoryStore>,
    model: ScriptedModel,
    settings: (Auth, LimitsConfig),
) -> Bench {
    process_at(store, model, settings, Arc::new(SystemClock))
}

/// A clock that the test sets.
#[derive(Debug)]
pub(crate) struct HandClock(pub AtomicI64);

impl HandClock {
    pub(crate) fn at(ms: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(ms)))
    }

    pub(crate) fn go_on(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn running(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.now_ms().try_into().unwrap_or_default())
    }
}

/// The size limit of a file of a session, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The same with its own clock.
pub(crate) fn process_at(
    store: Arc<MemoryStore>,
    model: ScriptedModel,
    settings: (Auth, LimitsConfig),
    clock: Arc<dyn Clock>,
) -> Bench {
    process_with((store, model), settings, (clock, AccountsConfig::default()))
}

/// One store as the engine and the accounts use it.
fn faces(store: &Arc<MemoryStore>) -> (Stores, AccountStores) {
    let stores = Stores {
        runs: store.clone(),
        sessions: store.clone(),
        spending: store.clone(),
        processes: store.clone(),
        messages: store.clone(),
    };
    let accounts = AccountStores {
        users: store.clone(),
        identities: store.clone(),
        tenants: store.clone(),
        shares: store.clone(),
        audit: store.clone(),
    };
    (stores, accounts)
}

/// Accounts, with the configured identity providers.
fn accounts_of(stores: AccountStores, config: AccountsConfig) -> Accounts {
    let has_providers = !config.oidc.is_empty();
    let accounts = Accounts::new(stores, config);
    if has_providers {
        let http: Arc<dyn weft_net::StreamingHttp> = Arc::new(weft_net::OperatorHttp::new().unwrap());
        accounts.with_providers(&http)
    } else {
        accounts
    }
}

fn plugins() -> weft_plugins::Plugins {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/plugins");
    // There are no WASM components, so nothing blocks here.
    let plugins = weft_plugins::Plugins::open(folder, &weft_core::seam::sandbox::NoSandbox);
    futures::FutureExt::now_or_never(plugins).unwrap().unwrap()
}

/// A file manager with small limits.
fn file_manager(clock: &Arc<dyn Clock>) -> weft_app::file_manager::FileManager {
    let limits = FolderLimits { in_folder: 250, depth: 5, entries: 500, bytes: 20_000 };
    let tree = Arc::new(weft_testkit::MemoryFolders::within(limits));
    let blobs = Arc::new(weft_testkit::MemoryBlobs::default());
    weft_app::file_manager::FileManager::new(tree, blobs, Arc::clone(clock), crate::shelf::FILE_BYTES_MAX)
}

/// Reads the same text in every picture, and reports the usage.
struct Eyes;

#[async_trait]
impl PictureReader for Eyes {
    fn name(&self) -> &str {
        "eyes"
    }

    async fn read(&self, tenant: &TenantId, picture: &Picture) -> Result<Vec<PictureLine>> {
        self.read_counted(tenant, picture).await.map(|counted| counted.given)
    }

    async fn read_counted(&self, _: &TenantId, _: &Picture) -> Result<Counted<Vec<PictureLine>>> {
        let usage = Usage { prompt_tokens: 50, completion_tokens: 5, calls: 1, ..Usage::default() };
        let given = vec![PictureLine { text: "Moor here.".to_owned(), place: None }];
        Ok(Counted { given, usage, prices: Some(Prices::new(1.0, 2.0)) })
    }
}

/// A reader of session files, and of text in pictures.
fn reader() -> Arc<dyn DocumentReader> {
    let documents = Arc::new(weft_parse::InProcess::default());
    Arc::new(weft_parse::MediaReader::new(documents, Some(Arc::new(Eyes)), None))
}

/// MCP servers of tenants, which may be on this machine.
fn of_tenants(clock: &Arc<dyn Clock>) -> TenantServers {
    let http = Arc::new(weft_net::OperatorHttp::new().unwrap());
    let stores = TenantServerStores {
        servers: Arc::new(weft_testkit::MemoryToolServers::default()),
        credentials: Arc::new(weft_testkit::MemoryCredentials::default()),
    };
    TenantServers::new(Arc::new(NoTools), stores, http, Arc::clone(clock)).unwrap()
}

/// The same with other account settings.
pub(crate) fn process_with(
    (store, model): (Arc<MemoryStore>, ScriptedModel),
    (auth, limits): (Auth, LimitsConfig),
    (clock, config): (Arc<dyn Clock>, AccountsConfig),
) -> Bench {
    let files = Arc::new(weft_testkit::MemoryFiles::within(FILE_BYTES_MAX, 10 * FILE_BYTES_MAX));
    let (library, datasets, OtherFaces { files, readings, reembeddings }) =
        crate::shelf::shelf(Arc::new(WithVectors(model.clone())), Arc::clone(&clock), files);
    let library = Arc::new((*library).clone().noting_usage(store.clone()));
    let beside = crate::shelf::beside(Arc::new(model.clone()), Arc::clone(&clock));
    let models = Arc::new(weft_testkit::WithVoice(WithVectors(model.clone()), Arc::default()));
    let index = || Arc::new(weft_search::MemoryChunkIndex::new()) as Arc<dyn weft_core::seam::Index>;
    let memories = ConversationMemories::new(store.clone(), models.clone(), Arc::clone(&clock), index);
    let tool_servers = of_tenants(&clock);
    let seams = Arc::new(Seams {
        tools: Arc::new(tool_servers.clone()),
        models: models.clone(),
        memories: Arc::new(memories.clone()),
        http: Arc::new(FakeHttp::new()),
        knowledge: Arc::new(datasets.clone()),
        clock: Arc::clone(&clock),
        files,
        reader: Arc::new(weft_parse::InProcess::default()),
        documents: Arc::new(weft_parse::InProcess::default()),
        secrets: Arc::new(weft_testkit::MemorySecrets::default()),
        ..weft_testkit::around::no_seams()
    });
    let (stores, accounts) = faces(&store);
    let parts = Parts {
        engine: Engine::new(Arc::clone(&seams), Some(stores), limits.engine()),
        canvases: store.clone(),
        versions: store.clone(),
        chats: store.clone(),
        sessions: store.clone(),
        runs: store.clone(),
        spending: store.clone(),
        uses: store.clone(),
        tasks: store.clone(),
        tokens: store.clone(),
        accounts: accounts_of(accounts, config),
        notifications: Notifications::new(
            store.clone(),
            NotificationsConfig::default(),
            Arc::clone(&seams.http),
            Arc::clone(&seams.mailer),
        ),
        secrets: Arc::clone(&seams.secrets),
        queue: store.clone(),
        schedules: store.clone(),
        memories,
        beside,
        files: Arc::clone(&seams.files),
        file_bytes_max: FILE_BYTES_MAX,
        file_manager: file_manager(&clock),
        reader: reader(),
        library,
        readings,
        reembeddings,
        knowledge: Arc::new(datasets),
        databases: Arc::clone(&seams.databases),
        sandbox: Arc::clone(&seams.sandbox),
        models,
        model_check: Arc::new(|_: &TenantId, _: &str| Ok(None)),
        catalog: Arc::new(crate::rehearsal::catalog()),
        tool_servers,
        plugins: plugins(),
        meters: weft_app::metrics::Meters::default(),
        clock,
        probe: Arc::new(|| Box::pin(async { Ok(()) })),
        close: Arc::new(|| Box::pin(async { Ok(()) })),
    };
    let app = App::new(parts, limits);
    let router = router(ServerState::new(app.clone(), auth).unwrap());
    Bench { app, router, token: String::new(), model, store }
}

impl Bench {
    pub(crate) fn request(&self, method: &str, path: &str, body: &Json) -> Request<Body> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        request.body(body).unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reading {
        let (method, path) = (request.method().to_string(), request.uri().to_string());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 64 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let reading = Reading { status: parts.status, headers: parts.headers, text };
        crate::openapi::check(&method, &path, &reading);
        reading
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Json) -> Reading {
        self.send(self.request(method, path, &body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reading {
        self.ask("GET", path, Json::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Json) -> Reading {
        self.ask("POST", path, body).await
    }

    /// A stream that is read piece by piece.
    pub(crate) async fn open(&self, path: &str, body: Json) -> Growing {
        self.opened("POST", path, body).await
    }

    /// The same with any method.
    pub(crate) async fn opened(&self, method: &str, path: &str, body: Json) -> Growing {
        let response = self.router.clone().oneshot(self.request(method, path, &body)).await.unwrap();
        Growing { stream: response.into_body().into_data_stream(), text: String::new() }
    }

    /// Stores a canvas and returns its id.
    pub(crate) async fn store(&self, title: &str, dsl: Json) -> String {
        let created = self.post("/api/v1/agents", json!({"title": title, "dsl": dsl})).await.data();
        created["id"].as_str().unwrap().to_owned()
    }

    /// The same after a restart: only stored data is left.
    pub(crate) fn restarted(&self) -> Self {
        let settings = (Auth::On, self.app.limits.clone());
        Self { token: self.token.clone(), ..process(self.store.clone(), self.model.clone(), settings) }
    }

    /// The same server with another token.
    pub(crate) fn with(&self, token: &str) -> Self {
        let (app, router, token) = (self.app.clone(), self.router.clone(), token.to_owned());
        Self { app, router, token, model: self.model.clone(), store: self.store.clone() }
    }

    /// The same server, used by a new member of a tenant with this role who has signed in.
    pub(crate) async fn as_member(&self, tenant: &str, role: MemberRole) -> (Self, UserId) {
        let tenant = TenantId::from(tenant);
        let email = format!("{}@example.com", weft_core::id::generate());
        let user = NewUser { email: &email, nickname: "Ann", password: None };
        let user = self.app.create_user(user, &tenant, role).await.unwrap();
        let token = format!("weftlogin-{}", weft_core::id::generate());
        let login = Login {
            hash: tokens::hash(&token),
            user: user.id.clone(),
            tenant,
            created_ms: 0,
            expires_ms: i64::MAX,
            last_used_ms: None,
        };
        self.app.accounts.stores.users.add_login(&login).await.unwrap();
        (self.with(&token), user.id)
    }

    /// A token of another tenant.
    pub(crate) async fn stranger(&self) -> String {
        let tenant = TenantId::new("another");
        tokens::create(&*self.app.tokens, &tenant, "t", 0).await.unwrap().reveal().to_owned()
    }
}

pub(crate) fn default_tenant() -> TenantId {
    TenantId::new(DEFAULT_TENANT)
}

/// A model that streams these pieces and then never finishes.
pub(crate) fn endless(pieces: &[&str]) -> Reply {
    Reply::pieces(pieces.iter().copied()).then(Step::Wait(FOREVER_MS))
}

pub(crate) struct Growing {
    stream: BodyDataStream,
    pub text: String,
}

impl Growing {
    /// Reads until the text contains this.
    pub(crate) async fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            let chunk = self.stream.next().await.unwrap_or_else(|| panic!("no {part:?} in {}", self.text));
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }

    /// Reads until there are more bytes than this.
    pub(crate) async fn until_longer(&mut self, bytes: usize) {
        while self.text.len() <= bytes {
            let chunk = self.stream.next().await.unwrap_or_else(|| panic!("the stream ended: {}", self.text));
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }

    /// Reads the rest.
    pub(crate) async fn whole(mut self) -> Vec<Frame> {
        while let Some(chunk) = self.stream.next().await {
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        frames(&self.text)
    }

    pub(crate) fn frames(&self) -> Vec<Frame> {
        frames(&self.text)
    }
}
