//! Resolving models by the ids in canvases.

use weft_core::seam::ModelDirectory as _;
use weft_core::seam::chat_model::{ChatRequest, ModelKind};
use weft_core::{ErrorKind, TenantId};
use weft_models::{Directory, ModelEntry, ModelsConfig, OneServer, Prices, Provider, Secret};
use weft_testkit::{Script, ScriptedServer};

use crate::{asked, read};

fn entry(name: &str, factory: Option<&str>) -> ModelEntry {
    let mut entry = ModelEntry::new(name, Provider::OpenAi);
    entry.base_url = Some("http://127.0.0.1:9/v1".into());
    entry.factory = factory.map(str::to_owned);
    entry
}

fn directory(config: &ModelsConfig) -> Directory {
    Directory::open(config, &weft_net::operator_client().unwrap()).unwrap()
}

fn several() -> ModelsConfig {
    let mut aliased = entry("fast", None);
    aliased.model = Some("deepseek-chat".into());
    let entries = vec![
        entry("deepseek-chat", Some("DeepSeek")),
        entry("deepseek-chat", Some("SILICONFLOW")),
        entry("qwen3-4b___VLLM", Some("VLLM")),
        entry("odd@name", None),
        aliased,
    ];
    ModelsConfig { entries, ..ModelsConfig::default() }
}

#[test]
fn ids_resolve_by_name_and_factory_then_by_name_then_by_default() {
    let strict = directory(&several());
    let check = |llm_id: &str, expected: Result<&str, &str>| {
        let found = strict.resolve(&TenantId::from("t"), llm_id).map(|model| model.info().model.clone());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{llm_id}"),
            (Err(error), Err(words)) => {
                assert_eq!(error.kind, ErrorKind::NotFound);
                assert!(error.message.starts_with("MODEL_NOT_CONFIGURED"), "{}", error.message);
                assert!(error.full().contains(words), "{llm_id}: {}", error.full());
            }
            (found, expected) => panic!("{llm_id}: {found:?}, expected {expected:?}"),
        }
    };
    check("deepseek-chat@DeepSeek", Ok("deepseek-chat"));
    check("deepseek-chat@default@deepseek", Ok("deepseek-chat"));
    check("deepseek-chat", Err("`deepseek-chat@DeepSeek`, `deepseek-chat@SILICONFLOW`"));
    check("qwen3-4b@VLLM", Ok("qwen3-4b"));
    check("qwen3-4b___VLLM@VLLM", Ok("qwen3-4b"));
    check("qwen3-4b@OpenAI", Ok("qwen3-4b"));
    check("odd@name", Ok("odd@name"));
    check("odd@name@openai", Err("not configured"));
    check("fast", Ok("deepseek-chat"));
    check("gpt-9@OpenAI", Err("use one of `deepseek-chat@DeepSeek`"));
    check("", Err("a default model"));
    let makers = strict.makers(&TenantId::from("t"));
    assert_eq!(makers, ["DeepSeek", "SILICONFLOW", "VLLM", "openai", "openai"]);
}

#[test]
fn the_default_model_substitutes_with_a_notice() {
    let directory = directory(&ModelsConfig { default: Some("fast".into()), ..several() });
    let (model, notice) = directory.resolve_with_notice("gpt-9@OpenAI").unwrap();
    assert_eq!(model.info().name, "fast");
    assert_eq!(notice.unwrap(), "the model `gpt-9@OpenAI` is not configured; `fast` is used instead");
    assert_eq!(directory.resolve_with_notice("").unwrap().1, None);
    assert_eq!(directory.resolve_with_notice("fast").unwrap().1, None);
    assert_eq!(directory.list(&TenantId::from("t")).len(), 5);
}

