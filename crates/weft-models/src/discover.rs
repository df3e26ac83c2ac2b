//! Selects a model when none is configured: first those for which the environment has keys, then those running on
//! this machine, then the built-in answerer.

use std::time::Duration;

use serde_json::Value as Json;

use crate::config::{ModelEntry, ModelsConfig};
use crate::factories::Provider;
use crate::secret::Secret;

/// How long a local server may take to respond to the probe.
// The start of the program waits for it, and on this machine a response takes a few milliseconds.
const PROBE_LIMIT: Duration = Duration::from_millis(300);
/// A longer response is not a valid list of models.
const PROBE_BYTES_MAX: usize = 4 << 20;

/// API keys from the environment, filled in by the code that reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundKeys {
    /// `OPENAI_API_KEY`.
    pub openai: Option<Secret>,
    /// `ANTHROPIC_API_KEY`.
    pub anthropic: Option<Secret>,
    /// `GEMINI_API_KEY`.
    pub gemini: Option<Secret>,
    /// `DEEPSEEK_API_KEY`.
    pub deepseek: Option<Secret>,
}

/// A model server on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalServer {
    /// Its wire format.
    pub provider: Provider,
    /// The base URL of its API.
    pub base_url: String,
    /// The names of its models; never empty.
    pub models: Vec<String>,
}

/// The selected configuration, and a description of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    /// The configuration.
    pub config: ModelsConfig,
    /// A description for people.
    pub sentence: String,
}

struct Hosted {
    variable: &'static str,
    factory: &'static str,
    model: &'static str,
    window: usize,
}

const OPENAI: Hosted =
    Hosted { variable: "OPENAI_API_KEY", factory: "OpenAI", model: "gpt-5-mini", window: 400_000 };
const ANTHROPIC: Hosted = Hosted {
    variable: "ANTHROPIC_API_KEY",
    factory: "Anthropic",
    model: "claude-sonnet-4-5",
    window: 200_000,
};
const GEMINI: Hosted =
    Hosted { variable: "GEMINI_API_KEY", factory: "Gemini", model: "gemini-2.5-flash", window: 1_000_000 };
const DEEPSEEK: Hosted =
    Hosted { variable: "DEEPSEEK_API_KEY", factory: "DeepSeek", model: "deepseek-chat", window: 128_000 };

/// The configuration for the detected models. The first model is the default.
pub fn discover(found: &FoundKeys, local: Option<&LocalServer>) -> Discovered {
    let hosted = [
        (OPENAI, &found.openai),
        (ANTHROPIC, &found.anthropic),
        (GEMINI, &found.gemini),
        (DEEPSEEK, &found.deepseek),
    ];
    let mut entries = Vec::new();
    let mut sources = Vec::new();
    for (hosted, key) in hosted {
        if let Some(key) = key.as_ref().filter(|key| !key.is_empty()) {
            entries.push(hosted.entry(key));
            sources.push(format!("of {}, since {} is set", hosted.factory, hosted.variable));
        }
    }
    if let Some(server) = local {
        let entry = |model: &String| ModelEntry {
            base_url: Some(server.base_url.clone()),
            ..ModelEntry::new(model, server.provider)
        };
        // After those with keys: setting a key indicates that this model is wanted.
        entries.extend(server.models.iter().map(entry));
        sources.extend(server.models.iter().map(|_| format!("of the server at {}", server.base_url)));
    }
    let sentence = match (entries.first(), sources.first()) {
        (Some(entry), Some(source)) => format!("Using the model `{}` {source}.", entry.name),
        _ => "No model was found, so the built-in answerer `extractive` is used: it quotes the given material and is \
              not a language model. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or DEEPSEEK_API_KEY, or \
              start Ollama."
            .to_owned(),
    };
    if entries.is_empty() {
        entries.push(ModelEntry::new("extractive", Provider::Extractive));
    }
    let default = entries.first().map(|entry| entry.name.clone());
    Discovered { config: ModelsConfig { default, entries, ..ModelsConfig::default() }, sentence }
}

