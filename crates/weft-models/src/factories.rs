//! The addresses and wire formats of the factories that canvases name, in one table.

use serde::Deserialize;
use weft_core::seam::chat_model::ModelKind;

/// The wire format of a model, or a built-in answerer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// OpenAI chat completions, including all compatible servers.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama's native API.
    Ollama,
    /// Plays a script.
    Scripted,
    /// Quotes the material in its prompt.
    Extractive,
    /// A model in a folder that computes vectors in this process.
    Local,
    /// Cohere: vectors and scores.
    Cohere,
    /// Jina: vectors and scores.
    Jina,
    /// Text Embeddings Inference: vectors or scores.
    Tei,
    /// DashScope's native API: vectors and scores.
    DashScope,
    /// Voyage: vectors and scores.
    Voyage,
}

impl Provider {
    /// The name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Scripted => "scripted",
            Self::Extractive => "extractive",
            Self::Local => "local",
            Self::Cohere => "cohere",
            Self::Jina => "jina",
            Self::Tei => "tei",
            Self::DashScope => "dashscope",
            Self::Voyage => "voyage",
        }
    }
}

/// A factory: its name in canvases, its wire format, and its address if it has its own.
pub(crate) struct Factory {
    pub name: &'static str,
    pub provider: Provider,
    pub base_url: Option<&'static str>,
    /// A different wire format and address for vectors and scores.
    search: Option<(Provider, Option<&'static str>)>,
}

impl Factory {
    /// The wire format for models of a kind.
    pub(crate) fn wire(&self, kind: ModelKind) -> Provider {
        self.search(kind).map_or(self.provider, |(provider, _)| provider)
    }

    /// The address for models of a kind and a wire format.
    pub(crate) fn address(&self, wire: Provider, kind: ModelKind) -> Option<&'static str> {
        match self.search(kind).filter(|(provider, _)| *provider == wire) {
            Some((_, base_url)) => base_url,
            None => self.base_url,
        }
    }

    fn search(&self, kind: ModelKind) -> Option<(Provider, Option<&'static str>)> {
        self.search.filter(|_| matches!(kind, ModelKind::Embedding | ModelKind::Rerank))
    }

    const fn searching(self, provider: Provider, base_url: Option<&'static str>) -> Self {
        Self { search: Some((provider, base_url)), ..self }
    }
}

const fn compatible(name: &'static str, base_url: &'static str) -> Factory {
    spoken(name, Provider::OpenAi, base_url)
}

const fn own(name: &'static str) -> Factory {
    Factory { name, provider: Provider::OpenAi, base_url: None, search: None }
}

const fn spoken(name: &'static str, provider: Provider, base_url: &'static str) -> Factory {
    Factory { name, provider, base_url: Some(base_url), search: None }
}

// Saved canvases contain these names, so none of them may change.
const FACTORIES: &[Factory] = &[
    spoken("Anthropic", Provider::Anthropic, "https://api.anthropic.com/"),
    spoken("Gemini", Provider::Gemini, "https://generativelanguage.googleapis.com/v1beta/"),
    spoken("Ollama", Provider::Ollama, "http://127.0.0.1:11434/"),
    // Its compatible routes have no rerankers.
    spoken("Cohere", Provider::OpenAi, "https://api.cohere.ai/compatibility/v1")
        .searching(Provider::Cohere, Some("https://api.cohere.com")),
    spoken("Jina", Provider::Jina, "https://api.jina.ai"),
    spoken("Voyage AI", Provider::Voyage, "https://api.voyageai.com"),
    compatible("OpenAI", "https://api.openai.com/v1"),
    compatible("DeepSeek", "https://api.deepseek.com/v1"),
    compatible("Tongyi-Qianwen", "https://dashscope.aliyuncs.com/compatible-mode/v1")
        .searching(Provider::DashScope, Some("https://dashscope.aliyuncs.com")),
    compatible("Moonshot", "https://api.moonshot.cn/v1"),
    compatible("ZHIPU-AI", "https://open.bigmodel.cn/api/paas/v4"),
    compatible("MiniMax", "https://api.minimaxi.com/v1"),
    compatible("SILICONFLOW", "https://api.siliconflow.cn/v1"),
    compatible("OpenRouter", "https://openrouter.ai/api/v1"),
    compatible("StepFun", "https://api.stepfun.com/v1"),
    compatible("PPIO", "https://api.ppinfra.com/v3/openai"),
    compatible("NovitaAI", "https://api.novita.ai/v3/openai"),
    compatible("Upstage", "https://api.upstage.ai/v1/solar"),
    compatible("01.AI", "https://api.lingyiwanwu.com/v1"),
    compatible("GiteeAI", "https://ai.gitee.com/v1"),
    compatible("302.AI", "https://api.302.ai/v1"),
    compatible("CometAPI", "https://api.cometapi.com/v1"),
    compatible("DeerAPI", "https://api.deerapi.com/v1"),
    compatible("Jiekou.AI", "https://api.jiekou.ai/openai"),
    compatible("LongCat", "https://api.longcat.chat/openai"),
    compatible("Tencent Hunyuan", "https://api.hunyuan.cloud.tencent.com/v1"),
    compatible("n1n", "https://api.n1n.ai/v1"),
    compatible("Avian", "https://api.avian.io/v1"),
    compatible("aimlapi.com", "https://api.aimlapi.com/v1"),
    own("OpenAI-API-Compatible"),
    own("VLLM"),
    own("LocalAI"),
    own("LM-Studio"),
    own("Xinference"),
    own("ModelScope"),
    // Text Embeddings Inference is its server for vectors and scores.
    own("HuggingFace").searching(Provider::Tei, None),
    own("GPUStack"),
    own("xAI"),
    own("TokenPony"),
    own("VolcEngine"),
    own("NVIDIA"),
    own("TogetherAI"),
    own("DeepInfra"),
    own("Groq"),
    own("Astraflow"),
    own("FuturMix"),
    own("New API"),
    own("Perplexity"),
    own("Xiaomi"),
    own("GreenPT"),
    own("MWS"),
    own("RAGcon"),
    own("Mistral"),
    own("Azure-OpenAI"),
];

/// Suffixes that self-hosted factories add to stored model names.
const SUFFIXES: &[&str] = &["___VLLM", "___OpenAI-API", "___LocalAI", "___HuggingFace"];

/// Finds a factory by its name, ignoring case.
pub(crate) fn factory(name: &str) -> Option<&'static Factory> {
    FACTORIES.iter().find(|factory| factory.name.eq_ignore_ascii_case(name))
}

/// The name of a model at its provider, from the stored one.
pub(crate) fn plain_name(name: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}
