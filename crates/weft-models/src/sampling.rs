//! Which sampling parameters a model supports, and under which names. One table; parameters that are left out are
//! reported.

use serde_json::{Map, Value as Json, json};
use weft_core::seam::chat_model::Sampling;

use crate::config::StructuredOutput;

/// The address of a model, by which rules are selected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelAddress<'a> {
    pub provider: &'a str,
    pub base_url: &'a str,
    pub model: &'a str,
}

/// What is sent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Settled {
    /// The parameters under the provider's names.
    pub params: Map<String, Json>,
    /// What was left out or changed.
    pub warnings: Vec<String>,
    /// How the answer's schema is requested.
    pub schema: SchemaMode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SchemaMode {
    /// With the schema itself.
    #[default]
    Schema,
    /// Only as JSON.
    JsonOnly,
    /// Not at all: it is in the prompt.
    Nothing,
}

struct SamplingRule {
    fits: Fits,
    actions: &'static [SamplingAction],
}

/// A rule applies when all its given parts match; model patterns match parts of the lower-case name.
struct Fits {
    provider: &'static str,
    hosts: &'static [&'static str],
    models: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum SamplingAction {
    Drop(&'static [&'static str]),
    Rename(&'static str, &'static str),
    Clamp(&'static str, f64, f64),
    Set(&'static str, f64),
    /// Switches reasoning with `{name: {"type": "enabled"}}`; the second value is sent when the request sets nothing.
    ThinkingType(&'static str, Option<bool>),
    /// The same as `{name: true}`.
    ThinkingFlag(&'static str, Option<bool>),
    JsonOnly,
}

use SamplingAction::{Clamp, Drop, JsonOnly, Rename, Set, ThinkingFlag, ThinkingType};

const ANY: &[&str] = &[];
const PENALTIES: &[&str] = &["presence_penalty", "frequency_penalty"];

const RULES: &[SamplingRule] = &[
    SamplingRule {
        fits: Fits {
            provider: "openai",
            hosts: &["api.openai.com", "azure.com"],
            models: &["gpt-5", "o1", "o3", "o4"],
        },
        actions: &[
            // Reasoning models reject these, and have a different name for the limit.
            Drop(&["temperature", "top_p", "presence_penalty", "frequency_penalty"]),
            Rename("max_tokens", "max_completion_tokens"),
        ],
    },
    SamplingRule {
        fits: Fits { provider: "", hosts: ANY, models: &["opus-4-7", "opus-4.7", "opus-4-8", "opus-4.8"] },
        actions: &[Drop(&["temperature", "top_p", "top_k"])],
    },
    SamplingRule {
        fits: Fits { provider: "anthropic", hosts: ANY, models: ANY },
        // Canvases use OpenAI's range of temperatures, which goes up to 2.
        actions: &[Drop(PENALTIES), Clamp("temperature", 0.0, 1.0)],
    },
    SamplingRule { fits: Fits { provider: "gemini", hosts: ANY, models: ANY }, actions: &[Drop(PENALTIES)] },
    SamplingRule { fits: Fits { provider: "ollama", hosts: ANY, models: ANY }, actions: &[Drop(PENALTIES)] },
    SamplingRule {
        fits: Fits { provider: "openai", hosts: &["aliyuncs.com"], models: &["qwen3"] },
        actions: &[ThinkingFlag("enable_thinking", Some(false))],
    },
    SamplingRule {
        fits: Fits { provider: "openai", hosts: &["deepseek.com"], models: &["reasoner"] },
        actions: &[ThinkingType("thinking", None), JsonOnly],
    },
    SamplingRule {
        fits: Fits { provider: "openai", hosts: &["deepseek.com"], models: &["chat", "v3", "v4"] },
        actions: &[ThinkingType("thinking", Some(false)), JsonOnly],
    },
    SamplingRule {
        fits: Fits { provider: "openai", hosts: ANY, models: &["kimi-k2.5", "kimi-k2.6"] },
        actions: &[
            Drop(&["temperature", "presence_penalty", "frequency_penalty"]),
            Set("top_p", 0.95),
            ThinkingType("thinking", None),
        ],
    },
    SamplingRule {
        fits: Fits { provider: "openai", hosts: &["bigmodel.cn", "z.ai"], models: ANY },
        actions: &[ThinkingType("thinking", None), JsonOnly],
    },
    SamplingRule {
        fits: Fits { provider: "openai", hosts: &["hunyuan"], models: ANY },
        actions: &[Drop(PENALTIES)],
    },
];

impl Fits {
    fn asked(&self, asked: ModelAddress<'_>) -> bool {
        let name = asked.model.rsplit('/').next().unwrap_or(asked.model).to_lowercase();
        // A short pattern such as `o1` has to be at the beginning of the name, as it would match anywhere otherwise.
        let model = |part: &&str| if part.len() < 3 { name.starts_with(part) } else { name.contains(part) };
        (self.provider.is_empty() || self.provider == asked.provider)
            && (self.hosts.is_empty() || self.hosts.iter().any(|host| is_at(asked.base_url, host)))
            && (self.models.is_empty() || self.models.iter().any(model))
    }
}

/// Whether an address belongs to a host: directly, or through a gateway that has the host in its path.
fn is_at(address: &str, host: &str) -> bool {
    // Whole parts of a name: `z.ai` must not match `quiz.ai`.
    let goes_on = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    address.match_indices(host).any(|(at, found)| {
        let bytes = address.as_bytes();
        !goes_on(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !goes_on(bytes.get(at + found.len()))
    })
}

/// Applies the table to the parameters of a request.
pub(crate) fn settle(asked: ModelAddress<'_>, sampling: &Sampling) -> Settled {
    let mut settled = Settled { params: wanted(sampling), ..Settled::default() };
    let mut thinking = sampling.thinking;
    // Ollama, Anthropic and Gemini set this in their own wire formats.
    let native = asked.provider != "openai";
    for rule in RULES.iter().filter(|rule| rule.fits.asked(asked)) {
        for action in rule.actions {
            settled.apply(asked.model, *action, &mut thinking);
        }
    }
    if asked.provider == "anthropic" && sampling.thinking == Some(true) {
        // Rejected in combination.
        settled.apply(asked.model, Drop(&["temperature", "top_p"]), &mut thinking);
    }
    if let Some(wanted) = thinking.filter(|_| !native) {
        let what = if wanted { "enabled" } else { "disabled" };
        settled
            .warnings
            .push(format!("`{}` has no known switch for reasoning; `{what}` was not sent", asked.model));
    }
    settled
}

fn wanted(sampling: &Sampling) -> Map<String, Json> {
    let numbers = [
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("presence_penalty", sampling.presence_penalty),
        ("frequency_penalty", sampling.frequency_penalty),
    ];
    let mut params: Map<String, Json> =
        numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect();
    params
        .extend(sampling.max_tokens.filter(|max| *max > 0).map(|max| ("max_tokens".to_owned(), json!(max))));
    params
}

impl Settled {
    /// Applies the operator's setting for the form of answers, which takes precedence over the table.
    pub(crate) fn with_form(self, form: Option<StructuredOutput>) -> Self {
        let schema = match form {
            None => self.schema,
            Some(StructuredOutput::Schema) => SchemaMode::Schema,
            Some(StructuredOutput::Json) => SchemaMode::JsonOnly,
            Some(StructuredOutput::Prompt) => SchemaMode::Nothing,
        };
        Self { schema, ..self }
    }

    fn apply(&mut self, model: &str, action: SamplingAction, thinking: &mut Option<bool>) {
        match action {
            Drop(names) => {
                let dropped: Vec<_> =
                    names.iter().filter(|name| self.params.shift_remove(**name).is_some()).copied().collect();
                if !dropped.is_empty() {
                    self.warnings.push(format!("`{model}` does not accept {}; not sent", dropped.join(", ")));
                }
            }
            Rename(from, to) => {
                if let Some(value) = self.params.shift_remove(from) {
                    self.params.insert(to.to_owned(), value);
                }
            }
            Clamp(name, low, high) => {
                let Some(value) = self.params.get(name).and_then(Json::as_f64) else { return };
                if !(low..=high).contains(&value) {
                    self.params.insert(name.to_owned(), json!(value.clamp(low, high)));
                    self.warnings
                        .push(format!("`{model}` accepts {name} from {low} to {high}; {value} was adjusted"));
                }
            }
            Set(name, value) => {
                self.params.insert(name.to_owned(), json!(value));
            }
            ThinkingType(name, unasked) => {
                if let Some(on) = thinking.take().or(unasked) {
                    self.params
                        .insert(name.to_owned(), json!({"type": if on { "enabled" } else { "disabled" }}));
                }
            }
            ThinkingFlag(name, unasked) => {
                if let Some(on) = thinking.take().or(unasked) {
                    self.params.insert(name.to_owned(), json!(on || model.contains("-preview")));
                }
            }
            JsonOnly => self.schema = SchemaMode::JsonOnly,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Sampling {
        Sampling {
            temperature: Some(1.5),
            top_p: Some(0.3),
            presence_penalty: Some(0.4),
            frequency_penalty: Some(0.7),
            max_tokens: Some(99),
            thinking: None,
        }
    }

    fn check(
        provider: &str,
        base_url: &str,
        model: &str,
        thinking: Option<bool>,
        expected: &Json,
    ) -> Settled {
        let settled = settle(ModelAddress { provider, base_url, model }, &Sampling { thinking, ..all() });
        assert_eq!(&Json::Object(settled.params.clone()), expected, "{provider} {base_url} {model}");
        settled
    }

    #[test]
    fn parameters_fit_the_model_and_the_token_limit_is_always_sent() {
        let plain = json!({"temperature": 1.5, "top_p": 0.3, "presence_penalty": 0.4, "frequency_penalty": 0.7, "max_tokens": 99});
        assert!(check("openai", "http://127.0.0.1:8000/v1", "qwen2", None, &plain).warnings.is_empty());
        let settled = check(
            "openai",
            "https://api.openai.com/v1",
            "gpt-5-mini",
            None,
            &json!({"max_completion_tokens": 99}),
        );
        assert_eq!(
            settled.warnings,
            [
                "`gpt-5-mini` does not accept temperature, top_p, presence_penalty, frequency_penalty; not sent"
            ]
        );
        check("openai", "https://api.openai.com/v1", "o3", None, &json!({"max_completion_tokens": 99}));
        let settled = check(
            "anthropic",
            "",
            "claude-sonnet-4-6",
            None,
            &json!({"temperature": 1.0, "top_p": 0.3, "max_tokens": 99}),
        );
        assert_eq!(settled.warnings.len(), 2);
        check("anthropic", "", "claude-sonnet-4-6", Some(true), &json!({"max_tokens": 99}));
        check("anthropic", "", "claude-opus-4-8", None, &json!({"max_tokens": 99}));
        let kept = json!({"temperature": 1.5, "top_p": 0.3, "max_tokens": 99});
        check("openai", "https://api.hunyuan.cloud.tencent.com/v1", "hunyuan-pro", None, &kept);
    }

    #[test]
    fn reasoning_is_switched_as_each_family_expects() {
        let asked = |base_url: &str, model: &str, thinking: Option<bool>| {
            settle(
                ModelAddress { provider: "openai", base_url, model },
                &Sampling { thinking, ..Sampling::default() },
            )
        };
        let deepseek = "https://api.deepseek.com/v1";
        assert_eq!(asked(deepseek, "deepseek-chat", None).params["thinking"], json!({"type": "disabled"}));
        assert_eq!(
            asked(deepseek, "deepseek-chat", Some(true)).params["thinking"],
            json!({"type": "enabled"})
        );
        assert_eq!(asked(deepseek, "deepseek-reasoner", None).params.get("thinking"), None);
        let qwen = "https://dashscope.aliyuncs.com/compatible-mode/v1";
        assert_eq!(asked(qwen, "qwen3-max", None).params["enable_thinking"], json!(false));
        assert_eq!(asked(qwen, "qwen3-max-preview", None).params["enable_thinking"], json!(true));
        assert_eq!(asked("http://x", "llama", Some(true)).warnings.len(), 1);
        assert_eq!(asked("http://x", "llama", None).warnings.len(), 0);
        let switched = |base_url: &str| asked(base_url, "glm", Some(true)).params.contains_key("thinking");
        for known in ["https://api.z.ai/v4", "https://z.ai", "https://gateway.example/z.ai/v4"] {
            assert!(switched(known), "{known}");
        }
        for other in ["https://api.quiz.ai/v1", "https://z.aiven.example/v1", "https://x-z.ai/v1"] {
            assert!(!switched(other), "{other}");
        }
    }
}