impl Hosted {
    fn entry(&self, key: &Secret) -> ModelEntry {
        let mut entry = ModelEntry::new(self.model, Provider::OpenAi);
        entry.provider = None;
        entry.factory = Some(self.factory.to_owned());
        entry.api_key = key.clone();
        entry.window = self.window;
        entry
    }
}

/// Looks for Ollama and a llama.cpp server at their usual ports on this machine, and nowhere else.
pub async fn probe_local(client: &reqwest::Client) -> Option<LocalServer> {
    const OLLAMA: &str = "http://127.0.0.1:11434";
    const LLAMA_CPP: &str = "http://127.0.0.1:8080/v1";
    let (tags, models) = (format!("{OLLAMA}/api/tags"), format!("{LLAMA_CPP}/models"));
    let (ollama, llama) = futures::join!(
        server(client, &tags, Provider::Ollama, OLLAMA),
        server(client, &models, Provider::OpenAi, LLAMA_CPP),
    );
    ollama.or(llama)
}

async fn server(
    client: &reqwest::Client,
    url: &str,
    provider: Provider,
    base_url: &str,
) -> Option<LocalServer> {
    let asked = async {
        let mut response = client.get(url).send().await.ok()?.error_for_status().ok()?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.ok()? {
            body.extend_from_slice(&piece);
            if body.len() > PROBE_BYTES_MAX {
                return None;
            }
        }
        serde_json::from_slice::<Json>(&body).ok()
    };
    let models = names(&tokio::time::timeout(PROBE_LIMIT, asked).await.ok()??);
    (!models.is_empty()).then(|| LocalServer { provider, base_url: base_url.to_owned(), models })
}

/// The names in Ollama's `{models: [{name}]}` or in `{data: [{id}]}`, without embedding models.
fn names(list: &Json) -> Vec<String> {
    let items =
        list.get("models").filter(|items| items.pointer("/0/name").is_some()).or_else(|| list.get("data"));
    let name = |item: &Json| item.get("name").or_else(|| item.get("id"))?.as_str().map(str::to_owned);
    let all = items.and_then(Json::as_array).into_iter().flatten().filter_map(name);
    // A local server also lists its embedding models, which cannot answer messages.
    all.filter(|name| !name.contains("embed")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_take_precedence_over_local_servers_and_the_built_in_model() {
        let key = |text: &str| Some(Secret::new(text));
        let local = LocalServer {
            provider: Provider::Ollama,
            base_url: "http://127.0.0.1:11434".into(),
            models: vec!["qwen3".into()],
        };
        let check = |found: &FoundKeys, local: Option<&LocalServer>, default: &str, words: &str| {
            let discovered = discover(found, local);
            assert_eq!(discovered.config.default.as_deref(), Some(default));
            assert!(discovered.sentence.contains(words), "{}", discovered.sentence);
            assert!(!format!("{discovered:?}").contains("very-secret"));
        };
        let both =
            FoundKeys { gemini: key("very-secret"), deepseek: key("very-secret"), ..FoundKeys::default() };
        check(&both, Some(&local), "gemini-2.5-flash", "GEMINI_API_KEY is set");
        check(
            &FoundKeys { openai: key(""), ..FoundKeys::default() },
            Some(&local),
            "qwen3",
            "127.0.0.1:11434",
        );
        check(&FoundKeys::default(), None, "extractive", "not a language model");
    }

    #[test]
    fn both_model_list_formats_are_read() {
        assert_eq!(
            names(&json!({"models": [{"name": "qwen3:4b"}, {"name": "nomic-embed-text"}]})),
            ["qwen3:4b"]
        );
        assert_eq!(names(&json!({"object": "list", "data": [{"id": "a.gguf"}]})), ["a.gguf"]);
        assert_eq!(names(&json!("hello")), Vec::<String>::new());
    }
}