/// An operator may prefer no answer over another model's answer.
#[test]
fn a_strict_directory_substitutes_nothing() {
    let strict = directory(&ModelsConfig { default: Some("fast".into()), strict: true, ..several() });
    let tenant = TenantId::from("t");
    let error = strict.resolve(&tenant, "gpt-9@OpenAI").err().unwrap();
    let full = error.full();
    assert!(error.kind == ErrorKind::NotFound && full.contains("`gpt-9@OpenAI`"), "{full}");
    assert!(full.contains("`fast`") && full.contains("`models.strict`"), "{full}");
    assert_eq!(strict.substitution(&tenant, "gpt-9@OpenAI"), None);
    for known in ["", "fast", "odd@name"] {
        assert!(strict.resolve(&tenant, known).is_ok(), "{known}");
    }
    let lenient = directory(&ModelsConfig { default: Some("fast".into()), ..several() });
    let told = lenient.substitution(&tenant, "gpt-9@OpenAI").unwrap();
    assert!(told.contains("`gpt-9@OpenAI`") && told.contains("`fast`"), "{told}");
    assert_eq!(lenient.substitution(&tenant, "odd@name"), None);
}

#[test]
fn invalid_model_settings_are_named() {
    let check = |change: fn(&mut ModelEntry), part: &str| {
        let mut wrong = entry("m", None);
        change(&mut wrong);
        let config = ModelsConfig { entries: vec![entry("a", None), wrong], ..ModelsConfig::default() };
        let error = Directory::open(&config, &weft_net::operator_client().unwrap()).unwrap_err();
        let full = error.full();
        assert!(error.kind == ErrorKind::Invalid && full.contains(part) && full.contains("`m`"), "{full}");
    };
    check(|entry| entry.first_piece_seconds = Some(0.0), "`first_piece_seconds`");
    check(|entry| entry.idle_seconds = Some(f64::NAN), "`idle_seconds`");
    check(|entry| entry.answer_seconds = Some(1e300), "`answer_seconds`");
    check(|entry| entry.retries = Some(u32::MAX), "`retries`");
    check(
        |entry| entry.fallback = vec!["nobody".into()],
        "names a model that is not configured (use one of `a`",
    );
    check(|entry| entry.fallback = vec!["a".into(), "m".into()], "names the model itself");
    check(|entry| entry.fallback = vec!["a".into(), "a".into()], "names one model twice");
    check(
        |entry| {
            entry.kind = ModelKind::Embedding;
            entry.fallback = vec!["a".into()];
        },
        "the model is not a chat model",
    );
}

#[test]
fn every_kind_is_listed_but_only_answering_models_resolve() {
    let config: ModelsConfig = serde_json::from_value(serde_json::json!({"entries": [
        {"name": "gpt-4", "factory": "OpenAI", "window": 8000, "prices": {"prompt": 2.5, "completion": 10.0}},
        {"name": "gpt-4-vision", "factory": "OpenAI", "kind": "vision", "tools": false},
        {"name": "bge-m3", "factory": "OpenAI-API-Compatible", "base_url": "http://127.0.0.1:9/v1", "kind": "embedding"},
        {"name": "bge-rank", "kind": "rerank"}, {"name": "whisper", "kind": "speech"}, {"name": "voice", "kind": "tts"},
    ]}))
    .unwrap();
    let several = directory(&config);
    let tenant = TenantId::from("t");
    let listed: Vec<_> = several
        .list(&tenant)
        .into_iter()
        .map(|info| (info.name, info.kind, info.tools, info.window, info.prices))
        .collect();
    let kinds: Vec<_> = listed.iter().map(|(name, kind, ..)| (name.as_str(), *kind)).collect();
    assert_eq!(
        kinds,
        [
            ("gpt-4", ModelKind::Chat),
            ("gpt-4-vision", ModelKind::Vision),
            ("bge-m3", ModelKind::Embedding),
            ("bge-rank", ModelKind::Rerank),
            ("whisper", ModelKind::Speech),
            ("voice", ModelKind::Tts),
        ]
    );
    assert_eq!((listed[0].2, listed[0].3), (true, 8000));
    assert_eq!(listed[0].4, Some(Prices::new(2.5, 10.0)));
    assert!(!listed[1].2);
    for llm_id in ["gpt-4", "gpt-4@OpenAI", "gpt-4-vision"] {
        assert!(several.resolve(&tenant, llm_id).is_ok(), "{llm_id}");
    }
    let error = several.resolve(&tenant, "bge-m3").err().unwrap();
    assert!(
        error.message.starts_with("MODEL_NOT_CONFIGURED: the model `bge-m3` is configured for"),
        "{error:?}"
    );
    assert!(!error.full().contains("`bge-rank`"), "{}", error.full());
    // The only one that can answer is the default.
    let mut one = config;
    one.entries.remove(0);
    assert_eq!(directory(&one).resolve(&tenant, "").unwrap().info().name, "gpt-4-vision");
}

#[tokio::test]
async fn equal_requests_are_cached_if_allowed() {
    let server = ScriptedServer::start(Script::text("ok")).await;
    let mut entry = entry("m", None);
    entry.base_url = Some(server.base_url.clone());
    let twin = ModelEntry { factory: Some("VLLM".into()), ..entry.clone() };
    let mut config = ModelsConfig { entries: vec![entry, twin], ..ModelsConfig::default() };
    let ask = async |directory: &Directory, tenant: &str, llm_id: &str, cached: bool| {
        let model = directory.resolve(&TenantId::from(tenant), llm_id).unwrap();
        let (seen, error) = read(&*model, ChatRequest { cached, ..asked("hi") }).await;
        assert!(error.is_none() && seen.text == "ok");
        server.requests().len()
    };
    let kept = directory(&config);
    assert_eq!(ask(&kept, "t", "m@openai", true).await, 1);
    assert_eq!(ask(&kept, "t", "m@openai", true).await, 1);
    assert_eq!(ask(&kept, "t", "m@openai", false).await, 2);
    assert_eq!(ask(&kept, "t", "m@VLLM", true).await, 3);
    assert_eq!(ask(&kept, "u", "m@openai", true).await, 4);
    config.cache.entries = 0;
    let off = directory(&config);
    assert_eq!(ask(&off, "t", "m@openai", true).await, 5);
    assert_eq!(ask(&off, "t", "m@openai", true).await, 6);
}

#[test]
fn one_model_can_replace_all() {
    let directory = directory(&ModelsConfig { replace_all: Some("fast".into()), ..several() });
    let (model, notice) = directory.resolve_with_notice("deepseek-chat@DeepSeek").unwrap();
    assert_eq!((model.info().name.as_str(), notice), ("fast", None));
}

#[test]
fn an_invalid_directory_is_refused_at_start() {
    let client = weft_net::operator_client().unwrap();
    let check = |config: ModelsConfig, words: &str| {
        let error = Directory::open(&config, &client).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains(words) && !error.full().contains("sk-nope"), "{}", error.full());
    };
    // A value that is no variable name may be a key in the wrong place, and is not repeated.
    type Set = fn(&mut ModelsConfig, String);
    let settings: [(&str, Set, &str); 6] = [
        ("default", |config, name| config.default = Some(name), "use one of `"),
        ("replace_all", |config, name| config.replace_all = Some(name), "use one of `"),
        ("default_embedding", |config, name| config.default_embedding = Some(name), "add an entry"),
        ("default_rerank", |config, name| config.default_rerank = Some(name), "add an entry"),
        ("default_tts", |config, name| config.default_tts = Some(name), "add an entry"),
        ("default_speech", |config, name| config.default_speech = Some(name), "add an entry"),
    ];
    for (setting, set, help) in settings {
        let mut config = several();
        set(&mut config, "sk-nope".to_owned());
        check(config, &format!("`models.{setting}` names a model that is not configured ({help}"));
    }
    let of = |change: fn(&mut ModelEntry)| {
        let mut entry = entry("x", None);
        change(&mut entry);
        ModelsConfig { entries: vec![entry], ..ModelsConfig::default() }
    };
    check(of(|e| e.base_url = Some("not a url".into())), "base URL of the model `x`");
    check(of(|e| e.base_url = Some("localhost:8080/v1".into())), "does not begin with http:// or https://");
    check(of(|e| e.base_url = Some("127.0.0.1:8080/v1".into())), "such as http://127.0.0.1:8080/v1");
    check(of(|e| (e.base_url, e.factory) = (None, Some("VLLM".into()))), "set its `base_url`");
    check(of(|e| e.provider = Some(Provider::Scripted)), "set `script`");
}

#[test]
fn factories_determine_wire_and_base_url() {
    let mut deepseek = entry("deepseek-chat", Some("deepseek"));
    (deepseek.base_url, deepseek.provider) = (None, None);
    let mut claude = entry("claude", Some("Anthropic"));
    (claude.base_url, claude.provider) = (None, None);
    let directory = directory(&ModelsConfig { entries: vec![deepseek, claude], ..ModelsConfig::default() });
    let providers: Vec<String> =
        directory.list(&TenantId::from("t")).into_iter().map(|info| info.provider).collect();
    assert_eq!(providers, ["openai", "anthropic"]);
}

#[tokio::test]
async fn one_server_can_serve_every_model() {
    let server = ScriptedServer::start(Script::text("ok")).await;
    let config = |model: Option<&str>| ModelsConfig {
        one_server: Some(OneServer {
            base_url: server.base_url.clone(),
            api_key: Secret::default(),
            model: model.map(str::to_owned),
            ..OneServer::default()
        }),
        ..several()
    };
    let named = directory(&config(None));
    for llm_id in ["mock-tokens50-rounds5@OpenAI-API-Compatible", "a@b@c", "qwen___VLLM@VLLM", ""] {
        let model = named.resolve_with_notice(llm_id).unwrap().0;
        assert!(read(&*model, asked("hi")).await.1.is_none());
    }
    let fixed = directory(&config(Some("small"))).resolve_with_notice("x@y").unwrap().0;
    assert!(read(&*fixed, asked("hi")).await.1.is_none());
    let models: Vec<String> = server.requests().into_iter().map(|request| request.model).collect();
    assert_eq!(models, ["mock-tokens50-rounds5", "a", "qwen", "default", "small"]);
    assert_eq!(server.requests()[0].key, None);
}

#[test]
fn one_server_does_not_cache_models_with_oversized_names() {
    let server = OneServer { base_url: "http://127.0.0.1:9/v1".into(), ..OneServer::default() };
    let directory = directory(&ModelsConfig { one_server: Some(server), ..ModelsConfig::default() });
    let same = |llm_id: &str| {
        let model = || directory.resolve_with_notice(llm_id).unwrap().0;
        std::sync::Arc::ptr_eq(&model(), &model())
    };
    assert!(same("small"));
    assert!(!same(&"x".repeat(1 << 20)));
}

#[tokio::test]
async fn a_script_is_read_from_a_file() {
    let path = std::env::temp_dir().join(format!("weft-script-{}.toml", std::process::id()));
    std::fs::write(&path, "[[replies]]\ntext = \"from the file\"\ntimes = 0\n").unwrap();
    let mut scripted = ModelEntry::new("s", Provider::Scripted);
    scripted.script = Some(path.clone());
    let directory = directory(&ModelsConfig { entries: vec![scripted], ..ModelsConfig::default() });
    std::fs::remove_file(&path).unwrap();
    let (seen, error) = read(&*directory.resolve_with_notice("anything").unwrap().0, asked("hi")).await;
    assert_eq!((seen.text.as_str(), error.is_none()), ("from the file", true));
}

/// As often as the canvas or the entry says, and not at all when neither does.
#[tokio::test(start_paused = true)]
async fn a_scripted_model_is_asked_again_as_often_as_it_was_set() {
    let path = std::env::temp_dir().join(format!("weft-script-retried-{}.toml", std::process::id()));
    let busy = "[[replies]]\ntimes = 2\nsay = [{error = {kind = \"rate_limited\", message = \"busy\"}}]\n";
    std::fs::write(&path, format!("{busy}[[replies]]\ntext = \"at last\"\n")).unwrap();
    let check = async |of_entry: Option<u32>, of_canvas: Option<u32>, expected: &str| {
        let scripted = ModelEntry {
            script: Some(path.clone()),
            retries: of_entry,
            ..ModelEntry::new("s", Provider::Scripted)
        };
        let directory = directory(&ModelsConfig { entries: vec![scripted], ..ModelsConfig::default() });
        let model = directory.resolve_with_notice("s").unwrap().0;
        let (seen, error) = read(&*model, ChatRequest { retries_max: of_canvas, ..asked("hi") }).await;
        let told = error.map_or(seen.text, |error| error.message);
        assert_eq!(told, expected, "{of_entry:?} {of_canvas:?}");
    };
    check(None, None, "busy").await;
    check(None, Some(3), "at last").await;
    check(None, Some(1), "busy (asked 2 times)").await;
    check(Some(2), None, "at last").await;
    check(Some(2), Some(0), "busy").await;
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn keys_come_from_the_environment_and_are_never_shown() {
    let mut keyed = entry("m", None);
    keyed.api_key_env = Some("SOME_KEY".into());
    let config = ModelsConfig { entries: vec![keyed], ..ModelsConfig::default() };
    let filled = config.clone().with_keys(|name| (name == "SOME_KEY").then(|| "the-key".into())).unwrap();
    assert_eq!(filled.entries[0].api_key.reveal(), "the-key");
    assert!(!format!("{filled:?}").contains("the-key"));
    assert!(config.clone().with_keys(|_| None).unwrap_err().message.contains("SOME_KEY (for `m`)"));
    // The key itself in the wrong place.
    let mut mistaken = config;
    mistaken.entries[0].api_key_env = Some("sk-Abc123".into());
    let error = mistaken.with_keys(|_| None).unwrap_err().message;
    assert!(error.contains("`api_key_env` of `m`") && !error.contains("Abc"), "{error}");
}

/// A name with a factory and a bare one are sent to their provider under the names known there.
#[tokio::test]
async fn each_id_reaches_its_provider() {
    let deepseek = ScriptedServer::start(Script::text("from deepseek")).await;
    let openai = ScriptedServer::start(Script::text("from openai")).await;
    let at = |name: &str, factory: &str, server: &ScriptedServer| {
        let mut entry = entry(name, Some(factory));
        entry.base_url = Some(server.base_url.clone());
        entry
    };
    let entries = vec![
        at("deepseek-chat", "DeepSeek", &deepseek),
        at("gpt-4", "OpenAI", &openai),
        at("deepseek-chat", "OpenAI", &openai),
    ];
    let directory = directory(&ModelsConfig { entries, ..ModelsConfig::default() });
    let tenant = TenantId::from("t");
    for (llm_id, expected) in [
        ("deepseek-chat@DeepSeek", "from deepseek"),
        ("gpt-4", "from openai"),
        ("gpt-4@OpenAI", "from openai"),
        ("deepseek-chat@OpenAI", "from openai"),
    ] {
        let (seen, error) = read(&*directory.resolve(&tenant, llm_id).unwrap(), asked("hi")).await;
        assert_eq!((seen.text.as_str(), error.is_none()), (expected, true), "{llm_id}");
    }
    let models = |server: &ScriptedServer| -> Vec<String> {
        server.requests().into_iter().map(|request| request.model).collect()
    };
    assert_eq!(models(&deepseek), ["deepseek-chat"]);
    assert_eq!(models(&openai), ["gpt-4", "gpt-4", "deepseek-chat"]);
}
